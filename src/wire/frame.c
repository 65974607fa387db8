/* Encoding and checking of frames and fields. Called by both ends of a wire. Invariant: any bytes may come in, and
 * nothing here reads past them, allocates by them, or trusts them. */
#include "wire/frame.h"

#include <assert.h>

#include "base/base.h"

static void frame_put_head(struct buf *out, uint8_t type, uint32_t call, uint8_t flags, uint32_t len) {
    buf_u32(out, len);
    buf_u32(out, call);
    buf_byte(out, type);
    buf_byte(out, flags);
    buf_u16(out, 0);
}

void frame_put(struct buf *out, uint8_t type, uint32_t call, uint8_t flags, const void *payload, size_t len) {
    assert(len <= LIMIT_FRAME_PAYLOAD_BYTES);
    frame_put_head(out, type, call, flags, (uint32_t)len);
    buf_put(out, payload, len);
}

size_t frame_begin(struct buf *out, uint8_t type, uint32_t call, uint8_t flags) {
    size_t begin = out->len;
    frame_put_head(out, type, call, flags, 0);
    return begin;
}

static void frame_patch_u32(struct buf *out, size_t at, size_t value) {
    if (out->failed)
        return;
    for (int i = 0; i < 4; i++)
        out->data[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}

void frame_end(struct buf *out, size_t begin) {
    size_t len = out->len - begin - FRAME_HEAD_BYTES;
    assert(out->failed || len <= LIMIT_FRAME_PAYLOAD_BYTES);
    frame_patch_u32(out, begin, len);
}

static const char *const frame_names[] = {
#define X(name, number, side) [number] = #name,
    FRAME_LIST(X)
#undef X
};

const char *frame_name(uint8_t type) {
    return type < sizeof frame_names / sizeof *frame_names ? frame_names[type] : NULL;
}

const char *op_name(unsigned op) {
    static const char *const names[] = {
#define X(name, number) [number] = #name,
        OP_LIST(X)
#undef X
    };
    static _Thread_local char text[24];
    const char *name = op < sizeof names / sizeof *names ? names[op] : NULL;
    size_t len = name ? strlen(name) : 0;
    for (size_t i = 0; i <= len && name; i++)
        text[i] = (char)(name[i] == '_' ? '-' : name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 'a' - 'A' : name[i]);
    return name ? text : NULL;
}

int frame_parse(const uint8_t *data, size_t len, struct frame *ret_frame, struct err *err) {
    if (len < FRAME_HEAD_BYTES)
        return 0;
    struct view head = view_of(data, FRAME_HEAD_BYTES);
    uint32_t payload = view_u32(&head), call = view_u32(&head);
    uint8_t type = view_u8(&head), flags = view_u8(&head);
    if (payload > LIMIT_FRAME_PAYLOAD_BYTES)
        return err_set(err, ERR_PROTOCOL, "a frame of %u bytes, the limit is %u", payload, LIMIT_FRAME_PAYLOAD_BYTES);
    if (!frame_name(type) || view_u16(&head) != 0)
        return err_set(err, ERR_PROTOCOL, "a frame of unknown type %u or with reserved bits", type);
    if (len - FRAME_HEAD_BYTES < payload)
        return 0;
    *ret_frame =
        (struct frame){.call = call, .type = type, .flags = flags, .payload = data + FRAME_HEAD_BYTES, .len = payload};
    return 1;
}

void field_bytes(struct buf *out, enum field_id id, const void *data, size_t len) {
    buf_byte(out, (uint8_t)id);
    buf_u32(out, (uint32_t)len);
    buf_put(out, data, len);
}

void field_text(struct buf *out, enum field_id id, const char *text) {
    field_bytes(out, id, text, strlen(text));
}

void field_number(struct buf *out, enum field_id id, uint64_t value) {
    uint8_t *at = buf_reserve(out, 13);
    if (!at)
        return;
    at[0] = (uint8_t)id;
    at[1] = 8;
    at[2] = at[3] = at[4] = 0;
    for (int i = 0; i < 8; i++)
        at[5 + i] = (uint8_t)(value >> (8 * i));
    out->len += 13;
}

void field_failure(struct buf *out, const struct err *err) {
    field_number(out, FIELD_CODE, (uint64_t)err->code);
    field_text(out, FIELD_MESSAGE, err->text);
    if (err_wire_number(err))
        field_number(out, FIELD_ERRNO, err_wire_number(err));
}

/* 'S', 'N', 'B', 'L', or 0 when unknown */
static char frame_field_kind(uint8_t id) {
    static const char kinds[FIELD_IDS] = {
#define X(name, number, kind) [number] = #kind[0],
        FIELD_LIST(X)
#undef X
    };
    return id < sizeof kinds ? kinds[id] : 0;
}

int field_next(struct view *view, struct field *ret_field, struct err *err) {
    if (view->len == 0 && !view->bad)
        return 0;
    struct field field = {.id = view_u8(view)};
    field.len = view_u32(view);
    field.data = view_take(view, field.len);
    if (view->bad)
        return err_set(err, ERR_PROTOCOL, "a field is cut off");
    char kind = frame_field_kind(field.id);
    if (!kind)
        return err_set(err, ERR_PROTOCOL, "unknown field %u", field.id);
    if (kind == 'N') {
        if (field.len != 8)
            return err_set(err, ERR_PROTOCOL, "field %u is a number of %zu bytes", field.id, field.len);
        struct view number = view_of(field.data, 8);
        field.number = view_u64(&number);
    } else if (kind != 'B' && field.len && memchr(field.data, 0, field.len)) {
        return err_set(err, ERR_PROTOCOL, "field %u holds a NUL byte", field.id);
    }
    *ret_field = field;
    return 1;
}

size_t item_begin(struct buf *out) {
    size_t begin = out->len;
    buf_u32(out, 0);
    return begin;
}

void item_end(struct buf *out, size_t begin) {
    frame_patch_u32(out, begin, out->len - begin - 4);
}

int item_next(struct view *view, struct view *ret_fields, struct err *err) {
    if (view->len == 0 && !view->bad)
        return 0;
    size_t len = view_u32(view);
    const uint8_t *data = view_take(view, len);
    if (view->bad)
        return err_set(err, ERR_PROTOCOL, "a record is cut off");
    *ret_fields = view_of(data, len);
    return 1;
}

/* The repeated fields. */
static const struct fields_list {
    enum field_id id;
    unsigned max;
    size_t rows, count; /* offsets in struct fields */
} fields_lists[] = {
    {FIELD_ARGV, LIMIT_ARGV_COUNT, offsetof(struct fields, argv), offsetof(struct fields, argc)},
    {FIELD_ENV, LIMIT_ENV_COUNT, offsetof(struct fields, env), offsetof(struct fields, env_count)},
    {FIELD_SECRET, LIMIT_SECRETS, offsetof(struct fields, secrets), offsetof(struct fields, secret_count)},
    {FIELD_ENV_DROP, LIMIT_ENV_DROPS, offsetof(struct fields, drops), offsetof(struct fields, drop_count)},
    {FIELD_INCLUDE, LIMIT_GLOBS, offsetof(struct fields, include), offsetof(struct fields, include_count)},
    {FIELD_EXCLUDE, LIMIT_GLOBS, offsetof(struct fields, exclude), offsetof(struct fields, exclude_count)},
};
enum { FIELDS_LISTS = sizeof fields_lists / sizeof *fields_lists };

static const struct fields_list *fields_list(uint8_t id) {
    for (size_t i = 0; frame_field_kind(id) == 'L' && i < FIELDS_LISTS; i++)
        if (fields_lists[i].id == id)
            return &fields_lists[i];
    return NULL;
}

static const char ***frame_fields_rows(struct fields *fields, const struct fields_list *list) {
    return (const char ***)((char *)fields + list->rows);
}

static size_t *frame_fields_rows_count(struct fields *fields, const struct fields_list *list) {
    return (size_t *)((char *)fields + list->count);
}

/* Counts the repeated fields first, so that the vectors are allocated once and within limits. */
static int frame_fields_count(struct view view, struct fields *fields, struct arena *arena, struct err *err) {
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0) {
        const struct fields_list *list = fields_list(field.id);
        if (list && ++*frame_fields_rows_count(fields, list) > list->max)
            return err_set(err, ERR_PROTOCOL, "field %u came more than %u times", field.id, list->max);
    }
    for (size_t i = 0; r == 0 && i < FIELDS_LISTS; i++) {
        size_t *count = frame_fields_rows_count(fields, &fields_lists[i]);
        *frame_fields_rows(fields, &fields_lists[i]) = arena_alloc(arena, (*count + 1) * sizeof(char *));
        *count = 0;
    }
    return r;
}

int fields_parse(struct view view, struct arena *arena, struct fields *ret_fields, struct err *err) {
    struct fields *fields = ret_fields;
    memset(fields, 0, sizeof *fields);
    TRY(frame_fields_count(view, fields, arena, err));
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0) {
        const char *copy = frame_field_kind(field.id) == 'N' ? NULL : arena_copy(arena, field.data, field.len);
        const struct fields_list *list = fields_list(field.id);
        if (list) {
            (*frame_fields_rows(fields, list))[(*frame_fields_rows_count(fields, list))++] = copy;
        } else if (fields->has[field.id]) {
            return err_set(err, ERR_PROTOCOL, "field %u came twice", field.id);
        } else {
            fields->number[field.id] = field.number;
            fields->text[field.id] = copy;
            fields->len[field.id] = field.len;
        }
        fields->has[field.id] = true;
    }
    return r;
}
