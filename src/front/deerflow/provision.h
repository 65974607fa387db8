/* The configuration of the boxes that a gateway provisions (deerflow.c). */
#ifndef CUBBY_FRONT_DEERFLOW_PROVISION_H
#define CUBBY_FRONT_DEERFLOW_PROVISION_H

#include "box/policy.h"

struct provision_settings {
    const char *home;    /* the gateway's state directory on this host; NULL: nothing of the host is mounted */
    const char *api_key; /* that its requests must carry; NULL: they are admitted as all others */
    const char *backend, *template_name, *network; /* of its boxes; NULL: as everybody's */
    const char *const *env;                        /* "K=V", NULL-terminated, may be NULL */
    const struct share_mount *mounts;              /* in addition to the usual ones; one with the same target
                                                    * replaces it */
    size_t mount_count;
};

#endif
