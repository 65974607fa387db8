/* What of a server can change while it serves: its certificate and the names it answers to. Called by the daemon. Invariant:
 * connections that are there keep the certificate they began with; nobody reads a list that is being freed. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/internal.h"

/* Lists are read without a lock, so none is freed before the server is; there is one for each change. */
struct host_list {
    struct host_list *before;
    const char **names;
};

static struct host_list *host_list_new(const char *const *names, struct host_list *before) {
    struct host_list *list = xcalloc(1, sizeof *list);
    size_t count = 0;
    while (names && names[count])
        count++;
    list->names = xcalloc(count + 1, sizeof *list->names);
    for (size_t i = 0; i < count; i++)
        list->names[i] = xstrdup(names[i]);
    list->before = before;
    return list;
}

static bool same_names(const char *const *a, const char *const *b) {
    for (; a && *a && b && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !(a && *a) && !(b && *b);
}

const char *const *hosts_allowed(const struct http_server *server) {
    const struct host_list *list = atomic_load(&server->hosts);
    return list ? list->names : server->config.allowed_hosts;
}

void hosts_free(struct http_server *server) {
    for (struct host_list *list = atomic_load(&server->hosts), *before; list; list = before) {
        before = list->before;
        for (const char **name = list->names; *name; name++)
            free((char *)(uintptr_t)*name);
        free(list->names);
        free(list);
    }
}

int http_server_configure(struct http_server *server, const char *tls_cert, const char *tls_key,
                          const char *const *allowed_hosts, struct err *err) {
    struct ssl_ctx_st *fresh = NULL;
    if (tls_cert && server->tls) {
        int result = tls_context_new(tls_cert, tls_key, &fresh, err);
        if (result < 0)
            return result;
    }
    if (fresh) {
        pthread_mutex_lock(&server->lock);
        struct ssl_ctx_st *old = server->tls;
        server->tls = fresh;
        pthread_mutex_unlock(&server->lock);
        tls_context_free(old);
    }
    if (!same_names(hosts_allowed(server), allowed_hosts))
        atomic_store(&server->hosts, host_list_new(allowed_hosts, atomic_load(&server->hosts)));
    return 0;
}

int http_tls_check(const char *cert, const char *key, struct err *err) {
    struct ssl_ctx_st *context = NULL;
    int result = tls_context_new(cert, key, &context, err);
    if (result == 0)
        tls_context_free(context);
    return result;
}
