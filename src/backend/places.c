/* Places (places.h). */
#include "backend/places.h"

#include "base/base.h"

int places_runner(const char *chosen, const char *how, char ret_path[PATH_MAX], struct err *err) {
    static const char *const places[] = {"cubby-runner", "../libexec/cubby/cubby-runner"};
    char self[PATH_MAX], place[PATH_MAX + 64];
    if (chosen)
        return realpath(chosen, ret_path) && access(ret_path, X_OK) == 0
                   ? 0
                   : err_errno(err, errno, "the runner %s", chosen);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return err_errno(err, errno, "/proc/self/exe; mount /proc or %s", how);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(place, sizeof place, "%s/%s", self, places[i]);
        if (realpath(place, ret_path) && access(ret_path, X_OK) == 0)
            return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "no cubby-runner in %s or in ../libexec/cubby: build or install it, or %s", self,
                   how);
}

const char *places_state(struct arena *arena) {
    const char *state_home = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (geteuid() == 0)
        return "/var/lib/cubby";
    if (state_home && *state_home == '/')
        return arena_printf(arena, "%s/cubby", state_home);
    return home && *home == '/' ? arena_printf(arena, "%s/.local/state/cubby", home) : NULL;
}

int places_make(const char *path, unsigned above, struct err *err) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return err_set(err, ERR_INVALID, "the path of the state directory is too long");
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, above) < 0 && errno != EEXIST)
            return err_errno(err, errno, "cannot make %s for the state; give another with --state DIR", part);
        *slash = '/';
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot make the state directory %s; give another with --state DIR", part);
    return 0;
}
