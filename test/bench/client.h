/* The bench's HTTP client and its peers: as light as it gets, because it shares the machine with what it measures. */
#ifndef CUBBY_BENCH_CLIENT_H
#define CUBBY_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ID_BYTES 17

struct client { /* one keep-alive connection */
    int fd;
    char *buffer; /* the last answer: head and body */
    size_t size;
};

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ns(void);
void end_with_me(pid_t pid);                 /* killed when this part ends, if it is still there */
void idle_ms(unsigned ms);                   /* a gap in which the machine comes to rest */
double median(double *values, size_t count); /* sorts them */

/* The middle of samples, and that of each of a few parts of them, in the order in which they were taken. */
#define FIGURE_PARTS 5
struct figure {
    double mid, parts[FIGURE_PARTS];
    unsigned count; /* of the parts; 1: measured once */
};
struct figure middle(const double *values, size_t count);
struct figure rarest(const double *values, size_t count); /* the 99th percentile instead */
struct figure exactly(double value);
struct figure differing(const struct figure *more, const struct figure *less);

void client_open(struct client *client, int port);
void client_close(struct client *client);
void client_send(struct client *client, const char *text, size_t len);
/* Reads one answer; its status. *ret_body is NUL-terminated and valid until the next call. */
int client_answer(struct client *client, char **ret_body, size_t *ret_len);
int client_call(struct client *client, char **ret_body, const char *method, const char *path, const char *body);
void client_expect(struct client *client, int status, const char *method, const char *path, const char *body);

void box_create(struct client *client, const char *members, char ret_id[ID_BYTES]); /* members: ",\"k\":v" or "" */
void box_delete(struct client *client, const char id[ID_BYTES]);
size_t box_exec_request(char *text, size_t size, const char id[ID_BYTES]); /* the bytes of an exec of /bin/true */
void exec_once(struct client *client, const char *request, size_t len);    /* and its checked answer */

/* Transfers: seconds taken. The answer's body is thrown away in the kernel; the upload comes from memory. */
double transfer_get(int port, const char *path, uint64_t want_bytes);
double transfer_put(int port, const char *path, uint64_t bytes);

extern char *const peer_true[], *const peer_bwrap[];
void peer_run(char *const argv[]);    /* posix_spawn and wait; dies unless it exits 0 */
double peer_time(char *const argv[]); /* seconds of one */
/* The same with its output read through a pipe; the first bytes of it are kept, NUL-terminated when size > 0. */
double peer_output(char *const argv[], char *ret_text, size_t size);
double peer_rate(unsigned loops, double seconds); /* posix_spawn of /bin/true by so many loops at once, a second */

#endif
