/* Raw mode, size and signals of our own terminal. Invariant: a raw terminal is restored on every exit. */
#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "base/base.h"

/* Global because exit() and signal handlers have no argument to carry it. */
static struct {
    struct termios saved;
    volatile sig_atomic_t fd; /* plus one; 0: never used */
    volatile sig_atomic_t raw;
} terminal;

void terminal_restore(void) {
    if (!terminal.raw)
        return;
    terminal.raw = 0;
    tcsetattr(terminal.fd - 1, TCSADRAIN, &terminal.saved);
}

static void terminal_fault(int number) {
    terminal_restore();
    signal(number, SIG_DFL);
    raise(number);
}

const char *terminal_name(void) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+._-";
    const char *term = getenv("TERM");
    size_t len = term ? strlen(term) : 0;
    return len && len <= LIMIT_TERM_BYTES && strspn(term, good) == len ? term : "xterm-256color";
}

/* If the terminal does not report its size, the environment may. */
static unsigned terminal_variable(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    uint64_t number;
    return text && text_u64(text, 4096, &number) && number ? (unsigned)number : otherwise;
}

void terminal_size(int fd, unsigned *ret_cols, unsigned *ret_rows) {
    struct winsize size = {0};
    bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *ret_cols = known ? size.ws_col : terminal_variable("COLUMNS", 80);
    *ret_rows = known ? size.ws_row : terminal_variable("LINES", 24);
}

int terminal_signals(struct err *err) {
    sigset_t set;
    sigemptyset(&set);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_errno(err, errno, "signalfd") : fd;
}

int terminal_signal(int signal_fd) {
    struct signalfd_siginfo info;
    return read(signal_fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

bool terminal_ending(void) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP) ||
           sigismember(&pending, SIGQUIT);
}

int terminal_write(int fd, int signal_fd, const void *data, size_t len) {
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd_write_all(fd, data, len);
    const char *p = data;
    while (len) {
        /* Ready means space for PIPE_BUF bytes; more could block without reacting to signals. */
        size_t piece = len < 4096 ? len : 4096;
        struct pollfd wait[2] = {{.fd = fd, .events = POLLOUT}, {.fd = signal_fd, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (wait[1].revents && terminal_ending())
            return -EINTR;
        if (!wait[0].revents) {
            if (wait[1].revents) /* a pending WINCH would make poll spin: poll only the output for a moment */
                poll(wait, 1, 50);
            continue;
        }
        ssize_t written = write(fd, p, piece);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (written > 0) {
            p += written;
            len -= (size_t)written;
        }
    }
    return 0;
}

int terminal_raw(int fd, struct err *err) {
    if (tcgetattr(fd, &terminal.saved) < 0)
        return err_errno(err, errno, "cannot read the terminal's settings");
    struct termios raw = terminal.saved;
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (!terminal.fd)
        atexit(terminal_restore);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], terminal_fault);
    terminal.fd = fd + 1;
    terminal.raw = 1;
    if (tcsetattr(fd, TCSADRAIN, &raw) < 0) {
        terminal.raw = 0;
        return err_errno(err, errno, "cannot set the terminal to raw mode");
    }
    return 0;
}
