/* Snapshots' records as JSON. Called by snapshot.c and layer.c. Invariant: values read here become parts of paths:
 * names and layers are checked. */
#include "base/base.h"
#include "box/provider/record.h"
#include "box/snapshot/snapshot.h"
#include "rows/write.h"

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

/* ---- files ---- */

static const struct row snapshot_rows[] = {OUT_ROW("method", TEXT, snapshot, method, ROW_REQUIRED, NULL),
                                           OUT_ROW("created_ms", INT, snapshot, created_ms, ROW_REQUIRED, NULL),
                                           OUT_ROW("pause_us", INT, snapshot, pause_us, ROW_REQUIRED, NULL),
                                           OUT_ROW("bytes", INT, snapshot, bytes, ROW_REQUIRED, NULL),
                                           OUT("stopped", BOOL, snapshot, stopped, NULL),
                                           OUT_ROW("layers", TEXTS, snapshot, layers, ROW_REQUIRED, NULL),
                                           {0}};

int snapshot_write(int boxes_fd, const char *id, const struct snapshot *snapshot, struct err *err) {
    if (mkdirat(boxes_fd, snapshot_path(id, "", "").text, 0700) < 0 && errno != EEXIST)
        return record_errno(err, errno, "the box's snapshots");
    return record_file_write(boxes_fd, snapshot_path(id, snapshot->name, ".json").text, snapshot_rows, snapshot,
                             RECORD_BYTES, "the snapshot's record", err);
}

int snapshot_unlink(int boxes_fd, const char *id, const char *name, struct err *err) {
    return unlinkat(boxes_fd, snapshot_path(id, name, ".json").text, 0) < 0 && errno != ENOENT
               ? err_errno(err, errno, "the snapshot's record")
               : 0;
}

int snapshot_read(int boxes_fd, const char *id, const char *name, struct arena *arena, struct snapshot *ret_snapshot,
                  struct err *err) {
    const char *what = text_make(160, "the record of snapshot '%.64s' of box %.16s", name, id);
    struct snapshot snapshot = {0};
    int r = snapshot_name_ok(name) ? record_file_read(boxes_fd, snapshot_path(id, name, ".json").text, snapshot_rows,
                                                      &snapshot, RECORD_BYTES, what, arena, err)
                                   : -ERR_NOT_FOUND;
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "box %s has no snapshot '%.64s'", id, name);
    if (r == 0 && !record_ids(snapshot.layers, LIMIT_LAYERS))
        r = err_set(err, ERR_IO, "%s is damaged: its member 'layers' is not valid", what);
    snprintf(snapshot.name, sizeof snapshot.name, "%s", name);
    if (r == 0)
        *ret_snapshot = snapshot;
    return r;
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
