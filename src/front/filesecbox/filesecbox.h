/* The dialect of FileSecBoxService: what both of its families share. filesecbox*.c is the first one (/v1/skills, /v1/sandbox,
 * errors with their status), filesecbox_newest*.c the later one (/v1/{user}/{agent}, errors with status 200).
 *
 * Every answer is {"status":"success"|"error","data":...}, refusals by the server itself included. A handler that fails by
 * a fault of the request's form (a number that is none, no token, too large) returns negative as all handlers do, and gets
 * the status of that code in the envelope; a failure of what was asked for is told with filesecbox_fail. */
#ifndef CUBBY_FRONT_FILESECBOX_H
#define CUBBY_FRONT_FILESECBOX_H

#include "base/scratch.h"
#include "front/answer.h"
#include "front/front.h"
#include "skill/skill.h"

extern const struct dialect filesecbox_dialect;
extern const struct route filesecbox_routes[]; /* ends with method NULL */
extern const struct route fsb2_routes[];       /* the same */

/* dialect.refuse and dialect.claims */
int filesecbox_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
bool filesecbox_claims(const char *path);
bool filesecbox_reserved(const char *user, size_t len); /* a word of the API, and nobody's name */
/* Of every row of ours: ENDPOINT(.run = ..., ...). Unknown parameters are ignored, as its clients expect. */
#define FILESECBOX_ENDPOINT(...) ENDPOINT(.status = 200, __VA_ARGS__)
#define FILESECBOX_FLAGS (ENDPOINT_NO_BOX | ENDPOINT_LENIENT)

/* ---- who asks, for whom ---- */

struct filesecbox {
    struct http_request *request;
    struct skills *skills;
    const char *user, *agent, *skill; /* checked names of the path; skill NULL: the route has none */
    bool admin;                       /* may change what all users of an agent see */
    struct box *box; /* NULL until filesecbox_box or filesecbox_share; then of a GET where the user has none: what is
                      * read is the agent's public skills, and an empty area */
    bool shared;
};
/* Checks the names, and that the token may act for that user. For filesecbox_end, whatever is returned. */
int filesecbox_begin(struct http_request *request, struct filesecbox *ret_call, struct err *err);
void filesecbox_id(const struct filesecbox *call, char ret_id[17]); /* of that box */
/* The box of (user, agent), made where the request may change something. Invariant: a GET makes no box. */
int filesecbox_box(struct filesecbox *call, struct err *err);
const char *filesecbox_workspace(const struct filesecbox *call); /* of the box that is there, or would be */
/* The same for somebody who looks at more than one file, or writes one: no skill is replaced meanwhile. */
int filesecbox_share(struct filesecbox *call, struct err *err);
/* Before an answer of any length: a client that reads slowly keeps nobody waiting. */
void filesecbox_unshare(struct filesecbox *call);
void filesecbox_end(struct filesecbox *call);
int filesecbox_admin(const struct filesecbox *call, const char *what, struct err *err); /* DENIED: only for admins */
#define autofilesecbox __attribute__((cleanup(filesecbox_end))) struct filesecbox

/* ---- answers ---- */

/* {"status":"success","data": ... and its end; between them one value is written into answer->json. */
void filesecbox_open(struct answer *answer, struct http_request *request);
int filesecbox_close(struct answer *answer, int result, struct err *err);
int filesecbox_text(struct http_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of a change of skills; it says besides, for whoever looks, that it comes when the commands that run now have ended. */
struct own_change;
int filesecbox_told(struct filesecbox *call, const char *text, const struct own_change *change, struct err *err);
/* An error that is answered now; data: its text, NULL: null. The positive code, to be returned by the handler. */
int filesecbox_error(struct http_request *request, int status, int code, const char *data);
/* What came of a call: UNAUTHORIZED and DENIED keep their status, TOO_LARGE, LIMIT and BUSY too where `status` is not 200; all
 * else is the family's `status` with prefix and err's sentence (prefix NULL: data is null). What a handler returns. */
int filesecbox_fail(struct http_request *request, int status, const char *prefix, struct err *err);

/* ---- parameters ---- */

/* An optional 32 bit number, sign and all. INVALID: it is none. */
int filesecbox_int(struct http_request *request, const char *name, bool *ret_has, int64_t *ret_value, struct err *err);
int filesecbox_need(struct http_request *request, const char *name, const char **ret_text, struct err *err);
/* The body as JSON; *ret_root NULL: there is none. To be given back with json_decref. Unknown members are nobody's fault. */
struct json_t;
int filesecbox_json(struct http_request *request, struct json_t **ret_root, struct err *err);

/* ---- paths ---- */

/* A client's path below root (absolute, in the box) made one without links, "." and "..": what it is about never lies outside
 * of root (INVALID: "Security Error: ..."). Links are followed while they stay inside. What is not there need not be.
 * *ret_path in the request's arena. */
int filesecbox_path(struct filesecbox *call, const char *root, const char *path, const char **ret_path,
                    struct err *err);
struct filesecbox_version { /* of a file that was read */
    bool there;
    char etag[ETAG_BYTES];
    uint8_t sha256[32];
};
/* All of a file, any bytes, at most LIMIT_EDIT_BYTES, a NUL behind; in the request's arena. NOT_FOUND: not there, and the
 * version says so. version may be NULL. */
int filesecbox_read(struct filesecbox *call, const char *path, char **ret_text, size_t *ret_len,
                    struct filesecbox_version *ret_version, struct err *err);
/* Whole or not at all, parents made. version: only in place of that one (EXISTS: it has changed meanwhile); NULL: of any. */
int filesecbox_write(struct filesecbox *call, const char *path, const void *data, size_t len,
                     const struct filesecbox_version *version, struct err *err);
/* filesecbox_stat: of an absolute path, in the request's arena.
 * filesecbox_files: every file below root at any depth, as paths relative to `from` (root or above it), sorted; skip: NULL-terminated names
 * directly below root that are left out. NOT_FOUND: no root. In the request's arena. */
int filesecbox_stat(struct filesecbox *call, const char *path, struct file_stat *ret_stat, struct err *err);
int filesecbox_files(struct filesecbox *call, const char *root, const char *from, const char *const *skip,
                     const char ***ret_paths, size_t *ret_count, struct err *err);

/* ---- commands ---- */

struct filesecbox_exec {
    const char *const *argv; /* no shell; or */
    const char *command;     /* through bash */
    const char *cwd;
    const char *timeout_text; /* the sentence when the time is over */
    const char *missing_text; /* the sentence when cwd is not there; NULL: the box's own */
    int status;               /* of failures */
    const char *prefix;       /* of their sentences */
};
uint64_t filesecbox_timeout_ms(const struct filesecbox *call);
/* Runs it with the dialect's environment and answers {"stdout","stderror","exit_code"}; what a handler returns. */
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
/* The part `file` of a multipart body, at most max bytes because of the option `limit`. For filesecbox_upload_done, whatever is returned. */
int filesecbox_receive(struct filesecbox *call, uint64_t max, const char *limit, struct filesecbox_upload *ret_upload,
                       struct err *err);
int filesecbox_unzip(struct filesecbox *call, struct filesecbox_upload *upload, struct err *err); /* checked whole */
void filesecbox_upload_done(struct filesecbox_upload *upload);

/* ---- lists ---- */

struct filesecbox_skill {
    const char *id, *name, *description;
    bool described; /* it says what it is for; else description is the default of no family */
    bool has_skill_md;
};
/* The skills of the box by id, or, where the user has none yet, those of the agent's base. In the request's arena. */
int filesecbox_skills(struct filesecbox *call, struct filesecbox_skill **ret_skills, size_t *ret_count,
                      struct err *err);

#endif
