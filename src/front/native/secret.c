/* Secrets that stay outside of boxes: set, listed, removed, bound to boxes. Called through native_routes. Invariant: a
 * value is only received, and never in an answer, list, log or cache. Another user's secret does not exist. */
#include "front/native/native.h"

#include "box/secret/secret.h"

struct secret_from_args {
    struct row_text file, env;
    const char **command;
    struct row_number ttl_s;
};
struct secret_args {
    struct row_text user, value, env, prefix, scrub;
    const char **hosts, **slots, **methods, **paths, **ports;
    struct secret_from_args from;
    bool wide;
};

#define SECRET_LIST(name, bytes, meaning)                                                                              \
    { ROW(#name, TEXTS, secret_args, name), .flags = ROW_AUDITED, .max = LIMIT_SECRET_HOSTS, .text = (meaning) }
static const struct row secret_from_fields[] = {
    {ROW("file", TEXT, secret_from_args, file), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "a file of the daemon's machine, read at each use"},
    {ROW("env", TEXT, secret_from_args, env), .flags = ROW_AUDITED, .min = 1, .max = 128,
     .text = "a variable of the daemon"},
    {ROW("command", TEXTS, secret_from_args, command), .flags = ROW_AUDITED, .max = 64,
     .text = "a command that secret_commands of the configuration lists; what it prints is the value"},
    {ROW("ttl_s", INT, secret_from_args, ttl_s), .max = LIMIT_SECRET_TTL_S,
     .text = "how long that counts before the command runs again; default: it runs at each use"},
    ROW_NAMED("SecretFrom"),
};
const struct row secret_fields[] = {
    {ROW("user", TEXT, secret_args, user), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose it is; default: the token's user; of an administrator: of all users"},
    {ROW("value", TEXT, secret_args, value), .max = LIMIT_STORED_SECRET_BYTES,
     .text = "the secret, visible ASCII of 8 bytes or more; never given out again. Without it a secret that exists "
             "keeps its value"},
    {ROW("from", OBJECT, secret_args, from), .fields = secret_from_fields,
     .text = "administrators: where the value is, instead of `value`"},
    SECRET_LIST(hosts, 253, "the hosts that get it: exact names"),
    SECRET_LIST(slots, 80,
                "where it may stand: authorization, header:NAME, query:NAME, path, form:NAME, json:/POINTER (bodies of "
                "at most 64 KiB with a Content-Length); default: authorization and the usual headers for keys"),
    SECRET_LIST(methods, 16, "the only methods that get it; default: all"),
    SECRET_LIST(paths, 1024, "the only paths that get it, * within a segment and ** over segments; default: all"),
    SECRET_LIST(ports, 5, "the only ports; default 443"),
    {ROW("env", TEXT, secret_args, env), .flags = ROW_AUDITED, .min = 1, .max = 128,
     .text = "the variable that boxes find its placeholder in; default: its name in capitals"},
    {ROW("prefix", TEXT, secret_args, prefix), .flags = ROW_AUDITED, .max = 16,
     .text = "beginning of the value that is public, so that placeholders have it too; default: a known one"},
    {ROW("scrub", TEXT, secret_args, scrub), .flags = ROW_AUDITED, .choices = "lenient|strict",
     .text = "strict: an answer with a Content-Encoding, in which the value cannot be found, is refused"},
    {ROW("wide", BOOL, secret_args, wide), .text = "hosts may have a star: *.example.com"},
    ROW_NAMED("SecretRequest"),
};
struct secret_query_args {
    struct row_text user;
};
const struct row secret_query[] = {
    {ROW("user", TEXT, secret_query_args, user), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "administrators: whose; default: of all users"},
    END,
};

struct secret_out {
    struct secret secret;
    const char *digest, *source;
    uint64_t created_ms, updated_ms;
};
const struct row secret_row_answer[] = {
    OUT("name", TEXT, secret_out, secret.row.name, "what boxes bind it by"),
    OUT_NULL("user", TEXT, secret_out, secret.row.user, "whose boxes may use it; null: all users'"),
    OUT("hosts", TEXTS, secret_out, secret.use.hosts, "the hosts that get it"),
    OUT("slots", TEXTS, secret_out, secret.use.slots, "where it may stand; empty: the default"),
    OUT("methods", TEXTS, secret_out, secret.use.methods, "the only methods; empty: all"),
    OUT("paths", TEXTS, secret_out, secret.use.paths, "the only paths; empty: all"),
    OUT("ports", TEXTS, secret_out, secret.use.ports, "the only ports; empty: 443"),
    OUT_NULL("env", TEXT, secret_out, secret.use.env, "the variable of boxes that name none"),
    OUT("source", TEXT, secret_out, source, "stored, file, env or command"),
    OUT_INT("version", secret_out, secret.row.version, "one more with each value"),
    OUT("digest", TEXT, secret_out, digest, "tells values apart, and nothing about them; empty: it is not stored"),
    OUT("created_at", TIME, secret_out, created_ms, "when it was made"),
    OUT("updated_at", TIME, secret_out, updated_ms, "when it was last set"),
    OUT_NULL("last_used_at", TIME, secret_out, secret.row.used_ms, "when a box last used it; null: never"),
    ROW_NAMED("Secret"),
};
const struct row secrets_answer[] = {
    {.name = "secrets", .type = ROW_OBJECTS, .fields = secret_row_answer, .text = "without their values"},
    ROW_NAMED("Secrets"),
};
struct binding_args {
    struct row_text env;
};
const struct row binding_fields[] = {
    {ROW("env", TEXT, binding_args, env), .flags = ROW_AUDITED, .min = 1, .max = 128,
     .text = "the variable in this box; default: the secret's"},
    ROW_NAMED("BindingRequest"),
};
struct binding_out {
    struct binding binding;
};
const struct row binding_row_answer[] = {
    OUT("name", TEXT, binding_out, binding.secret, "of the secret"),
    OUT("env", TEXT, binding_out, binding.variable, "the variable of commands that start from now on"),
    OUT("placeholder", TEXT, binding_out, binding.placeholder, "what it holds: no secret, and of this box alone"),
    ROW_NAMED("Binding"),
};
const struct row bindings_answer[] = {
    {.name = "secrets", .type = ROW_OBJECTS, .fields = binding_row_answer, .text = "that this box may use"},
    ROW_NAMED("Bindings"),
};

/* ---- secrets ---- */

static int secret_there(struct http_request *request, struct err *err) {
    return front_of(request)->secrets ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon keeps no secrets");
}

/* Finds whose secret is meant; a user's token only reaches that user's. */
static int secret_owner(struct http_request *request, const char *asked, const char **ret_user, struct err *err) {
    const struct who *who = front_who(request);
    if (who->user && asked && strcmp(who->user, asked) != 0)
        return err_set(err, ERR_DENIED, "this token only reaches secrets of user '%s', not of '%.128s'", who->user,
                       asked);
    if (!who->user && who->scope != SCOPE_ADMIN)
        return err_set(err, ERR_DENIED, "this token has no user, and so no secrets");
    *ret_user = who->user ? who->user : asked;
    return *ret_user ? text_user(*ret_user, err) : 0;
}

static struct secret_out secret_out_of(const struct secret *secret) {
    const struct secret_from *from = &secret->use.from;
    return (struct secret_out){.secret = *secret,
                               .digest = secret->row.digest,
                               .source = from->file                        ? "file"
                                         : from->env                       ? "env"
                                         : from->command && *from->command ? "command"
                                                                           : "stored",
                               .created_ms = secret->row.created_us / 1000,
                               .updated_ms = secret->row.updated_us / 1000};
}

static struct secret_use secret_use_of(const struct secret_args *args) {
    return (struct secret_use){.hosts = args->hosts,
                               .slots = args->slots,
                               .methods = args->methods,
                               .paths = args->paths,
                               .ports = args->ports,
                               .env = args->env.data,
                               .prefix = args->prefix.data,
                               .scrub = args->scrub.data,
                               .wide = args->wide,
                               .from = {.file = args->from.file.data,
                                        .env = args->from.env.data,
                                        .command = args->from.command,
                                        .ttl_s = args->from.ttl_s.value}};
}

/* A body with only a value rotates it and keeps the rest of the secret. */
static bool secret_rotates(const struct secret_use *use) {
    return !use->hosts && !use->slots && !use->methods && !use->paths && !use->ports && !use->env && !use->prefix &&
           !use->scrub && !use->wide;
}

static int secret_set(struct http_request *request, const struct secret_args *args, const char *user, const char *name,
                      struct err *err) {
    struct secrets *secrets = front_of(request)->secrets;
    const struct secret_use use = secret_use_of(args);
    bool elsewhere = use.from.file || use.from.env || (use.from.command && *use.from.command);
    if (elsewhere && front_who(request)->scope != SCOPE_ADMIN)
        return err_set(err, ERR_DENIED, "from: only an administrator may say where the daemon finds a value");
    if (elsewhere && args->value.data)
        return err_set(err, ERR_INVALID, "give either value or from, not both");
    TRY(secret_name_check(name, err));
    TRY(args->value.data ? secret_value_check(args->value.data, args->value.len, err) : 0);
    bool rotates = !elsewhere && args->value.data && secret_rotates(&use);
    if (!rotates && (!use.hosts || !*use.hosts))
        return err_set(err, ERR_INVALID, "hosts: a secret needs the hosts that get it");
    int failed = secret_save(secrets, user, name, !rotates && (elsewhere || args->value.data) ? SECRET_ANY : SECRET_OLD,
                             rotates ? NULL : &use, args->value.data, args->value.len, err);
    return failed == -ERR_NOT_FOUND ? err_set(err, ERR_INVALID, "%s: a new secret needs %s",
                                              rotates ? "hosts" : "value", rotates ? "the hosts that get it" : "one")
                                    : failed;
}

static int secret_one(struct http_request *request, const char *user, const char *name, struct err *err) {
    struct secret secret;
    TRY(secret_get(front_of(request)->secrets, user, name, http_arena(request), &secret, err));
    const struct secret_out out = secret_out_of(&secret);
    return answer_rows(request, 200, secret_row_answer, &out, err);
}

int native_secret_put(struct http_request *request, struct box *, struct err *err) {
    struct secret_args args = {0};
    const char *user = NULL, *name = http_param(request, "name");
    STEP(secret_there(request, err) ?: front_body(request, &args, err));
    int failed = secret_owner(request, args.user.data, &user, err) ?: secret_set(request, &args, user, name, err);
    if (args.value.data)
        explicit_bzero((char *)(uintptr_t)args.value.data, args.value.len);
    return failed ? failed : secret_one(request, user, name, err);
}

int native_secret(struct http_request *request, struct box *, struct err *err) {
    struct secret_query_args args = {0};
    const char *user = NULL;
    STEP(secret_there(request, err) ?: front_query(request, &args, err) ?: secret_owner(request, args.user.data, &user, err));
    return secret_one(request, user, http_param(request, "name"), err);
}

int native_secrets(struct http_request *request, struct box *, struct err *err) {
    struct secret_query_args args = {0};
    const char *user = NULL;
    struct secret *list;
    size_t count;
    STEP(secret_there(request, err) ?: front_query(request, &args, err) ?: secret_owner(request, args.user.data, &user, err));
    STEP(secret_list(front_of(request)->secrets, !user, user, http_arena(request), &list, &count, err));
    autoanswer answer;
    answer_list(&answer, request, secrets_answer);
    for (size_t i = 0; i < count; i++) {
        const struct secret_out out = secret_out_of(&list[i]);
        if (answer_item(&answer, &out) < 0)
            break;
    }
    return answer_list_end(&answer, NULL, 0, err);
}

int native_secret_remove(struct http_request *request, struct box *, struct err *err) {
    struct secret_query_args args = {0};
    const char *user = NULL;
    STEP(secret_there(request, err) ?: front_query(request, &args, err) ?: secret_owner(request, args.user.data, &user, err));
    return secret_remove(front_of(request)->secrets, user, http_param(request, "name"), err)
               ?: front_empty(request, 204);
}

/* ---- secrets of a box ---- */

int native_binding_put(struct http_request *request, struct box *box, struct err *err) {
    struct front *front = front_of(request);
    struct binding_args args = {0};
    const char *name = http_param(request, "name");
    STEP(secret_there(request, err) ?: front_body(request, &args, err));
    const char *wanted = args.env.data ? arena_printf(http_arena(request), "%s=%s", name, args.env.data) : name;
    STEP(secret_bind(front->secrets, front->provider, box, wanted, err));
    const char **bindings = box_bindings(box, http_arena(request));
    for (struct binding_out out; bindings && *bindings; bindings++)
        if (binding_parse(*bindings, http_arena(request), &out.binding) && strcmp(out.binding.secret, name) == 0)
            return answer_rows(request, 200, binding_row_answer, &out, err);
    return err_set(err, ERR_GONE, "another request has just removed that secret from the box");
}

int native_bindings(struct http_request *request, struct box *box, struct err *err) {
    const char **bindings = box_bindings(box, http_arena(request));
    autoanswer answer;
    answer_list(&answer, request, bindings_answer);
    for (struct binding_out out; bindings && *bindings; bindings++)
        if (binding_parse(*bindings, http_arena(request), &out.binding) && answer_item(&answer, &out) < 0)
            break;
    return answer_list_end(&answer, NULL, 0, err);
}

int native_binding_remove(struct http_request *request, struct box *box, struct err *err) {
    struct front *front = front_of(request);
    return secret_there(request, err)
               ?: secret_unbind(front->secrets, front->provider, box, http_param(request, "name"), err)
               ?: front_empty(request, 204);
}

int native_bindings_wanted(struct http_request *request, const char *user, const char *network,
                           const char *const *wanted, const char *const **ret_bindings, struct err *err) {
    size_t count = text_list_count(wanted);
    if (!count)
        return 0;
    const char **list = arena_alloc(http_arena(request), (count + 1) * sizeof *list);
    TRY(secret_there(request, err));
    if (network && strcmp(network, "open") == 0)
        return err_set(err, ERR_INVALID, "secrets need a network policy: with \"open\" requests are not inspected");
    for (size_t i = 0; i < count; i++) {
        TRY(secret_binding(front_of(request)->secrets, user ? user : "default", wanted[i], http_arena(request),
                           &list[i], err));
        for (size_t k = 0; k < i; k++)
            if (strncmp(list[k], list[i], strcspn(list[i], "=") + 1) == 0)
                return err_set(err, ERR_INVALID, "secrets: '%.128s' is named twice", wanted[i]);
    }
    *ret_bindings = list;
    return 0;
}
