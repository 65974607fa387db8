/* The first family of the dialect: skills below /v1/skills, the general area below /v1/sandbox; its route table and handlers.
 * Invariant: what its clients look at are these statuses (404 of content, 500 of the rest) and these words. */
#include "front/filesecbox/filesecbox.h"

#include <jansson.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/filesecbox/seed.h"
#include "front/trail.h"
#include "skill/command.h"
#include "skill/lines.h"
#include "skill/own/own.h"

#define SKILLS "/v1/skills/{user}/{agent}"
#define SANDBOX "/v1/sandbox/{user}/{agent}"
#define PRODUCT "/webIde/product"
#define TEXT(member, required, sentence)                                                                               \
    { .name = member, .type = ROW_TEXT, .flags = (required) ? ROW_REQUIRED : 0, .text = sentence }
#define RANGE TEXT("start", false, "first line, from 1"), TEXT("end", false, "last line, included")

static const struct row upload_query[] = {
    TEXT("scope", false, "overlay (the user's own, the default) or baseline (all users'; for admins)"), {.name = NULL}};
static const struct row content_query[] = {TEXT("path", true, "below the skill or the area"), RANGE, {.name = NULL}};
static const struct row edit_query[] = {
    TEXT("path", true, "below the skill or the area"),
    RANGE,
    TEXT("scope", false, "overlay (for this user, the default) or baseline (for all; for admins)"),
    {.name = NULL}};
static const struct row execute_query[] = {
    TEXT("command", false, "one of the allowed ones; its arguments are the body, an array of texts"), {.name = NULL}};
static const struct row answer[] = {
    {.name = "status", .type = ROW_TEXT, .choices = "success|error", .text = "whether it worked"},
    {.name = "data", .type = ROW_OBJECT, .flags = ROW_NULLABLE, .text = "of any type: what was asked for, or why not"},
    {.name = NULL},
};

static int list(struct http_request *request, struct box *unused, struct err *err);
static int skill_files(struct http_request *request, struct box *unused, struct err *err);
static int skill_content(struct http_request *request, struct box *unused, struct err *err);
static int skill_execute(struct http_request *request, struct box *unused, struct err *err);
static int skill_edit(struct http_request *request, struct box *unused, struct err *err);
static int area_edit(struct http_request *request, struct box *unused, struct err *err);
static int area_execute(struct http_request *request, struct box *unused, struct err *err);
static int area_files(struct http_request *request, struct box *unused, struct err *err);
static int area_content(struct http_request *request, struct box *unused, struct err *err);

#define ROW(...) FILESECBOX_ENDPOINT(.flags = FILESECBOX_FLAGS, .answer = answer, __VA_ARGS__)

const struct route filesecbox_routes[] = {
    {"POST", SKILLS "/upload", front_handle, 0, "filesecbox_upload",
     "The skills of a ZIP replace those of the same names, each whole or not at all. skill_dialect: newest: those of the "
     "agent's base.",
     ROW(.run = filesecbox_upload, .query = upload_query, .body_media = "multipart/form-data")},
    {"GET", SKILLS "/list", front_handle, 0, "filesecbox_list", "The agent's skills as the user sees them.",
     ROW(.run = list)},
    {"GET", SKILLS "/{skill}/files", front_handle, 0, "filesecbox_files", "Every file of a skill, at any depth.",
     ROW(.run = skill_files)},
    {"GET", SKILLS "/{skill}/content", front_handle, 0, "filesecbox_content",
     "A text of a skill; with start and end those lines as an array.",
     ROW(.run = skill_content, .query = content_query)},
    {"POST", SKILLS "/{skill}/execute", front_handle, 0, "filesecbox_execute",
     "Run an allowed command in the skill's folder: ?command= with an array of arguments, or {\"command\"}.",
     ROW(.run = skill_execute, .query = execute_query, .body_media = "application/json")},
    {"PUT", SKILLS "/{skill}/edit", front_handle, 0, "filesecbox_edit",
     "Write a file of a skill for this user, or replace lines of it. scope=baseline: for all users.",
     ROW(.run = skill_edit, .query = edit_query, .body_media = "text/plain")},
    {"PUT", SANDBOX "/edit", front_handle, 0, "filesecbox_area_edit",
     "Write a file of the general area, or replace lines of it.",
     ROW(.run = area_edit, .query = edit_query, .body_media = "text/plain")},
    {"POST", SANDBOX "/execute", front_handle, 0, "filesecbox_area_execute",
     "Run an allowed command in the general area: ?command= with an array of arguments, or {\"command\"}.",
     ROW(.run = area_execute, .query = execute_query, .body_media = "application/json")},
    {"GET", SANDBOX "/files", front_handle, 0, "filesecbox_area_files", "Every file of the general area.",
     ROW(.run = area_files)},
    {"GET", SANDBOX "/content", front_handle, 0, "filesecbox_area_content",
     "A text of the general area; with start and end those lines as an array.",
     ROW(.run = area_content, .query = content_query)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- where ---- */

/* The folder of the skill of the path: of the user's view, and not a link to something else. */
static int skill_root(struct filesecbox *call, bool must, const char **ret_root, struct err *err) {
    const char *root = arena_printf(http_arena(call->request), SKILL_PATH "/%s", call->skill);
    struct file_stat stat = {0};
    int failed = filesecbox_stat(call, root, &stat, err);
    if (failed == -ERR_NOT_FOUND && !must)
        failed = 0;
    else if (failed == -ERR_NOT_FOUND || (!failed && stat.type != FILE_DIR))
        failed = err_set(err, ERR_NOT_FOUND, "Skill not found.");
    if (!failed)
        *ret_root = root;
    return failed;
}

/* ---- lists ---- */

static int list(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autofilesecbox call;
    struct filesecbox_skill *skills;
    size_t count;
    int failed = filesecbox_begin(request, &call, err);
    if (failed)
        return failed;
    bool newest = skills_settings(call.skills)->newest;
    failed = filesecbox_skills(&call, &skills, &count, err);
    if (failed)
        return filesecbox_fail(request, newest ? 200 : 500, newest ? "" : NULL, err);
    filesecbox_unshare(&call);
    autoanswer body;
    filesecbox_open(&body, request);
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

static int files_answer(struct filesecbox *call, const char *root, const char *const *skip, const char *prefix,
                        struct err *err) {
    const char **paths;
    size_t count;
    int failed = filesecbox_files(call, root, root, skip, &paths, &count, err);
    if (failed)
        return filesecbox_fail(call->request, 500, prefix, err);
    filesecbox_unshare(call);
    autoanswer body;
    filesecbox_open(&body, call->request);
    json_open(&body.json, '[');
    for (size_t i = 0; i < count; i++) {
        json_str(&body.json, paths[i]);
        answer_spill(&body);
    }
    json_close(&body.json, ']');
    return filesecbox_close(&body, 0, err);
}

static int skill_files(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autofilesecbox call;
    const char *root;
    int failed = filesecbox_begin(request, &call, err);
    if (failed)
        return failed;
    failed = filesecbox_share(&call, err);
    if (!failed)
        failed = skill_root(&call, true, &root, err);
    return failed ? filesecbox_fail(request, 500, NULL, err) : files_answer(&call, root, NULL, NULL, err);
}

/* Skills are no part of the area, though they are seen in it. */
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

/* The same for a path that was made plain. */
static int area_check(struct filesecbox *call, const char *path, struct err *err) {
    const char *below = path + strlen(filesecbox_workspace(call));
    for (const char *const *name = area_skip(call); *name; name++) {
        size_t len = strlen(*name);
        if (below[0] == '/' && !strncmp(below + 1, *name, len) && (!below[len + 1] || below[len + 1] == '/'))
            return err_set(err, ERR_INVALID, "Security Error: Access out of scope.");
    }
    return 0;
}

static int area_files(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autofilesecbox call;
    int failed = filesecbox_begin(request, &call, err);
    if (failed)
        return failed;
    failed = filesecbox_share(&call, err);
    return failed ? filesecbox_fail(request, 500, "", err)
                  : files_answer(&call, filesecbox_workspace(&call), area_skip(&call), "", err);
}

/* ---- content ---- */

static int range_args(struct http_request *request, struct lines_range *ret_range, struct err *err) {
    int failed = filesecbox_int(request, "start", &ret_range->has_start, &ret_range->start, err);
    return failed ? failed : filesecbox_int(request, "end", &ret_range->has_end, &ret_range->end, err);
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

static int content_answer(struct filesecbox *call, const char *root, const char *path, const struct lines_range *range,
                          struct err *err) {
    char *text;
    size_t len;
    int failed = filesecbox_path(call, root, path, &path, err);
    if (!failed && !call->skill)
        failed = area_check(call, path, err);
    if (!failed)
        failed = filesecbox_read(call, path, &text, &len, NULL, err);
    if (!failed && !text_utf8(text, len))
        failed = err_set(err, ERR_INVALID, "the file is not UTF-8");
    if (failed)
        return filesecbox_fail(call->request, 404, NULL, err);
    filesecbox_unshare(call);
    autoanswer body;
    filesecbox_open(&body, call->request);
    json_open(&body.json, '{');
    json_key(&body.json, "content");
    if (range->has_start && range->has_end)
        content_lines(&body, range, text, len);
    else
        answer_long(&body, (const uint8_t *)text, len, true);
    json_close(&body.json, '}');
    return filesecbox_close(&body, 0, err);
}

static int content(struct http_request *request, bool of_skill, struct err *err) {
    autofilesecbox call;
    struct lines_range range = {0};
    const char *path, *root;
    int failed = filesecbox_begin(request, &call, err);
    if (!failed)
        failed = filesecbox_need(request, "path", &path, err);
    if (!failed)
        failed = range_args(request, &range, err);
    if (failed)
        return failed;
    failed = filesecbox_share(&call, err);
    if (!failed && of_skill)
        failed = skill_root(&call, true, &root, err);
    else if (!failed)
        root = filesecbox_workspace(&call);
    return failed ? filesecbox_fail(request, 404, NULL, err) : content_answer(&call, root, path, &range, err);
}

static int skill_content(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return content(request, true, err);
}

static int area_content(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return content(request, false, err);
}

/* ---- editing ---- */

struct edit_body {
    char *text;
    size_t len;
    struct lines_range range;
};

/* What a command makes of the file meanwhile is not overwritten: the lines are found again in it. */
static int edit_lines_try(struct filesecbox *call, const char *path, const struct edit_body *body, struct err *err) {
    for (int attempt = 0;; attempt++) {
        struct filesecbox_version version;
        char *text = "";
        size_t len = 0;
        int failed = filesecbox_read(call, path, &text, &len, &version, err);
        if (failed && failed != -ERR_NOT_FOUND)
            return failed;
        autobuf out = buf_max(LIMIT_EDIT_BYTES);
        failed = lines_replace(text, len, body->text, body->len, &body->range, &out, err);
        if (!failed)
            failed = filesecbox_write(call, path, out.data, out.len, &version, err);
        if (failed != -ERR_EXISTS || attempt == 20)
            return failed;
    }
}

static int edit_lines(struct filesecbox *call, const char *path, const struct edit_body *body, struct err *err) {
    pthread_mutex_lock(&call->box->edit_lock); /* edits of a box go one after another: none fails because of another */
    int failed = edit_lines_try(call, path, body, err);
    pthread_mutex_unlock(&call->box->edit_lock);
    return failed;
}

static int edit_run(struct filesecbox *call, bool of_skill, const char *path, const struct edit_body *body,
                    struct err *err) {
    const char *root = NULL;
    int failed = filesecbox_share(call, err);
    if (!failed && of_skill)
        failed = skill_root(call, false, &root, err);
    else if (!failed)
        root = filesecbox_workspace(call);
    if (!failed)
        failed = filesecbox_path(call, root, path, &path, err);
    if (!failed && !of_skill)
        failed = area_check(call, path, err);
    if (!failed && !strcmp(path, root))
        failed = err_set(err, ERR_INVALID, "'path' names no file");
    if (failed)
        return failed;
    if (of_skill)
        own_touched(call->skills, call->box, call->skill);
    if (body->range.has_start || body->range.has_end)
        return edit_lines(call, path, body, err);
    return filesecbox_write(call, path, body->text, body->len, NULL, err);
}

static int edit_change(void *user, const char *text, size_t len, struct buf *out, struct err *err) {
    const struct edit_body *body = user;
    if (body->range.has_start || body->range.has_end)
        return lines_replace(text, len, body->text, body->len, &body->range, out, err);
    buf_put(out, body->text, body->len);
    return 0;
}

/* For all users. */
static int edit_base(struct filesecbox *call, const char *path, struct edit_body *body, struct err *err) {
    int failed = base_edit(call->skills, call->agent, call->skill, path, edit_change, body, err);
    return failed == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "Skill not found.") : failed;
}

static int edit(struct http_request *request, bool of_skill, struct err *err) {
    autofilesecbox call;
    struct edit_body body = {0};
    const char *path;
    int failed = filesecbox_begin(request, &call, err);
    if (!failed)
        failed = filesecbox_need(request, "path", &path, err);
    if (!failed)
        failed = range_args(request, &body.range, err);
    int scope = !failed && of_skill ? filesecbox_scope(&call, NULL, false, err) : failed;
    failed = scope < 0 ? scope : http_body_all(request, LIMIT_EDIT_BYTES, &body.text, &body.len, err);
    if (failed)
        return failed;
    trail_quote(request, of_skill ? arena_printf(http_arena(request), "%s/%s", call.skill, path) : path);
    trail_running(request);
    failed = scope == SCOPE_BASELINE ? edit_base(&call, path, &body, err) : edit_run(&call, of_skill, path, &body, err);
    if (failed)
        return filesecbox_fail(request, 500, of_skill ? "" : "Edit failed: ", err);
    return filesecbox_text(request, of_skill ? "File updated successfully." : "Sandbox file updated successfully.");
}

static int skill_edit(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return edit(request, true, err);
}

static int area_edit(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return edit(request, false, err);
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

static int execute_argv(struct http_request *request, const char ***ret_argv, struct err *err) {
    struct arena *arena = http_arena(request);
    const char *command = NULL;
    json_t *root = NULL;
    int failed = http_query(request, "command", NULL) ? filesecbox_need(request, "command", &command, err) : 0;
    if (!failed)
        failed = filesecbox_json(request, &root, err);
    if (!failed)
        failed =
            command ? argv_of_array(arena, command, root, ret_argv, err) : argv_of_line(arena, root, ret_argv, err);
    json_decref(root);
    return failed;
}

static const char *const *execute_roots(struct filesecbox *call, const char *cwd, bool of_skill) {
    const char *const *paths = skills_settings(call->skills)->paths;
    size_t count = 0, n = 0;
    while (of_skill && paths && paths[count])
        count++;
    const char **roots = arena_alloc(http_arena(call->request), (count + 2) * sizeof *roots);
    roots[n++] = cwd;
    for (size_t i = 0; i < count; i++)
        roots[n++] = arena_printf(http_arena(call->request), "%s/%s", paths[i], call->skill);
    return roots;
}

/* Where the service that the dialect comes from keeps what is in the box: clients know these paths and pass them. */
static void execute_map(struct filesecbox *call, const char **argv, const char *cwd, bool of_skill) {
    struct arena *arena = http_arena(call->request);
    const char *from[] = {arena_printf(arena, PRODUCT "/sandbox/%s/%s", call->user, call->agent), NULL, NULL};
    if (of_skill) {
        from[0] = arena_printf(arena, PRODUCT "/skill/overlay/%s/%s/%s", call->user, call->agent, call->skill);
        from[1] = arena_printf(arena, PRODUCT "/skill/baseline/%s/%s", call->agent, call->skill);
    }
    for (const char **arg = argv; *arg && *++arg;)
        for (const char **path = from; *path; path++)
            *arg = command_map_arg(arena, *arg, *path, cwd);
}

static int execute_check(struct filesecbox *call, const char **argv, const char *cwd, bool of_skill, struct err *err) {
    int failed = command_check(argv[0] ? argv[0] : "", skills_settings(call->skills)->commands, err);
    return failed ? failed : command_check_args((const char *const *)argv + 1, execute_roots(call, cwd, of_skill), err);
}

/* For the audit log, whose rows hold less than this. */
static void execute_told(struct http_request *request, const char *const *argv) {
    autobuf out = buf_max(4096);
    for (const char *const *arg = argv; *arg && out.len < 3000; arg++)
        buf_printf(&out, "%s%.1000s", arg == argv ? "" : " ", *arg);
    trail_quote(request, buf_cstr(&out));
}

static int execute(struct http_request *request, bool of_skill, struct err *err) {
    autofilesecbox call;
    const char **argv = NULL, *prefix = of_skill ? "" : "Execution failed: ";
    int failed = filesecbox_begin(request, &call, err);
    if (!failed)
        failed = execute_argv(request, &argv, err);
    if (failed)
        return failed;
    execute_told(request, (const char *const *)argv);
    failed = filesecbox_box(&call, err);
    if (failed)
        return filesecbox_fail(request, 500, prefix, err);
    const char *cwd =
        of_skill ? arena_printf(http_arena(request), SKILL_PATH "/%s", call.skill) : filesecbox_workspace(&call);
    execute_map(&call, argv, cwd, of_skill);
    if (execute_check(&call, argv, cwd, of_skill, err) < 0)
        return filesecbox_fail(request, 500, prefix, err);
    uint64_t timeout_ms = filesecbox_timeout_ms(&call);
    const struct filesecbox_exec exec = {
        .argv = (const char *const *)argv,
        .cwd = cwd,
        .timeout_text = timeout_ms == 300000
                            ? "Execution timed out after 5 minutes."
                            : arena_printf(http_arena(request), "Execution timed out after %llu seconds.",
                                           (unsigned long long)timeout_ms / 1000),
        .missing_text = of_skill ? "Skill not found." : NULL,
        .status = 500,
        .prefix = prefix,
    };
    return filesecbox_execute(&call, &exec, err);
}

static int skill_execute(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return execute(request, true, err);
}

static int area_execute(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return execute(request, false, err);
}
