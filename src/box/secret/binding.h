/* The secrets of a box: which ones by name, in which variable, and the placeholder that stands for each. A placeholder
 * is no secret: it lies in the record, in variables and in files of the box, and means something only to the seal of
 * that one box. */
#ifndef CUBBY_BOX_SECRET_BINDING_H
#define CUBBY_BOX_SECRET_BINDING_H

#include "base/arena.h"
#include "base/buf.h"
#include "box/box.h"

#define PLACEHOLDER_MARK "cubbyX" /* in every placeholder, right after its prefix */
enum { PLACEHOLDER_SHORT_BYTES = 40 };

struct binding {
    const char *secret, *variable, *placeholder;
};
/* "NAME=VARIABLE=PLACEHOLDER" into parts, in arena. False: it is not one. */
bool binding_parse(const char *text, struct arena *arena, struct binding *ret_binding);
const char *binding_text(const struct binding *binding, struct arena *arena);
/* The variable of a secret that names none: GITHUB_TOKEN of github-token. In arena. */
const char *binding_variable(const char *secret, struct arena *arena);

/* One for a value: as long as the value where that has 24 bytes or more, with its public prefix (given, or one that is
 * known), then PLACEHOLDER_MARK, then at least 96 random bits of [A-Za-z0-9]; '.', '-' and '_' stay where the value has
 * them. */
void placeholder_make(const void *value, size_t len, const char *prefix, struct buf *out);
/* Another of the same shape. In arena. */
const char *placeholder_again(const char *placeholder, struct arena *arena);

/* As they are now; NULL-terminated, in arena; NULL: none. Any thread. */
const char **box_bindings(const struct box *box, struct arena *arena);
void bindings_take(struct box *box, const char *const *bindings); /* copied; any thread */
void bindings_done(struct box *box);
/* For a fork: the same secrets, other placeholders. In arena. */
const char **bindings_again(const char *const *bindings, struct arena *arena);
/* In boxes with an inspected host: the authority's certificate, and the template's bundle with it. */
#define AUTHORITY_CERTIFICATE "/run/cubby/ca.pem"
#define AUTHORITY_BUNDLE "/run/cubby/ca-bundle.pem"
enum { BINDINGS_VARIABLES = LIMIT_BINDINGS + 24 };
/* "VARIABLE=PLACEHOLDER", and where programs find what they trust, for commands that start now; in arena, NULL: none. */
const char **bindings_env(const struct box *box, struct arena *arena);

#endif
