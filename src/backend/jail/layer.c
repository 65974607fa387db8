/* Files of jails kept as layers. Called by box/snapshot/snapshot.c through the backend's verbs. Invariants: a layer
 * is never written to once it has its files, because overlays lie on it; a box's files are either in its own
 * directory or in the layer, at every moment: the move is one rename.
 *
 * A box that is ended to move its files still has its overlay, and for a moment its sleeping runner. Nothing can
 * write through it any more, and both are removed in the background, because unmounting an overlay writes its files
 * to the disk. An image is different: it must be unmounted first, or the next mount of it would not see the last
 * writes. */
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "tree/copytree.h"
#include "backend/ids.h"
#include "backend/spawn.h"
#include "backend/jail/jail.h"
#include "backend/quota/store.h"
#include "tree/live.h"
#include "tree/treewalk.h"

enum { SQUASH_LOOK_MS = 100, MEASURE_ENTRIES = 4096, ENTRY_BYTES = 512 }; /* a name and an inode */

/* ---- what a box's files are doing ---- */

static bool layer_has_files(int box_dir) {
    return faccessat(box_dir, "fs", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Nothing was written since the layers below; the root directory itself is as it was made, too: with the owner of `fs`,
 * which no box sees. */
static bool layer_unchanged(int box_dir) {
    static const char *const names[] = {"fs/upper", "fs/upper.0"};
    struct stat made, status;
    if (!layer_has_files(box_dir))
        return true;
    if (fstatat(box_dir, "fs", &made, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (fstatat(box_dir, names[i], &status, AT_SYMLINK_NOFOLLOW) < 0 || status.st_uid != made.st_uid ||
            status.st_gid != made.st_gid || (status.st_mode & 07777) != 0755 || !backend_is_empty(box_dir, names[i]))
            return false;
    return faccessat(box_dir, "fs/skills", F_OK, AT_SYMLINK_NOFOLLOW) < 0 || backend_is_empty(box_dir, "fs/skills");
}

static int layer_open_box(struct backend *backend, const char *id, struct err *err) {
    int fd = backend_open_dir(backend->boxes_dir, id, false, err);
    return fd < 0 ? err_wrap(err, "the directory of box") : fd;
}

enum backend_files layer_files(struct backend *backend, const char *id) {
    struct jail_record record;
    struct err ignored;
    autofd dir = layer_open_box(backend, id, &ignored);
    if (dir >= 0 && layer_unchanged(dir))
        return FILES_UNCHANGED;
    if (jail_record_read(backend, id, &record) < 0 || !process_alive(record.pid, record.start))
        return FILES_STILL;
    if (!freeze_alone(backend, record.pid))
        return FILES_BUSY;
    /* Files in /dev/shm would end with the runner. Only root may look there from outside: a runner is not dumpable. */
    const char *path = text_make(64, "/proc/%d/root/dev/shm", record.pid);
    if (backend_is_empty(AT_FDCWD, path))
        return FILES_QUIET;
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0 && errno == EACCES ? FILES_ALONE : FILES_BUSY;
}

static bool layer_is_image(int box_dir) {
    struct stat status;
    return fstatat(box_dir, "fs", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

static int layer_move(struct backend *backend, const struct spec *spec, int box_dir, int layer_dir,
                      struct kept *ret_kept, struct err *err) {
    uint64_t begin_us = clock_us();
    enum quota_form form;
    struct err own;
    int r = jail_end(backend, spec->id, layer_is_image(box_dir) ? WAIT_ALL : WAIT_NONE, err);
    if (r < 0)
        return r;
    uint64_t end_us = clock_us();
    if (renameat2(box_dir, "fs", layer_dir, "fs", RENAME_NOREPLACE) < 0)
        return err_errno(err, errno, "the box's files");
    /* Without a disk limit the next start makes new ones. */
    if (spec->limits.disk_mb && quota_whole(&backend->quota, box_dir, spec->limits.disk_mb, &form, &own) < 0)
        quota_remove(box_dir); /* its next start tries again */
    *ret_kept = (struct kept){.moved = true, .method = "layer", .pause_us = end_us - begin_us};
    return 0;
}

static int layer_copy_part(int from_fs, int to_fs, const char *name, struct copied *copied, struct err *err) {
    autofd from = openat(from_fs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(to_fs, name, 0755) < 0)
        return err_errno(err, errno, "the box's files");
    autofd to = openat(to_fs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct copied part = {0};
    int r = to < 0 ? err_errno(err, errno, "the box's files") : copytree(from, to, &part, err);
    if (r < 0)
        return r;
    bool shared = strcmp(part.method, "reflink") == 0 || (copied->method && strcmp(copied->method, "reflink") == 0);
    copied->bytes += part.bytes;
    copied->files += part.files;
    copied->method = shared && copied->bytes == 0 ? "reflink" : "copy";
    return 0;
}

/* Without the work directories of overlays (NAME.work): a layer does not need them, and an ordinary user may not read
 * them. */
static int layer_copy_directory(int box_dir, int layer_dir, struct copied *ret_copied, struct err *err) {
    autofd from = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(layer_dir, "fs", 0755) < 0)
        return err_errno(err, errno, "the box's files");
    autofd to = openat(layer_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autodir *list = to < 0 ? NULL : fd_opendir(from, ".", 0);
    int r = list ? 0 : err_errno(err, errno, "the box's files");
    for (struct dirent *entry; r == 0 && (entry = fd_readdir(list));) {
        const char *end = strrchr(entry->d_name, '.');
        if (entry->d_name[0] != '.' && !(end && strcmp(end, ".work") == 0))
            r = layer_copy_part(from, to, entry->d_name, ret_copied, err);
    }
    return r;
}

/* Cached writes to a box's disk must be in the image before that is copied. */
static int layer_copy_image(struct backend *backend, const char *id, int box_dir, int layer_dir,
                            struct copied *ret_copied, struct err *err) {
    struct jail_record record;
    int r = jail_record_read(backend, id, &record);
    autofd root = r < 0 ? -1 : open(text_make(64, "/proc/%d/root", record.pid), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || syncfs(root) < 0)
        return err_errno(err, errno, "the box's disk");
    autofd from = openat(box_dir, "fs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    autofd to = openat(layer_dir, "fs", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        return err_errno(err, errno, "the box's disk");
    return copytree_file(from, to, ret_copied, err);
}

/* ---- copied while it runs ---- */

/* STATE/boxes/ID/ahead is the copy: locked by its daemon, or a dead one's. */
struct kept_ahead {
    char id[17];
    pid_t pid; /* of the runner that it follows */
    uint64_t start;
    int box, dir;
    struct live *live;
};

/* Takes a copy that no daemon works on any more. */
static void layer_ahead_sweep(struct backend *backend, int box_dir) {
    struct err ignored;
    autofd dir = openat(box_dir, "ahead", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
        trash_put(backend->trash, box_dir, "ahead", &ignored);
}

/* fs/NAME and its overlay. A layer that is not mounted is not written to: it is copied at once. */
static int layer_ahead_part(const struct kept_ahead *ahead, int fs, const char *name, struct live_part *parts,
                            size_t *count, struct err *err) {
    static const char *const mounted[][2] = {{"upper", "/"}, {"upper.0", "/usr"}, {"skills", "/skills"}};
    struct statx root, overlay;
    char path[64];
    size_t i = 0;
    while (i < 3 && strcmp(mounted[i][0], name) != 0)
        i++;
    snprintf(path, sizeof path, "/proc/%d/root", ahead->pid);
    autofd top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd seen = top < 0 || i == 3 ? -1
                                    : openat(top, mounted[i][1][1] ? mounted[i][1] + 1 : ".",
                                             O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autofd from = openat(fs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(ahead->dir, name, 0755) < 0)
        return err_errno(err, errno, "the box's files");
    autofd to = openat(ahead->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || statx(top, "", AT_EMPTY_PATH, STATX_MNT_ID, &root) < 0)
        return err_errno(err, errno, "the box's files");
    bool apart = seen >= 0 && statx(seen, "", AT_EMPTY_PATH, STATX_MNT_ID, &overlay) == 0 &&
                 (i == 0 || overlay.stx_mnt_id != root.stx_mnt_id);
    if (!apart && backend_is_empty(fs, name)) {
        struct copied copied;
        return copytree(from, to, &copied, err);
    }
    if (!apart || *count == LIVE_PARTS)
        return err_set(err, ERR_UNSUPPORTED, "'%.60s' is not an overlay that can be followed", name);
    parts[(*count)++] = (struct live_part){fd_take(&from), fd_take(&to), fd_take(&seen), mounted[i][1]};
    return 0;
}

static int layer_ahead_copy(struct kept_ahead *ahead, struct err *err) {
    struct live_part parts[LIVE_PARTS];
    size_t count = 0;
    int r = 0;
    autofd fs = openat(ahead->box, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autodir *list = fs < 0 ? NULL : fd_opendir(fs, ".", 0);
    struct statfs system;
    if (!list || fstatfs(fs, &system) < 0)
        return err_errno(err, errno, "the box's files");
    if ((unsigned long)system.f_type == BTRFS_SUPER_MAGIC)
        return err_set(err, ERR_UNSUPPORTED, "btrfs keeps files without a copy");
    if ((unsigned long)system.f_type == TMPFS_MAGIC)
        return err_set(err, ERR_UNSUPPORTED, "tmpfs does not show that a mapped file was written to");
    for (struct dirent *entry; r == 0 && (entry = fd_readdir(list));) {
        const char *end = strrchr(entry->d_name, '.');
        if (entry->d_name[0] != '.' && !(end && strcmp(end, ".work") == 0))
            r = layer_ahead_part(ahead, fs, entry->d_name, parts, &count, err);
    }
    if (r == 0 && count > 0)
        return live_begin(parts, count, &ahead->live, err);
    for (size_t i = 0; i < count; i++) {
        close(parts[i].from);
        close(parts[i].to);
        close(parts[i].overlay);
    }
    return r < 0 ? r : err_set(err, ERR_UNSUPPORTED, "the box has no overlay");
}

void layer_keep_ahead_end(struct backend *backend, struct kept_ahead *ahead) {
    struct err ignored;
    if (!ahead)
        return;
    live_end(ahead->live);
    if (ahead->dir >= 0)
        trash_put(backend->trash, ahead->box, "ahead", &ignored); /* not there where keep used it */
    fd_close(&ahead->dir);
    fd_close(&ahead->box);
    free(ahead);
}

int layer_keep_ahead(struct backend *backend, const char *id, struct kept_ahead **ret_ahead, struct err *err) {
    struct jail_record record;
    autofd box = layer_open_box(backend, id, err);
    if (box < 0)
        return box;
    if (layer_is_image(box) || freeze_is(backend, id) || jail_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_UNSUPPORTED, "the box's files cannot be followed");
    layer_ahead_sweep(backend, box);
    if (mkdirat(box, "ahead", 0755) < 0)
        return err_errno(err, errno, "a copy of the box's files");
    struct kept_ahead *ahead = xcalloc(1, sizeof *ahead);
    *ahead = (struct kept_ahead){.pid = record.pid, .start = record.start, .dir = -1};
    snprintf(ahead->id, sizeof ahead->id, "%.16s", id);
    ahead->box = fd_take(&box);
    ahead->dir = openat(ahead->box, "ahead", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = ahead->dir < 0 || flock(ahead->dir, LOCK_EX | LOCK_NB) < 0
                ? err_errno(err, errno, "a copy of the box's files")
                : layer_ahead_copy(ahead, err);
    if (r < 0)
        layer_keep_ahead_end(backend, ahead);
    else
        *ret_ahead = ahead;
    return r;
}

struct layer_stopping {
    struct backend *backend;
    const struct kept_ahead *ahead;
};

static int layer_programs_stop(void *user, struct err *err) {
    const struct layer_stopping *stopping = user;
    return freeze_hold(stopping->backend, stopping->ahead->id, err);
}

static int layer_programs_resume(void *user, struct err *err) {
    const struct layer_stopping *stopping = user;
    return freeze_let_go(stopping->backend, stopping->ahead->id, err);
}

/* All that the box's own /proc shows. */
static void layer_programs_each(void *user, void (*look)(void *copy, const char *process), void *copy) {
    const struct layer_stopping *stopping = user;
    char path[40], process[64];
    snprintf(path, sizeof path, "/proc/%d/root/proc", stopping->ahead->pid);
    autodir *list = fd_opendir(AT_FDCWD, path, 0);
    for (struct dirent *entry; (entry = fd_readdir(list));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            snprintf(process, sizeof process, "%s/%.16s", path, entry->d_name);
            look(copy, process);
        }
}

/* The copy that was begun ahead becomes the layer's. */
static int layer_keep_followed(struct backend *backend, int layer_dir, struct kept_ahead *ahead, struct kept *ret_kept,
                               struct err *err) {
    struct layer_stopping stopping = {backend, ahead};
    const struct live_programs programs = {layer_programs_stop, layer_programs_resume, layer_programs_each, &stopping};
    struct copied copied;
    uint64_t stopped_us = 0;
    int r = live_finish(ahead->live, &programs, &copied, &stopped_us, err);
    live_end(ahead->live);
    ahead->live = NULL;
    if (r == 0 && renameat2(ahead->box, "ahead", layer_dir, "fs", RENAME_NOREPLACE) < 0)
        r = err_errno(err, errno, "the box's files");
    if (r == 0)
        *ret_kept = (struct kept){.method = copied.method, .pause_us = stopped_us, .bytes = copied.bytes};
    return r;
}

static int layer_copy(struct backend *backend, const struct spec *spec, int box_dir, int layer_dir,
                      struct kept *ret_kept, struct err *err) {
    bool was_frozen = freeze_is(backend, spec->id);
    uint64_t begin_us = clock_us();
    struct copied copied = {0};
    struct err own;
    struct jail_record record;
    struct kept_ahead *ahead = ret_kept->ahead;
    int r = store_snapshot(box_dir, layer_dir, err); /* of one moment by itself: without a pause */
    if (r != -ERR_NOT_FOUND) {
        if (r == 0)
            *ret_kept = (struct kept){.method = "btrfs"};
        return r;
    }
    if (ahead && !was_frozen && jail_record_read(backend, spec->id, &record) == 0 && record.pid == ahead->pid &&
        record.start == ahead->start) {
        r = layer_keep_followed(backend, layer_dir, ahead, ret_kept, err);
        if (r != -ERR_UNSUPPORTED)
            return r;
    }
    r = was_frozen ? 0 : freeze_hold(backend, spec->id, err);
    if (r == 0)
        r = layer_is_image(box_dir) ? layer_copy_image(backend, spec->id, box_dir, layer_dir, &copied, err)
                                    : layer_copy_directory(box_dir, layer_dir, &copied, err);
    if (!was_frozen && freeze_let_go(backend, spec->id, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    if (r == 0)
        *ret_kept = (struct kept){
            .method = copied.method, .pause_us = was_frozen ? 0 : clock_us() - begin_us, .bytes = copied.bytes};
    return r;
}

/* What a daemon that died in the middle of a snapshot left: a freeze, or half of a copy. */
int layer_let_go(struct backend *backend, const char *id, struct err *err) {
    struct err ignored;
    autofd box = layer_open_box(backend, id, &ignored);
    if (box >= 0)
        layer_ahead_sweep(backend, box);
    return freeze_let_go(backend, id, err);
}

static int layer_open(struct backend *backend, const char *layer, struct err *err) {
    int fd = backend_open_dir(backend->layers_dir, layer, false, err);
    return fd < 0 ? err_wrap(err, "the layer") : fd;
}

int layer_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
               struct err *err) {
    autofd box = layer_open_box(backend, spec->id, err);
    if (box < 0)
        return box;
    autofd dir = layer_open(backend, layer, err);
    if (dir < 0)
        return dir;
    struct stat status;
    if (fstatat(box, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "the box's files");
    if (S_ISDIR(status.st_mode) && faccessat(box, "fs/upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "the box's files are in memory (disk_quota: tmpfs) and end with its processes: they cannot be "
                       "kept; use another disk_quota");
    return (move ? layer_move : layer_copy)(backend, spec, box, dir, ret_kept, err);
}

struct layer_size {
    uint64_t bytes, entries, most; /* most: of entries */
};

static int layer_measure_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct layer_size *size = user;
    size->bytes += (uint64_t)entry->status.st_blocks * 512 + ENTRY_BYTES;
    return ++size->entries > size->most ? err_set(err, ERR_TOO_LARGE, "many files") : TREE_DESCEND;
}

/* A btrfs counts what is on the disk, and a file knows sooner what it will take there: few files are asked; of many,
 * the file system is, when they are written. Others count at once, or not at all. */
static int layer_measure_directory(int dir, uint64_t *ret_bytes, struct err *err) {
    struct statfs system;
    autofd fs = openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || fstatfs(fs, &system) < 0)
        return err_errno(err, errno, "the box's files");
    bool late = (unsigned long)system.f_type == BTRFS_SUPER_MAGIC;
    if (!late && quota_counted(dir, ret_bytes) == 0)
        return 0;
    struct layer_size size = {.most = late ? MEASURE_ENTRIES : UINT64_MAX};
    int r = treewalk(fs, layer_measure_entry, &size, err);
    if (r < 0 && late && syncfs(fs) == 0 && quota_counted(dir, ret_bytes) == 0)
        return 0;
    if (r == 0)
        *ret_bytes = size.bytes;
    return r;
}

int layer_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err) {
    autofd dir = layer ? layer_open(backend, name, err) : layer_open_box(backend, name, err);
    struct jail_record record;
    struct stat status;
    struct statfs system;
    char path[64];
    if (dir < 0)
        return dir;
    if (fstatat(dir, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "the box's files");
    if (!S_ISREG(status.st_mode))
        return layer_measure_directory(dir, ret_bytes, err);
    uint64_t image = (uint64_t)status.st_blocks * 512, mounted = 0;
    /* The file system in a mounted image may have more than the image has yet. */
    if (!layer && jail_record_read(backend, name, &record) == 0 && process_alive(record.pid, record.start)) {
        snprintf(path, sizeof path, "/proc/%d/root", record.pid);
        if (statfs(path, &system) == 0)
            mounted = (uint64_t)(system.f_blocks - system.f_bfree) * (uint64_t)system.f_bsize;
    }
    *ret_bytes = image > mounted ? image : mounted;
    return 0;
}

int layer_fresh(struct backend *backend, const struct spec *spec, struct err *err) {
    enum quota_form form;
    autofd box = layer_open_box(backend, spec->id, err);
    if (box < 0)
        return box;
    int r = jail_end(backend, spec->id, layer_is_image(box) ? WAIT_ALL : WAIT_PROCESSES, err);
    /* In a directory like a box's, so that the trash knows how files of each form are removed. */
    if (r == 0)
        r = trash_put(backend->trash, box, "old", err); /* of a daemon that was killed here */
    if (r == 0 && layer_has_files(box)) {
        if (mkdirat(box, "old", 0700) < 0 || renameat(box, "fs", box, "old/fs") < 0)
            return err_errno(err, errno, "the box's files");
        r = trash_put(backend->trash, box, "old", err);
    }
    return r < 0 || !spec->limits.disk_mb ? r : quota_whole(&backend->quota, box, spec->limits.disk_mb, &form, err);
}

/* In another process: it reads what boxes have made, and may be ended. */
static int layer_squash_run(struct backend *backend, const char *const *argv, const atomic_bool *stop,
                            struct err *err) {
    char text[400] = "";
    int pair[2];
    pid_t pid;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    autofd ours = pair[0], theirs = pair[1];
    const struct spawn spawn = {.program = backend->program.path, .argv = argv, .in = -1, .out = -1, .errors = theirs};
    int r = spawn_start(&spawn, &pid, err);
    fd_close(&theirs);
    if (r < 0)
        return r;
    struct pollfd polls = {.fd = ours, .events = POLLIN};
    while (poll(&polls, 1, SQUASH_LOOK_MS) <= 0) /* readable at its end at the latest */
        if (atomic_load(stop))
            kill(pid, SIGKILL); /* our child, not waited for */
    ssize_t n = read(ours, text, sizeof text - 1);
    text[n > 0 ? n - 1 : 0] = 0; /* without its newline */
    return spawn_wait(pid) == 0 ? 0 : err_set(err, ERR_IO, "%s", *text ? text : "squashing was interrupted");
}

int layer_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                 struct err *err) {
    const char *argv[LIMIT_LAYERS + 4] = {"cubby-runner", "squash"};
    autoarena arena = ARENA_EMPTY;
    autofd dir = layer_open(backend, layer, err);
    if (dir < 0)
        return dir;
    if (mkdirat(dir, "part", 0755) < 0)
        return err_errno(err, errno, "the layer %s", layer);
    argv[2] = arena_printf(&arena, "%s/layers/%s/part", backend->env->state_dir, layer);
    for (size_t i = 0; i < LIMIT_LAYERS && layers[i]; i++)
        argv[3 + i] = arena_printf(&arena, "%s/layers/%s/fs", backend->env->state_dir, layers[i]);
    int r = layer_squash_run(backend, argv, stop, err);
    if (r == 0 && renameat2(dir, "part", dir, "fs", RENAME_NOREPLACE) < 0) /* whole, or not there */
        r = err_errno(err, errno, "the layer %s", layer);
    return r;
}

int layer_drop(struct backend *backend, const char *layer, struct err *err) {
    return text_id(layer) ? trash_put(backend->trash, backend->layers_dir, layer, err)
                          : err_set(err, ERR_INVALID, "'%.40s' is not a layer", layer);
}
