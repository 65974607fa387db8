/* A tree as a tar stream, out of the box and into it. In a worker. Called through the table of ops. Invariant: no link
 * is followed; an entry's data matches its head even if the file changes during the read. */

#include "base/base.h"
#include "runner/ops/op_file.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"
#include "tree/copytree.h"
#include "tree/removal.h"
#include "tree/tar.h"

static uint8_t tar_data[LIMIT_FRAME_PAYLOAD_BYTES];

struct packing {
    struct tar_out tar;
    uint64_t files;
};

static int tar_pack_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    return worker_data(user, data, len, err);
}

/* Packs one entry, called `name` in the archive. Sockets, FIFOs and devices are skipped. */
static int tar_pack_entry(struct packing *out, int dirfd, const char *base, const char *name, struct err *err) {
    static struct tar_entry entry;
    struct stat status;
    if (fstatat(dirfd, base, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* already gone */
    tar_reset(&entry);
    entry.type = S_ISREG(status.st_mode)   ? TAR_FILE
                 : S_ISDIR(status.st_mode) ? TAR_DIR
                 : S_ISLNK(status.st_mode) ? TAR_SYMLINK
                                           : 0;
    autofd fd = -1;
    if (entry.type == 0)
        return 0;
    if (entry.type == TAR_FILE) {
        fd = openat(dirfd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
            return err_errno(err, fd < 0 ? errno : EINVAL, "'%s'", name);
    }
    if (entry.type == TAR_SYMLINK) {
        ssize_t n = readlinkat(dirfd, base, entry.link, sizeof entry.link - 1);
        if (n < 0)
            return 0;
        entry.link[n] = 0;
    }
    snprintf(entry.name, sizeof entry.name, "%s%s", name, entry.type == TAR_DIR ? "/" : "");
    entry.size = entry.type == TAR_FILE ? (uint64_t)status.st_size : 0;
    entry.mode = status.st_mode & 07777;
    entry.mtime = status.st_mtim.tv_sec;
    int r = tar_out_head(&out->tar, &entry, status.st_uid, status.st_gid, err);
    out->files++;
    return r < 0 || fd < 0 ? r : tar_out_content(&out->tar, fd, entry.size, err);
}

static int tar_pack_tree(struct packing *out, int fd, struct err *err) {
    static struct walk walk;
    char name[2 * LIMIT_PATH_BYTES];
    walk_init(&walk, fd);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        for (size_t i = 0; r >= 0 && i < walk.count; i++) {
            snprintf(name, sizeof name, "%s%s", walk.path, walk_name(&walk, &walk.entries[i]));
            r = tar_pack_entry(out, walk.dirfd, walk_name(&walk, &walk.entries[i]), name, err);
        }
    }
    if (r >= 0 && walk.too_long)
        r = err_set(err, ERR_TOO_LARGE, "a path in the tree is longer than %u bytes", LIMIT_PATH_BYTES);
    if (r >= 0 && walk.unreadable)
        r = err_set(err, ERR_DENIED, "%llu directories below cannot be read", (unsigned long long)walk.unreadable);
    walk_done(&walk);
    return r;
}

static int tar_out_work(struct worker *worker, const struct fields *args, struct err *err) {
    struct packing out = {.tar = {.put = tar_pack_put, .user = worker, .data = tar_data, .size = sizeof tar_data}};
    struct place at;
    TRY(op_path(worker->config, args, FIELD_PATH, PATH_READ, &at, err));
    autofd fd = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
    int r;
    if (fd == -ENOTDIR) {
        struct replace replace;
        r = replace_resolve(&replace, &at, args->text[FIELD_PATH], err)
                ?: tar_pack_entry(&out, replace.dirfd, replace.name, replace.name, err);
        if (r >= 0 && out.files == 0)
            r = err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", args->text[FIELD_PATH]);
        replace_done(&replace);
    } else {
        r = fd < 0 ? err_errno(err, -fd, "'%s'", args->text[FIELD_PATH]) : tar_pack_tree(&out, fd, err);
    }
    if (r >= 0)
        r = tar_out_end(&out.tar, err);
    TRY(r);
    autobuf end = buf_max(64);
    field_number(&end, FIELD_FILES, out.files);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_out = {.op = OP_TAR_OUT, .looks = true, .work = tar_out_work};

/* ---- into the box ----
 *
 * 1. Nothing in an archive leads out of the destination: every name is checked, every directory on the way is opened
 *    below a descriptor without following links, and files are created, never opened.
 * 2. Everything goes into a hidden directory first, usually in the destination itself. When the archive is complete and
 *    nothing is in the way, the parts are renamed into place: into existing directories, over existing files. A failure
 *    before that leaves nothing. A cancelled call ends its input, which is such a failure.
 * 3. Devices, FIFOs, set-user-ID bits and a second file of one name are skipped and reported: honest archives have
 *    them. A name that leads outside is not an honest mistake: the archive is refused. */

struct untar {
    struct worker *worker;
    int top;                             /* the destination */
    int stage_parent;                    /* where the hidden directory is: top, or the workspace */
    int stage;                           /* the hidden directory */
    char stage_name[REPLACE_NAME_BYTES]; /* "" if absent */
    struct tar_in tar;
    int file; /* being written; -1: none */
    uint64_t files, size;
    uint64_t made, limit;     /* entries and directories made or skipped, and their limit */
    char dir[TAR_NAME_BYTES]; /* path of dir_fd: consecutive entries are mostly in one directory */
    int dir_fd;
    struct buf skipped; /* records, sent at the end, because the daemon is still sending */
    uint64_t skipped_count;
};

/* ---- input ---- */

static int tar_in_invalid(const struct untar *in, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID, "archive entry '%s': %s", in->tar.entry.name, why);
}

static int tar_in_errno(const struct untar *in, int number, struct err *err) {
    if (number == ELOOP || number == ENOTDIR)
        return tar_in_invalid(in, "a part of its path is a link or a file", err);
    return err_errno(err, number, "cannot unpack archive entry '%s'", in->tar.entry.name);
}

/* Reports it to the client; the first LIMIT_UNPACK_SKIPPED by name. */
static void tar_in_skipped(struct untar *in, const char *why) {
    if (in->skipped_count++ >= LIMIT_UNPACK_SKIPPED)
        return;
    size_t begin = item_begin(&in->skipped);
    field_text(&in->skipped, FIELD_PATH, in->tar.entry.name);
    field_text(&in->skipped, FIELD_MESSAGE, why);
    item_end(&in->skipped, begin);
}

/* A head costs 512 bytes of archive, but a long name thousands of directories: what they make is counted. */
static int tar_in_count(struct untar *in, struct err *err) {
    if (in->made++ < in->limit)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "the archive makes more than %llu files and directories; see max_unpack_entries",
                   (unsigned long long)in->limit);
}

/* ---- entries, below the hidden directory ---- */

/* Opens the directory `path`, and makes missing parts. */
static int tar_in_directory(struct untar *in, const char *path, struct err *err) {
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
            return tar_in_errno(in, -parent, err);
        if (mkdirat(parent, slash ? slash + 1 : part, 0755) == 0) {
            TRY(tar_in_count(in, err));
        } else if (errno != EEXIST) {
            return tar_in_errno(in, errno, err);
        }
        if (at++ == len)
            fd = path_below(in->stage, path, O_RDONLY | O_DIRECTORY, false);
    }
    if (fd < 0)
        return tar_in_errno(in, -fd, err);
    in->dir_fd = fd;
    snprintf(in->dir, sizeof in->dir, "%s", path);
    return 0;
}

/* Of several entries of a name the last counts, as with every tar. Returns 0 if its place is free. */
static int tar_in_make_room(struct untar *in, const char *base, struct err *err) {
    if (unlinkat(in->dir_fd, base, 0) == 0)
        tar_in_skipped(in, "it replaced an earlier entry of the same name");
    else if (errno == EISDIR || errno == EPERM)
        return tar_in_invalid(in, "a directory of the archive has the same name", err);
    else if (errno != ENOENT)
        return tar_in_errno(in, errno, err);
    return 0;
}

static int tar_in_file(struct untar *in, const char *base, struct err *err) {
    TRY(tar_in_make_room(in, base, err));
    in->file = openat(in->dir_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return in->file < 0 ? tar_in_errno(in, errno, err) : 0;
}

static int tar_in_content(void *user, const uint8_t *data, size_t len, struct err *err) {
    const struct untar *in = user;
    int r = in->file < 0 ? 0 : fd_write_all(in->file, data, len);
    return r < 0 ? tar_in_errno(in, -r, err) : 0;
}

static int tar_in_end(void *user, struct err *err) {
    struct untar *in = user;
    const struct tar_entry *entry = &in->tar.entry;
    if (in->file < 0)
        return 0;
    if (fchmod(in->file, entry->mode & 0777) < 0)
        return tar_in_errno(in, errno, err);
    if (entry->mtime > 0)
        futimens(in->file, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)entry->mtime}});
    if (entry->mode & (S_ISUID | S_ISGID))
        tar_in_skipped(in, "its set-user-ID and set-group-ID bits were dropped");
    in->size += entry->size;
    fd_close(&in->file);
    return 0;
}

static int tar_in_symlink(struct untar *in, const char *base, struct err *err) {
    if (!in->tar.entry.link[0])
        return tar_in_invalid(in, "it is a link without a target", err);
    TRY(tar_in_make_room(in, base, err));
    return symlinkat(in->tar.entry.link, in->dir_fd, base) < 0 ? tar_in_errno(in, errno, err) : 0;
}

/* Finds the file that a hard link names: in the archive, or already in the destination. */
static int tar_in_link_source(int top, const char *link, int *ret_dirfd) {
    const char *slash = strrchr(link, '/');
    const char *dir = text_make(TAR_NAME_BYTES, "%.*s", slash ? (int)(slash - link) : 1, slash ? link : ".");
    autofd from = path_below(top, dir, O_PATH | O_DIRECTORY, false);
    struct stat status;
    if (from < 0 || fstatat(from, slash ? slash + 1 : link, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return from < 0 ? from : -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    *ret_dirfd = fd_take(&from);
    return 0;
}

static int tar_in_hard_link(struct untar *in, const char *base, struct err *err) {
    const char *why, *link = tar_safe_name(in->tar.entry.link, &why);
    if (!link || !*link)
        return tar_in_invalid(in, "it is a hard link out of the archive", err);
    autofd from = -1;
    int r = tar_in_link_source(in->stage, link, &from);
    if (r == -ENOENT)
        r = tar_in_link_source(in->top, link, &from);
    if (r == -EINVAL)
        return tar_in_invalid(in, "it is a hard link to something that is not a file", err);
    if (r == -ENOENT)
        return tar_in_invalid(in, "it is a hard link to a file that does not exist", err);
    if (r < 0)
        return tar_in_errno(in, -r, err);
    const char *slash = strrchr(link, '/'), *source = slash ? slash + 1 : link;
    struct stat old, now;
    if (fstatat(from, source, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstatat(in->dir_fd, base, &now, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == now.st_ino &&
        old.st_dev == now.st_dev)
        return 0; /* to itself, or repeated */
    TRY(tar_in_make_room(in, base, err));
    return linkat(from, source, in->dir_fd, base, 0) < 0 ? tar_in_errno(in, errno, err) : 0;
}

/* Always with the owner's rights, because entries below it follow. */
static int tar_in_make_dir(struct untar *in, const char *name, struct err *err) {
    TRY(tar_in_directory(in, name, err));
    bool kept = !*name || fchmod(in->dir_fd, (in->tar.entry.mode & 01777) | 0700) == 0 || errno == EPERM;
    return kept ? 0 : tar_in_errno(in, errno, err);
}

static int tar_in_begin(void *user, struct tar_entry *entry, struct err *err) {
    struct untar *in = user;
    const char *why, *unwanted = entry->type == '3' || entry->type == '4' ? "devices are not created"
                                 : entry->type == TAR_FIFO                ? "FIFOs are not created"
                                                                          : NULL;
    if (!unwanted && !strchr("0125", entry->type))
        return tar_in_invalid(in, "it is neither a file, a directory nor a link", err);
    if (!tar_safe_name(entry->name, &why))
        return tar_in_invalid(in, why, err);
    TRY(tar_in_count(in, err));
    if (unwanted) {
        tar_in_skipped(in, unwanted);
        return 0;
    }
    in->files++;
    if (entry->type == TAR_DIR)
        return tar_in_make_dir(in, entry->name, err);
    if (!*entry->name)
        return tar_in_invalid(in, "it has no name", err);
    const char *slash = strrchr(entry->name, '/'), *base = slash ? slash + 1 : entry->name;
    TRY(tar_in_directory(in, text_make(TAR_NAME_BYTES, "%.*s", slash ? (int)(slash - entry->name) : 0, entry->name),
                         err));
    return entry->type == TAR_FILE      ? tar_in_file(in, base, err)
           : entry->type == TAR_SYMLINK ? tar_in_symlink(in, base, err)
                                        : tar_in_hard_link(in, base, err);
}

static int tar_in_wrong(void *user, const char *why, struct err *err) {
    return tar_in_invalid(user, why, err);
}

/* Reads the whole archive. Without its end mark it is truncated. */
static int tar_in_run(struct untar *in, struct err *err) {
    static const struct tar_sink sink = {tar_in_begin, tar_in_content, tar_in_end, tar_in_wrong, NULL};
    in->tar = (struct tar_in){.sink = &sink, .user = in};
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = worker_read(in->worker, tar_data, sizeof tar_data, err)) != 0)
        r = n < 0 ? (int)n : tar_in_feed(&in->tar, tar_data, (size_t)n, err);
    if (r == 0 && in->tar.inside)
        r = tar_in_invalid(in, "the archive ends inside it", err);
    if (r == 0 && !in->tar.ended)
        r = err_set(err, ERR_INVALID, "the archive is cut off: it ends without its end mark");
    fd_close(&in->file);
    tar_in_done(&in->tar);
    return r;
}

/* ---- into place ---- */

static int tar_merge_errno(const struct walk *walk, const char *name, int number, struct err *err) {
    return err_errno(err, number, "cannot unpack '%s%s'", walk->path, name);
}

/* Checks whether `name` can go into the directory `into`: only directories meet directories. *ret_there: it is an
 * existing directory. */
static int tar_merge_check(const struct walk *walk, const struct walk_entry *entry, int into, bool *ret_there,
                           struct err *err) {
    const char *name = walk_name(walk, entry);
    struct stat status;
    *ret_there = false;
    if (fstatat(into, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : tar_merge_errno(walk, name, errno, err);
    *ret_there = entry->type == DT_DIR && S_ISDIR(status.st_mode);
    if (!*ret_there && entry->type == DT_DIR)
        return err_set(err, ERR_INVALID, "archive entry '%s%s': a part of its path is a link or a file", walk->path,
                       name);
    if (!*ret_there && S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "archive entry '%s%s': there is a directory of that name", walk->path, name);
    return 0;
}

/* Across mounts or file systems: copies under a hidden name, then renames. */
static int tar_merge_copy(const struct walk *walk, const char *name, int into, struct err *err) {
    char temp[REPLACE_NAME_BYTES];
    uint64_t removed = 0;
    temp_name(temp, false);
    int r = copytree_shared(walk->dirfd, name, into, temp, name, err);
    if (r == 0 && renameat(into, temp, into, name) < 0)
        r = tar_merge_errno(walk, name, errno, err);
    if (r < 0)
        removal_shared(into, temp, name, &removed, ERR_IGNORED);
    return r;
}

static int tar_merge_move(const struct walk *walk, const char *name, int into, struct err *err) {
    if (renameat(walk->dirfd, name, into, name) == 0)
        return 0;
    return errno == EXDEV ? tar_merge_copy(walk, name, into, err) : tar_merge_errno(walk, name, errno, err);
}

/* One pass over the hidden tree, as deep as its directories also exist in the destination. */
static int tar_merge_pass(struct untar *in, bool commit, struct err *err) {
    static struct walk walk;
    walk_init(&walk, in->stage);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        autofd into = path_below(in->top, walk.path, O_RDONLY | O_DIRECTORY, false);
        bool writes = false;
        if (into < 0)
            r = tar_merge_errno(&walk, "", -into, err);
        for (size_t i = 0; r >= 0 && i < walk.count; i++) {
            bool there;
            r = tar_merge_check(&walk, &walk.entries[i], into, &there, err);
            walk.entries[i].descend = there;
            writes |= !there;
            if (r >= 0 && commit && !there)
                r = tar_merge_move(&walk, walk_name(&walk, &walk.entries[i]), into, err);
        }
        if (r >= 0 && writes && !commit && faccessat(into, ".", W_OK | X_OK, 0) < 0)
            r = tar_merge_errno(&walk, "", errno, err);
    }
    if (r >= 0 && (walk.unreadable || walk.too_long))
        r = err_set(err, ERR_IO, "some of the unpacked files are not readable");
    walk_done(&walk);
    return r < 0 ? r : 0;
}

/* ---- the call ---- */

/* In the destination or, if that is not writable (but something below it may be), in the workspace. */
static int tar_stage_open(struct untar *in, const struct runner_config *config, const char *shown, struct err *err) {
    struct place at;
    temp_name(in->stage_name, false);
    if (mkdirat(in->top, in->stage_name, 0700) == 0) {
        in->stage_parent = fcntl(in->top, F_DUPFD_CLOEXEC, 3);
    } else {
        int number = errno;
        if ((number == EACCES || number == EPERM) && runner_path(config, config->workspace, PATH_WRITE, &at, err) == 0)
            in->stage_parent = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
        if (in->stage_parent < 0 || mkdirat(in->stage_parent, in->stage_name, 0700) < 0) {
            in->stage_name[0] = 0;
            return err_errno(err, number, "cannot unpack into '%s'", shown);
        }
    }
    in->stage = path_below(in->stage_parent, in->stage_name, O_RDONLY | O_DIRECTORY, false);
    return in->stage < 0 ? err_errno(err, -in->stage, "cannot unpack into '%s'", shown) : 0;
}

static int tar_send_skipped(struct untar *in, struct err *err) {
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
    struct place at;
    TRY(op_path(worker->config, args, FIELD_PATH, PATH_WRITE, &at, err));
    if (args->number[FIELD_FLAGS] & CALL_PARENTS)
        TRY(replace_mkdirs(&at, args->text[FIELD_PATH], 0755, false, NULL, err));
    autofd top = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
    if (top == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no directory '%s'", args->text[FIELD_PATH]);
    if (top < 0)
        return err_errno(err, -top, "'%s'", args->text[FIELD_PATH]);
    in = (struct untar){.worker = worker, .top = top, .stage_parent = -1, .stage = -1, .file = -1, .dir_fd = -1};
    in.limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : LIMIT_UNPACK_ENTRIES;
    buf_init(&in.skipped, LIMIT_UNPACK_SKIPPED * (LIMIT_PATH_BYTES + 256u));
    umask(022);
    int r = tar_stage_open(&in, worker->config, args->text[FIELD_PATH], err) ?: tar_in_run(&in, err);
    fd_close(&in.dir_fd);
    if (r == 0)
        r = tar_merge_pass(&in, false, err) ?: tar_merge_pass(&in, true, err);
    uint64_t removed = 0;
    fd_close(&in.dir_fd);
    fd_close(&in.stage);
    if (in.stage_name[0])
        removal_shared(in.stage_parent, in.stage_name, in.stage_name, &removed, ERR_IGNORED);
    fd_close(&in.stage_parent);
    if (r == 0)
        r = tar_send_skipped(&in, err);
    TRY(r);
    autobuf end = buf_max(64);
    field_number(&end, FIELD_FILES, in.files);
    field_number(&end, FIELD_SIZE, in.size);
    field_number(&end, FIELD_TRUNCATED, in.skipped_count > LIMIT_UNPACK_SKIPPED);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_in = {.op = OP_TAR_IN, .work = tar_in_work, .cleans = true};
