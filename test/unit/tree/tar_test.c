/* Tar heads: what is written is read back, and malformed heads, numbers, pax records and names are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tarfmt.h"
#include "tap.h"

static struct tar_entry entry;

/* Reads what tar_format wrote: a pax head, if any, and the head. */
static const char *read_back(const uint8_t *data, size_t len) {
    bool zero;
    tar_reset(&entry);
    const char *why = tar_parse(data, &entry, &zero);
    if (why || zero || entry.type != TAR_PAX)
        return why;
    size_t padded = (size_t)(entry.size + tar_padding(entry.size));
    why = tar_extend(&entry, TAR_PAX, (const char *)data + TAR_BLOCK_BYTES, (size_t)entry.size);
    if (why || TAR_BLOCK_BYTES + padded + TAR_BLOCK_BYTES != len)
        return "the pax head is wrong";
    return tar_parse(data + TAR_BLOCK_BYTES + padded, &entry, &zero);
}

static bool round_trip(size_t name_len, size_t link_len, uint64_t size) {
    static struct tar_entry in;
    static uint8_t out[TAR_HEAD_BYTES];
    memset(&in, 0, sizeof in);
    in.type = link_len ? TAR_SYMLINK : TAR_FILE;
    memset(in.name, 'n', name_len);
    memset(in.link, 'l', link_len);
    in.size = size;
    in.mode = 0751;
    in.mtime = 1700000000;
    size_t len = tar_format(out, &in, 1000, 1000);
    return len <= sizeof out && !read_back(out, len) && strcmp(entry.name, in.name) == 0 &&
           strcmp(entry.link, in.link) == 0 && entry.size == size && entry.mode == 0751 && entry.type == in.type &&
           entry.mtime == in.mtime;
}

static void test_round_trip(void) {
    static const size_t lengths[] = {1, 99, 100, 101, 155, 256, 1000, TAR_NAME_BYTES - 1};
    char name[100];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        snprintf(name, sizeof name, "a name of %zu bytes, a link too", lengths[i]);
        ok_all(name, round_trip(lengths[i], 0, 5), round_trip(3, lengths[i], 0), round_trip(lengths[i], lengths[i], 0));
    }
    ok(round_trip(5, 0, 077777777777ull) && round_trip(5, 0, 1ull << 40), "sizes below and above 8 GiB");
}

static void test_heads(void) {
    static uint8_t block[TAR_HEAD_BYTES];
    bool zero;
    memset(block, 0, sizeof block);
    ok(!tar_parse(block, &entry, &zero) && zero, "an empty block is the end");
    memset(block, 'x', TAR_BLOCK_BYTES);
    ok(tar_parse(block, &entry, &zero) != NULL, "no checksum, no archive");
    static struct tar_entry in = {.type = TAR_FILE, .name = "f"};
    tar_format(block, &in, 0, 0);
    block[0] = 'g';
    ok(tar_parse(block, &entry, &zero) != NULL, "a changed byte is seen");
    in.name[0] = 'd';
    in.name[1] = '/';
    tar_format(block, &in, 0, 0);
    tar_reset(&entry);
    ok(!tar_parse(block, &entry, &zero) && entry.type == TAR_DIR, "a file whose name ends in '/' is a directory");
}

static const char *pax(const char *text) {
    size_t len = strlen(text);
    char *copy = malloc(len); /* no NUL behind it: reading past the end is seen */
    memcpy(copy, text, len);
    tar_reset(&entry);
    const char *why = tar_extend(&entry, TAR_PAX, copy, len);
    free(copy);
    return why;
}

static void test_pax(void) {
    ok(!pax("11 path=ab\n") && strcmp(entry.name, "ab") == 0, "a pax path");
    ok_all("two records", !pax("11 path=ab\n15 size=123456\n"), entry.size == 123456, entry.has_size);
    ok(!pax("16 mtime=12.345\n") && entry.mtime == 12, "a time with a fraction");
    static const char *const bad[] = {
        "x",
        "11 path=ab",
        "99 path=ab\n",
        "3 \n",
        "8 noeq\n\n",
        "0 path=ab\n",
        "-1 path=ab\n",
        "14 size=12x4\n",
        "11 path=ab\n5",
        "12 size=-1\n\n",
        "99999999999999999999 a=b\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[60];
        snprintf(name, sizeof name, "malformed pax record %zu", i);
        ok(pax(bad[i]) != NULL, name);
    }
    char *huge = malloc(TAR_NAME_BYTES + 1);
    memset(huge, 'a', TAR_NAME_BYTES + 1);
    tar_reset(&entry);
    ok(tar_extend(&entry, TAR_LONG_NAME, huge, TAR_NAME_BYTES + 1) != NULL, "a long name that is too long");
    ok(!tar_extend(&entry, TAR_LONG_NAME, huge, 300) && strlen(entry.name) == 300, "a long name without its NUL");
    free(huge);
}

static void test_names(void) {
    static const struct {
        const char *name, *safe; /* NULL: refused */
    } names[] = {{"a/b", "a/b"}, {"./a", "a"},       {"a/", "a"},       {"a//b/./c", "a/b/c"}, {"./", ""},
                 {"", ""},       {"/a", NULL},       {"..", NULL},      {"a/../b", NULL},      {"a/..", NULL},
                 {"..a", "..a"}, {"a/...", "a/..."}, {"../../x", NULL}, {"./../x", NULL},      {".//..", NULL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char copy[64], text[100];
        const char *why;
        snprintf(copy, sizeof copy, "%s", names[i].name);
        snprintf(text, sizeof text, "the name '%s' %s", names[i].name, names[i].safe ? "is taken" : "is refused");
        const char *safe = tar_safe_name(copy, &why);
        ok(names[i].safe ? safe && strcmp(safe, names[i].safe) == 0 : !safe && why, text);
    }
}

int main(void) {
    test_round_trip();
    test_heads();
    test_pax();
    test_names();
    return tap_end();
}
