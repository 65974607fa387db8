/* Reading and writing tar heads: ustar, pax and GNU names. Called by op_tar. Invariant: every byte of an archive is
 * untrusted: numbers are bounded and texts measured before they are copied. */
#include "base/base.h"
#include "tree/tarfmt.h"

struct tarfmt_head { /* one block */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
    char user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tarfmt_head) == TAR_BLOCK_BYTES, "a head is one block");

/* Reads octal text, or base 256 if the first bit is set. Returns false for anything else, or out of range. */
static bool tarfmt_get_number(const char *field, size_t len, uint64_t *ret_value) {
    const uint8_t *at = (const uint8_t *)field, *end = at + len;
    uint64_t value = 0;
    if (*at & 0x80) {
        if (*at & 0x7f)
            return false; /* negative, or far beyond 64 bits */
        for (at++; at < end; at++) {
            if (value >> 55)
                return false;
            value = value << 8 | *at;
        }
        *ret_value = value;
        return true;
    }
    while (at < end && *at == ' ')
        at++;
    for (; at < end && *at >= '0' && *at <= '7'; at++)
        value = value << 3 | (uint64_t)(*at - '0');
    for (; at < end; at++)
        if (*at != ' ' && *at != 0)
            return false;
    *ret_value = value;
    return true;
}

static uint32_t tarfmt_checksum(const uint8_t block[TAR_BLOCK_BYTES]) {
    uint32_t sum = 0;
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += i >= offsetof(struct tarfmt_head, checksum) && i < offsetof(struct tarfmt_head, type) ? ' ' : block[i];
    return sum;
}

static void tarfmt_get_names(const struct tarfmt_head *head, struct tar_entry *entry) {
    if (!entry->has_name) {
        size_t prefix = memcmp(head->magic, "ustar\0", 6) == 0 ? strnlen(head->prefix, sizeof head->prefix) : 0;
        snprintf(entry->name, sizeof entry->name, "%.*s%s%.*s", (int)prefix, head->prefix, prefix ? "/" : "",
                 (int)strnlen(head->name, sizeof head->name), head->name);
    }
    if (!entry->has_link)
        snprintf(entry->link, sizeof entry->link, "%.*s", (int)strnlen(head->link, sizeof head->link), head->link);
}

const char *tar_parse(const uint8_t block[TAR_BLOCK_BYTES], struct tar_entry *entry, bool *ret_zero) {
    static const uint8_t zero[TAR_BLOCK_BYTES];
    struct tarfmt_head head;
    memcpy(&head, block, sizeof head);
    *ret_zero = memcmp(block, zero, sizeof zero) == 0;
    if (*ret_zero)
        return NULL;
    uint64_t sum, mode, size, mtime;
    if (!tarfmt_get_number(head.checksum, sizeof head.checksum, &sum) || sum != tarfmt_checksum(block))
        return "this is not a tar archive, or it is damaged (wrong checksum)";
    if (!tarfmt_get_number(head.mode, sizeof head.mode, &mode) ||
        !tarfmt_get_number(head.size, sizeof head.size, &size) || size > INT64_MAX)
        return "a number in its head is malformed";
    if (!tarfmt_get_number(head.mtime, sizeof head.mtime, &mtime) || mtime > INT64_MAX / 2)
        mtime = 0;
    entry->type = head.type == 0 || head.type == '7' ? TAR_FILE : head.type;
    entry->mode = (uint32_t)mode & 07777;
    bool extension = strchr("xgLK", entry->type) != NULL;
    if (!entry->has_size || extension)
        entry->size = size;
    if (!entry->has_mtime)
        entry->mtime = (int64_t)mtime;
    if (!extension)
        tarfmt_get_names(&head, entry);
    /* Old archives mark directories only by a trailing slash. */
    if (entry->type == TAR_FILE && !extension && entry->name[0] && entry->name[strlen(entry->name) - 1] == '/')
        entry->type = TAR_DIR;
    return NULL;
}

void tar_reset(struct tar_entry *entry) {
    entry->has_name = entry->has_link = entry->has_size = entry->has_mtime = false;
    entry->name[0] = entry->link[0] = 0;
}

static const char *tarfmt_set_name(char out[TAR_NAME_BYTES], bool *has, const char *data, size_t len) {
    if (len >= TAR_NAME_BYTES)
        return "a name is too long";
    if (memchr(data, 0, len))
        return "a name contains a NUL byte";
    memcpy(out, data, len);
    out[len] = 0;
    *has = true;
    return NULL;
}

static bool tarfmt_get_decimal(const char *text, size_t len, uint64_t *ret_value) {
    uint64_t value = 0;
    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_value = value;
    return true;
}

static const char *tarfmt_pax_record(struct tar_entry *entry, const char *key, size_t key_len, const char *value,
                                     size_t len) {
#define IS(word) (key_len == sizeof(word) - 1 && memcmp(key, word, key_len) == 0)
    uint64_t number;
    if (IS("path"))
        return tarfmt_set_name(entry->name, &entry->has_name, value, len);
    if (IS("linkpath"))
        return tarfmt_set_name(entry->link, &entry->has_link, value, len);
    if (IS("size")) {
        if (!tarfmt_get_decimal(value, len, &number))
            return "its pax size is malformed";
        entry->size = number;
        entry->has_size = true;
    }
    if (IS("mtime")) {
        const char *dot = memchr(value, '.', len);
        if (tarfmt_get_decimal(value, dot ? (size_t)(dot - value) : len, &number)) {
            entry->mtime = (int64_t)number;
            entry->has_mtime = true;
        }
    }
    if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        return "it is a sparse file, which is not supported";
    return NULL;
#undef IS
}

/* LENGTH counts the whole record. */
bool tar_record_next(const char **data, size_t *len, struct tar_record *ret_record) {
    const char *at = *data, *space = memchr(at, ' ', *len < 20 ? *len : 20);
    uint64_t record;
    if (!space || !tarfmt_get_decimal(at, (size_t)(space - at), &record) || record > *len ||
        record < (size_t)(space - at) + 3 || at[record - 1] != '\n')
        return false;
    const char *key = space + 1, *end = at + record - 1, *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals)
        return false;
    *ret_record = (struct tar_record){key, equals + 1, (size_t)(equals - key), (size_t)(end - equals - 1)};
    *data += record;
    *len -= (size_t)record;
    return true;
}

static const char *tarfmt_pax_parse(struct tar_entry *entry, const char *data, size_t len) {
    struct tar_record record;
    while (len > 0) {
        if (!tar_record_next(&data, &len, &record))
            return "its pax head is malformed";
        const char *why = tarfmt_pax_record(entry, record.key, record.key_len, record.value, record.len);
        if (why)
            return why;
    }
    return NULL;
}

const char *tar_extend(struct tar_entry *entry, char type, const char *data, size_t len) {
    if (type == TAR_LONG_NAME)
        return tarfmt_set_name(entry->name, &entry->has_name, data, strnlen(data, len));
    if (type == TAR_LONG_LINK)
        return tarfmt_set_name(entry->link, &entry->has_link, data, strnlen(data, len));
    return type == TAR_PAX ? tarfmt_pax_parse(entry, data, len) : NULL; /* global heads contain nothing that is used */
}

const char *tar_safe_name(char *name, const char **ret_why) {
    *ret_why = NULL;
    if (name[0] == '/')
        *ret_why = "its name is absolute";
    char *out = name;
    for (const char *at = name; *at && !*ret_why;) {
        size_t len = strcspn(at, "/");
        if (len == 2 && memcmp(at, "..", 2) == 0)
            *ret_why = "its name contains '..'";
        else if (len > 255)
            *ret_why = "a part of its name is longer than 255 bytes";
        else if (len > 0 && !(len == 1 && *at == '.')) {
            if (out > name)
                *out++ = '/';
            memmove(out, at, len);
            out += len;
        }
        at += len + (at[len] == '/');
    }
    if (*ret_why)
        return NULL;
    *out = 0;
    return name;
}

/* ---- writing ---- */

static void tarfmt_put_octal(char *field, size_t len, uint64_t value) {
    field[--len] = 0;
    while (len > 0) {
        field[--len] = (char)('0' + (value & 7));
        value >>= 3;
    }
}

static void tarfmt_put_head(uint8_t out[TAR_BLOCK_BYTES], char type, const char *name, const char *link, uint64_t size,
                            uint32_t mode, int64_t mtime, uint32_t uid, uint32_t gid) {
    struct tarfmt_head head;
    memset(&head, 0, sizeof head);
    size_t name_len = strlen(name), link_len = strlen(link);
    memcpy(head.name, name, name_len < sizeof head.name ? name_len : sizeof head.name);
    memcpy(head.link, link, link_len < sizeof head.link ? link_len : sizeof head.link);
    tarfmt_put_octal(head.mode, sizeof head.mode, mode);
    tarfmt_put_octal(head.uid, sizeof head.uid, uid <= 07777777 ? uid : 0);
    tarfmt_put_octal(head.gid, sizeof head.gid, gid <= 07777777 ? gid : 0);
    tarfmt_put_octal(head.size, sizeof head.size, size <= 077777777777ull ? size : 0);
    tarfmt_put_octal(head.mtime, sizeof head.mtime, mtime > 0 && mtime <= 077777777777ll ? (uint64_t)mtime : 0);
    head.type = type;
    memcpy(head.magic, "ustar", 6);
    memcpy(head.version, "00", 2);
    memcpy(out, &head, sizeof head);
    tarfmt_put_octal((char *)out + offsetof(struct tarfmt_head, checksum), 7, tarfmt_checksum(out));
    out[offsetof(struct tarfmt_head, checksum) + 7] = ' ';
}

/* Appends a record, whose length includes its own digits. */
static size_t tarfmt_put_record(char *out, size_t at, size_t size, const char *key, const char *value) {
    size_t body = strlen(key) + strlen(value) + 3, len = body + 1;
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", len) + body != len)
        len++;
    return at + (size_t)snprintf(out + at, size - at, "%s %s=%s\n", digits, key, value);
}

size_t tar_format(uint8_t out[TAR_HEAD_BYTES], const struct tar_entry *entry, uint32_t uid, uint32_t gid) {
    char records[2 * TAR_NAME_BYTES + TAR_BLOCK_BYTES];
    size_t len = 0, used = 0;
    if (strlen(entry->name) > 100)
        len = tarfmt_put_record(records, len, sizeof records, "path", entry->name);
    if (strlen(entry->link) > 100)
        len = tarfmt_put_record(records, len, sizeof records, "linkpath", entry->link);
    if (entry->size > 077777777777ull) {
        char digits[24];
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)entry->size);
        len = tarfmt_put_record(records, len, sizeof records, "size", digits);
    }
    if (len > 0) {
        size_t padded = len + tar_padding(len);
        tarfmt_put_head(out, TAR_PAX, "pax", "", len, 0644, entry->mtime, 0, 0);
        memset(out + TAR_BLOCK_BYTES, 0, padded);
        memcpy(out + TAR_BLOCK_BYTES, records, len);
        used = TAR_BLOCK_BYTES + padded;
    }
    tarfmt_put_head(out + used, entry->type, entry->name, entry->link, entry->size, entry->mode, entry->mtime, uid,
                    gid);
    return used + TAR_BLOCK_BYTES;
}
