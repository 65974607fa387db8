/* The command line: every option of the table that is a text or a list of texts, and what to do instead of serving.
 * Called by conf_new. Invariant: an argument that is not understood stops the start. */
#include <string.h>

#include "daemon/conf_table.h"
#include "base/text.h"

static const struct {
    const char *name;
    enum conf_action action;
    const char *text;
} conf_actions[] = {
    {"help", CONF_HELP, "this text"},
    {"version", CONF_VERSION, "the version"},
    {"options", CONF_OPTIONS, "the table of options"},
    {"routes", CONF_ROUTES, "the table of routes"},
    {"tools", CONF_TOOLS, "the agent tools with their schemas, as JSON"},
    {"openapi", CONF_OPENAPI, "the API as OpenAPI 3.1"},
    {"check", CONF_CHECK, "read the configuration and what it names, then stop"},
    {"cleanup", CONF_CLEANUP, "end and remove all boxes of --state with their files, and what dead daemons left"},
};
#define CONF_ACTIONS (sizeof conf_actions / sizeof *conf_actions)

static int conf_usage(struct err *err, const char *argument, const char *why) {
    return err_set(err, ERR_INVALID, "%s '%s'; see cubbyd --help", why, argument);
}

static bool args_take_action(struct conf *conf, const char *name) {
    for (size_t i = 0; i < CONF_ACTIONS; i++)
        if (!strcmp(conf_actions[i].name, name)) {
            conf->action = conf_actions[i].action;
            return true;
        }
    return false;
}

/* One argument at argv[*at]; set: apply it, else only look for actions and --config (they come before the file). */
static int args_take_argument(struct conf *conf, char **argv, int *at, bool set, bool *cleared, struct err *err) {
    const char *argument = argv[*at];
    if (strncmp(argument, "--", 2) != 0 || !argument[2])
        return conf_usage(err, argument, "unexpected argument");
    char *name = arena_strdup(&conf->arena, argument + 2), *value = strchr(name, '=');
    if (value)
        *value++ = 0;
    if (!value && args_take_action(conf, name))
        return 0;
    const struct row *option = conf_find(name);
    bool is_config = !strcmp(name, "config");
    if (!option && !is_config)
        return conf_usage(err, argument, "unknown option");
    if (!value && option && option->type == CONF_BOOL)
        value = "true";
    if (!value && !(value = argv[*at + 1]))
        return conf_usage(err, argument, "a value is missing after");
    else if (value == argv[*at + 1])
        ++*at;
    if (is_config) {
        conf->config = value;
        return 0;
    }
    if (!set)
        return 0;
    const struct conf_target target = {.conf = conf};
    conf->given[conf_row(option)] = true;
    if (conf_is_list(option) && !cleared[conf_row(option)]) { /* the command line replaces the file's list */
        *(struct row_texts *)conf_slot(&target, option) = (struct row_texts){0};
        cleared[conf_row(option)] = true;
    }
    return conf_set(&target, option, value, value, err);
}

int conf_arguments(struct conf *conf, int argc, char **argv, bool set, struct err *err) {
    bool cleared[CONF_ROWS] = {false};
    for (int at = 1; at < argc; at++) {
        int failed = args_take_argument(conf, argv, &at, set, cleared, err);
        if (failed)
            return failed;
    }
    return 0;
}

void conf_print_help(FILE *file) {
    fprintf(file, "usage: cubbyd [OPTION]...\n\nThe daemon of cubby: boxes for agents over HTTP.\n\n");
    fprintf(file, "  --%-28s %s\n", "config FILE",
            "YAML with the options below (names with _); flags win over it (" CONF_DEFAULT_FILE ", if there)");
    for (const struct row *option = conf_options; option->name; option++) {
        if (option->type >= ROW_OWN && !conf_is_list(option))
            continue;
        char *flag = text_make(64, "%s%s", option->name, option->type == CONF_BOOL ? "" : " VALUE");
        for (char *p = flag; *p; p++)
            *p = *p == '_' ? '-' : *p;
        fprintf(file, "  --%-28s %s", flag, option->text);
        fprintf(file, option->initial ? " (%s)\n" : "\n", option->initial);
    }
    for (size_t i = 0; i < CONF_ACTIONS; i++)
        fprintf(file, "  --%-28s %s\n", conf_actions[i].name, conf_actions[i].text);
}
