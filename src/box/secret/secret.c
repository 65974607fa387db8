/* Secrets: rules, sources of values, bindings to boxes. Called by the dialects, and by seal.c for values. Invariants:
 * no sentence, record or row holds a value; memory that held one is wiped. */
#include "box/secret/secret.h"

#include <ctype.h>
#include <jansson.h>
#include <poll.h>

#include "backend/spawn.h"
#include "base/base.h"
#include "base/sync.h"
#include "box/network.h"
#include "box/provider/provider_private.h"
#include "box/secret/seal.h"
#include "box/snapshot/snapshot.h"
#include "rows/write.h"

struct secrets {
    struct secret_store *store;
    char *state_dir;
    struct seals *seals;  /* set before the first request */
    pthread_mutex_t lock; /* of commands */
    char **commands;
};

/* ---- what a secret is for, as it lies in the store ---- */

static const struct row secret_from_rows[] = {OUT_NULL("file", TEXT, secret_from, file, NULL),
                                              OUT_NULL("env", TEXT, secret_from, env, NULL),
                                              OUT("command", TEXTS, secret_from, command, NULL),
                                              OUT_INT("ttl_s", secret_from, ttl_s, NULL),
                                              {0}};
static const struct row secret_use_rows[] = {OUT("hosts", TEXTS, secret_use, hosts, NULL),
                                             OUT("slots", TEXTS, secret_use, slots, NULL),
                                             OUT("methods", TEXTS, secret_use, methods, NULL),
                                             OUT("paths", TEXTS, secret_use, paths, NULL),
                                             OUT("ports", TEXTS, secret_use, ports, NULL),
                                             OUT_NULL("env", TEXT, secret_use, env, NULL),
                                             OUT_NULL("prefix", TEXT, secret_use, prefix, NULL),
                                             OUT_NULL("metadata", TEXT, secret_use, metadata, NULL),
                                             OUT_NULL("scrub", TEXT, secret_use, scrub, NULL),
                                             OUT("wide", BOOL, secret_use, wide, NULL),
                                             OUT_OBJECT("from", secret_use, from, secret_from_rows, NULL),
                                             {0}};

static int secret_of_row(const struct secret_row *row, struct arena *arena, struct secret *ret_secret,
                         struct err *err) {
    json_auto_t *root = json_loads(row->meta, 0, NULL);
    struct secret secret = {.row = *row};
    if (!root || rows_read(root, secret_use_rows, arena, &secret.use, err) < 0)
        return err_set(err, ERR_IO, "the definition of secret '%s' is damaged; set it again", row->name);
    *ret_secret = secret;
    return 0;
}

/* ---- the store ---- */

int secrets_open(const struct secrets_config *config, struct secrets **ret_secrets, struct err *err) {
    struct secret_store *store = NULL;
    TRY(secret_store_open(config->state_dir, config->key_file, &store, err));
    struct secrets *secrets = xcalloc(1, sizeof *secrets);
    secrets->store = store;
    secrets->state_dir = xstrdup(config->state_dir);
    pthread_mutex_init(&secrets->lock, NULL);
    secrets_configure(secrets, config->commands);
    *ret_secrets = secrets;
    return 0;
}

static void secrets_commands_free(char **commands) {
    for (size_t i = 0; commands && commands[i]; i++)
        free(commands[i]);
    free(commands);
}

void secrets_configure(struct secrets *secrets, const char *const *commands) {
    size_t count = text_list_count(commands);
    char **copy = xcalloc(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = xstrdup(commands[i]);
    pthread_mutex_lock(&secrets->lock);
    char **before = secrets->commands;
    secrets->commands = copy;
    pthread_mutex_unlock(&secrets->lock);
    secrets_commands_free(before);
}

void secrets_close(struct secrets *secrets) {
    if (!secrets)
        return;
    secret_store_close(secrets->store);
    secrets_commands_free(secrets->commands);
    pthread_mutex_destroy(&secrets->lock);
    free(secrets->state_dir);
    free(secrets);
}

void secrets_seals(struct secrets *secrets, struct seals *seals) {
    secrets->seals = seals;
}

static void secrets_changed(struct secrets *secrets) {
    if (secrets->seals)
        seals_forget(secrets->seals);
}

struct seals *secrets_sealed(const struct secrets *secrets) {
    return secrets->seals;
}

struct secret_store *secrets_store(struct secrets *secrets) {
    return secrets->store;
}

const char *secrets_state_dir(const struct secrets *secrets) {
    return secrets->state_dir;
}

/* ---- rules ---- */

#define SECRET_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

int secret_name_check(const char *name, struct err *err) {
    size_t len = strlen(name);
    if (!len || len > LIMIT_SECRET_NAME_BYTES || strspn(name, SECRET_LETTERS "_.-") != len ||
        !isalnum((unsigned char)*name))
        return err_set(err, ERR_INVALID,
                       "a secret's name is 1 to %u letters, digits and _.-, and begins with a letter "
                       "or digit",
                       LIMIT_SECRET_NAME_BYTES);
    return 0;
}

int secret_value_check(const char *value, size_t len, struct err *err) {
    if (!len)
        return err_set(err, ERR_INVALID, "value: it is empty");
    if (len < LIMIT_SECRET_VALUE_LEAST)
        return err_set(err, ERR_INVALID,
                       "value: %zu bytes are too short for a secret; %u are the least, because a shorter text occurs "
                       "in answers by chance",
                       len, LIMIT_SECRET_VALUE_LEAST);
    if (len > LIMIT_SECRET_VALUE_BYTES)
        return err_set(err, ERR_TOO_LARGE, "value: %zu bytes are more than the %u that a header can carry", len,
                       LIMIT_SECRET_VALUE_BYTES);
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)value[i] < 0x21 || (uint8_t)value[i] > 0x7e)
            return err_set(err, ERR_INVALID,
                           "value: byte %zu is %s, which a header cannot carry; only visible ASCII is allowed", i + 1,
                           value[i] == '\r'   ? "a carriage return"
                           : value[i] == '\n' ? "a line feed"
                           : value[i] == ' '  ? "a space"
                           : !value[i]        ? "NUL"
                                              : "not visible ASCII");
    return 0;
}

static bool secret_host_fits(const char *host, bool wide) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";
    if (strncmp(host, "*.", 2) == 0) {
        if (!wide)
            return false;
        host += 2;
    }
    size_t len = strlen(host);
    const char *last = strrchr(host, '.');
    return len && len <= 253 && strspn(host, letters) == len && last && last != host && last[1] && *host != '.' &&
           !strstr(host, "..") && strspn(last + 1, "0123456789") != strlen(last + 1);
}

static bool secret_slot_fits(const char *slot) {
    const char *name = strchr(slot, ':');
    if (strcmp(slot, "authorization") == 0 || strcmp(slot, "path") == 0)
        return true;
    if (strncmp(slot, "json:/", 6) == 0)
        return slot[6] && strlen(slot) <= 128 && strspn(slot, SECRET_LETTERS ":/~_.-@$") == strlen(slot);
    if (!name || !name[1] || strlen(name) > 64 || strspn(name + 1, SECRET_LETTERS "_-") != strlen(name + 1))
        return false;
    return strncmp(slot, "header:", 7) == 0 || strncmp(slot, "query:", 6) == 0 || strncmp(slot, "form:", 5) == 0;
}

static bool secret_method_fits(const char *method) {
    return *method && strlen(method) <= 16 && strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == strlen(method);
}

static bool secret_port_fits(const char *port) {
    uint64_t number;
    return text_u64(port, 65535, &number) && number;
}

static bool secret_path_fits(const char *path) {
    return *path == '/' && strlen(path) <= 1024 && !strpbrk(path, "?#% ");
}

static int secret_list_check(const char *const *list, bool (*fits)(const char *), const char *what, const char *form,
                             struct err *err) {
    if (text_list_count(list) > LIMIT_SECRET_HOSTS)
        return err_set(err, ERR_INVALID, "%s: more than %u", what, LIMIT_SECRET_HOSTS);
    for (; list && *list; list++)
        if (!fits(*list))
            return err_set(err, ERR_INVALID, "%s: '%.100s' is not %s", what, *list, form);
    return 0;
}

static int secret_from_check(struct secrets *secrets, const struct secret_from *from, struct err *err) {
    int count = !!from->file + !!from->env + (from->command && *from->command);
    if (count > 1)
        return err_set(err, ERR_INVALID, "from: one of file, env and command, not several");
    if (from->file && *from->file != '/')
        return err_set(err, ERR_INVALID, "from.file must be an absolute path");
    if (from->ttl_s > LIMIT_SECRET_TTL_S)
        return err_set(err, ERR_INVALID, "from.ttl_s is at most %u", LIMIT_SECRET_TTL_S);
    if (!from->command || !*from->command)
        return 0;
    autobuf line = buf_max(LIMIT_PATH_BYTES);
    for (const char **word = from->command; *word; word++)
        buf_printf(&line, "%s%s", line.len ? " " : "", *word);
    autolock(&secrets->lock);
    const char *text = buf_cstr(&line);
    return text && text_list_has((const char *const *)secrets->commands, text)
               ? 0
               : err_set(err, ERR_DENIED, "from.command: secret_commands of the configuration does not list '%.200s'",
                         text ? text : "a line of that length");
}

/* INVALID names the member. DENIED: a command that the configuration does not list. */
static int secret_use_check(struct secrets *secrets, const struct secret_use *use, struct err *err) {
    if (text_list_count((const char *const *)use->hosts) > LIMIT_SECRET_HOSTS)
        return err_set(err, ERR_INVALID, "hosts: more than %u", LIMIT_SECRET_HOSTS);
    for (const char **host = use->hosts; host && *host; host++)
        if (!secret_host_fits(*host, use->wide))
            return strncmp(*host, "*.", 2) == 0 && !use->wide
                       ? err_set(err, ERR_INVALID,
                                 "hosts: '%.253s' needs \"wide\": true, because every host below "
                                 "that name gets the secret",
                                 *host)
                       : err_set(err, ERR_INVALID,
                                 "hosts: '%.253s' is not a host name in lower case, such as "
                                 "api.example.com",
                                 *host);
    if (use->env && (strspn(use->env, SECRET_LETTERS "_") != strlen(use->env) || !*use->env ||
                     isdigit((unsigned char)*use->env) || strlen(use->env) > 128))
        return err_set(err, ERR_INVALID, "env: '%.100s' is not the name of a variable", use->env);
    if (use->prefix && (strlen(use->prefix) > 16 || strspn(use->prefix, SECRET_LETTERS "_.-") != strlen(use->prefix)))
        return err_set(err, ERR_INVALID, "prefix: at most 16 letters, digits and _.- that is public");
    return secret_list_check((const char *const *)use->slots, secret_slot_fits, "slots",
                             "authorization, header:NAME, query:NAME, path, form:NAME or json:/POINTER", err)
               ?: secret_list_check((const char *const *)use->methods, secret_method_fits, "methods",
                                    "a method in capitals", err)
               ?: secret_list_check((const char *const *)use->ports, secret_port_fits, "ports", "a port", err)
               ?: secret_list_check((const char *const *)use->paths, secret_path_fits, "paths",
                                    "a path that begins with / and has no ?, # or %", err)
               ?: secret_from_check(secrets, &use->from, err);
}

int secret_save(struct secrets *secrets, const char *user, const char *name, enum secret_how how,
                const struct secret_use *use, const char *value, size_t len, struct err *err) {
    autobuf meta = buf_max(LIMIT_JSON_BYTES);
    struct json json;
    TRY(use ? secret_use_check(secrets, use, err) : 0);
    if (use) {
        json_init(&json, &meta);
        rows_write(&json, secret_use_rows, use);
        if (!buf_cstr(&meta))
            return err_set(err, ERR_TOO_LARGE, "the definition of a secret is too large");
    }
    TRY(secret_store_put(secrets->store, user, name, how, use ? (const char *)meta.data : NULL, value, len, err));
    secrets_changed(secrets);
    return 0;
}

int secret_remove(struct secrets *secrets, const char *user, const char *name, struct err *err) {
    TRY(secret_store_remove(secrets->store, user, name, err));
    secrets_changed(secrets);
    return 0;
}

int secret_get(struct secrets *secrets, const char *user, const char *name, struct arena *arena,
               struct secret *ret_secret, struct err *err) {
    struct secret_row row;
    TRY(secret_store_get(secrets->store, user, name, arena, &row, err));
    return secret_of_row(&row, arena, ret_secret, err);
}

int secret_find(struct secrets *secrets, const char *user, const char *name, struct arena *arena,
                struct secret *ret_secret, struct err *err) {
    int r = secret_get(secrets, user, name, arena, ret_secret, err);
    return r == -ERR_NOT_FOUND && user ? secret_get(secrets, NULL, name, arena, ret_secret, err) : r;
}

int secret_list(struct secrets *secrets, bool all, const char *user, struct arena *arena, struct secret **ret_secrets,
                size_t *ret_count, struct err *err) {
    struct secret_row *rows;
    size_t count, made = 0;
    TRY(secret_store_list(secrets->store, all, user, arena, &rows, &count, err));
    struct secret *list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++)
        made += secret_of_row(&rows[i], arena, &list[made], err) == 0;
    *ret_secrets = list;
    *ret_count = made;
    return 0;
}

/* ---- values that are elsewhere ---- */

static int secret_run(const char *name, const char *const *command, struct buf *out, struct err *err) {
    int pipe_fds[2];
    pid_t pid;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(err, errno, "the command of secret '%s'", name);
    autofd from = pipe_fds[0], to = pipe_fds[1];
    const struct spawn spawn = {
        .program = command[0], .argv = command, .env = environ, .in = -1, .out = to, .errors = -1, .session = true};
    TRY(spawn_start(&spawn, &pid, err));
    fd_close(&to);
    const uint64_t end_ms = clock_ms() + SECRET_COMMAND_MS;
    bool late = false;
    for (;;) {
        uint64_t now_ms = clock_ms();
        struct pollfd poll_fd = {.fd = from, .events = POLLIN};
        late = now_ms >= end_ms || poll(&poll_fd, 1, (int)(end_ms - now_ms)) == 0;
        uint8_t *room = late ? NULL : buf_reserve(out, 4096);
        ssize_t n = room ? read(from, room, 4096) : 0;
        if (n <= 0)
            break;
        out->len += (size_t)n;
    }
    if (late || out->failed)
        kill(-pid, SIGKILL);
    int status = spawn_wait(pid);
    if (late)
        return err_set(err, ERR_TIMEOUT, "the command of secret '%s' took longer than %u ms", name, SECRET_COMMAND_MS);
    return status || out->failed ? err_set(err, ERR_BUSY, "the command of secret '%s' %s %d", name,
                                           out->failed ? "printed too much; status" : "failed with status", status)
                                 : 0;
}

static int secret_read_file(const char *name, const char *path, struct buf *out, struct err *err) {
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "the file of secret '%s'", name);
    uint8_t *room = buf_reserve(out, LIMIT_SECRET_VALUE_BYTES + 2);
    ssize_t n = S_ISREG(status.st_mode) && room ? fd_read_full(fd, room, LIMIT_SECRET_VALUE_BYTES + 2) : -EINVAL;
    if (n < 0)
        return err_errno(err, (int)-n, "the file of secret '%s'", name);
    out->len += (size_t)n;
    return 0;
}

int secret_value(struct secrets *secrets, const struct secret *secret, struct buf *out, struct err *err) {
    const struct secret_from *from = &secret->use.from;
    const char *name = secret->row.name;
    size_t before = out->len;
    if (!from->file && !from->env && !(from->command && *from->command))
        return secret_store_value(secrets->store, secret->row.user, name, out, err);
    if (from->env && !getenv(from->env))
        return err_set(err, ERR_NOT_FOUND, "the daemon has no variable %s, which secret '%s' is in", from->env, name);
    int r = 0;
    if (from->env)
        buf_puts(out, getenv(from->env));
    else if (from->file)
        r = secret_read_file(name, from->file, out, err);
    else /* the configuration may list it no longer */
        r = secret_from_check(secrets, from, err) ?: secret_run(name, (const char *const *)from->command, out, err);
    while (r == 0 && out->len > before && strchr("\r\n \t", out->data[out->len - 1]))
        out->len--;
    return r
               ?: secret_value_check((const char *)out->data + before, out->len - before, err) < 0
                  ? err_wrap(err, "secret '%s'", name)
                  : 0;
}

/* ---- boxes ---- */

int secret_binding(struct secrets *secrets, const char *user, const char *wanted, struct arena *arena,
                   const char **ret_binding, struct err *err) {
    char *name = arena_strdup(arena, wanted), *variable = strchr(name, '=');
    struct secret secret;
    if (variable)
        *variable++ = 0;
    const struct secret_use named = {.env = variable};
    TRY(secret_name_check(name, err) ?: secret_use_check(secrets, &named, err));
    TRY(secret_find(secrets, user, name, arena, &secret, err));
    autobuf value = buf_max(LIMIT_SECRET_VALUE_BYTES + 64), placeholder = buf_max(LIMIT_SECRET_VALUE_BYTES + 64);
    int r = secret_value(secrets, &secret, &value, err)
                ?: secret_value_check((const char *)value.data, value.len, err) < 0 ? err_wrap(err, "secret '%s'", name)
                                                                                    : 0;
    if (r == 0)
        placeholder_make(value.data, value.len, secret.use.prefix, &placeholder);
    if (value.data)
        explicit_bzero(value.data, value.len);
    if (r < 0)
        return r;
    const struct binding binding = {.secret = name,
                                    .variable = variable         ? variable
                                                : secret.use.env ? secret.use.env
                                                                 : binding_variable(name, arena),
                                    .placeholder = buf_cstr(&placeholder)};
    *ret_binding = binding_text(&binding, arena);
    return 0;
}

struct binding_work {
    struct secrets *secrets;
    struct box *box;
    const char *name, *add; /* add NULL: it is removed */
};

static int secret_bind_work(void *argument, struct work *work, struct err *err) {
    const struct binding_work *wanted = argument;
    const char *const *now = (const char *const *)work->record.spec.bindings;
    size_t count = text_list_count(now), made = 0, name = strlen(wanted->name);
    const char **list = arena_alloc(work->arena, (count + 2) * sizeof *list);
    struct binding old = {0}, fresh = {0};
    for (size_t i = 0; i < count; i++)
        if (strncmp(now[i], wanted->name, name) == 0 && now[i][name] == '=')
            binding_parse(now[i], work->arena, &old);
        else
            list[made++] = now[i];
    if (!wanted->add && !old.secret)
        return err_set(err, ERR_NOT_FOUND, "secret '%.128s' is not bound to box %s", wanted->name, work->box->id);
    if (wanted->add && made >= LIMIT_BINDINGS)
        return err_set(err, ERR_LIMIT, "a box has at most %u secrets", LIMIT_BINDINGS);
    if (wanted->add && binding_parse(wanted->add, work->arena, &fresh)) {
        if (old.placeholder) /* what commands of the box have seen stays true */
            fresh.placeholder = old.placeholder;
        list[made++] = binding_text(&fresh, work->arena);
    }
    work->record.spec.bindings = list;
    TRY(work_record(work, err));
    attached_trust(work);
    bindings_take(work->box, (const char *const *)list);
    int r = network_secrets(work->provider, work->box, err);
    if (r < 0 && wanted->add) { /* as before */
        work->record.spec.bindings = (const char **)(uintptr_t)now;
        work_record(work, ERR_IGNORED);
        bindings_take(work->box, now);
        network_secrets(work->provider, work->box, ERR_IGNORED);
    }
    if (work->box != wanted->box)
        bindings_take(wanted->box, (const char *const *)work->record.spec.bindings);
    return r;
}

int secret_bind(struct secrets *secrets, struct provider *provider, struct box *box, const char *wanted,
                struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct binding_work work = {.secrets = secrets, .box = box};
    TRY(secret_binding(secrets, box->user, wanted, &arena, &work.add, err));
    work.name = arena_copy(&arena, wanted, strcspn(wanted, "="));
    return provider_work(provider, NULL, box->id, secret_bind_work, &work, err);
}

int secret_unbind(struct secrets *secrets, struct provider *provider, struct box *box, const char *name,
                  struct err *err) {
    struct binding_work work = {.secrets = secrets, .box = box, .name = name};
    return provider_work(provider, NULL, box->id, secret_bind_work, &work, err);
}

const char **secret_hosts_of(struct secrets *secrets, const char *user, const char *const *bindings,
                             struct arena *arena) {
    const char **hosts = NULL;
    size_t count = 0, cap = 0;
    for (; bindings && *bindings; bindings++) {
        struct binding binding;
        struct secret secret;
        if (!binding_parse(*bindings, arena, &binding) ||
            secret_find(secrets, user, binding.secret, arena, &secret, ERR_IGNORED) < 0)
            continue;
        for (const char **host = secret.use.hosts; host && *host; host++)
            if (!hosts || !text_list_has((const char *const *)hosts, *host)) {
                arena_add(arena, hosts, count, cap) = *host;
                arena_add(arena, hosts, count, cap) = NULL; /* the list always ends */
                count--;
            }
    }
    return hosts;
}

const char **secret_hosts(struct secrets *secrets, const struct box *box, struct arena *arena) {
    return secret_hosts_of(secrets, box->user, (const char *const *)box_bindings(box, arena), arena);
}
