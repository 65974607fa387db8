/* The dialect of FileSecBoxService: shared by both of its families. fsb1.c is the first one (/v1/skills,
 * /v1/sandbox, errors with their status), fsb2*.c the second (/v1/{user}/{agent}: a user's place has two parts,
 * "skills/..." and "files/...", and errors have status 200).
 *
 * Every answer is {"status":"success"|"error","data":...}, also the server's own refusals. A malformed request (not a
 * number, no token, too large) keeps the status of its code; a request that fails has the status of its route. */
#ifndef CUBBY_FRONT_FILESECBOX_H
#define CUBBY_FRONT_FILESECBOX_H

#include "base/scratch.h"
#include "front/front.h"
#include "skill/skill.h"

extern const struct dialect filesecbox_dialect;
extern const struct route filesecbox_routes[]; /* ends with method NULL */
extern const struct route fsb2_routes[];       /* the same */
extern const struct row filesecbox_answer[];

/* dialect.refuse */
int filesecbox_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
bool filesecbox_reserved(const char *user, size_t len); /* a word of the API, not a name */

/* ---- routes ---- */

struct filesecbox;

#define FILESECBOX_BOX 0x1u     /* the user's box, made where the request may change something */
#define FILESECBOX_SHARE 0x2u   /* that, and a share of it: no skill is replaced during the request */
#define FILESECBOX_CHANGES 0x4u /* for the error text when the box is busy */
#define FILESECBOX_SECOND 0x8u  /* of the second family: refused names in the path have the route's status, too */
#define FILESECBOX_EITHER 0x10u /* of the family that the option skill_dialect names */

struct filesecbox_route {
    struct endpoint endpoint;
    unsigned needs;
    int status;         /* of failures */
    const char *prefix; /* of their error texts; NULL: data is null */
    /* Once names, token and arguments are checked. Negative: err is the answer; positive: answered already. */
    int (*work)(struct filesecbox *call, struct err *err);
};
/* route.extra: FILESECBOX_ROUTE(content, FILESECBOX_SHARE, 404, NULL, .query = ...). Unknown parameters are ignored, as
 * its clients expect. */
#define FILESECBOX_ROUTE(handler, wants, code, before, ...)                                                            \
    &((const struct filesecbox_route){.endpoint = {.run = filesecbox_run,                                              \
                                                   .refuse = filesecbox_refuse,                                        \
                                                   .status = 200,                                                      \
                                                   .flags = ENDPOINT_NO_BOX | ENDPOINT_LENIENT,                        \
                                                   __VA_ARGS__},                                                       \
                                      .needs = (wants),                                                                \
                                      .status = (code),                                                                \
                                      .prefix = (before),                                                              \
                                      .work = (handler)})                                                              \
         .endpoint
int filesecbox_run(struct http_request *request, struct box *unused, struct err *err);

struct filesecbox_args { /* of all routes; members that the rows of one do not name stay empty */
    struct row_text path, scope, command, name, direction, role, content, old_text, new_text;
    struct row_number first, second; /* of a range of lines: both are signed */
    struct row_number expected;
};
#define FILESECBOX_TEXT(label, member, bits, sentence)                                                                 \
    {                                                                                                                  \
        .name = (label), .type = ROW_TEXT, .flags = (bits), .offset = offsetof(struct filesecbox_args, member),        \
        .text = (sentence)                                                                                             \
    }
#define FILESECBOX_LINE(label, member, sentence)                                                                       \
    {                                                                                                                  \
        .name = (label), .type = ROW_INT, .flags = ROW_SIGNED, .offset = offsetof(struct filesecbox_args, member),     \
        .max = INT32_MAX, .text = (sentence)                                                                           \
    }

struct filesecbox {
    struct http_request *request;
    const struct filesecbox_route *route;
    struct filesecbox_args args;
    struct skills *skills;
    const char *user, *agent, *skill; /* checked names of the path; skill NULL: the route has none */
    bool admin;                       /* may change what all users of an agent see */
    int status;                       /* as of the route, or of the family that skill_dialect names */
    const char *prefix;
    struct box *box; /* NULL before filesecbox_box, and in a GET of a user without one: that reads the agent's public
                      * skills and an empty area */
    bool shared;
};
/* The box of (user, agent), made where the request may change something. Invariant: a GET makes no box. */
int filesecbox_box(struct filesecbox *call, struct err *err);
const char *filesecbox_workspace(const struct filesecbox *call); /* of the box that is there, or would be */
/* The same for requests that read several files, or write one: no skill is replaced during the request. */
int filesecbox_share(struct filesecbox *call, struct err *err);
/* The share also ends with the first byte of an answer: a client that reads slowly delays no other. */
void filesecbox_unshare(struct filesecbox *call);
int filesecbox_admin(const struct filesecbox *call, const char *what, struct err *err); /* DENIED: only for admins */

/* ---- answers ---- */

/* {"status":"success","data": ... and its end; between them one value is written into answer->json. */
void filesecbox_open(struct answer *answer, struct filesecbox *call);
int filesecbox_close(struct answer *answer, int result, struct err *err);
int filesecbox_text(struct filesecbox *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of a change of skills; "pending" says that it comes when the commands that run now have ended. */
struct own_change;
int filesecbox_changed(struct filesecbox *call, const char *text, const struct own_change *change, struct err *err);
/* An error that is answered now with the route's status; data: its text, NULL: null. The positive code, to be
 * returned. */
int filesecbox_error(struct filesecbox *call, int code, const char *data);
/* A failed call: UNAUTHORIZED and DENIED keep their status, TOO_LARGE, LIMIT and BUSY too where the route's is not 200;
 * all else has the route's status, prefix and err's sentence. To be returned. */
int filesecbox_fail(struct filesecbox *call, struct err *err);
/* A fault of the request's form, where code is negative, is answered at once with the status of its code. */
int filesecbox_form(struct filesecbox *call, int code, struct err *err);

/* ---- paths ---- */

/* Resolves a client's path below root (absolute, in the box) to one without links, "." and ".."; it never lies
 * outside of root (INVALID: "Security Error: ..."). Links are followed while they stay inside. The file need not
 * exist. *ret_path in the request's arena. */
int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err);
/* The lines first to second of a file, or all of it, as the call's family answers them: the first one a text or an
 * array of lines, the second one a text, its lines, and base64 of what is not UTF-8. */
int filesecbox_content(struct filesecbox *call, const char *path, struct err *err);
/* Writes the file completely or not at all, makes parents. */
int filesecbox_write(struct filesecbox *call, const char *path, const void *data, size_t len, struct err *err);
/* Applies `change` to the file; if the file changes in between it is read and changed again. A missing file is empty
 * if it may be created, else NOT_FOUND. change: positive leaves the file as it is. */
int filesecbox_change(struct filesecbox *call, const char *path, bool create,
                      int (*change)(void *user, const char *text, size_t len, struct buf *out, struct err *err),
                      void *user, struct err *err);
/* Of an absolute path, in the request's arena. */
int filesecbox_stat(struct filesecbox *call, const char *path, struct file_stat *ret_stat, struct err *err);
/* Every file below root at any depth, as paths relative to `from` (root or above it), sorted, in the request's arena.
 * skip: names directly below root that are left out, NULL-terminated. NOT_FOUND: no root. */
int filesecbox_files(struct filesecbox *call, const char *root, const char *from, const char *const *skip,
                     const char ***ret_paths, size_t *ret_count, struct err *err);
/* Such paths as the answer; before: a prefix for each, with a slash. NULL: nothing. */
int filesecbox_paths(struct filesecbox *call, const char *before, const char *const *paths, size_t count,
                     struct err *err);

/* ---- commands ---- */

struct filesecbox_exec {
    const char *const *argv; /* no shell; or */
    const char *command;     /* through bash */
    const char *cwd;
    const char *timeout_text; /* the error text of a timeout */
    const char *missing_text; /* the error text when cwd does not exist; NULL: the box's own */
};
uint64_t filesecbox_timeout_ms(const struct filesecbox *call);
/* Runs it with the dialect's environment and answers {"stdout","stderror","exit_code"}; returns the handler's
 * result. */
int filesecbox_execute(struct filesecbox *call, const struct filesecbox_exec *exec, struct err *err);

/* ---- uploads ---- */

struct zip;
struct filesecbox_upload {
    struct scratch file;       /* holds part `file` */
    const char *filename;      /* as the client says, in the request's arena; may be NULL */
    const char *scope;         /* the field of that name, the same */
    struct zip *zip;           /* after filesecbox_unzip, as is */
    const char *const *skills; /* their names, sorted, NULL-terminated */
};
/* The part `file` of a multipart body, at most max bytes because of the option `limit`. Call filesecbox_upload_done in
 * any case. */
int filesecbox_receive(struct filesecbox *call, uint64_t max, const char *limit, struct filesecbox_upload *ret_upload,
                       struct err *err);
void filesecbox_upload_done(struct filesecbox_upload *upload);
int filesecbox_upload(struct filesecbox *call, struct err *err);
enum { SCOPE_OVERLAY, SCOPE_BASELINE };
/* ?scope=, else `field`, of a form, in any case; NULL or empty: base says which. INVALID: neither of the two; DENIED:
 * baseline, and not an admin. */
int filesecbox_scope(struct filesecbox *call, const char *field, bool base, struct err *err);

/* ---- lists ---- */

struct filesecbox_skill {
    const char *id, *name, *description;
    bool described; /* it has a description; else description is a default */
    bool has_skill_md;
};
/* The skills of the box by id, or, where the user has none yet, those of the agent's base. In the request's arena. */
int filesecbox_skills(struct filesecbox *call, struct filesecbox_skill **ret_skills, size_t *ret_count,
                      struct err *err);
int filesecbox_list(struct filesecbox *call, struct err *err); /* the route of both families */

/* ---- rules of the second family (fsb2_rule.c) ---- */

#define FSB2_CREATOR "skill-creator" /* every agent has it, and no user can change it */
#define FSB2_FILE "SKILL.md"         /* only at the root of a skill */
#define FSB2_STATUS 200              /* of errors, too */

bool fsb2_claims(const char *path); /* it has the form of one of our paths and begins with no word of another API */

struct fsb2_path {
    const char *given;
    const char *logical; /* "skills/a/b": no "", ".", ".." among its parts */
    const char *name;    /* the last part */
    const char *skill;   /* the second part of one below skills/; else NULL */
    unsigned parts;
    bool skills;      /* else files */
    const char *path; /* in the box, links resolved */
};
/* INVALID with the dialect's sentence. Pure: path is not set. */
int fsb2_logical(struct arena *arena, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err);
bool fsb2_is_creator(const struct fsb2_path *path);
int fsb2_scope_error(const char *given, struct err *err);
/* NULL: the line may run; else the dialect's refusal, in the arena. commands: the allow list. This only informs an
 * agent early; the wall is the box. */
const char *fsb2_refusal(struct arena *arena, const char *const *commands, const char *workspace, const char *line,
                         size_t len);

/* ---- files of the second family (fsb2_file.c) ---- */

int fsb2_file_list(struct filesecbox *call, struct err *err);
int fsb2_content(struct filesecbox *call, struct err *err);
int fsb2_write(struct filesecbox *call, struct err *err);
int fsb2_edit(struct filesecbox *call, struct err *err);
int fsb2_delete(struct filesecbox *call, struct err *err);
int fsb2_file_upload(struct filesecbox *call, struct err *err);
int fsb2_files_made(struct filesecbox *call, struct err *err); /* the directory files/ */

#endif
