/* Part of the bench: read_file over MCP beside the plain GET of the same file, one keep-alive connection, in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { MCP_ROUNDS = 40, MCP_CALLS = 100, MCP_FILE = 4096 };

#define MODERN                                                                                                         \
    "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"

static double mcp_time(struct client *client, const char *text, const char *want, size_t least) {
    char *body;
    size_t len;
    uint64_t start = now_ns();
    for (int i = 0; i < MCP_CALLS; i++) {
        client_send(client, text, strlen(text));
        int status = client_answer(client, &body, &len);
        if (status != 200 || len < least || !strstr(body, want))
            die("an answer of %d with %zu bytes: %.300s", status, len, body);
    }
    return (double)(now_ns() - start) / 1e3 / MCP_CALLS;
}

static char *mcp_post(const char *headers, const char *body) {
    char *text;
    if (asprintf(
            &text,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nCubby-Thread: bench-mcp\r\n%sContent-Length: %zu\r\n\r\n%s",
            headers, strlen(body), body) < 0)
        die("no memory");
    return text;
}

static void mcp_begin(struct client *client, char *headers, size_t size) {
    char *text =
        mcp_post("", "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                     "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}");
    char *body, *session;
    size_t len;
    client_send(client, text, strlen(text));
    if (client_answer(client, &body, &len) != 200 || !(session = strstr(client->buffer, "Mcp-Session-Id: ")))
        die("no session: %.300s", client->buffer);
    snprintf(headers, size, "%.*s\r\n", (int)strcspn(session, "\r"), session);
    free(text);
}

void bench_mcp(void) {
    static double times[3][MCP_ROUNDS];
    struct client client;
    char id[ID_BYTES], path[128], headers[256], content[MCP_FILE + 1], *body;
    client_open(&client, port);
    box_create(&client, ",\"thread\":\"bench-mcp\"", id);
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=small.txt", id);
    for (int i = 0; i < MCP_FILE; i++)
        content[i] = i % 64 == 63 ? '\n' : 'x';
    content[MCP_FILE] = 0;
    char *put;
    size_t len;
    if (asprintf(&put, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, MCP_FILE, content) <
        0)
        die("no memory");
    client_send(&client, put, strlen(put));
    if (client_answer(&client, &body, &len) != 201)
        die("PUT: %s", body);
    free(put);
    idle_ms(1500); /* a file that was written just now is looked at twice */
    mcp_begin(&client, headers, sizeof headers);
    char *requests[3];
    requests[1] = mcp_post(headers, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                                    "\"read_file\",\"arguments\":{\"path\":\"/workspace/small.txt\"}}}");
    requests[2] = mcp_post("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read_file\r\n",
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read_file\","
                           "\"arguments\":{\"path\":\"/workspace/small.txt\"},\"_meta\":" MODERN "}}");
    if (asprintf(&requests[0], "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) < 0)
        die("no memory");
    for (int round = -2; round < MCP_ROUNDS; round++) /* the first ones warm up */
        for (int i = 0; i < 3; i++) {
            double us = mcp_time(&client, requests[i], i ? "\"result\"" : "xxx", MCP_FILE);
            if (round >= 0)
                times[i][round] = us;
        }
    struct figure plain = middle(times[0], MCP_ROUNDS);
    row("read_file of 4 KB over MCP, 2025-11-25", "us", middle(times[1], MCP_ROUNDS), "GET of the file", plain, AT_MOST,
        1.5);
    row("read_file of 4 KB over MCP, 2026-07-28", "us", middle(times[2], MCP_ROUNDS), "GET of the file", plain, AT_MOST,
        1.5);
    for (int i = 0; i < 3; i++)
        free(requests[i]);
    box_delete(&client, id);
    client_close(&client);
}
