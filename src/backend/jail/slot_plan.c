/* The other half of a jail: what is special to one box. A half (slot.c) is told its plan and greets: then its runner
 * serves. Or it is told the plan of nobody, and is bound to its box later, at the cost of a rename, the limits that
 * differ and one call. Called by jail.c and pool.c. Invariant: a blank jail is bound once; whatever fails here, the
 * caller drops the slot. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/box_entry.h"
#include "backend/jail/reaper.h"
#include "base/fd.h"
#include "wire/call.h"
#include "wire/frame.h"
#include "wire/plan.h"

/* A pooled slot's directory becomes the box's. Its layers are mounted already: nobody looks them up by name again. */
static int take_files(struct backend *backend, struct slot *slot, const char *id, struct err *err) {
    if (!*id || !*slot->dir || strcmp(slot->dir, id) == 0)
        return 0;
    if (renameat2(backend->boxes_dir, slot->dir, backend->boxes_dir, id, RENAME_NOREPLACE) < 0)
        return err_errno(err, errno, "'boxes/%s'", id);
    snprintf(slot->dir, sizeof slot->dir, "%s", id); /* goes if the start fails */
    return 0;
}

static int take_limits(struct backend *backend, struct slot *slot, const struct limits *limits, struct err *err) {
    int r = cgroup_limit(&backend->cgroups, &slot->cgroup, &slot->limits, limits, err);
    if (r == 0)
        slot->limits = *limits;
    return r;
}

/* ---- told at once ---- */

static void put_limits(struct buf *out, const struct limits *limits) {
    const struct {
        enum plan_key key;
        uint64_t value;
    } rows[] = {{PLAN_MEMORY, limits->memory_mb << 20},
                {PLAN_PIDS, limits->pids},
                {PLAN_OPEN_FILES, limits->open_files},
                {PLAN_TERMINALS, limits->terminals}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value)
            plan_number(out, rows[i].key, rows[i].value);
}

static int send_plan(struct backend *backend, struct slot *slot, const struct spec *spec, const struct net_plan *net,
                     struct err *err) {
    autobuf out = buf_max(PLAN_MAX_BYTES);
    buf_u32(&out, 0);
    for (size_t i = 0; i < spec->env_count; i++)
        plan_text(&out, PLAN_ENV, spec->env[i]);
    if (spec->shell)
        plan_text(&out, PLAN_SHELL, spec->shell);
    if (spec->workspace)
        plan_text(&out, PLAN_WORKSPACE, spec->workspace);
    put_limits(&out, &spec->limits);
    box_entry_mounts(spec, &out);
    if (net->address) {
        plan_number(&out, PLAN_ADDRESS, net->address);
        plan_text(&out, PLAN_RESOLV, net->resolv);
    }
    if (spec->agent && !backend->root)
        box_entry_skills(backend->env->state_dir, spec, &out);
    if (!*spec->id)
        plan_number(&out, PLAN_BLANK, 1);
    return slot_send(slot, &out, err);
}

int slot_tell(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err) {
    struct net_plan net = {0};
    int r = take_files(backend, slot, spec->id, err);
    if (r == 0)
        r = take_limits(backend, slot, &spec->limits, err);
    if (r == 0 && spec->network == NETWORK_OPEN) {
        r = slot_ready(backend, slot, err);
        slot->net = r == 0;
        if (r == 0)
            r = net_attach(slot->number, slot->pid, spec->user, backend->env->open_networks, &net, err);
        slot->recorded = false;
    }
    return r == 0 ? send_plan(backend, slot, spec, &net, err) : r;
}

int slot_greet(struct backend *backend, struct slot *slot, const char *name, struct err *err) {
    int r = slot_ready(backend, slot, err);
    if (r == 0 && !slot->recorded)
        r = slot_record(backend, slot, name, err);
    if (r < 0)
        return r;
    int stage_fd = slot->stage_fd;
    slot->stage_fd = -1;
    r = wire_new(stage_fd, WIRE_PASS_ROOT, JAIL_START_TIMEOUT_MS, &slot->wire, err);
    if (r < 0) {
        char text[sizeof err->text];
        memcpy(text, err->text, sizeof text);
        return slot_error(slot, text, err);
    }
    if (backend->root)
        wire_set_ids(slot->wire, slot->uid_base + IDS_AGENT, slot->uid_base + IDS_AGENT);
    fd_close(&slot->errors_fd);
    return 0;
}

void slot_part(struct backend *backend, struct slot *slot, bool later) {
    if (!later || !backend->reaper)
        waitpid(slot->outer_pid, NULL, 0);
    else if (waitpid(slot->outer_pid, NULL, WNOHANG) == 0) /* once only: the number may soon be another child's */
        reaper_put(backend->reaper, &(struct remains){.mounts_fd = -1, .outer_pid = slot->outer_pid});
    slot->outer_pid = 0;
}

/* ---- made for nobody, bound later ---- */

int slot_tell_blank(struct backend *backend, struct slot *slot, struct err *err) {
    struct spec nobody = {.limits = slot->limits};
    return slot_tell(backend, slot, &nobody, err);
}

bool slot_plain(const struct spec *spec) {
    return spec->mount_count == 0 && spec->network == NETWORK_NONE && !spec->one_shot && !spec->workspace;
}

int slot_bind(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err) {
    int r = take_files(backend, slot, spec->id, err);
    if (r == 0)
        r = take_limits(backend, slot, &spec->limits, err);
    if (r < 0)
        return r;
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    for (size_t i = 0; i < spec->env_count; i++)
        field_text(&args, FIELD_ENV, spec->env[i]);
    if (spec->shell)
        field_text(&args, FIELD_SHELL, spec->shell);
    field_number(&args, FIELD_LIMIT, spec->limits.pids);
    field_number(&args, FIELD_FILES, spec->limits.open_files);
    return call_tell(slot->wire, OP_BIND, &args, err);
}
