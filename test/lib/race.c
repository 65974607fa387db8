/* File calls against names that move, as fast as they go: the host's half of test/hostile/path_swap_race.sh.
 * usage: race SOCKET BOX DIR OUTSIDE TARGETS SECONDS WORD...
 * Runs every op of the file API on the names attack_swap moves in DIR (a path in the box), on two connections, and looks
 * for the WORDs, which only the outside holds, in all that is answered. Prints a line for every op:
 *   op CALLS DONE(2xx) REFUSED(4xx) BUSY(429, 503) OTHER LEAKS
 * and the first answer of each op that is among OTHER or LEAKS. Ends after SECONDS, or when every op was done and refused
 * at least once, if that is later; after MORE_SECONDS it ends in any case. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, MORE_SECONDS = 60, ANSWER_BYTES = 4 << 20, REQUEST_BYTES = 16384, BLOCK_BYTES = 512 };

/* %D DIR, %C OUTSIDE, %d the target, %u a number that is new each time; "body": what is sent, or a tar with one file. */
struct op {
    const char *name, *method, *path, *body;
    int times; /* in a row; the daemon's own opens are quick, and the ones that matter most */
};
static const struct op ops[] = {
    {"read", "GET", "/files?path=%D/d%d/f", NULL, 16},
    {"read", "GET", "/files?path=%D/d%d/sub/deep/f", NULL, 16},
    {"read-up", "GET", "/files?path=%D/d%d/sub/deep/../../sub/f", NULL, 16},
    {"read-leaf", "GET", "/files?path=%D/f%d", NULL, 16},
    {"read-beside", "GET", "/files?path=%D/d%d/../d%d/f", NULL, 16},
    {"read-climb-never", "GET", "/files?path=%D/d%d/../../../../../../../../../..%C/f", NULL, 16},
    {"write", "PUT", "/files?path=%D/d%d/w", "inside", 1},
    {"write-leaf", "PUT", "/files?path=%D/f%d", "inside", 1},
    {"write-parents", "PUT", "/files?path=%D/d%d/p%u/q/w&parents=1", "inside", 1},
    {"append", "PUT", "/files?path=%D/d%d/a&append=1", "x", 1},
    {"append-leaf", "PUT", "/files?path=%D/f%d&append=1", "x", 1},
    {"stat", "GET", "/stat?path=%D/d%d/f", NULL, 4},
    {"stat", "GET", "/stat?path=%D/d%d/sub/../f", NULL, 4},
    {"list", "GET", "/list?path=%D/d%d&depth=2&limit=200", NULL, 1},
    {"list-above", "GET", "/list?path=%D&depth=3&limit=400", NULL, 1},
    {"mkdir", "POST", "/mkdir", "{\"path\":\"%D/d%d/m%u\"}", 1},
    {"mkdir-parents", "POST", "/mkdir", "{\"path\":\"%D/d%d/n/o/m%u/n\",\"parents\":true}", 1},
    {"remove-tree", "DELETE", "/files?path=%D/d%d/n&recursive=1", NULL, 1},
    {"remove-above", "DELETE", "/files?path=%D/t&recursive=1", NULL, 1},
    {"move", "POST", "/move", "{\"from\":\"%D/d%d/w\",\"to\":\"%D/d%d/v\",\"overwrite\":true}", 1},
    {"move-in", "POST", "/move", "{\"from\":\"%D/d%d/v\",\"to\":\"%D/d%d/sub/v\",\"overwrite\":true}", 1},
    {"glob", "POST", "/glob", "{\"pattern\":\"**\",\"path\":\"%D/d%d/sub\",\"limit\":200}", 1},
    {"glob-above", "POST", "/glob", "{\"pattern\":\"d*/sub/**\",\"path\":\"%D\",\"limit\":400}", 1},
    {"grep", "POST", "/grep", "{\"pattern\":\".\",\"path\":\"%D/d%d/sub\",\"limit\":200,\"timeout_ms\":2000}", 1},
    {"grep-above", "POST", "/grep", "{\"pattern\":\".\",\"path\":\"%D\",\"limit\":400,\"timeout_ms\":2000}", 1},
    {"hash", "GET", "/hash?path=%D/d%d/f", NULL, 1},
    {"hash-leaf", "GET", "/hash?path=%D/f%d", NULL, 1},
    {"edit", "POST", "/edit", "{\"path\":\"%D/d%d/e\",\"old\":\"inside\",\"new\":\"inside\"}", 1},
    {"edit-leaf", "POST", "/edit", "{\"path\":\"%D/f%d\",\"old\":\"i\",\"new\":\"i\",\"all\":true}", 1},
    {"tar-out", "GET", "/archive?path=%D/d%d/sub", NULL, 1},
    {"tar-above", "GET", "/archive?path=%D/t", NULL, 1},
    {"tar-in", "PUT", "/archive?path=%D/d%d/sub", "tar", 1},
    {"watch", "GET", "/watch?path=%D/d%d/sub&recursive=1", NULL, 1},
};
enum { OPS = sizeof ops / sizeof *ops };

struct count {
    unsigned long calls, fine, refused, busy, other, leaks;
};

struct racer {
    pthread_t thread;
    const char *socket, *box, *dir, *outside;
    char **words;
    int targets, fd;
    uint64_t until_ms;
    unsigned number;
    char *answer; /* the whole of it, head and body; NUL behind */
    size_t len;
    struct count counts[OPS];
};

static _Noreturn void die(const char *what) {
    fprintf(stderr, "race: %s: %s\n", what, strerror(errno));
    exit(125);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- one request ---- */

static void racer_dial(struct racer *racer) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", racer->socket);
    racer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = 60};
    setsockopt(racer->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(racer->fd, (struct sockaddr *)&to, sizeof to) < 0)
        die(racer->socket);
}

static bool racer_more(struct racer *racer) {
    if (racer->len + 1 >= ANSWER_BYTES)
        return false;
    ssize_t n = recv(racer->fd, racer->answer + racer->len, ANSWER_BYTES - 1 - racer->len, 0);
    if (n <= 0)
        return false;
    racer->len += (size_t)n;
    racer->answer[racer->len] = 0;
    return true;
}

/* True when the answer is complete and the connection can be used again. Chunks are not taken apart: a word that lies
 * across two of them would be missed, and answers here are smaller than a chunk. */
static bool racer_whole(struct racer *racer, bool watch) {
    char *body = strstr(racer->answer, "\r\n\r\n"), *length = strcasestr(racer->answer, "\r\ncontent-length:");
    if (!body)
        return false;
    size_t head = (size_t)(body + 4 - racer->answer);
    if (!strncmp(racer->answer + 9, "204", 3) || !strncmp(racer->answer + 9, "304", 3))
        return true;
    if (length && length < body)
        return racer->len - head >= strtoul(length + 17, NULL, 10);
    if (watch && strstr(body, "event: ready"))
        return true;
    return racer->len >= 5 && !memcmp(racer->answer + racer->len - 5, "0\r\n\r\n", 5);
}

static int racer_call(struct racer *racer, const char *request, size_t len, bool watch) {
    bool close_it = watch;
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(racer->fd, request + sent, len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* it may have been answered early */
        sent += (size_t)n;
    }
    racer->len = 0;
    racer->answer[0] = 0;
    while (!racer_whole(racer, watch))
        if (!racer_more(racer)) {
            close_it = true;
            break;
        }
    if (close_it || strcasestr(racer->answer, "\r\nconnection: close")) {
        close(racer->fd);
        racer_dial(racer);
    }
    return racer->len > 12 ? (int)strtol(racer->answer + 9, NULL, 10) : 0;
}

/* ---- requests ---- */

static size_t expand(struct racer *racer, char *out, size_t size, const char *text, int target) {
    size_t len = 0;
    for (; *text && len + 1 < size; text++) {
        int n = 1;
        if (text[0] == '%' && text[1] == 'D')
            n = snprintf(out + len, size - len, "%s", racer->dir);
        else if (text[0] == '%' && text[1] == 'C')
            n = snprintf(out + len, size - len, "%s", racer->outside);
        else if (text[0] == '%' && text[1] == 'd')
            n = snprintf(out + len, size - len, "%d", target);
        else if (text[0] == '%' && text[1] == 'u')
            n = snprintf(out + len, size - len, "%u", racer->number);
        else
            out[len] = *text;
        text += text[0] == '%';
        len += (size_t)n;
    }
    out[len] = 0;
    return len;
}

/* A tar of one file, x/y, and its end. */
static size_t tar_body(char *out) {
    static const char content[] = "inside\n";
    memset(out, 0, 4 * BLOCK_BYTES);
    snprintf(out, 100, "x/y");
    snprintf(out + 100, 8, "0000644");
    snprintf(out + 124, 12, "%011o", (unsigned)sizeof content - 1);
    snprintf(out + 136, 12, "%011o", 1);
    out[156] = '0';
    memcpy(out + 257, "ustar\00000", 8);
    memset(out + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK_BYTES; i++)
        sum += (unsigned char)out[i];
    snprintf(out + 148, 8, "%06o", sum);
    memcpy(out + BLOCK_BYTES, content, sizeof content - 1);
    return 4 * BLOCK_BYTES;
}

static void racer_show(struct racer *racer, const struct op *op, const char *path) {
    char line[1200];
    snprintf(line, sizeof line, "%s %.400s: %.600s", op->name, path, racer->answer);
    for (char *at = line; *at; at++)
        *at = *at == '\n' || *at == '\r' ? ' ' : *at;
    printf("# %s\n", line);
}

static void racer_op(struct racer *racer, int index, int target) {
    const struct op *op = &ops[index];
    struct count *count = &racer->counts[index];
    char request[REQUEST_BYTES], path[2048], body[4096];
    size_t body_len = 0;
    racer->number++;
    expand(racer, path, sizeof path, op->path, target);
    if (op->body)
        body_len = !strcmp(op->body, "tar") ? tar_body(body) : expand(racer, body, sizeof body, op->body, target);
    int head = snprintf(request, sizeof request, "%s /v1/boxes/%s%s HTTP/1.1\r\nHost: localhost\r\n", op->method,
                        racer->box, path);
    if (op->body)
        head += snprintf(request + head, sizeof request - (size_t)head, "Content-Length: %zu\r\n", body_len);
    head += snprintf(request + head, sizeof request - (size_t)head, "\r\n");
    memcpy(request + head, body, body_len);
    int status = racer_call(racer, request, (size_t)head + body_len, !strcmp(op->name, "watch"));
    bool fine = status >= 200 && status < 300, busy = status == 429 || status == 503, leak = false;
    bool refused = status >= 400 && status < 500 && !busy;
    for (char **word = racer->words; *word; word++)
        leak = leak || memmem(racer->answer, racer->len, *word, strlen(*word));
    if ((leak && !count->leaks) || (!fine && !refused && !busy && !count->other))
        racer_show(racer, op, path);
    count->calls++;
    count->fine += fine;
    count->refused += refused;
    count->busy += busy;
    count->other += !fine && !refused && !busy;
    count->leaks += leak;
}

/* Whether this connection alone has seen both outcomes of every op that has both. */
static bool racer_saw_all(const struct racer *racer) {
    for (int op = 0; op < OPS; op++)
        if ((!racer->counts[op].fine && !strstr(ops[op].name, "-never")) ||
            (!racer->counts[op].refused && !strstr(ops[op].name, "-above")))
            return false;
    return true;
}

static void *racer_main(void *user) {
    struct racer *racer = user;
    uint64_t last_ms = racer->until_ms + MORE_SECONDS * 1000;
    for (unsigned turn = racer->number; now_ms() < racer->until_ms || (now_ms() < last_ms && !racer_saw_all(racer));
         turn += 7)
        for (int op = 0; op < OPS; op++)
            for (int times = 0; times < ops[op].times; times++)
                racer_op(racer, op, (int)((turn + (unsigned)(op + times)) % (unsigned)racer->targets));
    return NULL;
}

int main(int argc, char **argv) {
    static struct racer racers[THREADS];
    if (argc < 8) {
        fprintf(stderr, "usage: race SOCKET BOX DIR OUTSIDE TARGETS SECONDS WORD...\n");
        return 2;
    }
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.socket = argv[1],
                                   .box = argv[2],
                                   .dir = argv[3],
                                   .outside = argv[4],
                                   .targets = (int)strtol(argv[5], NULL, 10),
                                   .until_ms = now_ms() + strtoull(argv[6], NULL, 10) * 1000,
                                   .words = argv + 7,
                                   .number = (unsigned)i * 1000000,
                                   .answer = malloc(ANSWER_BYTES)};
        racer_dial(&racers[i]);
        if (!racers[i].answer || pthread_create(&racers[i].thread, NULL, racer_main, &racers[i]))
            die("thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(racers[i].thread, NULL);
    for (int op = 0; op < OPS; op++) {
        struct count sum = {0};
        bool first = true;
        for (int same = 0; same < OPS; same++) {
            if (strcmp(ops[same].name, ops[op].name) != 0)
                continue;
            first = first && same >= op;
            for (int i = 0; i < THREADS; i++) {
                const struct count *count = &racers[i].counts[same];
                sum.calls += count->calls, sum.fine += count->fine, sum.refused += count->refused;
                sum.busy += count->busy, sum.other += count->other, sum.leaks += count->leaks;
            }
        }
        if (first)
            printf("%s %lu %lu %lu %lu %lu %lu\n", ops[op].name, sum.calls, sum.fine, sum.refused, sum.busy, sum.other,
                   sum.leaks);
    }
    return 0;
}
