/* Names to addresses (program.h): c-ares asks the host's resolvers, each box has a cache of its own, so that none learns
 * what its neighbours asked. Addresses that were handed out are pinned to their names. Invariant: an address leaves
 * here only after the policy has judged name and address together, now: a cached one is judged again. */
#include <ares.h>
#include <arpa/nameser.h>
#include <netdb.h>

#include "gate/dns.h"
#include "gate/program.h"

enum { RESOLVE_NAMES = 256, RESOLVE_TTL_MOST = 300, RESOLVE_FAILED_S = 1, RESOLVE_TRY_MS = 2000 };

struct named {
    struct named *next;
    char name[GATE_NAME_BYTES + 1];
    uint64_t until_ms;
    struct answer answer; /* not judged */
};

struct waiter {
    struct waiter *next;
    resolve_done done;
    void *user;
};

struct lookup {
    struct lookup *next;
    struct box *box; /* NULL: it is gone */
    char name[GATE_NAME_BYTES + 1];
    bool six; /* now asks for AAAA */
    struct waiter *waiters;
};

struct resolve_watch {
    struct resolve_watch *next;
    struct watch watch;
};

static ares_channel resolve_channel;
static struct timer resolve_timer;
static struct resolve_watch *resolve_watches;

/* ---- c-ares in the loop ---- */

static void resolve_due(struct timer *timer);

static void resolve_next(void) {
    struct timeval wait;
    if (ares_timeout(resolve_channel, NULL, &wait))
        timer_set(&resolve_timer, clock_ms() + (uint64_t)wait.tv_sec * 1000 + (uint64_t)wait.tv_usec / 1000 + 1,
                  resolve_due);
    else
        timer_stop(&resolve_timer);
}

static void resolve_due(struct timer *timer) {
    (void)timer;
    ares_process_fd(resolve_channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    resolve_next();
}

static void resolve_ready(struct watch *watch, uint32_t events) {
    bool in = events & (EPOLLIN | EPOLLERR | EPOLLHUP), out = events & EPOLLOUT;
    ares_process_fd(resolve_channel, in ? watch->fd : ARES_SOCKET_BAD, out ? watch->fd : ARES_SOCKET_BAD);
    resolve_next();
}

static void resolve_socket(void *data, ares_socket_t fd, int readable, int writable) {
    (void)data;
    uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
    struct resolve_watch *known = list_find(resolve_watches, item, item->watch.fd == fd);
    if (!known && events) {
        known = xcalloc(1, sizeof *known);
        list_push(resolve_watches, known);
        watch_add(&known->watch, fd, events, resolve_ready);
    } else if (known && events) {
        watch_set(&known->watch, events);
    } else if (known) { /* c-ares closes it */
        list_remove(resolve_watches, known);
        watch_end(&known->watch);
        known->watch.fd = -1;
        loop_free(known);
    }
}

void resolve_begin(const json_t *resolvers) {
    char lookups[] = "b";
    struct ares_options options = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
                                   .timeout = RESOLVE_TRY_MS,
                                   .tries = 2,
                                   .ednspsz = 1232,
                                   .lookups = lookups,
                                   .sock_state_cb = resolve_socket};
    autobuf servers = buf_max(4096);
    xensure(ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS);
    xensure(ares_init_options(&resolve_channel, &options,
                              ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                  ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ) == ARES_SUCCESS);
    for (size_t i = 0; i < json_array_size(resolvers); i++)
        buf_printf(&servers, "%s%s", servers.len ? "," : "", json_string_value(json_array_get(resolvers, i)));
    if (servers.len && buf_cstr(&servers))
        ares_set_servers_ports_csv(resolve_channel, (char *)servers.data);
}

/* ---- one name ---- */

static struct named *resolve_known(struct box *box, const char *name) {
    return list_find(box->names, item, strcmp(item->name, name) == 0);
}

/* What may be used of it now. */
static struct answer resolve_judged(struct box *box, const char *name, const struct answer *all) {
    struct answer judged = *all;
    struct gate_verdict verdict;
    judged.count = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct gate_subject subject = {.name = name, .address = &all->addresses[i]};
        box_judge(box, &subject, &verdict);
        if (verdict.allowed)
            judged.addresses[judged.count++] = all->addresses[i];
        else
            judged.refused = true;
    }
    if (judged.refused) {
        struct gate_row row = report_row(GATE_ROW_DNS, box);
        row.denied = true;
        snprintf(row.name, sizeof row.name, "%s", name);
        snprintf(row.why, sizeof row.why, "rebind");
        report(box, &row);
    }
    return judged;
}

static void resolve_finish(struct lookup *lookup, const struct answer *answer) {
    struct box *box = lookup->box;
    struct waiter *waiters = lookup->waiters;
    lookup->waiters = NULL;
    if (box) {
        list_remove(box->lookups, lookup);
        box->lookup_count--;
        struct named *known = resolve_known(box, lookup->name);
        if (!known) {
            if (box->name_count >= RESOLVE_NAMES) { /* the oldest goes */
                struct named **last = &box->names;
                while ((*last)->next)
                    last = &(*last)->next;
                free(*last);
                *last = NULL;
                box->name_count--;
            }
            known = xcalloc(1, sizeof *known);
            memcpy(known->name, lookup->name, sizeof known->name);
            list_push(box->names, known);
            box->name_count++;
        }
        unsigned ttl = answer->failed || answer->missing ? RESOLVE_FAILED_S
                       : answer->ttl > RESOLVE_TTL_MOST  ? RESOLVE_TTL_MOST
                                                         : answer->ttl;
        known->answer = *answer;
        known->answer.ttl = ttl ? ttl : 1;
        known->until_ms = loop_now_ms() + 1000 * (uint64_t)ttl; /* of no time at all: asked anew at each connect */
        struct answer judged = resolve_judged(box, lookup->name, &known->answer);
        while (waiters) {
            struct waiter *waiter = waiters;
            waiters = waiter->next;
            waiter->done(waiter->user, &judged);
            free(waiter);
        }
    }
    loop_free(lookup);
}

static void resolve_answer(void *user, int status, int timeouts, unsigned char *data, int len) {
    struct lookup *lookup = user;
    struct answer answer = {.ttl = RESOLVE_TTL_MOST};
    struct ares_addrttl four[RESOLVE_ADDRESSES];
    struct ares_addr6ttl six[RESOLVE_ADDRESSES];
    int count = RESOLVE_ADDRESSES;
    (void)timeouts;
    if (status == ARES_SUCCESS)
        status = lookup->six ? ares_parse_aaaa_reply(data, len, NULL, six, &count)
                             : ares_parse_a_reply(data, len, NULL, four, &count);
    bool empty = status == ARES_ENODATA || (status == ARES_SUCCESS && count == 0);
    if (empty && !lookup->six && lookup->box) {
        lookup->six = true;
        ares_query(resolve_channel, lookup->name, ns_c_in, ns_t_aaaa, resolve_answer, lookup);
        return;
    }
    for (int i = 0; status == ARES_SUCCESS && i < count; i++) {
        int ttl = lookup->six ? six[i].ttl : four[i].ttl;
        struct address *address = &answer.addresses[answer.count++];
        memset(address, 0, sizeof *address);
        if (lookup->six) {
            memcpy(address->bytes, &six[i].ip6addr, 16);
        } else {
            address->bytes[10] = address->bytes[11] = 0xff;
            memcpy(address->bytes + 12, &four[i].ipaddr, 4);
        }
        answer.ttl = (unsigned)(ttl < 0 ? 0 : ttl) < answer.ttl ? (unsigned)(ttl < 0 ? 0 : ttl) : answer.ttl;
    }
    answer.missing = status == ARES_ENOTFOUND;
    answer.failed = !answer.count && !answer.missing && !empty;
    resolve_finish(lookup, &answer);
}

static void resolve_wait(struct lookup *lookup, resolve_done done, void *user) {
    struct waiter *waiter = xcalloc(1, sizeof *waiter);
    waiter->done = done;
    waiter->user = user;
    list_push(lookup->waiters, waiter);
}

void resolve_name(struct box *box, const char *name, bool star, resolve_done done, void *user) {
    struct named *known = resolve_known(box, name);
    struct answer none = {.budget = true};
    if (known && known->until_ms > loop_now_ms()) {
        struct answer judged = resolve_judged(box, name, &known->answer);
        done(user, &judged);
        return;
    }
    struct lookup *lookup = list_find(box->lookups, item, strcmp(item->name, name) == 0);
    if (lookup) {
        resolve_wait(lookup, done, user);
        return;
    }
    if (box->lookup_count >= LIMIT_GATE_LOOKUPS ||
        (star && !known && !bucket_take(&box->new_names, 1, 1, LIMIT_GATE_NEW_NAMES))) {
        box->count.dns_budget++;
        done(user, &none);
        return;
    }
    lookup = xcalloc(1, sizeof *lookup);
    lookup->box = box;
    snprintf(lookup->name, sizeof lookup->name, "%s", name);
    list_push(box->lookups, lookup);
    box->lookup_count++;
    resolve_wait(lookup, done, user);
    ares_query(resolve_channel, name, ns_c_in, ns_t_a, resolve_answer, lookup);
    resolve_next();
}

void resolve_cancel(struct box *box, void *user) {
    for (struct lookup *lookup = box->lookups; lookup; lookup = lookup->next) {
        struct waiter **link = &lookup->waiters;
        while (*link) {
            struct waiter *waiter = *link;
            if (waiter->user != user) {
                link = &waiter->next;
                continue;
            }
            *link = waiter->next;
            free(waiter);
        }
    }
}

void resolve_box_end(struct box *box) {
    struct answer none = {.failed = true};
    while (box->lookups) {
        struct lookup *lookup = box->lookups;
        box->lookups = lookup->next;
        lookup->box = NULL;
        while (lookup->waiters) {
            struct waiter *waiter = lookup->waiters;
            lookup->waiters = waiter->next;
            waiter->done(waiter->user, &none);
            free(waiter);
        }
    }
    while (box->names) {
        struct named *named = box->names;
        box->names = named->next;
        free(named);
    }
    for (size_t i = 0; i < box->pin_count; i++)
        free(box->pins[i].name);
    free(box->pins);
}

/* ---- pins ---- */

void pin_add(struct box *box, const struct address *address, const char *name) {
    for (size_t i = 0; i < box->pin_count; i++)
        if (memcmp(&box->pins[i].address, address, sizeof *address) == 0 && strcmp(box->pins[i].name, name) == 0)
            return;
    size_t at = box->pin_count;
    if (box->pin_count < LIMIT_GATE_PINS) {
        vec_add(box->pins, box->pin_count, box->pin_room) = (struct pin){*address, NULL};
    } else {
        at = box->pin_next++ % LIMIT_GATE_PINS;
        free(box->pins[at].name);
    }
    box->pins[at] = (struct pin){*address, xstrdup(name)};
}

size_t pin_names(const struct box *box, const struct address *address, const char *ret_names[PIN_NAMES + 1]) {
    size_t found = 0;
    for (size_t i = box->pin_count; i-- > 0 && found < PIN_NAMES;)
        if (memcmp(&box->pins[i].address, address, sizeof *address) == 0)
            ret_names[found++] = box->pins[i].name;
    ret_names[found] = NULL;
    return found;
}

struct address pin_stand_in(struct box *box, const char *name) {
    struct address address = {{[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18}};
    for (size_t i = 0; i < box->pin_count; i++)
        if (box->pins[i].address.bytes[12] == 198 && (box->pins[i].address.bytes[13] & 0xfe) == 18 &&
            strcmp(box->pins[i].name, name) == 0)
            return box->pins[i].address;
    uint32_t number = ++box->stand_ins % 0x1fffe + 1;
    address.bytes[13] = (uint8_t)(18 + (number >> 16));
    address.bytes[14] = (uint8_t)(number >> 8);
    address.bytes[15] = (uint8_t)number;
    pin_add(box, &address, name);
    return address;
}

void pin_drop_forbidden(struct box *box) {
    size_t kept = 0;
    for (size_t i = 0; i < box->pin_count; i++) {
        struct gate_subject subject = {.name = box->pins[i].name};
        struct gate_verdict verdict;
        box_judge(box, &subject, &verdict);
        if (verdict.allowed || verdict.ask)
            box->pins[kept++] = box->pins[i];
        else
            free(box->pins[i].name);
    }
    box->pin_count = kept;
    box->pin_next = 0;
}
