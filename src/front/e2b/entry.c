/* One file as E2B shows it. Called by the handlers of files. Invariant: whatever a box has named its files, users and
 * attributes, the answer is UTF-8 and bounded. */
#include "front/e2b/entry.h"

#include "base/text.h"
#include "front/e2b/connect.h"

enum { ENTRY_NAMES_BYTES = 256 << 10 };

/* ---- paths ---- */

int entry_path(struct arena *arena, const char *given, const struct e2b_account *account, const char **ret_path,
               struct err *err) {
    const char *home = account->uid || *given ? account->home : E2B_HOME; /* "" is the user's home for root, too */
    return connect_path(arena, home, given, ret_path, err);
}

struct file_rights entry_rights(const struct box *box, const struct e2b_account *account) {
    return (struct file_rights){.root = box_has_root(box), .owner = account->uid, .attributes = ENTRY_ATTRIBUTES};
}

/* The agent sees nearly everything that root does, and asking as the agent costs no process in the box. */
int entry_stat(struct box *box, const char *path, struct arena *arena, struct file_stat *ret_stat, struct err *err) {
    static const struct file_rights agent = {.attributes = ENTRY_ATTRIBUTES};
    const struct file_rights root = entry_rights(box, &e2b_account_root);
    int failed = box_stat_as(box, path, &agent, arena, ret_stat, err);
    bool unsure = failed ? failed == -ERR_DENIED : ret_stat->type == FILE_SYMLINK && !ret_stat->resolved;
    return unsure && root.root ? box_stat_as(box, path, &root, arena, ret_stat, err) : failed;
}

/* ---- owners ---- */

void entry_names_init(struct entry_names *names, struct box *box) {
    *names = (struct entry_names){.box = box};
    buf_init(&names->users, ENTRY_NAMES_BYTES);
    buf_init(&names->groups, ENTRY_NAMES_BYTES);
}

void entry_names_done(struct entry_names *names) {
    buf_done(&names->users);
    buf_done(&names->groups);
}

/* The name in the line "name:x:ID:"; NULL: there is none. */
static const char *entry_name(const struct buf *table, uint32_t id, size_t *ret_len) {
    char wanted[16];
    int len = snprintf(wanted, sizeof wanted, "%u", id);
    const char *at = (const char *)table->data, *end = at + table->len;
    while (at && at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        const char *name_end = memchr(at, ':', (size_t)(line_end - at));
        const char *number = name_end ? memchr(name_end + 1, ':', (size_t)(line_end - name_end - 1)) : NULL;
        if (number && line_end - number > len && !strncmp(number + 1, wanted, (size_t)len) &&
            (line_end - number - 1 == len || number[1 + len] == ':')) {
            *ret_len = (size_t)(name_end - at);
            return at;
        }
        at = line_end + 1;
    }
    return NULL;
}

static void entry_put_owner(struct json *json, const char *key, const struct buf *table, uint32_t id) {
    char number[16];
    size_t len;
    const char *name = entry_name(table, id, &len);
    if (!name) {
        snprintf(number, sizeof number, "%u", id);
        name = number;
        len = strlen(number);
    }
    json_put_strn(json, key, name, len);
}

/* ---- the entry ---- */

static const char *entry_type(mode_t mode) {
    return S_ISREG(mode)   ? "FILE_TYPE_FILE"
           : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY"
           : S_ISLNK(mode) ? "FILE_TYPE_SYMLINK"
                           : "FILE_TYPE_UNSPECIFIED";
}

static mode_t entry_kind(const struct file_stat *stat) {
    static const mode_t kinds[] = {[FILE_REGULAR] = S_IFREG, [FILE_DIR] = S_IFDIR, [FILE_SYMLINK] = S_IFLNK};
    if (stat->type != FILE_OTHER)
        return kinds[stat->type];
    const char *special = stat->special ? stat->special : "";
    return !strcmp(special, "fifo")     ? S_IFIFO
           : !strcmp(special, "socket") ? S_IFSOCK
           : !strcmp(special, "char")   ? S_IFCHR
           : !strcmp(special, "block")  ? S_IFBLK
                                        : 0;
}

/* As Go prints a mode: "dtrwxrwxrwx". */
static void entry_permissions(mode_t mode, char text[24]) {
    char *at = text;
    const struct {
        bool set;
        char letter;
    } letters[] = {
        {S_ISDIR(mode), 'd'},  {S_ISLNK(mode), 'L'},  {S_ISBLK(mode) || S_ISCHR(mode), 'D'},
        {S_ISFIFO(mode), 'p'}, {S_ISSOCK(mode), 'S'}, {mode & S_ISUID, 'u'},
        {mode & S_ISGID, 'g'}, {S_ISCHR(mode), 'c'},  {mode & S_ISVTX, 't'},
    };
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].set)
            *at++ = letters[i].letter;
    if (at == text)
        *at++ = '-';
    for (int bit = 8; bit >= 0; bit--)
        *at++ = mode >> bit & 1 ? "xwr"[bit % 3] : '-';
    *at = 0;
}

void entry_put_metadata(struct json *json, const char *attributes, size_t len) {
    bool any = false;
    for (size_t at = 0; attributes && at < len;) {
        const char *key = attributes + at, *value = key + strlen(key) + 1;
        if (value >= attributes + len)
            break;
        at = (size_t)(value - attributes) + strlen(value) + 1;
        if (!text_utf8(key, strlen(key)) || !text_utf8(value, strlen(value)))
            continue;
        if (!any)
            json_put_open(json, "metadata", '{');
        any = true;
        json_put_str(json, key, value);
    }
    if (any)
        json_close(json, '}');
}

void entry_put(struct json *json, struct entry_names *names, const struct file_stat *stat) {
    bool link = stat->type == FILE_SYMLINK;
    mode_t own = entry_kind(stat) | stat->mode, shown = link ? stat->resolved_mode : own;
    char permissions[24];
    struct err ignored;
    if (!names->read) {
        names->read = true;
        box_read_all(names->box, "/etc/passwd", ENTRY_NAMES_BYTES - 1, -1, &names->users, &ignored);
        box_read_all(names->box, "/etc/group", ENTRY_NAMES_BYTES - 1, -1, &names->groups, &ignored);
    }
    entry_permissions(own, permissions);
    json_open(json, '{');
    json_put_str(json, "name", stat->name);
    json_put_str(json, "type", entry_type(shown));
    json_put_str(json, "path", stat->path);
    connect_put_int64(json, "size", (int64_t)stat->size);
    json_put_uint(json, "mode", shown & 0777);
    json_put_str(json, "permissions", permissions);
    entry_put_owner(json, "owner", &names->users, stat->uid);
    entry_put_owner(json, "group", &names->groups, stat->gid);
    connect_put_time(json, "modifiedTime", stat->mtime_ns);
    if (link)
        json_put_str(json, "symlinkTarget", stat->resolved ? stat->resolved : stat->path);
    entry_put_metadata(json, stat->attributes, stat->attributes_len);
    json_close(json, '}');
}
