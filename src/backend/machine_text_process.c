/* Background commands on a machine of the text form, by scripts: a directory for each below ${TMPDIR:-/tmp}/cubby-UID-BOX,
 * named by its process id, with its output in files. So offsets are exact, an answer has a bound, and what the connection
 * does not end is found again. Called through the table of machine_text_wire.c. Not to break: the directory is the user's
 * own and nobody else's, or nothing is started. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/text.h"

enum {
    OUTPUT_MOST = 2 << 20, /* of one answer */
    WAIT_MOST_MS = 60000,  /* of one script; then it is asked again */
    COMMAND_BYTES = 4096,
};

/* $1 is the box. The lines that every script begins with. */
#define SPOOL "d=\"${TMPDIR:-/tmp}/cubby-$(id -u)-$1\"; umask 077\n"

/* $2 shell, $3 directory, $4 seconds or 0, $5 "in" for an open input, $6 what to show, $7 the command. It runs below a
 * shell of its own session, which writes down how it ended; that one survives what is sent to the group to end it. */
static const char spawn_script[] = SPOOL
    "cd -- \"$3\" || exit 10\n"
    "mkdir -p -- \"$d\" && [ -O \"$d\" ] && [ ! -L \"$d\" ] || exit 13\n"
    "wrap='d=$1; shell=$2; limit=$3; input=$4; shown=$5; command=$6; p=$d/$$; rm -rf \"$p\"; mkdir \"$p\" || exit 1\n"
    "trap : HUP INT QUIT TERM USR1 USR2\n"
    "printf %s \"$shown\" > \"$p/command\"; date +%s > \"$p/started\"; : > \"$p/1\"; : > \"$p/2\"\n"
    "if [ \"$input\" = in ]; then mkfifo \"$p/in\"; sleep 2147483647 > \"$p/in\" & echo $! > \"$p/keep\"; else ln -s "
    "/dev/null \"$p/in\"; fi\n"
    "if [ \"$limit\" != 0 ]; then (sleep \"$limit\"; : > \"$p/late\"; kill -KILL -$$) & fi\n"
    "echo $$ > \"$p/pid\"\n"
    "\"$shell\" -c \"$command\" < \"$p/in\" >> \"$p/1\" 2>> \"$p/2\"\n"
    "echo $? > \"$p/new\"; mv \"$p/new\" \"$p/status\"; kill $(cat \"$p/keep\" 2>/dev/null) 2>/dev/null; kill -KILL "
    "-$$'\n"
    "if command -v setsid >/dev/null 2>&1; then s=setsid; else s=nohup; fi\n"
    "$s sh -c \"$wrap\" cubby \"$d\" \"$2\" \"$4\" \"$5\" \"$6\" \"$7\" </dev/null >/dev/null 2>&1 &\n"
    "p=$!; n=0\n"
    "until [ -s \"$d/$p/pid\" ]; do n=$((n+1)); [ $n -lt 500 ] || { echo 'it did not start' >&2; exit 1; }\n"
    "sleep 0.02 2>/dev/null || sleep 1; done\n"
    "echo $p";

/* $2 a pid, or nothing for all. A line of numbers and the command, ended by NUL, for each. */
static const char ps_script[] = SPOOL
    "for p in \"$d\"/${2:-[0-9]*}; do [ -s \"$p/pid\" ] || continue\n"
    "i=${p##*/}; s=-; l=0; [ ! -e \"$p/late\" ] || l=1\n"
    "if [ -s \"$p/status\" ]; then s=$(cat \"$p/status\"); elif ! kill -0 \"$i\" 2>/dev/null; then s=x; fi\n"
    "echo $i $s $l $(cat \"$p/started\") $(wc -c < \"$p/1\") $(wc -c < \"$p/2\"); cat \"$p/command\"; printf '\\000'\n"
    "done";

/* $2 pid, $3 stream, $4 offset, $5 most, $6 turns of a tenth of a second, $7 of the other stream. */
static const char output_script[] =
    SPOOL "p=\"$d/$2\"; [ -s \"$p/pid\" ] || { echo \"no process $2\" >&2; exit 10; }\n"
          "o=$((3-$3)); n=0\n"
          "while :; do a=1; [ ! -s \"$p/status\" ] && kill -0 \"$2\" 2>/dev/null || a=0\n"
          "have=$(($(wc -c < \"$p/$3\"))); other=$(($(wc -c < \"$p/$o\")))\n"
          "[ $have -le $4 ] && [ $a = 1 ] && [ $n -lt $6 ] || break\n"
          "[ $7 -lt 0 ] || [ $other -le $7 ] || break\n"
          "n=$((n+1)); sleep 0.1 2>/dev/null || sleep 1; done\n"
          "next=$have; [ $((have-$4)) -le $5 ] || next=$(($4+$5)); [ $next -ge $4 ] || next=$4\n"
          "echo $a $next; [ $next -le $4 ] || tail -c +$(($4+1)) \"$p/$3\" | head -c $((next-$4))";

/* $2 pid, $3 "close" at the end. */
static const char input_script[] =
    SPOOL "p=\"$d/$2\"; [ -s \"$p/pid\" ] || { echo \"no process $2\" >&2; exit 10; }\n"
          "[ ! -s \"$p/status\" ] && [ -p \"$p/in\" ] || { echo \"process $2 takes no input\" >&2; exit 12; }\n"
          "base64 -d > \"$p/in\" || exit 12\n"
          "[ \"$3\" != close ] || kill $(cat \"$p/keep\")";

/* $2 pid, $3 the signal's number. The shell around it stays, to write down how it ended; KILL takes that too. */
static const char signal_script[] = SPOOL "p=\"$d/$2\"; [ -s \"$p/pid\" ] || { echo \"no process $2\" >&2; exit 10; }\n"
                                          "[ ! -s \"$p/status\" ] || { echo \"process $2 has ended\" >&2; exit 12; }\n"
                                          "kill -$3 -$2 2>/dev/null || kill -$3 $2 || exit 12";

static const char end_script[] =
    SPOOL "[ -d \"$d\" ] && [ -O \"$d\" ] && [ ! -L \"$d\" ] || exit 0\n"
          "for p in \"$d\"/[0-9]*; do i=${p##*/}; [ -s \"$p/pid\" ] && [ ! -s \"$p/status\" ] || continue\n"
          "kill -KILL -$i 2>/dev/null || kill -KILL $i 2>/dev/null; done; rm -rf -- \"$d\"";

static const char *number(struct text_call *call, uint64_t value) {
    return arena_printf(&call->arena, "%" PRIu64, value);
}

/* ---- spawn ---- */

static char *shown_of(struct text_call *call) {
    const struct fields *args = &call->args;
    autobuf text;
    buf_init(&text, 2u * LIMIT_CALL_ARGS_BYTES);
    if (args->text[FIELD_COMMAND])
        buf_puts(&text, args->text[FIELD_COMMAND]);
    for (size_t i = 0; !args->text[FIELD_COMMAND] && i < args->argc; i++) {
        buf_puts(&text, i ? " " : "");
        buf_puts(&text, args->argv[i]);
    }
    size_t len = text.len < COMMAND_BYTES ? text.len : COMMAND_BYTES;
    while (len > 0 && len < text.len && (text.data[len] & 0xc0) == 0x80)
        len--;
    return arena_copy(&call->arena, text.data, len);
}

int text_process_spawn(struct text_call *call, const struct text_command *command, struct err *err) {
    const struct fields *args = &call->args;
    if (args->secret_count)
        return err_set(err, ERR_UNSUPPORTED,
                       "the output of a background command on machine %s cannot be kept free of secrets",
                       call->text->name);
    autobuf line, out;
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    for (const char **row = command->env; *row; row++) {
        const char *equals = strchr(*row, '=');
        if (!equals)
            continue;
        buf_printf(&line, "export %.*s=", (int)(equals - *row), *row);
        text_quote(&line, equals + 1);
        buf_byte(&line, '\n');
    }
    buf_puts(&line, command->command);
    uint64_t timeout_s = (args->number[FIELD_TIMEOUT_MS] + 999) / 1000;
    const char *const words[] = {call->box->id,
                                 command->shell,
                                 command->dir,
                                 number(call, timeout_s),
                                 args->number[FIELD_FLAGS] & CALL_STDIN ? "in" : "none",
                                 shown_of(call),
                                 buf_cstr(&line),
                                 NULL};
    if (line.failed)
        return err_set(err, ERR_TOO_LARGE, "the command is too long for machine %s", call->text->name);
    int r = text_script(call->text, call, spawn_script, words, NULL, TEXT_ASK_MS, &out, err);
    uint64_t pid = 0;
    while (out.len > 0 && out.data[out.len - 1] == '\n')
        out.len--;
    if (r == 0 && (!text_u64(buf_cstr(&out), UINT32_MAX, &pid) || pid == 0))
        r = err_set(err, ERR_PROTOCOL, "machine %s told no number of a process", call->text->name);
    if (r < 0)
        return r;
    field_number(&call->end, FIELD_PID, pid);
    field_number(&call->end, FIELD_STARTED_MS, clock_wall_ms());
    return 0;
}

/* ---- looking ---- */

static bool number_next(char **at, uint64_t *ret_value) {
    size_t len = strcspn(*at, " \n");
    char word[24];
    if (len == 0 || len >= sizeof word)
        return false;
    memcpy(word, *at, len);
    word[len] = '\0';
    *at += len;
    *at += **at ? 1 : 0;
    return text_u64(word, UINT64_MAX / 2, ret_value);
}

static void process_ended(struct buf *out, const char *status, bool late) {
    uint64_t code;
    if (late)
        field_number(out, FIELD_TIMED_OUT, 1);
    if (!text_u64(status, 255, &code))
        field_number(out, FIELD_SIGNALLED, 9);
    else if (code > 128 && code <= 128 + 64)
        field_number(out, FIELD_SIGNALLED, code - 128);
    else
        field_number(out, FIELD_EXIT, code);
}

/* One record of ps_script: "PID STATUS LATE STARTED OUT ERR\nCOMMAND". */
static int process_item(struct text_call *call, char *record, struct err *err) {
    uint64_t pid, late, started, bytes[2];
    char status[8] = "";
    char *at = record, *line = strchr(record, '\n');
    bool good = line && number_next(&at, &pid);
    size_t len = good ? strcspn(at, " \n") : 0;
    good = good && len > 0 && len < sizeof status;
    if (good) {
        memcpy(status, at, len);
        at += len + 1;
    }
    if (!good || !number_next(&at, &late) || !number_next(&at, &started) || !number_next(&at, &bytes[0]) ||
        !number_next(&at, &bytes[1]))
        return err_set(err, ERR_PROTOCOL, "machine %s lists its processes in a way of its own", call->text->name);
    autobuf item;
    buf_init(&item, LIMIT_FRAME_PAYLOAD_BYTES);
    bool running = strcmp(status, "-") == 0;
    field_number(&item, FIELD_PID, pid);
    line[1 + strnlen(line + 1, COMMAND_BYTES)] = '\0';
    field_text(&item, FIELD_COMMAND, line + 1);
    field_number(&item, FIELD_STATE, running ? PROCESS_RUNNING : PROCESS_EXITED);
    field_number(&item, FIELD_STARTED_MS, started * 1000);
    field_number(&item, FIELD_BYTES_OUT, bytes[0]);
    field_number(&item, FIELD_BYTES_ERR, bytes[1]);
    if (!running)
        process_ended(&item, status, late);
    return text_item(call, &item, err);
}

int text_op_ps(struct text_call *call, struct err *err) {
    uint64_t pid = call->args.number[FIELD_PID];
    bool found = false;
    int r = text_stream_ps(call, pid, &found, err);
    if (r < 0 || (found && pid))
        return r;
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    const char *const words[] = {call->box->id, pid ? number(call, pid) : "", NULL};
    r = text_script(call->text, call, ps_script, words, NULL, TEXT_ASK_MS, &out, err);
    unsigned count = 0;
    char *text = r == 0 ? buf_cstr(&out) : NULL;
    for (size_t at = 0; text && r == 0 && at < out.len && ++count <= LIMIT_PROCESSES;) {
        size_t len = strlen(text + at);
        r = process_item(call, text + at, err);
        at += len + 1;
    }
    return r;
}

/* ---- output ---- */

static int output_answer(struct text_call *call, struct buf *out, struct err *err) {
    char *text = buf_cstr(out), *at = text;
    uint64_t running, next;
    if (!text || !memchr(out->data, '\n', out->len) || !number_next(&at, &running) || !number_next(&at, &next))
        return err_set(err, ERR_PROTOCOL, "machine %s tells output in a way of its own", call->text->name);
    autobuf fields;
    buf_init(&fields, 128);
    field_number(&fields, FIELD_FIRST, 0);
    field_number(&fields, FIELD_NEXT, next);
    field_number(&fields, FIELD_STATE, running ? PROCESS_RUNNING : PROCESS_EXITED);
    int r = text_stat(call, &fields, err);
    size_t head = (size_t)(at - text), len = out->len - head;
    uint64_t most = next - call->args.number[FIELD_OFFSET];
    return r < 0 ? r : text_data(call, STREAM_STDOUT, at, len < most ? len : (size_t)most, err);
}

int text_op_output(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    bool found = false;
    int r = text_stream_output(call, &found, err);
    if (r < 0 || found)
        return r;
    uint64_t length = args->number[FIELD_LENGTH] < OUTPUT_MOST ? args->number[FIELD_LENGTH] : OUTPUT_MOST;
    uint64_t until_ms = clock_ms() + args->number[FIELD_WAIT_MS];
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    uint64_t stream = args->number[FIELD_STREAM] == STREAM_STDERR ? 2 : 1;
    for (;;) {
        uint64_t now_ms = clock_ms(), wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
        bool last = wait_ms <= WAIT_MOST_MS;
        wait_ms = last ? wait_ms : WAIT_MOST_MS;
        const char *const words[] = {call->box->id,
                                     number(call, args->number[FIELD_PID]),
                                     number(call, stream),
                                     number(call, args->number[FIELD_OFFSET]),
                                     number(call, length),
                                     number(call, wait_ms / 100),
                                     args->has[FIELD_NEXT] ? number(call, args->number[FIELD_NEXT]) : "-1",
                                     NULL};
        r = text_script(call->text, call, output_script, words, NULL, wait_ms + TEXT_ASK_MS, &out, err);
        /* Nothing yet, and it runs: the first number says so, the second is where we are. */
        char *text = r == 0 ? buf_cstr(&out) : NULL;
        const char *still = arena_printf(&call->arena, "1 %" PRIu64 "\n", args->number[FIELD_OFFSET]);
        if (r < 0 || last || !text || strcmp(text, still) != 0)
            break;
    }
    return r < 0 ? r : output_answer(call, &out, err);
}

/* ---- feeding and ending ---- */

int text_op_input(struct text_call *call, struct err *err) {
    bool found = false, closing = call->args.number[FIELD_FLAGS] & CALL_CLOSE;
    int r = text_stream_input(call, &found, err);
    if (r < 0 || found)
        return r;
    autobuf input, coded, out;
    buf_init(&input, LIMIT_TEXT_FILE_BYTES);
    buf_init(&coded, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    r = text_input_all(call, &input, err);
    text_base64(&coded, input.data, input.len);
    const char *const words[] = {call->box->id, number(call, call->args.number[FIELD_PID]), closing ? "close" : "",
                                 NULL};
    if (r == 0)
        r = text_script(call->text, call, input_script, words, &coded, TEXT_ASK_MS, &out, err);
    field_number(&call->end, FIELD_SIZE, input.len);
    return r;
}

int text_op_signal(struct text_call *call, struct err *err) {
    bool found = false;
    int r = text_stream_signal(call, &found, err);
    if (r < 0 || found)
        return r;
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    const char *const words[] = {call->box->id, number(call, call->args.number[FIELD_PID]),
                                 number(call, call->args.number[FIELD_SIGNAL]), NULL};
    return text_script(call->text, call, signal_script, words, NULL, TEXT_ASK_MS, &out, err);
}

int text_process_end(struct machine_text *text, const char *box_id, struct err *err) {
    const char *const words[] = {box_id, NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    int r = text_script(text, NULL, end_script, words, NULL, TEXT_ASK_MS, &out, err);
    return r == -ERR_UNSUPPORTED ? 0 : r; /* without a shell nothing was started */
}
