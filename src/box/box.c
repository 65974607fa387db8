/* A box as such, and what all its verbs share: one call, its events, its end. Called by the dialects through the verbs.
 * Invariant: a verb always ends: by END or FAIL, by the client's hang-up, by its deadline, or because the wire died. */
#include "box/box.h"

#include "base/base.h"
#include "box/verb.h"

enum { VERB_PIECE_BYTES = 65536 };

void *box_guest(struct box *box, size_t size) {
    void *guest = atomic_load(&box->guest), *none = NULL;
    if (guest)
        return guest;
    guest = xcalloc(1, size);
    if (atomic_compare_exchange_strong(&box->guest, &none, guest))
        return guest;
    free(guest);
    return none;
}

const char *box_state_name(enum box_state state) {
    static const char *const names[] = {"starting", "ready", "warm", "paused", "exporting", "closing"};
    return names[state];
}

/* Counted back from now, so that it stays right when the clock is set. */
uint64_t box_last_used_ms(const struct box *box) {
    uint64_t used_ms = atomic_load(&box->used_ms), now_ms = clock_ms();
    return clock_wall_ms() - (now_ms > used_ms ? now_ms - used_ms : 0);
}

bool box_alive(const struct box *box) {
    return box->wire && wire_alive(box->wire);
}

const char *box_backend(const struct box *box) {
    return box->ops->name;
}

bool box_started(const struct box *box) {
    return (box->wire || box->state == BOX_PAUSED) && !box->died[0];
}

bool box_contained(const struct box *box) {
    return box->ops->images;
}

bool box_direct(const struct box *box) {
    return wire_root(box->wire) >= 0;
}

bool box_offline(struct box *box) {
    return box->ops->reach && box->ops->reach(box->backend, &box->spec, ERR_IGNORED) < 0;
}

bool box_machine(struct box *box, struct arena *arena, struct machine_facts *ret_facts) {
    *ret_facts = (struct machine_facts){0};
    if (!box->ops->show)
        return false;
    if (!box->ops->show(box->backend, &box->spec, arena, ret_facts))
        ret_facts->hello = (struct machine_hello){0};
    return true;
}

bool box_attaches(const struct box *box) {
    return backend_attaches(box->ops, box->backend, &box->spec);
}

const char *box_workspace(const struct box *box) {
    const char *before = box->spec.workspace ? box->spec.workspace : WORKSPACE_PATH;
    return box->wire ? wire_workspace(box->wire) : before;
}

static int box_usage_asked(struct box *box, bool brief, struct usage *ret_usage, struct err *err) {
    *ret_usage = (struct usage){.brief = brief};
    return box->ops->usage ? box->ops->usage(box->backend, box->id, ret_usage, err) : 0;
}

int box_usage(struct box *box, struct usage *ret_usage, struct err *err) {
    return box_usage_asked(box, false, ret_usage, err);
}

int box_usage_brief(struct box *box, struct usage *ret_usage, struct err *err) {
    return box_usage_asked(box, true, ret_usage, err);
}

/* Patterns: how many there may be, and how long they are together. */
static int box_globs_check(const char *const *globs, struct err *err) {
    size_t count = 0, bytes = 0;
    for (; globs[count]; count++)
        bytes += strlen(globs[count]);
    if (count <= LIMIT_GLOBS && bytes <= LIMIT_PATTERN_BYTES)
        return 0;
    return err_set(err, ERR_INVALID, "a list of patterns must have at most %u, of %u bytes together", LIMIT_GLOBS,
                   LIMIT_PATTERN_BYTES);
}

int verb_put_all(struct buf *args, const struct verb_field *fields, size_t count, struct err *err) {
    for (const struct verb_field *field = fields; field < fields + count; field++) {
        TRY(field->path ? path_check(field->path, strlen(field->path), err) : 0);
        TRY(field->list && !field->what ? box_globs_check(field->list, err) : 0);
        if (field->what && text_list_count(field->list) > field->most)
            return err_set(err, ERR_TOO_LARGE, "more than %zu %s", field->most, field->what);
        const char *text = field->path ? field->path : field->text;
        if (text)
            field_text(args, field->id, text);
        if (field->number || field->always)
            field_number(args, field->id, field->number);
        if (field->bytes)
            field_bytes(args, field->id, field->bytes, field->len);
        for (const char *const *row = field->list; row && *row; row++)
            field_text(args, field->id, *row);
    }
    return 0;
}

int verb_text(char *out, size_t size, const struct field *field, struct err *err) {
    if (field->len >= size)
        return err_set(err, ERR_PROTOCOL, "the runner sent a name of %zu bytes", field->len);
    memcpy(out, field->data, field->len);
    out[field->len] = 0;
    return 0;
}

bool box_has_root(const struct box *box) {
    return wire_features(box->wire) & FEATURE_HAS_ROOT;
}

int verb_args(const struct box *box, const struct verb *verb, struct buf *args, struct err *err) {
    const struct file_rights *rights = verb->rights;
    bool root = verb->flags & CALL_ROOT || (rights && rights->root);
    unsigned needs = verb->needs | (rights ? FEATURE_DETAILS : 0), has = (unsigned)wire_features(box->wire);
    if ((has & needs) != needs)
        return err_set(err, ERR_UNSUPPORTED,
                       "this box was started by an older cubby, whose runner cannot do that: restart the box");
    if (root && !(has & FEATURE_AS_ROOT)) /* it would do it with the agent's rights */
        return err_set(err, ERR_UNSUPPORTED,
                       "the runner of this box cannot work on files as root: run a command as root, or restart the "
                       "box");
    if (verb->args)
        buf_put(args, verb->args->data, verb->args->len);
    TRY(verb_put_all(args, verb->fields, verb->field_count, err));
    TRY(verb_put(args, err, F_NUM(FLAGS, verb->flags | (root ? CALL_ROOT : 0)),
                 F_TEXT(PATTERN, rights ? rights->attributes : NULL)));
    if (rights && rights->root && verb->gives)
        field_number(args, FIELD_UID, rights->owner);
    args->failed |= verb->args && verb->args->failed;
    return 0;
}

int verb_broken(struct box *box, struct err *err) {
    wire_kill(box->wire, err->text);
    return -ERR_PROTOCOL;
}

/* A sink said no: its code, and its sentence or ours. */
static int box_verb_refused(struct box *box, int code, struct err *err) {
    if (err->code != -code)
        err_set(err, (enum err_code) - code, "the receiver of the answer gave up");
    return code == -ERR_PROTOCOL ? verb_broken(box, err) : code;
}

/* One event into the sink. 1: it was END, decoded. */
static int box_verb_event(struct box *box, const struct verb *verb, struct event *event, struct arena *arena,
                          struct fields *ret_end, struct err *err) {
    autofd fd = event->fd;
    const struct verb_sink *sink = verb->sink;
    err->code = 0;
    int r = 0;
    if (event->kind == EVENT_END) {
        r = fields_parse(view_of(event->data, event->len), arena, ret_end, err);
        return r < 0 ? verb_broken(box, err) : 1;
    }
    if (event->kind == EVENT_READY)
        return err_set(err, ERR_GONE, "the client hung up");
    if (event->kind == EVENT_STAT && sink && sink->stat)
        r = sink->stat(verb->user, view_of(event->data, event->len), &fd, err);
    else if (event->kind == EVENT_DATA && sink && sink->data)
        r = sink->data(verb->user, event->stream, event->data, event->len, err);
    else if (event->kind == EVENT_ITEM && sink && sink->item) {
        struct view view = view_of(event->data, event->len), record;
        while ((r = item_next(&view, &record, err)) > 0) {
            err->code = 0;
            int taken = sink->item(verb->user, record, err);
            if (taken < 0)
                return box_verb_refused(box, taken, err);
        }
        return r < 0 ? verb_broken(box, err) : 0;
    } else if (event->kind == EVENT_DATA || event->kind == EVENT_ITEM) {
        err_set(err, ERR_PROTOCOL, "the runner answered %s with a stream it does not have", op_name(verb->op));
        return verb_broken(box, err);
    }
    return r < 0 ? box_verb_refused(box, r, err) : 0;
}

/* Input still to be sent. */
struct feed {
    uint8_t *data;
    size_t at, len;
    uint64_t total;
    bool blocked, done;
};

/* Sends until credit or input ends. Reading may block its thread: that is the client's pace, not the runner's. */
static int box_feed_send(struct feed *feed, struct call *call, const struct verb *verb, struct err *err) {
    while (!feed->done && !feed->blocked) {
        if (feed->at == feed->len) {
            ssize_t n = verb->read_fn(verb->read_user, feed->data, VERB_PIECE_BYTES, err);
            if (n < 0)
                return (int)n;
            feed->at = 0;
            feed->len = (size_t)n;
            feed->total += (uint64_t)n;
            if (verb->input_max && feed->total > verb->input_max)
                return err_set(err, ERR_TOO_LARGE, "more than %llu bytes", (unsigned long long)verb->input_max);
            feed->done = n == 0;
        }
        if (feed->done)
            return call_send_eof(call, err);
        ssize_t sent = call_send(call, feed->data + feed->at, feed->len - feed->at, err);
        if (sent < 0)
            return (int)sent;
        feed->at += (size_t)sent;
        feed->blocked = feed->at < feed->len;
    }
    return 0;
}

/* Nothing came for a while. Work without a bound of its own (a hash, a large tree) may continue as long as PID 1,
 * which does none of it, still answers. */
static int box_verb_alive(struct box *box, const struct verb *verb, struct err *err) {
    if (verb->timeout_ms || verb->bound_ms)
        return -ERR_TIMEOUT;
    if (atomic_load(&box->state) == BOX_PAUSED)
        return 0; /* and does the rest when it is woken */
    return verb_only(box, &(struct verb){.op = OP_PING, .watch = -1, .timeout_ms = VERB_SILENCE_MS}, err);
}

/* call_next, with the pauses that the caller wants to see. */
static int box_verb_next(struct box *box, struct call *call, const struct verb *verb, const struct call_wait *wait,
                         struct event *ret_event, struct err *err) {
    struct call_wait pause = *wait;
    for (;;) {
        uint64_t idle_at = clock_ms() + verb->idle_ms;
        bool idles = verb->idle && (!wait->deadline_ms || idle_at < wait->deadline_ms);
        pause.deadline_ms = idles ? idle_at : wait->deadline_ms;
        int r = call_next(call, &pause, ret_event, err);
        if (!idles || r != -ERR_TIMEOUT || clock_ms() < idle_at)
            return r;
        err->code = 0;
        if ((r = verb->idle(verb->user)) < 0)
            return box_verb_refused(box, r, err);
    }
}

static int box_verb_loop(struct box *box, struct call *call, const struct verb *verb, struct feed *feed,
                         struct arena *arena, struct fields *ret_end, struct err *err) {
    uint64_t patience_ms = wire_patience_ms(box->wire);
    struct call_wait wait = {.fd = verb->watch,
                             .events = POLLRDHUP,
                             .deadline_ms = verb->timeout_ms ? clock_ms() + verb->timeout_ms + patience_ms : 0};
    for (;;) {
        int r = box_feed_send(feed, call, verb, err);
        struct event event;
        if (!verb->timeout_ms)
            wait.deadline_ms = clock_ms() + verb->bound_ms + VERB_SILENCE_MS + patience_ms;
        if (r == 0)
            r = box_verb_next(box, call, verb, &wait, &event, err);
        if (r == -ERR_TIMEOUT && wait.deadline_ms <= clock_ms() && (r = box_verb_alive(box, verb, err)) == 0)
            continue;
        if (r < 0)
            return r;
        if (event.kind == EVENT_INPUT)
            feed->blocked = false;
        else if ((r = box_verb_event(box, verb, &event, arena, ret_end, err)) != 0)
            return r < 0 ? r : 0;
    }
}

int verb_finish(struct box *box, struct call *call, const struct verb *verb, struct arena *arena,
                struct fields *ret_end, struct err *err) {
    struct feed feed = {.data = verb->read_fn ? xmalloc(VERB_PIECE_BYTES) : NULL, .done = !verb->read_fn};
    int r = box_verb_loop(box, call, verb, &feed, arena, ret_end, err);
    free(feed.data);
    call_close(call);
    return r;
}

int verb_run(struct box *box, const struct verb *verb, struct arena *arena, struct fields *ret_end, struct err *err) {
    struct call *call;
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    return verb_args(box, verb, &args, err)
               ?: call_open(box->wire, verb->op, &args, NULL, 0, false, &call, err)
               ?: verb_finish(box, call, verb, arena, ret_end, err);
}

int verb_numbers(struct box *box, const struct verb *verb, struct fields *ret_end, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    return verb_run(box, verb, &arena, ret_end, err);
}

int verb_only(struct box *box, const struct verb *verb, struct err *err) {
    struct fields end;
    return verb_numbers(box, verb, &end, err);
}
