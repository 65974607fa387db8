/* What client.c and client_ws.c share: libcurl's functions, found at run time, and the server being talked to. */
#ifndef CUBBY_HTTP_CLIENT_CURL_H
#define CUBBY_HTTP_CLIENT_CURL_H

#include <curl/curl.h>

#include "http/client/client.h"
#include "http/websocket.h"

/* field, name in libcurl, type. curl_easy_setopt and getinfo are called without curl.h's type-checking macros: numbers
 * must be long. */
#define CURL_LIST(X)                                                                                                   \
    X(global_init, CURLcode (*)(long))                                                                                 \
    X(easy_init, CURL *(*)(void))                                                                                      \
    X(easy_cleanup, void (*)(CURL *))                                                                                  \
    X(easy_reset, void (*)(CURL *))                                                                                    \
    X(easy_setopt, CURLcode (*)(CURL *, CURLoption, ...))                                                              \
    X(easy_getinfo, CURLcode (*)(CURL *, CURLINFO, ...))                                                               \
    X(easy_perform, CURLcode (*)(CURL *))                                                                              \
    X(easy_strerror, const char *(*)(CURLcode))                                                                        \
    X(easy_send, CURLcode (*)(CURL *, const void *, size_t, size_t *))                                                 \
    X(easy_recv, CURLcode (*)(CURL *, void *, size_t, size_t *))                                                       \
    X(slist_append, struct curl_slist *(*)(struct curl_slist *, const char *))                                         \
    X(slist_free_all, void (*)(struct curl_slist *))

struct curl_api {
    void *library;
#define X(name, type) __typeof__((type)0) name;
    CURL_LIST(X)
#undef X
};

struct http_client {
    struct curl_api api;
    CURL *easy;
    char *base;         /* "http://host:port/prefix", no slash at the end */
    char *unix_path;    /* NULL: TCP */
    char *authority;    /* PEM file; NULL: the system's alone */
    char *token_header; /* "Authorization: Bearer …"; NULL: none */
    char reason[CURL_ERROR_SIZE];
};

/* Options every connection of this client has: server, protocols, no proxy for loopback. */
void client_prepare(struct http_client *client, CURL *easy, const char *url);
/* A transport failure as a sentence that names the server and the fix. */
int client_failed(const struct http_client *client, CURL *easy, CURLcode result, struct err *err);

#endif
