/* Rows of the audit log as bytes. Called by the queue (audit.c) and the database (audit_db.c). Invariant: hashes on
 * disk cover this encoding; a change would make every old chain look broken. */
#include <assert.h>
#include <openssl/sha.h>

#include "base/base.h"
#include "store/audit_row.h"

#define NO_TEXT 0xffffu

enum { FLAG_RESULT = 1, FLAG_EXITED = 2, FLAG_TIMED_OUT = 4, FLAG_OOM_KILLED = 8 };

const struct audit_column audit_columns[AUDIT_TEXTS] = {
#define X(name, column, max) {column, max},
    AUDIT_TEXT_LIST(X)
#undef X
};

void audit_setn(struct audit_row *row, enum audit_field field, const char *text, size_t len) {
    size_t max = audit_columns[field].max;
    row->texts[field] = (struct audit_text){.data = text, .len = !text ? 0 : len < max ? len : max};
}

void audit_set(struct audit_row *row, enum audit_field field, const char *text) {
    audit_setn(row, field, text, text ? strnlen(text, audit_columns[field].max) : 0);
}

void audit_encode(const struct audit_row *row, struct buf *out) {
    buf_u64(out, row->at_ms);
    buf_u64(out, row->bytes_in);
    buf_u64(out, row->bytes_out);
    buf_u64(out, row->duration_us);
    buf_u32(out, row->count ? row->count : 1);
    buf_u32(out, row->status);
    buf_byte(out, (uint8_t)((row->has_result ? FLAG_RESULT : 0) | (row->exited ? FLAG_EXITED : 0) |
                            (row->timed_out ? FLAG_TIMED_OUT : 0) | (row->oom_killed ? FLAG_OOM_KILLED : 0)));
    buf_u32(out, (uint32_t)row->exit_code);
    buf_u32(out, (uint32_t)row->signal);
    for (size_t i = 0; i < AUDIT_TEXTS; i++) {
        buf_u16(out, row->texts[i].data ? (uint16_t)row->texts[i].len : NO_TEXT);
        buf_put(out, row->texts[i].data, row->texts[i].data ? row->texts[i].len : 0);
    }
}

bool audit_decode(struct view *from, struct audit_row *ret_row) {
    struct audit_row row = {.at_ms = view_u64(from)};
    row.bytes_in = view_u64(from);
    row.bytes_out = view_u64(from);
    row.duration_us = view_u64(from);
    row.count = view_u32(from);
    row.status = view_u32(from);
    uint8_t flags = view_u8(from);
    row.has_result = flags & FLAG_RESULT;
    row.exited = flags & FLAG_EXITED;
    row.timed_out = flags & FLAG_TIMED_OUT;
    row.oom_killed = flags & FLAG_OOM_KILLED;
    row.exit_code = (int32_t)view_u32(from);
    row.signal = (int32_t)view_u32(from);
    for (size_t i = 0; i < AUDIT_TEXTS; i++) {
        uint16_t len = view_u16(from);
        if (len != NO_TEXT)
            row.texts[i] = (struct audit_text){.data = (const char *)view_take(from, len), .len = len};
    }
    if (from->bad)
        return false;
    *ret_row = row;
    return true;
}

/* ---- similar rows ---- */

enum { AT_BYTES_IN = 8, AT_BYTES_OUT = 16, AT_DURATION = 24, AT_COUNT = 32, AT_STATUS = 36 };

/* Returns the length up to the request id, which is the last text. */
static size_t row_identity_len(const uint8_t *encoded, size_t len) {
    struct view rest = view_of(encoded, len);
    view_take(&rest, AT_STATUS + 4 + 1 + 4 + 4);
    for (int i = 0; i < AUDIT_REQUEST_ID; i++) {
        uint16_t text = view_u16(&rest);
        view_take(&rest, text == NO_TEXT ? 0 : text);
    }
    assert(!rest.bad);
    return len - rest.len;
}

bool audit_alike(const void *one, size_t one_len, const void *other, size_t other_len) {
    size_t len = row_identity_len(one, one_len);
    return len == row_identity_len(other, other_len) &&
           !memcmp((const uint8_t *)one + AT_STATUS, (const uint8_t *)other + AT_STATUS, len - AT_STATUS);
}

static void row_add_number(uint8_t *at, int bytes, uint64_t more) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    value += more;
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void audit_add(void *into, const struct audit_row *row) {
    row_add_number((uint8_t *)into + AT_BYTES_IN, 8, row->bytes_in);
    row_add_number((uint8_t *)into + AT_BYTES_OUT, 8, row->bytes_out);
    row_add_number((uint8_t *)into + AT_DURATION, 8, row->duration_us);
    row_add_number((uint8_t *)into + AT_COUNT, 4, row->count ? row->count : 1);
}

void audit_hash(const uint8_t before[32], uint64_t id, const void *encoded, size_t len, uint8_t ret_hash[32]) {
    uint8_t all[40 + AUDIT_ROW_BYTES];
    assert(len <= AUDIT_ROW_BYTES);
    memcpy(all, before, 32);
    for (int i = 0; i < 8; i++)
        all[32 + i] = (uint8_t)(id >> (8 * i));
    memcpy(all + 40, encoded, len);
    SHA256(all, 40 + len, ret_hash); /* OpenSSL's: ours would cost a third of a row */
}
