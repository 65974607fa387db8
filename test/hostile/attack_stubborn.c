/* Processes that ignore all signals, leave their session and close what they inherited, and make more of their kind:
 * stubborn COUNT, at most so many at once. Prints "stubborn" when it is armed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int most = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 100;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    puts("stubborn");
    fflush(stdout);
    for (int i = 0; i < most; i++) {
        if (fork() != 0)
            continue;
        setsid();
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        for (;;) { /* children that are gone at once are reaped by the kernel: SIGCHLD is ignored */
            pid_t pid = fork();
            if (pid == 0) {
                setsid();
                if (fork() != 0)
                    _exit(0);
                for (int n = 0; n < 20; n++)
                    usleep(10000);
                _exit(0);
            }
            usleep(20000);
        }
    }
    for (;;)
        pause();
}
