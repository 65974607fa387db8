/* The list of boxes as people see it: filters, order, columns, and processor use between two looks. Called by
 * `cubby ps`, `cubby top` and `cubby rm`. */
#ifndef CUBBY_CLI_BOXES_H
#define CUBBY_CLI_BOXES_H

#include <stdbool.h>

#include "rows/rows_argv.h"

struct cli;
struct json_t;

struct boxes_view {
    const char *user, *sort, *columns; /* NULL: the defaults */
    struct row_texts filters;          /* "state=running" */
    bool all, whole;                   /* boxes that are being removed; long texts */
};
/* Checks the words of a view. Exits 2 if one is unknown. */
void boxes_check(struct cli *cli, const struct boxes_view *view);
/* Gets the boxes that fit, in order, with the member "cpu_percent" from the second call on. Release it. */
struct json_t *boxes_get(struct cli *cli, const struct boxes_view *view);
void boxes_print(struct cli *cli, const struct boxes_view *view, const struct json_t *boxes);
#define BOXES_ROWS(holder, part)                                                                                       \
    OPTION("filter", 'f', TEXTS, holder, part.filters, "FILTER", "only boxes that this fits, such as state=ready"),    \
        OPTION("sort", 0, TEXT, holder, part.sort, "[-]COLUMN", "order by this column; -: the other way round"),       \
        OPTION("columns", 0, TEXT, holder, part.columns, "COLUMN,…", "show these columns")
#define BOXES_COLUMNS                                                                                                  \
    "id,user,thread,agent,backend,template,state,cpu,memory,disk,pids,age,used,network,machine,"                       \
    "latency,version,labels"

#endif
