/* Connect (connectrpc.com) over HTTP/1.1 with the JSON codec: unary calls, server streams and client streams.
 *
 * A call gets its message bound by rows and answers it:
 *
 *   json_put_str(connect_open(connect), "watcherId", id);
 *   return connect_send(connect);
 *
 * A stream is the same with any number of connect_open and connect_send; a unary call that sends nothing answers {}.
 * A failure is answered as the protocol wants it: a status and {"code","message"}, or the last frame of a stream. The
 * connection is cut without a last frame when the box itself has ended: that is how clients learn it. */
#ifndef CUBBY_FRONT_E2B_CONNECT_H
#define CUBBY_FRONT_E2B_CONNECT_H

#include "base/buf.h"
#include "base/json.h"
#include "box/box.h"
#include "front/e2b/account.h"
#include "http/server.h"
#include "rows/rows.h"

enum connect_kind { CONNECT_UNARY, CONNECT_STREAM };

#define CONNECT_HEAD_BYTES 5u         /* of an envelope: flags, then the length of its payload in big endian */
#define CONNECT_FLAG_COMPRESSED 0x01u /* no compression is ever agreed on */
#define CONNECT_FLAG_END 0x02u        /* the last frame of an answer */
#define CONNECT_DEFAULT_ALIVE_MS 90000u

struct connect {
    struct http_request *request;
    struct box *box;
    enum connect_kind kind;
    const char *code; /* of a failure, where err->code does not say it ("failed_precondition"); NULL: by err->code */
    struct e2b_account account; /* whom it acts as; set by connect_take */
    uint64_t timeout_ms;        /* Connect-Timeout-Ms; 0: none */
    uint64_t deadline_ms;       /* by clock_ms; 0: none */
    uint64_t alive_ms;          /* after this silence a stream sends a keep-alive message */
    uint64_t sent_ms;           /* clock_ms of the last message */
    bool begun, lost;           /* the answer has begun; the client is gone */
    size_t held;                /* of http_hold */
    struct buf in, out;
    struct json json;
};

void connect_init(struct connect *connect, struct http_request *request, struct box *box, enum connect_kind kind);
void connect_done(struct connect *connect);
#define autoconnect __attribute__((cleanup(connect_done))) struct connect

/* One call of a service: what its route has as the endpoint (CONNECT_RPC). */
struct connect_rpc {
    struct endpoint endpoint;
    enum connect_kind kind;
    size_t args; /* the size of what endpoint.body fills; 0: the call takes its messages by itself */
    /* args: NULL, or the message, in the request's arena. Negative: the code in err. Positive: answered already. */
    int (*call)(struct connect *connect, void *args, struct err *err);
};
int connect_handle(struct http_request *request, struct box *box, struct err *err); /* endpoint.run of these */
#define CONNECT_RPC(path, name, summary, bits, rows, ...)                                                              \
    {                                                                                                                  \
        "POST", E2B_ENVD path, front_handle, 0, (name), (summary),                                                     \
            &(const struct connect_rpc){.endpoint = {.run = connect_handle,                                            \
                                                     .flags = ENDPOINT_LENIENT | (bits),                               \
                                                     .body = (rows),                                                   \
                                                     .status = 200},                                                   \
                                        __VA_ARGS__}                                                                   \
                 .endpoint                                                                                             \
    }

/* ---- the request ---- */

/* Headers and the one message of a unary call or a server stream, by rows (connect_bind). Positive: answered already
 * (415); pass it on like any other result. */
int connect_take(struct connect *connect, const struct row *fields, void *ret_args, struct err *err);
/* A client stream: the headers, then one message after the other. connect_next: 1 a message, 0 the end. Texts of a
 * message live in `arena`, which may be emptied between two. */
int connect_take_head(struct connect *connect, struct err *err);
int connect_next(struct connect *connect, const struct row *fields, struct arena *arena, void *ret_args,
                 struct err *err);

/* One JSON message by rows, with what protojson allows: members that no row names are ignored (also without
 * ROW_LENIENT), names may be snake_case, integers may be texts or have a fraction of zero, null is absent. Enumerations
 * are ROW_TEXT_OR_INT, bytes are ROW_TEXT (connect_bytes). */
int connect_bind(const char *data, size_t len, const struct row *fields, struct arena *arena, void *ret_args,
                 struct err *err);
/* Bytes: base64, standard or for URLs, padded or not; appended to out. INVALID names the member. */
int connect_bytes(const struct row_text *text, const char *member, struct buf *out, struct err *err);

/* A client's path made absolute: NULL, "" and "~" are the user's home, relative ones lie below it; ".." is resolved by
 * names alone. INVALID: "~name", or too long. */
int connect_path(struct arena *arena, const char *home, const char *path, const char **ret_path, struct err *err);

/* ---- the answer ---- */

struct json *connect_open(struct connect *connect); /* a message: its object is open; write the members */
int connect_send(struct connect *connect);          /* closes the object and sends the message in one write */
/* failed: 0, or the code in err, or what connect_take returned. To be returned by endpoint.run. */
int connect_end(struct connect *connect, int failed, struct err *err);

/* How long a stream may wait for news: until its deadline or its next keep-alive message, at least 1 ms. */
uint64_t connect_wait_ms(const struct connect *connect);
/* Called when a stream had nothing to send: TIMEOUT at its deadline; else sends the message {"keepalive":{}} when it is
 * due, inside of {"event":...} if wrapped. */
int connect_idle(struct connect *connect, bool wrapped, struct err *err);

/* protojson values */
void connect_put_int64(struct json *json, const char *key, int64_t value); /* as text */
void connect_put_bytes(struct json *json, const char *key, const void *data, size_t len);
void connect_put_time(struct json *json, const char *key, uint64_t wall_ns); /* Timestamp, with nanoseconds */

#endif
