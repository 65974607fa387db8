/* What of a request only boxes with an image have: the image, and what its container is asked to be. */
#ifndef CUBBY_BOX_CONTAINER_H
#define CUBBY_BOX_CONTAINER_H

#include "box/policy.h"

/* Of a backend whose templates are images: template_name and container of the spec, in arena. INVALID names the field; DENIED
 * what the share does not allow. */
int container_spec(const struct share *share, const struct box_request *request, struct arena *arena, struct spec *spec,
                   struct err *err);
/* Of any other backend: there is nothing to ask for. */
int container_none(const struct container *container, const char *backend, struct err *err);
struct container container_copy(const struct container *container, struct arena *arena);
bool container_pull(const char *text);     /* "always", "missing" or "never" */
bool container_user(const char *text);     /* "NAME|UID[:GROUP|GID]" */
bool container_platform(const char *text); /* "linux/ARCHITECTURE[/VARIANT]" */
bool container_runtime(const char *text);  /* a name that an engine may have for one */

#endif
