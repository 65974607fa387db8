/* The dialect in which DeerFlow's gateway provisions boxes. The URLs that it answers belong to the dialect that agents
 * speak (dialect.url). */
#ifndef CUBBY_FRONT_DEERFLOW_H
#define CUBBY_FRONT_DEERFLOW_H

#include "front/deerflow/provision.h"
#include "front/front.h"

extern const struct dialect deerflow_dialect;

#define DEERFLOW_LABEL "provisioner=deerflow" /* label of boxes made here; only an admin can set it otherwise */

/* ---- deerflow/mounts.c ---- */

struct deerflow_extra { /* an item of extra_mounts */
    struct row_text host_path, container_path;
    bool read_only;
};

struct deerflow_box {               /* the requested box */
    const char *id, *user, *thread; /* thread: the given one, or the id */
    bool legacy_skills;
    const struct deerflow_extra *extra;
    size_t extra_count;
};

/* Makes the mounts of a box, in arena. INVALID: an extra mount; the text is that of DeerFlow's own provisioner. */
int deerflow_mounts(const struct provision_settings *settings, const struct deerflow_box *asked, struct arena *arena,
                    const struct mount **ret_mounts, size_t *ret_count, struct err *err);
/* Paths that every such box has, mounted or not; NULL-terminated. */
extern const char *const deerflow_places[];

#endif
