/* Skills: folders with a SKILL.md that agents read and run. An *agent* (an application) has public skills, its *base*,
 * in layers that never change (base.h). A *user's* skills and changes are the uppermost layer of /skills in that user's
 * box for the agent, and are reached through the box only (own.h). Opened by the daemon; used by front/, tool/ and the
 * provider.
 *
 * STATE/skills/           0700
 *   layers/NAME/SKILL/…   16 hex digits: whole versions of one or more skills, ids as the box sees them
 *   agents/AGENT          defines a base: names of its layers, uppermost first, one per line; replaced by rename
 *   staging/              trees under construction (stage.h); emptied at start, under the lock
 *   global/NAME/{skills,agents}/…   files that every box gets (sync.h)
 *   blobs/SHA256.tar      published trees (registry.h)
 *   placed/BOX            which global tree, or which copied files, a box has (sync.h)
 * STATE/skills.db         can be rebuilt from these files
 * STATE/registry.db       what users share (registry.h) */
#ifndef CUBBY_SKILL_SKILL_H
#define CUBBY_SKILL_SKILL_H

#include "box/provider/provider.h"

#define SKILL_PATH "/skills" /* in a box with an agent; settings.paths adds more paths */

struct skill_settings {               /* from the configuration; skills_open copies the texts */
    const char *const *paths;         /* more paths that show /skills, NULL-terminated: "/workspace/skills" */
    const char *const *global_skills; /* host directories with skills for every box, later ones win; may be NULL */
    const char *const *global_agents; /* the same for sub-agents (NAME.md) */
    const char *creator;         /* host directory or ZIP of `skill-creator`, a skill of every agent; may be NULL */
    bool second;                 /* the dialect's second family serves routes that both have */
    const char *const *commands; /* names that its execute route accepts as the first word */
    uint64_t upload_bytes;       /* limit of a ZIP's size */
    uint64_t unpacked_bytes;     /* limit of the size of a ZIP's contents */
    unsigned upload_entries;
    uint64_t wait_ms;         /* how long a change waits for commands before it becomes pending */
    uint64_t cache_ms;        /* how long catalogues are cached */
    uint64_t exec_timeout_ms; /* of the dialect's execute route */
    uint64_t far_rate_bytes;  /* per second, for copies to one joined machine; 0: unlimited */
};
extern const struct skill_settings skill_defaults;
extern const char *const skill_second_commands[]; /* the default of `commands` where `second` is set */

struct skills;
/* Rebuilds skills.db if it is missing or older than the files. skills_provider sets the provider of boxes; call it
 * with NULL before the provider is freed. */
int skills_open(const char *state_dir, const struct skill_settings *settings, struct skills **ret_skills,
                struct err *err);
void skills_provider(struct skills *skills, struct provider *provider);
/* `later` is called when a joined machine lacks copies. It must not block. Set before the first request. */
void skills_later(struct skills *skills, void (*later)(void *user, const char *owner, const char *machine), void *user);
void skills_configure(struct skills *skills, const struct skill_settings *settings);
void skills_close(struct skills *skills);
const struct skill_settings *skills_settings(const struct skills *skills);

/* Checks a skill's name before a path is built from it: one file name, UTF-8, without control characters, / \ : and a
 * leading dot. INVALID says what is wrong. (Agents' names: policy_agent.) */
int skill_id_check(const char *skill, struct err *err);

#endif
