/* The configuration of the boxes that a gateway provisions (deerflow.c). */
#ifndef CUBBY_FRONT_DEERFLOW_PROVISION_H
#define CUBBY_FRONT_DEERFLOW_PROVISION_H

#include "box/policy.h"

struct provision_settings {
    const char *home;    /* the gateway's state directory on this host; NULL: no mounts from the host */
    const char *api_key; /* required in requests; NULL: admitted as in other dialects */
    const char *backend, *template_name, *network; /* of its boxes; NULL: the default */
    const char *const *env;                        /* "K=V", NULL-terminated, may be NULL */
    const struct share_mount *mounts;              /* added to the usual ones; one with the same target replaces it */
    size_t mount_count;
};

#endif
