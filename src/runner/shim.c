/* What Debian's archives of pcre2 and nettle, built for glibc, miss when linked with musl: the checking variants of
 * string functions, and nettle's choice of code by CPU. Called by those archives only. Not to break: a check that fails
 * aborts, as it does in glibc. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room);
void *__memmove_chk(void *to, const void *from, size_t len, size_t room);
void *__memset_chk(void *to, int byte, size_t len, size_t room);
int __fprintf_chk(FILE *file, int flag, const char *format, ...);

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room) {
    if (len > room)
        abort();
    return memcpy(to, from, len);
}

void *__memmove_chk(void *to, const void *from, size_t len, size_t room) {
    if (len > room)
        abort();
    return memmove(to, from, len);
}

void *__memset_chk(void *to, int byte, size_t len, size_t room) {
    if (len > room)
        abort();
    return memset(to, byte, len);
}

/* nettle complains with it, to nobody in a box */
int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
    (void)file;
    (void)flag;
    (void)format;
    return 0;
}
