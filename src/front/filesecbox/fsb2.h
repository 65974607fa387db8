/* The second family of the dialect: shared by its files. A user's place has two parts, "skills/..." and "files/...";
 * errors have status 200. */
#ifndef CUBBY_FRONT_FILESECBOX_FSB2_H
#define CUBBY_FRONT_FILESECBOX_FSB2_H

#include "front/filesecbox/filesecbox.h"

#define FSB2_CREATOR "skill-creator" /* every agent has it, and no user can change it */
#define FSB2_FILE "SKILL.md"         /* only at the root of a skill */
#define FSB2_STATUS 200              /* of errors, too */

enum { FSB2_READ_WAIT_MS = 5000 };

/* ---- rules (filesecbox/fsb2_rule.c) ---- */

bool fsb2_claims(const char *path); /* it has the form of one of our paths and begins with no word of another API */

struct fsb2_path {
    const char *given;
    const char *logical; /* "skills/a/b": no "", ".", ".." among its parts */
    const char *name;    /* the last part */
    const char *skill;   /* the second part of one below skills/; else NULL */
    unsigned parts;
    bool skills;      /* else files */
    const char *path; /* in the box, links resolved: fsb2_path, fsb2_path_itself */
};
/* INVALID with the dialect's sentence. Pure: path is not set. */
int fsb2_logical(struct arena *arena, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err);
bool fsb2_is_creator(const struct fsb2_path *path);

int fsb2_scope_error(const char *given, struct err *err);
/* NULL: the line may run; else the dialect's refusal, in the arena. commands: the allow list. This only informs an
 * agent early; the wall is the box. */
const char *fsb2_refusal(struct arena *arena, const char *const *commands, const char *workspace, const char *line,
                         size_t len);

/* ---- files (filesecbox/fsb2_file.c) ---- */

int fsb2_file_list(struct filesecbox *call, struct err *err);
int fsb2_content(struct filesecbox *call, struct err *err);
int fsb2_write(struct filesecbox *call, struct err *err);
int fsb2_edit(struct filesecbox *call, struct err *err);
int fsb2_delete(struct filesecbox *call, struct err *err);
int fsb2_file_upload(struct filesecbox *call, struct err *err);
/* Makes the directory of files/, with its first use. */
int fsb2_files_made(struct filesecbox *call, struct err *err);

#endif
