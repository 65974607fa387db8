/* DeerFlow's directories in a box. Called by deerflow.c for every box that is made. Invariant: a mount never names
 * anything outside the configured directories, and no box gets another user's directory. box/mounts.c checks, when it
 * opens the directories, that they are where they claim to be. */
#include "front/deerflow/deerflow.h"

enum { EXTRA_MOUNTS = 10 };

#define USER_DATA "/mnt/user-data"

/* Layout below the gateway's home. */
static const struct {
    const char *source, *target;
    bool read_only, legacy;
} mounts_usual[] = {
    {.source = "users/{user}/threads/{thread}/user-data", .target = USER_DATA},
    {.source = "users/{user}/threads/{thread}/acp-workspace", .target = "/mnt/acp-workspace", .read_only = true},
    {.source = "skills_view/public", .target = "/mnt/skills/public", .read_only = true},
    {.source = "users/{user}/skills_view/custom", .target = "/mnt/skills/custom", .read_only = true},
    {.source = "users/{user}/skills_view/legacy", .target = "/mnt/skills/legacy", .read_only = true, .legacy = true},
    {.source = "users/{user}/skills_view/integrations", .target = "/mnt/skills/integrations", .read_only = true},
};
enum { USUAL = sizeof mounts_usual / sizeof *mounts_usual };

/* Parts of a thread's directory, which the gateway reads and writes even before the box starts. */
static const char *const mounts_inside[] = {"workspace", "uploads", "outputs"};
enum { INSIDE = sizeof mounts_inside / sizeof *mounts_inside };

const char *const deerflow_places[] = {USER_DATA,
                                       USER_DATA "/workspace",
                                       USER_DATA "/uploads",
                                       USER_DATA "/outputs",
                                       "/mnt/acp-workspace",
                                       "/mnt/skills/public",
                                       "/mnt/skills/custom",
                                       "/mnt/skills/integrations",
                                       NULL};

/* Where a gateway may request a mount, and which are always read-only. */
static const struct {
    const char *target;
    bool read_only;
} mounts_extra[] = {
    {"/mnt/acp-workspace", true},
    {"/mnt/skills/custom", true},
    {"/mnt/skills/integrations", true},
    {"/mnt/integrations/lark-cli/config", true},
    {"/mnt/integrations/lark-cli/config/locks", false},
    {"/mnt/integrations/lark-cli/data", false},
    {"/mnt/integrations/lark-cli/runtime", true},
    {USER_DATA "/.upload-conversions", true},
};

struct mounts_gathering {
    const struct provision_settings *settings;
    const struct deerflow_box *asked;
    struct arena *arena;
    struct mount *mounts;
    size_t count;
};

static bool mounts_taken(const struct mounts_gathering *all, const char *target) {
    for (size_t i = 0; i < all->count; i++)
        if (all->mounts[i].target && !strcmp(all->mounts[i].target, target))
            return true;
    return false;
}

/* Expands {user}, {thread} and {id}, which by their grammar are single path components. */
static const char *mounts_expand(const struct mounts_gathering *all, const char *source) {
    const struct {
        const char *word, *value;
    } words[] = {{"{user}", all->asked->user}, {"{thread}", all->asked->thread}, {"{id}", all->asked->id}};
    const char *path = "";
    while (*source) {
        size_t len = 0, i = 0;
        while (source[len] && source[len] != '{')
            len++;
        while (i < 3 && strncmp(source + len, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (source[len] && i == 3)
            len++;
        path = arena_printf(all->arena, "%s%.*s%s", path, (int)len, source, i < 3 ? words[i].value : "");
        source += len + (i < 3 ? strlen(words[i].word) : 0);
    }
    return path;
}

static void mounts_add(struct mounts_gathering *all, const char *source, const char *target, bool read_only,
                       bool create) {
    all->mounts[all->count++] = (struct mount){
        .source = source, .target = target, .read_only = read_only, .by_dialect = true, .create = create};
    for (size_t i = 0; i < INSIDE && !read_only && target && !strcmp(target, USER_DATA); i++)
        mounts_add(all, arena_printf(all->arena, "%s/%s", source, mounts_inside[i]), NULL, false, true);
}

/* ---- extra mounts of the request ---- */

static bool mounts_of_others(const struct mounts_gathering *all, const char *path) {
    const char *rest = path + strlen(all->settings->home) + 1;
    if (!path_within(rest, "users"))
        return false;
    if (!rest[5]) /* of all users */
        return true;
    size_t len = strlen(all->asked->user);
    return strncmp(rest + 6, all->asked->user, len) != 0 || rest[6 + len] != '/';
}

static int mounts_gathering_check(const struct mounts_gathering *all, const struct deerflow_extra *mount,
                                  bool *ret_read_only, struct err *err) {
    const char *source = mount->host_path.data, *target = mount->container_path.data, *home = all->settings->home;
    if (source[0] != '/')
        return err_set(err, ERR_INVALID, "Extra mount host path must be absolute: %.300s", source);
    if (home && (!path_normal(source) || !path_within(source, home) || !source[strlen(home)]))
        return err_set(err, ERR_INVALID, "Extra mount host path is outside DeerFlow state: %.300s", source);
    if (home && mounts_of_others(all, source))
        return err_set(err, ERR_INVALID, "Extra mount host path belongs to another user: %.300s", source);
    if (target[0] != '/')
        return err_set(err, ERR_INVALID, "Extra mount path must be absolute: %.300s", target);
    for (size_t i = 0; i < sizeof mounts_extra / sizeof *mounts_extra; i++)
        if (!strcmp(target, mounts_extra[i].target)) {
            *ret_read_only = mounts_extra[i].read_only || mount->read_only;
            return 0;
        }
    return err_set(err, ERR_INVALID, "Unsupported extra mount path: %.300s", target);
}

static int mounts_add_extra(struct mounts_gathering *all, struct err *err) {
    const struct deerflow_extra *mounts = all->asked->extra;
    if (all->asked->extra_count > EXTRA_MOUNTS)
        return err_set(err, ERR_INVALID, "Too many extra mounts; max is %d", EXTRA_MOUNTS);
    for (size_t i = 0; i < all->asked->extra_count; i++) {
        bool read_only = false;
        const char *target = mounts[i].container_path.data;
        int failed = mounts_gathering_check(all, &mounts[i], &read_only, err);
        for (size_t j = 0; j < i && !failed; j++)
            if (!strcmp(mounts[j].container_path.data, target))
                failed = err_set(err, ERR_INVALID, "Duplicate extra mount path: %.300s", target);
        if (failed)
            return failed;
        if (all->settings->home &&
            !mounts_taken(all, target)) /* without a home, its directories are not on this host */
            mounts_add(all, mounts[i].host_path.data, target, read_only, true);
    }
    return 0;
}

/* ---- all mounts ---- */

int deerflow_mounts(const struct provision_settings *settings, const struct deerflow_box *asked, struct arena *arena,
                    const struct mount **ret_mounts, size_t *ret_count, struct err *err) {
    size_t most = settings->mount_count + EXTRA_MOUNTS + USUAL + INSIDE;
    struct mounts_gathering all = {
        .settings = settings, .asked = asked, .arena = arena, .mounts = arena_alloc(arena, most * sizeof *all.mounts)};
    for (size_t i = 0; i < settings->mount_count; i++) {
        const struct share_mount *mount = &settings->mounts[i];
        mounts_add(&all, mounts_expand(&all, mount->source), mount->target, mount->read_only, mount->create);
    }
    STEP(mounts_add_extra(&all, err));
    for (size_t i = 0; i < USUAL && settings->home; i++) {
        const char *target = mounts_usual[i].target;
        bool covered = mounts_taken(&all, target) || (mounts_usual[i].legacy && !asked->legacy_skills);
        for (size_t j = 0; j < settings->mount_count; j++)
            covered |= path_within(target, settings->mounts[j].target);
        if (!covered)
            mounts_add(&all, arena_printf(arena, "%s/%s", settings->home, mounts_expand(&all, mounts_usual[i].source)),
                       target, mounts_usual[i].read_only, true);
    }
    *ret_mounts = all.mounts;
    *ret_count = all.count;
    return 0;
}
