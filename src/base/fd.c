/* Helpers for descriptors. Called from everywhere. Invariant: a peer can never leave open descriptors in our
 * process, whatever control message it sends. */
#include <sys/socket.h>

#include "base/base.h"

void fd_close(int *fd) {
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
    *fd = -1;
}

int fd_take(int *fd) {
    int taken = *fd;
    *fd = -1;
    return taken;
}

DIR *fd_opendir(int at, const char *name, int flags) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    return fd < 0 ? NULL : fdopendir(fd);
}

void fd_closedir(DIR **dir) {
    if (*dir)
        closedir(*dir);
}

struct dirent *fd_readdir(DIR *dir) {
    struct dirent *entry = dir ? readdir(dir) : NULL;
    while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        entry = readdir(dir);
    return entry;
}

int fd_write_all(int fd, const void *data, size_t len) {
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_at(int fd, void *data, size_t len, uint64_t offset) {
    size_t got = 0;
    while (got < len) {
        ssize_t n = offset == FD_HERE ? read(fd, (char *)data + got, len - got)
                                      : pread(fd, (char *)data + got, len - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

ssize_t fd_read_full(int fd, void *data, size_t len) {
    return fd_read_at(fd, data, len, FD_HERE);
}

ssize_t fd_read_file(int dirfd, const char *path, char *data, size_t max) {
    autofd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n = fd_read_full(fd, data, max);
    if (n < 0)
        return n;
    if ((size_t)n == max)
        return -EFBIG;
    data[n] = 0;
    return n;
}

int fd_replace_file(int dirfd, const char *path, const void *data, size_t len) {
    char temporary[256];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        return -ENAMETOOLONG;
    autofd fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);
    return r == 0 && renameat(dirfd, temporary, dirfd, path) < 0 ? -errno : r;
}

int fd_write_file(int dirfd, const char *path, const char *text) {
    autofd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    return fd_write_all(fd, text, strlen(text));
}

ssize_t fd_send(int socket, const void *data, size_t len, int pass, int flags) {
    struct iovec part = {.iov_base = (void *)(unsigned long)data, .iov_len = len};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (pass >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &pass, sizeof pass);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t fd_recv(int socket, void *data, size_t len, int *ret_pass, int flags) {
    struct iovec part = {.iov_base = data, .iov_len = len};
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t n;
    do
        n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *ret_pass = -1;
    if (n < 0)
        return -errno;
    bool several = message.msg_flags & MSG_CTRUNC;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && i < count; i++) {
            several |= *ret_pass >= 0;
            fd_close(ret_pass);
            memcpy(ret_pass, CMSG_DATA(h) + i * sizeof(int), sizeof *ret_pass);
        }
    }
    if (several)
        fd_close(ret_pass);
    return several ? -EBADMSG : n;
}
