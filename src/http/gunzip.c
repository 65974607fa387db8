/* gzip by zlib, as a stream. Called by handlers of ROUTE_CODED. Invariant: damaged or truncated input is an error,
 * never a shorter content. */
#include <zlib.h>

#include "base/base.h"
#include "http/gunzip.h"

enum { PACKED_BYTES = 32 << 10, GZIP_WINDOW = 15 + 16 };

struct gunzip {
    gunzip_source source;
    void *user;
    z_stream stream;
    bool broken, whole; /* whole: a member ended; another may follow */
    uint8_t packed[PACKED_BYTES];
};

struct gunzip *gunzip_new(gunzip_source source, void *user) {
    struct gunzip *gunzip = xcalloc(1, sizeof *gunzip);
    gunzip->source = source;
    gunzip->user = user;
    gunzip->broken = inflateInit2(&gunzip->stream, GZIP_WINDOW) != Z_OK;
    return gunzip;
}

void gunzip_free(struct gunzip *gunzip) {
    if (gunzip)
        inflateEnd(&gunzip->stream);
    free(gunzip);
}

static int gunzip_malformed(struct gunzip *gunzip, const char *why, struct err *err) {
    gunzip->broken = true;
    return err_set(err, ERR_INVALID, "the body is not valid gzip: %s", why);
}

/* Returns 1 if there are packed bytes, 0 if all were read. */
static int gunzip_fill(struct gunzip *gunzip, struct err *err) {
    if (gunzip->stream.avail_in)
        return 1;
    ssize_t n = gunzip->source(gunzip->user, gunzip->packed, sizeof gunzip->packed, err);
    if (n <= 0)
        return (int)n;
    gunzip->stream.next_in = gunzip->packed;
    gunzip->stream.avail_in = (uInt)n;
    return 1;
}

ssize_t gunzip_read(void *user, void *data, size_t size, struct err *err) {
    struct gunzip *gunzip = user;
    z_stream *stream = &gunzip->stream;
    size_t most = size < PACKED_BYTES * 8 ? size : PACKED_BYTES * 8;
    if (gunzip->broken)
        return err_set(err, ERR_INVALID, "the body is not valid gzip");
    stream->next_out = data;
    stream->avail_out = (uInt)most;
    while (stream->avail_out == most) {
        int r = gunzip_fill(gunzip, err);
        TRY(r);
        if (r == 0)
            return gunzip->whole ? 0 : gunzip_malformed(gunzip, "it ends early", err);
        if (gunzip->whole && inflateReset(stream) != Z_OK)
            return gunzip_malformed(gunzip, "it cannot be decompressed", err);
        gunzip->whole = false;
        r = inflate(stream, Z_NO_FLUSH);
        gunzip->whole = r == Z_STREAM_END;
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return gunzip_malformed(gunzip, stream->msg ? stream->msg : "it is damaged", err);
    }
    return (ssize_t)(most - stream->avail_out);
}
