/* Memory that cannot fail: the program ends where the machine has no memory left. Only for amounts that are bounded
 * before. */
#ifndef CUBBY_BASE_MEM_H
#define CUBBY_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1, 2)));
void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull, alloc_size(2)));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
/* The result of a library's function that fails only without memory, or without a descriptor while a program starts. */
#define xchecked(pointer) ((__typeof__(pointer))mem_checked(pointer))
void *mem_checked(void *pointer) __attribute__((returns_nonnull));
void xensure(bool succeeded);
void xrandom(void *bytes, size_t len); /* from the kernel */

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

/* Lists by `next`. append: at its end. */
#define list_append(head, item)                                                                                        \
    do {                                                                                                               \
        __typeof__(&(head)) link_ = &(head);                                                                           \
        while (*link_)                                                                                                 \
            link_ = &(*link_)->next;                                                                                   \
        (item)->next = NULL;                                                                                           \
        *link_ = (item);                                                                                               \
    } while (0)
#define list_remove(head, item) /* true: it was in it */                                                               \
    ({                                                                                                                 \
        __typeof__(&(head)) link_ = &(head);                                                                           \
        while (*link_ && *link_ != (item))                                                                             \
            link_ = &(*link_)->next;                                                                                   \
        bool found_ = *link_;                                                                                          \
        if (found_)                                                                                                    \
            *link_ = (item)->next;                                                                                     \
        found_;                                                                                                        \
    })
#define list_push(head, item) ((item)->next = (head), (head) = (item))
#define list_find(head, item, condition) /* the first for which it holds, named `item` there; NULL: none */            \
    ({                                                                                                                 \
        __typeof__(head) item = (head);                                                                                \
        while (item && !(condition))                                                                                   \
            item = item->next;                                                                                         \
        item;                                                                                                          \
    })

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
