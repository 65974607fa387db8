/* The HTTP client: one libcurl handle for one server. Called by the command line. Invariant: libcurl is loaded when
 * the first client is made, never at program start. */
#include "http/client/client.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/client/client_curl.h"

#define CONNECT_TIMEOUT_MS 10000L
#define SILENCE_MS 5000u
#define PROBE_TIMEOUT_MS 10000L

static int client_load(struct curl_api *api, struct err *err);
static int client_address(struct http_client *client, const char *url, struct err *err);

int http_client_new(const char *url, const char *token, struct http_client **ret_client, struct err *err) {
    struct http_client *client = xcalloc(1, sizeof *client);
    int code = client_address(client, url, err);
    if (code == 0 && token && strpbrk(token, "\r\n"))
        code = err_set(err, ERR_INVALID, "the token holds a line break");
    if (code == 0)
        code = client_load(&client->api, err);
    if (code == 0 && !(client->easy = client->api.easy_init()))
        code = err_set(err, ERR_INTERNAL, "libcurl cannot make a handle");
    if (code == 0 && token && asprintf(&client->token_header, "Authorization: Bearer %s", token) < 0)
        abort();
    if (code < 0) {
        http_client_free(client);
        return code;
    }
    *ret_client = client;
    return 0;
}

void http_client_free(struct http_client *client) {
    if (!client)
        return;
    if (client->easy)
        client->api.easy_cleanup(client->easy);
    free(client->base);
    free(client->unix_path);
    free(client->token_header);
    free(client->authority);
    free(client); /* the library stays: its threads and atexit handlers do not survive an unload */
}

int http_client_ca(struct http_client *client, const char *path, struct err *err) {
    if (access(path, R_OK) < 0)
        return err_errno(err, errno, "the file of certificates '%s'", path);
    free(client->authority);
    client->authority = strdup(path);
    return 0;
}

static int client_load(struct curl_api *api, struct err *err) {
    api->library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!api->library)
        return err_set(err, ERR_UNSUPPORTED, "libcurl.so.4 is missing: install the package libcurl4");
#define X(name, type)                                                                                                  \
    if (!(api->name = (type)(uintptr_t)dlsym(api->library, "curl_" #name)))                                            \
        return err_set(err, ERR_UNSUPPORTED, "libcurl has no curl_" #name);
    CURL_LIST(X)
#undef X
    if (api->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    return 0;
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

/* A proxy of the environment is for the world outside; it could not reach our loopback. */
static bool client_is_loopback(const char *base) {
    const char *host = strstr(base, "://") + 3;
    static const char *const names[] = {"127.", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void client_prepare(struct http_client *client, CURL *easy, const char *url) {
    const struct curl_api *api = &client->api;
    client->reason[0] = 0;
    api->easy_setopt(easy, CURLOPT_URL, url);
    api->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    api->easy_setopt(easy, CURLOPT_ERRORBUFFER, client->reason);
    api->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    api->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    api->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    api->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    api->easy_setopt(easy, CURLOPT_USERAGENT, "cubby/" CUBBY_VERSION);
    const char *authority = client->authority ? client->authority : getenv("CUBBY_CA");
    if (authority && *authority)
        api->easy_setopt(easy, CURLOPT_CAINFO, authority);
    if (client->unix_path)
        api->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->unix_path);
    if (client->unix_path || client_is_loopback(client->base))
        api->easy_setopt(easy, CURLOPT_PROXY, "");
}

/* What libcurl found, as a code and a sentence: where, and libcurl's own words. */
static const struct {
    CURLcode result;
    enum err_code code;
    const char *before, *between, *after;
} failures[] = {
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
};

int client_failed(const struct http_client *client, CURL *easy, CURLcode result, struct err *err) {
    long number = 0;
    if (client->unix_path && result == CURLE_COULDNT_CONNECT &&
        client->api.easy_getinfo(easy, CURLINFO_OS_ERRNO, &number) == CURLE_OK && number)
        return err_set(err, ERR_GONE, "cannot connect to unix socket %s: %s; start `cubbyd`, or set CUBBY_URL",
                       client->unix_path, strerror((int)number));
    const char *where = client->unix_path ? client->unix_path : client->base;
    const char *reason = client->reason[0] ? client->reason : client->api.easy_strerror(result);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].result == result)
            return err_set(err, failures[i].code, "%s%s%s%s%s", failures[i].before, where, failures[i].between, reason,
                           failures[i].after);
    return err_set(err, ERR_IO, "%s: %s", where, reason);
}

/* ---- one call ---- */

struct client_run {
    struct http_client *client;
    const struct http_call *call;
    struct buf *out;
    int sink_code;
    curl_off_t moved;   /* bytes of the body sent and received */
    uint64_t silent_ms; /* since when nothing moved and no answer began */
    bool silent;        /* whatever accepted the connection is not a server */
};

static size_t client_on_body(char *data, size_t size, size_t count, void *user) {
    struct client_run *run = user;
    long status = 0;
    size_t len = size * count;
    run->client->api.easy_getinfo(run->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (run->call->write_body && status >= 200 && status < 300) {
        run->sink_code = run->call->write_body(run->call->user, data, len);
        return run->sink_code < 0 ? 0 : len;
    }
    buf_put(run->out, data, len);
    return run->out->failed ? 0 : len;
}

static size_t client_on_read(char *data, size_t size, size_t count, void *user) {
    struct client_run *run = user;
    ssize_t got = run->call->read_body(run->call->user, data, size * count);
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static size_t client_on_header(char *data, size_t size, size_t count, void *user) {
    const struct client_run *run = user;
    size_t len = size * count;
    char line[1024], *value;
    if (len >= sizeof line)
        return len; /* longer than any header that is looked at */
    memcpy(line, data, len);
    while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    line[len] = 0;
    if ((value = strchr(line, ':'))) {
        *value++ = 0;
        run->call->header(run->call->user, line, value + strspn(value, " \t"));
    }
    return size * count;
}

static size_t client_no_body(char *data, size_t size, size_t count, void *user) {
    (void)data, (void)user;
    return size * count;
}

/* Whether the server answers anything at all, asked on a connection of its own. */
static bool client_answers(struct http_client *client) {
    const struct curl_api *api = &client->api;
    CURL *easy = api->easy_init();
    char *url = NULL;
    if (!easy || asprintf(&url, "%s/healthz", client->base) < 0)
        abort();
    client_prepare(client, easy, url);
    api->easy_setopt(easy, CURLOPT_TIMEOUT_MS, PROBE_TIMEOUT_MS);
    api->easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_no_body);
    CURLcode result = api->easy_perform(easy);
    api->easy_cleanup(easy);
    free(url);
    return result == CURLE_OK;
}

/* An answer may take as long as its command. But a peer that accepts connections and says nothing, not even to another
 * question, is not a daemon. */
static bool client_is_silent(struct client_run *run, curl_off_t moved) {
    long status = 0;
    uint64_t now_ms = clock_ms();
    run->client->api.easy_getinfo(run->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!run->silent_ms || status || moved != run->moved) {
        run->moved = moved;
        run->silent_ms = now_ms;
    }
    if (now_ms - run->silent_ms < SILENCE_MS)
        return false;
    run->silent = !client_answers(run->client);
    run->silent_ms = clock_ms();
    return run->silent;
}

static int client_on_tick(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up) {
    struct client_run *run = user;
    (void)down_total, (void)up_total;
    if (client_is_silent(run, down + up))
        return 1;
    return run->call->tick && run->call->tick(run->call->user) < 0;
}

static void client_set_body(struct client_run *run, CURL *easy) {
    const struct curl_api *api = &run->client->api;
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
    }
}

static struct curl_slist *client_headers(const struct http_client *client, const struct http_call *call) {
    struct curl_slist *list = NULL;
    if (client->token_header)
        list = client->api.slist_append(list, client->token_header);
    for (const char *const *header = call->headers; header && *header; header++)
        list = client->api.slist_append(list, *header);
    return list;
}

int http_client_call(struct http_client *client, const struct http_call *call, int *ret_status, struct buf *out,
                     struct err *err) {
    const struct curl_api *api = &client->api;
    CURL *easy = client->easy;
    struct client_run run = {.client = client, .call = call, .out = out};
    char *url = NULL;
    url = xasprintf("%s%s", client->base, call->path);
    struct curl_slist *headers = client_headers(client, call);
    api->easy_reset(easy); /* keeps the connection */
    client_prepare(client, easy, url);
    client_set_body(&run, easy);
    api->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    api->easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    api->easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    api->easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_on_body);
    api->easy_setopt(easy, CURLOPT_WRITEDATA, &run);
    if (call->header) {
        api->easy_setopt(easy, CURLOPT_HEADERFUNCTION, client_on_header);
        api->easy_setopt(easy, CURLOPT_HEADERDATA, &run);
    }
    api->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    api->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, client_on_tick);
    api->easy_setopt(easy, CURLOPT_XFERINFODATA, &run);
    CURLcode result = api->easy_perform(easy);
    long status = 0;
    api->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    free(url);
    api->slist_free_all(headers);
    if (result == CURLE_WRITE_ERROR && out && out->failed)
        return err_set(err, ERR_TOO_LARGE, "the daemon's answer is larger than %zu bytes", out->max);
    if (run.silent)
        return err_set(err, ERR_TIMEOUT,
                       "%s accepts connections but does not answer: is it a cubby daemon? Check CUBBY_URL",
                       client->unix_path ? client->unix_path : client->base);
    /* A server that refuses an upload early may close it: its answer counts for more than our broken pipe. */
    if (result != CURLE_OK && !(result == CURLE_SEND_ERROR && status >= 400))
        return client_failed(client, easy, result, err);
    *ret_status = (int)status;
    return 0;
}

char *http_encode(const char *text, size_t len) {
    static const char digits[] = "0123456789ABCDEF";
    char *out = xmalloc(len * 3 + 1), *p = out;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 128 && c && (isalnum(c) || strchr("-._~/", c))) {
            *p++ = (char)c;
        } else {
            *p++ = '%';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    *p = 0;
    return out;
}
