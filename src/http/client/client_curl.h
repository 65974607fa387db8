/* Shared by the client's files: libcurl's functions, found at run time, and the server of a connection. */
#ifndef CUBBY_HTTP_CLIENT_CURL_H
#define CUBBY_HTTP_CLIENT_CURL_H

#include <curl/curl.h>

#include "http/client/client.h"

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
    X(multi_init, CURLM *(*)(void))                                                                                    \
    X(multi_cleanup, CURLMcode (*)(CURLM *))                                                                           \
    X(multi_add_handle, CURLMcode (*)(CURLM *, CURL *))                                                                \
    X(multi_remove_handle, CURLMcode (*)(CURLM *, CURL *))                                                             \
    X(multi_perform, CURLMcode (*)(CURLM *, int *))                                                                    \
    X(multi_poll, CURLMcode (*)(CURLM *, struct curl_waitfd[], unsigned, int, int *))                                  \
    X(multi_info_read, CURLMsg *(*)(CURLM *, int *))                                                                   \
    X(slist_append, struct curl_slist *(*)(struct curl_slist *, const char *))                                         \
    X(slist_free_all, void (*)(struct curl_slist *))

struct curl_api {
#define X(name, type) __typeof__((type)0) name;
    CURL_LIST(X)
#undef X
};
extern struct curl_api curl_api; /* constant once the first client was made */

/* A failure of libcurl as a code and a sentence: before, where, between, libcurl's own words, after. */
struct http_failure {
    CURLcode result; /* 0: any other; the last row */
    enum err_code code;
    const char *before, *between, *after;
};

struct http_client {
    CURL *easy;
    CURLM *multi;  /* keeps its connection; NULL: nothing was called yet */
    bool attached; /* easy is in multi: the last call was */
    char *base;    /* "http://host:port/prefix", no slash at the end */
    char *where;   /* in sentences */
    char *unix_path;
    char *authority, *certificate, *key; /* PEM files; NULL: the system's alone; none of ours */
    char *token_header;                  /* "Authorization: Bearer …"; NULL: none */
    bool foreign;                        /* of http_client_foreign */
    enum http_reach reach;
    bool barred; /* the last call met an address beyond its reach */
    const struct http_failure *failures;
    unsigned sent; /* how often the last call was */
    char reason[CURL_ERROR_SIZE];
};

/* Options every connection of this client has: server, protocols, no proxy for loopback. */
void client_prepare(struct http_client *client, CURL *easy, const char *url);
/* After libcurl made a pair of sockets to wake itself, which it would leave to programs that a daemon starts. */
void client_not_inherited(const struct http_client *client);
/* A transport failure as a sentence that names the server and the fix. */
int client_failed(struct http_client *client, CURL *easy, CURLcode result, struct err *err);

#endif
