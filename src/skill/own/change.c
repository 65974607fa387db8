/* Transactions on the skills of a box. Called by own.c and own/settle.c. Invariant: the old version of a skill is removed
 * only when the new one lies complete beside it, in the same file system, so that moving it is one rename. */
#include "skill/own/change.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "skill/own/settle.h"

#define WHOLE SKILL_PATH "/" SKILLS_CHANGES "/whole"
enum { NAME_DIGITS = 16, STALE_MS = 3600000, REMOVE_MS = 60000, TURNS = 3 };

/* Later ones have later names, also across restarts. */
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

static int change_begin(struct box *box, const char *below, struct change *ret_change, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    struct change change;
    snprintf(change.path, sizeof change.path, CHANGES "/%016" PRIx64 ".new", change_number());
    snprintf(path, sizeof path, "%s/%s", change.path, below);
    int r = -ERR_NOT_FOUND;
    for (unsigned turn = 0; r == -ERR_NOT_FOUND && turn < TURNS; turn++) /* the directory goes with the last change */
        r = box_mkdir(box, path, 0755, true, err);
    if (r == 0)
        *ret_change = change;
    return r;
}

/* Moved to where the lowest layer has a directory, a tree hides whatever lower layers have under its name, and keeps that
 * wherever it is moved to: no public skill that comes later is seen through it. */
static int put_whole(struct box *box, const char *path, struct err *err) {
    pthread_mutex_lock(&own_state(box)->lock); /* there is one such place; another daemon is met by failing */
    int r = -ERR_EXISTS;
    for (unsigned turn = 0; r == -ERR_EXISTS && turn < TURNS; turn++) {
        r = box_remove(box, WHOLE, true, -1, err); /* that directory, or what somebody who was killed left */
        if (r == 0 || r == -ERR_NOT_FOUND)
            r = box_move(box, path, WHOLE, false, err);
    }
    if (r == 0)
        r = box_move(box, WHOLE, path, false, err);
    pthread_mutex_unlock(&own_state(box)->lock);
    return r;
}

int change_put(struct box *box, const char *const *skills, const struct change_source *sources, int watch,
               struct change *ret_change, struct err *err) {
    struct change change;
    char path[LIMIT_NAME_BYTES + 96];
    struct unpack_result result;
    int r = change_begin(box, "put", &change, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%s/put", change.path);
    for (const struct change_source *source = sources; r == 0 && source->read_fn; source++) {
        const struct unpack_request request = {.path = path, .max_entries = source->max_entries};
        r = box_tar_in(box, &request, source->read_fn, source->user, watch, &result, err);
    }
    for (size_t i = 0; r == 0 && box_attaches(box) && skills[i]; i++) {
        snprintf(path, sizeof path, "%s/put/%s", change.path, skills[i]);
        r = put_whole(box, path, err);
    }
    if (r < 0)
        change_drop(box, &change);
    else
        *ret_change = change;
    return r;
}

int change_remove(struct box *box, const char *skill, struct change *ret_change, struct err *err) {
    char below[LIMIT_NAME_BYTES + 8];
    snprintf(below, sizeof below, "rm/%s", skill);
    return change_begin(box, below, ret_change, err);
}

int change_commit(struct box *box, struct change *change, struct err *err) {
    struct change done;
    snprintf(done.path, sizeof done.path, CHANGES "/%016" PRIx64, change_number());
    int r = box_move(box, change->path, done.path, false, err);
    if (r == 0)
        *change = done;
    return r;
}

/* Those above it go with the last one; where there are others that fails, and should. */
void change_drop(struct box *box, struct change *change) {
    struct err ignored;
    if (change->path[0])
        box_remove(box, change->path, true, -1, &ignored);
    box_remove(box, CHANGES, false, -1, &ignored);
    change->path[0] = 0;
}

/* ---- doing it ---- */

static int no_output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)user, (void)stream, (void)data, (void)len;
    return 0;
}

static int each_skill(void *user, const struct file_stat *stat) {
    struct err ignored;
    if (skill_id_check(stat->name, &ignored) == 0)
        names_add(user, stat->name);
    return 0;
}

/* A directory's names in order; none when it is not there. */
static int names_list(struct box *box, const char *path, int (*each)(void *user, const struct file_stat *stat),
                      struct names *names, struct err *err) {
    const struct list_request request = {.path = path, .depth = 1, .limit = LIMIT_LIST_LIMIT};
    bool truncated;
    int r = box_list(box, &request, -1, each, names, &truncated, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* What commands made as the box's root only its root can remove. */
static int remove_as_root(struct box *box, const char *path, struct err *err) {
    const char *const argv[] = {"/bin/rm", "-rf", "--", path, NULL};
    const struct exec_request request = {.argv = argv, .root = true, .cwd = "/", .timeout_ms = REMOVE_MS};
    const struct exec_sink sink = {.output = no_output};
    struct exec_result result;
    int r = box_exec(box, &request, &sink, -1, &result, err);
    if (r == 0 && !(result.exited && result.exit_code == 0))
        r = err_set(err, ERR_DENIED, "'%s' cannot be removed", path);
    return r;
}

static int apply_remove(struct box *box, const char *skill, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct err denied;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    int r = box_remove(box, path, true, -1, err);
    if (r == -ERR_DENIED && remove_as_root(box, path, &denied) == 0)
        r = 0;
    return r == -ERR_NOT_FOUND ? 0 : r;
}

static int apply_put(struct box *box, const char *change, const char *skill, struct err *err) {
    char from[LIMIT_NAME_BYTES + 96], to[LIMIT_NAME_BYTES + 32];
    int r = apply_remove(box, skill, err);
    snprintf(from, sizeof from, "%s/put/%s", change, skill);
    snprintf(to, sizeof to, SKILL_PATH "/%s", skill);
    return r < 0 ? r : box_move(box, from, to, false, err);
}

/* The names are those of the box's own files, which its user can change: nothing but a name of a skill is used. */
static int apply_part(struct box *box, const char *change, bool puts, struct names *put, struct err *err) {
    struct names names;
    char path[96];
    names_init(&names);
    snprintf(path, sizeof path, "%s/%s", change, puts ? "put" : "rm");
    int r = names_list(box, path, each_skill, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        r = puts ? apply_put(box, change, names.names[i], err) : apply_remove(box, names.names[i], err);
        if (r == 0 && puts)
            names_add(put, names.names[i]);
    }
    names_done(&names);
    return r;
}

static bool change_name(const char *name) {
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789abcdef") == NAME_DIGITS;
}

/* What is older than an hour and not committed was left by somebody who is gone. */
static int each_change(void *user, const struct file_stat *stat) {
    uint64_t stale_ns = (clock_wall_ms() - STALE_MS) * 1000000u;
    if (change_name(stat->name) || stat->mtime_ns < stale_ns)
        names_add(user, stat->name);
    return 0;
}

static int apply_one(struct box *box, const char *name, struct names *put, struct err *err) {
    struct change change;
    struct err why;
    int r = 0;
    if (snprintf(change.path, sizeof change.path, CHANGES "/%s", name) >= (int)sizeof change.path)
        return 0; /* none of ours */
    if (change_name(name)) {
        r = apply_part(box, change.path, false, put, err);
        if (r == 0)
            r = apply_part(box, change.path, true, put, err);
    }
    if (r == -ERR_GONE || r == -ERR_BUSY) /* the box goes: its next life does the rest */
        return r;
    int dropped = box_remove(box, change.path, true, -1, &why);
    if (r == 0 && dropped < 0 && dropped != -ERR_NOT_FOUND) {
        *err = why;
        r = dropped;
    }
    return r;
}

int change_apply(struct box *box, struct names *ret_put, struct err *err) {
    struct names names;
    struct err why;
    names_init(&names);
    int r = names_list(box, CHANGES, each_change, &names, err);
    bool listed = r == 0;
    names_sort(&names);
    for (size_t i = 0; listed && i < names.count; i++) {
        int one = apply_one(box, names.names[i], ret_put, &why);
        if (one < 0 && r == 0) {
            r = one;
            *err = why;
        }
    }
    if (listed)
        box_remove(box, CHANGES, false, -1, &why);
    names_done(&names);
    return r;
}
