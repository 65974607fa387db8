/* Tokens over HTTP: made, listed, revoked. Called through native_routes, for admins only. Invariant: a secret is only
 * in the answer that made it: in no list, log or cache. */
#include "front/native/native.h"

static int token_asked(const struct native_args *args, struct token *ret_token, struct err *err) {
    struct token token = {.user = args->user.data, .runner = args->runner.data, .label = args->label.data};
    if (args->scope.data && !scope_find(args->scope.data, &token.scope))
        return err_set(err, ERR_INVALID, "scope must be admin, user, read, runner or worker");
    if (args->expires_in_ms.has)
        token.expires_ms = clock_wall_ms() + args->expires_in_ms.value;
    int failed = token_wish(&token, args->scope.data, err);
    if (!failed)
        *ret_token = token;
    return failed;
}

int native_token_create(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    STEP(front_body(request, &args, err)
                     ?: token_asked(&args, &token, err)
                     ?: auth_create(front_of(request)->auth, &token, text, err));
    trail_note(request, arena_printf(http_arena(request), "token=%s", token.id));
    http_reply_header(request, "Cache-Control", "no-store");
    const struct token_out out = {.token = token, .id = token.id, .scope = scope_name(token.scope), .text = text};
    int failed = answer_rows(request, 201, token_answer, &out, err);
    explicit_bzero(text, sizeof text);
    return failed;
}

int native_token_list(struct http_request *request, struct box *, struct err *err) {
    struct auth_listed *tokens;
    size_t count;
    STEP(auth_list(front_of(request)->auth, http_arena(request), &tokens, &count, err));
    autoanswer answer;
    answer_list(&answer, request, tokens_answer);
    for (size_t i = 0; i < count; i++) {
        const struct token *token = &tokens[i].token;
        const struct token_out out = {
            .token = *token, .id = token->id, .scope = scope_name(token->scope), .configured = tokens[i].configured};
        if (answer_item(&answer, &out) < 0)
            break;
    }
    return answer_list_end(&answer, NULL, 0, err);
}

int native_token_revoke(struct http_request *request, struct box *, struct err *err) {
    const char *id = http_param(request, "id");
    if (strlen(id) == TOKEN_ID_BYTES - 1)
        trail_note(request, arena_printf(http_arena(request), "token=%s", id));
    return auth_revoke(front_of(request)->auth, id, request, err) ?: front_empty(request, 204);
}
