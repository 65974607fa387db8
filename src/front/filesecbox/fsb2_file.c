/* Files of the later family: list, content, write, edit, delete, upload, and what its logical paths mean. Called through
 * fsb2_routes. Invariant: a path is taken apart and judged by its parts before anything is looked up, and
 * contents go back exactly as they are. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "box/turn.h"
#include "front/filesecbox/fsb2.h"
#include "front/trail.h"
#include "skill/own/own.h"

enum { NEWEST_EDIT_TRIES = 8, NEWEST_UPLOAD_BYTES = 50 << 20, NEWEST_NAME_BYTES = 255 };

/* ---- paths ---- */

static const char *fsb2_root(struct filesecbox *call, bool skills) {
    return skills ? SKILL_PATH : arena_printf(http_arena(call->request), "%s/files", filesecbox_workspace(call));
}

static int fsb2_resolve(struct filesecbox *call, struct fsb2_path *path, const char *below, struct err *err) {
    path->path = fsb2_root(call, path->skills);
    return *below ? filesecbox_path(call, path->path, below, &path->path, err) : 0;
}

int fsb2_path(struct filesecbox *call, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err) {
    int code = fsb2_logical(http_arena(call->request), given, len, ret_path, err);
    if (code < 0)
        return code;
    const char *below = strchr(ret_path->logical, '/');
    return fsb2_resolve(call, ret_path, below ? below + 1 : "", err);
}

int fsb2_path_itself(struct filesecbox *call, const char *given, size_t len, struct fsb2_path *ret_path,
                     struct err *err) {
    struct arena *arena = http_arena(call->request);
    int code = fsb2_logical(arena, given, len, ret_path, err);
    if (code < 0)
        return code;
    const char *below = strchr(ret_path->logical, '/');
    if (below)
        below = arena_copy(arena, below + 1, (size_t)(ret_path->name - below - 1));
    code = fsb2_resolve(call, ret_path, below ? below : "", err);
    if (code >= 0 && below)
        ret_path->path = arena_printf(arena, "%s/%s", ret_path->path, ret_path->name);
    return code;
}

int fsb2_files_made(struct filesecbox *call, struct err *err) {
    return box_mkdir(call->box, fsb2_root(call, false), 0, true, err);
}

static int fsb2_query_path(struct filesecbox *call, bool itself, struct fsb2_path *ret_path, struct err *err) {
    size_t len = 0;
    const char *given = http_query(call->request, "path", &len);
    trail_quote(call->request, given ? given : "");
    return itself ? fsb2_path_itself(call, given, len, ret_path, err) : fsb2_path(call, given, len, ret_path, err);
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

/* ---- JSON bodies ---- */

static int fsb2_text(struct http_request *request, json_t *root, const struct fsb2_member *member, struct err *err) {
    json_t *value = json_object_get(root, member->name);
    if (!json_is_string(value))
        return err_set(err, ERR_INVALID, "Validation Error: '%s' is required and must be a string.", member->name);
    *member->ret_len = json_string_length(value);
    *member->ret_text = arena_copy(http_arena(request), json_string_value(value), *member->ret_len);
    return 0;
}

int fsb2_members(struct http_request *request, const struct fsb2_member *members, int64_t *ret_expected,
                 struct err *err) {
    json_t *root = NULL;
    int code = fsb2_form(request, filesecbox_json(request, &root, err), err);
    for (const struct fsb2_member *member = members; code == 0 && member->name; member++)
        code = fsb2_text(request, root, member, err);
    if (code == 0)
        trail_quote(request, *members->ret_text);
    json_t *number = json_object_get(root, "expected_replacements");
    if (code == 0 && ret_expected) {
        if (number && !json_is_null(number) && (!json_is_integer(number) || json_integer_value(number) < 0))
            code = err_set(err, ERR_INVALID, "Validation Error: 'expected_replacements' must be a number from 0 on.");
        *ret_expected = json_is_integer(number) ? json_integer_value(number) : 1;
    }
    json_decref(root);
    return code;
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
    filesecbox_open(&out, call->request);
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

static int fsb2_list_work(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    const char **paths;
    size_t count = 0;
    int code = fsb2_share(call, err);
    if (code < 0)
        return code;
    code = fsb2_query_path(call, false, &path, err);
    if (code >= 0)
        code = fsb2_list_paths(call, &path, &paths, &count, err);
    filesecbox_unshare(call);
    return code < 0 ? code : fsb2_list_answer(call, &path, paths, count, err);
}

int fsb2_file_list(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX, fsb2_list_work, err);
}

/* ---- content ---- */

/* Past the line at text; *ret_len: without its end (LF, CR, CRLF). */
static const char *fsb2_line(const char *text, const char *end, size_t *ret_len) {
    const char *at = text;
    while (at < end && *at != '\n' && *at != '\r')
        at++;
    *ret_len = (size_t)(at - text);
    if (at < end && *at == '\r' && at + 1 < end && at[1] == '\n')
        at++;
    return at < end ? at + 1 : at;
}

/* The lines offset to offset + limit - 1, without the end of the last. */
static void fsb2_page(const char **text, size_t *len, int64_t offset, int64_t limit) {
    const char *at = *text, *end = *text + *len;
    size_t line = 0;
    for (int64_t number = 1; number < offset && at < end; number++)
        at = fsb2_line(at, end, &line);
    *text = at;
    *len = 0;
    for (int64_t count = 0; count < limit && at < end; count++) {
        const char *begin = at;
        at = fsb2_line(at, end, &line);
        *len = (size_t)(begin - *text) + line;
    }
}

static int fsb2_content_answer(struct filesecbox *call, const char *text, size_t len, bool any, struct err *err) {
    bool utf8 = text_utf8(text, len);
    autoanswer out;
    filesecbox_open(&out, call->request);
    json_open(&out.json, '{');
    json_key(&out.json, "content");
    answer_long(&out, (const uint8_t *)text, len, utf8);
    json_put_open(&out.json, "lines", '[');
    const char *at = text, *end = text + len;
    while (utf8 && any && !out.failed) {
        size_t line;
        const char *next = fsb2_line(at, end, &line);
        answer_long(&out, (const uint8_t *)at, line, true);
        any = next < end;
        at = next;
    }
    json_close(&out.json, ']');
    if (!utf8)
        json_put_str(&out.json, "encoding", "base64");
    json_close(&out.json, '}');
    return filesecbox_close(&out, 0, err);
}

static int fsb2_not_found(int code, const char *before, const struct fsb2_path *path, struct err *err) {
    return code == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "%s: %s", before, path->given) : code;
}

static int fsb2_content_work(struct filesecbox *call, struct err *err) {
    struct fsb2_path path = {0};
    int64_t offset, limit;
    bool has_offset, has_limit;
    char *text;
    size_t len;
    int code = filesecbox_int(call->request, "offset", &has_offset, &offset, err);
    if (code == 0)
        code = filesecbox_int(call->request, "limit", &has_limit, &limit, err);
    code = fsb2_form(call->request, code, err);
    if (code == 0)
        code = fsb2_share(call, err);
    if (code != 0)
        return code;
    code = fsb2_query_path(call, false, &path, err);
    if (code >= 0)
        code = filesecbox_read(call, path.path, &text, &len, NULL, err);
    filesecbox_unshare(call);
    if (code < 0)
        return fsb2_not_found(code, "Path not found", &path, err);
    const char *shown = text;
    if (has_offset && has_limit)
        fsb2_page(&shown, &len, offset, limit);
    return fsb2_content_answer(call, shown, len, len > 0, err);
}

int fsb2_content(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX, fsb2_content_work, err);
}

/* ---- write ---- */

static int fsb2_write_work(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    const char *given, *content;
    size_t given_len, len;
    const struct fsb2_member members[] = {
        {"file_path", &given, &given_len}, {"content", &content, &len}, {NULL, NULL, NULL}};
    int code = fsb2_members(call->request, members, NULL, err);
    if (code == 0)
        code = fsb2_share(call, err);
    if (code != 0)
        return code;
    code = fsb2_path(call, given, given_len, &path, err);
    if (code >= 0)
        code = fsb2_may_change(&path, "Writing to", err);
    if (code >= 0)
        fsb2_touched(call, &path);
    if (code >= 0)
        code = filesecbox_write(call, path.path, content, len, NULL, err);
    filesecbox_unshare(call);
    return code < 0 ? code : filesecbox_text(call->request, "Written to workspace: %s", given);
}

int fsb2_write(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX | NEWEST_CHANGES, fsb2_write_work, err);
}

/* ---- edit ---- */

struct fsb2_edit {
    const char *given, *old, *new_text;
    size_t given_len, old_len, new_len;
    int64_t expected, found;
};

static int64_t fsb2_count(const char *text, size_t len, const char *old, size_t old_len) {
    int64_t count = 0;
    for (const char *at = text, *end = text + len; (at = memmem(at, (size_t)(end - at), old, old_len)); at += old_len)
        count++;
    return count;
}

/* The version that was counted in is the one that is changed: the places are as many as were expected, or nothing is done.
 * EXISTS: it changed meanwhile. */
static int fsb2_edit_once(struct filesecbox *call, const char *path, struct fsb2_edit *edit, struct err *err) {
    struct filesecbox_version version;
    struct edit_result result;
    char *text;
    size_t len;
    int code = filesecbox_read(call, path, &text, &len, &version, err);
    if (code < 0)
        return code;
    edit->found = fsb2_count(text, len, edit->old, edit->old_len);
    if (edit->found != edit->expected || !edit->found)
        return 0;
    const struct edit_request request = {.path = path,
                                         .kind = EDIT_STRING,
                                         .all = true,
                                         .old = edit->old,
                                         .old_len = edit->old_len,
                                         .new_text = edit->new_text,
                                         .new_len = edit->new_len,
                                         .if_match = version.etag,
                                         .sha256 = version.sha256};
    return box_edit(call->box, &request, http_arena(call->request), http_fd(call->request), &result, err);
}

static int fsb2_edit_file(struct filesecbox *call, struct fsb2_edit *edit, struct err *err) {
    struct fsb2_path path = {.given = edit->given};
    int code = fsb2_path(call, edit->given, edit->given_len, &path, err);
    if (code >= 0)
        code = fsb2_may_change(&path, "Editing", err);
    if (code >= 0)
        fsb2_touched(call, &path);
    pthread_mutex_lock(&call->box->edit_lock);
    for (unsigned tries = 0; code >= 0 && tries < NEWEST_EDIT_TRIES; tries++) {
        code = fsb2_edit_once(call, path.path, edit, err);
        if (code != -ERR_EXISTS)
            break;
        code = tries + 1 < NEWEST_EDIT_TRIES ? 0 : code;
    }
    pthread_mutex_unlock(&call->box->edit_lock);
    return fsb2_not_found(code, "Edit Error: File not found", &path, err);
}

static int fsb2_edit_work(struct filesecbox *call, struct err *err) {
    struct fsb2_edit edit = {0};
    const struct fsb2_member members[] = {{"file_path", &edit.given, &edit.given_len},
                                          {"old_string", &edit.old, &edit.old_len},
                                          {"new_string", &edit.new_text, &edit.new_len},
                                          {NULL, NULL, NULL}};
    int code = fsb2_members(call->request, members, &edit.expected, err);
    if (code == 0 && !edit.old_len)
        code = err_set(err, ERR_INVALID, "Security Error: 'old_string' cannot be empty for replacement operation.");
    if (code == 0)
        code = fsb2_share(call, err);
    if (code != 0)
        return code;
    code = fsb2_edit_file(call, &edit, err);
    filesecbox_unshare(call);
    if (code < 0)
        return code;
    if (edit.found == edit.expected)
        return filesecbox_text(call->request, "Edited in workspace: %s", edit.given);
    return filesecbox_error(call->request, NEWEST_STATUS, ERR_INVALID,
                            arena_printf(http_arena(call->request),
                                         "Edit Mismatch: '%s' found %lld times, but expected %lld times. Please refine "
                                         "your search string.",
                                         edit.old, (long long)edit.found, (long long)edit.expected));
}

int fsb2_edit(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX | NEWEST_CHANGES, fsb2_edit_work, err);
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
    int code = fsb2_share(call, err);
    if (code < 0)
        return code;
    fsb2_touched(call, path);
    code = box_remove(call->box, path->path, true, http_fd(call->request), err);
    filesecbox_unshare(call);
    return code;
}

static int fsb2_delete_work(struct filesecbox *call, struct err *err) {
    struct own_change change = {0};
    struct fsb2_path path;
    int code = fsb2_query_path(call, true, &path, err);
    if (code >= 0 && fsb2_is_creator(&path))
        return err_set(err, ERR_INVALID, "Security Error: Deleting skill-creator is strictly forbidden.");
    if (code >= 0)
        code = !path.skills || path.parts > 2 ? fsb2_delete_path(call, &path, err)
               : path.parts == 2              ? fsb2_delete_skill(call, path.skill, &change, err)
                                              : fsb2_delete_skills(call, &change, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_told(call, arena_printf(http_arena(call->request), "Deleted from workspace: %s", path.given),
                           &change, err);
}

int fsb2_delete(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX | NEWEST_CHANGES, fsb2_delete_work, err);
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

static int fsb2_upload_work(struct filesecbox *call, struct err *err) {
    struct filesecbox_upload upload = {.file.fd = -1};
    uint64_t max = skills_settings(call->skills)->upload_bytes;
    max = max ? max : NEWEST_UPLOAD_BYTES;
    int code = filesecbox_receive(call, max, "skill_upload_bytes", &upload, err);
    code = fsb2_form(call->request, code, err);
    if (code == 0)
        code = fsb2_upload_put(call, &upload, max, err);
    if (code == 0)
        code = filesecbox_text(call->request, "File uploaded to workspace: files/%s", upload.filename);
    filesecbox_upload_done(&upload);
    return code;
}

int fsb2_file_upload(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_CHANGES, fsb2_upload_work, err);
}
