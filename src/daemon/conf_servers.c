/* The option mcp_servers of the file: a mapping of names to what PUT /v1/mcp/servers/NAME takes, as YAML. Called by
 * conf_file.c through its table, and by the daemon when it starts and reloads. Invariant: it is checked by the rows
 * of that request. */
#include <jansson.h>

#include "base/base.h"
#include "daemon/conf_table.h"
#include "tool/servers/servers.h"

static int servers_node_texts(struct conf_reader *reader, const yaml_node_t *node, const char *name, json_t *to,
                              struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = json_is_object(to) ? conf_pairs(reader, node, name, 0, &pairs, &count, err)
                                    : conf_items(reader, node, name, 0, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++) {
        const char *key = pairs[i].key, *value;
        failed = conf_scalar(reader, pairs[i].value, key ? key : name, &value, NULL, err);
        if (!failed && key)
            json_object_set_new(to, key, json_string(value));
        else if (!failed)
            json_array_append_new(to, json_string(value));
    }
    return failed;
}

/* A scalar by its row; the rows report a mismatch. */
static json_t *servers_scalar_json(const struct row *field, const char *value) {
    uint64_t number;
    if (field->type == ROW_INT && text_u64(value, INT64_MAX, &number))
        return json_integer((json_int_t)number);
    if (field->type == ROW_BOOL && strcmp(value, "true") == 0)
        return json_true();
    if (field->type == ROW_BOOL && strcmp(value, "false") == 0)
        return json_false();
    return json_string(value);
}

static int servers_node_member(struct conf_reader *reader, const struct conf_pair *pair, json_t *body,
                               struct err *err) {
    const struct row *field = rows_find(server_fields, pair->key, strlen(pair->key));
    const char *value;
    if (!field) {
        rows_unknown(server_fields, "key", pair->key, err);
        return conf_at(reader, pair->key_node, err);
    }
    if (field->type == ROW_TEXTS || field->type == ROW_MAP) {
        json_t *to = field->type == ROW_MAP ? json_object() : json_array();
        json_object_set_new(body, pair->key, to);
        return servers_node_texts(reader, pair->value, pair->key, to, err);
    }
    int failed = conf_scalar(reader, pair->value, pair->key, &value, NULL, err);
    if (!failed)
        json_object_set_new(body, pair->key, servers_scalar_json(field, value));
    return failed;
}

static int read_server(struct conf_reader *reader, const struct conf_pair *server, struct row_texts *list,
                       struct err *err) {
    struct conf_pair *pairs;
    struct server_spec spec;
    size_t count;
    int failed = conf_pairs(reader, server->value, "an MCP server", 0, &pairs, &count, err);
    json_auto_t *body = json_object();
    for (size_t i = 0; !failed && i < count; i++)
        failed = servers_node_member(reader, &pairs[i], body, err);
    if (!failed && server_spec_take(body, server->key, &reader->conf->arena, &spec, err)) {
        err_wrap(err, "mcp_servers: %.40s", server->key);
        failed = conf_at(reader, server->key_node, err);
    }
    if (!failed)
        rows_texts_add(&reader->conf->arena, list, arena_printf(&reader->conf->arena, "%s=%s", spec.name, spec.text));
    return failed;
}

int conf_read_servers(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                      const yaml_node_t *node, struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = conf_pairs(reader, node, option->name, LIMIT_SERVERS_PER_USER, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++)
        failed = read_server(reader, &pairs[i], conf_slot(target, option), err);
    return failed;
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
    size_t row = conf_row(conf_find("mcp_servers")), count = 0, most = conf->share.servers.count;
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
