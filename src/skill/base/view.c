/* Reading a base: the file of its layers, what is seen through them, and a cache of that. Called by base, own, sync and the
 * fronts. Invariant: a version is known by the names of its layers alone, which never change once they are there; so
 * what was found in one is kept in skills.db, and a view is good for as long as agents/AGENT says the same.
 *
 * cache->lock guards the array of the cache; views are counted and never change. */
#include "skill/base/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "skill/catalog/meta.h"

enum { CACHE_VIEWS = 256 };

/* ---- the file of an agent ---- */

void base_stack_text(const struct base_stack *stack, char text[STACK_BYTES]) {
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; i < stack->count; i++)
        len += (size_t)snprintf(text + len, STACK_BYTES - len, "%s\n", stack->names[i]);
}

static bool stack_parse(const char *text, struct base_stack *ret_stack) {
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
    int r = skill_agent_check(agent, err);
    if (r < 0)
        return r;
    ssize_t n = fd_read_file(skills->agents_dir, agent, text, sizeof text - 1);
    if (n == -ENOENT) {
        *ret_stack = (struct base_stack){0};
        return 0;
    }
    if (n < 0)
        return err_errno(err, (int)-n, "the skills of agent '%s'", agent);
    if (strlen(text) != (size_t)n || !stack_parse(text, ret_stack))
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
    return number < 0 ? err_errno(err, -number, "the skills of agent '%s'", agent) : 0;
}

static uint64_t stack_generation(const struct base_stack *stack, const char *creator) {
    uint64_t sum = 14695981039346656037ull; /* FNV-1a; the names are random, so any mixing will do */
    for (size_t i = 0; i <= stack->count; i++)
        for (const char *c = i < stack->count ? stack->names[i] : creator; *c; c++)
            sum = (sum ^ (unsigned char)*c) * 1099511628211ull;
    return sum ? sum : 1;
}

uint64_t base_generation(struct skills *skills, const char *agent) {
    struct base_stack stack;
    struct err ignored;
    return base_stack_read(skills, agent, &stack, &ignored) < 0 ? 0 : stack_generation(&stack, skills_creator(skills));
}

/* ---- what a layer has of a skill ---- */

static ssize_t read_text(int dir, const char *name, char *text) {
    struct stat status;
    autofd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return -1;
    return fd_read_full(fd, text, META_BYTES);
}

static void version_meta(int dir, const char *skill, struct arena *arena, struct meta *ret_meta) {
    static const struct {
        const char *file;
        void (*parse)(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
    } sources[] = {{"SKILL.md", meta_skill}, {"skill.md", meta_heading}, {"README.md", meta_heading}};
    char *text = xmalloc(META_BYTES);
    ssize_t n = -1;
    for (size_t i = 0; n < 0 && i < sizeof sources / sizeof *sources; i++)
        if ((n = read_text(dir, sources[i].file, text)) >= 0)
            sources[i].parse(arena, skill, text, (size_t)n, ret_meta);
    if (n < 0)
        meta_heading(arena, skill, "", 0, ret_meta);
    free(text);
}

int base_version(int layer_dir, const char *layer, const char *skill, struct arena *arena, struct base_skill *ret_skill,
                 struct err *err) {
    struct base_skill found = {.skill = arena_strdup(arena, skill), .layer = arena_strdup(arena, layer)};
    struct stat status;
    struct meta meta;
    autofd dir = openat(layer_dir, skill, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &status) < 0)
        return err_errno(err, errno, "the skill '%.200s'", skill);
    int r = base_tree_hash(dir, found.sha256, &found.files, &found.bytes, err);
    if (r < 0)
        return r;
    version_meta(dir, skill, arena, &meta);
    found.name = meta.name;
    found.description = meta.description;
    found.changed_ms = (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000;
    *ret_skill = found;
    return 0;
}

/* Those that are known get their name; the others stay without. */
static int versions_known(struct skills *skills, struct base_view *view, struct err *err) {
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

int base_versions_keep(struct db *db, const struct base_skill *versions, size_t count, struct err *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct base_skill *version = &versions[i];
        r = db_do(db, err, "INSERT OR REPLACE INTO base_version VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", "tttthiii",
                  version->layer, version->skill, version->name, version->description, version->sha256, version->files,
                  version->bytes, version->changed_ms);
    }
    return r;
}

/* skills.db was lost, or is behind: looked at anew, and written down. */
static int versions_find(struct skills *skills, struct base_view *view, struct err *err) {
    size_t found = 0;
    struct base_skill *versions = arena_alloc(&view->arena, (view->count + 1) * sizeof *versions);
    int r = versions_known(skills, view, err);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        struct base_skill *skill = &view->skills[i];
        if (skill->name)
            continue;
        autofd dir = openat(skills->layers_dir, skill->layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = dir < 0 ? err_errno(err, errno, "a layer of skills")
                    : base_version(dir, skill->layer, skill->skill, &view->arena, skill, err);
        if (r == 0)
            versions[found++] = *skill;
    }
    struct db *db;
    if (r < 0 || found == 0 || (r = skilldb_take(skills, &db, err)) < 0)
        return r;
    if ((r = db_begin(db, err)) == 0)
        r = db_end(db, base_versions_keep(db, versions, found, err), err);
    skilldb_give(skills);
    return r;
}

/* ---- what is seen ---- */

struct seen {
    const char *name;
    size_t level; /* 0: the uppermost layer */
    bool hides;
};

struct seeing {
    struct arena *arena;
    struct seen *all;
    size_t count, cap;
};

static void see(struct seeing *seeing, const char *name, size_t level, bool hides) {
    vec_add(seeing->all, seeing->count, seeing->cap) =
        (struct seen){.name = arena_strdup(seeing->arena, name), .level = level, .hides = hides};
}

static int see_layer(struct skills *skills, struct seeing *seeing, const char *layer, size_t level, struct err *err) {
    int fd = openat(skills->layers_dir, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "layer %s of skills", layer);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        struct stat status;
        if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(status.st_mode) || S_ISCHR(status.st_mode))
            see(seeing, entry->d_name, level, !S_ISDIR(status.st_mode));
    }
    closedir(dir);
    return 0;
}

static int by_name_and_level(const void *a, const void *b) {
    const struct seen *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->level < y->level ? -1 : x->level > y->level;
}

static const char *view_layer(const struct base_view *view, size_t level) {
    return level < view->stack.count ? view->stack.names[level] : view->creator;
}

/* The uppermost of a name counts; where that is a removal, there is none. */
static void view_fill(struct base_view *view, struct seeing *seeing) {
    if (seeing->count)
        qsort(seeing->all, seeing->count, sizeof *seeing->all, by_name_and_level);
    view->skills = arena_alloc(&view->arena, (seeing->count + 1) * sizeof *view->skills);
    for (size_t i = 0; i < seeing->count; i++)
        if ((i == 0 || strcmp(seeing->all[i].name, seeing->all[i - 1].name) != 0) && !seeing->all[i].hides)
            view->skills[view->count++] =
                (struct base_skill){.skill = seeing->all[i].name, .layer = view_layer(view, seeing->all[i].level)};
}

int base_view_make(struct skills *skills, const struct base_stack *stack, struct base_view **ret_view,
                   struct err *err) {
    struct base_view *view = xcalloc(1, sizeof *view);
    struct seeing seeing = {.arena = &view->arena};
    int r = 0;
    atomic_init(&view->refs, 1);
    arena_init(&view->arena);
    view->stack = *stack;
    snprintf(view->creator, sizeof view->creator, "%s", skills_creator(skills));
    view->generation = stack_generation(stack, view->creator);
    for (size_t level = 0; r == 0 && level < stack->count + (view->creator[0] != 0); level++)
        r = see_layer(skills, &seeing, view_layer(view, level), level, err);
    if (r == 0) {
        view_fill(view, &seeing);
        r = versions_find(skills, view, err);
    }
    free(seeing.all);
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

static int by_skill(const void *name, const void *skill) {
    return strcmp(name, ((const struct base_skill *)skill)->skill);
}

const struct base_skill *base_view_find(const struct base_view *view, const char *skill) {
    return view->count ? bsearch(skill, view->skills, view->count, sizeof *view->skills, by_skill) : NULL;
}

/* ---- the cache ---- */

struct base_cache {
    pthread_mutex_t lock;
    struct {
        char *agent;
        struct base_view *view;
        uint64_t used;
    } views[CACHE_VIEWS];
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

static struct base_view *cache_get(struct base_cache *cache, const char *agent, uint64_t generation) {
    struct base_view *view = NULL;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; !view && i < cache->count; i++)
        if (strcmp(cache->views[i].agent, agent) == 0 && cache->views[i].view->generation == generation) {
            view = cache->views[i].view;
            atomic_fetch_add(&view->refs, 1);
            cache->views[i].used = ++cache->turn;
        }
    pthread_mutex_unlock(&cache->lock);
    return view;
}

/* In the place of the agent's old one, else of the one unused longest. */
static void cache_put(struct base_cache *cache, const char *agent, struct base_view *view) {
    size_t place = 0;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < cache->count; i++) {
        if (strcmp(cache->views[i].agent, agent) == 0) {
            place = i;
            break;
        }
        if (cache->views[i].used < cache->views[place].used)
            place = i;
    }
    if (cache->count < CACHE_VIEWS && (cache->count == 0 || strcmp(cache->views[place].agent, agent) != 0))
        place = cache->count++;
    base_view_put(cache->views[place].view);
    free(cache->views[place].agent);
    atomic_fetch_add(&view->refs, 1);
    cache->views[place].view = view;
    cache->views[place].used = ++cache->turn;
    cache->views[place].agent = xstrdup(agent);
    pthread_mutex_unlock(&cache->lock);
}

int base_view_get(struct skills *skills, const char *agent, struct base_view **ret_view, struct err *err) {
    struct base_stack stack;
    int r = base_stack_read(skills, agent, &stack, err);
    if (r < 0)
        return r;
    struct base_view *view = cache_get(skills->cache, agent, stack_generation(&stack, skills_creator(skills)));
    if (!view) {
        r = base_view_make(skills, &stack, &view, err);
        if (r < 0)
            return err_wrap(err, "agent '%s'", agent);
        cache_put(skills->cache, agent, view);
    }
    *ret_view = view;
    return 0;
}

/* ---- the contract ---- */

int base_each(struct skills *skills, const char *agent, int (*each)(void *user, const struct base_skill *skill),
              void *user, struct err *err) {
    struct base_view *view;
    int r = base_view_get(skills, agent, &view, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < view->count; i++)
        r = each(user, &view->skills[i]);
    base_view_put(view);
    return r < 0 ? r : 0;
}

int base_find(struct skills *skills, const char *agent, const char *skill, struct arena *arena,
              struct base_skill *ret_skill, struct err *err) {
    struct base_view *view;
    int r = skill_id_check(skill, err);
    if (r == 0)
        r = base_view_get(skills, agent, &view, err);
    if (r < 0)
        return r;
    const struct base_skill *found = base_view_find(view, skill);
    if (!found) {
        base_view_put(view);
        return err_set(err, ERR_NOT_FOUND, "agent '%s' has no public skill '%s'", agent, skill);
    }
    *ret_skill = *found;
    ret_skill->skill = arena_strdup(arena, found->skill);
    ret_skill->layer = arena_strdup(arena, found->layer);
    ret_skill->name = arena_strdup(arena, found->name);
    ret_skill->description = arena_strdup(arena, found->description);
    base_view_put(view);
    return 0;
}

int base_open(struct skills *skills, const struct base_skill *skill, int *ret_fd, struct err *err) {
    autofd layer = openat(skills->layers_dir, skill->layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = layer < 0 ? -1 : openat(layer, skill->skill, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "the skill '%.200s'", skill->skill);
    *ret_fd = fd;
    return 0;
}

int base_layers(struct skills *skills, const char *agent, struct arena *arena, const char ***ret_layers,
                size_t *ret_count, struct err *err) {
    struct base_stack stack;
    const char *creator = skills_creator(skills);
    int r = base_stack_read(skills, agent, &stack, err);
    if (r < 0)
        return r;
    const char **layers = arena_alloc(arena, (stack.count + 2) * sizeof *layers);
    for (size_t i = 0; i < stack.count; i++)
        layers[i] = arena_strdup(arena, stack.names[i]);
    size_t count = stack.count;
    if (creator[0])
        layers[count++] = arena_strdup(arena, creator);
    *ret_layers = layers;
    *ret_count = count;
    return 0;
}
