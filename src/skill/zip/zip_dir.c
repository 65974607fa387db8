/* The bytes of a ZIP archive: its end record, central directory and local heads. Called by zip.c. Invariant: every
 * number is untrusted. The central directory must end where the end record begins, and a local head must agree with its
 * row: no other reader may see other files in an archive than we do. */
#include <zlib.h>

#include "base/base.h"
#include "skill/zip/zip_dir.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    TAIL_BYTES = 65535 + END_BYTES + LOCATOR_BYTES, /* a comment has at most 65535 bytes */
    EXTRA_SIZES = 0x0001,
    EXTRA_UNICODE_PATH = 0x7075,
};
#define SIGN_LOCAL 0x04034b50u
#define SIGN_CENTRAL 0x02014b50u
#define SIGN_END 0x06054b50u
#define SIGN_END64 0x06064b50u
#define SIGN_LOCATOR 0x07064b50u
#define MAX16 0xffffu
#define MAX32 0xffffffffu

static int zip_read_at(int fd, void *data, size_t len, uint64_t offset, struct err *err) {
    ssize_t n = fd_read_at(fd, data, len, offset);
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read the archive");
    return (size_t)n < len ? err_set(err, ERR_INVALID, "the archive is cut off") : 0;
}

static uint32_t zip_peek(const uint8_t *at) {
    struct view view = view_of(at, 4);
    return view_u32(&view);
}

/* ---- the end ---- */

struct zip_end {
    uint64_t offset;             /* where it begins, or the ZIP64 one before it */
    uint64_t count, size, start; /* entries, bytes and offset of the central directory */
};

/* The ZIP64 end record must agree with the small one, wherever that one holds a number. */
static int zip_end64(int fd, const uint8_t *locator, uint64_t locator_at, struct zip_end *end, struct err *err) {
    struct view view = view_of(locator + 4, LOCATOR_BYTES - 4);
    uint32_t disk = view_u32(&view);
    uint64_t at = view_u64(&view);
    uint32_t disks = view_u32(&view);
    uint8_t record[END64_BYTES];
    if (disk || disks > 1 || locator_at < END64_BYTES || at > locator_at - END64_BYTES)
        return err_set(err, ERR_INVALID, "the archive is one of several volumes, or its ZIP64 end lies outside");
    TRY(zip_read_at(fd, record, sizeof record, at, err));
    view = view_of(record, sizeof record);
    uint32_t sign = view_u32(&view);
    uint64_t length = view_u64(&view);
    view_u32(&view); /* versions */
    uint32_t this_disk = view_u32(&view), first_disk = view_u32(&view);
    uint64_t here = view_u64(&view), count = view_u64(&view), size = view_u64(&view), start = view_u64(&view);
    if (sign != SIGN_END64 || length != locator_at - at - 12 || this_disk || first_disk || here != count ||
        (end->count != MAX16 && end->count != count) || (end->size != MAX32 && end->size != size) ||
        (end->start != MAX32 && end->start != start))
        return err_set(err, ERR_INVALID, "the archive's two end records contradict each other");
    *end = (struct zip_end){.offset = at, .count = count, .size = size, .start = start};
    return 0;
}

/* tail: the last bytes of the file. at: offset of the end record in tail. */
static int zip_end_parse(int fd, const uint8_t *tail, size_t at, uint64_t tail_offset, struct zip_end *ret_end,
                         struct err *err) {
    struct view view = view_of(tail + at + 4, END_BYTES - 4);
    uint16_t disk = view_u16(&view), first_disk = view_u16(&view), here = view_u16(&view), count = view_u16(&view);
    struct zip_end end = {.offset = tail_offset + at, .count = count};
    end.size = view_u32(&view);
    end.start = view_u32(&view);
    if ((disk && disk != MAX16) || (first_disk && first_disk != MAX16) || here != count)
        return err_set(err, ERR_INVALID, "the archive is one of several volumes");
    if (at >= LOCATOR_BYTES && zip_peek(tail + at - LOCATOR_BYTES) == SIGN_LOCATOR)
        TRY(zip_end64(fd, tail + at - LOCATOR_BYTES, end.offset - LOCATOR_BYTES, &end, err));
    if (end.start > end.offset || end.size != end.offset - end.start)
        return err_set(err, ERR_INVALID, "the archive's directory is not where its end record says");
    *ret_end = end;
    return 0;
}

static int zip_end_find(int fd, uint64_t file_bytes, struct zip_end *ret_end, struct err *err) {
    size_t len = file_bytes < TAIL_BYTES ? (size_t)file_bytes : TAIL_BYTES;
    autobuf tail = buf_max(TAIL_BYTES);
    uint8_t head[4] = {0};
    if (len < END_BYTES)
        return err_set(err, ERR_INVALID, "this is not a ZIP archive");
    TRY(zip_read_at(fd, head, sizeof head, 0, err)
            ?: zip_read_at(fd, buf_reserve(&tail, len), len, file_bytes - len, err));
    for (size_t at = len - END_BYTES + 1; at-- > 0;) {
        const uint8_t *end = tail.data + at;
        size_t comment = (size_t)(end[20] | end[21] << 8);
        if (zip_peek(end) == SIGN_END && at + END_BYTES + comment == len)
            return zip_end_parse(fd, tail.data, at, file_bytes - len, ret_end, err);
    }
    return err_set(err, ERR_INVALID, "%s",
                   zip_peek(head) == SIGN_LOCAL ? "the archive is cut off: it has no end record"
                                                : "this is not a ZIP archive");
}

/* ---- rows ---- */

/* Reads the next field of an extra area. A few bytes of padding at its end are common. */
static bool zip_extra_next(struct view *extra, uint16_t *ret_id, struct view *ret_field) {
    if (extra->len < 4)
        return false;
    *ret_id = view_u16(extra);
    uint16_t len = view_u16(extra);
    const uint8_t *data = view_take(extra, len);
    if (!data)
        return false;
    *ret_field = view_of(data, len);
    return true;
}

/* Reads sizes that do not fit into 32 bits, in this order. Each is present only if its small field is 0xffffffff. */
static int zip_extra_sizes(struct view extra, uint64_t *size, uint64_t *packed, uint64_t *head, const char *name,
                           struct err *err) {
    uint64_t *const wide[] = {size, packed, head};
    bool needed = *size == MAX32 || *packed == MAX32 || (head && *head == MAX32);
    struct view field;
    uint16_t id;
    while (zip_extra_next(&extra, &id, &field)) {
        if (id != EXTRA_SIZES || !needed)
            continue;
        for (size_t i = 0; i < 3; i++)
            if (wide[i] && *wide[i] == MAX32)
                *wide[i] = view_u64(&field);
        needed = false;
        extra.bad |= field.bad;
    }
    if (needed || extra.bad)
        return err_set(err, ERR_INVALID, "entry '%s': its extra fields are malformed", name);
    return 0;
}

/* Field 0x7075: the name in UTF-8, with the CRC of the name that it belongs to. */
static void zip_extra_unicode(struct view extra, struct zip_raw *raw) {
    struct view field;
    uint16_t id;
    while (zip_extra_next(&extra, &id, &field)) {
        if (id != EXTRA_UNICODE_PATH)
            continue;
        uint8_t version = view_u8(&field);
        uint32_t crc = view_u32(&field);
        if (field.bad || version != 1 || crc != crc32(0, (const Bytef *)raw->name, raw->name_len))
            continue;
        raw->unicode = (const char *)field.data;
        raw->unicode_len = (uint16_t)field.len;
    }
}

static int zip_row_parse(struct view *view, struct zip_raw *raw, struct err *err) {
    char shown[ZIP_SHOWN_BYTES];
    bool sign = view_u32(view) == SIGN_CENTRAL;
    raw->host = view_u16(view) >> 8;
    view_u16(view); /* version needed */
    raw->flags = view_u16(view);
    raw->method = view_u16(view);
    raw->dos_time = view_u16(view);
    raw->dos_date = view_u16(view);
    raw->crc = view_u32(view);
    raw->packed = view_u32(view);
    raw->size = view_u32(view);
    raw->name_len = view_u16(view);
    uint16_t extra_len = view_u16(view), comment_len = view_u16(view), disk = view_u16(view);
    view_u16(view); /* inner attributes */
    raw->attributes = view_u32(view);
    raw->head = view_u32(view);
    raw->name = (const char *)view_take(view, raw->name_len);
    struct view extra = view_of(view_take(view, extra_len), extra_len);
    view_take(view, comment_len);
    if (view->bad || !sign)
        return err_set(err, ERR_INVALID, "the archive's directory is malformed");
    if (disk && disk != MAX16)
        return err_set(err, ERR_INVALID, "the archive is one of several volumes");
    zip_extra_unicode(extra, raw);
    return zip_extra_sizes(extra, &raw->size, &raw->packed, &raw->head, zip_shown(shown, raw->name, raw->name_len),
                           err);
}

int zip_dir_read(int fd, uint64_t file_bytes, size_t max, struct arena *arena, struct zip_dir *ret_dir,
                 struct err *err) {
    struct zip_end end = {0};
    TRY(zip_end_find(fd, file_bytes, &end, err));
    if (end.count > max)
        return err_set(err, ERR_TOO_LARGE, "the archive has %llu entries; the limit is %zu",
                       (unsigned long long)end.count, max);
    if (end.size > ZIP_DIRECTORY_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the archive's directory is too large: %llu bytes",
                       (unsigned long long)end.size);
    if (end.count > end.size / ZIP_CENTRAL_BYTES)
        return err_set(err, ERR_INVALID, "the archive's directory is shorter than its end record says");
    uint8_t *bytes = arena_alloc(arena, (size_t)end.size + 1);
    struct zip_raw *raws = arena_alloc(arena, ((size_t)end.count + 1) * sizeof *raws);
    int r = zip_read_at(fd, bytes, (size_t)end.size, end.start, err);
    struct view view = view_of(bytes, (size_t)end.size);
    for (size_t i = 0; r == 0 && i < end.count; i++)
        r = zip_row_parse(&view, &raws[i], err);
    if (r < 0)
        return r;
    if (view.len)
        return err_set(err, ERR_INVALID, "the archive's directory has more entries than its end record says");
    *ret_dir = (struct zip_dir){.bytes = bytes, .raws = raws, .count = (size_t)end.count, .at = end.start};
    return 0;
}

/* ---- local heads ---- */

/* If the numbers follow the content, the head may have zeros. */
static bool zip_same_number(uint64_t local, uint64_t central, const struct zip_raw *raw) {
    return local == central || (local == 0 && (raw->flags & ZIP_FLAG_DESCRIPTOR));
}

int zip_dir_local(int fd, const struct zip_dir *dir, struct zip_raw *raw, struct err *err) {
    const uint16_t compared = ZIP_FLAG_ENCRYPTED | ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_UTF8;
    char shown[ZIP_SHOWN_BYTES];
    const char *name = zip_shown(shown, raw->name, raw->name_len);
    autobuf bytes = buf_max(ZIP_LOCAL_BYTES + 2 * MAX16); /* a name and an extra area */
    size_t named = ZIP_LOCAL_BYTES + (size_t)raw->name_len;
    if (raw->head > dir->at || dir->at - raw->head < named)
        return err_set(err, ERR_INVALID, "entry '%s' is outside the archive", name);
    int r = zip_read_at(fd, buf_reserve(&bytes, named), named, raw->head, err);
    if (r < 0)
        return r;
    struct view view = view_of(bytes.data, ZIP_LOCAL_BYTES);
    bool sign = view_u32(&view) == SIGN_LOCAL;
    view_u16(&view); /* version needed */
    uint16_t flags = view_u16(&view), method = view_u16(&view);
    view_u32(&view); /* time */
    uint32_t crc = view_u32(&view);
    uint64_t packed = view_u32(&view), size = view_u32(&view);
    uint16_t name_len = view_u16(&view), extra_len = view_u16(&view);
    uint64_t content = raw->head + ZIP_LOCAL_BYTES + name_len + extra_len;
    if (!sign || content > dir->at || raw->packed > dir->at - content)
        return err_set(err, ERR_INVALID, "entry '%s' is outside the archive", name);
    bytes.len = named;
    if (extra_len && (size == MAX32 || packed == MAX32)) {
        uint8_t *extra = buf_reserve(&bytes, extra_len);
        r = zip_read_at(fd, extra, extra_len, content - extra_len, err)
                ?: zip_extra_sizes(view_of(extra, extra_len), &size, &packed, NULL, name, err);
        if (r < 0)
            return r;
    }
    if (name_len != raw->name_len || memcmp(bytes.data + ZIP_LOCAL_BYTES, raw->name, raw->name_len) != 0 ||
        (flags & compared) != (raw->flags & compared) || method != raw->method ||
        !zip_same_number(crc, raw->crc, raw) || !zip_same_number(size, raw->size, raw) ||
        !zip_same_number(packed, raw->packed, raw))
        return err_set(err, ERR_INVALID, "entry '%s': the archive's directory and the head before its content differ",
                       name);
    raw->content = content;
    return 0;
}
