/* A view: an agent's base at one moment, with its layers and the files seen through them. Reference-counted and
 * immutable: its holder sees one version, whatever changes later. Private to skill/. Also declares what the files of
 * base/ share. */
#ifndef CUBBY_SKILL_BASE_VIEW_H
#define CUBBY_SKILL_BASE_VIEW_H

#include "skill/base/base.h"
#include "skill/names.h"
#include "skill/skills.h"

enum { BASE_LAYERS = 16 }; /* a deeper stack is merged; the layer of skill-creator does not count */
enum { LAYER_NAME_BYTES = 17 };
enum { STACK_BYTES = (BASE_LAYERS + 2) * LAYER_NAME_BYTES };
enum { BASE_COLLECT_MS = 600000 }; /* a layer that no stack has had for so long is removed */

/* The file agents/AGENT: names of layers, uppermost first. */
struct base_stack {
    char names[BASE_LAYERS + 1][LAYER_NAME_BYTES];
    size_t count;
};
/* An agent without a file has an empty stack. IO: the file is damaged. */
int base_stack_read(struct skills *skills, const char *agent, struct base_stack *ret_stack, struct err *err);
int base_stack_write(struct skills *skills, const char *agent, const struct base_stack *stack, struct err *err);
void base_stack_text(const struct base_stack *stack, char text[STACK_BYTES]); /* one name per line */
bool base_stack_parse(const char *text, struct base_stack *ret_stack);

struct base_view {
    atomic_uint refs;
    struct arena arena;
    uint64_t generation;
    struct base_stack stack;
    char creator[LAYER_NAME_BYTES]; /* the lowest layer, or "" */
    struct base_skill *skills;      /* sorted by name */
    size_t count;
};
int base_view_get(struct skills *skills, const char *agent, struct base_view **ret_view, struct err *err);
void base_view_put(struct base_view *view); /* NULL is allowed */
/* Makes a view of a stack that no agent has yet. */
int base_view_make(struct skills *skills, const struct base_stack *stack, struct base_view **ret_view, struct err *err);
const struct base_skill *base_view_find(const struct base_view *view, const char *skill); /* NULL: not found */

/* Reads the metadata of the skill in a directory. false: it has none, and gets its folder's name. */
struct meta;
bool base_meta(int dir, const char *skill, struct arena *arena, struct meta *ret_meta);
/* Reads the facts about a skill of a layer from all its files; skills.db caches them. */
int base_version(int layer_dir, const char *layer, const char *skill, struct arena *arena, struct base_skill *ret_skill,
                 struct err *err);
int base_versions_keep(struct skills *skills, const struct base_skill *versions, size_t count, struct err *err);

/* ---- the table agent_skill_registry (rows.c) ---- */

/* Within a transaction: makes the public rows of an agent those of the view, whose stack will be `stack`. skill-creator
 * has no row. */
int base_rows_set(struct db *db, const char *agent, const struct base_view *view, const struct base_stack *stack,
                  struct err *err);
/* Makes rows again that are older than their files, of one agent, or of all (NULL). */
int base_rows_check(struct skills *skills, const char *agent, struct err *err);
int base_agents(struct skills *skills, struct names *ret_agents, struct err *err); /* all agents with a file */

/* ---- unused layers (collect.c) ---- */

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err);
/* Starts the thread that removes them. The provider must outlive it. */
struct collector *collector_new(struct skills *skills);
void collector_free(struct collector *collector); /* NULL is allowed */

#endif
