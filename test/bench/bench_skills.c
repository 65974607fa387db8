/* Part of the bench: skills. A ZIP uploaded against unzip on the same file system, the merged list against ls of two
 * directories, a command on a skill against one that is just started, and what skills add to a box's creation. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

enum {
    ZIPS = 9,
    ZIP_FILES = 1000,
    ZIP_FILE_BYTES = 10000,
    LISTED = 500,
    LIST_ROUNDS = 60,
    EXECUTES = 300,
    CREATES = 40,
    REFILL_MS = 80
};

static char *sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *sh(const char *format, ...) {
    static char text[2000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return text;
}

static void shell(char *command) {
    char *argv[] = {"/bin/sh", "-c", command, NULL};
    peer_run(argv);
}

/* Text that packs as text does. */
static void write_text(const char *path, size_t len, unsigned *seed) {
    static const char *const words[] = {"skill", "agent",  "the",   "upload", "of",   "and",  "layer", "box",
                                        "0x",    "return", "value", "=",      "self", "None", "\n",    "    "};
    FILE *file = fopen(path, "we");
    if (!file)
        die("%s: %s", path, strerror(errno));
    for (size_t at = 0; at < len;) {
        *seed = *seed * 1664525 + 1013904223;
        at += (size_t)fprintf(file, *seed & 0x10000 ? "%s " : "%s%x ", words[*seed >> 28], *seed >> 12 & 0xffff);
    }
    fclose(file);
}

/* tree/zips/sN.zip: one skill sN each, files in ten directories. */
static void make_zips(void) {
    char path[1200];
    unsigned seed = 1;
    shell(sh("mkdir -p '%s/zips'", tree));
    for (int i = 0; i < ZIPS; i++) {
        shell(sh("cd '%s/zips' && mkdir -p s%d/d0 s%d/d1 s%d/d2 s%d/d3 s%d/d4 s%d/d5 s%d/d6 s%d/d7 s%d/d8 s%d/d9", tree,
                 i, i, i, i, i, i, i, i, i, i));
        for (int k = 0; k < ZIP_FILES; k++) {
            snprintf(path, sizeof path, "%s/zips/s%d/d%d/%d.py", tree, i, k % 10, k);
            write_text(path, ZIP_FILE_BYTES, &seed);
        }
        shell(sh("cd '%s/zips' && zip -qr s%d.zip s%d && rm -r s%d", tree, i, i, i));
    }
    sync();
}

/* tree/zips/NAME.zip: many small skills NAME0... */
static void make_many(const char *name) {
    shell(sh(
        "cd '%s/zips' && mkdir %s && cd %s && i=0 && while [ $i -lt %d ]; do mkdir %s$i && printf -- '---\\nname: "
        "%s%%d\\ndescription: skill number %%d\\n---\\n' $i $i >%s$i/SKILL.md; i=$((i+1)); done && zip -qr ../%s.zip . && "
        "cd .. && mv %s '%s/%s'",
        tree, name, name, LISTED, name, name, name, name, name, tree, name));
}

/* Seconds of one upload, with the answer. */
static double upload(struct client *client, const char *name, const char *query) {
    char path[1200], *answer;
    snprintf(path, sizeof path, "%s/zips/%s.zip", tree, name);
    FILE *file = fopen(path, "re");
    struct stat status;
    if (!file || fstat(fileno(file), &status) < 0)
        die("%s: %s", path, strerror(errno));
    size_t size = (size_t)status.st_size;
    char *text = malloc(size + 1000);
    static const char part[] = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"s.zip\"\r\n\r\n";
    static const char end[] = "\r\n--b--\r\n";
    int len = snprintf(text, 1000,
                       "POST /v1/skills/bench/bench/upload%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                       "multipart/form-data; boundary=b\r\nContent-Length: %zu\r\n\r\n%s",
                       query, sizeof part - 1 + size + sizeof end - 1, part);
    if (fread(text + len, 1, size, file) != size)
        die("%s is short", path);
    fclose(file);
    memcpy(text + len + size, end, sizeof end - 1);
    uint64_t start = now_ns();
    client_send(client, text, (size_t)len + size + sizeof end - 1);
    int got = client_answer(client, &answer, NULL);
    double seconds = (double)(now_ns() - start) / 1e9;
    if (got != 200 || !strstr(answer, "\"success\"") || strstr(answer, "\"pending\""))
        die("upload: %d %.300s", got, answer);
    free(text);
    return seconds;
}

static void upload_rows(struct client *client) {
    double fresh[ZIPS], base[ZIPS], peer[ZIPS], mb = ZIP_FILES * ZIP_FILE_BYTES / 1e6;
    char name[32], path[1200], target[1200];
    snprintf(target, sizeof target, "%s/unzipped", tree);
    for (int i = 0; i < ZIPS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        snprintf(path, sizeof path, "%s/zips/%s.zip", tree, name);
        char *argv[] = {"/usr/bin/unzip", "-q", path, "-d", target, NULL};
        fresh[i] = mb / upload(client, name, "");
        idle_ms(100);
        peer[i] = mb / peer_time(argv);
        idle_ms(100);
        base[i] = mb / upload(client, name, "?scope=baseline");
        idle_ms(100);
    }
    struct figure floor = middle(peer + 1, ZIPS - 1); /* the first ones warm up: the box starts */
    row("upload a ZIP, 1,000 files, 10 MB, to a user", "MB/s", middle(fresh + 1, ZIPS - 1), "unzip", floor, AT_LEAST,
        0.7);
    row("the same to an agent's baseline", "MB/s", middle(base + 1, ZIPS - 1), "unzip", floor, AT_LEAST, 0.7);
}

static void list_row(struct client *client) {
    static double ours[LIST_ROUNDS], peer[LIST_ROUNDS];
    char left[1200], right[1200], *answer, text[1 << 16];
    make_many("own"), make_many("base");
    upload(client, "own", "");
    upload(client, "base", "?scope=baseline");
    snprintf(left, sizeof left, "%s/own", tree);
    snprintf(right, sizeof right, "%s/base", tree);
    char *argv[] = {"/bin/ls", left, right, NULL};
    for (int i = -2; i < LIST_ROUNDS; i++) { /* the first one reads what the skills say of themselves */
        uint64_t start = now_ns();
        int got = client_call(client, &answer, "GET", "/v1/skills/bench/bench/list", NULL);
        ours[i < 0 ? 0 : i] = (double)(now_ns() - start) / 1e6;
        if (got != 200 || !strstr(answer, "skill number 499") || !strstr(answer, "\"base499\"") ||
            !strstr(answer, "\"own499\""))
            die("list: %d %.300s", got, answer);
        idle_ms(2);
        peer[i < 0 ? 0 : i] = peer_output(argv, text, sizeof text - 1) * 1e3;
        idle_ms(2);
    }
    row("list 1,000 skills merged, HTTP, p50", "ms", middle(ours, LIST_ROUNDS), "ls of two directories",
        middle(peer, LIST_ROUNDS), AT_MOST, 3);
}

static void execute_row(struct client *client) {
    static double ours[EXECUTES], peer[EXECUTES];
    char *argv[] = {"/bin/echo", NULL}, *answer, text[64];
    for (int i = -20; i < EXECUTES; i++) {
        uint64_t start = now_ns();
        int got = client_call(client, &answer, "POST", "/v1/skills/bench/bench/own1/execute?command=echo", NULL);
        ours[i < 0 ? 0 : i] = (double)(now_ns() - start) / 1e3;
        if (got != 200 || !strstr(answer, "\"exit_code\":0"))
            die("execute: %d %.300s", got, answer);
        idle_ms(1);
        peer[i < 0 ? 0 : i] = peer_output(argv, text, sizeof text - 1) * 1e6;
        idle_ms(1);
    }
    row("execute echo on a skill, HTTP, p50", "us", middle(ours, EXECUTES), "posix_spawn + wait",
        middle(peer, EXECUTES), AT_MOST, 1.5);
}

/* A box with all that was made public above, some 500 skills in a dozen layers, and one without: taken from a full pool. */
static void create_row(struct client *client) {
    static double with[CREATES], without[CREATES];
    char id[ID_BYTES], text[160];
    for (int i = -2; i < 2 * CREATES; i++) {
        bool skills = i & 1;
        idle_ms(REFILL_MS);
        uint64_t start = now_ns();
        box_create(client, skills ? ",\"user\":\"creator\",\"agent\":\"bench\"" : ",\"user\":\"creator\"", id);
        (skills ? with : without)[i < 0 ? 0 : i / 2] = (double)(now_ns() - start) / 1e6;
        box_delete(client, id);
    }
    struct figure plain = middle(without, CREATES), dressed = middle(with, CREATES);
    row("500 layered skills at a box's creation add, p50", "ms", differing(&dressed, &plain), "what may be added",
        exactly(2), AT_MOST, 1);
    snprintf(text, sizeof text, "  %.2f ms with, %.2f ms without", dressed.mid, plain.mid);
    note(text);
}

void bench_skills(void) {
    struct client client;
    client_open(&client, port);
    make_zips();
    upload_rows(&client);
    list_row(&client);
    execute_row(&client);
    create_row(&client);
    client_close(&client);
}
