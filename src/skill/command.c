/* The dialect's rules for commands. Called by its front before anything runs. Invariant: what is refused has no effect at
 * all, and words that merely look like paths ("1..2", "src/bin/x", "s/a/b/") pass. */
#include "skill/command.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* What a path cannot go on with, and what may stand before one: "--file=/x", "a:/x", "cat</x". */
#define ENDS " \t\r\n\"'`,;|&<>(){}[]=:$*?"

int command_check(const char *name, const char *const *allowed, struct err *err) {
    for (const char *const *word = allowed; word && *word; word++)
        if (!strcmp(*word, name))
            return 0;
    return err_set(err, ERR_INVALID, "Security Error: Command '%.200s' is not allowed.", name);
}

static bool ends(char c) {
    return !c || strchr(ENDS, c);
}

/* ".." between slashes or ends of a word. */
static bool climbs(const char *arg) {
    for (const char *at = strstr(arg, ".."); at; at = strstr(at + 1, "..")) {
        bool before = at == arg || at[-1] == '/' || at[-1] == '\\' || ends(at[-1]);
        if (before && (at[2] == '/' || at[2] == '\\' || ends(at[2])))
            return true;
    }
    return false;
}

/* Slashes are folded and "/." left out; ".." was refused before. */
static size_t plain_path(const char *path, size_t len, char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < size; i++) {
        if (path[i] == '/' && (i + 1 == len || path[i + 1] == '/'))
            continue;
        if (path[i] == '/' && path[i + 1] == '.' && (i + 2 == len || path[i + 2] == '/')) {
            i++;
            continue;
        }
        out[n++] = path[i];
    }
    out[n] = 0;
    return n;
}

static bool inside(const char *path, const char *root) {
    size_t len = strlen(root);
    return !strncmp(path, root, len) && (!path[len] || path[len] == '/');
}

static bool of_system(const char *path) {
    static const char *const places[] = {"/etc", "/root", "/proc", "/dev",     "/sys",     "/boot",
                                         "/var", "/home", "/bin",  "/usr/bin", "/usr/sbin"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t len = strlen(places[i]);
        if (!strncasecmp(path, places[i], len) && (!path[len] || path[len] == '/'))
            return true;
    }
    return false;
}

static int check_path(const char *arg, const char *path, size_t len, const char *const *roots, struct err *err) {
    char plain[4096];
    plain_path(path, len, plain, sizeof plain);
    if (!strcmp(plain, "/dev/null") || (!*plain && arg[strspn(arg, "/.")])) /* "4 / 2" */
        return 0;
    for (const char *const *root = roots; *root; root++)
        if (inside(plain, *root))
            return 0;
    if (of_system(plain))
        return err_set(err, ERR_INVALID, "Security Error: Forbidden access to system paths in arguments.");
    return err_set(err, ERR_INVALID, "Security Error: Absolute path '%.200s' is outside the allowed skill directory.",
                   arg);
}

static int check_arg(const char *arg, const char *const *roots, struct err *err) {
    if (climbs(arg))
        return err_set(err, ERR_INVALID, "Security Error: Path traversal '..' is strictly forbidden.");
    for (const char *at = arg; (at = strchr(at, '/'));) {
        size_t len = strcspn(at, ENDS);
        /* "http://host/x" names no file; "file:///x" does, and so does what stands behind any other end of a word. */
        bool url = at > arg && at[-1] == ':' && at[1] == '/' && !(at - arg >= 5 && !strncasecmp(at - 5, "file:", 5));
        int failed = !url && (at == arg || ends(at[-1])) ? check_path(arg, at, len, roots, err) : 0;
        if (failed)
            return failed;
        at += len;
    }
    return 0;
}

int command_check_args(const char *const *args, const char *const *roots, struct err *err) {
    for (; args && *args; args++) {
        int failed = check_arg(*args, roots, err);
        if (failed)
            return failed;
    }
    return 0;
}

const char *command_map_arg(struct arena *arena, const char *arg, const char *from, const char *to) {
    size_t len = strlen(from);
    for (const char *at = arg; (at = strstr(at, from)); at += len) {
        bool begins = at == arg || ends(at[-1]), whole = at[len] == '/' || ends(at[len]);
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
    size_t count = 0;
    for (const char *at = line + strspn(line, space); *at; at += strspn(at, space), count++)
        at += strcspn(at, space);
    const char **words = arena_alloc(arena, (count + 1) * sizeof *words);
    const char *at = line + strspn(line, space);
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(at, space);
        words[i] = arena_copy(arena, at, len);
        at += len;
        at += strspn(at, space);
    }
    *ret_count = count;
    return words;
}
