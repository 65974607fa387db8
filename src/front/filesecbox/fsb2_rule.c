/* The rules of the second family: the meaning of its logical paths, and the lines that its execute refuses. Pure;
 * called by its handlers. The allow list and the rules on paths are the guard's, which parses a line as bash does; two
 * more rules are about reserved names. Invariant: a path is checked part by part before any look-up. A refusal here
 * only informs early; a command that gets past it is still in the box. */

#include "front/filesecbox/filesecbox.h"
#include "tool/guard/guard.h"
#include "tool/guard/words.h"

/* ---- routes ---- */

bool fsb2_claims(const char *path) {
    static const char *const ends[] = {"files", "content", "write", "edit", "execute", "delete"};
    if (strncmp(path, "/v1/", 4) != 0)
        return false;
    const char *user = path + 4, *agent = user + strcspn(user, "/");
    const char *end = *agent ? agent + 1 + strcspn(agent + 1, "/") : agent;
    for (size_t i = 0; *end && i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(end + 1, ends[i]))
            return !filesecbox_reserved(user, (size_t)(agent - user));
    return false;
}

/* ---- paths ---- */

int fsb2_scope_error(const char *given, struct err *err) {
    return err_set(err, ERR_INVALID, "Security Error: Access out of scope. Path: %s", given);
}

/* The first part names the place; below skills/ the second part names a skill. */
static int fsb2_part(struct arena *arena, struct fsb2_path *path, const char *part, size_t len, struct err *err) {
    if (!path->parts) {
        path->skills = path->given[0] != '/' && len == 6 && !memcmp(part, "skills", 6);
        if (!path->skills && (path->given[0] == '/' || len != 5 || memcmp(part, "files", 5) != 0))
            return err_set(err, ERR_INVALID,
                           "Security Error: Path must start with 'skills/' or 'files/'. Current path: %s", path->given);
    } else if (path->parts == 1 && path->skills) {
        path->skill = arena_copy(arena, part, len);
        if (part[0] == '.')
            return err_set(err, ERR_INVALID,
                           "Security Error: Access to hidden system files (starting with '.') is forbidden.");
        return skill_id_check(path->skill, err) < 0 ? err_wrap(err, "Security Error") : 0;
    }
    return 0;
}

int fsb2_logical(struct arena *arena, const char *given, size_t len, struct fsb2_path *ret_path, struct err *err) {
    struct fsb2_path path = {.given = given};
    if (!given)
        return err_set(err, ERR_INVALID, "Security Error: Path cannot be null.");
    if (len > LIMIT_PATH_BYTES || strlen(given) != len || !text_utf8(given, len))
        return fsb2_scope_error("(longer than a path can be, or not a text)", err);
    char *logical = arena_alloc(arena, len + 1), *to = logical;
    int code = 0;
    for (const char *at = given, *end = given + len; code >= 0 && at <= end;) {
        size_t part = strcspn(at, "/");
        if (part == 2 && at[0] == '.' && at[1] == '.')
            return fsb2_scope_error(given, err);
        if (part && !(part == 1 && at[0] == '.')) {
            code = fsb2_part(arena, &path, at, part, err);
            if (path.parts++)
                *to++ = '/';
            path.name = to;
            memcpy(to, at, part);
            to += part;
        }
        at += part + 1;
    }
    if (code >= 0 && !path.parts)
        code = fsb2_part(arena, &path, "", 0, err);
    if (code < 0)
        return code;
    path.logical = logical;
    *ret_path = path;
    return 0;
}

bool fsb2_is_creator(const struct fsb2_path *path) {
    return path->skill && !strcmp(path->skill, FSB2_CREATOR);
}

/* ---- reserved names ---- */

/* Returns a word as a path of the place: "skills/a/b". false: it is not one. */
static bool fsb2_word_path(struct arena *arena, const char *workspace, const struct word *word,
                           struct fsb2_path *ret_path) {
    const char *text = word->text;
    size_t len = strlen(workspace);
    struct err err = {0};
    if (!strncmp(text, workspace, len) && text[len] == '/')
        text += len + 1;
    else if (!strncmp(text, "/skills/", 8))
        text++;
    while (!strncmp(text, "./", 2))
        text += 2;
    return fsb2_logical(arena, text, strlen(text), ret_path, &err) >= 0;
}

static const char *fsb2_reserved_file(const struct fsb2_path *path) {
    if (path->parts < 2 || strcasecmp(path->name, FSB2_FILE) != 0 || (path->skills && path->parts == 3))
        return NULL;
    return "Security Error: 'SKILL.md' is a system reserved file. You can only create/edit it at the root of a skill "
           "(e.g., skills/my_skill/SKILL.md).";
}

static const char *fsb2_words(struct arena *arena, const char *workspace, const struct word *words) {
    static const struct {
        const char *name;
        bool last; /* it changes only its last argument; else all */
    } writers[] = {{"mkdir", false}, {"touch", false}, {"rm", false}, {"tee", false},
                   {"chmod", false}, {"cp", true},     {"mv", false}};
    struct fsb2_path path;
    size_t i = 0;
    while (words && i < sizeof writers / sizeof *writers && strcmp(words->text, writers[i].name) != 0)
        i++;
    if (!words || i == sizeof writers / sizeof *writers)
        return NULL;
    for (const struct word *word = words->next; word; word = word->next) {
        if ((writers[i].last && word->next) || !fsb2_word_path(arena, workspace, word, &path))
            continue;
        if (fsb2_is_creator(&path))
            return arena_printf(
                arena, "Security Error: Modification of 'skill-creator' is strictly forbidden. Command '%s' blocked.",
                words->text);
        const char *refusal = fsb2_reserved_file(&path);
        if (refusal)
            return refusal;
    }
    return NULL;
}

static const char *fsb2_script(struct arena *arena, const char *workspace, const struct script *script) {
    struct fsb2_path path;
    for (; script; script = script->next)
        for (const struct command *command = script->commands; command; command = command->next) {
            const char *refusal = NULL;
            for (const struct redirect *to = command->redirects; to && !refusal; to = to->next)
                if (to->kind == REDIRECT_OUT && fsb2_word_path(arena, workspace, &to->target, &path))
                    refusal = fsb2_is_creator(&path)
                                  ? "Security Error: Redirecting output to 'skill-creator' is strictly forbidden."
                                  : fsb2_reserved_file(&path);
            if (!refusal && command->kind == COMMAND_SIMPLE)
                refusal = fsb2_words(arena, workspace, command->words);
            for (const struct word *word = command->words; word && !refusal; word = word->next)
                refusal = fsb2_script(arena, workspace, word->inside);
            if (refusal)
                return refusal;
        }
    return NULL;
}

/* ---- the guard's verdict in the dialect's texts ---- */

static const char *fsb2_verdict(struct arena *arena, const struct guard_verdict *verdict) {
    switch (verdict->rule) {
    case GUARD_RULE_ALLOW:
        return arena_printf(arena, "Security Error: Command '%s' is not allowed.", verdict->word);
    case GUARD_RULE_PARENTS:
        return "Security Error: Path traversal '..' is strictly forbidden.";
    case GUARD_RULE_ROOTS:
        return arena_printf(arena,
                            "Security Error: Path '%s' is out of operable scope. Must start with 'skills/' or "
                            "'files/'.",
                            verdict->word);
    case GUARD_RULE_OTHER:
        break;
    }
    return arena_printf(arena, "Security Error: Command is not allowed: %s.", verdict->reason);
}

const char *fsb2_refusal(struct arena *arena, const char *const *commands, const char *workspace, const char *line,
                         size_t len) {
    const char *const roots[] = {workspace, SKILL_PATH, "/tmp", NULL};
    const struct guard_policy policies[] = {
        /* in the order that clients expect */
        {.mode = GUARD_BLOCKS, .absolute_paths = true},
        {.mode = GUARD_BLOCKS, .absolute_paths = true, .parents = true, .allow = commands},
        {.mode = GUARD_BLOCKS, .parents = true, .roots = roots},
    };
    const struct script *script;
    struct guard_verdict verdict;
    struct err err = {0};
    if (!line[strspn(line, " \t\r\n")])
        return "Security Error: Command '' is not allowed.";
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        guard_judge(&policies[i], arena, line, len, workspace, &verdict);
        if (verdict.risk == GUARD_REFUSE)
            return fsb2_verdict(arena, &verdict);
    }
    if (words_parse(arena, line, len, &script, &err) < 0)
        return arena_printf(arena, "Security Error: Command is not allowed: %s.", err.text);
    return fsb2_script(arena, workspace, script);
}
