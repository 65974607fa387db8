/* The global tree and what a starting box gets of it. Called by the provider through box_hooks.contribute, and by whoever
 * uses a box (sync_settle). Invariant: a tree that has a name never changes; sources belong to the administrator and yet
 * no link in them leads out of its skill. Copies into boxes are sync_copy.c's. */
#include "skill/registry/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "box/policy.h"
#include "skill/digest.h"
#include "skill/garbage.h"
#include "skill/skills.h"
#include "skill/registry/sync_copy.h"
#include "tree/copytree.h"
#include "tree/treewalk.h"

enum {
    SYNC_LOOK_MS = 2000, /* the sources are looked at no more often */
    SYNC_DEPTH = 32,
    SYNC_ENTRIES = 200000,
    SYNC_TURNS = 64,
    SYNC_RETRY_MS = 60000, /* what failed on a machine elsewhere is tried again no sooner by itself */
};

/* What became of a box. */
struct sync_note {
    char id[17];
    uint64_t base; /* generation of its agent's that was copied */
    struct sync_report report;
    struct sync_note *next;
};

struct sync {
    pthread_mutex_t copying[SYNC_TURNS]; /* one copy into a box at a time, by its id; before lock */
    pthread_mutex_t lock;                /* of all below, and of making the tree */
    bool looked;
    uint64_t looked_ms;
    const struct skill_settings *settings; /* that version was made by */
    uint8_t signature[32];
    char version[17];
    bool parts[2];     /* there are skills, there are agents */
    struct err failed; /* the last look; code 0: it did not */
    struct sync_note *notes;
};

static void *sync_make(struct skills *skills) {
    (void)skills;
    struct sync *sync = xcalloc(1, sizeof *sync);
    for (size_t i = 0; i < SYNC_TURNS; i++)
        pthread_mutex_init(&sync->copying[i], NULL);
    pthread_mutex_init(&sync->lock, NULL);
    return sync;
}

static void sync_done(void *data) {
    struct sync *sync = data;
    for (struct sync_note *note = sync->notes, *next; note; note = next) {
        next = note->next;
        free(note);
    }
    free(sync);
}

static struct sync *sync_of(struct skills *skills) {
    return skills_part(skills, PART_SYNC, sync_make, sync_done);
}

/* ---- the sources ---- */

/* One pass over them: either every file is mixed into a signature, or it is copied into a stage. */
struct pass {
    struct digest_sha *mix;
    struct stage *stage;
    const char *source; /* for sentences */
    int skill_fd;       /* links are resolved below it */
    unsigned entries;
    char path[LIMIT_PATH_BYTES + 1]; /* in the tree: skills/NAME/..., agents/NAME.md */
    size_t skill_len;                /* of skills/NAME/ */
    int (*each)(struct pass *pass, const struct tree_entry *entry, struct err *err); /* of a source */
};

static int pass_copy(struct pass *pass, int from, const struct stat *status, struct err *err) {
    autofd to = -1;
    struct copied copied;
    int r = stage_file(pass->stage, pass->path, status->st_mode & 0111 ? 0755 : 0644, &to, err);
    return r < 0 ? r : copytree_file(from, to, &copied, err);
}

static int pass_file(struct pass *pass, int dir, const char *name, struct err *err) {
    struct stat status;
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    autofd fd = pass->skill_fd >= 0
                    ? (int)syscall(SYS_openat2, pass->skill_fd, pass->path + pass->skill_len, &how, sizeof how)
                    : openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        if (pass->stage)
            log_warn("%s: '%s' is left out: not a file of the skill", pass->source, pass->path);
        return 0;
    }
    if (!pass->mix)
        return pass_copy(pass, fd, &status, err);
    uint64_t facts[] = {status.st_dev,
                        status.st_ino,
                        (uint64_t)status.st_size,
                        (uint64_t)status.st_mtim.tv_sec,
                        (uint64_t)status.st_mtim.tv_nsec,
                        (uint64_t)status.st_ctim.tv_nsec,
                        status.st_mode};
    digest_sha_data(pass->mix, pass->path, strlen(pass->path) + 1);
    digest_sha_data(pass->mix, facts, sizeof facts);
    return 0;
}

static int pass_count(struct pass *pass, struct err *err) {
    if (++pass->entries > SYNC_ENTRIES)
        return err_set(err, ERR_TOO_LARGE, "%s: more than %d files and directories", pass->source, SYNC_ENTRIES);
    return 0;
}

/* What a skill holds; its path behind skills/NAME/. */
static int pass_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct pass *pass = user;
    unsigned depth = 0;
    int r = pass_count(pass, err);
    if (r < 0)
        return r;
    int n = snprintf(pass->path + pass->skill_len, sizeof pass->path - pass->skill_len, "%s", entry->path);
    for (const char *at = pass->path; *at; at++)
        depth += *at == '/';
    if (n < 0 || (size_t)n >= sizeof pass->path - pass->skill_len || (entry->kind == 'd' && depth > SYNC_DEPTH))
        return err_set(err, ERR_TOO_LARGE, "%s: '%.200s' is too deep", pass->source, pass->path);
    if (entry->kind != 'd')
        return pass_file(pass, entry->dir, entry->name, err);
    return pass->stage ? stage_dir(pass->stage, pass->path, err) : 0;
}

/* A directory of a source: a skill, if it says so. */
static int pass_skill(struct pass *pass, const struct tree_entry *entry, struct err *err) {
    struct err ignored;
    if (entry->kind != 'd' || skill_id_check(entry->name, &ignored) < 0)
        return 0;
    autofd inner = openat(entry->dir, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0 || faccessat(inner, "SKILL.md", F_OK, 0) < 0)
        return 0;
    size_t len = strlen(pass->path);
    int r = pass->stage ? stage_dir(pass->stage, pass->path, err) : 0;
    snprintf(pass->path + len, sizeof pass->path - len, "/"); /* there is room: a name is short */
    pass->skill_len = len + 1;
    pass->skill_fd = inner;
    if (r == 0)
        r = treewalk_own(inner, pass_entry, pass, err);
    pass->skill_fd = -1;
    return r;
}

static int pass_agent(struct pass *pass, const struct tree_entry *entry, struct err *err) {
    size_t len = strlen(entry->name);
    if (len < 4 || strcmp(entry->name + len - 3, ".md") != 0 || entry->name[0] == '.' || entry->kind == 'd')
        return 0;
    return pass_file(pass, entry->dir, entry->name, err);
}

/* An entry of a source. What a later source has given already is not taken again; in the signature all of them count. */
static int pass_top(void *user, const struct tree_entry *entry, struct err *err) {
    struct pass *pass = user;
    size_t len = strlen(pass->path);
    int r = pass_count(pass, err);
    snprintf(pass->path + len, sizeof pass->path - len, "%s", entry->name);
    if (r == 0 && (!pass->stage || faccessat(pass->stage->fd, pass->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        r = pass->each(pass, entry, err);
    pass->path[len] = 0;
    return r < 0 ? r : TREE_SKIP;
}

/* The last source first. */
static int pass_sources(struct pass *pass, const char *part, const char *const *sources,
                        int (*each)(struct pass *, const struct tree_entry *, struct err *), struct err *err) {
    size_t count = 0;
    int r = 0;
    pass->each = each;
    while (sources && sources[count])
        count++;
    while (count-- > 0 && r == 0) {
        autofd dir = open(sources[count], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        pass->source = sources[count];
        snprintf(pass->path, sizeof pass->path, "%s/", part);
        r = dir < 0 ? err_errno(err, errno, "global %s: '%s'", part, sources[count])
                    : treewalk_own(dir, pass_top, pass, err);
    }
    return r;
}

static int sign(const struct skill_settings *settings, uint8_t ret_signature[32], struct err *err) {
    struct digest_sha mix;
    struct pass pass = {.mix = &mix, .skill_fd = -1};
    digest_sha_begin(&mix);
    int r = pass_sources(&pass, "skills", settings->global_skills, pass_skill, err);
    if (r == 0)
        r = pass_sources(&pass, "agents", settings->global_agents, pass_agent, err);
    digest_sha_end(&mix, ret_signature);
    return r;
}

/* ---- the tree ---- */

static int any_entry(void *user, const struct tree_entry *entry, struct err *err) {
    (void)entry, (void)err;
    *(bool *)user = true;
    return -ERR_EXISTS;
}

static bool has_entries(int dir, const char *name) {
    autofd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool any = false;
    struct err ignored;
    if (fd >= 0)
        treewalk(fd, any_entry, &any, &ignored);
    return any;
}

static int keep_tree(struct skills *skills, struct stage *stage, char ret_version[17], struct err *err) {
    uint8_t digest[32];
    uint64_t files, bytes;
    int r = base_tree_hash(stage->fd, digest, &files, &bytes, err);
    if (r < 0)
        return r;
    text_hex(ret_version, digest, 8);
    if (mkdirat(skills->dir, "global", 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'skills/global'");
    char from[64], to[64];
    snprintf(from, sizeof from, "staging/%s", stage->name);
    snprintf(to, sizeof to, "global/%s", ret_version);
    if (faccessat(skills->dir, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (fchmod(stage->fd, 0755) < 0)
        return err_errno(err, errno, "'%s'", from);
    if ((r = stage_sync(stage, err)) < 0)
        return r;
    if (renameat(skills->dir, from, skills->dir, to) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        return err_errno(err, errno, "'%s'", to);
    return 0;
}

static int make_tree(struct skills *skills, const struct skill_settings *settings, char ret_version[17], bool parts[2],
                     struct err *err) {
    struct stage stage;
    int r = stage_open(skills, &stage, err);
    if (r < 0)
        return r;
    struct pass pass = {.stage = &stage, .skill_fd = -1};
    r = stage_dir(&stage, "skills", err);
    if (r == 0)
        r = stage_dir(&stage, "agents", err);
    if (r == 0)
        r = pass_sources(&pass, "skills", settings->global_skills, pass_skill, err);
    if (r == 0)
        r = pass_sources(&pass, "agents", settings->global_agents, pass_agent, err);
    parts[0] = has_entries(stage.fd, "skills");
    parts[1] = has_entries(stage.fd, "agents");
    if (r == 0)
        r = keep_tree(skills, &stage, ret_version, err);
    stage_abort(&stage);
    return r;
}

/* placed/BOX says which tree a box has mounted, or what was copied into it (sync_copy.c). */
static void note_version(struct skills *skills, const char *id, const char *version) {
    char name[40];
    snprintf(name, sizeof name, "placed/%.16s", id);
    if (mkdirat(skills->dir, "placed", 0700) < 0 && errno != EEXIST)
        return;
    autofd fd = openat(skills->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, version, strlen(version)) < 0)
        log_warn("skills/%s: %s", name, strerror(errno));
}

struct dropping {
    struct skills *skills;
    int placed;
    const char *version; /* that is looked for, or kept */
};

static int placed_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct dropping *look = user;
    char text[32];
    (void)err;
    bool named = fd_read_file(entry->dir, entry->name, text, sizeof text) == 16 && strcmp(text, look->version) == 0;
    return named ? -ERR_EXISTS : TREE_SKIP;
}

static int global_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct dropping *drop = user;
    struct dropping look = {.version = entry->name};
    if (strcmp(entry->name, drop->version) != 0 &&
        (drop->placed < 0 || treewalk(drop->placed, placed_entry, &look, err) != -ERR_EXISTS))
        skills_discard(drop->skills, "global", entry->name);
    return TREE_SKIP;
}

/* Trees that nobody needs any more: neither the newest nor any box's. */
static void drop_old(struct skills *skills, const char *version) {
    struct err ignored;
    autofd placed = openat(skills->dir, "placed", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autofd fd = openat(skills->dir, "global", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        treewalk_own(fd, global_entry, &(struct dropping){skills, placed, version}, &ignored);
}

static bool has_sources(const struct skill_settings *settings) {
    return (settings->global_skills && *settings->global_skills) ||
           (settings->global_agents && *settings->global_agents);
}

/* Called with the lock. */
static int look(struct skills *skills, struct sync *sync, const struct skill_settings *settings, struct err *err) {
    uint8_t signature[32];
    bool none = !has_sources(settings);
    int r = none ? 0 : sign(settings, signature, err);
    if (r < 0)
        return r;
    if (none) {
        sync->version[0] = 0;
        sync->parts[0] = sync->parts[1] = false;
    } else if (!sync->version[0] || memcmp(signature, sync->signature, sizeof signature) != 0) {
        r = make_tree(skills, settings, sync->version, sync->parts, err);
        if (r < 0)
            return r;
        memcpy(sync->signature, signature, sizeof signature);
        drop_old(skills, sync->version);
    }
    return 0;
}

/* *ret_parts: there are skills, there are agents. */
static int global_now(struct skills *skills, char ret_version[17], bool ret_parts[2], struct err *err) {
    struct sync *sync = sync_of(skills);
    const struct skill_settings *settings = skills_settings(skills);
    pthread_mutex_lock(&sync->lock);
    if (!sync->looked || sync->settings != settings || clock_ms() - sync->looked_ms >= SYNC_LOOK_MS) {
        sync->failed = (struct err){0};
        if (look(skills, sync, settings, &sync->failed) < 0)
            log_warn("global skills stay as they were: %s", sync->failed.text);
        sync->settings = settings;
        sync->looked_ms = clock_ms();
        sync->looked = true;
    }
    *err = sync->failed;
    memcpy(ret_version, sync->version, sizeof sync->version);
    memcpy(ret_parts, sync->parts, sizeof sync->parts);
    pthread_mutex_unlock(&sync->lock);
    return -err->code;
}

int sync_global(struct skills *skills, char ret_version[17], struct err *err) {
    bool parts[2];
    return global_now(skills, ret_version, parts, err);
}

/* ---- what became of boxes ---- */

static struct sync_note *note_find(struct sync *sync, const char *id, bool make) {
    struct sync_note **at = &sync->notes;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (!*at && make) {
        *at = xcalloc(1, sizeof **at);
        snprintf((*at)->id, sizeof(*at)->id, "%s", id);
    }
    return *at;
}

static void note_set(struct skills *skills, const char *id, uint64_t base, const struct sync_report *report) {
    struct sync *sync = sync_of(skills);
    pthread_mutex_lock(&sync->lock);
    struct sync_note *note = note_find(sync, id, true);
    note->report = *report;
    note->base = base;
    pthread_mutex_unlock(&sync->lock);
}

/* The box that a joined machine itself is: what all boxes on it share lies in its workspace. */
static void machine_box(const struct box *box, char ret_id[17]) {
    char thread[LIMIT_RUNNER_BYTES + sizeof POLICY_MACHINE_THREAD];
    int len = snprintf(thread, sizeof thread, POLICY_MACHINE_THREAD "%s", box->spec.machine);
    policy_id(box->user, thread, (size_t)len, ret_id);
}

bool sync_last(struct skills *skills, const struct box *box, struct sync_report *ret_report) {
    struct sync *sync = sync_of(skills);
    char id[17] = "";
    if (box->spec.machine)
        machine_box(box, id);
    pthread_mutex_lock(&sync->lock);
    const struct sync_note *note = note_find(sync, box->id, false);
    if (!note && box->spec.machine)
        note = note_find(sync, id, false);
    if (note)
        *ret_report = note->report;
    pthread_mutex_unlock(&sync->lock);
    return note != NULL;
}

void sync_forget(struct skills *skills, const char *box_id) {
    struct sync *sync = sync_of(skills);
    pthread_mutex_lock(&sync->lock);
    struct sync_note **at = &sync->notes, *note;
    while (*at && strcmp((*at)->id, box_id) != 0)
        at = &(*at)->next;
    if ((note = *at)) {
        *at = note->next;
        free(note);
    }
    pthread_mutex_unlock(&sync->lock);
    sync_copy_forget(skills, box_id);
}

/* ---- a box ---- */

static int add_mounts(struct skills *skills, const char *version, const bool parts[2], struct spec *spec,
                      struct arena *arena, struct err *err) {
    static const char *const names[2][2] = {{"skills", WORKSPACE_PATH "/.skills"},
                                            {"agents", WORKSPACE_PATH "/.agents"}};
    struct mount *mounts = arena_alloc(arena, (spec->mount_count + 2) * sizeof *mounts);
    size_t count = spec->mount_count;
    if (count)
        memcpy(mounts, spec->mounts, count * sizeof *mounts);
    for (int i = 0; i < 2; i++)
        if (parts[i] && count < LIMIT_MOUNTS)
            mounts[count++] = (struct mount){
                .source = arena_printf(arena, "%s/skills/global/%s/%s", skills->state_dir, version, names[i][0]),
                .target = names[i][1],
                .read_only = true};
        else if (parts[i])
            return err_set(err, ERR_LIMIT, "the box has %u mounts already: no room for %s", LIMIT_MOUNTS, names[i][1]);
    spec->mounts = mounts;
    spec->mount_count = count;
    return 0;
}

/* Global skills that cannot be had are told and missed; those of the box's own agent are what it is for. */
int sync_contribute(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *err) {
    struct skills *skills = user;
    struct sync_report report = {.how = "none", .at_ms = clock_wall_ms()};
    bool parts[2] = {false, false};
    struct err failed;
    if (!mounts || (!spec->agent && !has_sources(skills_settings(skills))))
        return 0;
    int r = global_now(skills, report.version, parts, &failed);
    if (r < 0)
        snprintf(report.error, sizeof report.error, "%.199s", failed.text);
    if (add_mounts(skills, report.version, parts, spec, arena, &failed) < 0) {
        log_warn("box %s: %s", spec->id, failed.text);
        snprintf(report.error, sizeof report.error, "%.199s", failed.text);
    } else if (parts[0] || parts[1]) {
        report.how = "mount";
        note_version(skills, spec->id, report.version); /* before it is mounted: so it stays */
    }
    note_set(skills, spec->id, 0, &report);
    spec->attached.layers = NULL;
    spec->attached.count = 0;
    if (!spec->agent)
        return 0;
    spec->attached.paths = (const char **)(uintptr_t)skills_settings(skills)->paths;
    spec->attached.generation = base_generation(skills, spec->agent);
    return base_layers(skills, spec->agent, arena, &spec->attached.layers, &spec->attached.count, err);
}

int sync_box(struct skills *skills, struct box *box, struct sync_report *ret_report, struct err *err) {
    struct sync_report report = {.how = "none", .at_ms = clock_wall_ms()};
    bool parts[2];
    if (box_attaches(box)) { /* it came with its mounts, and keeps those till it starts again */
        sync_last(skills, box, &report);
        *ret_report = report;
        return 0;
    }
    uint64_t generation = box->spec.agent ? base_generation(skills, box->spec.agent) : 0;
    struct err failed = {0};
    int r = 0;
    global_now(skills, report.version, parts, &failed);
    if (report.version[0] || box->spec.agent) {
        report.how = "copy";
        pthread_mutex_t *turn =
            &sync_of(skills)->copying[strtoul((char[]){box->id[0], box->id[1], 0}, NULL, 16) % SYNC_TURNS];
        pthread_mutex_lock(turn);
        r = sync_copy(skills, box, &report, err);
        pthread_mutex_unlock(turn);
    }
    if (r < 0 || failed.code)
        snprintf(report.error, sizeof report.error, "%.199s", r < 0 ? err->text : failed.text);
    note_set(skills, box->id, generation, &report);
    *ret_report = report;
    return r;
}

/* Called with the lock. */
static bool has_all(const struct sync_note *note, const char *version, uint64_t generation, bool failed) {
    return note && strcmp(note->report.version, version) == 0 && note->base == generation &&
           !note->report.error[0] == !failed;
}

/* On a machine elsewhere nobody waits for copies: its own box gets them, and it is told to whoever does that. */
static void settle_later(struct skills *skills, const struct box *box, const char *version) {
    char id[17];
    machine_box(box, id);
    struct sync *sync = sync_of(skills);
    pthread_mutex_lock(&sync->lock);
    const struct sync_note *note = note_find(sync, id, false);
    bool wait = has_all(note, version, 0, false) ||
                (note && note->report.error[0] && clock_wall_ms() - note->report.at_ms < SYNC_RETRY_MS);
    pthread_mutex_unlock(&sync->lock);
    if (!wait && skills->later)
        skills->later(skills->later_user, box->user, box->spec.machine);
}

int sync_settle(struct skills *skills, struct box *box, struct err *err) {
    struct sync_report report;
    bool parts[2];
    char version[17];
    struct err failed;
    if (box_attaches(box) || (!box->spec.agent && !has_sources(skills_settings(skills))))
        return 0;
    global_now(skills, version, parts, &failed); /* what is wrong with it is in the report */
    if (box->spec.machine && !box->spec.agent) {
        settle_later(skills, box, version);
        return 0;
    }
    uint64_t generation = box->spec.agent ? base_generation(skills, box->spec.agent) : 0;
    struct sync *sync = sync_of(skills);
    pthread_mutex_lock(&sync->lock);
    bool done = has_all(note_find(sync, box->id, false), version, generation, failed.code);
    pthread_mutex_unlock(&sync->lock);
    return done ? 0 : sync_box(skills, box, &report, err);
}
