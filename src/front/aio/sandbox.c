/* GET /v1/sandbox of the AIO dialect: the description of a box, which clients also use to check that it is ready.
 * Called through aio_routes. Invariant: it is quick (it reads files, and runs nothing in an idle jail) and current
 * (nothing is cached). Files and output of a box are hostile: bounded, and only checked words of them are sent. */
#include <sys/utsname.h>

#include "front/aio/shell.h"

enum { FILE_BYTES = 16384, WORD_BYTES = 200, PORTS = 64, ASK_MS = 3000, AGENT_UID = 1000 };

struct facts {
    struct arena *arena;
    struct box *box;
    const char *home, *user, *arch, *system, *timezone;
    unsigned ports[PORTS];
    size_t port_count;
};

/* ---- words from files ---- */

/* Returns one printable line of text, or NULL. */
static const char *sandbox_word(struct facts *facts, const char *text, size_t len) {
    autobuf shown = buf_max(4 * WORD_BYTES + 1);
    while (len && strchr(" \t\r\"'", text[len - 1]))
        len--;
    while (len && strchr(" \t\"'", *text))
        text++, len--;
    if (!len || len > WORD_BYTES)
        return NULL;
    text_shown(&shown, text, len);
    return arena_copy(facts->arena, shown.data, shown.len);
}

/* Reads the head of a small file, with a NUL after it. NULL: not found. */
static char *sandbox_file(struct facts *facts, const char *path) {
    struct file_stat status;
    autofd fd = -1;
    if (box_read_open(facts->box, path, &fd, &status, ERR_IGNORED) < 0 || fd < 0)
        return NULL;
    char *text = arena_alloc(facts->arena, FILE_BYTES);
    return fd_read_full(fd, text, FILE_BYTES - 1) < 0 ? NULL : text;
}

/* Returns the rest of the line that begins with name. */
static const char *sandbox_row(struct facts *facts, const char *text, const char *name) {
    size_t len = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, len))
            return sandbox_word(facts, line + len, strcspn(line + len, "\n"));
    return NULL;
}

/* Returns the name of a user from passwd. */
static const char *sandbox_passwd_name(struct facts *facts, const char *text, unsigned long uid) {
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t len = strcspn(line, ":\n");
        const char *at = line[len] == ':' ? line + len + 1 : "";
        at += strcspn(at, ":\n");
        if (*at == ':' && at[1] >= '0' && at[1] <= '9' && strtoul(at + 1, NULL, 10) == uid)
            return sandbox_word(facts, line, len);
    }
    return NULL;
}

static const char *sandbox_variable(const struct box *box, const char *name) {
    size_t len = strlen(name);
    const char *found = NULL;
    for (const char **env = box->spec.env; env && *env; env++)
        if (!strncmp(*env, name, len) && (*env)[len] == '=')
            found = *env + len + 1;
    return found;
}

/* ---- facts of the box ---- */

static int sandbox_keep(void *user, int stream, const uint8_t *data, size_t len) {
    struct buf *out = user;
    size_t room = out->max - out->len;
    if (stream == STREAM_STDOUT)
        buf_put(out, data, len < room ? len : room);
    return 0;
}

/* Prints three lines, then the tables of sockets. */
static const char ask[] = "printf '%s\\n' \"$HOME\"; id -un 2> /dev/null || echo; uname -m; "
                          "cat /proc/net/tcp /proc/net/tcp6 2> /dev/null";

static void sandbox_facts_ask(struct facts *facts, int watch) {
    const struct exec_request request = {.command = ask, .cwd = "/", .timeout_ms = ASK_MS};
    struct exec_result result;
    autobuf out = buf_max(256u << 10);
    const struct exec_sink sink = {.output = sandbox_keep, .user = &out};
    if (box_exec(facts->box, &request, &sink, watch, &result, ERR_IGNORED) < 0 || !buf_cstr(&out) || !out.len)
        return;
    const char *text = (const char *)out.data, **into[] = {&facts->home, &facts->user, &facts->arch};
    for (size_t i = 0; i < sizeof into / sizeof *into; i++) {
        size_t len = strcspn(text, "\n");
        const char *found = sandbox_word(facts, text, len);
        *into[i] = found ? found : *into[i];
        text += len + (text[len] == '\n');
    }
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        unsigned slot, port, state; /* "  0: 0100007F:1F90 00000000:0000 0A ...": state 0A listens */
        size_t i = 0;
        if (sscanf(text, " %u: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x", &slot, &port, &state) != 3)
            continue;
        while (i < facts->port_count && facts->ports[i] != port)
            i++;
        if (state == 0x0a && i == facts->port_count && i < PORTS)
            facts->ports[facts->port_count++] = port;
    }
}

/* Whether anything runs that could listen; a shell that was started but not used does not count. */
struct activity {
    bool running, shell;
};

static void sandbox_process_running(void *user, const struct process *process) {
    struct activity *activity = user;
    bool shell = !strcmp(process->command, "session " AIO_SHELL_DEFAULT);
    activity->running |= process->running && !shell;
    activity->shell |= process->running && shell;
}

static void sandbox_session_used(void *user, const struct session *session) {
    ((struct activity *)user)->running |= session->commands > 0;
}

/* ---- gathering ---- */

static const char *sandbox_facts_timezone(struct facts *facts) {
    static const char zones[] = "zoneinfo/";
    const char *named = sandbox_variable(facts->box, "TZ"), *text = sandbox_file(facts, "/etc/timezone");
    struct file_stat link;
    if (named && *named)
        return sandbox_word(facts, named, strlen(named));
    if (text && *text)
        return sandbox_word(facts, text, strcspn(text, "\n"));
    if (box_stat(facts->box, "/etc/localtime", facts->arena, &link, ERR_IGNORED) < 0 || !link.target)
        return NULL;
    const char *zone = strstr(link.target, zones);
    return zone ? sandbox_word(facts, zone + strlen(zones), strlen(zone + strlen(zones))) : NULL;
}

static void sandbox_facts_look(struct facts *facts, int watch) {
    struct box *box = facts->box;
    struct utsname name;
    struct activity activity = {0};
    bool jail = !strcmp(box_backend(box), "jail");
    facts->home = sandbox_variable(box, "HOME");
    facts->home = facts->home ? facts->home : box_workspace(box);
    if (uname(&name) == 0)
        facts->arch = sandbox_word(facts, name.machine, strlen(name.machine));
    facts->user = sandbox_passwd_name(facts, sandbox_file(facts, "/etc/passwd"), AGENT_UID);
    const char *release = sandbox_file(facts, "/etc/os-release");
    if (!release)
        release = sandbox_file(facts, "/usr/lib/os-release");
    facts->system = release ? sandbox_row(facts, release, "PRETTY_NAME=") : NULL;
    facts->timezone = sandbox_facts_timezone(facts);
    box_processes(box, 0, sandbox_process_running, &activity, ERR_IGNORED);
    if (activity.shell && !activity.running)
        box_sessions(box, AIO_SHELL_DEFAULT, sandbox_session_used, &activity, ERR_IGNORED);
    if (activity.running || !jail)
        sandbox_facts_ask(facts, watch);
}

/* ---- programs ---- */

/* Checks by opening the file, which mostly needs no call to the runner: clients wait for this answer. */
static bool sandbox_there(struct facts *facts, const char *path) {
    struct file_stat status;
    autofd fd = -1;
    return box_read_open(facts->box, path, &fd, &status, ERR_IGNORED) >= 0;
}

static const char *const prefixes[] = {"/usr/local", "/usr"};

/* Finds bin/NAME. NULL: not found. */
static const char *sandbox_program(struct facts *facts, const char *name, const char **ret_prefix) {
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *path = arena_printf(facts->arena, "%s/bin/%s", prefixes[i], name);
        *ret_prefix = prefixes[i];
        if (sandbox_there(facts, path))
            return path;
    }
    return NULL;
}

static void sandbox_tool_spec(struct json *json, const char *language, const char *version, const char *path,
                              const char *alias) {
    json_put_open(json, language, '[');
    if (path) {
        json_open(json, '{');
        aio_members(json, AIO_MEMBERS(AIO_STR("ver", version), AIO_STR("bin", path)));
        json_put_texts(json, "alias", (const char *const[]){alias, NULL});
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Its link shows the version: python3 -> python3.11. */
static void sandbox_python_json(struct facts *facts, struct json *json) {
    struct file_stat status;
    const char *prefix, *path = sandbox_program(facts, "python3", &prefix), *version = NULL;
    if (path && box_stat(facts->box, path, facts->arena, &status, ERR_IGNORED) >= 0 && status.target) {
        const char *name = strrchr(status.target, '/') ? strrchr(status.target, '/') + 1 : status.target;
        if (!strncmp(name, "python", 6) && strspn(name + 6, "0123456789.") == strlen(name + 6) && name[6])
            version = name + 6;
    }
    sandbox_tool_spec(json, "python", version, path, "python3");
}

static unsigned long sandbox_define(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Its header shows the version, if installed. */
static void sandbox_node_json(struct facts *facts, struct json *json) {
    const char *prefix, *path = sandbox_program(facts, "node", &prefix), *version = NULL;
    const char *header =
        path ? sandbox_file(facts, arena_printf(facts->arena, "%s/include/node/node_version.h", prefix)) : NULL;
    if (header)
        version =
            arena_printf(facts->arena, "%lu.%lu.%lu", sandbox_define(header, "NODE_MAJOR_VERSION "),
                         sandbox_define(header, "NODE_MINOR_VERSION "), sandbox_define(header, "NODE_PATCH_VERSION "));
    sandbox_tool_spec(json, "nodejs", version, path, "node");
}

static void sandbox_utils_json(struct facts *facts, struct json *json) {
    static const struct {
        const char *category, *tools[3];
    } rows[] = {{"shell", {"/usr/bin/bash", "/usr/bin/jq"}},
                {"network", {"/usr/bin/curl"}},
                {"version control", {"/usr/bin/git"}}};
    json_put_open(json, "utils", '[');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_open(json, '{');
        json_put_str(json, "category", rows[i].category);
        json_put_open(json, "tools", '[');
        for (const char *const *tool = rows[i].tools; *tool; tool++) {
            if (!sandbox_there(facts, *tool))
                continue;
            json_open(json, '{');
            aio_members(json, AIO_MEMBERS(AIO_STR("name", strrchr(*tool, '/') + 1), AIO_STR("description", *tool)));
            json_close(json, '}');
        }
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

int aio_sandbox(struct http_request *request, struct box *box, struct err *err) {
    struct facts facts = {.arena = http_arena(request), .box = box};
    sandbox_facts_look(&facts, http_fd(request));
    facts.arch = facts.arch ? facts.arch : "unknown";
    facts.user = facts.user ? facts.user : "agent";
    autoanswer answer;
    aio_open(&answer, request, NULL, 0);
    struct json *json = &answer.json;
    json_str(json, arena_printf(facts.arena, "A box of cubby: %s, %s, user %s, home %s",
                                facts.system ? facts.system : "Linux", facts.arch, facts.user, facts.home));
    aio_members(json, AIO_MEMBERS(AIO_STR("home_dir", facts.home), AIO_STR("workspace", box_workspace(box)),
                                  AIO_STR("version", CUBBY_VERSION)));
    json_put_open(json, "detail", '{');
    json_put_open(json, "system", '{');
    aio_members(json,
                AIO_MEMBERS(AIO_STR("os", "Linux"), AIO_STR("os_version", facts.system ? facts.system : "unknown"),
                            AIO_STR("arch", facts.arch), AIO_STR("user", facts.user), AIO_STR("home_dir", facts.home),
                            AIO_STR("workspace", box_workspace(box)),
                            AIO_STR("timezone", facts.timezone ? facts.timezone : "UTC")));
    json_put_open(json, "occupied_ports", '[');
    for (size_t i = 0; i < facts.port_count; i++)
        json_str(json, arena_printf(facts.arena, "%u", facts.ports[i]));
    json_close(json, ']');
    json_close(json, '}');
    json_put_open(json, "runtime", '{');
    sandbox_python_json(&facts, json);
    sandbox_node_json(&facts, json);
    json_close(json, '}');
    sandbox_utils_json(&facts, json);
    json_close(json, '}');
    return aio_close(&answer, 0, 0, err);
}
