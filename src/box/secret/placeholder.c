/* Placeholders. Called by binding.c and secret.c. Invariant: of a value a placeholder shows its public prefix, its
 * length and its punctuation, and nothing else. */
#include "base/base.h"
#include "box/secret/binding.h"

enum { PLACEHOLDER_LEAST = 24, PLACEHOLDER_RANDOM = 16 };

/* Beginnings of tokens that say what they are; clients check them. */
static const char *const placeholder_prefixes[] = {
    "sk-ant-api03-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk-",      "ghp_",     "gho_",     "ghs_",
    "ghu_",          "ghr_",    "glpat-",   "xoxb-",       "xoxp-",     "xapp-",    "npm_",     "pypi-",    "hf_",
    "AIza",          "AKIA",    "SG.",      "dop_v1_",     "shpat_",    "rk_live_", "sk_live_", "sk_test_", "r8_",
    "github_pat_",   "gsk_",    "pk_live_", "whsec_",      "lin_api_",  "ntn_",     "cubby_",
};

static size_t placeholder_prefix(const char *value, size_t len, const char *given) {
    size_t best = 0;
    for (size_t i = 0; i < sizeof placeholder_prefixes / sizeof *placeholder_prefixes; i++) {
        size_t n = strlen(placeholder_prefixes[i]);
        if (n <= len && n > best && memcmp(value, placeholder_prefixes[i], n) == 0)
            best = n;
    }
    size_t n = given ? strlen(given) : 0;
    return n && n <= len && memcmp(value, given, n) == 0 ? n : best;
}

static void placeholder_random(char *to, size_t len) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t done = 0; done < len;) { /* of 256 values 248 are taken: all letters are as likely */
        uint8_t random;
        xrandom(&random, 1);
        if (random < 248)
            to[done++] = letters[random % 62];
    }
}

/* From `at` on: the mark, then random characters; punctuation of `shape` stays where it is. */
static void placeholder_fill(char *text, size_t len, size_t at, const char *shape) {
    placeholder_random(text + at, len - at);
    for (size_t i = at; shape && i < len; i++)
        if (strchr("._-", shape[i]) && shape[i])
            text[i] = shape[i];
    memcpy(text + at, PLACEHOLDER_MARK, strlen(PLACEHOLDER_MARK));
}

/* How many characters from `at` on would be random. */
static size_t placeholder_room(const char *value, size_t len, size_t at) {
    size_t count = 0;
    for (size_t i = at + strlen(PLACEHOLDER_MARK); i < len; i++)
        count += !strchr("._-", value[i]);
    return count;
}

void placeholder_make(const void *value, size_t len, const char *prefix, struct buf *out) {
    size_t at = placeholder_prefix(value, len, prefix);
    bool same = len >= PLACEHOLDER_LEAST && placeholder_room(value, len, at) >= PLACEHOLDER_RANDOM;
    if (!same && at + strlen(PLACEHOLDER_MARK) + PLACEHOLDER_RANDOM > PLACEHOLDER_SHORT_BYTES)
        at = 0;
    size_t all = same ? len : PLACEHOLDER_SHORT_BYTES;
    char *text = (char *)buf_reserve(out, all);
    if (!text)
        return;
    memcpy(text, value, at);
    placeholder_fill(text, all, at, same ? value : NULL);
    out->len += all;
}

const char *placeholder_again(const char *placeholder, struct arena *arena) {
    char *text = arena_strdup(arena, placeholder);
    const char *mark = strstr(placeholder, PLACEHOLDER_MARK);
    placeholder_fill(text, strlen(text), mark ? (size_t)(mark - placeholder) : 0, placeholder);
    return text;
}
