/* The table of options and the command line. Called by main once, before any thread.
 * Not to break: an option that is not understood stops the start; nothing is ignored. */
#include "daemon/conf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/limits.h"
#include "base/text.h"
#include "daemon/conf_table.h"

#define ROW(label, kind, member) .name = (label), .type = CONF_##kind, .offset = offsetof(struct conf, member)

const struct conf_option conf_options[] = {
    {ROW("listen", TEXT, listen), .fallback = "127.0.0.1:7070",
     .text = "HOST:PORT or unix:PATH, several by ','; anything wider than loopback demands tokens"},
    {ROW("state", TEXT, state),
     .text = "directory for boxes; default /var/lib/cubby as root, else $XDG_STATE_HOME/cubby or ~/.local/state/cubby"},
    {ROW("runner", TEXT, runner), .text = "cubby-runner; default beside cubbyd, else ../libexec/cubby/cubby-runner"},
    {ROW("backend", TEXT, backend), .fallback = "jail", .text = "how boxes are made when a request does not say"},
    {ROW("allow_local", BOOL, allow_local), .fallback = "false",
     .text = "allow the backend 'local', which walls off nothing: only where every client is trusted"},
    {ROW("allow_weaker", LIST, allow_weaker), .choices = "landlock|limits",
     .text = "jails may do without these where the machine lacks them: landlock, limits (the default ones)"},
    {ROW("local_maps", LIST, local_maps), .text = "backend local: VIRTUAL=REAL[:ro]"},
    {ROW("mount_sources", LIST, mount_sources), .text = "directories that boxes may mount (and all below them)"},
    {ROW("open_networks", LIST, open_networks),
     .text = "private IPv4 networks (A.B.C.D/BITS) that boxes with network 'open' may reach; else none"},
    {ROW("env", LIST, env), .text = "NAME=VALUE given to every box"},
    {ROW("memory_mb", INT, memory_mb), .max = 1u << 20, .fallback = "2048",
     .text = "MiB of memory of a box unless its request says; 0: no limit"},
    {ROW("cpus", REAL, cpus), .max = 1024, .fallback = "0", .text = "processors of a box; 0: no limit"},
    {ROW("pids", INT, pids), .max = 1u << 22, .fallback = "1024", .text = "processes of a box, in the same way"},
    {ROW("disk_mb", INT, disk_mb), .max = 1u << 30, .fallback = "0", .text = "files of a box; 0: no limit"},
    {ROW("disk_quota", TEXT, disk_quota), .fallback = "auto", .choices = "auto|project|btrfs|loop|tmpfs",
     .text = "how disk_mb is kept; auto: the first that this machine can"},
    {ROW("disk_reserve", BOOL, disk_reserve), .fallback = "false",
     .text = "take the space for disk_mb when a box is made, so that the disk cannot be promised twice (loop)"},
    {ROW("open_files", INT, open_files), .max = LIMIT_OPEN_FILES, .fallback = "4096",
     .text = "descriptors of one process of a box; 0: the daemon's own hard limit"},
    {ROW("output_bytes", INT, output_bytes), .max = LIMIT_OUTPUT_LIMIT_BYTES, .fallback = "16777216",
     .text = "largest output_limit_bytes a command of a box may have; 0: 64 MiB"},
    {ROW("idle_timeout_ms", INT, idle_timeout_ms), .max = 365ull * 86400000, .fallback = "600000",
     .text = "processes of a box without a call end after that, files stay; 0: never"},
    {ROW("pool_size", INT, pool_size), .max = 256, .fallback = "8", .text = "parts of boxes kept ready"},
    {ROW("end_boxes", BOOL, end_boxes), .fallback = "false",
     .text = "end all boxes' processes when the daemon stops; else the next daemon adopts them"},
    {ROW("auth", TEXT, auth), .fallback = "auto", .choices = "auto|peer|required",
     .text =
         "without a token, on loopback and unix sockets: auto: admin; peer: by uid, see peer_uids; required: refused. "
         "auto is peer where root allows local boxes or mounts"},
    {ROW("peer_uids", LIST, peer_uids),
     .text = "auth peer: uids or names that are admins beside root, or UID=USER: acts as USER; others need tokens"},
    {ROW("socket_mode", TEXT, socket_mode), .fallback = "0600", .text = "mode of unix sockets"},
    {ROW("socket_group", TEXT, socket_group), .text = "group of unix sockets"},
    {ROW("tokens", TOKENS, tokens), .text = "file only: list of {token or token_sha256, user, scope admin|user|read}"},
    {ROW("allowed_hosts", LIST, allowed_hosts), .text = "further names that Host and Origin may have"},
    {ROW("tls_cert", TEXT, tls_cert), .text = "PEM certificate chain; with tls_key: HTTPS"},
    {ROW("tls_key", TEXT, tls_key), .text = "PEM key"},
    {ROW("max_upload_bytes", INT, max_upload_bytes), .min = 1, .max = 1ull << 44, .fallback = "524288000",
     .text = "largest file or archive a client may send"},
    {ROW("max_unpack_entries", INT, max_unpack_entries), .min = 1, .max = 1ull << 32, .fallback = "1000000",
     .text = "files and directories one archive may make"},
    {ROW("max_connections", INT, max_connections), .min = 1, .max = 1u << 20, .fallback = "12000",
     .text = "open at once; beyond, the one that is idle longest goes"},
    {ROW("max_threads", INT, max_threads), .min = 1, .max = 32768, .fallback = "4096", .text = "requests at once"},
    {ROW("max_boxes", INT, max_boxes), .min = 1, .max = LIMIT_BOXES, .fallback = "10000", .text = "of all users"},
    {ROW("max_boxes_per_user", INT, max_boxes_per_user), .max = LIMIT_BOXES, .fallback = "4096",
     .text = "of one user; 0: no limit of its own"},
    {ROW("box_rate_per_user", INT, box_rate_per_user), .max = 60000, .fallback = "600",
     .text = "boxes a user's tokens may ask for a minute; 0: no limit"},
    {ROW("max_requests_per_user", INT, max_requests_per_user), .max = 32768, .fallback = "1024",
     .text = "requests of a user's tokens at once, streams included; 0: no limit"},
    {ROW("max_calls_per_box", INT, max_calls_per_box), .max = 32768, .fallback = "256",
     .text = "requests on one box at once, streams included; 0: no limit"},
    {ROW("body_memory_mb", INT, body_memory_mb), .max = 1u << 20, .fallback = "1024",
     .text = "MiB that JSON bodies and command output may take at once in the daemon; 0: no limit"},
    {ROW("min_rate_bytes", INT, min_rate_bytes), .max = 1u << 30, .fallback = "1024",
     .text = "bytes a second below which a body or an answer is too slow to wait for; streams excepted; 0: never"},
    {ROW("drain_ms", INT, drain_ms), .max = 3600000, .fallback = "10000",
     .text = "after SIGTERM running requests may take so long"},
    {ROW("audit", BOOL, audit), .fallback = "true", .text = "record who did what in STATE/audit.db"},
    {ROW("audit_detail", BOOL, audit_detail), .fallback = "true", .text = "commands and paths too, not only verbs"},
    {ROW("audit_days", INT, audit_days), .max = 36500, .fallback = "0",
     .text = "rows of the audit log older than that are cut; 0: age does not matter"},
    {ROW("audit_max_mb", INT, audit_max_mb), .max = 1u << 20, .fallback = "1024",
     .text = "MiB of the audit log; beyond, its oldest rows are cut; 0: no limit"},
    {ROW("log_level", TEXT, log_level), .fallback = "info", .choices = "error|warn|info|debug",
     .text = "info: a line a request"},
    {.name = NULL},
};

static const struct {
    const char *name;
    enum conf_action action;
    const char *text;
} conf_actions[] = {
    {"help", CONF_HELP, "this text"},
    {"version", CONF_VERSION, "the version"},
    {"options", CONF_OPTIONS, "the table of options"},
    {"routes", CONF_ROUTES, "the table of routes"},
    {"openapi", CONF_OPENAPI, "the API as OpenAPI 3.1"},
    {"check", CONF_CHECK, "read the configuration, then stop"},
    {"cleanup", CONF_CLEANUP, "end and remove all boxes of --state with their files, and what dead daemons left"},
};
#define CONF_ACTIONS (sizeof conf_actions / sizeof *conf_actions)

/* ---- one value ---- */

const struct conf_option *conf_find(const char *name) {
    for (const struct conf_option *option = conf_options; option->name; option++) {
        const char *a = option->name, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-')))
            a++, b++;
        if (!*a && !*b)
            return option;
    }
    return NULL;
}

static bool conf_choice(const char *choices, const char *value) {
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strcspn(p, "|") == strlen(value) && !memcmp(p, value, strlen(value)))
            return true;
    return false;
}

static int conf_set_text(struct conf *conf, const struct conf_option *option, const char *value, struct err *err) {
    if (!*value)
        return err_set(err, ERR_INVALID, "%s may not be empty", option->name);
    if (option->choices && !conf_choice(option->choices, value))
        return err_set(err, ERR_INVALID, "%s must be one of %s, not '%s'", option->name, option->choices, value);
    *(const char **)((char *)conf + option->offset) = arena_strdup(&conf->arena, value);
    return 0;
}

static int conf_set_bool(struct conf *conf, const struct conf_option *option, const char *value, struct err *err) {
    bool yes = !strcmp(value, "true"), no = !strcmp(value, "false");
    if (!yes && !no)
        return err_set(err, ERR_INVALID, "%s must be true or false, not '%s'", option->name, value);
    *(bool *)((char *)conf + option->offset) = yes;
    return 0;
}

static int conf_set_number(struct conf *conf, const struct conf_option *option, const char *value, struct err *err) {
    uint64_t number = 0;
    char *end = NULL;
    double real = option->type == CONF_REAL ? strtod(value, &end) : 0;
    bool fine = option->type == CONF_REAL
                    ? *value && !*end && isfinite(real) && real >= (double)option->min && real <= (double)option->max
                    : text_u64(value, option->max, &number) && number >= option->min;
    if (!fine)
        return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, not '%s'", option->name,
                       (unsigned long long)option->min, (unsigned long long)option->max, value);
    if (option->type == CONF_REAL)
        memcpy((char *)conf + option->offset, &real, sizeof real);
    else
        *(uint64_t *)((char *)conf + option->offset) = number;
    return 0;
}

static int conf_set_list(struct conf *conf, const struct conf_option *option, const char *value, struct err *err) {
    if (option->choices && !conf_choice(option->choices, value))
        return err_set(err, ERR_INVALID, "%s holds words of %s, not '%s'", option->name, option->choices, value);
    struct conf_list *list = (struct conf_list *)((char *)conf + option->offset);
    const char **items = arena_alloc(&conf->arena, (list->count + 2) * sizeof *items);
    if (list->count)
        memcpy(items, list->items, list->count * sizeof *items);
    items[list->count++] = arena_strdup(&conf->arena, value);
    list->items = items;
    return 0;
}

void conf_clear_list(struct conf *conf, const struct conf_option *option) {
    *(struct conf_list *)((char *)conf + option->offset) = (struct conf_list){0};
}

int conf_set(struct conf *conf, const struct conf_option *option, const char *value, struct err *err) {
    switch (option->type) {
    case CONF_TEXT:
        return conf_set_text(conf, option, value, err);
    case CONF_BOOL:
        return conf_set_bool(conf, option, value, err);
    case CONF_INT:
    case CONF_REAL:
        return conf_set_number(conf, option, value, err);
    case CONF_LIST:
        return conf_set_list(conf, option, value, err);
    default:
        return err_set(err, ERR_INVALID, "%s can only stand in the configuration file", option->name);
    }
}

/* ---- the command line ---- */

static int conf_usage(struct err *err, const char *argument, const char *why) {
    return err_set(err, ERR_INVALID, "%s '%s'; see cubbyd --help", why, argument);
}

static bool conf_take_action(struct conf *conf, const char *name) {
    for (size_t i = 0; i < CONF_ACTIONS; i++)
        if (!strcmp(conf_actions[i].name, name)) {
            conf->action = conf_actions[i].action;
            return true;
        }
    return false;
}

/* One argument at argv[*at]; set: apply it, else only look for actions and --config (they come before the file). */
static int conf_argument(struct conf *conf, char **argv, int *at, bool set, bool *cleared, struct err *err) {
    const char *argument = argv[*at];
    if (strncmp(argument, "--", 2) != 0 || !argument[2])
        return conf_usage(err, argument, "unexpected argument");
    char *name = arena_strdup(&conf->arena, argument + 2), *value = strchr(name, '=');
    if (value)
        *value++ = 0;
    if (!value && conf_take_action(conf, name))
        return 0;
    const struct conf_option *option = conf_find(name);
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
    size_t row = (size_t)(option - conf_options);
    conf->given |= 1ull << row;
    if (option->type == CONF_LIST && !cleared[row]) { /* the command line replaces the file's list */
        conf_clear_list(conf, option);
        cleared[row] = true;
    }
    return conf_set(conf, option, value, err);
}

static int conf_arguments(struct conf *conf, int argc, char **argv, bool set, struct err *err) {
    bool cleared[sizeof conf_options / sizeof *conf_options] = {false};
    for (int at = 1; at < argc; at++) {
        int failed = conf_argument(conf, argv, &at, set, cleared, err);
        if (failed)
            return failed;
    }
    return 0;
}

static void conf_state_default(struct conf *conf) {
    const char *state_home = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (conf->state)
        return;
    if (geteuid() == 0)
        conf->state = "/var/lib/cubby";
    else if (state_home && *state_home == '/')
        conf->state = arena_printf(&conf->arena, "%s/cubby", state_home);
    else if (home && *home == '/')
        conf->state = arena_printf(&conf->arena, "%s/.local/state/cubby", home);
}

int conf_load(struct conf *conf, int argc, char **argv, struct err *err) {
    *conf = (struct conf){0};
    arena_init(&conf->arena);
    for (const struct conf_option *option = conf_options; option->name; option++) {
        int failed = option->fallback ? conf_set(conf, option, option->fallback, err) : 0;
        if (failed)
            return failed;
    }
    int failed = conf_arguments(conf, argc, argv, false, err);
    if (!failed && conf->config)
        failed = conf_file(conf, conf->config, err);
    if (!failed)
        failed = conf_arguments(conf, argc, argv, true, err);
    if (failed)
        return failed;
    conf_state_default(conf);
    if (!conf->state)
        return err_set(err, ERR_INVALID, "no place for state: set HOME or give --state DIR");
    for (size_t i = 0; i < conf->open_networks.count; i++)
        if (!net_network_ok(conf->open_networks.items[i]))
            return err_set(err, ERR_INVALID, "open_networks: '%s' is no IPv4 network like 10.1.0.0/16",
                           conf->open_networks.items[i]);
    if (!conf->tls_cert != !conf->tls_key)
        return err_set(err, ERR_INVALID, "tls_cert and tls_key go together: give both or none");
    return 0;
}

bool conf_given(const struct conf *conf, const char *name) {
    return conf->given >> (conf_find(name) - conf_options) & 1;
}

void conf_done(struct conf *conf) {
    arena_done(&conf->arena);
}

/* ---- showing ---- */

static const char *conf_type_name(enum conf_type type) {
    static const char *const names[] = {"text", "bool", "integer", "number", "list", "tokens"};
    return names[type];
}

void conf_print_options(FILE *file) {
    for (const struct conf_option *option = conf_options; option->name; option++)
        fprintf(file, "%s\t%s\t%s\t%s\n", option->name, conf_type_name(option->type),
                option->fallback ? option->fallback : "-", option->text);
}

void conf_print_help(FILE *file) {
    fprintf(file, "usage: cubbyd [OPTION]...\n\nThe daemon of cubby: boxes for agents over HTTP.\n\n");
    fprintf(file, "  --%-28s %s\n", "config FILE", "YAML with the options below (names with _); flags win over it");
    for (const struct conf_option *option = conf_options; option->name; option++) {
        char flag[64];
        if (option->type == CONF_TOKENS)
            continue;
        snprintf(flag, sizeof flag, "%s%s", option->name, option->type == CONF_BOOL ? "" : " VALUE");
        for (char *p = flag; *p; p++)
            *p = *p == '_' ? '-' : *p;
        fprintf(file, "  --%-28s %s", flag, option->text);
        fprintf(file, option->fallback ? " (%s)\n" : "\n", option->fallback);
    }
    for (size_t i = 0; i < CONF_ACTIONS; i++)
        fprintf(file, "  --%-28s %s\n", conf_actions[i].name, conf_actions[i].text);
}
