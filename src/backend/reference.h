/* The names of container images: "[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]". Called by box/policy, which refuses
 * invalid names, and by the docker backend. An engine always gets the full form, which can be neither an option nor
 * the id of an image. */
#ifndef CUBBY_BACKEND_REFERENCE_H
#define CUBBY_BACKEND_REFERENCE_H

#include <stdbool.h>

#include "base/arena.h"

#define REFERENCE_BYTES 255u
#define REFERENCE_HUB "docker.io" /* the registry of names that have none */

struct reference {
    const char *registry; /* "docker.io", "registry.example.org:5000" */
    const char *path;     /* "library/busybox" */
    const char *tag;      /* "latest" without tag and digest; NULL with a digest */
    const char *digest;   /* "sha256:..."; NULL: none */
    const char *name;     /* REGISTRY/PATH */
    const char *full;     /* with its tag or digest */
};
bool reference_parse(const char *text, struct arena *arena, struct reference *ret_reference);

/* An entry of an allow list: a name like above, shortened in the same way, in which `*` stands for any run of
 * characters but '/', and `**` for any; without a tag or digest it is all of them. "*" is everything. */
bool reference_pattern(const char *text);
bool reference_fits(const char *pattern, const struct reference *reference, struct arena *arena);

#endif
