/* The daemon: its parts, and the steps that starting, checking and reloading share. */
#ifndef CUBBY_DAEMON_DAEMON_H
#define CUBBY_DAEMON_DAEMON_H

#include <limits.h>
#include <signal.h>

#include "daemon/conf.h"
#include "daemon/notify.h"
#include "front/front.h"
#include "tool/upkeep.h"

struct daemon {
    int argc;
    char **argv;
    struct conf *first; /* from the start, for values that only a restart changes */
    struct conf *conf;  /* the current one; used by the signal thread */
    char state[PATH_MAX], runner[PATH_MAX];
    struct backend_env env;
    struct front front;
    struct upkeep *_Atomic upkeep; /* the provider's threads report boxes to it */
    struct seals *seals;           /* of boxes with inspected hosts */
    struct welcome *welcome;       /* for machines that join */
    struct cluster *cluster;       /* NULL: workers are not pods */
    sigset_t signals;
    struct notify notify;
    uint64_t epoch; /* of this head, see lead.c; 0: there was never more than one */
    int lead_fd;    /* the lock of the head that serves; -1: without --standby */
};

int daemon_serve(struct conf *conf, int argc, char **argv, struct err *err); /* serve.c */
void daemon_limits(void);
/* SIGHUP: reads the configuration again and applies what can change, or nothing if something is wrong. Logs what
 * happened. reload.c */
void daemon_reload(struct daemon *daemon);

/* With --standby waits until no other head serves the state directory. GONE: stopped meanwhile. lead.c */
int daemon_lead(struct daemon *daemon, struct err *err);

/* ---- prepare.c ---- */

int daemon_runner(const struct conf *conf, char ret_path[PATH_MAX], struct err *err);
int daemon_state(const char *path, char ret_real[PATH_MAX], struct err *err);
void daemon_log_level(const char *name);
/* Makes the access rules from the configuration. quiet: nothing is logged. */
int daemon_auth(const struct conf *conf, bool quiet, struct auth **ret_auth, struct err *err);
bool daemon_demands_tokens(const struct conf *conf);
/* Makes the settings of boxes. A limit that this machine cannot enforce is refused, or dropped where allowed. */
int daemon_policy(struct conf *conf, const struct backend_env *env, bool quiet, struct policy **ret_policy,
                  struct err *err);
/* Imports templates that the configuration names with a path and that do not exist yet. */
int daemon_templates(const struct conf *conf, const struct backend_env *env, struct err *err);
struct front_settings *daemon_settings(struct conf *conf);
int daemon_socket(const struct conf *conf, struct http_config *config, struct err *err);
/* Checks everything that can be known without serving. */
int daemon_check(struct conf *conf, struct err *err);

#endif
