/* download: fetches a URL into a file with the box's own curl or wget, so it reaches only what the box can reach. A
 * row of tool_table. Invariant: the daemon's own network is never used, and the file appears complete or not at all. */
#include <sys/random.h>

#include "base/base.h"
#include "tool/shell.h"

enum {
    DOWNLOAD_URL_BYTES = 8192,
    DOWNLOAD_DEFAULT_BYTES = 100 << 20,
    DOWNLOAD_NO_CLIENT = 127, /* exit code of the script: neither curl nor wget is installed */
    CURL_RESOLVE = 6,
    CURL_CONNECT = 7,
    CURL_TOO_LARGE = 63,
    WGET_NETWORK = 4,
    BLOCK_BYTES = 512, /* unit of ulimit -f, by POSIX */
};

struct download_args {
    struct row_text url, path, description;
    struct row_number max_bytes, timeout_ms;
};

static const struct row download_fields[] = {
    {ARG(download_args, url, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = DOWNLOAD_URL_BYTES,
     .text = "An http:// or https:// URL."},
    {ARG(download_args, path, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "File or directory to write to; default: the working directory, with the last name in the URL."},
    {ARG(download_args, max_bytes, INT), .min = 1, .max = LIMIT_UPLOAD_BYTES, .fallback = DOWNLOAD_DEFAULT_BYTES,
     .text = "Largest size; nothing is kept of a larger file."},
    {ARG(download_args, timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "Milliseconds after which the download is abandoned."},
    TOOL_DESCRIPTION(struct download_args),
    {.name = NULL},
};

static const struct row download_answer[] = {
    {ANSWER("path", TEXT), .text = "the file"},
    {ANSWER("bytes", INT), .text = "its size"},
    {ANSWER("content_type", TEXT), .flags = ROW_NULLABLE, .text = "as the server reported it; null if unknown"},
    {.name = NULL},
};

/* $1 URL, $2 file, $3 blocks, $4 bytes. Uses only the wget options that every version has. */
static const char download_script[] =
    "ulimit -f \"$3\"\n"
    "if command -v curl >/dev/null 2>&1; then\n"
    "  exec curl -q -g -sS -f -L --max-redirs 10 --proto =http,https --proto-redir =http,https --connect-timeout 30"
    " --max-filesize \"$4\" -o \"$2\" -w '%{content_type}' -- \"$1\"\n"
    "elif command -v wget >/dev/null 2>&1; then\n"
    "  exec wget -T 30 -O \"$2\" -- \"$1\"\n"
    "fi\n"
    "exit 127\n";

/* Returns the last name in the URL's path, if a file may have it. */
static const char *download_name(struct tool_call *call, const char *url) {
    const char *path = strstr(url, "://") + 3;
    path += strcspn(path, "/?#");
    size_t len = strcspn(path, "?#");
    while (len && path[len - 1] == '/')
        len--;
    size_t begin = len;
    while (begin && path[begin - 1] != '/')
        begin--;
    len -= begin;
    char *name = arena_printf(call->arena, "%.*s", (int)len, path + begin);
    bool bad = len == 0 || len > LIMIT_NAME_BYTES || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    return bad ? "download" : name;
}

static int download_target(struct tool_call *call, const struct download_args *args, const char **ret_path,
                           struct err *err) {
    const char *path;
    struct file_stat stat;
    TRY(tool_path(call, &args->path, &path, err));
    bool dir = args->path.len == 0 || args->path.data[args->path.len - 1] == '/' ||
               (box_stat(call->box, path, call->arena, &stat, ERR_IGNORED) == 0 && stat.type == FILE_DIR);
    *ret_path = dir ? arena_printf(call->arena, "%s/%s", strcmp(path, "/") == 0 ? "" : path,
                                   download_name(call, args->url.data))
                    : path;
    return 0;
}

struct download {
    struct tool_call *call;
    const struct download_args *args;
    uint64_t max_bytes, timeout_ms;
    const char *path, *part;
    struct spool errors;
    struct file_stat stat;
    const char *type;
};

static int download_failed(struct download *download) {
    struct tool_call *call = download->call;
    const struct exec_result *result = &call->exec;
    if (result->exited && result->exit_code == DOWNLOAD_NO_CLIENT)
        return tool_fail(call, "download needs curl or wget, and the box has neither; install one of them in the box");
    if (result->timed_out)
        return tool_fail(call, "download timed out after %.1f seconds: %s", (double)download->timeout_ms / 1000,
                         download->args->url.data);
    if ((!result->exited && result->signal == SIGXFSZ) || (result->exited && result->exit_code == CURL_TOO_LARGE))
        return tool_fail(call, "%s has more than %llu bytes (max_bytes); nothing was kept", download->args->url.data,
                         (unsigned long long)download->max_bytes);
    bool alone = (result->exited && (result->exit_code == CURL_RESOLVE || result->exit_code == CURL_CONNECT ||
                                     result->exit_code == WGET_NETWORK)) &&
                 !call->box->ops->no_limits && call->box->spec.network == NETWORK_NONE;
    /* The last line that the client program wrote. */
    size_t len, begin;
    const char *text = (const char *)spool_view(&download->errors, &len);
    while (len && strchr(" \r\n", text[len - 1]))
        len--;
    for (begin = len; begin && text[begin - 1] != '\n';)
        begin--;
    autobuf shown = buf_max(4 * 400 + 8);
    text_shown(&shown, text + begin, len - begin < 400 ? len - begin : 400);
    const char *said =
        arena_printf(download->call->arena, "%.*s", (int)shown.len, shown.len ? (const char *)shown.data : "");
    return tool_fail(call, "download failed: %s%s", *said ? said : "curl or wget was killed",
                     alone ? ". This box has no network (network: none), so only servers inside it can be reached"
                           : "");
}

static int download_fetch(struct download *download, struct err *err) {
    struct tool_call *call = download->call;
    const struct row_text workspace = {0};
    struct exec_request request;
    TRY(shell_prepare(call, &workspace, download->timeout_ms, &request, err));
    uint64_t blocks = (download->max_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const char *const argv[] = {"/bin/sh",
                                "-c",
                                download_script,
                                "download",
                                download->args->url.data,
                                download->part,
                                arena_printf(call->arena, "%llu", (unsigned long long)blocks),
                                arena_printf(call->arena, "%llu", (unsigned long long)download->max_bytes),
                                NULL};
    request.argv = argv;
    request.cwd = box_workspace(call->box);
    return shell_run(call, &request, &download->errors, err);
}

/* Moves the partial file into place. Returns 1, or 0 if the answer is an error and nothing has changed. */
static int download_keep(struct download *download, struct err *err) {
    struct tool_call *call = download->call;
    if (!call->exec.exited || call->exec.exit_code)
        return download_failed(download);
    int code = box_stat(call->box, download->part, call->arena, &download->stat, err);
    if (code == -ERR_NOT_FOUND) /* some versions create no file for an empty answer */
        return tool_fail(call, "%s is empty; nothing was written", download->args->url.data);
    if (code == 0 && download->stat.size > download->max_bytes)
        return tool_fail(call, "%s has more than %llu bytes (max_bytes); nothing was kept", download->args->url.data,
                         (unsigned long long)download->max_bytes);
    if (code == 0)
        code = box_move(call->box, download->part, download->path, true, err);
    return code < 0 ? code : 1;
}

static int download_run(struct tool_call *call, const void *user, struct err *err) {
    const struct download_args *args = user;
    struct download download = {.call = call,
                                .args = args,
                                .max_bytes = args->max_bytes.value,
                                .timeout_ms =
                                    args->timeout_ms.has ? args->timeout_ms.value : call->settings->bash_timeout_ms};
    const char *url = args->url.data, *at = url;
    while ((unsigned char)*at > ' ' && *at != 127)
        at++;
    if (*at || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return tool_fail(call, "'url' must begin with http:// or https:// and contain no blanks");
    TRY(download_target(call, args, &download.path, err));
    int dir = (int)(strrchr(download.path, '/') - download.path);
    int code = dir ? box_mkdir(call->box, arena_printf(call->arena, "%.*s", dir, download.path), 0, true, err) : 0;
    if (code < 0 && code != -ERR_EXISTS)
        return code;
    /* In the same directory, so that replacing the file is one rename; searches skip such names. */
    uint64_t number = 0;
    (void)!getrandom(&number, sizeof number, 0);
    download.part =
        arena_printf(call->arena, "%.*s.upload-%016llx.part", dir + 1, download.path, (unsigned long long)number);
    spool_init(&download.errors, -1);
    code = download_fetch(&download, err);
    /* What the client wrote to its output is the type, not the answer. */
    size_t len;
    const uint8_t *text = spool_view(&call->result.text, &len);
    char *type = len && len < 200 ? arena_printf(call->arena, "%.*s", (int)len, (const char *)text) : NULL;
    spool_clear(&call->result.text);
    download.type = type;
    if (code == 0)
        code = download_keep(&download, err);
    if (code != 1)
        box_remove(call->box, download.part, false, -1, ERR_IGNORED);
    else {
        struct json *json = &call->result.json;
        tool_say(call, "Downloaded: %s (%llu bytes)", download.path, (unsigned long long)download.stat.size);
        json_open(json, '{');
        json_put_str(json, "path", download.path);
        json_put_uint(json, "bytes", download.stat.size);
        json_put_str(json, "content_type", download.type && *download.type ? download.type : NULL);
        json_close(json, '}');
    }
    spool_done(&download.errors);
    return code == 1 ? 0 : code;
}

const struct tool tool_download = {
    TOOL(download, "Download a URL"), .answer = download_answer, .flags = TOOL_ENDS | TOOL_WORLD | TOOL_SAME,
    .description =
        "Download an http or https URL to a file, from inside the box's own network, following redirects. The file "
        "appears complete or not at all; an existing file is replaced."};
