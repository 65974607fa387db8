/* Secrets in bodies of requests: a field of a form, or a member of JSON. Called by secret.c and http.c. Invariants: only
 * the named field is changed, every other byte stays; a body that has to be looked into is whole, or it is refused. */
#include <jansson.h>
#include <strings.h>

#include "seal/seal.h"

/* "form:" or "json:" where the request's Content-Type is that; NULL: neither. */
static const char *body_kind(const struct seal_request *request) {
    const char *type = request_field(request, "content-type");
    size_t len = type ? strcspn(type, "; \t") : 0;
    if (len == 33 && strncasecmp(type, "application/x-www-form-urlencoded", len) == 0)
        return "form:";
    bool json = (len == 16 && strncasecmp(type, "application/json", len) == 0) ||
                (len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0);
    return json ? "json:" : NULL;
}

static bool body_slot(const struct seal_secret *secret, const char *kind) {
    for (char **slot = secret->slots; *slot; slot++)
        if (strncmp(*slot, kind, 5) == 0)
            return true;
    return false;
}

const char *request_field(const struct seal_request *request, const char *name) {
    for (size_t i = 0; i < request->words.count; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return NULL;
}

bool body_wanted(const struct seal_request *request, const char *host, uint16_t port, const char *path) {
    const char *kind = body_kind(request);
    bool wanted = false;
    for (size_t i = 0; kind && i < secret_count; i++)
        wanted |= secret_bound(&secrets[i], host, port) && body_slot(&secrets[i], kind) &&
                  secret_rule_fits(&secrets[i], request->method, path);
    return wanted && (request->chunked || request->length);
}

const char *body_unreadable(const struct seal_request *request, int *ret_status) {
    const char *coding = request_field(request, "content-encoding");
    *ret_status = request->chunked ? 411 : coding ? 415 : 413;
    return request->chunked ? "a secret may be in this body, which needs a Content-Length to be read"
           : coding && strcasecmp(coding, "identity") != 0 ? "a secret may be in this body, which is encoded"
           : request->length > SEAL_BODY_BYTES
               ? "a secret may be in this body, which is larger than the 65536 bytes that are looked into"
               : NULL;
}

/* ---- a form ---- */

static bool body_form(const struct seal_secret *secret, const char *name, struct buf *body) {
    autobuf fresh = buf_max(4 * SEAL_BODY_BYTES);
    size_t name_len = strlen(name), size = strlen(secret->placeholder);
    const char *at = (const char *)body->data, *end = at + body->len;
    bool found = false;
    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at)), *stop = next ? next : end;
        bool is = (size_t)(stop - at) == name_len + 1 + size && memcmp(at, name, name_len) == 0 &&
                  at[name_len] == '=' && memcmp(at + name_len + 1, secret->placeholder, size) == 0;
        buf_put(&fresh, at, is ? name_len + 1 : (size_t)(stop - at));
        if (is)
            secret_percent(&fresh, (const char *)secret->value.data, secret->value.len);
        if (next)
            buf_byte(&fresh, '&');
        found |= is;
        at = next ? next + 1 : end;
    }
    if (found && !fresh.failed) {
        explicit_bzero(body->data, body->len);
        buf_clear(body);
        buf_put(body, fresh.data, fresh.len);
    }
    if (fresh.data)
        explicit_bzero(fresh.data, fresh.len);
    return found && !fresh.failed;
}

/* ---- JSON ---- */

/* RFC 6901. */
static const json_t *body_pointer(const json_t *at, const char *pointer) {
    while (at && *pointer == '/') {
        autobuf key = buf_max(256);
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            bool escaped = *pointer == '~' && (pointer[1] == '0' || pointer[1] == '1');
            buf_byte(&key, escaped ? (pointer[1] == '0' ? '~' : '/') : (uint8_t)*pointer);
            pointer += escaped;
        }
        const char *word = buf_cstr(&key);
        uint64_t index;
        at = json_is_object(at)                                           ? json_object_get(at, word ? word : "")
             : json_is_array(at) && word && text_u64(word, 65535, &index) ? json_array_get(at, index)
                                                                          : NULL;
    }
    return at;
}

static bool body_points(const void *text, size_t len, const char *pointer, const char *placeholder) {
    json_auto_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *value = json_string_value(body_pointer(root, pointer));
    return value && strcmp(value, placeholder) == 0;
}

static void body_quote(struct buf *out, const char *value, size_t len) {
    for (size_t i = 0; i < len; i++) { /* visible ASCII alone */
        if (strchr("\"\\", value[i]))
            buf_byte(out, '\\');
        buf_byte(out, (uint8_t)value[i]);
    }
}

/* The placeholder may stand in other members, too: the one that the pointer means is the one without which it points to
 * something else. */
static bool body_json(const struct seal_secret *secret, const char *pointer, struct buf *body) {
    size_t size = strlen(secret->placeholder), from = 0;
    if (!size || !body_points(body->data, body->len, pointer, secret->placeholder))
        return false;
    for (int tries = 0; tries < SEAL_BODY_TRIES; tries++) {
        uint8_t *hit = memmem(body->data + from, body->len - from, secret->placeholder, size);
        if (!hit)
            return false;
        uint8_t first = *hit;
        *hit = first == 'x' ? 'y' : 'x';
        bool other = !body_points(body->data, body->len, pointer, secret->placeholder);
        *hit = first;
        from = (size_t)(hit - body->data) + size;
        if (!other)
            continue;
        autobuf rest = buf_max(SEAL_BODY_BYTES);
        buf_put(&rest, hit + size, body->len - from);
        body->len = from - size;
        body_quote(body, (const char *)secret->value.data, secret->value.len);
        buf_put(body, rest.data, rest.len);
        return !body->failed;
    }
    return false;
}

enum seal_swap body_swap(const struct seal_request *request, const char *host, uint16_t port, const char *path,
                         struct buf *body, uint64_t *ret_swapped, char why[GATE_WHY_BYTES]) {
    const char *kind = body_kind(request);
    for (size_t i = 0; kind && i < secret_count; i++) {
        const struct seal_secret *secret = &secrets[i];
        if (!secret_bound(secret, host, port) || !secret_rule_fits(secret, request->method, path) ||
            !memmem(body->data, body->len, secret->placeholder, strlen(secret->placeholder)))
            continue;
        for (char **slot = secret->slots; *slot; slot++) {
            if (strncmp(*slot, kind, 5) != 0)
                continue;
            enum seal_swap may = secret_may(secret, request->method, path, why);
            if (may != SWAP_DONE)
                return may;
            if (kind[0] == 'f' ? body_form(secret, *slot + 5, body) : body_json(secret, *slot + 5, body))
                *ret_swapped |= 1ull << i;
        }
    }
    return SWAP_DONE;
}
