/* A skill that comes as a tar stream out of a box, into a stage. Called by own and registry. Invariant: the stream is
 * hostile. Every name is checked before it is used, counts and sizes are bounded by the settings, and a link is never made:
 * it becomes a copy of what it points to when that lies inside of the skill, or the whole is refused. */
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
#include "skill/skills.h"
#include "skill/stage.h"
#include "tree/copytree.h"
#include "tree/tar.h"
#include "tree/treewalk.h"

enum { LINK_DEPTH = 32 };

struct tar_link {
    char *path, *target; /* below the skill; as the stream has them */
    struct tar_link *next;
};

struct stage_tar {
    struct stage *stage;
    char skill[LIMIT_NAME_BYTES + 1];
    uint64_t bytes_max, entries_max, entries;
    struct tar_in in;
    int file;
    struct tar_link *links, **links_end;
    struct err err; /* the first thing that was wrong */
};

static const struct tar_sink stage_sink;

struct stage_tar *stage_tar_new(struct stage *stage, const char *skill) {
    struct stage_tar *tar = xcalloc(1, sizeof *tar);
    const struct skill_settings *settings = skills_settings(stage->skills);
    tar->stage = stage;
    tar->file = -1;
    tar->in = (struct tar_in){.sink = &stage_sink, .user = tar};
    tar->bytes_max = settings->unpacked_bytes;
    tar->entries_max = settings->upload_entries;
    stage->entries_max = tar->entries_max + 1; /* with the skill's own directory */
    tar->links_end = &tar->links;
    if (skill_id_check(skill, &tar->err) == 0) {
        memcpy(tar->skill, skill, strlen(skill) + 1);
        stage_dir(stage, skill, &tar->err);
    }
    return tar;
}

static int count_bytes(struct stage_tar *tar, const char *name, uint64_t size, struct err *err) {
    if (size > tar->bytes_max || tar->stage->bytes > tar->bytes_max - size)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu bytes", name,
                       (unsigned long long)tar->bytes_max);
    tar->stage->bytes += size;
    return 0;
}

static int count_entry(struct stage_tar *tar, const char *name, struct err *err) {
    if (++tar->entries > tar->entries_max)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu files and directories", name,
                       (unsigned long long)tar->entries_max);
    return 0;
}

/* The name in the stage, or why it cannot be one. */
static int entry_path(struct stage_tar *tar, const char *name, char path[LIMIT_PATH_BYTES + 1], struct err *err) {
    int n = snprintf(path, LIMIT_PATH_BYTES + 1, "%s/%s", tar->skill, name);
    return n < 0 || n > (int)LIMIT_PATH_BYTES ? err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", name) : 0;
}

static void link_add(struct stage_tar *tar, const char *path, const char *target) {
    struct tar_link *link = xcalloc(1, sizeof *link);
    link->path = xstrdup(path);
    link->target = xstrdup(target);
    *tar->links_end = link;
    tar->links_end = &link->next;
}

static int entry_begin(void *user, struct tar_entry *entry, struct err *err) {
    struct stage_tar *tar = user;
    char path[LIMIT_PATH_BYTES + 1];
    const char *why = NULL, *name = tar_safe_name(entry->name, &why);
    if (!name)
        return err_set(err, ERR_INVALID, "'%.200s': %s", entry->name, why);
    if (!*name)
        return 0;
    int r = count_entry(tar, name, err);
    if (r == 0)
        r = entry_path(tar, name, path, err);
    if (r < 0)
        return r;
    switch (entry->type) {
    case TAR_DIR:
        return stage_dir(tar->stage, path, err);
    case TAR_FILE:
        r = count_bytes(tar, name, entry->size, err);
        return r < 0 ? r : stage_file(tar->stage, path, entry->mode, &tar->file, err);
    case TAR_SYMLINK:
        link_add(tar, name, entry->link);
        return 0;
    default:
        return err_set(err, ERR_INVALID, "'%.200s' is neither a file nor a directory", name);
    }
}

static int entry_content(void *user, const uint8_t *data, size_t len, struct err *err) {
    const struct stage_tar *tar = user;
    int r = tar->file < 0 ? 0 : fd_write_all(tar->file, data, len);
    return r < 0 ? err_errno(err, -r, "'%.200s'", tar->in.entry.name) : 0;
}

static int entry_end(void *user, struct err *err) {
    struct stage_tar *tar = user;
    (void)err;
    fd_close(&tar->file);
    return 0;
}

static int entry_wrong(void *user, const char *why, struct err *err) {
    (void)user;
    return err_set(err, ERR_INVALID, "the tar stream: %s", why);
}

static const struct tar_sink stage_sink = {entry_begin, entry_content, entry_end, entry_wrong};

int stage_tar_feed(void *user, const uint8_t *data, size_t len) {
    struct stage_tar *tar = user;
    return tar->err.code ? -tar->err.code : tar_in_feed(&tar->in, data, len, &tar->err);
}

/* ---- links ---- */

struct flattening {
    struct stage_tar *tar;
    const char *to; /* below the skill; "": itself */
};

static int copy_file(struct stage_tar *tar, int from, const struct stat *status, const char *to, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    struct copied copied;
    autofd file = -1;
    int r = count_entry(tar, to, err);
    if (r == 0)
        r = count_bytes(tar, to, (uint64_t)status->st_size, err);
    if (r == 0)
        r = entry_path(tar, to, path, err);
    if (r == 0)
        r = stage_file(tar->stage, path, status->st_mode, &file, err);
    return r < 0 ? r : copytree_file(from, file, &copied, err);
}

static int copy_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct flattening *flattening = user;
    struct stage_tar *tar = flattening->tar;
    char to[LIMIT_PATH_BYTES + 1], path[LIMIT_PATH_BYTES + 1];
    int r = snprintf(to, sizeof to, "%s%s%s", flattening->to, *flattening->to ? "/" : "", entry->path);
    if (r < 0 || (size_t)r >= sizeof to)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", entry->path);
    if (entry->kind == 'd') {
        if ((r = count_entry(tar, to, err)) < 0 || (r = entry_path(tar, to, path, err)) < 0)
            return r;
        return stage_dir(tar->stage, path, err);
    }
    if (entry->kind == 'l') {
        ssize_t n = readlinkat(entry->dir, entry->name, path, sizeof path - 1);
        if (n < 0)
            return err_errno(err, errno, "'%.200s'", to);
        path[n] = 0;
        link_add(tar, to, path);
        return 0;
    }
    if (!entry->kind)
        return err_set(err, ERR_INVALID, "'%.200s' is neither a file nor a directory", to);
    struct stat status;
    autofd from = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, errno, "'%.200s'", to);
    return copy_file(tar, from, &status, to, err);
}

/* A path of the box's that is inside of the skill, by whichever way it is seen there: what is behind the skill's folder. */
static const char *link_inside(const struct stage_tar *tar, const char *target) {
    const char *const *paths = skills_settings(tar->stage->skills)->paths;
    for (size_t i = 0; i == 0 || (paths && paths[i - 1]); i++) {
        char inside[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES];
        int len = snprintf(inside, sizeof inside, "%s/%s/", i ? paths[i - 1] : SKILL_PATH, tar->skill);
        if (len > 0 && strncmp(target, inside, (size_t)len) == 0)
            return target + len;
    }
    return NULL;
}

/* What a link means, below the skill. false: it leads outside. ".." goes up by names: there are no links in a stage that it
 * could mean something else by. */
static bool link_resolve(const struct stage_tar *tar, const struct tar_link *link, char out[LIMIT_PATH_BYTES + 1]) {
    const char *target = link->target;
    size_t len = 0;
    if (target[0] == '/') {
        if (!(target = link_inside(tar, target)))
            return false;
    } else {
        const char *slash = strrchr(link->path, '/');
        len = slash ? (size_t)(slash - link->path) : 0;
        memcpy(out, link->path, len);
    }
    while (*target) {
        size_t n = strcspn(target, "/");
        if (n == 2 && memcmp(target, "..", 2) == 0) {
            if (len == 0)
                return false;
            while (len > 0 && out[len - 1] != '/')
                len--;
            len -= len > 0;
        } else if (n > 0 && !(n == 1 && *target == '.')) {
            if (len + 1 + n > LIMIT_PATH_BYTES)
                return false;
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, target, n);
            len += n;
        }
        target += n + (target[n] == '/');
    }
    out[len] = 0;
    return len > 0;
}

/* A directory that holds the link would be copied into itself. */
static bool holds(const char *dir, const char *path) {
    size_t len = strlen(dir);
    return strncmp(dir, path, len) == 0 && (path[len] == '/' || path[len] == 0);
}

/* Links in it come first, or the copy would lack them. */
static bool links_below(const struct stage_tar *tar, const char *dir) {
    const struct tar_link *link = tar->links;
    while (link && !holds(dir, link->path))
        link = link->next;
    return link;
}

/* 1: done; 0: what it points to is not there (yet: it may be a link, too). */
static int flatten(struct stage_tar *tar, const struct tar_link *link, struct err *err) {
    char target[LIMIT_PATH_BYTES + 1], path[LIMIT_PATH_BYTES + 1];
    struct stat status;
    if (!link_resolve(tar, link, target) || holds(target, link->path))
        return err_set(err, ERR_INVALID, "'%.200s' is a link that leads out of the skill or back to itself: '%.200s'",
                       link->path, link->target);
    int r = entry_path(tar, target, path, err);
    if (r < 0)
        return r;
    autofd from = path_open(tar->stage->fd, path, O_RDONLY | O_NOFOLLOW, 0);
    if (from == -ENOENT || from == -ENOTDIR)
        return 0;
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, from < 0 ? -from : errno, "'%.200s'", link->path);
    if (S_ISREG(status.st_mode)) {
        r = copy_file(tar, from, &status, link->path, err);
        return r < 0 ? r : 1;
    }
    if (links_below(tar, target))
        return 0;
    struct flattening flattening = {.tar = tar, .to = link->path};
    r = entry_path(tar, link->path, path, err);
    if (r == 0)
        r = stage_dir(tar->stage, path, err);
    if (r == 0)
        r = treewalk_own(from, copy_entry, &flattening, err);
    return r < 0 ? r : 1;
}

static void link_free(struct tar_link **place) {
    struct tar_link *link = *place;
    *place = link->next;
    free(link->path);
    free(link->target);
    free(link);
}

/* A link may point to a link, or into a directory that is one: again, until nothing changes. */
static int flatten_all(struct stage_tar *tar, struct err *err) {
    for (int turn = 0; tar->links && turn < LINK_DEPTH; turn++) {
        bool some = false;
        for (struct tar_link **place = &tar->links; *place;) {
            int r = flatten(tar, *place, err);
            if (r < 0)
                return r;
            if (r > 0) {
                some = true;
                link_free(place);
            } else {
                place = &(*place)->next;
            }
        }
        if (!some)
            break;
    }
    return tar->links ? err_set(err, ERR_INVALID, "'%.200s' is a link to nothing: '%.200s'", tar->links->path,
                                tar->links->target)
                      : 0;
}

int stage_tar_end(struct stage_tar *tar, struct err *err) {
    if (!tar->err.code && !tar->in.ended)
        err_set(&tar->err, ERR_INVALID, "the tar stream ends before its end");
    if (!tar->err.code)
        flatten_all(tar, &tar->err);
    int r = -tar->err.code;
    if (r < 0)
        *err = tar->err;
    while (tar->links)
        link_free(&tar->links);
    fd_close(&tar->file);
    tar_in_done(&tar->in);
    free(tar);
    return r;
}

int stage_copy(struct stage *stage, const char *skill, int from_fd, struct err *err) {
    struct stage_tar *tar = stage_tar_new(stage, skill);
    if (!tar->err.code)
        treewalk_own(from_fd, copy_entry, &(struct flattening){.tar = tar, .to = ""}, &tar->err);
    tar->in.ended = true;
    return stage_tar_end(tar, err);
}
