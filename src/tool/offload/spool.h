/* A text of any length in bounded memory: what passes SPOOL_MEMORY_BYTES goes on in a nameless file of the store of kept
 * results; without such a store the middle is dropped. Bytes as they come; the end makes UTF-8 of them. */
#ifndef CUBBY_TOOL_SPOOL_H
#define CUBBY_TOOL_SPOOL_H

#include "base/err.h"
#include "base/headtail.h"

#define SPOOL_MEMORY_BYTES (1u << 20)
#define SPOOL_FILE_BYTES (256u << 20) /* of one text; what comes after is counted and dropped */

struct spool {
    int dir;              /* for the file; -1: none. The owner's */
    int fd;               /* the file, once there is one */
    struct buf memory;    /* what came last, or everything */
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
/* The text as a file of its directory, under a name that is not taken; the spool goes on with the same file. Nothing is
 * written when it already lies in a nameless one. UNSUPPORTED: there can be no file. */
int spool_link(struct spool *spool, const char *name, struct err *err);
/* The whole text in one piece (a map of the file, when there is one); valid until the next put, clear or done. */
const uint8_t *spool_view(struct spool *spool, size_t *ret_len);

#endif
