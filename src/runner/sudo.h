/* `sudo` in a box: what the runner and the program `sudo` agree on. The socket is abstract: it is in the network
 * namespace of the box, which no other box and no program of the host shares. */
#ifndef CUBBY_RUNNER_SUDO_H
#define CUBBY_RUNNER_SUDO_H

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    SUDO_BYTES = 128 << 10, /* of a request: directory, arguments, variables */
    SUDO_TEXTS = 4096,
    SUDO_MOST = 64, /* running at once in a box */
};

static inline unsigned sudo_address(struct sockaddr_un *address) {
    static const char name[] = "cubby-sudo";
    address->sun_family = AF_UNIX;
    address->sun_path[0] = 0;
    memcpy(address->sun_path + 1, name, sizeof name - 1);
    return (unsigned)(offsetof(struct sockaddr_un, sun_path) + sizeof name);
}

struct runner;
void sudo_open(struct runner *runner); /* allows the agent's commands to become root, in jails that have one */
int sudo_main(int argc, char **argv);  /* the program */

#endif
