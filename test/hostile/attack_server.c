/* A server for boxes that answers as its client's path says: well, badly, slowly, for ever. Prints the port it listens on.
 * Called by test/run/box_ports.sh and test/hostile/network_ports.sh. usage: attack_server [6] [PORT] */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 64 << 10 };

struct request {
    int fd;
    char head[HEAD_BYTES + 1];
    size_t head_len, have; /* have: bytes in head, those behind head_len are the body's */
    char more[65536];      /* of the body */
    size_t more_at, more_len;
    char method[32], path[16384];
};

static bool put(int fd, const void *data, size_t len) {
    for (const char *at = data; len;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n, len -= (size_t)n;
    }
    return true;
}

static bool say(int fd, const char *text) {
    return put(fd, text, strlen(text));
}

static void pause_ms(long ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* A file that tells the test what happened. */
static void note(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "seen-%s", name);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static bool read_head(struct request *request) {
    char *end = NULL;
    while (!end && request->have < HEAD_BYTES) {
        ssize_t n = recv(request->fd, request->head + request->have, HEAD_BYTES - request->have, 0);
        if (n <= 0)
            return false;
        request->head[request->have += (size_t)n] = 0;
        end = strstr(request->head, "\r\n\r\n");
    }
    if (!end || sscanf(request->head, "%31s %16383s", request->method, request->path) != 2)
        return false;
    request->head_len = (size_t)(end - request->head) + 4;
    return true;
}

static void wait_for_end(struct request *request, const char *name) {
    char data[4096];
    while (recv(request->fd, data, sizeof data, 0) > 0)
        ;
    note(name);
}

/* ---- good ---- */

static bool body_byte(struct request *request, size_t *at, char *ret_byte) {
    if (request->head_len + *at < request->have)
        *ret_byte = request->head[request->head_len + (*at)++];
    else {
        if (request->more_at == request->more_len) {
            ssize_t n = recv(request->fd, request->more, sizeof request->more, 0);
            if (n <= 0)
                return false;
            request->more_at = 0;
            request->more_len = (size_t)n;
        }
        *ret_byte = request->more[request->more_at++];
    }
    return true;
}

/* The body as bytes of its framing: its length and the sum of its bytes. */
static bool body_sum(struct request *request, uint64_t *ret_len, uint64_t *ret_sum) {
    char byte, line[64];
    size_t at = 0;
    const char *length = strcasestr(request->head, "\r\ncontent-length:");
    bool chunked = strcasestr(request->head, "\r\ntransfer-encoding: chunked");
    uint64_t left = length ? strtoull(length + 17, NULL, 10) : 0;
    *ret_len = *ret_sum = 0;
    for (;;) {
        if (chunked) {
            size_t n = 0;
            while (body_byte(request, &at, &byte) && byte != '\n')
                if (n + 1 < sizeof line)
                    line[n++] = byte;
            line[n] = 0;
            left = strtoull(line, NULL, 16);
        }
        *ret_len += left;
        for (; left; left--) {
            if (!body_byte(request, &at, &byte))
                return false;
            *ret_sum = *ret_sum * 31 + (uint8_t)byte;
        }
        if (!chunked)
            return true;
        bool last = strspn(line, "0\r") == strlen(line);
        if (!body_byte(request, &at, &byte) || !body_byte(request, &at, &byte))
            return false;
        if (last)
            return true;
    }
}

static void do_echo(struct request *request) {
    char head[128];
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
             request->head_len);
    say(request->fd, head);
    if (strcmp(request->method, "HEAD") != 0)
        put(request->fd, request->head, request->head_len);
}

static void do_upload(struct request *request) {
    uint64_t len, sum;
    char text[256], body[64];
    if (!body_sum(request, &len, &sum)) {
        note("broken-upload");
        return;
    }
    int n = snprintf(body, sizeof body, "%llu %llx\n", (unsigned long long)len, (unsigned long long)sum);
    snprintf(text, sizeof text, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", n, body);
    say(request->fd, text);
}

/* All bytes until the client has said all, and only then an answer. */
static void do_count(struct request *request) {
    uint64_t n = request->have;
    char data[65536];
    for (ssize_t got; (got = recv(request->fd, data, sizeof data, 0)) > 0;)
        n += (uint64_t)got;
    snprintf(data, sizeof data, "counted %llu", (unsigned long long)n);
    say(request->fd, data);
}

static void do_big(struct request *request) {
    static char zeros[65536];
    char head[128];
    uint64_t left = strtoull(request->path + strlen("/big/"), NULL, 10);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n", (unsigned long long)left);
    bool well = say(request->fd, head);
    while (left && well) {
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        well = put(request->fd, zeros, n);
        left -= n;
    }
    note(well ? "big-whole" : "big-cut");
}

static void do_events(struct request *request) {
    say(request->fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n");
    wait_for_end(request, "events-closed");
}

static void do_endless(struct request *request) {
    static char data[65536];
    memset(data, 'x', sizeof data);
    say(request->fd, "HTTP/1.1 200 OK\r\n\r\n");
    while (put(request->fd, data, sizeof data))
        ;
    note("endless-closed");
}

static void do_hang(struct request *request) {
    note("hangs");
    wait_for_end(request, "hang-closed");
}

static void do_drip(struct request *request) {
    say(request->fd, "HTTP/1.1 200 OK\r\nX-Slow: ");
    while (
        say(request->fd, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
        pause_ms(1);
    note("drip-closed");
}

/* It serves nothing more on this connection, and says so: the proxy may have sent the whole body by then and keep it. */
static void do_early(struct request *request) {
    say(request->fd, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge");
    wait_for_end(request, "early-closed");
}

static void do_interim(struct request *request) {
    for (int i = 0; i < 1000 && say(request->fd, "HTTP/1.1 102 Processing\r\n\r\n"); i++)
        ;
}

static void do_reset(struct request *request) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    say(request->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
    pause_ms(50);
    setsockopt(request->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void do_many_headers(struct request *request) {
    say(request->fd, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 200; i++)
        say(request->fd, "X-More: y\r\n");
    say(request->fd, "Content-Length: 0\r\n\r\n");
}

/* ---- WebSocket: every frame comes back, unmasked ---- */

static uint32_t left(uint32_t value, unsigned n) {
    return value << n | value >> (32 - n);
}

static void sha1(const uint8_t *blocks, size_t count, uint8_t digest[20]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    for (size_t b = 0; b < count; b++) {
        uint32_t w[80], v[5];
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)blocks[64 * b + 4 * i] << 24 | (uint32_t)blocks[64 * b + 4 * i + 1] << 16 |
                   (uint32_t)blocks[64 * b + 4 * i + 2] << 8 | blocks[64 * b + 4 * i + 3];
        for (int i = 16; i < 80; i++)
            w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        memcpy(v, state, sizeof v);
        for (int i = 0; i < 80; i++) {
            static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
            uint32_t f = i < 20              ? (v[1] & v[2]) | (~v[1] & v[3])
                         : i >= 40 && i < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
                                             : v[1] ^ v[2] ^ v[3];
            uint32_t next = left(v[0], 5) + f + v[4] + k[i / 20] + w[i];
            v[4] = v[3], v[3] = v[2], v[2] = left(v[1], 30), v[1] = v[0], v[0] = next;
        }
        for (int i = 0; i < 5; i++)
            state[i] += v[i];
    }
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static void accept_key(const char *key, char out[29]) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t blocks[128] = {0}, digest[21] = {0};
    int len = snprintf((char *)blocks, sizeof blocks, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    blocks[len] = 0x80;
    blocks[126] = (uint8_t)(len * 8 >> 8), blocks[127] = (uint8_t)(len * 8);
    sha1(blocks, 2, digest);
    for (int i = 0; i < 7; i++) {
        uint32_t three = (uint32_t)digest[3 * i] << 16 | (uint32_t)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = letters[three >> (18 - 6 * k) & 63];
    }
    out[27] = '=', out[28] = 0;
}

static void do_ws(struct request *request) {
    const char *key = strcasestr(request->head, "\r\nsec-websocket-key: ");
    char accept[29] = "", text[256];
    if (!key || !strcasestr(request->head, "\r\nupgrade: websocket")) {
        say(request->fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    accept_key(key + 21, accept);
    snprintf(text, sizeof text,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\n\r\n",
             accept);
    say(request->fd, text);
    uint8_t mask[4];
    char byte;
    for (size_t at = 0;;) {
        uint8_t head[2];
        uint64_t len = 0;
        for (int i = 0; i < 2; i++, head[i - 1] = (uint8_t)byte)
            if (!body_byte(request, &at, &byte))
                goto gone;
        int more = (head[1] & 127) == 126 ? 2 : (head[1] & 127) == 127 ? 8 : 0;
        len = more ? 0 : head[1] & 127;
        uint8_t sizes[8];
        for (int i = 0; i < more; i++) {
            if (!body_byte(request, &at, &byte))
                goto gone;
            sizes[i] = (uint8_t)byte, len = len << 8 | sizes[i];
        }
        for (int i = 0; i < 4; i++, mask[i - 1] = (uint8_t)byte)
            if (!body_byte(request, &at, &byte))
                goto gone;
        head[0] = (head[0] & 15) == 9 ? (uint8_t)(head[0] + 1) : head[0]; /* a ping's answer is a pong */
        head[1] &= 127;
        char *data = malloc(len + 1);
        for (uint64_t i = 0; i < len; i++) {
            if (!body_byte(request, &at, &byte))
                goto gone;
            data[i] = (char)(byte ^ mask[i & 3]);
        }
        put(request->fd, head, 2);
        put(request->fd, sizes, (size_t)more);
        put(request->fd, data, len);
        free(data);
        if ((head[0] & 15) == 8)
            return;
    }
gone:
    note("ws-closed");
}

/* ---- as they are ---- */

static const struct {
    const char *path, *answer;
} answers[] = {
    {"/chunked",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4;x=y\r\ntwo\n\r\n0\r\nX-T: t\r\n\r\n"},
    {"/close", "HTTP/1.0 200 Fine\r\nContent-Type: text/plain\r\n\r\nuntil the end"},
    {"/204", "HTTP/1.1 204 No Content\r\n\r\n"},
    {"/304", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 10\r\n\r\n"},
    {"/404", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"},
    {"/599", "HTTP/1.1 599 Strange\r\nContent-Length: 4\r\n\r\nodd."},
    {"/100", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal"},
    {"/redirect", "HTTP/1.1 302 Found\r\nLocation: /there?x=1\r\nContent-Length: 0\r\n\r\n"},
    {"/redirect-away", "HTTP/1.1 302 Found\r\nLocation: //evil.example/\r\nContent-Length: 0\r\n\r\n"},
    {"/redirect-file", "HTTP/1.1 302 Found\r\nLocation: file:///etc/hostname\r\nContent-Length: 0\r\n\r\n"},
    {"/redirect-loop",
     "HTTP/1.1 302 Found\r\nLocation: /redirect-loop\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
    {"/cookie", "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/; Domain=localhost; HttpOnly\r\nSet-Cookie: c=d\r\n"
                "Set-Cookie: nothing\r\nContent-Length: 0\r\n\r\n"},
    {"/origin",
     "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h2=\":1\"\r\n"
     "Service-Worker-Allowed: /\r\nWWW-Authenticate: Basic\r\nReferrer-Policy: unsafe-url\r\n"
     "Content-Security-Policy: default-src 'self'\r\nConnection: x-drop\r\nX-Drop: 1\r\nX-Keep: 2\r\n"
     "Keep-Alive: 5\r\nX-Request-Id: forged\r\nDate: never\r\nContent-Length: 0\r\n\r\n"},
    /* malformed */
    {"/bad/nothing", ""},
    {"/bad/garbage", "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
    {"/bad/short", "HTTP\r\n\r\n"},
    {"/bad/version", "HTTP/2.0 200 OK\r\n\r\n"},
    {"/bad/status", "HTTP/1.1 2000 OK\r\n\r\n"},
    {"/bad/status-low", "HTTP/1.1 099 OK\r\n\r\n"},
    {"/bad/status-high", "HTTP/1.1 600 OK\r\n\r\n"},
    {"/bad/no-status", "HTTP/1.1 OK\r\n\r\n"},
    {"/bad/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
    {"/bad/same-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
    {"/bad/length-list", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc"},
    {"/bad/length-sign", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc"},
    {"/bad/length-negative", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc"},
    {"/bad/length-huge", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc"},
    {"/bad/length-and-chunks", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"/bad/coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
    {"/bad/coding-twice",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"/bad/coding-old", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {"/bad/line-feed", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
    {"/bad/carriage", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"},
    {"/bad/fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"},
    {"/bad/space", "HTTP/1.1 200 OK\r\nX : a\r\n\r\n"},
    {"/bad/no-colon", "HTTP/1.1 200 OK\r\nnothing\r\n\r\n"},
    {"/bad/half-head", "HTTP/1.1 200 OK\r\nContent-Le"},
    {"/bad/switch", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
    {"/bad/switch-other", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"},
    /* begun well */
    {"/cut/length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"},
    {"/cut/chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npart"},
    {"/cut/chunk-size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nxyz\r\n"},
    {"/cut/chunk-end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npartXX0\r\n\r\n"},
    /* more than was announced: the next answer would be forged */
    {"/more", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfineHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"},
};

static const struct {
    const char *path;
    void (*run)(struct request *request);
} programs[] = {{"/echo", do_echo},     {"/count", do_count},     {"/upload", do_upload}, {"/big/", do_big},
                {"/events", do_events}, {"/endless", do_endless}, {"/hang", do_hang},     {"/drip", do_drip},
                {"/early", do_early},   {"/interim", do_interim}, {"/reset", do_reset},   {"/many", do_many_headers},
                {"/ws", do_ws}};

static void *serve(void *argument) {
    struct request *request = argument;
    bool done = false;
    if (read_head(request)) {
        for (size_t i = 0; i < sizeof answers / sizeof *answers && !done; i++)
            if ((done = strcmp(request->path, answers[i].path) == 0))
                say(request->fd, answers[i].answer);
        for (size_t i = 0; i < sizeof programs / sizeof *programs && !done; i++)
            if ((done = strncmp(request->path, programs[i].path, strlen(programs[i].path)) == 0))
                programs[i].run(request);
        if (!done)
            do_echo(request);
    }
    close(request->fd);
    free(request);
    return NULL;
}

int main(int argc, char **argv) {
    bool six = argc > 1 && strcmp(argv[1], "6") == 0;
    uint16_t port = argc > 2 ? (uint16_t)strtoul(argv[2], NULL, 10) : 0;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct sockaddr *address = six ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
    socklen_t size = six ? sizeof in6 : sizeof in;
    int on = 1, fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    signal(SIGPIPE, SIG_IGN);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, address, size) < 0 || listen(fd, 512) < 0 || getsockname(fd, address, &size) < 0) {
        perror("attack_server");
        return 1;
    }
    printf("%u\n", ntohs(six ? in6.sin6_port : in.sin_port));
    fflush(stdout);
    for (;;) {
        struct request *request = malloc(sizeof *request);
        pthread_t thread;
        request->have = request->more_at = request->more_len = 0;
        request->fd = accept(fd, NULL, NULL);
        if (request->fd < 0 || pthread_create(&thread, NULL, serve, request) != 0) {
            free(request);
            continue;
        }
        pthread_detach(thread);
    }
}
