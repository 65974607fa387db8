/* The list of a directory. Called through aio_file_routes.
 * Invariant: what could not be looked at is a failure, never an empty list; and every list says when it is not whole. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/mem.h"
#include "front/aio/file.h"

#define LIST_MOST 10000u /* entries of one answer, as its server has it */

/* ---- list ---- */

struct list_args {
    struct row_text path, sort_by;
    bool recursive, show_hidden, include_size, include_permissions, sort_desc;
    const char *const *file_types;
    struct row_number max_depth;
};

const struct row aio_list_fields[] = {
    AIO_PATH_ROW("path", list_args, path, "absolute path of a directory"),
    {AIO_ROW("recursive", BOOL, list_args, recursive), .text = "with all that is below"},
    {AIO_ROW("show_hidden", BOOL, list_args, show_hidden), .text = "names that begin with a dot, too; default true"},
    {AIO_ROW("file_types", TEXTS, list_args, file_types), .max = 256,
     .text = "of files only those with one of these extensions, e.g. .py"},
    {AIO_ROW("max_depth", INT, list_args, max_depth), .min = 1, .max = LIMIT_LIST_DEPTH,
     .text = "how deep recursive goes; default: to the end"},
    {AIO_ROW("include_size", BOOL, list_args, include_size), .text = "sizes of files; default true"},
    {AIO_ROW("include_permissions", BOOL, list_args, include_permissions), .text = "as in rwxr-xr-x"},
    {AIO_ROW("sort_by", TEXT, list_args, sort_by), .choices = "name|size|modified|type", .text = "default name"},
    {AIO_ROW("sort_desc", BOOL, list_args, sort_desc), .text = "the other way round"},
    {0},
};

struct entry {
    const char *name, *path;
    uint64_t size, mtime_ns;
    uint32_t mode;
    bool dir;
};

struct list {
    const struct list_args *args;
    struct http_request *request;
    struct entry *entries;
    size_t count, room;
    bool more;
    struct err *err;
};

static const char *extension(const struct entry *entry) {
    const char *dot = strrchr(entry->name, '.');
    return !entry->dir && dot && dot != entry->name ? dot : "";
}

static bool list_wants(const struct list_args *args, const struct entry *entry) {
    if (!args->show_hidden && entry->name[0] == '.')
        return false;
    if (!args->file_types || !args->file_types[0] || entry->dir)
        return true;
    const char *have = extension(entry);
    for (const char *const *type = args->file_types; *type; type++)
        if (!strcasecmp(have + (*have == '.' && **type != '.'), *type))
            return true;
    return false;
}

static int list_each(void *user, const struct file_stat *stat) {
    struct list *list = user;
    struct entry entry = {stat->name, stat->path, stat->size, stat->mtime_ns, stat->mode, stat->type == FILE_DIR};
    if (!list_wants(list->args, &entry))
        return 0;
    if (list->count == LIST_MOST) {
        list->more = true;
        return -ERR_LIMIT;
    }
    struct arena *arena = http_arena(list->request);
    size_t bytes = sizeof entry + strlen(entry.name) + strlen(entry.path) + 2;
    int failed = http_hold(list->request, bytes, list->err);
    if (failed)
        return failed;
    entry.path = arena_strdup(arena, stat->path);
    const char *slash = strrchr(entry.path, '/');
    entry.name = slash ? slash + 1 : entry.path;
    vec_add(list->entries, list->count, list->room) = entry;
    return 0;
}

static int three_way(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int list_compare(const void *left, const void *right, void *user) {
    const struct list_args *args = user;
    const struct entry *a = left, *b = right;
    const char *by = args->sort_by.data ? args->sort_by.data : "name";
    int order = 0;
    if (!strcmp(by, "size"))
        order = three_way(a->size, b->size);
    else if (!strcmp(by, "modified"))
        order = three_way(a->mtime_ns, b->mtime_ns);
    else if (!strcmp(by, "type"))
        order = a->dir != b->dir ? (int)b->dir - (int)a->dir : strcmp(extension(a), extension(b));
    order = order ? order : strcmp(a->name, b->name);
    order = order ? order : strcmp(a->path, b->path);
    return args->sort_desc ? -order : order;
}

static void permissions(uint32_t mode, char text[10]) {
    for (unsigned i = 0; i < 9; i++)
        text[i] = mode & (0400u >> i) ? "rwx"[i % 3] : '-';
    text[9] = 0;
}

static void entry_json(struct answer *answer, const struct list_args *args, const struct entry *entry) {
    char mode[10];
    permissions(entry->mode, mode);
    aio_object(answer, AIO_MEMBERS(AIO_STR("name", entry->name), AIO_STR("path", entry->path),
                                   AIO_BOOL("is_directory", entry->dir),
                                   AIO_INT_IF(args->include_size && !entry->dir, "size", entry->size),
                                   AIO_TIME("modified_time", entry->mtime_ns / 1000000),
                                   AIO_STR("permissions", args->include_permissions ? mode : NULL),
                                   AIO_STR("extension", *extension(entry) ? extension(entry) : NULL)));
}

static int list_answer(struct list *list, struct err *err) {
    size_t dirs = 0;
    autoanswer answer;
    aio_open(&answer, list->request,
             list->more ? "There is more: the list is cut off, narrow the path" : "Directory listed successfully");
    json_open(&answer.json, '{');
    json_put_str(&answer.json, "path", list->args->path.data);
    json_put_open(&answer.json, "files", '[');
    for (size_t i = 0; i < list->count && !answer.failed; i++) {
        entry_json(&answer, list->args, &list->entries[i]);
        dirs += list->entries[i].dir;
    }
    json_close(&answer.json, ']');
    aio_put(&answer, AIO_MEMBERS(AIO_INT("total_count", list->count), AIO_INT("directory_count", dirs),
                                 AIO_INT("file_count", list->count - dirs), AIO_BOOL("truncated", list->more)));
    json_close(&answer.json, '}');
    return aio_close(&answer, 0, err);
}

/* Hidden directories are told or not, but not entered where hidden names are not wanted. */
static int list_run(struct list *list, struct box *box, const char *path, struct err *err) {
    const struct list_args *args = list->args;
    bool truncated = false;
    const struct list_request request = {.path = path,
                                         .depth = !args->recursive      ? 1
                                                  : args->max_depth.has ? (unsigned)args->max_depth.value
                                                                        : LIMIT_LIST_DEPTH,
                                         .limit = LIMIT_LIST_LIMIT,
                                         .ignore = args->show_hidden ? NULL : ".*",
                                         .follow = true};
    int failed = box_list(box, &request, http_fd(list->request), list_each, list, &truncated, err);
    if (failed && !list->more)
        return failed;
    list->more |= truncated;
    if (list->count)
        qsort_r(list->entries, list->count, sizeof *list->entries, list_compare, (void *)args);
    return 0;
}

int aio_file_list(struct http_request *request, struct box *box, struct err *err) {
    struct list_args args = {.show_hidden = true, .include_size = true};
    struct list list = {.args = &args, .request = request, .err = err};
    int failed = detail_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = aio_path(request, box, &args.path, false, err);
    failed = path ? list_run(&list, box, path, err) : -err->code;
    failed =
        failed ? aio_file_fail(request, "Failed to list path", "list", args.path.data, err) : list_answer(&list, err);
    free(list.entries);
    return failed;
}
