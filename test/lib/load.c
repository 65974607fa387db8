/* A steady load for the soak: requests over kept connections to a unix socket, as many threads as are asked for.
 * usage: load SOCKET exec BOX COUNT THREADS    a command each, which must exit with 0
 *        load SOCKET cycle COUNT THREADS       a box made, used once, deleted
 * Prints "done N"; the first answer that is not as it should be ends it with a message. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path;
static const char *box;
static atomic_long left, finished;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "load: %s: %.400s\n", what, detail);
    exit(1);
}

static int dial(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect", path);
    return fd;
}

/* One request and its whole answer, which has a Content-Length or is 204. Returns the status. */
static int request(int fd, const char *method, const char *target, const char *body, char *answer, size_t size) {
    char text[1024];
    int len =
        snprintf(text, sizeof text,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                 method, target, strlen(body), body);
    if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        die("send", target);
    size_t have = 0;
    char *end;
    answer[0] = 0;
    while (!(end = strstr(answer, "\r\n\r\n"))) {
        ssize_t n = recv(fd, answer + have, size - have - 1, 0);
        if (n <= 0)
            die("the connection ended", target);
        have += (size_t)n;
        answer[have] = 0;
    }
    const char *length = strcasestr(answer, "content-length:");
    size_t whole = (size_t)(end + 4 - answer) + (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
    while (have < whole && whole < size) {
        ssize_t n = recv(fd, answer + have, size - have - 1, 0);
        if (n <= 0)
            die("the connection ended", target);
        have += (size_t)n;
        answer[have] = 0;
    }
    return (int)strtol(answer + 9, NULL, 10);
}

static void exec_in(int fd, const char *id) {
    char target[128], answer[8192];
    snprintf(target, sizeof target, "/v1/boxes/%s/exec", id);
    if (request(fd, "POST", target, "{\"command\":\"true\"}", answer, sizeof answer) != 200 ||
        !strstr(answer, "\"exit_code\":0"))
        die("exec", answer);
}

static void cycle(int fd) {
    char target[128], answer[8192], id[17];
    if (request(fd, "POST", "/v1/boxes", "{\"user\":\"soak\"}", answer, sizeof answer) != 201)
        die("create", answer);
    const char *at = strstr(answer, "\"id\":\"");
    if (!at)
        die("create", answer);
    snprintf(id, sizeof id, "%.16s", at + 6);
    exec_in(fd, id);
    snprintf(target, sizeof target, "/v1/boxes/%s", id);
    if (request(fd, "DELETE", target, "", answer, sizeof answer) != 204)
        die("delete", answer);
}

static void *work(void *unused) {
    int fd = dial();
    while (atomic_fetch_sub(&left, 1) > 0) {
        if (box)
            exec_in(fd, box);
        else
            cycle(fd);
        atomic_fetch_add(&finished, 1);
    }
    close(fd);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 5)
        die("usage", "load SOCKET exec BOX COUNT THREADS | cycle COUNT THREADS");
    path = argv[1];
    box = strcmp(argv[2], "exec") == 0 ? argv[3] : NULL;
    atomic_store(&left, strtol(argv[argc - 2], NULL, 10));
    pthread_t threads[64];
    long count = strtol(argv[argc - 1], NULL, 10);
    for (long i = 0; i < count && i < 64; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            die("thread", "");
    for (long i = 0; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
    printf("done %ld\n", atomic_load(&finished));
    return 0;
}
