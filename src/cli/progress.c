/* Progress of a copy. Short copies show nothing. */
#include "cli/progress.h"
#include "base/base.h"
#include "cli/cli.h"

#define FIRST_MS 500u
#define EVERY_MS 200u
#define BAR_COLUMNS 20
#define BAR_FULL "####################"

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
    const char *done = table_size(&arena, progress->done), *rate = table_size(&arena, progress->done * 1000 / taken);
    if (progress->total > 0 && progress->done <= (uint64_t)progress->total) {
        double part = (double)progress->done / (double)progress->total;
        int filled = (int)(part * BAR_COLUMNS);
        uint64_t left_s = part > 0 ? (uint64_t)((double)taken * (1 / part - 1) / 1000) : 0;
        fprintf(stderr, "\r[%.*s%*s] %3u %%  %s of %s  %s/s  %llu:%02u left\x1b[K", filled, BAR_FULL,
                BAR_COLUMNS - filled, "", (unsigned)(part * 100), done, table_size(&arena, (uint64_t)progress->total),
                rate, (unsigned long long)(left_s / 60), (unsigned)(left_s % 60));
    } else {
        fprintf(stderr, "\r%s  %s/s\x1b[K", done, rate);
    }
}

void progress_end(struct progress *progress) {
    uint64_t taken = clock_ms() - progress->begin_ms;
    autoarena arena = ARENA_EMPTY;
    if (progress->shown)
        fprintf(stderr, "\r%s in %.1f s, %s/s\x1b[K\n", table_size(&arena, progress->done), (double)taken / 1000,
                table_size(&arena, progress->done * 1000 / (taken ? taken : 1)));
    progress->shown = false;
}
