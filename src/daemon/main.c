/* cubbyd: reads its options and acts on them. Called by users and by systemd. */
#include "base/base.h"
#include "box/provider/provider.h"
#include "daemon/daemon.h"
#include "front/routes.h"

enum { EXIT_USAGE = 2, EXIT_FAILED = 125 };

/* Prints one of our tables. */
static void daemon_print(enum conf_action what) {
    autobuf out = buf_max(4u << 20);
    struct json json;
    for (const struct route *route = routes_all(); what == CONF_ROUTES && route->method; route++)
        if (strncmp(route->pattern, "/_", 2) != 0) /* reached by Host or headers, not by a path */
            buf_printf(&out, "%s\t%s\t%s\t%s\n", route->method, route->pattern, route->name, route->summary);
    json_init(&json, &out);
    if (what == CONF_TOOLS)
        tool_list_json(&json, &tool_defaults, false);
    else if (what == CONF_OPENAPI)
        openapi_write(NULL, &out);
    if (what != CONF_ROUTES)
        buf_byte(&out, '\n');
    fwrite(out.data, 1, out.len, stdout);
}

static void daemon_removed(void *user, const char *what) {
    ++*(unsigned *)user;
    printf("removed %s\n", what);
}

static int daemon_cleanup(const struct conf *conf, struct err *err) {
    char state[PATH_MAX], runner[PATH_MAX];
    unsigned removed = 0, left = 0;
    daemon_log_level(conf->log_level);
    daemon_limits();
    signal(SIGPIPE, SIG_IGN);
    if (!realpath(conf->state, state)) /* not created here: a mistyped name would look clean */
        return err_errno(err, errno, "cannot open the state directory %s", conf->state);
    const struct backend_env env = {
        .state_dir = state, .runner_path = runner, .allow_local = true, .docker = &conf->docker};
    TRY(daemon_runner(conf, runner, err));
    TRY(cleanup_run(&env, daemon_removed, &removed, &left, err));
    if (left)
        return err_set(err, ERR_BUSY, "%u item%s could not be removed from %s; see above", left, left == 1 ? "" : "s",
                       state);
    printf("%s is clean; %u item%s removed\n", state, removed, removed == 1 ? "" : "s");
    return 0;
}

int main(int argc, char **argv) {
    struct conf *conf;
    struct err err = {0};
    int failed = conf_new(argc, argv, &conf, &err);
    if (failed) {
        fprintf(stderr, "cubbyd: %s\n", err.text);
        return EXIT_USAGE;
    }
    int status = EXIT_FAILED;
    switch (conf->action) {
    case CONF_HELP:
        conf_print_help(stdout);
        break;
    case CONF_VERSION:
        printf("cubbyd %s\n", CUBBY_VERSION);
        break;
    case CONF_OPTIONS:
        conf_print_options(stdout);
        break;
    case CONF_ROUTES:
    case CONF_TOOLS:
    case CONF_OPENAPI:
        daemon_print(conf->action);
        break;
    case CONF_MANUAL:
        conf_print_manual(stdout);
        break;
    case CONF_CHECK:
        failed = daemon_check(conf, &err);
        status = EXIT_USAGE;
        if (!failed)
            printf("the configuration%s%s is fine\n", conf->config ? " " : "", conf->config ? conf->config : "");
        break;
    case CONF_CLEANUP:
        failed = daemon_cleanup(conf, &err);
        break;
    case CONF_SERVE:
        failed = daemon_serve(conf, argc, argv, &err);
        if (failed && err.code == ERR_FULL) /* for whichever file of the state directory failed first */
            err_text(&err, ENOSPC, "no space left on the disk of %.300s; free some and start again", conf->state);
        break;
    }
    if (failed)
        fprintf(stderr, "cubbyd: %s\n", err.text);
    conf_unref(conf);
    return failed ? status : 0;
}
