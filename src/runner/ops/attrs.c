/* Extended attributes. Called by the file ops. Invariant: only names below "user." are touched, which grant no rights;
 * and what one file can add to an answer is bounded. */
#include <sys/xattr.h>

#include "base/base.h"
#include "runner/ops/attrs.h"

enum {
    NAME_BYTES = 255, /* the kernel's limit */
    LIST_BYTES = 64 << 10,
    VALUE_BYTES = 4096,
};

static const char users[] = "user.", overlays[] = "user.overlay.";

int attrs_args(const struct fields *args, struct attrs *ret_attrs, struct err *err) {
    *ret_attrs = (struct attrs){0};
    if (!args->has[FIELD_PATTERN])
        return args->has[FIELD_ATTRS] ? err_set(err, ERR_INVALID, "attributes need the prefix of their names") : 0;
    const char *prefix = args->text[FIELD_PATTERN], *pairs = args->text[FIELD_ATTRS];
    size_t len = args->len[FIELD_ATTRS];
    if (strncmp(prefix, users, sizeof users - 1) != 0 || strlen(prefix) > NAME_BYTES ||
        strncmp(prefix, overlays, sizeof overlays - 1) == 0)
        return err_set(err, ERR_INVALID, "names of attributes must begin with 'user.' and another word");
    if (len > LIMIT_ATTRIBUTES_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the attributes have more than %u bytes", LIMIT_ATTRIBUTES_BYTES);
    unsigned texts = 0;
    for (size_t at = 0; at < len; texts++) {
        const char *end = memchr(pairs + at, 0, len - at);
        size_t size = end ? (size_t)(end - pairs) - at : SIZE_MAX;
        bool key = texts % 2 == 0;
        if (!end || (key && (size == 0 || strlen(prefix) + size > NAME_BYTES)))
            return err_set(err, ERR_INVALID, "the name of an attribute is empty, too long or not ended");
        at += size + 1;
    }
    if (texts % 2)
        return err_set(err, ERR_INVALID, "an attribute has no value");
    *ret_attrs = (struct attrs){.prefix = prefix, .pairs = pairs, .len = len};
    return 0;
}

static bool attrs_begins(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

void attrs_put(struct buf *out, const char *path, const char *prefix) {
    static char names[LIST_BYTES + 1], value[VALUE_BYTES];
    ssize_t n = listxattr(path, names, LIST_BYTES);
    autobuf pairs = buf_max(LIMIT_ATTRIBUTES_BYTES);
    for (const char *at = names; n > 0 && at < names + n; at += strlen(at) + 1) {
        const char *key = at + strlen(prefix);
        ssize_t len = attrs_begins(at, prefix) && *key ? getxattr(path, at, value, sizeof value) : -1;
        if (len < 0 || memchr(value, 0, (size_t)len) ||
            pairs.len + strlen(key) + (size_t)len + 2 > LIMIT_ATTRIBUTES_BYTES)
            continue;
        buf_put(&pairs, key, strlen(key) + 1);
        buf_put(&pairs, value, (size_t)len);
        buf_put(&pairs, "", 1);
    }
    if (pairs.len)
        field_bytes(out, FIELD_ATTRS, pairs.data, pairs.len);
}

/* A file system without attributes has none to keep. */
static void attrs_keep(int fd, int old_fd, const char *prefix) {
    static char names[LIST_BYTES + 1], value[LIST_BYTES];
    ssize_t n = old_fd < 0 ? 0 : flistxattr(old_fd, names, LIST_BYTES);
    for (const char *at = names; n > 0 && at < names + n; at += strlen(at) + 1) {
        if (!attrs_begins(at, users) || attrs_begins(at, overlays) || attrs_begins(at, prefix))
            continue;
        ssize_t len = fgetxattr(old_fd, at, value, sizeof value);
        if (len >= 0)
            (void)!fsetxattr(fd, at, value, (size_t)len, 0);
    }
}

int attrs_set(int fd, int old_fd, const struct attrs *attrs, const char *shown, struct err *err) {
    char name[NAME_BYTES + 1];
    attrs_keep(fd, old_fd, attrs->prefix);
    for (size_t at = 0; at < attrs->len;) {
        const char *key = attrs->pairs + at, *value = key + strlen(key) + 1;
        snprintf(name, sizeof name, "%s%s", attrs->prefix, key);
        if (fsetxattr(fd, name, value, strlen(value), 0) < 0)
            return errno == ENOTSUP ? err_set(err, ERR_UNSUPPORTED,
                                              "'%s': its file system does not support extended attributes", shown)
                                    : err_errno(err, errno, "cannot set the attribute '%s' of '%s'", key, shown);
        at = (size_t)(value - attrs->pairs) + strlen(value) + 1;
    }
    return 0;
}
