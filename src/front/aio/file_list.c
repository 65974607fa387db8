/* Files looked for: a directory's list, names that match a glob, lines of a file. Called through aio_file_routes.
 * Invariant: what could not be looked at is a failure, never an empty list; and every list says when it is not whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
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
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->entries = xrealloc(list->entries, list->room * sizeof *list->entries);
    }
    struct arena *arena = http_arena(list->request);
    size_t bytes = sizeof entry + strlen(entry.name) + strlen(entry.path) + 2;
    int failed = http_hold(list->request, bytes, list->err);
    if (failed)
        return failed;
    entry.path = arena_strdup(arena, stat->path);
    const char *slash = strrchr(entry.path, '/');
    entry.name = slash ? slash + 1 : entry.path;
    list->entries[list->count++] = entry;
    return 0;
}

static int three_way(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int by_name(const struct entry *a, const struct entry *b) {
    int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->path, b->path);
}

static int by_size(const struct entry *a, const struct entry *b) {
    int order = three_way(a->size, b->size);
    return order ? order : by_name(a, b);
}

static int by_modified(const struct entry *a, const struct entry *b) {
    int order = three_way(a->mtime_ns, b->mtime_ns);
    return order ? order : by_name(a, b);
}

static int by_type(const struct entry *a, const struct entry *b) {
    int order = (int)b->dir - (int)a->dir;
    order = order ? order : strcmp(extension(a), extension(b));
    return order ? order : by_name(a, b);
}

static const struct order {
    const char *name;
    int (*compare)(const struct entry *a, const struct entry *b);
} orders[] = {{"name", by_name}, {"size", by_size}, {"modified", by_modified}, {"type", by_type}};

struct sorting {
    const struct order *order;
    bool down;
};

static int list_compare(const void *a, const void *b, void *user) {
    const struct sorting *sorting = user;
    int order = sorting->order->compare(a, b);
    return sorting->down ? -order : order;
}

static void list_sort(struct list *list) {
    const struct list_args *args = list->args;
    struct sorting sorting = {&orders[0], args->sort_desc};
    for (size_t i = 1; args->sort_by.data && i < sizeof orders / sizeof *orders; i++)
        if (!strcmp(args->sort_by.data, orders[i].name))
            sorting.order = &orders[i];
    if (list->count)
        qsort_r(list->entries, list->count, sizeof *list->entries, list_compare, &sorting);
}

static void permissions(uint32_t mode, char text[10]) {
    for (unsigned i = 0; i < 9; i++)
        text[i] = mode & (0400u >> i) ? "rwx"[i % 3] : '-';
    text[9] = 0;
}

static void entry_json(struct json *json, const struct list_args *args, const struct entry *entry) {
    char mode[10];
    permissions(entry->mode, mode);
    json_open(json, '{');
    json_put_str(json, "name", entry->name);
    json_put_str(json, "path", entry->path);
    json_put_bool(json, "is_directory", entry->dir);
    json_key(json, "size");
    if (args->include_size && !entry->dir)
        json_uint(json, entry->size);
    else
        json_nil(json);
    json_key(json, "modified_time");
    aio_time(json, entry->mtime_ns / 1000000);
    json_put_str(json, "permissions", args->include_permissions ? mode : NULL);
    json_put_str(json, "extension", *extension(entry) ? extension(entry) : NULL);
    json_close(json, '}');
}

static int list_answer(struct list *list, struct err *err) {
    size_t dirs = 0;
    autoanswer answer;
    aio_open(&answer, list->request,
             list->more ? "There is more: the list is cut off, narrow the path" : "Directory listed successfully");
    struct json *json = &answer.json;
    json_open(json, '{');
    json_put_str(json, "path", list->args->path.data);
    json_put_open(json, "files", '[');
    for (size_t i = 0; i < list->count && answer_spill(&answer) >= 0; i++) {
        entry_json(json, list->args, &list->entries[i]);
        dirs += list->entries[i].dir;
    }
    json_close(json, ']');
    json_put_uint(json, "total_count", list->count);
    json_put_uint(json, "directory_count", dirs);
    json_put_uint(json, "file_count", list->count - dirs);
    json_put_bool(json, "truncated", list->more);
    json_close(json, '}');
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
    list_sort(list);
    return 0;
}

int aio_file_list(struct http_request *request, struct box *box, struct err *err) {
    struct list_args args = {.show_hidden = true, .include_size = true};
    struct list list = {.args = &args, .request = request, .err = err};
    int failed = aio_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = aio_path(request, box, &args.path, false, err);
    failed = path ? list_run(&list, box, path, err) : -err->code;
    failed =
        failed ? aio_file_fail(request, "Failed to list path", "list", args.path.data, err) : list_answer(&list, err);
    free(list.entries);
    return failed;
}

/* ---- find ---- */

struct find_args {
    struct row_text path, glob;
};

const struct row aio_find_fields[] = {
    AIO_PATH_ROW("path", find_args, path, "absolute path of a directory"),
    {AIO_ROW("glob", TEXT, find_args, glob), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "of names below it; ** crosses directories"},
    {0},
};

struct find {
    struct http_request *request;
    struct answer answer;
    const struct find_args *args;
};

static int find_open(struct find *find) {
    aio_open(&find->answer, find->request, NULL);
    json_open(&find->answer.json, '{');
    json_put_str(&find->answer.json, "path", find->args->path.data);
    json_put_open(&find->answer.json, "files", '[');
    return 0;
}

static int find_each(void *user, const char *path, size_t len) {
    struct find *find = user;
    json_strn(&find->answer.json, path, len);
    return answer_spill(&find->answer);
}

int aio_file_find(struct http_request *request, struct box *box, struct err *err) {
    struct find_args args = {0};
    struct find find = {.request = request, .args = &args};
    struct glob_result result = {0};
    int failed = aio_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = aio_path(request, box, &args.path, false, err);
    bool name = !strchr(args.glob.data, '/'); /* a pattern of names alone is true of them wherever they are */
    const struct glob_request glob = {.pattern = name ? arena_printf(http_arena(request), "**/%s", args.glob.data)
                                                      : args.glob.data,
                                      .path = path,
                                      .limit = LIST_MOST};
    find_open(&find);
    failed = path ? box_glob(box, &glob, http_fd(request), find_each, &find, &result, err) : -err->code;
    json_close(&find.answer.json, ']');
    json_put_bool(&find.answer.json, "truncated", result.truncated);
    json_close(&find.answer.json, '}');
    failed = failed && !http_replied(request)
                 ? aio_file_fail(request, "Failed to find files", "find", args.path.data, err)
                 : aio_close(&find.answer, failed, err);
    answer_done(&find.answer);
    return failed;
}

/* ---- search ---- */

struct search_args {
    struct row_text file, regex;
    bool sudo;
};

const struct row aio_search_fields[] = {
    AIO_PATH_ROW("file", search_args, file, "absolute path"),
    {AIO_ROW("regex", TEXT, search_args, regex), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1,
     .max = LIMIT_PATTERN_BYTES, .text = "a Perl-compatible expression, looked for in each line"},
    {AIO_ROW("sudo", BOOL, search_args, sudo), .text = "with the rights of the box's root"},
    {0},
};

struct search {
    struct http_request *request;
    struct answer answer;
    const struct search_args *args;
    struct buf numbers; /* they come behind the matches */
};

static void search_open(struct search *search) {
    aio_open(&search->answer, search->request, NULL);
    json_open(&search->answer.json, '{');
    json_put_str(&search->answer.json, "file", search->args->file.data);
    json_put_open(&search->answer.json, "matches", '[');
    buf_init(&search->numbers, LIMIT_GREP_LIMIT * sizeof(uint64_t));
}

static int search_each(void *user, const struct grep_match *match) {
    struct search *search = user;
    json_strn(&search->answer.json, match->text, match->len);
    buf_u64(&search->numbers, match->line - 1);
    return answer_spill(&search->answer);
}

static int search_close(struct search *search, bool truncated, int failed, struct err *err) {
    struct json *json = &search->answer.json;
    struct view numbers = view_of(search->numbers.data, search->numbers.len);
    json_close(json, ']');
    json_put_open(json, "line_numbers", '[');
    while (numbers.len && answer_spill(&search->answer) >= 0)
        json_uint(json, view_u64(&numbers));
    json_close(json, ']');
    json_put_bool(json, "truncated", truncated);
    json_close(json, '}');
    return aio_close(&search->answer, failed, err);
}

static int nobody(void *user, const uint8_t *data, size_t len) {
    (void)user, (void)data, (void)len;
    return 0;
}

/* That it is a file which can be read, in the words of any other route. */
static int search_check(struct http_request *request, struct box *box, const char *path, bool root, struct err *err) {
    struct file_stat stat = {0};
    autofd fd = -1;
    return root ? box_read_root(box, path, 1, http_fd(request), nobody, NULL, err)
                : box_read_open(box, path, &fd, &stat, err);
}

int aio_file_search(struct http_request *request, struct box *box, struct err *err) {
    struct search_args args = {0};
    struct search search = {.request = request, .args = &args};
    struct grep_result result = {0};
    int failed = aio_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = aio_path(request, box, &args.file, false, err);
    const struct grep_request grep = {
        .pattern = args.regex.data, .path = path, .root = args.sudo, .limit = LIMIT_GREP_LIMIT};
    search_open(&search);
    failed = path ? search_check(request, box, path, args.sudo, err) : -err->code;
    if (!failed)
        failed = box_grep(box, &grep, http_fd(request), search_each, &search, &result, err);
    if (!failed && !result.files_searched && !result.timed_out)
        failed = err_told(err, EILSEQ, "it is not a text");
    failed = failed && !http_replied(request)
                 ? aio_file_fail(request, "Failed to search file", "search", args.file.data, err)
                 : search_close(&search, result.truncated || result.timed_out, failed, err);
    buf_done(&search.numbers);
    answer_done(&search.answer);
    return failed;
}
