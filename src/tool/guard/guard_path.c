/* Paths in the words of a command: absolute ones outside the roots, and "..". Called by guard.c if the policy has such
 * rules. Invariant: a word that is a pattern, a program or a text is not taken for a path; people who are refused for
 * nothing learn to evade the rule. */
#include <ctype.h>

#include "base/base.h"
#include "tool/guard/guard_view.h"

const char *path_folded(struct arena *arena, const char *path) {
    char *folded = arena_strdup(arena, path), *to = folded;
    for (const char *from = folded; *from;) {
        size_t len = strcspn(from + 1, "/") + 1; /* including its leading slash */
        if (len == 3 && from[1] == '.' && from[2] == '.')
            while (to > folded && *--to != '/')
                ;
        else if (len > 1 && !(len == 2 && from[1] == '.'))
            memmove(to, from, len), to += len;
        from += len;
    }
    if (to == folded)
        *to++ = '/';
    *to = 0;
    return folded;
}

static bool guard_path_below(const char *path, const char *root) {
    size_t len = strlen(root);
    while (len > 1 && root[len - 1] == '/')
        len--;
    return !strncmp(path, root, len) && (len == 1 || !path[len] || path[len] == '/');
}

static bool path_fine(const struct guard *guard, const char *path) {
    static const char *const devices[] = {"/dev/null",    "/dev/zero",  "/dev/full",   "/dev/random",
                                          "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr",
                                          "/dev/tty",     "/dev/fd",    NULL};
    static const char *const usual[] = {"/tmp",      "/mnt",           "/bin", "/sbin", "/usr/bin",
                                        "/usr/sbin", "/usr/local/bin", "/opt", NULL};
    const char *const *roots = guard->policy->roots ? guard->policy->roots : usual;
    if (!guard->policy->roots && guard_path_below(path, guard->workspace))
        return true;
    for (size_t i = 0; devices[i]; i++)
        if (guard_path_below(path, devices[i]))
            return true;
    for (; *roots; roots++)
        if (guard_path_below(path, *roots))
            return true;
    return false;
}

/* Finds ".." as a part of a path: between slashes, ends, and characters that an option or a list puts before a path. */
static bool path_has_parent(const char *text) {
    for (const char *p = text; (p = strstr(p, "..")); p += 2) {
        bool begins = p == text || strchr("/=:,@", p[-1]) || (p == text + 2 && text[0] == '-');
        if (begins && (!p[2] || strchr("/:,", p[2])))
            return true;
        while (p[2] == '.')
            p++;
    }
    return false;
}

/* Where an absolute path begins in a word: at its start, after "=", "@" or ":", or right after an option's letter. */
static const char *path_absolute_in(const char *text) {
    if (*text == '/')
        return text;
    if (text[0] == '-' && isalpha((unsigned char)text[1]) && text[2] == '/')
        return text + 2;
    for (const char *p = text + (*text != 0); *p; p++)
        if (*p == '/' && strchr("=@:", p[-1]))
            return p;
    return NULL;
}

/* "file:///etc/x" is a path; other URLs are not. */
static const char *path_of(const char *text) {
    const char *scheme = strstr(text, "://"), *file = strstr(text, "file://");
    if (file)
        return strchr(file + 7, '/');
    return scheme ? NULL : path_absolute_in(text);
}

static void path_judge_word(struct guard *guard, const struct word *word, bool separator) {
    const struct guard_policy *policy = guard->policy;
    const char *text = word->text, *path = path_of(text);
    bool address = strstr(text, "://") && !strstr(text, "file://");
    if (!policy->parents && !address && path_has_parent(text))
        guard_broken(guard, GUARD_RULE_PARENTS, text);
    if (policy->absolute_paths)
        return;
    if (word->flags & WORD_TILDE && text[1] && text[1] != '/')
        guard_broken(guard, GUARD_RULE_ROOTS, text);
    if (!path || (!path[strspn(path, "/")] && (separator || path != text)))
        return; /* a lone slash is a separator for cut and awk */
    if (!path_fine(guard, path_folded(guard->arena, path)))
        guard_broken(guard, GUARD_RULE_ROOTS, path);
}

/* Commands whose words are texts; commands whose first argument, or that of -e, is a program or a pattern; commands
 * that use "/" as a separator. */
static const char *const texts[] = {"echo", "printf", "test", "[", "expr", "tr", "true", "false", ":", NULL};
static const char *const programs[] = {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "sed",  "awk",
                                       "gawk", "mawk",  "nawk",  "perl",  "jq", "yq", "expr", NULL};
static const char *const parters[] = {"cut", "sort", "paste", "join", "column", "xargs", "awk", "gawk", "mawk", NULL};
static const char *const find_patterns[] = {"-name",  "-iname", "-path",   "-ipath",  "-wholename",
                                            "-lname", "-regex", "-iregex", "-printf", NULL};

static bool path_takes_program(const char *option) {
    size_t len = strlen(option);
    return option[0] == '-' && option[1] != '-' ? option[len - 1] == 'e' || option[len - 1] == 'F'
                                                : !strcmp(option, "--regexp") || !strcmp(option, "--expression");
}

static void path_judge_arguments(struct guard *guard, const struct guard_view *view, const struct word *stop) {
    bool program = text_list_has(programs, view->name), given = false, find = !strcmp(view->name, "find"),
         parts = text_list_has(parters, view->name);
    path_judge_word(guard, view->words, false);
    if (text_list_has(texts, view->name))
        return;
    for (const struct word *word = view->words->next; word && word != stop; word = word->next) {
        bool option = word->text[0] == '-' && word->text[1];
        if (program && option && path_takes_program(word->text) && word->next) {
            given = given || word->text[strlen(word->text) - 1] != 'F';
            word = word->next;
        } else if (program && !option && !given) {
            given = true;
        } else if (find && text_list_has(find_patterns, word->text) && word->next) {
            word = word->next;
        } else
            path_judge_word(guard, word, parts);
    }
}

void path_judge(struct guard *guard, const struct command *command) {
    if (guard->policy->absolute_paths && guard->policy->parents)
        return;
    for (const struct word *word = command->assigns; word; word = word->next)
        path_judge_word(guard, word, true);
    for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next)
        if (redirect->kind == REDIRECT_IN || redirect->kind == REDIRECT_OUT)
            path_judge_word(guard, &redirect->target, false);
    if (command->kind == COMMAND_VALUES)
        for (const struct word *word = command->words; word; word = word->next)
            path_judge_word(guard, word, true);
    if (command->kind != COMMAND_SIMPLE || !command->words)
        return;
    struct guard_view view, inner;
    view_init(&view, command, command->words);
    for (unsigned i = 0; i < GUARD_DEPTH && view_inner(guard, &view, &inner); i++) {
        path_judge_arguments(guard, &view, inner.words);
        view = inner;
    }
    path_judge_arguments(guard, &view, NULL);
}
