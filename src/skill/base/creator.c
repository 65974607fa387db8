/* The skill that every agent has, from a directory or a ZIP that the configuration names: a layer of its own, the lowest of
 * all, named by its content. Made at the start and when the configuration is read again. Invariant: whoever serves with
 * such a layer holds a flock on it, so that no daemon with another one takes it for left over (base/collect.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/fd.h"
#include "base/text.h"
#include "skill/base/view.h"
#include "skill/zip/zip.h"

enum { CREATOR_DEPTH = 32, CREATOR_RATIO = 1000 };

/* An archive has it in one folder, whatever that is called. */
static int stage_archive(struct stage *stage, int fd, struct err *err) {
    const struct skill_settings *settings = skills_settings(stage->skills);
    const char *const *names;
    struct zip_limits limits = {.bytes = settings->unpacked_bytes,
                                .unpacked_bytes = settings->unpacked_bytes,
                                .entries = settings->upload_entries,
                                .depth = CREATOR_DEPTH,
                                .ratio = CREATOR_RATIO};
    struct zip *zip;
    int r = zip_open(fd, &limits, &zip, err);
    if (r < 0)
        return r;
    r = zip_skills(zip, NULL, &names, err);
    if (r == 0 && names[1])
        r = err_set(err, ERR_INVALID, "it holds more than one folder");
    if (r == 0)
        r = stage_zip(stage, zip, err);
    if (r == 0 && strcmp(names[0], BASE_CREATOR) != 0 && renameat(stage->fd, names[0], stage->fd, BASE_CREATOR) < 0)
        r = err_errno(err, errno, "its folder");
    zip_close(zip);
    return r;
}

static int stage_source(struct stage *stage, const char *source, struct err *err) {
    struct stat status;
    autofd fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "it cannot be read");
    return S_ISDIR(status.st_mode) ? stage_copy(stage, BASE_CREATOR, fd, err) : stage_archive(stage, fd, err);
}

/* The name by the content, so that a start finds the layer of the last one. */
static int stage_name(const struct stage *stage, char ret_name[LAYER_NAME_BYTES], struct err *err) {
    uint8_t sum[32];
    uint64_t files, bytes;
    autofd dir = openat(stage->fd, BASE_CREATOR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, errno, "its folder");
    int r = base_tree_hash(dir, sum, &files, &bytes, err);
    if (r < 0)
        return r;
    if (fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0 ||
        (geteuid() == 0 && fchown(stage->fd, IDS_AGENT, IDS_AGENT) < 0) || fchmod(stage->fd, 0755) < 0)
        return err_errno(err, errno, "its layer");
    if ((r = stage_sync(stage, err)) < 0)
        return r;
    text_hex(ret_name, sum, (LAYER_NAME_BYTES - 1) / 2);
    return 0;
}

static int creator_make(struct skills *skills, const char *source, char ret_name[LAYER_NAME_BYTES], int *ret_fd,
                        struct err *err) {
    struct stage stage;
    struct err ignored;
    int r = stage_open(skills, &stage, err);
    if (r < 0)
        return r;
    r = stage_source(&stage, source, err);
    if (r == 0)
        r = stage_name(&stage, ret_name, err);
    if (r == 0 && (r = skills_lock(skills, err)) == 0) {
        stage_take(&stage, skills->layers_dir, ret_name, &ignored); /* it may be there: then it is the same */
        *ret_fd = openat(skills->layers_dir, ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*ret_fd < 0 || flock(*ret_fd, LOCK_SH | LOCK_NB) < 0)
            r = err_errno(err, errno, "its layer");
        skills_unlock(skills);
    }
    stage_abort(&stage);
    return r;
}

int base_creator(struct skills *skills, const char *source, char ret_name[17], int *ret_fd, struct err *err) {
    char name[LAYER_NAME_BYTES] = "";
    int fd = -1;
    int r = source && *source ? creator_make(skills, source, name, &fd, err) : 0;
    if (r < 0) {
        fd_close(&fd);
        return err_wrap(err, "the skill " BASE_CREATOR " (%.300s)", source);
    }
    memcpy(ret_name, name, sizeof name);
    *ret_fd = fd;
    return 0;
}
