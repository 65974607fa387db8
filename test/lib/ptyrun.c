/* Plays a person at a terminal: runs a command on a pty of its own, follows a script, prints what appeared, ends with
 * the command's exit status. Called by test/front/terminal_test.sh. Waits for what it expects, never for time to pass.
 *
 *   ptyrun COLSxROWS STEP... -- COMMAND...
 *   expect:TEXT   wait until TEXT appears after the last expected one     send:TEXT   type it (\r, \n, \xHH)
 *   resize:CxR    change the window                                       signal:N    to the command itself
 *
 * The last line is "terminal same" or "terminal changed": its settings afterwards against those before. */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#define OUTPUT_MAX (4u << 20)
#define SECONDS 30

static char output[OUTPUT_MAX + 1];
static size_t output_len, seen;

static _Noreturn void die(const char *what, const char *about) {
    fwrite(output, 1, output_len, stdout);
    fprintf(stdout, "\nptyrun: %s '%s'\n", what, about);
    exit(125);
}

static struct winsize size_of(const char *text) {
    unsigned cols = 0, rows = 0;
    if (sscanf(text, "%ux%u", &cols, &rows) != 2)
        die("no size", text);
    return (struct winsize){.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};
}

/* One read; 0 at the end. */
static int more(int master, time_t deadline) {
    struct pollfd wait = {.fd = master, .events = POLLIN};
    time_t left = deadline - time(NULL);
    if (left <= 0 || poll(&wait, 1, (int)left * 1000) == 0)
        die("nothing more came", "");
    ssize_t got = read(master, output + output_len, OUTPUT_MAX - output_len);
    if (got <= 0)
        return 0;
    output_len += (size_t)got;
    return 1;
}

static void expect(int master, const char *text, time_t deadline) {
    for (;;) {
        char *found = memmem(output + seen, output_len - seen, text, strlen(text));
        if (found) {
            seen = (size_t)(found - output) + strlen(text);
            return;
        }
        if (!more(master, deadline))
            die("ended without", text);
    }
}

static void type(int master, const char *text) {
    for (; *text; text++) {
        char byte = *text;
        if (*text == '\\' && text[1] == 'x') {
            char hex[3] = {text[2], text[3], 0};
            byte = (char)strtol(hex, NULL, 16);
            text += 3;
        } else if (*text == '\\') {
            byte = *++text == 'r' ? '\r' : *text == 'n' ? '\n' : *text;
        }
        if (write(master, &byte, 1) != 1)
            die("cannot type", text);
    }
}

static void step(int master, pid_t child, const char *text, time_t deadline) {
    const char *value = strchr(text, ':');
    if (!value)
        die("no step", text);
    value++;
    if (strncmp(text, "expect:", 7) == 0) {
        expect(master, value, deadline);
    } else if (strncmp(text, "send:", 5) == 0) {
        type(master, value);
    } else if (strncmp(text, "signal:", 7) == 0) {
        kill(child, (int)strtol(value, NULL, 10));
    } else if (strncmp(text, "resize:", 7) == 0) {
        struct winsize size = size_of(value);
        ioctl(master, TIOCSWINSZ, &size);
    } else {
        die("no step", text);
    }
}

int main(int argc, char **argv) {
    int dashes = 2, master, slave, status;
    while (dashes < argc && strcmp(argv[dashes], "--") != 0)
        dashes++;
    if (argc < 4 || dashes + 1 >= argc)
        die("usage: ptyrun COLSxROWS STEP... -- COMMAND...", "");
    struct winsize size = size_of(argv[1]);
    struct termios before, after;
    if (openpty(&master, &slave, NULL, NULL, &size) < 0 || tcgetattr(slave, &before) < 0)
        die("no pty", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(master);
        login_tty(dup(slave));
        close(slave);
        execvp(argv[dashes + 1], argv + dashes + 1);
        _exit(127);
    }
    /* Our own end of the slave stays open until the settings were looked at; the end of output is the child's end. */
    time_t deadline = time(NULL) + SECONDS;
    for (int i = 2; i < dashes; i++)
        step(master, child, argv[i], deadline);
    while (waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd wait = {.fd = master, .events = POLLIN};
        if (time(NULL) > deadline)
            die("still running", argv[dashes + 1]);
        if (poll(&wait, 1, 20) > 0 && !more(master, deadline))
            break;
    }
    tcgetattr(slave, &after);
    close(slave);
    while (more(master, deadline))
        ;
    fwrite(output, 1, output_len, stdout);
    printf("\nterminal %s\n", memcmp(&before, &after, sizeof before) == 0 ? "same" : "changed");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
