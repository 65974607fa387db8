/* Any bytes as a pattern against any bytes as a path: nothing is read outside, and a step by itself agrees with the
 * whole match. The first byte says where the pattern ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runner/ops/globmatch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t pattern_len = data[0] % size;
    char *pattern = malloc(pattern_len + 1), *path = malloc(size - pattern_len);
    memcpy(pattern, data + 1, pattern_len);
    memcpy(path, data + 1 + pattern_len, size - 1 - pattern_len);
    path[size - 1 - pattern_len] = 0;
    struct glob glob;
    const char *why = glob_compile(&glob, pattern, pattern_len);
    free(pattern);
    if (!why) {
        assert(glob.count > 0 && glob.count <= GLOB_PARTS);
        assert(glob_alive(&glob.start));
        bool whole = glob_match(&glob, path);
        if (!strchr(path, '/'))
            assert(whole == glob_step(&glob, &glob.start, path, strlen(path), NULL));
    }
    glob_done(&glob);
    free(path);
    return 0;
}
