/* How the API server is reached: options, the pod's own cluster, or a kubeconfig with its certificates, tokens and exec
 * plugins. Called by kube.c. Invariant: what is not supported is refused by name; a key or a token is never in an
 * error. */
#include <poll.h>
#include <sys/mman.h>
#include <yaml.h>

#include "backend/k8s/kube.h"
#include "backend/spawn.h"
#include "base/base.h"

enum { CONFIG_BYTES = 1 << 20, CONFIG_DEPTH = 16, CONFIG_NODES = 20000, EXEC_BYTES = 256 << 10, EXEC_MS = 30000 };
#define CONFIG_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

void kube_access_done(struct kube_access *access) {
    char *texts[] = {access->server, access->name_space, access->ca,           access->cert,    access->key,
                     access->token,  access->token_file, access->exec.command, access->exec.dir};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    char **lists[] = {access->exec.words, access->exec.env};
    for (size_t i = 0; i < 2; i++) {
        for (char **word = lists[i]; word && *word; word++)
            free(*word);
        free(lists[i]);
    }
    for (size_t i = 0; i < 3; i++)
        fd_close(&access->fds[i]);
    *access = (struct kube_access){.fds = {-1, -1, -1}};
}

/* ---- YAML as JSON ---- */

static json_t *config_node(yaml_document_t *document, int index, unsigned depth, unsigned *nodes) {
    const yaml_node_t *node = yaml_document_get_node(document, index);
    if (!node || depth > CONFIG_DEPTH || ++*nodes > CONFIG_NODES)
        return NULL;
    if (node->type == YAML_SCALAR_NODE)
        return json_stringn((const char *)node->data.scalar.value, node->data.scalar.length);
    json_t *out = node->type == YAML_SEQUENCE_NODE ? json_array() : json_object();
    bool whole = true;
    if (node->type == YAML_SEQUENCE_NODE)
        for (yaml_node_item_t *item = node->data.sequence.items.start; whole && item < node->data.sequence.items.top;
             item++)
            whole = json_array_append_new(out, config_node(document, *item, depth + 1, nodes)) == 0;
    else
        for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; whole && pair < node->data.mapping.pairs.top;
             pair++) {
            const yaml_node_t *key = yaml_document_get_node(document, pair->key);
            whole = key && key->type == YAML_SCALAR_NODE &&
                    json_object_set_new(out, (const char *)key->data.scalar.value,
                                        config_node(document, pair->value, depth + 1, nodes)) == 0;
        }
    if (!whole) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

static int config_load(const char *path, json_t **ret_root, struct err *err) {
    yaml_parser_t parser;
    yaml_document_t document;
    unsigned nodes = 0;
    char *text = xcalloc(1, CONFIG_BYTES);
    ssize_t len = fd_read_file(AT_FDCWD, path, text, CONFIG_BYTES);
    json_t *root = NULL;
    if (len >= 0 && yaml_parser_initialize(&parser)) {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, (size_t)len);
        if (yaml_parser_load(&parser, &document)) {
            root = config_node(&document, 1, 0, &nodes);
            yaml_document_delete(&document);
        }
        yaml_parser_delete(&parser);
    }
    explicit_bzero(text, CONFIG_BYTES);
    free(text);
    if (len < 0)
        return err_errno(err, (int)-len, "kubeconfig %s", path);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(err, ERR_INVALID, "kubeconfig %s is not a mapping in YAML or JSON", path);
    }
    *ret_root = root;
    return 0;
}

/* ---- parts of a kubeconfig ---- */

static const char *config_text(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text && *text ? text : NULL;
}

static json_t *config_named(const json_t *root, const char *list, const char *name, const char *part) {
    json_t *item;
    size_t i;
    json_array_foreach(json_object_get(root, list), i, item) {
        const char *own = config_text(item, "name");
        if (own && name && strcmp(own, name) == 0)
            return json_object_get(item, part);
    }
    return NULL;
}

static char *config_path(const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    return path[0] == '/' || !slash ? xstrdup(path) : xasprintf("%.*s/%s", (int)(slash - file), file, path);
}

/* A text that libraries want as a file: one in memory. */
static int config_memory(const void *data, size_t len, char **ret_path, int *ret_fd, struct err *err) {
    int fd = memfd_create("cubby-kube", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len) {
        fd_close(&fd);
        return err_errno(err, errno, "cannot keep a certificate in memory");
    }
    fd_close(ret_fd);
    free(*ret_path);
    *ret_fd = fd;
    *ret_path = xasprintf("/proc/self/fd/%d", fd);
    return 0;
}

/* NAME, a path, or NAME-data, base64. */
static int config_file(const char *file, const json_t *object, const char *name, char **ret_path, int *ret_fd,
                       struct err *err) {
    const char *data = config_text(object, text_make(80, "%s-data", name)), *path = config_text(object, name);
    autobuf plain = buf_max(CONFIG_BYTES);
    if (data && !text_unbase64(&plain, data, strlen(data)))
        return err_set(err, ERR_INVALID, "kubeconfig %s: %s-data is not base64", file, name);
    if (data)
        return config_memory(plain.data, plain.len, ret_path, ret_fd, err);
    if (path)
        *ret_path = config_path(file, path);
    return 0;
}

static char **config_words(const json_t *list, const char *first, bool variables) {
    size_t count = first != NULL, i;
    char **words = xcalloc(json_array_size(list) + 2, sizeof *words);
    json_t *item;
    if (first)
        words[0] = xstrdup(first);
    json_array_foreach(list, i, item) {
        const char *name = variables ? config_text(item, "name") : json_string_value(item);
        const char *value = json_string_value(json_object_get(item, "value"));
        if (name)
            words[count++] = variables ? xasprintf("%s=%s", name, value ? value : "") : xstrdup(name);
    }
    return words;
}

static int config_exec(const char *file, const json_t *exec, struct kube_access *access, struct err *err) {
    static const char *const versions[] = {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"};
    const char *command = config_text(exec, "command"), *version = config_text(exec, "apiVersion");
    const char *mode = config_text(exec, "interactiveMode");
    for (size_t i = 0; i < 2; i++)
        if (version && strcmp(version, versions[i]) == 0)
            access->exec.version = versions[i];
    if (!command || !access->exec.version)
        return err_set(err, ERR_UNSUPPORTED,
                       "kubeconfig %s: exec needs a command and apiVersion client.authentication.k8s.io/v1 or v1beta1",
                       file);
    if (mode && strcmp(mode, "Always") == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "kubeconfig %s: the exec plugin '%.80s' wants a terminal (interactiveMode Always)", file,
                       command);
    access->exec.command = strchr(command, '/') ? config_path(file, command) : xstrdup(command);
    access->exec.words = config_words(json_object_get(exec, "args"), command, false);
    access->exec.env = config_words(json_object_get(exec, "env"), NULL, true);
    return 0;
}

static int config_refused(const char *file, const json_t *cluster, const json_t *user, struct err *err) {
    static const char *const of_cluster[] = {"insecure-skip-tls-verify", "tls-server-name", "proxy-url"};
    static const char *const of_user[] = {"auth-provider", "username", "password", "as"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = config_text(cluster, of_cluster[i]);
        if (value && strcmp(value, "false") != 0)
            return err_set(err, ERR_UNSUPPORTED, "kubeconfig %s: '%s' of a cluster is not supported", file,
                           of_cluster[i]);
    }
    for (size_t i = 0; i < 4; i++)
        if (json_object_get(user, of_user[i]))
            return err_set(err, ERR_UNSUPPORTED,
                           "kubeconfig %s: '%s' of a user is not supported; use a certificate, a token or exec", file,
                           of_user[i]);
    return 0;
}

int kube_access_config(const char *path, const char *context, struct kube_access *ret_access, struct err *err) {
    json_auto_t *root = NULL;
    struct kube_access *access = ret_access;
    TRY(config_load(path, &root, err));
    const char *name = context ? context : config_text(root, "current-context");
    const json_t *chosen = config_named(root, "contexts", name, "context");
    if (!chosen)
        return err_set(err, ERR_NOT_FOUND, "kubeconfig %s has no context '%.80s'", path, name ? name : "");
    const json_t *cluster = config_named(root, "clusters", config_text(chosen, "cluster"), "cluster");
    const json_t *user = config_named(root, "users", config_text(chosen, "user"), "user");
    const char *server = config_text(cluster, "server"), *file = config_text(user, "tokenFile");
    if (!server || strncmp(server, "https://", 8) != 0)
        return err_set(err, ERR_INVALID, "kubeconfig %s: the cluster of context '%.80s' has no https:// server", path,
                       name);
    TRY(config_refused(path, cluster, user, err));
    access->server = xstrdup(server);
    if (config_text(chosen, "namespace"))
        access->name_space = xstrdup(config_text(chosen, "namespace"));
    TRY(config_file(path, cluster, "certificate-authority", &access->ca, &access->fds[0], err)
            ?: config_file(path, user, "client-certificate", &access->cert, &access->fds[1], err)
            ?: config_file(path, user, "client-key", &access->key, &access->fds[2], err));
    if (!access->cert != !access->key)
        return err_set(err, ERR_INVALID, "kubeconfig %s: a client certificate needs its key", path);
    if (file)
        access->token_file = config_path(path, file);
    else if (config_text(user, "token"))
        access->token = xstrdup(config_text(user, "token"));
    return json_object_get(user, "exec") ? config_exec(path, json_object_get(user, "exec"), access, err) : 0;
}

/* ---- exec plugins ---- */

static int config_output(int fd, struct buf *out, struct err *err) {
    uint64_t end_ms = clock_ms() + EXEC_MS;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        uint64_t now_ms = clock_ms();
        int ready = now_ms < end_ms ? poll(&wait, 1, (int)(end_ms - now_ms)) : 0;
        if (ready == 0)
            return err_set(err, ERR_TIMEOUT, "the exec plugin of the kubeconfig took longer than %d s", EXEC_MS / 1000);
        uint8_t *space = buf_reserve(out, 4096);
        ssize_t got = space ? read(fd, space, 4096) : -1;
        if (!space)
            return err_set(err, ERR_TOO_LARGE, "the exec plugin of the kubeconfig prints more than %d bytes",
                           EXEC_BYTES);
        if (got <= 0)
            return got < 0 && errno != EINTR ? err_errno(err, errno, "reading from the exec plugin") : 0;
        out->len += (size_t)got;
    }
}

static int config_credential(struct kube_access *access, const json_t *root, uint64_t *ret_until_ms, struct err *err) {
    const json_t *status = json_object_get(root, "status");
    const char *token = config_text(status, "token"), *cert = config_text(status, "clientCertificateData");
    const char *key = config_text(status, "clientKeyData"), *until = config_text(status, "expirationTimestamp");
    const char *version = config_text(root, "apiVersion");
    uint64_t until_ms = 0;
    if (!version || strcmp(version, access->exec.version) != 0 || (!token && !(cert && key)) ||
        (until && !clock_parse(until, &until_ms)))
        return err_set(err, ERR_PROTOCOL,
                       "the exec plugin '%.80s' of the kubeconfig printed no ExecCredential of %s with a token or a "
                       "certificate",
                       access->exec.words[0], access->exec.version);
    if (token) {
        free(access->token);
        access->token = xstrdup(token);
    }
    if (cert && key)
        TRY(config_memory(cert, strlen(cert), &access->cert, &access->fds[1], err)
                ?: config_memory(key, strlen(key), &access->key, &access->fds[2], err));
    *ret_until_ms = until_ms;
    return 0;
}

int kube_access_exec(struct kube_access *access, uint64_t *ret_until_ms, struct err *err) {
    size_t count = 0, more = 0;
    autobuf out = buf_max(EXEC_BYTES);
    int pipes[2];
    pid_t pid;
    while (environ[count])
        count++;
    while (access->exec.env[more])
        more++;
    char *info = xasprintf("KUBERNETES_EXEC_INFO={\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"spec\":"
                           "{\"interactive\":false}}",
                           access->exec.version);
    char **env = xcalloc(count + more + 2, sizeof *env);
    memcpy(env, environ, count * sizeof *env);
    memcpy(env + count, access->exec.env, more * sizeof *env);
    env[count + more] = info;
    int failed = pipe2(pipes, O_CLOEXEC) < 0 ? err_errno(err, errno, "pipe") : 0;
    if (!failed) {
        const struct spawn spawn = {.program = access->exec.command,
                                    .argv = (const char *const *)access->exec.words,
                                    .env = env,
                                    .in = -1,
                                    .out = pipes[1],
                                    .errors = STDERR_FILENO,
                                    .session = true};
        failed = spawn_start(&spawn, &pid, err);
        close(pipes[1]);
        if (!failed) {
            failed = config_output(pipes[0], &out, err);
            if (failed)
                kill(-pid, SIGKILL);
            int status = spawn_wait(pid);
            if (!failed && status)
                failed = err_set(err, ERR_UNAUTHORIZED, "the exec plugin '%.80s' of the kubeconfig failed with %d",
                                 access->exec.words[0], status);
        }
        close(pipes[0]);
    }
    free(env);
    free(info);
    if (failed)
        return failed;
    json_auto_t *root = json_loadb((const char *)out.data, out.len, 0, NULL);
    failed = config_credential(access, root, ret_until_ms, err);
    explicit_bzero(out.data, out.len);
    return failed;
}

/* ---- which of them ---- */

static void config_in_cluster(const struct kube_settings *settings, const char *host, const char *port,
                              struct kube_access *access) {
    const char *dir = settings->in_cluster_dir ? settings->in_cluster_dir : CONFIG_ACCOUNT_DIR;
    char name[256] = "";
    bool six = strchr(host, ':');
    access->server = xasprintf("https://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
    access->ca = xasprintf("%s/ca.crt", dir);
    access->token_file = xasprintf("%s/token", dir);
    if (fd_read_file(AT_FDCWD, text_make(4200, "%s/namespace", dir), name, sizeof name) > 0) {
        name[strcspn(name, "\r\n")] = 0;
        access->name_space = xstrdup(name);
    }
}

int kube_access_find(const struct kube_settings *settings, struct kube_access *ret_access, struct err *err) {
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    const char *file = settings->kubeconfig, *home = getenv("HOME");
    if (settings->api) {
        if (strncmp(settings->api, "https://", 8) != 0)
            return err_set(err, ERR_INVALID, "k8s_api must begin with https://");
        ret_access->server = xstrdup(settings->api);
        ret_access->ca = settings->ca ? xstrdup(settings->ca) : NULL;
        ret_access->token_file = settings->token_file ? xstrdup(settings->token_file) : NULL;
        return 0;
    }
    if (!file && host && *host && port && *port) {
        config_in_cluster(settings, host, port, ret_access);
        return 0;
    }
    if (!file)
        file = getenv("KUBECONFIG");
    if (file && strchr(file, ':'))
        return err_set(err, ERR_UNSUPPORTED, "KUBECONFIG names several files; name one with k8s_kubeconfig");
    if (!file || !*file)
        file = text_make(4200, "%s/.kube/config", home ? home : "/root");
    return kube_access_config(file, settings->context, ret_access, err);
}
