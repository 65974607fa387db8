/* An HTTP client for the command line: libcurl, loaded when first used (dlopen), so that commands which need no
 * network do not pay for it. */
#ifndef CUBBY_HTTP_CLIENT_H
#define CUBBY_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct websocket;
struct http_client; /* one server, connections kept alive */

/* url: "http://127.0.0.1:7070", "https://…", "unix:/run/cubby.sock"; ws:// and wss:// are the same. token may be NULL.
 * Proxies are the environment's: http_proxy, https_proxy, all_proxy, no_proxy; never for this machine itself. */
int http_client_new(const char *url, const char *token, struct http_client **ret_client, struct err *err);
void http_client_free(struct http_client *client);
/* For a server whose certificate the system does not know: a PEM file with its authority's. Default: that of CUBBY_CA. */
int http_client_ca(struct http_client *client, const char *path, struct err *err);

struct http_call {
    const char *method, *path;  /* path with its query, already encoded */
    const char *const *headers; /* "Name: value", NULL-terminated, may be NULL */
    const void *body;
    size_t body_len;
    ssize_t (*read_body)(void *user, void *data, size_t len);    /* streams instead of body; 0 end, negative abort */
    int64_t read_length;                                         /* -1 unknown */
    int (*write_body)(void *user, const void *data, size_t len); /* streams the answer of a 2xx; negative aborts */
    void (*header)(void *user, const char *name, const char *value);
    int (*tick)(void *user); /* about once a second and on progress, also while nothing moves; negative aborts */
    void *user;
};
/* Performs it. *ret_status is the HTTP status; the answer (or its error object) is in out unless streamed.
 * A transport failure is an error that names the server and, for a refused connection, how to start the daemon. */
int http_client_call(struct http_client *client, const struct http_call *call, int *ret_status, struct buf *out,
                     struct err *err);
/* Opens a WebSocket; the socket and its TLS stay curl's: use the functions below. */
struct http_socket;
int http_client_ws(struct http_client *client, const char *path, struct http_socket **ret_socket, struct err *err);
int http_socket_fd(const struct http_socket *socket);
int http_socket_recv(struct http_socket *socket, bool *ret_text, const uint8_t **ret_data, size_t *ret_len,
                     struct err *err); /* 1, 0 none yet, negative gone */
int http_socket_send(struct http_socket *socket, bool text, const void *data, size_t len, struct err *err);
void http_socket_close(struct http_socket *socket);
void http_socket_end(struct http_socket *socket, unsigned code,
                     const char *reason); /* the same with a code of its own */
/* For one who never waits: websocket.h. */
struct websocket *http_socket_websocket(struct http_socket *socket);
char *http_encode(const char *text, size_t len); /* percent-encoded for a query value; free() */

#endif
