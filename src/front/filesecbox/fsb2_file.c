/* Files of the second family: list, content, write, edit, delete, upload, and the meaning of its logical paths. Called
 * through fsb2_routes. Invariant: a path is checked part by part before anything is looked up, and contents are
 * returned exactly. */
#include "front/filesecbox/filesecbox.h"
#include "skill/own/own.h"

enum { FSB2_UPLOAD_BYTES = 50 << 20, FSB2_NAME_BYTES = 255 };

/* ---- paths ---- */

static const char *fsb2_root(struct filesecbox *call, bool skills) {
    return skills ? SKILL_PATH : arena_printf(http_arena(call->request), "%s/files", filesecbox_workspace(call));
}

/* itself: a link at the end is not followed, so that it can be removed. */
static int fsb2_path(struct filesecbox *call, bool itself, struct fsb2_path *ret_path, struct err *err) {
    struct arena *arena = http_arena(call->request);
    TRY(fsb2_logical(arena, call->args.path.data, call->args.path.len, ret_path, err));
    const char *below = strchr(ret_path->logical, '/');
    below = below ? below + 1 : "";
    itself = itself && *below;
    if (itself)
        below = arena_copy(arena, below, (size_t)(ret_path->name - below));
    ret_path->path = fsb2_root(call, ret_path->skills);
    int code = *below ? filesecbox_path(call, ret_path->path, below, &ret_path->path, err) : 0;
    if (code >= 0 && itself)
        ret_path->path = arena_printf(arena, "%s/%s", ret_path->path, ret_path->name);
    return code;
}

int fsb2_files_made(struct filesecbox *call, struct err *err) {
    return box_mkdir(call->box, fsb2_root(call, false), 0, true, err);
}

/* Refuses files that cannot be changed: those of skill-creator, a second SKILL.md in a skill, and files outside of a
 * skill. */
static int fsb2_may_change(const struct fsb2_path *path, const char *doing, struct err *err) {
    if (fsb2_is_creator(path))
        return err_set(err, ERR_INVALID, "Security Error: %s skill-creator is strictly forbidden.", doing);
    if (path->skills && path->parts != 3 && !strcmp(path->name, FSB2_FILE))
        return err_set(err, ERR_INVALID, "Security Error: 'SKILL.md' can only be at the root of a skill.");
    if (path->skills && path->parts < 3)
        return err_set(err, ERR_INVALID, "Security Error: A file must be inside a skill, as in skills/my_skill/%s.",
                       path->name);
    return 0;
}

static void fsb2_touched(struct filesecbox *call, const struct fsb2_path *path) {
    if (path->skill)
        own_touched(call->skills, call->box, path->skill);
}

/* ---- list ---- */

/* Names begin with the requested path: links on the way do not show. */
int fsb2_file_list(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    struct file_stat stat = {0};
    const char **paths = NULL;
    size_t count = 0, shown = 0;
    int code = fsb2_path(call, false, &path, err) ?: filesecbox_stat(call, path.path, &stat, err);
    if (!code && stat.type != FILE_DIR)
        return filesecbox_paths(call, NULL, &path.logical, 1, err);
    if (!code)
        code = filesecbox_files(call, path.path, path.path, NULL, &paths, &count, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    for (size_t i = 0; i < count; i++) /* skips hidden names in skills/: skills being written */
        if (!path.skills || path.parts > 1 || paths[i][0] != '.')
            paths[shown++] = paths[i];
    return filesecbox_paths(call, path.logical, paths, shown, err);
}

static int fsb2_not_found(int code, const char *before, const struct fsb2_path *path, struct err *err) {
    return code == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "%s: %s", before, path->given) : code;
}

int fsb2_content(struct filesecbox *call, struct err *err) {
    struct fsb2_path path = {0};
    int code = fsb2_path(call, false, &path, err) ?: filesecbox_content(call, path.path, err);
    return fsb2_not_found(code, "Path not found", &path, err);
}

/* ---- write ---- */

int fsb2_write(struct filesecbox *call, struct err *err) {
    struct fsb2_path path;
    const struct row_text *content = &call->args.content;
    STEP(fsb2_path(call, false, &path, err) ?: fsb2_may_change(&path, "Writing to", err));
    fsb2_touched(call, &path);
    return filesecbox_write(call, path.path, content->data, content->len, err)
               ?: filesecbox_text(call, "Written to workspace: %s", path.given);
}

/* ---- edit ---- */

struct fsb2_edit {
    const struct filesecbox_args *args;
    uint64_t found;
};

/* Replaces only if the number of occurrences is as expected. */
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
    int code = fsb2_path(call, false, &path, err) ?: fsb2_may_change(&path, "Editing", err);
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

/* Deletes a file, a tree or a whole skill; "skills" means all visible skills except skill-creator. */
int fsb2_delete(struct filesecbox *call, struct err *err) {
    struct own_change change = {0};
    struct fsb2_path path;
    struct filesecbox_skill *skills;
    size_t count = 0;
    int code = fsb2_path(call, true, &path, err);
    if (code >= 0 && fsb2_is_creator(&path))
        return err_set(err, ERR_INVALID, "Security Error: Deleting skill-creator is strictly forbidden.");
    if (code >= 0 && (!path.skills || path.parts > 2)) {
        if ((code = filesecbox_share(call, err)) >= 0) {
            fsb2_touched(call, &path);
            code = box_remove(call->box, path.path, true, http_fd(call->request), err);
            filesecbox_unshare(call);
        }
    } else if (code >= 0 && path.parts == 2) {
        code = fsb2_delete_skill(call, path.skill, &change, err);
    } else if (code >= 0) {
        code = filesecbox_skills(call, &skills, &count, err);
        for (size_t i = 0; code >= 0 && i < count; i++)
            if (strcmp(skills[i].id, FSB2_CREATOR) != 0)
                code = fsb2_delete_skill(call, skills[i].id, &change, err);
    }
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_changed(call, arena_printf(http_arena(call->request), "Deleted from workspace: %s", path.given),
                              &change, err);
}

/* ---- upload ---- */

/* Checks that it is a single file name, on any system. */
static int fsb2_filename(const char *name, struct err *err) {
    size_t len = name ? strlen(name) : 0;
    bool fine =
        len && len <= FSB2_NAME_BYTES && text_utf8(name, len) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    for (size_t i = 0; fine && i < len; i++)
        fine = (unsigned char)name[i] >= ' ' && name[i] != 0x7f && name[i] != '/' && name[i] != '\\';
    return fine ? 0 : fsb2_scope_error(name && text_utf8(name, len) ? name : "", err);
}

int fsb2_file_upload(struct filesecbox *call, struct err *err) {
    __attribute__((cleanup(filesecbox_upload_done))) struct filesecbox_upload upload = {.file.fd = -1};
    uint64_t max = skills_settings(call->skills)->upload_bytes;
    struct write_request wanted = {.parents = true, .size = -1, .max = max ? max : FSB2_UPLOAD_BYTES};
    struct file_stat stat;
    bool created;
    int code = filesecbox_receive(call, wanted.max, "skill_upload_bytes", &upload, err);
    STEP(filesecbox_form(call, code, err));
    code = fsb2_filename(upload.filename, err)
           ?: filesecbox_box(call, err)
           ?: filesecbox_path(call, fsb2_root(call, false), upload.filename, &wanted.path, err);
    if (code >= 0)
        code = box_write(call->box, &wanted, scratch_read, &upload.file, http_fd(call->request), &created, &stat, err);
    return code < 0 ? code : filesecbox_text(call, "File uploaded to workspace: files/%s", upload.filename);
}
