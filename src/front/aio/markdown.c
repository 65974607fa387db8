/* Kinds of text files, and tables and fences in Markdown. Called by aio/util.c. Invariant: nothing here looks back further
 * than a constant, so that no input takes more than its length. */
#include "front/aio/markdown.h"

#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/text.h"

#define ROOM_BYTES (64u << 10) /* for whatever is short */

static const struct {
    const char *ending, *media;
    enum markdown_kind kind;
} kinds[] = {
    {".html", "text/html", MARKDOWN_HTML},
    {".htm", "application/xhtml+xml", MARKDOWN_HTML},
    {".xhtml", "text/xhtml", MARKDOWN_HTML},
    {".json", "application/json", MARKDOWN_JSON},
    {".csv", "text/csv", MARKDOWN_CSV},
    {".tsv", "text/tab-separated-values", MARKDOWN_TSV},
    {".md", "text/markdown", MARKDOWN_TEXT},
    {".txt", "text/plain", MARKDOWN_TEXT},
    {".markdown", "text/x-markdown", MARKDOWN_TEXT},
};

static bool begins(const char *data, size_t len, const char *word) {
    size_t n = strlen(word);
    while (len && strchr(" \t\r\n", *data))
        data++, len--;
    return len >= n && !strncasecmp(data, word, n);
}

enum markdown_kind markdown_kind(const char *name, const char *media, const char *data, size_t len) {
    size_t name_len = name ? strlen(name) : 0, media_len = media ? strcspn(media, "; ") : 0;
    if (memchr(data, 0, len) || !text_utf8(data, len))
        return MARKDOWN_NONE;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t ending = strlen(kinds[i].ending);
        if (name_len > ending && !strcasecmp(name + name_len - ending, kinds[i].ending))
            return kinds[i].kind;
        if (media_len && strlen(kinds[i].media) == media_len && !strncasecmp(media, kinds[i].media, media_len))
            return kinds[i].kind;
    }
    return begins(data, len, "<!doctype html") || begins(data, len, "<html") ? MARKDOWN_HTML : MARKDOWN_TEXT;
}

/* ---- fences ---- */

/* Longer than any row of backticks inside. */
static void fenced(const char *data, size_t len, const char *language, struct buf *out) {
    size_t longest = 2, row = 0;
    for (size_t i = 0; i < len; i++) {
        row = data[i] == '`' ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        buf_byte(out, '`');
    buf_puts(out, language);
    buf_byte(out, '\n');
    buf_put(out, data, len);
    if (!len || data[len - 1] != '\n')
        buf_byte(out, '\n');
    for (size_t i = 0; i <= longest; i++)
        buf_byte(out, '`');
    buf_byte(out, '\n');
}

/* ---- tables ---- */

struct table {
    struct buf *out;
    size_t column, row;
    bool blank; /* a space is owed to what comes next in this cell */
    bool filled;
};

static void cell_byte(struct table *table, char byte) {
    if (!table->filled && !table->column)
        buf_byte(table->out, '|');
    if (!table->filled)
        buf_byte(table->out, ' ');
    table->filled = true;
    if (strchr(" \t\r\n", byte)) {
        table->blank = true;
        return;
    }
    if (table->blank)
        buf_byte(table->out, ' ');
    table->blank = false;
    if (byte == '|' || byte == '\\')
        buf_byte(table->out, '\\');
    buf_byte(table->out, (uint8_t)byte);
}

static void cell_end(struct table *table) {
    if (!table->filled)
        buf_puts(table->out, table->column ? " " : "| ");
    buf_puts(table->out, " |");
    table->column++;
    table->filled = table->blank = false;
}

/* Cells that a row lacks are empty ones to Markdown as well: filled up, a wide first row would make every other as long. */
static void row_end(struct table *table) {
    buf_byte(table->out, '\n');
    if (!table->row) {
        buf_byte(table->out, '|');
        for (size_t i = 0; i < table->column; i++)
            buf_puts(table->out, " --- |");
        buf_byte(table->out, '\n');
    }
    table->row++;
    table->column = 0;
}

/* RFC 4180, and forgiving: a quote inside of a field is a character. */
static void table_write(const char *data, size_t len, char comma, struct buf *out) {
    struct table table = {.out = out};
    bool quoted = false, fresh = true, any = false;
    for (size_t i = 0; i < len && !out->failed; i++) {
        char byte = data[i];
        if (quoted && byte == '"' && i + 1 < len && data[i + 1] == '"') {
            cell_byte(&table, data[i++]);
        } else if (quoted && byte == '"') {
            quoted = false;
        } else if (!quoted && fresh && byte == '"') {
            quoted = any = true;
            fresh = false;
        } else if (!quoted && byte == comma) {
            cell_end(&table);
            fresh = any = true;
        } else if (!quoted && byte == '\n') {
            if (any) { /* empty lines are no rows */
                cell_end(&table);
                row_end(&table);
            }
            fresh = true;
            any = false;
        } else if (quoted || byte != '\r') {
            cell_byte(&table, byte);
            fresh = false;
            any = true;
        }
    }
    if (any) {
        cell_end(&table);
        row_end(&table);
    }
}

size_t markdown_room(size_t len) {
    size_t most = 4 * LIMIT_EDIT_BYTES;
    return len < most / 10 - ROOM_BYTES ? 10 * len + ROOM_BYTES
                                        : most; /* a comma of the first row becomes nine bytes */
}

void markdown_write(enum markdown_kind kind, const char *data, size_t len, struct buf *out) {
    switch (kind) {
    case MARKDOWN_HTML:
        markdown_html(data, len, out);
        return;
    case MARKDOWN_JSON:
        fenced(data, len, "json", out);
        return;
    case MARKDOWN_CSV:
    case MARKDOWN_TSV:
        table_write(data, len, kind == MARKDOWN_CSV ? ',' : '\t', out);
        return;
    case MARKDOWN_NONE:
    case MARKDOWN_TEXT:
        buf_put(out, data, len);
        return;
    }
}
