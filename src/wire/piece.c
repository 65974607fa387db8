/* The rules are in piece.h. */
#include "base/base.h"
#include "wire/piece.h"

struct piece {
    struct piece *next;
    uint64_t at;
    size_t len;
    uint8_t data[];
};

void pieces_init(struct pieces *pieces) {
    *pieces = (struct pieces){0};
    buf_init(&pieces->raw, 2 * (PIECE_HEAD_BYTES + PIECE_BYTES));
    buf_init(&pieces->ready, PIECES_WINDOW_BYTES);
}

void pieces_done(struct pieces *pieces) {
    for (struct piece *next; pieces->held; pieces->held = next) {
        next = pieces->held->next;
        free(pieces->held);
    }
    buf_done(&pieces->raw);
    buf_done(&pieces->ready);
}

/* ---- out ---- */

size_t pieces_room(const struct pieces *pieces) {
    uint64_t under_way = pieces->sent - pieces->arrived;
    if (pieces->count == PIECES_MOST || under_way >= PIECES_WINDOW_BYTES)
        return 0;
    uint64_t room = PIECES_WINDOW_BYTES - under_way;
    return room < PIECE_BYTES ? (size_t)room : PIECE_BYTES;
}

void pieces_put(struct pieces *pieces, struct buf *out, const void *data, size_t len) {
    buf_u64(out, pieces->sent);
    pieces->acked = pieces->got - pieces->ready.len;
    buf_u64(out, pieces->acked);
    buf_u32(out, (uint32_t)len);
    if (pieces->ready.len == 0)
        pieces->unacked = 0;
    if (len == 0)
        return;
    buf_put(out, data, len);
    pieces->sent += len;
    pieces->ends[(pieces->first + pieces->count++) % PIECES_MOST] = pieces->sent;
}

bool pieces_due(const struct pieces *pieces) {
    return pieces->got - pieces->ready.len - pieces->acked >= PIECES_WINDOW_BYTES / 4 ||
           (pieces->unacked >= PIECES_MOST / 4 && pieces->ready.len == 0);
}

/* ---- in ---- */

static int pieces_arrived(struct pieces *pieces, uint64_t arrived, struct err *err) {
    if (arrived > pieces->sent)
        return err_set(err, ERR_PROTOCOL, "a piece acknowledges more bytes than were sent");
    if (arrived > pieces->arrived) /* else a later one came before it */
        pieces->arrived = arrived;
    while (pieces->count && pieces->ends[pieces->first] <= pieces->arrived) {
        pieces->first = (pieces->first + 1) % PIECES_MOST;
        pieces->count--;
    }
    return 0;
}

static int pieces_add(struct pieces *pieces, uint64_t at, const uint8_t *data, size_t len, struct err *err) {
    uint64_t taken = pieces->got - pieces->ready.len;
    if (at < pieces->got || at - taken > PIECES_WINDOW_BYTES - len)
        return err_set(err, ERR_PROTOCOL, "a piece lies outside of the window");
    pieces->unacked++;
    if (at > pieces->got) {
        struct piece **link = &pieces->held;
        while (*link && (*link)->at < at)
            link = &(*link)->next;
        if (pieces->held_count == PIECES_MOST)
            return err_set(err, ERR_PROTOCOL, "more than %u pieces out of order", PIECES_MOST);
        struct piece *piece = xmalloc(sizeof *piece + len);
        *piece = (struct piece){.next = *link, .at = at, .len = len};
        memcpy(piece->data, data, len);
        *link = piece;
        pieces->held_count++;
        return 0;
    }
    buf_put(&pieces->ready, data, len);
    pieces->got += len;
    for (struct piece *piece; (piece = pieces->held) && piece->at <= pieces->got;) {
        if (piece->at < pieces->got)
            return err_set(err, ERR_PROTOCOL, "two pieces overlap");
        buf_put(&pieces->ready, piece->data, piece->len);
        pieces->got += piece->len;
        pieces->held = piece->next;
        pieces->held_count--;
        free(piece);
    }
    return 0;
}

/* Whole pieces at the front of raw. */
static int pieces_parse(struct pieces *pieces, struct err *err) {
    size_t done = 0;
    int r = 0;
    while (r == 0) {
        struct view view = view_of(pieces->raw.data + done, pieces->raw.len - done);
        uint64_t at = view_u64(&view), arrived = view_u64(&view);
        uint32_t len = view_u32(&view);
        if (view.bad)
            break;
        if (len > PIECE_BYTES)
            return err_set(err, ERR_PROTOCOL, "a piece of %u bytes", len);
        const uint8_t *data = view_take(&view, len);
        if (view.bad)
            break;
        done += PIECE_HEAD_BYTES + len;
        r = pieces_arrived(pieces, arrived, err);
        if (r == 0 && len > 0)
            r = pieces_add(pieces, at, data, len, err);
    }
    buf_consume(&pieces->raw, done);
    return r;
}

int pieces_feed(struct pieces *pieces, const void *data, size_t len, struct err *err) {
    const uint8_t *at = data;
    int r = 0;
    while (r == 0 && len > 0) { /* less than one piece is left over from last time */
        size_t n = len < PIECE_BYTES ? len : PIECE_BYTES;
        buf_put(&pieces->raw, at, n);
        at += n;
        len -= n;
        r = pieces_parse(pieces, err);
    }
    return r;
}

void pieces_take(struct pieces *pieces, size_t n) {
    buf_consume(&pieces->ready, n);
}
