/* TAP for unit programs. A check names what is promised; one that fails shows its place and its condition.
 * A program ends with `return tap_end();`. */
#ifndef CUBBY_TEST_TAP_H
#define CUBBY_TEST_TAP_H

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned tap_count, tap_failures;
static const char *tap_about; /* where set, this text is shown with every check that fails: an error's, say */
static const char *tap_prefix =
    ""; /* before each line; "# " where another program counts these checks as one of its own */

/* ok(CONDITION, NAME) or ok(CONDITION, FORMAT, ...): its value is the condition's. */
#define ok(condition, ...) tap_ok((condition), __FILE__, __LINE__, #condition, TAP_NAME(__VA_ARGS__))
/* ok_about(CONDITION, NAME, TEXT): named after a text from a table, which may hold anything. */
#define ok_about(condition, name, about) tap_ok_about((condition), __FILE__, __LINE__, #condition, name, about)
/* is(GOT, WANT, NAME): texts; is_number: numbers. */
#define is(got, want, name) tap_is(got, want, __FILE__, __LINE__, name)
#define is_number(got, want, name) tap_is_number(got, want, __FILE__, __LINE__, name)
/* ok_all(NAME, CLAUSE, ...): one check a clause, in order, up to eight; after one that fails, the rest fail without being looked at. */
#define ok_all(name, ...)                                                                                              \
    do {                                                                                                               \
        bool tap_so_far = true;                                                                                        \
        TAP_EACH(name, __VA_ARGS__)                                                                                    \
    } while (0)
/* must(CONDITION, WHAT): without it nothing that follows means anything. */
#define must(condition, what) ((condition) ? (void)0 : tap_bail(__FILE__, __LINE__, #condition, what))

#define TAP_NTH(a, b, c, d, e, f, g, h, i, ...) i
#define TAP_NAME(...) TAP_NTH(__VA_ARGS__, TAP_F, TAP_F, TAP_F, TAP_F, TAP_F, TAP_F, TAP_F, TAP_S, 0)(__VA_ARGS__)
#define TAP_S(name) "%s", name
#define TAP_F(...) __VA_ARGS__
#define TAP_CLAUSE(name, clause)                                                                                       \
    tap_so_far = tap_so_far && (clause);                                                                               \
    tap_ok(tap_so_far, __FILE__, __LINE__, #clause, "%s: %s", name, #clause);
#define TAP_1(name, a) TAP_CLAUSE(name, a)
#define TAP_2(name, a, ...) TAP_CLAUSE(name, a) TAP_1(name, __VA_ARGS__)
#define TAP_3(name, a, ...) TAP_CLAUSE(name, a) TAP_2(name, __VA_ARGS__)
#define TAP_4(name, a, ...) TAP_CLAUSE(name, a) TAP_3(name, __VA_ARGS__)
#define TAP_5(name, a, ...) TAP_CLAUSE(name, a) TAP_4(name, __VA_ARGS__)
#define TAP_6(name, a, ...) TAP_CLAUSE(name, a) TAP_5(name, __VA_ARGS__)
#define TAP_7(name, a, ...) TAP_CLAUSE(name, a) TAP_6(name, __VA_ARGS__)
#define TAP_8(name, a, ...) TAP_CLAUSE(name, a) TAP_7(name, __VA_ARGS__)
#define TAP_EACH(name, ...)                                                                                            \
    TAP_NTH(__VA_ARGS__, TAP_8, TAP_7, TAP_6, TAP_5, TAP_4, TAP_3, TAP_2, TAP_1, 0)(name, __VA_ARGS__)

/* A line break would end the check's line, and "#" begin a directive. */
static void tap_clean(char *text) {
    for (; *text; text++)
        *text = *text == '\n' || *text == '\r' || *text == '#' ? '?' : *text;
}

static void tap_result(bool good, const char *name, const char *file, int line, const char *condition) {
    printf("%s%sok %u - %s\n", tap_prefix, good ? "" : "not ", ++tap_count, name);
    if (!good) {
        printf("# %s:%d: %s\n", file, line, condition);
        if (tap_about)
            printf("# %s\n", tap_about);
    }
    tap_failures += !good;
    fflush(stdout);
}

__attribute__((format(printf, 5, 6), unused)) static bool tap_ok(bool good, const char *file, int line,
                                                                 const char *condition, const char *format, ...) {
    char name[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    tap_clean(name);
    tap_result(good, name, file, line, condition);
    return good;
}

__attribute__((unused)) static bool tap_ok_about(bool good, const char *file, int line, const char *condition,
                                                 const char *name, const char *about) {
    return tap_ok(good, file, line, condition, "%s: %.400s", name, about ? about : "(null)");
}

__attribute__((unused)) static bool tap_is(const char *got, const char *want, const char *file, int line,
                                           const char *name) {
    bool same = got && want ? strcmp(got, want) == 0 : got == want;
    tap_ok(same, file, line, "is", "%s", name);
    if (!same)
        printf("# got '%s', want '%s'\n", got ? got : "(null)", want ? want : "(null)");
    return same;
}

__attribute__((unused)) static bool tap_is_number(uint64_t got, uint64_t want, const char *file, int line,
                                                  const char *name) {
    tap_ok(got == want, file, line, "is_number", "%s", name);
    if (got != want)
        printf("# got %" PRIu64 ", want %" PRIu64 "\n", got, want);
    return got == want;
}

/* A check that this machine cannot make. */
__attribute__((unused)) static void tap_skip(const char *name, const char *reason) {
    printf("%sok %u - %s # SKIP %s\n", tap_prefix, ++tap_count, name, reason);
    fflush(stdout);
}

__attribute__((unused, noreturn)) static void tap_bail(const char *file, int line, const char *condition,
                                                       const char *what) {
    int error = errno;
    printf("Bail out! %s\n# %s:%d: %s; errno: %s\n", what, file, line, condition, strerror(error));
    exit(1);
}

/* The plan; the program's exit status. */
__attribute__((unused)) static int tap_end(void) {
    printf("%s1..%u\n", tap_prefix, tap_count);
    return tap_failures != 0;
}

#endif
