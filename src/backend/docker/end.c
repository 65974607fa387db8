/* How containers end: from the engine's events, and from its answers. Called by docker.c and, as ops->why, by the
 * provider. Invariants: only numbers and flags of the engine's answers reach an error text; backend->ends is used under
 * backend->lock, and the engine is never asked while holding it. */
#include "base/base.h"
#include "backend/docker/docker.h"
#include "base/sync.h"

enum { ENDS = 64, SIGNAL_BASE = 128, SIGNALS = 65, WAIT_MS = 3000 };

struct docker_end {
    char id[17];
    bool oom, removed;
    int status; /* -1: not known */
};

struct docker_ends {
    struct docker_end list[ENDS];
    unsigned next;
};

static struct docker_end *end_locked(struct backend *backend, const char *id, bool make) {
    struct docker_ends *ends = backend->ends;
    for (unsigned i = 0; i < ENDS; i++)
        if (strcmp(ends->list[i].id, id) == 0)
            return &ends->list[i];
    if (!make)
        return NULL;
    struct docker_end *end = &ends->list[ends->next++ % ENDS];
    *end = (struct docker_end){.status = -1};
    snprintf(end->id, sizeof end->id, "%s", id);
    return end;
}

static void end_event(void *user, const struct engine_event *event) {
    struct backend *backend = user;
    const char *name = event->name ? event->name : "", *dash = strrchr(name, '-'), *id = dash ? dash + 1 : "";
    char own[DOCKER_NAME_BYTES];
    struct docker_facts facts;
    struct err ignored;
    if (strcmp(event->action, "up") == 0) /* before anybody needs them */
        docker_facts(backend, &facts, &ignored);
    docker_name(backend, own, id);
    if (strcmp(name, own) != 0 || !text_id(id))
        return;
    autolock(&backend->lock);
    struct docker_end *end = end_locked(backend, id, true);
    if (strcmp(event->action, "start") == 0)
        *end = (struct docker_end){.status = -1};
    else if (strcmp(event->action, "die") == 0)
        end->status = event->exit_status;
    end->oom |= strcmp(event->action, "oom") == 0;
    end->removed |= strcmp(event->action, "destroy") == 0;
}

void docker_end_watch_locked(struct backend *backend) {
    if (!backend->ends)
        backend->ends = xcalloc(1, sizeof *backend->ends);
    const char *label = text_make(sizeof DOCKER_LABEL_HOME + 40, DOCKER_LABEL_HOME "=%s", backend->home);
    backend->events = engine_watch(backend->engine, label, end_event, backend);
}

static void end_say(const struct docker_end *end, const char *more, char *text, size_t size) {
    const char *signal = sigabbrev_np(end->status - SIGNAL_BASE);
    if (end->oom)
        snprintf(text, size, "its main process was killed: out of memory%s", more);
    else if (end->status > SIGNAL_BASE && signal)
        snprintf(text, size, "its main process was killed by SIG%s%s", signal, more);
    else if (end->status > SIGNAL_BASE && end->status < SIGNAL_BASE + SIGNALS)
        snprintf(text, size, "its main process was killed by signal %d%s", end->status - SIGNAL_BASE, more);
    else if (end->status >= 0)
        snprintf(text, size, "its main process ended with status %d%s", end->status, more);
    else
        snprintf(text, size, "its main process ended%s", more);
}

bool docker_why(struct backend *backend, const char *id, char *text, size_t size) {
    json_t *inspection = NULL;
    struct docker_end end = {.status = -1};
    struct err err;
    int status = 0;
    char more[80] = "", path[DOCKER_PATH_BYTES];
    autobuf answer = buf_max(4096);
    /* The engine notices the end of a process a little later than we do. Do not wait for a hanging engine. */
    const struct http_call call = {
        .method = "POST", .path = docker_path(backend, id, "/wait", path), .timeout_ms = WAIT_MS};
    int r = engine_do(backend->engine, &call, &status, &answer, &err);
    if (r == 0 || r == -ERR_TIMEOUT) /* TIMEOUT: it may still run */
        r = docker_inspect_within(backend, id, WAIT_MS, &inspection, &err);
    if (r == 0 && docker_running(inspection)) {
        json_decref(inspection);
        return false;
    }
    pthread_mutex_lock(&backend->lock);
    struct docker_end *known = backend->ends ? end_locked(backend, id, false) : NULL;
    if (known)
        end = *known;
    pthread_mutex_unlock(&backend->lock);
    if (r == 0) {
        const json_t *code = engine_value(inspection, "State", "ExitCode");
        json_int_t limit = json_integer_value(engine_value(inspection, "HostConfig", "Memory"));
        end.oom |= json_is_true(engine_value(inspection, "State", "OOMKilled"));
        end.removed |= strcmp(engine_text(inspection, "State", "Status"), "removing") == 0;
        if (json_is_integer(code))
            end.status = (int)(json_integer_value(code) & 0xff);
        if (end.oom && limit > 0)
            snprintf(more, sizeof more, " (limit %llu MiB)", (unsigned long long)limit >> 20);
        json_decref(inspection);
    } else if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS) {
        end.removed = true;
    } else {
        snprintf(more, sizeof more, "; the container engine does not answer");
    }
    if (end.removed)
        snprintf(more, sizeof more, "; its container was removed, /workspace is kept");
    end_say(&end, more, text, size);
    return true;
}
