/* Secrets of one call: they reach its command's environment and nothing else, and are [redacted] in whatever it answers.
 * What is looked for are the values themselves: a command that encodes one can show it. */
#ifndef CUBBY_TOOL_SECRET_H
#define CUBBY_TOOL_SECRET_H

#include "tool/tool.h"

struct json_t;

/* Takes "_meta" off the arguments and its secrets into call->secrets (the door's, when it brought some, win), checks them,
 * and makes call->conceal. INVALID: a name that is no variable's, a value too short to be hidden, too much. The sentence
 * never holds a value. */
int secret_take(struct tool_call *call, struct json_t *args, struct err *err);
/* What came through tool_put is in the text: to be called before anybody else touches it. */
void secret_settle(struct tool_call *call);
void secret_forget(struct tool_call *call); /* what is still held back of a text that is thrown away */
void secret_put(struct tool_call *call, const void *text, size_t len);
/* A whole text without the secrets, for what is cut afterwards: half a secret is a secret. */
void secret_text(struct tool_call *call, const char *text, size_t len, struct buf *out);
/* The structured result, and an error's sentence when there is one. */
void secret_hide(struct tool_call *call, struct err *err);

#endif
