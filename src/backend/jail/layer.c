/* Files of jails kept as layers, and what lies below a box. Called by box/snapshot/snapshot.c through the backend's verbs. Invariant:
 * a layer is never written to once it has its files, because overlays lie on it; what a box has is either in its
 * own directory or in the layer, at every moment: the move is one rename.
 *
 * A box that is ended to have its files moved still has its overlay, and a moment longer its sleeping runner: nobody can
 * write through it any more, and both go in the background (an overlay that goes writes its files to the disk, which takes
 * as long as there are files). An
 * image is different: it must be unmounted first, or what is mounted from it next would not see what was written last. */
#include "backend/jail/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tree/copytree.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/quota/store.h"
#include "tree/treewalk.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"

enum { SQUASH_LOOK_MS = 100, MEASURE_ENTRIES = 4096, ENTRY_BYTES = 512 }; /* a name and an inode */

static int open_box(struct backend *backend, const char *id, struct err *err);
static int open_layer(struct backend *backend, const char *layer, struct err *err);

/* ---- what a box's files are doing ---- */

static bool is_empty(int dir, const char *path) {
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    bool some = !list;
    for (struct dirent *entry; list && !some && (entry = readdir(list));)
        some = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (list)
        closedir(list);
    return !some;
}

static bool has_files(int box_dir) {
    return faccessat(box_dir, "fs", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Nothing was written since the layers below; the root directory itself is as it was made, too: with the owner of `fs`,
 * which no box sees. */
static bool is_unchanged(int box_dir) {
    static const char *const names[] = {"fs/upper", "fs/upper.0"};
    struct stat made, status;
    if (!has_files(box_dir))
        return true;
    if (fstatat(box_dir, "fs", &made, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (fstatat(box_dir, names[i], &status, AT_SYMLINK_NOFOLLOW) < 0 || status.st_uid != made.st_uid ||
            status.st_gid != made.st_gid || (status.st_mode & 07777) != 0755 || !is_empty(box_dir, names[i]))
            return false;
    return faccessat(box_dir, "fs/skills", F_OK, AT_SYMLINK_NOFOLLOW) < 0 || is_empty(box_dir, "fs/skills");
}

/* What was put into /dev/shm would not outlive its runner. Only root may look there from outside: a runner is not
 * dumpable. */
static enum backend_files files_live(struct backend *backend, const struct jail_record *record) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root/dev/shm", record->pid);
    if (!freeze_alone(backend, record->pid))
        return FILES_BUSY;
    if (is_empty(AT_FDCWD, path))
        return FILES_QUIET;
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0 && errno == EACCES ? FILES_ALONE : FILES_BUSY;
}

enum backend_files layer_files(struct backend *backend, const char *id) {
    struct jail_record record;
    struct err ignored;
    autofd dir = open_box(backend, id, &ignored);
    if (dir >= 0 && is_unchanged(dir))
        return FILES_UNCHANGED;
    if (jail_record_read(backend, id, &record) < 0 || !process_alive(record.pid, record.start))
        return FILES_STILL;
    return files_live(backend, &record);
}

/* ---- moved ---- */

static bool is_image(int box_dir) {
    struct stat status;
    return fstatat(box_dir, "fs", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/* Where nothing has to be set aside for them, the next start makes them: until then the box has no files of its own. */
static int make_fresh(struct backend *backend, const struct spec *spec, int box_dir, struct err *err) {
    enum quota_form form;
    if (spec->limits.disk_mb == 0)
        return 0;
    return quota_whole(&backend->quota, box_dir, spec->limits.disk_mb, &form, err);
}

static int keep_move(struct backend *backend, const struct spec *spec, int box_dir, int layer_dir,
                     struct kept *ret_kept, struct err *err) {
    uint64_t begin_us = clock_us();
    int r = jail_end(backend, spec->id, is_image(box_dir) ? WAIT_ALL : WAIT_NONE, err);
    if (r < 0)
        return r;
    uint64_t end_us = clock_us();
    if (renameat2(box_dir, "fs", layer_dir, "fs", RENAME_NOREPLACE) < 0)
        return err_errno(err, errno, "the box's files");
    struct err own;
    if (make_fresh(backend, spec, box_dir, &own) < 0) /* its next start tries again */
        quota_remove(box_dir);
    *ret_kept = (struct kept){.moved = true, .method = "layer", .pause_us = end_us - begin_us};
    return 0;
}

/* ---- copied ---- */

/* What is in the kernel's memory of a box's disk must be in the image before that is copied. */
static int sync_box(struct backend *backend, const char *id, struct err *err) {
    struct jail_record record;
    char path[64];
    int r = jail_record_read(backend, id, &record);
    snprintf(path, sizeof path, "/proc/%d/root", record.pid);
    autofd root = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 || syncfs(root) < 0 ? err_errno(err, errno, "the box's disk") : 0;
}

static int copy_image(int box_dir, int layer_dir, struct copied *ret_copied, struct err *err) {
    autofd from = openat(box_dir, "fs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    autofd to = openat(layer_dir, "fs", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        return err_errno(err, errno, "the box's disk");
    return copytree_file(from, to, ret_copied, err);
}

static int copy_part(int from_fs, int to_fs, const char *name, struct copied *copied, struct err *err) {
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

/* Without the directories in which overlays work (NAME.work): a layer needs none, and an ordinary user may not read them. */
static int copy_directory(int box_dir, int layer_dir, struct copied *ret_copied, struct err *err) {
    autofd from = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(layer_dir, "fs", 0755) < 0)
        return err_errno(err, errno, "the box's files");
    autofd to = openat(layer_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int again = to < 0 ? -1 : openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list)
        return err_errno(err, errno, "the box's files");
    for (struct dirent *entry; r == 0 && (entry = readdir(list));) {
        const char *end = strrchr(entry->d_name, '.');
        if (entry->d_name[0] != '.' && !(end && strcmp(end, ".work") == 0))
            r = copy_part(from, to, entry->d_name, ret_copied, err);
    }
    closedir(list);
    return r;
}

static int copy_now(struct backend *backend, const char *id, int box_dir, int layer_dir, struct copied *ret_copied,
                    struct err *err) {
    if (!is_image(box_dir))
        return copy_directory(box_dir, layer_dir, ret_copied, err);
    int r = sync_box(backend, id, err);
    return r < 0 ? r : copy_image(box_dir, layer_dir, ret_copied, err);
}

static int keep_copy(struct backend *backend, const struct spec *spec, int box_dir, int layer_dir,
                     struct kept *ret_kept, struct err *err) {
    bool was_frozen = freeze_is(backend, spec->id);
    uint64_t begin_us = clock_us();
    struct copied copied = {0};
    struct err own;
    int r = store_snapshot(box_dir, layer_dir, err); /* of one moment by itself: nothing has to stand still */
    if (r != -ERR_NOT_FOUND) {
        if (r == 0)
            *ret_kept = (struct kept){.method = "btrfs"};
        return r;
    }
    r = was_frozen ? 0 : freeze_hold(backend, spec->id, err);
    if (r == 0)
        r = copy_now(backend, spec->id, box_dir, layer_dir, &copied, err);
    if (!was_frozen && freeze_let_go(backend, spec->id, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    if (r == 0)
        *ret_kept = (struct kept){
            .method = copied.method, .pause_us = was_frozen ? 0 : clock_us() - begin_us, .bytes = copied.bytes};
    return r;
}

/* ---- the verbs ---- */

int layer_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
               struct err *err) {
    autofd box = open_box(backend, spec->id, err);
    if (box < 0)
        return box;
    autofd dir = open_layer(backend, layer, err);
    if (dir < 0)
        return dir;
    struct stat status;
    if (fstatat(box, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "the box's files");
    if (S_ISDIR(status.st_mode) && faccessat(box, "fs/upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "the box's files are in memory (disk_quota: tmpfs) and end with its processes: they cannot be "
                       "kept; use another disk_quota");
    return move ? keep_move(backend, spec, box, dir, ret_kept, err) : keep_copy(backend, spec, box, dir, ret_kept, err);
}

/* ---- measured ---- */

struct measuring {
    uint64_t bytes, entries, most; /* most: of entries */
};

static int measure_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct measuring *measuring = user;
    measuring->bytes += (uint64_t)entry->status.st_blocks * 512 + ENTRY_BYTES;
    return ++measuring->entries > measuring->most ? err_set(err, ERR_TOO_LARGE, "many files") : TREE_DESCEND;
}

/* A btrfs counts what is on the disk, and a file knows sooner what it will take there: few files are asked, of many the
 * disk is, when they are on it. Others count at once, or not at all. */
static int measure_directory(int dir, uint64_t *ret_bytes, struct err *err) {
    struct statfs system;
    autofd fs = openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || fstatfs(fs, &system) < 0)
        return err_errno(err, errno, "the box's files");
    bool late = (unsigned long)system.f_type == BTRFS_SUPER_MAGIC;
    if (!late && quota_counted(dir, ret_bytes) == 0)
        return 0;
    struct measuring measuring = {.most = late ? MEASURE_ENTRIES : UINT64_MAX};
    int r = treewalk(fs, measure_entry, &measuring, err);
    if (r < 0 && late && syncfs(fs) == 0 && quota_counted(dir, ret_bytes) == 0)
        return 0;
    if (r == 0)
        *ret_bytes = measuring.bytes;
    return r;
}

/* The file system in an image that is mounted may have more than the image yet. */
static uint64_t measure_mounted(struct backend *backend, const char *id) {
    struct jail_record record;
    struct statfs system;
    char path[64];
    if (jail_record_read(backend, id, &record) < 0 || !process_alive(record.pid, record.start))
        return 0;
    snprintf(path, sizeof path, "/proc/%d/root", record.pid);
    return statfs(path, &system) < 0 ? 0 : (uint64_t)(system.f_blocks - system.f_bfree) * (uint64_t)system.f_bsize;
}

int layer_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err) {
    autofd dir = layer ? open_layer(backend, name, err) : open_box(backend, name, err);
    struct stat status;
    if (dir < 0)
        return dir;
    if (fstatat(dir, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "the box's files");
    if (!S_ISREG(status.st_mode))
        return measure_directory(dir, ret_bytes, err);
    uint64_t image = (uint64_t)status.st_blocks * 512, mounted = layer ? 0 : measure_mounted(backend, name);
    *ret_bytes = image > mounted ? image : mounted;
    return 0;
}

/* ---- thrown away ---- */

/* In a directory as a box has: so the trash knows how files of each form go. */
static int trash_files(struct backend *backend, int box_dir, struct err *err) {
    int r = trash_put(backend->trash, box_dir, "old", err); /* of one who was killed here */
    if (r < 0)
        return r;
    if (!has_files(box_dir))
        return 0;
    if (mkdirat(box_dir, "old", 0700) < 0 || renameat(box_dir, "fs", box_dir, "old/fs") < 0)
        return err_errno(err, errno, "the box's files");
    return trash_put(backend->trash, box_dir, "old", err);
}

int layer_fresh(struct backend *backend, const struct spec *spec, struct err *err) {
    autofd box = open_box(backend, spec->id, err);
    if (box < 0)
        return box;
    int r = jail_end(backend, spec->id, is_image(box) ? WAIT_ALL : WAIT_PROCESSES, err);
    if (r == 0)
        r = trash_files(backend, box, err);
    return r == 0 ? make_fresh(backend, spec, box, err) : r;
}

/* ---- squashed ---- */

/* In another process: it reads what boxes have made, and may be ended. */
static int squash_run(struct backend *backend, char *const argv[], const atomic_bool *stop, struct err *err) {
    char path[64], text[400] = "";
    int errors[2];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    autofd ours = errors[0], theirs = errors[1];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, backend->null_fd, 0);
    posix_spawn_file_actions_adddup2(&actions, backend->null_fd, 1);
    posix_spawn_file_actions_adddup2(&actions, theirs, 2);
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid;
    snprintf(path, sizeof path, "%s", backend->image.path);
    int r = posix_spawn(&pid, path, &actions, &attributes, argv, (char *[]){NULL});
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    fd_close(&theirs);
    if (r != 0)
        return err_errno(err, r, "cannot start '%s'", backend->env->runner_path);
    struct pollfd polls = {.fd = ours, .events = POLLIN};
    while (poll(&polls, 1, SQUASH_LOOK_MS) <= 0) /* readable at its end at the latest */
        if (atomic_load(stop))
            kill(pid, SIGKILL); /* our child, not waited for */
    ssize_t n = read(ours, text, sizeof text - 1);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    text[n > 0 ? n - 1 : 0] = 0; /* without its newline */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, ERR_IO, "%s", *text ? text : "squashing was broken off");
}

int layer_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                 struct err *err) {
    char *argv[LIMIT_LAYERS + 4] = {"cubby-runner", "squash"};
    autoarena arena = ARENA_EMPTY;
    autofd dir = open_layer(backend, layer, err);
    if (dir < 0)
        return dir;
    if (mkdirat(dir, "part", 0755) < 0)
        return err_errno(err, errno, "the layer %s", layer);
    argv[2] = arena_printf(&arena, "%s/layers/%s/part", backend->env->state_dir, layer);
    for (size_t i = 0; i < LIMIT_LAYERS && layers[i]; i++)
        argv[3 + i] = arena_printf(&arena, "%s/layers/%s/fs", backend->env->state_dir, layers[i]);
    int r = squash_run(backend, argv, stop, err);
    if (r == 0 && renameat2(dir, "part", dir, "fs", RENAME_NOREPLACE) < 0) /* whole, or not there */
        r = err_errno(err, errno, "the layer %s", layer);
    return r;
}

int layer_drop(struct backend *backend, const char *layer, struct err *err) {
    return text_id(layer) ? trash_put(backend->trash, backend->layers_dir, layer, err)
                          : err_set(err, ERR_INVALID, "'%.40s' is no layer", layer);
}

static int open_dir(int dir, const char *name, const char *what, struct err *err) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "%s '%.40s'", what, name) : fd;
}

static int open_box(struct backend *backend, const char *id, struct err *err) {
    return open_dir(backend->boxes_dir, id, "the directory of box", err);
}

static int open_layer(struct backend *backend, const char *layer, struct err *err) {
    return open_dir(backend->layers_dir, layer, "the layer", err);
}
