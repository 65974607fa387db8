/* The daemon's end of a connection to one runner: reading by waiting threads, sending by any thread, death. Called
 * by backends (wire_new), the provider (alive, kill) and call.c. Invariants, the rules of waiting:
 *
 * 1. At most one thread leads (wire->leading): only it reads the socket and touches the demux's read buffer, and it
 *    does so without the lock. Distributing the bytes happens under the lock.
 * 2. Every other waiting thread is in wire->followers and polls its thread's eventfd. The eventfd is written only
 *    under the lock and only for a thread in the list, so it is never written after its thread has gone; it is
 *    sticky, so a wake-up between releasing the lock and poll is not lost; a stale wake-up only costs a look.
 * 3. A thread that gets something for a call wakes that call's follower, under the lock, in the same step.
 * 4. A thread that stops waiting (event, deadline, hang-up of its client, socket writable) calls wire_leave_locked:
 *    when no thread leads and none has been chosen, one follower with nothing to take is chosen (heir) and woken.
 *    Followers that have something are awake already and come by rule 4 themselves. So while any thread waits, one
 *    reads.
 * 5. An heir stops being one when it wakes; it then leads or leaves (rule 4).
 * 6. A leader never sends and never takes send_lock. A sender that finds the socket full leads or follows, so two
 *    full sockets drain. A runner that accepts nothing for SEND_STALL_MS is dead.
 * 7. Death is set once, under the lock; it wakes every follower and shuts the socket down, which wakes the leader. */
#include "wire/wire.h"

#include <assert.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/sync.h"
#include "wire/frame.h"
#include "wire/wire_private.h"

enum { SEND_STALL_MS = 30000, WAIT_FDS = 3 }; /* the wire or an eventfd, and the two of call_wait */

/* ---- waiting ---- */

static pthread_key_t wake_key;
static pthread_once_t wake_once = PTHREAD_ONCE_INIT;

static void wire_wake_close(void *value) {
    close((int)(intptr_t)value - 1);
}

static void wire_wake_setup(void) {
    xensure(pthread_key_create(&wake_key, wire_wake_close) == 0);
}

/* This thread's eventfd, made at its first wait and closed with the thread. -1: no descriptors left. */
static int wire_wake_own_fd(void) {
    pthread_once(&wake_once, wire_wake_setup);
    intptr_t held = (intptr_t)pthread_getspecific(wake_key);
    if (held)
        return (int)held - 1;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0)
        pthread_setspecific(wake_key, (void *)((intptr_t)fd + 1));
    return fd;
}

static void wire_waiter_wake(struct waiter *waiter) {
    uint64_t one = 1;
    ssize_t n = write(waiter->wake_fd, &one, sizeof one);
    (void)n; /* fails only when it is already set beyond counting */
}

static void wire_notify(struct call *call) {
    if (call->waiter)
        wire_waiter_wake(call->waiter);
}

/* ---- death ---- */

struct wire_reason {
    atomic_uint refs;
    pthread_mutex_t lock;
    char text[sizeof((struct err *)0)->text];
};

struct wire_reason *wire_reason_new(void) {
    struct wire_reason *reason = xcalloc(1, sizeof *reason);
    atomic_init(&reason->refs, 1);
    pthread_mutex_init(&reason->lock, NULL);
    return reason;
}

struct wire_reason *wire_reason_ref(struct wire_reason *reason) {
    atomic_fetch_add(&reason->refs, 1);
    return reason;
}

void wire_reason_set(struct wire_reason *reason, const char *why) {
    autolock(&reason->lock);
    if (!reason->text[0])
        snprintf(reason->text, sizeof reason->text, "%s", why);
}

bool wire_reason_shared(struct wire_reason *reason) {
    return atomic_load(&reason->refs) > 1;
}

void wire_reason_unref(struct wire_reason *reason) {
    if (!reason || atomic_fetch_sub(&reason->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&reason->lock);
    free(reason);
}

void wire_set_reason(struct wire *wire, struct wire_reason *reason) {
    wire->reason = wire_reason_ref(reason);
}

static void wire_die_locked(struct wire *wire, int code, const char *reason) {
    if (wire->dead)
        return;
    wire->dead = true;
    err_set(&wire->death, (enum err_code)code, "%s", reason);
    if (wire->reason && code == ERR_GONE) {
        autolock(&wire->reason->lock);
        if (wire->reason->text[0])
            err_set(&wire->death, ERR_GONE, "%s", wire->reason->text);
    }
    for (struct waiter *w = wire->followers; w; w = w->next)
        wire_waiter_wake(w);
    shutdown(wire->fd, SHUT_RDWR);
}

static int wire_timeout_until(uint64_t deadline_ms) {
    if (deadline_ms == 0)
        return -1;
    uint64_t now = clock_ms();
    return deadline_ms <= now ? 0 : deadline_ms - now > 60000 ? 60000 : (int)(deadline_ms - now);
}

/* Reads with the lock let go. True: one of the caller's descriptors has an event. */
static bool wire_lead_locked(struct wire *wire, struct pollfd fds[WAIT_FDS], int timeout_ms) {
    wire->leading = true;
    pthread_mutex_unlock(&wire->lock);
    int ready = poll(fds, WAIT_FDS, timeout_ms), pass_fd = -1;
    ssize_t n = -EAGAIN;
    if (ready > 0 && (fds[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))) {
        size_t room;
        uint8_t *at = demux_room(&wire->demux, &room);
        n = fd_recv(wire->fd, at, room, &pass_fd, MSG_DONTWAIT);
    }
    pthread_mutex_lock(&wire->lock);
    struct err err;
    if (wire->dead) {
        fd_close(&pass_fd);
    } else if (n > 0) {
        if (demux_feed(&wire->demux, (size_t)n, pass_fd, &err) < 0)
            wire_die_locked(wire, ERR_PROTOCOL, err.text);
    } else if (n == -EBADMSG) {
        wire_die_locked(wire, ERR_PROTOCOL, "the runner passed several descriptors at once");
    } else if (n != -EAGAIN) {
        wire_die_locked(wire, ERR_GONE, "the runner hung up");
    }
    wire->leading = false;
    return ready > 0 && (fds[1].revents || fds[2].revents);
}

static bool wire_follow_locked(struct wire *wire, struct call *call, struct pollfd fds[WAIT_FDS], int timeout_ms) {
    struct waiter self = {
        .call = call, .wake_fd = wire_wake_own_fd(), .next = wire->followers, .prev = &wire->followers};
    if (self.next)
        self.next->prev = &self.next;
    wire->followers = &self;
    if (call)
        call->waiter = &self;
    pthread_mutex_unlock(&wire->lock);
    fds[0] = (struct pollfd){.fd = self.wake_fd, .events = POLLIN};
    if (self.wake_fd < 0 && (timeout_ms < 0 || timeout_ms > 10))
        timeout_ms = 10; /* no descriptors left: look now and then instead of being woken */
    int ready = poll(fds, WAIT_FDS, timeout_ms);
    uint64_t count;
    if (ready > 0 && fds[0].revents && read(self.wake_fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN);
    pthread_mutex_lock(&wire->lock);
    *self.prev = self.next;
    if (self.next)
        self.next->prev = self.prev;
    if (call)
        call->waiter = NULL;
    if (wire->heir == &self)
        wire->heir = NULL;
    return ready > 0 && (fds[1].revents || fds[2].revents);
}

bool wire_wait_locked(struct wire *wire, struct call *call, const struct call_wait *wait, short *ret_revents) {
    struct pollfd fds[WAIT_FDS] = {{.fd = wire->fd, .events = POLLIN}, {.fd = -1}, {.fd = -1}};
    if (wait && wait->fd >= 0)
        fds[1] = (struct pollfd){.fd = wait->fd, .events = wait->events};
    if (wait && wait->also)
        fds[2] = *wait->also;
    int timeout_ms = wire_timeout_until(wait ? wait->deadline_ms : 0);
    bool ready =
        wire->leading ? wire_follow_locked(wire, call, fds, timeout_ms) : wire_lead_locked(wire, fds, timeout_ms);
    *ret_revents = ready ? fds[1].revents : 0;
    if (wait && wait->also)
        wait->also->revents = ready ? fds[2].revents : 0;
    return ready;
}

void wire_leave_locked(struct wire *wire) {
    if (wire->leading || wire->heir)
        return;
    for (struct waiter *w = wire->followers; w; w = w->next) {
        if (w->call && (w->call->in.len || w->call->input_ready || w->call->ended))
            continue;
        wire->heir = w;
        wire_waiter_wake(w);
        return;
    }
}

void wire_quiet_locked(struct wire *wire) {
    char byte;
    if (wire->dead || wire->leading || wire->demux.open || wire->demux.closed)
        return;
    ssize_t n = recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0 || wire->demux.len)
        wire_die_locked(wire, ERR_PROTOCOL, "the runner spoke without being asked");
}

/* ---- sending ---- */

int wire_death_locked(const struct wire *wire, struct err *err) {
    return wire->dead ? err_set(err, (enum err_code)wire->death.code, "%s", wire->death.text) : 0;
}

int wire_error(struct wire *wire, struct err *err) {
    autolock(&wire->lock);
    return wire_death_locked(wire, err);
}

int wire_send(struct wire *wire, const void *data, size_t len, struct err *err) {
    const char *at = data;
    const char *reason = NULL;
    pthread_mutex_lock(&wire->send_lock);
    uint64_t deadline_ms = 0;
    while (len > 0 && !reason) {
        ssize_t n = send(wire->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            deadline_ms = 0;
        } else if (n < 0 && errno == EAGAIN) {
            deadline_ms = deadline_ms ? deadline_ms : clock_ms() + SEND_STALL_MS + wire->patience_ms;
            /* The socket is full: waits for space, and reads if no other thread does (rule 6). False: no space in
             * time. */
            struct pollfd fds[WAIT_FDS] = {{.fd = wire->fd, .events = POLLIN | POLLOUT}, {.fd = -1}, {.fd = -1}};
            pthread_mutex_lock(&wire->lock);
            if (!wire->dead) {
                if (!wire->leading) {
                    wire_lead_locked(wire, fds, wire_timeout_until(deadline_ms));
                } else {
                    fds[1] = (struct pollfd){.fd = wire->fd, .events = POLLOUT};
                    wire_follow_locked(wire, NULL, fds, wire_timeout_until(deadline_ms));
                }
                wire_leave_locked(wire);
            }
            pthread_mutex_unlock(&wire->lock);
            if (!(clock_ms() < deadline_ms))
                reason = "the runner stopped reading";
        } else if (errno != EINTR) {
            reason = "the runner hung up";
        }
    }
    if (reason)
        wire_kill(wire, reason);
    pthread_mutex_unlock(&wire->send_lock);
    return reason ? wire_error(wire, err) : 0;
}

/* ---- life ---- */

static int wire_greet(struct wire *wire, unsigned timeout_ms, struct err *err) {
    autobuf hello = buf_max(256);
    size_t begin = frame_begin(&hello, FRAME_HELLO, 0, 0);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, wire->demux.pass ? FEATURE_PASS_FD : FEATURE_FAR);
    frame_end(&hello, begin);
    TRY(wire_send(wire, hello.data, hello.len, err));
    short revents;
    struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + timeout_ms};
    autolock(&wire->lock);
    while (!wire->demux.greeted && !wire->dead && clock_ms() < wait.deadline_ms)
        wire_wait_locked(wire, NULL, &wait, &revents);
    TRY(wire_death_locked(wire, err));
    return wire->demux.greeted ? 0 : err_set(err, ERR_TIMEOUT, "the runner did not answer within %u ms", timeout_ms);
}

int wire_new(int fd, enum wire_pass pass, unsigned timeout_ms, struct wire **ret_wire, struct err *err) {
    struct wire *wire = xcalloc(1, sizeof *wire);
    atomic_init(&wire->refs, 1);
    wire->fd = fd;
    wire->uid = (uid_t)-1;
    wire->gid = (gid_t)-1;
    pthread_mutex_init(&wire->send_lock, NULL);
    pthread_mutex_init(&wire->lock, NULL);
    demux_init(&wire->demux, pass, wire_notify);
    int r = wire_greet(wire, timeout_ms, err);
    if (r < 0) {
        wire_unref(wire);
        return r;
    }
    *ret_wire = wire;
    return 0;
}

struct wire *wire_ref(struct wire *wire) {
    atomic_fetch_add(&wire->refs, 1);
    return wire;
}

void wire_unref(struct wire *wire) {
    if (!wire || atomic_fetch_sub(&wire->refs, 1) != 1)
        return;
    demux_done(&wire->demux);
    close(wire->fd);
    wire_reason_unref(wire->reason);
    pthread_mutex_destroy(&wire->lock);
    pthread_mutex_destroy(&wire->send_lock);
    free(wire);
}

void wire_kill(struct wire *wire, const char *reason) {
    autolock(&wire->lock);
    wire_die_locked(wire, ERR_GONE, reason);
}

bool wire_alive(struct wire *wire) {
    struct pollfd look = {.fd = wire->fd, .events = POLLRDHUP};
    return wire_error(wire, ERR_IGNORED) == 0 && poll(&look, 1, 0) == 0;
}

int wire_root(const struct wire *wire) {
    return wire->demux.root_fd;
}

uint64_t wire_features(const struct wire *wire) {
    return wire->demux.features;
}

const char *wire_workspace(const struct wire *wire) {
    return wire->demux.workspace;
}

unsigned wire_calls(struct wire *wire) {
    autolock(&wire->lock);
    return wire->demux.open;
}

void wire_set_patience(struct wire *wire, uint64_t patience_ms) {
    wire->patience_ms = patience_ms;
}

uint64_t wire_patience_ms(const struct wire *wire) {
    return wire->patience_ms;
}

int wire_fd(const struct wire *wire) {
    return wire->fd;
}

void wire_set_ids(struct wire *wire, uid_t uid, gid_t gid) {
    wire->uid = uid;
    wire->gid = gid;
}

uid_t wire_uid(const struct wire *wire) {
    return wire->uid;
}

gid_t wire_gid(const struct wire *wire) {
    return wire->gid;
}
