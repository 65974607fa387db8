/* What a token is and its rules, wherever it is stored. Called by the daemon's doors and by `cubby token`.
 * Invariant: a secret exists as text once, in the answer that made it; everything else has its SHA-256. */
#include "store/token.h"

#include <string.h>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"

static const char *const scopes[] = {"admin", "user", "read", "runner"};
#define SCOPES (sizeof scopes / sizeof *scopes)

const char *scope_name(enum scope scope) {
    return scopes[scope];
}

bool scope_find(const char *name, enum scope *ret_scope) {
    for (size_t i = 0; i < SCOPES; i++)
        if (!strcmp(name, scopes[i])) {
            *ret_scope = (enum scope)i;
            return true;
        }
    return false;
}

/* Plain SHA-256 is enough, as it would not be for a password: with 256 random bits there is nothing to guess, so there is
 * nothing that a slow or salted hash would slow down. */
void token_hash(const char *text, uint8_t ret_sha256[32]) {
    sha256(text, strlen(text), ret_sha256);
}

void token_id(const uint8_t sha256_of_it[32], char ret_id[TOKEN_ID_BYTES]) {
    text_hex(ret_id, sha256_of_it, (TOKEN_ID_BYTES - 1) / 2);
}

static int wish_runner(const char *name, struct err *err) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t len = strlen(name);
    if (!len || len > LIMIT_RUNNER_BYTES || strspn(name, allowed) != len || name[0] == '.' || name[0] == '-')
        return err_set(err, ERR_INVALID, "a runner's name has 1 to %u letters, digits and _.-, not '%.80s'",
                       LIMIT_RUNNER_BYTES, name);
    return 0;
}

static int wish_scope(struct token *wish, bool has_scope, struct err *err) {
    if (!has_scope)
        wish->scope = wish->runner ? SCOPE_RUNNER : SCOPE_USER;
    if (wish->runner && wish->scope != SCOPE_RUNNER)
        return err_set(err, ERR_INVALID, "a runner's token has scope runner: leave 'scope' or 'runner' out");
    if (wish->scope == SCOPE_RUNNER && !wish->runner)
        return err_set(err, ERR_INVALID, "a token of scope runner needs 'runner', the machine's name");
    if (wish->scope == SCOPE_ADMIN && wish->user)
        return err_set(err, ERR_INVALID, "a token of scope admin sees every user's boxes: leave 'user' out");
    if (wish->scope == SCOPE_USER && !wish->user)
        wish->user = "default";
    return 0;
}

int token_wish(struct token *wish, bool has_scope, struct err *err) {
    int r = wish_scope(wish, has_scope, err);
    if (r == 0 && wish->user)
        r = text_user(wish->user, err);
    if (r == 0 && wish->runner)
        r = wish_runner(wish->runner, err);
    if (r == 0 && wish->label &&
        (strlen(wish->label) > LIMIT_TOKEN_LABEL_BYTES || !text_utf8(wish->label, strlen(wish->label))))
        r = err_set(err, ERR_INVALID, "a label is UTF-8 of at most %u bytes", LIMIT_TOKEN_LABEL_BYTES);
    return r;
}

void token_members(const struct token *token, struct json *json) {
    json_put_str(json, "id", token->id);
    json_put_str(json, "user", token->user);
    json_put_str(json, "scope", scope_name(token->scope));
    json_put_str(json, "runner", token->runner);
    json_put_str(json, "label", token->label);
    const struct {
        const char *key;
        uint64_t ms;
    } times[] = {{"created_at", token->created_ms},
                 {"expires_at", token->expires_ms},
                 {"last_used_at", token->used_ms},
                 {"revoked_at", token->revoked_ms}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_put_time(json, times[i].key, times[i].ms);
}
