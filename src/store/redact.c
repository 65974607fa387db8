/* Replaces values of secrets. Called by the dialects for texts in the audit log. Invariant: a value is searched for in
 * the whole text, never in a cut one, which could contain half a secret. */
#include "base/base.h"
#include "store/redact.h"

void redact_add(struct redact *redact, const char *name, size_t name_len, const char *value, size_t len) {
    if (len < REDACT_MIN_BYTES)
        return;
    arena_add(redact->arena, redact->values, redact->count, redact->cap) =
        (struct redact_value){.name = name, .value = value, .name_len = name_len < 64 ? name_len : 64, .len = len};
    unsigned char byte = (unsigned char)*value;
    redact->first[byte / 8] |= (unsigned char)(1u << byte % 8);
}

void redact_env(struct redact *redact, const char *const *env) {
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (equals)
            redact_add(redact, *env, (size_t)(equals - *env), equals + 1, strlen(equals + 1));
    }
}

/* Returns the longest value that begins at text, or NULL. */
static const struct redact_value *redact_at(const struct redact *redact, const char *text, size_t len) {
    unsigned char byte = (unsigned char)*text;
    const struct redact_value *best = NULL;
    if (!(redact->first[byte / 8] >> byte % 8 & 1))
        return NULL;
    for (size_t i = 0; i < redact->count; i++) {
        const struct redact_value *value = &redact->values[i];
        if (value->len <= len && (!best || value->len > best->len) && !memcmp(value->value, text, value->len))
            best = value;
    }
    return best;
}

/* Returns how many bytes from text on are covered by overlapping values. */
static size_t redact_covered(const struct redact *redact, const char *text, size_t len, size_t covered) {
    for (size_t at = 1; at < covered && at < REDACT_SCAN_BYTES; at++) {
        const struct redact_value *value = redact_at(redact, text + at, len - at);
        if (value && at + value->len > covered)
            covered = at + value->len;
    }
    return covered;
}

bool redact_text(const struct redact *redact, struct buf *out, const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        const struct redact_value *value = redact_at(redact, text + at, len - at);
        size_t need = value ? value->name_len + 2 : 1;
        if (out->max - out->len < need || at >= REDACT_SCAN_BYTES)
            return true;
        if (value) {
            buf_byte(out, '[');
            buf_put(out, value->name, value->name_len);
            buf_byte(out, ']');
        } else {
            buf_byte(out, (uint8_t)text[at]);
        }
        at += value ? redact_covered(redact, text + at, len - at, value->len) : 1;
    }
    return false;
}
