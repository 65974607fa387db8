/* `cubby doctor`: shows what this machine lacks for boxes, with fixes, and whether a daemon answers. */
#include <jansson.h>

#include "base/base.h"
#include "backend/backend.h"
#include "cli/cli.h"
#include "cli/standalone.h"
#include "cli/rest/list.h"

#define DOCTOR_CHECKS 64

struct doctor {
    struct check checks[DOCTOR_CHECKS];
    size_t count;
};

static const char *doctor_state(struct cli *, const json_t *check) {
    return json_is_true(json_object_get(check, "ok"))         ? "ok"
           : json_is_true(json_object_get(check, "required")) ? "MISSING"
                                                              : "missing";
}

static void doctor_print(struct cli *cli, const struct doctor *doctor, bool as_json) {
    static const struct rest_column columns[] = {COLUMN("CHECK", "name", TEXT),
                                                 {.head = "", .cell = doctor_state, .kind = REST_STATE},
                                                 COLUMN("FOUND", "detail", TEXT)};
    json_auto_t *rows = json_array();
    bool lacking = false;
    for (const struct check *check = doctor->checks; check < doctor->checks + doctor->count; check++) {
        lacking = lacking || !check->ok;
        json_array_append_new(rows, json_pack("{s:s, s:b, s:b, s:s, s:s?}", "name", check->name, "ok", check->ok,
                                              "required", check->required, "detail", check->detail, "fix",
                                              check->fix[0] ? check->fix : NULL));
    }
    json_auto_t *answer = json_pack("{s:O}", "checks", rows);
    if (as_json) {
        remote_print(answer);
        return;
    }
    rest_table(cli, rows, REST_COLUMNS(columns));
    if (lacking)
        printf("\nTo fix:\n");
    for (const struct check *check = doctor->checks; check < doctor->checks + doctor->count; check++)
        if (!check->ok && check->fix[0])
            printf("  %s: %s\n", check->name, check->fix);
}

/* Adds what a daemon reports about itself. */
static void doctor_asked(struct cli *cli, struct doctor *doctor) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    if (remote_call(cli, "GET", "/v1/info", NULL, &out, ERR_IGNORED) < 0)
        return;
    json_auto_t *info = json_loadb((const char *)out.data, out.len, 0, NULL);
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(info, "checks"), index, row) {
        const char *name, *detail, *fix = json_string_value(json_object_get(row, "fix"));
        int ok;
        if (doctor->count == DOCTOR_CHECKS ||
            json_unpack(row, "{s:s, s:b, s:s}", "name", &name, "ok", &ok, "detail", &detail) < 0)
            continue;
        struct check *check = &doctor->checks[doctor->count++];
        *check = (struct check){.name = arena_strdup(&cli->arena, name), .ok = ok};
        snprintf(check->detail, sizeof check->detail, "%s", detail);
        snprintf(check->fix, sizeof check->fix, "%s", fix ? fix : "");
    }
}

/* Makes the rows of the backends. */
static void doctor_look(struct cli *cli, struct doctor *doctor) {
    struct err err = {0};
    struct backend_env env = {0};
    if (standalone_runner(&cli->arena, &env.runner_path, &err) < 0)
        env.runner_path = "cubby-runner"; /* its row reports what is missing */
    if (standalone_state(&cli->arena, &env.state_dir, &err) < 0)
        env.state_dir = "/run/cubby/run";
    doctor->count += backend_checks(&env, doctor->checks + doctor->count, DOCTOR_CHECKS - doctor->count - 1);
    doctor->count += docker_checks(&env, doctor->checks + doctor->count, DOCTOR_CHECKS - doctor->count - 1);
}

bool doctor_lacking(struct cli *cli) {
    struct doctor *doctor = arena_alloc(&cli->arena, sizeof *doctor);
    bool lacking = false;
    doctor_look(cli, doctor);
    for (const struct check *check = doctor->checks; check < doctor->checks + doctor->count; check++) {
        if (!check->required || check->ok)
            continue;
        fprintf(stderr, "cubby: boxes need %s: %s; %s\n", check->name, rest_shown(cli, check->detail), check->fix);
        lacking = true;
    }
    return lacking;
}

int command_doctor(struct cli *cli, int argc, char **argv) {
    bool as_json = false; /* json_options */
    struct err err = {0};
    struct doctor *doctor = arena_alloc(&cli->arena, sizeof *doctor);
    if (option_parse(cli, argc, argv, &as_json) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    doctor_look(cli, doctor);
    struct check *daemon = &doctor->checks[doctor->count++];
    *daemon = (struct check){.name = "daemon"};
    daemon->ok = remote_call(cli, "GET", "/healthz", NULL, NULL, &err) == 0;
    snprintf(daemon->detail, sizeof daemon->detail, daemon->ok ? "answers at %.120s" : "none at %.120s", remote_url());
    if (!daemon->ok)
        snprintf(daemon->fix, sizeof daemon->fix, "start cubbyd, or set CUBBY_URL; `cubby run` needs none");
    else
        doctor_asked(cli, doctor);
    doctor_print(cli, doctor, as_json);
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->checks[i].required && !doctor->checks[i].ok)
            return 1;
    return 0;
}
