/* body: bodies and queries are read strictly, and what is wrong is named. */
#include "rows/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "front/native/args.h"

static int checks, failures;

static void check(bool ok, const char *name) {
    printf("%sok %d - %s\n", ok ? "" : "not ", ++checks, name);
    failures += !ok;
}

static int parse(const char *text, size_t len, const struct row *fields, struct arena *arena, void *args,
                 struct err *err) {
    char *copy = malloc(len + 1); /* exactly as long as it says, so that a sanitizer sees a read behind it */
    memcpy(copy, text, len);
    int result = rows_parse(copy, len, fields, arena, args, err);
    free(copy);
    return result;
}

/* The body is refused, and the sentence holds `part`. */
static void refused(const struct row *fields, const char *text, const char *part) {
    autoarena arena;
    union {
        struct exec_args exec;
        struct acquire_args acquire;
        struct edit_args edit;
        struct mkdir_args mkdir;
        struct grep_args grep;
        struct signal_args signal;
    } args = {0};
    struct err err = {0};
    char name[200];
    arena_init(&arena);
    int result = parse(text, strlen(text), fields, &arena, &args, &err);
    snprintf(name, sizeof name, "refused: %.60s (%.80s)", text, err.text);
    for (char *p = name; *p; p++)
        *p = *p == '#' || *p == '\n' ? ' ' : *p;
    check(result == -ERR_INVALID && strstr(err.text, part), name);
}

static void test_null(void) {
    static const char text[] =
        "{\"command\":\"ls\",\"argv\":null,\"env\":null,\"timeout_ms\":null,\"cwd\":null,\"user\":null}";
    static const char box[] = "{\"thread\":null,\"limits\":null,\"mounts\":null,\"labels\":null}";
    autoarena arena;
    struct exec_args args = {0};
    struct acquire_args acquire = {0};
    struct err err = {0};
    arena_init(&arena);
    int result = parse(text, strlen(text), exec_fields, &arena, &args, &err);
    check(result == 0 && args.command.len == 2 && !args.argv && !args.cwd.data && !args.timeout_ms.has &&
              args.timeout_ms.value > 0,
          "null is as if the member were not there");
    result = parse(box, strlen(box), acquire_fields, &arena, &acquire, &err);
    check(result == 0 && !acquire.thread.data && !acquire.mounts.count, "null for objects and lists, too");
}

static void test_refused(void) {
    refused(exec_fields, "{\"comand\":\"ls\"}", "unknown field 'comand'; known: command");
    refused(exec_fields, "{\"command\":1}", "'command' must be a string, not an integer");
    refused(acquire_fields, "{\"mounts\":[{\"source\":\"/a\",\"target\":null}]}",
            "'mounts[0].target' must be a string, not null");
    refused(exec_fields, "{\"env\":{\"A\":null}}", "'env.A' must be a string, not null");
    refused(exec_fields, "null", "object");
    refused(exec_fields, "{\"command\":\"a\",\"command\":\"b\"}", "duplicate");
    refused(exec_fields, "{\"command\":\"a\\u0000b\"}", "NUL");
    refused(exec_fields, "{\"argv\":[]}", "empty");
    refused(exec_fields, "{\"argv\":[\"a\",1]}", "'argv[1]' must be a string");
    refused(exec_fields, "{\"argv\":\"a\"}", "array of strings");
    refused(exec_fields, "{\"env\":{\"A=B\":\"c\"}}", "'A=B'");
    refused(exec_fields, "{\"env\":{\"\":\"c\"}}", "empty");
    refused(exec_fields, "{\"env\":{\"A\":1}}", "'env.A' must be a string");
    refused(exec_fields, "{\"env\":{\"A\":\"x\\u0000\"}}", "NUL");
    refused(exec_fields, "{\"timeout_ms\":0}", "from 1 to");
    refused(exec_fields, "{\"timeout_ms\":-5}", "from 1 to");
    refused(exec_fields, "{\"timeout_ms\":1.5}", "an integer, not a number");
    refused(exec_fields, "{\"timeout_ms\":\"5\"}", "an integer, not a string");
    refused(exec_fields, "{\"timeout_ms\":99999999999999999999}", "JSON");
    refused(exec_fields, "{\"user\":\"nobody\"}", "one of agent|root");
    refused(exec_fields, "[]", "object");
    refused(exec_fields, "7", "object");
    refused(exec_fields, "{", "not JSON");
    refused(exec_fields, "{} x", "not JSON");
    refused(exec_fields, "{\"command\":\"\xff\"}", "not JSON");
    refused(exec_fields, "{'command':1}", "not JSON");
    refused(acquire_fields, "{\"limits\":{\"memory\":1}}", "unknown field 'limits.memory'");
    refused(acquire_fields, "{\"limits\":[]}", "'limits' must be an object");
    refused(acquire_fields, "{\"limits\":{\"cpus\":-1}}", "limits.cpus");
    refused(acquire_fields, "{\"limits\":{\"cpus\":\"2\"}}", "'limits.cpus' must be a number");
    refused(acquire_fields, "{\"mounts\":[{\"source\":\"/a\"}]}", "'mounts[0].target' is missing");
    refused(acquire_fields, "{\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"ro\":true}]}", "mounts[0].ro");
    refused(acquire_fields, "{\"mounts\":[1]}", "array of objects");
    refused(acquire_fields, "{\"network\":\"host\"}", "one of none|open");
    refused(acquire_fields, "{\"user\":\"\"}", "empty");
    refused(edit_fields, "{\"path\":\"a\",\"old\":\"\",\"new\":\"b\"}", "'old'");
    refused(edit_fields, "{\"path\":\"a\",\"old\":\"x\"}", "'new' is missing");
    refused(mkdir_fields, "{\"path\":\"a\",\"mode\":\"0999\"}", "octal");
    refused(mkdir_fields, "{\"path\":\"a\",\"mode\":\"17777\"}", "octal");
    refused(mkdir_fields, "{\"path\":\"a\",\"mode\":420}", "string");
    refused(mkdir_fields, "{\"path\":\"\"}", "empty");
    refused(signal_fields, "{\"signal\":true}", "a string or an integer");
}

static void test_bounds(void) {
    autoarena arena;
    struct exec_args args = {0};
    struct err err = {0};
    autobuf text;
    arena_init(&arena);
    buf_init(&text, LIMIT_JSON_BYTES + 64);
    for (unsigned i = 0; i < 1000; i++)
        buf_byte(&text, '[');
    check(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_INVALID &&
              strstr(err.text, "deeper"),
          "a thousand brackets");
    buf_clear(&text);
    buf_puts(&text, "{\"argv\":[");
    while (text.len < 200000)
        buf_puts(&text, "1,");
    buf_puts(&text, "1]}");
    check(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_TOO_LARGE, "too many values");
    buf_clear(&text);
    buf_puts(&text, "{\"argv\":[\"a\"");
    for (unsigned i = 0; i < LIMIT_ARGV_COUNT; i++)
        buf_puts(&text, ",\"a\"");
    buf_puts(&text, "]}");
    check(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_INVALID &&
              strstr(err.text, "more than"),
          "too many arguments");
    buf_clear(&text);
    while (text.len <= LIMIT_JSON_BYTES)
        buf_puts(&text, "                                ");
    check(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_TOO_LARGE, "too many bytes");
    const char *brackets = "{\"command\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{{\\\"{{{,,,\"}";
    check(!parse(brackets, strlen(brackets), exec_fields, &arena, &args, &err),
          "brackets inside a string do not count");
}

static void test_accepted(void) {
    autoarena arena;
    struct err err = {0};
    arena_init(&arena);
    struct exec_args exec = {0};
    const char *text = "{\"argv\":[\"a\",\"b c\"],\"env\":{\"K\":\"v=w\",\"E\":\"\"},\"stdin\":\"x\\u0000y\",\"user\":"
                       "\"root\",\"output_limit_bytes\":0}";
    check(!parse(text, strlen(text), exec_fields, &arena, &exec, &err), "an exec body");
    check(exec.argv && !strcmp(exec.argv[0], "a") && !strcmp(exec.argv[1], "b c") && !exec.argv[2], "argv");
    check(exec.env && exec.env[2] == NULL && (!strcmp(exec.env[0], "K=v=w") || !strcmp(exec.env[1], "K=v=w")), "env");
    check(exec.stdin_text.len == 3 && !memcmp(exec.stdin_text.data, "x\0y", 4), "stdin with a NUL");
    check(!exec.timeout_ms.has && exec.timeout_ms.value == DEFAULT_EXEC_TIMEOUT_MS, "the default time-out");
    check(exec.output_limit_bytes.has && exec.output_limit_bytes.value == 0, "a zero that was given");
    struct acquire_args acquire = {0};
    text = "{\"limits\":{\"cpus\":0.5,\"memory_mb\":64},\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"read_only\":"
           "true}],\"thread\":\"\"}";
    check(!parse(text, strlen(text), acquire_fields, &arena, &acquire, &err), "an acquire body");
    const struct mount_args *mount = acquire.mounts.items;
    check(acquire.mounts.count == 1 && mount->read_only && !strcmp(mount->target.data, "/b"), "a mount");
    check(acquire.limits.cpus.has && acquire.limits.cpus.value == 0.5 && acquire.limits.memory_mb.value == 64,
          "limits");
    check(acquire.thread.data && acquire.thread.len == 0, "an empty thread is a thread");
    struct acquire_args nothing = {0};
    check(!parse("", 0, acquire_fields, &arena, &nothing, &err) && !nothing.user.data, "no body is an empty object");
    struct signal_args number = {0};
    check(!parse("{\"signal\":9}", 12, signal_fields, &arena, &number, &err) && !strcmp(number.signal.data, "9"),
          "a signal by number");
    struct mkdir_args mkdir = {0};
    text = "{\"path\":\"a\",\"mode\":\"0700\",\"parents\":true}";
    check(!parse(text, strlen(text), mkdir_fields, &arena, &mkdir, &err) && mkdir.mode.value == 0700 && mkdir.parents,
          "a mode");
}

static const char *query_get(void *user, const char *name, size_t *ret_len) {
    const char *const *pairs = user;
    for (; *pairs; pairs += 2)
        if (!strcmp(pairs[0], name)) {
            *ret_len = strlen(pairs[1]);
            return pairs[1];
        }
    return NULL;
}

static int query(const struct row *fields, const char *const *pairs, void *args, struct arena *arena) {
    struct err err = {0};
    return rows_query(fields, query_get, (void *)pairs, arena, args, &err);
}

static void test_query(void) {
    autoarena arena = ARENA_EMPTY;
    struct put_args put = {0};
    check(!query(put_query, (const char *const[]){"path", "/x", "mode", "600", "append", "1", NULL}, &put, &arena) &&
              put.mode.value == 0600 && put.append && !put.parents,
          "a query");
    check(query(put_query, (const char *const[]){"path", "", NULL}, &put, &arena) == -ERR_INVALID, "an empty path");
    check(query(put_query, (const char *const[]){NULL}, &put, &arena) == -ERR_INVALID, "a path that is missing");
    check(query(put_query, (const char *const[]){"path", "x", "append", "yes", NULL}, &put, &arena) == -ERR_INVALID,
          "a flag that is neither 1 nor 0");
    struct list_args list = {0};
    check(!query(list_query, (const char *const[]){"depth", "3", NULL}, &list, &arena) && list.depth.value == 3 &&
              list.limit.value == DEFAULT_LIST_LIMIT,
          "numbers and defaults");
    check(query(list_query, (const char *const[]){"depth", "+3", NULL}, &list, &arena) == -ERR_INVALID, "a sign");
    check(query(list_query, (const char *const[]){"depth", "65", NULL}, &list, &arena) == -ERR_INVALID, "too deep");
    check(query(list_query, (const char *const[]){"limit", "18446744073709551616", NULL}, &list, &arena) ==
              -ERR_INVALID,
          "a number of 65 bits");
}

int main(void) {
    test_null();
    test_refused();
    test_bounds();
    test_accepted();
    test_query();
    printf("1..%d\n", checks);
    return failures != 0;
}
