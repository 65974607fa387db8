/* Files of the dialect: paths below a root, reading, writing and listing through the box's verbs. Called by both
 * families. Invariant: a path never leads out of its root, whatever links there are. A user who races against the check
 * of links does so in their own box and reaches nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
#include "skill/catalog/catalog.h"

enum { FILE_LINKS_MAX = 16, FILE_CHANGE_TRIES = 20 };

/* ---- where there is no box ---- */

/* The part of a path below /skills, "" for /skills itself; NULL: it lies elsewhere. */
static const char *file_below_skills(const char *path) {
    size_t len = strlen(SKILL_PATH);
    if (strncmp(path, SKILL_PATH, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : "";
}

static int file_public(struct filesecbox *call, const char *path, int flags, int *ret_fd, struct stat *ret_status,
                       struct err *err) {
    const char *part = file_below_skills(path);
    if (!part || !*part)
        return err_set(err, ERR_NOT_FOUND, "no file '%.300s'", path);
    return base_path_open(call->skills, call->agent, part, flags, ret_fd, ret_status, err);
}

int filesecbox_stat(struct filesecbox *call, const char *path, struct file_stat *ret_stat, struct err *err) {
    struct stat status = {.st_mode = S_IFDIR};
    autofd fd = -1;
    if (call->box)
        return box_stat(call->box, path, http_arena(call->request), ret_stat, err);
    int failed = strcmp(path, SKILL_PATH) == 0 ? 0 : file_public(call, path, O_PATH, &fd, &status, err);
    if (!failed) /* layers hold files and directories alone */
        *ret_stat = (struct file_stat){.type = S_ISDIR(status.st_mode) ? FILE_DIR : FILE_REGULAR,
                                       .size = (uint64_t)status.st_size};
    return failed;
}

/* ---- paths ---- */

struct file_walk_path {
    char at[LIMIT_PATH_BYTES + 1];   /* where we are; no links in it */
    char rest[LIMIT_PATH_BYTES + 1]; /* the rest of the path */
    size_t len, root_len;
    unsigned links;
    bool missing; /* from here on nothing exists */
};

/* Continues with `path`, then with the rest. An absolute path continues from the root, which it must name. */
static int file_walk_on(struct file_walk_path *walk, const char *path, struct err *err) {
    char rest[sizeof walk->rest];
    if (*path == '/') {
        if (strncmp(path, walk->at, walk->root_len) != 0 || (path[walk->root_len] && path[walk->root_len] != '/'))
            return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
        path += walk->root_len;
        walk->len = walk->root_len;
        walk->at[walk->len] = 0;
    }
    if (snprintf(rest, sizeof rest, "%s/%s", path, walk->rest) >= (int)sizeof rest)
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    memcpy(walk->rest, rest, strlen(rest) + 1);
    return 0;
}

static int file_walk_step(struct filesecbox *call, struct file_walk_path *walk, const char *name, size_t len,
                          struct err *err) {
    size_t before = walk->len;
    if (strcmp(name, "..") == 0) {
        if (walk->missing || walk->len <= walk->root_len)
            return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
        while (walk->at[--walk->len] != '/')
            ;
        walk->at[walk->len] = 0;
        return 0;
    }
    if (walk->len + len + 1 > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    walk->at[walk->len++] = '/';
    memcpy(walk->at + walk->len, name, len + 1);
    walk->len += len;
    struct file_stat stat = {0};
    int failed = walk->missing ? 0 : filesecbox_stat(call, walk->at, &stat, err);
    if (failed == -ERR_NOT_FOUND)
        walk->missing = true;
    if (failed < 0 || walk->missing || stat.type != FILE_SYMLINK)
        return walk->missing ? 0 : failed;
    walk->len = before;
    walk->at[before] = 0;
    if (++walk->links > FILE_LINKS_MAX)
        return err_set(err, ERR_INVALID, "Security Error: too many links.");
    return file_walk_on(walk, stat.target ? stat.target : "", err);
}

int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err) {
    struct file_walk_path walk = {.len = strlen(root), .root_len = strlen(root)};
    STEP(path_check(path, strlen(path), err));
    memcpy(walk.at, root, walk.len + 1);
    int failed = file_walk_on(&walk, path, err);
    while (!failed && *walk.rest) {
        char name[LIMIT_NAME_BYTES + 1];
        size_t len = strcspn(walk.rest, "/"), skip = len + (walk.rest[len] == '/');
        if (len > LIMIT_NAME_BYTES)
            return err_set(err, ERR_INVALID, "a name in the path is longer than %u bytes", LIMIT_NAME_BYTES);
        memcpy(name, walk.rest, len);
        name[len] = 0;
        memmove(walk.rest, walk.rest + skip, strlen(walk.rest + skip) + 1);
        if (len && strcmp(name, ".") != 0)
            failed = file_walk_step(call, &walk, name, len, err);
    }
    if (!failed)
        *ret_path = arena_copy(http_arena(call->request), walk.at, walk.len);
    return failed;
}

/* ---- content ---- */

struct file_reading {
    struct filesecbox *call;
    struct buf out;
    struct err *err;
};

static int file_put(void *user, const uint8_t *data, size_t len) {
    struct file_reading *reading = user;
    buf_put(&reading->out, data, len);
    if (reading->out.failed)
        return err_set(reading->err, ERR_TOO_LARGE, "the file is larger than %u bytes", LIMIT_EDIT_BYTES);
    return http_hold(reading->call->request, 3 * len, reading->err); /* growth, and the copy in the arena */
}

static int file_put_fd(struct file_reading *reading, int fd) {
    for (;;) {
        uint8_t piece[64 << 10];
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(reading->err, errno, "reading");
        int failed = n ? file_put(reading, piece, (size_t)n) : 0;
        if (failed || !n)
            return failed;
    }
}

int filesecbox_read(struct filesecbox *call, const char *path, char **ret_text, size_t *ret_len,
                    struct filesecbox_version *ret_version, struct err *err) {
    struct file_reading reading = {.call = call, .err = err};
    struct file_stat stat = {0};
    autofd fd = -1;
    if (ret_version)
        *ret_version = (struct filesecbox_version){.there = false};
    struct stat status;
    int failed = call->box ? box_read_open(call->box, path, &fd, &stat, err)
                           : file_public(call, path, O_RDONLY, &fd, &status, err);
    if (!failed && !call->box && !S_ISREG(status.st_mode))
        failed = err_set(err, ERR_INVALID, "'%.300s' is a directory", path);
    if (failed)
        return failed;
    buf_init(&reading.out, LIMIT_EDIT_BYTES);
    failed = fd >= 0 ? file_put_fd(&reading, fd)
                     : box_read_stream(call->box, path, 0, LIMIT_EDIT_BYTES + 1, http_fd(call->request), file_put,
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
    for (int tries = 0; code == -ERR_EXISTS && tries < FILE_CHANGE_TRIES; tries++) {
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

struct file_listing {
    struct filesecbox *call;
    const char **paths;
    size_t count, room, from_len;
    const char *const *skip;
    const char **dirs; /* directly below the root, where some are left out */
    size_t dir_count, dir_room;
    struct err *err;
};

static int file_list_add(struct file_listing *listing, const char *path) {
    struct http_request *request = listing->call->request;
    size_t len = strlen(path) - listing->from_len;
    vec_add(listing->paths, listing->count, listing->room) =
        arena_copy(http_arena(request), path + listing->from_len, len);
    return http_hold(request, 2 * len + 64, listing->err);
}

static int file_list_each(void *user, const struct file_stat *stat) {
    return stat->type == FILE_REGULAR ? file_list_add(user, stat->path) : 0;
}

static int file_list_top(void *user, const struct file_stat *stat) {
    struct file_listing *listing = user;
    for (const char *const *name = listing->skip; *name; name++)
        if (!strcmp(*name, stat->name))
            return 0;
    if (stat->type != FILE_DIR)
        return file_list_each(user, stat);
    vec_add(listing->dirs, listing->dir_count, listing->dir_room) =
        arena_strdup(http_arena(listing->call->request), stat->path);
    return http_hold(listing->call->request, strlen(stat->path) + 64, listing->err);
}

static int file_list_public(void *user, const char *part) {
    struct file_listing *listing = user;
    return file_list_add(listing, arena_printf(http_arena(listing->call->request), SKILL_PATH "/%s", part));
}

static int file_list(struct file_listing *listing, const char *path, unsigned depth,
                     int (*each)(void *user, const struct file_stat *stat), struct err *err) {
    const struct list_request request = {.path = path, .depth = depth, .limit = LIMIT_LIST_LIMIT};
    struct filesecbox *call = listing->call;
    bool truncated = false;
    if (!call->box) { /* public skills; everything else is empty */
        const char *part = file_below_skills(path);
        return part ? base_files(call->skills, call->agent, part, file_list_public, listing, err) : 0;
    }
    int failed = box_list(call->box, &request, http_fd(call->request), each, listing, &truncated, err);
    if (!failed && truncated)
        failed = err_set(err, ERR_TOO_LARGE, "there are more files than can be listed (%u)", LIMIT_LIST_LIMIT);
    return failed;
}

static int file_list_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int filesecbox_files(struct filesecbox *call, const char *root, const char *from, const char *const *skip,
                     const char ***ret_paths, size_t *ret_count, struct err *err) {
    struct file_listing listing = {.call = call, .from_len = strlen(from) + 1, .skip = skip, .err = err};
    int failed = file_list(&listing, root, skip ? 1 : LIMIT_LIST_DEPTH, skip ? file_list_top : file_list_each, err);
    for (size_t i = 0; !failed && i < listing.dir_count; i++) {
        failed = file_list(&listing, listing.dirs[i], LIMIT_LIST_DEPTH, file_list_each, err);
        if (failed == -ERR_NOT_FOUND) /* it is gone by now */
            failed = 0;
    }
    if (!failed) {
        *ret_count = listing.count;
        *ret_paths = arena_alloc(http_arena(call->request), (listing.count + 1) * sizeof *listing.paths);
        if (listing.count) {
            memcpy(*ret_paths, listing.paths, listing.count * sizeof *listing.paths);
            qsort(*ret_paths, listing.count, sizeof *listing.paths, file_list_order);
        }
    }
    free(listing.paths);
    free(listing.dirs);
    return failed;
}

/* ---- skills ---- */

struct file_skills {
    struct skills *known;
    struct arena *arena;
    struct filesecbox_skill *skills;
    size_t count, room;
};

static int file_skill_public(void *user, const struct base_skill *skill) {
    struct file_skills *found = user;
    autofd dir = -1;
    struct err err;
    arena_add(found->arena, found->skills, found->count, found->room) = (struct filesecbox_skill){
        .id = arena_strdup(found->arena, skill->skill),
        .name = arena_strdup(found->arena, skill->name),
        .description = arena_strdup(found->arena, skill->description),
        .described = strcmp(skill->description, "No description available.") != 0,
        .has_skill_md = base_open(found->known, skill, &dir, &err) == 0 &&
                        faccessat(dir, "SKILL.md", F_OK, AT_SYMLINK_NOFOLLOW) == 0,
    };
    return 0;
}

int filesecbox_skills(struct filesecbox *call, struct filesecbox_skill **ret_skills, size_t *ret_count,
                      struct err *err) {
    struct file_skills found = {.known = call->skills, .arena = http_arena(call->request)};
    struct catalog catalog = {0};
    int failed = call->box ? catalog_folder(front_of(call->request)->tools.catalogs, call->box, SKILL_PATH, found.arena,
                                            http_fd(call->request), &catalog, err)
                           : base_each(call->skills, call->agent, file_skill_public, &found, err);
    for (size_t i = 0; !failed && i < catalog.count; i++) {
        const struct catalog_entry *entry = &catalog.entries[i];
        const char *file = entry->file ? strrchr(entry->file, '/') : NULL;
        arena_add(found.arena, found.skills, found.count, found.room) = (struct filesecbox_skill){
            .id = entry->id,
            .name = entry->meta.name,
            .description = entry->meta.description,
            .described = entry->meta.described,
            .has_skill_md = file && !strcmp(file, "/SKILL.md"),
        };
    }
    if (!failed) {
        *ret_skills = found.skills;
        *ret_count = found.count;
    }
    return failed;
}
