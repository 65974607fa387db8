/* Events of boxes and their listeners. Filled by the daemon's event hook, read by native/events.c on the threads of
 * the requests. Rules:
 *
 * 1. events->lock guards everything; nothing blocks while it is held. Events come with the provider's lock held, so
 *    this file never calls the provider.
 * 2. The ring is bounded by number and by bytes. Usually the oldest event is dropped; if one user has more than an
 *    eighth of all, the oldest of the user with the most, so that one user cannot push out everyone else's events. A
 *    reader only keeps the number of the last event it was sent: a slow or absent reader costs nothing and learns how
 *    many events it has missed.
 * 3. An id is EPOCH-NUMBER. The epoch belongs to this daemon, so that ids of an earlier daemon are recognized. */
#include "front/events.h"

#include <inttypes.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/json.h"
#include "base/sync.h"

enum { TAKE_BYTES = 64 << 10, ITEM_BYTES = 256 << 10, TYPE_BYTES = 16, BUCKETS = 256 };

struct events_item {
    uint64_t number;
    size_t size;
    unsigned bucket; /* hash of its user */
    char type[TYPE_BYTES], id[17], user[LIMIT_USER_BYTES + 1];
    size_t len;
    char json[];
};

struct events_reader {
    struct events *events;
    struct events_reader *next;
    int fd;
    char owner[LIMIT_USER_BYTES + 1]; /* "": any user */
};

struct events {
    pthread_mutex_t lock;
    char epoch[13];
    uint64_t last;                               /* number of the newest */
    struct events_item *held[LIMIT_EVENTS_HELD]; /* by number */
    size_t count, bytes;
    size_t counts[BUCKETS], sizes[BUCKETS]; /* events of users with this hash, and their bytes */
    struct events_reader *readers;
};

struct events *events_new(void) {
    struct events *events = xcalloc(1, sizeof *events);
    uint8_t random[6];
    xrandom(random, sizeof random);
    pthread_mutex_init(&events->lock, NULL);
    text_hex(events->epoch, random, sizeof random);
    return events;
}

void events_free(struct events *events) {
    if (!events)
        return;
    for (size_t i = 0; i < events->count; i++)
        free(events->held[i]);
    pthread_mutex_destroy(&events->lock);
    free(events);
}

/* ---- adding ---- */

static const char *const event_types[] = {"created", "ready",    "warm",    "paused",     "resumed", "evicted",
                                          "died",    "exported", "deleted", "adopted",    "cleaned", "joined",
                                          "left",    "progress", "network", "network_ask"};

bool events_type(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof event_types / sizeof *event_types; i++)
        if (strlen(event_types[i]) == len && memcmp(event_types[i], name, len) == 0)
            return true;
    return false;
}

/* Drops the oldest event of the user with the most of the scarce resource, or the oldest of all if no user has much. */
static void events_drop_locked(struct events *events) {
    bool full = events->count == LIMIT_EVENTS_HELD;
    const size_t *shares = full ? events->counts : events->sizes;
    size_t most = 0, at = 0;
    for (size_t i = 1; i < BUCKETS; i++)
        most = shares[i] > shares[most] ? i : most;
    if (shares[most] > (full ? events->count : events->bytes) / 8)
        while (events->held[at]->bucket != most)
            at++;
    struct events_item *item = events->held[at];
    events->bytes -= item->size;
    events->counts[item->bucket]--;
    events->sizes[item->bucket] -= item->size;
    events->count--;
    memmove(&events->held[at], &events->held[at + 1], (events->count - at) * sizeof *events->held);
    free(item);
}

/* Returns the index in `held` of the first event after this number, or the count. */
static size_t events_after_locked(const struct events *events, uint64_t number) {
    size_t low = 0, high = events->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (events->held[middle]->number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void events_put(struct events *events, const struct box_event *event) {
    const char *type = strchr(event->verb, '_'); /* of box_created, machine_joined */
    type = type ? type + 1 : "";
    bool network = strncmp(event->verb, "net_", 4) == 0; /* one type for all but network_ask; `what` says more */
    if (network)
        type = strcmp(type, "ask") == 0 ? "network_ask" : "network";
    if (!events_type(type, strlen(type)))
        return;
    autobuf text = buf_max(ITEM_BYTES);
    struct json json;
    json_init(&json, &text);
    /* The members after the id, which is known only under the lock. */
    json_put_str(&json, "type", type);
    json_put_time(&json, "time", clock_wall_ms());
    json_put_str(&json, "box", event->id);
    json_put_str(&json, "user", event->user);
    json_put_str(&json, "thread", event->thread);
    json_put_str(&json, "backend", event->backend);
    json_put_str(&json, "machine", event->machine);
    json_put_str(&json, "why", event->detail);
    if (network) {
        json_put_str(&json, "what", event->verb);
        json_put_bool(&json, "denied", event->denied);
    }
    if (event->work) {
        json_put_str(&json, "work", event->work);
        json_put_uint(&json, "done", event->done);
        json_put_uint(&json, "total", event->total);
    }
    json_close(&json, '}');
    size_t size = sizeof(struct events_item) + text.len;
    struct events_item *item = xcalloc(1, size);
    item->size = size;
    item->len = text.len;
    memcpy(item->json, text.data, text.len);
    snprintf(item->type, sizeof item->type, "%s", type);
    snprintf(item->id, sizeof item->id, "%s", event->id ? event->id : "");
    snprintf(item->user, sizeof item->user, "%s", event->user ? event->user : "");
    unsigned hash = 2166136261u;
    for (const char *at = item->user; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    item->bucket = hash % BUCKETS;
    autolock(&events->lock);
    item->number = ++events->last;
    while (events->count && (events->count == LIMIT_EVENTS_HELD || events->bytes + size > LIMIT_EVENTS_BYTES))
        events_drop_locked(events);
    events->held[events->count++] = item;
    events->counts[item->bucket]++;
    events->sizes[item->bucket] += size;
    events->bytes += size;
    for (struct events_reader *reader = events->readers; reader; reader = reader->next)
        eventfd_write(reader->fd, 1); /* never blocks: a pending event is enough */
}

/* ---- ids ---- */

void events_id(struct events *events, uint64_t number, struct buf *out) {
    buf_printf(out, "%s-%" PRIu64, events->epoch, number);
}

int events_find(struct events *events, const char *id, struct events_place *ret_place, struct err *err) {
    uint64_t number = 0;
    size_t epoch = id ? strspn(id, "0123456789abcdef") : 0;
    bool well = id && epoch == sizeof events->epoch - 1 && id[epoch] == '-' &&
                text_u64(id + epoch + 1, UINT64_MAX / 2, &number);
    if (id && !well && strcmp(id, "0") != 0)
        return err_set(err, ERR_INVALID, "'%.60s' is not an event id; use 0 for all events that are held", id);
    autolock(&events->lock);
    bool ours = well && memcmp(id, events->epoch, epoch) == 0 && number <= events->last;
    uint64_t before = events->count ? events->held[0]->number - 1 : events->last;
    *ret_place = (struct events_place){.number = !id ? events->last : ours ? number : before, .unknown = well && !ours};
    if (!ours) /* earlier drops do not count as missing */
        ret_place->reported = events->last;
    return 0;
}

/* ---- listening ---- */

int events_listen(struct events *events, const char *owner, struct events_reader **ret_reader, struct err *err) {
    struct events_reader *reader = xcalloc(1, sizeof *reader);
    reader->events = events;
    snprintf(reader->owner, sizeof reader->owner, "%s", owner ? owner : "");
    reader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    unsigned all = 0, own = 0;
    int result = reader->fd < 0 ? err_set(err, ERR_BUSY,
                                          "the daemon has no free file descriptor for an event stream; try again later")
                                : 0;
    pthread_mutex_lock(&events->lock);
    for (const struct events_reader *other = events->readers; other; other = other->next) {
        all++;
        own += owner && strcmp(other->owner, owner) == 0;
    }
    if (result == 0 && own >= LIMIT_EVENT_STREAMS_PER_USER)
        result = err_set(err, ERR_LIMIT, "user '%s' has %u event streams open, which is the limit", owner, own);
    else if (result == 0 && all >= LIMIT_EVENT_STREAMS)
        result = err_set(err, ERR_LIMIT, "%u event streams are open, which is the limit", all);
    if (result == 0) {
        reader->next = events->readers;
        events->readers = reader;
    }
    pthread_mutex_unlock(&events->lock);
    if (result == 0) {
        *ret_reader = reader;
        return 0;
    }
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader);
    return result;
}

void events_leave(struct events_reader *reader) {
    if (!reader)
        return;
    pthread_mutex_lock(&reader->events->lock);
    struct events_reader **link = &reader->events->readers;
    while (*link != reader)
        link = &(*link)->next;
    *link = reader->next;
    pthread_mutex_unlock(&reader->events->lock);
    close(reader->fd); /* it is no longer in the list, so nothing writes to it */
    free(reader);
}

int events_fd(const struct events_reader *reader) {
    return reader->fd;
}

/* Whether a list, separated by commas, has the word; NULL has all. */
static bool events_listed(const char *list, const char *word) {
    size_t len = strlen(word);
    while (list && *list && !(strcspn(list, ",") == len && memcmp(list, word, len) == 0))
        list += strcspn(list, ","), list += *list == ',';
    return !list || *list;
}

static bool events_filter_fits(const struct events_filter *filter, const struct events_item *item) {
    return (!filter->owner || strcmp(filter->owner, item->user) == 0) &&
           (!filter->user || strcmp(filter->user, item->user) == 0) && events_listed(filter->boxes, item->id) &&
           events_listed(filter->types, item->type);
}

/* Reports events that were dropped before they could be sent. */
static void events_put_lost_locked(struct events *events, struct events_place *place, struct buf *out) {
    uint64_t from = place->number > place->reported ? place->number : place->reported;
    uint64_t lost = events->last - from - (events->count - events_after_locked(events, from));
    place->reported = events->last;
    if (!place->unknown && lost == 0)
        return;
    size_t next = events_after_locked(events, place->number);
    place->number = next < events->count ? events->held[next]->number - 1 : events->last;
    buf_puts(out, "id: ");
    events_id(events, place->number, out);
    buf_puts(out, "\nevent: lost\ndata: {\"type\":\"lost\",\"count\":");
    if (place->unknown)
        buf_puts(out, "null");
    else
        buf_printf(out, "%" PRIu64, lost);
    buf_puts(out, "}\n\n");
    place->unknown = false;
}

void events_take(struct events_reader *reader, const struct events_filter *filter, struct events_place *place,
                 struct buf *out) {
    struct events *events = reader->events;
    eventfd_t ignored;
    eventfd_read(reader->fd, &ignored); /* before the events are read, so that a later one sets it again */
    pthread_mutex_lock(&events->lock);
    events_put_lost_locked(events, place, out);
    size_t at = events_after_locked(events, place->number);
    for (; at < events->count && out->len < TAKE_BYTES; at++) {
        const struct events_item *item = events->held[at];
        place->number = item->number;
        if (!events_filter_fits(filter, item))
            continue;
        buf_puts(out, "id: ");
        events_id(events, item->number, out);
        buf_printf(out, "\nevent: %s\ndata: {\"id\":\"", item->type);
        events_id(events, item->number, out);
        buf_puts(out, "\",");
        buf_put(out, item->json, item->len);
        buf_puts(out, "\n\n");
    }
    bool more = at < events->count;
    pthread_mutex_unlock(&events->lock);
    if (more)
        eventfd_write(reader->fd, 1);
}
