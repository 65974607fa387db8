/* Records of boxes as JSON. Called by the provider. Not to break: strings may hold any bytes but NUL; one that is not
 * UTF-8 is stored as {"base64": ...} and comes back the same. */
#include "box/record.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

/* ---- writing ---- */

static void put_text(struct json *json, const char *text) {
    if (!text || text_utf8(text, strlen(text))) {
        json_str(json, text);
        return;
    }
    json_open(json, '{');
    json_key(json, "base64");
    json_bytes(json, text, strlen(text), false);
    json_close(json, '}');
}

static void put_member(struct json *json, const char *key, const char *text) {
    json_key(json, key);
    put_text(json, text);
}

static void put_list(struct json *json, const char *key, const char *const *list) {
    json_key(json, key);
    json_open(json, '[');
    for (; list && *list; list++)
        put_text(json, *list);
    json_close(json, ']');
}

static void put_number(struct json *json, const char *key, uint64_t value) {
    json_key(json, key);
    json_uint(json, value);
}

static void put_record(struct json *json, const struct box *box) {
    const struct spec *spec = &box->spec;
    json_open(json, '{');
    put_member(json, "id", box->id);
    put_member(json, "backend", box->ops->name);
    put_member(json, "user", spec->user);
    put_member(json, "thread", spec->thread);
    put_member(json, "template", spec->template_name);
    put_member(json, "shell", spec->shell);
    put_member(json, "network", spec->network == NETWORK_OPEN ? "open" : "none");
    json_key(json, "network_asked");
    json_bool(json, spec->network_asked);
    put_list(json, "env", spec->env);
    put_list(json, "labels", (const char *const *)box->labels);
    json_key(json, "mounts");
    json_open(json, '[');
    for (size_t i = 0; i < spec->mount_count; i++) {
        json_open(json, '{');
        put_member(json, "source", spec->mounts[i].source);
        put_member(json, "target", spec->mounts[i].target);
        json_key(json, "read_only");
        json_bool(json, spec->mounts[i].read_only);
        json_close(json, '}');
    }
    json_close(json, ']');
    put_number(json, "memory_mb", spec->limits.memory_mb);
    put_number(json, "milli_cpus", (uint64_t)(spec->limits.cpus * 1000 + 0.5));
    put_number(json, "pids", spec->limits.pids);
    put_number(json, "disk_mb", spec->limits.disk_mb);
    put_number(json, "open_files", spec->limits.open_files);
    put_number(json, "output_bytes", spec->limits.output_bytes);
    put_number(json, "idle_timeout_ms", box->idle_timeout_ms);
    put_number(json, "created_ms", box->created_ms);
    json_close(json, '}');
}

int record_write(int boxes_fd, const struct box *box, struct err *err) {
    autobuf text;
    buf_init(&text, LIMIT_JSON_BYTES);
    struct json json;
    json_init(&json, &text);
    put_record(&json, box);
    if (text.failed)
        return err_set(err, ERR_TOO_LARGE, "the box's record is too large");
    char from[40], to[40];
    snprintf(from, sizeof from, "%s/box.json.new", box->id);
    snprintf(to, sizeof to, "%s/box.json", box->id);
    autofd fd = openat(boxes_fd, from, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
    if (r == 0 && renameat(boxes_fd, from, boxes_fd, to) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, -r, "the box's record") : 0;
}

void record_remove(int boxes_fd, const char *id) {
    char path[40];
    snprintf(path, sizeof path, "%s/box.json", id);
    unlinkat(boxes_fd, path, 0);
}

/* ---- reading ---- */

static const char *get_text(const json_t *value, struct arena *arena) {
    if (json_is_string(value))
        return arena_strdup(arena, json_string_value(value));
    const json_t *coded = json_object_get(value, "base64");
    if (!json_is_string(coded))
        return NULL;
    autobuf bytes;
    buf_init(&bytes, LIMIT_JSON_BYTES);
    if (!text_unbase64(&bytes, json_string_value(coded), json_string_length(coded)))
        return NULL;
    return arena_copy(arena, bytes.data, bytes.len);
}

static const char *get_member(const json_t *root, const char *key, struct arena *arena) {
    return get_text(json_object_get(root, key), arena);
}

static uint64_t get_number(const json_t *root, const char *key) {
    json_int_t value = json_integer_value(json_object_get(root, key));
    return value < 0 ? 0 : (uint64_t)value;
}

static const char **get_list(const json_t *root, const char *key, struct arena *arena, size_t *ret_count) {
    const json_t *list = json_object_get(root, key);
    size_t size = json_array_size(list), count = 0;
    const char **texts = arena_alloc(arena, (size + 1) * sizeof *texts);
    for (size_t i = 0; i < size; i++)
        if ((texts[count] = get_text(json_array_get(list, i), arena)))
            count++;
    *ret_count = count;
    return texts;
}

static bool get_mounts(const json_t *root, struct arena *arena, struct spec *spec) {
    const json_t *list = json_object_get(root, "mounts");
    size_t size = json_array_size(list);
    struct mount *mounts = arena_alloc(arena, (size + 1) * sizeof *mounts);
    for (size_t i = 0; i < size; i++) {
        const json_t *row = json_array_get(list, i);
        mounts[i] = (struct mount){.source = get_member(row, "source", arena),
                                   .target = get_member(row, "target", arena),
                                   .read_only = json_is_true(json_object_get(row, "read_only"))};
        if (!mounts[i].source || !mounts[i].target)
            return false;
    }
    spec->mounts = mounts;
    spec->mount_count = size;
    return true;
}

static bool get_record(const json_t *root, const char *id, struct arena *arena, struct record *record) {
    struct spec *spec = &record->spec;
    const char *stored = get_member(root, "id", arena), *network = get_member(root, "network", arena);
    size_t labels;
    memcpy(spec->id, id, sizeof spec->id);
    record->backend = get_member(root, "backend", arena);
    spec->user = get_member(root, "user", arena);
    spec->thread = get_member(root, "thread", arena);
    spec->template_name = get_member(root, "template", arena);
    spec->shell = get_member(root, "shell", arena);
    spec->network = network && strcmp(network, "open") == 0 ? NETWORK_OPEN : NETWORK_NONE;
    spec->network_asked = json_is_true(json_object_get(root, "network_asked"));
    spec->env = get_list(root, "env", arena, &spec->env_count);
    record->labels = (char **)(void *)get_list(root, "labels", arena, &labels);
    spec->limits = (struct limits){.memory_mb = get_number(root, "memory_mb"),
                                   .cpus = (double)get_number(root, "milli_cpus") / 1000,
                                   .pids = get_number(root, "pids"),
                                   .disk_mb = get_number(root, "disk_mb"),
                                   .open_files = get_number(root, "open_files"),
                                   .output_bytes = get_number(root, "output_bytes")};
    record->idle_timeout_ms = get_number(root, "idle_timeout_ms");
    record->created_ms = get_number(root, "created_ms");
    return get_mounts(root, arena, spec) && stored && strcmp(stored, id) == 0 && record->backend && spec->user &&
           spec->template_name;
}

int record_read(int boxes_fd, const char *id, struct arena *arena, struct record *ret_record, struct err *err) {
    char path[40];
    snprintf(path, sizeof path, "%.16s/box.json", id);
    autofd fd = openat(boxes_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, ERR_NOT_FOUND, "no box %s", id);
    json_t *root = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
    struct record record = {0};
    bool good = root && get_record(root, id, arena, &record);
    json_decref(root);
    if (!good)
        return err_set(err, ERR_INVALID, "the record of box %s is damaged", id);
    *ret_record = record;
    return 0;
}
