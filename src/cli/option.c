/* Options by table (rows/rows_argv.h): removes them from argv, and prints the help of a command. Called first by every
 * command. */
#include <ctype.h>

#include "base/base.h"
#include "cli/cli.h"

int option_parse(struct cli *cli, int argc, char **argv, void *values) {
    struct rows_line line = {.argc = argc, .argv = argv, .words = cli->command->words};
    struct err err;
    int words = rows_argv(cli->command->options, &line, &cli->arena, values, &err);
    if (words < 0)
        option_fail(cli, "%s", err.text);
    if (line.help) {
        command_help(cli->command, stdout);
        exit(0);
    }
    cli->plain_words = line.plain;
    const struct row *json = rows_argv_find(cli->command->options, "--json");
    cli_mode.json = json && *(const bool *)((const char *)values + json->offset);
    return words;
}

void command_help(const struct cli_command *command, FILE *out) {
    fprintf(out, "usage: cubby %s %s\n\n%c%s.\n", command->name, command->usage, toupper(command->summary[0]),
            command->summary + 1);
    if (command->detail)
        fprintf(out, "%s\n", command->detail);
    fprintf(out, command->options ? "\nOptions:\n" : "");
    rows_usage(command->options, out);
    fprintf(out, "\nExamples:\n");
    for (const char *at = command->examples; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "  %.*s\n", (int)strcspn(at, "\n"), at);
    if (command->alias)
        fprintf(out, "\nAlso: cubby %s\n", command->alias);
}

const char *option_line(struct cli *cli, char **words) {
    autobuf line = buf_max(LIMIT_JSON_BYTES);
    for (char **word = words; *word; word++) {
        if (word != words)
            buf_byte(&line, ' ');
        text_quote(&line, *word);
    }
    return line.len ? arena_copy(&cli->arena, line.data, line.len) : NULL;
}

void option_fail(const struct cli *cli, const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    autobuf shown = buf_max(sizeof text * 4 + 1);
    text_shown(&shown, text, strlen(text)); /* a word may come from a box, through completion or a script */
    fprintf(stderr, "cubby %s: %s", cli->command->name, buf_cstr(&shown));
    fprintf(stderr, "\nusage: cubby %s %s\n", cli->command->name, cli->command->usage);
    exit(EXIT_USAGE);
}
