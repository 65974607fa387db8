/* The btrfs store. Called by the daemon and box/provider/cleanup; jail/layer.c takes snapshots. Invariant: one image is mounted
 * from one loop device, whichever daemon mounts it; and the image is never larger than the space the disk has
 * allocated for it, because a btrfs that meets a full disk stops all writing.
 *
 * Rules: 1. Making, mounting, growing and unmounting happen under a flock of the state directory, between daemons.
 * (Not of the image: its open file is the loop device's too, which would keep the lock.) 2. The link STATE/boxes is
 * the mark that a state directory has a store: it is made last and removed first. */
#include "backend/quota/store.h"

#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "backend/quota/quota.h"
#include "base/sync.h"
#include "tree/removal.h"
#include "base/log.h"
#include "base/loopdev.h"

#define IMAGE "store.img"
#define IMAGE_NEW "store.img.new"
#define PLACE "store"
#define FIRST_MB 1024u   /* of the image; it grows when less than eviction_mb() of it is free */
#define SMALLEST_MB 512u /* below, its parts are too small to be shared well */
#define MIXED_MB 2048u   /* below, files and names share the same parts */
#define ROOM_MB 512u     /* at least: more than boxes write between two looks */
#define LOOK_MS 250
#define KEPT_MIN_MB 96u
#define KEPT_MAX_MB 8192u
#define UNMOUNT_TRIES 300  /* of 10 ms */
#define DISK_KEPT_MB 1024u /* of the disk below: the host's */
#define SUPER_AT 65536     /* of the image: where btrfs' superblock lies ... */
#define SUPER_FSID_AT 32   /* ... and in that the file system's id */
#define SIMPLE_QUOTA 4u    /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, of Linux 6.7 */
/* What is discarded would be the disk's again; deleted files go with a commit; metadata gets its share of the space
 * before data has taken it all. */
#define OPTIONS "nodiscard,commit=5,metadata_ratio=6"

static const char *const store_dirs[] = {"layers", "trash", "boxes"}; /* the mark last */

struct store {
    const struct backend_env *env;
    char place[4200];
    int state, image;
    pthread_t grower;
    bool growing;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopping;
};

static bool store_marked(int state) {
    struct stat status;
    return fstatat(state, "boxes", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

static int store_check(struct err *err) {
    char text[16384], path[64];
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "needs root; run cubbyd as root");
    if (fd_read_file(AT_FDCWD, "/proc/filesystems", text, sizeof text) <= 0 || !strstr(text, "\tbtrfs\n"))
        return err_set(err, ERR_UNSUPPORTED, "btrfs is not in /proc/filesystems; modprobe btrfs");
    if (access("/dev/loop-control", R_OK | W_OK) < 0)
        return err_set(err, ERR_UNSUPPORTED, "/dev/loop-control: %s; modprobe loop", strerror(errno));
    if (!path_program("mkfs.btrfs", path, sizeof path))
        return err_set(err, ERR_UNSUPPORTED, "mkfs.btrfs is missing; apt-get install btrfs-progs");
    return 0;
}

static int store_decide(const struct backend_env *env, int state, bool *ret_store, struct err *err) {
    const char *word = env->store ? env->store : "auto", *quota = env->disk_quota ? env->disk_quota : "auto";
    bool mark = store_marked(state), asked = strcmp(word, "btrfs") == 0;
    struct err ignored;
    *ret_store = mark;
    if (strcmp(word, "directory") == 0)
        return mark ? err_set(err, ERR_INVALID,
                              "the boxes of '%s' are in its store; set store: btrfs, or remove them (cubbyd --cleanup)",
                              env->state_dir)
                    : 0;
    /* By default only where every box has a disk limit, and the disk itself cannot enforce one as cheaply. */
    bool wanted =
        env->limits.disk_mb && !env->disk_reserve && (strcmp(quota, "auto") == 0 || strcmp(quota, "btrfs") == 0) &&
        quota_project.probe(env, &ignored) < 0 && quota_btrfs.probe(env, &ignored) < 0 && store_check(&ignored) == 0;
    if (mark || (!asked && !wanted))
        return 0;
    if (unlinkat(state, "boxes", AT_REMOVEDIR) < 0 && errno != ENOENT) /* not empty */
        return asked ? err_set(err, ERR_INVALID,
                               "'%s' already has boxes outside a store; delete them, or set store: directory",
                               env->state_dir)
                     : 0;
    *ret_store = true;
    return asked ? store_check(err) : 0;
}

/* ---- open, close ---- */

static void store_free(struct store *store) {
    fd_close(&store->image);
    fd_close(&store->state);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->stop);
    free(store);
}

static uint64_t store_disk_mb(int fd) {
    struct statvfs space;
    return fstatvfs(fd, &space) < 0 ? 0 : (uint64_t)space.f_bavail * space.f_frsize >> 20;
}

/* All of it is taken from the disk, and written in place where that can be chosen. */
static int store_format(struct store *store, struct err *err) {
    char program[64], path[64];
    uint64_t free_mb = store_disk_mb(store->state), mb = FIRST_MB;
    mb = store->env->store_mb && store->env->store_mb < mb ? store->env->store_mb : mb;
    mb = free_mb / 2 < mb ? free_mb / 2 : mb;
    if (mb < SMALLEST_MB)
        return err_set(err, ERR_LIMIT, "it needs at least %u MB, and twice as much free on its disk", SMALLEST_MB);
    if (!path_program("mkfs.btrfs", program, sizeof program))
        return err_set(err, ERR_UNSUPPORTED, "mkfs.btrfs is missing; apt-get install btrfs-progs");
    unlinkat(store->state, IMAGE_NEW, 0);
    autofd fd = openat(store->state, IMAGE_NEW, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "'" IMAGE_NEW "'");
    int flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags |= FS_NOCOW_FL))
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    if (fallocate(fd, 0, 0, (off_t)(mb << 20)) < 0)
        return err_errno(err, errno, "%llu MB for it", (unsigned long long)mb);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    /* A small one keeps files and their names in the same places, or the first would use up what the others need. */
    bool small = store->env->store_mb && store->env->store_mb < MIXED_MB;
    const char *const argv[] = {
        program, "-q", "-f", "-K", "-d", "single", "-m", "single", "-L", "cubby", path, small ? "-M" : NULL, NULL};
    int r = quota_run(argv, err);
    if (r != 0)
        return r < 0 ? r : err_set(err, ERR_IO, "mkfs.btrfs failed with %d", r);
    if (fsync(fd) < 0 || renameat(store->state, IMAGE_NEW, store->state, IMAGE) < 0)
        return err_errno(err, errno, "'" IMAGE "'");
    return 0;
}

/* Locked. Another daemon may make it, or remove it, at the same time. */
static int store_open_image(struct store *store, struct err *err) {
    if (flock(store->state, LOCK_EX) < 0)
        return err_errno(err, errno, "its lock");
    store->image = openat(store->state, IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (store->image < 0 && errno == ENOENT && store_marked(store->state))
        return err_set(err, ERR_IO, "the image is gone; put it back, or remove '%s/boxes' to start over",
                       store->env->state_dir);
    if (store->image < 0 && errno == ENOENT) {
        int r = store_format(store, err);
        if (r < 0) {
            unlinkat(store->state, IMAGE_NEW, 0);
            return r;
        }
        store->image = openat(store->state, IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    }
    return store->image < 0 ? err_errno(err, errno, "'" IMAGE "'") : 0;
}

/* 1: it is mounted there; 0: nothing is. */
static int store_mounted(const struct store *store, struct err *err) {
    autofd place = open(store->place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat above, here;
    if (place < 0 || fstat(store->state, &above) < 0 || fstat(place, &here) < 0)
        return err_errno(err, errno, "'%s'", store->place);
    if (above.st_dev == here.st_dev)
        return 0;
    struct btrfs_ioctl_fs_info_args info = {0};
    uint8_t fsid[BTRFS_FSID_SIZE];
    if (ioctl(place, BTRFS_IOC_FS_INFO, &info) < 0 ||
        pread(store->image, fsid, sizeof fsid, SUPER_AT + SUPER_FSID_AT) != sizeof fsid ||
        memcmp(fsid, info.fsid, sizeof fsid) != 0)
        return err_set(err, ERR_EXISTS, "something else is mounted on '%s'; unmount it", store->place);
    return 1;
}

/* Simple quotas count the writer; the older ones also trace back all sharers, at every snapshot. */
static int store_enable_quota(const struct store *store, struct err *err) {
    static const uint64_t commands[] = {SIMPLE_QUOTA, BTRFS_QUOTA_CTL_ENABLE};
    autofd place = open(store->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; place >= 0 && i < sizeof commands / sizeof *commands; i++) {
        struct btrfs_ioctl_quota_ctl_args args = {.cmd = commands[i]};
        if (ioctl(place, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
            return 0;
    }
    return err_errno(err, errno, "its quotas");
}

static int store_mount(struct store *store, struct err *err) {
    char path[LOOP_PATH_BYTES];
    if (mkdirat(store->state, PLACE, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", store->place);
    int r = store_mounted(store, err);
    if (r != 0)
        return r < 0 ? r : 0;
    autofd device = loopdev_find(store->image, path, err);
    if (device == -ERR_NOT_FOUND)
        /* Direct: what is in the memory for the files of boxes need not be there a second time for the image. */
        device = loopdev_attach(store->image, LO_FLAGS_DIRECT_IO, path, err);
    if (device < 0)
        return device;
    if (mount(path, store->place, "btrfs", MS_NOSUID | MS_NODEV | MS_NOATIME, OPTIONS) < 0)
        return err_errno(err, errno, "cannot be mounted; see dmesg for the reason");
    mount(NULL, store->place, NULL, MS_PRIVATE, NULL);
    return store_marked(store->state) ? 0 : store_enable_quota(store, err);
}

/* An eighth is the daemon's: for records, for deleting, and for the trees that all files hang in. */
static uint64_t store_kept_mb(uint64_t size_mb) {
    uint64_t kept = size_mb / 8;
    return kept < KEPT_MIN_MB ? KEPT_MIN_MB : kept > KEPT_MAX_MB ? KEPT_MAX_MB : kept;
}

static int store_limit(const struct store *store, int place, struct err *err) {
    struct stat status;
    struct btrfs_ioctl_qgroup_create_args create = {.create = 1, .qgroupid = STORE_GROUP};
    if (fstat(store->image, &status) < 0)
        return err_errno(err, errno, "its size");
    uint64_t mb = (uint64_t)status.st_size >> 20;
    struct btrfs_ioctl_qgroup_limit_args limit = {
        .qgroupid = STORE_GROUP,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = (mb - store_kept_mb(mb)) << 20}};
    if ((ioctl(place, BTRFS_IOC_QGROUP_CREATE, &create) < 0 && errno != EEXIST) ||
        ioctl(place, BTRFS_IOC_QGROUP_LIMIT, &limit) < 0)
        return err_errno(err, errno, "the quota of all boxes");
    return 0;
}

/* What lies there in a directory of its own has been found empty, or is trash. */
static int store_link(struct store *store, struct err *err) {
    autofd place = open(store->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0 || fchmod(place, 0700) < 0)
        return err_errno(err, errno, "'%s'", store->place);
    int r = store_limit(store, place, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof store_dirs / sizeof *store_dirs; i++) {
        char target[32], is[32] = "";
        snprintf(target, sizeof target, PLACE "/%s", store_dirs[i]);
        if (mkdirat(place, store_dirs[i], 0700) < 0 && errno != EEXIST)
            return err_errno(err, errno, "'%s'", target);
        if (readlinkat(store->state, store_dirs[i], is, sizeof is - 1) > 0 && strcmp(is, target) == 0)
            continue;
        if (strcmp(store_dirs[i], "trash") == 0)
            removal_tree(store->state, store_dirs[i]);
        else
            unlinkat(store->state, store_dirs[i], AT_REMOVEDIR);
        if (symlinkat(target, store->state, store_dirs[i]) < 0)
            return err_errno(err, errno, "'%s/%s'", store->env->state_dir, store_dirs[i]);
    }
    return 0;
}

int store_open(const struct backend_env *env, struct store **ret_store, struct err *err) {
    bool wanted;
    autofd state = open(env->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return err_errno(err, errno, "'%s'", env->state_dir);
    int r = store_decide(env, state, &wanted, err);
    if (r < 0 || !wanted) {
        *ret_store = NULL;
        return r < 0 ? err_wrap(err, "the store") : 0;
    }
    struct store *store = xcalloc(1, sizeof *store);
    store->env = env;
    store->state = fd_take(&state);
    store->image = -1;
    snprintf(store->place, sizeof store->place, "%s/" PLACE, env->state_dir);
    pthread_mutex_init(&store->lock, NULL);
    cond_init(&store->stop);
    r = store_open_image(store, err);
    if (r == 0)
        r = store_mount(store, err);
    if (r == 0)
        r = store_link(store, err);
    flock(store->state, LOCK_UN);
    if (r < 0) {
        store_free(store);
        return err_wrap(err, "the store ('%s/" IMAGE "')", env->state_dir);
    }
    *ret_store = store;
    return 0;
}

static void store_stop(struct store *store) {
    pthread_mutex_lock(&store->lock);
    store->stopping = true;
    pthread_cond_signal(&store->stop);
    pthread_mutex_unlock(&store->lock);
    if (store->growing)
        pthread_join(store->grower, NULL);
}

static void store_note_live(void *user, const char *id) {
    (void)id;
    *(bool *)user = true;
}

/* While boxes run it is in use, and stays for the next daemon. The kernel may still be taking apart boxes that just
 * ended. */
static bool store_unmount(const struct store *store) {
    struct timespec pause = {.tv_nsec = 10000000};
    bool live = false;
    struct err ignored;
    autofd boxes = openat(store->state, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    backend_list_boxes(boxes, "jail", store_note_live, &live, &ignored);
    fd_close(&boxes);
    for (int tries = 0; umount2(store->place, UMOUNT_NOFOLLOW) < 0; tries++) {
        if (errno != EBUSY || live || tries == UNMOUNT_TRIES)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void store_close(struct store *store) {
    if (!store)
        return;
    store_stop(store);
    flock(store->state, LOCK_EX);
    if (!store_unmount(store) && errno != EBUSY && errno != EINVAL)
        log_warn("the store cannot be unmounted: %s", strerror(errno));
    store_free(store);
}

bool store_remove(struct store *store) {
    store_stop(store);
    flock(store->state, LOCK_EX);
    bool gone = store_unmount(store);
    if (gone) {
        for (size_t i = sizeof store_dirs / sizeof *store_dirs; i-- > 0;)
            unlinkat(store->state, store_dirs[i], 0);
        unlinkat(store->state, IMAGE, 0);
        unlinkat(store->state, PLACE, AT_REMOVEDIR);
    } else {
        log_warn("the store cannot be unmounted: %s", strerror(errno));
    }
    store_free(store);
    return gone;
}

void store_describe(const struct store *store, char *text, size_t size) {
    struct stat status;
    struct statvfs space;
    if (fstat(store->image, &status) == 0 && statvfs(store->place, &space) == 0)
        snprintf(text, size, "boxes are in the store %s, %llu MB, %llu MB of it free", store->place,
                 (unsigned long long)status.st_size >> 20, (unsigned long long)space.f_bavail * space.f_frsize >> 20);
    else
        snprintf(text, size, "boxes are in the store %s", store->place);
}

/* ---- growing ---- */

/* Whether two boxes may fill themselves at once, where the disk has that much. */
static bool store_has_room(const struct store *store, int place, const uint8_t *fsid) {
    struct statvfs space;
    char path[160], text[32];
    if (fstatvfs(place, &space) < 0)
        return true;
    /* Space reserved for pending writes does not show in statfs. */
    snprintf(path, sizeof path,
             "/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/allocation/data/"
             "bytes_may_use",
             fsid[0], fsid[1], fsid[2], fsid[3], fsid[4], fsid[5], fsid[6], fsid[7], fsid[8], fsid[9], fsid[10],
             fsid[11], fsid[12], fsid[13], fsid[14], fsid[15]);
    uint64_t promised = fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
    uint64_t boxes_mb = 2 * store->env->limits.disk_mb, quarter_mb = store_disk_mb(store->image) / 4;
    boxes_mb = boxes_mb < quarter_mb ? boxes_mb : quarter_mb;
    boxes_mb = boxes_mb > ROOM_MB ? boxes_mb : ROOM_MB;
    uint64_t size_mb = (uint64_t)space.f_blocks * space.f_frsize >> 20;
    return (uint64_t)space.f_bavail * space.f_frsize >= promised + ((boxes_mb + store_kept_mb(size_mb)) << 20);
}

/* A quarter more, as far as the configuration and the disk below allow. The space first: a device that is larger than
 * its image would be a promise. */
static bool store_grow(struct store *store, int place) {
    struct stat status;
    struct err err;
    char path[LOOP_PATH_BYTES];
    uint64_t most_mb = store->env->store_mb, free_mb = store_disk_mb(store->image);
    if (fstat(store->image, &status) < 0)
        return false;
    uint64_t mb = (uint64_t)status.st_size >> 20, more_mb = mb / 4 > FIRST_MB ? mb / 4 : FIRST_MB;
    free_mb = free_mb > DISK_KEPT_MB ? free_mb - DISK_KEPT_MB : 0;
    more_mb = more_mb < free_mb ? more_mb : free_mb;
    if (most_mb && mb + more_mb > most_mb)
        more_mb = most_mb > mb ? most_mb - mb : 0;
    mb += more_mb;
    if (more_mb == 0 || fallocate(store->image, 0, status.st_size, (off_t)(mb << 20) - status.st_size) < 0)
        return false;
    autofd device = loopdev_find(store->image, path, &err);
    struct btrfs_ioctl_vol_args args = {.name = "max"};
    if (device < 0 || ioctl(device, LOOP_SET_CAPACITY, 0) < 0 || ioctl(place, BTRFS_IOC_RESIZE, &args) < 0) {
        log_warn("the store cannot grow: %s", strerror(errno));
        return false;
    }
    if (store_limit(store, place, &err) < 0)
        log_warn("the store has grown, but its boxes keep their limit: %s", err.text);
    log_info("the store has %llu MB now", (unsigned long long)mb);
    return true;
}

static void *store_main(void *argument) {
    struct store *store = argument;
    struct btrfs_ioctl_fs_info_args info = {0};
    autofd place = open(store->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0 || ioctl(place, BTRFS_IOC_FS_INFO, &info) < 0)
        return NULL;
    pthread_mutex_lock(&store->lock);
    while (!store->stopping) {
        pthread_mutex_unlock(&store->lock);
        if (!store_has_room(store, place, info.fsid) && flock(store->state, LOCK_EX | LOCK_NB) == 0) {
            while (!store_has_room(store, place, info.fsid) && store_grow(store, place))
                ;
            flock(store->state, LOCK_UN);
        }
        pthread_mutex_lock(&store->lock);
        if (!store->stopping)
            cond_wait_until(&store->stop, &store->lock, clock_ms() + LOOK_MS);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

void store_serve(struct store *store) {
    store->growing = pthread_create(&store->grower, NULL, store_main, store) == 0;
}

/* ---- snapshots ---- */

int store_snapshot(int from_box_dir, int to_layer_dir, struct err *err) {
    struct stat status;
    struct statfs system;
    autofd fs = openat(from_box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || fstatfs(fs, &system) < 0 || (unsigned long)system.f_type != BTRFS_SUPER_MAGIC ||
        fstat(fs, &status) < 0 || status.st_ino != BTRFS_FIRST_FREE_OBJECTID)
        return err_set(err, ERR_NOT_FOUND, "the box's files are not a subvolume");
    if (!quota_can_snapshot(from_box_dir))
        return err_set(err, ERR_NOT_FOUND, "a snapshot here needs a kernel of at least 6.7");
    struct btrfs_ioctl_vol_args_v2 args = {.fd = fs, .flags = BTRFS_SUBVOL_RDONLY, .name = "fs"};
    return ioctl(to_layer_dir, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? err_errno(err, errno, "the snapshot") : 0;
}
