/* Trees on a machine of the text form: list and glob. One script where its find can tell everything, else directory by
 * directory with what read_dir tells. Called through the table of machine_text_wire.c. Not to break: what the machine lists
 * is bounded, and a name it makes up (with a slash, or none) is left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/text.h"
#include "runner/globmatch.h"

enum { WALK_MOST = 3 << 20, ENTRIES_MAX = 200000 };

struct entry {
    const char *path, *target; /* path: below the directory */
    struct text_file file;
};

struct walk {
    struct text_call *call;
    const char *root;
    unsigned depth;
    struct glob_names ignore;
    bool has_ignore, keep_ignored; /* keep: a directory that is not entered is told */
    uint64_t deadline_ms;
    struct entry *entries;
    size_t count, room;
    bool truncated, timed_out;
};

/* $1 directory, $2 depth, then names not to enter. */
static const char find_script[] =
    "p=$1; m=$2; shift 2\n"
    "[ -e \"$p\" ] || { echo \"no directory '$p'\" >&2; exit 10; }\n"
    "[ -d \"$p\" ] || { echo \"'$p' is not a directory\" >&2; exit 12; }\n"
    "find \"$p\" -maxdepth 0 -printf '' 2>/dev/null || { echo 'find has no -printf' >&2; exit 15; }\n"
    "case $p in */) ;; *) p=$p/ ;; esac\n"
    "n=$#; while [ $n -gt 0 ]; do w=$1; shift; set -- \"$@\" -name \"$w\" -o; n=$((n-1)); done\n"
    "find \"$p\" -mindepth 1 -maxdepth $m \\( -type d \\( \"$@\" -false \\) -prune -o -true \\) "
    "-printf '%y %s %m %T@ %U %G %i %P\\000%l\\000' 2>/dev/null | head -c 3145728";

static void entry_add(struct walk *walk, const struct entry *entry) {
    if (walk->count >= ENTRIES_MAX) {
        walk->truncated = true;
        return;
    }
    if (walk->count == walk->room) {
        walk->room = walk->room ? walk->room * 2 : 256;
        walk->entries = realloc(walk->entries, walk->room * sizeof *walk->entries);
        if (!walk->entries)
            abort();
    }
    walk->entries[walk->count++] = *entry;
}

/* ---- by find ---- */

/* "TYPE SIZE MODE MTIME UID GID INODE PATH" */
static bool entry_parse(struct walk *walk, char *text, const char *target, struct entry *ret_entry) {
    static const char types[] = " fdl";
    char *part[8] = {text};
    for (int i = 1; i < 8; i++) {
        char *blank = strchr(part[i - 1], ' ');
        if (!blank)
            return false;
        *blank = '\0';
        part[i] = blank + 1;
    }
    uint64_t size, seconds, uid, gid, inode;
    part[3][strcspn(part[3], ".")] = '\0'; /* whole seconds, as stat tells them */
    if (!text_u64(part[1], INT64_MAX, &size) || !text_u64(part[4], UINT32_MAX, &uid) ||
        !text_u64(part[5], UINT32_MAX, &gid) || !text_u64(part[6], UINT64_MAX / 2, &inode) || !*part[7] ||
        strlen(part[7]) > LIMIT_PATH_BYTES)
        return false;
    if (!text_u64(part[3], UINT32_MAX * 4ull, &seconds))
        seconds = 0; /* before the epoch */
    const char *type = strchr(types, *part[0]);
    *ret_entry = (struct entry){
        .path = arena_strdup(&walk->call->arena, part[7]),
        .target = *target ? arena_strdup(&walk->call->arena, target) : NULL,
        .file = {.type = type && *part[0] ? (enum file_type)(type - types) : FILE_OTHER,
                 .size = size,
                 .mode = (uint32_t)strtoul(part[2], NULL, 8) & 07777,
                 .mtime_ns = seconds * 1000000000u,
                 .uid = (uint32_t)uid,
                 .gid = (uint32_t)gid,
                 .inode = inode},
    };
    return true;
}

static void find_parse(struct walk *walk, struct buf *out) {
    walk->truncated = out->len >= WALK_MOST;
    char *text = buf_cstr(out);
    for (size_t at = 0; text && at < out->len;) {
        char *first = text + at;
        size_t len = strlen(first);
        char *second = at + len + 1 < out->len ? first + len + 1 : NULL;
        if (!second || at + len + 1 + strlen(second) >= out->len)
            break; /* cut off */
        at += len + 1 + strlen(second) + 1;
        struct entry entry;
        if (entry_parse(walk, first, second, &entry))
            entry_add(walk, &entry);
    }
}

size_t text_ignore_words(struct text_call *call, const char *pattern, const char **words, size_t max) {
    size_t len = strlen(pattern), count = 0;
    bool braces = len > 2 && pattern[0] == '{' && pattern[len - 1] == '}';
    char *list = braces ? arena_copy(&call->arena, pattern + 1, len - 2) : arena_strdup(&call->arena, pattern);
    if (strpbrk(list, "{}\\/"))
        return 0;
    while (list && *list && count < max) {
        char *comma = braces ? strchr(list, ',') : NULL;
        if (comma)
            *comma = '\0';
        if (*list)
            words[count++] = list;
        list = comma ? comma + 1 : NULL;
    }
    return count;
}

static int walk_find(struct walk *walk, struct err *err) {
    enum { WORDS = 128 };
    struct text_call *call = walk->call;
    const char *args[WORDS + 3] = {walk->root, arena_printf(&call->arena, "%u", walk->depth)};
    if (call->args.text[FIELD_IGNORE])
        text_ignore_words(call, call->args.text[FIELD_IGNORE], args + 2, WORDS);
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    uint64_t now_ms = clock_ms();
    uint64_t left_ms = walk->deadline_ms > now_ms ? walk->deadline_ms - now_ms : 1;
    int r = text_script(call->text, call, find_script, args, NULL, left_ms, &out, err);
    if (r == 0)
        find_parse(walk, &out);
    return r;
}

/* ---- by read_dir ---- */

static bool ignored(const struct walk *walk, const char *name) {
    return walk->has_ignore && glob_names_match(&walk->ignore, name, strlen(name));
}

static void read_entry(struct walk *walk, const char *below, json_t *row) {
    const char *name = json_string_value(json_object_get(row, "name"));
    json_int_t size = json_integer_value(json_object_get(row, "size"));
    if (!name || !*name || strchr(name, '/') || strlen(name) > LIMIT_NAME_BYTES || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return;
    struct entry entry = {
        .path =
            *below ? arena_printf(&walk->call->arena, "%s/%s", below, name) : arena_strdup(&walk->call->arena, name),
        .file = {.type = json_is_true(json_object_get(row, "is_dir")) ? FILE_DIR : FILE_REGULAR,
                 .size = size > 0 ? (uint64_t)size : 0},
    };
    if (strlen(entry.path) <= LIMIT_PATH_BYTES)
        entry_add(walk, &entry);
}

static int read_directory(struct walk *walk, const char *below, struct err *err) {
    struct text_call *call = walk->call;
    autobuf members;
    buf_init(&members, LIMIT_PATH_BYTES * 12);
    struct json json;
    json_init(&json, &members);
    json_key(&json, "path");
    json_str(&json, *below ? arena_printf(&call->arena, "%s/%s", walk->root, below) : walk->root);
    struct text_answer answer;
    int r = text_ask(call->text, call, TEXT_READ_DIR, &members, TEXT_ASK_MS, &answer, err);
    if (r < 0)
        return r;
    json_t *rows = json_object_get(answer.body, "entries"), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        read_entry(walk, below, row);
    }
    text_answer_done(call->text, &answer);
    return 0;
}

static unsigned depth_of(const char *path) {
    unsigned depth = 1;
    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

static int walk_read(struct walk *walk, struct err *err) {
    int r = read_directory(walk, "", err);
    for (size_t i = 0; r == 0 && i < walk->count; i++) {
        struct entry entry = walk->entries[i];
        const char *slash = strrchr(entry.path, '/');
        if (entry.file.type != FILE_DIR || depth_of(entry.path) >= walk->depth ||
            ignored(walk, slash ? slash + 1 : entry.path))
            continue;
        if (clock_ms() > walk->deadline_ms) {
            walk->timed_out = true;
            break;
        }
        struct err unheard;
        r = read_directory(walk, entry.path, &unheard);
        if (r == -ERR_GONE)
            *err = unheard;
        else
            r = 0; /* one that cannot be read is left out, as everywhere */
    }
    return r;
}

/* ---- both ---- */

/* A slash comes before every other byte. */
int text_path_compare(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    unsigned char x = (unsigned char)*a, y = (unsigned char)*b;
    return (x == '/' ? 1 : x ? x + 1 : 0) - (y == '/' ? 1 : y ? y + 1 : 0);
}

static int entry_compare(const void *a, const void *b) {
    return text_path_compare(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* Whether it lies below, or is, something to be left out. */
static bool hidden(const struct walk *walk, const char *path) {
    char name[LIMIT_NAME_BYTES + 1];
    for (const char *at = path; walk->has_ignore && *at;) {
        size_t len = strcspn(at, "/");
        bool last = at[len] == '\0';
        if (len <= LIMIT_NAME_BYTES) {
            memcpy(name, at, len);
            name[len] = '\0';
            if (ignored(walk, name) && !(last && walk->keep_ignored))
                return true;
        }
        at += len + !last;
    }
    return false;
}

static int walk_tree(struct walk *walk, struct text_call *call, uint64_t timeout_ms, struct err *err) {
    walk->call = call;
    walk->deadline_ms = clock_ms() + (timeout_ms ? timeout_ms : DEFAULT_WALK_TIMEOUT_MS);
    const char *ignore = call->args.text[FIELD_IGNORE];
    if (ignore && *ignore) {
        const char *why = glob_names_compile(&walk->ignore, ignore, strlen(ignore));
        if (why)
            return err_set(err, ERR_INVALID, "names to ignore '%s': %s", ignore, why);
        walk->has_ignore = true;
    }
    int r = text_path(call, FIELD_PATH, &walk->root, err);
    if (r < 0)
        return r;
    r = walk_find(walk, err);
    if (r == -ERR_TIMEOUT) {
        walk->timed_out = true;
        r = 0;
    }
    if (r == -ERR_UNSUPPORTED)
        r = walk_read(walk, err);
    if (r == 0 && walk->count)
        qsort(walk->entries, walk->count, sizeof *walk->entries, entry_compare);
    return r;
}

static void walk_done(struct walk *walk) {
    free(walk->entries);
    if (walk->has_ignore)
        glob_done(&walk->ignore.glob);
}

/* As the call named the directory, and what is below it. */
static void put_path(struct buf *item, const struct text_call *call, const char *below) {
    const char *given = call->args.text[FIELD_PATH];
    given = given && *given ? given : call->text->workspace;
    autobuf path;
    buf_init(&path, 2 * LIMIT_PATH_BYTES + 2);
    buf_puts(&path, given);
    if (path.data[path.len - 1] != '/')
        buf_byte(&path, '/');
    buf_puts(&path, below);
    field_bytes(item, FIELD_PATH, path.data, path.len);
}

static int list_entries(struct walk *walk, uint64_t limit, struct err *err) {
    uint64_t sent = 0;
    int r = 0;
    for (size_t i = 0; i < walk->count && r == 0; i++) {
        const struct entry *entry = &walk->entries[i];
        if (hidden(walk, entry->path))
            continue;
        if (sent++ == limit) {
            walk->truncated = true;
            break;
        }
        autobuf item;
        buf_init(&item, LIMIT_FRAME_PAYLOAD_BYTES);
        const char *slash = strrchr(entry->path, '/');
        field_text(&item, FIELD_NAME, slash ? slash + 1 : entry->path);
        put_path(&item, walk->call, entry->path);
        text_file_fields(&item, &entry->file);
        if (entry->target)
            field_text(&item, FIELD_TARGET, entry->target);
        r = text_item(walk->call, &item, err);
    }
    return r;
}

int text_op_list(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    uint64_t depth = args->has[FIELD_DEPTH] ? args->number[FIELD_DEPTH] : 1;
    uint64_t limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_LIST_LIMIT;
    if (depth < 1 || depth > LIMIT_LIST_DEPTH)
        return err_set(err, ERR_INVALID, "depth must be 1 to %u", LIMIT_LIST_DEPTH);
    struct walk walk = {.depth = (unsigned)depth, .keep_ignored = true};
    int r = walk_tree(&walk, call, 0, err);
    if (r == 0)
        r = list_entries(&walk, limit, err);
    field_number(&call->end, FIELD_TRUNCATED, walk.truncated || walk.timed_out);
    walk_done(&walk);
    return r;
}

static int glob_entries(struct walk *walk, const struct glob *glob, struct err *err) {
    const struct fields *args = &walk->call->args;
    uint64_t limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_GLOB_LIMIT, sent = 0;
    bool dirs = (args->number[FIELD_FLAGS] & CALL_DIRS) || glob->dirs_only;
    int r = 0;
    for (size_t i = 0; i < walk->count && r == 0; i++) {
        const struct entry *entry = &walk->entries[i];
        bool dir = entry->file.type == FILE_DIR;
        if ((dir ? !dirs : glob->dirs_only) || hidden(walk, entry->path) || !glob_match(glob, entry->path))
            continue;
        if (sent++ == limit) {
            walk->truncated = true;
            break;
        }
        autobuf item;
        buf_init(&item, LIMIT_FRAME_PAYLOAD_BYTES);
        put_path(&item, walk->call, entry->path);
        r = text_item(walk->call, &item, err);
    }
    return r;
}

int text_op_glob(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    if (!args->has[FIELD_PATTERN] || args->len[FIELD_PATTERN] > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    struct glob *glob = arena_alloc(&call->arena, sizeof *glob);
    const char *why = glob_compile(glob, args->text[FIELD_PATTERN], args->len[FIELD_PATTERN]);
    if (why)
        return err_set(err, ERR_INVALID, "pattern '%s': %s", args->text[FIELD_PATTERN], why);
    struct walk *walk = arena_alloc(&call->arena, sizeof *walk);
    walk->depth = LIMIT_LIST_DEPTH;
    int r = walk_tree(walk, call, args->number[FIELD_TIMEOUT_MS], err);
    if (r == 0)
        r = glob_entries(walk, glob, err);
    field_number(&call->end, FIELD_TRUNCATED, walk->truncated);
    field_number(&call->end, FIELD_TIMED_OUT, walk->timed_out);
    walk_done(walk);
    glob_done(glob);
    return r;
}
