/* A text of any length in bounded memory: bytes beyond SPOOL_MEMORY_BYTES go to an unnamed file in the store of kept
 * results; without such a store the middle is dropped. The bytes need not be UTF-8. */
#ifndef CUBBY_TOOL_SPOOL_H
#define CUBBY_TOOL_SPOOL_H

#include "base/err.h"
#include "base/headtail.h"

#define SPOOL_MEMORY_BYTES (1u << 20)
#define SPOOL_FILE_BYTES (256u << 20) /* of one text; later bytes are counted and dropped */

struct spool {
    int dir;              /* for the file; -1: none. The owner's */
    int fd;               /* the file, once there is one */
    struct buf memory;    /* the last bytes, or everything */
    struct headtail ends; /* instead, when there can be no file and it is too long */
    bool dropping;        /* it is in use */
    bool viewed;          /* and was made one piece */
    bool full;            /* the file took no more */
    uint64_t written;     /* bytes in the file */
    uint64_t total;       /* bytes that came; more than the view has: some were dropped */
    void *map;
    size_t map_len;
};

void spool_init(struct spool *spool, int dir);
void spool_done(struct spool *spool);
void spool_clear(struct spool *spool);
void spool_put(struct spool *spool, const void *data, size_t len);
/* Appends all of another, which is empty afterwards. */
void spool_move(struct spool *spool, struct spool *from);
/* Gives the text's file a name in its directory; the spool continues with the same file. Copies nothing if the text
 * is already in an unnamed file. UNSUPPORTED: files are not available. */
int spool_link(struct spool *spool, const char *name, struct err *err);
/* The whole text in one piece (a map of the file, when there is one); valid until the next put, clear or done. */
const uint8_t *spool_view(struct spool *spool, size_t *ret_len);

#endif
