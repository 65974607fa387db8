/* Machines that join, against the local jail and against curl with nginx over the same cable. Called through bench.sh (its
 * part `remote`, see remote.sh there), which lays the cable; the environment says:
 * BENCH_SOCKET the daemon's unix socket, BENCH_SPACE the machine's network namespace, BENCH_BOX the machine's box,
 * BENCH_DIRECTORY one at the machine, BENCH_DELAY the cable's delay each way, BENCH_DAEMON the daemon's process. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ECHO_PORT 7007
#define MACHINE "10.77.0.2"

extern char **environ;

static const char *environment(const char *name) {
    const char *value = getenv(name);
    if (!value)
        die("%s is not set", name);
    return value;
}

/* At the machine's end: sends back what comes, for the length of a round trip. */
void bench_echo(void) {
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(ECHO_PORT)};
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(server, (struct sockaddr *)&at, sizeof at) < 0 || listen(server, 8) < 0)
        die("echo: %s", strerror(errno));
    for (;;) {
        int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            die("echo: %s", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        char byte;
        while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
            ;
        close(fd);
    }
}

static double round_trip_us(void) {
    enum { TURNS = 51 };
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ECHO_PORT)};
    inet_pton(AF_INET, MACHINE, &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("echo: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    double us[TURNS];
    for (int i = 0; i < TURNS; i++) {
        char byte = 'x';
        uint64_t start = now_ns();
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
            die("echo: %s", strerror(errno));
        us[i] = (double)(now_ns() - start) / 1e3;
    }
    close(fd);
    return median(us, TURNS);
}

static void exec_row(const char *label, const char *id) {
    enum { ROUNDS = 10, EACH = 20, COUNT = ROUNDS * EACH };
    static double far[COUNT], near[COUNT];
    char local[ID_BYTES], name[96];
    struct client client;
    client_open(&client, 0);
    box_create(&client, "", local);
    exec_samples(&client, id, far, 10); /* warm up */
    exec_samples(&client, local, near, 10);
    for (int round = 0; round < ROUNDS; round++) {
        exec_samples(&client, id, far + round * EACH, EACH);
        idle_ms(20);
        exec_samples(&client, local, near + round * EACH, EACH);
        idle_ms(20);
    }
    double jail = median(near, COUNT), trip = round_trip_us();
    snprintf(name, sizeof name, "remote exec /bin/true, %s, p50", label);
    row(name, "us", middle(far, COUNT), "1.25 x jail + round trip", exactly(1.25 * jail + trip), AT_MOST, 1.0);
    snprintf(name, sizeof name, "  (jail %.0f us, round trip %.0f us)", jail, trip);
    note(name);
    box_delete(&client, local);
    client_close(&client);
}

static void read_row(const char *label, const char *id) {
    enum { COUNT = 40 };
    double us[COUNT];
    char path[128], name[96];
    struct client client;
    client_open(&client, 0);
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=small", id);
    client_expect(&client, 201, "PUT", path, "0123456789");
    for (int i = 0; i < COUNT; i++) {
        uint64_t start = now_ns();
        client_expect(&client, 200, "GET", path, NULL);
        us[i] = (double)(now_ns() - start) / 1e3;
    }
    snprintf(name, sizeof name, "remote read of a small file, %s, p50", label);
    row(name, "us", middle(us, COUNT), "one round trip", exactly(round_trip_us()), AT_MOST, 1.25);
    client_close(&client);
}

static double curl_time(const char *how, const char *file, const char *url) {
    char space[128];
    snprintf(space, sizeof space, "--net=%s", environment("BENCH_SPACE"));
    char *const argv[] = {"/usr/bin/nsenter", space,        "/usr/bin/curl", "-sSfk",
                          (char *)how,        (char *)file, (char *)url,     NULL};
    return peer_time(argv);
}

static void transfer_rows(const char *label, const char *id, int rounds) {
    enum { MB = 200, ROUNDS = 5 };
    const uint64_t bytes = (uint64_t)MB << 20;
    double up[ROUNDS], down[ROUNDS], up_peer[ROUNDS], down_peer[ROUNDS];
    char path[128], file[512], name[96];
    snprintf(path, sizeof path, "/v1/boxes/%s/files?path=large", id);
    snprintf(file, sizeof file, "%s/curl", environment("BENCH_DIRECTORY"));
    const char *url = "https://10.77.0.1:8443/put/large";
    transfer_put(0, path, bytes);
    curl_time("-T", environment("BENCH_LARGE"), url);
    for (int round = 0; round < rounds; round++) {
        up[round] = MB / transfer_put(0, path, bytes);
        idle_ms(100);
        up_peer[round] = MB / curl_time("-o", file, url);
        idle_ms(100);
        down[round] = MB / transfer_get(0, path, bytes);
        idle_ms(100);
        down_peer[round] = MB / curl_time("-T", file, url);
        idle_ms(100);
    }
    snprintf(name, sizeof name, "remote upload of 200 MB, %s", label);
    row(name, "MB/s", middle(up, (size_t)rounds), "curl from nginx, TLS", middle(up_peer, (size_t)rounds), AT_LEAST,
        0.6);
    snprintf(name, sizeof name, "remote download of 200 MB, %s", label);
    row(name, "MB/s", middle(down, (size_t)rounds), "curl to nginx, TLS", middle(down_peer, (size_t)rounds), AT_LEAST,
        0.6);
}

void bench_remote(void) {
    const char *id = environment("BENCH_BOX"), *label = environment("BENCH_DELAY");
    exec_row(label, id);
    if (strcmp(label, "0 ms") != 0)
        read_row(label, id);
    transfer_rows(label, id, 5);
}

/* ---- many of them ---- */

enum { MACHINES = 200 };

static double daemon_kb(void) {
    char path[64], line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof path, "/proc/%s/smaps_rollup", environment("BENCH_DAEMON"));
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Pss:", 4))
            kb = strtoul(line + 4, NULL, 10);
    if (!file || !kb)
        die("%s", path);
    fclose(file);
    return (double)kb;
}

static double daemon_ticks(void) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%s/stat", environment("BENCH_DAEMON"));
    FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof text, file))
        die("%s", path);
    fclose(file);
    unsigned long user = 0, system = 0;
    sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return (double)(user + system);
}

static pid_t join(struct client *client, int number) {
    char body[128], space[128], token[128], directory[512], state[640], *answer;
    snprintf(body, sizeof body, "{\"scope\":\"runner\",\"runner\":\"m%d\",\"user\":\"u%d\"}", number, number);
    if (client_call(client, &answer, "POST", "/v1/tokens", body) != 201)
        die("token: %s", answer);
    char *text = strstr(answer, "\"token\":\"");
    if (!text)
        die("token: %s", answer);
    snprintf(token, sizeof token, "CUBBY_TOKEN=%.*s", (int)strcspn(text + 9, "\""), text + 9);
    snprintf(directory, sizeof directory, "%s/m%d", environment("BENCH_DIRECTORY"), number);
    mkdir(directory, 0755);
    snprintf(state, sizeof state, "%s-state", directory);
    snprintf(space, sizeof space, "--net=%s", environment("BENCH_SPACE"));
    char *const argv[] = {"nsenter",     space,
                          (char *)cubby, "join",
                          "--server",    "wss://10.77.0.1:7443",
                          "--ca",        (char *)environment("BENCH_CA"),
                          "--isolation", "none",
                          "--workspace", directory,
                          "--state",     state,
                          NULL};
    char *const env[] = {"PATH=/usr/sbin:/usr/bin:/bin", "HOME=/nonexistent", token, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
    pid_t pid;
    if (posix_spawn(&pid, "/usr/bin/nsenter", &actions, NULL, argv, env) != 0)
        die("nsenter");
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static int ready(struct client *client) {
    char *answer;
    if (client_call(client, &answer, "GET", "/v1/boxes?state=ready", NULL) != 200)
        die("boxes: %s", answer);
    int count = 0;
    for (const char *at = answer; (at = strstr(at, "\"thread\":\"machine:")); at++)
        count++;
    return count;
}

void bench_machines(void) {
    struct client client;
    pid_t pids[MACHINES];
    client_open(&client, 0);
    int first = ready(&client);
    for (int i = 0; i < 20; i++) /* so that what the daemon has once is there */
        pids[i] = join(&client, i);
    for (int turn = 0; ready(&client) < first + 20; turn++) {
        if (turn > 600)
            die("only %d machines come", ready(&client));
        idle_ms(100);
    }
    idle_ms(1000);
    double before = daemon_kb();
    for (int i = 20; i < MACHINES; i++)
        pids[i] = join(&client, i);
    for (int turn = 0; ready(&client) < first + MACHINES; turn++) {
        if (turn > 900)
            die("only %d machines come", ready(&client));
        idle_ms(100);
    }
    idle_ms(15000); /* what it does when they come (skills, buffers) is over */
    row("memory of the daemon, a machine of 200", "KB", exactly((daemon_kb() - before) / (MACHINES - 20)), "100 KB",
        exactly(100), AT_MOST, 1.0);
    double ticks = daemon_ticks();
    uint64_t start = now_ns();
    idle_ms(20000);
    double percent = (daemon_ticks() - ticks) * 100 / (double)sysconf(_SC_CLK_TCK) / ((double)(now_ns() - start) / 1e9);
    row("processor of the daemon, 200 idle machines", "%", exactly(percent), "1 %", exactly(1), AT_MOST, 1.0);
    for (int i = 0; i < MACHINES; i++)
        kill(pids[i], SIGINT);
    for (int i = 0; i < MACHINES; i++)
        waitpid(pids[i], NULL, 0);
    client_close(&client);
}
