/* `cubby open`: the page of the daemon, or of one box, in a browser. A ticket in the fragment of the URL logs in; it
 * never reaches a log, works once, and for half a minute. */
#include <jansson.h>
#include <spawn.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/host/open.h"
#include "cli/rest/context.h"
#include "cli/rest/list.h"

extern char **environ;

struct open_values {
    bool print;
};

const struct row open_options[] = {
    OPTION("print", 'p', BOOL, struct open_values, print, NULL, "print the URL; open nothing"),
    {.name = NULL},
};

int open_url(struct cli *cli, const char *place, const char **ret_url, struct err *err) {
    const char *url = remote_url();
    size_t len = strlen(url);
    struct buf body;
    json_auto_t *who = NULL, *answer = NULL;
    if (strncmp(url, "unix:", 5) == 0)
        return err_set(err, ERR_INVALID,
                       "a browser cannot open %s; start cubbyd with --listen 127.0.0.1:7070 and set CUBBY_URL", url);
    while (len && url[len - 1] == '/')
        len--;
    int asked = remote_json(cli, "GET", "/v1/whoami", NULL, &who, err);
    if (asked < 0 && asked != -ERR_NOT_FOUND)
        return asked;
    if (who && !json_is_true(json_object_get(who, "open"))) {
        REST_BODY(&body, {"for", "login"});
        int code = remote_json(cli, "POST", "/v1/tickets", &body, &answer, err);
        buf_done(&body);
        TRY(code);
    }
    const char *ticket = rest_text(answer, "ticket");
    *ret_url =
        arena_printf(&cli->arena, "%.*s/ui/%s%s%s", (int)len, url, place, ticket ? "#t=" : "", ticket ? ticket : "");
    return 0;
}

int open_browser(const char *url) {
    const char *browser = getenv("BROWSER");
    const char *argv[] = {browser && *browser ? browser : "xdg-open", url, NULL};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int number = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -number;
}

int command_open(struct cli *cli, int argc, char **argv) {
    struct open_values values = {0};
    struct err err = {0};
    const char *url = NULL, *place = "boxes";
    argc = option_parse(cli, argc, argv, &values);
    if (argc > 1)
        option_fail(cli, "one box at a time");
    if (argc) {
        const char *slash = argv[0][0] == '@' ? strrchr(argv[0], '/') : strchr(argv[0], '/');
        static const char *const views[] = {"terminal", "files",     "changes",  "processes", "sessions",
                                            "ports",    "snapshots", "timeline", "skills",    NULL};
        if (slash && argv[0][0] == '@' && !text_list_has(views, slash + 1))
            slash = NULL; /* @USER/THREAD */
        if (slash && !text_list_has(views, slash + 1))
            option_fail(cli,
                        "unknown view '%s': terminal, files, changes, processes, sessions, ports, snapshots, timeline "
                        "or skills",
                        slash + 1);
        const char *word = slash ? arena_copy(&cli->arena, argv[0], (size_t)(slash - argv[0])) : argv[0];
        place = arena_printf(&cli->arena, "boxes/%s%s", remote_box(cli, word), slash ? slash : "");
    }
    if (open_url(cli, place, &url, &err) < 0)
        return cli_fail(&err);
    printf("%s\n", url);
    fflush(stdout);
    int code = values.print ? 0 : open_browser(url);
    if (code < 0)
        fprintf(stderr, "cubby: no browser was opened (%s); open the URL above, within half a minute\n",
                strerror(-code));
    return 0;
}
