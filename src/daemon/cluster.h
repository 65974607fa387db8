/* The cluster whose pods are this head's workers: who may join, what happens to their pods, how many there are, which
 * head leads. */
#ifndef CUBBY_DAEMON_CLUSTER_H
#define CUBBY_DAEMON_CLUSTER_H

#include <signal.h>

#include "daemon/conf.h"

struct cluster;
int cluster_check(const struct conf *conf, struct err *err); /* options that contradict each other */
/* Sets env->identify. With a Lease it returns when this head leads; GONE: one of the signals came first. */
int cluster_open(const struct conf *conf, const sigset_t *signals, struct backend_env *env,
                 struct cluster **ret_cluster, struct err *err);
void cluster_start(struct cluster *cluster); /* env->machines is there; NULL is fine in all three */
void cluster_stop(struct cluster *cluster);
void cluster_free(struct cluster *cluster);

#endif
