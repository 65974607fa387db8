/* Stages: names that lead out, tar streams from boxes (hostile ones too), links that are flattened, what makers that died
 * leave, and what those who live keep. */
#include "skill_lab.h"

#include "base/buf.h"
#include "base/counted.h"
#include "tree/tarfmt.h"

/* ---- names ---- */

static void test_names(struct skills *skills) {
    static const char *const bad[] = {"",     "/etc/x", "../x",  "a/../../x", "a//b", "./a",   "a/.",
                                      "a/..", "a/",     "a/./b", "link/x",    "up/x", "file/x"};
    struct stage stage;
    struct err err;
    autofd fd = -1;
    stage_open(skills, &stage, &err);
    if (symlinkat("/tmp", stage.fd, "link") < 0 || symlinkat("..", stage.fd, "up") < 0)
        abort();
    stage_text(&stage, "file", "x", 0644, &err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int r = stage_file(&stage, bad[i], 0644, &fd, &err);
        ok(r < 0 && fd < 0, "a file '%s' cannot be made", bad[i]);
        ok(stage_dir(&stage, bad[i], &err) < 0, "nor a directory '%s'", bad[i]);
    }
    ok(stage_text(&stage, "a/b/c", "x", 0644, &err) == 0, "parents are made");
    ok(stage_file(&stage, "a/b/c", 0644, &fd, &err) == -ERR_EXISTS, "a file is made once");
    ok(stage_file(&stage, "a/b", 0644, &fd, &err) < 0, "and not where a directory is");
    stage_abort(&stage);
    ok(entries("skills/staging") == 0, "nothing is left of it");
    stage_abort(&stage);
}

/* ---- tar ---- */

struct row {
    char type;
    const char *name, *text; /* content, or a link's target */
    uint32_t mode;
};

static void tar_row(struct buf *out, const struct row *row) {
    struct tar_entry entry = {0};
    uint8_t head[TAR_HEAD_BYTES];
    entry.type = row->type;
    entry.mode = row->mode ? row->mode : 0644;
    snprintf(entry.name, sizeof entry.name, "%s", row->name);
    if (row->type == TAR_SYMLINK || row->type == TAR_HARD_LINK)
        snprintf(entry.link, sizeof entry.link, "%s", row->text);
    else if (row->text)
        entry.size = strlen(row->text);
    buf_put(out, head, tar_format(head, &entry, 0, 0));
    if (entry.size) {
        buf_put(out, row->text, entry.size);
        for (uint64_t i = tar_padding(entry.size); i > 0; i--)
            buf_byte(out, 0);
    }
}

static void tar_rows(struct buf *out, const struct row *rows) {
    static const uint8_t end[2 * TAR_BLOCK_BYTES];
    buf_init(out, 16 << 20);
    for (; rows->name; rows++)
        tar_row(out, rows);
    buf_put(out, end, sizeof end);
}

/* In pieces of every size that could split a head. */
static int untar(struct stage *stage, const struct buf *tar, size_t piece, struct err *err) {
    struct stage_tar *untar = stage_tar_new(stage, "s");
    for (size_t at = 0; at < tar->len; at += piece)
        if (stage_tar_feed(untar, tar->data + at, tar->len - at < piece ? tar->len - at : piece) < 0)
            break;
    return stage_tar_end(untar, err);
}

static bool holds(const struct stage *stage, const char *path, const char *text, mode_t mode) {
    char got[4096];
    struct stat status;
    if (fd_read_file(stage->fd, path, got, sizeof got - 1) < 0 ||
        fstatat(stage->fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    return strcmp(got, text) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == mode;
}

static void test_tar(struct skills *skills) {
    static const struct row rows[] = {
        {TAR_DIR, "dir/", NULL, 0700},
        {TAR_FILE, "SKILL.md", "a skill", 0600},
        {TAR_FILE, "dir/run", "#!", 0711},
        {TAR_FILE, "dir/empty", "", 04644},
        {TAR_DIR, "hollow/", NULL, 0755},
        {TAR_SYMLINK, "to-file", "dir/run", 0},
        {TAR_SYMLINK, "dir/up", "../SKILL.md", 0},
        {TAR_SYMLINK, "absolute", "/skills/s/dir/run", 0},
        {TAR_SYMLINK, "mapped", "/workspace/skills/s/dir/run", 0},
        {TAR_SYMLINK, "first", "second", 0},
        {TAR_SYMLINK, "second", "SKILL.md", 0},
        {TAR_SYMLINK, "other", "dir", 0},
        {TAR_SYMLINK, "through", "other/run", 0},
        {0, NULL, NULL, 0},
    };
    static const size_t pieces[] = {1, 7, 511, 512, 513, 65536};
    autobuf tar;
    tar_rows(&tar, rows);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct stage stage;
        struct err err;
        stage_open(skills, &stage, &err);
        if (!ok(untar(&stage, &tar, pieces[i], &err) == 0, "a stream in pieces of %zu", pieces[i]))
            printf("# %s\n", err.text);
        ok(holds(&stage, "s/SKILL.md", "a skill", 0644) && holds(&stage, "s/dir/run", "#!", 0755) &&
               holds(&stage, "s/dir/empty", "", 0644),
           "its files, with modes of ours");
        ok(holds(&stage, "s/to-file", "#!", 0755) && holds(&stage, "s/dir/up", "a skill", 0644) &&
               holds(&stage, "s/absolute", "#!", 0755) && holds(&stage, "s/mapped", "#!", 0755) &&
               holds(&stage, "s/first", "a skill", 0644) && holds(&stage, "s/second", "a skill", 0644) &&
               holds(&stage, "s/through", "#!", 0755),
           "links to files are those files");
        ok(holds(&stage, "s/other/run", "#!", 0755) && holds(&stage, "s/other/up", "a skill", 0644),
           "a link to a directory is a copy of it, with what links in it are");
        ok(faccessat(stage.fd, "s/hollow", F_OK, 0) == 0, "an empty directory stays");
        stage_abort(&stage);
    }
}

static void test_bad_tar(struct skills *skills) {
    static const struct {
        const char *what, *says;
        struct row row;
        int code;
    } table[] = {
        {"an absolute name", "/etc/x", {TAR_FILE, "/etc/x", "x", 0}, ERR_INVALID},
        {"a name with ..", "../x", {TAR_FILE, "../x", "x", 0}, ERR_INVALID},
        {"one with .. inside", "a/../../x", {TAR_FILE, "a/../../x", "x", 0}, ERR_INVALID},
        {"a link out", "out", {TAR_SYMLINK, "out", "../other/SKILL.md", 0}, ERR_INVALID},
        {"a link to the host", "out", {TAR_SYMLINK, "out", "/etc/passwd", 0}, ERR_INVALID},
        {"a link to another skill", "out", {TAR_SYMLINK, "out", "/skills/s2/SKILL.md", 0}, ERR_INVALID},
        {"a link to nothing", "lost", {TAR_SYMLINK, "lost", "nowhere", 0}, ERR_INVALID},
        {"a link to itself", "self", {TAR_SYMLINK, "self", "self", 0}, ERR_INVALID},
        {"a link to where it lies", "d/loop", {TAR_SYMLINK, "d/loop", "../d", 0}, ERR_INVALID},
        {"a link to the top", "top", {TAR_SYMLINK, "top", ".", 0}, ERR_INVALID},
        {"a hard link", "hard", {TAR_HARD_LINK, "hard", "SKILL.md", 0}, ERR_INVALID},
        {"a FIFO", "pipe", {TAR_FIFO, "pipe", NULL, 0}, ERR_INVALID},
        {"a device", "null", {'3', "null", NULL, 0}, ERR_INVALID},
        {"the same name twice", "SKILL.md", {TAR_FILE, "SKILL.md", "again", 0}, ERR_EXISTS},
        {"a file below a file", "SKILL.md", {TAR_FILE, "SKILL.md/x", "x", 0}, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row rows[] = {
            {TAR_DIR, "d/", NULL, 0755}, {TAR_FILE, "SKILL.md", "a skill", 0}, table[i].row, {0, NULL, NULL, 0}};
        struct stage stage;
        struct err err;
        autobuf tar;
        tar_rows(&tar, rows);
        stage_open(skills, &stage, &err);
        int r = untar(&stage, &tar, 512, &err);
        ok(r < 0 && (!table[i].code || r == -table[i].code) && strstr(err.text, table[i].says), "%s is refused by name",
           table[i].what);
        if (r < 0)
            printf("# %s\n", err.text);
        stage_abort(&stage);
    }
}

static void test_bounds(struct skills *skills) {
    struct skill_settings settings = skill_defaults;
    struct stage stage;
    struct err err;
    autobuf tar, cut;
    struct row rows[32] = {{TAR_DIR, "d0/", NULL, 0755}, {TAR_FILE, "d0/f", "0123456789", 0}};
    static char names[32][16];
    settings.upload_entries = 20;
    settings.unpacked_bytes = 100;
    skills_configure(skills, &settings);
    for (int i = 2; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "l%d", i);
        rows[i] = (struct row){TAR_SYMLINK, names[i], "d0", 0};
    }
    tar_rows(&tar, rows);
    stage_open(skills, &stage, &err);
    ok(untar(&stage, &tar, 4096, &err) == -ERR_TOO_LARGE, "copies for links are counted: %s", err.text);
    stage_abort(&stage);
    rows[12] = (struct row){0, NULL, NULL, 0};
    settings.upload_entries = 1000;
    skills_configure(skills, &settings);
    buf_done(&tar);
    tar_rows(&tar, rows);
    stage_open(skills, &stage, &err);
    ok(untar(&stage, &tar, 4096, &err) == -ERR_TOO_LARGE && strstr(err.text, "100 bytes"), "and their bytes: %s",
       err.text);
    stage_abort(&stage);
    rows[11] = (struct row){0, NULL, NULL, 0};
    buf_done(&tar);
    tar_rows(&tar, rows);
    stage_open(skills, &stage, &err);
    ok(untar(&stage, &tar, 4096, &err) == 0 && stage.bytes == 100, "one less is just right");
    stage_abort(&stage);
    for (size_t len = 1; len < 2048; len += 333) {
        buf_init(&cut, 1 << 20);
        buf_put(&cut, tar.data, len);
        stage_open(skills, &stage, &err);
        ok(untar(&stage, &cut, 100, &err) == -ERR_INVALID, "a stream that is cut at %zu is refused", len);
        stage_abort(&stage);
        buf_done(&cut);
    }
    memset(tar.data + 100, 'x', 60);
    stage_open(skills, &stage, &err);
    ok(untar(&stage, &tar, 4096, &err) == -ERR_INVALID, "and one whose head does not fit its sum");
    stage_abort(&stage);
    skills_configure(skills, &skill_defaults);
}

static uint64_t directories(const struct stage *stage) {
    struct stat status;
    return fstatat(stage->fd, "s", &status, 0) < 0 ? 0 : status.st_nlink - 2u;
}

/* A name makes the directories above it: they are counted, too, and one that is too deep makes none. */
static void test_deep_names(struct skills *skills) {
    enum { NAMES = 40, PARTS = 2000 };
    struct skill_settings settings = skill_defaults;
    static char names[NAMES][2 * PARTS + 16];
    struct row rows[NAMES + 1] = {{0}};
    struct stage stage;
    struct err err;
    autobuf tar, wide;
    for (int i = 0; i < NAMES; i++) {
        int len = snprintf(names[i], sizeof names[i], "d%d", i);
        for (int part = 1; part < PARTS; part++)
            len += snprintf(names[i] + len, sizeof names[i] - (size_t)len, "/x");
        rows[i] = (struct row){TAR_FILE, names[i], "x", 0};
    }
    tar_rows(&tar, rows);
    stage_open(skills, &stage, &err);
    int r = untar(&stage, &tar, 4096, &err);
    ok(r == -ERR_TOO_LARGE && strstr(err.text, "more than 64 directories deep"), "names of 2,000 parts are refused: %s",
       err.text);
    ok(stage.dirs == 1 && directories(&stage) == 0, "and no directory is made for them");
    stage_abort(&stage);
    settings.upload_entries = 100;
    skills_configure(skills, &settings);
    for (int i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "d%d/a/b/c/d/e/f/g/h/i/j/k/l/f", i);
    tar_rows(&wide, rows);
    stage_open(skills, &stage, &err);
    r = untar(&stage, &wide, 4096, &err);
    ok(r == -ERR_TOO_LARGE && strstr(err.text, "files and directories"), "parents are counted: %s", err.text);
    ok(stage.dirs + stage.files <= 101, "none is made beyond the bound");
    stage_abort(&stage);
    for (int i = 7; i <= NAMES; i++)
        rows[i] = (struct row){0, NULL, NULL, 0};
    buf_done(&wide);
    tar_rows(&wide, rows);
    stage_open(skills, &stage, &err);
    ok(untar(&stage, &wide, 4096, &err) == 0 && stage.dirs + stage.files == 1 + 7 * 14, "what is within it is taken");
    stage_abort(&stage);
    skills_configure(skills, &skill_defaults);
}

/* ---- left over ---- */

static void test_sweep(void) {
    struct skills *skills = skills_new(NULL);
    struct stage living;
    struct err err;
    stage_open(skills, &living, &err);
    stage_text(&living, "s/SKILL.md", "x", 0644, &err);
    mkdir(in_state("skills/staging/0123456789abcdef"), 0700);
    mkdir(in_state("skills/staging/0123456789abcdef/s"), 0700);
    mkdir(in_state("skills/staging/.gone-0123456789abcdef"), 0700);
    struct skills *next = skills_new(NULL);
    ok(entries("skills/staging") == 1, "a start takes away what nobody makes any more, and nothing else");
    ok(base_put(next, "app", &living, &err) == 0, "what lived is put");
    ok(entries("skills/staging") == 0, "and is no stage any more");
    skills_close(next);
    skills_close(skills);
}

static void test_copy(struct skills *skills) {
    struct stage stage;
    struct err err;
    mkdir(in_state("host"), 0755);
    mkdir(in_state("host/in"), 0755);
    close(open(in_state("host/in/run"), O_WRONLY | O_CREAT, 0755));
    if (symlink("in/run", in_state("host/link")) < 0)
        abort();
    autofd host = open(in_state("host"), O_RDONLY | O_DIRECTORY);
    stage_open(skills, &stage, &err);
    ok(stage_copy(&stage, "s", host, &err) == 0 && holds(&stage, "s/link", "", 0755), "a directory of the host");
    stage_abort(&stage);
    if (symlink("/etc/passwd", in_state("host/out")) < 0)
        abort();
    stage_open(skills, &stage, &err);
    ok(stage_copy(&stage, "s", host, &err) == -ERR_INVALID && strstr(err.text, "out"), "but no link out of it");
    stage_abort(&stage);
    autoscratch scratch = {.fd = -1};
    ok_all("a file for what is spooled has no name", skills_scratch(skills, "ann", 3, "a test", &scratch, &err) == 0,
           scratch_write(&scratch, "x", 1, &err) == 0, entries("skills/staging") == 0);
    ok(scratch_write(&scratch, "abc", 3, &err) == -ERR_TOO_LARGE && strstr(err.text, "a test allows"),
       "and holds no more than it may: %s", err.text);
    ok(counted_of(COUNTED_SPOOL, "ann") == 1, "its bytes count as its user's");
    scratch_done(&scratch);
    ok(counted_of(COUNTED_SPOOL, "ann") == 0, "until it is closed");
}

int main(void) {
    lab_open();
    struct skills *skills = skills_new(NULL);
    test_names(skills);
    test_tar(skills);
    test_bad_tar(skills);
    test_bounds(skills);
    test_deep_names(skills);
    test_copy(skills);
    skills_close(skills);
    test_sweep();
    lab_close();
    return tap_end();
}
