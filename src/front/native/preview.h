/* Previews with a host name of their own: what native.c needs of preview.c. */
#ifndef CUBBY_FRONT_NATIVE_PREVIEW_H
#define CUBBY_FRONT_NATIVE_PREVIEW_H

#include "front/front.h"
#include "store/state_secret.h"

#define PREVIEW_PREFIX "/_preview/"

struct native_settings {        /* of the configuration */
    const char *preview_domain; /* below which boxes have hosts; NULL: only below localhost */
};
struct native_state { /* kept between requests */
    struct state_secret secret;
};
struct native_state *native_state(const struct http_request *request);

const char *preview_locate(struct http_request *request, const void *own, const char *target); /* dialect.locate */
bool preview_is(const struct http_request *request); /* it goes to such a preview */
int preview_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);

#endif
