/* Options of command lines (rows_argv.h). */
#include "rows/rows_argv.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { USAGE_WIDEST = 34, USAGE_COLUMNS = 110 }; /* of options, and of a line */

void rows_texts_add(struct arena *arena, struct row_texts *list, const char *value) {
    if (!(list->count & (list->count + 1))) { /* full at 1, 3, 7 ... with a NULL at the end */
        const char **items = arena_alloc(arena, (list->count + 1) * 2 * sizeof *items);
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = arena_strdup(arena, value);
}

const struct row *rows_argv_next(const struct row *row) {
    row++;
    while (row && !row->name)
        row = row->fields;
    return row;
}

const struct row *rows_argv_find(const struct row *rows, const char *word) {
    size_t len = strcspn(word, "=");
    for (const struct row *row = rows; row; row = rows_argv_next(row)) {
        size_t at = 0;
        while (row->name[at] && (row->name[at] == word[at + 2] || (row->name[at] == '_' && word[at + 2] == '-')))
            at++;
        if (word[1] == '-' ? !row->name[at] && at + 2 == len : word[1] && word[1] == row->letter)
            return row;
    }
    return NULL;
}

static int rows_argv_set(const struct row *row, const char *value, struct arena *arena, void *values, struct err *err) {
    void *at = (char *)values + row->offset;
    bool real = row->type == ROW_REAL;
    if (row->choices && !rows_choice(row->choices, value)) {
        char words[256] = "";
        for (const char *word = row->choices; word; word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL) {
            size_t used = strlen(words), len = strcspn(word, "|");
            bool last = !word[len];
            snprintf(words + used, sizeof words - used, "%s%.*s", !used ? "" : last ? " or " : ", ", (int)len, word);
        }
        return err_set(err, ERR_INVALID, "--%s must be %s, not '%s'", row->name, words, value);
    }
    switch (row->type) {
    case ROW_BOOL:
        if (value)
            return err_set(err, ERR_INVALID, "--%s takes no value", row->name);
        *(bool *)at = true;
        return 0;
    case ROW_TEXTS:
        rows_texts_add(arena, at, value);
        return 0;
    case ROW_INT:
    case ROW_REAL:
        if (strspn(value, real ? "0123456789." : "0123456789") != strlen(value) ||
            rows_set(row, value, value, arena, at, err) < 0 || (real && !(*(double *)at > 0 && *(double *)at <= 1e6)))
            return err_set(err, ERR_INVALID, "--%s must be a %snumber above 0, not '%s'", row->name,
                           real ? "" : "whole ", value);
        return 0;
    default:
        *(const char **)at = value;
        return 0;
    }
}

/* "--name", "--name=VALUE", "-n" or "-abc": letters of flags, the last of which may have a value. */
static int rows_argv_option(const struct row *rows, struct rows_line *line, int *at, char *text, struct arena *arena,
                            void *values, struct err *err) {
    for (bool letters = text[1] != '-';; text++) {
        char word[] = {'-', text[1], 0};
        const struct row *row = rows_argv_find(rows, letters ? word : text);
        line->help = !row && strcmp(letters ? word : text, letters ? "-h" : "--help") == 0;
        if (line->help)
            return 0;
        size_t len = letters ? 2 : strcspn(text, "=");
        if (!row)
            return err_set(err, ERR_INVALID, "unknown option %.*s", len > 64 ? 64 : (int)len, letters ? word : text);
        bool flag = row->type == ROW_BOOL;
        const char *value = letters ? (flag || !text[2] ? NULL : text + 2) : text[len] ? text + len + 1 : NULL;
        if (!flag && !value && *at == line->argc)
            return err_set(err, ERR_INVALID, "%.*s needs a value%s%s", (int)len, letters ? word : text,
                           row->value ? ": " : "", row->value ? row->value : "");
        if (!flag && !value)
            value = line->argv[(*at)++];
        TRY(line->set ? line->set(values, row, value, err) : rows_argv_set(row, value, arena, values, err));
        if (!letters || !flag || !text[2])
            return 0;
    }
}

int rows_argv(const struct row *rows, struct rows_line *line, struct arena *arena, void *values, struct err *err) {
    int words = 0;
    line->plain = INT_MAX;
    for (int at = 0; at < line->argc;) {
        char *text = line->argv[at++];
        bool dashes = strcmp(text, "--") == 0;
        if (!dashes && text[0] == '-' && text[1]) {
            int failed = rows_argv_option(rows, line, &at, text, arena, values, err);
            if (failed || line->help)
                return failed;
            continue;
        }
        if (!dashes) {
            line->argv[words++] = text;
            if ((unsigned)words <= line->words)
                continue;
        }
        line->plain = words;
        while (at < line->argc)
            line->argv[words++] = line->argv[at++];
    }
    line->plain = line->plain < words ? line->plain : words;
    line->argv[words] = NULL; /* argv has its own NULL at or beyond here */
    return words;
}

/* ---- documents ---- */

/* "--max-boxes N", with the name of the value as the row has it, or as its type suggests. */
static const char *rows_usage_option(const struct row *row, char out[128]) {
    const char *value = row->type == ROW_BOOL                           ? NULL
                        : row->value                                    ? row->value
                        : row->choices                                  ? row->choices
                        : row->type == ROW_INT || row->type == ROW_REAL ? "N"
                                                                        : "VALUE";
    snprintf(out, 128, "--%s%s%s", row->name, value ? " " : "", value ? value : "");
    for (char *at = out; *at && *at != ' '; at++)
        *at = *at == '_' ? '-' : *at;
    return out;
}

static int rows_usage_width(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80; /* characters, not bytes */
    return width;
}

/* A text from a column on, in lines of at most USAGE_COLUMNS characters. */
static void rows_usage_text(const char *text, int column, FILE *out) {
    for (int at = column; *text; text += strspn(text, " ")) {
        char word[256];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, " "), text);
        bool first = at == column, wrap = !first && at + 1 + rows_usage_width(word) > USAGE_COLUMNS;
        if (wrap)
            fprintf(out, "\n%*s", column, "");
        fprintf(out, first || wrap ? "%s" : " %s", word);
        at = (wrap ? column : at + !first) + rows_usage_width(word);
        text += strcspn(text, " ");
    }
    fputc('\n', out);
}

void rows_usage(const struct row *rows, FILE *out) {
    char option[128], text[512];
    int widest = 0;
    for (const struct row *row = rows; row; row = rows_argv_next(row)) {
        int width = row->flags & ROW_FILE ? 0 : rows_usage_width(rows_usage_option(row, option));
        widest = width > widest ? width : widest;
    }
    widest = widest < USAGE_WIDEST ? widest : USAGE_WIDEST;
    for (const struct row *row = rows; row; row = rows_argv_next(row)) {
        int width = rows_usage_width(rows_usage_option(row, option));
        bool shown = row->initial && strcmp(row->initial, "false") != 0;
        if (!(row->flags & ROW_FILE)) {
            fprintf(out, row->letter ? "  -%c, " : "   %c  ", row->letter ? row->letter : ' ');
            fprintf(out, width > widest ? "%s\n%*s" : "%s%*s", option,
                    width > widest ? 6 + widest + 2 : widest - width + 2, "");
            snprintf(text, sizeof text, shown ? "%s (default: %s)" : "%s", row->text, row->initial);
            rows_usage_text(text, 6 + widest + 2, out);
        }
        if (!row[1].name && row[1].fields)
            fprintf(out, "\n%s\n", row[1].text);
    }
}

void rows_manual(const struct row *rows, FILE *out) {
    for (const struct row *row = rows; row && row->name; row++) {
        char option[128], *value = row->flags & ROW_FILE ? NULL : strchr(rows_usage_option(row, option), ' ');
        if (row->flags & ROW_FILE)
            continue;
        if (value)
            *value++ = 0;
        fprintf(out, ".It Fl ");
        if (row->letter)
            fprintf(out, "%c , ", row->letter);
        fprintf(out, "%s", option + 1);
        fprintf(out, value ? " Ar %s\n" : "\n", value);
        fprintf(out, "%s%c%s.\n", strchr(".'", row->text[0]) ? "\\&" : "", toupper((unsigned char)row->text[0]),
                row->text + 1);
        if (row->initial)
            fprintf(out, "Default: %s.\n", row->initial);
    }
}
