/* The tables of all doors joined, and in which shape each of them refuses. Used by the daemon: --routes, /openapi.json and
 * the server are made from the one table. Invariant: it is made once and never changes. */
#include "front/routes.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "front/aio/aio.h"
#include "front/deerflow/deerflow.h"
#include "front/filesecbox/filesecbox.h"
#include "front/native/native.h"
#include "front/join/join.h"

static const struct route *const tables[] = {
    native_routes,   runner_routes,     filesecbox_routes, fsb2_routes,     aio_routes,
    aio_mcp_routes,  aio_search_routes, aio_watch_routes,  aio_code_routes, aio_bash_routes,
    aio_file_routes, deerflow_routes,   aio_shell_routes,
};
#define TABLES (sizeof tables / sizeof *tables)

static struct route *all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void routes_join(void) {
    size_t count = 1;
    for (size_t i = 0; i < TABLES; i++)
        for (const struct route *route = tables[i]; route->method; route++)
            count++;
    struct route *next = all = xcalloc(count, sizeof *all);
    for (size_t i = 0; i < TABLES; i++)
        for (const struct route *route = tables[i]; route->method; route++)
            *next++ = *route;
}

const struct route *routes_all(void) {
    pthread_once(&once, routes_join);
    return all;
}

int routes_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route ? route->extra : NULL;
    if (endpoint)
        return endpoint->refuse ? endpoint->refuse(request, status, code, text, out) : 0;
    if (aio_claims(http_path(request)))
        return aio_refuse(request, status, code, text, out);
    if (deerflow_claims(http_path(request)))
        return deerflow_refuse(request, status, code, text, out);
    return filesecbox_claims(http_path(request)) ? filesecbox_refuse(request, status, code, text, out) : 0;
}
