/* Secrets of one call: they are only in its command's environment, and are [redacted] in its answers. Only literal
 * values are found: a command that encodes a secret can show it. */
#ifndef CUBBY_TOOL_SECRET_H
#define CUBBY_TOOL_SECRET_H

#include "tool/tool.h"

struct json_t;

/* Removes "_meta" from the arguments and moves its secrets to call->secrets (unless the endpoint set some), checks
 * them, and makes call->conceal. INVALID: not a variable name, a value too short to be hidden, or too many. The error
 * text never contains a value. */
int secret_take(struct tool_call *call, struct json_t *args, struct err *err);
/* Flushes into the text what tool_put has held back. Call it before anything else touches the text. */
void secret_settle(struct tool_call *call);
void secret_forget(struct tool_call *call); /* drops what is held back of a discarded text */
void secret_put(struct tool_call *call, const void *text, size_t len);
/* Copies a text without the secrets. Call it before the text is cut, which could leave half a secret. */
void secret_text(struct tool_call *call, const char *text, size_t len, struct buf *out);
/* Removes secrets from the structured result and, if there is one, from the error text. */
void secret_hide(struct tool_call *call, struct err *err);

#endif
