/* The part of the control plane that works between requests: template builds, volumes and webhooks. One database,
 * STATE/e2b-plane.db, and below STATE/e2b the archives that clients uploaded for builds, and volumes. */
#ifndef CUBBY_FRONT_E2B_PLANE_H
#define CUBBY_FRONT_E2B_PLANE_H

#include <jansson.h>

#include "base/sync.h"
#include "front/e2b/setup.h"
#include "front/e2b/template.h"
#include "store/db.h"

enum {
    PLANE_BUILDERS = 4,    /* builds at once in one daemon; others wait */
    PLANE_USER_BUILDS = 2, /* of them one user's */
};

struct plane {
    struct front *front; /* NULL: not started, or stopping */
    struct db db;
    pthread_mutex_t lock; /* of the connection, and of all below */
    pthread_cond_t news;  /* something to do, or it ends */
    int uploads_fd;       /* STATE/e2b/uploads */
    int volumes_fd;       /* STATE/e2b/volumes */
    char volumes[4200];   /* its path */
    pthread_t builders[PLANE_BUILDERS], courier;
    unsigned builder_count;
    const char *building[PLANE_BUILDERS]; /* by builder: the user whose build it does; NULL: none */
    bool courier_runs;
    bool ending;
    int stop[2]; /* a pair of sockets: stop[0] is hung up when the daemon stops, which cancels what runs in boxes */
};

int plane_open(const char *directory, struct plane **ret_plane, struct err *err);
void plane_close(struct plane *plane);                      /* NULL is fine */
void plane_start(struct plane *plane, struct front *front); /* boxes can be used: unfinished work continues */
void plane_stop(struct plane *plane);                       /* it stays as it is, for the next daemon */

/* ---- for the files of this directory ---- */

struct plane *plane_of(const struct http_request *request);
bool plane_writes(const struct http_request *request); /* its token is not one for reading alone */
const char *plane_user(struct http_request *request);  /* whose what is made is */

/* ---- builds ---- */

void plane_build(struct plane *plane); /* a build is to be done */
/* Builds of the template (its id or name) are not known any more, and those under way end. False: there were none. */
bool build_forget(struct http_request *request, const char *name);

/* build.c: one build as the database has it; all in arena. */
struct build {
    char id[17];
    const char *user, *template_id, *name, *status;
    const char *tags;          /* a JSON array */
    const char *plan;          /* a JSON object; NULL: not started yet */
    const char *box;           /* that it was in when its daemon ended; NULL: none */
    const char *reason, *step; /* of one that failed */
    uint64_t cpus, memory_mb;
};
/* The next one that waits to be built, and that nobody builds; *ret_lock is held while it is. Users with fewer builds
 * under way come first, and no user has more than PLANE_USER_BUILDS. 0: no build waits; then *ret_others says whether
 * other daemons are building. Under the lock. */
int build_next_locked(struct plane *plane, struct arena *arena, struct build *ret_build, int *ret_lock,
                      bool *ret_others, struct err *err);
void build_log(struct plane *plane, const struct build *build, const char *level, const char *step, const char *text,
               size_t len);
void build_log_locked(struct plane *plane, const struct build *build, const char *level, const char *step,
                      const char *text, size_t len);
int build_in(struct plane *plane, const struct build *build, const char *box, struct err *err); /* its box */
/* How it ended. reason NULL: well. False: the build was deleted meanwhile. */
bool build_ended(struct plane *plane, const struct build *build, const char *reason, const char *step);
bool build_there(struct plane *plane, const struct build *build);
void builder_run(struct plane *plane,
                 const struct build *build); /* builder.c: until it has ended, or the daemon stops */

/* A template was deleted: known steps of a user without any other built template go. */
void builder_forget(struct e2b_owner owner);

/* archive.c: an uploaded archive, opened for reading. NOT_FOUND. */
int archive_open(struct plane *plane, const char *user, const char *hash, struct err *err);
void archive_sweep(struct plane *plane); /* what a killed daemon had received a part of */
int archive_link(struct http_request *request, struct box *box, struct err *err);
const char *archive_mask(struct http_request *request, const char *path); /* dialect.mask: links are secrets */
int archive_put(struct http_request *request, struct box *box, struct err *err);

/* The body into fd, at most max_upload_bytes. */
int plane_receive(struct http_request *request, int fd, struct err *err);

/* ---- webhooks ---- */

void webhook_send(struct plane *plane); /* starts the thread that sends, unless it runs */

/* ---- volumes ---- */

/* volumeMounts of a request to make a sandbox, as mounts. INVALID. */
int e2b_volume_mounts(struct http_request *request, const json_t *list, const struct mount **ret_mounts,
                      size_t *ret_count, struct err *err);
/* dialect.admit of their content: by the token of the volume. */
int e2b_volume_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);

extern const struct route e2b_build_routes[], e2b_volume_routes[], e2b_content_routes[], e2b_webhook_routes[];

#endif
