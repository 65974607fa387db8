/* Skills: folders with a SKILL.md that agents read and run. An *agent* (an application) has public skills, its *base*,
 * in layers that never change (base.h). A *user's* skills and changes are the uppermost layer of /skills in that user's
 * box for the agent, and are reached through the box only (own.h). Opened by the daemon; used by front/, tool/ and the
 * provider.
 *
 * STATE/skills/           0700
 *   layers/NAME/SKILL/…   16 hex digits: whole versions of one or more skills, ids as the box sees them
 *   agents/AGENT          defines a base: names of its layers, uppermost first, one a line; replaced by rename
 *   staging/              what is being made (stage.h); emptied at the start, under the lock
 *   global/NAME/{skills,agents}/…   what every box gets (sync.h)
 *   blobs/SHA256.tar      published trees (registry.h)
 *   placed/BOX            which of the global ones a box got (sync.h)
 * STATE/skills.db         can be rebuilt from those files
 * STATE/registry.db       what users share (registry.h) */
#ifndef CUBBY_SKILL_SKILL_H
#define CUBBY_SKILL_SKILL_H

#include "box/provider/provider.h"

#define SKILL_PATH "/skills" /* in a box with an agent; also wherever settings.paths says */

struct skill_settings {               /* of the configuration; the texts are copied */
    const char *const *paths;         /* where /skills is also seen, NULL-terminated: "/workspace/skills" */
    const char *const *global_skills; /* host directories with skills for every box, later ones win; may be NULL */
    const char *const *global_agents; /* the same with NAME.md of sub-agents */
    const char *creator;              /* host directory or ZIP: `skill-creator` of every agent; NULL: none */
    bool newest;                      /* the second family of the dialect where both claim a route */
    const char *const *commands;      /* that its execute may begin with */
    uint64_t upload_bytes;            /* of a ZIP */
    uint64_t unpacked_bytes;          /* of all it holds */
    unsigned upload_entries;
    uint64_t wait_ms;         /* for commands to end before a change becomes pending */
    uint64_t cache_ms;        /* of catalogues */
    uint64_t exec_timeout_ms; /* of the dialect's execute */
    uint64_t far_rate_bytes;  /* a second, of copies to one machine that joined; 0: no bound */
};
extern const struct skill_settings skill_defaults;
extern const char *const skill_newest_commands[]; /* the default of `commands` where `newest` is set */

struct skills;
/* Rebuilds skills.db where it is lost or older than the files. skills_provider names the provider of boxes; NULL before
 * it goes. */
int skills_open(const char *state_dir, const struct skill_settings *settings, struct skills **ret_skills,
                struct err *err);
void skills_provider(struct skills *skills, struct provider *provider);
/* `later` is called when a joined machine lacks copies, and must not wait. Set before the first request. */
void skills_later(struct skills *skills, void (*later)(void *user, const char *owner, const char *machine), void *user);
void skills_configure(struct skills *skills, const struct skill_settings *settings);
void skills_close(struct skills *skills);
const struct skill_settings *skills_settings(const struct skills *skills);

/* The grammar of skills' names (of agents': policy_agent), checked before a path is built: one folder name, UTF-8, no
 * control characters, none of / \ : and no leading dot. INVALID says what is wrong. */
int skill_id_check(const char *skill, struct err *err);

#endif
