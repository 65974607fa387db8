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
    int code;              /* ERR_ number; 0: fine */
    const char *peer;      /* NULL: not needed */
    char box[17];          /* "" : none */
    char bound[17];        /* the box whose key or ticket came instead of a token: no other is opened; "": a token */
    const char *user;      /* owner of the box */
    const struct box *now; /* while its handler runs: its environment is secret */
    const char *const *secrets; /* "NAME=VALUE" of this request alone; NULL: none */
    bool by_header;             /* Authorization said who asks */
    bool reads;                 /* whatever the route says: nothing is another because of it */
    bool has_result;
    struct exec_result result;
    const char *detail;
    size_t detail_len;
    struct audit_running *running; /* until trail_end */
};

struct trail *trail_of(const struct http_request *request); /* NULL before trail_begin */
void trail_begin(struct http_request *request);
void trail_box(struct http_request *request, const struct box *box); /* it is about this box; NULL: no longer at hand */
void trail_note(struct http_request *request, const char *text);     /* added to the detail; nothing secret */
void trail_quote(struct http_request *request, const char *text);    /* the same, secrets of environments taken out */
void trail_code(struct http_request *request, int code);
void trail_result(struct http_request *request, const struct exec_result *result);
void trail_session(struct http_request *request, const struct session_result *result); /* unless it runs on */
/* The rows with ROW_AUDITED become the detail, without the values of ROW_SECRET rows and of all environments. */
void trail_args(struct http_request *request, const struct row *fields, const void *args);
/* From here on it is running: a daemon that dies now leaves a row that says so. Requests that only read leave none. */
void trail_running(struct http_request *request);
void trail_fields(struct http_request *request, const struct row *fields, const void *args); /* both */
/* One more row for a request that did something to several boxes. */
void trail_also(struct http_request *request, const char *verb, const char *box, const char *user, int code);
/* Writes the row. */
void trail_end(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us);

#endif
