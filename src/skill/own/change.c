/* Transactions on the skills of a box. Called by own.c and update.c. Invariant: the old version of a skill is removed
 * only when the new one is complete in the same file system, so that one rename puts it in place. */
#include <inttypes.h>

#include "base/base.h"
#include "skill/own/private.h"

#define CHANGE_WHOLE SKILL_PATH "/" SKILLS_CHANGES "/whole"
enum { CHANGE_DIGITS = 16, CHANGE_STALE_MS = 3600000, CHANGE_REMOVE_MS = 60000, CHANGE_TRIES = 3 };

/* Numbers increase, also across restarts. */
static uint64_t change_number(void) {
    static _Atomic uint64_t last;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t number = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, before = atomic_load(&last);
    do {
        if (number <= before)
            number = before + 1;
    } while (!atomic_compare_exchange_weak(&last, &before, number));
    return number;
}

static int change_begin(struct box *box, const char *below, struct skill_change *ret_change, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    struct skill_change change;
    snprintf(change.path, sizeof change.path, CHANGES "/%016" PRIx64 ".new", change_number());
    snprintf(path, sizeof path, "%s/%s", change.path, below);
    int r = -ERR_NOT_FOUND;
    for (unsigned turn = 0; r == -ERR_NOT_FOUND && turn < CHANGE_TRIES;
         turn++) /* the end of another change may remove the directory */
        r = box_mkdir(box, path, 0755, true, err);
    if (r == 0)
        *ret_change = change;
    return r;
}

/* Moves a tree through a place where the lowest layer has a directory, which makes it opaque for good: no later public
 * skill is seen through it. */
static int change_hide_lower(struct box *box, const char *path, struct err *err) {
    pthread_mutex_lock(&own_state(box)->lock); /* a box has one such directory; if two daemons collide, one fails */
    int r = -ERR_EXISTS;
    for (unsigned turn = 0; r == -ERR_EXISTS && turn < CHANGE_TRIES; turn++) {
        r = box_remove(box, CHANGE_WHOLE, true, -1, err); /* may also be left by a killed daemon */
        if (r == 0 || r == -ERR_NOT_FOUND)
            r = box_move(box, path, CHANGE_WHOLE, false, err);
    }
    if (r == 0)
        r = box_move(box, CHANGE_WHOLE, path, false, err);
    pthread_mutex_unlock(&own_state(box)->lock);
    return r;
}

int change_put(struct box *box, const char *const *skills, const struct change_source *sources, int watch,
               struct skill_change *ret_change, struct err *err) {
    struct skill_change change;
    char path[LIMIT_NAME_BYTES + 96];
    struct unpack_result result;
    TRY(change_begin(box, "put", &change, err));
    int r = 0;
    snprintf(path, sizeof path, "%s/put", change.path);
    for (const struct change_source *source = sources; r == 0 && source->read_fn; source++) {
        const struct unpack_request request = {.path = path, .max_entries = source->max_entries};
        r = box_tar_in(box, &request, source->read_fn, source->user, watch, &result, err);
    }
    for (size_t i = 0; r == 0 && box_attaches(box) && skills[i]; i++) {
        snprintf(path, sizeof path, "%s/put/%s", change.path, skills[i]);
        r = change_hide_lower(box, path, err);
    }
    if (r < 0)
        change_drop(box, &change);
    else
        *ret_change = change;
    return r;
}

int change_remove(struct box *box, const char *skill, struct skill_change *ret_change, struct err *err) {
    char below[LIMIT_NAME_BYTES + 8];
    snprintf(below, sizeof below, "rm/%s", skill);
    return change_begin(box, below, ret_change, err);
}

int change_commit(struct box *box, struct skill_change *change, struct err *err) {
    struct skill_change done;
    snprintf(done.path, sizeof done.path, CHANGES "/%016" PRIx64, change_number());
    int r = box_move(box, change->path, done.path, false, err);
    if (r == 0)
        *change = done;
    return r;
}

/* Then removes the parents; that fails while there are other changes, as it should. */
void change_drop(struct box *box, struct skill_change *change) {
    if (change->path[0])
        box_remove(box, change->path, true, -1, ERR_IGNORED);
    box_remove(box, CHANGES, false, -1, ERR_IGNORED);
    change->path[0] = 0;
}

/* ---- applying changes ---- */

static int change_add_skill(void *user, const struct file_stat *stat) {
    if (skill_id_check(stat->name, ERR_IGNORED) == 0)
        names_add(user, stat->name);
    return 0;
}

static bool change_is_committed(const char *name) {
    return strlen(name) == CHANGE_DIGITS && strspn(name, "0123456789abcdef") == CHANGE_DIGITS;
}

/* An uncommitted change that is older than an hour belongs to a dead daemon. */
static int change_add_change(void *user, const struct file_stat *stat) {
    uint64_t stale_ns = (clock_wall_ms() - CHANGE_STALE_MS) * 1000000u;
    if (change_is_committed(stat->name) || stat->mtime_ns < stale_ns)
        names_add(user, stat->name);
    return 0;
}

/* Lists a directory; one that does not exist is empty. */
static int change_list(struct box *box, const char *path, int (*each)(void *user, const struct file_stat *stat),
                       struct names *names, struct err *err) {
    const struct list_request request = {.path = path, .depth = 1, .limit = LIMIT_LIST_LIMIT};
    bool truncated;
    int r = box_list(box, &request, -1, each, names, &truncated, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

static int change_remove_skill(struct box *box, const char *skill, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    int r = box_remove(box, path, true, -1, err);
    if (r == -ERR_DENIED) { /* only root in the box can remove files that it made */
        const char *const argv[] = {"/bin/rm", "-rf", "--", path, NULL};
        const struct exec_request request = {.argv = argv, .root = true, .cwd = "/", .timeout_ms = CHANGE_REMOVE_MS};
        const struct exec_sink sink = {0};
        struct exec_result result;
        if (box_exec(box, &request, &sink, -1, &result, ERR_IGNORED) == 0 && result.exited && result.exit_code == 0)
            r = 0;
    }
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* The user of the box can change these names: only valid names of skills are used. */
static int change_apply_part(struct box *box, const char *change, bool puts, struct names *put, struct err *err) {
    autonames names = names_new();
    char path[96], from[LIMIT_NAME_BYTES + 96], to[LIMIT_NAME_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", change, puts ? "put" : "rm");
    int r = change_list(box, path, change_add_skill, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        r = change_remove_skill(box, names.names[i], err);
        if (r < 0 || !puts)
            continue;
        snprintf(from, sizeof from, "%s/put/%s", change, names.names[i]);
        snprintf(to, sizeof to, SKILL_PATH "/%s", names.names[i]);
        if ((r = box_move(box, from, to, false, err)) == 0)
            names_add(put, names.names[i]);
    }
    return r;
}

static int change_apply_one(struct box *box, const char *name, struct names *put, struct err *err) {
    struct skill_change change;
    struct err why;
    int r = 0;
    if (snprintf(change.path, sizeof change.path, CHANGES "/%s", name) >= (int)sizeof change.path)
        return 0; /* not made by us */
    if (change_is_committed(name)) {
        r = change_apply_part(box, change.path, false, put, err) ?: change_apply_part(box, change.path, true, put, err);
    }
    if (r == -ERR_GONE || r == -ERR_BUSY) /* the box is stopping; its next start does the rest */
        return r;
    int dropped = box_remove(box, change.path, true, -1, &why);
    if (r == 0 && dropped < 0 && dropped != -ERR_NOT_FOUND) {
        *err = why;
        r = dropped;
    }
    return r;
}

int change_apply(struct box *box, struct names *ret_put, struct err *err) {
    autonames names = names_new();
    struct err why;
    int r = change_list(box, CHANGES, change_add_change, &names, err);
    if (r < 0)
        return r;
    names_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        int one = change_apply_one(box, names.names[i], ret_put, &why);
        if (one < 0 && r == 0) {
            r = one;
            *err = why;
        }
    }
    box_remove(box, CHANGES, false, -1, &why);
    return r;
}
