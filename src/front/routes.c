/* The list of dialects, their tables joined, and which dialect a path or a route belongs to. The only file here that
 * names a dialect. Used by the daemon: --routes, /openapi.json and the server use this table. Invariant: it is made
 * once and never changes. */
#include "front/routes.h"

extern const struct dialect native_dialect, mcp_dialect, join_dialect, filesecbox_dialect, aio_dialect,
    deerflow_dialect, e2b_dialect, page_dialect;

const struct dialect *const dialects[FRONT_DIALECTS + 1] = {
    &native_dialect, &mcp_dialect,      &join_dialect, &filesecbox_dialect,
    &aio_dialect,    &deerflow_dialect, &e2b_dialect,  &page_dialect,
};

static struct route *all;
static const struct dialect **owners; /* the dialect of each route */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void routes_join(void) {
    size_t count = 0, next = 0;
    for (size_t i = 0; dialects[i]; i++)
        for (const struct route *const *table = dialects[i]->routes; *table; table++)
            for (const struct route *route = *table; route->method; route++)
                count++;
    owners = xcalloc(count, sizeof *owners);
    all = xcalloc(count + 1, sizeof *all);
    for (size_t i = 0; dialects[i]; i++)
        for (const struct route *const *table = dialects[i]->routes; *table; table++)
            for (const struct route *route = *table; route->method; route++, next++) {
                owners[next] = dialects[i];
                all[next] = *route;
            }
}

const struct route *routes_all(void) {
    pthread_once(&once, routes_join);
    return all;
}

const struct dialect *routes_dialect(const struct route *route) {
    return owners[route - routes_all()];
}

const struct dialect *routes_named(const char *name) {
    for (size_t i = 0; dialects[i]; i++)
        if (strcmp(dialects[i]->name, name) == 0)
            return dialects[i];
    return NULL;
}

const struct dialect *routes_labels(const char *label) {
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->label && strcmp(dialects[i]->label, label) == 0)
            return dialects[i];
    return NULL;
}

const struct dialect *routes_client(void) {
    size_t i = 0;
    while (!dialects[i]->url)
        i++;
    return dialects[i];
}

int routes_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route ? route->extra : NULL;
    if (endpoint && endpoint->refuse)
        return endpoint->refuse(request, status, code, text, out);
    const struct dialect *owner = endpoint ? routes_dialect(route) : NULL;
    for (size_t i = 0; !endpoint && !owner && dialects[i]; i++)
        if (dialects[i]->claims && dialects[i]->claims(http_path(request)))
            owner = dialects[i];
    return owner && owner->refuse ? owner->refuse(request, status, code, text, out) : 0;
}
