/* `cubby port`: prints the address of a server in a box or, with --listen, forwards a port of this machine to it. Each
 * connection has a process with its own connection to the daemon, which becomes the server's. Invariant: it listens
 * where --listen says, on loopback by default, and its processes end with it. */
#include "http/client/client.h"

#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

enum { CONNECTIONS = 256, PIECE_BYTES = 64 << 10, DIRECT_MS = 30000 };

struct port_values {
    const char *listen;
    bool browser;
};

const struct row port_options[] = {
    OPTION("listen", 'l', TEXT, struct port_values, listen, "[HOST:]PORT",
           "forward a port of this machine; 0: any free one"),
    OPTION("browser", 'b', BOOL, struct port_values, browser, NULL,
           "print a URL that opens it in a browser within a minute"),
    {.name = NULL},
};

static int port_print(struct cli *cli, const char *id, const char *port) {
    const char *url = strncmp(remote_url(), "unix:", 5) == 0 ? "http://localhost" : remote_url();
    size_t len = strlen(url);
    json_decref(rest_need(cli, "GET", remote_path(cli, id, "", NULL), NULL)); /* refuses an unknown box */
    while (len && url[len - 1] == '/')
        len--;
    printf("%.*s/v1/boxes/%s/ports/%s/\n", (int)len, url, id, port);
    return 0;
}

/* Prints a URL with the box's own host name and a ticket. */
static int port_browser(struct cli *cli, const char *id, const char *port) {
    autobuf body = buf_max(64);
    buf_printf(&body, "{\"port\":%s}", port);
    return rest_post(cli, remote_path(cli, id, "/tickets", NULL), &body, "url", false);
}

/* ---- forwarding ---- */

/* "4711", "HOST:4711", "[::1]:4711" */
static int port_listen(struct cli *cli, const char *text, struct err *err) {
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *service = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    uint64_t number;
    if (!text_u64(service, 65535, &number) || len >= sizeof host)
        option_fail(cli, "--listen must be [HOST:]PORT, not '%s'", text);
    if (len)
        snprintf(host, sizeof host, "%.*s", text[0] == '[' ? (int)len - 2 : (int)len, text + (text[0] == '['));
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        return err_set(err, ERR_INVALID, "%s: %s", host, gai_strerror(code));
    int on = 1;
    autofd fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 128) == 0;
    code = good ? 0 : err_errno(err, errno, "cannot listen on %s", text);
    freeaddrinfo(found);
    return good ? fd_take(&fd) : code;
}

/* Passes on everything received from the box. */
static int port_receive(struct http_socket *socket, int fd, struct err *err) {
    for (;;) {
        bool text;
        const uint8_t *data;
        size_t len;
        int code = http_socket_recv(socket, &text, &data, &len, err);
        if (code <= 0)
            return code;
        if (!text && fd_write_all(fd, data, len) < 0)
            return err_set(err, ERR_GONE, "the local side hung up");
    }
}

static int port_pump(struct http_socket *socket, int fd, struct err *err) {
    static uint8_t data[PIECE_BYTES];
    bool open = true;
    int code = port_receive(socket, fd, err);
    while (code == 0) {
        struct pollfd wait[2] = {{.fd = http_socket_fd(socket), .events = POLLIN},
                                 {.fd = open ? fd : -1, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return err_errno(err, errno, "poll");
        ssize_t got = wait[1].revents ? read(fd, data, sizeof data) : -1;
        if (got > 0)
            code = http_socket_send(socket, false, data, (size_t)got, err);
        else if (wait[1].revents && !(got < 0 && errno == EINTR)) {
            open = false;
            code = got < 0 ? err_errno(err, errno, "the local side") : http_socket_send(socket, true, "eof", 3, err);
        }
        if (code == 0)
            code = port_receive(socket, fd, err);
    }
    return code;
}

/* ---- without WebSocket messages ---- */

struct port_way {
    int from, to;
};

/* Copies until the end, and passes that on. */
static void *port_carry(void *argument) {
    const struct port_way *way = argument;
    int ends[2];
    ssize_t got = pipe2(ends, O_CLOEXEC);
    while (got >= 0 && (got = splice(way->from, NULL, ends[1], NULL, PIECE_BYTES, SPLICE_F_MOVE)) > 0)
        for (ssize_t left = got, sent; left > 0; left -= sent)
            if ((sent = splice(ends[0], NULL, way->to, NULL, (size_t)left, SPLICE_F_MOVE | SPLICE_F_MORE)) <= 0) {
                shutdown(way->from, SHUT_RD);
                return NULL;
            }
    shutdown(way->to, SHUT_WR);
    return NULL;
}

/* Makes the daemon's connection the server's: bytes move between two descriptors. Returns false for an older daemon,
 * and for TLS, which cannot be closed in one direction only. */
static bool port_direct(struct cli *, struct http_client *client, int fd, const char *path) {
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};
    const struct http_call call = {.method = "GET", .path = path, .headers = headers};
    uint64_t end_ms = clock_ms() + DIRECT_MS;
    struct http_raw *raw = NULL;
    struct err err = {0};
    pthread_t thread;
    int status = 0;
    if (strncmp(remote_url(), "https:", 6) == 0 || http_raw_open(client, &call, end_ms, &raw, &err) < 0)
        return false;
    bool switched = http_raw_head(raw, end_ms, &status, &err) == 0 && status == 101;
    struct port_way there = {fd, http_raw_fd(raw)}, back = {http_raw_fd(raw), fd};
    const struct buf *first = http_raw_input(raw);
    switched = switched && fcntl(there.to, F_SETFL, 0) == 0 && fd_write_all(fd, first->data, first->len) == 0 &&
               pthread_create(&thread, NULL, port_carry, &there) == 0;
    if (switched)
        port_carry(&back); /* the connection ends with the server's side */
    else
        http_raw_close(raw);
    return switched;
}

static _Noreturn void port_serve(struct cli *cli, int fd, const char *id, const char *port) {
    const char *path = arena_printf(&cli->arena, "/v1/boxes/%s/ports/%s", id, port);
    struct http_client *client;
    struct http_socket *socket = NULL;
    struct err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    cli->client = NULL; /* belongs to the parent */
    if (remote_client(cli, &client, &err) < 0)
        _exit(cli_fail(&err));
    if (port_direct(cli, client, fd, path))
        _exit(0);
    if (http_client_ws(client, path, &socket, &err) < 0)
        _exit(cli_fail(&err));
    port_pump(socket, fd, &err);
    shutdown(fd, SHUT_WR);
    http_socket_close(socket);
    _exit(0);
}

static int port_forward(struct cli *cli, const char *listen, const char *id, const char *port) {
    struct err err = {0};
    cli_must(remote_call(cli, "GET", remote_path(cli, id, "", NULL), NULL, NULL, &err), &err);
    autofd fd = port_listen(cli, listen, &err);
    cli_must(fd, &err);
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[64] = "?", service[16] = "?";
    if (getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool colons = strchr(host, ':');
    printf("http://%s%s%s:%s/ is port %s of box %s\n", colons ? "[" : "", host, colons ? "]" : "", service, port, id);
    fflush(stdout);
    for (unsigned running = 0;;) {
        int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0 && errno != EINTR && errno != ECONNABORTED)
            cli_must(err_errno(&err, errno, "accept"), &err);
        while (running && waitpid(-1, NULL, running < CONNECTIONS ? WNOHANG : 0) > 0)
            running--;
        pid_t pid = connection < 0 ? -1 : fork();
        if (pid == 0)
            port_serve(cli, connection, id, port);
        running += pid > 0;
        fd_close(&connection);
    }
}

int command_port(struct cli *cli, int argc, char **argv) {
    struct port_values values = {0};
    uint64_t number;
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 2)
        option_fail(cli, "missing box ID or PORT");
    if (!text_u64(argv[1], 65535, &number) || number == 0)
        option_fail(cli, "'%s' is not a port: a number from 1 to 65535", argv[1]);
    const char *port = arena_printf(&cli->arena, "%u", (unsigned)number);
    const char *id = remote_box(cli, argv[0]);
    if (values.browser)
        return port_browser(cli, id, port);
    return values.listen ? port_forward(cli, values.listen, id, port) : port_print(cli, id, port);
}
