/* The lines of a file that are most like a text that is not in it: what a model needs to see to ask again. Called by
 * edit_text. Invariant: time is linear in the file, whatever it holds.
 *
 * First by whole lines without the white space around them: where most of the old text's lines stand in a row. If none of
 * them is anywhere: the line that shares most pairs of bytes with the longest of them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runner/ops/edit_text.h"

enum {
    OLD_LINES_MAX = 64,
    LOOK_BYTES = 256, /* of a line, for pairs */
    BUCKETS = 256,
    ALIKE_PERCENT = 50,
};

struct near_line {
    const uint8_t *text; /* without white space around it */
    size_t len;
    uint64_t hash;
};

struct near_old {
    struct near_line lines[OLD_LINES_MAX];
    size_t count, filled; /* filled: not blank */
    int first[BUCKETS], next[OLD_LINES_MAX];
};

/* The next line of [*at, end), trimmed; false at the end. *ret_begin, *ret_end: with white space, without its newline. */
static bool next_line(const uint8_t **at, const uint8_t *end, struct near_line *ret_line, const uint8_t **ret_begin,
                      const uint8_t **ret_end) {
    if (*at >= end)
        return false;
    const uint8_t *newline = memchr(*at, '\n', (size_t)(end - *at)), *to = newline ? newline : end, *from = *at;
    *ret_begin = from;
    *ret_end = to;
    *at = newline ? newline + 1 : end;
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\r'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
        to--;
    uint64_t hash = 14695981039346656037ull; /* FNV-1a */
    for (const uint8_t *byte = from; byte < to; byte++)
        hash = (hash ^ *byte) * 1099511628211ull;
    *ret_line = (struct near_line){from, (size_t)(to - from), hash};
    return true;
}

static void read_old(struct near_old *old, const uint8_t *text, size_t len) {
    const uint8_t *at = text, *end = text + len, *begin, *stop;
    *old = (struct near_old){0};
    for (size_t i = 0; i < BUCKETS; i++)
        old->first[i] = -1;
    while (old->count < OLD_LINES_MAX && next_line(&at, end, &old->lines[old->count], &begin, &stop)) {
        const struct near_line *line = &old->lines[old->count];
        if (line->len) {
            old->filled++;
            old->next[old->count] = old->first[line->hash % BUCKETS];
            old->first[line->hash % BUCKETS] = (int)old->count;
        }
        old->count++;
    }
}

/* How many lines of the old text stand where they should if it began at a line: the best such line, from 0. */
static size_t best_by_lines(const struct near_old *old, const uint8_t *data, size_t len, size_t *ret_start) {
    size_t total = 1, index = 0, best = 0;
    for (const uint8_t *at = data, *end = data + len; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        total++;
    uint8_t *hits =
        xcalloc(total + OLD_LINES_MAX, 1); /* by the line it would begin at, OLD_LINES_MAX before the first */
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (; next_line(&at, data + len, &line, &begin, &stop); index++)
        for (int i = line.len ? old->first[line.hash % BUCKETS] : -1; i >= 0; i = old->next[i]) {
            if (old->lines[i].len != line.len || memcmp(old->lines[i].text, line.text, line.len) != 0)
                continue;
            size_t slot = index + OLD_LINES_MAX - (size_t)i;
            if (++hits[slot] > best) {
                best = hits[slot];
                *ret_start = slot > OLD_LINES_MAX ? slot - OLD_LINES_MAX : 0;
            }
        }
    free(hits);
    return best;
}

static size_t pairs_shared(const uint8_t *set, const struct near_line *line) {
    size_t shared = 0, len = line->len < LOOK_BYTES ? line->len : LOOK_BYTES;
    for (size_t i = 0; i + 1 < len; i++) {
        unsigned pair = (unsigned)line->text[i] << 8 | line->text[i + 1];
        shared += set[pair / 8] >> pair % 8 & 1;
    }
    return shared;
}

/* The line most like the old text's longest one; false: none is like it. */
static bool best_by_pairs(const struct near_old *old, const uint8_t *data, size_t len, size_t *ret_start) {
    static uint8_t set[65536 / 8];
    size_t longest = 0, index = 0, best = 0;
    for (size_t i = 1; i < old->count; i++)
        if (old->lines[i].len > old->lines[longest].len)
            longest = i;
    const struct near_line *wanted = &old->lines[longest];
    size_t pairs = (wanted->len < LOOK_BYTES ? wanted->len : LOOK_BYTES);
    if (old->count == 0 || pairs < 4)
        return false;
    memset(set, 0, sizeof set);
    for (size_t i = 0; i + 1 < pairs; i++) {
        unsigned pair = (unsigned)wanted->text[i] << 8 | wanted->text[i + 1];
        set[pair / 8] |= (uint8_t)(1u << pair % 8);
    }
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (; next_line(&at, data + len, &line, &begin, &stop); index++) {
        size_t have = line.len < LOOK_BYTES ? line.len : LOOK_BYTES, shared = pairs_shared(set, &line);
        size_t percent = have + pairs > 2 ? 200 * shared / (have + pairs - 2) : 0;
        if (percent > best) {
            best = percent;
            *ret_start = index > longest ? index - longest : 0;
        }
    }
    return best >= ALIKE_PERCENT;
}

void edit_near_put(struct edit_text *edit, uint64_t line, const uint8_t *text, size_t len) {
    if (edit->near_count == EDIT_NEAR_MAX)
        return;
    if (len > EDIT_NEAR_TEXT_BYTES)
        for (len = EDIT_NEAR_TEXT_BYTES; len > EDIT_NEAR_TEXT_BYTES - 4 && (text[len] & 0xc0) == 0x80;)
            len--;
    edit->near[edit->near_count++] = (struct edit_near){line, text, len};
}

void edit_near_find(struct edit_text *edit, const uint8_t *data, size_t len) {
    struct near_old old;
    size_t start = 0;
    read_old(&old, edit->old, edit->old_len);
    size_t same = best_by_lines(&old, data, len, &start);
    edit->how = same > 0 && same == old.filled ? EDIT_SPACES : EDIT_ALIKE;
    if (same == 0 && !best_by_pairs(&old, data, len, &start))
        return;
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (size_t i = 0; i < start + old.count && next_line(&at, data + len, &line, &begin, &stop); i++)
        if (i >= start)
            edit_near_put(edit, i + 1, begin, (size_t)(stop - begin));
}
