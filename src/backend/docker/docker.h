/* The docker backend's own rooms. A box is one container, named cubby-HOME8-ID, and STATE/boxes/ID/{docker (its record), sock
 * (where its runner listens), dial/ (mounted into it, read-only), workspace/, skills/}. Invariant:
 *
 * 1. A container is ours only if its label cubby.home is this state directory's and cubby.box the id. Nothing else is ever
 *    started, stopped, entered or removed; a stranger's container under our name is EXISTS, with what to do.
 * 2. Nothing falls back: what the engine, the image or the request cannot have is an error that says so, and nothing
 *    half-made stays: container, volume, directory.
 * 3. No request can ask for privileges: what a container is is written in docker/spec.c alone, field by field.
 *
 * The wire: the runner is started as PID 1 with `serve --dial /.cubby/run/sock`. dial/ is mounted there. Where the engine
 * is on this machine it connects and gets, by descriptor, its first wire and the listening socket `sock`, which lies outside
 * of its reach: from then on it is found and spoken to like a local runner, and a dead engine or a dead daemon harms nothing. Where that does not reach (an engine elsewhere, gVisor, SELinux) it speaks on its standard streams,
 * to which we are attached; whoever comes later gets a wire by an exec of `cubby-runner relay` in the container. */
#ifndef CUBBY_BACKEND_DOCKER_H
#define CUBBY_BACKEND_DOCKER_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/docker/engine/engine.h"
#include "backend/trash.h"
#include "base/arena.h"

#define DOCKER_NAME                                                                                                    \
    "cubby-" /* and the first 8 of the home, and the id: state directories that share an engine never meet */
#define DOCKER_NAME_BYTES 32u
#define DOCKER_LABEL_HOME "cubby.home" /* which state directory's it is: STATE/docker-home, 32 hex digits */
#define DOCKER_LABEL_BOX "cubby.box"   /* the id */
#define DOCKER_LABEL_USER "cubby.user" /* also on images that export and snapshots made */
#define DOCKER_RUN "/.cubby"           /* in the container: runner, run/sock */
#define DOCKER_REPOSITORY "cubby-"     /* images of ours: cubby-HOME8/layer:LAYER, cubby-HOME8/box-ID:N */
#define DOCKER_START_MS 30000u
#define DOCKER_USER_BYTES 160

struct backend {
    const struct backend_env *env;
    const struct docker_settings *settings;
    struct engine *engine;
    struct engine_events *events;
    bool root;       /* we are: may enter containers of this machine and give files away */
    atomic_bool far; /* what lies here cannot be mounted there: a container of ours has shown it */
    char home[33];
    int boxes_fd, layers_fd;
    struct trash *trash;
    pthread_mutex_t lock;       /* of what is below */
    struct docker_facts *facts; /* of the engine (docker_facts) */
    unsigned facts_generation;  /* of the engine that said so */
    struct docker_ends *ends;   /* why containers ended lately, told by the events stream */
};

/* ---- docker/facts.c: what the engine can do ---- */

struct docker_facts {
    char version[64], os[32], arch[32], storage[32], cgroup[8], runtime[64]; /* arch as images call it: "amd64" */
    bool podman, rootless, userns, seccomp,
        disk_limit; /* disk_limit: its driver holds a size for a container's layer */
    bool memory_limit, swap_limit, pids_limit, cpu_limit;
    unsigned cpus;
    char runtimes[16][64];
    size_t runtime_count;
};
int docker_facts(struct backend *backend, struct docker_facts *ret_facts, struct err *err);
bool docker_facts_known(struct backend *backend, struct docker_facts *ret_facts); /* without asking */

/* ---- docker.c: the verbs ---- */

void docker_name(const struct backend *backend, char name[DOCKER_NAME_BYTES], const char *id);
/* The container of a box: NOT_FOUND; EXISTS: there is one, and it is a stranger's. *ret_inspection: json_decref. */
int docker_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err);
int docker_inspect_within(struct backend *backend, const char *id, unsigned timeout_ms, json_t **ret_inspection,
                          struct err *err);
bool docker_running(const json_t *inspection, pid_t *ret_pid);
int docker_remove(struct backend *backend, const char *id,
                  struct err *err);                                        /* force, with its volumes; absent is fine */
int docker_kill(struct backend *backend, const char *id, struct err *err); /* nothing of it runs when it returns 0 */

/* What STATE/boxes/ID/docker says: there before the container is, and rewritten once its runner has spoken. */
struct docker_record {
    char container[65]; /* the engine's id of it; "-": not made yet */
    pid_t pid;          /* of the runner as seen here, and when it began; 0: not known (elsewhere), or not running */
    uint64_t start;
    uid_t uid; /* of the runner as seen here */
    gid_t gid;
    bool dialled; /* it runs, and listens at STATE/boxes/ID/sock */
    bool relayed; /* it runs, and later wires come by relay; neither: nothing runs */
};
int docker_record_read(struct backend *backend, const char *id, struct docker_record *ret_record); /* or -errno */
int docker_record_write(struct backend *backend, const char *id, const struct docker_record *record, struct err *err);
/* The runner that is recorded: -1 where it is not known or has ended. */
int docker_record_pidfd(const struct docker_record *record);

/* ---- docker/end.c: how containers end ---- */

void docker_end_watch_locked(struct backend *backend); /* begins to listen to the engine's events */
bool docker_why(struct backend *backend, const char *id, char *text, size_t size); /* ops->why */

/* ---- docker/use.c: what a container uses, and that it stands still ---- */

int docker_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err);
int docker_pause(struct backend *backend, const char *id, bool pause, struct err *err);
bool docker_paused(struct backend *backend, const char *id);
/* By the kernel: for one that an engine will not have stand still, because a part of it that outlived its death believes that
 * it does; or cannot let go on, because it is away. late: what a dying engine began may only now
 * make it stand still; waits for that, half a second. */
bool docker_freeze(struct backend *backend, const char *id);
void docker_thaw(struct backend *backend, const char *id, bool late);

/* ---- docker/spec.c: from a spec to a container ---- */

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
/* Whom its commands run as, in the words of the engine: "" is the image's root. */
void docker_spec_user(const struct backend *backend, const struct spec *spec, const struct docker_image *image,
                      const struct docker_way *way, const struct docker_facts *facts, char user[DOCKER_USER_BYTES]);
bool docker_spec_root(const char *user); /* it is certainly root */
/* The runner's arguments, NULL-terminated: of the container, or of an exec beside the image's own program. */
const char *const *docker_spec_words(const struct spec *spec, const struct docker_image *image, struct arena *arena);
/* A digest of what a container is made from, a layer or a name of an image; the rest of a spec never changes. One with the
 * same goes on after a stop, with its files. */
#define DOCKER_LABEL_FROM "cubby.from"
void docker_spec_from(struct backend *backend, const struct spec *spec, char ret_from[65]);
/* The body of POST /containers/create. */
int docker_spec_body(struct backend *backend, const struct spec *spec, const struct docker_image *image,
                     const struct docker_way *way, const struct docker_facts *facts, struct buf *out, struct err *err);

/* ---- docker/image.c: what a box is made from ---- */

/* Allowed by the configuration, there (pulled if it is missing and may be, with progress), and of the engine's
 * architecture or the platform asked for. layers[0], where a spec has layers, is an image of ours. */
int docker_image_get(struct backend *backend, const struct spec *spec, struct arena *arena,
                     struct docker_image *ret_image, struct err *err);
/* What an image has set ("Config" of an inspection) into the members of *ret_image but id and reference; in arena. false: it
 * is of a wrong type. */
bool docker_image_settings(const json_t *config, struct arena *arena, struct docker_image *ret_image);
/* docker/pull.c: from its registry, with the credentials of the configuration; tells the progress. */
struct reference;
int docker_pull(struct backend *backend, const struct spec *spec, const struct reference *image, struct err *err);

/* ---- docker/wire.c: from a container that was created to a wire ---- */

/* Puts the runner in where it cannot be mounted; attaches, starts, and waits until the runner speaks, by whichever way.
 * docker_mount_enter is called once before its HELLO is answered; pid 0: it did not dial, nobody can enter it. Records the
 * runner. */
int docker_wire_start(struct backend *backend, const struct spec *spec, const struct docker_way *way,
                      const struct docker_image *image, struct wire **ret_wire, int *ret_pidfd, struct err *err);
int docker_wire_find(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err);
int docker_wire_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err); /* ops->connect */
/* docker/send.c: the runner, sent into a container that was made and cannot see our files; its workspace becomes its user's. */
int docker_send(struct backend *backend, const struct spec *spec, struct err *err);
/* The ids of its user as the container has them: of one that was made, also where it cannot be seen from here. */
bool docker_send_whose(struct backend *backend, const char *id, const json_t *inspection, uid_t *ret_uid,
                       gid_t *ret_gid);

/* ---- docker/own.c: its files on this machine ---- */

/* What its workspace has of who had it before becomes the user's; ids as seen here. root: he is root of the container. */
int docker_own_workspace(struct backend *backend, const char *id, uid_t uid, gid_t gid, bool root, struct err *err);
/* As ops->diff, of those files alone; *ret_truncated is only ever set. */
int docker_own_changes(struct backend *backend, const struct spec *spec, uint64_t limit,
                       int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                       struct err *err);

/* ---- docker/mount.c: what of this machine is seen in a container ---- */

/* Which mounts the engine makes: written into HostConfig.Mounts ("Mounts":[ is open). Refused what cannot be had. */
int docker_mount_put(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct json *json,
                     struct err *err);
/* The runner (pid here, ids as seen here) has dialled and waits: workspace and its files get the right owner, mounts with
 * changed owners and /skills are mounted by entering it. */
int docker_mount_enter(struct backend *backend, const struct spec *spec, pid_t pid, uid_t uid, gid_t gid,
                       struct err *err);
int docker_mount_skills(struct backend *backend, const struct spec *spec, struct err *err); /* ops->attach */
/* Whether that is done for such a box: we are root, and its container is on this machine and this kernel. Else the engine
 * binds what users mount, and skills are copied. */
bool docker_mount_enters(struct backend *backend, const struct spec *spec);
bool docker_mount_writes(const struct spec *spec); /* it can write to something of this machine's that is not its own */

/* ---- docker/layer.c: files kept ---- */

enum backend_files docker_files(struct backend *backend, const char *id);
int docker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
int docker_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int docker_drop_layer(struct backend *backend, const char *layer, struct err *err);
#define DOCKER_LAYER_BYTES 64
void docker_layer_image(const struct backend *backend, const char *layer, char name[DOCKER_LAYER_BYTES]);
/* The layer that the container is made from: the uppermost that has files. false: none, the template. */
bool docker_layer_top(struct backend *backend, const struct spec *spec, char ret_layer[17]);
/* Its image, with the settings of the one it once came from. */
int docker_layer_get(struct backend *backend, const char *layer, struct arena *arena, struct docker_image *ret_image,
                     struct err *err);
/* What the box has besides its container, workspace/ and skills/: made once, before the container is. */
int docker_layer_lay(struct backend *backend, const struct spec *spec, int box_dir, struct err *err);
/* What runs in the box stands still while its files are kept; a daemon that is killed meanwhile leaves a mark, and whoever
 * looks at the box next lets it go on. Cheap where there is no mark. */
int docker_still(struct backend *backend, const char *id, const json_t *inspection, struct err *err);
void docker_still_end(struct backend *backend, const char *id);
void docker_still_kill(struct backend *backend, const char *id); /* its end, and nothing more comes of its processes */
/* What the box's image has set, whether it was made from an image or from a layer; and how many layers that one has. */
int docker_layer_settings(struct backend *backend, const struct spec *spec, const json_t *inspection,
                          struct arena *arena, struct docker_image *ret_image, size_t *ret_depth, struct err *err);
/* Data in volumes of its own would be left out of whatever is kept: refused. */
int docker_layer_whole(const json_t *inspection, struct err *err);
int docker_layer_note(struct backend *backend, const char *layer, const struct docker_image *image, struct err *err);

/* ---- docker/export.c: a container's files as one image ---- */

int docker_export(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err);
/* The container's files become the layer's image, which has one layer. *ret_bytes: of the stream. */
int docker_flatten(struct backend *backend, const struct spec *spec, const char *layer,
                   const struct docker_image *image, uint64_t total, uint64_t *ret_bytes, struct err *err);
/* A container that does not fit its spec any more gives its name to the next one, and goes when that one runs; or comes
 * back. Cheap where there is none aside (a mark, boxes/ID/aside). settle: what a killed daemon left, before anything else of
 * a start: the one that is made from `from` (docker_spec_from) is in its place afterwards, or the newer. */
int docker_aside(struct backend *backend, const char *id, struct err *err);
int docker_aside_end(struct backend *backend, const char *id, bool runs, struct err *err);
int docker_aside_settle(struct backend *backend, const char *id, const char *from, struct err *err);
int docker_aside_drop(struct backend *backend, const char *id, struct err *err); /* whatever there is aside */

/* ---- docker/changes.c: what a container's files have that its image has not ---- */

/* Of the container's own layer, as its engine tells it; *left changes at most. diff: and of its files on this machine. */
int docker_changes(struct backend *backend, const struct spec *spec, uint64_t *left,
                   int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                   struct err *err);
int docker_diff(struct backend *backend, const struct spec *spec, uint64_t limit,
                int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                struct err *err);

/* ---- docker/check.c: what `cubby doctor` (docker_checks of backend.h) and /v1/info say ---- */

void docker_info(const struct backend_env *env, struct backend *backend, struct json *json);

#endif
