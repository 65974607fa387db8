/* The stores of trees below STATE/skills: layers, global, blobs. A tree is made in STATE/skills/staging, moved into a
 * store as a whole, and never changed afterwards. One rename also removes it. Callers check the names of files; they
 * are still resolved below the stage's descriptor, without links or "..". */
#ifndef CUBBY_SKILL_STAGE_H
#define CUBBY_SKILL_STAGE_H

#include "base/limits.h"
#include "base/scratch.h"
#include "skill/skill.h"

struct stage {
    struct skills *skills;
    char name[32];               /* in staging/ */
    int fd;                      /* its directory, 0700 and flocked; -1: published or aborted */
    uint64_t bytes, files, dirs; /* made so far, parents included */
    uint64_t entries_max;        /* limit of files plus dirs; 0: the caller counts */
    int parent_fd;               /* directory of the last file, since files come in order */
    char *parent;
};

int stage_open(struct skills *skills, struct stage *ret_stage, struct err *err);
int stage_dir(struct stage *stage, const char *path, struct err *err); /* makes its parents too */
/* Makes a file for writing, and its parents. mode becomes 0644 or 0755. EXISTS: the file exists. */
int stage_file(struct stage *stage, const char *path, uint32_t mode, int *ret_fd, struct err *err);
/* Links a whole skill of another layer: immutable layers share their files. */
int stage_link(struct stage *stage, const char *layer, const char *skill, struct err *err);
/* Copies a directory of the host as one skill. Links that stay inside become copies. */
int stage_copy(struct stage *stage, const char *skill, int from_fd, struct err *err);
/* Call before stage_publish: sets the owner and mode of the directory, and syncs the whole stage to the disk. */
int stage_seal(struct stage *stage, struct err *err);
/* Moves a sealed stage to STORE/NAME and closes it. An existing tree of that name has the same content and stays. */
int stage_publish(struct stage *stage, int store, const char *name, struct err *err);
void stage_abort(struct stage *stage); /* removes everything; no effect on a published stage */

/* Removes STORE/NAME and everything below it. The caller knows that it is not in use. */
void skills_discard(struct skills *skills, int store, const char *name);
/* Removes the trees for which `unused` returns true. *ret_held is a locked descriptor that stays open until then. */
int skills_sweep(struct skills *skills, int store, bool (*unused)(void *user, const char *name, int *ret_held),
                 void *user, struct err *err);
void stage_sweep(struct skills *skills); /* removes stages of dead makers */

/* Receives one skill as a tar stream, below the skill's name: regular files and directories, within the settings'
 * limits. Links that stay inside become copies; other links are refused by name. stage_tar_feed is a sink for
 * box_tar_out, with the stage_tar as user. stage_tar_end returns the first error and must always be called. */
struct stage_tar;
struct stage_tar *stage_tar_new(struct stage *stage, const char *skill);
int stage_tar_feed(void *stage_tar, const uint8_t *data, size_t len);
int stage_tar_end(struct stage_tar *tar, struct err *err); /* frees it; INVALID: the stream is incomplete */
/* Copies the tree at path in the box, as the skill of that name. */
int stage_box(struct stage *stage, struct box *box, const char *path, const char *skill, int watch, struct err *err);
/* Finds where a link at `path` of a skill leads, below the skill. Returns false if it leads outside. Compares names
 * only: every part of the result is an entry of the skill, and not a link. */
bool stage_link_target(struct skills *skills, const char *skill, const char *path, const char *target,
                       char out[LIMIT_PATH_BYTES + 1]);

/* Makes a nameless file for an upload or a download. End it with scratch_done. */
int skills_scratch(struct skills *skills, const char *user, uint64_t most, const char *limit,
                   struct scratch *ret_scratch, struct err *err);

#endif
