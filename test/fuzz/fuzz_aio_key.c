/* Any text as a box's key or a ticket: only the one that was made for this box fits, a ticket until its time. The first byte
 * says whether the text is taken as it is, or changes a true one. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box/box.h"
#include "front/aio/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct box box = {.id = "0123456789abcdef", .created_ms = 5};
static const struct box other = {.id = "fedcba9876543210", .created_ms = 5};
static const struct box later = {.id = "0123456789abcdef", .created_ms = 6}; /* made again after it was deleted */
enum { UNTIL_MS = 1700000030 };

static struct aio_key *key_of(void) {
    static struct aio_key *key;
    char dir[] = "/tmp/fuzz-aio-key-XXXXXX", name[64];
    struct err err = {0};
    if (key)
        return key;
    if (!mkdtemp(dir) || aio_key_open(dir, &key, &err) < 0)
        abort();
    snprintf(name, sizeof name, "%s/aio-key", dir);
    unlink(name);
    rmdir(dir);
    return key;
}

/* The text, or the true one with some of its bytes exchanged. */
static char *text_of(const char *made, const uint8_t *data, size_t size, bool changed) {
    char *text = strndup(changed ? made : (const char *)data, changed ? strlen(made) : size);
    for (size_t i = 0; changed && i + 1 < size; i += 2)
        if (text[data[i] % strlen(made)])
            text[data[i] % strlen(made)] = (char)data[i + 1];
    return text;
}

static const char *past_zeros(const char *text) {
    return text + strspn(text, "0");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct aio_key *key = key_of();
    char made[AIO_KEY_BYTES], ticket[AIO_TICKET_BYTES];
    if (!size)
        return 0;
    aio_key_make(key, &box, made);
    aio_ticket_make(key, &box, UNTIL_MS, ticket);
    char *text = text_of(made, data + 1, size - 1, data[0] & 1);
    assert(aio_key_fits(key, &box, text) == !strcmp(text, made));
    assert(!aio_key_fits(NULL, &box, text) && !aio_key_fits(key, NULL, made) && !aio_key_fits(key, &later, made));
    assert(!aio_key_fits(key, &other, made) && !aio_ticket_fits(key, &box, 0, made));
    free(text);
    text = text_of(ticket, data + 1, size - 1, data[0] & 1);
    bool same = !strcmp(past_zeros(text), ticket);
    assert(aio_ticket_fits(key, &box, UNTIL_MS - 1, text) == same);
    assert(!aio_ticket_fits(key, &box, UNTIL_MS, text) && !aio_ticket_fits(key, &other, 0, text) &&
           !aio_ticket_fits(key, &later, 0, text));
    assert(!aio_key_fits(key, &box, text) || !strcmp(text, made));
    free(text);
    return 0;
}
