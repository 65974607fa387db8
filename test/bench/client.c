/* See client.h. Called by bench.c only. Everything dies on the first surprise: a bench of failures measures nothing. */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char *const small_environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};

/* Daemons that are still there when a part ends, however it ends: they would hold its output open for ever. */
static pid_t daemons[64];
static size_t daemon_count;

static void end_all(void) {
    for (size_t i = 0; i < daemon_count; i++)
        if (waitpid(daemons[i], NULL, WNOHANG) == 0)
            kill(daemons[i], SIGKILL);
}

void end_with_me(pid_t pid) {
    if (!daemon_count)
        atexit(end_all);
    if (daemon_count < sizeof daemons / sizeof *daemons)
        daemons[daemon_count++] = pid;
}

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void idle_ms(unsigned ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double percentile(const double *values, size_t count, unsigned percent) {
    double *sorted = malloc(count * sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    double value = median(sorted, count);
    if (percent != 50)
        value = sorted[count * percent / 100];
    free(sorted);
    return value;
}

static struct figure figure_at(const double *values, size_t count, unsigned percent) {
    struct figure figure = {.mid = percentile(values, count, percent),
                            .count = count < FIGURE_PARTS ? (unsigned)count : FIGURE_PARTS};
    for (unsigned i = 0; i < figure.count; i++) {
        size_t from = i * count / figure.count, to = (i + 1) * count / figure.count;
        figure.parts[i] = percentile(values + from, to - from, percent);
    }
    return figure;
}

struct figure middle(const double *values, size_t count) {
    return figure_at(values, count, 50);
}

struct figure rarest(const double *values, size_t count) {
    return figure_at(values, count, 99);
}

struct figure exactly(double value) {
    return (struct figure){.mid = value, .parts = {value}, .count = 1};
}

struct figure differing(const struct figure *more, const struct figure *less) {
    struct figure figure = {.mid = more->mid - less->mid, .count = more->count};
    for (unsigned i = 0; i < figure.count; i++)
        figure.parts[i] = more->parts[i] - less->parts[i];
    return figure;
}

/* ---- HTTP ---- */

/* BENCH_SOCKET: a unix socket instead of any port. */
static int dial(int port) {
    const char *path = getenv("BENCH_SOCKET");
    if (path) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (local < 0 || connect(local, (struct sockaddr *)&at, sizeof at) < 0)
            die("connect to %s: %s", path, strerror(errno));
        return local;
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

void client_open(struct client *client, int port) {
    client->fd = dial(port);
    client->size = 1 << 16;
    client->buffer = malloc(client->size);
}

void client_close(struct client *client) {
    close(client->fd);
    free(client->buffer);
}

void client_send(struct client *client, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = send(client->fd, text, len, MSG_NOSIGNAL);
        if (n <= 0)
            die("send: %s", strerror(errno));
        text += n, len -= (size_t)n;
    }
}

static size_t receive(struct client *client, size_t have) {
    if (have + 1 >= client->size) {
        client->size *= 2;
        client->buffer = realloc(client->buffer, client->size);
    }
    ssize_t n = recv(client->fd, client->buffer + have, client->size - have - 1, 0);
    if (n <= 0)
        die("the server hung up: %s", n < 0 ? strerror(errno) : "end of stream");
    client->buffer[have + (size_t)n] = 0;
    return have + (size_t)n;
}

/* A chunked body, in place: chunks are moved together as they come. */
static size_t read_chunked(struct client *client, size_t begin, size_t have) {
    size_t to = begin, at = begin;
    for (;;) {
        char *end;
        while (!(end = strstr(client->buffer + at, "\r\n")))
            have = receive(client, have);
        size_t len = strtoul(client->buffer + at, NULL, 16), head = (size_t)(end + 2 - client->buffer);
        while (have < head + len + 2)
            have = receive(client, have);
        memmove(client->buffer + to, client->buffer + head, len);
        to += len, at = head + len + 2;
        if (len == 0)
            return to - begin;
    }
}

int client_answer(struct client *client, char **ret_body, size_t *ret_len) {
    size_t have = 0;
    char *end;
    do
        have = receive(client, have);
    while (!(end = strstr(client->buffer, "\r\n\r\n")));
    size_t begin = (size_t)(end + 4 - client->buffer), len = 0;
    int status = (int)strtol(client->buffer + 9, NULL, 10);
    *end = 0;
    const char *length = strcasestr(client->buffer, "\r\nContent-Length:");
    if (length) {
        len = strtoul(length + 17, NULL, 10);
        while (have < begin + len)
            have = receive(client, have);
    } else if (strcasestr(client->buffer, "\r\nTransfer-Encoding:")) {
        len = read_chunked(client, begin, have);
    }
    client->buffer[begin + len] = 0;
    if (ret_body)
        *ret_body = client->buffer + begin;
    if (ret_len)
        *ret_len = len;
    return status;
}

int client_call(struct client *client, char **ret_body, const char *method, const char *path, const char *body) {
    char head[4096];
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", method,
                     path, body ? strlen(body) : 0, body ? body : "");
    if (n >= (int)sizeof head)
        die("request too long");
    client_send(client, head, (size_t)n);
    return client_answer(client, ret_body, NULL);
}

void client_expect(struct client *client, int status, const char *method, const char *path, const char *body) {
    char *answer;
    int got = client_call(client, &answer, method, path, body);
    if (got != status && !(status == 200 && got == 201))
        die("%s %s: %d %.300s", method, path, got, answer);
}

/* ---- boxes ---- */

void box_create(struct client *client, const char *members, char ret_id[ID_BYTES]) {
    char body[2048], *answer;
    snprintf(body, sizeof body, "{\"backend\":\"jail\"%s}", members);
    int status = client_call(client, &answer, "POST", "/v1/boxes", body);
    const char *id = strstr(answer, "\"id\":");
    if (status != 201 || !id || !(id = strchr(id + 5, '"')))
        die("create: %d %.400s", status, answer);
    snprintf(ret_id, ID_BYTES, "%.16s", id + 1);
}

void box_delete(struct client *client, const char id[ID_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "/v1/boxes/%s", id);
    client_expect(client, 204, "DELETE", path, NULL);
}

size_t box_exec_request(char *text, size_t size, const char id[ID_BYTES]) {
    static const char body[] = "{\"argv\":[\"/bin/true\"]}";
    return (size_t)snprintf(text, size,
                            "POST /v1/boxes/%s/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            id, sizeof body - 1, body);
}

void exec_once(struct client *client, const char *request, size_t len) {
    char *answer;
    client_send(client, request, len);
    int status = client_answer(client, &answer, NULL);
    if (status != 200 || !strstr(answer, "\"exit_code\":0"))
        die("exec: %d %.400s", status, answer);
}

/* ---- transfers ---- */

double transfer_get(int port, const char *path, uint64_t want_bytes) {
    char text[8192];
    int fd = dial(port);
    uint64_t start = now_ns();
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        die("send");
    ssize_t got = recv(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    char *end = strstr(text, "\r\n\r\n");
    if (!end || strtol(text + 9, NULL, 10) != 200)
        die("GET %s: %.200s", path, text);
    uint64_t have = (uint64_t)(text + got - (end + 4));
    char *sink = getenv("BENCH_SOCKET") ? malloc(1 << 20) : NULL; /* unix sockets throw nothing away by themselves */
    while (have < want_bytes) {
        ssize_t more = recv(fd, sink, 1 << 20, sink ? 0 : MSG_TRUNC);
        if (more <= 0)
            die("GET %s ended after %llu bytes", path, (unsigned long long)have);
        have += (uint64_t)more;
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    free(sink);
    close(fd);
    return seconds;
}

double transfer_put(int port, const char *path, uint64_t bytes) {
    enum { PIECE = 1 << 20 };
    static char *piece;
    if (!piece) {
        piece = malloc(PIECE);
        for (size_t i = 0; i < PIECE; i++)
            piece[i] = (char)(i * 7 + 1);
    }
    struct client client;
    client_open(&client, port);
    char head[1024];
    int n = snprintf(head, sizeof head, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %llu\r\n\r\n", path,
                     (unsigned long long)bytes);
    uint64_t start = now_ns();
    client_send(&client, head, (size_t)n);
    for (uint64_t left = bytes; left > 0;) {
        size_t part = left < PIECE ? (size_t)left : PIECE;
        client_send(&client, piece, part);
        left -= part;
    }
    int status = client_answer(&client, NULL, NULL);
    double seconds = (double)(now_ns() - start) / 1e9;
    if (status / 100 != 2)
        die("PUT %s: %.200s", path, client.buffer);
    client_close(&client);
    return seconds;
}

/* ---- peers ---- */

char *const peer_true[] = {"/bin/true", NULL};
char *const peer_bwrap[] = {"/usr/bin/bwrap", "--ro-bind", "/",         "/", "--unshare-all", "--proc", "/proc",
                            "--dev",          "/dev",      "/bin/true", NULL};

static pid_t spawn(char *const argv[], posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], actions, NULL, argv, small_environment);
    if (error)
        die("%s: %s", argv[0], strerror(error));
    return pid;
}

static void reap(pid_t pid, const char *name) {
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 1) /* 1: grep found nothing */
        die("%s failed with wait status %d", name, status);
}

void peer_run(char *const argv[]) {
    pid_t pid = spawn(argv, NULL);
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("%s failed with wait status %d", argv[0], status);
}

double peer_time(char *const argv[]) {
    uint64_t start = now_ns();
    peer_run(argv);
    return (double)(now_ns() - start) / 1e9;
}

double peer_output(char *const argv[], char *ret_text, size_t size) {
    static char buffer[1 << 17];
    int ends[2];
    size_t kept = 0;
    uint64_t start = now_ns();
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 17);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    pid_t pid = spawn(argv, &actions);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
        size_t part = kept + (size_t)n < size ? (size_t)n : size - kept;
        memcpy(ret_text + kept, buffer, part);
        kept += part;
    }
    reap(pid, argv[0]);
    close(ends[0]);
    if (size > 0)
        ret_text[kept < size ? kept : size - 1] = 0;
    return (double)(now_ns() - start) / 1e9;
}

/* Each loop is a process of its own: threads of one would wait for each other's memory map. */
double peer_rate(unsigned loops, double seconds) {
    unsigned long *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[8];
    for (unsigned i = 0; i < loops; i++) {
        if ((pids[i] = fork()) == 0) {
            uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
            while (now_ns() < end) {
                peer_run(peer_true);
                counts[i * 8]++;
            }
            _exit(0);
        }
    }
    unsigned long total = 0;
    for (unsigned i = 0; i < loops; i++) {
        waitpid(pids[i], NULL, 0);
        total += counts[i * 8];
    }
    munmap(counts, 4096);
    return (double)total / seconds;
}
