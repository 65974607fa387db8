/* Which MCP servers run, and which may. Called by served.c and the endpoints.
 *
 * Rules:
 * 1. A place belongs to one server (by name) in one box. It outlives the process, so that a server that keeps dying is
 *    restarted at growing intervals. It is freed with the box, or when the server is removed.
 * 2. `lock` guards the places and everything in them; it is never held while a box works. `turn` of a place is held
 *    while its process is checked or started, by a thread with a reference to the place.
 * 3. A process runs the configuration that it was started with. If that has changed, the process is stopped. */
#include <jansson.h>
#include <poll.h>

#include "base/base.h"
#include "tool/servers/servers.h"
#include "base/json.h"
#include "base/sync.h"
#include "store/db.h"

struct servers_place {
    struct servers_place *next;
    char box[17], name[LIMIT_SERVER_NAME_BYTES + 1];
    char *user;
    pthread_mutex_t turn;
    /* under the lock of `struct servers` */
    unsigned refs;
    bool gone; /* it was removed from the list */
    struct server *server;
    char *text; /* the spec that it was started with */
    unsigned failures;
    uint64_t starts, retry_ms;
    char why[400];
};

/* ---- the file of users' MCP servers ---- */

/* Nothing is cached, so that changes by another daemon on the same directory are visible at once. */
struct servers_file {
    char *directory, *path; /* NULL: nothing is stored */
    pthread_mutex_t lock;   /* guards db */
    struct db db;           /* zeroed: not opened */
};

static const struct db_kind servers_kind = {
    .name = "servers.db",
    .what = "MCP servers",
    .application = 0x6375626d, /* "cubm" */
    .version = 1,
    .schema = "CREATE TABLE server (user TEXT NOT NULL, name TEXT NOT NULL, spec TEXT NOT NULL,"
              " PRIMARY KEY (user, name)) WITHOUT ROWID;",
    .pragmas = "PRAGMA synchronous=FULL;PRAGMA secure_delete=ON",
    .closed = true,
};

/* Returns 1 if there is no file and `make` is false. */
static int servers_file_ready_locked(struct servers_file *file, bool make, struct err *err) {
    if (!make && access(file->path, F_OK) < 0)
        return 1;
    int code = db_ready(&file->db, &servers_kind, file->directory, err);
    return code < 0 ? code : 0;
}

static int servers_rows_read_locked(struct servers_file *file, const char *user, const char *name, struct arena *arena,
                                    struct servers_row *rows, size_t *ret_count, struct err *err) {
    autoquery query;
    size_t count = 0;
    int code = db_query(&file->db, &query, err,
                        "SELECT name, spec FROM server WHERE user = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name",
                        "tt", user, name);
    while (code >= 0 && count < LIMIT_SERVERS_PER_USER && (code = query_next(&query, err)) > 0)
        rows[count++] = (struct servers_row){
            .user = user,
            .name = arena_strdup(arena, query_text(&query, 0)),
            .text = arena_strdup(arena, query_text(&query, 1)),
        };
    *ret_count = count;
    return code < 0 ? code : 0;
}

static int servers_file_put(struct servers_file *file, const char *user, const char *name, const char *text,
                            bool *ret_created, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct servers_row *rows = arena_alloc(&arena, LIMIT_SERVERS_PER_USER * sizeof *rows);
    size_t count = 0;
    bool known = false;
    pthread_mutex_lock(&file->lock);
    int code = servers_file_ready_locked(file, true, err);
    bool begun = code == 0 && (code = db_begin(&file->db, err)) == 0;
    if (code == 0)
        code = servers_rows_read_locked(file, user, NULL, &arena, rows, &count, err);
    for (size_t i = 0; i < count; i++)
        known |= strcmp(rows[i].name, name) == 0;
    if (code == 0 && !known && count >= LIMIT_SERVERS_PER_USER)
        code = err_set(err, ERR_LIMIT, "a user has at most %u MCP servers; remove one first", LIMIT_SERVERS_PER_USER);
    if (code == 0)
        code = db_do(&file->db, err, "INSERT OR REPLACE INTO server (user, name, spec) VALUES (?, ?, ?)", "ttt", user,
                     name, text);
    if (begun)
        code = db_end(&file->db, code, err);
    pthread_mutex_unlock(&file->lock);
    if (code == 0)
        *ret_created = !known;
    return code;
}

/* ---- all servers ---- */

struct servers {
    struct servers_file file;
    pthread_mutex_t lock;
    struct servers_place *places;
    unsigned count;
    struct arena arena;       /* holds rows */
    struct servers_row *rows; /* from the configuration file */
    size_t row_count;
};

struct servers *servers_new(const char *directory) {
    struct servers *servers = xcalloc(1, sizeof *servers);
    pthread_mutex_init(&servers->lock, NULL);
    pthread_mutex_init(&servers->file.lock, NULL);
    if (directory) {
        servers->file.directory = xstrdup(directory);
        servers->file.path = xasprintf("%s/%s", directory, servers_kind.name);
    }
    return servers;
}

/* ---- what is configured ---- */

void servers_configure(struct servers *servers, const struct servers_row *rows, size_t count) {
    autoarena arena = ARENA_EMPTY; /* gets the old rows, freed at the end */
    struct servers_row *copy = arena_alloc(&arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = (struct servers_row){.user = rows[i].user ? arena_strdup(&arena, rows[i].user) : NULL,
                                       .name = rows[i].name ? arena_strdup(&arena, rows[i].name) : NULL,
                                       .text = rows[i].text ? arena_strdup(&arena, rows[i].text) : NULL};
    autolock(&servers->lock);
    struct arena before = servers->arena;
    servers->arena = arena;
    arena = before;
    servers->rows = copy;
    servers->row_count = count;
}

static int servers_spec_parse(const struct servers_row *row, bool configured, struct arena *arena,
                              struct server_spec *ret_spec, struct err *err) {
    json_t *body = NULL;
    int code =
        rows_load(row->text, strlen(row->text), &body, err) ?: server_spec_take(body, row->name, arena, ret_spec, err);
    if (code == 0)
        ret_spec->configured = configured;
    json_decref(body);
    return code < 0 ? err_wrap(err, "MCP server '%s'", row->name) : 0;
}

/* Finds rows of the configuration that apply to this user; in the arena. */
static size_t servers_rows_configured(struct servers *servers, const char *user, struct arena *arena,
                                      struct servers_row **ret_rows) {
    size_t count = 0;
    bool own = false;
    pthread_mutex_lock(&servers->lock);
    struct servers_row *rows = arena_alloc(arena, (servers->row_count + 1) * sizeof *rows);
    for (size_t i = 0; i < servers->row_count; i++)
        own |= servers->rows[i].user && strcmp(servers->rows[i].user, user) == 0;
    for (size_t i = 0; i < servers->row_count; i++) {
        const struct servers_row *row = &servers->rows[i];
        bool mine = own ? row->user && strcmp(row->user, user) == 0 : !row->user;
        if (mine && row->name)
            rows[count++] =
                (struct servers_row){.name = arena_strdup(arena, row->name), .text = arena_strdup(arena, row->text)};
    }
    pthread_mutex_unlock(&servers->lock);
    *ret_rows = rows;
    return count;
}

static int servers_spec_order(const void *left, const void *right) {
    return strcmp(((const struct server_spec *)left)->name, ((const struct server_spec *)right)->name);
}

/* name NULL: all servers. */
static int servers_specs_find(struct servers *servers, const char *user, const char *name, struct arena *arena,
                              struct server_spec **ret_specs, size_t *ret_count, struct err *err) {
    struct servers_row *configured, *stored = NULL;
    size_t configured_count = servers_rows_configured(servers, user, arena, &configured), stored_count = 0, count = 0;
    int code = 0;
    if (servers->file.path) {
        stored = arena_alloc(arena, LIMIT_SERVERS_PER_USER * sizeof *stored);
        autolock(&servers->file.lock);
        code = servers_file_ready_locked(&servers->file, false, err)
                   ?: servers_rows_read_locked(&servers->file, user, name, arena, stored, &stored_count, err);
        code = code < 0 ? code : 0;
    }
    struct server_spec *specs = arena_alloc(arena, (configured_count + stored_count + 1) * sizeof *specs);
    for (size_t i = 0; i < configured_count && code == 0; i++)
        if (!name || strcmp(configured[i].name, name) == 0)
            code = servers_spec_parse(&configured[i], true, arena, &specs[count++], err);
    size_t first = count;
    for (size_t i = 0; i < stored_count && code == 0; i++) {
        bool hidden = false;
        for (size_t k = 0; k < first; k++)
            hidden |= strcmp(specs[k].name, stored[i].name) == 0;
        if (!hidden)
            code = servers_spec_parse(&stored[i], false, arena, &specs[count++], err);
    }
    if (code < 0)
        return code;
    qsort(specs, count, sizeof *specs, servers_spec_order);
    *ret_specs = specs;
    *ret_count = count;
    return 0;
}

int servers_specs(struct servers *servers, const char *user, struct arena *arena, struct server_spec **ret_specs,
                  size_t *ret_count, struct err *err) {
    return servers_specs_find(servers, user, NULL, arena, ret_specs, ret_count, err);
}

int servers_spec(struct servers *servers, const char *user, const char *name, struct arena *arena,
                 struct server_spec *ret_spec, struct err *err) {
    struct server_spec *specs;
    size_t count = 0;
    TRY(servers_specs_find(servers, user, name, arena, &specs, &count, err));
    if (!count)
        return err_set(err, ERR_NOT_FOUND, "no MCP server '%.64s'", name);
    *ret_spec = specs[0];
    return 0;
}

static bool servers_is_configured(struct servers *servers, const char *user, const char *name) {
    autoarena arena = ARENA_EMPTY;
    struct servers_row *rows;
    size_t count = servers_rows_configured(servers, user, &arena, &rows);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

int servers_put(struct servers *servers, const char *user, const struct server_spec *spec, bool *ret_created,
                struct err *err) {
    if (servers_is_configured(servers, user, spec->name))
        return err_set(err, ERR_EXISTS, "the MCP server '%s' is in the configuration; choose another name", spec->name);
    if (!servers->file.path)
        return err_set(err, ERR_UNSUPPORTED, "MCP servers cannot be stored here; use --servers FILE");
    return servers_file_put(&servers->file, user, spec->name, spec->text, ret_created, err);
}

/* ---- places ---- */

static void servers_place_unref(struct servers *servers, struct servers_place *place) {
    pthread_mutex_lock(&servers->lock);
    bool last = --place->refs == 0;
    pthread_mutex_unlock(&servers->lock);
    if (!last)
        return;
    server_unref(place->server);
    pthread_mutex_destroy(&place->turn);
    free(place->text);
    free(place->user);
    free(place);
}

/* Removes matching places from the list and returns them, for places_drop. NULL matches any. */
static struct servers_place *servers_places_take(struct servers *servers, const char *box, const char *user,
                                                 const char *name) {
    struct servers_place *taken = NULL;
    autolock(&servers->lock);
    for (struct servers_place **at = &servers->places; *at;) {
        struct servers_place *place = *at;
        if ((box && strcmp(place->box, box) != 0) || (user && strcmp(place->user, user) != 0) ||
            (name && strcmp(place->name, name) != 0)) {
            at = &place->next;
            continue;
        }
        *at = place->next;
        place->gone = true;
        place->next = taken;
        taken = place;
        servers->count--;
    }
    return taken;
}

static void servers_places_drop(struct servers *servers, struct servers_place *taken, const char *why) {
    for (struct servers_place *place = taken, *next; place; place = next) {
        next = place->next;
        pthread_mutex_lock(&servers->lock);
        struct server *server = place->server ? server_ref(place->server) : NULL;
        pthread_mutex_unlock(&servers->lock);
        if (server)
            server_end(server, why);
        server_unref(server);
        servers_place_unref(servers, place);
    }
}

int servers_remove(struct servers *servers, const char *user, const char *name, struct err *err) {
    if (servers_is_configured(servers, user, name))
        return err_set(err, ERR_DENIED, "the MCP server '%.64s' is in the configuration; remove it there", name);
    int code = 1, changed = 0;
    if (servers->file.path) {
        autolock(&servers->file.lock);
        struct db *db = &servers->file.db;
        code = servers_file_ready_locked(&servers->file, false, err)
                   ?: db_do(db, err, "DELETE FROM server WHERE user = ? AND name = ?", "tt", user, name);
        changed = code == 0 ? sqlite3_changes(db->handle) : 0;
    }
    if (code >= 0 && !changed)
        return err_set(err, ERR_NOT_FOUND, "no MCP server '%.64s'", name);
    if (code == 0)
        servers_places_drop(servers, servers_places_take(servers, NULL, user, name), "it was removed");
    return code;
}

void servers_box_ended(struct servers *servers, const char *box) {
    if (servers && box)
        servers_places_drop(servers, servers_places_take(servers, box, NULL, NULL), "its box ended");
}

void servers_stop(struct servers *servers) {
    if (servers)
        servers_places_drop(servers, servers_places_take(servers, NULL, NULL, NULL), "cubby is stopping");
}

void servers_free(struct servers *servers) {
    if (!servers)
        return;
    servers_stop(servers);
    arena_done(&servers->arena);
    db_close(&servers->file.db);
    pthread_mutex_destroy(&servers->file.lock);
    free(servers->file.path);
    free(servers->file.directory);
    pthread_mutex_destroy(&servers->lock);
    free(servers);
}

/* Returns a place with a reference. */
static int servers_place_take(struct servers *servers, const struct box *box, const char *name,
                              struct servers_place **ret_place, struct err *err) {
    pthread_mutex_lock(&servers->lock);
    bool full = servers->count >= LIMIT_SERVERS_RUNNING;
    pthread_mutex_unlock(&servers->lock);
    if (full) {
        /* Boxes that died without an event, including those of another daemon, leave unused places. */
        struct servers_place *dead = NULL;
        pthread_mutex_lock(&servers->lock);
        for (struct servers_place **at = &servers->places; *at;) {
            struct servers_place *place = *at;
            bool over = place->refs == 1 && (!place->server || !server_box_alive(place->server));
            if (!over) {
                at = &place->next;
                continue;
            }
            *at = place->next;
            place->next = dead;
            dead = place;
            servers->count--;
        }
        pthread_mutex_unlock(&servers->lock);
        servers_places_drop(servers, dead, "its box ended");
    }
    pthread_mutex_lock(&servers->lock);
    struct servers_place *place =
        list_find(servers->places, at, strcmp(at->box, box->id) == 0 && strcmp(at->name, name) == 0);
    if (!place && servers->count < LIMIT_SERVERS_RUNNING) {
        place = xcalloc(1, sizeof *place);
        place->user = xstrdup(box->user);
        memcpy(place->box, box->id, sizeof place->box);
        snprintf(place->name, sizeof place->name, "%s", name);
        pthread_mutex_init(&place->turn, NULL);
        place->refs = 1;

        place->next = servers->places;
        servers->places = place;
        servers->count++;
    }
    if (place)
        place->refs++;
    pthread_mutex_unlock(&servers->lock);
    if (!place)
        return err_set(err, ERR_LIMIT, "%u MCP servers are running, which is the limit; remove or disable one",
                       LIMIT_SERVERS_RUNNING);
    *ret_place = place;
    return 0;
}

/* ---- starting ---- */

static void servers_place_failed_locked(struct servers_place *place, uint64_t lived_ms, const char *why) {
    uint64_t delay_ms = SERVER_BACK_OFF_MS;
    place->failures = lived_ms >= SERVER_STEADY_MS ? 0 : place->failures + 1;
    for (unsigned i = 1; i < place->failures && delay_ms < SERVER_BACK_OFF_MOST_MS; i++)
        delay_ms *= 2;
    delay_ms = delay_ms > SERVER_BACK_OFF_MOST_MS ? SERVER_BACK_OFF_MOST_MS : delay_ms;
    place->retry_ms = clock_ms() + (place->failures ? delay_ms : 0);
    snprintf(place->why, sizeof place->why, "%.390s", why);
}

/* Returns the running server, if it is alive and matches the configuration. Called in the place's turn. */
static struct server *place_server(struct servers *servers, struct servers_place *place,
                                   const struct server_spec *spec) {
    struct err err;
    pthread_mutex_lock(&servers->lock);
    struct server *server = place->server ? server_ref(place->server) : NULL;
    bool changed = server && strcmp(place->text, spec->text) != 0;
    pthread_mutex_unlock(&servers->lock);
    if (!server)
        return NULL;
    if (changed)
        server_end(server, "it was reconfigured");
    if (server_look(server, &err))
        return server;
    bool boxless = !server_box_alive(server); /* the server is not to blame */
    pthread_mutex_lock(&servers->lock);
    place->server = NULL;
    if (changed || boxless)
        place->failures = 0, place->retry_ms = 0, place->why[0] = 0;
    else
        servers_place_failed_locked(place, clock_ms() - server_started_ms(server), err.text);
    pthread_mutex_unlock(&servers->lock);
    server_unref(server); /* the place's reference */
    server_unref(server);
    return NULL;
}

static int servers_place_start(struct servers *servers, struct servers_place *place, struct box *box,
                               const struct server_spec *spec, const char *const *drops, struct server **ret_server,
                               struct err *err) {
    struct server *server = NULL;
    char *text = xstrdup(spec->text);
    int code = server_start(box, spec, drops, &server, err);
    pthread_mutex_lock(&servers->lock);
    if (code == 0) {
        place->server = server_ref(server);
        place->starts++;
        free(place->text);
        place->text = text;
        text = NULL;
    } else {
        servers_place_failed_locked(place, 0, err->text);
    }
    bool gone = place->gone;
    pthread_mutex_unlock(&servers->lock);
    free(text);
    if (gone && server)
        server_end(server, "it was removed");
    if (code == 0)
        *ret_server = server;
    return code;
}

/* Returns 0 with *ret_server, or 1 if it may not start before *ret_left_ms. */
static int servers_place_turn(struct servers *servers, struct servers_place *place, struct box *box,
                              const struct server_spec *spec, const char *const *drops, struct server **ret_server,
                              uint64_t *ret_left_ms, struct err *err) {
    int code = 0;
    pthread_mutex_lock(&place->turn);
    struct server *server = place_server(servers, place, spec);
    pthread_mutex_lock(&servers->lock);
    uint64_t now_ms = clock_ms(), left_ms = place->retry_ms > now_ms ? place->retry_ms - now_ms : 0;
    if (!server && left_ms)
        code = 1, err_set(err, ERR_BUSY, "it ended (%.300s); it will be restarted in %llu s", place->why,
                          (unsigned long long)(left_ms + 999) / 1000);
    pthread_mutex_unlock(&servers->lock);
    if (!server && code == 0)
        code = servers_place_start(servers, place, box, spec, drops, &server, err);
    pthread_mutex_unlock(&place->turn);
    *ret_left_ms = left_ms;
    if (code == 0)
        *ret_server = server;
    return code;
}

int servers_get(struct servers *servers, struct box *box, const struct server_spec *spec, const char *const *drops,
                const struct server_wait *wait, struct server **ret_server, struct err *err) {
    struct servers_place *place = NULL;
    uint64_t left_ms = 0;
    int code = servers_place_take(servers, box, spec->name, &place, err);
    if (code < 0)
        return code;
    while ((code = servers_place_turn(servers, place, box, spec, drops, ret_server, &left_ms, err)) == 1) {
        struct pollfd look = {.fd = wait->watch, .events = POLLRDHUP};
        if (left_ms > SERVER_PATIENCE_MS || clock_ms() + left_ms > wait->deadline_ms)
            code = -ERR_BUSY;
        else if (poll(&look, wait->watch >= 0, (int)left_ms) > 0)
            code = err_set(err, ERR_GONE, "the client went away");
        if (code < 0)
            break;
    }
    servers_place_unref(servers, place);
    return code;
}

void servers_running_json(struct servers *servers, const char *user, const struct server_spec *spec,
                          struct json *json) {

    /* Checks each process first, so that one that has died is reported as such. */
    struct servers_place *found[64];
    size_t count = 0;
    pthread_mutex_lock(&servers->lock);
    for (struct servers_place *place = servers->places; place && count < sizeof found / sizeof *found;
         place = place->next)
        if (strcmp(place->user, user) == 0 && strcmp(place->name, spec->name) == 0) {
            place->refs++;
            found[count++] = place;
        }
    pthread_mutex_unlock(&servers->lock);
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&found[i]->turn);
        server_unref(place_server(servers, found[i], spec));
        pthread_mutex_unlock(&found[i]->turn);
        servers_place_unref(servers, found[i]);
    }
    json_open(json, '[');
    pthread_mutex_lock(&servers->lock);
    for (struct servers_place *place = servers->places; place; place = place->next)
        if (strcmp(place->user, user) == 0 && strcmp(place->name, spec->name) == 0) {
            uint64_t now_ms = clock_ms();
            struct server_tools *tools = place->server ? server_tools(place->server) : NULL;
            const char *state = !place->server ? "ended" : server_ready(place->server) ? "ready" : "starting";
            json_open(json, '{');
            json_put_str(json, "box", place->box);
            json_put_str(json, "state", state);
            json_put_uint(json, "tools", tools ? tools->count : 0);
            json_put_uint(json, "left_out", tools ? tools->left_out : 0);
            json_put_uint(json, "restarts", place->starts ? place->starts - 1 : 0);
            json_put_str(json, "why", place->why[0] ? place->why : NULL);
            json_put_uint(json, "retry_in_ms",
                          !place->server && place->retry_ms > now_ms ? place->retry_ms - now_ms : 0);
            json_close(json, '}');
            server_tools_unref(tools);
        }
    pthread_mutex_unlock(&servers->lock);
    json_close(json, ']');
}
