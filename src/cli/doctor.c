/* `cubby doctor`: the missing prerequisites of boxes on this machine, each with its fix, and whether a daemon
 * answers. */
#include "http/client/client.h"
#include "base/base.h"
#include "backend/backend.h"
#include "cli/cli.h"
#include "cli/engine.h"

#define DOCTOR_CHECKS 64

struct doctor_values {
    bool json;
};

const struct row doctor_options[] = {
    OPTION("json", 0, BOOL, struct doctor_values, json, NULL, "as JSON"),
    {.name = NULL},
};

struct doctor {
    struct check checks[DOCTOR_CHECKS];
    size_t count;
};

static void doctor_json(const struct doctor *doctor) {
    autobuf out = buf_max(1 << 20);
    struct json json = json_begin(&out);
    json_put_open(&json, "checks", '[');
    for (size_t i = 0; i < doctor->count; i++) {
        const struct check *check = &doctor->checks[i];
        json_open(&json, '{');
        json_put_str(&json, "name", check->name);
        json_put_bool(&json, "ok", check->ok);
        json_put_bool(&json, "required", check->required);
        json_put_str(&json, "detail", check->detail);
        json_put_str(&json, "fix", check->fix[0] ? check->fix : NULL);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    printf("%.*s\n", (int)out.len, (const char *)out.data);
}

static void doctor_table(struct cli *cli, const struct doctor *doctor) {
    static const char *const heads[] = {"CHECK", "", "FOUND", NULL};
    struct table table;
    bool lacking = false;
    table_init(&table, &cli->arena, heads);
    for (size_t i = 0; i < doctor->count; i++) {
        const struct check *check = &doctor->checks[i];
        lacking = lacking || !check->ok;
        table_cell(&table, check->name);
        table_cell(&table, check->ok ? "ok" : check->required ? "MISSING" : "missing");
        table_cell(&table, check->detail);
    }
    table_print(&table, stdout);
    if (!lacking)
        return;
    printf("\nTo fix:\n");
    for (size_t i = 0; i < doctor->count; i++)
        if (!doctor->checks[i].ok && doctor->checks[i].fix[0])
            printf("  %s: %s\n", doctor->checks[i].name, doctor->checks[i].fix);
}

int command_doctor(struct cli *cli, int argc, char **argv) {
    struct doctor_values values = {0};
    struct doctor *doctor = arena_alloc(&cli->arena, sizeof *doctor);
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    /* The backends' rows, and one of ours: a daemon. */
    struct err err = {0};
    struct backend_env env = {0};
    if (engine_runner(&cli->arena, &env.runner_path, &err) < 0)
        env.runner_path = "cubby-runner"; /* its row reports what is missing */
    if (engine_state(&cli->arena, &env.state_dir, &err) < 0)
        env.state_dir = "/run/cubby/run";
    doctor->count += backend_checks(&env, doctor->checks + doctor->count, DOCTOR_CHECKS - doctor->count - 1);
    doctor->count += docker_checks(&env, doctor->checks + doctor->count, DOCTOR_CHECKS - doctor->count - 1);
    struct check *daemon = &doctor->checks[doctor->count++];
    *daemon = (struct check){.name = "daemon"};
    daemon->ok = remote_call(cli, "GET", "/healthz", NULL, NULL, &err) == 0;
    snprintf(daemon->detail, sizeof daemon->detail, daemon->ok ? "answers at %.120s" : "none at %.120s", remote_url());
    if (!daemon->ok)
        snprintf(daemon->fix, sizeof daemon->fix, "start cubbyd, or set CUBBY_URL; `cubby run` needs none");
    if (values.json)
        doctor_json(doctor);
    else
        doctor_table(cli, doctor);
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->checks[i].required && !doctor->checks[i].ok)
            return 1;
    return 0;
}
