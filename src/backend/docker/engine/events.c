/* What happens to containers, told by the engine as it happens: one stream of lines, in a thread of its own, begun again
 * wherever it ended. Called by the docker backend's open and close. Invariant: this only makes things known sooner; whoever
 * acts on it asks the engine. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "backend/docker/engine/engine.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/url.h"

#define LINE_BYTES 65536u /* a longer event is passed over */
#define LINE_DEPTH 16u
#define LINE_VALUES 4096u
#define BACK_OFF_MS 1000u
#define BACK_OFF_MOST_MS 30000u
#define SILENCE_MS 2147483647u /* a stream may be silent for ever; a vanished machine is TCP's to notice */

struct engine_events {
    struct engine *engine;
    char *label;
    void (*each)(void *user, const struct engine_event *event);
    void *user;
    int wake_fd;
    pthread_t thread;
    struct buf line;
    bool skipping;    /* the rest of a line that is too long */
    bool up;          /* that it began was told */
    uint64_t last_ns; /* of the newest event, by the engine's clock */
};

static void *events_run(void *user);

struct engine_events *engine_watch(struct engine *engine, const char *label,
                                   void (*each)(void *user, const struct engine_event *event), void *user) {
    struct engine_events *events = xcalloc(1, sizeof *events);
    *events = (struct engine_events){.engine = engine, .label = xstrdup(label), .each = each, .user = user};
    buf_init(&events->line, LINE_BYTES);
    events->wake_fd = eventfd(0, EFD_CLOEXEC);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = events->wake_fd >= 0 && pthread_create(&events->thread, NULL, events_run, events) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!ok)
        abort(); /* as without memory: a daemon without threads or descriptors at its start is none */
    return events;
}

void engine_watch_end(struct engine_events *events) {
    if (!events)
        return;
    uint64_t one = 1;
    fd_write_all(events->wake_fd, &one, sizeof one);
    pthread_join(events->thread, NULL);
    fd_close(&events->wake_fd);
    buf_done(&events->line);
    free(events->label);
    free(events);
}

/* ---- one line ---- */

static const struct {
    const char *theirs, *action;
} events_names[] = {{"died", "die"}, {"remove", "destroy"}, {"rm", "destroy"}};

static int events_exit_status(const json_t *attributes) {
    static const char *const keys[] = {"exitCode", "containerExitCode"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = json_string_value(json_object_get(attributes, keys[i]));
        char *end = NULL;
        long number = text && *text ? strtol(text, &end, 10) : -1;
        if (end && !*end && number >= 0 && number <= 255)
            return (int)number;
    }
    return -1;
}

static uint64_t events_time(const json_t *event) {
    json_int_t time_ns = json_integer_value(json_object_get(event, "timeNano"));
    json_int_t time_s = json_integer_value(json_object_get(event, "time"));
    if (time_ns > 0)
        return (uint64_t)time_ns;
    return time_s > 0 && time_s < INT64_MAX / 1000000000 ? (uint64_t)time_s * 1000000000u : 0;
}

static void events_tell(struct engine_events *events, const json_t *line) {
    const json_t *actor = json_object_get(line, "Actor"), *attributes = json_object_get(actor, "Attributes");
    struct engine_event event = {.action = json_string_value(json_object_get(line, "Action")),
                                 .name = json_string_value(json_object_get(attributes, "name")),
                                 .id = json_string_value(json_object_get(actor, "ID")),
                                 .exit_status = events_exit_status(attributes)};
    const char *type = json_string_value(json_object_get(line, "Type"));
    uint64_t time_ns = events_time(line);
    /* `since` is told again with what came at that moment. */
    if (!event.action || !event.name || !event.id || !type || strcmp(type, "container") != 0 ||
        (time_ns && time_ns <= events->last_ns))
        return;
    if (time_ns)
        events->last_ns = time_ns;
    for (size_t i = 0; i < sizeof events_names / sizeof *events_names; i++)
        if (strcmp(event.action, events_names[i].theirs) == 0)
            event.action = events_names[i].action;
    events->each(events->user, &event);
}

static void events_line(struct engine_events *events) {
    const char *data = (const char *)events->line.data;
    size_t len = events->line.len;
    json_t *line =
        len && json_measure(data, len, LINE_DEPTH, LINE_VALUES) == JSON_FITS ? json_loadb(data, len, 0, NULL) : NULL;
    if (json_is_object(line))
        events_tell(events, line);
    json_decref(line);
}

static int events_part(void *user, const void *data, size_t len) {
    struct engine_events *events = user;
    for (const char *p = data; len;) {
        const char *end = memchr(p, '\n', len);
        size_t part = end ? (size_t)(end - p) : len;
        if (!events->skipping)
            buf_put(&events->line, p, part);
        events->skipping |= events->line.failed;
        if (end && !events->skipping)
            events_line(events);
        if (end || events->skipping) {
            buf_clear(&events->line);
            events->line.failed = false;
        }
        if (end)
            events->skipping = false;
        p += end ? part + 1 : part;
        len -= end ? part + 1 : part;
    }
    return 0;
}

/* ---- the thread ---- */

static const char *events_path(const struct engine_events *events, struct arena *arena) {
    json_t *value = json_pack("{s:[s],s:[s]}", "type", "container", "label", events->label);
    char *text = json_dumps(value, JSON_COMPACT);
    if (!text)
        abort();
    const char *path =
        arena_printf(arena, "/events?since=%" PRIu64 ".%09" PRIu64 "&filters=%s", events->last_ns / 1000000000u,
                     events->last_ns % 1000000000u, url_encode(arena, text, URL_VALUE));
    json_decref(value);
    free(text);
    return path;
}

static void events_began(void *user) {
    struct engine_events *events = user;
    events->up = true;
    events->each(events->user, &(struct engine_event){.action = "up", .exit_status = -1});
}

static void *events_run(void *user) {
    struct engine_events *events = user;
    struct pollfd wake = {.fd = events->wake_fd, .events = POLLIN};
    unsigned back_off_ms = BACK_OFF_MS;
    events->last_ns = clock_wall_ms() * 1000000u;
    do {
        autoarena arena = ARENA_EMPTY;
        struct http_call call = {.method = "GET",
                                 .path = events_path(events, &arena),
                                 .write_body = events_part,
                                 .began = events_began,
                                 .user = events,
                                 .timeout_ms = SILENCE_MS,
                                 .wake_fd = events->wake_fd};
        int status = 0;
        struct err err = {.text = "the stream of events ended"};
        autobuf out = buf_max(65536);
        events->up = false;
        buf_clear(&events->line);
        events->line.failed = events->skipping = false;
        if (engine_do(events->engine, &call, &status, &out, &err) == 0 && status != 200)
            engine_answer(events->engine, status, &out, "watching containers", NULL, &err);
        back_off_ms = events->up                           ? BACK_OFF_MS
                      : back_off_ms * 2 > BACK_OFF_MOST_MS ? BACK_OFF_MOST_MS
                                                           : back_off_ms * 2;
        if (events->up)
            events->each(events->user, &(struct engine_event){.action = "down", .id = err.text, .exit_status = -1});
    } while (poll(&wake, 1, (int)back_off_ms) == 0);
    return NULL;
}
