/* Headers that the policy sets in requests to a host (gate/gate_policy.h). Called by secret.c while it writes a head.
 * Invariant: what the box sends under such a name is dropped, so the policy alone says what the host sees there. */
#include "seal/seal.h"

const struct gate_header *header_named(const struct seal_headers *headers, const char *name) {
    for (size_t i = 0; i < headers->count; i++)
        if (strcmp(headers->list[i]->name, name) == 0)
            return headers->list[i];
    return NULL;
}

void headers_for(const char *host, uint16_t port, const char *method, const char *path, struct seal_headers *out) {
    const struct gate_subject subject = {.name = host, .port = port, .method = method, .path = path};
    out->count = 0;
    for (size_t i = 0; i < seal_level_count; i++)
        for (size_t k = 0; k < seal_levels[i]->allow.count; k++) {
            const struct gate_entry *entry = &seal_levels[i]->allow.items[k];
            if (!entry->header_count || !gate_entry_fits(entry, &subject))
                continue;
            for (size_t n = 0; n < entry->header_count && out->count < SEAL_HEADERS; n++)
                if (!header_named(out, entry->headers[n].name))
                    out->list[out->count++] = &entry->headers[n];
        }
}

uint64_t headers_secrets(const char *host, uint16_t port) {
    struct seal_headers headers;
    struct gate_reference reference;
    uint64_t bits = 0;
    headers_for(host, port, NULL, NULL, &headers);
    for (size_t i = 0; i < headers.count; i++)
        for (const char *at = headers.list[i]->value; gate_reference(at, &reference); at = reference.end) {
            const struct seal_secret *secret = secret_named(reference.name);
            if (secret && (!*secret->hosts || secret_bound(secret, host, port)))
                bits |= 1ull << (secret - secrets);
        }
    return bits;
}

static enum seal_swap header_refuse(char why[GATE_WHY_BYTES], enum seal_swap swap, const char *name, const char *what) {
    snprintf(why, GATE_WHY_BYTES, "secret '%s' %s", name, what);
    return swap;
}

static enum seal_swap header_secret(const char *name, const char *host, uint16_t port, const char *method,
                                    const char *path, struct buf *out, uint64_t *swapped, char why[GATE_WHY_BYTES]) {
    const struct seal_secret *secret = secret_named(name);
    if (!secret)
        return header_refuse(why, SWAP_LACKS, name, "does not exist");
    if (*secret->hosts && !secret_bound(secret, host, port))
        return header_refuse(why, SWAP_DENIED, name, "is not for this host and port");
    enum seal_swap may = secret_may(secret, method, path, why);
    if (may != SWAP_DONE)
        return may;
    for (size_t i = 0; i < secret->value.len; i++)
        if (secret->value.data[i] < 0x20 || secret->value.data[i] == 0x7f)
            return header_refuse(why, SWAP_LACKS, name, "has characters that a header cannot carry");
    buf_put(out, secret->value.data, secret->value.len);
    *swapped |= 1ull << (secret - secrets);
    return SWAP_DONE;
}

enum seal_swap header_put(const struct gate_header *header, const char *host, uint16_t port, const char *method,
                          const char *path, struct buf *out, uint64_t *ret_swapped, char why[GATE_WHY_BYTES]) {
    struct gate_reference reference;
    const char *at = header->value;
    buf_printf(out, "%s: ", header->name);
    for (; gate_reference(at, &reference); at = reference.end) {
        buf_put(out, at, (size_t)(reference.at - at));
        enum seal_swap may = header_secret(reference.name, host, port, method, path, out, ret_swapped, why);
        if (may != SWAP_DONE)
            return may;
    }
    buf_puts(out, at);
    buf_puts(out, "\r\n");
    return SWAP_DONE;
}
