/* The daemon as the commands see it: one client, JSON in and out, and its errors. Called by every command that needs a
 * daemon. Invariant: an answer is bounded, and a box id is checked before it becomes part of a path. */
#include <jansson.h>

#include "base/base.h"
#include "base/url.h"
#include "http/client/client.h"
#include "box/signame.h"
#include "cli/cli.h"
#include "cli/rest/context.h"
#include "cli/rest/news.h"

#define ANSWER_BYTES (256u << 20) /* fits a list of a million entries */

const char *remote_url(void) {
    return context_now()->url;
}

int remote_connect(struct http_client **ret_client, struct err *err) {
    return context_connect(context_now(), ret_client, err);
}

int remote_client(struct cli *cli, struct http_client **ret_client, struct err *err) {
    if (!cli->client)
        TRY(remote_connect(&cli->client, err));
    *ret_client = cli->client;
    return 0;
}

int remote_code(const char *name) {
#define X(code_name, number, status)                                                                                   \
    if (strcmp(name, #code_name) == 0)                                                                                 \
        return number;
    ERR_LIST(X)
#undef X
    return ERR_INTERNAL;
}

int remote_status(int status, const struct buf *body, struct err *err) {
    if (status >= 200 && status < 300)
        return 0;
    json_auto_t *json = body ? json_loadb((const char *)body->data, body->len, 0, NULL) : NULL;
    const json_t *error = json_object_get(json, "error");
    const char *name = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    if (name && message && remote_code(name) == ERR_UNAUTHORIZED) {
        const struct context *context = context_now();
        if (context->token && context->name)
            return err_set(err, ERR_UNAUTHORIZED,
                           "the token of context '%s' is unknown or revoked; `cubby login` again", context->name);
        return err_set(err, ERR_UNAUTHORIZED, "%s CUBBY_TOKEN (an administrator makes one with `cubby token create`)",
                       context->token ? "unknown or revoked token; check" : "the daemon requires a token; set");
    }
    if (name && message)
        return err_set(err, (enum err_code)remote_code(name), "%s", message);
    if (status >= 500)
        return err_set(err, ERR_PROTOCOL,
                       "%s answered %d without a reason: is the cubby daemon at that address running?", remote_url(),
                       status);
    return err_set(err, ERR_PROTOCOL, "%s is not a cubby daemon (it answered %d); check CUBBY_URL", remote_url(),
                   status);
}

void remote_header(void *, const char *name, const char *value) {
    if (strcasecmp(name, "x-request-id") == 0)
        snprintf(cli_mode.request_id, sizeof cli_mode.request_id, "%s", value);
    if (strcasecmp(name, "cubby-restarted") != 0)
        return;
    autobuf shown = buf_max(1024);
    text_shown(&shown, value, strlen(value));
    const char *text = buf_cstr(&shown);
    fprintf(stderr, "cubby: the box was started again on its files, without its processes: %s\n", text ? text : "");
}

int remote_send(struct cli *cli, const struct http_call *call, struct buf *out, struct err *err) {
    struct http_client *client = NULL;
    int status = 0, code = remote_client(cli, &client, err);
    autobuf unread = buf_max(ANSWER_BYTES);
    if (code == 0)
        code = http_client_call(client, call, &status, out ? out : &unread, err);
    return code < 0 ? code : remote_status(status, out ? out : &unread, err);
}

int remote_call(struct cli *cli, const char *method, const char *path, const struct buf *body, struct buf *out,
                struct err *err) {
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct http_call call = {.method = method, .path = path, .headers = body ? headers : NULL, .header = remote_header};
    if (body) {
        if (body->failed)
            return err_set(err, ERR_TOO_LARGE, "the request is larger than %u bytes", LIMIT_JSON_BYTES);
        call.body = body->data;
        call.body_len = body->len;
    }
    return remote_send(cli, &call, out, err);
}

int remote_json(struct cli *cli, const char *method, const char *path, const struct buf *body, json_t **ret_json,
                struct err *err) {
    autobuf answer = buf_max(ANSWER_BYTES);
    TRY(remote_call(cli, method, path, body, &answer, err));
    json_t *json = json_loadb((const char *)answer.data, answer.len, JSON_ALLOW_NUL, NULL);
    if (!json)
        return err_set(err, ERR_PROTOCOL, "%s is not a cubby daemon (its answer is not JSON); check CUBBY_URL",
                       remote_url());
    *ret_json = json;
    return 0;
}

const char *remote_encoded(struct cli *cli, const char *text) {
    return url_encode(&cli->arena, text, URL_PATH);
}

const char *remote_path(struct cli *cli, const char *id, const char *rest, const char *path) {
    id = remote_box(cli, id);
    if (!path)
        return arena_printf(&cli->arena, "/v1/boxes/%s%s", id, rest);
    return arena_printf(&cli->arena, "/v1/boxes/%s%s?path=%s", id, rest, remote_encoded(cli, path));
}

bool remote_split(struct cli *cli, const char *word, const char **ret_id, const char **ret_path) {
    const char *colon = strchr(word, ':');
    const char *name = colon ? arena_copy(&cli->arena, word, (size_t)(colon - word)) : "";
    if (!remote_named(name))
        return false;
    *ret_id = name;
    *ret_path = colon + 1;
    return true;
}

void remote_print(const json_t *json) {
    bool terminal = isatty(STDOUT_FILENO);
    char *text =
        json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12) | (terminal ? JSON_ENSURE_ASCII : 0));
    for (const char *p = text; p && *p; p++)
        if (terminal && *p == 0x7f) /* ASCII, but a control character */
            fputs("\\u007f", stdout);
        else
            putchar(*p);
    putchar('\n');
    free(text);
}

bool remote_bytes(const json_t *object, const char *key, struct buf *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return false;
    const char *encoding = json_string_value(json_object_get(object, "encoding"));
    const char *text = json_string_value(value);
    if (encoding && strcmp(encoding, "base64") == 0)
        return text_unbase64(out, text, json_string_length(value));
    buf_put(out, text, json_string_length(value));
    return !out->failed;
}

int remote_create(struct cli *cli, const struct box_options *options, const char *user, const char *thread,
                  struct buf *ret_answer, char ret_id[17], struct err *err) {
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    struct json json = json_begin(&body);
    json_put_some(&json, "user", user);
    json_put_some(&json, "thread", thread);
    box_options_json(cli, options, &json);
    json_close(&json, '}');
    struct news *news = news_begin(cli, user, NULL);
    int code = remote_call(cli, "POST", "/v1/boxes", &body, ret_answer, err);
    news_end(news);
    if (code < 0)
        return code;
    json_auto_t *answer = json_loadb((const char *)ret_answer->data, ret_answer->len, 0, NULL);
    const char *id = json_string_value(json_object_get(answer, "id"));
    bool good = id && text_id(id);
    if (good)
        text_id_copy(ret_id, id);
    if (good && !options->temporary)
        remote_used(cli, id);
    return good ? 0 : err_set(err, ERR_PROTOCOL, "%s made a box but did not report its id", remote_url());
}

int remote_exit(const json_t *exit) {
    const json_t *exit_code = json_object_get(exit, "exit_code");
    const char *signal_name = json_string_value(json_object_get(exit, "signal"));
    const json_t *limit = json_object_get(exit, "memory_limit_bytes");
    if (json_is_true(json_object_get(exit, "oom_killed")) && json_is_integer(limit))
        fprintf(stderr, "cubby: a process of the box was killed: out of memory (limit %lld MiB)\n",
                (long long)json_integer_value(limit) >> 20);
    else if (json_is_true(json_object_get(exit, "oom_killed")))
        fprintf(stderr, "cubby: a process of the box was killed: out of memory\n");
    if (json_is_true(json_object_get(exit, "timed_out"))) {
        fprintf(stderr, "cubby: the command timed out and was ended\n");
        return EXIT_TIMED_OUT;
    }
    if (json_is_integer(exit_code))
        return (int)(json_integer_value(exit_code) & 0xff);
    return signal_name ? 128 + signame_number(signal_name) : EXIT_OURS;
}
