/* `cubby logs`: the output of background commands of a box, as far as the daemon has kept it. Invariant: following it
 * never slows the command down: output is asked for, not streamed. */
#include "http/client/client.h"

#include <jansson.h>
#include <strings.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

#define LOGS_EVERY_US 200000
#define LOGS_KEPT (256u << 20) /* more than a daemon keeps of a command */

struct logs_values {
    bool follow, errors, output;
    uint64_t tail;
    const char *since;
};

const struct row logs_options[] = {
    OPTION("follow", 'f', BOOL, struct logs_values, follow, NULL, "continue until the commands have ended"),
    OPTION("tail", 'n', INT, struct logs_values, tail, "N", "only the last N lines of each stream"),
    OPTION("since", 0, TEXT, struct logs_values, since, "TIME",
           "only of commands that started since then: 2h, or 2026-01-31T12:00:00Z"),
    OPTION("stderr", 0, BOOL, struct logs_values, errors, NULL, "only standard error"),
    OPTION("stdout", 0, BOOL, struct logs_values, output, NULL, "only standard output"),
    {.name = NULL},
};

/* One stream of one command. */
struct logs_stream {
    long long pid;
    bool error, over, cut, done;
    uint64_t next; /* offset */
    struct buf text;
    struct logs_stream *after;
};

struct logs {
    struct cli *cli;
    const char *id, *since;
    struct logs_values values;
    bool prefixed;
    struct logs_stream *streams, **end;
};

static void logs_add(struct logs *logs, long long pid) {
    for (const struct logs_stream *stream = logs->streams; stream; stream = stream->after)
        if (stream->pid == pid)
            return;
    for (int error = 0; error < 2; error++) {
        if (error ? logs->values.output && !logs->values.errors : logs->values.errors && !logs->values.output)
            continue;
        struct logs_stream *stream = arena_alloc(&logs->cli->arena, sizeof *stream);
        *stream = (struct logs_stream){.pid = pid, .error = error};
        buf_init(&stream->text, LOGS_KEPT);
        *logs->end = stream;
        logs->end = &stream->after;
    }
}

/* ---- reading ---- */

static void logs_header(void *user, const char *name, const char *value) {
    struct logs_stream *stream = user;
    if (strcasecmp(name, "X-Next-Offset") == 0)
        stream->next = strtoull(value, NULL, 10);
    if (strcasecmp(name, "X-Process-State") == 0)
        stream->over = strcmp(value, "running") != 0;
}

/* Appends what is new. Returns whether there was anything. */
static bool logs_read(struct logs *logs, struct logs_stream *stream, struct err *err) {
    size_t before = stream->text.len;
    uint64_t from = stream->next;
    const char *rest = arena_printf(&logs->cli->arena, "/processes/%lld/output?stream=%s&offset=%llu", stream->pid,
                                    stream->error ? "stderr" : "stdout", (unsigned long long)from);
    const struct http_call call = {
        .method = "GET", .path = remote_path(logs->cli, logs->id, rest, NULL), .header = logs_header, .user = stream};
    autobuf piece = buf_max(LOGS_KEPT);
    if (remote_send(logs->cli, &call, &piece, err) < 0)
        return false;
    buf_put(&stream->text, piece.data, piece.len);
    return stream->text.len > before;
}

/* ---- writing ---- */

static int logs_put(const struct logs *logs, const struct logs_stream *stream, const uint8_t *line, size_t len) {
    FILE *out = stream->error ? stderr : stdout;
    if (logs->prefixed)
        fprintf(out, "%lld│ ", stream->pid);
    fwrite(line, 1, len, out);
    return ferror(out) ? -1 : 0;
}

/* Prints whole lines, and at the end the rest; without prefixes everything. */
static int logs_flush(const struct logs *logs, struct logs_stream *stream) {
    int code = 0;
    if (stream->text.len == 0) {
        stream->cut = true;
        return 0;
    }
    const uint8_t *at = stream->text.data, *end = at + stream->text.len;
    if (logs->values.tail && !stream->cut) {
        const uint8_t *from = end;
        for (uint64_t lines = 0; from > at; from--)
            if (from[-1] == '\n' && from != end && ++lines == logs->values.tail)
                break;
        at = from;
    }
    stream->cut = true;
    while (code == 0 && at < end) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop && logs->prefixed && !stream->over)
            break;
        size_t len = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        code = logs_put(logs, stream, at, len);
        if (!stop && logs->prefixed)
            fputc('\n', stream->error ? stderr : stdout);
        at += len;
    }
    buf_consume(&stream->text, (size_t)(at - stream->text.data));
    return fflush(stdout) == 0 && fflush(stderr) == 0 ? code : -1;
}

/* ---- which ---- */

static void logs_find(struct logs *logs) {
    json_auto_t *answer = rest_need(logs->cli, "GET", remote_path(logs->cli, logs->id, "/processes", NULL), NULL);
    size_t i;
    json_t *process;
    json_array_foreach(json_object_get(answer, "processes"), i, process) {
        const char *started = rest_text(process, "started_at");
        if (!logs->since || (started && strcmp(started, logs->since) >= 0))
            logs_add(logs, (long long)json_integer_value(json_object_get(process, "pid")));
    }
}

static long long logs_pid(struct cli *cli, const char *id, const char *word) {
    uint64_t pid;
    struct err err = {0};
    if (text_u64(word, INT32_MAX, &pid))
        return (long long)pid;
    if (!session_named(word))
        option_fail(cli, "'%s' is neither a pid nor the name of a session", word);
    json_auto_t *session =
        rest_need(cli, "GET", remote_path(cli, id, arena_printf(&cli->arena, "/sessions/%s", word), NULL), NULL);
    const json_t *found = json_object_get(session, "pid");
    if (!json_is_integer(found))
        cli_must(err_set(&err, ERR_NOT_FOUND, "session '%s' has no process yet", word), &err);
    return (long long)json_integer_value(found);
}

int command_logs(struct cli *cli, int argc, char **argv) {
    struct logs logs = {.cli = cli};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &logs.values);
    if (argc < 1 || argc > 2)
        option_fail(cli, argc ? "one command at a time" : BOX_MISSING);
    logs.id = remote_box(cli, argv[0]);
    logs.since = rest_when(cli, "since", logs.values.since);
    logs.end = &logs.streams;
    logs.prefixed = argc == 1;
    if (argc == 2)
        logs_add(&logs, logs_pid(cli, logs.id, argv[1]));
    else
        logs_find(&logs);
    for (bool more = true; more;) {
        bool moved = false, running = false;
        for (struct logs_stream *stream = logs.streams; stream; stream = stream->after) {
            bool got = false, all = logs.values.tail && !stream->cut; /* the last lines are known at the end */
            while (!stream->done && (got = logs_read(&logs, stream, &err)) && all)
                moved = true;
            cli_must(-err.code, &err);
            moved = moved || got;
            stream->done = stream->over && !got;
            if (logs_flush(&logs, stream) < 0)
                return EXIT_OURS; /* the reader is gone */
            running = running || !stream->over;
        }
        more = moved || (logs.values.follow && running);
        if (!moved && more)
            usleep(LOGS_EVERY_US);
        if (more && argc == 1 && logs.values.follow)
            logs_find(&logs); /* new ones */
    }
    return 0;
}
