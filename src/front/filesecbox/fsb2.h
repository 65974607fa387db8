/* The later family of the dialect: what its files share. A user's place has two parts, "skills/..." and "files/..."; errors
 * come with status 200. */
#ifndef CUBBY_FRONT_FILESECBOX_NEWEST_H
#define CUBBY_FRONT_FILESECBOX_NEWEST_H

#include "front/filesecbox/filesecbox.h"

#define NEWEST_CREATOR "skill-creator" /* every agent's, and nobody's to change */
#define NEWEST_FILE "SKILL.md"         /* only at the root of a skill */
#define NEWEST_STATUS 200              /* of errors, too */

enum { NEWEST_READ_WAIT_MS = 5000 };

/* A handler's work, once names and token are checked. Negative: err is told in the envelope; positive: it was told already. */
typedef int fsb2_work(struct filesecbox *call, struct err *err);
#define NEWEST_BOX 0x1u     /* with the user's box */
#define NEWEST_CHANGES 0x2u /* for what is said when the box is busy */
int fsb2_run(struct http_request *request, unsigned needs, fsb2_work *work, struct err *err);

/* A fault of the request's form (no JSON, no number, too large) keeps its status: told at once, and its code made positive. */
int fsb2_form(struct http_request *request, int code, struct err *err);

/* A turn to read or to write single files; not while an answer is sent, whose reader may be slow. */
int fsb2_share(struct filesecbox *call, struct err *err);

/* ---- rules (filesecbox/fsb2_rule.c) ---- */

bool fsb2_claims(const char *path); /* it has the form of one of ours, and nobody else's word in front */

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
/* NULL: it may be run; else the dialect's refusal, in the arena. Commands are those of the allow list; a policy that tells
 * an agent early, while the wall is the box. */
const char *fsb2_refusal(struct arena *arena, const char *const *commands, const char *workspace, const char *line,
                         size_t len);

/* ---- files (filesecbox/fsb2_file.c) ---- */

int fsb2_path(struct filesecbox *call, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err);
/* A link at the end stays one: to remove it. */
int fsb2_path_itself(struct filesecbox *call, const char *given, size_t len, struct fsb2_path *ret_path,
                     struct err *err);
typedef int fsb2_handler(struct http_request *request, struct box *unused, struct err *err);
fsb2_handler fsb2_file_list, fsb2_content, fsb2_write, fsb2_edit, fsb2_delete, fsb2_file_upload;

/* The directory behind files/ is there: it is made with its first use. */
int fsb2_files_made(struct filesecbox *call, struct err *err);

/* Texts of a JSON body; all must be there. The first stands in the audit log. */
struct fsb2_member {
    const char *name; /* NULL ends a table */
    const char **ret_text;
    size_t *ret_len;
};
/* As fsb2_form for a body that is no JSON. expected: the number expected_replacements, 1 where it is not given; NULL: not asked for. Texts in the request's arena. */
int fsb2_members(struct http_request *request, const struct fsb2_member *members, int64_t *ret_expected,
                 struct err *err);

/* ---- commands (filesecbox/fsb2_exec.c) ---- */

fsb2_handler fsb2_execute;

#endif
