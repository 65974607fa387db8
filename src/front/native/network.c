/* The network of a box over HTTP: look, replace, change, test, what it learned, answers to questions. Called through
 * native_routes. Invariant: a change is in effect before it is answered. */
#include "box/network.h"

#include <jansson.h>

#include "box/secret/seal.h"
#include "front/native/native.h"
#include "gate/gate_policy.h"

struct network_args {
    struct row_text network, mode, allow, deny, limits, log, existing, to, verdict;
    struct row_number ask_timeout_ms, question, for_ms;
    bool remember;
};
#define NET(member, kind) ROW(#member, kind, network_args, member)

const struct row network_query[] = {
    {NET(existing, TEXT), .choices = "cut|keep",
     .text = "connections that the new policy forbids: cut (default), or kept open until they end"},
    END,
};
const struct row network_fields[] = {
    {NET(network, TEXT_OR_OBJECT), .flags = ROW_AUDITED, .max = GATE_POLICY_BYTES, .choices = "none|open",
     .text = "none, open, or the policy as one object; or its members as below"},
    {NET(mode, TEXT), .choices = "enforce|observe|ask",
     .text = "enforce (default): refuse; observe: allow and record; ask: hold until a question is answered"},
    {NET(allow, TEXT_OR_OBJECT), .flags = ROW_AUDITED, .max = GATE_POLICY_BYTES,
     .text =
         "what it may reach: NAME[:PORTS], *.NAME, NETWORK:PORTS, host:PORT, or {host, ports, methods, paths, headers, "
         "...}; headers: {NAME: VALUE} that requests get, ${secrets.NAME} in a value stands for a secret"},
    {NET(deny, TEXT_OR_OBJECT), .flags = ROW_AUDITED, .max = GATE_POLICY_BYTES,
     .text = "what it may not, whatever is allowed; in the same form"},
    {NET(limits, TEXT_OR_OBJECT), .max = 1024, .text = "mbit, connections, per_second, bytes"},
    {NET(log, TEXT), .choices = "all|denied|none", .text = "what the audit log has of it; default: all"},
    {NET(ask_timeout_ms, INT), .min = 1, .max = 3600000, .text = "how long a question is held; then it is refused"},
    END,
};
const struct row network_patch_fields[] = {
    {NET(allow, TEXT_OR_OBJECT), .flags = ROW_AUDITED, .max = GATE_POLICY_BYTES,
     .text = "{\"add\": [...], \"remove\": [...]}: entries as they are shown"},
    {NET(deny, TEXT_OR_OBJECT), .flags = ROW_AUDITED, .max = GATE_POLICY_BYTES, .text = "the same"},
    END,
};
const struct row network_test_query[] = {
    {NET(to, TEXT), .flags = ROW_REQUIRED, .min = 1, .max = 2048, .text = "HOST[:PORT][/udp], or a URL"}, END};
const struct row network_answer_fields[] = {
    {NET(question, INT), .flags = ROW_REQUIRED, .min = 1, .max = INT64_MAX, .text = "of the event network_ask"},
    {NET(verdict, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .choices = "allow|deny", .text = "what becomes of it"},
    {NET(remember, BOOL), .text = "the policy is changed to say the same from now on"},
    {NET(for_ms, INT), .max = 86400000, .text = "connections alike stay allowed for so long"},
    END,
};

struct network_out {
    const char *network;
    uint64_t generation, connections, active, denied, cut, dns_denied, bytes_in, bytes_out;
    const char *const *warnings;
    bool live;
};
const struct row network_answer[] = {
    {ROW("network", TEXT_OR_OBJECT, network_out, network), .choices = "none|open", .text = "as of now"},
    OUT_INT("generation", network_out, generation, "how often it was changed; for If-Match"),
    OUT("warnings", TEXTS, network_out, warnings, "what is allowed and doubtful"),
    OUT("live", BOOL, network_out, live, "it is enforced now; the counts are since the box started"),
    OUT_INT("active", network_out, active, "connections that are open"),
    OUT_INT("connections", network_out, connections, "that were made"),
    OUT_INT("denied", network_out, denied, "that were refused"),
    OUT_INT("names_denied", network_out, dns_denied, "names that were not resolved"),
    OUT_INT("cut", network_out, cut, "connections that a change or a limit ended; of a change: by it"),
    OUT_INT("bytes_in", network_out, bytes_in, "to the box"),
    OUT_INT("bytes_out", network_out, bytes_out, "from the box"),
    ROW_NAMED("Network"),
};
struct network_test_out {
    bool allowed, ask, inspect;
    const char *why;
};
const struct row network_test_answer[] = {
    OUT("allowed", BOOL, network_test_out, allowed, "whether a connection would be made"),
    OUT("ask", BOOL, network_test_out, ask, "it would be held for an answer"),
    OUT("inspect", BOOL, network_test_out, inspect, "its TLS would be opened"),
    OUT("why", TEXT, network_test_out, why, "the entry that decides, default, never or private"),
    ROW_NAMED("NetworkTest"),
};
const struct row network_learned_answer[] = {
    SHOW("network", TEXT_OR_OBJECT, "the smallest policy that allows what happened"), ROW_NAMED("NetworkLearned")};

struct network_authority_out {
    const char *certificate;
};
const struct row network_authority_answer[] = {OUT("certificate", TEXT, network_authority_out, certificate, "PEM"),
                                               ROW_NAMED("NetworkAuthority")};

static const char *const *network_lines(struct arena *arena, const char *text) {
    const char **lines = NULL;
    size_t count = 0, cap = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        arena_add(arena, lines, count, cap) = arena_copy(arena, text, strcspn(text, "\n"));
    arena_add(arena, lines, count, cap) = NULL;
    return lines;
}

static int network_answered(struct http_request *request, struct box *box, const unsigned *cut, struct err *err) {
    struct network_state state;
    STEP(network_get(front_of(request)->provider, box, http_arena(request), &state, err));
    const struct network_out out = {.network = state.network,
                                    .generation = state.generation,
                                    .warnings = network_lines(http_arena(request), state.warnings),
                                    .live = state.live,
                                    .active = state.active,
                                    .connections = state.connections,
                                    .denied = state.denied,
                                    .dns_denied = state.dns_denied,
                                    .cut = cut ? *cut : state.cut,
                                    .bytes_in = state.bytes_in,
                                    .bytes_out = state.bytes_out};
    return answer_rows(request, 200, network_answer, &out, err);
}

int native_network(struct http_request *request, struct box *box, struct err *err) {
    return network_answered(request, box, NULL, err);
}

static int network_change(struct http_request *request, struct box *box, struct network_change *change,
                          struct err *err) {
    const char *match = http_header(request, "if-match");
    struct network_args args = {0};
    unsigned cut = 0;
    STEP(front_query(request, &args, err));
    change->keep = args.existing.data && strcmp(args.existing.data, "keep") == 0;
    if (match) {
        size_t quoted = match[0] == '"';
        const char *number = arena_copy(http_arena(request), match + quoted, strcspn(match + quoted, "\""));
        if (!text_u64(number, UINT64_MAX / 2, &change->generation))
            return err_set(err, ERR_INVALID, "If-Match must be the generation of the network, such as \"3\"");
        change->has_generation = true;
    }
    STEP(network_set(front_of(request)->provider, front_who(request)->user, box->id, change, &cut, err));
    struct box *now = NULL; /* the box may have ended and started again */
    STEP(provider_look(front_of(request)->provider, front_who(request)->user, box->id, &now, err));
    int failed = network_answered(request, now, &cut, err);
    provider_look_end(front_of(request)->provider, now);
    return failed;
}

/* Writes the members of a policy as one object. */
static const char *network_joined(struct http_request *request, const struct network_args *args) {
    const struct {
        const char *name;
        const struct row_text *text;
        bool raw;
    } members[] = {{"mode", &args->mode, false},
                   {"allow", &args->allow, true},
                   {"deny", &args->deny, true},
                   {"limits", &args->limits, true},
                   {"log", &args->log, false}};
    autobuf text = buf_max(LIMIT_JSON_BYTES);
    struct json json;
    json_init(&json, &text);
    json_open(&json, '{');
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct row_text *one = members[i].text;
        if (one->data && members[i].raw)
            json_put_raw(&json, members[i].name, one->data, one->len);
        else if (one->data)
            json_put_str(&json, members[i].name, one->data);
    }
    if (args->ask_timeout_ms.has)
        json_put_uint(&json, "ask_timeout_ms", args->ask_timeout_ms.value);
    json_close(&json, '}');
    return arena_copy(http_arena(request), text.data, text.len);
}

int native_network_set(struct http_request *request, struct box *box, struct err *err) {
    struct network_args args = {0};
    STEP(front_body(request, &args, err));
    const char *own = network_joined(request, &args);
    if (args.network.data && strcmp(own, "{}") != 0)
        return err_set(err, ERR_INVALID, "give the network, or the members of a policy, not both");
    return network_change(request, box,
                          &(struct network_change){.network = args.network.data ? args.network.data : own}, err);
}

/* Reads {"add": [...], "remove": [...]} as lists of texts. */
static int network_edits(struct http_request *request, const char *name, const struct row_text *text,
                         const char *const **ret_add, const char *const **ret_remove, struct err *err) {
    json_auto_t *root = text->data ? json_loads(text->data, 0, NULL) : NULL;
    const char *key;
    json_t *list, *entry;
    size_t i;
    if (text->data && !json_is_object(root))
        return err_set(err, ERR_INVALID, "'%s' must be {\"add\": [...], \"remove\": [...]}", name);
    json_object_foreach(root, key, list) {
        const char **lines = NULL;
        size_t count = 0, cap = 0;
        bool add = strcmp(key, "add") == 0;
        if ((!add && strcmp(key, "remove") != 0) || !json_is_array(list))
            return err_set(err, ERR_INVALID, "'%s' must be {\"add\": [...], \"remove\": [...]}", name);
        json_array_foreach(list, i, entry) {
            char *written = json_is_string(entry) ? NULL : json_dumps(entry, JSON_COMPACT | JSON_ENCODE_ANY);
            const char *value = written ? written : json_string_value(entry);
            arena_add(http_arena(request), lines, count, cap) = arena_strdup(http_arena(request), value ? value : "");
            free(written);
        }
        arena_add(http_arena(request), lines, count, cap) = NULL;
        *(add ? ret_add : ret_remove) = lines;
    }
    return 0;
}

int native_network_patch(struct http_request *request, struct box *box, struct err *err) {
    struct network_args args = {0};
    struct network_change change = {0};
    STEP(front_body(request, &args, err)
                     ?: network_edits(request, "allow", &args.allow, &change.allow, &change.remove, err)
                     ?: network_edits(request, "deny", &args.deny, &change.deny, &change.undeny, err));
    return network_change(request, box, &change, err);
}

int native_network_remove(struct http_request *request, struct box *box, struct err *err) {
    return network_change(request, box, &(struct network_change){.network = "none"}, err);
}

int native_network_authority(struct http_request *request, struct box *, struct err *err) {
    struct secrets *secrets = front_of(request)->secrets;
    autobuf text = buf_max(16384);
    if (!secrets)
        return err_set(err, ERR_UNSUPPORTED, "this daemon opens no TLS");
    STEP(authority_text(secrets_state_dir(secrets), &text, err));
    const struct network_authority_out out = {.certificate = buf_cstr(&text)};
    return answer_rows(request, 200, network_authority_answer, &out, err);
}

int native_network_test(struct http_request *request, struct box *box, struct err *err) {
    struct network_args args = {0};
    struct gate_verdict verdict;
    STEP(front_query(request, &args, err)
             ?: network_test(front_of(request)->provider, box, args.to.data, &verdict, err));
    const struct network_test_out out = {.allowed = verdict.allowed && !verdict.observed,
                                         .ask = verdict.ask,
                                         .inspect = verdict.inspect,
                                         .why = verdict.why};
    return answer_rows(request, 200, network_test_answer, &out, err);
}

int native_network_learned(struct http_request *request, struct box *box, struct err *err) {
    const char *policy;
    STEP(network_learned(front_of(request)->provider, box, http_arena(request), &policy, err));
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_raw(&answer.json, "network", policy, strlen(policy));
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_network_answer(struct http_request *request, struct box *box, struct err *err) {
    struct network_args args = {0};
    STEP(front_body(request, &args, err));
    return network_answer_to(front_of(request)->provider, box, args.question.value,
                             strcmp(args.verdict.data, "allow") == 0, args.remember, args.for_ms.value, err)
               ?: front_empty(request, 204);
}
