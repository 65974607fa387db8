/* The drivers of interpreters as texts: aio/python.py and aio/node.js, as they lie in this directory. Used by aio/kernel.c.
 * Invariant: the names are those that the Makefile says this object is made of, relative to its directory. */
#include "front/aio/driver.h"

#define TEXT(name, path)                                                                                               \
    __asm__(".section .rodata\n"                                                                                       \
            ".global " #name "\n"                                                                                      \
            ".type " #name ", @object\n" #name ":\n"                                                                   \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".size " #name ", . - " #name "\n"                                                                         \
            ".previous\n")

TEXT(aio_driver_python, "src/front/aio/python.py");
TEXT(aio_driver_node, "src/front/aio/node.js");
