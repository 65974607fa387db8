/* The client of a container engine: connections kept alive, the version both sides know, calls and what their failures are
 * called. Called by the docker backend. Rules of the lock: it guards the idle connections, the version and the generation;
 * nobody talks to the engine while holding it. Invariant: a call that may have been done is never sent a second time. */
#include "backend/docker/engine/engine.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/engine/exchange.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#define IDLE_MAX 8u
#define IDLE_MS 60000u /* then a kept connection is rather made anew */
#define MINOR_LEAST 40u
#define MINOR_MOST 45u
#define JSON_DEPTH 64u
#define JSON_VALUES 400000u
#define MESSAGE_BYTES 360u /* of the engine's own words, in a sentence of ours */

struct engine {
    struct engine_place place;
    pthread_mutex_t lock;
    struct engine_link *idle[IDLE_MAX];
    size_t idle_count;
    unsigned minor;      /* 0: not asked since it was last lost */
    unsigned generation; /* how often it was lost */
};

static int engine_ask_version(struct engine *engine, const struct engine_call *like, int wake_fd, unsigned *ret_minor,
                              struct err *err);

int engine_new(const struct engine_where *where, struct engine **ret_engine, struct err *err) {
    struct engine *engine = xcalloc(1, sizeof *engine);
    int code = engine_place_find(where, &engine->place, err);
    if (code < 0) {
        free(engine);
        return code;
    }
    pthread_mutex_init(&engine->lock, NULL);
    *ret_engine = engine;
    return 0;
}

void engine_free(struct engine *engine) {
    if (!engine)
        return;
    for (size_t i = 0; i < engine->idle_count; i++)
        engine_link_close(engine->idle[i]);
    pthread_mutex_destroy(&engine->lock);
    engine_place_done(&engine->place);
    free(engine);
}

const char *engine_url(const struct engine *engine) {
    return engine->place.url;
}

bool engine_near(const struct engine *engine) {
    return engine->place.unix_path != NULL;
}

bool engine_encrypted(const struct engine *engine) {
    return engine->place.tls;
}

const struct engine_place *engine_place(const struct engine *engine) {
    return &engine->place;
}

unsigned engine_generation(struct engine *engine) {
    pthread_mutex_lock(&engine->lock);
    unsigned generation = engine->generation;
    pthread_mutex_unlock(&engine->lock);
    return generation;
}

/* ---- connections ---- */

/* It went away: whoever answers next may be another one. */
static void engine_lost(struct engine *engine) {
    pthread_mutex_lock(&engine->lock);
    engine->minor = 0;
    engine->generation++;
    pthread_mutex_unlock(&engine->lock);
}

static struct engine_link *engine_take_idle(struct engine *engine) {
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        struct engine_link *link = engine->idle_count ? engine->idle[--engine->idle_count] : NULL;
        pthread_mutex_unlock(&engine->lock);
        if (!link)
            return NULL;
        if (!engine_link_fresh(link))
            engine_lost(engine);
        else if (clock_ms() - link->idle_since_ms < IDLE_MS)
            return link;
        engine_link_close(link);
    }
}

static void engine_keep(struct engine *engine, struct engine_link *link) {
    link->idle_since_ms = clock_ms();
    pthread_mutex_lock(&engine->lock);
    if (engine->idle_count < IDLE_MAX) {
        engine->idle[engine->idle_count++] = link;
        link = NULL;
    }
    pthread_mutex_unlock(&engine->lock);
    engine_link_close(link);
}

int engine_connect(struct engine *engine, const struct engine_wait *wait, struct engine_link **ret_link,
                   struct err *err) {
    int code = engine_link_open(&engine->place, wait, ret_link, err);
    if (code < 0)
        engine_lost(engine);
    return code;
}

/* ---- one call ---- */

static bool may_repeat(const struct engine_call *call) {
    return !call->read_body && (strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0);
}

static int engine_failed(struct engine *engine, const struct engine_exchange *exchange, struct err *err) {
    const char *url = engine->place.url;
    if (err->code == ERR_TIMEOUT)
        return err_set(err, ERR_TIMEOUT, "the container engine at %s did not answer %s %.200s within %u s", url,
                       exchange->call->method, exchange->call->path, (unsigned)(exchange->timeout_ms / 1000));
    if (err->code == ERR_INVALID)
        return -err->code;
    if (err->code == ERR_IO)
        err->code = ERR_BUSY; /* a connection that broke */
    return err_wrap(err, "the container engine at %s", url);
}

/* Over one connection. *ret_repeat: it was a kept one that had died unseen, and nothing was done. */
static int engine_exchange_once(struct engine *engine, struct engine_exchange *exchange, bool *ret_repeat,
                                struct buf *out, struct err *err) {
    size_t before = out ? out->len : 0;
    bool kept = (exchange->link = engine_take_idle(engine)) != NULL;
    int code = kept ? 0 : engine_connect(engine, &exchange->wait, &exchange->link, err);
    if (code < 0)
        return code;
    code = engine_exchange_ask(exchange, err);
    if (code == 0)
        code = engine_exchange_head(exchange, err);
    if (code == 0)
        code = engine_exchange_body(exchange, out, err);
    if (code == 0 && exchange->reusable)
        engine_keep(engine, exchange->link);
    else
        engine_link_close(exchange->link);
    exchange->link = NULL;
    if (code < 0 && (err->code == ERR_IO || err->code == ERR_BUSY))
        engine_lost(engine);
    *ret_repeat = code < 0 && kept && !exchange->answered && err->code != ERR_TIMEOUT && may_repeat(exchange->call);
    if (code < 0 && out)
        out->len = before;
    return code < 0 ? engine_failed(engine, exchange, err) : 0;
}

static int engine_call_version(struct engine *engine, const struct engine_call *call, unsigned minor, int wake_fd,
                               int *ret_status, struct buf *out, struct err *err) {
    for (bool again = true; again;) {
        struct engine_exchange exchange = {.place = &engine->place, .call = call, .minor = minor};
        exchange.timeout_ms = call->timeout_ms ? call->timeout_ms : ENGINE_TIMEOUT_MS;
        exchange.wait = (struct engine_wait){clock_ms() + exchange.timeout_ms, call->stop, wake_fd};
        again = false;
        int code = engine_exchange_once(engine, &exchange, &again, out, err);
        if (code < 0 && !again)
            return code;
        *ret_status = exchange.head.status;
    }
    return 0;
}

int engine_do_until(struct engine *engine, const struct engine_call *call, int wake_fd, int *ret_status,
                    struct buf *out, struct err *err) {
    unsigned minor = 0;
    int code = engine_ask_version(engine, call, wake_fd, &minor, err);
    return code < 0 ? code : engine_call_version(engine, call, minor, wake_fd, ret_status, out, err);
}

int engine_do(struct engine *engine, const struct engine_call *call, int *ret_status, struct buf *out,
              struct err *err) {
    return engine_do_until(engine, call, 0, ret_status, out, err);
}

/* ---- versions ---- */

/* "1.41"; anything else is 0. */
static unsigned minor_of(const json_t *answer, const char *key) {
    const char *text = json_string_value(json_object_get(answer, key));
    uint64_t minor = 0;
    return text && strncmp(text, "1.", 2) == 0 && text_u64(text + 2, 999, &minor) ? (unsigned)minor : 0;
}

static int engine_choose(const struct engine *engine, const json_t *answer, unsigned *ret_minor, struct err *err) {
    unsigned newest = minor_of(answer, "ApiVersion"), oldest = minor_of(answer, "MinAPIVersion");
    if (!newest)
        return err_set(err, ERR_PROTOCOL, "what answers at %s is not a container engine: its answer has no ApiVersion",
                       engine->place.url);
    if (newest < MINOR_LEAST)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container engine at %s is too old: its API is 1.%u, 1.%u is the least; upgrade it (Docker "
                       "19.03, Podman 4)",
                       engine->place.url, newest, MINOR_LEAST);
    if (oldest > MINOR_MOST)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container engine at %s is too new: it answers from API 1.%u on, this cubby speaks up to "
                       "1.%u; upgrade cubby",
                       engine->place.url, oldest, MINOR_MOST);
    *ret_minor = newest < MINOR_MOST ? newest : MINOR_MOST;
    return 0;
}

static int engine_ask_version(struct engine *engine, const struct engine_call *like, int wake_fd, unsigned *ret_minor,
                              struct err *err) {
    pthread_mutex_lock(&engine->lock);
    unsigned minor = engine->minor, generation = engine->generation;
    pthread_mutex_unlock(&engine->lock);
    if (minor) {
        *ret_minor = minor;
        return 0;
    }
    int status = 0;
    json_t *answer = NULL;
    struct engine_call call = {.method = "GET", .path = "/version", .stop = like->stop};
    if (like->timeout_ms && like->timeout_ms < ENGINE_TIMEOUT_MS)
        call.timeout_ms = like->timeout_ms;
    autobuf out = buf_max(1u << 20);
    int code = engine_call_version(engine, &call, 0, wake_fd, &status, &out, err);
    if (code == 0)
        code = engine_answer(engine, status, &out, "asking for its version", &answer, err);
    if (code == 0)
        code = engine_choose(engine, answer, &minor, err);
    json_decref(answer);
    if (code < 0)
        return code;
    pthread_mutex_lock(&engine->lock);
    if (engine->generation == generation)
        engine->minor = minor;
    pthread_mutex_unlock(&engine->lock);
    *ret_minor = minor;
    return 0;
}

int engine_version(struct engine *engine, unsigned *ret_minor, struct err *err) {
    return engine_ask_version(engine, &(struct engine_call){.method = "GET"}, 0, ret_minor, err);
}

/* ---- answers ---- */

/* What the engine calls one thing, in our words: by its status, unless its message says it better. */
static const struct {
    int status;               /* 0: any that is no success */
    const char *words, *also; /* in its message; NULL: whatever it says */
    enum err_code code;
    const char *fix;
    enum err_why why;
} answers[] = {
    {0, "bind source path does not exist", NULL, ERR_INVALID, "", WHY_UNSEEN},
    {0, "statfs", "no such file or directory", ERR_INTERNAL, "", WHY_UNSEEN},
    {0, "no space left on device", NULL, ERR_FULL,
     "; make room where the engine keeps its data (`docker system prune`)", WHY_NONE},
    {0, "disk quota exceeded", NULL, ERR_FULL, "; make room where the engine keeps its data (`docker system prune`)",
     WHY_NONE},
    {0, "unable to find user", NULL, ERR_INVALID, "; name one of the image's, or a number", WHY_NONE},
    {0, "unable to find group", NULL, ERR_INVALID, "; name one of the image's, or a number", WHY_NONE},
    {0, "exec format error", NULL, ERR_UNSUPPORTED, "; a program there is for another processor than the engine's",
     WHY_NONE},
    {0, "already in progress", NULL, ERR_BUSY, "", WHY_NONE},
    {409, "is already in use", NULL, ERR_EXISTS, "", WHY_NONE},
    {409, "paused", NULL, ERR_BUSY, "", WHY_PAUSED},
    {500, "paused", NULL, ERR_INTERNAL, "", WHY_PAUSED},
    {409, NULL, NULL, ERR_BUSY, "", WHY_NONE},
    {400, NULL, NULL, ERR_INVALID, "", WHY_NONE},
    {401, NULL, NULL, ERR_DENIED, "", WHY_NONE},
    {403, NULL, NULL, ERR_DENIED, "", WHY_NONE},
    {404, NULL, NULL, ERR_NOT_FOUND, "", WHY_NONE},
    {413, NULL, NULL, ERR_TOO_LARGE, "", WHY_NONE},
    {429, NULL, NULL, ERR_LIMIT, "", WHY_NONE},
    {501, NULL, NULL, ERR_UNSUPPORTED, "", WHY_NONE},
    {502, NULL, NULL, ERR_BUSY, "", WHY_NONE},
    {503, NULL, NULL, ERR_BUSY, "", WHY_NONE},
    {504, NULL, NULL, ERR_TIMEOUT, "", WHY_NONE},
    {507, NULL, NULL, ERR_FULL, "", WHY_NONE},
    {0, NULL, NULL, ERR_INTERNAL, "", WHY_NONE},
};

static json_t *engine_parse(const struct buf *out) {
    return out->len && json_measure((const char *)out->data, out->len, JSON_DEPTH, JSON_VALUES) == JSON_FITS
               ? json_loadb((const char *)out->data, out->len, JSON_DECODE_ANY, NULL)
               : NULL;
}

static int engine_refused(int status, struct buf *out, const char *doing, struct err *err) {
    json_t *answer = engine_parse(out);
    const char *message = json_string_value(json_object_get(answer, "message"));
    size_t len = message ? strlen(message) : out->len;
    autobuf shown = buf_max(MESSAGE_BYTES * 4);
    text_shown(&shown, message ? message : (const char *)out->data, len > MESSAGE_BYTES ? MESSAGE_BYTES : len);
    const char *text = shown.len ? buf_cstr(&shown) : "no reason given";
    json_decref(answer);
    size_t i = 0;
    while ((answers[i].status && answers[i].status != status) ||
           (answers[i].words && !strcasestr(text, answers[i].words)) ||
           (answers[i].also && !strcasestr(text, answers[i].also)))
        i++;
    return err_set_why(err, answers[i].code, answers[i].why, "%s: the container engine says: %s (%d)%s", doing, text,
                       status, answers[i].fix);
}

int engine_answer(struct engine *engine, int status, struct buf *out, const char *doing, json_t **ret_json,
                  struct err *err) {
    if (status != 304 && (status < 200 || status > 299))
        return engine_refused(status, out, doing, err);
    if (!ret_json)
        return 0;
    json_t *answer = engine_parse(out);
    if (!answer && out->len)
        return err_set(err, ERR_PROTOCOL, "%s: the container engine at %s answered what is no JSON, or too much of it",
                       doing, engine->place.url);
    *ret_json = answer;
    return 0;
}

int engine_json(struct engine *engine, const char *method, const char *path, const char *body, const char *doing,
                json_t **ret_json, struct err *err) {
    struct engine_call call = {.method = method, .path = path, .body = body, .body_len = body ? strlen(body) : 0};
    int status = 0;
    autobuf out = buf_max(ENGINE_ANSWER_BYTES);
    int code = engine_do(engine, &call, &status, &out, err);
    if (code == -ERR_BUSY) /* not reached: whatever was to be done there is not news */
        return code;
    return code < 0 ? err_wrap(err, "%s", doing) : engine_answer(engine, status, &out, doing, ret_json, err);
}

char *engine_escape(const char *text) {
    static const char digits[] = "0123456789ABCDEF";
    char *out = xmalloc(strlen(text) * 3 + 1), *p = out;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 128 && (isalnum(c) || strchr("-._~", c))) {
            *p++ = (char)c;
        } else {
            *p++ = '%';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    *p = 0;
    return out;
}
