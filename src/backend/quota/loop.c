/* Disk quota by a file system of its own: box/fs is a sparse ext4 image, which stage one of the runner mounts
 * (runner/enter/enter_bounds.c). Needs root, loop devices and mke2fs. Invariant: an image is touched here only under
 * its lock, which the loop device holds as long as the image is mounted anywhere.
 *
 * Blank images are formatted once a size and kept in state/blank; a box gets a copy of the few blocks that are written.
 * Some copies are prepared in idle time, and are on the disk already: attaching a loop device waits until its image is.
 * There is no journal: it would take 4 MB of every box and write everything twice. Instead, what a crash of the machine
 * left open is checked before it is mounted again. */
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "base/base.h"
#include "backend/quota/quota.h"
#include "backend/spawn.h"
#include "base/loopdev.h"

#define FORMAT 1          /* raise when what format() makes changes */
#define MB_MAX (1u << 20) /* 1 TiB: formatting takes 0.3 s there, and the host's ext4 ends at 16 */
#define INODE_BYTES 256u  /* its table is not taken from what the box may use */
#define SHELF_MAX 8       /* sizes kept formatted */
#define READY_MAX 32      /* copies of one size that are prepared: more than a burst empties before it is refilled */
#define SPACE_MIN (16ull << 20) /* of the disk below, for a new box */
#define LOCK_WAIT_MS 10000u     /* the kernel takes the mounts of a box apart some time after its last process */
#define LOOPS_LOOKED_AT 4096
#define SUPER_AT 1024     /* of the image: where ext4's superblock lies ... */
#define SUPER_MAGIC_AT 56 /* ... and in that the magic number and, after it, the state */
#define SUPER_MAGIC 0xef53u
#define SUPER_CLEAN 1u /* and not 2: errors were seen */

static int loop_probe(const struct backend_env *env, struct err *err) {
    (void)env;
    char text[16384], path[64];
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "needs root; run cubbyd as root");
    autofd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_set(err, ERR_UNSUPPORTED, "/dev/loop-control: %s; modprobe loop", strerror(errno));
    if (fd_read_file(AT_FDCWD, "/proc/filesystems", text, sizeof text) <= 0 || !strstr(text, "\text4\n"))
        return err_set(err, ERR_UNSUPPORTED, "ext4 is not in /proc/filesystems; modprobe ext4");
    if (!path_program("mke2fs", path, sizeof path) || !path_program("e2fsck", path, sizeof path))
        return err_set(err, ERR_UNSUPPORTED, "mke2fs is missing; apt-get install e2fsprogs");
    return 0;
}

/* STATE/blank, where blank images are kept. */
static int loop_shelf(const struct backend_env *env, struct err *err) {
    return backend_open_dir(AT_FDCWD, text_make(4200, "%s/blank", env->state_dir), true, err);
}

/* The layers' directories are in the blank image: made later, each would be at another end of the disk. */
static int loop_model(int blank_dir, char *path, size_t size, struct err *err) {
    autofd dir = backend_open_dir(blank_dir, "layers", true, err);
    if (dir < 0)
        return dir;
    struct err have;
    if (faccessat(dir, "upper.0.work", F_OK, 0) < 0 && quota_layers(dir, &have) < 0 &&
        faccessat(dir, "upper.0.work", F_OK, 0) < 0) { /* not made by another process either */
        *err = have;
        return -have.code;
    }
    snprintf(path, size, "/proc/%d/fd/%d/layers", getpid(), blank_dir);
    return 0;
}

int quota_run(const char *const *argv, struct err *err) {
    char *env[] = {"MKE2FS_CONFIG=/dev/null", NULL};
    const struct spawn spawn = {.program = argv[0], .argv = argv, .env = env, .in = -1, .out = -1, .errors = -1};
    pid_t pid;
    int r = spawn_start(&spawn, &pid, err);
    return r < 0 ? r : spawn_wait(pid);
}

/* All options are explicit: the host's mke2fs.conf must not change what boxes get. packed_meta_blocks: all tables lie
 * together, which makes them few extents in the host's file. */
static int loop_format(const struct backend_env *env, int dir, const char *name, const struct quota_size *size,
                       struct err *err) {
    static const char features[] = "none,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super2,large_file,"
                                   "huge_file,dir_nlink,extra_isize,metadata_csum";
    static const char extended[] = "lazy_itable_init=1,nodiscard,packed_meta_blocks=1,num_backup_sb=0,root_owner=0:0";
    char program[64], layers[64], path[96], inodes[24];
    autofd blanks = loop_shelf(env, err);
    int r = blanks < 0 ? blanks : loop_model(blanks, layers, sizeof layers, err);
    if (r < 0)
        return r;
    if (!path_program("mke2fs", program, sizeof program))
        return err_set(err, ERR_UNSUPPORTED, "mke2fs is missing; apt-get install e2fsprogs");
    autofd fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    off_t bytes = (off_t)((size->bytes + size->inodes * INODE_BYTES) & ~4095ull);
    if (fd < 0 || ftruncate(fd, bytes) < 0)
        return err_errno(err, errno, "the box's disk");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)size->inodes);
    const char *const argv[] = {program, "-q", "-F",     "-b", "4096",   "-I", "256",  "-N", inodes, "-m",
                                "0",     "-O", features, "-E", extended, "-d", layers, path, NULL};
    r = quota_run(argv, err);
    return r <= 0
               ? r
               : err_set(err, ERR_IO, "mke2fs failed with %d for a disk of %llu MB", r, (unsigned long long)size->mb);
}

/* LIMIT: too many sizes are kept. Safe between processes: made under another name, then renamed. */
static int loop_blank(const struct backend_env *env, const struct quota_size *size, int *ret_fd, struct err *err) {
    char name[40], staged[64];
    unsigned count = 0;
    autofd dir = loop_shelf(env, err);
    if (dir < 0)
        return dir;
    snprintf(name, sizeof name, "ext4-%d-%llu", FORMAT, (unsigned long long)size->mb);
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        autodir *list = fd_opendir(dir, ".", 0);
        for (struct dirent *entry; (entry = fd_readdir(list));)
            count += strncmp(entry->d_name, "ext4-", 5) == 0;
        if (count >= SHELF_MAX)
            return err_set(err, ERR_LIMIT, "too many sizes of disks are kept");
        snprintf(staged, sizeof staged, ".new-%d-%llu", getpid(), (unsigned long long)clock_us());
        int r = loop_format(env, dir, staged, size, err);
        if (r == 0 && renameat(dir, staged, dir, name) < 0)
            r = err_errno(err, errno, "'blank/%s'", name);
        if (r < 0) {
            unlinkat(dir, staged, 0);
            return r;
        }
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0)
        return err_errno(err, errno, "'blank/%s'", name);
    *ret_fd = fd;
    return 0;
}

/* Some 100 KB of the whole; shared with the blank one where the file system can. */
static int loop_copy(int from, int to, struct err *err) {
    struct stat status;
    char bytes[65536];
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    if (fstat(from, &status) < 0 || ftruncate(to, status.st_size) < 0)
        return err_errno(err, errno, "the box's disk");
    off_t at = 0;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        for (ssize_t n; at < end; at += n) {
            size_t want = end - at < (off_t)sizeof bytes ? (size_t)(end - at) : sizeof bytes;
            n = pread(from, bytes, want, at);
            if (n <= 0 || pwrite(to, bytes, (size_t)n, at) != n)
                return err_errno(err, n == 0 ? EIO : errno, "the box's disk");
        }
    }
    return errno == ENXIO ? 0 : err_errno(err, errno, "the box's disk");
}

struct loop_name {
    char text[48];
};

static struct loop_name loop_ready(const struct quota_size *size, unsigned i) {
    struct loop_name name;
    snprintf(name.text, sizeof name.text, "ready-%d-%llu-%u", FORMAT, (unsigned long long)size->mb, i);
    return name;
}

/* A prepared copy becomes `fs`. It leaves the shelf by a rename, so that it is one box's, and once. */
static bool loop_take_ready(const struct backend_env *env, int box_dir, const struct quota_size *size) {
    struct err ignored;
    autofd dir = loop_shelf(env, &ignored);
    bool taken = false;
    for (unsigned i = 0; dir >= 0 && !taken && i < READY_MAX; i++)
        taken = renameat2(dir, loop_ready(size, i).text, box_dir, "fs", RENAME_NOREPLACE) == 0;
    return taken;
}

static bool loop_stock(const struct backend_env *env, const struct quota_size *size) {
    struct err ignored;
    struct stat shelf, boxes;
    autofd dir = loop_shelf(env, &ignored), from = -1, place = quota_place(env);
    unsigned i = 0;
    if (dir < 0 || place < 0 || fstat(dir, &shelf) < 0 || fstat(place, &boxes) < 0 || shelf.st_dev != boxes.st_dev)
        return false; /* it could not be renamed */
    while (i < READY_MAX && faccessat(dir, loop_ready(size, i).text, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        i++;
    if (i == READY_MAX || loop_blank(env, size, &from, &ignored) < 0)
        return false;
    autofd to =
        openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); /* without a name, a killed daemon leaves none */
    return to >= 0 && loop_copy(from, to, &ignored) == 0 && fsync(to) == 0 &&
           linkat(to, "", dir, loop_ready(size, i).text, AT_EMPTY_PATH) == 0;
}

static int loop_make(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    struct statvfs space;
    struct stat status;
    if (size->mb > MB_MAX)
        return err_set(err, ERR_INVALID, "disk_mb is at most %u with the method loop", MB_MAX);
    if (fstatvfs(box_dir, &space) == 0 && (uint64_t)space.f_bavail * space.f_frsize < SPACE_MIN)
        return err_set(err, ERR_LIMIT, "the disk of '%s' is full; free some of it", env->state_dir);
    autofd from = -1, image = -1;
    int r = loop_take_ready(env, box_dir, size) ? 0 : loop_blank(env, size, &from, err);
    if (r == -ERR_LIMIT) { /* one more size would not be kept */
        r = loop_format(env, box_dir, "fs", size, err);
    } else if (r == 0 && from >= 0) {
        autofd to = openat(box_dir, "fs", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = to < 0 ? err_errno(err, errno, "the box's disk") : loop_copy(from, to, err);
    }
    if (r < 0 || !env->disk_reserve)
        return r;
    /* Reserved: then the disk below cannot be full for this box, whatever others write. */
    image = openat(box_dir, "fs", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0 || fstat(image, &status) < 0)
        return err_errno(err, errno, "the box's disk");
    if (fallocate(image, 0, 0, status.st_size) == 0)
        return 0;
    if (errno == EOPNOTSUPP)
        return err_set(err, ERR_UNSUPPORTED, "the state directory's file system cannot reserve space (disk_reserve)");
    if (errno == ENOSPC || errno == EDQUOT)
        return err_set(err, ERR_FULL, "the disk has no space left for a box of this disk_mb (disk_reserve)");
    return err_errno(err, errno, "the box's disk");
}

static int loop_again(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    (void)env;
    (void)size; /* the image is as large as it was made */
    struct stat status;
    uint16_t super[2];
    char program[64], path[64];
    if (fstatat(box_dir, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
        return -ERR_NOT_FOUND;
    autofd image = openat(box_dir, "fs", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0)
        return err_errno(err, errno, "the box's disk");
    for (uint64_t until_ms = clock_ms() + LOCK_WAIT_MS; flock(image, LOCK_EX | LOCK_NB) < 0;) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(err, errno, "the box's disk");
        if (clock_ms() > until_ms)
            return err_set(err, ERR_BUSY, "the box's disk is still in use; try again");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (pread(image, super, sizeof super, SUPER_AT + SUPER_MAGIC_AT) != sizeof super || super[0] != SUPER_MAGIC)
        return err_set(err, ERR_IO, "the box's disk is damaged; delete the box");
    if (super[1] == SUPER_CLEAN)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), image);
    if (!path_program("e2fsck", program, sizeof program))
        return err_set(err, ERR_UNSUPPORTED,
                       "the box's disk was not closed properly and e2fsck is missing; apt-get install e2fsprogs");
    int r = quota_run((const char *const[]){program, "-f", "-y", path, NULL}, err);
    return r < 4 ? (r < 0 ? r : 0) : err_set(err, ERR_IO, "the box's disk is damaged (e2fsck: %d); delete the box", r);
}

static int loop_by_number(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x < y) - (x > y);
}

/* The highest first: the kernel hands out the lowest. A device in use cannot be removed. */
bool quota_tidy(unsigned keep) {
    unsigned numbers[LOOPS_LOOKED_AT] = {0}, count = 0;
    autodir *dir = fd_opendir(AT_FDCWD, LOOP_NOTES_DIR, 0);
    for (struct dirent *entry; count < LOOPS_LOOKED_AT && (entry = fd_readdir(dir));) {
        uint64_t number;
        if (text_u64(entry->d_name, 1u << 20, &number))
            numbers[count++] = (unsigned)number;
    }
    autofd control = count > keep ? open("/dev/loop-control", O_RDWR | O_CLOEXEC) : -1;
    qsort(numbers, count, sizeof *numbers, loop_by_number);
    bool removed = false;
    for (unsigned i = 0; control >= 0 && !removed && i < count - keep; i++) {
        removed = ioctl(control, LOOP_CTL_REMOVE, numbers[i]) >= 0;
        if (removed || errno == ENODEV)
            unlinkat(dirfd(dir), text_make(16, "%u", numbers[i]), 0);
    }
    return removed;
}

const struct quota_method quota_loop = {
    .name = "loop",
    .form = QUOTA_IMAGE,
    .probe = loop_probe,
    .make = loop_make,
    .stock = loop_stock,
    .again = loop_again,
};
