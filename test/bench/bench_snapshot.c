/* Part of the bench: snapshots and forks. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Boxes with many files take seconds to fill; of the others there can be more, for a steadier middle. */
enum { SNAPSHOT_FEW = 12, SNAPSHOT_MANY = 3, SNAPSHOT_CREATES = 25, SNAPSHOT_LIVE = 3 };

/* A number after "key": in the last answer. */
static double answer_number(const char *answer, const char *key) {
    char text[64];
    snprintf(text, sizeof text, "\"%s\":", key);
    const char *at = strstr(answer, text);
    return at ? strtod(at + strlen(text), NULL) : -1;
}

static void box_fill(struct client *client, const char *id, unsigned files) {
    char path[64], body[256];
    snprintf(path, sizeof path, "/v1/boxes/%s/exec", id);
    snprintf(
        body, sizeof body,
        "{\"command\":\"for ((d = 0; d < %u; d++)); do mkdir d$d; for ((f = 0; f < 1000; f++)); do : > d$d/$f; done; "
        "done\",\"timeout_ms\":600000}",
        files / 1000);
    client_expect(client, 200, "POST", path, body);
}

/* Milliseconds of a snapshot and of a fork of it; the box holds so many files in its own layer, and idles. */
static void snapshot_once(struct client *client, unsigned files, double *ret_snapshot, double *ret_fork,
                          double *ret_exec) {
    char id[ID_BYTES], fork_id[ID_BYTES], path[64], request[512], *answer;
    box_create(client, "", id);
    box_fill(client, id, files);
    idle_ms(500);
    snprintf(path, sizeof path, "/v1/boxes/%s/snapshots", id);
    uint64_t begin = now_ns();
    if (client_call(client, &answer, "POST", path, "{\"name\":\"s\"}") != 201 || !strstr(answer, "\"layer\""))
        die("snapshot: %.400s", answer);
    uint64_t half = now_ns();
    snprintf(path, sizeof path, "/v1/boxes/%s/fork", id);
    if (client_call(client, &answer, "POST", path, "{\"snapshot\":\"s\"}") != 201)
        die("fork: %.400s", answer);
    uint64_t end = now_ns();
    snprintf(fork_id, sizeof fork_id, "%.16s", strstr(answer, "\"id\":\"") + 6);
    exec_once(client, request, box_exec_request(request, sizeof request, fork_id));
    *ret_snapshot = (double)(half - begin) / 1e6;
    *ret_fork = (double)(end - half) / 1e6;
    *ret_exec = (double)(now_ns() - end) / 1e6;
    box_delete(client, fork_id);
    box_delete(client, id);
    idle_ms(200);
}

static void create_samples(struct client *client, double *ms) {
    char ids[SNAPSHOT_CREATES][ID_BYTES];
    for (int i = 0; i < SNAPSHOT_CREATES; i++) {
        idle_ms(20);
        uint64_t begin = now_ns();
        box_create(client, "", ids[i]);
        ms[i] = (double)(now_ns() - begin) / 1e6;
    }
    for (int i = 0; i < SNAPSHOT_CREATES; i++)
        box_delete(client, ids[i]);
}

/* Seconds that `cp -a` takes for a box's own files, on the same disk. */
static double copy_seconds(const char *id) {
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/../state/boxes/%s/fs/upper", tree, id);
    snprintf(to, sizeof to, "%s/../copied", tree);
    uint64_t begin = now_ns();
    for (int turn = 0; turn < 2; turn++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (turn)
                execlp("rm", "rm", "-rf", to, NULL);
            execlp("cp", "cp", "-a", from, to, NULL);
            _exit(127);
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            die("cp -a %s", from);
        if (turn == 0)
            begin = now_ns() - begin;
    }
    return (double)begin / 1e9;
}

/* The longest of all, and each of them. */
static struct figure most(const double *values, size_t count) {
    struct figure figure = middle(values, count);
    for (size_t i = 0; i < count; i++)
        figure.mid = values[i] > figure.mid ? values[i] : figure.mid;
    return figure;
}

/* A box in which a program appends to a file without end. */
static void snapshot_running(struct client *client, unsigned files, double bar_ms, bool whole) {
    char id[ID_BYTES], path[64], text[200], *answer;
    double pauses[SNAPSHOT_LIVE], took[SNAPSHOT_LIVE], copied[SNAPSHOT_LIVE] = {0};
    box_create(client, "", id);
    box_fill(client, id, files);
    snprintf(path, sizeof path, "/v1/boxes/%s/processes", id);
    client_expect(client, 201, "POST", path, "{\"command\":\"while :; do echo line >> log; done\"}");
    snprintf(path, sizeof path, "/v1/boxes/%s/snapshots", id);
    for (int turn = 0; turn < SNAPSHOT_LIVE; turn++) {
        uint64_t begin = now_ns();
        if (client_call(client, &answer, "POST", path, "{}") != 201 || !strstr(answer, "\"copy\""))
            die("snapshot: %.400s", answer);
        took[turn] = (double)(now_ns() - begin) / 1e9;
        pauses[turn] = answer_number(answer, "pause_ms");
        copied[turn] = whole ? copy_seconds(id) : 0;
    }
    snprintf(text, sizeof text, "longest stop, snapshot of %u files, one writer", files);
    row(text, "ms", most(pauses, SNAPSHOT_LIVE), "the bar", exactly(bar_ms), AT_MOST, 1.0);
    if (whole)
        row("live snapshot of 100,000 small files", "s", middle(took, SNAPSHOT_LIVE), "cp -a of them",
            middle(copied, SNAPSHOT_LIVE), AT_MOST, 1.0);
    box_delete(client, id);
}

/* Medians over so many boxes. */
struct snapshot_times {
    struct figure snapshot, fork, both, exec;
};

static struct snapshot_times snapshot_many(struct client *client, unsigned files, int rounds) {
    double snapshot[SNAPSHOT_FEW], fork[SNAPSHOT_FEW], both[SNAPSHOT_FEW], exec[SNAPSHOT_FEW];
    for (int i = 0; i < rounds; i++) {
        snapshot_once(client, files, &snapshot[i], &fork[i], &exec[i]);
        both[i] = snapshot[i] + fork[i];
    }
    return (struct snapshot_times){.snapshot = middle(snapshot, (size_t)rounds),
                                   .fork = middle(fork, (size_t)rounds),
                                   .both = middle(both, (size_t)rounds),
                                   .exec = middle(exec, (size_t)rounds)};
}

void bench_snapshot(void) {
    double creates[SNAPSHOT_CREATES];
    struct client client;
    char text[200];
    client_open(&client, port);
    create_samples(&client, creates);
    struct figure create = middle(creates, SNAPSHOT_CREATES);
    struct snapshot_times few = snapshot_many(&client, 1000, SNAPSHOT_FEW);
    row("snapshot + fork, idle box of 1,000 files", "ms", few.both, "creating an empty box", create, AT_MOST, 4.0);
    snapshot_running(&client, 1000, 10, false);
    if (turns(SNAPSHOT_FEW) < SNAPSHOT_FEW) {
        client_close(&client);
        return;
    }
    struct snapshot_times many = snapshot_many(&client, 100000, SNAPSHOT_MANY);
    row("snapshot + fork, idle box of 100,000 files", "ms", many.both, "creating an empty box", create, AT_MOST, 4.0);
    row("snapshot + fork, 100,000 files", "ms", many.both, "of 1,000 files", few.both, AT_MOST, 1.3);
    snprintf(text, sizeof text,
             "  of it the snapshot %.2f ms, the fork %.2f ms; its first exec, which starts it, %.2f ms",
             many.snapshot.mid, many.fork.mid, many.exec.mid);
    note(text);
    snapshot_running(&client, 100000, 50, true);
    client_close(&client);
}
