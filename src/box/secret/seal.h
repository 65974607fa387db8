/* The daemon's side of cubby-seal: the authority whose leaves it shows, what boxes trust, and the processes themselves. */
#ifndef CUBBY_BOX_SECRET_SEAL_H
#define CUBBY_BOX_SECRET_SEAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "box/secret/secret.h"

/* ---- authority.c ---- */

struct authority;
/* STATE/gate/ca.key (0600, key and certificate) and ca.pem; made at first need. */
int authority_open(const char *state, struct authority **ret_authority, struct err *err);
void authority_close(struct authority *authority);                       /* NULL is fine */
int authority_text(const char *state, struct buf *out, struct err *err); /* its certificate (PEM), appended */
/* A certificate for the host and that key (PEM), for a week; PEM, appended. */
int authority_leaf(const struct authority *authority, const char *host, const char *public_key, struct buf *out,
                   struct err *err);
/* Whole or not at all; the first of several daemons wins. dir: as authority_directory opens it, or one below. */
int authority_keep(int dir, const char *name, mode_t mode, const struct buf *text, struct err *err);
int authority_directory(const char *state, struct err *err); /* STATE/gate */

/* ---- trust.c ---- */

/* What such a box has mounted: each bundle of its template with the authority's certificate in it, over the template's
 * own; stores of Java and policies of browsers where the
 * template has them; and the two files of binding.h. At most SEAL_MOUNTS. In arena. template_dir NULL: the root is not ours to read. */
int authority_mounts(const char *state, const char *template_dir, struct arena *arena, struct mount *mounts,
                     size_t *ret_count, struct err *err);

/* ---- seal.c ---- */

struct seals;
struct seals_config {
    struct secrets *secrets;
    const char *runner_path; /* cubby-seal lies beside it */
    const char *ca_file;     /* authorities of hosts; NULL: this machine's */
    void (*event)(void *user, const struct box_event *event);
    void *user;
};
struct seals *seals_new(const struct seals_config *config);
void seals_provider(struct seals *seals, struct provider *provider); /* where boxes are; before the first request */
void seals_free(struct seals *seals);                                /* ends them; NULL is fine */
struct seal_counts {
    uint64_t processes;               /* now */
    uint64_t requests, uses, misuses; /* since the daemon started */
};
void seals_counts(struct seals *seals, struct seal_counts *ret_counts);
/* A seal for the box, with these bindings and policies (a JSON array); one that it had ends. The gate's socket. */
void seals_end(struct seals *seals, const char *id); /* its connections end; the next one starts another */
struct seal_hooks seals_hooks(struct seals *seals, const struct backend_env *env);
void seals_forget(struct seals *seals); /* values may have changed: they are asked for again */

#endif
