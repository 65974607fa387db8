/* One command as it is really run: without a leading env, sudo, xargs and the like, and with the text that a shell
 * gets to run. Shared by the parts of the guard: guard.c (visits commands, rules of the policy), guard_view.c,
 * guard_risk.c, guard_path.c. */
#ifndef CUBBY_TOOL_GUARD_VIEW_H
#define CUBBY_TOOL_GUARD_VIEW_H

#include "tool/guard/guard.h"
#include "tool/guard/words.h"

#define GUARD_DEPTH 16
#define GUARD_VIEWS 20000

struct guard_view {
    const struct command *command;
    const struct word *words;    /* the first is the command; never NULL */
    const char *name;            /* that without its directory; "" when it is hidden */
    bool hidden;                 /* the shell puts it in: $x, $(x), {a,b}, l? */
    const struct word *stdin_of; /* xargs in front: its first word; the command gets no input */
};

struct guard {
    const struct guard_policy *policy;
    const char *workspace;
    struct arena *arena;
    unsigned depth;               /* of texts inside texts, and of commands that run commands */
    unsigned views;               /* visited so far */
    const struct word *functions; /* that the text itself defines */
    struct guard_verdict *verdict;
};

/* The worst counts, of two alike the first. */
void guard_find(struct guard *guard, enum guard_risk risk, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The word breaks a rule of the policy. */
void guard_broken(struct guard *guard, enum guard_rule rule, const char *word);

/* ---- guard_view.c ---- */

void view_init(struct guard_view *view, const struct command *command, const struct word *words);
/* The command that this one runs, by its arguments; false: none. */
bool view_inner(struct guard *guard, const struct guard_view *view, struct guard_view *ret_inner);
/* find -exec: the next one after *at, which begins with view->words. */
bool view_found(struct guard *guard, const struct guard_view *view, const struct word **at,
                struct guard_view *ret_inner);

enum view_source { VIEW_NOTHING, VIEW_TEXT, VIEW_FILE, VIEW_STDIN };
bool view_is_shell(const char *name);
/* Where a shell reads its commands from; *ret_word: the text or the file's name, NULL: it comes from elsewhere. */
enum view_source view_shell(const struct guard_view *view, const struct word **ret_word);
/* A program for python, perl, ruby, node, php: an argument (-c, -e), or what comes in. */
bool view_is_interpreter(const char *name);
enum view_source view_program(const struct guard_view *view);
/* Text that is run again: eval, trap, env -S, su -c. NULL: none. Words are joined by blanks. */
const char *view_text(struct guard *guard, const struct guard_view *view, bool *ret_hidden);

/* ---- guard_path.c ---- */

/* "//", "/./" and "/x/../" out of an absolute path; in the arena. */
const char *path_folded(struct arena *arena, const char *path);
void path_judge(struct guard *guard, const struct command *command);

/* ---- guard_risk.c ---- */

void risk_command(struct guard *guard, const struct command *command); /* once for each */
void risk_view(struct guard *guard, const struct guard_view *view);    /* and for each that it really runs */

#endif
