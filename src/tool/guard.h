/* The command guard: a policy about what a model may type, not a wall (the box is). It reads the shell's words. */
#ifndef CUBBY_TOOL_GUARD_H
#define CUBBY_TOOL_GUARD_H

#include "tool/tool.h"

enum guard_risk { GUARD_PASS, GUARD_WARN, GUARD_BLOCK };
enum guard_mode {
    GUARD_OFF,
    GUARD_AUDIT,  /* what it finds stands in the audit log */
    GUARD_WARNS,  /* and in the answer */
    GUARD_BLOCKS, /* and high risks are not run */
};

struct guard_policy {
    enum guard_mode mode;
    const char *const *allow; /* commands that may be run, NULL-terminated; NULL: all. Holds in every mode but off */
    bool absolute_paths, parents; /* false: words that are absolute paths outside roots, or hold "..", are refused */
    const char *const *roots;     /* below which absolute paths are fine; NULL: the workspace, /tmp and programs */
};
extern const struct guard_policy guard_defaults;

struct guard_verdict {
    enum guard_risk risk;
    char reason[160]; /* "" for pass: "recursive removal of '/'" */
};
/* Parses; never runs or expands anything. */
void guard_judge(const struct guard_policy *policy, const char *command, size_t len, const char *workspace,
                 struct guard_verdict *ret_verdict);

#endif
