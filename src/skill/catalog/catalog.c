/* Finds the skills and sub-agents in a box. Called by the tools `skill` and `agent` and by the native API. Invariant:
 * whatever those directories contain, everything readable is offered, and the rest is named with a reason. */
#include "base/base.h"
#include "skill/catalog/catalog.h"
#include "skill/catalog/catalog_cache.h"

enum {
    CATALOG_LISTED = 50000, /* entries of a source with its folders; if there are more, folders are read one by one */
    CATALOG_FOLDERS = 5000,
    CATALOG_BAD = 100,
    CATALOG_NAMES = 50,
    CATALOG_BYTES = 16 << 20, /* of all metadata */
    CATALOG_LOOK_MS = 20000,  /* for reading uncached files; the next call continues */
};

/* Files that may describe a folder, best first. */
static const char *const catalog_files[] = {"SKILL.md", "skill.md", "README.md"};
enum { CATALOG_FILES = sizeof catalog_files / sizeof *catalog_files };

struct catalog_walk {
    struct catalogs *catalogs;
    struct box *box;
    struct arena *arena;
    int watch;
    bool agents;
    const char *what; /* key in the cache */
    struct catalog_item *items;
    size_t count, cap, first; /* first: index of this source's first item */
    const char *root, *source;
    unsigned rank;
    const char **bad;
    size_t bad_count, bytes;
};

/* ---- reading ---- */

int catalog_read(struct box *box, const char *path, size_t most, struct arena *arena, int watch, const char **ret_text,
                 size_t *ret_len, struct err *err) {
    autobuf out = buf_max(most);
    TRY(box_read_all(box, path, most, watch, &out, err));
    *ret_text = arena_copy(arena, out.data, out.len);
    *ret_len = out.len;
    return 0;
}

/* Returns whether a failure concerns only one file, so that other files can still be read. */
static bool catalog_excused(int code) {
    return code == -ERR_INVALID || code == -ERR_NOT_FOUND || code == -ERR_DENIED || code == -ERR_IO ||
           code == -ERR_TOO_LARGE || code == -ERR_UNSUPPORTED;
}

static void catalog_note(struct catalog_walk *walk, const char *path, const char *why) {
    autobuf out = buf_max(64 << 10);
    text_shown(&out, path, strlen(path));
    buf_printf(&out, ": %s", why);
    if (!walk->bad)
        walk->bad = arena_alloc(walk->arena, (CATALOG_BAD + 2) * sizeof *walk->bad);
    if (walk->bad_count < CATALOG_BAD)
        walk->bad[walk->bad_count++] = arena_copy(walk->arena, out.data, out.len);
    else
        walk->bad[CATALOG_BAD] = "and more";
}

/* ---- listing ---- */

static struct catalog_item *catalog_add(struct catalog_walk *walk, const char *id, size_t len) {
    struct catalog_item *item = &arena_add(walk->arena, walk->items, walk->count, walk->cap);
    *item = (struct catalog_item){.source = walk->source, .rank = walk->rank};
    item->id = arena_copy(walk->arena, id, len);
    item->path = arena_printf(walk->arena, "%s/%s%s", walk->root, item->id, walk->agents ? ".md" : "");
    return item;
}

static void catalog_mark(struct catalog_item *item, const struct file_stat *stat) {
    item->size = stat->size;
    item->mtime_ns = stat->mtime_ns;
    item->inode = stat->inode;
    item->fixed = stat->type == FILE_REGULAR;
}

/* Hidden names (of programs, of staging) and names that are not text are skipped. */
static bool catalog_named(struct catalog_walk *walk, const struct file_stat *stat) {
    if (stat->name[0] == '.')
        return false;
    if (text_utf8(stat->name, strlen(stat->name)))
        return true;
    catalog_note(walk, stat->path, "its name is not UTF-8");
    return false;
}

/* Records a file that describes its folder, unless a better one was seen. A listing has a folder before its content,
 * sorted by name. */
static void catalog_document(struct catalog_walk *walk, const char *folder, size_t len, const struct file_stat *stat) {
    size_t low = walk->first, high = walk->count, rank = 0, old = 0;
    while (rank < CATALOG_FILES && strcmp(stat->name, catalog_files[rank]) != 0)
        rank++;
    if (rank == CATALOG_FILES)
        return;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *id = walk->items[middle].id;
        int order = strncmp(id, folder, len) ?: (id[len] != 0);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == walk->count || strncmp(walk->items[low].id, folder, len) != 0 || walk->items[low].id[len])
        return;
    struct catalog_item *item = &walk->items[low];
    while (item->file && old < CATALOG_FILES && strcmp(strrchr(item->file, '/') + 1, catalog_files[old]) != 0)
        old++;
    if (item->file && old <= rank)
        return;
    item->file = arena_strdup(walk->arena, stat->path);
    catalog_mark(item, stat);
}

static int catalog_skill(void *user, const struct file_stat *stat) {
    struct catalog_walk *walk = user;
    size_t root = strlen(walk->root);
    if (strncmp(stat->path, walk->root, root) != 0 || stat->path[root] != '/')
        return 0;
    const char *below = stat->path + root + 1, *slash = strchr(below, '/');
    if (slash)
        catalog_document(walk, below, (size_t)(slash - below), stat);
    else if ((stat->type == FILE_DIR || stat->type == FILE_SYMLINK) && catalog_named(walk, stat))
        catalog_add(walk, below, strlen(below))->listed = stat->type == FILE_DIR;
    return 0;
}

static int catalog_bare(void *user, const struct file_stat *stat) {
    struct catalog_walk *walk = user;
    if ((stat->type == FILE_DIR || stat->type == FILE_SYMLINK) && catalog_named(walk, stat))
        catalog_add(walk, stat->name, strlen(stat->name));
    return 0;
}

static int catalog_agent(void *user, const struct file_stat *stat) {
    struct catalog_walk *walk = user;
    size_t len = strlen(stat->name);
    if (len <= 3 || strcmp(stat->name + len - 3, ".md") != 0 || !catalog_named(walk, stat))
        return 0;
    struct catalog_item *item = catalog_add(walk, stat->name, len - 3);
    item->file = item->path;
    item->listed = true;
    catalog_mark(item, stat);
    return 0;
}

static int catalog_list(struct catalog_walk *walk, unsigned depth, uint64_t limit,
                        int (*each)(void *user, const struct file_stat *stat), bool *ret_truncated, struct err *err) {
    const struct list_request list = {.path = walk->root, .depth = depth, .limit = limit};
    walk->first = walk->count;
    int code = box_list(walk->box, &list, walk->watch, each, walk, ret_truncated, err);
    if (code == -ERR_NOT_FOUND)
        return 0;
    if (code < 0 && catalog_excused(code)) {
        catalog_note(walk, walk->root, err->text);
        return 0;
    }
    return code;
}

static int catalog_source(struct catalog_walk *walk, const char *root, const char *source, struct err *err) {
    bool truncated = false;
    size_t before = walk->count;
    walk->root = root;
    walk->source = source;
    int code = walk->agents ? catalog_list(walk, 1, CATALOG_FOLDERS, catalog_agent, &truncated, err)
                            : catalog_list(walk, 2, CATALOG_LISTED, catalog_skill, &truncated, err);
    if (code == 0 && truncated && !walk->agents) { /* a folder full of files must not hide the others */
        walk->count = before;
        code = catalog_list(walk, 1, CATALOG_FOLDERS, catalog_bare, &truncated, err);
    }
    if (code == 0 && truncated)
        catalog_note(walk, root, "it has more entries than can be listed");
    walk->rank++;
    return code;
}

/* ---- metadata ---- */

/* Parses in an arena of its own, since that may take much memory, and copies only the result. */
static void catalog_parse(struct catalog_walk *walk, struct catalog_item *item, const char *text, size_t len) {
    const char *why = NULL;
    struct meta meta = {0};
    autoarena scratch = ARENA_EMPTY;
    if (walk->agents) {
        if (!meta_agent(&scratch, strrchr(item->file, '/') + 1, text, len, &meta, &why)) {
            item->bad = arena_strdup(walk->arena, why);
            return;
        }
    } else if (item->file && strcmp(strrchr(item->file, '/') + 1, catalog_files[0]) != 0)
        meta_heading(&scratch, item->id, text, len, &meta);
    else
        meta_skill(&scratch, item->id, text, len, &meta);
    item->meta = catalog_copy(walk->arena, &meta, &walk->bytes);
}

/* Reads the item's description: from its file, or, if its folder was not listed, from the first file that exists. */
static int catalog_look(struct catalog_walk *walk, struct catalog_item *item, struct err *err) {
    const char *text = "";
    size_t len = 0;
    struct file_stat stat;
    autoarena scratch = ARENA_EMPTY;
    item->read = true;
    if (!item->listed) { /* may be a link to something else */
        int code = box_stat(walk->box, arena_printf(walk->arena, "%s/.", item->path), walk->arena, &stat, err);
        if (code < 0 && !catalog_excused(code))
            return code;
        if (code < 0) {
            item->bad = "it does not lead to a folder";
            return 0;
        }
    }
    item->read_ms = clock_ms();
    item->read_wall_ns = clock_wall_ms() * 1000000;
    int code = -ERR_NOT_FOUND;
    if (item->file)
        code = catalog_read(walk->box, item->file, META_BYTES, &scratch, walk->watch, &text, &len, err);
    for (size_t i = 0; !item->listed && i < CATALOG_FILES && code == -ERR_NOT_FOUND; i++) {
        item->file = arena_printf(walk->arena, "%s/%s", item->path, catalog_files[i]);
        code = catalog_read(walk->box, item->file, META_BYTES, &scratch, walk->watch, &text, &len, err);
    }
    if (code < 0 && !catalog_excused(code))
        return code;
    item->fixed = item->fixed && code == 0;
    if (code < 0 && code != -ERR_NOT_FOUND)
        item->bad = arena_strdup(walk->arena, err->text);
    else if (walk->agents && code < 0)
        item->bad = "it was removed";
    else {
        item->file = code == 0 ? item->file : NULL;
        catalog_parse(walk, item, text, len);
    }
    return 0;
}

static int catalog_look_all(struct catalog_walk *walk, struct err *err) {
    size_t missing = walk->count;
    uint64_t end_ms = clock_ms() + CATALOG_LOOK_MS;
    int code = 0;
    if (walk->catalogs)
        missing = catalogs_fill(walk->catalogs, walk->box->id, walk->what, walk->items, walk->count, walk->arena,
                                &walk->bytes);
    for (size_t i = 0; i < walk->count && code == 0; i++)
        if (!walk->items[i].read && (walk->bytes > CATALOG_BYTES || clock_ms() > end_ms))
            walk->items[i].bad = walk->bytes > CATALOG_BYTES ? "the catalogue is full"
                                                             : "reading took too long; the next call continues";
        else if (!walk->items[i].read)
            code = catalog_look(walk, &walk->items[i], err);
    if (code == 0 && missing && walk->catalogs)
        catalogs_store(walk->catalogs, walk->box->id, walk->what, walk->items, walk->count);
    return code;
}

/* ---- duplicates ---- */

static int catalog_by_id(const void *a, const void *b) {
    const struct catalog_item *one = a, *other = b;
    int order = strcmp(one->id, other->id);
    return order ? order : (one->rank > other->rank) - (one->rank < other->rank);
}

static int catalog_by_name(const void *a, const void *b) {
    const struct catalog_item *one = a, *other = b;
    int order = strcmp(one->meta.name, other->meta.name) ?: ((one->rank > other->rank) - (one->rank < other->rank));
    return order ? order : strcmp(one->id, other->id);
}

/* Of items with the same id (or name) the first stays. Two of one source with the same name are reported. */
static void catalog_choose(struct catalog_walk *walk, bool names) {
    size_t kept = 0;
    if (walk->count)
        qsort(walk->items, walk->count, sizeof *walk->items, names ? catalog_by_name : catalog_by_id);
    for (size_t i = 0; i < walk->count; i++) {
        struct catalog_item *item = &walk->items[i], *last = kept ? &walk->items[kept - 1] : NULL;
        bool same = last && strcmp(names ? last->meta.name : last->id, names ? item->meta.name : item->id) == 0;
        if (same && names && item->rank == last->rank)
            catalog_note(walk, item->path, arena_printf(walk->arena, "it has the same name as %s", last->path));
        if (!same)
            walk->items[kept++] = *item;
    }
    walk->count = kept;
}

/* Reports and drops items that could not be read. With `keep` they stay, under their folder's name. */
static void catalog_report_bad(struct catalog_walk *walk, bool keep) {
    size_t kept = 0;
    for (size_t i = 0; i < walk->count; i++) {
        struct catalog_item item = walk->items[i];
        if (item.bad)
            catalog_note(walk, item.path, item.bad);
        if (item.bad && keep) {
            item.file = NULL;
            catalog_parse(walk, &item, "", 0);
        }
        if (!item.bad || keep)
            walk->items[kept++] = item;
    }
    walk->count = kept;
}

/* ---- the calls ---- */

static int catalog_order(const void *key, const void *at) {
    return strcmp(key, *(const char *const *)at);
}

/* In /skills, whatever is not in the agent's base is the user's own. */
static int catalog_own(struct catalog_walk *walk, struct err *err) {
    void *user;
    const char **names;
    size_t count;
    catalogs_base base = catalogs_base_of(walk->catalogs, &user);
    if (!base || !walk->box->spec.agent)
        return 0;
    int code = base(user, walk->box->spec.agent, walk->arena, &names, &count, err);
    for (size_t i = 0; code == 0 && i < walk->count; i++)
        if (strcmp(walk->items[i].source, "agent") == 0 &&
            (!count || !bsearch(walk->items[i].id, names, count, sizeof *names, catalog_order)))
            walk->items[i].source = "personal";
    return code;
}

static int catalog_sources(struct catalog_walk *walk, struct err *err) {
    const char *workspace = box_workspace(walk->box), *what = walk->agents ? "agents" : "skills";
    const char *personal = arena_printf(walk->arena, "%s/%s", workspace, what);
    struct file_stat one = {0}, other = {0};
    bool has_agent = walk->box->spec.agent && !walk->agents, same = false;
    int code = 0;
    if (has_agent) { /* the personal folder may be another path of /skills */
        code = box_stat(walk->box, personal, walk->arena, &one, err)
                   ?: box_stat(walk->box, SKILLS_PATH, walk->arena, &other, err);
        same = code == 0 && one.inode == other.inode && one.mtime_ns == other.mtime_ns;
        code = catalog_excused(code) ? 0 : code;
    }
    if (code == 0 && !same)
        code = catalog_source(walk, personal, "personal", err);
    if (code == 0 && has_agent)
        code = catalog_source(walk, SKILLS_PATH, "agent", err);
    if (code == 0)
        code = catalog_source(walk, arena_printf(walk->arena, "%s/.%s", workspace, what), "global", err);
    return code;
}

/* Returns whether the catalogue of /skills depends only on files whose changes the runner counts. */
static bool catalog_is_closed(const struct catalog_walk *walk) {
    const struct spec *spec = &walk->box->spec;
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strncmp(spec->mounts[i].target, SKILLS_PATH "/", sizeof SKILLS_PATH) == 0)
            return false;
    for (size_t i = 0; i < walk->count; i++)
        if (!walk->items[i].listed || walk->items[i].bad || (walk->items[i].file && !walk->items[i].fixed))
            return false;
    return !walk->bad_count;
}

/* dir NULL: all sources */
static int catalog_make(struct catalog_walk *walk, const char *dir, struct catalog *ret_catalog, struct err *err) {
    bool whole = dir && walk->catalogs && walk->box->spec.agent && strcmp(dir, SKILLS_PATH) == 0;
    struct catalog_token token = {.generation = atomic_load(&walk->box->attached_generation)};
    int code = box_share(walk->box, SHARE_WAIT_MS, err); /* no skill changes while it is read */
    if (code < 0)
        return code;
    if (whole)
        code = box_changes(walk->box, &token.changes,
                           err); /* read before the listing, so that later changes are noticed */
    whole = whole && code == 0 && token.changes;
    if (whole && catalogs_whole(walk->catalogs, walk->box->id, dir, token, walk->arena, ret_catalog)) {
        box_share_end(walk->box);
        return 0;
    }
    if (code == 0)
        code = dir ? catalog_source(walk, dir, "agent", err) : catalog_sources(walk, err);
    if (code == 0)
        code = catalog_look_all(walk, err);
    box_share_end(walk->box);
    if (code == 0)
        code = catalog_own(walk, err);
    if (code < 0)
        return code;
    whole = whole && catalog_is_closed(walk);
    catalog_report_bad(walk, dir);
    for (int names = 0; !dir && names < 2; names++)
        catalog_choose(walk, names);
    static const char *const none[] = {NULL};
    struct catalog_entry *entries = arena_alloc(walk->arena, (walk->count + 1) * sizeof *entries);
    for (size_t i = 0; i < walk->count; i++) {
        const struct catalog_item *item = &walk->items[i];
        entries[i] = (struct catalog_entry){item->id, item->path, item->file, item->source, item->meta};
    }
    *ret_catalog = (struct catalog){entries, walk->count, walk->bad ? walk->bad : none};
    if (whole)
        catalogs_keep_whole(walk->catalogs, walk->box->id, dir, token, ret_catalog);
    return 0;
}

int catalog_skills(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err) {
    struct catalog_walk walk = {.catalogs = catalogs, .box = box, .arena = arena, .watch = watch, .what = "skills"};
    return catalog_make(&walk, NULL, ret_catalog, err);
}

int catalog_agents(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err) {
    struct catalog_walk walk = {
        .catalogs = catalogs, .box = box, .arena = arena, .watch = watch, .what = "agents", .agents = true};
    return catalog_make(&walk, NULL, ret_catalog, err);
}

int catalog_folder(struct catalogs *catalogs, struct box *box, const char *dir, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err) {
    struct catalog_walk walk = {.catalogs = catalogs, .box = box, .arena = arena, .watch = watch, .what = dir};
    return catalog_make(&walk, dir, ret_catalog, err);
}

const struct catalog_entry *catalog_find(const struct catalog *catalog, const char *name) {
    for (int by_name = 0; by_name < 2; by_name++)
        for (size_t i = 0; i < catalog->count; i++)
            if (strcmp(by_name ? catalog->entries[i].meta.name : catalog->entries[i].id, name) == 0)
                return &catalog->entries[i];
    return NULL;
}

const char *catalog_names(const struct catalog *catalog, struct arena *arena) {
    autobuf out = buf_max((size_t)CATALOG_NAMES * 1024);
    for (size_t i = 0; i < catalog->count && i < CATALOG_NAMES; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", catalog->entries[i].meta.name);
    if (catalog->count > CATALOG_NAMES)
        buf_printf(&out, " and %zu more", catalog->count - CATALOG_NAMES);
    return arena_copy(arena, out.data, out.len);
}
