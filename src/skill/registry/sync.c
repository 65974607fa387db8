/* The global tree, and what a starting box gets of it. Called by the provider through box_hooks.contribute, and before
 * a box is used (sync_update). Invariant: a tree that has a name never changes. The administrator owns the sources, but
 * still no link in them leads out of its skill. sync_copy.c makes copies in boxes. */
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "skill/registry/sync.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/policy.h"
#include "skill/digest.h"
#include "skill/names.h"
#include "skill/skills.h"
#include "skill/stage.h"
#include "tree/copytree.h"
#include "tree/treewalk.h"

enum {
    SYNC_LOOK_MS = 2000, /* shortest time between two scans of the sources */
    SYNC_DEPTH = 32,
    SYNC_ENTRIES = 200000,
    SYNC_TURNS = 64,
    SYNC_RETRY_MS = 60000, /* delay after a failure on a joined machine */
};

/* The last result for a box. */
struct sync_note {
    char id[17];
    uint64_t base; /* the generation of its agent's base that was copied */
    struct sync_report report;
    struct sync_note *next;
};

struct sync {
    pthread_mutex_t copying[SYNC_TURNS]; /* one copy into a box at a time, chosen by its id; taken before lock */
    pthread_mutex_t lock;                /* guards all members below, and the making of the tree */
    bool looked;
    uint64_t looked_ms;
    const struct skill_settings *settings; /* from which version was made */
    uint8_t signature[32];
    char version[17];
    bool parts[2];     /* whether there are skills, agents */
    struct err failed; /* of the last scan; code 0: none */
    struct sync_note *notes;
};

static void *sync_make(struct skills *) {
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

/* One pass over the sources: every file is either mixed into a signature or copied into a stage. */
struct sync_pass {
    struct digest_sha *mix;
    struct stage *stage;
    const char *source; /* for messages */
    int skill_fd;       /* links are resolved below it */
    unsigned entries;
    bool agents;                     /* sub-agents are read, else skills */
    bool parts[2];                   /* whether skills, agents were copied */
    char path[LIMIT_PATH_BYTES + 1]; /* in the tree: skills/NAME/..., agents/NAME.md */
    size_t skill_len;                /* length of skills/NAME/ */
};

static int sync_pass_file(struct sync_pass *pass, int dir, const char *name, struct err *err) {
    struct stat status;
    struct copied copied;
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    autofd to = -1;
    autofd fd = pass->skill_fd >= 0
                    ? (int)syscall(SYS_openat2, pass->skill_fd, pass->path + pass->skill_len, &how, sizeof how)
                    : openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        if (pass->stage)
            log_warn("%s: '%s' is skipped: it is not a file of the skill", pass->source, pass->path);
        return 0;
    }
    if (pass->stage) {
        int r = stage_file(pass->stage, pass->path, status.st_mode & 0111 ? 0755 : 0644, &to, err);
        pass->parts[pass->agents] |= r == 0;
        return r < 0 ? r : copytree_file(fd, to, &copied, err);
    }
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

static int sync_pass_count(struct sync_pass *pass, struct err *err) {
    if (++pass->entries > SYNC_ENTRIES)
        return err_set(err, ERR_TOO_LARGE, "%s: more than %d files and directories", pass->source, SYNC_ENTRIES);
    return 0;
}

/* An entry of a skill. Its path is put after skills/NAME/. */
static int sync_pass_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct sync_pass *pass = user;
    unsigned depth = 0;
    TRY(sync_pass_count(pass, err));
    int n = snprintf(pass->path + pass->skill_len, sizeof pass->path - pass->skill_len, "%s", entry->path);
    for (const char *at = pass->path; *at; at++)
        depth += *at == '/';
    if (n < 0 || (size_t)n >= sizeof pass->path - pass->skill_len || (entry->kind == 'd' && depth > SYNC_DEPTH))
        return err_set(err, ERR_TOO_LARGE, "%s: '%.200s' is too deep", pass->source, pass->path);
    if (entry->kind != 'd')
        return sync_pass_file(pass, entry->dir, entry->name, err);
    return pass->stage ? stage_dir(pass->stage, pass->path, err) : 0;
}

/* A directory of a source is a skill if it has a SKILL.md. */
static int sync_pass_skill(struct sync_pass *pass, const struct tree_entry *entry, struct err *err) {
    if (entry->kind != 'd' || skill_id_check(entry->name, ERR_IGNORED) < 0)
        return 0;
    autofd inner = skills_dir(entry->dir, entry->name);
    if (inner < 0 || faccessat(inner, "SKILL.md", F_OK, 0) < 0)
        return 0;
    size_t len = strlen(pass->path);
    int r = pass->stage ? stage_dir(pass->stage, pass->path, err) : 0;
    pass->parts[0] = true;
    snprintf(pass->path + len, sizeof pass->path - len, "/"); /* fits: names are short */
    pass->skill_len = len + 1;
    pass->skill_fd = inner;
    if (r == 0)
        r = treewalk_own(inner, sync_pass_entry, pass, err);
    pass->skill_fd = -1;
    return r;
}

/* An entry of a source. Later sources are read first and win; the signature covers all of them. */
static int sync_pass_top(void *user, const struct tree_entry *entry, struct err *err) {
    struct sync_pass *pass = user;
    size_t len = strlen(pass->path), name = strlen(entry->name);
    int r = sync_pass_count(pass, err);
    snprintf(pass->path + len, sizeof pass->path - len, "%s", entry->name);
    if (r == 0 && (!pass->stage || faccessat(pass->stage->fd, pass->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)) {
        if (!pass->agents)
            r = sync_pass_skill(pass, entry, err);
        else if (name > 3 && strcmp(entry->name + name - 3, ".md") == 0 && entry->name[0] != '.' && entry->kind != 'd')
            r = sync_pass_file(pass, entry->dir, entry->name, err);
    }
    pass->path[len] = 0;
    return r < 0 ? r : TREE_SKIP;
}

/* Reads the last source of each part first. */
static int sync_pass_run(struct sync_pass *pass, const struct skill_settings *settings, struct err *err) {
    int r = 0;
    for (int part = 0; r == 0 && part < 2; part++) {
        const char *const *sources = part ? settings->global_agents : settings->global_skills;
        const char *name = part ? "agents" : "skills";
        size_t count = text_list_count(sources);
        pass->agents = part;
        while (count-- > 0 && r == 0) {
            autofd dir = open(sources[count], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            pass->source = sources[count];
            snprintf(pass->path, sizeof pass->path, "%s/", name);
            r = dir < 0 ? err_errno(err, errno, "global %s: '%s'", name, sources[count])
                        : treewalk_own(dir, sync_pass_top, pass, err);
        }
    }
    return r;
}

/* ---- the tree ---- */

static int sync_make_tree(struct skills *skills, const struct skill_settings *settings, char ret_version[17],
                          bool parts[2], struct err *err) {
    struct stage stage;
    uint8_t digest[32];
    uint64_t files, bytes;
    TRY(stage_open(skills, &stage, err));
    struct sync_pass pass = {.stage = &stage, .skill_fd = -1};
    int r = stage_dir(&stage, "skills", err)
            ?: stage_dir(&stage, "agents", err)
            ?: sync_pass_run(&pass, settings, err)
            ?: digest_tree(stage.fd, digest, &files, &bytes, err);
    memcpy(parts, pass.parts, sizeof pass.parts);
    if (r == 0) {
        text_hex(ret_version, digest, 8);
        if (faccessat(skills->global_dir, ret_version, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            r = stage_seal(&stage, err) ?: stage_publish(&stage, skills->global_dir, ret_version, err);
    }
    stage_abort(&stage);
    return r;
}

/* placed/BOX says which tree a box has mounted, or what was copied into it (sync_copy.c). */
static void sync_place(struct skills *skills, const char *id, const char *version) {
    autofd fd = openat(skills->placed_dir, id, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, version, strlen(version)) < 0)
        log_warn("skills/placed/%s: %s", id, strerror(errno));
}

static bool sync_unused(void *user, const char *name, int *) {
    return !names_has(user, name);
}

/* Removes trees that are neither the newest nor mounted in a box. */
static void sync_drop_old(struct skills *skills, const char *version) {
    char text[32];
    autonames boxes = names_new(), used = names_new();
    names_add(&used, version);
    names_dir(&boxes, skills->placed_dir, "placed", ERR_IGNORED);
    for (size_t i = 0; i < boxes.count; i++)
        if (fd_read_file(skills->placed_dir, boxes.names[i], text, sizeof text) == 16)
            names_add(&used, text);
    names_sort(&used);
    skills_sweep(skills, skills->global_dir, sync_unused, &used, ERR_IGNORED);
}

static bool sync_has_sources(const struct skill_settings *settings) {
    return (settings->global_skills && *settings->global_skills) ||
           (settings->global_agents && *settings->global_agents);
}

static int sync_look_locked(struct skills *skills, struct sync *sync, const struct skill_settings *settings,
                            struct err *err) {
    uint8_t signature[32];
    struct digest_sha mix;
    struct sync_pass pass = {.mix = &mix, .skill_fd = -1};
    if (!sync_has_sources(settings)) {
        sync->version[0] = 0;
        sync->parts[0] = sync->parts[1] = false;
        return 0;
    }
    digest_sha_begin(&mix);
    int r = sync_pass_run(&pass, settings, err);
    digest_sha_end(&mix, signature);
    if (r < 0 || (sync->version[0] && memcmp(signature, sync->signature, sizeof signature) == 0))
        return r;
    r = sync_make_tree(skills, settings, sync->version, sync->parts, err);
    if (r == 0) {
        memcpy(sync->signature, signature, sizeof signature);
        sync_drop_old(skills, sync->version);
    }
    return r;
}

/* Returns the current tree, made again if the sources changed. The version is empty when there are no sources.
 * *ret_parts: there are skills, there are agents. */
static int sync_global_now(struct skills *skills, char ret_version[17], bool ret_parts[2], struct err *err) {
    struct sync *sync = sync_of(skills);
    const struct skill_settings *settings = skills_settings(skills);
    autolock(&sync->lock);
    if (!sync->looked || sync->settings != settings || clock_ms() - sync->looked_ms >= SYNC_LOOK_MS) {
        sync->failed = (struct err){0};
        if (sync_look_locked(skills, sync, settings, &sync->failed) < 0)
            log_warn("global skills stay as they were: %s", sync->failed.text);
        sync->settings = settings;
        sync->looked_ms = clock_ms();
        sync->looked = true;
    }
    *err = sync->failed;
    memcpy(ret_version, sync->version, sizeof sync->version);
    memcpy(ret_parts, sync->parts, sizeof sync->parts);
    return -err->code;
}

/* ---- results ---- */

/* Returns the place of a box's note in the list; *place is NULL if there is none. */
static struct sync_note **sync_note_locked(struct sync *sync, const char *id) {
    struct sync_note **place = &sync->notes;
    while (*place && strcmp((*place)->id, id) != 0)
        place = &(*place)->next;
    return place;
}

static void sync_note_set(struct skills *skills, const char *id, uint64_t base, const struct sync_report *report) {
    struct sync *sync = sync_of(skills);
    autolock(&sync->lock);
    struct sync_note **place = sync_note_locked(sync, id);
    if (!*place) {
        *place = xcalloc(1, sizeof **place);
        snprintf((*place)->id, sizeof(*place)->id, "%s", id);
    }
    (*place)->report = *report;
    (*place)->base = base;
}

/* A joined machine is itself a box; its workspace holds the copies that all its boxes share. */
static void sync_machine_box(const struct box *box, char ret_id[17]) {
    char thread[LIMIT_RUNNER_BYTES + sizeof POLICY_MACHINE_THREAD];
    int len = snprintf(thread, sizeof thread, POLICY_MACHINE_THREAD "%s", box->spec.machine);
    policy_id(box->user, thread, (size_t)len, ret_id);
}

bool sync_last(struct skills *skills, const struct box *box, struct sync_report *ret_report) {
    struct sync *sync = sync_of(skills);
    char id[17] = "";
    if (box->spec.machine)
        sync_machine_box(box, id);
    autolock(&sync->lock);
    const struct sync_note *note = *sync_note_locked(sync, box->id);
    if (!note && box->spec.machine)
        note = *sync_note_locked(sync, id);
    if (note)
        *ret_report = note->report;
    return note != NULL;
}

void sync_forget(struct skills *skills, const char *box_id) {
    struct sync *sync = sync_of(skills);
    pthread_mutex_lock(&sync->lock);
    struct sync_note **place = sync_note_locked(sync, box_id), *note = *place;
    if (note)
        *place = note->next;
    free(note);
    pthread_mutex_unlock(&sync->lock);
    sync_copy_forget(skills, box_id);
}

/* ---- a box ---- */

static int sync_add_mounts(struct skills *skills, const char *version, const bool parts[2], struct spec *spec,
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
            return err_set(err, ERR_LIMIT, "the box has %u mounts already, the most it can have: %s is not mounted",
                           LIMIT_MOUNTS, names[i][1]);
    spec->mounts = mounts;
    spec->mount_count = count;
    return 0;
}

/* A failure with global skills is reported and does not stop the box. The layers of its own agent are required. */
int sync_contribute(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *err) {
    struct skills *skills = user;
    struct sync_report report = {.how = "none", .at_ms = clock_wall_ms()};
    bool parts[2] = {false, false};
    struct err failed;
    if (!mounts || (!spec->agent && !sync_has_sources(skills_settings(skills))))
        return 0;
    int r = sync_global_now(skills, report.version, parts, &failed);
    if (r < 0)
        snprintf(report.error, sizeof report.error, "%.199s", failed.text);
    if (sync_add_mounts(skills, report.version, parts, spec, arena, &failed) < 0) {
        log_warn("box %s: %s", spec->id, failed.text);
        snprintf(report.error, sizeof report.error, "%.199s", failed.text);
    } else if (parts[0] || parts[1]) {
        report.how = "mount";
        sync_place(skills, spec->id, report.version); /* before it is mounted, so that it is not removed */
    }
    sync_note_set(skills, spec->id, 0, &report);
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
    if (box_attaches(box)) { /* it keeps the mounts it started with */
        sync_last(skills, box, &report);
        *ret_report = report;
        return 0;
    }
    uint64_t generation = box->spec.agent ? base_generation(skills, box->spec.agent) : 0;
    struct err failed = {0};
    int r = 0;
    sync_global_now(skills, report.version, parts, &failed);
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
    sync_note_set(skills, box->id, generation, &report);
    *ret_report = report;
    return r;
}

/* Copies to a joined machine are not made here: skills_later has its own box get them. */
int sync_update(struct skills *skills, struct box *box, struct err *err) {
    struct sync_report report;
    bool parts[2], far = box->spec.machine && !box->spec.agent;
    char version[17], id[17];
    struct err failed;
    if (box_attaches(box) || (!box->spec.agent && !sync_has_sources(skills_settings(skills))))
        return 0;
    sync_global_now(skills, version, parts, &failed); /* sync_box reports its failure */
    uint64_t generation = box->spec.agent ? base_generation(skills, box->spec.agent) : 0;
    struct sync *sync = sync_of(skills);
    if (far)
        sync_machine_box(box, id);
    pthread_mutex_lock(&sync->lock);
    const struct sync_note *note = *sync_note_locked(sync, far ? id : box->id);
    bool done = note && strcmp(note->report.version, version) == 0 && note->base == generation &&
                !note->report.error[0] == !(!far && failed.code);
    if (far && note && note->report.error[0] && clock_wall_ms() - note->report.at_ms < SYNC_RETRY_MS)
        done = true;
    pthread_mutex_unlock(&sync->lock);
    if (done || !far)
        return done ? 0 : sync_box(skills, box, &report, err);
    if (skills->later)
        skills->later(skills->later_user, box->user, box->spec.machine);
    return 0;
}
