/* What is written down of users' own skills: rows of agent_skill_registry, and which base each is founded on. Private to
 * own*.c. Failures are logged: the files are the truth. */
#ifndef CUBBY_SKILL_OWN_ROWS_H
#define CUBBY_SKILL_OWN_ROWS_H

#include "skill/own/own.h"

/* After a change of whole skills: the rows become what is there. added: that are his own since, NULL-terminated. */
void own_rows_update(struct skills *skills, struct box *box, const char *const *added);
/* The same where skills.db was lost, by comparing all that is there with the base. Cheap where it was not. */
void own_rows_rebuild(struct skills *skills, struct box *box);

enum { OWN_KEY_BYTES = 48 };
/* A box that was deleted and made again has the same id, and nothing in common with the one before. */
const char *own_key(const struct box *box, char key[OWN_KEY_BYTES]);

struct own_founded {
    bool known;
    uint8_t sha256[32];
    uint64_t synced_ms; /* 0: never */
};
int own_founded_get(struct skills *skills, const struct box *box, const char *skill, struct own_founded *ret_founded,
                    struct err *err);
void own_founded_set(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32],
                     uint64_t synced_ms);
void own_founded_first(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32]);
void own_founded_drop(struct skills *skills, const struct box *box, const char *skill); /* NULL: all of the box */

#endif
