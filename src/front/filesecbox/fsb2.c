/* The second family of the dialect: its routes, commands, and operations on whole skills: status, sync, delete,
 * download, the creator. Called through fsb2_routes. Invariant: a GET changes nothing, and only admins change the
 * skills of all users of an agent. */
#include "front/filesecbox/filesecbox.h"

#include "base/url.h"
#include "skill/own/own.h"

#define SKILLS "/v1/skills/{user}/{agent}"
#define PLACE "/v1/{user}/{agent}"

#define NAME FILESECBOX_TEXT("name", name, ROW_REQUIRED | ROW_AUDITED, "the skill's folder")
#define PATH(label) FILESECBOX_TEXT(label, path, ROW_REQUIRED | ROW_AUDITED | ROW_NUL, "begins with skills/ or files/")

static const struct row role_query[] = {
    FILESECBOX_TEXT("role", role, 0, "accepted without effect: listing changes nothing"), {.name = NULL}};
static const struct row sync_query[] = {
    NAME,
    FILESECBOX_TEXT("direction", direction, ROW_AUDITED, "ws2bl (the default) or bl2ws, in any case"),
    {.name = NULL}};
static const struct row remove_query_fields[] = {
    NAME, FILESECBOX_TEXT("scope", scope, ROW_AUDITED, "baseline or overlay"), {.name = NULL}};
static const struct row name_query[] = {NAME, {.name = NULL}};
static const struct row place_query[] = {PATH("path"), {.name = NULL}};
static const struct row content_query[] = {
    PATH("path"),
    FILESECBOX_LINE("offset", first, "first line, from 1; counts with limit alone"),
    FILESECBOX_LINE("limit", second, "how many lines; counts with offset alone"),
    {.name = NULL}};
static const struct row write_body[] = {PATH("file_path"),
                                        FILESECBOX_TEXT("content", content, ROW_REQUIRED | ROW_NUL, "all of the file"),
                                        {.name = NULL, .flags = ROW_LENIENT}};
static const struct row edit_body[] = {
    PATH("file_path"),
    FILESECBOX_TEXT("old_string", old_text, ROW_REQUIRED | ROW_NUL, "what is replaced"),
    FILESECBOX_TEXT("new_string", new_text, ROW_REQUIRED | ROW_NUL, "what takes its place"),
    {.name = "expected_replacements",
     .type = ROW_INT,
     .offset = offsetof(struct filesecbox_args, expected),
     .max = INT64_MAX,
     .fallback = 1,
     .text = "how often it occurs"},
    {.name = NULL, .flags = ROW_LENIENT}};
static const struct row execute_body[] = {
    FILESECBOX_TEXT("command", command, ROW_REQUIRED | ROW_AUDITED | ROW_NUL, "a line for bash"),
    {.name = NULL, .flags = ROW_LENIENT}};

#define ROUTE(work, needs, ...)                                                                                        \
    FILESECBOX_ROUTE(work, FILESECBOX_SECOND | (needs), FSB2_STATUS, "", .answer = filesecbox_answer, ##__VA_ARGS__)
#define BOX FILESECBOX_BOX
#define CHANGES FILESECBOX_CHANGES
#define SHARE FILESECBOX_SHARE

/* Gets the skill's name, checked before use. */
static int fsb2_name(struct filesecbox *call, const char **ret_name, struct err *err) {
    *ret_name = call->args.name.data;
    return skill_id_check(*ret_name, err) < 0 ? err_wrap(err, "Validation Error") : 0;
}

/* ---- baseline-sync ---- */

static int fsb2_sync(struct filesecbox *call, struct err *err) {
    const char *name, *direction = call->args.direction.data;
    STEP(fsb2_name(call, &name, err));
    direction = direction && *direction ? direction : "ws2bl";
    bool to_base = !strcasecmp(direction, "ws2bl");
    if (!to_base && strcasecmp(direction, "bl2ws") != 0)
        return err_set(err, ERR_INVALID, "Validation Error: Unknown direction '%s': it is ws2bl or bl2ws.", direction);
    if (!strcmp(name, FSB2_CREATOR))
        return err_set(err, ERR_INVALID,
                       "Validation Error: Skill name '%s' is reserved for system tools and cannot be synchronized.",
                       name);
    int code = (to_base ? filesecbox_admin(call, "make a skill public", err) : 0)
           ?: filesecbox_box(call, err)
           ?: (to_base ? own_to_base : own_from_base)(call->skills, call->box, call->agent, name, err);
    if (code == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Skill not found in both %s: %s",
                       to_base ? "workspace and baseline" : "baseline and workspace", name);
    return code < 0 ? code : filesecbox_text(call, "Skill synchronization completed (%s) for: %s", direction, name);
}

/* ---- delete ---- */

/* Without a scope, the public skill is meant; but if uploads go into a user's layer (as in the first family), a skill
 * that only the user has. */
static int fsb2_scope(struct filesecbox *call, const char *name, bool *ret_own, struct err *err) {
    const char *scope = call->args.scope.data;
    struct base_skill found;
    *ret_own = scope && !strcasecmp(scope, "overlay");
    if (scope && *scope && !*ret_own && strcasecmp(scope, "baseline") != 0)
        return err_set(err, ERR_INVALID, "Validation Error: Unknown scope '%s': it is baseline or overlay.", scope);
    if ((scope && *scope) || skills_settings(call->skills)->second)
        return 0;
    int code = base_find(call->skills, call->agent, name, http_arena(call->request), &found, err);
    *ret_own = code == -ERR_NOT_FOUND;
    return *ret_own ? 0 : code;
}

static int fsb2_remove(struct filesecbox *call, struct err *err) {
    const char *name;
    bool own;
    STEP(fsb2_name(call, &name, err));
    if (!strcmp(name, FSB2_CREATOR))
        return err_set(err, ERR_INVALID,
                       "Validation Error: Skill name '%s' is reserved for system tools and cannot be deleted.", name);
    STEP(fsb2_scope(call, name, &own, err));
    if (own) {
        struct own_change change = {0};
        int code = filesecbox_box(call, err) ?: own_remove(call->skills, call->box, name, &change, err);
        if (code < 0 && code != -ERR_NOT_FOUND)
            return code;
        const char *text =
            arena_printf(http_arena(call->request), "Successfully deleted skill from workspace: %s", name);
        return filesecbox_changed(call, text, &change, err);
    }
    int code =
        filesecbox_admin(call, "delete a public skill", err) ?: base_remove(call->skills, call->agent, name, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_text(call, "Successfully deleted skill from baseline: %s", name);
}

/* ---- download ---- */

struct fsb2_zip {
    struct http_request *request;
    const char *name;
};

/* The first byte is sent after the whole skill was read and checked. Until then a failure is an answer; afterwards a
 * slow reader does not delay others. */
static int fsb2_zip_put(void *user, const uint8_t *data, size_t len) {
    struct fsb2_zip *zip = user;
    struct http_request *request = zip->request;
    int code = 0;
    if (!http_replied(request)) {
        /* percent-encoded UTF-8 in both forms, as browsers and the dialect's clients expect */
        const char *coded = url_encode(http_arena(request), zip->name, ".-*_");
        http_reply_header(request, "Content-Disposition",
                          arena_printf(http_arena(request), "attachment; filename=\"%s.zip\"; filename*=UTF-8''%s.zip",
                                       coded, coded));
        code = http_reply_begin(request, 200, "application/zip", -1);
    }
    return code < 0 ? code : http_reply_write(request, data, len);
}

static int fsb2_download(struct filesecbox *call, struct err *err) {
    struct fsb2_zip zip = {.request = call->request};
    STEP(fsb2_name(call, &zip.name, err));
    int code =
        filesecbox_box(call, err)
            ?: (call->box ? own_zip(call->skills, call->box, zip.name, http_fd(call->request), fsb2_zip_put, &zip, err)
                          : base_zip(call->skills, call->user, call->agent, zip.name, fsb2_zip_put, &zip, err));
    if (code == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Skill not found: %s", zip.name);
    return code < 0 ? code : http_reply_end(call->request);
}

/* ---- install-creator ---- */

/* For daemons without a configured skill-creator. */
static const char fsb2_creator_text[] =
    "---\n"
    "name: skill-creator\n"
    "description: How to make a skill: a folder with a SKILL.md that says when and how to use it.\n"
    "---\n"
    "# Making a skill\n"
    "\n"
    "A skill is a folder below `skills/`. Its name is one word or a few joined by `-`; `skill-creator` is taken.\n"
    "\n"
    "1. Write `skills/NAME/SKILL.md`. It begins with `---`, then `name:` and `description:`, a line each, then `---`.\n"
    "   The description is all that is seen before a skill is chosen: say what it does and when it is the right one.\n"
    "2. Below that, write the steps in the order in which they are done, with the commands as they are typed.\n"
    "3. Put long texts into files of their own, and name them in SKILL.md where they are needed: programs in\n"
    "   `skills/NAME/scripts/`, texts in `skills/NAME/reference/`. There is one SKILL.md in a skill, at its root.\n"
    "4. Run every program once, and follow the steps yourself once, before you call it done.\n"
    "\n"
    "What a skill makes belongs into `files/`, not into its folder.\n";

/* Restores it from the agent's public skills if one is configured; else writes it into the user's layer. */
static int fsb2_creator(struct filesecbox *call, struct err *err) {
    struct base_skill found;
    enum own_status status = OWN_UNCHANGED;
    uint64_t synced_ms;
    int code = base_find(call->skills, call->agent, FSB2_CREATOR, http_arena(call->request), &found, err);
    if (code >= 0) {
        code = own_status(call->skills, call->box, call->agent, FSB2_CREATOR, &status, &synced_ms, err);
        if (code == -ERR_NOT_FOUND || status != OWN_UNCHANGED)
            code = own_from_base(call->skills, call->box, call->agent, FSB2_CREATOR, err);
    } else if (code == -ERR_NOT_FOUND && (code = filesecbox_share(call, err)) >= 0) {
        code = filesecbox_write(call, SKILL_PATH "/" FSB2_CREATOR "/" FSB2_FILE, fsb2_creator_text,
                                sizeof fsb2_creator_text - 1, err);
    }
    return code < 0
               ? code
               : filesecbox_text(call, "Global Skill-Creator is ready. You can access it via 'skills/skill-creator'.");
}

/* ---- execute: one line through bash, in the box ---- */

static int fsb2_execute(struct filesecbox *call, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const struct row_text *line = &call->args.command;
    if (strlen(line->data) != line->len)
        return err_set(err, ERR_INVALID, "Validation Error: 'command' contains a NUL.");
    const char *refusal =
        fsb2_refusal(arena, skills_settings(call->skills)->commands, box_workspace(call->box), line->data, line->len);
    if (refusal)
        return filesecbox_error(call, ERR_DENIED, refusal);
    TRY(fsb2_files_made(call, err));
    unsigned long long seconds = skills_settings(call->skills)->exec_timeout_ms / 1000;
    const struct filesecbox_exec exec = {
        .command = line->data,
        .cwd = box_workspace(call->box),
        .timeout_text = arena_printf(arena, "Execution Timeout: Process killed after %llu seconds.", seconds),
    };
    return filesecbox_execute(call, &exec, err);
}

/* ---- routes ---- */

const struct route fsb2_routes[] = {
    {"GET", SKILLS "/list-with-status", front_handle, 0, "fsb2_status",
     "The skills a user sees, each with UNCHANGED, MODIFIED, LOCAL_ONLY or OUT_OF_SYNC (by content) and its last sync.",
     ROUTE(filesecbox_list, BOX, .query = role_query)},
    {"POST", SKILLS "/baseline-sync", front_handle, 0, "fsb2_sync",
     "A user's skill becomes the public one (ws2bl, admins) or the public one theirs (bl2ws); where the source has "
     "none, the other is removed.",
     ROUTE(fsb2_sync, CHANGES, .query = sync_query)},
    {"DELETE", SKILLS "/delete", front_handle, 0, "fsb2_remove",
     "Remove a public skill (admins), or with scope=overlay what the user sees of one.",
     ROUTE(fsb2_remove, CHANGES, .query = remove_query_fields)},
    /* The only route of the family whose errors have their own status: an error must not look like a ZIP. */
    {"GET", SKILLS "/download", front_handle, 0, "fsb2_download", "A skill as the user sees it, as a ZIP.",
     FILESECBOX_ROUTE(fsb2_download, FILESECBOX_SECOND, 500, "", .query = name_query,
                      .answer_media = "application/zip")},
    {"POST", SKILLS "/install-creator", front_handle, 0, "fsb2_creator",
     "The skill skill-creator is there for this user, as it was made.", ROUTE(fsb2_creator, BOX | CHANGES)},
    {"POST", "/v1/files/{user}/{agent}/upload", front_handle, 0, "fsb2_file_upload",
     "Put the part `file` of a form into files/, under its own name.",
     ROUTE(fsb2_file_upload, CHANGES, .body_media = "multipart/form-data")},
    {"GET", PLACE "/files", front_handle, 0, "fsb2_file_list", "Every file below a path, at any depth, sorted.",
     ROUTE(fsb2_file_list, SHARE, .query = place_query)},
    {"GET", PLACE "/content", front_handle, 0, "fsb2_content",
     "A file's content and lines; what is not UTF-8 as base64, with \"encoding\".",
     ROUTE(fsb2_content, SHARE, .query = content_query)},
    {"POST", PLACE "/write", front_handle, 0, "fsb2_write", "Write a file {file_path, content}, whole or not at all.",
     ROUTE(fsb2_write, SHARE | CHANGES, .body = write_body)},
    {"POST", PLACE "/edit", front_handle, 0, "fsb2_edit",
     "Replace a string {file_path, old_string, new_string, expected_replacements (1)} that occurs exactly so often.",
     ROUTE(fsb2_edit, SHARE | CHANGES, .body = edit_body)},
    {"POST", PLACE "/execute", front_handle, 0, "fsb2_execute",
     "Run a line {command} with bash, where skills/ and files/ are.", ROUTE(fsb2_execute, BOX, .body = execute_body)},
    {"DELETE", PLACE "/delete", front_handle, 0, "fsb2_delete",
     "Remove a file or a tree; success also if it does not exist.",
     ROUTE(fsb2_delete, BOX | CHANGES, .query = place_query)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
