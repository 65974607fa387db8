/* DNS messages of boxes: one question in, one answer out. Pure. */
#ifndef CUBBY_GATE_DNS_H
#define CUBBY_GATE_DNS_H

#include "base/buf.h"
#include "gate/gate_policy.h"

enum { DNS_A = 1, DNS_AAAA = 28, DNS_IN = 1, DNS_MESSAGE_BYTES = 4096, DNS_HEADER_BYTES = 12 };
enum dns_code { DNS_NOERROR, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED };

struct dns_question {
    uint16_t id, type, class;
    bool recursion, edns, is_name; /* is_name: one that a policy can hold; else `name` is only for showing */
    char name[GATE_NAME_BYTES + 1];
    uint8_t wire[256]; /* the question's name as it was sent, for the answer */
    size_t wire_len;
};

/* DNS_NOERROR: *ret_question is whole. Another code: answer with it, if there is an id at all (len >= 12); -1: do not
 * answer (it is itself an answer, or too short). */
int dns_parse(const uint8_t *data, size_t len, struct dns_question *ret_question);
/* Appends the answer. addresses: IPv4 ones only. blocked: says so where the client understands it. */
void dns_answer(const struct dns_question *question, enum dns_code code, const struct address *addresses, size_t count,
                unsigned ttl, bool blocked, size_t most, struct buf *out);
const char *dns_type_name(uint16_t type, char text[8]);

#endif
