/* `cubby join`: shared by its files. join.c is the command, its status and its end; join_line.c the connection to the
 * server; join_box.c the boxes on this machine, made and ended on the server's request; join_gate.c their networks.
 *
 * Rules:
 * 1. The main thread waits for signals and shows the status. One thread has the connection. Each request of the server
 *    has its own thread; two requests about the same box never run at once.
 * 2. `lock` guards everything below it. No thread waits for the network or for a box while holding it.
 * 3. A session is counted: a thread that answers a request holds it, though the connection may have ended.
 * 4. The server names ids, variables, limits and a network. Only this machine decides which directories a box sees.
 * 5. A worker's boxes are whole jails: they see no directory of the machine, and outlive this program. */
#ifndef CUBBY_CLI_JOIN_H
#define CUBBY_CLI_JOIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/remote/pump.h"
#include "base/limits.h"
#include "box/policy.h"
#include "cli/cli.h"

enum { JOIN_ASKS = 64 };      /* requests at once */
#define JOIN_HOME "/tmp/home" /* HOME in a jail, so that caches do not end up in the user's files */

struct join_values {
    const char *server, *token, *token_file, *workspace, *name, *isolation, *authority, *shell, *state;
    struct row_texts allow, env, allow_weaker;
    bool text;
    bool worker;
    uint64_t boxes, memory_mb, pool;
};

struct join_session {
    struct join *join;
    struct pump *pump;
    struct websocket *websocket; /* of its connection; used by the connection's thread */
    bool binary;                 /* records are sent as bytes */
    bool loads;                  /* the server reads reports of this worker's load */
    uint64_t since_ms;           /* when this connection began */
    unsigned refs;               /* under join->lock */
};

enum join_state { JOIN_CONNECTING, JOIN_ONLINE, JOIN_OFFLINE };

struct join {
    struct cli *cli;
    struct join_values values;
    const char *server;    /* http… or unix:…, without the path of the endpoint: the one that is dialled */
    const char **servers;  /* all heads of a worker; NULL-terminated */
    uint64_t epoch;        /* the highest one of a head that this worker has served */
    const char *token;     /* NULL: none */
    const char *workspace; /* resolved; of a worker: as its boxes see it */
    bool isolated;
    /* boxes */
    struct backend_env env;
    const struct backend_ops *ops;
    struct backend *backend;
    struct join_gate *gate;
    const struct mount *mounts; /* including the workspace; outer ones first */
    size_t mount_count;
    const char **box_env;  /* of every box, NULL-terminated */
    const char *can;       /* words of the registration */
    const char *templates; /* of a worker: likewise */
    int state_lock;        /* of the state directory */
    int wake_line;         /* eventfd: join_line must not wait any longer */
    int wake_main;         /* eventfd: something is to be shown, or all is over */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct join_session *session; /* NULL: none yet */
    char asked[JOIN_ASKS][17];    /* boxes that requests work on; "": free */
    unsigned asks;
    char boxes[LIMIT_CHANNELS][17]; /* boxes with a runner here */
    size_t box_count;
    enum join_state state;
    char why[600]; /* why it is offline, or why it ended */
    char user[LIMIT_USER_BYTES + 1], name[LIMIT_RUNNER_BYTES + 1];
    uint64_t next_try_ms; /* offline: clock_ms */
    uint64_t changes;     /* counts changes of state */
    bool ending;          /* no more connections or boxes */
    bool over;            /* the connection has ended for good, see `why` */
    bool line_done;
    _Atomic uint64_t latency_us;
};

/* join_line.c: the connection's thread, until ending or over; the argument is the join. */
void *join_line(void *user);
void join_line_leave(struct join *join, const char *why); /* callable from any thread */
/* Returns "wss://HOST/…" as the client needs it, without the path of the endpoint. NULL: not an address of a server. */
const char *join_address(struct arena *arena, const char *server);

/* join_box.c */
int join_boxes_open(struct join *join, struct err *err);
void join_boxes_close(struct join *join); /* ends every box; reports what could not be ended */
void join_ask(void *user, uint32_t number, const void *json, size_t len); /* handles a request of the server */
void join_session_unref(struct join_session *session);

/* join_gate.c */
void join_gate_init(struct join *join);
void join_gate_close(struct join *join); /* ends the gate; no request runs any more */
/* The server's channel for policies and reports: its end, for the link. One at a time; a new one ends the old one. */
int join_gate_open(struct join *join, int *ret_fd, struct err *err);
void join_gate_started(struct join *join, const char *id); /* a box without a network so far */
void join_gate_ended(struct join *join, const char *id);

#endif
