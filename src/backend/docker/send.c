/* For a container that cannot see our files: sends the runner into it (the engine unpacks a tar), and gives the
 * workspace, a directory of its own, to its user. Called by docker/wire.c before the container runs. Invariant: the
 * container's own files come from the image and are hostile: they are bounded, and only two numbers are taken from
 * them. */
#include "base/base.h"
#include "backend/docker/docker.h"
#include "tree/tarfmt.h"
#include "base/url.h"

enum { ACCOUNTS_BYTES = 4 << 20 }; /* /etc/passwd of an image */

/* ---- one entry as a tar ---- */

struct send_tar {
    uint8_t head[TAR_HEAD_BYTES];
    size_t head_len;
    int fd; /* the content; -1: none */
    uint64_t size, at;
    uint64_t whole; /* of head, content, padding and the end mark */
};

static ssize_t send_read(void *user, void *data, size_t len) {
    struct send_tar *tar = user;
    uint64_t at = tar->at, content = tar->head_len, padding = tar->head_len + tar->size;
    if (at < content) {
        len = len < content - at ? len : content - at;
        memcpy(data, tar->head + at, len);
    } else if (at < padding) {
        ssize_t n = pread(tar->fd, data, len < padding - at ? len : padding - at, (off_t)(at - content));
        if (n <= 0)
            return -1;
        len = (size_t)n;
    } else {
        len = len < tar->whole - at ? len : tar->whole - at;
        memset(data, 0, len);
    }
    tar->at += len;
    return (ssize_t)len;
}

/* Sends one file or directory: its content is fd's, or none. */
static int send_entry(struct backend *backend, const char *id, const char *directory, const struct tar_entry *entry,
                      int fd, uid_t uid, gid_t gid, struct err *err) {
    struct send_tar tar = {.fd = fd, .size = entry->size};
    tar.head_len = tar_format(tar.head, entry, uid, gid);
    tar.whole = tar.head_len + tar.size + tar_padding(tar.size) + (uint64_t)2 * TAR_BLOCK_BYTES;
    autoarena arena = ARENA_EMPTY;
    char path[DOCKER_PATH_BYTES];
    const char *rest = arena_printf(&arena, "/archive?path=%s", url_encode(&arena, directory, URL_VALUE));
    const struct http_call call = {
        .method = "PUT",
        .path = arena_printf(&arena, "%s%s", docker_path(backend, id, "", path), rest),
        .read_body = send_read,
        .user = &tar,
    };
    return engine_call(backend->engine, &call, arena_printf(&arena, "sending '%.100s' into the container", entry->name),
                       NULL, err);
}

/* ---- whose the workspace is ---- */

/* Looks up `user` in the container's /etc/passwd, which the engine sends as the first file of a tar. */
static bool send_account(struct backend *backend, const char *id, const char *user, uid_t *ret_uid, gid_t *ret_gid) {
    char path[DOCKER_PATH_BYTES];
    struct err ignored;
    int status = 0;
    autobuf tar = buf_max(ACCOUNTS_BYTES);
    const struct http_call call = {.method = "GET",
                                   .path = docker_path(backend, id, "/archive?path=/etc/passwd", path)};
    if (engine_do(backend->engine, &call, &status, &tar, &ignored) < 0 || status != 200 || tar.len < TAR_BLOCK_BYTES)
        return false;
    struct tar_entry *entry = xcalloc(1, sizeof *entry);
    bool zero = false;
    const char *wrong = tar_parse(tar.data, entry, &zero);
    uint64_t size = entry->size;
    bool file = !wrong && !zero && entry->type == TAR_FILE && size <= tar.len - TAR_BLOCK_BYTES;
    free(entry);
    if (!file || !buf_cstr(&tar))
        return false;
    char *rest = (char *)tar.data + TAR_BLOCK_BYTES, *line;
    rest[size] = 0; /* within what came, or the NUL after it */
    while ((line = strsep(&rest, "\n"))) {
        const char *name = strsep(&line, ":"), *password = strsep(&line, ":");
        const char *uid_text = strsep(&line, ":"), *gid_text = strsep(&line, ":");
        uint64_t uid, gid;
        if (strcmp(name, user) != 0 || !password)
            continue;
        if (!uid_text || !gid_text || !text_u64(uid_text, UINT32_MAX - 1, &uid) ||
            !text_u64(gid_text, UINT32_MAX - 1, &gid))
            return false;
        *ret_uid = (uid_t)uid;
        *ret_gid = (gid_t)gid;
        return true;
    }
    return false;
}

/* Of "NAME|UID[:GROUP|GID]". An unknown name is for the engine to refuse. */
bool docker_send_whose(struct backend *backend, const char *id, const json_t *inspection, uid_t *ret_uid,
                       gid_t *ret_gid) {
    const char *user = engine_text(inspection, "Config", "User"), *group = strchr(user, ':');
    uint64_t number = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    const char *name = text_make(DOCKER_USER_BYTES, "%.*s", (int)strcspn(user, ":"), user);
    if (text_u64(name, UINT32_MAX - 1, &number))
        uid = (uid_t)number;
    else if (*name && !send_account(backend, id, name, &uid, &gid))
        return false;
    if (group && text_u64(group + 1, UINT32_MAX - 1, &number))
        gid = (gid_t)number;
    *ret_uid = uid;
    *ret_gid = gid;
    return true;
}

int docker_send(struct backend *backend, const struct spec *spec, struct err *err) {
    json_auto_t *inspection = NULL;
    uid_t uid;
    gid_t gid;
    struct stat status;
    autofd fd = open(backend->env->runner_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", backend->env->runner_path);
    TRY(docker_inspect(backend, spec->id, &inspection, err));
    const char *begun = engine_text(inspection, "State", "StartedAt");
    bool first = !*begun || strncmp(begun, "0001-", 5) == 0;
    bool volumes =
        spec->container.read_only; /* root's, who is the user of such a container; nothing else can be made */
    struct tar_entry entry = {.type = TAR_FILE, .name = "runner", .size = (uint64_t)status.st_size, .mode = 0755};
    int r =
        send_entry(backend, spec->id, DOCKER_RUN, &entry, fd, 0, 0, err); /* ours may be newer than the one it had */
    if (r == 0 && first && !volumes && docker_send_whose(backend, spec->id, inspection, &uid, &gid)) {
        const char *const paths[] = {spec->workspace ? spec->workspace : WORKSPACE_PATH,
                                     spec->agent ? SKILLS_PATH : NULL}; /* for copies of its skills */
        entry = (struct tar_entry){.type = TAR_DIR, .mode = 0755};
        for (size_t i = 0; r == 0 && i < sizeof paths / sizeof *paths && paths[i]; i++) {
            snprintf(entry.name, sizeof entry.name, "%s/", paths[i] + 1);
            r = send_entry(backend, spec->id, "/", &entry, -1, uid, gid, err);
        }
    }
    return r;
}
