/* Mounts of a box: those that the configuration gives, and those that its request asks for. */
#ifndef CUBBY_BOX_MOUNTS_H
#define CUBBY_BOX_MOUNTS_H

#include "box/policy.h"

/* Fills spec's mounts with copies in arena, parents before what lies below them; spec has its id, user and thread. A
 * source that is missing or not allowed is an error that names it. May make directories (share_mount.create). */
int mounts_spec(const struct policy *policy, const struct share *share, const struct box_request *request,
                struct arena *arena, struct spec *spec, struct err *err);
/* Of a box that starts again: each mount must still be one that it could ask for, or that it is given. DENIED names the
 * one that is not. */
int mounts_again(const struct policy *policy, const struct spec *spec, struct err *err);
/* The mounts that `from` asked for: those which the configuration does not give it. In arena. */
void mounts_asked(const struct policy *policy, const struct spec *from, struct arena *arena,
                  const struct mount **ret_mounts, size_t *ret_count);
/* Of the configuration: INVALID says what is wrong with it. thread_alone: {thread} may stand without {user}, where whoever
 * names threads keeps users apart. */
int mounts_check(const struct share_mount *mount, bool thread_alone, struct err *err);

#endif
