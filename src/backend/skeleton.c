/* The template `host`. Called by template.c. Invariant: only what the allow list names and everybody on the host may
 * read is copied; keys, homes, sockets and our own state never are. */
#include "backend/skeleton.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/removal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"

#define FORMAT 1 /* raise when what is made here changes */
#define COPY_DEPTH 6

/* Patterns of names directly below /etc, or of paths below a directory of it. */
static const char *const etc_allowed[] = {
    "alternatives",
    "bash.bashrc",
    "bash_completion",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "issue",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "os-release",
    "perl",
    "profile",
    "protocols",
    "python3*",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "skel",
    "terminfo",
    "timezone",
    "vim",
    "X11/fonts",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "default/locale",
    "gnucobol",
    "maven",
    "fpc.cfg",
    "fpc-*.cfg",
    "ld-musl-*",
};
static const char *const system_candidates[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const struct {
    const char *path;
    unsigned mode, uid;
} dirs[] = {{"proc", 0555, 0},     {"dev", 0755, 0},       {"tmp", 01777, 0},      {"var", 0755, 0},
            {"var/tmp", 01777, 0}, {"var/lib", 0755, 0},   {"var/cache", 0755, 0}, {"var/log", 0755, 0},
            {"run", 0755, 0},      {"run/lock", 01777, 0}, {"root", 0700, 0},      {"home", 0755, 0},
            {"mnt", 0755, 0},      {"opt", 0755, 0},       {"srv", 0755, 0},       {"media", 0755, 0},
            {"etc", 0755, 0},      {"sys", 0555, 0},       {"usr", 0755, 0},       {"workspace", 0755, 1000}};

static const struct {
    const char *path, *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nman:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                   "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                   "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                   "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                   "agent:x:1000:1000:agent:/workspace:/bin/bash\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nman:x:12:\n"
                  "www-data:x:33:\nutmp:x:43:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\nagent:x:1000:\n"},
    {"etc/hosts", "127.0.0.1 localhost cubby\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/hostname", "cubby\n"},
    {"etc/resolv.conf", "# this box has no network\n"},
};

static int make_dirs(int root, struct err *err);
static int make_skeleton(int root, struct err *err);
static void copy_etc(int root);
static void copy_any(int from, const char *from_name, int to, const char *to_name, int depth);
static uint64_t host_version(void);
static void list_system(struct template *template);

/* In a directory of its own first: another process may be making it too, and the faster one's counts. */
static int make_at(const char *state_dir, const char *path, struct err *err) {
    char templates[4096];
    snprintf(templates, sizeof templates, "%s/templates", state_dir);
    mkdir(state_dir, 0700);
    mkdir(templates, 0700);
    autofd dir = open(templates, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, errno, "'%s'", templates);
    char staged[64];
    snprintf(staged, sizeof staged, ".new-%d-%llu", getpid(), (unsigned long long)clock_us());
    if (mkdirat(dir, staged, 0755) < 0)
        return err_errno(err, errno, "'%s/%s'", templates, staged);
    autofd root = openat(dir, staged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = root < 0 ? err_errno(err, errno, "'%s/%s'", templates, staged) : make_skeleton(root, err);
    if (r == 0 && renameat2(dir, staged, AT_FDCWD, path, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        r = err_errno(err, errno, "'%s'", path);
    removal_tree(dir, staged); /* where another process was faster, or something failed */
    return r;
}

int skeleton_find(const struct backend_env *env, struct template *ret_template, struct err *err) {
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* by one thread: it is a thousand files */
    struct template found = {0};
    list_system(&found);
    if (strlen(env->state_dir) > 3900 || strncmp(env->state_dir, "/usr/", 5) == 0)
        return err_set(err, ERR_INVALID, "the state directory '%.200s' is too long or below /usr", env->state_dir);
    snprintf(found.path, sizeof found.path, "%s/templates/.host-%016llx", env->state_dir,
             (unsigned long long)host_version());
    int r = 0;
    if (access(found.path, F_OK) < 0) {
        pthread_mutex_lock(&making);
        r = access(found.path, F_OK) == 0 ? 0 : make_at(env->state_dir, found.path, err);
        pthread_mutex_unlock(&making);
    }
    if (r == 0)
        *ret_template = found;
    return r;
}

/* A file of a root that nobody vouches for: opened only when it is one, and never through a link. It may as well be a
 * FIFO, a disk, or a link to the host's own. */
static int open_list(int root, const char *path, struct err *err) {
    struct stat status;
    autofd found = path_open(root, path, O_PATH | O_NOFOLLOW, 0);
    if (found >= 0 && (fstat(found, &status) < 0 || !S_ISREG(status.st_mode)))
        return err_set(err, ERR_INVALID, "'/%s' of the template is not a file", path);
    int fd = path_open(root, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    return fd < 0 ? err_errno(err, -fd, "'/%s' of the template", path) : fd;
}

int skeleton_complete(int dir, struct err *err) {
    int r = make_dirs(dir, err);
    static const char *const lists[][2] = {{"etc/passwd", "agent:x:1000:1000:agent:/workspace:/bin/sh\n"},
                                           {"etc/group", "agent:x:1000:\n"}};
    for (size_t i = 0; r == 0 && i < 2; i++) {
        char text[65536];
        autofd fd = open_list(dir, lists[i][0], err);
        if (fd < 0)
            return fd;
        ssize_t n = fd_read_full(fd, text, sizeof text - 1);
        if (n < 0)
            return err_errno(err, (int)-n, "'/%s' of the template", lists[i][0]);
        text[n] = 0;
        if (strstr(text, ":1000:"))
            continue;
        if (lseek(fd, 0, SEEK_END) < 0 || (n && text[n - 1] != '\n' && fd_write_all(fd, "\n", 1) < 0) ||
            fd_write_all(fd, lists[i][1], strlen(lists[i][1])) < 0)
            return err_errno(err, errno, "'/%s' of the template", lists[i][0]);
    }
    return r;
}

/* Changes when what the skeleton is made from changes. Cheap: asked for at every start of a box. */
static uint64_t host_version(void) {
    static const char *const sources[] = {"/etc", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs",
                                          "/usr/lib/os-release"};
    uint64_t version = 14695981039346656037ull ^ FORMAT;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct stat status = {0};
        stat(sources[i], &status);
        version = (version ^ (uint64_t)status.st_mtim.tv_sec) * 1099511628211ull;
        version = (version ^ (uint64_t)status.st_mtim.tv_nsec) * 1099511628211ull;
    }
    return version;
}

/* /usr, and where /usr is not merged the directories beside it. */
static void list_system(struct template *template) {
    static const char *const paths[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    size_t count = 0;
    template->system[count++] = "/usr";
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct stat status;
        if (lstat(paths[i], &status) == 0 && S_ISDIR(status.st_mode) && count + 1 < TEMPLATE_SYSTEM_MAX)
            template->system[count++] = paths[i];
    }
}

/* What the root has already may be a link, as long as it stays inside; but nothing is mounted over a link. */
static int make_dir(int root, const char *path, unsigned mode, unsigned uid, struct err *err) {
    bool mounted = strcmp(path, "dev") == 0 || strcmp(path, "proc") == 0;
    autofd have = path_open(root, path, O_PATH | O_DIRECTORY | (mounted ? O_NOFOLLOW : 0), 0);
    if (have >= 0)
        return 0;
    autofd parent = -1;
    char name[256];
    int r = path_open_parent(root, path, &parent, name, err);
    if (r < 0)
        return r;
    if (mkdirat(parent, name, 0755) < 0)
        return errno == EEXIST ? err_set(err, ERR_INVALID, "'/%s' of the template is not a directory of its own", path)
                               : err_errno(err, errno, "'/%s' of the template", path);
    if (fchmodat(parent, name, mode, 0) < 0 ||
        (geteuid() == 0 && fchownat(parent, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0))
        return err_errno(err, errno, "'/%s' of the template", path);
    return 0;
}

static int make_dirs(int root, struct err *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof dirs / sizeof *dirs; i++)
        r = make_dir(root, dirs[i].path, dirs[i].mode, dirs[i].uid, err);
    return r;
}

static int make_skeleton(int root, struct err *err) {
    if (fchmod(root, 0755) < 0)
        return err_errno(err, errno, "the template");
    int r = make_dirs(root, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof system_candidates / sizeof *system_candidates; i++) {
        char path[16], target[256];
        snprintf(path, sizeof path, "/%s", system_candidates[i]);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            if (symlinkat(target, root, system_candidates[i]) < 0)
                return err_errno(err, errno, "'%s'", path);
        } else if (access(path, F_OK) == 0 && (mkdirat(root, system_candidates[i], 0755) < 0 ||
                                               fchmodat(root, system_candidates[i], 0755, 0) < 0)) {
            return err_errno(err, errno, "'%s'", path);
        }
    }
    copy_etc(root);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        autofd fd = openat(root, files[i].path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        int written = fd < 0 ? -errno : fd_write_all(fd, files[i].text, strlen(files[i].text));
        if (written < 0 || fchmod(fd, 0644) < 0)
            return err_errno(err, written < 0 ? -written : errno, "'%s'", files[i].path);
    }
    if (symlinkat("/proc/self/mounts", root, "etc/mtab") < 0 && errno != EEXIST)
        return err_errno(err, errno, "etc/mtab");
    return 0;
}

/* What cannot be copied is left out: the box lacks a convenience, no more. */
static void copy_etc(int root) {
    autofd from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd to = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof etc_allowed / sizeof *etc_allowed; i++) {
        char parent[64];
        snprintf(parent, sizeof parent, "%s", etc_allowed[i]);
        char *slash = strchr(parent, '/');
        while (slash) { /* the directories above it */
            *slash = 0;
            if (faccessat(from, parent, F_OK, 0) == 0 && mkdirat(to, parent, 0755) == 0 &&
                fchmodat(to, parent, 0755, 0) < 0)
                return;
            *slash = '/';
            slash = strchr(slash + 1, '/');
        }
        if (!strpbrk(etc_allowed[i], "*")) {
            copy_any(from, etc_allowed[i], to, etc_allowed[i], 0);
            continue;
        }
        DIR *dir = fdopendir(dup(from));
        struct dirent *entry;
        if (dir)
            rewinddir(dir);
        while (dir && (entry = readdir(dir)))
            if (fnmatch(etc_allowed[i], entry->d_name, FNM_PERIOD) == 0)
                copy_any(from, entry->d_name, to, entry->d_name, 0);
        if (dir)
            closedir(dir);
    }
}

static void copy_file(int from, const char *from_name, int to, const char *to_name, mode_t mode) {
    autofd in = openat(from, from_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    autofd out = in < 0 ? -1 : openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (out < 0)
        return;
    while (sendfile(out, in, NULL, 1 << 20) > 0)
        ;
    fchmod(out, mode & 0755);
}

static void copy_any(int from, const char *from_name, int to, const char *to_name, int depth) {
    struct stat status;
    if (depth > COPY_DEPTH || fstatat(from, from_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISLNK(status.st_mode)) {
        char target[1024];
        ssize_t n = readlinkat(from, from_name, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            if (symlinkat(target, to, to_name) < 0)
                return;
        }
    } else if (S_ISREG(status.st_mode) && (status.st_mode & S_IROTH)) {
        copy_file(from, from_name, to, to_name, status.st_mode);
    } else if (S_ISDIR(status.st_mode) && (status.st_mode & S_IROTH)) {
        if (mkdirat(to, to_name, 0755) < 0 && errno != EEXIST)
            return;
        autofd into = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fchmod(into, 0755); /* whatever our umask is */
        int source = openat(from, from_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = source < 0 ? NULL : fdopendir(source);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                copy_any(source, entry->d_name, into, entry->d_name, depth + 1);
        if (dir)
            closedir(dir);
    }
}
