/* A ZIP archive, checked as a whole before it is used: names, kinds, sizes, overlaps, conflicts. Called by uploads and
 * for a ZIP of the configuration. Invariant: only checked entries are used, and the unpacked size of an entry is
 * bounded by the sum computed here (zip_read.c stops at it). */
#include "base/base.h"
#include "skill/skill.h"
#include "skill/zip/zip_dir.h"

enum { ZIP_RATIO_BYTES = 1 << 20 /* smaller entries have no meaningful ratio */, ZIP_DEPTH = 32, ZIP_RATIO = 200 };
enum { DOS_LABEL = 0x8, DOS_DIR = 0x10, DOS_REPARSE = 0x400 };
enum { FLAG_PATCH = 0x20, FLAG_STRONG = 0x40, FLAG_MASKED = 0x2000, METHOD_AES = 99 };

int zip_refuse(const struct zip_raw *raw, enum err_code code, struct err *err, const char *why) {
    char shown[ZIP_SHOWN_BYTES];
    return err_set(err, code, "entry '%s': %s", zip_shown(shown, raw->name, raw->name_len), why);
}

/* ---- one entry ---- */

/* Returns why the kind or packing of an entry is refused, or NULL. */
static const char *zip_wrong(const struct zip_raw *raw) {
    switch (raw->attributes >> 16 & S_IFMT) {
    case S_IFLNK:
        return "it is a symbolic link";
    case S_IFCHR:
    case S_IFBLK:
        return "it is a device";
    case S_IFIFO:
    case S_IFSOCK:
        return "it is a pipe or a socket";
    case 0:
    case S_IFREG:
    case S_IFDIR:
        break;
    default:
        return "it is of an unknown kind";
    }
    if (raw->attributes & DOS_REPARSE)
        return "it is a symbolic link";
    if (raw->attributes & DOS_LABEL && !(raw->attributes >> 16))
        return "it is a volume label";
    if (raw->flags & (ZIP_FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED) || raw->method == METHOD_AES)
        return "it is encrypted";
    if (raw->flags & FLAG_PATCH)
        return "it holds compressed patched data, which is not supported";
    if (raw->method != ZIP_STORED && raw->method != ZIP_DEFLATED)
        return "its compression method is not deflate";
    if (raw->method == ZIP_STORED && raw->packed != raw->size)
        return "it is stored without compression, but its two sizes differ";
    return NULL;
}

/* Checks a single entry. path "": the top of the archive. */
static int zip_check_entry(struct zip *zip, struct zip_raw *raw, const struct zip_limits *limits,
                           struct zip_item *ret_item, struct err *err) {
    const char *path;
    unsigned depth = 1;
    bool slash;
    TRY(zip_name(raw, zip->gbk, &zip->arena, &path, &slash, err));
    bool dir = slash || S_ISDIR(raw->attributes >> 16) ||
               (!(raw->attributes >> 16) && raw->attributes & DOS_DIR && raw->size == 0);
    const char *why = zip_wrong(raw);
    if (!why && dir && (raw->size || S_ISREG(raw->attributes >> 16)))
        why = "it is both a file and a directory";
    if (!why && !dir && !*path)
        why = "its name is empty";
    if (why)
        return zip_refuse(raw, ERR_INVALID, err, why);
    for (const char *at = path; (at = strchr(at, '/')); at++)
        depth++;
    if (depth > (limits->depth ? limits->depth : ZIP_DEPTH))
        return zip_refuse(raw, ERR_TOO_LARGE, err, "it is too deep in directories");
    if (raw->size > limits->unpacked_bytes)
        return zip_refuse(raw, ERR_TOO_LARGE, err, "it is too large");
    if (raw->size > ZIP_RATIO_BYTES && raw->size / (limits->ratio ? limits->ratio : ZIP_RATIO) > raw->packed)
        return zip_refuse(raw, ERR_TOO_LARGE, err, "it unpacks to far more than its size, like a ZIP bomb");
    TRY(zip_dir_local(zip->fd, &zip->dir, raw, err));
    bool executable = !dir && raw->attributes >> 16 & 0111;
    *ret_item = (struct zip_item){
        .entry = {.path = path, .dir = dir, .executable = executable, .size = dir ? 0 : raw->size}, .raw = raw};
    return 0;
}

/* ---- all of them together ---- */

static int zip_place_order(const void *a, const void *b) {
    const struct zip_raw *one = *(const struct zip_raw *const *)a, *two = *(const struct zip_raw *const *)b;
    return one->head < two->head ? -1 : one->head > two->head;
}

/* Checks the sum of sizes, and entries that share bytes. Both can make a large tree of a small archive without a single
 * suspicious entry. */
static int zip_check_sizes(struct zip *zip, const struct zip_limits *limits, uint64_t file_bytes, struct err *err) {
    const struct zip_raw **raws = arena_alloc(&zip->arena, (zip->dir.count + 1) * sizeof *raws);
    uint64_t total = 0;
    for (size_t i = 0; i < zip->dir.count; i++) {
        total += zip->dir.raws[i].size; /* no overflow: each is below the limit, and so was the sum before it */
        if (total > limits->unpacked_bytes)
            return zip_refuse(&zip->dir.raws[i], ERR_TOO_LARGE, err,
                              "with this entry the archive unpacks to more than is allowed");
    }
    if (total > ZIP_RATIO_BYTES && total / (limits->ratio ? limits->ratio : ZIP_RATIO) > file_bytes)
        return err_set(err, ERR_TOO_LARGE, "the archive unpacks to far more than its size, like a ZIP bomb");
    for (size_t i = 0; i < zip->dir.count; i++)
        raws[i] = &zip->dir.raws[i];
    qsort(raws, zip->dir.count, sizeof *raws, zip_place_order);
    for (size_t i = 1; i < zip->dir.count; i++)
        if (raws[i]->head < raws[i - 1]->content + raws[i - 1]->packed)
            return zip_refuse(raws[i], ERR_INVALID, err, "it shares bytes with another entry");
    return 0;
}

/* A slash sorts before everything else, so the content of a directory follows it directly. */
static int zip_item_order(const void *a, const void *b) {
    const unsigned char *one = (const unsigned char *)((const struct zip_item *)a)->entry.path;
    const unsigned char *two = (const unsigned char *)((const struct zip_item *)b)->entry.path;
    while (*one && *one == *two)
        one++, two++;
    int left = *one == '/' ? 1 : *one ? *one + 1 : 0, right = *two == '/' ? 1 : *two ? *two + 1 : 0;
    return left - right;
}

static int zip_conflict(const char *path, const char *why, const char *other, struct err *err) {
    char shown[ZIP_SHOWN_BYTES], next[ZIP_SHOWN_BYTES];
    return err_set(err, ERR_INVALID, "entry '%s' %s '%s'", zip_shown(shown, path, strlen(path)), why,
                   zip_shown(next, other, strlen(other)));
}

/* Inserts directories that have no entry of their own, and finds names that occur twice. Items are sorted. */
static int zip_add_parents(struct zip *zip, size_t max, struct err *err) {
    struct zip_item *in = zip->items, *out = NULL;
    size_t count = 0, room = 0;
    const char *last = "";
    bool last_dir = true;
    for (size_t i = 0; i < zip->count; i++) {
        const char *path = in[i].entry.path;
        size_t same = 0; /* length of the part that is known to be directories */
        for (size_t k = 0; last[k] && last[k] == path[k]; k++)
            same = k + 1;
        if (i && !last[same] && !path[same])
            return zip_conflict(path, "occurs twice, also as", last, err);
        bool below = *last && !last[same] && path[same] == '/';
        if (below && !last_dir)
            return zip_conflict(path, "is inside a file,", last, err);
        const char *slash = strchr(path + (below ? same + 1 : 0), '/');
        for (;; slash = strchr(slash + 1, '/')) {
            size_t len = slash ? (size_t)(slash - path) : strlen(path);
            if (slash && len < same && strncmp(last, path, len) == 0 && last[len] == '/')
                continue; /* a parent of the last one too */
            if (count == max)
                return err_set(err, ERR_TOO_LARGE, "the archive makes more than %zu files and directories", max);
            arena_add(&zip->arena, out, count, room) =
                slash ? (struct zip_item){.entry = {.path = arena_copy(&zip->arena, path, len), .dir = true}} : in[i];
            if (!slash)
                break;
        }
        last = path;
        last_dir = in[i].entry.dir;
    }
    zip->items = out;
    zip->count = count;
    return 0;
}

struct zip_folded {
    const char *text, *path;
};

static int zip_folded_order(const void *a, const void *b) {
    return strcmp(((const struct zip_folded *)a)->text, ((const struct zip_folded *)b)->text);
}

static int zip_check_folded(struct zip *zip, struct err *err) {
    struct zip_folded *all = arena_alloc(&zip->arena, (zip->count + 1) * sizeof *all);
    for (size_t i = 0; i < zip->count; i++)
        all[i] = (struct zip_folded){.text = zip_name_folded(&zip->arena, zip->items[i].entry.path),
                                     .path = zip->items[i].entry.path};
    qsort(all, zip->count, sizeof *all, zip_folded_order);
    for (size_t i = 1; i < zip->count; i++)
        if (strcmp(all[i].text, all[i - 1].text) == 0)
            return zip_conflict(all[i].path, "differs only by case from", all[i - 1].path, err);
    return 0;
}

/* ---- skills ---- */

/* Returns the index after the content of the top directory `first`. */
static size_t zip_top_end(const struct zip *zip, size_t first) {
    size_t len = strlen(zip->items[first].entry.path), i = first + 1;
    while (i < zip->count && strncmp(zip->items[i].entry.path, zip->items[first].entry.path, len) == 0 &&
           zip->items[i].entry.path[len] == '/')
        i++;
    return i;
}

/* Turns A/A into A, if A contains nothing else. */
static void zip_flatten(struct zip *zip, size_t first) {
    const char *top = zip->items[first].entry.path;
    size_t len = strlen(top);
    for (;;) {
        size_t end = zip_top_end(zip, first);
        if (first + 1 >= end)
            return;
        const char *inner = zip->items[first + 1].entry.path + len + 1;
        if (!zip->items[first + 1].entry.dir || strcmp(inner, top) != 0)
            return;
        for (size_t i = first + 2; i < end; i++) /* anything else in A? */
            if (strncmp(zip->items[i].entry.path + len + 1, top, len) != 0 ||
                zip->items[i].entry.path[2 * len + 1] != '/')
                return;
        for (size_t i = first + 2; i < end; i++)
            zip->items[i].entry.path += len + 1;
        memmove(&zip->items[first + 1], &zip->items[first + 2], (zip->count - first - 2) * sizeof *zip->items);
        zip->count--;
    }
}

static void zip_find_skills(struct zip *zip) {
    size_t count = 0;
    zip->skills = arena_alloc(&zip->arena, (zip->count + 1) * sizeof *zip->skills);
    for (size_t i = 0; i < zip->count; i = zip_top_end(zip, i)) {
        zip->items[i].entry.loose = !zip->items[i].entry.dir;
        if (!zip->items[i].entry.dir)
            continue;
        zip_flatten(zip, i);
        zip->skills[count++] = zip->items[i].entry.path;
    }
}

static int zip_check(struct zip *zip, const struct zip_limits *limits, uint64_t file_bytes, struct err *err) {
    TRY(zip_dir_read(zip->fd, file_bytes, limits->entries, &zip->arena, &zip->dir, err));
    if (zip->dir.count == 0)
        return err_set(err, ERR_INVALID, "the archive is empty");
    zip->gbk = zip_names_gbk(&zip->dir);
    zip->items = arena_alloc(&zip->arena, zip->dir.count * sizeof *zip->items);
    for (size_t i = 0; i < zip->dir.count; i++) {
        struct zip_item item;
        TRY(zip_check_entry(zip, &zip->dir.raws[i], limits, &item, err));
        if (*item.entry.path && !zip_name_ignored(item.entry.path))
            zip->items[zip->count++] = item;
    }
    TRY(zip_check_sizes(zip, limits, file_bytes, err));
    qsort(zip->items, zip->count, sizeof *zip->items, zip_item_order);
    TRY(zip_add_parents(zip, limits->entries, err) ?: zip_check_folded(zip, err));
    zip_find_skills(zip);
    return 0;
}

int zip_open(int fd, const struct zip_limits *limits, struct zip **ret_zip, struct err *err) {
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "the archive is not a regular file");
    if ((uint64_t)status.st_size > limits->bytes)
        return err_set(err, ERR_TOO_LARGE, "the archive has %llu bytes; the limit is %llu",
                       (unsigned long long)status.st_size, (unsigned long long)limits->bytes);
    struct zip *zip = xcalloc(1, sizeof *zip);
    zip->fd = fd;
    arena_init(&zip->arena);
    int r = zip_check(zip, limits, (uint64_t)status.st_size, err);
    if (r < 0) {
        zip_close(zip);
        return r;
    }
    *ret_zip = zip;
    return 0;
}

void zip_close(struct zip *zip) {
    if (!zip)
        return;
    arena_done(&zip->arena);
    free(zip);
}

size_t zip_count(const struct zip *zip) {
    return zip->count;
}

const struct zip_entry *zip_entry(const struct zip *zip, size_t i) {
    return &zip->items[i].entry;
}

bool zip_is_gbk(const struct zip *zip) {
    return zip->gbk;
}

int zip_skills(struct zip *zip, const char *const *reserved, const char *const **ret_names, struct err *err) {
    if (!zip->skills[0])
        return err_set(err, ERR_INVALID, "No valid skill directory found.");
    for (size_t i = 0; zip->skills[i]; i++) {
        int r = skill_id_check(zip->skills[i], err);
        if (r < 0)
            return err_wrap(err, "entry '%s'", zip->skills[i]);
        if (text_list_has(reserved, zip->skills[i]))
            return err_set(err, ERR_INVALID, "Skill name '%s' is reserved for system tools and cannot be uploaded.",
                           zip->skills[i]);
    }
    *ret_names = (const char *const *)zip->skills;
    return 0;
}

const struct zip_entry *zip_find(const struct zip *zip, const char *path) {
    const struct zip_item wanted = {.entry = {.path = path}};
    const struct zip_item *found =
        zip->count ? bsearch(&wanted, zip->items, zip->count, sizeof *zip->items, zip_item_order) : NULL;
    return found ? &found->entry : NULL;
}
