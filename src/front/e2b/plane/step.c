/* The steps of a build: RUN, COPY, ENV, WORKDIR, USER. Called by builder.c. Invariant: whatever a step or an uploaded
 * archive holds is only ever looked at inside the box. */
#include <ctype.h>

#include "base/fd.h"
#include "box/signame.h"
#include "front/e2b/plane/builder.h"

#define STEP_ARCHIVE "/tmp/.cubby-copy.tar"

static const char *step_arg(const json_t *args, size_t i) {
    const char *text = json_string_value(json_array_get(args, i));
    return text ? text : "";
}

/* A command that must succeed. wrong: the sentence before the reason; the client compares it. */
static int step_must(struct builder *builder, const struct exec_request *exec, const char *wrong, struct err *err) {
    struct exec_result result = {0};
    char name[SIGNAME_BYTES];
    STEP(builder_exec(builder, exec, NULL, &result, err));
    if (result.exited && result.exit_code == 0)
        return 0;
    if (result.timed_out)
        return err_set(err, ERR_TIMEOUT, "%s: command failed: it took longer than an hour", wrong);
    if (result.exited)
        return err_set(err, ERR_INVALID, "%s: command failed: exit status %d", wrong, result.exit_code);
    return err_set(err, ERR_INVALID, "%s: command failed: signal: %s%s", wrong, signame_text(result.signal, name),
                   result.oom_killed ? " (out of memory)" : "");
}

/* Whom commands of the box run as; name "" or NULL: the user of the last USER step. */
static int step_account(struct builder *builder, const char *name, struct e2b_account *ret_account, struct err *err) {
    struct box *box;
    name = name && *name ? name : builder->setup.user;
    STEP(builder_enter(builder, &box, err));
    int failed = e2b_account(box, name, &builder->arena, ret_account, err);
    provider_put(builder->provider, box);
    return failed;
}

/* ---- RUN ---- */

static int step_command(struct builder *builder, const json_t *args, struct err *err) {
    const char *command = step_arg(args, 0);
    const char *wrong = arena_printf(&builder->arena, "failed to run command '%.300s'", command);
    struct e2b_account account;
    struct exec_request exec;
    int failed = step_account(builder, step_arg(args, 1), &account, err);
    if (failed == -ERR_UNAUTHORIZED)
        return err_wrap(err, "%s: command failed: unauthenticated", wrong);
    if (failed)
        return failed;
    if (strlen(command) >= 128 << 10)
        return err_set(err, ERR_INVALID, "%s: command failed: argument list too long", wrong);
    e2b_setup_exec(&builder->setup, command, &account, &builder->arena, &exec);
    return step_must(builder, &exec, wrong, err);
}

/* ---- COPY ---- */

/* As root, in the box: unpacked aside, then merged. */
static const char step_copy_script[] =
    "set -e; umask 022; stage=$(mktemp -d /tmp/.cubby-copy.XXXXXX)\n"
    "trap 'rm -rf \"$stage\" \"$ARCHIVE\"' EXIT\n"
    "tar -x $PACKED -f \"$ARCHIVE\" -C \"$stage\" --no-same-owner\n"
    "from=$stage/$FROM\n"
    "if [ ! -e \"$from\" ] && [ ! -L \"$from\" ]; then echo \"the uploaded files have no '$FROM'\" >&2; exit 1; fi\n"
    "chown -hR \"$OWNER\" \"$stage\"\n"
    "[ -z \"$MODE\" ] || chmod -R \"$MODE\" \"$from\"\n"
    "into() { [ -d \"$1\" ] || { up=$1; while [ ! -d \"$(dirname \"$up\")\" ]; do up=$(dirname \"$up\"); done\n"
    "  mkdir -p \"$1\"; chown -R \"$OWNER\" \"$up\"; }; }\n"
    "if [ -d \"$from\" ] && [ ! -L \"$from\" ]; then into \"$TO\"; cp -a \"$from/.\" \"$TO/\"\n"
    "elif [ \"${TO%/}\" != \"$TO\" ] || [ -d \"$TO\" ]; then into \"${TO%/}\"; cp -a \"$from\" \"$TO/\"\n"
    "else into \"$(dirname \"$TO\")\"; cp -a \"$from\" \"$TO\"; fi\n";

struct step_archive {
    int fd;
};

static ssize_t step_archive_read(void *user, void *data, size_t size, struct err *err) {
    ssize_t n = read(((struct step_archive *)user)->fd, data, size);
    return n < 0 ? err_errno(err, errno, "the uploaded archive") : n;
}

/* The archive in the box, as root's file. */
static int step_archive(struct builder *builder, const char *hash, bool *ret_gzip, struct err *err) {
    static const struct file_rights rights = {.root = true, .owner = 0};
    uint8_t magic[2] = {0};
    struct box *box;
    struct file_stat stat;
    bool created;
    autofd fd = archive_open(builder->plane, builder->build->user, hash, err);
    if (fd < 0)
        return fd;
    *ret_gzip = pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    struct step_archive archive = {.fd = fd};
    const struct write_request request = {
        .path = STEP_ARCHIVE, .mode = 0600, .rights = &rights, .size = -1, .max = UINT64_MAX};
    STEP(builder_enter(builder, &box, err));
    int failed = box_write(box, &request, step_archive_read, &archive, builder->plane->stop[0], &created, &stat, err);
    provider_put(builder->provider, box);
    return failed;
}

/* The part of the source before its first pattern, without the name that holds it: what the archive has it below. */
static const char *step_copy_from(struct builder *builder, const char *source) {
    size_t plain = strcspn(source, "*?[{!");
    while (!strncmp(source, "./", 2))
        source += 2, plain -= plain < 2 ? plain : 2;
    if (!source[plain])
        return arena_strdup(&builder->arena, source);
    while (plain && source[plain - 1] != '/')
        plain--;
    return plain ? arena_copy(&builder->arena, source, plain) : ".";
}

static int step_copy(struct builder *builder, const json_t *args, const char *hash, struct err *err) {
    struct arena *arena = &builder->arena;
    const char *source = step_arg(args, 0), *to = step_arg(args, 1), *owner = step_arg(args, 2);
    const char *workdir = builder->setup.workdir ? builder->setup.workdir : E2B_HOME;
    const char *user = builder->setup.user ? builder->setup.user : "user";
    bool gzip = false;
    struct exec_request exec;
    if (*owner && (strlen(owner) > 64 ||
                   strspn(owner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "_.:-") != strlen(owner) ||
                   *owner == '-'))
        return err_set(err, ERR_INVALID, "failed to copy files: invalid owner '%.64s'", owner);
    if (strspn(step_arg(args, 3), "01234567") != strlen(step_arg(args, 3)))
        return err_set(err, ERR_INVALID, "failed to copy files: invalid mode '%.20s'", step_arg(args, 3));
    STEP(step_archive(builder, hash, &gzip, err));
    e2b_setup_exec(&(struct e2b_setup){0}, step_copy_script, &e2b_account_root, arena, &exec);
    const char *env[] = {
        "HOME=/root",
        "ARCHIVE=" STEP_ARCHIVE,
        gzip ? "PACKED=-z" : "PACKED=",
        arena_printf(arena, "FROM=%s", step_copy_from(builder, source)),
        arena_printf(arena, "TO=%s%s%s", *to == '/' ? "" : workdir, *to == '/' ? "" : "/", to),
        arena_printf(arena, "OWNER=%s%s", *owner ? owner : user, strchr(owner, ':') ? "" : ":"),
        arena_printf(arena, "MODE=%s", step_arg(args, 3)),
        NULL,
    };
    exec.env = env;
    exec.cwd = "/";
    return step_must(builder, &exec, arena_printf(arena, "failed to copy files from '%.300s'", source), err);
}

/* ---- ENV ---- */

/* A variable that no step set: as a login shell in the box has it. */
static int step_variable(struct builder *builder, const char *name, size_t len, struct buf *out, struct err *err) {
    struct exec_request exec;
    struct exec_result result = {0};
    struct e2b_account account;
    const char *value = e2b_setup_get(&builder->setup, name, len);
    if (value) {
        buf_puts(out, value);
        return 0;
    }
    STEP(step_account(builder, NULL, &account, err));
    e2b_setup_exec(&builder->setup, arena_printf(&builder->arena, "printf %%s \"$%.*s\"", (int)len, name), &account,
                   &builder->arena, &exec);
    return builder_exec(builder, &exec, out, &result, err);
}

/* $NAME and ${NAME}; a backslash keeps the next character as it is. */
static int step_expand(struct builder *builder, const char *text, struct buf *out, struct err *err) {
    for (const char *at = text; *at;) {
        const char *name = at + 1 + (at[0] == '$' && at[1] == '{');
        size_t len = 0;
        while (*at == '$' && (isalnum((unsigned char)name[len]) || name[len] == '_'))
            len++;
        bool closed = at[0] == '$' && at[1] == '{' && name[len] == '}';
        if (*at == '\\' && (at[1] == '$' || at[1] == '\\')) {
            buf_byte(out, (uint8_t)at[1]);
            at += 2;
        } else if (*at == '$' && len && !isdigit((unsigned char)*name) && (at[1] != '{' || closed)) {
            STEP(step_variable(builder, name, len, out, err));
            at = name + len + closed;
        } else {
            buf_byte(out, (uint8_t)*at++);
        }
    }
    return out->failed ? err_set(err, ERR_INVALID, "a variable has more than %zu bytes", out->max) : 0;
}

static int step_env(struct builder *builder, const json_t *args, struct err *err) {
    for (size_t i = 0; i + 1 < json_array_size(args); i += 2) {
        const char *name = step_arg(args, i);
        autobuf entry = buf_max(32 << 10);
        buf_puts(&entry, name);
        buf_byte(&entry, '=');
        STEP(step_expand(builder, step_arg(args, i + 1), &entry, err));
        buf_byte(&entry, 0);
        if (entry.failed)
            return err_set(err, ERR_INVALID, "a variable has more than %zu bytes", entry.max);
        STEP(policy_env((const char *)entry.data, err));
        e2b_setup_put(&builder->setup, &builder->arena, name, (const char *)entry.data + strlen(name) + 1);
    }
    return 0;
}

/* ---- WORKDIR, USER ---- */

static int step_workdir(struct builder *builder, const json_t *args, bool cached, struct err *err) {
    struct e2b_account account;
    const char *path = step_arg(args, 0), *now = builder->setup.workdir ? builder->setup.workdir : E2B_HOME;
    struct box *box;
    bool created;
    if (!*path || strlen(path) > 2048)
        return err_set(err, ERR_INVALID, "failed to set the working directory: '%.100s' is not a path", path);
    builder->setup.workdir =
        arena_printf(&builder->arena, "%s%s%s", *path == '/' ? "" : now, *path == '/' ? "" : "/", path);
    if (cached)
        return 0;
    STEP(step_account(builder, NULL, &account, err) ?: builder_enter(builder, &box, err));
    const struct file_rights rights = {.root = true, .owner = account.uid};
    int failed = box_mkdir_as(box, builder->setup.workdir, 0755, &rights, &created, err);
    provider_put(builder->provider, box);
    return failed ? err_wrap(err, "failed to set the working directory '%.200s'", path) : 0;
}

bool step_makes_user(const json_t *args) {
    const char *name = step_arg(args, 0);
    return strcmp(name, "root") != 0 && strcmp(name, "user") != 0;
}

static int step_user(struct builder *builder, const json_t *args, bool cached, struct err *err) {
    const char *name = step_arg(args, 0);
    const char *wrong = arena_printf(&builder->arena, "failed to set the user '%.100s'", name);
    struct exec_request exec;
    if (!*name || strlen(name) > 32 || isdigit((unsigned char)*name) || *name == '-' ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
        return err_set(err, ERR_INVALID, "%s: a name has at most 32 letters a-z, digits, '-' and '_'", wrong);
    builder->setup.user = strcmp(name, "user") != 0 ? arena_strdup(&builder->arena, name) : NULL;
    if (cached || !step_makes_user(args))
        return 0;
    e2b_setup_exec(&(struct e2b_setup){.workdir = "/"},
                   arena_printf(&builder->arena,
                                "id -u %s > /dev/null 2>&1 || useradd -m -s /bin/bash %s || adduser -D %s", name, name,
                                name),
                   &e2b_account_root, &builder->arena, &exec);
    return step_must(builder, &exec, wrong, err);
}

int step_run(struct builder *builder, const char *type, const json_t *args, const char *hash, bool cached,
             struct err *err) {
    switch (toupper((unsigned char)*type)) {
    case 'R':
        return cached ? 0 : step_command(builder, args, err);
    case 'C':
        return cached ? 0 : step_copy(builder, args, hash, err);
    case 'E':
        return step_env(builder, args, err);
    case 'W':
        return step_workdir(builder, args, cached, err);
    default:
        return step_user(builder, args, cached, err);
    }
}

/* ---- images ---- */

int step_image(struct builder *builder, struct err *err) {
    struct exec_request exec;
    e2b_setup_exec(&(struct e2b_setup){.workdir = "/"},
                   "mkdir -p /home/user; grep -q '^user:' /etc/passwd || "
                   "echo 'user:x:1000:1000:user:/home/user:/bin/bash' >> /etc/passwd; "
                   "grep -q '^user:' /etc/group || echo 'user:x:1000:' >> /etc/group; chown 1000:1000 /home/user",
                   &e2b_account_root, &builder->arena, &exec);
    exec.argv = (const char *const[]){"/bin/sh", "-c", exec.argv[3], NULL};
    int failed = step_must(builder, &exec, "failed to add the user 'user'", err);
    return failed
               ? err_wrap(err, "image '%.200s' (e2b_images can name a template instead)", builder->from.template_name)
               : 0;
}
