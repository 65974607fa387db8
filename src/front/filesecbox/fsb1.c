/* The first family of the dialect: skills below /v1/skills, the general area below /v1/sandbox; its routes and
 * handlers. Invariant: clients rely on these statuses (404 for content, 500 for the rest) and these texts. */
#include "front/filesecbox/filesecbox.h"

#include <jansson.h>

#include "skill/command.h"
#include "skill/lines.h"
#include "skill/own/own.h"

#define SKILLS "/v1/skills/{user}/{agent}"
#define SANDBOX "/v1/sandbox/{user}/{agent}"
#define PRODUCT "/webIde/product"
#define RANGE                                                                                                          \
    FILESECBOX_LINE("start", first, "first line, from 1"), FILESECBOX_LINE("end", second, "last line, included")

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

#define ROUTE(work, needs, status, prefix, ...)                                                                        \
    FILESECBOX_ROUTE(work, needs, status, prefix, .answer = filesecbox_answer, ##__VA_ARGS__)

/* ---- roots ---- */

/* Finds the folder of the skill in the path, as the user sees it, which must not be a link; or the general area. */
static int fsb1_root(struct filesecbox *call, bool must, const char **ret_root, struct err *err) {
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

/* Names directly below the area that do not belong to it, because they show skills. */
static const char *const *fsb1_area_skip(struct filesecbox *call) {
    const char *const *paths = skills_settings(call->skills)->paths, *workspace = filesecbox_workspace(call);
    size_t count = 0, cap = 0, len = strlen(workspace);
    struct arena *arena = http_arena(call->request);
    const char **skip = NULL;
    arena_add(arena, skip, count, cap) = ".skills";
    arena_add(arena, skip, count, cap) = ".agents";
    for (; paths && *paths; paths++)
        if (!strncmp(*paths, workspace, len) && (*paths)[len] == '/')
            arena_add(arena, skip, count, cap) = *paths + len + 1;
    arena_add(arena, skip, count, cap) = NULL;
    return skip;
}

/* Resolves the request's path below root. */
static int fsb1_path(struct filesecbox *call, const char *root, const char **ret_path, struct err *err) {
    int failed = filesecbox_path(call, root, call->args.path.data, ret_path, err);
    const char *below = failed ? "" : *ret_path + strlen(root);
    for (const char *const *name = fsb1_area_skip(call); !failed && !call->skill && *name; name++) {
        size_t len = strlen(*name);
        if (below[0] == '/' && !strncmp(below + 1, *name, len) && (!below[len + 1] || below[len + 1] == '/'))
            failed = err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
    }
    return failed;
}

/* ---- reading ---- */

static int fsb1_files(struct filesecbox *call, struct err *err) {
    const char *root, **paths;
    size_t count;
    return fsb1_root(call, true, &root, err)
               ?: filesecbox_files(call, root, root, call->skill ? NULL : fsb1_area_skip(call), &paths, &count, err)
               ?: filesecbox_paths(call, NULL, paths, count, err);
}

static int fsb1_content(struct filesecbox *call, struct err *err) {
    const char *root, *path;
    return fsb1_root(call, true, &root, err) ?: fsb1_path(call, root, &path, err)
               ?: filesecbox_content(call, path, err);
}

/* ---- editing ---- */

struct fsb1_edit_body {
    char *text;
    size_t len;
    struct lines_range range;
};

static int fsb1_edit_change(void *user, const char *text, size_t len, struct buf *out, struct err *err) {
    const struct fsb1_edit_body *body = user;
    if (body->range.has_start || body->range.has_end)
        return lines_replace(text, len, body->text, body->len, &body->range, out, err);
    buf_put(out, body->text, body->len);
    return 0;
}

static int fsb1_edit_own(struct filesecbox *call, struct fsb1_edit_body *body, struct err *err) {
    const char *root = NULL, *path;
    STEP(filesecbox_share(call, err) ?: fsb1_root(call, false, &root, err) ?: fsb1_path(call, root, &path, err));
    if (!strcmp(path, root))
        return err_set(err, ERR_INVALID, "'path' does not name a file");
    if (call->skill)
        own_touched(call->skills, call->box, call->skill);
    if (body->range.has_start || body->range.has_end)
        return filesecbox_change(call, path, true, fsb1_edit_change, body, err);
    return filesecbox_write(call, path, body->text, body->len, err);
}

static int fsb1_edit(struct filesecbox *call, struct err *err) {
    struct http_request *request = call->request;
    const struct row_number *first = &call->args.first, *last = &call->args.second;
    struct fsb1_edit_body body = {.range = {.has_start = first->has,
                                            .has_end = last->has,
                                            .start = (int64_t)first->value,
                                            .end = (int64_t)last->value}};
    const char *path = call->args.path.data;
    int scope = call->skill ? filesecbox_scope(call, NULL, false, err) : SCOPE_OVERLAY;
    int failed = scope < 0 ? scope : http_body_all(request, LIMIT_EDIT_BYTES, &body.text, &body.len, err);
    STEP(filesecbox_form(call, failed, err));
    trail_quote(request, call->skill ? arena_printf(http_arena(request), "%s/%s", call->skill, path) : path);
    trail_running(request);
    if (scope == SCOPE_BASELINE) {
        failed = base_edit(call->skills, call->agent, call->skill, path, fsb1_edit_change, &body, err);
        if (failed == -ERR_NOT_FOUND)
            failed = err_set(err, ERR_NOT_FOUND, "Skill not found.");
    } else {
        failed = fsb1_edit_own(call, &body, err);
    }
    return failed
               ?: filesecbox_text(call,
                                  call->skill ? "File updated successfully." : "Sandbox file updated successfully.");
}

/* ---- commands ---- */

/* ?command= with an array of arguments as the body, or {"command"}, a line that is split into words. */
static int fsb1_argv(struct filesecbox *call, const char ***ret_argv, struct err *err) {
    static const struct row line_rows[] = {
        FILESECBOX_TEXT("command", command, ROW_REQUIRED, "?command=, or {\"command\":\"...\"}"),
        {.name = NULL, .flags = ROW_LENIENT}};
    static const struct row list_rows[] = {{.name = "arguments", .type = ROW_TEXTS, .max = LIMIT_JSON_VALUES}, {0}};
    struct arena *arena = http_arena(call->request);
    const char **arguments = NULL, *command = call->args.command.data;
    size_t count = 0, len;
    char *data;
    STEP(http_body_all(call->request, LIMIT_JSON_BYTES, &data, &len, err));
    if (!command) {
        STEP(rows_parse(data, len, line_rows, arena, &call->args, err));
        *ret_argv = command_split(arena, call->args.command.data, &count);
        return count > LIMIT_ARGV_COUNT ? err_set(err, ERR_TOO_LARGE, "more than %u words", LIMIT_ARGV_COUNT) : 0;
    }
    if (len) {
        json_t *root;
        STEP(rows_load(data, len, &root, err));
        json_t *body = json_pack("{so}", "arguments", root);
        int failed = rows_bind(body, list_rows, arena, &arguments, err);
        json_decref(body);
        STEP(failed);
    }
    while (arguments && arguments[count])
        count++;
    if (count >= LIMIT_ARGV_COUNT)
        return err_set(err, ERR_TOO_LARGE, "more than %u arguments", LIMIT_ARGV_COUNT - 1);
    const char **argv = *ret_argv = arena_alloc(arena, (count + 2) * sizeof *argv);
    argv[0] = command;
    if (count)
        memcpy(argv + 1, arguments, count * sizeof *argv);
    return 0;
}

/* Maps the paths under which the original service keeps the same files, since clients send them; then applies the rules
 * for commands. */
static int fsb1_argv_check(struct filesecbox *call, const char **argv, const char *cwd, struct err *err) {
    const struct skill_settings *settings = skills_settings(call->skills);
    const char *const *paths = settings->paths;
    struct arena *arena = http_arena(call->request);
    const char *from[] = {arena_printf(arena, PRODUCT "/sandbox/%s/%s", call->user, call->agent), NULL, NULL};
    size_t count = 0, cap = 0;
    const char **roots = NULL;
    if (call->skill) {
        from[0] = arena_printf(arena, PRODUCT "/skill/overlay/%s/%s/%s", call->user, call->agent, call->skill);
        from[1] = arena_printf(arena, PRODUCT "/skill/baseline/%s/%s", call->agent, call->skill);
    }
    for (const char **arg = argv; *arg && *++arg;)
        for (const char **path = from; *path; path++)
            *arg = command_map_arg(arena, *arg, *path, cwd);
    arena_add(arena, roots, count, cap) = cwd;
    for (; call->skill && paths && *paths; paths++)
        arena_add(arena, roots, count, cap) = arena_printf(arena, "%s/%s", *paths, call->skill);
    arena_add(arena, roots, count, cap) = NULL;
    int failed = command_check(argv[0] ? argv[0] : "", settings->commands, err);
    return failed ? failed : command_check_args((const char *const *)argv + 1, roots, err);
}

static int fsb1_execute(struct filesecbox *call, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const char **argv = NULL;
    STEP(filesecbox_form(call, fsb1_argv(call, &argv, err), err));
    autobuf quoted = buf_max(4096); /* more than a row of the audit log holds */
    for (const char **arg = argv; *arg && quoted.len < 3000; arg++)
        buf_printf(&quoted, "%s%.1000s", arg == argv ? "" : " ", *arg);
    trail_quote(call->request, buf_cstr(&quoted));
    STEP(filesecbox_box(call, err));
    const char *cwd = call->skill ? arena_printf(arena, SKILL_PATH "/%s", call->skill) : filesecbox_workspace(call);
    TRY(fsb1_argv_check(call, argv, cwd, err));
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

/* ---- routes ---- */

const struct route filesecbox_routes[] = {
    {"POST", SKILLS "/upload", front_handle, 0, "filesecbox_upload",
     "The skills of a ZIP replace those of the same names, each whole or not at all. skill_dialect: newest: those "
     "of the agent's base.",
     ROUTE(filesecbox_upload, FILESECBOX_EITHER, 500, "Upload failed: ", .query = upload_query,
           .body_media = "multipart/form-data")},
    {"GET", SKILLS "/list", front_handle, 0, "filesecbox_list", "The agent's skills as the user sees them.",
     ROUTE(filesecbox_list, FILESECBOX_SHARE | FILESECBOX_EITHER, 500, NULL)},
    {"GET", SKILLS "/{skill}/files", front_handle, 0, "filesecbox_files", "Every file of a skill, at any depth.",
     ROUTE(fsb1_files, FILESECBOX_SHARE, 500, NULL)},
    {"GET", SKILLS "/{skill}/content", front_handle, 0, "filesecbox_content",
     "A text of a skill; with start and end those lines as an array.",
     ROUTE(fsb1_content, FILESECBOX_SHARE, 404, NULL, .query = content_query)},
    {"POST", SKILLS "/{skill}/execute", front_handle, 0, "filesecbox_execute",
     "Run an allowed command in the skill's folder: ?command= with an array of arguments, or {\"command\"}.",
     ROUTE(fsb1_execute, 0, 500, "", .query = execute_query, .body_media = "application/json")},
    {"PUT", SKILLS "/{skill}/edit", front_handle, 0, "filesecbox_edit",
     "Write a file of a skill for this user, or replace lines of it. scope=baseline: for all users.",
     ROUTE(fsb1_edit, 0, 500, "", .query = edit_query, .body_media = "text/plain")},
    {"PUT", SANDBOX "/edit", front_handle, 0, "filesecbox_area_edit",
     "Write a file of the general area, or replace lines of it.",
     ROUTE(fsb1_edit, 0, 500, "Edit failed: ", .query = edit_query, .body_media = "text/plain")},
    {"POST", SANDBOX "/execute", front_handle, 0, "filesecbox_area_execute",
     "Run an allowed command in the general area: ?command= with an array of arguments, or {\"command\"}.",
     ROUTE(fsb1_execute, 0, 500, "Execution failed: ", .query = execute_query, .body_media = "application/json")},
    {"GET", SANDBOX "/files", front_handle, 0, "filesecbox_area_files", "Every file of the general area.",
     ROUTE(fsb1_files, FILESECBOX_SHARE, 500, "")},
    {"GET", SANDBOX "/content", front_handle, 0, "filesecbox_area_content",
     "A text of the general area; with start and end those lines as an array.",
     ROUTE(fsb1_content, FILESECBOX_SHARE, 404, NULL, .query = content_query)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
