/* Public skills: what a stack of layers shows, its table, lost and damaged data bases, several daemons, layers that go, and
 * a death at every system call of a change. */
#include "skill_lab.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/ptrace.h>

#include "base/text.h"
#include "skill/base/view.h"
#include "skill/digest.h"

/* ---- helpers ---- */

/* A skill of two files that both say which version it is. */
static int put(struct skills *skills, const char *agent, const char *skill, const char *version) {
    struct stage stage;
    struct err err;
    char path[512], text[512];
    int r = stage_open(skills, &stage, &err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%s/SKILL.md", skill);
    snprintf(text, sizeof text, "---\nname: %s name\ndescription: about %s\n---\n%s", skill, skill, version);
    r = stage_text(&stage, path, text, 0644, &err);
    snprintf(path, sizeof path, "%s/bin/run-%s", skill, version);
    if (r == 0)
        r = stage_text(&stage, path, version, 0755, &err);
    if (r == 0)
        r = base_put(skills, agent, &stage, &err);
    stage_abort(&stage);
    if (r < 0)
        printf("# put %s/%s: %s\n", agent, skill, err.text);
    return r;
}

struct listing {
    char text[4096];
    size_t len;
};

static int list_skill(void *user, const struct base_skill *skill) {
    struct listing *listing = user;
    listing->len +=
        (size_t)snprintf(listing->text + listing->len, sizeof listing->text - listing->len, "%s ", skill->skill);
    return 0;
}

static const char *listed(struct skills *skills, const char *agent) {
    static struct listing listing;
    struct err err;
    listing = (struct listing){0};
    if (base_each(skills, agent, list_skill, &listing, &err) < 0)
        snprintf(listing.text, sizeof listing.text, "!%s", err.text);
    return listing.text;
}

static int list_row(void *user, const struct skill_row *row) {
    struct listing *listing = user;
    listing->len += (size_t)snprintf(listing->text + listing->len, sizeof listing->text - listing->len, "%s%s%s ",
                                     row->skill, row->user ? "@" : "", row->user ? row->user : "");
    return 0;
}

static const char *rows(struct skills *skills, const char *agent, const char *user) {
    static struct listing listing;
    struct err err;
    listing = (struct listing){0};
    if (base_rows(skills, agent, user, list_row, &listing, &err) < 0)
        snprintf(listing.text, sizeof listing.text, "!%s", err.text);
    return listing.text;
}

static bool alike(const char *got, const char *wanted) {
    if (strcmp(got, wanted) != 0)
        printf("# got '%s', wanted '%s'\n", got, wanted);
    return strcmp(got, wanted) == 0;
}

/* The version that a skill is of, whole: "" where there is none, "torn" where its files disagree. */
static const char *version_of(struct skills *skills, const char *agent, const char *skill) {
    static _Thread_local char version[64];
    char text[512], name[128];
    struct base_skill found;
    static _Thread_local struct err err;
    autoarena arena = ARENA_EMPTY;
    autofd dir = -1;
    if (base_find(skills, agent, skill, &arena, &found, &err) < 0)
        return err.code == ERR_NOT_FOUND ? "" : err.text;
    if (base_open(skills, &found, &dir, &err) < 0 || fd_read_file(dir, "SKILL.md", text, sizeof text - 1) < 0)
        return "unreadable";
    snprintf(version, sizeof version, "%s", strrchr(text, '\n') + 1);
    snprintf(name, sizeof name, "bin/run-%s", version);
    if (fd_read_file(dir, name, text, sizeof text - 1) < 0 || strcmp(text, version) != 0)
        return "torn";
    uint8_t sum[32];
    uint64_t files, bytes;
    if (digest_tree(dir, sum, &files, &bytes, &err) < 0 || memcmp(sum, found.sha256, 32) != 0 || files != 2)
        return "another hash";
    return version;
}

static struct base_skill find(struct skills *skills, const char *agent, const char *skill, struct arena *arena) {
    struct base_skill found = {0};
    struct err err;
    if (base_find(skills, agent, skill, arena, &found, &err) < 0)
        printf("# find %s: %s\n", skill, err.text);
    return found;
}

static size_t depth(struct skills *skills, const char *agent) {
    struct base_stack stack = {.count = 999};
    struct err err;
    base_stack_read(skills, agent, &stack, &err);
    return stack.count;
}

static void sql(const char *text) {
    sqlite3 *handle;
    if (sqlite3_open(in_state("skills.db"), &handle) || sqlite3_exec(handle, text, NULL, NULL, NULL))
        ok(false, "%s: %s", text, sqlite3_errmsg(handle));
    sqlite3_close(handle);
}

/* ---- names ---- */

static void test_names(void) {
    static const struct {
        const char *name;
        bool skill, agent;
    } table[] = {
        {"a", true, true},
        {"", false, false},
        {".", false, false},
        {"..", false, false},
        {".hidden", false, false},
        {"a/b", false, false},
        {"a\\b", false, false},
        {"C:", false, false},
        {"a\nb", false, false},
        {"a\x7f", false, false},
        {"\xff", false, false},
        {"with space", true, false},
        {"\xe6\x8a\x80\xe8\x83\xbd", true, false},
        {"a@b.c-d_e", true, true},
        {"skill-creator", true, false},
    };
    struct err err;
    char longest[300];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        ok((skill_id_check(table[i].name, &err) == 0) == table[i].skill &&
               (policy_agent(table[i].name, &err) == 0) == table[i].agent,
           "names: row %zu", i);
    memset(longest, 'a', sizeof longest);
    longest[256] = 0;
    ok(skill_id_check(longest, &err) == -ERR_INVALID, "names: 256 bytes are too many for a folder");
    longest[255] = 0;
    ok(skill_id_check(longest, &err) == 0, "names: 255 are not");
    ok(policy_agent(longest, &err) == -ERR_INVALID, "names: but for an agent");
}

/* ---- what a stack shows ---- */

static void test_put(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    autoarena arena = ARENA_EMPTY;
    uint64_t before = base_generation(skills, "app");
    ok(alike(listed(skills, "app"), ""), "an agent nobody heard of has no skills");
    ok(put(skills, "app", "b", "1") == 0 && put(skills, "app", "a", "1") == 0, "two skills are put");
    ok(alike(listed(skills, "app"), "a b "), "they are listed by name");
    ok(base_generation(skills, "app") != before, "the generation changed");
    ok(alike(listed(skills, "other"), ""), "another agent has none of them");
    struct base_skill first = find(skills, "app", "a", &arena);
    ok_all("its metadata is there", alike(first.name, "a name"), alike(first.description, "about a"), first.files == 2);
    autofd old = -1;
    base_open(skills, &first, &old, &err);
    before = base_generation(skills, "app");
    put(skills, "app", "a", "2");
    ok(alike(version_of(skills, "app", "a"), "2") && alike(version_of(skills, "app", "b"), "1"),
       "a new version replaces one skill whole, and no other");
    ok(base_generation(skills, "app") != before, "the generation changed again");
    char text[64];
    ok(fd_read_file(old, "bin/run-1", text, sizeof text - 1) == 1, "who opened the old version still has it whole");
    struct base_skill second = find(skills, "app", "a", &arena);
    ok(memcmp(first.sha256, second.sha256, 32) != 0, "the versions have different hashes");
    put(skills, "other", "a", "2");
    ok(memcmp(find(skills, "other", "a", &arena).sha256, second.sha256, 32) == 0, "the same files have the same");
    skills_close(skills);
}

static void test_disk(void) {
    struct skills *skills = skills_new(NULL);
    struct stat status = {0};
    char path[512], value[8] = "";
    autoarena arena = ARENA_EMPTY;
    struct base_skill found = find(skills, "app", "a", &arena);
    uid_t wanted = geteuid() == 0 ? 1000 : geteuid();
    snprintf(path, sizeof path, "skills/layers/%s/a", found.layer);
    ok_all("a skill's folder is 0755 and the agent's", stat(in_state(path), &status) == 0,
           (status.st_mode & 07777) == 0755, status.st_uid == wanted);
    ok(getxattr(in_state(path), "user.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y',
       "and nothing below is seen through it");
    snprintf(path, sizeof path, "skills/layers/%s/a/bin/run-2", found.layer);
    ok_all("a program is 0755 and the agent's", stat(in_state(path), &status) == 0, (status.st_mode & 07777) == 0755,
           status.st_uid == wanted);
    snprintf(path, sizeof path, "skills/layers/%s/a/SKILL.md", found.layer);
    ok(stat(in_state(path), &status) == 0 && (status.st_mode & 07777) == 0644, "a file is 0644");
    ok(stat(in_state("skills"), &status) == 0 && (status.st_mode & 07777) == 0700, "the whole is closed to others");
    ok(entries("skills/staging") == 0, "nothing is left in staging");
    skills_close(skills);
}

static void test_refused(void) {
    struct skills *skills = skills_new(NULL);
    struct stage stage;
    struct err err;
    uint64_t before = base_generation(skills, "app");
    stage_open(skills, &stage, &err);
    ok(base_put(skills, "app", &stage, &err) == -ERR_INVALID, "an empty stage is no change");
    stage_open(skills, &stage, &err);
    stage_text(&stage, "loose.txt", "x", 0644, &err);
    ok(base_put(skills, "app", &stage, &err) < 0, "a file that is in no skill is refused");
    stage_open(skills, &stage, &err);
    stage_text(&stage, "skill-creator/SKILL.md", "x", 0644, &err);
    ok(base_put(skills, "app", &stage, &err) == -ERR_DENIED, "skill-creator is not replaced");
    ok(base_remove(skills, "app", "skill-creator", &err) == -ERR_DENIED, "nor removed");
    stage_open(skills, &stage, &err);
    stage_text(&stage, "x/SKILL.md", "x", 0644, &err);
    ok(base_put(skills, "../app", &stage, &err) == -ERR_INVALID, "an agent's name is checked");
    ok(base_generation(skills, "app") == before && entries("skills/staging") == 0, "all of that changed nothing");
    skills_close(skills);
}

static void test_remove(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    struct stat status = {0};
    struct base_stack stack;
    char path[128];
    ok(base_remove(skills, "app", "a", &err) == 0 && alike(listed(skills, "app"), "b "), "a skill is removed");
    base_stack_read(skills, "app", &stack, &err);
    snprintf(path, sizeof path, "skills/layers/%s/a", stack.names[0]);
    ok_all("by a whiteout in a layer of its own", lstat(in_state(path), &status) == 0, S_ISCHR(status.st_mode),
           status.st_rdev == 0);
    ok(base_remove(skills, "app", "a", &err) == -ERR_NOT_FOUND, "twice is NOT_FOUND");
    ok(depth(skills, "app") == stack.count, "which adds no layer");
    ok(put(skills, "app", "a", "3") == 0 && alike(version_of(skills, "app", "a"), "3"), "it can be put again");
    ok(entries("skills/staging") == 0, "nothing is left in staging");
    skills_close(skills);
}

static void test_compact(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    char version[16];
    bool shallow = true;
    struct stat before = {0}, after = {0};
    autoarena arena = ARENA_EMPTY;
    put(skills, "deep", "kept", "k");
    put(skills, "deep", "gone", "g");
    base_remove(skills, "deep", "gone", &err);
    struct base_skill kept = find(skills, "deep", "kept", &arena);
    char path[512];
    snprintf(path, sizeof path, "skills/layers/%s/kept/SKILL.md", kept.layer);
    stat(in_state(path), &before);
    for (int i = 0; i < 40; i++) {
        snprintf(version, sizeof version, "v%d", i);
        put(skills, "deep", "a", version);
        shallow &= depth(skills, "deep") <= BASE_LAYERS;
    }
    ok(shallow, "a stack is never deeper than %d", BASE_LAYERS);
    ok(alike(version_of(skills, "deep", "a"), "v39") && alike(version_of(skills, "deep", "kept"), "k"),
       "what is seen is the same after it was made one layer");
    ok(alike(listed(skills, "deep"), "a kept "), "and a removed skill does not come back");
    struct base_skill now = find(skills, "deep", "kept", &arena);
    snprintf(path, sizeof path, "skills/layers/%s/kept/SKILL.md", now.layer);
    stat(in_state(path), &after);
    ok(strcmp(now.layer, kept.layer) != 0 && after.st_ino == before.st_ino, "by links, not by copies");
    ok(now.changed_ms == kept.changed_ms && memcmp(now.sha256, kept.sha256, 32) == 0,
       "its time and hash stay what they were");
    skills_close(skills);
}

/* ---- the table ---- */

static void test_rows(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    bool known = false;
    ok(alike(rows(skills, "app", NULL), "a b "), "the table has the public skills");
    ok(base_user_known(skills, "app", "ann", &known, &err) == 0 && known, "of a new user all is known: nothing");
    base_user_rows(skills, "app", "ann", (const char *const[]){"a", "mine", NULL}, &err);
    base_user_rows(skills, "app", "bob", (const char *const[]){"his", NULL}, &err);
    ok(alike(rows(skills, "app", "ann"), "a a@ann b mine@ann "), "a user sees his own and the public ones");
    ok(alike(rows(skills, "app", NULL), "a a@ann b his@bob mine@ann "), "all there are");
    base_user_rows(skills, "app", "ann", (const char *const[]){"mine", NULL}, &err);
    ok(alike(rows(skills, "app", "ann"), "a b mine@ann "), "what a user has no more goes, the public one stays");
    base_remove(skills, "app", "b", &err);
    ok(alike(rows(skills, "app", "bob"), "a his@bob "), "a removal takes its row along");
    put(skills, "app", "b", "2");
    skills_close(skills);
}

static void test_lost(void) {
    struct skills *skills = skills_new(NULL);
    bool known = true;
    struct err err;
    sql("DELETE FROM agent_skill_registry WHERE skill_id = 'a'; DELETE FROM base_known WHERE agent_id = 'app';"
        "INSERT INTO agent_skill_registry (agent_id, skill_id, created_at) VALUES ('app', 'never', 1)");
    ok(alike(rows(skills, "app", "ann"), "a b mine@ann "), "rows that are behind the files are made good when read");
    unlink(in_state("skills.db"));
    ok(alike(rows(skills, "app", NULL), "a b "), "a data base that was taken away is made again from the files");
    ok(alike(version_of(skills, "app", "b"), "2"), "and skills are found");
    ok(base_user_known(skills, "app", "ann", &known, &err) == 0 && !known, "users are to be asked again");
    base_user_rows(skills, "app", "ann", (const char *const[]){"mine", NULL}, &err);
    ok(base_user_known(skills, "app", "ann", &known, &err) == 0 && known, "until they say what they have");
    ok(base_user_known(skills, "app", "bob", &known, &err) == 0 && !known, "each for himself");
    skills_close(skills);
    unlink(in_state("skills.db"));
    skills = skills_new(NULL);
    ok(alike(rows(skills, NULL, NULL), "a b a kept a "), "so it is at a start: every agent's");
    skills_close(skills);
    int fd = open(in_state("skills.db"), O_WRONLY | O_TRUNC);
    for (int i = 0; i < 100; i++)
        if (write(fd, "this is no data base of anybody at all", 38) != 38)
            break;
    close(fd);
    unlink(in_state("skills.db-wal"));
    unlink(in_state("skills.db-shm"));
    fflush(stdout);
    skills = skills_new(NULL);
    ok(alike(rows(skills, "app", NULL), "a b "), "a damaged one is put aside and made again");
    DIR *dir = opendir(state);
    int aside = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        aside += strncmp(entry->d_name, "skills.db.damaged-", 18) == 0;
    closedir(dir);
    ok(aside == 1, "the damaged file is kept");
    skills_close(skills);
}

static void test_damaged_list(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    int agents = open(in_state("skills/agents"), O_RDONLY | O_DIRECTORY);
    static const char *const bad[] = {"../../etc\n", "0123456789abcdef", "0123456789ABCDEF\n", "0123456789abcde\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = openat(agents, "bad", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        fd_write_all(fd, bad[i], strlen(bad[i]));
        close(fd);
        ok(base_each(skills, "bad", list_skill, &(struct listing){0}, &err) == -ERR_IO,
           "a list of layers that is none: row %zu", i);
    }
    ok(alike(rows(skills, NULL, NULL), "a b a kept a "), "which is nobody else's trouble");
    struct skills *next = skills_new(NULL);
    ok(alike(listed(next, "app"), "a b "), "and keeps no daemon from starting");
    skills_close(next);
    ok(base_collect(skills, 0, &err) < 0, "and then no layer goes, because nobody knows which are needed");
    unlinkat(agents, "bad", 0);
    close(agents);
    skills_close(skills);
}

/* ---- layers that go ---- */

static void test_collect(void) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    int needed = (int)(depth(skills, "app") + depth(skills, "other") + depth(skills, "deep"));
    int all = entries("skills/layers");
    ok(all > needed, "there are layers in no stack");
    ok(base_collect(skills, 600000, &err) == 0 && entries("skills/layers") == all, "they stay for a while");
    autofd held = -1;
    DIR *dir = opendir(in_state("skills/layers"));
    struct base_stack stacks[3];
    base_stack_read(skills, "app", &stacks[0], &err);
    base_stack_read(skills, "other", &stacks[1], &err);
    base_stack_read(skills, "deep", &stacks[2], &err);
    char name[32] = "";
    for (struct dirent *entry; (entry = readdir(dir));) {
        bool stacked = entry->d_name[0] == '.';
        for (int s = 0; s < 3; s++)
            for (size_t i = 0; i < stacks[s].count; i++)
                stacked |= strcmp(stacks[s].names[i], entry->d_name) == 0;
        if (!stacked)
            snprintf(name, sizeof name, "%.16s", entry->d_name);
    }
    char path[64];
    snprintf(path, sizeof path, "skills/layers/%s", name);
    held = open(in_state(path), O_RDONLY | O_DIRECTORY);
    flock(held, LOCK_SH);
    ok(base_collect(skills, 0, &err) == 0 && entries("skills/layers") == needed + 1, "then they go, but one in use");
    fd_close(&held);
    ok(base_collect(skills, 0, &err) == 0 && entries("skills/layers") == needed, "which goes when it is not");
    ok(alike(version_of(skills, "deep", "kept"), "k") && alike(version_of(skills, "app", "a"), "3"),
       "what is seen is all there");
    closedir(dir);
    skills_close(skills);
}

static void test_creator(void) {
    struct skill_settings settings = skill_defaults;
    struct err err;
    const char **layers;
    size_t layer_count;
    char source[128];
    autoarena arena = ARENA_EMPTY;
    snprintf(source, sizeof source, "%s/source", state);
    mkdir(source, 0755);
    int fd = open(in_state("source/SKILL.md"), O_WRONLY | O_CREAT, 0600);
    fd_write_all(fd, "---\nname: maker\n---\n", 20);
    close(fd);
    settings.creator = source;
    struct skills *skills = skills_new(&settings);
    ok(alike(listed(skills, "app"), "a b skill-creator ") && alike(listed(skills, "new"), "skill-creator "),
       "every agent has the creator");
    ok(alike(rows(skills, "app", NULL), "a b "), "which is in nobody's rows");
    ok(base_layers(skills, "app", &arena, &layers, &layer_count, &err) == 0 &&
           strcmp(layers[layer_count - 1], find(skills, "app", "skill-creator", &arena).layer) == 0,
       "its layer is the lowest");
    uint64_t generation = base_generation(skills, "app");
    char first[17];
    snprintf(first, sizeof first, "%s", layers[layer_count - 1]);
    struct skills *second = skills_new(NULL);
    ok(base_collect(second, 0, &err) == 0 && alike(listed(skills, "new"), "skill-creator "),
       "a daemon without one does not take it away");
    skills_close(second);
    skills_configure(skills, &settings);
    ok(base_generation(skills, "app") == generation, "the same source is the same layer");
    fd = open(in_state("source/more"), O_WRONLY | O_CREAT, 0600);
    close(fd);
    skills_configure(skills, &settings);
    ok(base_generation(skills, "app") != generation, "another is another");
    skills_configure(skills, &skill_defaults);
    ok(alike(listed(skills, "app"), "a b "), "without it in the configuration there is none");
    skills_close(skills);
    settings.creator = "/nonexistent/creator";
    ok(skills_open(state, &settings, &skills, &err) < 0 && strstr(err.text, "/nonexistent/creator"),
       "one that is not there is said at the start");
}

/* ---- many at once ---- */

struct putter {
    struct skills *skills;
    int number;
    int failures;
};

static void *putter_main(void *arg) {
    struct putter *putter = arg;
    char skill[16], version[16];
    for (int i = 0; i < 10; i++) {
        snprintf(skill, sizeof skill, "s%d", putter->number);
        snprintf(version, sizeof version, "v%d", i);
        putter->failures += put(putter->skills, "busy", skill, version) < 0;
        putter->failures += strcmp(version_of(putter->skills, "busy", "s0"), "torn") == 0;
    }
    return NULL;
}

static void test_together(void) {
    struct skills *daemons[2] = {skills_new(NULL), skills_new(NULL)};
    struct putter putters[4];
    pthread_t threads[4];
    int failures = 0;
    bool whole = true;
    for (int i = 0; i < 4; i++) {
        putters[i] = (struct putter){.skills = daemons[i % 2], .number = i};
        pthread_create(&threads[i], NULL, putter_main, &putters[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        failures += putters[i].failures;
    }
    ok(failures == 0, "four threads of two daemons put skills of one agent");
    for (int i = 0; i < 4; i++) {
        char skill[16];
        snprintf(skill, sizeof skill, "s%d", i);
        whole &=
            alike(version_of(daemons[0], "busy", skill), "v9") && alike(version_of(daemons[1], "busy", skill), "v9");
    }
    ok(whole, "nobody's change is lost, and both daemons see all");
    ok(alike(rows(daemons[0], "busy", NULL), "s0 s1 s2 s3 "), "the table says the same");
    skills_close(daemons[0]);
    skills_close(daemons[1]);
}

/* ---- dying at every step ---- */

/* Calls that leave something behind: dying between two others is dying before the next of these. */
static bool changes_something(const struct __ptrace_syscall_info *info) {
    static const unsigned long long calls[] = {
        SYS_mkdirat,   SYS_renameat, SYS_renameat2, SYS_unlinkat,  SYS_linkat,    SYS_mknodat,
        SYS_fsetxattr, SYS_fchmod,   SYS_fchown,    SYS_write,     SYS_pwrite64,  SYS_fsync,
        SYS_fdatasync, SYS_syncfs,   SYS_flock,     SYS_utimensat, SYS_ftruncate,
#ifdef SYS_unlink
        SYS_unlink,    SYS_mkdir,    SYS_rename,
#endif
    };
    if (info->op != PTRACE_SYSCALL_INFO_ENTRY)
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (info->entry.nr == calls[i])
            return true;
    return info->entry.nr == SYS_openat && (info->entry.args[2] & O_CREAT);
}

/* A child does one change and is killed before its n-th such call. true: it came to its end. */
static bool killed_at(void (*change)(struct skills *skills, int turn), int turn, long n) {
    struct __ptrace_syscall_info info;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct skills *skills = skills_new(NULL);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        change(skills, turn);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    while (WIFSTOPPED(status)) {
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 &&
            changes_something(&info) && n-- == 0) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return false;
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
        waitpid(pid, &status, 0);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void change_put(struct skills *skills, int turn) {
    char version[16];
    snprintf(version, sizeof version, "w%d", turn);
    if (put(skills, "crash", "a", version) < 0)
        _exit(1);
}

static void change_remove(struct skills *skills, int turn) {
    struct err err;
    (void)turn;
    base_remove(skills, "crash", "b", &err);
}

/* A stack that is full, without making it by many changes: one layer may be named more than once. */
static void fill(struct skills *skills) {
    struct base_stack stack;
    struct err err;
    base_stack_read(skills, "crash", &stack, &err);
    while (stack.count < BASE_LAYERS) {
        memcpy(stack.names[stack.count], stack.names[stack.count - 1], sizeof stack.names[0]);
        stack.count++;
    }
    base_stack_write(skills, "crash", &stack, &err);
}

/* What holds whatever happened: old or new, never between; rows and files agree; nothing is left over. */
static bool sound(const char *old, const char *new, bool *ret_new) {
    struct skills *skills = skills_new(NULL);
    struct err err;
    struct base_stack stack;
    const char *a = version_of(skills, "crash", "a"), *keep;
    *ret_new = strcmp(a, new) == 0;
    bool good = *ret_new || strcmp(a, old) == 0;
    if (!good)
        printf("# a is '%s', neither '%s' nor '%s'\n", a, old, new);
    keep = version_of(skills, "crash", "keep");
    good &= alike(keep, "k");
    char public[256];
    snprintf(public, sizeof public, "%s", listed(skills, "crash"));
    good &= alike(rows(skills, "crash", NULL), public);
    good &= entries("skills/staging") == 0;
    good &= base_collect(skills, 0, &err) == 0;
    struct names {
        char names[BASE_LAYERS + 1][LAYER_NAME_BYTES];
    } *seen = calloc(1, sizeof *seen);
    int distinct = 0;
    base_stack_read(skills, "crash", &stack, &err);
    for (size_t i = 0; i < stack.count; i++) {
        int k = 0;
        while (k < distinct && strcmp(seen->names[k], stack.names[i]) != 0)
            k++;
        if (k == distinct)
            memcpy(seen->names[distinct++], stack.names[i], LAYER_NAME_BYTES);
    }
    free(seen);
    if (entries("skills/layers") != distinct) {
        printf("# %d layers, %d of them named\n", entries("skills/layers"), distinct);
        good = false;
    }
    skills_close(skills);
    return good;
}

static void test_crash(const char *what, void (*change)(struct skills *, int), bool full, bool removes, long step) {
    static int turn;
    char old[16], new[16];
    bool good = true, done = false, is_new;
    long points = 0;
    snprintf(old, sizeof old, "o%d", turn);
    struct skills *skills = skills_new(NULL);
    put(skills, "crash", "keep", "k");
    put(skills, "crash", "a", old);
    skills_close(skills);
    if (getenv("CRASH_POINTS"))
        step = 1;
    for (long n = 0; good && !done; n += step, points++) {
        skills = skills_new(NULL);
        if (removes && !*version_of(skills, "crash", "b"))
            put(skills, "crash", "b", "b");
        if (full)
            fill(skills);
        skills_close(skills);
        turn++;
        if (removes)
            memcpy(new, old, sizeof new);
        else
            snprintf(new, sizeof new, "w%d", turn);
        done = killed_at(change, turn, n);
        good = sound(old, new, &is_new);
        if (is_new)
            snprintf(old, sizeof old, "%s", new);
        good &= !done || is_new;
    }
    ok(good && points > 15, "%s: killed before any of %ld steps, it was done or it was not", what, points * step);
}

int main(void) {
    lab_open();
    test_names();
    test_put();
    test_disk();
    test_refused();
    test_remove();
    test_compact();
    test_rows();
    test_lost();
    test_damaged_list();
    test_collect();
    test_creator();
    test_together();
    lab_close();
    mkdir(state, 0700);
    test_crash("a put", change_put, false, false, 1);
    test_crash("a removal", change_remove, false, true, 2);
    test_crash("a stack that is made one", change_put, true, false, 3);
    lab_close();
    return tap_end();
}
