/* `cubby wait`, `cubby kill`, `cubby stdin`: background commands of a box, which `cubby exec -d` has started. */
#include "http/client/client.h"

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/event.h"
#include "cli/rest/list.h"

struct process_values {
    const char *signal;
    bool eof;
};

const struct row kill_options[] = {
    OPTION("signal", 's', TEXT, struct process_values, signal, "SIGNAL",
           "send this one, by name or number (default: TERM)"),
    {.name = NULL},
};
const struct row stdin_options[] = {
    OPTION("eof", 0, BOOL, struct process_values, eof, NULL, "close the command's standard input afterwards"),
    {.name = NULL},
};

/* "/v1/boxes/ID/processes/PID/REST". Exits 2 if that is not a pid. */
static const char *process_path(struct cli *cli, const char *id, const char *pid, const char *rest) {
    uint64_t number;
    if (!text_u64(pid, INT32_MAX, &number) || number == 0)
        option_fail(cli, "'%s' is not a pid (see `cubby inspect ID`)", pid);
    return remote_path(cli, id, arena_printf(&cli->arena, "/processes/%llu%s", (unsigned long long)number, rest), NULL);
}

/* ---- wait ---- */

struct process_end {
    struct event_reader reader;
    int status;
    bool ended, json;
    const char *pid;
};

static int process_event(void *user, const char *name, const char *data, size_t len) {
    struct process_end *end = user;
    bool over = strcmp(name, "exit") == 0, failed = strcmp(name, "error") == 0;
    json_auto_t *json = over || failed ? json_loadb(data, len, 0, NULL) : NULL;
    if (failed)
        event_error(json, &end->reader.error);
    if (!over)
        return failed ? -1 : 0;
    end->ended = true;
    end->status = remote_exit(json);
    if (end->json)
        remote_print(json);
    else
        printf("%d\n", end->status);
    return 0;
}

static int process_body(void *user, const void *data, size_t len) {
    struct process_end *end = user;
    return event_feed(&end->reader, data, len);
}

int command_wait(struct cli *cli, int argc, char **argv) {
    struct process_end end = {0};
    static const char *const headers[] = {"Accept: text/event-stream", NULL};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &end.json); /* json_options */
    if (argc < 2)
        option_fail(cli, "missing box ID or PID");
    for (int i = 1; i < argc; i++)
        process_path(cli, argv[0], argv[i], "");
    for (int i = 1; i < argc; i++) {
        const struct http_call call = {.method = "GET",
                                       .path = process_path(cli, argv[0], argv[i], "/output"),
                                       .headers = headers,
                                       .write_body = process_body,
                                       .user = &end};
        end.ended = false;
        event_init(&end.reader, process_event, &end);
        int code = remote_send(cli, &call, NULL, &err);
        if (end.reader.error.code)
            code = -(err = end.reader.error).code;
        event_done(&end.reader);
        if (code == 0 && !end.ended)
            code = err_set(&err, ERR_GONE, "the daemon stopped before the command ended");
        if (code < 0)
            return cli_fail(&err);
    }
    return end.status;
}

/* ---- kill ---- */

int command_kill(struct cli *cli, int argc, char **argv) {
    struct process_values values = {0};
    int status = 0;
    uint64_t number;
    argc = option_parse(cli, argc, argv, &values);
    if (argc < 2)
        option_fail(cli, "missing box ID or PID");
    for (int i = 1; i < argc; i++)
        process_path(cli, argv[0], argv[i], "");
    const char *name = values.signal ? values.signal : "TERM";
    autobuf body = buf_max(256);
    struct json json = json_begin(&body);
    json_key(&json, "signal");
    if (text_u64(name, 64, &number))
        json_uint(&json, number);
    else
        json_str(&json, strncmp(name, "SIG", 3) == 0 ? name : arena_printf(&cli->arena, "SIG%s", name));
    json_close(&json, '}');
    for (int i = 1; i < argc; i++)
        status |= rest_each(cli, "POST", process_path(cli, argv[0], argv[i], "/signal"), &body, argv[i]);
    return status;
}

/* ---- stdin ---- */

static int process_type(struct cli *cli, const char *path, const void *data, size_t len, struct err *err) {
    static const char *const headers[] = {"Content-Type: application/octet-stream", "Expect:", NULL};
    const struct http_call call = {.method = "POST", .path = path, .headers = headers, .body = data, .body_len = len};
    return remote_send(cli, &call, NULL, err);
}

int command_stdin(struct cli *cli, int argc, char **argv) {
    struct process_values values = {0};
    struct err err = {0};
    static uint8_t data[64 << 10];
    uint64_t pid;
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 2)
        option_fail(cli, "missing box ID, or PID or session");
    bool session = !text_u64(argv[1], INT32_MAX, &pid);
    if (session && !session_named(argv[1]))
        option_fail(cli, "'%s' is neither a pid nor the name of a session", argv[1]);
    if (session && values.eof)
        option_fail(cli, "--eof is for background commands; a session ends with `cubby session rm`");
    const char *path = session
                           ? remote_path(cli, argv[0], arena_printf(&cli->arena, "/sessions/%s/stdin", argv[1]), NULL)
                           : process_path(cli, argv[0], argv[1], "/stdin");
    ssize_t got;
    while ((got = read(STDIN_FILENO, data, sizeof data)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            cli_must(process_type(cli, path, data, (size_t)got, &err), &err);
    if (got < 0)
        cli_must(err_errno(&err, errno, "standard input"), &err);
    if (values.eof)
        cli_must(process_type(cli, arena_printf(&cli->arena, "%s?eof=1", path), "", 0, &err), &err);
    return 0;
}
