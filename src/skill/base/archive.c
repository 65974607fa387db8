/* Public skills from a checked ZIP, and skill-creator from a directory or a ZIP that the configuration names. Called by
 * the fronts that take uploads, at start, and when the configuration is read again. Invariant: everything is in a stage
 * until base_put, so a bad archive changes nothing. A daemon holds a flock on the layer of its skill-creator, so that
 * no other daemon collects it (skill/base/collect.c). */
#include <sys/file.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "skill/base/view.h"
#include "skill/digest.h"
#include "skill/zip/zip.h"

enum { CREATOR_DEPTH = 32, CREATOR_RATIO = 1000 };

static int archive_put(void *user, const uint8_t *data, size_t len) {
    struct err ignored; /* zip_read writes its own text, with this code */
    int r = fd_write_all(*(const int *)user, data, len);
    return r < 0 ? err_errno(&ignored, -r, "writing") : 0;
}

static int archive_stage(struct stage *stage, struct zip *zip, struct err *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < zip_count(zip); i++) {
        const struct zip_entry *entry = zip_entry(zip, i);
        autofd fd = -1;
        if (entry->loose)
            continue;
        r = entry->dir ? stage_dir(stage, entry->path, err)
                       : stage_file(stage, entry->path, entry->executable ? 0755 : 0644, &fd, err);
        if (r == 0 && !entry->dir)
            r = zip_read(zip, i, archive_put, &fd, err);
    }
    return r;
}

int base_put_zip(struct skills *skills, const char *agent, struct zip *zip, struct err *err) {
    struct stage stage;
    TRY(stage_open(skills, &stage, err));
    int r = archive_stage(&stage, zip, err) ?: base_put(skills, agent, &stage, err);
    stage_abort(&stage);
    return r;
}

/* ---- skill-creator ---- */

/* The archive holds skill-creator in one folder of any name. */
static int archive_creator_unzip(struct stage *stage, int fd, struct err *err) {
    const struct skill_settings *settings = skills_settings(stage->skills);
    const char *const *names;
    struct zip_limits limits = {.bytes = settings->unpacked_bytes,
                                .unpacked_bytes = settings->unpacked_bytes,
                                .entries = settings->upload_entries,
                                .depth = CREATOR_DEPTH,
                                .ratio = CREATOR_RATIO};
    struct zip *zip;
    TRY(zip_open(fd, &limits, &zip, err));
    int r = zip_skills(zip, NULL, &names, err);
    if (r == 0 && names[1])
        r = err_set(err, ERR_INVALID, "the archive holds more than one folder; put the skill into one");
    if (r == 0)
        r = archive_stage(stage, zip, err);
    if (r == 0 && strcmp(names[0], BASE_CREATOR) != 0 && renameat(stage->fd, names[0], stage->fd, BASE_CREATOR) < 0)
        r = err_errno(err, errno, "cannot move its folder");
    zip_close(zip);
    return r;
}

/* Names the layer by its content, so that the next start finds it. */
static int archive_creator_stage(struct stage *stage, const char *source, char ret_name[LAYER_NAME_BYTES],
                                 struct err *err) {
    struct stat status;
    uint8_t sum[32];
    uint64_t files, bytes;
    autofd fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "cannot read it");
    TRY(S_ISDIR(status.st_mode) ? stage_copy(stage, BASE_CREATOR, fd, err) : archive_creator_unzip(stage, fd, err));
    autofd dir = skills_dir(stage->fd, BASE_CREATOR);
    int r = dir < 0 ? err_errno(err, errno, "cannot open its folder") : digest_tree(dir, sum, &files, &bytes, err);
    if (r == 0 && fsetxattr(dir, SKILLS_OPAQUE, "y", 1, 0) < 0)
        r = err_errno(err, errno, "cannot open its layer");
    if (r == 0)
        text_hex(ret_name, sum, (LAYER_NAME_BYTES - 1) / 2);
    return r < 0 ? r : stage_seal(stage, err);
}

int base_creator(struct skills *skills, const char *source, char ret_name[17], int *ret_fd, struct err *err) {
    struct stage stage;
    autofd fd = -1;
    ret_name[0] = 0;
    int r = source && *source ? stage_open(skills, &stage, err) : 0;
    if (r == 0 && source && *source) {
        char name[LAYER_NAME_BYTES];
        r = archive_creator_stage(&stage, source, name, err) ?: skills_lock(skills, err);
        if (r == 0) {
            r = stage_publish(&stage, skills->layers_dir, name, err);
            if (r == 0 && ((fd = skills_dir(skills->layers_dir, name)) < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0))
                r = err_errno(err, errno, "cannot open its layer");
            skills_unlock(skills);
        }
        stage_abort(&stage);
        if (r == 0)
            memcpy(ret_name, name, sizeof name);
    }
    *ret_fd = r == 0 ? fd_take(&fd) : -1;
    return r < 0 ? err_wrap(err, "the skill " BASE_CREATOR " (%.300s)", source) : 0;
}
