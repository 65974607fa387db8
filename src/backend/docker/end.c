/* How containers end: what the engine's events told, and what it says when it is asked. Called by docker.c and, as ops->why,
 * by the provider. Invariant: of the engine's words only numbers and flags reach a sentence.
 *
 * Rules: 1. backend->ends is read and written under backend->lock. 2. Nobody asks the engine under it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "base/text.h"

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

/* ---- told by the events ---- */

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

static void heard(void *user, const struct engine_event *event) {
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
    pthread_mutex_lock(&backend->lock);
    struct docker_end *end = end_locked(backend, id, true);
    if (strcmp(event->action, "start") == 0)
        *end = (struct docker_end){.status = -1};
    else if (strcmp(event->action, "die") == 0)
        end->status = event->exit_status;
    end->oom |= strcmp(event->action, "oom") == 0;
    end->removed |= strcmp(event->action, "destroy") == 0;
    pthread_mutex_unlock(&backend->lock);
}

void docker_end_watch_locked(struct backend *backend) {
    char label[sizeof DOCKER_LABEL_HOME + 40];
    if (!backend->ends && !(backend->ends = calloc(1, sizeof *backend->ends)))
        abort();
    snprintf(label, sizeof label, DOCKER_LABEL_HOME "=%s", backend->home);
    backend->events = engine_watch(backend->engine, label, heard, backend);
}

/* ---- asked for ---- */

static void say(const struct docker_end *end, const char *more, char *text, size_t size) {
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

/* The engine notices the end of a process a little later than the kernel tells us. One that hangs is not waited for. */
static int wait_noticed(struct backend *backend, const char *id, struct err *err) {
    char name[DOCKER_NAME_BYTES], path[80];
    int status;
    autobuf answer = buf_max(4096);
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/wait", name);
    const struct http_call call = {.method = "POST", .path = path, .timeout_ms = WAIT_MS};
    return engine_do(backend->engine, &call, &status, &answer, err);
}

bool docker_why(struct backend *backend, const char *id, char *text, size_t size) {
    json_t *inspection = NULL;
    struct docker_end end = {.status = -1};
    struct err err;
    char more[80] = "";
    int r = wait_noticed(backend, id, &err);
    if (r == 0 || r == -ERR_TIMEOUT) /* what still runs is waited for in vain */
        r = docker_inspect_within(backend, id, WAIT_MS, &inspection, &err);
    pthread_mutex_lock(&backend->lock);
    struct docker_end *heard_of = backend->ends ? end_locked(backend, id, false) : NULL;
    if (heard_of)
        end = *heard_of;
    pthread_mutex_unlock(&backend->lock);
    if (r == 0 && docker_running(inspection, NULL)) {
        json_decref(inspection);
        return false;
    }
    if (r == 0) {
        const json_t *state = json_object_get(inspection, "State"), *status = json_object_get(state, "ExitCode");
        end.oom |= json_is_true(json_object_get(state, "OOMKilled"));
        if (json_is_integer(status))
            end.status = (int)(json_integer_value(status) & 0xff);
        const char *word = json_string_value(json_object_get(state, "Status"));
        end.removed |= word && strcmp(word, "removing") == 0;
        const json_t *limit = json_object_get(json_object_get(inspection, "HostConfig"), "Memory");
        if (end.oom && json_integer_value(limit) > 0)
            snprintf(more, sizeof more, " (limit %llu MiB)", (unsigned long long)json_integer_value(limit) >> 20);
        json_decref(inspection);
    } else if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS) {
        end.removed = true;
    } else {
        snprintf(more, sizeof more, "; the container engine does not answer");
    }
    if (end.removed)
        snprintf(more, sizeof more, "; its container was removed by somebody, /workspace is left");
    say(&end, more, text, size);
    return true;
}
