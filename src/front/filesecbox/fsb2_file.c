/* Files of the second family: list, content, write, edit, delete, upload, and what its logical paths mean. Called through
 * fsb2_routes. Invariant: a path is taken apart and judged by its parts before anything is looked up, and
 * contents go back exactly as they are. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "box/turn.h"
#include "front/filesecbox/fsb2.h"
#include "front/trail.h"
#include "skill/lines.h"
#include "skill/own/own.h"

enum { NEWEST_UPLOAD_BYTES = 50 << 20, NEWEST_NAME_BYTES = 255 };

/* ---- paths ---- */

static const char *fsb2_root(struct filesecbox *call, bool skills) {
    return skills ? SKILL_PATH : arena_printf(http_arena(call->request), "%s/files", filesecbox_workspace(call));
}

static int fsb2_resolve(struct filesecbox *call, struct fsb2_path *path, const char *below, struct err *err) {
    path->path = fsb2_root(call, path->skills);
    return *below ? filesecbox_path(call, path->path, below, &path->path, err) : 0;
}

/* itself: a link at the end stays one, to remove it. */
static int fsb2_path(struct filesecbox *call, bool itself, struct fsb2_path *ret_path, struct err *err) {
    struct arena *arena = http_arena(call->request);
    int code = fsb2_logical(arena, call->args.path.data, call->args.path.len, ret_path, err);
    if (code < 0)
        return code;
    const char *below = strchr(ret_path->logical, '/');
    below = below ? below + 1 : "";
    itself = itself && *below;
    if (itself)
        below = arena_copy(arena, below, (size_t)(ret_path->name - below));
    code = fsb2_resolve(call, ret_path, below, err);
    if (code >= 0 && itself)
        ret_path->path = arena_printf(arena, "%s/%s", ret_path->path, ret_path->name);
    return code;
}

int fsb2_files_made(struct filesecbox *call, struct err *err) {
    return box_mkdir(call->box, fsb2_root(call, false), 0, true, err);
}

/* Who may change a file: not the creator's, no second SKILL.md in a skill, nothing beside the skills. */
static int fsb2_may_change(const struct fsb2_path *path, const char *doing, struct err *err) {
    if (fsb2_is_creator(path))
        return err_set(err, ERR_INVALID, "Security Error: %s skill-creator is strictly forbidden.", doing);
    if (path->skills && path->parts != 3 && !strcmp(path->name, NEWEST_FILE))
        return err_set(err, ERR_INVALID, "Security Error: 'SKILL.md' can only be at the root of a skill.");
    if (path->skills && path->parts < 3)
        return err_set(err, ERR_INVALID, "Security Error: A file must be inside of a skill, as in skills/my_skill/%s.",
                       path->name);
    return 0;
}

static void fsb2_touched(struct filesecbox *call, const struct fsb2_path *path) {
    if (path->skill)
        own_touched(call->skills, call->box, path->skill);
}

/* ---- list ---- */

static int fsb2_list_paths(struct filesecbox *call, const struct fsb2_path *path, const char ***ret_paths,
                           size_t *ret_count, struct err *err) {
    struct arena *arena = http_arena(call->request);
    struct file_stat stat;
    int code = filesecbox_stat(call, path->path, &stat, err);
    *ret_paths = arena_alloc(arena, sizeof **ret_paths);
    *ret_count = 0;
    if (code == -ERR_NOT_FOUND)
        return 0;
    if (code < 0 || stat.type == FILE_DIR)
        return code < 0 ? code : filesecbox_files(call, path->path, path->path, NULL, ret_paths, ret_count, err);
    (*ret_paths)[0] = NULL;
    *ret_count = 1;
    return 0;
}

/* Names below the path, behind the path as it was asked for: links on the way do not show. */
static int fsb2_list_answer(struct filesecbox *call, const struct fsb2_path *path, const char **paths, size_t count,
                            struct err *err) {
    autobuf name;
    autoanswer out;
    buf_init(&name, 4 * LIMIT_PATH_BYTES);
    filesecbox_open(&out, call);
    json_open(&out.json, '[');
    for (size_t i = 0; i < count && answer_spill(&out) >= 0; i++) {
        if (path->skills && path->parts == 1 && paths[i][0] == '.')
            continue; /* what is on its way to be a skill */
        buf_clear(&name);
        buf_puts(&name, path->logical);
        if (paths[i]) {
            buf_byte(&name, '/');
            buf_puts(&name, paths[i]);
        }
        json_strn(&out.json, name.data, name.len);
    }
    json_close(&out.json, ']');
    return filesecbox_close(&out, 0, err);
}

int fsb2_file_list(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    const char **paths;
    size_t count = 0;
    int code = fsb2_path(call, false, &path, err);
    if (code >= 0)
        code = fsb2_list_paths(call, &path, &paths, &count, err);
    return code < 0 ? code : fsb2_list_answer(call, &path, paths, count, err);
}

/* ---- content ---- */

/* The lines offset to offset + limit - 1, without the end of the last. */
static void fsb2_page(const char **text, size_t *len, int64_t offset, int64_t limit) {
    struct lines lines = {*text, *text + *len};
    const char *line;
    size_t line_len;
    for (int64_t number = 1; number < offset && lines_next(&lines, &line, &line_len);)
        number++;
    *text = lines.at;
    *len = 0;
    for (int64_t count = 0; count < limit && lines_next(&lines, &line, &line_len); count++)
        *len = (size_t)(line - *text) + line_len;
}

static int fsb2_content_answer(struct filesecbox *call, const char *text, size_t len, struct err *err) {
    bool utf8 = text_utf8(text, len);
    struct lines lines = {text, text + len};
    const char *line;
    size_t line_len;
    autoanswer out;
    filesecbox_open(&out, call);
    json_open(&out.json, '{');
    json_key(&out.json, "content");
    answer_long(&out, (const uint8_t *)text, len, utf8);
    json_put_open(&out.json, "lines", '[');
    while (utf8 && !out.failed && lines_next(&lines, &line, &line_len))
        answer_long(&out, (const uint8_t *)line, line_len, true);
    json_close(&out.json, ']');
    if (!utf8)
        json_put_str(&out.json, "encoding", "base64");
    json_close(&out.json, '}');
    return filesecbox_close(&out, 0, err);
}

static int fsb2_not_found(int code, const char *before, const struct fsb2_path *path, struct err *err) {
    return code == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "%s: %s", before, path->given) : code;
}

int fsb2_content(struct filesecbox *call, struct err *err) {
    struct fsb2_path path = {0};
    int64_t offset, limit;
    bool has_offset, has_limit;
    char *text;
    size_t len;
    int code = filesecbox_int("offset", &call->args.offset, &has_offset, &offset, err);
    if (code == 0)
        code = filesecbox_int("limit", &call->args.limit, &has_limit, &limit, err);
    code = filesecbox_form(call, code, err);
    if (code != 0)
        return code;
    code = fsb2_path(call, false, &path, err);
    if (code >= 0)
        code = filesecbox_read(call, path.path, &text, &len, NULL, err);
    if (code < 0)
        return fsb2_not_found(code, "Path not found", &path, err);
    const char *shown = text;
    if (has_offset && has_limit)
        fsb2_page(&shown, &len, offset, limit);
    return fsb2_content_answer(call, shown, len, err);
}

/* ---- write ---- */

int fsb2_write(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    const struct row_text *content = &call->args.content;
    int code = fsb2_path(call, false, &path, err);
    if (code >= 0)
        code = fsb2_may_change(&path, "Writing to", err);
    if (code >= 0)
        fsb2_touched(call, &path);
    if (code >= 0)
        code = filesecbox_write(call, path.path, content->data, content->len, NULL, err);
    return code < 0 ? code : filesecbox_text(call, "Written to workspace: %s", path.given);
}

/* ---- edit ---- */

struct fsb2_edit {
    const struct filesecbox_args *args;
    uint64_t found;
};

/* The places are as many as were expected, or nothing is changed. */
static int fsb2_replace(void *user, const char *text, size_t len, struct buf *out, struct err *err) {
    struct fsb2_edit *edit = user;
    const struct row_text *old = &edit->args->old_text, *fresh = &edit->args->new_text;
    const char *end = text + len, *at;
    edit->found = 0;
    for (; (at = memmem(text, (size_t)(end - text), old->data, old->len)); text = at + old->len) {
        edit->found++;
        buf_put(out, text, (size_t)(at - text));
        buf_put(out, fresh->data, fresh->len);
    }
    buf_put(out, text, (size_t)(end - text));
    if (edit->found != edit->args->expected.value || !edit->found)
        return 1;
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the file would be larger than %u bytes", LIMIT_EDIT_BYTES) : 0;
}

int fsb2_edit(struct filesecbox *call, struct err *err) {
    struct fsb2_edit edit = {.args = &call->args};
    unsigned long long expected = call->args.expected.value;
    struct fsb2_path path = {.given = call->args.path.data};
    if (!call->args.old_text.len)
        return err_set(err, ERR_INVALID, "Security Error: 'old_string' cannot be empty for replacement operation.");
    int code = fsb2_path(call, false, &path, err);
    if (code >= 0)
        code = fsb2_may_change(&path, "Editing", err);
    if (code >= 0) {
        fsb2_touched(call, &path);
        code = filesecbox_change(call, path.path, false, fsb2_replace, &edit, err);
    }
    if (code < 0)
        return fsb2_not_found(code, "Edit Error: File not found", &path, err);
    if (edit.found == expected)
        return filesecbox_text(call, "Edited in workspace: %s", path.given);
    return filesecbox_error(call, ERR_INVALID,
                            arena_printf(http_arena(call->request),
                                         "Edit Mismatch: '%s' found %llu times, but expected %llu times. Please refine "
                                         "your search string.",
                                         call->args.old_text.data, (unsigned long long)edit.found, expected));
}

/* ---- delete ---- */

static int fsb2_delete_skill(struct filesecbox *call, const char *skill, struct own_change *all, struct err *err) {
    struct own_change change = {0};
    int code = own_remove(call->skills, call->box, skill, &change, err);
    all->pending = all->pending || change.pending;
    all->background = change.background;
    return code == -ERR_NOT_FOUND ? 0 : code;
}

/* All that the user sees, but for the creator. */
static int fsb2_delete_skills(struct filesecbox *call, struct own_change *all, struct err *err) {
    struct filesecbox_skill *skills;
    size_t count;
    int code = filesecbox_skills(call, &skills, &count, err);
    for (size_t i = 0; code >= 0 && i < count; i++)
        if (strcmp(skills[i].id, NEWEST_CREATOR) != 0)
            code = fsb2_delete_skill(call, skills[i].id, all, err);
    return code;
}

static int fsb2_delete_path(struct filesecbox *call, const struct fsb2_path *path, struct err *err) {
    int code = filesecbox_share(call, err);
    if (code < 0)
        return code;
    fsb2_touched(call, path);
    code = box_remove(call->box, path->path, true, http_fd(call->request), err);
    filesecbox_unshare(call);
    return code;
}

int fsb2_delete(struct filesecbox *call, struct err *err) {
    struct own_change change = {0};
    struct fsb2_path path;
    int code = fsb2_path(call, true, &path, err);
    if (code >= 0 && fsb2_is_creator(&path))
        return err_set(err, ERR_INVALID, "Security Error: Deleting skill-creator is strictly forbidden.");
    if (code >= 0)
        code = !path.skills || path.parts > 2 ? fsb2_delete_path(call, &path, err)
               : path.parts == 2              ? fsb2_delete_skill(call, path.skill, &change, err)
                                              : fsb2_delete_skills(call, &change, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_changed(call, arena_printf(http_arena(call->request), "Deleted from workspace: %s", path.given),
                              &change, err);
}

/* ---- upload ---- */

/* One name of a file, whatever the client's machine calls a path. */
static int fsb2_filename(const char *name, struct err *err) {
    size_t len = name ? strlen(name) : 0;
    bool fine =
        len && len <= NEWEST_NAME_BYTES && text_utf8(name, len) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    for (size_t i = 0; fine && i < len; i++)
        fine = (unsigned char)name[i] >= ' ' && name[i] != 0x7f && name[i] != '/' && name[i] != '\\';
    return fine ? 0 : fsb2_scope_error(name && text_utf8(name, len) ? name : "", err);
}

struct fsb2_reader {
    int fd;
    off_t at;
};

static ssize_t fsb2_upload_read(void *user, void *data, size_t size, struct err *err) {
    struct fsb2_reader *reader = user;
    ssize_t n = pread(reader->fd, data, size, reader->at);
    if (n < 0)
        return err_errno(err, EIO, "what was uploaded");
    reader->at += n;
    return n;
}

static int fsb2_upload_put(struct filesecbox *call, const struct filesecbox_upload *upload, uint64_t max,
                           struct err *err) {
    struct fsb2_reader reader = {.fd = upload->file.fd};
    struct file_stat stat;
    bool created;
    int code = fsb2_filename(upload->filename, err);
    if (code >= 0)
        code = filesecbox_box(call, err);
    if (code < 0)
        return code;
    struct write_request wanted = {.parents = true, .size = -1, .max = max};
    code = filesecbox_path(call, fsb2_root(call, false), upload->filename, &wanted.path, err);
    if (code < 0)
        return code;
    return box_write(call->box, &wanted, fsb2_upload_read, &reader, http_fd(call->request), &created, &stat, err);
}

int fsb2_file_upload(struct filesecbox *call, struct err *err) {
    struct filesecbox_upload upload = {.file.fd = -1};
    uint64_t max = skills_settings(call->skills)->upload_bytes;
    max = max ? max : NEWEST_UPLOAD_BYTES;
    int code = filesecbox_receive(call, max, "skill_upload_bytes", &upload, err);
    code = filesecbox_form(call, code, err);
    if (code == 0)
        code = fsb2_upload_put(call, &upload, max, err);
    if (code == 0)
        code = filesecbox_text(call, "File uploaded to workspace: files/%s", upload.filename);
    filesecbox_upload_done(&upload);
    return code;
}
