/* cubby-seal: the TLS half of the gate, one process for one box. It gets connections to inspected hosts, each with the
 * box's end and the host's end, opens TLS both ways, judges every request, puts values in place of placeholders and
 * placeholders in place of values. It has no right to make a socket or to open a file.
 *
 * Descriptor 3: the daemon, SEQPACKET, a letter and texts that end in NUL (seal_send). Descriptor 4: the gate,
 * gate/seal_wire.h. One thread, one epoll. */
#ifndef CUBBY_SEAL_SEAL_H
#define CUBBY_SEAL_SEAL_H

#include <openssl/ssl.h>
#include <sys/epoll.h>

#include "base/base.h"
#include "base/conceal.h"
#include "gate/gate_policy.h"
#include "gate/seal_wire.h"
#include "http/framing.h"
#include "http/response.h"

enum {
    SEAL_DAEMON_FD = 3,
    SEAL_GATE_FD = 4,
    SEAL_MESSAGE_BYTES = 128 << 10,
    SEAL_BUFFER_BYTES = 64 << 10, /* a direction of a connection holds no more */
    SEAL_IDLE_MS = 60000,         /* without a connection it ends */
    SEAL_SHAKE_MS = 15000,
    SEAL_QUIET_MS = 3600000, /* a connection on which nothing happens */
    SEAL_VALUE_MS = 1000,    /* how long a stored value counts before it is asked for again */
    SEAL_SLOTS = 16,
    SEAL_BODY_BYTES = 64 << 10, /* of a request that is looked into */
    SEAL_BODY_TRIES = 16,       /* places of one placeholder in it */
};

/* ---- secrets (secret.c) ---- */

struct seal_secret {
    char *name, *placeholder;
    char **hosts, **slots, **methods, **paths, **ports; /* NULL-terminated */
    bool strict;
    struct buf value;
    uint64_t until_ms; /* the value counts so long; 0: there is none */
    bool asked;        /* an answer of the daemon is awaited */
    char error[300];   /* why there is none; "": not known */
};
extern struct seal_secret *secrets;
extern size_t secret_count;

void secrets_read(const json_t *list); /* of HELLO */
bool secret_bound(const struct seal_secret *secret, const char *host, uint16_t port);
struct seal_secret *secret_named(const char *name); /* NULL: it is not of this box */
/* Those that a request to the host may carry, as bits. */
uint64_t secrets_for(const char *host, uint16_t port);
/* Asks the daemon for the values that are needed for this host and are not at hand. False: an answer is awaited. */
bool secrets_ready(const char *host, uint16_t port);
void secrets_value(const char *name, uint64_t ttl_ms, const char *value, size_t len); /* the daemon's answers */
void secrets_error(const char *name, const char *why);
void secrets_forget(void);

/* What a request carries, and where it may be swapped. */
struct seal_request {
    struct head_words words;
    struct http_field fields[LIMIT_HEADERS];
    char *target;
    const char *method;
    const char *host, *upgrade;
    bool close, is_head, chunked;
    uint64_t length;
    struct buf *body; /* whole, if secrets may stand in it; NULL: it is not looked into */
};
const char *request_field(const struct seal_request *request, const char *name); /* NULL: it has none */
enum seal_swap { SWAP_DONE, SWAP_DENIED, SWAP_LACKS };                           /* and why, in ret_why */
/* The head, written anew, with values for placeholders in their slots, and the headers that the policy sets.
 * ret_swapped: bits of the secrets. ret_misuse: a word with a placeholder that was not swapped, appended. */
enum seal_swap secret_swap(const struct seal_request *request, const char *host, uint16_t port, struct buf *out,
                           uint64_t *ret_swapped, struct buf *ret_misuse, char ret_why[GATE_WHY_BYTES]);
/* Finds every value that is at hand and bound to the host, also as base64, percent-encoded and in JSON, and puts the
 * placeholder there, cut or filled to the same length. NULL: nothing to find. */
struct conceal *secret_scrub(const char *host, uint16_t port, bool *ret_strict);
/* One value in a text: bounded by its ends or by separators. Appends the text; true: it was there. */
bool swap_token(const char *text, const char *placeholder, const char *value, size_t len, struct buf *out);
bool swap_basic(const char *text, const char *placeholder, const char *value, size_t len, struct buf *out);

/* Whether the request may carry it now. */
enum seal_swap secret_may(const struct seal_secret *secret, const char *method, const char *path,
                          char ret_why[GATE_WHY_BYTES]);

bool secret_rule_fits(const struct seal_secret *secret, const char *method, const char *path);
void secret_percent(struct buf *out, const char *value, size_t len);

/* ---- bodies (body.c) ---- */

/* Whether a secret may stand in its body. */
bool body_wanted(const struct seal_request *request, const char *host, uint16_t port, const char *path);
/* Why such a body cannot be looked into, and the status to refuse it with; NULL: it can. */
const char *body_unreadable(const struct seal_request *request, int *ret_status);
enum seal_swap body_swap(const struct seal_request *request, const char *host, uint16_t port, const char *path,
                         struct buf *body, uint64_t *ret_swapped, char ret_why[GATE_WHY_BYTES]);

/* ---- headers that the policy sets (header.c) ---- */

enum { SEAL_HEADERS = GATE_HEADERS * GATE_LEVELS };
struct seal_headers {
    const struct gate_header *list[SEAL_HEADERS];
    size_t count;
};
/* Of a request; of the host as a whole where method is NULL. A level above the box's wins. */
void headers_for(const char *host, uint16_t port, const char *method, const char *path, struct seal_headers *out);
const struct gate_header *header_named(const struct seal_headers *headers, const char *name); /* NULL: it is not set */
uint64_t headers_secrets(const char *host, uint16_t port); /* bits of those that they refer to */
enum seal_swap header_put(const struct gate_header *header, const char *host, uint16_t port, const char *method,
                          const char *path, struct buf *out, uint64_t *ret_swapped, char ret_why[GATE_WHY_BYTES]);

/* ---- connections (conn.c, http.c) ---- */

struct side {
    uint64_t bytes_in, bytes_out; /* of the network; the client's: not reported yet */
    int fd;
    SSL *ssl;
    BIO *from_net, *to_net; /* the SSL's own */
    struct buf in, out;     /* plain bytes */
    bool eof;               /* it sends no more */
    bool over;              /* and gets no more: closed, or broken */
    uint32_t events;
};

enum conn_phase { CONN_UPSTREAM, CONN_LEAF, CONN_CLIENT, CONN_OPEN };

struct conn {
    struct conn *next;
    struct side client, server;
    enum conn_phase phase;
    char host[SEAL_HOST_BYTES + 1];
    uint16_t port;
    uint64_t cgroup, number;
    uint64_t until_ms;
    char refused[300]; /* why the host was not reached: the answer to the first request */
    bool dead;
    /* a request that is under way */
    struct head_scan scan;
    struct response *response;
    struct conceal *scrub;
    bool active, held, answered, tunnel, strict;
    bool is_head, close, upgrade;
    bool request_chunked, answer_chunked, answer_raw;
    struct chunk chunk;
    uint64_t request_left;
    bool request_done;
    struct buf head, body; /* of a request whose body is gathered first */
    uint64_t gather;       /* bytes of that body */
    uint64_t swapped;
    char method[33], path[512];
};

extern SSL_CTX *client_context, *server_context;
extern json_t *seal_hello;
struct leaf {
    struct leaf *next;
    char *host;
    X509 *certificate; /* NULL: it is asked for */
};
struct leaf *leaf_of(const char *host); /* asks the daemon for one that is missing */
EVP_PKEY *leaf_key(void);

void conn_new(const struct seal_connection *head, const char *host, const void *peeked, int client_fd, int server_fd);
void conn_pump_all(void); /* something that connections wait for has come */
void conn_ready(struct conn *conn);
void conn_time(uint64_t now_ms);
extern struct conn *conns;
bool http_up(struct conn *conn); /* true: bytes moved */
bool http_down(struct conn *conn);
void http_done(struct conn *conn);

/* ---- the daemon (main.c) ---- */

/* Takes all that the daemon has sent. False: it is gone. */
bool seal_listen(void);
void seal_send(char letter, const char *first, const char *second);
/* A row of the audit log: verb, host, detail, outcome. placeholder: whose it is, the daemon finds out; NULL: none. */
void seal_row(const struct conn *conn, const char *verb, const char *detail, const char *placeholder, bool denied);
extern int seal_epoll;
extern struct gate_policy *seal_levels[GATE_LEVELS];
extern size_t seal_level_count;
bool seal_decide(const struct conn *conn, const char *method, const char *path, char why[GATE_WHY_BYTES]);

#endif
