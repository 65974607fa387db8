/* Names of signals. Called by dialects and tools. Invariant: a number without a name still has a text (SIG34). */
#include "box/signame.h"

#include "base/base.h"

const char *signame_text(int number, char text[SIGNAME_BYTES]) {
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(text, SIGNAME_BYTES, "SIG%s", name);
    else
        snprintf(text, SIGNAME_BYTES, "SIG%d", number);
    return text;
}

int signame_number(const char *name) {
    uint64_t number;
    if (text_u64(name, 64, &number))
        return (int)number;
    if (!strncasecmp(name, "SIG", 3))
        name += 3;
    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && !strcasecmp(known, name))
            return i;
    }
    return text_u64(name, 64, &number) ? (int)number : 0;
}
