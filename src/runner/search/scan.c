/* Byte searches. Called by grep for every byte of every file. Invariant: nothing is read outside [at, end).
 *
 * The literal search compares two bytes of the needle, the rarest by a rough table of frequencies in source text, at 16
 * places at once, and compares the rest only where both match. */
#include "base/base.h"
#include "runner/search/scan.h"

#if defined(__SSE2__) && defined(__x86_64__)
#include <emmintrin.h>
#endif

#pragma GCC optimize("O2")

/* How common a byte is in text, roughly: higher is more common. */
static unsigned scan_commonness(uint8_t byte) {
    static const char order[] = "etaoinsrlcd upmhfgybvkwxqzj_";
    if (byte == ' ' || byte == 'e')
        return 255;
    if (byte == '\n' || byte == '\t' || byte == 0)
        return 200;
    const char *at = memchr(order, byte, sizeof order - 1);
    if (at)
        return 190 - 4 * (unsigned)(at - order);
    if (byte >= '0' && byte <= '9')
        return 70;
    if (byte >= 'A' && byte <= 'Z')
        return 50;
    return byte < 0x80 ? 60 : 20;
}

void scan_literal_init(struct scan_literal *literal, const void *text, size_t len) {
    *literal = (struct scan_literal){.text = text, .len = len};
    for (size_t i = 1; i < len; i++)
        if (scan_commonness(literal->text[i]) < scan_commonness(literal->text[literal->first]))
            literal->first = i;
    literal->second = literal->first == 0 && len > 1 ? 1 : 0;
    for (size_t i = 0; i < len; i++)
        if (i != literal->first && scan_commonness(literal->text[i]) < scan_commonness(literal->text[literal->second]))
            literal->second = i;
}

static bool scan_literal_at(const struct scan_literal *literal, const uint8_t *at) {
    return memcmp(at, literal->text, literal->len) == 0;
}

const uint8_t *scan_literal_find(const struct scan_literal *literal, const uint8_t *at, const uint8_t *end) {
    if ((size_t)(end - at) < literal->len)
        return NULL;
    const uint8_t *last = end - literal->len; /* the last place it can begin */
#if defined(__SSE2__) && defined(__x86_64__)
    __m128i first = _mm_set1_epi8((char)literal->text[literal->first]);
    __m128i second = _mm_set1_epi8((char)literal->text[literal->second]);
    for (; last - at >= 31; at += 32) {
        const uint8_t *a = at + literal->first, *b = at + literal->second;
        __m128i low = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)a), first),
                                    _mm_cmpeq_epi8(_mm_loadu_si128((const void *)b), second));
        __m128i high = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)(a + 16)), first),
                                     _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(b + 16)), second));
        unsigned mask = (unsigned)_mm_movemask_epi8(low) | (unsigned)_mm_movemask_epi8(high) << 16;
        for (; mask; mask &= mask - 1) {
            const uint8_t *hit = at + __builtin_ctz(mask);
            if (scan_literal_at(literal, hit))
                return hit;
        }
    }
#endif
    for (; at <= last; at++)
        if (at[literal->first] == literal->text[literal->first] && scan_literal_at(literal, at))
            return at;
    return NULL;
}

const uint8_t *scan_byte(const uint8_t *at, const uint8_t *end, uint8_t byte) {
#if defined(__SSE2__) && defined(__x86_64__)
    __m128i wanted = _mm_set1_epi8((char)byte);
    for (; end - at >= 16; at += 16) {
        unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)at), wanted));
        if (mask)
            return at + __builtin_ctz(mask);
    }
#endif
    for (; at < end; at++)
        if (*at == byte)
            return at;
    return NULL;
}

const uint8_t *scan_byte_back(const uint8_t *begin, const uint8_t *end, uint8_t byte) {
#if defined(__SSE2__) && defined(__x86_64__)
    __m128i wanted = _mm_set1_epi8((char)byte);
    for (; end - begin >= 16; end -= 16) {
        unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const void *)(end - 16)), wanted));
        if (mask)
            return end - 16 + (31 - __builtin_clz(mask));
    }
#endif
    while (end > begin)
        if (*--end == byte)
            return end;
    return NULL;
}

uint64_t scan_count(const uint8_t *at, const uint8_t *end, uint8_t byte) {
    uint64_t count = 0;
#if defined(__SSE2__) && defined(__x86_64__)
    __m128i wanted = _mm_set1_epi8((char)byte), zero = _mm_setzero_si128();
    while (end - at >= 16) {
        size_t blocks = (size_t)(end - at) / 16;
        __m128i sums = zero;
        if (blocks > 255)
            blocks = 255; /* a lane holds no more */
        for (; blocks; blocks--, at += 16)
            sums = _mm_sub_epi8(sums, _mm_cmpeq_epi8(_mm_loadu_si128((const void *)at), wanted));
        __m128i total = _mm_sad_epu8(sums, zero);
        count += (uint64_t)_mm_cvtsi128_si64(total) + (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(total, 8));
    }
#endif
    for (; at < end; at++)
        count += *at == byte;
    return count;
}
