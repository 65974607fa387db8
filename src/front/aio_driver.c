/* The drivers of interpreters as texts: aio_python.py and aio_node.js, as they lie in this directory. Used by aio_kernel.c.
 * Not to break: the names are those that the Makefile says this object is made of, relative to its directory. */
#include "front/aio_driver.h"

#define TEXT(name, path)                                                                                               \
    __asm__(".section .rodata\n"                                                                                       \
            ".global " #name "\n"                                                                                      \
            ".type " #name ", @object\n" #name ":\n"                                                                   \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".size " #name ", . - " #name "\n"                                                                         \
            ".previous\n")

TEXT(aio_driver_python, "src/front/aio_python.py");
TEXT(aio_driver_node, "src/front/aio_node.js");
