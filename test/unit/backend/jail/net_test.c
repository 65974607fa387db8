/* Network `open` of a daemon that has no descriptor left: what is taken away cannot be looked at, and nothing breaks.
 * TAP on standard output. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "tap.h"

/* In a process of its own: 0 when it ended in order. */
static int detach_without_descriptors(void) {
    const struct rlimit none = {0, 0};
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_NOFILE, &none);
        net_detach(IDS_SLOTS - 1);
        _exit(net_attached(IDS_SLOTS - 1));
    }
    waitpid(pid, &status, 0);
    return status;
}

int main(void) {
    ok(detach_without_descriptors() == 0, "a device is taken away without a descriptor to ask for the others");
    return tap_end();
}
