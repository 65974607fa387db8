/* `cubby shell`: a terminal in a box over the pty WebSocket. Invariant: every key goes to the box, also Ctrl-C, and our
 * terminal is always restored. */
#include "http/client/client.h"

#include <jansson.h>
#include <poll.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "cli/rest/event.h"
#include "cli/terminal.h"

struct shell_values {
    struct box_options box;
    const char *user, *workdir;
};

const struct row shell_options[] = {
    OPTION("user", 'u', TEXT, struct shell_values, user, "agent|root", "open it as this user (default: agent)"),
    OPTION("workdir", 'w', TEXT, struct shell_values, workdir, "DIR", "open it in DIR (default: the workspace)"),
    BOX_OPTIONS,
};

struct shell {
    struct cli *cli;
    struct shell_values values;
    char id[17];
    const char *command; /* NULL: the box's shell */
    struct http_socket *socket;
    int signal_fd, status;
    bool input_open, ended;
};

static int shell_open(struct shell *shell, struct err *err) {
    struct http_client *client = NULL;
    unsigned cols, rows;
    terminal_size(STDOUT_FILENO, &cols, &rows);
    /* Asked first, so that an unknown box gets a proper error, not a failed upgrade. */
    TRY(remote_call(shell->cli, "GET", remote_path(shell->cli, shell->id, "", NULL), NULL, NULL, err));
    TRY(remote_client(shell->cli, &client, err));
    autobuf path = buf_max(64 << 10);
    buf_printf(&path, "/v1/boxes/%s/pty?cols=%u&rows=%u", shell->id, cols, rows);
    rest_parameter(shell->cli, &path, "command", shell->command);
    rest_parameter(shell->cli, &path, "user", shell->values.user);
    rest_parameter(shell->cli, &path, "cwd", shell->values.workdir);
    rest_parameter(shell->cli, &path, "term", terminal_name());
    const char *text = buf_cstr(&path);
    if (!text)
        return err_set(err, ERR_TOO_LARGE, "the command is too long");
    TRY(http_client_ws(client, text, &shell->socket, err));
    return isatty(STDIN_FILENO) ? terminal_raw(STDIN_FILENO, err) : 0;
}

static int shell_signal(struct shell *shell, struct err *err) {
    int number = terminal_signal(shell->signal_fd);
    if (number == SIGWINCH) {
        unsigned cols, rows;
        char text[64];
        terminal_size(STDOUT_FILENO, &cols, &rows);
        int len = snprintf(text, sizeof text, "{\"resize\":{\"cols\":%u,\"rows\":%u}}", cols, rows);
        return http_socket_send(shell->socket, true, text, (size_t)len, err);
    }
    if (number == 0)
        return 0;
    shell->status = 128 + number;
    shell->ended = true;
    return err_set(err, ERR_GONE, "ended by signal %d", number);
}

static int shell_input(struct shell *shell, struct err *err) {
    uint8_t data[16 << 10];
    ssize_t got = read(STDIN_FILENO, data, sizeof data);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got > 0)
        return http_socket_send(shell->socket, false, data, (size_t)got, err);
    shell->input_open = false;
    /* Our input has ended, as if a person typed Ctrl-D; a program that keeps reading gets end-of-file. */
    return http_socket_send(shell->socket, false, "\x04", 1, err);
}

/* Handles the report of how it ended. */
static int shell_text(struct shell *shell, const uint8_t *data, size_t len) {
    json_auto_t *json = json_loadb((const char *)data, len, 0, NULL);
    const json_t *exit = json_object_get(json, "exit"), *error = json_object_get(json, "error");
    struct err err;
    if (!exit && !error)
        return 0;
    terminal_restore();
    if (error)
        event_error(json, &err);
    shell->status = error ? cli_fail(&err) : remote_exit(exit);
    shell->ended = true;
    return 0;
}

/* Shows all output that is available. */
static int shell_output(struct shell *shell, struct err *err) {
    for (;;) {
        bool text;
        const uint8_t *data;
        size_t len;
        int code = http_socket_recv(shell->socket, &text, &data, &len, err);
        if (code <= 0)
            return code;
        code = text ? shell_text(shell, data, len) : terminal_write(STDOUT_FILENO, shell->signal_fd, data, len);
        if (code == -EINTR)
            return shell_signal(shell, err);
        if (code < 0)
            return err_errno(err, -code, "cannot write standard output");
    }
}

static int shell_pump(struct shell *shell, struct err *err) {
    int code = shell_output(shell, err);
    while (code == 0 && !shell->ended) {
        struct pollfd wait[3] = {{.fd = http_socket_fd(shell->socket), .events = POLLIN},
                                 {.fd = shell->signal_fd, .events = POLLIN},
                                 {.fd = shell->input_open ? STDIN_FILENO : -1, .events = POLLIN}};
        if (poll(wait, 3, -1) < 0 && errno != EINTR)
            return err_errno(err, errno, "poll");
        if (wait[1].revents)
            code = shell_signal(shell, err);
        if (code == 0 && wait[2].revents)
            code = shell_input(shell, err);
        if (code == 0)
            code = shell_output(shell, err);
    }
    return code;
}

/* id "": a box of its own. */
static int shell_run(struct shell *shell) {
    bool own = !shell->id[0];
    struct cli *cli = shell->cli;
    struct err err = {0};
    if (own) { /* if we or the daemon are killed, nothing else would delete it */
        shell->values.box.temporary = true;
        shell->values.box.idle_timeout = REMOTE_IDLE_SECONDS;
    }
    autobuf answer = buf_max(1 << 20);
    int code = shell->signal_fd = terminal_signals(&err);
    if (code >= 0)
        code = own ? remote_create(cli, &shell->values.box, NULL, NULL, &answer, shell->id, &err) : 0;
    if (code == 0)
        code = shell_open(shell, &err);
    if (code == 0)
        code = shell_pump(shell, &err);
    terminal_restore();
    if (code < 0 && !shell->ended)
        cli_fail(&err);
    http_socket_close(shell->socket);
    if (own && shell->id[0] && remote_call(cli, "DELETE", remote_path(cli, shell->id, "", NULL), NULL, NULL, &err) < 0)
        cli_fail(&err);
    fd_close(&shell->signal_fd);
    return shell->status;
}

int shell_in_new_box(struct cli *cli, const struct box_options *box, char **argv, const char *user,
                     const char *workdir) {
    struct shell shell = {.cli = cli,
                          .signal_fd = -1,
                          .status = EXIT_OURS,
                          .input_open = true,
                          .values = {.box = *box, .user = user, .workdir = workdir},
                          .command = option_line(cli, argv)};
    return shell_run(&shell);
}

int shell_in_box(struct cli *cli, const char *id, const char *line, const char *user, const char *workdir) {
    struct shell shell = {.cli = cli,
                          .signal_fd = -1,
                          .status = EXIT_OURS,
                          .input_open = true,
                          .values = {.user = user, .workdir = workdir},
                          .command = line};
    text_id_copy(shell.id, id);
    return shell_run(&shell);
}

int command_shell(struct cli *cli, int argc, char **argv) {
    struct shell shell = {.cli = cli, .signal_fd = -1, .status = EXIT_OURS, .input_open = true};
    argc = option_parse(cli, argc, argv, &shell.values);
    bool own = cli->plain_words == 0;
    if (!own && !remote_named(argv[0]))
        option_fail(cli, "no box '%s'; to run a command in a new box: cubby shell -- %s", argv[0], argv[0]);
    if (cli->plain_words > 1)
        option_fail(cli, "unexpected argument '%s'; a command needs -- before it: cubby shell %s -- %s", argv[1],
                    argv[0], argv[1]);
    if (!own)
        text_id_copy(shell.id, remote_box(cli, argv[0]));
    shell.command = option_line(cli, argv + (own ? 0 : 1));
    return shell_run(&shell);
}
