/* For the tests of the HTTP room: TAP, a server in a thread of this process, and a client that speaks raw bytes.
 * Sockets have a receive limit, so a test that waits for something that never comes fails instead of hanging. */
#ifndef CUBBY_TEST_HTTP_LAB_H
#define CUBBY_TEST_HTTP_LAB_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/server.h"
#include "tap.h"

struct lab {
    struct http_server *server;
    pthread_t thread;
    int result;
};

static void *lab_thread(void *argument) {
    struct lab *lab = argument;
    lab->result = http_server_run(lab->server);
    return NULL;
}

static inline void lab_start(struct lab *lab, const char *listen_text, const struct http_config *config) {
    struct err err;
    if (http_server_new(listen_text, config, &lab->server, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    pthread_create(&lab->thread, NULL, lab_thread, lab);
}

static inline int lab_stop(struct lab *lab, unsigned drain_ms) {
    http_server_stop(lab->server, drain_ms);
    pthread_join(lab->thread, NULL);
    http_server_free(lab->server);
    return lab->result;
}

static inline int lab_connect_to(const char *address) {
    int fd;
    struct timeval limit = {.tv_sec = 60};
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        snprintf(to.sun_path, sizeof to.sun_path, "%s", address + 5);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
            close(fd);
            return -1;
        }
    } else {
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
            close(fd);
            return -1;
        }
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static inline int lab_connect(struct lab *lab) {
    return lab_connect_to(http_server_address(lab->server));
}

static inline bool lab_send(int fd, const void *data, size_t len) {
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static inline bool lab_say(int fd, const char *text) {
    return lab_send(fd, text, strlen(text));
}

/* One answer. The head ends with a NUL; the body is malloc'd and ends with one too. status 0: the peer closed. */
struct answer {
    int status;
    char head[65536];
    char *body;
    size_t len;
    bool closed; /* the connection ended inside or right at the end of a body without length */
    bool cut;    /* it ended before the announced end */
};

static inline bool lab_byte(int fd, char *to) {
    return recv(fd, to, 1, 0) == 1;
}

static inline const char *answer_header(const struct answer *answer, const char *name) {
    static char value[4096];
    size_t len = strlen(name);
    for (const char *line = strstr(answer->head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':')
            continue;
        const char *at = line + 3 + len + strspn(line + 3 + len, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
        return value;
    }
    return NULL;
}

static inline bool lab_take(int fd, struct answer *answer, size_t want) {
    answer->body = realloc(answer->body, answer->len + want + 1);
    while (want) {
        ssize_t n = recv(fd, answer->body + answer->len, want, 0);
        if (n <= 0) {
            answer->body[answer->len] = 0;
            return false;
        }
        answer->len += (size_t)n;
        want -= (size_t)n;
    }
    answer->body[answer->len] = 0;
    return true;
}

static inline void lab_take_chunks(int fd, struct answer *answer) {
    for (;;) {
        char line[64];
        size_t n = 0;
        while (n < sizeof line - 1 && lab_byte(fd, line + n) && line[n] != '\n')
            n++;
        line[n] = 0;
        size_t size = strtoul(line, NULL, 16), before;
        if (!n || !lab_take(fd, answer, size)) {
            answer->cut = true;
            return;
        }
        before = answer->len;
        answer->cut = !lab_take(fd, answer, 2);
        answer->len = before;
        answer->body[before] = 0;
        if (!size || answer->cut)
            return;
    }
}

static inline void lab_answer(int fd, struct answer *answer, bool head_only) {
    free(answer->body);
    memset(answer, 0, sizeof *answer);
    answer->body = calloc(1, 1);
    size_t n = 0;
    while (n < sizeof answer->head - 1 && lab_byte(fd, answer->head + n)) {
        n++;
        if (n >= 4 && memcmp(answer->head + n - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    answer->head[n] = 0;
    if (n < 12 || strncmp(answer->head, "HTTP/1.1 ", 9) != 0)
        return;
    answer->status = (int)strtoul(answer->head + 9, NULL, 10);
    const char *length = answer_header(answer, "content-length");
    if (head_only || answer->status < 200 || answer->status == 204 || answer->status == 304)
        return;
    if (length) {
        answer->cut = !lab_take(fd, answer, strtoul(length, NULL, 10));
    } else if (answer_header(answer, "transfer-encoding")) {
        lab_take_chunks(fd, answer);
    } else {
        while (lab_take(fd, answer, 1))
            ;
        answer->closed = true;
    }
}

static inline bool lab_closed(int fd) {
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* One request on a connection of its own; the status. */
static inline int lab_ask(struct lab *lab, const void *data, size_t len, struct answer *answer) {
    int fd = lab_connect(lab);
    lab_send(fd, data, len);
    lab_answer(fd, answer, false);
    close(fd);
    return answer->status;
}

static inline int lab_ask_text(struct lab *lab, const char *text, struct answer *answer) {
    return lab_ask(lab, text, strlen(text), answer);
}

#endif
