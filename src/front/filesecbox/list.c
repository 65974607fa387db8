/* The skills that a user of an agent has, for the lists of both families. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "front/filesecbox/filesecbox.h"
#include "skill/base/base.h"
#include "skill/catalog/catalog.h"

struct found {
    struct skills *known;
    struct arena *arena;
    struct filesecbox_skill *skills;
    size_t count, room;
};

static struct filesecbox_skill *found_add(struct found *found) {
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : 64;
        struct filesecbox_skill *skills = arena_alloc(found->arena, room * sizeof *skills);
        if (found->count)
            memcpy(skills, found->skills, found->count * sizeof *skills);
        found->skills = skills;
        found->room = room;
    }
    return &found->skills[found->count++];
}

static int found_base(void *user, const struct base_skill *skill) {
    struct found *found = user;
    autofd dir = -1;
    struct err err;
    *found_add(found) = (struct filesecbox_skill){
        .id = arena_strdup(found->arena, skill->skill),
        .name = arena_strdup(found->arena, skill->name),
        .description = arena_strdup(found->arena, skill->description),
        .described = strcmp(skill->description, "No description available.") != 0,
        .has_skill_md = base_open(found->known, skill, &dir, &err) == 0 &&
                        faccessat(dir, "SKILL.md", F_OK, AT_SYMLINK_NOFOLLOW) == 0,
    };
    return 0;
}

static void found_box(struct found *found, const struct catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) {
        const struct catalog_entry *entry = &catalog->entries[i];
        const char *file = entry->file ? strrchr(entry->file, '/') : NULL;
        *found_add(found) = (struct filesecbox_skill){
            .id = entry->id,
            .name = entry->meta.name,
            .description = entry->meta.description,
            .described = entry->meta.described,
            .has_skill_md = file && !strcmp(file, "/SKILL.md"),
        };
    }
}

int filesecbox_skills(struct filesecbox *call, struct filesecbox_skill **ret_skills, size_t *ret_count,
                      struct err *err) {
    struct found found = {.known = call->skills, .arena = http_arena(call->request)};
    struct catalog catalog;
    int failed;
    if (!call->box) {
        failed = base_each(call->skills, call->agent, found_base, &found, err);
    } else {
        failed = catalog_folder(front_of(call->request)->tools.catalogs, call->box, SKILL_PATH, found.arena,
                                http_fd(call->request), &catalog, err);
        if (!failed)
            found_box(&found, &catalog);
    }
    if (!failed) {
        *ret_skills = found.skills;
        *ret_count = found.count;
    }
    return failed;
}
