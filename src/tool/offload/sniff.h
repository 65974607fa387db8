/* The type of a file by its first bytes: text, a picture, or something a model cannot read as text. */
#ifndef CUBBY_TOOL_SNIFF_H
#define CUBBY_TOOL_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNIFF_BYTES 8192u /* of the head of a file */

enum sniff_kind { SNIFF_TEXT, SNIFF_UTF16LE, SNIFF_UTF16BE, SNIFF_IMAGE, SNIFF_BINARY };

struct sniff {
    enum sniff_kind kind;
    const char *what; /* "a PDF document"; NULL: not known */
    const char *type; /* of a picture: "image/png" */
    const char *with; /* a program that reads it, "pdftotext"; NULL: none in particular */
};

/* Text is what holds no NUL; whether it is UTF-8 is for the reader to find out. */
void sniff_head(const uint8_t *head, size_t len, struct sniff *ret_sniff);
/* Of what turned out not to be text; false: it is nothing known. */
bool sniff_known(const uint8_t *head, size_t len, struct sniff *ret_sniff);
/* Width and height of a picture; false: they are not where they should be. */
bool sniff_size(const uint8_t *data, size_t len, unsigned *ret_width, unsigned *ret_height);

#endif
