/* Bindings and placeholders. Called by the provider and the verbs of commands, by box/secret/secret. Invariant: of a
 * value a placeholder shows its public prefix, its length and its punctuation, and nothing else. */
#include "box/secret/binding.h"

#include <ctype.h>

#include "base/base.h"
#include "base/sync.h"

enum { PLACEHOLDER_LEAST = 24, PLACEHOLDER_RANDOM = 16 };

bool binding_parse(const char *text, struct arena *arena, struct binding *ret_binding) {
    char *copy = arena_strdup(arena, text), *variable = strchr(copy, '='),
         *placeholder = variable ? strchr(variable + 1, '=') : NULL;
    if (!placeholder)
        return false;
    *variable++ = 0;
    *placeholder++ = 0;
    *ret_binding = (struct binding){.secret = copy, .variable = variable, .placeholder = placeholder};
    return *copy && *variable && strstr(placeholder, PLACEHOLDER_MARK);
}

const char *binding_text(const struct binding *binding, struct arena *arena) {
    return arena_printf(arena, "%s=%s=%s", binding->secret, binding->variable, binding->placeholder);
}

const char *binding_variable(const char *secret, struct arena *arena) {
    char *name = arena_printf(arena, "%s%s", isdigit((unsigned char)*secret) ? "_" : "", secret);
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return name;
}

/* ---- placeholders ---- */

/* Beginnings of tokens that say what they are; clients check them. */
static const char *const placeholder_prefixes[] = {
    "sk-ant-api03-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk-",      "ghp_",     "gho_",     "ghs_",
    "ghu_",          "ghr_",    "glpat-",   "xoxb-",       "xoxp-",     "xapp-",    "npm_",     "pypi-",    "hf_",
    "AIza",          "AKIA",    "SG.",      "dop_v1_",     "shpat_",    "rk_live_", "sk_live_", "sk_test_", "r8_",
    "github_pat_",   "gsk_",    "pk_live_", "whsec_",      "lin_api_",  "ntn_",     "e2b_",     "cubby_",
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

/* ---- of a box ---- */

/* Held for as long as a list is copied: boxes without secrets do not take it. */
static pthread_mutex_t bindings_lock = PTHREAD_MUTEX_INITIALIZER;

static void bindings_free(const char **list) {
    for (size_t i = 0; list && list[i]; i++)
        free((char *)(uintptr_t)list[i]);
    free(list);
}

const char **box_bindings(const struct box *box, struct arena *arena) {
    if (!atomic_load(&box->bindings))
        return NULL;
    autolock(&bindings_lock);
    return arena_list(arena, atomic_load(&box->bindings), NULL);
}

void bindings_take(struct box *box, const char *const *bindings) {
    size_t count = text_list_count(bindings);
    const char **copy = count ? xcalloc(count + 1, sizeof *copy) : NULL;
    for (size_t i = 0; i < count; i++)
        copy[i] = xstrdup(bindings[i]);
    pthread_mutex_lock(&bindings_lock);
    const char **before = atomic_exchange(&box->bindings, copy);
    pthread_mutex_unlock(&bindings_lock);
    bindings_free(before);
}

void bindings_done(struct box *box) {
    bindings_free(atomic_load(&box->bindings));
}

const char **bindings_again(const char *const *bindings, struct arena *arena) {
    size_t count = text_list_count(bindings), made = 0;
    const char **list = count ? arena_alloc(arena, (count + 1) * sizeof *list) : NULL;
    for (size_t i = 0; i < count; i++) {
        struct binding binding;
        if (!binding_parse(bindings[i], arena, &binding))
            continue;
        binding.placeholder = placeholder_again(binding.placeholder, arena);
        list[made++] = binding_text(&binding, arena);
    }
    return list;
}

const char **bindings_env(const struct box *box, struct arena *arena) {
    const char **bindings = box_bindings(box, arena);
    size_t count = text_list_count((const char *const *)bindings);
    const char **env = count ? arena_alloc(arena, (count + 1) * sizeof *env) : NULL;
    for (size_t i = 0; i < count; i++)
        env[i] = strchr(bindings[i], '=') + 1; /* of NAME=VARIABLE=PLACEHOLDER the end is the variable */
    return env;
}
