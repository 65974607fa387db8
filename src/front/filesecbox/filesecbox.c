/* The first family of the dialect: skills below /v1/skills, the general area below /v1/sandbox; its route table and handlers.
 * Invariant: what its clients look at are these statuses (404 of content, 500 of the rest) and these words. */
#include "front/filesecbox/filesecbox.h"

#include <jansson.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/trail.h"
#include "skill/command.h"
#include "skill/lines.h"
#include "skill/own/own.h"

#define SKILLS "/v1/skills/{user}/{agent}"
#define SANDBOX "/v1/sandbox/{user}/{agent}"
#define PRODUCT "/webIde/product"
#define RANGE                                                                                                          \
    FILESECBOX_TEXT("start", start, 0, "first line, from 1"), FILESECBOX_TEXT("end", end, 0, "last line, included")

static const struct row upload_query[] = {
    FILESECBOX_TEXT("scope", scope, 0, "overlay (the user's own, the default) or baseline (all users'; for admins)"),
    {.name = NULL}};
static const struct row content_query[] = {
    FILESECBOX_TEXT("path", path, ROW_REQUIRED, "below the skill or the area"), RANGE, {.name = NULL}};
static const struct row edit_query[] = {
    FILESECBOX_TEXT("path", path, ROW_REQUIRED, "below the skill or the area"),
    RANGE,
    FILESECBOX_TEXT("scope", scope, 0, "overlay (for this user, the default) or baseline (for all; for admins)"),
    {.name = NULL}};
static const struct row execute_query[] = {
    FILESECBOX_TEXT("command", command, 0, "one of the allowed ones; its arguments are the body, an array of texts"),
    {.name = NULL}};

static int list(struct filesecbox *call, struct err *err);
static int files(struct filesecbox *call, struct err *err);
static int content(struct filesecbox *call, struct err *err);
static int edit(struct filesecbox *call, struct err *err);
static int execute(struct filesecbox *call, struct err *err);

#define ROUTE(work, needs, status, prefix, ...)                                                                        \
    FILESECBOX_ROUTE(work, needs, status, prefix, .answer = filesecbox_answer, ##__VA_ARGS__)

const struct route filesecbox_routes[] = {
    {"POST", SKILLS "/upload", front_handle, 0, "filesecbox_upload",
     "The skills of a ZIP replace those of the same names, each whole or not at all. skill_dialect: newest: those of the "
     "agent's base.",
     ROUTE(filesecbox_upload, FILESECBOX_EITHER, 500, "Upload failed: ", .query = upload_query,
           .body_media = "multipart/form-data")},
    {"GET", SKILLS "/list", front_handle, 0, "filesecbox_list", "The agent's skills as the user sees them.",
     ROUTE(list, FILESECBOX_SHARE | FILESECBOX_EITHER, 500, NULL)},
    {"GET", SKILLS "/{skill}/files", front_handle, 0, "filesecbox_files", "Every file of a skill, at any depth.",
     ROUTE(files, FILESECBOX_SHARE, 500, NULL)},
    {"GET", SKILLS "/{skill}/content", front_handle, 0, "filesecbox_content",
     "A text of a skill; with start and end those lines as an array.",
     ROUTE(content, FILESECBOX_SHARE, 404, NULL, .query = content_query)},
    {"POST", SKILLS "/{skill}/execute", front_handle, 0, "filesecbox_execute",
     "Run an allowed command in the skill's folder: ?command= with an array of arguments, or {\"command\"}.",
     ROUTE(execute, 0, 500, "", .query = execute_query, .body_media = "application/json")},
    {"PUT", SKILLS "/{skill}/edit", front_handle, 0, "filesecbox_edit",
     "Write a file of a skill for this user, or replace lines of it. scope=baseline: for all users.",
     ROUTE(edit, 0, 500, "", .query = edit_query, .body_media = "text/plain")},
    {"PUT", SANDBOX "/edit", front_handle, 0, "filesecbox_area_edit",
     "Write a file of the general area, or replace lines of it.",
     ROUTE(edit, 0, 500, "Edit failed: ", .query = edit_query, .body_media = "text/plain")},
    {"POST", SANDBOX "/execute", front_handle, 0, "filesecbox_area_execute",
     "Run an allowed command in the general area: ?command= with an array of arguments, or {\"command\"}.",
     ROUTE(execute, 0, 500, "Execution failed: ", .query = execute_query, .body_media = "application/json")},
    {"GET", SANDBOX "/files", front_handle, 0, "filesecbox_area_files", "Every file of the general area.",
     ROUTE(files, FILESECBOX_SHARE, 500, "")},
    {"GET", SANDBOX "/content", front_handle, 0, "filesecbox_area_content",
     "A text of the general area; with start and end those lines as an array.",
     ROUTE(content, FILESECBOX_SHARE, 404, NULL, .query = content_query)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- where ---- */

/* The folder of the skill of the path, as the user sees it, and not a link to something else; or the general area. */
static int root_of(struct filesecbox *call, bool must, const char **ret_root, struct err *err) {
    struct file_stat stat = {0};
    if (!call->skill) {
        *ret_root = filesecbox_workspace(call);
        return 0;
    }
    *ret_root = arena_printf(http_arena(call->request), SKILL_PATH "/%s", call->skill);
    int failed = filesecbox_stat(call, *ret_root, &stat, err);
    if (failed == -ERR_NOT_FOUND && !must)
        return 0;
    if (failed == -ERR_NOT_FOUND || (!failed && stat.type != FILE_DIR))
        return err_set(err, ERR_NOT_FOUND, "Skill not found.");
    return failed;
}

/* Names directly below the area that are not part of it: skills are seen there. */
static const char *const *area_skip(struct filesecbox *call) {
    const char *const *paths = skills_settings(call->skills)->paths, *workspace = filesecbox_workspace(call);
    size_t count = 0, len = strlen(workspace);
    while (paths && paths[count])
        count++;
    const char **skip = arena_alloc(http_arena(call->request), (count + 3) * sizeof *skip);
    size_t n = 0;
    skip[n++] = ".skills";
    skip[n++] = ".agents";
    for (size_t i = 0; i < count; i++)
        if (!strncmp(paths[i], workspace, len) && paths[i][len] == '/')
            skip[n++] = paths[i] + len + 1;
    return skip;
}

/* The request's path below root, resolved. */
static int path_of(struct filesecbox *call, const char *root, const char **ret_path, struct err *err) {
    int failed = filesecbox_path(call, root, call->args.path.data, ret_path, err);
    if (failed || call->skill)
        return failed;
    const char *below = *ret_path + strlen(root);
    for (const char *const *name = area_skip(call); *name; name++) {
        size_t len = strlen(*name);
        if (below[0] == '/' && !strncmp(below + 1, *name, len) && (!below[len + 1] || below[len + 1] == '/'))
            return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
    }
    return 0;
}

/* ---- lists ---- */

static int list(struct filesecbox *call, struct err *err) {
    struct filesecbox_skill *skills;
    size_t count;
    bool newest = skills_settings(call->skills)->newest;
    int failed = filesecbox_skills(call, &skills, &count, err);
    if (failed)
        return failed;
    autoanswer body;
    filesecbox_open(&body, call);
    json_open(&body.json, '[');
    for (size_t i = 0; i < count; i++) {
        if (newest && !skills[i].has_skill_md)
            continue;
        json_open(&body.json, '{');
        json_put_str(&body.json, "name", skills[i].name);
        json_put_str(&body.json, "description",
                     skills[i].described ? skills[i].description
                     : newest            ? "No description."
                                         : "No description available.");
        json_put_str(&body.json, "skillId", skills[i].id);
        json_close(&body.json, '}');
        answer_spill(&body);
    }
    json_close(&body.json, ']');
    return filesecbox_close(&body, 0, err);
}

static int files(struct filesecbox *call, struct err *err) {
    const char *root, **paths;
    size_t count;
    int failed = root_of(call, true, &root, err);
    if (!failed)
        failed = filesecbox_files(call, root, root, call->skill ? NULL : area_skip(call), &paths, &count, err);
    if (failed)
        return failed;
    autoanswer body;
    filesecbox_open(&body, call);
    json_open(&body.json, '[');
    for (size_t i = 0; i < count; i++) {
        json_str(&body.json, paths[i]);
        answer_spill(&body);
    }
    json_close(&body.json, ']');
    return filesecbox_close(&body, 0, err);
}

/* ---- content ---- */

static int range_args(struct filesecbox *call, struct lines_range *ret_range, struct err *err) {
    int failed = filesecbox_int("start", &call->args.start, &ret_range->has_start, &ret_range->start, err);
    return failed ? failed : filesecbox_int("end", &call->args.end, &ret_range->has_end, &ret_range->end, err);
}

static void content_lines(struct answer *body, const struct lines_range *range, const char *text, size_t len) {
    struct lines lines = {text, text + len};
    const char *line;
    size_t line_len;
    json_open(&body->json, '[');
    for (int64_t number = 1; number <= range->end && lines_next(&lines, &line, &line_len); number++)
        if (number >= range->start)
            answer_long(body, (const uint8_t *)line, line_len, true);
    json_close(&body->json, ']');
}

static int content(struct filesecbox *call, struct err *err) {
    struct lines_range range = {0};
    const char *path, *root;
    char *text;
    size_t len;
    int failed = filesecbox_form(call, range_args(call, &range, err), err);
    if (!failed)
        failed = root_of(call, true, &root, err);
    if (!failed)
        failed = path_of(call, root, &path, err);
    if (!failed)
        failed = filesecbox_read(call, path, &text, &len, NULL, err);
    if (!failed && !text_utf8(text, len))
        failed = err_set(err, ERR_INVALID, "the file is not UTF-8");
    if (failed)
        return failed;
    autoanswer body;
    filesecbox_open(&body, call);
    json_open(&body.json, '{');
    json_key(&body.json, "content");
    if (range.has_start && range.has_end)
        content_lines(&body, &range, text, len);
    else
        answer_long(&body, (const uint8_t *)text, len, true);
    json_close(&body.json, '}');
    return filesecbox_close(&body, 0, err);
}

/* ---- editing ---- */

struct edit_body {
    char *text;
    size_t len;
    struct lines_range range;
};

static int edit_change(void *user, const char *text, size_t len, struct buf *out, struct err *err) {
    const struct edit_body *body = user;
    if (body->range.has_start || body->range.has_end)
        return lines_replace(text, len, body->text, body->len, &body->range, out, err);
    buf_put(out, body->text, body->len);
    return 0;
}

static int edit_run(struct filesecbox *call, struct edit_body *body, struct err *err) {
    const char *root = NULL, *path;
    int failed = filesecbox_share(call, err);
    if (!failed)
        failed = root_of(call, false, &root, err);
    if (!failed)
        failed = path_of(call, root, &path, err);
    if (!failed && !strcmp(path, root))
        failed = err_set(err, ERR_INVALID, "'path' names no file");
    if (failed)
        return failed;
    if (call->skill)
        own_touched(call->skills, call->box, call->skill);
    if (body->range.has_start || body->range.has_end)
        return filesecbox_change(call, path, true, edit_change, body, err);
    return filesecbox_write(call, path, body->text, body->len, NULL, err);
}

/* For all users. */
static int edit_base(struct filesecbox *call, struct edit_body *body, struct err *err) {
    int failed = base_edit(call->skills, call->agent, call->skill, call->args.path.data, edit_change, body, err);
    return failed == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "Skill not found.") : failed;
}

static int edit(struct filesecbox *call, struct err *err) {
    struct http_request *request = call->request;
    struct edit_body body = {0};
    const char *path = call->args.path.data;
    int scope = SCOPE_OVERLAY, failed = range_args(call, &body.range, err);
    if (!failed && call->skill)
        scope = failed = filesecbox_scope(call, NULL, false, err);
    if (failed >= 0)
        failed = http_body_all(request, LIMIT_EDIT_BYTES, &body.text, &body.len, err);
    if (failed < 0)
        return filesecbox_form(call, failed, err);
    trail_quote(request, call->skill ? arena_printf(http_arena(request), "%s/%s", call->skill, path) : path);
    trail_running(request);
    failed = scope == SCOPE_BASELINE ? edit_base(call, &body, err) : edit_run(call, &body, err);
    if (failed)
        return failed;
    return filesecbox_text(call, call->skill ? "File updated successfully." : "Sandbox file updated successfully.");
}

/* ---- commands ---- */

static int argv_of_array(struct arena *arena, const char *command, const json_t *args, const char ***ret_argv,
                         struct err *err) {
    size_t count = args ? json_array_size(args) : 0;
    if (args && !json_is_array(args))
        return err_set(err, ERR_INVALID, "the body must be an array of texts: the arguments of '%.100s'", command);
    if (count >= LIMIT_ARGV_COUNT)
        return err_set(err, ERR_TOO_LARGE, "more than %u arguments", LIMIT_ARGV_COUNT - 1);
    const char **argv = arena_alloc(arena, (count + 2) * sizeof *argv);
    argv[0] = command;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(args, i);
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item))
            return err_set(err, ERR_INVALID, "argument %zu is not a text", i);
        argv[i + 1] = arena_strdup(arena, json_string_value(item));
    }
    *ret_argv = argv;
    return 0;
}

static int argv_of_line(struct arena *arena, const json_t *root, const char ***ret_argv, struct err *err) {
    const json_t *line = json_object_get(root, "command");
    size_t count;
    if (!json_is_string(line) || strlen(json_string_value(line)) != json_string_length(line))
        return err_set(err, ERR_INVALID, "the parameter 'command' is missing: ?command=, or {\"command\":\"...\"}");
    *ret_argv = command_split(arena, json_string_value(line), &count);
    if (count > LIMIT_ARGV_COUNT)
        return err_set(err, ERR_TOO_LARGE, "more than %u words", LIMIT_ARGV_COUNT);
    return 0;
}

static int execute_argv(struct filesecbox *call, const char ***ret_argv, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const char *command = call->args.command.data;
    json_t *root = NULL;
    int failed = filesecbox_json(call->request, &root, err);
    if (!failed)
        failed =
            command ? argv_of_array(arena, command, root, ret_argv, err) : argv_of_line(arena, root, ret_argv, err);
    json_decref(root);
    return failed;
}

static const char *const *execute_roots(struct filesecbox *call, const char *cwd) {
    const char *const *paths = skills_settings(call->skills)->paths;
    size_t count = 0, n = 0;
    while (call->skill && paths && paths[count])
        count++;
    const char **roots = arena_alloc(http_arena(call->request), (count + 2) * sizeof *roots);
    roots[n++] = cwd;
    for (size_t i = 0; i < count; i++)
        roots[n++] = arena_printf(http_arena(call->request), "%s/%s", paths[i], call->skill);
    return roots;
}

/* Where the service that the dialect comes from keeps what is in the box: clients know these paths and pass them. */
static void execute_map(struct filesecbox *call, const char **argv, const char *cwd) {
    struct arena *arena = http_arena(call->request);
    const char *from[] = {arena_printf(arena, PRODUCT "/sandbox/%s/%s", call->user, call->agent), NULL, NULL};
    if (call->skill) {
        from[0] = arena_printf(arena, PRODUCT "/skill/overlay/%s/%s/%s", call->user, call->agent, call->skill);
        from[1] = arena_printf(arena, PRODUCT "/skill/baseline/%s/%s", call->agent, call->skill);
    }
    for (const char **arg = argv; *arg && *++arg;)
        for (const char **path = from; *path; path++)
            *arg = command_map_arg(arena, *arg, *path, cwd);
}

static int execute_check(struct filesecbox *call, const char **argv, const char *cwd, struct err *err) {
    int failed = command_check(argv[0] ? argv[0] : "", skills_settings(call->skills)->commands, err);
    return failed ? failed : command_check_args((const char *const *)argv + 1, execute_roots(call, cwd), err);
}

/* For the audit log, whose rows hold less than this. */
static void execute_audit(struct http_request *request, const char *const *argv) {
    autobuf out = buf_max(4096);
    for (const char *const *arg = argv; *arg && out.len < 3000; arg++)
        buf_printf(&out, "%s%.1000s", arg == argv ? "" : " ", *arg);
    trail_quote(request, buf_cstr(&out));
}

static int execute(struct filesecbox *call, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const char **argv = NULL;
    int failed = filesecbox_form(call, execute_argv(call, &argv, err), err);
    if (failed)
        return failed;
    execute_audit(call->request, (const char *const *)argv);
    failed = filesecbox_box(call, err);
    if (failed)
        return failed;
    const char *cwd = call->skill ? arena_printf(arena, SKILL_PATH "/%s", call->skill) : filesecbox_workspace(call);
    execute_map(call, argv, cwd);
    failed = execute_check(call, argv, cwd, err);
    if (failed < 0)
        return failed;
    uint64_t timeout_ms = filesecbox_timeout_ms(call);
    const struct filesecbox_exec exec = {
        .argv = (const char *const *)argv,
        .cwd = cwd,
        .timeout_text = timeout_ms == 300000 ? "Execution timed out after 5 minutes."
                                             : arena_printf(arena, "Execution timed out after %llu seconds.",
                                                            (unsigned long long)timeout_ms / 1000),
        .missing_text = call->skill ? "Skill not found." : NULL,
    };
    return filesecbox_execute(call, &exec, err);
}
