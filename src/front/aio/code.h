/* What the three groups that run code share: jupyter (aio/jupyter.c), nodejs (aio/nodejs.c), code (aio/code.c, with the table
 * of all their routes). Private to them. */
#ifndef CUBBY_FRONT_AIO_CODE_H
#define CUBBY_FRONT_AIO_CODE_H

#include "front/aio/aio.h"
#include "front/aio/kernel.h"

#define AIO "/aio/{id}/v1"
#define CODE_BYTES (8u << 20) /* of one piece of code */

/* How a piece of code went. */
struct code_result {
    const char *status; /* "ok", "error", "timeout" */
    json_t *outputs;    /* an array, ours; NULL: they are made of the two texts below */
    json_t *count;      /* which one of its session it was; NULL */
    bool exited;        /* exit_code counts */
    int exit_code;
    struct buf texts[2]; /* what it printed: stdout, stderr */
};
void code_result_done(struct code_result *result);
#define autoresult __attribute__((cleanup(code_result_done))) struct code_result

/* A session's answer; also when it died of it. */
void code_result_take(struct code_result *result, struct kernel_answer *answer, uint64_t timeout_s);
void code_outputs_json(struct answer *answer, const struct code_result *result); /* the value of "outputs" */
void code_text_json(struct answer *answer, const struct buf *text);
/* INVALID, naming the member: there is no such directory. path may be NULL. */
int code_directory(struct http_request *request, struct box *box, const char *member, const char *path,
                   struct err *err);
/* 422 where it cannot be the name of a session; else 0. */
int code_name(struct http_request *request, const char *name);
/* What a short program of ours prints, one JSON value (checked), for json_decref. UNSUPPORTED: no such interpreter. */
int code_script(struct http_request *request, struct box *box, const struct kernel_kind *kind, const char *script,
                json_t **ret_value, struct err *err);
void code_json(struct answer *answer, json_t *value); /* any value */

/* ---- runs ---- */

struct code_run {
    const char *code, *cwd, *name; /* cwd, name: NULL */
    size_t len;
    uint64_t timeout_s;
};
/* In the session of that name; ret_kernel: which one it was. once: in one of its own that ends with it. */
int code_in_session(struct http_request *request, struct box *box, const struct kernel_kind *kind,
                    const struct code_run *run, const char *program, bool once, struct kernel *ret_kernel,
                    struct code_result *ret_result, struct err *err);
/* JavaScript as a program of its own; input may be NULL. */
int nodejs_program(struct http_request *request, struct box *box, const struct code_run *run, const char *input,
                   size_t input_len, struct code_result *ret_result, struct err *err);

/* ---- handlers ---- */

extern const struct row jupyter_execute_fields[], jupyter_create_fields[], nodejs_execute_fields[],
    nodejs_create_fields[], nodejs_update_fields[];
int jupyter_execute(struct http_request *request, struct box *box, struct err *err);
int jupyter_info(struct http_request *request, struct box *box, struct err *err);
int jupyter_sessions(struct http_request *request, struct box *box, struct err *err);
int jupyter_create(struct http_request *request, struct box *box, struct err *err);
int jupyter_delete(struct http_request *request, struct box *box, struct err *err);
int jupyter_delete_all(struct http_request *request, struct box *box, struct err *err);
int nodejs_execute(struct http_request *request, struct box *box, struct err *err);
int nodejs_info(struct http_request *request, struct box *box, struct err *err);
int nodejs_sessions(struct http_request *request, struct box *box, struct err *err);
int nodejs_create(struct http_request *request, struct box *box, struct err *err);
int nodejs_session(struct http_request *request, struct box *box, struct err *err);
int nodejs_update(struct http_request *request, struct box *box, struct err *err);
int nodejs_delete(struct http_request *request, struct box *box, struct err *err);

#endif
