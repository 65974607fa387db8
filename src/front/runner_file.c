/* Files too large for a message of the text form, over HTTP started by the machine: GET and POST /runner/files/{transfer}.
 * Called through runner_routes. Not to break: a transfer is one machine's, once; nothing is kept here but a piece. */
#include "front/runner_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "front/runner.h"
#include "front/trail.h"
#include "http/multipart.h"

enum { PIECE_BYTES = 64 << 10 };

/* Whose it is, the token says; whoever has none of a machine gets what he would for a transfer that is not there. */
static int file_take(struct http_request *request, bool brings, struct machine_transfer **ret_transfer,
                     uint64_t *ret_size, struct err *err) {
    const struct who *who = front_who(request);
    if (who->scope != SCOPE_RUNNER)
        return err_set(err, ERR_DENIED, "this is for tokens of scope runner");
    int failed =
        machine_transfer_take(runner_transfers(front_of(request)), http_param(request, "transfer"),
                              who->user ? who->user : RUNNER_USER, who->runner, brings, ret_transfer, ret_size, err);
    if (!failed)
        trail_note(request, arena_printf(http_arena(request), "machine=%s", who->runner));
    return failed;
}

/* ---- the machine fetches ---- */

static int file_send(struct http_request *request, struct machine_transfer *transfer, uint8_t *piece, struct err *err) {
    for (;;) {
        ssize_t n = machine_transfer_get(transfer, piece, PIECE_BYTES, err);
        if (n <= 0)
            return (int)n;
        if (http_reply_write(request, piece, (size_t)n) < 0)
            return err_set(err, ERR_GONE, "the machine did not fetch all of it");
    }
}

int runner_file_get(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct machine_transfer *transfer;
    uint64_t size;
    int failed = file_take(request, false, &transfer, &size, err);
    if (failed)
        return failed;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    failed = http_reply_begin(request, 200, "application/octet-stream", size == UINT64_MAX ? -1 : (int64_t)size);
    if (failed < 0)
        err_set(err, ERR_GONE, "the machine went away");
    else
        failed = file_send(request, transfer, piece, err);
    if (failed >= 0 && http_reply_end(request) < 0)
        failed = err_set(err, ERR_GONE, "the machine did not fetch all of it");
    free(piece);
    machine_transfer_close(transfer, failed < 0 ? err->text : NULL);
    return failed;
}

/* ---- the machine brings ---- */

struct form { /* the content is the first part that has a file name, or is called 'file' */
    struct machine_transfer *transfer;
    bool in_file, has_file;
};

static int form_part(void *user, const struct multipart_part *part, struct err *err) {
    struct form *form = user;
    (void)err;
    form->in_file = !form->has_file && (part->file_name || !strcmp(part->name, "file"));
    form->has_file |= form->in_file;
    return 0;
}

static int form_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct form *form = user;
    return form->in_file ? machine_transfer_put(form->transfer, data, len, err) : 0;
}

static int file_receive(struct http_request *request, struct machine_transfer *transfer, struct multipart *multipart,
                        uint8_t *piece, struct err *err) {
    for (;;) {
        ssize_t n = http_body_read(request, piece, PIECE_BYTES, err);
        if (n <= 0)
            return (int)n;
        int failed = multipart ? multipart_feed(multipart, piece, (size_t)n, err)
                               : machine_transfer_put(transfer, piece, (size_t)n, err);
        if (failed)
            return failed;
    }
}

static int file_form(struct http_request *request, struct machine_transfer *transfer, uint8_t *piece, struct err *err) {
    struct form form = {.transfer = transfer};
    const struct multipart_sink sink = {.part = form_part, .data = form_data, .user = &form};
    struct multipart *multipart;
    int failed = multipart_new(http_header(request, "content-type"), &sink, &multipart, err);
    if (failed)
        return failed;
    failed = file_receive(request, transfer, multipart, piece, err);
    if (!failed)
        failed = multipart_end(multipart, err);
    if (!failed && !form.has_file)
        failed = err_set(err, ERR_INVALID, "the form has no part with a file name");
    multipart_free(multipart);
    return failed;
}

int runner_file_post(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *type = http_header(request, "content-type");
    bool is_form = type && !strncasecmp(type, "multipart/form-data", 19);
    struct machine_transfer *transfer;
    uint64_t max = UINT64_MAX;
    int failed = file_take(request, true, &transfer, &max, err);
    if (failed)
        return failed;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    if (!is_form && http_body_length(request) > 0 && (uint64_t)http_body_length(request) > max)
        failed = err_set(err, ERR_TOO_LARGE, "the file has more than %" PRIu64 " bytes", max);
    else
        failed = is_form ? file_form(request, transfer, piece, err) : file_receive(request, transfer, NULL, piece, err);
    free(piece);
    machine_transfer_close(transfer, failed < 0 ? err->text : NULL);
    return failed ? failed : front_empty(request, 200);
}
