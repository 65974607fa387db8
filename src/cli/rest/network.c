/* `cubby network`: what a box may reach. Called through the table of commands. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"

struct network_values {
    bool json, keep, remember;
    uint64_t seconds;
};

const struct row network_options[] = {
    OPTION("json", 0, BOOL, struct network_values, json, NULL, "print the answer as JSON"),
    OPTION("keep", 0, BOOL, struct network_values, keep, NULL,
           "leave connections open that the change forbids, until they end"),
    OPTION("remember", 0, BOOL, struct network_values, remember, NULL, "answer: change the policy, too"),
    OPTION("for", 0, INT, struct network_values, seconds, "SECONDS", "answer: allow connections alike for so long"),
    {.name = NULL},
};

static const char *network_shown(struct cli *cli, const char *text) {
    autobuf out = buf_max(8192);
    text_shown(&out, text ? text : "", text ? strlen(text) : 0);
    return arena_copy(&cli->arena, out.data, out.len);
}

static void network_lines(struct cli *cli, const json_t *list, const char *before) {
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        char *text = json_dumps(entry, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        if (json_is_string(entry))
            printf("%s %s\n", before, network_shown(cli, json_string_value(entry)));
        else
            printf("%s %s\n", before, text);
        free(text);
    }
}

static void network_print(struct cli *cli, const json_t *answer, bool json) {
    const json_t *network = json_object_get(answer, "network");
    if (json) {
        remote_print(answer);
        return;
    }
    if (json_is_string(network)) {
        printf("network %s\n", json_string_value(network));
        return;
    }
    const char *mode = json_string_value(json_object_get(network, "mode"));
    printf("policy, generation %lld, mode %s\n", json_integer_value(json_object_get(answer, "generation")),
           mode ? mode : "enforce");
    network_lines(cli, json_object_get(network, "allow"), "allow");
    network_lines(cli, json_object_get(network, "deny"), "deny");
    network_lines(cli, json_object_get(answer, "warnings"), "warning:");
    if (json_is_true(json_object_get(answer, "live")))
        printf("%lld connections, %lld open, %lld refused, %lld names refused\n",
               json_integer_value(json_object_get(answer, "connections")),
               json_integer_value(json_object_get(answer, "active")),
               json_integer_value(json_object_get(answer, "denied")),
               json_integer_value(json_object_get(answer, "names_denied")));
}

static int network_call(struct cli *cli, const char *method, const char *path, const struct buf *body, bool json) {
    struct err err = {0};
    json_auto_t *answer = NULL;
    if (remote_json(cli, method, path, body, &answer, &err) < 0)
        return cli_fail(&err);
    network_print(cli, answer, json);
    return 0;
}

/* "allow" and "deny" add entries to their list; "rm" removes them from the list that has them. */
static int network_edit(struct cli *cli, const char *verb, const char *path, char **entries, int count, bool json) {
    struct err err = {0};
    json_auto_t *now = NULL, *lists = json_object(), *change = json_object();
    bool drop = strcmp(verb, "rm") == 0;
    if (drop && remote_json(cli, "GET", path, NULL, &now, &err) < 0)
        return cli_fail(&err);
    for (int i = 0; i < count; i++) {
        json_auto_t *entry = entries[i][0] == '{' ? json_loads(entries[i], 0, NULL) : json_string(entries[i]);
        const json_t *denied = json_object_get(json_object_get(now, "network"), "deny");
        const char *name = drop ? "allow" : verb;
        for (size_t j = 0; drop && j < json_array_size(denied); j++)
            name = json_equal(json_array_get(denied, j), entry) ? "deny" : name;
        if (!json_object_get(lists, name))
            json_object_set_new(lists, name, json_array());
        json_array_append(json_object_get(lists, name), entry);
    }
    const char *name;
    json_t *list;
    json_object_foreach(lists, name, list)
        json_object_set_new(change, name, json_pack("{s:O}", drop ? "remove" : "add", list));
    char *text = json_dumps(change, JSON_COMPACT);
    autobuf body = buf_max(1 << 20);
    buf_puts(&body, text);
    free(text);
    return network_call(cli, "PATCH", path, &body, json);
}

static int network_put(struct cli *cli, const char *path, const char *word, bool json) {
    autobuf body = buf_max(1 << 20);
    struct json out;
    const char *network = box_options_network(cli, word, NULL);
    json_init(&out, &body);
    json_open(&out, '{');
    if (network[0] == '{')
        json_put_raw(&out, "network", network, strlen(network));
    else
        json_put_str(&out, "network", network);
    json_close(&out, '}');
    return network_call(cli, "PUT", path, &body, json);
}

static int network_log(struct cli *cli, const char *id, bool as_json) {
    struct err err = {0};
    json_auto_t *answer = NULL;
    json_t *row;
    size_t i;
    if (remote_json(cli, "GET", arena_printf(&cli->arena, "/v1/audit?box=%s&tail=true&limit=1000", id), NULL, &answer,
                    &err) < 0)
        return cli_fail(&err);
    json_array_foreach(json_object_get(answer, "events"), i, row) {
        const char *verb = json_string_value(json_object_get(row, "verb"));
        const char *detail = json_string_value(json_object_get(row, "detail"));
        if (!verb || strncmp(verb, "net_", 4) != 0)
            continue;
        if (as_json)
            remote_print(row);
        else
            printf("%s %-11s %-6s %s\n", json_string_value(json_object_get(row, "at")), verb,
                   json_string_value(json_object_get(row, "outcome")), detail ? network_shown(cli, detail) : "");
    }
    return 0;
}

static int network_test(struct cli *cli, const char *id, const char *to, bool json) {
    struct err err = {0};
    json_auto_t *answer = NULL;
    const char *path =
        arena_printf(&cli->arena, "%s?to=%s", remote_path(cli, id, "/network/test", NULL), remote_encoded(cli, to));
    if (remote_json(cli, "GET", path, NULL, &answer, &err) < 0)
        return cli_fail(&err);
    bool allowed = json_is_true(json_object_get(answer, "allowed"));
    if (json)
        remote_print(answer);
    else
        printf("%s: %s by %s\n", network_shown(cli, to),
               json_is_true(json_object_get(answer, "ask")) ? "a question"
               : allowed                                    ? "allowed"
                                                            : "refused",
               network_shown(cli, json_string_value(json_object_get(answer, "why"))));
    return allowed ? 0 : 1;
}

static int network_reply(struct cli *cli, const char *id, const char *question, const char *verdict,
                         const struct network_values *values) {
    struct err err = {0};
    uint64_t number;
    bool allow = strcmp(verdict, "allow") == 0;
    if (!text_u64(question, INT64_MAX, &number) || (!allow && strcmp(verdict, "deny") != 0))
        option_fail(cli, "an answer is QUESTION allow|deny; `cubby network log` shows questions (net_ask)");
    autobuf body = buf_max(4096);
    buf_printf(&body, "{\"question\":%llu,\"verdict\":\"%s\",\"remember\":%s,\"for_ms\":%llu}",
               (unsigned long long)number, verdict, values->remember ? "true" : "false",
               (unsigned long long)values->seconds * 1000);
    return remote_call(cli, "POST", remote_path(cli, id, "/network/answers", NULL), &body, NULL, &err) < 0
               ? cli_fail(&err)
               : 0;
}

static int network_authority(struct cli *cli, bool json) {
    struct err err = {0};
    json_auto_t *answer = NULL;
    if (remote_json(cli, "GET", "/v1/network/ca", NULL, &answer, &err) < 0)
        return cli_fail(&err);
    const char *text = json_string_value(json_object_get(answer, "certificate"));
    if (json)
        remote_print(answer);
    else
        fputs(text ? text : "", stdout);
    return 0;
}

int command_network(struct cli *cli, int argc, char **argv) {
    struct network_values values = {0};
    struct err err = {0};
    int count = option_parse(cli, argc, argv, &values);
    if (count == 1 && strcmp(argv[0], "ca") == 0)
        return network_authority(cli, values.json);
    if (count < 2)
        option_fail(cli, "missing verb or box ID");
    const char *verb = argv[0], *id = remote_box(cli, argv[1]), *path = remote_path(cli, id, "/network", NULL);
    if (values.keep)
        path = arena_printf(&cli->arena, "%s?existing=keep", path);
    bool edits = strcmp(verb, "allow") == 0 || strcmp(verb, "deny") == 0 || strcmp(verb, "rm") == 0;
    if (edits && count > 2)
        return network_edit(cli, verb, path, argv + 2, count - 2, values.json);
    if (strcmp(verb, "set") == 0 && count == 3)
        return network_put(cli, path, argv[2], values.json);
    if (strcmp(verb, "show") == 0 && count == 2)
        return network_call(cli, "GET", path, NULL, values.json);
    if (strcmp(verb, "test") == 0 && count == 3)
        return network_test(cli, id, argv[2], values.json);
    if (strcmp(verb, "log") == 0 && count == 2)
        return network_log(cli, id, values.json);
    if (strcmp(verb, "answer") == 0 && count == 4)
        return network_reply(cli, id, argv[2], argv[3], &values);
    if (strcmp(verb, "learn") != 0 || count != 2)
        option_fail(cli, "'%s' is not a verb of `cubby network`, or has the wrong number of words", verb);
    json_auto_t *answer = NULL;
    if (remote_json(cli, "GET", remote_path(cli, id, "/network/learned", NULL), NULL, &answer, &err) < 0)
        return cli_fail(&err);
    remote_print(json_object_get(answer, "network"));
    return 0;
}
