/* The list of boxes (boxes.h). Invariant: a filter or column that does not exist is an error, never ignored. */
#include "cli/box/boxes.h"

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

/* ---- columns ---- */

static bool boxes_whole; /* --no-trunc */

static const char *boxes_thread(struct cli *cli, const json_t *box) {
    const char *thread = rest_text(box, "thread");
    return thread && !boxes_whole && strlen(thread) > 32
               ? arena_printf(&cli->arena, "%.*s…", (int)text_cut(thread, strlen(thread), 31), thread)
               : thread;
}

static const char *boxes_latency(struct cli *cli, const json_t *box) {
    const json_t *remote = json_object_get(box, "remote"), *latency = json_object_get(remote, "latency_ms");
    bool online = json_is_true(json_object_get(remote, "online"));
    return online && json_is_number(latency) ? arena_printf(&cli->arena, "%.1f ms", json_number_value(latency)) : NULL;
}

static const char *boxes_cpu(struct cli *cli, const json_t *box) {
    const json_t *percent = json_object_get(box, "cpu_percent");
    return json_is_number(percent) ? arena_printf(&cli->arena, "%.0f %%", json_number_value(percent)) : NULL;
}

static const char *boxes_memory(struct cli *cli, const json_t *box) {
    const json_t *used = json_object_get(json_object_get(box, "usage"), "memory_bytes");
    json_int_t limit = json_integer_value(json_object_get(json_object_get(box, "limits"), "memory_mb"));
    const char *text = json_is_integer(used) ? table_size(&cli->arena, (uint64_t)json_integer_value(used)) : NULL;
    return text && limit > 0
               ? arena_printf(&cli->arena, "%s of %s", text, table_size(&cli->arena, (uint64_t)limit << 20))
               : text;
}

static const char *boxes_network(struct cli *, const json_t *box) {
    const json_t *network = json_object_get(box, "network");
    return json_is_object(network) ? "policy" : json_string_value(network);
}

static const char *boxes_labels(struct cli *cli, const json_t *box) {
    autobuf text = buf_max(16 << 10);
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(box, "labels"), key, value) {
        buf_printf(&text, "%s%s=%s", text.len ? "," : "", key, json_is_string(value) ? json_string_value(value) : "");
    }
    return text.len ? arena_copy(&cli->arena, text.data, text.len) : NULL;
}

static const struct boxes_column {
    const char *name;
    struct rest_column shown;
    const char *key; /* what to sort by */
    bool large_first;
} boxes_columns[] = {
    {"id", COLUMN("ID", "id", TEXT), "id", false},
    {"user", COLUMN("USER", "user", TEXT), "user", false},
    {"thread", CELL("THREAD", boxes_thread), "thread", false},
    {"agent", COLUMN("AGENT", "agent", TEXT), "agent", false},
    {"backend", COLUMN("BACKEND", "backend", TEXT), "backend", false},
    {"template", COLUMN("TEMPLATE", "template", TEXT), "template", false},
    {"state", COLUMN("STATE", "state", STATE), "state", false},
    {"cpu", CELL("CPU", boxes_cpu), "cpu_percent", true},
    {"memory", CELL("MEMORY", boxes_memory), "usage.memory_bytes", true},
    {"disk", COLUMN("DISK", "usage.disk_bytes", SIZE), "usage.disk_bytes", true},
    {"pids", COLUMN("PIDS", "usage.pids", NUMBER), "usage.pids", true},
    {"age", COLUMN("AGE", "created_at", AGE), "created_at", true},
    {"used", COLUMN("USED", "last_used_at", AGE), "last_used_at", true},
    {"network", CELL("NETWORK", boxes_network), "network", false},
    {"machine", COLUMN("MACHINE", "machine", TEXT), "machine", false},
    {"latency", CELL("LATENCY", boxes_latency), "remote.latency_ms", false},
    {"version", COLUMN("VERSION", "remote.version", TEXT), "remote.version", false},
    {"labels", CELL("LABELS", boxes_labels), "labels", false},
};
#define BOXES_COUNT (sizeof boxes_columns / sizeof *boxes_columns)

static const struct boxes_column *boxes_column(const char *name, size_t len) {
    for (size_t i = 0; i < BOXES_COUNT; i++)
        if (strlen(boxes_columns[i].name) == len && strncmp(boxes_columns[i].name, name, len) == 0)
            return &boxes_columns[i];
    return NULL;
}

static const char *const boxes_filters[] = {"state",   "user",     "thread", "label", "backend",
                                            "machine", "template", "agent",  NULL};

void boxes_check(struct cli *cli, const struct boxes_view *view) {
    const char *sort = view->sort ? view->sort + (view->sort[0] == '-') : "id";
    if (!boxes_column(sort, strlen(sort)))
        option_fail(cli, "unknown column '%s'; there are: %s", sort, BOXES_COLUMNS);
    for (const char *at = view->columns; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!boxes_column(at, strcspn(at, ",")))
            option_fail(cli, "unknown column '%.*s'; there are: %s", (int)strcspn(at, ","), at, BOXES_COLUMNS);
    for (size_t i = 0; i < view->filters.count; i++) {
        const char *filter = view->filters.items[i];
        const char *name = arena_copy(&cli->arena, filter, strcspn(filter, "="));
        if (!strchr(filter, '=') || !text_list_has(boxes_filters, name))
            option_fail(cli,
                        "'%s' is not a filter: state=, user=, thread=, label=K=V, backend=, machine=, template= or "
                        "agent=",
                        filter);
    }
    boxes_whole = view->whole;
}

/* ---- which ---- */

static bool boxes_fits(const json_t *box, const char *filter) {
    size_t len = strcspn(filter, "=");
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)len, filter);
    const char *wanted = filter + len + 1, *value = rest_text(box, name);
    if (strcmp(name, "label") != 0)
        return value && strcmp(value, wanted) == 0;
    size_t key = strcspn(wanted, "=");
    const json_t *label = json_object_getn(json_object_get(box, "labels"), wanted, key);
    return label && (!wanted[key] || (json_is_string(label) && !strcmp(json_string_value(label), wanted + key + 1)));
}

static bool boxes_wanted(const struct boxes_view *view, const json_t *box) {
    const char *state = rest_text(box, "state");
    if (!view->all && state && strcmp(state, "closing") == 0)
        return false;
    for (size_t i = 0; i < view->filters.count; i++)
        if (!boxes_fits(box, view->filters.items[i]))
            return false;
    return true;
}

/* Adds the share of one processor since the call before. */
static void boxes_measure(json_t *boxes) {
    static json_t *before;
    static uint64_t before_ms;
    uint64_t now_ms = clock_ms();
    json_t *now = json_object(), *box;
    size_t i;
    json_array_foreach(boxes, i, box) {
        const char *id = rest_text(box, "id");
        json_t *used = json_object_get(json_object_get(box, "usage"), "cpu_ms");
        const json_t *last = id ? json_object_get(before, id) : NULL;
        if (!id || !json_is_integer(used))
            continue;
        json_object_set(now, id, used);
        double gone = (double)(json_integer_value(used) - json_integer_value(last));
        if (last && now_ms > before_ms)
            json_object_set_new(box, "cpu_percent",
                                json_real(gone < 0 ? 0 : gone * 100 / (double)(now_ms - before_ms)));
    }
    json_decref(before);
    before = now;
    before_ms = now_ms;
}

/* ---- in order ---- */

static struct {
    const struct boxes_column *column;
    int direction;
} boxes_order; /* qsort has no room for it */

static const json_t *boxes_value(const json_t *box) {
    const char *key = boxes_order.column->key, *dot = strchr(key, '.');
    char first[32];
    snprintf(first, sizeof first, "%.*s", dot ? (int)(dot - key) : 0, key);
    return dot ? json_object_get(json_object_get(box, first), dot + 1) : json_object_get(box, key);
}

static int boxes_compare(const void *a, const void *b) {
    const json_t *left = boxes_value(*(json_t *const *)a), *right = boxes_value(*(json_t *const *)b);
    double less = json_number_value(left), more = json_number_value(right);
    int order = json_is_string(left) && json_is_string(right)
                    ? strcmp(json_string_value(left), json_string_value(right))
                    : (less > more) - (less < more);
    bool known[2] = {left && !json_is_null(left), right && !json_is_null(right)};
    if (known[0] != known[1])
        return known[0] ? -1 : 1; /* those without a value come last */
    return order * boxes_order.direction;
}

json_t *boxes_get(struct cli *cli, const struct boxes_view *view) {
    autobuf path = buf_max(64 << 10);
    const char *sort = view->sort ? view->sort : "age";
    buf_puts(&path, "/v1/boxes");
    rest_parameter(cli, &path, "user", view->user);
    json_auto_t *answer = rest_need(cli, "GET", buf_cstr(&path), NULL);
    json_t *boxes = json_object_get(answer, "boxes"), *box, *found = json_array();
    size_t i, count = 0;
    boxes_measure(boxes);
    json_t **list = xcalloc(json_array_size(boxes) + 1, sizeof *list);
    json_array_foreach(boxes, i, box) if (boxes_wanted(view, box)) list[count++] = box;
    boxes_order.column = boxes_column(sort + (sort[0] == '-'), strlen(sort) - (sort[0] == '-'));
    boxes_order.direction = boxes_order.column->large_first == (sort[0] == '-') ? 1 : -1;
    qsort(list, count, sizeof *list, boxes_compare);
    for (i = 0; i < count; i++)
        json_array_append(found, list[i]);
    free(list);
    return found;
}

void boxes_print(struct cli *cli, const struct boxes_view *view, const json_t *boxes) {
    struct rest_column columns[BOXES_COUNT];
    size_t count = 0, i;
    json_t *box;
    const char *names = view->columns ? view->columns : "id,user,thread,backend,state,memory,pids,age,used";
    json_array_foreach(boxes, i, box) if (!view->columns && json_is_object(json_object_get(box, "remote"))) names =
        "id,user,thread,backend,state,memory,pids,age,used,machine,latency,version";
    for (const char *at = names; *at && count < BOXES_COUNT; at += strcspn(at, ","), at += *at == ',')
        columns[count++] = boxes_column(at, strcspn(at, ","))->shown;
    rest_table(cli, boxes, columns, count);
}
