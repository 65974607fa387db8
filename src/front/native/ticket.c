/* Tickets and logins. A ticket opens one request, once, within half a minute, with the rights of the sender that asked
 * for it: WebSockets and downloads of a browser, which cannot send Authorization. A ticket for a login is traded for a
 * token that holds as long as what it was made with, for half a day at most. Called through native_routes and
 * native_admit. Invariants: a ticket is in no log; it never gives more than its maker has at the moment of its use. */
#include "front/native/ticket.h"

#include <openssl/crypto.h>
#include <strings.h>

#include "base/sync.h"

#define TICKET_PROTOCOL "cubby.v1"
#define TICKET_IN_PROTOCOL "ticket."
#define TICKET_LOGIN "login."

enum {
    TICKET_LIFE_MS = 30000,
    TICKET_LOGIN_MS = 12 * 3600000,
    TICKET_TEXT_BYTES = 65,
};

enum ticket_purpose { TICKET_PTY, TICKET_FILES, TICKET_PORT, TICKET_LOG_IN };
static const char *const ticket_purposes[] = {"pty", "files", "port", "login"};
static const char *const ticket_routes[][6] = {
    [TICKET_PTY] = {"pty"},
    [TICKET_FILES] = {"file_get", "archive_get", "process_output", "recording_get"},
    [TICKET_PORT] = {"port_forward"},
    [TICKET_LOG_IN] = {NULL},
};

struct ticket {
    char text[TICKET_TEXT_BYTES];
    char box[17];               /* "": none */
    char name[AUTH_NAME_BYTES]; /* of a login: auth_name */
    enum ticket_purpose purpose;
    uint64_t until_ms;     /* clock_ms */
    const struct who *who; /* held */
};
struct tickets {
    pthread_mutex_t lock;
    size_t count;
    struct ticket items[LIMIT_TICKETS];
};

struct tickets *tickets_new(void) {
    struct tickets *tickets = xcalloc(1, sizeof *tickets);
    pthread_mutex_init(&tickets->lock, NULL);
    return tickets;
}

static void ticket_drop_locked(struct tickets *tickets, size_t i) {
    auth_release(tickets->items[i].who);
    tickets->items[i] = tickets->items[--tickets->count];
}

void tickets_free(struct tickets *tickets) {
    if (!tickets)
        return;
    while (tickets->count)
        ticket_drop_locked(tickets, 0);
    pthread_mutex_destroy(&tickets->lock);
    free(tickets);
}

static int ticket_put(struct tickets *tickets, struct ticket *ticket, struct err *err) {
    uint8_t random[32];
    uint64_t now_ms = clock_ms();
    size_t own = 0;
    xrandom(random, sizeof random);
    text_hex(ticket->text, random, sizeof random);
    ticket->until_ms = now_ms + TICKET_LIFE_MS;
    autolock(&tickets->lock);
    for (size_t i = tickets->count; i-- > 0;)
        if (tickets->items[i].until_ms <= now_ms)
            ticket_drop_locked(tickets, i);
    for (size_t i = 0; i < tickets->count; i++)
        own += tickets->items[i].who == ticket->who;
    if (own >= LIMIT_TICKETS_PER_SENDER || tickets->count == LIMIT_TICKETS)
        return err_set(err, ERR_LIMIT, "%zu tickets wait to be used, which is the limit; each expires after %d seconds",
                       own >= LIMIT_TICKETS_PER_SENDER ? own : tickets->count, TICKET_LIFE_MS / 1000);
    auth_hold(ticket->who);
    tickets->items[tickets->count++] = *ticket;
    return 0;
}

/* Removes the ticket from the table; its sender is the caller's to release. false: it is unknown or has expired. */
static bool ticket_take(struct tickets *tickets, const char *text, size_t len, struct ticket *ret_ticket) {
    uint64_t now_ms = clock_ms();
    bool found = false;
    autolock(&tickets->lock);
    for (size_t i = tickets->count; len == TICKET_TEXT_BYTES - 1 && i-- > 0;) {
        if (CRYPTO_memcmp(tickets->items[i].text, text, len) != 0)
            continue;
        *ret_ticket = tickets->items[i];
        auth_hold(ret_ticket->who);
        ticket_drop_locked(tickets, i);
        found = true;
    }
    if (found && ret_ticket->until_ms <= now_ms) {
        auth_release(ret_ticket->who);
        found = false;
    }
    return found;
}

/* ---- the token of a login: login.UNTIL-MS.NAME.64 HEX DIGITS ---- */

static void ticket_login_text(const struct native_state *state, const char *name, uint64_t until_ms,
                              char ret_text[160]) {
    char text[128], digits[65];
    uint8_t digest[32];
    snprintf(text, sizeof text, "login %s %llu", name, (unsigned long long)until_ms);
    state_secret_derive(&state->secret, text, digest);
    text_hex(digits, digest, sizeof digest);
    snprintf(ret_text, 160, TICKET_LOGIN "%llu.%s.%s", (unsigned long long)until_ms, name, digits);
}

static int ticket_login_admit(struct http_request *request, const char *token, unsigned needs,
                              const struct who **ret_who, struct err *err) {
    char number[24] = "", name[AUTH_NAME_BYTES] = "", made[160];
    uint64_t until_ms;
    if (sscanf(token, TICKET_LOGIN "%20[0-9].%31[a-z0-9:].", number, name) != 2 ||
        !text_u64(number, UINT64_MAX, &until_ms))
        return err_set(err, ERR_UNAUTHORIZED, "this is not the token of a login");
    ticket_login_text(native_state(request), name, until_ms, made);
    if (strlen(made) != strlen(token) || CRYPTO_memcmp(made, token, strlen(made)) != 0)
        return err_set(err, ERR_UNAUTHORIZED, "this is not the token of a login");
    if (until_ms <= clock_wall_ms())
        return err_set(err, ERR_UNAUTHORIZED, "this login has expired; log in again");
    trail_of(request)->login_until_ms = until_ms;
    return auth_admit_named(front_of(request)->auth, request, name, needs, ret_who, err);
}

/* ---- requests that carry one ---- */

/* Finds the ticket among the protocols that a WebSocket's client offers. */
static const char *ticket_offered(const struct http_request *request, size_t *ret_len) {
    const char *at = http_header(request, "sec-websocket-protocol");
    for (; at && *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (strncmp(at, TICKET_IN_PROTOCOL, strlen(TICKET_IN_PROTOCOL)) == 0) {
            at += strlen(TICKET_IN_PROTOCOL);
            *ret_len = strcspn(at, ", \t");
            return at;
        }
    }
    return NULL;
}

void ticket_protocol(struct http_request *request) {
    const char *offered = http_header(request, "sec-websocket-protocol");
    if (offered && http_list_has(offered, TICKET_PROTOCOL))
        http_reply_header(request, "Sec-WebSocket-Protocol", TICKET_PROTOCOL);
}

static bool ticket_fits(const struct http_request *request, const struct ticket *ticket) {
    const char *id = http_param(request, "id"), *name = http_route(request)->name;
    for (size_t i = 0; ticket_routes[ticket->purpose][i]; i++)
        if (id && strcmp(id, ticket->box) == 0 && strcmp(name, ticket_routes[ticket->purpose][i]) == 0)
            return true;
    return false;
}

static int ticket_redeem(struct http_request *request, const char *text, size_t len, unsigned needs,
                         const struct who **ret_who, struct err *err) {
    struct ticket ticket;
    if (!ticket_take(native_state(request)->tickets, text, len, &ticket))
        return err_set(err, ERR_UNAUTHORIZED,
                       "this ticket is unknown: it was used, or it has expired; ask for another: POST /v1/tickets");
    int failed = ticket_fits(request, &ticket)
                     ? auth_admit_again(front_of(request)->auth, request, ticket.who, needs, ret_who, err)
                     : err_set(err, ERR_UNAUTHORIZED, "this ticket is for another box or purpose; it is used up now");
    auth_release(ticket.who);
    if (!failed)
        memcpy(trail_of(request)->bound, ticket.box, sizeof ticket.box);
    return failed;
}

int ticket_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    const char *header = http_header(request, "authorization");
    size_t len = 0;
    if (header)
        return strncasecmp(header, "Bearer " TICKET_LOGIN, strlen("Bearer " TICKET_LOGIN)) != 0
                   ? 1
                   : ticket_login_admit(request, header + strlen("Bearer "), needs, ret_who, err);
    const char *text = http_query(request, "ticket", &len);
    if (!text)
        text = ticket_offered(request, &len);
    return text ? ticket_redeem(request, text, len, needs, ret_who, err) : 1;
}

/* ---- handlers ---- */

struct ticket_args {
    struct row_text box, purpose, ticket;
};
const struct row ticket_request_fields[] = {
    {ROW("for", TEXT, ticket_args, purpose), .flags = ROW_REQUIRED | ROW_AUDITED, .choices = "pty|files|port|login",
     .text = "what it opens: pty a terminal; files a download (files, archive, output of a process, a recording); "
             "port the bytes of a server; login the page, for its sender"},
    {ROW("box", TEXT, ticket_args, box), .flags = ROW_AUDITED, .min = 1, .max = 64, .text = "whose; not for a login"},
    ROW_NAMED("TicketForRequest"),
};
struct ticket_made_out {
    const char *ticket;
    uint64_t until_ms;
};
const struct row ticket_made_answer[] = {
    OUT("ticket", TEXT, ticket_made_out, ticket,
        "for one request: ?ticket=, or Sec-WebSocket-Protocol: cubby.v1, ticket.TICKET"),
    OUT("expires_at", TIME, ticket_made_out, until_ms, "half a minute from now"),
    ROW_NAMED("TicketMade"),
};
const struct row login_fields[] = {
    {ROW("ticket", TEXT, ticket_args, ticket), .flags = ROW_REQUIRED, .min = 1, .max = 256, .text = "made for a login"},
    ROW_NAMED("LoginRequest"),
};
struct login_out {
    const char *token, *scope, *user;
    uint64_t until_ms;
};
const struct row login_answer[] = {
    OUT("token", TEXT, login_out, token, "for Authorization: Bearer; it ends with what it was made with"),
    OUT("expires_at", TIME, login_out, until_ms, "of the token"),
    {ROW("scope", TEXT, login_out, scope), .choices = "admin|user|read", .text = "what it may do"},
    OUT_NULL("user", TEXT, login_out, user, "whose boxes it sees; null: all"),
    ROW_NAMED("Login"),
};

/* The box must be one that its sender may see; it is not touched. */
static int ticket_box(struct http_request *request, const struct ticket_args *args, struct ticket *ticket,
                      struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    if (ticket->purpose == TICKET_LOG_IN)
        return args->box.data ? err_set(err, ERR_INVALID, "a ticket for a login has no 'box'") : 0;
    if (!args->box.data)
        return err_set(err, ERR_INVALID, "'box' is missing: a ticket for %s opens one box",
                       ticket_purposes[ticket->purpose]);
    if (ticket->purpose != TICKET_FILES && ticket->who->scope == SCOPE_READ)
        return err_set(err, ERR_DENIED, "this token may only read");
    STEP(provider_look(provider, ticket->who->user, args->box.data, &box, err));
    memcpy(ticket->box, box->id, sizeof ticket->box);
    trail_box(request, box);
    trail_box(request, NULL);
    provider_look_end(provider, box);
    return 0;
}

int native_ticket_for(struct http_request *request, struct box *, struct err *err) {
    struct ticket_args args = {0};
    struct ticket ticket = {.who = front_who(request)};
    STEP(front_body(request, &args, err));
    while (strcmp(ticket_purposes[ticket.purpose], args.purpose.data) != 0)
        ticket.purpose++;
    if (trail_of(request)->login_until_ms && ticket.purpose == TICKET_LOG_IN)
        return err_set(err, ERR_DENIED, "a login cannot make another one");
    auth_name(front_of(request)->auth, request, ticket.who, ticket.name);
    STEP(ticket_box(request, &args, &ticket, err) ?: ticket_put(native_state(request)->tickets, &ticket, err));
    http_reply_header(request, "Cache-Control", "no-store");
    const struct ticket_made_out out = {ticket.text, clock_wall_ms() + TICKET_LIFE_MS};
    return answer_rows(request, 201, ticket_made_answer, &out, err);
}

int native_login(struct http_request *request, struct box *, struct err *err) {
    struct ticket_args args = {0};
    struct ticket ticket;
    char text[160];
    STEP(front_body(request, &args, err));
    if (!ticket_take(native_state(request)->tickets, args.ticket.data, args.ticket.len, &ticket))
        return err_set(err, ERR_UNAUTHORIZED, "this ticket is unknown: it was used, or it has expired");
    int failed =
        ticket.purpose == TICKET_LOG_IN
            ? auth_admit_again(front_of(request)->auth, request, ticket.who, AUTH_READS, &trail_of(request)->who, err)
            : err_set(err, ERR_UNAUTHORIZED, "this ticket is not for a login; it is used up now");
    if (!failed) {
        const struct who *who = ticket.who;
        const struct login_out out = {text, scope_name(who->scope), who->user, clock_wall_ms() + TICKET_LOGIN_MS};
        ticket_login_text(native_state(request), ticket.name, out.until_ms, text);
        http_reply_header(request, "Cache-Control", "no-store");
        failed = answer_rows(request, 200, login_answer, &out, err);
        explicit_bzero(text, sizeof text);
    }
    auth_release(ticket.who);
    return failed;
}

/* ---- who asks ---- */

struct whoami_out {
    struct token token;
    const char *scope, *id;
    uint64_t expires_ms;
    bool open, login;
};
const struct row whoami_answer[] = {
    {ROW("scope", TEXT, whoami_out, scope), .choices = "admin|user|read|runner|worker", .text = "what you may do"},
    OUT_NULL("user", TEXT, whoami_out, token.user, "whose boxes you see; null: all"),
    OUT_NULL("token", TEXT, whoami_out, id, "id of your token; null: you need none here"),
    OUT_NULL("label", TEXT, whoami_out, token.label, "what the token is for"),
    OUT_NULL("expires_at", TIME, whoami_out, expires_ms, "of the token or login; null: never"),
    OUT("open", BOOL, whoami_out, open, "no token was needed"),
    OUT("login", BOOL, whoami_out, login, "you came by a ticket for a login"),
    ROW_NAMED("Whoami"),
};

int native_whoami(struct http_request *request, struct box *, struct err *err) {
    const struct who *who = front_who(request);
    uint64_t login_ms = trail_of(request)->login_until_ms;
    struct whoami_out out = {.scope = scope_name(who->scope),
                             .id = who->token[0] ? who->token : NULL,
                             .open = !who->token[0] && !login_ms,
                             .login = login_ms != 0};
    STEP(auth_describe(front_of(request)->auth, who, http_arena(request), &out.token, err));
    out.expires_ms =
        login_ms && (!out.token.expires_ms || login_ms < out.token.expires_ms) ? login_ms : out.token.expires_ms;
    http_reply_header(request, "Cache-Control", "no-store");
    return answer_rows(request, 200, whoami_answer, &out, err);
}
