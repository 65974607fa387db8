/* Machines that have joined: a table by user and name. The endpoint at which they register (front/join/join.c)
 * brings a connection and serves it on its own thread; the backend `remote` finds them here. Invariants:
 *
 * 1. A machine belongs to its user and has one name; nothing is ever sent to another machine, or to this host,
 *    instead.
 * 2. At most one connection counts. A second one under the same name resumes the session it names. Otherwise the
 *    existing one is probed (ping): if it answers within MACHINE_ANSWER_MS it stays and the new one is refused
 *    (EXISTS), if not the new one replaces it. The end of a connection that no longer counts changes nothing.
 * 3. When the connection is lost the machine is offline at once, for every request: BUSY with the time. Running
 *    calls wait for settings.grace_ms; then the session ends and every call on it fails with GONE and the reason.
 * 4. Machines are hostile: all their input is bounded, and a machine that breaks a rule loses its connection and
 *    session, with a reason that both sides get. */
#ifndef CUBBY_BACKEND_MACHINE_H
#define CUBBY_BACKEND_MACHINE_H

#include <jansson.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/remote/pump.h"
#include "base/arena.h"

struct machines;
struct machine;

#define MACHINE_ANSWER_MS 5000u

struct machines_settings {
    uint64_t grace_ms; /* how long calls survive a lost connection; default 60000 */
    unsigned max, max_per_user;
    uint64_t epoch;          /* of this head: a worker that has seen a higher one refuses it; 0: it is the only one */
    const char *runner_path; /* carried to machines whose runner is not ours; lives as long as the table. May be NULL */
    /* A machine came online (again: it resumes a session). On a thread of its own per event; may wait. May be NULL. */
    void (*online)(void *context, const char *user, const char *name, bool again);
    void (*offline)(void *context, const char *user, const char *name, const char *why);
    void *context;
};
struct machines *machines_new(const struct machines_settings *settings);
void machines_close(struct machines *machines, const char *why); /* every session ends; no new ones */
void machines_free(struct machines *machines);                   /* NULL is fine; no thread serves any more */

/* NOT_FOUND: never seen since this daemon started. */
int machine_facts(struct machines *machines, const char *user, const char *name, struct arena *arena,
                  struct machine_facts *ret_facts, struct err *err);
/* Of one user, or of all (NULL); each is valid with its texts during the callback; no lock is held. */
void machines_each(struct machines *machines, const char *user,
                   void (*each)(void *context, const struct machine_facts *), void *context);
/* Its connection ends with GONE and that reason; from any thread, under any lock of the caller; never waits.
 * end_session: running calls fail at once with it, else they wait for the machine. */
void machines_leave(struct machines *machines, const char *user, const char *name, bool end_session, const char *why);

struct machines_counts {
    unsigned known, online;
    uint64_t connections, resumed, refused,
        expired; /* so far; expired: sessions whose machine did not come back in time */
};
void machines_count(struct machines *machines, struct machines_counts *ret_counts);
uint64_t machines_grace_ms(const struct machines *machines);
uint64_t machines_epoch(const struct machines *machines);

/* ---- for the endpoint at which machines register ---- */

/* A runner with a link (cubby join). session: "" for a new one, else 32 hex digits that it was given before;
 * received: how many records it has. Fills *ret_session (33 bytes), *ret_resumed and *ret_received, to be sent to it
 * before machine_serve_link. EXISTS by rule 2; LIMIT. The place it takes is given back by machine_serve_link, or by
 * machine_leave. */
struct machine_conn; /* of one connection */
int machine_enter(struct machines *machines, const struct machine_hello *hello, bool text, const char *session,
                  uint64_t received, char ret_session[33], bool *ret_resumed, uint64_t *ret_received,
                  struct machine_conn **ret_conn, struct err *err);
void machine_leave(struct machine_conn *conn);
/* Serves until the connection ends; the reason in err. tick: as pump_events.tick. Ends the conn. */
int machine_serve_link(struct machine_conn *conn, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err);
/* The same for a runner that speaks the seeds' messages (text/call.h). nested: bodies are nested objects, else flat. */
struct machine_text_options {
    bool nested;
    bool no_workspace;       /* it did not name its workspace: the first command reports it */
    const char *runner_path; /* of our own runner, here; NULL: machines_settings.runner_path */
};
int machine_serve_text(struct machine_conn *conn, const struct pump_socket *socket,
                       const struct machine_text_options *options, int (*tick)(void *user, struct err *err),
                       void *tick_user, struct err *err);

/* ---- for the backend ---- */

struct machine_session { /* a counted reference; what is set does not change */
    atomic_uint refs;
    char id[33];
    const struct machine_ops *ops; /* NULL until it is first served */
    void *connection;              /* of its kind, for ops */
    bool ended;                    /* under the table's lock */
};
/* The machine, to ask it something. BUSY: it is offline, since when, and what to do; nothing else is ever given
 * instead. */
int machine_session_get(struct machines *machines, const char *user, const char *name,
                        struct machine_session **ret_session, struct err *err);
void machine_session_put(struct machine_session *session); /* NULL is fine */
/* Called for each machine that comes online, before settings.online, on the same thread; may wait. listen NULL: not
 * for this context any more, and no thread is in it. */
void machines_listen(struct machines *machines, void (*listen)(void *context, const char *user, const char *name),
                     void *context);

/* ---- workers: machines of the user MACHINE_WORKERS ---- */

/* The machine of that user with the highest score, its name in arena; below 0: not this one. False: none. score is
 * called under the table's lock, and has no latency. */
bool machines_pick(struct machines *machines, const char *user,
                   double (*score)(void *context, const struct machine_facts *), void *context, struct arena *arena,
                   const char **ret_name);
/* machine_facts.boxes and .draining, of a machine that has joined. NOT_FOUND: it has not. */
void machine_boxes_set(struct machines *machines, const char *user, const char *name, uint64_t boxes);
void machine_load_set(struct machines *machines, const char *user, const char *name, uint64_t free_mb);
bool machine_leaving(struct machines *machines, const char *user, const char *name); /* online, and draining */
int machine_drain(struct machines *machines, const char *user, const char *name, bool drain, struct err *err);
/* What is known from elsewhere about why it left: part of what its boxes answer until it is back, and for a while of
 * why their processes ended. "": nothing is. False: no such machine, or nothing is known. */
bool machine_note(struct machines *machines, const char *user, const char *name, const char *note);
bool machine_noted(struct machines *machines, const char *user, const char *name, char *text, size_t size);
/* The name of the machine that has this session. False: none, or it has ended. */
bool machine_of_session(struct machines *machines, const char *user, const char *session,
                        char ret_name[LIMIT_RUNNER_BYTES + 1]);

/* ---- operations, a row for each kind of runner ---- */

struct machine_ops {
    /* fresh: a new runner for spec->id, else the existing one (NOT_FOUND: none). */
    int (*start)(void *connection, const struct spec *spec, bool fresh, struct wire **ret_wire, struct err *err);
    int (*stop)(void *connection, const char *id, bool keep_files, struct err *err);
    int (*usage)(void *connection, const char *id, struct usage *ret_usage, struct err *err); /* NULL: not known */
    int (*pause)(void *connection, const char *id, bool pause, struct err *err);              /* NULL: it cannot */
    /* Any other question, with more members; spec may be NULL. For the caller to json_decref. NULL: it has none. */
    int (*ask)(void *connection, const char *op, const char *id, const struct buf *members, const struct spec *spec,
               uint64_t timeout_ms, json_t **ret_answer, struct err *err);
    int (*gate)(void *connection, struct err *err); /* a stream to its gate (backend/gate/far.h). NULL: it has none */
    /* The same question with a channel: a local socket whose bytes go to the machine's end of it. NULL: likewise. */
    int (*open)(void *connection, const char *op, const char *id, const struct buf *members, uint64_t timeout_ms,
                int *ret_fd, struct err *err);
    bool (*answers)(void *connection, uint64_t timeout_ms); /* rule 2: something came from it within that time */
    void (*leave)(void *connection, const char *why); /* its connection ends with GONE and that reason; never waits */
    void (*end)(void *connection, const char *why);   /* the session; frees nothing */
    void (*free)(void *connection);
};

#endif
