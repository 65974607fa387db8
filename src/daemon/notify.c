/* The service manager: listening sockets that it passes, and what it wants to know. Called by serve.
 * Invariant: nothing here reaches boxes; its variables are removed from the environment before anything is started. */
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/notify.h"

enum { NOTIFY_FIRST_FD = 3, NOTIFY_STATUS_MS = 10000 };

static bool notify_number(const char *name, uint64_t most, uint64_t *ret_number) {
    const char *text = getenv(name);
    return text && text_u64(text, most, ret_number);
}

/* WATCHDOG_PID and LISTEN_PID: the variables may have been inherited from a parent that they were for. */
static bool notify_for_us(const char *name) {
    uint64_t pid;
    return notify_number(name, INT_MAX, &pid) && (pid_t)pid == getpid();
}

void notify_init(struct notify *notify) {
    uint64_t number;
    const char *path = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.fd = -1};
    size_t len = path ? strlen(path) : 0;
    if (len > 1 && len < sizeof notify->address.sun_path && (*path == '/' || *path == '@')) {
        notify->address.sun_family = AF_UNIX;
        memcpy(notify->address.sun_path, path, len);
        if (*path == '@')
            notify->address.sun_path[0] = 0;
        notify->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if ((notify_for_us("WATCHDOG_PID") || !getenv("WATCHDOG_PID")) &&
        notify_number("WATCHDOG_USEC", UINT64_MAX, &number))
        notify->watchdog_ms = number / 1000 / 3;
    if (notify_for_us("LISTEN_PID") && notify_number("LISTEN_FDS", HTTP_LISTENERS, &number))
        notify->passed_count = (int)number;
    for (int i = 0; i < notify->passed_count; i++)
        notify->passed[i] = NOTIFY_FIRST_FD + i;
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
                                        "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

void notify_done(struct notify *notify) {
    fd_close(&notify->fd);
}

void notify_send(struct notify *notify, const char *text) {
    if (notify->fd >= 0 && sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&notify->address,
                                  notify->address_size) < 0)
        log_debug("the service manager does not take '%s': %s", text, strerror(errno));
}

void notify_tick(struct notify *notify, struct provider *provider) {
    uint64_t now_ms = clock_ms();
    if (notify->fd < 0)
        return;
    if (notify->watchdog_ms && now_ms >= notify->watchdog_due_ms) {
        notify->watchdog_due_ms = now_ms + notify->watchdog_ms;
        notify_send(notify, "WATCHDOG=1");
    }
    if (now_ms < notify->status_due_ms)
        return;
    notify->status_due_ms = now_ms + NOTIFY_STATUS_MS;
    struct provider_counts counts;
    unsigned boxes = 0;
    provider_count(provider, &counts);
    for (size_t i = 0; i < sizeof counts.by_backend_state / sizeof **counts.by_backend_state; i++)
        boxes += (&counts.by_backend_state[0][0])[i];
    notify_send(notify, text_make(64, "STATUS=%u box%s", boxes, boxes == 1 ? "" : "es"));
}
