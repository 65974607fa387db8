/* The jail's walls seen from inside, and that nothing is left behind. Needs root; the runner is the one built beside
 * this program. TAP on standard output. `jail_test bench N` measures instead. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/template.h"
#include "base/clock.h"
#include "base/fd.h"
#include "box/box.h"
#include "wire/call.h"
#include "beside.h"
#include "tap.h"

static unsigned slots[64], slot_count; /* that were ours */
static char state[512], runner[PATH_MAX + 16];

static bool shell(const char *command) {
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        waitpid(pid, &status, 0);
    return status == 0;
}

static unsigned number(const char *text, unsigned otherwise) {
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

struct jail {
    const struct backend_ops *ops;
    struct backend *backend;
    struct spec spec;
    struct wire *wire;
    int pidfd;
};

static int take_output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)stream;
    buf_put(user, data, len);
    return 0;
}

/* The output of a command, or "error: ..." */
static const char *run_as(struct jail *jail, bool root, const char *command) {
    static struct buf out;
    struct box box = {.wire = jail->wire};
    static const char *const nothing[] = {"/bin/true", NULL};
    struct exec_request request = {.command = command, .root = root, .timeout_ms = 20000};
    if (!command)
        request.argv = nothing;
    struct exec_sink sink = {.output = take_output, .user = &out};
    struct exec_result result;
    struct err err = {0};
    buf_done(&out);
    buf_init(&out, 1 << 20);
    if (box_exec(&box, &request, &sink, -1, &result, &err) < 0) {
        buf_clear(&out);
        buf_printf(&out, "error: %s", err.text);
    }
    if (getenv("TRACE"))
        printf("# exited %d code %d signal %d: %s\n", result.exited, result.exit_code, result.signal, command);
    return buf_cstr(&out);
}

static const char *run(struct jail *jail, const char *command) {
    return run_as(jail, false, command);
}

static bool start(struct jail *jail, const char *id) {
    struct err err = {0};
    snprintf(jail->spec.id, sizeof jail->spec.id, "%s", id);
    int r = jail->ops->start(jail->backend, &jail->spec, &jail->wire, &jail->pidfd, &err);
    if (r < 0)
        printf("# start: %s: %s\n", err_name(-r), err.text);
    char path[600], text[256];
    snprintf(path, sizeof path, "%s/boxes/%s/jail", state, id);
    if (slot_count < 64 && fd_read_file(AT_FDCWD, path, text, sizeof text) > 0)
        slot_count += sscanf(text, "%*d %*u %u", &slots[slot_count]) == 1;
    return r == 0;
}

static bool stop(struct jail *jail, bool keep) {
    struct err err = {0};
    wire_unref(jail->wire);
    jail->wire = NULL;
    fd_close(&jail->pidfd);
    int r = jail->ops->stop(jail->backend, jail->spec.id, keep, &err);
    if (r < 0)
        printf("# stop: %s\n", err.text);
    return r == 0;
}

static void lacks(const char *got, const char *bad, const char *what) {
    ok(strncmp(got, "error:", 6) != 0 && !strstr(got, bad), what);
    if (strncmp(got, "error:", 6) == 0 || strstr(got, bad))
        printf("# '%s' in: %s\n", bad, got);
}

static unsigned entries(const char *path) {
    DIR *dir = opendir(path);
    unsigned count = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        count += entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_REG);
    if (dir)
        closedir(dir);
    return count;
}

/* ---- the walls ---- */

static void test_agent(struct jail *jail) {
    is(run(jail, "echo hello"), "hello\n", "a command runs");
    is(run(jail, "id -u; id -g; id -un; pwd"), "1000\n1000\nagent\n/workspace\n", "as agent, in the workspace");
    is(run(jail, "grep -E 'CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp:' /proc/self/status | tr -d ' \\t'"),
       "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\n"
       "CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n",
       "no capabilities, no_new_privs, seccomp");
    is(run(jail, "cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l | awk '{print ($1 < 8)}'"), "cubby-runner\n1\n",
       "own pid namespace");
    is(run(jail, "awk 'NR>2{print $1}' /proc/net/dev"), "lo:\n", "only the loopback");
    is(run(jail, "hostname; cat /etc/hostname"), "cubby\ncubby\n", "own host name");
    is(run(jail, "ls -A /root 2>/dev/null; ls -A /home; ls -A /mnt /opt /run | grep -v : | tr -d '\\n'"), "lock",
       "nothing of the host's homes");
    is(run(jail, "echo x > /workspace/f && stat -c '%u %g %a' /workspace /workspace/f /tmp / /usr | tr '\\n' ';'"),
       "1000 1000 755;1000 1000 644;0 0 1777;0 0 755;0 0 755;", "owners and modes");
    is(run(jail, "ls /dev | tr '\\n' ' '"), "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ",
       "/dev");
    is(run(jail, "echo x > /dev/null && echo x > /dev/shm/a && head -c 2 /dev/zero | od -An -tx1 | tr -d ' '"),
       "0000\n", "devices work");
    const char *mounts = run(jail, "cat /proc/self/mountinfo");
    lacks(mounts, state, "no host path in mountinfo");
    lacks(mounts, "/templates", "no template path in mountinfo");
    is(run(jail, "cat /proc/self/uid_map | awk '{print $1, ($2 >= 268435456), $3}'"), "0 1 65536\n", "uid map");
    is(run(jail, "cat /proc/keys; cat /proc/timer_list; ls /proc/scsi 2>/dev/null; echo x 2>/dev/null "
                 "> /proc/sys/kernel/hostname || echo ro"),
       "ro\n", "/proc is masked");
    is(run(jail, "cat /proc/1/environ 2>&1 | tail -c 18; ls -l /proc/1/fd 2>&1 | tail -c 18"),
       "Permission denied\nPermission denied\n", "the runner cannot be looked into");
    is(run(jail, "kill -9 1 2>&1 | tail -c 24; kill -STOP 1 2>/dev/null; echo alive"),
       "Operation not permitted\nalive\n", "the runner cannot be killed");
}

static void test_forbidden(struct jail *jail, bool root) {
    static const char *const commands[][2] = {
        {"unshare -Ur true", "no user namespace"},
        {"unshare -m true", "no mount namespace"},
        {"mount -t tmpfs none /mnt", "no mount"},
        {"umount /proc", "no umount"},
        {"mount -o remount,rw /proc/sys", "no remount"},
        {"chroot / true", "no chroot"},
        {"mknod /tmp/d c 1 3", "no device"},
        {"python3 -c 'import socket; socket.socket(38, 5, 0)'", "no AF_ALG"},
        {"python3 -c 'import socket; socket.socket(40, 1, 0)'", "no AF_VSOCK"},
        {"python3 -c 'import socket; socket.socket(17, 3, 0)'", "no AF_PACKET"},
        {"python3 -c 'import socket; socket.socket(2, 3, 1)'", "no raw socket"},
        {"dmesg", "no dmesg"},
        {"nsenter -t 1 -m true", "no setns"},
        {"echo x > /proc/sysrq-trigger; cat /proc/sysrq-trigger | grep -q .", "no sysrq"},
        {"test -e /sys/fs/cgroup/cgroup.procs", "no cgroupfs"},
        {"date -s 2000-01-01", "no clock"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[300], what[100];
        snprintf(command, sizeof command, "(%s) >/dev/null 2>&1 && echo DONE || echo refused", commands[i][0]);
        snprintf(what, sizeof what, "%s (%s)", commands[i][1], root ? "root" : "agent");
        is(run_as(jail, root, command), "refused\n", what);
    }
}

static void test_root(struct jail *jail) {
    is(run_as(jail, true, "id -u; grep CapEff /proc/self/status | tr -d ' \\t'"), "0\nCapEff:00000000000004fb\n",
       "root inside has a few capabilities");
    is(run_as(jail, true,
              "touch /usr/bin/new && echo '#!/bin/sh\necho new' > /usr/local/bin/tool && "
              "chmod 755 /usr/local/bin/tool && tool"),
       "new\n", "root may install into /usr");
    is(run_as(jail, true, "touch /root/x && chown 1000 /root/x && stat -c %u /root/x"), "1000\n", "root owns files");
    ok(access("/usr/bin/new", F_OK) < 0, "the host's /usr is untouched");
    test_forbidden(jail, true);
}

static void test_mounts(struct jail *jail) {
    char source[PATH_MAX];
    snprintf(source, sizeof source, "%s/../source", state);
    mkdir(source, 0755);
    char file[PATH_MAX + 8];
    snprintf(file, sizeof file, "%s/f", source);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    if (chown(source, 4242, 4242) < 0 || chown(file, 4242, 4242) < 0)
        return;
    struct mount mounts[] = {{source, "/mnt/deep/er", false}, {source, "/workspace/ro", true}};
    jail->spec.mounts = mounts;
    jail->spec.mount_count = 2;
    ok(start(jail, "00000000000000c1"), "a jail with mounts");
    is(run(jail,
           "stat -c '%u %g' /mnt/deep/er /mnt/deep/er/f | tr '\\n' ';'; echo x > /mnt/deep/er/new; ls /workspace/ro | "
           "tr '\\n' ' '"),
       "1000 1000;1000 1000;f new ", "the directory's owner is agent");
    is(run(jail, "echo x 2>/dev/null > /workspace/ro/y || echo read-only"), "read-only\n", "a read-only mount");
    struct stat status;
    snprintf(file, sizeof file, "%s/new", source);
    ok(stat(file, &status) == 0 && status.st_uid == 4242, "what agent writes belongs to the directory's owner");
    ok(stop(jail, false), "stop");
    jail->spec.mounts = (struct mount[]){{"/nonexistent/x", "/mnt/x", false}};
    jail->spec.mount_count = 1;
    struct err err = {0};
    int r = jail->ops->start(jail->backend, &jail->spec, &jail->wire, &jail->pidfd, &err);
    ok(r == -ERR_INTERNAL && strstr(err.text, "/nonexistent/x"), "a missing source is named");
    printf("# %s\n", err.text);
    jail->spec.mounts = NULL;
    jail->spec.mount_count = 0;
}

static void test_limits(struct jail *jail) {
    jail->spec.limits = (struct limits){.memory_mb = 64, .pids = 32, .cpus = 0.5};
    ok(start(jail, "00000000000000d1"), "a jail with limits");
    is(run(jail, "(python3 -c 'x = bytearray(300 << 20)'; echo $?) 2>/dev/null"), "137\n", "the memory limit");
    lacks(run(jail, "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo unlimited"), "unlimited",
          "the process limit");
    is(run(jail, "echo alive"), "alive\n", "the runner survives both");
    struct usage usage = {0};
    struct err err;
    ok_all("usage is known", jail->ops->usage(jail->backend, jail->spec.id, &usage, &err) == 0, usage.has_memory,
           usage.has_pids);
    ok(stop(jail, false), "stop");
    jail->spec.limits = (struct limits){0};
}

static void test_keep(struct jail *jail) {
    ok(start(jail, "00000000000000e1"), "a jail to come back to");
    run(jail, "echo kept > /workspace/f; (sleep 1000 &) ");
    wire_unref(jail->wire);
    fd_close(&jail->pidfd);
    struct err err = {0};
    ok(jail->ops->discover(jail->backend, jail->spec.id, &jail->wire, &jail->pidfd, &err) == 0, "discovered");
    is(run(jail, "cat /workspace/f"), "kept\n", "the same box");
    ok(stop(jail, true), "stopped, files kept");
    ok(jail->ops->discover(jail->backend, jail->spec.id, &jail->wire, &jail->pidfd, &err) == -ERR_NOT_FOUND,
       "not discovered any more");
    ok(start(jail, "00000000000000e1"), "started again");
    is(run(jail, "cat /workspace/f"), "kept\n", "with its files");
    ok(stop(jail, false), "stop");
    ok(stop(jail, false), "stop is idempotent");
}

static void count_name(void *user, const char *name) {
    *(unsigned *)user += strcmp(name, "tiny") == 0 || strcmp(name, "host") == 0;
}

static void test_template(struct jail *jail, const struct backend_env *env) {
    char command[4000], path[600];
    struct err err = {0};
    snprintf(
        command, sizeof command,
        "d=%s/../tree; mkdir -p $d/bin $d/lib64 $d/lib/$(gcc -print-multiarch) && cp /bin/dash $d/bin/sh && cp /bin/cat "
        "/bin/ls $d/bin && for f in $(ldd /bin/sh /bin/ls | grep -o '/[^ :]*lib[^ ]*' | sort -u); do "
        "mkdir -p $d$(dirname $f) && cp -L $f $d$f; done && tar -C $d -czf $d.tar.gz . 2>/dev/null",
        state);
    ok(shell(command), "a tree to import");
    snprintf(path, sizeof path, "%s/../tree.tar.gz", state);
    ok(template_import(env, "tiny", path, &err) == 0, "a tar file is imported");
    ok(template_import(env, "tiny", path, &err) == -ERR_EXISTS, "but not twice");
    ok(template_import(env, "../x", path, &err) == -ERR_INVALID, "a bad name is refused");
    ok(template_import(env, "none", "/nonexistent.tar", &err) == -ERR_NOT_FOUND, "a missing file is said");
    snprintf(path, sizeof path, "%s/../tree", state);
    ok(template_import(env, "dir", path, &err) == 0, "a directory is imported");
    unsigned seen = 0;
    ok(template_list(env, count_name, &seen, &err) == 0 && seen == 2, "templates are listed");
    jail->spec.template_name = "tiny";
    ok(start(jail, "00000000000000a2"), "a jail of it");
    is(run(jail, "cat /etc/passwd; ls /"),
       "agent:x:1000:1000:agent:/workspace:/bin/sh\nbin\ndev\netc\nhome\nlib\nlib64\nmedia\nmnt\nopt\nproc\nroot\nrun\n"
       "srv\nsys\ntmp\nusr\nvar\nworkspace\n",
       "has only what was imported");
    ok(template_remove(env, "tiny", &err) == 0, "a template in use can be removed");
    is(run(jail, "echo alive"), "alive\n", "its box goes on");
    ok(stop(jail, false), "stop");
    ok(jail->ops->start(jail->backend, &jail->spec, &jail->wire, &jail->pidfd, &err) == -ERR_NOT_FOUND,
       "a missing template is said");
    jail->spec.template_name = NULL;
}

/* ---- jails made for nobody ---- */

static int call_once(struct wire *wire, enum op op, const struct buf *args, struct err *err) {
    struct call *call;
    struct event event;
    struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + 60000};
    int r = call_open(wire, op, args, NULL, 0, false, &call, err);
    if (r < 0)
        return r;
    r = call_next(call, &wait, &event, err);
    call_close(call);
    return r;
}

static bool make_blank(struct jail *jail, struct slot *slot) {
    struct template template;
    struct err err = {0};
    struct limits limits = {0};
    struct slot_want want = {.template = &template, .limits = &limits};
    int r = template_find(jail->backend->env, "host", &template, &err);
    if (r == 0)
        r = slot_make(jail->backend, &want, slot, &err);
    if (r == 0)
        r = slot_plan_blank(jail->backend, slot, &err);
    if (r == 0)
        r = slot_greet(jail->backend, slot, slot->dir, &err);
    if (r == 0)
        slot_part(jail->backend, slot, false);
    if (r < 0)
        printf("# blank: %s\n", err.text);
    return r == 0;
}

static void test_blank(struct jail *jail) {
    struct slot slot;
    struct err err = {0};
    const char *env[] = {"OWNER=ann", "HOME=/tmp", NULL};
    struct spec spec = {.user = "ann", .id = "00000000000000b1", .env = env, .env_count = 2, .shell = "/bin/dash"};
    spec.limits.open_files = 77;
    ok(make_blank(jail, &slot), "a jail is made for nobody");
    ok(slot_alive(&slot), "it waits");
    ok(call_once(slot.wire, OP_PING, NULL, &err) == -ERR_BUSY, "and answers nothing before it is somebody's");
    ok(slot_bind(jail->backend, &slot, &spec, &err) == 0, "it is bound");
    jail->wire = slot.wire;
    is(run(jail, "echo $OWNER $HOME $LANG; ulimit -n; readlink /proc/$$/exe"), "ann /tmp C.UTF-8\n77\n/usr/bin/dash\n",
       "to its owner's environment, shell and limits");
    ok(call_once(slot.wire, OP_BIND, NULL, &err) == -ERR_EXISTS, "only once");
    jail->pidfd = slot.pidfd;
    snprintf(jail->spec.id, sizeof jail->spec.id, "%s", spec.id);
    ok(stop(jail, false), "and ends as any box");
    ok(make_blank(jail, &slot), "another one");
    struct pollfd polls = {.fd = slot.pidfd, .events = POLLIN};
    wire_unref(slot.wire);
    slot.wire = NULL;
    ok(poll(&polls, 1, 60000) == 1, "which nobody takes ends with its wire");
    ok(!slot_alive(&slot), "and is known to have ended");
    slot_drop(jail->backend, &slot);
}

static void test_rubbish(struct jail *jail) {
    ok(start(jail, "00000000000000f1"), "a jail that leaves a deep tree");
    run(jail, "python3 - <<'E'\nimport os\nfor i in range(3000):\n os.mkdir('d'); os.chdir('d')\nE\n"
              "mkdir /tmp/w; cd /tmp/w; seq 1 3000 | xargs touch; mkdir x; touch x/y; chmod 0 x");
    ok(stop(jail, false), "stop");
}

static void test_clean(void) {
    char path[PATH_MAX + 16], text[1 << 16];
    snprintf(path, sizeof path, "%s/boxes", state);
    ok(entries(path) == 0, "no box is left");
    snprintf(path, sizeof path, "%s/trash", state);
    ok(entries(path) == 0, "no file is left");
    /* other daemons may be at work on this machine, and may have got a slot that was ours */
    unsigned left = 0, groups = 0;
    for (unsigned i = 0; i < slot_count; i++) {
        int pid = 0;
        unsigned long long began = 0;
        snprintf(path, sizeof path, IDS_DIR "/%u", slots[i]);
        bool claimed = fd_read_file(AT_FDCWD, path, text, sizeof text) > 0;
        left +=
            claimed && (sscanf(text, "%d %llu", &pid, &began) != 2 || pid == getpid() || !process_alive(pid, began));
        snprintf(path, sizeof path, "/sys/fs/cgroup/unified/cubby/%u", slots[i]);
        groups += !claimed && access(path, F_OK) == 0;
        snprintf(path, sizeof path, "/sys/fs/cgroup/cubby/%u", slots[i]);
        groups += !claimed && access(path, F_OK) == 0;
    }
    ok(slot_count > 4 && left == 0, "no claim is left");
    ok(groups == 0, "no cgroup is left");
    ok(fd_read_file(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) > 0 && !strstr(text, state),
       "no mount is left");
    ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
}

/* Run by itself as an ordinary user: `jail_test ordinary DIR`. Ends with the number of failures. */
static int ordinary(const char *dir) {
    snprintf(state, sizeof state, "%s/ordinary", dir);
    struct backend_env env = {.state_dir = state, .runner_path = runner};
    struct jail jail = {.ops = &backend_jail, .pidfd = -1, .spec = {.user = "default"}};
    struct err err = {0};
    if (jail.ops->open(&env, &jail.backend, &err) < 0) {
        printf("# %s\n", err.text);
        return 100;
    }
    struct mount mounts[] = {{dir, "/mnt/dir", true}};
    jail.spec.mounts = mounts;
    jail.spec.mount_count = 1;
    ok(start(&jail, "00000000000000a1"), "an ordinary user's jail starts");
    is(run(&jail,
           "id -u; cat /proc/self/uid_map | tr -s ' '; ls /mnt/dir; touch /mnt/dir/x 2>/dev/null || echo read-only"),
       "1000\n 1000 4242 1\nordinary\nread-only\n", "one id, and a read-only mount");
    is(run(&jail,
           "rm -r /etc/ssl; mkdir /etc/ssl && ls -A /etc/ssl; grep -c 'Cap.*:.0*$' /proc/self/status; echo x > f; cat f"),
       "5\nx\n", "files, no capabilities");
    lacks(run(&jail, "cat /proc/self/mountinfo"), "/templates", "no host path of ours in mountinfo");
    ok(strstr(run_as(&jail, true, "id"), "error:") != NULL, "no root");
    ok(stop(&jail, false), "stop");
    jail.spec.limits.memory_mb = 64;
    bool can = jail.ops->start(jail.backend, &jail.spec, &jail.wire, &jail.pidfd, &err) == 0;
    ok(can || err.code == ERR_UNSUPPORTED, "a limit is kept or refused");
    if (can)
        stop(&jail, false);
    jail.spec.limits.memory_mb = 0;
    jail.spec.network = NETWORK_OPEN;
    ok(jail.ops->start(jail.backend, &jail.spec, &jail.wire, &jail.pidfd, &err) == -ERR_UNSUPPORTED, "no open network");
    jail.ops->close(jail.backend);
    return (int)tap_failures;
}

static void test_ordinary(const char *top) {
    char dir[64];
    snprintf(dir, sizeof dir, "%s/o", top);
    if (chmod(top, 0755) < 0 || mkdir(dir, 0755) < 0 || chown(dir, 4242, 4242) < 0)
        return;
    const char *const argv[] = {"/proc/self/exe", "ordinary", dir, NULL};
    pid_t pid;
    int status = 0;
    fflush(stdout);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, (char *const *)(uintptr_t)argv, NULL) == 0)
        waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 101)
        printf("# an ordinary user cannot reach the runner here: skipped\n");
    else
        ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "an ordinary user's jail");
}

/* ---- figures ---- */

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void figure(const char *what, uint64_t *times, unsigned count) {
    qsort(times, count, sizeof *times, compare);
    printf("# %-12s min %6llu  p25 %6llu  p50 %6llu us\n", what, (unsigned long long)times[0],
           (unsigned long long)times[count / 4], (unsigned long long)times[count / 2]);
}

static void spawn(const char *const argv[]) {
    pid_t pid;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, NULL) == 0)
        waitpid(pid, NULL, 0);
}

static void bench(struct jail *jail, unsigned count) {
    static uint64_t times[6][10000];
    const char *const true_argv[] = {"/bin/true", NULL};
    const char *const bwrap_argv[] = {"/usr/bin/bwrap", "--ro-bind", "/",     "/",
                                      "--unshare-all",  "--proc",    "/proc", "--dev",
                                      "/dev",           "/bin/true", NULL};
    for (unsigned i = 0; i < count && i < 10000; i++) {
        uint64_t t0 = clock_us();
        if (!start(jail, "00000000000000b1"))
            return;
        uint64_t t1 = clock_us();
        run(jail, NULL);
        uint64_t t2 = clock_us();
        run(jail, NULL);
        uint64_t t3 = clock_us();
        stop(jail, false);
        uint64_t t4 = clock_us();
        spawn(true_argv);
        uint64_t t5 = clock_us();
        spawn(bwrap_argv);
        uint64_t all[6] = {t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, clock_us() - t5};
        for (unsigned k = 0; k < 6; k++)
            times[k][i] = all[k];
        if (getenv("GAP_MS"))
            usleep(number(getenv("GAP_MS"), 0) * 1000);
    }
    static const char *const names[] = {"start", "first exec", "second exec", "stop", "posix_spawn", "bwrap"};
    for (unsigned k = 0; k < 6; k++)
        figure(names[k], times[k], count);
}

static void become_ordinary(void) {
    if (setgroups(0, NULL) < 0 || setresgid(4242, 4242, 4242) < 0 || setresuid(4242, 4242, 4242) < 0 ||
        prctl(PR_SET_DUMPABLE, 1) < 0 || access(runner, X_OK) < 0)
        exit(101);
}

int main(int argc, char **argv) {
    char top[] = "/tmp/jail_test-XXXXXX";
    beside(runner, "cubby-runner");
    if (argc == 3 && strcmp(argv[1], "ordinary") == 0) {
        become_ordinary();
        tap_prefix = "# ";
        return ordinary(argv[2]);
    }
    if (geteuid() != 0 || !mkdtemp(top)) {
        printf("1..0 # SKIP needs root\n");
        return 0;
    }
    snprintf(state, sizeof state, "%s/state", top);
    struct backend_env env = {.state_dir = state, .runner_path = runner, .pool_size = number(getenv("POOL"), 2)};
    struct jail jail = {.ops = &backend_jail, .pidfd = -1, .spec = {.user = "default"}};
    struct err err = {0};
    int r = jail.ops->open(&env, &jail.backend, &err);
    if (r < 0) {
        printf("1..0 # SKIP %s\n", err.text);
        return 0;
    }
    if (argc > 2) {
        jail.spec.one_shot = getenv("ONE_SHOT") != NULL;
        bench(&jail, number(argv[2], 0));
        jail.ops->close(jail.backend);
        return 0;
    }
    ok(start(&jail, "00000000000000a1"), "a jail starts");
    if (jail.wire) {
        test_agent(&jail);
        test_forbidden(&jail, false);
        test_root(&jail);
        ok(stop(&jail, false), "stop");
        test_mounts(&jail);
        test_limits(&jail);
        test_keep(&jail);
        test_rubbish(&jail);
        test_blank(&jail);
        test_template(&jail, &env);
        test_ordinary(top);
    }
    jail.ops->close(jail.backend);
    test_clean();
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", top);
    return tap_end() || !shell(command);
}
