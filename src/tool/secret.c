/* Secrets of a call. Called by tool.c. Invariant: secrets are checked before any text that could contain one is made,
 * and all text goes through secret_put. */
#include <ctype.h>
#include <jansson.h>

#include "base/base.h"
#include "tool/secret.h"
#include "base/conceal.h"

enum { SECRET_PIECE_BYTES = 65536, SECRET_OUT_BYTES = 8 << 20 };

struct meta_args {
    const char **secrets;
};

static const struct row meta_fields[] = {
    {ARG(meta_args, secrets, MAP), .flags = ROW_SECRET, .max = LIMIT_SECRETS,
     .text = "variables for this call's command only"},
    {.name = NULL},
};

static int secret_check(const char *const *rows, struct err *err) {
    size_t total = 0, count = 0;
    for (; rows && rows[count]; count++) {
        const char *row = rows[count];
        size_t name = strspn(row, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
        total += strlen(row);
        if (!name || isdigit((unsigned char)*row) || row[name] != '=')
            return err_set(err, ERR_INVALID, "a secret's name must be a variable name: letters, digits and _");
    }
    const char *weak = conceal_short(rows);
    if (weak)
        return err_set(err, ERR_INVALID, "the secret %.*s has less than %d bytes and could not be hidden in the output",
                       (int)strcspn(weak, "="), weak, CONCEAL_MIN_BYTES);
    if (count > LIMIT_SECRETS || total > LIMIT_SECRETS_BYTES)
        return err_set(err, ERR_INVALID, "a call may have at most %u secrets, of %u bytes in all", LIMIT_SECRETS,
                       LIMIT_SECRETS_BYTES);
    return 0;
}

int secret_take(struct tool_call *call, json_t *args, struct err *err) {
    struct meta_args taken = {0};
    json_t *meta = json_is_object(args) ? json_object_get(args, "_meta") : NULL;
    int code = 0;
    if (meta)
        code = rows_bind(meta, meta_fields, call->arena, &taken, err);
    if (code < 0)
        return err_wrap(err, "_meta");
    if (meta)
        json_object_del(args, "_meta");
    if (!call->secrets)
        call->secrets = (const char *const *)taken.secrets;
    code = secret_check(call->secrets, err);
    if (code == 0 && !call->conceal)
        call->conceal = conceal_new(call->secrets);
    return code;
}

void secret_put(struct tool_call *call, const void *text, size_t len) {
    const uint8_t *from = text;
    autobuf out = buf_max(SECRET_OUT_BYTES);
    while (len) {
        size_t n = len < SECRET_PIECE_BYTES ? len : SECRET_PIECE_BYTES;
        conceal_put(call->conceal, from, n, &out);
        spool_put(&call->result.text, out.data, out.len);
        buf_clear(&out);
        from += n;
        len -= n;
    }
}

void secret_settle(struct tool_call *call) {
    if (!call->conceal)
        return;
    autobuf out = buf_max(SECRET_OUT_BYTES);
    conceal_flush(call->conceal, &out);
    spool_put(&call->result.text, out.data, out.len);
}

void secret_forget(struct tool_call *call) {
    if (!call->conceal)
        return;
    autobuf out = buf_max(SECRET_OUT_BYTES);
    conceal_flush(call->conceal, &out);
}

void secret_text(struct tool_call *call, const char *text, size_t len, struct buf *out) {
    if (call->conceal)
        conceal_text(call->conceal, text, len, out);
    else
        buf_put(out, text, len);
}

void secret_hide(struct tool_call *call, struct err *err) {
    struct buf *structured = &call->result.structured;
    if (!call->conceal)
        return;
    autobuf out = buf_max(4 * structured->max);
    if (structured->len) {
        conceal_text(call->conceal, structured->data, structured->len, &out);
        buf_clear(structured);
        buf_put(structured, out.data, out.len);
    }
    if (!err)
        return;
    buf_clear(&out);
    conceal_text(call->conceal, err->text, strnlen(err->text, sizeof err->text), &out);
    snprintf(err->text, sizeof err->text, "%.*s", (int)out.len, out.len ? (const char *)out.data : "");
}
