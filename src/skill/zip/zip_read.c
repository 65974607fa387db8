/* Contents of a checked archive: inflated piece by piece and compared with their entries. Called by uploads. Invariant:
 * an entry yields exactly as many bytes as were added up when the archive was checked, whatever its content is. */
#include <time.h>
#include <zlib.h>

#include "base/base.h"
#include "tree/tarfmt.h"
#include "skill/zip/zip_dir.h"

enum { READ_BYTES = 64 << 10 };

struct zip_stream { /* reads one entry after the other */
    const struct zip *zip;
    const struct zip_raw *raw;
    z_stream inflate;
    bool inflates, ended;
    uint64_t at, left; /* in the packed content: next offset, bytes left */
    uint64_t out;      /* bytes yielded */
    uint32_t crc;
    uint8_t in[READ_BYTES];
};

static struct zip_stream *zip_stream_new(const struct zip *zip) {
    struct zip_stream *stream = xcalloc(1, sizeof *stream);
    xensure(inflateInit2(&stream->inflate, -MAX_WBITS) == Z_OK);
    stream->zip = zip;
    return stream;
}

static void zip_stream_free(struct zip_stream *stream) {
    inflateEnd(&stream->inflate);
    free(stream);
}

static void zip_stream_begin(struct zip_stream *stream, const struct zip_raw *raw) {
    stream->raw = raw;
    stream->inflates = raw->method == ZIP_DEFLATED;
    stream->ended = false;
    stream->at = raw->content;
    stream->left = raw->packed;
    stream->out = 0;
    stream->crc = 0;
    if (stream->inflates)
        inflateReset(&stream->inflate);
    stream->inflate.avail_in = 0;
}

/* Reads the next packed bytes, at most size. */
static ssize_t zip_stream_fetch(struct zip_stream *stream, void *data, size_t size, struct err *err) {
    if (size > stream->left)
        size = (size_t)stream->left;
    ssize_t n = fd_read_at(stream->zip->fd, data, size, stream->at);
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read the archive");
    if (n == 0 && size)
        return zip_refuse(stream->raw, ERR_INVALID, err, "the archive was truncated while it was read");
    stream->at += (uint64_t)n;
    stream->left -= (uint64_t)n;
    return n;
}

/* Inflates one step. Returns the bytes made; 0: none yet, or the end. */
static ssize_t zip_stream_inflate(struct zip_stream *stream, void *data, size_t size, struct err *err) {
    z_stream *inflater = &stream->inflate;
    if (inflater->avail_in == 0) {
        ssize_t n = zip_stream_fetch(stream, stream->in, sizeof stream->in, err);
        if (n < 0)
            return n;
        if (n == 0)
            return zip_refuse(stream->raw, ERR_INVALID, err, "its content is cut off");
        inflater->next_in = stream->in;
        inflater->avail_in = (uInt)n;
    }
    inflater->next_out = data;
    inflater->avail_out = (uInt)size;
    int r = inflate(inflater, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return zip_refuse(stream->raw, ERR_INVALID, err, "its content is damaged");
    stream->ended = r == Z_STREAM_END;
    if (stream->ended && (inflater->avail_in || stream->left))
        return zip_refuse(stream->raw, ERR_INVALID, err, "it has data after the end of its content");
    return (ssize_t)(size - inflater->avail_out);
}

static int zip_stream_finish(struct zip_stream *stream, struct err *err) {
    uint8_t more;
    stream->ended |=
        stream->raw->packed == 0 && stream->raw->size == 0; /* some writers deflate an empty file to nothing */
    while (stream->inflates && !stream->ended) {
        ssize_t n = zip_stream_inflate(stream, &more, 1, err);
        if (n < 0)
            return (int)n;
        if (n > 0)
            return zip_refuse(stream->raw, ERR_INVALID, err, "it unpacks to more than it says");
    }
    if (stream->crc != stream->raw->crc)
        return zip_refuse(stream->raw, ERR_INVALID, err, "its content is damaged: the CRC differs");
    return 0;
}

/* Returns at most size bytes; 0 at the end, when everything was correct. size is at most some MiB. */
static ssize_t zip_stream_read(struct zip_stream *stream, void *data, size_t size, struct err *err) {
    uint64_t left = stream->raw->size - stream->out;
    if (left == 0)
        return zip_stream_finish(stream, err);
    if (size > left)
        size = (size_t)left;
    ssize_t n = 0;
    if (!stream->inflates)
        n = zip_stream_fetch(stream, data, size, err);
    while (stream->inflates && n == 0) {
        if (stream->ended)
            return zip_refuse(stream->raw, ERR_INVALID, err, "it unpacks to less than it says");
        n = zip_stream_inflate(stream, data, size, err);
    }
    if (n <= 0)
        return n;
    stream->crc = (uint32_t)crc32(stream->crc, data, (uInt)n);
    stream->out += (uint64_t)n;
    return n;
}

int zip_read(struct zip *zip, size_t i, int (*sink)(void *user, const uint8_t *data, size_t len), void *user,
             struct err *err) {
    if (!zip->items[i].raw || zip->items[i].entry.dir)
        return 0;
    uint8_t *data = xmalloc(READ_BYTES);
    struct zip_stream *stream = zip_stream_new(zip);
    zip_stream_begin(stream, zip->items[i].raw);
    ssize_t n;
    while ((n = zip_stream_read(stream, data, READ_BYTES, err)) > 0) {
        int r = sink(user, data, (size_t)n);
        if (r < 0) {
            n = err_set(err, err_from_wire((unsigned)-r), "the content of '%s' was not accepted",
                        zip->items[i].entry.path);
            break;
        }
    }
    zip_stream_free(stream);
    free(data);
    return (int)n;
}

/* ---- tar ---- */

struct zip_tar {
    struct zip *zip;
    struct zip_stream *stream;
    size_t next;          /* item */
    bool content, closed; /* inside the content of item next - 1; the end was written */
    uint64_t padding;
    size_t head_len, head_at;
    struct tar_entry entry;
    uint8_t head[TAR_HEAD_BYTES];
};

struct zip_tar *zip_tar_new(struct zip *zip) {
    struct zip_tar *tar = xcalloc(1, sizeof *tar);
    tar->zip = zip;
    tar->stream = zip_stream_new(zip);
    return tar;
}

void zip_tar_free(struct zip_tar *tar) {
    if (!tar)
        return;
    zip_stream_free(tar->stream);
    free(tar);
}

/* DOS times have no zone and are read as UTC. An invalid date becomes the earliest one. */
static int64_t zip_dos_time(const struct zip_raw *raw) {
    struct tm tm = {.tm_year = (raw->dos_date >> 9) + 80,
                    .tm_mon = (raw->dos_date >> 5 & 15) - 1,
                    .tm_mday = raw->dos_date & 31,
                    .tm_hour = raw->dos_time >> 11,
                    .tm_min = raw->dos_time >> 5 & 63,
                    .tm_sec = 2 * (raw->dos_time & 31)};
    time_t time = timegm(&tm);
    return time < 315532800 ? 315532800 : time;
}

static void zip_tar_begin(struct zip_tar *tar) {
    const struct zip_item *item = &tar->zip->items[tar->next++];
    if (item->entry.loose)
        return;
    size_t len = strlen(item->entry.path);
    tar_reset(&tar->entry);
    tar->entry.type = item->entry.dir ? TAR_DIR : TAR_FILE;
    memcpy(tar->entry.name, item->entry.path, len + 1); /* zip_name bounds it */
    if (item->entry.dir)
        memcpy(tar->entry.name + len, "/", 2);
    tar->entry.size = item->entry.size;
    tar->entry.mode = item->entry.dir || item->entry.executable ? 0755 : 0644;
    tar->entry.mtime = item->raw ? zip_dos_time(item->raw) : 315532800;
    tar->head_len = tar_format(tar->head, &tar->entry, 0, 0);
    tar->head_at = 0;
    tar->content = !item->entry.dir;
    if (tar->content)
        zip_stream_begin(tar->stream, item->raw);
}

/* Returns some bytes of the stream; 0: the next step follows. */
static ssize_t zip_tar_step(struct zip_tar *tar, uint8_t *data, size_t size, struct err *err) {
    size_t n = tar->head_len - tar->head_at;
    if (n) {
        n = n < size ? n : size;
        memcpy(data, tar->head + tar->head_at, n);
        tar->head_at += n;
        return (ssize_t)n;
    }
    if (tar->content) {
        ssize_t got = zip_stream_read(tar->stream, data, size, err);
        if (got == 0) {
            tar->content = false;
            tar->padding = tar_padding(tar->entry.size);
        }
        return got;
    }
    if (tar->padding) {
        n = tar->padding < size ? (size_t)tar->padding : size;
        memset(data, 0, n);
        tar->padding -= n;
        return (ssize_t)n;
    }
    if (tar->next < tar->zip->count) {
        zip_tar_begin(tar);
    } else if (!tar->closed) {
        tar->closed = true;
        tar->padding = 2ull * TAR_BLOCK_BYTES;
    }
    return 0;
}

ssize_t zip_tar_read(void *of, void *data, size_t size, struct err *err) {
    struct zip_tar *tar = of;
    size_t len = 0;
    while (len < size && !(tar->closed && !tar->padding)) {
        ssize_t n = zip_tar_step(tar, (uint8_t *)data + len, size - len, err);
        if (n < 0)
            return n;
        len += (size_t)n;
    }
    return (ssize_t)len;
}
