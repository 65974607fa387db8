/* Searches a kept result. Called by recall. Invariant: this runs in the daemon, on an untrusted pattern and text.
 * Memory is one window whatever the text (a longer line is searched in overlapping pieces). Every match has limits, and
 * the pattern is interpreted, never compiled to machine code. A search has a limit of processor time and runs on a
 * thread of the lowest priority, and few run at once (COUNTED_SEARCHES): all other work of the daemon goes first. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "tool/tools/recall_search.h"
#include "base/counted.h"
#include "tool/truncate.h"

enum {
    WINDOW_BYTES = 256 << 10,
    OVERLAP_BYTES = 4096,
    SEARCH_CPU_MS = 6000, /* of processor time */
    SEARCH_MS = 30000,    /* of elapsed time */
    TURN_MS = 45000,      /* how long a search waits for its turn */
    LOWEST_NICE = 19,
    LATE_LINES = 32, /* between two looks at the clock, which would cost more than a short line */
    STACK_BYTES = 512 << 10,
    MATCH_LIMIT = 200000,
    HEAP_LIMIT_KB = 8192,
    SHOWN_CHARS = 500,  /* of one line */
    BEFORE_BYTES = 120, /* of a long line, shown before its match */
    CONTEXT_MAX = 20,
};

struct search_line {
    uint64_t number, from; /* number from 1; offset of its first byte */
};

struct seeker {
    const struct recall_search *search;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t end_ms;
    bool plain; /* the pattern is literal text */
    struct buf *out;
    struct recall_found found;
    struct search_line before[CONTEXT_MAX]; /* lines not shown yet: a ring, indexed by number */
    uint64_t shown;                         /* the last line shown; 0: none */
    unsigned after;                         /* lines still to be shown after the last match */
    bool over;
    struct err *err;
    int result;
};

static int search_seeker_compile(struct seeker *seeker, struct err *err) {
    const struct recall_search *search = seeker->search;
    uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (search->ignore_case ? PCRE2_CASELESS : 0) |
                       (search->literal ? PCRE2_LITERAL : PCRE2_NEVER_BACKSLASH_C);
    int number;
    size_t offset;
    seeker->plain =
        !search->ignore_case && (search->literal || strcspn(search->pattern, "\\^$.[]|()?*+{}") == search->pattern_len);
    if (memchr(search->pattern, '\n', search->pattern_len))
        return err_set(err, ERR_INVALID, "the pattern contains a newline, but lines are searched one by one");
    seeker->code = pcre2_compile((PCRE2_SPTR)search->pattern, search->pattern_len, options, &number, &offset, NULL);
    if (!seeker->code) {
        PCRE2_UCHAR why[200];
        pcre2_get_error_message(number, why, sizeof why);
        return err_set(err, ERR_INVALID, "the pattern is invalid at byte %zu: %s", offset, (const char *)why);
    }
    seeker->data = pcre2_match_data_create(1, NULL);
    seeker->limits = pcre2_match_context_create(NULL);
    xensure(seeker->data && seeker->limits);
    pcre2_set_match_limit(seeker->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(seeker->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(seeker->limits, HEAP_LIMIT_KB);
    return 0;
}

/* Returns where it matches in a (piece of a) line, or -1. */
static int64_t search_seeker_match(struct seeker *seeker, const uint8_t *text, size_t len, uint32_t options) {
    if (len && text[len - 1] == '\r' && !(options & PCRE2_NOTEOL))
        len--;
    int r = pcre2_match(seeker->code, text, len, 0, options, seeker->data, seeker->limits);
    if (r < 0 && r != PCRE2_ERROR_NOMATCH)
        seeker->found.gave_up++;
    return r < 0 ? -1 : (int64_t)pcre2_get_ovector_pointer(seeker->data)[0];
}

/* Writes one line from byte `from` on, which may be inside the line. */
static int recall_search_show(struct seeker *seeker, const struct search_line *line, uint64_t from, char mark,
                              struct err *err) {
    const struct offload_index *index = seeker->search->index;
    uint8_t data[4 * SHOWN_CHARS + 8];
    ssize_t n = pread(seeker->search->fd, data, sizeof data, (off_t)from);
    if (n < 0)
        return err_errno(err, errno, "cannot read the kept result");
    size_t begin = 0, len = (size_t)n;
    const uint8_t *newline = memchr(data, '\n', len);
    len = newline ? (size_t)(newline - data) : len;
    while (from > line->from && begin < len && (data[begin] & 0xc0) == 0x80)
        begin++;
    size_t shown = truncate_head(data + begin, len - begin, SHOWN_CHARS);
    bool cut = begin + shown < len || (!newline && from + len < index->bytes);
    buf_printf(seeker->out, "%" PRIu64 "%c %s", line->number, mark, from > line->from ? "..." : "");
    buf_put(seeker->out, data + begin, shown);
    if (cut || from > line->from) {
        uint64_t character, number;
        TRY(offload_index_at(index, seeker->search->fd, from + begin, &character, &number, err));
        buf_printf(seeker->out, "%s (offset=%" PRIu64 ")", cut ? "..." : "", character);
    }
    buf_puts(seeker->out, "\n");
    seeker->shown = line->number;
    return 0;
}

/* Writes a match and its context. at: the byte that matches. */
static int search_show_match(struct seeker *seeker, const struct search_line *line, uint64_t at, struct err *err) {
    const struct recall_search *search = seeker->search;
    size_t len = seeker->out->len;
    if (truncate_chars(seeker->out->data, len) >= search->max_chars && seeker->found.matches) {
        seeker->over = true;
        seeker->found.next_line = line->number;
        return 0;
    }
    uint64_t first = line->number > search->context ? line->number - search->context : 1;
    first = first < search->first_line ? search->first_line : first;
    first = first <= seeker->shown ? seeker->shown + 1 : first;
    if (search->context && seeker->shown && first > seeker->shown + 1)
        buf_puts(seeker->out, "--\n");
    int r = 0;
    for (; first < line->number && r == 0; first++) {
        const struct search_line *before = &seeker->before[first % CONTEXT_MAX];
        r = recall_search_show(seeker, before, before->from, '-', err);
    }
    uint64_t from = at - line->from > SHOWN_CHARS - BEFORE_BYTES ? at - BEFORE_BYTES : line->from;
    if (r == 0)
        r = recall_search_show(seeker, line, from, ':', err);
    seeker->after = search->context;
    seeker->found.matches++;
    return r;
}

/* ---- line by line ---- */

/* Handles a line that was searched completely, or in which a piece matched. at < 0: no match. */
static int search_seeker_line(struct seeker *seeker, const struct search_line *line, int64_t at, struct err *err) {
    int r = 0;
    if (at >= 0 && seeker->found.matches == seeker->search->max_results) {
        seeker->found.next_line = line->number;
        seeker->over = true;
    } else if (at >= 0) {
        r = search_show_match(seeker, line, (uint64_t)at, err);
    } else if (seeker->after) {
        seeker->after--;
        r = recall_search_show(seeker, line, line->from, '-', err);
    }
    seeker->before[line->number % CONTEXT_MAX] = *line;
    if (!seeker->over)
        seeker->found.last_line = line->number;
    return r;
}

static bool search_seeker_late(const struct seeker *seeker) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000 > SEARCH_CPU_MS ||
           clock_ms() > seeker->end_ms;
}

/* Checks whether time is up or the client has gone. */
static int search_seeker_turn(struct seeker *seeker, const struct search_line *line, struct err *err) {
    struct pollfd watched = {.fd = seeker->search->watch, .events = POLLRDHUP};
    if (seeker->search->watch >= 0 && poll(&watched, 1, 0) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        return err_set(err, ERR_GONE, "the client hung up");
    if (search_seeker_late(seeker)) {
        seeker->over = seeker->found.timed_out = true;
        seeker->found.next_line = line->number;
    }
    return 0;
}

/* Skips lines [at, end) without a match: counts them, and keeps them if needed as context. */
static int search_seeker_skip(struct seeker *seeker, struct search_line *line, const uint8_t *data, size_t at,
                              size_t end, struct err *err) {
    int r = 0;
    while (at < end && r == 0) {
        const uint8_t *newline = memchr(data + at, '\n', end - at);
        size_t next = newline ? (size_t)(newline - data) + 1 : end;
        if (seeker->search->context)
            r = search_seeker_line(seeker, line, -1, err);
        seeker->found.last_line = line->number++;
        line->from += next - at;
        at = next;
    }
    return r;
}

/* Returns where the next line of [at, end) begins that may match, or end. *ret_match: offset of the match, or -1. */
static size_t search_seeker_next(struct seeker *seeker, const uint8_t *data, size_t at, size_t end,
                                 int64_t *ret_match) {
    const struct recall_search *search = seeker->search;
    if (!seeker->plain) {
        const uint8_t *newline = memchr(data + at, '\n', end - at);
        *ret_match = search_seeker_match(seeker, data + at, newline ? (size_t)(newline - data) - at : end - at, 0);
        return at;
    }
    const uint8_t *hit = memmem(data + at, end - at, search->pattern, search->pattern_len);
    const uint8_t *before = hit ? memrchr(data + at, '\n', (size_t)(hit - data) - at) : NULL;
    size_t begin = !hit ? end : before ? (size_t)(before - data) + 1 : at;
    *ret_match = hit ? hit - (data + begin) : -1;
    return begin;
}

/* Searches the complete lines of a window, including the last line of the text (last). *ret_used: their bytes. */
static int search_seeker_window(struct seeker *seeker, struct search_line *line, const uint8_t *data, size_t len,
                                bool last, size_t *ret_used, struct err *err) {
    const uint8_t *final = last ? NULL : memrchr(data, '\n', len);
    size_t at = 0, end = last ? len : final ? (size_t)(final - data) + 1 : 0;
    int r = 0;
    for (unsigned lines = 1; at < end && r == 0 && !seeker->over; lines++) {
        int64_t match;
        size_t begin = search_seeker_next(seeker, data, at, end, &match);
        r = search_seeker_skip(seeker, line, data, at, begin, err);
        at = begin;
        if (r < 0 || at == end)
            break;
        const uint8_t *newline = memchr(data + at, '\n', end - at);
        size_t next = newline ? (size_t)(newline - data) + 1 : end;
        r = search_seeker_line(seeker, line, match < 0 ? -1 : (int64_t)line->from + match, err);
        line->number++;
        line->from += next - at;
        at = next;
        if (r == 0 && !seeker->over && at < end && lines % LATE_LINES == 0 && search_seeker_late(seeker))
            r = search_seeker_turn(seeker, line, err);
    }
    *ret_used = at;
    return r;
}

static ssize_t search_window_read(const struct seeker *seeker, uint8_t *data, uint64_t from, uint64_t end,
                                  struct err *err) {
    size_t len = end - from < WINDOW_BYTES ? (size_t)(end - from) : WINDOW_BYTES;
    ssize_t n = pread(seeker->search->fd, data, len, (off_t)from);
    if (n <= 0)
        return err_set(err, ERR_IO, "cannot read the kept result: %s", n ? strerror(errno) : "its file is too short");
    return n;
}

/* Searches a line that is longer than a window, to its newline or the end. */
static int search_seeker_long(struct seeker *seeker, struct search_line *line, uint8_t *data, uint64_t end,
                              struct err *err) {
    int64_t match = -1;
    uint64_t at = line->from;
    for (;;) {
        ssize_t n = search_window_read(seeker, data, at, end, err);
        int r = n < 0 ? (int)n : search_seeker_turn(seeker, line, err);
        if (r < 0 || seeker->over)
            return r;
        const uint8_t *newline = memchr(data, '\n', (size_t)n);
        size_t len = newline ? (size_t)(newline - data) : (size_t)n;
        bool last = newline || at + len == end;
        uint32_t options = (at > line->from ? PCRE2_NOTBOL : 0) | (last ? 0 : PCRE2_NOTEOL);
        if (match < 0 && (match = search_seeker_match(seeker, data, len, options)) >= 0)
            match += (int64_t)at;
        if (last) {
            r = search_seeker_line(seeker, line, match, err);
            line->number++;
            line->from = at + len + (newline != NULL);
            return r;
        }
        at += match < 0 ? len - OVERLAP_BYTES : len;
    }
}

/* ---- its thread ---- */

static void *search_main(void *user) {
    struct seeker *seeker = user;
    const struct recall_search *search = seeker->search;
    struct search_line line = {.number = search->first_line};
    uint64_t end = 0;
    uint8_t *data = xmalloc(WINDOW_BYTES);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_NICE); /* only this thread */
    seeker->end_ms = clock_ms() + SEARCH_MS;
    int r = offload_index_line(search->index, search->fd, search->first_line, &line.from, seeker->err)
                ?: offload_index_line(search->index, search->fd, search->last_line + 1, &end, seeker->err);
    while (line.from < end && r == 0 && !seeker->over) {
        size_t used = 0;
        ssize_t n = search_window_read(seeker, data, line.from, end, seeker->err);
        r = n < 0 ? (int)n : search_seeker_turn(seeker, &line, seeker->err);
        if (r == 0 && !seeker->over)
            r = search_seeker_window(seeker, &line, data, (size_t)n, line.from + (uint64_t)n == end, &used,
                                     seeker->err);
        if (r == 0 && !seeker->over && used == 0)
            r = search_seeker_long(seeker, &line, data, end, seeker->err);
    }
    free(data);
    seeker->result = r;
    return NULL;
}

/* Uses its own thread, because an ordinary user cannot raise a lowered priority again. */
static int search_run(struct seeker *seeker) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int number = pthread_create(&thread, &attributes, search_main, seeker);
    pthread_attr_destroy(&attributes);
    if (number)
        return err_errno(seeker->err, number, "cannot start a thread for the search");
    pthread_join(thread, NULL);
    return seeker->result;
}

int recall_search(const struct recall_search *search, struct buf *out, struct recall_found *ret_found,
                  struct err *err) {
    struct seeker seeker = {.search = search, .out = out, .err = err};
    seeker.found.last_line = search->first_line;
    int r = search_seeker_compile(&seeker, err)
                ?: counted_wait(COUNTED_SEARCHES, search->user, 1, TURN_MS, search->watch, err);
    if (r == 0) {
        r = search_run(&seeker);
        counted_give(COUNTED_SEARCHES, search->user, 1);
    }
    pcre2_code_free(seeker.code);
    pcre2_match_data_free(seeker.data);
    pcre2_match_context_free(seeker.limits);
    if (r == 0)
        *ret_found = seeker.found;
    return r;
}
