/* agent: the roles that sub-agents can have, and the instructions of one. A row of tool_table. It does not start a
 * sub-agent; the host does, based on this answer. */

#include "rows/write.h"
#include "skill/catalog/catalog.h"
#include "tool/tool.h"

enum { AGENT_BYTES = 256 << 10, AGENT_LIST_BYTES = 64 << 10, AGENT_BAD = 20 };

struct agent_args {
    struct row_text name, description;
};

static const struct row agent_fields[] = {
    {ARG(agent_args, name, TEXT), .flags = ROW_AUDITED, .max = 512,
     .text = "Name of the role; omit it to list all roles."},
    TOOL_DESCRIPTION(struct agent_args),
    {.name = NULL},
};

struct agent_role {
    const char *name, *description, *path, *source, *model, *prompt;
    const char *const *tools;
    bool memory, send_message, spawn_agent;
};

static const struct row agent_role_answer[] = {
    {ARG(agent_role, name, TEXT), .flags = ROW_REQUIRED, .text = "Name of the role."},
    {ARG(agent_role, description, TEXT), .flags = ROW_REQUIRED, .text = "What it is good at."},
    {ARG(agent_role, path, TEXT), .flags = ROW_REQUIRED, .text = "Its file in the box."},
    {ARG(agent_role, source, TEXT), .flags = ROW_REQUIRED, .text = "personal or global."},
    {ARG(agent_role, model, TEXT), .flags = ROW_REQUIRED | ROW_NULLABLE, .text = "The model it wants; null for any."},
    {ARG(agent_role, tools, TEXTS), .flags = ROW_REQUIRED | ROW_NULLABLE,
     .text = "The tools it may use; null for all."},
    {ARG(agent_role, memory, BOOL), .flags = ROW_REQUIRED, .text = "It may remember."},
    {ARG(agent_role, send_message, BOOL), .flags = ROW_REQUIRED, .text = "It may send messages."},
    {ARG(agent_role, spawn_agent, BOOL), .flags = ROW_REQUIRED, .text = "It may start sub-agents."},
    {ARG(agent_role, prompt, TEXT), .text = "Its instructions; only if a name was given."},
    {.name = NULL},
};

static const struct row agent_answer[] = {
    {ANSWER("agents", OBJECTS), .flags = ROW_REQUIRED, .fields = agent_role_answer,
     .text = "All roles, or the one named."},
    {.name = NULL},
};

static void agent_json(struct json *json, const struct catalog_entry *entry, const struct meta *meta,
                       const char *prompt) {
    const struct agent_role role = {.name = meta->name,
                                    .description = meta->description,
                                    .path = entry->path,
                                    .source = entry->source,
                                    .model = meta->model,
                                    .prompt = prompt,
                                    .tools = meta->tools,
                                    .memory = meta->memory,
                                    .send_message = meta->send_message,
                                    .spawn_agent = meta->spawn_agent};
    rows_write(json, agent_role_answer, &role);
}

static void agent_say_list(struct tool_call *call, const char *label, const char *const *texts) {
    if (!texts)
        return;
    tool_say(call, "%s:", label);
    for (size_t i = 0; texts[i]; i++)
        tool_say(call, "%s %s", i ? "," : "", texts[i]);
    tool_say(call, "%s\n", texts[0] ? "" : " none");
}

static int agent_one(struct tool_call *call, const struct catalog_entry *entry, struct err *err) {
    struct json *json = &call->result.json;
    const char *text, *why = NULL;
    struct meta meta;
    size_t len;
    TRY(catalog_read(call->box, entry->file, AGENT_BYTES, call->arena, call->watch, &text, &len, err));
    if (!meta_agent(call->arena, strrchr(entry->file, '/') + 1, text, len, &meta, &why))
        return tool_fail(call, "%s: %s", entry->path, why);
    json_open(json, '{');
    json_put_open(json, "agents", '[');
    agent_json(json, entry, &meta, meta.body);
    json_close(json, ']');
    json_close(json, '}');
    bool more = len == AGENT_BYTES;
    static const char *const none[] = {NULL};
    const char *may[] = {NULL, NULL, NULL, NULL};
    size_t count = 0;
    if (meta.memory)
        may[count++] = "remember";
    if (meta.send_message)
        may[count++] = "send messages";
    if (meta.spawn_agent)
        may[count++] = "start sub-agents";
    tool_say(call, "Role: %s\nDescription: %s\nFile: %s\n", meta.name, meta.description, entry->path);
    if (meta.model)
        tool_say(call, "Model: %s\n", meta.model);
    agent_say_list(call, "Tools", meta.tools);
    agent_say_list(call, "May", count ? may : none);
    tool_say(call, "\n%s", *meta.body ? meta.body : "(no instructions)");
    if (more)
        tool_say(call, "\n[Truncated; the whole file is %s.]", entry->path);
    return 0;
}

static int agent_run(struct tool_call *call, const void *user, struct err *err) {
    const struct agent_args *args = user;
    struct catalog catalog;
    call->result.whole = true;
    int code =
        tool_box(call, err) ?: catalog_agents(call->host->catalogs, call->box, call->arena, call->watch, &catalog, err);
    if (code < 0)
        return code;
    if (!args->name.len) {
        struct json *json = &call->result.json;
        json_open(json, '{');
        json_put_open(json, "agents", '[');
        if (!catalog.count)
            tool_say(call, "No roles are available.");
        size_t shown = 0;
        for (; shown < catalog.count && call->result.text.total < AGENT_LIST_BYTES; shown++) {
            const struct catalog_entry *entry = &catalog.entries[shown];
            tool_say(call, "%s%s: %s", shown ? "\n" : "", entry->meta.name, entry->meta.description);
            agent_json(json, entry, &entry->meta, NULL);
        }
        if (shown < catalog.count)
            tool_say(call, "\nand %zu more", catalog.count - shown);
        for (size_t i = 0; i < AGENT_BAD && catalog.bad[i]; i++)
            tool_say(call, "\nNot usable: %s", catalog.bad[i]);
        json_close(json, ']');
        json_close(json, '}');
        return 0;
    }
    const struct catalog_entry *entry = catalog_find(&catalog, args->name.data);
    if (entry)
        return agent_one(call, entry, err);
    return tool_fail(call, "unknown role: %s%s%s", args->name.data,
                     catalog.count ? "; available: " : "; no roles are available",
                     catalog_names(&catalog, call->arena));
}

const struct tool tool_agent = {
    TOOL(agent, "Roles for sub-agents"), .answer = agent_answer, .flags = TOOL_READS | TOOL_SAME, .cut = TOOL_WHOLE,
    .description =
        "Show the roles available for sub-agents. Without a name, lists all roles and what each is good at. With a "
        "name, shows that role's instructions, the model and tools it wants, and its permissions. It does not "
        "start an agent."};
