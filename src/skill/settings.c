/* What counts where the configuration says nothing. Used by daemon/conf and by tests. */
#include "skill/skill.h"

static const char *const default_paths[] = {"/workspace/skills", NULL};
static const char *const default_commands[] = {"python3", "pip",  "pip3", "bash", "sh", "ls",    "cat",  "grep", "sed",
                                               "awk",     "echo", "cp",   "mv",   "rm", "mkdir", "find", "curl", NULL};
const char *const skill_newest_commands[] = {"python3", "pip",    "pip3",  "bash", "sh",    "ls",    "cat",   "grep",
                                             "sed",     "awk",    "echo",  "cp",   "mv",    "rm",    "mkdir", "find",
                                             "curl",    "python", "touch", "tee",  "chmod", "xargs", NULL};

const struct skill_settings skill_defaults = {
    .paths = default_paths,
    .commands = default_commands,
    .upload_bytes = 10u << 20,
    .unpacked_bytes = 256u << 20,
    .upload_entries = 10000,
    .wait_ms = 10000,
    .cache_ms = 300000,
    .exec_timeout_ms = 300000,
    .far_rate_bytes = 4u << 20,
};
