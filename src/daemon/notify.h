/* The service manager (systemd's protocol, without its library): readiness, a watchdog, a line of status, and sockets that
 * it listened on before the daemon started. Does nothing where there is no service manager. */
#ifndef CUBBY_DAEMON_NOTIFY_H
#define CUBBY_DAEMON_NOTIFY_H

#include <sys/un.h>

#include "box/provider/provider.h"
#include "http/server.h"

struct notify {
    int fd; /* -1: nobody wants to know */
    struct sockaddr_un address;
    socklen_t address_size;
    uint64_t watchdog_ms, watchdog_due_ms, status_due_ms; /* 0: no watchdog */
    int passed[HTTP_LISTENERS], passed_count;             /* sockets, for http_config.passed */
};

/* Reads the environment and removes what it has read. Called before the first thread. */
void notify_init(struct notify *notify);
void notify_done(struct notify *notify);
void notify_send(struct notify *notify, const char *text); /* "READY=1" */
/* Says that the daemon is alive, and how many boxes it has, when that is due. */
void notify_tick(struct notify *notify, struct provider *provider);

#endif
