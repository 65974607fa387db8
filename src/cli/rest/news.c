/* Progress of long work, on a terminal. Invariant: nothing is written after news_end, and the daemon's text is shown
 * escaped. */
#include "cli/rest/news.h"

#include <jansson.h>

#include "base/base.h"
#include "base/sync.h"
#include "cli/cli.h"
#include "cli/rest/event.h"
#include "http/client/client.h"

enum { NEWS_FIRST_MS = 300, NEWS_DETAIL_BYTES = 100 };

/* Lives until the process ends, because its thread may be waiting for the daemon's next event. */
struct news {
    pthread_mutex_t lock; /* guards the members below and the line */
    pthread_cond_t ended;
    bool over;
    char path[512];
};

static bool shown; /* a line is shown; under the lock, or used by one thread */

/* ---- the line ---- */

static void rest_news_show(const char *work, uint64_t done, uint64_t total, const char *detail) {
    autoarena arena = ARENA_EMPTY;
    autobuf text = buf_max(1024);
    size_t len = strlen(detail);
    text_shown(&text, detail, len < NEWS_DETAIL_BYTES ? len : NEWS_DETAIL_BYTES);
    fprintf(stderr, "\r%.16s %s", work, text.len ? buf_cstr(&text) : "");
    if (done)
        fprintf(stderr, ": %s", table_size(&arena, done));
    if (done && total)
        fprintf(stderr, " of %s (%u %%)", table_size(&arena, total), (unsigned)((double)done * 100.0 / (double)total));
    fputs("\x1b[K", stderr);
    fflush(stderr);
    shown = true;
}

void news_clear(void) {
    if (shown)
        fputs("\r\x1b[K", stderr);
    shown = false;
}

void news_show(void *, const struct spec *, const char *work, uint64_t done, uint64_t total, const char *detail) {
    if (isatty(STDERR_FILENO))
        rest_news_show(work, done, total, detail ? detail : "");
}

/* ---- the daemon's events ---- */

static uint64_t news_number(const json_t *event, const char *key) {
    json_int_t value = json_integer_value(json_object_get(event, key));
    return value > 0 ? (uint64_t)value : 0;
}

static int news_each(void *user, const char *name, const char *data, size_t len) {
    struct news *news = user;
    json_t *event = strcmp(name, "progress") == 0 ? json_loadb(data, len, 0, NULL) : NULL;
    const char *work = json_string_value(json_object_get(event, "work"));
    const char *detail = json_string_value(json_object_get(event, "why"));
    pthread_mutex_lock(&news->lock);
    bool over = news->over;
    if (!over && work && strspn(work, "abcdefghijklmnopqrstuvwxyz") == strlen(work))
        rest_news_show(work, news_number(event, "done"), news_number(event, "total"), detail ? detail : "");
    pthread_mutex_unlock(&news->lock);
    json_decref(event);
    return over ? -1 : 0;
}

static int news_body(void *user, const void *data, size_t len) {
    return event_feed(user, data, len);
}

static void *news_thread(void *user) {
    struct news *news = user;
    struct http_client *client = NULL;
    struct event_reader reader;
    struct err ignored;
    autobuf refusal = buf_max(64 << 10);
    /* Most boxes are ready before anyone could read a line. */
    uint64_t until_ms = clock_ms() + NEWS_FIRST_MS;
    pthread_mutex_lock(&news->lock);
    while (!news->over && cond_wait_until(&news->ended, &news->lock, until_ms))
        ;
    bool over = news->over;
    pthread_mutex_unlock(&news->lock);
    if (over || remote_connect(&client, &ignored) < 0)
        return NULL;
    event_init(&reader, news_each, news);
    const struct http_call call = {.method = "GET", .path = news->path, .write_body = news_body, .user = &reader};
    int status = 0;
    http_client_call(client, &call, &status, &refusal, &ignored); /* if it fails, there is just no line */
    event_done(&reader);
    http_client_free(client);
    return NULL;
}

struct news *news_begin(struct cli *cli, const char *user, const char *box) {
    struct http_client *first;
    struct err ignored;
    /* Makes the client of this thread first: it loads what both need. */
    if (!isatty(STDERR_FILENO) || remote_client(cli, &first, &ignored) < 0)
        return NULL;
    struct news *news = xcalloc(1, sizeof *news);
    snprintf(news->path, sizeof news->path, "/v1/events?type=progress%s%s%s%s", user ? "&user=" : "",
             user ? remote_encoded(cli, user) : "", box ? "&box=" : "", box ? box : "");
    pthread_mutex_init(&news->lock, NULL);
    cond_init(&news->ended);
    thread_detached(news_thread, news, 0);
    return news;
}

void news_end(struct news *news) {
    if (!news)
        return;
    autolock(&news->lock);
    news->over = true;
    pthread_cond_signal(&news->ended);
    news_clear();
}
