/* Secrets of one call: they reach its command's environment and nothing else, and are [redacted] in its answers.
 * Only the values themselves are found: a command that encodes one can show it. */
#ifndef CUBBY_TOOL_SECRET_H
#define CUBBY_TOOL_SECRET_H

#include "tool/tool.h"

struct json_t;

/* Takes "_meta" off the arguments and its secrets into call->secrets (unless the endpoint set some), checks them,
 * and makes call->conceal. INVALID: not a variable's name, a value too short to be hidden, or too many. The sentence
 * never contains a value. */
int secret_take(struct tool_call *call, struct json_t *args, struct err *err);
/* Flushes what came through tool_put into the text: call it before anything else touches the text. */
void secret_settle(struct tool_call *call);
void secret_forget(struct tool_call *call); /* drops the held part of a discarded text */
void secret_put(struct tool_call *call, const void *text, size_t len);
/* A whole text without the secrets, before it is cut: half a secret is a secret. */
void secret_text(struct tool_call *call, const char *text, size_t len, struct buf *out);
/* The structured result, and an error's sentence when there is one. */
void secret_hide(struct tool_call *call, struct err *err);

#endif
