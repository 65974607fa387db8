/* Tar streams. Called by the runner's tar ops, and by the daemon for skills. Invariant: a stream that is read is
 * hostile: every number is bounded before use. The content of a written stream matches its heads, even if files
 * change. */
#include "base/base.h"
#include "tree/tar.h"

/* ---- reading ---- */

static bool tar_extends(char type) {
    return type == TAR_PAX || type == TAR_PAX_GLOBAL || type == TAR_LONG_NAME || type == TAR_LONG_LINK;
}

static int tar_in_head(struct tar_in *in, struct err *err) {
    bool zero = false;
    const char *wrong = tar_parse(in->block, &in->entry, &zero);
    if (wrong)
        return in->sink->wrong(in->user, wrong, err);
    in->ended = zero;
    if (zero)
        return 0;
    in->inside = true;
    in->left = in->entry.size;
    in->padding = (size_t)tar_padding(in->left);
    if (!tar_extends(in->entry.type))
        return in->sink->begin(in->user, &in->entry, err);
    if (in->left > TAR_EXTENSION_BYTES)
        return in->sink->wrong(in->user, "its extended head is too large", err);
    in->extension_len = 0;
    in->extension = xmalloc(TAR_EXTENSION_BYTES);
    return 0;
}

static int tree_tar_in_content(struct tar_in *in, const uint8_t *data, size_t len, struct err *err) {
    in->left -= len;
    if (!in->extension)
        return in->sink->content ? in->sink->content(in->user, data, len, err) : 0;
    memcpy(in->extension + in->extension_len, data, len);
    in->extension_len += len;
    return 0;
}

static int tree_tar_in_end(struct tar_in *in, struct err *err) {
    in->inside = false;
    if (!in->extension) {
        int r = in->sink->end ? in->sink->end(in->user, err) : 0;
        tar_reset(&in->entry);
        return r;
    }
    const char *wrong = tar_extend(&in->entry, in->entry.type, in->extension, in->extension_len);
    int r = wrong ? in->sink->wrong(in->user, wrong, err) : 0;
    if (r == 0 && in->sink->extension && in->entry.type == TAR_PAX)
        r = in->sink->extension(in->user, in->extension, in->extension_len, err);
    free(in->extension);
    in->extension = NULL;
    return r;
}

static size_t tar_least(uint64_t a, size_t b) {
    return a < b ? (size_t)a : b;
}

int tar_in_feed(struct tar_in *in, const uint8_t *data, size_t len, struct err *err) {
    for (size_t used; len > 0; data += used, len -= used) {
        int r = 0;
        if (in->ended) {
            used = len;
        } else if (!in->inside) {
            used = tar_least(TAR_BLOCK_BYTES - in->block_len, len);
            memcpy(in->block + in->block_len, data, used);
            in->block_len += used;
            if (in->block_len == TAR_BLOCK_BYTES) {
                in->block_len = 0;
                r = tar_in_head(in, err);
            }
        } else if (in->left > 0) {
            used = tar_least(in->left, len);
            r = tree_tar_in_content(in, data, used, err);
        } else {
            used = tar_least(in->padding, len);
            in->padding -= used;
        }
        if (r == 0 && in->inside && in->left == 0 && in->padding == 0)
            r = tree_tar_in_end(in, err);
        TRY(r);
    }
    return 0;
}

int tar_in_skip(struct tar_in *in, uint64_t *ret_bytes, struct err *err) {
    *ret_bytes = in->inside && !in->extension ? in->left + in->padding : 0;
    return *ret_bytes ? tree_tar_in_end(in, err) : 0;
}

void tar_in_done(struct tar_in *in) {
    free(in->extension);
    in->extension = NULL;
}

/* ---- writing ---- */

static int tar_out_flush(struct tar_out *out, struct err *err) {
    size_t len = out->held;
    out->held = 0;
    return len ? out->put(out->user, out->data, len, err) : 0;
}

/* data NULL: writes zeros. */
static int tar_out_bytes(struct tar_out *out, const void *data, uint64_t len, struct err *err) {
    while (len > 0) {
        size_t n = tar_least(len, out->size - out->held);
        if (data) {
            memcpy(out->data + out->held, data, n);
            data = (const uint8_t *)data + n;
        } else {
            memset(out->data + out->held, 0, n);
        }
        out->held += n;
        len -= n;
        TRY(out->held == out->size ? tar_out_flush(out, err) : 0);
    }
    return 0;
}

int tar_out_head(struct tar_out *out, const struct tar_entry *entry, uint32_t uid, uint32_t gid, struct err *err) {
    uint8_t head[TAR_HEAD_BYTES];
    return tar_out_bytes(out, head, tar_format(head, entry, uid, gid), err);
}

int tar_out_data(struct tar_out *out, const void *data, size_t len, struct err *err) {
    return tar_out_bytes(out, data, len, err) ?: tar_out_bytes(out, NULL, tar_padding(len), err);
}

int tar_out_content(struct tar_out *out, int fd, uint64_t size, struct err *err) {
    uint64_t left = size;
    while (left > 0) {
        ssize_t n = read(fd, out->data + out->held, tar_least(left, out->size - out->held));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 && out->exact)
            return err_errno(err, n < 0 ? errno : EIO, "cannot read a file");
        if (n <= 0)
            break;
        left -= (uint64_t)n;
        out->held += (size_t)n;
        TRY(out->held == out->size ? tar_out_flush(out, err) : 0);
    }
    return tar_out_bytes(out, NULL, left + tar_padding(size), err);
}

int tar_out_plain(struct tar_out *out, char kind, const char *name, int fd, uint64_t size, struct err *err) {
    struct tar_entry entry = {
        .type = kind == 'd' ? TAR_DIR : TAR_FILE, .mode = kind == 'f' ? 0644 : 0755, .size = size};
    if ((size_t)snprintf(entry.name, sizeof entry.name, "%s", name) >= sizeof entry.name)
        return err_set(err, ERR_TOO_LARGE, "'%.200s...': the path is too long", name);
    int r = tar_out_head(out, &entry, 0, 0, err);
    return r < 0 ? r : tar_out_content(out, fd, size, err);
}

int tar_out_end(struct tar_out *out, struct err *err) {
    int r = tar_out_bytes(out, NULL, (uint64_t)2 * TAR_BLOCK_BYTES, err);
    return r < 0 ? r : tar_out_flush(out, err);
}
