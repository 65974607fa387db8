/* Virtual paths of the `local` backend: the real place of a client's path, and paths in texts. In a jail paths are
 * real, and only runner_path is used, to join and check. Called by every op with a path and by exec. Invariant: a path
 * is mapped only at the end of a segment (/mnt/skills-x is not /mnt/skills), the longest mapping wins, and files are
 * opened below that mapping's own descriptor. */
#include <ctype.h>
#include <limits.h>

#include "base/base.h"
#include "runner/runner.h"

enum {
    MAPS_MAX = 64,
    OWN_LINKS = 40, /* the kernel's own limit */
};

struct map {
    char *virtual_path, *real_path;
    char *resolved; /* real_path without links, if different: also masked */
    int fd;
    bool read_only;
    bool own; /* both paths are the same */
};

struct maps {
    struct map rows[MAPS_MAX]; /* longest virtual path first */
    size_t count;
};

struct mask {
    const struct maps *maps;
    struct buf held; /* the last bytes, while they may begin a real path */
};

/* ---- the table ---- */

static char *maps_copy_text(const char *text, size_t len) {
    char *copy = xstrndup(text, len);
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = 0;
    return copy;
}

/* Real paths are put into command lines unquoted, so they may not contain anything special to a shell. */
static bool maps_plain_path(const char *path) {
    for (; *path; path++)
        if (!isalnum((unsigned char)*path) && !strchr("_./+@:,=%-", *path))
            return false;
    return true;
}

static bool maps_ends_with(const char *text, size_t len, const char *word) {
    return len > strlen(word) && strcmp(text + len - strlen(word), word) == 0;
}

/* Parses "VIRTUAL=REAL[:ro|:rw]"; without VIRTUAL the directory is at its own path, and text is not changed. */
static int map_parse(const char *row, struct map *ret_map, struct err *err) {
    const char *equals = strchr(row, '=');
    if (!equals || (row[0] != '/' && row != equals) || equals[1] != '/')
        return err_set(err, ERR_INVALID, "mapping '%s' is not VIRTUAL=REAL[:ro] with absolute paths", row);
    size_t len = strlen(equals + 1);
    bool read_only = maps_ends_with(equals + 1, len, ":ro");
    if (read_only || maps_ends_with(equals + 1, len, ":rw"))
        len -= 3;
    struct map map = {.real_path = maps_copy_text(equals + 1, len), .read_only = read_only, .own = row == equals};
    map.virtual_path = map.own ? maps_copy_text(equals + 1, len) : maps_copy_text(row, (size_t)(equals - row));
    map.fd = open(map.real_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char resolved[PATH_MAX];
    if (map.fd < 0)
        err_errno(err, errno, "cannot open the directory '%s' mapped to '%s'", map.real_path, map.virtual_path);
    else if (!map.own && !maps_plain_path(map.real_path))
        err_set(err, ERR_INVALID, "'%s' has characters that are special to a shell", map.real_path);
    else
        err->code = 0;
    if (err->code) {
        fd_close(&map.fd);
        free(map.virtual_path);
        free(map.real_path);
        return -err->code;
    }
    if (!map.own && realpath(map.real_path, resolved) && strcmp(resolved, map.real_path) != 0)
        map.resolved = maps_copy_text(resolved, strlen(resolved));
    *ret_map = map;
    return 0;
}

static int map_longer(const void *a, const void *b) {
    size_t x = strlen(((const struct map *)a)->virtual_path), y = strlen(((const struct map *)b)->virtual_path);
    return x < y ? 1 : x > y ? -1 : 0;
}

int maps_new(const char *const *rows, struct maps **ret_maps, struct err *err) {
    struct maps *maps = xcalloc(1, sizeof *maps);
    for (; *rows; rows++) {
        int r = maps->count == MAPS_MAX ? err_set(err, ERR_LIMIT, "more than %d mappings", MAPS_MAX)
                                        : map_parse(*rows, &maps->rows[maps->count], err);
        if (r < 0) {
            maps_free(maps);
            return r;
        }
        maps->count++;
    }
    qsort(maps->rows, maps->count, sizeof maps->rows[0], map_longer);
    *ret_maps = maps;
    return 0;
}

void maps_free(struct maps *maps) {
    for (size_t i = 0; maps && i < maps->count; i++) {
        fd_close(&maps->rows[i].fd);
        free(maps->rows[i].virtual_path);
        free(maps->rows[i].real_path);
        free(maps->rows[i].resolved);
    }
    free(maps);
}

/* ---- paths of calls ---- */

static const struct map *maps_find(const struct maps *maps, const char *path, size_t *ret_len) {
    for (size_t i = 0; i < maps->count; i++) {
        size_t len = strlen(maps->rows[i].virtual_path);
        if (strncmp(path, maps->rows[i].virtual_path, len) == 0 && (path[len] == 0 || path[len] == '/')) {
            *ret_len = len;
            return &maps->rows[i];
        }
    }
    return NULL;
}

/* For directories at their own path: links in them lead where they lead for a command, also from one to another. The
 * result is only a hint: links may change afterwards, and a file that is then opened below the directory's descriptor
 * is never outside of it. */
static void maps_own_follow(const struct maps *maps, char path[LIMIT_PATH_BYTES + 1], bool itself) {
    char done[LIMIT_PATH_BYTES + 1] = "", next[LIMIT_PATH_BYTES + 1], link[LIMIT_PATH_BYTES + 1] = "";
    char rest[2 * LIMIT_PATH_BYTES + 2], more[2 * LIMIT_PATH_BYTES + 2];
    unsigned links = 0;
    bool slash = path[strlen(path) - 1] == '/';
    snprintf(rest, sizeof rest, "%s", path);
    for (;;) {
        const char *name = rest + strspn(rest, "/"), *after = name + strcspn(name, "/");
        size_t len = (size_t)(after - name), ignored;
        if (len == 0)
            break;
        bool last = !after[strspn(after, "/")], up = len == 2 && memcmp(name, "..", 2) == 0;
        if (snprintf(next, sizeof next, "%s/%.*s", done, (int)len, name) >= (int)sizeof next)
            return;
        const struct map *map = up ? NULL : maps_find(maps, next, &ignored);
        ssize_t n = map && map->own && !(last && itself) ? readlink(next, link, sizeof link - 1) : -1;
        if (n > 0 && (++links > OWN_LINKS || (size_t)n + strlen(after) > LIMIT_PATH_BYTES))
            return;
        snprintf(more, sizeof more, "%.*s%s", n > 0 ? (int)n : 0, link, after);
        if (up || (n > 0 && link[0] == '/'))
            *(up && strrchr(done, '/') ? strrchr(done, '/') : done) = 0;
        else if (n <= 0 && !(len == 1 && *name == '.'))
            memcpy(done, next, sizeof done);
        memcpy(rest, more, sizeof rest);
    }
    size_t len = strlen(done);
    if (len + 1 > LIMIT_PATH_BYTES)
        return;
    memcpy(path, done, len + 1);
    if (len == 0 || slash)
        memcpy(path + len, "/", 2);
}

int runner_path(const struct runner_config *config, const char *path, unsigned how, struct place *ret_place,
                struct err *err) {
    TRY(path_check(path, strlen(path), err));
    char joined[LIMIT_PATH_BYTES + 1];
    if (!path_join(joined, sizeof joined, config->workspace, path))
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    if (!config->maps) {
        memcpy(ret_place->path, joined, strlen(joined) + 1);
        ret_place->root = config->root_fd;
        ret_place->above = "";
        return 0;
    }
    size_t len;
    const struct map *map = maps_find(config->maps, joined, &len);
    if (map && map->own) {
        maps_own_follow(config->maps, joined, how & PATH_ITSELF);
        map = maps_find(config->maps, joined, &len);
    }
    if (!map)
        return err_set(err, ERR_DENIED, "'%s' is outside the mapped directories", path);
    if ((how & PATH_WRITE) && map->read_only)
        return err_set(err, ERR_DENIED, "'%s': read-only file system", path);
    snprintf(ret_place->path, sizeof ret_place->path, "%s", joined[len] ? joined + len : "/");
    ret_place->root = map->fd;
    ret_place->above = map->virtual_path;
    return 0;
}

/* ---- text ---- */

static bool maps_word(unsigned char c) {
    return isalnum(c) || c == '_';
}

/* Returns whether a path ends here; next points after it, end is the end of the text. "." and "-" end it unless a word
 * follows. */
static bool maps_ends_here(const char *next, const char *end) {
    if (next == end)
        return true;
    if (*next == '.' || *next == '-')
        return next + 1 == end || !maps_word((unsigned char)next[1]);
    return !maps_word((unsigned char)*next);
}

/* Returns whether a path may begin here: not inside another one; a one-letter option may precede it (-I/workspace). */
static bool maps_begins_here(const char *text, const char *at) {
    if (at == text)
        return true;
    unsigned char before = (unsigned char)at[-1];
    if (before == '.' || before == '/' || before == '-' || before == '~' || before == '}' || before == '*')
        return false;
    if (!maps_word(before))
        return true;
    while (at > text && maps_word((unsigned char)at[-1]))
        at--;
    return at > text && at[-1] == '-' && (at - 1 == text || isspace((unsigned char)at[-2]) || at[-2] == '-');
}

char *maps_command(const struct runner_config *config, const char *command) {
    if (!config->maps)
        return xstrdup(command);
    struct buf out;
    buf_init(&out, LIMIT_CALL_ARGS_BYTES * 4);
    const char *end = command + strlen(command);
    for (const char *at = command; at < end;) {
        size_t len = 0;
        const struct map *found = NULL;
        for (size_t i = 0; *at == '/' && !found && i < config->maps->count; i++) {
            const struct map *map = &config->maps->rows[i];
            len = strlen(map->virtual_path);
            if (!map->own && (size_t)(end - at) >= len && memcmp(at, map->virtual_path, len) == 0 &&
                maps_ends_here(at + len, end) && maps_begins_here(command, at))
                found = map;
        }
        if (found)
            buf_puts(&out, found->real_path);
        else
            buf_byte(&out, (uint8_t)*at);
        at += found ? len : 1;
    }
    char *text = buf_cstr(&out);
    if (!text) { /* only a command that consists of mappings grows so much: it will fail by itself */
        buf_done(&out);
        text = strdup(command);
    }
    return text;
}

struct mask *mask_new(const struct runner_config *config) {
    if (!config->maps)
        return NULL;
    struct mask *mask = xcalloc(1, sizeof *mask);
    mask->maps = config->maps;
    buf_init(&mask->held, LIMIT_FRAME_PAYLOAD_BYTES + 4 * PATH_MAX);
    return mask;
}

void mask_free(struct mask *mask) {
    if (mask)
        buf_done(&mask->held);
    free(mask);
}

/* Finds the longest real path at `at`. *ret_partial: one might be completed if the text continues. */
static const struct map *mask_match(const struct maps *maps, const char *at, const char *end, bool last,
                                    size_t *ret_len, bool *ret_partial) {
    const struct map *found = NULL;
    size_t room = (size_t)(end - at);
    *ret_len = 0;
    *ret_partial = false;
    for (size_t i = 0; i < maps->count * 2; i++) {
        const struct map *map = &maps->rows[i / 2];
        const char *base = i % 2 ? map->resolved : map->real_path;
        if (map->own || !base || base[0] != *at)
            continue;
        size_t len = strlen(base);
        if (memcmp(at, base, len < room ? len : room) != 0)
            continue;
        if (!last && room < len + 2)
            *ret_partial = true;
        else if (room >= len && len > *ret_len && maps_ends_here(at + len, end)) {
            found = map;
            *ret_len = len;
        }
    }
    return found;
}

static void maps_mask_run(struct mask *mask, bool last, struct buf *out) {
    const char *at = (const char *)mask->held.data, *end = at + mask->held.len, *from = at;
    while (at < end) {
        at = memchr(at, '/', (size_t)(end - at));
        if (!at) {
            at = end;
            break;
        }
        size_t len;
        bool partial;
        const struct map *map = mask_match(mask->maps, at, end, last, &len, &partial);
        if (partial)
            break;
        if (!map) {
            at++;
            continue;
        }
        buf_put(out, from, (size_t)(at - from));
        buf_puts(out, map->virtual_path);
        at += len;
        from = at;
    }
    if (at > from)
        buf_put(out, from, (size_t)(at - from));
    buf_consume(&mask->held, (size_t)(at - (const char *)mask->held.data));
}

void mask_put(struct mask *mask, const uint8_t *data, size_t len, struct buf *out) {
    buf_put(&mask->held, data, len);
    if (mask->held.len)
        maps_mask_run(mask, false, out);
}

void mask_flush(struct mask *mask, struct buf *out) {
    if (mask->held.len)
        maps_mask_run(mask, true, out);
}
