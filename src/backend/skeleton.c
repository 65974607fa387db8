/* The templates `host` and `base`. Called by template.c. Invariant: only what the allow list names and everybody on the
 * host may read is copied; keys, homes, sockets and our own state never are. */
#include "backend/skeleton.h"

#include <fnmatch.h>
#include <pthread.h>
#include <sys/sendfile.h>

#include "backend/spawn.h"
#include "base/base.h"
#include "tree/removal.h"

#define FORMAT 5 /* raise when the result changes */
#define COPY_DEPTH 6
#define LOCALES "/usr/lib/locale"
#define LOCALES_ARCHIVE "locale-archive"
enum { LOCALES_BYTES = 16 << 20 };

/* Patterns of names directly below /etc, or of paths below a directory of it. */
static const char skeleton_etc[] =
    "alternatives bash.bashrc bash_completion ca-certificates.conf debian_version fonts gai.conf "
    "host.conf inputrc issue java-* ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf "
    "localtime login.defs lsb-release magic magic.mime mime.types networks nsswitch.conf os-release perl "
    "profile protocols python3* redhat-release rpc services shells skel terminfo timezone vim X11/fonts "
    "ssl/certs ssl/openssl.cnf pki/tls/certs pki/ca-trust/extracted default/locale gnucobol matplotlibrc maven "
    "fpc.cfg fpc-*.cfg ld-musl-*";
/* /usr, and if /usr is not merged the directories next to it. */
static const char *const skeleton_system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

static const struct {
    const char *path;
    unsigned mode, uid;
} skeleton_dir[] = {{"proc", 0555, 0},     {"dev", 0755, 0},       {"tmp", 01777, 0},      {"var", 0755, 0},
                    {"var/tmp", 01777, 0}, {"var/lib", 0755, 0},   {"var/cache", 0755, 0}, {"var/log", 0755, 0},
                    {"run", 0755, 0},      {"run/lock", 01777, 0}, {"root", 0700, 0},      {"home", 0755, 0},
                    {"mnt", 0755, 0},      {"opt", 0755, 0},       {"srv", 0755, 0},       {"media", 0755, 0},
                    {"etc", 0755, 0},      {"sys", 0555, 0},       {"usr", 0755, 0},       {"workspace", 0755, 1000}};

#define SKELETON_PASSWD                                                                                                \
    "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"                               \
    "bin:x:2:2:bin:/bin:/usr/sbin/nologin\nman:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"                          \
    "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"                                                                    \
    "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"                                                           \
    "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"                                                                \
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
#define SKELETON_GROUP                                                                                                 \
    "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nman:x:12:\n"                \
    "www-data:x:33:\nutmp:x:43:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\n"

static const struct {
    const char *path, *text;
    const char *user; /* of `base`; NULL: the same */
} skeleton_files[] = {
    /* Where every command is a login shell, the host's profile would start a process or two in each. */
    {"etc/profile", NULL,
     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"
     "if [ \"${PS1-}\" ] && [ \"${BASH-}\" ] && [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n"
     "for i in /etc/profile.d/*.sh; do if [ -r \"$i\" ]; then . \"$i\"; fi; done\nunset i\n"},
    {"etc/passwd", SKELETON_PASSWD "agent:x:1000:1000:agent:/workspace:/bin/bash\n",
     SKELETON_PASSWD "user:x:1000:1000:user:/home/user:/bin/bash\n"},
    {"etc/group", SKELETON_GROUP "agent:x:1000:\n", SKELETON_GROUP "user:x:1000:\n"},
    {"etc/hosts", "127.0.0.1 localhost cubby\n::1 localhost ip6-localhost ip6-loopback\n", NULL},
    {"etc/hostname", "cubby\n", NULL},
    {"etc/resolv.conf",
     "# answered where the box has a network policy\nnameserver 127.0.0.53\noptions timeout:2 attempts:2\n", NULL},
};

/* Makes the directories of every root. What the root has already may be a link, as long as it stays inside; but nothing
 * is mounted over a link. */
static int skeleton_dirs(int root, struct err *err) {
    for (size_t i = 0; i < sizeof skeleton_dir / sizeof *skeleton_dir; i++) {
        const char *path = skeleton_dir[i].path;
        unsigned uid = skeleton_dir[i].uid;
        bool mounted = strcmp(path, "dev") == 0 || strcmp(path, "proc") == 0;
        autofd have = path_open(root, path, O_PATH | O_DIRECTORY | (mounted ? O_NOFOLLOW : 0), 0), parent = -1;
        char name[256];
        if (have >= 0)
            continue;
        int r = path_open_parent(root, "/", path, &parent, name, err);
        if (r < 0)
            return r;
        if (mkdirat(parent, name, 0755) < 0)
            return errno == EEXIST
                       ? err_set(err, ERR_INVALID, "'/%s' of the template is not a directory of its own", path)
                       : err_errno(err, errno, "'/%s' of the template", path);
        if (fchmodat(parent, name, skeleton_dir[i].mode, 0) < 0 ||
            (geteuid() == 0 && fchownat(parent, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0))
            return err_errno(err, errno, "'/%s' of the template", path);
    }
    return 0;
}

static void skeleton_copy(int from, const char *name, int to, int depth) {
    struct stat status;
    char target[1024];
    if (depth > COPY_DEPTH || fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISLNK(status.st_mode)) {
        ssize_t n = readlinkat(from, name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (n <= 0 || symlinkat(target, to, name) < 0)
            return;
    } else if (S_ISREG(status.st_mode) && (status.st_mode & S_IROTH)) {
        autofd in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        autofd out = in < 0 ? -1 : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        while (out >= 0 && sendfile(out, in, NULL, 1 << 20) > 0)
            ;
        fchmod(out, status.st_mode & 0755);
    } else if (S_ISDIR(status.st_mode) && (status.st_mode & S_IROTH)) {
        if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
            return;
        autofd into = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fchmod(into, 0755); /* whatever our umask is */
        autodir *dir = fd_opendir(from, name, O_NOFOLLOW);
        for (struct dirent *entry; (entry = fd_readdir(dir));)
            skeleton_copy(dirfd(dir), entry->d_name, into, depth + 1);
    }
}

/* Files that cannot be copied are left out: the box only lacks a convenience. */
static void skeleton_copy_etc(int root) {
    autofd from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd to = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *at = skeleton_etc; *at; at += strspn(at, " ")) {
        char name[64], parent[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        memcpy(parent, name, sizeof parent);
        at += strlen(name);
        for (char *slash = parent; (slash = strchr(slash, '/')); *slash++ = '/') { /* the directories above it */
            *slash = 0;
            if (faccessat(from, parent, F_OK, 0) == 0 && mkdirat(to, parent, 0755) == 0 &&
                fchmodat(to, parent, 0755, 0) < 0)
                return;
        }
        if (!strchr(name, '*')) {
            skeleton_copy(from, name, to, 0);
            continue;
        }
        autodir *dir = fd_opendir(from, ".", 0);
        for (struct dirent *entry; (entry = fd_readdir(dir));)
            if (fnmatch(name, entry->d_name, FNM_PERIOD) == 0)
                skeleton_copy(from, entry->d_name, to, 0);
    }
}

/* /usr/local/bin/sudo: the runner under another name, which asks the box's own runner (src/runner/sudo_main.c). A root
 * that has one of its own, or no such directory, stays as it is. */
static int skeleton_sudo(int root, const char *runner, struct err *err) {
    autofd dir = path_open(root, "usr/local/bin", O_PATH | O_DIRECTORY, 0);
    autofd in = dir < 0 || !runner ? -1 : open(runner, O_RDONLY | O_CLOEXEC);
    autofd out = in < 0 ? -1 : openat(dir, "sudo", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    ssize_t moved = out < 0 ? 0 : 1;
    while (moved > 0)
        moved = sendfile(out, in, NULL, 1 << 20);
    if (moved < 0 || (out >= 0 && fchmod(out, 0755) < 0))
        return err_errno(err, errno, "'/usr/local/bin/sudo' of the template");
    return 0;
}

/* The home of `user`, instead of /workspace. */
static int skeleton_home(int root, struct err *err) {
    unlinkat(root, "workspace", AT_REMOVEDIR);
    if (mkdirat(root, "home/user", 0755) < 0 || fchmodat(root, "home/user", 0755, 0) < 0 ||
        (geteuid() == 0 && fchownat(root, "home/user", 1000, 1000, AT_SYMLINK_NOFOLLOW) < 0))
        return err_errno(err, errno, "'/home/user' of the template");
    static const char *const above[] = {"usr/local", "usr/local/bin"}; /* over the host's /usr */
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (mkdirat(root, above[i], 0755) < 0 || fchmodat(root, above[i], 0755, 0) < 0)
            return err_errno(err, errno, "'/%s' of the template", above[i]);
    return 0;
}

/* Where packages come from, as the host has it; a file that may hold a password is left out. */
static void skeleton_sources(int etc) {
    autofd from = open("/etc/apt", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = openat(etc, "apt", O_RDONLY | O_DIRECTORY);
    static const char *const names[] = {"sources.list", "sources.list.d", "trusted.gpg.d"};
    char text[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        skeleton_copy(from, names[i], to, 0);
    if (fd_read_file(to, names[0], text, sizeof text) < 0 || strchr(text, '@'))
        unlinkat(to, names[0], 0);
    autodir *dir = fd_opendir(to, names[1], O_NOFOLLOW);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (fd_read_file(dirfd(dir), entry->d_name, text, sizeof text) < 0 || strchr(text, '@'))
            unlinkat(dirfd(dir), entry->d_name, 0);
}

/* The host's list of packages: `base` has their files, and its root can install more. Which files are whose is not
 * copied: each package has an empty list, without which dpkg would complain. */
static void skeleton_packages(int root) {
    static const char *const dirs[] = {"etc/apt",
                                       "etc/apt/apt.conf.d",
                                       "etc/apt/preferences.d",
                                       "etc/apt/sources.list.d",
                                       "var/log/apt",
                                       "var/lib/apt",
                                       "var/lib/dpkg",
                                       "var/lib/dpkg/info",
                                       "var/lib/dpkg/parts",
                                       "var/lib/dpkg/updates",
                                       "var/lib/dpkg/triggers"};
    autofd from = open("/var/lib/dpkg", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0)
        return;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (mkdirat(root, dirs[i], 0755) < 0 || fchmodat(root, dirs[i], 0755, 0) < 0)
            return;
    autofd to = openat(root, "var/lib/dpkg", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd info = openat(to, "info", O_RDONLY | O_DIRECTORY | O_CLOEXEC), etc = openat(root, "etc", O_PATH | O_CLOEXEC);
    static const char *const files[] = {"status", "diversions", "arch", "arch-native", "alternatives"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        skeleton_copy(from, files[i], to, 0);
    autodir *dir = fd_opendir(from, "info", O_NOFOLLOW);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (fnmatch("*.list", entry->d_name, FNM_PERIOD) == 0)
            close(openat(info, entry->d_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        else if (strcmp(entry->d_name, "format") == 0)
            skeleton_copy(dirfd(dir), entry->d_name, info, 0);
    skeleton_sources(etc);
}

/* C.UTF-8, which boxes use, as an archive over the host's /usr: a program that asks for it makes 60 system calls less
 * than with one file per category. The host's own archive stays part of it. What cannot be made is left out. */
static void skeleton_locales(int root) {
    struct stat status;
    autofd from = open(LOCALES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || fstatat(from, "C.utf8", &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode) ||
        (fstatat(from, LOCALES_ARCHIVE, &status, 0) == 0 && status.st_size > LOCALES_BYTES))
        return;
    autofd usr = openat(root, "usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool made = mkdirat(usr, "lib", 0755) == 0 && fchmodat(usr, "lib", 0755, 0) == 0 &&
                      mkdirat(usr, "lib/locale", 0755) == 0 && fchmodat(usr, "lib/locale", 0755, 0) == 0;
    autofd to = made ? openat(usr, "lib/locale", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    skeleton_copy(from, LOCALES_ARCHIVE, to, 0);
    static const char *const argv[] = {"localedef", "--prefix=/proc/self/fd/3", "--add-to-archive", LOCALES "/C.utf8",
                                       NULL};
    const struct spawn spawn = {
        .program = "/usr/bin/localedef", .argv = argv, .in = -1, .out = -1, .errors = -1, .fds = {root}, .fd_count = 1};
    pid_t pid;
    struct err ignored;
    if (to < 0 || spawn_start(&spawn, &pid, &ignored) < 0 || spawn_wait(pid) != 0 ||
        fchmodat(to, LOCALES_ARCHIVE, 0644, 0) < 0)
        removal_tree(usr, "lib");
}

/* sudo: the program that is `sudo` in `base`; NULL: it is `host`. */
static int skeleton_make(int root, const char *sudo, struct err *err) {
    const bool user = sudo;
    if (fchmod(root, 0755) < 0)
        return err_errno(err, errno, "the template");
    int r = skeleton_dirs(root, err);
    if (r == 0 && user)
        r = skeleton_home(root, err) ?: skeleton_sudo(root, sudo, err);
    if (r < 0)
        return r;
    for (size_t i = 1; i < sizeof skeleton_system / sizeof *skeleton_system; i++) {
        const char *path = skeleton_system[i];
        char target[256];
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (n > 0 ? symlinkat(target, root, path + 1) < 0
                  : access(path, F_OK) == 0 &&
                        (mkdirat(root, path + 1, 0755) < 0 || fchmodat(root, path + 1, 0755, 0) < 0))
            return err_errno(err, errno, "'%s'", path);
    }
    skeleton_copy_etc(root);
    skeleton_locales(root);
    if (user)
        skeleton_packages(root);
    for (size_t i = 0; i < sizeof skeleton_files / sizeof *skeleton_files; i++) {
        const char *path = skeleton_files[i].path, *text = skeleton_files[i].text;
        if (user && skeleton_files[i].user)
            text = skeleton_files[i].user;
        if (!text)
            continue;
        autofd fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        int written = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
        if (written < 0 || fchmod(fd, 0644) < 0)
            return err_errno(err, written < 0 ? -written : errno, "'%s'", path);
    }
    if (symlinkat("/proc/self/mounts", root, "etc/mtab") < 0 && errno != EEXIST)
        return err_errno(err, errno, "etc/mtab");
    return 0;
}

/* In a directory of its own first: another process may be making it too, and the faster one's counts. */
static int skeleton_make_at(const char *state_dir, const char *path, const char *sudo, struct err *err) {
    char templates[4096], staged[64];
    snprintf(templates, sizeof templates, "%s/templates", state_dir);
    mkdir(state_dir, 0700);
    autofd dir = backend_open_dir(AT_FDCWD, templates, true, err);
    if (dir < 0)
        return dir;
    snprintf(staged, sizeof staged, ".new-%d-%llu", getpid(), (unsigned long long)clock_us());
    autofd root = mkdirat(dir, staged, 0755) < 0 ? -1 : openat(dir, staged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = root < 0 ? err_errno(err, errno, "'%s/%s'", templates, staged) : skeleton_make(root, sudo, err);
    if (r == 0 && renameat2(dir, staged, AT_FDCWD, path, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        r = err_errno(err, errno, "'%s'", path);
    removal_tree(dir, staged); /* where another process was faster, or something failed */
    return r;
}

/* Changes when the sources of the skeleton change. Cheap: computed at every start of a box. */
static uint64_t skeleton_version(const char *sudo) {
    const char *const sources[] = {"/etc",
                                   "/etc/alternatives",
                                   "/etc/ld.so.cache",
                                   "/etc/ssl/certs",
                                   "/usr/lib/os-release",
                                   LOCALES,
                                   LOCALES "/C.utf8",
                                   LOCALES "/" LOCALES_ARCHIVE,
                                   sudo, /* the next one: of `base` alone */
                                   "/var/lib/dpkg/status"};
    uint64_t version = 14695981039346656037ull ^ FORMAT;
    for (size_t i = 0; i < sizeof sources / sizeof *sources && sources[i]; i++) {
        struct stat status = {0};
        stat(sources[i], &status);
        version = (version ^ (uint64_t)status.st_mtim.tv_sec) * 1099511628211ull;
        version = (version ^ (uint64_t)status.st_mtim.tv_nsec) * 1099511628211ull;
    }
    return version;
}

int skeleton_find(const struct backend_env *env, bool user, struct template *ret_template, struct err *err) {
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* by one thread: it is a thousand files */
    struct template found = {0};
    const char *sudo = user ? env->runner_path : NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof skeleton_system / sizeof *skeleton_system; i++) {
        struct stat status;
        if (lstat(skeleton_system[i], &status) == 0 && S_ISDIR(status.st_mode) && count + 1 < TEMPLATE_SYSTEM_MAX)
            found.system[count++] = skeleton_system[i];
    }
    if (strlen(env->state_dir) > 3900 || strncmp(env->state_dir, "/usr/", 5) == 0)
        return err_set(err, ERR_INVALID, "the state directory '%.200s' is too long or below /usr", env->state_dir);
    snprintf(found.path, sizeof found.path, "%s/templates/.host-%016llx%s", env->state_dir,
             (unsigned long long)skeleton_version(sudo), user ? "-user" : "");
    int r = 0;
    if (access(found.path, F_OK) < 0) {
        pthread_mutex_lock(&making);
        r = access(found.path, F_OK) == 0 ? 0 : skeleton_make_at(env->state_dir, found.path, sudo, err);
        pthread_mutex_unlock(&making);
    }
    if (r == 0)
        *ret_template = found;
    return r;
}

/* A file of an untrusted root: opened only when it is one, and never through a link. It might be a FIFO, a disk, or a
 * link to the host's own. */
static int skeleton_open_list(int root, const char *path, struct err *err) {
    struct stat status;
    autofd found = path_open(root, path, O_PATH | O_NOFOLLOW, 0);
    if (found >= 0 && (fstat(found, &status) < 0 || !S_ISREG(status.st_mode)))
        return err_set(err, ERR_INVALID, "'/%s' of the template is not a file", path);
    int fd = path_open(root, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    return fd < 0 ? err_errno(err, -fd, "'/%s' of the template", path) : fd;
}

int skeleton_complete(int dir, const char *runner, struct err *err) {
    int r = skeleton_dirs(dir, err) ?: skeleton_sudo(dir, runner, err);
    static const char *const lists[][2] = {{"etc/passwd", "agent:x:1000:1000:agent:/workspace:/bin/sh\n"},
                                           {"etc/group", "agent:x:1000:\n"}};
    for (size_t i = 0; r == 0 && i < 2; i++) {
        char text[65536];
        autofd fd = skeleton_open_list(dir, lists[i][0], err);
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
