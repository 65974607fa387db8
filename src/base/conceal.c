/* Removes secrets from streams. Called by the runner for the output of a command, by tools for texts to a model.
 * Invariant: no byte is sent while a value may still begin at or before it: half a secret is a secret.
 *
 * Every value runs its own automaton (Knuth, Morris, Pratt) over the stream. `state` bytes of it match the last
 * input, so bytes before position - max(state) are decided. Matches are kept as ranges that do not overlap, in
 * order; one that begins in the decided part has its mark written at once and only swallows from then on. */
#include "base/base.h"
#include "base/conceal.h"
#include "base/json.h"

struct conceal_value {
    uint8_t *bytes;
    uint8_t *text;      /* that takes its place; NULL: CONCEAL_TEXT */
    uint32_t *fallback; /* how much of the value still matches when its byte n + 1 does not */
    size_t len, state;
};

struct conceal_range {
    uint64_t begin, end; /* positions in the stream */
    bool written;        /* its mark is */
};

struct conceal {
    struct conceal_value *values;
    size_t count;
    bool first[256]; /* some value begins with this byte */
    size_t longest;  /* state of all values now */
    struct buf held; /* the bytes from `base` on */
    uint64_t base, position;
    struct conceal_range *ranges;
    size_t range_count, range_cap;
};

enum { CONCEAL_PIECE_BYTES = 65536 };

/* ---- the values ---- */

static void conceal_add(struct conceal *conceal, const void *bytes, size_t len) {
    if (len < CONCEAL_MIN_BYTES)
        return;
    for (size_t i = 0; i < conceal->count; i++)
        if (conceal->values[i].len == len && memcmp(conceal->values[i].bytes, bytes, len) == 0)
            return;
    struct conceal_value *value = &conceal->values[conceal->count++];
    *value =
        (struct conceal_value){.bytes = xcalloc(len, 1), .fallback = xcalloc(len, sizeof *value->fallback), .len = len};
    memcpy(value->bytes, bytes, len);
    for (size_t i = 1, matched = 0; i < len; i++) {
        while (matched && value->bytes[i] != value->bytes[matched])
            matched = value->fallback[matched - 1];
        matched += value->bytes[i] == value->bytes[matched];
        value->fallback[i] = (uint32_t)matched;
    }
    conceal->first[value->bytes[0]] = true;
}

struct conceal *conceal_new(const char *const *rows) {
    size_t count = text_list_count(rows);
    if (count == 0)
        return NULL;
    struct conceal *conceal = xcalloc(1, sizeof *conceal);
    conceal->values = xcalloc(3 * count, sizeof *conceal->values);
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(rows[i], '=');
        if (!equals)
            continue;
        const char *value = equals + 1;
        size_t len = strlen(value), bare = len;
        while (bare && strchr(" \t\r\n", value[bare - 1]))
            bare--;
        autobuf quoted = buf_max(6 * len + 3);
        struct json json;
        json_init(&json, &quoted);
        json_strn(&json, value, len);
        conceal_add(conceal, value, len);
        conceal_add(conceal, value, bare);
        if (!quoted.failed && quoted.len > 2)
            conceal_add(conceal, quoted.data + 1, quoted.len - 2);
    }
    size_t longest = 0;
    for (size_t i = 0; i < conceal->count; i++)
        longest = conceal->values[i].len > longest ? conceal->values[i].len : longest;
    buf_init(&conceal->held, longest + CONCEAL_PIECE_BYTES);
    if (conceal->count)
        return conceal;
    conceal_free(conceal);
    return NULL;
}

struct conceal *conceal_swaps(void) {
    struct conceal *conceal = xcalloc(1, sizeof *conceal);
    buf_init(&conceal->held, CONCEAL_PIECE_BYTES);
    return conceal;
}

void conceal_swap(struct conceal *conceal, const void *value, const void *text, size_t len) {
    size_t before = conceal->count;
    struct conceal_value *values = xcalloc(before + 1, sizeof *values);
    if (before)
        memcpy(values, conceal->values, before * sizeof *values);
    free(conceal->values);
    conceal->values = values;
    conceal_add(conceal, value, len);
    if (conceal->count == before)
        return;
    values[before].text = xcalloc(len, 1);
    memcpy(values[before].text, text, len);
    if (len + CONCEAL_PIECE_BYTES > conceal->held.max)
        conceal->held.max = len + CONCEAL_PIECE_BYTES;
}

void conceal_free(struct conceal *conceal) {
    if (!conceal)
        return;
    for (size_t i = 0; i < conceal->count; i++) {
        explicit_bzero(conceal->values[i].bytes, conceal->values[i].len);
        free(conceal->values[i].bytes);
        free(conceal->values[i].text);
        free(conceal->values[i].fallback);
    }
    buf_done(&conceal->held);
    free(conceal->ranges);
    free(conceal->values);
    free(conceal);
}

const char *conceal_short(const char *const *rows) {
    for (; rows && *rows; rows++) {
        const char *equals = strchr(*rows, '=');
        size_t len = equals ? strlen(equals + 1) : 0;
        if (len && len < CONCEAL_MIN_BYTES)
            return *rows;
    }
    return NULL;
}

/* ---- the stream ---- */

/* A value ends at `position`. Ranges before it that it overlaps become one with it. */
static void conceal_match(struct conceal *conceal, size_t len) {
    struct conceal_range range = {.begin = conceal->position - len, .end = conceal->position};
    while (conceal->range_count && conceal->ranges[conceal->range_count - 1].end > range.begin) {
        const struct conceal_range *last = &conceal->ranges[--conceal->range_count];
        range.begin = last->begin < range.begin ? last->begin : range.begin;
        range.written = range.written || last->written;
    }
    vec_add(conceal->ranges, conceal->range_count, conceal->range_cap) = range;
}

static void conceal_step(struct conceal *conceal, uint8_t byte) {
    conceal->position++;
    conceal->longest = 0;
    for (size_t i = 0; i < conceal->count; i++) {
        struct conceal_value *value = &conceal->values[i];
        while (value->state && value->bytes[value->state] != byte)
            value->state = value->fallback[value->state - 1];
        value->state += value->bytes[value->state] == byte;
        if (value->state == value->len) {
            if (value->text) /* all of it is still held: no byte of a match is decided before its end */
                memcpy(conceal->held.data + (conceal->position - value->len - conceal->base), value->text, value->len);
            else
                conceal_match(conceal, value->len);
            value->state = value->fallback[value->len - 1];
        }
        if (value->state > conceal->longest)
            conceal->longest = value->state;
    }
}

/* Everything before `decided`. */
static void conceal_emit(struct conceal *conceal, uint64_t decided, struct buf *out) {
    uint64_t at = conceal->base;
    size_t done = 0;
    for (; done < conceal->range_count && conceal->ranges[done].begin < decided; done++) {
        struct conceal_range *range = &conceal->ranges[done];
        if (range->begin > at)
            buf_put(out, conceal->held.data + (at - conceal->base), (size_t)(range->begin - at));
        if (!range->written)
            buf_puts(out, CONCEAL_TEXT);
        range->written = true;
        at = range->end < decided ? range->end : decided;
        if (range->end > decided)
            break;
    }
    if (at < decided)
        buf_put(out, conceal->held.data + (at - conceal->base), (size_t)(decided - at));
    if (done) {
        conceal->range_count -= done;
        memmove(conceal->ranges, conceal->ranges + done, conceal->range_count * sizeof *conceal->ranges);
    }
    buf_consume(&conceal->held, (size_t)(decided - conceal->base));
    conceal->base = decided;
}

void conceal_put(struct conceal *conceal, const void *data, size_t len, struct buf *out) {
    const uint8_t *from = data;
    while (len) {
        size_t n = len < CONCEAL_PIECE_BYTES ? len : CONCEAL_PIECE_BYTES;
        buf_put(&conceal->held, from, n);
        for (size_t i = 0; i < n; i++) {
            if (conceal->longest == 0 && !conceal->first[from[i]])
                conceal->position++;
            else
                conceal_step(conceal, from[i]);
        }
        conceal_emit(conceal, conceal->position - conceal->longest, out);
        from += n;
        len -= n;
    }
}

void conceal_flush(struct conceal *conceal, struct buf *out) {
    conceal_emit(conceal, conceal->position, out);
    for (size_t i = 0; i < conceal->count; i++)
        conceal->values[i].state = 0;
    conceal->longest = 0;
    conceal->range_count = 0;
}

void conceal_text(struct conceal *conceal, const void *data, size_t len, struct buf *out) {
    conceal_put(conceal, data, len, out);
    conceal_flush(conceal, out);
}
