/* Trees: made, published, removed. Called by base, own, registry and the fronts that upload. Invariant: no name reaches
 * anything outside the stage's directory; no store ever holds a part of a tree; abandoned stages are removed.
 *
 * The maker holds a flock on its stage's directory, so a stage that nobody locks is abandoned (stage_sweep). Files get
 * canonical ids and modes when they are made, so that any box can copy them up. */
#include "skill/stage.h"

#include <sys/file.h>
#include <sys/xattr.h>

#include "backend/ids.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "box/box.h"
#include "skill/names.h"
#include "skill/skills.h"
#include "tree/copytree.h"
#include "tree/removal.h"
#include "tree/tar.h"
#include "tree/treewalk.h"

enum { STAGE_TRIES = 8, STAGE_LINK_DEPTH = 32 };
enum { STAGE_SYNC_ENTRIES = 64 }; /* with more entries, syncing the whole disk is faster */

/* ---- a stage ---- */

/* Returns false if another process has the directory, or removed it before it was locked. */
static bool stage_hold(int fd) {
    struct stat status;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
}

int stage_open(struct skills *skills, struct stage *ret_stage, struct err *err) {
    struct stage stage = {.skills = skills, .fd = -1, .parent_fd = -1};
    char random[17];
    for (int i = 0; i < STAGE_TRIES; i++) { /* another daemon's sweep may remove it first */
        policy_random_id(random);
        memcpy(stage.name, random, sizeof random);
        if (mkdirat(skills->staging_dir, stage.name, 0700) < 0)
            break;
        stage.fd = skills_dir(skills->staging_dir, stage.name);
        if (stage.fd >= 0 && stage_hold(stage.fd)) {
            *ret_stage = stage;
            return 0;
        }
        fd_close(&stage.fd);
    }
    return err_errno(err, errno, "cannot make a new version of skills");
}

static void stage_close(struct stage *stage) {
    fd_close(&stage->parent_fd);
    free(stage->parent);
    stage->parent = NULL;
    fd_close(&stage->fd);
}

static int stage_sync_entry(void *user, const struct tree_entry *entry, struct err *err) {
    unsigned *left = user;
    if (!entry->kind || !strchr("dfx", entry->kind) || --*left == 0)
        return err_set(err, ERR_LIMIT, "'%.200s': too many entries to sync one by one", entry->path);
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_errno(err, errno, "'%.200s'", entry->path) : 0;
}

static int stage_own(int fd, mode_t mode) {
    if (geteuid() == 0 && fchown(fd, IDS_AGENT, IDS_AGENT) < 0)
        return -1;
    return fchmod(fd, mode);
}

/* Syncing the whole disk also waits for whatever all boxes write there. */
int stage_seal(struct stage *stage, struct err *err) {
    unsigned left = STAGE_SYNC_ENTRIES;
    if (stage_own(stage->fd, 0755) < 0)
        return err_errno(err, errno, "cannot set the owner of a new version of skills");
    bool each = treewalk_own(stage->fd, stage_sync_entry, &left, ERR_IGNORED) == 0;
    if ((each ? fsync(stage->fd) : syncfs(stage->fd)) < 0)
        return err_errno(err, errno, "cannot sync a new version of skills");
    return 0;
}

int stage_publish(struct stage *stage, int store, const char *name, struct err *err) {
    if (renameat(stage->skills->staging_dir, stage->name, store, name) == 0)
        stage_close(stage);
    else if (errno == EEXIST || errno == ENOTEMPTY)
        stage_abort(stage);
    else
        return err_errno(err, errno, "cannot move a new version of skills into place");
    return 0;
}

void stage_abort(struct stage *stage) {
    if (stage->fd < 0)
        return;
    removal_tree(stage->skills->staging_dir, stage->name);
    stage_close(stage);
}

/* ---- the stores ---- */

/* Renames first, so that a partly removed tree is never found. What a killed daemon leaves is swept like any stage. */
void skills_discard(struct skills *skills, int store, const char *name) {
    char gone[LIMIT_NAME_BYTES + 16];
    snprintf(gone, sizeof gone, "%s%s", store == skills->staging_dir ? "" : ".gone-", name);
    if (store == skills->staging_dir || renameat(store, name, skills->staging_dir, gone) == 0)
        removal_tree(skills->staging_dir, gone);
}

int skills_sweep(struct skills *skills, int store, bool (*unused)(void *user, const char *name, int *ret_held),
                 void *user, struct err *err) {
    autonames all = names_new();
    int r = names_dir(&all, store, "a store of skills", err);
    for (size_t i = 0; i < all.count; i++) {
        autofd held = -1;
        if (unused(user, all.names[i], &held))
            skills_discard(skills, store, all.names[i]);
    }
    return r;
}

static bool stage_unused(void *user, const char *name, int *ret_held) {
    const struct skills *skills = user;
    *ret_held = openat(skills->staging_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return *ret_held >= 0 && stage_hold(*ret_held);
}

void stage_sweep(struct skills *skills) {
    skills_sweep(skills, skills->staging_dir, stage_unused, skills, ERR_IGNORED);
}

int skills_scratch(struct skills *skills, const char *user, uint64_t most, const char *limit,
                   struct scratch *ret_scratch, struct err *err) {
    int fd = openat(skills->staging_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "cannot make a temporary file for the transfer");
    scratch_begin(ret_scratch, fd, user, most, limit);
    return 0;
}

/* ---- files of a stage ---- */

/* Accepts relative paths without NUL and without empty, "." or ".." parts. The parsers checked this already. */
static int stage_path_check(const char *path, struct err *err) {
    char absolute[LIMIT_PATH_BYTES + 2];
    int len = snprintf(absolute, sizeof absolute, "/%s", path);
    if (len < 2 || (size_t)len >= sizeof absolute || !path_normal(absolute))
        return err_set(err, ERR_INVALID, "'%.200s' cannot be the path of a skill's file", path);
    size_t parts = 0;
    for (const char *at = absolute; (at = strchr(at, '/')); at++)
        parts++;
    if (parts > LIMIT_LIST_DEPTH + 1) /* + 1: the skill's own directory; a deeper file could not be read back */
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is more than %u directories deep", path, LIMIT_LIST_DEPTH);
    return 0;
}

static int stage_count(struct stage *stage, uint64_t *count, const char *path, struct err *err) {
    if (stage->entries_max && stage->files + stage->dirs >= stage->entries_max)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu files and directories", path,
                       (unsigned long long)stage->entries_max);
    ++*count;
    return 0;
}

/* Opens the directory at path; makes it and its parents where missing. */
static int stage_enter(struct stage *stage, const char *path, int *ret_fd, struct err *err) {
    char name[LIMIT_NAME_BYTES + 1];
    autofd at = skills_dir(stage->fd, ".");
    for (const char *from = path; at >= 0 && *from;) {
        size_t len = strcspn(from, "/");
        memcpy(name, from, len); /* stage_path_check bounds the length */
        name[len] = 0;
        from += len + (from[len] == '/');
        autofd next = skills_dir(at, name);
        if (next < 0 && errno == ENOENT) {
            TRY(stage_count(stage, &stage->dirs, path, err));
            if (mkdirat(at, name, 0700) == 0)
                next = skills_dir(at, name);
            if (next >= 0 && stage_own(next, 0755) < 0)
                fd_close(&next);
        }
        fd_close(&at);
        at = fd_take(&next);
    }
    if (at < 0)
        return err_errno(err, errno, "'%.200s'", path);
    *ret_fd = fd_take(&at);
    return 0;
}

int stage_dir(struct stage *stage, const char *path, struct err *err) {
    autofd fd = -1;
    int r = stage_path_check(path, err);
    return r < 0 ? r : stage_enter(stage, path, &fd, err);
}

int stage_file(struct stage *stage, const char *path, uint32_t mode, int *ret_fd, struct err *err) {
    int r = stage_path_check(path, err);
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (r == 0 && (!stage->parent || strlen(stage->parent) != len || memcmp(stage->parent, path, len) != 0)) {
        char *parent = xstrndup(path, len);
        fd_close(&stage->parent_fd);
        free(stage->parent);
        stage->parent = NULL;
        if ((r = stage_enter(stage, parent, &stage->parent_fd, err)) == 0)
            stage->parent = parent;
        else
            free(parent);
    }
    if (r == 0)
        r = stage_count(stage, &stage->files, path, err);
    if (r < 0)
        return r;
    autofd fd =
        openat(stage->parent_fd, slash ? slash + 1 : path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || stage_own(fd, mode & 0111 ? 0755 : 0644) < 0)
        return err_errno(err, errno, "'%.200s'", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

/* ---- from another layer ---- */

static int stage_link_entry(void *user, const struct tree_entry *entry, struct err *err) {
    int to = *(const int *)user; /* the skill's directory in the stage */
    if (entry->kind == 'd') {
        autofd dir = -1;
        if (mkdirat(to, entry->path, 0700) == 0 &&
            (dir = path_below(to, entry->path, O_RDONLY | O_DIRECTORY, true)) >= 0 && stage_own(dir, 0755) == 0)
            return 0;
    } else if (linkat(entry->dir, entry->name, to, entry->path, 0) == 0) {
        return 0;
    }
    return err_errno(err, errno, "'%.200s'", entry->path);
}

/* The directory keeps its time, which is the skill's time of change, and its opaque attribute. */
int stage_link(struct stage *stage, const char *layer, const char *skill, struct err *err) {
    struct stat status;
    autofd to = -1, layer_dir = skills_dir(stage->skills->layers_dir, layer);
    autofd from = layer_dir < 0 ? -1 : skills_dir(layer_dir, skill);
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, errno, "cannot open the skill '%.200s'", skill);
    int r = stage_enter(stage, skill, &to, err) ?: treewalk_own(from, stage_link_entry, &to, err);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    if (r == 0 && (fsetxattr(to, SKILLS_OPAQUE, "y", 1, 0) < 0 || futimens(to, times) < 0))
        r = err_errno(err, errno, "cannot set up the skill '%.200s'", skill);
    return r;
}

/* ---- from a tar stream or a directory of the host ---- */

/* The stream is hostile. Names are checked before use, and the settings bound counts and sizes. No link is made: it
 * becomes a copy of its target inside the skill, or the whole skill is refused. */

struct stage_tar_link {
    const char *path, *target; /* below the skill; as the stream has them */
    struct stage_tar_link *next;
};

struct stage_tar {
    struct stage *stage;
    char skill[LIMIT_NAME_BYTES + 1];
    uint64_t bytes_max, entries_max, entries;
    struct tar_in in;
    int file;
    const char *copy_to; /* where a directory is copied to, below the skill; "": the skill itself */
    struct arena arena;  /* of the links */
    struct stage_tar_link *links, **links_end;
    struct err err; /* the first failure */
};

/* Makes the path of a name in the stage, and counts the entry and its bytes. */
static int stage_tar_path(struct stage_tar *tar, const char *name, uint64_t size, char path[LIMIT_PATH_BYTES + 1],
                          struct err *err) {
    if (++tar->entries > tar->entries_max)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu files and directories", name,
                       (unsigned long long)tar->entries_max);
    if (size > tar->bytes_max || tar->stage->bytes > tar->bytes_max - size)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu bytes", name,
                       (unsigned long long)tar->bytes_max);
    tar->stage->bytes += size;
    int n = snprintf(path, LIMIT_PATH_BYTES + 1, "%s/%s", tar->skill, name);
    return n < 0 || n > (int)LIMIT_PATH_BYTES ? err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", name) : 0;
}

static void stage_tar_link_add(struct stage_tar *tar, const char *path, const char *target) {
    struct stage_tar_link *link = arena_alloc(&tar->arena, sizeof *link);
    link->path = arena_strdup(&tar->arena, path);
    link->target = arena_strdup(&tar->arena, target);
    *tar->links_end = link;
    tar->links_end = &link->next;
}

static int stage_tar_begin(void *user, struct tar_entry *entry, struct err *err) {
    struct stage_tar *tar = user;
    char path[LIMIT_PATH_BYTES + 1];
    const char *why = NULL, *name = tar_safe_name(entry->name, &why);
    if (!name)
        return err_set(err, ERR_INVALID, "'%.200s': %s", entry->name, why);
    if (!*name)
        return 0;
    TRY(stage_tar_path(tar, name, entry->type == TAR_FILE ? entry->size : 0, path, err));
    switch (entry->type) {
    case TAR_DIR:
        return stage_dir(tar->stage, path, err);
    case TAR_FILE:
        return stage_file(tar->stage, path, entry->mode, &tar->file, err);
    case TAR_SYMLINK:
        stage_tar_link_add(tar, name, entry->link);
        return 0;
    default:
        return err_set(err, ERR_INVALID, "'%.200s' is neither a file nor a directory", name);
    }
}

static int stage_tar_content(void *user, const uint8_t *data, size_t len, struct err *err) {
    const struct stage_tar *tar = user;
    int r = tar->file < 0 ? 0 : fd_write_all(tar->file, data, len);
    return r < 0 ? err_errno(err, -r, "'%.200s'", tar->in.entry.name) : 0;
}

static int stage_tar_entry_end(void *user, struct err *) {
    struct stage_tar *tar = user;
    fd_close(&tar->file);
    return 0;
}

static int stage_tar_wrong(void *, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID, "the tar stream is bad: %s", why);
}

static const struct tar_sink stage_tar_sink = {stage_tar_begin, stage_tar_content, stage_tar_entry_end, stage_tar_wrong,
                                               NULL};

struct stage_tar *stage_tar_new(struct stage *stage, const char *skill) {
    const struct skill_settings *settings = skills_settings(stage->skills);
    struct stage_tar *tar = xcalloc(1, sizeof *tar);
    *tar = (struct stage_tar){.stage = stage,
                              .file = -1,
                              .in = {.sink = &stage_tar_sink, .user = tar},
                              .bytes_max = settings->unpacked_bytes,
                              .entries_max = settings->upload_entries,
                              .copy_to = "",
                              .links_end = &tar->links};
    stage->entries_max = tar->entries_max + 1; /* with the skill's own directory */
    if (skill_id_check(skill, &tar->err) == 0) {
        memcpy(tar->skill, skill, strlen(skill) + 1);
        stage_dir(stage, skill, &tar->err);
    }
    return tar;
}

int stage_tar_feed(void *user, const uint8_t *data, size_t len) {
    struct stage_tar *tar = user;
    return tar->err.code ? -tar->err.code : tar_in_feed(&tar->in, data, len, &tar->err);
}

/* ---- copies of existing files ---- */

static int stage_tar_copy_file(struct stage_tar *tar, int from, const struct stat *status, const char *to,
                               struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    struct copied copied;
    autofd file = -1;
    int r = stage_tar_path(tar, to, (uint64_t)status->st_size, path, err)
                ?: stage_file(tar->stage, path, status->st_mode, &file, err);
    return r < 0 ? r : copytree_file(from, file, &copied, err);
}

static int stage_tar_copy_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct stage_tar *tar = user;
    char to[LIMIT_PATH_BYTES + 1], path[LIMIT_PATH_BYTES + 1];
    int r = snprintf(to, sizeof to, "%s%s%s", tar->copy_to, *tar->copy_to ? "/" : "", entry->path);
    if (r < 0 || (size_t)r >= sizeof to)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", entry->path);
    if (entry->kind == 'd') {
        r = stage_tar_path(tar, to, 0, path, err);
        return r < 0 ? r : stage_dir(tar->stage, path, err);
    }
    if (entry->kind == 'l') {
        ssize_t n = readlinkat(entry->dir, entry->name, path, sizeof path - 1);
        if (n < 0)
            return err_errno(err, errno, "'%.200s'", to);
        path[n] = 0;
        stage_tar_link_add(tar, to, path);
        return 0;
    }
    if (!entry->kind)
        return err_set(err, ERR_INVALID, "'%.200s' is neither a file nor a directory", to);
    struct stat status;
    autofd from = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, errno, "'%.200s'", to);
    return stage_tar_copy_file(tar, from, &status, to, err);
}

/* ---- links ---- */

bool stage_link_target(struct skills *skills, const char *skill, const char *path, const char *target,
                       char out[LIMIT_PATH_BYTES + 1]) {
    const char *const *paths = skills_settings(skills)->paths, *slash = strrchr(path, '/'), *below = NULL;
    size_t len = target[0] != '/' && slash ? (size_t)(slash - path) : 0;
    memcpy(out, path, len);
    for (size_t i = 0; target[0] == '/' && !below && (i == 0 || (paths && paths[i - 1])); i++) {
        char inside[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES]; /* /skills has several paths */
        int n = snprintf(inside, sizeof inside, "%s/%s/", i ? paths[i - 1] : SKILL_PATH, skill);
        if (n > 0 && strncmp(target, inside, (size_t)n) == 0)
            below = target + n;
    }
    if (target[0] == '/' && !(target = below))
        return false;
    for (size_t n; *target; target += n + (target[n] == '/')) {
        n = strcspn(target, "/");
        if (n == 2 && memcmp(target, "..", 2) == 0) {
            if (len == 0)
                return false;
            while (len > 0 && out[--len] != '/')
                continue;
        } else if (n > 0 && !(n == 1 && *target == '.')) {
            if (len + 1 + n > LIMIT_PATH_BYTES)
                return false;
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, target, n);
            len += n;
        }
    }
    out[len] = 0;
    return len > 0;
}

static bool stage_tar_holds(const char *dir, const char *path) {
    size_t len = strlen(dir);
    return strncmp(dir, path, len) == 0 && (path[len] == '/' || path[len] == 0);
}

/* Replaces a link by a copy. Returns 1, or 0 if its target does not exist (yet: it may be below another link). */
static int stage_tar_flatten(struct stage_tar *tar, const struct stage_tar_link *link, struct err *err) {
    char target[LIMIT_PATH_BYTES + 1], path[LIMIT_PATH_BYTES + 1];
    struct stat status;
    /* A directory that contains the link would be copied into itself. */
    if (!stage_link_target(tar->stage->skills, tar->skill, link->path, link->target, target) ||
        stage_tar_holds(target, link->path))
        return err_set(err, ERR_INVALID, "'%.200s' is a link that leads out of the skill or back to itself: '%.200s'",
                       link->path, link->target);
    if (snprintf(path, sizeof path, "%s/%s", tar->skill, target) >= (int)sizeof path)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", target);
    autofd from = path_open(tar->stage->fd, path, O_RDONLY | O_NOFOLLOW, 0);
    if (from == -ENOENT || from == -ENOTDIR)
        return 0;
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, from < 0 ? -from : errno, "'%.200s'", link->path);
    int r;
    if (S_ISREG(status.st_mode)) {
        r = stage_tar_copy_file(tar, from, &status, link->path, err);
        return r < 0 ? r : 1;
    }
    for (const struct stage_tar_link *other = tar->links; other; other = other->next)
        if (stage_tar_holds(target, other->path))
            return 0; /* links in that directory must be replaced first, or the copy would lack them */
    tar->copy_to = link->path;
    r = (snprintf(path, sizeof path, "%s/%s", tar->skill, link->path) < (int)sizeof path
             ? stage_dir(tar->stage, path, err)
             : err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", link->path))
            ?: treewalk_own(from, stage_tar_copy_entry, tar, err);
    return r < 0 ? r : 1;
}

/* A link may point to a link, or into a linked directory. So this repeats until nothing changes. */
static int stage_tar_flatten_all(struct stage_tar *tar, struct err *err) {
    bool some = true;
    for (int turn = 0; tar->links && some && turn < STAGE_LINK_DEPTH; turn++) {
        some = false;
        for (struct stage_tar_link **place = &tar->links; *place;) {
            int r = stage_tar_flatten(tar, *place, err);
            if (r < 0)
                return r;
            if (r > 0)
                *place = (*place)->next;
            else
                place = &(*place)->next;
            some |= r > 0;
        }
    }
    return tar->links ? err_set(err, ERR_INVALID, "'%.200s' is a link to nothing: '%.200s'", tar->links->path,
                                tar->links->target)
                      : 0;
}

int stage_tar_end(struct stage_tar *tar, struct err *err) {
    if (!tar->err.code && !tar->in.ended)
        err_set(&tar->err, ERR_INVALID, "the tar stream ends before its end mark");
    if (!tar->err.code)
        stage_tar_flatten_all(tar, &tar->err);
    int r = -tar->err.code;
    if (r < 0)
        *err = tar->err;
    arena_done(&tar->arena);
    fd_close(&tar->file);
    tar_in_done(&tar->in);
    free(tar);
    return r;
}

int stage_copy(struct stage *stage, const char *skill, int from_fd, struct err *err) {
    struct stage_tar *tar = stage_tar_new(stage, skill);
    if (!tar->err.code)
        treewalk_own(from_fd, stage_tar_copy_entry, tar, &tar->err);
    tar->in.ended = true;
    return stage_tar_end(tar, err);
}

int stage_box(struct stage *stage, struct box *box, const char *path, const char *skill, int watch, struct err *err) {
    struct err bad = {0};
    TRY(box_share(box, skills_settings(stage->skills)->wait_ms, err));
    struct stage_tar *tar = stage_tar_new(stage, skill);
    int r = box_tar_out(box, path, watch, stage_tar_feed, tar, err);
    box_share_end(box);
    bool refused = tar->err.code; /* the stage knows why; the box only reports that its reader stopped */
    int end = stage_tar_end(tar, &bad);
    if (end == 0 || (r < 0 && !refused))
        return r;
    *err = bad;
    return end;
}
