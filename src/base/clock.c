/* Clocks in the project's units. */
#include <time.h>

#include "base/base.h"

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

uint64_t clock_wall_us(void) {
    return clock_read_us(CLOCK_REALTIME);
}

uint64_t clock_wall_ms(void) {
    return clock_wall_us() / 1000;
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

/* Digits and marks of a pattern: '0' is a digit of the next number, anything else is literal. */
static bool clock_take(const char **text, const char *pattern, unsigned *numbers) {
    size_t at = 0;
    numbers[0] = 0;
    for (; *pattern; pattern++, ++*text) {
        if (*pattern != '0') {
            if (**text != *pattern && !(*pattern == 'T' && **text == 't'))
                return false;
            numbers[++at] = 0;
            continue;
        }
        if (**text < '0' || **text > '9')
            return false;
        numbers[at] = numbers[at] * 10 + (unsigned)(**text - '0');
    }
    return true;
}

/* "Z" or "+02:00" up to the end. */
static bool clock_offset(const char *text, int *ret_seconds) {
    unsigned parts[3];
    int sign = *text == '-' ? -1 : 1;
    *ret_seconds = 0;
    if (*text == 'Z' || *text == 'z')
        return !text[1];
    if (*text != '+' && *text != '-')
        return false;
    text++;
    if (!clock_take(&text, "00:00", parts) || *text || parts[0] > 23 || parts[1] > 59)
        return false;
    *ret_seconds = sign * (int)(parts[0] * 3600 + parts[1] * 60);
    return true;
}

bool clock_parse(const char *text, uint64_t *ret_wall_ms) {
    unsigned parts[7], fraction_ms = 0, weight = 100;
    int offset_s;
    if (!clock_take(&text, "0000-00-00T00:00:00", parts))
        return false;
    if (*text == '.') {
        if (*++text < '0' || *text > '9')
            return false;
        for (; *text >= '0' && *text <= '9'; text++, weight /= 10)
            fraction_ms += weight * (unsigned)(*text - '0');
    }
    if (!clock_offset(text, &offset_s))
        return false;
    struct tm given = {.tm_year = (int)parts[0] - 1900,
                       .tm_mon = (int)parts[1] - 1,
                       .tm_mday = (int)parts[2],
                       .tm_hour = (int)parts[3],
                       .tm_min = (int)parts[4],
                       .tm_sec = (int)parts[5]};
    struct tm real = given;
    time_t seconds = timegm(&real);
    /* timegm carries 31 February over into March: a date that comes back changed was invalid. A leap second counts
     * as :59. */
    if (given.tm_sec == 60)
        given.tm_sec = 59, real = given, seconds = timegm(&real);
    if (real.tm_mon != given.tm_mon || real.tm_mday != given.tm_mday || real.tm_hour != given.tm_hour ||
        real.tm_min != given.tm_min || real.tm_sec != given.tm_sec || seconds < offset_s)
        return false;
    *ret_wall_ms = (uint64_t)(seconds - offset_s) * 1000 + fraction_ms;
    return true;
}
