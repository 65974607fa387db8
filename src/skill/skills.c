/* Opening and closing the shared state of skill/, the settings, and the grammar of names. Opened by the daemon.
 * Invariant: settings that a thread may still use live until the close; every name is checked before a path uses it. */
#include "skill/skill.h"

#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sync.h"
#include "base/text.h"
#include "skill/base/view.h"
#include "skill/names.h"
#include "skill/skills.h"
#include "skill/stage.h"

enum { SKILLS_LOCK_MS = 30000 };

/* ---- settings ---- */

#define SKILLS_COMMANDS                                                                                                \
    "python3", "pip", "pip3", "bash", "sh", "ls", "cat", "grep", "sed", "awk", "echo", "cp", "mv", "rm", "mkdir",      \
        "find", "curl"
static const char *const skills_paths[] = {"/workspace/skills", NULL};
static const char *const skills_commands[] = {SKILLS_COMMANDS, NULL};
const char *const skill_second_commands[] = {SKILLS_COMMANDS, "python", "touch", "tee", "chmod", "xargs", NULL};

const struct skill_settings skill_defaults = {
    .paths = skills_paths,
    .commands = skills_commands,
    .upload_bytes = 10u << 20,
    .unpacked_bytes = 256u << 20,
    .upload_entries = 10000,
    .wait_ms = 10000,
    .cache_ms = 300000,
    .exec_timeout_ms = 300000,
    .far_rate_bytes = 4u << 20,
};

struct settings_copy {
    struct skill_settings settings;
    struct arena arena;
    char creator[17]; /* the layer of skill-creator, or "" */
    int creator_fd;   /* keeps that layer from being collected */
    struct settings_copy *older;
};

static struct settings_copy *skills_settings_add(struct skills *skills, const struct skill_settings *settings) {
    struct settings_copy *copy = xcalloc(1, sizeof *copy);
    arena_init(&copy->arena);
    copy->creator_fd = -1;
    copy->settings = *settings;
    copy->settings.paths = names_copy(&copy->arena, settings->paths);
    copy->settings.global_skills = names_copy(&copy->arena, settings->global_skills);
    copy->settings.global_agents = names_copy(&copy->arena, settings->global_agents);
    copy->settings.commands = names_copy(&copy->arena, settings->commands);
    copy->settings.creator = settings->creator ? arena_strdup(&copy->arena, settings->creator) : NULL;
    autolock(&skills->part_lock);
    copy->older = atomic_load(&skills->settings);
    atomic_store(&skills->settings, copy);
    return copy;
}

static int skills_creator_use(struct skills *skills, struct settings_copy *copy, struct err *err) {
    int r = base_creator(skills, copy->settings.creator, copy->creator, &copy->creator_fd, err);
    if (r == 0)
        atomic_store(&skills->creator, copy->creator);
    return r;
}

/* If the new skill-creator cannot be read, the old one stays. */
void skills_configure(struct skills *skills, const struct skill_settings *settings) {
    struct err err;
    if (skills_creator_use(skills, skills_settings_add(skills, settings), &err) < 0)
        log_warn("%s", err.text);
}

const struct skill_settings *skills_settings(const struct skills *skills) {
    return &atomic_load(&skills->settings)->settings;
}

const char *skills_creator(const struct skills *skills) {
    return atomic_load(&skills->creator);
}

/* ---- opening ---- */

static const struct {
    const char *name;
    size_t fd;                                               /* in struct skills */
} skills_dirs[] = {{"skills", offsetof(struct skills, dir)}, /* contains the others */
                   {"layers", offsetof(struct skills, layers_dir)}, {"global", offsetof(struct skills, global_dir)},
                   {"blobs", offsetof(struct skills, blobs_dir)},   {"staging", offsetof(struct skills, staging_dir)},
                   {"agents", offsetof(struct skills, agents_dir)}, {"placed", offsetof(struct skills, placed_dir)}};
enum { SKILLS_DIRS = sizeof skills_dirs / sizeof *skills_dirs };

static int *skills_dir_fd(struct skills *skills, size_t i) {
    return (int *)(void *)((char *)skills + skills_dirs[i].fd);
}

static int skills_open_dirs(struct skills *skills, struct err *err) {
    autofd state = open(skills->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return err_errno(err, errno, "cannot open the state directory");
    skills->existed = faccessat(state, "skills", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    for (size_t i = 0; i < SKILLS_DIRS; i++) {
        int top = i ? skills->dir : state, *fd = skills_dir_fd(skills, i);
        if ((mkdirat(top, skills_dirs[i].name, 0700) < 0 && errno != EEXIST) ||
            (*fd = skills_dir(top, skills_dirs[i].name)) < 0)
            return err_errno(err, errno, "cannot make the directory %s for skills", skills_dirs[i].name);
    }
    skills->lock_fd = openat(skills->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return skills->lock_fd < 0 ? err_errno(err, errno, "cannot open the lock of skills") : 0;
}

int skills_open(const char *state_dir, const struct skill_settings *settings, struct skills **ret_skills,
                struct err *err) {
    struct skills *skills = xcalloc(1, sizeof *skills);
    skills->state_dir = xstrdup(state_dir);
    skills->opened_ms = clock_wall_ms();
    skills->lock_fd = -1;
    for (size_t i = 0; i < SKILLS_DIRS; i++)
        *skills_dir_fd(skills, i) = -1;
    pthread_mutex_init(&skills->lock, NULL);
    pthread_mutex_init(&skills->db_lock, NULL);
    pthread_mutex_init(&skills->part_lock, NULL);
    skills->cache = base_cache_new();
    atomic_store(&skills->creator, "");
    struct settings_copy *copy = skills_settings_add(skills, settings);
    int r = skills_open_dirs(skills, err);
    if (r == 0) {
        stage_sweep(skills);
        r = skills_creator_use(skills, copy, err);
    }
    if (r == 0)
        r = base_rows_check(skills, NULL, err);
    if (r < 0) {
        skills_close(skills);
        return r;
    }
    *ret_skills = skills;
    return 0;
}

void skills_later(struct skills *skills, void (*later)(void *user, const char *owner, const char *machine),
                  void *user) {
    skills->later_user = user;
    skills->later = later;
}

/* Ends the collector first: it uses the provider. */
void skills_provider(struct skills *skills, struct provider *provider) {
    if (!provider) {
        collector_free(skills->collector);
        skills->collector = NULL;
    }
    atomic_store(&skills->provider, provider);
    if (provider && !skills->collector)
        skills->collector = collector_new(skills);
}

void skills_close(struct skills *skills) {
    if (!skills)
        return;
    collector_free(skills->collector);
    for (unsigned part = 0; part < PART_COUNT; part++)
        if (skills->parts[part].data)
            skills->parts[part].done(skills->parts[part].data);
    base_cache_free(skills->cache);
    db_close(&skills->db);
    for (struct settings_copy *copy = atomic_load(&skills->settings), *older; copy; copy = older) {
        older = copy->older;
        fd_close(&copy->creator_fd);
        arena_done(&copy->arena);
        free(copy);
    }
    fd_close(&skills->lock_fd);
    for (size_t i = 0; i < SKILLS_DIRS; i++)
        fd_close(skills_dir_fd(skills, i));
    free(skills->state_dir);
    free(skills);
}

/* ---- the change lock ---- */

int skills_lock(struct skills *skills, struct err *err) {
    struct timespec pause = {.tv_nsec = 1000000}, until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SKILLS_LOCK_MS / 1000;
    if (pthread_mutex_timedlock(&skills->lock, &until) != 0)
        return err_set(err, ERR_BUSY, "other changes of skills are still running; try again");
    uint64_t end_ms = clock_ms() + SKILLS_LOCK_MS;
    while (flock(skills->lock_fd, LOCK_EX | LOCK_NB) < 0) { /* flock itself cannot wait with a timeout */
        int number = errno;
        if ((number == EWOULDBLOCK || number == EINTR) && clock_ms() < end_ms) {
            nanosleep(&pause, NULL);
            continue;
        }
        pthread_mutex_unlock(&skills->lock);
        return number == EWOULDBLOCK ? err_set(err, ERR_BUSY, "another daemon is changing skills; try again")
                                     : err_errno(err, number, "cannot lock skills for a change");
    }
    return 0;
}

void skills_unlock(struct skills *skills) {
    flock(skills->lock_fd, LOCK_UN);
    pthread_mutex_unlock(&skills->lock);
}

/* ---- names ---- */

int skill_id_check(const char *skill, struct err *err) {
    size_t len = strlen(skill);
    if (len == 0)
        return err_set(err, ERR_INVALID, "the skill's name is empty");
    if (len > LIMIT_NAME_BYTES)
        return err_set(err, ERR_INVALID, "the skill's name is %zu bytes long, the limit is %u", len, LIMIT_NAME_BYTES);
    if (skill[0] == '.')
        return err_set(err, ERR_INVALID, "a skill's name must not begin with a dot");
    if (!text_utf8(skill, len))
        return err_set(err, ERR_INVALID, "the skill's name is not UTF-8");
    for (const char *c = skill; *c; c++)
        /* characters with a special meaning to some file system, shell or archive program */
        if ((unsigned char)*c < 0x20 || *c == 0x7f || strchr("/\\:", *c))
            return err_set(err, ERR_INVALID, "a skill's name must not contain control characters or any of / \\ :");
    return 0;
}
