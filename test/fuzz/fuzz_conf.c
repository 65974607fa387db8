/* The configuration file from any bytes: refused in a sentence with its line, or a whole policy; never half of one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conf_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_share(const struct share *share) {
    if (share->mount_count && !share->mounts)
        abort();
    for (size_t i = 0; i < share->mount_count; i++)
        if (share->mounts[i].source[0] != '/' || share->mounts[i].target[0] != '/')
            abort();
    for (const char *const *env = share->env; env && *env; env++)
        if (!strchr(*env, '='))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct conf *conf = calloc(1, sizeof *conf);
    struct err err = {0};
    if (!conf)
        abort();
    setenv("SECRET", "hunter2hunter2hunter2", 1);
    atomic_init(&conf->refs, 1);
    arena_init(&conf->arena);
    int result = conf_parse(conf, "file", (const char *)data, size, &err);
    if ((result < 0) != (err.code > 0) || strnlen(err.text, sizeof err.text) == sizeof err.text)
        abort();
    if (result < 0 && strncmp(err.text, "file line ", 10) != 0)
        abort();
    if (strstr(err.text, "hunter2hunter2") && !memmem(data, size, "hunter2", 7))
        abort();
    if (!result) {
        conf_inherit(conf);
        struct policy *policy = conf_policy(conf);
        fuzz_share(&policy->share);
        for (size_t i = 0; i < policy->user_count; i++) {
            fuzz_share(&policy->users[i].share);
            if (policy_for(policy, policy->users[i].user) != &policy->users[i].share)
                abort();
        }
        policy_unref(policy);
    }
    conf_unref(conf);
    return 0;
}
