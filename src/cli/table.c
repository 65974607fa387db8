/* Text for people: names made safe to show, aligned columns. Called by every command that prints a table. Invariant:
 * nothing from a box reaches a terminal unescaped through here. */
#include "base/base.h"
#include "cli/cli.h"

void table_cell(struct table *table, const char *text) {
    autobuf shown = buf_max(64 << 10);
    text_shown(&shown, text ? text : "-", text ? strlen(text) : 1);
    arena_add(table->arena, table->cells, table->count, table->cap) = arena_copy(table->arena, shown.data, shown.len);
}

void table_pad(struct buf *line, const char *text, size_t width, bool shown) {
    size_t start = line->len;
    if (shown && text)
        buf_puts(line, text);
    else
        text_shown(line, text ? text : "-", text ? strlen(text) : 1);
    const char *all = buf_cstr(line);
    size_t has = all ? table_width(all + start) : width;
    buf_printf(line, "%*s", (int)(width > has ? width - has : 0), "");
}

size_t table_width(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

const char *table_color(const char *word) {
    static const struct {
        const char *color, *words;
    } states[] = {
        {"\x1b[32m", "|ready|running|online|ok|"},
        {"\x1b[33m", "|paused|closing|offline|missing|stopped|"},
        {COLOR_FAILED, "|died|failed|MISSING|error|gone|"},
        {COLOR_FAINT, "|warm|ended|exited|"},
    };
    char key[32];
    if (!*word || strchr(word, '|') || (size_t)snprintf(key, sizeof key, "|%s|", word) >= sizeof key)
        return "";
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strstr(states[i].words, key))
            return states[i].color;
    return "";
}

void table_print(const struct table *table, FILE *out) {
    bool color = table->colored && cli_color(fileno(out));
    size_t *widths = arena_alloc(table->arena, table->columns * sizeof *widths);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = table_width(table->cells[i]), *widest = &widths[i % table->columns];
        if (width > *widest)
            *widest = width;
    }
    for (size_t i = 0; i < table->count; i++) {
        bool last = i % table->columns == table->columns - 1;
        const char *paint = color && table->colored >> i % table->columns & 1 ? table_color(table->cells[i]) : "";
        fprintf(out, "%s%s%s", paint, table->cells[i], *paint ? COLOR_OFF : "");
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
