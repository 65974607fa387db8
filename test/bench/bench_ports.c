/* Part of the bench: a server in a box through its port, beside the same server asked directly on this machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { PORTS_ROUNDS = 300, PORTS_SMALL = 4096, PORTS_LARGE = 64 << 20, PORTS_LARGE_ROUNDS = 5 };

/* One request on a connection that has something. False: it is to be closed. */
static bool serve_one(int client) {
    static char data[1 << 20], text[4096];
    ssize_t n = recv(client, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    bool close_it = n <= 0 || strstr(text, "\r\nConnection: close\r\n");
    size_t left = n > 5 ? strtoul(text + 5, NULL, 10) : 0;
    int head = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", left);
    if (n > 0)
        send(client, text, (size_t)head, MSG_NOSIGNAL | MSG_MORE);
    while (left) {
        size_t piece = left < sizeof data ? left : sizeof data;
        if (send(client, data, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            return false;
        left -= piece;
    }
    return !close_it;
}

/* The server itself, `bench serve PORT`: "GET /N" is N bytes. As servers do, it keeps a connection unless it is asked not
 * to: the direct client asks, the daemon does not. */
void bench_serve(void) {
    enum { CLIENTS = 64 };
    struct pollfd polls[CLIENTS + 1] = {{0}};
    nfds_t count = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 128) < 0)
        die("serve: no port %d", port);
    for (;;) {
        polls[0] = (struct pollfd){.fd = count <= CLIENTS ? fd : -1, .events = POLLIN};
        if (poll(polls, count, -1) < 0)
            die("serve: poll: %s", strerror(errno));
        for (nfds_t i = count - 1; i > 0; i--)
            if (polls[i].revents && !serve_one(polls[i].fd)) {
                close(polls[i].fd);
                polls[i] = polls[--count];
            }
        int client = polls[0].revents ? accept(fd, NULL, NULL) : -1;
        if (client < 0)
            continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        polls[count++] = (struct pollfd){.fd = client, .events = POLLIN};
    }
}

static void wait_for(struct client *client, const char *path) {
    char *body;
    for (int i = 0; client_call(client, &body, "GET", path, NULL) != 200; i++) {
        if (i > 100)
            die("no server in the box: %s", body);
        idle_ms(50);
    }
}

void bench_ports(void) {
    static double ours[PORTS_ROUNDS], peer[PORTS_ROUNDS];
    struct client client;
    char id[ID_BYTES], path[256], small[300], large[300], text[200], self[4096];
    const int inside = 8000, outside = port + 1;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    client_open(&client, port);
    box_create(&client, "", id);
    snprintf(path, sizeof path, "http://127.0.0.1:%d/v1/boxes/%s/files?path=server&mode=0755", port, id);
    char *upload[] = {"/usr/bin/curl", "-sf", "-o", "/dev/null", "-T", self, path, NULL};
    peer_run(upload);
    snprintf(path, sizeof path, "/v1/boxes/%s/processes", id);
    snprintf(text, sizeof text, "{\"command\":\"exec ./server serve %d 0 - -\"}", inside);
    client_expect(&client, 201, "POST", path, text);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* who dies on the way leaves no server behind */
        port = outside;
        bench_serve();
    }
    snprintf(small, sizeof small, "/v1/boxes/%s/ports/%d/%d", id, inside, PORTS_SMALL);
    snprintf(large, sizeof large, "/v1/boxes/%s/ports/%d/%d", id, inside, PORTS_LARGE);
    wait_for(&client, small);
    for (int i = 0; i < PORTS_ROUNDS; i++) {
        snprintf(path, sizeof path, "/%d", PORTS_SMALL);
        ours[i] = 1e6 * transfer_get(port, small, PORTS_SMALL);
        peer[i] = 1e6 * transfer_get(outside, path, PORTS_SMALL);
    }
    row("preview of 4 KB from a server in a box, p50", "us", middle(ours, PORTS_ROUNDS), "the same directly",
        middle(peer, PORTS_ROUNDS), AT_MOST, 2.0);
    for (int i = 0; i < PORTS_LARGE_ROUNDS; i++) {
        snprintf(path, sizeof path, "/%d", PORTS_LARGE);
        ours[i] = PORTS_LARGE / 1e6 / transfer_get(port, large, PORTS_LARGE);
        peer[i] = PORTS_LARGE / 1e6 / transfer_get(outside, path, PORTS_LARGE);
    }
    row("preview of 64 MB from it", "MB/s", middle(ours, PORTS_LARGE_ROUNDS), "the same directly",
        middle(peer, PORTS_LARGE_ROUNDS), AT_LEAST, 0.8);
    kill(child, SIGKILL);
    box_delete(&client, id);
    client_close(&client);
}
