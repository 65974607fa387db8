/* Contexts (context.h). Invariant: the token of a context is sent to the URL of that context and to no other. */
#include "cli/rest/context.h"

#include <jansson.h>
#include <libgen.h>

#include "backend/places.h"
#include "base/base.h"
#include "cli/cli.h"
#include "http/client/client.h"

#define CONFIG_BYTES (1 << 20)

static struct context now;
static const char *chosen;

void context_choose(const char *name) {
    chosen = name;
}

const char *context_path(struct arena *arena, const char *variable, const char *below_home, const char *name) {
    const char *dir = getenv(variable), *home = getenv("HOME");
    if (dir && *dir == '/')
        return arena_printf(arena, "%s/cubby/%s", dir, name);
    return home && *home == '/' ? arena_printf(arena, "%s/%s/cubby/%s", home, below_home, name) : NULL;
}

int context_write(const char *path, const void *data, size_t len, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    TRY(places_make(dirname(arena_strdup(&arena, path)), 0700, err));
    int code = fd_replace_file(AT_FDCWD, path, data, len);
    return code < 0 ? err_errno(err, -code, "cannot write %s", path) : 0;
}

static const char *context_file(struct arena *arena) {
    return context_path(arena, "XDG_CONFIG_HOME", ".config", "config");
}

json_t *context_load(void) {
    autoarena arena = ARENA_EMPTY;
    struct err err = {0};
    json_error_t why;
    const char *path = context_file(&arena);
    char *text = arena_alloc(&arena, CONFIG_BYTES + 1);
    ssize_t len = path ? fd_read_file(AT_FDCWD, path, text, CONFIG_BYTES) : -ENOENT;
    if (len == -ENOENT || len == -ENOTDIR)
        return json_pack("{s:{}}", "contexts");
    if (len < 0)
        cli_must(err_errno(&err, (int)-len, "cannot read %s", path), &err);
    json_t *config = json_loadb(text, (size_t)len, 0, &why);
    if (!json_is_object(json_object_get(config, "contexts")))
        cli_must(err_set(&err, ERR_INVALID, "%s is damaged (%s); remove it and run `cubby login` again", path,
                         config ? "it has no \"contexts\"" : why.text),
                 &err);
    return config;
}

int context_save(const json_t *config, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const char *path = context_file(&arena);
    if (!path)
        return err_set(err, ERR_INVALID, "neither XDG_CONFIG_HOME nor HOME names a directory to keep contexts in");
    char *text = json_dumps(config, JSON_INDENT(2));
    int code = text ? context_write(path, text, strlen(text), err)
                    : err_set(err, ERR_INTERNAL, "the contexts cannot be written as JSON");
    free(text);
    return code;
}

static const char *context_env(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *context_member(const json_t *entry, const char *key) {
    const char *value = json_string_value(json_object_get(entry, key));
    return value && *value ? value : NULL;
}

/* Takes a context of the file: by its name, or the one of that URL; the other is "". */
static bool context_take(const json_t *config, const char *name, const char *url) {
    const char *key;
    json_t *entry;
    json_object_foreach(json_object_get(config, "contexts"), key, entry) {
        const char *place = context_member(entry, "url");
        if (!place || (*name ? strcmp(key, name) != 0 : strcmp(place, url) != 0))
            continue;
        now = (struct context){key, place, context_member(entry, "token"), context_member(entry, "ca")};
        return true;
    }
    return false;
}

const struct context *context_now(void) {
    static json_t *config; /* its texts live as long as the process */
    struct err err = {0};
    const char *name = chosen ? chosen : context_env("CUBBY_CONTEXT");
    const char *url = name ? NULL : context_env("CUBBY_URL"), *token = name ? NULL : context_env("CUBBY_TOKEN");
    if (now.url)
        return &now;
    if (!(url && token)) /* otherwise the file is not needed */
        config = context_load();
    const char *current = url ? NULL : json_string_value(json_object_get(config, "current"));
    if (name && !context_take(config, name, ""))
        cli_must(err_set(&err, ERR_NOT_FOUND, "no context '%s'; `cubby context ls` lists them", name), &err);
    if (!name && !(current && context_take(config, current, "")) &&
        !context_take(config, "", url ? url : CONTEXT_DEFAULT_URL))
        now = (struct context){.url = url ? url : CONTEXT_DEFAULT_URL};
    now.token = token ? token : now.token;
    return &now;
}

int context_connect(const struct context *context, struct http_client **ret_client, struct err *err) {
    TRY(http_client_new(context->url, context->token, ret_client, err));
    int code = context->ca ? http_client_ca(*ret_client, context->ca, err) : 0;
    if (code < 0) {
        http_client_free(*ret_client);
        *ret_client = NULL;
    }
    return code;
}
