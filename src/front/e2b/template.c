/* Templates by name, and the builds that snapshots made. Called by create, fork and snapshot.c. Invariant: a user sees
 * builds of their own alone. */
#include "front/e2b/template.h"

#include <ctype.h>
#include <jansson.h>

#include "backend/template.h"
#include "base/text.h"

#define TEMPLATE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-_"

/* ---- names ---- */

int e2b_template_name(struct http_request *request, const char *text, const char **ret_name, const char **ret_tag,
                      struct err *err) {
    size_t from = strspn(text, " \t\r\n"), len = strlen(text);
    while (len > from && strchr(" \t\r\n", text[len - 1]))
        len--;
    char *name = arena_copy(http_arena(request), text + from, len - from);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    char *slash = strchr(name, '/');
    if (slash && (slash == name || strspn(name, TEMPLATE_LETTERS) != (size_t)(slash - name)))
        return err_set(err, ERR_INVALID, "'%.100s' is not a template's name: [namespace/]alias[:tag]", text);
    name = slash ? slash + 1 : name;
    char *tag = strchr(name, ':');
    if (tag)
        *tag++ = 0;
    if (!*name || strlen(name) > 128 || strspn(name, TEMPLATE_LETTERS ".") != strlen(name) ||
        (tag && (!*tag || strlen(tag) > 128 || strspn(tag, TEMPLATE_LETTERS ".") != strlen(tag))))
        return err_set(err, ERR_INVALID, "'%.100s' is not a template's name: [namespace/]alias[:tag]", text);
    *ret_name = name;
    *ret_tag = tag ? tag : "default";
    return 0;
}

int e2b_template_tag(struct http_request *request, const char *text, const char **ret_tag, struct err *err) {
    const char *name, *colon = strchr(text, ':');
    return e2b_template_name(request, arena_printf(http_arena(request), "x:%.200s", colon ? colon + 1 : text), &name,
                             ret_tag, err);
}

bool e2b_template_taken(struct http_request *request, const char *name) {
    struct template own;
    return front_of(request)->env && template_find(front_of(request)->env, name, &own, ERR_IGNORED) == 0;
}

void e2b_uuid(const char *id, char ret_uuid[E2B_UUID_BYTES]) {
    snprintf(ret_uuid, E2B_UUID_BYTES, "%.8s-%.4s-4000-8000-00000000%.4s", id, id + 8, id + 12);
}

void e2b_build_uuid(const struct e2b_build *build, char ret_uuid[E2B_UUID_BYTES]) {
    e2b_uuid(build->build_id ? build->build_id : build->kept.id, ret_uuid);
}

/* ---- builds ---- */

struct e2b_owner e2b_owner(struct http_request *request) {
    return (struct e2b_owner){front_of(request)->provider, front_who(request)->user, http_arena(request)};
}

static const struct row template_rows[] = {
    OUT("template", TEXT, e2b_build, template_id, ""), OUT_MAYBE("build", TEXT, e2b_build, build_id, ""),
    OUT_MAYBE("setup", TEXT, e2b_build, setup, ""),    OUT_NULL("name", TEXT, e2b_build, name, ""),
    OUT("tags", TEXTS, e2b_build, tags, ""),           OUT_NULL("original", TEXT, e2b_build, original, ""),
    OUT_NULL("alias", TEXT, e2b_build, alias, ""),     OUT_NULL("sandbox", TEXT, e2b_build, sandbox, ""),
    OUT("public", BOOL, e2b_build, open, ""),          {0},
};

static bool template_build(struct arena *arena, const struct kept_template *kept, struct e2b_build *build) {
    json_t *root = json_loads(kept->text, 0, NULL);
    *build = (struct e2b_build){.kept = *kept, .tags = arena_alloc(arena, sizeof *build->tags)};
    int failed = rows_read(root, template_rows, arena, build, ERR_IGNORED);
    json_decref(root);
    return !failed && build->template_id && build->original && (!build->build_id || text_id(build->build_id));
}

int e2b_builds(struct e2b_owner owner, struct e2b_build **ret_builds, size_t *ret_count, struct err *err) {
    struct kept_template *all;
    size_t count, at = 0;
    STEP(kept_template_list(owner.provider, owner.user, owner.arena, &all, &count, err));
    struct e2b_build *builds = arena_alloc(owner.arena, (count + 1) * sizeof *builds);
    for (size_t i = 0; i < count; i++)
        at += template_build(owner.arena, &all[i], &builds[at]);
    *ret_builds = builds;
    *ret_count = at;
    return 0;
}

int e2b_builds_named(struct http_request *request, const char *text, struct e2b_named *ret_named, struct err *err) {
    return e2b_template_name(request, text, &ret_named->name, &ret_named->tag, err)
               ?: e2b_builds(e2b_owner(request), &ret_named->builds, &ret_named->count, err);
}

int e2b_build_text(struct e2b_owner owner, const struct e2b_build *build, const char **ret_text, struct err *err) {
    autobuf out = buf_max(KEPT_TEXT_BYTES);
    struct json json = json_begin(&out);
    json_put_str(&json, "dialect", "e2b");
    rows_members(&json, template_rows, build);
    json_close(&json, '}');
    if (out.failed)
        return err_set(err, ERR_INVALID, "tags and variables of a build have at most %u bytes together",
                       KEPT_TEXT_BYTES);
    *ret_text = arena_copy(owner.arena, out.data, out.len);
    return 0;
}

int e2b_build_write(struct e2b_owner owner, const struct e2b_build *build, struct err *err) {
    const char *text;
    return e2b_build_text(owner, build, &text, err) ?: kept_template_change(owner.provider, build->kept.id, text, err);
}

struct e2b_build *e2b_build_find(struct e2b_build *builds, size_t count, const char *name, const char *tag) {
    for (size_t i = 0; i < count; i++)
        if ((!strcmp(builds[i].template_id, name) || (builds[i].name && !strcmp(builds[i].name, name))) &&
            (!tag || text_list_has(builds[i].tags, tag)))
            return &builds[i];
    return NULL;
}

/* A build without a tag cannot be named any more. */
static int template_untag(struct e2b_owner owner, struct e2b_build *build, const char *tag, struct err *err) {
    size_t at = 0;
    for (const char **from = build->tags; *from; from++)
        if (strcmp(*from, tag) != 0)
            build->tags[at++] = *from;
    build->tags[at] = NULL;
    return at ? e2b_build_write(owner, build, err) : kept_template_remove(owner.provider, build->kept.id, err);
}

int e2b_build_tag(struct e2b_owner owner, struct e2b_build *build, const char *tag, bool add, struct err *err) {
    struct e2b_build *builds;
    size_t count, own = text_list_count(build->tags);
    int failed = 0;
    if (!add)
        return template_untag(owner, build, tag, err);
    if (!text_list_has(build->tags, tag)) {
        const char **tags = arena_alloc(owner.arena, (own + 2) * sizeof *tags);
        memcpy(tags, build->tags, own * sizeof *tags);
        tags[own] = tag;
        build->tags = tags;
        failed = e2b_build_write(owner, build, err);
    }
    if (!failed)
        failed = e2b_builds(owner, &builds, &count, err);
    for (size_t i = 0; !failed && i < count; i++)
        if (strcmp(builds[i].kept.id, build->kept.id) != 0 && !strcmp(builds[i].template_id, build->template_id) &&
            text_list_has(builds[i].tags, tag))
            failed = template_untag(owner, &builds[i], tag, err);
    return failed;
}

/* ---- what a sandbox can be made from ---- */

static int template_own(struct http_request *request, const char *name, struct e2b_template *ret_template,
                        struct err *err) {
    const struct backend_env *env = front_of(request)->env;
    struct template found;
    struct err own;
    /* Templates that clients choose by themselves: what the code interpreter needs is part of the dialect, not of an
     * image, and a gateway is a program that the client starts. */
    bool own_choice = !strcmp(name, "code-interpreter-v1") || !strcmp(name, "mcp-gateway");
    const char *base = own_choice ? "base" : name;
    if (!env || template_find(env, base, &found, &own) < 0)
        return err_set(err, ERR_NOT_FOUND, "template '%.200s' not found", name);
    *ret_template = (struct e2b_template){.id = name, .alias = name, .base = base};
    return 0;
}

int e2b_template_find(struct http_request *request, const char *text, struct e2b_template *ret_template,
                      struct err *err) {
    struct e2b_named named;
    STEP(e2b_builds_named(request, text, &named, err));
    const struct e2b_build *build = e2b_build_find(named.builds, named.count, named.name, named.tag);
    if (!build && strcmp(named.tag, "default") != 0)
        return err_set(err, ERR_NOT_FOUND, "template '%.200s' not found", text);
    if (!build)
        return template_own(request, named.name, ret_template, err);
    *ret_template = (struct e2b_template){.id = build->template_id,
                                          .alias = build->alias,
                                          .original = build->original,
                                          .build = build->kept.id,
                                          .base = build->kept.template_name,
                                          .backend = build->kept.backend,
                                          .layers = build->kept.layers,
                                          .setup = build->setup};
    return 0;
}

int e2b_template_hold(struct http_request *request, const struct e2b_template *template, const char *id,
                      struct err *err) {
    return template->build ? kept_template_hold(front_of(request)->provider, template->build, id, err) : 0;
}

void e2b_template_let_go(struct http_request *request, const struct e2b_template *template, const char *id) {
    if (template->build)
        kept_template_let_go(front_of(request)->provider, template->build, id);
}
