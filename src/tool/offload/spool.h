/* A text of any length in bounded memory: bytes beyond SPOOL_MEMORY_BYTES go to an unnamed file in the store of kept
 * results; without such a store the middle is dropped. The bytes need not be UTF-8. */
#ifndef CUBBY_TOOL_SPOOL_H
#define CUBBY_TOOL_SPOOL_H

#include "base/err.h"
#include "base/headtail.h"

#define SPOOL_MEMORY_BYTES (1u << 20)
#define SPOOL_FILE_BYTES (256u << 20) /* of one text; later bytes are counted and dropped */

struct spool {
    int dir;              /* directory for the file, owned by the caller; -1: none */
    int fd;               /* the file, once there is one */
    struct buf memory;    /* the last bytes, or everything */
    struct headtail ends; /* replaces memory if the text is too long and there is no file */
    bool dropping;        /* `ends` is in use */
    bool viewed;          /* `ends` was joined into one piece */
    bool full;            /* the file could not grow */
    uint64_t written;     /* bytes in the file */
    uint64_t total;       /* bytes put; if the view has less, some were dropped */
    void *map;
    size_t map_len;
};

void spool_init(struct spool *spool, int dir);
void spool_done(struct spool *spool);
void spool_clear(struct spool *spool);
void spool_put(struct spool *spool, const void *data, size_t len);
/* Appends the whole other spool, which is empty afterwards. */
void spool_move(struct spool *spool, struct spool *from);
/* Gives the text's file a name in its directory; the spool continues with the same file. Copies only if the text is not
 * in an unnamed file. UNSUPPORTED: there is no directory for files. */
int spool_link(struct spool *spool, const char *name, struct err *err);
/* The whole text in one piece (a map of the file, when there is one); valid until the next put, clear or done. */
const uint8_t *spool_view(struct spool *spool, size_t *ret_len);

#endif
