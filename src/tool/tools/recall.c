/* recall: shows parts of a kept result, by characters, by lines or by a pattern. A row of tool_table. Invariant: it
 * does not start a box, reads only the needed part of the file, and gives the same answer for unknown, expired and
 * other users' results. */
#include <inttypes.h>

#include "base/base.h"
#include "tool/offload/offload.h"
#include "tool/offload/offload_store.h"
#include "tool/tools/recall_search.h"

enum {
    LIMIT_DEFAULT = 8000,
    LIMIT_MAX = 16000,
    CONTEXT_MAX = 20,
    RESULTS_DEFAULT = 50,
    RESULTS_MAX = 500,
};

struct recall_args {
    struct row_text id, pattern;
    struct row_number offset, limit, start_line, end_line, context, max_results;
    bool ignore_case, literal;
};

static const struct row recall_fields[] = {
    {ARG(recall_args, id, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = 100,
     .text = "The id in [offload:...], such as ol_0123456789abcdef."},
    {ARG(recall_args, offset, INT), .max = UINT32_MAX,
     .text = "First character to show, from 0, which is the default."},
    {ARG(recall_args, limit, INT), .min = 1, .max = LIMIT_MAX, .fallback = LIMIT_DEFAULT,
     .text = "Maximum number of characters to show."},
    {ARG(recall_args, start_line, INT), .min = 1, .max = UINT32_MAX,
     .text = "First line to show or search, from 1; instead of offset."},
    {ARG(recall_args, end_line, INT), .min = 1, .max = UINT32_MAX, .text = "Last line to show or search."},
    {ARG(recall_args, pattern, TEXT), .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "Show only the lines that match this regular expression, with their numbers."},
    {ARG(recall_args, literal, BOOL), .text = "Treat the pattern as plain text."},
    {ARG(recall_args, ignore_case, BOOL), .text = "Ignore case."},
    {ARG(recall_args, context, INT), .max = CONTEXT_MAX, .text = "Lines to show before and after each match."},
    {ARG(recall_args, max_results, INT), .min = 1, .max = RESULTS_MAX, .fallback = RESULTS_DEFAULT,
     .text = "Maximum number of matching lines to show."},
    {.name = NULL},
};

struct recall {
    struct tool_call *call;
    const struct recall_args *args;
    struct offload_row row;
    int fd;
};

/* A part in bytes, and where it begins and ends in characters. */
struct part {
    uint64_t from, to;
    uint64_t from_char, to_char;
};

/* Limits [from, to) to limit characters. */
static int recall_part_limit(const struct recall *recall, struct part *part, struct err *err) {
    const struct offload_index *index = &recall->row.index;
    uint64_t line, last = part->from_char + recall->args->limit.value, end;
    int r = offload_index_char(index, recall->fd, last, &end, err);
    if (r == 0 && end < part->to)
        part->to = end;
    return r < 0 ? r : offload_index_at(index, recall->fd, part->to, &part->to_char, &line, err);
}

static int recall_part_put(const struct recall *recall, const struct part *part, struct err *err) {
    char data[16384];
    for (uint64_t at = part->from; at < part->to;) {
        size_t len = part->to - at < sizeof data ? (size_t)(part->to - at) : sizeof data;
        ssize_t n = fd_read_at(recall->fd, data, len, at);
        if (n <= 0)
            return err_set(err, ERR_IO, "cannot read the kept result");
        tool_put(recall->call, data, (size_t)n);
        at += (uint64_t)n;
    }
    return 0;
}

static void recall_say_begin(const struct recall *recall) {
    const struct offload_row *row = &recall->row;
    if (row->stale)
        tool_say(recall->call, "[%s] STALE: %s has changed since; read it again for its current content\n", row->id,
                 row->path);
    tool_say(recall->call, "[%s] ", row->id);
}

static int recall_chars(const struct recall *recall, struct err *err) {
    const struct recall_args *args = recall->args;
    const struct offload_index *index = &recall->row.index;
    uint64_t limit = args->limit.value;
    struct part part = {.from_char = args->offset.value, .to = index->bytes};
    if (part.from_char >= index->chars)
        return tool_fail(recall->call, "offset %" PRIu64 " is past the end: %s has %" PRIu64 " characters",
                         part.from_char, recall->row.id, index->chars);
    int r =
        offload_index_char(index, recall->fd, part.from_char, &part.from, err) ?: recall_part_limit(recall, &part, err);
    if (r < 0)
        return r;
    recall_say_begin(recall);
    tool_say(recall->call, "characters %" PRIu64 "-%" PRIu64 " of %" PRIu64, part.from_char, part.to_char,
             index->chars);
    if (part.to_char < index->chars)
        tool_say(recall->call, "; next: offset=%" PRIu64, part.to_char);
    if (part.from_char)
        tool_say(recall->call, "; previous: offset=%" PRIu64, part.from_char > limit ? part.from_char - limit : 0);
    tool_put(recall->call, "\n", 1);
    return recall_part_put(recall, &part, err);
}

/* Gets the requested lines that exist. */
static void recall_lines_of(const struct recall *recall, uint64_t *ret_first, uint64_t *ret_last) {
    const struct recall_args *args = recall->args;
    uint64_t lines = recall->row.index.lines;
    *ret_first = args->start_line.has ? args->start_line.value : 1;
    *ret_last = args->end_line.has && args->end_line.value < lines ? args->end_line.value : lines;
}

static int recall_lines(const struct recall *recall, struct err *err) {
    const struct offload_index *index = &recall->row.index;
    uint64_t first, last, line, end_line, next;
    struct part part = {0};
    recall_lines_of(recall, &first, &last);
    int r = offload_index_line(index, recall->fd, first, &part.from, err)
            ?: offload_index_line(index, recall->fd, last + 1, &part.to, err)
            ?: offload_index_at(index, recall->fd, part.from, &part.from_char, &line, err);
    uint64_t whole = part.to;
    if (r == 0)
        r = recall_part_limit(recall, &part, err);
    if (r == 0) /* the line of the last byte shown */
        r = offload_index_at(index, recall->fd, part.to - 1, &next, &end_line, err);
    if (r < 0)
        return r;
    recall_say_begin(recall);
    tool_say(recall->call, "lines %" PRIu64 "-%" PRIu64 " of %" PRIu64, first, end_line, index->lines);
    if (part.to < whole)
        tool_say(recall->call, ", cut at %" PRIu64 " characters; next: offset=%" PRIu64, recall->args->limit.value,
                 part.to_char);
    else if (last < index->lines)
        tool_say(recall->call, "; next: start_line=%" PRIu64, last + 1);
    tool_put(recall->call, "\n", 1);
    return recall_part_put(recall, &part, err);
}

static int recall_pattern(const struct recall *recall, struct err *err) {
    const struct recall_args *args = recall->args;
    const struct offload_index *index = &recall->row.index;
    struct recall_search search = {.index = index,
                                   .fd = recall->fd,
                                   .user = recall->call->user,
                                   .watch = recall->call->watch,
                                   .pattern = args->pattern.data,
                                   .pattern_len = args->pattern.len,
                                   .literal = args->literal,
                                   .ignore_case = args->ignore_case,
                                   .context = (unsigned)args->context.value,
                                   .max_results = args->max_results.value,
                                   .max_chars = args->limit.value};
    struct recall_found found;
    recall_lines_of(recall, &search.first_line, &search.last_line);
    autobuf out = buf_max(RECALL_SEARCH_BYTES);
    TRY(recall_search(&search, &out, &found, err));
    recall_say_begin(recall);
    tool_say(recall->call, "%" PRIu64 " matching lines in lines %" PRIu64 "-%" PRIu64 " of %" PRIu64, found.matches,
             search.first_line, found.last_line, index->lines);
    if (found.next_line)
        tool_say(recall->call, "%s; next: start_line=%" PRIu64, found.timed_out ? "; the time limit was reached" : "",
                 found.next_line);
    if (found.gave_up)
        tool_say(recall->call, "; the pattern was too expensive for %" PRIu64 " lines", found.gave_up);
    tool_put(recall->call, "\n", 1);
    tool_put(recall->call, out.data, out.len);
    return 0;
}

/* Checks combinations of arguments. An error is reported to the model. */
static int recall_check(struct recall *recall) {
    const struct recall_args *args = recall->args;
    uint64_t first, last;
    bool by_lines = args->start_line.has || args->end_line.has;
    if (args->offset.has && (by_lines || args->pattern.data))
        return tool_fail(recall->call,
                         "offset can only be combined with limit; use it, or start_line and end_line, or pattern");
    if (!args->pattern.data && (args->context.has || args->max_results.has || args->literal || args->ignore_case))
        return tool_fail(recall->call, "context, max_results, literal and ignore_case need pattern");
    recall_lines_of(recall, &first, &last);
    if (by_lines && first > recall->row.index.lines)
        return tool_fail(recall->call, "line %" PRIu64 " is past the end: %s has %" PRIu64 " lines", first,
                         recall->row.id, recall->row.index.lines);
    if (by_lines && first > last)
        return tool_fail(recall->call, "end_line %" PRIu64 " is before start_line %" PRIu64, last, first);
    return 0;
}

static int recall_run(struct tool_call *call, const void *user, struct err *err) {
    const struct recall_args *args = user;
    struct recall recall = {.call = call, .args = args, .fd = -1};
    char box[17];
    offload_box(call, box);
    call->result.whole = true;
    int r = (offload_id(args->id.data, args->id.len) ? 0 : -ERR_NOT_FOUND)
                ?: offload_find(call->host->store, call->user, box, args->id.data, offload_since_ms(call->settings),
                                call->arena, &recall.row, &recall.fd, err);
    if (r == -ERR_NOT_FOUND)
        return tool_fail(call,
                         "no kept result '%s' here: it belongs to another box, has expired, or never existed; run the "
                         "tool again",
                         args->id.data);
    if (r == 0) {
        recall.row.stale = offload_changed(call, &recall.row);
        r = recall_check(&recall);
    }
    if (r == 0 && !call->result.is_error)
        r = args->pattern.data                           ? recall_pattern(&recall, err)
            : args->start_line.has || args->end_line.has ? recall_lines(&recall, err)
                                                         : recall_chars(&recall, err);
    fd_close(&recall.fd);
    return r == -ERR_GONE || r == 0 ? r : tool_fail(call, "%s", err->text);
}

const struct tool tool_recall = {
    TOOL(recall, "Recall a kept result"), .flags = TOOL_READS | TOOL_SAME | TOOL_KEPT, .cut = TOOL_WHOLE,
    .description =
        "Show parts of a result that was too long to show whole and was kept; its text contains [offload:ID]. Pass "
        "the id and either offset and limit (characters), or start_line and end_line, or a pattern to search its "
        "lines. Reports where the next part begins, and whether the file shown by the result has changed since."};
