/* read_file: shows a text file, a range of its lines, or an image. A row of tool_table.
 *
 * Invariants: 1. The shown text is exactly the content of the file, or the file is refused with the reason. 2. A
 * file is read once, in pieces, no further than needed to show its lines and count its characters; its size is never
 * trusted. 3. A file that changes while it is read is read again, and refused if it keeps changing. */
#include <poll.h>

#include "base/base.h"
#include "tool/decode.h"
#include "tool/offload/offload.h"
#include "tool/secret.h"
#include "tool/seen.h"
#include "tool/offload/sniff.h"
#include "tool/truncate.h"

enum {
    READ_PIECE_BYTES = 256 << 10,
    READ_LEAST_BYTES = 8 << 10,
    READ_TRIES = 3,
};
#define READ_KEPT_BYTES SPOOL_FILE_BYTES /* largest file kept for `recall`; longer ones are only truncated */
#define READ_COUNT_BYTES (64ull << 20)   /* how far characters are counted; the rest counts as ASCII */
#define READ_SCAN_BYTES (1ull << 30)     /* how far a line is searched for */
#define READ_IMAGE_BYTES (5u << 20)      /* largest image; common models accept this */

struct read_file_args {
    struct row_text path, encoding, description;
    struct row_number start_line, end_line;
    bool line_numbers;
};

static const struct row read_file_fields[] = {
    {ARG(read_file_args, path, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 4095,
     .text = "File to read; absolute, or relative to the working directory."},
    {ARG(read_file_args, start_line, INT), .max = INT64_MAX, .text = "First line to show, from 1."},
    {ARG(read_file_args, end_line, INT), .max = INT64_MAX, .text = "Last line to show, inclusive."},
    {ARG(read_file_args, line_numbers, BOOL), .text = "Prefix each line with its number and a tab."},
    {ARG(read_file_args, encoding, TEXT), .choices = "utf-8|utf-16le|utf-16be|latin-1",
     .text = "Encoding of the file, if it is not UTF-8 and has no byte order mark."},
    TOOL_DESCRIPTION(struct read_file_args),
    {.name = NULL},
};

struct tool_reading {
    struct tool_call *call;
    const char *path;
    unsigned tries;
    int fd;                /* -1: not on this machine; pieces come over the wire */
    struct file_stat stat; /* when it was opened */
    struct stat before;    /* if fd is open */
    struct decode decode;
    struct buf piece;
    size_t piece_bytes;
    /* lines */
    uint64_t start, end; /* end UINT64_MAX: to the last line */
    bool ranged, numbers;
    uint64_t line;      /* of the next character */
    bool begun;         /* a part of that line was seen */
    bool newline;       /* a selected newline that is not put yet: a range does not end with one */
    bool found;         /* a line was selected */
    uint64_t keep, put; /* bytes of text wanted, and put so far */
    uint64_t bytes, chars;
};

/* ---- the source ---- */

static int file_reading_sink(void *user, const uint8_t *data, size_t len) {
    buf_put(user, data, len);
    return 0;
}

/* Reads up to size bytes at offset into reading->piece; fewer only at the end of the file. */
static int file_reading_fetch(struct tool_reading *reading, uint64_t offset, size_t size, struct err *err) {
    struct buf *piece = &reading->piece;
    buf_clear(piece);
    if (reading->fd < 0)
        return box_read_stream(reading->call->box, reading->path, offset, size, reading->call->watch, file_reading_sink,
                               piece, err);
    uint8_t *data = buf_reserve(piece, size);
    while (piece->len < size) {
        ssize_t n = pread(reading->fd, data + piece->len, size - piece->len, (off_t)(offset + piece->len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "reading '%s'", reading->path);
        piece->len += (size_t)n;
        bool end = offset + piece->len == reading->stat.size; /* growth is noticed afterwards */
        if (n == 0 || end)
            break;
    }
    return 0;
}

static bool file_reading_changed(struct tool_reading *reading) {
    struct file_stat now;
    struct stat after, *before = &reading->before;
    if (reading->fd >= 0)
        return fstat(reading->fd, &after) < 0 || before->st_size != after.st_size ||
               memcmp(&before->st_mtim, &after.st_mtim, sizeof after.st_mtim) != 0 ||
               memcmp(&before->st_ctim, &after.st_ctim, sizeof after.st_ctim) != 0;
    return box_stat(reading->call->box, reading->path, reading->call->arena, &now, ERR_IGNORED) < 0 ||
           (now.type == FILE_REGULAR && (now.size != reading->stat.size || now.mtime_ns != reading->stat.mtime_ns));
}

/* ---- lines ---- */

static void file_reading_put(struct tool_reading *reading, const void *text, size_t len) {
    reading->chars += truncate_chars(text, len);
    reading->bytes += len;
    if (reading->put < reading->keep) {
        uint64_t room = reading->keep - reading->put;
        len = len < room ? len : (size_t)room;
        tool_put(reading->call, text, len);
        reading->put += len;
    }
}

static void file_reading_newline(struct tool_reading *reading) {
    if (reading->newline)
        file_reading_put(reading, "\n", 1);
    reading->newline = false;
}

/* Takes a part of one line, including its '\n' if it has one. */
static void file_reading_line(struct tool_reading *reading, const uint8_t *text, size_t len) {
    bool ends = text[len - 1] == '\n';
    reading->found = true;
    file_reading_newline(reading);
    if (reading->numbers && !reading->begun) {
        char number[32];
        int n = snprintf(number, sizeof number, "%6llu\t", (unsigned long long)reading->line);
        file_reading_put(reading, number, (size_t)n);
    }
    file_reading_put(reading, text, len - ends);
    reading->newline = ends;
}

/* Takes text of the file; the part in the range goes to the result. Returns false if the range is complete. */
static bool file_reading_take(struct tool_reading *reading, const uint8_t *text, size_t len) {
    if (!reading->ranged && !reading->numbers && len) { /* unchanged */
        reading->found = true;
        file_reading_put(reading, text, len);
        return true;
    }
    for (size_t at = 0; at < len;) {
        const uint8_t *newline = memchr(text + at, '\n', len - at);
        size_t n = newline ? (size_t)(newline - text) + 1 - at : len - at;
        if (reading->line > reading->end)
            return false;
        if (reading->line >= reading->start)
            file_reading_line(reading, text + at, n);
        reading->begun = !newline;
        reading->line += newline != NULL;
        at += n;
    }
    return reading->line <= reading->end;
}

/* Decides whether to stop reading at offset. */
static int file_reading_enough(struct tool_reading *reading, uint64_t offset, bool *ret_enough, struct err *err) {
    uint64_t size = reading->stat.size > offset ? reading->stat.size - offset : 0;
    *ret_enough = false;
    if (offset % (16 << 20) == 0) {
        /* A search may take long: stop if the client has gone. */
        struct pollfd client = {.fd = reading->call->watch, .events = POLLRDHUP};
        if (client.fd >= 0 && poll(&client, 1, 0) > 0 && client.revents)
            return err_set(err, ERR_GONE, "the client went away while '%s' was read", reading->path);
    }
    if (!reading->found && offset >= READ_SCAN_BYTES)
        return err_set(err, ERR_TOO_LARGE, "line %llu of %s is past its first %llu bytes; use bash (sed -n, tail)",
                       (unsigned long long)reading->start, reading->path, READ_SCAN_BYTES);
    bool full = reading->put >= reading->keep;
    if (full && offset >= (reading->end == UINT64_MAX ? READ_COUNT_BYTES : READ_SCAN_BYTES)) {
        reading->chars += size; /* the rest is not read */
        reading->bytes += size;
        *ret_enough = true;
    }
    return 0;
}

static int file_reading_text(struct tool_reading *reading, struct err *err) {
    for (uint64_t offset = 0;;) {
        const uint8_t *text;
        size_t len, fetched = reading->piece.len;
        bool last = fetched < reading->piece_bytes, enough;
        TRY(decode_piece(&reading->decode, reading->piece.data, fetched, last, &text, &len, err));
        offset += fetched;
        if ((len && !file_reading_take(reading, text, len)) || last)
            break;
        int code = file_reading_enough(reading, offset, &enough, err);
        if (code == 0 && !enough)
            code = file_reading_fetch(reading, offset, reading->piece_bytes, err);
        if (code < 0 || enough)
            return code;
    }
    if (!reading->ranged)
        file_reading_newline(reading);
    return 0;
}

static int file_reading_binary(struct tool_reading *reading, const struct sniff *sniff) {
    const char *with = sniff->with ? sniff->with : "a suitable program or library";
    return tool_fail(
        reading->call,
        "cannot read '%s' as text \u2014 it is %s (%llu bytes). read_file shows text, and PNG, JPEG, GIF and "
        "WebP images. Use bash with %s instead.",
        reading->path, sniff->what ? sniff->what : "a binary file", (unsigned long long)reading->stat.size, with);
}

static int file_reading_image(struct tool_reading *reading, const struct sniff *sniff, struct err *err) {
    struct tool_call *call = reading->call;
    unsigned width = 0, height = 0;
    TRY(reading->stat.size <= READ_IMAGE_BYTES ? file_reading_fetch(reading, 0, READ_IMAGE_BYTES + 1, err) : 0);
    if (reading->stat.size > READ_IMAGE_BYTES || reading->piece.len > READ_IMAGE_BYTES)
        return tool_fail(call, "'%s' is %s of %llu bytes; at most %u can be shown. Use bash to make a smaller copy.",
                         reading->path, sniff->what, (unsigned long long)reading->stat.size, READ_IMAGE_BYTES);
    buf_put(&call->result.image, reading->piece.data, reading->piece.len);
    call->result.image_type = sniff->type;
    tool_say(call, "%s: %s", reading->path, sniff->what);
    if (sniff_size(reading->piece.data, reading->piece.len, &width, &height))
        tool_say(call, ", %u x %u pixels", width, height);
    tool_say(call, ", %zu bytes", reading->piece.len);
    return 0;
}

/* ---- the call ---- */

static enum decode_kind file_reading_kind(const struct read_file_args *args, const struct sniff *sniff) {
    static const struct {
        const char *name;
        enum decode_kind kind;
    } names[] = {{"utf-16le", DECODE_UTF16LE}, {"utf-16be", DECODE_UTF16BE}, {"latin-1", DECODE_LATIN1}};
    for (size_t i = 0; args->encoding.data && i < sizeof names / sizeof *names; i++)
        if (strcmp(args->encoding.data, names[i].name) == 0)
            return names[i].kind;
    return sniff->kind == SNIFF_UTF16LE ? DECODE_UTF16LE : sniff->kind == SNIFF_UTF16BE ? DECODE_UTF16BE : DECODE_UTF8;
}

/* Begins to read. The answer shows the version that exists now, not the one that was there when the file was opened. */
static int file_reading_begin(struct tool_reading *reading, const struct read_file_args *args, struct err *err) {
    const struct tool_call *call = reading->call;
    if (reading->fd >= 0) {
        struct stat *now = &reading->before;
        if (fstat(reading->fd, now) < 0)
            return err_errno(err, errno, "'%s'", reading->path);
        reading->stat.size = (uint64_t)now->st_size;
        reading->stat.mtime_ns = (uint64_t)now->st_mtim.tv_sec * 1000000000u + (uint64_t)now->st_mtim.tv_nsec;
    } else if (reading->tries > 0) {
        TRY(box_read_open(reading->call->box, reading->path, &reading->fd, &reading->stat, err));
    }
    uint64_t size = reading->stat.size;
    reading->piece_bytes = size < READ_LEAST_BYTES   ? READ_LEAST_BYTES
                           : size < READ_PIECE_BYTES ? size + 1
                                                     : READ_PIECE_BYTES;
    struct tool_result *result = &reading->call->result;
    secret_forget(reading->call);
    spool_clear(&result->text);
    buf_clear(&result->image);
    reading->ranged = args->start_line.has || args->end_line.has;
    reading->numbers = args->line_numbers;
    reading->start = args->start_line.has ? args->start_line.value : 1;
    reading->end = args->end_line.has ? args->end_line.value : UINT64_MAX;
    reading->line = 1;
    reading->begun = reading->newline = reading->found = false;
    reading->put = reading->bytes = reading->chars = 0;
    /* The whole text is needed if it will be kept for `recall`; else only what can be shown. */
    uint64_t limit = truncate_limit(call);
    bool kept = call->settings->offload && !reading->ranged && reading->stat.size <= READ_KEPT_BYTES;
    reading->keep = limit == 0 || kept ? UINT64_MAX : 4 * limit + 4;
    result->ranged = reading->ranged;
    return file_reading_fetch(reading, 0, reading->piece_bytes, err);
}

static int file_reading_once(struct tool_reading *reading, const struct read_file_args *args, struct err *err) {
    struct sniff sniff;
    uint8_t head[SNIFF_BYTES];
    TRY(file_reading_begin(reading, args, err));
    size_t len = reading->piece.len < sizeof head ? reading->piece.len : sizeof head;
    if (len)
        memcpy(head, reading->piece.data, len);
    sniff_head(head, len, &sniff);
    if (!args->encoding.data && sniff.kind == SNIFF_IMAGE)
        return file_reading_image(reading, &sniff, err);
    if (!args->encoding.data && sniff.kind == SNIFF_BINARY)
        return file_reading_binary(reading, &sniff);
    decode_init(&reading->decode, file_reading_kind(args, &sniff));
    int code = file_reading_text(reading, err);
    decode_done(&reading->decode);
    if (code == -ERR_INVALID) {
        /* No NUL, but still not text. */
        if (reading->decode.kind == DECODE_UTF8 && sniff_known(head, len, &sniff))
            return file_reading_binary(reading, &sniff);
        return tool_fail(
            reading->call,
            "cannot read '%s' as text \u2014 %s. If you know its encoding, pass it (encoding: latin-1, utf-16le, "
            "utf-16be), or convert it with bash (iconv).",
            reading->path, err->text);
    }
    if (code == 0 && !reading->found && reading->decode.at)
        tool_say(reading->call, "(start_line exceeds file length)");
    return code;
}

static int file_reading_again(struct tool_reading *reading, const struct read_file_args *args, struct err *err) {
    for (; reading->tries < READ_TRIES; reading->tries++) {
        struct tool_result *result = &reading->call->result;
        result->is_error = false;
        TRY(file_reading_once(reading, args, err));
        if (!file_reading_changed(reading)) {
            if (!result->is_error && reading->put < reading->bytes)
                truncate_part(reading->call, reading->chars);
            return 0;
        }
    }
    return tool_fail(
        reading->call,
        "%s kept changing while it was read. Wait until it is complete, or copy it with bash and read the copy.",
        reading->path);
}

static int read_file_run(struct tool_call *call, const void *user, struct err *err) {
    const struct read_file_args *args = user;
    struct tool_reading reading = {.call = call, .fd = -1};
    /* Texts for impossible ranges that models know. */
    const struct row_number *start = &args->start_line, *end = &args->end_line;
    const char *why = start->has && start->value < 1 ? "(start_line must be >= 1)"
                      : end->has && end->value < 1   ? "(end_line must be >= 1)"
                      : start->has && end->has && start->value > end->value
                          ? "(start_line > end_line \u2014 no lines in range)"
                          : NULL;
    if (why)
        tool_say(call, "%s", why);
    call->result.is_error = why != NULL;
    if (why)
        return 0;
    TRY(tool_path(call, &args->path, &reading.path, err));
    int code = box_read_open(call->box, reading.path, &reading.fd, &reading.stat, err);
    if (code < 0) {
        if (code == -ERR_NOT_FOUND)
            return tool_fail(call, "File not found: %s", reading.path);
        if (code == -ERR_DENIED)
            return tool_fail(call, "Permission denied reading file: %s", reading.path);
        return err->number == EISDIR ? tool_fail(call, "Path is a directory, not a file: %s", reading.path) : code;
    }
    buf_init(&reading.piece, READ_IMAGE_BYTES + READ_PIECE_BYTES);
    code = file_reading_again(&reading, args, err);
    if (code == 0 && !call->result.is_error) {
        seen_note(call, reading.path, &reading.stat);
        offload_source(call, reading.path, &reading.stat);
    }
    buf_done(&reading.piece);
    fd_close(&reading.fd);
    return code;
}

const struct tool tool_read_file = {
    TOOL(read_file, "Read a file"),
    .flags = TOOL_READS | TOOL_SAME,
    .cut = TOOL_HEAD,
    .cut_setting = offsetof(struct tool_settings, read_file_chars),
    .cut_hint = "Use start_line/end_line to read a specific range",
    .description =
        "Read a text file, whole or from start_line to end_line. Long texts are truncated, so read large files in "
        "ranges. Shows exactly what is in the file, including the \\r of CRLF line ends. UTF-16 with a byte order "
        "mark is shown as text; PNG, JPEG, GIF and WebP files are shown as images; other binary files are refused "
        "with their type. Returns \"(empty)\" for an empty file."};
