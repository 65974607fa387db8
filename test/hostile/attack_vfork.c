/* Waits in state D: its vfork child sleeps. vfork SECONDS */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(int argc, char **argv) {
    struct timespec time = {.tv_sec = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 10};
    pid_t pid = vfork();
    if (pid == 0) {
        nanosleep(&time, NULL);
        _exit(0);
    }
    return pid < 0;
}
