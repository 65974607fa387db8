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
#define VISIBLE "(sharing = 'public' OR author = :user OR :admin)" /* rule 2 */

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
    sqlite3_stmt *statement;
    if (db_prepare(&registry->db, "SELECT 1 FROM entry WHERE sha256 = ?1", &statement, &ignored) < 0)
        return true;
    db_text(statement, 1, sha256);
    bool named = sqlite3_step(statement) != SQLITE_DONE;
    sqlite3_finalize(statement);
    return named;
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

static void bind_text(sqlite3_stmt *statement, const char *name, const char *text) {
    int at = sqlite3_bind_parameter_index(statement, name);
    if (at)
        db_text(statement, at, text);
}

static void bind_number(sqlite3_stmt *statement, const char *name, int64_t number) {
    int at = sqlite3_bind_parameter_index(statement, name);
    if (at)
        sqlite3_bind_int64(statement, at, number);
}

static void bind_asker(sqlite3_stmt *statement, const struct registry_asker *asker) {
    bind_text(statement, ":user", asker->user);
    bind_number(statement, ":admin", asker->admin);
}

/* The columns COLUMNS; texts are SQLite's until the next step, or copies in the arena. */
static struct registry_entry entry_row(sqlite3_stmt *statement, struct arena *arena) {
    struct registry_entry entry = {.id = sqlite3_column_int64(statement, 0)};
    const char **texts[] = {&entry.type, &entry.name,    &entry.description, &entry.author,
                            &entry.tags, &entry.version, &entry.sharing};
    for (int i = 0; i < 7; i++) {
        const char *text = (const char *)sqlite3_column_text(statement, i + 1);
        *texts[i] = !text ? "" : arena ? arena_strdup(arena, text) : text;
    }
    const char *sha256 = (const char *)sqlite3_column_text(statement, 8);
    snprintf(entry.sha256, sizeof entry.sha256, "%s", sha256 ? sha256 : "");
    entry.bytes = (uint64_t)sqlite3_column_int64(statement, 9);
    entry.files = (uint64_t)sqlite3_column_int64(statement, 10);
    entry.created_ms = (uint64_t)sqlite3_column_int64(statement, 11);
    entry.updated_ms = (uint64_t)sqlite3_column_int64(statement, 12);
    return entry;
}

/* The first row into *ret_entry, in the arena; *ret_found false: there is none. The statement is freed. */
static int entry_first(struct registry *registry, sqlite3_stmt *statement, struct arena *arena,
                       struct registry_entry *ret_entry, bool *ret_found, struct err *err) {
    int code = sqlite3_step(statement), r = 0;
    *ret_found = code == SQLITE_ROW;
    if (code == SQLITE_ROW)
        *ret_entry = entry_row(statement, arena);
    else if (code != SQLITE_DONE)
        r = db_fail(&registry->db, err);
    sqlite3_finalize(statement);
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
    sqlite3_stmt *statement;
    int r =
        db_prepare(&registry->db,
                   "SELECT " COLUMNS ", (author = :user) * 2 + (sharing = 'public') AS rank FROM entry WHERE " VISIBLE
                   " AND (:type IS NULL OR type = :type) AND (CASE WHEN :id THEN id = :id ELSE name = :name"
                   " AND (:author IS NULL OR author = :author) AND (:version IS NULL OR version = :version) END)"
                   " ORDER BY rank >= 2 DESC, rank DESC, id DESC",
                   &statement, err);
    if (r < 0)
        return r;
    bind_asker(statement, asker);
    bind_text(statement, ":type", type);
    bind_number(statement, ":id", (int64_t)name->id);
    bind_text(statement, ":name", name->name);
    bind_text(statement, ":author", name->author);
    bind_text(statement, ":version", name->version);
    int64_t rank = 0;
    int code;
    *ret_found = false;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct registry_entry entry = entry_row(statement, NULL);
        int64_t now = sqlite3_column_int64(statement, 13);
        if (!*ret_found) {
            *ret_entry = entry_row(statement, arena);
            *ret_found = true;
            rank = now;
        } else if ((now >= 2) != (rank >= 2) || (now < 2 && now != rank)) {
            break;
        } else if (strcmp(entry.author, ret_entry->author) != 0 || strcmp(entry.type, ret_entry->type) != 0) {
            r = err_set(err, ERR_INVALID, "several fit: %s %s/%s and %s %s/%s; say which", ret_entry->type,
                        ret_entry->author, ret_entry->name, entry.type, entry.author, entry.name);
            break;
        } else if (now >= 2 && entry.id > ret_entry->id) { /* of one's own, shared or not, the newest */
            *ret_entry = entry_row(statement, arena);
        }
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        r = db_fail(&registry->db, err);
    sqlite3_finalize(statement);
    return r;
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

/* A statement about entry's type, name and author, with its other texts bound where it has a place for them. */
static int entry_prepare(struct registry *registry, const char *sql, const struct registry_entry *entry,
                         sqlite3_stmt **ret_statement, struct err *err) {
    int r = db_prepare(&registry->db, sql, ret_statement, err);
    if (r < 0)
        return r;
    const char *const texts[][2] = {{":type", entry->type},       {":name", entry->name},
                                    {":author", entry->author},   {":description", entry->description},
                                    {":tags", entry->tags},       {":version", entry->version},
                                    {":sharing", entry->sharing}, {":sha256", entry->sha256}};
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{":bytes", entry->bytes},
                   {":files", entry->files},
                   {":created", entry->created_ms},
                   {":updated", entry->updated_ms},
                   {":id", (uint64_t)entry->id}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        bind_text(*ret_statement, texts[i][0], texts[i][1]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        bind_number(*ret_statement, numbers[i].name, (int64_t)numbers[i].value);
    return 0;
}

/* A name that is shared belongs to one author: nobody else's shared entry can take its place, or look as if. */
static int publish_alone(struct registry *registry, const struct registry_entry *entry, struct err *err) {
    struct registry_entry other;
    sqlite3_stmt *statement;
    bool found = false;
    autoarena arena = ARENA_EMPTY;
    if (strcmp(entry->sharing, "public") != 0)
        return 0;
    int r = entry_prepare(registry,
                          "SELECT " COLUMNS " FROM entry WHERE type = :type AND name = :name COLLATE NOCASE AND"
                          " author <> :author AND sharing = 'public' LIMIT 1",
                          entry, &statement, err);
    if (r == 0)
        r = entry_first(registry, statement, &arena, &other, &found, err);
    if (r == 0 && found)
        r = err_set(err, ERR_EXISTS, "%s '%s' was published by '%s': choose another name, or publish it as private",
                    other.type, other.name, other.author);
    return r;
}

static int publish_room(struct registry *registry, const struct registry_entry *entry, struct err *err) {
    sqlite3_stmt *statement;
    int r = entry_prepare(registry, "SELECT count(*), total(bytes) FROM entry WHERE author = :author", entry,
                          &statement, err);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) != SQLITE_ROW)
        r = db_fail(&registry->db, err);
    else if (sqlite3_column_int64(statement, 0) >= LIMIT_REGISTRY_ENTRIES)
        r = err_set(err, ERR_LIMIT, "'%s' has published %u versions, which is the limit: unpublish some", entry->author,
                    LIMIT_REGISTRY_ENTRIES);
    else if (sqlite3_column_double(statement, 1) + (double)entry->bytes > (double)LIMIT_REGISTRY_BYTES)
        r = err_set(err, ERR_LIMIT, "'%s' would have published more than %llu bytes, which is the limit", entry->author,
                    LIMIT_REGISTRY_BYTES);
    sqlite3_finalize(statement);
    return r;
}

/* Without a version: the next whole number above those that are there. */
static int publish_number(struct registry *registry, struct registry_entry *entry, struct arena *arena,
                          struct err *err) {
    sqlite3_stmt *statement;
    int r = entry_prepare(registry,
                          "SELECT ifnull(max(CAST(version AS INTEGER)), 0) + 1 FROM entry WHERE type = :type AND"
                          " name = :name AND author = :author AND length(version) < 10 AND version NOT GLOB '*[^0-9]*'",
                          entry, &statement, err);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) == SQLITE_ROW)
        entry->version = arena_printf(arena, "%" PRId64, (int64_t)sqlite3_column_int64(statement, 0));
    else
        r = db_fail(&registry->db, err);
    sqlite3_finalize(statement);
    return r;
}

static int publish_insert(struct registry *registry, struct registry_entry *entry, struct err *err) {
    sqlite3_stmt *statement;
    int r = publish_room(registry, entry, err);
    if (r == 0)
        r = entry_prepare(
            registry,
            "INSERT INTO entry (type, name, description, author, tags, version, sharing, sha256, bytes,"
            " files, created_ms, updated_ms) VALUES (:type, :name, :description, :author, :tags, :version,"
            " :sharing, :sha256, :bytes, :files, :created, :updated)",
            entry, &statement, err);
    if (r == 0)
        r = db_run(&registry->db, statement, err);
    if (r == 0)
        entry->id = sqlite3_last_insert_rowid(registry->db.handle);
    return r;
}

/* The same content again: only what is said about it changes. */
static int publish_update(struct registry *registry, const struct registry_entry *old, struct registry_entry *entry,
                          struct err *err) {
    sqlite3_stmt *statement;
    entry->id = old->id;
    entry->version = old->version;
    entry->created_ms = old->created_ms;
    int r = entry_prepare(registry,
                          "UPDATE entry SET description = :description, tags = :tags, sharing = :sharing,"
                          " updated_ms = :updated WHERE id = :id",
                          entry, &statement, err);
    return r < 0 ? r : db_run(&registry->db, statement, err);
}

static int publish_row_locked(struct registry *registry, struct registry_entry *entry, struct blob *blob,
                              struct arena *arena, struct err *err) {
    struct registry_entry old;
    sqlite3_stmt *statement;
    bool found = false;
    int r = publish_alone(registry, entry, err);
    if (r == 0)
        r = entry_prepare(registry,
                          "SELECT " COLUMNS " FROM entry WHERE type = :type AND name = :name AND author = :author AND"
                          " (:version IS NULL OR version = :version) ORDER BY id DESC LIMIT 1",
                          entry, &statement, err);
    if (r == 0)
        r = entry_first(registry, statement, arena, &old, &found, err);
    if (r == 0)
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
    sqlite3_stmt *statement = NULL;
    bool any = false;
    int r = entry_find(registry, asker, type, name, arena, &found, &any, err);
    if (r == 0 && !any)
        r = entry_missing(type, entry, err);
    if (r == 0 && !asker->admin && strcmp(found.author, asker->user) != 0)
        r = err_set(err, ERR_DENIED, "%s '%s' is of '%s': only he or an admin can unpublish it", found.type, found.name,
                    found.author);
    bool one = name->id || name->version;
    if (r == 0)
        r = entry_prepare(registry,
                          one ? "DELETE FROM entry WHERE id = :id"
                              : "DELETE FROM entry WHERE type = :type AND name = :name AND author = :author",
                          &found, &statement, err);
    return r < 0 ? r : db_run(&registry->db, statement, err);
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
    " FROM entry AS e WHERE " VISIBLE " AND (:type IS NULL OR type = :type) AND (NOT :mine OR author = :user)"         \
    " AND (:text IS NULL OR instr(lower(name), lower(:text)) OR instr(lower(description), lower(:text))"               \
    " OR instr(lower(tags), lower(:text)))"                                                                            \
    " AND (:versions OR NOT EXISTS (SELECT 1 FROM entry AS n WHERE n.type = e.type AND n.name = e.name AND"            \
    " n.author = e.author AND n.id > e.id AND (n.sharing = 'public' OR n.author = :user OR :admin)))"

static int search_prepare(struct registry *registry, const char *sql, const struct registry_asker *asker,
                          const struct registry_query *query, sqlite3_stmt **ret_statement, struct err *err) {
    int r = db_prepare(&registry->db, sql, ret_statement, err);
    if (r < 0)
        return r;
    bind_asker(*ret_statement, asker);
    bind_text(*ret_statement, ":type", query->type);
    bind_text(*ret_statement, ":text", query->text && *query->text ? query->text : NULL);
    bind_number(*ret_statement, ":mine", query->mine);
    bind_number(*ret_statement, ":versions", query->versions);
    bind_number(*ret_statement, ":limit", query->limit);
    bind_number(*ret_statement, ":offset", query->offset);
    return 0;
}

static int search_total(struct registry *registry, const struct registry_asker *asker,
                        const struct registry_query *query, uint64_t *ret_total, struct err *err) {
    sqlite3_stmt *statement;
    int r = search_prepare(registry, "SELECT count(*)" SEARCHED, asker, query, &statement, err);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_total = (uint64_t)sqlite3_column_int64(statement, 0);
    else
        r = db_fail(&registry->db, err);
    sqlite3_finalize(statement);
    return r;
}

/* The rows are gathered first: who takes them may be slow, and the connection is everybody's. */
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err) {
    struct registry *registry;
    sqlite3_stmt *statement = NULL;
    uint64_t total = 0;
    autoarena arena = ARENA_EMPTY;
    unsigned limit = query->limit && query->limit < LIMIT_REGISTRY_ROWS ? query->limit : LIMIT_REGISTRY_ROWS, count = 0;
    struct registry_entry *rows = arena_alloc(&arena, limit * sizeof *rows);
    int r = registry_take(skills, &registry, err), code = SQLITE_DONE;
    if (r < 0)
        return r;
    r = search_total(registry, asker, query, &total, err);
    if (r == 0)
        r = search_prepare(registry,
                           "SELECT " COLUMNS SEARCHED " ORDER BY updated_ms DESC, id DESC LIMIT :limit OFFSET :offset",
                           asker, query, &statement, err);
    while (r == 0 && count < limit && (code = sqlite3_step(statement)) == SQLITE_ROW)
        rows[count++] = entry_row(statement, &arena);
    if (r == 0 && code != SQLITE_DONE && code != SQLITE_ROW)
        r = db_fail(&registry->db, err);
    sqlite3_finalize(statement);
    registry_give(registry);
    for (unsigned i = 0; r == 0 && i < count; i++)
        r = each(user, &rows[i]);
    if (r == 0)
        *ret_total = total;
    return r;
}
