/* Trees in transit: hashes by one rule wherever they come from, and archives of a box that lies. */
#include "skill_lab.h"

#include "skill/digest.h"
#include "skill/registry/bundle.h"

static void test_digest(void) {
    static const uint8_t content[32] = {1};
    uint8_t one[32], two[32];
    struct digest digest;
    struct err err;
    digest_init(&digest, 3);
    digest_add(&digest, "a", DIGEST_FILE, content, 1, &err);
    digest_add(&digest, "b/c", DIGEST_PROGRAM, content, 1, &err);
    digest_end(&digest, one);
    digest_done(&digest);
    digest_init(&digest, 3);
    digest_add(&digest, "b/c", DIGEST_PROGRAM, content, 1, &err);
    digest_add(&digest, "a", DIGEST_FILE, content, 1, &err);
    digest_end(&digest, two);
    digest_done(&digest);
    ok(memcmp(one, two, 32) == 0, "the order in which files are told does not count");
    digest_init(&digest, 2);
    digest_add(&digest, "a", DIGEST_FILE, content, 1, &err);
    digest_add(&digest, "b/c", DIGEST_FILE, content, 1, &err);
    ok(digest_add(&digest, "d", DIGEST_FILE, content, 1, &err) == -ERR_TOO_LARGE, "more files than may be");
    digest_end(&digest, two);
    digest_done(&digest);
    ok(memcmp(one, two, 32) != 0, "whether one is a program counts");
}

/* A tree of ours, packed, hashes as it lies. */
static void test_pack(struct skills *skills) {
    struct stage stage;
    struct err err = {0};
    struct skill_bundle bundle;
    uint8_t lying[32], packed[32];
    uint64_t files, bytes;
    char name[300] = "s/d/";
    memset(name + 4, 'n', 200);
    ok(stage_open(skills, &stage, &err) == 0 && stage_text(&stage, "s/a.sh", "#!/bin/sh\n", 0755, &err) == 0 &&
           stage_text(&stage, "s/a", "", 0644, &err) == 0 && stage_text(&stage, name, "deep", 0644, &err) == 0,
       "a tree %s", err.text);
    autofd fd = openat(stage.fd, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(digest_tree(fd, lying, &files, &bytes, &err) == 0 && files == 3, "its hash as it lies");
    ok(bundle_pack(skills, "ann", fd, "", NULL, &bundle, &err) == 0, "packed %s", err.text);
    ok(bundle_hash(&bundle, 10, packed, &err) == 0 && memcmp(lying, packed, 32) == 0, "and its hash as it was packed");
    ok(bundle_hash(&bundle, 2, packed, &err) == -ERR_TOO_LARGE, "with more files than may be");
    bundle_done(&bundle);
    stage_abort(&stage);
}

/* ---- archives of a box that lies ---- */

static int no_entry(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err) {
    (void)entry, (void)offset, (void)err;
    ++*(unsigned *)user;
    return 0;
}

static void block_put(uint8_t *out, const char *name, char type, uint64_t size) {
    struct tar_entry entry = {.type = type, .size = size, .mode = 0644};
    uint8_t head[TAR_HEAD_BYTES];
    snprintf(entry.name, sizeof entry.name, "%s", name);
    tar_format(head, &entry, 0, 0);
    memcpy(out, head, TAR_BLOCK_BYTES);
}

static void test_bad(struct skills *skills, const char *what, const char *name, char type, uint64_t size,
                     size_t blocks) {
    static uint8_t data[140 * TAR_BLOCK_BYTES];
    memset(data, 0, sizeof data);
    struct skill_bundle bundle = {.file.fd = -1};
    struct err err = {0};
    unsigned seen = 0;
    block_put(data, name, type, size);
    if (skills_scratch(skills, "ann", sizeof data, "a test", &bundle.file, &err) < 0 ||
        scratch_write(&bundle.file, data, blocks * TAR_BLOCK_BYTES, &err) < 0)
        exit(1);
    int r = bundle_each(&bundle, no_entry, &seen, &err);
    ok(r == -ERR_PROTOCOL && seen == 0, "%s is refused: %s", what, err.text);
    bundle_done(&bundle);
}

int main(void) {
    lab_open();
    struct skills *skills = skills_new(NULL);
    test_digest();
    test_pack(skills);
    test_bad(skills, "a content beyond the end", "f", TAR_FILE, 4096, 3);
    test_bad(skills, "the largest size that a head can say", "f", TAR_FILE, 0x1ffffffff, 3);
    test_bad(skills, "a name that leads out", "../f", TAR_FILE, 0, 3);
    test_bad(skills, "an absolute name", "/f", TAR_FILE, 0, 3);
    test_bad(skills, "an extension that is too large", "f", TAR_PAX, TAR_EXTENSION_BYTES + 1, 140);
    skills_close(skills);
    lab_close();
    return tap_end();
}
