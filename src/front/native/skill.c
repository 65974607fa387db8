/* The skills and sub-agents of a box over HTTP: as data, or as a block for a system prompt. Called through
 * native_routes. Invariant: one bad file is named in the answer and hides no other. */
#include "front/native/native.h"

#include "skill/base/base.h"

#define PROMPT_BYTES (16u << 20)

/* ---- an agent's public skills ---- */

struct base_names {
    struct arena *arena;
    const char **names;
    size_t count, cap;
};

static int skill_base_name(void *user, const struct base_skill *skill) {
    struct base_names *names = user;
    arena_add(names->arena, names->names, names->count, names->cap) = arena_strdup(names->arena, skill->skill);
    return 0;
}

int native_skill_base(void *skills, const char *agent, struct arena *arena, const char ***ret_names, size_t *ret_count,
                      struct err *err) {
    struct base_names names = {.arena = arena};
    int code = base_each(skills, agent, skill_base_name, &names, err);
    if (code == 0) {
        *ret_names = names.names;
        *ret_count = names.count;
    }
    return code;
}

/* ---- the routes ---- */

bool native_of_agents(const struct http_request *request) {
    return !strncmp(http_route(request)->name, "agent", 5);
}

int native_catalog(struct http_request *request, struct box *box, struct err *err) {
    bool agents = native_of_agents(request);
    struct native_args args = {0};
    struct catalog catalog = {0};
    STEP(front_query(request, &args, err)
             ?: (agents ? catalog_agents : catalog_skills)(front_of(request)->tools.catalogs, box, http_arena(request),
                                                           http_fd(request), &catalog, err));
    if (!args.format.data || strcmp(args.format.data, "prompt") != 0) {
        const struct catalog_out rest = {box_workspace(box), catalog.bad};
        autoanswer answer;
        answer_list(&answer, request, agents ? agents_answer : skills_answer);
        for (size_t i = 0; i < catalog.count && !answer_item(&answer, &catalog.entries[i]); i++)
            ;
        return answer_list_end(&answer, &rest, 0, err);
    }
    autobuf out = buf_max(PROMPT_BYTES);
    (agents ? catalog_prompt_agents : catalog_prompt_skills)(&catalog, box_workspace(box), &out);
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "the block has more than %u bytes; ask for format=json", PROMPT_BYTES);
    return http_reply(request, 200, "text/plain; charset=utf-8", out.data, out.len);
}

/* ---- global skills and sub-agents, placed in the box ---- */

static int skill_sync_answer(struct http_request *request, const struct sync_report *report, struct err *err) {
    const struct sync_out out = {.report = *report,
                                 .version = *report->version ? report->version : NULL,
                                 .error = *report->error ? report->error : NULL};
    return answer_rows(request, 200, sync_report_answer, &out, err);
}

int native_synced(struct http_request *request, struct box *box, struct err *err) {
    struct sync_report report = {.how = "none"};
    sync_last(front_of(request)->skills, box, &report);
    return skill_sync_answer(request, &report, err);
}

/* A failure is part of the report, which is the answer. */
int native_sync(struct http_request *request, struct box *box, struct err *err) {
    struct sync_report report = {.how = "none"};
    struct err failed;
    int code = sync_box(front_of(request)->skills, box, &report, &failed);
    if (code == -ERR_GONE) {
        *err = failed;
        return code;
    }
    return skill_sync_answer(request, &report, err);
}
