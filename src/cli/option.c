/* Options by table: takes them out of argv, prints the help of a command. Called first by every command. Invariant:
 * after "--", and after the words a command allows before its own command line, nothing is an option of ours. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

struct option_scan {
    struct cli *cli;
    int argc, at;
    char **argv;
    void *values;
};

static void option_long(struct option_scan *scan, char *text);
static void option_letters(struct option_scan *scan, const char *text);

int option_parse(struct cli *cli, int argc, char **argv, void *values) {
    struct option_scan scan = {.cli = cli, .argc = argc, .argv = argv, .values = values};
    int words = 0;
    cli->plain_words = INT_MAX;
    while (scan.at < argc) {
        char *text = argv[scan.at++];
        bool dashes = strcmp(text, "--") == 0;
        if (!dashes && (text[0] != '-' || !text[1])) {
            argv[words++] = text;
            if ((unsigned)words <= cli->command->words)
                continue;
        } else if (!dashes) {
            if (text[1] == '-')
                option_long(&scan, text + 2);
            else
                option_letters(&scan, text + 1);
            continue;
        }
        cli->plain_words = words;
        while (scan.at < argc)
            argv[words++] = argv[scan.at++];
    }
    if (cli->plain_words > words)
        cli->plain_words = words;
    argv[words] = NULL; /* argv has its own NULL at or beyond here */
    return words;
}

static void option_set(struct option_scan *scan, const struct option_row *row, const char *value);

static void option_long(struct option_scan *scan, char *text) {
    const struct command *command = scan->cli->command;
    if (strcmp(text, "help") == 0) {
        command_help(command, stdout);
        exit(0);
    }
    char *value = strchr(text, '=');
    size_t len = value ? (size_t)(value - text) : strlen(text);
    for (const struct option_row *row = command->options; row && row->name; row++) {
        if (strlen(row->name) != len || strncmp(row->name, text, len) != 0)
            continue;
        if (row->kind == OPTION_FLAG && value)
            option_fail(scan->cli, "--%s takes no value", row->name);
        if (row->kind != OPTION_FLAG && !value && scan->at == scan->argc)
            option_fail(scan->cli, "--%s needs a value: %s", row->name, row->value);
        option_set(scan, row, row->kind == OPTION_FLAG ? NULL : value ? value + 1 : scan->argv[scan->at++]);
        return;
    }
    option_fail(scan->cli, "unknown option --%.*s", (int)(len > 64 ? 64 : len), text);
}

static void option_letters(struct option_scan *scan, const char *text) {
    for (; *text; text++) {
        const struct option_row *row = scan->cli->command->options;
        while (row && row->name && row->letter != *text)
            row++;
        if (*text == 'h' && (!row || !row->name)) {
            command_help(scan->cli->command, stdout);
            exit(0);
        }
        if (!row || !row->name)
            option_fail(scan->cli, "unknown option -%c", *text);
        if (row->kind == OPTION_FLAG) {
            option_set(scan, row, NULL);
            continue;
        }
        if (!text[1] && scan->at == scan->argc)
            option_fail(scan->cli, "-%c needs a value: %s", *text, row->value);
        option_set(scan, row, text[1] ? text + 1 : scan->argv[scan->at++]);
        return;
    }
}

static void option_append(struct cli *cli, struct text_list *list, const char *value) {
    const char **items = arena_alloc(&cli->arena, (list->count + 2) * sizeof *items);
    if (list->count)
        memcpy(items, list->items, list->count * sizeof *items);
    items[list->count++] = value;
    list->items = items;
}

static double option_real(const struct option_scan *scan, const struct option_row *row, const char *value) {
    char *end;
    double number = strtod(value, &end);
    bool plain = strspn(value, "0123456789.") == strlen(value);
    if (!plain || end == value || *end || !isfinite(number) || number <= 0 || number > 1e6)
        option_fail(scan->cli, "--%s must be a number above 0, not '%s'", row->name, value);
    return number;
}

static void option_set(struct option_scan *scan, const struct option_row *row, const char *value) {
    void *field = (char *)scan->values + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        break;
    case OPTION_TEXT:
        *(const char **)field = value;
        break;
    case OPTION_NUMBER:
        if (!text_u64(value, INT64_MAX, field) || *(uint64_t *)field == 0)
            option_fail(scan->cli, "--%s must be a whole number above 0, not '%s'", row->name, value);
        break;
    case OPTION_REAL:
        *(double *)field = option_real(scan, row, value);
        break;
    case OPTION_LIST:
        option_append(scan->cli, field, value);
        break;
    }
}

void command_help(const struct command *command, FILE *out) {
    fprintf(out, "usage: cubby %s %s\n\n%c%s.\n", command->name, command->usage,
            command->summary[0] >= 'a' && command->summary[0] <= 'z' ? command->summary[0] - 32 : command->summary[0],
            command->summary + 1);
    if (command->detail)
        fprintf(out, "%s\n", command->detail);
    if (command->options)
        fputc('\n', out);
    size_t widest = 0;
    for (const struct option_row *row = command->options; row && row->name; row++) {
        size_t width = strlen(row->name) + (row->value ? 1 + table_width(row->value) : 0);
        widest = width > widest ? width : widest;
    }
    for (const struct option_row *row = command->options; row && row->name; row++) {
        size_t width = strlen(row->name) + (row->value ? 1 + table_width(row->value) : 0);
        fprintf(out, row->letter ? "  -%c, " : "   %c  ", row->letter ? row->letter : ' ');
        fprintf(out, "--%s%s%s%*s  %s\n", row->name, row->value ? " " : "", row->value ? row->value : "",
                (int)(widest - width), "", row->help);
    }
}

void option_fail(const struct cli *cli, const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    autobuf shown = buf_max(sizeof text * 4 + 1);
    text_shown(&shown, text, strlen(text)); /* a word may come from a box, by completion or a script */
    fprintf(stderr, "cubby %s: %s", cli->command->name, buf_cstr(&shown));
    fprintf(stderr, "\nusage: cubby %s %s\n", cli->command->name, cli->command->usage);
    exit(EXIT_USAGE);
}
