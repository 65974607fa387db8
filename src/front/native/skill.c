/* What skills and sub-agents a box has to offer, over HTTP: as data, or as the block for a system prompt. Called through
 * native_routes. Invariant: one bad file is named in the answer and hides no other. */
#include "front/native/skill.h"

#include <string.h>

#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "skill/base/base.h"
#include "skill/catalog/catalog.h"

#define PROMPT_BYTES (16u << 20)

/* ---- an agent's own ---- */

struct base_names {
    struct arena *arena;
    const char **names;
    size_t count, cap;
};

static int base_name(void *user, const struct base_skill *skill) {
    struct base_names *names = user;
    if (names->count + 1 >= names->cap) {
        size_t cap = names->cap ? 2 * names->cap : 32;
        const char **more = arena_alloc(names->arena, cap * sizeof *more);
        if (names->count)
            memcpy(more, names->names, names->count * sizeof *more);
        names->names = more;
        names->cap = cap;
    }
    names->names[names->count++] = arena_strdup(names->arena, skill->skill);
    return 0;
}

int native_skill_base(void *skills, const char *agent, struct arena *arena, const char ***ret_names, size_t *ret_count,
                      struct err *err) {
    struct base_names names = {.arena = arena};
    int code = base_each(skills, agent, base_name, &names, err);
    if (code == 0) {
        *ret_names = names.names;
        *ret_count = names.count;
    }
    return code;
}

/* ---- as data ---- */

static void texts_json(struct json *json, const char *name, const char *const *texts) {
    json_key(json, name);
    if (!texts) {
        json_nil(json);
        return;
    }
    json_open(json, '[');
    for (; *texts; texts++)
        json_str(json, *texts);
    json_close(json, ']');
}

static void entry_json(struct json *json, const struct catalog_entry *entry, bool agent) {
    const struct meta *meta = &entry->meta;
    const char *const texts[][2] = {
        {"id", entry->id},          {"name", meta->name},       {"description", meta->description},
        {"path", entry->path},      {"file", entry->file},      {"source", entry->source},
        {"author", meta->author},   {"version", meta->version}, {"license", meta->license},
        {"sharing", meta->sharing}, {"model", meta->model},
    };
    const struct {
        const char *name;
        bool value;
    } flags[] = {{"memory", meta->memory}, {"send_message", meta->send_message}, {"spawn_agent", meta->spawn_agent}};
    json_open(json, '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_put_str(json, texts[i][0], texts[i][1]);
    texts_json(json, "tags", meta->tags);
    texts_json(json, "tools", meta->tools);
    for (size_t i = 0; agent && i < sizeof flags / sizeof *flags; i++)
        json_put_bool(json, flags[i].name, flags[i].value);
    json_close(json, '}');
}

static int catalog_answer(struct http_request *request, const struct box *box, const struct catalog *catalog,
                          bool agents, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, 200);
    struct json *json = &answer.json;
    json_open(json, '{');
    json_put_str(json, "workspace", box_workspace(box));
    json_key(json, agents ? "agents" : "skills");
    json_open(json, '[');
    for (size_t i = 0; i < catalog->count; i++) {
        entry_json(json, &catalog->entries[i], agents);
        if (answer_spill(&answer))
            break;
    }
    json_close(json, ']');
    texts_json(json, "bad", catalog->bad);
    json_close(json, '}');
    return answer_end(&answer, 0, err);
}

/* ---- the routes ---- */

static int catalog_handle(struct http_request *request, struct box *box, bool agents, struct err *err) {
    struct catalog_args args = {0};
    struct catalog catalog = {0};
    int failed = front_query(request, &args, err);
    if (!failed)
        failed = (agents ? catalog_agents : catalog_skills)(front_of(request)->tools.catalogs, box, http_arena(request),
                                                            http_fd(request), &catalog, err);
    if (failed)
        return failed;
    if (!args.format.data || strcmp(args.format.data, "prompt") != 0)
        return catalog_answer(request, box, &catalog, agents, err);
    autobuf out = buf_max(PROMPT_BYTES);
    (agents ? catalog_prompt_agents : catalog_prompt_skills)(&catalog, box_workspace(box), &out);
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "the block has more than %u bytes; ask for format=json", PROMPT_BYTES);
    return http_reply(request, 200, "text/plain; charset=utf-8", out.data, out.len);
}

int native_skills(struct http_request *request, struct box *box, struct err *err) {
    return catalog_handle(request, box, false, err);
}

int native_agents(struct http_request *request, struct box *box, struct err *err) {
    return catalog_handle(request, box, true, err);
}
