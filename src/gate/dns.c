/* DNS messages (dns.h). Strict: one question, no pointers in it, labels of the alphabet that policies have; a dot
 * inside of a label makes the message malformed, so it can never look like two labels. */
#include "gate/dns.h"

#include <arpa/inet.h>

#include "base/base.h"

enum { DNS_OPT = 41, DNS_EDE = 15, DNS_EDE_BLOCKED = 15, DNS_UDP_BYTES = 1232 };

static uint16_t dns_u16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void dns_put16(struct buf *out, unsigned value) {
    buf_byte(out, (uint8_t)(value >> 8));
    buf_byte(out, (uint8_t)value);
}

static int dns_name(const uint8_t *data, size_t len, size_t *at, struct dns_question *question) {
    char text[256];
    size_t used = 0, start = *at;
    for (;;) {
        if (*at >= len)
            return DNS_FORMERR;
        size_t label = data[(*at)++];
        if (!label)
            break;
        if (label > 63 || *at + label > len || used + label + 1 > sizeof text - 1)
            return DNS_FORMERR;
        for (size_t i = 0; i < label; i++) {
            uint8_t c = data[*at + i];
            if (c == '.' || c <= 0x20 || c >= 0x7f)
                return DNS_FORMERR;
            text[used++] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
        }
        text[used++] = '.';
        *at += label;
    }
    text[used] = 0;
    if (used > GATE_NAME_BYTES + 1)
        return DNS_FORMERR;
    question->wire_len = *at - start;
    memcpy(question->wire, data + start, question->wire_len);
    question->is_name = gate_name(text, used, question->name, ERR_IGNORED) == 0;
    if (!question->is_name)
        snprintf(question->name, sizeof question->name, "%.*s", used ? (int)used - 1 : 0, text);
    return DNS_NOERROR;
}

int dns_parse(const uint8_t *data, size_t len, struct dns_question *ret_question) {
    struct dns_question *question = ret_question;
    memset(question, 0, sizeof *question);
    if (len < DNS_HEADER_BYTES || data[2] & 0x80)
        return -1;
    question->id = dns_u16(data);
    question->recursion = data[2] & 1;
    if (data[2] & 0x78)
        return DNS_NOTIMP;
    unsigned additional = dns_u16(data + 10);
    if (dns_u16(data + 4) != 1 || dns_u16(data + 6) || dns_u16(data + 8) || additional > 1)
        return DNS_FORMERR;
    size_t at = DNS_HEADER_BYTES;
    int code = dns_name(data, len, &at, question);
    if (code || at + 4 > len)
        return DNS_FORMERR;
    question->type = dns_u16(data + at);
    question->class = dns_u16(data + at + 2);
    at += 4;
    if (additional) { /* EDNS: root, type, size, flags, data; its options are of no interest */
        if (at + 11 > len || data[at] || dns_u16(data + at + 1) != DNS_OPT || at + 11 + dns_u16(data + at + 9) != len)
            return DNS_FORMERR;
        question->edns = true;
    } else if (at != len) {
        return DNS_FORMERR;
    }
    return DNS_NOERROR;
}

void dns_answer(const struct dns_question *question, enum dns_code code, const struct address *addresses, size_t count,
                unsigned ttl, bool blocked, size_t most, struct buf *out) {
    enum { RECORD_BYTES = 16, OPT_BYTES = 11, EDE_BYTES = 6 };
    size_t fixed = DNS_HEADER_BYTES + question->wire_len + 4 + (question->edns ? OPT_BYTES + EDE_BYTES : 0);
    size_t fitting = most > fixed ? (most - fixed) / RECORD_BYTES : 0;
    bool cut = count > fitting;
    count = cut ? fitting : count;
    dns_put16(out, question->id);
    dns_put16(out, 0x8080u | (question->recursion ? 0x100u : 0) | (cut ? 0x200u : 0) | (unsigned)code);
    dns_put16(out, question->wire_len ? 1 : 0);
    dns_put16(out, (unsigned)count);
    dns_put16(out, 0);
    dns_put16(out, question->edns ? 1 : 0);
    if (question->wire_len) {
        buf_put(out, question->wire, question->wire_len);
        dns_put16(out, question->type);
        dns_put16(out, question->class);
    }
    for (size_t i = 0; i < count; i++) {
        dns_put16(out, 0xc00c); /* the question's name */
        dns_put16(out, DNS_A);
        dns_put16(out, DNS_IN);
        dns_put16(out, ttl >> 16);
        dns_put16(out, ttl & 0xffff);
        dns_put16(out, 4);
        buf_put(out, addresses[i].bytes + 12, 4);
    }
    if (!question->edns)
        return;
    buf_byte(out, 0);
    dns_put16(out, DNS_OPT);
    dns_put16(out, DNS_UDP_BYTES);
    dns_put16(out, 0);
    dns_put16(out, 0);
    dns_put16(out, blocked ? EDE_BYTES : 0);
    if (blocked) {
        dns_put16(out, DNS_EDE);
        dns_put16(out, 2);
        dns_put16(out, DNS_EDE_BLOCKED);
    }
}

const char *dns_type_name(uint16_t type, char text[8]) {
    static const struct {
        uint16_t type;
        const char *name;
    } names[] = {{1, "A"},    {2, "NS"},    {5, "CNAME"}, {6, "SOA"},   {10, "NULL"},  {12, "PTR"}, {15, "MX"},
                 {16, "TXT"}, {28, "AAAA"}, {33, "SRV"},  {64, "SVCB"}, {65, "HTTPS"}, {255, "ANY"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type)
            return names[i].name;
    snprintf(text, 8, "%u", type);
    return text;
}
