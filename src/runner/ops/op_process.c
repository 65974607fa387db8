/* The ops on background commands: PS, OUTPUT, INPUT, SIGNAL, RESIZE, ATTACH. Called by serve.
 * Invariant: a state that watches or feeds a command is taken out of its lists before it is freed. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/ops/ops.h"
#include "runner/exec/process.h"
#include "runner/serve.h"

enum { COPY_BYTES = 64 << 10 };

static void *state_new(size_t size) {
    void *state = xcalloc(1, size);
    return state;
}

/* ---- PS ---- */

static void ps_put(const struct process *process, struct buf *out) {
    size_t begin = item_begin(out);
    field_number(out, FIELD_PID, (uint64_t)process->pid);
    field_text(out, FIELD_COMMAND, process->command);
    field_number(out, FIELD_STATE, process->phase == PHASE_ENDED ? PROCESS_EXITED : PROCESS_RUNNING);
    field_number(out, FIELD_STARTED_MS, process->started_wall_ms);
    if (process->session)
        field_text(out, FIELD_SESSION, process->session);
    if (process->phase == PHASE_ENDED) {
        process_put_result(process, out);
    } else {
        field_number(out, FIELD_BYTES_OUT, process->streams[0].total);
        field_number(out, FIELD_BYTES_ERR, process->streams[1].total);
    }
    item_end(out, begin);
}

/* At most LIMIT_PROCESSES records of less than 1 KiB: all of it fits the first window of credit. */
static int ps_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *only = NULL;
    if (args->has[FIELD_PID] && process_lookup(call->runner, args->number[FIELD_PID], &only, err) < 0)
        return -err->code;
    autobuf records = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    for (struct process *p = process_first(call->runner); p; p = p->next) {
        if (only ? p != only : !(p->background || p->keep) || p->phase == PHASE_STARTING)
            continue;
        ps_put(p, &records);
        if (records.len > LIMIT_FRAME_PAYLOAD_BYTES / 2) {
            reply_items(call, &records);
            buf_clear(&records);
        }
    }
    if (records.len)
        reply_items(call, &records);
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_ps = {.op = OP_PS, .begin = ps_begin};

/* ---- OUTPUT ---- */

struct output {
    struct watcher watcher;
    struct timer timer;
    struct rcall *call;
    struct stream *stream;
    uint64_t offset, length;
    const struct stream *other; /* whose output is waited for as well; NULL: it is not */
    uint64_t other_offset;
    struct buf data; /* taken out of the ring at once: it may be overwritten while we wait for credit */
    size_t done;
};

static void output_free(struct output *output) {
    struct runner *runner = output->call->runner;
    watcher_drop(&output->watcher);
    timer_set(runner, &output->timer, 0);
    buf_done(&output->data);
    later_free(runner, output);
}

static void output_pump(struct rcall *call) {
    struct output *output = call->state;
    output->done +=
        reply_data(call, output->stream->id, output->data.data + output->done, output->data.len - output->done);
    if (output->done < output->data.len)
        return;
    output_free(output);
    reply_end(call, NULL);
}

static void output_answer(struct output *output) {
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
    call->writable = output_pump;
    output_pump(call);
}

static bool output_news(const struct output *output) {
    return output->stream->total > output->offset || output->stream->process->phase == PHASE_ENDED ||
           (output->other && output->other->total > output->other_offset);
}

static void output_changed(struct watcher *watcher) {
    struct output *output = (struct output *)watcher;
    if (output_news(output))
        output_answer(output);
}

static void output_timer(struct timer *timer) {
    output_answer(container_of(timer, struct output, timer));
}

static int output_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    int r = process_lookup(call->runner, args->number[FIELD_PID], &process, err);
    if (r < 0)
        return r;
    uint64_t stream = args->has[FIELD_STREAM] ? args->number[FIELD_STREAM] : STREAM_STDOUT;
    if (!(process->background || process->keep) || stream < STREAM_STDOUT || stream > STREAM_STDERR)
        return err_set(err, ERR_INVALID, "process %d has no kept output of that stream", process->pid);
    struct output *output = state_new(sizeof *output);
    *output = (struct output){.watcher.changed = output_changed,
                              .timer.fire = output_timer,
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
    if (output_news(output) || wait_ms == 0)
        output_answer(output);
    else
        timer_set(call->runner, &output->timer,
                  clock_ms() + (wait_ms < LIMIT_EXEC_TIMEOUT_MS ? wait_ms : LIMIT_EXEC_TIMEOUT_MS));
    return 0;
}

static void output_cancel(struct rcall *call) {
    output_free(call->state);
}

const struct op_def op_output = {.op = OP_OUTPUT, .begin = output_begin, .cancel = output_cancel};

/* ---- INPUT ---- */

struct input {
    struct feeder feeder;
    struct rcall *call;
};

static int input_check(const struct process *process, struct err *err) {
    if (process->phase > PHASE_RUNNING)
        return err_set(err, ERR_GONE, "process %d has ended", process->pid);
    if (process->input.fd < 0)
        return err_set(err, ERR_GONE, "process %d takes no input: it was started without, or closed it", process->pid);
    return 0;
}

static void input_free(struct input *input) {
    feeder_drop(&input->feeder);
    later_free(input->call->runner, input);
}

static void input_answer(struct input *input, bool lost) {
    struct rcall *call = input->call;
    uint64_t taken = input->feeder.taken;
    struct err err;
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_SIZE, taken);
    err_set(&err, ERR_GONE, "the process ended or closed its input after %llu bytes", (unsigned long long)taken);
    input_free(input);
    if (lost)
        reply_fail(call, &err);
    else
        reply_end(call, &fields);
}

/* A process that ends on what it was given has taken it: only bytes that nobody read are an error. */
static void input_finished(struct feeder *feeder) {
    struct input *input = (struct input *)feeder;
    bool lost = feeder->broken && feeder->done < feeder->data.len;
    if (lost || feeder->eof)
        input_answer(input, lost);
}

static int input_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    int r = process_lookup(call->runner, args->number[FIELD_PID], &process, err);
    if (r >= 0)
        r = input_check(process, err);
    if (r < 0)
        return r;
    struct input *input = state_new(sizeof *input);
    input->call = call;
    input->feeder.close = args->number[FIELD_FLAGS] & CALL_CLOSE;
    input->feeder.finished = input_finished;
    call->state = input;
    feeder_add(process, &input->feeder, call);
    return 0;
}

static int input_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct input *input = call->state;
    if (input->feeder.process)
        return feeder_put(&input->feeder, data, len, err);
    input_answer(input, true);
    return 0;
}

static int input_finish(struct rcall *call, struct err *err) {
    struct input *input = call->state;
    (void)err;
    if (input->feeder.process)
        feeder_eof(&input->feeder);
    else
        input_answer(input, false);
    return 0;
}

static void input_cancel(struct rcall *call) {
    input_free(call->state);
}

const struct op_def op_input = {
    .op = OP_INPUT, .begin = input_begin, .input = input_input, .finish = input_finish, .cancel = input_cancel};

/* ---- SIGNAL, RESIZE ---- */

static int signal_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    int r = process_lookup(call->runner, args->number[FIELD_PID], &process, err);
    if (r < 0)
        return r;
    uint64_t number = args->number[FIELD_SIGNAL];
    if (number < 1 || number > 64)
        return err_set(err, ERR_INVALID, "no signal %llu", (unsigned long long)number);
    if (process->phase > PHASE_RUNNING && !process->lives)
        return err_set(err, ERR_GONE, "process %d has ended", process->pid);
    if (process->lives)
        leaf_signal(process->leaf, (int)number); /* what it left */
    else if (args->number[FIELD_FLAGS] & CALL_ALL)
        process_signal(process, (int)number);
    else if (kill(-process->pid, (int)number) < 0)
        return err_errno(err, errno, "cannot signal process %d", process->pid);
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_signal = {.op = OP_SIGNAL, .begin = signal_begin};

static int resize_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    int r = process_lookup(call->runner, args->number[FIELD_PID], &process, err);
    if (r < 0)
        return r;
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

const struct op_def op_resize = {.op = OP_RESIZE, .begin = resize_begin};

/* ---- ATTACH ---- */

struct attach {
    struct watcher watcher;
    struct feeder feeder;
    struct rcall *call;
    struct process *process;
    uint64_t offset[2]; /* next byte to send of each stream */
};

static void attach_free(struct attach *attach) {
    watcher_drop(&attach->watcher);
    stream_resume(attach->process);
    feeder_drop(&attach->feeder);
    later_free(attach->call->runner, attach);
}

/* True: all there is of this stream was sent. A reader that falls behind the ring goes on at its oldest byte. */
static bool attach_stream(struct attach *attach, int i) {
    static uint8_t copy[COPY_BYTES]; /* one loop, one thread */
    const struct stream *stream = &attach->process->streams[i];
    while (attach->offset[i] < stream->total) {
        if (attach->offset[i] < stream_first(stream))
            attach->offset[i] = stream_first(stream);
        size_t len = attach->call->credit_out < COPY_BYTES ? attach->call->credit_out : COPY_BYTES;
        size_t n = stream_copy(stream, attach->offset[i], copy, len);
        n = reply_data(attach->call, stream->id, copy, n);
        if (n == 0)
            return false;
        attach->offset[i] += n;
    }
    return true;
}

static void attach_pump(struct rcall *call) {
    struct attach *attach = call->state;
    bool all = attach_stream(attach, 0);
    all = attach_stream(attach, 1) && all;
    stream_resume(attach->process);
    if (!all || attach->process->phase != PHASE_ENDED)
        return;
    autobuf fields = buf_max(512);
    process_put_result(attach->process, &fields);
    attach_free(attach);
    reply_end(call, &fields);
}

static void attach_changed(struct watcher *watcher) {
    attach_pump(((struct attach *)watcher)->call);
}

static int attach_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct process *process;
    int r = process_lookup(call->runner, args->number[FIELD_PID], &process, err);
    if (r < 0)
        return r;
    if (!process->background)
        return err_set(err, ERR_INVALID, "process %d is not in the background", process->pid);
    struct attach *attach = state_new(sizeof *attach);
    *attach = (struct attach){.watcher.changed = attach_changed, .call = call, .process = process};
    uint64_t offset = args->number[FIELD_OFFSET], total = process->streams[0].total;
    attach->offset[0] = offset < total ? offset : total;
    attach->offset[1] =
        offset == 0 ? 0 : process->streams[1].total; /* an offset is one of the output; errors go on live */
    attach->watcher.offset = process->pty ? &attach->offset[0] : NULL;
    call->state = attach;
    call->writable = attach_pump;
    watcher_add(process, &attach->watcher);
    buf_init(&attach->feeder.data, 2 * LIMIT_CREDIT_MOST_BYTES);
    if (process->phase <= PHASE_RUNNING && process->input.fd >= 0)
        feeder_add(process, &attach->feeder, call);
    attach->feeder.call = call;
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_FIRST, stream_first(&process->streams[0]));
    reply_stat(call, &fields, -1);
    attach_pump(call);
    return 0;
}

static int attach_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    return feeder_put(&((struct attach *)call->state)->feeder, data, len, err);
}

static void attach_cancel(struct rcall *call) {
    attach_free(call->state);
}

const struct op_def op_attach = {
    .op = OP_ATTACH, .begin = attach_begin, .input = attach_input, .cancel = attach_cancel};
