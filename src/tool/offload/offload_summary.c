/* Summaries of kept results, a row a tool. Called by offload. Invariant: a summary is short whatever the text is, and
 * looks at no more than SCAN_BYTES of it. */
#include "tool/offload/offload_summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCAN_BYTES = 1 << 20,
    NAMES = 10, /* of definitions that are told */
    NAME_BYTES = 60,
    FOUND_MAX = 256,
};

/* ---- names that a source file defines ---- */

struct found {
    const uint8_t *name;
    size_t len;
};

/* By the end of a file's name: the words that come before a name that is being defined. */
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
/* These may come before such a word. */
static const char modifiers[] = "export default async public private protected static abstract final pub unsafe const "
                                "local open internal override";

/* The word at text is one of a list. */
static bool word_in(const char *list, const uint8_t *text, size_t len) {
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == len && memcmp(at, text, len) == 0)
            return true;
    return false;
}

static const struct language *language_of(const char *path) {
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && !strchr(ending, '/') && i < sizeof languages / sizeof *languages; i++)
        if (word_in(languages[i].endings, (const uint8_t *)ending, strlen(ending)))
            return &languages[i];
    return NULL;
}

static size_t name_len(const uint8_t *at, const uint8_t *end) {
    size_t len = 0;
    while (at + len < end && (at[len] == '_' || at[len] == '$' || (at[len] >= '0' && at[len] <= '9') ||
                              ((at[len] | 0x20) >= 'a' && (at[len] | 0x20) <= 'z')))
        len++;
    return len;
}

static const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '*')) /* "function* f" */
        at++;
    return at;
}

/* The name that a line defines; len 0: none. */
static struct found line_name(const struct language *language, const uint8_t *at, const uint8_t *end) {
    for (;;) {
        at = skip_blanks(at, end);
        size_t len = name_len(at, end);
        if (len == 0)
            return (struct found){0};
        if (word_in(language->words, at, len)) {
            at = skip_blanks(at + len, end);
            const uint8_t *close = at < end && *at == '(' ? memchr(at, ')', (size_t)(end - at)) : NULL;
            if (close) /* the receiver of a method */
                at = skip_blanks(close + 1, end);
            return (struct found){.name = at, .len = name_len(at, end)};
        }
        if (!word_in(modifiers, at, len))
            return (struct found){0};
        at += len;
    }
}

static int found_order(const void *left, const void *right) {
    const struct found *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static void put_names(struct buf *out, const struct language *language, const uint8_t *text, size_t len) {
    struct found found[FOUND_MAX] = {0};
    size_t count = 0, told = 0;
    const uint8_t *end = text + (len < SCAN_BYTES ? len : SCAN_BYTES), *next;
    for (const uint8_t *line = text; line < end && count < FOUND_MAX; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        found[count] = line_name(language, line, next);
        count += found[count].len > 0 && found[count].len <= NAME_BYTES;
    }
    qsort(found, count, sizeof *found, found_order);
    for (size_t i = 0; i < count && told < NAMES; i++) {
        if (i && found_order(&found[i - 1], &found[i]) == 0)
            continue;
        buf_puts(out, told++ ? ", " : "Key definitions: ");
        buf_put(out, found[i].name, found[i].len);
    }
    if (told)
        buf_puts(out, "\n");
}

/* ---- a row a tool ---- */

typedef void summary_put(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len,
                         uint64_t lines);

static void put_file(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len, uint64_t lines) {
    if (!call->source)
        return;
    const struct language *language = language_of(call->source);
    buf_printf(out, "File: %.400s, %" PRIu64 " lines\n", call->source, lines);
    if (language)
        put_names(out, language, text, len);
}

static void put_exit(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len, uint64_t lines) {
    (void)text, (void)len, (void)lines;
    const struct exec_result *exec = &call->exec;
    if (!call->has_exec)
        return;
    if (exec->exited)
        buf_printf(out, "Exit code: %d", exec->exit_code);
    else
        buf_printf(out, "Killed by signal %d", exec->signal);
    buf_printf(out, "%s%s\n", exec->timed_out ? ", out of time" : "", exec->oom_killed ? ", out of memory" : "");
}

static void put_entries(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len,
                        uint64_t lines) {
    (void)call, (void)text, (void)len;
    buf_printf(out, "Entries: %" PRIu64 "\n", lines);
}

static const struct {
    const char *tool;
    summary_put *put;
} rows[] = {{"read_file", put_file}, {"bash", put_exit}, {"ls", put_entries}};

void offload_summary(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len, uint64_t lines) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].tool, call->tool->name) == 0)
            rows[i].put(out, call, text, len, lines);
}
