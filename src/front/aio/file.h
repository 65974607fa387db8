/* The file group of the AIO dialect: shared by its parts. aio/file.c has failures, read, download, write, upload and
 * list; aio/content.c the body of a write, of any length; aio/search.c find and search; aio/file_edit.c replace and the
 * editor. */
#ifndef CUBBY_FRONT_AIO_FILE_H
#define CUBBY_FRONT_AIO_FILE_H

#include "base/scratch.h"
#include "front/aio/aio.h"
#include "front/send.h"

#define AIO_TEXT_BYTES (16u << 20) /* largest file sent or edited as text; download has no such limit */
#define AIO_TEXT_LIMIT "file exceeds the 16 MiB limit of text; download it, or ask for a range of its lines"

/* Answers a failure on a path with data (error_type, errno ...) and its status, or 200 if so configured. what: "Failed
 * to read file"; operation: "read". Failures that do not concern the file (the box ended, the daemon is busy) are
 * returned as they are. Returns the handler's result. */
int aio_file_fail(struct http_request *request, const char *what, const char *operation, const char *path,
                  struct err *err);

/* Like front_load, but INVALID with Python's text if it is not UTF-8. TOO_LARGE: AIO_TEXT_LIMIT. */
int aio_load_text(struct http_request *request, struct box *box, struct front_load *load, struct err *err);

/* ---- the body of a write (aio/content.c) ---- */

/* The member `content` of a JSON body, extracted while it arrives: a little in memory, the rest in an unnamed file. */
struct aio_content {
    struct http_request *request;
    struct buf memory;
    struct scratch file; /* fd -1: everything is in memory */
    const struct box *box;
    uint64_t len;
    bool seen;
    /* how it is read */
    const char *encoding; /* "utf-8", "base64", "raw" */
    bool leading, trailing;
    uint64_t at, given; /* bytes read, and bytes decoded */
    uint8_t *piece;
    size_t piece_at, piece_len, kept;
    bool ended;
};
void aio_content_done(struct aio_content *content);
/* Receives the whole body. Its other members are bound by the route's rows into *ret_args. Returns as detail_body. */
int aio_content_take(struct http_request *request, const struct box *box, struct aio_content *ret_content,
                     void *ret_args, struct err *err);
/* The largest upload into the box, and the option that limits it. A larger upload, which could never fit, is not
 * read. */
uint64_t aio_upload_most(struct http_request *request, const struct box *box, const char **ret_limit);
/* A box_reader. INVALID: the content does not have its encoding. */
ssize_t aio_content_read(void *content, void *data, size_t size, struct err *err);

/* ---- the editor's undo history (aio/file_edit.c) ---- */

struct aio_history;
struct aio_history *aio_history_new(void);
void aio_history_free(struct aio_history *history);

#endif
