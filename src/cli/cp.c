/* `cubby cp`: copies files and trees between this machine and a box. Invariant: a local file appears whole or not at
 * all, and a tree from a box is unpacked by the rules of archive.c before it gets its name. */
#include "http/client/client.h"

#include <jansson.h>
#include <libgen.h>

#include "base/base.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/upload.h"
#include "tree/removal.h"

struct cp_values {
    bool quiet, force;
};

const struct row cp_options[] = {
    OPTION("quiet", 'q', BOOL, struct cp_values, quiet, NULL, "show no progress"),
    OPTION("force", 'f', BOOL, struct cp_values, force, NULL, "replace an existing local directory"),
    {.name = NULL},
};

struct cp {
    struct cli *cli;
    struct cp_values values;
    const char *id, *remote, *local;
    struct progress progress;
    int fd;     /* local file or tar's pipe */
    int number; /* errno of the local side */
    int signal_fd, ended_by;
};

/* Fails because both sides are in boxes, or neither is. */
static _Noreturn void cp_sides(const struct cli *cli, char **argv, bool both) {
    for (int i = 0; i < 2 && !both; i++) {
        const char *colon = strchr(argv[i], ':');
        if (colon && colon != argv[i] && !memchr(argv[i], '/', (size_t)(colon - argv[i])))
            option_fail(cli,
                        "'%.*s' is not a box ID (16 hex digits; see `cubby ps`); one of SRC and DST must be ID:PATH",
                        (int)(colon - argv[i]), argv[i]);
    }
    option_fail(cli, both ? "SRC and DST are both in boxes; one must be a path on this machine"
                          : "one of SRC and DST must be ID:PATH");
}

/* A signal cancels the transfer, so that a partial copy is removed as usual. */
static int cp_tick(void *user) {
    struct cp *cp = user;
    for (int number; !cp->ended_by && (number = terminal_signal(cp->signal_fd));)
        if (number != SIGWINCH)
            cp->ended_by = number;
    return cp->ended_by ? -1 : 0;
}

/* ---- paths ---- */

/* Returns the last name of a path, or NULL ("/", ".", ".."). */
static const char *cp_base(struct cp *cp, const char *path) {
    const char *base = basename(arena_strdup(&cp->cli->arena, path));
    return strcmp(base, "/") == 0 || strcmp(base, ".") == 0 || strcmp(base, "..") == 0 ? NULL : base;
}

static const char *cp_join(struct cp *cp, const char *dir, const char *name) {
    const char *slash = dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/";
    return arena_printf(&cp->cli->arena, "%s%s%s", dir, slash, name);
}

/* Gets the type of a path in the box: "file", "dir", "symlink", "other", or "" if it does not exist. */
static int cp_stat(struct cp *cp, const char *path, const char **ret_type, struct err *err) {
    json_auto_t *json = NULL;
    int code = remote_json(cp->cli, "GET", remote_path(cp->cli, cp->id, "/stat", path), NULL, &json, err);
    if (code < 0 && code != -ERR_NOT_FOUND)
        return code;
    const char *type = json_string_value(json_object_get(json, "type"));
    *ret_type = type ? arena_strdup(&cp->cli->arena, type) : "";
    return 0;
}

/* stat does not follow a final link; "LINK/." does if it leads to a directory. */
static int cp_is_dir(struct cp *cp, const char *path, bool *ret_dir, struct err *err) {
    const char *type;
    int code = cp_stat(cp, path, &type, err);
    if (code == 0 && strcmp(type, "symlink") == 0 && cp_stat(cp, cp_join(cp, path, "."), &type, err) < 0)
        type = "";
    if (code == 0)
        *ret_dir = strcmp(type, "dir") == 0;
    return code;
}

/* ---- into the box ---- */

static int cp_send(struct cp *cp, const char *path, int64_t length, struct err *err) {
    struct upload upload = {.fd = cp->fd,
                            .length = length,
                            .what = cp->local,
                            .type = "application/octet-stream",
                            .quiet = cp->values.quiet,
                            .tick = cp_tick,
                            .user = cp};
    return upload_send(cp->cli, &upload, path, NULL, err);
}

static int cp_up_tree(struct cp *cp, const char *target, struct err *err) {
    autobuf body = buf_max(64 << 10);
    struct archive archive;
    struct json json = json_begin(&body);
    json_put_str(&json, "path", target);
    json_put_bool(&json, "parents", true);
    json_close(&json, '}');
    TRY(remote_call(cp->cli, "POST", remote_path(cp->cli, cp->id, "/mkdir", NULL), &body, NULL, err));
    TRY(archive_pack(cp->local, &archive, err));
    struct err ended;
    cp->fd = archive.fd;
    int code = cp_send(cp, remote_path(cp->cli, cp->id, "/archive", target), -1, err);
    archive.fd = fd_take(&cp->fd);
    int end = archive_end(&archive, &ended);
    if (code == 0 && end < 0) {
        *err = ended;
        return end;
    }
    return code;
}

static int cp_no_dir(const struct cp *cp, const char *dir, struct err *err) {
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return err_set(err, ERR_NOT_FOUND, "no directory '%.*s' in the box; create it: cubby exec %s -- mkdir -p %.*s",
                   (int)len, dir, cp->id, (int)len, dir);
}

static int cp_up(struct cp *cp, struct err *err) {
    struct stat status;
    bool standard = strcmp(cp->local, "-") == 0, into = false;
    cp->fd = standard ? dup(STDIN_FILENO) : open(cp->local, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (cp->fd < 0 || fstat(cp->fd, &status) < 0)
        return err_errno(err, errno, "%s", cp->local);
    if (!standard && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "%s is neither a file nor a directory", cp->local);
    TRY(cp_is_dir(cp, cp->remote, &into, err));
    const char *base = standard ? NULL : cp_base(cp, cp->local), *target = cp->remote;
    size_t len = strlen(target);
    if (into && base)
        target = cp_join(cp, target, base);
    else if (into && !S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is a directory: name the file", target);
    else if (!S_ISDIR(status.st_mode) && target[len - 1] == '/')
        return cp_no_dir(cp, target, err);
    if (S_ISDIR(status.st_mode)) {
        fd_close(&cp->fd);
        return cp_up_tree(cp, target, err);
    }
    bool regular = S_ISREG(status.st_mode);
    const char *path = remote_path(cp->cli, cp->id, "/files", target);
    if (regular)
        path = arena_printf(&cp->cli->arena, "%s&mode=%04o", path, status.st_mode & 0777u);
    int code = cp_send(cp, path, regular ? (int64_t)status.st_size : -1, err);
    const char *type = "", *dir = dirname(arena_strdup(&cp->cli->arena, target));
    bool missing = code == -ERR_NOT_FOUND && cp_stat(cp, dir, &type, ERR_IGNORED) == 0 && !*type;
    return missing ? cp_no_dir(cp, dir, err) : code;
}

/* ---- out of the box ---- */

static int cp_write(void *user, const void *data, size_t len) {
    struct cp *cp = user;
    int code = fd_write_all(cp->fd, data, len);
    if (code < 0)
        cp->number = -code;
    else
        progress_add(&cp->progress, len);
    return code;
}

static void cp_header(void *user, const char *name, const char *value) {
    struct cp *cp = user;
    if (strcasecmp(name, "Content-Length") == 0)
        cp->progress.total = strtoll(value, NULL, 10);
}

static int cp_receive(struct cp *cp, const char *path, struct err *err) {
    struct http_call call = {
        .method = "GET", .path = path, .write_body = cp_write, .header = cp_header, .tick = cp_tick, .user = cp};
    progress_begin(&cp->progress, cp->values.quiet, -1);
    int code = remote_send(cp->cli, &call, NULL, err);
    return cp->number ? err_errno(err, cp->number, "%s", cp->local) : code;
}

/* Finds the local target: DST itself, or a name inside it if it is a directory. */
static int cp_local_target(struct cp *cp, const char **ret_target, struct err *err) {
    struct stat status;
    size_t len = strlen(cp->local);
    const char *base = cp_base(cp, cp->remote);
    bool exists = stat(cp->local, &status) == 0, dir = exists && S_ISDIR(status.st_mode);
    if (!dir && len && cp->local[len - 1] == '/')
        return err_set(err, ERR_NOT_FOUND, "no directory '%s' on this machine", cp->local);
    if (dir && !base)
        return err_set(err, ERR_INVALID, "'%s' does not end in a name: give a name for the copy", cp->remote);
    *ret_target = dir ? cp_join(cp, cp->local, base) : cp->local;
    return 0;
}

static int cp_down_file(struct cp *cp, const char *target, struct err *err) {
    char *temporary = arena_printf(&cp->cli->arena, "%s.XXXXXX", target);
    mode_t mask = umask(0);
    umask(mask);
    cp->fd = mkostemp(temporary, O_CLOEXEC);
    if (cp->fd < 0)
        return err_errno(err, errno, "%s", target);
    int code = cp_receive(cp, remote_path(cp->cli, cp->id, "/files", cp->remote), err);
    if (code == 0 && (fchmod(cp->fd, 0666 & ~mask) < 0 || rename(temporary, target) < 0))
        code = err_errno(err, errno, "%s", target);
    if (code < 0)
        unlink(temporary);
    return code;
}

static int cp_unpack(struct cp *cp, const char *temporary, struct err *err) {
    struct archive archive;
    struct err ended;
    unsigned removed = 0;
    TRY(archive_unpack(temporary, &archive, err));
    cp->fd = archive.fd;
    int code = cp_receive(cp, remote_path(cp->cli, cp->id, "/archive", cp->remote), err);
    archive.fd = fd_take(&cp->fd);
    int end = archive_end(&archive, &ended);
    if (end < 0 && (code == 0 || cp->number)) {
        *err = ended;
        code = end;
    }
    if (code == 0)
        code = archive_clean(temporary, &removed, err);
    if (code == 0 && removed)
        fprintf(stderr, "cubby: skipped %u special file%s (devices, FIFOs, sockets)\n", removed,
                removed == 1 ? "" : "s");
    return code;
}

static int cp_down_tree(struct cp *cp, const char *target, struct err *err) {
    struct stat status;
    if (lstat(target, &status) == 0 && !cp->values.force)
        return err_set(err, ERR_EXISTS, "%s exists: remove it, or replace it with --force", target);
    char *temporary = arena_printf(&cp->cli->arena, "%s.XXXXXX", target);
    mode_t mask = umask(077);
    umask(mask);
    if (!mkdtemp(temporary))
        return err_errno(err, errno, "%s", target);
    int code = cp_unpack(cp, temporary, err);
    if (code == 0 && chmod(temporary, 0777 & ~mask) < 0)
        code = err_errno(err, errno, "%s", temporary);
    /* Gives it its name. With --force an existing tree is exchanged and then removed. */
    if (code == 0 && renameat2(AT_FDCWD, temporary, AT_FDCWD, target, RENAME_NOREPLACE) < 0) {
        if (errno == EEXIST && !cp->values.force)
            code = err_set(err, ERR_EXISTS, "%s exists: remove it, or replace it with --force", target);
        else if (errno != EEXIST || renameat2(AT_FDCWD, temporary, AT_FDCWD, target, RENAME_EXCHANGE) < 0)
            code = err_errno(err, errno, "%s", target);
    }
    removal_tree(AT_FDCWD, temporary);
    return code;
}

static int cp_down(struct cp *cp, struct err *err) {
    bool dir = false;
    const char *target = NULL;
    if (strcmp(cp->local, "-") == 0) {
        cp->fd = dup(STDOUT_FILENO);
        return cp_receive(cp, remote_path(cp->cli, cp->id, "/files", cp->remote), err);
    }
    TRY(cp_is_dir(cp, cp->remote, &dir, err));
    TRY(cp_local_target(cp, &target, err));
    return dir ? cp_down_tree(cp, target, err) : cp_down_file(cp, target, err);
}

int command_cp(struct cli *cli, int argc, char **argv) {
    struct cp cp = {.cli = cli, .fd = -1, .signal_fd = -1};
    struct err err = {0};
    if (option_parse(cli, argc, argv, &cp.values) != 2)
        option_fail(cli, "missing SRC and DST");
    bool from = remote_split(cli, argv[0], &cp.id, &cp.remote);
    if (from == remote_split(cli, argv[1], &cp.id, &cp.remote))
        cp_sides(cli, argv, from);
    if (from)
        remote_split(cli, argv[0], &cp.id, &cp.remote);
    if (!*cp.remote)
        cp.remote = ".";
    cp.local = argv[from ? 1 : 0];
    int code = cp.signal_fd = terminal_signals(&err);
    if (code >= 0)
        code = from ? cp_down(&cp, &err) : cp_up(&cp, &err);
    progress_end(&cp.progress);
    fd_close(&cp.fd);
    fd_close(&cp.signal_fd);
    if (cp.ended_by)
        return 128 + cp.ended_by;
    return code < 0 ? cli_fail(&err) : 0;
}
