/* The table of backends, in the order they are shown. A new backend is one file and one row here. */
#include "backend/backend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

const struct backend_ops *const backend_table[] = {&backend_jail, &backend_local, &backend_remote, &backend_docker,
                                                   NULL};

const struct backend_ops *backend_find(const char *name) {
    for (size_t i = 0; backend_table[i]; i++)
        if (strcmp(backend_table[i]->name, name) == 0)
            return backend_table[i];
    return NULL;
}

int backend_list_boxes(int boxes_dir, const char *mark, void (*each)(void *user, const char *id), void *user,
                       struct err *err) {
    int fd = openat(boxes_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "the directory of boxes");
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        char path[64];
        if (!text_id(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%.16s/%.40s", entry->d_name, mark);
        if (faccessat(boxes_dir, path, F_OK, 0) == 0)
            each(user, entry->d_name);
    }
    closedir(dir);
    return 0;
}
