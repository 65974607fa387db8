/* See mem.h. Invariant: a size that overflows ends the program, as a lack of memory does. */
#include <sys/random.h>

#include "base/base.h"

void *mem_checked(void *pointer) {
    xensure(pointer);
    return pointer;
}

void xensure(bool succeeded) {
    if (!succeeded)
        abort();
}

void xrandom(void *bytes, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = getrandom((char *)bytes + done, len - done, 0);
        xensure(n > 0 || errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
}

/* malloc(0) may return NULL. */
void *xmalloc(size_t size) {
    return mem_checked(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size) {
    return mem_checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *old, size_t size) {
    return mem_checked(realloc(old, size ? size : 1));
}

char *xstrdup(const char *text) {
    return mem_checked(strdup(text));
}

char *xstrndup(const char *text, size_t len) {
    return mem_checked(strndup(text, len));
}

char *xasprintf(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    return mem_checked(len < 0 ? NULL : text);
}

void *vec_room(void *items, size_t *cap, size_t need, size_t size) {
    if (items && need <= *cap)
        return items;
    size_t grown = *cap ? *cap * 2 : 8;
    if (grown < need)
        grown = need;
    xensure(grown <= SIZE_MAX / size);
    *cap = grown;
    return xrealloc(items, grown * size);
}
