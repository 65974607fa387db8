/* Copies files that boxes have written, whatever they contain: for backends, moves between file systems and squashed
 * layers. */
#ifndef CUBBY_TREE_COPYTREE_H
#define CUBBY_TREE_COPYTREE_H

#include "base/base.h"

struct copied {
    const char *method; /* "reflink": no byte was copied; "copy" */
    uint64_t bytes;     /* copied */
    uint64_t files;     /* of any kind, including directories */
};

/* Copies the tree below `from` to `to`, an empty directory, with owners, modes, times, extended attributes, hard links,
 * holes and whiteouts; `to` itself gets those of `from`. No process may write to either during the call. On failure a
 * part is left in `to`. Any depth and width: memory and descriptors do not grow with the width. */
int copytree(int from, int to, struct copied *ret_copied, struct err *err);
/* Copies the content of one regular file into an empty one; both at offset 0, open for reading and writing. */
int copytree_file(int from, int to, struct copied *ret_copied, struct err *err);
/* Copies `from` and everything below it to a new `to`, with our own rights, while others may write there: modes without
 * set-id bits, times and holes; only files, directories, links and FIFOs. `shown` is its name in errors. On failure a
 * part is left. */
int copytree_shared(int from_dir, const char *from, int to_dir, const char *to, const char *shown, struct err *err);

/* Copies single entries of several trees into one below `to`: everything but directories; hard links are kept. */
struct copytree *copytree_begin(int to, const char *without); /* without: prefix of extended attributes to skip */
int copytree_entry(struct copytree *tree, int from_dir, int to_dir, const char *name, struct err *err);
/* Copies owner, mode, extended attributes and times of a directory. */
int copytree_directory(struct copytree *tree, int from, int to, struct err *err);
/* Copies an entry while programs write to it. `there`: the copy exists and is updated. *ret_status: in, its old status;
 * out, its status when its content was read. *ret_hot: a program has it open for writing. Returns 1 if it is gone, or
 * another file has its name. */
int copytree_live(struct copytree *tree, int from_dir, int to_dir, const char *name, bool there,
                  struct stat *ret_status, bool *ret_hot, struct err *err);
void copytree_count(const struct copytree *tree, struct copied *ret_copied); /* so far */
void copytree_end(struct copytree *tree);

#endif
