/* `cubby edit`: a file of a box in the editor of this machine. Invariant: the file is replaced only if it is still the
 * version that was read, and an edited text is never lost. */
#include "cli/file/edit.h"

#include <spawn.h>
#include <strings.h>
#include <sys/wait.h>

#include "base/base.h"
#include "cli/cli.h"
#include "http/client/client.h"

extern char **environ;

static void edit_header(void *user, const char *name, const char *value) {
    char *etag = user;
    if (strcasecmp(name, "etag") == 0)
        snprintf(etag, 128, "%s", value);
}

/* Only in place of the version that was read, where one was. */
int edit_put(struct cli *cli, const char *id, const char *path, const char *etag, const struct buf *text,
             struct err *err) {
    const char *headers[] = {"Content-Type: application/octet-stream", NULL, NULL};
    if (etag && *etag)
        headers[1] = arena_printf(&cli->arena, "If-Match: %s", etag);
    const char *at = remote_path(cli, id, "/files", path);
    const struct http_call call = {.method = "PUT",
                                   .path = arena_printf(&cli->arena, "%s&parents=1", at),
                                   .headers = headers,
                                   .body = text->data ? (const void *)text->data : "",
                                   .body_len = text->len};
    return remote_send(cli, &call, NULL, err);
}

static int edit_get(struct cli *cli, const char *id, const char *path, char etag[128], struct buf *text,
                    struct err *err) {
    const struct http_call call = {
        .method = "GET", .path = remote_path(cli, id, "/files", path), .header = edit_header, .user = etag};
    int code = remote_send(cli, &call, text, err);
    if (code != -ERR_NOT_FOUND)
        return code;
    buf_clear(text); /* a new file */
    etag[0] = 0;
    return 0;
}

int edit_read(int fd, struct buf *text, struct err *err) {
    for (;;) {
        uint8_t *room = buf_reserve(text, 64 << 10);
        ssize_t n = room ? fd_read_full(fd, room, 64 << 10) : 0;
        if (!room)
            return err_set(err, ERR_TOO_LARGE, "that is more than %u bytes", LIMIT_EDIT_BYTES);
        if (n < 0)
            return err_errno(err, (int)-n, "reading it");
        text->len += (size_t)n;
        if (n < 64 << 10)
            return 0;
    }
}

static int edit_run(const char *file, struct err *err) {
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    const char *argv[] = {"sh", "-c", "exec ${EDITOR_OF_CUBBY} \"$0\"", file, NULL};
    pid_t pid;
    int status = 0;
    setenv("EDITOR_OF_CUBBY", editor && *editor ? editor : "vi", 1);
    int number = posix_spawnp(&pid, "sh", NULL, NULL, (char *const *)argv, environ);
    if (number)
        return err_errno(err, number, "the editor");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, errno, "the editor");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, ERR_INVALID, "the editor did not end well; nothing was changed");
}

int edit_file(struct cli *cli, const char *id, const char *path, struct err *err) {
    char etag[128] = "", name[] = "/tmp/cubby-edit.XXXXXX";
    autobuf text = buf_max(LIMIT_EDIT_BYTES);
    autobuf after = buf_max(LIMIT_EDIT_BYTES);
    TRY(edit_get(cli, id, path, etag, &text, err));
    autofd fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "%s", name);
    int code = fd_write_all(fd, text.data, text.len) < 0 ? err_errno(err, EIO, "%s", name) : edit_run(name, err);
    if (code == 0) {
        autofd edited = open(name, O_RDONLY | O_CLOEXEC); /* editors put a new file in its place */
        code = edited < 0 ? err_errno(err, errno, "%s", name) : edit_read(edited, &after, err);
    }
    if (code == 0 && (after.len != text.len || memcmp(after.data, text.data, text.len) != 0))
        code = edit_put(cli, id, path, etag, &after, err);
    if (code < 0 && after.len)
        return err_wrap(err, "your version is kept in %s", name);
    unlink(name);
    return code;
}

int command_edit(struct cli *cli, int argc, char **argv) {
    const char *id, *path;
    struct err err = {0};
    if (option_parse(cli, argc, argv, NULL) != 1)
        option_fail(cli, "missing ID:PATH, or more than one");
    if (!remote_split(cli, argv[0], &id, &path) || !*path)
        option_fail(cli, "'%s' is not ID:PATH", argv[0]);
    return edit_file(cli, id, path, &err) < 0 ? cli_fail(&err) : 0;
}
