/* A tree on its way to become a layer: written in STATE/skills/staging, moved as a whole. Names given to it were checked
 * by the caller's parser, and are resolved below the stage's descriptor all the same (no links, no "..").  */
#ifndef CUBBY_SKILL_STAGE_H
#define CUBBY_SKILL_STAGE_H

#include "base/scratch.h"
#include "skill/skill.h"

struct stage {
    struct skills *skills;
    char name[32];               /* in staging/ */
    int fd;                      /* its directory, 0700 and flocked while it is a stage; -1: taken or aborted */
    uint64_t bytes, files, dirs; /* made so far, parents included */
    uint64_t entries_max;        /* of files and dirs together; 0: the caller counts */
    int parent_fd;               /* of the last file: they come in order */
    char *parent;
};

int stage_open(struct skills *skills, struct stage *ret_stage, struct err *err);
int stage_dir(struct stage *stage, const char *path, struct err *err); /* with its parents */
/* A new file for writing, with its parents; mode: 0644 or 0755 by its x bits. EXISTS: there is one. */
int stage_file(struct stage *stage, const char *path, uint32_t mode, int *ret_fd, struct err *err);
/* A whole skill of another layer, by hard links: immutable layers share their files. */
int stage_link(struct stage *stage, const char *layer, const char *skill, struct err *err);
/* A directory of the host, as one skill: links that stay inside are flattened. */
int stage_copy(struct stage *stage, const char *skill, int from_fd, struct err *err);
int stage_sync(const struct stage *stage, struct err *err); /* all of it is on the disk then */
void stage_abort(struct stage *stage);                      /* leaves nothing; fine after it was taken */

/* From a tar stream that is pushed, one skill below its name: regular files and directories; links that stay inside are
 * flattened, others refused by name; bounded by the settings. stage_tar_feed is a sink for box_tar_out, with the stage_tar as
 * its user; stage_tar_end reports what is wrong, and has to be called in any case. */
struct stage_tar;
struct stage_tar *stage_tar_new(struct stage *stage, const char *skill);
int stage_tar_feed(void *stage_tar, const uint8_t *data, size_t len);
int stage_tar_end(struct stage_tar *tar, struct err *err); /* and frees it; an unfinished stream is INVALID */

/* A nameless file, for what is spooled: an upload, a download. For scratch_done. */
int skills_scratch(struct skills *skills, const char *user, uint64_t most, const char *limit,
                   struct scratch *ret_scratch, struct err *err);

#endif
