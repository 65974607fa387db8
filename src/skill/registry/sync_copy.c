/* Copies by difference of hashes, through verbs. Called by sync.c. What was placed is noted in STATE/skills/placed/BOX, a
 * line a file: sha256, size, time and path. Invariant: below /skills a file that is not as it was placed is its user's,
 * changed or removed, and stays so; {workspace}/.skills and .agents are ours.
 *
 * In a box that is elsewhere every question costs a round trip: one listing of a tree tells what is missing and what has
 * still the size and time it was placed with, only the rest is asked for its hash; and what goes there goes no faster than
 * the settings say. */
#include "skill/registry/sync_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "skill/digest.h"
#include "skill/skills.h"
#include "tree/treewalk.h"

enum { COPY_NOTE_BYTES = 64 << 20 };

struct placed {
    char hash[65];
    const char *path;
    uint64_t size, mtime_ns; /* as the box told them; 0: not known */
    bool wanted;
};

/* What a box that is elsewhere has. */
struct listed {
    const char *path;
    uint64_t size, mtime_ns;
    bool file;
};

struct copy {
    struct skills *skills;
    struct box *box;
    struct sync_report *report;
    struct arena arena;
    struct placed *placed; /* of the time before, by path */
    size_t placed_count;
    struct buf note;       /* of now */
    bool users;            /* below /skills: what its user did counts */
    bool far;              /* the box is elsewhere */
    struct listed *listed; /* far: the tree that is copied, as it is there, by path */
    size_t listed_count, listed_room;
    uint64_t rate_bytes, begun_ms, sent_bytes; /* a second; 0: no bound */
    int fd;                                    /* that is read now */
};

/* ---- what was placed ---- */

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct placed *)a)->path, ((const struct placed *)b)->path);
}

static void note_read(struct copy *copy, char *text, size_t len) {
    size_t lines = 0;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    copy->placed = arena_alloc(&copy->arena, (lines + 1) * sizeof *copy->placed);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        unsigned long long size, mtime_ns;
        int at = 0;
        if (end - line < 67 || sscanf(line + 64, " %llu %llu %n", &size, &mtime_ns, &at) < 2 || line[64 + at] != '/')
            continue; /* not ours: then nothing is known of that file, and it is left alone */
        struct placed *placed = &copy->placed[copy->placed_count++];
        *placed = (struct placed){.path = line + 64 + at, .size = size, .mtime_ns = mtime_ns};
        memcpy(placed->hash, line, 64);
    }
    if (copy->placed_count)
        qsort(copy->placed, copy->placed_count, sizeof *copy->placed, by_path);
}

static int note_load(struct copy *copy, const char *name, struct err *err) {
    autofd fd = openat(copy->skills->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "'skills/%s'", name);
    if (fstat(fd, &status) < 0 || status.st_size > COPY_NOTE_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'skills/%s' is too large", name);
    char *text = arena_alloc(&copy->arena, (size_t)status.st_size + 1);
    ssize_t n = fd_read_full(fd, text, (size_t)status.st_size);
    if (n < 0)
        return err_errno(err, (int)-n, "'skills/%s'", name);
    note_read(copy, text, (size_t)n);
    return 0;
}

static int note_save(struct copy *copy, const char *name, struct err *err) {
    char fresh[80];
    snprintf(fresh, sizeof fresh, "%s.new", name);
    if (copy->note.failed)
        return err_set(err, ERR_TOO_LARGE, "too many files to note in 'skills/%s'", name);
    autofd fd = openat(copy->skills->dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, copy->note.data, copy->note.len);
    if (r == 0 && renameat(copy->skills->dir, fresh, copy->skills->dir, name) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, -r, "'skills/%s'", name) : 0;
}

static void note_name(char name[64], const char *id) {
    snprintf(name, 64, "placed/%.16s", id);
}

void sync_copy_forget(struct skills *skills, const char *box_id) {
    char name[64];
    note_name(name, box_id);
    unlinkat(skills->dir, name, 0);
}

/* ---- one file ---- */

static int file_hash(int fd, char ret_text[65], struct err *err) {
    struct digest_sha mix;
    uint8_t digest[32];
    char data[65536];
    ssize_t n;
    digest_sha_begin(&mix);
    for (off_t at = 0; (n = pread(fd, data, sizeof data, at)) > 0; at += n)
        digest_sha_data(&mix, data, (size_t)n);
    digest_sha_end(&mix, digest);
    text_hex(ret_text, digest, sizeof digest);
    return n < 0 ? err_errno(err, errno, "reading a skill") : 0;
}

/* No faster than it may be: what the user himself does over the same line comes first. */
static void copy_pace(struct copy *copy, size_t len) {
    copy->sent_bytes += len;
    uint64_t due_ms = copy->rate_bytes ? copy->sent_bytes * 1000 / copy->rate_bytes : 0;
    uint64_t gone_ms = clock_ms() - copy->begun_ms;
    if (due_ms > gone_ms)
        nanosleep(&(struct timespec){.tv_sec = (time_t)((due_ms - gone_ms) / 1000),
                                     .tv_nsec = (long)((due_ms - gone_ms) % 1000) * 1000000},
                  NULL);
}

static ssize_t read_next(void *user, void *data, size_t size, struct err *err) {
    struct copy *copy = user;
    ssize_t n = read(copy->fd, data, size);
    if (n > 0)
        copy_pace(copy, (size_t)n);
    return n < 0 ? err_errno(err, errno, "reading a skill") : n;
}

/* ---- what a box that is elsewhere has ---- */

static int by_listed(const void *a, const void *b) {
    return strcmp(((const struct listed *)a)->path, ((const struct listed *)b)->path);
}

static int listed_add(void *user, const struct file_stat *stat) {
    struct copy *copy = user;
    if (copy->listed_count == copy->listed_room) {
        size_t room = copy->listed_room ? 2 * copy->listed_room : 256;
        struct listed *more = arena_alloc(&copy->arena, room * sizeof *more);
        if (copy->listed_count)
            memcpy(more, copy->listed, copy->listed_count * sizeof *more);
        copy->listed = more;
        copy->listed_room = room;
    }
    copy->listed[copy->listed_count++] = (struct listed){.path = arena_strdup(&copy->arena, stat->path),
                                                         .size = stat->size,
                                                         .mtime_ns = stat->mtime_ns,
                                                         .file = stat->type == FILE_REGULAR};
    return 0;
}

static int listed_read(struct copy *copy, const char *top, struct err *err) {
    bool truncated;
    const struct list_request request = {.path = top, .depth = LIMIT_LIST_DEPTH, .limit = LIMIT_UNPACK_ENTRIES / 4};
    copy->listed_count = 0;
    if (!copy->far)
        return 0;
    int r = box_list(copy->box, &request, -1, listed_add, copy, &truncated, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    if (r == 0 && truncated)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' holds too many files", top);
    if (r == 0 && copy->listed_count)
        qsort(copy->listed, copy->listed_count, sizeof *copy->listed, by_listed);
    return r;
}

/* True: have is known without asking. */
static bool listed_tells(const struct copy *copy, const char *path, const struct placed *placed, char have[65]) {
    const struct listed key = {.path = path}, *found = NULL;
    if (!copy->far)
        return false;
    if (copy->listed_count)
        found = bsearch(&key, copy->listed, copy->listed_count, sizeof key, by_listed);
    have[0] = 0;
    if (!found)
        return true;
    if (!found->file || !placed || !placed->mtime_ns || found->size != placed->size ||
        found->mtime_ns != placed->mtime_ns)
        return false;
    memcpy(have, placed->hash, sizeof placed->hash);
    return true;
}

/* The hash of what the box has; empty: nothing. */
static int box_has(struct copy *copy, const char *path, char ret_text[65], struct err *err) {
    uint8_t digest[32];
    uint64_t size;
    ret_text[0] = 0;
    int r = box_hash(copy->box, path, -1, digest, &size, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    if (r == 0)
        text_hex(ret_text, digest, sizeof digest);
    return r;
}

static void note_put(struct copy *copy, const char *hash, const char *path, uint64_t size, uint64_t mtime_ns) {
    buf_printf(&copy->note, "%s %llu %llu %s\n", hash, (unsigned long long)size, (unsigned long long)mtime_ns, path);
}

static int copy_file(struct copy *copy, int fd, uint32_t mode, const char *path, struct err *err) {
    char want[65], have[65];
    struct placed *placed = NULL, key = {.path = path};
    int r = file_hash(fd, want, err);
    if (copy->placed_count && (placed = bsearch(&key, copy->placed, copy->placed_count, sizeof key, by_path)))
        placed->wanted = true;
    if (r == 0 && !listed_tells(copy, path, placed, have))
        r = box_has(copy, path, have, err);
    if (r < 0 && !copy->users && r != -ERR_GONE && box_remove(copy->box, path, true, -1, err) == 0)
        r = have[0] = 0; /* something else than a file is in our way */
    if (r < 0 && r != -ERR_GONE && copy->users)
        r = 0, snprintf(have, sizeof have, "?"); /* the user made something else of it */
    if (r < 0)
        return r;
    if (strcmp(have, want) == 0) {
        copy->report->unchanged++;
        note_put(copy, want, path, placed ? placed->size : 0, placed ? placed->mtime_ns : 0);
        return 0;
    }
    bool theirs = placed ? strcmp(have, placed->hash) != 0 : have[0] != 0;
    if (copy->users && theirs) {
        copy->report->kept++;
        note_put(copy, want, path, 0, 0);
        return 0;
    }
    const struct write_request request = {.path = path, .mode = mode, .parents = true, .size = -1, .max = UINT64_MAX};
    bool created;
    struct file_stat stat;
    copy->report->written++;
    copy->fd = fd;
    r = box_write(copy->box, &request, read_next, copy, -1, &created, &stat, err);
    if (r == 0)
        note_put(copy, want, path, stat.size, stat.mtime_ns);
    return r;
}

/* ---- trees ---- */

struct copy_top {
    struct copy *copy;
    const char *to;
};

static int copy_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct copy_top *top = user;
    char path[LIMIT_PATH_BYTES + 1];
    if ((entry->kind != 'f' && entry->kind != 'x') || strchr(entry->path, '\n'))
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", top->to, entry->path) >= (int)sizeof path)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is too deep", top->to);
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%.200s'", path)
                  : copy_file(top->copy, fd, entry->kind == 'x' ? 0755 : 0644, path, err);
}

static int copy_tree(struct copy *copy, int dir, const char *to, struct err *err) {
    return treewalk_own(dir, copy_entry, &(struct copy_top){copy, to}, err);
}

static int copy_global(struct copy *copy, const char *part, struct err *err) {
    char path[64], to[LIMIT_PATH_BYTES + 1];
    snprintf(path, sizeof path, "global/%s/%s", copy->report->version, part);
    snprintf(to, sizeof to, "%s/.%s", box_workspace(copy->box), part);
    autofd dir = openat(copy->skills->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = dir < 0 ? err_errno(err, errno, "'skills/%s'", path) : listed_read(copy, to, err);
    return r < 0 ? r : copy_tree(copy, dir, to, err);
}

struct base_copy {
    struct copy *copy;
    struct err *err;
};

static int copy_skill(void *user, const struct base_skill *skill) {
    struct base_copy *base = user;
    char to[LIMIT_PATH_BYTES + 1];
    int fd = -1;
    int r = base_open(base->copy->skills, skill, &fd, base->err);
    snprintf(to, sizeof to, SKILL_PATH "/%s", skill->skill);
    if (r == 0)
        r = copy_tree(base->copy, fd, to, base->err);
    fd_close(&fd);
    return r;
}

/* What is not wanted any more goes, unless its user changed it. */
static int copy_remove(struct copy *copy, struct err *err) {
    int r = 0;
    for (size_t i = 0; i < copy->placed_count && r == 0; i++) {
        const struct placed *placed = &copy->placed[i];
        char have[65];
        bool users = strncmp(placed->path, SKILL_PATH "/", strlen(SKILL_PATH) + 1) == 0;
        if (placed->wanted)
            continue;
        struct err ignored;
        if (box_has(copy, placed->path, have, &ignored) < 0 || !have[0])
            continue;
        if (users && strcmp(have, placed->hash) != 0) {
            copy->report->kept++;
            continue;
        }
        copy->report->removed++;
        r = box_remove(copy->box, placed->path, false, -1, err);
        for (char *path = arena_strdup(&copy->arena, placed->path), *slash; r == 0 && (slash = strrchr(path, '/'));) {
            *slash = 0; /* directories that are empty now; the first that is not ends it */
            if (strlen(path) <= strlen(SKILL_PATH) || box_remove(copy->box, path, false, -1, &ignored) < 0)
                break;
        }
    }
    return r;
}

int sync_copy(struct skills *skills, struct box *box, struct sync_report *report, struct err *err) {
    struct copy copy = {.skills = skills,
                        .box = box,
                        .report = report,
                        .far = box->ops->reach != NULL,
                        .begun_ms = clock_ms(),
                        .rate_bytes = box->ops->reach ? skills_settings(skills)->far_rate_bytes : 0};
    char name[64];
    note_name(name, box->id);
    arena_init(&copy.arena);
    buf_init(&copy.note, COPY_NOTE_BYTES);
    int r = mkdirat(skills->dir, "placed", 0700) < 0 && errno != EEXIST ? err_errno(err, errno, "'skills/placed'") : 0;
    if (r == 0)
        r = note_load(&copy, name, err);
    if (r == 0 && report->version[0])
        r = copy_global(&copy, "skills", err);
    if (r == 0 && report->version[0])
        r = copy_global(&copy, "agents", err);
    copy.users = true;
    if (r == 0 && box->spec.agent)
        r = listed_read(&copy, SKILL_PATH, err);
    if (r == 0 && box->spec.agent)
        r = base_each(skills, box->spec.agent, copy_skill, &(struct base_copy){&copy, err}, err);
    if (r == 0)
        r = copy_remove(&copy, err);
    if (r == 0)
        r = note_save(&copy, name, err);
    buf_done(&copy.note);
    arena_done(&copy.arena);
    return r;
}
