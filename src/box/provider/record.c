/* Records of boxes as JSON. Called by the provider. Invariant: strings may hold any bytes but NUL (ROW_OPAQUE); nothing
 * that is not a small regular file is even parsed. */
#include "box/provider/record.h"

#include <jansson.h>

#include "base/base.h"
#include "box/policy.h"
#include "box/provider/provider_private.h"
#include "box/secret/binding.h"
#include "rows/write.h"

struct record_path {
    char text[40];
};

static struct record_path record_path(const char *id, const char *name) {
    struct record_path path;
    snprintf(path.text, sizeof path.text, "%.16s/%.20s", id, name);
    return path;
}

/* ---- as JSON ---- */

/* A record as it lies in its file. */
struct record_file {
    struct record record;
    const char *id, *network;
    uint64_t milli_cpus;
    struct row_list mounts;
};

#define TEXT_ROW(label, holder, member) OUT_ROW(label, TEXT, holder, member, ROW_OPAQUE | ROW_NULLABLE, NULL)
#define NEED_ROW(label, holder, member) OUT_ROW(label, TEXT, holder, member, ROW_OPAQUE | ROW_REQUIRED, NULL)
#define LIST_ROW(label, member) OUT_ROW(label, TEXTS, record_file, member, ROW_OPAQUE, NULL)
#define BOOL_ROW(label, holder, member) OUT(label, BOOL, holder, member, NULL)
#define NUMBER_ROW(label, member) OUT_INT(label, record_file, member, NULL)

static const struct row record_mount_rows[] = {NEED_ROW("source", mount, source),
                                               NEED_ROW("target", mount, target),
                                               BOOL_ROW("read_only", mount, read_only),
                                               BOOL_ROW("door", mount, by_dialect),
                                               {0}};
static const struct row record_container_rows[] = {TEXT_ROW("user", container, user),
                                                   TEXT_ROW("runtime", container, runtime),
                                                   TEXT_ROW("platform", container, platform),
                                                   TEXT_ROW("pull", container, pull),
                                                   BOOL_ROW("read_only", container, read_only),
                                                   BOOL_ROW("image_init", container, image_init),
                                                   {0}};
static const struct row record_rows[] = {
    NEED_ROW("id", record_file, id),
    NEED_ROW("backend", record_file, record.backend),
    NEED_ROW("user", record_file, record.spec.user),
    TEXT_ROW("thread", record_file, record.spec.thread),
    NEED_ROW("template", record_file, record.spec.template_name),
    TEXT_ROW("shell", record_file, record.spec.shell),
    TEXT_ROW("network", record_file, network),
    NUMBER_ROW("network_generation", record.spec.network_generation),
    BOOL_ROW("network_asked", record_file, record.spec.network_asked),
    LIST_ROW("env", record.spec.env),
    LIST_ROW("labels", record.labels),
    LIST_ROW("layers", record.spec.layers),
    LIST_ROW("secrets", record.spec.bindings),
    BOOL_ROW("trusts", record_file, record.spec.trusts),
    TEXT_ROW("agent", record_file, record.spec.agent),
    TEXT_ROW("machine", record_file, record.spec.machine),
    TEXT_ROW("workspace", record_file, record.spec.workspace),
    OUT_OBJECT("container", record_file, record.spec.container, record_container_rows, NULL),
    LIST_ROW("skill_layers", record.spec.attached.layers),
    LIST_ROW("skill_paths", record.spec.attached.paths),
    BOOL_ROW("skill_unsure", record_file, record.spec.attached.unsure),
    OUT_LIST("mounts", record_file, mounts, mount, record_mount_rows, NULL),
    NUMBER_ROW("memory_mb", record.spec.limits.memory_mb),
    NUMBER_ROW("milli_cpus", milli_cpus),
    NUMBER_ROW("pids", record.spec.limits.pids),
    NUMBER_ROW("disk_mb", record.spec.limits.disk_mb),
    NUMBER_ROW("open_files", record.spec.limits.open_files),
    NUMBER_ROW("output_bytes", record.spec.limits.output_bytes),
    NUMBER_ROW("terminals", record.spec.limits.terminals),
    NUMBER_ROW("idle_timeout_ms", record.idle_timeout_ms),
    NUMBER_ROW("created_ms", record.created_ms),
    BOOL_ROW("temporary", record_file, record.temporary),
    BOOL_ROW("discard", record_file, record.spec.discard),
    {0}};

/* ---- files ---- */

int record_errno(struct err *err, int number, const char *what) {
    return number == ENOSPC || number == EDQUOT
               ? err_text(err, number, "the disk of the state directory is full; delete boxes or snapshots")
               : err_errno(err, number, "%s", what);
}

int record_file_write(int dirfd, const char *path, const struct row *rows, const void *from, size_t max,
                      const char *what, struct err *err) {
    autobuf text = buf_max(max);
    struct json json;
    json_init(&json, &text);
    rows_write(&json, rows, from);
    if (text.failed)
        return err_set(err, ERR_TOO_LARGE, "%s is too large", what);
    int r = fd_replace_file(dirfd, path, text.data, text.len);
    return r < 0 ? record_errno(err, -r, what) : 0;
}

int record_file_read(int dirfd, const char *path, const struct row *rows, void *ret_to, size_t max, const char *what,
                     struct arena *arena, struct err *err) {
    autofd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s cannot be read: %s", what, strerror(errno));
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > (off_t)max)
        return err_set(err, ERR_IO, "%s is not a file of at most %zu bytes", what, max);
    size_t size = (size_t)status.st_size;
    autobuf text = buf_max(max);
    char *data = (char *)buf_reserve(&text, size); /* json_loadfd would read byte by byte */
    json_error_t where = {.text = "it is cut short"};
    json_auto_t *root = data && fd_read_full(fd, data, size) == (ssize_t)size
                            ? json_loadb(data, size, JSON_REJECT_DUPLICATES, &where)
                            : NULL;
    if (!root)
        return err_set(err, ERR_IO, "%s is damaged: line %d: %s", what, where.line, where.text);
    return rows_read(root, rows, arena, ret_to, err) < 0 ? err_wrap(err, "%s is damaged", what) : 0;
}

int record_write(int boxes_fd, const struct box *box, struct err *err) {
    const struct spec *spec = &box->spec;
    autoarena arena = ARENA_EMPTY;
    struct record_file file = {.record = box_record(box),
                               .id = box->id,
                               .network = spec_network(spec),
                               .milli_cpus = (uint64_t)(spec->limits.cpus * 1000 + 0.5),
                               .mounts = {(void *)(uintptr_t)spec->mounts, spec->mount_count}};
    file.record.spec.bindings = box_bindings(box, &arena);
    TRY(record_file_write(boxes_fd, record_path(box->id, "box.json").text, record_rows, &file, LIMIT_JSON_BYTES,
                          "the box's record", err));
    return fchmodat(boxes_fd, box->id, 0700, 0) < 0 /* finished: see the head of record.h */
               ? record_errno(err, errno, "the box's record")
               : 0;
}

bool record_ids(const char *const *names, size_t most) {
    size_t count = 0;
    while (names && names[count] && text_id(names[count]))
        count++;
    return count <= most && (!names || !names[count]);
}

int record_read(int boxes_fd, const char *id, struct arena *arena, struct record *ret_record, struct err *err) {
    struct record_file file = {0};
    const char *what = text_make(64, "the record of box %.16s", id);
    int r = record_file_read(boxes_fd, record_path(id, "box.json").text, record_rows, &file, LIMIT_JSON_BYTES, what,
                             arena, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box %s", id) : r;
    struct spec *spec = &file.record.spec;
    const struct container *container = &spec->container;
    const struct {
        const char *member;
        bool good;
    } checks[] = {{"id", strcmp(file.id, id) == 0},
                  {"layers", record_ids(spec->layers, SIZE_MAX)},
                  {"skill_layers", record_ids(spec->attached.layers, SIZE_MAX)},
                  {"agent", !spec->agent || policy_agent(spec->agent, ERR_IGNORED) == 0},
                  {"machine", !spec->machine || policy_machine(spec->machine, ERR_IGNORED) == 0},
                  {"container.user", !container->user || container_user(container->user)},
                  {"container.runtime", !container->runtime || container_runtime(container->runtime)},
                  {"container.platform", !container->platform || container_platform(container->platform)},
                  {"container.pull", !container->pull || container_pull(container->pull)}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!checks[i].good)
            return err_set(err, ERR_IO, "%s is damaged: its member '%s' is not valid", what, checks[i].member);
    memcpy(spec->id, id, sizeof spec->id);
    spec->network = !file.network                       ? NETWORK_NONE
                    : file.network[0] == '{'            ? NETWORK_POLICY
                    : strcmp(file.network, "open") == 0 ? NETWORK_OPEN
                                                        : NETWORK_NONE;
    spec->policy = spec->network == NETWORK_POLICY ? file.network : NULL;
    spec->env_count = text_list_count(spec->env);
    spec->layer_count = text_list_count(spec->layers);
    spec->attached.count = text_list_count(spec->attached.layers);
    spec->limits.cpus = (double)file.milli_cpus / 1000;
    spec->mounts = file.mounts.items;
    spec->mount_count = file.mounts.count;
    *ret_record = file.record;
    return 0;
}

int record_sync(int boxes_fd, const char *id, struct err *err) {
    autofd file = openat(boxes_fd, record_path(id, "box.json").text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    autofd dir = openat(boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || dir < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "the record of box %s", id);
    autofd note = openat(dir, "note.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if ((note >= 0 && fsync(note) < 0) || fsync(file) < 0 || fsync(dir) < 0 || fsync(boxes_fd) < 0)
        return err_errno(err, errno, "the record of box %s", id);
    return 0;
}

bool record_exists(int boxes_fd, const char *id) {
    return faccessat(boxes_fd, record_path(id, "box.json").text, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

bool record_unfinished(int boxes_fd, const char *id) {
    struct stat status;
    return !record_exists(boxes_fd, id) && fstatat(boxes_fd, id, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX);
}

void record_touch(int boxes_fd, const char *id) {
    const struct record_path path = record_path(id, "box.json");
    struct timespec times[2]; /* to the nanosecond: the kernel's own is the same for milliseconds */
    clock_gettime(CLOCK_REALTIME, &times[1]);
    times[0] = times[1];
    utimensat(boxes_fd, path.text, times, AT_SYMLINK_NOFOLLOW);
}

uint64_t record_touched_ns(int boxes_fd, const char *id) {
    struct stat status;
    if (fstatat(boxes_fd, record_path(id, "box.json").text, &status, AT_SYMLINK_NOFOLLOW) < 0 || status.st_mtime < 0)
        return 0;
    return (uint64_t)status.st_mtime * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
}

void record_release(int boxes_fd, const char *id, bool released) {
    const struct record_path path = record_path(id, "released");
    autofd fd = -1;
    if (released) /* where it cannot be noted, it counts as active: never evicted for others */
        fd = openat(boxes_fd, path.text, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    else
        unlinkat(boxes_fd, path.text, 0);
}

bool record_released(int boxes_fd, const char *id) {
    return faccessat(boxes_fd, record_path(id, "released").text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void record_died(int boxes_fd, const char *id, const char *why) {
    autofd fd =
        openat(boxes_fd, record_path(id, "died").text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) /* cut short, it is a shorter reason */
        fd_write_all(fd, why, strlen(why));
}

void record_died_read(int boxes_fd, const char *id, char *why, size_t size) {
    struct stat status;
    const struct record_path path = record_path(id, "died");
    why[0] = 0;
    if (fstatat(boxes_fd, path.text, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
        return;
    if (fd_read_file(boxes_fd, path.text, why, size) <= 0)
        snprintf(why, size, "its main process ended");
}

void record_died_clear(int boxes_fd, const char *id) {
    unlinkat(boxes_fd, record_path(id, "died").text, 0);
}
