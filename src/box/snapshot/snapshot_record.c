/* Snapshots' records as JSON. Called by snapshot.c and layer.c. Invariant: values read here become parts of paths:
 * names and layers are checked. */
#include <jansson.h>

#include "base/base.h"
#include "base/json.h"
#include "box/provider/record.h"
#include "box/snapshot/snapshot.h"

enum { RECORD_BYTES = 8192 };

struct snapshot_path {
    char text[16 + 16 + LIMIT_SNAPSHOT_NAME + 16];
};

static struct snapshot_path snapshot_path(const char *id, const char *name, const char *end) {
    struct snapshot_path path;
    snprintf(path.text, sizeof path.text, "%.16s/snapshots/%.64s%.10s", id, name, end);
    return path;
}

bool snapshot_name_ok(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t len = strlen(name);
    return len > 0 && len <= LIMIT_SNAPSHOT_NAME && strspn(name, allowed) == len && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* ---- writing ---- */

int snapshot_write(int boxes_fd, const char *id, const struct snapshot *snapshot, struct err *err) {
    const struct snapshot_path dir = snapshot_path(id, "", ""), from = snapshot_path(id, "", ".new"),
                               to = snapshot_path(id, snapshot->name, ".json");
    autobuf text = buf_max(RECORD_BYTES);
    struct json json;
    json_init(&json, &text);
    json_open(&json, '{');
    json_put_str(&json, "name", snapshot->name);
    json_put_str(&json, "method", snapshot->method);
    json_put_uint(&json, "created_ms", snapshot->created_ms);
    json_put_uint(&json, "pause_us", snapshot->pause_us);
    json_put_uint(&json, "bytes", snapshot->bytes);
    json_put_bool(&json, "stopped", snapshot->stopped);
    json_put_open(&json, "layers", '[');
    for (size_t i = 0; snapshot->layers[i]; i++)
        json_str(&json, snapshot->layers[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    if (mkdirat(boxes_fd, dir.text, 0700) < 0 && errno != EEXIST)
        return record_errno(err, errno, "the box's snapshots");
    autofd fd = openat(boxes_fd, from.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
    if (r == 0 && renameat2(boxes_fd, from.text, boxes_fd, to.text, RENAME_NOREPLACE) < 0)
        r = -errno;
    return r < 0 ? record_errno(err, -r, "the snapshot's record") : 0;
}

int snapshot_unlink(int boxes_fd, const char *id, const char *name, struct err *err) {
    return unlinkat(boxes_fd, snapshot_path(id, name, ".json").text, 0) < 0 && errno != ENOENT
               ? err_errno(err, errno, "the snapshot's record")
               : 0;
}

/* ---- reading ---- */

static bool snapshot_number(const json_t *root, const char *key, uint64_t *ret_number) {
    const json_t *value = json_object_get(root, key);
    json_int_t number = json_integer_value(value);
    *ret_number = (uint64_t)number;
    return json_is_integer(value) && number >= 0 && number <= (json_int_t)1 << 53;
}

static bool snapshot_parse(const json_t *root, const char *name, struct arena *arena, struct snapshot *snapshot) {
    const char *method = json_string_value(json_object_get(root, "method"));
    const json_t *layers = json_object_get(root, "layers");
    size_t count = json_array_size(layers);
    bool good = method && json_is_array(layers) && count <= LIMIT_LAYERS &&
                snapshot_number(root, "created_ms", &snapshot->created_ms) &&
                snapshot_number(root, "pause_us", &snapshot->pause_us) &&
                snapshot_number(root, "bytes", &snapshot->bytes);
    if (!good)
        return false;
    snprintf(snapshot->name, sizeof snapshot->name, "%s", name);
    snapshot->method = arena_strdup(arena, method);
    snapshot->stopped = json_is_true(json_object_get(root, "stopped"));
    snapshot->layers = arena_alloc(arena, (count + 1) * sizeof *snapshot->layers);
    for (size_t i = 0; i < count; i++) {
        const char *layer = json_string_value(json_array_get(layers, i));
        if (!layer || !text_id(layer))
            return false;
        snapshot->layers[i] = arena_strdup(arena, layer);
    }
    return true;
}

int snapshot_read(int boxes_fd, const char *id, const char *name, struct arena *arena, struct snapshot *ret_snapshot,
                  struct err *err) {
    const struct snapshot_path path = snapshot_path(id, name, ".json");
    char text[RECORD_BYTES];
    ssize_t n = snapshot_name_ok(name) ? fd_read_file(boxes_fd, path.text, text, sizeof text) : -ENOENT;
    if (n == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "box %s has no snapshot '%.64s'", id, name);
    json_t *root = n < 0 ? NULL : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    struct snapshot snapshot = {0};
    bool good = root && snapshot_parse(root, name, arena, &snapshot);
    json_decref(root);
    if (!good)
        return err_set(err, ERR_IO, "the record of snapshot '%s' of box %s is damaged", name, id);
    *ret_snapshot = snapshot;
    return 0;
}

/* The name in an entry of the directory; false: it is not a snapshot's. */
static bool snapshot_entry_name(const char *entry, char name[LIMIT_SNAPSHOT_NAME + 1]) {
    size_t len = strlen(entry);
    if (len < 6 || len > LIMIT_SNAPSHOT_NAME + 5 || strcmp(entry + len - 5, ".json") != 0)
        return false;
    snprintf(name, LIMIT_SNAPSHOT_NAME + 1, "%.*s", (int)len - 5, entry);
    return true;
}

size_t snapshot_count(int boxes_fd, const char *id) {
    autodir *dir = fd_opendir(boxes_fd, snapshot_path(id, "", "").text, O_NOFOLLOW);
    size_t count = 0;
    char name[LIMIT_SNAPSHOT_NAME + 1];
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        count += snapshot_entry_name(entry->d_name, name);
    return count;
}

bool snapshot_exists(int boxes_fd, const char *id, const char *name) {
    return faccessat(boxes_fd, snapshot_path(id, name, ".json").text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void snapshot_read_all(int boxes_fd, const char *id, struct arena *arena, struct snapshot **ret_snapshots,
                       size_t *ret_count) {
    autodir *dir = fd_opendir(boxes_fd, snapshot_path(id, "", "").text, O_NOFOLLOW);
    struct snapshot *list = arena_alloc(arena, LIMIT_SNAPSHOTS * sizeof *list);
    size_t count = 0;
    for (struct dirent *entry; count < LIMIT_SNAPSHOTS && (entry = fd_readdir(dir));) {
        char name[LIMIT_SNAPSHOT_NAME + 1];
        struct err err;
        if (snapshot_entry_name(entry->d_name, name))
            count += snapshot_read(boxes_fd, id, name, arena, &list[count], &err) == 0;
    }
    *ret_snapshots = list;
    *ret_count = count;
}
