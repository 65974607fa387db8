/* Spawns tar. The output of a box is hostile. Invariant, only as a whole:
 * 1. it is unpacked into a new, empty directory that only we can enter, so there is no link of ours to write through;
 * 2. GNU tar removes "/" and ".." from names and makes links that point outside only at the very end, so it does not
 *    write through a link of the archive either (never give it -P);
 * 3. owners and modes are ours (--no-same-owner, --no-same-permissions), and the stream is never decompressed;
 * 4. devices, FIFOs and set-user-ID bits are removed before the tree gets its name (archive_clean). */
#include "cli/archive.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/base.h"
#include "tree/treewalk.h"

extern char **environ;

/* theirs: the end of the pipe that becomes tar's standard input (0) or output (1). */
static int archive_spawn(const char *const *argv, int theirs, struct archive *ret_archive, struct err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe");
    autofd their_end = ends[theirs], our_end = ends[!theirs];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, their_end, theirs);
    if (theirs == STDOUT_FILENO)
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP); /* we handle Ctrl-C */
    unsetenv("TAR_OPTIONS"); /* the environment must not change rules 2 and 3 */
    pid_t pid;
    int number = posix_spawnp(&pid, "tar", &actions, &attributes, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (number)
        return err_errno(err, number, "cannot start tar");
    *ret_archive = (struct archive){.pid = pid, .fd = fd_take(&our_end)};
    return 0;
}

int archive_pack(const char *dir, struct archive *ret_archive, struct err *err) {
    const char *argv[] = {"tar", "-c", "-f", "-", "-C", dir, ".", NULL};
    return archive_spawn(argv, STDOUT_FILENO, ret_archive, err);
}

int archive_pack_names(const char *dir, const struct buf *names, struct archive *ret_archive, struct err *err) {
    /* The list may be longer than an argument or a pipe can be. */
    autofd list = memfd_create("cubby-names", 0);
    char from[64];
    if (list < 0 || fd_write_all(list, names->data, names->len) < 0)
        return err_errno(err, errno, "the list of files");
    snprintf(from, sizeof from, "--files-from=/proc/self/fd/%d", list);
    const char *argv[] = {"tar", "-c", "-f", "-", "-C", dir, "--no-recursion", "--null", "--verbatim-files-from",
                          from,  NULL};
    return archive_spawn(argv, STDOUT_FILENO, ret_archive, err);
}

int archive_unpack(const char *dir, struct archive *ret_archive, struct err *err) {
    const char *argv[] = {
        "tar", "-x", "-f", "-", "-C", dir, "--no-same-owner", "--no-same-permissions", "--warning=no-timestamp", NULL};
    return archive_spawn(argv, STDIN_FILENO, ret_archive, err);
}

int archive_end(struct archive *archive, struct err *err) {
    int status = 0;
    fd_close(&archive->fd);
    while (waitpid(archive->pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, errno, "tar");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, ERR_IO, "tar %s %d", WIFEXITED(status) ? "ended with" : "was ended by signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int archive_clean_entry(void *user, const struct tree_entry *entry, struct err *err) {
    mode_t mode = entry->status.st_mode;
    unsigned *removed = user;
    int r = 0;
    if (entry->kind == 0) {
        ++*removed;
        r = unlinkat(entry->dir, entry->name, 0);
    } else if (entry->kind != 'l' && (mode & (S_ISUID | S_ISGID))) {
        r = fchmodat(entry->dir, entry->name, mode & 01777, 0);
    }
    return r < 0 ? err_errno(err, errno, "%.300s", entry->name) : TREE_DESCEND;
}

int archive_clean(const char *dir, unsigned *ret_removed, struct err *err) {
    struct stat status;
    unsigned removed = 0;
    autofd top = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0 || fstat(top, &status) < 0 || fchmod(top, status.st_mode & 01777) < 0)
        return err_errno(err, errno, "%.300s", dir);
    TRY(treewalk(top, archive_clean_entry, &removed, err));
    *ret_removed = removed;
    return 0;
}
