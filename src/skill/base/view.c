/* Reading a base: its list of layers, the files seen through them, and a cache of both. Called by base, own, sync and
 * the fronts. Invariant: a version is identified by the names of its layers, which never change. So facts about a layer
 * are kept in skills.db, and a view is valid while agents/AGENT stays the same.
 *
 * cache->lock guards the array of the cache; views are reference-counted and immutable. */
#include "base/base.h"
#include "skill/base/view.h"
#include "skill/catalog/meta.h"
#include "skill/digest.h"

enum { VIEW_CACHE = 256 };

/* ---- the file of an agent ---- */

void base_stack_text(const struct base_stack *stack, char text[STACK_BYTES]) {
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; i < stack->count; i++)
        len += (size_t)snprintf(text + len, STACK_BYTES - len, "%s\n", stack->names[i]);
}

bool base_stack_parse(const char *text, struct base_stack *ret_stack) {
    struct base_stack stack = {0};
    for (; *text; text += LAYER_NAME_BYTES) {
        size_t len = strcspn(text, "\n");
        if (len != LAYER_NAME_BYTES - 1 || !text[len] || stack.count == BASE_LAYERS)
            return false;
        memcpy(stack.names[stack.count], text, len);
        if (!text_id(stack.names[stack.count++]))
            return false;
    }
    *ret_stack = stack;
    return true;
}

int base_stack_read(struct skills *skills, const char *agent, struct base_stack *ret_stack, struct err *err) {
    char text[STACK_BYTES + 1];
    TRY(policy_agent(agent, err));
    ssize_t n = fd_read_file(skills->agents_dir, agent, text, sizeof text - 1);
    if (n == -ENOENT) {
        *ret_stack = (struct base_stack){0};
        return 0;
    }
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read the skills of agent '%s'", agent);
    if (strlen(text) != (size_t)n || !base_stack_parse(text, ret_stack))
        return err_set(err, ERR_IO, "the list of layers of agent '%s' is damaged", agent);
    return 0;
}

int base_stack_write(struct skills *skills, const char *agent, const struct base_stack *stack, struct err *err) {
    char text[STACK_BYTES], name[LIMIT_AGENT_BYTES + 8];
    base_stack_text(stack, text);
    snprintf(name, sizeof name, ".%s.new", agent); /* no agent's name begins with a dot */
    autofd fd = openat(skills->agents_dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int number = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    if (number == 0 && (fsync(fd) < 0 || renameat(skills->agents_dir, name, skills->agents_dir, agent) < 0 ||
                        fsync(skills->agents_dir) < 0))
        number = -errno;
    return number < 0 ? err_errno(err, -number, "cannot write the skills of agent '%s'", agent) : 0;
}

static uint64_t view_generation(const struct base_stack *stack, const char *creator) {
    uint64_t sum = 14695981039346656037ull; /* FNV-1a; the names are random, so any hash will do */
    for (size_t i = 0; i <= stack->count; i++)
        for (const char *c = i < stack->count ? stack->names[i] : creator; *c; c++)
            sum = (sum ^ (unsigned char)*c) * 1099511628211ull;
    return sum ? sum : 1;
}

uint64_t base_generation(struct skills *skills, const char *agent) {
    struct base_stack stack;
    return base_stack_read(skills, agent, &stack, ERR_IGNORED) < 0 ? 0
                                                                   : view_generation(&stack, skills_creator(skills));
}

/* ---- a skill in a layer ---- */

bool base_meta(int dir, const char *skill, struct arena *arena, struct meta *ret_meta) {
    static const struct {
        const char *file;
        void (*parse)(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
    } sources[] = {{"SKILL.md", meta_skill}, {"skill.md", meta_heading}, {"README.md", meta_heading}};
    char *text = xmalloc(META_BYTES);
    ssize_t n = -1;
    for (size_t i = 0; n < 0 && i < sizeof sources / sizeof *sources; i++) {
        struct stat status;
        autofd fd = openat(dir, sources[i].file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
            (n = fd_read_full(fd, text, META_BYTES)) >= 0)
            sources[i].parse(arena, skill, text, (size_t)n, ret_meta);
    }
    if (n < 0)
        meta_heading(arena, skill, "", 0, ret_meta);
    free(text);
    return n >= 0;
}

int base_version(int layer_dir, const char *layer, const char *skill, struct arena *arena, struct base_skill *ret_skill,
                 struct err *err) {
    struct base_skill found = {.skill = arena_strdup(arena, skill), .layer = arena_strdup(arena, layer)};
    struct stat status;
    struct meta meta;
    autofd dir = skills_dir(layer_dir, skill);
    if (dir < 0 || fstat(dir, &status) < 0)
        return err_errno(err, errno, "cannot read the skill '%.200s'", skill);
    TRY(digest_tree(dir, found.sha256, &found.files, &found.bytes, err));
    base_meta(dir, skill, arena, &meta);
    found.name = meta.name;
    found.description = meta.description;
    found.changed_ms = (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000;
    *ret_skill = found;
    return 0;
}

int base_versions_keep(struct skills *skills, const struct base_skill *versions, size_t count, struct err *err) {
    struct db *db;
    int r = 0;
    TRY(skilldb_begin(skills, &db, err));
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct base_skill *version = &versions[i];
        r = db_do(db, err, "INSERT OR REPLACE INTO base_version VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", "tttthiii",
                  version->layer, version->skill, version->name, version->description, version->sha256, version->files,
                  version->bytes, version->changed_ms);
    }
    return skilldb_end(skills, r, err);
}

/* Fills in the skills that skills.db has; the others keep a NULL name. */
static int view_versions_known(struct skills *skills, struct base_view *view, struct err *err) {
    struct db *db;
    struct query query;
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < view->count; i++) {
        struct base_skill *skill = &view->skills[i];
        r = db_query(db, &query, err,
                     "SELECT name, description, sha256, files, bytes, changed_ms FROM base_version"
                     " WHERE layer = ?1 AND skill = ?2 AND length(sha256) = 32",
                     "tt", skill->layer, skill->skill);
        if (r == 0 && (r = query_next(&query, err)) > 0 && query_hash(&query, 2, skill->sha256)) {
            skill->name = arena_strdup(&view->arena, query_text(&query, 0));
            skill->description = arena_strdup(&view->arena, query_text(&query, 1));
            skill->files = (uint64_t)query_int(&query, 3);
            skill->bytes = (uint64_t)query_int(&query, 4);
            skill->changed_ms = (uint64_t)query_int(&query, 5);
        }
        query_end(&query);
    }
    skilldb_give(skills);
    return r < 0 ? r : 0;
}

/* Reads from the layers what skills.db lacks, and records it there. */
static int view_versions(struct skills *skills, struct base_view *view, struct err *err) {
    size_t found = 0;
    struct base_skill *versions = arena_alloc(&view->arena, (view->count + 1) * sizeof *versions);
    int r = view_versions_known(skills, view, err);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        struct base_skill *skill = &view->skills[i];
        if (skill->name)
            continue;
        autofd dir = skills_dir(skills->layers_dir, skill->layer);
        r = dir < 0 ? err_errno(err, errno, "cannot open a layer of skills")
                    : base_version(dir, skill->layer, skill->skill, &view->arena, skill, err);
        if (r == 0)
            versions[found++] = *skill;
    }
    return r < 0 || found == 0 ? r : base_versions_keep(skills, versions, found, err);
}

/* ---- the merged view ---- */

struct view_seen {
    const char *name;
    size_t level; /* 0: the uppermost layer */
    bool hides;   /* a whiteout */
};

static int view_seen_order(const void *a, const void *b) {
    const struct view_seen *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->level < y->level ? -1 : x->level > y->level;
}

static const char *view_layer(const struct base_view *view, size_t level) {
    return level < view->stack.count ? view->stack.names[level] : view->creator;
}

/* The uppermost entry of a name counts. If it is a whiteout, the skill does not exist. */
static int view_look(struct skills *skills, struct base_view *view, struct err *err) {
    struct view_seen *all = NULL;
    size_t count = 0, cap = 0;
    int r = 0;
    for (size_t level = 0; r == 0 && level < view->stack.count + (view->creator[0] != 0); level++) {
        const char *layer = view_layer(view, level);
        autofd dir = skills_dir(skills->layers_dir, layer);
        autonames names = names_new();
        r = dir < 0 ? err_errno(err, errno, "cannot open layer %s of skills", layer)
                    : names_dir(&names, dir, "a layer of skills", err);
        for (size_t i = 0; i < names.count; i++) {
            struct stat status;
            if (names.names[i][0] != '.' && fstatat(dir, names.names[i], &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                (S_ISDIR(status.st_mode) || S_ISCHR(status.st_mode)))
                arena_add(&view->arena, all, count, cap) = (struct view_seen){
                    arena_strdup(&view->arena, names.names[i]), level, .hides = S_ISCHR(status.st_mode)};
        }
    }
    if (count)
        qsort(all, count, sizeof *all, view_seen_order);
    view->skills = arena_alloc(&view->arena, (count + 1) * sizeof *view->skills);
    for (size_t i = 0; i < count; i++)
        if ((i == 0 || strcmp(all[i].name, all[i - 1].name) != 0) && !all[i].hides)
            view->skills[view->count++] =
                (struct base_skill){.skill = all[i].name, .layer = view_layer(view, all[i].level)};
    return r;
}

int base_view_make(struct skills *skills, const struct base_stack *stack, struct base_view **ret_view,
                   struct err *err) {
    struct base_view *view = xcalloc(1, sizeof *view);
    atomic_init(&view->refs, 1);
    arena_init(&view->arena);
    view->stack = *stack;
    snprintf(view->creator, sizeof view->creator, "%s", skills_creator(skills));
    view->generation = view_generation(stack, view->creator);
    int r = view_look(skills, view, err) ?: view_versions(skills, view, err);
    if (r < 0)
        base_view_put(view);
    else
        *ret_view = view;
    return r;
}

void base_view_put(struct base_view *view) {
    if (!view || atomic_fetch_sub(&view->refs, 1) != 1)
        return;
    arena_done(&view->arena);
    free(view);
}

static int view_find_order(const void *name, const void *skill) {
    return strcmp(name, ((const struct base_skill *)skill)->skill);
}

const struct base_skill *base_view_find(const struct base_view *view, const char *skill) {
    return view->count ? bsearch(skill, view->skills, view->count, sizeof *view->skills, view_find_order) : NULL;
}

/* ---- the cache ---- */

struct base_cache {
    pthread_mutex_t lock;
    struct base_cached {
        char *agent;
        struct base_view *view;
        uint64_t used;
    } views[VIEW_CACHE];
    size_t count;
    uint64_t turn;
};

struct base_cache *base_cache_new(void) {
    struct base_cache *cache = xcalloc(1, sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void base_cache_free(struct base_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) {
        base_view_put(cache->views[i].view);
        free(cache->views[i].agent);
    }
    free(cache);
}

/* Returns the agent's entry, or NULL; with `make`, reuses the least recently used entry instead. */
static struct base_cached *view_cached_locked(struct base_cache *cache, const char *agent, bool make) {
    struct base_cached *oldest = &cache->views[0];
    for (size_t i = 0; i < cache->count; i++) {
        if (strcmp(cache->views[i].agent, agent) == 0)
            return &cache->views[i];
        if (cache->views[i].used < oldest->used)
            oldest = &cache->views[i];
    }
    return !make ? NULL : cache->count < VIEW_CACHE ? &cache->views[cache->count++] : oldest;
}

int base_view_get(struct skills *skills, const char *agent, struct base_view **ret_view, struct err *err) {
    struct base_cache *cache = skills->cache;
    struct base_stack stack;
    struct base_view *view = NULL;
    TRY(base_stack_read(skills, agent, &stack, err));
    pthread_mutex_lock(&cache->lock);
    struct base_cached *cached = view_cached_locked(cache, agent, false);
    if (cached && cached->view->generation == view_generation(&stack, skills_creator(skills))) {
        view = cached->view;
        atomic_fetch_add(&view->refs, 1);
        cached->used = ++cache->turn;
    }
    pthread_mutex_unlock(&cache->lock);
    if (!view) {
        if (base_view_make(skills, &stack, &view, err) < 0)
            return err_wrap(err, "agent '%s'", agent);
        atomic_fetch_add(&view->refs, 1);
        pthread_mutex_lock(&cache->lock);
        cached = view_cached_locked(cache, agent, true);
        base_view_put(cached->view);
        free(cached->agent);
        *cached = (struct base_cached){.agent = xstrdup(agent), .view = view, .used = ++cache->turn};
        pthread_mutex_unlock(&cache->lock);
    }
    *ret_view = view;
    return 0;
}

/* ---- reading a base ---- */

int base_each(struct skills *skills, const char *agent, int (*each)(void *user, const struct base_skill *skill),
              void *user, struct err *err) {
    struct base_view *view;
    int r = 0;
    TRY(base_view_get(skills, agent, &view, err));
    for (size_t i = 0; r >= 0 && i < view->count; i++)
        r = each(user, &view->skills[i]);
    base_view_put(view);
    return r < 0 ? r : 0;
}

int base_find(struct skills *skills, const char *agent, const char *skill, struct arena *arena,
              struct base_skill *ret_skill, struct err *err) {
    struct base_view *view;
    TRY(skill_id_check(skill, err) ?: base_view_get(skills, agent, &view, err));
    const struct base_skill *found = base_view_find(view, skill);
    if (found) {
        *ret_skill = *found;
        ret_skill->skill = arena_strdup(arena, found->skill);
        ret_skill->layer = arena_strdup(arena, found->layer);
        ret_skill->name = arena_strdup(arena, found->name);
        ret_skill->description = arena_strdup(arena, found->description);
    }
    base_view_put(view);
    return found ? 0 : err_set(err, ERR_NOT_FOUND, "agent '%s' has no public skill '%s'", agent, skill);
}

int base_open(struct skills *skills, const struct base_skill *skill, int *ret_fd, struct err *err) {
    autofd layer = skills_dir(skills->layers_dir, skill->layer);
    int fd = layer < 0 ? -1 : skills_dir(layer, skill->skill);
    if (fd < 0)
        return err_errno(err, errno, "cannot open the skill '%.200s'", skill->skill);
    *ret_fd = fd;
    return 0;
}

int base_layers(struct skills *skills, const char *agent, struct arena *arena, const char ***ret_layers,
                size_t *ret_count, struct err *err) {
    struct base_stack stack;
    const char *creator = skills_creator(skills);
    TRY(base_stack_read(skills, agent, &stack, err));
    const char **layers = arena_alloc(arena, (stack.count + 2) * sizeof *layers);
    for (size_t i = 0; i < stack.count; i++)
        layers[i] = arena_strdup(arena, stack.names[i]);
    if (creator[0])
        layers[stack.count] = arena_strdup(arena, creator);
    *ret_layers = layers;
    *ret_count = stack.count + (creator[0] != 0);
    return 0;
}
