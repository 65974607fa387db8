/* A build that is being done: what builder.c and step.c share. */
#ifndef CUBBY_FRONT_E2B_PLANE_BUILDER_H
#define CUBBY_FRONT_E2B_PLANE_BUILDER_H

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include "front/e2b/plane/plane.h"

struct builder {
    struct plane *plane;
    const struct build *build;
    struct provider *provider;
    struct arena arena;
    const char *network;       /* of its box; NULL: open where possible */
    struct kept_template from; /* the files so far; id empty: a template alone */
    struct e2b_setup setup;    /* so far */
    uint8_t key[32];           /* of the step and all before it */
    const char *step;          /* as reasons name it */
    char box_id[17];           /* empty: no box yet */
    size_t logged;             /* bytes of output in the log */
    bool fresh;                /* steps known from before do not count any more */
};

void builder_log(struct builder *builder, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Its box, made by the first use; the reference goes back with provider_put. */
int builder_enter(struct builder *builder, struct box **ret_box, struct err *err);
/* Output goes to the log, or (taken) stdout to that buffer. */
int builder_exec(struct builder *builder, const struct exec_request *request, struct buf *taken,
                 struct exec_result *ret_result, struct err *err);

/* step.c: cached: its files are there already, and only the setup changes. */
bool step_makes_user(const json_t *args); /* a USER step that may change files */
int step_run(struct builder *builder, const char *type, const json_t *args, const char *hash, bool cached,
             struct err *err);
int step_image(struct builder *builder, struct err *err); /* an image gets the user that sandboxes have */

#endif
