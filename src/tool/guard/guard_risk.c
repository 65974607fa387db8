/* Which commands are a high or a medium risk. Called by guard.c for every command it finds. Invariant: rules look at
 * words and redirections, never at the whole text, so that a name inside a text is not taken for a command. */
#include "base/base.h"
#include "tool/guard/guard_view.h"

/* ---- programs in substitutions ---- */

static bool risk_is_risky(const char *name) {
    static const char *const names[] = {"curl", "wget", "bash", "sh", "ruby", "perl", "base64", NULL};
    return text_list_has(names, name) || (view_is_interpreter(name) && !strncmp(name, "python", 6));
}

/* Returns the first program in it whose output must not be run, or NULL. */
static const char *risk_risky_script(struct guard *guard, const struct script *script, unsigned depth);

static const char *risk_risky_word(struct guard *guard, const struct word *word, unsigned depth) {
    return word->inside ? risk_risky_script(guard, word->inside, depth) : NULL;
}

static const char *risk_risky_command(struct guard *guard, const struct command *command, unsigned depth) {
    struct guard_view view, inner;
    const char *name;
    if (command->kind != COMMAND_SIMPLE || !command->words)
        return NULL;
    view_init(&view, command, command->words);
    for (unsigned i = 0; !risk_is_risky(view.name) && i < GUARD_DEPTH && view_inner(guard, &view, &inner); i++)
        view = inner;
    if (risk_is_risky(view.name))
        return view.name;
    for (const struct word *word = command->words; word; word = word->next)
        if ((name = risk_risky_word(guard, word, depth)))
            return name;
    return NULL;
}

static const char *risk_risky_script(struct guard *guard, const struct script *script, unsigned depth) {
    const char *name;
    for (; script && depth < WORDS_DEPTH; script = script->next)
        for (const struct command *command = script->commands; command; command = command->next)
            if ((name = risk_risky_command(guard, command, depth + 1)))
                return name;
    return NULL;
}

/* The same for these words, and for input by << and <<<. */
static const char *risk_risky_argument(struct guard *guard, const struct guard_view *view, bool words) {
    const char *name = NULL;
    for (const struct word *word = view->words->next; words && word && !name; word = word->next)
        name = risk_risky_word(guard, word, 0);
    for (const struct redirect *redirect = view->command->redirects; redirect && !name; redirect = redirect->next)
        if (redirect->kind != REDIRECT_OUT)
            name = risk_risky_word(guard, &redirect->target, 0);
    return name;
}

/* The same for piped input. */
static const char *risk_risky_source(struct guard *guard, const struct guard_view *view) {
    const char *name = NULL;
    const struct command *command = view->stdin_of ? NULL : view->command->source;
    for (; command && command != view->command && !name; command = command->next)
        name = risk_risky_command(guard, command, 0);
    return name;
}

/* ---- places ---- */

/* Normalizes a path: leading ~, $HOME and ${HOME} become "~", absolute paths are folded, others stay. */
static const char *risk_place_of(struct guard *guard, const struct word *word) {
    static const char *const homes[] = {"$HOME", "${HOME}"};
    for (size_t i = 0; word->flags & WORD_EXPANDS && i < sizeof homes / sizeof *homes; i++) {
        size_t len = strlen(homes[i]);
        if (!strncmp(word->text, homes[i], len) && (!word->text[len] || word->text[len] == '/'))
            return arena_printf(guard->arena, "~%s", word->text + len);
    }
    if (word->text[0] == '~' && !(word->flags & WORD_TILDE))
        return "";
    return word->text[0] == '/' ? path_folded(guard->arena, word->text) : word->text;
}

static bool risk_is_everything(struct guard *guard, const struct word *word) {
    static const char *const places[] = {"/",     "/*",      "/.*",   "~",       "~/",       "~/*", "~/.*",
                                         "/home", "/home/*", "/root", "/root/*", "/root/.*", NULL};
    const char *place = risk_place_of(guard, word);
    return text_list_has(places, place) && (!strchr(place, '*') || word->flags & WORD_GLOBS);
}

static bool risk_begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

static bool risk_is_start_file(const char *place) {
    static const char *const names[] = {".bashrc",   ".profile",    ".zshrc",  ".bash_profile",
                                        ".zprofile", ".bash_login", ".zshenv", NULL};
    const char *slash = strrchr(place, '/');
    if (!slash || !text_list_has(names, slash + 1))
        return false;
    size_t len = (size_t)(slash - place);
    return (len == 1 && *place == '~') || (len == 5 && risk_begins(place, "/root")) ||
           (risk_begins(place, "/home/") && !memchr(place + 6, '/', len - 6));
}

static void risk_written(struct guard *guard, const struct word *target) {
    static const char *const programs[] = {"/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/bin/", "/sbin/", NULL};
    const char *place = risk_place_of(guard, target);
    if (risk_begins(place, "/etc/"))
        guard_find(guard, GUARD_BLOCK, "writing into /etc/");
    for (size_t i = 0; programs[i]; i++)
        if (risk_begins(place, programs[i]))
            guard_find(guard, GUARD_BLOCK, "writing into %s", programs[i]);
    if (risk_is_start_file(place))
        guard_find(guard, GUARD_BLOCK, "writing into a startup file of a shell");
}

/* Files that contain secrets, whichever command reads them. */
static void risk_read_of(struct guard *guard, const struct word *word) {
    const char *place = risk_place_of(guard, word), *end;
    if (!strcmp(place, "/etc/shadow") || !strcmp(place, "/etc/gshadow"))
        guard_find(guard, GUARD_BLOCK, "reading %s", place);
    if (risk_begins(place, "/proc/") && (end = strchr(place + 6, '/')) && !strcmp(end, "/environ"))
        guard_find(guard, GUARD_BLOCK, "reading the environment of a process");
}

/* ---- rules for each command of the text ---- */

static void risk_set_variable(struct guard *guard, const char *text) {
    if (risk_begins(text, "LD_PRELOAD=") || risk_begins(text, "LD_LIBRARY_PATH=") ||
        risk_begins(text, "LD_PRELOAD+=") || risk_begins(text, "LD_LIBRARY_PATH+="))
        guard_find(guard, GUARD_BLOCK, "setting %.*s", (int)strcspn(text, "=+"), text);
    else if (risk_begins(text, "PATH=") || risk_begins(text, "PATH+="))
        guard_find(guard, GUARD_WARN, "setting PATH");
}

void risk_command(struct guard *guard, const struct command *command) {

    /* f() { f | f & }, or an endless loop whose last command runs in the background. */
    const struct command *next = command->next;
    bool itself = command->function && command->words && !strcmp(command->words->text, command->function);
    if (command->kind == COMMAND_SIMPLE && itself && command->background && (command->source || command->pipes))
        guard_find(guard, GUARD_BLOCK, "a fork bomb");
    if (command->kind == COMMAND_SIMPLE && command->endless && command->background && (!next || !next->endless))
        guard_find(guard, GUARD_BLOCK, "a fork bomb");
    for (const struct word *word = command->assigns; word; word = word->next)
        risk_set_variable(guard, word->text);
    for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next) {
        const struct word *target = &redirect->target;
        if (redirect->kind != REDIRECT_IN && redirect->kind != REDIRECT_OUT)
            continue;
        if (redirect->kind == REDIRECT_OUT)
            risk_written(guard, target);
        risk_read_of(guard, target);
        if (risk_begins(target->text, "/dev/tcp/") || risk_begins(target->text, "/dev/udp/"))
            guard_find(guard, GUARD_BLOCK, "a connection through %.9s", target->text);
    }
}

/* ---- rules for each program that is run ---- */

static bool risk_has_option(const struct word *word, const char *letters, const char *long_name) {
    for (; word && strcmp(word->text, "--") != 0; word = word->next) {
        const char *text = word->text;
        if (text[0] != '-' || !text[1])
            continue;
        if (text[1] == '-' ? strlen(text) > 4 && risk_begins(long_name, text) : text[strcspn(text, letters)] != 0)
            return true;
    }
    return false;
}

static const struct word *operand(const struct word *word, bool *dashes) {
    while (word && !*dashes && word->text[0] == '-' && word->text[1]) {
        *dashes = !strcmp(word->text, "--");
        word = word->next;
    }
    return word;
}

static void risk_rm(struct guard *guard, const struct guard_view *view) {
    bool dashes = false;
    if (!risk_has_option(view->words->next, "rR", "--recursive"))
        return;
    for (const struct word *word = operand(view->words->next, &dashes); word; word = operand(word->next, &dashes))
        if (risk_is_everything(guard, word))
            guard_find(guard, GUARD_BLOCK, "recursive removal of '%s'", word->text);
}

/* find / -delete without any filter. */
static void risk_find(struct guard *guard, const struct guard_view *view) {
    static const char *const plain[] = {"-delete", "-depth", "-xdev", "-mount", "-print", NULL};
    const struct word *all = NULL, *word = view->words->next;
    bool chooses = false, deletes = false;
    for (; word && word->text[0] != '-'; word = word->next)
        all = all ? all : risk_is_everything(guard, word) ? word : NULL;
    for (; word; word = word->next) {
        deletes = deletes || !strcmp(word->text, "-delete");
        chooses = chooses || !text_list_has(plain, word->text);
    }
    if (all && deletes && !chooses)
        guard_find(guard, GUARD_BLOCK, "recursive removal of '%s'", all->text);
}

static void risk_dd(struct guard *guard, const struct guard_view *view) {
    for (const struct word *word = view->words->next; word; word = word->next)
        if (risk_begins(word->text, "if="))
            guard_find(guard, GUARD_BLOCK, "a raw copy with dd");
}

static void risk_tee(struct guard *guard, const struct guard_view *view) {
    for (const struct word *word = view->words->next; word; word = word->next)
        risk_written(guard, word);
}

static void risk_base64(struct guard *guard, const struct guard_view *view) {
    if (view->command->pipes && risk_has_option(view->words->next, "dD", "--decode"))
        guard_find(guard, GUARD_BLOCK, "decoded base64 into a pipe");
}

static void risk_eval(struct guard *guard, const struct guard_view *view) {
    const char *name = risk_risky_argument(guard, view, true);
    if (name)
        guard_find(guard, GUARD_BLOCK, "running what %.40s prints", name);
}

static void risk_variables(struct guard *guard, const struct guard_view *view) {
    for (const struct word *word = view->words->next; word; word = word->next)
        risk_set_variable(guard, word->text);
}

static void risk_sudo(struct guard *guard, const struct guard_view *view) {
    guard_find(guard, GUARD_WARN, "%s", view->name);
    risk_variables(guard, view);
}

static void risk_chmod(struct guard *guard, const struct guard_view *view) {
    static const char *const modes[] = {"777", "0777", "a+rwx", "ugo+rwx", "a=rwx", "+rwx", NULL};
    for (const struct word *word = view->words->next; word; word = word->next)
        if (text_list_has(modes, word->text))
            guard_find(guard, GUARD_WARN, "chmod %s", word->text);
}

/* pip install, apt -y install, python3 -m pip install */
static void risk_install(struct guard *guard, const struct guard_view *view) {
    bool dashes = false;
    const struct word *word = operand(view->words->next, &dashes);
    if (word && !strcmp(word->text, "install"))
        guard_find(guard, GUARD_WARN, "%.40s install", view->name);
}

static const struct {
    const char *names; /* separated by '|' */
    void (*judge)(struct guard *guard, const struct guard_view *view);
} risks[] = {
    {"rm", risk_rm},
    {"find", risk_find},
    {"dd", risk_dd},
    {"tee", risk_tee},
    {"base64", risk_base64},
    {"eval|source|.", risk_eval},
    {"env|export|declare|typeset|readonly|local", risk_variables},
    {"sudo|su|doas", risk_sudo},
    {"chmod", risk_chmod},
    {"pip|pip3|apt|apt-get", risk_install},
};

/* Interpreters whose program comes from a pipe or an argument. */
static void risk_program(struct guard *guard, const struct guard_view *view) {
    const struct word *word = NULL;
    bool shell = view_is_shell(view->name);
    enum view_source source = shell ? view_shell(view, &word) : view_program(view);
    const char *name = risk_risky_argument(guard, view, shell || source == VIEW_TEXT);
    if (name)
        guard_find(guard, GUARD_BLOCK, "running what %.40s prints", name);
    if (shell && source == VIEW_STDIN && view->command->source && !view->stdin_of)
        guard_find(guard, GUARD_BLOCK, "a pipe into %.40s", view->name);
    if (source == VIEW_STDIN && (name = risk_risky_source(guard, view)))
        guard_find(guard, GUARD_BLOCK, "running what %.40s prints", name);
    if (shell && source == VIEW_TEXT && view->stdin_of && (!word || !strcmp(word->text, "{}")))
        guard_find(guard, GUARD_BLOCK, "running what is piped in");
    word = view->words->next; /* python3 -m pip install */
    if (word && !strcmp(word->text, "-m") && word->next && !strcmp(word->next->text, "pip")) {
        struct guard_view pip;
        view_init(&pip, view->command, word->next);
        risk_install(guard, &pip);
    }
}

void risk_view(struct guard *guard, const struct guard_view *view) {
    static const char *const quiet[] = {"echo", "printf", "ls", "stat", "test", "[", "file", NULL};
    const char *name = risk_risky_word(guard, view->words, 0);
    if (name)
        guard_find(guard, GUARD_BLOCK, "running what %.40s prints", name);
    if (!strcmp(view->name, "mkfs") || risk_begins(view->name, "mkfs."))
        guard_find(guard, GUARD_BLOCK, "making a file system with %.40s", view->name);
    for (const struct word *word = view->words->next; word && !text_list_has(quiet, view->name); word = word->next)
        risk_read_of(guard, word);
    for (size_t i = 0; i < sizeof risks / sizeof *risks; i++)
        if (rows_choice(risks[i].names, view->name))
            risks[i].judge(guard, view);
    if (view_is_shell(view->name) || view_is_interpreter(view->name))
        risk_program(guard, view);
}
