/* Changing a text by a regular expression. Called by edit_text. Invariant: one attempt has a bounded number of steps and
 * bounded memory; all of them together are bounded by the caller's clock. Without JIT: there the bounds would not be these. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/text.h"
#include "runner/ops/edit_text.h"

enum {
    MATCH_LIMIT = 10000000, /* steps of one attempt: about a second */
    HEAP_LIMIT_KB = 65536,
};

struct substitution {
    struct edit_text *edit;
    const struct edit_span *span;
};

static int regex_place(pcre2_substitute_callout_block *block, void *user) {
    struct substitution *substitution = user;
    edit_text_place(substitution->edit, substitution->span, substitution->span->from + block->ovector[0]);
    return 0;
}

static int regex_failure(int number, struct err *err) {
    PCRE2_UCHAR why[200];
    if (number == PCRE2_ERROR_MATCHLIMIT || number == PCRE2_ERROR_DEPTHLIMIT || number == PCRE2_ERROR_HEAPLIMIT)
        return err_set(err, ERR_INVALID,
                       "the pattern takes too many steps on this text: write it more exactly, without "
                       "nested repetitions");
    pcre2_get_error_message(number, why, sizeof why);
    return err_set(err, ERR_INVALID, "invalid replacement: %s", (const char *)why);
}

static int regex_compile(const struct edit_text *edit, bool utf, pcre2_code **ret_code, struct err *err) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        abort();
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    uint32_t options = PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | (utf ? PCRE2_UTF | PCRE2_NO_UTF_CHECK : 0);
    int number;
    size_t offset;
    *ret_code = pcre2_compile(edit->old, edit->old_len, options, &number, &offset, context);
    pcre2_compile_context_free(context);
    if (*ret_code)
        return 0;
    PCRE2_UCHAR why[200];
    pcre2_get_error_message(number, why, sizeof why);
    return err_set(err, ERR_INVALID, "invalid regex pattern at byte %zu: %s", offset, (const char *)why);
}

/* The room behind out is asked for at once: pages that stay unused cost nothing. */
static int regex_run(struct substitution *substitution, pcre2_code *code, bool utf, struct buf *out, struct err *err) {
    struct edit_text *edit = substitution->edit;
    const struct edit_span *span = substitution->span;
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    size_t room = out->max - out->len;
    uint8_t *at = buf_reserve(out, room);
    if (!context || !data)
        abort();
    pcre2_set_match_limit(context, MATCH_LIMIT);
    pcre2_set_depth_limit(context, MATCH_LIMIT);
    pcre2_set_heap_limit(context, HEAP_LIMIT_KB);
    pcre2_set_substitute_callout(context, regex_place, substitution);
    PCRE2_SIZE len = room;
    int number = PCRE2_ERROR_NOMEMORY;
    if (at)
        number =
            pcre2_substitute(code, span->data + span->from, span->to - span->from, 0,
                             PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_UNSET_EMPTY | (utf ? PCRE2_NO_UTF_CHECK : 0),
                             data, context, edit->new_text, edit->new_len, at, &len);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (number == PCRE2_ERROR_NOMEMORY) {
        out->failed = true;
        return 0;
    }
    if (number < 0)
        return regex_failure(number, err);
    out->len += len;
    return 0;
}

int edit_regex(struct edit_text *edit, const struct edit_span *span, const char *shown, struct buf *out,
               struct err *err) {
    (void)shown;
    if (edit->old_len > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    bool utf = text_utf8(edit->old, edit->old_len) && text_utf8(edit->new_text, edit->new_len) &&
               text_utf8(span->data + span->from, span->to - span->from);
    pcre2_code *code;
    int r = regex_compile(edit, utf, &code, err);
    if (r < 0)
        return r;
    struct substitution substitution = {edit, span};
    r = regex_run(&substitution, code, utf, out, err);
    pcre2_code_free(code);
    return r;
}
