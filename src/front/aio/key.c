/* Keys and tickets derived from one secret. Called by aio/aio.c before every handler, and for the URL of a box.
 * Invariant: comparisons take constant time. */
#include "front/aio/key.h"

#include <openssl/crypto.h>

#include "base/base.h"
#include "box/box.h"
#include "store/state_secret.h"

struct aio_key {
    struct state_secret secret;
};

int aio_key_open(const char *state_dir, struct aio_key **ret_key, struct err *err) {
    struct aio_key *key = xcalloc(1, sizeof *key);
    int failed = state_secret_open(state_dir, "aio-key", &key->secret, err);
    if (failed)
        aio_key_free(key);
    else
        *ret_key = key;
    return failed;
}

void aio_key_free(struct aio_key *key) {
    if (key)
        state_secret_done(&key->secret);
    free(key);
}

/* ---- derived keys ---- */

/* text: the purpose, so that a key for one use does not fit another. Writes 32 hex digits. */
static void key_derive(const struct aio_key *key, const char *text, char ret_digits[AIO_KEY_BYTES]) {
    uint8_t digest[32];
    state_secret_derive(&key->secret, text, digest);
    text_hex(ret_digits, digest, 16);
}

static bool key_same(const char *made, const char *text) {
    return strlen(text) == AIO_KEY_BYTES - 1 && !CRYPTO_memcmp(made, text, AIO_KEY_BYTES - 1);
}

void aio_key_make(const struct aio_key *key, const struct box *box, char ret_text[AIO_KEY_BYTES]) {
    char text[64];
    snprintf(text, sizeof text, "box %s %llu", box->id, (unsigned long long)box->created_ms);
    key_derive(key, text, ret_text);
}

bool aio_key_fits(const struct aio_key *key, const struct box *box, const char *text) {
    char made[AIO_KEY_BYTES];
    if (!key || !box)
        return false;
    aio_key_make(key, box, made);
    return key_same(made, text);
}

static void key_ticket_derive(const struct aio_key *key, const struct box *box, uint64_t until_ms,
                              char ret_digits[AIO_KEY_BYTES]) {
    char text[96];
    snprintf(text, sizeof text, "ticket %s %llu %llu", box->id, (unsigned long long)box->created_ms,
             (unsigned long long)until_ms);
    key_derive(key, text, ret_digits);
}

void aio_ticket_make(const struct aio_key *key, const struct box *box, uint64_t until_ms,
                     char ret_text[AIO_TICKET_BYTES]) {
    char digits[AIO_KEY_BYTES];
    key_ticket_derive(key, box, until_ms, digits);
    snprintf(ret_text, AIO_TICKET_BYTES, "%llu-%s", (unsigned long long)until_ms, digits);
}

bool aio_ticket_fits(const struct aio_key *key, const struct box *box, uint64_t now_ms, const char *text) {
    char number[24], made[AIO_KEY_BYTES];
    size_t len = strcspn(text, "-");
    uint64_t until_ms;
    if (!key || !box || !text[len] || len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = 0;
    if (!text_u64(number, INT64_MAX, &until_ms))
        return false;
    key_ticket_derive(key, box, until_ms, made);
    return key_same(made, text + len + 1) && now_ms < until_ms;
}
