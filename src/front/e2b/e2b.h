/* The dialect of E2B: what its files share. Its clients are npm's and PyPI's `e2b` and `@e2b/code-interpreter`, with
 * E2B_API_URL and E2B_SANDBOX_URL set to this daemon.
 *
 * Control plane: ordinary paths (/sandboxes, /v2/sandboxes, /templates ...), X-API-KEY, errors {"code":n,"message"}.
 * Data plane, the inside of one sandbox: which one is named by the Host (PORT-ID.DOMAIN), by the headers E2b-Sandbox-Id
 * and E2b-Sandbox-Port, or by a signed file URL, never by the path. e2b_locate makes a path of that:
 *   /_e2b/ID/49983/REST       envd: processes and files           E2B_ENVD "/process.Process/Start"
 *   /_e2b/ID/49999/REST       the code interpreter                E2B_CODE "/execute"
 *   /_e2b/ID/port/PORT/REST   a server in the sandbox (preview)   E2B_PORT
 * so that all of it is ordinary rows of route tables with {id}. Who may is decided by e2b_admit before a handler runs;
 * the handler gets the box, running. Data-plane endpoints never have ENDPOINT_OPEN or ENDPOINT_NO_BOX. */
#ifndef CUBBY_FRONT_E2B_H
#define CUBBY_FRONT_E2B_H

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "front/front.h"
#include "store/state_secret.h"

#define E2B_ENVD "/_e2b/{id}/49983"
#define E2B_CODE "/_e2b/{id}/49999"
#define E2B_PORT "/_e2b/{id}/port/{port}/{rest...}"
#define E2B_ENVD_VERSION "0.6.13"
#define E2B_HOME "/home/user"
/* Variables of a sandbox whose template has another directory or user for commands that name none. */
#define E2B_WORKDIR "E2B_WORKDIR="
#define E2B_USER "E2B_USER="
#define E2B_TOKEN_BYTES 65 /* 64 hex digits */

extern const struct dialect e2b_dialect;
/* Each ends with method NULL; e2b.c lists them. */
extern const struct route e2b_sandbox_routes[], e2b_snapshot_routes[], e2b_misc_routes[], e2b_process_routes[],
    e2b_filesystem_routes[], e2b_file_routes[], e2b_interpreter_routes[], e2b_preview_routes[];

struct e2b_settings {                 /* of the configuration */
    const char *domain;               /* below which sandboxes have hosts; NULL: they have none */
    const char *network;              /* of sandboxes that do not say: "none" or "open" */
    const char *const *images;        /* "IMAGE=TEMPLATE", for builds; NULL-terminated, may be NULL */
    const char *const *webhook_hosts; /* that events may be sent to; the same */
    uint64_t volume_mb;               /* at most in a new volume; 0: not bounded */
};

struct e2b { /* what is kept between requests */
    struct state_secret secret;
    struct watchers *watchers; /* of CreateWatcher */
    pthread_mutex_t lock;      /* of records that are read, changed and written */
    struct plane *plane;       /* builds, volumes, webhooks (plane/) */
};
struct e2b *e2b_state(const struct http_request *request);

/* ---- tables ---- */

/* A row of struct `args`. Members that no row names are ignored. */
#define E2B_ROW(label, kind, args, member, ...)                                                                        \
    { .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member), __VA_ARGS__ }
#define E2B_ROWS_END                                                                                                   \
    { .name = NULL, .flags = ROW_LENIENT }
/* A parameter that its handler takes by http_query. */
#define E2B_QUERY(label, most, meaning)                                                                                \
    { .name = (label), .type = ROW_TEXT, .max = (most), .text = (meaning) }
/* Of the control plane. more: of ENDPOINT_*, in addition. */
#define E2B_ROUTE(method, path, more, name, summary, ...)                                                              \
    {                                                                                                                  \
        (method), (path), front_handle, 0, (name), "E2B: " summary,                                                    \
            ENDPOINT(.flags = ENDPOINT_LENIENT | ENDPOINT_NO_BOX | (more), __VA_ARGS__)                                \
    }

/* ---- where and who ---- */

const char *e2b_id(struct http_request *request); /* of {id}, without the suffix of old clients; in its arena */
/* A secret of this daemon that only the text of the format gives. */
void e2b_derive(const struct e2b *e2b, char ret_token[E2B_TOKEN_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* envdAccessToken, or (traffic) trafficAccessToken, of a box. */
void e2b_token(const struct e2b *e2b, const struct box *box, bool traffic, char ret_token[E2B_TOKEN_BYTES]);
/* Of those two, what the box's template says; NULL: nothing, or there is no box. */
const char *e2b_default(const struct box *box, const char *name);
/* The name in Authorization: Basic, which RPCs have; NULL: none was sent. In the request's arena. */
const char *e2b_basic(struct http_request *request);

/* ---- answers ---- */

/* A refusal of the dialect's shape; returns the positive code for the handler to return. */
int e2b_fail(struct http_request *request, int status, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* 502 as E2B's proxy says it: the sandbox is not there (any more), is paused, or (port > 0) nobody listens there. */
int e2b_gone(struct http_request *request, const char *id, unsigned port);
int e2b_json(struct http_request *request, int status, struct buf *out, struct err *err); /* what was written to out */

#endif
