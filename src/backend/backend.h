/* How boxes are made, found again and ended. A backend only yields wires; everything inside a box is the runner's.
 *
 * Functions may be called from many threads at once, for different ids; the provider never calls two of them for the
 * same id at the same time. Anything requested that is not available is an error that names the missing thing and its
 * fix (UNSUPPORTED), never a weaker box. */
#ifndef CUBBY_BACKEND_BACKEND_H
#define CUBBY_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "wire/spec.h"
#include "wire/wire.h"

/* docker: the configuration. Lists are NULL-terminated and may be NULL. */
struct docker_registry {
    const char *host; /* "registry.example.org[:PORT]"; that of image names without one: "docker.io" */
    const char *username, *password, *token;
    const char *password_file, *token_file; /* instead of these: read whenever an image is pulled */
};
struct docker_settings {
    const char *host, *cert_dir; /* of struct engine_where; NULL: the environment's */
    bool tls;
    const char *network; /* the engine's network that `network: open` is; NULL: its default one */
    const struct docker_registry *registries;
    size_t registry_count;
};

/* Settings shared by all backends, from the daemon's options or from `cubby run`. Lives as long as the backends. */
struct backend_env {
    const char *state_dir;   /* 0700, absolute */
    const char *runner_path; /* cubby-runner, absolute */
    const char
        *templates_dir; /* imported templates; NULL: STATE/templates (the skeleton of `host` always lies there) */
    bool allow_local;
    const char *const *open_networks; /* jail: private networks that boxes with a network may reach; may be NULL */
    const char *const *gate_resolvers, *const *gate_host_ports; /* of struct gate_settings; may be NULL */
    const char *const *local_maps;   /* local: "VIRTUAL=REAL[:ro]", NULL-terminated, may be NULL */
    unsigned pool_size;              /* jail: pre-made parts kept ready; 0: none (`cubby run`) */
    const char *disk_quota;          /* jail: a method of quota.h; NULL: the first that works here */
    bool disk_reserve;               /* jail: space for disk_mb is taken when a box is made (loop) */
    const char *store;               /* "auto", "directory" or "btrfs" (store.h); NULL: auto */
    uint64_t store_mb;               /* the most that a btrfs store takes; 0: the whole disk */
    struct limits limits;            /* a box's default limits: the first parts are made with them */
    const char *template_name;       /* a box's default template, likewise; NULL: host */
    const char *const *allow_weaker; /* jail: walls that may be missing: words of struct check; may be NULL */
    bool one_shot;                   /* `cubby run`, `cubby mcp`: their own boxes only; nothing is adopted or cleaned */
    struct machines *machines;       /* remote: joined machines (machine.h); NULL: no such backend */
    const struct docker_settings *docker; /* NULL: no such backend */
    /* Another way than a token of ours to be a worker: its name. UNAUTHORIZED: it is not one; BUSY: that cannot be found
     * out now. May wait for the network. NULL: there is no other. */
    int (*identify)(void *user, const char *token, char ret_name[LIMIT_RUNNER_BYTES + 1], struct err *err);
    void *identify_user;
    /* Progress of long work for a box: "pull", "export". total 0: not known. Never waits; may be NULL. */
    void (*progress)(void *user, const struct spec *spec, const char *what, uint64_t done, uint64_t total,
                     const char *detail);
    void *progress_user;
};

/* Of a box's directory until the box has been recorded: no client has seen a box whose directory has this mode and
 * no record. Recording the box removes the sticky bit. */
#define BACKEND_UNFINISHED_MODE 01700

struct usage {
    uint64_t memory_bytes, cpu_ms, pids, disk_bytes;
    uint64_t cache_bytes; /* of memory_bytes: pages of files; 0: none, or not known */
    uint64_t oom_kills;   /* processes of the box that were killed for memory so far */
    uint64_t net_rx_bytes, net_tx_bytes, read_bytes, write_bytes; /* by its own interfaces but loopback; of disks */
    bool has_memory, has_cpu, has_pids, has_disk, has_net, has_io;
    bool brief; /* set by who asks: the second and third line stay 0; their files cost as much as all others together */
};

/* What could be happening to a box's files now. */
enum backend_files {
    FILES_UNCHANGED, /* no files of its own: it equals the layers below it */
    FILES_STILL,     /* nothing runs */
    FILES_QUIET,     /* only its runner runs: it can be ended and started again unnoticed */
    FILES_ALONE,     /* the same, unless files lie in the box's /dev/shm, which this daemon may not look into */
    FILES_BUSY,      /* or the backend copies whatever it keeps */
};

struct kept_ahead; /* a backend's own */
struct kept {
    struct kept_ahead *ahead; /* in: from ops->keep_ahead, or NULL; the caller ends it */
    bool moved;
    const char *method; /* "layer", "btrfs", "reflink", "copy", "commit": constant text */
    uint64_t pause_us;  /* how long its processes stood still */
    uint64_t bytes;     /* copied; 0 where nothing was */
};

struct exported {
    bool changed;
    char image[64]; /* its name at the engine */
    uint64_t bytes; /* of files, as a tar */
};

struct file_change {
    const char *path;       /* absolute; valid during the callback; bytes, maybe not UTF-8 */
    enum watch_event event; /* created, modified, removed */
    enum file_type type;
    uint64_t size;
};

/* The description that a machine sends when it registers, checked by front/join; and its state. Texts are UTF-8,
 * bounded. */
struct machine_hello {
    const char *user, *name;
    const char *workspace;                              /* absolute, on the machine */
    const char *shell, *version, *isolation, *platform; /* isolation: "jail" or "none"; may be "" */
    const char *address;                                /* where it connects from, for people */
    const char *can;                                    /* words, separated by a blank */
    /* A worker's: names of its templates with a blank between, and how much it takes. */
    const char *templates;
    uint64_t boxes_max, memory_mb;
};
#define MACHINE_WORKERS "*" /* the user of workers: no user has that name */
struct machine_facts {
    struct machine_hello hello; /* in arena */
    bool online;
    bool draining;        /* a worker that gets no new boxes */
    bool text;            /* it speaks the text form */
    uint64_t latency_us;  /* 0: not known */
    uint64_t since_ms;    /* wall clock: online, or offline, since */
    unsigned connections; /* how often it came */
    uint64_t boxes;       /* a worker's, as this daemon counts them */
    uint64_t free_mb;     /* of its memory_mb, as it last reported; memory_mb before that */
};
/* Files on their way to another machine (tree/pack.h). */
struct backend_stream {
    int (*put)(void *user, const uint8_t *data, size_t len, struct err *err); /* pack */
    ssize_t (*get)(void *user, uint8_t *data, size_t len, struct err *err);   /* unpack; 0: a whole stream ended */
    void *user;
};
struct netplace;
struct backend; /* state of one backend in this process */

struct backend_ops {
    const char *name;
    bool no_limits;    /* it cannot enforce limits: default limits are not applied, requested ones are refused */
    bool host_network; /* its boxes have the network of the daemon itself */
    bool images;       /* its templates are images of a container engine: their grammar, no default of disk_mb */
    bool whole_layers; /* a kept layer has all that lies below it: a box lies on one alone */
    bool far_layers;   /* kept layers are not in STATE/layers, where only a note of them is */
    /* The machine cannot do it at all: -ERR_UNSUPPORTED with the reason and the fix. Cheap; probes are cached. */
    int (*open)(const struct backend_env *env, struct backend **ret_backend, struct err *err);
    void (*close)(struct backend *backend); /* boxes live on */
    /* Where a new box is to be, if there is a choice: a machine's name, in arena, for spec->machine. LIMIT: nowhere.
     * NULL: there is none. */
    int (*place)(struct backend *backend, const struct spec *spec, struct arena *arena, const char **ret_machine,
                 struct err *err);
    /* The same for a user's own machines: the active one. BUSY: the user has none that is online. NULL: not there. */
    int (*active)(struct backend *backend, const char *user, struct arena *arena, const char **ret_machine,
                  struct err *err);
    /* A new box. On failure nothing is left. ret_pidfd: of the runner seen from here, or -1. */
    int (*start)(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                 struct err *err);
    /* A box that outlived its daemon. NOT_FOUND: none runs, and nothing of one is left. GONE or another: its runner
     * ended or does not answer, and stop is to be asked. */
    int (*discover)(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err);
    /* One more bare connection to its runner, for a caller that forwards its bytes to another wire. NULL: cannot. */
    int (*connect)(struct backend *backend, const char *id, int *ret_fd, struct err *err);
    /* Whether the box can be reached now. BUSY: its machine is offline, since when. NULL: always. Cheap. */
    int (*reach)(struct backend *backend, const struct spec *spec, struct err *err);
    /* The state of its machine, in arena; with reach. False: unknown. NULL: it is not on another machine. Cheap. */
    bool (*show)(struct backend *backend, const struct spec *spec, struct arena *arena,
                 struct machine_facts *ret_facts);
    /* Why its processes ended, in the form of box->died, if more than the kernel can be asked; may take a moment.
     * false: unknown. NULL: only the kernel knows. */
    bool (*why)(struct backend *backend, const char *id, char *text, size_t size);
    /* Ends it; keep_files: processes and mounts go, files stay for the next start of the same id. Idempotent. */
    int (*stop)(struct backend *backend, const char *id, bool keep_files, struct err *err);
    /* Ids of this backend that have anything on this machine. */
    int (*list)(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err);
    /* Removes leftovers of dead daemons, of this state directory and of the machine; each thing is named. May be
     * NULL. Other daemons may be serving; their things stay. */
    void (*clean)(struct backend *backend, void (*each)(void *user, const char *what), void *user);
    int (*usage)(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err);
    /* Freezes its processes, or lets them continue; memory is kept. Idempotent. NULL: this backend cannot. */
    int (*pause)(struct backend *backend, const char *id, bool pause, struct err *err);
    bool (*paused)(struct backend *backend, const char *id); /* according to the kernel: it outlives daemons */
    /* Under the box's lock: resumes a box that a daemon froze for work of its own before it died. NULL: a daemon's
     * death never leaves a box frozen. */
    int (*let_go)(struct backend *backend, const char *id, struct err *err);
    enum backend_files (*files)(struct backend *backend, const char *id); /* set together with the three below */
    /* The files of the box as they are now become STATE/layers/LAYER/fs; the caller has made that directory. move:
     * processes are ended, the files move there, and the box continues with empty files above. Its layers must
     * already begin with this one: a layer without files counts for nothing. Else the files are copied, and the box
     * is paused during the copy. On failure the files are where they were, and the layer may hold a part. NULL: this
     * backend cannot. */
    int (*keep)(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
    /* Begins to copy the files of a box whose processes run, before keep without move: they continue, and so do other
     * calls. UNSUPPORTED: keep does all of it. Ended by keep_ahead_end, whether keep used it or not. NULL: cannot. */
    int (*keep_ahead)(struct backend *backend, const char *id, struct kept_ahead **ret_ahead, struct err *err);
    void (*keep_ahead_end)(struct backend *backend, struct kept_ahead *ahead);
    /* The size of a box's own files on the disk now, or of a kept layer. NULL: they are not on this daemon's disk. */
    int (*measure)(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err);
    /* Ends its processes and discards its own files; the layers below them stay. This also completes a box that has
     * an empty directory, except for its record: it can then be started. */
    int (*fresh)(struct backend *backend, const struct spec *spec, struct err *err);
    /* Merges `layers` into LAYER/fs, completely or not at all. May take long; ends early when *stop is set. */
    int (*squash)(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                  struct err *err);
    /* From now on /skills of a running box begins with spec->attached.layers; no process sees an intermediate state.
     * BUSY: a process uses the current one (a directory, a file, a mapping): nothing has changed. NULL: this backend
     * cannot mount. */
    int (*attach)(struct backend *backend, const struct spec *spec, struct err *err);
    /* These as well in a running box, all or none; NULL: only at its next start. */
    int (*mount)(struct backend *backend, const char *id, const struct mount *mounts, size_t count, struct err *err);
    /* Whether such a box is mounted anything at all; it never changes for one. NULL: wherever attach is set. Cheap. */
    bool (*attaches)(struct backend *backend, const struct spec *spec);
    int (*drop_layer)(struct backend *backend, const char *layer, struct err *err); /* no thread uses it; idempotent */
    /* The own files of a box in which nothing runs, or a kept layer, as a stream; and from one, whole or not at all:
     * until then no other call sees them. EXISTS: it has such a box or layer. NULL: this backend cannot. */
    int (*pack)(struct backend *backend, const char *name, bool layer, const struct backend_stream *stream,
                struct err *err);
    int (*unpack)(struct backend *backend, const char *name, bool layer, uint64_t disk_mb,
                  const struct backend_stream *stream, struct err *err);
    /* A box in which nothing runs goes to another machine, its layers, and `more` ones that it may return to. On
     * success it is on both, and the caller records spec->machine, the one that counts, and calls settle. Refused where
     * it fits nowhere; machine NULL: any. NULL: boxes stay where they are. */
    int (*move)(struct backend *backend, const struct spec *spec, const char *const *more, const char *machine,
                struct arena *arena, const char **ret_machine, struct err *err);
    /* A box that was to be moved is where spec->machine says, as recorded; a copy elsewhere is removed. Cheap where it
     * was not. Set with move. */
    int (*settle)(struct backend *backend, const struct spec *spec, struct err *err);
    bool (*leaving)(struct backend *backend, const struct spec *spec); /* its machine drains, and is there. Cheap */
    /* Turns the container of the box, with the image it was made from, into LAYER as one image of one layer, and
     * ends its processes; from then on the caller's record begins with that layer. If nothing has changed since its
     * image (!changed), or on failure, nothing happens. Reports progress; may take long. NULL: this backend has no
     * images. */
    int (*export)(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err);
    /* Changes of the box's files against its template that its runner cannot know: path, event; of type FILE_OTHER
     * and without a size. Mounts are left out. NULL: the runner knows all. */
    int (*diff)(struct backend *backend, const struct spec *spec, uint64_t limit,
                int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                struct err *err);
    /* Where the network of a box that runs is, for network policies. NULL: it has none of its own on this machine. */
    int (*netplace)(struct backend *backend, const char *id, struct netplace *ret_place, struct err *err);
    /* A stream to the gate of the machine that its boxes are on (backend/gate/far.h), for network policies. user: of
     * one of them. NULL: they are on this machine. */
    int (*gate)(struct backend *backend, const char *user, const char *machine, struct err *err);
    /* Network `open` is given to a box that runs, or taken away: then nothing of it is reached any more. Taking away
     * what is not there is fine. NULL: only at its start. */
    int (*open_network)(struct backend *backend, const struct spec *spec, bool open, struct err *err);
    /* {"available":…, "can":[…], "missing":[{"what":…,"fix":…}]} members of an already open object. */
    void (*info)(const struct backend_env *env, struct backend *backend, struct json *json);
};

static inline bool backend_attaches(const struct backend_ops *ops, struct backend *backend, const struct spec *spec) {
    return ops->attach && (!ops->attaches || ops->attaches(backend, spec));
}

bool net_network_ok(const char *text); /* an entry of open_networks: IPv4 "A.B.C.D[/BITS]" */

extern const struct backend_ops backend_local, backend_jail, backend_remote, backend_fleet, backend_docker;
/* NULL-terminated: every backend of this build, in the order shown. */
extern const struct backend_ops *const backend_table[];
const struct backend_ops *backend_find(const char *name); /* NULL when unknown */
/* For list(): the ids in a directory of boxes whose own directory holds `mark`. */
int backend_list_boxes(int boxes_dir, const char *mark, void (*each)(void *user, const char *id), void *user,
                       struct err *err);
bool backend_is_empty(int dir, const char *path); /* a directory that can be read, without entries */
/* A directory, made if it is missing; or an existing one that is not a link. A descriptor, or negative. */
int backend_open_dir(int dir, const char *name, bool make, struct err *err);

/* The host's own checks, shared by `cubby doctor`, /v1/info and the start of the daemon: one row a thing. */
struct check {
    const char *name;   /* "user namespaces" */
    const char *weaker; /* the word of allow_weaker that does without it; NULL: nothing does, or nothing has to */
    bool ok;
    bool partly;      /* ok, and yet less than newer kernels give */
    bool required;    /* without it no jail at all; with a weaker word: unless that word is given */
    bool wall;        /* separates boxes, or a box and the host */
    char detail[160]; /* the finding */
    char fix[240];    /* how to get it; empty when there is nothing to get */
};
/* Features that may be missing if they are allowed by name, NULL-terminated. */
bool backend_allows_weaker(const struct backend_env *env, const char *word);
size_t backend_checks(const struct backend_env *env, struct check *checks, size_t max);
void backend_missing(const struct check *checks, size_t count, struct json *json); /* the member "missing" of info */
/* The same of the container engine: that of env->docker, else the environment's. No row is required. */
size_t docker_checks(const struct backend_env *env, struct check *checks, size_t max);

#endif
