/* The events of containers: one stream of lines, in a thread of its own, continued where it ended. Called by the docker
 * backend's open and close. Invariant: events only speed things up; to act on one, ask the engine. */
#include <inttypes.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "backend/docker/engine/client.h"
#include "base/json.h"
#include "base/url.h"

#define LINE_BYTES 65536u /* a longer event is skipped */
#define LINE_DEPTH 16u
#define LINE_VALUES 4096u
#define BACK_OFF_MS 1000u
#define BACK_OFF_MOST_MS 30000u
#define SILENCE_MS 2147483647u /* a stream may be silent for ever; TCP notices a vanished machine */

struct engine_events {
    struct engine *engine;
    char *label;
    void (*each)(void *user, const struct engine_event *event);
    void *user;
    int wake_fd;
    pthread_t thread;
    struct buf line;
    bool up;          /* "up" was reported */
    uint64_t last_ns; /* of the last event, by the engine's clock */
};

static void *events_run(void *user);

struct engine_events *engine_watch(struct engine *engine, const char *label,
                                   void (*each)(void *user, const struct engine_event *event), void *user) {
    struct engine_events *events = xcalloc(1, sizeof *events);
    *events = (struct engine_events){.engine = engine, .label = xstrdup(label), .each = each, .user = user};
    buf_init(&events->line, LINE_BYTES);
    events->wake_fd = eventfd(0, EFD_CLOEXEC);
    /* As without memory: a daemon that starts without threads or descriptors is useless. */
    xensure(events->wake_fd >= 0 && engine_thread(events_run, events, &events->thread) == 0);
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

/* Reports one line of the stream. */
static void events_line(void *user) {
    static const char *const names[][2] = {{"died", "die"}, {"remove", "destroy"}, {"rm", "destroy"}}; /* of podman */
    static const char *const keys[] = {"exitCode", "containerExitCode"};
    struct engine_events *events = user;
    const char *data = (const char *)events->line.data;
    size_t len = events->line.len;
    bool fits = len && json_measure(data, len, LINE_DEPTH, LINE_VALUES) == JSON_FITS;
    json_auto_t *line = fits ? json_loadb(data, len, 0, NULL) : NULL;
    json_int_t ns = json_integer_value(engine_value(line, "timeNano")),
               s = json_integer_value(engine_value(line, "time"));
    uint64_t time_ns = ns > 0 ? (uint64_t)ns : s > 0 && s < INT64_MAX / 1000000000 ? (uint64_t)s * 1000000000u : 0;
    struct engine_event event = {.action = engine_text(line, "Action"),
                                 .name = engine_text(line, "Actor", "Attributes", "name"),
                                 .id = engine_text(line, "Actor", "ID"),
                                 .exit_status = -1};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && event.exit_status < 0; i++) {
        uint64_t status;
        if (text_u64(engine_text(line, "Actor", "Attributes", keys[i]), 255, &status))
            event.exit_status = (int)status;
    }
    /* An engine repeats the events of the moment that `since` names. */
    if (!*event.action || !*event.name || !*event.id || strcmp(engine_text(line, "Type"), "container") != 0 ||
        (time_ns && time_ns <= events->last_ns))
        return;
    if (time_ns)
        events->last_ns = time_ns;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(event.action, names[i][0]) == 0)
            event.action = names[i][1];
    events->each(events->user, &event);
}

static int events_part(void *user, const void *data, size_t len) {
    struct engine_events *events = user;
    engine_lines(&events->line, data, len, events_line, events);
    return 0;
}

/* ---- the thread ---- */

static const char *events_path(const struct engine_events *events, struct arena *arena) {
    json_t *value = json_pack("{s:[s],s:[s]}", "type", "container", "label", events->label);
    char *filters = xchecked(json_dumps(value, JSON_COMPACT));
    const char *path =
        arena_printf(arena, "/events?since=%" PRIu64 ".%09" PRIu64 "&filters=%s", events->last_ns / 1000000000u,
                     events->last_ns % 1000000000u, url_encode(arena, filters, URL_VALUE));
    json_decref(value);
    free(filters);
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
        events->line.failed = false;
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
