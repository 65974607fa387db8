/* GET /v1/sandbox of the AIO dialect: what a box is, which is also its clients' question whether it is ready. Called through
 * aio_routes. Invariant: it is quick (files are looked at, and nothing is run in a jail that runs nothing), and all of it
 * is true now: nothing is kept. Files and output of a box are hostile: bounded, and only texts of ours go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/aio/shell.h"

enum { FILE_BYTES = 16384, WORD_BYTES = 200, PORTS = 64, ASK_MS = 3000, AGENT_UID = 1000 };

struct facts {
    struct arena *arena;
    struct box *box;
    const char *home, *user, *arch, *system, *timezone;
    unsigned ports[PORTS];
    size_t port_count;
};

/* ---- words out of files ---- */

/* One line of text that anybody may print; NULL: it is none. */
static const char *word(struct facts *facts, const char *text, size_t len) {
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

/* The head of a small file, with a NUL behind; NULL: there is none. */
static char *file(struct facts *facts, const char *path) {
    struct file_stat status;
    struct err err;
    autofd fd = -1;
    if (box_read_open(facts->box, path, &fd, &status, &err) < 0 || fd < 0)
        return NULL;
    char *text = arena_alloc(facts->arena, FILE_BYTES);
    return fd_read_full(fd, text, FILE_BYTES - 1) < 0 ? NULL : text;
}

/* What stands behind the name at the beginning of a line: up to the line's end. */
static const char *row(struct facts *facts, const char *text, const char *name) {
    size_t len = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, len))
            return word(facts, line + len, strcspn(line + len, "\n"));
    return NULL;
}

/* The name of a user in passwd. */
static const char *passwd_name(struct facts *facts, const char *text, unsigned long uid) {
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t len = strcspn(line, ":\n");
        const char *at = line[len] == ':' ? line + len + 1 : "";
        at += strcspn(at, ":\n");
        if (*at == ':' && at[1] >= '0' && at[1] <= '9' && strtoul(at + 1, NULL, 10) == uid)
            return word(facts, line, len);
    }
    return NULL;
}

static const char *variable(const struct box *box, const char *name) {
    size_t len = strlen(name);
    const char *found = NULL;
    for (const char **env = box->spec.env; env && *env; env++)
        if (!strncmp(*env, name, len) && (*env)[len] == '=')
            found = *env + len + 1;
    return found;
}

/* ---- what is asked of the box ---- */

static int keep(void *user, int stream, const uint8_t *data, size_t len) {
    struct buf *out = user;
    size_t room = out->max - out->len;
    if (stream == STREAM_STDOUT)
        buf_put(out, data, len < room ? len : room);
    return 0;
}

/* Three lines, and the tables of sockets. */
static const char ask[] = "printf '%s\\n' \"$HOME\"; id -un 2> /dev/null || echo; uname -m; "
                          "cat /proc/net/tcp /proc/net/tcp6 2> /dev/null";

static const char *line(struct facts *facts, const char **text) {
    size_t len = strcspn(*text, "\n");
    const char *found = word(facts, *text, len);
    *text += len + ((*text)[len] == '\n');
    return found;
}

/* "  0: 0100007F:1F90 00000000:0000 0A ...": state 0A listens. */
static void port_take(struct facts *facts, const char *text) {
    unsigned slot, port, state;
    if (sscanf(text, " %u: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x", &slot, &port, &state) != 3 || state != 0x0a)
        return;
    for (size_t i = 0; i < facts->port_count; i++)
        if (facts->ports[i] == port)
            return;
    if (facts->port_count < PORTS)
        facts->ports[facts->port_count++] = port;
}

static void facts_ask(struct facts *facts, int watch) {
    const struct exec_request request = {.command = ask, .cwd = "/", .timeout_ms = ASK_MS};
    struct exec_result result;
    struct err err;
    autobuf out = buf_max(256u << 10);
    const struct exec_sink sink = {.output = keep, .user = &out};
    if (box_exec(facts->box, &request, &sink, watch, &result, &err) < 0 || !buf_cstr(&out) || !out.len)
        return;
    const char *text = (const char *)out.data;
    const char *home = line(facts, &text), *user = line(facts, &text), *arch = line(facts, &text);
    facts->home = home ? home : facts->home;
    facts->user = user ? user : facts->user;
    facts->arch = arch ? arch : facts->arch;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        port_take(facts, text);
}

/* Whether anything runs that could listen: a shell that was started and not used does not. */
struct activity {
    bool running, shell;
};

static void process_running(void *user, const struct process *process) {
    struct activity *activity = user;
    bool shell = !strcmp(process->command, "session " AIO_SHELL_DEFAULT);
    activity->running |= process->running && !shell;
    activity->shell |= process->running && shell;
}

static void session_used(void *user, const struct session *session) {
    ((struct activity *)user)->running |= session->commands > 0;
}

/* ---- all of it ---- */

static const char *facts_timezone(struct facts *facts) {
    static const char zones[] = "zoneinfo/";
    const char *named = variable(facts->box, "TZ"), *text = file(facts, "/etc/timezone");
    struct file_stat link;
    struct err err;
    if (named && *named)
        return word(facts, named, strlen(named));
    if (text && *text)
        return word(facts, text, strcspn(text, "\n"));
    if (box_stat(facts->box, "/etc/localtime", facts->arena, &link, &err) < 0 || !link.target)
        return NULL;
    const char *zone = strstr(link.target, zones);
    return zone ? word(facts, zone + strlen(zones), strlen(zone + strlen(zones))) : NULL;
}

static void facts_look(struct facts *facts, int watch) {
    struct box *box = facts->box;
    struct utsname name;
    struct err err;
    struct activity activity = {0};
    bool jail = !strcmp(box->ops->name, "jail");
    facts->home = variable(box, "HOME");
    facts->home = facts->home ? facts->home : box_workspace(box);
    if (uname(&name) == 0)
        facts->arch = word(facts, name.machine, strlen(name.machine));
    facts->user = passwd_name(facts, file(facts, "/etc/passwd"), AGENT_UID);
    const char *release = file(facts, "/etc/os-release");
    if (!release)
        release = file(facts, "/usr/lib/os-release");
    facts->system = release ? row(facts, release, "PRETTY_NAME=") : NULL;
    facts->timezone = facts_timezone(facts);
    box_processes(box, 0, process_running, &activity, &err);
    if (activity.shell && !activity.running)
        box_sessions(box, AIO_SHELL_DEFAULT, session_used, &activity, &err);
    if (activity.running || !jail)
        facts_ask(facts, watch);
}

/* ---- programs ---- */

/* By opening it, which mostly needs no word with the runner: a ready check is waited for. */
static bool there(struct facts *facts, const char *path) {
    struct file_stat status;
    struct err err;
    autofd fd = -1;
    return box_read_open(facts->box, path, &fd, &status, &err) >= 0;
}

static const char *const prefixes[] = {"/usr/local", "/usr"};

/* Where bin/NAME is; NULL: nowhere. */
static const char *program(struct facts *facts, const char *name, const char **ret_prefix) {
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *path = arena_printf(facts->arena, "%s/bin/%s", prefixes[i], name);
        *ret_prefix = prefixes[i];
        if (there(facts, path))
            return path;
    }
    return NULL;
}

static void tool_spec(struct json *json, const char *language, const char *version, const char *path,
                      const char *alias) {
    json_put_open(json, language, '[');
    if (path) {
        json_open(json, '{');
        aio_members(json, AIO_MEMBERS(AIO_STR("ver", version), AIO_STR("bin", path)));
        json_put_open(json, "alias", '[');
        json_str(json, alias);
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Its link says which: python3 -> python3.11. */
static void python_json(struct facts *facts, struct json *json) {
    struct file_stat status;
    struct err err;
    const char *prefix, *path = program(facts, "python3", &prefix), *version = NULL;
    if (path && box_stat(facts->box, path, facts->arena, &status, &err) >= 0 && status.target) {
        const char *name = strrchr(status.target, '/') ? strrchr(status.target, '/') + 1 : status.target;
        if (!strncmp(name, "python", 6) && strspn(name + 6, "0123456789.") == strlen(name + 6) && name[6])
            version = name + 6;
    }
    tool_spec(json, "python", version, path, "python3");
}

static unsigned long define(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Its header says which, where it is installed. */
static void node_json(struct facts *facts, struct json *json) {
    const char *prefix, *path = program(facts, "node", &prefix), *version = NULL;
    const char *header =
        path ? file(facts, arena_printf(facts->arena, "%s/include/node/node_version.h", prefix)) : NULL;
    if (header)
        version = arena_printf(facts->arena, "%lu.%lu.%lu", define(header, "NODE_MAJOR_VERSION "),
                               define(header, "NODE_MINOR_VERSION "), define(header, "NODE_PATCH_VERSION "));
    tool_spec(json, "nodejs", version, path, "node");
}

static void utils_json(struct facts *facts, struct json *json) {
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
            if (!there(facts, *tool))
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

/* ---- the answer ---- */

static void system_json(const struct facts *facts, struct json *json) {
    json_put_open(json, "system", '{');
    aio_members(json,
                AIO_MEMBERS(AIO_STR("os", "Linux"), AIO_STR("os_version", facts->system ? facts->system : "unknown"),
                            AIO_STR("arch", facts->arch), AIO_STR("user", facts->user),
                            AIO_STR("home_dir", facts->home), AIO_STR("workspace", box_workspace(facts->box)),
                            AIO_STR("timezone", facts->timezone ? facts->timezone : "UTC")));
    json_put_open(json, "occupied_ports", '[');
    for (size_t i = 0; i < facts->port_count; i++)
        json_str(json, arena_printf(facts->arena, "%u", facts->ports[i]));
    json_close(json, ']');
    json_close(json, '}');
}

int aio_sandbox(struct http_request *request, struct box *box, struct err *err) {
    struct facts facts = {.arena = http_arena(request), .box = box};
    facts_look(&facts, http_fd(request));
    facts.arch = facts.arch ? facts.arch : "unknown";
    facts.user = facts.user ? facts.user : "agent";
    autoanswer answer;
    aio_open(&answer, request, NULL);
    struct json *json = &answer.json;
    json_str(json, arena_printf(facts.arena, "A box of cubby: %s, %s, user %s, home %s",
                                facts.system ? facts.system : "Linux", facts.arch, facts.user, facts.home));
    aio_members(json, AIO_MEMBERS(AIO_STR("home_dir", facts.home), AIO_STR("workspace", box_workspace(box)),
                                  AIO_STR("version", CUBBY_VERSION)));
    json_put_open(json, "detail", '{');
    system_json(&facts, json);
    json_put_open(json, "runtime", '{');
    python_json(&facts, json);
    node_json(&facts, json);
    json_close(json, '}');
    utils_json(&facts, json);
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}
