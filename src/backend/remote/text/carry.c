/* Our own runner on a machine of the text form: carried there by `exec`, once, and found again by its hash; started for
 * each box by `stdio_start`; and the frames of each box in pieces (wire/piece.h), because runners write the data of
 * several `stdio_write` in any order. Called by text/text.c. */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/base.h"
#include "backend/remote/text/call.h"
#include "base/sha256.h"
#include "base/sync.h"

enum {
    PROBE_MS = 10000,
    CARRY_S = 120,
    RUNNER_BYTES = 5 << 20, /* in base64 and a message */
};

/* Parameters: the hash, the workspace, and "put" when the program comes on standard input. Prints where it runs. */
static const char carry_script[] =
    "umask 077; h=$1 put=$3 from= why='no directory of its user can be written'\n"
    "good() { [ -O \"$1\" ] && [ \"$(sha256sum < \"$1\" | cut -c 1-64)\" = \"$h\" ]; }\n"
    "for d in \"${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/cubby\" \"${TMPDIR:-/tmp}/cubby-$(id -u)\" "
    "\"$2/.cubby\"; do\n"
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
    buf_puts(&line, "set --");
    text_quote_all(&line, (const char *const[]){hash, text->workspace, program ? "put" : ""}, 3);
    buf_printf(&line, "\n%s", carry_script);
    if (program)
        text_base64(&coded, program->data, program->len);
    struct text_answer answer = {0};
    int r = text_ask_exec(text, NULL, buf_cstr(&line), NULL, &coded, CARRY_S, &answer, err)
                ?: text_output(&answer, "stdout", &out, err);
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

/* The machine is first asked to close a stream that does not exist: only a runner without streams finds that odd. */
static int carry_run(struct machine_text *text, struct err *err) {
    const char *path = text->options.runner_path;
    autobuf members = buf_max(256);
    autobuf program = buf_max(RUNNER_BYTES + 1);
    struct json json = {.out = &members};
    json_put_str(&json, "stream_id", "none");
    int r = text_ask(text, NULL, "stdio_close", "ok", &members, PROBE_MS, NULL, err);
    if (r == -ERR_UNSUPPORTED)
        return err_set(err, ERR_UNSUPPORTED, "it starts no programs with open streams");
    if (r == -ERR_TIMEOUT || r == -ERR_GONE || r == -ERR_LIMIT)
        return r;
    char *room = (char *)buf_reserve(&program, RUNNER_BYTES + 1);
    ssize_t n = path ? fd_read_file(AT_FDCWD, path, room, RUNNER_BYTES + 1) : -ENOENT;
    if (n < 0)
        return err_errno(err, (int)-n, "our own runner '%s'", path ? path : "");
    program.len = (size_t)n;
    uint8_t digest[32];
    char hash[65];
    sha256(program.data, program.len, digest);
    text_hex(hash, digest, sizeof digest);
    r = carry_ask(text, hash, NULL, err);
    return r == 0 ? carry_ask(text, hash, &program, err) : r;
}

int text_carry(struct machine_text *text, bool *ret_runs, struct err *err) {
    pthread_mutex_lock(&text->lock);
    while (text->carrying)
        cond_wait_until(&text->changed, &text->lock, 0);
    bool mine = text->carrying = !text->carried;
    pthread_mutex_unlock(&text->lock);
    int r = mine ? carry_run(text, err) : 0;
    autolock(&text->lock);
    if (mine) {
        text->carrying = false;
        text->carried = r != -ERR_GONE && r != -ERR_LIMIT; /* else again with the next box */
        text->runs = r > 0;
        if (r < 0 && text->carried)
            text_few_locked(text, err);
        pthread_cond_broadcast(&text->changed);
    }
    *ret_runs = text->runs;
    return text->dead ? text_gone_locked(text, err) : text->carried ? 0 : -err->code;
}

/* ---- the frames of a box ---- */

int text_carry_take_locked(struct machine_text *text, const struct text_answer *push) {
    const char *id = text_member(push, "stream_id", NULL);
    struct text_wire *wire = id ? list_find(text->wires, open, strcmp(open->id, id) == 0) : NULL;
    if (!wire || wire->over || !wire->carried)
        return 1;
    char why[300];
    struct err err;
    if (strcmp(push->type, "stdio_exit") == 0) {
        snprintf(why, sizeof why, "the box's runner on machine %s ended, status %lld", text->name,
                 (long long)text_number(push, "exit_code"));
        text_wire_over_locked(wire, why);
        return 0;
    }
    size_t len = 0;
    const char *data = strcmp(push->type, "stdio_data") == 0 ? text_member(push, "data", &len) : NULL;
    if (!data)
        return 1;
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    int r = text_unbase64(&bytes, data, len) ? pieces_feed(&wire->pieces, bytes.data, bytes.len, &err)
                                             : err_set(&err, ERR_PROTOCOL, "it is not base64");
    if (r < 0) {
        snprintf(why, sizeof why, "machine %s sent bytes that its runner cannot have sent: %.200s", text->name,
                 err.text);
        text_wire_over_locked(wire, why);
    }
    eventfd_write(wire->wake, 1);
    return 0;
}

static int carry_send(struct text_wire *wire, const uint8_t *data, size_t len, struct err *err) {
    autobuf piece = buf_max(PIECE_HEAD_BYTES + PIECE_BYTES);
    autobuf members = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct json json = {.out = &members};
    pthread_mutex_lock(&wire->text->lock);
    pieces_put(&wire->pieces, &piece, data, len);
    pthread_mutex_unlock(&wire->text->lock);
    json_put_str(&json, "stream_id", wire->id);
    json_put_bytes(&json, "data", piece.data, piece.len, false);
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    return text_encode(wire->text, NULL, "stdio_write", &members, &bytes, err)
               ?: pump_say(wire->text->pump, &bytes, err);
}

/* Moves what can be moved, then waits. False: one of both sides is over. */
static bool carry_turn(struct text_wire *wire, uint8_t *data) {
    struct pieces *pieces = &wire->pieces;
    struct err err;
    pthread_mutex_lock(&wire->text->lock);
    if (pieces->ready.len) {
        ssize_t n = send(wire->fd, pieces->ready.data, pieces->ready.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        pieces_take(pieces, n > 0 ? (size_t)n : 0);
    }
    size_t room = pieces_room(pieces), waits = pieces->ready.len;
    bool over = wire->over && !waits, due = pieces_due(pieces);
    pthread_mutex_unlock(&wire->text->lock);
    if (over || (due && carry_send(wire, NULL, 0, &err) < 0))
        return false;
    struct pollfd polls[] = {
        {.fd = wire->fd, .events = (short)((room ? POLLIN : 0) | (waits ? POLLOUT : 0))},
        {.fd = wire->wake, .events = POLLIN},
    };
    poll(polls, 2, -1);
    eventfd_t count;
    if (polls[1].revents)
        eventfd_read(wire->wake, &count);
    if (!room || !(polls[0].revents & (POLLIN | POLLHUP | POLLERR)))
        return !(polls[0].revents & POLLHUP); /* the daemon closed the wire */
    ssize_t n = recv(wire->fd, data, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    return n > 0 && carry_send(wire, data, (size_t)n, &err) == 0;
}

void *text_carry_main(void *argument) {
    struct text_wire *wire = argument;
    struct machine_text *text = wire->text;
    uint8_t *data = xmalloc(PIECE_BYTES);
    while (carry_turn(wire, data))
        ;
    free(data);
    pthread_mutex_lock(&text->lock);
    fd_close(&wire->fd); /* the wire ends now, whatever the machine says */
    bool over = wire->over;
    pthread_mutex_unlock(&text->lock);
    autobuf members = buf_max(256);
    struct json json = {.out = &members};
    struct err ignored;
    json_put_str(&json, "stream_id", wire->id);
    if (!over)
        text_ask(text, NULL, "stdio_close", "ok", &members, wire->started ? TEXT_STOP_MS : 1, NULL, &ignored);
    text_wire_free(wire);
    return NULL;
}

int text_carry_start(struct text_wire *wire, const struct spec *spec, struct err *err) {
    struct machine_text *text = wire->text;
    /* The workspace at its own path: files outside of it are out of reach. */
    const char *map = arena_printf(&wire->arena, "=%s:rw", text->workspace);
    const char *const words[] = {"serve", "--pieces", "1",       "--workspace", text->workspace,
                                 "--map", map,        "--shell", wire->shell,   NULL};
    autobuf members = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct json json = {.out = &members};
    json_put_str(&json, "stream_id", wire->id);
    json_put_str(&json, "command", text->runner);
    json_put_texts(&json, "args", words);
    json_put_texts(&json, "env", spec->env);
    return text_ask(text, NULL, "stdio_start", "ok", &members, TEXT_ASK_MS, NULL, err);
}
