/* The audit row of one request, gathered while it is served. Every request with a route has one, as the request's
 * user data. */
#ifndef CUBBY_FRONT_TRAIL_H
#define CUBBY_FRONT_TRAIL_H

#include "store/audit.h"
#include "box/box.h"
#include "front/auth.h"
#include "rows/rows.h"

struct front;
struct front_settings;

struct trail {
    const struct who *who; /* NULL: an unknown sender */
    struct front_settings *settings;
    uint64_t at_ms;
    int code;                   /* ERR_ number; 0: fine */
    const char *peer;           /* NULL: not needed */
    char box[17];               /* "" : none */
    char bound[17];             /* the only accessible box, if its key or ticket replaced a token; else "" */
    uint64_t login_until_ms;    /* of a login (native/ticket); 0: identified otherwise */
    const char *user;           /* owner of the box */
    const struct box *now;      /* while its handler runs, for the secrets in its environment */
    const char *const *secrets; /* "NAME=VALUE" of this request; may be NULL */
    bool by_header;             /* identified by Authorization */
    bool reads;                 /* it changes nothing, whatever the route says */
    bool has_result;
    struct exec_result result;
    const char *detail;
    size_t detail_len;
    struct audit_running *running; /* until trail_end */
};

struct trail *trail_of(const struct http_request *request); /* NULL before trail_begin */
void trail_begin(struct http_request *request);
void trail_box(struct http_request *request, const struct box *box); /* the request's box; NULL: no longer available */
void trail_note(struct http_request *request, const char *text);     /* adds to the detail; must not be secret */
void trail_quote(struct http_request *request, const char *text);    /* the same, but removes secrets of environments */
void trail_code(struct http_request *request, int code);
void trail_result(struct http_request *request, const struct exec_result *result);
void trail_session(struct http_request *request, const struct session_result *result); /* unless it still runs */
/* Makes the detail from rows with ROW_AUDITED, without values of ROW_SECRET rows and of environments. */
void trail_args(struct http_request *request, const struct row *fields, const void *args);
/* Records that the request is running: if the daemon dies now, a row remains that says so. Not for read-only
 * requests. */
void trail_running(struct http_request *request);
void trail_fields(struct http_request *request, const struct row *fields, const void *args); /* both */
/* Writes one more row for a request that changed several boxes. */
void trail_also(struct http_request *request, const char *verb, const char *box, const char *user, int code);
void trail_end(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us);

#endif
