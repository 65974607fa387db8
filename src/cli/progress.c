/* Progress of a copy. Short copies show nothing. */
#include "cli/progress.h"
#include "base/base.h"
#include "cli/cli.h"

#define FIRST_MS 500u
#define EVERY_MS 200u

void progress_begin(struct progress *progress, bool quiet, int64_t total) {
    *progress = (struct progress){.on = !quiet && isatty(STDERR_FILENO), .total = total, .begin_ms = clock_ms()};
}

void progress_add(struct progress *progress, uint64_t bytes) {
    progress->done += bytes;
    if (!progress->on)
        return;
    uint64_t now = clock_ms(), taken = now - progress->begin_ms;
    if (taken < FIRST_MS || now - progress->last_ms < EVERY_MS)
        return;
    progress->last_ms = now;
    progress->shown = true;
    autoarena arena = ARENA_EMPTY;
    fprintf(stderr, "\r%s", table_size(&arena, progress->done));
    if (progress->total > 0)
        fprintf(stderr, " of %s (%u %%)", table_size(&arena, (uint64_t)progress->total),
                (unsigned)(progress->done * 100.0 / (double)progress->total));
    fprintf(stderr, "  %s/s\x1b[K", table_size(&arena, progress->done * 1000 / taken));
}

void progress_end(struct progress *progress) {
    if (progress->shown)
        fprintf(stderr, "\r\x1b[K");
}
