/* The table of machines that joined. Called by the door at which they register, by the backend `remote`, and by whoever
 * shows them. The rules are in machine.h; those of this file:
 *
 * 1. machines->lock guards the table, every machine and conn. Nothing of a session is called under it: a peer has a lock
 *    of its own, and its end may wait for nobody.
 * 2. A machine has at most one conn: the connection that counts. Who wants the place waits until the old one has given it
 *    back (`changed`); so a session is served by one thread at a time, and what an old connection does at its end it does
 *    before the new one begins.
 * 3. A session is counted: by its machine, and by everybody who asks it something. It ends once.
 * 4. A machine without a conn and without a session is only a memory, and is forgotten first. */
#include "backend/remote/machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/remote/machine_conn.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sync.h"
#include "base/text.h"

enum { BUCKETS = 1024, EVENT_STACK = 512 << 10, ENTER_TURNS = 4, LEAVE_AGAIN_MS = 100, WHY_BYTES = 200 };

struct machine_peer { /* a session */
    atomic_uint refs;
    char id[33];
    const struct machine_ops *ops; /* NULL until it is first served */
    void *peer;
    bool ended; /* under machines->lock */
};

struct machine {
    struct machine *next;
    struct machine_hello hello; /* strings of its own, in one block of memory */
    char *words;
    struct machine_peer *session;
    struct machine_conn *conn;
    bool online, text;
    unsigned pins; /* somebody works with it without the lock */
    unsigned connections;
    uint64_t since_ms;    /* wall clock */
    uint64_t deadline_ms; /* clock_ms: its session ends then; 0: it does not wait */
    char why[WHY_BYTES];  /* it is offline */
    bool greeting, greet_again, again;
};

struct machine_conn {
    struct machines *machines;
    struct machine *machine;
    struct machine_peer *session;
    const struct pump_socket *socket; /* while it is served */
    uint64_t received;
    bool resumed;
    bool displaced; /* it is asked to go: begin fails */
    char why[WHY_BYTES];
};

struct machines {
    struct machines_settings settings;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* conns, threads, pins */
    pthread_cond_t work;    /* for the keeper */
    struct machine *buckets[BUCKETS];
    struct machines_counts counts;
    unsigned threads; /* that greet */
    unsigned serving; /* conns */
    void (*listen)(void *context, const char *user, const char *name);
    void *listen_context;
    unsigned listening; /* threads in it */
    bool closed, keeping, ending;
    char closed_why[WHY_BYTES];
    pthread_t keeper;
};

static void *keeper_main(void *argument);

/* ---- sessions ---- */

static struct machine_peer *session_new(void) {
    uint8_t random[16];
    struct machine_peer *session = xcalloc(1, sizeof *session);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    atomic_init(&session->refs, 1);
    text_hex(session->id, random, sizeof random);
    return session;
}

static struct machine_peer *session_ref(struct machine_peer *session) {
    if (session)
        atomic_fetch_add(&session->refs, 1);
    return session;
}

void machine_peer_put(struct machine_peer *session) {
    if (!session || atomic_fetch_sub(&session->refs, 1) != 1)
        return;
    if (session->peer)
        session->ops->free(session->peer);
    free(session);
}

/* Takes over the machine's reference, or the caller's. */
static void session_end(struct machine_peer *session, const char *why) {
    if (session && session->peer)
        session->ops->end(session->peer, why);
    machine_peer_put(session);
}

static struct machine_peer *session_take_locked(struct machine *machine) {
    struct machine_peer *session = machine->session;
    machine->session = NULL;
    machine->deadline_ms = 0;
    if (session)
        session->ended = true;
    return session;
}

/* ---- the table ---- */

static unsigned bucket_of(const char *user, const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *at = user; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    hash *= 16777619u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    return hash % BUCKETS;
}

static struct machine *machine_find_locked(struct machines *machines, const char *user, const char *name) {
    struct machine *machine = machines->buckets[bucket_of(user, name)];
    while (machine && (strcmp(machine->hello.user, user) != 0 || strcmp(machine->hello.name, name) != 0))
        machine = machine->next;
    return machine;
}

static bool machine_free_to_forget(const struct machine *machine) {
    return !machine->conn && !machine->session && !machine->pins && !machine->greeting;
}

static void machine_forget_locked(struct machines *machines, struct machine *machine) {
    struct machine **at = &machines->buckets[bucket_of(machine->hello.user, machine->hello.name)];
    while (*at != machine)
        at = &(*at)->next;
    *at = machine->next;
    machines->counts.known--;
    free(machine->words);
    free(machine);
}

/* The memory of the machine that went longest ago makes room, where there is one. */
static int room_locked(struct machines *machines, const char *user, struct err *err) {
    unsigned of_user = 0, most = machines->settings.max_per_user;
    struct machine *oldest = NULL, *oldest_of_user = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *m = machines->buckets[i]; m; m = m->next) {
            bool same = strcmp(m->hello.user, user) == 0;
            of_user += same;
            if (!machine_free_to_forget(m))
                continue;
            if (!oldest || m->since_ms < oldest->since_ms)
                oldest = m;
            if (same && (!oldest_of_user || m->since_ms < oldest_of_user->since_ms))
                oldest_of_user = m;
        }
    if (of_user >= most) {
        if (!oldest_of_user)
            return err_set(err, ERR_LIMIT, "user '%s' has %u machines here, which is the limit (max_machines_per_user)",
                           user, most);
        machine_forget_locked(machines, oldest_of_user);
    } else if (machines->counts.known >= machines->settings.max) {
        if (!oldest)
            return err_set(err, ERR_LIMIT, "%u machines have joined, which is the limit (max_machines)",
                           machines->settings.max);
        machine_forget_locked(machines, oldest);
    }
    return 0;
}

/* Its words, in one block that belongs to the machine. */
static void machine_describe(struct machine *machine, const struct machine_hello *hello) {
    const char *const from[] = {hello->user,      hello->name,     hello->workspace, hello->shell, hello->version,
                                hello->isolation, hello->platform, hello->address,   hello->can};
    const char **const to[] = {&machine->hello.user,     &machine->hello.name,    &machine->hello.workspace,
                               &machine->hello.shell,    &machine->hello.version, &machine->hello.isolation,
                               &machine->hello.platform, &machine->hello.address, &machine->hello.can};
    size_t len = 0;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        len += strlen(from[i] ? from[i] : "") + 1;
    char *words = xmalloc(len), *at = words;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        size_t n = strlen(from[i] ? from[i] : "") + 1;
        memcpy(at, from[i] ? from[i] : "", n);
        *to[i] = at;
        at += n;
    }
    free(machine->words);
    machine->words = words;
}

static int machine_get_locked(struct machines *machines, const struct machine_hello *hello,
                              struct machine **ret_machine, struct err *err) {
    struct machine *machine = machine_find_locked(machines, hello->user, hello->name);
    int r = machine ? 0 : room_locked(machines, hello->user, err);
    if (r == 0 && !machine) {
        struct machine **bucket = &machines->buckets[bucket_of(hello->user, hello->name)];
        machine = xcalloc(1, sizeof *machine);
        machine_describe(machine, hello);
        machine->since_ms = clock_wall_ms();
        machine->next = *bucket;
        *bucket = machine;
        machines->counts.known++;
    }
    if (r == 0)
        *ret_machine = machine;
    return r;
}

struct machines *machines_new(const struct machines_settings *settings) {
    struct machines *machines = xcalloc(1, sizeof *machines);
    machines->settings = *settings;
    if (!machines->settings.max)
        machines->settings.max = LIMIT_MACHINES;
    if (!machines->settings.max_per_user)
        machines->settings.max_per_user = LIMIT_MACHINES_PER_USER;
    pthread_mutex_init(&machines->lock, NULL);
    cond_init(&machines->changed);
    cond_init(&machines->work);
    machines->keeping = pthread_create(&machines->keeper, NULL, keeper_main, machines) == 0;
    if (!machines->keeping)
        abort();
    return machines;
}

/* Until `changed`, or the time. False: the time has come. */
static bool wait_locked(struct machines *machines, pthread_cond_t *cond, uint64_t deadline_ms) {
    if (!deadline_ms)
        return pthread_cond_wait(cond, &machines->lock) == 0;
    return cond_wait_until(cond, &machines->lock, deadline_ms);
}

void machines_close(struct machines *machines, const char *why) {
    pthread_mutex_lock(&machines->lock);
    machines->closed = true;
    snprintf(machines->closed_why, sizeof machines->closed_why, "%s", why);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *machine = machines->buckets[i]; machine;) {
            /* It stays where it is while it is pinned, so the walk goes on from it. */
            machine->pins++;
            struct machine_peer *session = session_ref(machine->session);
            if (machine->conn)
                machine->conn->displaced = true;
            struct machine_peer *held = machine->conn ? NULL : session_take_locked(machine);
            bool spoken = session && session->peer;
            pthread_mutex_unlock(&machines->lock);
            if (spoken) {
                session->ops->end(session->peer, why);
                session->ops->leave(session->peer, why);
            }
            machine_peer_put(held);
            machine_peer_put(session);
            pthread_mutex_lock(&machines->lock);
            machine->pins--;
            machine = machine->next;
        }
    pthread_cond_broadcast(&machines->changed);
    pthread_mutex_unlock(&machines->lock);
}

void machines_free(struct machines *machines) {
    if (!machines)
        return;
    machines_close(machines, "the server is stopping");
    pthread_mutex_lock(&machines->lock);
    while (machines->threads || machines->serving)
        wait_locked(machines, &machines->changed, 0);
    machines->ending = true;
    pthread_cond_broadcast(&machines->work);
    pthread_mutex_unlock(&machines->lock);
    pthread_join(machines->keeper, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        while (machines->buckets[i]) {
            machine_peer_put(session_take_locked(machines->buckets[i]));
            machine_forget_locked(machines, machines->buckets[i]);
        }
    pthread_cond_destroy(&machines->work);
    pthread_cond_destroy(&machines->changed);
    pthread_mutex_destroy(&machines->lock);
    free(machines);
}

/* ---- sessions whose machine does not come back ---- */

static struct machine *overdue_locked(struct machines *machines, uint64_t now_ms, uint64_t *ret_next_ms) {
    *ret_next_ms = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *m = machines->buckets[i]; m; m = m->next) {
            if (m->deadline_ms && m->deadline_ms <= now_ms)
                return m;
            if (m->deadline_ms && (!*ret_next_ms || m->deadline_ms < *ret_next_ms))
                *ret_next_ms = m->deadline_ms;
        }
    return NULL;
}

static void *keeper_main(void *argument) {
    struct machines *machines = argument;
    uint64_t next_ms;
    pthread_mutex_lock(&machines->lock);
    while (!machines->ending) {
        struct machine *machine = overdue_locked(machines, clock_ms(), &next_ms);
        if (!machine) {
            wait_locked(machines, &machines->work, next_ms);
            continue;
        }
        char why[WHY_BYTES + 160];
        snprintf(why, sizeof why, "machine '%.64s' did not come back within %llu s (%s)", machine->hello.name,
                 (unsigned long long)machines->settings.grace_ms / 1000, machine->why);
        struct machine_peer *session = session_take_locked(machine);
        machines->counts.expired++;
        pthread_mutex_unlock(&machines->lock);
        session_end(session, why);
        pthread_mutex_lock(&machines->lock);
    }
    pthread_mutex_unlock(&machines->lock);
    return NULL;
}

/* ---- a machine came online ---- */

struct greeting {
    struct machines *machines;
    struct machine *machine;
};

static void *greet_main(void *argument) {
    struct greeting *greeting = argument;
    struct machines *machines = greeting->machines;
    struct machine *machine = greeting->machine;
    free(greeting);
    pthread_mutex_lock(&machines->lock);
    for (bool first = true; first || machine->greet_again; first = false) {
        autoarena arena = ARENA_EMPTY;
        const char *user = arena_strdup(&arena, machine->hello.user), *name = arena_strdup(&arena, machine->hello.name);
        bool again = machine->again;
        machine->greet_again = false;
        bool open = !machines->closed;
        void (*listen)(void *, const char *, const char *) = open ? machines->listen : NULL;
        void *context = machines->listen_context;
        machines->listening += listen != NULL;
        pthread_mutex_unlock(&machines->lock);
        if (listen)
            listen(context, user, name);
        if (open && machines->settings.online)
            machines->settings.online(machines->settings.context, user, name, again);
        pthread_mutex_lock(&machines->lock);
        machines->listening -= listen != NULL;
        pthread_cond_broadcast(&machines->changed);
    }
    machine->greeting = false;
    machines->threads--;
    pthread_cond_broadcast(&machines->changed);
    pthread_mutex_unlock(&machines->lock);
    return NULL;
}

/* One thread a machine: what comes meanwhile is greeted when that is done. */
static void greet_locked(struct machines *machines, struct machine *machine, bool again) {
    machine->again = again;
    if (machine->greeting) {
        machine->greet_again = true;
        return;
    }
    struct greeting *greeting = xmalloc(sizeof *greeting);
    *greeting = (struct greeting){.machines = machines, .machine = machine};
    machine->greeting = thread_detached(greet_main, greeting, EVENT_STACK) == 0;
    if (machine->greeting)
        machines->threads++;
    else
        free(greeting);
}

void machines_listen(struct machines *machines, void (*listen)(void *context, const char *user, const char *name),
                     void *context) {
    pthread_mutex_lock(&machines->lock);
    machines->listen = listen;
    machines->listen_context = context;
    while (!listen && machines->listening)
        wait_locked(machines, &machines->changed, 0);
    pthread_mutex_unlock(&machines->lock);
}

/* ---- the place of a connection ---- */

static int closed_locked(const struct machines *machines, struct err *err) {
    return machines->closed ? err_set(err, ERR_BUSY, "%s", machines->closed_why) : 0;
}

static bool same_session(const struct machine *machine, const char *session) {
    return session && *session && machine->session && strcmp(machine->session->id, session) == 0;
}

/* The one that is there has to go, and has gone when this returns 0. */
static int displace_locked(struct machines *machines, struct machine *machine, const char *why, struct err *err) {
    struct machine_conn *conn = machine->conn;
    uint64_t deadline_ms = clock_ms() + MACHINE_ANSWER_MS;
    conn->displaced = true;
    snprintf(conn->why, sizeof conn->why, "%s", why);
    struct machine_peer *session = session_ref(conn->session);
    while (machine->conn == conn && clock_ms() < deadline_ms) {
        bool spoken = session->peer;
        pthread_mutex_unlock(&machines->lock);
        if (spoken) /* again and again: it may just be about to be served */
            session->ops->leave(session->peer, why);
        pthread_mutex_lock(&machines->lock);
        if (machine->conn == conn)
            wait_locked(machines, &machines->changed, clock_ms() + LEAVE_AGAIN_MS);
    }
    machine_peer_put(session);
    return machine->conn != conn
               ? 0
               : err_set(err, ERR_BUSY, "the old connection of machine '%s' is still being ended; try again",
                         machine->hello.name);
}

/* Rule 2 of machine.h, for one who is there. 0: look again. */
static int contend_locked(struct machines *machines, struct machine *machine, const char *session, struct err *err) {
    struct machine_conn *conn = machine->conn;
    if (same_session(machine, session))
        return displace_locked(machines, machine, "the machine connected again", err);
    struct machine_peer *there = session_ref(conn->session);
    bool spoken = machine->online;
    pthread_mutex_unlock(&machines->lock);
    bool answers = spoken && there->ops->answers(there->peer, MACHINE_ANSWER_MS);
    machine_peer_put(there);
    pthread_mutex_lock(&machines->lock);
    if (machine->conn != conn)
        return 0;
    if (answers)
        return err_set(err, ERR_EXISTS,
                       "another machine is connected as '%s' (from %s); give this one a name and a token of its own",
                       machine->hello.name, machine->hello.address[0] ? machine->hello.address : "elsewhere");
    return displace_locked(machines, machine, "another connection took its place, because it did not answer", err);
}

static int clear_locked(struct machines *machines, struct machine *machine, const char *session, struct err *err) {
    int r = closed_locked(machines, err);
    for (int turn = 0; r == 0 && machine->conn; turn++) {
        r = turn < ENTER_TURNS
                ? contend_locked(machines, machine, session, err)
                : err_set(err, ERR_BUSY, "several connections want to be machine '%s'; try again", machine->hello.name);
        if (r == 0)
            r = closed_locked(machines, err);
    }
    return r;
}

int machine_enter(struct machines *machines, const struct machine_hello *hello, bool text, const char *session,
                  uint64_t received, char ret_session[33], bool *ret_resumed, uint64_t *ret_received,
                  struct machine_conn **ret_conn, struct err *err) {
    struct machine *machine = NULL;
    struct machine_peer *old = NULL;
    pthread_mutex_lock(&machines->lock);
    int r = machine_get_locked(machines, hello, &machine, err);
    if (r == 0) {
        machine->pins++;
        r = clear_locked(machines, machine, text ? NULL : session, err);
        machine->pins--;
    }
    if (r < 0) {
        machines->counts.refused++;
        pthread_mutex_unlock(&machines->lock);
        return r;
    }
    bool resumed = !text && same_session(machine, session) && machine->session->peer;
    if (!resumed) {
        old = session_take_locked(machine);
        machine->session = session_new();
    }
    struct machine_conn *conn = xcalloc(1, sizeof *conn);
    machine_describe(machine, hello);
    machine->text = text;
    machine->deadline_ms = 0; /* it does not end while it is being taken up again */
    *conn = (struct machine_conn){.machines = machines,
                                  .machine = machine,
                                  .session = session_ref(machine->session),
                                  .received = resumed ? received : 0,
                                  .resumed = resumed};
    machine->conn = conn;
    machines->serving++;
    pthread_mutex_unlock(&machines->lock);
    session_end(old, "the machine began anew");
    memcpy(ret_session, conn->session->id, 33);
    *ret_resumed = resumed;
    *ret_received = resumed ? machine_link_received(conn->session->peer) : 0;
    *ret_conn = conn;
    return 0;
}

int machine_conn_begin(struct machine_conn *conn, const struct machine_ops *ops, void *peer,
                       const struct pump_socket *socket, struct err *err) {
    struct machines *machines = conn->machines;
    struct machine *machine = conn->machine;
    pthread_mutex_lock(&machines->lock);
    if (peer) {
        conn->session->ops = ops;
        conn->session->peer = peer;
    }
    int r = closed_locked(machines, err);
    if (r == 0 && (conn->displaced || conn->session->ended))
        r = err_set(err, ERR_GONE, "%s", conn->why[0] ? conn->why : "another connection took its place");
    if (r == 0) {
        conn->socket = socket;
        machine->online = true;
        machine->since_ms = clock_wall_ms();
        machine->connections++;
        machines->counts.online++;
        machines->counts.connections++;
        machines->counts.resumed += conn->resumed;
        greet_locked(machines, machine, conn->resumed);
    }
    pthread_mutex_unlock(&machines->lock);
    return r;
}

uint64_t machines_grace_ms(const struct machines *machines) {
    return machines->settings.grace_ms ? machines->settings.grace_ms : 1;
}

int machine_conn_end(struct machine_conn *conn, bool lives, const struct err *why) {
    struct machines *machines = conn->machines;
    struct machine *machine = conn->machine;
    struct machine_peer *session = conn->session, *over = NULL;
    char user[256], name[256];
    if (session->peer && lives)
        session->ops->lost(session->peer);
    pthread_mutex_lock(&machines->lock);
    bool was_online = machine->online;
    snprintf(user, sizeof user, "%s", machine->hello.user);
    snprintf(name, sizeof name, "%s", machine->hello.name);
    machine->online = false;
    machines->counts.online -= was_online;
    if (was_online || !machine->why[0])
        snprintf(machine->why, sizeof machine->why, "%.*s", WHY_BYTES - 1, why->text);
    if (was_online)
        machine->since_ms = clock_wall_ms();
    if (machine->session == session && (!lives || session->ended || !session->peer || machines->closed))
        over = session_take_locked(machine);
    else if (machine->session == session)
        machine->deadline_ms = clock_ms() + machines_grace_ms(machines);
    machine->conn = NULL;
    pthread_cond_broadcast(&machines->changed);
    pthread_cond_broadcast(&machines->work);
    pthread_mutex_unlock(&machines->lock);
    session_end(over, why->text);
    machine_peer_put(session);
    if (was_online && machines->settings.offline)
        machines->settings.offline(machines->settings.context, user, name, why->text);
    pthread_mutex_lock(&machines->lock);
    machines->serving--; /* last: the table may be freed from now on */
    pthread_cond_broadcast(&machines->changed);
    pthread_mutex_unlock(&machines->lock);
    free(conn);
    return -why->code;
}

void machine_leave(struct machine_conn *conn) {
    struct err why;
    err_set(&why, ERR_GONE, "it did not register to the end");
    machine_conn_end(conn, conn->resumed, &why);
}

void machines_leave(struct machines *machines, const char *user, const char *name, bool end_session, const char *why) {
    struct machine_peer *session = NULL, *over = NULL;
    pthread_mutex_lock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine) {
        session = session_ref(machine->session);
        if (machine->conn) {
            machine->conn->displaced = true;
            snprintf(machine->conn->why, sizeof machine->conn->why, "%s", why);
        }
        if (end_session)
            over = session_take_locked(machine);
    }
    bool spoken = session && session->peer;
    pthread_mutex_unlock(&machines->lock);
    if (spoken && end_session)
        session->ops->end(session->peer, why);
    if (spoken)
        session->ops->leave(session->peer, why);
    machine_peer_put(over);
    machine_peer_put(session);
}

const char *machine_conn_user(const struct machine_conn *conn) {
    return conn->machine->hello.user;
}
const char *machine_conn_name(const struct machine_conn *conn) {
    return conn->machine->hello.name;
}
const char *machine_conn_workspace(const struct machine_conn *conn) {
    return conn->machine->hello.workspace;
}
const char *machine_conn_shell(const struct machine_conn *conn) {
    return conn->machine->hello.shell;
}
const char *machine_conn_runner(const struct machine_conn *conn) {
    return conn->machines->settings.runner_path;
}
void machine_conn_move(struct machine_conn *conn, const char *workspace) {
    pthread_mutex_lock(&conn->machines->lock);
    struct machine_hello hello = conn->machine->hello;
    hello.workspace = workspace;
    machine_describe(conn->machine, &hello);
    pthread_mutex_unlock(&conn->machines->lock);
}
uint64_t machine_conn_received(const struct machine_conn *conn) {
    return conn->received;
}
void *machine_conn_peer(const struct machine_conn *conn) {
    return conn->session->peer;
}

/* ---- for the backend, and for showing ---- */

static int offline(const struct machine *machine, const char *name, struct err *err) {
    char since[CLOCK_TEXT_BYTES];
    if (!machine)
        return err_set(err, ERR_BUSY,
                       "machine '%s' is offline: it has not connected since this server started; start `cubby join` "
                       "on it",
                       name);
    bool stopped = strstr(machine->why, "ended by its user");
    return err_set(
        err, ERR_BUSY, "machine '%s' is offline since %s (%s); %s", name, clock_text(machine->since_ms, since),
        stopped           ? "`cubby join` was stopped there"
        : machine->why[0] ? machine->why
                          : "it is connecting",
        stopped ? "start `cubby join` on it again" : "check its network and that `cubby join` runs there, or wait");
}

int machine_peer_get(struct machines *machines, const char *user, const char *name, struct machine_peer **ret_peer,
                     struct err *err) {
    pthread_mutex_lock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    int r = machine && machine->online && machine->session ? 0 : offline(machine, name, err);
    if (r == 0)
        *ret_peer = session_ref(machine->session);
    pthread_mutex_unlock(&machines->lock);
    return r;
}

const struct machine_ops *machine_peer_ops(const struct machine_peer *peer) {
    return peer->ops;
}

void *machine_peer_of(const struct machine_peer *peer) {
    return peer->peer;
}

static void facts_locked(const struct machine *machine, struct arena *arena, struct machine_facts *ret_facts) {
    const struct machine_hello *hello = &machine->hello;
    const struct machine_conn *conn = machine->conn;
    *ret_facts = (struct machine_facts){
        .hello = {.user = arena_strdup(arena, hello->user),
                  .name = arena_strdup(arena, hello->name),
                  .workspace = arena_strdup(arena, hello->workspace),
                  .shell = arena_strdup(arena, hello->shell),
                  .version = arena_strdup(arena, hello->version),
                  .isolation = arena_strdup(arena, hello->isolation),
                  .platform = arena_strdup(arena, hello->platform),
                  .address = arena_strdup(arena, hello->address),
                  .can = arena_strdup(arena, hello->can)},
        .online = machine->online,
        .text = machine->text,
        .latency_us = machine->online && conn && conn->socket ? conn->socket->latency_us(conn->socket->user) : 0,
        .since_ms = machine->since_ms,
        .connections = machine->connections,
    };
}

int machine_facts(struct machines *machines, const char *user, const char *name, struct arena *arena,
                  struct machine_facts *ret_facts, struct err *err) {
    pthread_mutex_lock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine)
        facts_locked(machine, arena, ret_facts);
    pthread_mutex_unlock(&machines->lock);
    return machine ? 0 : err_set(err, ERR_NOT_FOUND, "no machine '%s' has connected since this server started", name);
}

void machines_each(struct machines *machines, const char *user,
                   void (*each)(void *context, const struct machine_facts *), void *context) {
    autoarena arena = ARENA_EMPTY;
    pthread_mutex_lock(&machines->lock);
    size_t count = 0;
    struct machine_facts *list = arena_alloc(&arena, (machines->counts.known + 1) * sizeof *list);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *m = machines->buckets[i]; m; m = m->next)
            if (!user || strcmp(m->hello.user, user) == 0)
                facts_locked(m, &arena, &list[count++]);
    pthread_mutex_unlock(&machines->lock);
    for (size_t i = 0; i < count; i++)
        each(context, &list[i]);
}

void machines_count(struct machines *machines, struct machines_counts *ret_counts) {
    pthread_mutex_lock(&machines->lock);
    *ret_counts = machines->counts;
    pthread_mutex_unlock(&machines->lock);
}
