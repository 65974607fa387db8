/* Messages from the jail backend to stage one of the runner (runner/enter/enter.c): two on one socket, which then
 * becomes the box's first wire.
 *
 * 1. SLOT: everything that can be made before a box is requested (ids, cgroups, namespaces, the root from a template
 *    and an empty upper layer). The runner answers with a u32, the pid of the box's PID 1. A pool keeps such halves
 *    ready.
 * 2. PLAN: this one box. Then the frames of proto.h begin. A pool also keeps jails whose plan has no owner: the
 *    owner's settings follow as a call, BIND.
 *
 * `cubby-runner attach` gets a third message, ATTACH, for a box that has both, or for a container.
 *
 * A message is a u32 length and records of {u8 key, u32 length, bytes}; texts end with a NUL that is counted;
 * numbers are 8 bytes. The sender is trusted (it is the daemon of the same build), yet nothing here reads past the
 * bytes. */
#ifndef CUBBY_WIRE_PLAN_H
#define CUBBY_WIRE_PLAN_H

#include <string.h>

#include "base/buf.h"

#define PLAN_VERSION 9
#define PLAN_MAX_BYTES (1u << 20)
#define PLAN_STAGE_FD 3  /* where the runner finds the socket ... */
#define PLAN_ERRORS_FD 4 /* ... and the pipe that takes {u8 code, sentence} when a step fails */
/* Of `cubby-runner attach`, whose message is a file: namespaces of the box. Its pipe gets {u8 0} when all is done. */
#define PLAN_USER_FD 5
#define PLAN_MOUNTS_FD 6
/* Of `cubby-runner capture`: namespaces of the box. */
#define PLAN_CAPTURE_USER_FD 4
#define PLAN_CAPTURE_NET_FD 5

enum plan_key {
    /* SLOT */
    PLAN_VERSION_KEY = 1, /* number */
    PLAN_UID_BASE,        /* number: host id of the box's 0; absent: an ordinary user's box, with one id */
    PLAN_CGROUP,          /* text: directory of the box on cgroup v2 */
    PLAN_TASKS,           /* text, repeated: `tasks` file of the box on a v1 controller */
    PLAN_OOM,             /* text: file that counts oom kills */
    PLAN_TEMPLATE,        /* text: the lowest layer */
    PLAN_LAYERS,          /* text: directory of the box's own layers (upper, upper.work, upper.0, ...), or ... */
    PLAN_DISK,            /* text: ... an ext4 image that holds them, or ... */
    PLAN_TMPFS_BYTES,     /* number: ... the size of a tmpfs that will ... */
    PLAN_TMPFS_INODES,    /* number: ... and how many files it takes */
    PLAN_SYSTEM,          /* text, repeated: host directory laid over the template at the same path (/usr) */
    PLAN_LISTEN,          /* text: directory that gets the socket for further wires; absent: none */
    PLAN_STORE,           /* text: directory of kept layers, each NAME/fs ... */
    PLAN_LOWER,           /* text, repeated: ... NAME of one between the box's own and the template; uppermost first */
    PLAN_OWN_SHOWN,       /* number: 1: the content of DISK or TMPFS is left at /skills, for ATTACH */
    /* PLAN */
    PLAN_ENV,        /* text, repeated: K=V */
    PLAN_SHELL,      /* text */
    PLAN_SOURCE,     /* text: begins a mount ... */
    PLAN_TARGET,     /* text: ... continued ... */
    PLAN_READ_ONLY,  /* number: ... and ends it */
    PLAN_RESOLV,     /* text: resolv.conf of a box with a network; also of ATTACH */
    PLAN_MEMORY,     /* number: limit of memory in bytes; absent: none, as the two below */
    PLAN_PIDS,       /* number: limit of processes and threads */
    PLAN_OPEN_FILES, /* number: limit of descriptors of one process */
    PLAN_BLANK,      /* number: 1: a box without an owner yet, waiting for BIND; it ends with its wire until then */
    PLAN_TERMINALS,  /* number: of /dev/pts; absent: DEFAULT_TERMINALS; TERMINALS_NONE */
    PLAN_WORKSPACE,  /* text: where its workspace is; absent: WORKSPACE_PATH */
    /* ATTACH (or, but for the last, PLAN of an ordinary user's box), with VERSION, LAYERS (absent: OWN_SHOWN), STORE
     * and LOWER as above */
    PLAN_SKILL_STORE, /* text: directory of skill layers ... */
    PLAN_SKILL,       /* text, repeated: ... NAME of one; uppermost first */
    PLAN_SKILL_PATH,  /* text, repeated: /skills, and where else it is seen */
    PLAN_REPLACE,     /* number: 1: there is one already, which goes unless it is in use */
    /* ATTACH to a container, with SOURCE, TARGET and READ_ONLY as above */
    PLAN_UID_MAP,   /* text: from ids on disk to the host's, for layers, as in uid_map; absent: the box's own map */
    PLAN_GID_MAP,   /* text */
    PLAN_OUTER_UID, /* number: the box's user as seen from the host, whom mounts belong to ... */
    PLAN_OUTER_GID, /* number */
    PLAN_INNER_UID, /* number: ... and as seen from inside */
    PLAN_INNER_GID, /* number */
};

struct plan_record {
    uint8_t key;
    size_t len;
    const char *text; /* NUL-terminated when it is a text */
    uint64_t number;
};

static inline void plan_put(struct buf *out, enum plan_key key, const void *data, size_t len) {
    buf_byte(out, (uint8_t)key);
    buf_u32(out, (uint32_t)len);
    buf_put(out, data, len);
}

static inline void plan_text(struct buf *out, enum plan_key key, const char *text) {
    plan_put(out, key, text, strlen(text) + 1);
}

static inline void plan_number(struct buf *out, enum plan_key key, uint64_t value) {
    buf_byte(out, (uint8_t)key);
    buf_u32(out, 8);
    buf_u64(out, value);
}

/* The next record: true; false at the end, with view->bad when malformed. */
static inline bool plan_next(struct view *view, struct plan_record *ret_record) {
    if (view->len == 0 || view->bad)
        return false;
    struct plan_record record = {.key = view_u8(view)};
    record.len = view_u32(view);
    record.text = (const char *)view_take(view, record.len);
    if (view->bad)
        return false;
    if (record.len == 8) {
        struct view number = view_of(record.text, 8);
        record.number = view_u64(&number);
    }
    *ret_record = record;
    return true;
}

#endif
