/* A checked archive becomes public skills. Called by the doors that take uploads. Invariant: until base_put everything lies
 * in a stage, so that an archive which turns out bad in the middle has changed nothing. */
#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "skill/base/base.h"
#include "skill/zip/zip.h"

struct target {
    int fd;
    struct err *err;
};

static int target_put(void *user, const uint8_t *data, size_t len) {
    struct target *target = user;
    int failed = fd_write_all(target->fd, data, len);
    return failed ? err_errno(target->err, -failed, "writing") : 0;
}

static int put_entry(struct stage *stage, struct zip *zip, size_t i, struct err *err) {
    const struct zip_entry *entry = zip_entry(zip, i);
    autofd fd = -1;
    if (entry->loose)
        return 0;
    if (entry->dir)
        return stage_dir(stage, entry->path, err);
    int failed = stage_file(stage, entry->path, entry->executable ? 0755 : 0644, &fd, err);
    struct target target = {fd, err};
    return failed ? failed : zip_read(zip, i, target_put, &target, err);
}

int stage_zip(struct stage *stage, struct zip *zip, struct err *err) {
    int failed = 0;
    for (size_t i = 0; !failed && i < zip_count(zip); i++)
        failed = put_entry(stage, zip, i, err);
    return failed;
}

int base_put_zip(struct skills *skills, const char *agent, struct zip *zip, struct err *err) {
    struct stage stage;
    int failed = stage_open(skills, &stage, err);
    if (failed)
        return failed;
    failed = stage_zip(&stage, zip, err);
    if (!failed)
        failed = base_put(skills, agent, &stage, err);
    stage_abort(&stage);
    return failed;
}
