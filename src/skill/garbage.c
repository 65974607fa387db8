/* Trees that go. Called by whoever knows that nobody has them. */
#include "skill/garbage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "skill/skills.h"

enum { GARBAGE_DEPTH = 128 };

/* Depth first; what cannot go stays for the next time. */
static void discard(int parent, const char *name, unsigned depth) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT || depth > GARBAGE_DEPTH)
        return;
    autofd dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = dir < 0 ? NULL : fdopendir(dir);
    if (!list)
        return;
    dir = -1;
    for (const struct dirent *entry; (entry = readdir(list));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            discard(dirfd(list), entry->d_name, depth + 1);
    closedir(list);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void skills_discard(struct skills *skills, const char *part, const char *name) {
    char from[300], to[300];
    autofd staging = openat(skills->dir, "staging", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(from, sizeof from, "%s/%s", part, name);
    snprintf(to, sizeof to, ".gone-%s", name);
    /* under another name first: nobody finds half of it */
    if (staging >= 0 && (renameat(skills->dir, from, staging, to) == 0 || errno == EEXIST || errno == ENOTEMPTY))
        discard(staging, to, 0);
}
