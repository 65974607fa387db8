/* Part of the bench: a range out of a kept result of 100 MB beside the GET of a 4 KB file, one keep-alive connection, in turns.
 * The text has characters of more than one byte: a range of them is not found by counting bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { RECALL_ROUNDS = 40, RECALL_CALLS = 50, RECALL_FILE = 4096, RECALL_RANGES = 97 };

static double recall_time(struct client *client, const char *const *requests, size_t count, const char *want,
                          size_t least) {
    char *body;
    size_t len;
    uint64_t start = now_ns();
    for (size_t i = 0; i < RECALL_CALLS; i++) {
        const char *text = requests[i * 31 % count];
        client_send(client, text, strlen(text));
        int status = client_answer(client, &body, &len);
        if (status != 200 || len < least || !strstr(body, want))
            die("an answer of %d with %zu bytes: %.300s", status, len, body);
    }
    return (double)(now_ns() - start) / 1e3 / RECALL_CALLS;
}

static char *recall_post(const char *box, const char *tool, const char *body) {
    char *text;
    if (asprintf(&text, "POST /v1/boxes/%s/tools/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", box,
                 tool, strlen(body), body) < 0)
        die("no memory");
    return text;
}

/* A result of 100 MB; its id. */
static void recall_keep(struct client *client, const char *box, char *id, size_t size) {
    char *text = recall_post(box, "bash",
                             "{\"command\":\"yes 'twenty characters: \\u00e9\\u20ac and some more to make it a line' | "
                             "head -c 104857600\"}"),
         *body, *at;
    size_t len;
    client_send(client, text, strlen(text));
    if (client_answer(client, &body, &len) != 200 || !(at = strstr(body, "[offload:")))
        die("nothing was kept: %.300s", body);
    snprintf(id, size, "%.19s", at + 9);
    free(text);
}

void bench_recall(void) {
    static double times[3][RECALL_ROUNDS];
    struct client client;
    char box[ID_BYTES], id[32], path[128], args[128], content[RECALL_FILE + 1], *get, *put, *body;
    const char *ranges[RECALL_RANGES], *lines[RECALL_RANGES];
    size_t len;
    client_open(&client, port);
    box_create(&client, "", box);
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=small.txt", box);
    memset(content, 'x', RECALL_FILE);
    content[RECALL_FILE] = 0;
    if (asprintf(&put, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, RECALL_FILE,
                 content) < 0 ||
        asprintf(&get, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) < 0)
        die("no memory");
    client_send(&client, put, strlen(put));
    if (client_answer(&client, &body, &len) != 201)
        die("PUT: %s", body);
    free(put);
    recall_keep(&client, box, id, sizeof id);
    for (int i = 0; i < RECALL_RANGES; i++) {
        snprintf(args, sizeof args, "{\"id\":\"%s\",\"offset\":%d}", id, 1000000 * i + 12345);
        ranges[i] = recall_post(box, "recall", args);
        snprintf(args, sizeof args, "{\"id\":\"%s\",\"start_line\":%d,\"end_line\":%d}", id, 15000 * i + 77,
                 15000 * i + 96);
        lines[i] = recall_post(box, "recall", args);
    }
    for (int round = -2; round < RECALL_ROUNDS; round++) { /* the first ones warm up */
        const double us[] = {recall_time(&client, (const char *const *)&get, 1, "xxx", RECALL_FILE),
                             recall_time(&client, ranges, RECALL_RANGES, "characters: ", 8000),
                             recall_time(&client, lines, RECALL_RANGES, "characters: ", 1000)};
        for (int i = 0; i < 3 && round >= 0; i++)
            times[i][round] = us[i];
    }
    struct figure plain = middle(times[0], RECALL_ROUNDS);
    row("recall of 8,000 characters out of 100 MB", "us", middle(times[1], RECALL_ROUNDS), "GET of a 4 KB file", plain,
        AT_MOST, 5);
    row("recall of 20 lines out of 100 MB", "us", middle(times[2], RECALL_ROUNDS), "GET of a 4 KB file", plain, AT_MOST,
        5);
    for (int i = 0; i < RECALL_RANGES; i++) {
        free((char *)ranges[i]);
        free((char *)lines[i]);
    }
    free(get);
    box_delete(&client, box);
    client_close(&client);
}
