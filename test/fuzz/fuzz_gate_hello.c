/* Any bytes as what a TLS client sends first: a name that is found is one that a policy can hold, and no piece of the
 * bytes gives another name than all of them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gate/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum hello parse(const uint8_t *data, size_t size, char name[GATE_NAME_BYTES + 1]) {
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    enum hello result = hello_parse(copy, size, name);
    free(copy);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char whole[GATE_NAME_BYTES + 1], part[GATE_NAME_BYTES + 1], again[GATE_NAME_BYTES + 1];
    enum hello result = parse(data, size, whole);
    if (result == HELLO_NAME)
        assert(gate_name(whole, strlen(whole), again, ERR_IGNORED) == 0 && strcmp(whole, again) == 0);
    size_t step = size / 16 + 1;
    for (size_t at = step; at < size; at += step) {
        enum hello early = parse(data, at, part);
        assert(early != HELLO_NAME || (result == HELLO_NAME && strcmp(part, whole) == 0));
    }
    return 0;
}
