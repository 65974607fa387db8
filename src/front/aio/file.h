/* The file group of the AIO dialect: what its parts share. aio/file.c has failures, read, download, write,
 * upload and list; aio/content.c the body of a write, of any length; aio/search.c find and search; aio/file_edit.c
 * replace and the editor. */
#ifndef CUBBY_FRONT_AIO_FILE_H
#define CUBBY_FRONT_AIO_FILE_H

#include "base/scratch.h"
#include "front/aio/aio.h"
#include "front/send.h"

#define AIO_TEXT_BYTES (16u << 20) /* of a file that is answered or edited as text; download has no such limit */
#define AIO_TEXT_LIMIT "file exceeds the 16 MiB limit of text; download it, or ask for a range of its lines"

/* A failure on a path, as data (error_type, errno ...), with its status, or 200 if the configuration wants the
 * envelope alone. what: "Failed to read file"; operation: "read". Failures that do not concern the file (a box that
 * ended, a busy daemon) are returned as they are. Returns the handler's result. */
int aio_file_fail(struct http_request *request, const char *what, const char *operation, const char *path,
                  struct err *err);

/* As front_load, but INVALID in Python's words where it is not UTF-8. TOO_LARGE: AIO_TEXT_LIMIT. */
int aio_load_text(struct http_request *request, struct box *box, struct front_load *load, struct err *err);

/* ---- the body of a write (aio/content.c) ---- */

/* The member `content` of a JSON body, taken out of it while it comes: a little in memory, the rest in a file without a
 * name. */
struct aio_content {
    struct http_request *request;
    struct buf memory;
    struct scratch file; /* fd -1: all is in memory */
    const struct box *box;
    uint64_t len;
    bool seen;
    /* how it is read */
    const char *encoding; /* "utf-8", "base64", "raw" */
    bool leading, trailing;
    uint64_t at, given; /* bytes taken of it; bytes that became of them */
    uint8_t *piece;
    size_t piece_at, piece_len, kept;
    bool ended;
};
void aio_content_done(struct aio_content *content);
/* The whole body: the rest of it goes by the route's rows into *ret_args. As aio_body. */
int aio_content_take(struct http_request *request, const struct box *box, struct aio_content *ret_content,
                     void *ret_args, struct err *err);
/* The largest upload into the box, and the option that limits it: an upload that its disk can never hold is not
 * read. */
uint64_t aio_upload_most(struct http_request *request, const struct box *box, const char **ret_limit);
/* A box_reader. INVALID: it is not what its encoding says. */
ssize_t aio_content_read(void *content, void *data, size_t size, struct err *err);

/* ---- the editor's undo history (aio/file_edit.c) ---- */

struct aio_history;
struct aio_history *aio_history_new(void);
void aio_history_free(struct aio_history *history);

#endif
