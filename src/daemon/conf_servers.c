/* The option mcp_servers of the file: a mapping of names to what PUT /v1/mcp/servers/NAME takes, as YAML. Called by
 * conf_file.c through its table, and by the daemon when it starts and reloads. Invariant: it is checked by the rows
 * of that request. */
#include <jansson.h>

#include "base/base.h"
#include "daemon/conf_table.h"
#include "tool/servers/servers.h"

/* Writes one member of a server as JSON, by the type of its row; the rows report a mismatch. */
static int servers_member(const struct rows_yaml *item, const struct row *field, json_t **ret_json, struct err *err) {
    bool map = field->type == ROW_MAP;
    uint64_t number;
    if (map || field->type == ROW_TEXTS) {
        TRY(rows_yaml_is(item, map ? ROWS_YAML_MAP : ROWS_YAML_LIST, item->key, 0, err));
        *ret_json = map ? json_object() : json_array();
        for (size_t i = 0; i < item->count; i++) {
            const struct rows_yaml *part = &item->items[i];
            TRY(rows_yaml_is(part, ROWS_YAML_TEXT, map ? part->key : item->key, 0, err));
            if (map)
                json_object_set_new(*ret_json, part->key, json_string(part->text));
            else
                json_array_append_new(*ret_json, json_string(part->text));
        }
        return 0;
    }
    TRY(rows_yaml_is(item, ROWS_YAML_TEXT, item->key, 0, err));
    if (field->type == ROW_INT && text_u64(item->text, INT64_MAX, &number))
        *ret_json = json_integer((json_int_t)number);
    else if (field->type == ROW_BOOL && rows_choice("true|false", item->text))
        *ret_json = json_boolean(item->text[0] == 't');
    else
        *ret_json = json_string(item->text);
    return 0;
}

static int servers_read(const struct rows_yaml *server, struct arena *arena, struct row_texts *list, struct err *err) {
    struct server_spec spec;
    json_auto_t *body = json_object();
    TRY(rows_yaml_is(server, ROWS_YAML_MAP, "an MCP server", 0, err));
    for (size_t i = 0; i < server->count; i++) {
        const struct rows_yaml *item = &server->items[i];
        const struct row *field = rows_find(server_fields, item->key, strlen(item->key));
        json_t *json = NULL;
        if (!field) {
            rows_unknown(server_fields, "key", item->key, err);
            return rows_yaml_at_key(item, err);
        }
        int failed = servers_member(item, field, &json, err);
        json_object_set_new(body, item->key, json ? json : json_null());
        TRY(failed);
    }
    if (server_spec_take(body, server->key, arena, &spec, err)) {
        err_wrap(err, "mcp_servers: %.40s", server->key);
        return rows_yaml_at_key(server, err);
    }
    rows_texts_add(arena, list, arena_printf(arena, "%s=%s", spec.name, spec.text));
    return 0;
}

int conf_read_servers(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                      struct err *err) {
    TRY(rows_yaml_is(value, ROWS_YAML_MAP, option->name, LIMIT_SERVERS_PER_USER, err));
    for (size_t i = 0; i < value->count; i++)
        TRY(servers_read(&value->items[i], &target->conf->arena, conf_slot(target, option), err));
    return 0;
}

/* ---- for the daemon ---- */

static size_t servers_rows_add(struct arena *arena, const struct row_texts *list, const char *user,
                               struct servers_row *rows) {
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        rows[i] = (struct servers_row){.user = user,
                                       .name = arena_copy(arena, list->items[i], (size_t)(equals - list->items[i])),
                                       .text = equals + 1};
    }
    return list->count;
}

void conf_servers(const struct conf *conf, struct servers *servers) {
    size_t row = conf_row(rows_find(conf_options, "mcp_servers", strlen("mcp_servers"))), count = 0,
           most = conf->share.servers.count;
    autoarena arena = ARENA_EMPTY;
    for (size_t i = 0; i < conf->user_count; i++)
        most += conf->users[i].share.servers.count + 1;
    struct servers_row *rows = arena_alloc(&arena, (most + 1) * sizeof *rows);
    count += servers_rows_add(&arena, &conf->share.servers, NULL, rows);
    for (size_t i = 0; i < conf->user_count; i++) {
        const struct conf_user *user = &conf->users[i];
        if (!user->given[row])
            continue;
        rows[count++] = (struct servers_row){.user = user->name};
        count += servers_rows_add(&arena, &user->share.servers, user->name, rows + count);
    }
    servers_configure(servers, rows, count);
}
