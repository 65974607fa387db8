/* Memory that cannot fail: the program ends where the machine has no memory left. Only for amounts that are bounded before. */
#ifndef CUBBY_BASE_MEM_H
#define CUBBY_BASE_MEM_H

#include <stddef.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1, 2)));
void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull, alloc_size(2)));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* A growing array is a pointer, a count and a capacity. Makes room for `more` elements after count. */
void *vec_room(void *items, size_t *cap, size_t need, size_t size) __attribute__((returns_nonnull));
#define vec_reserve(items, count, cap, more)                                                                           \
    do {                                                                                                               \
        size_t vec_cap_ = (cap);                                                                                       \
        (items) = vec_room((items), &vec_cap_, (size_t)(count) + (more), sizeof *(items));                             \
        (cap) = vec_cap_;                                                                                              \
    } while (0)
#define vec_add(items, count, cap)                                                                                     \
    (*({                                                                                                               \
        vec_reserve(items, count, cap, 1);                                                                             \
        &(items)[(count)++];                                                                                           \
    }))

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
