/* The client of a container engine against one that is played: it answers, lies, trickles, hangs, hangs up and never ends.
 * Each lie is a clear error within its time and its bytes; no call that may have been done is sent twice. */
#include "backend/docker/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tap.h"

/* ---- the engine that is played ---- */

#define VERSION_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define OK_CHUNKS "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

struct server {
    char path[100], url[120];
    const char *version; /* answer to /version, whole */
    int listener;
    pthread_t thread;
    atomic_uint accepted, requests, open; /* requests: but for those of the version */
    atomic_bool hung_up;                  /* somebody's connection ended here while a stream ran on it */
    char last[65536];                     /* the request before the last answer */
    pthread_mutex_t lock;
};

struct connection {
    struct server *server;
    int fd;
};

static void say_text(int fd, const char *text) {
    fd_write_all(fd, text, strlen(text));
}

static void say_chunk(int fd, const void *data, size_t len) {
    char size[16];
    snprintf(size, sizeof size, "%zx\r\n", len);
    say_text(fd, size);
    fd_write_all(fd, data, len);
    say_text(fd, "\r\n");
}

static void say_endless(int fd, const char *head, const char *part) {
    say_text(fd, head);
    for (unsigned i = 0; i < 400000 && send(fd, part, strlen(part), MSG_NOSIGNAL) > 0; i++)
        ;
}

static void until_closed(int fd) {
    char data[4096];
    while (recv(fd, data, sizeof data, 0) > 0)
        ;
}

static void play_trickle(struct server *server, int fd) {
    (void)server;
    say_text(fd, "HTTP/1.1 200 OK\r\n");
    for (unsigned i = 0; i < 200 && send(fd, "X", 1, MSG_NOSIGNAL) > 0; i++)
        poll(NULL, 0, 25);
}

static void play_values(struct server *server, int fd) {
    (void)server;
    say_text(fd, VERSION_HEAD "Connection: close\r\n\r\n[");
    char part[8192];
    for (size_t i = 0; i < sizeof part; i += 2)
        memcpy(part + i, "1,", 2);
    for (unsigned i = 0; i < 200; i++)
        fd_write_all(fd, part, sizeof part);
    say_text(fd, "1]");
}

static void play_big(struct server *server, int fd) {
    (void)server;
    char part[65536];
    memset(part, 'x', sizeof part);
    say_text(fd, "HTTP/1.1 200 OK\r\n\r\n");
    for (unsigned i = 0; i < 1024 && send(fd, part, sizeof part, MSG_NOSIGNAL) > 0; i++)
        ;
}

static void play_endless(struct server *server, int fd) {
    bool hints = strstr(server->last, "/endless-hints"), line = strstr(server->last, "/endless-line");
    say_endless(fd,
                hints  ? ""
                : line ? "HTTP/1.1 200 OK\r\nX: "
                       : "HTTP/1.1 200 OK\r\n",
                hints  ? "HTTP/1.1 103 Early Hints\r\n\r\n"
                : line ? "xxxxxxxxxxxxxxxx"
                       : "X-Field: value\r\n");
}

static void play_silence(struct server *server, int fd) {
    (void)server;
    until_closed(fd);
}

/* Everything that was uploaded comes back, with its chunks taken apart. */
static void play_upload(struct server *server, int fd) {
    char head[200];
    size_t total = 0;
    unsigned long sum = 0;
    FILE *in = fdopen(dup(fd), "r");
    for (char line[64]; fgets(line, sizeof line, in);) {
        unsigned long size = strtoul(line, NULL, 16);
        for (unsigned long i = 0; i < size; i++)
            sum = sum * 31 + (unsigned char)getc(in);
        total += size;
        if (!fgets(line, sizeof line, in) || !size)
            break;
    }
    fclose(in);
    (void)server;
    char body[64];
    snprintf(body, sizeof body, "{\"total\":%zu,\"sum\":%lu}", total, sum % 1000003);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    say_text(fd, head);
}

static void play_frames(struct server *server, int fd) {
    static const unsigned char frames[] =
        "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\4oops\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\6 world";
    char data[256];
    size_t have = 0;
    say_text(fd, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    for (size_t i = 0; i < sizeof frames - 1; i++) { /* cut at every byte */
        fd_write_all(fd, frames + i, 1);
        poll(NULL, 0, 1);
    }
    for (ssize_t got; have < sizeof data - 1 && (got = recv(fd, data + have, sizeof data - 1 - have, 0)) > 0;)
        have += (size_t)got;
    data[have] = 0; /* and what came until it was shut goes back */
    unsigned char head[8] = {1, 0, 0, 0, 0, 0, 0, (unsigned char)have};
    fd_write_all(fd, head, sizeof head);
    fd_write_all(fd, data, have);
    (void)server;
}

static void play_frames_lie(struct server *server, int fd) {
    (void)server;
    say_text(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n");
    fd_write_all(fd, "\1\0\0\0\0\0\0\3abc\11\0\0\0\0\0\0\3def", 22);
    until_closed(fd);
}

static void play_frames_huge(struct server *server, int fd) {
    (void)server;
    char part[8192];
    memset(part, 'e', sizeof part);
    say_text(fd, "HTTP/1.1 101 UPGRADED\r\n\r\n");
    fd_write_all(fd, "\2\0\0\0\xff\xff\xff\xff", 8);
    fd_write_all(fd, part, sizeof part);
    until_closed(fd);
}

static void play_frames_quiet(struct server *server, int fd) {
    say_text(fd, "HTTP/1.1 101 UPGRADED\r\n\r\n");
    until_closed(fd);
    atomic_store(&server->hung_up, true);
}

/* The n-th request of this kind: the first connection ends it after some lines, the second goes on. */
static void play_events(struct server *server, int fd) {
    (void)server;
    static atomic_uint asked;
    unsigned number = atomic_fetch_add(&asked, 1);
    char long_line[70000];
    say_text(fd, OK_CHUNKS);
    if (number == 0) {
        static const char first[] =
            "{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"i1\",\"Attributes\":{\"name\":\"one\"}},"
            "\"timeNano\":4000000000000000001}\n"
            "no json\n"
            "{\"Type\":\"network\",\"Action\":\"start\",\"Actor\":{\"ID\":\"i2\",\"Attributes\":{\"name\":\"net\"}}}\n"
            "{\"Type\":\"container\",\"Action\":7,\"Actor\":[]}\n"
            "{\"Type\":\"container\",\"Action\":\"died\",\"Actor\":{\"ID\":\"i1\",\"Attributes\":{\"name\":\"one\","
            "\"containerExitCode\":\"137\"}},\"timeNano\":4000000000000000002}\n";
        memset(long_line, '[', sizeof long_line);
        say_chunk(fd, first, sizeof first - 1);
        say_chunk(fd, long_line, sizeof long_line);
        say_chunk(fd, "", 0);
        return;
    }
    static const char second[] =
        "{\"Type\":\"container\",\"Action\":\"died\",\"Actor\":{\"ID\":\"i1\",\"Attributes\":{\"name\":\"one\"}},"
        "\"timeNano\":4000000000000000002}\n"
        "{\"Type\":\"container\",\"Action\":\"remove\",\"Actor\":{\"ID\":\"i1\",\"Attributes\":{\"name\":\"one\"}},"
        "\"timeNano\":4000000000000000003}\n";
    say_chunk(fd, second, sizeof second - 1);
    until_closed(fd);
}

enum after { KEEP, CLOSE };
static const struct played {
    const char *path, *answer;
    void (*play)(struct server *server, int fd);
    enum after after;
} played[] = {
    {"/plain", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"a\": 1}", NULL, KEEP},
    {"/chunks", OK_CHUNKS "3;ext=1\r\n{\"a\r\n5\r\n\": 1}\r\n0\r\nTrailer: x\r\n\r\n", NULL, KEEP},
    {"/until-end", "HTTP/1.0 200 OK\r\n\r\n{\"a\": 1}", NULL, CLOSE},
    {"/hint", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"a\": 1}", NULL, KEEP},
    {"/nothing", "HTTP/1.1 204 No Content\r\n\r\n", NULL, KEEP},
    {"/same", "HTTP/1.1 304 Not Modified\r\n\r\n", NULL, KEEP},
    {"/more", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"a\": 1}HTTP/1.1 200 OK\r\n", NULL, KEEP},
    {"/no-http", "SSH-2.0-OpenSSH_9.2\r\n", NULL, CLOSE},
    {"/no-status", "HTTP/1.1 2x0 OK\r\n\r\n", NULL, CLOSE},
    {"/no-length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", NULL, CLOSE},
    {"/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", NULL, CLOSE},
    {"/gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", NULL, CLOSE},
    {"/no-chunk", OK_CHUNKS "zz\r\n", NULL, CLOSE},
    {"/huge-chunk", OK_CHUNKS "ffffffffffffffffffff\r\nx", NULL, CLOSE},
    {"/bad-chunk-end", OK_CHUNKS "1\r\nxyy", NULL, CLOSE},
    {"/half", "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{\"a\": 1}", NULL, CLOSE},
    {"/half-chunk", OK_CHUNKS "50\r\n{\"a\": 1}", NULL, CLOSE},
    {"/half-head", "HTTP/1.1 200 OK\r\nContent-", NULL, CLOSE},
    {"/hang-up", "", NULL, CLOSE},
    {"/no-json", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html", NULL, KEEP},
    {"/values", NULL, play_values, CLOSE},
    {"/big", NULL, play_big, CLOSE},
    {"/endless-head", NULL, play_endless, CLOSE},
    {"/endless-line", NULL, play_endless, CLOSE},
    {"/endless-hints", NULL, play_endless, CLOSE},
    {"/trickle", NULL, play_trickle, CLOSE},
    {"/silence", NULL, play_silence, CLOSE},
    {"/upload", NULL, play_upload, KEEP},
    {"/upload-refused", "HTTP/1.1 404 Not Found\r\nContent-Length: 20\r\n\r\n{\"message\":\"no way\"}", play_silence,
     CLOSE},
    {"/400", "HTTP/1.1 400 Bad\r\n\r\n{\"message\":\"bad\"}", NULL, CLOSE},
    {"/404", "HTTP/1.1 404 No\r\n\r\n{\"message\":\"no \\u001b[1m\"}", NULL, CLOSE},
    {"/409-name", "HTTP/1.1 409 No\r\n\r\n{\"message\":\"Conflict. The name is already in use by\"}", NULL, CLOSE},
    {"/409", "HTTP/1.1 409 No\r\n\r\n{\"message\":\"container is paused\"}", NULL, CLOSE},
    {"/500", "HTTP/1.1 500 No\r\n\r\n", NULL, CLOSE},
    {"/500-full", "HTTP/1.1 500 No\r\n\r\n{\"message\":\"write /x: no space left on device\"}", NULL, CLOSE},
    {"/503", "HTTP/1.1 503 No\r\n\r\nplain text", NULL, CLOSE},
    {"/frames", NULL, play_frames, CLOSE},
    {"/frames-lie", NULL, play_frames_lie, CLOSE},
    {"/frames-huge", NULL, play_frames_huge, CLOSE},
    {"/frames-quiet", NULL, play_frames_quiet, CLOSE},
    {"/events", NULL, play_events, CLOSE},
};

/* A request's head (and a body of a told length); false: the connection ended. */
static bool hear(int fd, char *request, size_t size) {
    size_t len = 0;
    for (char *end = NULL; !end;) {
        if (len + 1 >= size || recv(fd, request + len, 1, 0) != 1)
            return false;
        request[++len] = 0;
        end = len >= 4 && memcmp(request + len - 4, "\r\n\r\n", 4) == 0 ? request : NULL;
    }
    const char *told = strcasestr(request, "Content-Length:");
    size_t left = told ? strtoul(told + 15, NULL, 10) : 0;
    while (left-- && len + 1 < size && recv(fd, request + len, 1, 0) == 1)
        request[++len] = 0;
    return true;
}

/* The last word of the path decides; "again" is a connection that ends at its second request. */
static bool answer(struct server *server, int fd, const char *request, unsigned number) {
    char path[200] = "";
    sscanf(request, "%*s %199[^ ?]", path);
    if (strcmp(path, "/version") == 0) {
        say_text(fd, server->version);
        return true;
    }
    atomic_fetch_add(&server->requests, 1);
    pthread_mutex_lock(&server->lock);
    snprintf(server->last, sizeof server->last, "%s", request);
    pthread_mutex_unlock(&server->lock);
    const char *word = strrchr(path, '/');
    if (word && strcmp(word, "/again") == 0) {
        if (number > 1)
            return false;
        word = "/plain";
    }
    for (size_t i = 0; word && i < sizeof played / sizeof *played; i++)
        if (strcmp(played[i].path, word) == 0) {
            if (played[i].answer)
                say_text(fd, played[i].answer);
            if (played[i].play)
                played[i].play(server, fd);
            return played[i].after == KEEP;
        }
    return false;
}

static void *serve_one(void *user) {
    struct connection *connection = user;
    struct server *server = connection->server;
    char *request = malloc(65536);
    unsigned number = 0;
    while (hear(connection->fd, request, 65536) && answer(server, connection->fd, request, number++))
        ;
    close(connection->fd);
    free(request);
    free(connection);
    atomic_fetch_sub(&server->open, 1);
    return NULL;
}

static void *serve(void *user) {
    struct server *server = user;
    for (int fd; (fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        struct connection *connection = malloc(sizeof *connection);
        *connection = (struct connection){server, fd};
        atomic_fetch_add(&server->accepted, 1);
        atomic_fetch_add(&server->open, 1);
        pthread_t thread;
        pthread_create(&thread, NULL, serve_one, connection);
        pthread_detach(thread);
    }
    return NULL;
}

#define VERSION_41 VERSION_HEAD "Content-Length: 45\r\n\r\n{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}\n"

static void server_start(struct server *server) {
    static unsigned number;
    *server = (struct server){.version = VERSION_41};
    pthread_mutex_init(&server->lock, NULL);
    snprintf(server->path, sizeof server->path, "/tmp/cubby-engine-test.%d.%u", (int)getpid(), number++);
    snprintf(server->url, sizeof server->url, "unix://%s", server->path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, server->path, strlen(server->path) + 1);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(server->path);
    if (bind(server->listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(server->listener, 64) < 0)
        abort();
    pthread_create(&server->thread, NULL, serve, server);
}

static void server_end(struct server *server) {
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    unlink(server->path);
    for (uint64_t end_ms = clock_ms() + 20000; atomic_load(&server->open) && clock_ms() < end_ms;)
        poll(NULL, 0, 2);
    ok(atomic_load(&server->open) == 0, "no connection is left");
}

static struct engine *engine_of(const struct server *server) {
    struct engine *engine = NULL;
    struct err err;
    if (engine_new(&(struct engine_where){.url = server->url}, &engine, &err) < 0)
        abort();
    return engine;
}

/* ---- cases ---- */

static void places(void) {
    static const struct {
        const char *url, *environment;
        int code;
        bool near;
    } rows[] = {
        {"unix:///run/x.sock", NULL, 0, true},
        {"tcp://localhost:2376", NULL, 0, false},
        {"tcp://[::1]:2376", NULL, 0, false},
        {"https://engine.example", NULL, 0, false},
        {NULL, "unix:///run/y.sock", 0, true},
        {NULL, "tcp://10.0.0.1", 0, false},
        {"unix://relative", NULL, ERR_INVALID, false},
        {"tcp://:2375", NULL, ERR_INVALID, false},
        {"tcp://host:0", NULL, ERR_INVALID, false},
        {"tcp://host:99999", NULL, ERR_INVALID, false},
        {"tcp://ho st:1", NULL, ERR_INVALID, false},
        {"tcp://host:1\r\nX: y", NULL, ERR_INVALID, false},
        {"tcp://[::1", NULL, ERR_INVALID, false},
        {"tcp://user@host:1", NULL, ERR_INVALID, false},
        {"npipe:////./pipe/docker", NULL, ERR_INVALID, false},
        {"ssh://host", NULL, ERR_UNSUPPORTED, false},
        {"", NULL, ERR_INVALID, false},
        {NULL, "nonsense", ERR_INVALID, false},
    };
    unsetenv("DOCKER_TLS_VERIFY");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct engine *engine = NULL;
        struct err err = {0};
        unsetenv("DOCKER_HOST");
        if (rows[i].environment)
            setenv("DOCKER_HOST", rows[i].environment, 1);
        int code = engine_new(&(struct engine_where){.url = rows[i].url}, &engine, &err);
        ok(code == -rows[i].code && (code < 0 || engine_near(engine) == rows[i].near), "address %zu: %s", i,
           code < 0 ? err.text : engine_url(engine));
        engine_free(engine);
    }
    setenv("DOCKER_TLS_VERIFY", "1", 1);
    struct engine *of_environment = NULL, *named = NULL;
    struct err err;
    setenv("DOCKER_HOST", "tcp://10.0.0.1:2376", 1);
    engine_new(&(struct engine_where){0}, &of_environment, &err);
    engine_new(&(struct engine_where){.url = "tcp://10.0.0.2:2375"}, &named, &err);
    ok(engine_encrypted(of_environment), "the environment's TLS is for its engine");
    ok(!engine_encrypted(named), "and for no other");
    engine_free(of_environment);
    engine_free(named);
    unsetenv("DOCKER_TLS_VERIFY");
    unsetenv("DOCKER_HOST");
}

static void versions(void) {
    static const struct {
        const char *body;
        int code;
        unsigned minor;
    } rows[] = {
        {"{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}", 0, 41},
        {"{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\"}", 0, 45},
        {"{\"ApiVersion\":\"1.40\"}", 0, 40},
        {"{\"ApiVersion\":\"1.39\"}", ERR_UNSUPPORTED, 0},
        {"{\"ApiVersion\":\"1.60\",\"MinAPIVersion\":\"1.46\"}", ERR_UNSUPPORTED, 0},
        {"{\"ApiVersion\":\"2.0\"}", ERR_PROTOCOL, 0},
        {"{\"ApiVersion\":41}", ERR_PROTOCOL, 0},
        {"[]", ERR_PROTOCOL, 0},
        {"<html>", ERR_PROTOCOL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct server server;
        char text[400];
        struct err err = {0};
        unsigned minor = 0;
        server_start(&server);
        snprintf(text, sizeof text, VERSION_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(rows[i].body), rows[i].body);
        server.version = text;
        struct engine *engine = engine_of(&server);
        int code = engine_version(engine, &minor, &err);
        ok(code == -rows[i].code && minor == rows[i].minor, "version: %s: %d %u %s", rows[i].body, code, minor,
           err.text);
        engine_free(engine);
        server_end(&server);
    }
}

static void answers(void) {
    static const struct {
        const char *path;
        int code;
        const char *says;
    } rows[] = {
        {"/plain", 0, NULL},
        {"/chunks", 0, NULL},
        {"/until-end", 0, NULL},
        {"/hint", 0, NULL},
        {"/nothing", 0, NULL},
        {"/same", 0, NULL},
        {"/more", 0, NULL},
        {"/no-http", ERR_PROTOCOL, "not HTTP"},
        {"/no-status", ERR_PROTOCOL, "response code"},
        {"/no-length", ERR_PROTOCOL, "Length"},
        {"/two-lengths", ERR_PROTOCOL, "not JSON"},
        {"/gzip", ERR_PROTOCOL, "encoding"},
        {"/no-chunk", ERR_PROTOCOL, "chunk"},
        {"/huge-chunk", ERR_PROTOCOL, "chunk"},
        {"/bad-chunk-end", ERR_PROTOCOL, "chunk"},
        {"/half", ERR_BUSY, "hung up in the middle"},
        {"/half-chunk", ERR_BUSY, "hung up in the middle"},
        {"/half-head", ERR_BUSY, "hung up"},
        {"/hang-up", ERR_BUSY, "hung up"},
        {"/no-json", ERR_PROTOCOL, "not JSON"},
        {"/values", ERR_PROTOCOL, "too large"},
        {"/big", ERR_TOO_LARGE, "larger than"},
        {"/endless-head", ERR_PROTOCOL, "no end"},
        {"/endless-line", ERR_PROTOCOL, "too long"},
        {"/endless-hints", ERR_PROTOCOL, "never begins"},
        {"/400", ERR_INVALID, "says: bad (400)"},
        {"/404", ERR_NOT_FOUND, "says: no \\x1b[1m (404)"},
        {"/409-name", ERR_EXISTS, "already in use"},
        {"/409", ERR_BUSY, "paused"},
        {"/500", ERR_INTERNAL, "no reason given"},
        {"/500-full", ERR_FULL, "free space"},
        {"/503", ERR_BUSY, "plain text"},
        {"/not a path", ERR_INVALID, "percent-encoded"},
        {"/x HTTP/1.1\r\nEvil: 1", ERR_INVALID, "percent-encoded"},
    };
    struct server server;
    server_start(&server);
    struct engine *engine = engine_of(&server);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {0};
        json_t *json = NULL;
        int code = engine_json(engine, "GET", rows[i].path, NULL, "trying", &json, &err);
        bool whole = code < 0 || !json || json_integer_value(json_object_get(json, "a")) == 1;
        ok(code == -rows[i].code && whole && (code == 0 || strstr(err.text, rows[i].says)), "answer %zu: %d %s", i,
           code, code < 0 ? err.text : rows[i].path);
        json_decref(json);
    }
    struct err err;
    ok(engine_json(engine, "GET", "/plain", NULL, "trying", NULL, &err) == 0, "and it answers on");
    ok(strstr(server.last, "GET /v1.41/plain HTTP/1.1\r\n") && strstr(server.last, "\r\nHost: localhost\r\n"),
       "requests have version and host");
    engine_free(engine);
    server_end(&server);
}

/* Descriptors that a program started now would have. */
static unsigned inherited(void) {
    unsigned found = 0;
    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        found += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return found;
}

static void connections(void) {
    struct server server;
    struct err err;
    server_start(&server);
    struct engine *engine = engine_of(&server);
    unsigned before_any = inherited();
    for (unsigned i = 0; i < 20; i++)
        engine_json(engine, "GET", i % 2 ? "/plain" : "/chunks", NULL, "trying", NULL, &err);
    ok(server.requests == 20 && server.accepted == 1, "twenty calls over one connection");
    bool own = inherited() <= before_any;
    struct engine_stream *stream = NULL;
    int stream_fd = -1;
    engine_hijack(engine, "POST", "/frames-quiet", NULL, &stream_fd, &stream, &err);
    ok(own && inherited() <= before_any, "neither it nor a stream is left to programs that are started");
    engine_stream_free(stream);
    close(stream_fd);
    server.requests--, server.accepted--;
    /* the same connection ends at its next request, unanswered */
    ok(engine_json(engine, "GET", "/again", NULL, "trying", NULL, &err) == 0, "a question is asked again");
    ok(server.requests == 22 && server.accepted == 2, "over a new connection, once");
    unsigned generation = engine_generation(engine);
    ok(generation > 0, "the engine was lost meanwhile, and that shows");
    ok(engine_json(engine, "GET", "/plain", NULL, "trying", NULL, &err) == 0, "that connection is kept");
    unsigned before = server.requests;
    ok(engine_json(engine, "POST", "/again", NULL, "making it", NULL, &err) == -ERR_BUSY,
       "what may have been done is an error");
    ok(server.requests == before + 1, "and not sent a second time");
    ok(strstr(err.text, "making it: the container engine at unix://"), "which names what and whom: %s", err.text);
    engine_free(engine);
    server_end(&server);
    struct engine *nobody = engine_of(&server);
    ok(engine_json(nobody, "GET", "/plain", NULL, "trying", NULL, &err) == -ERR_BUSY && strstr(err.text, "start it"),
       "an engine that is not there: %s", err.text);
    server_start(&server);
    engine_free(nobody);
    nobody = engine_of(&server);
    ok(engine_json(nobody, "GET", "/plain", NULL, "trying", NULL, &err) == 0, "and one that is there again");
    engine_free(nobody);
    server_end(&server);
}

static void *stop_soon(void *user) {
    poll(NULL, 0, 50);
    atomic_store((atomic_bool *)user, true);
    return NULL;
}

static void times(void) {
    struct server server;
    struct err err;
    int status = 0;
    atomic_bool stop = false;
    pthread_t thread;
    server_start(&server);
    struct engine *engine = engine_of(&server);
    engine_json(engine, "GET", "/plain", NULL, "trying", NULL, &err);
    uint64_t begin_ms = clock_ms();
    struct http_call call = {.method = "GET", .path = "/silence", .timeout_ms = 150};
    ok(engine_do(engine, &call, &status, NULL, &err) == -ERR_TIMEOUT, "silence: %s", err.text);
    call.path = "/trickle";
    ok(engine_do(engine, &call, &status, NULL, &err) == -ERR_TIMEOUT, "a head that trickles: %s", err.text);
    ok(clock_ms() - begin_ms < 4000, "both in time");
    call = (struct http_call){.method = "GET", .path = "/silence", .stop = &stop};
    pthread_create(&thread, NULL, stop_soon, &stop);
    ok(engine_do(engine, &call, &status, NULL, &err) == -ERR_GONE, "a call that is given up: %s", err.text);
    pthread_join(thread, NULL);
    ok(clock_ms() - begin_ms < 8000, "at once");
    engine_free(engine);
    server_end(&server);
}

struct upload {
    size_t left;
    unsigned long sum;
    unsigned seed;
};

static ssize_t upload_read(void *user, void *data, size_t len) {
    struct upload *upload = user;
    size_t part = upload->left < len ? upload->left : len;
    part = part > 40000 ? 40000 - upload->seed % 100 : part;
    for (size_t i = 0; i < part; i++) {
        unsigned char byte = (unsigned char)(upload->seed = upload->seed * 1103515245u + 12345u);
        ((unsigned char *)data)[i] = byte;
        upload->sum = upload->sum * 31 + byte;
    }
    upload->left -= part;
    return (ssize_t)part;
}

static int no_more(void *user, const void *data, size_t len) {
    (void)user, (void)data, (void)len;
    return -1;
}

static void uploads(void) {
    struct server server;
    struct err err;
    int status = 0;
    autobuf out = buf_max(65536);
    server_start(&server);
    struct engine *engine = engine_of(&server);
    struct upload upload = {.left = 3000000, .seed = 7};
    struct http_call call = {.method = "PUT", .path = "/upload", .read_body = upload_read, .user = &upload};
    char expect[64] = "";
    int code = engine_do(engine, &call, &status, &out, &err);
    snprintf(expect, sizeof expect, "{\"total\":3000000,\"sum\":%lu}", upload.sum % 1000003);
    ok_all("three megabytes in chunks", code == 0, status == 200, out.len == strlen(expect),
           memcmp(out.data, expect, out.len) == 0);
    ok_all("and the connection goes on", server.accepted == 1,
           engine_json(engine, "GET", "/plain", NULL, "trying", NULL, &err) == 0, server.accepted == 1);
    upload.left = 100000000;
    call.path = "/upload-refused";
    buf_clear(&out);
    code = engine_do(engine, &call, &status, &out, &err);
    ok(code == 0 && status == 404 && upload.left > 90000000, "refused at once: %d after %zu bytes", status,
       100000000 - upload.left);
    call = (struct http_call){.method = "GET", .path = "/plain", .write_body = no_more};
    ok(engine_do(engine, &call, &status, &out, &err) == -ERR_GONE, "an answer that nobody wants");
    engine_free(engine);
    server_end(&server);
}

static size_t read_until_end(int fd, char *data, size_t size) {
    size_t len = 0;
    for (ssize_t got; len < size - 1 && (got = read(fd, data + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    data[len] = 0;
    return len;
}

static void streams(void) {
    struct server server;
    struct err err;
    struct engine_stream *stream = NULL;
    int fd = -1;
    char text[8192];
    server_start(&server);
    struct engine *engine = engine_of(&server);
    ok(engine_hijack(engine, "POST", "/frames", NULL, &fd, &stream, &err) == 0, "a connection becomes a stream");
    ok(strcasestr(server.last, "\r\nConnection: Upgrade\r\n") != NULL, "it was asked to");
    ok(write(fd, "up", 2) == 2 && shutdown(fd, SHUT_WR) == 0 && read_until_end(fd, text, sizeof text) == 13 &&
           strcmp(text, "hello worldup") == 0,
       "both ways, and one may be shut: %s", text);
    ok(engine_stream_stderr(stream, text, sizeof text) == 4 && strcmp(text, "oops") == 0, "errors are kept apart");
    ok(engine_stream_stderr(stream, text, 3) == 2 && strcmp(text, "oo") == 0, "and cut to what fits");
    engine_stream_free(stream);
    close(fd);
    engine_hijack(engine, "POST", "/frames-lie", "{}", &fd, &stream, &err);
    ok(read_until_end(fd, text, sizeof text) == 3 && strcmp(text, "abc") == 0, "what is no frame ends it");
    engine_stream_stderr(stream, text, sizeof text);
    ok(strstr(text, "not a frame") != NULL, "with a reason: %s", text);
    engine_stream_free(stream);
    close(fd);
    engine_hijack(engine, "POST", "/frames-huge", NULL, &fd, &stream, &err);
    for (uint64_t end_ms = clock_ms() + 20000; clock_ms() < end_ms;) {
        if (engine_stream_stderr(stream, text, sizeof text) == ENGINE_STDERR_BYTES)
            break;
        poll(NULL, 0, 2);
    }
    ok(engine_stream_stderr(stream, text, sizeof text) == ENGINE_STDERR_BYTES, "of endless errors the begin is kept");
    engine_stream_free(stream); /* while it runs */
    ok(read(fd, text, 1) == 0, "a stream that is freed ends");
    close(fd);
    ok(engine_hijack(engine, "POST", "/404", NULL, &fd, &stream, &err) == -ERR_NOT_FOUND, "refused: %s", err.text);
    ok(engine_hijack(engine, "POST", "/hang-up", NULL, &fd, &stream, &err) == -ERR_BUSY, "hung up: %s", err.text);
    engine_hijack(engine, "POST", "/frames-quiet", NULL, &fd, &stream, &err);
    engine_stream_leave(stream);
    close(fd);
    for (uint64_t end_ms = clock_ms() + 20000; !atomic_load(&server.hung_up) && clock_ms() < end_ms;)
        poll(NULL, 0, 2);
    ok(atomic_load(&server.hung_up), "one that was left ends with its descriptor");
    engine_free(engine);
    server_end(&server);
}

struct told {
    pthread_mutex_t lock;
    char text[2000];
};

static void tell(void *user, const struct engine_event *event) {
    struct told *told = user;
    pthread_mutex_lock(&told->lock);
    size_t len = strlen(told->text);
    snprintf(told->text + len, sizeof told->text - len, "%s %s %d;", event->action, event->name ? event->name : "-",
             event->exit_status);
    pthread_mutex_unlock(&told->lock);
}

static void events(void) {
    static const char expect[] = "up - -1;start one -1;die one 137;down - -1;up - -1;destroy one -1;";
    struct server server;
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    server_start(&server);
    struct engine *engine = engine_of(&server);
    struct engine_events *events = engine_watch(engine, "cubby.home=\"x\"", tell, &told);
    bool done = false;
    for (uint64_t end_ms = clock_ms() + 30000; !done && clock_ms() < end_ms;) {
        poll(NULL, 0, 5);
        pthread_mutex_lock(&told.lock);
        done = strcmp(told.text, expect) == 0;
        pthread_mutex_unlock(&told.lock);
    }
    pthread_mutex_lock(&told.lock);
    ok(done, "events: each once, over two connections: %s", told.text);
    pthread_mutex_unlock(&told.lock);
    pthread_mutex_lock(&server.lock);
    ok(strstr(server.last,
              "since=4000000000.000000002&filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22label%22%3A%5B"
              "%22cubby.home%3D%5C%22x%5C%22%22%5D%7D HTTP/1.1") != NULL,
       "from where it ended");
    pthread_mutex_unlock(&server.lock);
    engine_watch_end(events);
    engine_free(engine);
    server_end(&server);
}

struct crowd {
    struct engine *engine;
    atomic_uint good;
};

static void *crowd_run(void *user) {
    struct crowd *crowd = user;
    struct err err;
    for (unsigned i = 0; i < 40; i++) {
        json_t *json = NULL;
        if (engine_json(crowd->engine, i % 3 ? "GET" : "POST", i % 2 ? "/plain" : "/chunks", "{}", "trying", &json,
                        &err) == 0 &&
            json_integer_value(json_object_get(json, "a")) == 1)
            atomic_fetch_add(&crowd->good, 1);
        json_decref(json);
    }
    return NULL;
}

static void crowds(void) {
    struct server server;
    pthread_t threads[12];
    server_start(&server);
    struct crowd crowd = {.engine = engine_of(&server)};
    for (size_t i = 0; i < 12; i++)
        pthread_create(&threads[i], NULL, crowd_run, &crowd);
    for (size_t i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
    ok(crowd.good == 12 * 40, "twelve threads at once");
    engine_free(crowd.engine);
    server_end(&server);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    places();
    versions();
    answers();
    connections();
    times();
    uploads();
    streams();
    events();
    crowds();
    return tap_end();
}
