/* Deep stacks of kept layers made shallow, in the background. Private to box/. */
#ifndef CUBBY_BOX_SQUASH_H
#define CUBBY_BOX_SQUASH_H

#include "box/provider/provider_private.h"

#define SQUASH_DEPTH 16 /* layers below a box; each costs a lookup for every name that is opened first */

/* The box lies on so many layers, or (more than SQUASH_DEPTH is said) on some that may now be needed by nothing else. Cheap;
 * what is to be done is done by a thread. */
void squash_want(struct provider *provider, const char *id, size_t depth);
bool squash_ready(struct provider *provider, const char *id); /* squash_swap would find something */
/* A box that does not run, in work: what was made of its layers takes their place. */
void squash_swap(struct work *work);
void squash_forget(struct provider *provider, const char *id); /* the box is gone */
void squash_end(struct provider *provider);                    /* before the backends are closed */

#endif
