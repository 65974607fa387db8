/* What a machine gets when it joins: its box, and the skills of all boxes. */
#ifndef CUBBY_DAEMON_WELCOME_H
#define CUBBY_DAEMON_WELCOME_H

struct front;
struct welcome;

struct welcome *welcome_new(struct front *front); /* front must be complete when the first machine joins */
/* The machine joined, joined again, or lacks new skills. Never blocks; calls before its turn are combined. */
void welcome_machine(void *welcome_of, const char *owner, const char *machine);
void welcome_stop(struct welcome *welcome); /* waits for running work; machines must have been released */
void welcome_free(struct welcome *welcome); /* NULL is allowed */

#endif
