/* Changing and sharing skills over HTTP: uploads into a box, the registry, and copies between a user's skills and those
 * of the agent. Called through native_routes; native/skill.c lists what a box offers. Invariant: only admins change an
 * agent's base, and what a user may not see is answered as if it did not exist. */
#include "front/native/native.h"

enum { PIECE_BYTES = 64 << 10 };
#define UPLOAD_BYTES (50ull << 20) /* of a ZIP, unless configured */

/* Gets the arguments by `take` (front_query or front_body; NULL: none), and the skills. */
static int registry_asked(struct http_request *request, int (*take)(struct http_request *, void *, struct err *),
                          void *ret_args, struct skills **ret_skills, struct err *err) {
    int failed = take ? take(request, ret_args, err) : 0;
    *ret_skills = front_of(request)->skills;
    if (!failed && !*ret_skills)
        return err_set(err, ERR_UNSUPPORTED, "this daemon has no skills");
    return failed;
}

static struct registry_asker registry_asker_of(struct http_request *request) {
    const struct who *who = front_who(request);
    return (struct registry_asker){.user = who->user ? who->user : "default", .admin = who->scope == SCOPE_ADMIN};
}

static int registry_admin_only(struct http_request *request, const char *what, struct err *err) {
    return front_who(request)->scope == SCOPE_ADMIN ? 0
                                                    : err_set(err, ERR_DENIED, "%s needs a token of scope admin", what);
}

/* Gets the agent whose skills a box has. */
static int registry_agent_of(const struct box *box, const char **ret_agent, struct err *err) {
    *ret_agent = box->spec.agent;
    if (*ret_agent)
        return 0;
    return err_set(err, ERR_INVALID, "box %s has no agent, and so no skills of one: make a box with \"agent\"",
                   box->id);
}

/* ---- entries ---- */

static int registry_entry_reply(struct http_request *request, int status, const struct registry_entry *entry,
                                struct err *err) {
    const struct entry_out out = {.entry = *entry, .sha256 = entry->sha256};
    return answer_rows(request, status, entry_answer, &out, err);
}

static int registry_search_row(void *user, const struct registry_entry *entry) {
    const struct entry_out out = {.entry = *entry, .sha256 = entry->sha256};
    return answer_item(user, &out);
}

int native_registry_search(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct skills *skills;
    struct registry_asker asker = registry_asker_of(request);
    struct registry_out out = {0};
    STEP(registry_asked(request, front_query, &args, &skills, err));
    struct registry_query query = {.type = args.type.data,
                                   .text = args.text.data,
                                   .mine = args.mine,
                                   .versions = args.versions,
                                   .limit = (unsigned)args.limit.value,
                                   .offset = (unsigned)args.offset.value};
    autoanswer answer;
    answer_list(&answer, request, registry_answer);
    int failed = registry_search(skills, &asker, &query, registry_search_row, &answer, &out.total, err);
    return answer_list_end(&answer, &out, failed, err);
}

/* A path parameter cannot contain the slash of AUTHOR/NAME, so the author is a query parameter. */
static int native_registry_named(struct http_request *request, struct native_args *ret_args, struct skills **ret_skills,
                                 const char **ret_name, struct err *err) {
    int failed = registry_asked(request, front_query, ret_args, ret_skills, err);
    const char *author = ret_args->author.data, *entry = http_param(request, "entry");
    if (!failed && author)
        failed = text_user(author, err);
    *ret_name = author ? arena_printf(http_arena(request), "%s/%s", author, entry) : entry;
    return failed;
}

int native_registry_get(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct registry_entry entry;
    struct skills *skills;
    struct registry_asker asker = registry_asker_of(request);
    const char *name;
    return native_registry_named(request, &args, &skills, &name, err)
               ?: registry_find(skills, &asker, args.type.data, name, http_arena(request), &entry, err)
               ?: registry_entry_reply(request, 200, &entry, err);
}

int native_registry_remove(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct skills *skills;
    struct registry_asker asker = registry_asker_of(request);
    const char *name;
    STEP(native_registry_named(request, &args, &skills, &name, err));
    trail_quote(request, arena_printf(http_arena(request), "entry=%s", name));
    return registry_unpublish(skills, &asker, args.type.data, name, err) ?: front_empty(request, 204);
}

int native_registry_publish(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct native_args args = {0};
    struct registry_entry entry;
    struct skills *skills;
    struct box *box = NULL;
    STEP(registry_asked(request, front_body, &args, &skills, err)
             ?: provider_get(provider, front_who(request)->user, args.box.data, &box, err));
    trail_box(request, box);
    struct registry_asker asker = registry_asker_of(request);
    struct registry_entry wanted = {.type = args.type.data ? args.type.data : "skill",
                                    .name = args.name.data,
                                    .version = args.version.data,
                                    .description = args.description.data,
                                    .tags = args.tags.data,
                                    .sharing = args.sharing.data};
    if (!front_who(request)->user) /* an admin publishes for the box's owner */
        asker.user = box->user;
    int failed =
        front_enter(request, box, err)
            ?: registry_publish(skills, &asker, box, &wanted, http_arena(request), &entry, http_fd(request), err);
    front_leave(box);
    trail_box(request, NULL);
    provider_put(provider, box);
    return failed ?: registry_entry_reply(request, 201, &entry, err);
}

/* ---- installing into a box ---- */

int native_install(struct http_request *request, struct box *box, struct err *err) {
    const char *type = native_of_agents(request) ? "agent" : "skill", *path = NULL;
    struct native_args args = {0};
    struct registry_entry entry = {0};
    struct skills *skills;
    struct registry_asker asker = registry_asker_of(request);
    STEP(registry_asked(request, front_body, &args, &skills, err)
             ?: registry_find(skills, &asker, type, args.entry.data, http_arena(request), &entry, err)
             ?: registry_install(skills, box, &entry, args.replace, http_arena(request), &path, http_fd(request), err));
    const struct entry_out out = {.entry = entry, .sha256 = entry.sha256, .path = path};
    return answer_rows(request, 201, installed_answer, &out, err);
}

int native_agent_remove(struct http_request *request, struct box *box, struct err *err) {
    struct skills *skills;
    return registry_asked(request, NULL, NULL, &skills, err)
               ?: registry_uninstall(skills, box, "agent", http_param(request, "name"), http_fd(request), err)
               ?: front_empty(request, 204);
}

int native_skill_remove(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct own_change change = {0};
    struct skills *skills;
    const char *agent, *name = http_param(request, "name");
    STEP(registry_asked(request, front_query, &args, &skills, err) ?: skill_id_check(name, err));
    trail_quote(request, arena_printf(http_arena(request), "skill=%s", name));
    int failed;
    if (args.base) {
        failed = registry_admin_only(request, "changing an agent's skills", err)
                     ?: registry_agent_of(box, &agent, err)
                     ?: base_remove(skills, agent, name, err);
    } else if (box->spec.agent) {
        failed = own_remove(skills, box, name, &change, err);
    } else {
        failed = registry_uninstall(skills, box, "skill", name, http_fd(request), err);
    }
    return failed ?: front_empty(request, change.pending ? 202 : 204);
}

/* ---- uploads ---- */

static int registry_upload_base(struct skills *skills, const char *agent, struct zip *zip,
                                struct own_change *ret_change, struct err *err) {
    static const char *const reserved[] = {"skill-creator", NULL};
    const char *const *names;
    STEP(zip_skills(zip, reserved, &names, err) ?: base_put_zip(skills, agent, zip, err));
    *ret_change = (struct own_change){.skills = names};
    return 0;
}

int native_skill_upload(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct own_change change = {0};
    struct skills *skills;
    struct zip *zip = NULL;
    const char *agent;
    autoscratch file = {.fd = -1};
    STEP(registry_asked(request, front_query, &args, &skills, err) ?: registry_agent_of(box, &agent, err)
             ?: (args.base ? registry_admin_only(request, "changing an agent's skills", err) : 0));
    int64_t length = http_body_length(request);
    const struct skill_settings *settings = skills_settings(skills);
    struct zip_limits limits = {.bytes = settings->upload_bytes ? settings->upload_bytes : UPLOAD_BYTES,
                                .unpacked_bytes = settings->unpacked_bytes,
                                .entries = settings->upload_entries};
    int failed = skills_scratch(skills, box->user, limits.bytes, "skill_upload_bytes", &file, err)
                     ?: (length > 0 ? scratch_fits(&file, (uint64_t)length, err) : 0);
    for (ssize_t n = 1; !failed && n > 0;) {
        n = http_body_splice(request, file.fd, PIECE_BYTES, err);
        failed = n < 0 ? (int)n : n ? scratch_count(&file, (uint64_t)n, err) : 0;
    }
    failed = failed ?: zip_open(file.fd, &limits, &zip, err);
    if (!failed && args.base)
        failed = registry_upload_base(skills, agent, zip, &change, err);
    else if (!failed)
        failed = own_put(skills, box, zip, false, http_arena(request), &change, http_fd(request), err);
    if (!failed)
        failed = answer_rows(request, change.pending ? 202 : 200, uploaded_answer, &change, err);
    zip_close(zip);
    return failed;
}

int native_skill_sync(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct skills *skills;
    const char *agent, *name = http_param(request, "name");
    STEP(registry_asked(request, front_body, &args, &skills, err)
             ?: skill_id_check(name, err)
             ?: registry_agent_of(box, &agent, err));
    trail_quote(request, arena_printf(http_arena(request), "skill=%s", name));
    bool from_base = strcmp(args.direction.data, "from_base") == 0;
    return (from_base ? own_from_base(skills, box, agent, name, err)
                      : registry_admin_only(request, "changing an agent's skills", err)
                            ?: own_to_base(skills, box, agent, name, err))
               ?: front_empty(request, 204);
}
