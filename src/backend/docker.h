/* The docker backend's own rooms. A box is one container, named cubby-ID, and STATE/boxes/ID/{docker (its record), sock
 * (where its runner listens), dial/ (mounted into it, read-only), workspace/, skills/}. Not to break:
 *
 * 1. A container is ours only if its label cubby.home is this state directory's and cubby.box the id. Nothing else is ever
 *    started, stopped, entered or removed; a stranger's container under our name is EXISTS, with what to do.
 * 2. Nothing falls back: what the engine, the image or the request cannot have is an error that says so, and nothing
 *    half-made stays: container, volume, directory.
 * 3. No request can ask for privileges: what a container is is written in docker_spec.c alone, field by field.
 *
 * The wire: the runner is started as PID 1 with `serve --dial /.cubby/run/sock`. dial/ is mounted there. Where the engine
 * is on this machine it connects, gets the listening socket `sock` (SCM_RIGHTS) that lies outside of its reach, and that
 * connection is its first wire: from then on it is found and spoken to like a local runner, and a dead engine or a dead
 * daemon harms nothing. Where that does not reach (an engine elsewhere, gVisor, SELinux) it speaks on its standard streams,
 * to which we are attached; whoever comes later gets a wire by an exec of `cubby-runner relay` in the container. */
#ifndef CUBBY_BACKEND_DOCKER_H
#define CUBBY_BACKEND_DOCKER_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/engine.h"
#include "backend/trash.h"
#include "base/arena.h"

#define DOCKER_NAME "cubby-"           /* and the id */
#define DOCKER_LABEL_HOME "cubby.home" /* which state directory's it is: STATE/docker-home, 32 hex digits */
#define DOCKER_LABEL_BOX "cubby.box"   /* the id */
#define DOCKER_LABEL_USER "cubby.user" /* also on images that export and snapshots made */
#define DOCKER_RUN "/.cubby"           /* in the container: runner, run/sock */
#define DOCKER_REPOSITORY "cubby-"     /* images of ours: cubby-HOME8/layer:LAYER, cubby-HOME8/box-ID:N */
#define DOCKER_START_MS 30000u

struct backend {
    const struct backend_env *env;
    const struct docker_settings *settings;
    struct engine *engine;
    struct engine_events *events;
    bool root; /* we are: may enter containers of this machine and give files away */
    char home[33];
    int boxes_fd, layers_fd;
    struct trash *trash;
    pthread_mutex_t lock;       /* of what is below */
    struct docker_facts *facts; /* of the engine, asked once per connection (docker_facts) */
    struct docker_ends *ends;   /* why containers ended lately, told by the events stream */
};

/* ---- docker.c: the verbs; facts of the engine ---- */

struct docker_facts {
    char version[64], os[32], arch[32], storage[32], cgroup[8], runtime[64]; /* arch as images call it: "amd64" */
    bool podman, rootless, userns, disk_limit; /* disk_limit: its driver holds a size for a container's layer */
    bool memory_limit, swap_limit, pids_limit, cpu_limit;
    unsigned cpus;
    char runtimes[16][64];
    size_t runtime_count;
};
int docker_facts(struct backend *backend, struct docker_facts *ret_facts, struct err *err);
void docker_name(char name[32], const char *id);
/* The container of a box: NOT_FOUND; EXISTS: there is one, and it is a stranger's. *ret_inspection: json_decref. */
int docker_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err);
bool docker_running(const json_t *inspection, pid_t *ret_pid);
int docker_remove(struct backend *backend, const char *id,
                  struct err *err); /* force, with its volumes; absent is fine */

/* ---- docker_spec.c: from a spec to a container ---- */

struct docker_image {
    char id[80];                                                 /* sha256:... */
    const char *reference;                                       /* as it was asked for; in the arena */
    const char *user;                                            /* the image's; "" is root */
    const char *const *entrypoint, *const *command, *const *env; /* the image's, NULL-terminated */
    const char *working_dir;
    bool root_user; /* commands would run as root of the container */
};
/* How the runner and the directories get there. */
struct docker_way {
    bool
        near; /* what lies here can be mounted there; else the runner is sent in, and the workspace is the container's */
    const char *runner_path, *dial_dir, *workspace_dir; /* here; workspace_dir NULL: none of our own */
};
/* The body of POST /containers/create. */
int docker_spec_body(struct backend *backend, const struct spec *spec, const struct docker_image *image,
                     const struct docker_way *way, const struct docker_facts *facts, struct buf *out, struct err *err);

/* ---- docker_image.c: what a box is made from ---- */

/* Allowed by the configuration, there (pulled if it is missing and may be, with progress), and of the engine's
 * architecture or the platform asked for. layers[0], where a spec has layers, is an image of ours. */
int docker_image_get(struct backend *backend, const struct spec *spec, struct arena *arena,
                     struct docker_image *ret_image, struct err *err);
bool docker_image_name(const char *text); /* the grammar of references: no option, no space, at most 255 bytes */

/* ---- docker_wire.c: from a container that was created to a wire ---- */

/* Puts the runner in where it cannot be mounted; attaches, starts, and waits until the runner speaks, by whichever way.
 * `placed` is called once before its HELLO is answered, where we and the container are on one machine: mounts. */
int docker_wire_start(struct backend *backend, const struct spec *spec, const struct docker_way *way,
                      const struct docker_image *image, struct wire **ret_wire, int *ret_pidfd, struct err *err);
int docker_wire_find(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err);

/* ---- docker_mount.c: what of this machine is seen in a container ---- */

/* Which mounts the engine makes: written into HostConfig.Mounts ("Mounts":[ is open). Refused what cannot be had. */
int docker_mount_put(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct json *json,
                     struct err *err);
/* The runner (pid here, ids as seen here) has dialled and waits: workspace and its files get the right owner, mounts with
 * changed owners and /skills are mounted by entering it. */
int docker_mount_enter(struct backend *backend, const struct spec *spec, pid_t pid, uid_t uid, gid_t gid,
                       struct err *err);
int docker_mount_skills(struct backend *backend, const struct spec *spec, struct err *err); /* ops->attach */

/* ---- docker_layer.c, docker_export.c: files kept ---- */

enum backend_files docker_files(struct backend *backend, const char *id);
int docker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
int docker_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int docker_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                  struct err *err);
int docker_drop_layer(struct backend *backend, const char *layer, struct err *err);
void docker_layer_image(struct backend *backend, const char *layer, char *name, size_t size);
int docker_export(struct backend *backend, const struct spec *spec, struct arena *arena, const char **ret_image,
                  struct err *err);
void docker_exported(struct backend *backend, const struct spec *spec, const char *old_image);

/* ---- docker_check.c: what `cubby doctor` and /v1/info say ---- */

size_t docker_checks(const struct backend_env *env, struct check *checks, size_t max);
void docker_info(const struct backend_env *env, struct backend *backend, struct json *json);

#endif
