/* What a dialect keeps of a box in addition to its record: a text of its own, and a deadline. STATE/boxes/ID/note.json; it
 * goes with the box. Box and dialect agree on nothing but its size. */
#ifndef CUBBY_BOX_NOTE_H
#define CUBBY_BOX_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#define NOTE_TEXT_BYTES (64u << 10)

enum note_action { NOTE_KILL, NOTE_PAUSE, NOTE_STOP };

struct note {
    const char *text;        /* UTF-8 */
    uint64_t deadline_ms;    /* wall clock; then `action` happens, and it is 0; 0: none */
    enum note_action action; /* PAUSE where the backend cannot pause is STOP */
    bool held;               /* it was stopped, and only provider_resume starts it again */
};

struct note *note_new(const struct note *note); /* a copy on the heap */
void note_free(struct note *note);              /* NULL is fine */
const struct note *note_copy(const struct note *note, struct arena *arena);
int note_write(int boxes_fd, const char *id, const struct note *note, struct err *err); /* whole or not at all */
/* false: there is none, or it is damaged. */
bool note_read(int boxes_fd, const char *id, struct arena *arena, struct note *ret_note);

#endif
