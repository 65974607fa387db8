/* `cubby ps`: lists boxes, once or live. */
#include <jansson.h>

#include "base/base.h"
#include "cli/box/boxes.h"
#include "cli/box/live.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct ps_values {
    struct boxes_view view;
    bool json, quiet, watch;
};

const struct row ps_options[] = {
    OPTION("all", 'a', BOOL, struct ps_values, view.all, NULL, "also boxes that are being removed"),
    OPTION("user", 'u', TEXT, struct ps_values, view.user, "NAME", "only boxes of this user"),
    BOXES_ROWS(struct ps_values, view),
    OPTION("quiet", 'q', BOOL, struct ps_values, quiet, NULL, "print only IDs"),
    OPTION("no-trunc", 0, BOOL, struct ps_values, view.whole, NULL, "do not shorten long threads"),
    OPTION("watch", 'w', BOOL, struct ps_values, watch, NULL, "show it live, until q is pressed"),
    OPTION("json", 0, BOOL, struct ps_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static void ps_draw(struct cli *cli, void *user, unsigned rows) {
    const struct ps_values *values = user;
    json_auto_t *boxes = boxes_get(cli, &values->view);
    size_t count = json_array_size(boxes);
    while (json_array_size(boxes) > rows - 1)
        json_array_remove(boxes, json_array_size(boxes) - 1);
    boxes_print(cli, &values->view, boxes);
    if (count > json_array_size(boxes))
        printf("… and %zu more\n", count - json_array_size(boxes));
}

int command_ps(struct cli *cli, int argc, char **argv) {
    struct ps_values values = {0};
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    boxes_check(cli, &values.view);
    if (values.watch && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !values.json && !values.quiet) {
        if (!values.view.columns)
            values.view.columns = "id,user,thread,backend,state,cpu,memory,pids,age,used";
        return live_run(cli, &(struct live_table){.interval_s = 2, .draw = ps_draw, .user = &values});
    }
    json_auto_t *boxes = boxes_get(cli, &values.view);
    if (values.json) {
        json_auto_t *answer = json_pack("{s:O}", "boxes", boxes);
        remote_print(answer);
    } else if (values.quiet) {
        size_t i;
        json_t *box;
        json_array_foreach(boxes, i, box) printf("%s\n", rest_text(box, "id"));
    } else {
        boxes_print(cli, &values.view, boxes);
    }
    return 0;
}
