/* Opening and closing what the room shares, its settings, the grammars of names, and a user's box for an agent. Opened by
 * the daemon. Invariant: settings that somebody may still look at live until the close, and no name reaches a path
 * before its check. */
#include "skill/skill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "skill/base/collect.h"
#include "skill/base/rows.h"
#include "skill/names.h"
#include "skill/skills.h"

enum { LOCK_WAIT_MS = 30000 };

/* ---- settings ---- */

struct settings_copy {
    struct skill_settings settings;
    struct arena arena;
    char creator[17]; /* the layer with it; "": none */
    int creator_fd;   /* which is ours for as long as this is held */
    struct settings_copy *older;
};

static struct settings_copy *settings_add(struct skills *skills, const struct skill_settings *settings) {
    struct settings_copy *copy = xcalloc(1, sizeof *copy);
    arena_init(&copy->arena);
    copy->creator_fd = -1;
    copy->settings = *settings;
    copy->settings.paths = names_copy(&copy->arena, settings->paths);
    copy->settings.global_skills = names_copy(&copy->arena, settings->global_skills);
    copy->settings.global_agents = names_copy(&copy->arena, settings->global_agents);
    copy->settings.commands = names_copy(&copy->arena, settings->commands);
    copy->settings.creator = settings->creator ? arena_strdup(&copy->arena, settings->creator) : NULL;
    pthread_mutex_lock(&skills->part_lock);
    copy->older = atomic_load(&skills->settings);
    atomic_store(&skills->settings, copy);
    pthread_mutex_unlock(&skills->part_lock);
    return copy;
}

static int creator_use(struct skills *skills, struct settings_copy *copy, struct err *err) {
    int r = base_creator(skills, copy->settings.creator, copy->creator, &copy->creator_fd, err);
    if (r == 0)
        atomic_store(&skills->creator, copy->creator);
    return r;
}

/* The old one stays where the new one cannot be had. */
void skills_configure(struct skills *skills, const struct skill_settings *settings) {
    struct err err;
    if (creator_use(skills, settings_add(skills, settings), &err) < 0)
        log_warn("%s", err.text);
}

const struct skill_settings *skills_settings(const struct skills *skills) {
    return &atomic_load(&skills->settings)->settings;
}

const char *skills_creator(const struct skills *skills) {
    return atomic_load(&skills->creator);
}

/* ---- opening ---- */

static int open_below(int top, const char *name, int *ret_fd, struct err *err) {
    if (mkdirat(top, name, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot make the directory %s for skills", name);
    int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "the directory %s for skills", name);
    *ret_fd = fd;
    return 0;
}

static int open_directories(struct skills *skills, struct err *err) {
    autofd state = open(skills->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return err_errno(err, errno, "the state directory");
    skills->existed = faccessat(state, "skills", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = open_below(state, "skills", &skills->dir, err);
    if (r == 0)
        r = open_below(skills->dir, "layers", &skills->layers_dir, err);
    if (r == 0)
        r = open_below(skills->dir, "agents", &skills->agents_dir, err);
    if (r == 0)
        r = open_below(skills->dir, "staging", &skills->staging_dir, err);
    if (r < 0)
        return r;
    skills->lock_fd = openat(skills->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return skills->lock_fd < 0 ? err_errno(err, errno, "the lock of skills") : 0;
}

int skills_open(const char *state_dir, const struct skill_settings *settings, struct skills **ret_skills,
                struct err *err) {
    struct skills *skills = xcalloc(1, sizeof *skills);
    skills->state_dir = xstrdup(state_dir);
    skills->opened_ms = clock_wall_ms();
    skills->dir = skills->layers_dir = skills->agents_dir = skills->staging_dir = skills->lock_fd = -1;
    pthread_mutex_init(&skills->lock, NULL);
    pthread_mutex_init(&skills->db_lock, NULL);
    pthread_mutex_init(&skills->part_lock, NULL);
    skills->cache = base_cache_new();
    atomic_store(&skills->creator, "");
    struct settings_copy *copy = settings_add(skills, settings);
    int r = open_directories(skills, err);
    if (r == 0)
        r = skilldb_open(skills, err);
    if (r == 0) {
        stage_sweep(skills);
        r = creator_use(skills, copy, err);
    }
    if (r == 0)
        r = base_rows_check_all(skills, err);
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

/* Before the provider goes, nobody of ours may use it any more. */
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
    fd_close(&skills->staging_dir);
    fd_close(&skills->agents_dir);
    fd_close(&skills->layers_dir);
    fd_close(&skills->dir);
    free(skills->state_dir);
    free(skills);
}

/* ---- the change lock ---- */

int skills_lock(struct skills *skills, struct err *err) {
    struct timespec pause = {.tv_nsec = 1000000}, until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_WAIT_MS / 1000;
    if (pthread_mutex_timedlock(&skills->lock, &until) != 0)
        return err_set(err, ERR_BUSY, "other changes of skills take long; try again");
    uint64_t end_ms = clock_ms() + LOCK_WAIT_MS;
    while (flock(skills->lock_fd, LOCK_EX | LOCK_NB) < 0) { /* the kernel's own waiting has no time-out */
        int number = errno;
        if ((number == EWOULDBLOCK || number == EINTR) && clock_ms() < end_ms) {
            nanosleep(&pause, NULL);
            continue;
        }
        pthread_mutex_unlock(&skills->lock);
        return number == EWOULDBLOCK ? err_set(err, ERR_BUSY, "another daemon is changing skills; try again")
                                     : err_errno(err, number, "the lock of skills");
    }
    return 0;
}

void skills_unlock(struct skills *skills) {
    flock(skills->lock_fd, LOCK_UN);
    pthread_mutex_unlock(&skills->lock);
}

/* ---- names ---- */

/* What some file system, shell or archive program would take for something else. */
static bool skill_letter(unsigned char c) {
    return c >= 0x20 && c != 0x7f && !strchr("/\\:", c);
}

int skill_id_check(const char *skill, struct err *err) {
    size_t len = strlen(skill);
    if (len == 0)
        return err_set(err, ERR_INVALID, "the skill's name is empty");
    if (len > LIMIT_NAME_BYTES)
        return err_set(err, ERR_INVALID, "the skill's name is %zu bytes long, the limit is %u", len, LIMIT_NAME_BYTES);
    if (skill[0] == '.')
        return err_set(err, ERR_INVALID, "a skill's name does not begin with a dot");
    if (!text_utf8(skill, len))
        return err_set(err, ERR_INVALID, "the skill's name is not UTF-8");
    for (const char *c = skill; *c; c++)
        if (!skill_letter((unsigned char)*c))
            return err_set(err, ERR_INVALID, "a skill's name holds no control characters and none of / \\ :");
    return 0;
}

int skill_agent_check(const char *agent, struct err *err) {
    return policy_agent(agent, err);
}

/* ---- the box ---- */
