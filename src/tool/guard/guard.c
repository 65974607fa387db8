/* The guard: visits every command of a text, including those inside substitutions and those that another command
 * runs, and keeps the worst finding. Called by the tools that run commands. Invariant: a text that cannot be parsed
 * is never taken for harmless, and the work is bounded whatever the text is. */

#include "base/base.h"
#include "tool/guard/guard.h"
#include "base/conceal.h"
#include "tool/guard/guard_view.h"
#include "tool/truncate.h"
#include "wire/spec.h"

const struct guard_policy guard_defaults = {.mode = GUARD_AUDIT, .absolute_paths = true, .parents = true};

void guard_find(struct guard *guard, enum guard_risk risk, const char *format, ...) {
    struct guard_verdict *verdict = guard->verdict;
    va_list args;
    if (risk <= verdict->risk)
        return;
    verdict->risk = risk;
    va_start(args, format);
    vsnprintf(verdict->reason, sizeof verdict->reason, format, args);
    va_end(args);
}

/* Returns a word for a reason, whole or not at all: filters for secrets would not recognize half of one. */
static const char *guard_shown(const char *text) {
    size_t len = strlen(text);
    bool plain = len <= 60 && text_utf8(text, len);
    for (const char *p = text; plain && *p; p++)
        plain = (unsigned char)*p >= ' ' && *p != 0x7f;
    return plain ? text : "...";
}

void guard_broken(struct guard *guard, enum guard_rule rule, const char *word) {
    struct guard_verdict *verdict = guard->verdict;
    const char *shown = guard_shown(word);
    if (verdict->risk == GUARD_REFUSE)
        return;
    if (rule == GUARD_RULE_ALLOW)
        guard_find(guard, GUARD_REFUSE, "command '%s' is not allowed", shown);
    else
        guard_find(guard, GUARD_REFUSE, "the path '%s' %s", shown,
                   rule == GUARD_RULE_PARENTS ? "contains '..'" : "is outside the allowed directories");
    verdict->rule = rule;
    snprintf(verdict->word, sizeof verdict->word, "%s", shown);
}

/* ---- the allow list ---- */

/* Shell builtins that start no program and do not change the meaning of a command. */
static const char *const free_words[] = {
    "cd",       "pushd",   "popd",    "dirs",  "pwd",   "export", "declare", "typeset", "local",   "readonly",
    "unset",    "test",    "[",       "true",  "false", ":",      "return",  "exit",    "break",   "shift",
    "continue", "wait",    "set",     "umask", "let",   "read",   "times",   "jobs",    "getopts", "exec",
    "type",     "builtin", "command", "eval",  "trap",  "ulimit", NULL};

/* Variables that determine which command is run, or that the shell runs. */
static bool guard_decides(const char *text) {
    static const char *const names[] = {"PATH",     "ENV", "BASH_ENV",  "BASH_CMDS", "BASH_ALIASES", "PROMPT_COMMAND",
                                        "PS0",      "PS4", "SHELLOPTS", "BASHOPTS",  "LD_PRELOAD",   "LD_LIBRARY_PATH",
                                        "LD_AUDIT", NULL};
    char name[24] = "";
    size_t len = strcspn(text, "=+[");
    if (len < sizeof name && text[len])
        memcpy(name, text, len);
    return text_list_has(names, name);
}

/* A substitution in an array index runs when the text is evaluated in arithmetic, quoted or not; ${x@P} runs what is in
 * x. */
static void guard_allow_word(struct guard *guard, const struct word *word, bool sets) {
    if (sets && !word->inside && (strstr(word->text, "[$(") || strstr(word->text, "[`")))
        guard_find(guard, GUARD_REFUSE, "an array's index hides a command");
    if (word->flags & WORD_EXPANDS && strstr(word->text, "@P}"))
        guard_find(guard, GUARD_REFUSE, "${...@P} hides a command");
    if (sets && guard_decides(word->text))
        guard_find(guard, GUARD_REFUSE, "setting %.*s hides which command is run", (int)strcspn(word->text, "=+["),
                   word->text);
}

/* A command that is run but does not appear in the text. */
static void guard_hides(struct guard *guard, const char *who) {
    if (guard->policy->allow)
        guard_find(guard, GUARD_REFUSE, "%.40s hides which command is run", who);
}

/* ---- visiting commands ---- */

static void guard_walk_script(struct guard *guard, const struct script *script);
static void guard_walk_view(struct guard *guard, const struct guard_view *view);

static void guard_unreadable(struct guard *guard, const char *why) {
    bool ruled = guard->policy->allow || !guard->policy->absolute_paths || !guard->policy->parents;
    guard_find(guard, ruled ? GUARD_REFUSE : GUARD_BLOCK, "the command cannot be parsed: %s", why);
}

static bool guard_deeper(struct guard *guard) {
    if (guard->depth < GUARD_DEPTH && guard->views < GUARD_VIEWS) {
        guard->depth++;
        guard->views++;
        return true;
    }
    guard_unreadable(guard, "it is nested too deep");
    return false;
}

static void guard_walk_text(struct guard *guard, const char *text, size_t len) {
    const struct script *script;
    struct err err = {0};
    if (!guard_deeper(guard))
        return;
    if (words_parse(guard->arena, text, len, &script, &err) < 0)
        guard_unreadable(guard, err.text);
    else
        guard_walk_script(guard, script);
    guard->depth--;
}

/* Visits the input of a shell: an argument, a here-document, a text. Script files are not read. */
static void guard_walk_shell(struct guard *guard, const struct guard_view *view) {
    const struct word *word;
    enum view_source source = view_shell(view, &word);
    if (source == VIEW_TEXT && word) {
        if (word->flags & WORD_EXPANDS)
            guard_hides(guard, view->name);
        guard_walk_text(guard, word->text, word->len);
    }
    if (source == VIEW_FILE && word->flags & WORD_EXPANDS && word->inside)
        guard_hides(guard, view->name); /* <(...) */
    if (source == VIEW_TEXT && (!word || (view->stdin_of && strstr(word->text, "{}"))))
        guard_hides(guard, view->name);
    if (source != VIEW_STDIN)
        return;
    if (view->command->source || view->stdin_of)
        guard_hides(guard, view->name);
    for (const struct redirect *redirect = view->command->redirects; redirect; redirect = redirect->next)
        if (redirect->kind == REDIRECT_BODY || redirect->kind == REDIRECT_TEXT) {
            if (redirect->target.flags & WORD_EXPANDS)
                guard_hides(guard, view->name);
            guard_walk_text(guard, redirect->target.text, redirect->target.len);
        }
}

/* Visits commands that this one runs through its arguments. */
static void guard_walk_inner(struct guard *guard, const struct guard_view *view) {
    struct guard_view inner;
    const struct word *at = view->words;
    bool hidden;
    const char *text = view_text(guard, view, &hidden);
    if (text && hidden)
        guard_hides(guard, view->name);
    if (text)
        guard_walk_text(guard, text, strlen(text));
    else if (view_inner(guard, view, &inner))
        guard_walk_view(guard, &inner);
    while (at && view_found(guard, view, &at, &inner))
        guard_walk_view(guard, &inner);
    if ((!strcmp(view->name, "source") || !strcmp(view->name, ".")) && view->words->next && view->words->next->inside)
        guard_hides(guard, view->name);
    if (view_is_shell(view->name))
        guard_walk_shell(guard, view);
}

static void guard_walk_view(struct guard *guard, const struct guard_view *view) {
    if (!guard_deeper(guard))
        return;
    const char *text = view->words->text;
    if (guard->policy->allow) {
        if (view->hidden)
            guard_find(guard, GUARD_REFUSE, "'%s' hides which command is run", guard_shown(text));
        else if (text_list_has(free_words, text) || !strcmp(text, "env"))
            for (const struct word *word = view->words->next; word; word = word->next)
                guard_allow_word(guard, word, true);
        if (!view->hidden && !text_list_has(free_words, text) && !text_list_has(guard->policy->allow, text) &&
            !list_find(guard->functions, word, !strcmp(word->text, text)))
            guard_broken(guard, GUARD_RULE_ALLOW, text);
    }
    risk_view(guard, view);
    guard_walk_inner(guard, view);
    guard->depth--;
}

static void guard_walk_words(struct guard *guard, const struct word *word) {
    for (; word; word = word->next)
        if (word->inside)
            guard_walk_script(guard, word->inside);
}

static void guard_walk_script(struct guard *guard, const struct script *script) {
    for (; script; script = script->next) {
        for (const struct command *command = script->commands; command; command = command->next)
            if (command->kind == COMMAND_FUNCTION) {
                struct word *copy = arena_alloc(guard->arena, sizeof *copy);
                *copy = *command->words;
                copy->next = guard->functions;
                guard->functions = copy;
            }
        for (const struct command *command = script->commands; command; command = command->next) {
            struct guard_view view;
            risk_command(guard, command);
            if (guard->policy->allow) {
                for (const struct word *word = command->assigns; word; word = word->next)
                    guard_allow_word(guard, word, true);
                for (const struct word *word = command->words; word; word = word->next)
                    guard_allow_word(guard, word, false);
            }
            path_judge(guard, command);
            guard_walk_words(guard, command->assigns);
            guard_walk_words(guard, command->words);
            for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next)
                if (redirect->target.inside)
                    guard_walk_script(guard, redirect->target.inside);
            if (command->kind == COMMAND_SIMPLE && command->words) {
                view_init(&view, command, command->words);
                guard_walk_view(guard, &view);
            }
        }
    }
}

void guard_judge(const struct guard_policy *policy, struct arena *arena, const char *command, size_t len,
                 const char *workspace, struct guard_verdict *ret_verdict) {
    struct guard guard = {.policy = policy, .workspace = workspace, .arena = arena, .verdict = ret_verdict};
    *ret_verdict = (struct guard_verdict){.risk = GUARD_PASS};
    if (policy->mode == GUARD_OFF)
        return;
    if (strspn(command, " \t\r\n") == len)
        guard_find(&guard, GUARD_BLOCK, "empty command");
    if (len > GUARD_CHARS && truncate_chars((const uint8_t *)command, len) > GUARD_CHARS)
        guard_find(&guard, GUARD_BLOCK, "command too long");
    if (memchr(command, 0, len))
        guard_find(&guard, GUARD_REFUSE, "null byte detected");
    else
        guard_walk_text(&guard, command, len);
}

/* ---- for tools ---- */

#define GUARD_SHOWN 200 /* characters of a command in a warning */

static const char *guard_warning(struct tool_call *call, const struct guard_verdict *verdict, const char *command) {
    size_t len = strlen(command), shown = truncate_head((const uint8_t *)command, len, GUARD_SHOWN);
    const char *dots = shown < len ? "..." : "";
    if (verdict->risk == GUARD_WARN)
        return arena_printf(
            call->arena,
            "\n\n⚠️ Warning: `%.*s%s` is a medium-risk command that may modify the runtime environment.",
            (int)shown, command, dots);
    return arena_printf(call->arena, "\n\n⚠️ Warning: `%.*s%s` is a high-risk command: %s.", (int)shown, command,
                        dots, verdict->reason);
}

bool guard_admits(struct tool_call *call, const char *command) {
    static const char *const words[] = {"pass", "warn", "block", "block"};
    const struct guard_policy *policy = call->settings->guard;
    struct guard_verdict verdict;
    if (!policy || policy->mode == GUARD_OFF)
        return true;
    const char *workspace = call->box ? box_workspace(call->box) : WORKSPACE_PATH;
    guard_judge(policy, call->arena, command, strlen(command), workspace, &verdict);
    if (verdict.risk == GUARD_PASS)
        return true;
    bool blocked = verdict.risk == GUARD_REFUSE || (verdict.risk == GUARD_BLOCK && policy->mode == GUARD_BLOCKS);
    if (call->conceal) {
        autobuf out = buf_max(4 * sizeof verdict.reason);
        conceal_text(call->conceal, verdict.reason, strlen(verdict.reason), &out);
        snprintf(verdict.reason, sizeof verdict.reason, "%s", out.len ? buf_cstr(&out) : "");
    }
    call->verdict =
        arena_printf(call->arena, "guard=%s%s: %s", words[verdict.risk], blocked ? "" : ", run", verdict.reason);
    if (blocked) {
        call->result.is_error = true;
        tool_say(call, "Command blocked: %s. Please use a safer alternative approach.", verdict.reason);
    } else if (policy->mode != GUARD_AUDIT)
        call->warning = guard_warning(call, &verdict, command);
    return !blocked;
}

void guard_warn(struct tool_call *call) {
    if (call->warning)
        tool_put(call, call->warning, strlen(call->warning));
    call->warning = NULL;
}
