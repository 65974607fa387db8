/* From a container to the runner's first wire, its variables and its oom counter. Called by main, before the loop, when
 * nothing else of the box runs yet. Invariant: what cannot be had here is told on standard error, which the daemon
 * reads, and ends the container. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "runner/enter/container.h"
#include "wire/dial.h"

extern char **environ;

static int dial_wire(struct runner_config *config, const char *path, struct err *err);

int container_wire(struct runner_config *config, const char *path, bool stdio, bool pieces, struct err *err) {
    int r = path ? dial_wire(config, path, err) : -1;
    if (r < 0 && stdio)
        r = relay_wire(config, err);
    if (r < 0 && pieces)
        r = carry_wire(config, err);
    if (r < 0)
        return r;
    /* Nobody reads these for long, and a full pipe must never stop PID 1. */
    autofd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null > 2 && fd <= 2; fd++)
        dup2(null, fd);
    return 0;
}

/* ---- by the mounted socket ---- */

static int dial_take(int fd, char expected, int *ret_fd, struct err *err) {
    char name;
    autofd passed = -1;
    ssize_t n = fd_recv(fd, &name, 1, &passed, 0);
    if (n < 0)
        return err_errno(err, (int)-n, "the daemon's socket");
    if (n == 0 || name != expected || passed < 0)
        return err_set(err, ERR_PROTOCOL, "the daemon hung up, or sent something else than its two sockets");
    *ret_fd = fd_take(&passed);
    return 0;
}

static int dial_wire(struct runner_config *config, const char *path, struct err *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(err, ERR_INVALID, "the path of a socket has at most %zu bytes", sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return err_errno(err, errno, "cannot connect to '%s'", path);
    struct timeval patience = {.tv_sec = DIAL_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    autofd wire = -1, listener = -1;
    int r = dial_take(fd, DIAL_WIRE, &wire, err);
    if (r == 0)
        r = dial_take(fd, DIAL_LISTEN, &listener, err);
    if (r < 0)
        return r;
    /* Once more, by us: whoever connects to it is told our ids, and gets a pidfd of ours. */
    if (listen(listener, 16) < 0)
        return err_errno(err, errno, "cannot listen at the daemon's socket");
    config->wire_fd = fd_take(&wire);
    config->listen_fd = fd_take(&listener);
    return 0;
}

/* ---- what the container has ---- */

static bool env_has(const char *const *rows, size_t count, const char *row) {
    size_t len = strcspn(row, "=") + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(rows[i], row, len) == 0)
            return true;
    return false;
}

const char *const *container_env(const char *const *rows) {
    static const char *const defaults[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                           "HOME=/", "LANG=C.UTF-8"};
    size_t own = 0, given = 0, count = 0;
    while (environ[own])
        own++;
    while (rows[given])
        given++;
    const char **list = xcalloc(own + given + sizeof defaults / sizeof *defaults + 1, sizeof *list);
    for (size_t i = 0; i < own; i++) /* one without a name is nobody's to pass on */
        if (strchr(environ[i], '=') > environ[i])
            list[count++] = environ[i];
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (!env_has(list, count, defaults[i]))
            list[count++] = defaults[i];
    memcpy(list + count, rows, given * sizeof *list); /* a later one replaces an earlier one: prepare_env */
    return list;
}

/* With the container's own view of control groups: v2, else the v1 controller. */
int container_oom(int root_fd) {
    static const char *const names[] = {"sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control"};
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < sizeof names / sizeof *names; i++)
        fd = openat(root_fd, names[i], O_RDONLY | O_CLOEXEC);
    return fd;
}
