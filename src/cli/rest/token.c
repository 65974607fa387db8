/* `cubby token`: tokens for the daemon. Asks the daemon, or, with --state, works on its file: that is how a daemon that
 * demands tokens gets its first one. Invariant: the secret goes to standard output once, and nowhere else. */
#include <assert.h>
#include <jansson.h>

#include "base/base.h"
#include "store/token.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

#define DAY_MS 86400000ull

struct token_values {
    const char *user, *scope, *runner, *worker, *label, *state;
    uint64_t expires_days;
    bool json;
};

const struct row token_options[] = {
    OPTION("user", 'u', TEXT, struct token_values, user, "NAME",
           "user whose boxes it reaches (default: user \"default\")"),
    OPTION("scope", 0, TEXT, struct token_values, scope, "admin|user|read", "what it may do (default: user)"),
    OPTION("runner", 0, TEXT, struct token_values, runner, "NAME",
           "make it for the machine of this name, for `cubby join`"),
    OPTION("worker", 0, TEXT, struct token_values, worker, "NAME",
           "make it for the worker of this name, for `cubby join --worker`"),
    OPTION("expires", 0, INT, struct token_values, expires_days, "DAYS", "expire it after DAYS"),
    OPTION("label", 0, TEXT, struct token_values, label, "TEXT", "note about its purpose"),
    OPTION("state", 0, TEXT, struct token_values, state, "DIR",
           "work on the files of the daemon with this state directory instead of asking it"),
    OPTION("json", 0, BOOL, struct token_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

/* ---- the file ---- */

/* The daemon's own words about its state directory hold here too. It is made, so that the first token can come before
 * the first start. */
static int token_store(const char *directory, struct token_store **ret_store, struct err *err) {
    struct stat status;
    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "state directory %s", directory);
    if (stat(directory, &status) < 0)
        return err_errno(err, errno, "state directory %s", directory);
    if (!S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a directory", directory);
    if (geteuid() != 0 && status.st_uid != geteuid())
        return err_set(err, ERR_DENIED, "%s belongs to uid %u: only that user and root may manage its tokens",
                       directory, status.st_uid);
    return token_store_open(directory, ret_store, err);
}

/* What create and list answer, from the file. */
static json_t *token_here(struct cli *cli, const struct token_values *values, bool create) {
    struct token token = {.user = values->user, .runner = values->runner, .label = values->label}, *tokens = &token;
    struct token_store *store = NULL;
    char text[TOKEN_TEXT_BYTES];
    size_t count = 1;
    struct err err = {0};
    if (values->scope && !scope_find(values->scope, &token.scope))
        cli_must(err_set(&err, ERR_INVALID, "--scope must be admin, user or read, not '%s'", values->scope), &err);
    if (values->expires_days)
        token.expires_ms = clock_wall_ms() + values->expires_days * DAY_MS;
    int code = (create ? token_wish(&token, values->scope, &err) : 0) ?: token_store(values->state, &store, &err);
    if (code == 0)
        code = create ? token_create(store, &token, text, &err) : token_list(store, &cli->arena, &tokens, &count, &err);
    token_store_close(store);
    cli_must(code, &err);
    autobuf out = buf_max(256u << 20);
    struct json json = json_begin(&out);
    if (create) {
        token_members(&token, &json);
        json_put_str(&json, "token", text);
    } else {
        json_put_open(&json, "tokens", '[');
        for (size_t i = 0; i < count; i++) {
            json_open(&json, '{');
            token_members(&tokens[i], &json);
            json_close(&json, '}');
        }
        json_close(&json, ']');
    }
    json_close(&json, '}');
    json_t *answer = json_loadb((const char *)out.data, out.len, 0, NULL);
    assert(answer); /* we wrote it */
    return answer;
}

/* ---- create ---- */

static json_t *token_create_there(struct cli *cli, const struct token_values *values) {
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    struct json json = json_begin(&body);
    json_put_some(&json, "user", values->user);
    json_put_some(&json, "scope", values->scope);
    json_put_some(&json, "runner", values->runner);
    json_put_some(&json, "label", values->label);
    if (values->expires_days)
        json_put_uint(&json, "expires_in_ms", values->expires_days * DAY_MS);
    json_close(&json, '}');
    return rest_need(cli, "POST", "/v1/tokens", &body);
}

static int token_command_create(struct cli *cli, const struct token_values *values) {
    json_auto_t *answer = values->state ? token_here(cli, values, true) : token_create_there(cli, values);
    const char *text = rest_text(answer, "token"), *id = rest_text(answer, "id");
    if (values->json)
        remote_print(answer);
    else if (text && id)
        printf("%s\n", text);
    if (!values->json && text && id && isatty(1))
        fprintf(stderr, "This is token %s. It is shown only now; use it as CUBBY_TOKEN or 'Authorization: Bearer'.\n",
                id);
    return fflush(stdout) == 0 && text && id ? 0 : EXIT_OURS;
}

/* ---- list ---- */

/* "revoked", "expired", "file" for one of the configuration, else "good". */
static const char *token_state(struct cli *, const json_t *row) {
    uint64_t expires_ms;
    const char *expires = json_string_value(json_object_get(row, "expires_at"));
    if (json_is_true(json_object_get(row, "configured")))
        return "file";
    if (json_is_string(json_object_get(row, "revoked_at")))
        return "revoked";
    return expires && clock_parse(expires, &expires_ms) && expires_ms <= clock_wall_ms() ? "expired" : "good";
}

static int token_command_list(struct cli *cli, const struct token_values *values) {
    static const struct rest_column columns[] = {
        COLUMN("ID", "id", TEXT),
        CELL("STATE", token_state),
        COLUMN("SCOPE", "scope", TEXT),
        COLUMN("USER", "user", TEXT),
        COLUMN("RUNNER", "runner", TEXT),
        COLUMN("CREATED", "created_at", TEXT),
        COLUMN("EXPIRES", "expires_at", TEXT),
        COLUMN("USED", "last_used_at", TEXT),
        COLUMN("LABEL", "label", TEXT),
    };
    if (!values->state)
        return rest_list(cli, "/v1/tokens", "tokens", REST_COLUMNS(columns), values->json);
    json_auto_t *answer = token_here(cli, values, false);
    if (values->json)
        remote_print(answer);
    else
        rest_table(cli, json_object_get(answer, "tokens"), REST_COLUMNS(columns));
    return 0;
}

/* ---- revoke ---- */

static int token_command_revoke(struct cli *cli, const struct token_values *values, const char *id) {
    struct err err = {0};
    struct token_store *store = NULL;
    int code;
    if (strlen(id) != TOKEN_ID_BYTES - 1 || strspn(id, "0123456789abcdef") != TOKEN_ID_BYTES - 1)
        option_fail(cli, "a token ID has %d hex digits (see `cubby token list`)", TOKEN_ID_BYTES - 1);
    if (values->state) {
        code = token_store(values->state, &store, &err) ?: token_revoke(store, id, &err);
        token_store_close(store);
    } else {
        code = remote_call(cli, "DELETE", arena_printf(&cli->arena, "/v1/tokens/%s", id), NULL, NULL, &err);
    }
    return code < 0 ? cli_fail(&err) : 0;
}

int command_token(struct cli *cli, int argc, char **argv) {
    struct token_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    const char *action = argc ? argv[0] : "";
    bool create = !strcmp(action, "create"), list = command_verb(action, "list"),
         revoke = command_verb(action, "revoke");
    if (!create && !list && !revoke)
        option_fail(cli, "missing or unknown subcommand: create, list or revoke ID");
    if (argc != (revoke ? 2 : 1))
        option_fail(cli, revoke ? "%s takes one token ID (see `cubby token list`)" : "%s takes no arguments", action);
    if (values.worker && (values.runner || values.scope || values.user))
        option_fail(cli, "--worker goes without --runner, --scope and --user");
    if (values.worker) {
        values.runner = values.worker;
        values.scope = "worker";
    }
    if (!create && (values.user || values.scope || values.runner || values.label || values.expires_days))
        option_fail(cli, "%s takes --state and --json only", action);
    if (values.state && values.state[0] != '/')
        option_fail(cli, "--state must be an absolute path, not '%s'", values.state);
    if (values.expires_days > LIMIT_TOKEN_DAYS)
        option_fail(cli, "--expires is at most %u days", LIMIT_TOKEN_DAYS);
    return create ? token_command_create(cli, &values)
           : list ? token_command_list(cli, &values)
                  : token_command_revoke(cli, &values, argv[1]);
}
