/* The dialect of the AIO sandbox (agent-infra): shared by its groups. aio.c has the core (envelope, bodies,
 * /v1/sandbox, unsupported routes); shell*.c, bash.c, file*.c, search.c, watch.c and code.c have a group each, with its
 * route table. All paths are /aio/{id}/v1/...: {id} is a box, or "ID~KEY" with the box's own key (aio/key.c). The key
 * replaces a token where tokens are required, because clients of this dialect send none.
 *
 * Every answer is {"success":bool,"message":...,"data":...,"hint":null}, including refusals by the server itself. A
 * body that does not fit its rows is 422 {"detail":[{"loc","msg","type"}]}. Failures have their HTTP status, so that no
 * client takes one for a success; with `aio_errors: envelope`, failures of the file group are 200 with success false
 * instead. A box whose processes have ended (idle, evicted, out of memory) is started again by the call
 * (ENDPOINT_WAKE). */
#ifndef CUBBY_FRONT_AIO_H
#define CUBBY_FRONT_AIO_H

#include "front/detail.h"
#include "front/front.h"

extern const struct dialect aio_dialect;
extern const struct route aio_routes[], aio_mcp_routes[], aio_shell_routes[], aio_bash_routes[], aio_file_routes[],
    aio_edit_routes[], aio_search_routes[], aio_watch_routes[], aio_code_routes[]; /* each ends with method NULL */

struct aio_settings { /* from the configuration */
    bool envelope;    /* failures of file routes have status 200 */
};

struct aio {                     /* state kept between requests */
    struct aio_key *key;         /* derives the boxes' keys */
    struct watchers *watchers;   /* of changes of files */
    struct aio_history *history; /* the editor's undo history */
    struct mcp_http *mcp;        /* sessions of MCP below a box */
};
struct aio *aio_state(const struct http_request *request);

int aio_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);

/* For every row: AIO_ENDPOINT(.run = ..., .body = rows, ...). Unknown parameters are ignored. */
#define AIO_ENDPOINT(...) ENDPOINT(.status = 200, .flags = AIO_FLAGS, .answer = aio_answer, __VA_ARGS__)
/* An ordinary route. */
#define AIO_ROUTE(method, path, name, summary, ...)                                                                    \
    { (method), "/aio/{id}/v1" path, front_handle, 0, (name), (summary), AIO_ENDPOINT(__VA_ARGS__) }
#define AIO_FLAGS (ENDPOINT_LENIENT | ENDPOINT_WAKE)
extern const struct row aio_answer[]; /* the envelope, for OpenAPI */

/* ---- URLs of boxes ---- */

#define AIO_PREFIX "/aio/"
/* The URL of a box, as the asking client can reach it: BASE/aio/ID, with the box's key if a token would be required.
 * BASE is front_settings.url, or the request's Host. In the request's arena. */
const char *aio_url(struct http_request *request, const struct box *box);

int aio_sandbox(struct http_request *request, struct box *box, struct err *err); /* GET /v1/sandbox (aio/sandbox.c) */

/* ---- requests: front/detail.h ---- */

struct aio_args { /* of all routes; members without a row stay empty */
    struct row_text id, session_id, command_id, command, exec_dir, input, signal, snapshot_path, protocol; /* shells */
    struct row_text path, file, content, encoding, change_policy, old_str, new_str, file_text, replace_mode; /* files */
    struct row_text pattern, regex, glob, type, max_file_size, sort_by;
    struct row_text language, code, kernel_name, cwd, version;
    const char **env, **files, **file_types, **view_range, **include, **exclude, **include_patterns, **event_types;
    bool async_mode, strict, preserve_symlinks, truncate, press_enter, wait, stateful, sudo, append, recursive;
    bool show_hidden, include_hidden, include_size, include_permissions, include_metadata, files_only, sort_desc;
    bool leading_newline, trailing_newline, case_insensitive, fixed_strings, multiline;
    struct row_real timeout, hard_timeout, no_change_timeout, wait_timeout, seconds, max_wait_seconds;
    struct row_number timeout_s, max_idle_time, max_output_length, offset, stderr_offset, start_line, end_line, cols,
        rows;
    struct row_number insert_line, max_depth, context_before, context_after, max_results, debounce, cursor, limit;
};
#define AIO_ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct aio_args, member)
#define AIO_IN(member, kind) AIO_ROW(#member, kind, member)
#define AIO_PATH_ROW(member, meaning)                                                                                  \
    { AIO_IN(member, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES, .text = (meaning) }

/* INVALID, naming the member: the directory does not exist. path may be NULL. */
int aio_directory(struct http_request *request, struct box *box, const char *member, const char *path, struct err *err);

/* ---- answers ---- */

/* Opens {"success":true,"message":...,"data": and closes it. In between one value is written into answer->json, or the
 * content of one that `bracket` opens and closes (0: none). message NULL: "Operation successful". */
void aio_open(struct answer *answer, struct http_request *request, const char *message, char bracket);
int aio_close(struct answer *answer, char bracket, int result, struct err *err);
int aio_done(struct http_request *request, const char *message); /* data null */
/* Answers a failure: {"success":false,"message":text,"data":null,"hint":null} with that status. Returns the positive
 * code for the handler to return. */
int aio_fail(struct http_request *request, int status, int code, const char *text);
/* Members without a struct: AIO_MEMBERS(AIO_STR("id", id), AIO_INT("exit_code", 0)). */
struct aio_member {
    const char *key;
    enum aio_type { AIO_IS_STR, AIO_IS_TEXT, AIO_IS_INT, AIO_IS_REAL, AIO_IS_BOOL, AIO_IS_TIME, AIO_IS_NIL } type;
    const void *text;
    int64_t number; /* also the length of a text */
    double real;
};
#define AIO_STR(name, value)                                                                                           \
    { .key = (name), .type = AIO_IS_STR, .text = (value) }
#define AIO_TEXT(name, data, len) /* from a box, of any length; invalid UTF-8 becomes U+FFFD */                        \
    { .key = (name), .type = AIO_IS_TEXT, .text = (data), .number = (int64_t)(len) }
#define AIO_TEXT_IF(has, name, data, len) /* else null */                                                              \
    {                                                                                                                  \
        .key = (name), .type = (has) ? AIO_IS_TEXT : AIO_IS_NIL, .text = (has) ? (data) : NULL,                        \
        .number = (has) ? (int64_t)(len) : 0                                                                           \
    }
#define AIO_INT(name, value)                                                                                           \
    { .key = (name), .type = AIO_IS_INT, .number = (int64_t)(value) }
#define AIO_INT_IF(has, name, value) /* else null */                                                                   \
    { .key = (name), .type = (has) ? AIO_IS_INT : AIO_IS_NIL, .number = (int64_t)(value) }
#define AIO_REAL(name, value)                                                                                          \
    { .key = (name), .type = AIO_IS_REAL, .real = (value) }
#define AIO_REAL_IF(has, name, value)                                                                                  \
    { .key = (name), .type = (has) ? AIO_IS_REAL : AIO_IS_NIL, .real = (value) }
#define AIO_BOOL(name, value)                                                                                          \
    { .key = (name), .type = AIO_IS_BOOL, .number = (value) }
#define AIO_TIME(name, wall_ms)                                                                                        \
    { .key = (name), .type = AIO_IS_TIME, .number = (int64_t)(wall_ms) }
#define AIO_TIME_IF(has, name, wall_ms) /* else null */                                                                \
    { .key = (name), .type = (has) ? AIO_IS_TIME : AIO_IS_NIL, .number = (int64_t)(wall_ms) }
#define AIO_MEMBERS(...)                                                                                               \
    (const struct aio_member[]) {                                                                                      \
        __VA_ARGS__, {                                                                                                 \
            .key = NULL                                                                                                \
        }                                                                                                              \
    }
void aio_members(struct json *json, const struct aio_member *members);    /* into an open object; no AIO_TEXT */
void aio_put(struct answer *answer, const struct aio_member *members);    /* the same for an answer */
void aio_object(struct answer *answer, const struct aio_member *members); /* {...}, spilled if it is long */
/* Sends the whole answer. message NULL: as aio_open. */
int aio_reply(struct http_request *request, const char *message, const struct aio_member *members, struct err *err);

#endif
