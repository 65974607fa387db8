/* The client's way out: certificates that verify and that do not, proxies of the environment, servers that keep silent, and
 * a WebSocket over TLS that is full both ways while nobody waits. */
#include "http_cert.h"
#include "http_lab.h"

#include <netdb.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/text.h"
#include "http/client/client.h"
#include "http/websocket.h"

enum { MESSAGE_BYTES = 70000, MESSAGES = 400 };

static struct lab plain, secure, expired;
static char directory[] = "/tmp/cubby-client-XXXXXX";
static char good_cert[100], good_key[100], old_cert[100], old_key[100], no_cert[100];

/* ---- a server that sends every message back, and waits only in poll ---- */

static void handle_ws(struct http_request *request) {
    struct ws *ws;
    struct err err;
    if (ws_accept(request, 1 << 20, &ws, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    struct websocket *websocket = ws_websocket(ws);
    const uint8_t *data = NULL; /* read, but not sent yet */
    size_t len = 0;
    bool text = false;
    int code = 0;
    while (code >= 0) {
        if (!data && (code = websocket_recv(websocket, &text, &data, &len, &err)) <= 0)
            data = NULL;
        if (data && (code = websocket_send(websocket, text, data, len, &err)) > 0)
            data = NULL;
        int flushed = code < 0 ? code : websocket_flush(websocket, &err);
        if (flushed < 0)
            break;
        struct pollfd wait = {.fd = http_fd(request), .events = (short)((data ? 0 : POLLIN) | (flushed ? 0 : POLLOUT))};
        if (code == 0 && !(!data && websocket_pending(websocket)) && poll(&wait, 1, 60000) == 0)
            break;
    }
    ws_close(ws, 1000, "done");
}

static const struct route routes[] = {
    {"GET", "/ws", handle_ws, 0, "ws", "", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- a proxy ---- */

struct proxy {
    int fd, port;
    const char *refuse; /* its answer to everybody; NULL: it connects */
    char head[2000];    /* the last that asked */
    atomic_int asked;
};

static void relay(int a, int b) {
    struct pollfd wait[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
    static char bytes[65536];
    while (poll(wait, 2, 60000) > 0)
        for (int i = 0; i < 2; i++) {
            ssize_t n = wait[i].revents ? read(wait[i].fd, bytes, sizeof bytes) : -1;
            if (wait[i].revents && (n <= 0 || write(wait[!i].fd, bytes, (size_t)n) != n))
                return;
        }
}

/* Whatever name is asked for, it is the server behind the port. */
static void *proxy_run(void *user) {
    struct proxy *proxy = user;
    int client;
    while ((client = accept4(proxy->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        size_t len = 0;
        ssize_t n;
        proxy->head[0] = 0;
        while (!strstr(proxy->head, "\r\n\r\n") &&
               (n = read(client, proxy->head + len, sizeof proxy->head - 1 - len)) > 0)
            proxy->head[len += (size_t)n] = 0;
        proxy->asked++;
        const char *port = strchr(proxy->head, ':');
        if (proxy->refuse || !port) {
            dprintf(client, "%s", proxy->refuse ? proxy->refuse : "HTTP/1.1 400 Bad\r\n\r\n");
        } else {
            char to[64];
            snprintf(to, sizeof to, "127.0.0.1:%ld", strtol(port + 1, NULL, 10));
            int server = lab_connect_to(to);
            dprintf(client, "HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n");
            relay(client, server);
            close(server);
        }
        close(client);
    }
    return NULL;
}

static int listen_any(int *ret_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        abort();
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* ---- opening ---- */

static struct err last;

static int opens(const char *scheme, const char *host, const struct lab *lab, const char *ca,
                 struct http_client **ret_client, struct http_socket **ret_socket) {
    char url[200];
    snprintf(url, sizeof url, "%s://%s%s", scheme, host, strrchr(http_server_address(lab->server), ':'));
    struct http_client *client = NULL;
    last = (struct err){0};
    int code = http_client_new(url, "secret", &client, &last);
    if (code == 0 && ca)
        code = http_client_ca(client, ca, &last);
    if (code == 0)
        code = http_client_ws(client, "/ws", ret_socket, &last);
    if (code < 0) {
        http_client_free(client);
        return code;
    }
    *ret_client = client;
    return 0;
}

/* Opens it and says one word; the code of what failed. */
static int works(const char *scheme, const char *host, const struct lab *lab, const char *ca) {
    struct http_client *client;
    struct http_socket *socket;
    int code = opens(scheme, host, lab, ca, &client, &socket);
    if (code < 0)
        return code;
    bool text = false;
    const uint8_t *data = NULL;
    size_t len = 0;
    code = http_socket_send(socket, true, "hello", 5, &last);
    while (code == 0 && (code = http_socket_recv(socket, &text, &data, &len, &last)) == 0) {
        struct pollfd wait = {.fd = http_socket_fd(socket), .events = POLLIN};
        if (poll(&wait, 1, 60000) == 0)
            code = -ERR_TIMEOUT;
    }
    bool right = code == 1 && text && len == 5 && memcmp(data, "hello", 5) == 0;
    http_socket_close(socket);
    http_client_free(client);
    return right ? 0 : code < 0 ? code : -ERR_PROTOCOL;
}

static void fails(int code, enum err_code want, const char *sentence, const char *name) {
    if (!ok(code == -(int)want && strstr(last.text, sentence), name))
        printf("# %d: %s\n", code, last.text);
}

static void test_certificates(void) {
    ok(works("wss", "localhost", &secure, good_cert) == 0, "a certificate whose authority is named verifies");
    ok(works("wss", "who:secret@localhost", &secure, good_cert) == 0, "a name and password before the host");
    fails(works("wss", "localhost", &secure, NULL), ERR_DENIED, "does not verify", "one that nobody knows does not");
    ok(strstr(last.text, "--ca") && strstr(last.text, "CUBBY_CA"), "and it is said how to name its authority");
    setenv("CUBBY_CA", good_cert, 1);
    ok(works("https", "localhost", &secure, NULL) == 0, "the authority of the environment");
    unsetenv("CUBBY_CA");
    fails(works("wss", "127.0.0.1", &secure, good_cert), ERR_DENIED, "127.0.0.1", "one for another name");
    fails(works("wss", "localhost", &expired, old_cert), ERR_DENIED, "expired", "one that has expired");
    fails(works("wss", "localhost", &secure, old_cert), ERR_DENIED, "does not verify", "one of another authority");
    fails(works("wss", "localhost", &secure, no_cert), ERR_INVALID, "CUBBY_CA, --ca", "a file that holds none");
    fails(works("wss", "localhost", &secure, "/nonexistent"), ERR_NOT_FOUND, "/nonexistent",
          "a file that is not there");
    fails(works("wss", "localhost", &plain, good_cert), ERR_IO, "ws://", "a server that speaks no TLS");
    fails(works("ws", "localhost", &secure, NULL), ERR_GONE, "wss://", "and one that wants it");
    ok(works("ws", "127.0.0.1", &plain, NULL) == 0, "a plain one");
    fails(works("ws", "no-such-host.invalid", &plain, NULL), ERR_GONE, "is not found", "a name that nobody has");
}

/* ---- proxies ---- */

static const char *const proxy_names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY"};

static void proxy_use(const char *name, const struct proxy *proxy, const char *who) {
    char url[100];
    for (size_t i = 0; i < sizeof proxy_names / sizeof *proxy_names; i++)
        unsetenv(proxy_names[i]);
    if (!proxy)
        return;
    snprintf(url, sizeof url, "http://%s127.0.0.1:%d", who, proxy->port);
    setenv(name, url, 1);
}

static void test_proxies(void) {
    struct proxy proxy = {0};
    pthread_t thread;
    proxy.fd = listen_any(&proxy.port);
    pthread_create(&thread, NULL, proxy_run, &proxy);
    proxy_use("https_proxy", &proxy, "laptop:pass%20word@");
    ok_all("through the proxy for https, to a name that only it knows",
           works("wss", "daemon.test", &secure, good_cert) == 0, proxy.asked == 1,
           strncmp(proxy.head, "CONNECT daemon.test:", 20) == 0);
    ok(strstr(proxy.head, "Proxy-Authorization: Basic bGFwdG9wOnBhc3Mgd29yZA==\r\n") != NULL,
       "with the name and password of its address");
    ok(!strstr(proxy.head, "secret"), "the proxy does not see the token");
    fails(works("wss", "other.test", &secure, good_cert), ERR_DENIED, "does not verify",
          "a proxy that leads elsewhere is found out by the certificate");
    proxy_use("http_proxy", &proxy, "");
    ok(works("ws", "daemon.test", &plain, NULL) == 0 && strncmp(proxy.head, "CONNECT daemon.test:", 20) == 0,
       "through the proxy for http, by CONNECT as well");
    proxy_use("all_proxy", &proxy, "");
    ok(works("wss", "daemon.test", &secure, good_cert) == 0, "through the proxy for everything");
    int asked = proxy.asked;
    ok_all("this machine itself is reached without", works("wss", "localhost", &secure, good_cert) == 0,
           works("ws", "127.0.0.1", &plain, NULL) == 0, proxy.asked == asked);
    setenv("no_proxy", "daemon.test", 1);
    fails(works("wss", "daemon.test", &secure, good_cert), ERR_GONE, "is not found", "no_proxy is heard");
    ok(proxy.asked == asked, "and the proxy not asked");
    proxy_use("https_proxy", &proxy, "");
    proxy.refuse = "HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
    fails(works("wss", "daemon.test", &secure, good_cert), ERR_DENIED, "NAME:PASSWORD@",
          "a proxy that wants a password");
    proxy.refuse = "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
    fails(works("wss", "daemon.test", &secure, good_cert), ERR_DENIED, "answered 403", "a proxy that refuses");
    proxy.refuse = "";
    int code = works("wss", "daemon.test", &secure, good_cert);
    ok(code < 0 && last.text[0], "a proxy that hangs up");
    shutdown(proxy.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(proxy.fd);
    fails(works("wss", "daemon.test", &secure, good_cert), ERR_GONE, "no daemon answers", "a proxy that is not there");
    proxy_use(NULL, NULL, NULL);
}

/* ---- full both ways ---- */

static void fill_message(uint8_t *data, unsigned n) {
    for (size_t i = 0; i < MESSAGE_BYTES; i++)
        data[i] = (uint8_t)(i * 31 + n * 7 + (i >> 9));
}

static void test_bulk(const char *scheme, const struct lab *lab, const char *name) {
    static uint8_t out[MESSAGE_BYTES], want[MESSAGE_BYTES];
    struct http_client *client;
    struct http_socket *socket;
    if (!ok(opens(scheme, "localhost", lab, good_cert, &client, &socket) == 0, "opens"))
        return;
    struct websocket *websocket = http_socket_websocket(socket);
    unsigned sent = 0, got = 0, blocked = 0;
    bool good = true;
    fill_message(out, 0);
    uint64_t start_us = clock_us();
    while (good && got < MESSAGES) {
        int code = 1;
        while (sent < MESSAGES && (code = websocket_send(websocket, false, out, sizeof out, &last)) > 0)
            fill_message(out, ++sent);
        int flushed = code < 0 ? code : websocket_flush(websocket, &last);
        good = good && flushed >= 0;
        blocked += !flushed;
        struct pollfd wait = {.fd = http_socket_fd(socket), .events = (short)(POLLIN | (flushed ? 0 : POLLOUT))};
        if (good && !websocket_pending(websocket) && poll(&wait, 1, 60000) == 0)
            break;
        bool text;
        const uint8_t *data;
        size_t len;
        while (good && (code = websocket_recv(websocket, &text, &data, &len, &last)) != 0) {
            fill_message(want, got++);
            good = code > 0 && !text && len == sizeof want && memcmp(data, want, len) == 0;
        }
    }
    if (!ok(good && got == MESSAGES && sent == MESSAGES && blocked, name))
        printf("# sent %u, got %u, blocked %u: %s\n", sent, got, blocked, last.text);
    uint64_t took_us = clock_us() - start_us;
    printf("# %.0f MB/s both ways together\n", 2.0 * MESSAGES * MESSAGE_BYTES / (double)(took_us ? took_us : 1));
    http_socket_end(socket, 4000, "enough");
    http_client_free(client);
}

/* ---- silence ---- */

static void *silent_open(void *user) {
    struct http_client *client = NULL;
    struct http_socket *socket = NULL;
    struct err err = {0};
    int code = http_client_new(user, NULL, &client, &err);
    if (code == 0)
        code = http_client_ws(client, "/ws", &socket, &err);
    http_client_free(client);
    return (void *)(intptr_t)(code == -ERR_TIMEOUT ? 1 : 0);
}

/* In a process of its own: it takes ten seconds, and the environment changes meanwhile. */
static pid_t test_silence(void) {
    pid_t pid = fork();
    if (pid)
        return pid;
    int port, fd = listen_any(&port);
    char urls[2][100];
    pthread_t threads[2];
    void *results[2];
    snprintf(urls[0], sizeof urls[0], "ws://127.0.0.1:%d", port);
    snprintf(urls[1], sizeof urls[1], "wss://127.0.0.1:%d", port);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, silent_open, urls[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &results[i]);
    close(fd);
    _exit(results[0] && results[1] ? 0 : 1);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    pid_t silence = test_silence();
    if (!mkdtemp(directory))
        abort();
    char *const paths[] = {good_cert, good_key, old_cert, old_key, no_cert};
    for (int i = 0; i < 5; i++)
        snprintf(paths[i], sizeof good_cert, "%s/%d", directory, i);
    cert_make(good_cert, good_key, "DNS:localhost,DNS:daemon.test", 3600);
    cert_make(old_cert, old_key, "DNS:localhost", -3600);
    FILE *file = fopen(no_cert, "w");
    fputs("nothing\n", file);
    fclose(file);
    struct http_config config = {.routes = routes,
                                 .allowed_hosts = (const char *const[]){"daemon.test", "other.test", NULL}};
    proxy_use(NULL, NULL, NULL);
    lab_start(&plain, "127.0.0.1:0", &config);
    config.tls_cert = good_cert, config.tls_key = good_key;
    lab_start(&secure, "127.0.0.1:0", &config);
    config.tls_cert = old_cert, config.tls_key = old_key;
    lab_start(&expired, "127.0.0.1:0", &config);
    test_certificates();
    test_proxies();
    test_bulk("ws", &plain, "28 MB there and back, nobody waits");
    test_bulk("wss", &secure, "the same over TLS");
    int status = -1;
    waitpid(silence, &status, 0);
    ok(status == 0, "a server that accepts and keeps silent is given up, with and without TLS");
    ok_all("they stop", lab_stop(&plain, 3000) == 0, lab_stop(&secure, 3000) == 0, lab_stop(&expired, 3000) == 0);
    for (int i = 0; i < 5; i++)
        unlink(paths[i]);
    rmdir(directory);
    return tap_end();
}
