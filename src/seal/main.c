/* The program: what it gives up, what the daemon sends, the loop. Invariant: HELLO and the host's bundle of authorities
 * are read before the first connection; after that no system call that opens anything is left. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/json.h"
#include "seal/seal.h"

SSL_CTX *client_context, *server_context;
json_t *seal_hello;
int seal_epoll;
struct gate_policy *seal_levels[GATE_LEVELS];
size_t seal_level_count;
static EVP_PKEY *seal_key;
static struct leaf *seal_leaves;

_Noreturn static void seal_die(const char *what) {
    fprintf(stderr, "cubby-seal: %s\n", what);
    exit(1);
}

/* ---- what is given up ---- */

#if defined(__x86_64__)
#define SEAL_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SEAL_ARCH AUDIT_ARCH_AARCH64
#else
#error "name this architecture here"
#endif

static const int seal_calls[] = {
    SYS_read,       SYS_write,         SYS_writev,       SYS_close,        SYS_fcntl,          SYS_recvfrom,
    SYS_sendto,     SYS_recvmsg,       SYS_sendmsg,      SYS_shutdown,     SYS_epoll_ctl,      SYS_epoll_pwait,
    SYS_ppoll,      SYS_clock_gettime, SYS_futex,        SYS_mmap,         SYS_munmap,         SYS_mremap,
    SYS_madvise,    SYS_brk,           SYS_exit,         SYS_exit_group,   SYS_getrandom,      SYS_getpid,
    SYS_gettid,     SYS_tgkill,        SYS_mprotect,     SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_fstat,      SYS_sigaltstack,   SYS_gettimeofday, SYS_getsockopt,   SYS_setsockopt,
#ifdef __x86_64__
    SYS_epoll_wait, SYS_poll,          SYS_time,
#endif
};

static void seal_confine(void) {
    enum { CALLS = sizeof seal_calls / sizeof *seal_calls };
    struct sock_filter program[CALLS + 8];
    unsigned short at = 0;
    struct rlimit none = {0, 0};
#define WORD(member) (uint32_t) offsetof(struct seccomp_data, member)
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(arch));
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SEAL_ARCH, 1, 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(nr));
    for (size_t i = 0; i < CALLS; i++)
        program[at++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)seal_calls[i], (uint8_t)(CALLS - i), 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
#undef WORD
    struct sock_fprog filter = {.len = at, .filter = program};
    setrlimit(RLIMIT_CORE, &none);
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
        seal_die("seccomp");
}

/* No page of it, and so no copy of a value, is written to swap. An ordinary user's limit may be too small for that. */
static void seal_lock(void) {
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &all) == 0 && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
        fprintf(stderr, "cubby-seal: its memory may be swapped: %s\n", strerror(errno));
}

/* A user of its own, where the daemon is root and names one. */
static void seal_user(void) {
    uid_t uid = (uid_t)json_integer_value(json_object_get(seal_hello, "uid"));
    if (uid && (setresgid(uid, uid, uid) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 || setresuid(uid, uid, uid) < 0))
        seal_die("setuid");
}

/* ---- TLS ---- */

static int seal_alpn(SSL *, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned in_len,
                     void *) {
    for (unsigned at = 0; at < in_len; at += 1u + in[at])
        if (in[at] == 8 && at + 9 <= in_len && memcmp(in + at + 1, "http/1.1", 8) == 0) {
            *out = in + at + 1;
            *out_len = 8;
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void seal_contexts(void) {
    static const unsigned char protocols[] = "\x08http/1.1";
    const char *bundle = json_string_value(json_object_get(seal_hello, "bundle"));
    client_context = xchecked(SSL_CTX_new(TLS_client_method()));
    server_context = xchecked(SSL_CTX_new(TLS_server_method()));
    SSL_CTX *both[] = {client_context, server_context};
    for (int i = 0; i < 2; i++) {
        SSL_CTX_set_min_proto_version(both[i], TLS1_2_VERSION);
        SSL_CTX_set_mode(both[i], SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_options(both[i], SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
        SSL_CTX_set_session_cache_mode(both[i], SSL_SESS_CACHE_OFF);
    }
    SSL_CTX_set_num_tickets(server_context, 0);
    SSL_CTX_set_alpn_select_cb(server_context, seal_alpn, NULL);
    SSL_CTX_set_alpn_protos(client_context, protocols, sizeof protocols - 1);
    SSL_CTX_set_verify(client_context, SSL_VERIFY_PEER, NULL);
    if (!bundle || SSL_CTX_load_verify_file(client_context, bundle) != 1)
        seal_die("the bundle of authorities cannot be read (gate_ca_file)");
    seal_key = xchecked(EVP_EC_gen("P-256"));
}

EVP_PKEY *leaf_key(void) {
    return seal_key;
}

struct leaf *leaf_of(const char *host) {
    struct leaf *leaf = list_find(seal_leaves, item, strcmp(item->host, host) == 0);
    if (leaf)
        return leaf;
    leaf = xcalloc(1, sizeof *leaf);
    leaf->host = xstrdup(host);
    list_push(seal_leaves, leaf);
    BIO *text = xchecked(BIO_new(BIO_s_mem()));
    char *pem;
    PEM_write_bio_PUBKEY(text, seal_key);
    long len = BIO_get_mem_data(text, &pem);
    seal_send('L', host, text_make(1024, "%.*s", (int)len, pem));
    BIO_free(text);
    return leaf;
}

static void seal_take_leaf(const char *host, const char *pem) {
    BIO *text = xchecked(BIO_new_mem_buf(pem, -1));
    struct leaf *leaf = leaf_of(host);
    X509_free(leaf->certificate);
    leaf->certificate = PEM_read_bio_X509(text, NULL, NULL, NULL);
    BIO_free(text);
    if (!leaf->certificate)
        seal_die("the daemon sent no certificate");
}

/* ---- the daemon ---- */

void seal_send(char letter, const char *first, const char *second) {
    autobuf message = buf_max(SEAL_MESSAGE_BYTES);
    buf_byte(&message, (uint8_t)letter);
    buf_put(&message, first, strlen(first) + 1);
    if (second)
        buf_put(&message, second, strlen(second) + 1);
    if (send(SEAL_DAEMON_FD, message.data, message.len, MSG_NOSIGNAL) < 0)
        exit(0); /* without the daemon there is nothing to do */
}

/* The box's own level says what is logged of requests; secrets always are. */
static bool seal_logged(const char *verb, bool denied) {
    enum gate_log log = seal_level_count ? seal_levels[seal_level_count - 1]->log : GATE_LOG_ALL;
    return log == GATE_LOG_ALL || strncmp(verb, "net_", 4) != 0 || (denied && log == GATE_LOG_DENIED);
}

void seal_row(const struct conn *conn, const char *verb, const char *detail, const char *placeholder, bool denied) {
    autobuf text = buf_max(LIMIT_HEAD_BYTES + 8192);
    struct json json = json_begin(&text);
    json_put_str(&json, "verb", verb);
    json_put_str(&json, "host", conn->host);
    json_put_uint(&json, "port", conn->port);
    json_put_uint(&json, "cgroup", conn->cgroup);
    json_put_str(&json, "detail", detail);
    json_put_bool(&json, "denied", denied);
    json_put_bool(&json, "logged", seal_logged(verb, denied));
    if (placeholder)
        json_put_str(&json, "placeholder", placeholder);
    json_close(&json, '}');
    if (buf_cstr(&text))
        seal_send('R', (const char *)text.data, NULL);
}

bool seal_decide(const struct conn *conn, const char *method, const char *path, char why[GATE_WHY_BYTES]) {
    static const struct gate_machine machine;
    const struct gate_subject subject = {.name = conn->host, .port = conn->port, .method = method, .path = path};
    struct gate_verdict verdict;
    if (!seal_level_count)
        return true;
    gate_decide(&machine, (const struct gate_policy *const *)seal_levels, seal_level_count, NULL, &subject, &verdict);
    snprintf(why, GATE_WHY_BYTES, "%s", verdict.why);
    return verdict.allowed;
}

static void seal_take_levels(const json_t *levels) {
    struct err err = {0};
    for (size_t i = 0; i < seal_level_count; i++)
        gate_policy_free(seal_levels[i]);
    seal_level_count = 0;
    for (size_t i = 0; i < json_array_size(levels) && i < GATE_LEVELS; i++) {
        autobuf warnings = buf_max(16384);
        if (!json_is_object(json_array_get(levels, i)))
            continue;
        if (gate_policy_parse(json_array_get(levels, i), &seal_levels[seal_level_count], &warnings, &err) < 0)
            seal_die(err.text);
        seal_level_count++;
    }
}

/* A letter and up to three texts. */
static void seal_take(char *message, size_t len) {
    char *texts[3] = {"", "", ""};
    size_t at = 1;
    for (int i = 0; i < 3 && at < len; i++) {
        texts[i] = message + at;
        at += strnlen(texts[i], len - at) + 1;
    }
    if (message[0] == 'V')
        secrets_value(texts[0], strtoull(texts[1], NULL, 10), texts[2], strlen(texts[2]));
    else if (message[0] == 'E')
        secrets_error(texts[0], texts[1]);
    else if (message[0] == 'L')
        seal_take_leaf(texts[0], texts[1]);
    else if (message[0] == 'F')
        secrets_forget();
}

static bool seal_news; /* connections may have waited for what the daemon sent */

bool seal_listen(void) {
    static char message[SEAL_MESSAGE_BYTES + 1];
    for (;;) {
        ssize_t n = recv(SEAL_DAEMON_FD, message, SEAL_MESSAGE_BYTES, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        message[n] = 0;
        seal_take(message, (size_t)n);
        explicit_bzero(message, (size_t)n);
        seal_news = true;
    }
}

/* ---- the gate ---- */

static bool seal_accept(char *message) {
    struct iovec part = {message, SEAL_MESSAGE_BYTES};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(SEAL_GATE_FD, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    struct cmsghdr *carried = CMSG_FIRSTHDR(&head);
    int fds[2] = {-1, -1};
    if (carried && carried->cmsg_level == SOL_SOCKET && carried->cmsg_type == SCM_RIGHTS &&
        carried->cmsg_len <= CMSG_LEN(sizeof fds))
        memcpy(fds, CMSG_DATA(carried), carried->cmsg_len - CMSG_LEN(0));
    struct seal_connection wanted;
    if ((size_t)n >= sizeof wanted)
        memcpy(&wanted, message, sizeof wanted);
    if ((size_t)n < sizeof wanted || wanted.version != SEAL_WIRE_VERSION || wanted.host_len > SEAL_HOST_BYTES ||
        !wanted.host_len || (size_t)n != sizeof wanted + wanted.host_len + wanted.peeked_len || fds[0] < 0 ||
        fds[1] < 0) {
        fd_close(&fds[0]);
        fd_close(&fds[1]);
        return true;
    }
    const char *host = message + sizeof wanted;
    conn_new(&wanted, host, host + wanted.host_len, fds[0], fds[1]);
    return true;
}

int main(void) {
    static char message[SEAL_MESSAGE_BYTES + 1];
    static const uint64_t own[2] = {SEAL_DAEMON_FD, SEAL_GATE_FD};
    ssize_t n = recv(SEAL_DAEMON_FD, message, SEAL_MESSAGE_BYTES, 0);
    seal_hello = n > 1 && message[0] == 'H' ? json_loadb(message + 1, (size_t)n - 1, 0, NULL) : NULL;
    if (!seal_hello)
        seal_die("it is started by cubbyd, for a box, and by no other program");
    signal(SIGPIPE, SIG_IGN);
    /* no configuration of OpenSSL, and no texts of its errors */
    OPENSSL_init_ssl(
        OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS, NULL);
    seal_contexts();
    malloc_trim(0); /* what reading the authorities left */
    secrets_read(json_object_get(seal_hello, "secrets"));
    seal_take_levels(json_object_get(seal_hello, "levels"));
    seal_epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)&own[i]};
        epoll_ctl(seal_epoll, EPOLL_CTL_ADD, (int)own[i], &event);
    }
    seal_lock();
    seal_user();
    seal_confine();
    for (uint64_t idle_ms = clock_ms();;) {
        struct epoll_event events[64];
        uint64_t now_ms = clock_ms();
        if (conns)
            idle_ms = now_ms;
        if (now_ms - idle_ms >= SEAL_IDLE_MS)
            return 0;
        int count = epoll_wait(seal_epoll, events, 64, conns ? 5000 : (int)(SEAL_IDLE_MS - (now_ms - idle_ms)) + 1);
        if (!seal_listen())
            return 0;
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &own[0])
                continue;
            if (events[i].data.ptr == &own[1]) {
                if (!seal_accept(message))
                    return 0;
                continue;
            }
            struct conn *conn =
                list_find(conns, item, (void *)item == events[i].data.ptr); /* freed by another event? */
            if (conn)
                conn_ready(conn);
        }
        while (seal_news) {
            seal_news = false;
            conn_pump_all();
        }
        conn_time(clock_ms());
    }
}
