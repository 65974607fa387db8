/* What cubby-gate reports of boxes with a policy: audit rows, what a command was refused, questions, and what a policy
 * would have to allow. Called by the gate's thread and by handlers. Invariant: `lock` is never held while the gate is
 * called. */

#include "base/base.h"
#include "base/sync.h"
#include "box/network_private.h"

/* ---- the gate's reports ---- */

static struct network_life **network_bucket(struct networks *network, const char *id) {
    return &network->lives[strtoul((char[]){id[0], id[1], 0}, NULL, 16) % NETWORK_BUCKETS];
}

static struct network_life *network_find_locked(struct networks *network, const char *id) {
    struct network_life *life = *network_bucket(network, id);
    while (life && (life->gone || strcmp(life->id, id) != 0))
        life = life->next;
    return life;
}

static const char *network_to(const struct gate_row *row, char *text, size_t size) {
    if (row->port && row->kind != GATE_ROW_DNS)
        snprintf(text, size, "%s:%u%s", *row->name ? row->name : row->address, row->port, row->udp ? "/udp" : "");
    else
        snprintf(text, size, "%s", *row->name ? row->name : row->address);
    return text;
}

static void network_deny_locked(struct network_life *life, const struct gate_row *row) {
    struct exec_denial denial = {.count = row->count ? row->count : 1};
    network_to(row, denial.to, sizeof denial.to);
    snprintf(denial.why, sizeof denial.why, "%.95s", row->why);
    struct network_denial *at = &life->denials[life->denial_count++ % NETWORK_DENIALS];
    *at = (struct network_denial){.number = ++life->network->number, .group = row->cgroup, .denial = denial};
}

static void network_seen_locked(struct network_life *life, const struct gate_row *row) {
    for (size_t i = 0; i < life->seen_count; i++)
        if (life->seen[i].port == row->port && life->seen[i].udp == row->udp &&
            strcmp(life->seen[i].name, row->name) == 0 && (*row->name || !strcmp(life->seen[i].address, row->address)))
            return;
    if (row->port == 0 || life->seen_count == NETWORK_SEEN)
        return;
    struct network_seen *seen = &vec_add(life->seen, life->seen_count, life->seen_size);
    *seen = (struct network_seen){.port = row->port, .udp = row->udp};
    memcpy(seen->name, row->name, sizeof seen->name);
    memcpy(seen->address, row->address, sizeof seen->address);
}

/* NULL: not known. Locked. */
static const struct network_command *network_command_of(const struct network_life *life, uint64_t group) {
    for (unsigned i = 1; group && i <= NETWORK_COMMANDS && i <= life->command_count; i++) {
        const struct network_command *at = &life->commands[(life->command_count - i) % NETWORK_COMMANDS];
        if (at->group == group)
            return at;
    }
    return NULL;
}

void network_command(struct box *box, uint64_t group, uint64_t pid, const char *command) {
    struct networks *network = atomic_load(&box->network);
    if (!network || !group)
        return;
    autolock(&network->lock);
    struct network_life *life = network_find_locked(network, box->id);
    if (!life)
        return;
    struct network_command *at = &life->commands[life->command_count++ % NETWORK_COMMANDS];
    *at = (struct network_command){.group = group, .pid = pid};
    snprintf(at->text, sizeof at->text, "%s", command);
    for (char *c = at->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    for (size_t len = strlen(at->text); len && !text_utf8(at->text, len);) /* cut within a letter */
        at->text[--len] = 0;
}

static void network_row_text(const struct gate_row *row, const struct network_command *command, struct buf *out) {
    static const char *const protocols[] = {"", " tls", " http"};
    char to[300];
    if (row->kind == GATE_ROW_HTTP)
        buf_printf(out, "%s %s %u", row->method, network_to(row, to, sizeof to), row->status);
    else if (row->kind == GATE_ROW_DNS)
        buf_printf(out, "%s %s", network_to(row, to, sizeof to), row->method);
    else
        buf_printf(out, "%s%s%s%s", network_to(row, to, sizeof to), protocols[row->protocol % 3],
                   *row->name && *row->address ? " " : "", *row->name ? row->address : "");
    if (row->kind == GATE_ROW_ASK)
        buf_printf(out, " question=%llu", (unsigned long long)row->question);
    if (*row->why)
        buf_printf(out, " by %s", row->why);
    if (row->observed)
        buf_puts(out, " observed");
    if (command)
        buf_printf(out, " exec=%llu%s%s", (unsigned long long)command->pid, *command->text ? " " : "", command->text);
}

void network_event(void *user, const struct gate_row *row) {
    static const char *const verbs[] = {"net_connect", "net_dns", "net_http", "net_cut", "net_ask", "net_lost"};
    struct networks *network = user;
    char owner[LIMIT_USER_BYTES + 1];
    autobuf detail = buf_max(1024);
    pthread_mutex_lock(&network->lock);
    struct network_life *life = network_find_locked(network, row->id);
    network_row_text(row, life ? network_command_of(life, row->cgroup) : NULL, &detail);
    if (life && row->denied && row->kind != GATE_ROW_ASK)
        network_deny_locked(life, row);
    if (life && row->kind == GATE_ROW_ASK) {
        unsigned at = life->question_count++ % NETWORK_QUESTIONS;
        life->questions[at].number = row->question;
        network_to(row, life->questions[at].to, sizeof life->questions[at].to);
    }
    if (life && (row->kind == GATE_ROW_CONNECT || row->kind == GATE_ROW_HTTP))
        network_seen_locked(life, row);
    snprintf(owner, sizeof owner, "%s", life ? life->user : "");
    pthread_mutex_unlock(&network->lock);
    struct provider *provider = network->provider;
    if (!life || !provider->event || row->kind >= sizeof verbs / sizeof *verbs)
        return;
    provider->event(provider->event_user, &(struct box_event){.verb = verbs[row->kind],
                                                              .id = row->id,
                                                              .user = owner,
                                                              .detail = buf_cstr(&detail),
                                                              .alike = true,
                                                              .denied = row->denied,
                                                              .bytes_in = row->bytes_in,
                                                              .bytes_out = row->bytes_out,
                                                              .duration_us = row->duration_us,
                                                              .count = row->count});
}

void network_question(struct networks *network, const char *id, uint64_t question, char ret_to[NETWORK_TO_BYTES]) {
    autolock(&network->lock);
    const struct network_life *life = network_find_locked(network, id);
    *ret_to = 0;
    for (size_t i = 0; life && i < NETWORK_QUESTIONS; i++)
        if (life->questions[i].number == question)
            memcpy(ret_to, life->questions[i].to, NETWORK_TO_BYTES);
}

/* ---- lives ---- */

/* A life is found from the first report on. Earlier ones of the same box that were not let go yet count for nothing. */
struct network_life *network_life(struct networks *network, const struct box *box) {
    struct network_life *life = xcalloc(1, sizeof *life);
    life->network = network;
    life->user = xstrdup(box->user);
    memcpy(life->id, box->id, sizeof life->id);
    autolock(&network->lock);
    struct network_life *other = network_find_locked(network, box->id), **at = network_bucket(network, box->id);
    if (other)
        other->gone = true;
    life->next = *at;
    *at = life;
    return life;
}

/* true: it was the present one. */
bool network_life_end(struct network_life *life) {
    struct networks *network = life->network;
    pthread_mutex_lock(&network->lock);
    struct network_life **at = network_bucket(network, life->id);
    while (*at != life)
        at = &(*at)->next;
    *at = life->next;
    pthread_mutex_unlock(&network->lock);
    bool present = !life->gone;
    free(life->user);
    free(life->seen);
    free(life);
    return present;
}

/* ---- looking ---- */

int network_learned(struct provider *provider, struct box *box, struct arena *arena, const char **ret_policy,
                    struct err *err) {
    struct networks *network = provider->network;
    struct gate_count ignored;
    autobuf out = buf_max(GATE_POLICY_BYTES);
    struct json json;
    struct gate *gate = network_gate_of(network, box);
    if (!gate || !gate_counts(gate, box->id, &ignored))
        return err_set(err, ERR_INVALID, "box %s has no network policy that is enforced now", box->id);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_open(&json, "allow", '[');
    autolock(&network->lock);
    const struct network_life *life = network_find_locked(network, box->id);
    for (size_t i = 0; life && i < life->seen_count; i++) {
        const struct network_seen *seen = &life->seen[i];
        bool web = *seen->name && !seen->udp && (seen->port == 80 || seen->port == 443), before = false;
        for (size_t j = 0; web && j < i && !before; j++)
            before = strcmp(life->seen[j].name, seen->name) == 0 && !life->seen[j].udp &&
                     (life->seen[j].port == 80 || life->seen[j].port == 443);
        bool six = !*seen->name && strchr(seen->address, ':');
        if (web && !before)
            json_str(&json, seen->name);
        else if (!web)
            json_str(&json, text_make(330, "%s%s%s:%u%s", six ? "[" : "", *seen->name ? seen->name : seen->address,
                                      six ? "]" : "", seen->port, seen->udp ? "/udp" : ""));
    }
    json_close(&json, ']');
    json_close(&json, '}');
    *ret_policy = arena_copy(arena, out.data, out.len);
    return 0;
}

/* ---- what a command was refused ---- */

struct network_mark network_mark(struct box *box) {
    struct networks *network = atomic_load(&box->network);
    if (!network)
        return (struct network_mark){0};
    uint64_t refusals = gate_refusals(network_gate_of(network, box), box->id);
    autolock(&network->lock);
    return (struct network_mark){network->number, refusals};
}

static void network_denied_add(struct exec_denial *denials, size_t *count, size_t most, const struct exec_denial *one) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(denials[i].to, one->to) == 0 && strcmp(denials[i].why, one->why) == 0) {
            denials[i].count += one->count;
            return;
        }
    if (*count < most)
        denials[(*count)++] = *one;
}

void network_refused(struct provider *provider, const char *id, uint64_t group, const char *to, const char *why) {
    struct networks *network = provider->network;
    autolock(&network->lock);
    struct network_life *life = network_find_locked(network, id);
    if (!life)
        return;
    struct network_denial *at = &life->denials[life->denial_count++ % NETWORK_DENIALS];
    *at = (struct network_denial){.number = ++network->number, .group = group, .denial.count = 1};
    snprintf(at->denial.to, sizeof at->denial.to, "%.271s", to);
    snprintf(at->denial.why, sizeof at->denial.why, "%.95s", why);
}

void network_sealed(struct provider *provider, const char *id, uint64_t bytes_in, uint64_t bytes_out) {
    struct networks *network = provider->network;
    autolock(&network->lock);
    struct network_life *life = network_find_locked(network, id);
    if (!life)
        return;
    life->sealed_in += bytes_in;
    life->sealed_out += bytes_out;
}

void network_sealed_bytes(struct networks *network, const char *id, uint64_t *ret_in, uint64_t *ret_out) {
    autolock(&network->lock);
    const struct network_life *life = network_find_locked(network, id);
    *ret_in = life ? life->sealed_in : 0;
    *ret_out = life ? life->sealed_out : 0;
}

size_t network_denied(struct box *box, const struct network_mark *mark, uint64_t group, struct exec_denial *denials,
                      size_t most) {
    struct networks *network = atomic_load(&box->network);
    struct gate_count ignored;
    size_t count = 0;
    if (!network)
        return 0;
    struct gate *gate = network_gate_of(network, box);
    if (gate_refusals(gate, box->id) != mark->refusals)
        gate_counts(gate, box->id, &ignored); /* every report of what happened before has come */
    autolock(&network->lock);
    const struct network_life *life = network_find_locked(network, box->id);
    unsigned from = life && life->denial_count > NETWORK_DENIALS ? life->denial_count - NETWORK_DENIALS : 0;
    for (unsigned i = from; life && i < life->denial_count; i++) {
        const struct network_denial *at = &life->denials[i % NETWORK_DENIALS];
        if (at->number > mark->number && (!group || !at->group || at->group == group))
            network_denied_add(denials, &count, most, &at->denial);
    }
    return count;
}
