/* The figures of `make bench`: one row each, ours beside a peer or a floor measured in the same run, in turns.
 * Called by bench.sh, which starts the daemon and nginx: bench ROW PORT NGINX_PORT CUBBY TREE. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

int port, nginx_port;
const char *cubby, *tree;
static int missed;

unsigned turns(unsigned usual) {
    const char *quick = getenv("BENCH_QUICK");
    return !quick || !*quick ? usual : usual < 6 ? 2 : usual / 3;
}

/* The lowest and the highest ratio of parts that were measured at about the same time. */
static void spread_text(const struct figure *ours, const struct figure *peer, char *text, size_t size) {
    unsigned count = ours->count < 2 ? peer->count : peer->count < 2 ? ours->count : FIGURE_PARTS;
    count = ours->count > 1 && ours->count < count ? ours->count : count;
    count = peer->count > 1 && peer->count < count ? peer->count : count;
    double low = 0, high = 0;
    for (unsigned i = 0; i < count; i++) {
        double mine = ours->count > 1 ? ours->parts[i * ours->count / count] : ours->mid;
        double theirs = peer->count > 1 ? peer->parts[i * peer->count / count] : peer->mid;
        double ratio = mine / theirs;
        low = i == 0 || ratio < low ? ratio : low;
        high = i == 0 || ratio > high ? ratio : high;
    }
    snprintf(text, size, count > 1 ? "%.2f-%.2f" : "once", low, high);
}

/* Whether the README says where the time of this row goes: it names the row in backquotes. */
static int row_profiled(const char *name) {
    static char text[1 << 16];
    if (!*text) {
        FILE *file = fopen("test/bench/README.md", "re");
        text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
        if (file)
            fclose(file);
    }
    char quoted[160];
    snprintf(quoted, sizeof quoted, "`%s`", name);
    return strstr(text, quoted) != NULL;
}

void row(const char *name, const char *unit, struct figure ours, const char *peer_name, struct figure peer,
         enum bar bar, double limit) {
    double ratio = ours.mid / peer.mid;
    int met = bar == AT_MOST ? ratio <= limit : ratio >= limit;
    char left[64], right[96], spread[64];
    snprintf(left, sizeof left, "%.*f %s", ours.mid < 10 ? 2 : ours.mid < 100 ? 1 : 0, ours.mid, unit);
    snprintf(right, sizeof right, "%.*f %s (%s)",
             peer.mid < 10    ? 2
             : peer.mid < 100 ? 1
                              : 0,
             peer.mid, unit, peer_name);
    spread_text(&ours, &peer, spread, sizeof spread);
    printf("| %-44s | %12s | %-38s | %5.2f | %-11s | %s %.2f | %-3s |\n", name, left, right, ratio, spread,
           bar == AT_MOST ? "<=" : ">=", limit,
           met                  ? "yes"
           : row_profiled(name) ? "NO*"
                                : "NO");
    fflush(stdout);
    missed += !met;
}

void note(const char *text) {
    printf("| %-44s |\n", text);
    fflush(stdout);
}

/* ---- commands ---- */

enum { EXEC_ROUNDS = 20, EXEC_PER_ROUND = 25 };

void exec_samples(struct client *client, const char *id, double *us, size_t count) {
    char request[512];
    size_t len = box_exec_request(request, sizeof request, id);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now_ns();
        exec_once(client, request, len);
        us[i] = (double)(now_ns() - start) / 1e3;
    }
}

static void bench_exec(void) {
    struct client client;
    char id[ID_BYTES];
    static double ours[EXEC_ROUNDS * EXEC_PER_ROUND], peer[EXEC_ROUNDS * EXEC_PER_ROUND];
    client_open(&client, port);
    box_create(&client, "", id);
    exec_samples(&client, id, ours, 20); /* warm up */
    for (size_t round = 0; round < EXEC_ROUNDS; round++) {
        exec_samples(&client, id, ours + round * EXEC_PER_ROUND, EXEC_PER_ROUND);
        idle_ms(20);
        for (size_t i = 0; i < EXEC_PER_ROUND; i++)
            peer[round * EXEC_PER_ROUND + i] = peer_time(peer_true) * 1e6;
        idle_ms(20);
    }
    row("exec /bin/true, HTTP keep-alive, p50", "us", middle(ours, EXEC_ROUNDS * EXEC_PER_ROUND), "posix_spawn + wait",
        middle(peer, EXEC_ROUNDS * EXEC_PER_ROUND), AT_MOST, 1.3);
    box_delete(&client, id);
    client_close(&client);
}

/* Bursts larger than any pool of ready parts, with no pause inside: their refilling is part of the time. */
enum { CREATE_ROUNDS = 8, CREATE_BURST = 40 };

static void create_row(const char *name, const char *members) {
    struct client client;
    static double ours[CREATE_ROUNDS * CREATE_BURST], peer[CREATE_ROUNDS * CREATE_BURST];
    char ids[CREATE_BURST][ID_BYTES], request[512];
    client_open(&client, port);
    size_t count = 0, peers = 0;
    for (unsigned round = 0; round < turns(CREATE_ROUNDS); round++) {
        for (int i = 0; i < CREATE_BURST; i++) {
            uint64_t start = now_ns();
            box_create(&client, members, ids[i]);
            exec_once(&client, request, box_exec_request(request, sizeof request, ids[i]));
            ours[count++] = (double)(now_ns() - start) / 1e6;
        }
        for (int i = 0; i < CREATE_BURST; i++)
            box_delete(&client, ids[i]);
        idle_ms(200);
        for (int i = 0; i < CREATE_BURST; i++)
            peer[peers++] = peer_time(peer_bwrap) * 1e3;
        idle_ms(50);
    }
    row(name, "ms", middle(ours, count), "bwrap", middle(peer, peers), AT_MOST, 0.7);
    client_close(&client);
}

static void bench_create(void) {
    create_row("create a jail + first exec, HTTP, p50", "");
}

static void bench_run(void) {
    enum { ROUNDS = 120 };
    static double ours[ROUNDS], peer[ROUNDS];
    char *argv[] = {(char *)cubby, "run", "--", "/bin/true", NULL};
    peer_run(argv);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = peer_time(argv) * 1e3;
        idle_ms(5);
        peer[i] = peer_time(peer_bwrap) * 1e3;
        idle_ms(5);
    }
    row("cubby run -- /bin/true, p50", "ms", middle(ours, ROUNDS), "bwrap", middle(peer, ROUNDS), AT_MOST, 1.2);
}

static void cycle_row(const char *name, const char *members, double least) {
    enum { ROUNDS = 7 };
    const unsigned rounds = turns(ROUNDS);
    double ours[ROUNDS], peer[ROUNDS], seconds = 1.5;
    struct client client;
    client_open(&client, port);
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
        unsigned count = 0;
        for (; now_ns() < end; count++) {
            char id[ID_BYTES];
            box_create(&client, members, id);
            box_delete(&client, id);
        }
        ours[round] = count / ((double)(now_ns() - start) / 1e9);
        idle_ms(300);
        peer[round] = peer_rate(1, seconds);
        idle_ms(50);
    }
    row(name, "/s", middle(ours, rounds), "posix_spawn", middle(peer, rounds), AT_LEAST, least);
    client_close(&client);
}

static void bench_cycle(void) {
    cycle_row("create + delete, one client", "", 0.25);
}

/* ---- throughput ---- */

enum { CLIENTS = 16 };

/* One thread keeps every connection busy with one command at a time. */
static double exec_rate(struct client *clients, char requests[][512], const size_t *lengths, double seconds) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CLIENTS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event);
        client_send(&clients[i], requests[i], lengths[i]);
    }
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
    unsigned long done = 0;
    int busy = CLIENTS;
    double rate = 0;
    while (busy > 0) {
        struct epoll_event events[CLIENTS];
        int n = epoll_wait(epoll, events, CLIENTS, 30000);
        if (n <= 0)
            die("no answer for 30 seconds");
        for (int k = 0; k < n; k++) {
            unsigned i = events[k].data.u32;
            char *answer;
            if (client_answer(&clients[i], &answer, NULL) != 200 || !strstr(answer, "\"exit_code\":0"))
                die("exec: %.300s", answer);
            done += now_ns() < end;
            if (now_ns() < end)
                client_send(&clients[i], requests[i], lengths[i]);
            else
                busy--;
        }
    }
    rate = (double)done / seconds;
    close(epoll);
    return rate;
}

static void bench_throughput(void) {
    enum { ROUNDS = 5 };
    const unsigned rounds = turns(ROUNDS);
    struct client clients[CLIENTS];
    char ids[CLIENTS][ID_BYTES], many[CLIENTS][512], one[CLIENTS][512];
    size_t many_len[CLIENTS], one_len[CLIENTS];
    double spread[ROUNDS], single[ROUNDS], peer[ROUNDS];
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], port);
        box_create(&clients[i], "", ids[i]);
        many_len[i] = box_exec_request(many[i], sizeof many[i], ids[i]);
        one_len[i] = box_exec_request(one[i], sizeof one[i], ids[0]);
    }
    exec_rate(clients, many, many_len, 0.3);
    for (unsigned round = 0; round < rounds; round++) {
        spread[round] = exec_rate(clients, many, many_len, 2);
        idle_ms(100);
        peer[round] = peer_rate(2, 2);
        idle_ms(100);
        single[round] = exec_rate(clients, one, one_len, 2);
        idle_ms(100);
    }
    struct figure floor = middle(peer, rounds);
    row("exec throughput, 16 clients in 16 boxes", "/s", middle(spread, rounds), "two posix_spawn loops", floor,
        AT_LEAST, 0.8);
    row("exec throughput, 16 clients in one box", "/s", middle(single, rounds), "two posix_spawn loops", floor,
        AT_LEAST, 0.5);
    for (int i = 0; i < CLIENTS; i++) {
        box_delete(&clients[i], ids[i]);
        client_close(&clients[i]);
    }
}

/* ---- a thousand idle boxes ---- */

double meminfo_kb(const char *key) {
    char line[256];
    double value = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            value = strtod(line + strlen(key) + 1, NULL);
    if (file)
        fclose(file);
    return value;
}

/* Sum of PSS of every process whose argv[0] is cubby-runner, in KB. */
static double runners_pss_kb(unsigned *ret_count) {
    char *argv[] = {"/bin/sh", "-c",
                    "grep -slaz '^cubby-runner$' /proc/[0-9]*/cmdline | sed 's|cmdline|smaps_rollup|' | "
                    "xargs -r awk '/^Pss:/ {s += $2; n++} END {print s, n}' 2>/dev/null",
                    NULL};
    char text[256];
    double sum = 0;
    peer_output(argv, text, sizeof text);
    if (sscanf(text, "%lf %u", &sum, ret_count) != 2)
        *ret_count = 0;
    return sum;
}

static void idle_rows(const char *name, const char *members) {
    enum { COUNT = 1000, SAMPLES = 300 };
    static char ids[COUNT][ID_BYTES];
    static double before[SAMPLES * 2], among[SAMPLES];
    char single[ID_BYTES], text[400];
    unsigned first = 0, last = 0;
    struct client client;
    client_open(&client, port);
    box_create(&client, members, single);
    exec_samples(&client, single, before, 20);
    exec_samples(&client, single, before, SAMPLES);
    idle_ms(500);
    double memory = meminfo_kb("MemAvailable"), pss = runners_pss_kb(&first);
    for (int i = 0; i < COUNT; i++)
        box_create(&client, members, ids[i]);
    idle_ms(1500);
    memory -= meminfo_kb("MemAvailable");
    pss = runners_pss_kb(&last) - pss;
    if (last - first < COUNT)
        die("only %u runners", last - first);
    exec_samples(&client, ids[COUNT / 2], among, 20);
    exec_samples(&client, ids[COUNT / 2], among, SAMPLES);
    for (int i = 0; i < COUNT; i++)
        box_delete(&client, ids[i]);
    idle_ms(3000);
    exec_samples(&client, single, before + SAMPLES, SAMPLES);
    row(name, "KB", exactly(memory / COUNT), "bar of the figure", exactly(1024), AT_MOST, 1.0);
    snprintf(text, sizeof text,
             "  fall of MemAvailable by %d jails / %d: runners' PSS %.0f KB, kernel and daemon %.0f KB each", COUNT,
             COUNT, pss / COUNT, (memory - pss) / COUNT);
    note(text);
    row("exec p50 in one of 1000", "us", middle(among, SAMPLES), "single box", middle(before, SAMPLES * 2), AT_MOST,
        1.2);
    box_delete(&client, single);
    client_close(&client);
}

static void bench_idle(void) {
    idle_rows("1000 idle jails, memory each", "");
}

/* ---- beside three boxes that do their worst ---- */

enum { BOMB_ROUNDS = 10, BOMB_EXECS = 100 };
static const char *const bombs[][2] = {
    /* limits, command */
    {",\"limits\":{\"pids\":256}", "bomb() { bomb | bomb & }; while :; do bomb; sleep 0.1; done 2> /dev/null"},
    {",\"limits\":{\"memory_mb\":128}", "while :; do tail /dev/zero; done 2> /dev/null"},
    {"", "while :; do head -c 200000000 /dev/zero > fill; rm fill; done"},
};
#define BOMBS (sizeof bombs / sizeof *bombs)

/* Samples at a client's pace: a pause after each, in which others may run. */
static void paced_samples(struct client *client, const char *id, double *ms, size_t count) {
    for (size_t i = 0; i < count; i++) {
        exec_samples(client, id, ms + i, 1);
        ms[i] /= 1e3;
        idle_ms(2);
    }
}

static void bench_bombs(void) {
    struct client client;
    char id[ID_BYTES], ids[BOMBS][ID_BYTES], path[128], body[512];
    static double quiet[BOMB_ROUNDS * BOMB_EXECS], loud[BOMB_ROUNDS * BOMB_EXECS];
    const size_t rounds = turns(BOMB_ROUNDS);
    client_open(&client, port);
    box_create(&client, "", id);
    paced_samples(&client, id, quiet, 50); /* warm up */
    for (size_t round = 0; round < rounds; round++) {
        paced_samples(&client, id, quiet + round * BOMB_EXECS, BOMB_EXECS);
        for (size_t i = 0; i < BOMBS; i++) {
            box_create(&client, bombs[i][0], ids[i]);
            snprintf(path, sizeof path, "/v1/boxes/%s/processes", ids[i]);
            snprintf(body, sizeof body, "{\"command\":\"%s\"}", bombs[i][1]);
            client_expect(&client, 201, "POST", path, body);
        }
        idle_ms(300); /* they have grown */
        paced_samples(&client, id, loud + round * BOMB_EXECS, BOMB_EXECS);
        for (size_t i = 0; i < BOMBS; i++)
            box_delete(&client, ids[i]);
        idle_ms(200);
    }
    row("exec p99 beside fork, memory and disk bombs", "ms", rarest(loud, rounds * BOMB_EXECS),
        "the same box without them", rarest(quiet, rounds * BOMB_EXECS), AT_MOST, 2.5);
    row("... and its p50", "ms", middle(loud, rounds * BOMB_EXECS), "the same box without them",
        middle(quiet, rounds * BOMB_EXECS), AT_MOST, 3.0);
    box_delete(&client, id);
    client_close(&client);
}

/* ---- a daemon killed with 100 boxes, and the next one ---- */

enum { ADOPT_BOXES = 100, ADOPT_ROUNDS = 5, ADOPT_BAR_MS = 1000 };

pid_t daemon_start(int at, const char *state, const char *const *more) {
    char daemon[4200], directory[4200], listen[64];
    snprintf(daemon, sizeof daemon, "%sd", cubby);
    snprintf(directory, sizeof directory, "%s.%s", tree, state);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", at);
    char *argv[32] = {daemon, "--listen", listen, "--state", directory, "--log-level", "error", "--max-boxes-per-user",
                      "0"};
    for (size_t i = 9; more && *more && i < 31; i++)
        argv[i] = (char *)(uintptr_t)*more++;
    pid_t pid;
    if (posix_spawn(&pid, daemon, NULL, NULL, argv, environ) != 0)
        die("cannot start %s", daemon);
    end_with_me(pid);
    return pid;
}

static bool daemon_listens(int at) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)at), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return fine;
}

void daemon_open(struct client *client, int at) {
    for (uint64_t end = now_ns() + 30000000000u; !daemon_listens(at); usleep(1000))
        if (now_ns() > end)
            die("no daemon answers at port %d", at);
    client_open(client, at);
}

/* From the daemon's exec until the last of the boxes has answered what only its runner can answer. */
static void bench_adopt(void) {
    struct client client;
    char ids[ADOPT_BOXES][ID_BYTES], path[128];
    double ms[ADOPT_ROUNDS];
    int at = port + 1 + (int)(now_ns() % 1000);
    pid_t pid = daemon_start(at, "adopt", NULL);
    daemon_open(&client, at);
    for (size_t i = 0; i < ADOPT_BOXES; i++)
        box_create(&client, "", ids[i]);
    for (size_t round = 0; round < ADOPT_ROUNDS; round++) {
        idle_ms(200);
        client_close(&client);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        idle_ms(200);
        uint64_t begin = now_ns();
        pid = daemon_start(at, "adopt", NULL);
        daemon_open(&client, at);
        for (size_t i = 0; i < ADOPT_BOXES; i++) {
            snprintf(path, sizeof path, "/v1/boxes/%.16s/processes", ids[i]);
            client_expect(&client, 200, "GET", path, NULL);
        }
        ms[round] = (double)(now_ns() - begin) / 1e6;
    }
    row("adopt 100 boxes after kill -9, p50", "ms", middle(ms, ADOPT_ROUNDS), "the bar", exactly(ADOPT_BAR_MS), AT_MOST,
        1.0);
    for (size_t i = 0; i < ADOPT_BOXES; i++)
        box_delete(&client, ids[i]);
    client_close(&client);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* ---- delete of very many files ---- */

enum { DELETE_ROUNDS = 5, DELETE_EXECS = 100 };

static void bench_delete(void) {
    struct client client;
    char id[ID_BYTES], full[ID_BYTES], path[128];
    static double quiet[DELETE_ROUNDS * DELETE_EXECS], beside[DELETE_ROUNDS * DELETE_EXECS];
    double empty_ms[DELETE_ROUNDS], full_ms[DELETE_ROUNDS];
    const size_t rounds = turns(DELETE_ROUNDS);
    client_open(&client, port);
    box_create(&client, "", id);
    paced_samples(&client, id, quiet, 50); /* warm up */
    for (size_t round = 0; round < rounds; round++) {
        box_create(&client, "", full);
        uint64_t begin = now_ns();
        box_delete(&client, full);
        empty_ms[round] = (double)(now_ns() - begin) / 1e6;
        box_create(&client, "", full);
        snprintf(path, sizeof path, "/v1/boxes/%s/exec", full);
        client_expect(&client, 200, "POST", path,
                      "{\"command\":\"for d in $(seq 100); do mkdir $d; (cd $d; seq 1000 | xargs touch); done\","
                      "\"timeout_ms\":120000}");
        idle_ms(500);
        paced_samples(&client, id, quiet + round * DELETE_EXECS, DELETE_EXECS);
        begin = now_ns();
        box_delete(&client, full);
        full_ms[round] = (double)(now_ns() - begin) / 1e6;
        paced_samples(&client, id, beside + round * DELETE_EXECS, DELETE_EXECS);
        idle_ms(1000);
    }
    row("delete of a box with 100,000 files, p50", "ms", middle(full_ms, rounds), "of an empty box",
        middle(empty_ms, rounds), AT_MOST, 5.0);
    row("exec elsewhere while they go, p50", "ms", middle(beside, rounds * DELETE_EXECS), "before",
        middle(quiet, rounds * DELETE_EXECS), AT_MOST, 2.0);
    row("... and its p99", "ms", rarest(beside, rounds * DELETE_EXECS), "before", rarest(quiet, rounds * DELETE_EXECS),
        AT_MOST, 1.5);
    box_delete(&client, id);
    client_close(&client);
}

/* ---- the same with a disk quota, by whatever method this machine picks ---- */

#define QUOTA ",\"limits\":{\"disk_mb\":1024}"

static void bench_quota(void) {
    create_row("disk quota: create + first exec, p50", QUOTA);
    cycle_row("disk quota: create + delete, one client", QUOTA, 0.2);
    if (turns(CREATE_ROUNDS) == CREATE_ROUNDS)
        idle_rows("disk quota: 1000 idle jails, memory each", QUOTA);
}

/* In a btrfs of our own. */
static void bench_store(void) {
    create_row("quota in a store: create + first exec, p50", QUOTA);
    cycle_row("quota in a store: create + delete", QUOTA, 0.2);
    idle_rows("quota in a store: 1000 idle jails", QUOTA);
}

/* ---- files ---- */

static double wrk(int to_port, const char *path) {
    char url[256], text[4096];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", to_port, path);
    char *argv[] = {"/usr/bin/taskset", "-c", "0", "/usr/bin/wrk", "-t1", "-c64", "-d2s", url, NULL};
    peer_output(argv, text, sizeof text);
    const char *rate = strstr(text, "Requests/sec:");
    if (!rate || strstr(text, "Non-2xx") || strstr(text, "Socket errors"))
        die("wrk %s: %s", url, text);
    return strtod(rate + 13, NULL);
}

static void file_box(struct client *client, char id[ID_BYTES]) {
    client_open(client, port);
    box_create(client, "", id);
}

static void bench_get4k(void) {
    enum { ROUNDS = 5 };
    const unsigned rounds = turns(ROUNDS);
    double ours[ROUNDS], peer[ROUNDS];
    struct client client;
    char id[ID_BYTES], path[128];
    file_box(&client, id);
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=small", id);
    transfer_put(port, path, 4096);
    for (unsigned round = 0; round < rounds; round++) {
        ours[round] = wrk(port, path);
        idle_ms(200);
        peer[round] = wrk(nginx_port, "/small");
        idle_ms(200);
    }
    row("GET of 4 KB, 64 connections", "/s", middle(ours, rounds), "nginx", middle(peer, rounds), AT_LEAST, 0.65);
    box_delete(&client, id);
    client_close(&client);
}

static void bench_large(void) {
    enum { ROUNDS = 9, MB = 200 };
    const uint64_t bytes = (uint64_t)MB << 20;
    double get[ROUNDS], put[ROUNDS], get_peer[ROUNDS], put_peer[ROUNDS];
    struct client client;
    char id[ID_BYTES], path[128];
    file_box(&client, id);
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=large", id);
    transfer_put(port, path, bytes);
    transfer_put(nginx_port, "/put/large", bytes);
    for (int round = 0; round < ROUNDS; round++) {
        get[round] = MB / transfer_get(port, path, bytes);
        idle_ms(50);
        get_peer[round] = MB / transfer_get(nginx_port, "/put/large", bytes);
        idle_ms(50);
        put[round] = MB / transfer_put(port, path, bytes);
        idle_ms(200);
        put_peer[round] = MB / transfer_put(nginx_port, "/put/large", bytes);
        idle_ms(200);
    }
    row("GET of 200 MB", "MB/s", middle(get, ROUNDS), "nginx sendfile", middle(get_peer, ROUNDS), AT_LEAST, 0.8);
    row("PUT of 200 MB", "MB/s", middle(put, ROUNDS), "nginx dav", middle(put_peer, ROUNDS), AT_LEAST, 0.8);
    box_delete(&client, id);
    client_close(&client);
}

/* ---- the audit log ---- */

/* Two daemons, with the log and without (its port stands for the peer's), in turns. */
static void bench_audit(void) {
    enum { ROUNDS = 5 };
    struct client with, without;
    char with_id[ID_BYTES], without_id[ID_BYTES], path[2][128];
    static double ours[EXEC_ROUNDS * EXEC_PER_ROUND], peer[EXEC_ROUNDS * EXEC_PER_ROUND];
    int own_port = port;
    file_box(&with, with_id);
    port = nginx_port;
    file_box(&without, without_id);
    port = own_port;
    exec_samples(&with, with_id, ours, 20);
    exec_samples(&without, without_id, peer, 20);
    for (size_t round = 0; round < EXEC_ROUNDS; round++) {
        exec_samples(&with, with_id, ours + round * EXEC_PER_ROUND, EXEC_PER_ROUND);
        idle_ms(20);
        exec_samples(&without, without_id, peer + round * EXEC_PER_ROUND, EXEC_PER_ROUND);
        idle_ms(20);
    }
    row("exec, p50, with the audit log", "us", middle(ours, EXEC_ROUNDS * EXEC_PER_ROUND), "without",
        middle(peer, EXEC_ROUNDS * EXEC_PER_ROUND), AT_MOST, 1.05);
    snprintf(path[0], sizeof path[0], "/v1/boxes/%s/files?path=small", with_id);
    snprintf(path[1], sizeof path[1], "/v1/boxes/%s/files?path=small", without_id);
    transfer_put(port, path[0], 4096);
    transfer_put(nginx_port, path[1], 4096);
    for (int round = 0; round < ROUNDS; round++) {
        ours[round] = wrk(port, path[0]);
        idle_ms(200);
        peer[round] = wrk(nginx_port, path[1]);
        idle_ms(200);
    }
    row("GET of 4 KB with the audit log", "/s", middle(ours, ROUNDS), "without", middle(peer, ROUNDS), AT_LEAST, 0.8);
    box_delete(&with, with_id);
    box_delete(&without, without_id);
    client_close(&with);
    client_close(&without);
}

/* ---- search ---- */

#define NEEDLE "quetzalcoatl_marker"
enum { GREP_FILES = 20000, GREP_BYTES = 10486, LIST_DIRS = 100, LIST_FILES = 1000, SEARCH_ROUNDS = 9 };

static void tree_file(int dir, const char *name, const void *data, size_t len) {
    int fd = openat(dir, name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        die("write %s: %s", name, strerror(errno));
    close(fd);
}

static int tree_dir(int parent, const char *name) {
    mkdirat(parent, name, 0755);
    int fd = openat(parent, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", name, strerror(errno));
    return fd;
}

/* Lines of words, 200 files a directory; one file in a thousand holds the needle. */
static void make_grep_tree(int top) {
    static char text[GREP_BYTES];
    unsigned seed = 1;
    int dir = -1;
    char name[64];
    for (int i = 0; i < GREP_FILES; i++) {
        if (i % 200 == 0) {
            if (dir >= 0)
                close(dir);
            snprintf(name, sizeof name, "d%03d", i / 200);
            dir = tree_dir(top, name);
        }
        for (size_t k = 0; k < sizeof text; k++) {
            seed = seed * 1103515245 + 12345;
            text[k] = k % 64 == 63 ? '\n' : (seed >> 16) % 6 == 0 ? ' ' : (char)('a' + (seed >> 18) % 26);
        }
        if (i % 1000 == 500)
            memcpy(text + 5000, NEEDLE, sizeof NEEDLE - 1);
        snprintf(name, sizeof name, "f%05d.txt", i);
        tree_file(dir, name, text, sizeof text);
    }
    close(dir);
}

static void make_list_tree(int top) {
    char name[64];
    for (int i = 0; i < LIST_DIRS; i++) {
        snprintf(name, sizeof name, "dir%03d", i);
        int dir = tree_dir(top, name);
        for (int k = 0; k < LIST_FILES; k++) {
            snprintf(name, sizeof name, "file%04d.%s", k, k % 2 ? "c" : "h");
            tree_file(dir, name, "", 0);
        }
        close(dir);
    }
}

static void make_tree(void) {
    int top = open(tree, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (top < 0)
        die("%s: %s", tree, strerror(errno));
    int grep = tree_dir(top, "grep"), list = tree_dir(top, "list");
    make_grep_tree(grep);
    make_list_tree(list);
    close(grep), close(list), close(top);
}

static unsigned count_of(const char *text, const char *word) {
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

/* Seconds of one request whose answer must hold `word` so many times (or once more: the root may be named). */
static double timed_call(struct client *client, const char *method, const char *path, const char *body,
                         const char *word, unsigned want) {
    char *answer;
    uint64_t start = now_ns();
    int status = client_call(client, &answer, method, path, body);
    double seconds = (double)(now_ns() - start) / 1e9;
    unsigned got = count_of(answer, word);
    if (status != 200 || got < want || got > want + 1)
        die("%s %s: %d, %u of %u, %.300s", method, path, status, got, want, answer);
    return seconds;
}

static void bench_search(void) {
    char id[ID_BYTES], members[1024], path[200], where[2][512];
    struct client client;
    make_tree();
    client_open(&client, port);
    snprintf(members, sizeof members, ",\"mounts\":[{\"source\":\"%s\",\"target\":\"/mnt/tree\",\"read_only\":true}]",
             tree);
    box_create(&client, members, id);
    snprintf(where[0], sizeof where[0], "%s/grep", tree);
    snprintf(where[1], sizeof where[1], "%s/list", tree);
    char *grep[] = {"/bin/grep", "-rnF", NEEDLE, where[0], NULL};
    char *rg[] = {"/usr/bin/rg", "--no-ignore", "--hidden", "-nF", NEEDLE, where[0], NULL};
    char *find[] = {"/usr/bin/find", where[1], "-mindepth", "1", "-printf", "%f %p %y %s %m %T@ %U %G\\n", NULL};
    char *find_c[] = {"/usr/bin/find", where[1], "-name", "*.c", NULL};
    double ours[4][SEARCH_ROUNDS], peer[4][SEARCH_ROUNDS];
    for (int round = -1; round < SEARCH_ROUNDS; round++) { /* the first warms the cache */
        int r = round < 0 ? 0 : round;
        snprintf(path, sizeof path, "/v1/boxes/%s/grep", id);
        ours[0][r] = 1e3 * timed_call(&client, "POST", path,
                                      "{\"pattern\":\"" NEEDLE "\",\"literal\":true,\"path\":\"/mnt/tree/grep\"}",
                                      "\"line\":", GREP_FILES / 1000);
        idle_ms(30);
        snprintf(path, sizeof path, "/v1/boxes/%s/tools/grep", id);
        ours[1][r] = 1e3 * timed_call(&client, "POST", path,
                                      "{\"pattern\":\"" NEEDLE "\",\"literal\":true,\"case_sensitive\":true,"
                                      "\"path\":\"/mnt/tree/grep\"}",
                                      "\"line\":", GREP_FILES / 1000);
        idle_ms(30);
        peer[0][r] = 1e3 * peer_output(grep, NULL, 0);
        idle_ms(30);
        peer[1][r] = 1e3 * peer_output(rg, NULL, 0);
        idle_ms(30);
        snprintf(path, sizeof path, "/v1/boxes/%s/list?path=/mnt/tree/list&depth=2&limit=1000000", id);
        ours[2][r] = 1e3 * timed_call(&client, "GET", path, NULL, "\"mtime\":", LIST_DIRS * LIST_FILES + LIST_DIRS);
        idle_ms(30);
        peer[2][r] = 1e3 * peer_output(find, NULL, 0);
        idle_ms(30);
        snprintf(path, sizeof path, "/v1/boxes/%s/glob", id);
        ours[3][r] = 1e3 * timed_call(&client, "POST", path,
                                      "{\"pattern\":\"**/*.c\",\"path\":\"/mnt/tree/list\",\"limit\":1000000}", ".c\"",
                                      LIST_DIRS * LIST_FILES / 2);
        idle_ms(30);
        peer[3][r] = 1e3 * peer_output(find_c, NULL, 0);
        idle_ms(30);
    }
    struct figure g = middle(ours[0], SEARCH_ROUNDS);
    row("grep literal, 20,000 files, 200 MB", "ms", g, "grep -r", middle(peer[0], SEARCH_ROUNDS), AT_MOST, 1.0);
    row("grep literal, 20,000 files, 200 MB", "ms", g, "ripgrep", middle(peer[1], SEARCH_ROUNDS), AT_MOST, 2.0);
    row("grep tool, the same", "ms", middle(ours[1], SEARCH_ROUNDS), "the grep verb", g, AT_MOST, 1.1);
    row("list of 100,000 entries", "ms", middle(ours[2], SEARCH_ROUNDS), "find -printf", middle(peer[2], SEARCH_ROUNDS),
        AT_MOST, 1.0);
    row("glob **/*.c over that tree", "ms", middle(ours[3], SEARCH_ROUNDS), "find -name",
        middle(peer[3], SEARCH_ROUNDS), AT_MOST, 1.0);
    box_delete(&client, id);
    client_close(&client);
}

static const struct {
    const char *name;
    void (*run)(void);
} rows[] = {{"exec", bench_exec},       {"create", bench_create},         {"run", bench_run},
            {"cycle", bench_cycle},     {"throughput", bench_throughput}, {"get4k", bench_get4k},
            {"large", bench_large},     {"audit", bench_audit},           {"search", bench_search},
            {"idle", bench_idle},       {"quota", bench_quota},           {"bombs", bench_bombs},
            {"adopt", bench_adopt},     {"delete", bench_delete},         {"snapshot", bench_snapshot},
            {"pool", bench_pool},       {"acquire", bench_acquire},       {"burst", bench_burst},
            {"ports", bench_ports},     {"serve", bench_serve},           {"mcp", bench_mcp},
            {"recall", bench_recall},   {"edits", bench_edits},           {"store", bench_store},
            {"skills", bench_skills},   {"remote", bench_remote},         {"machines", bench_machines},
            {"echo", bench_echo},       {"docker", bench_docker},         {"deerflow", bench_deerflow},
            {"network", bench_network}, {"reach", bench_reach},           {"answer", bench_answer}};

int main(int argc, char **argv) {
    if (argc < 6)
        die("usage: bench ROW PORT NGINX_PORT CUBBY TREE");
    port = (int)strtol(argv[2], NULL, 10), nginx_port = (int)strtol(argv[3], NULL, 10), cubby = argv[4], tree = argv[5];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!strcmp(rows[i].name, argv[1])) {
            rows[i].run();
            return missed ? 3 : 0;
        }
    }
    die("no row %s", argv[1]);
}
