/* Frames and fields as bytes: shared by both ends of a wire. No I/O here. */
#ifndef CUBBY_WIRE_FRAME_H
#define CUBBY_WIRE_FRAME_H

#include "base/base.h"
#include "wire/proto.h"

struct frame {
    uint32_t call;
    uint8_t type, flags;
    const uint8_t *payload; /* points into the reader's memory until the next read */
    uint32_t len;
};

/* Appends head and payload. len is at most LIMIT_FRAME_PAYLOAD_BYTES (asserted). */
void frame_put(struct buf *out, uint8_t type, uint32_t call, uint8_t flags, const void *payload, size_t len);
/* For payloads written in place: begin writes a head, end patches its length. Nothing else may be put between. */
size_t frame_begin(struct buf *out, uint8_t type, uint32_t call, uint8_t flags);
void frame_end(struct buf *out, size_t begin);
/* The first whole frame in data. 1 and *ret_frame (its size is FRAME_HEAD_BYTES + len), 0 when more bytes are needed,
 * -ERR_PROTOCOL for a head that no peer may send (too long, unknown type, reserved bits). */
int frame_parse(const uint8_t *data, size_t len, struct frame *ret_frame, struct err *err);
const char *frame_name(uint8_t type);
const char *op_name(unsigned op); /* "tar-out", until this thread asks again; NULL when unknown */

/* Fields */
struct field {
    uint8_t id;
    const uint8_t *data;
    size_t len;
    uint64_t number; /* when len is 8 */
};

void field_number(struct buf *out, enum field_id id, uint64_t value);
void field_text(struct buf *out, enum field_id id, const char *text);
void field_bytes(struct buf *out, enum field_id id, const void *data, size_t len);
void field_failure(struct buf *out, const struct err *err); /* the fields of FAIL */
/* 1 and the next field, 0 at the end, -ERR_PROTOCOL when malformed: unknown id, cut off, a number not 8 bytes long,
 * a NUL inside text. */
int field_next(struct view *view, struct field *ret_field, struct err *err);

/* ITEM frames: begin/end one record inside the frame being written. */
size_t item_begin(struct buf *out);
void item_end(struct buf *out, size_t begin);
/* 1 and the next record's fields, 0 at the end, -ERR_PROTOCOL. */
int item_next(struct view *view, struct view *ret_fields, struct err *err);

/* All fields of one payload, decoded once. Pointers are into the payload; texts are copied with a NUL into `arena`. */
struct arena;
struct fields {
    uint64_t number[FIELD_IDS];
    const char *text[FIELD_IDS]; /* S, and B if its length is not needed; NULL when absent */
    size_t len[FIELD_IDS];       /* of text or bytes */
    bool has[FIELD_IDS];
    const char **argv, **env, **secrets, **drops, **include, **exclude; /* NULL-terminated; argv[argc] == NULL */
    size_t argc, env_count, secret_count, drop_count, include_count, exclude_count;
};
/* Fills *ret_fields; each field at most once but for L. -ERR_PROTOCOL otherwise. Limits of limits.h hold. */
int fields_parse(struct view view, struct arena *arena, struct fields *ret_fields, struct err *err);

#endif
