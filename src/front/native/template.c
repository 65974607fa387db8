/* Templates over HTTP: the roots that boxes are made from. Called through native_routes, for admins. Invariant: one
 * upload at a time; its bytes go directly to tar and are stored nowhere else. */
#include "backend/template.h"
#include "front/native/native.h"

struct template_out {
    const char *name;
};
const struct row template_answer[] = {
    OUT("name", TEXT, template_out, name, "as POST /v1/boxes takes it"),
    {.name = NULL},
};
const struct row templates_answer[] = {
    {.name = "templates", .type = ROW_OBJECTS, .fields = template_answer, .text = "host, and those that were imported"},
    {.name = NULL},
};

struct native_names {
    struct arena *arena;
    struct template_out *items;
    size_t count, cap;
};

static void native_template_each(void *user, const char *name) {
    struct native_names *list = user;
    arena_add(list->arena, list->items, list->count, list->cap).name = arena_strdup(list->arena, name);
}

static int native_template_order(const void *a, const void *b) {
    return strcmp(((const struct template_out *)a)->name, ((const struct template_out *)b)->name);
}

static const struct backend_env *native_template_env(struct http_request *request, struct err *err) {
    const struct backend_env *env = front_of(request)->env;
    if (!env)
        err_set(err, ERR_UNSUPPORTED, "this daemon keeps no templates");
    return env;
}

int native_templates(struct http_request *request, struct box *, struct err *err) {
    struct native_names list = {.arena = http_arena(request)};
    const struct backend_env *env = native_template_env(request, err);
    STEP(env ? template_list(env, native_template_each, &list, err) : -err->code);
    qsort(list.items, list.count, sizeof *list.items, native_template_order);
    autoanswer answer;
    answer_list(&answer, request, templates_answer);
    for (size_t i = 0; i < list.count && answer_item(&answer, &list.items[i]) >= 0; i++)
        ;
    return answer_list_end(&answer, NULL, 0, err);
}

/* Checks the name, which also goes to the audit log. */
static const char *native_template_name(struct http_request *request, struct err *err) {
    const char *name = http_param(request, "name");
    if (!template_name_ok(name) || strcmp(name, "host") == 0) {
        err_set(err, ERR_INVALID, "'%.80s' cannot be the name of a template: [a-z0-9][a-z0-9._-]{0,63}, not 'host'",
                name);
        return NULL;
    }
    trail_note(request, arena_printf(http_arena(request), "template=%s", name));
    return name;
}

int native_template_put(struct http_request *request, struct box *, struct err *err) {
    static pthread_mutex_t importing = PTHREAD_MUTEX_INITIALIZER;
    const struct template_stream stream = {front_body_read, request};
    const struct backend_env *env = native_template_env(request, err);
    const char *name = env ? native_template_name(request, err) : NULL;
    if (!name)
        return -err->code;
    if (http_body_length(request) > (int64_t)LIMIT_TEMPLATE_UPLOAD_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the upload of a template may have at most %llu bytes",
                       LIMIT_TEMPLATE_UPLOAD_BYTES);
    trail_running(request);
    if (pthread_mutex_trylock(&importing) != 0)
        return err_set(err, ERR_BUSY, "another template is being imported; try again when it is done");
    int failed = template_receive(env, name, &stream, err);
    pthread_mutex_unlock(&importing);
    return failed ?: answer_rows(request, 201, template_answer, &(const struct template_out){name}, err);
}

int native_template_remove(struct http_request *request, struct box *, struct err *err) {
    const struct backend_env *env = native_template_env(request, err);
    const char *name = env ? native_template_name(request, err) : NULL;
    return (name ? template_remove(env, name, err) : -err->code) ?: front_empty(request, 204);
}
