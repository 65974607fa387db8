/* Directories over HTTP: list, mkdir, move, watch. Called through native_routes. Invariant: a list of a million entries
 * is sent as it arrives and never held as a whole. */
#include "front/native/native.h"

#define WATCH_TICK_MS 1000 /* how soon a stopping daemon ends a quiet stream */

static int native_list_each(void *user, const struct file_stat *stat) {
    const struct file_out out = native_file_out(stat);
    return answer_item(user, &out);
}

/* ---- a page in order: the smallest paths after one, whatever the directory holds ---- */

enum { LIST_PAGE = 1000, LIST_PAGE_BYTES = 2 * LIST_PAGE * (LIMIT_PATH_BYTES + 512) };

struct native_page {
    const char *after;
    size_t most, count;
    bool more;
    struct file_stat items[2 * LIST_PAGE]; /* path holds the memory of all its texts */
};

static int native_page_order(const void *a, const void *b) {
    return strcmp(((const struct file_stat *)a)->path, ((const struct file_stat *)b)->path);
}

static void native_page_cut(struct native_page *page) {
    qsort(page->items, page->count, sizeof *page->items, native_page_order);
    for (; page->count > page->most; page->more = true)
        free((char *)page->items[--page->count].path);
}

static int native_page_each(void *user, const struct file_stat *stat) {
    struct native_page *page = user;
    if (page->after && strcmp(stat->path, page->after) <= 0)
        return 0;
    if (page->count == 2 * page->most)
        native_page_cut(page);
    const char *target = stat->target ? stat->target : "";
    size_t path = strlen(stat->path) + 1, name = strlen(stat->name) + 1, link = strlen(target) + 1;
    char *texts = xcalloc(1, path + name + link);
    memcpy(texts, stat->path, path);
    memcpy(texts + path, stat->name, name);
    memcpy(texts + path + name, target, link);
    struct file_stat *item = &page->items[page->count++];
    *item = *stat;
    item->path = texts;
    item->name = texts + path;
    item->target = stat->target ? texts + path + name : NULL;
    return 0;
}

static int native_list_page(struct http_request *request, struct box *box, const struct native_args *args,
                            const char *path, struct err *err) {
    if (args->limit.has && args->limit.value > LIST_PAGE)
        return err_set(err, ERR_INVALID, "'limit' must be at most %d with 'sort'", LIST_PAGE);
    STEP(http_hold(request, LIST_PAGE_BYTES, err));
    struct native_page *page = xcalloc(1, sizeof *page);
    struct truncated_out out = {0};
    page->most = args->limit.has ? (size_t)args->limit.value : LIST_PAGE;
    page->after = args->after_id.data;
    const struct list_request list = {.path = path, .depth = (unsigned)args->depth.value, .limit = LIMIT_LIST_LIMIT};
    autoanswer answer;
    answer_list(&answer, request, list_answer);
    int failed = box_list(box, &list, http_fd(request), native_page_each, page, &out.truncated, err);
    native_page_cut(page);
    out.truncated |= page->more;
    for (size_t i = 0; !failed && i < page->count && native_list_each(&answer, &page->items[i]) >= 0; i++)
        ;
    while (page->count)
        free((char *)page->items[--page->count].path);
    free(page);
    return answer_list_end(&answer, &out, failed, err);
}

int native_list(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct truncated_out out = {0};
    autoanswer answer = {0};
    const char *path;
    STEP(front_query(request, &args, err) ?: front_path(request, box, &args.path, true, &path, err));
    if (args.after_id.data && !args.type.data)
        return err_set(err, ERR_INVALID, "'after' needs 'sort'");
    if (args.type.data)
        return native_list_page(request, box, &args, path, err);
    answer_list(&answer, request, list_answer);
    const struct list_request list = {.path = path, .depth = (unsigned)args.depth.value, .limit = args.limit.value};
    int failed = box_list(box, &list, http_fd(request), native_list_each, &answer, &out.truncated, err);
    return answer_list_end(&answer, &out, failed, err);
}

int native_mkdir(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *path;
    return front_body(request, &args, err)
               ?: front_path(request, box, &args.path, true, &path, err)
               ?: box_mkdir(box, path, (uint32_t)args.mode.value, args.parents, err)
               ?: front_empty(request, 204);
}

int native_move(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *from, *to;
    return front_body(request, &args, err) ?: front_target(request, box, &args.from, &from, err)
               ?: front_target(request, box, &args.to, &to, err) ?: box_move(box, from, to, args.overwrite, err)
               ?: front_empty(request, 204);
}

/* ---- watch ---- */

struct native_watch {
    struct http_request *request;
    struct buf out;
};

static int native_watch_begin(struct native_watch *watch) {
    if (http_replied(watch->request))
        return 0;
    return http_reply_events(watch->request) ?: http_reply_event(watch->request, "ready", "{}", 2);
}

static int native_watch_each(void *user, const struct watch_change *change) {
    static const char *const names[] = {[WATCH_CREATED] = "created",
                                        [WATCH_MODIFIED] = "modified",
                                        [WATCH_REMOVED] = "removed",
                                        [WATCH_MOVED] = "moved"};
    struct native_watch *watch = user;
    struct json json;
    enum watch_event event = change->event;
    const char *path = change->path, *to = change->to;
    bool utf8 = text_utf8(path, strlen(path)) && (!to || text_utf8(to, strlen(to)));
    if (event < WATCH_CREATED || event > WATCH_MOVED)
        return 0;
    buf_clear(&watch->out);
    json_init(&json, &watch->out);
    json_open(&json, '{');
    json_put_bytes(&json, "path", path, strlen(path), utf8);
    if (to)
        json_put_bytes(&json, "to", to, strlen(to), utf8);
    json_put_str(&json, "encoding", utf8 ? "utf-8" : "base64");
    json_close(&json, '}');
    return native_watch_begin(watch) ?: http_reply_event(watch->request, names[event], watch->out.data, watch->out.len);
}

/* Called when the watch is armed, then every tick. */
static int native_watch_idle(void *user) {
    struct native_watch *watch = user;
    STEP(native_watch_begin(watch));
    if (http_server_stopping(front_of(watch->request)->server))
        return -ERR_GONE;
    return http_reply_alive(watch->request);
}

int native_watch(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct native_watch watch = {.request = request};
    const char *path;
    STEP(front_query(request, &args, err) ?: front_path(request, box, &args.path, true, &path, err));
    buf_init(&watch.out, 12 * LIMIT_PATH_BYTES + 256);
    const struct watch_request watched = {.path = path, .recursive = args.recursive};
    const struct watch_sink sink = {
        .each = native_watch_each, .idle = native_watch_idle, .idle_ms = WATCH_TICK_MS, .user = &watch};
    int failed = box_watch(box, &watched, &sink, http_fd(request), err);
    buf_done(&watch.out);
    if (failed == -ERR_GONE && http_server_stopping(front_of(request)->server))
        failed = 0;
    return failed ?: http_reply_end(request);
}
