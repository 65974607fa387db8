/* The HTTP client: libcurl, loaded on first use (dlopen), so that a program without connections does not pay for it.
 * Called by the command line, and by the docker backend for its engine. A client serves one thread at a time. */
#ifndef CUBBY_HTTP_CLIENT_H
#define CUBBY_HTTP_CLIENT_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "base/base.h"

struct websocket;
struct http_client; /* one server, connections kept alive */

/* url: "http://127.0.0.1:7070", "https://…", "unix:/run/cubby.sock"; ws:// and wss:// are the same. token may be NULL.
 * Proxies are the environment's: http_proxy, https_proxy, all_proxy, no_proxy; never for this machine itself. */
int http_client_new(const char *url, const char *token, struct http_client **ret_client, struct err *err);
void http_client_free(struct http_client *client);
/* For a server whose certificate the system does not know: a PEM file with its authority's. Default: that of
 * CUBBY_CA. */
int http_client_ca(struct http_client *client, const char *path, struct err *err);

/* A server that is not a daemon of ours: never through a proxy, and nothing of the environment counts. */
struct http_failure; /* client_curl.h */
struct http_foreign {
    const char *url, *where;     /* where: in sentences */
    const char *cert_dir;        /* ca.pem, who alone is trusted, and cert.pem and key.pem, where they are; NULL: the
                                             system's authorities, no certificate of ours */
    const char *ca, *cert, *key; /* the same as three PEM files, each may be NULL */
    const struct http_failure *failures; /* its sentences, by libcurl's result */
};
int http_client_foreign(const struct http_foreign *server, struct http_client **ret_client, struct err *err);

/* Addresses that calls may connect to, checked when a name has been resolved. Unless it is HTTP_ANYWHERE, no proxy is
 * used: it would resolve names by itself. */
enum http_reach {
    HTTP_ANYWHERE,
    HTTP_NAMED,  /* not link-local ones, where clouds give out credentials, and none that is not one host's */
    HTTP_PUBLIC, /* nor those of this machine and of private networks */
};
void http_client_reach(struct http_client *client, enum http_reach reach);
bool http_reaches(enum http_reach reach, const struct sockaddr *address);

struct http_call {
    const char *method, *path;  /* path with its query, already encoded */
    const char *const *headers; /* "Name: value", NULL-terminated, may be NULL */
    const void *body;
    size_t body_len;
    ssize_t (*read_body)(void *user, void *data, size_t len);    /* streams instead of body; 0 end, negative abort */
    int64_t read_length;                                         /* -1 unknown */
    int (*write_body)(void *user, const void *data, size_t len); /* streams the answer of a 2xx; negative aborts */
    void (*began)(void *user);                                   /* the head of a 2xx is whole */
    void (*header)(void *user, const char *name, const char *value);
    int (*tick)(void *user); /* about once a second and on progress, also while nothing moves; negative aborts */
    void *user;
    uint64_t timeout_ms; /* without a byte of a streamed body, or for a whole head and a whole other body; 0: none */
    const atomic_bool *stop;
    int wake_fd; /* readable: given up; 0: none */
};
/* Performs it. *ret_status is the HTTP status; the answer (or its error object) is in out unless streamed; out may
 * be NULL. A transport failure is an error that names the server and, for a refused connection, how to start the
 * daemon. TIMEOUT: timeout_ms; GONE: given up. Invariant: a call that may have been done is never sent a second
 * time; only a GET or HEAD is, when a kept connection had died unseen. */
int http_client_call(struct http_client *client, const struct http_call *call, int *ret_status, struct buf *out,
                     struct err *err);
/* The connection of the last call. 1: it is kept, and nothing came since; 0: it was closed; -1: the server hung up,
 * or sent something unsolicited. */
int http_client_kept(struct http_client *client);
unsigned
http_client_sent(const struct http_client *client); /* how often the last call was: 2 where the kept one had died */

/* A connection whose bytes belong to the caller after one request and the head of its answer; libcurl still does its
 * TLS. */
struct http_raw;
/* Sends method, path, headers and body. The client has to live as long. */
int http_raw_open(struct http_client *client, const struct http_call *call, uint64_t end_ms, struct http_raw **ret_raw,
                  struct err *err);
/* 0: the head is whole; 1: the server hung up without a byte. */
int http_raw_head(struct http_raw *raw, uint64_t end_ms, int *ret_status, struct err *err);
/* The rest of an answer that is an error: the part of its body that arrives in time and fits into out. If the body
 * is chunked or surrounded by other text, only its JSON object. */
void http_raw_body(struct http_raw *raw, uint64_t end_ms, struct buf *out);
/* The value of a header, and its length; NULL when it is absent. */
const char *http_raw_header(const struct http_raw *raw, const char *name, size_t *ret_len);
int http_raw_fd(const struct http_raw *raw);
struct buf *http_raw_input(struct http_raw *raw); /* bytes after the head; http_raw_recv returns them first */
/* Bytes; 0: not now; GONE at the end. Bytes that send did not accept are offered again from the same address with
 * the same length. */
ssize_t http_raw_recv(struct http_raw *raw, void *data, size_t len, struct err *err);
ssize_t http_raw_send(struct http_raw *raw, const void *data, size_t len, struct err *err);
void http_raw_close(struct http_raw *raw);

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
/* For callers that never wait: websocket.h. */
struct websocket *http_socket_websocket(struct http_socket *socket);

#endif
