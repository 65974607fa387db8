/* Text: UTF-8 check, base64, hex, strict numbers, escapes for showing. */
#ifndef CUBBY_BASE_TEXT_H
#define CUBBY_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

/* A short text made on the spot, cut at size; it lives until the end of the block. */
#define text_make(size, ...) text_format((char[size]){0}, size, __VA_ARGS__)
char *text_format(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool text_utf8(const void *data, size_t len); /* well-formed: no overlong forms, no surrogates */
/* Decimal digits only, whole string, at most max. */
bool text_u64(const char *text, uint64_t max, uint64_t *ret_value);
void text_base64(struct buf *out, const void *data, size_t len);
bool text_unbase64(struct buf *out, const char *text,
                   size_t len); /* strict RFC 4648 with padding; false: bad or too long */
/* The same with the letters of URLs and no padding; read: of either alphabet, padded or not. */
void text_base64_url(struct buf *out, const void *data, size_t len);
bool text_unbase64_any(struct buf *out, const char *text, size_t len);
/* How much of it fits into max bytes without cutting a character of UTF-8. */
size_t text_cut(const void *text, size_t len, size_t max);
void text_hex(char *out, const uint8_t *data, size_t len); /* 2*len characters and a NUL */
/* Bytes of the well-formed character at text (len > 0), and the character; 0: not well-formed. */
size_t text_character(const void *text, size_t len, uint32_t *ret_character);
/* Bytes of the text that fit into max without parting a character. */
size_t text_fitting(const char *text, size_t len, size_t max);
void text_point(struct buf *out, uint32_t point); /* as UTF-8; U+FFFD for invalid characters, and for 0 */
/* Controls, also the 8-bit ones, and what turns the direction of text around or hides in it. */
bool text_harmful(uint32_t character);
/* Of a list that ends with NULL, or is NULL. */
size_t text_list_count(const char *const *list);
bool text_list_has(const char *const *list, const char *word);
void text_quote(struct buf *out, const char *word); /* one word for a shell, in single quotes */
void text_quote_all(struct buf *out, const char *const *words, size_t count); /* a space before each */
/* Names of sessions and interpreters: 1 to max of A-Z a-z 0-9 _ . : @ - */
bool text_name(const char *text, size_t max);
int text_user(const char *user, struct err *err); /* the grammar of user names */
bool text_id(const char *text);                   /* a box id: 16 lower-case hex digits, or 8 where a client chose it */
void text_id_copy(char ret_id[17], const char *id);
/* Control characters, direction overrides and bytes that are not UTF-8 as \n, \x1b, \u202e: safe on any terminal and in
 * any log viewer. At most four times as long. */
void text_shown(struct buf *out, const char *text, size_t len);
/* The character at text as it is shown: bytes written to out; *ret_used: bytes taken. */
size_t text_show(const char *text, size_t len, char out[8], size_t *ret_used);

#endif
