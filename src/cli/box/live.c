/* Live tables (live.h). Invariant: the terminal is as before however this ends, and what a draw allocates is freed
 * before the next. */
#include "cli/box/live.h"

#include <poll.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#define LIVE_BEGIN "\x1b[?1049h\x1b[?25l\x1b[?7l" /* another screen, no cursor, long lines are cut */
#define LIVE_END "\x1b[?7h\x1b[?25h\x1b[?1049l"

static void live_restore(void) {
    fputs(LIVE_END, stdout);
    fflush(stdout);
    terminal_restore();
}

static void live_draw(struct cli *cli, const struct live_table *live) {
    struct arena kept = cli->arena;
    unsigned cols, rows;
    terminal_size(STDOUT_FILENO, &cols, &rows);
    arena_init(&cli->arena);
    fputs("\x1b[?2026h\x1b[H\x1b[2J", stdout); /* shown at once where the terminal can */
    live->draw(cli, live->user, rows > 3 ? rows - 2 : 1);
    fputs("\x1b[?2026l", stdout);
    fflush(stdout);
    arena_done(&cli->arena);
    cli->arena = kept;
}

/* Waits for the next time to draw. Returns whether to end, and with which status. */
static bool live_wait(const struct live_table *live, int signal_fd, int *ret_status) {
    uint64_t until_ms = clock_ms() + (uint64_t)(live->interval_s * 1000);
    for (;;) {
        uint64_t now_ms = clock_ms();
        struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
        if (now_ms >= until_ms || poll(wait, 2, (int)(until_ms - now_ms)) == 0)
            return false;
        int number = wait[1].revents ? terminal_signal(signal_fd) : 0;
        char key = 0;
        ssize_t got = wait[0].revents ? read(STDIN_FILENO, &key, 1) : -1;
        *ret_status = number && number != SIGINT && number != SIGWINCH ? 128 + number : 0;
        if (got == 0 || key == 'q' || key == 3 || (number && number != SIGWINCH))
            return true;
        if (got == 1 && live->key)
            live->key(live->user, key);
        if (got == 1 || number == SIGWINCH)
            return false;
    }
}

int live_run(struct cli *cli, const struct live_table *live) {
    struct err err = {0};
    int status = 0;
    autofd signal_fd = terminal_signals(&err);
    cli_must(signal_fd, &err);
    cli_must(terminal_raw(STDIN_FILENO, &err), &err);
    fputs(LIVE_BEGIN, stdout);
    atexit(live_restore); /* a draw that fails exits; its error is printed before this */
    do
        live_draw(cli, live);
    while (!live_wait(live, signal_fd, &status));
    return status;
}
