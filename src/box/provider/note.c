/* Notes of boxes as JSON files. Called by the provider. Invariant: a note is replaced whole, never changed in place. */
#include "box/provider/note.h"

#include "base/base.h"
#include "box/provider/record.h"
#include "rows/write.h"

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

/* As it lies in its file. */
struct note_file {
    struct note note;
    const char *action;
};
static const struct row note_rows[] = {OUT_INT("deadline_ms", note_file, note.deadline_ms, NULL),
                                       OUT("action", TEXT, note_file, action, NULL),
                                       OUT("held", BOOL, note_file, note.held, NULL),
                                       OUT_ROW("text", TEXT, note_file, note.text, ROW_REQUIRED, NULL),
                                       {0}};

int note_write(int boxes_fd, const char *id, const struct note *note, struct err *err) {
    const struct note_file file = {.note = *note, .action = note_actions[note->action]};
    if (strlen(note->text) > NOTE_TEXT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "what is to be kept of a box has %zu bytes; %u are the most",
                       strlen(note->text), NOTE_TEXT_BYTES);
    return record_file_write(boxes_fd, text_make(40, "%.16s/note.json", id), note_rows, &file, NOTE_FILE_BYTES,
                             "the box's note", err);
}

bool note_read(int boxes_fd, const char *id, struct arena *arena, struct note *ret_note) {
    struct note_file file = {.action = ""};
    if (record_file_read(boxes_fd, text_make(40, "%.16s/note.json", id), note_rows, &file, NOTE_FILE_BYTES,
                         "the box's note", arena, ERR_IGNORED) < 0)
        return false;
    for (size_t i = 0; i < sizeof note_actions / sizeof *note_actions; i++)
        if (strcmp(file.action, note_actions[i]) == 0)
            file.note.action = (enum note_action)i;
    *ret_note = file.note;
    return true;
}
