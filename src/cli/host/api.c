/* `cubby api`: any request to the daemon, with its address, token and certificates. */
#include "http/client/client.h"

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

#define API_BODY_BYTES (64u << 20)

struct api_values {
    const char *data, *query;
    struct row_texts headers;
    bool include;
};

const struct row api_options[] = {
    OPTION("data", 'd', TEXT, struct api_values, data, "JSON|@FILE|@-", "body of the request"),
    OPTION("header", 'H', TEXTS, struct api_values, headers, "NAME: VALUE", "a header of the request"),
    OPTION("include", 'i', BOOL, struct api_values, include, NULL, "print status and headers of the answer, too"),
    OPTION("query", 'q', TEXT, struct api_values, query, "FIELD", "print only this member, such as boxes.0.id"),
    {.name = NULL},
};

/* The data itself, or what is in a file. */
static void api_body(struct cli *cli, const char *data, struct buf *body) {
    if (!data || data[0] != '@') {
        buf_puts(body, data ? data : "");
        return;
    }
    autofd fd = strcmp(data, "@-") == 0 ? dup(STDIN_FILENO) : open(data + 1, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    uint8_t *room;
    while (fd >= 0 && (room = buf_reserve(body, 64 << 10)) && (got = fd_read_full(fd, room, 64 << 10)) > 0)
        body->len += (size_t)got;
    if (body->failed)
        option_fail(cli, "'%s' is larger than %u bytes; use `cubby cp` for files", data, API_BODY_BYTES);
    if (fd < 0 || got < 0)
        option_fail(cli, "cannot read '%s': %s", data + 1, strerror(fd < 0 ? errno : (int)-got));
}

static void api_header(void *user, const char *name, const char *value) {
    const struct api_values *values = user;
    autobuf line = buf_max(16 << 10);
    remote_header(NULL, name, value);
    buf_printf(&line, "%s: %s", name, value);
    if (values->include && line.len) {
        autobuf shown = buf_max(64 << 10);
        text_shown(&shown, (const char *)line.data, line.len);
        printf("%s\n", buf_cstr(&shown));
    }
}

/* A stream is shown as it comes; on a terminal nothing in it can disturb that. */
static int api_write(void *user, const void *data, size_t len) {
    struct api_values *values = user;
    autobuf shown = buf_max(len * 5 + 16);
    if (values->include)
        putchar('\n');
    values->include = false;
    for (const char *at = data, *end = at + len; at < end && isatty(STDOUT_FILENO);) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        text_shown(&shown, at, (size_t)((stop ? stop : end) - at));
        if (stop)
            buf_byte(&shown, '\n');
        at = stop ? stop + 1 : end;
    }
    bool terminal = shown.len > 0;
    fwrite(terminal ? (const void *)shown.data : data, 1, terminal ? shown.len : len, stdout);
    return fflush(stdout) == 0 ? 0 : -1;
}

int command_api(struct cli *cli, int argc, char **argv) {
    struct api_values values = {0};
    struct err err = {0};
    struct http_client *client = NULL;
    int status = 0;
    argc = option_parse(cli, argc, argv, &values);
    if (argc < 1 || argc > 2)
        option_fail(cli, argc ? "one PATH at a time" : "missing PATH, such as /v1/boxes");
    const char *path = argv[argc - 1], *method = argc == 2 ? argv[0] : values.data ? "POST" : "GET";
    if (path[0] != '/')
        path = arena_printf(&cli->arena, "/%s", path);
    if (strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(method) || strpbrk(path, " \r\n\t"))
        option_fail(cli, "METHOD must be in upper case, and PATH without spaces");
    autobuf body = buf_max(API_BODY_BYTES);
    autobuf answer = buf_max(256u << 20);
    api_body(cli, values.data, &body);
    if (values.data)
        rows_texts_add(&cli->arena, &values.headers, "Content-Type: application/json");
    const struct http_call call = {.method = method,
                                   .path = path,
                                   .headers = values.headers.items,
                                   .body = values.data ? (const void *)body.data : NULL,
                                   .body_len = body.len,
                                   .header = api_header,
                                   .write_body = values.query ? NULL : api_write,
                                   .user = &values};
    cli_must(remote_client(cli, &client, &err), &err);
    cli_must(http_client_call(client, &call, &status, &answer, &err), &err);
    if (status >= 300) {
        api_write(&values, answer.data, answer.len);
        return remote_status(status, &answer, &err) == -ERR_UNAUTHORIZED ? EXIT_LOGIN : 1;
    }
    if (!values.query)
        return 0;
    json_auto_t *json = json_loadb((const char *)answer.data, answer.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    return rest_query(cli, json, values.query);
}
