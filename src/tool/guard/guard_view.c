/* The command that a line really runs. Called by guard.c. Invariant: every command that runs another one through its
 * arguments is a row of `wrappers`, so that a rule about a command also applies to the wrapped command. */
#include <ctype.h>

#include "base/base.h"
#include "tool/guard/guard_view.h"

void view_init(struct guard_view *view, const struct command *command, const struct word *words) {
    const char *slash = strrchr(words->text, '/');
    *view = (struct guard_view){.command = command, .words = words};
    view->hidden =
        words->flags & (WORD_EXPANDS | WORD_BRACES) || (words->flags & WORD_GLOBS && strcmp(words->text, "["));
    view->name = view->hidden ? "" : slash ? slash + 1 : words->text;
}

/* ---- commands that run others ---- */

static const struct wrapper {
    const char *name;
    const char *values; /* letters of options with a value */
    const char *longs;  /* long options whose value is the next word: "--a|--b" */
    const char *looks;  /* letters of options that make it run nothing */
    unsigned skip;      /* arguments before the command */
} wrappers[] = {
    {"env", "uCS", "--unset|--chdir|--split-string", "", 0},
    {"command", "", "", "vV", 0},
    {"builtin", "", "", "", 0},
    {"exec", "a", "", "", 0},
    {"nohup", "", "", "", 0},
    {"time", "fo", "--format|--output", "", 0},
    {"sudo", "ughpCrtTUDRa", "--user|--group|--host|--prompt|--chdir|--chroot|--role|--type|--other-user", "lv", 0},
    {"doas", "uC", "", "", 0},
    {"nice", "n", "--adjustment", "", 0},
    {"ionice", "cnpPu", "--class|--classdata|--pid", "", 0},
    {"chrt", "TPD", "--sched-runtime|--sched-period|--sched-deadline", "", 1},
    {"taskset", "", "", "", 1},
    {"timeout", "ks", "--kill-after|--signal", "", 1},
    {"stdbuf", "ioe", "--input|--output|--error", "", 0},
    {"setsid", "", "", "", 0},
    {"setpriv", "", "--reuid|--regid|--groups|--inh-caps|--ambient-caps|--bounding-set|--securebits|--pdeathsig", "",
     0},
    {"setarch", "", "", "", 1},
    {"chroot", "", "--userspec|--groups", "", 1},
    {"unshare", "SGRw", "--root|--wd|--setuid|--setgid|--map-user|--map-group|--propagation", "", 0},
    {"nsenter", "tSG", "--target|--setuid|--setgid", "", 0},
    {"strace", "abeEIoOpPsSuUX", "--output|--trace|--attach", "", 0},
    {"ltrace", "aADeFlnopsuwx", "", "", 0},
    {"watch", "nq", "--interval", "", 0},
    {"xargs", "aEILPdns", "--arg-file|--delimiter|--max-lines|--max-args|--max-procs|--max-chars|--replace", "", 0},
    {"parallel", "aIjLNSd", "--jobs|--arg-file|--delimiter", "", 0},
    {"flock", "wE", "--timeout|--conflict-exit-code", "", 1},
    {"busybox", "", "", "", 0},
    {"fakeroot", "lsbi", "", "", 0},
};

static bool view_is_setting(const struct word *word) {
    const char *equal = strchr(word->text, '=');
    return equal && equal != word->text && word->text[0] != '-' &&
           !memchr(word->text, '/', (size_t)(equal - word->text));
}

/* Returns the first word after the options. *ret_looks: nothing is run. */
static const struct word *view_after_options(const struct wrapper *wrapper, const struct word *word, bool *ret_looks) {
    *ret_looks = false;
    for (; word && word->text[0] == '-' && word->text[1]; word = word->next) {
        const char *text = word->text;
        if (!strcmp(text, "--"))
            return word->next;
        bool next = text[1] == '-' && rows_choice(wrapper->longs, text);
        for (const char *p = text + 1; text[1] != '-' && *p; p++) {
            *ret_looks = *ret_looks || strchr(wrapper->looks, *p);
            if (!strchr(wrapper->values, *p))
                continue;
            next = !p[1];
            break;
        }
        if (next && !(word = word->next))
            return NULL;
    }
    return word;
}

bool view_inner(struct guard *, const struct guard_view *view, struct guard_view *ret_inner) {
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        const struct wrapper *wrapper = &wrappers[i];
        bool looks;
        if (strcmp(view->name, wrapper->name) != 0)
            continue;
        const struct word *word = view_after_options(wrapper, view->words->next, &looks);
        while (word && view_is_setting(word))
            word = word->next;
        for (unsigned skip = wrapper->skip; word && skip; skip--)
            word = word->next;
        if (!word || looks)
            return false;
        view_init(ret_inner, view->command, word);
        ret_inner->stdin_of = !strcmp(view->name, "xargs") ? view->words : view->stdin_of;
        return true;
    }
    return false;
}

/* Copies the words of the command, up to the one that ends it. */
bool view_found(struct guard *guard, const struct guard_view *view, const struct word **at,
                struct guard_view *ret_inner) {
    static const char *const actions[] = {"-exec", "-execdir", "-ok", "-okdir", NULL};
    const struct word *word = *at, *first = NULL, **last = &first;
    while (word && !text_list_has(actions, word->text))
        word = word->next;
    if (!word || strcmp(view->name, "find") != 0)
        return false;
    for (word = word->next; word && strcmp(word->text, ";") != 0 && strcmp(word->text, "+") != 0; word = word->next) {
        struct word *copy = arena_alloc(guard->arena, sizeof *copy);
        *copy = *word;
        copy->next = NULL;
        copy->inside = NULL; /* it is visited at its original place */
        *last = copy;
        last = &copy->next;
    }
    *at = word;
    if (!first)
        return word && view_found(guard, view, at, ret_inner);
    view_init(ret_inner, view->command, first);
    return true;
}

/* ---- shells and other interpreters ---- */

bool view_is_shell(const char *name) {
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", NULL};
    return text_list_has(shells, name);
}

static bool view_stdin_name(const char *text) {
    return !strcmp(text, "-") || !strcmp(text, "/dev/stdin") || !strcmp(text, "/dev/fd/0") ||
           !strcmp(text, "/proc/self/fd/0");
}

enum view_source view_shell(const struct guard_view *view, const struct word **ret_word) {
    static const char *const values[] = {"--rcfile", "--init-file", "-o", "+o", "-O", "+O", NULL};
    const struct word *word = view->words->next;
    bool text = false, input = false;
    for (; word && (word->text[0] == '-' || word->text[0] == '+') && word->text[1]; word = word->next) {
        if (!strcmp(word->text, "--")) {
            word = word->next;
            break;
        }
        if (word->text[0] == '-' && word->text[1] != '-') {
            text = text || strchr(word->text, 'c');
            input = input || strchr(word->text, 's');
        }
        if (text_list_has(values, word->text) && word->next)
            word = word->next;
    }
    *ret_word = word;
    if (text)
        return VIEW_TEXT;
    if (!word || input || view_stdin_name(word->text)) {
        *ret_word = NULL;
        return VIEW_STDIN;
    }
    return VIEW_FILE;
}

bool view_is_interpreter(const char *name) {
    static const char *const names[] = {"python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", NULL};
    char base[16] = "";
    size_t len = strlen(name);
    while (len && (isdigit((unsigned char)name[len - 1]) || name[len - 1] == '.'))
        len--;
    if (len < sizeof base)
        memcpy(base, name, len);
    return text_list_has(names, base);
}

enum view_source view_program(const struct guard_view *view) {
    const struct word *word = view->words->next;
    for (unsigned flags = 0; word && word->text[0] == '-' && word->text[1]; word = word->next, flags++) {
        const char *end = word->text + strlen(word->text) - 1;
        if (word->text[1] != '-' && flags <= 4 && strchr("cepr", *end))
            return VIEW_TEXT;
        if (word->text[1] != '-' && strchr("m", *end))
            return VIEW_FILE;
    }
    return !word || view_stdin_name(word->text) ? VIEW_STDIN : VIEW_FILE;
}

/* ---- text that is run again ---- */

static const char *view_joined(struct guard *guard, const struct word *first, bool *ret_hidden) {
    size_t len = 1;
    for (const struct word *word = first; word; word = word->next) {
        *ret_hidden = *ret_hidden || word->flags & WORD_EXPANDS;
        len += word->len + 1;
    }
    char *text = arena_alloc(guard->arena, len), *to = text;
    for (const struct word *word = first; word; word = word->next) {
        memcpy(to, word->text, word->len);
        to += word->len;
        *to++ = word->next ? ' ' : 0;
    }
    return first ? text : NULL;
}

/* Returns the value of a one-letter option, or of this long one. */
static const struct word *option_value(const struct word *word, char letter, const char *long_name) {
    for (; word; word = word->next) {
        const char *text = word->text;
        size_t len = strlen(text);
        if (!strcmp(text, long_name) || (text[0] == '-' && text[1] != '-' && len > 1 && text[len - 1] == letter))
            return word->next;
    }
    return NULL;
}

const char *view_text(struct guard *guard, const struct guard_view *view, bool *ret_hidden) {
    static const char *const users[] = {"su", "runuser", "script", "flock", NULL};
    const struct word *word = view->words->next, *value = NULL;
    *ret_hidden = false;
    if (!strcmp(view->name, "eval"))
        return view_joined(guard, word && !strcmp(word->text, "--") ? word->next : word, ret_hidden);
    if (!strcmp(view->name, "trap"))
        value = word && word->text[0] != '-' ? word : NULL;
    else if (!strcmp(view->name, "env"))
        value = option_value(word, 'S', "--split-string");
    else if (text_list_has(users, view->name))
        value = option_value(word, 'c', "--command");
    else if (!strcmp(view->name, "watch") || !strcmp(view->name, "parallel"))
        return NULL;
    if (value)
        *ret_hidden = value->flags & WORD_EXPANDS;
    return value ? value->text : NULL;
}
