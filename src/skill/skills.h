/* Shared by every file of skill/: `struct skills`. Private to skill/.
 *
 * Lock order: the change lock (skills_lock: one change of any base at a time, also between daemons), a box's share
 * (box_share, box_alone), skilldb_take, the locks of caches and parts. A thread that holds the database calls nothing
 * that takes it again. */
#ifndef CUBBY_SKILL_SKILLS_H
#define CUBBY_SKILL_SKILLS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "skill/skill.h"
#include "store/db.h"

#define SKILLS_OPAQUE "user.overlay.opaque" /* extended attribute: hides lower layers */

/* State that other files of skill/ keep in memory while the skills are open. */
enum skills_part { PART_SYNC, PART_OWN, PART_REGISTRY, PART_COUNT };

struct base_cache;
struct settings_copy;

struct skills {
    char *state_dir;
    uint64_t opened_ms; /* wall clock */
    /* STATE/skills and below: the stores of trees (stage.h) and the files about them */
    int dir, layers_dir, global_dir, blobs_dir, staging_dir, agents_dir, placed_dir;
    struct settings_copy *_Atomic settings; /* the current ones, linked to older ones */
    const char *_Atomic creator;            /* layer of skill-creator, owned by a settings_copy, or "" */
    struct provider *_Atomic provider;
    void (*later)(void *user, const char *owner, const char *machine); /* skills_later; may be NULL */
    void *later_user;
    struct collector *collector; /* runs while a provider is set */
    pthread_mutex_t lock;        /* together with the flock of lock_fd: the change lock */
    int lock_fd;
    pthread_mutex_t db_lock; /* guards db */
    struct db db;
    bool existed; /* skills existed before the database was opened */
    struct base_cache *cache;
    pthread_mutex_t part_lock;
    struct {
        void *data;
        void (*done)(void *data);
    } parts[PART_COUNT];
};

/* Returns the part, made by `make` at its first use. `done` is called at the close. */
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

/* Opens a directory of ours without following links. Returns -1 and sets errno on failure. */
static inline int skills_dir(int dir, const char *name) {
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

const char *skills_creator(const struct skills *skills); /* the layer below every agent's, or "" */
int skills_lock(struct skills *skills, struct err *err); /* BUSY: a timeout */
void skills_unlock(struct skills *skills);

/* Gives this thread the connection to skills.db until it returns it. Opens the file at the first use. */
int skilldb_take(struct skills *skills, struct db **ret_db, struct err *err);
void skilldb_give(struct skills *skills);
/* The same, around a transaction. skilldb_end commits if code is 0 (db_end). */
int skilldb_begin(struct skills *skills, struct db **ret_db, struct err *err);
int skilldb_end(struct skills *skills, int code, struct err *err);

/* Finds or makes the layer of skill-creator. *ret_fd keeps it from being collected. "" and -1: no source is set. */
int base_creator(struct skills *skills, const char *source, char ret_name[17], int *ret_fd, struct err *err);

struct base_cache *base_cache_new(void);
void base_cache_free(struct base_cache *cache);

#endif
