/* `cubby events`: what happens to boxes, as it happens. Invariant: what comes from the daemon is shown escaped, and every
 * line is out at once, whoever reads it. */
#include "http/client/client.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rest/event.h"
#include "cli/rest/list.h"

struct events_values {
    const char *box, *user, *type, *after;
    bool json;
};

const struct option_row events_options[] = {
    {"box", 'b', OPTION_TEXT, offsetof(struct events_values, box), "ID", "only of this box"},
    {"user", 'u', OPTION_TEXT, offsetof(struct events_values, user), "NAME", "only of this user's boxes"},
    {"type", 0, OPTION_TEXT, offsetof(struct events_values, type), "TYPE,…", "only these, e.g. died,evicted"},
    {"after", 0, OPTION_TEXT, offsetof(struct events_values, after), "ID",
     "first what came after the event of this id; 0: all that the daemon still has"},
    {"json", 0, OPTION_FLAG, offsetof(struct events_values, json), NULL, "a JSON object a line"},
    {.name = NULL},
};

static void events_cell(struct buf *line, const char *text, int width) {
    size_t start = line->len, shown = 0;
    text_shown(line, text ? text : "-", text ? strlen(text) : 1);
    for (size_t at = start; at < line->len; at++)
        shown += (line->data[at] & 0xc0) != 0x80;
    buf_printf(line, "%*s", width > (int)shown ? width - (int)shown : 0, "");
}

static void events_line(const json_t *event, const char *type) {
    autobuf line = buf_max(256 << 10);
    if (strcmp(type, "lost") == 0) {
        const json_t *count = json_object_get(event, "count");
        if (json_is_integer(count))
            printf("%lld events are gone: the daemon no longer has them\n", (long long)json_integer_value(count));
        else
            puts("events may be gone: the daemon was started again");
        return;
    }
    events_cell(&line, rest_text(event, "time"), 26);
    events_cell(&line, type, 10);
    events_cell(&line, rest_text(event, "box"), 18);
    events_cell(&line, rest_text(event, "user"), 14);
    events_cell(&line, rest_text(event, "why"), 0);
    fwrite(line.data, 1, line.len, stdout);
    putchar('\n');
}

static int events_each(void *user, const char *name, const char *data, size_t len) {
    const struct events_values *values = user;
    json_t *event = json_loadb(data, len, 0, NULL);
    if (!event)
        return -1;
    if (values->json)
        remote_print(event);
    else
        events_line(event, name);
    json_decref(event);
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
    struct event_reader reader;
    autobuf path = buf_max(64 << 10);
    buf_puts(&path, "/v1/events");
    rest_parameter(cli, &path, "box", values.box);
    rest_parameter(cli, &path, "user", values.user);
    rest_parameter(cli, &path, "type", values.type);
    rest_parameter(cli, &path, "after", values.after);
    event_init(&reader, events_each, &values);
    const struct http_call call = {
        .method = "GET", .path = buf_cstr(&path), .write_body = events_body, .user = &reader};
    int code = remote_send(cli, &call, NULL, &err);
    event_done(&reader);
    return code < 0 ? cli_fail(&err) : 0;
}
