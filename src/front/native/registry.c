/* Skills over HTTP as things that are put, shared and taken away: uploads into a box, the registry, and the way between a
 * user's skills and his agent's. Called through native_routes; what a box has to offer is told by native/skill.c.
 * Invariant: an agent's base is changed by admins alone, and what somebody may not see answers as what is not there. */
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/fd.h"
#include "base/limits.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "front/trail.h"
#include "front/native/skill.h"

enum { PIECE_BYTES = 64 << 10 };
#define UPLOAD_BYTES (50ull << 20) /* of a ZIP, where the configuration leaves it to the doors */

static int skills_of(struct http_request *request, struct skills **ret_skills, struct err *err) {
    *ret_skills = front_of(request)->skills;
    return *ret_skills ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon has no skills");
}

static int registry_asked(struct http_request *request, int (*take)(struct http_request *, void *, struct err *),
                          void *ret_args, struct skills **ret_skills, struct err *err) {
    int failed = take(request, ret_args, err);
    return failed ? failed : skills_of(request, ret_skills, err);
}

static struct registry_asker asker_of(struct http_request *request) {
    const struct who *who = front_who(request);
    return (struct registry_asker){.user = who->user ? who->user : "default", .admin = who->scope == SCOPE_ADMIN};
}

static int admin_only(struct http_request *request, const char *what, struct err *err) {
    return front_who(request)->scope == SCOPE_ADMIN ? 0
                                                    : err_set(err, ERR_DENIED, "%s takes a token of scope admin", what);
}

/* Whose skills a box has; NULL: nobody's. */
static int agent_of(const struct box *box, const char **ret_agent, struct err *err) {
    *ret_agent = box->spec.agent;
    if (*ret_agent)
        return 0;
    return err_set(err, ERR_INVALID, "box %s has no agent whose skills it could have: make one with \"agent\"",
                   box->id);
}

/* ---- entries ---- */

static int entry_reply(struct http_request *request, int status, const struct registry_entry *entry, struct err *err) {
    const struct entry_out out = {.entry = *entry, .sha256 = entry->sha256};
    return answer_rows(request, status, entry_answer, &out, err);
}

static int search_row(void *user, const struct registry_entry *entry) {
    const struct entry_out out = {.entry = *entry, .sha256 = entry->sha256};
    return answer_item(user, &out);
}

int native_registry_search(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct registry_args args = {0};
    struct skills *skills;
    struct registry_asker asker = asker_of(request);
    struct registry_out out = {0};
    int failed = registry_asked(request, front_query, &args, &skills, err);
    if (failed)
        return failed;
    struct registry_query query = {.type = args.type.data,
                                   .text = args.text.data,
                                   .mine = args.mine,
                                   .versions = args.versions,
                                   .limit = (unsigned)args.limit.value,
                                   .offset = (unsigned)args.offset.value};
    autoanswer answer;
    answer_list(&answer, request, registry_answer);
    failed = registry_search(skills, &asker, &query, search_row, &answer, &out.total, err);
    return answer_list_end(&answer, &out, failed, err);
}

/* No path may hold the slash of AUTHOR/NAME: there the author is a parameter. */
static const char *entry_named(struct http_request *request, const struct registry_args *args, struct err *err) {
    const char *entry = http_param(request, "entry");
    if (!args->author.data)
        return entry;
    if (text_user(args->author.data, err) < 0)
        return NULL;
    return arena_printf(http_arena(request), "%s/%s", args->author.data, entry);
}

static int native_registry_named(struct http_request *request, struct registry_args *ret_args,
                                 struct skills **ret_skills, const char **ret_name, struct err *err) {
    int failed = registry_asked(request, front_query, ret_args, ret_skills, err);
    if (!failed && !(*ret_name = entry_named(request, ret_args, err)))
        failed = -err->code;
    return failed;
}

int native_registry_get(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct registry_args args = {0};
    struct registry_entry entry;
    struct skills *skills;
    struct registry_asker asker = asker_of(request);
    const char *name;
    int failed = native_registry_named(request, &args, &skills, &name, err);
    if (!failed)
        failed = registry_find(skills, &asker, args.type.data, name, http_arena(request), &entry, err);
    return failed ? failed : entry_reply(request, 200, &entry, err);
}

int native_registry_remove(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct registry_args args = {0};
    struct skills *skills;
    struct registry_asker asker = asker_of(request);
    const char *name;
    int failed = native_registry_named(request, &args, &skills, &name, err);
    if (failed)
        return failed;
    trail_quote(request, arena_printf(http_arena(request), "entry=%s", name));
    failed = registry_unpublish(skills, &asker, args.type.data, name, err);
    return failed ? failed : front_empty(request, 204);
}

static int publish_from(struct http_request *request, struct box *box, const struct publish_args *args,
                        struct registry_entry *ret_entry, struct err *err) {
    struct skills *skills = front_of(request)->skills;
    struct registry_asker asker = asker_of(request);
    struct registry_entry wanted = {.type = args->type.data ? args->type.data : "skill",
                                    .name = args->name.data,
                                    .version = args->version.data,
                                    .description = args->description.data,
                                    .tags = args->tags.data,
                                    .sharing = args->sharing.data};
    if (!front_who(request)->user) /* for whom an admin does it is the box's owner */
        asker.user = box->user;
    return registry_publish(skills, &asker, box, &wanted, http_arena(request), ret_entry, http_fd(request), err);
}

int native_registry_publish(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct provider *provider = front_of(request)->provider;
    struct publish_args args = {0};
    struct registry_entry entry;
    struct skills *skills;
    struct box *box = NULL;
    int failed = registry_asked(request, front_body, &args, &skills, err);
    if (!failed)
        failed = provider_get(provider, front_who(request)->user, args.box.data, &box, err);
    if (failed)
        return failed;
    trail_box(request, box);
    failed = front_enter(request, box, err);
    if (!failed)
        failed = publish_from(request, box, &args, &entry, err);
    front_leave(box);
    trail_box(request, NULL);
    provider_put(provider, box);
    return failed ? failed : entry_reply(request, 201, &entry, err);
}

/* ---- into a box, out of the registry ---- */

static int native_install(struct http_request *request, struct box *box, const char *type, struct err *err) {
    struct install_args args = {0};
    struct registry_entry entry = {0};
    struct skills *skills;
    struct registry_asker asker = asker_of(request);
    const char *path = NULL;
    int failed = registry_asked(request, front_body, &args, &skills, err);
    if (!failed)
        failed = registry_find(skills, &asker, type, args.entry.data, http_arena(request), &entry, err);
    if (!failed)
        failed = registry_install(skills, box, &entry, args.replace, http_arena(request), &path, http_fd(request), err);
    const struct entry_out out = {.entry = entry, .sha256 = entry.sha256, .path = path};
    return failed ? failed : answer_rows(request, 201, installed_answer, &out, err);
}

int native_skill_install(struct http_request *request, struct box *box, struct err *err) {
    return native_install(request, box, "skill", err);
}

int native_agent_install(struct http_request *request, struct box *box, struct err *err) {
    return native_install(request, box, "agent", err);
}

int native_agent_remove(struct http_request *request, struct box *box, struct err *err) {
    struct skills *skills;
    int failed = skills_of(request, &skills, err);
    if (!failed)
        failed = registry_uninstall(skills, box, "agent", http_param(request, "name"), http_fd(request), err);
    return failed ? failed : front_empty(request, 204);
}

int native_skill_remove(struct http_request *request, struct box *box, struct err *err) {
    struct skill_args args = {0};
    struct own_change change = {0};
    struct skills *skills;
    const char *agent, *name = http_param(request, "name");
    int failed = registry_asked(request, front_query, &args, &skills, err);
    if (!failed)
        failed = skill_id_check(name, err);
    if (failed)
        return failed;
    trail_quote(request, arena_printf(http_arena(request), "skill=%s", name));
    if (args.base) {
        failed = admin_only(request, "changing an agent's skills", err);
        if (!failed)
            failed = agent_of(box, &agent, err);
        if (!failed)
            failed = base_remove(skills, agent, name, err);
    } else if (box->spec.agent) {
        failed = own_remove(skills, box, name, &change, err);
    } else {
        failed = registry_uninstall(skills, box, "skill", name, http_fd(request), err);
    }
    return failed ? failed : front_empty(request, change.pending ? 202 : 204);
}

/* ---- uploads ---- */

static int upload_read(struct http_request *request, struct scratch *file, struct err *err) {
    int64_t length = http_body_length(request);
    int failed = length > 0 ? scratch_fits(file, (uint64_t)length, err) : 0;
    while (!failed) {
        ssize_t n = http_body_splice(request, file->fd, PIECE_BYTES, err);
        if (n <= 0)
            return (int)n;
        failed = scratch_count(file, (uint64_t)n, err);
    }
    return failed;
}

static int upload_base(struct skills *skills, const char *agent, struct zip *zip, struct own_change *ret_change,
                       struct err *err) {
    static const char *const reserved[] = {"skill-creator", NULL};
    const char *const *names;
    struct stage stage;
    int failed = zip_skills(zip, reserved, &names, err);
    if (!failed)
        failed = stage_open(skills, &stage, err);
    if (failed)
        return failed;
    failed = stage_zip(&stage, zip, err);
    if (!failed)
        failed = base_put(skills, agent, &stage, err);
    stage_abort(&stage);
    if (!failed)
        *ret_change = (struct own_change){.skills = names};
    return failed;
}

int native_skill_upload(struct http_request *request, struct box *box, struct err *err) {
    struct skill_args args = {0};
    struct own_change change = {0};
    struct skills *skills;
    struct zip *zip = NULL;
    const char *agent;
    autoscratch file = {.fd = -1};
    int failed = registry_asked(request, front_query, &args, &skills, err);
    if (!failed)
        failed = agent_of(box, &agent, err);
    if (!failed && args.base)
        failed = admin_only(request, "changing an agent's skills", err);
    if (failed)
        return failed;
    const struct skill_settings *settings = skills_settings(skills);
    struct zip_limits limits = {.bytes = settings->upload_bytes ? settings->upload_bytes : UPLOAD_BYTES,
                                .unpacked_bytes = settings->unpacked_bytes,
                                .entries = settings->upload_entries};
    failed = skills_scratch(skills, box->user, limits.bytes, "skill_upload_bytes", &file, err);
    if (!failed)
        failed = upload_read(request, &file, err);
    if (!failed)
        failed = zip_open(file.fd, &limits, &zip, err);
    if (!failed && args.base)
        failed = upload_base(skills, agent, zip, &change, err);
    else if (!failed)
        failed = own_put(skills, box, zip, false, http_arena(request), &change, http_fd(request), err);
    if (!failed)
        failed = answer_rows(request, change.pending ? 202 : 200, uploaded_answer, &change, err);
    zip_close(zip);
    return failed;
}

int native_skill_sync(struct http_request *request, struct box *box, struct err *err) {
    struct sync_args args = {0};
    struct skills *skills;
    const char *agent, *name = http_param(request, "name");
    int failed = registry_asked(request, front_body, &args, &skills, err);
    if (!failed)
        failed = skill_id_check(name, err);
    if (!failed)
        failed = agent_of(box, &agent, err);
    if (failed)
        return failed;
    trail_quote(request, arena_printf(http_arena(request), "skill=%s", name));
    if (strcmp(args.direction.data, "from_base") == 0) {
        failed = own_from_base(skills, box, agent, name, err);
    } else {
        failed = admin_only(request, "changing an agent's skills", err);
        if (!failed)
            failed = own_to_base(skills, box, agent, name, err);
    }
    return failed ? failed : front_empty(request, 204);
}
