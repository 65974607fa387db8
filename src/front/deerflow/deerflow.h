/* The dialect in which DeerFlow's gateway provisions boxes: its provisioner's API. The URLs that it answers lead to the
 * dialect that its agents speak (dialect.url). */
#ifndef CUBBY_FRONT_DEERFLOW_H
#define CUBBY_FRONT_DEERFLOW_H

#include "front/deerflow/provision.h"
#include "front/front.h"

extern const struct dialect deerflow_dialect;

#define DEERFLOW_LABEL "provisioner=deerflow" /* of boxes that were made there; only an admin can give it to another */

/* ---- deerflow/mounts.c ---- */

struct deerflow_extra { /* one of a request's extra_mounts */
    struct row_text host_path, container_path;
    bool read_only;
};

struct deerflow_box {               /* a request's settings of its box */
    const char *id, *user, *thread; /* thread: its own, or the id */
    bool legacy_skills;
    const struct deerflow_extra *extra;
    size_t extra_count;
};

/* The mounts of a box, in arena. INVALID: an extra mount, in the words of DeerFlow's own provisioner. */
int deerflow_mounts(const struct provision_settings *settings, const struct deerflow_box *asked, struct arena *arena,
                    const struct mount **ret_mounts, size_t *ret_count, struct err *err);
/* Paths that are there in every such box, mounted or not; NULL-terminated. */
extern const char *const deerflow_places[];

#endif
