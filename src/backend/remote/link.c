/* Records of one session with a machine: numbering, keeping, resending (link.h). Driven by backend/remote/pump.c on
 * both ends. Invariant: a record leaves the list of those kept only when the other end said that it has it, in an ACK
 * or when it came back; and nothing that came in is believed before its bounds are checked. */
#include "backend/remote/link.h"

#include <assert.h>

#include "base/base.h"
#include "wire/proto.h"

/* ACKs go out by themselves after so much; less is left to link_idle. */
enum { ACK_RECORDS = 256, ACK_BYTES = 512 << 10 };

struct link_kept {
    struct link_kept *next;
    size_t len;
    uint8_t data[]; /* the message: head and bytes */
};

enum offer { OFFER_NONE, OFFER_ACK, OFFER_RECORD };

struct link {
    struct link_kept *first, **last; /* kept, in order; the first has the number acked + 1 */
    struct link_kept *next;          /* the first of them that this connection was not given; NULL: it has all */
    uint64_t acked, sent;            /* of ours: the other end has, this connection was given */
    uint64_t most_sent;              /* the same over all connections */
    size_t held_bytes, unsent_bytes;
    uint64_t received, confirmed; /* of theirs: arrived, and acknowledged */
    size_t owed_bytes;
    bool ack_due;
    enum offer offer; /* what link_out showed last */
    uint8_t ack[LINK_HEAD_BYTES + 8];
    struct link_kept *reserved;
    size_t reserved_bytes;
};

struct link *link_new(void) {
    struct link *link = xcalloc(1, sizeof *link);
    link->last = &link->first;
    return link;
}

/* The memory of a kept record: without its overhead a flood of small ones would count for nothing. */
static size_t link_record_cost(const struct link_kept *record) {
    return sizeof *record + record->len;
}

static void link_drop_first(struct link *link) {
    struct link_kept *record = link->first;
    link->first = record->next;
    if (!link->first)
        link->last = &link->first;
    link->held_bytes -= link_record_cost(record);
    link->acked++;
    free(record);
}

void link_free(struct link *link) {
    if (!link)
        return;
    while (link->first)
        link_drop_first(link);
    free(link->reserved);
    free(link);
}

/* ---- out ---- */

static void link_put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void link_put_head(uint8_t *at, enum link_kind kind, uint32_t channel) {
    at[0] = (uint8_t)kind;
    at[1] = at[2] = at[3] = 0;
    link_put_u32(at + 4, channel);
}

uint8_t *link_reserve(struct link *link, size_t max) {
    if (link->reserved && link->reserved_bytes >= max)
        return link->reserved->data + LINK_HEAD_BYTES;
    free(link->reserved);
    link->reserved = xmalloc(sizeof *link->reserved + LINK_HEAD_BYTES + max);
    link->reserved_bytes = max;
    return link->reserved->data + LINK_HEAD_BYTES;
}

void link_commit(struct link *link, enum link_kind kind, uint32_t channel, size_t len) {
    assert(kind != LINK_ACK && channel != 0 && link->reserved && len <= link->reserved_bytes);
    struct link_kept *record = link->reserved;
    link->reserved = NULL;
    if (len < link->reserved_bytes / 2) /* kept until it is acknowledged: not with room for another one */
        record = xrealloc(record, sizeof *record + LINK_HEAD_BYTES + len);
    record->len = LINK_HEAD_BYTES + len;
    record->next = NULL;
    link_put_head(record->data, kind, channel);
    *link->last = record;
    link->last = &record->next;
    link->next = link->next ? link->next : record;
    link->held_bytes += link_record_cost(record);
    link->unsent_bytes += link_record_cost(record);
}

void link_release(struct link *link) {
    free(link->reserved);
    link->reserved = NULL;
}

void link_put(struct link *link, enum link_kind kind, uint32_t channel, const void *data, size_t len) {
    link_release(link);
    uint8_t *at = link_reserve(link, len);
    if (len)
        memcpy(at, data, len);
    link_commit(link, kind, channel, len);
}

void link_put_window(struct link *link, uint32_t channel, uint32_t bytes) {
    uint8_t more[4];
    link_put_u32(more, bytes);
    link_put(link, LINK_WINDOW, channel, more, sizeof more);
}

bool link_full(const struct link *link) {
    return link->held_bytes >= LIMIT_LINK_HELD_BYTES || link->unsent_bytes >= LIMIT_LINK_UNSENT_BYTES;
}

bool link_overdue(const struct link *link) {
    return link->held_bytes >= 2u * LIMIT_LINK_HELD_BYTES;
}

bool link_out(struct link *link, const uint8_t **ret_data, size_t *ret_len) {
    if (link->offer == OFFER_NONE && link->ack_due) {
        link_put_head(link->ack, LINK_ACK, 0);
        link_put_u32(link->ack + LINK_HEAD_BYTES, (uint32_t)link->received);
        link_put_u32(link->ack + LINK_HEAD_BYTES + 4, (uint32_t)(link->received >> 32));
        link->confirmed = link->received;
        link->owed_bytes = 0;
        link->ack_due = false;
        link->offer = OFFER_ACK;
    } else if (link->offer == OFFER_NONE && link->next) {
        link->offer = OFFER_RECORD;
    }
    if (link->offer == OFFER_NONE)
        return false;
    bool ack = link->offer == OFFER_ACK;
    *ret_data = ack ? link->ack : link->next->data;
    *ret_len = ack ? sizeof link->ack : link->next->len;
    return true;
}

void link_out_done(struct link *link) {
    assert(link->offer != OFFER_NONE);
    if (link->offer == OFFER_RECORD) {
        link->unsent_bytes -= link_record_cost(link->next);
        link->next = link->next->next;
        link->sent++;
        link->most_sent = link->sent > link->most_sent ? link->sent : link->most_sent;
    }
    link->offer = OFFER_NONE;
}

/* ---- in ---- */

/* Whose bytes are of which length; a row a kind. */
static const struct {
    const char *name;
    size_t least, most;
} kinds[] = {
    [LINK_ACK] = {"ACK", 8, 8},
    [LINK_DATA] = {"DATA", 1, LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES},
    [LINK_WINDOW] = {"WINDOW", 4, 4},
    [LINK_ASK] = {"ASK", 2, LIMIT_LINK_TALK_BYTES},
    [LINK_TELL] = {"TELL", 2, LIMIT_LINK_TALK_BYTES},
    [LINK_SHUT] = {"SHUT", 0, LIMIT_LINK_WHY_BYTES},
};

static int link_acknowledged(struct link *link, uint64_t received, struct err *err) {
    if (received < link->acked || received > link->sent)
        return err_set(err, ERR_PROTOCOL, "an ACK of %llu records, %llu were sent and %llu acknowledged before",
                       (unsigned long long)received, (unsigned long long)link->sent, (unsigned long long)link->acked);
    while (link->acked < received)
        link_drop_first(link);
    return 0;
}

int link_in(struct link *link, const void *data, size_t len, struct link_record *ret_record, struct err *err) {
    struct view view = view_of(data, len);
    uint8_t kind = view_u8(&view), zero = view_u8(&view);
    uint16_t zeros = view_u16(&view);
    uint32_t channel = view_u32(&view);
    if (view.bad || kind >= sizeof kinds / sizeof *kinds || zero || zeros)
        return err_set(err, ERR_PROTOCOL, "a record of unknown kind %u, cut off, or with reserved bits", kind);
    if (view.len < kinds[kind].least || view.len > kinds[kind].most || (channel == 0) != (kind == LINK_ACK))
        return err_set(err, ERR_PROTOCOL, "a record %s of channel %u with %zu bytes", kinds[kind].name, channel,
                       view.len);
    if (kind == LINK_ACK)
        return link_acknowledged(link, view_u64(&view), err);
    link->received++;
    link->owed_bytes += len;
    link->ack_due |= link->received - link->confirmed >= ACK_RECORDS || link->owed_bytes >= ACK_BYTES;
    *ret_record =
        (struct link_record){.kind = (enum link_kind)kind, .channel = channel, .data = view.data, .len = view.len};
    return 1;
}

bool link_owes(const struct link *link) {
    return link->received != link->confirmed;
}

void link_idle(struct link *link) {
    link->ack_due |= link_owes(link);
}

uint64_t link_received(const struct link *link) {
    return link->received;
}

int link_resume(struct link *link, uint64_t received, struct err *err) {
    if (received < link->acked || received > link->most_sent)
        return err_set(err, ERR_PROTOCOL, "it says that %llu records came, of %llu sent and %llu acknowledged before",
                       (unsigned long long)received, (unsigned long long)link->most_sent,
                       (unsigned long long)link->acked);
    while (link->acked < received)
        link_drop_first(link);
    link->sent = received;
    link->next = link->first;
    link->unsent_bytes = link->held_bytes;
    link->confirmed = link->received; /* register and its answer say it */
    link->owed_bytes = 0;
    link->ack_due = false;
    link->offer = OFFER_NONE;
    return 0;
}
