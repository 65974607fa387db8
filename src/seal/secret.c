/* The secrets of the box: who gets them, where they stand, and what comes back. Called by http.c. Invariants: a value
 * is put nowhere but into a named slot of a request to a bound host; replacing a value never changes a length. */
#include <ctype.h>
#include <strings.h>

#include "base/url.h"
#include "seal/seal.h"

struct seal_secret *secrets;
size_t secret_count;

static const char *const secret_headers[] = {"x-api-key",     "api-key",      "x-goog-api-key",
                                             "private-token", "x-auth-token", "x-access-token"};

static char **secret_list(const json_t *list) {
    size_t count = json_array_size(list);
    char **copy = xcalloc(count + 1, sizeof *copy);
    for (size_t i = 0, n = 0; i < count; i++)
        if (json_string_value(json_array_get(list, i)))
            copy[n++] = xstrdup(json_string_value(json_array_get(list, i)));
    return copy;
}

void secrets_read(const json_t *list) {
    secret_count = json_array_size(list) > 64 ? 64 : json_array_size(list);
    secrets = xcalloc(secret_count + 1, sizeof *secrets);
    for (size_t i = 0; i < secret_count; i++) {
        const json_t *item = json_array_get(list, i);
        struct seal_secret *secret = &secrets[i];
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *placeholder = json_string_value(json_object_get(item, "placeholder"));
        secret->name = xstrdup(name ? name : "");
        secret->placeholder = xstrdup(placeholder ? placeholder : "");
        secret->hosts = secret_list(json_object_get(item, "hosts"));
        secret->slots = secret_list(json_object_get(item, "slots"));
        secret->methods = secret_list(json_object_get(item, "methods"));
        secret->paths = secret_list(json_object_get(item, "paths"));
        secret->ports = secret_list(json_object_get(item, "ports"));
        secret->strict = json_is_true(json_object_get(item, "strict"));
        buf_init(&secret->value, LIMIT_SECRET_VALUE_BYTES + 1);
    }
}

bool secret_bound(const struct seal_secret *secret, const char *host, uint16_t port) {
    bool named = gate_host_listed((const char *const *)secret->hosts, host), at = !*secret->ports && port == 443;
    for (char **number = secret->ports; *number; number++)
        at |= strtoul(*number, NULL, 10) == port;
    return named && at;
}

uint64_t secrets_for(const char *host, uint16_t port) {
    uint64_t bits = headers_secrets(host, port);
    for (size_t i = 0; i < secret_count; i++)
        bits |= (uint64_t)secret_bound(&secrets[i], host, port) << i;
    return bits;
}

struct seal_secret *secret_named(const char *name) {
    for (size_t i = 0; i < secret_count; i++)
        if (strcmp(secrets[i].name, name) == 0)
            return &secrets[i];
    return NULL;
}

/* ---- values ---- */

bool secrets_ready(const char *host, uint16_t port) {
    bool ready = true;
    uint64_t wanted = secrets_for(host, port);
    for (size_t i = 0; i < secret_count; i++) {
        struct seal_secret *secret = &secrets[i];
        if (!(wanted >> i & 1) || secret->until_ms > clock_ms())
            continue;
        ready = false;
        if (!secret->asked)
            seal_send('W', secret->name, NULL);
        secret->asked = true;
    }
    return ready;
}

static void secret_wipe(struct seal_secret *secret) {
    if (secret->value.data)
        explicit_bzero(secret->value.data, secret->value.len);
    buf_clear(&secret->value);
    secret->error[0] = 0;
    secret->until_ms = 0;
}

void secrets_value(const char *name, uint64_t ttl_ms, const char *value, size_t len) {
    struct seal_secret *secret = secret_named(name);
    if (!secret)
        return;
    secret_wipe(secret);
    buf_put(&secret->value, value, len);
    buf_cstr(&secret->value);
    secret->asked = false;
    secret->until_ms = clock_ms() + (ttl_ms ? ttl_ms : SEAL_VALUE_MS);
}

/* The reason counts as an answer for a moment: a request that waits is refused with it. */
void secrets_error(const char *name, const char *why) {
    struct seal_secret *secret = secret_named(name);
    if (!secret)
        return;
    secret_wipe(secret);
    snprintf(secret->error, sizeof secret->error, "%s", why);
    secret->asked = false;
    secret->until_ms = clock_ms() + SEAL_VALUE_MS;
}

void secrets_forget(void) {
    for (size_t i = 0; i < secret_count; i++)
        secrets[i].until_ms = 0;
}

/* ---- swapping ---- */

static bool secret_separates(char c) {
    return !c || strchr(" ;,=\"", c);
}

bool swap_token(const char *text, const char *placeholder, const char *value, size_t len, struct buf *out) {
    const char *at = text;
    size_t size = strlen(placeholder);
    bool found = false;
    for (const char *hit; size && (hit = strstr(at, placeholder)); at = hit + size) {
        bool whole = (hit == text || secret_separates(hit[-1])) && secret_separates(hit[size]);
        buf_put(out, at, (size_t)(hit - at));
        buf_put(out, whole ? value : placeholder, whole ? len : size);
        found |= whole;
    }
    buf_puts(out, at);
    return found;
}

/* "Basic" and base64 of USER:PASSWORD, either of which may be the placeholder. */
bool swap_basic(const char *text, const char *placeholder, const char *value, size_t len, struct buf *out) {
    autobuf pair = buf_max(16384), fresh = buf_max(32768);
    if (strncasecmp(text, "basic ", 6) != 0 || !text_unbase64(&pair, text + 6, strlen(text + 6)) || !buf_cstr(&pair) ||
        memchr(pair.data, 0, pair.len))
        return false;
    char *user = (char *)pair.data, *password = strchr(user, ':');
    if (!password)
        return false;
    *password++ = 0;
    bool user_is = strcmp(user, placeholder) == 0, password_is = strcmp(password, placeholder) == 0;
    if (!user_is && !password_is)
        return false;
    buf_put(&fresh, user_is ? value : user, user_is ? len : strlen(user));
    buf_byte(&fresh, ':');
    buf_put(&fresh, password_is ? value : password, password_is ? len : strlen(password));
    buf_put(out, text, 6);
    text_base64(out, fresh.data, fresh.len);
    explicit_bzero(fresh.data, fresh.len);
    return true;
}

static bool secret_slot(const struct seal_secret *secret, const char *field) {
    if (!*secret->slots) {
        bool usual = strcmp(field, "authorization") == 0;
        for (size_t i = 0; i < sizeof secret_headers / sizeof *secret_headers; i++)
            usual |= strcmp(field, secret_headers[i]) == 0;
        return usual;
    }
    for (char **slot = secret->slots; *slot; slot++)
        if ((strcmp(*slot, "authorization") == 0 && strcmp(field, "authorization") == 0) ||
            (strncmp(*slot, "header:", 7) == 0 && strcasecmp(*slot + 7, field) == 0))
            return true;
    return false;
}

void secret_percent(struct buf *out, const char *value, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)value[i]) || strchr("-._~", value[i]))
            buf_byte(out, (uint8_t)value[i]);
        else
            buf_printf(out, "%%%02X", (unsigned char)value[i]);
}

/* The parameter NAME of the query whose value is the placeholder; or a segment of the path that ends with it. */
static bool secret_in_target(const struct seal_secret *secret, const char *slot, const char *target, struct buf *out) {
    const char *query = strchr(target, '?'), *hit = strstr(target, secret->placeholder);
    size_t size = strlen(secret->placeholder);
    if (!hit)
        return false;
    bool fits;
    if (strncmp(slot, "query:", 6) == 0) {
        size_t name = strlen(slot + 6);
        fits = query && hit > query + name + 1 && hit[-1] == '=' && strncmp(hit - 1 - name, slot + 6, name) == 0 &&
               strchr("?&", hit[-2 - (ptrdiff_t)name]) && (!hit[size] || strchr("&#", hit[size]));
    } else {
        fits = (!query || hit < query) && (!hit[size] || strchr("/?", hit[size]));
    }
    if (!fits)
        return false;
    buf_put(out, target, (size_t)(hit - target));
    secret_percent(out, (const char *)secret->value.data, secret->value.len);
    buf_puts(out, hit + size);
    return true;
}

bool secret_rule_fits(const struct seal_secret *secret, const char *method, const char *path) {
    bool by_method = !*secret->methods, by_path = !*secret->paths;
    for (char **word = secret->methods; *word; word++)
        by_method |= strcmp(*word, method) == 0;
    for (char **pattern = secret->paths; *pattern; pattern++)
        by_path |= gate_path_fits(*pattern, path);
    return by_method && by_path;
}

/* Whether the secret's placeholder stands in one of its slots: *ret_text is that text with the value. */
static bool secret_swap_field(const struct seal_secret *secret, const struct http_field *field, struct buf *ret_text) {
    const char *value = secret->value.data ? (const char *)secret->value.data : "";
    if (!secret_slot(secret, field->name))
        return false;
    if (strcmp(field->name, "authorization") == 0 &&
        swap_basic(field->value, secret->placeholder, value, secret->value.len, ret_text))
        return true;
    if (!strstr(field->value, secret->placeholder))
        return false;
    buf_clear(ret_text);
    return swap_token(field->value, secret->placeholder, value, secret->value.len, ret_text);
}

enum seal_swap secret_may(const struct seal_secret *secret, const char *method, const char *path,
                          char why[GATE_WHY_BYTES]) {
    if (!secret_rule_fits(secret, method, path)) {
        snprintf(why, GATE_WHY_BYTES, "secret '%s' is not for %s %.100s", secret->name, method, path);
        return SWAP_DENIED;
    }
    if (!secret->value.len) {
        snprintf(why, GATE_WHY_BYTES, "%s", secret->error[0] ? secret->error : "the secret is not available");
        return SWAP_LACKS;
    }
    return SWAP_DONE;
}

/* The word around the mark of a placeholder; the first one counts. */
static void secret_misused(const char *text, struct buf *out) {
    const char *mark = strstr(text, "cubbyX"), *from = mark, *to = mark;
    if (!mark || out->len)
        return;
    while (from > text && (isalnum((unsigned char)from[-1]) || strchr("_.-", from[-1])))
        from--;
    while (*to && (isalnum((unsigned char)*to) || strchr("_.-", *to)))
        to++;
    buf_put(out, from, (size_t)(to - from));
    buf_cstr(out);
}

/* In the path and the query. */
static enum seal_swap secret_swap_target(const struct seal_request *request, const char *host, uint16_t port,
                                         const char *path, struct buf *target, uint64_t *ret_swapped,
                                         char why[GATE_WHY_BYTES]) {
    autobuf text = buf_max(target->max);
    buf_puts(target, request->target);
    for (size_t i = 0; i < secret_count; i++) {
        struct seal_secret *secret = &secrets[i];
        if (!secret_bound(secret, host, port))
            continue;
        for (char **slot = secret->slots; *slot; slot++) {
            buf_clear(&text);
            if ((strcmp(*slot, "path") != 0 && strncmp(*slot, "query:", 6) != 0) ||
                !secret_in_target(secret, *slot, buf_cstr(target), &text))
                continue;
            enum seal_swap may = secret_may(secret, request->method, path, why);
            if (may != SWAP_DONE)
                return may;
            buf_clear(target);
            buf_put(target, text.data, text.len);
            *ret_swapped |= 1ull << i;
        }
    }
    if (text.data)
        explicit_bzero(text.data, text.len);
    return SWAP_DONE;
}

enum seal_swap secret_swap(const struct seal_request *request, const char *host, uint16_t port, struct buf *out,
                           uint64_t *ret_swapped, struct buf *ret_misuse, char why[GATE_WHY_BYTES]) {
    autobuf text = buf_max(LIMIT_HEAD_BYTES + LIMIT_SECRET_VALUE_BYTES), target = buf_max(LIMIT_HEAD_BYTES + 3 * 8192);
    autobuf path = buf_max(LIMIT_HEAD_BYTES);
    bool seen[LIMIT_HEADERS] = {0}, any = secrets_for(host, port);
    struct seal_headers headers;
    buf_put(&path, request->target, strcspn(request->target, "?"));
    headers_for(host, port, request->method, buf_cstr(&path), &headers);
    enum seal_swap at_target = secret_swap_target(request, host, port, buf_cstr(&path), &target, ret_swapped, why);
    if (at_target != SWAP_DONE)
        return at_target;
    if (request->body) {
        enum seal_swap may = body_swap(request, host, port, buf_cstr(&path), request->body, ret_swapped, why);
        if (may != SWAP_DONE)
            return may;
    }
    buf_printf(out, "%s ", request->method);
    buf_put(out, target.data, target.len);
    buf_puts(out, " HTTP/1.1\r\n");
    for (size_t k = 0; k < request->words.count; k++) {
        const struct http_field *field = &request->fields[k];
        const char *shown = field->value;
        if ((strcmp(field->name, "accept-encoding") == 0 && any) || header_named(&headers, field->name))
            continue;
        if (request->body && strcmp(field->name, "expect") == 0)
            continue; /* it has come */
        if (request->body && strcmp(field->name, "content-length") == 0) {
            buf_printf(out, "content-length: %zu\r\n", request->body->len);
            continue;
        }
        for (size_t j = 0; strcmp(field->name, "connection") == 0 && j < headers.count; j++)
            if (http_list_has(field->value, headers.list[j]->name))
                return snprintf(why, GATE_WHY_BYTES, "Connection names a header that the policy sets"), SWAP_DENIED;
        for (size_t j = 0; j < k; j++) /* the first of a name is the one that counts */
            seen[k] |= strcmp(request->fields[j].name, field->name) == 0;
        for (size_t i = 0; i < secret_count && !seen[k]; i++) {
            buf_clear(&text);
            if (!secret_bound(&secrets[i], host, port) || !secret_swap_field(&secrets[i], field, &text))
                continue;
            enum seal_swap may = secret_may(&secrets[i], request->method, buf_cstr(&path), why);
            if (may != SWAP_DONE)
                return may;
            *ret_swapped |= 1ull << i;
            shown = buf_cstr(&text);
            break;
        }
        secret_misused(shown, ret_misuse);
        buf_printf(out, "%s: ", field->name);
        buf_puts(out, shown);
        buf_puts(out, "\r\n");
    }
    for (size_t i = 0; i < headers.count; i++) {
        enum seal_swap may =
            header_put(headers.list[i], host, port, request->method, buf_cstr(&path), out, ret_swapped, why);
        if (may != SWAP_DONE)
            return may;
    }
    if (any)
        buf_puts(out, "accept-encoding: identity\r\n");
    secret_misused(buf_cstr(&target), ret_misuse);
    buf_puts(out, "\r\n");
    if (request->body)
        buf_put(out, request->body->data, request->body->len);
    if (text.data)
        explicit_bzero(text.data, text.len);
    return out->failed ? (snprintf(why, GATE_WHY_BYTES, "the request's head is too large"), SWAP_DENIED) : SWAP_DONE;
}

/* ---- what comes back ---- */

static void secret_scrub_add(struct conceal *scrub, const struct buf *from, const struct buf *to) {
    if (from->len >= LIMIT_SECRET_VALUE_LEAST && from->len == to->len)
        conceal_swap(scrub, from->data, to->data, from->len);
}

static void secret_scrub_coded(const char *text, size_t len, size_t shift, bool url, struct buf *out) {
    autobuf plain = buf_max(len + 4);
    buf_put(&plain, "\0\0", shift);
    buf_put(&plain, text, len);
    text_base64(out, plain.data, plain.len);
    explicit_bzero(plain.data, plain.len);
    for (size_t i = 0; url && i < out->len; i++)
        out->data[i] = out->data[i] == '+' ? '-' : out->data[i] == '/' ? '_' : out->data[i];
}

/* Of base64 and base64url, at each alignment, the characters that the value alone decides. */
static void secret_scrub_base64(struct conceal *scrub, const char *value, const char *mask, size_t len) {
    for (size_t shift = 0; shift < 3; shift++)
        for (int url = 0; url < 2; url++) {
            autobuf from = buf_max(2 * len + 16), to = buf_max(2 * len + 16);
            size_t all = shift + len, skip = shift ? shift + 1 : 0, end = all / 3 * 4 + all % 3;
            secret_scrub_coded(value, len, shift, url, &from);
            secret_scrub_coded(mask, len, shift, url, &to);
            if (!from.failed && !to.failed && end > skip)
                conceal_swap(scrub, from.data + skip, to.data + skip, end - skip);
        }
}

struct conceal *secret_scrub(const char *host, uint16_t port, bool *ret_strict) {
    struct conceal *scrub = NULL;
    const uint64_t used = secrets_for(host, port);
    for (size_t i = 0; i < secret_count; i++) {
        const struct seal_secret *secret = &secrets[i];
        if (!(used >> i & 1) || secret->value.len < LIMIT_SECRET_VALUE_LEAST)
            continue;
        *ret_strict |= secret->strict;
        if (!scrub)
            scrub = conceal_swaps();
        size_t len = secret->value.len;
        const char *value = (const char *)secret->value.data;
        autobuf mask = buf_max(len + 1), coded = buf_max(4 * len), coded_mask = buf_max(4 * len);
        for (size_t k = 0, has = strlen(secret->placeholder); k < len; k++)
            buf_byte(&mask, k < has ? (uint8_t)secret->placeholder[k] : 'X');
        conceal_swap(scrub, value, mask.data, len);
        secret_scrub_base64(scrub, value, (const char *)mask.data, len);
        secret_percent(&coded, value, len);
        for (size_t k = 0; k < coded.len; k++)
            buf_byte(&coded_mask, k < mask.len ? mask.data[k] : 'X');
        secret_scrub_add(scrub, &coded, &coded_mask);
        buf_clear(&coded);
        buf_clear(&coded_mask);
        for (size_t k = 0; k < len; k++) { /* in JSON a quote, a backslash and often a slash have one before them */
            if (strchr("\"\\/", value[k]))
                buf_byte(&coded, '\\');
            buf_byte(&coded, (uint8_t)value[k]);
        }
        for (size_t k = 0; k < coded.len; k++)
            buf_byte(&coded_mask, k < mask.len ? mask.data[k] : 'X');
        secret_scrub_add(scrub, &coded, &coded_mask);
        explicit_bzero(coded.data, coded.len);
    }
    return scrub;
}
