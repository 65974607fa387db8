/* A stack of overlay layers, read as the overlay would show it: the names of a directory, the layer of each, hidden
 * names. Used by op_diff.c (a box against its template) and squash.c (many layers into one). */
#ifndef CUBBY_RUNNER_STACK_H
#define CUBBY_RUNNER_STACK_H

#include "base/base.h"

#define STACK_MAX (LIMIT_LAYERS + 1) /* including the box's own */
#define STACK_SYSTEM_MAX 8
#define STACK_ROOTS_MAX (STACK_MAX + 1 + STACK_SYSTEM_MAX)
#define STACK_OPAQUE "user.overlay.opaque"
#define STACK_ORIGIN "user.overlay.origin"

/* Descriptors (O_PATH) of everything a box's root is made of. `own` and `kept` contain upper, upper.0, ... each, and
 * skills if there is an agent. */
struct stack_roots {
    int own, template;
    int kept[LIMIT_LAYERS]; /* uppermost first */
    size_t kept_count;
    struct {
        const char *path; /* in the box; its changes are in upper.N */
        int fd;
    } system[STACK_SYSTEM_MAX];
    size_t system_count;
};
size_t stack_roots_fds(const struct stack_roots *roots, int *ret_fds); /* copies all; returns how many */

enum stack_kind { STACK_OTHER, STACK_DIR, STACK_WHITEOUT }; /* OTHER: files, links, ... */

/* A name of the current directory. */
struct stack_entry {
    uint32_t name; /* stack_name */
    uint16_t len;
    uint8_t kind;
    uint8_t layer; /* the uppermost that has it */
    bool cut;      /* a directory above something else: nothing deeper shows through */
    uint64_t mask; /* for a directory: the layers that it consists of */
};

struct stack_level;
struct stack {
    int roots[STACK_MAX]; /* directories, uppermost first; owned by the caller */
    size_t count;
    uint64_t deadline_ms;     /* clock_ms; 0: none */
    bool too_deep, timed_out; /* something was skipped */
    /* the current directory */
    char path[LIMIT_PATH_BYTES + 2]; /* below the roots: "" or "a/b/" */
    size_t path_len;
    int fds[STACK_MAX];          /* of the layers that it consists of; else -1 */
    size_t top;                  /* the uppermost of them */
    bool hidden;                 /* layers below the stack do not show here */
    bool opaque;                 /* because of this directory itself, in this stack */
    struct stack_entry *entries; /* sorted by name */
    size_t count_entries, entries_cap;
    char *names;
    size_t names_len, names_cap;
    char *buffer;
    struct stack_level *level;
    bool started;
};

void stack_init(struct stack *stack); /* then the caller fills roots */
/* Adds the directory `name` of a layer below the others; a layer without it adds nothing. */
void stack_add_root(struct stack *stack, int layer, const char *name);
void stack_done(struct stack *stack);
/* Goes to the next directory. Returns 1, or 0 at the end or a timeout. A directory is visited before its entries. */
int stack_next(struct stack *stack);
static inline const char *stack_name(const struct stack *stack, const struct stack_entry *entry) {
    return stack->names + entry->name;
}
const struct stack_entry *stack_find(const struct stack *stack, const char *name); /* in the current directory */

#endif
