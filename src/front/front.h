/* Shared by all dialects: the context of a request, the prologue and the end of every handler, and struct dialect. */
#ifndef CUBBY_FRONT_FRONT_H
#define CUBBY_FRONT_FRONT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "store/audit.h"
#include "box/provider/provider.h"
#include "front/answer.h"
#include "front/auth.h"
#include "front/metrics.h"
#include "front/trail.h"
#include "tool/tool.h"

struct dialect;
enum { FRONT_DIALECTS = 8 }; /* at most */

/* Values that can change between two requests, never within one. Counted: each request holds the one it began with. */
struct front_settings {
    atomic_uint refs;
    void (*released)(struct front_settings *settings); /* by the last one */
    const char *default_backend;
    const char *const *secret_env; /* given to every box; NULL-terminated, may be NULL */
    bool audit_detail;             /* commands and paths too */
    uint64_t max_upload_bytes, max_unpack_entries;
    unsigned max_calls_per_box;
    struct tenant_limits tenant_limits;
    const struct tool_settings *tools;
    const char *url; /* how clients reach this daemon; NULL: as the request named it */
    struct {
        const struct dialect *dialect;
        const void *settings;
    } own[FRONT_DIALECTS]; /* settings of one dialect alone, in a shape of its own; ends with dialect NULL */
};

struct front { /* http_context */
    struct provider *provider;
    struct auth *auth;
    struct metrics *metrics;
    struct audit *audit;           /* NULL: nothing is recorded */
    struct events *events;         /* events of boxes */
    struct tool_host tools;        /* where tools run */
    struct secrets *secrets;       /* that stay outside of boxes; NULL: there are none (tests) */
    struct skills *skills;         /* NULL: there are none (tests) */
    struct http_server *server;    /* set before the first request */
    const struct backend_env *env; /* of templates and machines; NULL: none are kept (tests) */
    void *states[FRONT_DIALECTS];  /* front_state */
    const struct route *routes;
    uint64_t started_ms;
    pthread_mutex_t lock; /* of settings */
    struct front_settings *settings;
};

/* One API that the daemon speaks: a directory below front/, which exports one of these; routes.c lists them, and
 * nothing else names them. All but the routes may be NULL or absent. */
struct dialect {
    const struct route *const *routes; /* its tables, NULL-terminated; each ends with method NULL */
    const char *label;                 /* of the boxes that it made; only an admin can give it to another */
    const char *title;                 /* its name in sentences */
    /* Opens its state between requests. directory: STATE. On failure it leaves nothing to close. */
    int (*open)(const char *directory, void **ret_state, struct err *err);
    /* Boxes can be used, and soon requests come: what it does by itself begins; and ends, while boxes can be used
     * still. Only after open. */
    void (*start)(struct front *front, void *state);
    void (*stop)(void *state);
    void (*close)(void *state); /* no request runs any more; NULL is fine */
    /* Where a request goes whose Host or headers say more than its path: http_config.locate. own: as front_own. */
    const char *(*locate)(struct http_request *request, const void *own, const char *target);
    /* The box that a request with {id} is about; NULL: {id} itself. In the request's arena. */
    const char *(*identify)(struct http_request *request);
    /* The sender, if its clients have other ways to authenticate; as auth_admit. NULL: by Authorization. */
    int (*admit)(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);
    /* Whether a path that no route has would be one of its own. */
    bool (*claims)(const char *path);
    /* The body of its refusals, where they have another shape: http_config.refuse. */
    int (*refuse)(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
    /* A path of any dialect as the log may have it; path itself where it holds no secret of this one. */
    const char *(*mask)(struct http_request *request, const char *path);
    /* The URL of a box in this dialect, for handlers that give boxes to its clients; in the request's arena. */
    const char *(*url)(struct http_request *request, const struct box *box);
    void (*prepare)(struct box *box); /* a client will come at once: starts the things it will use, and does not wait */
    void (*measure)(const struct front *front, struct buf *out);                /* its part of /metrics */
    void (*check)(const struct http_request *request, struct check *ret_check); /* its row in `cubby doctor` */
};

void front_init(struct front *front, const struct route *routes);
int front_open(struct front *front, const char *directory, struct err *err); /* the dialects' states */
void front_start(struct front *front);                                       /* the dialects' own work */
void front_stop(struct front *front);
void front_done(struct front *front);
/* The state that the dialect keeps between requests; NULL before front_open. */
void *front_state(const struct front *front, const struct dialect *dialect);
/* The configuration of that dialect alone; NULL: none. */
const void *front_own(const struct http_request *request, const struct dialect *dialect);
/* The values for requests from now on; takes over the caller's reference. */
void front_configure(struct front *front, struct front_settings *settings);

#define ENDPOINT_OPEN 0x1u     /* needs no token */
#define ENDPOINT_WRITES 0x2u   /* not for read-only tokens, though the method is GET */
#define ENDPOINT_LOOK 0x8u     /* the box is only looked at: in any state, nothing is started or touched */
#define ENDPOINT_QUIET 0x10u   /* about the daemon, not about a box: not in the audit log unless refused */
#define ENDPOINT_ADMIN 0x20u   /* only for scope admin */
#define ENDPOINT_RUNNER 0x40u  /* the only routes for scope runner */
#define ENDPOINT_NO_BOX 0x4u   /* {id} is not looked up before run */
#define ENDPOINT_LENIENT 0x80u /* query parameters that it does not know are ignored */
#define ENDPOINT_WAKE                                                                                                  \
    0x100u /* a box whose processes died is started again, as its next acquire would (provider_wake) */
#define ENDPOINT_EVENTS 0x400u /* with Accept: text/event-stream its answer comes as events */
#define ENDPOINT_ETAG 0x800u   /* its answer is the header ETag */

/* route.extra: the input and the answer of a route; checks and OpenAPI come from it. */
struct endpoint {
    /* box: that of {id}, else NULL. Negative: err is the answer (or the begun one is cut off). Positive: an ERR_ number
     * that has been answered already. */
    int (*run)(struct http_request *request, struct box *box, struct err *err);
    unsigned flags;
    const struct row *query;
    const struct row *body;   /* of a JSON body */
    const char *body_media;   /* instead of JSON: raw bytes */
    int status, other_status; /* of success */
    const char *answer_media; /* NULL: JSON, or nothing for 204 */
    const struct row *answer; /* members of the JSON answer */
    /* The body of its refusals, where they differ from those of its dialect. */
    int (*refuse)(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
};

#define ENDPOINT(...)                                                                                                  \
    &(const struct endpoint) {                                                                                         \
        __VA_ARGS__                                                                                                    \
    }

/* A step of a handler: where it failed, or has answered, the handler returns its code. */
#define STEP(step)                                                                                                     \
    do {                                                                                                               \
        int step_code = (step);                                                                                        \
        if (step_code)                                                                                                 \
            return step_code;                                                                                          \
    } while (0)

const char *front_locate(struct http_request *request, const char *target); /* http_config.locate: asks each dialect */
int front_admit(struct http_request *request, struct err *err); /* http_config.admit: who asks, and known parameters */
void front_finished(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us);
void front_handle(struct http_request *request); /* route.handle of everything with an endpoint */

/* for handlers */
struct front *front_of(const struct http_request *request);
const struct who *front_who(const struct http_request *request);
const struct front_settings *front_settings(const struct http_request *request); /* until the request ends */
/* The same outside of a request, until front_settings_unref; and those of one dialect, NULL: none. */
struct front_settings *front_settings_take(struct front *front);
void front_settings_unref(struct front_settings *settings);
const void *front_own_in(const struct front_settings *settings, const struct dialect *dialect);
/* Arguments by the route's own rows; *ret_args zeroed by the caller. */
int front_query(struct http_request *request, void *ret_args, struct err *err);
const char *front_get(void *request, const char *name, size_t *ret_len); /* rows_get */
int front_body(struct http_request *request, void *ret_args, struct err *err);
ssize_t front_body_read(void *request, void *data, size_t size, struct err *err); /* box_reader */
/* A box is about to be made for this request. LIMIT: its user has made too many within a minute. */
int front_make(const struct http_request *request, struct err *err);
/* The box that is wanted; id: looked for first, so that only what must be made counts as made. NULL: it counts
 * anyway. */
int front_acquire(const struct http_request *request, const char *id, const struct box_request *wanted,
                  struct box **ret_box, bool *ret_created, struct err *err);
/* The daemon stops and this request was broken off for it: that is what its client is sent. */
bool front_stopped(const struct http_request *request, struct err *err);
/* Adds the header Cubby-Restarted if the box was started again after it died, and no answer has had it yet. */
void front_restarted(struct http_request *request, struct box *box);
/* One more request on the box. LIMIT: it may not have it; front_leave is owed all the same. */
int front_enter(const struct http_request *request, struct box *box, struct err *err);
void front_leave(struct box *box);
int front_empty(struct http_request *request, int status); /* an answer without a body */

#endif
