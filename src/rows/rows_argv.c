/* Options of command lines (rows_argv.h). */
#include "rows/rows_argv.h"

#include <limits.h>
#include <string.h>

void rows_texts_add(struct arena *arena, struct row_texts *list, const char *value) {
    if (!(list->count & (list->count + 1))) { /* full at 1, 3, 7 ... with a NULL at the end */
        const char **items = arena_alloc(arena, (list->count + 1) * 2 * sizeof *items);
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = arena_strdup(arena, value);
}

static int rows_argv_set(const struct row *row, const char *value, struct arena *arena, void *values, struct err *err) {
    void *at = (char *)values + row->offset;
    bool real = row->type == ROW_REAL;
    switch (row->type) {
    case ROW_BOOL:
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

const struct row *rows_argv_find(const struct row *rows, const char *word) {
    size_t len = strcspn(word, "=");
    for (const struct row *row = rows; row && row->name; row++)
        if (word[1] == '-' ? strlen(row->name) == len - 2 && strncmp(row->name, word + 2, len - 2) == 0
                           : word[1] && word[1] == row->letter)
            return row;
    return NULL;
}

/* "--name", "--name=VALUE", "-n" or "-abc": letters of flags, the last of which may have a value. */
static int rows_argv_option(const struct row *rows, struct rows_line *line, int *at, char *text, struct arena *arena,
                            void *values, struct err *err) {
    bool letters = text[1] != '-';
    char *value = letters ? NULL : strchr(text, '=');
    for (; letters ? text[1] != 0 : *text != 0; text++) {
        const struct row *row = rows_argv_find(rows, letters ? (char[]){'-', text[1], 0} : text);
        if (!row && (letters ? text[1] == 'h' : strcmp(text, "--help") == 0)) {
            line->help = true;
            return 0;
        }
        size_t len = letters ? 0 : strcspn(text + 2, "=");
        if (!row)
            return letters ? err_set(err, ERR_INVALID, "unknown option -%c", text[1])
                           : err_set(err, ERR_INVALID, "unknown option --%.*s", len > 64 ? 64 : (int)len, text + 2);
        char shown[8] = {'-', text[1], 0};
        const char *name = letters ? shown + 1 : row->name;
        bool flag = row->type == ROW_BOOL;
        if (flag && value)
            return err_set(err, ERR_INVALID, "--%s takes no value", name);
        if (letters && flag) {
            rows_argv_set(row, NULL, arena, values, err);
            continue;
        }
        const char *given = value ? value + 1 : letters && text[2] ? text + 2 : NULL;
        if (!flag && !given && *at == line->argc)
            return err_set(err, ERR_INVALID, "%s%s needs a value: %s", letters ? "-" : "--", name, row->value);
        return rows_argv_set(row, flag || given ? given : line->argv[(*at)++], arena, values, err);
    }
    return 0;
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

static int rows_usage_width(const struct row *row) {
    int width = (int)strlen(row->name) + (row->value != NULL);
    for (const char *at = row->value; at && *at; at++)
        width += (*at & 0xc0) != 0x80; /* characters, not bytes */
    return width;
}

void rows_usage(const struct row *rows, FILE *out) {
    int widest = 0;
    for (const struct row *row = rows; row->name; row++)
        widest = rows_usage_width(row) > widest ? rows_usage_width(row) : widest;
    for (const struct row *row = rows; row->name; row++) {
        fprintf(out, row->letter ? "  -%c, " : "   %c  ", row->letter ? row->letter : ' ');
        fprintf(out, "--%s%s%s%*s  %s\n", row->name, row->value ? " " : "", row->value ? row->value : "",
                widest - rows_usage_width(row), "", row->text);
    }
}
