/* Templates made of kept layers: the files of a box as they were, which outlive that box and which others begin with.
 * STATE/kept/ID.json each; the owner of their layers is "kept:ID" (layer.h). */
#ifndef CUBBY_BOX_KEPT_TEMPLATE_H
#define CUBBY_BOX_KEPT_TEMPLATE_H

#include "base/arena.h"
#include "base/limits.h"
#include "box/provider/provider.h"

#define KEPT_TEXT_BYTES (64u << 10)
#define KEPT_PREFIX "kept:"

struct kept_template {
    char id[17];
    uint64_t created_ms;
    const char *user, *backend;
    const char *template_name; /* below the layers */
    const char *text;          /* of a dialect, opaque */
    const char **layers;       /* uppermost first, NULL-terminated */
};

/* The files of a box of `user` (NULL: of anybody) as they are now, with that text. LIMIT, UNSUPPORTED, as a
 * snapshot. */
int kept_template_create(struct provider *provider, const char *user, const char *box_id, const char *text,
                         struct arena *arena, struct kept_template *ret_kept, struct err *err);
/* The same files under another text; they stay when `like` goes. like->id empty: no layers, only what is below them. */
int kept_template_copy(struct provider *provider, const struct kept_template *like, const char *text,
                       struct arena *arena, struct kept_template *ret_kept, struct err *err);
/* Those of `user` (NULL: of everybody), the newest first; damaged ones are left out. */
int kept_template_list(struct provider *provider, const char *user, struct arena *arena,
                       struct kept_template **ret_kept, size_t *ret_count, struct err *err);
int kept_template_read(struct provider *provider, const char *id, struct arena *arena, struct kept_template *ret_kept,
                       struct err *err);
int kept_template_change(struct provider *provider, const char *id, const char *text, struct err *err);
/* Boxes that began with it keep what they need of it. */
int kept_template_remove(struct provider *provider, const char *id, struct err *err);
/* The layers are needed by the box box_id, which is about to be made with them; or is not made after all. */
int kept_template_hold(struct provider *provider, const char *id, const char *box_id, struct err *err);
void kept_template_let_go(struct provider *provider, const char *id, const char *box_id);

#endif
