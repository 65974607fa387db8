/* A container that cannot see our files: its runner is sent into it (the engine unpacks a tar), and its workspace, a
 * directory of its own, becomes its user's. Called by docker/wire.c for a container that was made and does not run. Invariant:
 * what the engine tells of the container's own files is the image's, and hostile: bounded, and good for two numbers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tree/tarfmt.h"
#include "base/text.h"
#include "base/url.h"

enum { ACCOUNTS_BYTES = 4 << 20 }; /* /etc/passwd of an image */

/* ---- one entry as a tar ---- */

struct bundle {
    uint8_t head[TAR_HEAD_BYTES];
    size_t head_len;
    int fd; /* the content; -1: none */
    uint64_t size, at;
    uint64_t whole; /* of head, content, padding and the end mark */
};

static ssize_t bundle_read(void *user, void *data, size_t len) {
    struct bundle *bundle = user;
    uint64_t at = bundle->at, content = bundle->head_len, padding = bundle->head_len + bundle->size;
    if (at < content) {
        len = len < content - at ? len : content - at;
        memcpy(data, bundle->head + at, len);
    } else if (at < padding) {
        ssize_t n = pread(bundle->fd, data, len < padding - at ? len : padding - at, (off_t)(at - content));
        if (n <= 0)
            return -1;
        len = (size_t)n;
    } else {
        len = len < bundle->whole - at ? len : bundle->whole - at;
        memset(data, 0, len);
    }
    bundle->at += len;
    return (ssize_t)len;
}

static int bundle_send(struct backend *backend, const char *id, const char *directory, struct bundle *bundle,
                       const struct tar_entry *entry, uid_t uid, gid_t gid, const char *doing, struct err *err) {
    bundle->head_len = tar_format(bundle->head, entry, uid, gid);
    bundle->size = entry->size;
    bundle->whole = bundle->head_len + bundle->size + tar_padding(bundle->size) + (uint64_t)2 * TAR_BLOCK_BYTES;
    char name[DOCKER_NAME_BYTES];
    docker_name(backend, name, id);
    autoarena arena = ARENA_EMPTY;
    const char *path =
        arena_printf(&arena, "/containers/%s/archive?path=%s", name, url_encode(&arena, directory, URL_VALUE));
    autobuf out = buf_max(ENGINE_ANSWER_BYTES);
    int status,
        r = engine_do(backend->engine,
                      &(struct http_call){.method = "PUT", .path = path, .read_body = bundle_read, .user = bundle},
                      &status, &out, err);
    if (r == 0)
        r = engine_answer(backend->engine, status, &out, doing, NULL, err);
    return r;
}

static int send_runner(struct backend *backend, const struct spec *spec, struct err *err) {
    struct stat status;
    autofd fd = open(backend->env->runner_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", backend->env->runner_path);
    struct bundle bundle = {.fd = fd};
    struct tar_entry entry = {.type = TAR_FILE, .name = "runner", .size = (uint64_t)status.st_size, .mode = 0755};
    return bundle_send(backend, spec->id, DOCKER_RUN, &bundle, &entry, 0, 0, "sending the runner into the container",
                       err);
}

/* ---- whose the workspace is ---- */

/* A field of a line of accounts as a number; false: it is none. */
static bool account_number(const char *line, unsigned field, uint64_t *ret_number) {
    char text[16];
    while (field--) {
        line = strchr(line, ':');
        if (!line++)
            return false;
    }
    size_t len = strcspn(line, ":");
    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, line, len);
    text[len] = 0;
    return text_u64(text, UINT32_MAX - 1, ret_number);
}

/* The first file of a tar, which came whole: its lines, each ended by NUL, are looked through for `user`. */
static bool account_find(struct buf *tar, const char *user, uint64_t *ret_uid, uint64_t *ret_gid) {
    struct tar_entry *entry = xcalloc(1, sizeof *entry);
    bool zero = false;
    const char *wrong = tar->len < TAR_BLOCK_BYTES ? "short" : tar_parse(tar->data, entry, &zero);
    uint64_t size = entry->size;
    bool file = !wrong && !zero && entry->type == TAR_FILE && size <= tar->len - TAR_BLOCK_BYTES;
    free(entry);
    if (!file || !buf_cstr(tar))
        return false;
    char *rest = (char *)tar->data + TAR_BLOCK_BYTES, *line;
    rest[size] = 0; /* within what came, or the NUL behind it */
    while ((line = strsep(&rest, "\n")))
        if (strncmp(line, user, strlen(user)) == 0 && line[strlen(user)] == ':')
            return account_number(line, 2, ret_uid) && account_number(line, 3, ret_gid);
    return false;
}

static bool account_ask(struct backend *backend, const char *id, const char *user, uint64_t *ret_uid,
                        uint64_t *ret_gid) {
    char name[DOCKER_NAME_BYTES], path[96];
    struct err ignored;
    int status;
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/archive?path=/etc/passwd", name);
    autobuf tar = buf_max(ACCOUNTS_BYTES);
    return engine_do(backend->engine, &(struct http_call){.method = "GET", .path = path}, &status, &tar, &ignored) ==
               0 &&
           status == 200 && account_find(&tar, user, ret_uid, ret_gid);
}

/* "NAME|UID[:GROUP|GID]". A name that is nowhere is for the engine to refuse. */
static bool ids_of(struct backend *backend, const char *id, const char *user, uint64_t *ret_uid, uint64_t *ret_gid) {
    char name[DOCKER_USER_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(user, ":"), user);
    const char *group = strchr(user, ':');
    *ret_uid = *ret_gid = 0;
    if (*name && !text_u64(name, UINT32_MAX - 1, ret_uid) && !account_ask(backend, id, name, ret_uid, ret_gid))
        return false;
    uint64_t gid;
    if (group && text_u64(group + 1, UINT32_MAX - 1, &gid))
        *ret_gid = gid;
    return true;
}

bool docker_send_whose(struct backend *backend, const char *id, const json_t *inspection, uid_t *ret_uid,
                       gid_t *ret_gid) {
    const char *user = json_string_value(json_object_get(json_object_get(inspection, "Config"), "User"));
    uint64_t uid, gid;
    if (!ids_of(backend, id, user ? user : "", &uid, &gid))
        return false;
    *ret_uid = (uid_t)uid;
    *ret_gid = (gid_t)gid;
    return true;
}

static int send_directory(struct backend *backend, const struct spec *spec, const char *path, uid_t uid, gid_t gid,
                          struct err *err) {
    struct bundle bundle = {.fd = -1};
    struct tar_entry entry = {.type = TAR_DIR, .mode = 0755};
    snprintf(entry.name, sizeof entry.name, "%s/", path + 1);
    return bundle_send(backend, spec->id, "/", &bundle, &entry, uid, gid,
                       "making the directories of the container's user", err);
}

int docker_send(struct backend *backend, const struct spec *spec, struct err *err) {
    json_t *inspection = NULL;
    uid_t uid;
    gid_t gid;
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r < 0)
        return r;
    const char *begun = json_string_value(json_object_get(json_object_get(inspection, "State"), "StartedAt"));
    bool first = !begun || strncmp(begun, "0001-", 5) == 0;
    bool volumes =
        spec->container.read_only;       /* root's, who is the user of such a container; nothing else can be made */
    r = send_runner(backend, spec, err); /* ours may be newer than the one it had */
    if (r == 0 && first && !volumes && docker_send_whose(backend, spec->id, inspection, &uid, &gid)) {
        r = send_directory(backend, spec, spec->workspace ? spec->workspace : WORKSPACE_PATH, uid, gid, err);
        if (r == 0 && spec->agent) /* copies of its skills */
            r = send_directory(backend, spec, SKILLS_PATH, uid, gid, err);
    }
    json_decref(inspection);
    return r;
}
