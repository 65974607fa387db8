/* The dialect of FileSecBoxService: shared by both of its families. fsb1.c is the first one (/v1/skills, /v1/sandbox,
 * errors with their status), fsb2*.c the second (/v1/{user}/{agent}: a user's place has two parts, "skills/..." and
 * "files/...", and errors have status 200).
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

#define FILESECBOX_BOX 0x1u     /* needs the user's box, made if the request may change something */
#define FILESECBOX_SHARE 0x2u   /* and a share of it: no skill is replaced during the request */
#define FILESECBOX_CHANGES 0x4u /* for the error text when the box is busy */
#define FILESECBOX_SECOND 0x8u  /* second family: refused names in the path also have the route's status */
#define FILESECBOX_EITHER 0x10u /* belongs to the family that the option skill_dialect names */

struct filesecbox_route {
    struct endpoint endpoint;
    unsigned needs;
    int status;         /* status of failures */
    const char *prefix; /* prefix of their error texts; NULL: data is null */
    /* Called after names, token and arguments were checked. Negative: err is the answer; positive: already answered. */
    int (*work)(struct filesecbox *call, struct err *err);
};
/* route.extra: FILESECBOX_ROUTE(content, FILESECBOX_SHARE, 404, NULL, .query = ...). Unknown parameters are ignored, as
 * clients expect. */
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

struct filesecbox_args { /* of all routes; members without a row stay empty */
    struct row_text path, scope, command, name, direction, role, content, old_text, new_text;
    struct row_number first, second; /* a range of lines; both are signed */
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
    const char *user, *agent, *skill; /* checked names from the path; skill may be NULL */
    bool admin;                       /* may change what all users of an agent see */
    int status;                       /* of failures: the route's, or that of the configured family */
    const char *prefix;
    struct box *box; /* NULL before filesecbox_box, and in a GET of a user without one: that reads the agent's public
                      * skills and an empty area */
    bool shared;
};
/* Finds the box of (user, agent), or makes it if the request may change something. Invariant: a GET makes no box. */
int filesecbox_box(struct filesecbox *call, struct err *err);
const char *filesecbox_workspace(const struct filesecbox *call); /* of the box, even before it exists */
/* The same, and shares the box: no skill is replaced during the request. */
int filesecbox_share(struct filesecbox *call, struct err *err);
/* Ends the share; so does the first byte of an answer, so that a slow reader does not delay others. */
void filesecbox_unshare(struct filesecbox *call);
int filesecbox_admin(const struct filesecbox *call, const char *what, struct err *err); /* DENIED: only for admins */

/* ---- answers ---- */

/* Opens {"status":"success","data": ... and closes it; in between one value is written into answer->json. */
void filesecbox_open(struct answer *answer, struct filesecbox *call);
int filesecbox_close(struct answer *answer, int result, struct err *err);
int filesecbox_text(struct filesecbox *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a change of skills. "pending": it is applied when the running commands have ended. */
struct own_change;
int filesecbox_changed(struct filesecbox *call, const char *text, const struct own_change *change, struct err *err);
/* Answers an error with the route's status. data: its text; NULL: null. Returns the positive code for the handler. */
int filesecbox_error(struct filesecbox *call, int code, const char *data);
/* Answers a failure. UNAUTHORIZED and DENIED keep their status, and TOO_LARGE, LIMIT and BUSY too unless the route's is
 * 200; anything else has the route's status, its prefix and err's text. Returns the handler's result. */
int filesecbox_fail(struct filesecbox *call, struct err *err);
/* If code is negative, answers a malformed request with the status of its code. */
int filesecbox_form(struct filesecbox *call, int code, struct err *err);

/* ---- paths ---- */

/* Resolves a client's path below root (absolute, in the box) to one without links, "." and "..", which is never outside
 * root (INVALID: "Security Error: ..."). Links are followed while they stay inside. The file need not exist. *ret_path
 * is in the request's arena. */
int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err);
/* Answers lines first to second of a file, or the whole file, in the call's family: the first answers a text or an
 * array of lines; the second a text, its lines, and base64 of data that is not UTF-8. */
int filesecbox_content(struct filesecbox *call, const char *path, struct err *err);
/* Writes the whole file or nothing; makes parents. */
int filesecbox_write(struct filesecbox *call, const char *path, const void *data, size_t len, struct err *err);
/* Applies `change` to the file; if the file changes in between, reads it and applies it again. A missing file is empty
 * if it may be created, else NOT_FOUND. change: a positive return leaves the file alone. */
int filesecbox_change(struct filesecbox *call, const char *path, bool create,
                      int (*change)(void *user, const char *text, size_t len, struct buf *out, struct err *err),
                      void *user, struct err *err);
/* Takes an absolute path; the result is in the request's arena. */
int filesecbox_stat(struct filesecbox *call, const char *path, struct file_stat *ret_stat, struct err *err);
/* Lists every file below root at any depth, as paths relative to `from` (root or above), sorted, in the request's
 * arena. skip: names directly below root to skip, NULL-terminated. NOT_FOUND: no root. */
int filesecbox_files(struct filesecbox *call, const char *root, const char *from, const char *const *skip,
                     const char ***ret_paths, size_t *ret_count, struct err *err);
/* Answers such paths; before: a prefix for each, with a slash; may be NULL. */
int filesecbox_paths(struct filesecbox *call, const char *before, const char *const *paths, size_t count,
                     struct err *err);

/* ---- commands ---- */

struct filesecbox_exec {
    const char *const *argv; /* without a shell; or */
    const char *command;     /* through bash */
    const char *cwd;
    const char *timeout_text; /* for a timeout */
    const char *missing_text; /* if cwd does not exist; NULL: the box's own text */
};
uint64_t filesecbox_timeout_ms(const struct filesecbox *call);
/* Runs it with the dialect's environment and answers {"stdout","stderror","exit_code"}. Returns the handler's
 * result. */
int filesecbox_execute(struct filesecbox *call, const struct filesecbox_exec *exec, struct err *err);

/* ---- uploads ---- */

struct zip;
struct filesecbox_upload {
    struct scratch file;       /* holds the part `file` */
    const char *filename;      /* from the client, in the request's arena; may be NULL */
    const char *scope;         /* the field of that name; the same */
    struct zip *zip;           /* set by filesecbox_unzip, as is the next */
    const char *const *skills; /* their names, sorted, NULL-terminated */
};
/* Receives the part `file` of a multipart body, at most max bytes, which the option `limit` sets. The caller always
 * calls filesecbox_upload_done. */
int filesecbox_receive(struct filesecbox *call, uint64_t max, const char *limit, struct filesecbox_upload *ret_upload,
                       struct err *err);
void filesecbox_upload_done(struct filesecbox_upload *upload);
int filesecbox_upload(struct filesecbox *call, struct err *err);
enum { SCOPE_OVERLAY, SCOPE_BASELINE };
/* Reads ?scope=, else `field` of a form, ignoring case; if NULL or empty, base decides. INVALID: neither overlay nor
 * baseline. DENIED: baseline, and not an admin. */
int filesecbox_scope(struct filesecbox *call, const char *field, bool base, struct err *err);

/* ---- lists ---- */

struct filesecbox_skill {
    const char *id, *name, *description;
    bool described; /* false: description is a default text */
    bool has_skill_md;
};
/* The skills of the box by id, or those of the agent's base if the user has no box. In the request's arena. */
int filesecbox_skills(struct filesecbox *call, struct filesecbox_skill **ret_skills, size_t *ret_count,
                      struct err *err);
int filesecbox_list(struct filesecbox *call, struct err *err); /* the route of both families */

/* ---- rules of the second family (fsb2_rule.c) ---- */

#define FSB2_CREATOR "skill-creator" /* every agent has it, and no user can change it */
#define FSB2_FILE "SKILL.md"         /* only at the root of a skill */
#define FSB2_STATUS 200              /* also of errors */

bool fsb2_claims(const char *path); /* it has the form of our paths and does not begin with a word of another API */

struct fsb2_path {
    const char *given;
    const char *logical; /* "skills/a/b": no "", ".", ".." among its parts */
    const char *name;    /* the last part */
    const char *skill;   /* the second part, below skills/; else NULL */
    unsigned parts;
    bool skills;      /* else files */
    const char *path; /* in the box, links resolved */
};
/* INVALID with the dialect's error text. Pure: does not set `path`. */
int fsb2_logical(struct arena *arena, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err);
bool fsb2_is_creator(const struct fsb2_path *path);
int fsb2_scope_error(const char *given, struct err *err);
/* Returns NULL if the line may run, else the dialect's refusal, in the arena. commands: the allow list. This only
 * informs an agent early; the box is the security boundary. */
const char *fsb2_refusal(struct arena *arena, const char *const *commands, const char *workspace, const char *line,
                         size_t len);

/* ---- files of the second family (fsb2_file.c) ---- */

int fsb2_file_list(struct filesecbox *call, struct err *err);
int fsb2_content(struct filesecbox *call, struct err *err);
int fsb2_write(struct filesecbox *call, struct err *err);
int fsb2_edit(struct filesecbox *call, struct err *err);
int fsb2_delete(struct filesecbox *call, struct err *err);
int fsb2_file_upload(struct filesecbox *call, struct err *err);
int fsb2_files_made(struct filesecbox *call, struct err *err); /* makes the directory files/ */

#endif
