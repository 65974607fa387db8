/* `cubby events`: shows events of boxes as they happen. Invariant: the daemon's output is shown escaped, and every line
 * is flushed at once. */
#include "http/client/client.h"

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/event.h"
#include "cli/rest/list.h"

struct events_values {
    const char *box, *user, *type, *after;
    bool json;
};

const struct row events_options[] = {
    OPTION("box", 'b', TEXT, struct events_values, box, "ID", "only events of this box"),
    OPTION("user", 'u', TEXT, struct events_values, user, "NAME", "only events of this user's boxes"),
    OPTION("type", 0, TEXT, struct events_values, type, "TYPE,…", "only events of these types, e.g. died,evicted"),
    OPTION("after", 0, TEXT, struct events_values, after, "ID",
           "begin after the event with this id; 0: with the oldest that the daemon has"),
    OPTION("json", 0, BOOL, struct events_values, json, NULL, "print a JSON object for each event"),
    {.name = NULL},
};

static void events_line(const json_t *event, const char *type) {
    autobuf line = buf_max(256 << 10);
    if (strcmp(type, "lost") == 0) {
        const json_t *count = json_object_get(event, "count");
        if (json_is_integer(count))
            printf("%lld events were missed: the daemon no longer has them\n", (long long)json_integer_value(count));
        else
            puts("events may have been missed: the daemon was restarted");
        return;
    }
    table_pad(&line, rest_text(event, "time"), 26, false);
    table_pad(&line, type, 10, false);
    table_pad(&line, rest_text(event, "box"), 18, false);
    table_pad(&line, rest_text(event, "user"), 14, false);
    table_pad(&line, rest_text(event, "why"), 0, false);
    fwrite(line.data, 1, line.len, stdout);
    putchar('\n');
}

static int events_each(void *user, const char *name, const char *data, size_t len) {
    const struct events_values *values = user;
    json_auto_t *event = json_loadb(data, len, 0, NULL);
    if (!event)
        return -1;
    if (values->json)
        remote_print(event);
    else
        events_line(event, name);
    return fflush(stdout) == 0 ? 0 : -1;
}

static int events_body(void *user, const void *data, size_t len) {
    return event_feed(user, data, len);
}

int command_events(struct cli *cli, int argc, char **argv) {
    struct events_values values = {0};
    struct err err = {0};
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    values.box = values.box ? remote_box(cli, values.box) : NULL;
    struct event_reader reader;
    autobuf path = buf_max(64 << 10);
    buf_puts(&path, "/v1/events");
    rest_given(cli, &values, NULL, &path);
    event_init(&reader, events_each, &values);
    const struct http_call call = {
        .method = "GET", .path = buf_cstr(&path), .write_body = events_body, .user = &reader};
    int code = remote_send(cli, &call, NULL, &err);
    event_done(&reader);
    return code < 0 ? cli_fail(&err) : 0;
}
