/* Records of boxes as JSON. Called by the provider. Invariant: strings may hold any bytes but NUL; a string that is
 * not UTF-8 is stored as {"base64": ...} and comes back the same. */
#include "box/provider/record.h"

#include <jansson.h>
#include <time.h>

#include "base/base.h"
#include "base/json.h"
#include "box/policy.h"

struct record_path {
    char text[40];
};

static struct record_path record_path(const char *id, const char *name) {
    struct record_path path;
    snprintf(path.text, sizeof path.text, "%.16s/%.20s", id, name);
    return path;
}

/* ---- writing ---- */

static void record_put_text(struct json *json, const char *text) {
    if (!text || text_utf8(text, strlen(text))) {
        json_str(json, text);
        return;
    }
    json_open(json, '{');
    json_put_bytes(json, "base64", text, strlen(text), false);
    json_close(json, '}');
}

static void record_put_member(struct json *json, const char *key, const char *text) {
    json_key(json, key);
    record_put_text(json, text);
}

static void record_put_list(struct json *json, const char *key, const char *const *list) {
    json_put_open(json, key, '[');
    for (; list && *list; list++)
        record_put_text(json, *list);
    json_close(json, ']');
}

static void record_put_number(struct json *json, const char *key, uint64_t value) {
    json_put_uint(json, key, value);
}

static void put_record(struct json *json, const struct box *box) {
    const struct spec *spec = &box->spec;
    json_open(json, '{');
    record_put_member(json, "id", box->id);
    record_put_member(json, "backend", box->ops->name);
    record_put_member(json, "user", spec->user);
    record_put_member(json, "thread", spec->thread);
    record_put_member(json, "template", spec->template_name);
    record_put_member(json, "shell", spec->shell);
    record_put_member(json, "network", spec->network == NETWORK_OPEN ? "open" : "none");
    json_put_bool(json, "network_asked", spec->network_asked);
    record_put_list(json, "env", spec->env);
    record_put_list(json, "labels", (const char *const *)box->labels);
    record_put_list(json, "layers", spec->layers);
    record_put_member(json, "agent", spec->agent);
    record_put_member(json, "machine", spec->machine);
    record_put_member(json, "workspace", spec->workspace);
    if (box->ops->images) {
        json_put_open(json, "container", '{');
        record_put_member(json, "user", spec->container.user);
        record_put_member(json, "runtime", spec->container.runtime);
        record_put_member(json, "platform", spec->container.platform);
        record_put_member(json, "pull", spec->container.pull);
        json_put_bool(json, "read_only", spec->container.read_only);
        json_put_bool(json, "image_init", spec->container.image_init);
        json_close(json, '}');
    }
    record_put_list(json, "skill_layers", spec->attached.layers);
    record_put_list(json, "skill_paths", spec->attached.paths);
    json_put_bool(json, "skill_unsure", spec->attached.unsure);
    json_put_open(json, "mounts", '[');
    for (size_t i = 0; i < spec->mount_count; i++) {
        json_open(json, '{');
        record_put_member(json, "source", spec->mounts[i].source);
        record_put_member(json, "target", spec->mounts[i].target);
        json_put_bool(json, "read_only", spec->mounts[i].read_only);
        if (spec->mounts[i].door)
            json_put_bool(json, "door", true);
        json_close(json, '}');
    }
    json_close(json, ']');
    record_put_number(json, "memory_mb", spec->limits.memory_mb);
    record_put_number(json, "milli_cpus", (uint64_t)(spec->limits.cpus * 1000 + 0.5));
    record_put_number(json, "pids", spec->limits.pids);
    record_put_number(json, "disk_mb", spec->limits.disk_mb);
    record_put_number(json, "open_files", spec->limits.open_files);
    record_put_number(json, "output_bytes", spec->limits.output_bytes);
    record_put_number(json, "terminals", spec->limits.terminals);
    record_put_number(json, "idle_timeout_ms", box->idle_timeout_ms);
    record_put_number(json, "created_ms", box->created_ms);
    json_put_bool(json, "temporary", box->temporary);
    json_put_bool(json, "discard", spec->discard);
    json_close(json, '}');
}

int record_errno(struct err *err, int number, const char *what) {
    return number == ENOSPC || number == EDQUOT
               ? err_told(err, number, "the disk of the state directory is full; delete boxes or snapshots")
               : err_errno(err, number, "%s", what);
}

int record_write(int boxes_fd, const struct box *box, struct err *err) {
    autobuf text = buf_max(LIMIT_JSON_BYTES);
    struct json json;
    json_init(&json, &text);
    put_record(&json, box);
    if (text.failed)
        return err_set(err, ERR_TOO_LARGE, "the box's record is too large");
    int r = fd_replace_file(boxes_fd, record_path(box->id, "box.json").text, text.data, text.len);
    if (r == 0 && fchmodat(boxes_fd, box->id, 0700, 0) < 0) /* finished: see the head of record.h */
        r = -errno;
    return r < 0 ? record_errno(err, -r, "the box's record") : 0;
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

/* ---- reading ---- */

static const char *record_get_text(const json_t *value, struct arena *arena) {
    if (json_is_string(value))
        return arena_strdup(arena, json_string_value(value));
    const json_t *coded = json_object_get(value, "base64");
    if (!json_is_string(coded))
        return NULL;
    autobuf bytes = buf_max(LIMIT_JSON_BYTES);
    if (!text_unbase64(&bytes, json_string_value(coded), json_string_length(coded)))
        return NULL;
    return arena_copy(arena, bytes.data, bytes.len);
}

/* A member of a wrong type does not count as missing: an unreadable limit must not become no limit. */
struct record_reading {
    struct arena *arena;
    bool bad;
};

static const char *record_get_member(struct record_reading *reading, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    const char *text = record_get_text(value, reading->arena);
    reading->bad |= value && !json_is_null(value) && !text;
    return text;
}

static uint64_t record_get_number(struct record_reading *reading, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    json_int_t number = json_integer_value(value);
    reading->bad |= value && (!json_is_integer(value) || number < 0 || number > (json_int_t)1 << 53);
    return reading->bad ? 0 : (uint64_t)number;
}

static bool record_get_bool(struct record_reading *reading, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    reading->bad |= value && !json_is_boolean(value);
    return json_is_true(value);
}

static const json_t *record_get_array(struct record_reading *reading, const json_t *root, const char *key,
                                      size_t *ret_size) {
    const json_t *list = json_object_get(root, key);
    reading->bad |= list && !json_is_array(list);
    *ret_size = json_array_size(list);
    return list;
}

static const char **record_get_list(struct record_reading *reading, const json_t *root, const char *key,
                                    size_t *ret_count) {
    size_t size;
    const json_t *list = record_get_array(reading, root, key, &size);
    const char **texts = arena_alloc(reading->arena, (size + 1) * sizeof *texts);
    for (size_t i = 0; i < size; i++) {
        texts[i] = record_get_text(json_array_get(list, i), reading->arena);
        reading->bad |= !texts[i];
    }
    *ret_count = size;
    return texts;
}

static void record_get_machine(struct record_reading *reading, const json_t *root, struct spec *spec) {
    spec->machine = record_get_member(reading, root, "machine");
    spec->workspace = record_get_member(reading, root, "workspace");
    reading->bad |= spec->machine && policy_machine(spec->machine, ERR_IGNORED) < 0;
}

static void record_get_container(struct record_reading *reading, const json_t *root, struct spec *spec) {
    const json_t *own = json_object_get(root, "container");
    struct container *container = &spec->container;
    reading->bad |= own && !json_is_object(own);
    container->user = record_get_member(reading, own, "user");
    container->runtime = record_get_member(reading, own, "runtime");
    container->platform = record_get_member(reading, own, "platform");
    container->pull = record_get_member(reading, own, "pull");
    container->read_only = record_get_bool(reading, own, "read_only");
    container->image_init = record_get_bool(reading, own, "image_init");
    reading->bad |= (container->user && !container_user(container->user)) ||
                    (container->runtime && !container_runtime(container->runtime)) ||
                    (container->platform && !container_platform(container->platform)) ||
                    (container->pull && !container_pull(container->pull));
}

static bool get_record(const json_t *root, const char *id, struct arena *arena, struct record *record) {
    struct record_reading reading = {.arena = arena, .bad = !json_is_object(root)};
    struct spec *spec = &record->spec;
    const char *stored = record_get_member(&reading, root, "id"),
               *network = record_get_member(&reading, root, "network");
    size_t labels;
    memcpy(spec->id, id, sizeof spec->id);
    record->backend = record_get_member(&reading, root, "backend");
    spec->user = record_get_member(&reading, root, "user");
    spec->thread = record_get_member(&reading, root, "thread");
    spec->template_name = record_get_member(&reading, root, "template");
    spec->shell = record_get_member(&reading, root, "shell");
    spec->network = network && strcmp(network, "open") == 0 ? NETWORK_OPEN : NETWORK_NONE;
    spec->network_asked = record_get_bool(&reading, root, "network_asked");
    spec->env = record_get_list(&reading, root, "env", &spec->env_count);
    spec->layers = record_get_list(&reading, root, "layers", &spec->layer_count);
    for (size_t i = 0; i < spec->layer_count; i++)
        reading.bad |= !spec->layers[i] || !text_id(spec->layers[i]); /* becomes part of a path */
    size_t paths;
    spec->agent = record_get_member(&reading, root, "agent");
    reading.bad |= spec->agent && policy_agent(spec->agent, ERR_IGNORED) < 0;
    spec->attached.layers = record_get_list(&reading, root, "skill_layers", &spec->attached.count);
    for (size_t i = 0; i < spec->attached.count; i++)
        reading.bad |= !spec->attached.layers[i] || !text_id(spec->attached.layers[i]);
    spec->attached.paths = record_get_list(&reading, root, "skill_paths", &paths);
    spec->attached.unsure = record_get_bool(&reading, root, "skill_unsure");
    record_get_machine(&reading, root, spec);
    record_get_container(&reading, root, spec);
    record->labels = (char **)(void *)record_get_list(&reading, root, "labels", &labels);
    spec->limits = (struct limits){.memory_mb = record_get_number(&reading, root, "memory_mb"),
                                   .cpus = (double)record_get_number(&reading, root, "milli_cpus") / 1000,
                                   .pids = record_get_number(&reading, root, "pids"),
                                   .disk_mb = record_get_number(&reading, root, "disk_mb"),
                                   .open_files = record_get_number(&reading, root, "open_files"),
                                   .output_bytes = record_get_number(&reading, root, "output_bytes"),
                                   .terminals = record_get_number(&reading, root, "terminals")};
    record->idle_timeout_ms = record_get_number(&reading, root, "idle_timeout_ms");
    record->created_ms = record_get_number(&reading, root, "created_ms");
    record->temporary = record_get_bool(&reading, root, "temporary");
    spec->discard = record_get_bool(&reading, root, "discard");
    size_t size;
    const json_t *list = record_get_array(&reading, root, "mounts", &size);
    struct mount *mounts = arena_alloc(reading.arena, (size + 1) * sizeof *mounts);
    for (size_t i = 0; i < size; i++) {
        const json_t *row = json_array_get(list, i);
        mounts[i] = (struct mount){.source = record_get_member(&reading, row, "source"),
                                   .target = record_get_member(&reading, row, "target"),
                                   .read_only = record_get_bool(&reading, row, "read_only"),
                                   .door = record_get_bool(&reading, row, "door")};
        reading.bad |= !mounts[i].source || !mounts[i].target;
    }
    spec->mounts = mounts;
    spec->mount_count = size;
    return !reading.bad && stored && strcmp(stored, id) == 0 && record->backend && spec->user && spec->template_name;
}

/* Nothing that is not a small regular file is even parsed. */
static json_t *load_record(int fd, struct err *err, const char *id) {
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > (off_t)LIMIT_JSON_BYTES) {
        err_set(err, ERR_INVALID, "the record of box %s is not a file of a record's size", id);
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    autobuf text = buf_max(LIMIT_JSON_BYTES);
    char *data = (char *)buf_reserve(&text, size); /* json_loadfd would read byte by byte */
    json_error_t where = {.text = "it is cut short"};
    json_t *root = data && fd_read_full(fd, data, size) == (ssize_t)size
                       ? json_loadb(data, size, JSON_REJECT_DUPLICATES, &where)
                       : NULL;
    if (!root)
        err_set(err, ERR_INVALID, "the record of box %s is damaged: line %d: %s", id, where.line, where.text);
    return root;
}

int record_read(int boxes_fd, const char *id, struct arena *arena, struct record *ret_record, struct err *err) {
    autofd fd = openat(boxes_fd, record_path(id, "box.json").text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box %s", id);
    if (fd < 0)
        return err_set(err, ERR_INVALID, "the record of box %s cannot be read: %s", id, strerror(errno));
    json_t *root = load_record(fd, err, id);
    if (!root)
        return -ERR_INVALID;
    struct record record = {0};
    bool good = get_record(root, id, arena, &record);
    json_decref(root);
    if (!good)
        return err_set(err, ERR_INVALID, "the record of box %s is damaged: a member is missing or of a wrong type", id);
    *ret_record = record;
    return 0;
}
