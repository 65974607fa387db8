/* The setup of a built template. Called by create, wake and fork for sandboxes, and by plane/ while it builds. Invariant:
 * the start command runs in a box with the same variables, user and directory as when the template was built. */
#include "front/e2b/setup.h"

#include <jansson.h>
#include <poll.h>

#include "base/clock.h"
#include "base/text.h"

enum {
    SETUP_READY_MS = 60000,   /* one ready command */
    SETUP_SANDBOX_MS = 30000, /* a client waits for a minute */
    SETUP_PAUSE_MS = 100,
};

/* ---- as text ---- */

void e2b_setup_put(struct e2b_setup *setup, struct arena *arena, const char *name, const char *value) {
    size_t count = text_list_count(setup->env), len = strlen(name), at = 0;
    while (at < count && (strncmp(setup->env[at], name, len) != 0 || setup->env[at][len] != '='))
        at++;
    if (at == count && !(count & (count + 1))) { /* full at 0, 1, 3, 7 ... with a NULL at the end */
        const char **env = arena_alloc(arena, (count + 1) * 2 * sizeof *env);
        if (count)
            memcpy(env, setup->env, count * sizeof *env);
        setup->env = env;
    }
    setup->env[at] = arena_printf(arena, "%s=%s", name, value);
}

const char *e2b_setup_get(const struct e2b_setup *setup, const char *name, size_t len) {
    for (const char **entry = setup->env; entry && *entry; entry++)
        if (!strncmp(*entry, name, len) && (*entry)[len] == '=')
            return *entry + len + 1;
    return NULL;
}

static const struct row setup_rows[] = {
    OUT("env", MAP, e2b_setup, env, ""), /* the first: it is read by itself */
    OUT_NULL("workdir", TEXT, e2b_setup, workdir, ""),
    OUT_NULL("user", TEXT, e2b_setup, user, ""),
    OUT_NULL("start", TEXT, e2b_setup, start, ""),
    OUT_NULL("ready", TEXT, e2b_setup, ready, ""),
    OUT_INT("cpus", e2b_setup, cpus, ""),
    OUT_INT("memory_mb", e2b_setup, memory_mb, ""),
    {0},
};

void e2b_setup_read(const char *text, struct arena *arena, struct e2b_setup *ret_setup) {
    json_t *root = text ? json_loads(text, 0, NULL) : NULL, *value;
    const char *key;
    *ret_setup = (struct e2b_setup){0};
    if (root)
        rows_read(root, setup_rows + 1, arena, ret_setup, ERR_IGNORED);
    if (json_is_true(json_object_get(root, "root"))) /* as older daemons wrote it */
        ret_setup->user = "root";
    json_object_foreach(json_object_get(root, "env"), key, value) {
        if (json_is_string(value))
            e2b_setup_put(ret_setup, arena, key, json_string_value(value));
    }
    json_decref(root);
}

const char *e2b_setup_text(const struct e2b_setup *setup, struct arena *arena) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    struct json json = {.out = &out};
    if (!setup->env && !setup->workdir && !setup->user && !setup->start && !setup->ready && !setup->cpus &&
        !setup->memory_mb)
        return NULL;
    rows_write(&json, setup_rows, setup);
    return arena_copy(arena, out.data, out.len);
}

/* ---- commands ---- */

void e2b_setup_exec(const struct e2b_setup *setup, const char *command, const struct e2b_account *account,
                    struct arena *arena, struct exec_request *ret_exec) {
    size_t count = text_list_count(setup->env);
    const char **env = arena_alloc(arena, (E2B_OWN_ENV + count + 1) * sizeof *env);
    const char **argv = arena_alloc(arena, 5 * sizeof *argv);
    memcpy(env, account->env, sizeof account->env);
    if (count)
        memcpy(env + E2B_OWN_ENV, setup->env, count * sizeof *env);
    argv[0] = "/bin/bash";
    argv[1] = "-l";
    argv[2] = "-c";
    argv[3] = command;
    *ret_exec = (struct exec_request){.argv = argv, .env = env, .cwd = setup->workdir ? setup->workdir : E2B_HOME};
    e2b_account_exec(account, ret_exec);
}

/* How long the ready command is given, and what comes of it. */
static int setup_ready(struct box *box, const struct e2b_setup *setup, const struct e2b_account *account,
                       const struct e2b_setup_wait *wait, struct arena *arena, bool *ret_ready, struct err *err) {
    struct exec_request exec;
    struct exec_result result = {0};
    const struct exec_sink sink = {0};
    e2b_setup_exec(setup, setup->ready, account, arena, &exec);
    exec.timeout_ms = wait->wait_ms < SETUP_READY_MS ? wait->wait_ms : SETUP_READY_MS;
    int failed = box_exec(box, &exec, &sink, wait->watch, &result, err);
    *ret_ready = !failed && result.exited && result.exit_code == 0;
    return failed;
}

static bool setup_pause(const struct e2b_setup_wait *wait) { /* false: the waiting client has gone */
    struct pollfd look = {.fd = wait->watch, .events = POLLRDHUP};
    return poll(&look, 1, (int)wait->pause_ms) <= 0;
}

int e2b_setup_start(struct box *box, const struct e2b_setup *setup, const struct e2b_setup_wait *wait,
                    uint64_t *ret_pid, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct exec_request exec;
    struct e2b_account account;
    uint64_t started_ms, end_ms = clock_ms() + wait->wait_ms;
    int failed = e2b_account(box, setup->user, &arena, &account, err);
    bool ready = !setup->ready;
    *ret_pid = 0;
    if (!failed && setup->start) {
        e2b_setup_exec(setup, setup->start, &account, &arena, &exec);
        exec.leave = true;
        failed = box_spawn(box, &exec, ret_pid, &started_ms, err);
    }
    while (!failed && !ready) {
        failed = wait->tick ? wait->tick(wait->user, err) : 0;
        if (!failed)
            failed = setup_ready(box, setup, &account, wait, &arena, &ready, err);
        if (failed || ready)
            break;
        if (clock_ms() >= end_ms)
            return err_set(err, ERR_TIMEOUT, "the ready command '%.200s' did not succeed within %llu s", setup->ready,
                           (unsigned long long)(wait->wait_ms / 1000));
        if (!setup_pause(wait))
            return err_set(err, ERR_GONE, "the client hung up before the ready command succeeded");
    }
    return failed;
}

int e2b_setup_sandbox(struct http_request *request, struct box *box, const char *text, struct err *err) {
    struct e2b_setup setup;
    uint64_t pid;
    const struct e2b_setup_wait wait = {
        .wait_ms = SETUP_SANDBOX_MS, .pause_ms = SETUP_PAUSE_MS, .watch = http_fd(request)};
    if (!text)
        return 0;
    e2b_setup_read(text, http_arena(request), &setup);
    setup.env = NULL; /* the box has them, and those of its client, which count more */
    int failed = e2b_setup_start(box, &setup, &wait, &pid, err);
    return failed == -ERR_TIMEOUT ? 0 : failed;
}
