/* Part of the bench: boxes with a network policy, beside boxes without a network and with all of it, nginx, dnsmasq and a
 * direct way, in the namespaces of network.sh. What is timed is timed by the same client (`bench reach`), which runs in a
 * box, or beside the peers in the daemon's namespace. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define POLICY                                                                                                         \
    ",\"network\":{\"allow\":[\"web.test:80,443,8080\",\"api.test\",\"echo.test:443,7007\"],"                          \
    "\"limits\":{\"connections\":4096,\"per_second\":10000}}"
#define LARGE_BYTES (256u << 20)

/* ---- in the world: `bench answer PORT PORT`: one byte for whatever comes ---- */

static int answer_listen(int at) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "93.184.0.13", &to.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&to, sizeof to) < 0 || listen(fd, 4096) < 0)
        die("answer: no port %d: %s", at, strerror(errno));
    return fd;
}

void bench_answer(void) {
    int poller = epoll_create1(EPOLL_CLOEXEC), listeners[] = {answer_listen(port), answer_listen(nginx_port)};
    struct epoll_event events[64];
    for (int i = 0; i < 2; i++)
        epoll_ctl(poller, EPOLL_CTL_ADD, listeners[i], &(struct epoll_event){EPOLLIN, {.fd = listeners[i]}});
    for (;;) {
        int count = epoll_wait(poller, events, 64, -1), on = 1;
        for (int i = 0; i < count; i++) {
            char data[4096];
            int fd = events[i].data.fd;
            if (fd == listeners[0] || fd == listeners[1]) {
                int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (client >= 0)
                    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                if (client >= 0)
                    epoll_ctl(poller, EPOLL_CTL_ADD, client, &(struct epoll_event){EPOLLIN, {.fd = client}});
            } else if (recv(fd, data, sizeof data, 0) <= 0 || send(fd, "x", 1, MSG_NOSIGNAL) != 1) {
                close(fd);
            }
        }
    }
}

/* ---- the client: `bench reach PORT COUNT KIND ADDRESS`, a number a line ---- */

static struct sockaddr_in reach_to(const char *name, int at) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at)};
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (inet_pton(AF_INET, name, &to.sin_addr) == 1)
        return to;
    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        die("reach: %s is not resolved", name);
    to.sin_addr = ((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr;
    freeaddrinfo(found);
    return to;
}

static int reach_connect(const struct sockaddr_in *to) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static size_t reach_hello(const char *name, uint8_t *data) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *tls = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(tls, in, out);
    SSL_set_tlsext_host_name(tls, name);
    SSL_connect(tls);
    int len = BIO_read(out, data, 4096);
    SSL_free(tls);
    SSL_CTX_free(context);
    return len > 0 ? (size_t)len : 0;
}

/* Connects, sends, waits for a byte. */
static bool reach_once(const struct sockaddr_in *to, const uint8_t *data, size_t len) {
    char byte;
    int fd = reach_connect(to);
    bool fine = fd >= 0 && send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len && recv(fd, &byte, 1, 0) == 1;
    struct linger now = {.l_onoff = 1}; /* no ports in TIME_WAIT */
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
    return fine;
}

static void reach_bytes(const struct sockaddr_in *to, const uint8_t *data, size_t len, int count) {
    for (int i = 0; i < count; i++) {
        uint64_t start = now_ns();
        if (!reach_once(to, data, len))
            die("reach: connection %d: %s", i, strerror(errno));
        printf("%.1f\n", (double)(now_ns() - start) / 1e3);
    }
}

/* So many a second, for ten seconds; says how many failed. */
static void reach_pace(const struct sockaddr_in *to, int rate) {
    enum { SECONDS = 10 };
    int failed = 0;
    unsigned phase = (unsigned)getpid() * 7919u % 1000; /* not all at once */
    idle_ms(phase);
    for (int i = 0; i < rate * SECONDS; i++) {
        failed += !reach_once(to, (const uint8_t *)"x", 1);
        idle_ms(1000 / (unsigned)rate);
    }
    printf("%d\n", failed);
}

/* Connections that stay, until this process is ended. */
static void reach_hold(const struct sockaddr_in *to, int count) {
    char byte;
    for (int i = 0; i < count; i++) {
        int fd = reach_connect(to);
        if (fd < 0 || send(fd, "x", 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
            die("hold: connection %d: %s", i, strerror(errno));
    }
    printf("%d\n", count);
    fflush(stdout);
    for (;;)
        pause();
}

static size_t dns_question(uint8_t *data, const char *name, uint16_t number) {
    static const uint8_t head[] = {0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    size_t at = sizeof head;
    memcpy(data, head, sizeof head);
    data[0] = (uint8_t)(number >> 8), data[1] = (uint8_t)number;
    while (*name) {
        size_t len = strcspn(name, ".");
        data[at++] = (uint8_t)len;
        memcpy(data + at, name, len);
        at += len;
        name += len + (name[len] == '.');
    }
    memcpy(data + at, "\0\0\1\0\1", 5);
    return at + 5;
}

/* window 1: the time of each; else how many a second. */
static void reach_dns(const struct sockaddr_in *to, int count, int window) {
    uint8_t data[600];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), flying = 0;
    connect(fd, (const struct sockaddr *)to, sizeof *to);
    uint64_t begin = now_ns();
    for (int i = 0; i < count; i++) {
        uint64_t start = now_ns();
        size_t len = dns_question(data, "web.test", (uint16_t)i);
        if (send(fd, data, len, 0) != (ssize_t)len)
            die("dns: %s", strerror(errno));
        flying++;
        for (; flying >= window || (i == count - 1 && flying); flying--) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            if (poll(&wait, 1, 3000) != 1 || recv(fd, data, sizeof data, 0) < 40 || data[3] & 15)
                die("dns: no answer");
        }
        if (window == 1)
            printf("%.1f\n", (double)(now_ns() - start) / 1e3);
    }
    if (window > 1)
        printf("%.0f\n", count / ((double)(now_ns() - begin) / 1e9));
}

/* MB a second of LARGE_BYTES of plain HTTP. */
static void reach_get(const struct sockaddr_in *to, int count) {
    static const char request[] = "GET /large HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n";
    for (int i = 0; i < count; i++) {
        uint64_t start = now_ns(), have = 0;
        int fd = reach_connect(to);
        if (fd < 0 || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
            die("get: %s", strerror(errno));
        for (ssize_t n; (n = recv(fd, NULL, 1 << 20, MSG_TRUNC)) > 0;)
            have += (uint64_t)n;
        if (have < LARGE_BYTES)
            die("get: ended after %llu bytes", (unsigned long long)have);
        printf("%.1f\n", LARGE_BYTES / 1e6 / ((double)(now_ns() - start) / 1e9));
        close(fd);
    }
}

static SSL *tls_open(SSL_CTX *context, const struct sockaddr_in *to, int *ret_fd) {
    SSL *tls = SSL_new(context);
    *ret_fd = reach_connect(to);
    SSL_set_fd(tls, *ret_fd);
    SSL_set_tlsext_host_name(tls, "api.test");
    if (*ret_fd < 0 || SSL_connect(tls) != 1)
        die("tls: no handshake");
    return tls;
}

/* One request; its body is read and thrown away. Every answer here has a Content-Length. */
static void tls_get(SSL *tls, const char *path) {
    static char data[1 << 16];
    char request[200], *body;
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", path), got = 0;
    if (SSL_write(tls, request, n) != n)
        die("tls: write");
    do {
        int more = SSL_read(tls, data + got, (int)sizeof data - 1 - got);
        if (more <= 0)
            die("tls: the server hung up");
        got += more;
        data[got] = 0;
    } while (!(body = strstr(data, "\r\n\r\n")));
    const char *length = strcasestr(data, "\r\nContent-Length:");
    if (strncmp(data, "HTTP/1.1 200", 12) != 0 || !length)
        die("tls: %.100s", data);
    uint64_t left = strtoull(length + 17, NULL, 10) - (uint64_t)(data + got - body - 4);
    while (left) {
        int more = SSL_read(tls, data, sizeof data);
        if (more <= 0)
            die("tls: the server hung up");
        left -= (uint64_t)more;
    }
}

static void reach_tls(const struct sockaddr_in *to, int count, const char *kind) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    const bool fresh = !strcmp(kind, "tls-new"), large = !strcmp(kind, "tls-large");
    int fd = -1;
    SSL *tls = fresh ? NULL : tls_open(context, to, &fd);
    for (int i = 0; i < count; i++) {
        uint64_t start = now_ns();
        if (fresh)
            tls = tls_open(context, to, &fd);
        tls_get(tls, large ? "/large" : "/1k");
        double ns = (double)(now_ns() - start);
        printf("%.1f\n", large ? LARGE_BYTES / 1e6 / (ns / 1e9) : ns / 1e3);
        if (fresh) {
            SSL_free(tls);
            close(fd);
        }
    }
}

void bench_reach(void) {
    const char *kind = cubby, *address = tree;
    const int count = nginx_port;
    struct sockaddr_in to = reach_to(address, port);
    uint8_t hello[4096] = "x";
    if (!strcmp(kind, "byte"))
        reach_bytes(&to, hello, 1, count);
    else if (!strcmp(kind, "hello"))
        reach_bytes(&to, hello, reach_hello("echo.test", hello), count);
    else if (!strcmp(kind, "pace"))
        reach_pace(&to, count);
    else if (!strcmp(kind, "hold"))
        reach_hold(&to, count);
    else if (!strcmp(kind, "get"))
        reach_get(&to, count);
    else if (!strncmp(kind, "dns", 3))
        reach_dns(&to, count, kind[3] ? 32 : 1);
    else
        reach_tls(&to, count, kind);
}

/* ---- both ways of running it ---- */

static char self[4096];

static size_t numbers(char *text, double *values, size_t most) {
    size_t count = 0;
    for (char *at = text, *end; count < most; at = end) {
        while (*at == '\n' || (at[0] == '\\' && at[1] == 'n'))
            at += *at == '\n' ? 1 : 2;
        values[count] = strtod(at, &end);
        if (end == at)
            break;
        count++;
    }
    return count;
}

/* In the daemon's namespace. */
static void beside(double *values, size_t count, const char *kind, const char *address, int at) {
    static char text[1 << 20];
    char ports[16], counts[16];
    snprintf(ports, sizeof ports, "%d", at);
    snprintf(counts, sizeof counts, "%zu", count);
    char *argv[] = {self, "reach", ports, counts, (char *)kind, (char *)address, NULL};
    peer_output(argv, text, sizeof text);
    size_t want = strcmp(kind, "dns-rate") ? count : 1;
    if (numbers(text, values, want) != want)
        die("%s to %s:%d: %.200s", kind, address, at, text);
}

static void inside(struct client *client, const char *id, double *values, size_t count, const char *kind,
                   const char *address, int at) {
    char path[64], body[256], *answer, *out;
    snprintf(path, sizeof path, "/v1/boxes/%.16s/exec", id);
    snprintf(body, sizeof body, "{\"argv\":[\"/mnt/tree/bench\",\"reach\",\"%d\",\"%zu\",\"%s\",\"%s\"]}", at, count,
             kind, address);
    int status = client_call(client, &answer, "POST", path, body);
    size_t want = strcmp(kind, "dns-rate") ? count : 1;
    if (status != 200 || !(out = strstr(answer, "\"stdout\":\"")) || numbers(out + 10, values, want) != want)
        die("%s to %s:%d in a box: %d %.600s", kind, address, at, status, answer);
}

static void mounted(char members[1024], const char *network) {
    snprintf(members, 1024, "%s,\"mounts\":[{\"source\":\"%s\",\"target\":\"/mnt/tree\",\"read_only\":true}]", network,
             tree);
}

/* ---- boxes ---- */

/* Create and first exec of bursts with either kind, in turns. */
static void create_rows(struct client *client) {
    enum { ROUNDS = 6, BURST = 40, COUNT = ROUNDS * BURST };
    static const char *const kinds[] = {POLICY, ",\"network\":\"none\"", ",\"network\":\"open\""};
    static double first[3][COUNT], cycle[2][COUNT];
    char ids[BURST][ID_BYTES], request[512], text[128];
    const unsigned rounds = turns(ROUNDS);
    for (unsigned round = 0; round < rounds; round++) {
        for (int kind = 0; kind < 3; kind++) {
            const int burst = kind == 2 ? BURST / 4 : BURST;
            for (int i = 0; i < burst; i++) {
                uint64_t start = now_ns();
                box_create(client, kinds[kind], ids[i]);
                exec_once(client, request, box_exec_request(request, sizeof request, ids[i]));
                first[kind][(int)round * burst + i] = (double)(now_ns() - start) / 1e6;
            }
            for (int i = 0; i < burst; i++)
                box_delete(client, ids[i]);
            idle_ms(500);
        }
        for (int kind = 0; kind < 2; kind++) {
            for (int i = 0; i < BURST; i++) {
                uint64_t start = now_ns();
                box_create(client, kinds[kind], ids[0]);
                box_delete(client, ids[0]);
                cycle[kind][(int)round * BURST + i] = (double)(now_ns() - start) / 1e6;
            }
            idle_ms(500);
        }
    }
    const size_t count = rounds * BURST;
    struct figure policy = middle(first[0], count), none = middle(first[1], count);
    struct figure slow = rarest(first[0], count), slow_none = rarest(first[1], count);
    row("create + first exec with a policy, p50", "ms", policy, "network none", none, AT_MOST, 1.1);
    row("  the same", "ms", policy, "network open", middle(first[2], rounds * (BURST / 4)), AT_MOST, 0.25);
    snprintf(text, sizeof text, "  (a policy adds %.2f ms at p50, bar 0.3; %.2f at p99)", policy.mid - none.mid,
             slow.mid - slow_none.mid);
    note(text);
    row("create + delete in a row with a policy, p50", "ms", middle(cycle[0], count), "network none",
        middle(cycle[1], count), AT_MOST, 1.1);
}

/* ---- connections ---- */

enum { REACH_ROUNDS = 10, REACH_EACH = 100, REACH_COUNT = REACH_ROUNDS * REACH_EACH };

static void reach_rows(struct client *client, const char *id) {
    static double gate[REACH_COUNT], gate_sni[REACH_COUNT], peer[REACH_COUNT], direct[REACH_COUNT];
    static double dns[REACH_COUNT], masq[REACH_COUNT];
    double rate[REACH_ROUNDS], masq_rate[REACH_ROUNDS];
    const unsigned rounds = turns(REACH_ROUNDS);
    const size_t count = (size_t)rounds * REACH_EACH;
    for (unsigned i = 0; i < rounds; i++) {
        size_t at = (size_t)i * REACH_EACH;
        inside(client, id, gate + at, REACH_EACH, "byte", "echo.test", 7007);
        beside(peer + at, REACH_EACH, "byte", "127.0.0.1", 7101);
        beside(direct + at, REACH_EACH, "byte", "93.184.0.13", 7007);
        inside(client, id, gate_sni + at, REACH_EACH, "hello", "echo.test", 443);
        inside(client, id, dns + at, REACH_EACH, "dns", "127.0.0.53", 53);
        beside(masq + at, REACH_EACH, "dns", "127.0.0.1", 7106);
        inside(client, id, rate + i, 2000, "dns-rate", "127.0.0.53", 53);
        beside(masq_rate + i, 2000, "dns-rate", "127.0.0.1", 7106);
    }
    struct figure ours = middle(gate, count);
    row("connect + 1 byte through the gate, p50", "us", ours, "nginx stream", middle(peer, count), AT_MOST, 1.25);
    row("  the same", "us", ours, "direct + 250", exactly(middle(direct, count).mid + 250), AT_MOST, 1.0);
    row("  with a name in a ClientHello", "us", middle(gate_sni, count), "without", ours, AT_MOST, 1.15);
    row("name in the cache, p50", "us", middle(dns, count), "dnsmasq", middle(masq, count), AT_MOST, 1.5);
    row("  the same", "us", middle(dns, count), "bar of the figure", exactly(150), AT_MOST, 1.0);
    row("names a second, 32 at once", "", middle(rate, rounds), "bar of the figure", exactly(20000), AT_LEAST, 1.0);
    row("  the same", "", middle(rate, rounds), "dnsmasq", middle(masq_rate, rounds), AT_LEAST, 0.67);
}

static void seal_rows(struct client *client, const char *id) {
    enum { ROUNDS = 10, EACH = 50, FRESH = 20, COUNT = ROUNDS * EACH };
    static double kept[COUNT], kept_peer[COUNT], fresh[COUNT], fresh_peer[COUNT];
    double large[ROUNDS], large_peer[ROUNDS];
    const unsigned rounds = turns(ROUNDS);
    inside(client, id, kept, 10, "tls", "api.test", 443);
    for (unsigned i = 0; i < rounds; i++) {
        inside(client, id, kept + i * EACH, EACH, "tls", "api.test", 443);
        beside(kept_peer + i * EACH, EACH, "tls", "127.0.0.1", 7104);
        inside(client, id, fresh + i * FRESH, FRESH, "tls-new", "api.test", 443);
        beside(fresh_peer + i * FRESH, FRESH, "tls-new", "127.0.0.1", 7105);
        inside(client, id, large + i, 1, "tls-large", "api.test", 443);
        beside(large_peer + i, 1, "tls-large", "127.0.0.1", 7104);
    }
    row("HTTPS 1 KB through a seal, kept connection", "us", middle(kept, (size_t)rounds * EACH), "nginx, TLS both ways",
        middle(kept_peer, (size_t)rounds * EACH), AT_MOST, 1.3);
    row("  a connection each", "us", middle(fresh, (size_t)rounds * FRESH), "nginx, TLS both ways",
        middle(fresh_peer, (size_t)rounds * FRESH), AT_MOST, 1.5);
    row("  256 MB", "MB/s", middle(large, rounds), "nginx, TLS both ways", middle(large_peer, rounds), AT_LEAST, 0.8);
}

/* Four clients each of four boxes, or 16 beside; the MB a second of all, and the sum of each box. */
static double sixteen(char (*ids)[ID_BYTES], double *sums) {
    enum { BOXES = 4, EACH = 4 };
    int ends[BOXES * EACH];
    uint64_t start = now_ns();
    for (int i = 0; i < BOXES * EACH; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) < 0)
            die("pipe");
        pid_t pid = fork();
        if (pid == 0) {
            double speed;
            struct client own;
            if (ids) {
                client_open(&own, port);
                inside(&own, ids[i / EACH], &speed, 1, "get", "web.test", 8080);
            } else {
                beside(&speed, 1, "get", "127.0.0.1", 7103);
            }
            dprintf(pair[1], "%f\n", speed);
            _exit(0);
        }
        end_with_me(pid);
        close(pair[1]);
        ends[i] = pair[0];
    }
    for (int i = 0; i < BOXES * EACH; i++) {
        char text[64] = "";
        if (read(ends[i], text, sizeof text - 1) <= 0)
            die("a stream of sixteen failed");
        sums[i / EACH] = (i % EACH ? sums[i / EACH] : 0) + strtod(text, NULL);
        close(ends[i]);
    }
    return BOXES * EACH * (LARGE_BYTES / 1e6) / ((double)(now_ns() - start) / 1e9);
}

static void throughput_rows(struct client *client, const char *id, const char *members) {
    enum { ROUNDS = 5 };
    double one[ROUNDS], one_peer[ROUNDS], one_open[ROUNDS], many[ROUNDS], many_peer[ROUNDS], uneven[ROUNDS], sums[4];
    char open_id[ID_BYTES], ids[4][ID_BYTES], open_members[1024];
    const unsigned rounds = turns(ROUNDS);
    mounted(open_members, ",\"network\":\"open\"");
    box_create(client, open_members, open_id);
    for (int i = 0; i < 4; i++)
        box_create(client, members, ids[i]);
    for (unsigned i = 0; i < rounds; i++) {
        inside(client, id, one + i, 1, "get", "web.test", 8080);
        beside(one_peer + i, 1, "get", "127.0.0.1", 7103);
        inside(client, open_id, one_open + i, 1, "get", "93.184.0.10", 8080);
        many[i] = sixteen(ids, sums);
        double low = sums[0], high = sums[0];
        for (int k = 1; k < 4; k++) {
            low = sums[k] < low ? sums[k] : low;
            high = sums[k] > high ? sums[k] : high;
        }
        uneven[i] = high / low;
        many_peer[i] = sixteen(NULL, sums);
    }
    row("256 MB, one stream", "MB/s", middle(one, rounds), "nginx stream", middle(one_peer, rounds), AT_LEAST, 1.0);
    row("  the same", "MB/s", middle(one, rounds), "network open", middle(one_open, rounds), AT_LEAST, 0.6);
    row("16 streams of 4 boxes", "MB/s", middle(many, rounds), "nginx stream", middle(many_peer, rounds), AT_LEAST,
        0.9);
    row("  the fastest box of them", "x", middle(uneven, rounds), "the slowest", exactly(1), AT_MOST, 1.3);
    box_delete(client, open_id);
    for (int i = 0; i < 4; i++)
        box_delete(client, ids[i]);
}

/* ---- changes, memory, many boxes ---- */

static void network_put(struct client *client, const char *id, const char *allow) {
    char path[64], body[512];
    snprintf(path, sizeof path, "/v1/boxes/%.16s/network", id);
    snprintf(body, sizeof body, "{\"network\":{\"allow\":[%s],\"limits\":{\"connections\":4096,\"per_second\":10000}}}",
             allow);
    client_expect(client, 200, "PUT", path, body);
}

/* A process in the box that holds connections. */
static void held(struct client *client, const char *id, int count, const char *name, int at) {
    char path[128], body[256], *answer;
    snprintf(path, sizeof path, "/v1/boxes/%.16s/processes", id);
    snprintf(body, sizeof body, "{\"command\":\"exec /mnt/tree/bench reach %d %d hold %s > /tmp/held\"}", at, count,
             name);
    client_expect(client, 201, "POST", path, body);
    snprintf(path, sizeof path, "/v1/boxes/%.16s/files?path=/tmp/held", id);
    for (int i = 0; client_call(client, &answer, "GET", path, NULL) != 200 || strtol(answer, NULL, 10) != count; i++) {
        if (i > 2000)
            die("only some of %d connections are open", count);
        idle_ms(10);
    }
}

static void change_row(struct client *client, const char *members) {
    enum { ROUNDS = 15, LIVE = 100 };
    double ms[ROUNDS];
    char id[ID_BYTES];
    box_create(client, members, id);
    for (int i = 0; i < ROUNDS; i++) {
        char path[64];
        held(client, id, LIVE, "echo.test", 7007);
        uint64_t start = now_ns();
        network_put(client, id, "\"web.test\"");
        ms[i] = (double)(now_ns() - start) / 1e6;
        network_put(client, id, "\"echo.test:7007\"");
        snprintf(path, sizeof path, "/v1/boxes/%.16s/files?path=/tmp/held", id);
        client_expect(client, 204, "DELETE", path, NULL);
    }
    row("policy changed, 100 connections cut, p50", "ms", middle(ms, ROUNDS), "bar of the figure", exactly(2), AT_MOST,
        1.0);
    box_delete(client, id);
}

/* The process of that name in this network namespace; 0: none. */
static pid_t process_of(const char *name) {
    char path[300], text[64], own[64] = "", theirs[64];
    pid_t found = 0;
    DIR *all = opendir("/proc");
    if (readlink("/proc/self/ns/net", own, sizeof own - 1) < 0 || !all)
        die("/proc");
    for (struct dirent *entry; (entry = readdir(all));) {
        memset(theirs, 0, sizeof theirs);
        memset(text, 0, sizeof text);
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        int fd = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        snprintf(path, sizeof path, "/proc/%s/ns/net", entry->d_name);
        if (n > 1 && !strncmp(text, name, (size_t)n - 1) && readlink(path, theirs, sizeof theirs - 1) > 0 &&
            !strcmp(own, theirs))
            found = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    closedir(all);
    return found;
}

static double process_number(pid_t pid, const char *file, const char *key) {
    char path[64], line[512];
    double value = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *from = fopen(path, "re");
    while (from && fgets(line, sizeof line, from))
        if (!strncmp(line, key, strlen(key)))
            value += strtod(line + strlen(key) + 1, NULL);
    if (from)
        fclose(from);
    return value;
}

static double process_cpu_s(pid_t pid) {
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *from = fopen(path, "re");
    if (from && fgets(text, sizeof text, from))
        sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    if (from)
        fclose(from);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double kernel_kb(void) {
    return meminfo_kb("SUnreclaim") + meminfo_kb("Percpu");
}

static void connection_memory_rows(struct client *client, const char *members) {
    enum { LIVE = 4000, SEALED = 200 };
    char id[ID_BYTES];
    box_create(client, members, id);
    held(client, id, 10, "echo.test", 7007);
    double kernel = kernel_kb(), gate = process_number(process_of("cubby-gate"), "status", "VmRSS:");
    char path[64];
    snprintf(path, sizeof path, "/v1/boxes/%.16s/files?path=/tmp/held", id);
    client_expect(client, 204, "DELETE", path, NULL);
    held(client, id, LIVE, "echo.test", 7007);
    gate = process_number(process_of("cubby-gate"), "status", "VmRSS:") - gate;
    kernel = kernel_kb() - kernel;
    /* Of the four sockets that a connection has here, two are the gate's. */
    row("memory of an idle connection", "KB", exactly((gate + kernel / 2) / LIVE), "bar of the figure", exactly(16),
        AT_MOST, 1.0);
    box_delete(client, id);
}

/* How long until a box is served again. */
static double served_after(struct client *client, const char *id, uint64_t start) {
    char path[64], *answer;
    snprintf(path, sizeof path, "/v1/boxes/%.16s/exec", id);
    do {
        int status = client_call(client, &answer, "POST", path,
                                 "{\"argv\":[\"/mnt/tree/bench\",\"reach\",\"7007\",\"1\",\"byte\",\"echo.test\"]}");
        if (status == 200 && strstr(answer, "\"exit_code\":0"))
            break;
        idle_ms(5);
    } while (now_ns() - start < 30000000000u);
    return (double)(now_ns() - start) / 1e6;
}

enum { MANY = 1000 };
static char many[MANY][ID_BYTES];

static void many_memory_rows(struct client *client, pid_t gate) {
    char text[128];
    double kernel = kernel_kb(), rss = process_number(gate, "status", "VmRSS:");
    for (int i = 0; i < MANY; i++)
        network_put(client, many[i], "\"web.test\"");
    idle_ms(500);
    kernel = kernel_kb() - kernel;
    double all = process_number(gate, "status", "VmRSS:");
    row("memory of an idle box with a policy, kernel", "KB", exactly(kernel / MANY), "bar of the figure", exactly(32),
        AT_MOST, 1.0);
    row("  the gate", "KB", exactly((all - rss) / MANY), "bar of the figure", exactly(4), AT_MOST, 1.0);
    row("memory of the gate with 1000 boxes", "MB", exactly(all / 1024), "bar of the figure", exactly(16), AT_MOST,
        1.0);
    uint64_t start = now_ns();
    for (int i = 0; i < MANY; i++)
        network_put(client, many[i], "\"echo.test:7007\"");
    row("1000 boxes changed one by one", "ms", exactly((double)(now_ns() - start) / 1e6), "bar of the figure",
        exactly(1000), AT_MOST, 1.0);
    idle_ms(2000);
    double wakes = process_number(gate, "status", "voluntary_ctxt_switches:");
    idle_ms(5000);
    wakes = process_number(gate, "status", "voluntary_ctxt_switches:") - wakes;
    snprintf(text, sizeof text, "wake-ups of an idle gate with 1000 boxes: %.1f a second (bar 0)", wakes / 5);
    note(text);
}

/* Every box but the first makes connections; what the gate needs for them, and what the first one feels. */
static void many_traffic_rows(struct client *client, pid_t gate) {
    enum { SAMPLES = 100, RATE = 2, WANTED_RATE = 10 };
    static double quiet[SAMPLES], busy[SAMPLES];
    char text[160], path[64], *answer;
    unsigned failures = 0, unread = 0;
    exec_samples(client, many[0], quiet, SAMPLES);
    for (int i = 1; i < MANY; i++) {
        snprintf(path, sizeof path, "/v1/boxes/%.16s/processes", many[i]);
        snprintf(text, sizeof text, "{\"command\":\"/mnt/tree/bench reach 7007 %d pace echo.test > /tmp/failed\"}",
                 RATE);
        client_expect(client, 201, "POST", path, text);
    }
    double cpu = process_cpu_s(gate);
    uint64_t start = now_ns();
    exec_samples(client, many[0], busy, SAMPLES);
    while (now_ns() - start < 4000000000u)
        idle_ms(50);
    cpu = (process_cpu_s(gate) - cpu) / ((double)(now_ns() - start) / 1e9);
    snprintf(text, sizeof text, "gate's processor time, %d connections/s", RATE * MANY);
    row(text, "%", exactly(100 * cpu), "a core, were it 10,000", exactly(100.0 * RATE / WANTED_RATE), AT_MOST, 1.0);
    row("  exec p50 in a neighbour", "us", middle(busy, SAMPLES), "without traffic", middle(quiet, SAMPLES), AT_MOST,
        1.1);
    idle_ms(9000);
    for (int i = 1; i < MANY; i++) {
        snprintf(path, sizeof path, "/v1/boxes/%.16s/files?path=/tmp/failed", many[i]);
        int status = client_call(client, &answer, "GET", path, NULL);
        unread += status != 200 || !*answer;
        failures += status == 200 ? (unsigned)strtoul(answer, NULL, 10) : 0;
    }
    snprintf(text, sizeof text, "  connections of 999 boxes that failed: %u (bar 0); %u clients had not ended",
             failures, unread);
    note(text);
}

static void many_rows(struct client *client) {
    enum { PROBES = 20 };
    char members[1024];
    mounted(members, ",\"network\":\"none\"");
    for (int i = 0; i < MANY; i++)
        box_create(client, members, many[i]);
    idle_ms(1500);
    pid_t gate = process_of("cubby-gate");
    many_memory_rows(client, gate);
    many_traffic_rows(client, gate);
    uint64_t start = now_ns();
    kill(gate, SIGKILL);
    double slowest = 0;
    for (int i = 0; i < PROBES; i++) {
        double ms = served_after(client, many[(i + 1) * (MANY / PROBES) - 1], start);
        slowest = ms > slowest ? ms : slowest;
    }
    row("gate killed, 1000 boxes: served again after", "ms", exactly(slowest), "bar of the figure", exactly(2000),
        AT_MOST, 1.0);
    for (int i = 0; i < MANY; i++)
        box_delete(client, many[i]);
}

void bench_network(void) {
    struct client client;
    char id[ID_BYTES], sealed[ID_BYTES], members[1024], more[1100];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    const char *only = getenv("BENCH_ROWS");
    only = only ? only : "create reach seal throughput change memory many";
    client_open(&client, port);
    if (strstr(only, "create"))
        create_rows(&client);
    mounted(members, POLICY);
    box_create(&client, members, id);
    if (strstr(only, "reach"))
        reach_rows(&client, id);
    if (strstr(only, "throughput"))
        throughput_rows(&client, id, members);
    if (strstr(only, "seal")) {
        client_expect(&client, 200, "PUT", "/v1/secrets/bench",
                      "{\"value\":\"ghp_0123456789abcdefghijklmnopqrstuvwxyzAB\",\"hosts\":[\"api.test\"]}");
        snprintf(more, sizeof more, "%s,\"secrets\":[\"bench\"]", members);
        box_create(&client, more, sealed);
        seal_rows(&client, sealed);
        row("memory of an idle seal", "MB",
            exactly(process_number(process_of("cubby-seal"), "status", "VmRSS:") / 1024), "bar of the figure",
            exactly(6), AT_MOST, 1.0);
        box_delete(&client, sealed);
    }
    if (strstr(only, "change"))
        change_row(&client, members);
    if (strstr(only, "memory"))
        connection_memory_rows(&client, members);
    box_delete(&client, id);
    if (strstr(only, "many") && !getenv("BENCH_QUICK"))
        many_rows(&client);
    client_close(&client);
}
