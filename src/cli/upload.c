/* Uploads (upload.h). Invariant: an archive that tar did not finish does not look finished to the daemon. */
#include "cli/upload.h"

#include "base/base.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "http/client/client.h"

static ssize_t upload_read(void *user, void *data, size_t len) {
    struct upload *upload = user;
    ssize_t got;
    do
        got = read(upload->fd, data, len);
    while (got < 0 && errno == EINTR);
    upload->number = got < 0 ? errno : 0;
    if (got > 0)
        progress_add(&upload->progress, (uint64_t)got);
    if (got != 0 || !upload->archive)
        return got;
    int code = archive_end(upload->archive, &upload->ended);
    upload->archive = NULL;
    return code < 0 ? -1 : 0;
}

static int upload_tick(void *user) {
    const struct upload *upload = user;
    return upload->tick ? upload->tick(upload->user) : 0;
}

int upload_send(struct cli *cli, struct upload *upload, const char *path, struct buf *ret_answer, struct err *err) {
    const char *headers[] = {arena_printf(&cli->arena, "Content-Type: %s", upload->type), NULL};
    const struct http_call call = {.method = "PUT",
                                   .path = path,
                                   .headers = headers,
                                   .read_body = upload_read,
                                   .read_length = upload->length,
                                   .tick = upload_tick,
                                   .user = upload};
    progress_begin(&upload->progress, upload->quiet, upload->length);
    int code = remote_send(cli, &call, ret_answer, err);
    progress_end(&upload->progress);
    if (upload->ended.code) {
        *err = upload->ended;
        return -err->code;
    }
    return upload->number ? err_errno(err, upload->number, "%s", upload->what) : code;
}
