/* The page: a dialect that answers browsers below /ui. */
#ifndef CUBBY_FRONT_PAGE_PAGE_H
#define CUBBY_FRONT_PAGE_PAGE_H

#include "front/front.h"

extern const struct dialect page_dialect;

struct page_settings { /* from the configuration */
    bool off;          /* nothing is served below /ui */
    const char *preview_domain;
};

#endif
