/* The dialect's rules for commands. Called by its front before anything runs. Invariant: a refused command has no
 * effect, and words that only look like paths ("1..2", "src/bin/x", "s/a/b/") are accepted. */
#include "skill/command.h"

#include <string.h>

#include "base/text.h"

/* Characters that end a path, and that may precede one: "--file=/x", "a:/x", "cat</x". */
#define ENDS " \t\r\n\"'`,;|&<>(){}[]=:$*?"

int command_check(const char *name, const char *const *allowed, struct err *err) {
    if (text_list_has(allowed, name))
        return 0;
    return err_set(err, ERR_INVALID, "Security Error: Command '%.200s' is not allowed.", name);
}

static bool command_ends(char c) {
    return !c || strchr(ENDS, c);
}

static int command_check_path(const char *arg, const char *path, size_t len, const char *const *roots,
                              struct err *err) {
    static const char *const systems[] = {"/etc", "/root", "/proc", "/dev",     "/sys",     "/boot",
                                          "/var", "/home", "/bin",  "/usr/bin", "/usr/sbin"};
    char plain[4096]; /* slashes folded and "/." removed; the caller has refused ".." */
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < sizeof plain; i++) {
        if (path[i] == '/' && (i + 1 == len || path[i + 1] == '/'))
            continue;
        if (path[i] == '/' && path[i + 1] == '.' && (i + 2 == len || path[i + 2] == '/')) {
            i++;
            continue;
        }
        plain[n++] = path[i];
    }
    plain[n] = 0;
    if (!strcmp(plain, "/dev/null") || (!*plain && arg[strspn(arg, "/.")])) /* "4 / 2" */
        return 0;
    for (const char *const *root = roots; *root; root++)
        if (!strncmp(plain, *root, strlen(*root)) && (!plain[strlen(*root)] || plain[strlen(*root)] == '/'))
            return 0;
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        size_t system = strlen(systems[i]);
        if (!strncasecmp(plain, systems[i], system) && (!plain[system] || plain[system] == '/'))
            return err_set(err, ERR_INVALID, "Security Error: Forbidden access to system paths in arguments.");
    }
    return err_set(err, ERR_INVALID, "Security Error: Absolute path '%.200s' is outside the allowed skill directory.",
                   arg);
}

static int command_check_arg(const char *arg, const char *const *roots, struct err *err) {
    for (const char *at = strstr(arg, ".."); at; at = strstr(at + 1, "..")) { /* between slashes or ends of a word */
        bool before = at == arg || at[-1] == '/' || at[-1] == '\\' || command_ends(at[-1]);
        if (before && (at[2] == '/' || at[2] == '\\' || command_ends(at[2])))
            return err_set(err, ERR_INVALID, "Security Error: Path traversal '..' is strictly forbidden.");
    }
    for (const char *at = arg; (at = strchr(at, '/'));) {
        size_t len = strcspn(at, ENDS);
        /* "http://host/x" does not name a file. "file:///x" does, and so does a path after any other separator. */
        bool url = at > arg && at[-1] == ':' && at[1] == '/' && !(at - arg >= 5 && !strncasecmp(at - 5, "file:", 5));
        int failed = !url && (at == arg || command_ends(at[-1])) ? command_check_path(arg, at, len, roots, err) : 0;
        if (failed)
            return failed;
        at += len;
    }
    return 0;
}

int command_check_args(const char *const *args, const char *const *roots, struct err *err) {
    for (; args && *args; args++) {
        int failed = command_check_arg(*args, roots, err);
        if (failed)
            return failed;
    }
    return 0;
}

const char *command_map_arg(struct arena *arena, const char *arg, const char *from, const char *to) {
    size_t len = strlen(from);
    for (const char *at = arg; (at = strstr(at, from)); at += len) {
        bool begins = at == arg || command_ends(at[-1]), whole = at[len] == '/' || command_ends(at[len]);
        if (!begins || !whole)
            continue;
        size_t before = (size_t)(at - arg) + strlen(to);
        arg = arena_printf(arena, "%.*s%s%s", (int)(at - arg), arg, to, at + len);
        at = arg + before - len;
    }
    return arg;
}

const char **command_split(struct arena *arena, const char *line, size_t *ret_count) {
    static const char space[] = " \t\n\v\f\r";
    const char **words = NULL;
    size_t count = 0, cap = 0, len;
    for (const char *at = line + strspn(line, space); *at; at += len, at += strspn(at, space)) {
        len = strcspn(at, space);
        arena_add(arena, words, count, cap) = arena_copy(arena, at, len);
    }
    arena_add(arena, words, count, cap) = NULL;
    count--;
    *ret_count = count;
    return words;
}
