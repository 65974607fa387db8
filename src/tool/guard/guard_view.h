/* One command as it is run: without a leading env, sudo, xargs and the like, and with the text that a shell is given to
 * run. Shared by the parts of the guard: guard.c (visits commands, rules of the policy), guard_view.c, guard_risk.c,
 * guard_path.c. */
#ifndef CUBBY_TOOL_GUARD_VIEW_H
#define CUBBY_TOOL_GUARD_VIEW_H

#include "tool/guard/guard.h"
#include "tool/guard/words.h"

#define GUARD_DEPTH 16
#define GUARD_VIEWS 20000

struct guard_view {
    const struct command *command;
    const struct word *words;    /* the first is the command; never NULL */
    const char *name;            /* the command without its directory; "" if hidden */
    bool hidden;                 /* the shell expands it: $x, $(x), {a,b}, l? */
    const struct word *stdin_of; /* run by xargs: its first word; the command gets no input */
};

struct guard {
    const struct guard_policy *policy;
    const char *workspace;
    struct arena *arena;
    unsigned depth;               /* nesting of texts, and of commands that run commands */
    unsigned views;               /* visited so far */
    const struct word *functions; /* defined by the text itself */
    struct guard_verdict *verdict;
};

/* Records a finding. The worst one counts, and of equals the first. */
void guard_find(struct guard *guard, enum guard_risk risk, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Records that a word breaks a rule of the policy. */
void guard_broken(struct guard *guard, enum guard_rule rule, const char *word);

/* ---- guard_view.c ---- */

void view_init(struct guard_view *view, const struct command *command, const struct word *words);
/* Finds the command that this one runs by its arguments. false: none. */
bool view_inner(struct guard *guard, const struct guard_view *view, struct guard_view *ret_inner);
/* find -exec: finds the next command after *at, which begins with view->words. */
bool view_found(struct guard *guard, const struct guard_view *view, const struct word **at,
                struct guard_view *ret_inner);

enum view_source { VIEW_NOTHING, VIEW_TEXT, VIEW_FILE, VIEW_STDIN };
bool view_is_shell(const char *name);
/* Finds where a shell reads its commands from. *ret_word: the text or the file name; NULL: neither is in the
 * command. */
enum view_source view_shell(const struct guard_view *view, const struct word **ret_word);
/* python, perl, ruby, node, php: the program is an argument (-c, -e), or standard input. */
bool view_is_interpreter(const char *name);
enum view_source view_program(const struct guard_view *view);
/* Returns text that is run again (eval, trap, env -S, su -c), its words joined by blanks, or NULL. */
const char *view_text(struct guard *guard, const struct guard_view *view, bool *ret_hidden);

/* ---- guard_path.c ---- */

/* Removes "//", "/./" and "/x/../" from an absolute path; in the arena. */
const char *path_folded(struct arena *arena, const char *path);
void path_judge(struct guard *guard, const struct command *command);

/* ---- guard_risk.c ---- */

void risk_command(struct guard *guard, const struct command *command); /* for each command of the text */
void risk_view(struct guard *guard, const struct guard_view *view);    /* for each command that it runs */

#endif
