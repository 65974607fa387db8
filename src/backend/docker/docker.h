/* The docker backend. A box is one container, named cubby-HOME8-ID, and STATE/boxes/ID/, which has
 *
 *   docker             what is known of the container (struct docker_record)
 *   dial/              mounted into it, read-only: where its runner connects while it starts
 *   sock               where its runner listens
 *   workspace/, skills/
 *   paused, still, aside    marks: paused by a user, paused while files are kept, an older container is kept
 *
 * Invariants:
 * 1. A container is ours only if its label cubby.home is this state directory's and cubby.box the id. Nothing else is
 *    ever started, stopped, entered or removed; a foreign container with our name is EXISTS, with what to do.
 * 2. Nothing falls back: what the engine or the image does not support is an error that says so, and nothing half-made
 *    stays: container, volume, directory.
 * 3. No request can ask for privileges: docker/spec.c alone writes what a container is, field by field.
 *
 * The wire: the runner is PID 1, started with `serve --dial /.cubby/run/sock`. Where the engine is on this machine it
 * connects there and gets, by descriptor, its first wire and the listening socket `sock`, which it cannot reach by
 * path. From then on it is like a local runner, and works without the engine and without this daemon. Where it cannot
 * connect (an engine elsewhere, gVisor, SELinux) it speaks on its standard streams, to which we are attached; a later
 * daemon gets a wire by an exec of `cubby-runner relay` in the container. */
#ifndef CUBBY_BACKEND_DOCKER_H
#define CUBBY_BACKEND_DOCKER_H

#include <pthread.h>
#include <sys/socket.h>

#include "backend/backend.h"
#include "backend/docker/engine/engine.h"
#include "backend/trash.h"
#include "base/arena.h"

#define DOCKER_NAME_BYTES 32u          /* "cubby-HOME8-ID": state directories that share an engine do not collide */
#define DOCKER_PATH_BYTES 256u         /* of a request about a container */
#define DOCKER_LABEL_HOME "cubby.home" /* of this state directory: STATE/docker-home, 32 hex digits */
#define DOCKER_LABEL_BOX "cubby.box"   /* the id */
#define DOCKER_LABEL_USER "cubby.user" /* also on images that export and snapshots made */
#define DOCKER_LABEL_FROM "cubby.from" /* docker_spec_from */
#define DOCKER_RUN "/.cubby"           /* in the container: runner, run/sock */
#define DOCKER_REPOSITORY "cubby-"     /* images of ours: cubby-HOME8/layer:LAYER, cubby-HOME8/box-ID:N */
#define DOCKER_USER_BYTES 160
#define DOCKER_ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789:" /* of an image's id */

struct backend {
    const struct backend_env *env;
    const struct docker_settings *settings;
    struct engine *engine;
    struct engine_events *events;
    bool root;       /* we are: may enter containers of this machine and give files away */
    atomic_bool far; /* the engine does not see our files: a container of ours has shown it */
    char home[33];
    int boxes_fd, layers_fd;
    struct trash *trash;
    pthread_mutex_t lock;       /* guards the members below */
    struct docker_facts *facts; /* of the engine (docker_facts) */
    unsigned facts_generation;  /* of the engine that reported them */
    struct docker_ends *ends;   /* why containers ended lately, from the events stream */
};

/* ---- docker/check.c: features of the engine; also docker_checks of backend.h, for `cubby doctor` ---- */

struct docker_facts {
    char version[64], os[32], arch[32], storage[32], cgroup[8], runtime[64]; /* arch as images call it: "amd64" */
    bool podman, rootless, userns, seccomp, memory_limit, swap_limit, pids_limit, cpu_limit;
    bool disk_limit; /* its storage driver can limit the size of a container's layer */
    unsigned cpus;
    char runtimes[16][64];
    size_t runtime_count;
};
int docker_facts(struct backend *backend, struct docker_facts *ret_facts, struct err *err);
bool docker_facts_known(struct backend *backend, struct docker_facts *ret_facts);            /* without asking */
void docker_info(const struct backend_env *env, struct backend *backend, struct json *json); /* ops->info */

/* ---- docker.c: the verbs, and containers ---- */

void docker_name(const struct backend *backend, char name[DOCKER_NAME_BYTES], const char *id);
/* The path of a request about a box's container: "/containers/NAME" and rest. */
const char *docker_path(const struct backend *backend, const char *id, const char *rest, char path[DOCKER_PATH_BYTES]);
/* Such a request. doing: "starting", for "starting container 'NAME': ..." */
int docker_ask(struct backend *backend, const char *id, const char *method, const char *rest, const char *body,
               const char *doing, json_t **ret_json, struct err *err);
/* The container of a box: NOT_FOUND; EXISTS: a foreign one has its name. timeout_ms 0: the engine's. *ret_inspection:
 * json_decref. */
int docker_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err);
int docker_inspect_within(struct backend *backend, const char *id, unsigned timeout_ms, json_t **ret_inspection,
                          struct err *err);
bool docker_running(const json_t *inspection);
bool docker_is_paused(const json_t *inspection);               /* for the engine */
bool docker_exists(int dir, const char *id, const char *name); /* DIR/ID/NAME */
/* A mark of a box: an empty file in its directory. */
int docker_mark(struct backend *backend, const char *id, const char *name, struct err *err);
void docker_unmark(struct backend *backend, const char *id, const char *name);
int docker_remove(struct backend *backend, const char *id, struct err *err); /* with its volumes; absent is fine */

/* STATE/boxes/ID/docker: written before the container is made, and again when its runner has spoken. */
struct docker_record {
    char container[65]; /* the engine's id of it; "-": not made yet */
    pid_t pid;          /* of the runner as seen here, and its start time; 0: not known (elsewhere), or not running */
    uint64_t start;
    uid_t uid; /* of the runner as seen here */
    gid_t gid;
    bool dialled; /* it runs, and listens at STATE/boxes/ID/sock */
    bool relayed; /* it runs, and later wires come by relay; neither: nothing runs */
};
int docker_record_read(struct backend *backend, const char *id, struct docker_record *ret_record); /* or -errno */
int docker_record_write(struct backend *backend, const char *id, const struct docker_record *record, struct err *err);
int docker_record_pidfd(const struct docker_record *record); /* -1: the runner is not known or has ended */

/* ---- docker/end.c: how containers end ---- */

void docker_end_watch_locked(struct backend *backend); /* starts listening to the engine's events */
bool docker_why(struct backend *backend, const char *id, char *text, size_t size); /* ops->why */

/* ---- docker/use.c: usage and pauses ---- */

int docker_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err);
int docker_pause(struct backend *backend, const char *id, bool pause, struct err *err);
bool docker_paused(struct backend *backend, const char *id);
/* Pauses the box while its files are saved. A daemon that is killed during that time leaves a mark;
 * docker_still_end, called at every use of the box, then resumes it, and is cheap without a mark. docker_still_kill:
 * ends the box instead. */
int docker_still(struct backend *backend, const char *id, const json_t *inspection, struct err *err);
void docker_still_end(struct backend *backend, const char *id);
void docker_still_kill(struct backend *backend, const char *id);

/* ---- docker/spec.c: from a spec to a container ---- */

struct docker_image {
    char id[80];                                                 /* sha256:... */
    const char *reference;                                       /* as it was asked for; in the arena */
    const char *user;                                            /* the image's; "" is root */
    const char *const *entrypoint, *const *command, *const *env; /* the image's, NULL-terminated */
    const char *working_dir;
};

/* One start of a box, from docker_start to its wire. */
struct docker_start {
    struct backend *backend;
    const struct spec *spec;
    struct arena *arena;
    struct docker_facts facts;
    struct docker_image image;
    bool near; /* our files can be mounted there; else the runner is sent in, and the workspace is the container's */
    const char *dial_dir, *workspace_dir; /* here; workspace_dir NULL: not near */
    bool fresh;                           /* nothing of the box existed */
    bool made;                            /* we made the container */
    bool aside;                           /* an older container gave up its name */
    int box_fd, dial_dir_fd;
    int dial_fd;     /* listens at dial/sock; -1: the container cannot see it */
    int listener_fd; /* STATE/boxes/ID/sock, for the runner */
    int stream_fd;   /* standard streams of the runner, carried by the engine */
    struct engine_stream *stream;
};
/* The user that its commands run as, in the engine's syntax: "" is the image's root. by_default: ignoring the spec. */
void docker_spec_user(const struct docker_start *start, bool by_default, char user[DOCKER_USER_BYTES]);
bool docker_spec_root(const char *user); /* it is certainly root */
/* The runner's arguments, NULL-terminated: of the container, or of an exec next to the image's own program. */
const char *const *docker_spec_words(const struct spec *spec, const struct docker_image *image, struct arena *arena);
/* A digest of the layer or the name of the image that a container is made from. A stopped container with the same is
 * started again, with its files; the rest of a spec never changes. */
void docker_spec_from(struct backend *backend, const struct spec *spec, char ret_from[65]);
/* The body of POST /containers/create. */
int docker_spec_body(const struct docker_start *start, struct buf *out, struct err *err);

/* ---- docker/image.c: the image of a box ---- */

/* Allowed by the configuration, present (pulled if it is missing and that is allowed), and for the engine's
 * architecture or the platform asked for. layers[0], where a spec has layers, is an image of ours. */
int docker_image_get(struct backend *backend, const struct spec *spec, struct arena *arena,
                     struct docker_image *ret_image, struct err *err);
int docker_image_inspect(struct backend *backend, const char *name, json_t **ret_inspection, struct err *err);
/* Reads an image's settings ("Config" of an inspection) into all members but id and reference; in arena. false: a
 * setting has a wrong type. */
bool docker_image_settings(const json_t *config, struct arena *arena, struct docker_image *ret_image);
/* docker/pull.c: from its registry, with the credentials of the configuration; reports the progress. */
struct reference;
int docker_pull(struct backend *backend, const struct spec *spec, const struct reference *image, struct err *err);

/* ---- docker/wire.c: from a container to a wire ---- */

/* Puts the runner in where it cannot be mounted; attaches, starts, and waits until the runner speaks. Calls
 * docker_mount_enter before its HELLO is answered, and records the runner. */
int docker_wire_start(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err);
int docker_wire_find(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err);
int docker_wire_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err); /* ops->connect */
/* docker/send.c: sends the runner into a container that cannot see our files, and gives the workspace to its user. */
int docker_send(struct backend *backend, const struct spec *spec, struct err *err);
/* The ids of the container's user, inside: also of a container that cannot be seen from here. */
bool docker_send_whose(struct backend *backend, const char *id, const json_t *inspection, uid_t *ret_uid,
                       gid_t *ret_gid);

/* ---- docker/own.c: its files on this machine ---- */

/* Gives the workspace from its owner to the box's user; ids as seen here. root: that user is root of the container. */
int docker_own_workspace(struct backend *backend, const char *id, uid_t uid, gid_t gid, bool root, struct err *err);
/* As ops->diff, of those files alone; *ret_truncated is only ever set. */
int docker_own_changes(struct backend *backend, const struct spec *spec, uint64_t limit,
                       int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                       struct err *err);

/* ---- docker/mount.c: directories of this machine in a container ---- */

/* Writes the mounts that the engine makes into HostConfig.Mounts ("Mounts":[ is open); refuses impossible ones. */
int docker_mount_put(const struct docker_start *start, struct json *json, struct err *err);
/* The runner has connected and waits: workspace and its files get the right owner, mounts with changed owners and
 * /skills are mounted by entering it. pid 0: it did not connect, so that it cannot be entered. Ids as seen here. */
int docker_mount_enter(struct backend *backend, const struct spec *spec, const struct ucred *who, struct err *err);
int docker_mount_skills(struct backend *backend, const struct spec *spec, struct err *err); /* ops->attach */
/* Whether such a box is entered: we are root, and its container is on this machine and this kernel. Else the engine
 * binds what users mount, and skills are copied. */
bool docker_mount_enters(struct backend *backend, const struct spec *spec);
bool docker_mount_writes(
    const struct spec *spec); /* it can write to directories of this machine that are not its own */

/* ---- docker/layer.c: files kept ---- */

enum backend_files docker_files(struct backend *backend, const char *id);
int docker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
int docker_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int docker_drop_layer(struct backend *backend, const char *layer, struct err *err);
#define DOCKER_LAYER_BYTES 64
void docker_layer_image(const struct backend *backend, const char *layer, char name[DOCKER_LAYER_BYTES]);
/* The layer that the container is made from: the uppermost that has files. false: none, but the template. */
bool docker_layer_top(struct backend *backend, const struct spec *spec, char ret_layer[17]);
/* Its image, with the settings of the image it once came from. */
int docker_layer_get(struct backend *backend, const char *layer, struct arena *arena, struct docker_image *ret_image,
                     struct err *err);
/* The box's files outside of its container, workspace/ and skills/: made once, before the container is. */
int docker_layer_lay(struct backend *backend, const struct spec *spec, int box_dir, struct err *err);
/* For a box whose files are kept as `layer`. whole: refuses volumes, whose data would be lost. settings: finds the
 * settings of the box's image, or of its layer, and notes them; counts the layers of that image. */
int docker_layer_whole(const json_t *inspection, struct err *err);
int docker_layer_settings(struct backend *backend, const struct spec *spec, const char *layer, const json_t *inspection,
                          struct arena *arena, struct docker_image *ret_image, size_t *ret_depth, struct err *err);

/* ---- docker/export.c: a container's files as one image ---- */

int docker_export(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err);
/* The container's files become the layer's image, which has one layer. *ret_bytes: of the stream. */
int docker_flatten(struct backend *backend, const struct spec *spec, const char *layer,
                   const struct docker_image *image, uint64_t total, uint64_t *ret_bytes, struct err *err);

/* ---- docker/aside.c: replacing a container ---- */

/* A container that no longer fits its spec gives its name to the next one. It is removed when that one runs, or comes
 * back. All are cheap without the mark boxes/ID/aside. settle: cleans up after a killed daemon, before a start:
 * afterwards the container made from `from` (docker_spec_from) has the name, or the later one. drop: removes whatever
 * is aside. */
int docker_aside(struct backend *backend, const char *id, struct err *err);
int docker_aside_end(struct backend *backend, const char *id, bool runs, struct err *err);
int docker_aside_settle(struct backend *backend, const char *id, const char *from, struct err *err);
int docker_aside_drop(struct backend *backend, const char *id, struct err *err);

/* ---- docker/changes.c: how a container's files differ from its image ---- */

/* Of the container's own layer, as its engine reports them; at most *left changes. docker_diff (ops->diff): also of its
 * files on this machine. */
int docker_changes(struct backend *backend, const struct spec *spec, uint64_t *left,
                   int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                   struct err *err);
int docker_diff(struct backend *backend, const struct spec *spec, uint64_t limit,
                int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                struct err *err);

#endif
