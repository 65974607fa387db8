/* Which base a user's changes are founded on, where a command made them: nobody tells of those. So each box's stack of public
 * layers is written down, and when it has another one, public skills that differ are compared with what the box shows: what is
 * not the new version was changed by the user, on top of the old one. Called by own_settle. Invariant: only skills whose
 * public version changed cost anything. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "skill/base/view.h"
#include "skill/own/rows.h"
#include "skill/own/settle.h"

/* The stack that was written down; empty where none was. */
static int stack_get(struct db *db, const char *key, char ret_text[STACK_BYTES], struct err *err) {
    autoquery query;
    ret_text[0] = 0;
    int r = db_query(db, &query, err, "SELECT layers FROM own_stack WHERE box = ?", "t", key);
    if (r == 0 && query_next(&query, err) > 0)
        snprintf(ret_text, STACK_BYTES, "%s", query_text(&query, 0));
    return r;
}

static bool stack_parse(const char *text, struct base_stack *ret_stack) {
    *ret_stack = (struct base_stack){0};
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        if (n != LAYER_NAME_BYTES - 1 || ret_stack->count == sizeof ret_stack->names / sizeof *ret_stack->names)
            return false;
        memcpy(ret_stack->names[ret_stack->count++], text, n);
    }
    return ret_stack->count > 0;
}

static void founded_on_old(struct skills *skills, struct box *box, const struct base_view *old,
                           const struct base_view *now) {
    struct err ignored;
    uint8_t sha256[32];
    for (size_t i = 0; i < now->count; i++) {
        const struct base_skill *skill = &now->skills[i], *before = base_view_find(old, skill->skill);
        if (before && memcmp(before->sha256, skill->sha256, sizeof sha256) != 0 &&
            own_hash(skills, box, skill->skill, sha256, &ignored) == 0 &&
            memcmp(sha256, skill->sha256, sizeof sha256) != 0)
            own_founded_first(skills, box, skill->skill, before->sha256);
    }
}

/* The layers are those of now: a box that is behind comes again when it is not. */
static int based(struct skills *skills, struct box *box, const struct base_view *now, struct err *err) {
    char text[STACK_BYTES], old_text[STACK_BYTES], key[OWN_KEY_BYTES];
    struct base_stack stack;
    struct base_view *old;
    struct db *db;
    base_stack_text(&now->stack, text);
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    r = stack_get(db, own_key(box, key), old_text, err);
    if (r == 0 && strcmp(old_text, text) != 0)
        r = db_do(db, err, "INSERT OR REPLACE INTO own_stack (box, layers) VALUES (?, ?)", "tt", key, text);
    skilldb_give(skills);
    if (r < 0 || strcmp(old_text, text) == 0 || !stack_parse(old_text, &stack))
        return r;
    r = base_view_make(skills, &stack, &old, err);
    if (r < 0)
        return r;
    founded_on_old(skills, box, old, now);
    base_view_put(old);
    return 0;
}

void own_based(struct skills *skills, struct box *box) {
    struct base_view *now;
    struct err err;
    int r = base_view_get(skills, box->spec.agent, &now, &err);
    if (r == 0) {
        if (now->stack.count && now->generation == atomic_load(&box->attached_generation))
            r = based(skills, box, now, &err);
        base_view_put(now);
    }
    if (r < 0)
        log_warn("box %s: what its skills were founded on is not known: %s", box->id, err.text);
}

void own_based_on(struct skills *skills, struct box *box, const char *skill, struct own_founded *ret_founded) {
    char text[STACK_BYTES], key[OWN_KEY_BYTES];
    struct base_stack stack;
    struct base_view *view;
    struct err ignored;
    struct db *db;
    if (skilldb_take(skills, &db, &ignored) < 0)
        return;
    int r = stack_get(db, own_key(box, key), text, &ignored);
    skilldb_give(skills);
    if (r < 0 || !stack_parse(text, &stack) || base_view_make(skills, &stack, &view, &ignored) < 0)
        return;
    const struct base_skill *found = base_view_find(view, skill);
    if (found) {
        ret_founded->known = true;
        memcpy(ret_founded->sha256, found->sha256, sizeof ret_founded->sha256);
    }
    base_view_put(view);
}
