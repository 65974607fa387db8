/* A cable between two machines of a test, bad on purpose: two network namespaces, a TUN device in each, and packets that
 * are relayed with delay, loss, reordering, a rate, or not at all. Kernels need no netem for it.
 *
 *     linkem [--offload] A_FD B_FD
 *
 * The namespaces are made here; A_FD and B_FD are the descriptors they get in this process, so that
 * `nsenter --net=/proc/PID/fd/A_FD` enters them while it runs. Addresses: 10.77.0.1 and 10.77.0.2 (`left`, `right`).
 * With --offload packets are as large as TCP likes to make them (for measurements); without, at most 1500 bytes.
 * Says "ready", then takes lines on standard input, each answered with "ok" once it counts:
 *     delay MS      each way              loss PERCENT
 *     reorder PERCENT  so many packets are late by another 10 ms
 *     rate MBIT     0: as fast as it goes  cut | join      nothing passes; again as before
 *     count         packets and bytes that passed, and packets that were lost, instead of "ok"
 * Ends with its standard input; sleeps where its devices were removed. What is not delivered yet waits in a heap, by time; it is bounded. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define PACKET_BYTES (70u << 10)
#define HELD_PACKETS 65536u
#define HELD_BYTES (256u << 20)
#define LATE_NS 10000000u /* by so much more a reordered packet comes */

struct packet {
    uint64_t due_ns, order;
    uint32_t len;
    int to; /* index of the device */
    uint8_t data[];
};

static struct packet *heap[HELD_PACKETS];
static size_t held, held_bytes;
static uint64_t orders, passed, passed_bytes, lost, free_ns[2];
static double loss, reorder, rate_mbit;
static uint64_t delay_ns;
static bool is_cut, offload;
static int device[2];

static _Noreturn void die(const char *what) {
    fprintf(stderr, "linkem: %s: %s\n", what, strerror(errno));
    exit(125);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool chance(double percent) {
    return percent > 0 && (double)random() / (double)RAND_MAX * 100 < percent;
}

static bool sooner(const struct packet *a, const struct packet *b) {
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void hold(struct packet *packet) {
    size_t at = held++;
    for (; at > 0 && sooner(packet, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = packet;
    held_bytes += packet->len;
}

static struct packet *first(void) {
    struct packet *packet = heap[0], *last = heap[--held];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < held; at = child) {
        if (child + 1 < held && sooner(heap[child + 1], heap[child]))
            child++;
        if (!sooner(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    held_bytes -= packet->len;
    return packet;
}

/* ---- devices ---- */

static void set(int control, unsigned long request, struct ifreq *ifr, const char *what) {
    if (ioctl(control, request, ifr) < 0)
        die(what);
}

static void address(struct ifreq *ifr, const char *text) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(&ifr->ifr_addr, &in, sizeof in);
}

static void up(int control, struct ifreq *ifr) {
    set(control, SIOCGIFFLAGS, ifr, "flags");
    ifr->ifr_flags |= IFF_UP | IFF_RUNNING;
    set(control, SIOCSIFFLAGS, ifr, "up");
}

/* In a namespace of its own, which stays as descriptor `as`. */
static int device_new(int as, const char *ip) {
    if (unshare(CLONE_NEWNET) < 0)
        die("a network namespace");
    int space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (space < 0 || dup3(space, as, O_CLOEXEC) < 0)
        die("its descriptor");
    if (space != as)
        close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq ifr = {.ifr_name = "cable"};
    ifr.ifr_flags = IFF_TUN | IFF_NO_PI | (offload ? IFF_VNET_HDR : 0);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0)
        die("/dev/net/tun");
    if (offload && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
        die("offload");
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    address(&ifr, ip);
    set(control, SIOCSIFADDR, &ifr, "address");
    address(&ifr, "255.255.255.0");
    set(control, SIOCSIFNETMASK, &ifr, "mask");
    ifr.ifr_qlen = 10000;
    set(control, SIOCSIFTXQLEN, &ifr, "queue");
    up(control, &ifr);
    struct ifreq lo = {.ifr_name = "lo"};
    up(control, &lo);
    close(control);
    return fd;
}

/* ---- packets ---- */

static void take(int from) {
    static uint8_t data[PACKET_BYTES];
    uint64_t now = now_ns();
    for (unsigned i = 0; i < 64; i++) {
        ssize_t n = read(device[from], data, sizeof data);
        if (n < 0 && errno != EAGAIN && errno != EINTR) { /* somebody removed the device: it would be ready for ever */
            close(device[from]);
            device[from] = -1;
        }
        if (n <= 0)
            return;
        if (is_cut || chance(loss) || held == HELD_PACKETS || held_bytes > HELD_BYTES) {
            lost++;
            continue;
        }
        struct packet *packet = malloc(sizeof *packet + (size_t)n);
        if (!packet)
            die("memory");
        uint64_t start = free_ns[from] > now ? free_ns[from] : now;
        if (rate_mbit > 0)
            free_ns[from] = start += (uint64_t)((double)n * 8000 / rate_mbit);
        *packet = (struct packet){.due_ns = start + delay_ns + (chance(reorder) ? LATE_NS : 0),
                                  .order = orders++,
                                  .len = (uint32_t)n,
                                  .to = !from};
        memcpy(packet->data, data, (size_t)n);
        hold(packet);
    }
}

/* Nanoseconds until the next one is due; -1: none is held. */
static int64_t deliver(void) {
    while (held) {
        uint64_t now = now_ns();
        if (heap[0]->due_ns > now)
            return (int64_t)(heap[0]->due_ns - now);
        struct packet *packet = first();
        if (is_cut || write(device[packet->to], packet->data, packet->len) < 0)
            lost++;
        else
            passed++, passed_bytes += packet->len;
        free(packet);
    }
    return -1;
}

/* ---- orders ---- */

static void obey(char *line) {
    char word[16] = "";
    double value = 0;
    int fields = sscanf(line, "%15s %lf", word, &value);
    if (!strcmp(word, "count")) {
        printf("%llu %llu %llu\n", (unsigned long long)passed, (unsigned long long)passed_bytes,
               (unsigned long long)lost);
        fflush(stdout);
        return;
    }
    if (!strcmp(word, "cut"))
        is_cut = true;
    else if (!strcmp(word, "join"))
        is_cut = false;
    else if (!strcmp(word, "delay") && fields == 2)
        delay_ns = (uint64_t)(value * 1e6);
    else if (!strcmp(word, "loss") && fields == 2)
        loss = value;
    else if (!strcmp(word, "reorder") && fields == 2)
        reorder = value;
    else if (!strcmp(word, "rate") && fields == 2)
        rate_mbit = value;
    else
        word[0] = 0;
    puts(word[0] ? "ok" : "what?");
    fflush(stdout);
}

static bool orders_read(void) { /* false: standard input ended */
    static char text[256];
    static size_t len;
    ssize_t n = read(0, text + len, sizeof text - 1 - len);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    len += (size_t)n;
    text[len] = 0;
    for (char *end; (end = strchr(text, '\n')); len -= (size_t)(end + 1 - text), memmove(text, end + 1, len + 1)) {
        *end = 0;
        obey(text);
    }
    return len < sizeof text - 1;
}

int main(int argc, char **argv) {
    offload = argc == 4 && !strcmp(argv[1], "--offload");
    if (argc != 3 + offload)
        return fputs("usage: linkem [--offload] A_FD B_FD\n", stderr), 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srandom(7); /* the same losses every time */
    device[0] = device_new((int)strtol(argv[argc - 2], NULL, 10), "10.77.0.1");
    device[1] = device_new((int)strtol(argv[argc - 1], NULL, 10), "10.77.0.2");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t wait_ns = deliver();
        struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
        struct pollfd polls[] = {{device[0], POLLIN, 0}, {device[1], POLLIN, 0}, {0, POLLIN, 0}};
        if (ppoll(polls, 3, wait_ns < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR)
            die("poll");
        for (int i = 0; i < 2; i++)
            if (polls[i].revents)
                take(i);
        if (polls[2].revents && !orders_read())
            return 0;
    }
}
