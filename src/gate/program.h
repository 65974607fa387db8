/* Shared by the files of the program cubby-gate. One thread, one epoll, nothing that waits.
 *
 * Rules
 * 1. What epoll points to is freed at the end of a turn (loop_free), never in the middle of one.
 * 2. Nothing is resolved, dialed, sent or relayed but after gate_judge said yes for it, under the rules as they are at
 *    that moment. Whatever waited (for a resolver, a connect, an answer) is judged again when it continues.
 * 3. Every amount that a box can make grow has a limit of limits.h. */
#ifndef CUBBY_GATE_PROGRAM_H
#define CUBBY_GATE_PROGRAM_H

#include <netinet/in.h>
#include <sys/epoll.h>

#include "base/base.h"
#include "gate/gate_policy.h"
#include "gate/gate_wire.h"

/* ---- loop.c ---- */

struct watch {
    void (*ready)(struct watch *watch, uint32_t events);
    int fd; /* -1: not watched */
    uint32_t events;
};
/* events 0: only errors and hang-ups. Closes nothing. */
void watch_add(struct watch *watch, int fd, uint32_t events, void (*ready)(struct watch *watch, uint32_t events));
void watch_set(struct watch *watch, uint32_t events);
/* The descriptor of `from`, which is watched, is `watch`'s from now on. */
void watch_move(struct watch *watch, struct watch *from, uint32_t events,
                void (*ready)(struct watch *watch, uint32_t events));
void watch_close(struct watch *watch); /* closes the descriptor; safe twice */
void watch_end(struct watch *watch);   /* no longer watched; the descriptor stays open */

struct timer {
    void (*due)(struct timer *timer);
    uint64_t at_ms;
    size_t place; /* in the heap, from 1; 0: not set */
};
void timer_set(struct timer *timer, uint64_t at_ms, void (*due)(struct timer *timer));
void timer_stop(struct timer *timer);

void loop_begin(void);
void loop_run(void);          /* for ever */
void loop_free(void *memory); /* at the end of this turn */
uint64_t loop_now_ms(void);   /* of this turn */
uint64_t loop_turn(void);     /* its number */

/* Tokens that come back with time. */
struct bucket {
    uint64_t at_ms;
    double tokens;
};
/* Takes `amount` if it is there. */
bool bucket_take(struct bucket *bucket, double amount, double rate_per_s, double most);

/* ---- boxes: control.c ---- */

struct rules { /* equal ones are shared by all boxes that have them */
    struct rules *next;
    unsigned users;
    uint8_t digest[32];
    struct gate_policy *levels[GATE_LEVELS];
    size_t count;
    const char **inspect; /* NULL-terminated */
    json_t *root;         /* holds the texts */
    struct gate_limits limits;
    uint64_t ask_timeout_ms;
    enum gate_log log;
};

struct conn;
struct named;
struct lookup;
struct dial;
struct association;

struct grant { /* the answer to a question, for a while */
    struct grant *next;
    char name[GATE_NAME_BYTES + 1];
    uint16_t port;
    uint64_t until_ms;
};

struct pin { /* an address that was handed out for a name */
    struct address address;
    char *name;
};

struct box_udp {
    struct watch watch;
    struct box *box;
    uint16_t port;
};

struct box {
    struct box *next;
    char id[17];
    uint64_t generation;
    struct rules *rules;
    struct watch tcp, dns_udp, dns_tcp, seal;
    struct box_udp *udp;
    size_t udp_count;
    int diag;
    struct pin *pins;
    size_t pin_count, pin_room, pin_next;
    uint32_t stand_ins; /* addresses of 198.18.0.0/15 handed out so far */
    struct named *names;
    size_t name_count;
    struct lookup *lookups;
    unsigned lookup_count;
    struct conn *conns;
    struct dns_conn *dns_conns;
    unsigned dns_conn_count;
    struct association *associations;
    unsigned association_count;
    struct grant *grants;
    struct bucket starts, new_names, transfer, rows;
    struct timer throttle, seal_timer;
    bool seal_wanted;
    uint64_t turn, turn_bytes; /* bytes relayed in that turn of the loop */
    struct gate_count count;
    struct gate_row *sums; /* rows of this second that may get company */
    size_t sum_count;
    uint64_t lost;
    struct timer sum_timer;
};

extern struct gate_machine machine;
void control_begin(int fd);
/* Blocking, before anything else: the first message's JSON. Ends the program if there is none. */
json_t *control_hello(int fd);
/* The one decision: also limits of bytes. */
void box_judge(const struct box *box, const struct gate_subject *subject, struct gate_verdict *ret_verdict);
void box_refused(const struct box *box); /* before anybody sees it */
void control_want_seal(struct box *box, const char *host);
void control_send(enum gate_kind kind, const struct box *box, uint64_t generation, uint64_t value, bool allow,
                  const void *rest, size_t len);

/* ---- report.c ---- */

struct gate_row report_row(enum gate_row_kind kind, const struct box *box);
void report(struct box *box, const struct gate_row *row);
void report_flush(void); /* before a turn ends, and before any answer to the daemon */
void report_box_end(struct box *box);

/* ---- resolve.c ---- */

enum { RESOLVE_ADDRESSES = 16 };
struct answer {
    struct address addresses[RESOLVE_ADDRESSES]; /* checked: may be dialed */
    size_t count;
    unsigned ttl;
    bool failed;  /* the resolvers did not answer, or refused */
    bool missing; /* the name does not exist */
    bool refused; /* it has addresses, and none of them may be used */
    bool budget;  /* too many new names below a star, or too many at once */
};
typedef void (*resolve_done)(void *user, const struct answer *answer);
void resolve_begin(const json_t *resolvers);
/* Calls done, maybe at once. The name was judged. star: only a star allows it. */
void resolve_name(struct box *box, const char *name, bool star, resolve_done done, void *user);
void resolve_cancel(struct box *box, void *user); /* done is not called any more */
void resolve_box_end(struct box *box);
void pin_add(struct box *box, const struct address *address, const char *name);
/* Names that the address was handed out for, the newest first; NULL-terminated, at most PIN_NAMES. */
enum { PIN_NAMES = 16 };
size_t pin_names(const struct box *box, const struct address *address, const char *ret_names[PIN_NAMES + 1]);
struct address pin_stand_in(struct box *box, const char *name);
void pin_drop_forbidden(struct box *box);

/* ---- dns_serve.c ---- */

void dns_serve_begin(struct box *box);
void dns_serve_connection(struct box *box, int fd); /* takes the descriptor */
void dns_serve_end(struct box *box);                /* its connections */

/* ---- diag.c ---- */

/* The cgroup of the box's socket that speaks from `from` to `to`; 0: not known. */
uint64_t diag_cgroup(const struct box *box, bool udp, const struct address *from, uint16_t from_port,
                     const struct address *to, uint16_t to_port);

/* ---- conn.c ---- */

enum conn_state {
    CONN_PEEK,
    CONN_HELD,
    CONN_RESOLVE,
    CONN_DIAL,
    CONN_SEAL,
    CONN_RELAY,
    CONN_HTTP,
    CONN_HANDED,
    CONN_LAST
};

struct flow {    /* one direction of a relay */
    int pipe[2]; /* -1: none, nothing is held */
    size_t held;
    bool ended, shut;
};

struct conn {
    struct conn *next, *prev;
    struct box *box;
    struct watch client, upstream;
    struct timer timer, next_try;
    enum conn_state state;
    enum gate_protocol protocol;
    struct address aimed, dialed, peer;
    uint16_t port, peer_port;
    uint64_t cgroup, number, start_us, dial_us, question;
    char name[GATE_NAME_BYTES + 1]; /* ""; dial the aimed address */
    char rule[GATE_WHY_BYTES];
    bool observed, inspect, granted, counted;
    struct buf in; /* bytes of the client that are not sent yet */
    struct answer answer;
    size_t try_at;
    struct dial *dials; /* connects under way */
    uint64_t last_ms;   /* something moved */
    struct flow up, down;
    uint64_t bytes_in, bytes_out;
    struct exchange *http;
};

void conn_begin(struct box *box);
/* Ends it with a reset on both sides, and a row. denied: by the policy or a limit. */
void conn_end(struct conn *conn, enum gate_row_kind kind, bool denied, const char *why);
/* The same, but the client gets `bytes` first, then the end. */
void conn_end_after(struct conn *conn, const void *bytes, size_t len, bool denied, const char *why);
void conn_close(struct conn *conn); /* it is over, both sides have ended: a row, no reset */
/* As what it speaks understands: an alert, an answer 403, a reset. */
void conn_deny(struct conn *conn, const char *why);
void conn_fail(struct conn *conn, const char *why); /* not refused: the other side cannot be reached */
/* The verdict for conn->name asks: waits for the answer. */
void conn_hold(struct conn *conn);
/* Judges conn->name and dials it; the state says how it goes on when connected. */
void conn_dial(struct conn *conn);
/* After a change of rules: judged again. True: it was cut. */
bool conn_again(struct conn *conn);
void conn_answered(struct box *box, uint64_t question, bool allow, uint64_t for_ms);
void conn_seal_came(struct box *box);
void conn_seal_lost(struct box *box);
void conn_box_end(struct box *box);

/* ---- relay.c ---- */

void relay_begin(struct conn *conn); /* conn->in goes out first */
void relay_event(struct conn *conn, bool client, uint32_t events);
void relay_done(struct conn *conn); /* gives the pipes back */
/* Bytes that the box may move now, at most `most`; 0: later, and the box's timer is set. */
size_t relay_allowance(struct box *box, size_t most);
void relay_moved(struct box *box, size_t bytes);
void relay_resume(struct box *box);

/* ---- http1.c ---- */

void http1_begin(struct conn *conn);
void http1_event(struct conn *conn, bool client, uint32_t events);
void http1_dialed(struct conn *conn);
void http1_refuse(struct conn *conn, int status, const char *why);
void http1_done(struct conn *conn);

/* ---- udp.c ---- */

/* A datagram of a box and the address that it was sent to (*ret_asked stays where the kernel does not say).
 * ret_from->sin_family: AF_UNSPEC where the sender is not known. Negative: there is none. */
ssize_t datagram_receive(int fd, void *data, size_t size, struct sockaddr_in *ret_from, struct in_addr *ret_asked);
/* Back to the sender, from the address that it asked. */
void datagram_answer(int fd, const struct sockaddr_in *to, struct in_addr asked, const void *data, size_t len);
void udp_begin(struct box *box);
void udp_again(struct box *box); /* after a change of rules */
void udp_box_end(struct box *box);

/* ---- confine.c ---- */

void confine(const json_t *hello);
void confine_own_addresses(void); /* watches this machine's addresses */

#endif
