/* The later family of the dialect: its routes, and what is about whole skills: status, sync, delete, download, the creator.
 * Called through fsb2_routes. Invariant: a GET changes nothing, and what all users of an agent see is changed
 * by admins alone. */
#include "front/filesecbox/fsb2.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "box/turn.h"
#include "front/trail.h"
#include "skill/own/own.h"

static fsb2_handler fsb2_status, fsb2_sync, fsb2_remove, fsb2_download, fsb2_creator;

#define SKILLS "/v1/skills/{user}/{agent}"
#define PLACE "/v1/{user}/{agent}"

static const struct row role_query[] = {
    {.name = "role", .type = ROW_TEXT, .text = "taken and of no effect: looking changes nothing"}, {.name = NULL}};
static const struct row sync_query[] = {
    {.name = "name", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .text = "the skill's folder"},
    {.name = "direction", .type = ROW_TEXT, .flags = ROW_AUDITED, .text = "ws2bl (the default) or bl2ws, in any case"},
    {.name = NULL}};
static const struct row remove_query_fields[] = {
    {.name = "name", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .text = "the skill's folder"},
    {.name = "scope", .type = ROW_TEXT, .flags = ROW_AUDITED, .text = "baseline or overlay"},
    {.name = NULL}};
static const struct row name_query[] = {
    {.name = "name", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .text = "the skill's folder"},
    {.name = NULL}};
static const struct row place_query[] = {
    {.name = "path", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .text = "begins with skills/ or files/"},
    {.name = NULL}};
static const struct row content_query[] = {
    {.name = "path", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .text = "begins with skills/ or files/"},
    {.name = "offset", .type = ROW_TEXT, .text = "first line, from 1; counts with limit alone"},
    {.name = "limit", .type = ROW_TEXT, .text = "how many lines; counts with offset alone"},
    {.name = NULL}};
static const struct row answer[] = {
    {.name = "status", .type = ROW_TEXT, .choices = "success|error", .text = "how it went"},
    {.name = "data", .type = ROW_OBJECT, .flags = ROW_NULLABLE, .text = "of any type: the result, or why not"},
    {.name = NULL}};

#define ROW(...) FILESECBOX_ENDPOINT(.answer = answer, __VA_ARGS__)

const struct route fsb2_routes[] = {
    {"GET", SKILLS "/list-with-status", front_handle, 0, "fsb2_status",
     "The skills a user sees, each with UNCHANGED, MODIFIED, LOCAL_ONLY or OUT_OF_SYNC (by content) and its last sync.",
     ROW(.run = fsb2_status, .flags = FILESECBOX_FLAGS, .query = role_query)},
    {"POST", SKILLS "/baseline-sync", front_handle, 0, "fsb2_sync",
     "A user's skill becomes the public one (ws2bl, admins) or the public one his (bl2ws); where the source has none, the "
     "other is removed.",
     ROW(.run = fsb2_sync, .flags = FILESECBOX_FLAGS, .query = sync_query)},
    {"DELETE", SKILLS "/delete", front_handle, 0, "fsb2_remove",
     "Remove a public skill (admins), or with scope=overlay what the user sees of one.",
     ROW(.run = fsb2_remove, .flags = FILESECBOX_FLAGS, .query = remove_query_fields)},
    {"GET", SKILLS "/download", front_handle, 0, "fsb2_download", "A skill as the user sees it, as a ZIP.",
     FILESECBOX_ENDPOINT(.run = fsb2_download, .flags = FILESECBOX_FLAGS, .query = name_query,
                         .answer_media = "application/zip")},
    {"POST", SKILLS "/install-creator", front_handle, 0, "fsb2_creator",
     "The skill skill-creator is there for this user, as it was made.",
     ROW(.run = fsb2_creator, .flags = FILESECBOX_FLAGS)},
    {"POST", "/v1/files/{user}/{agent}/upload", front_handle, 0, "fsb2_file_upload",
     "Put the part `file` of a form into files/, under its own name.",
     ROW(.run = fsb2_file_upload, .flags = FILESECBOX_FLAGS, .body_media = "multipart/form-data")},
    {"GET", PLACE "/files", front_handle, 0, "fsb2_file_list", "Every file below a path, at any depth, sorted.",
     ROW(.run = fsb2_file_list, .flags = FILESECBOX_FLAGS, .query = place_query)},
    {"GET", PLACE "/content", front_handle, 0, "fsb2_content",
     "A file's content and lines; what is not UTF-8 as base64, with \"encoding\".",
     ROW(.run = fsb2_content, .flags = FILESECBOX_FLAGS, .query = content_query)},
    {"POST", PLACE "/write", front_handle, 0, "fsb2_write", "Write a file {file_path, content}, whole or not at all.",
     ROW(.run = fsb2_write, .flags = FILESECBOX_FLAGS, .body_media = "application/json")},
    {"POST", PLACE "/edit", front_handle, 0, "fsb2_edit",
     "Replace a string {file_path, old_string, new_string, expected_replacements (1)} that occurs just so often.",
     ROW(.run = fsb2_edit, .flags = FILESECBOX_FLAGS, .body_media = "application/json")},
    {"POST", PLACE "/execute", front_handle, 0, "fsb2_execute",
     "Run a line {command} with bash, where skills/ and files/ are.",
     ROW(.run = fsb2_execute, .flags = FILESECBOX_FLAGS, .body_media = "application/json")},
    {"DELETE", PLACE "/delete", front_handle, 0, "fsb2_delete", "Remove a file or a tree; one that is not there, too.",
     ROW(.run = fsb2_delete, .flags = FILESECBOX_FLAGS, .query = place_query)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- every handler's walk ---- */

int fsb2_run(struct http_request *request, unsigned needs, fsb2_work *work, struct err *err) {
    autofilesecbox call = {.request = request};
    if (!filesecbox_claims(http_path(request))) /* a path of another door that does not exist */
        return err_set(err, ERR_NOT_FOUND, "no such path: '%.300s'", http_path(request));
    int code = filesecbox_begin(request, &call, err);
    if (code >= 0 && needs & NEWEST_BOX)
        code = filesecbox_box(&call, err);
    if (code >= 0)
        code = work(&call, err);
    if (code >= 0 || http_replied(request))
        return code;
    if ((err->code == ERR_BUSY || err->code == ERR_PAUSED) && call.box)
        return filesecbox_error(request, NEWEST_STATUS, ERR_BUSY,
                                needs & NEWEST_CHANGES ? "Server busy: Update operation timed out. Please try again."
                                                       : "Server busy: Read operation timed out. Please try again.");
    return filesecbox_fail(request, NEWEST_STATUS, "", err);
}

int fsb2_form(struct http_request *request, int code, struct err *err) {
    if (code >= 0)
        return code;
    http_reply_error(request, err);
    return -code;
}

int fsb2_share(struct filesecbox *call, struct err *err) {
    int code = call->box ? box_share(call->box, NEWEST_READ_WAIT_MS, err) : 0;
    call->shared = call->box && code >= 0;
    return code;
}

/* The skill a request is about. Checked before it is part of anything. */
static int fsb2_name(struct filesecbox *call, const char **ret_name, struct err *err) {
    const char *name;
    int code = fsb2_form(call->request, filesecbox_need(call->request, "name", &name, err), err);
    if (code == 0 && skill_id_check(name, err) < 0)
        code = err_wrap(err, "Validation Error");
    if (code == 0)
        trail_quote(call->request, *ret_name = name);
    return code;
}

/* ---- list-with-status ---- */

static void fsb2_time(struct json *json, const char *skill, uint64_t synced_ms) {
    char text[32] = "Never";
    time_t seconds = (time_t)(synced_ms / 1000);
    struct tm local;
    if (!strcmp(skill, NEWEST_CREATOR))
        snprintf(text, sizeof text, "System");
    else if (synced_ms && localtime_r(&seconds, &local))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    json_str(json, text);
}

struct fsb2_row {
    enum own_status status;
    uint64_t synced_ms;
    bool gone; /* removed meanwhile */
};

static int fsb2_statuses(struct filesecbox *call, const struct filesecbox_skill *skills, size_t count,
                         struct fsb2_row *rows, struct err *err) {
    for (size_t i = 0; i < count; i++) {
        if (!skills[i].has_skill_md || !call->box) /* without a box of their own, all are as they are public */
            continue;
        int code =
            own_status(call->skills, call->box, call->agent, skills[i].id, &rows[i].status, &rows[i].synced_ms, err);
        rows[i].gone = code == -ERR_NOT_FOUND;
        if (code < 0 && !rows[i].gone)
            return code;
    }
    return 0;
}

static int fsb2_status_work(struct filesecbox *call, struct err *err) {
    static const char *const names[] = {"UNCHANGED", "MODIFIED", "LOCAL_ONLY", "OUT_OF_SYNC"};
    struct filesecbox_skill *skills;
    size_t count;
    int code = filesecbox_skills(call, &skills, &count, err);
    if (code < 0)
        return code;
    struct fsb2_row *rows = arena_alloc(http_arena(call->request), (count + 1) * sizeof *rows);
    code = fsb2_statuses(call, skills, count, rows, err);
    if (code < 0)
        return code;
    autoanswer out;
    filesecbox_open(&out, call->request);
    json_open(&out.json, '[');
    for (size_t i = 0; i < count && answer_spill(&out) >= 0; i++) {
        if (!skills[i].has_skill_md || rows[i].gone)
            continue;
        json_open(&out.json, '{');
        json_put_str(&out.json, "name", skills[i].name);
        json_put_str(&out.json, "description", skills[i].described ? skills[i].description : "No description.");
        json_put_str(&out.json, "status", names[rows[i].status]);
        json_key(&out.json, "lastSyncTime");
        fsb2_time(&out.json, skills[i].id, rows[i].synced_ms);
        json_put_str(&out.json, "skillId", skills[i].id);
        json_close(&out.json, '}');
    }
    json_close(&out.json, ']');
    return filesecbox_close(&out, 0, err);
}

static int fsb2_status(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX, fsb2_status_work, err);
}

/* ---- baseline-sync ---- */

static int fsb2_sync_work(struct filesecbox *call, struct err *err) {
    const char *name, *direction = http_query(call->request, "direction", NULL);
    int code = fsb2_name(call, &name, err);
    if (code != 0)
        return code;
    direction = direction && *direction ? direction : "ws2bl";
    bool to_base = !strcasecmp(direction, "ws2bl");
    if (!to_base && strcasecmp(direction, "bl2ws") != 0)
        return err_set(err, ERR_INVALID, "Validation Error: Unknown direction '%s': it is ws2bl or bl2ws.", direction);
    if (!strcmp(name, NEWEST_CREATOR))
        return err_set(err, ERR_INVALID,
                       "Validation Error: Skill name '%s' is reserved for system tools and cannot be synchronized.",
                       name);
    code = to_base ? filesecbox_admin(call, "make a skill public", err) : 0;
    if (code >= 0)
        code = filesecbox_box(call, err);
    if (code >= 0)
        code = to_base ? own_to_base(call->skills, call->box, call->agent, name, err)
                       : own_from_base(call->skills, call->box, call->agent, name, err);
    if (code == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Skill not found in both %s: %s",
                       to_base ? "workspace and baseline" : "baseline and workspace", name);
    return code < 0 ? code
                    : filesecbox_text(call->request, "Skill synchronization completed (%s) for: %s", direction, name);
}

static int fsb2_sync(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_CHANGES, fsb2_sync_work, err);
}

/* ---- delete ---- */

static int fsb2_remove_own(struct filesecbox *call, const char *name, struct err *err) {
    struct own_change change = {0};
    int code = filesecbox_box(call, err);
    if (code >= 0)
        code = own_remove(call->skills, call->box, name, &change, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_told(
        call, arena_printf(http_arena(call->request), "Successfully deleted skill from workspace: %s", name), &change,
        err);
}

/* Without a scope it is the public one. Where uploads go into a user's layer (the first family's way), one that is his alone
 * is meant. */
static int fsb2_scope(struct filesecbox *call, const char *name, bool *ret_own, struct err *err) {
    const char *scope = http_query(call->request, "scope", NULL);
    struct base_skill found;
    *ret_own = scope && !strcasecmp(scope, "overlay");
    if (scope && *scope && !*ret_own && strcasecmp(scope, "baseline") != 0)
        return err_set(err, ERR_INVALID, "Validation Error: Unknown scope '%s': it is baseline or overlay.", scope);
    if ((scope && *scope) || skills_settings(call->skills)->newest)
        return 0;
    int code = base_find(call->skills, call->agent, name, http_arena(call->request), &found, err);
    *ret_own = code == -ERR_NOT_FOUND;
    return *ret_own ? 0 : code;
}

static int fsb2_remove_work(struct filesecbox *call, struct err *err) {
    const char *name;
    bool own;
    int code = fsb2_name(call, &name, err);
    if (code == 0 && !strcmp(name, NEWEST_CREATOR))
        return err_set(err, ERR_INVALID,
                       "Validation Error: Skill name '%s' is reserved for system tools and cannot be deleted.", name);
    if (code == 0)
        code = fsb2_scope(call, name, &own, err);
    if (code != 0)
        return code;
    if (own)
        return fsb2_remove_own(call, name, err);
    code = filesecbox_admin(call, "delete a public skill", err);
    if (code >= 0)
        code = base_remove(call->skills, call->agent, name, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    return filesecbox_text(call->request, "Successfully deleted skill from baseline: %s", name);
}

static int fsb2_remove(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_CHANGES, fsb2_remove_work, err);
}

/* ---- download ---- */

/* As browsers and the dialect's clients read it: percent-encoded UTF-8 in both forms. */
static const char *fsb2_disposition(struct arena *arena, const char *name) {
    size_t len = strlen(name);
    char *coded = arena_alloc(arena, 3 * len + 1), *to = coded;
    for (const char *p = name; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x80 && (isalnum(c) || strchr(".-*_", c)))
            *to++ = *p;
        else
            to += snprintf(to, 4, "%%%02X", c);
    }
    return arena_printf(arena, "attachment; filename=\"%s.zip\"; filename*=UTF-8''%s.zip", coded, coded);
}

struct fsb2_zip {
    struct http_request *request;
    const char *name;
};

/* The first byte comes when all of the skill was taken and checked: until then a failure is an answer, and from then on
 * nobody waits for a client that reads slowly. */
static int fsb2_zip_put(void *user, const uint8_t *data, size_t len) {
    struct fsb2_zip *zip = user;
    struct http_request *request = zip->request;
    int code = 0;
    if (!http_replied(request)) {
        http_reply_header(request, "Content-Disposition", fsb2_disposition(http_arena(request), zip->name));
        code = http_reply_begin(request, 200, "application/zip", -1);
    }
    return code < 0 ? code : http_reply_write(request, data, len);
}

static int fsb2_download_work(struct filesecbox *call, struct err *err) {
    struct fsb2_zip zip = {.request = call->request};
    int code = fsb2_name(call, &zip.name, err);
    if (code != 0)
        return code;
    code = filesecbox_box(call, err);
    if (code >= 0)
        code = call->box ? own_zip(call->skills, call->box, zip.name, http_fd(call->request), fsb2_zip_put, &zip, err)
                         : base_zip(call->skills, call->user, call->agent, zip.name, fsb2_zip_put, &zip, err);
    if (code == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Skill not found: %s", zip.name);
    return code < 0 ? code : http_reply_end(call->request);
}

/* The one call of the family whose errors have a status of their own: what is no ZIP must not look like one. */
static int fsb2_download(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autofilesecbox call;
    int code = filesecbox_begin(request, &call, err);
    if (code >= 0)
        code = fsb2_download_work(&call, err);
    return code >= 0 || http_replied(request) ? code : filesecbox_fail(request, 500, "", err);
}

/* ---- install-creator ---- */

/* For daemons whose configuration names no other. */
static const char creator_text[] =
    "---\n"
    "name: skill-creator\n"
    "description: How to make a skill: a folder with a SKILL.md that says when and how to use it.\n"
    "---\n"
    "# Making a skill\n"
    "\n"
    "A skill is a folder below `skills/`. Its name is one word or a few joined by `-`; `skill-creator` is taken.\n"
    "\n"
    "1. Write `skills/NAME/SKILL.md`. It begins with `---`, then `name:` and `description:`, a line each, then `---`. The\n"
    "   description is all that is seen before a skill is chosen: say what it does and when it is the right one.\n"
    "2. Below that, tell the steps in the order in which they are done, with the commands as they are typed.\n"
    "3. What is long goes into files of its own beside it, named in SKILL.md where they are needed: programs in\n"
    "   `skills/NAME/scripts/`, texts in `skills/NAME/reference/`. There is one SKILL.md in a skill, at its root.\n"
    "4. Run every program once, and follow the steps yourself once, before you call it done.\n"
    "\n"
    "What a skill makes belongs into `files/`, not into its folder.\n";

/* It is one of the agent's public ones where the configuration has one; else it is put into the user's layer. */
static int fsb2_creator_write(struct filesecbox *call, struct err *err) {
    int code = fsb2_share(call, err);
    if (code < 0)
        return code;
    code = filesecbox_write(call, SKILL_PATH "/" NEWEST_CREATOR "/" NEWEST_FILE, creator_text, sizeof creator_text - 1,
                            NULL, err);
    filesecbox_unshare(call);
    return code;
}

static int fsb2_creator_restore(struct filesecbox *call, struct err *err) {
    enum own_status status = OWN_UNCHANGED;
    uint64_t synced_ms;
    int code = own_status(call->skills, call->box, call->agent, NEWEST_CREATOR, &status, &synced_ms, err);
    if (code == -ERR_NOT_FOUND || status != OWN_UNCHANGED)
        code = own_from_base(call->skills, call->box, call->agent, NEWEST_CREATOR, err);
    return code;
}

static int fsb2_creator_work(struct filesecbox *call, struct err *err) {
    struct base_skill found;
    int code = base_find(call->skills, call->agent, NEWEST_CREATOR, http_arena(call->request), &found, err);
    code = code >= 0 ? fsb2_creator_restore(call, err) : code == -ERR_NOT_FOUND ? fsb2_creator_write(call, err) : code;
    return code < 0 ? code
                    : filesecbox_text(call->request,
                                      "Global Skill-Creator is ready. You can access it via 'skills/skill-creator'.");
}

static int fsb2_creator(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX | NEWEST_CHANGES, fsb2_creator_work, err);
}
