/* A line on standard error that shows the progress of a long copy; only on a terminal. Called by cp. */
#ifndef CUBBY_CLI_PROGRESS_H
#define CUBBY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on, shown;
    int64_t total; /* -1: unknown */
    uint64_t done, begin_ms, last_ms;
};

void progress_begin(struct progress *progress, bool quiet, int64_t total);
void progress_add(struct progress *progress, uint64_t bytes);
void progress_end(struct progress *progress); /* replaces the line by how much it was, and how fast */

#endif
