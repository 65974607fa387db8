/* Secrets that boxes use and never have: what a secret is, who may use it, and which box does. The daemon's; a value
 * leaves it only towards the seal of a box (seal.h). */
#ifndef CUBBY_BOX_SECRET_SECRET_H
#define CUBBY_BOX_SECRET_SECRET_H

#include "base/arena.h"
#include "base/buf.h"
#include "box/provider/provider.h"
#include "box/secret/binding.h"
#include "store/secret_store.h"

struct secrets;

struct secrets_config {
    const char *state_dir;
    const char *key_file;        /* secret_key_file; NULL: none */
    const char *const *commands; /* secret_commands: lines that from.command may be; NULL: none */
};
int secrets_open(const struct secrets_config *config, struct secrets **ret_secrets, struct err *err);
void secrets_configure(struct secrets *secrets, const char *const *commands); /* copied */
void secrets_close(struct secrets *secrets);                                  /* NULL is fine */
struct seals;
void secrets_seals(struct secrets *secrets, struct seals *seals); /* hear of changes; set before the first request */
struct seals *secrets_sealed(const struct secrets *secrets);      /* NULL: none */
struct secret_store *secrets_store(struct secrets *secrets);
const char *secrets_state_dir(const struct secrets *secrets);

/* Where the value is, if it is not stored. */
struct secret_from {
    const char *file, *env;
    const char **command;
    uint64_t ttl_s; /* of what the command printed */
};

/* What a secret is for; lists are NULL-terminated, NULL or empty: the default. */
struct secret_use {
    const char **hosts; /* exact names, or "*.NAME" where `wide` */
    const char **
        slots; /* "authorization", "header:NAME", "query:NAME", "path", "form:NAME", "json:/POINTER"; default: authorization and the usual headers */
    const char **methods; /* default: any */
    const char **paths;   /* as in a policy; default: any */
    const char **ports;   /* default: 443 */
    const char *env;      /* the variable of boxes that name none */
    const char *prefix;   /* public beginning of the value, in its placeholders; NULL: a known one */
    const char *metadata; /* of a dialect: JSON; NULL: none */
    const char *scrub;    /* "strict": an answer that cannot be read is refused; NULL: it passes */
    struct secret_from from;
    bool wide;
};

struct secret {
    struct secret_row row;
    struct secret_use use;
};

/* The grammar of names. */
int secret_name_check(const char *name, struct err *err);
/* What a header can carry, of a sensible length. The sentence never holds the value. */
int secret_value_check(const char *value, size_t len, struct err *err);
/* As secret_store_put; use NULL: as it is. The seals that hold the old value forget it. */
int secret_save(struct secrets *secrets, const char *user, const char *name, enum secret_how how,
                const struct secret_use *use, const char *value, size_t len, struct err *err);
int secret_remove(struct secrets *secrets, const char *user, const char *name, struct err *err);
int secret_get(struct secrets *secrets, const char *user, const char *name, struct arena *arena,
               struct secret *ret_secret, struct err *err);
/* The secret that a name means in a box of that user: their own, else everybody's. */
int secret_find(struct secrets *secrets, const char *user, const char *name, struct arena *arena,
                struct secret *ret_secret, struct err *err);
int secret_list(struct secrets *secrets, bool all, const char *user, struct arena *arena, struct secret **ret_secrets,
                size_t *ret_count, struct err *err);
/* Its value, appended: stored, or fetched from where it is. The caller wipes it. */
int secret_value(struct secrets *secrets, const struct secret *secret, struct buf *out, struct err *err);

/* ---- boxes ---- */

/* "NAME" or "NAME=VARIABLE" as a new binding for a box of that user, in arena. NOT_FOUND: no such secret of theirs. */
int secret_binding(struct secrets *secrets, const char *user, const char *wanted, struct arena *arena,
                   const char **ret_binding, struct err *err);
/* Binds it to the box, or changes its variable; the placeholder of one that is bound stays. For commands from then on. */
int secret_bind(struct secrets *secrets, struct provider *provider, struct box *box, const char *wanted,
                struct err *err);
int secret_unbind(struct secrets *secrets, struct provider *provider, struct box *box, const char *name,
                  struct err *err);
/* The hosts that its secrets are bound to: inspected. NULL-terminated, in arena; NULL: none. A secret that was removed
 * has none. */
const char **secret_hosts(struct secrets *secrets, const struct box *box, struct arena *arena);
/* The same of bindings of a box that is not made yet. */
const char **secret_hosts_of(struct secrets *secrets, const char *user, const char *const *bindings,
                             struct arena *arena);

#endif
