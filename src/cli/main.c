/* `cubby`: the dispatch of commands, their help, and their errors. Invariant: nothing heavy happens before a command runs. */
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/context.h"
#include "http/client/client.h"

const struct row mode_options[] = {
    OPTION("context", 'C', TEXT, struct cli_mode, context, "NAME", "use this kept daemon (see `cubby context`)"),
    OPTION_OF("color", 0, TEXT, struct cli_mode, color, "auto|always|never",
              "when to use colours (default: auto: on terminals, unless NO_COLOR is set)"),
    OPTION("verbose", 'v', BOOL, struct cli_mode, verbose, NULL, "show code and request ID of errors"),
    {.name = NULL},
};

static int main_dispatch(struct cli *cli, int argc, char **argv);
static int main_unknown(const char *name);

int main(int argc, char **argv) {
    /* If 0, 1 or 2 is closed, the next opened file would get that number, and output would go into it. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_OURS);
    signal(SIGPIPE, SIG_IGN);
    struct cli cli = {0};
    arena_init(&cli.arena);
    int status = main_dispatch(&cli, argc, argv);
    if (cli.client)
        http_client_free(cli.client);
    arena_done(&cli.arena);
    /* Output that could not be written is a failure, even if the command succeeded. */
    if (fflush(stdout) != 0 && status == 0)
        status = EXIT_OURS;
    return status;
}

static int main_dispatch(struct cli *cli, int argc, char **argv) {
    struct err err = {0};
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        argv[1] = arena_strdup(&cli->arena, "version");
    struct rows_line line = {.argc = argc - 1, .argv = argv + 1};
    int words = argc < 1 ? 0 : rows_argv(mode_options, &line, &cli->arena, &cli_mode, &err);
    if (words < 0) {
        fprintf(stderr, "cubby: %s\nusage: cubby [OPTION…] COMMAND …\n", err.text);
        return EXIT_USAGE;
    }
    if (words == 0 && !line.help) {
        command_list(stderr);
        return EXIT_USAGE;
    }
    context_choose(cli_mode.context);
    const char *name = line.help ? "help" : argv[1];
    cli_mode.find = command_find;
    cli->command = cli_mode.command = command_find(name);
    if (!cli->command)
        return main_unknown(name);
    return cli->command->run(cli, line.help ? 0 : words - 1, argv + 2);
}

static bool main_named(const struct cli_command *command, const char *name) {
    return strcmp(command->name, name) == 0 || (command->alias && rows_choice(command->alias, name));
}

const struct cli_command *command_find(const char *name) {
    for (const struct cli_command *command = command_table; command->name; command++)
        if (main_named(command, name))
            return command;
    return NULL;
}

bool command_verb(const char *word, const char *name) {
    static const char *const synonyms[][3] = {{"ls", "list"}, {"rm", "remove", "revoke"}};
    bool same = strcmp(word, name) == 0;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        bool has[2] = {false};
        for (size_t k = 0; k < 3 && synonyms[i][k]; k++) {
            has[0] = has[0] || strcmp(word, synonyms[i][k]) == 0;
            has[1] = has[1] || strcmp(name, synonyms[i][k]) == 0;
        }
        same = same || (has[0] && has[1]);
    }
    return same;
}

void command_list(FILE *out) {
    fprintf(out, "usage: cubby [OPTION…] COMMAND …\n");
    for (const struct cli_command *command = command_table; command->name; command++) {
        if (command->group)
            fprintf(out, "\n%s:\n", command->group);
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    }
    fprintf(out, "\nOptions before the command:\n");
    rows_usage(mode_options, out);
    fprintf(
        out,
        "\nA box is named by its ID, the first 4 or more digits of it, @THREAD, @USER/THREAD, or - for the last one "
        "used.\n"
        "The daemon is that of `cubby login`, or CUBBY_URL (default %s) with CUBBY_TOKEN.\n"
        "`cubby help COMMAND` describes one, with examples.\n",
        CONTEXT_DEFAULT_URL);
}

/* Prints the rows of all commands for cubby(1); tools/manual puts them there. */
static void main_manual(FILE *out) {
    for (const struct cli_command *command = command_table; command->name; command++) {
        fprintf(out, ".It Nm Cm %s No ", command->name);
        for (const char *at = command->usage; *at; at++)
            fprintf(out, at[0] == '|' && at[1] != ' ' ? "|\\:" : "%c", *at); /* allows a line break */
        fprintf(out, "\n%c%s.\n", toupper(command->summary[0]), command->summary + 1);
        if (command->alias)
            fprintf(out, "Also: %s.\n", command->alias);
        if (!command->options)
            continue;
        const struct row *row = command->options;
        fprintf(out, ".Bl -tag -width Ds -compact\n");
        rows_manual(command->options, out);
        fprintf(out, ".El\n");
        while (row->name)
            row++;
        if (row->fields)
            fprintf(out, "The options of a box, below, apply too.\n");
    }
    fprintf(out, ".It Options before the command\n.Bl -tag -width Ds -compact\n");
    rows_manual(mode_options, out);
    fprintf(out, ".El\n.It Options of a box\n.Bl -tag -width Ds -compact\n");
    rows_manual(box_rows, out);
    fprintf(out, ".El\n");
}

const struct row help_options[] = {
    {.name = "manual", .type = ROW_BOOL, .text = "print the options of all commands as a part of cubby(1)"},
    {.name = NULL},
};

int command_help_command(struct cli *cli, int argc, char **argv) {
    bool manual = false; /* help_options */
    argc = option_parse(cli, argc, argv, &manual);
    if (argc > 1)
        option_fail(cli, "one command at a time");
    const struct cli_command *command = argc ? command_find(argv[0]) : NULL;
    if (argc && !command)
        return main_unknown(argv[0]);
    if (command)
        command_help(command, stdout);
    else
        (manual ? main_manual : command_list)(stdout);
    return 0;
}

/* Edit distance of two short words, for "did you mean". */
static unsigned main_distance(const char *a, const char *b) {
    unsigned row[32];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > 31 || b_len > 31)
        return UINT_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < gap ? change : gap;
        }
    }
    return row[b_len];
}

static int main_unknown(const char *name) {
    const char *best = NULL;
    unsigned best_distance = 3;
    for (const struct cli_command *command = command_table; command->name; command++) {
        unsigned distance = main_distance(name, command->name);
        if (distance < best_distance && distance < strlen(command->name)) {
            best = command->name;
            best_distance = distance;
        }
    }
    autobuf shown = buf_max(1024);
    text_shown(&shown, name, strnlen(name, 200));
    const char *text = buf_cstr(&shown);
    fprintf(stderr, "cubby: unknown command '%s'", text ? text : "");
    if (best)
        fprintf(stderr, "; did you mean '%s'?\n", best);
    else
        fprintf(stderr, "; `cubby help` lists them\n");
    return EXIT_USAGE;
}
