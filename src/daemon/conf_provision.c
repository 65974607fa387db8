/* The configuration of a gateway's boxes: checks it, reads its key, and adds the directories that may be mounted.
 * Called by conf.c. Invariant: no error shows the key. */
#include "base/base.h"
#include "backend/backend.h"
#include "daemon/conf_table.h"

enum { KEY_BYTES = 4096 };

/* Reads the key, without a newline after it. */
static int provision_key_read(struct conf *conf, struct err *err) {
    char text[KEY_BYTES + 2];
    const char *path = conf->provision_key_file;
    struct stat status;
    if (conf->provision.api_key)
        return err_set(err, ERR_INVALID, "deerflow_api_key and deerflow_api_key_file: give one of them");
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "cannot read deerflow_api_key_file '%.200s'", path);
    if (!S_ISREG(status.st_mode) || status.st_mode & 022)
        return err_set(err, ERR_INVALID, "deerflow_api_key_file '%.200s' must be a file that only its owner can write",
                       path);
    ssize_t len = fd_read_full(fd, text, KEY_BYTES + 1);
    if (len < 0 || len > KEY_BYTES)
        return err_set(err, ERR_INVALID, "deerflow_api_key_file '%.200s': more than %d bytes", path, KEY_BYTES);
    text[len] = 0;
    text[strcspn(text, "\r\n")] = 0;
    conf->provision.api_key = arena_strdup(&conf->arena, text);
    explicit_bzero(text, sizeof text);
    return 0;
}

/* Returns the part of a mount's source that is the same for every box, in which links belong to the administrator. */
static const char *provision_source_fixed(struct arena *arena, const char *source) {
    size_t len = strcspn(source, "{");
    if (!source[len]) /* nothing to expand; the directory of a file */
        return source;
    while (len > 1 && source[len - 1] != '/')
        len--;
    return arena_copy(arena, source, len > 1 ? len - 1 : 1);
}

static int provision_words_check(const struct provision_settings *provision, const char *url, struct err *err) {
    if (provision->home && (strlen(provision->home) > LIMIT_PATH_BYTES || !path_normal(provision->home)))
        return err_set(err, ERR_INVALID,
                       "deerflow_home '%.200s' must be an absolute path below /, without '.', '..' or '//'",
                       provision->home);
    if (url && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return err_set(err, ERR_INVALID, "deerflow_url must begin with http:// or https://");
    if (url && (strlen(url) > LIMIT_PATH_BYTES || strpbrk(url, " ?#\"'<>\\\r\n\t")))
        return err_set(err, ERR_INVALID, "deerflow_url must be the beginning of a URL: http://HOST[:PORT][/PATH]");
    if (provision->backend && !backend_find(provision->backend))
        return err_set(err, ERR_INVALID, "deerflow_backend: unknown backend '%.60s'", provision->backend);
    return 0;
}

int conf_provision(struct conf *conf, struct err *err) {
    struct provision_settings *provision = &conf->provision;
    TRY(provision_words_check(provision, conf->deerflow_url, err));
    if (conf->provision_key_file)
        TRY(provision_key_read(conf, err));
    for (const char *key = provision->api_key, *at = key; key && (*at || at == key); at++)
        if (*at < 0x21 || *at > 0x7e)
            return err_set(err, ERR_INVALID, "deerflow_api_key: %s",
                           *key ? "a key is printable ASCII without spaces" : "the key is empty");
    provision->env = (const char *const *)conf->provision_env.items;
    provision->mounts = conf->provision_mounts.items;
    provision->mount_count = conf->provision_mounts.count;
    if (provision->home)
        rows_texts_add(&conf->arena, &conf->dialect_sources, provision->home);
    for (size_t i = 0; i < provision->mount_count; i++)
        rows_texts_add(&conf->arena, &conf->dialect_sources,
                       provision_source_fixed(&conf->arena, provision->mounts[i].source));
    return 0;
}
