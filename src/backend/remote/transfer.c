/* Files on a channel: frames of a length and that many bytes. Called by worker.c on the server and by cli/join on the
 * machine. Invariant: the other end is hostile: a length is checked before anything of it is read. */
#include "backend/remote/transfer.h"

#include <sys/socket.h>

#include "base/base.h"

#define TRANSFER_FAILED UINT32_MAX /* then a text: "CODE sentence" */
enum { TRANSFER_WHY_BYTES = 600 };

static int transfer_lost(const struct transfer *transfer, struct err *err) {
    return err_set(err, ERR_GONE, "the connection to %s was lost while files were sent", transfer->peer);
}

static int transfer_send(const struct transfer *transfer, const void *data, size_t len, struct err *err) {
    for (const uint8_t *at = data; len;) {
        ssize_t n = send(transfer->fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return transfer_lost(transfer, err);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int transfer_recv(const struct transfer *transfer, void *data, size_t len, struct err *err) {
    for (uint8_t *at = data; len;) {
        ssize_t n = recv(transfer->fd, at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return transfer_lost(transfer, err);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int transfer_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct transfer *transfer = user;
    uint32_t head = htole32((uint32_t)len);
    xensure(len && len <= TRANSFER_PIECE_BYTES);
    transfer->bytes += len;
    return transfer_send(transfer, &head, sizeof head, err) ?: transfer_send(transfer, data, len, err);
}

/* The failure of the other end, as ours. */
static int transfer_failed(const struct transfer *transfer, struct err *err) {
    uint32_t len;
    char text[TRANSFER_WHY_BYTES + 1] = "", code[24] = "";
    int at = 0;
    TRY(transfer_recv(transfer, &len, sizeof len, err));
    len = le32toh(len);
    if (len > TRANSFER_WHY_BYTES)
        return err_set(err, ERR_PROTOCOL, "%s sent an invalid stream of files", transfer->peer);
    TRY(transfer_recv(transfer, text, len, err));
    sscanf(text, "%23s %n", code, &at);
    enum err_code ours = ERR_PROTOCOL;
    for (int known = ERR_INVALID; known <= ERR_TIMEOUT; known++)
        if (strcmp(err_name(known), code) == 0)
            ours = (enum err_code)known;
    autobuf shown = buf_max(4 * TRANSFER_WHY_BYTES);
    text_shown(&shown, text + at, strlen(text + at));
    return err_set(err, ours, "%s: %s", transfer->peer, buf_cstr(&shown) ? buf_cstr(&shown) : "");
}

ssize_t transfer_get(void *user, uint8_t *data, size_t len, struct err *err) {
    struct transfer *transfer = user;
    uint32_t head;
    TRY(transfer_recv(transfer, &head, sizeof head, err));
    head = le32toh(head);
    if (head == TRANSFER_FAILED)
        return transfer_failed(transfer, err);
    if (head > len || head > TRANSFER_PIECE_BYTES)
        return err_set(err, ERR_PROTOCOL, "%s sent an invalid stream of files", transfer->peer);
    TRY(transfer_recv(transfer, data, head, err));
    transfer->bytes += head;
    return (ssize_t)head;
}

void transfer_end(struct transfer *transfer, int r, const struct err *why) {
    struct err ignored; /* who waits for it notices that the channel ends */
    uint32_t heads[2] = {0};
    if (r == 0) {
        transfer_send(transfer, heads, sizeof *heads, &ignored);
        return;
    }
    const char *text = text_make(TRANSFER_WHY_BYTES + 1, "%s %s", err_name(why->code), why->text);
    heads[0] = TRANSFER_FAILED;
    heads[1] = htole32((uint32_t)strlen(text));
    if (transfer_send(transfer, heads, sizeof heads, &ignored) == 0)
        transfer_send(transfer, text, strlen(text), &ignored);
}

int transfer_answered(struct transfer *transfer, struct err *err) {
    uint8_t none[1];
    ssize_t n = transfer_get(transfer, none, 0, err);
    return n < 0 ? (int)n : 0;
}
