/* From a client's words to a spec. Called by the provider for every new box. Not to break: a spec that left this room
 * holds nothing unchecked; a backend may use every string of it as it is. */
#include "box/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"

enum { LIMIT_ENV_BYTES = 128 << 10, LIMIT_LABEL_BYTES = 1024, LIMIT_TEMPLATE_BYTES = 64 };

static const char lower[] = "abcdefghijklmnopqrstuvwxyz", upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                  digits[] = "0123456789";

static bool made_of(const char *text, size_t len, const char *extra, bool digit_first) {
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool digit = c && strchr(digits, c);
        if (!c || (digit && i == 0 && !digit_first))
            return false;
        if (!digit && !strchr(lower, c) && !strchr(upper, c) && !strchr(extra, c))
            return false;
    }
    return len > 0;
}

int policy_user(const char *user, struct err *err) {
    size_t len = strlen(user);
    if (len > LIMIT_USER_BYTES || !made_of(user, len, "_.@-", true))
        return err_set(err, ERR_INVALID, "user must be 1 to %u characters of A-Z a-z 0-9 _ . @ -", LIMIT_USER_BYTES);
    return 0;
}

void policy_id(const char *user, const char *thread, size_t thread_len, char ret_id[17]) {
    size_t user_len = strlen(user), len = user_len + 1 + thread_len;
    uint8_t *pair = malloc(len);
    if (!pair)
        abort();
    memcpy(pair, user, user_len);
    pair[user_len] = ':';
    memcpy(pair + user_len + 1, thread, thread_len);
    uint8_t digest[32];
    sha256(pair, len, digest);
    free(pair);
    text_hex(ret_id, digest, 8);
}

void policy_random_id(char ret_id[17]) {
    uint8_t bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort();
    text_hex(ret_id, bytes, sizeof bytes);
}

/* ---- one check a field ---- */

static int check_env(const char *entry, const char *field, struct err *err) {
    const char *equals = strchr(entry, '=');
    size_t key = equals ? (size_t)(equals - entry) : strlen(entry);
    if (!equals || !made_of(entry, key, "_", false))
        return err_set(err, ERR_INVALID, "%s: '%.*s' is not a name (letters, digits and _, no digit first)", field,
                       (int)(key < 100 ? key : 100), entry);
    if (strlen(entry) > LIMIT_ENV_BYTES)
        return err_set(err, ERR_INVALID, "%s: '%.*s' is longer than %d bytes", field, (int)(key < 100 ? key : 100),
                       entry, LIMIT_ENV_BYTES);
    return 0;
}

static bool same_key(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* The configuration's variables, then the request's; a later one replaces an earlier one of the same name. */
static int spec_env(const struct policy *policy, const struct box_request *request, struct arena *arena,
                    struct spec *spec, struct err *err) {
    const char *const *lists[] = {policy->env, (const char *const *)request->env};
    size_t max = 0;
    for (int i = 0; i < 2; i++)
        for (const char *const *e = lists[i]; e && *e; e++)
            if (++max > LIMIT_ENV_COUNT)
                return err_set(err, ERR_INVALID, "env: more than %u variables", LIMIT_ENV_COUNT);
    spec->env = arena_alloc(arena, (max + 1) * sizeof *spec->env);
    for (int i = 0; i < 2; i++) {
        for (const char *const *e = lists[i]; e && *e; e++) {
            int r = check_env(*e, "env", err);
            if (r < 0)
                return r;
            size_t at = 0;
            while (at < spec->env_count && !same_key(spec->env[at], *e))
                at++;
            spec->env[at] = arena_strdup(arena, *e);
            spec->env_count += at == spec->env_count;
        }
    }
    return 0;
}

/* At a segment boundary: /srv/data holds /srv/data and /srv/data/x, not /srv/database. */
static bool path_within(const char *path, const char *prefix) {
    size_t len = strlen(prefix);
    while (len > 1 && prefix[len - 1] == '/')
        len--;
    if (len == 1 && prefix[0] == '/')
        return path[0] == '/';
    return strncmp(path, prefix, len) == 0 && (path[len] == 0 || path[len] == '/');
}

static bool path_normal(const char *path) {
    if (path[0] != '/' || path[1] == 0)
        return false;
    for (const char *at = path; *at;) {
        const char *name = at + 1;
        size_t len = strcspn(name, "/");
        if (len == 0 || len > LIMIT_NAME_BYTES || (len == 1 && name[0] == '.') ||
            (len == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        at = name + len;
    }
    return true;
}

static int check_target(const char *target, struct err *err) {
    static const char *const taken[] = {"/proc", "/sys", "/dev"};
    if (!target || strlen(target) > LIMIT_PATH_BYTES || !path_normal(target))
        return err_set(err, ERR_INVALID, "mounts: target must be an absolute path below /, without '.', '..' or '//'");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (path_within(target, taken[i]))
            return err_set(err, ERR_INVALID, "mounts: target '%.200s' is inside %s, which is the box's own", target,
                           taken[i]);
    return 0;
}

/* The source with every link resolved, so that the rule is about what will be mounted and not about its name. */
static int check_source(const struct policy *policy, const char *source, char resolved[PATH_MAX], struct err *err) {
    if (!source || source[0] != '/' || strlen(source) > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "mounts: source must be an absolute path");
    bool exists = realpath(source, resolved) != NULL;
    int number = errno;
    for (const char *const *prefix = policy->mount_sources; exists && prefix && *prefix; prefix++) {
        char allowed[PATH_MAX];
        if (realpath(*prefix, allowed) && path_within(resolved, allowed))
            return 0;
    }
    if (policy->any_mount_source)
        return exists ? 0 : err_errno(err, number, "mounts: source '%.200s'", source);
    /* The same answer whether it exists or not: a client may not map the host by asking. */
    return err_set(err, ERR_DENIED, "mounts: source '%.200s' is not allowed by the configuration (mount_sources)",
                   source);
}

static int spec_mounts(const struct policy *policy, const struct box_request *request, struct arena *arena,
                       struct spec *spec, struct err *err) {
    if (request->mount_count > LIMIT_MOUNTS)
        return err_set(err, ERR_INVALID, "mounts: more than %u", LIMIT_MOUNTS);
    struct mount *mounts = arena_alloc(arena, (request->mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; i < request->mount_count; i++) {
        char resolved[PATH_MAX];
        int r = check_target(request->mounts[i].target, err);
        if (r == 0)
            r = check_source(policy, request->mounts[i].source, resolved, err);
        if (r < 0)
            return r;
        for (size_t j = 0; j < i; j++)
            if (strcmp(mounts[j].target, request->mounts[i].target) == 0)
                return err_set(err, ERR_INVALID, "mounts: target '%.200s' is there twice", mounts[j].target);
        mounts[i] = (struct mount){.source = arena_strdup(arena, resolved),
                                   .target = arena_strdup(arena, request->mounts[i].target),
                                   .read_only = request->mounts[i].read_only};
    }
    spec->mounts = mounts;
    spec->mount_count = request->mount_count;
    return 0;
}

static int check_range(const char *field, double value, double min, double max, struct err *err) {
    if (!(value >= min && value <= max)) /* NaN too */
        return err_set(err, ERR_INVALID, "limits: %s must be %g to %.10g", field, min, max);
    return 0;
}

static int spec_limits(const struct policy *policy, const struct box_request *request, struct spec *spec,
                       struct err *err) {
    const struct limits *asked = &request->limits;
    struct limits limits = policy->default_limits;
    const struct {
        const char *field;
        bool has;
        uint64_t *to, value, min, max;
    } rows[] = {
        {"memory_mb", request->has_memory, &limits.memory_mb, asked->memory_mb, 16, 1u << 20},
        {"pids", request->has_pids, &limits.pids, asked->pids, 8, 1u << 22},
        {"disk_mb", request->has_disk, &limits.disk_mb, asked->disk_mb, 1, 1ull << 40},
        {"open_files", request->has_open_files, &limits.open_files, asked->open_files, LIMIT_OPEN_FILES_LEAST,
         LIMIT_OPEN_FILES},
        {"output_bytes", request->has_output, &limits.output_bytes, asked->output_bytes, 1, LIMIT_OUTPUT_LIMIT_BYTES},
    };
    int r = 0;
    if (request->has_cpus)
        limits.cpus = asked->cpus, r = check_range("cpus", asked->cpus, 0.01, 1024, err);
    for (size_t i = 0; r == 0 && i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].has)
            continue;
        *rows[i].to = rows[i].value;
        r = check_range(rows[i].field, (double)rows[i].value, (double)rows[i].min, (double)rows[i].max, err);
    }
    spec->limits = limits;
    return r;
}

static int spec_words(const struct box_request *request, struct arena *arena, struct spec *spec, struct err *err) {
    const char *network = request->network ? request->network : "none";
    if (strcmp(network, "none") != 0 && strcmp(network, "open") != 0)
        return err_set(err, ERR_INVALID, "network must be \"none\" or \"open\"");
    spec->network = strcmp(network, "open") == 0 ? NETWORK_OPEN : NETWORK_NONE;
    spec->network_asked = request->network != NULL;
    const char *name = request->template_name ? request->template_name : "host";
    if (strlen(name) > LIMIT_TEMPLATE_BYTES || !made_of(name, strlen(name), "_.-", true) || name[0] == '.' ||
        name[0] == '-')
        return err_set(err, ERR_INVALID, "template must be 1 to %d characters of A-Z a-z 0-9 _ . -, no . or - first",
                       LIMIT_TEMPLATE_BYTES);
    spec->template_name = arena_strdup(arena, name);
    if (request->shell && (strlen(request->shell) > LIMIT_PATH_BYTES || !path_normal(request->shell)))
        return err_set(err, ERR_INVALID, "shell must be an absolute path without '.', '..' or '//'");
    spec->shell = request->shell ? arena_strdup(arena, request->shell) : NULL;
    size_t labels = 0;
    for (const char **label = request->labels; label && *label; label++) {
        const char *equals = strchr(*label, '=');
        if (++labels > LIMIT_LABELS)
            return err_set(err, ERR_INVALID, "labels: more than %u", LIMIT_LABELS);
        if (!equals || !made_of(*label, (size_t)(equals - *label), "_./-", true) || strlen(*label) > LIMIT_LABEL_BYTES)
            return err_set(err, ERR_INVALID,
                           "labels: '%.60s' (names are letters, digits and _ . / -, together %d bytes)", *label,
                           LIMIT_LABEL_BYTES);
    }
    return 0;
}

int policy_spec(const struct policy *policy, const struct box_request *request, const char id[17], struct arena *arena,
                struct spec *ret_spec, struct err *err) {
    struct spec spec = {.one_shot = request->one_shot};
    memcpy(spec.id, id, sizeof spec.id);
    const char *user = request->user ? request->user : "default";
    int r = policy_user(user, err);
    if (r < 0)
        return r;
    spec.user = arena_strdup(arena, user);
    if (request->thread) {
        if (request->thread_len > LIMIT_THREAD_BYTES || memchr(request->thread, 0, request->thread_len))
            return err_set(err, ERR_INVALID, "thread must be at most %u bytes, without NUL", LIMIT_THREAD_BYTES);
        spec.thread = arena_copy(arena, request->thread, request->thread_len);
    }
    r = spec_words(request, arena, &spec, err);
    if (r == 0)
        r = spec_env(policy, request, arena, &spec, err);
    if (r == 0)
        r = spec_mounts(policy, request, arena, &spec, err);
    if (r == 0)
        r = spec_limits(policy, request, &spec, err);
    if (r == 0)
        *ret_spec = spec;
    return r;
}
