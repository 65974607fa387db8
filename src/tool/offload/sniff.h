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
    const char *type; /* of an image: "image/png" */
    const char *with; /* a program that reads it, "pdftotext"; NULL: no particular one */
};

/* Data without a NUL counts as text; the reader checks whether it is UTF-8. */
void sniff_head(const uint8_t *head, size_t len, struct sniff *ret_sniff);
/* Finds the type of data that is not text after all. false: unknown. */
bool sniff_known(const uint8_t *head, size_t len, struct sniff *ret_sniff);
/* Gets width and height of an image. false: not found. */
bool sniff_size(const uint8_t *data, size_t len, unsigned *ret_width, unsigned *ret_height);

#endif
