/* A tree with everything that makes it a box's files, as a tar stream: owners, modes, times, extended attributes, hard
 * links, holes and whiteouts. For moving boxes, layers and templates to another machine. */
#ifndef CUBBY_TREE_PACK_H
#define CUBBY_TREE_PACK_H

#include "tree/tar.h"

/* Writes the entry `name` of `dir` and everything below it, and the end mark. skip: entries to leave out, by their path
 * below `name`; may be NULL. No process may write there during the call. Sockets are left out. TOO_LARGE: a path or
 * the attributes of one file are longer than a tar head takes. */
int pack_write(int dir, const char *name, bool (*skip)(const char *path), struct tar_out *out, struct err *err);

/* Reads such a stream, which is hostile: everything it makes is `name` in `top`, or lies below it. A directory that is
 * there already is used. On failure a part is left. */
struct pack_in;
struct pack_in *pack_in_new(int top, const char *name);
int pack_in_feed(struct pack_in *in, const uint8_t *data, size_t len, struct err *err);
int pack_in_end(struct pack_in *in, struct err *err); /* INVALID: the stream was not whole */
void pack_in_free(struct pack_in *in);                /* NULL is fine */

#endif
