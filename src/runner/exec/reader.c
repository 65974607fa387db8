/* Readers of background commands: any number of calls, each of which gets all output at its own pace. Called by op_exec
 * and op_process. Invariant: the command waits for its slowest reader (stream_reader_room), so no reader loses a
 * byte. */
#include "base/mem.h"
#include "runner/exec/process.h"

struct output_reader {
    struct watcher watcher;
    struct feeder feeder;
    struct rcall *call;
    struct process *process;
    uint64_t offset[2]; /* next byte to send of each stream */
};

static void reader_free(struct output_reader *reader) {
    watcher_drop(&reader->watcher);
    stream_resume(reader->process);
    feeder_drop(&reader->feeder);
    later_free(reader->call->runner, reader);
}

static void reader_pump(struct rcall *call) {
    struct output_reader *reader = call->state;
    bool all = true;
    for (int i = 0; i < 2; i++) { /* skips what the ring lost before the reader came */
        struct stream *stream = &reader->process->streams[i];
        all = stream_send(call, stream, &reader->offset[i], stream->total) && all;
        if (reader->offset[i] > stream->read)
            stream->read = reader->offset[i];
    }
    stream_resume(reader->process);
    if (!all || reader->process->phase != PHASE_ENDED)
        return;
    autobuf fields = buf_max(512);
    process_put_result(reader->process, &fields);
    reader_free(reader);
    reply_end(call, &fields);
}

static void reader_changed(struct watcher *watcher) {
    reader_pump(((struct output_reader *)watcher)->call);
}

void reader_open(struct rcall *call, struct process *process, const uint64_t offset[2]) {
    struct output_reader *reader = xcalloc(1, sizeof *reader);
    *reader = (struct output_reader){
        .watcher.changed = reader_changed, .call = call, .process = process, .offset = {offset[0], offset[1]}};
    reader->watcher.offset = reader->offset;
    call->state = reader;
    call->writable = reader_pump;
    watcher_add(process, &reader->watcher);
    buf_init(&reader->feeder.data, 2 * LIMIT_CREDIT_MOST_BYTES);
    if (process->phase <= PHASE_RUNNING && process->input.fd >= 0)
        feeder_add(process, &reader->feeder, call);
    reader->feeder.call = call;
    reader_pump(call);
}

int reader_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    return feeder_put(&((struct output_reader *)call->state)->feeder, data, len, err);
}

void reader_close(struct rcall *call) {
    reader_free(call->state);
}
