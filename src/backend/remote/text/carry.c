/* Our own runner on a machine of the text form: carried there by `exec`, once, and found again by its hash; started for
 * each box by `stdio_start`; and the frames of each box in pieces (wire/piece.h), because runners write the data of
 * several `stdio_write` in any order. Called by text/text.c. Invariant: a stream is in the list from before the machine
 * may speak of it until the machine said that it ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/remote/text/call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"
#include "wire/piece.h"

enum {
    PROBE_MS = 10000,
    CARRY_S = 120,
    HELLO_MS = 30000,
    CLOSE_MS = 30000,       /* the runner ends its commands, runners of others give up after 8 s */
    RUNNER_BYTES = 5 << 20, /* in base64 and a message */
};

struct text_stream { /* the runner of one box */
    struct text_stream *next;
    struct machine_text *text;
    char id[32], box[17];
    int fd, wake;
    struct pieces pieces;
    bool over; /* the machine has no more of it */
    struct wire_reason *reason;
};

/* ---- carrying ---- */

/* Parameters: the hash, the workspace, and "put" when the program comes on standard input. Prints where it runs. */
static const char carry_script[] =
    "umask 077; h=$1 put=$3 from= why='no directory of its user can be written'\n"
    "good() { [ -O \"$1\" ] && [ \"$(sha256sum < \"$1\" | cut -c 1-64)\" = \"$h\" ]; }\n"
    "for d in \"${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/cubby\" \"${TMPDIR:-/tmp}/cubby-$(id -u)\" \"$2/.cubby\"; do\n"
    "  f=$d/runner-$h\n"
    "  if [ -n \"$put\" ]; then\n"
    "    { mkdir -p \"$d\" && [ -O \"$d\" ] && [ ! -L \"$d\" ]; } 2> /dev/null || continue\n"
    "    if [ -n \"$from\" ]; then cp \"$from\" \"$f.$$\"; rm -f \"$from\"; else base64 -d > \"$f.$$\"; fi\n"
    "    from=$f.$$\n"
    "    good \"$from\" || { why='it did not arrive whole'; continue; }\n"
    "    chmod 700 \"$from\" && \"$from\" --version > /dev/null || { why='it cannot be executed'; continue; }\n"
    "    for old in \"$d\"/runner-*; do [ \"$old\" = \"$from\" ] || rm -f \"$old\"; done\n"
    "    mv \"$from\" \"$f\"\n"
    "  fi\n"
    "  [ -O \"$d\" ] && [ -x \"$f\" ] && good \"$f\" && \"$f\" --version > /dev/null && { echo \"runner $f\"; exit; }\n"
    "done 2> /dev/null\n"
    "[ -z \"$from\" ] || rm -f \"$from\"\n"
    "echo \"why $why ($(uname -sm))\"\n";

/* 1: it runs at text->runner. */
static int carry_ask(struct machine_text *text, const char *hash, const struct buf *program, struct err *err) {
    autobuf line = buf_max(64 << 10);
    autobuf coded = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    autobuf out = buf_max(2 * LIMIT_PATH_BYTES);
    const char *const words[] = {hash, text->workspace, program ? "put" : ""};
    buf_puts(&line, "set --");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        buf_byte(&line, ' ');
        text_quote(&line, words[i]);
    }
    buf_puts(&line, "\n");
    buf_puts(&line, carry_script);
    if (program)
        text_base64(&coded, program->data, program->len);
    struct text_answer answer = {0};
    int r = text_ask_exec(text, NULL, buf_cstr(&line), NULL, &coded, CARRY_S, &answer, err);
    if (r == 0)
        r = text_output(&answer, "stdout", &out, err);
    text_answer_done(text, &answer);
    if (r < 0)
        return r;
    char *said = buf_cstr(&out);
    said[strcspn(said, "\n")] = '\0';
    if (strncmp(said, "runner /", 8) == 0) {
        text->runner = xstrdup(said + 7);
        return 1;
    }
    err_set(err, ERR_UNSUPPORTED, "%.200s", strncmp(said, "why ", 4) == 0 ? said + 4 : "its shell said something else");
    return program ? -ERR_UNSUPPORTED : 0;
}

static int program_read(const char *path, struct buf *out, char hash[65], struct err *err) {
    struct stat status;
    autofd fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, path ? errno : ENOENT, "our own runner '%s'", path ? path : "");
    uint8_t *room = status.st_size <= RUNNER_BYTES ? buf_reserve(out, (size_t)status.st_size + 1) : NULL;
    ssize_t n = room ? fd_read_full(fd, room, (size_t)status.st_size) : -EFBIG;
    if (n < 0)
        return err_errno(err, (int)-n, "our own runner '%s'", path);
    out->len = (size_t)n;
    uint8_t digest[32];
    sha256(out->data, out->len, digest);
    text_hex(hash, digest, sizeof digest);
    return 0;
}

/* Whether the runner has streams is asked first: of one that is not there, which only a runner without them finds odd. */
static int carry_run(struct machine_text *text, struct err *err) {
    autobuf members = buf_max(256);
    autobuf program = buf_max(RUNNER_BYTES + 1);
    struct json json;
    json_init(&json, &members);
    json_put_str(&json, "stream_id", "none");
    char hash[65];
    int r = text_ask(text, NULL, TEXT_STDIO_CLOSE, &members, PROBE_MS, NULL, err);
    if (r == -ERR_UNSUPPORTED)
        return err_set(err, ERR_UNSUPPORTED, "it starts no programs with open streams");
    if (r == -ERR_TIMEOUT || r == -ERR_GONE || r == -ERR_LIMIT)
        return r;
    r = program_read(text->options.runner_path, &program, hash, err);
    if (r == 0)
        r = carry_ask(text, hash, NULL, err);
    return r == 0 ? carry_ask(text, hash, &program, err) : r;
}

int text_carry(struct machine_text *text, bool *ret_runs, struct err *err) {
    pthread_mutex_lock(&text->lock);
    while (text->carrying)
        text_wait_locked(text, 0);
    bool mine = text->carrying = !text->carried;
    pthread_mutex_unlock(&text->lock);
    int r = mine ? carry_run(text, err) : 0;
    pthread_mutex_lock(&text->lock);
    if (mine) {
        text->carrying = false;
        text->carried = r != -ERR_GONE && r != -ERR_LIMIT; /* else again with the next box */
        text->runs = r > 0;
        if (r < 0 && text->carried)
            snprintf(text->few_why, sizeof text->few_why, "cubby-runner cannot run there: %.250s", err->text);
        pthread_cond_broadcast(&text->changed);
    }
    r = text->dead ? text_gone_locked(text, err) : text->carried ? 0 : -err->code;
    *ret_runs = text->runs;
    pthread_mutex_unlock(&text->lock);
    return r;
}

void text_carry_lacks(struct machine_text *text, const char *why) {
    pthread_mutex_lock(&text->lock);
    text->runs = false;
    snprintf(text->few_why, sizeof text->few_why, "cubby-runner cannot run there: %.250s", why);
    pthread_mutex_unlock(&text->lock);
}

/* ---- a stream ---- */

static void stream_wake(struct text_stream *stream) {
    uint64_t one = 1;
    ssize_t written = write(stream->wake, &one, sizeof one);
    (void)written; /* full: it is awake already */
}

static void stream_over_locked(struct text_stream *stream, const char *why) {
    wire_reason_set(stream->reason, why);
    stream->over = true;
    stream_wake(stream);
}

int text_carry_take_locked(struct machine_text *text, const struct text_answer *push) {
    const char *id = text_member(push, "stream_id", NULL);
    struct text_stream *stream = id ? text->streams : NULL;
    while (stream && strcmp(stream->id, id) != 0)
        stream = stream->next;
    if (!stream || stream->over)
        return 1;
    char why[300];
    struct err err;
    if (strcmp(push->type, "stdio_exit") == 0) {
        snprintf(why, sizeof why, "the box's runner on machine %s ended, status %lld", text->name,
                 (long long)text_number(push, "exit_code", 0));
        stream_over_locked(stream, why);
        return 0;
    }
    size_t len = 0;
    const char *data = strcmp(push->type, "stdio_data") == 0 ? text_member(push, "data", &len) : NULL;
    if (!data)
        return 1;
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    int r = text_unbase64(&bytes, data, len) ? pieces_feed(&stream->pieces, bytes.data, bytes.len, &err)
                                             : err_set(&err, ERR_PROTOCOL, "it is not base64");
    if (r < 0) {
        snprintf(why, sizeof why, "machine %s sent what its runner cannot have said: %.200s", text->name, err.text);
        stream_over_locked(stream, why);
    }
    stream_wake(stream);
    return 0;
}

void text_carry_end_locked(struct machine_text *text, const char *why) {
    for (struct text_stream *stream = text->streams; stream; stream = stream->next)
        stream_over_locked(stream, why);
}

static void stream_members(struct buf *members, struct json *json, const struct text_stream *stream) {
    buf_init(members, LIMIT_TEXT_MESSAGE_BYTES);
    json_init(json, members);
    json_put_str(json, "stream_id", stream->id);
}

/* One piece to the machine. */
static int stream_send(struct text_stream *stream, const uint8_t *data, size_t len, struct err *err) {
    autobuf piece, coded, members;
    struct json json;
    buf_init(&piece, PIECE_HEAD_BYTES + PIECE_BYTES);
    buf_init(&coded, 2 * PIECE_BYTES);
    pthread_mutex_lock(&stream->text->lock);
    pieces_put(&stream->pieces, &piece, data, len);
    pthread_mutex_unlock(&stream->text->lock);
    text_base64(&coded, piece.data, piece.len);
    stream_members(&members, &json, stream);
    json_put_strn(&json, "data", (const char *)coded.data, coded.len);
    return text_send(stream->text, TEXT_STDIO_WRITE, &members, err);
}

/* Moves what can be moved, then waits. False: one of both sides is over. */
static bool stream_turn(struct text_stream *stream, uint8_t *data) {
    struct pieces *pieces = &stream->pieces;
    struct err err;
    pthread_mutex_lock(&stream->text->lock);
    if (pieces->ready.len) {
        ssize_t n = send(stream->fd, pieces->ready.data, pieces->ready.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        pieces_take(pieces, n > 0 ? (size_t)n : 0);
    }
    size_t room = pieces_room(pieces), waits = pieces->ready.len;
    bool over = stream->over && !waits, due = pieces_due(pieces);
    pthread_mutex_unlock(&stream->text->lock);
    if (over || (due && stream_send(stream, NULL, 0, &err) < 0))
        return false;
    struct pollfd polls[] = {
        {.fd = stream->fd, .events = (short)((room ? POLLIN : 0) | (waits ? POLLOUT : 0))},
        {.fd = stream->wake, .events = POLLIN},
    };
    poll(polls, 2, -1);
    uint64_t count;
    ssize_t taken = polls[1].revents ? read(stream->wake, &count, sizeof count) : 0;
    (void)taken;
    if (!room || !(polls[0].revents & (POLLIN | POLLHUP | POLLERR)))
        return !(polls[0].revents & POLLHUP); /* nobody has the wire any more */
    ssize_t n = recv(stream->fd, data, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    return n > 0 && stream_send(stream, data, (size_t)n, &err) == 0;
}

static void stream_close(struct text_stream *stream, uint64_t wait_ms) {
    struct machine_text *text = stream->text;
    autobuf members;
    struct json json;
    struct err ignored;
    pthread_mutex_lock(&text->lock);
    fd_close(&stream->fd); /* the wire ends now, whatever the machine says */
    bool over = stream->over;
    pthread_mutex_unlock(&text->lock);
    stream_members(&members, &json, stream);
    if (!over)
        text_ask(text, NULL, TEXT_STDIO_CLOSE, &members, wait_ms, NULL, &ignored);
    pthread_mutex_lock(&text->lock);
    struct text_stream **at = &text->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    pieces_done(&stream->pieces);
    wire_reason_unref(stream->reason);
    fd_close(&stream->wake);
    free(stream);
    machine_text_unref(text);
}

static void *stream_main(void *argument) {
    struct text_stream *stream = argument;
    uint8_t *data = xmalloc(PIECE_BYTES);
    while (stream_turn(stream, data))
        ;
    free(data);
    stream_close(stream, CLOSE_MS);
    return NULL;
}

static int stream_start(struct text_stream *stream, const struct spec *spec, struct err *err) {
    struct machine_text *text = stream->text;
    autobuf map; /* the workspace at its own path: files outside of it are out of reach */
    buf_init(&map, LIMIT_PATH_BYTES + 8);
    buf_printf(&map, "=%s:rw", text->workspace);
    const char *const words[] = {"serve",        "--pieces",      "1",
                                 "--workspace",  text->workspace, "--map",
                                 buf_cstr(&map), "--shell",       spec->shell ? spec->shell : text->shell};
    autobuf members;
    struct json json;
    stream_members(&members, &json, stream);
    json_put_str(&json, "command", text->runner);
    json_put_open(&json, "args", '[');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        json_str(&json, words[i]);
    json_close(&json, ']');
    json_put_open(&json, "env", '[');
    for (size_t i = 0; i < spec->env_count; i++)
        json_str(&json, spec->env[i]);
    json_close(&json, ']');
    return text_ask(text, NULL, TEXT_STDIO_START, &members, TEXT_ASK_MS, NULL, err);
}

int text_carry_open(struct machine_text *text, const struct spec *spec, struct wire **ret_wire, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a wire to machine %s", text->name);
    struct text_stream *stream = xcalloc(1, sizeof *stream);
    struct wire_reason *reason = wire_reason_new();
    *stream = (struct text_stream){.text = machine_text_ref(text), .fd = pair[0], .reason = wire_reason_ref(reason)};
    stream->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pieces_init(&stream->pieces);
    text_id_copy(stream->box, spec->id);
    pthread_mutex_lock(&text->lock);
    snprintf(stream->id, sizeof stream->id, "cubby-%016llx", (unsigned long long)text->next_id++);
    stream->over = text->dead;
    stream->next = text->streams;
    text->streams = stream;
    pthread_mutex_unlock(&text->lock);
    int r =
        stream->wake < 0 ? err_errno(err, errno, "a wire to machine %s", text->name) : stream_start(stream, spec, err);
    if (r == 0)
        r = text_thread(stream_main, stream, err);
    if (r < 0) {
        close(pair[1]);
        stream_close(stream, 1); /* it may have started all the same; nobody waits for that */
    } else {
        r = wire_new(pair[1], WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err);
        if (r == 0)
            wire_set_reason(*ret_wire, reason);
        else
            err_wrap(err, "machine %s: the box's runner did not start", text->name);
    }
    wire_reason_unref(reason);
    return r;
}

int text_carry_stop(struct machine_text *text, const char *box_id, struct err *err) {
    uint64_t deadline_ms = clock_ms() + CLOSE_MS;
    int r = 0;
    pthread_mutex_lock(&text->lock);
    for (bool in_time = true; r == 0;) {
        struct text_stream *stream = text->streams;
        while (stream && strcmp(stream->box, box_id) != 0)
            stream = stream->next;
        if (!stream)
            break;
        if (stream->fd >= 0)
            shutdown(stream->fd, SHUT_RDWR);
        if (!in_time)
            r = err_set(err, ERR_TIMEOUT, "machine %s did not end box %s", text->name, box_id);
        else
            in_time = text_wait_locked(text, deadline_ms);
    }
    pthread_mutex_unlock(&text->lock);
    return r;
}
