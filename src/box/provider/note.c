/* Notes of boxes as JSON files. Called by the provider. Invariant: a note is replaced whole, never changed in place. */
#include "box/provider/note.h"

#include <jansson.h>

#include "base/base.h"
#include "base/json.h"
#include "box/provider/record.h"

#define NOTE_FILE_BYTES (NOTE_TEXT_BYTES * 7) /* every byte of the text may need an escape */
static const char *const note_actions[] = {[NOTE_KILL] = "kill", [NOTE_PAUSE] = "pause", [NOTE_STOP] = "stop"};

struct note *note_new(const struct note *note) {
    struct note *copy = xcalloc(1, sizeof *copy);
    *copy = *note;
    copy->text = xstrdup(note->text);
    return copy;
}

void note_free(struct note *note) {
    if (note)
        free((char *)(uintptr_t)note->text);
    free(note);
}

const struct note *note_copy(const struct note *note, struct arena *arena) {
    struct note *copy = arena_alloc(arena, sizeof *copy);
    *copy = *note;
    copy->text = arena_strdup(arena, note->text);
    return copy;
}

static void note_path(char path[40], const char *id) {
    snprintf(path, 40, "%.16s/note.json", id);
}

int note_write(int boxes_fd, const char *id, const struct note *note, struct err *err) {
    char path[40];
    autobuf text = buf_max(NOTE_FILE_BYTES);
    struct json json;
    if (strlen(note->text) > NOTE_TEXT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "what is to be kept of a box has %zu bytes; %u are the most",
                       strlen(note->text), NOTE_TEXT_BYTES);
    json_init(&json, &text);
    json_open(&json, '{');
    json_put_uint(&json, "deadline_ms", note->deadline_ms);
    json_put_str(&json, "action", note_actions[note->action]);
    json_put_bool(&json, "held", note->held);
    json_put_str(&json, "text", note->text);
    json_close(&json, '}');
    note_path(path, id);
    int r = text.failed ? -EFBIG : fd_replace_file(boxes_fd, path, text.data, text.len);
    return r < 0 ? record_errno(err, -r, "the box's note") : 0;
}

bool note_read(int boxes_fd, const char *id, struct arena *arena, struct note *ret_note) {
    char path[40];
    note_path(path, id);
    char *data = xmalloc(NOTE_FILE_BYTES);
    ssize_t len = fd_read_file(boxes_fd, path, data, NOTE_FILE_BYTES);
    json_t *root = len > 0 ? json_loadb(data, (size_t)len, 0, NULL) : NULL;
    free(data);
    const char *text = json_string_value(json_object_get(root, "text"));
    const char *action = json_string_value(json_object_get(root, "action"));
    json_int_t deadline = json_integer_value(json_object_get(root, "deadline_ms"));
    struct note note = {.deadline_ms = deadline > 0 ? (uint64_t)deadline : 0,
                        .held = json_is_true(json_object_get(root, "held"))};
    for (size_t i = 0; action && i < sizeof note_actions / sizeof *note_actions; i++)
        if (strcmp(action, note_actions[i]) == 0)
            note.action = (enum note_action)i;
    if (text) {
        note.text = arena_strdup(arena, text);
        *ret_note = note;
    }
    json_decref(root);
    return text != NULL;
}
