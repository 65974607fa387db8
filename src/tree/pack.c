/* Trees as tar streams. Called by backends to move files to another machine. Invariants: what is written was checked
 * to be a file by its descriptor, so that it cannot block; what is read makes an entry only in the directory that the
 * stream entered last, by one name, and follows no link.
 *
 * Each entry has a pax head: uid, gid, mtime with nanoseconds, SCHILY.xattr.NAME. A file with holes is several entries
 * of the same name, each a piece at CUBBY.offset of a file of CUBBY.size bytes. A whiteout is a character device 0:0. */
#include "tree/pack.h"

#include <linux/openat2.h>
#include <search.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "tree/treewalk.h"

#define XATTR_KEY "SCHILY.xattr."
enum { RECORDS_BYTES = 60000, LINKS_BYTES = 64 << 20, TAR_DEVICE = '3' };

/* Of overlays' own attributes only these mean something on another machine. */
static bool pack_attribute_travels(const char *name) {
    static const char *const overlay[] = {"trusted.overlay.", "user.overlay."};
    static const char *const kept[] = {"opaque", "redirect", "whiteout", "whiteouts"};
    static const char *const spaces[] = {"user.", "security.capability", "system.posix_acl_"};
    for (size_t i = 0; i < sizeof overlay / sizeof *overlay; i++) {
        size_t len = strlen(overlay[i]);
        if (strncmp(name, overlay[i], len) != 0)
            continue;
        for (size_t j = 0; j < sizeof kept / sizeof *kept; j++)
            if (strcmp(name + len, kept[j]) == 0)
                return true;
        return false;
    }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strncmp(name, spaces[i], strlen(spaces[i])) == 0)
            return true;
    return false;
}

/* ---- writing ---- */

struct pack_link { /* the first name of a file that has several */
    dev_t device;
    ino_t inode;
    char path[];
};

struct pack_out {
    struct tar_out *tar;
    const char *name;
    bool (*skip)(const char *path);
    void *links; /* tsearch */
    size_t links_bytes;
    struct tar_entry entry;
    struct buf records;
    char list[RECORDS_BYTES], value[RECORDS_BYTES];
};

static int pack_link_order(const void *a, const void *b) {
    const struct pack_link *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void pack_record(struct pack_out *out, const char *key, const char *value, size_t len) {
    size_t body = strlen(key) + len + 3, all = body + 1;
    char digits[24];
    while ((size_t)snprintf(digits, sizeof digits, "%zu", all) + body != all)
        all++;
    buf_printf(&out->records, "%s %s=", digits, key);
    buf_put(&out->records, value, len);
    buf_puts(&out->records, "\n");
}

static void pack_record_number(struct pack_out *out, const char *key, uint64_t value) {
    const char *text = text_make(24, "%llu", (unsigned long long)value);
    pack_record(out, key, text, strlen(text));
}

static int pack_attributes(struct pack_out *out, const struct tree_entry *from, struct err *err) {
    const char *at = text_make(320, "/proc/self/fd/%d/%s", from->dir, from->name);
    ssize_t len = llistxattr(at, out->list, sizeof out->list - 1);
    if (len < 0 && (errno == ENOTSUP || errno == EPERM))
        len = 0;
    if (len < 0)
        return err_errno(err, errno, "the attributes of '%.200s'", out->entry.name);
    out->list[len] = 0;
    for (const char *name = out->list; name < out->list + len; name += strlen(name) + 1) {
        ssize_t size = pack_attribute_travels(name) ? lgetxattr(at, name, out->value, sizeof out->value) : 0;
        if (size < 0)
            return err_errno(err, errno, "the attributes of '%.200s'", out->entry.name);
        if (pack_attribute_travels(name))
            pack_record(out, text_make(300, XATTR_KEY "%s", name), out->value, (size_t)size);
    }
    return 0;
}

/* Both heads. pieces: the content is a piece of a file with holes. */
static int pack_heads(struct pack_out *out, const struct tree_entry *from, bool pieces, uint64_t offset,
                      struct err *err) {
    const struct stat *status = &from->status;
    const char *time = text_make(48, "%lld.%09ld", (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
    buf_clear(&out->records);
    pack_record_number(out, "uid", status->st_uid);
    pack_record_number(out, "gid", status->st_gid);
    if (status->st_mtim.tv_sec >= 0)
        pack_record(out, "mtime", time, strlen(time));
    if (pieces) {
        pack_record_number(out, "CUBBY.offset", offset);
        pack_record_number(out, "CUBBY.size", (uint64_t)status->st_size);
    }
    TRY(pack_attributes(out, from, err));
    if (out->records.failed)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' has more than %d bytes of extended attributes", out->entry.name,
                       RECORDS_BYTES);
    struct tar_entry pax = {.type = TAR_PAX, .name = "pax", .mode = 0644, .size = out->records.len};
    return tar_out_head(out->tar, &pax, 0, 0, err)
               ?: tar_out_data(out->tar, out->records.data, out->records.len, err)
               ?: tar_out_head(out->tar, &out->entry, status->st_uid, status->st_gid, err);
}

/* What lies between two holes is one entry; nothing but holes is an entry without content. */
static int pack_file(struct pack_out *out, const struct tree_entry *from, struct err *err) {
    autofd fd = openat(from->dir, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat opened;
    if (fd < 0 || fstat(fd, &opened) < 0)
        return err_errno(err, errno, "'%.200s'", out->entry.name);
    if (!S_ISREG(opened.st_mode) || opened.st_ino != from->status.st_ino || opened.st_size != from->status.st_size)
        return err_set(err, ERR_BUSY, "'%.200s' was changed while it was packed", out->entry.name);
    off_t size = opened.st_size, data = 0, hole = size;
    bool whole = size == 0 || opened.st_blocks >= size / 512 ||
                 (lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 0, SEEK_HOLE) == size);
    for (off_t at = 0; at < size || at == 0; at = hole) {
        if (!whole) {
            data = lseek(fd, at, SEEK_DATA);
            if (data < 0 && errno != ENXIO)
                return err_errno(err, errno, "'%.200s'", out->entry.name);
            if (data < 0 && at > 0)
                return 0;
            hole = data < 0 ? size : lseek(fd, data, SEEK_HOLE);
            data = data < 0 ? size : data;
        }
        if (hole < data || lseek(fd, data, SEEK_SET) < 0)
            return err_errno(err, errno, "'%.200s'", out->entry.name);
        out->entry.size = (uint64_t)(hole - data);
        TRY(pack_heads(out, from, !whole, (uint64_t)data, err) ?: tar_out_content(out->tar, fd, out->entry.size, err));
        if (size == 0)
            break;
    }
    return 0;
}

/* 1: it is another name of a file that was written. */
static int pack_linked(struct pack_out *out, const struct tree_entry *from, struct err *err) {
    size_t len = strlen(out->entry.name) + 1;
    struct pack_link *link = xmalloc(sizeof *link + len);
    *link = (struct pack_link){.device = from->status.st_dev, .inode = from->status.st_ino};
    memcpy(link->path, out->entry.name, len);
    struct pack_link **known = tsearch(link, &out->links, pack_link_order);
    xensure(known);
    if (*known == link) {
        out->links_bytes += sizeof *link + len;
        return out->links_bytes > LINKS_BYTES
                   ? err_set(err, ERR_TOO_LARGE, "more files have several names than a stream of files takes")
                   : 0;
    }
    snprintf(out->entry.link, sizeof out->entry.link, "%s", (*known)->path);
    free(link);
    out->entry.type = TAR_HARD_LINK;
    TRY(tar_out_head(out->tar, &out->entry, 0, 0, err));
    return 1;
}

static int pack_entry(struct pack_out *out, const struct tree_entry *from, struct err *err) {
    const struct stat *status = &from->status;
    struct tar_entry *entry = &out->entry;
    mode_t type = status->st_mode & S_IFMT;
    bool whiteout = type == S_IFCHR && status->st_rdev == makedev(0, 0);
    entry->link[0] = 0;
    entry->size = 0;
    entry->mode = status->st_mode & 07777;
    entry->mtime = status->st_mtim.tv_sec > 0 ? status->st_mtim.tv_sec : 0;
    if (type != S_IFDIR && status->st_nlink > 1 && !whiteout) {
        int linked = pack_linked(out, from, err);
        if (linked != 0)
            return linked < 0 ? linked : 0;
    }
    if (type == S_IFREG) {
        entry->type = TAR_FILE;
        return pack_file(out, from, err);
    }
    if (type == S_IFLNK) {
        ssize_t n = readlinkat(from->dir, from->name, entry->link, sizeof entry->link - 1);
        if (n < 0)
            return err_errno(err, errno, "'%.200s'", entry->name);
        entry->link[n] = 0;
    }
    if (type == S_IFSOCK)
        return 0; /* a server made it and is gone */
    if (type != S_IFDIR && type != S_IFLNK && type != S_IFIFO && !whiteout)
        return err_set(err, ERR_DENIED, "'%.200s' is a device, which no box can have made", entry->name);
    entry->type = type == S_IFDIR ? TAR_DIR : type == S_IFLNK ? TAR_SYMLINK : type == S_IFIFO ? TAR_FIFO : TAR_DEVICE;
    return pack_heads(out, from, false, 0, err);
}

static int pack_each(void *user, const struct tree_entry *from, struct err *err) {
    struct pack_out *out = user;
    if (from->path && out->skip && out->skip(from->path))
        return TREE_SKIP;
    int n = from->path ? snprintf(out->entry.name, sizeof out->entry.name, "%s/%s", out->name, from->path) : -1;
    if (n < 0 || (size_t)n >= sizeof out->entry.name)
        return err_set(err, ERR_TOO_LARGE, "a path below '%.100s' is longer than %u bytes", out->name,
                       LIMIT_PATH_BYTES);
    TRY(pack_entry(out, from, err));
    return TREE_DESCEND;
}

int pack_write(int dir, const char *name, bool (*skip)(const char *path), struct tar_out *tar, struct err *err) {
    struct pack_out *out = xcalloc(1, sizeof *out);
    struct tree_entry top = {.dir = dir, .name = name};
    *out = (struct pack_out){.tar = tar, .name = name, .skip = skip};
    buf_init(&out->records, RECORDS_BYTES);
    snprintf(out->entry.name, sizeof out->entry.name, "%s", name);
    tar->exact = true;
    int r = fstatat(dir, name, &top.status, AT_SYMLINK_NOFOLLOW) < 0 ? err_errno(err, errno, "'%.200s'", name)
                                                                     : pack_entry(out, &top, err);
    if (r == 0 && S_ISDIR(top.status.st_mode)) {
        autofd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? err_errno(err, errno, "'%.200s'", name) : treewalk(fd, pack_each, out, err);
    }
    if (r == 0)
        r = tar_out_end(tar, err);
    tdestroy(out->links, free);
    buf_done(&out->records);
    free(out);
    return r;
}

/* ---- reading ---- */

struct pack_level { /* a directory that was entered: what it gets when it is left */
    size_t len;     /* of its path */
    mode_t mode;
    struct timespec time;
};

struct pack_in {
    struct tar_in tar;
    int top;
    const char *name;
    char path[TAR_NAME_BYTES]; /* of the directory that was entered last; "": the top */
    int dir;                   /* that directory */
    struct pack_level *levels;
    size_t depth, cap;
    int file; /* being written */
    uint64_t at, end;
    char file_name[TAR_NAME_BYTES]; /* that a next piece may have */
    /* of the entry's pax head */
    uint64_t uid, gid, offset, size;
    bool pieces;
    struct timespec time;
    bool timed;
    struct buf attributes; /* name, NUL, u32 length, value */
};

static int pack_wrong(void *, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID, "the stream of files is malformed: %s", why);
}

static int pack_open(const struct pack_in *in, const char *path, int *ret_fd, struct err *err) {
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, in->top, *path ? path : ".", &how, sizeof how);
    if (fd < 0)
        return err_errno(err, errno, "'%.200s'", path);
    *ret_fd = (int)fd;
    return 0;
}

static int pack_leave(struct pack_in *in, struct err *err) {
    const struct pack_level *level = &in->levels[--in->depth];
    const struct timespec times[] = {level->time, level->time};
    if (fchmod(in->dir, level->mode) < 0 || futimens(in->dir, times) < 0)
        return err_errno(err, errno, "'%.200s'", in->path);
    in->path[in->depth ? in->levels[in->depth - 1].len : 0] = 0;
    fd_close(&in->dir);
    return pack_open(in, in->path, &in->dir, err);
}

/* The entry's directory is the current one; *ret_name: its name there. */
static int pack_enter(struct pack_in *in, char *path, const char **ret_name, struct err *err) {
    char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    while (in->depth && !(strlen(in->path) == len && strncmp(in->path, path, len) == 0))
        TRY(pack_leave(in, err));
    if (strlen(in->path) != len)
        return pack_wrong(in, "an entry comes without its directory", err);
    *ret_name = slash ? slash + 1 : path;
    return 0;
}

/* The owner before all else: it takes rights and capabilities away. */
static int pack_owner(struct pack_in *in, const char *name, struct err *err) {
    const uint8_t *at = in->attributes.data, *end = at + in->attributes.len;
    if (geteuid() == 0 && fchownat(in->dir, name, (uid_t)in->uid, (gid_t)in->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "the owner of '%.200s'", name);
    const char *path = text_make(320, "/proc/self/fd/%d/%.255s", in->dir, name);
    while (at < end) {
        const char *key = (const char *)at;
        uint32_t len;
        at += strlen(key) + 1;
        memcpy(&len, at, sizeof len);
        at += sizeof len;
        if (lsetxattr(path, key, at, len, 0) < 0)
            return err_errno(err, errno, "attribute %.100s of '%.200s'", key, name);
        at += len;
    }
    return 0;
}

static int pack_status(struct pack_in *in, const char *name, struct err *err) {
    const struct tar_entry *entry = &in->tar.entry;
    const struct timespec times[] = {in->time, in->time};
    TRY(pack_owner(in, name, err));
    if ((entry->type != TAR_SYMLINK && entry->type != TAR_DEVICE && fchmodat(in->dir, name, entry->mode, 0) < 0) ||
        utimensat(in->dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%.200s'", name);
    return 0;
}

static int pack_make_directory(struct pack_in *in, const char *path, const char *name, struct err *err) {
    if (mkdirat(in->dir, name, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%.200s'", path);
    autofd fd = openat(in->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "'%.200s'", path);
    TRY(pack_owner(in, name, err));
    fd_close(&in->dir);
    in->dir = fd_take(&fd);
    snprintf(in->path, sizeof in->path, "%s", path);
    vec_add(in->levels, in->depth, in->cap) =
        (struct pack_level){.len = strlen(path), .mode = in->tar.entry.mode & 07777, .time = in->time};
    return 0;
}

static int pack_make_file(struct pack_in *in, const char *path, const char *name, struct err *err) {
    bool again = in->pieces && strcmp(in->file_name, path) == 0;
    uint64_t size = in->tar.entry.size;
    if (in->pieces && (in->offset > in->size || size > in->size - in->offset || in->size > INT64_MAX))
        return pack_wrong(in, "a piece lies outside of its file", err);
    in->file = openat(in->dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (again ? 0 : O_CREAT | O_EXCL), 0600);
    in->at = in->pieces ? in->offset : 0;
    if (in->file < 0 || (in->pieces && !again && ftruncate(in->file, (off_t)in->size) < 0))
        return err_errno(err, errno, "'%.200s'", path);
    snprintf(in->file_name, sizeof in->file_name, "%s", path);
    return 0;
}

static int pack_make_link(struct pack_in *in, const char *name, struct err *err) {
    const char *why = NULL;
    char *link = in->tar.entry.link;
    size_t len = strlen(in->name);
    if (!tar_safe_name(link, &why) || strncmp(link, in->name, len) != 0 || link[len] != '/')
        return pack_wrong(in, "a link leads out of it", err);
    char *slash = strrchr(link, '/');
    *slash = 0;
    autofd dir = -1;
    TRY(pack_open(in, link, &dir, err));
    return linkat(dir, slash + 1, in->dir, name, 0) < 0 ? err_errno(err, errno, "'%.200s'", name) : 0;
}

static int pack_begin(void *user, struct tar_entry *entry, struct err *err) {
    struct pack_in *in = user;
    const char *why = NULL, *name = NULL;
    size_t len = strlen(in->name);
    if (!tar_safe_name(entry->name, &why))
        return pack_wrong(in, why, err);
    if (strncmp(entry->name, in->name, len) != 0 || (entry->name[len] && entry->name[len] != '/'))
        return pack_wrong(in, "an entry lies outside of it", err);
    if (!in->timed)
        in->time = (struct timespec){.tv_sec = entry->mtime};
    TRY(pack_enter(in, entry->name, &name, err));
    if (entry->type != TAR_FILE && entry->size)
        return pack_wrong(in, "an entry that is not a file has content", err);
    int r = 0;
    switch (entry->type) {
    case TAR_DIR:
        return pack_make_directory(in, entry->name, name, err);
    case TAR_FILE:
        return pack_make_file(in, entry->name, name, err);
    case TAR_HARD_LINK:
        return pack_make_link(in, name, err);
    case TAR_SYMLINK:
        r = symlinkat(entry->link, in->dir, name);
        break;
    case TAR_FIFO:
        r = mkfifoat(in->dir, name, 0600);
        break;
    case TAR_DEVICE: /* whatever its numbers are: nothing but a whiteout is made */
        r = mknodat(in->dir, name, S_IFCHR | 0600, makedev(0, 0));
        break;
    default:
        return pack_wrong(in, "it has an entry of an unknown type", err);
    }
    return r < 0 ? err_errno(err, errno, "'%.200s'", entry->name) : pack_status(in, name, err);
}

static int pack_content(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct pack_in *in = user;
    while (len) {
        ssize_t n = pwrite(in->file, data, len, (off_t)in->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_errno(err, n < 0 ? errno : EIO, "writing files");
        in->at += (uint64_t)n;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int pack_done(void *user, struct err *err) {
    struct pack_in *in = user;
    int r = 0;
    if (in->file >= 0) {
        const char *slash = strrchr(in->tar.entry.name, '/');
        r = pack_status(in, slash ? slash + 1 : in->tar.entry.name, err);
        fd_close(&in->file);
    }
    in->uid = in->gid = in->offset = in->size = 0;
    in->pieces = in->timed = false;
    buf_clear(&in->attributes);
    return r;
}

static int pack_attribute(struct pack_in *in, const char *key, size_t key_len, const char *value, size_t len,
                          struct err *err) {
    const char *name = text_make(300, "%.*s", (int)key_len, key);
    uint32_t size = (uint32_t)len;
    if (key_len > 255 || memchr(key, 0, key_len) || !pack_attribute_travels(name))
        return pack_wrong(in, "a file has an attribute that does not travel", err);
    buf_put(&in->attributes, name, key_len + 1);
    buf_put(&in->attributes, &size, sizeof size);
    buf_put(&in->attributes, value, len);
    return in->attributes.failed ? pack_wrong(in, "a file has too many attributes", err) : 0;
}

static int pack_extension(void *user, const char *data, size_t len, struct err *err) {
    struct pack_in *in = user;
    struct tar_record record;
    const struct {
        const char *key;
        uint64_t *value, most;
    } rows[] = {{"uid", &in->uid, UINT32_MAX - 1},
                {"gid", &in->gid, UINT32_MAX - 1},
                {"CUBBY.offset", &in->offset, INT64_MAX},
                {"CUBBY.size", &in->size, INT64_MAX}};
    while (len) {
        if (!tar_record_next(&data, &len, &record))
            return pack_wrong(in, "its pax head is malformed", err);
        size_t prefix = strlen(XATTR_KEY);
        if (record.key_len > prefix && memcmp(record.key, XATTR_KEY, prefix) == 0)
            TRY(pack_attribute(in, record.key + prefix, record.key_len - prefix, record.value, record.len, err));
        const char *value = text_make(40, "%.*s", record.len < 39 ? (int)record.len : 39, record.value);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (record.key_len == strlen(rows[i].key) && memcmp(record.key, rows[i].key, record.key_len) == 0) {
                if (!text_u64(value, rows[i].most, rows[i].value))
                    return pack_wrong(in, "a number in its pax head is malformed", err);
                in->pieces |= i >= 2;
            }
        long long seconds;
        long fraction;
        if (record.key_len == 5 && memcmp(record.key, "mtime", 5) == 0 &&
            sscanf(value, "%lld.%9ld", &seconds, &fraction) == 2 && seconds >= 0 && fraction >= 0) {
            in->time = (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = fraction};
            in->timed = true;
        }
    }
    return 0;
}

struct pack_in *pack_in_new(int top, const char *name) {
    static const struct tar_sink sink = {.begin = pack_begin,
                                         .content = pack_content,
                                         .end = pack_done,
                                         .wrong = pack_wrong,
                                         .extension = pack_extension};
    struct pack_in *in = xcalloc(1, sizeof *in);
    *in = (struct pack_in){.tar = {.sink = &sink, .user = in}, .top = top, .name = name, .dir = -1, .file = -1};
    buf_init(&in->attributes, RECORDS_BYTES + 4096);
    return in;
}

int pack_in_feed(struct pack_in *in, const uint8_t *data, size_t len, struct err *err) {
    if (in->dir < 0)
        TRY(pack_open(in, "", &in->dir, err));
    return tar_in_feed(&in->tar, data, len, err);
}

int pack_in_end(struct pack_in *in, struct err *err) {
    if (!in->tar.ended)
        return err_set(err, ERR_INVALID, "the stream of files ended too early");
    while (in->depth)
        TRY(pack_leave(in, err));
    return 0;
}

void pack_in_free(struct pack_in *in) {
    if (!in)
        return;
    tar_in_done(&in->tar);
    fd_close(&in->dir);
    fd_close(&in->file);
    buf_done(&in->attributes);
    free(in->levels);
    free(in);
}
