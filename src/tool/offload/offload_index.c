/* Finding characters and lines in a long text. Called by offload (build) and recall (find). Invariant: a look-up reads
 * at most one step of the file. */
#include <assert.h>

#include "base/base.h"
#include "tool/offload/offload_index.h"

enum { STRIDE = 256 };

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

struct index_counts {
    uint32_t chars, lines;
};

/* Counts the bytes of a word whose highest bit is set; no other bits may be set. */
static uint64_t index_flags_of(uint64_t word) {
    return (word >> 7) * ONES >> 56;
}

/* Eight bytes at a time: a hundred megabytes are counted in some ten milliseconds. */
static struct index_counts index_counts_of(const uint8_t *text, size_t len) {
    uint64_t rest = 0, newlines = 0, word; /* rest: continuation bytes (10xxxxxx) */
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        memcpy(&word, text + i, 8);
        rest += index_flags_of(word & HIGHS & ~(word << 1));
        word ^= '\n' * ONES;
        newlines += index_flags_of(~(((word & ~HIGHS) + ~HIGHS) | word | ~HIGHS));
    }
    for (; i < len; i++) {
        rest += (text[i] & 0xc0) == 0x80;
        newlines += text[i] == '\n';
    }
    return (struct index_counts){.chars = (uint32_t)(len - rest), .lines = (uint32_t)newlines};
}

void offload_index_build(const uint8_t *text, size_t len, struct arena *arena, struct offload_index *ret_index) {
    size_t steps = (len + INDEX_STEP - 1) / INDEX_STEP;
    uint32_t *marks = arena_alloc(arena, (steps + 1) * 2 * sizeof *marks), chars = 0, lines = 0;
    assert(len <= UINT32_MAX);
    for (size_t i = 0; i < steps; i++) {
        size_t at = i * INDEX_STEP, n = len - at < INDEX_STEP ? len - at : INDEX_STEP;
        struct index_counts counts = index_counts_of(text + at, n);
        marks[2 * i] = chars;
        marks[2 * i + 1] = lines;
        chars += counts.chars;
        lines += counts.lines;
    }
    *ret_index = (struct offload_index){.bytes = len,
                                        .chars = chars,
                                        .lines = lines + (len && text[len - 1] != '\n'),
                                        .marks = marks,
                                        .mark_count = steps};
}

bool offload_index_fits(const struct offload_index *index) {
    if (index->bytes > UINT32_MAX || index->mark_count != (index->bytes + INDEX_STEP - 1) / INDEX_STEP ||
        index->chars > index->bytes || index->lines > index->bytes)
        return false;
    for (size_t i = 0; i < index->mark_count; i++)
        if (index->marks[2 * i] > index->chars || index->marks[2 * i + 1] > index->lines ||
            (i && (index->marks[2 * i] < index->marks[2 * i - 2] || index->marks[2 * i + 1] < index->marks[2 * i - 1])))
            return false;
    return true;
}

/* Returns the last step whose mark (which: 0 characters, 1 lines) is at most (below) value. */
static size_t index_step_of(const struct offload_index *index, int which, uint64_t value) {
    size_t low = 0, high = index->mark_count; /* the answer is in [low, high) */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        uint64_t mark = index->marks[2 * middle + (size_t)which];
        if (which ? mark < value : mark <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int index_step_read(const struct offload_index *index, int fd, size_t step, uint8_t *data, size_t *ret_len,
                           struct err *err) {
    uint64_t at = (uint64_t)step * INDEX_STEP;
    size_t len = index->bytes - at < INDEX_STEP ? (size_t)(index->bytes - at) : INDEX_STEP;
    ssize_t n = fd_read_at(fd, data, len, at);
    if (n < 0 || (size_t)n < len)
        return err_set(err, ERR_IO, "cannot read the kept result: %s",
                       n < 0 ? strerror((int)-n) : "its file is too short");
    *ret_len = len;
    return 0;
}

/* Finds where character `number` begins (which 0), or the byte after newline `number` (which 1). */
static int index_step_find(const struct offload_index *index, int fd, int which, uint64_t number, uint64_t *ret_byte,
                           struct err *err) {
    uint8_t data[INDEX_STEP];
    size_t step = index_step_of(index, which, number), len, i = 0;
    TRY(index_step_read(index, fd, step, data, &len, err));
    uint64_t count = index->marks[2 * step + (size_t)which];
    for (; i + STRIDE <= len; i += STRIDE) { /* most of it eight bytes at a time */
        struct index_counts counts = index_counts_of(data + i, STRIDE);
        if (which ? count + counts.lines >= number : count + counts.chars > number)
            break;
        count += which ? counts.lines : counts.chars;
    }
    for (; i < len; i++)
        if (which ? data[i] == '\n' && ++count == number : (data[i] & 0xc0) != 0x80 && count++ == number)
            break;
    *ret_byte = (uint64_t)step * INDEX_STEP + i + (which && i < len);
    return 0;
}

int offload_index_char(const struct offload_index *index, int fd, uint64_t number, uint64_t *ret_byte,
                       struct err *err) {
    if (number >= index->chars || index->chars == index->bytes) {
        *ret_byte = number >= index->chars ? index->bytes : number;
        return 0;
    }
    return index_step_find(index, fd, 0, number, ret_byte, err);
}

int offload_index_line(const struct offload_index *index, int fd, uint64_t number, uint64_t *ret_byte,
                       struct err *err) {
    if (number <= 1 || number > index->lines) {
        *ret_byte = number <= 1 ? 0 : index->bytes;
        return 0;
    }
    return index_step_find(index, fd, 1, number - 1, ret_byte, err);
}

int offload_index_at(const struct offload_index *index, int fd, uint64_t byte, uint64_t *ret_char, uint64_t *ret_line,
                     struct err *err) {
    uint8_t data[INDEX_STEP];
    size_t step = byte / INDEX_STEP, len;
    if (byte >= index->bytes) {
        *ret_char = index->chars;
        *ret_line = index->lines;
        return 0;
    }
    TRY(index_step_read(index, fd, step, data, &len, err));
    struct index_counts counts = index_counts_of(data, byte % INDEX_STEP);
    *ret_char = index->marks[2 * step] + counts.chars;
    *ret_line = index->marks[2 * step + 1] + counts.lines + 1;
    return 0;
}
