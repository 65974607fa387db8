/* Bindings of boxes. Called by the provider and the verbs of commands, by box/secret/secret. Invariant: a list is
 * replaced whole, and copied under a lock: the verbs read it while another request changes it. */
#include "box/secret/binding.h"

#include <ctype.h>

#include "base/base.h"
#include "base/sync.h"

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

/* What programs that bring their own authorities look at (boxes that trust the seal alone). */
static const char *const binding_bundle_variables[] = {
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "HEX_CACERTS_PATH",
    "BUNDLE_SSL_CA_CERT",
    "YARN_HTTPS_CA_FILE_PATH",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "JULIA_SSL_CA_ROOTS_PATH",
    "HTTPLIB2_CA_CERTS",
    "CODEX_CA_CERTIFICATE",
    "PERL_LWP_SSL_CA_FILE",
};
static const char *const binding_other_variables[] = {"NODE_EXTRA_CA_CERTS=" AUTHORITY_CERTIFICATE,
                                                      "DENO_CERT=" AUTHORITY_CERTIFICATE, "UV_SYSTEM_CERTS=1"};

/* The box's own environment wins. */
static void binding_trust(const struct box *box, const char *variable, const char **env, size_t *count) {
    size_t name = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < box->spec.env_count; i++)
        if (strncmp(box->spec.env[i], variable, name) == 0)
            return;
    env[(*count)++] = variable;
}

const char **bindings_env(const struct box *box, struct arena *arena) {
    enum {
        BUNDLES = sizeof binding_bundle_variables / sizeof *binding_bundle_variables,
        OTHERS = sizeof binding_other_variables / sizeof *binding_other_variables,
    };
    const char **bindings = box_bindings(box, arena);
    bool trusts = atomic_load(&box->trusts);
    size_t bound = text_list_count((const char *const *)bindings), count = 0;
    if (!bound && !trusts)
        return NULL;
    const char **env = arena_alloc(arena, (bound + BUNDLES + OTHERS + 1) * sizeof *env);
    for (size_t i = 0; trusts && i < BUNDLES; i++)
        binding_trust(box, arena_printf(arena, "%s=" AUTHORITY_BUNDLE, binding_bundle_variables[i]), env, &count);
    for (size_t i = 0; trusts && i < OTHERS; i++)
        binding_trust(box, binding_other_variables[i], env, &count);
    for (size_t i = 0; i < bound; i++)
        env[count++] = strchr(bindings[i], '=') + 1; /* of NAME=VARIABLE=PLACEHOLDER the end is the variable */
    return env;
}
