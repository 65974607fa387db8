/* Rows to the daemon (program.h). The first of a kind goes out at the end of the turn, so that a command's answer can
 * name it; what is alike within the same second is counted and follows as one row. A box has a number of rows a
 * second; more are only counted. Invariant: a daemon that does not read costs bounded memory, and rows are lost then,
 * not connections. */
#include <sys/socket.h>

#include "gate/program.h"

enum {
    REPORT_BATCH = (GATE_MESSAGE_BYTES - sizeof(struct gate_message)) / sizeof(struct gate_row),
    REPORT_WAITING = 512,
    REPORT_WINDOW_MS = 1000,
};

static struct gate_row *report_rows;
static size_t report_count, report_room;

struct gate_row report_row(enum gate_row_kind kind, const struct box *box) {
    struct gate_row row;
    memset(&row, 0, sizeof row); /* also what lies between the members: it leaves this process */
    row.kind = (uint8_t)kind;
    row.count = 1;
    row.generation = box->generation;
    memcpy(row.id, box->id, sizeof row.id);
    return row;
}

static void report_queue(const struct gate_row *row) {
    if (report_count < REPORT_WAITING)
        vec_add(report_rows, report_count, report_room) = *row;
}

void report_flush(void) {
    while (report_count) {
        size_t count = report_count < REPORT_BATCH ? report_count : REPORT_BATCH;
        control_send(GATE_ROWS, NULL, 0, count, false, report_rows, count * sizeof *report_rows);
        report_count -= count;
        memmove(report_rows, report_rows + count, report_count * sizeof *report_rows);
    }
}

static bool report_alike(const struct gate_row *a, const struct gate_row *b) {
    return a->kind == b->kind && a->denied == b->denied && a->observed == b->observed && a->port == b->port &&
           a->udp == b->udp && a->cgroup == b->cgroup && a->status == b->status && strcmp(a->name, b->name) == 0 &&
           strcmp(a->why, b->why) == 0 && strcmp(a->method, b->method) == 0 &&
           (a->name[0] || strcmp(a->address, b->address) == 0);
}

/* The second is over: what was counted since its first row. */
static void report_due(struct timer *timer) {
    struct box *box = container_of(timer, struct box, sum_timer);
    for (size_t i = 0; i < box->sum_count; i++)
        if (box->sums[i].count)
            report_queue(&box->sums[i]);
    if (box->lost) {
        struct gate_row row = report_row(GATE_ROW_LOST, box);
        row.count = box->lost;
        row.denied = true;
        report_queue(&row);
    }
    free(box->sums);
    box->sums = NULL;
    box->sum_count = 0;
    box->lost = 0;
}

void report(struct box *box, const struct gate_row *row) {
    if (row->denied)
        box_refused(box);
    for (size_t i = 0; i < box->sum_count; i++) {
        struct gate_row *sum = &box->sums[i];
        if (row->kind == GATE_ROW_ASK || !report_alike(sum, row))
            continue;
        sum->count += row->count;
        sum->bytes_in += row->bytes_in;
        sum->bytes_out += row->bytes_out;
        sum->duration_us += row->duration_us;
        return;
    }
    if (box->sum_count == LIMIT_GATE_ROWS) {
        box->lost += row->count;
        return;
    }
    if (!box->sums)
        box->sums = xcalloc(LIMIT_GATE_ROWS, sizeof *box->sums);
    report_queue(row);
    struct gate_row *sum = &box->sums[box->sum_count++];
    *sum = *row;
    sum->count = sum->bytes_in = sum->bytes_out = sum->duration_us = 0;
    if (!box->sum_timer.place)
        timer_set(&box->sum_timer, loop_now_ms() + REPORT_WINDOW_MS, report_due);
}

void report_box_end(struct box *box) {
    timer_stop(&box->sum_timer);
    report_due(&box->sum_timer);
}
