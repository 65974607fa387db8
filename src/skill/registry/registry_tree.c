/* Trees out of boxes and into them, by verbs alone. Called by registry.c and the doors. Invariant: what lies in a box is
 * hostile: it is bounded, made flat and named by us before it is kept; and in a box a name is either the old tree or the new
 * one, never a part of either. */
#include "skill/registry/registry_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "skill/own/own.h"
#include "skill/registry/registry.h"
#include "skill/skills.h"
#include "skill/stage.h"

static const char *const skill_places[] = {"skills", SKILL_PATH, ".skills", NULL};
static const char *const agent_places[] = {"agents", ".agents", NULL};
static const struct registry_kind kinds[] = {
    {"skill", "skills", "", skill_places},
    {"agent", "agents", ".md", agent_places},
};

const struct registry_kind *registry_kind(const char *type, struct err *err) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    err_set(err, ERR_INVALID, "the type is skill or agent, not '%.64s'", type);
    return NULL;
}

int registry_name_check(const struct registry_kind *kind, const char *name, struct err *err) {
    if (skill_id_check(name, err) < 0)
        return err_wrap(err, "%s", kind->type);
    if (strlen(name) + strlen(kind->suffix) > LIMIT_NAME_BYTES)
        return err_set(err, ERR_INVALID, "the %s's name is too long", kind->type);
    return 0;
}

/* ---- out of a box ---- */

/* Relative to the workspace, or absolute. A link is not what it leads to: the tree is to be the box's own. */
static const char *tree_find(struct box *box, const struct registry_kind *kind, const char *name, struct arena *arena,
                             struct err *err) {
    enum file_type wanted = strcmp(kind->type, "skill") == 0 ? FILE_DIR : FILE_REGULAR;
    for (const char *const *place = kind->places; *place; place++) {
        struct file_stat stat;
        const char *path = arena_printf(arena, "%s/%s%s", *place, name, kind->suffix);
        int r = box_stat(box, path, arena, &stat, err);
        if (r == 0 && stat.type == wanted)
            return path;
        if (r == 0) {
            err_set(err, ERR_INVALID, "'%s' is not a %s", path, wanted == FILE_DIR ? "directory" : "file");
            return NULL;
        }
        if (r != -ERR_NOT_FOUND)
            return NULL;
    }
    err_set(err, ERR_NOT_FOUND, "the box has no %s '%s'", kind->type, name);
    return NULL;
}

struct gathering {
    struct stage_tar *tar;
    bool refused; /* the stage did not take it: it says why */
};

static int gather_feed(void *user, const uint8_t *data, size_t len) {
    struct gathering *gathering = user;
    int r = stage_tar_feed(gathering->tar, data, len);
    gathering->refused |= r < 0;
    return r;
}

static int gather_skill(struct box *box, const char *path, const char *name, struct stage *stage, int watch,
                        struct err *err) {
    struct err told = {0};
    int r = box_share(box, skills_settings(stage->skills)->wait_ms, err);
    if (r < 0)
        return r;
    struct gathering gathering = {.tar = stage_tar_new(stage, name)};
    r = box_tar_out(box, path, watch, gather_feed, &gathering, err);
    box_share_end(box);
    int end = stage_tar_end(gathering.tar, &told);
    if (end == 0 || (r < 0 && !gathering.refused))
        return r;
    *err = told;
    return end;
}

static int gather_agent(struct box *box, const char *path, const char *name, struct stage *stage, struct buf *text,
                        int watch, struct err *err) {
    int r = box_read_all(box, path, META_BYTES + 1, watch, text, err);
    if (r == 0 && text->len > META_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%s' is larger than %d bytes, the limit of a sub-agent's file", path,
                       META_BYTES);
    autofd file = -1;
    char leaf[LIMIT_NAME_BYTES + 1];
    snprintf(leaf, sizeof leaf, "%s.md", name);
    if (r == 0)
        r = stage_file(stage, leaf, 0644, &file, err);
    if (r == 0 && (r = fd_write_all(file, text->data, text->len)) < 0)
        r = err_errno(err, -r, "keeping it");
    return r;
}

static int meta_of_agent(const struct buf *text, const char *path, const char *name, struct arena *arena,
                         struct meta *ret_meta, struct err *err) {
    const char *why = "";
    char leaf[LIMIT_NAME_BYTES + 1];
    snprintf(leaf, sizeof leaf, "%s.md", name);
    if (meta_agent(arena, leaf, (const char *)text->data, text->len, ret_meta, &why))
        return 0;
    return err_set(err, ERR_INVALID, "'%s' is no sub-agent's file: %s", path, why);
}

/* What a folder says of itself; without any of these it is no skill. */
static int meta_of_skill(struct stage *stage, const char *name, struct arena *arena, struct meta *ret_meta,
                         struct err *err) {
    static const struct {
        const char *file;
        void (*read)(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
    } files[] = {{"SKILL.md", meta_skill}, {"skill.md", meta_heading}, {"README.md", meta_heading}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        autofd file = openat(stage->fd, arena_printf(arena, "%s/%s", name, files[i].file),
                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        char *text = arena_alloc(arena, META_BYTES);
        ssize_t len = fd_read_full(file, text, META_BYTES);
        if (len < 0)
            return err_errno(err, (int)-len, "%s of '%s'", files[i].file, name);
        files[i].read(arena, name, text, (size_t)len, ret_meta);
        return 0;
    }
    return err_set(err, ERR_INVALID, "'%s' has no SKILL.md: it is not a skill", name);
}

int registry_gather(struct skills *skills, struct box *box, const struct registry_kind *kind, const char *name,
                    struct arena *arena, struct blob *ret_blob, struct meta *ret_meta, int watch, struct err *err) {
    struct stage stage;
    autobuf text = buf_max(META_BYTES + 1);
    const char *path = tree_find(box, kind, name, arena, err);
    if (!path)
        return -err->code;
    int r = stage_open(skills, &stage, err);
    if (r < 0)
        return r;
    if (strcmp(kind->type, "skill") == 0) {
        r = gather_skill(box, path, name, &stage, watch, err);
        if (r == 0)
            r = meta_of_skill(&stage, name, arena, ret_meta, err);
    } else {
        r = gather_agent(box, path, name, &stage, &text, watch, err);
        if (r == 0)
            r = meta_of_agent(&text, path, name, arena, ret_meta, err);
    }
    if (r == 0)
        r = blob_make(skills, stage.fd, ret_blob, err);
    stage_abort(&stage);
    return r;
}

/* ---- into a box ---- */

struct installing {
    struct skills *skills;
    struct box *box;
    const struct registry_kind *kind;
    const char *name;                   /* in the folder, with its suffix */
    const char *folder, *hidden, *path; /* absolute; hidden: where it is unpacked */
    int watch;
};

/* A user's skills for an agent are those of /skills, wherever else that is seen. */
static const char *install_folder(const struct box *box, const struct registry_kind *kind, struct arena *arena) {
    if (box->spec.agent && strcmp(kind->type, "skill") == 0)
        return SKILL_PATH;
    return arena_printf(arena, "%s/%s", box_workspace(box), kind->folder);
}

static int install_names(struct installing *in, const struct registry_entry *entry, struct arena *arena,
                         struct err *err) {
    uint8_t random[8];
    char hex[17];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "random bytes");
    text_hex(hex, random, sizeof random);
    in->name = arena_printf(arena, "%s%s", entry->name, in->kind->suffix);
    in->folder = install_folder(in->box, in->kind, arena);
    in->hidden = arena_printf(arena, "%s/.cubby-%s", in->folder, hex);
    in->path = arena_printf(arena, "%s/%s", in->folder, in->name);
    return 0;
}

static int install_unpack(const struct installing *in, const char *sha256, struct err *err) {
    struct blob_reader reader;
    struct unpack_result result;
    struct unpack_request request = {.path = in->hidden, .max_entries = LIMIT_UNPACK_ENTRIES};
    int r = blob_open(in->skills, sha256, &reader, err);
    if (r < 0)
        return r;
    r = box_mkdir(in->box, in->hidden, 0755, true, err);
    if (r == 0)
        r = box_tar_in(in->box, &request, blob_read, &reader, in->watch, &result, err);
    blob_close(&reader);
    return r;
}

/* The old one goes to the hidden directory, which is removed, or comes back where the new one cannot take its place. */
static int install_swap(const struct installing *in, const char *fresh, struct arena *arena, struct err *err) {
    const char *old = arena_printf(arena, "%s/.old", in->hidden);
    struct err ignored;
    int r = box_alone(in->box, skills_settings(in->skills)->wait_ms, err);
    if (r < 0)
        return r;
    r = box_move(in->box, in->path, old, false, err);
    bool had = r == 0;
    if (r == -ERR_NOT_FOUND)
        r = 0;
    if (r == 0) {
        r = box_move(in->box, fresh, in->path, false, err);
        if (r < 0 && had)
            box_move(in->box, old, in->path, false, &ignored);
    }
    box_alone_end(in->box);
    return r;
}

int registry_install(struct skills *skills, struct box *box, const struct registry_entry *entry, bool replace,
                     struct arena *arena, const char **ret_path, int watch, struct err *err) {
    struct installing in = {.skills = skills, .box = box, .watch = watch};
    struct file_stat there;
    struct err ignored;
    if (!(in.kind = registry_kind(entry->type, err)))
        return -err->code;
    int r = install_names(&in, entry, arena, err);
    if (r < 0)
        return r;
    if (!replace && box_stat(box, in.path, arena, &there, &ignored) == 0)
        return err_set(err, ERR_EXISTS, "%s '%s' is already installed (replace takes its place)", entry->type,
                       entry->name);
    r = install_unpack(&in, entry->sha256, err);
    if (r == 0) {
        if (box->spec.agent && strcmp(entry->type, "skill") == 0)
            own_touched(skills, box, entry->name);
        const char *fresh = arena_printf(arena, "%s/%s", in.hidden, in.name);
        r = replace ? install_swap(&in, fresh, arena, err) : box_move(box, fresh, in.path, false, err);
    }
    box_remove(box, in.hidden, true, -1, &ignored);
    if (r == 0)
        *ret_path = in.path;
    return r;
}

int registry_uninstall(struct skills *skills, struct box *box, const char *type, const char *name, int watch,
                       struct err *err) {
    const struct registry_kind *kind = registry_kind(type, err);
    char path[LIMIT_NAME_BYTES + 64];
    int r = kind ? registry_name_check(kind, name, err) : -err->code;
    if (r < 0)
        return r;
    r = box_alone(box, skills_settings(skills)->wait_ms, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%s/%s%s", kind->folder, name, kind->suffix);
    r = box_remove(box, path, true, watch, err);
    box_alone_end(box);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "%s '%s' is not installed", type, name);
    return r;
}
