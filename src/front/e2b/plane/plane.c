/* The database of the control plane, and its threads. Called by the dialect when the daemon opens, starts, stops and
 * closes. Invariant: what was answered to a client stays true after a restart: all state is in the database. */
#include "front/e2b/plane/plane.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

enum { PLANE_LOOK_MS = 2000, PLANE_STACK_BYTES = 512 << 10 };

static const struct db_kind plane_kind = {
    .name = "e2b-plane.db",
    .what = "builds and volumes",
    .application = 0x63756270, /* "cubp" */
    .version = 1,
    .schema = "CREATE TABLE build(id TEXT PRIMARY KEY, number INTEGER NOT NULL, user TEXT NOT NULL,"
              "template TEXT NOT NULL, name TEXT NOT NULL, tags TEXT NOT NULL, cpus INTEGER NOT NULL,"
              "memory_mb INTEGER NOT NULL, status TEXT NOT NULL, plan TEXT, box TEXT, reason TEXT, step TEXT,"
              "created_ms INTEGER NOT NULL);"
              "CREATE INDEX build_template ON build(template);"
              "CREATE TABLE log(build TEXT NOT NULL, number INTEGER NOT NULL, at_us INTEGER NOT NULL,"
              "level TEXT NOT NULL, step TEXT, message TEXT NOT NULL, PRIMARY KEY(build, number)) WITHOUT ROWID;"
              "CREATE TABLE volume(id TEXT PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL,"
              "created_us INTEGER NOT NULL, UNIQUE(user, name));"
              "CREATE TABLE webhook(id TEXT PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL, url TEXT NOT NULL,"
              "enabled INTEGER NOT NULL, events TEXT NOT NULL, secret TEXT NOT NULL, created_us INTEGER NOT NULL);"
              "CREATE TABLE delivery(id TEXT PRIMARY KEY, webhook TEXT NOT NULL, event TEXT NOT NULL,"
              "tries INTEGER NOT NULL, next_ms INTEGER NOT NULL);"
              "CREATE TABLE cursor(audit INTEGER NOT NULL)",
    .pragmas = "PRAGMA synchronous=NORMAL;PRAGMA secure_delete=ON",
    .wal = true,
    .closed = true,
};

struct plane *plane_of(const struct http_request *request) {
    return e2b_state(request)->plane;
}

bool plane_writes(const struct http_request *request) {
    return front_who(request)->scope != SCOPE_READ;
}

const char *plane_user(struct http_request *request) {
    const char *user = front_who(request)->user;
    return user ? user : "default";
}

/* ---- open, close ---- */

static int plane_directory(const char *path, struct err *err) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "%s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_errno(err, errno, "%s", path) : fd;
}

static int plane_directories(struct plane *plane, const char *directory, struct err *err) {
    char path[4200];
    snprintf(path, sizeof path, "%s/e2b", directory);
    autofd top = plane_directory(path, err);
    if (top < 0)
        return top;
    snprintf(path, sizeof path, "%s/e2b/uploads", directory);
    plane->uploads_fd = plane_directory(path, err);
    if (plane->uploads_fd < 0)
        return plane->uploads_fd;
    snprintf(plane->volumes, sizeof plane->volumes, "%s/e2b/volumes", directory);
    plane->volumes_fd = plane_directory(plane->volumes, err);
    return plane->volumes_fd < 0 ? plane->volumes_fd : 0;
}

int plane_open(const char *directory, struct plane **ret_plane, struct err *err) {
    struct plane *plane = xcalloc(1, sizeof *plane);
    plane->uploads_fd = plane->volumes_fd = plane->stop[0] = plane->stop[1] = -1;
    pthread_mutex_init(&plane->lock, NULL);
    cond_init(&plane->news);
    int failed = plane_directories(plane, directory, err) ?: db_open(&plane_kind, directory, &plane->db, err);
    if (!failed && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plane->stop) < 0)
        failed = err_errno(err, errno, "a pair of sockets");
    if (failed)
        plane_close(plane);
    else
        *ret_plane = plane;
    return failed;
}

void plane_close(struct plane *plane) {
    if (!plane)
        return;
    db_close(&plane->db);
    fd_close(&plane->uploads_fd);
    fd_close(&plane->volumes_fd);
    fd_close(&plane->stop[0]);
    fd_close(&plane->stop[1]);
    pthread_cond_destroy(&plane->news);
    pthread_mutex_destroy(&plane->lock);
    free(plane);
}

/* ---- the builders ---- */

static void *plane_builder_main(void *argument) {
    struct plane *plane = argument;
    unsigned self = 0;
    pthread_mutex_lock(&plane->lock);
    while (!pthread_equal(plane->builders[self], pthread_self()))
        self++;
    pthread_mutex_unlock(&plane->lock);
    for (;;) {
        autoarena arena = ARENA_EMPTY;
        struct build build;
        struct err err = {0};
        int held = -1;
        bool others = false;
        pthread_mutex_lock(&plane->lock);
        int found = plane->ending ? 0 : build_next_locked(plane, &arena, &build, &held, &others, &err);
        if (found < 0)
            log_warn("template builds: %s", err.text);
        if (found <= 0 && !plane->ending)
            cond_wait_until(&plane->news, &plane->lock, found < 0 || others ? clock_ms() + PLANE_LOOK_MS : 0);
        bool ending = plane->ending;
        plane->building[self] = found > 0 ? build.user : NULL;
        pthread_mutex_unlock(&plane->lock);
        if (found > 0)
            builder_run(plane, &build);
        fd_close(&held);
        if (found > 0) {
            autolock(&plane->lock);
            plane->building[self] = NULL;
            pthread_cond_broadcast(&plane->news); /* another one of its user may begin */
        }
        if (ending)
            return NULL;
    }
}

void plane_build(struct plane *plane) {
    autolock(&plane->lock);
    while (!plane->ending && plane->builder_count < PLANE_BUILDERS)
        plane->builders[plane->builder_count++] = thread_joined(plane_builder_main, plane, PLANE_STACK_BYTES);
    pthread_cond_broadcast(&plane->news);
}

/* ---- start, stop ---- */

void plane_start(struct plane *plane, struct front *front) {
    int64_t builds = 0, webhooks = 0;
    plane->front = front;
    archive_sweep(plane);
    pthread_mutex_lock(&plane->lock);
    db_number(&plane->db, "SELECT count(*) FROM build WHERE status='building'", &builds, ERR_IGNORED);
    db_number(&plane->db, "SELECT count(*) FROM webhook", &webhooks, ERR_IGNORED);
    pthread_mutex_unlock(&plane->lock);
    if (builds)
        plane_build(plane);
    if (webhooks)
        webhook_send(plane);
}

void plane_stop(struct plane *plane) {
    pthread_mutex_lock(&plane->lock);
    plane->ending = true;
    pthread_cond_broadcast(&plane->news);
    pthread_mutex_unlock(&plane->lock);
    shutdown(plane->stop[1], SHUT_RDWR);
    for (unsigned i = 0; i < plane->builder_count; i++)
        pthread_join(plane->builders[i], NULL);
    plane->builder_count = 0;
    if (plane->courier_runs)
        pthread_join(plane->courier, NULL);
    plane->courier_runs = false;
}
