/* The command guard: a policy about the commands of a model, not a security boundary (the box is). It parses commands
 * as the shell does. */
#ifndef CUBBY_TOOL_GUARD_H
#define CUBBY_TOOL_GUARD_H

#include "tool/tool.h"

enum guard_risk {
    GUARD_PASS,
    GUARD_WARN,   /* may change the environment it runs in */
    GUARD_BLOCK,  /* may destroy or disclose something */
    GUARD_REFUSE, /* forbidden by a rule of the policy: not run in any mode */
};
enum guard_mode {
    GUARD_OFF,
    GUARD_AUDIT,  /* findings are recorded in the audit log */
    GUARD_WARNS,  /* and in the answer */
    GUARD_BLOCKS, /* and high risks are not run */
};

/* Longer commands are a high risk: no person reads them. */
#define GUARD_CHARS 10000

struct guard_policy {
    enum guard_mode mode;
    const char *const *allow;     /* allowed commands, NULL-terminated; NULL: all. Applies in every mode but off */
    bool absolute_paths, parents; /* false: words that are absolute paths outside roots, or contain "..", are refused */
    const char *const *roots;     /* below which absolute paths are allowed; NULL: the workspace, /tmp and programs */
};
extern const struct guard_policy guard_defaults;

enum guard_rule { GUARD_RULE_OTHER, GUARD_RULE_ALLOW, GUARD_RULE_PARENTS, GUARD_RULE_ROOTS };

struct guard_verdict {
    enum guard_risk risk;
    enum guard_rule rule; /* the broken rule */
    char word[64];        /* the command or the path that broke it; "..." where it cannot be shown */
    char reason[160];     /* "" for pass: "recursive removal of '/'" */
};
/* Only parses: runs and expands nothing. workspace: an absolute path. */
void guard_judge(const struct guard_policy *policy, struct arena *arena, const char *command, size_t len,
                 const char *workspace, struct guard_verdict *ret_verdict);

/* Called by tools before they run a command: findings go into call->verdict for the audit log and, depending on the
 * mode, into the answer. Returns false if the command must not be run; then the answer is written. Needs call->box. */
bool guard_admits(struct tool_call *call, const char *command);
/* Appends the warning of guard_admits to the text of a command that was run. Called by tool_finish for every tool. */
void guard_warn(struct tool_call *call);

#endif
