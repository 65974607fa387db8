/* The ops on background commands: PS, OUTPUT, INPUT, SIGNAL, RESIZE, ATTACH. Called by serve. Invariant: a state that
 * watches or feeds a command is removed from its lists before it is freed. */
#include "base/base.h"
#include "runner/ops/ops.h"
#include "runner/exec/process.h"
#include "runner/runner.h"

/* ---- PS ---- */

static void process_ps_texts(struct buf *records, enum field_id id, char *const *texts) {
    for (; texts && *texts; texts++)
        field_text(records, id, *texts);
}

/* Reports what the command was started with; completely only if one command is asked about, which fits a frame. */
static void process_ps_about(const struct process *process, bool only, struct buf *records) {
    field_number(records, FIELD_FLAGS,
                 (process->pty ? CALL_PTY : 0) | (process->input.fd >= 0 && !process->pty ? CALL_STDIN : 0));
    if (process->tag)
        field_text(records, FIELD_NOTE, process->tag);
    if (!only)
        return;
    field_text(records, FIELD_CWD, process->cwd);
    process_ps_texts(records, FIELD_ARGV, process->argv);
    process_ps_texts(records, FIELD_ENV, process->env);
}

/* At most LIMIT_PROCESSES records of less than 1 KiB: everything fits the first window of credit. */
static int process_ps_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *only = NULL;
    if (args->has[FIELD_PID] && process_lookup(call->runner, args->number[FIELD_PID], &only, err) < 0)
        return -err->code;
    autobuf records = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    for (struct process *p = process_first(call->runner); p; p = p->next) {
        if (only ? p != only : !(p->background || p->keep) || p->phase == PHASE_STARTING)
            continue;
        size_t begin = item_begin(&records);
        field_number(&records, FIELD_PID, (uint64_t)p->pid);
        field_text(&records, FIELD_COMMAND, p->command);
        field_number(&records, FIELD_STATE, p->phase == PHASE_ENDED ? PROCESS_EXITED : PROCESS_RUNNING);
        field_number(&records, FIELD_STARTED_MS, p->started_wall_ms);
        if (p->session)
            field_text(&records, FIELD_SESSION, p->session);
        if (p->phase == PHASE_ENDED) {
            process_put_result(p, &records);
        } else {
            field_number(&records, FIELD_BYTES_OUT, p->streams[0].total);
            field_number(&records, FIELD_BYTES_ERR, p->streams[1].total);
        }
        if (args->number[FIELD_FLAGS] & CALL_ALL)
            process_ps_about(p, only, &records);
        reply_item_end(call, &records, begin);
    }
    if (records.len)
        reply_items(call, &records);
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_ps = {.op = OP_PS, .looks = true, .begin = process_ps_begin};

/* ---- OUTPUT ---- */

struct output {
    struct watcher watcher;
    struct timer timer;
    struct rcall *call;
    struct stream *stream;
    uint64_t offset, length;
    const struct stream *other; /* a second stream to wait for, or NULL */
    uint64_t other_offset;
    struct buf data; /* copied from the ring at once, which may be overwritten while we wait for credit */
    size_t done;
};

static void process_output_free(struct output *output) {
    struct runner *runner = output->call->runner;
    watcher_drop(&output->watcher);
    timer_set(runner, &output->timer, 0);
    buf_done(&output->data);
    later_free(runner, output);
}

static void process_output_pump(struct rcall *call) {
    struct output *output = call->state;
    output->done +=
        reply_data(call, output->stream->id, output->data.data + output->done, output->data.len - output->done);
    if (output->done < output->data.len)
        return;
    process_output_free(output);
    reply_end(call, NULL);
}

static void process_output_answer(struct output *output) {
    struct rcall *call = output->call;
    struct stream *stream = output->stream;
    uint64_t first = stream_first(stream), from = output->offset;
    if (from < first)
        from = first;
    if (from > stream->total)
        from = stream->total;
    uint64_t length = stream->total - from < output->length ? stream->total - from : output->length;
    uint8_t *at = length ? buf_reserve(&output->data, (size_t)length) : NULL;
    if (at)
        output->data.len = stream_copy(stream, from, at, (size_t)length);
    autobuf fields = buf_max(128);
    field_number(&fields, FIELD_FIRST, first);
    field_number(&fields, FIELD_NEXT, from + output->data.len);
    field_number(&fields, FIELD_STATE, stream->process->phase == PHASE_ENDED ? PROCESS_EXITED : PROCESS_RUNNING);
    watcher_drop(&output->watcher);
    timer_set(call->runner, &output->timer, 0);
    reply_stat(call, &fields, -1);
    call->writable = process_output_pump;
    process_output_pump(call);
}

static bool process_output_news(const struct output *output) {
    return output->stream->total > output->offset || output->stream->process->phase == PHASE_ENDED ||
           (output->other && output->other->total > output->other_offset);
}

static void process_output_changed(struct watcher *watcher) {
    struct output *output = (struct output *)watcher;
    if (process_output_news(output))
        process_output_answer(output);
}

static void process_output_timer(struct timer *timer) {
    process_output_answer(container_of(timer, struct output, timer));
}

static int process_output_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    TRY(process_lookup(call->runner, args->number[FIELD_PID], &process, err));
    uint64_t stream = args->has[FIELD_STREAM] ? args->number[FIELD_STREAM] : STREAM_STDOUT;
    if (!(process->background || process->keep) || stream < STREAM_STDOUT || stream > STREAM_STDERR)
        return err_set(err, ERR_INVALID, "process %d has no kept output of that stream", process->pid);
    struct output *output = xcalloc(1, sizeof *output);
    *output = (struct output){.watcher.changed = process_output_changed,
                              .timer.fire = process_output_timer,
                              .call = call,
                              .stream = &process->streams[stream - STREAM_STDOUT],
                              .offset = args->number[FIELD_OFFSET],
                              .length = LIMIT_RING_BYTES};
    if (args->has[FIELD_LENGTH] && args->number[FIELD_LENGTH] < LIMIT_RING_BYTES)
        output->length = args->number[FIELD_LENGTH];
    if (args->has[FIELD_NEXT]) {
        output->other = &process->streams[stream == STREAM_STDOUT];
        output->other_offset = args->number[FIELD_NEXT];
    }
    buf_init(&output->data, LIMIT_RING_BYTES);
    call->state = output;
    watcher_add(process, &output->watcher);
    uint64_t wait_ms = args->number[FIELD_WAIT_MS];
    if (process_output_news(output) || wait_ms == 0)
        process_output_answer(output);
    else
        timer_set(call->runner, &output->timer, timer_after(wait_ms));
    return 0;
}

static void process_output_cancel(struct rcall *call) {
    process_output_free(call->state);
}

const struct op_def op_output = {
    .op = OP_OUTPUT, .looks = true, .begin = process_output_begin, .cancel = process_output_cancel};

/* ---- INPUT ---- */

struct input {
    struct feeder feeder;
    struct rcall *call;
};

static void process_input_free(struct input *input) {
    feeder_drop(&input->feeder);
    later_free(input->call->runner, input);
}

static void process_input_answer(struct input *input, bool lost) {
    struct rcall *call = input->call;
    uint64_t taken = input->feeder.taken;
    struct err err;
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_SIZE, taken);
    err_set(&err, ERR_GONE, "the process ended or closed its input after %llu bytes", (unsigned long long)taken);
    process_input_free(input);
    if (lost)
        reply_fail(call, &err);
    else
        reply_end(call, &fields);
}

/* A process that ends has read its input: only unread bytes are an error. */
static void process_input_finished(struct feeder *feeder) {
    struct input *input = (struct input *)feeder;
    bool lost = feeder->broken && feeder->done < feeder->data.len;
    if (lost || feeder->eof)
        process_input_answer(input, lost);
}

static int process_input_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    TRY(process_lookup(call->runner, args->number[FIELD_PID], &process, err));
    if (process->phase > PHASE_RUNNING)
        return err_set(err, ERR_GONE, "process %d has ended", process->pid);
    if (process->input.fd < 0)
        return err_set(err, ERR_GONE, "process %d does not accept input: it was started without input, or closed it",
                       process->pid);
    struct input *input = xcalloc(1, sizeof *input);
    input->call = call;
    input->feeder.close = args->number[FIELD_FLAGS] & CALL_CLOSE;
    input->feeder.finished = process_input_finished;
    call->state = input;
    feeder_add(process, &input->feeder, call);
    return 0;
}

static int process_input_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct input *input = call->state;
    if (input->feeder.process)
        return feeder_put(&input->feeder, data, len, err);
    process_input_answer(input, true);
    return 0;
}

static int process_input_finish(struct rcall *call, struct err *) {
    struct input *input = call->state;
    if (input->feeder.process)
        feeder_eof(&input->feeder);
    else
        process_input_answer(input, false);
    return 0;
}

static void process_input_cancel(struct rcall *call) {
    process_input_free(call->state);
}

const struct op_def op_input = {.op = OP_INPUT,
                                .begin = process_input_begin,
                                .input = process_input_input,
                                .finish = process_input_finish,
                                .cancel = process_input_cancel};

/* ---- SIGNAL, RESIZE ---- */

struct signal_wait { /* waits until the command is reaped, or a timeout */
    struct watcher watcher;
    struct timer timer;
    struct rcall *call;
};

static void process_signal_cancel(struct rcall *call) {
    struct signal_wait *wait = call->state;
    watcher_drop(&wait->watcher);
    timer_set(call->runner, &wait->timer, 0);
    later_free(call->runner, wait);
}

static void process_signal_answer(struct signal_wait *wait) {
    struct rcall *call = wait->call;
    process_signal_cancel(call);
    reply_end(call, NULL);
}

static void process_signal_changed(struct watcher *watcher) {
    if (watcher->process->phase > PHASE_RUNNING)
        process_signal_answer((struct signal_wait *)watcher);
}

static void process_signal_timer(struct timer *timer) {
    process_signal_answer(container_of(timer, struct signal_wait, timer));
}

static int process_signal_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    TRY(process_lookup(call->runner, args->number[FIELD_PID], &process, err));
    uint64_t number = args->number[FIELD_SIGNAL];
    if (number < 1 || number > 64)
        return err_set(err, ERR_INVALID, "there is no signal %llu", (unsigned long long)number);
    if (process->phase > PHASE_RUNNING && !process->lives)
        return err_set(err, ERR_GONE, "process %d has ended", process->pid);
    if (process->lives)
        leaf_signal(process->leaf, (int)number); /* its remaining processes */
    else if (args->number[FIELD_FLAGS] & CALL_ALL)
        process_signal(process, (int)number);
    else if (kill(-process->pid, (int)number) < 0)
        return err_errno(err, errno, "cannot signal process %d", process->pid);
    if (!args->number[FIELD_WAIT_MS] || process->phase > PHASE_RUNNING) {
        reply_end(call, NULL);
        return 0;
    }
    struct signal_wait *wait = xcalloc(1, sizeof *wait);
    *wait = (struct signal_wait){
        .watcher.changed = process_signal_changed, .timer.fire = process_signal_timer, .call = call};
    call->state = wait;
    watcher_add(process, &wait->watcher);
    timer_set(call->runner, &wait->timer, timer_after(args->number[FIELD_WAIT_MS]));
    return 0;
}

const struct op_def op_signal = {.op = OP_SIGNAL, .begin = process_signal_begin, .cancel = process_signal_cancel};

static int process_resize_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    TRY(process_lookup(call->runner, args->number[FIELD_PID], &process, err));
    uint64_t cols = args->number[FIELD_COLS], rows = args->number[FIELD_ROWS];
    if (cols < 1 || cols > 10000 || rows < 1 || rows > 10000)
        return err_set(err, ERR_INVALID, "a terminal of %llu columns and %llu rows", (unsigned long long)cols,
                       (unsigned long long)rows);
    if (!process->pty)
        return err_set(err, ERR_INVALID, "process %d has no terminal", process->pid);
    struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};
    if (process->streams[0].source.fd < 0)
        return err_set(err, ERR_GONE, "process %d has ended", process->pid);
    if (ioctl(process->streams[0].source.fd, TIOCSWINSZ, &size) < 0)
        return err_errno(err, errno, "cannot resize the terminal of process %d", process->pid);
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_resize = {.op = OP_RESIZE, .begin = process_resize_begin};

/* ---- ATTACH ---- */

static int process_attach_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    TRY(process_lookup(call->runner, args->number[FIELD_PID], &process, err));
    if (!process->background)
        return err_set(err, ERR_INVALID, "process %d is not in the background", process->pid);
    /* An offset applies to standard output; standard error continues live unless NEXT gives its offset. */
    uint64_t offset[2] = {args->number[FIELD_OFFSET], args->number[FIELD_OFFSET] ? UINT64_MAX : 0};
    if (args->has[FIELD_NEXT])
        offset[1] = args->number[FIELD_NEXT];
    for (int i = 0; i < 2; i++) {
        const struct stream *stream = &process->streams[i];
        if (args->number[FIELD_FLAGS] & CALL_UNREAD)
            offset[i] = stream->read;
        if (offset[i] < stream_first(stream))
            offset[i] = stream_first(stream);
        if (offset[i] > stream->total)
            offset[i] = stream->total;
    }
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_FIRST, stream_first(&process->streams[0]));
    field_number(&fields, FIELD_OFFSET, offset[0]);
    field_number(&fields, FIELD_NEXT, offset[1]);
    reply_stat(call, &fields, -1);
    reader_open(call, process, offset);
    return 0;
}

const struct op_def op_attach = {
    .op = OP_ATTACH, .begin = process_attach_begin, .input = reader_input, .cancel = reader_close};
