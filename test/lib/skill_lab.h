/* What tests of skill/ on this machine's files share: a state directory of their own, checks, trees made by a list. */
#ifndef CUBBY_TEST_SKILL_LAB_H
#define CUBBY_TEST_SKILL_LAB_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree/removal.h"
#include "base/fd.h"
#include "skill/base/base.h"
#include "skill/base/view.h"
#include "tap.h"

static char state[64];

/* In memory where that file system keeps the attributes that layers need: syncing costs nothing there. */
__attribute__((unused)) static void lab_open(void) {
    static const char *const places[] = {"/dev/shm", "/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(state, sizeof state, "%s/cubby-skill.XXXXXX", places[i]);
        if (mkdtemp(state) && setxattr(state, "user.cubby", "y", 1, 0) == 0)
            return;
        rmdir(state);
    }
    printf("Bail out! no place with user.* attributes\n");
    exit(1);
}

__attribute__((unused)) static void lab_close(void) {
    removal_tree(AT_FDCWD, state);
}

__attribute__((unused)) static struct skills *skills_new(const struct skill_settings *settings) {
    struct skills *skills = NULL;
    struct err err;
    if (skills_open(state, settings ? settings : &skill_defaults, &skills, &err) < 0) {
        tap_bail(__FILE__, __LINE__, "skills_open", err.text);
    }
    return skills;
}

__attribute__((unused)) static const char *in_state(const char *path) {
    static char text[4][512];
    static unsigned turn;
    char *out = text[turn++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", state, path);
    return out;
}

/* Names in a directory of the state, "." and ".." not counted. */
__attribute__((unused)) static int entries(const char *path) {
    DIR *dir = opendir(in_state(path));
    int found = 0;
    while (dir && readdir(dir))
        found++;
    if (dir)
        closedir(dir);
    return dir ? found - 2 : -1;
}

__attribute__((unused)) static int stage_text(struct stage *stage, const char *path, const char *text, uint32_t mode,
                                              struct err *err) {
    autofd fd = -1;
    int r = stage_file(stage, path, mode, &fd, err);
    return r < 0 ? r : fd_write_all(fd, text, strlen(text));
}

#endif
