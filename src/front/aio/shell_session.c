/* Sessions of the AIO dialect's shell group, and its table of routes. Called through aio_shell_routes. Invariant: only
 * sessions with a shell are seen here; those of the bash group have their own routes. */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/aio/shell.h"

#define ACTIVE_MS 300000u /* used since then: active */

struct create_args {
    struct row_text id, exec_dir;
    struct row_real no_change_timeout;
    bool preserve_symlinks;
};
struct update_args {
    struct row_text id;
    struct row_real no_change_timeout;
};

#define QUIET_ROW(args, meaning)                                                                                       \
    { AIO_ROW("no_change_timeout", REAL, args, no_change_timeout), .max = INT32_MAX, .text = (meaning) }

const struct row aio_shell_create_fields[] = {
    {AIO_ROW("id", TEXT, create_args, id), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "letters, digits and _.:@-; default: a random one. One that is "
             "there is the answer as it is"},
    {AIO_ROW("exec_dir", TEXT, create_args, exec_dir), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "where its shell begins; default: the workspace"},
    QUIET_ROW(create_args, "seconds without output after which exec answers; default 120"),
    {AIO_ROW("preserve_symlinks", BOOL, create_args, preserve_symlinks),
     .text = "exec_dir keeps the links in its name"},
    {.name = NULL},
};
const struct row aio_shell_update_fields[] = {
    {AIO_ROW("id", TEXT, update_args, id), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "the session"},
    QUIET_ROW(update_args, "seconds without output after which exec answers; more than 0"),
    {.name = NULL},
};

/* ---- making ---- */

int aio_shell_create(struct http_request *request, struct box *box, struct err *err) {
    struct create_args args = {0};
    struct session_request wanted = {0};
    struct session session;
    bool created;
    int failed = detail_body(request, &args, err);
    if (!failed)
        failed = detail_seconds(&args.no_change_timeout, AIO_SHELL_QUIET_MS, LIMIT_EXEC_TIMEOUT_MS, "no_change_timeout",
                                &wanted.quiet_ms, err);
    if (failed)
        return failed;
    wanted.name = args.id.data;
    wanted.cwd = args.exec_dir.len ? args.exec_dir.data : NULL;
    failed = aio_shell_open(request, box, &wanted, &session, &created, err);
    if (failed)
        return failed;
    return aio_reply(request, created ? "Session created" : "Session already exists",
                     AIO_MEMBERS(AIO_STR("session_id", session.name), AIO_STR("working_dir", session.cwd)), err);
}

int aio_shell_update(struct http_request *request, struct box *box, struct err *err) {
    struct update_args args = {0};
    struct session_request wanted = {0};
    struct session session;
    bool created;
    int failed = detail_body(request, &args, err);
    if (!failed)
        failed = detail_seconds(&args.no_change_timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "no_change_timeout",
                                &wanted.quiet_ms, err);
    if (!failed && args.no_change_timeout.has && !wanted.quiet_ms)
        return detail_unfit(request, "no_change_timeout", "Input should be greater than 0");
    if (!failed)
        failed = aio_shell_find(request, box, args.id.data, 0, &session, err);
    wanted.name = args.id.data;
    if (!failed && wanted.quiet_ms)
        failed = aio_shell_open(request, box, &wanted, &session, &created, err);
    return failed ? failed : aio_done(request, "Session updated");
}

/* ---- looking ---- */

static void listing_each(void *user, const struct session *session) {
    struct answer *answer = user;
    uint64_t now_ms = clock_wall_ms();
    bool busy = aio_shell_busy(session);
    if (session->plain)
        return;
    json_key(&answer->json, session->name);
    aio_object(answer, AIO_MEMBERS(AIO_STR("working_dir", session->cwd), AIO_TIME("created_at", session->created_ms),
                                   AIO_TIME("last_used_at", session->used_ms),
                                   AIO_INT("age_seconds",
                                           now_ms > session->created_ms ? (now_ms - session->created_ms) / 1000 : 0),
                                   AIO_STR("status", busy ? "running" : "idle"),
                                   AIO_STR("current_command", busy ? aio_shell_command(session) : NULL)));
}

int aio_shell_list(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "sessions", '{');
    int failed = box_sessions(box, NULL, listing_each, &answer, err);
    json_close(&answer.json, '}');
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

struct counts {
    uint64_t now_ms;
    unsigned total, active;
};

static void counts_each(void *user, const struct session *session) {
    struct counts *counts = user;
    if (session->plain)
        return;
    counts->total++;
    counts->active += aio_shell_busy(session) || session->used_ms + ACTIVE_MS > counts->now_ms;
}

int aio_shell_stats(struct http_request *request, struct box *box, struct err *err) {
    struct counts counts = {.now_ms = clock_wall_ms()};
    int failed = box_sessions(box, NULL, counts_each, &counts, err);
    if (failed)
        return failed;
    return aio_reply(request, NULL,
                     AIO_MEMBERS(AIO_INT("total_sessions", counts.total), AIO_INT("active_sessions", counts.active),
                                 AIO_INT("idle_sessions", counts.total - counts.active),
                                 AIO_INT("max_sessions", LIMIT_SESSIONS),
                                 /* they end with the box's processes */
                                 AIO_INT("session_timeout", box->idle_timeout_ms / 1000),
                                 AIO_REAL("usage_ratio", (double)counts.total / LIMIT_SESSIONS)),
                     err);
}

/* A new session, and where a terminal on it can be had. */
int aio_shell_terminal_url(struct http_request *request, struct box *box, struct err *err) {
    const struct session_request wanted = {.quiet_ms = AIO_SHELL_QUIET_MS};
    struct session session;
    bool created;
    int failed = aio_shell_open(request, box, &wanted, &session, &created, err);
    if (failed)
        return failed;
    const char *url = aio_url(request, box) + strlen("http"); /* "s://..." or "://..." */
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_str(&answer.json, arena_printf(http_arena(request), "ws%s/v1/shell/ws?session_id=%s", url, session.name));
    return aio_close(&answer, 0, err);
}

/* ---- ending ---- */

int aio_shell_end(struct http_request *request, struct box *box, struct err *err) {
    struct session session;
    int failed = aio_shell_find(request, box, http_param(request, "session_id"), 0, &session, err);
    if (!failed)
        failed = box_session_end(box, session.name, true, err);
    if (failed == -ERR_NOT_FOUND)
        return aio_shell_unknown(request);
    return failed ? failed : aio_done(request, "Session cleaned up");
}

struct names {
    struct arena *arena;
    const char *names[LIMIT_SESSIONS];
    size_t count;
};

static void names_each(void *user, const struct session *session) {
    struct names *names = user;
    if (!session->plain && names->count < LIMIT_SESSIONS)
        names->names[names->count++] = arena_strdup(names->arena, session->name);
}

int aio_shell_end_all(struct http_request *request, struct box *box, struct err *err) {
    struct names names = {.arena = http_arena(request)};
    unsigned ended = 0;
    int failed = box_sessions(box, NULL, names_each, &names, err);
    for (size_t i = 0; i < names.count && !failed; i++) {
        failed = box_session_end(box, names.names[i], true, err);
        ended += !failed;
        if (failed == -ERR_NOT_FOUND) /* it ended by itself meanwhile */
            failed = 0;
    }
    if (failed)
        return failed;
    return aio_done(request, arena_printf(http_arena(request), "Cleaned up %u sessions", ended));
}

/* ---- the table ---- */

const struct route aio_shell_routes[] = {
    AIO_ROUTE("POST", "/shell/exec", "aio_shell_exec",
              "Run a command in a session; with Accept: text/event-stream as events output {data}, result.",
              .run = aio_shell_exec, .body = aio_shell_exec_fields),
    AIO_ROUTE(
        "POST", "/shell/view", "aio_shell_view",
        "What the command of a session prints, or the last one did; with Accept: text/event-stream until it ends.",
        .run = aio_shell_view, .body = aio_shell_id_fields),
    AIO_ROUTE("POST", "/shell/wait", "aio_shell_wait", "Wait until a session runs nothing.", .run = aio_shell_wait,
              .body = aio_shell_wait_fields),
    AIO_ROUTE("POST", "/shell/write", "aio_shell_write", "Type to the command of a session.", .run = aio_shell_write,
              .body = aio_shell_write_fields),
    AIO_ROUTE("POST", "/shell/kill", "aio_shell_kill", "End the command of a session; the session stays.",
              .run = aio_shell_kill, .body = aio_shell_id_fields),
    AIO_ROUTE("POST", "/shell/sessions/create", "aio_shell_session_create",
              "Make a session, or find the one of this id.", .run = aio_shell_create, .body = aio_shell_create_fields),
    AIO_ROUTE("POST", "/shell/sessions/update", "aio_shell_session_update", "Change a session's settings.",
              .run = aio_shell_update, .body = aio_shell_update_fields),
    AIO_ROUTE("GET", "/shell/sessions", "aio_shell_sessions", "The sessions by id.", .run = aio_shell_list),
    AIO_ROUTE("GET", "/shell/sessions/stats", "aio_shell_stats", "How many sessions there are.",
              .run = aio_shell_stats),
    AIO_ROUTE("DELETE", "/shell/sessions", "aio_shell_sessions_end", "End all sessions.", .run = aio_shell_end_all),
    AIO_ROUTE("DELETE", "/shell/sessions/{session_id}", "aio_shell_session_end", "End a session with all it started.",
              .run = aio_shell_end),
    {"GET", "/aio/{id}/v1/shell/terminal-url", front_handle, 0, "aio_shell_terminal_url",
     "A new session, and the URL of a terminal on it (a WebSocket).",
     AIO_OTHER(.run = aio_shell_terminal_url, .flags = AIO_FLAGS | ENDPOINT_WRITES, .status = 200,
               .answer = aio_answer)},
    {"GET", "/aio/{id}/v1/shell/ws", front_handle, 0, "aio_shell_ws",
     "A terminal on a session over a WebSocket: messages input, resize, ping "
     "to it; session_id, ready, output, "
     "restore_output, pong, ping, error from it.",
     AIO_OTHER(.run = aio_shell_ws, .flags = AIO_FLAGS | ENDPOINT_WRITES, .query = aio_shell_ws_query, .status = 101)},
    {.method = NULL},
};
