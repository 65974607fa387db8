/* Copies files whose hashes differ, through verbs. Called by sync.c. STATE/skills/placed/BOX records the copied files,
 * one per line: sha256, size, time and path. Invariant: below /skills a file that differs from the recorded one was
 * changed or removed by its user, and stays so; {workspace}/.skills and .agents belong to us.
 *
 * On a remote machine every request costs a round trip. One listing of a tree shows missing files and those that still
 * have their recorded size and time; only the rest is hashed there. The settings bound the rate of copies. */

#include "base/base.h"
#include "skill/digest.h"
#include "skill/registry/sync.h"
#include "skill/skills.h"
#include "tree/treewalk.h"

enum { COPY_NOTE_BYTES = 64 << 20 };

struct copy_placed {
    char hash[65];
    const char *path;
    uint64_t size, mtime_ns; /* as the box reported them; 0: not known */
    bool wanted;
};

/* A file on a remote machine. */
struct copy_listed {
    const char *path;
    uint64_t size, mtime_ns;
    bool file;
};

struct copy {
    struct skills *skills;
    struct box *box;
    struct sync_report *report;
    struct arena arena;
    struct copy_placed *placed; /* of the last copy, sorted by path */
    size_t placed_count;
    struct buf note;            /* the new record */
    bool users;                 /* below /skills: the user's changes stay */
    bool far;                   /* the box is on a remote machine */
    struct copy_listed *listed; /* if far: the box's tree, sorted by path */
    size_t listed_count, listed_room;
    uint64_t rate_bytes, begun_ms, sent_bytes; /* rate per second; 0: unlimited */
    int fd;                                    /* the file being read */
    const char *to;                            /* where the tree being read goes */
    struct err *err;
};

/* ---- what was placed ---- */

static int copy_placed_order(const void *a, const void *b) {
    return strcmp(((const struct copy_placed *)a)->path, ((const struct copy_placed *)b)->path);
}

static int copy_note_load(struct copy *copy, struct err *err) {
    const char *name = copy->box->id;
    autofd fd = openat(copy->skills->placed_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    size_t cap = 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "'skills/placed/%s'", name);
    if (fstat(fd, &status) < 0 || status.st_size > COPY_NOTE_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'skills/placed/%s' is too large", name);
    char *text = arena_alloc(&copy->arena, (size_t)status.st_size + 1);
    ssize_t n = fd_read_full(fd, text, (size_t)status.st_size);
    if (n < 0)
        return err_errno(err, (int)-n, "'skills/placed/%s'", name);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        unsigned long long size, mtime_ns;
        int at = 0;
        if (end - line < 67 || sscanf(line + 64, " %llu %llu %n", &size, &mtime_ns, &at) < 2 || line[64 + at] != '/')
            continue; /* not our format: that file is unknown and left alone */
        struct copy_placed *placed = &arena_add(&copy->arena, copy->placed, copy->placed_count, cap);
        *placed = (struct copy_placed){.path = line + 64 + at, .size = size, .mtime_ns = mtime_ns};
        memcpy(placed->hash, line, 64);
    }
    if (copy->placed_count)
        qsort(copy->placed, copy->placed_count, sizeof *copy->placed, copy_placed_order);
    return 0;
}

void sync_copy_forget(struct skills *skills, const char *box_id) {
    unlinkat(skills->placed_dir, box_id, 0);
}

/* ---- one file ---- */

/* Limits the rate: the user's own traffic over the same line comes first. */
static ssize_t copy_read(void *user, void *data, size_t size, struct err *err) {
    struct copy *copy = user;
    ssize_t n = read(copy->fd, data, size);
    if (n < 0)
        return err_errno(err, errno, "reading a skill");
    copy->sent_bytes += (size_t)n;
    uint64_t due_ms = copy->rate_bytes ? copy->sent_bytes * 1000 / copy->rate_bytes : 0;
    uint64_t gone_ms = clock_ms() - copy->begun_ms;
    if (due_ms > gone_ms)
        nanosleep(&(struct timespec){.tv_sec = (time_t)((due_ms - gone_ms) / 1000),
                                     .tv_nsec = (long)((due_ms - gone_ms) % 1000) * 1000000},
                  NULL);
    return n;
}

/* ---- files of a box ---- */

static int copy_listed_order(const void *a, const void *b) {
    return strcmp(((const struct copy_listed *)a)->path, ((const struct copy_listed *)b)->path);
}

static int copy_listed_add(void *user, const struct file_stat *stat) {
    struct copy *copy = user;
    arena_add(&copy->arena, copy->listed, copy->listed_count, copy->listed_room) =
        (struct copy_listed){.path = arena_strdup(&copy->arena, stat->path),
                             .size = stat->size,
                             .mtime_ns = stat->mtime_ns,
                             .file = stat->type == FILE_REGULAR};
    return 0;
}

static int copy_list(struct copy *copy, const char *top, struct err *err) {
    bool truncated;
    const struct list_request request = {.path = top, .depth = LIMIT_LIST_DEPTH, .limit = LIMIT_UNPACK_ENTRIES / 4};
    copy->listed_count = 0;
    if (!copy->far)
        return 0;
    int r = box_list(copy->box, &request, -1, copy_listed_add, copy, &truncated, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    if (r == 0 && truncated)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' holds too many files", top);
    if (r == 0 && copy->listed_count)
        qsort(copy->listed, copy->listed_count, sizeof *copy->listed, copy_listed_order);
    return r;
}

/* The hash of the box's file; empty: no file. On a remote machine, a listed file with the size and time of `placed` is
 * not hashed again. */
static int copy_hash(struct copy *copy, const char *path, const struct copy_placed *placed, bool listed, char have[65],
                     struct err *err) {
    const struct copy_listed key = {.path = path}, *found = NULL;
    uint8_t digest[32];
    uint64_t size;
    have[0] = 0;
    if (listed && copy->listed_count)
        found = bsearch(&key, copy->listed, copy->listed_count, sizeof key, copy_listed_order);
    if (listed && !found)
        return 0;
    if (found && found->file && placed && placed->mtime_ns && found->size == placed->size &&
        found->mtime_ns == placed->mtime_ns) {
        memcpy(have, placed->hash, sizeof placed->hash);
        return 0;
    }
    int r = box_hash(copy->box, path, -1, digest, &size, err);
    if (r == 0)
        text_hex(have, digest, sizeof digest);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

static void copy_note(struct copy *copy, const char *hash, const char *path, uint64_t size, uint64_t mtime_ns) {
    buf_printf(&copy->note, "%s %llu %llu %s\n", hash, (unsigned long long)size, (unsigned long long)mtime_ns, path);
}

static int copy_file(struct copy *copy, int fd, uint32_t mode, const char *path, struct err *err) {
    char want[65], have[65] = "";
    uint8_t digest[32];
    uint64_t size;
    struct copy_placed *placed = NULL, key = {.path = path};
    int r = digest_fd(fd, digest, &size);
    if (r < 0)
        return err_errno(err, -r, "reading a skill");
    text_hex(want, digest, sizeof digest);
    if (copy->placed_count && (placed = bsearch(&key, copy->placed, copy->placed_count, sizeof key, copy_placed_order)))
        placed->wanted = true;
    r = copy_hash(copy, path, placed, copy->far, have, err);
    if (r < 0 && !copy->users && r != -ERR_GONE && box_remove(copy->box, path, true, -1, err) == 0)
        r = have[0] = 0; /* something other than a file was in the way */
    if (r < 0 && (r == -ERR_GONE || !copy->users))
        return r;
    if (r < 0)
        snprintf(have, sizeof have, "?"); /* the user replaced it by something other than a file */
    if (strcmp(have, want) == 0) {
        copy->report->unchanged++;
        copy_note(copy, want, path, placed ? placed->size : 0, placed ? placed->mtime_ns : 0);
        return 0;
    }
    bool theirs = placed ? strcmp(have, placed->hash) != 0 : have[0] != 0;
    if (copy->users && theirs) {
        copy->report->kept++;
        copy_note(copy, want, path, 0, 0);
        return 0;
    }
    const struct write_request request = {.path = path, .mode = mode, .parents = true, .size = -1, .max = UINT64_MAX};
    bool created;
    struct file_stat stat;
    copy->report->written++;
    copy->fd = fd;
    r = box_write(copy->box, &request, copy_read, copy, -1, &created, &stat, err);
    if (r == 0)
        copy_note(copy, want, path, stat.size, stat.mtime_ns);
    return r;
}

/* ---- trees ---- */

static int copy_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct copy *copy = user;
    char path[LIMIT_PATH_BYTES + 1];
    if ((entry->kind != 'f' && entry->kind != 'x') || strchr(entry->path, '\n'))
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", copy->to, entry->path) >= (int)sizeof path)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is too deep", copy->to);
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%.200s'", path)
                  : copy_file(copy, fd, entry->kind == 'x' ? 0755 : 0644, path, err);
}

static int copy_global(struct copy *copy, const char *part, struct err *err) {
    char path[64], to[LIMIT_PATH_BYTES + 1];
    snprintf(path, sizeof path, "%s/%s", copy->report->version, part);
    snprintf(to, sizeof to, "%s/.%s", box_workspace(copy->box), part);
    autofd dir = skills_dir(copy->skills->global_dir, path);
    int r = dir < 0 ? err_errno(err, errno, "'skills/global/%s'", path) : copy_list(copy, to, err);
    copy->to = to;
    return r < 0 ? r : treewalk_own(dir, copy_entry, copy, err);
}

static int copy_skill(void *user, const struct base_skill *skill) {
    struct copy *copy = user;
    char to[LIMIT_PATH_BYTES + 1];
    autofd fd = -1;
    int r = base_open(copy->skills, skill, &fd, copy->err);
    snprintf(to, sizeof to, SKILL_PATH "/%s", skill->skill);
    copy->to = to;
    return r < 0 ? r : treewalk_own(fd, copy_entry, copy, copy->err);
}

/* Removes files that are no longer wanted, unless the user changed them. */
static int copy_remove(struct copy *copy, struct err *err) {
    int r = 0;
    for (size_t i = 0; i < copy->placed_count && r == 0; i++) {
        const struct copy_placed *placed = &copy->placed[i];
        char have[65];
        bool users = strncmp(placed->path, SKILL_PATH "/", strlen(SKILL_PATH) + 1) == 0;
        if (placed->wanted)
            continue;
        if (copy_hash(copy, placed->path, NULL, false, have, ERR_IGNORED) < 0 || !have[0])
            continue;
        if (users && strcmp(have, placed->hash) != 0) {
            copy->report->kept++;
            continue;
        }
        copy->report->removed++;
        r = box_remove(copy->box, placed->path, false, -1, err);
        for (char *path = arena_strdup(&copy->arena, placed->path), *slash; r == 0 && (slash = strrchr(path, '/'));) {
            *slash = 0; /* empty directories; stops at the first that is not empty */
            if (strlen(path) <= strlen(SKILL_PATH) || box_remove(copy->box, path, false, -1, ERR_IGNORED) < 0)
                break;
        }
    }
    return r;
}

int sync_copy(struct skills *skills, struct box *box, struct sync_report *report, struct err *err) {
    struct copy copy = {.skills = skills,
                        .box = box,
                        .report = report,
                        .err = err,
                        .far = box->ops->reach != NULL,
                        .begun_ms = clock_ms(),
                        .rate_bytes = box->ops->reach ? skills_settings(skills)->far_rate_bytes : 0};
    arena_init(&copy.arena);
    buf_init(&copy.note, COPY_NOTE_BYTES);
    int r = copy_note_load(&copy, err);
    if (r == 0 && report->version[0])
        r = copy_global(&copy, "skills", err);
    if (r == 0 && report->version[0])
        r = copy_global(&copy, "agents", err);
    copy.users = true;
    if (r == 0 && box->spec.agent)
        r = copy_list(&copy, SKILL_PATH, err);
    if (r == 0 && box->spec.agent)
        r = base_each(skills, box->spec.agent, copy_skill, &copy, err);
    if (r == 0)
        r = copy_remove(&copy, err);
    if (r == 0 && copy.note.failed)
        r = err_set(err, ERR_TOO_LARGE, "too many files to note in 'skills/placed/%s'", box->id);
    int number = r == 0 ? fd_replace_file(skills->placed_dir, box->id, copy.note.data, copy.note.len) : 0;
    if (number < 0)
        r = err_errno(err, -number, "'skills/placed/%s'", box->id);
    buf_done(&copy.note);
    arena_done(&copy.arena);
    return r;
}
