/* Archives that clients upload for the COPY steps of builds: STATE/e2b/uploads/USER-HASH, where USER is derived from the
 * user's name and HASH is the client's own. Called through e2b_build_routes and by builders. Invariants: one user never
 * reads or replaces an archive of another; an archive is there whole or not at all, and is opened in boxes alone. */
#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "front/e2b/plane/plane.h"

enum {
    ARCHIVE_LINK_S = 3600, /* so long a link is good */
    ARCHIVES_MOST = 64,    /* of a user */
    ARCHIVES_TIMES = 4,    /* all of a user's together: so many of the largest one */
    ARCHIVE_NAME = 16 + 1 + 64 + 1,
    ARCHIVE_KEY = 17,
};

static void archive_key(const char *user, char ret_key[ARCHIVE_KEY]) {
    uint8_t digest[32];
    sha256(user, strlen(user), digest);
    text_hex(ret_key, digest, 8);
}

static void archive_name(const char *key, const char *hash, char ret_name[ARCHIVE_NAME]) {
    snprintf(ret_name, ARCHIVE_NAME, "%.16s-%.64s", key, hash);
}

static int archive_hash(struct http_request *request, const char **ret_hash, struct err *err) {
    const char *hash = http_param(request, "hash");
    if (strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64)
        return err_set(err, ERR_INVALID, "the hash of files is 64 hex digits");
    *ret_hash = hash;
    return 0;
}

int archive_open(struct plane *plane, const char *user, const char *hash, struct err *err) {
    char key[ARCHIVE_KEY], name[ARCHIVE_NAME];
    archive_key(user, key);
    archive_name(key, hash, name);
    int fd = openat(plane->uploads_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_set(err, ERR_NOT_FOUND, "its files were not uploaded, or are not kept any more: build again");
    futimens(fd, NULL);
    return fd;
}

/* ---- links ---- */

static void archive_token(const struct e2b *e2b, const char *key, const char *hash, uint64_t until_s,
                          char ret_token[65]) {
    e2b_derive(e2b, ret_token, "upload %.16s %.64s %llu", key, hash, (unsigned long long)until_s);
}

int archive_link(struct http_request *request, struct box *, struct err *err) {
    char key[ARCHIVE_KEY], name[ARCHIVE_NAME], token[65];
    const char *hash, *template_id = http_param(request, "template");
    uint64_t until_s = clock_wall_ms() / 1000 + ARCHIVE_LINK_S;
    autobuf out = buf_max(4096);
    STEP(archive_hash(request, &hash, err));
    archive_key(plane_user(request), key);
    archive_name(key, hash, name);
    archive_token(e2b_state(request), key, hash, until_s, token);
    struct json json = json_begin(&out);
    json_put_bool(&json, "present", faccessat(plane_of(request)->uploads_fd, name, F_OK, 0) == 0);
    if (plane_writes(request)) /* the link is a right to write */
        json_put_str(&json, "url",
                     arena_printf(http_arena(request), "http%s://%s/templates/%.64s/files/%s/%s-%llu-%s",
                                  http_is_tls(request) ? "s" : "", http_host(request), template_id, hash, key,
                                  (unsigned long long)until_s, token));
    json_close(&json, '}');
    return e2b_json(request, 201, &out, err);
}

const char *archive_mask(struct http_request *request, const char *path) {
    const char *files = strncmp(path, "/templates/", 11) ? NULL : strstr(path, "/files/");
    const char *token = files ? strchr(files + 7, '/') : NULL;
    return token ? arena_printf(http_arena(request), "%.*s/...", (int)(token - path), path) : path;
}

/* "USER-UNTIL-TOKEN". DENIED: forged, or too late. */
static int archive_judge(struct http_request *request, const char *hash, char ret_key[ARCHIVE_KEY], struct err *err) {
    char *rest = arena_strdup(http_arena(request), http_param(request, "token")), token[65];
    const char *key = strsep(&rest, "-"), *until = strsep(&rest, "-");
    uint64_t until_s;
    if (!until || !rest || strlen(key) != 16 || !text_id(key) || strlen(rest) != 64 ||
        !text_u64(until, INT64_MAX, &until_s))
        return err_set(err, ERR_DENIED, "this is not a link for an upload");
    archive_token(e2b_state(request), key, hash, until_s, token);
    if (CRYPTO_memcmp(token, rest, 64) != 0)
        return err_set(err, ERR_DENIED, "this is not a link for an upload");
    if (until_s < clock_wall_ms() / 1000)
        return err_set(err, ERR_DENIED, "the link for the upload has expired: ask for another");
    snprintf(ret_key, ARCHIVE_KEY, "%s", key);
    return 0;
}

/* ---- uploads ---- */

struct archives { /* of one user */
    uint64_t bytes, oldest_ns;
    unsigned count;
    char oldest[ARCHIVE_NAME];
};

static void archives_look(struct plane *plane, const char *key, struct archives *ret_archives) {
    *ret_archives = (struct archives){.oldest_ns = UINT64_MAX};
    autodir *dir = fd_opendir(plane->uploads_fd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        struct stat status;
        if (strncmp(entry->d_name, key, 16) != 0 || strlen(entry->d_name) >= ARCHIVE_NAME ||
            fstatat(plane->uploads_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        uint64_t at_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
        ret_archives->count++;
        ret_archives->bytes += (uint64_t)status.st_size;
        if (at_ns < ret_archives->oldest_ns) {
            ret_archives->oldest_ns = at_ns;
            snprintf(ret_archives->oldest, sizeof ret_archives->oldest, "%s", entry->d_name);
        }
    }
}

/* What is used least goes for what comes. */
static void archives_prune(struct plane *plane, const char *key, uint64_t most) {
    struct archives archives;
    archives_look(plane, key, &archives);
    while (archives.count && (archives.count > ARCHIVES_MOST || archives.bytes > most * ARCHIVES_TIMES)) {
        if (unlinkat(plane->uploads_fd, archives.oldest, 0) < 0)
            return;
        archives_look(plane, key, &archives);
    }
}

void archive_sweep(struct plane *plane) {
    autodir *dir = fd_opendir(plane->uploads_fd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        struct stat status;
        if (entry->d_name[0] == '.' && strlen(entry->d_name) == 17 &&
            fstatat(plane->uploads_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            (uint64_t)status.st_mtim.tv_sec + ARCHIVE_LINK_S < clock_wall_ms() / 1000)
            unlinkat(plane->uploads_fd, entry->d_name, 0);
    }
}

int plane_receive(struct http_request *request, int fd, struct err *err) {
    uint64_t most = front_settings(request)->max_upload_bytes, left = most;
    bool larger = http_body_length(request) > 0 && (uint64_t)http_body_length(request) > most;
    while (!larger) {
        ssize_t n = http_body_splice(request, fd, left < (1u << 20) ? (size_t)left + 1 : 1u << 20, err);
        if (n <= 0)
            return (int)n;
        larger = (uint64_t)n > left;
        left -= larger ? left : (uint64_t)n;
    }
    return err_set(err, ERR_TOO_LARGE, "an upload has at most %llu bytes (max_upload_bytes)", (unsigned long long)most);
}

int archive_put(struct http_request *request, struct box *, struct err *err) {
    struct plane *plane = plane_of(request);
    uint64_t most = front_settings(request)->max_upload_bytes;
    char key[ARCHIVE_KEY], name[ARCHIVE_NAME], temporary[ARCHIVE_NAME], random[17];
    const char *hash;
    STEP(archive_judge(request, http_param(request, "hash"), key, err));
    STEP(archive_hash(request, &hash, err));
    STEP(provider_room(front_of(request)->provider, err));
    archive_name(key, hash, name);
    policy_random_id(random);
    snprintf(temporary, sizeof temporary, ".%s", random);
    autofd fd = openat(plane->uploads_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "STATE/e2b/uploads");
    int failed = plane_receive(request, fd, err);
    if (!failed && renameat(plane->uploads_fd, temporary, plane->uploads_fd, name) < 0)
        failed = err_errno(err, errno, "STATE/e2b/uploads");
    if (failed) {
        unlinkat(plane->uploads_fd, temporary, 0);
        return failed;
    }
    archives_prune(plane, key, most);
    return front_empty(request, 201);
}
