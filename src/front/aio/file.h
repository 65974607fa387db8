/* The file group of the AIO dialect: what its parts share. aio/file.c has the table, failures, read and download;
 * aio/file_write.c write and upload; aio/content.c the body of a write, of any length; aio/file_list.c list; aio/search.c find and search;
 * aio/file_edit.c replace and the editor, aio/history.c what the editor can take back. */
#ifndef CUBBY_FRONT_AIO_FILE_H
#define CUBBY_FRONT_AIO_FILE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/scratch.h"
#include "box/box.h"
#include "front/aio/aio.h"

#define AIO_TEXT_BYTES (16u << 20) /* of a file that is answered or edited as text; download has no such limit */
#define AIO_TEXT_LIMIT "file exceeds the 16 MiB limit of text; download it, or ask for a range of its lines"

typedef int aio_run(struct http_request *request, struct box *box, struct err *err);

/* What went wrong with a path, as data of a failure (error_type, errno ...), with its status, or 200 where the configuration
 * wants the envelope alone. what: "Failed to read file"; operation: "read". Failures that are none of the file (a box that
 * ended, a daemon that is busy) come back as they are. Returns what the handler returns. */
int aio_file_fail(struct http_request *request, const char *what, const char *operation, const char *path,
                  struct err *err);

/* The content, or those of its lines: first counts from 0, last is the one behind. Without a range all of it. */
struct aio_load {
    const char *path;
    bool root, ranged;
    uint64_t first, last;
    struct buf *out;       /* initialised by the caller, AIO_TEXT_BYTES at most */
    struct file_stat stat; /* filled; not where root */
};
/* TOO_LARGE: AIO_TEXT_LIMIT. */
int aio_load(struct http_request *request, struct box *box, struct aio_load *load, struct err *err);
/* INVALID in Python's words where it is no UTF-8. */
int aio_load_text(struct http_request *request, struct box *box, struct aio_load *load, struct err *err);

/* A client's path as in front/native/native.h; change: it is about to be written. NULL: err is set. */
const char *aio_path(struct http_request *request, struct box *box, const struct row_text *path, bool change,
                     struct err *err);

/* ---- the body of a write (aio/content.c) ---- */

/* The member `content` of a JSON body, taken out of it while it comes: a little in memory, the rest in a file without a name. */
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
/* The most that an upload into the box may have, and the option that says so: what its disk can never hold is not taken in. */
uint64_t aio_upload_most(struct http_request *request, const struct box *box, const char **ret_limit);
/* A box_reader. INVALID: it is not what its encoding says. */
ssize_t aio_content_read(void *content, void *data, size_t size, struct err *err);

/* ---- what can be taken back (aio/history.c) ---- */

struct aio_history;
struct aio_history *aio_history_new(void);
void aio_history_free(struct aio_history *history);
/* The file was `old` before (NULL: it was not there) and has this ETag since. Takes a copy. */
void aio_history_put(struct aio_history *history, const struct box *box, const char *path, const void *old, size_t len,
                     const char *etag);
/* The last one, taken out: true, *ret_old (malloc; NULL: there was none) and *ret_etag (malloc). */
bool aio_history_take(struct aio_history *history, const struct box *box, const char *path, char **ret_old,
                      size_t *ret_len, char **ret_etag);

/* ---- the routes ---- */

aio_run aio_file_read, aio_file_download;  /* aio/file.c */
aio_run aio_file_write, aio_file_upload;   /* aio/file_write.c */
aio_run aio_file_list;                     /* aio/file_list.c */
aio_run aio_file_find, aio_file_search;    /* aio/search.c */
aio_run aio_file_replace, aio_file_editor; /* aio/file_edit.c */
extern const struct row aio_write_fields[], aio_list_fields[], aio_find_fields[], aio_search_fields[],
    aio_replace_fields[], aio_editor_fields[];

#endif
