/* Results too long for a model are kept, and replaced by a text of bounded length. Called at the end of a call
 * (offload_result), by read_file (offload_source) and by the route that reports stale results. Invariants: the kept
 * text has no secrets; a kept sha256 is that of the version that the text shows. */
#include <inttypes.h>

#include "base/base.h"
#include "tool/offload/offload.h"
#include "base/log.h"
#include "box/policy.h"
#include "tool/offload/offload_store.h"
#include "tool/secret.h"
#include "tool/truncate.h"

enum {
    HEAD_CHARS = 2000,
    TAIL_CHARS = 1000,
    CHARS_PER_TOKEN = 4,
    HASH_BYTES = 1 << 20, /* smaller files are hashed at every check; larger ones if their time has changed */
    MTIME_SLACK_MS = 1000,
    TEXT_BYTES = 64 << 10, /* head, tail and summary together have less than 24 KiB */
};

void offload_box(const struct tool_call *call, char ret_id[17]) {
    const char *thread = call->parent ? call->parent : call->thread;
    const struct box *box = call->box ? call->box : call->host->only;
    if (box)
        memcpy(ret_id, box->id, 17);
    else
        policy_id(call->user, thread, strlen(thread), ret_id);
}

uint64_t offload_since_ms(const struct tool_settings *settings) {
    uint64_t now_ms = clock_wall_ms(), age_ms = settings->offload_days * 86400000;
    return settings->offload_days && age_ms < now_ms ? now_ms - age_ms : 0;
}

void offload_source(struct tool_call *call, const char *path, const struct file_stat *stat) {
    char etag[ETAG_BYTES];
    call->source = path;
    call->source_etag = arena_strdup(call->arena, file_etag(stat, etag));
}

/* Hashes the file, if it is still the version that was read. Else the hash is all zeros, and the first check reports
 * the result as stale, which it is. */
static void offload_source_hash(struct tool_call *call, uint8_t ret_sha256[32]) {
    struct file_stat stat;
    struct err err;
    char etag[ETAG_BYTES];
    uint8_t sha256[32];
    uint64_t size;
    autofd fd = -1;
    if (box_hash(call->box, call->source, call->watch, sha256, &size, &err) < 0 ||
        box_read_open(call->box, call->source, &fd, &stat, &err) < 0 ||
        strcmp(file_etag(&stat, etag), call->source_etag) != 0)
        memset(ret_sha256, 0, 32);
    else
        memcpy(ret_sha256, sha256, 32);
}

/* ---- summaries ---- */

enum {
    SCAN_BYTES = 1 << 20,
    NAMES = 10, /* definitions that are shown */
    NAME_BYTES = 60,
    FOUND_MAX = 256,
};

struct found {
    const uint8_t *name;
    size_t len;
};

/* For endings of file names: the keywords that precede a defined name. */
static const struct language {
    const char *endings, *words;
} languages[] = {
    {".go", "func type"},
    {".py .pyi", "def class"},
    {".js .jsx .mjs .cjs .ts .tsx .mts", "function class interface"},
    {".rs", "fn struct enum trait"},
    {".java .kt .cs .swift", "class interface enum fun func struct protocol"},
    {".rb", "def class module"},
    {".php", "function class interface trait"},
    {".lua .sh .bash", "function"},
};
/* Words that may precede such a keyword. */
static const char modifiers[] = "export default async public private protected static abstract final pub unsafe const "
                                "local open internal override";

/* Returns whether the word at text is in a list. */
static bool offload_word_in(const char *list, const uint8_t *text, size_t len) {
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == len && memcmp(at, text, len) == 0)
            return true;
    return false;
}

static size_t offload_name_len(const uint8_t *at, const uint8_t *end) {
    size_t len = 0;
    while (at + len < end && (at[len] == '_' || at[len] == '$' || (at[len] >= '0' && at[len] <= '9') ||
                              ((at[len] | 0x20) >= 'a' && (at[len] | 0x20) <= 'z')))
        len++;
    return len;
}

static const uint8_t *offload_skip_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '*')) /* "function* f" */
        at++;
    return at;
}

/* Finds the name that a line defines; len 0: none. */
static struct found offload_line_name(const struct language *language, const uint8_t *at, const uint8_t *end) {
    for (;;) {
        at = offload_skip_blanks(at, end);
        size_t len = offload_name_len(at, end);
        if (len == 0)
            return (struct found){0};
        if (offload_word_in(language->words, at, len)) {
            at = offload_skip_blanks(at + len, end);
            const uint8_t *close = at < end && *at == '(' ? memchr(at, ')', (size_t)(end - at)) : NULL;
            if (close) /* the receiver of a method */
                at = offload_skip_blanks(close + 1, end);
            return (struct found){.name = at, .len = offload_name_len(at, end)};
        }
        if (!offload_word_in(modifiers, at, len))
            return (struct found){0};
        at += len;
    }
}

static int offload_found_order(const void *left, const void *right) {
    const struct found *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Lists names that a source file defines; nothing for other files. */
static void offload_definitions(struct buf *out, const char *path, const uint8_t *text, size_t len) {
    const struct language *language = languages, *last = languages + sizeof languages / sizeof *languages;
    const char *ending = strrchr(path, '.');
    struct found found[FOUND_MAX] = {0};
    size_t count = 0, shown = 0;
    if (!ending || strchr(ending, '/'))
        return;
    while (language < last && !offload_word_in(language->endings, (const uint8_t *)ending, strlen(ending)))
        language++;
    const uint8_t *end = language == last ? text : text + (len < SCAN_BYTES ? len : SCAN_BYTES), *next;
    for (const uint8_t *line = text; line < end && count < FOUND_MAX; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        found[count] = offload_line_name(language, line, next);
        count += found[count].len > 0 && found[count].len <= NAME_BYTES;
    }
    qsort(found, count, sizeof *found, offload_found_order);
    for (size_t i = 0; i < count && shown < NAMES; i++) {
        if (i && offload_found_order(&found[i - 1], &found[i]) == 0)
            continue;
        buf_puts(out, shown++ ? ", " : "Key definitions: ");
        buf_put(out, found[i].name, found[i].len);
    }
    buf_puts(out, shown ? "\n" : "");
}

/* Writes facts about a kept result for the model, one per line. Always short; reads at most SCAN_BYTES of the text. */
static void offload_summary(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len,
                            uint64_t lines) {
    const struct exec_result *exec = &call->exec;
    if (call->tool == &tool_read_file && call->source) {
        buf_printf(out, "File: %.400s, %" PRIu64 " lines\n", call->source, lines);
        offload_definitions(out, call->source, text, len);
    } else if (call->tool == &tool_bash && call->has_exec) {
        if (exec->exited)
            buf_printf(out, "Exit code: %d", exec->exit_code);
        else
            buf_printf(out, "Killed by signal %d", exec->signal);
        buf_printf(out, "%s%s\n", exec->timed_out ? ", timed out" : "", exec->oom_killed ? ", out of memory" : "");
    } else if (call->tool == &tool_ls) {
        buf_printf(out, "Entries: %" PRIu64 "\n", lines);
    }
}

/* ---- keeping ---- */

/* bash(command=make -j4 all) */
static void offload_text_call(struct buf *out, struct tool_call *call, const void *args) {
    const char *between = "";
    buf_printf(out, "%s(", call->tool->name);
    for (const struct row *field = call->tool->fields; args && field->name; field++) {
        const void *at = (const char *)args + field->offset;
        const struct row_text *text = at;
        const struct row_number *number = at;
        if (strcmp(field->name, "description") == 0)
            continue;
        if (field->type == ROW_TEXT && text->data) {
            autobuf plain = buf_max(4 * LIMIT_JSON_BYTES);
            secret_text(call, text->data, text->len, &plain);
            size_t len = truncate_head(plain.data, plain.len, 80);
            buf_printf(out, "%s%s=", between, field->name);
            text_shown(out, (const char *)plain.data, len);
            buf_puts(out, len < plain.len ? "..." : "");
            between = ", ";
        } else if (field->type == ROW_INT && number->has) {
            buf_printf(out, "%s%s=%" PRIu64, between, field->name, number->value);
            between = ", ";
        }
    }
    buf_puts(out, ")");
}

/* Writes the text that replaces the result. Even a text that is only a little too long is reduced to head and tail. */
static void offload_text_kept(struct buf *out, struct tool_call *call, const void *args, const struct offload_row *row,
                              const uint8_t *text, size_t len, uint64_t limit) {
    uint64_t head_chars = limit / 3 < HEAD_CHARS ? limit / 3 : HEAD_CHARS;
    uint64_t tail_chars = limit / 6 < TAIL_CHARS ? limit / 6 : TAIL_CHARS, chars = row->index.chars;
    size_t head = truncate_head(text, len, head_chars), tail = truncate_tail(text, len, tail_chars);
    buf_printf(out, "[offload:%s] ", row->id);
    offload_text_call(out, call, args);
    buf_printf(out, "\n%" PRIu64 " characters, %" PRIu64 " lines, %zu bytes, ~%" PRIu64 " tokens\n", chars,
               row->index.lines, len, chars / CHARS_PER_TOKEN);
    offload_summary(out, call, text, len, row->index.lines);
    buf_printf(out,
               "To see more: recall with id \"%s\" and offset and limit (characters), start_line and end_line, or "
               "pattern.\n",
               row->id);
    buf_printf(out, "--- Head: characters 0-%" PRIu64 " ---\n", head_chars);
    buf_put(out, text, head);
    buf_printf(out, "\n--- %" PRIu64 " characters omitted ---\n", chars - head_chars - tail_chars);
    buf_printf(out, "--- Tail: characters %" PRIu64 "-%" PRIu64 " ---\n", chars - tail_chars, chars);
    buf_put(out, text + len - tail, tail);
}

bool offload_result(struct tool_call *call, const void *args) {
    const struct tool_settings *settings = call->settings;
    const struct tool_result *result = &call->result;
    if (!settings->offload || !call->host->store || !call->box || result->whole || result->ranged ||
        result->image.len || call->tool->cut == TOOL_WHOLE)
        return false;
    uint64_t limit = settings->offload_chars ? settings->offload_chars : truncate_limit(call); /* 0: any length */
    size_t len;
    const uint8_t *text = limit ? spool_view(&call->result.text, &len) : NULL;
    if (!text || len <= limit)
        return false;
    struct offload_row row = {.user = call->user,
                              .box = call->box->id,
                              .thread = call->thread,
                              .tool = call->tool->name,
                              .path = call->source};
    struct err err;
    offload_index_build(text, len, call->arena, &row.index);
    if (row.index.chars <= limit)
        return false;
    if (row.path)
        offload_source_hash(call, row.sha256);
    if (offload_add(call->host->store, &row, &call->result.text, settings->offload_max_mb << 20, &err) < 0) {
        log_warn("cannot keep a long result of %s, which was truncated instead: %s", call->tool->name, err.text);
        return false;
    }
    autobuf out = buf_max(TEXT_BYTES);
    text = spool_view(&call->result.text, &len); /* it may be in a file now */
    offload_text_kept(&out, call, args, &row, text, len, limit);
    spool_clear(&call->result.text);
    tool_put(call, out.data, out.len); /* tool_put removes secrets in the arguments */
    secret_settle(call);
    return true;
}

/* Returns 1 if the file has this sha256, 0 if it has another or was removed (*ret_removed), negative if unknown. */
static int offload_source_same(struct tool_call *call, const struct offload_row *row, bool *ret_removed,
                               struct err *err) {
    uint8_t sha256[32];
    uint64_t size;
    int r = box_hash(call->box, row->path, call->watch, sha256, &size, err);
    *ret_removed = r == -ERR_NOT_FOUND;
    if (r == -ERR_NOT_FOUND || r == -ERR_INVALID) /* INVALID: a directory or the like is there now */
        return 0;
    return r < 0 ? r : memcmp(sha256, row->sha256, sizeof sha256) == 0;
}

bool offload_changed(struct tool_call *call, const struct offload_row *row) {
    struct file_stat stat;
    struct err err;
    bool removed;
    if (row->stale || !row->path)
        return row->stale;
    if (tool_box_found(call, &err) < 0 || !call->box)
        return false;
    int r = box_stat(call->box, row->path, call->arena, &stat, &err);
    if (r < 0)
        return r == -ERR_NOT_FOUND;
    if (stat.size > HASH_BYTES && stat.mtime_ns / 1000000 + MTIME_SLACK_MS < row->made_ms)
        return false;
    return offload_source_same(call, row, &removed, &err) == 0;
}

int offload_refresh(struct tool_call *call, void (*each)(void *user, const char *id, const char *path, bool removed),
                    void *user, struct err *err) {
    struct tool_store *store = call->host->store;
    struct offload_row *rows = NULL;
    size_t count = 0;
    char box[17];
    offload_box(call, box);
    if (!store || !call->settings->offload)
        return 0;
    int r = offload_sources(store, call->user, box, call->thread, offload_since_ms(call->settings), call->arena, &rows,
                            &count, err);
    if (r == 0 && count)
        r = tool_box(call, err);
    for (size_t i = 0; i < count && r == 0; i++) {
        bool removed = false, first = false;
        int same = offload_source_same(call, &rows[i], &removed, err);
        if (same == -ERR_GONE)
            return same;
        if (same == 0)
            r = offload_mark_stale(store, rows[i].id, &first, err);
        if (first)
            each(user, rows[i].id, rows[i].path, removed);
    }
    return r;
}
