/* What the words of others mean: those of libcurl, of container engines and of runners of another make, where they send
 * no code for it. */
#ifndef CUBBY_HTTP_CLIENT_FOREIGN_H
#define CUBBY_HTTP_CLIENT_FOREIGN_H

#include "base/err.h"

enum foreign {
    FOREIGN_CURL,     /* number: a CURLcode */
    FOREIGN_ENGINE,   /* number: an HTTP status that is not a success */
    FOREIGN_PULL,     /* a container engine's stream of a pull */
    FOREIGN_IMPORT,   /* and of an import */
    FOREIGN_PROGRESS, /* a state of a layer in the stream of a pull: EXISTS: it is complete; BUSY: it is on its way */
    FOREIGN_RUNNER,   /* number: the ERR_ code of the word that it sent, too */
};
/* 0: the text says nothing that is known, which happens with CURL, PROGRESS and RUNNER alone. ret_why, ret_fix ("" or
 * "; what to do") may be NULL. */
enum err_code foreign_judge(enum foreign source, int number, const char *text, enum err_why *ret_why,
                            const char **ret_fix);

#endif
