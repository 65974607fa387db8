/* The groups that run code: their table of routes, what they share, and of /v1/code and /v1/sandbox/packages the handlers.
 * Invariant: an interpreter that a box does not have is 501 and said so; nothing of a session's answer is trusted but
 * that it is JSON. */
#include "front/aio/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/trail.h"

#define SCRIPT_MS 30000u        /* of code_script */
#define SCRIPT_BYTES (4u << 20) /* what it may print */

struct code_args {
    struct row_text language, code, cwd, session_id;
    struct row_number timeout;
    bool stateful;
};
#define ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct code_args, member)

static const struct row code_execute_fields[] = {
    {ROW("language", TEXT, language), .flags = ROW_REQUIRED, .choices = "python|javascript", .text = "of the code"},
    {ROW("code", TEXT, code), .flags = ROW_REQUIRED | ROW_AUDITED, .max = CODE_BYTES, .text = "what is run"},
    {ROW("timeout", INT, timeout), .min = 1, .max = LIMIT_KERNEL_TIMEOUT_S, .fallback = KERNEL_TIMEOUT_S,
     .text = "seconds it may run, default 30"},
    {ROW("cwd", TEXT, cwd), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "where; default the workspace"},
    {ROW("stateful", BOOL, stateful), .text = "in a session, which has what was run in it before"},
    {ROW("session_id", TEXT, session_id), .max = KERNEL_NAME_BYTES, .text = "of that session; default a new one"},
    {.name = NULL},
};

static int code_execute(struct http_request *request, struct box *box, struct err *err);
static int code_info(struct http_request *request, struct box *box, struct err *err);
static int packages_python(struct http_request *request, struct box *box, struct err *err);
static int packages_nodejs(struct http_request *request, struct box *box, struct err *err);

const struct route aio_code_routes[] = {
    {"POST", AIO "/jupyter/execute", front_handle, 0, "aio_jupyter_execute",
     "Run Python in a session that keeps its variables; outputs as a notebook has them.",
     AIO_ENDPOINT(.run = jupyter_execute, .body = jupyter_execute_fields)},
    {"GET", AIO "/jupyter/info", front_handle, 0, "aio_jupyter_info", "Which interpreters there are for sessions.",
     AIO_ENDPOINT(.run = jupyter_info)},
    {"GET", AIO "/jupyter/sessions", front_handle, 0, "aio_jupyter_sessions", "Its sessions of Python.",
     AIO_ENDPOINT(.run = jupyter_sessions)},
    {"DELETE", AIO "/jupyter/sessions", front_handle, 0, "aio_jupyter_delete_all", "End all of them.",
     AIO_ENDPOINT(.run = jupyter_delete_all)},
    {"DELETE", AIO "/jupyter/sessions/{session_id}", front_handle, 0, "aio_jupyter_delete", "End one of them.",
     AIO_ENDPOINT(.run = jupyter_delete)},
    {"POST", AIO "/jupyter/sessions/create", front_handle, 0, "aio_jupyter_create", "Start a session of Python.",
     AIO_ENDPOINT(.run = jupyter_create, .body = jupyter_create_fields)},
    {"POST", AIO "/nodejs/execute", front_handle, 0, "aio_nodejs_execute",
     "Run JavaScript as a program of its own, or in a session that keeps its variables.",
     AIO_ENDPOINT(.run = nodejs_execute, .body = nodejs_execute_fields)},
    {"GET", AIO "/nodejs/info", front_handle, 0, "aio_nodejs_info", "Version, directories and packages of Node.js.",
     AIO_ENDPOINT(.run = nodejs_info)},
    {"POST", AIO "/nodejs/sessions", front_handle, 0, "aio_nodejs_create", "Start a session of JavaScript.",
     AIO_ENDPOINT(.run = nodejs_create, .body = nodejs_create_fields)},
    {"GET", AIO "/nodejs/sessions", front_handle, 0, "aio_nodejs_sessions", "Its sessions of JavaScript.",
     AIO_ENDPOINT(.run = nodejs_sessions)},
    {"GET", AIO "/nodejs/sessions/{session_id}", front_handle, 0, "aio_nodejs_session", "One of them.",
     AIO_ENDPOINT(.run = nodejs_session)},
    {"PATCH", AIO "/nodejs/sessions/{session_id}", front_handle, 0, "aio_nodejs_update",
     "Another directory, or another time until it ends unused.",
     AIO_ENDPOINT(.run = nodejs_update, .body = nodejs_update_fields)},
    {"DELETE", AIO "/nodejs/sessions/{session_id}", front_handle, 0, "aio_nodejs_delete", "End one of them.",
     AIO_ENDPOINT(.run = nodejs_delete)},
    {"POST", AIO "/code/execute", front_handle, 0, "aio_code_execute",
     "Run Python or JavaScript, once or in a session.", AIO_ENDPOINT(.run = code_execute, .body = code_execute_fields)},
    {"GET", AIO "/code/info", front_handle, 0, "aio_code_info", "Which of these languages the box has.",
     AIO_ENDPOINT(.run = code_info)},
    {"GET", AIO "/sandbox/packages/python", front_handle, 0, "aio_packages_python", "Installed packages of Python.",
     AIO_ENDPOINT(.run = packages_python)},
    {"GET", AIO "/sandbox/packages/nodejs", front_handle, 0, "aio_packages_nodejs", "Installed packages of Node.js.",
     AIO_ENDPOINT(.run = packages_nodejs)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- what they share ---- */

int code_directory(struct http_request *request, struct box *box, const char *member, const char *path,
                   struct err *err) {
    struct file_stat stat = {0};
    struct err why;
    if (!path)
        return 0;
    /* "/.": a link to a directory is one. */
    int failed = box_stat(box, arena_printf(http_arena(request), "%s/.", path), http_arena(request), &stat, &why);
    if (failed == -ERR_NOT_FOUND || failed == -ERR_INVALID || (!failed && stat.type != FILE_DIR))
        return err_set(err, ERR_INVALID, "%s: there is no directory '%.300s' in this box", member, path);
    if (failed)
        *err = why;
    return failed;
}

int code_name(struct http_request *request, const char *name) {
    if (!name || kernel_name_ok(name))
        return 0;
    return aio_unfit(request, "session_id", "must be 1 to 64 letters, digits or _.:@-");
}

void code_json(struct answer *answer, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        answer_raw(answer, (const uint8_t *)text, strlen(text));
    else
        json_nil(&answer->json);
    free(text);
}

void code_text_json(struct answer *answer, const struct buf *text) {
    aio_text(answer, text->data, text->len);
}

/* ---- how it went ---- */

void code_result_done(struct code_result *result) {
    json_decref(result->outputs);
    json_decref(result->count);
    buf_done(&result->texts[0]);
    buf_done(&result->texts[1]);
}

/* The members that a notebook's output has, and no others. */
static json_t *output_kept(const json_t *output) {
    static const char *const names[] = {"name",  "text",   "data",     "metadata", "execution_count",
                                        "ename", "evalue", "traceback"};
    json_t *kind = json_object_get(output, "output_type");
    if (!json_is_string(kind))
        return NULL;
    json_t *kept = json_object();
    json_object_set(kept, "output_type", kind);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(output, names[i]);
        if (value)
            json_object_set(kept, names[i], value);
    }
    return kept;
}

static void result_output(struct code_result *result, const json_t *output) {
    json_t *kept = output_kept(output);
    const char *name = json_string_value(json_object_get(output, "name"));
    json_t *text = json_object_get(output, "text");
    if (!kept)
        return;
    json_array_append_new(result->outputs, kept);
    if (name && json_is_string(text))
        buf_put(&result->texts[!strcmp(name, "stderr")], json_string_value(text), json_string_length(text));
}

static json_t *result_failure(const char *name, const char *text) {
    char line[200];
    snprintf(line, sizeof line, "%s: %s", name, text);
    return json_pack("{s:s,s:s,s:s,s:[s]}", "output_type", "error", "ename", name, "evalue", text, "traceback", line);
}

void code_result_take(struct code_result *result, struct kernel_answer *answer, uint64_t timeout_s) {
    json_t *output, *outputs = json_object_get(answer->value, "outputs");
    const char *status = json_string_value(json_object_get(answer->value, "status"));
    size_t i;
    char text[128];
    *result = (struct code_result){.outputs = json_array(), .exited = true, .exit_code = 1, .status = "error"};
    for (i = 0; i < 2; i++)
        buf_init(&result->texts[i], CODE_BYTES * 2);
    json_array_foreach(outputs, i, output) {
        result_output(result, output);
    }
    if (answer->outcome == KERNEL_DIED) {
        snprintf(text, sizeof text, "the session ended while the code ran: %s", answer->how);
        json_array_append_new(result->outputs, result_failure("DeadKernelError", text));
    } else if (answer->outcome == KERNEL_STUCK) {
        snprintf(text, sizeof text,
                 "the code did not end within %llu seconds nor when it was interrupted: its session was ended",
                 (unsigned long long)timeout_s);
        json_array_append_new(result->outputs, result_failure("TimeoutError", text));
        status = "timeout";
    }
    result->count = json_incref(json_object_get(answer->value, "execution_count"));
    if (status && !strcmp(status, "ok")) {
        result->status = "ok";
        result->exit_code = 0;
    } else if (status && !strcmp(status, "timeout")) {
        result->status = "timeout";
        result->exited = false;
    }
    json_decref(answer->value);
    answer->value = NULL;
}

static void stream_json(struct answer *answer, const char *name, const struct buf *text) {
    struct json *json = &answer->json;
    if (!text->len)
        return;
    json_open(json, '{');
    json_put_str(json, "output_type", "stream");
    json_put_str(json, "name", name);
    json_key(json, "text");
    code_text_json(answer, text);
    json_close(json, '}');
}

/* The sentence of an uncaught error in what Node.js wrote: "TypeError: bad", and the lines from there on. */
static void uncaught_json(struct answer *answer, const struct code_result *result) {
    struct json *json = &answer->json;
    const char *text = (const char *)result->texts[1].data, *end = text + result->texts[1].len, *colon = NULL, *line;
    for (line = text; line && line < end;
         line = memchr(line, '\n', (size_t)(end - line)), line = line ? line + 1 : NULL) {
        size_t len =
            strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"); /* a NUL or more stands behind */
        if (len >= 5 && (size_t)(end - line) > len + 2 && !memcmp(line + len - 5, "Error", 5) && line[len] == ':') {
            colon = line + len;
            break;
        }
    }
    const char *stop = colon ? memchr(colon, '\n', (size_t)(end - colon)) : NULL;
    if (!colon)
        return;
    stop = stop ? stop : end;
    json_open(json, '{');
    json_put_str(json, "output_type", "error");
    json_put_strn(json, "ename", line, (size_t)(colon - line));
    json_put_strn(json, "evalue", colon + 2 < stop ? colon + 2 : stop,
                  colon + 2 < stop ? (size_t)(stop - colon - 2) : 0);
    json_put_open(json, "traceback", '[');
    for (unsigned i = 0; i < 50 && line < end; i++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t len = next ? (size_t)(next - line) : (size_t)(end - line);
        if (!len)
            break;
        json_strn(json, line, len);
        line += len + 1;
    }
    json_close(json, ']');
    json_close(json, '}');
}

void code_outputs_json(struct answer *answer, const struct code_result *result) {
    size_t i;
    json_t *output;
    json_open(&answer->json, '[');
    json_array_foreach(result->outputs, i, output) {
        code_json(answer, output);
    }
    if (!result->outputs) {
        stream_json(answer, "stdout", &result->texts[0]);
        stream_json(answer, "stderr", &result->texts[1]);
        if (strcmp(result->status, "ok") != 0 && result->texts[1].len)
            uncaught_json(answer, result);
    }
    json_close(&answer->json, ']');
}

int code_in_session(struct http_request *request, struct box *box, const struct kernel_kind *kind,
                    const struct code_run *run, const char *program, bool once, struct kernel *ret_kernel,
                    struct code_result *ret_result, struct err *err) {
    const struct kernel_request wanted = {.name = run->name, .program = program, .cwd = run->cwd};
    struct kernel_answer answer;
    struct kernel kernel;
    bool created;
    int failed = code_directory(request, box, "cwd", run->cwd, err);
    if (!failed)
        failed = kernel_open(box, kind, &wanted, &kernel, &created, err);
    if (failed)
        return failed;
    failed =
        kernel_run(request, box, &kernel, run->code, run->len, created ? NULL : run->cwd, run->timeout_s, &answer, err);
    if (once)
        kernel_end(box, &kernel);
    if (failed)
        return failed;
    code_result_take(ret_result, &answer, run->timeout_s);
    *ret_kernel = kernel;
    return 0;
}

/* ---- short programs of ours ---- */

struct script_output {
    struct buf out;
    struct err *err;
};

static int script_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct script_output *output = user;
    if (stream == STREAM_STDOUT)
        buf_put(&output->out, data, len);
    return output->out.failed ? err_set(output->err, ERR_TOO_LARGE, "the list is larger than %u bytes", SCRIPT_BYTES)
                              : 0;
}

int code_script(struct http_request *request, struct box *box, const struct kernel_kind *kind, const char *script,
                json_t **ret_value, struct err *err) {
    const char *const argv[] = {kind->program, kind == &kernel_node ? "-e" : "-c", script, NULL};
    const struct exec_request exec = {.argv = argv, .timeout_ms = SCRIPT_MS};
    struct script_output output = {.err = err};
    const struct exec_sink sink = {.output = script_put, .user = &output};
    struct exec_result result = {0};
    buf_init(&output.out, SCRIPT_BYTES);
    int failed = box_exec(box, &exec, &sink, http_fd(request), &result, err);
    if (failed == -ERR_NOT_FOUND)
        failed = err_set(err, ERR_UNSUPPORTED,
                         "%s is not installed in this box: put '%s' into its template or image (Debian: package %s)",
                         kind->language, kind->program, kind->package);
    else if (!failed && (!result.exited || result.exit_code || !output.out.len))
        failed = err_set(err, ERR_IO, "%s in this box does not work: '%s -c ...' ended with %s %d", kind->language,
                         kind->program, result.exited ? "exit code" : "signal",
                         result.exited ? result.exit_code : result.signal);
    if (!failed)
        failed = rows_load((const char *)output.out.data, output.out.len, ret_value, err);
    buf_done(&output.out);
    return failed;
}

static int packages(struct http_request *request, struct box *box, const struct kernel_kind *kind, const char *script,
                    struct err *err) {
    json_t *value = NULL;
    int failed = code_script(request, box, kind, script, &value, err);
    if (failed)
        return failed;
    autoanswer answer;
    aio_open(&answer, request, NULL);
    code_json(&answer, value);
    json_decref(value);
    return aio_close(&answer, 0, err);
}

static int packages_python(struct http_request *request, struct box *box, struct err *err) {
    return packages(request, box, &kernel_python,
                    "import json\n"
                    "from importlib.metadata import distributions\n"
                    "found = {d.metadata['Name']: d.version for d in distributions() if d.metadata['Name']}\n"
                    "print(json.dumps([{'name': n, 'version': found[n]} for n in sorted(found, key=str.lower)]))\n",
                    err);
}

#define NODE_PACKAGES                                                                                                  \
    "const fs = require('fs'), path = require('path');\n"                                                              \
    "const roots = [path.resolve(process.execPath, '../../lib/node_modules'), '/usr/share/nodejs',\n"                  \
    "               '/usr/local/lib/node_modules', '/usr/lib/node_modules'];\n"                                        \
    "const found = new Map();\n"                                                                                       \
    "const read = (dir) => { try { return fs.readdirSync(dir); } catch { return []; } };\n"                            \
    "const add = (dir) => { try {\n"                                                                                   \
    "    const p = JSON.parse(fs.readFileSync(path.join(dir, 'package.json')));\n"                                     \
    "    if (p.name && p.version && !found.has(p.name)) found.set(p.name, p.version); } catch {} };\n"                 \
    "for (const root of new Set(roots)) for (const name of read(root))\n"                                              \
    "    if (name[0] === '@') read(path.join(root, name)).forEach((n) => add(path.join(root, name, n)));\n"            \
    "    else if (name[0] !== '.') add(path.join(root, name));\n"                                                      \
    "const list = [...found].sort().map(([name, version]) => ({ name, version }));\n"

static int packages_nodejs(struct http_request *request, struct box *box, struct err *err) {
    return packages(request, box, &kernel_node, NODE_PACKAGES "console.log(JSON.stringify(list));\n", err);
}

static json_t *node_facts(struct http_request *request, struct box *box, struct err *err) {
    json_t *value = NULL;
    int failed = code_script(request, box, &kernel_node,
                             NODE_PACKAGES "console.log(JSON.stringify({node: process.version, list,\n"
                                           "    npm: found.get('npm') || '', home: path.dirname(process.execPath),\n"
                                           "    root: roots.find((r) => read(r).length) || roots[0]}));\n",
                             &value, err);
    return failed ? NULL : value;
}

/* The versions that the tools tell are theirs; npm's is "" where it is not there. */
int nodejs_info(struct http_request *request, struct box *box, struct err *err) {
    json_t *facts = node_facts(request, box, err);
    if (!facts)
        return -err->code;
    const char *version = json_string_value(json_object_get(facts, "node"));
    json_t *data =
        json_pack("{s:O?,s:O?,s:[s],s:s,s:O?,s:O?,s:[],s:O?,s:n,s:[s*],s:s*}", "node_version",
                  json_object_get(facts, "node"), "npm_version", json_object_get(facts, "npm"), "supported_languages",
                  "javascript", "description", "JavaScript by the Node.js of this box, as programs or in sessions",
                  "runtime_directory", json_object_get(facts, "home"), "global_npm_directory",
                  json_object_get(facts, "root"), "runtime_packages", "global_packages", json_object_get(facts, "list"),
                  "error", "available_versions", version, "current_version", version);
    autoanswer answer;
    aio_open(&answer, request, NULL);
    code_json(&answer, data);
    json_decref(data);
    json_decref(facts);
    return aio_close(&answer, 0, err);
}

/* ---- /v1/code ---- */

static void code_traceback(struct answer *answer, const struct code_result *result) {
    size_t i;
    json_t *output, *traceback = NULL;
    json_array_foreach(result->outputs, i, output) {
        json_t *own = json_object_get(output, "traceback");
        traceback = own ? own : traceback;
    }
    json_key(&answer->json, "traceback");
    if (traceback)
        code_json(answer, traceback);
    else
        json_nil(&answer->json);
}

static int code_answer(struct http_request *request, const struct code_args *args, const struct code_result *result,
                       const char *session, struct err *err) {
    static const char *const streams[] = {"stdout", "stderr"};
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "language", args->language.data);
    json_put_str(json, "status", result->status);
    json_key(json, "outputs");
    code_outputs_json(&answer, result);
    json_key(json, "code");
    aio_text(&answer, (const uint8_t *)args->code.data, args->code.len);
    for (int i = 0; i < 2; i++) {
        json_key(json, streams[i]);
        code_text_json(&answer, &result->texts[i]);
    }
    json_key(json, "exit_code");
    if (result->exited)
        json_int(json, result->exit_code);
    else
        json_nil(json);
    code_traceback(&answer, result);
    json_put_str(json, "session_id", session);
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

static int code_execute(struct http_request *request, struct box *box, struct err *err) {
    struct code_args args = {0};
    autoresult result = {0};
    struct kernel kernel = {0};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = code_name(request, args.session_id.data);
    if (failed)
        return failed;
    bool python = !strcmp(args.language.data, "python"), stateful = args.stateful || args.session_id.data;
    const struct code_run run = {.code = args.code.data,
                                 .len = args.code.len,
                                 .cwd = args.cwd.data,
                                 .name = args.session_id.data,
                                 .timeout_s = args.timeout.value};
    if (!python && !stateful)
        failed = nodejs_program(request, box, &run, NULL, 0, &result, err);
    else
        failed = code_in_session(request, box, python ? &kernel_python : &kernel_node, &run, NULL, !stateful, &kernel,
                                 &result, err);
    return failed ? failed : code_answer(request, &args, &result, stateful ? kernel.name : NULL, err);
}

static void language_json(struct json *json, const char *language, const char *text, const char *version) {
    json_open(json, '{');
    json_put_str(json, "language", language);
    json_put_str(json, "description", text);
    json_put_str(json, "runtime_version", version);
    json_put_uint(json, "default_timeout", KERNEL_TIMEOUT_S);
    json_put_uint(json, "max_timeout", LIMIT_KERNEL_TIMEOUT_S);
    json_put_open(json, "details", '{');
    json_close(json, '}');
    json_close(json, '}');
}

/* Those that the box has. */
static int code_info(struct http_request *request, struct box *box, struct err *err) {
    static const struct {
        const struct kernel_kind *kind;
        const char *language, *text, *script;
    } rows[] = {
        {&kernel_python, "python", "Python in a session, or once",
         "import json, platform\nprint(json.dumps(platform.python_version()))"},
        {&kernel_node, "javascript", "JavaScript by Node.js in a session, or as a program of its own",
         "console.log(JSON.stringify(process.version))"},
    };
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "languages", '[');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *version = NULL;
        int failed = code_script(request, box, rows[i].kind, rows[i].script, &version, err);
        if (failed && failed != -ERR_UNSUPPORTED)
            return failed;
        if (!failed)
            language_json(&answer.json, rows[i].language, rows[i].text, json_string_value(version));
        json_decref(version);
    }
    json_close(&answer.json, ']');
    json_close(&answer.json, '}');
    return aio_close(&answer, 0, err);
}
