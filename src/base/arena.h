/* Memory of one request: allocate freely, free once. Out of memory aborts; a part cannot be freed. */
#ifndef CUBBY_BASE_ARENA_H
#define CUBBY_BASE_ARENA_H

#include <stddef.h>

struct arena {
    struct arena_block *blocks;
};

#define ARENA_EMPTY ((struct arena){.blocks = NULL}) /* `autoarena arena = ARENA_EMPTY;` */
void arena_init(struct arena *arena);
/* Begins with memory of the caller's, which outlives the arena: 16-aligned, larger than 64 bytes, not zeroed. */
void arena_init_in(struct arena *arena, void *memory, size_t size);
void arena_done(struct arena *arena);                                /* frees everything; safe twice */
void *arena_alloc(struct arena *arena, size_t size);                 /* zeroed, aligned to 16 */
char *arena_copy(struct arena *arena, const void *data, size_t len); /* with a NUL after it */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strdup_or(struct arena *arena, const char *text); /* NULL stays NULL */
const char **arena_list(struct arena *arena, const char *const *list,
                        size_t *ret_count); /* a copy; may be NULL, both */
/* The next element of a growing array (pointer, count, capacity) in an arena, zeroed; smaller copies stay until its
 * end. */
void *arena_room(struct arena *arena, void *items, size_t count, size_t *cap, size_t size);
#define arena_add(arena, items, count, cap)                                                                            \
    (*((items) = arena_room(arena, items, count, &(cap), sizeof *(items)), &(items)[(count)++]))
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define autoarena __attribute__((cleanup(arena_done))) struct arena

#endif
