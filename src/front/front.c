/* Prologue and end of every handler, for all dialects. Called by the HTTP server through the route table. Invariant: a
 * sender that may not see a box gets exactly the answer for a box that does not exist. */
#include "front/front.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/sync.h"
#include "front/routes.h"

struct front *front_of(const struct http_request *request) {
    return http_context(request);
}

/* ---- settings ---- */

void front_settings_unref(struct front_settings *settings) {
    if (settings && atomic_fetch_sub(&settings->refs, 1) == 1)
        settings->released(settings);
}

struct front_settings *front_settings_take(struct front *front) {
    autolock(&front->lock);
    atomic_fetch_add(&front->settings->refs, 1);
    return front->settings;
}

void front_init(struct front *front, const struct route *routes) {
    *front = (struct front){.routes = routes, .started_ms = clock_wall_ms()};
    pthread_mutex_init(&front->lock, NULL);
}

int front_open(struct front *front, const char *directory, struct err *err) {
    int failed = 0;
    for (size_t i = 0; !failed && dialects[i]; i++)
        if (dialects[i]->open)
            failed = dialects[i]->open(directory, &front->states[i], err);
    return failed;
}

void front_start(struct front *front) {
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->start)
            dialects[i]->start(front, front->states[i]);
}

void front_stop(struct front *front) {
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->stop)
            dialects[i]->stop(front->states[i]);
}

void front_done(struct front *front) {
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->close)
            dialects[i]->close(front->states[i]);
    front_settings_unref(front->settings);
    pthread_mutex_destroy(&front->lock);
}

void front_configure(struct front *front, struct front_settings *settings) {
    pthread_mutex_lock(&front->lock);
    struct front_settings *old = front->settings;
    front->settings = settings;
    pthread_mutex_unlock(&front->lock);
    front_settings_unref(old);
}

const struct front_settings *front_settings(const struct http_request *request) {
    return trail_of(request)->settings;
}

/* ---- dialects ---- */

void *front_state(const struct front *front, const struct dialect *dialect) {
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i] == dialect)
            return front->states[i];
    return NULL;
}

const void *front_own_in(const struct front_settings *settings, const struct dialect *dialect) {
    for (size_t i = 0; i < FRONT_DIALECTS && settings->own[i].dialect; i++)
        if (settings->own[i].dialect == dialect)
            return settings->own[i].settings;
    return NULL;
}

const void *front_own(const struct http_request *request, const struct dialect *dialect) {
    return front_own_in(front_settings(request), dialect);
}

const char *front_locate(struct http_request *request, const char *target) {
    struct front_settings *settings = front_settings_take(front_of(request));
    const char *found = NULL;
    for (size_t i = 0; !found && dialects[i]; i++)
        if (dialects[i]->locate)
            found = dialects[i]->locate(request, front_own_in(settings, dialects[i]), target);
    front_settings_unref(settings);
    return found;
}

/* ---- requests ---- */

const struct who *front_who(const struct http_request *request) {
    const struct trail *trail = trail_of(request);
    return trail ? trail->who : NULL;
}

/* The server lets a browser follow a link from another site, which is fine for a GET that only shows something. If the
 * GET changes something, the other site would be acting. Pages of boxes are meant to be opened. */
static int front_check_link(const struct http_request *request, const struct endpoint *endpoint, struct err *err) {
    const char *site = http_header(request, "sec-fetch-site"), *mode = http_header(request, "sec-fetch-mode");
    if (!(endpoint->flags & ENDPOINT_WRITES) || (http_route(request)->flags & ROUTE_EMBED) || !site || !mode)
        return 0;
    if (strcasecmp(mode, "navigate") != 0 || strcasecmp(site, "none") == 0 || strcasecmp(site, "same-origin") == 0)
        return 0;
    return err_set(
        err, ERR_DENIED,
        "a link on another site led here, and this request would change something; open it from here instead");
}

static int front_allowed(struct http_request *request, const struct endpoint *endpoint, struct err *err) {
    STEP(front_check_link(request, endpoint, err));
    if (!(endpoint->flags & ENDPOINT_OPEN)) {
        unsigned needs = (endpoint->flags & ENDPOINT_WRITES ? AUTH_WRITES : 0) |
                         (endpoint->flags & ENDPOINT_READS ? AUTH_READS : 0) |
                         (endpoint->flags & ENDPOINT_ADMIN ? AUTH_ADMIN : 0) |
                         (endpoint->flags & ENDPOINT_RUNNER ? AUTH_RUNNER : 0);
        const struct who **who = &trail_of(request)->who;
        const struct dialect *dialect = routes_dialect(http_route(request));
        STEP(dialect->admit ? dialect->admit(request, needs, who, err)
                            : auth_admit(front_of(request)->auth, request, needs, who, err));
    }
    const char *name;
    for (size_t i = 0; !(endpoint->flags & ENDPOINT_LENIENT) && (name = http_query_name(request, i)); i++)
        if (!rows_find(endpoint->query, name, strlen(name)))
            return rows_unknown(endpoint->query, "query parameter", name, err);
    return 0;
}

int front_admit(struct http_request *request, struct err *err) {
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route ? route->extra : NULL;
    if (!endpoint)
        return 0;
    trail_begin(request);
    trail_of(request)->settings = front_settings_take(front_of(request));
    int failed = front_allowed(request, endpoint, err);
    if (failed)
        trail_code(request, -failed);
    return failed;
}

ssize_t front_body_read(void *request, void *data, size_t size, struct err *err) {
    return http_body_read(request, data, size, err);
}

int front_make(const struct http_request *request, struct err *err) {
    return tenant_make(front_who(request)->tenant, &front_settings(request)->tenant_limits, err);
}

int front_acquire(const struct http_request *request, const char *id, const struct box_request *wanted,
                  struct box **ret_box, bool *ret_created, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    int failed = id ? provider_get(provider, wanted->user, id, ret_box, err) : -ERR_NOT_FOUND;
    if (failed != -ERR_NOT_FOUND && failed != -ERR_GONE)
        return failed;
    return front_make(request, err) ?: provider_acquire(provider, wanted, ret_box, ret_created, err);
}

int front_enter(const struct http_request *request, struct box *box, struct err *err) {
    unsigned most = front_settings(request)->max_calls_per_box;
    if (atomic_fetch_add(&box->calls, 1) >= most && most)
        return err_set(err, ERR_LIMIT,
                       "box %s has %u requests running, which is the limit (max_calls_per_box); try again later",
                       box->id, most);
    return provider_before_use(front_of(request)->provider, box, err);
}

void front_leave(struct box *box) {
    atomic_fetch_sub(&box->calls, 1);
}

/* The box was started again, so processes that this client left in it are gone: the first answer says so. */
void front_restarted(struct http_request *request, struct box *box) {
    if (!atomic_load(&box->restart_news) || !atomic_exchange(&box->restart_news, false))
        return;
    char why[sizeof box->restarted];
    size_t len = 0;
    for (const char *c = box->restarted; *c; c++) /* a runner may have written a part of this text */
        why[len++] = *c >= ' ' && *c <= '~' ? *c : '?';
    why[len] = 0;
    http_reply_header(request, "Cubby-Restarted", why);
}

static int front_run(struct http_request *request, const struct endpoint *endpoint, struct err *err) {
    struct front *front = front_of(request);
    const struct who *who = front_who(request);
    const struct dialect *dialect = routes_dialect(http_route(request));
    const char *id = dialect->identify ? dialect->identify(request) : http_param(request, "id");
    struct box *box = NULL;
    if (!id || endpoint->flags & ENDPOINT_NO_BOX)
        return endpoint->run(request, NULL, err);
    if (endpoint->flags & ENDPOINT_LOOK) {
        int result = provider_look(front->provider, who->user, id, &box, err);
        trail_box(request, box);
        if (result >= 0)
            result = endpoint->run(request, box, err);
        trail_box(request, NULL);
        provider_look_end(front->provider, box);
        return result;
    }
    int result = endpoint->flags & ENDPOINT_WAKE ? provider_wake(front->provider, who->user, id, &box, err)
                                                 : provider_get(front->provider, who->user, id, &box, err);
    trail_box(request, box);
    if (result >= 0) {
        front_restarted(request, box);
        result = front_enter(request, box, err);
        if (result >= 0)
            result = endpoint->run(request, box, err);
        front_leave(box);
    }
    trail_box(request, NULL);
    provider_put(front->provider, box);
    return result;
}

bool front_stopped(const struct http_request *request, struct err *err) {
    if (!http_is_cut(request) || !http_server_stopping(front_of(request)->server))
        return false;
    err_set(err, ERR_BUSY,
            "the daemon is stopping, and the time for running requests (drain_ms) is over: this request was ended");
    return true;
}

void front_handle(struct http_request *request) {
    struct front *front = front_of(request);
    const struct endpoint *endpoint = http_route(request)->extra;
    const struct who *who = front_who(request);
    struct tenant *tenant = who ? who->tenant : NULL;
    struct err err = {0};
    int result = tenant_enter(tenant, &front_settings(request)->tenant_limits, &err);
    if (result >= 0) {
        result = front_run(request, endpoint, &err);
        tenant_leave(tenant);
    }
    if (result < 0 && !http_replied(request) && front_stopped(request, &err))
        result = -err.code;
    metrics_call(front->metrics, http_route(request), result < 0 ? -result : result);
    trail_code(request, result < 0 ? -result : result);
    if (result >= 0)
        return;
    if (http_replied(request))
        http_reply_abort(request);
    else
        http_reply_error(request, &err);
}

void front_finished(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us) {
    const struct route *route = http_route(request);
    const struct who *who = front_who(request);
    const char *path = http_path(request);
    for (size_t i = 0; dialects[i]; i++)
        path = dialects[i]->mask ? dialects[i]->mask(request, path) : path;
    metrics_request(front_of(request)->metrics, route, status, us);
    trail_end(request, status, bytes_in, bytes_out, us);
    log_info("%s %s %s %d in=%" PRIu64 " out=%" PRIu64 " us=%" PRIu64 " user=%s route=%s", http_request_id(request),
             http_method(request), path, status, bytes_in, bytes_out, us, who && who->user ? who->user : "-",
             route ? route->name : "-");
    auth_release(who);
    if (trail_of(request))
        front_settings_unref(trail_of(request)->settings);
}

const char *front_get(void *user, const char *name, size_t *ret_len) {
    return http_query(user, name, ret_len);
}

int front_query(struct http_request *request, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    int failed = rows_query(endpoint->query, front_get, request, http_arena(request), ret_args, err);
    if (!failed)
        trail_fields(request, endpoint->query, ret_args);
    return failed;
}

int front_body(struct http_request *request, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    char *data;
    size_t len;
    int failed = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err);
    if (failed >= 0)
        failed = rows_parse(data, len, endpoint->body, http_arena(request), ret_args, err);
    if (failed >= 0)
        trail_fields(request, endpoint->body, ret_args);
    return failed;
}

int front_empty(struct http_request *request, int status) {
    return http_reply(request, status, NULL, NULL, 0);
}
