/* How much memory boxes may still take on this machine. */
#ifndef CUBBY_BOX_MEMORY_H
#define CUBBY_BOX_MEMORY_H

#include <stdint.h>

/* Bytes that are available: of the machine, and below every limit of a control group that this process is in (v1 or
 * v2), whichever is less. Where that is `enough` or more, it is not looked at closely. root: "" on a real machine.
 * UINT64_MAX: it cannot be known. */
uint64_t memory_available(const char *root, uint64_t enough);

#endif
