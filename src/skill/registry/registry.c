/* The entries of the registry. Called by the doors, from any thread and by several daemons. Invariant:
 *
 * 1. registry->lock guards the connection; whatever writes is one transaction, alone from its beginning (db_begin). Blobs
 *    get their names and lose them within such a transaction: a row never names one that is not there.
 * 2. Who may see an entry is a part of every query, never a check afterwards.
 * 3. A version that was published is never another content. */
#include "skill/registry/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/db.h"
#include "skill/registry/registry_tree.h"
#include "skill/skills.h"

struct registry {
    struct skills *skills;
    pthread_mutex_t lock;
    struct db db; /* zeroed: not open */
};

static const char schema[] =
    "CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL CHECK (type IN ('skill', 'agent')),"
    " name TEXT NOT NULL, description TEXT NOT NULL, author TEXT NOT NULL, tags TEXT NOT NULL, version TEXT NOT NULL,"
    " sharing TEXT NOT NULL CHECK (sharing IN ('private', 'public')), sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " files INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " UNIQUE (type, name, author, version));"
    "CREATE INDEX entry_author ON entry (author);"
    "CREATE INDEX entry_sha256 ON entry (sha256);";

static const struct db_kind kind = {
    .name = "registry.db",
    .what = "the registry",
    .application = 0x63756272, /* "cubr" */
    .version = 1,
    .schema = schema,
    .pragmas = "PRAGMA synchronous=FULL",
    .closed = true,
};

#define COLUMNS                                                                                                        \
    "id, type, name, description, author, tags, version, sharing, sha256, bytes, files, created_ms, updated_ms"
#define VISIBLE "(sharing = 'public' OR author = ?1 OR ?2)" /* rule 2: ?1 the asker, ?2 whether they are an admin */
/* An entry as the parameters ?1 to ?13 of a statement, which need not name all of them. */
#define ENTRY_TYPES "ttttttttiiiii"
#define ENTRY_VALUES(entry)                                                                                            \
    (entry)->type, (entry)->name, (entry)->author, (entry)->description, (entry)->tags, (entry)->version,              \
        (entry)->sharing, (entry)->sha256, (entry)->bytes, (entry)->files, (entry)->created_ms, (entry)->updated_ms,   \
        (entry)->id
#define SAME_ENTRY "type = ?1 AND name = ?2 AND author = ?3"

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

static bool blob_named(void *user, const char *sha256) {
    struct registry *registry = user;
    struct err ignored;
    return db_get(&registry->db, &ignored, "SELECT 1 FROM entry WHERE sha256 = ?1", "t>", sha256) != 0;
}

/* Blobs without a row, in a transaction of its own: before the end of a row is on the disk its blob is needed. */
static void registry_sweep_locked(struct registry *registry) {
    struct err ignored;
    if (db_begin(&registry->db, &ignored) < 0)
        return;
    blob_sweep(registry->skills, blob_named, registry);
    db_end(&registry->db, 0, &ignored);
}

/* Locked on success. A file that somebody took away is not written to any more. */
static int registry_take(struct skills *skills, struct registry **ret_registry, struct err *err) {
    struct registry *registry = skills_part(skills, PART_REGISTRY, registry_new, registry_free);
    pthread_mutex_lock(&registry->lock);
    int r = 0;
    if (!registry->db.handle || db_replaced(&registry->db)) {
        db_close(&registry->db);
        r = db_open(&kind, skills->state_dir, &registry->db, err);
        int64_t used = 0; /* of a file that was just made nothing tells what is needed: the old one may come back */
        if (r == 0 && db_number(&registry->db, "SELECT count(*) FROM sqlite_sequence", &used, err) == 0 && used)
            registry_sweep_locked(registry); /* what a daemon that was killed left */
    }
    if (r < 0) {
        pthread_mutex_unlock(&registry->lock);
        return err_wrap(err, "the registry");
    }
    *ret_registry = registry;
    return 0;
}

static void registry_give(struct registry *registry) {
    pthread_mutex_unlock(&registry->lock);
}

/* The columns COLUMNS; texts are SQLite's until the next step, or copies in the arena. */
static struct registry_entry entry_row(const struct query *row, struct arena *arena) {
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

/* The first row of a statement about `like`, in the arena. 1: found. 0: there is none. */
static int entry_first(struct registry *registry, const char *sql, const struct registry_entry *like,
                       struct arena *arena, struct registry_entry *ret_entry, struct err *err) {
    autoquery query;
    int r = db_query(&registry->db, &query, err, sql, ENTRY_TYPES, ENTRY_VALUES(like));
    if (r == 0 && (r = query_next(&query, err)) > 0)
        *ret_entry = entry_row(&query, arena);
    return r;
}

/* ---- names of entries ---- */

struct entry_name {
    uint64_t id; /* 0: by the texts */
    const char *author, *name, *version;
};

static bool version_good(const char *version) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-";
    size_t len = strlen(version);
    return len > 0 && len <= LIMIT_REGISTRY_VERSION && strspn(version, letters) == len;
}

/* No name has a '/', none that was published an '@'. */
static int entry_name_parse(const char *entry, struct arena *arena, struct entry_name *ret_name, struct err *err) {
    struct entry_name name = {0};
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
        if (!version_good(name.version))
            return err_set(err, ERR_INVALID, "'%.64s' is no version", name.version);
    }
    name.name = rest;
    if (!*rest || (name.author && !*name.author))
        return err_set(err, ERR_INVALID, "an entry is a number, NAME or AUTHOR/NAME, perhaps with @VERSION");
    *ret_name = name;
    return 0;
}

static int entry_missing(const char *type, const char *entry, struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "there is no published %s '%.200s'", type ? type : "entry", entry);
}

/* The best of those that fit: one's own, a shared one, for an admin any. Several of one rank are for the asker to tell
 * apart. */
static int entry_find(struct registry *registry, const struct registry_asker *asker, const char *type,
                      const struct entry_name *name, struct arena *arena, struct registry_entry *ret_entry,
                      bool *ret_found, struct err *err) {
    autoquery query;
    int r = db_query(&registry->db, &query, err,
                     "SELECT " COLUMNS ", (author = ?1) * 2 + (sharing = 'public') AS rank FROM entry WHERE " VISIBLE
                     " AND (?3 IS NULL OR type = ?3) AND (CASE WHEN ?4 THEN id = ?4 ELSE name = ?5"
                     " AND (?6 IS NULL OR author = ?6) AND (?7 IS NULL OR version = ?7) END)"
                     " ORDER BY rank >= 2 DESC, rank DESC, id DESC",
                     "tntittt", asker->user, asker->admin, type, name->id, name->name, name->author, name->version);
    int64_t rank = 0;
    *ret_found = false;
    while (r >= 0 && (r = query_next(&query, err)) > 0) {
        struct registry_entry entry = entry_row(&query, NULL);
        int64_t now = query_int(&query, 13);
        if (!*ret_found) {
            *ret_entry = entry_row(&query, arena);
            *ret_found = true;
            rank = now;
        } else if ((now >= 2) != (rank >= 2) || (now < 2 && now != rank)) {
            break;
        } else if (strcmp(entry.author, ret_entry->author) != 0 || strcmp(entry.type, ret_entry->type) != 0) {
            return err_set(err, ERR_INVALID, "several fit: %s %s/%s and %s %s/%s; say which", ret_entry->type,
                           ret_entry->author, ret_entry->name, entry.type, entry.author, entry.name);
        } else if (now >= 2 && entry.id > ret_entry->id) { /* of one's own, shared or not, the newest */
            *ret_entry = entry_row(&query, arena);
        }
    }
    return r < 0 ? r : 0;
}

int registry_find(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                  struct arena *arena, struct registry_entry *ret_entry, struct err *err) {
    struct registry *registry;
    struct entry_name name;
    struct registry_entry found;
    bool any = false;
    if (type && !registry_kind(type, err))
        return -err->code;
    int r = entry_name_parse(entry, arena, &name, err);
    if (r == 0)
        r = registry_take(skills, &registry, err);
    if (r < 0)
        return r;
    r = entry_find(registry, asker, type, &name, arena, &found, &any, err);
    registry_give(registry);
    if (r == 0 && !any)
        r = entry_missing(type, entry, err);
    if (r == 0)
        *ret_entry = found;
    return r;
}

/* ---- publishing ---- */

/* Cut at the end of a character. */
static const char *text_cut(struct arena *arena, const char *text, size_t max) {
    size_t len = strlen(text);
    if (len <= max)
        return text;
    for (len = max; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
        len--;
    return arena_copy(arena, text, len);
}

static const char *tags_joined(struct arena *arena, const char *const *tags) {
    const char *all = "";
    for (size_t i = 0; tags && tags[i] && strlen(all) + strlen(tags[i]) + 2 < LIMIT_REGISTRY_TAGS; i++)
        all = *all ? arena_printf(arena, "%s,%s", all, tags[i]) : tags[i];
    return all;
}

static const char *first_of(const char *one, const char *two, const char *three) {
    return one ? one : two && *two ? two : three;
}

/* What is asked for, completed by what its own file says. */
static int entry_complete(const struct registry_asker *asker, const struct box *box,
                          const struct registry_entry *wanted, const struct meta *meta, const struct blob *blob,
                          struct arena *arena, struct registry_entry *ret_entry, struct err *err) {
    struct registry_entry entry = {.type = wanted->type, .name = wanted->name};
    bool shared = meta->sharing && strcmp(meta->sharing, "private") == 0;
    entry.author = wanted->author ? wanted->author : box->user;
    entry.description =
        text_cut(arena, first_of(wanted->description, meta->description, ""), LIMIT_REGISTRY_DESCRIPTION);
    entry.tags = wanted->tags ? wanted->tags : tags_joined(arena, meta->tags);
    entry.sharing = wanted->sharing ? wanted->sharing : shared ? "private" : "public";
    entry.version = first_of(wanted->version, meta->version, NULL);
    snprintf(entry.sha256, sizeof entry.sha256, "%s", blob->sha256);
    entry.bytes = blob->bytes;
    entry.files = blob->files;
    entry.created_ms = entry.updated_ms = clock_wall_ms();
    if (!asker->admin && strcmp(entry.author, asker->user) != 0)
        return err_set(err, ERR_DENIED, "only an admin publishes for somebody else");
    if (!asker->admin && meta->author && *meta->author && strcmp(meta->author, entry.author) != 0)
        return err_set(err, ERR_DENIED, "its own file names '%.128s' as the author: only he or an admin publishes it",
                       meta->author);
    if (entry.version && !version_good(entry.version))
        return err_set(err, ERR_INVALID, "'%.64s' is no version: up to %u letters, digits and _ . + -", entry.version,
                       LIMIT_REGISTRY_VERSION);
    if (strlen(entry.tags) > LIMIT_REGISTRY_TAGS)
        return err_set(err, ERR_INVALID, "the tags are longer than %u bytes", LIMIT_REGISTRY_TAGS);
    *ret_entry = entry;
    return 0;
}

/* A name that is shared belongs to one author: nobody else's shared entry can take its place, or look as if. */
static int publish_alone(struct registry *registry, const struct registry_entry *entry, struct err *err) {
    struct registry_entry other;
    autoarena arena = ARENA_EMPTY;
    if (strcmp(entry->sharing, "public") != 0)
        return 0;
    int r = entry_first(registry,
                        "SELECT " COLUMNS " FROM entry WHERE type = ?1 AND name = ?2 COLLATE NOCASE AND"
                        " author <> ?3 AND sharing = 'public' LIMIT 1",
                        entry, &arena, &other, err);
    if (r > 0)
        r = err_set(err, ERR_EXISTS, "%s '%s' was published by '%s': choose another name, or publish it as private",
                    other.type, other.name, other.author);
    return r;
}

static int publish_room(struct registry *registry, const struct registry_entry *entry, struct err *err) {
    int64_t count = 0, bytes = 0;
    int r = db_get(&registry->db, err, "SELECT count(*), CAST(total(bytes) AS INTEGER) FROM entry WHERE author = ?1",
                   "t>ii", entry->author, &count, &bytes);
    if (r < 0)
        return r;
    if (count >= LIMIT_REGISTRY_ENTRIES)
        return err_set(err, ERR_LIMIT, "'%s' has published %u versions, which is the limit: unpublish some",
                       entry->author, LIMIT_REGISTRY_ENTRIES);
    if ((uint64_t)bytes + entry->bytes > LIMIT_REGISTRY_BYTES)
        return err_set(err, ERR_LIMIT, "'%s' would have published more than %llu bytes, which is the limit",
                       entry->author, LIMIT_REGISTRY_BYTES);
    return 0;
}

/* Without a version: the next whole number above those that are there. */
static int publish_number(struct registry *registry, struct registry_entry *entry, struct arena *arena,
                          struct err *err) {
    int64_t number = 1;
    int r = db_get(&registry->db, err,
                   "SELECT ifnull(max(CAST(version AS INTEGER)), 0) + 1 FROM entry WHERE " SAME_ENTRY
                   " AND length(version) < 10 AND version NOT GLOB '*[^0-9]*'",
                   "ttt>i", entry->type, entry->name, entry->author, &number);
    entry->version = arena_printf(arena, "%" PRId64, number);
    return r < 0 ? r : 0;
}

static int publish_insert(struct registry *registry, struct registry_entry *entry, struct err *err) {
    int r = publish_room(registry, entry, err);
    if (r == 0)
        r = db_do(&registry->db, err,
                  "INSERT INTO entry (type, name, author, description, tags, version, sharing, sha256, bytes, files,"
                  " created_ms, updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                  ENTRY_TYPES, ENTRY_VALUES(entry));
    if (r == 0)
        entry->id = sqlite3_last_insert_rowid(registry->db.handle);
    return r;
}

/* The same content again: only what is said about it changes. */
static int publish_update(struct registry *registry, const struct registry_entry *old, struct registry_entry *entry,
                          struct err *err) {
    entry->id = old->id;
    entry->version = old->version;
    entry->created_ms = old->created_ms;
    return db_do(&registry->db, err,
                 "UPDATE entry SET description = ?4, tags = ?5, sharing = ?7, updated_ms = ?12 WHERE id = ?13",
                 ENTRY_TYPES, ENTRY_VALUES(entry));
}

static int publish_row_locked(struct registry *registry, struct registry_entry *entry, struct blob *blob,
                              struct arena *arena, struct err *err) {
    struct registry_entry old;
    int r = publish_alone(registry, entry, err);
    if (r == 0)
        r = entry_first(registry,
                        "SELECT " COLUMNS " FROM entry WHERE " SAME_ENTRY " AND (?6 IS NULL OR version = ?6)"
                        " ORDER BY id DESC LIMIT 1",
                        entry, arena, &old, err);
    bool found = r > 0;
    if (r >= 0)
        r = blob_keep(blob, err);
    if (r < 0)
        return r;
    if (found && strcmp(old.sha256, entry->sha256) == 0)
        return publish_update(registry, &old, entry, err);
    if (found && entry->version)
        return err_set(err, ERR_EXISTS, "version %s of %s '%s' was published with another content: give a new version",
                       entry->version, entry->type, entry->name);
    if (!entry->version)
        r = publish_number(registry, entry, arena, err);
    return r < 0 ? r : publish_insert(registry, entry, err);
}

/* Others will read and type it. */
static int publish_name(const struct registry_kind *type, const char *name, struct err *err) {
    int r = registry_name_check(type, name, err);
    if (r < 0)
        return r;
    if (strchr(name, '@'))
        return err_set(err, ERR_INVALID, "a name with '@' cannot be published: what is behind it would be a version");
    uint32_t character = 0;
    for (size_t at = 0, len = strlen(name), n; at < len && (n = text_character(name + at, len - at, &character));
         at += n)
        if (text_harmful(character))
            return err_set(err, ERR_INVALID, "the name holds the character U+%04" PRIX32 ", which cannot be seen",
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
    int r = type ? publish_name(type, wanted->name, err) : -err->code;
    if (r == 0)
        r = registry_gather(skills, box, type, wanted->name, arena, &blob, &meta, watch, err);
    if (r < 0)
        return r;
    r = entry_complete(asker, box, wanted, &meta, &blob, arena, &entry, err);
    if (r == 0)
        r = registry_take(skills, &registry, err);
    if (r == 0) {
        r = db_begin(&registry->db, err);
        if (r == 0)
            r = db_end(&registry->db, publish_row_locked(registry, &entry, &blob, arena, err), err);
        if (r < 0)
            registry_sweep_locked(registry);
        registry_give(registry);
    }
    blob_drop(&blob);
    if (r == 0)
        *ret_entry = entry;
    return r;
}

/* ---- unpublishing ---- */

static int unpublish_locked(struct registry *registry, const struct registry_asker *asker, const char *type,
                            const struct entry_name *name, const char *entry, struct arena *arena, struct err *err) {
    struct registry_entry found;
    bool any = false;
    int r = entry_find(registry, asker, type, name, arena, &found, &any, err);
    if (r == 0 && !any)
        r = entry_missing(type, entry, err);
    if (r == 0 && !asker->admin && strcmp(found.author, asker->user) != 0)
        r = err_set(err, ERR_DENIED, "%s '%s' is of '%s': only he or an admin can unpublish it", found.type, found.name,
                    found.author);
    bool one = name->id || name->version;
    if (r < 0)
        return r;
    return one ? db_do(&registry->db, err, "DELETE FROM entry WHERE id = ?1", "i", found.id)
               : db_do(&registry->db, err, "DELETE FROM entry WHERE " SAME_ENTRY, "ttt", found.type, found.name,
                       found.author);
}

int registry_unpublish(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                       struct err *err) {
    struct registry *registry;
    struct entry_name name;
    autoarena arena = ARENA_EMPTY;
    if (type && !registry_kind(type, err))
        return -err->code;
    int r = entry_name_parse(entry, &arena, &name, err);
    if (r == 0)
        r = registry_take(skills, &registry, err);
    if (r < 0)
        return r;
    r = db_begin(&registry->db, err);
    if (r == 0)
        r = db_end(&registry->db, unpublish_locked(registry, asker, type, &name, entry, &arena, err), err);
    if (r == 0)
        registry_sweep_locked(registry);
    registry_give(registry);
    return r;
}

/* ---- searching ---- */

/* What is asked for stands in the text as it is: nothing in it is a pattern. */
#define SEARCHED                                                                                                       \
    " FROM entry AS e WHERE " VISIBLE " AND (?3 IS NULL OR type = ?3) AND (NOT ?5 OR author = ?1)"                     \
    " AND (?4 IS NULL OR instr(lower(name), lower(?4)) OR instr(lower(description), lower(?4))"                        \
    " OR instr(lower(tags), lower(?4)))"                                                                               \
    " AND (?6 OR NOT EXISTS (SELECT 1 FROM entry AS n WHERE n.type = e.type AND n.name = e.name AND"                   \
    " n.author = e.author AND n.id > e.id AND (n.sharing = 'public' OR n.author = ?1 OR ?2)))"

static int search_query(struct registry *registry, const char *sql, const struct registry_asker *asker,
                        const struct registry_query *query, struct query *ret_rows, struct err *err) {
    return db_query(&registry->db, ret_rows, err, sql, "tnttnnii", asker->user, asker->admin, query->type,
                    query->text && *query->text ? query->text : NULL, query->mine, query->versions,
                    (int64_t)query->limit, (int64_t)query->offset);
}

static int search_locked(struct registry *registry, const struct registry_asker *asker,
                         const struct registry_query *query, struct arena *arena, struct registry_entry *rows,
                         unsigned limit, unsigned *ret_count, uint64_t *ret_total, struct err *err) {
    autoquery all, page = {0};
    int r = search_query(registry, "SELECT count(*)" SEARCHED, asker, query, &all, err);
    if (r == 0 && (r = query_next(&all, err)) > 0)
        *ret_total = (uint64_t)query_int(&all, 0);
    if (r >= 0)
        r = search_query(registry, "SELECT " COLUMNS SEARCHED " ORDER BY updated_ms DESC, id DESC LIMIT ?7 OFFSET ?8",
                         asker, query, &page, err);
    while (r >= 0 && *ret_count < limit && (r = query_next(&page, err)) > 0)
        rows[(*ret_count)++] = entry_row(&page, arena);
    return r < 0 ? r : 0;
}

/* The rows are gathered first: who takes them may be slow, and the connection is everybody's. */
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err) {
    struct registry *registry;
    uint64_t total = 0;
    autoarena arena = ARENA_EMPTY;
    unsigned limit = query->limit && query->limit < LIMIT_REGISTRY_ROWS ? query->limit : LIMIT_REGISTRY_ROWS, count = 0;
    struct registry_entry *rows = arena_alloc(&arena, limit * sizeof *rows);
    int r = registry_take(skills, &registry, err);
    if (r < 0)
        return r;
    r = search_locked(registry, asker, query, &arena, rows, limit, &count, &total, err);
    registry_give(registry);
    for (unsigned i = 0; r == 0 && i < count; i++)
        r = each(user, &rows[i]);
    if (r == 0)
        *ret_total = total;
    return r;
}
