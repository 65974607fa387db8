/* Sources and targets of mounts. Called by policy for every new box, and by the daemon's configuration. Invariant:
 * the mounted directory is the one that was named. Links are followed in the administrator's part of the path, never
 * below it, where boxes may write; a client never learns whether a path exists that it may not mount. */
#include "box/policy.h"

#include "base/base.h"
#include "base/sha256.h"
#include "base/url.h"

enum { PLACE_NAME_BYTES = 200 }; /* a user or thread as a name; longer ones are hashed */

/* ---- names ---- */

static int mounts_check_target(const char *target, struct err *err) {
    static const char *const taken[] = {"/proc", "/sys", "/dev"};
    if (!target || strlen(target) > LIMIT_PATH_BYTES || !path_normal(target))
        return err_set(err, ERR_INVALID, "mounts: target must be an absolute path below /, without '.', '..' or '//'");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (path_within(target, taken[i]))
            return err_set(err, ERR_INVALID, "mounts: target '%.200s' is inside %s, which is the box's own", target,
                           taken[i]);
    return 0;
}

/* ---- what a request asks for ---- */

/* A directory that the daemon makes belongs to the owner of the directory it is in, and is closed to others. */
static int mounts_place_make(int *dir, const char *rest) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", rest);
    char *save = NULL;
    for (char *name = strtok_r(path, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        struct stat owner;
        bool made = false;
        int next = path_below(*dir, name, O_PATH, false);
        if (next == -ENOENT) {
            made = mkdirat(*dir, name, 0700) == 0;
            if (!made && errno != EEXIST)
                return -errno;
            next = path_below(*dir, name, O_PATH, false);
        }
        if (next < 0)
            return next;
        if (made && fstat(*dir, &owner) == 0 && (owner.st_uid != geteuid() || owner.st_gid != getegid()) &&
            fchownat(next, "", owner.st_uid, owner.st_gid, AT_EMPTY_PATH) < 0) {
            int number = errno;
            close(next);
            unlinkat(*dir, name, AT_REMOVEDIR);
            return -number;
        }
        close(*dir);
        *dir = next;
    }
    return 0;
}

/* A source below `prefix`, resolved. Links are followed in the prefix, which the administrator wrote; what comes after
 * it has none. create: missing directories are made, below the prefix only. 0 or -errno; -EXDEV: it is not below. */
static int mounts_below(const char *prefix, const char *source, bool create, char resolved[PATH_MAX]) {
    char real[PATH_MAX];
    bool here = realpath(prefix, real);
    int number = errno;
    const char *begin = path_within(source, prefix) ? prefix : here && path_within(source, real) ? real : NULL;
    if (!begin || !here)
        return begin ? -number : -EXDEV;
    const char *rest = source + strlen(begin);
    rest += strspn(rest, "/");
    autofd dir = open(real, O_PATH | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    autofd found = *rest ? path_below(dir, rest, O_PATH, false) : -1; /* mostly all of it is there */
    int r = *rest && found < 0 ? found : 0;
    if (r == -ENOENT && create)
        r = mounts_place_make(&dir, rest);
    if (r < 0)
        return r;
    int len = snprintf(resolved, PATH_MAX, "%s%s%s", real[1] ? real : "", *rest || !real[1] ? "/" : "", rest);
    return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int mounts_asked_source(const struct policy *policy, const char *source, char resolved[PATH_MAX],
                               struct err *err) {
    if (!source || source[0] != '/' || strlen(source) > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "mounts: source must be an absolute path");
    for (const char *const *prefix = policy->mount_sources; prefix && *prefix; prefix++)
        if (path_normal(source) && mounts_below(*prefix, source, false, resolved) == 0)
            return 0;
    if (policy->any_mount_source)
        return realpath(source, resolved) ? 0 : err_errno(err, errno, "mounts: source '%.200s'", source);
    /* The same answer whether it exists or not: a client may not map the host by asking. */
    return err_set(err, ERR_DENIED,
                   "mounts: source '%.200s' is not allowed by the configuration (mount_sources), or passes a link",
                   source);
}

/* ---- mounts that a dialect asks for ---- */

static int mounts_dialect_source(const struct policy *policy, const struct mount *mount, char resolved[PATH_MAX],
                                 struct err *err) {
    int r = -EXDEV;
    bool normal = mount->source && strlen(mount->source) <= LIMIT_PATH_BYTES && path_normal(mount->source);
    for (const char *const *prefix = policy->dialect_sources; normal && r < 0 && prefix && *prefix; prefix++) {
        /* One may be inside another, and open what that does not. */
        int tried = mounts_below(*prefix, mount->source, mount->create, resolved);
        r = tried == -EXDEV ? r : tried;
    }
    if (r == -EXDEV)
        return err_set(err, ERR_DENIED, "mounts: source '%.300s' is not one that the configuration opens",
                       mount->source ? mount->source : "");
    if (r == -ELOOP)
        return err_set(err, ERR_DENIED, "mounts: source '%.300s' passes a link", mount->source);
    return r < 0 ? err_set(err, ERR_IO, "mounts: source '%.300s': %s", mount->source, strerror(-r)) : 0;
}

/* ---- what the configuration gives ---- */

/* As a name of a directory: letters, digits, _ and - stand for themselves, and so does a dot that is not the first;
 * other bytes are %XX. What gets too long is %sha256-HEX. No two have the same. */
static const char *mounts_place_name(struct arena *arena, const char *text) {
    size_t len = strlen(text);
    autobuf name = buf_max(len * 3);
    url_put(&name, text, len > 0, "_-");
    url_put(&name, text + (len > 0), len - (len > 0), "_-.");
    if (len > 0 && name.len <= PLACE_NAME_BYTES)
        return arena_copy(arena, name.data, name.len);
    uint8_t digest[32];
    char hex[65];
    sha256(text, len, digest);
    text_hex(hex, digest, sizeof digest);
    return arena_printf(arena, "%%sha256-%s", hex);
}

static const struct {
    const char *text;
    size_t len;
} place_words[] = {{"{user}", 6}, {"{thread}", 8}, {"{id}", 4}};

/* Which of place_words is there; -1: none. */
static int mounts_place_word(const char *at) {
    for (size_t i = 0; i < sizeof place_words / sizeof *place_words; i++)
        if (strncmp(at, place_words[i].text, place_words[i].len) == 0)
            return (int)i;
    return -1;
}

/* The words replaced. *ret_fixed: length of the part that is the same for every box: up to the name that holds the
 * first word, or the last name. */
static int mounts_place_source(const char *source, const struct spec *spec, struct arena *arena, char out[PATH_MAX],
                               size_t *ret_fixed, struct err *err) {
    const char *values[] = {
        mounts_place_name(arena, spec->user),
        spec->thread ? mounts_place_name(arena, spec->thread) : arena_printf(arena, "%%id-%s", spec->id), spec->id};
    size_t len = 0, slash = 0, fixed = 0;
    bool own = false;
    for (const char *at = source; *at;) {
        int word = *at == '{' ? mounts_place_word(at) : -1;
        const char *text = word >= 0 ? values[word] : at;
        size_t add = word >= 0 ? strlen(text) : 1;
        if (len + add >= PATH_MAX)
            return err_set(err, ERR_INVALID, "mounts: source '%.200s' is too long for this box", source);
        if (word >= 0 && !own)
            own = true, fixed = slash;
        if (*at == '/')
            slash = len;
        memcpy(out + len, text, add);
        len += add;
        at += word >= 0 ? place_words[word].len : 1;
    }
    out[len] = 0;
    *ret_fixed = own ? fixed : slash;
    return 0;
}

static int mounts_given_source(const struct share_mount *mount, const struct spec *spec, struct arena *arena,
                               char resolved[PATH_MAX], struct err *err) {
    char source[PATH_MAX];
    size_t fixed = 0;
    TRY(mounts_place_source(mount->source, spec, arena, source, &fixed, err));
    int r = mounts_below(fixed ? arena_copy(arena, source, fixed) : "/", source, mount->create, resolved);
    /* Not NOT_FOUND: it is not the client's word that leads nowhere. */
    return r < 0 ? err_set(err, ERR_IO, "mounts: source '%.300s' of the configuration%s%s", source,
                           r == -ELOOP ? " passes a link" : ": ", r == -ELOOP ? "" : strerror(-r))
                 : 0;
}

int mounts_check(const struct share_mount *mount, bool thread_alone, struct err *err) {
    const char *source = mount->source;
    if (!source || strlen(source) > LIMIT_PATH_BYTES || !path_normal(source))
        return err_set(err, ERR_INVALID, "mounts: source must be an absolute path below /, without '.', '..' or '//'");
    for (const char *at = source + strcspn(source, "{}"); *at; at += strcspn(at, "{}")) {
        int word = mounts_place_word(at);
        if (word < 0)
            return err_set(err, ERR_INVALID,
                           "mounts: source '%.200s' holds braces that are not {user}, {thread} or {id}", source);
        at += place_words[word].len;
    }
    if (!thread_alone && strstr(source, "{thread}") && !strstr(source, "{user}") && !strstr(source, "{id}"))
        return err_set(err, ERR_INVALID, "mounts: source '%.200s' has {thread} without {user}: users would share it",
                       source);
    return mounts_check_target(mount->target, err);
}

/* ---- both ---- */

/* Sorted by target: what lies below another mount comes after it, or it would be hidden. */
static int mounts_add(struct mount *mounts, size_t *count, const struct mount *mount, struct err *err) {
    size_t at = *count;
    for (; at > 0 && strcmp(mounts[at - 1].target, mount->target) >= 0; at--) {
        if (strcmp(mounts[at - 1].target, mount->target) == 0)
            return err_set(err, ERR_INVALID, "mounts: target '%.200s' is there twice", mount->target);
    }
    memmove(mounts + at + 1, mounts + at, (*count - at) * sizeof *mounts);
    mounts[at] = *mount;
    ++*count;
    return 0;
}

int mounts_spec(const struct policy *policy, const struct share *share, const struct box_request *request,
                struct arena *arena, struct spec *spec, struct err *err) {
    char resolved[PATH_MAX];
    int r = 0;
    size_t count = 0;
    if (share->mount_count + request->mount_count > LIMIT_MOUNTS)
        return err_set(err, ERR_INVALID, "mounts: more than %u", LIMIT_MOUNTS);
    struct mount *mounts = arena_alloc(arena, (share->mount_count + request->mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; r == 0 && i < share->mount_count + request->mount_count; i++) {
        const struct share_mount *given = i < share->mount_count ? &share->mounts[i] : NULL;
        const struct mount *asked = given ? NULL : &request->mounts[i - share->mount_count];
        const char *target = given ? given->target : asked->target;
        bool by_dialect = !given && asked->by_dialect;
        if (target || !by_dialect)
            r = mounts_check_target(target, err);
        if (r == 0)
            r = given        ? mounts_given_source(given, spec, arena, resolved, err)
                : by_dialect ? mounts_dialect_source(policy, asked, resolved, err)
                             : mounts_asked_source(policy, asked->source, resolved, err);
        if (by_dialect && !target)
            r = 0; /* a user that may write there may have put something else in its place */
        else if (r == 0)
            r = mounts_add(mounts, &count,
                           &(struct mount){.source = arena_strdup(arena, resolved),
                                           .target = arena_strdup(arena, target),
                                           .read_only = given ? given->read_only : asked->read_only,
                                           .by_dialect = by_dialect},
                           err);
    }
    spec->mounts = mounts;
    spec->mount_count = count;
    return r;
}

/* Given by the configuration to the same place, and more than reading only where that is given, too. */
static bool mount_given(const struct share *share, const struct spec *spec, const struct mount *mount) {
    char resolved[PATH_MAX];
    autoarena arena = ARENA_EMPTY;
    for (size_t i = 0; i < share->mount_count; i++) {
        const struct share_mount *given = &share->mounts[i];
        if (strcmp(given->target, mount->target) == 0 && (mount->read_only || !given->read_only) &&
            mounts_given_source(given, spec, &arena, resolved, ERR_IGNORED) == 0)
            return strcmp(resolved, mount->source) == 0;
    }
    return false;
}

int mounts_again(const struct policy *policy, const struct spec *spec, struct err *err) {
    const struct share *share = policy_for(policy, spec->user);
    char resolved[PATH_MAX];
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct mount *mount = &spec->mounts[i];
        int r = mount->by_dialect ? mounts_dialect_source(policy, mount, resolved, err)
                                  : mounts_asked_source(policy, mount->source, resolved, err);
        bool asked = r == 0 && strcmp(resolved, mount->source) == 0;
        if (!asked && !mount_given(share, spec, mount))
            return err_set(err, ERR_DENIED,
                           "mounts: the box has the source '%.200s', which the configuration no longer allows "
                           "(mount_sources), or which is gone",
                           mount->source);
    }
    return 0;
}

void mounts_asked(const struct policy *policy, const struct spec *from, struct arena *arena,
                  const struct mount **ret_mounts, size_t *ret_count) {
    const struct share *share = policy_for(policy, from->user);
    struct mount *mounts = arena_alloc(arena, (from->mount_count + 1) * sizeof *mounts);
    size_t count = 0;
    for (size_t i = 0; i < from->mount_count; i++)
        if (!mount_given(share, from, &from->mounts[i]))
            mounts[count++] = from->mounts[i];
    *ret_mounts = mounts;
    *ret_count = count;
}
