/* `sudo`: the program of that name in boxes whose daemon allows it (the runner, under another name). It has no rights
 * itself: it sends its words and streams to the runner, which starts the command as root of the box, and waits. It
 * takes sudo's options, as far as they make sense without passwords. */
#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <poll.h>
#include <unistd.h>

#include "runner/sudo.h"

#define SUDO_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

struct sudo_words {
    const char *user;
    bool keep_env, login, shell;
    char **argv;
    int argc;
    char data[SUDO_BYTES];
    size_t len;
    bool failed;
};

static _Noreturn void sudo_die(int status, const char *what, const char *why) {
    fprintf(stderr, "sudo: %s%s%s\n", what, why ? ": " : "", why ? why : "");
    exit(status);
}

/* Parses options. Returns where the command begins. */
static int sudo_options(struct sudo_words *words, int argc, char **argv) {
    int option;
    opterr = 0;
    while ((option = getopt(argc, argv, "+AbEHhikKlnPSsVvu:g:p:C:D:r:t:T:U:")) != -1) {
        if (option == 'u')
            words->user = optarg;
        words->keep_env |= option == 'E';
        words->login |= option == 'i';
        words->shell |= option == 's';
        if (strchr("kKlvV", option)) /* nothing is remembered, and everything is allowed */
            exit(option == 'l' || option == 'V' ? puts(option == 'V' ? "sudo of cubby" : "(root) NOPASSWD: ALL") < 0
                                                : 0);
        if (option == '?' || option == 'h')
            sudo_die(1, "usage: sudo [-EHnSis] [-u root|user] [NAME=VALUE...] COMMAND [ARGUMENT...]", NULL);
    }
    return optind;
}

static void sudo_put(struct sudo_words *words, const char *text) {
    size_t size = strlen(text) + 1;
    words->failed |= size > sizeof words->data - words->len;
    if (words->failed)
        return;
    memcpy(words->data + words->len, text, size);
    words->len += size;
}

static void sudo_put_pair(struct sudo_words *words, const char *name, const char *value) {
    char text[4096];
    snprintf(text, sizeof text, "%s=%s", name, value ? value : "");
    sudo_put(words, text);
}

static bool sudo_kept(const char *variable) {
    static const char *const names[] = {"TERM=", "LANG=", "LC_", "LANGUAGE=", "COLORTERM=", "TZ="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    return false;
}

static void sudo_put_env(struct sudo_words *words, char **own, int own_count) {
    const struct passwd *caller = getpwuid(getuid());
    char number[16];
    for (char **row = environ; *row; row++)
        if (words->keep_env || sudo_kept(*row))
            sudo_put(words, *row);
    sudo_put_pair(words, "PATH", SUDO_PATH);
    sudo_put_pair(words, "HOME", "/root");
    sudo_put_pair(words, "USER", "root");
    sudo_put_pair(words, "LOGNAME", "root");
    sudo_put_pair(words, "SHELL", "/bin/bash");
    sudo_put_pair(words, "SUDO_USER", caller ? caller->pw_name : "user");
    snprintf(number, sizeof number, "%u", getuid());
    sudo_put_pair(words, "SUDO_UID", number);
    snprintf(number, sizeof number, "%u", getgid());
    sudo_put_pair(words, "SUDO_GID", number);
    for (int i = 0; i < own_count; i++)
        sudo_put(words, own[i]);
}

static int sudo_ask(const struct sudo_words *words) {
    struct sockaddr_un address;
    unsigned size = sudo_address(&address);
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)words->data, words->len};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int streams[3] = {0, 1, 2}, room = SUDO_BYTES * 2;
    control.head =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof streams), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), streams, sizeof streams);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, size) < 0)
        sudo_die(1, "commands of this box cannot become root", errno == ECONNREFUSED ? NULL : strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
        sudo_die(1, "cannot reach the runner of the box", strerror(errno));
    return fd;
}

/* Exits as a shell would report it; a signal ends us too. */
static _Noreturn void sudo_end(int status) {
    if (WIFSIGNALED(status)) {
        sigset_t none;
        sigemptyset(&none);
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
        exit(128 + WTERMSIG(status));
    }
    exit(WEXITSTATUS(status));
}

static _Noreturn void sudo_wait(int fd, int signals) {
    char text[1024];
    for (;;) {
        struct pollfd polls[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        struct signalfd_siginfo info;
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            sudo_die(1, "poll", strerror(errno));
        if (polls[1].revents && read(signals, &info, sizeof info) == sizeof info) {
            char number = (char)info.ssi_signo;
            (void)!send(fd, &number, 1, MSG_NOSIGNAL);
        }
        if (!polls[0].revents)
            continue;
        ssize_t n = recv(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = 0;
        if (n > 2 && text[0] == 's')
            sudo_end((int)strtol(text + 2, NULL, 10));
        sudo_die(n > 2 && text[0] == 'n' ? 127 : 1, n > 2 ? text + 2 : "the box ended the command", NULL);
    }
}

int sudo_main(int argc, char **argv) {
    static struct sudo_words words = {.user = "root"};
    static char *shell[] = {"/bin/bash", "-l", NULL};
    int at = sudo_options(&words, argc, argv), first = at;
    while (first < argc && strchr(argv[first], '=') && argv[first][0] != '=')
        first++;
    words.argv = first < argc ? argv + first : shell;
    words.argc = first < argc ? argc - first : words.login ? 2 : 1;
    if (first == argc && !words.login && !words.shell)
        sudo_die(1, "usage: sudo [-EHnSis] [-u root|user] [NAME=VALUE...] COMMAND [ARGUMENT...]", NULL);
    const struct passwd *target = getpwnam(words.user);
    if (!target || (target->pw_uid != 0 && target->pw_uid != getuid()))
        sudo_die(1, "no such user", words.user);
    if (target->pw_uid == getuid()) { /* it is that user already */
        for (int i = at; i < first; i++)
            putenv(argv[i]);
        execvp(words.argv[0], words.argv);
        sudo_die(errno == ENOENT ? 127 : 126, words.argv[0], strerror(errno));
    }
    char directory[4096], number[16];
    snprintf(number, sizeof number, "%d", words.argc);
    sudo_put(&words, getcwd(directory, sizeof directory) && !words.login ? directory : "/root");
    sudo_put(&words, number);
    for (int i = 0; i < words.argc; i++)
        sudo_put(&words, words.argv[i]);
    sudo_put_env(&words, argv + at, first - at);
    if (words.failed)
        sudo_die(1, "arguments and variables are too long", NULL);
    sigset_t passed;
    sigemptyset(&passed);
    for (const char *name = "\1\2\3\17\12\14"; *name; name++) /* HUP INT QUIT TERM USR1 USR2 */
        sigaddset(&passed, *name);
    sigprocmask(SIG_BLOCK, &passed, NULL);
    int signals = signalfd(-1, &passed, SFD_CLOEXEC);
    sudo_wait(sudo_ask(&words), signals);
}
