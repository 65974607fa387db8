/* Any bytes as an archive's heads: parsed one after the other as op_tar does it, extensions included. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tarfmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes the checksum right, or no input would come further than that. */
static void repair(uint8_t block[TAR_BLOCK_BYTES]) {
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += block[i];
    for (int i = 5; i >= 0; i--, sum >>= 3)
        block[148 + i] = (uint8_t)('0' + (sum & 7));
    block[154] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct tar_entry entry;
    tar_reset(&entry);
    while (size >= TAR_BLOCK_BYTES) {
        uint8_t block[TAR_BLOCK_BYTES];
        bool zero;
        memcpy(block, data, sizeof block);
        repair(block);
        data += sizeof block;
        size -= sizeof block;
        if (tar_parse(block, &entry, &zero) || zero)
            return 0;
        if (strchr("xgLK", entry.type)) {
            size_t len = entry.size < size ? (size_t)entry.size : size;
            char *copy = malloc(len + !len);
            memcpy(copy, data, len);
            const char *why = tar_extend(&entry, entry.type, copy, len);
            free(copy);
            if (why)
                return 0;
            data += len;
            size -= len;
            continue;
        }
        const char *why, *safe = tar_safe_name(entry.name, &why);
        assert(!safe == (why != NULL));
        assert(!safe || (safe[0] != '/' && strncmp(safe, "../", 3) != 0 && !strstr(safe, "/../")));
        tar_reset(&entry);
    }
    return 0;
}
