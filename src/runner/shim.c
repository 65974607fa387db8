/* Functions that Debian's archives of pcre2 and nettle, built for glibc, lack when linked with musl: the checking
 * variants of string functions, and nettle's choice of code by CPU. Called only by those archives. Invariant: a failed
 * check aborts, as in glibc. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room);
void *__memmove_chk(void *to, const void *from, size_t len, size_t room);
void *__memset_chk(void *to, int byte, size_t len, size_t room);
int __fprintf_chk(FILE *file, int flag, const char *format, ...);

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room) {
    xensure(len <= room);
    return memcpy(to, from, len);
}

void *__memmove_chk(void *to, const void *from, size_t len, size_t room) {
    xensure(len <= room);
    return memmove(to, from, len);
}

void *__memset_chk(void *to, int byte, size_t len, size_t room) {
    xensure(len <= room);
    return memset(to, byte, len);
}

/* used by nettle for complaints, which no one reads in a box */
int __fprintf_chk(FILE *, int, const char *, ...) {
    return 0;
}

#ifdef __x86_64__
#include <cpuid.h>

/* nettle chooses its code in a constructor, whose CPUID instructions trap in a virtual machine and would slow down the
 * start of every box. This replaces it: the same choice, made when something is hashed. */
void _nettle_sha256_compress_x86_64(uint32_t *state, const uint8_t *input, const uint32_t *constants);
void _nettle_sha256_compress_sha_ni(uint32_t *state, const uint8_t *input, const uint32_t *constants);
void _nettle_sha256_compress(uint32_t *state, const uint8_t *input, const uint32_t *constants);

void _nettle_sha256_compress(uint32_t *state, const uint8_t *input, const uint32_t *constants) {
    static void (*chosen)(uint32_t *, const uint8_t *, const uint32_t *);
    if (!chosen) {
        unsigned a, b = 0, c, d;
        bool sha_ni = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
        chosen = sha_ni ? _nettle_sha256_compress_sha_ni : _nettle_sha256_compress_x86_64;
    }
    chosen(state, input, constants);
}
#endif
