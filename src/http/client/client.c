/* The HTTP client: one libcurl handle for one server. Called by the command line and the docker backend. Invariant:
 * libcurl is loaded when the first client is made, never at program start. */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>

#include "http/address.h"
#include "base/base.h"
#include "http/client/client.h"
#include "http/client/client_curl.h"
#include "http/client/foreign.h"

#define CONNECT_TIMEOUT_MS 10000L
#define HINTS_MAX 8u     /* most 1xx heads before the answer */
#define STOP_LOOK_MS 200 /* how often a caller's stop flag is checked */
#define TICK_MS 1000
#define SILENCE_MS 5000u /* after this, another request shows whether a daemon answers */
#define PROBE_TIMEOUT_MS 10000L
#define KEEPALIVE_S 30L

/* A result that libcurl does not have for HTTP: a unix socket that cannot be reached. */
#define UNIX_UNREACHED CURLE_FILE_COULDNT_READ_FILE

struct curl_api curl_api;
static const struct http_failure client_failures[];

static pthread_once_t client_loaded = PTHREAD_ONCE_INIT;
static struct err client_fault; /* why libcurl cannot be used */

static void client_load(void) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL); /* never unloaded: its threads would not survive */
    if (!library) {
        err_set(&client_fault, ERR_UNSUPPORTED, "libcurl.so.4 is missing: install the package libcurl4");
        return;
    }
#define X(name, type)                                                                                                  \
    if (!(curl_api.name = (type)(uintptr_t)dlsym(library, "curl_" #name)))                                             \
        err_set(&client_fault, ERR_UNSUPPORTED, "libcurl has no curl_" #name);
    CURL_LIST(X)
#undef X
    if (!client_fault.code && curl_api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        err_set(&client_fault, ERR_INTERNAL, "libcurl does not start");
}

static int client_address(struct http_client *client, const char *url, struct err *err) {
    if (strncmp(url, "unix:", 5) == 0 && url[5] == '/') {
        client->unix_path = strdup(url + 5);
        client->base = strdup("http://localhost");
        return 0;
    }
    static const char *const schemes[][2] = {
        {"http://", "http://"}, {"https://", "https://"}, {"ws://", "http://"}, {"wss://", "https://"}};
    size_t scheme = 0, count = sizeof schemes / sizeof *schemes;
    while (scheme < count && strncmp(url, schemes[scheme][0], strlen(schemes[scheme][0])) != 0)
        scheme++;
    bool web = scheme < count;
    for (const char *p = url; web && *p; p++)
        web = *p > 32 && *p < 127;
    if (!web || strlen(url) > 2000)
        return err_set(err, ERR_INVALID,
                       "'%.200s' is not the address of a daemon: http://HOST:PORT, https://… or unix:/PATH", url);
    client->base = xasprintf("%s%s", schemes[scheme][1], url + strlen(schemes[scheme][0]));
    for (size_t len = strlen(client->base); len && client->base[len - 1] == '/'; len--)
        client->base[len - 1] = 0;
    return 0;
}

int http_client_new(const char *url, const char *token, struct http_client **ret_client, struct err *err) {
    pthread_once(&client_loaded, client_load);
    if (client_fault.code) {
        *err = client_fault;
        return -client_fault.code;
    }
    struct http_client *client = xcalloc(1, sizeof *client);
    client->failures = client_failures;
    int code = client_address(client, url, err);
    if (code == 0 && token && strpbrk(token, "\r\n"))
        code = err_set(err, ERR_INVALID, "the token contains a line break");
    if (code == 0 && !(client->easy = curl_api.easy_init()))
        code = err_set(err, ERR_INTERNAL, "libcurl cannot make a handle");
    if (code < 0) {
        http_client_free(client);
        return code;
    }
    client->where = xstrdup(client->unix_path ? client->unix_path : client->base);
    client->token_header = token ? xasprintf("Authorization: Bearer %s", token) : NULL;
    *ret_client = client;
    return 0;
}

static void client_detach(struct http_client *client) {
    if (client->attached)
        curl_api.multi_remove_handle(client->multi, client->easy);
    client->attached = false;
}

void http_client_free(struct http_client *client) {
    if (!client)
        return;
    client_detach(client);
    if (client->easy)
        curl_api.easy_cleanup(client->easy);
    if (client->multi)
        curl_api.multi_cleanup(client->multi);
    free(client->base);
    free(client->where);
    free(client->unix_path);
    free(client->token_header);
    free(client->authority);
    free(client->certificate);
    free(client->key);
    free(client);
}

/* Takes over path, which is freed with the client. */
static int client_file(char **slot, char *path, struct err *err) {
    free(*slot);
    *slot = path;
    return access(path, R_OK) < 0 ? err_errno(err, errno, "cannot read the file of certificates '%s'", path) : 0;
}

int http_client_ca(struct http_client *client, const char *path, struct err *err) {
    return client_file(&client->authority, xstrdup(path), err);
}

static int client_certificates(struct http_client *client, const char *dir, struct err *err) {
    TRY(client_file(&client->authority, xasprintf("%s/ca.pem", dir), err));
    struct err of_certificate, of_key;
    int certificate = client_file(&client->certificate, xasprintf("%s/cert.pem", dir), &of_certificate);
    int key = client_file(&client->key, xasprintf("%s/key.pem", dir), &of_key);
    if (certificate == 0 && key == 0)
        return 0;
    if (certificate != -ERR_NOT_FOUND || key != -ERR_NOT_FOUND) {
        *err = certificate < 0 ? of_certificate : of_key;
        return -err->code;
    }
    free(client->certificate);
    free(client->key);
    client->certificate = client->key = NULL;
    return 0;
}

int http_client_foreign(const struct http_foreign *server, struct http_client **ret_client, struct err *err) {
    TRY(http_client_new(server->url, NULL, ret_client, err));
    struct http_client *client = *ret_client;
    client->foreign = true;
    client->failures = server->failures;
    free(client->where);
    client->where = xstrdup(server->where);
    int code = server->cert_dir ? client_certificates(client, server->cert_dir, err) : 0;
    if (code == 0 && server->ca)
        code = client_file(&client->authority, xstrdup(server->ca), err);
    if (code == 0 && server->cert)
        code = client_file(&client->certificate, xstrdup(server->cert), err)
                   ?: client_file(&client->key, xstrdup(server->key), err);
    if (code < 0)
        http_client_free(client);
    return code;
}

/* A proxy of the environment is for the outside; it could not reach our loopback. */
static bool client_is_loopback(const char *base) {
    const char *host = strstr(base, "://") + 3;
    static const char *const names[] = {"127.", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void http_client_reach(struct http_client *client, enum http_reach reach) {
    client->reach = reach;
}

bool http_reaches(enum http_reach reach, const struct sockaddr *address) {
    struct address to;
    uint16_t port;
    if (reach == HTTP_ANYWHERE)
        return true;
    if (!address_from(address, &to, &port))
        return false;
    return reach == HTTP_NAMED ? !address_nowhere(&to) : address_class(&to) == ADDRESS_PUBLIC;
}

static curl_socket_t client_on_open(void *user, curlsocktype, struct curl_sockaddr *address) {
    struct http_client *client = user;
    if (!client->unix_path && !http_reaches(client->reach, &address->addr)) {
        client->barred = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void client_not_inherited(const struct http_client *client) {
    if (client->foreign)
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
}

void client_prepare(struct http_client *client, CURL *easy, const char *url) {
    const struct curl_api *api = &curl_api;
    client->reason[0] = 0;
    client->barred = false;
    api->easy_setopt(easy, CURLOPT_URL, url);
    api->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    api->easy_setopt(easy, CURLOPT_ERRORBUFFER, client->reason);
    api->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    api->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    api->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    api->easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    api->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    api->easy_setopt(easy, CURLOPT_USERAGENT, "cubby/" CUBBY_VERSION);
    api->easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10); /* the default is 16 KiB at a time */
    api->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, client_on_open);
    api->easy_setopt(easy, CURLOPT_OPENSOCKETDATA, client);
    api->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    api->easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    api->easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, client->foreign ? KEEPALIVE_S / 3 : KEEPALIVE_S);
    const char *authority = client->authority || client->foreign ? client->authority : getenv("CUBBY_CA");
    if (authority && *authority)
        api->easy_setopt(easy, CURLOPT_CAINFO, authority);
    if (client->foreign && authority)
        api->easy_setopt(easy, CURLOPT_CAPATH, NULL); /* the system's authorities do not count */
    if (client->certificate) {
        api->easy_setopt(easy, CURLOPT_SSLCERT, client->certificate);
        api->easy_setopt(easy, CURLOPT_SSLKEY, client->key);
    }
    if (client->unix_path)
        api->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->unix_path);
    if (client->foreign || client->reach || client->unix_path || client_is_loopback(client->base))
        api->easy_setopt(easy, CURLOPT_PROXY, "");
}

static const struct http_failure client_failures[] = {
    {UNIX_UNREACHED, ERR_GONE, "cannot connect to unix socket ", ": ", "; start `cubbyd`, or set CUBBY_URL"},
    {CURLE_COULDNT_CONNECT, ERR_GONE, "no daemon answers at ", ": start `cubbyd`, or set CUBBY_URL (", ")"},
    {CURLE_COULDNT_RESOLVE_HOST, ERR_GONE, "", " is not found: is the name right, is there a network? (", ")"},
    {CURLE_COULDNT_RESOLVE_PROXY, ERR_GONE, "", ": its proxy is not found; see https_proxy, http_proxy, all_proxy (",
     ")"},
    {CURLE_OPERATION_TIMEDOUT, ERR_TIMEOUT, "", ": ", ""},
    {CURLE_GOT_NOTHING, ERR_IO, "",
     " hung up without an answer: did the daemon stop, or does it speak https:// there? (", ")"},
    {CURLE_PARTIAL_FILE, ERR_IO, "", " hung up in the middle of its answer: did the daemon stop? (", ")"},
    {CURLE_RECV_ERROR, ERR_IO, "the connection to ", " broke: did the daemon stop? (", ")"},
    {CURLE_ABORTED_BY_CALLBACK, ERR_GONE, "the transfer with ", " was given up (", ")"},
    {CURLE_WRITE_ERROR, ERR_GONE, "the transfer with ", " was given up (", ")"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_DENIED, "the certificate of ",
     " does not verify: ", ". If it is yours, name the file of its authority: CUBBY_CA, or --ca of cubby join"},
    {CURLE_SSL_CACERT_BADFILE, ERR_INVALID, "", ": the file of certificates (CUBBY_CA, --ca) cannot be used: ", ""},
    {CURLE_SSL_CONNECT_ERROR, ERR_IO, "", " does not speak TLS as it should; is it http:// or ws://? (", ")"},
    {0, ERR_IO, "", ": ", ""},
};

/* Interprets a result for which libcurl has no code. */
static CURLcode client_meant(struct http_client *client, CURL *easy, CURLcode result) {
    long number = 0, connects = 0;
    curl_off_t uploaded = 0;
    curl_api.easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    curl_api.easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
    curl_api.easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    if (result == CURLE_COULDNT_CONNECT && client->unix_path && number) {
        snprintf(client->reason, sizeof client->reason, "%s", strerror((int)number));
        return number == EACCES && client->foreign ? CURLE_REMOTE_ACCESS_DENIED : UNIX_UNREACHED;
    }
    enum err_code said = foreign_judge(FOREIGN_CURL, (int)result, client->reason, NULL, NULL);
    if (said)
        return said == ERR_PROTOCOL ? CURLE_WEIRD_SERVER_REPLY : CURLE_SSL_CLIENTCERT;
    /* With TLS 1.3 a server checks our certificate after our handshake is complete; its alert may come too late to
     * be read. */
    if (result == CURLE_SEND_ERROR && connects && !uploaded && strncmp(client->base, "https:", 6) == 0) {
        snprintf(client->reason, sizeof client->reason, "it hung up after the TLS handshake");
        return CURLE_SSL_CLIENTCERT;
    }
    return result;
}

static const struct http_failure *client_row(const struct http_client *client, CURLcode result) {
    const struct http_failure *row = client->failures;
    while (row->result && row->result != result)
        row++;
    return row;
}

int client_failed(struct http_client *client, CURL *easy, CURLcode result, struct err *err) {
    const struct http_failure *row = client_row(client, client_meant(client, easy, result));
    const char *reason = client->reason[0] ? client->reason : curl_api.easy_strerror(result);
    if (!row->result)
        row = client_row(client, result);
    if (client->barred)
        return err_set(err, ERR_DENIED, "%s leads to an address of this machine or of a private network",
                       client->where);
    bool unreached = row->result == CURLE_COULDNT_CONNECT || row->result == CURLE_COULDNT_RESOLVE_HOST;
    return err_set_why(err, row->code, unreached ? WHY_UNREACHED : WHY_NONE, "%s%s%s%s%s", row->before, client->where,
                       row->between, reason, row->after);
}

/* ---- one call ---- */

struct client_run {
    struct http_client *client;
    const struct http_call *call;
    struct buf *out;
    uint64_t end_ms; /* of clock_ms */
    size_t head_bytes;
    unsigned heads;
    bool answered;   /* a whole head that is not 1xx */
    CURLcode fault;  /* why a callback stopped it */
    const char *why; /* in words, where libcurl has none */
};

/* A daemon's answer may take as long as its command; until it begins, silence is looked into. */
static bool client_patient(const struct client_run *run) {
    return !run->call->timeout_ms && !run->client->foreign && !run->answered;
}

static void client_again(struct client_run *run) {
    uint64_t most_ms = client_patient(run) ? SILENCE_MS : run->call->timeout_ms;
    run->end_ms = most_ms ? clock_ms() + most_ms : UINT64_MAX;
}

static size_t client_stop(struct client_run *run, CURLcode fault, const char *why) {
    run->fault = fault;
    run->why = why;
    return 0;
}

static long client_status(const struct http_client *client) {
    long status = 0;
    curl_api.easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t client_on_body(char *data, size_t size, size_t count, void *user) {
    struct client_run *run = user;
    long status = client_status(run->client);
    size_t len = size * count;
    if (run->call->write_body && status >= 200 && status < 300) {
        int code = run->call->write_body(run->call->user, data, len);
        client_again(run);
        return code < 0 ? 0 : len;
    }
    if (run->out)
        buf_put(run->out, data, len);
    return run->out && run->out->failed ? 0 : len;
}

static size_t client_on_read(char *data, size_t size, size_t count, void *user) {
    struct client_run *run = user;
    ssize_t got = run->call->read_body(run->call->user, data, size * count);
    client_again(run);
    return got < 0 || (size_t)got > size * count ? CURL_READFUNC_ABORT : (size_t)got;
}

/* Lines of heads, and of trailers. */
static size_t client_on_header(char *data, size_t size, size_t count, void *user) {
    struct client_run *run = user;
    size_t len = size * count;
    char line[1024], *value;
    run->head_bytes += len;
    run->heads += len >= 5 && strncmp(data, "HTTP/", 5) == 0;
    if (run->heads > HINTS_MAX + 1)
        return client_stop(run, CURLE_WEIRD_SERVER_REPLY, "its answer never begins");
    if (run->head_bytes > LIMIT_HEAD_BYTES)
        return client_stop(run, CURLE_WEIRD_SERVER_REPLY, "its head has no end");
    if (len >= sizeof line)
        return len; /* longer than any header of interest */
    memcpy(line, data, len);
    while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    line[len] = 0;
    if (!len) {
        long status = client_status(run->client);
        if (status >= 200 && !run->answered) {
            run->answered = true;
            client_again(run);
            if (run->call->began && status < 300)
                run->call->began(run->call->user);
        }
    }
    if ((value = strchr(line, ':'))) {
        *value++ = 0;
        value += strspn(value, " \t");
        if (strcasecmp(line, "Transfer-Encoding") == 0 && strcasecmp(value, "chunked") != 0)
            return client_stop(run, CURLE_WEIRD_SERVER_REPLY, "an encoding that was not asked for");
        if (run->call->header)
            run->call->header(run->call->user, line, value);
    }
    return size * count;
}

/* Before each time the request is sent: libcurl would repeat any, when a kept connection turns out to be dead. */
static int client_on_request(void *user, char *, char *, int, int) {
    struct client_run *run = user;
    const struct http_call *call = run->call;
    bool repeats = !call->read_body && (strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0);
    if (++run->client->sent == 1 || repeats)
        return CURL_PREREQFUNC_OK;
    client_stop(run, CURLE_GOT_NOTHING, NULL);
    return CURL_PREREQFUNC_ABORT;
}

static void client_set_body(struct client_run *run, CURL *easy) {
    const struct curl_api *api = &curl_api;
    const struct http_call *call = run->call;
    if (call->read_body) {
        api->easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        api->easy_setopt(easy, CURLOPT_READFUNCTION, client_on_read);
        api->easy_setopt(easy, CURLOPT_READDATA, run);
        api->easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->read_length);
        api->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    } else if (call->body) {
        api->easy_setopt(easy, CURLOPT_POST, 1L);
        api->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        api->easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
    } else if (strcmp(call->method, "POST") == 0 || strcmp(call->method, "PUT") == 0) {
        api->easy_setopt(easy, CURLOPT_POST, 1L);
        api->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
    } else if (strcmp(call->method, "HEAD") == 0) {
        api->easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
}

static size_t client_no_body(char *, size_t size, size_t count, void *) {
    return size * count;
}

/* Whether the server answers anything at all, asked on a connection of its own. */
static bool client_answers(struct http_client *client) {
    CURL *easy = xchecked(curl_api.easy_init());
    char *url = xasprintf("%s/healthz", client->base);
    client_prepare(client, easy, url);
    curl_api.easy_setopt(easy, CURLOPT_TIMEOUT_MS, PROBE_TIMEOUT_MS);
    curl_api.easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_no_body);
    CURLcode result = curl_api.easy_perform(easy);
    curl_api.easy_cleanup(easy);
    free(url);
    return result == CURLE_OK;
}

/* Waits until something moved. CURLE_AGAIN: its time is over. */
static CURLcode client_wait(struct client_run *run) {
    const struct http_call *call = run->call;
    struct curl_waitfd wake = {.fd = call->wake_fd, .events = CURL_WAIT_POLLIN};
    uint64_t now_ms = clock_ms(), slice_ms = call->stop ? STOP_LOOK_MS : call->tick ? TICK_MS : 3600000;
    if (now_ms >= run->end_ms && (!client_patient(run) || !client_answers(run->client)))
        return CURLE_AGAIN;
    if (now_ms >= run->end_ms)
        client_again(run);
    if (run->end_ms > now_ms && run->end_ms - now_ms < slice_ms)
        slice_ms = run->end_ms - now_ms;
    curl_api.multi_poll(run->client->multi, &wake, call->wake_fd > 0, (int)slice_ms, NULL);
    bool given_up =
        wake.revents || (call->stop && atomic_load(call->stop)) || (call->tick && call->tick(call->user) < 0);
    return given_up ? CURLE_ABORTED_BY_CALLBACK : CURLE_OK;
}

static CURLcode client_perform(struct client_run *run) {
    struct http_client *client = run->client;
    int running = 1;
    if (!client->multi) {
        client->multi = xchecked(curl_api.multi_init());
        client_not_inherited(client);
    }
    client->attached = true;
    curl_api.multi_add_handle(client->multi, client->easy);
    while (curl_api.multi_perform(client->multi, &running) == CURLM_OK && running) {
        CURLcode result = client_wait(run);
        if (result == CURLE_OK)
            continue;
        client_detach(client); /* closes the connection */
        return result;
    }
    const CURLMsg *message = curl_api.multi_info_read(client->multi, &running);
    CURLcode result = message ? message->data.result : CURLE_FAILED_INIT;
    if (result == CURLE_OK && !run->answered)
        client_stop(run, CURLE_GOT_NOTHING, NULL); /* in the middle of its head */
    return run->fault ? run->fault : result;
}

int http_client_call(struct http_client *client, const struct http_call *call, int *ret_status, struct buf *out,
                     struct err *err) {
    struct client_run run = {.client = client, .call = call, .out = out};
    struct curl_slist *headers = NULL;
    if (client->token_header)
        headers = curl_api.slist_append(headers, client->token_header);
    for (const char *const *header = call->headers; header && *header; header++)
        headers = curl_api.slist_append(headers, *header);
    client_detach(client);
    client->sent = 0;
    client_again(&run);
    const struct curl_api *api = &curl_api;
    CURL *easy = run.client->easy;
    char *url = xasprintf("%s%s", run.client->base, run.call->path);
    api->easy_reset(easy); /* keeps the connection */
    client_prepare(run.client, easy, url);
    client_set_body(&run, easy);
    api->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, run.call->method);
    api->easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    api->easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_on_body);
    api->easy_setopt(easy, CURLOPT_WRITEDATA, &run);
    api->easy_setopt(easy, CURLOPT_HEADERFUNCTION, client_on_header);
    api->easy_setopt(easy, CURLOPT_HEADERDATA, &run);
    api->easy_setopt(easy, CURLOPT_PREREQFUNCTION, client_on_request);
    api->easy_setopt(easy, CURLOPT_PREREQDATA, &run);
    free(url);
    CURLcode result = client_perform(&run);
    long status = client_status(client);
    curl_api.slist_free_all(headers);
    if (run.why)
        snprintf(client->reason, sizeof client->reason, "%s", run.why);
    if (result == CURLE_AGAIN)
        return err_set(err, ERR_TIMEOUT,
                       client_patient(&run) ? "%s accepts connections but does not answer: is it a "
                                              "cubby daemon? Check CUBBY_URL"
                                            : "%s did not answer in time",
                       client->where);
    if (result == CURLE_WRITE_ERROR && out && out->failed)
        return err_set(err, ERR_TOO_LARGE, "the answer of %s is larger than %zu bytes", client->where, out->max);
    /* A server that refuses an upload early may close it: its answer counts for more than our broken pipe. */
    if (result != CURLE_OK && !(result == CURLE_SEND_ERROR && status >= 400))
        return client_failed(client, client->easy, result, err);
    *ret_status = (int)status;
    return 0;
}

int http_client_kept(struct http_client *client) {
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (!client->attached || curl_api.easy_getinfo(client->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0)
        return 0;
    struct pollfd poller = {.fd = fd, .events = POLLIN | POLLRDHUP};
    return poll(&poller, 1, 0) == 0 ? 1 : -1;
}

unsigned http_client_sent(const struct http_client *client) {
    return client->sent;
}
