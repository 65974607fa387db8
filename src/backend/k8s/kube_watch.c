/* A list that is kept: listed once, then watched; listed again only when the server has forgotten the version. Called
 * through kube_watch_start. Invariants: versions are compared for equality alone; an object with another uid is another
 * object; nothing that is known is thought gone because the server is away. */
#include <pthread.h>

#include "backend/k8s/kube_private.h"
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"

enum {
    WATCH_LEAST_S = 240,
    WATCH_MORE_S = 241,
    SILENCE_S = 30,
    BACK_OFF_MS = 500,
    BACK_OFF_MOST_MS = 30000,
    PAGE = 500
};
enum { WATCH_PATH_BYTES = 4096, WATCH_KNOWN = 100000 };

struct watch_known {
    struct watch_known *next;
    bool marked;
    char uid[64], name[];
};

struct kube_watch {
    struct kube *kube;
    char *path, *selector;
    struct kube_watch_events events;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct watch_known *known;
    size_t count;
    char version[64];
    struct kube_lines lines;
    bool anew; /* a list is needed */
};

/* ---- lines ---- */

int kube_lines_put(struct kube_lines *lines, const void *data, size_t len,
                   int (*each)(void *user, const char *line, size_t len), void *user) {
    const char *at = data, *end = at + len;
    lines->line.max = KUBE_LINE_BYTES;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t part = (size_t)((stop ? stop : end) - at);
        if (!lines->skipping)
            buf_put(&lines->line, at, part);
        lines->skipping = lines->skipping || lines->line.failed;
        at += part + (stop != NULL);
        if (!stop)
            continue;
        int code = 0;
        if (lines->skipping)
            code = each(user, NULL, 0);
        else if (lines->line.len)
            code = each(user, (const char *)lines->line.data, lines->line.len);
        buf_done(&lines->line);
        lines->line = buf_max(KUBE_LINE_BYTES);
        lines->skipping = false;
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- what is known ---- */

static const json_t *watch_meta(const json_t *object, const char *name) {
    return json_object_get(json_object_get(object, "metadata"), name);
}

const char *kube_name(const json_t *object) {
    const char *name = json_string_value(watch_meta(object, "name"));
    return name ? name : "";
}

static void watch_forget(struct kube_watch *watch, struct watch_known *known, const json_t *last) {
    list_remove(watch->known, known);
    watch->count--;
    watch->events.gone(watch->events.user, known->name, last);
    free(known);
}

static void watch_seen(struct kube_watch *watch, const json_t *object) {
    const char *name = kube_name(object), *uid = json_string_value(watch_meta(object, "uid"));
    if (!*name || strlen(name) > 253 || !uid || strlen(uid) >= sizeof watch->known->uid)
        return;
    struct watch_known *known = list_find(watch->known, one, strcmp(one->name, name) == 0);
    if (known && strcmp(known->uid, uid) != 0) {
        watch_forget(watch, known, NULL);
        known = NULL;
    }
    if (!known && watch->count < WATCH_KNOWN) {
        known = xcalloc(1, sizeof *known + strlen(name) + 1);
        memcpy(known->name, name, strlen(name) + 1);
        snprintf(known->uid, sizeof known->uid, "%s", uid);
        list_push(watch->known, known);
        watch->count++;
    }
    if (known)
        known->marked = true;
    watch->events.seen(watch->events.user, object);
}

static void watch_version(struct kube_watch *watch, const json_t *object) {
    const char *version = json_string_value(watch_meta(object, "resourceVersion"));
    if (version && *version && strlen(version) < sizeof watch->version &&
        strspn(version, "0123456789abcdefABCDEF-_") == strlen(version))
        memcpy(watch->version, version, strlen(version) + 1);
}

/* ---- listing ---- */

static int watch_page(struct kube_watch *watch, const char *more, json_t **ret_page, struct err *err) {
    autobuf path = buf_max(WATCH_PATH_BYTES + 8192);
    buf_printf(&path, "%s?labelSelector=%s&limit=%d", watch->path, watch->selector, PAGE);
    if (more) {
        buf_puts(&path, "&continue=");
        for (const char *at = more; *at; at++)
            buf_printf(&path, "%%%02X", (unsigned char)*at);
    }
    if (path.failed)
        return err_set(err, ERR_PROTOCOL, "the Kubernetes API server continues a list with too long a word");
    return kube_call(watch->kube, "GET", buf_cstr(&path), KUBE_JSON, NULL, ret_page, err);
}

static int watch_list(struct kube_watch *watch, struct err *err) {
    char *more = NULL;
    struct watch_known *known, *next;
    for (known = watch->known; known; known = known->next)
        known->marked = false;
    do {
        json_auto_t *page = NULL;
        int failed = watch_page(watch, more, &page, err);
        free(more);
        more = NULL;
        if (failed)
            return failed;
        json_t *item;
        size_t i;
        json_array_foreach(json_object_get(page, "items"), i, item) watch_seen(watch, item);
        watch_version(watch, page);
        const char *word = json_string_value(watch_meta(page, "continue"));
        more = word && *word && strlen(word) < 2048 ? xstrdup(word) : NULL;
    } while (more && !atomic_load(&watch->stop));
    free(more);
    for (known = watch->known; known; known = next) {
        next = known->next;
        if (!known->marked)
            watch_forget(watch, known, NULL);
    }
    watch->anew = false;
    return 0;
}

/* ---- watching ---- */

static int watch_line(void *user, const char *line, size_t len) {
    struct kube_watch *watch = user;
    json_auto_t *event = line ? json_loadb(line, len, 0, NULL) : NULL;
    const json_t *object = json_object_get(event, "object");
    const char *type = json_string_value(json_object_get(event, "type"));
    if (!type || !json_is_object(object) || strcmp(type, "ERROR") == 0) {
        watch->anew = true; /* too long, not an event, or 410: what is between is not known */
        return -1;
    }
    watch_version(watch, object);
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
        watch_seen(watch, object);
    if (strcmp(type, "DELETED") != 0)
        return 0;
    struct watch_known *known = list_find(watch->known, one, strcmp(one->name, kube_name(object)) == 0);
    const char *uid = json_string_value(watch_meta(object, "uid"));
    if (known && uid && strcmp(known->uid, uid) == 0)
        watch_forget(watch, known, object);
    return 0;
}

static int watch_body(void *user, const void *data, size_t len) {
    struct kube_watch *watch = user;
    return kube_lines_put(&watch->lines, data, len, watch_line, watch);
}

static int watch_follow(struct kube_watch *watch, struct err *err) {
    struct http_client *client = NULL;
    char *bearer = NULL;
    autobuf out = buf_max(65536);
    uint32_t random;
    int status = 0;
    TRY(kube_connect(watch->kube, &client, &bearer, err));
    xrandom(&random, sizeof random);
    unsigned seconds = WATCH_LEAST_S + random % WATCH_MORE_S;
    const char *const headers[] = {"Accept: application/json", bearer, NULL};
    const struct http_call call = {
        .method = "GET",
        .path = text_make(WATCH_PATH_BYTES,
                          "%s?watch=1&labelSelector=%s&resourceVersion=%s&allowWatchBookmarks=true&timeoutSeconds=%u",
                          watch->path, watch->selector, watch->version, seconds),
        .headers = headers,
        .write_body = watch_body,
        .user = watch,
        .timeout_ms = (uint64_t)(seconds + SILENCE_S) * 1000,
        .stop = &watch->stop};
    int failed = http_client_call(client, &call, &status, &out, err);
    http_client_free(client);
    if (bearer)
        explicit_bzero(bearer, strlen(bearer));
    free(bearer);
    buf_done(&watch->lines.line);
    watch->lines = (struct kube_lines){0};
    if (!failed && (status < 200 || status > 299)) {
        failed = kube_failed(status, &out, err);
        watch->anew = watch->anew || status == 410 || status == 500;
    }
    return failed;
}

static void *watch_main(void *argument) {
    struct kube_watch *watch = argument;
    uint64_t wait_ms = 0;
    watch->anew = true;
    while (!atomic_load(&watch->stop)) {
        struct err err = {0};
        uint64_t began_ms = clock_ms();
        int failed = watch->anew ? watch_list(watch, &err) : 0;
        failed = failed ?: watch_follow(watch, &err);
        if (failed && !watch->anew && !atomic_load(&watch->stop))
            log_warn("%s: %s; trying again", watch->path, err.text);
        bool lasted = clock_ms() - began_ms >= BACK_OFF_MS; /* the first time it is tried again at once */
        wait_ms = lasted || !wait_ms ? BACK_OFF_MS : wait_ms < BACK_OFF_MOST_MS / 2 ? wait_ms * 2 : BACK_OFF_MOST_MS;
        uint64_t end_ms = clock_ms() + (lasted && !failed ? 0 : wait_ms);
        autolock(&watch->lock);
        while (!atomic_load(&watch->stop) && clock_ms() < end_ms)
            cond_wait_until(&watch->wake, &watch->lock, end_ms);
    }
    return NULL;
}

struct kube_watch *kube_watch_start(struct kube *kube, const char *path, const char *selector,
                                    const struct kube_watch_events *events) {
    struct kube_watch *watch = xcalloc(1, sizeof *watch);
    watch->kube = kube;
    watch->path = xstrdup(path);
    watch->selector = xstrdup(selector);
    watch->events = *events;
    pthread_mutex_init(&watch->lock, NULL);
    cond_init(&watch->wake);
    watch->thread = thread_joined(watch_main, watch, 0);
    return watch;
}

void kube_watch_stop(struct kube_watch *watch) {
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    atomic_store(&watch->stop, true);
    pthread_cond_broadcast(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    while (watch->known) {
        struct watch_known *known = watch->known;
        list_remove(watch->known, known);
        free(known);
    }
    buf_done(&watch->lines.line);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch->path);
    free(watch->selector);
    free(watch);
}
