/* Any bytes as the question of a box to its resolver: a name that leaves the reader is one that a policy can hold, and an
 * answer fits where it has to. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "gate/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dns_question question;
    char name[GATE_NAME_BYTES + 1];
    uint8_t *copy = malloc(size ? size : 1); /* of just that size: an over-read shows */
    memcpy(copy, data, size);
    int code = dns_parse(copy, size, &question);
    free(copy);
    assert(code >= -1 && code <= DNS_NOTIMP && (code != -1 || size < DNS_HEADER_BYTES || data[2] & 0x80));
    if (code < 0)
        return 0;
    if (code == DNS_NOERROR && question.is_name)
        assert(gate_name(question.name, strlen(question.name), name, ERR_IGNORED) == 0 &&
               strcmp(name, question.name) == 0);
    struct address addresses[16];
    memset(addresses, 1, sizeof addresses);
    autobuf out = buf_max(DNS_MESSAGE_BYTES);
    dns_answer(&question, (enum dns_code)code, addresses, code ? 0 : 16, 60, true, 512, &out);
    assert(!out.failed && out.len <= 512 && out.len >= DNS_HEADER_BYTES && memcmp(out.data, data, 2) == 0);
    return 0;
}
