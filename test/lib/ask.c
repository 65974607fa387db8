/* ask SOCKET METHOD TARGET BODY-FILE HEAD-FILE SECONDS [DATA [HEADER...]]: one request as `curl -o BODY-FILE -D HEAD-FILE
 * -w '%{http_code}'` makes it, in a tenth of its processor time: tests make ten thousand. DATA is JSON unless a header says
 * otherwise; @FILE is what a file has. Prints the status. Whatever goes wrong has the exit status that curl has; 99: curl
 * has to do it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    CANNOT_CONNECT = 7,
    CUT = 18,
    CANNOT_WRITE = 23,
    TOO_LATE = 28,
    EMPTY = 52,
    CANNOT_SEND = 55,
    CANNOT_RECEIVE = 56,
    CANNOT_ASK = 99
};

static char data[65536];
static size_t begin, end;
static int sock;
static long long until_ms;

static void fail(int status, const char *what) {
    fprintf(stderr, "ask: (%d) %s: %s\n", status, what, strerror(errno));
    exit(status);
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void wait_for(short events) {
    struct pollfd fd = {.fd = sock, .events = events};
    long long left = until_ms - now_ms();
    if (left <= 0 || poll(&fd, 1, (int)left) == 0)
        fail(TOO_LATE, "no answer in time");
}

static void write_all(int fd, const char *bytes, size_t len, int status) {
    while (len) {
        ssize_t n = fd == sock ? send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) : write(fd, bytes, len);
        if (n < 0 && errno == EAGAIN) {
            wait_for(POLLOUT);
            continue;
        }
        if (n < 0 && status == CANNOT_SEND)
            return; /* the server may have answered before it read everything */
        if (n < 0)
            fail(status, "write");
        bytes += n;
        len -= (size_t)n;
    }
}

/* More bytes after those that are there; false at the end. */
static bool fill(void) {
    if (begin) {
        memmove(data, data + begin, end - begin);
        end -= begin;
        begin = 0;
    }
    if (end == sizeof data)
        return false;
    wait_for(POLLIN);
    ssize_t n = recv(sock, data + end, sizeof data - end, 0);
    if (n < 0)
        fail(CANNOT_RECEIVE, "receive");
    end += (size_t)n;
    return n > 0;
}

/* The next line with its line feed; NULL where the answer ends before. */
static char *line(size_t *len) {
    for (;;) {
        char *feed = memchr(data + begin, '\n', end - begin);
        if (feed) {
            char *at = data + begin;
            *len = (size_t)(feed - at) + 1;
            begin += *len;
            return at;
        }
        if (!fill())
            return NULL;
    }
}

static void body(int fd, unsigned long long len) {
    while (len) {
        if (begin == end && !fill())
            fail(CUT, "the answer is cut");
        size_t n = end - begin < len ? end - begin : (size_t)len;
        write_all(fd, data + begin, n, CANNOT_WRITE);
        begin += n;
        len -= n;
    }
}

static void chunks(int fd, int head) {
    size_t len;
    for (;;) {
        char *text = line(&len);
        unsigned long long size = text ? strtoull(text, NULL, 16) : 0;
        if (!text)
            fail(CUT, "the answer is cut");
        if (!size)
            break;
        body(fd, size);
        if (!line(&len))
            fail(CUT, "the answer is cut");
    }
    for (char *text; (text = line(&len)) && len > 2;) /* trailers */
        write_all(head, text, len, CANNOT_WRITE);
}

/* What the file has, in front of everything else: whoever gets CANNOT_ASK can still ask curl. */
static const char *contents(const char *path, size_t *ret_len) {
    static char bytes[1000000]; /* with more, curl waits for 100 Continue */
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    while (fd >= 0 && (n = read(fd, bytes + len, sizeof bytes - len)) > 0)
        len += (size_t)n;
    if (n < 0 || len == sizeof bytes)
        exit(CANNOT_ASK);
    *ret_len = len;
    return bytes;
}

static void request(char **argv, const char *bytes, size_t len, char **headers) {
    bool accept = false, type = false;
    dprintf(sock, "%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/ask\r\n", argv[2], argv[3]);
    for (; headers && *headers; headers++) {
        accept |= strncasecmp(*headers, "accept:", 7) == 0;
        type |= strncasecmp(*headers, "content-type:", 13) == 0;
        dprintf(sock, "%s\r\n", *headers);
    }
    if (!accept)
        dprintf(sock, "Accept: */*\r\n");
    if (bytes && !type)
        dprintf(sock, "Content-Type: application/json\r\n");
    if (bytes)
        dprintf(sock, "Content-Length: %zu\r\n", len);
    write_all(sock, "\r\n", 2, CANNOT_SEND);
    write_all(sock, bytes, len, CANNOT_SEND);
}

int main(int argc, char **argv) {
    if (argc < 7)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    const char *bytes = argc > 7 && *argv[7] ? argv[7] : NULL;
    size_t bytes_len = bytes ? strlen(bytes) : 0;
    if (bytes && *bytes == '@')
        bytes = contents(bytes + 1, &bytes_len);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    until_ms = now_ms() + strtoll(argv[6], NULL, 10) * 1000;
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(argv[1]) >= sizeof address.sun_path || connect(sock, (struct sockaddr *)&address, sizeof address) < 0)
        fail(CANNOT_CONNECT, argv[1]);
    int out = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int head = open(argv[5], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    request(argv, bytes, bytes_len, argc > 8 ? argv + 8 : NULL);
    int status;
    long long length;
    bool chunked;
    do { /* 1xx come before the answer */
        size_t len;
        char *text = line(&len);
        if (!text)
            fail(EMPTY, "no answer");
        status = len > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
        length = -1, chunked = false;
        for (; text; text = line(&len)) {
            write_all(head, text, len, CANNOT_WRITE);
            if (len <= 2)
                break;
            if (strncasecmp(text, "content-length:", 15) == 0)
                length = strtoll(text + 15, NULL, 10);
            if (strncasecmp(text, "transfer-encoding:", 18) == 0)
                chunked = true;
        }
    } while (status >= 100 && status < 200);
    bool none = strcmp(argv[2], "HEAD") == 0 || status == 204 || status == 304;
    if (!none && chunked)
        chunks(out, head);
    else if (!none && length >= 0)
        body(out, (unsigned long long)length);
    else if (!none)
        do {
            write_all(out, data + begin, end - begin, CANNOT_WRITE);
            begin = end;
        } while (fill());
    printf("%03d", status);
    return 0;
}
