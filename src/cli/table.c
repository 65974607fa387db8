/* Text for people: names made safe to show, columns that line up. Called by every command that prints a table. Not to
 * break: nothing that came out of a box reaches a terminal unescaped through here. */
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

/* Bytes of the well-formed UTF-8 character at text, and the character; 0 when there is none. */
static size_t text_character(const uint8_t *text, size_t len, uint32_t *ret_character) {
    size_t need = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (need > len || !text_utf8(text, need))
        return 0;
    uint32_t character = need == 1 ? text[0] : text[0] & (0x7fu >> need);
    for (size_t i = 1; i < need; i++)
        character = character << 6 | (text[i] & 0x3fu);
    *ret_character = character;
    return need;
}

/* Controls (also the 8-bit ones), and what turns the direction of text around or hides in it. */
static bool text_harmful(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

void text_shown(struct buf *out, const char *text, size_t len) {
    const uint8_t *p = (const uint8_t *)text;
    for (size_t i = 0; i < len;) {
        uint32_t character = 0;
        size_t used = text_character(p + i, len - i, &character);
        if (used && !text_harmful(character))
            buf_put(out, p + i, used);
        else if (character == '\n' || character == '\t' || character == '\r')
            buf_puts(out, character == '\n' ? "\\n" : character == '\t' ? "\\t" : "\\r");
        else if (used > 1)
            buf_printf(out, "\\u%04x", character);
        else
            buf_printf(out, "\\x%02x", p[i]);
        i += used ? used : 1;
    }
}

void table_init(struct table *table, struct arena *arena, const char *const *heads) {
    *table = (struct table){.arena = arena};
    while (heads[table->columns])
        table->columns++;
    for (unsigned i = 0; i < table->columns; i++)
        table_cell(table, heads[i]);
}

void table_cell(struct table *table, const char *text) {
    if (table->count == table->cap) {
        size_t cap = table->cap ? table->cap * 2 : 64;
        const char **cells = arena_alloc(table->arena, cap * sizeof *cells);
        if (table->count)
            memcpy(cells, table->cells, table->count * sizeof *cells);
        table->cells = cells;
        table->cap = cap;
    }
    autobuf shown;
    buf_init(&shown, 64 << 10);
    text_shown(&shown, text ? text : "-", text ? strlen(text) : 1);
    table->cells[table->count++] = arena_copy(table->arena, shown.data, shown.len);
}

static size_t table_width(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

void table_print(const struct table *table, FILE *out) {
    size_t *widths = arena_alloc(table->arena, table->columns * sizeof *widths);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = table_width(table->cells[i]), *widest = &widths[i % table->columns];
        if (width > *widest)
            *widest = width;
    }
    for (size_t i = 0; i < table->count; i++) {
        bool last = i % table->columns == table->columns - 1;
        fputs(table->cells[i], out);
        if (last)
            fputc('\n', out);
        else
            fprintf(out, "%*s", (int)(widths[i % table->columns] - table_width(table->cells[i]) + 2), "");
    }
}

const char *table_size(struct arena *arena, uint64_t bytes) {
    static const char units[] = "KMGTPE";
    if (bytes < 1024)
        return arena_printf(arena, "%u", (unsigned)bytes);
    double value = (double)bytes;
    size_t unit = 0;
    for (value /= 1024; value >= 999.95 && unit < 5; unit++)
        value /= 1024;
    return arena_printf(arena, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}
