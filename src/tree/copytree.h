/* Copies of files that boxes have written, whatever they hold: for backends, moves between file systems and squashed
 * layers. */
#ifndef CUBBY_TREE_COPYTREE_H
#define CUBBY_TREE_COPYTREE_H

#include "base/base.h"

struct copied {
    const char *method; /* "reflink": no byte was copied; "copy" */
    uint64_t bytes;     /* that were */
    uint64_t files;     /* of any kind, directories too */
};

/* Copies the tree below `from` below `to`, an empty directory, with owners, modes, times, extended attributes, hard
 * links, holes and whiteouts; `to` itself gets those of `from`. No process writes to either during the call. On
 * failure a part is left in `to`. Any depth and width: memory and descriptors do not grow with the width. */
int copytree(int from, int to, struct copied *ret_copied, struct err *err);
/* The content of one regular file, into an empty one; both at offset 0, open for reading and for writing. */
int copytree_file(int from, int to, struct copied *ret_copied, struct err *err);
/* `from` and all below it as a new `to`, with the rights that we have, while others may write there: modes without
 * set-id bits, times and holes; files, directories, links and FIFOs alone. `shown` names it in errors. On failure a
 * part is left. */
int copytree_shared(int from_dir, const char *from, int to_dir, const char *to, const char *shown, struct err *err);

/* Single entries of several trees into one below `to`: everything but directories; names of one file stay so. */
struct copytree *copytree_begin(int to, const char *without); /* without: extended attributes that begin so */
int copytree_entry(struct copytree *tree, int from_dir, int to_dir, const char *name, struct err *err);
/* Owner, mode, extended attributes and times of a directory. */
int copytree_directory(struct copytree *tree, int from, int to, struct err *err);
/* The same while programs write to it; `there`: the copy exists and becomes like it. *ret_status: in, what it was; out,
 * what it was when its content was read. *ret_hot: a program has it open for writing. 1: it went, or another one has
 * its name. */
int copytree_live(struct copytree *tree, int from_dir, int to_dir, const char *name, bool there,
                  struct stat *ret_status, bool *ret_hot, struct err *err);
void copytree_count(const struct copytree *tree, struct copied *ret_copied); /* so far */
void copytree_end(struct copytree *tree);

#endif
