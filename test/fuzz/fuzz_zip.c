/* Any bytes as an archive: what is taken has only safe paths, parents first, no two alike, and unpacks to what it says, in
 * bounds; written again it is read back the same. And any bytes as an entry's name. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "skill/zip/zip_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct zip_limits limits = {.bytes = 1 << 20, .unpacked_bytes = 1 << 20, .entries = 64, .depth = 8};

static void check_path(const char *path) {
    size_t len = strlen(path);
    assert(len && text_utf8(path, len) && path[0] != '/' && path[len - 1] != '/');
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t n = strcspn(part, "/");
        assert(n && n <= 255 && strncmp(part, "./", 2) != 0 && strncmp(part, "../", 3) != 0);
        assert(strcmp(part, ".") != 0 && strcmp(part, "..") != 0);
        part += n;
        part -= *part == 0;
    }
    for (const char *c = path; *c; c++)
        assert((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static int count_sink(void *user, const uint8_t *data, size_t len) {
    (void)data;
    *(uint64_t *)user += len;
    return 0;
}

static int file_of(const void *data, size_t len, int *fd) {
    if (*fd < 0)
        *fd = memfd_create("zip", MFD_CLOEXEC);
    assert(ftruncate(*fd, 0) == 0 && pwrite(*fd, data, len, 0) == (ssize_t)len);
    return *fd;
}

static int put(void *user, const uint8_t *data, size_t len) {
    buf_put(user, data, len);
    return 0;
}

static int copy(void *user, const uint8_t *data, size_t len) {
    struct err err;
    return zip_writer_data(user, data, len, &err);
}

/* Only what can be read whole is written again. */
static void write_again(struct zip *zip) {
    static int fd = -1;
    struct zip_limits bounds = {.bytes = 8 << 20, .unpacked_bytes = 1 << 20, .entries = 64, .depth = 8, .ratio = 2000};
    struct zip *again = NULL;
    struct err err;
    autobuf out = buf_max(8 << 20);
    struct zip_writer *writer = zip_writer_new(put, &out);
    int r = 0;
    for (size_t i = 0; r == 0 && i < zip_count(zip); i++) {
        r = zip_writer_entry(writer, zip_entry(zip, i), &err);
        if (r == 0)
            r = zip_read(zip, i, copy, writer, &err);
    }
    if (r == 0 && zip_count(zip)) {
        assert(zip_writer_end(writer, &err) == 0);
        r = zip_open(file_of(out.data, out.len, &fd), &bounds, &again, &err);
        assert(r == 0 && zip_count(again) == zip_count(zip));
        for (size_t i = 0; i < zip_count(zip); i++)
            assert(strcmp(zip_entry(zip, i)->path, zip_entry(again, i)->path) == 0);
        zip_close(again);
    }
    zip_writer_free(writer);
}

static void archive(const uint8_t *data, size_t size) {
    static int fd = -1;
    static uint8_t block[777];
    struct zip *zip;
    struct err err = {0};
    if (zip_open(file_of(data, size, &fd), &limits, &zip, &err) < 0) {
        assert(err.text[0] && (err.code == ERR_INVALID || err.code == ERR_TOO_LARGE));
        return;
    }
    uint64_t total = 0;
    assert(zip_count(zip) <= limits.entries);
    for (size_t i = 0; i < zip_count(zip); i++) {
        const struct zip_entry *entry = zip_entry(zip, i);
        uint64_t got = 0;
        check_path(entry->path);
        assert(!i || strcmp(entry->path, zip_entry(zip, i - 1)->path) != 0);
        total += entry->size;
        int r = zip_read(zip, i, count_sink, &got, &err);
        assert(got <= entry->size && (r < 0 || got == entry->size));
    }
    assert(total <= limits.unpacked_bytes);
    struct zip_tar *tar = zip_tar_new(zip);
    uint64_t streamed = 0;
    for (ssize_t n; (n = zip_tar_read(tar, block, sizeof block, &err)) > 0;)
        streamed += (uint64_t)n;
    assert(streamed <= total + (uint64_t)zip_count(zip) * 12288 + 1024);
    zip_tar_free(tar);
    write_again(zip);
    zip_close(zip);
}

static void name(const uint8_t *data, size_t size) {
    autoarena arena = ARENA_EMPTY;
    struct zip_raw raw = {.name = (const char *)data + 2, .name_len = (uint16_t)(size - 2), .host = data[0]};
    raw.flags = data[1] & 1 ? ZIP_FLAG_UTF8 : 0;
    const char *path;
    bool dir;
    struct err err;
    if (zip_name(&raw, data[1] & 2, &arena, &path, &dir, &err) < 0 || !*path)
        return;
    check_path(path);
    zip_name_ignored(path);
    const char *folded = zip_name_folded(&arena, path);
    assert(strlen(folded) <= 2 * strlen(path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096 || size < 2)
        return 0;
    archive(data, size);
    name(data, size);
    return 0;
}
