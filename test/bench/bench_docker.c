/* Part of the bench: boxes that are containers, beside the engine's own command line on the same engine. bench.sh has started
 * both; BENCH_IMAGE is the image, BENCH_LARGE a file of 200 MB, BENCH_ENGINE the engine, BENCH_DOCKER its command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { EXECS = 16, EXECS_OURS = 10, CREATES = 7, SHELVES = 12, SHELF_BURST = 25, COPIES = 3, MB = 200 };

#define DOCKER (char *)from_env("BENCH_DOCKER"), (char *)"-H", (char *)from_env("BENCH_ENGINE")

static const char *from_env(const char *name) {
    const char *value = getenv(name);
    if (!value || !*value)
        die("%s is not set", name);
    return value;
}

static void docker_create(struct client *client, const char *thread, char ret_id[ID_BYTES]) {
    char body[512], *answer;
    snprintf(body, sizeof body, "{\"backend\":\"docker\",\"template\":\"%s\",\"user\":\"bench\",\"thread\":\"%s\"}",
             from_env("BENCH_IMAGE"), thread);
    int status = client_call(client, &answer, "POST", "/v1/boxes", body);
    const char *id = strstr(answer, "\"id\":");
    if ((status != 201 && status != 200) || !id || !(id = strchr(id + 5, '"')))
        die("create: %d %.400s", status, answer);
    snprintf(ret_id, ID_BYTES, "%.16s", id + 1);
}

/* The engine's id of a box's container. */
static void container_of(const char *id, char *name, size_t size) {
    char label[64];
    snprintf(label, sizeof label, "label=cubby.box=%s", id);
    char *argv[] = {DOCKER, (char *)"ps", (char *)"-q", (char *)"--filter", label, NULL};
    peer_output(argv, name, size);
    name[strcspn(name, "\n")] = 0;
    if (!*name)
        die("box %s has no container", id);
}

static void exec_row(struct client *client, const char *id, const char *name) {
    static double ours[EXECS * EXECS_OURS], peer[EXECS];
    char *argv[] = {DOCKER, (char *)"exec", (char *)name, (char *)"true", NULL};
    char text[160];
    exec_samples(client, id, ours, EXECS_OURS); /* warm up */
    peer_run(argv);
    for (int round = 0; round < EXECS; round++) {
        exec_samples(client, id, ours + round * EXECS_OURS, EXECS_OURS);
        idle_ms(20);
        peer[round] = peer_time(argv) * 1e6;
        idle_ms(20);
    }
    struct figure own = middle(ours, EXECS * EXECS_OURS), theirs = middle(peer, EXECS);
    row("docker: exec in a live container box, p50", "us", own, "docker exec ... true", theirs, AT_MOST, 1.0 / 15);
    snprintf(text, sizeof text, "  that is %.0f times faster; the bar is 15", theirs.mid / own.mid);
    note(text);
}

static void create_row(struct client *client) {
    double ours[CREATES], peer[CREATES];
    char id[ID_BYTES], request[512], thread[32], name[32];
    for (int round = -1; round < CREATES; round++) { /* the first one warms up */
        snprintf(thread, sizeof thread, "create%d", round);
        snprintf(name, sizeof name, "bench-%d-%d", (int)getpid(), round + 1);
        char *argv[] = {DOCKER,
                        (char *)"run",
                        (char *)"--network",
                        (char *)"none",
                        (char *)"--name",
                        (char *)name,
                        (char *)from_env("BENCH_IMAGE"),
                        (char *)"true",
                        NULL};
        char *clear[] = {DOCKER, (char *)"rm", (char *)"-f", name, NULL};
        uint64_t begin = now_ns();
        docker_create(client, thread, id);
        exec_once(client, request, box_exec_request(request, sizeof request, id));
        double own = (double)(now_ns() - begin) / 1e6;
        box_delete(client, id);
        idle_ms(300);
        double theirs = peer_time(argv) * 1e3;
        peer_output(clear, NULL, 0);
        idle_ms(300);
        if (round >= 0)
            ours[round] = own, peer[round] = theirs;
    }
    row("docker: create + first exec, p50", "ms", middle(ours, CREATES), "docker run ... true", middle(peer, CREATES),
        AT_MOST, 1.15);
}

/* A box that its owner gave back, with its runner: taken again, and a command. The bar is that of an exec in a jail, and a
 * fifth. */
static void shelf_row(struct client *client) {
    static double ours[SHELVES * SHELF_BURST], peer[SHELVES * SHELF_BURST], live[SHELVES * SHELF_BURST];
    char id[ID_BYTES], path[64], request[512], text[160];
    docker_create(client, "shelf", id);
    snprintf(path, sizeof path, "/v1/boxes/%s/release", id);
    exec_samples(client, id, live, SHELF_BURST); /* warm up */
    for (int at = 0; at < SHELVES * SHELF_BURST; at += SHELF_BURST) {
        for (int i = at; i < at + SHELF_BURST; i++) {
            client_expect(client, 200, "POST", path, NULL);
            uint64_t begin = now_ns();
            docker_create(client, "shelf", id);
            exec_once(client, request, box_exec_request(request, sizeof request, id));
            ours[i] = (double)(now_ns() - begin) / 1e3;
        }
        idle_ms(20);
        exec_samples(client, id, live + at, SHELF_BURST);
        idle_ms(20);
        for (int i = at; i < at + SHELF_BURST; i++)
            peer[i] = peer_time(peer_true) * 1e6;
        idle_ms(20);
    }
    struct figure spawned = middle(peer, SHELVES * SHELF_BURST);
    double alone = median(live, SHELVES * SHELF_BURST);
    row("docker: from the warm shelf + exec, p50", "us", middle(ours, SHELVES * SHELF_BURST), "posix_spawn + wait",
        spawned, AT_MOST, 1.5 * 1.2);
    snprintf(text, sizeof text, "  an exec alone %.0f us, %.2f of posix_spawn", alone, alone / spawned.mid);
    note(text);
    box_delete(client, id);
}

static void copy_rows(const char *id, const char *name) {
    const uint64_t bytes = (uint64_t)MB << 20;
    double get[COPIES], put[COPIES], get_peer[COPIES], put_peer[COPIES];
    char path[128], inside[128], outside[8300];
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=large", id);
    snprintf(inside, sizeof inside, "%s:/workspace/copied", name);
    snprintf(outside, sizeof outside, "%s.copy", from_env("BENCH_LARGE"));
    char *in[] = {DOCKER, (char *)"cp", (char *)"-q", (char *)from_env("BENCH_LARGE"), inside, NULL};
    char *out[] = {DOCKER, (char *)"cp", (char *)"-q", inside, outside, NULL};
    transfer_put(port, path, bytes); /* warms up */
    for (int round = 0; round < COPIES; round++) {
        put[round] = MB / transfer_put(port, path, bytes);
        idle_ms(300);
        put_peer[round] = MB / peer_time(in);
        idle_ms(300);
        get[round] = MB / transfer_get(port, path, bytes);
        idle_ms(300);
        get_peer[round] = MB / peer_time(out);
        idle_ms(300);
    }
    unlink(outside);
    row("docker: 200 MB into a box", "MB/s", middle(put, COPIES), "docker cp", middle(put_peer, COPIES), AT_LEAST, 3);
    row("docker: 200 MB out of a box", "MB/s", middle(get, COPIES), "docker cp", middle(get_peer, COPIES), AT_LEAST, 3);
}

void bench_docker(void) {
    struct client client;
    char id[ID_BYTES], name[80];
    client_open(&client, port);
    docker_create(&client, "live", id);
    container_of(id, name, sizeof name);
    exec_row(&client, id, name);
    create_row(&client);
    shelf_row(&client);
    copy_rows(id, name);
    box_delete(&client, id);
    client_close(&client);
}
