/* Packing a directory. Invariant: nothing that lies outside of the directory gets into the archive, whatever links
 * say. */
#include "cli/rest/skillzip.h"

#include "base/base.h"
#include "skill/zip/zip.h"
#include "tree/treewalk.h"

enum { PACK_PIECE = 64 << 10 };

struct pack {
    struct zip_writer *writer;
    char root[PATH_MAX]; /* of what is packed, without links */
    const char *name;    /* its last part */
    int fd;
    uint8_t piece[PACK_PIECE];
};

static int skillzip_sink(void *user, const uint8_t *data, size_t len) {
    const struct pack *pack = user;
    return fd_write_all(pack->fd, data, len) < 0 ? -ERR_IO : 0;
}

/* A file, or what a link leads to, which must lie in the directory as well. */
static int skillzip_file(struct pack *pack, const struct tree_entry *entry, const char *path, struct err *err) {
    struct stat status;
    char real[PATH_MAX];
    size_t root = strlen(pack->root);
    autofd file = openat(entry->dir, entry->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return err_errno(err, errno, "%.300s", path);
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID,
                       "%.300s is neither a file nor a directory, and a ZIP of a skill holds only those", path);
    ssize_t len = readlink(text_make(64, "/proc/self/fd/%d", file), real, sizeof real - 1);
    real[len < 0 ? 0 : len] = 0;
    if (strncmp(real, pack->root, root) != 0 || real[root] != '/')
        return err_set(err, ERR_INVALID, "%.300s is a link to something outside: copy what it leads to", path);
    const struct zip_entry packed = {
        .path = path, .executable = status.st_mode & 0111, .size = (uint64_t)status.st_size};
    TRY(zip_writer_entry(pack->writer, &packed, err));
    for (uint64_t left = packed.size; left > 0;) {
        ssize_t n = fd_read_full(file, pack->piece, left < PACK_PIECE ? (size_t)left : PACK_PIECE);
        if (n <= 0)
            return err_errno(err, n < 0 ? (int)-n : EIO, "%.300s", path);
        left -= (uint64_t)n;
        TRY(zip_writer_data(pack->writer, pack->piece, (size_t)n, err));
    }
    return 0;
}

static int skillzip_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct pack *pack = user;
    autoarena arena = ARENA_EMPTY;
    if (strcmp(entry->name, ".git") == 0)
        return TREE_SKIP;
    const char *path = arena_printf(&arena, "%s/%s", pack->name, entry->path);
    return entry->kind == 'd' ? zip_writer_entry(pack->writer, &(struct zip_entry){.path = path, .dir = true}, err)
                              : skillzip_file(pack, entry, path, err);
}

int skillzip_pack(const char *dir, int fd, struct err *err) {
    autofd top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct pack *pack = xcalloc(1, sizeof *pack);
    int r = 0;
    pack->fd = fd;
    if (top < 0 || !realpath(dir, pack->root))
        r = err_errno(err, errno, "%.300s", dir);
    pack->name = strrchr(pack->root, '/') ? strrchr(pack->root, '/') + 1 : "";
    if (r == 0 && !*pack->name)
        r = err_set(err, ERR_INVALID, "%.300s has no name that a skill could have", dir);
    if (r == 0) {
        pack->writer = zip_writer_new(skillzip_sink, pack);
        r = zip_writer_entry(pack->writer, &(struct zip_entry){.path = pack->name, .dir = true}, err)
                ?: treewalk_own(top, skillzip_entry, pack, err)
                ?: zip_writer_end(pack->writer, err);
        zip_writer_free(pack->writer);
    }
    free(pack);
    return r;
}
