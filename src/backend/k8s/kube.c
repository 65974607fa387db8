/* Calls of the API server: credentials in their newest state, answers, failures as codes. Called by the other files of
 * this directory and by daemon/cluster.c. Invariant: kube->lock guards the connection and the token; it is held during
 * a call, so that calls follow each other. */
#include "backend/k8s/kube.h"

#include <pthread.h>

#include "backend/k8s/kube_private.h"
#include "base/base.h"
#include "base/sync.h"
#include "http/client/client_curl.h"

enum { ANSWER_BYTES = 32 << 20, CALL_MS = 15000, TOKEN_AGE_MS = 60000, TOKEN_BYTES = 16384, EARLY_MS = 30000 };

struct kube {
    struct kube_access access;
    char *name_space, *where;
    pthread_mutex_t lock;
    struct http_client *client;
    char *token;
    uint64_t token_at_ms, token_until_ms; /* clock_ms; wall clock, 0: not said */
};

static const struct http_failure kube_failures[] = {
    {CURLE_COULDNT_CONNECT, ERR_BUSY, "the Kubernetes API server ", " does not answer (", ")"},
    {CURLE_COULDNT_RESOLVE_HOST, ERR_BUSY, "the Kubernetes API server ", " is not found (", ")"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_DENIED, "the certificate of the Kubernetes API server ",
     " does not verify: ", "; see k8s_ca, or certificate-authority of the kubeconfig"},
    {CURLE_SSL_CLIENTCERT, ERR_UNAUTHORIZED, "the Kubernetes API server ", " refuses our certificate: ", ""},
    {CURLE_ABORTED_BY_CALLBACK, ERR_GONE, "the call of the Kubernetes API server ", " was given up (", ")"},
    {CURLE_WRITE_ERROR, ERR_GONE, "the call of the Kubernetes API server ", " was given up (", ")"},
    {0, ERR_BUSY, "the connection to the Kubernetes API server ", " failed: ", ""},
};

int kube_open(const struct kube_settings *settings, struct kube **ret_kube, struct err *err) {
    struct kube_access access = {.fds = {-1, -1, -1}};
    int failed = kube_access_find(settings, &access, err);
    if (failed) {
        kube_access_done(&access);
        return failed;
    }
    struct kube *kube = xcalloc(1, sizeof *kube);
    kube->access = access;
    kube->where = xstrdup(access.server);
    const char *name_space = settings->name_space ? settings->name_space : access.name_space;
    kube->name_space = xstrdup(name_space && *name_space ? name_space : "default");
    pthread_mutex_init(&kube->lock, NULL);
    *ret_kube = kube;
    return 0;
}

void kube_free(struct kube *kube) {
    if (!kube)
        return;
    http_client_free(kube->client);
    kube_access_done(&kube->access);
    pthread_mutex_destroy(&kube->lock);
    free(kube->token);
    free(kube->where);
    free(kube->name_space);
    free(kube);
}

const char *kube_namespace(const struct kube *kube) {
    return kube->name_space;
}

/* ---- credentials ---- */

static int kube_client_locked(struct kube *kube, struct http_client **ret_client, struct err *err) {
    const struct kube_access *access = &kube->access;
    const struct http_foreign server = {.url = access->server,
                                        .where = kube->where,
                                        .ca = access->ca,
                                        .cert = access->cert,
                                        .key = access->key,
                                        .failures = kube_failures};
    return http_client_foreign(&server, ret_client, err);
}

static int kube_token_read(struct kube *kube, struct err *err) {
    char text[TOKEN_BYTES];
    ssize_t len = fd_read_file(AT_FDCWD, kube->access.token_file, text, sizeof text);
    if (len < 0)
        return err_errno(err, (int)-len, "the token of the Kubernetes API, %s", kube->access.token_file);
    text[strcspn(text, "\r\n")] = 0;
    if (!*text)
        return err_set(err, ERR_UNAUTHORIZED, "the token of the Kubernetes API, %s, is empty", kube->access.token_file);
    free(kube->token);
    kube->token = xstrdup(text);
    explicit_bzero(text, sizeof text);
    return 0;
}

/* again: the server refused the one that we have. */
static int kube_fresh_locked(struct kube *kube, bool again, struct err *err) {
    struct kube_access *access = &kube->access;
    uint64_t now_ms = clock_ms(), wall_ms = clock_wall_ms();
    bool old = again || !kube->token_at_ms;
    if (access->token_file && (old || now_ms - kube->token_at_ms >= TOKEN_AGE_MS)) {
        TRY(kube_token_read(kube, err));
        kube->token_at_ms = now_ms;
    } else if (access->exec.command && (old || (kube->token_until_ms && wall_ms + EARLY_MS >= kube->token_until_ms))) {
        TRY(kube_access_exec(access, &kube->token_until_ms, err));
        http_client_free(kube->client); /* it may have another certificate */
        kube->client = NULL;
        kube->token_at_ms = now_ms;
    }
    return kube->client ? 0 : kube_client_locked(kube, &kube->client, err);
}

static const char *kube_bearer_locked(const struct kube *kube) {
    return kube->token ? kube->token : kube->access.token;
}

int kube_connect(struct kube *kube, struct http_client **ret_client, char **ret_header, struct err *err) {
    autolock(&kube->lock);
    TRY(kube_fresh_locked(kube, false, err) ?: kube_client_locked(kube, ret_client, err));
    const char *bearer = kube_bearer_locked(kube);
    *ret_header = bearer ? xasprintf("Authorization: Bearer %s", bearer) : NULL;
    return 0;
}

/* ---- calls ---- */

int kube_failed(int status, const struct buf *body, struct err *err) {
    json_auto_t *answer = json_loadb((const char *)body->data, body->len, 0, NULL);
    const char *message = json_string_value(json_object_get(answer, "message"));
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    static const struct {
        int status;
        enum err_code code;
    } codes[] = {{400, ERR_INVALID}, {401, ERR_UNAUTHORIZED}, {403, ERR_DENIED},  {404, ERR_NOT_FOUND},
                 {409, ERR_BUSY},    {410, ERR_GONE},         {413, ERR_INVALID}, {415, ERR_INVALID},
                 {422, ERR_INVALID}, {405, ERR_INVALID}};
    enum err_code code = ERR_BUSY;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            code = codes[i].code;
    if (status == 409 && reason && strcmp(reason, "AlreadyExists") == 0)
        code = ERR_EXISTS;
    if (status == 403 && message && strstr(message, "exceeded quota"))
        code = ERR_LIMIT;
    if (status == 403 && message && strstr(message, "violates PodSecurity"))
        code = ERR_INVALID;
    autobuf shown = buf_max(2400);
    text_shown(&shown, message ? message : "no reason given", message ? strnlen(message, 400) : 15);
    return err_set(err, code, "the Kubernetes API server answers %d: %s", status, buf_cstr(&shown));
}

static int kube_send_locked(struct kube *kube, const struct http_call *plain, const char *type, int *ret_status,
                            struct buf *out, struct err *err) {
    const char *headers[4] = {"Accept: application/json"};
    struct http_call call = *plain;
    size_t count = 1;
    autobuf bearer = buf_max(TOKEN_BYTES + 64);
    if (kube_bearer_locked(kube)) {
        buf_printf(&bearer, "Authorization: Bearer %s", kube_bearer_locked(kube));
        headers[count++] = buf_cstr(&bearer);
    }
    if (call.body)
        headers[count++] = type;
    call.headers = headers;
    buf_clear(out);
    int failed = http_client_call(kube->client, &call, ret_status, out, err);
    if (bearer.data)
        explicit_bzero(bearer.data, bearer.len);
    if (failed == -ERR_TIMEOUT || failed == -ERR_GONE)
        err->code = ERR_BUSY;
    return failed ? -err->code : 0;
}

int kube_call(struct kube *kube, const char *method, const char *path, enum kube_body kind, const json_t *body,
              json_t **ret_answer, struct err *err) {
    autobuf out = buf_max(ANSWER_BYTES);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const char *type =
        kind == KUBE_MERGE ? "Content-Type: application/merge-patch+json" : "Content-Type: application/json";
    const struct http_call call = {
        .method = method, .path = path, .body = text, .body_len = text ? strlen(text) : 0, .timeout_ms = CALL_MS};
    int status = 0, failed;
    pthread_mutex_lock(&kube->lock);
    failed = kube_fresh_locked(kube, false, err) ?: kube_send_locked(kube, &call, type, &status, &out, err);
    if (!failed && status == 401 && (kube->access.token_file || kube->access.exec.command))
        failed = kube_fresh_locked(kube, true, err) ?: kube_send_locked(kube, &call, type, &status, &out, err);
    pthread_mutex_unlock(&kube->lock);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    if (failed)
        return failed;
    if (status < 200 || status > 299)
        return kube_failed(status, &out, err);
    json_t *answer = json_loadb((const char *)out.data, out.len, 0, NULL);
    if (!json_is_object(answer)) {
        json_decref(answer);
        return err_set(err, ERR_PROTOCOL, "the Kubernetes API server answers something that is not a JSON object");
    }
    if (ret_answer)
        *ret_answer = answer;
    else
        json_decref(answer);
    return 0;
}
