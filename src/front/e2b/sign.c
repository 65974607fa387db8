/* Signatures of file URLs: "v1_" and the base64 of SHA-256("path:operation:user:token[:expiration]") without "=".
 * Called before routing, to find the sandbox, and by e2b_admit. Invariant: compared in constant time, and only boxes
 * of this dialect are looked at. */
#include "front/e2b/sign.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/url.h"
#include "front/e2b/record.h"

struct sign_query {
    const char *path, *operation, *user, *expires, *signature; /* "" or NULL: absent */
};

static bool sign_fits(const struct sign_query *query, const char *token) {
    uint8_t digest[32];
    autobuf raw = buf_max(LIMIT_HEAD_BYTES + 256), made = buf_max(64);
    buf_printf(&raw, "%s:%s:%s:%s", query->path, query->operation, query->user, token);
    if (query->expires)
        buf_printf(&raw, ":%s", query->expires);
    if (raw.failed)
        return false;
    SHA256((const unsigned char *)raw.data, raw.len, digest);
    text_base64(&made, digest, sizeof digest);
    size_t len = made.len;
    while (len && ((const char *)made.data)[len - 1] == '=')
        len--;
    const char *sent = query->signature;
    return sent && !strncmp(sent, "v1_", 3) && strlen(sent + 3) == len && !CRYPTO_memcmp(sent + 3, made.data, len);
}

/* ---- before routing ---- */

struct sign_search {
    struct http_request *request;
    const struct sign_query *query;
    const char *found;
};

static int sign_try(void *user, struct box *box) {
    struct sign_search *search = user;
    char token[E2B_TOKEN_BYTES];
    if (search->found || !e2b_record_has(search->request, box))
        return 0;
    e2b_token(e2b_state(search->request), box, false, token);
    if (sign_fits(search->query, token))
        search->found = arena_strdup(http_arena(search->request), box->id);
    return 0;
}

static void sign_parse(char *text, struct sign_query *query) {
    for (char *piece, *rest = text; (piece = strsep(&rest, "&"));) {
        char *value = strchr(piece, '=');
        if (!value)
            continue;
        *value++ = 0;
        const char **at = !strcmp(piece, "path")                   ? &query->path
                          : !strcmp(piece, "username")             ? &query->user
                          : !strcmp(piece, "signature")            ? &query->signature
                          : !strcmp(piece, "signature_expiration") ? &query->expires
                                                                   : NULL;
        if (at && url_decode(value, true) >= 0)
            *at = value;
    }
}

const char *e2b_sign_find(struct http_request *request, const char *target) {
    struct sign_query query = {.path = "", .user = "", .operation = "read"};
    if (strcmp(http_method(request), "POST") == 0)
        query.operation = "write";
    sign_parse(arena_strdup(http_arena(request), strchr(target, '?') + 1), &query);
    if (!query.signature || strlen(query.signature) > 64)
        return NULL;
    struct sign_search search = {.request = request, .query = &query};
    provider_each(front_of(request)->provider, sign_try, &search);
    return search.found;
}

/* ---- at admission ---- */

static const char *sign_value(const struct http_request *request, const char *name) {
    const char *value = http_query(request, name, NULL);
    return value ? value : "";
}

int e2b_sign_judge(struct http_request *request, const char *token, struct err *err) {
    struct sign_query query = {
        .path = sign_value(request, "path"),
        .operation = strcmp(http_method(request), "POST") == 0 ? "write" : "read",
        .user = sign_value(request, "username"),
        .expires = http_query(request, "signature_expiration", NULL),
        .signature = http_query(request, "signature", NULL),
    };
    uint64_t until_s = 0;
    if (!query.signature)
        return err_set(err, ERR_UNAUTHORIZED, "missing signature query parameter");
    if (!sign_fits(&query, token))
        return err_set(err, ERR_UNAUTHORIZED, "invalid signature");
    if (query.expires && (!text_u64(query.expires, INT64_MAX / 1000, &until_s) || until_s * 1000 < clock_wall_ms()))
        return err_set(err, ERR_UNAUTHORIZED, "signature is already expired");
    return 0;
}
