/* See boxsock.h. Invariant: a socket's address has space for 107 bytes and a state directory may be longer, so the
 * directory is passed as a descriptor. */
#include "backend/boxsock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"

static struct sockaddr_un boxsock_address_in(int dir_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", dir_fd);
    return address;
}

int boxsock_listen(int dir_fd, int *ret_fd, struct err *err) {
    unlinkat(dir_fd, "sock", 0);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = boxsock_address_in(dir_fd);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        return err_errno(err, errno, "the box's socket");
    *ret_fd = fd_take(&fd);
    return 0;
}

int boxsock_connect(int dir_fd, int *ret_fd) {
    if (dir_fd < 0)
        return -ENOENT;
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = boxsock_address_in(dir_fd);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    *ret_fd = fd_take(&fd);
    return 0;
}
