/* Text files as Markdown, for models: HTML, CSV, JSON, and text as it is. Pure functions; their input is hostile. */
#ifndef CUBBY_FRONT_AIO_MARKDOWN_H
#define CUBBY_FRONT_AIO_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum markdown_kind { MARKDOWN_NONE, MARKDOWN_TEXT, MARKDOWN_HTML, MARKDOWN_JSON, MARKDOWN_CSV, MARKDOWN_TSV };

/* By the end of its name or its media type (either may be NULL), else by how it begins. NONE: not a text that we know. */
enum markdown_kind markdown_kind(const char *name, const char *media, const char *data, size_t len);
/* The most that the Markdown of len bytes may take. Nothing but HTML that is made for it needs more: deep quotes around single
 * letters, a long address that is told again for each of a thousand paragraphs. */
size_t markdown_room(size_t len);
/* Into out, which may turn out to be too small (out->failed). In time that grows with len and out->max alone. */
void markdown_write(enum markdown_kind kind, const char *data, size_t len, struct buf *out);
void markdown_html(const char *data, size_t len, struct buf *out); /* aio/markdown_html.c */

#endif
