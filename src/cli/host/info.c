/* `cubby info`: the daemon, its backends, and its boxes in numbers. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/context.h"
#include "cli/rest/list.h"

static const char *info_backend(struct cli *, const json_t *backend) {
    return json_is_false(json_object_get(backend, "available")) ? "missing" : "ok";
}

/* What it can do, or what it lacks. */
static const char *info_detail(struct cli *cli, const json_t *backend) {
    bool available = !json_is_false(json_object_get(backend, "available"));
    const json_t *list = json_object_get(backend, available ? "can" : "missing");
    autobuf text = buf_max(4096);
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        const char *what = available ? json_string_value(item) : rest_text(item, "what");
        buf_printf(&text, "%s%s", text.len ? ", " : available ? "" : "lacks: ", what ? what : "?");
    }
    return text.len ? arena_copy(&cli->arena, text.data, text.len) : NULL;
}

/* "3 ready, 1 paused" */
static const char *info_states(struct cli *cli, const json_t *boxes) {
    json_auto_t *counts = json_object();
    const char *key;
    json_t *box, *count;
    size_t i;
    autobuf text = buf_max(1024);
    json_array_foreach(boxes, i, box) {
        const char *state = rest_text(box, "state");
        json_int_t old = json_integer_value(json_object_get(counts, state ? state : "?"));
        json_object_set_new(counts, state ? state : "?", json_integer(old + 1));
    }
    json_object_foreach(counts, key, count) {
        buf_printf(&text, "%s%lld %s", text.len ? ", " : "", (long long)json_integer_value(count), key);
    }
    return text.len ? arena_copy(&cli->arena, text.data, text.len) : "none";
}

int command_info(struct cli *cli, int argc, char **argv) {
    static const struct rest_column backends[] = {
        COLUMN("BACKEND", "name", TEXT),
        {.head = "STATE", .cell = info_backend, .kind = REST_STATE},
        CELL("DETAIL", info_detail),
    };
    bool as_json = false; /* json_options */
    if (option_parse(cli, argc, argv, &as_json) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    json_auto_t *info = rest_need(cli, "GET", "/v1/info", NULL);
    json_auto_t *answer = NULL;
    remote_json(cli, "GET", "/v1/boxes", NULL, &answer, ERR_IGNORED);
    const json_t *boxes = json_object_get(answer, "boxes");
    if (as_json) {
        json_object_set_new(info, "boxes", json_integer((json_int_t)json_array_size(boxes)));
        remote_print(info);
        return 0;
    }
    const struct context *context = context_now();
    const char *started = rest_age(cli, rest_text(info, "started_at"));
    const char *const rows[][2] = {
        {"Daemon", remote_url()},
        {"Context", context->name ? context->name : "none (environment)"},
        {"Version", rest_text(info, "version")},
        {"Running for", started},
        {"Default backend", rest_text(info, "default_backend")},
        {"Boxes", info_states(cli, boxes)},
    };
    struct table table = {.arena = &cli->arena, .columns = 2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        table_cell(&table, rows[i][0]);
        table_cell(&table, rows[i][1]);
    }
    table_print(&table, stdout);
    putchar('\n');
    rest_table(cli, json_object_get(info, "backends"), REST_COLUMNS(backends));
    return 0;
}
