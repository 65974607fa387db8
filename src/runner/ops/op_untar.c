/* A tar stream into the box: unpacked whole or not at all. In a worker. Called through the table of ops.
 *
 * 1. What an archive says is never followed out of the destination: every name is checked, every directory on the way is
 *    opened below a descriptor with no link allowed, and files are made new, never opened.
 * 2. All of it goes into a hidden directory first, as a rule in the destination itself. When the archive has come to its
 *    end and nothing stands in its way, the parts are renamed into place: into directories that are there already, over
 *    files that are. Whatever fails before leaves nothing; a cancelled call ends its input, which is such a failure.
 * 3. What an archive may not bring but may honestly hold (devices, FIFOs, set-user-ID bits, a second file of a name) is
 *    left out and told. A name that leads outside is no mistake: the archive is refused. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"
#include "tree/copytree.h"
#include "tree/removal.h"
#include "tree/tar.h"

static uint8_t tar_data[LIMIT_FRAME_PAYLOAD_BYTES];

struct untar {
    struct worker *worker;
    int top;                             /* the destination */
    int stage_parent;                    /* where the hidden directory is: top, or the workspace */
    int stage;                           /* the hidden directory */
    char stage_name[REPLACE_NAME_BYTES]; /* "" when there is none */
    struct tar_in tar;
    int file; /* that is being written; -1: none */
    uint64_t files, size;
    uint64_t made, limit;     /* entries and directories made or left out, and how many there may be */
    char dir[TAR_NAME_BYTES]; /* the directory open at dir_fd: entries mostly follow each other in one */
    int dir_fd;
    struct buf skipped; /* records, sent at the end: until then the daemon is busy sending */
    uint64_t skipped_count;
};

/* ---- input ---- */

static int in_invalid(const struct untar *in, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID, "archive entry '%s': %s", in->tar.entry.name, why);
}

static int in_errno(const struct untar *in, int number, struct err *err) {
    if (number == ELOOP || number == ENOTDIR)
        return in_invalid(in, "a part of its path is a link or a file", err);
    return err_errno(err, number, "archive entry '%s'", in->tar.entry.name);
}

/* Told to the client, the first LIMIT_UNPACK_SKIPPED of them by name. */
static void in_skipped(struct untar *in, const char *why) {
    if (in->skipped_count++ >= LIMIT_UNPACK_SKIPPED)
        return;
    size_t begin = item_begin(&in->skipped);
    field_text(&in->skipped, FIELD_PATH, in->tar.entry.name);
    field_text(&in->skipped, FIELD_MESSAGE, why);
    item_end(&in->skipped, begin);
}

/* A head costs 512 bytes of archive, and a long name thousands of directories: what they make is counted. */
static int in_count(struct untar *in, struct err *err) {
    if (in->made++ < in->limit)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "the archive makes more than %llu files and directories; see max_unpack_entries",
                   (unsigned long long)in->limit);
}

/* ---- entries, below the hidden directory ---- */

/* Opens the directory `path`, making what is missing. */
static int in_directory(struct untar *in, const char *path, struct err *err) {
    if (in->dir_fd >= 0 && strcmp(in->dir, path) == 0)
        return 0;
    fd_close(&in->dir_fd);
    char part[TAR_NAME_BYTES];
    int fd = path_below(in->stage, path, O_RDONLY | O_DIRECTORY, false);
    for (size_t at = 0, len = strlen(path); fd == -ENOENT && at < len;) {
        at += strcspn(path + at, "/");
        memcpy(part, path, at);
        part[at] = 0;
        char *slash = strrchr(part, '/');
        if (slash)
            *slash = 0;
        autofd parent = path_below(in->stage, slash ? part : "", O_RDONLY | O_DIRECTORY, false);
        if (parent < 0)
            return in_errno(in, -parent, err);
        if (mkdirat(parent, slash ? slash + 1 : part, 0755) == 0) {
            int r = in_count(in, err);
            if (r < 0)
                return r;
        } else if (errno != EEXIST) {
            return in_errno(in, errno, err);
        }
        if (at++ == len)
            fd = path_below(in->stage, path, O_RDONLY | O_DIRECTORY, false);
    }
    if (fd < 0)
        return in_errno(in, -fd, err);
    in->dir_fd = fd;
    snprintf(in->dir, sizeof in->dir, "%s", path);
    return 0;
}

/* Splits a safe name, opens its directory; *ret_base is the last part. */
static int in_parent(struct untar *in, char *name, const char **ret_base, struct err *err) {
    char dir[TAR_NAME_BYTES];
    char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    memcpy(dir, name, len);
    dir[len] = 0;
    *ret_base = slash ? slash + 1 : name;
    return in_directory(in, dir, err);
}

/* The last of several entries of a name counts, as with every tar. 0: its place is free. */
static int in_make_room(struct untar *in, const char *base, struct err *err) {
    if (unlinkat(in->dir_fd, base, 0) == 0)
        in_skipped(in, "an entry before it has the same name: this one took its place");
    else if (errno == EISDIR || errno == EPERM)
        return in_invalid(in, "a directory of the archive has the same name", err);
    else if (errno != ENOENT)
        return in_errno(in, errno, err);
    return 0;
}

static int in_file(struct untar *in, const char *base, struct err *err) {
    int r = in_make_room(in, base, err);
    if (r < 0)
        return r;
    in->file = openat(in->dir_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return in->file < 0 ? in_errno(in, errno, err) : 0;
}

static int in_content(void *user, const uint8_t *data, size_t len, struct err *err) {
    const struct untar *in = user;
    int r = in->file < 0 ? 0 : fd_write_all(in->file, data, len);
    return r < 0 ? in_errno(in, -r, err) : 0;
}

static int in_end(void *user, struct err *err) {
    struct untar *in = user;
    const struct tar_entry *entry = &in->tar.entry;
    if (in->file < 0)
        return 0;
    if (fchmod(in->file, entry->mode & 0777) < 0)
        return in_errno(in, errno, err);
    if (entry->mtime > 0)
        futimens(in->file, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)entry->mtime}});
    if (entry->mode & (S_ISUID | S_ISGID))
        in_skipped(in, "its set-user-ID and set-group-ID bits were left out");
    in->size += entry->size;
    fd_close(&in->file);
    return 0;
}

static int in_symlink(struct untar *in, const char *base, struct err *err) {
    if (!in->tar.entry.link[0])
        return in_invalid(in, "a link to nothing", err);
    int r = in_make_room(in, base, err);
    if (r == 0 && symlinkat(in->tar.entry.link, in->dir_fd, base) < 0)
        r = in_errno(in, errno, err);
    return r;
}

/* The file a hard link names: of the archive, or one that is in the destination already. */
static int in_link_source(int top, const char *link, int *ret_dirfd) {
    const char *slash = strrchr(link, '/');
    char dir[TAR_NAME_BYTES];
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - link) : 1, slash ? link : ".");
    autofd from = path_below(top, dir, O_PATH | O_DIRECTORY, false);
    struct stat status;
    if (from < 0 || fstatat(from, slash ? slash + 1 : link, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return from < 0 ? from : -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    *ret_dirfd = fd_take(&from);
    return 0;
}

static int in_hard_link(struct untar *in, const char *base, struct err *err) {
    const char *why, *link = tar_safe_name(in->tar.entry.link, &why);
    if (!link || !*link)
        return in_invalid(in, "it is a hard link out of the archive", err);
    autofd from = -1;
    int r = in_link_source(in->stage, link, &from);
    if (r == -ENOENT)
        r = in_link_source(in->top, link, &from);
    if (r == -EINVAL)
        return in_invalid(in, "it is a hard link to something that is not a file", err);
    if (r == -ENOENT)
        return in_invalid(in, "it is a hard link to a file that is not there", err);
    if (r < 0)
        return in_errno(in, -r, err);
    const char *slash = strrchr(link, '/'), *source = slash ? slash + 1 : link;
    struct stat old, now;
    if (fstatat(from, source, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstatat(in->dir_fd, base, &now, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == now.st_ino &&
        old.st_dev == now.st_dev)
        return 0; /* to itself, or said twice */
    r = in_make_room(in, base, err);
    if (r == 0 && linkat(from, source, in->dir_fd, base, 0) < 0)
        r = in_errno(in, errno, err);
    return r;
}

/* Never less than the owner's rights: the entries below still have to come. */
static int in_make_dir(struct untar *in, const char *name, struct err *err) {
    int r = in_directory(in, name, err);
    if (r == 0 && *name && fchmod(in->dir_fd, (in->tar.entry.mode & 01777) | 0700) < 0 && errno != EPERM)
        r = in_errno(in, errno, err);
    return r;
}

/* What no archive may bring into a box; NULL: what it may. */
static const char *in_unwanted(char type) {
    return type == '3' || type == '4' ? "devices are not made" : type == TAR_FIFO ? "FIFOs are not made" : NULL;
}

static int in_begin(void *user, struct tar_entry *entry, struct err *err) {
    struct untar *in = user;
    const char *why, *base = NULL, *unwanted = in_unwanted(entry->type);
    if (!unwanted && !strchr("0125", entry->type))
        return in_invalid(in, "neither a file, a directory nor a link", err);
    if (!tar_safe_name(entry->name, &why))
        return in_invalid(in, why, err);
    int r = in_count(in, err);
    if (r < 0)
        return r;
    if (unwanted) {
        in_skipped(in, unwanted);
        return 0;
    }
    in->files++;
    if (entry->type == TAR_DIR)
        return in_make_dir(in, entry->name, err);
    if (!*entry->name)
        return in_invalid(in, "it has no name", err);
    r = in_parent(in, entry->name, &base, err);
    if (r < 0)
        return r;
    return entry->type == TAR_FILE      ? in_file(in, base, err)
           : entry->type == TAR_SYMLINK ? in_symlink(in, base, err)
                                        : in_hard_link(in, base, err);
}

static int in_wrong(void *user, const char *why, struct err *err) {
    return in_invalid(user, why, err);
}

/* The whole archive. One that does not come to its end mark is cut off: nobody knows what is missing. */
static int in_run(struct untar *in, struct err *err) {
    static const struct tar_sink sink = {in_begin, in_content, in_end, in_wrong};
    in->tar = (struct tar_in){.sink = &sink, .user = in};
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = worker_read(in->worker, tar_data, sizeof tar_data, err)) != 0)
        r = n < 0 ? (int)n : tar_in_feed(&in->tar, tar_data, (size_t)n, err);
    if (r == 0 && in->tar.inside)
        r = in_invalid(in, "the archive ends inside it", err);
    if (r == 0 && !in->tar.ended)
        r = err_set(err, ERR_INVALID, "the archive is cut off: it ends without its end mark");
    fd_close(&in->file);
    tar_in_done(&in->tar);
    return r;
}

/* ---- into place ---- */

static int merge_errno(const struct walk *walk, const char *name, int number, struct err *err) {
    return err_errno(err, number, "unpacking '%s%s'", walk->path, name);
}

/* Whether `name` can go into the directory `into`: only directories meet directories. *ret_there: it is a directory
 * that is there already. */
static int merge_check(const struct walk *walk, const struct walk_entry *entry, int into, bool *ret_there,
                       struct err *err) {
    const char *name = walk_name(walk, entry);
    struct stat status;
    *ret_there = false;
    if (fstatat(into, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : merge_errno(walk, name, errno, err);
    *ret_there = entry->type == DT_DIR && S_ISDIR(status.st_mode);
    if (!*ret_there && entry->type == DT_DIR)
        return err_set(err, ERR_INVALID, "archive entry '%s%s': a part of its path is a link or a file", walk->path,
                       name);
    if (!*ret_there && S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "archive entry '%s%s': there is a directory of that name", walk->path, name);
    return 0;
}

/* Another mount, or another file system: copied under a hidden name, then renamed. */
static int merge_copy(const struct walk *walk, const char *name, int into, struct err *err) {
    char temp[REPLACE_NAME_BYTES];
    uint64_t removed = 0;
    struct err ignored;
    temp_name(temp, false);
    int r = copytree_shared(walk->dirfd, name, into, temp, name, err);
    if (r == 0 && renameat(into, temp, into, name) < 0)
        r = merge_errno(walk, name, errno, err);
    if (r < 0)
        removal_shared(into, temp, name, &removed, &ignored);
    return r;
}

static int merge_move(const struct walk *walk, const char *name, int into, struct err *err) {
    if (renameat(walk->dirfd, name, into, name) == 0)
        return 0;
    return errno == EXDEV ? merge_copy(walk, name, into, err) : merge_errno(walk, name, errno, err);
}

/* One pass over the hidden tree, as deep as its directories are in the destination too. */
static int merge_pass(struct untar *in, bool commit, struct err *err) {
    static struct walk walk;
    walk_init(&walk, in->stage);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        autofd into = path_below(in->top, walk.path, O_RDONLY | O_DIRECTORY, false);
        bool writes = false;
        if (into < 0)
            r = merge_errno(&walk, "", -into, err);
        for (size_t i = 0; r >= 0 && i < walk.count; i++) {
            bool there;
            r = merge_check(&walk, &walk.entries[i], into, &there, err);
            walk.entries[i].descend = there;
            writes |= !there;
            if (r >= 0 && commit && !there)
                r = merge_move(&walk, walk_name(&walk, &walk.entries[i]), into, err);
        }
        if (r >= 0 && writes && !commit && faccessat(into, ".", W_OK | X_OK, 0) < 0)
            r = merge_errno(&walk, "", errno, err);
    }
    if (r >= 0 && (walk.unreadable || walk.too_long))
        r = err_set(err, ERR_IO, "not all of what was unpacked can be read");
    walk_done(&walk);
    return r < 0 ? r : 0;
}

/* ---- the call ---- */

/* In the destination, or, where that may not be written to but perhaps what is below it, in the workspace. */
static int stage_open(struct untar *in, const struct runner_config *config, const char *shown, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root, number = 0;
    temp_name(in->stage_name, false);
    if (mkdirat(in->top, in->stage_name, 0700) == 0) {
        in->stage_parent = fcntl(in->top, F_DUPFD_CLOEXEC, 3);
    } else {
        number = errno;
        if ((number == EACCES || number == EPERM) &&
            runner_path(config, config->workspace, PATH_WRITE, &root, path, err) == 0)
            in->stage_parent = path_open(root, path, O_RDONLY | O_DIRECTORY, 0);
        if (in->stage_parent < 0 || mkdirat(in->stage_parent, in->stage_name, 0700) < 0) {
            in->stage_name[0] = 0;
            return err_errno(err, number, "unpacking into '%s'", shown);
        }
    }
    in->stage = path_below(in->stage_parent, in->stage_name, O_RDONLY | O_DIRECTORY, false);
    return in->stage < 0 ? err_errno(err, -in->stage, "unpacking into '%s'", shown) : 0;
}

static void stage_close(struct untar *in) {
    uint64_t removed = 0;
    struct err ignored;
    fd_close(&in->dir_fd);
    fd_close(&in->stage);
    if (in->stage_name[0])
        removal_shared(in->stage_parent, in->stage_name, in->stage_name, &removed, &ignored);
    fd_close(&in->stage_parent);
}

static int send_skipped(struct untar *in, struct err *err) {
    struct view view = view_of(in->skipped.data, in->skipped.len), record;
    int r = 0;
    while (r >= 0 && item_next(&view, &record, err) > 0) {
        buf_put(worker_item(in->worker), record.data, record.len);
        r = worker_item_end(in->worker, err);
    }
    return r;
}

static int tar_in_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct untar in;
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(worker->config, args, FIELD_PATH, PATH_WRITE, &root, path, err);
    if (r == 0 && (args->number[FIELD_FLAGS] & CALL_PARENTS))
        r = replace_mkdirs(root, path, args->text[FIELD_PATH], 0755, false, err);
    if (r < 0)
        return r;
    autofd top = path_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (top == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no directory '%s'", args->text[FIELD_PATH]);
    if (top < 0)
        return err_errno(err, -top, "'%s'", args->text[FIELD_PATH]);
    in = (struct untar){.worker = worker, .top = top, .stage_parent = -1, .stage = -1, .file = -1, .dir_fd = -1};
    in.limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : LIMIT_UNPACK_ENTRIES;
    buf_init(&in.skipped, LIMIT_UNPACK_SKIPPED * (LIMIT_PATH_BYTES + 256u));
    umask(022);
    r = stage_open(&in, worker->config, args->text[FIELD_PATH], err);
    if (r == 0)
        r = in_run(&in, err);
    fd_close(&in.dir_fd);
    if (r == 0)
        r = merge_pass(&in, false, err);
    if (r == 0)
        r = merge_pass(&in, true, err);
    stage_close(&in);
    if (r == 0)
        r = send_skipped(&in, err);
    if (r < 0)
        return r;
    autobuf end = buf_max(64);
    field_number(&end, FIELD_FILES, in.files);
    field_number(&end, FIELD_SIZE, in.size);
    field_number(&end, FIELD_TRUNCATED, in.skipped_count > LIMIT_UNPACK_SKIPPED);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_in = {.op = OP_TAR_IN, .work = tar_in_work, .cleans = true};
