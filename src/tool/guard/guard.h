/* The command guard: a policy about the commands of a model, not a security boundary (the box is). It parses the
 * shell's words. */
#ifndef CUBBY_TOOL_GUARD_H
#define CUBBY_TOOL_GUARD_H

#include "tool/tool.h"

enum guard_risk {
    GUARD_PASS,
    GUARD_WARN,   /* it may change where it runs */
    GUARD_BLOCK,  /* it may destroy or disclose something */
    GUARD_REFUSE, /* a rule of the policy forbids it: not run in any mode */
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
    const char *const *allow; /* commands that may be run, NULL-terminated; NULL: all. Holds in every mode but off */
    bool absolute_paths, parents; /* false: words that are absolute paths outside roots, or hold "..", are refused */
    const char *const *roots;     /* below which absolute paths are fine; NULL: the workspace, /tmp and programs */
};
extern const struct guard_policy guard_defaults;

enum guard_rule { GUARD_RULE_OTHER, GUARD_RULE_ALLOW, GUARD_RULE_PARENTS, GUARD_RULE_ROOTS };

struct guard_verdict {
    enum guard_risk risk;
    enum guard_rule rule; /* of the policy that was broken */
    char word[64];        /* the command or the path that broke it; "..." where it cannot be shown */
    char reason[160];     /* "" for pass: "recursive removal of '/'" */
};
/* Parses; never runs or expands anything. workspace: an absolute path. */
void guard_judge(const struct guard_policy *policy, struct arena *arena, const char *command, size_t len,
                 const char *workspace, struct guard_verdict *ret_verdict);

/* For tools, before they run a command: findings go into call->verdict for the audit log and, depending on the mode,
 * into the answer. False: it must not be run, and the answer is written. Needs call->box. */
bool guard_admits(struct tool_call *call, const char *command);
/* Appends the warning of guard_admits to the text of a command that was run. Called by tool_finish for every tool. */
void guard_warn(struct tool_call *call);

#endif
