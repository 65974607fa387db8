/* The configuration of a container engine: registries of the file, and checks across options. Called by conf_file.c
 * through its table and by conf.c. Invariant: no error shows a password or a token, wherever it is set. */
#include "base/base.h"
#include "backend/reference.h"
#include "box/policy.h"
#include "daemon/conf_table.h"

enum { REGISTRIES_MAX = 256, SECRET_BYTES = 16 << 10 };

/* ---- registries: HOST: {username, password or password_file} or {token or token_file} ---- */

static int docker_check_registry(const struct docker_registry *registry, struct err *err) {
    bool password = registry->password || registry->password_file, token = registry->token || registry->token_file;
    const char *const files[] = {registry->password_file, registry->token_file};
    if ((registry->password && registry->password_file) || (registry->token && registry->token_file))
        return err_set(err, ERR_INVALID, "give a registry's secret either directly or by a file, not both");
    if (!token && !(registry->username && password))
        return err_set(err, ERR_INVALID,
                       "a registry needs 'username' and 'password' or 'password_file', or 'token' or "
                       "'token_file'");
    if (token && password)
        return err_set(err, ERR_INVALID, "a registry must have either a password or a token");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] && files[i][0] != '/')
            return err_set(err, ERR_INVALID, "password_file and token_file must be absolute paths");
    return 0;
}

#define SECRET(label, member)                                                                                          \
    { .name = (label), .type = ROW_TEXT, .offset = offsetof(struct docker_registry, member), .max = SECRET_BYTES }
static const struct row registry_rows[] = {SECRET("username", username),           SECRET("password", password),
                                           SECRET("password_file", password_file), SECRET("token", token),
                                           SECRET("token_file", token_file),       {.name = NULL}};

/* Returns the registry of an image's name; two spellings of Docker Hub are one. */
static const char *docker_registry_host(const char *text, struct arena *arena) {
    struct reference any;
    if (strchr(text, '/') || !reference_parse(arena_printf(arena, "%s/x", text), arena, &any))
        return NULL;
    bool hub = strcmp(any.registry, REFERENCE_HUB) == 0;
    return !hub || strcmp(any.path, "library/x") == 0 ? any.registry : NULL;
}

int conf_read_registries(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                         struct err *err) {
    static const char what[] = "a registry (username, password, password_file, token, token_file)";
    struct conf *conf = target->conf;
    TRY(rows_yaml_is(value, ROWS_YAML_MAP, option->name, REGISTRIES_MAX, err));
    struct docker_registry *registries = arena_alloc(&conf->arena, (value->count + 1) * sizeof *registries);
    for (size_t i = 0; i < value->count; i++) {
        const struct rows_yaml *item = &value->items[i];
        registries[i].host = docker_registry_host(item->key, &conf->arena);
        if (!registries[i].host) {
            err_set(err, ERR_INVALID, "'%.80s' is not a registry: HOST[:PORT] with a '.', a port or localhost",
                    item->key);
            return rows_yaml_at_key(item, err);
        }
        TRY(rows_yaml_bind(item, what, registry_rows, &conf->arena, &registries[i], err));
        if (docker_check_registry(&registries[i], err))
            return rows_yaml_at_key(item, err);
    }
    conf->docker.registries = registries;
    conf->docker.registry_count = value->count;
    return 0;
}

bool conf_same_registries(const struct conf *a, const struct conf *b) {
    const struct docker_settings *first = &a->docker, *second = &b->docker;
    for (size_t i = 0; first->registry_count == second->registry_count && i < first->registry_count; i++) {
        const char *one = (const char *)&first->registries[i], *other = (const char *)&second->registries[i];
        if (strcmp(first->registries[i].host, second->registries[i].host) != 0)
            return false;
        for (const struct row *row = registry_rows; row->name; row++)
            if (!conf_same_text(*(const char *const *)(one + row->offset), *(const char *const *)(other + row->offset)))
                return false;
    }
    return first->registry_count == second->registry_count;
}

/* ---- checks ---- */

int conf_check_images(const struct conf *conf, const struct conf_user *user, const struct conf_share *share,
                      struct err *err) {
    struct reference image;
    autoarena arena = ARENA_EMPTY;
    if (!reference_parse(share->docker_image, &arena, &image))
        return err_set(err, ERR_INVALID, "docker_image: '%.80s' is not an image name", share->docker_image);
    /* An empty list would mean no list, and so allow everything. */
    if (conf_given(conf, user, "docker_images") && !share->docker_images.count)
        return err_set(err, ERR_INVALID, "docker_images is empty; omit it to allow every image");
    for (size_t i = 0; i < share->docker_images.count; i++)
        if (!reference_pattern(share->docker_images.items[i]))
            return err_set(err, ERR_INVALID, "docker_images: '%.80s' is not a pattern of images",
                           share->docker_images.items[i]);
    for (size_t i = 0; i < share->docker_runtimes.count; i++)
        if (!container_runtime(share->docker_runtimes.items[i]))
            return err_set(err, ERR_INVALID, "docker_runtimes: '%.80s' is not a runtime name",
                           share->docker_runtimes.items[i]);
    if (share->docker_runtime && !container_runtime(share->docker_runtime))
        return err_set(err, ERR_INVALID, "docker_runtime: '%.80s' is not a runtime name", share->docker_runtime);
    return 0;
}

int conf_check_docker(const struct conf *conf, struct err *err) {
    const struct docker_settings *docker = &conf->docker;
    const char *host = docker->host, *network = docker->network;
    if (host && strncmp(host, "unix:///", 8) != 0 && strncmp(host, "tcp://", 6) != 0)
        return err_set(err, ERR_INVALID, "docker_host must be unix:///PATH or tcp://HOST:PORT, not '%.100s'", host);
    if (docker->cert_dir && docker->cert_dir[0] != '/')
        return err_set(err, ERR_INVALID, "docker_cert_dir must be an absolute path");
    if ((docker->cert_dir || docker->tls) && host && strncmp(host, "unix:", 5) == 0)
        return err_set(err, ERR_INVALID, "docker_tls and docker_cert_dir are for tcp:// engines; docker_host is %.100s",
                       host);
    if (network && (!container_runtime(network) || strcmp(network, "host") == 0 || strcmp(network, "none") == 0))
        return err_set(
            err, ERR_INVALID,
            "docker_network must be the name of a network of the engine, and neither 'host', which boxes never "
            "get, nor 'none'");
    return 0;
}
