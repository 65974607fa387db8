/* Holds a write lease on FILE: whoever opens it waits until the kernel's lease-break-time is over, 45 seconds, unless
 * he asked not to. usage: attack_lease FILE (made if missing); prints "leased" and stays. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    signal(SIGIO, SIG_IGN); /* the kernel's word that somebody waits */
    if (fd < 0 || write(fd, "leased\n", 7) != 7 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0) {
        perror("attack_lease");
        return 1;
    }
    printf("leased\n");
    fflush(stdout);
    for (;;)
        pause();
}
