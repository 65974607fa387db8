/* The type of a file by its first bytes. Called by read_file. Invariant: every offset is checked against len; the
 * bytes are untrusted. */
#include "tool/offload/sniff.h"

#include <string.h>

struct sniff_magic {
    const char *bytes;
    unsigned len, at;
    const char *what, *type, *with;
};

#define MAGIC(text) text, sizeof(text) - 1

static const struct sniff_magic sniff_table[] = {
    {MAGIC("\x89PNG\r\n\x1a\n"), 0, "a PNG image", "image/png", NULL},
    {MAGIC("\xff\xd8\xff"), 0, "a JPEG image", "image/jpeg", NULL},
    {MAGIC("GIF87a"), 0, "a GIF image", "image/gif", NULL},
    {MAGIC("GIF89a"), 0, "a GIF image", "image/gif", NULL},
    {MAGIC("WEBP"), 8, "a WebP image", "image/webp", NULL},
    {MAGIC("%PDF-"), 0, "a PDF document", NULL, "pdftotext"},
    {MAGIC("PK\x03\x04"), 0, "a ZIP archive (which .xlsx, .docx, .pptx and .jar files are too)", NULL,
     "unzip, or openpyxl and pandas for spreadsheets"},
    {MAGIC("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), 0, "an old Microsoft Office document", NULL, "libreoffice"},
    {MAGIC("\x7f"
           "ELF"),
     0, "an ELF program or library", NULL, "readelf, objdump or strings"},
    {MAGIC("SQLite format 3\0"), 0, "an SQLite database", NULL, "sqlite3"},
    {MAGIC("\x1f\x8b"), 0, "gzip-compressed data", NULL, "zcat or tar"},
    {MAGIC("BZh"), 0, "bzip2-compressed data", NULL, "bzcat or tar"},
    {MAGIC("\xfd"
           "7zXZ\0"),
     0, "xz-compressed data", NULL, "xzcat or tar"},
    {MAGIC("\x28\xb5\x2f\xfd"), 0, "zstd-compressed data", NULL, "zstdcat or tar"},
    {MAGIC("7z\xbc\xaf\x27\x1c"), 0, "a 7-Zip archive", NULL, "7z"},
    {MAGIC("ustar"), 257, "a tar archive", NULL, "tar"},
    {MAGIC("\0asm"), 0, "a WebAssembly module", NULL, NULL},
    {MAGIC("\xca\xfe\xba\xbe"), 0, "a Java class or a Mach-O program", NULL, "javap or strings"},
    {MAGIC("\xcf\xfa\xed\xfe"), 0, "a Mach-O program", NULL, "strings"},
    {MAGIC("II*\0"), 0, "a TIFF image", NULL, "a library for images"},
    {MAGIC("MM\0*"), 0, "a TIFF image", NULL, "a library for images"},
    {MAGIC("BM"), 0, "a BMP image", NULL, "a library for images"},
    {MAGIC("\0\0\1\0"), 0, "an icon", NULL, "a library for images"},
    {MAGIC("ftyp"), 4, "a video, or a HEIC or AVIF image", NULL, "ffmpeg"},
    {MAGIC("OggS"), 0, "Ogg audio or video", NULL, "ffmpeg"},
    {MAGIC("ID3"), 0, "MP3 audio", NULL, "ffmpeg"},
    {MAGIC("fLaC"), 0, "FLAC audio", NULL, "ffmpeg"},
    {MAGIC("WAVE"), 8, "WAVE audio", NULL, "ffmpeg"},
    {MAGIC("wOF2"), 0, "a font", NULL, NULL},
    {MAGIC("PAR1"), 0, "a Parquet table", NULL, "pandas with pyarrow"},
    {MAGIC("\x93NUMPY"), 0, "a NumPy array", NULL, "numpy.load"},
    {MAGIC("\xff\xfe\0\0"), 0, "UTF-32 text", NULL, "iconv"},
    {MAGIC("\0\0\xfe\xff"), 0, "UTF-32 text", NULL, "iconv"},
};

bool sniff_known(const uint8_t *head, size_t len, struct sniff *ret_sniff) {
    for (size_t i = 0; i < sizeof sniff_table / sizeof *sniff_table; i++) {
        const struct sniff_magic *magic = &sniff_table[i];
        if (len < magic->at + magic->len || memcmp(head + magic->at, magic->bytes, magic->len) != 0)
            continue;
        *ret_sniff = (struct sniff){.kind = magic->type ? SNIFF_IMAGE : SNIFF_BINARY,
                                    .what = magic->what,
                                    .type = magic->type,
                                    .with = magic->with};
        return true;
    }
    return false;
}

void sniff_head(const uint8_t *head, size_t len, struct sniff *ret_sniff) {
    *ret_sniff = (struct sniff){.kind = SNIFF_TEXT};
    bool wide = len >= 2;
    bool four = len >= 4 && !head[2] && !head[3];
    if (wide && head[0] == 0xff && head[1] == 0xfe && !four) {
        ret_sniff->kind = SNIFF_UTF16LE;
        return;
    }
    if (wide && head[0] == 0xfe && head[1] == 0xff) {
        ret_sniff->kind = SNIFF_UTF16BE;
        return;
    }
    bool strange = memchr(head, 0, len) || (len >= 5 && memcmp(head, "%PDF-", 5) == 0);
    if (strange && !sniff_known(head, len, ret_sniff))
        ret_sniff->kind = SNIFF_BINARY;
}

static unsigned sniff_big(const uint8_t *at, unsigned bytes) {
    unsigned value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static unsigned sniff_little(const uint8_t *at, unsigned bytes) {
    unsigned value = 0;
    for (unsigned i = bytes; i > 0; i--)
        value = value << 8 | at[i - 1];
    return value;
}

/* Skips segments up to the one that begins a frame. */
static bool sniff_jpeg(const uint8_t *data, size_t len, unsigned *ret_width, unsigned *ret_height) {
    for (size_t at = 2; at + 9 <= len && data[at] == 0xff;) {
        uint8_t kind = data[at + 1];
        if (kind == 0xff) { /* padding */
            at++;
            continue;
        }
        if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc) {
            *ret_height = sniff_big(data + at + 5, 2);
            *ret_width = sniff_big(data + at + 7, 2);
            return true;
        }
        at += 2 + sniff_big(data + at + 2, 2);
    }
    return false;
}

bool sniff_size(const uint8_t *data, size_t len, unsigned *ret_width, unsigned *ret_height) {
    if (len >= 24 && memcmp(data, "\x89PNG", 4) == 0) {
        *ret_width = sniff_big(data + 16, 4);
        *ret_height = sniff_big(data + 20, 4);
        return true;
    }
    if (len >= 10 && memcmp(data, "GIF8", 4) == 0) {
        *ret_width = sniff_little(data + 6, 2);
        *ret_height = sniff_little(data + 8, 2);
        return true;
    }
    if (len >= 12 && memcmp(data + 8, "WEBP", 4) == 0) {
        if (len < 30)
            return false;
        if (memcmp(data + 12, "VP8X", 4) == 0) {
            *ret_width = sniff_little(data + 24, 3) + 1;
            *ret_height = sniff_little(data + 27, 3) + 1;
        } else if (memcmp(data + 12, "VP8L", 4) == 0) {
            unsigned bits = sniff_little(data + 21, 4);
            *ret_width = (bits & 0x3fff) + 1;
            *ret_height = (bits >> 14 & 0x3fff) + 1;
        } else if (memcmp(data + 12, "VP8 ", 4) == 0) {
            *ret_width = sniff_little(data + 26, 2) & 0x3fff;
            *ret_height = sniff_little(data + 28, 2) & 0x3fff;
        } else {
            return false;
        }
        return true;
    }
    return len >= 4 && memcmp(data, "\xff\xd8\xff", 3) == 0 && sniff_jpeg(data, len, ret_width, ret_height);
}
