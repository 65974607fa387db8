/* Makes orphans: children whose parent is gone at once. orphans COUNT; prints "orphans COUNT". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000, made = 0;
    while (made < count) {
        pid_t pid = fork();
        if (pid == 0) {
            pid_t orphan = fork();
            _exit(orphan < 0);
        }
        int status = 1;
        if (pid > 0)
            waitpid(pid, &status, 0);
        else if (errno != EAGAIN)
            break;
        made += status == 0; /* full: PID 1 is still reaping, again */
    }
    printf("orphans %d\n", made);
    return made != count;
}
