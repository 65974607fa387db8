/* `cubby completion`: the words that may follow on a command line, found in the table of commands, and a script by
 * which a shell asks for them. Invariant: nothing here fails or waits long: without a daemon there are no IDs. */
#include <jansson.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rest/context.h"

#define EVENT_TYPES "created|ready|warm|paused|resumed|evicted|died|exported|deleted|adopted|progress"

static const struct {
    const char *shell, *text;
} scripts[] = {
    {"bash", "# bash completion for cubby, made by `cubby completion bash`.\n"
             "_cubby() {\n"
             "    local IFS=$'\\n' words\n"
             "    # The colon of ID:PATH breaks words, so the line is split again, at spaces alone.\n"
             "    IFS=' ' read -ra words <<< \"${COMP_LINE:0:COMP_POINT}\"\n"
             "    [[ ${COMP_LINE:0:COMP_POINT} != *' ' ]] || words+=('')\n"
             "    local last=${words[${#words[@]} - 1]}\n"
             "    COMPREPLY=($(timeout 3 \"${words[0]}\" completion words \"${words[@]:1}\" 2> /dev/null))\n"
             "    if [[ ${COMPREPLY[0]} == FILES ]]; then\n"
             "        COMPREPLY=($(compgen -f -- \"$last\"))\n"
             "        compopt -o filenames 2> /dev/null\n"
             "        return\n"
             "    fi\n"
             "    [[ $last != *:* || $COMP_WORDBREAKS != *:* ]] || COMPREPLY=(\"${COMPREPLY[@]#\"${last%:*}:\"}\")\n"
             "    [[ ${COMPREPLY[0]} != *[:/] ]] || compopt -o nospace 2> /dev/null\n"
             "}\n"
             "complete -F _cubby cubby\n"},
    {"zsh", "#compdef cubby\n"
            "# zsh completion for cubby, made by `cubby completion zsh`.\n"
            "_cubby() {\n"
            "    local -a found\n"
            "    found=(${(f)\"$(timeout 3 ${words[1]} completion words \"${(@)words[2,CURRENT]}\" 2> /dev/null)\"})\n"
            "    if [[ ${found[1]} == FILES ]]; then\n"
            "        _files\n"
            "    elif [[ ${found[1]} == *[:/] ]]; then\n"
            "        compadd -S '' -- $found\n"
            "    else\n"
            "        compadd -- $found\n"
            "    fi\n"
            "}\n"
            "if [[ ${funcstack[1]} == _cubby ]]; then _cubby \"$@\"; else compdef _cubby cubby; fi\n"},
    {"fish", "# fish completion for cubby, made by `cubby completion fish`.\n"
             "function __cubby\n"
             "    set -l words (commandline -opc) (commandline -ct)\n"
             "    set -l found (timeout 3 $words[1] completion words $words[2..-1] 2> /dev/null)\n"
             "    if test \"$found[1]\" = FILES\n"
             "        __fish_complete_path (commandline -ct)\n"
             "    else\n"
             "        string join \\n -- $found\n"
             "    end\n"
             "end\n"
             "complete -c cubby -f -a '(__cubby)'\n"},
};

struct completion {
    struct cli *cli;
    const struct cli_command *command;
    const char *part; /* the word being written */
    bool files;       /* a path of this machine is possible */
    bool asked;       /* the daemon was asked; other alternatives take the same */
    const char *verb; /* the first word; NULL: none yet */
    const char *box;  /* the first word that names a box; NULL: none yet */
};

static void completion_offer(const struct completion *completion, const char *word) {
    if (strncmp(word, completion->part, strlen(completion->part)) == 0)
        puts(word);
}

/* Prints each word of "none|open". */
static void completion_choices(const struct completion *completion, const char *choices, size_t len) {
    for (const char *end = choices + len; choices < end;) {
        const char *stop = memchr(choices, '|', (size_t)(end - choices));
        size_t word = (size_t)((stop ? stop : end) - choices);
        completion_offer(completion, arena_copy(&completion->cli->arena, choices, word));
        choices += word + 1;
    }
}

/* Returns whether it is one word for every shell: no space, no control character, nothing to quote. */
static bool completion_plain(const char *name) {
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr("'\"\\$`*?[]{}()<>|&;!#~", *p))
            return false;
    return true;
}

/* Prints names from an answer of the daemon: "id" of each of "boxes". Silent if it does not answer. */
static void completion_remote_as(struct completion *completion, const char *path, const char *list, const char *key,
                                 const char *before, const char *after) {
    struct err ignored = {0};
    json_t *json = NULL, *row;
    size_t i;
    if (remote_json(completion->cli, "GET", path, NULL, &json, &ignored) < 0)
        return;
    json_array_foreach(json_object_get(json, list), i, row) {
        const json_t *value = json_object_get(row, key);
        const char *name = json_is_integer(value)
                               ? arena_printf(&completion->cli->arena, "%lld", (long long)json_integer_value(value))
                               : json_string_value(value);
        if (name && completion_plain(name))
            completion_offer(completion, arena_printf(&completion->cli->arena, "%s%s%s", before, name, after));
    }
    json_decref(json);
}

static void completion_remote(struct completion *completion, const char *path, const char *list, const char *key,
                              const char *after) {
    completion_remote_as(completion, path, list, key, "", after);
}

/* What follows a box, or a subcommand, where that is not a box itself. */
static const struct completion_follow {
    const char *command, *verb; /* verb NULL: any */
    const char *path;           /* "%" is the box, which then must have been named */
    const char *list, *key;
} completion_follows[] = {
    {"logs", NULL, "%/processes", "processes", "pid"},
    {"logs", NULL, "%/sessions", "sessions", "name"},
    {"wait", NULL, "%/processes", "processes", "pid"},
    {"kill", NULL, "%/processes", "processes", "pid"},
    {"stdin", NULL, "%/processes", "processes", "pid"},
    {"stdin", NULL, "%/sessions", "sessions", "name"},
    {"session", "stop", "%/sessions", "sessions", "name"},
    {"session", "rm", "%/sessions", "sessions", "name"},
    {"snapshot", "rm", "%/snapshots", "snapshots", "name"},
    {"rollback", NULL, "%/snapshots", "snapshots", "name"},
    {"port", NULL, "%/ports", "ports", "port"},
    {"machine", "rm", "/v1/machines", "machines", "name"},
    {"drain", NULL, "/v1/workers", "workers", "name"},
    {"template", "rm", "/v1/templates", "templates", "name"},
    {"secret", "rm", "/v1/secrets", "secrets", "name"},
    {"secret", "rotate", "/v1/secrets", "secrets", "name"},
    {"mcp-server", "rm", "/v1/mcp/servers", "servers", "name"},
    {"token", "revoke", "/v1/tokens", "tokens", "id"},
};

static bool completion_followed(struct completion *completion) {
    struct cli *cli = completion->cli;
    const char *name = completion->command->name, *verb = completion->verb ? completion->verb : "";
    bool found = false;
    for (size_t i = 0; i < sizeof completion_follows / sizeof *completion_follows; i++) {
        const struct completion_follow *follow = &completion_follows[i];
        bool box = follow->path[0] == '%';
        if (strcmp(follow->command, name) != 0 || (follow->verb && strcmp(follow->verb, verb) != 0) ||
            (box && !completion->box))
            continue;
        completion_remote(completion, box ? remote_path(cli, completion->box, follow->path + 1, NULL) : follow->path,
                          follow->list, follow->key, "");
        found = true;
    }
    return found;
}

static void completion_contexts(const struct completion *completion) {
    json_auto_t *config = context_load();
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(config, "contexts"), name, entry) completion_offer(completion, name);
}

/* Prints boxes: their IDs, or their threads once an @ was written. */
static void completion_boxes(struct completion *completion, const char *after) {
    bool thread = completion->part[0] == '@';
    completion_remote_as(completion, "/v1/boxes", "boxes", thread ? "thread" : "id", thread ? "@" : "", after);
}

/* Prints the entries of DIR for ID:DIR/PART. */
static void completion_paths(struct completion *completion) {
    const char *id, *path;
    struct err ignored = {0};
    json_t *json = NULL, *entry;
    size_t i;
    if (!remote_split(completion->cli, completion->part, &id, &path))
        return;
    const char *slash = strrchr(path, '/');
    const char *dir = slash ? arena_copy(&completion->cli->arena, path, (size_t)(slash - path + 1)) : "";
    const char *url = remote_path(completion->cli, id, "/list", *dir ? dir : ".");
    if (remote_json(completion->cli, "GET", url, NULL, &json, &ignored) < 0)
        return;
    json_array_foreach(json_object_get(json, "entries"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *type = json_string_value(json_object_get(entry, "type"));
        const char *encoding = json_string_value(json_object_get(entry, "encoding"));
        if (name && type && completion_plain(name) && encoding && strcmp(encoding, "utf-8") == 0)
            completion_offer(completion, arena_printf(&completion->cli->arena, "%s:%s%s%s", id, dir, name,
                                                      strcmp(type, "dir") == 0 ? "/" : ""));
    }
    json_decref(json);
}

/* ---- the table ---- */

static bool completion_has(const char *at, size_t len, const char *word) {
    const char *found = memmem(at, len, word, strlen(word));
    return found && (found == at || strchr(" [|", found[-1]));
}

/* Prints completions for a word of an alternative that is neither an option nor its subcommand. */
static void completion_word(struct completion *completion, const char *at, size_t len) {
    bool path = completion_has(at, len, "ID:PATH") || completion_has(at, len, "ID[:PATH]");
    bool cp = strcmp(completion->command->name, "cp") == 0, id = path || cp || completion_has(at, len, "ID");
    completion->files = completion->files || cp || completion_has(at, len, "FILE") || completion_has(at, len, "DIR");
    if (!id || completion->asked)
        return;
    completion->asked = true;
    if ((path || cp) && strchr(completion->part, ':'))
        completion_paths(completion);
    else
        completion_boxes(completion, path || cp ? ":" : "");
}

/* The usage line is "SUBCOMMAND WORD… | SUBCOMMAND WORD…", or words without a subcommand. An alternative may have
 * several subcommands: "upload|list|…". */
static void completion_alternatives(struct completion *completion, const char *verb) {
    size_t len;
    for (const char *at = completion->command->usage; *at; at += at[len] ? len + 3 : len) {
        const char *stop = strstr(at, " | ");
        size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz|");
        len = stop ? (size_t)(stop - at) : strlen(at);
        word = word <= len && (word == len || at[word] == ' ') ? word : 0;
        if (!verb && word)
            completion_choices(completion, at, word);
        else if (!word || (verb && word == strlen(verb) && strncmp(at, verb, word) == 0))
            completion_word(completion, at + word, len - word);
    }
}

static void completion_commands(const struct completion *completion) {
    for (const struct cli_command *command = command_table; command->name; command++)
        completion_offer(completion, command->name);
}

static void completion_words(struct completion *completion, int argc, char **argv) {
    const char *verb = NULL, *before = argc > 1 ? argv[argc - 2] : "";
    if (argc <= 1) {
        completion_commands(completion);
        return;
    }
    completion->command = command_find(argv[0]);
    if (!completion->command)
        return;
    for (int i = 1; i + 1 < argc; i++) {
        const struct row *row = argv[i][0] == '-' ? rows_argv_find(completion->command->options, argv[i]) : NULL;
        if (strcmp(argv[i], "--") == 0) {
            completion->files = true; /* a command for the box: a path is the best guess */
            return;
        }
        if (row && row->type != ROW_BOOL)
            i++;
        else if ((argv[i][0] != '-' || !argv[i][1]) && !verb)
            verb = argv[i];
        if (!completion->box && remote_named(argv[i]))
            completion->box = argv[i];
    }
    completion->verb = verb;
    const struct row *row = before[0] == '-' ? rows_argv_find(completion->command->options, before) : NULL;
    if (row && row->type != ROW_BOOL) {
        /* The value of an option: its choices, or by its name in the help. */
        if (strcmp(row->name, "template") == 0)
            completion_remote(completion, "/v1/templates", "templates", "name", "");
        else if (strcmp(row->name, "machine") == 0)
            completion_remote(completion, "/v1/machines", "machines", "name", "");
        else if (strcmp(row->name, "session") == 0 && completion->box)
            completion_remote(completion, remote_path(completion->cli, completion->box, "/sessions", NULL), "sessions",
                              "name", "");
        else if (strcmp(row->name, "type") == 0 && strcmp(argv[0], "events") == 0)
            completion_choices(completion, EVENT_TYPES, strlen(EVENT_TYPES));
        else if (strcmp(row->value, "ID") == 0)
            completion_boxes(completion, "");
        else if (strcmp(row->value, "DIR") == 0 || strcmp(row->value, "FILE") == 0 ||
                 strncmp(row->value, "SRC:", 4) == 0)
            completion->files = true;
        else if (strchr(row->value, '|') || strcmp(row->name, "allow-weaker") == 0)
            completion_choices(completion, row->value, strlen(row->value));
    } else if (completion->part[0] == '-') {
        for (row = completion->command->options; row; row = rows_argv_next(row))
            completion_offer(completion, arena_printf(&completion->cli->arena, "--%s", row->name));
        completion_offer(completion, "--help");
    } else if (strcmp(argv[0], "help") == 0) {
        completion_commands(completion);
    } else if (strcmp(argv[0], "tool") == 0 && !verb) {
        completion_remote(completion, "/v1/tools", "tools", "name", "");
    } else if (strcmp(argv[0], "logout") == 0 || (verb && strcmp(argv[0], "context") == 0)) {
        completion_contexts(completion);
    } else if (!completion_followed(completion)) {
        completion_alternatives(completion, verb);
    }
}

int command_completion(struct cli *cli, int argc, char **argv) {
    argc = option_parse(cli, argc, argv, NULL);
    for (size_t i = 0; argc == 1 && i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(argv[0], scripts[i].shell) == 0)
            return fputs(scripts[i].text, stdout) < 0 ? EXIT_OURS : 0;
    if (argc == 0 || strcmp(argv[0], "words") != 0)
        option_fail(cli, argc ? "no script for '%s': bash, zsh or fish" : "missing shell: bash, zsh or fish",
                    argc ? argv[0] : "");
    struct completion completion = {.cli = cli, .part = argc > 1 ? argv[argc - 1] : ""};
    completion_words(&completion, argc - 1, argv + 1);
    if (completion.files)
        puts("FILES");
    return 0;
}
