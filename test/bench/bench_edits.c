/* Part of the bench: 64 str_replace at once on one file, each on a connection of its own. All must be applied; and as they
 * take turns, that may cost no more than one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { EDITS = 64, EDIT_ROUNDS = 7 };

static struct client clients[EDITS];

static void edit_write(const char *id) {
    char path[64], body[4096];
    snprintf(path, sizeof path, "/v1/boxes/%s/tools/write_file", id);
    int len = snprintf(body, sizeof body, "{\"path\":\"edits.txt\",\"content\":\"");
    for (int i = 0; i < EDITS; i++)
        len += snprintf(body + len, sizeof body - (size_t)len, "line-%d-end\\n", i);
    snprintf(body + len, sizeof body - (size_t)len, "\"}");
    client_expect(&clients[0], 200, "POST", path, body);
}

static void edit_send(struct client *client, const char *id, int number) {
    char body[160], text[512];
    snprintf(body, sizeof body, "{\"path\":\"edits.txt\",\"old_str\":\"line-%d-end\",\"new_str\":\"done-%d-end\"}",
             number, number);
    int len = snprintf(text, sizeof text,
                       "POST /v1/boxes/%s/tools/str_replace HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                       "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       id, strlen(body), body);
    client_send(client, text, (size_t)len);
}

static int edit_answered(struct client *client) {
    char *body;
    size_t len;
    return client_answer(client, &body, &len) == 200 && strstr(body, "\"text\":\"OK\"");
}

/* How many of the lines are done. */
static int edit_count(const char *id) {
    char path[96], *body;
    int count = 0;
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=edits.txt", id);
    if (client_call(&clients[0], &body, "GET", path, NULL) != 200)
        die("GET: %s", body);
    for (const char *at = body; (at = strstr(at, "done-")); at++)
        count++;
    return count;
}

void bench_edits(void) {
    static double at_once[EDIT_ROUNDS], in_turn[EDIT_ROUNDS];
    char id[ID_BYTES];
    int answered = 0, applied = 0;
    for (int i = 0; i < EDITS; i++)
        client_open(&clients[i], port);
    box_create(&clients[0], "", id);
    for (int round = -1; round < EDIT_ROUNDS; round++) { /* the first one warms up */
        edit_write(id);
        uint64_t start = now_ns();
        for (int i = 0; i < EDITS; i++)
            edit_send(&clients[i], id, i);
        for (int i = 0; i < EDITS; i++)
            answered += edit_answered(&clients[i]);
        at_once[round < 0 ? 0 : round] = (double)(now_ns() - start) / 1e6;
        applied += edit_count(id);
        edit_write(id);
        start = now_ns();
        for (int i = 0; i < EDITS; i++) {
            edit_send(&clients[0], id, i);
            answered += edit_answered(&clients[0]);
        }
        in_turn[round < 0 ? 0 : round] = (double)(now_ns() - start) / 1e6;
        applied += edit_count(id);
    }
    row("str_replace on one file, 64 at once: applied", "", exactly(applied), "all of them",
        exactly(2.0 * EDITS * (EDIT_ROUNDS + 1)), AT_LEAST, 1.0);
    if (answered != applied)
        die("%d edits were answered OK, %d are in the file", answered, applied);
    row("str_replace on one file, 64 at once", "ms", middle(at_once, EDIT_ROUNDS), "one after another",
        middle(in_turn, EDIT_ROUNDS), AT_MOST, 1.5);
    box_delete(&clients[0], id);
    for (int i = 0; i < EDITS; i++)
        client_close(&clients[i]);
}
