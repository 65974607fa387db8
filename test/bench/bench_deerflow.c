/* Part of the bench: DeerFlow's way to a sandbox beside our own, a command in its shell beside a fresh shell, and what a
 * sandbox that waits for the next turn of its thread takes. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { DEER_ROUNDS = 8, DEER_BURST = 20, DEER_EXECS = 400, DEER_IDLE = 300 };

static void sandbox_create(struct client *client, unsigned number, char id[ID_BYTES]) {
    char body[300];
    snprintf(id, ID_BYTES, "%016x", number);
    snprintf(body, sizeof body,
             "{\"sandbox_id\":\"%.16s\",\"thread_id\":\"t%u\",\"user_id\":\"default\",\"include_legacy_skills\":false}",
             id, number);
    client_expect(client, 200, "POST", "/api/sandboxes", body);
}

static void sandbox_delete(struct client *client, const char *id) {
    char path[100];
    snprintf(path, sizeof path, "/api/sandboxes/%.16s", id);
    client_expect(client, 200, "DELETE", path, NULL);
}

static void sandbox_ready(struct client *client, const char *id) {
    char path[100];
    snprintf(path, sizeof path, "/aio/%.16s/v1/sandbox", id);
    client_expect(client, 200, "GET", path, NULL);
}

static void shell_exec(struct client *client, const char *id) {
    char path[100], *answer;
    snprintf(path, sizeof path, "/aio/%.16s/v1/shell/exec", id);
    int status = client_call(client, &answer, "POST", path, "{\"command\":\"echo x\",\"no_change_timeout\":600}");
    if (status != 200 || !strstr(answer, "\"exit_code\":0"))
        die("shell exec: %d %.300s", status, answer);
}

/* In turns; bursts without a pause inside: what is kept ready must be made anew meanwhile. One of its kind comes before each
 * burst, because what is kept ready is like the last that was asked for. */
static void cold_start(struct client *client) {
    static double ours[DEER_ROUNDS * DEER_BURST], peer[DEER_ROUNDS * DEER_BURST];
    char ids[DEER_BURST][ID_BYTES], request[512];
    for (unsigned round = 0; round < DEER_ROUNDS; round++) {
        sandbox_create(client, 100000, ids[0]);
        sandbox_delete(client, ids[0]);
        idle_ms(300);
        for (unsigned i = 0; i < DEER_BURST; i++) {
            uint64_t start = now_ns();
            sandbox_create(client, 1 + round * DEER_BURST + i, ids[i]);
            sandbox_ready(client, ids[i]);
            shell_exec(client, ids[i]);
            ours[round * DEER_BURST + i] = (double)(now_ns() - start) / 1e6;
        }
        for (unsigned i = 0; i < DEER_BURST; i++)
            sandbox_delete(client, ids[i]);
        box_create(client, "", ids[0]);
        box_delete(client, ids[0]);
        idle_ms(300);
        for (unsigned i = 0; i < DEER_BURST; i++) {
            uint64_t start = now_ns();
            box_create(client, "", ids[i]);
            exec_once(client, request, box_exec_request(request, sizeof request, ids[i]));
            peer[round * DEER_BURST + i] = (double)(now_ns() - start) / 1e6;
        }
        for (unsigned i = 0; i < DEER_BURST; i++)
            box_delete(client, ids[i]);
    }
    row("DeerFlow: provision, ready, first shell exec", "ms", middle(ours, DEER_ROUNDS * DEER_BURST),
        "our create + first exec", middle(peer, DEER_ROUNDS * DEER_BURST), AT_MOST, 2.5);
}

static void live_shell(struct client *client) {
    static double ours[DEER_EXECS], peer[DEER_EXECS];
    char id[ID_BYTES];
    char *bash[] = {"/bin/bash", "-c", "echo x", NULL};
    sandbox_create(client, 1, id);
    for (unsigned i = 0; i < 20; i++) /* warm up */
        shell_exec(client, id);
    for (unsigned i = 0; i < DEER_EXECS; i += 25) {
        for (unsigned k = i; k < i + 25; k++) {
            uint64_t start = now_ns();
            shell_exec(client, id);
            ours[k] = (double)(now_ns() - start) / 1e3;
        }
        idle_ms(20);
        for (unsigned k = i; k < i + 25; k++)
            peer[k] = peer_output(bash, NULL, 0) * 1e6;
        idle_ms(20);
    }
    row("AIO shell exec 'echo x' in a live session, p50", "us", middle(ours, DEER_EXECS), "posix_spawn of bash -c",
        middle(peer, DEER_EXECS), AT_MOST, 0.5);
    sandbox_delete(client, id);
}

/* What so many take, each provisioned and found ready; with_shell: and having run a command in its shell, which lives. */
static double idle_kb(struct client *client, bool with_shell) {
    static char ids[DEER_IDLE][ID_BYTES];
    idle_ms(500);
    double memory = meminfo_kb("MemAvailable");
    for (unsigned i = 0; i < DEER_IDLE; i++) {
        sandbox_create(client, 1 + i, ids[i]);
        sandbox_ready(client, ids[i]);
        if (with_shell)
            shell_exec(client, ids[i]);
    }
    idle_ms(1500);
    memory -= meminfo_kb("MemAvailable");
    for (unsigned i = 0; i < DEER_IDLE; i++)
        sandbox_delete(client, ids[i]);
    return memory / DEER_IDLE;
}

void bench_deerflow(void) {
    struct client client;
    char text[200];
    client_open(&client, port);
    cold_start(&client);
    live_shell(&client);
    /* The first of them: later ones find memory that the kernel has not taken back, and seem smaller than they are. */
    row("an idle sandbox of DeerFlow with its shell, memory", "KB", exactly(idle_kb(&client, true)), "bar of a jail",
        exactly(1024), AT_MOST, 1);
    idle_ms(2000);
    snprintf(text, sizeof text, "  the same once more: %.0f KB; no command run: %.0f KB", idle_kb(&client, true),
             idle_kb(&client, false));
    note(text);
    client_close(&client);
}
