/* What the test scripts cannot do with curl and a shell: raw bytes to a socket, a client that stops reading, a
 * WebSocket by script, a socket or a hole in a file. Static, so that it also runs inside boxes. Called by test/run. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void die(const char *what) {
    fprintf(stderr, "tool: %s: %s\n", what, strerror(errno));
    exit(125);
}

static long long number(const char *text) {
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end) {
        fprintf(stderr, "tool: '%s' is no number\n", text);
        exit(2);
    }
    return value;
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* "/path" is a unix socket, anything else a port of 127.0.0.1 */
static int dial(const char *address) {
    if (address[0] == '/') {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        snprintf(to.sun_path, sizeof to.sun_path, "%s", address);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
            die(address);
        return fd;
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(int)number(address))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die(address);
    return fd;
}

static void send_all(int fd, const void *data, size_t len) {
    for (const char *at = data; len > 0;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* the server may hang up early: what it answered is still to be read */
        at += n, len -= (size_t)n;
    }
}

static size_t unescape(char *text) { /* \n \r \xHH \\ in place */
    char *to = text;
    for (char *at = text; *at; at++) {
        if (at[0] != '\\' || !at[1]) {
            *to++ = *at;
            continue;
        }
        at++;
        unsigned value;
        if (*at == 'x' && sscanf(at + 1, "%2x", &value) == 1)
            *to++ = (char)value, at += 2;
        else
            *to++ = *at == 'n' ? '\n' : *at == 'r' ? '\r' : *at;
    }
    return (size_t)(to - text);
}

/* Bytes until the deadline, the end, or limit; -1 when the time is over. */
static ssize_t recv_until(int fd, void *data, size_t len, uint64_t end_ms) {
    uint64_t now = now_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (now >= end_ms || poll(&p, 1, (int)(end_ms - now)) <= 0)
        return -1;
    ssize_t n = recv(fd, data, len, 0);
    return n < 0 ? 0 : n;
}

/* raw ADDRESS MS [half]: standard input is sent as it is. Prints the status of every answer that comes, then
 * "closed" when the server hung up or "open" when it did not within MS. half: the sending side is shut afterwards. */
static int do_raw(int argc, char **argv) {
    if (argc < 4)
        return 2;
    static char request[4 << 20], answer[1 << 20];
    size_t len = 0;
    for (ssize_t n; (n = read(0, request + len, sizeof request - len)) > 0;)
        len += (size_t)n;
    int fd = dial(argv[2]);
    send_all(fd, request, len);
    if (argc > 4)
        shutdown(fd, SHUT_WR);
    uint64_t end = now_ms() + (uint64_t)(int)number(argv[3]);
    size_t got = 0;
    ssize_t n = 0;
    while (got < sizeof answer - 1 && (n = recv_until(fd, answer + got, sizeof answer - 1 - got, end)) > 0)
        got += (size_t)n;
    answer[got] = 0;
    for (size_t i = 0; i + 12 < got; i++) /* bodies hold no status lines in these tests */
        if (memcmp(answer + i, "HTTP/1.1 ", 9) == 0 && answer[i + 9] >= '1' && answer[i + 9] <= '5')
            printf("%.3s ", answer + i + 9);
    printf("%s\n", n < 0 ? "open" : "closed");
    return 0;
}

/* hold ADDRESS BYTES REQUEST: sends REQUEST (with its escapes), reads BYTES of the answer, prints "holding", and reads
 * no more until standard input ends. */
static int do_hold(int argc, char **argv) {
    if (argc < 5)
        return 2;
    char buffer[65536];
    int fd = dial(argv[2]), small = 65536;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    send_all(fd, argv[4], unescape(argv[4]));
    long long left = number(argv[3]);
    while (left > 0) {
        ssize_t got = recv(fd, buffer, left < (long long)sizeof buffer ? (size_t)left : sizeof buffer, 0);
        if (got <= 0)
            die("recv");
        left -= got;
    }
    puts("holding");
    fflush(stdout);
    while (read(0, buffer, sizeof buffer) > 0)
        ;
    return 0;
}

/* talk ADDRESS: standard input goes to one connection as it comes; prints the status of every answer. */
static int do_talk(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int fd = dial(argv[2]);
    struct pollfd both[] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    char data[65536];
    while (poll(both, 2, -1) > 0) {
        int from = both[1].revents ? 1 : 0;
        ssize_t n = read(both[from].fd, data, sizeof data - 1);
        if (n <= 0)
            return 0;
        data[n] = 0;
        if (from == 0)
            send_all(fd, data, (size_t)n);
        else if (!strncmp(data, "HTTP/1.1 ", 9))
            printf("%.3s\n", data + 9);
        fflush(stdout);
    }
    return 0;
}

/* drip ADDRESS MS: sends standard input one byte every MS until the server hangs up; prints the status it gave. */
static int do_drip(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int fd = dial(argv[2]);
    uint64_t start = now_ms();
    char byte, answer[4096];
    while (read(0, &byte, 1) == 1) {
        send_all(fd, &byte, 1);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)number(argv[3])) > 0)
            break;
    }
    ssize_t n = recv_until(fd, answer, sizeof answer, now_ms() + 60000);
    uint64_t took = now_ms() - start;
    if (n > 12)
        printf("%.3s %llu\n", answer + 9, (unsigned long long)took);
    else
        printf("%s %llu\n", n < 0 ? "open" : "closed", (unsigned long long)took);
    return 0;
}

/* idle ADDRESS COUNT: so many connections, each after one answered request; prints "idle", holds them until standard
 * input ends. */
static int do_idle(int argc, char **argv) {
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (argc < 4)
        return 2;
    char answer[4096];
    for (long long i = number(argv[3]); i > 0; i--) {
        int fd = dial(argv[2]);
        send_all(fd, request, sizeof request - 1);
        if (recv(fd, answer, sizeof answer, 0) < 12 || memcmp(answer + 9, "200", 3) != 0)
            die("no answer");
    }
    puts("idle");
    fflush(stdout);
    while (read(0, answer, sizeof answer) > 0)
        ;
    return 0;
}

/* ---- WebSocket by script ---- */

static char ws_seen[1 << 20]; /* payloads received so far that no expect has consumed */
static size_t ws_seen_len;
static char ws_last_text[4096]; /* the newest text frame: the daemon's word about the terminal, not its bytes */
static uint8_t ws_raw[1 << 20];
static size_t ws_raw_len;
static int ws_closed = -1; /* close code, once it came; 0: hung up without */

static void ws_send(int fd, uint8_t opcode, const void *data, size_t len) {
    uint8_t head[14] = {(uint8_t)(0x80 | opcode)}, mask[4] = {1, 2, 3, 4};
    size_t n = 2;
    if (len < 126) {
        head[1] = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        head[1] = 0x80 | 126, head[2] = (uint8_t)(len >> 8), head[3] = (uint8_t)len, n = 4;
    } else {
        head[1] = 0x80 | 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (uint8_t)((uint64_t)len >> (56 - 8 * i));
        n = 10;
    }
    memcpy(head + n, mask, 4);
    send_all(fd, head, n + 4);
    uint8_t *masked = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        masked[i] = ((const uint8_t *)data)[i] ^ mask[i & 3];
    send_all(fd, masked, len);
    free(masked);
}

/* Takes whole frames out of ws_raw. */
static void ws_parse(int fd) {
    for (;;) {
        if (ws_raw_len < 2)
            return;
        size_t head = 2, len = ws_raw[1] & 127;
        if (len == 126)
            head = 4, len = (size_t)ws_raw[2] << 8 | ws_raw[3];
        else if (len == 127) {
            head = 10, len = 0;
            for (int i = 0; i < 8; i++)
                len = len << 8 | ws_raw[2 + i];
        }
        if (ws_raw_len < head || ws_raw_len - head < len)
            return;
        uint8_t opcode = ws_raw[0] & 15;
        if (opcode == 8)
            ws_closed = len >= 2 ? ws_raw[head] << 8 | ws_raw[head + 1] : 1005;
        else if (opcode == 9)
            ws_send(fd, 10, ws_raw + head, len);
        else if (opcode == 1)
            snprintf(ws_last_text, sizeof ws_last_text, "%.*s", (int)len, (const char *)ws_raw + head);
        else if (opcode <= 2 && len < sizeof ws_seen / 2) {
            if (ws_seen_len + len > sizeof ws_seen) { /* a flood: only its newest part can still be looked for */
                memmove(ws_seen, ws_seen + sizeof ws_seen / 2, ws_seen_len - sizeof ws_seen / 2);
                ws_seen_len -= sizeof ws_seen / 2;
            }
            memcpy(ws_seen + ws_seen_len, ws_raw + head, len);
            ws_seen_len += len;
        }
        ws_raw_len -= head + len;
        memmove(ws_raw, ws_raw + head + len, ws_raw_len);
    }
}

static bool ws_pump(int fd, uint64_t end_ms) {
    ssize_t n = recv_until(fd, ws_raw + ws_raw_len, sizeof ws_raw - ws_raw_len, end_ms);
    if (n < 0)
        return false;
    if (n == 0 && ws_closed < 0)
        ws_closed = 0;
    ws_raw_len += (size_t)n;
    ws_parse(fd);
    return n > 0;
}

/* With the token of the environment's TOKEN, where there is one. */
static int ws_open(const char *address, const char *path) {
    char text[8192];
    int fd = dial(address);
    const char *token = getenv("TOKEN");
    int n = snprintf(text, sizeof text,
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s%s%s\r\n",
                     path, token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
    send_all(fd, text, (size_t)n);
    size_t got = 0;
    char *end;
    for (;;) {
        ssize_t more = recv_until(fd, text + got, sizeof text - 1 - got, now_ms() + 20000);
        if (more <= 0) {
            puts("no answer");
            exit(1);
        }
        text[got += (size_t)more] = 0;
        if ((end = strstr(text, "\r\n\r\n")))
            break;
    }
    printf("status %.3s\n", text + 9);
    if (strncmp(text + 9, "101", 3) != 0) {
        printf("%s\n", end + 4);
        exit(1);
    }
    printf("accept %s\n", strstr(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") ? "right" : "wrong");
    ws_raw_len = got - (size_t)(end + 4 - text);
    memcpy(ws_raw, end + 4, ws_raw_len);
    ws_parse(fd);
    return fd;
}

static void ws_expect(int fd, const char *want, size_t len) {
    uint64_t end = now_ms() + 15000;
    for (;;) {
        char *at = memmem(ws_seen, ws_seen_len, want, len);
        if (at) {
            size_t used = (size_t)(at - ws_seen) + len;
            memmove(ws_seen, ws_seen + used, ws_seen_len -= used);
            printf("seen\n");
            return;
        }
        if (ws_closed >= 0 || !ws_pump(fd, end))
            break;
    }
    printf("missing, had: %.*s\n", (int)(ws_seen_len < 300 ? ws_seen_len : 300), ws_seen);
}

/* ws ADDRESS PATH: lines of standard input: `send BYTES` (binary), `text JSON`, `expect BYTES` (seen or missing),
 * `wait` (for the server's close; prints its code), `last` (prints the newest text frame), `close`, `drop`. */
static int do_ws(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int fd = ws_open(argv[2], argv[3]);
    static char line[262144];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = strchr(line, ' ');
        rest = rest ? (*rest = 0, rest + 1) : line + strlen(line);
        if (!strcmp(line, "send"))
            ws_send(fd, 2, rest, unescape(rest));
        else if (!strcmp(line, "text"))
            ws_send(fd, 1, rest, strlen(rest));
        else if (!strcmp(line, "expect"))
            ws_expect(fd, rest, unescape(rest));
        else if (!strcmp(line, "last"))
            printf("%s\n", ws_last_text);
        else if (!strcmp(line, "drop"))
            return 0;
        else if (!strcmp(line, "close"))
            ws_send(fd, 8, "\x03\xe8", 2);
        else if (!strcmp(line, "wait")) {
            uint64_t end = now_ms() + 15000;
            while (ws_closed < 0 && ws_pump(fd, end))
                ;
            printf("closed %d\n", ws_closed);
        }
        fflush(stdout);
    }
    return 0;
}

/* ---- inside boxes ---- */

/* socket PATH: leaves a unix socket there */
static int do_socket(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", argv[2]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        die(argv[2]);
    return 0;
}

/* deep DIR LEVELS: a chain of directories, made and entered one by one */
static int do_deep(int argc, char **argv) {
    if (argc < 4 || chdir(argv[2]) < 0)
        return 2;
    for (int i = 0; i < (int)number(argv[3]); i++)
        if (mkdir("d", 0755) < 0 || chdir("d") < 0)
            die("mkdir");
    return 0;
}

/* many DIR COUNT [SUFFIX]: COUNT empty files */
static int do_many(int argc, char **argv) {
    if (argc < 4 || chdir(argv[2]) < 0)
        return 2;
    char name[64];
    for (int i = 0; i < (int)number(argv[3]); i++) {
        snprintf(name, sizeof name, "f%06d%s", i, argc > 4 ? argv[4] : "");
        int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0)
            die(name);
        close(fd);
    }
    return 0;
}

/* swap A B SECONDS: exchanges two names as fast as it can: the other half of a race */
static int do_swap(int argc, char **argv) {
    if (argc < 5)
        return 2;
    uint64_t end = now_ms() + (uint64_t)(int)number(argv[4]) * 1000;
    unsigned long count = 0;
    for (; now_ms() < end; count++)
        if (renameat2(AT_FDCWD, argv[2], AT_FDCWD, argv[3], RENAME_EXCHANGE) < 0)
            die("renameat2");
    printf("%lu\n", count);
    return 0;
}

/* memory MB: touches so much */
static int do_memory(int argc, char **argv) {
    size_t len = (argc > 2 ? (size_t)(int)number(argv[2]) : 1) << 20;
    volatile char *memory = malloc(len);
    for (size_t i = 0; memory && i < len; i += 4096)
        memory[i] = 1;
    puts("touched");
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"raw", do_raw},   {"hold", do_hold}, {"drip", do_drip},     {"talk", do_talk},
                {"idle", do_idle}, {"ws", do_ws},     {"socket", do_socket}, {"deep", do_deep},
                {"many", do_many}, {"swap", do_swap}, {"memory", do_memory}};

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc, argv);
    fprintf(stderr, "usage: tool raw|hold|drip|idle|ws|socket|deep|many|swap|memory ...\n");
    return 2;
}
