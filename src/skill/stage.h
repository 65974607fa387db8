/* The stores of trees below STATE/skills: layers, global, blobs. A tree is made in STATE/skills/staging and moved into
 * a store as a whole; then it never changes. It is removed by one rename, too. The caller's parser has checked the
 * names of files; they are resolved below the stage's descriptor all the same (no links, no ".."). */
#ifndef CUBBY_SKILL_STAGE_H
#define CUBBY_SKILL_STAGE_H

#include "base/limits.h"
#include "base/scratch.h"
#include "skill/skill.h"

struct stage {
    struct skills *skills;
    char name[32];               /* in staging/ */
    int fd;                      /* its directory, 0700 and flocked while it is a stage; -1: published or aborted */
    uint64_t bytes, files, dirs; /* made so far, parents included */
    uint64_t entries_max;        /* of files and dirs together; 0: the caller counts */
    int parent_fd;               /* of the last file: files come in order */
    char *parent;
};

int stage_open(struct skills *skills, struct stage *ret_stage, struct err *err);
int stage_dir(struct stage *stage, const char *path, struct err *err); /* with its parents */
/* A new file for writing, with its parents; mode: 0644 or 0755 by its x bits. EXISTS: there is one. */
int stage_file(struct stage *stage, const char *path, uint32_t mode, int *ret_fd, struct err *err);
/* A whole skill of another layer, by hard links: immutable layers share their files. */
int stage_link(struct stage *stage, const char *layer, const char *skill, struct err *err);
/* A directory of the host as one skill; links that stay inside become copies. */
int stage_copy(struct stage *stage, const char *skill, int from_fd, struct err *err);
/* Before it is published: the directory gets its owner and mode, and all of it is on the disk afterwards. */
int stage_seal(struct stage *stage, struct err *err);
/* Moves a sealed one, whole, to STORE/NAME; the stage is closed then. A tree of that name is the same one. */
int stage_publish(struct stage *stage, int store, const char *name, struct err *err);
void stage_abort(struct stage *stage); /* leaves nothing; does nothing to a published stage */

/* Removes STORE/NAME with all below it. The caller knows that it is not in use. */
void skills_discard(struct skills *skills, int store, const char *name);
/* Removes those that `unused` finds to be so. *ret_held: a descriptor to keep open meanwhile, for its flock. */
int skills_sweep(struct skills *skills, int store, bool (*unused)(void *user, const char *name, int *ret_held),
                 void *user, struct err *err);
void stage_sweep(struct skills *skills); /* removes stages of dead makers */

/* One skill from a tar stream that is pushed, below the skill's name: regular files and directories, within the
 * settings' limits. Links that stay inside become copies, other links are refused by name. stage_tar_feed is a sink
 * for box_tar_out with the stage_tar as its user. stage_tar_end reports errors, and must always be called. */
struct stage_tar;
struct stage_tar *stage_tar_new(struct stage *stage, const char *skill);
int stage_tar_feed(void *stage_tar, const uint8_t *data, size_t len);
int stage_tar_end(struct stage_tar *tar, struct err *err); /* and frees it; an unfinished stream is INVALID */
/* The tree at path of the box, as the skill of that name. */
int stage_box(struct stage *stage, struct box *box, const char *path, const char *skill, int watch, struct err *err);
/* Where a link at `path` of a skill leads, below the skill. false: outside of it. By names alone: every part of the way
 * is one of the skill's own entries, none of them a link. */
bool stage_link_target(struct skills *skills, const char *skill, const char *path, const char *target,
                       char out[LIMIT_PATH_BYTES + 1]);

/* A nameless file for an upload or a download. Ends with scratch_done. */
int skills_scratch(struct skills *skills, const char *user, uint64_t most, const char *limit,
                   struct scratch *ret_scratch, struct err *err);

#endif
