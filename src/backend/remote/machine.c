/* The table of machines that joined. Called by the endpoint at which they register, by the backend `remote`, and by the
 * routes that list them. The rules are in machine.h; those of this file:
 *
 * 1. machines->lock guards the table, every machine and conn. Nothing of a session is called under it: its
 *    connection has a lock of its own.
 * 2. A machine has at most one conn: the connection that counts. A new one waits until the old one has ended
 *    (`changed`); so a session is served by one thread at a time, and an old connection ends before the new one begins.
 * 3. A session is counted: by its machine, and by every thread that uses it. It ends once.
 * 4. A machine without a conn and without a session is only remembered, and is forgotten first. */
#include "backend/remote/machine.h"

#include "base/base.h"
#include "backend/remote/machine_conn.h"
#include "base/sync.h"

enum {
    BUCKETS = 1024,
    EVENT_STACK = 512 << 10,
    ENTER_TURNS = 4,
    LEAVE_AGAIN_MS = 100,
    WHY_BYTES = 200,
    MACHINES_LISTENERS = 2,
    NOTE_MS = 600000 /* how long a note explains anything */
};

struct machine {
    struct machine *next;
    struct machine_hello hello; /* strings of its own, in one block of memory */
    char *words;
    struct machine_session *session;
    struct machine_conn *conn;
    bool online, text;
    bool draining;
    uint64_t boxes;   /* machine_boxes_set */
    uint64_t used_mb; /* of hello.memory_mb; machine_load_set */
    unsigned pins;    /* threads that use it without the lock */
    unsigned connections;
    uint64_t since_ms;    /* wall clock */
    uint64_t deadline_ms; /* clock_ms: its session ends then; 0: it does not wait */
    char why[WHY_BYTES];  /* it is offline */
    bool left;            /* for good, and said so */
    char note[WHY_BYTES]; /* machine_note */
    uint64_t noted_ms;    /* clock_ms */
    bool greeting, greet_again, again;
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
    struct {
        void (*call)(void *context, const char *user, const char *name);
        void *context;
        unsigned threads; /* in it */
    } listeners[MACHINES_LISTENERS];
    bool closed, keeping, ending;
    char closed_why[WHY_BYTES];
    pthread_t keeper;
};

static void *machines_keeper(void *argument);

/* ---- sessions ---- */

static struct machine_session *machine_session_new(void) {
    uint8_t random[16];
    struct machine_session *session = xcalloc(1, sizeof *session);
    xrandom(random, sizeof random);
    atomic_init(&session->refs, 1);
    text_hex(session->id, random, sizeof random);
    return session;
}

static struct machine_session *machine_session_ref(struct machine_session *session) {
    if (session)
        atomic_fetch_add(&session->refs, 1);
    return session;
}

void machine_session_put(struct machine_session *session) {
    if (!session || atomic_fetch_sub(&session->refs, 1) != 1)
        return;
    if (session->connection)
        session->ops->free(session->connection);
    free(session);
}

/* Takes over the machine's reference, or the caller's. */
static void machine_session_end(struct machine_session *session, const char *why) {
    if (session && session->connection)
        session->ops->end(session->connection, why);
    machine_session_put(session);
}

static struct machine_session *machine_session_take_locked(struct machine *machine) {
    struct machine_session *session = machine->session;
    machine->session = NULL;
    machine->deadline_ms = 0;
    if (session)
        session->ended = true;
    return session;
}

/* ---- the table ---- */

static unsigned machine_bucket(const char *user, const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *at = user; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    hash *= 16777619u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    return hash % BUCKETS;
}

static struct machine *machine_find_locked(struct machines *machines, const char *user, const char *name) {
    return list_find(machines->buckets[machine_bucket(user, name)], machine,
                     strcmp(machine->hello.user, user) == 0 && strcmp(machine->hello.name, name) == 0);
}

static void machine_forget_locked(struct machines *machines, struct machine *machine) {
    list_remove(machines->buckets[machine_bucket(machine->hello.user, machine->hello.name)], machine);
    machines->counts.known--;
    free(machine->words);
    free(machine);
}

/* The machine that has been offline longest is forgotten where the table is full. */
static int machine_make_place_locked(struct machines *machines, const char *user, struct err *err) {
    unsigned of_user = 0, most = machines->settings.max_per_user;
    struct machine *oldest = NULL, *oldest_of_user = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *m = machines->buckets[i]; m; m = m->next) {
            bool same = strcmp(m->hello.user, user) == 0;
            of_user += same;
            if (m->conn || m->session || m->pins || m->greeting)
                continue;
            if (!oldest || m->since_ms < oldest->since_ms)
                oldest = m;
            if (same && (!oldest_of_user || m->since_ms < oldest_of_user->since_ms))
                oldest_of_user = m;
        }
    if (of_user >= most && strcmp(user, MACHINE_WORKERS) != 0) {
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

/* Where the texts of a hello are. */
static const size_t machine_words[] = {
    offsetof(struct machine_hello, user),      offsetof(struct machine_hello, name),
    offsetof(struct machine_hello, workspace), offsetof(struct machine_hello, shell),
    offsetof(struct machine_hello, version),   offsetof(struct machine_hello, isolation),
    offsetof(struct machine_hello, platform),  offsetof(struct machine_hello, address),
    offsetof(struct machine_hello, can),       offsetof(struct machine_hello, templates),
};
#define MACHINE_WORDS (sizeof machine_words / sizeof *machine_words)
#define MACHINE_WORD(hello, i) (*(const char **)((char *)(hello) + machine_words[i]))

/* Its texts, in one block that belongs to the machine. */
static void machine_describe(struct machine *machine, const struct machine_hello *hello) {
    struct machine_hello from = *hello;
    size_t len = 0;
    for (size_t i = 0; i < MACHINE_WORDS; i++) {
        if (!MACHINE_WORD(&from, i))
            MACHINE_WORD(&from, i) = "";
        len += strlen(MACHINE_WORD(&from, i)) + 1;
    }
    char *words = xmalloc(len), *at = words;
    for (size_t i = 0; i < MACHINE_WORDS; i++) {
        size_t n = strlen(MACHINE_WORD(&from, i)) + 1;
        memcpy(at, MACHINE_WORD(&from, i), n);
        MACHINE_WORD(&machine->hello, i) = at;
        at += n;
    }
    free(machine->words);
    machine->words = words;
    machine->hello.boxes_max = from.boxes_max;
    machine->hello.memory_mb = from.memory_mb;
}

static int machine_get_locked(struct machines *machines, const struct machine_hello *hello,
                              struct machine **ret_machine, struct err *err) {
    struct machine *machine = machine_find_locked(machines, hello->user, hello->name);
    int r = machine ? 0 : machine_make_place_locked(machines, hello->user, err);
    if (r == 0 && !machine) {
        machine = xcalloc(1, sizeof *machine);
        machine_describe(machine, hello);
        machine->since_ms = clock_wall_ms();
        list_push(machines->buckets[machine_bucket(hello->user, hello->name)], machine);
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
    machines->keeping = true;
    machines->keeper = thread_joined(machines_keeper, machines, 0);
    return machines;
}

/* Its connection is asked to go; end: its session ends, too. Gives up the lock for that time. */
static void machine_dismiss_locked(struct machines *machines, struct machine *machine, bool end, const char *why) {
    struct machine_session *session = machine_session_ref(machine->session);
    struct machine_session *over = end ? machine_session_take_locked(machine) : NULL;
    bool spoken = session && session->connection;
    if (machine->conn) {
        machine->conn->displaced = true;
        snprintf(machine->conn->why, sizeof machine->conn->why, "%s", why);
    }
    machine->pins++;
    pthread_mutex_unlock(&machines->lock);
    if (spoken && end)
        session->ops->end(session->connection, why);
    if (spoken)
        session->ops->leave(session->connection, why);
    machine_session_put(over);
    machine_session_put(session);
    pthread_mutex_lock(&machines->lock);
    machine->pins--;
}

void machines_close(struct machines *machines, const char *why) {
    autolock(&machines->lock);
    machines->closed = true;
    snprintf(machines->closed_why, sizeof machines->closed_why, "%s", why);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct machine *machine = machines->buckets[i]; machine; machine = machine->next)
            machine_dismiss_locked(machines, machine, true, why); /* it is where it was: it was pinned */
    pthread_cond_broadcast(&machines->changed);
}

void machines_free(struct machines *machines) {
    if (!machines)
        return;
    machines_close(machines, "the server is stopping");
    pthread_mutex_lock(&machines->lock);
    while (machines->threads || machines->serving)
        cond_wait_until(&machines->changed, &machines->lock, 0);
    machines->ending = true;
    pthread_cond_broadcast(&machines->work);
    pthread_mutex_unlock(&machines->lock);
    pthread_join(machines->keeper, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        while (machines->buckets[i]) {
            machine_session_put(machine_session_take_locked(machines->buckets[i]));
            machine_forget_locked(machines, machines->buckets[i]);
        }
    pthread_cond_destroy(&machines->work);
    pthread_cond_destroy(&machines->changed);
    pthread_mutex_destroy(&machines->lock);
    free(machines);
}

/* ---- sessions whose machine does not come back ---- */

static struct machine *machine_overdue_locked(struct machines *machines, uint64_t now_ms, uint64_t *ret_next_ms) {
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

static void *machines_keeper(void *argument) {
    struct machines *machines = argument;
    uint64_t next_ms;
    pthread_mutex_lock(&machines->lock);
    while (!machines->ending) {
        struct machine *machine = machine_overdue_locked(machines, clock_ms(), &next_ms);
        if (!machine) {
            cond_wait_until(&machines->work, &machines->lock, next_ms);
            continue;
        }
        const char *why =
            text_make(WHY_BYTES + 160, "machine '%.64s' did not come back within %llu s (%s)", machine->hello.name,
                      (unsigned long long)machines->settings.grace_ms / 1000, machine->why);
        struct machine_session *session = machine_session_take_locked(machine);
        machines->counts.expired++;
        pthread_mutex_unlock(&machines->lock);
        machine_session_end(session, why);
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

static void *machine_greet_main(void *argument) {
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
        for (int i = 0; open && i < MACHINES_LISTENERS; i++) {
            void (*listen)(void *, const char *, const char *) = machines->listeners[i].call;
            void *context = machines->listeners[i].context;
            if (!listen)
                continue;
            machines->listeners[i].threads++;
            pthread_mutex_unlock(&machines->lock);
            listen(context, user, name);
            pthread_mutex_lock(&machines->lock);
            machines->listeners[i].threads--;
            pthread_cond_broadcast(&machines->changed);
        }
        pthread_mutex_unlock(&machines->lock);
        if (open && machines->settings.online)
            machines->settings.online(machines->settings.context, user, name, again);
        pthread_mutex_lock(&machines->lock);
    }
    machine->greeting = false;
    machines->threads--;
    pthread_cond_broadcast(&machines->changed);
    pthread_mutex_unlock(&machines->lock);
    return NULL;
}

/* One thread a machine: a later event is handled when that thread is done. */
static void machine_greet_locked(struct machines *machines, struct machine *machine, bool again) {
    machine->again = again;
    if (machine->greeting) {
        machine->greet_again = true;
        return;
    }
    struct greeting *greeting = xmalloc(sizeof *greeting);
    *greeting = (struct greeting){.machines = machines, .machine = machine};
    machine->greeting = thread_detached(machine_greet_main, greeting, EVENT_STACK) == 0;
    if (machine->greeting)
        machines->threads++;
    else
        free(greeting);
}

void machines_listen(struct machines *machines, void (*listen)(void *context, const char *user, const char *name),
                     void *context) {
    autolock(&machines->lock);
    bool found = false;
    for (int i = 0; i < MACHINES_LISTENERS && !found; i++) {
        if (machines->listeners[i].context != (listen ? NULL : context))
            continue;
        found = true;
        machines->listeners[i].call = listen;
        while (!listen && machines->listeners[i].threads)
            cond_wait_until(&machines->changed, &machines->lock, 0);
        machines->listeners[i].context = listen ? context : NULL;
    }
    xensure(found);
}

/* ---- one connection at a time ---- */

static int machines_closed_locked(const struct machines *machines, struct err *err) {
    return machines->closed ? err_set(err, ERR_BUSY, "%s", machines->closed_why) : 0;
}

static bool machine_same_session(const struct machine *machine, const char *session) {
    return session && *session && machine->session && strcmp(machine->session->id, session) == 0;
}

/* The old connection has ended when this returns 0. */
static int machine_displace_locked(struct machines *machines, struct machine *machine, const char *why,
                                   struct err *err) {
    struct machine_conn *conn = machine->conn;
    uint64_t deadline_ms = clock_ms() + MACHINE_ANSWER_MS;
    conn->displaced = true;
    snprintf(conn->why, sizeof conn->why, "%s", why);
    struct machine_session *session = machine_session_ref(conn->session);
    while (machine->conn == conn && clock_ms() < deadline_ms) {
        bool spoken = session->connection;
        pthread_mutex_unlock(&machines->lock);
        if (spoken) /* again and again: it may just be about to be served */
            session->ops->leave(session->connection, why);
        pthread_mutex_lock(&machines->lock);
        if (machine->conn == conn)
            cond_wait_until(&machines->changed, &machines->lock, clock_ms() + LEAVE_AGAIN_MS);
    }
    machine_session_put(session);
    return machine->conn != conn
               ? 0
               : err_set(err, ERR_BUSY, "the old connection of machine '%s' is still being ended; try again",
                         machine->hello.name);
}

/* Rule 2 of machine.h, where a connection is there. 0: try again. */
static int machine_contend_locked(struct machines *machines, struct machine *machine, const char *session,
                                  struct err *err) {
    struct machine_conn *conn = machine->conn;
    if (machine_same_session(machine, session))
        return machine_displace_locked(machines, machine, "the machine connected again", err);
    struct machine_session *there = machine_session_ref(conn->session);
    bool spoken = machine->online;
    pthread_mutex_unlock(&machines->lock);
    bool answers = spoken && there->ops->answers(there->connection, MACHINE_ANSWER_MS);
    machine_session_put(there);
    pthread_mutex_lock(&machines->lock);
    if (machine->conn != conn)
        return 0;
    if (answers)
        return err_set(err, ERR_EXISTS,
                       "another machine is connected as '%s' (from %s); give this one a name and a token of its own",
                       machine->hello.name, machine->hello.address[0] ? machine->hello.address : "elsewhere");
    return machine_displace_locked(machines, machine, "another connection took its place, because it did not answer",
                                   err);
}

static int machine_clear_locked(struct machines *machines, struct machine *machine, const char *session,
                                struct err *err) {
    int r = machines_closed_locked(machines, err);
    for (int turn = 0; r == 0 && machine->conn; turn++) {
        r = turn < ENTER_TURNS
                ? machine_contend_locked(machines, machine, session, err)
                : err_set(err, ERR_BUSY, "several connections want to be machine '%s'; try again", machine->hello.name);
        if (r == 0)
            r = machines_closed_locked(machines, err);
    }
    return r;
}

int machine_enter(struct machines *machines, const struct machine_hello *hello, bool text, const char *session,
                  uint64_t received, char ret_session[33], bool *ret_resumed, uint64_t *ret_received,
                  struct machine_conn **ret_conn, struct err *err) {
    struct machine *machine = NULL;
    struct machine_session *old = NULL;
    pthread_mutex_lock(&machines->lock);
    int r = machine_get_locked(machines, hello, &machine, err);
    if (r == 0) {
        machine->pins++;
        r = machine_clear_locked(machines, machine, text ? NULL : session, err);
        machine->pins--;
    }
    if (r < 0) {
        machines->counts.refused++;
        pthread_mutex_unlock(&machines->lock);
        return r;
    }
    bool resumed = !text && machine_same_session(machine, session) && machine->session->connection;
    if (!resumed) {
        old = machine_session_take_locked(machine);
        machine->session = machine_session_new();
    }
    struct machine_conn *conn = xcalloc(1, sizeof *conn);
    machine_describe(machine, hello);
    machine->text = text;
    machine->deadline_ms = 0; /* it does not end while it is being taken up again */
    *conn = (struct machine_conn){.machines = machines,
                                  .machine = machine,
                                  .hello = &machine->hello,
                                  .runner_path = machines->settings.runner_path,
                                  .session = machine_session_ref(machine->session),
                                  .received = resumed ? received : 0,
                                  .resumed = resumed};
    machine->conn = conn;
    machines->serving++;
    pthread_mutex_unlock(&machines->lock);
    machine_session_end(old, "the machine has started over");
    memcpy(ret_session, conn->session->id, 33);
    *ret_resumed = resumed;
    *ret_received = resumed ? machine_link_received(conn->session->connection) : 0;
    *ret_conn = conn;
    return 0;
}

int machine_conn_begin(struct machine_conn *conn, const struct machine_ops *ops, void *connection,
                       const struct pump_socket *socket, struct err *err) {
    struct machines *machines = conn->machines;
    struct machine *machine = conn->machine;
    autolock(&machines->lock);
    if (connection) {
        conn->session->ops = ops;
        conn->session->connection = connection;
    }
    int r = machines_closed_locked(machines, err);
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
        machine_greet_locked(machines, machine, conn->resumed);
    }
    return r;
}

uint64_t machines_grace_ms(const struct machines *machines) {
    return machines->settings.grace_ms ? machines->settings.grace_ms : 1;
}

uint64_t machines_epoch(const struct machines *machines) {
    return machines->settings.epoch;
}

int machine_conn_end(struct machine_conn *conn, bool lives, const struct err *why) {
    struct machines *machines = conn->machines;
    struct machine *machine = conn->machine;
    struct machine_session *session = conn->session, *over = NULL;
    char user[256], name[256];
    pthread_mutex_lock(&machines->lock);
    bool was_online = machine->online;
    snprintf(user, sizeof user, "%s", machine->hello.user);
    snprintf(name, sizeof name, "%s", machine->hello.name);
    machine->online = false;
    machines->counts.online -= was_online;
    if (was_online || !machine->why[0]) {
        snprintf(machine->why, sizeof machine->why, "%.*s", WHY_BYTES - 1, why->text);
        machine->left = why->why == WHY_LEFT;
    }
    if (was_online)
        machine->since_ms = clock_wall_ms();
    if (machine->session == session && (!lives || session->ended || !session->connection || machines->closed))
        over = machine_session_take_locked(machine);
    else if (machine->session == session)
        machine->deadline_ms = clock_ms() + machines_grace_ms(machines);
    machine->conn = NULL;
    pthread_cond_broadcast(&machines->changed);
    pthread_cond_broadcast(&machines->work);
    pthread_mutex_unlock(&machines->lock);
    machine_session_end(over, why->text);
    machine_session_put(session);
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
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine)
        machine_dismiss_locked(machines, machine, end_session, why);
}

void machine_conn_move(struct machine_conn *conn, const char *workspace) {
    autolock(&conn->machines->lock);
    struct machine_hello hello = conn->machine->hello;
    hello.workspace = workspace;
    machine_describe(conn->machine, &hello);
}
/* ---- for the backend, and for showing ---- */

static int machine_offline(const struct machine *machine, const char *name, struct err *err) {
    char since[CLOCK_TEXT_BYTES];
    if (!machine)
        return err_set(err, ERR_BUSY,
                       "machine '%s' is offline: it has not connected since this server started; start `cubby join` "
                       "on it",
                       name);
    return err_set(err, ERR_BUSY, "machine '%s' is offline since %s (%s%s); %s", name,
                   clock_text(machine->since_ms, since), machine->left ? "`cubby join` was stopped there: " : "",
                   *machine->note && machine->noted_ms + NOTE_MS > clock_ms() ? machine->note
                   : machine->why[0]                                          ? machine->why
                                                                              : "it is connecting",
                   machine->left ? "start `cubby join` on it again"
                                 : "check its network and that `cubby join` runs there, or wait");
}

int machine_session_get(struct machines *machines, const char *user, const char *name,
                        struct machine_session **ret_session, struct err *err) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    int r = machine && machine->online && machine->session ? 0 : machine_offline(machine, name, err);
    if (r == 0)
        *ret_session = machine_session_ref(machine->session);
    return r;
}

static uint64_t machine_free_mb(const struct machine *machine) {
    uint64_t all = machine->hello.memory_mb;
    return machine->used_mb < all ? all - machine->used_mb : 0;
}

static void machine_facts_locked(const struct machine *machine, struct arena *arena, struct machine_facts *ret_facts) {
    const struct machine_conn *conn = machine->conn;
    *ret_facts = (struct machine_facts){
        .hello = machine->hello,
        .online = machine->online,
        .text = machine->text,
        .latency_us = machine->online && conn && conn->socket ? conn->socket->latency_us(conn->socket->user) : 0,
        .since_ms = machine->since_ms,
        .connections = machine->connections,
        .draining = machine->draining,
        .boxes = machine->boxes,
        .free_mb = machine_free_mb(machine),
    };
    for (size_t i = 0; i < MACHINE_WORDS; i++)
        MACHINE_WORD(&ret_facts->hello, i) = arena_strdup(arena, MACHINE_WORD(&machine->hello, i));
}

int machine_facts(struct machines *machines, const char *user, const char *name, struct arena *arena,
                  struct machine_facts *ret_facts, struct err *err) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine)
        machine_facts_locked(machine, arena, ret_facts);
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
                machine_facts_locked(m, &arena, &list[count++]);
    pthread_mutex_unlock(&machines->lock);
    for (size_t i = 0; i < count; i++)
        each(context, &list[i]);
}

/* ---- workers ---- */

bool machines_pick(struct machines *machines, const char *user,
                   double (*score)(void *context, const struct machine_facts *), void *context, struct arena *arena,
                   const char **ret_name) {
    const struct machine *best = NULL;
    double most = -1;
    autolock(&machines->lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct machine *m = machines->buckets[i]; m; m = m->next) {
            if (strcmp(m->hello.user, user) != 0)
                continue;
            const struct machine_facts facts = {.hello = m->hello,
                                                .online = m->online,
                                                .since_ms = m->since_ms,
                                                .draining = m->draining,
                                                .boxes = m->boxes,
                                                .free_mb = machine_free_mb(m)};
            double now = score(context, &facts);
            if (now > most) {
                most = now;
                best = m;
            }
        }
    if (best)
        *ret_name = arena_strdup(arena, best->hello.name);
    return best;
}

void machine_boxes_set(struct machines *machines, const char *user, const char *name, uint64_t boxes) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine)
        machine->boxes = boxes;
}

void machine_load_set(struct machines *machines, const char *user, const char *name, uint64_t free_mb) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (machine)
        machine->used_mb = free_mb < machine->hello.memory_mb ? machine->hello.memory_mb - free_mb : 0;
}

int machine_drain(struct machines *machines, const char *user, const char *name, bool drain, struct err *err) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (!machine)
        return err_set(err, ERR_NOT_FOUND, "no worker '%.64s' has joined since this server started", name);
    machine->draining = drain;
    return 0;
}

bool machine_leaving(struct machines *machines, const char *user, const char *name) {
    autolock(&machines->lock);
    const struct machine *machine = machine_find_locked(machines, user, name);
    return machine && machine->online && machine->draining;
}

bool machine_note(struct machines *machines, const char *user, const char *name, const char *note) {
    autolock(&machines->lock);
    struct machine *machine = machine_find_locked(machines, user, name);
    if (!machine)
        return false;
    if (strncmp(machine->note, note, WHY_BYTES - 1) != 0) {
        snprintf(machine->note, sizeof machine->note, "%s", note);
        machine->noted_ms = clock_ms();
    }
    return true;
}

bool machine_noted(struct machines *machines, const char *user, const char *name, char *text, size_t size) {
    autolock(&machines->lock);
    const struct machine *machine = machine_find_locked(machines, user, name);
    if (!machine || !*machine->note || machine->noted_ms + NOTE_MS <= clock_ms())
        return false;
    snprintf(text, size, "%s", machine->note);
    return true;
}

bool machine_of_session(struct machines *machines, const char *user, const char *session,
                        char ret_name[LIMIT_RUNNER_BYTES + 1]) {
    autolock(&machines->lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct machine *machine = machines->buckets[i]; machine; machine = machine->next)
            if (machine->session && !machine->session->ended && strcmp(machine->session->id, session) == 0 &&
                strcmp(machine->hello.user, user) == 0) {
                snprintf(ret_name, LIMIT_RUNNER_BYTES + 1, "%s", machine->hello.name);
                return true;
            }
    return false;
}

void machines_count(struct machines *machines, struct machines_counts *ret_counts) {
    autolock(&machines->lock);
    *ret_counts = machines->counts;
}
