/* Shared by every file of skill/: `struct skills`. Private to skill/.
 *
 * Locks, in this order: the change lock (skills_lock: one change of any base at a time, between daemons too), a box's
 * turn, skilldb_take, those of the cache and the parts. A thread that holds the database calls nothing that takes it
 * again. */
#ifndef CUBBY_SKILL_SKILLS_H
#define CUBBY_SKILL_SKILLS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "skill/skill.h"
#include "store/db.h"

#define SKILLS_OPAQUE "user.overlay.opaque" /* extended attribute: nothing of lower layers shows through */

/* State that other files of skill/ keep in memory while the skills are open. */
enum skills_part { PART_SYNC, PART_OWN, PART_REGISTRY, PART_COUNT };

struct base_cache;
struct settings_copy;

struct skills {
    char *state_dir;
    uint64_t opened_ms; /* wall clock */
    /* STATE/skills and below: the stores of trees (stage.h) and the files about them */
    int dir, layers_dir, global_dir, blobs_dir, staging_dir, agents_dir, placed_dir;
    struct settings_copy *_Atomic settings; /* the newest, linked to older ones */
    const char *_Atomic creator;            /* layer of skill-creator, of some settings_copy; "": none */
    struct provider *_Atomic provider;
    void (*later)(void *user, const char *owner, const char *machine); /* skills_later; may be NULL */
    void *later_user;
    struct collector *collector; /* while there is a provider */
    pthread_mutex_t lock;        /* with the flock of lock_fd: the change lock */
    int lock_fd;
    pthread_mutex_t db_lock; /* of db */
    struct db db;
    bool existed; /* there were skills before the file of db was opened */
    struct base_cache *cache;
    pthread_mutex_t part_lock;
    struct {
        void *data;
        void (*done)(void *data);
    } parts[PART_COUNT];
};

/* Made at the first use; `done` is called at the close. */
static inline void *skills_part(struct skills *skills, enum skills_part part, void *(*make)(struct skills *skills),
                                void (*done)(void *data)) {
    pthread_mutex_lock(&skills->part_lock);
    if (!skills->parts[part].data) {
        skills->parts[part].data = make(skills);
        skills->parts[part].done = done;
    }
    void *data = skills->parts[part].data;
    pthread_mutex_unlock(&skills->part_lock);
    return data;
}

/* A directory of ours, no link followed; -1 and errno. */
static inline int skills_dir(int dir, const char *name) {
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

const char *skills_creator(const struct skills *skills); /* its layer, below every agent's; "": none */
int skills_lock(struct skills *skills, struct err *err); /* BUSY after a while */
void skills_unlock(struct skills *skills);

/* The connection to skills.db, for this thread until it gives it back; opened at the first use. */
int skilldb_take(struct skills *skills, struct db **ret_db, struct err *err);
void skilldb_give(struct skills *skills);
/* The same around a transaction; skilldb_end commits when code is 0 (db_end). */
int skilldb_begin(struct skills *skills, struct db **ret_db, struct err *err);
int skilldb_end(struct skills *skills, int code, struct err *err);

/* The layer of skill-creator, held by *ret_fd; "" and -1 where no source is configured. */
int base_creator(struct skills *skills, const char *source, char ret_name[17], int *ret_fd, struct err *err);

struct base_cache *base_cache_new(void);
void base_cache_free(struct base_cache *cache);

#endif
