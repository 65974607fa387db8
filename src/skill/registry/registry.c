/* The entries of the registry. Called by the fronts, from any thread and by several daemons. Invariant:
 *
 * 1. registry->lock guards the connection. Every write is one transaction that locks from its beginning (db_begin).
 *    Blobs get and lose their names within such a transaction: a row never names one that does not exist.
 * 2. Every query includes who may see an entry; nothing is filtered afterwards.
 * 3. The content of a published version never changes. */
#include <inttypes.h>

#include "base/base.h"
#include "skill/registry/registry.h"
#include "store/db.h"
#include "skill/base/view.h"
#include "skill/catalog/meta.h"
#include "skill/own/own.h"
#include "skill/registry/blob.h"
#include "skill/skills.h"
#include "skill/stage.h"

struct registry {
    struct skills *skills;
    pthread_mutex_t lock;
    struct db db; /* zeroed: not open */
};

static const char registry_schema[] =
    "CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL CHECK (type IN ('skill', 'agent')),"
    " name TEXT NOT NULL, description TEXT NOT NULL, author TEXT NOT NULL, tags TEXT NOT NULL, version TEXT NOT NULL,"
    " sharing TEXT NOT NULL CHECK (sharing IN ('private', 'public')), sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " files INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " UNIQUE (type, name, author, version));"
    "CREATE INDEX entry_author ON entry (author);"
    "CREATE INDEX entry_sha256 ON entry (sha256);";

static const struct db_kind registry_db = {
    .name = "registry.db",
    .what = "the registry",
    .application = 0x63756272, /* "cubr" */
    .version = 1,
    .schema = registry_schema,
    .pragmas = "PRAGMA synchronous=FULL",
    .closed = true,
};

#define COLUMNS                                                                                                        \
    "id, type, name, description, author, tags, version, sharing, sha256, bytes, files, created_ms, updated_ms"
#define VISIBLE                                                                                                        \
    "(sharing = 'public' OR author = ?1 OR ?2)" /* rule 2; ?1: the asker, ?2: whether the asker is an admin */
/* An entry as parameters ?1 to ?13; a statement need not use all of them. */
#define ENTRY_TYPES "ttttttttiiiii"
#define ENTRY_VALUES(entry)                                                                                            \
    (entry)->type, (entry)->name, (entry)->author, (entry)->description, (entry)->tags, (entry)->version,              \
        (entry)->sharing, (entry)->sha256, (entry)->bytes, (entry)->files, (entry)->created_ms, (entry)->updated_ms,   \
        (entry)->id
#define SAME_ENTRY "type = ?1 AND name = ?2 AND author = ?3"

/* ---- kinds ---- */

struct registry_kind {
    const char *type;          /* "skill", "agent" */
    const char *folder;        /* below the workspace: where it is installed */
    const char *suffix;        /* of its file name */
    const char *const *places; /* folders that are searched in a box, in order; NULL-terminated */
};
static const char *const registry_skill_places[] = {"skills", SKILL_PATH, ".skills", NULL};
static const char *const registry_agent_places[] = {"agents", ".agents", NULL};
static const struct registry_kind registry_kinds[] = {
    {"skill", "skills", "", registry_skill_places},
    {"agent", "agents", ".md", registry_agent_places},
};

static const struct registry_kind *registry_kind(const char *type, struct err *err) {
    for (size_t i = 0; i < sizeof registry_kinds / sizeof *registry_kinds; i++)
        if (strcmp(registry_kinds[i].type, type) == 0)
            return &registry_kinds[i];
    err_set(err, ERR_INVALID, "the type must be skill or agent, not '%.64s'", type);
    return NULL;
}

static bool registry_is_skill(const struct registry_kind *kind) {
    return kind == &registry_kinds[0];
}

static int registry_name_check(const struct registry_kind *kind, const char *name, struct err *err) {
    if (skill_id_check(name, err) < 0)
        return err_wrap(err, "%s", kind->type);
    if (strlen(name) + strlen(kind->suffix) > LIMIT_NAME_BYTES)
        return err_set(err, ERR_INVALID, "the %s's name is too long", kind->type);
    return 0;
}

/* ---- the connection ---- */

static void *registry_new(struct skills *skills) {
    struct registry *registry = xcalloc(1, sizeof *registry);
    registry->skills = skills;
    pthread_mutex_init(&registry->lock, NULL);
    return registry;
}

static void registry_free(void *data) {
    struct registry *registry = data;
    db_close(&registry->db);
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}

static bool registry_names_blob(void *user, const char *sha256) {
    struct registry *registry = user;
    return db_get(&registry->db, ERR_IGNORED, "SELECT 1 FROM entry WHERE sha256 = ?1", "t>", sha256) != 0;
}

/* Removes blobs without a row, in its own transaction: a blob is needed until the deletion of its row is on the
 * disk. */
static void registry_sweep_locked(struct registry *registry) {
    if (db_begin(&registry->db, ERR_IGNORED) < 0)
        return;
    blob_sweep(registry->skills, registry_names_blob, registry);
    db_end(&registry->db, 0, ERR_IGNORED);
}

/* Returns with the lock held on success. */
static int registry_take(struct skills *skills, struct registry **ret_registry, struct err *err) {
    struct registry *registry = skills_part(skills, PART_REGISTRY, registry_new, registry_free);
    pthread_mutex_lock(&registry->lock);
    int r = db_ready(&registry->db, &registry_db, skills->state_dir, err);
    int64_t used = 0; /* a new, empty file does not know which blobs are needed; the old file may be restored */
    if (r > 0 && db_number(&registry->db, "SELECT count(*) FROM sqlite_sequence", &used, err) == 0 && used)
        registry_sweep_locked(registry); /* left by a killed daemon */
    if (r < 0) {
        pthread_mutex_unlock(&registry->lock);
        return err_wrap(err, "the registry");
    }
    *ret_registry = registry;
    return 0;
}

/* Reads the columns COLUMNS. Texts are copies in the arena; without one they are SQLite's, valid until the next
 * step. */
static struct registry_entry registry_entry_row(const struct query *row, struct arena *arena) {
    struct registry_entry entry = {.id = query_int(row, 0)};
    const char **texts[] = {&entry.type, &entry.name,    &entry.description, &entry.author,
                            &entry.tags, &entry.version, &entry.sharing};
    for (int i = 0; i < 7; i++) {
        const char *text = query_text(row, i + 1);
        *texts[i] = !text ? "" : arena ? arena_strdup(arena, text) : text;
    }
    const char *sha256 = query_text(row, 8);
    snprintf(entry.sha256, sizeof entry.sha256, "%s", sha256 ? sha256 : "");
    entry.bytes = (uint64_t)query_int(row, 9);
    entry.files = (uint64_t)query_int(row, 10);
    entry.created_ms = (uint64_t)query_int(row, 11);
    entry.updated_ms = (uint64_t)query_int(row, 12);
    return entry;
}

/* Finds the first row of a statement about `like`, in the arena. Returns 1, or 0 if there is no row. */
static int registry_entry_first(struct registry *registry, const char *sql, const struct registry_entry *like,
                                struct arena *arena, struct registry_entry *ret_entry, struct err *err) {
    autoquery query;
    int r = db_query(&registry->db, &query, err, sql, ENTRY_TYPES, ENTRY_VALUES(like));
    if (r == 0 && (r = query_next(&query, err)) > 0)
        *ret_entry = registry_entry_row(&query, arena);
    return r;
}

/* ---- names of entries ---- */

struct registry_entry_name {
    uint64_t id; /* 0: identified by the texts */
    const char *author, *name, *version;
};

static bool registry_entry_version_good(const char *version) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-";
    size_t len = strlen(version);
    return len > 0 && len <= LIMIT_REGISTRY_VERSION && strspn(version, letters) == len;
}

/* A name has no '/', and a published name no '@'. */
static int registry_entry_name_parse(const char *entry, struct arena *arena, struct registry_entry_name *ret_name,
                                     struct err *err) {
    struct registry_entry_name name = {0};
    const char *slash = strchr(entry, '/');
    if (text_u64(entry, INT64_MAX, &name.id) && name.id) {
        *ret_name = name;
        return 0;
    }
    name.id = 0;
    if (slash)
        name.author = arena_copy(arena, entry, (size_t)(slash - entry));
    char *rest = arena_strdup(arena, slash ? slash + 1 : entry), *at = strchr(rest, '@');
    if (at) {
        *at = 0;
        name.version = at + 1;
        if (!registry_entry_version_good(name.version))
            return err_set(err, ERR_INVALID, "'%.64s' is not a version", name.version);
    }
    name.name = rest;
    if (!*rest || (name.author && !*name.author))
        return err_set(err, ERR_INVALID,
                       "an entry must be a number, NAME or AUTHOR/NAME, the latter two optionally with @VERSION");
    *ret_name = name;
    return 0;
}

/* Finds the best entry: the asker's own, else a shared one, else, for an admin, any. INVALID: several of one rank fit.
 * NOT_FOUND: none fits. */
static int registry_entry_find(struct registry *registry, const struct registry_asker *asker, const char *type,
                               const struct registry_entry_name *name, const char *shown, struct arena *arena,
                               struct registry_entry *ret_entry, struct err *err) {
    autoquery query;
    int r = db_query(&registry->db, &query, err,
                     "SELECT " COLUMNS ", (author = ?1) * 2 + (sharing = 'public') AS rank FROM entry WHERE " VISIBLE
                     " AND (?3 IS NULL OR type = ?3) AND (CASE WHEN ?4 THEN id = ?4 ELSE name = ?5"
                     " AND (?6 IS NULL OR author = ?6) AND (?7 IS NULL OR version = ?7) END)"
                     " ORDER BY rank >= 2 DESC, rank DESC, id DESC",
                     "tntittt", asker->user, asker->admin, type, name->id, name->name, name->author, name->version);
    int64_t rank = 0;
    bool found = false;
    while (r >= 0 && (r = query_next(&query, err)) > 0) {
        struct registry_entry entry = registry_entry_row(&query, NULL);
        int64_t now = query_int(&query, 13);
        if (!found) {
            *ret_entry = registry_entry_row(&query, arena);
            found = true;
            rank = now;
        } else if ((now >= 2) != (rank >= 2) || (now < 2 && now != rank)) {
            break;
        } else if (strcmp(entry.author, ret_entry->author) != 0 || strcmp(entry.type, ret_entry->type) != 0) {
            return err_set(err, ERR_INVALID, "the name is ambiguous: %s %s/%s and %s %s/%s; name one of them",
                           ret_entry->type, ret_entry->author, ret_entry->name, entry.type, entry.author, entry.name);
        } else if (now >= 2 && entry.id > ret_entry->id) { /* of the asker's own entries the newest counts */
            *ret_entry = registry_entry_row(&query, arena);
        }
    }
    if (r >= 0 && !found)
        r = err_set(err, ERR_NOT_FOUND, "there is no published %s '%.200s'", type ? type : "entry", shown);
    return r < 0 ? r : 0;
}

int registry_find(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                  struct arena *arena, struct registry_entry *ret_entry, struct err *err) {
    struct registry *registry;
    struct registry_entry_name name;
    struct registry_entry found;
    if (type && !registry_kind(type, err))
        return -err->code;
    TRY(registry_entry_name_parse(entry, arena, &name, err) ?: registry_take(skills, &registry, err));
    int r = registry_entry_find(registry, asker, type, &name, entry, arena, &found, err);
    pthread_mutex_unlock(&registry->lock);
    if (r == 0)
        *ret_entry = found;
    return r;
}

/* ---- reading from a box ---- */

/* The content of a box is hostile: it is bounded, links are resolved and names checked before it is stored. */

/* Returns the path, relative to the workspace or absolute. Links are refused: the tree must be the box's own. */
static const char *registry_find_tree(struct box *box, const struct registry_kind *kind, const char *name,
                                      struct arena *arena, struct err *err) {
    enum file_type wanted = registry_is_skill(kind) ? FILE_DIR : FILE_REGULAR;
    for (const char *const *place = kind->places; *place; place++) {
        struct file_stat stat;
        const char *path = arena_printf(arena, "%s/%s%s", *place, name, kind->suffix);
        int r = box_stat(box, path, arena, &stat, err);
        if (r == 0 && stat.type == wanted)
            return path;
        if (r == 0)
            err_set(err, ERR_INVALID, "'%s' is not a %s", path, wanted == FILE_DIR ? "directory" : "file");
        if (r != -ERR_NOT_FOUND)
            return NULL;
    }
    err_set(err, ERR_NOT_FOUND, "the box has no %s '%s'", kind->type, name);
    return NULL;
}

/* A skill is a directory with a SKILL.md; a sub-agent is one file. */
static int registry_gather_tree(const struct registry_kind *kind, struct box *box, const char *path, const char *name,
                                struct stage *stage, struct arena *arena, struct meta *ret_meta, int watch,
                                struct err *err) {
    autobuf text = buf_max(META_BYTES + 1);
    autofd fd = -1;
    const char *why = "", *leaf = arena_printf(arena, "%s%s", name, kind->suffix);
    if (registry_is_skill(kind)) {
        TRY(stage_box(stage, box, path, name, watch, err));
        fd = skills_dir(stage->fd, name);
        return base_meta(fd, name, arena, ret_meta)
                   ? 0
                   : err_set(err, ERR_INVALID, "'%s' is not a skill: it has no SKILL.md", name);
    }
    TRY(box_read_all(box, path, META_BYTES + 1, watch, &text, err));
    if (text.len > META_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%s' is larger than %d bytes, the limit of a sub-agent's file", path,
                       META_BYTES);
    TRY(stage_file(stage, leaf, 0644, &fd, err));
    int number = fd_write_all(fd, text.data, text.len);
    if (number < 0)
        return err_errno(err, -number, "cannot copy '%s'", path);
    if (!meta_agent(arena, leaf, (const char *)text.data, text.len, ret_meta, &why))
        return err_set(err, ERR_INVALID, "'%s' is not a sub-agent's file: %s", path, why);
    return 0;
}

/* Packs what the box has under that name as a blob that is not kept yet, and reads its metadata. */
static int registry_gather(struct skills *skills, struct box *box, const struct registry_kind *kind, const char *name,
                           struct arena *arena, struct blob *ret_blob, struct meta *ret_meta, int watch,
                           struct err *err) {
    struct stage stage;
    const char *path = registry_find_tree(box, kind, name, arena, err);
    TRY(path ? stage_open(skills, &stage, err) : -err->code);
    int r = registry_gather_tree(kind, box, path, name, &stage, arena, ret_meta, watch, err)
                ?: blob_make(skills, stage.fd, ret_blob, err);
    stage_abort(&stage);
    return r;
}

/* ---- publishing ---- */

static const char *registry_entry_first_text(const char *one, const char *two, const char *three) {
    return one ? one : two && *two ? two : three;
}

/* Completes the request with the metadata of the file itself. */
static int registry_entry_complete(const struct registry_asker *asker, const struct box *box,
                                   const struct registry_entry *wanted, const struct meta *meta,
                                   const struct blob *blob, struct arena *arena, struct registry_entry *ret_entry,
                                   struct err *err) {
    struct registry_entry entry = {.type = wanted->type, .name = wanted->name, .tags = wanted->tags};
    bool hidden = meta->sharing && strcmp(meta->sharing, "private") == 0;
    entry.author = wanted->author ? wanted->author : box->user;
    entry.description = registry_entry_first_text(wanted->description, meta->description, "");
    entry.description =
        arena_copy(arena, entry.description,
                   text_fitting(entry.description, strlen(entry.description), LIMIT_REGISTRY_DESCRIPTION));
    entry.tags = entry.tags ? entry.tags : "";
    for (size_t i = 0; !wanted->tags && meta->tags && meta->tags[i] &&
                       strlen(entry.tags) + strlen(meta->tags[i]) + 2 < LIMIT_REGISTRY_TAGS;
         i++)
        entry.tags = *entry.tags ? arena_printf(arena, "%s,%s", entry.tags, meta->tags[i]) : meta->tags[i];
    entry.sharing = wanted->sharing ? wanted->sharing : hidden ? "private" : "public";
    entry.version = registry_entry_first_text(wanted->version, meta->version, NULL);
    snprintf(entry.sha256, sizeof entry.sha256, "%s", blob->sha256);
    entry.bytes = blob->totals.bytes;
    entry.files = blob->totals.files;
    entry.created_ms = entry.updated_ms = clock_wall_ms();
    if (!asker->admin && strcmp(entry.author, asker->user) != 0)
        return err_set(err, ERR_DENIED, "only an admin can publish for another user");
    if (!asker->admin && meta->author && *meta->author && strcmp(meta->author, entry.author) != 0)
        return err_set(err, ERR_DENIED,
                       "its own file names '%.128s' as the author: only that user or an admin can publish it",
                       meta->author);
    if (entry.version && !registry_entry_version_good(entry.version))
        return err_set(err, ERR_INVALID, "'%.64s' is not a version: up to %u letters, digits and _ . + -",
                       entry.version, LIMIT_REGISTRY_VERSION);
    if (strlen(entry.tags) > LIMIT_REGISTRY_TAGS)
        return err_set(err, ERR_INVALID, "the tags are longer than %u bytes", LIMIT_REGISTRY_TAGS);
    *ret_entry = entry;
    return 0;
}

/* Checks the author's limits, numbers a version that has no number, and inserts the row. */
static int registry_publish_insert(struct registry *registry, struct registry_entry *entry, struct arena *arena,
                                   struct err *err) {
    int64_t count = 0, bytes = 0, number = 1;
    int r = db_get(&registry->db, err, "SELECT count(*), CAST(total(bytes) AS INTEGER) FROM entry WHERE author = ?1",
                   "t>ii", entry->author, &count, &bytes);
    if (r >= 0 && count >= LIMIT_REGISTRY_ENTRIES)
        return err_set(err, ERR_LIMIT, "'%s' has published %u versions, which is the limit: unpublish some",
                       entry->author, LIMIT_REGISTRY_ENTRIES);
    if (r >= 0 && (uint64_t)bytes + entry->bytes > LIMIT_REGISTRY_BYTES)
        return err_set(err, ERR_LIMIT, "'%s' would have published more than %llu bytes, which is the limit",
                       entry->author, LIMIT_REGISTRY_BYTES);
    if (r >= 0 && !entry->version) { /* the next integer */
        r = db_get(&registry->db, err,
                   "SELECT ifnull(max(CAST(version AS INTEGER)), 0) + 1 FROM entry WHERE " SAME_ENTRY
                   " AND length(version) < 10 AND version NOT GLOB '*[^0-9]*'",
                   "ttt>i", entry->type, entry->name, entry->author, &number);
        entry->version = arena_printf(arena, "%" PRId64, number);
    }
    if (r >= 0)
        r = db_do(&registry->db, err,
                  "INSERT INTO entry (type, name, author, description, tags, version, sharing, sha256, bytes, files,"
                  " created_ms, updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                  ENTRY_TYPES, ENTRY_VALUES(entry));
    if (r == 0)
        entry->id = sqlite3_last_insert_rowid(registry->db.handle);
    return r;
}

static int registry_publish_row_locked(struct registry *registry, struct registry_entry *entry, struct blob *blob,
                                       struct arena *arena, struct err *err) {
    struct registry_entry old;
    int r = 0;
    /* A shared name belongs to one author: no other user's shared entry may replace it or look like it. */
    if (strcmp(entry->sharing, "public") == 0)
        r = registry_entry_first(registry,
                                 "SELECT " COLUMNS " FROM entry WHERE type = ?1 AND name = ?2 COLLATE NOCASE AND"
                                 " author <> ?3 AND sharing = 'public' LIMIT 1",
                                 entry, arena, &old, err);
    if (r > 0)
        return err_set(err, ERR_EXISTS, "%s '%s' was published by '%s': choose another name, or publish it as private",
                       old.type, old.name, old.author);
    if (r == 0)
        r = registry_entry_first(registry,
                                 "SELECT " COLUMNS " FROM entry WHERE " SAME_ENTRY " AND (?6 IS NULL OR version = ?6)"
                                 " ORDER BY id DESC LIMIT 1",
                                 entry, arena, &old, err);
    bool found = r > 0;
    if (r >= 0)
        r = blob_keep(blob, err);
    if (r < 0)
        return r;
    if (found && strcmp(old.sha256, entry->sha256) == 0) { /* same content: only the description changes */
        entry->id = old.id;
        entry->version = old.version;
        entry->created_ms = old.created_ms;
        return db_do(&registry->db, err,
                     "UPDATE entry SET description = ?4, tags = ?5, sharing = ?7, updated_ms = ?12 WHERE id = ?13",
                     ENTRY_TYPES, ENTRY_VALUES(entry));
    }
    if (found && entry->version)
        return err_set(err, ERR_EXISTS, "version %s of %s '%s' was published with other content: choose a new version",
                       entry->version, entry->type, entry->name);
    return registry_publish_insert(registry, entry, arena, err);
}

/* Other users will read and type this name. */
static int registry_publish_name(const struct registry_kind *type, const char *name, struct err *err) {
    TRY(registry_name_check(type, name, err));
    if (strchr(name, '@'))
        return err_set(err, ERR_INVALID, "a name with '@' cannot be published: the text after it would be a version");
    uint32_t character = 0;
    for (size_t at = 0, len = strlen(name), n; at < len && (n = text_character(name + at, len - at, &character));
         at += n)
        if (text_harmful(character))
            return err_set(err, ERR_INVALID, "the name holds the character U+%04" PRIX32 ", which is invisible",
                           character);
    return 0;
}

int registry_publish(struct skills *skills, const struct registry_asker *asker, struct box *box,
                     const struct registry_entry *wanted, struct arena *arena, struct registry_entry *ret_entry,
                     int watch, struct err *err) {
    struct registry *registry;
    struct registry_entry entry;
    struct blob blob;
    struct meta meta;
    const struct registry_kind *type = registry_kind(wanted->type, err);
    TRY((type ? registry_publish_name(type, wanted->name, err) : -err->code)
            ?: registry_gather(skills, box, type, wanted->name, arena, &blob, &meta, watch, err));
    int r = registry_entry_complete(asker, box, wanted, &meta, &blob, arena, &entry, err)
                ?: registry_take(skills, &registry, err);
    if (r == 0) {
        r = db_begin(&registry->db, err)
                ?: db_end(&registry->db, registry_publish_row_locked(registry, &entry, &blob, arena, err), err);
        if (r < 0)
            registry_sweep_locked(registry);
        pthread_mutex_unlock(&registry->lock);
    }
    blob_drop(&blob);
    if (r == 0)
        *ret_entry = entry;
    return r;
}

/* ---- unpublishing ---- */

int registry_unpublish(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                       struct err *err) {
    struct registry *registry;
    struct registry_entry_name name;
    struct registry_entry found;
    autoarena arena = ARENA_EMPTY;
    if (type && !registry_kind(type, err))
        return -err->code;
    TRY(registry_entry_name_parse(entry, &arena, &name, err) ?: registry_take(skills, &registry, err));
    int r = db_begin(&registry->db, err);
    if (r == 0) {
        r = registry_entry_find(registry, asker, type, &name, entry, &arena, &found, err);
        if (r == 0 && !asker->admin && strcmp(found.author, asker->user) != 0)
            r = err_set(err, ERR_DENIED, "%s '%s' belongs to '%s': only that user or an admin can unpublish it",
                        found.type, found.name, found.author);
        if (r == 0)
            r = name.id || name.version ? db_do(&registry->db, err, "DELETE FROM entry WHERE id = ?1", "i", found.id)
                                        : db_do(&registry->db, err, "DELETE FROM entry WHERE " SAME_ENTRY, "ttt",
                                                found.type, found.name, found.author);
        r = db_end(&registry->db, r, err);
    }
    if (r == 0)
        registry_sweep_locked(registry);
    pthread_mutex_unlock(&registry->lock);
    return r;
}

/* ---- searching ---- */

/* Searches for the text literally: nothing in it is a pattern. */
#define SEARCHED                                                                                                       \
    " FROM entry AS e WHERE " VISIBLE " AND (?3 IS NULL OR type = ?3) AND (NOT ?5 OR author = ?1)"                     \
    " AND (?4 IS NULL OR instr(lower(name), lower(?4)) OR instr(lower(description), lower(?4))"                        \
    " OR instr(lower(tags), lower(?4)))"                                                                               \
    " AND (?6 OR NOT EXISTS (SELECT 1 FROM entry AS n WHERE n.type = e.type AND n.name = e.name AND"                   \
    " n.author = e.author AND n.id > e.id AND (n.sharing = 'public' OR n.author = ?1 OR ?2)))"

static int registry_search_query(struct registry *registry, const char *sql, const struct registry_asker *asker,
                                 const struct registry_query *query, struct query *ret_rows, struct err *err) {
    return db_query(&registry->db, ret_rows, err, sql, "tnttnnii", asker->user, asker->admin, query->type,
                    query->text && *query->text ? query->text : NULL, query->mine, query->versions,
                    (int64_t)query->limit, (int64_t)query->offset);
}

/* Gathers the rows first: their receiver may be slow, and all requests share the connection. */
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err) {
    struct registry *registry;
    struct query all = {0}, page = {0};
    uint64_t total = 0;
    autoarena arena = ARENA_EMPTY;
    unsigned limit = query->limit && query->limit < LIMIT_REGISTRY_ROWS ? query->limit : LIMIT_REGISTRY_ROWS, count = 0;
    struct registry_entry *rows = arena_alloc(&arena, limit * sizeof *rows);
    TRY(registry_take(skills, &registry, err));
    int r = registry_search_query(registry, "SELECT count(*)" SEARCHED, asker, query, &all, err);
    if (r == 0 && (r = query_next(&all, err)) > 0)
        total = (uint64_t)query_int(&all, 0);
    if (r >= 0)
        r = registry_search_query(registry,
                                  "SELECT " COLUMNS SEARCHED " ORDER BY updated_ms DESC, id DESC LIMIT ?7 OFFSET ?8",
                                  asker, query, &page, err);
    while (r >= 0 && count < limit && (r = query_next(&page, err)) > 0)
        rows[count++] = registry_entry_row(&page, &arena);
    query_end(&page);
    query_end(&all);
    pthread_mutex_unlock(&registry->lock);
    for (unsigned i = 0; r >= 0 && i < count; i++)
        r = each(user, &rows[i]);
    if (r >= 0)
        *ret_total = total;
    return r < 0 ? r : 0;
}

/* ---- installing ---- */

/* In a box a name is either the old tree or the new one, never a part of either. */

/* Moves the old tree to `old`, and back if the new one cannot take its place. */
static int registry_swap(struct skills *skills, struct box *box, const char *fresh, const char *path, const char *old,
                         struct err *err) {
    TRY(box_alone(box, skills_settings(skills)->wait_ms, err));
    int r = box_move(box, path, old, false, err);
    bool had = r == 0;
    if (had || r == -ERR_NOT_FOUND) {
        r = box_move(box, fresh, path, false, err);
        if (r < 0 && had)
            box_move(box, old, path, false, ERR_IGNORED);
    }
    box_alone_end(box);
    return r;
}

/* Unpacks into a hidden directory next to the target, which is removed at the end. */
int registry_install(struct skills *skills, struct box *box, const struct registry_entry *entry, bool replace,
                     struct arena *arena, const char **ret_path, int watch, struct err *err) {
    const struct registry_kind *kind = registry_kind(entry->type, err);
    struct file_stat stat;
    struct unpack_result result;
    char hex[17];
    autofd fd = -1;
    if (!kind)
        return -err->code;
    /* A user's skills for an agent are in /skills, whatever other paths show it. */
    bool own = box->spec.agent && registry_is_skill(kind);
    const char *folder = own ? SKILL_PATH : arena_printf(arena, "%s/%s", box_workspace(box), kind->folder);
    const char *path = arena_printf(arena, "%s/%s%s", folder, entry->name, kind->suffix);
    policy_random_id(hex);
    const char *hidden = arena_printf(arena, "%s/.cubby-%s", folder, hex);
    if (!replace && box_stat(box, path, arena, &stat, ERR_IGNORED) == 0)
        return err_set(err, ERR_EXISTS, "%s '%s' is already installed; set replace to overwrite it", entry->type,
                       entry->name);
    const struct unpack_request request = {.path = hidden, .max_entries = LIMIT_UNPACK_ENTRIES};
    TRY(blob_open(skills, entry->sha256, &fd, err));
    int r = box_mkdir(box, hidden, 0755, true, err) ?: box_tar_in(box, &request, blob_read, &fd, watch, &result, err);
    if (r == 0) {
        if (own)
            own_touched(skills, box, entry->name);
        const char *fresh = arena_printf(arena, "%s/%s%s", hidden, entry->name, kind->suffix);
        r = replace ? registry_swap(skills, box, fresh, path, arena_printf(arena, "%s/.old", hidden), err)
                    : box_move(box, fresh, path, false, err);
    }
    box_remove(box, hidden, true, -1, ERR_IGNORED);
    if (r == 0)
        *ret_path = path;
    return r;
}

int registry_uninstall(struct skills *skills, struct box *box, const char *type, const char *name, int watch,
                       struct err *err) {
    const struct registry_kind *kind = registry_kind(type, err);
    char path[LIMIT_NAME_BYTES + 64];
    TRY(kind ? registry_name_check(kind, name, err) : -err->code);
    TRY(box_alone(box, skills_settings(skills)->wait_ms, err));
    snprintf(path, sizeof path, "%s/%s%s", kind->folder, name, kind->suffix);
    int r = box_remove(box, path, true, watch, err);
    box_alone_end(box);
    return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "%s '%s' is not installed", type, name) : r;
}
