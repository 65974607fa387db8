/* Sessions of the older era, and the requests that run in them. Called by mcp.c and by the transports. Invariant: a
 * session is found only by its owner, their number is bounded, and a cancelled request is notified by a descriptor that
 * hangs up, which ends whatever it waits for. */

#include "base/base.h"
#include "base/sync.h"
#include "tool/mcp/mcp_core.h"

enum { SESSION_BUCKETS = 512, SESSION_EARLY = 16, SPARE_PIPES = 16 };

struct mcp_running {
    struct mcp_running *next;
    const char *id;
    int hang_up[2]; /* a pipe whose writing end is closed to cancel; -1: the request never waits */
    bool cancelled;
};

struct mcp_session {
    struct mcp *mcp;
    struct mcp_session *next; /* in its bucket */
    char id[33];
    char *owner;
    const char *version;
    unsigned refs;
    bool only, ended;
    uint64_t used_ms, turn; /* time and order of the last use */
    struct mcp_running *running;
    /* Requests and cancellations may arrive on different connections: hashes of ids cancelled before they arrived. */
    uint64_t early[SESSION_EARLY];
    unsigned early_at;
};

struct mcp {
    pthread_mutex_t lock;
    struct mcp_session *buckets[SESSION_BUCKETS];
    unsigned count;
    uint64_t turn;
    int spare[SPARE_PIPES][2]; /* reused pipes of requests that were not cancelled */
    unsigned spares;
};

struct mcp *mcp_new(void) {
    struct mcp *mcp = xcalloc(1, sizeof *mcp);
    pthread_mutex_init(&mcp->lock, NULL);
    return mcp;
}

static void session_unref_locked(struct mcp_session *session) {
    if (--session->refs)
        return;
    free(session->owner);
    free(session);
}

void mcp_free(struct mcp *mcp) {
    if (!mcp)
        return;
    for (unsigned i = 0; i < SESSION_BUCKETS; i++)
        for (struct mcp_session *session = mcp->buckets[i], *next; session; session = next) {
            next = session->next;
            session_unref_locked(session);
        }
    while (mcp->spares--) {
        close(mcp->spare[mcp->spares][0]);
        close(mcp->spare[mcp->spares][1]);
    }
    pthread_mutex_destroy(&mcp->lock);
    free(mcp);
}

/* ---- the table ---- */

static uint64_t session_hash(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash ? hash : 1;
}

static void session_running_cancel_locked(struct mcp_running *running) {
    running->cancelled = true;
    fd_close(&running->hang_up[1]);
}

static void session_end_locked(struct mcp_session *session) {
    struct mcp_session **at = &session->mcp->buckets[session_hash(session->id) % SESSION_BUCKETS];
    if (session->ended)
        return;
    session->ended = true;
    for (struct mcp_running *running = session->running; running; running = running->next)
        session_running_cancel_locked(running);
    if (session->only)
        return;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    session->mcp->count--;
    session_unref_locked(session);
}

static void session_sweep_locked(struct mcp *mcp, uint64_t now_ms) {
    for (unsigned i = 0; i < SESSION_BUCKETS; i++)
        for (struct mcp_session *session = mcp->buckets[i], *next; session; session = next) {
            next = session->next;
            if (!session->running && now_ms - session->used_ms > MCP_SESSION_IDLE_MS)
                session_end_locked(session);
        }
}

void mcp_session_sweep(struct mcp *mcp, uint64_t now_ms) {
    autolock(&mcp->lock);
    session_sweep_locked(mcp, now_ms);
}

/* Makes space for one more session of this owner. */
static bool session_room_locked(struct mcp *mcp, const char *owner) {
    struct mcp_session *oldest = NULL, *own = NULL;
    unsigned owned = 0;
    for (unsigned i = 0; i < SESSION_BUCKETS; i++)
        for (struct mcp_session *session = mcp->buckets[i]; session; session = session->next) {
            bool mine = strcmp(session->owner, owner) == 0;
            owned += mine;
            if (session->running)
                continue;
            if (!oldest || session->turn < oldest->turn)
                oldest = session;
            if (mine && (!own || session->turn < own->turn))
                own = session;
        }
    struct mcp_session *goes = owned >= LIMIT_MCP_SESSIONS_PER_USER ? own : oldest;
    if (owned < LIMIT_MCP_SESSIONS_PER_USER && mcp->count < LIMIT_MCP_SESSIONS)
        return true;
    if (goes)
        session_end_locked(goes);
    return goes;
}

static struct mcp_session *session_make(struct mcp *mcp, const char *owner) {
    struct mcp_session *session = xcalloc(1, sizeof *session);
    uint8_t random[16];
    xrandom(random, sizeof random);
    session->owner = xstrdup(owner);
    text_hex(session->id, random, sizeof random);
    session->mcp = mcp;
    session->refs = 1;
    session->used_ms = clock_ms();
    return session;
}

int mcp_session_new(struct mcp *mcp, const char *owner, struct mcp_session **ret_session, struct err *err) {
    struct mcp_session *session = session_make(mcp, owner);
    pthread_mutex_lock(&mcp->lock);
    session_sweep_locked(mcp, session->used_ms);
    bool room = session_room_locked(mcp, owner);
    if (room) {
        struct mcp_session **bucket = &mcp->buckets[session_hash(session->id) % SESSION_BUCKETS];
        session->next = *bucket;
        *bucket = session;
        session->refs++;
        session->turn = ++mcp->turn;
        mcp->count++;
        *ret_session = session;
    } else {
        session_unref_locked(session);
    }
    pthread_mutex_unlock(&mcp->lock);
    return room ? 0 : err_set(err, ERR_LIMIT, "all %u sessions are busy; try again later", LIMIT_MCP_SESSIONS_PER_USER);
}

struct mcp_session *mcp_session_only(struct mcp *mcp) {
    struct mcp_session *session = session_make(mcp, "");
    session->only = true;
    return session;
}

struct mcp_session *mcp_session_get(struct mcp *mcp, const char *id, const char *owner) {
    uint64_t now_ms = clock_ms();
    autolock(&mcp->lock);
    struct mcp_session *session = mcp->buckets[session_hash(id) % SESSION_BUCKETS];
    while (session && (strcmp(session->id, id) != 0 || strcmp(session->owner, owner) != 0))
        session = session->next;
    if (session && !session->running && now_ms - session->used_ms > MCP_SESSION_IDLE_MS) {
        session_end_locked(session);
        session = NULL;
    }
    if (session) {
        session->used_ms = now_ms;
        session->turn = ++mcp->turn;
        session->refs++;
    }
    return session;
}

void mcp_session_put(struct mcp_session *session) {
    if (!session)
        return;
    struct mcp *mcp = session->mcp;
    autolock(&mcp->lock);
    session_unref_locked(session);
}

const char *mcp_session_id(const struct mcp_session *session) {
    return session->id;
}

const char *mcp_session_version(const struct mcp_session *session) {
    autolock(&session->mcp->lock);
    return session->version;
}

bool mcp_session_agree(struct mcp_session *session, const char *version) {
    autolock(&session->mcp->lock);
    bool first = !session->version;
    if (first)
        session->version = version;
    return first;
}

void mcp_session_end(struct mcp_session *session) {
    autolock(&session->mcp->lock);
    session_end_locked(session);
}

/* ---- running requests ---- */

static struct mcp_running **session_running_find_locked(struct mcp_session *session, const char *id) {
    struct mcp_running **at = &session->running;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

/* Returns false if no descriptor is left. */
static bool session_pipe_take(struct mcp *mcp, int ret_pipe[2]) {
    pthread_mutex_lock(&mcp->lock);
    bool spare = mcp->spares;
    if (spare)
        memcpy(ret_pipe, mcp->spare[--mcp->spares], 2 * sizeof *ret_pipe);
    pthread_mutex_unlock(&mcp->lock);
    return spare || pipe2(ret_pipe, O_CLOEXEC) == 0;
}

static void session_pipe_give_locked(struct mcp *mcp, int pipe[2]) {
    if (pipe[0] >= 0 && pipe[1] >= 0 && mcp->spares < SPARE_PIPES) {
        memcpy(mcp->spare[mcp->spares++], pipe, 2 * sizeof *pipe);
        return;
    }
    fd_close(&pipe[0]);
    fd_close(&pipe[1]);
}

void mcp_running_enter(struct mcp_exchange *exchange, struct mcp_message *message) {
    struct mcp_session *session = exchange->session;
    struct mcp *mcp = session->mcp;
    struct mcp_running *running = xcalloc(1, sizeof *running);
    *running = (struct mcp_running){.id = message->id, .hang_up = {-1, -1}};
    if (message->slow && !session_pipe_take(mcp, running->hang_up)) {
        mcp_refuse(message, MCP_INTERNAL, 0, "the daemon has no free file descriptor: %s", strerror(errno));
        free(running);
        return;
    }
    pthread_mutex_lock(&mcp->lock);
    struct mcp_running **at = session_running_find_locked(session, message->id);
    bool twice = *at;
    if (twice) {
        session_pipe_give_locked(mcp, running->hang_up);
    } else {
        if (session->ended)
            session_running_cancel_locked(running);
        uint64_t hash = session_hash(message->id);
        for (unsigned i = 0; i < SESSION_EARLY; i++)
            if (session->early[i] == hash) {
                session->early[i] = 0;
                session_running_cancel_locked(running);
                break;
            }
        *at = running;
        exchange->running = running;
    }
    pthread_mutex_unlock(&mcp->lock);
    if (!twice)
        return;
    free(running);
    mcp_refuse(message, MCP_REQUEST, 400, "a request with this id is already running");
}

bool mcp_running_leave(struct mcp_exchange *exchange) {
    struct mcp_running *running = exchange->running;
    struct mcp_session *session = exchange->session;
    if (!running)
        return false;
    pthread_mutex_lock(&session->mcp->lock);
    struct mcp_running **at = session_running_find_locked(session, running->id);
    *at = running->next;
    session->used_ms = clock_ms();
    exchange->running = NULL;
    session_pipe_give_locked(session->mcp, running->hang_up);
    pthread_mutex_unlock(&session->mcp->lock);
    bool cancelled = running->cancelled;
    free(running);
    return cancelled;
}

int mcp_running_watch(const struct mcp_exchange *exchange) {
    return exchange->running ? exchange->running->hang_up[0] : exchange->watch;
}

void mcp_running_cancel(struct mcp_session *session, const char *id) {
    autolock(&session->mcp->lock);
    struct mcp_running *running = *session_running_find_locked(session, id);
    if (running)
        session_running_cancel_locked(running);
    else
        session->early[session->early_at++ % SESSION_EARLY] = session_hash(id);
}

void mcp_cancel(struct mcp_exchange *exchange) {
    struct mcp_session *session = exchange->session;
    if (!session)
        return;
    autolock(&session->mcp->lock);
    if (exchange->running)
        session_running_cancel_locked(exchange->running);
}
