/* Clocks in the units the house uses. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t clock_read_us(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t clock_us(void) {
    return clock_read_us(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void) {
    return clock_us() / 1000;
}

uint64_t clock_wall_ms(void) {
    return clock_read_us(CLOCK_REALTIME) / 1000;
}

const char *clock_text(uint64_t wall_ms, char text[CLOCK_TEXT_BYTES]) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    char day[24] = "";
    if (gmtime_r(&seconds, &parts))
        strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, CLOCK_TEXT_BYTES, "%s.%03uZ", day, (unsigned)(wall_ms % 1000));
    return text;
}
