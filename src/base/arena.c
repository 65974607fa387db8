/* Per-request memory: a list of blocks, freed together. Called by all that serve one request. */

#include "base/base.h"

enum { ARENA_BLOCK_BYTES = 3968 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    bool given; /* by the caller: not ours to free, not zeroed */
    _Alignas(16) uint8_t data[];
};

void arena_init(struct arena *arena) {
    arena->blocks = NULL;
}

void arena_init_in(struct arena *arena, void *memory, size_t size) {
    struct arena_block *block = memory;
    *block = (struct arena_block){.size = size - sizeof *block, .given = true};
    arena->blocks = block;
}

void arena_done(struct arena *arena) {
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        if (!arena->blocks->given)
            free(arena->blocks);
        arena->blocks = next;
    }
}

void *arena_alloc(struct arena *arena, size_t size) {
    xensure(size <= SIZE_MAX / 2);
    size = (size + 15) & ~(size_t)15;
    struct arena_block *block = arena->blocks;
    if (!block || size > block->size - block->used) {
        size_t room = size > ARENA_BLOCK_BYTES ? size : ARENA_BLOCK_BYTES;
        block = xcalloc(1, sizeof *block + room);
        block->size = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *at = block->data + block->used;
    block->used += size;
    return block->given ? memset(at, 0, size) : at;
}

void *arena_room(struct arena *arena, void *items, size_t count, size_t *cap, size_t size) {
    if (count < *cap)
        return items;
    *cap = *cap ? 2 * *cap : 16;
    void *larger = arena_alloc(arena, *cap * size);
    return count ? memcpy(larger, items, count * size) : larger;
}

char *arena_copy(struct arena *arena, const void *data, size_t len) {
    char *at = arena_alloc(arena, len + 1);
    if (len)
        memcpy(at, data, len);
    at[len] = 0;
    return at;
}

char *arena_strdup(struct arena *arena, const char *text) {
    return arena_copy(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    xensure(n >= 0);
    char *at = arena_alloc(arena, (size_t)n + 1);
    vsnprintf(at, (size_t)n + 1, format, again);
    va_end(again);
    return at;
}

char *arena_strdup_or(struct arena *arena, const char *text) {
    return text ? arena_strdup(arena, text) : NULL;
}

const char **arena_list(struct arena *arena, const char *const *list, size_t *ret_count) {
    size_t count = text_list_count(list);
    const char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, list[i]);
    if (ret_count)
        *ret_count = count;
    return copy;
}
