/* The table of backends, in the order they are shown. A new backend is one file and one row here. */
#include "backend/backend.h"

#include "base/base.h"

const struct backend_ops *const backend_table[] = {&backend_jail,  &backend_local,  &backend_remote,
                                                   &backend_fleet, &backend_docker, NULL};

const struct backend_ops *backend_find(const char *name) {
    for (size_t i = 0; backend_table[i]; i++)
        if (strcmp(backend_table[i]->name, name) == 0)
            return backend_table[i];
    return NULL;
}

int backend_list_boxes(int boxes_dir, const char *mark, void (*each)(void *user, const char *id), void *user,
                       struct err *err) {
    autodir *dir = fd_opendir(boxes_dir, ".", 0);
    if (!dir)
        return err_errno(err, errno, "the directory of boxes");
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (text_id(entry->d_name) &&
            faccessat(boxes_dir, text_make(64, "%.16s/%.40s", entry->d_name, mark), F_OK, 0) == 0)
            each(user, entry->d_name);
    return 0;
}

bool backend_is_empty(int dir, const char *path) {
    autodir *list = fd_opendir(dir, path, O_NOFOLLOW);
    return list && !fd_readdir(list);
}

int backend_open_dir(int dir, const char *name, bool make, struct err *err) {
    if (make && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (make ? 0 : O_NOFOLLOW));
    return fd < 0 ? err_errno(err, errno, "'%s'", name) : fd;
}
