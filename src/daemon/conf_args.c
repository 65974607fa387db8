/* The command line: the options of the table, and actions other than serving. Called by conf_new. Invariant: an
 * argument that is not understood stops the start. */
#include "base/base.h"
#include "daemon/conf_table.h"

#define ACTION(label, key, what, meaning)                                                                              \
    { .name = (label), .letter = (key), .type = ROW_BOOL, .fallback = CONF_##what, .text = (meaning) }
static const struct row args_rows[] = {
    {.name = "config",
     .type = ROW_TEXT,
     .value = "FILE",
     .initial = CONF_DEFAULT_FILE ", if it exists",
     .text = "YAML with the options below (names with _); options of the command line win over it"},
    ACTION("help", 'h', HELP, "print this text"),
    ACTION("version", 0, VERSION, "print the version"),
    ACTION("options", 0, OPTIONS, "print the table of options"),
    ACTION("routes", 0, ROUTES, "print the table of routes"),
    ACTION("tools", 0, TOOLS, "print the agent tools with their schemas, as JSON"),
    ACTION("openapi", 0, OPENAPI, "print the API as OpenAPI 3.1"),
    ACTION("manual", 0, MANUAL, "print the list of options for cubbyd(8)"),
    ACTION("check", 0, CHECK, "read the configuration and what it names, then stop"),
    ACTION("cleanup", 0, CLEANUP, "end and remove all boxes of --state with their files, and what dead daemons left"),
    OPTIONS_MORE(conf_options, "Options of the daemon, also of the file; a switch without =true or =false is true:"),
};

struct args {
    struct conf *conf;
    bool given[CONF_ROWS]; /* per row of conf_options */
};

static bool args_own(const struct row *row) {
    return row >= args_rows && row < args_rows + sizeof args_rows / sizeof *args_rows;
}

/* Handles what is needed before the file: where it is, and whether it is read at all. */
static int args_take(void *values, const struct row *row, const char *value, struct err *err) {
    struct conf *conf = ((struct args *)values)->conf;
    if (!args_own(row))
        return 0;
    if (row->type != ROW_BOOL)
        conf->config = value;
    else if (value)
        return err_set(err, ERR_INVALID, "--%s takes no value", row->name);
    else
        conf->action = (enum conf_action)row->fallback;
    return 0;
}

/* Sets options, which override the file. */
static int args_set(void *values, const struct row *row, const char *value, struct err *err) {
    struct args *args = values;
    const struct conf_target target = {.conf = args->conf};
    if (args_own(row))
        return 0;
    if (conf_is_list(row) && !args->given[conf_row(row)])
        *(struct row_texts *)conf_slot(&target, row) = (struct row_texts){0}; /* replaces the file's list */
    args->given[conf_row(row)] = *conf_given_at(&target, row) = true;
    value = value ? value : "true";
    return conf_set(&target, row, value, value, err);
}

int conf_arguments(struct conf *conf, int argc, char **argv, bool set, struct err *err) {
    struct args args = {.conf = conf};
    char **copy = arena_alloc(&conf->arena, ((size_t)argc + 1) * sizeof *copy);
    struct rows_line line = {.argc = argc - 1, .argv = copy, .set = set ? args_set : args_take};
    memcpy(copy, argv + 1, (size_t)(argc - 1) * sizeof *copy);
    int words = rows_argv(args_rows, &line, &conf->arena, &args, err);
    if (words > 0)
        words = err_set(err, ERR_INVALID, "unexpected argument '%.200s'", copy[0]);
    return words < 0 ? err_set(err, ERR_INVALID, "%s; see cubbyd --help", text_make(sizeof err->text, "%s", err->text))
                     : 0;
}

void conf_print_help(FILE *file) {
    fprintf(file, "usage: cubbyd [OPTION]...\n\nThe daemon of cubby: boxes for agents over HTTP.\n\n");
    rows_usage(args_rows, file);
}

void conf_print_manual(FILE *file) {
    rows_manual(conf_options, file);
}
