/* `cubby watch`: files, background commands and events of one box, in one stream. Each source has a thread and a
 * connection of its own. Invariant: lines are whole, in the order of arrival, and escaped. */
#include "http/client/client.h"

#include <jansson.h>
#include <pthread.h>

#include "base/base.h"
#include "base/sync.h"
#include "cli/cli.h"
#include "cli/rest/event.h"
#include "cli/rest/list.h"

#define WATCH_EVERY_US 1000000 /* looks at the list of commands */

struct watch {
    struct cli *cli;
    const char *id;
    bool json;
    pthread_mutex_t lock; /* of standard output */
};

struct watch_source {
    struct watch *watch;
    const char *name, *path;
    struct event_reader reader;
    struct err err; /* why it ended */
};

static int watch_say(struct watch *watch, const char *source, const char *what, json_t *detail, const char *text) {
    char now[CLOCK_TEXT_BYTES];
    autobuf line = buf_max(256 << 10);
    autolock(&watch->lock);
    clock_text(clock_wall_ms(), now);
    if (watch->json) {
        json_auto_t *row =
            json_pack("{s:s, s:s, s:s, s:O?}", "time", now, "source", source, "type", what, "detail", detail);
        remote_print(row);
    } else {
        buf_printf(&line, "%.8s  ", now + 11);
        table_pad(&line, source, 9, false);
        table_pad(&line, what, 10, false);
        table_pad(&line, text ? text : "", 0, false);
        fwrite(line.data, 1, line.len, stdout);
        putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : -1;
}

/* ---- files and events ---- */

static int watch_event(void *user, const char *name, const char *data, size_t len) {
    struct watch_source *source = user;
    json_auto_t *json = json_loadb(data, len, 0, NULL);
    autobuf text = buf_max(128 << 10);
    bool file = strcmp(source->name, "file") == 0;
    if (strcmp(name, "error") == 0) {
        event_error(json, &source->reader.error);
        return -1;
    }
    if (!json || strcmp(name, "ready") == 0 || strcmp(name, "hello") == 0)
        return 0;
    if (file) {
        remote_bytes(json, "path", &text);
        if (json_is_string(json_object_get(json, "to"))) {
            buf_puts(&text, " -> ");
            remote_bytes(json, "to", &text);
        }
    } else {
        buf_puts(&text, rest_text(json, "why") ? rest_text(json, "why") : "");
    }
    return watch_say(source->watch, source->name, name, json, text.len ? buf_cstr(&text) : "");
}

static int watch_body(void *user, const void *data, size_t len) {
    struct watch_source *source = user;
    return event_feed(&source->reader, data, len);
}

static void *watch_follow(void *user) {
    struct watch_source *source = user;
    struct http_client *client = NULL;
    const struct http_call call = {.method = "GET", .path = source->path, .write_body = watch_body, .user = source};
    int status = 0;
    autobuf refusal = buf_max(64 << 10);
    event_init(&source->reader, watch_event, source);
    int code = remote_connect(&client, &source->err);
    if (code == 0)
        code = http_client_call(client, &call, &status, &refusal, &source->err);
    if (code == 0)
        code = remote_status(status, &refusal, &source->err);
    if (source->reader.error.code)
        code = -(source->err = source->reader.error).code;
    if (code == 0)
        err_set(&source->err, ERR_GONE, "the daemon ended the stream of %ss", source->name);
    exit(cli_fail(&source->err)); /* half of the sources would be a lie */
}

/* ---- background commands ---- */

static int watch_processes(struct watch *watch, json_t **known, bool first, struct err *err) {
    json_auto_t *answer = NULL;
    json_t *process, *now = json_object();
    size_t i;
    int code =
        remote_json(watch->cli, "GET", remote_path(watch->cli, watch->id, "/processes", NULL), NULL, &answer, err);
    json_array_foreach(json_object_get(answer, "processes"), i, process) {
        char key[32];
        const char *state = rest_text(process, "state"), *command = rest_text(process, "command");
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(process, "pid")));
        const char *before = rest_text(*known, key);
        json_object_set_new(now, key, json_string(state ? state : "?"));
        if (first || (before && state && strcmp(before, state) == 0))
            continue;
        autobuf text = buf_max(16 << 10);
        buf_printf(&text, "%s  %.200s", key, command ? command : "");
        bool running = state && strcmp(state, "running") == 0;
        if (!running && json_is_integer(json_object_get(process, "exit_code")))
            buf_printf(&text, "  (exit %lld)", (long long)json_integer_value(json_object_get(process, "exit_code")));
        if (watch_say(watch, "command", running ? "started" : "ended", process, buf_cstr(&text)) < 0)
            code = err_set(err, ERR_IO, "cannot write standard output");
    }
    json_decref(*known);
    *known = now;
    return code;
}

int command_watch(struct cli *cli, int argc, char **argv) {
    struct watch watch = {.cli = cli};
    struct err err = {0};
    const char *path = "";
    json_t *known = json_object();
    argc = option_parse(cli, argc, argv, &watch.json); /* json_options */
    if (argc != 1)
        option_fail(cli, argc ? "one box at a time" : BOX_MISSING);
    if (!remote_split(cli, argv[0], &watch.id, &path))
        watch.id = argv[0];
    watch.id = remote_box(cli, watch.id);
    pthread_mutex_init(&watch.lock, NULL);
    int code = watch_processes(&watch, &known, true, &err); /* refuses an unknown box */
    struct watch_source sources[] = {
        {.watch = &watch,
         .name = "file",
         .path = arena_printf(&cli->arena, "%s&recursive=1", remote_path(cli, watch.id, "/watch", *path ? path : "."))},
        {.watch = &watch, .name = "event", .path = arena_printf(&cli->arena, "/v1/events?box=%s", watch.id)},
    };
    for (size_t i = 0; code == 0 && i < 2; i++)
        thread_detached(watch_follow, &sources[i], 0);
    while (code == 0) {
        usleep(WATCH_EVERY_US);
        struct arena kept = cli->arena;
        arena_init(&cli->arena);
        code = watch_processes(&watch, &known, false, &err);
        arena_done(&cli->arena);
        cli->arena = kept;
    }
    return cli_fail(&err);
}
