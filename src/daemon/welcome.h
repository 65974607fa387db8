/* What a machine gets when it joins: its box, and the skills that every box has. */
#ifndef CUBBY_DAEMON_WELCOME_H
#define CUBBY_DAEMON_WELCOME_H

struct front;
struct welcome;

struct welcome *welcome_new(struct front *front); /* that has machines and, when the first one joins, all the rest */
/* That machine joined, joined again, or lacks skills that are new. Never waits; once is enough for all who say it before its
 * turn. */
void welcome_machine(void *welcome_of, const char *owner, const char *machine);
void welcome_stop(struct welcome *welcome); /* waits for who is under way: their machines have been let go before */
void welcome_free(struct welcome *welcome); /* NULL is fine */

#endif
