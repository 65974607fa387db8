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

const char **bindings_env(const struct box *box, struct arena *arena) {
    const char **bindings = box_bindings(box, arena);
    size_t count = text_list_count((const char *const *)bindings);
    const char **env = count ? arena_alloc(arena, (count + 1) * sizeof *env) : NULL;
    for (size_t i = 0; i < count; i++)
        env[i] = strchr(bindings[i], '=') + 1; /* of NAME=VARIABLE=PLACEHOLDER the end is the variable */
    return env;
}
