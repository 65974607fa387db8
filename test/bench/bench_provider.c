/* Part of the bench: an agent that comes back to a box that runs. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { ACQUIRE_ROUNDS = 40, ACQUIRE_BURST = 50, ACQUIRE_MOST_US = 50 };

static void samples(struct client *client, const char *text, double *us) {
    for (int i = 0; i < ACQUIRE_BURST; i++) {
        char *answer;
        uint64_t begin = now_ns();
        client_send(client, text, strlen(text));
        int status = client_answer(client, &answer, NULL);
        us[i] = (double)(now_ns() - begin) / 1e3;
        if (status != 200)
            die("acquire: %d %s", status, answer);
    }
}

void bench_acquire(void) {
    static const char empty[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                      body[] = "{\"user\":\"bench\",\"thread\":\"live\"}";
    static double ours[ACQUIRE_ROUNDS * ACQUIRE_BURST], none[ACQUIRE_ROUNDS * ACQUIRE_BURST];
    struct client client;
    char text[256], id[ID_BYTES];
    client_open(&client, port);
    box_create(&client, ",\"user\":\"bench\",\"thread\":\"live\"", id);
    snprintf(text, sizeof text,
             "POST /v1/boxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             sizeof body - 1, body);
    samples(&client, text, ours); /* warm up */
    for (int round = 0; round < ACQUIRE_ROUNDS; round++) {
        samples(&client, text, ours + round * ACQUIRE_BURST);
        samples(&client, empty, none + round * ACQUIRE_BURST);
        idle_ms(10);
    }
    struct figure with = middle(ours, ACQUIRE_ROUNDS * ACQUIRE_BURST),
                  without = middle(none, ACQUIRE_ROUNDS * ACQUIRE_BURST);
    row("acquire of a live box over an empty request", "us", differing(&with, &without), "the bar, in us",
        exactly(ACQUIRE_MOST_US), AT_MOST, 1);
    snprintf(text, sizeof text, "  acquire %.1f us, GET /healthz %.1f us", with.mid, without.mid);
    note(text);
    box_delete(&client, id);
    client_close(&client);
}
