/* Archives that no tar would write, to standard output. Run on the host: it is the client that attacks.
 * usage: attack_tar ENTRY...     each one of
 *   f:NAME=CONTENT  a file          m:MODE:NAME=CONTENT  with this octal mode     z:SIZE:NAME  a head that lies: no content
 *   d:NAME  a directory             l:NAME=TARGET  a link                         h:NAME=TARGET  a hard link
 *   c:NAME  a device                p:NAME  a FIFO                                s:NAME  GNU's sparse type
 *   x:KEY=VALUE  a pax record for the entry that follows                          X:BYTES  a pax head of so many bytes
 *   n:COUNT:NAME  COUNT empty files NAME0, NAME1 ...                              e  the end mark (else there is none)
 * "\n", "\xHH" and "\\" in names stand for these bytes; "%COUNT{TEXT}" for TEXT repeated. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, TEXT_BYTES = 1 << 20 };

static void put(const void *data, size_t len) {
    static const char zero[BLOCK];
    fwrite(data, 1, len, stdout);
    if (len % BLOCK)
        fwrite(zero, 1, BLOCK - len % BLOCK, stdout);
}

static void head(char type, const char *name, const char *link, unsigned mode, uint64_t size) {
    unsigned char block[BLOCK] = {0};
    unsigned sum = 0;
    memcpy(block, name, strnlen(name, 100));
    snprintf((char *)block + 100, 8, "%07o", mode & 07777777);
    snprintf((char *)block + 108, 8, "%07o", 0u);
    snprintf((char *)block + 116, 8, "%07o", 0u);
    snprintf((char *)block + 124, 12, "%011llo", (unsigned long long)size & 077777777777ull);
    snprintf((char *)block + 136, 12, "%011o", 1000000000u);
    block[156] = (unsigned char)type;
    memcpy(block + 157, link, strnlen(link, 100));
    memcpy(block + 257, "ustar\00000", 8);
    snprintf((char *)block + 329, 8, "%07o", 1u);
    snprintf((char *)block + 337, 8, "%07o", 3u);
    memset(block + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + 148, 7, "%06o", sum & 0777777);
    fwrite(block, 1, BLOCK, stdout);
}

static void record(char *out, const char *key, const char *value) {
    size_t body = strlen(key) + strlen(value) + 3, len = body + 1;
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", len) + body != len)
        len++;
    snprintf(out + strlen(out), len + 1, "%s %s=%s\n", digits, key, value);
}

/* A name too long for a head goes before it, as pax has it. */
static void entry(char type, const char *name, const char *link, unsigned mode, const char *content) {
    static char records[2 * TEXT_BYTES];
    records[0] = 0;
    if (strlen(name) > 100)
        record(records, "path", name);
    if (strlen(link) > 100)
        record(records, "linkpath", link);
    if (records[0]) {
        head('x', "pax", "", 0644, strlen(records));
        put(records, strlen(records));
    }
    head(type, name, link, mode, strlen(content));
    put(content, strlen(content));
}

static const char *expand(const char *text) {
    static char out[8][TEXT_BYTES];
    static unsigned turn;
    char *to = out[turn++ % 8], *begin = to;
    unsigned byte;
    int used;
    for (; *text && to - begin < TEXT_BYTES - 8192; text++) {
        char piece[256];
        unsigned count;
        if (!strncmp(text, "\\x", 2) && sscanf(text + 2, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            text += 3;
        } else if (text[0] == '\\' && text[1]) {
            *to++ = text[1] == 'n' ? '\n' : text[1];
            text++;
        } else if (text[0] == '%' && sscanf(text, "%%%u{%255[^}]}%n", &count, piece, &used) == 2) {
            for (; count && to - begin < TEXT_BYTES - 8192; count--)
                to = stpcpy(to, piece);
            text += used - 1;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
    return begin;
}

static void many(unsigned long count, const char *name) {
    char numbered[512];
    for (unsigned long i = 0; i < count; i++) {
        snprintf(numbered, sizeof numbered, "%.400s%lu", name, i);
        entry('0', numbered, "", 0644, "");
    }
}

static void pax_filler(size_t bytes) {
    char *filler = calloc(1, bytes + 1);
    if (!filler)
        exit(125);
    memset(filler, 'a', bytes);
    head('x', "pax", "", 0644, bytes);
    put(filler, bytes);
    free(filler);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *at = argv[i] + 2, kind = argv[i][0], *number = NULL;
        if (kind == 'm' || kind == 'z' || kind == 'n') {
            number = at;
            at = strchr(at, ':') ? strchr(at, ':') : at;
            *at++ = 0;
        }
        char *equals = kind == 'e' ? NULL : strchr(at, '=');
        if (equals)
            *equals++ = 0;
        const char *name = kind == 'e' ? "" : expand(at), *value = equals ? expand(equals) : "";
        char text[2 * 8192] = "";
        switch (kind) {
        case 'f':
            entry('0', name, "", 0644, value);
            break;
        case 'm':
            entry('0', name, "", (unsigned)strtoul(number, NULL, 8), value);
            break;
        case 'z':
            head('0', name, "", 0644, strtoull(number, NULL, 10));
            break;
        case 'd':
            entry('5', name, "", 0755, "");
            break;
        case 'l':
            entry('2', name, value, 0777, "");
            break;
        case 'h':
            entry('1', name, value, 0644, "");
            break;
        case 'c':
            entry('3', name, "", 0666, "");
            break;
        case 'p':
            entry('6', name, "", 0644, "");
            break;
        case 's':
            entry('S', name, "", 0644, "");
            break;
        case 'n':
            many(strtoul(number, NULL, 10), name);
            break;
        case 'X':
            pax_filler(strtoul(name, NULL, 10));
            break;
        case 'x':
            record(text, name, value);
            head('x', "pax", "", 0644, strlen(text));
            put(text, strlen(text));
            break;
        case 'e': {
            static const char end[2 * BLOCK];
            fwrite(end, 1, sizeof end, stdout);
            break;
        }
        default:
            fprintf(stderr, "attack_tar: '%s'?\n", argv[i]);
            return 2;
        }
    }
    return 0;
}
