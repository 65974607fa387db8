/* Files of the dialect: paths below a root, reading, writing and listing through the box's verbs. Called by both families.
 * Invariant: a path never leads out of its root, whatever links there are. Who races against the look at his links does so
 * in his own box and reaches nothing but that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sha256.h"
#include "front/filesecbox/filesecbox.h"
#include "skill/base/base.h"

enum { LINKS_MAX = 16, CHANGE_TRIES = 20 };

/* ---- where there is no box ---- */

/* The part of a path below /skills, "" for /skills itself; NULL: it is not there. */
static const char *base_part(const char *path) {
    size_t len = strlen(SKILL_PATH);
    if (strncmp(path, SKILL_PATH, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : "";
}

static int base_at(struct filesecbox *call, const char *path, int flags, int *ret_fd, struct stat *ret_status,
                   struct err *err) {
    const char *part = base_part(path);
    if (!part || !*part)
        return err_set(err, ERR_NOT_FOUND, "no file '%.300s'", path);
    return base_path_open(call->skills, call->agent, part, flags, ret_fd, ret_status, err);
}

int filesecbox_stat(struct filesecbox *call, const char *path, struct file_stat *ret_stat, struct err *err) {
    struct stat status = {.st_mode = S_IFDIR};
    autofd fd = -1;
    if (call->box)
        return box_stat(call->box, path, http_arena(call->request), ret_stat, err);
    int failed = strcmp(path, SKILL_PATH) == 0 ? 0 : base_at(call, path, O_PATH, &fd, &status, err);
    if (!failed) /* layers hold files and directories alone */
        *ret_stat = (struct file_stat){.type = S_ISDIR(status.st_mode) ? FILE_DIR : FILE_REGULAR,
                                       .size = (uint64_t)status.st_size};
    return failed;
}

/* ---- paths ---- */

struct walk {
    char at[LIMIT_PATH_BYTES + 1];   /* where we are; no links in it */
    char rest[LIMIT_PATH_BYTES + 1]; /* what is left to go */
    size_t len, root_len;
    unsigned links;
    bool missing; /* from here on nothing is there */
};

static int walk_outside(struct err *err) {
    return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
}

/* rest becomes `to` and what was left. */
static int walk_turn(struct walk *walk, const char *to, struct err *err) {
    char rest[sizeof walk->rest];
    size_t len = strlen(to), left = strlen(walk->rest);
    if (len + left + 2 > sizeof rest)
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    memcpy(rest, to, len);
    rest[len] = '/';
    memcpy(rest + len + 1, walk->rest, left + 1);
    memcpy(walk->rest, rest, len + left + 2);
    return 0;
}

/* An absolute path goes on from the root, which it must name. */
static int walk_begin(struct walk *walk, const char **path, struct err *err) {
    if (**path != '/')
        return 0;
    if (strncmp(*path, walk->at, walk->root_len) != 0 || ((*path)[walk->root_len] && (*path)[walk->root_len] != '/'))
        return walk_outside(err);
    *path += walk->root_len;
    walk->len = walk->root_len;
    walk->at[walk->len] = 0;
    return 0;
}

static int walk_link(struct walk *walk, const char *target, size_t before, struct err *err) {
    walk->len = before;
    walk->at[before] = 0;
    if (++walk->links > LINKS_MAX)
        return err_set(err, ERR_INVALID, "Security Error: too many links.");
    int failed = walk_begin(walk, &target, err);
    return failed ? failed : walk_turn(walk, target, err);
}

static int walk_step(struct filesecbox *call, struct walk *walk, const char *name, size_t len, struct err *err) {
    size_t before = walk->len;
    if (walk->len + len + 1 > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    walk->at[walk->len++] = '/';
    memcpy(walk->at + walk->len, name, len);
    walk->len += len;
    walk->at[walk->len] = 0;
    if (walk->missing)
        return 0;
    struct file_stat stat;
    int failed = filesecbox_stat(call, walk->at, &stat, err);
    walk->missing = failed == -ERR_NOT_FOUND;
    if (failed < 0)
        return walk->missing ? 0 : failed;
    return stat.type == FILE_SYMLINK ? walk_link(walk, stat.target ? stat.target : "", before, err) : 0;
}

static int walk_up(struct walk *walk, struct err *err) {
    if (walk->missing || walk->len <= walk->root_len)
        return walk_outside(err);
    while (walk->at[--walk->len] != '/')
        ;
    walk->at[walk->len] = 0;
    return 0;
}

int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err) {
    struct walk walk = {.len = strlen(root), .root_len = strlen(root)};
    int failed = path_check(path, strlen(path), err);
    if (failed)
        return failed;
    memcpy(walk.at, root, walk.len + 1);
    failed = walk_begin(&walk, &path, err);
    if (!failed)
        failed = walk_turn(&walk, path, err);
    while (!failed && *walk.rest) {
        char name[sizeof walk.rest];
        size_t len = strcspn(walk.rest, "/"), skip = len + (walk.rest[len] == '/');
        memcpy(name, walk.rest, len);
        name[len] = 0;
        memmove(walk.rest, walk.rest + skip, strlen(walk.rest + skip) + 1);
        if (len > LIMIT_NAME_BYTES)
            failed = err_set(err, ERR_INVALID, "a name in the path is longer than %u bytes", LIMIT_NAME_BYTES);
        else if (!strcmp(name, ".."))
            failed = walk_up(&walk, err);
        else if (len && strcmp(name, ".") != 0)
            failed = walk_step(call, &walk, name, len, err);
    }
    if (!failed)
        *ret_path = arena_copy(http_arena(call->request), walk.at, walk.len);
    return failed;
}

/* ---- content ---- */

struct reading {
    struct filesecbox *call;
    struct buf out;
    struct err *err;
};

static int reading_put(void *user, const uint8_t *data, size_t len) {
    struct reading *reading = user;
    buf_put(&reading->out, data, len);
    if (reading->out.failed)
        return err_set(reading->err, ERR_TOO_LARGE, "the file is larger than %u bytes", LIMIT_EDIT_BYTES);
    return http_hold(reading->call->request, 3 * len, reading->err); /* growth, and the copy in the arena */
}

static int reading_fd(struct reading *reading, int fd) {
    for (;;) {
        uint8_t piece[64 << 10];
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(reading->err, errno, "reading");
        int failed = n ? reading_put(reading, piece, (size_t)n) : 0;
        if (failed || !n)
            return failed;
    }
}

int filesecbox_read(struct filesecbox *call, const char *path, char **ret_text, size_t *ret_len,
                    struct filesecbox_version *ret_version, struct err *err) {
    struct reading reading = {.call = call, .err = err};
    struct file_stat stat = {0};
    autofd fd = -1;
    if (ret_version)
        *ret_version = (struct filesecbox_version){.there = false};
    struct stat status;
    int failed =
        call->box ? box_read_open(call->box, path, &fd, &stat, err) : base_at(call, path, O_RDONLY, &fd, &status, err);
    if (!failed && !call->box && !S_ISREG(status.st_mode))
        failed = err_set(err, ERR_INVALID, "'%.300s' is a directory", path);
    if (failed)
        return failed;
    buf_init(&reading.out, LIMIT_EDIT_BYTES);
    failed = fd >= 0 ? reading_fd(&reading, fd)
                     : box_read_stream(call->box, path, 0, LIMIT_EDIT_BYTES + 1, http_fd(call->request), reading_put,
                                       &reading, err);
    if (!failed) {
        *ret_len = reading.out.len;
        *ret_text = arena_copy(http_arena(call->request), reading.out.len ? reading.out.data : (const uint8_t *)"",
                               reading.out.len);
    }
    if (!failed && ret_version) {
        ret_version->there = true;
        file_etag(&stat, ret_version->etag);
        sha256(*ret_text, *ret_len, ret_version->sha256);
    }
    buf_done(&reading.out);
    return failed;
}

int filesecbox_write(struct filesecbox *call, const char *path, const void *data, size_t len,
                     const struct filesecbox_version *version, struct err *err) {
    struct edit_result result;
    const struct edit_request request = {
        .path = path,
        .kind = EDIT_WHOLE,
        .parents = true,
        .create = !version || !version->there,
        .new_text = data,
        .new_len = len,
        .if_match = !version         ? NULL
                    : version->there ? version->etag
                                     : "\"none\"",
        .sha256 = version && version->there ? version->sha256 : NULL,
    };
    return box_edit(call->box, &request, http_arena(call->request), http_fd(call->request), &result, err);
}

int filesecbox_change(struct filesecbox *call, const char *path, bool create,
                      int (*change)(void *user, const char *text, size_t len, struct buf *out, struct err *err),
                      void *user, struct err *err) {
    int code = -ERR_EXISTS;
    pthread_mutex_lock(&call->box->edit_lock); /* edits of a box go one after another: none fails because of another */
    for (int tries = 0; code == -ERR_EXISTS && tries < CHANGE_TRIES; tries++) {
        struct filesecbox_version version;
        char *text = "";
        size_t len = 0;
        autobuf out = buf_max(LIMIT_EDIT_BYTES);
        code = filesecbox_read(call, path, &text, &len, &version, err);
        if (code == -ERR_NOT_FOUND && create)
            code = 0;
        if (!code)
            code = change(user, text, len, &out, err);
        if (!code)
            code = filesecbox_write(call, path, out.data, out.len, &version, err);
    }
    pthread_mutex_unlock(&call->box->edit_lock);
    return code;
}

/* ---- lists ---- */

struct listing {
    struct filesecbox *call;
    const char **paths;
    size_t count, room, from_len;
    const char *const *skip;
    const char **dirs; /* directly below the root, where some are left out */
    size_t dir_count, dir_room;
    struct err *err;
};

static int listing_add(struct listing *listing, const char *path) {
    struct http_request *request = listing->call->request;
    size_t len = strlen(path) - listing->from_len;
    vec_add(listing->paths, listing->count, listing->room) =
        arena_copy(http_arena(request), path + listing->from_len, len);
    return http_hold(request, 2 * len + 64, listing->err);
}

static int listing_each(void *user, const struct file_stat *stat) {
    struct listing *listing = user;
    return stat->type == FILE_REGULAR ? listing_add(listing, stat->path) : 0;
}

static int listing_top(void *user, const struct file_stat *stat) {
    struct listing *listing = user;
    for (const char *const *name = listing->skip; *name; name++)
        if (!strcmp(*name, stat->name))
            return 0;
    if (stat->type != FILE_DIR)
        return listing_each(user, stat);
    vec_add(listing->dirs, listing->dir_count, listing->dir_room) =
        arena_strdup(http_arena(listing->call->request), stat->path);
    return http_hold(listing->call->request, strlen(stat->path) + 64, listing->err);
}

static int listing_part(void *user, const char *part) {
    struct listing *listing = user;
    return listing_add(listing, arena_printf(http_arena(listing->call->request), SKILL_PATH "/%s", part));
}

/* Public skills; all else is empty where there is no box. */
static int listing_base(struct listing *listing, const char *path, struct err *err) {
    const char *part = base_part(path);
    struct filesecbox *call = listing->call;
    return part ? base_files(call->skills, call->agent, part, listing_part, listing, err) : 0;
}

static int listing_run(struct listing *listing, const char *path, unsigned depth,
                       int (*each)(void *user, const struct file_stat *stat), struct err *err) {
    const struct list_request request = {.path = path, .depth = depth, .limit = LIMIT_LIST_LIMIT};
    bool truncated = false;
    if (!listing->call->box)
        return listing_base(listing, path, err);
    int failed =
        box_list(listing->call->box, &request, http_fd(listing->call->request), each, listing, &truncated, err);
    if (!failed && truncated)
        failed = err_set(err, ERR_TOO_LARGE, "there are more files than can be listed (%u)", LIMIT_LIST_LIMIT);
    return failed;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int filesecbox_files(struct filesecbox *call, const char *root, const char *from, const char *const *skip,
                     const char ***ret_paths, size_t *ret_count, struct err *err) {
    struct listing listing = {.call = call, .from_len = strlen(from) + 1, .skip = skip, .err = err};
    int failed = listing_run(&listing, root, skip ? 1 : LIMIT_LIST_DEPTH, skip ? listing_top : listing_each, err);
    for (size_t i = 0; !failed && i < listing.dir_count; i++) {
        failed = listing_run(&listing, listing.dirs[i], LIMIT_LIST_DEPTH, listing_each, err);
        if (failed == -ERR_NOT_FOUND) /* it went meanwhile */
            failed = 0;
    }
    if (!failed) {
        *ret_count = listing.count;
        *ret_paths = arena_alloc(http_arena(call->request), (listing.count + 1) * sizeof *listing.paths);
        if (listing.count) {
            memcpy(*ret_paths, listing.paths, listing.count * sizeof *listing.paths);
            qsort(*ret_paths, listing.count, sizeof *listing.paths, compare_paths);
        }
    }
    free(listing.paths);
    free(listing.dirs);
    return failed;
}
