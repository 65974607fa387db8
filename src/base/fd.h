/* Descriptors: closing, whole writes, and passing one over a unix socket. */
#ifndef CUBBY_BASE_FD_H
#define CUBBY_BASE_FD_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void fd_close(int *fd); /* closes if >= 0, sets to -1; keeps errno */
int fd_take(int *fd);   /* hands the descriptor over: returns it, leaves -1 */

/* A descriptor that closes itself at the end of its block. */
#define autofd __attribute__((cleanup(fd_close))) int

/* A directory below another; flags: further ones, as O_NOFOLLOW. NULL: it cannot be opened. Closes itself. */
#define autodir __attribute__((cleanup(fd_closedir))) DIR
DIR *fd_opendir(int at, const char *name, int flags);
void fd_closedir(DIR **dir);
struct dirent *fd_readdir(DIR *dir); /* the next but "." and ".."; NULL at the end, and without a directory */

int fd_write_all(int fd, const void *data, size_t len);              /* 0 or -errno; retries EINTR, blocking fd */
ssize_t fd_read_full(int fd, void *data, size_t len);                /* bytes until len or end, or -errno */
ssize_t fd_read_at(int fd, void *data, size_t len, uint64_t offset); /* the same from an offset on, or from: */
#define FD_HERE UINT64_MAX
/* One small file, whole, with a NUL after it; at most max bytes, else -EFBIG. Returns length or -errno. */
ssize_t fd_read_file(int dirfd, const char *path, char *data, size_t max);
int fd_write_file(int dirfd, const char *path, const char *text); /* open, write once, close; 0 or -errno */
/* 0600, whole or as it was: written as PATH.new, and renamed. 0 or -errno. */
int fd_replace_file(int dirfd, const char *path, const void *data, size_t len);

/* sendmsg of data with at most one descriptor (pass -1 for none). Bytes sent or -errno. */
ssize_t fd_send(int socket, const void *data, size_t len, int pass, int flags);
/* recvmsg; takes one descriptor (close-on-exec) or none, then *ret_pass is -1. Bytes, 0 at end of stream, or -errno;
 * -EBADMSG when several came, which are closed. */
ssize_t fd_recv(int socket, void *data, size_t len, int *ret_pass, int flags);

#endif
