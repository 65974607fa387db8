/* `cubby top`: what boxes use right now, or the processes of one box. Live on a terminal, once elsewhere. */
#include <jansson.h>

#include "base/base.h"
#include "cli/box/boxes.h"
#include "cli/box/live.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

#define TOP_COLUMNS "id,user,thread,state,cpu,memory,disk,pids,age,used"
#define TOP_SAMPLE_US 500000 /* between the two looks that a share of a processor needs */

struct top_values {
    struct boxes_view view;
    double interval_s;
    uint64_t times;
    bool json;
    const char *box;
};

const struct row top_options[] = {
    BOXES_ROWS(struct top_values, view),
    OPTION("times", 'n', INT, struct top_values, times, "N", "print N times and end, without a live table"),
    OPTION("interval", 'd', REAL, struct top_values, interval_s, "S", "seconds between two looks (default: 2)"),
    OPTION("json", 0, BOOL, struct top_values, json, NULL, "print one JSON object for each time"),
    {.name = NULL},
};

static const struct rest_column top_processes[] = {
    COLUMN("PID", "pid", NUMBER),         COLUMN("PPID", "ppid", NUMBER),     COLUMN("USER", "user", TEXT),
    COLUMN("STATE", "state", STATE),      COLUMN("CPU MS", "cpu_ms", NUMBER), COLUMN("MEMORY", "rss_bytes", SIZE),
    COLUMN("STARTED", "started_at", AGE), COLUMN("COMMAND", "command", TEXT),
};

static void top_cut(json_t *list, unsigned rows) {
    while (json_array_size(list) > rows)
        json_array_remove(list, json_array_size(list) - 1);
}

static void top_draw(struct cli *cli, void *user, unsigned rows) {
    const struct top_values *values = user;
    if (values->box) {
        json_auto_t *answer = rest_need(cli, "GET", remote_path(cli, values->box, "/processes?all=1", NULL), NULL);
        top_cut(json_object_get(answer, "processes"), rows - 1);
        if (values->json)
            remote_print(answer);
        else
            rest_table(cli, json_object_get(answer, "processes"), REST_COLUMNS(top_processes));
        return;
    }
    json_auto_t *boxes = boxes_get(cli, &values->view);
    top_cut(boxes, rows - 1);
    json_auto_t *answer = json_pack("{s:O}", "boxes", boxes);
    if (values->json)
        remote_print(answer);
    else
        boxes_print(cli, &values->view, boxes);
}

static void top_key(void *user, char key) {
    static const struct {
        char key;
        const char *sort;
    } keys[] = {{'c', "cpu"}, {'m', "memory"}, {'p', "pids"}, {'a', "age"}, {'i', "id"}, {'s', "state"}};
    struct top_values *values = user;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].key == key)
            values->view.sort = keys[i].sort;
}

int command_top(struct cli *cli, int argc, char **argv) {
    struct top_values values = {.interval_s = 2, .view = {.sort = "cpu", .columns = TOP_COLUMNS}};
    argc = option_parse(cli, argc, argv, &values);
    if (argc > 1)
        option_fail(cli, "one box at a time");
    boxes_check(cli, &values.view);
    values.box = argc ? remote_box(cli, argv[0]) : NULL;
    if (!values.times && !values.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return live_run(cli, &(struct live_table){
                                 .interval_s = values.interval_s, .draw = top_draw, .key = top_key, .user = &values});
    if (!values.box) {
        json_decref(boxes_get(cli, &values.view));
        usleep(TOP_SAMPLE_US);
    }
    for (uint64_t i = 0; i < (values.times ? values.times : 1); i++) {
        if (i)
            usleep((useconds_t)(values.interval_s * 1e6));
        top_draw(cli, &values, UINT32_MAX);
        if (fflush(stdout) != 0)
            return EXIT_OURS;
    }
    return 0;
}
