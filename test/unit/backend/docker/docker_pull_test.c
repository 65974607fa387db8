/* Pulling from an engine that is played and lies: every answer ends in progress, in an error that says something, or in one
 * that says it cannot be understood; never in more memory, a wait or a crash. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "backend/reference.h"
#include "tap.h"

static int listener;
static char path[] = "/tmp/pull-test-XXXXXX", request[65536];
static const char *head, *body; /* of the answer to a pull; body may be told `times` */
static size_t times;
static uint64_t last_done, last_total, told;

/* ---- the engine: an answer a connection, and it ends ---- */

static void say(int fd, const char *text) {
    size_t len = strlen(text);
    while (len) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        text += n, len -= (size_t)n;
    }
}

static void *engine_thread(void *unused) {
    (void)unused;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
        char text[65536] = "";
        size_t len = 0;
        for (ssize_t n; len < sizeof text - 1 && !strstr(text, "\r\n\r\n"); len += (size_t)n, text[len] = 0)
            if ((n = recv(fd, text + len, sizeof text - 1 - len, 0)) <= 0)
                break;
        if (!strstr(text, "/images/create")) {
            say(fd,
                "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
                "{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\",\"Version\":\"20.10\",\"Os\":\"linux\",\"Arch\":\"amd64\"}");
            continue;
        }
        memcpy(request, text, len + 1);
        say(fd, head);
        for (size_t i = 0; i < times; i++)
            say(fd, body);
    }
    return NULL;
}

static void progress(void *user, const struct spec *spec, const char *what, uint64_t done, uint64_t total,
                     const char *detail) {
    (void)user;
    told += strcmp(what, "pull") == 0 && strcmp(spec->user, "ann") == 0 && strstr(detail, "/app") != NULL;
    last_done = done, last_total = total;
}

/* ---- one pull ---- */

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"

static struct backend backend;
static struct err err;

static int pull(const char *answer_head, const char *answer, size_t answer_times) {
    autoarena arena;
    struct reference image;
    struct spec spec = {.id = "0123456789abcdef", .user = "ann", .container.platform = "linux/amd64"};
    arena_init(&arena);
    head = answer_head, body = answer, times = answer_times;
    err = (struct err){0};
    request[0] = 0;
    told = last_done = last_total = 0;
    if (!reference_parse("r.example:5000/org/app:1", &arena, &image))
        abort();
    return docker_pull(&backend, &spec, &image, &err);
}

static void test_streams(void) {
    ok_about(pull(OK_HEAD,
                  "{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":10,\"total\":100}}\r\n"
                  "{\"status\":\"Downloading\",\"id\":\"b\",\"progressDetail\":{\"current\":5,\"total\":50}}\r\n"
                  "{\"status\":\"Pull complete\",\"id\":\"a\"}\n{\"status\":\"Download complete\",\"id\":\"b\"}\n\n"
                  "{\"status\":\"Status: Downloaded\"}\n",
                  1) == 0 &&
                 last_done == 150 && last_total == 150 && told >= 2,
             "a pull", err.text);
    ok_about(strstr(request, "fromImage=r.example%3A5000%2Forg%2Fapp&tag=1&platform=linux%2Famd64 ") != NULL,
             "asked for by its full name", "r.example:5000/org/app");
    ok_about(pull(OK_HEAD, "{\"error\":\"unauthorized: no\\u001b[31m\"}\n", 1) == -ERR_DENIED && !strchr(err.text, 27),
             "an error in the stream, escaped", err.text);
    ok_about(pull(OK_HEAD, "{\"error\":\"manifest unknown\"}\n", 1) == -ERR_NOT_FOUND, "a missing image", err.text);
    ok_about(pull(OK_HEAD, "{\"error\":\"no matching manifest for linux/amd64\"}\n", 1) == -ERR_UNSUPPORTED,
             "another architecture", err.text);
    ok_about(pull(OK_HEAD, "{\"error\":\"write: no space left on device\"}\n", 1) == -ERR_LIMIT, "a full disk",
             err.text);
    ok_about(pull(OK_HEAD, "{\"error\":\"anything\"}\n", 1) == -ERR_BUSY, "anything else", err.text);
    ok_about(pull("HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 38\r\n\r\n",
                  "{\"message\":\"pull access denied for x\"}", 1) == -ERR_DENIED,
             "a status", err.text);
    ok_about(pull("HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 4\r\n\r\n", "nope", 1) == -ERR_BUSY,
             "a status without words", err.text);
}

static void test_lies(void) {
    static const char *const lies[] = {
        "nonsense\n", "[]\n", "5\n", "{\"status\":\n", "{}{}\n", "{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}\n", "\xff\xfe\n"};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        ok_about(pull(OK_HEAD, lies[i], 1) == -ERR_PROTOCOL, "no message", err.text);
    static char line[4096];
    memset(line, 'x', sizeof line - 1);
    ok_about(pull(OK_HEAD, line, 1 << 20) == -ERR_PROTOCOL, "a line without an end", err.text);
    ok_about(
        pull(
            OK_HEAD,
            "{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":-5,\"total\":9007199254740993}}\n"
            "{\"status\":7,\"id\":[],\"progressDetail\":\"x\"}\n{\"status\":\"Downloading\",\"id\":\"0123456789012345678901234567890123456789\"}\n",
            1000) == 0 &&
            last_done == 0 && last_total == 0,
        "numbers and ids that are none count for nothing", err.text);
    static char many[200000];
    for (size_t i = 0, at = 0; i < 2000; i++)
        at += (size_t)snprintf(
            many + at, sizeof many - at,
            "{\"status\":\"Downloading\",\"id\":\"%zu\",\"progressDetail\":{\"current\":1,\"total\":2}}\n", i);
    ok_about(pull(OK_HEAD, many, 1) == 0 && last_total == 512, "more layers than anybody has", err.text);
    ok_about(pull(OK_HEAD, "", 1) == 0, "nothing at all is whatever an inspection says afterwards", err.text);
    ok_about(pull("", "", 1) < 0, "no answer", err.text);
}

static void test_credentials(void) {
    static const struct docker_registry registries[] = {
        {.host = "docker.io", .username = "wrong", .password = "wrong"},
        {.host = "R.example:5000", .username = "robot", .password = "s3\"cret\xc3\xbc"},
    };
    static const struct docker_settings settings = {.registries = registries, .registry_count = 2};
    backend.settings = &settings;
    ok_about(pull(OK_HEAD, "{\"error\":\"unauthorized\"}\n", 1) == -ERR_DENIED &&
                 strstr(err.text, "refuses the configured credentials") && !strstr(err.text, "cret"),
             "not told", err.text);
    const char *auth = strcasestr(request, "X-Registry-Auth: ");
    ok_about(auth && strcspn(auth + 17, "\r+/") ==
                         strspn(auth + 17, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_="),
             "base64 for addresses", auth ? "there" : "missing");
    static const struct docker_registry missing[] = {
        {.host = "r.example:5000", .username = "u", .password_file = "/nonexistent/p"}};
    static const struct docker_settings without = {.registries = missing, .registry_count = 1};
    backend.settings = &without;
    ok_about(pull(OK_HEAD, "{}\n", 1) == -ERR_NOT_FOUND && !request[0], "a file that is missing: nothing is asked",
             err.text);
}

int main(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char url[128];
    pthread_t thread;
    static struct backend_env env = {.progress = progress};
    static const struct docker_settings settings;
    if (!mkdtemp(path))
        return 1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/sock", path);
    snprintf(url, sizeof url, "unix://%s", address.sun_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct engine_where where = {.url = url};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 8) < 0 ||
        pthread_create(&thread, NULL, engine_thread, NULL) != 0 || engine_new(&where, &backend.engine, &err) < 0)
        return 1;
    backend.env = &env;
    backend.settings = &settings;
    test_streams();
    test_lies();
    test_credentials();
    engine_free(backend.engine);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    unlink(address.sun_path);
    rmdir(path);
    return tap_end();
}
