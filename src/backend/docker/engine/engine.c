/* The client of a container engine: clients with a connection kept alive, the version both sides know, calls and what their
 * failures are called. Called by the docker backend. Rules of the lock: it guards the idle clients, the version and the
 * generation; nobody talks to the engine while holding it. Invariant: a call that may have been done is never sent a second
 * time (http_client_call keeps that). */
#include "backend/docker/engine/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/engine/client.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "http/client/client_curl.h"

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
    struct {
        struct http_client *client;
        uint64_t since_ms;
    } idle[IDLE_MAX];
    size_t idle_count;
    unsigned minor;      /* 0: not asked since it was last lost */
    unsigned generation; /* how often it was lost */
};

static int engine_ask_version(struct engine *engine, const struct http_call *like, unsigned *ret_minor,
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
        http_client_free(engine->idle[i].client);
    pthread_mutex_destroy(&engine->lock);
    engine_place_done(&engine->place);
    free(engine);
}

const char *engine_url(const struct engine *engine) {
    return engine->place.url;
}

bool engine_near(const struct engine *engine) {
    return engine->place.near;
}

bool engine_encrypted(const struct engine *engine) {
    return engine->place.tls;
}

unsigned engine_generation(struct engine *engine) {
    pthread_mutex_lock(&engine->lock);
    unsigned generation = engine->generation;
    pthread_mutex_unlock(&engine->lock);
    return generation;
}

/* ---- connections ---- */

#define AT "the container engine at "
#define OTHER                                                                                                          \
    "start it (`systemctl start docker`, or `podman system service`), or name another one (DOCKER_HOST, docker_host)"
#define TRUSTED "ca.pem of docker_cert_dir (DOCKER_CERT_PATH)"
static const struct http_failure engine_failures[] = {
    {CURLE_COULDNT_CONNECT, ERR_BUSY, AT, " cannot be reached (", "): " OTHER},
    {CURLE_OPERATION_TIMEDOUT, ERR_BUSY, AT, " cannot be reached (", "): " OTHER},
    {CURLE_REMOTE_ACCESS_DENIED, ERR_DENIED, AT, ": no permission to use its socket (",
     "); be in its group (`docker`), or name an engine of your own (DOCKER_HOST, docker_host)"},
    {CURLE_COULDNT_RESOLVE_HOST, ERR_BUSY, AT, ": its host is not found (", ")"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_DENIED, "the certificate of " AT,
     " does not verify: ", "; " TRUSTED " has to hold its authority, and the certificate has to name the host"},
    {CURLE_SSL_CLIENTCERT, ERR_DENIED, AT, ": it refuses who we are (",
     "): cert.pem and key.pem of docker_cert_dir (DOCKER_CERT_PATH) have to be signed by an authority that it trusts"},
    {CURLE_SSL_CACERT_BADFILE, ERR_INVALID, AT, ": " TRUSTED " cannot be used: ", ""},
    {CURLE_SSL_CERTPROBLEM, ERR_INVALID, AT,
     ": cert.pem and key.pem of docker_cert_dir (DOCKER_CERT_PATH) are not a certificate and its key: ", ""},
    {CURLE_SSL_CONNECT_ERROR, ERR_BUSY, AT, " does not speak TLS as it should: ", ""},
    {CURLE_ABORTED_BY_CALLBACK, ERR_GONE, AT, ": given up (", ")"},
    {CURLE_WRITE_ERROR, ERR_GONE, AT, ": given up (", ")"},
    {CURLE_GOT_NOTHING, ERR_BUSY, AT, ": it hung up instead of answering (", ")"},
    {CURLE_PARTIAL_FILE, ERR_BUSY, AT, ": it hung up in the middle of its answer (", ")"},
    {CURLE_UNSUPPORTED_PROTOCOL, ERR_PROTOCOL, AT, ": its answer is not HTTP (", ")"},
    {CURLE_WEIRD_SERVER_REPLY, ERR_PROTOCOL, AT, ": its answer is not HTTP (", ")"},
    {CURLE_OUT_OF_MEMORY, ERR_PROTOCOL, AT, ": its answer's head has no end (", ")"},
    {0, ERR_BUSY, AT, ": ", ""},
};

int engine_client(struct engine *engine, struct http_client **ret_client, struct err *err) {
    const struct engine_place *place = &engine->place;
    const struct http_foreign server = {.url = place->address,
                                        .where = place->url,
                                        .cert_dir = place->tls ? place->cert_dir : NULL,
                                        .failures = engine_failures};
    int code = http_client_foreign(&server, ret_client, err);
    return code < 0 ? err_wrap(err, AT "%s", place->url) : 0;
}

void engine_lost(struct engine *engine) {
    pthread_mutex_lock(&engine->lock);
    engine->minor = 0;
    engine->generation++;
    pthread_mutex_unlock(&engine->lock);
}

static struct http_client *engine_take_idle(struct engine *engine) {
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        size_t count = engine->idle_count ? engine->idle_count-- : 0;
        struct http_client *client = count ? engine->idle[count - 1].client : NULL;
        bool young = count && clock_ms() - engine->idle[count - 1].since_ms < IDLE_MS;
        pthread_mutex_unlock(&engine->lock);
        if (!client)
            return NULL;
        bool fresh = http_client_kept(client) > 0;
        if (fresh && young)
            return client;
        if (!fresh)
            engine_lost(engine);
        http_client_free(client);
    }
}

static void engine_keep(struct engine *engine, struct http_client *client) {
    if (http_client_kept(client) > 0) {
        pthread_mutex_lock(&engine->lock);
        if (engine->idle_count < IDLE_MAX) {
            engine->idle[engine->idle_count].client = client;
            engine->idle[engine->idle_count++].since_ms = clock_ms();
            client = NULL;
        }
        pthread_mutex_unlock(&engine->lock);
    }
    http_client_free(client);
}

/* ---- one call ---- */

static bool line_safe(const char *text) {
    for (; text && *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127)
            return false;
    return true;
}

int engine_checked(const struct http_call *call, struct err *err) {
    if (line_safe(call->method) && line_safe(call->path) && call->path[0] == '/')
        return 0;
    return err_set(err, ERR_INVALID, "the request to the container engine holds a character that is not encoded");
}

static int engine_call_version(struct engine *engine, const struct http_call *call, unsigned minor, int *ret_status,
                               struct buf *out, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    size_t before = out ? out->len : 0;
    const char *const headers[] = {
        "Expect:", call->read_body ? "Content-Type: application/x-tar" : "Content-Type: application/json",
        call->headers ? call->headers[0] : NULL, NULL};
    struct http_call request = *call;
    request.path = minor ? arena_printf(&arena, "/v1.%u%s", minor, call->path) : call->path;
    request.headers = headers;
    request.read_length = -1;
    request.timeout_ms = call->timeout_ms ? call->timeout_ms : ENGINE_TIMEOUT_MS;
    int code = engine_checked(call, err);
    struct http_client *client = code < 0 ? NULL : engine_take_idle(engine);
    if (code == 0 && !client)
        code = engine_client(engine, &client, err);
    if (code < 0)
        return code;
    code = http_client_call(client, &request, ret_status, out, err);
    if (http_client_sent(client) != 1 || (code < 0 && err->code == ERR_BUSY))
        engine_lost(engine);
    if (code < 0 && out)
        out->len = before;
    if (code == -ERR_TIMEOUT)
        err_set(err, ERR_TIMEOUT, AT "%s did not answer %s %.200s within %u s", engine->place.url, call->method,
                call->path, (unsigned)(request.timeout_ms / 1000));
    engine_keep(engine, client);
    return code;
}

int engine_do(struct engine *engine, const struct http_call *call, int *ret_status, struct buf *out, struct err *err) {
    unsigned minor = 0;
    int code = engine_ask_version(engine, call, &minor, err);
    return code < 0 ? code : engine_call_version(engine, call, minor, ret_status, out, err);
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

static int engine_ask_version(struct engine *engine, const struct http_call *like, unsigned *ret_minor,
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
    struct http_call call = {.method = "GET", .path = "/version", .stop = like->stop, .wake_fd = like->wake_fd};
    if (like->timeout_ms && like->timeout_ms < ENGINE_TIMEOUT_MS)
        call.timeout_ms = like->timeout_ms;
    autobuf out = buf_max(1u << 20);
    int code = engine_call_version(engine, &call, 0, &status, &out, err);
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
    return engine_ask_version(engine, &(struct http_call){.method = "GET"}, ret_minor, err);
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
        return err_set(err, ERR_PROTOCOL,
                       "%s: the container engine at %s answered something that is not JSON, or too much of it", doing,
                       engine->place.url);
    *ret_json = answer;
    return 0;
}

int engine_json(struct engine *engine, const char *method, const char *path, const char *body, const char *doing,
                json_t **ret_json, struct err *err) {
    struct http_call call = {.method = method, .path = path, .body = body, .body_len = body ? strlen(body) : 0};
    int status = 0;
    autobuf out = buf_max(ENGINE_ANSWER_BYTES);
    int code = engine_do(engine, &call, &status, &out, err);
    if (code < 0 && err->why == WHY_UNREACHED) /* whatever was to be done there is not news */
        return code;
    return code < 0 ? err_wrap(err, "%s", doing) : engine_answer(engine, status, &out, doing, ret_json, err);
}
