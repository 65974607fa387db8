/* A container box made one image of one layer. */
#ifndef CUBBY_BOX_EXPORT_H
#define CUBBY_BOX_EXPORT_H

#include "box/provider/provider.h"

struct export_result {
    struct exported exported;
    uint64_t ended; /* processes, when something had changed */
    uint64_t duration_ms;
};
/* user NULL: any owner; else another user's box answers as unknown. The box is EXPORTING during it, and then runs
 * from the new image; if it cannot, it is as it was, and the call fails. If nothing changed since its image, nothing
 * happens. BUSY: it is being exported already, or paused. UNSUPPORTED: it is not a container. Takes time in
 * proportion to its files. */
int export_run(struct provider *provider, const char *user, const char *id, struct export_result *ret_result,
               struct err *err);

#endif
