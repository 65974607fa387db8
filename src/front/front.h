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

/* Values that can change between two requests, never within one. Reference-counted: each request holds the one it began
 * with. */
struct front_settings {
    atomic_uint refs;
    void (*released)(struct front_settings *settings); /* called by the last holder */
    const char *default_backend;
    const char *const *secret_env; /* given to every box; NULL-terminated, may be NULL */
    bool audit_detail;             /* record commands and paths too */
    uint64_t max_upload_bytes, max_unpack_entries;
    unsigned max_calls_per_box;
    struct tenant_limits tenant_limits;
    const struct tool_settings *tools;
    const char *url; /* how clients reach this daemon; NULL: as in the request's Host */
    struct {
        const struct dialect *dialect;
        const void *settings;
    } own[FRONT_DIALECTS]; /* settings private to one dialect; ends with dialect NULL */
};

struct front { /* http_context */
    struct provider *provider;
    struct auth *auth;
    struct metrics *metrics;
    struct audit *audit;           /* NULL: nothing is recorded */
    struct events *events;         /* events of boxes */
    struct tool_host tools;        /* where tools run */
    struct secrets *secrets;       /* secrets that stay outside of boxes; NULL in tests */
    struct skills *skills;         /* NULL in tests */
    struct http_server *server;    /* set before the first request */
    const struct backend_env *env; /* for templates and machines; NULL in tests */
    void *states[FRONT_DIALECTS];  /* front_state */
    const struct route *routes;
    uint64_t started_ms;
    pthread_mutex_t lock; /* guards settings */
    struct front_settings *settings;
};

/* One API that the daemon speaks. Each directory below front/ exports one; only routes.c names them. All members but
 * the routes may be NULL. */
struct dialect {
    const char *name;                  /* "native": ?dialect= of /openapi.json */
    const struct route *const *routes; /* its tables, NULL-terminated; each ends with method NULL */
    const char *label;                 /* label of boxes that it made; only an admin can set it otherwise */
    const char *title;                 /* its name in error texts */
    /* Opens its state, kept between requests, in the state directory. On failure there is nothing to close. */
    int (*open)(const char *directory, void **ret_state, struct err *err);
    /* start begins its own work: boxes are usable, and requests will come soon. stop ends it, while boxes are still
     * usable. Called only after open. */
    void (*start)(struct front *front, void *state);
    void (*stop)(void *state);
    void (*close)(void *state); /* no request is running; NULL is allowed */
    /* http_config.locate: maps a request whose Host or headers say more than its path. own: from front_own. */
    const char *(*locate)(struct http_request *request, const void *own, const char *target);
    /* Returns the id of the box that a request with {id} is about, in the request's arena. NULL: {id} itself. */
    const char *(*identify)(struct http_request *request);
    /* Like auth_admit, if its clients have other ways to authenticate. NULL: by Authorization. */
    int (*admit)(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);
    /* Returns whether an unknown path would belong to this dialect. */
    bool (*claims)(const char *path);
    /* http_config.refuse: writes the body of a refusal, if it has another shape. */
    int (*refuse)(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
    /* Returns a path of any dialect for the log: path itself, or a copy without this dialect's secrets. */
    const char *(*mask)(struct http_request *request, const char *path);
    /* Returns the URL of a box in this dialect, for handlers that hand boxes to its clients; in the request's arena. */
    const char *(*url)(struct http_request *request, const struct box *box);
    void (*prepare)(struct box *box); /* starts what a client will need at once; does not wait */
    void (*measure)(const struct front *front, struct buf *out);                /* its part of /metrics */
    void (*check)(const struct http_request *request, struct check *ret_check); /* its row in `cubby doctor` */
};

void front_init(struct front *front, const struct route *routes);
int front_open(struct front *front, const char *directory, struct err *err); /* opens the dialects */
void front_start(struct front *front);                                       /* starts the dialects */
void front_stop(struct front *front);
void front_done(struct front *front);
/* Returns the dialect's state; NULL before front_open. */
void *front_state(const struct front *front, const struct dialect *dialect);
/* Returns the dialect's own settings, or NULL. */
const void *front_own(const struct http_request *request, const struct dialect *dialect);
/* Sets the values for requests from now on. Takes over the caller's reference. */
void front_configure(struct front *front, struct front_settings *settings);

#define ENDPOINT_OPEN 0x1u     /* needs no token */
#define ENDPOINT_WRITES 0x2u   /* not for read-only tokens, although the method is GET */
#define ENDPOINT_READS 0x200u  /* for read-only tokens, too, although the method is POST */
#define ENDPOINT_LOOK 0x8u     /* the box is only read, in any state; nothing is started */
#define ENDPOINT_QUIET 0x10u   /* about the daemon, not a box: in the audit log only if refused */
#define ENDPOINT_ADMIN 0x20u   /* only for scope admin */
#define ENDPOINT_RUNNER 0x40u  /* the only routes for scope runner */
#define ENDPOINT_NO_BOX 0x4u   /* {id} is not looked up before run */
#define ENDPOINT_LENIENT 0x80u /* unknown query parameters are ignored */
#define ENDPOINT_WAKE 0x100u   /* a box whose processes died is started, as by its next acquire (provider_wake) */
#define ENDPOINT_EVENTS 0x400u /* with Accept: text/event-stream it answers with events */
#define ENDPOINT_ETAG 0x800u   /* its answer is the header ETag */

/* route.extra: input and answer of a route, for checks and OpenAPI. */
struct endpoint {
    /* box: the box of {id}, else NULL. Negative: err is the answer (a begun answer is cut off). Positive: an ERR_
     * number that was already answered. */
    int (*run)(struct http_request *request, struct box *box, struct err *err);
    unsigned flags;
    const struct row *query;
    const struct row *body;   /* members of a JSON body */
    const char *body_media;   /* instead of JSON: raw bytes */
    int status, other_status; /* statuses of success */
    const char *answer_media; /* NULL: JSON, or nothing for 204 */
    const struct row *answer; /* members of the JSON answer */
    /* Writes the body of a refusal, if it differs from its dialect's. */
    int (*refuse)(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
};

#define ENDPOINT(...)                                                                                                  \
    &(const struct endpoint) {                                                                                         \
        __VA_ARGS__                                                                                                    \
    }

/* A step of a handler. If it failed or answered, the handler returns its code. */
#define STEP(step)                                                                                                     \
    do {                                                                                                               \
        int step_code = (step);                                                                                        \
        if (step_code)                                                                                                 \
            return step_code;                                                                                          \
    } while (0)

const char *front_locate(struct http_request *request, const char *target); /* http_config.locate: tries each dialect */
int front_admit(struct http_request *request, struct err *err); /* http_config.admit: checks sender and parameters */
void front_finished(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us);
void front_handle(struct http_request *request); /* route.handle of every route with an endpoint */

/* for handlers */
struct front *front_of(const struct http_request *request);
const struct who *front_who(const struct http_request *request);
const struct front_settings *front_settings(const struct http_request *request); /* valid until the request ends */
/* The same outside of a request, valid until front_settings_unref; and those of one dialect, or NULL. */
struct front_settings *front_settings_take(struct front *front);
void front_settings_unref(struct front_settings *settings);
const void *front_own_in(const struct front_settings *settings, const struct dialect *dialect);
/* Binds arguments by the route's rows. The caller zeroes *ret_args. */
int front_query(struct http_request *request, void *ret_args, struct err *err);
const char *front_get(void *request, const char *name, size_t *ret_len); /* rows_get */
int front_body(struct http_request *request, void *ret_args, struct err *err);
ssize_t front_body_read(void *request, void *data, size_t size, struct err *err); /* box_reader */
/* Called before a box is made for this request. LIMIT: its user has made too many within a minute. */
int front_make(const struct http_request *request, struct err *err);
/* Finds or makes the wanted box. id: looked up first, so that an existing box does not count against the rate limit;
 * NULL: it always counts. */
int front_acquire(const struct http_request *request, const char *id, const struct box_request *wanted,
                  struct box **ret_box, bool *ret_created, struct err *err);
/* Returns whether this request was ended because the daemon stops; err then says so to the client. */
bool front_stopped(const struct http_request *request, struct err *err);
/* Adds the header Cubby-Restarted if the box was started again after it died and no answer has said so yet. */
void front_restarted(struct http_request *request, struct box *box);
/* Counts one more request on the box. LIMIT: too many. front_leave must be called even then. */
int front_enter(const struct http_request *request, struct box *box, struct err *err);
void front_leave(struct box *box);
int front_empty(struct http_request *request, int status); /* answers without a body */

#endif
