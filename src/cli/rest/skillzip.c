/* Packing a directory. Invariant: nothing that lies outside of the directory gets into the archive, whatever links
 * say. */
#include "cli/rest/skillzip.h"

#include <dirent.h>
#include <limits.h>

#include "base/base.h"
#include "skill/zip/zip.h"

enum { PACK_PIECE = 64 << 10, PACK_DEPTH = 64 };

struct pack {
    struct zip_writer *writer;
    char root[PATH_MAX]; /* of what is packed, without links */
    int fd;
    uint8_t piece[PACK_PIECE];
};

static int skillzip_pack_sink(void *user, const uint8_t *data, size_t len) {
    const struct pack *pack = user;
    int r = fd_write_all(pack->fd, data, len);
    return r < 0 ? -ERR_IO : 0;
}

/* Whether an open file lies in the directory that is packed. */
static bool skillzip_pack_inside(const struct pack *pack, int file) {
    char path[PATH_MAX];
    size_t root = strlen(pack->root);
    ssize_t len = readlink(text_make(64, "/proc/self/fd/%d", file), path, sizeof path - 1);
    if (len < 0)
        return false;
    path[len] = 0;
    return strncmp(path, pack->root, root) == 0 && path[root] == '/';
}

static int skillzip_pack_file(struct pack *pack, int dir, const char *name, const char *path, struct err *err) {
    struct stat status;
    autofd file = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return err_errno(err, errno, "%.300s", path);
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID,
                       "%.300s is neither a file nor a directory, and a ZIP of a skill holds only those", path);
    if (!skillzip_pack_inside(pack, file))
        return err_set(err, ERR_INVALID, "%.300s is a link to something outside: copy what it leads to", path);
    struct zip_entry entry = {.path = path, .executable = status.st_mode & 0111, .size = (uint64_t)status.st_size};
    int r = zip_writer_entry(pack->writer, &entry, err);
    for (uint64_t left = entry.size; r == 0 && left > 0;) {
        ssize_t n = fd_read_full(file, pack->piece, left < PACK_PIECE ? (size_t)left : PACK_PIECE);
        if (n <= 0)
            return err_errno(err, n < 0 ? (int)-n : EIO, "%.300s", path);
        left -= (uint64_t)n;
        r = zip_writer_data(pack->writer, pack->piece, (size_t)n, err);
    }
    return r;
}

static int skillzip_pack_filter(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, ".git") != 0;
}

static int skillzip_pack_order(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int skillzip_pack_dir(struct pack *pack, int dir, const char *path, unsigned depth, struct err *err) {
    struct dirent **names = NULL;
    autoarena arena = ARENA_EMPTY;
    if (depth > PACK_DEPTH)
        return err_set(err, ERR_INVALID, "%.300s lies deeper than %d directories", path, PACK_DEPTH);
    int r = zip_writer_entry(pack->writer, &(struct zip_entry){.path = path, .dir = true}, err);
    int count = r == 0 ? scandirat(dir, ".", &names, skillzip_pack_filter, skillzip_pack_order) : 0;
    if (count < 0)
        return err_errno(err, errno, "%.300s", path);
    for (int i = 0; i < count; i++) {
        const char *below = arena_printf(&arena, "%s/%s", path, names[i]->d_name);
        autofd inner = r == 0 ? openat(dir, names[i]->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (r == 0)
            r = inner >= 0 ? skillzip_pack_dir(pack, inner, below, depth + 1, err)
                           : skillzip_pack_file(pack, dir, names[i]->d_name, below, err);
        free(names[i]);
    }
    free(names);
    return r;
}

int skillzip_pack(const char *dir, int fd, struct err *err) {
    struct pack *pack = xcalloc(1, sizeof *pack);
    pack->fd = fd;
    int r = 0;
    const char *name = NULL;
    autofd top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || !realpath(dir, pack->root))
        r = err_errno(err, errno, "%.300s", dir);
    else
        name = strrchr(pack->root, '/');
    if (r == 0 && (!name || !name[1]))
        r = err_set(err, ERR_INVALID, "%.300s has no name that a skill could have", dir);
    if (r == 0) {
        pack->writer = zip_writer_new(skillzip_pack_sink, pack);
        r = skillzip_pack_dir(pack, top, name + 1, 1, err);
        if (r == 0)
            r = zip_writer_end(pack->writer, err);
        zip_writer_free(pack->writer);
    }
    free(pack);
    return r;
}
