/* rows: bodies and queries are read strictly, what is wrong is named, and answers are written as their rows say. */
#include "rows/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "front/native/args.h"
#include "tap.h"

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
        struct native_args other;
        struct acquire_args acquire;
    } args = {0};
    struct err err = {0};
    char name[200];
    arena_init(&arena);
    int result = parse(text, strlen(text), fields, &arena, &args, &err);
    snprintf(name, sizeof name, "refused: %.60s (%.80s)", text, err.text);
    for (char *p = name; *p; p++)
        *p = *p == '#' || *p == '\n' ? ' ' : *p;
    ok(result == -ERR_INVALID && strstr(err.text, part), name);
}

static void test_null(void) {
    static const char text[] =
        "{\"command\":\"ls\",\"argv\":null,\"env\":null,\"timeout_ms\":null,\"cwd\":null,\"user\":null}";
    static const char box[] = "{\"thread\":null,\"limits\":null,\"mounts\":null,\"labels\":null}";
    autoarena arena;
    struct native_args args = {0};
    struct acquire_args acquire = {0};
    struct err err = {0};
    arena_init(&arena);
    int result = parse(text, strlen(text), exec_fields, &arena, &args, &err);
    ok_all("null is as if the member were not there", result == 0, args.command.len == 2, !args.argv, !args.cwd.data,
           !args.timeout_ms.has, args.timeout_ms.value > 0);
    result = parse(box, strlen(box), acquire_fields, &arena, &acquire, &err);
    ok_all("null for objects and lists, too", result == 0, !acquire.thread.data, !acquire.mounts.count);
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
    struct native_args args = {0};
    struct err err = {0};
    autobuf text;
    arena_init(&arena);
    buf_init(&text, LIMIT_JSON_BYTES + 64);
    for (unsigned i = 0; i < 1000; i++)
        buf_byte(&text, '[');
    ok(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_INVALID &&
           strstr(err.text, "deeper"),
       "a thousand brackets");
    buf_clear(&text);
    buf_puts(&text, "{\"argv\":[");
    while (text.len < 200000)
        buf_puts(&text, "1,");
    buf_puts(&text, "1]}");
    ok(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_TOO_LARGE, "too many values");
    buf_clear(&text);
    buf_puts(&text, "{\"argv\":[\"a\"");
    for (unsigned i = 0; i < LIMIT_ARGV_COUNT; i++)
        buf_puts(&text, ",\"a\"");
    buf_puts(&text, "]}");
    ok(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_INVALID &&
           strstr(err.text, "more than"),
       "too many arguments");
    buf_clear(&text);
    while (text.len <= LIMIT_JSON_BYTES)
        buf_puts(&text, "                                ");
    ok(parse((char *)text.data, text.len, exec_fields, &arena, &args, &err) == -ERR_TOO_LARGE, "too many bytes");
    const char *brackets = "{\"command\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{{\\\"{{{,,,\"}";
    ok(!parse(brackets, strlen(brackets), exec_fields, &arena, &args, &err), "brackets inside a string do not count");
}

static void test_accepted(void) {
    autoarena arena;
    struct err err = {0};
    arena_init(&arena);
    struct native_args exec = {0};
    const char *text = "{\"argv\":[\"a\",\"b c\"],\"env\":{\"K\":\"v=w\",\"E\":\"\"},\"stdin\":\"x\\u0000y\",\"user\":"
                       "\"root\",\"output_limit_bytes\":0}";
    ok(!parse(text, strlen(text), exec_fields, &arena, &exec, &err), "an exec body");
    ok_all("argv", exec.argv, !strcmp(exec.argv[0], "a"), !strcmp(exec.argv[1], "b c"), !exec.argv[2]);
    ok_all("env", exec.env, exec.env[2] == NULL, (!strcmp(exec.env[0], "K=v=w") || !strcmp(exec.env[1], "K=v=w")));
    ok(exec.stdin_text.len == 3 && !memcmp(exec.stdin_text.data, "x\0y", 4), "stdin with a NUL");
    ok(!exec.timeout_ms.has && exec.timeout_ms.value == DEFAULT_EXEC_TIMEOUT_MS, "the default time-out");
    ok(exec.output_limit_bytes.has && exec.output_limit_bytes.value == 0, "a zero that was given");
    struct acquire_args acquire = {0};
    text = "{\"limits\":{\"cpus\":0.5,\"memory_mb\":64},\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"read_only\":"
           "true}],\"thread\":\"\"}";
    ok(!parse(text, strlen(text), acquire_fields, &arena, &acquire, &err), "an acquire body");
    const struct mount_args *mount = acquire.mounts.items;
    ok_all("a mount", acquire.mounts.count == 1, mount->read_only, !strcmp(mount->target.data, "/b"));
    ok_all("limits", acquire.limits.cpus.has, acquire.limits.cpus.value == 0.5, acquire.limits.memory_mb.value == 64);
    ok(acquire.thread.data && acquire.thread.len == 0, "an empty thread is a thread");
    struct acquire_args nothing = {0};
    ok(!parse("", 0, acquire_fields, &arena, &nothing, &err) && !nothing.user.data, "no body is an empty object");
    struct native_args number = {0};
    ok(!parse("{\"signal\":9}", 12, signal_fields, &arena, &number, &err) && !strcmp(number.signal.data, "9"),
       "a signal by number");
    struct native_args mkdir = {0};
    text = "{\"path\":\"a\",\"mode\":\"0700\",\"parents\":true}";
    ok_all("a mode", !parse(text, strlen(text), mkdir_fields, &arena, &mkdir, &err), mkdir.mode.value == 0700,
           mkdir.parents);
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
    struct native_args put = {0};
    ok_all("a query",
           !query(put_query, (const char *const[]){"path", "/x", "mode", "600", "append", "1", NULL}, &put, &arena),
           put.mode.value == 0600, put.append, !put.parents);
    ok(query(put_query, (const char *const[]){"path", "", NULL}, &put, &arena) == -ERR_INVALID, "an empty path");
    ok(query(put_query, (const char *const[]){NULL}, &put, &arena) == -ERR_INVALID, "a path that is missing");
    ok(query(put_query, (const char *const[]){"path", "x", "append", "yes", NULL}, &put, &arena) == -ERR_INVALID,
       "a flag that is neither 1 nor 0");
    struct native_args list = {0};
    ok_all("numbers and defaults", !query(list_query, (const char *const[]){"depth", "3", NULL}, &list, &arena),
           list.depth.value == 3, list.limit.value == DEFAULT_LIST_LIMIT);
    ok(query(list_query, (const char *const[]){"depth", "+3", NULL}, &list, &arena) == -ERR_INVALID, "a sign");
    ok(query(list_query, (const char *const[]){"depth", "65", NULL}, &list, &arena) == -ERR_INVALID, "too deep");
    ok(query(list_query, (const char *const[]){"limit", "18446744073709551616", NULL}, &list, &arena) == -ERR_INVALID,
       "a number of 65 bits");
}

/* ---- answers ---- */

struct inner_out {
    const char *name;
    int8_t small;
};
static const struct row inner_out[] = {
    OUT("name", TEXT, inner_out, name, "a name"), OUT_INT("small", inner_out, small, "a number"), {.name = NULL}};

struct every_out {
    const char *text, *word;
    uint16_t number;
    int32_t below;
    double real;
    bool yes;
    uint16_t mode;
    uint64_t time;
    const char *const *texts, *const *map;
    struct inner_out object;
    struct row_list objects;
};
static const struct row every_out[] = {
    OUT("text", TEXT, every_out, text, ""),
    OUT("word", TEXT_OR_INT, every_out, word, ""),
    OUT_INT("number", every_out, number, ""),
    OUT_INT("below", every_out, below, ""),
    OUT("real", REAL, every_out, real, ""),
    OUT("yes", BOOL, every_out, yes, ""),
    OUT("mode", MODE, every_out, mode, ""),
    OUT("time", TIME, every_out, time, ""),
    OUT("texts", TEXTS, every_out, texts, ""),
    OUT("map", MAP, every_out, map, ""),
    OUT_OBJECT("object", every_out, object, inner_out, ""),
    OUT_LIST("objects", every_out, objects, inner_out, inner_out, ""),
    {.name = NULL},
};

struct inner_in {
    struct row_text name;
    struct row_number small;
};
struct every_in {
    struct row_text text, word;
    struct row_number number, mode;
    struct row_real real;
    bool yes;
    const char **texts, **map;
    struct inner_in object;
    struct row_list objects;
};
#define IN(label, kind, holder, member, ...)                                                                           \
    { .name = (label), .type = ROW_##kind, .offset = offsetof(struct holder, member), .max = UINT32_MAX, __VA_ARGS__ }
static const struct row inner_in[] = {
    IN("name", TEXT, inner_in, name), IN("small", INT, inner_in, small), {.name = NULL}};
static const struct row every_in[] = {
    IN("text", TEXT, every_in, text),
    IN("word", TEXT_OR_INT, every_in, word),
    IN("number", INT, every_in, number),
    IN("real", REAL, every_in, real),
    IN("yes", BOOL, every_in, yes),
    IN("mode", MODE, every_in, mode),
    IN("texts", TEXTS, every_in, texts),
    IN("map", MAP, every_in, map),
    IN("object", OBJECT, every_in, object, .fields = inner_in),
    IN("objects", OBJECTS, every_in, objects, .fields = inner_in, .item_size = sizeof(struct inner_in)),
    {.name = NULL},
};

/* The struct by its rows, on the heap: a read of more than the member's bytes at its end is one that a sanitizer sees. */
static void written(const struct row *rows, const void *from, size_t size, const char *expected, const char *name) {
    autobuf out = buf_max(1 << 20);
    struct json json;
    void *copy = malloc(size);
    memcpy(copy, from, size);
    json_init(&json, &out);
    rows_write(&json, rows, copy);
    free(copy);
    ok(!strcmp(buf_cstr(&out), expected), name);
    if (strcmp(buf_cstr(&out), expected) != 0)
        printf("# %.*s\n", (int)out.len, (char *)out.data);
}

static void test_write(void) {
    struct inner_out items[] = {{.name = "a", .small = 1}, {.small = -128}};
    const struct every_out every = {
        .text = "t\"",
        .word = "9",
        .number = 65535,
        .below = -1,
        .real = 1.5,
        .yes = true,
        .mode = 04755,
        .time = 1000,
        .texts = (const char *const[]){"x", "", NULL},
        .map = (const char *const[]){"K=v=w", "E=", NULL},
        .object = {.name = "o", .small = 127},
        .objects = {.items = items, .count = 2},
    };
    written(every_out, &every, sizeof every,
            "{\"text\":\"t\\\"\",\"word\":\"9\",\"number\":65535,\"below\":-1,\"real\":1.500,\"yes\":true,"
            "\"mode\":\"4755\",\"time\":\"1970-01-01T00:00:01.000Z\",\"texts\":[\"x\",\"\"],"
            "\"map\":{\"K\":\"v=w\",\"E\":\"\"},\"object\":{\"name\":\"o\",\"small\":127},"
            "\"objects\":[{\"name\":\"a\",\"small\":1},{\"small\":-128}]}",
            "every type is written");
    written(every_out, &(const struct every_out){0}, sizeof every,
            "{\"number\":0,\"below\":0,\"real\":0.000,\"yes\":false,\"mode\":\"0000\",\"time\":null,\"texts\":[],"
            "\"map\":{},\"object\":{\"small\":0},\"objects\":[]}",
            "nothing is written as nothing");
}

struct last_out {
    uint32_t first;
    uint8_t mode;
};

static void test_write_edges(void) {
    static const struct row last[] = {OUT("mode", MODE, last_out, mode, ""), {.name = NULL}};
    static const struct row maps[] = {OUT("map", MAP, every_out, map, ""), {.name = NULL}};
    written(last, &(const struct last_out){.mode = 0177}, sizeof(struct last_out), "{\"mode\":\"0177\"}",
            "a mode is as wide as its member");
    char pair[640], expected[700];
    memset(pair, 'k', 600);
    memcpy(pair + 600, "=v", 3);
    snprintf(expected, sizeof expected, "{\"map\":{\"%.600s\":\"v\",\"bare\":\"\"}}", pair);
    written(maps, &(const struct every_out){.map = (const char *const[]){pair, "bare", NULL}}, sizeof(struct every_out),
            expected, "a long name in a map is whole, and one without a value is empty");
}

struct maybe_out {
    const char *text;
    struct row_number number, yes, mode;
    struct row_real real;
    uint64_t time;
    const char *const *texts, *const *map;
    const struct inner_out *object;
    struct row_list objects;
};
#define OPTIONAL(macro)                                                                                                \
    {                                                                                                                  \
        macro("text", TEXT, maybe_out, text, ""), macro("number", INT, maybe_out, number, ""),                         \
            macro("yes", BOOL, maybe_out, yes, ""), macro("mode", MODE, maybe_out, mode, ""),                          \
            macro("real", REAL, maybe_out, real, ""), macro("time", TIME, maybe_out, time, ""),                        \
            macro("texts", TEXTS, maybe_out, texts, ""), macro("map", MAP, maybe_out, map, ""), {                      \
            .name = NULL                                                                                               \
        }                                                                                                              \
    }

static void test_write_optional(void) {
    static const struct row null[] = OPTIONAL(OUT_NULL), maybe[] = OPTIONAL(OUT_MAYBE);
    static const struct row object[] = {OUT_OBJECT_NULL("object", maybe_out, object, inner_out, ""), {.name = NULL}};
    const struct maybe_out nothing = {0};
    const struct maybe_out all = {.text = "",
                                  .number = {true, 7},
                                  .yes = {true, 256},
                                  .mode = {true, 0600},
                                  .real = {true, 0.25},
                                  .time = 1000,
                                  .texts = (const char *const[]){NULL},
                                  .map = (const char *const[]){NULL},
                                  .object = &(const struct inner_out){.small = 1}};
    static const char filled[] = "{\"text\":\"\",\"number\":7,\"yes\":true,\"mode\":\"0600\",\"real\":0.250,\"time\":"
                                 "\"1970-01-01T00:00:01.000Z\",\"texts\":[],\"map\":{}}";
    written(null, &nothing, sizeof nothing,
            "{\"text\":null,\"number\":null,\"yes\":null,\"mode\":null,\"real\":null,\"time\":null,"
            "\"texts\":null,\"map\":null}",
            "nullable members are null when absent");
    written(maybe, &nothing, sizeof nothing, "{}", "members that may be missing are left out when absent");
    written(null, &all, sizeof all, filled, "nullable members");
    written(maybe, &all, sizeof all, filled, "members that may be missing");
    written(object, &all, sizeof all, "{\"object\":{\"small\":1}}", "a nullable object");
    written(object, &nothing, sizeof nothing, "{\"object\":null}", "a nullable object that is absent");
}

static void test_both_ways(void) {
    autoarena arena = ARENA_EMPTY;
    struct err err = {0};
    struct every_in in = {0};
    static const char text[] =
        "{\"text\":\"t\",\"word\":9,\"number\":65535,\"real\":1.5,\"yes\":true,\"mode\":\"0644\","
        "\"texts\":[\"x\",\"\"],\"map\":{\"K\":\"v=w\"},\"object\":{\"name\":\"o\",\"small\":127},"
        "\"objects\":[{\"name\":\"a\",\"small\":1}]}";
    ok(!parse(text, strlen(text), every_in, &arena, &in, &err), "every type is read");
    const struct inner_in *item = in.objects.items;
    struct inner_out items[] = {{.name = item->name.data, .small = (int8_t)item->small.value}};
    const struct every_out out = {
        .text = in.text.data,
        .word = in.word.data,
        .number = (uint16_t)in.number.value,
        .real = in.real.value,
        .yes = in.yes,
        .mode = (uint16_t)in.mode.value,
        .texts = (const char *const *)in.texts,
        .map = (const char *const *)in.map,
        .object = {.name = in.object.name.data, .small = (int8_t)in.object.small.value},
        .objects = {.items = items, .count = in.objects.count},
    };
    written(every_out, &out, sizeof out,
            "{\"text\":\"t\",\"word\":\"9\",\"number\":65535,\"below\":0,\"real\":1.500,\"yes\":true,"
            "\"mode\":\"0644\",\"time\":null,\"texts\":[\"x\",\"\"],\"map\":{\"K\":\"v=w\"},"
            "\"object\":{\"name\":\"o\",\"small\":127},\"objects\":[{\"name\":\"a\",\"small\":1}]}",
            "what was read is written as it was");
}

int main(void) {
    test_write();
    test_write_edges();
    test_write_optional();
    test_both_ways();
    test_null();
    test_refused();
    test_bounds();
    test_accepted();
    test_query();
    return tap_end();
}
