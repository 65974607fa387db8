/* What the parts of the bench share. A part is a function without arguments, a row of the table in bench.c. */
#ifndef CUBBY_BENCH_BENCH_H
#define CUBBY_BENCH_BENCH_H

#include <sys/types.h>

#include "client.h"

extern int port, nginx_port;
extern const char *cubby, *tree; /* tree: a host directory with grep/ and list/, mounted at /mnt/tree in boxes */

enum bar { AT_MOST, AT_LEAST };
/* One line of the table: the ratio of both figures, its spread, and whether the bar is met. */
void row(const char *name, const char *unit, struct figure ours, const char *peer_name, struct figure peer,
         enum bar bar, double limit);
unsigned turns(unsigned usual); /* how many rounds a part makes: fewer with BENCH_QUICK */
void note(const char *text);
double meminfo_kb(const char *key);
void exec_samples(struct client *client, const char *id, double *us, size_t count);

/* A daemon of the part's own, on a state directory beside the tree; more: further arguments, NULL-terminated. */
pid_t daemon_start(int at, const char *state, const char *const *more);
void daemon_open(struct client *client, int at); /* waits until it listens */

void bench_ports(void), bench_serve(void);
void bench_pool(void), bench_burst(void), bench_snapshot(void);
void bench_skills(void), bench_docker(void), bench_deerflow(void);
void bench_remote(void), bench_machines(void), bench_echo(void);
void bench_network(void), bench_reach(void), bench_answer(void);
void bench_acquire(void), bench_mcp(void), bench_edits(void), bench_recall(void);

#endif
