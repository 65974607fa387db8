/* One line an event, one write a line. The only global state apart from constant tables. */
#include <stdatomic.h>

#include "base/base.h"
#include "base/log.h"

static atomic_int log_max = LOG_LEVEL_INFO;

void log_set_level(enum log_level level) {
    atomic_store_explicit(&log_max, (int)level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *format, ...) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if ((int)level > atomic_load_explicit(&log_max, memory_order_relaxed))
        return;
    char time[CLOCK_TEXT_BYTES], text[2048], line[sizeof text * 4 + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int n = snprintf(line, sizeof line, "%s %s ", clock_text(clock_wall_ms(), time), names[level]);
    /* A path or a user name may hold escape sequences: a log viewer must never run them. */
    for (size_t at = 0, used, len = strlen(text); at < len; at += used) {
        char one[8];
        size_t shown = text_show(text + at, len - at, one, &used);
        memcpy(line + n, one, shown);
        n += (int)shown;
    }
    line[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
}
