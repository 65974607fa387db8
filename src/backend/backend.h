/* How boxes are made, found again and ended. A backend only yields wires; everything inside a box is the runner's.
 *
 * Functions may be called from many threads at once, for different ids; the provider never calls two of them for the
 * same id at the same time. Anything asked for that cannot be had is an error that names the missing thing and its
 * fix (UNSUPPORTED), never a weaker box. */
#ifndef CUBBY_BACKEND_BACKEND_H
#define CUBBY_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "wire/spec.h"
#include "wire/wire.h"

/* docker: what the configuration says. Lists are NULL-terminated and may be NULL. */
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
    const char *const *local_maps;    /* local: "VIRTUAL=REAL[:ro]", NULL-terminated, may be NULL */
    unsigned pool_size;               /* jail: pre-made parts kept ready; 0: none (`cubby run`) */
    const char *disk_quota;           /* jail: a method of quota.h; NULL: the first that works here */
    bool disk_reserve;                /* jail: space for disk_mb is taken when a box is made (loop) */
    const char *store;                /* "auto", "directory" or "btrfs" (store.h); NULL: auto */
    uint64_t store_mb;                /* the most that a btrfs store takes; 0: what the disk has */
    struct limits limits;             /* what a box has unless it asks for more or less: the first parts are made so */
    const char *const *allow_weaker;  /* jail: walls that may be missing: words of struct check; may be NULL */
    bool one_shot;             /* `cubby run`, `cubby mcp`: their own boxes only; nothing is adopted or cleaned */
    struct machines *machines; /* remote: those that joined (machine.h); NULL: there is no such backend */
    const struct docker_settings *docker; /* NULL: there is no such backend */
    /* Long work for a box goes on: "pull", "export". total 0: not known. Never waits; may be NULL. */
    void (*progress)(void *user, const struct spec *spec, const char *what, uint64_t done, uint64_t total,
                     const char *detail);
    void *progress_user;
};

/* Of a box's directory until the box has been recorded: what is found with it, and without a record, was never told to
 * anybody. Who records the box takes the sticky bit off. */
#define BACKEND_UNFINISHED_MODE 01700

struct usage {
    uint64_t memory_bytes, cpu_ms, pids, disk_bytes;
    uint64_t oom_kills; /* processes of the box that were killed for memory so far */
    bool has_memory, has_cpu, has_pids, has_disk;
};

/* What could be happening to a box's files now. */
enum backend_files {
    FILES_UNCHANGED, /* there are none of its own: it is what lies below it */
    FILES_STILL,     /* nothing runs */
    FILES_QUIET,     /* its runner runs, and nothing else: it can be ended and started again, nobody would notice */
    FILES_ALONE,     /* the same, unless files lie in the box's /dev/shm, which this daemon may not look into */
    FILES_BUSY,      /* or the backend copies whatever it keeps */
};

struct kept {
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

/* What a machine says of itself when it registers, checked by front/join; and what is known of it. Texts are UTF-8, bounded. */
struct machine_hello {
    const char *user, *name;
    const char *workspace;                              /* absolute, on the machine */
    const char *shell, *version, *isolation, *platform; /* isolation: "jail" or "none"; may be "" */
    const char *address;                                /* where it connects from, for people */
    const char *can;                                    /* words, separated by a blank */
};
struct machine_facts {
    struct machine_hello hello; /* in arena */
    bool online;
    bool text;            /* it speaks the text form */
    uint64_t latency_us;  /* 0: not known */
    uint64_t since_ms;    /* wall clock: online, or offline, since */
    unsigned connections; /* how often it came */
};
struct backend; /* state of one backend in this process */

struct backend_ops {
    const char *name;
    bool no_limits;    /* its boxes hold no limits: defaults are not given to them, and what is asked for is refused */
    bool images;       /* its templates are images of a container engine: their grammar, no default of disk_mb */
    bool whole_layers; /* a kept layer has all that lies below it: a box lies on one alone */
    /* The machine cannot do it at all: -ERR_UNSUPPORTED with the reason and the fix. Cheap; probes are cached. */
    int (*open)(const struct backend_env *env, struct backend **ret_backend, struct err *err);
    void (*close)(struct backend *backend); /* boxes live on */
    /* A new box. On failure nothing is left behind. ret_pidfd: of the runner seen from here, or -1. */
    int (*start)(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                 struct err *err);
    /* A box that outlived its daemon. NOT_FOUND: none runs, and nothing of one is left. GONE or another: its runner ended
     * or does not answer, and stop is to be asked. */
    int (*discover)(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err);
    /* One more connection to its runner, bare: for who carries its bytes to somebody else's wire. NULL: cannot. */
    int (*connect)(struct backend *backend, const char *id, int *ret_fd, struct err *err);
    /* Whether the box can be reached now. BUSY: its machine is offline, since when. NULL: always. Cheap. */
    int (*reach)(struct backend *backend, const struct spec *spec, struct err *err);
    /* What is known of its machine, in arena; with reach. False: nothing. NULL: it is on no other machine. Cheap. */
    bool (*show)(struct backend *backend, const struct spec *spec, struct arena *arena,
                 struct machine_facts *ret_facts);
    /* Why its processes ended, in the words of box->died, where somebody else than the kernel can be asked, which may take a
     * moment. false: nobody knows. NULL: there is nobody to ask. */
    bool (*why)(struct backend *backend, const char *id, char *text, size_t size);
    /* Ends it; keep_files: processes and mounts go, files stay for the next start of the same id. Idempotent. */
    int (*stop)(struct backend *backend, const char *id, bool keep_files, struct err *err);
    /* Ids of this backend that have anything on this machine. */
    int (*list)(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err);
    /* What dead daemons left, of this state directory and of the machine; each thing is named. May be NULL. Others may be
     * serving meanwhile; theirs stays. */
    void (*clean)(struct backend *backend, void (*each)(void *user, const char *what), void *user);
    int (*usage)(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err);
    /* Its processes stand still, or go on; memory is kept. Idempotent. NULL: this backend cannot. */
    int (*pause)(struct backend *backend, const char *id, bool pause, struct err *err);
    bool (*paused)(struct backend *backend, const char *id); /* what the kernel says: it outlives daemons */
    /* Under the box's lock: what a daemon froze for work of its own, and died before it let go of, runs again. NULL: no
     * daemon's death leaves a box frozen. */
    int (*let_go)(struct backend *backend, const char *id, struct err *err);
    enum backend_files (*files)(struct backend *backend, const char *id); /* set together with the three below */
    /* The files of the box as they are now become STATE/layers/LAYER/fs; the caller has made that directory.
     * move: what runs is ended, the files move there, and the box goes on with empty files above (its layers must already
     * begin with this one: until it has files it counts for nothing); else they are copied, and what runs stands still
     * meanwhile. On failure the files are where they were, and the layer may hold a part. NULL: this backend cannot. */
    int (*keep)(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
    /* What a box's own files take on the disk now, or those of a kept layer. NULL: they are not on this daemon's disk. */
    int (*measure)(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err);
    /* Its processes end, and its own files are thrown away; what lies below them stays. A box that has a directory and
     * nothing in it is made complete that way, but for its record: it can be started. */
    int (*fresh)(struct backend *backend, const struct spec *spec, struct err *err);
    /* What `layers` show together becomes LAYER/fs, whole or not at all. May take long; ends early when *stop is set. */
    int (*squash)(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                  struct err *err);
    /* /skills of a running box begins with spec->attached.layers from now on; nobody sees anything between. BUSY: some process
     * uses what is there (a directory, a file, a mapping): all is as before. NULL: this backend mounts nothing. */
    int (*attach)(struct backend *backend, const struct spec *spec, struct err *err);
    /* Whether such a box is mounted anything at all; it never changes for one. NULL: wherever attach is set. Cheap. */
    bool (*attaches)(struct backend *backend, const struct spec *spec);
    int (*drop_layer)(struct backend *backend, const char *layer, struct err *err); /* nobody uses it; idempotent */
    /* The container of the box, what it was made from included, becomes LAYER as one image of one layer, and what ran has
     * ended: the caller's record begins with that layer from then on. Nothing has changed since its image: !changed, and
     * all goes on as it was, as after a failure. Reports progress; may take long. NULL: this backend has no images. */
    int (*export)(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err);
    /* What the box's files have that its template has not, as far as its runner cannot know it: path, event; of type
     * FILE_OTHER and without a size. What is mounted into it is left out. NULL: the runner knows. */
    int (*diff)(struct backend *backend, const struct spec *spec, uint64_t limit,
                int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                struct err *err);
    /* {"available":…, "can":[…], "missing":[{"what":…,"fix":…}]} members of an already open object. */
    void (*info)(const struct backend_env *env, struct backend *backend, struct json *json);
};

static inline bool backend_attaches(const struct backend_ops *ops, struct backend *backend, const struct spec *spec) {
    return ops->attach && (!ops->attaches || ops->attaches(backend, spec));
}

bool net_network_ok(const char *text); /* an entry of open_networks: IPv4 "A.B.C.D[/BITS]" */

extern const struct backend_ops backend_local, backend_jail, backend_remote, backend_docker;
/* NULL-terminated: every backend of this build, in the order shown. */
extern const struct backend_ops *const backend_table[];
const struct backend_ops *backend_find(const char *name); /* NULL when unknown */
/* For list(): the ids in a directory of boxes whose own directory holds `mark`. */
int backend_list_boxes(int boxes_dir, const char *mark, void (*each)(void *user, const char *id), void *user,
                       struct err *err);

/* The host's own checks, shared by `cubby doctor`, /v1/info and the start of the daemon: one row a thing. */
struct check {
    const char *name;   /* "user namespaces" */
    const char *weaker; /* the word of allow_weaker that does without it; NULL: nothing does, or nothing has to */
    bool ok;
    bool partly;      /* ok, and yet less than newer kernels give */
    bool required;    /* without it no jail at all; with a weaker word: unless that word is given */
    bool wall;        /* stands between boxes, or between a box and the host */
    char detail[160]; /* what was found */
    char fix[240];    /* how to get it; empty when there is nothing to get */
};
/* What may be missing when it is allowed by name, NULL-terminated. */
extern const char *const backend_weaker_words[];
bool backend_allows_weaker(const struct backend_env *env, const char *word);
size_t backend_checks(const struct backend_env *env, struct check *checks, size_t max);
void backend_missing(const struct check *checks, size_t count, struct json *json); /* the member "missing" of info */
/* The same of the container engine: that of env->docker, else the environment's. No row is required. */
size_t docker_checks(const struct backend_env *env, struct check *checks, size_t max);

#endif
