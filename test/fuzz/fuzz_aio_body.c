/* Any bytes as a body of the AIO dialect: what is taken of it is what jansson reads, with what its server forgives; what is
 * refused is refused with 422 and JSON that names a place, and repeats no value. */
#define http_route fuzz_route
#define http_arena fuzz_arena
#define http_reply fuzz_reply
#define trail_fields fuzz_trail
#include "../../src/front/detail.c"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "s3cr3t"

struct inner {
    struct row_text text;
    bool flag;
};
struct args {
    struct row_text text, choice;
    struct row_number number, required;
    struct row_real real;
    bool flag;
    const char **texts, **map;
    struct row_list list;
};
#define ROW(member, kind) .name = #member, .type = ROW_##kind, .offset = offsetof(struct args, member)
static const struct row inner_fields[] = {
    {.name = "text", .type = ROW_TEXT, .offset = offsetof(struct inner, text), .flags = ROW_REQUIRED, .max = 8},
    {.name = "flag", .type = ROW_BOOL, .offset = offsetof(struct inner, flag)},
    {0},
};
static const struct row fields[] = {
    {ROW(text, TEXT), .flags = ROW_NUL, .max = 64},
    {ROW(choice, TEXT), .choices = "one|two"},
    {ROW(number, INT), .min = 3, .max = INT64_MAX, .fallback = 7},
    {ROW(required, INT), .flags = ROW_REQUIRED, .max = 100},
    {ROW(real, REAL), .max = 1000},
    {ROW(flag, BOOL)},
    {ROW(texts, TEXTS), .max = 3},
    {ROW(map, MAP), .max = 3},
    {ROW(list, OBJECTS), .max = 3, .fields = inner_fields, .item_size = sizeof(struct inner)},
    {0},
};

static struct arena arena;
static struct {
    int status;
    char *text;
    size_t len;
} reply;

const struct route *fuzz_route(const struct http_request *request) {
    static const struct endpoint endpoint = {.body = fields};
    static const struct route route = {.extra = &endpoint};
    (void)request;
    return &route;
}

struct arena *fuzz_arena(struct http_request *request) {
    (void)request;
    return &arena;
}

int fuzz_reply(struct http_request *request, int status, const char *media, const void *data, size_t len) {
    (void)request, (void)media;
    assert(!reply.status && len);
    reply.status = status;
    reply.text = arena_copy(&arena, data, len);
    reply.len = len;
    return 0;
}

void fuzz_trail(struct http_request *request, const struct row *rows, const void *args) {
    (void)request, (void)args;
    assert(rows == fields);
}

static bool has_key(const json_t *value, const char *word) {
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach((json_t *)value, key, member) {
        if (strstr(key, word) || has_key(member, word))
            return true;
    }
    json_array_foreach(value, i, member) {
        if (has_key(member, word))
            return true;
    }
    return false;
}

static void check_refusal(int result, const json_t *whole) {
    size_t i;
    json_t *row, *root = json_loadb(reply.text, reply.len, 0, NULL), *detail = json_object_get(root, "detail");
    assert(result == ERR_INVALID && reply.status == 422);
    assert(json_array_size(detail) > 0);
    json_array_foreach(detail, i, row) {
        const char *text = json_string_value(json_object_get(row, "msg"));
        assert(json_array_size(json_object_get(row, "loc")) > 0 && text && *text);
        assert(json_is_string(json_object_get(row, "type")));
    }
    assert(!whole || has_key(whole, SECRET) || !memmem(reply.text, reply.len, SECRET, strlen(SECRET)));
    json_decref(root);
}

/* A whole number as its server reads it: *ret_has false where it is not one. */
static long long number_of(const json_t *value, bool *ret_has) {
    const char *text = json_string_value(value);
    double real = json_real_value(value);
    char *end;
    *ret_has = json_is_integer(value) || (json_is_real(value) && real == floor(real) && fabs(real) < 9e15) ||
               (text && *text && strspn(text, "-0123456789") == strlen(text));
    return json_is_integer(value) ? json_integer_value(value) : text ? strtoll(text, &end, 10) : (long long)real;
}

static void check_number(const json_t *whole, const char *name, const struct row_number *taken) {
    const json_t *value = json_object_get(whole, name);
    bool has;
    if (!value || json_is_null(value)) {
        assert(!taken->has && (strcmp(name, "number") || taken->value == 7));
        return;
    }
    long long want = number_of(value, &has);
    assert(has && taken->has && taken->value == (uint64_t)want);
}

static void check_taken(const json_t *whole, const struct args *args) {
    const json_t *text = json_object_get(whole, "text"), *texts = json_object_get(whole, "texts");
    size_t count = 0;
    assert(json_is_string(text) == (args->text.data != NULL));
    if (args->text.data)
        assert(args->text.len == json_string_length(text) && args->text.len <= 64 &&
               !memcmp(args->text.data, json_string_value(text), args->text.len));
    assert(!args->choice.data || !strcmp(args->choice.data, "one") || !strcmp(args->choice.data, "two"));
    check_number(whole, "number", &args->number);
    check_number(whole, "required", &args->required);
    assert(args->number.value >= 3 && args->required.has && args->required.value <= 100);
    assert(!args->real.has || (args->real.value <= 1000 && args->real.value >= -1e300));
    while (args->texts && args->texts[count])
        count++;
    assert(count == json_array_size(texts) && count <= 3);
    assert(args->list.count <= 3 && args->list.count == json_array_size(json_object_get(whole, "list")));
    const struct inner *inner = args->list.items;
    for (size_t i = 0; i < args->list.count; i++)
        assert(inner[i].text.data && inner[i].text.len <= 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct args args = {0};
    struct err err = {0};
    uint64_t ms;
    json_t *whole = size ? json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL) : NULL;
    arena_init(&arena);
    memset(&reply, 0, sizeof reply);
    int result = detail_body_text(NULL, (const char *)data, size, &args, &err);
    if (result > 0)
        check_refusal(result, whole);
    else if (result < 0)
        assert(result == -ERR_TOO_LARGE && err.code == ERR_TOO_LARGE && !reply.status);
    else
        check_taken(whole, &args);
    assert(result || whole);
    if (!result && args.real.has && detail_seconds(&args.real, 5, 1000, "real", &ms, &err) == 0)
        assert(ms <= 1000 && args.real.value >= 0);
    json_decref(whole);
    arena_done(&arena);
    return 0;
}
