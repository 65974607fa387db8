/* Parts of the bench: boxes that come out of the pool, one at a time and many at once. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* ---- one box, taken when the pool is full ---- */

enum { POOL_ROUNDS = 60, POOL_REFILL_MS = 60 };

void bench_pool(void) {
    static double taken[POOL_ROUNDS], acquired[POOL_ROUNDS], first[POOL_ROUNDS], live[POOL_ROUNDS];
    struct client client;
    char id[ID_BYTES], other[ID_BYTES], request[512], text[160];
    client_open(&client, port);
    box_create(&client, "", id);
    exec_samples(&client, id, live, 20); /* warm up */
    for (int round = 0; round < POOL_ROUNDS; round++) {
        idle_ms(POOL_REFILL_MS);
        uint64_t begin = now_ns();
        box_create(&client, "", other);
        uint64_t half = now_ns();
        exec_once(&client, request, box_exec_request(request, sizeof request, other));
        taken[round] = (double)(now_ns() - begin) / 1e3;
        acquired[round] = (double)(half - begin) / 1e3;
        first[round] = taken[round] - acquired[round];
        box_delete(&client, other);
        idle_ms(POOL_REFILL_MS);
        exec_samples(&client, id, live + round, 1);
    }
    row("acquire from the pool + first exec, p50", "us", middle(taken, POOL_ROUNDS), "exec in a live box",
        middle(live, POOL_ROUNDS), AT_MOST, 1.4);
    snprintf(text, sizeof text, "  of it the acquire %.0f us, the first exec %.0f us", median(acquired, POOL_ROUNDS),
             median(first, POOL_ROUNDS));
    note(text);
    box_delete(&client, id);
    client_close(&client);
}

/* ---- a hundred at once ---- */

enum { BURST_BOXES = 100, BURST_CLIENTS = 16, BURST_ROUNDS = 5 };

static void burst_ask(struct client *client) {
    static const char text[] = "POST /v1/boxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                               "Content-Length: 18\r\n\r\n{\"backend\":\"jail\"}";
    client_send(client, text, sizeof text - 1);
}

static void burst_take(struct client *client, char ret_id[ID_BYTES]) {
    char *answer;
    int status = client_answer(client, &answer, NULL);
    const char *id = strstr(answer, "\"id\":");
    if (status != 201 || !id || !(id = strchr(id + 5, '"')))
        die("create: %d %.400s", status, answer);
    snprintf(ret_id, ID_BYTES, "%.16s", id + 1);
}

/* Seconds until the last of them is ready; each client asks for the next when it has one. */
static double burst(struct client clients[BURST_CLIENTS], char ids[BURST_BOXES][ID_BYTES]) {
    int epoll = epoll_create1(EPOLL_CLOEXEC), asked = 0, ready = 0;
    uint64_t begin = now_ns();
    for (; asked < BURST_CLIENTS; asked++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[asked]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[asked].fd, &event);
        burst_ask(&clients[asked]);
    }
    while (ready < BURST_BOXES) {
        struct epoll_event events[BURST_CLIENTS];
        int n = epoll_wait(epoll, events, BURST_CLIENTS, 30000);
        if (n <= 0)
            die("no answer for 30 seconds");
        for (int i = 0; i < n; i++) {
            burst_take(events[i].data.ptr, ids[ready++]);
            if (asked++ < BURST_BOXES)
                burst_ask(events[i].data.ptr);
        }
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    close(epoll);
    return seconds;
}

static double spawns(void) {
    uint64_t begin = now_ns();
    for (int i = 0; i < BURST_BOXES; i++)
        peer_run(peer_true);
    return (double)(now_ns() - begin) / 1e9;
}

/* The jails that wait in a state directory. */
static int burst_pooled(const char *state) {
    char path[8300];
    struct dirent *entry;
    int count = 0;
    snprintf(path, sizeof path, "%s.%s/boxes", tree, state);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s.%s/boxes/%s/jail", tree, state, entry->d_name);
        count += strncmp(entry->d_name, ".slot-", 6) == 0 && access(path, F_OK) == 0;
    }
    if (dir)
        closedir(dir);
    return count;
}

static void burst_row(const char *name, const char *state, int pooled) {
    struct client clients[BURST_CLIENTS];
    static char ids[BURST_BOXES][ID_BYTES];
    double ours[BURST_ROUNDS], peer[BURST_ROUNDS];
    char size[16];
    int at = port + 1 + (int)(now_ns() % 1000);
    snprintf(size, sizeof size, "%d", pooled);
    pid_t pid = daemon_start(at, state, (const char *const[]){"--pool-size", size, "--end-boxes", NULL});
    for (int i = 0; i < BURST_CLIENTS; i++)
        daemon_open(&clients[i], at);
    for (int round = 0; round < BURST_ROUNDS; round++) {
        for (int i = 0; burst_pooled(state) < pooled; i++) {
            if (i == 1200)
                die("the pool has %d of %d jails after a minute", burst_pooled(state), pooled);
            idle_ms(50);
        }
        idle_ms(500);
        ours[round] = burst(clients, ids) * 1e3;
        for (int i = 0; i < BURST_BOXES; i++)
            box_delete(&clients[0], ids[i]);
        idle_ms(1000);
        peer[round] = spawns() * 1e3;
    }
    row(name, "ms", middle(ours, BURST_ROUNDS), "100 posix_spawn", middle(peer, BURST_ROUNDS), AT_MOST, 5);
    for (int i = 0; i < BURST_CLIENTS; i++)
        client_close(&clients[i]);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

void bench_burst(void) {
    burst_row("100 boxes by 16 clients, default pool of 8", "burst", 8);
    burst_row("100 boxes by 16 clients, pool of 100", "burst100", 100);
}
