/* Tokens over HTTP: made, listed, revoked. Called through native_routes, which let only admins in.
 * Invariant: a secret is in the answer that made it and nowhere else: in no list, log or cache. */
#include <string.h>

#include "base/clock.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "front/trail.h"

static int token_asked(const struct token_args *args, struct token *ret_token, struct err *err) {
    struct token token = {.user = args->user.data, .runner = args->runner.data, .label = args->label.data};
    if (args->scope.data && !scope_find(args->scope.data, &token.scope))
        return err_set(err, ERR_INVALID, "scope must be admin, user, read or runner");
    if (args->expires_in_ms.has)
        token.expires_ms = clock_wall_ms() + args->expires_in_ms.value;
    int failed = token_wish(&token, args->scope.data, err);
    if (!failed)
        *ret_token = token;
    return failed;
}

int native_token_create(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct token_args args = {0};
    struct token token;
    char text[TOKEN_TEXT_BYTES];
    int failed = front_body(request, &args, err);
    if (!failed)
        failed = token_asked(&args, &token, err);
    if (!failed)
        failed = auth_create(front_of(request)->auth, &token, text, err);
    if (failed)
        return failed;
    trail_note(request, arena_printf(http_arena(request), "token=%s", token.id));
    autoanswer answer;
    http_reply_header(request, "Cache-Control", "no-store");
    answer_init(&answer, request, 201);
    json_open(&answer.json, '{');
    token_members(&token, &answer.json);
    json_put_str(&answer.json, "token", text);
    json_close(&answer.json, '}');
    explicit_bzero(text, sizeof text);
    return answer_end(&answer, 0, err);
}

int native_token_list(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct auth_listed *tokens;
    size_t count;
    int failed = auth_list(front_of(request)->auth, http_arena(request), &tokens, &count, err);
    if (failed)
        return failed;
    autoanswer answer;
    answer_list(&answer, request, tokens_answer);
    for (size_t i = 0; i < count && answer_spill(&answer) >= 0; i++) {
        json_open(&answer.json, '{');
        token_members(&tokens[i].token, &answer.json);
        json_put_bool(&answer.json, "configured", tokens[i].configured);
        json_close(&answer.json, '}');
    }
    return answer_list_end(&answer, NULL, 0, err);
}

int native_token_revoke(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *id = http_param(request, "id");
    if (strlen(id) == TOKEN_ID_BYTES - 1)
        trail_note(request, arena_printf(http_arena(request), "token=%s", id));
    int failed = auth_revoke(front_of(request)->auth, id, request, err);
    return failed ? failed : front_empty(request, 204);
}
