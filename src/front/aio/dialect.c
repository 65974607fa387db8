/* The AIO dialect as the core sees it: what it keeps, where a box of it is, and who asks. Called by front.c before every
 * handler and at the end of every request. Invariant: a key or a ticket opens the one box that it is of. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "front/aio/file.h"
#include "front/aio/key.h"
#include "front/aio/shell.h"
#include "front/aio/watcher.h"
#include "front/mcp_http.h"
#include "front/trail.h"

/* ---- what is kept ---- */

static void dialect_close(void *state) {
    struct aio *aio = state;
    if (!aio)
        return;
    mcp_http_free(aio->mcp);
    aio_history_free(aio->history);
    watchers_free(aio->watchers);
    aio_key_free(aio->key);
    free(aio);
}

static int dialect_open(const char *directory, void **ret_state, struct err *err) {
    struct aio_key *key;
    int failed = aio_key_open(directory, &key, err);
    if (failed)
        return failed;
    struct aio *aio = *ret_state = xcalloc(1, sizeof *aio);
    *aio = (struct aio){.key = key, .watchers = watchers_new(), .history = aio_history_new(), .mcp = mcp_http_new()};
    return 0;
}

struct aio *aio_state(const struct http_request *request) {
    return front_state(front_of(request), &aio_dialect);
}

/* ---- where a box is ---- */

const char *aio_id(struct http_request *request, const char **ret_key) {
    const char *param = http_param(request, "id"), *tilde = param ? strchr(param, '~') : NULL;
    *ret_key = tilde ? tilde + 1 : NULL;
    return tilde ? arena_copy(http_arena(request), param, (size_t)(tilde - param)) : param;
}

const char *aio_url(struct http_request *request, const struct box *box) {
    struct front *front = front_of(request);
    struct arena *arena = http_arena(request);
    char key[AIO_KEY_BYTES] = "";
    const char *host = http_host(request), *base = front_settings(request)->url;
    if (!auth_is_open(front->auth, request))
        aio_key_make(aio_state(request)->key, box, key);
    if (!base)
        base = arena_printf(arena, "%s://%s", http_is_tls(request) ? "https" : "http",
                            *host ? host : http_server_address(front->server));
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    return arena_printf(arena, "%.*s" AIO_PREFIX "%s%s%s", (int)len, base, box->id, *key ? "~" : "", key);
}

/* A key that came to another dialect is one all the same. */
static const char *dialect_mask(struct http_request *request, const char *path) {
    const char *tilde = strchr(path, '~');
    while (tilde && !aio_claims(path) && strspn(tilde + 1, "0123456789abcdef") != AIO_KEY_BYTES - 1)
        tilde = strchr(tilde + 1, '~');
    if (!tilde)
        return path;
    return arena_printf(http_arena(request), "%.*s~...%s", (int)(tilde - path), path, tilde + strcspn(tilde, "/"));
}

/* The session of calls that name none starts before the first of them comes. */
static void dialect_prepare(struct box *box) {
    const struct session_request shell = {.name = AIO_SHELL_DEFAULT, .quiet_ms = AIO_SHELL_QUIET_MS};
    box_session_begin(box, &shell);
}

/* ---- who asks ---- */

static const char *dialect_identify(struct http_request *request) {
    const char *key;
    return aio_id(request, &key);
}

/* A key or a ticket acts for the box's owner, in that box alone. */
static int dialect_bound(struct http_request *request, const struct box *box, unsigned needs,
                         const struct who **ret_who, struct err *err) {
    memcpy(trail_of(request)->bound, box->id, sizeof trail_of(request)->bound);
    return auth_admit_user(front_of(request)->auth, request, box->user, needs, ret_who, err);
}

/* Clients have more ways to say who they are: a token of ours in their header or their parameter, a ticket, or the
 * box's key. A token that was sent is always judged, and so is a key, whatever else comes with them. box: NULL where
 * there is no such box; a key of it is then as wrong as any. */
static int dialect_judge(struct http_request *request, const struct box *box, unsigned needs,
                         const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    const struct aio_key *secret = aio_state(request)->key;
    const char *key, *ticket = http_query(request, "ticket", NULL);
    const char *token = http_header(request, "x-aio-api-key");
    aio_id(request, &key);
    if (key && !aio_key_fits(secret, box, key))
        return err_set(err, ERR_UNAUTHORIZED, "this is not the key of this box; ask for its URL again");
    if (!token)
        token = http_query(request, "api_key", NULL);
    if (http_header(request, "authorization"))
        return auth_admit(auth, request, needs, ret_who, err);
    if (token)
        return auth_admit_token(auth, request, token, needs, ret_who, err);
    if (ticket && !aio_ticket_fits(secret, box, clock_wall_ms(), ticket))
        return err_set(err, ERR_UNAUTHORIZED, "this ticket is not of this box, or its time is over; ask for another");
    if (ticket || key)
        return dialect_bound(request, box, needs, ret_who, err);
    return auth_admit(auth, request, needs, ret_who, err);
}

static int dialect_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *key, *id = aio_id(request, &key);
    struct box *box = NULL;
    int failed = key || http_query(request, "ticket", NULL) ? provider_look(provider, NULL, id, &box, err) : 0;
    if (failed) /* also where the box is gone: its clients know that as 404, and a key of nothing opens nothing */
        return failed;
    failed = dialect_judge(request, box, needs, ret_who, err);
    provider_look_end(provider, box);
    return failed;
}

static const struct route *const dialect_routes[] = {
    aio_routes,       aio_mcp_routes,   aio_search_routes,
    aio_watch_routes, aio_code_routes,  aio_bash_routes,
    aio_file_routes,  aio_shell_routes, NULL,
};
const struct dialect aio_dialect = {
    .routes = dialect_routes,
    .open = dialect_open,
    .close = dialect_close,
    .identify = dialect_identify,
    .admit = dialect_admit,
    .claims = aio_claims,
    .refuse = aio_refuse,
    .mask = dialect_mask,
    .url = aio_url,
    .prepare = dialect_prepare,
};
