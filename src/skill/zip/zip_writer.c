/* Writes a ZIP archive as a stream: deflated contents, their sizes after them, a central directory at the end. Called
 * by downloads and by the command line. Invariant: the same entries and contents give the same bytes, and zip.c can
 * read them. */
#include <zlib.h>

#include "base/base.h"
#include "skill/zip/zip.h"

enum {
    OUT_BYTES = 64 << 10,
    VERSION_DEFLATE = 20,
    VERSION_WIDE = 45,
    MADE_BY_UNIX = 3 << 8,
    FLAG_SIZES_BEHIND = 0x8,
    FLAG_UTF8 = 0x800,
    METHOD_STORE = 0,
    METHOD_DEFLATE = 8,
    DOS_FIRST_DAY = 0x21, /* 1980-01-01 */
    DOS_DIR = 0x10,
    DIRECTORY_BYTES = 64 << 20,
};
#define MOST_BYTES 0xfffffffeull /* largest file and archive that 32 bits can describe */

struct zip_writer {
    int (*sink)(void *user, const uint8_t *data, size_t len);
    void *user;
    uint64_t at, count;
    struct buf directory; /* the central directory so far */
    z_stream deflate;
    bool open; /* inside an entry's content */
    struct {
        uint16_t flags, method;
        uint32_t crc, attributes;
        uint64_t size, left, packed, head;
        char *name;
        size_t name_len;
    } entry;
    uint8_t out[OUT_BYTES];
};

struct zip_writer *zip_writer_new(int (*sink)(void *user, const uint8_t *data, size_t len), void *user) {
    struct zip_writer *writer = xcalloc(1, sizeof *writer);
    xensure(deflateInit2(&writer->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) ==
            Z_OK);
    writer->sink = sink;
    writer->user = user;
    buf_init(&writer->directory, DIRECTORY_BYTES);
    return writer;
}

void zip_writer_free(struct zip_writer *writer) {
    if (!writer)
        return;
    deflateEnd(&writer->deflate);
    buf_done(&writer->directory);
    free(writer->entry.name);
    free(writer);
}

static int zip_put(struct zip_writer *writer, const void *data, size_t len, struct err *err) {
    if (len > MOST_BYTES - writer->at)
        return err_set(err, ERR_TOO_LARGE, "the archive would have more than 4 GiB");
    int r = len ? writer->sink(writer->user, data, len) : 0;
    if (r < 0)
        return err_set(err, err_from_wire((unsigned)-r), "the archive could not be written");
    writer->at += len;
    return 0;
}

static void zip_put_numbers(struct buf *out, const struct zip_writer *writer, bool known) {
    buf_u32(out, known ? writer->entry.crc : 0);
    buf_u32(out, known ? (uint32_t)writer->entry.packed : 0);
    buf_u32(out, known ? (uint32_t)writer->entry.size : 0);
}

/* The fields that a local head and a row of the directory share. */
static void zip_put_head(struct buf *out, const struct zip_writer *writer, bool known) {
    buf_u16(out, VERSION_DEFLATE);
    buf_u16(out, writer->entry.flags);
    buf_u16(out, writer->entry.method);
    buf_u16(out, 0);
    buf_u16(out, DOS_FIRST_DAY);
    zip_put_numbers(out, writer, known);
    buf_u16(out, (uint16_t)writer->entry.name_len);
    buf_u16(out, 0);
}

/* Deflates and sends. all: until nothing is left. */
static int zip_pack(struct zip_writer *writer, const void *data, size_t len, bool all, struct err *err) {
    z_stream *deflater = &writer->deflate;
    deflater->next_in = (Bytef *)(uintptr_t)data;
    deflater->avail_in = (uInt)len;
    for (;;) {
        deflater->next_out = writer->out;
        deflater->avail_out = OUT_BYTES;
        int state = deflate(deflater, all ? Z_FINISH : Z_NO_FLUSH);
        size_t made = OUT_BYTES - deflater->avail_out;
        TRY(zip_put(writer, writer->out, made, err));
        writer->entry.packed += made;
        if (all ? state == Z_STREAM_END : deflater->avail_out != 0)
            return 0;
    }
}

/* Ends the open entry: the rest of its content, its numbers, its row. */
static int zip_close_entry(struct zip_writer *writer, struct err *err) {
    if (!writer->open)
        return 0;
    writer->open = false;
    int r = 0;
    if (writer->entry.left)
        return err_set(err, ERR_IO, "'%s' shrank while it was read", writer->entry.name);
    if (writer->entry.method == METHOD_DEFLATE) {
        autobuf numbers = buf_max(64);
        r = zip_pack(writer, NULL, 0, true, err);
        buf_puts(&numbers, "PK\7\10");
        zip_put_numbers(&numbers, writer, true);
        if (r == 0)
            r = zip_put(writer, numbers.data, numbers.len, err);
    }
    struct buf *row = &writer->directory;
    buf_puts(row, "PK\1\2");
    buf_u16(row, MADE_BY_UNIX | VERSION_DEFLATE);
    zip_put_head(row, writer, true);
    buf_u16(row, 0); /* comment */
    buf_u16(row, 0); /* volume */
    buf_u16(row, 0);
    buf_u32(row, writer->entry.attributes);
    buf_u32(row, (uint32_t)writer->entry.head);
    buf_put(row, writer->entry.name, writer->entry.name_len);
    writer->count++;
    if (r == 0 && row->failed)
        r = err_set(err, ERR_TOO_LARGE, "the archive would have too many entries");
    return r;
}

int zip_writer_entry(struct zip_writer *writer, const struct zip_entry *entry, struct err *err) {
    TRY(zip_close_entry(writer, err));
    size_t len = strlen(entry->path);
    uint64_t size = entry->dir ? 0 : entry->size;
    if (len == 0 || len > UINT16_MAX - 1 || size > MOST_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%s' is too large for a ZIP archive", entry->path);
    free(writer->entry.name);
    writer->entry.name = xmalloc(len + 2);
    memcpy(writer->entry.name, entry->path, len);
    memcpy(writer->entry.name + len, entry->dir ? "/" : "", 2 - !entry->dir);
    uint32_t mode = entry->dir ? S_IFDIR | 0755 : entry->executable ? S_IFREG | 0755 : S_IFREG | 0644;
    writer->entry.name_len = len + entry->dir;
    writer->entry.method = size ? METHOD_DEFLATE : METHOD_STORE;
    writer->entry.flags = (uint16_t)((size ? FLAG_SIZES_BEHIND : 0) | (text_utf8(entry->path, len) ? FLAG_UTF8 : 0));
    writer->entry.crc = 0;
    writer->entry.attributes = mode << 16 | (entry->dir ? DOS_DIR : 0);
    writer->entry.size = writer->entry.left = size;
    writer->entry.packed = 0;
    writer->entry.head = writer->at;
    deflateReset(&writer->deflate);
    autobuf head = buf_max(30 + UINT16_MAX);
    buf_puts(&head, "PK\3\4");
    zip_put_head(&head, writer, size == 0);
    buf_put(&head, writer->entry.name, writer->entry.name_len);
    writer->open = true;
    return zip_put(writer, head.data, head.len, err);
}

int zip_writer_data(struct zip_writer *writer, const void *data, size_t len, struct err *err) {
    if (!writer->open || len > writer->entry.left)
        return err_set(err, ERR_IO, "'%s' grew while it was read", writer->open ? writer->entry.name : "");
    writer->entry.left -= len;
    for (size_t at = 0; at < len;) {
        size_t n = len - at < (1u << 30) ? len - at : 1u << 30; /* zlib counts in 32 bits */
        writer->entry.crc = (uint32_t)crc32(writer->entry.crc, (const Bytef *)data + at, (uInt)n);
        TRY(zip_pack(writer, (const uint8_t *)data + at, n, false, err));
        at += n;
    }
    return 0;
}

int zip_writer_end(struct zip_writer *writer, struct err *err) {
    int r = zip_close_entry(writer, err);
    autobuf end = buf_max(128);
    uint64_t start = writer->at, size = writer->directory.len;
    bool wide = writer->count >= UINT16_MAX;
    if (wide) { /* too many entries for 16 bits: a ZIP64 end record precedes the small one */
        buf_puts(&end, "PK\6\6");
        buf_u64(&end, 44); /* what follows */
        buf_u16(&end, MADE_BY_UNIX | VERSION_WIDE);
        buf_u16(&end, VERSION_WIDE);
        buf_u64(&end, 0); /* volumes */
        buf_u64(&end, writer->count);
        buf_u64(&end, writer->count);
        buf_u64(&end, size);
        buf_u64(&end, start);
        buf_puts(&end, "PK\6\7");
        buf_u32(&end, 0);
        buf_u64(&end, start + size);
        buf_u32(&end, 1);
    }
    uint16_t count = wide ? UINT16_MAX : (uint16_t)writer->count;
    buf_puts(&end, "PK\5\6");
    buf_u32(&end, 0);
    buf_u16(&end, count);
    buf_u16(&end, count);
    buf_u32(&end, (uint32_t)size);
    buf_u32(&end, (uint32_t)start);
    buf_u16(&end, 0);
    if (r == 0)
        r = zip_put(writer, writer->directory.data, writer->directory.len, err);
    return r < 0 ? r : zip_put(writer, end.data, end.len, err);
}
