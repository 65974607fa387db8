/* Files of jails on their way between machines. Called through the backend's verbs by `cubby join`. Invariant: what
 * comes is made under a name that no other call knows, and takes its own by one rename when it is whole and on the
 * disk. */
#include "tree/pack.h"

#include <sys/statvfs.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"

enum { PIECE_BYTES = 256 << 10, RESERVE_PERCENT = 5, LOOK_BYTES = 16 << 20 };

/* Work directories of overlays are made anew. */
static bool pack_skips(const char *path) {
    const char *end = strchr(path, '/') ? NULL : strrchr(path, '.');
    return end && strcmp(end, ".work") == 0;
}

int pack_send(struct backend *backend, const char *name, bool layer, const struct backend_stream *stream,
              struct err *err) {
    struct jail_record record;
    if (!layer && jail_record_read(backend, name, &record) == 0 && process_alive(record.pid, record.start))
        return err_set(err, ERR_BUSY, "box %s runs: only files in which nothing writes can be packed", name);
    autofd dir = backend_open_dir(layer ? backend->layers_dir : backend->boxes_dir, name, false, err);
    if (dir < 0)
        return dir;
    struct tar_out out = {
        .put = stream->put, .user = stream->user, .data = xmalloc(PIECE_BYTES), .size = PIECE_BYTES, .exact = true};
    bool some = faccessat(dir, "fs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = some ? pack_write(dir, "fs", pack_skips, &out, err) : tar_out_end(&out, err);
    free(out.data);
    return r;
}

static int pack_room(int dir, struct err *err) {
    struct statvfs disk;
    if (fstatvfs(dir, &disk) < 0 || disk.f_bavail >= disk.f_blocks / 100 * RESERVE_PERCENT)
        return 0;
    return err_set(err, ERR_FULL, "the files do not fit: less than %d %% of the disk would be free", RESERVE_PERCENT);
}

/* The type of a stream's first entry, whose own head follows a pax head; 0: it has none. */
static char pack_first(const uint8_t *data, size_t len) {
    struct tar_entry *entry = xcalloc(1, sizeof *entry);
    bool zero = false;
    char type = 0;
    if (len >= TAR_BLOCK_BYTES && !tar_parse(data, entry, &zero) && !zero && entry->size < len) {
        size_t at = TAR_BLOCK_BYTES + (size_t)(entry->size + tar_padding(entry->size));
        if (at + TAR_BLOCK_BYTES <= len && !tar_parse(data + at, entry, &zero) && !zero)
            type = entry->type;
    }
    free(entry);
    return type;
}

/* A bounded box's directory is made by the method that bounds it; an image comes as it is. */
static int pack_place(struct backend *backend, int dir, char first, uint64_t disk_mb, struct err *err) {
    enum quota_form form = QUOTA_DIRECTORY;
    TRY(first == TAR_DIR ? quota_make(&backend->quota, dir, disk_mb, false, &form, err) : 0);
    if (form != QUOTA_DIRECTORY && !quota_remove(dir) && unlinkat(dir, "fs", 0) < 0)
        unlinkat(dir, "fs", AT_REMOVEDIR);
    return 0;
}

static int pack_fill(struct backend *backend, int dir, bool layer, uint64_t disk_mb,
                     const struct backend_stream *stream, struct err *err) {
    uint8_t *data = xmalloc(PIECE_BYTES);
    struct pack_in *in = pack_in_new(dir, "fs");
    uint64_t taken = 0, looked = 0;
    ssize_t n = 0;
    int r = pack_room(dir, err);
    while (r == 0 && (n = stream->get(stream->user, data, PIECE_BYTES, err)) > 0) {
        if (!taken && !layer)
            r = pack_place(backend, dir, pack_first(data, (size_t)n), disk_mb, err);
        taken += (uint64_t)n;
        if (r == 0)
            r = pack_in_feed(in, data, (size_t)n, err);
        if (r == 0 && taken - looked >= LOOK_BYTES) {
            looked = taken;
            r = pack_room(dir, err);
        }
    }
    if (r == 0)
        r = n < 0 ? (int)n : pack_in_end(in, err);
    pack_in_free(in);
    free(data);
    return r;
}

/* A box that was bounded by an image keeps it; one that was bounded by its file system cannot become one. */
static int pack_check(int dir, uint64_t disk_mb, struct quota *quota, struct err *err) {
    enum quota_form form;
    if (!disk_mb || faccessat(dir, "fs", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return quota_again(quota, dir, disk_mb, &form, err) < 0
               ? err_set(err, ERR_UNSUPPORTED,
                         "this machine cannot bound files that another machine bounded: give "
                         "both the same disk_quota")
               : 0;
}

int pack_receive(struct backend *backend, const char *name, bool layer, uint64_t disk_mb,
                 const struct backend_stream *stream, struct err *err) {
    int parent = layer ? backend->layers_dir : backend->boxes_dir;
    const char *staged = text_make(40, PACK_STAGED "%.16s", name);
    if (faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_EXISTS, "this machine has the %s %s already", layer ? "layer" : "box", name);
    if (faccessat(parent, staged, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        TRY(trash_put(backend->trash, parent, staged, err));
    if (mkdirat(parent, staged, 0700) < 0)
        return err_errno(err, errno, "%s", staged);
    autofd dir = openat(parent, staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = dir < 0 ? err_errno(err, errno, "%s", staged)
                    : pack_fill(backend, dir, layer, disk_mb, stream, err)
                          ?: (layer ? 0 : pack_check(dir, disk_mb, &backend->quota, err));
    if (r == 0 && (syncfs(dir) < 0 || renameat2(parent, staged, parent, name, RENAME_NOREPLACE) < 0))
        r = err_errno(err, errno, "%s %s", layer ? "layer" : "box", name);
    if (r < 0)
        trash_put(backend->trash, parent, staged, ERR_IGNORED);
    return r;
}
