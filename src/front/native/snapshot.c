/* Snapshots, rollback, fork, export and diff over HTTP. Called through native_routes. Invariant: a token bound to a
 * user only makes boxes of that user, and another user's box is answered as one that does not exist. */
#include "box/snapshot/snapshot.h"
#include "box/snapshot/export.h"

#include "front/native/native.h"

/* Leaves the box: it must not be in use while its files are worked on. */
static void native_snapshot_trail(struct http_request *request) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    if (provider_look(provider, front_who(request)->user, http_param(request, "id"), &box, ERR_IGNORED))
        return;
    trail_box(request, box);
    trail_box(request, NULL);
    provider_look_end(provider, box);
}

static struct snapshot_out native_snapshot_out(const struct snapshot *snapshot) {
    struct snapshot_out out = {
        .snapshot = *snapshot, .name = snapshot->name, .pause_ms = (double)snapshot->pause_us / 1000};
    while (snapshot->layers[out.layers])
        out.layers++;
    return out;
}

int native_snapshot(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct snapshot snapshot;
    STEP(front_body(request, &args, err));
    native_snapshot_trail(request);
    STEP(snapshot_create(front_of(request)->provider, front_who(request)->user, http_param(request, "id"),
                         args.name.data, http_arena(request), &snapshot, err));
    const struct snapshot_out out = native_snapshot_out(&snapshot);
    return answer_rows(request, 201, snapshot_answer, &out, err);
}

int native_snapshots(struct http_request *request, struct box *, struct err *err) {
    struct snapshot *list;
    size_t count;
    native_snapshot_trail(request);
    STEP(snapshot_list(front_of(request)->provider, front_who(request)->user, http_param(request, "id"),
                       http_arena(request), &list, &count, err));
    autoanswer answer;
    answer_list(&answer, request, snapshots_answer);
    for (size_t i = 0; i < count; i++) {
        const struct snapshot_out out = native_snapshot_out(&list[i]);
        answer_item(&answer, &out);
    }
    return answer_list_end(&answer, NULL, 0, err);
}

int native_snapshot_remove(struct http_request *request, struct box *, struct err *err) {
    native_snapshot_trail(request);
    return snapshot_remove(front_of(request)->provider, front_who(request)->user, http_param(request, "id"),
                           http_param(request, "name"), err)
               ?: front_empty(request, 204);
}

int native_rollback(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    uint64_t ended;
    STEP(front_body(request, &args, err));
    native_snapshot_trail(request);
    STEP(snapshot_rollback(front_of(request)->provider, front_who(request)->user, http_param(request, "id"),
                           args.name.data, &ended, err));
    return answer_rows(request, 200, rollback_answer, &(const struct rollback_out){args.name.data, ended}, err);
}

int native_fork(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const struct who *who = front_who(request);
    struct native_args args = {0};
    struct box *box;
    STEP(front_body(request, &args, err));
    native_snapshot_trail(request);
    if (who->user && args.user.data && strcmp(who->user, args.user.data) != 0)
        return err_set(err, ERR_DENIED, "this token may only make boxes of user '%s', not of '%s'", who->user,
                       args.user.data);
    struct fork_request wanted = {.snapshot = args.snapshot.data,
                                  .user = args.user.data,
                                  .thread = args.thread.data,
                                  .thread_len = args.thread.len};
    STEP(front_make(request, err) ?: snapshot_fork(provider, who->user, http_param(request, "id"), &wanted, &box, err));
    autoanswer answer;
    answer_init(&answer, request, 201);
    native_box_json(&answer.json, box);
    provider_put(provider, box);
    return answer_end(&answer, 0, err);
}

int native_export(struct http_request *request, struct box *, struct err *err) {
    struct export_result result;
    native_snapshot_trail(request);
    STEP(export_run(front_of(request)->provider, front_who(request)->user, http_param(request, "id"), &result, err));
    const struct export_out out = {.changed = result.exported.changed,
                                   .image = result.exported.changed ? result.exported.image : NULL,
                                   .bytes = result.exported.bytes,
                                   .duration_ms = result.duration_ms,
                                   .processes_ended = result.ended};
    return answer_rows(request, 200, export_answer, &out, err);
}

/* ---- diff ---- */

static int native_diff_each(void *user, const struct file_change *change) {
    static const char *const changes[] = {
        [WATCH_CREATED] = "added", [WATCH_MODIFIED] = "modified", [WATCH_REMOVED] = "removed"};
    const struct change_out out = {.path = native_text(change->path),
                                   .change = changes[change->event],
                                   .type = native_type_name(change->type),
                                   .size = change->size};
    return answer_item(user, &out);
}

int native_diff(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct truncated_out out = {0};
    autoanswer answer = {0};
    STEP(front_query(request, &args, err));
    answer_list(&answer, request, diff_answer);
    int failed = box_diff(box, args.limit.value, http_fd(request), native_diff_each, &answer, &out.truncated, err);
    return answer_list_end(&answer, &out, failed, err);
}
