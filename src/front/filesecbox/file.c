/* Files of the dialect: paths below a root, reading, writing and listing through the box's verbs. Called by both
 * families. Invariant: a path never leads out of its root, whatever links there are. A user who races against the check
 * of links does so in their own box and reaches nothing else. */

#include "base/sha256.h"
#include "base/sync.h"
#include "front/filesecbox/filesecbox.h"
#include "front/send.h"
#include "skill/base/base.h"
#include "skill/catalog/catalog.h"
#include "skill/lines.h"
#include "skill/own/own.h"

enum { FILE_LINKS_MAX = 16, FILE_CHANGE_TRIES = 20 };
#define FILE_TOO_LARGE "the file is larger than 16777216 bytes"
_Static_assert(LIMIT_EDIT_BYTES == 16777216, "FILE_TOO_LARGE says so");

/* ---- users without a box ---- */

/* Returns the part of a path below /skills ("" for /skills itself), or NULL if it is elsewhere. */
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
    if (!failed) /* layers only have files and directories */
        *ret_stat = (struct file_stat){.type = S_ISDIR(status.st_mode) ? FILE_DIR : FILE_REGULAR,
                                       .size = (uint64_t)status.st_size};
    return failed;
}

/* ---- paths ---- */

/* Resolves part by part: the resolved parts contain no links; parts after the first missing one need not exist. */
int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err) {
    struct arena *arena = http_arena(call->request);
    size_t root_len = strlen(root), len = root_len, n;
    char *at = arena_alloc(arena, LIMIT_PATH_BYTES + 1);
    unsigned links = 0;
    bool begins = true, missing = false; /* begins: at the start of the client's path or a link's target */
    STEP(path_check(path, strlen(path), err));
    memcpy(at, root, len + 1);
    for (const char *rest = path;; rest += n) {
        if (begins && *rest == '/') {
            if (!path_within(rest, root))
                return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
            rest += root_len;
            at[len = root_len] = 0;
        }
        begins = false;
        rest += strspn(rest, "/");
        n = strcspn(rest, "/");
        if (!n)
            break;
        if (n == 1 && *rest == '.')
            continue;
        if (n == 2 && !memcmp(rest, "..", 2)) {
            if (missing || len <= root_len)
                return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
            while (at[--len] != '/')
                ;
            at[len] = 0;
            continue;
        }
        if (n > LIMIT_NAME_BYTES)
            return err_set(err, ERR_INVALID, "a name in the path is longer than %u bytes", LIMIT_NAME_BYTES);
        if (len + n + 1 > LIMIT_PATH_BYTES)
            return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
        struct file_stat stat = {0};
        snprintf(at + len, LIMIT_PATH_BYTES + 1 - len, "/%.*s", (int)n, rest);
        int failed = missing ? 0 : filesecbox_stat(call, at, &stat, err);
        missing = missing || failed == -ERR_NOT_FOUND;
        if (failed && !missing)
            return failed;
        if (stat.type != FILE_SYMLINK || missing) {
            len += n + 1;
            continue;
        }
        at[len] = 0;
        if (++links > FILE_LINKS_MAX)
            return err_set(err, ERR_INVALID, "Security Error: too many links.");
        rest = arena_printf(arena, "%s/%s", stat.target ? stat.target : "", rest + n);
        if (strlen(rest) > LIMIT_PATH_BYTES)
            return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
        begins = true;
        n = 0;
    }
    *ret_path = at;
    return 0;
}

/* ---- content ---- */

/* Reads a file of a layer, which never changes. */
static int file_public_read(struct filesecbox *call, const char *path, struct buf *out, struct err *err) {
    struct stat status;
    autofd fd = -1;
    STEP(file_public(call, path, O_RDONLY, &fd, &status, err));
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "'%.300s' is a directory", path);
    size_t size = (size_t)status.st_size;
    if (size > out->max)
        return err_set(err, ERR_TOO_LARGE, FILE_TOO_LARGE);
    STEP(http_hold(call->request, size, err));
    ssize_t n = size ? fd_read_full(fd, buf_reserve(out, size), size) : 0;
    if (n < 0)
        return err_errno(err, (int)-n, "reading");
    out->len = (size_t)n;
    return 0;
}

/* Reads the whole file, any bytes. out: made with LIMIT_EDIT_BYTES. */
static int file_read(struct filesecbox *call, const char *path, struct buf *out, struct file_stat *ret_stat,
                     struct err *err) {
    struct front_load load = {.path = path, .out = out, .too_large = FILE_TOO_LARGE};
    int failed = call->box ? front_load(call->request, call->box, &load, err) : file_public_read(call, path, out, err);
    *ret_stat = load.stat;
    return failed;
}

int filesecbox_content(struct filesecbox *call, const char *path, struct err *err) {
    bool ranged = call->args.first.has && call->args.second.has, second = call->route->needs & FILESECBOX_SECOND;
    int64_t from = (int64_t)call->args.first.value, to = (int64_t)call->args.second.value, number = 1;
    autobuf text = buf_max(LIMIT_EDIT_BYTES);
    struct file_stat stat;
    const char *line;
    size_t len;
    STEP(file_read(call, path, &text, &stat, err));
    bool utf8 = text_utf8(text.data, text.len);
    if (!utf8 && !second)
        return err_set(err, ERR_INVALID, "the file is not UTF-8");
    const char *start = text.len ? (const char *)text.data : "";
    struct lines lines = {start, start + text.len};
    if (second) /* counts lines */
        to += from > 1 ? from - 1 : 0;
    for (; ranged && number < from && lines_next(&lines, &line, &len); number++)
        ;
    autoanswer out;
    filesecbox_open(&out, call);
    json_open(&out.json, '{');
    json_key(&out.json, "content");
    if (ranged && second) { /* without the last newline */
        struct lines rest = lines;
        lines.end = lines.at;
        for (; number <= to && lines_next(&rest, &line, &len); number++)
            lines.end = line + len;
        utf8 = text_utf8(lines.at, (size_t)(lines.end - lines.at));
    }
    if (!ranged || second) {
        answer_long(&out, (const uint8_t *)lines.at, (size_t)(lines.end - lines.at), utf8);
        to = INT64_MAX;
    }
    if (second)
        json_key(&out.json, "lines");
    if (ranged || second) {
        json_open(&out.json, '[');
        for (; utf8 && !out.failed && number <= to && lines_next(&lines, &line, &len); number++)
            answer_long(&out, (const uint8_t *)line, len, true);
        json_close(&out.json, ']');
    }
    if (!utf8)
        json_put_str(&out.json, "encoding", "base64");
    json_close(&out.json, '}');
    return filesecbox_close(&out, 0, err);
}

/* version: of the file that was read; NULL: any. */
static int file_write(struct filesecbox *call, const char *path, const void *data, size_t len, const char *version,
                      const uint8_t *sha256, struct err *err) {
    struct edit_result result;
    const struct edit_request request = {.path = path,
                                         .kind = EDIT_WHOLE,
                                         .parents = true,
                                         .create = !sha256,
                                         .new_text = data,
                                         .new_len = len,
                                         .if_match = version,
                                         .sha256 = sha256};
    return box_edit(call->box, &request, http_arena(call->request), http_fd(call->request), &result, err);
}

int filesecbox_write(struct filesecbox *call, const char *path, const void *data, size_t len, struct err *err) {
    return file_write(call, path, data, len, NULL, NULL, err);
}

int filesecbox_change(struct filesecbox *call, const char *path, bool create,
                      int (*change)(void *user, const char *text, size_t len, struct buf *out, struct err *err),
                      void *user, struct err *err) {
    int code = -ERR_EXISTS;
    autolock(&call->box->edit_lock); /* edits of a box are serialized, so that none fails because of another */
    for (int tries = 0; code == -ERR_EXISTS && tries < FILE_CHANGE_TRIES; tries++) {
        struct file_stat stat;
        char etag[ETAG_BYTES];
        uint8_t digest[32];
        autobuf text = buf_max(LIMIT_EDIT_BYTES), out = buf_max(LIMIT_EDIT_BYTES);
        code = file_read(call, path, &text, &stat, err);
        bool there = !code;
        if (there)
            sha256(text.data, text.len, digest);
        if (code == -ERR_NOT_FOUND && create)
            code = 0;
        if (!code)
            code = change(user, text.len ? (const char *)text.data : "", text.len, &out, err);
        if (!code)
            code = file_write(call, path, out.data, out.len, there ? file_etag(&stat, etag) : "\"none\"",
                              there ? digest : NULL, err);
    }
    return code;
}

/* ---- lists ---- */

struct file_listing {
    struct filesecbox *call;
    const char **paths;
    size_t count, room, from_len;
    const char *const *skip;
    const char **dirs; /* directly below the root, if some are skipped */
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
        if (failed == -ERR_NOT_FOUND) /* it was just removed */
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

int filesecbox_paths(struct filesecbox *call, const char *before, const char *const *paths, size_t count,
                     struct err *err) {
    autoanswer out;
    filesecbox_open(&out, call);
    json_open(&out.json, '[');
    for (size_t i = 0; i < count && answer_spill(&out) >= 0; i++) {
        autobuf name = buf_max(4 * LIMIT_PATH_BYTES);
        buf_printf(&name, "%s%s%s", before ? before : "", before ? "/" : "", paths[i]);
        json_strn(&out.json, name.data, name.len);
    }
    json_close(&out.json, ']');
    return filesecbox_close(&out, 0, err);
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
    arena_add(found->arena, found->skills, found->count, found->room) = (struct filesecbox_skill){
        .id = arena_strdup(found->arena, skill->skill),
        .name = arena_strdup(found->arena, skill->name),
        .description = arena_strdup(found->arena, skill->description),
        .described = strcmp(skill->description, META_NO_DESCRIPTION) != 0,
        .has_skill_md = base_open(found->known, skill, &dir, ERR_IGNORED) == 0 &&
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

struct file_skill_out {
    const char *name, *description, *status, *synced, *id;
};
static const struct row file_skill_answer[] = {
    OUT("name", TEXT, file_skill_out, name, "what it calls itself"),
    OUT("description", TEXT, file_skill_out, description, "what it is for"),
    OUT_MAYBE("status", TEXT, file_skill_out, status, "against the public one"),
    OUT_MAYBE("lastSyncTime", TEXT, file_skill_out, synced, "when it was last the same"),
    OUT("skillId", TEXT, file_skill_out, id, "its folder"),
    {.name = NULL},
};

static const char *file_skill_synced(struct arena *arena, const char *skill, uint64_t synced_ms) {
    char text[32] = "Never";
    time_t seconds = (time_t)(synced_ms / 1000);
    struct tm local;
    if (!strcmp(skill, FSB2_CREATOR))
        return "System";
    if (seconds && localtime_r(&seconds, &local))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return arena_strdup(arena, text);
}

/* The second family skips folders without a SKILL.md. Its own route says how each skill differs from the public one; a
 * user without a box has the public versions. */
int filesecbox_list(struct filesecbox *call, struct err *err) {
    static const char *const names[] = {"UNCHANGED", "MODIFIED", "LOCAL_ONLY", "OUT_OF_SYNC"};
    bool stated = call->route->needs & FILESECBOX_SECOND, second = stated || skills_settings(call->skills)->second;
    struct arena *arena = http_arena(call->request);
    struct filesecbox_skill *skills;
    size_t count, shown = 0;
    STEP(filesecbox_skills(call, &skills, &count, err));
    struct file_skill_out *outs = arena_alloc(arena, (count + 1) * sizeof *outs);
    for (const struct filesecbox_skill *skill = skills; skill < skills + count; skill++) {
        enum own_status status = OWN_UNCHANGED;
        uint64_t synced_ms = 0;
        int code = stated && skill->has_skill_md && call->box
                       ? own_status(call->skills, call->box, call->agent, skill->id, &status, &synced_ms, err)
                       : 0;
        if (code < 0 && code != -ERR_NOT_FOUND)
            return code;
        if (code < 0 || (second && !skill->has_skill_md)) /* just removed, or not a skill */
            continue;
        outs[shown++] =
            (struct file_skill_out){.name = skill->name,
                                    .description = skill->described ? skill->description
                                                   : second         ? "No description."
                                                                    : META_NO_DESCRIPTION,
                                    .status = stated ? names[status] : NULL,
                                    .synced = stated ? file_skill_synced(arena, skill->id, synced_ms) : NULL,
                                    .id = skill->id};
    }
    autoanswer out;
    filesecbox_open(&out, call);
    json_open(&out.json, '[');
    for (size_t i = 0; i < shown && answer_spill(&out) >= 0; i++)
        rows_write(&out.json, file_skill_answer, &outs[i]);
    json_close(&out.json, ']');
    return filesecbox_close(&out, 0, err);
}
