/* Lists, pipelines and commands of a shell. Called by guard. Invariant: every command that bash would find in the text
 * is in the result, including those of conditions, loops, functions and groups, as one flat list: the guard does not
 * care in which branch a command is. */
#include "tool/guard/words.h"

#include <ctype.h>
#include <string.h>

#include "tool/guard/words_scan.h"

static void words_scan_command(struct scan *scan);
static void words_scan_coproc(struct scan *scan);

static struct command *words_scan_add(struct scan *scan, enum command_kind kind) {
    struct command *command = arena_alloc(scan->arena, sizeof *command);
    *command =
        (struct command){.kind = kind, .source = scan->source, .function = scan->function, .endless = scan->endless};
    *scan->tail = command;
    scan->tail = (struct command **)&command->next;
    return command;
}

/* ---- redirections ---- */

/* Returns whether a redirection comes next, perhaps after digits or {name}, whose length is *ret_skip. */
static bool words_redirect_next(struct scan *scan, size_t *ret_skip) {
    size_t at = scan->at;
    int c = scan_peek(scan);
    bool found;
    if (c == '{') {
        scan->at++;
        while ((c = scan_peek(scan)) >= 0 && (isalnum(c) || c == '_' || c == '[' || c == ']'))
            scan->at++;
        scan->at += c == '}';
        found = c == '}' && (scan_peek(scan) == '<' || scan_peek(scan) == '>');
    } else {
        while ((c = scan_peek(scan)) >= 0 && isdigit(c))
            scan->at++;
        found = c == '<' || c == '>' || (scan->at == at && scan_next_is(scan, "&>"));
    }
    *ret_skip = scan->at - at;
    if (scan_next_is(scan, "<(") || scan_next_is(scan, ">("))
        found = false; /* a substitution */
    scan->at = at;
    return found;
}

static bool words_descriptor(const struct word *word) {
    size_t digits = strspn(word->text, "0123456789");
    return !(word->flags & WORD_QUOTED) && (!word->text[digits] || !strcmp(word->text + digits, "-"));
}

static void words_scan_redirect(struct scan *scan, size_t skip, const struct redirect ***last) {
    static const struct {
        const char *sign;
        enum redirect_kind kind;
    } signs[] = {{"&>>", REDIRECT_OUT}, {"&>", REDIRECT_OUT}, {"<<<", REDIRECT_TEXT}, {"<<-", REDIRECT_BODY},
                 {"<<", REDIRECT_BODY}, {"<>", REDIRECT_OUT}, {"<&", REDIRECT_DUP},   {"<", REDIRECT_IN},
                 {">>", REDIRECT_OUT},  {">|", REDIRECT_OUT}, {">&", REDIRECT_DUP},   {">", REDIRECT_OUT}};
    struct redirect *redirect = arena_alloc(scan->arena, sizeof *redirect);
    size_t i = 0;
    scan->at += skip;
    while (i < sizeof signs / sizeof *signs && !scan_take(scan, signs[i].sign))
        i++;
    if (i == sizeof signs / sizeof *signs) {
        scan_fail(scan, "a syntax error");
        return;
    }
    redirect->kind = signs[i].kind;
    redirect->target.text = "";
    **last = redirect;
    *last = &redirect->next;
    if (redirect->kind == REDIRECT_BODY) {
        scan_body_begin(scan, redirect, signs[i].sign[2] == '-');
        return;
    }
    scan_blanks(scan);
    scan_word(scan, SCAN_ARGUMENT, &redirect->target);
    if (signs[i].kind == REDIRECT_DUP && signs[i].sign[0] == '>' && !words_descriptor(&redirect->target))
        redirect->kind = REDIRECT_OUT;
}

/* Redirections after a group become a command without words. */
static void words_scan_group_redirects(struct scan *scan) {
    const struct redirect *first = NULL, **last = &first;
    size_t skip;
    scan_blanks(scan);
    while (words_redirect_next(scan, &skip)) {
        words_scan_redirect(scan, skip, &last);
        scan_blanks(scan);
    }
    if (first)
        words_scan_add(scan, COMMAND_VALUES)->redirects = first;
}

/* ---- simple commands ---- */

/* NAME=, NAME+= or NAME[...]=, not quoted except between the brackets. */
static bool words_is_assignment(const struct word *word) {
    const char *text = word->text;
    size_t i = 0;
    while (i < word->plain && (isalnum((unsigned char)text[i]) || text[i] == '_'))
        i++;
    if (!i || isdigit((unsigned char)text[0]) || i == word->plain)
        return false;
    if (text[i] == '[')
        return strstr(text + i, "]=") || strstr(text + i, "]+=");
    i += text[i] == '+';
    return i < word->plain && text[i] == '=';
}

static void word_add(struct scan *scan, const struct word ***last, const struct word *word) {
    struct word *copy = arena_alloc(scan->arena, sizeof *copy);
    *copy = *word;
    **last = copy;
    *last = (const struct word **)&copy->next;
}

static void words_scan_function_body(struct scan *scan, const char *name);

static void words_scan_simple(struct scan *scan) {
    struct command *command = words_scan_add(scan, COMMAND_SIMPLE);
    const struct word **words = &command->words, **assigns = &command->assigns;
    const struct redirect **redirects = &command->redirects;
    bool some = false;
    for (;; some = true) {
        struct word word;
        size_t skip;
        scan_blanks(scan);
        if (words_redirect_next(scan, &skip)) {
            words_scan_redirect(scan, skip, &redirects);
            continue;
        }
        if (scan_peek(scan) == '(' && command->words && !command->words->next && !command->assigns) {
            scan_take(scan, "(");
            scan_blanks(scan);
            if (!scan_take(scan, ")"))
                scan_fail(scan, "a syntax error at (");
            command->kind = COMMAND_FUNCTION;
            words_scan_function_body(scan, command->words->text);
            return;
        }
        if (scan_meta(scan_peek(scan)) && !scan_next_is(scan, "<(") && !scan_next_is(scan, ">("))
            break;
        scan_word(scan, command->words ? SCAN_ARGUMENT : SCAN_FIRST, &word);
        bool assigned = !command->words && words_is_assignment(&word);
        word_add(scan, assigned ? &assigns : &words, &word);
    }
    if (!some)
        scan_fail(scan, "a syntax error");
}

/* ---- compound commands ---- */

static bool words_take_keyword(struct scan *scan, const char *keyword) {
    char plain[10];
    scan_blanks(scan);
    scan_plain(scan, plain);
    if (strcmp(plain, keyword) != 0)
        return false;
    return scan_take(scan, keyword);
}

static void words_expect_keyword(struct scan *scan, const char *keyword, const char *error) {
    if (!words_take_keyword(scan, keyword))
        scan_fail(scan, error);
}

static void words_scan_newlines(struct scan *scan) {
    for (scan_blanks(scan); scan_peek(scan) == '\n'; scan_blanks(scan))
        scan_newline(scan);
}

static void words_scan_if(struct scan *scan) {
    do {
        scan_list(scan);
        words_expect_keyword(scan, "then", "if without then");
        scan_list(scan);
    } while (words_take_keyword(scan, "elif"));
    if (words_take_keyword(scan, "else"))
        scan_list(scan);
    words_expect_keyword(scan, "fi", "if without fi");
}

static void words_scan_do(struct scan *scan) {
    words_expect_keyword(scan, "do", "a loop without do");
    scan_list(scan);
    words_expect_keyword(scan, "done", "a loop without done");
}

/* Returns whether the single command from here on always fails (yes: always succeeds). */
static bool words_is_constant(const struct command *command, bool yes) {
    static const char *const words[2][2] = {{"false", "false"}, {"true", ":"}};
    const struct word *word = command ? command->words : NULL;
    if (!word || command->next)
        return false;
    if (command->kind == COMMAND_VALUES)
        return yes && !strcmp(word->text, "1");
    return !strcmp(word->text, words[yes][0]) || !strcmp(word->text, words[yes][1]) ||
           (yes && (!strcmp(word->text, "[") || !strcmp(word->text, "test")) && word->next &&
            !strcmp(word->next->text, "1"));
}

static void words_scan_while(struct scan *scan, bool until) {
    struct command **condition = scan->tail;
    bool before = scan->endless;
    scan_list(scan);
    scan->endless = before || words_is_constant(*condition, !until);
    words_scan_do(scan);
    scan->endless = before;
}

/* for and select: the words after `in` are values, not commands. */
static void words_scan_for(struct scan *scan) {
    struct word word;
    bool before = scan->endless;
    scan_blanks(scan);
    if (scan_next_is(scan, "((")) {
        scan_take(scan, "((");
        struct command *command = words_scan_add(scan, COMMAND_VALUES);
        const struct word **words = &command->words;
        scan_arithmetic(scan, &word);
        word_add(scan, &words, &word);
        const char *end = strrchr(word.text, ';'), *middle = strchr(word.text, ';');
        scan->endless = before || (middle && end != middle && middle + 1 + strspn(middle + 1, " \t") == end);
    } else {
        struct command *command = words_scan_add(scan, COMMAND_VALUES);
        const struct word **words = &command->words;
        scan_word(scan, SCAN_ARGUMENT, &word); /* the loop variable */
        words_scan_newlines(scan);
        if (words_take_keyword(scan, "in"))
            for (scan_blanks(scan); !scan->error; scan_blanks(scan)) {
                if (scan_meta(scan_peek(scan)) && !scan_next_is(scan, "<(") && !scan_next_is(scan, ">("))
                    break;
                scan_word(scan, SCAN_ARGUMENT, &word);
                word_add(scan, &words, &word);
            }
    }
    scan_blanks(scan);
    if (scan_peek(scan) == ';')
        scan_take(scan, ";");
    words_scan_newlines(scan);
    if (words_take_keyword(scan, "{")) {
        scan_list(scan);
        words_expect_keyword(scan, "}", "unclosed {");
    } else
        words_scan_do(scan);
    scan->endless = before;
}

static void words_scan_case(struct scan *scan) {
    struct command *command = words_scan_add(scan, COMMAND_VALUES);
    const struct word **words = &command->words;
    struct word word;
    scan_blanks(scan);
    scan_word(scan, SCAN_ARGUMENT, &word);
    word_add(scan, &words, &word);
    words_scan_newlines(scan);
    words_expect_keyword(scan, "in", "case without in");
    for (;;) {
        words_scan_newlines(scan);
        if (scan->error || words_take_keyword(scan, "esac"))
            return;
        if (scan_peek(scan) == '(')
            scan_take(scan, "(");
        do {
            struct command *pattern = words_scan_add(scan, COMMAND_VALUES); /* only for substitutions inside */
            scan_blanks(scan);
            scan_word(scan, SCAN_PATTERN, &word);
            if (word.inside)
                pattern->words = arena_alloc(scan->arena, sizeof word), *(struct word *)pattern->words = word;
            scan_blanks(scan);
        } while (!scan->error && scan_take(scan, "|"));
        if (!scan_take(scan, ")"))
            scan_fail(scan, "case without )");
        scan_list(scan);
        scan_blanks(scan);
        if (!scan_take(scan, ";;&") && !scan_take(scan, ";;") && !scan_take(scan, ";&")) {
            words_expect_keyword(scan, "esac", "case without esac");
            return;
        }
    }
}

static void words_scan_test(struct scan *scan) {
    struct command *command = words_scan_add(scan, COMMAND_TEST);
    const struct word **words = &command->words;
    char plain[10];
    for (;;) {
        struct word word;
        words_scan_newlines(scan);
        scan_plain(scan, plain);
        if (scan->error || (!strcmp(plain, "]]") && scan_take(scan, "]]")))
            return;
        if (scan_peek(scan) < 0 || scan_peek(scan) == ';') {
            scan_fail(scan, "unclosed [[");
            return;
        }
        scan_word(scan, SCAN_TEST, &word);
        word_add(scan, &words, &word);
    }
}

static void words_scan_function_body(struct scan *scan, const char *name) {
    const char *before = scan->function;
    scan->function = name;
    words_scan_newlines(scan);
    words_scan_command(scan);
    scan->function = before;
}

static void words_scan_function(struct scan *scan) {
    struct command *command = words_scan_add(scan, COMMAND_FUNCTION);
    const struct word **words = &command->words;
    struct word word;
    scan_blanks(scan);
    scan_word(scan, SCAN_ARGUMENT, &word);
    word_add(scan, &words, &word);
    scan_blanks(scan);
    if (scan_take(scan, "(")) {
        scan_blanks(scan);
        if (!scan_take(scan, ")"))
            scan_fail(scan, "a syntax error at (");
    }
    words_scan_function_body(scan, word.text);
}

static void words_scan_group(struct scan *scan) {
    scan_list(scan);
    words_expect_keyword(scan, "}", "unclosed {");
}

static void words_scan_while_true(struct scan *scan) {
    words_scan_while(scan, false);
}

static void words_scan_until(struct scan *scan) {
    words_scan_while(scan, true);
}

static const struct {
    const char *name;
    void (*run)(struct scan *scan);
    bool compound; /* redirections may follow */
} keywords[] = {
    {"{", words_scan_group, true},        {"if", words_scan_if, true},   {"while", words_scan_while_true, true},
    {"until", words_scan_until, true},    {"for", words_scan_for, true}, {"select", words_scan_for, true},
    {"case", words_scan_case, true},      {"[[", words_scan_test, true}, {"function", words_scan_function, false},
    {"coproc", words_scan_coproc, false},
};

static bool words_is_keyword(const char *plain) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(plain, keywords[i].name))
            return true;
    return false;
}

/* coproc [NAME] GROUP, or coproc COMMAND. */
static void words_scan_coproc(struct scan *scan) {
    char plain[10], then[10];
    struct word name;
    scan_blanks(scan);
    size_t at = scan->at;
    scan_plain(scan, plain);
    if (!words_is_keyword(plain) && !scan_meta(scan_peek(scan))) {
        scan_word(scan, SCAN_FIRST, &name);
        scan_blanks(scan);
        scan_plain(scan, then);
        if (!words_is_keyword(then) && scan_peek(scan) != '(')
            scan->at = at;
    }
    words_scan_command(scan);
}

static void words_scan_command(struct scan *scan) {
    char plain[10];
    if (scan->depth >= WORDS_DEPTH) {
        scan_fail(scan, "it is nested too deep");
        return;
    }
    scan->depth++;
    scan_blanks(scan);
    scan_plain(scan, plain);
    size_t i = 0;
    while (i < sizeof keywords / sizeof *keywords && strcmp(plain, keywords[i].name) != 0)
        i++;
    if (i < sizeof keywords / sizeof *keywords) {
        scan_take(scan, plain);
        keywords[i].run(scan);
        if (keywords[i].compound)
            words_scan_group_redirects(scan);
    } else if (scan_peek(scan) == '(') {
        if (scan_next_is(scan, "((") && scan_is_arithmetic(scan)) {
            struct command *command = words_scan_add(scan, COMMAND_VALUES);
            const struct word **words = &command->words;
            struct word word;
            scan_take(scan, "((");
            scan_arithmetic(scan, &word);
            size_t len = strcspn(word.text, ")"); /* words_is_constant needs only the expression */
            if (len < word.len && word.text[len + 1] == ')' && !word.text[len + 2])
                word.text = arena_copy(scan->arena, word.text, len), word.len = len;
            word_add(scan, &words, &word);
        } else {
            scan_take(scan, "(");
            scan_list(scan);
            if (!scan_take(scan, ")"))
                scan_fail(scan, "unclosed (");
        }
        words_scan_group_redirects(scan);
    } else
        words_scan_simple(scan);
    scan->depth--;
}

/* ---- lists ---- */

/* Takes ! and time, which are keywords only before a pipeline. Returns true if no pipeline follows. */
static bool words_scan_lead(struct scan *scan) {
    bool timed = false;
    for (;;) {
        if (words_take_keyword(scan, "time"))
            timed = true;
        else if (!words_take_keyword(scan, "!") &&
                 !(timed && (words_take_keyword(scan, "-p") || words_take_keyword(scan, "--"))))
            break;
    }
    scan_blanks(scan);
    return timed && (scan_peek(scan) < 0 || strchr("\n;&)", scan_peek(scan)));
}

static void words_scan_pipeline(struct scan *scan) {
    struct command **first = scan->tail;
    const struct command *source = scan->source;
    if (words_scan_lead(scan))
        return;
    for (;;) {
        struct command **stage = scan->tail;
        words_scan_command(scan);
        scan_blanks(scan);
        if (scan->error || scan_next_is(scan, "||") || !(scan_take(scan, "|&") || scan_take(scan, "|")))
            break;
        for (struct command *command = *stage; command; command = (struct command *)command->next)
            command->pipes = true;
        scan->source = *first;
        words_scan_newlines(scan);
    }
    scan->source = source;
}

static bool words_ends_list(struct scan *scan) {
    static const char *const words[] = {"then", "do", "done", "fi", "else", "elif", "esac", "}"};
    char plain[10];
    int c = scan_peek(scan);
    if (c < 0 || c == ')' || scan_next_is(scan, ";;") || scan_next_is(scan, ";&"))
        return true;
    scan_plain(scan, plain);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(plain, words[i]))
            return true;
    return false;
}

void scan_list(struct scan *scan) {
    for (words_scan_newlines(scan); !words_ends_list(scan); words_scan_newlines(scan)) {
        struct command **first = scan->tail;
        words_scan_pipeline(scan);
        while (scan_take(scan, "&&") || scan_take(scan, "||")) {
            words_scan_newlines(scan);
            words_scan_pipeline(scan);
        }
        scan_blanks(scan);
        int c = scan_peek(scan);
        if (c == '&') {
            scan_take(scan, "&");
            for (struct command *command = *first; command; command = (struct command *)command->next)
                command->background = true;
        } else if (c == ';' && !scan_next_is(scan, ";;") && !scan_next_is(scan, ";&"))
            scan_take(scan, ";");
        else if (c != '\n' && c >= 0 && !words_ends_list(scan))
            scan_fail(scan, "a syntax error");
    }
}

int words_parse(struct arena *arena, const char *text, size_t len, const struct script **ret_script, struct err *err) {
    size_t work = WORDS_WORK;
    struct script *script = arena_alloc(arena, sizeof *script);
    struct scan scan = {
        .arena = arena, .text = text, .len = len, .work = &work, .tail = (struct command **)&script->commands};
    if (len > WORDS_BYTES)
        return err_set(err, ERR_INVALID, "it is too long");
    if (len && memchr(text, 0, len))
        return err_set(err, ERR_INVALID, "a null byte");
    scan_list(&scan);
    if (scan_peek(&scan) >= 0)
        scan_fail(&scan, "a syntax error");
    if (scan.error)
        return err_set(err, ERR_INVALID, "%s", scan.error);
    *ret_script = script;
    return 0;
}
