/* The shell's reader beside a shell: what it finds in a text is what bash runs. Random commands are read here and run
 * by bash in an empty directory, with no program to be found: what bash would have started tells its words. */
#include "tool/guard/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tap.h"

/* ---- as text ---- */

/* [a][b];[c] : words and commands in order; {..} what is inside a word; >x <x redirections. */
static void show_script(struct buf *out, const struct script *script);

static void show_word(struct buf *out, const struct word *word) {
    buf_byte(out, '[');
    if (word->len)
        buf_put(out, word->text, word->len);
    buf_byte(out, ']');
    for (const struct script *script = word->inside; script; script = script->next) {
        buf_byte(out, '{');
        show_script(out, script);
        buf_byte(out, '}');
    }
}

static void show_script(struct buf *out, const struct script *script) {
    static const char *const kinds[] = {"", "#", "?", "()"}, *const signs[] = {"<", ">", "&", "<<", "<<<"};
    for (const struct command *command = script->commands; command; command = command->next) {
        buf_puts(out, kinds[command->kind]);
        for (const struct word *word = command->assigns; word; word = word->next) {
            buf_byte(out, '=');
            show_word(out, word);
        }
        for (const struct word *word = command->words; word; word = word->next)
            show_word(out, word);
        for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next) {
            buf_puts(out, signs[redirect->kind]);
            show_word(out, &redirect->target);
        }
        if (command->pipes)
            buf_byte(out, '|');
        if (command->background)
            buf_byte(out, '&');
        if (command->next)
            buf_byte(out, ';');
    }
}

static void reads(const char *text, const char *want) {
    const struct script *script;
    struct err err = {0};
    autoarena arena;
    autobuf out;
    arena_init(&arena);
    buf_init(&out, 1 << 20);
    if (words_parse(&arena, text, strlen(text), &script, &err) < 0)
        buf_printf(&out, "error: %s", err.text);
    else
        show_script(&out, script);
    buf_byte(&out, 0);
    bool same = !strcmp((char *)out.data, want);
    if (!ok_about(same, "reads", text))
        printf("# got  %s\n# want %s\n", (char *)out.data, want);
}

static void test_readings(void) {
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},
        {"echo hi; id", "[echo][hi];[id]"},
        {"a'b'\"c\"\\d$'e\\tf' ''", "[abcde\tf][]"},
        {"a b|c|&d&e&&f||g", "[a][b]|&;[c]|&;[d]&;[e];[f];[g]"},
        {"a # b; c\nd", "[a];[d]"},
        {"a#b", "[a#b]"},
        {"A=1 B+=2 c[3]=4 d e=5", "=[A=1]=[B+=2]=[c[3]=4][d][e=5]"},
        {"'A'=1", "[A=1]"},
        {"x=(a 'b c' $(d)) e", "=[x=(a 'b c' $(d))]{[d]}[e]"},
        {"a >b 2>>c <d &>e >&f 2>&1 <&- >|g <>h", "[a]>[b]>[c]<[d]>[e]>[f]&[1]&[-]>[g]>[h]"},
        {"a 2 >b {fd}>c 3", "[a][2][3]>[b]>[c]"},
        {"a <<E <<-'F'\n$(x)\nE\n\tb $y\n\tF\nc", "[a]<<[$(x)\n]{[x]}<<[b $y\n];[c]"},
        {"a <<E && b\nx\nE\nc", "[a]<<[x\n];[b];[c]"},
        {"a <<E | b\nx\\\ny\nE", "[a]<<[xy\n]|;[b]"},
        {"a <<'E'\nx\\\ny\nE", "[a]<<[x\\\ny\n]"},
        {"a <<E\nno end", "[a]<<[no end\n]"},
        {"a <<<'b c'$d", "[a]<<<[b c$d]"},
        {"a $(b $(c) 'd)') e", "[a][$(b $(c) 'd)')]{[b][$(c)]{[c]}[d)]}[e]"},
        {"a `b \\`c\\` \\$d`", "[a][`b \\`c\\` \\$d`]{[b][`c`]{[c]}[$d]}"},
        {"a \"b $(c \"d\") ${e:-\"$(f)\"} $'g' \\\"\"", "[a][b $(c \"d\") ${e:-\"$(f)\"} $'g' \"]{[c][d]}{[f]}"},
        {"a ${b:-'$(c)'} \"${d:-'$(e)'}\" \"${f#'$(g)'}\"", "[a][${b:-'$(c)'}][${d:-'$(e)'}]{[e]}[${f#'$(g)'}]"},
        {"a $((1+(2)*$(b))) $[c+$(d)]", "[a][$((1+(2)*$(b)))]{[b]}[$[c+$(d)]]{[d]}"},
        {"$((a);(b)) ((c);(d))", "error: a syntax error at ("},
        {"((a);(b)); ((i++))", "[a];[b];#[i++]"},
        {"a <(b c) >(d)", "[a][<(b c)]{[b][c]}[>(d)]{[d]}"},
        {"(a;b)>c;{ d;e; }<f", "[a];[b];#>[c];[d];[e];#<[f]"},
        {"if a;then b;elif c;then d;else e;fi", "[a];[b];[c];[d];[e]"},
        {"while a;do b;done;until c\ndo d\ndone", "[a];[b];[c];[d]"},
        {"for i in a $(b);do c;done;for((;;)){ d;};for i do e;done", "#[a][$(b)]{[b]};[c];#[;;))];[d];#;[e]"},
        {"case $(a) in b|c)d;;(e)f;& *)g;esac", "#[$(a)]{[a]};#;#;[d];#;[f];#;[g]"},
        {"f(){ a;};function g { b;};function h() (c)", "()[f];[a];()[g];[b];()[h];[c]"},
        {"[[ a && ( b < c ) || $d =~ ^(e|f)$ ]] && g", "?[a][&&][(][b][<][c][)][||][$d][=~][^(e|f)$];[g]"},
        {"! a;time -p b|c;coproc d e;coproc F { g; }", "[a];[b]|;[c];[d][e];[g]"},
        {"if\\\n a; th\\\nen b; fi", "[a];[b]"},
        {"a$\\\n(b)&\\\n&c", "[a$\\\n(b)]{[b]};[c]"},
        {"echo if then } done", "[echo][if][then][}][done]"},
        {"a @(b|c) !(d) e", "[a][@(b|c)][!(d)][e]"},
        {"!(a)", "[a]"},
        {"a 'b", "error: unclosed quote"},
        {"a \"b", "error: unclosed quote"},
        {"a $'b", "error: unclosed quote"},
        {"a $(b", "error: unclosed substitution"},
        {"a ${b", "error: unclosed substitution"},
        {"a `b", "error: unclosed backtick"},
        {"(a", "error: unclosed ("},
        {"{ a;", "error: unclosed {"},
        {"if a; then b", "error: if without fi"},
        {"a )", "error: a syntax error"},
        {"a; ;", "error: a syntax error"},
        {"| a", "error: a syntax error"},
        {"a &&", "error: a syntax error"},
        {"done", "error: a syntax error"},
        {"a >", "error: a syntax error"},
        {"case a in b", "error: case without )"},
        {"[[ a", "error: unclosed [["},
        {"x=(a", "error: unclosed array"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        reads(rows[i].text, rows[i].want);
}

/* ---- random commands, everything in them run exactly once ---- */

static uint64_t seed;
static unsigned arithmetic; /* inside $(( )) bash does not see that a here-document's parenthesis is none */

static unsigned dice(unsigned n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % n;
}

static bool make_list(struct buf *out, unsigned depth);

static void make_letters(struct buf *out, const char *letters, unsigned most) {
    for (unsigned n = dice(most) + 1; n; n--)
        buf_byte(out, (uint8_t)letters[dice((unsigned)strlen(letters))]);
}

static void make_piece(struct buf *out) {
    static const char plain[] = "abcxyz0189._/:=+,%@^-#*?[]~!", any[] = "a b;&|<>()$`\"\\#*{},!~\n\t",
                      quoted[] = "a b;&|<>()'#*{},!~\n\t";
    static const char *const escapes[] = {"\\n", "\\t",  "\\x41", "\\101", "\\\\",
                                          "\\'", "\\\"", "\\e",   "\\q",   "\\u00e4"};
    static const char *const doubles[] = {"\\$", "\\`", "\\\"", "\\\\", "\\a", "\\\n", "$", "\\'"};
    switch (dice(7)) {
    case 0:
        buf_byte(out, '\'');
        make_letters(out, any, 6);
        buf_byte(out, '\'');
        break;
    case 1:
        buf_byte(out, '"');
        for (unsigned n = dice(3); n; n--) {
            make_letters(out, quoted, 3);
            buf_puts(out, doubles[dice(sizeof doubles / sizeof *doubles)]);
            buf_byte(out, ' '); /* no name behind a dollar */
        }
        buf_byte(out, '"');
        break;
    case 2:
        buf_byte(out, '\\');
        make_letters(out, " ;&|<>()$`\"'\\#*{},!~\nab", 1);
        break;
    case 3:
        buf_puts(out, "$'");
        for (unsigned n = dice(3); n; n--)
            buf_puts(out, escapes[dice(sizeof escapes / sizeof *escapes)]), buf_puts(out, "z");
        buf_byte(out, '\'');
        break;
    default:
        make_letters(out, plain, 5);
    }
}

/* Z first: what the shell makes of the rest is not compared. */
static void make_substitution(struct buf *out, unsigned depth) {
    static const struct {
        const char *before, *behind;
    } forms[] = {{"Z$(", ")"},         {"Z\"$(", ")\""},           {"Z${u:-$(", ")}"}, {"Z\"${u:-$(", ")}\""},
                 {"Z$((0+0$(", ")))"}, {"Z\"a ${u:-'$(", ")'}\""}, {"Z`", "`"}};
    unsigned form = dice(depth ? 7 : 6);
    buf_puts(out, forms[form].before);
    if (form == 6)
        buf_printf(out, "n%u a%u", dice(9), dice(9));
    else {
        arithmetic += form == 4;
        make_list(out, depth + 1);
        arithmetic -= form == 4;
    }
    buf_puts(out, forms[form].behind);
}

static void make_word(struct buf *out, unsigned depth) {
    if (depth < 4 && dice(8) == 0) {
        make_substitution(out, depth);
        return;
    }
    buf_byte(out, "abc"[dice(3)]); /* never empty, never a tilde, a comment or a Z first */
    for (unsigned n = dice(4); n; n--)
        make_piece(out);
}

static void make_blank(struct buf *out) {
    static const char *const blanks[] = {" ", " ", "  ", "\t", " \\\n"};
    buf_puts(out, blanks[dice(5)]);
}

/* True: it ends with a newline. */
static bool make_simple(struct buf *out, unsigned depth) {
    static const char *const redirects[] = {">/dev/null", "2>&1", "</dev/null", "&>/dev/null", "2>/dev/null"};
    if (dice(6) == 0)
        buf_printf(out, "V%u=%u ", dice(9), dice(9));
    buf_byte(out, 'n');
    make_letters(out, "0123456789", 3);
    for (unsigned n = dice(5); n; n--) {
        make_blank(out);
        if (dice(6) == 0)
            buf_puts(out, redirects[dice(5)]);
        else
            make_word(out, depth);
    }
    switch (arithmetic ? 3 + dice(2) : dice(14)) {
    case 0:
        buf_printf(out, " <<E%u\nhere 'is\" $u\n", depth); /* those inside have another */
        if (depth < 3) {
            buf_puts(out, "$(");
            make_list(out, depth + 1);
            buf_puts(out, ")\n");
        }
        buf_printf(out, "E%u\n", depth);
        return true;
    case 1:
        buf_puts(out, " <<'E' | n7 x\n$(n8 never) ` ) \" \\x\nE\n");
        return true;
    case 2:
        buf_puts(out, " <<-E\n\t ) text \\\n\tE\n\tE\n");
        return true;
    case 3:
        buf_puts(out, " <<<");
        make_word(out, depth);
        return false;
    default:
        return false;
    }
}

static bool make_command(struct buf *out, unsigned depth) {
    static const struct {
        const char *before, *behind;
    } forms[] = {{"{ ", "}"},
                 {" ( ", ")"}, /* two together would be arithmetic */
                 {"if n1; then ", "fi"},
                 {"for i in x; do ", "done"},
                 {"case 'x y' in a|'x y') ", "esac"},
                 {"{ ! { ", "}; :; }"}, /* in front of a pipeline only */
                 {"() { ", "}; "},      /* in a group: a pipe would make another shell of the definition */
                 {"function ", "}; "}};
    static unsigned functions;
    unsigned form = dice(24), name = functions++;
    if (depth > 3 || form >= sizeof forms / sizeof *forms)
        return make_simple(out, depth);
    if (form == 6)
        buf_printf(out, "{ g%u", name);
    if (form == 7)
        buf_puts(out, "{ ");
    buf_puts(out, forms[form].before);
    if (form == 7)
        buf_printf(out, "g%u { ", name);
    if (!make_list(out, depth + 1))
        buf_puts(out, dice(2) ? "; " : "\n");
    buf_puts(out, forms[form].behind);
    if (form >= 6)
        buf_printf(out, "g%u; }", name);
    return false;
}

static bool make_list(struct buf *out, unsigned depth) {
    static const char *const joints[] = {"; ",     "\n", " && ", " | ", " |& ", " && \\\n", "\n# 'comment $(x\n",
                                         " ;\n\n", " & "};
    bool ended = make_command(out, depth);
    for (unsigned n = dice(3); n; n--) {
        if (!ended)
            buf_puts(out, joints[arithmetic ? dice(6) : dice(depth ? 7 : 9)]); /* inside nobody waits for & */
        ended = make_command(out, depth + 1);
    }
    return ended;
}

/* ---- both sides ---- */

static void record(struct buf *out, const struct command *command) {
    for (const struct word *word = command->words; word; word = word->next) {
        if (word != command->words)
            buf_byte(out, 0x1f);
        buf_put(out, word->text, word->text[0] == 'Z' ? 1 : word->len);
    }
    buf_byte(out, 0x1e);
    for (uint8_t *p = out->data; p < out->data + out->len; p++)
        *p = *p == '\n' ? 2 : *p; /* bash writes line by line, and others write meanwhile */
}

static void records(struct buf *out, const struct script *script);

static void records_of_word(struct buf *out, const struct word *word) {
    if (word->inside)
        records(out, word->inside);
}

static void records(struct buf *out, const struct script *script) {
    for (; script; script = script->next)
        for (const struct command *command = script->commands; command; command = command->next) {
            for (const struct word *word = command->words; word; word = word->next)
                records_of_word(out, word);
            for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next)
                records_of_word(out, &redirect->target);
            if (command->kind == COMMAND_SIMPLE && command->words && command->words->text[0] == 'n')
                record(out, command);
        }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Records of one case, sorted: pipes run at once. Words with a Z are cut behind it. */
static char *sorted(char *text, struct buf *out) {
    char *lines[4096];
    size_t n = 0;
    for (char *end; n < 4096 && (end = strchr(text, 0x1e)); text = end + 1) {
        *end = 0;
        lines[n++] = text;
    }
    qsort(lines, n, sizeof *lines, by_text);
    buf_clear(out);
    for (size_t i = 0; i < n; i++) {
        bool skip = false, first = true;
        for (char *p = lines[i]; *p; p++) {
            if (*p == 0x1f)
                skip = false, first = true;
            if (!skip)
                buf_byte(out, (uint8_t)*p);
            skip = skip || (first && p > lines[i] && *p == 'Z' && p[-1] == 0x1f);
            first = *p == 0x1f;
        }
        buf_byte(out, '\n');
    }
    buf_byte(out, 0);
    return (char *)out->data;
}

/* A log for each: where bash stops reading in the middle, what went into the background before is late. */
static const char bash_side[] =
    "exec 8<\"$2\"; cd \"$3\" || exit 1; PATH=/nonexistent; i=0\n"
    "command_not_found_handle() { [[ $1 == n* ]] || return 0; local IFS=$'\\x1f'; local all=\"$*\"; printf '%s\\x1e' \"${all//$'\\n'/$'\\x02'}\" >&9; }\n"
    "while IFS= read -r -d '' text <&8; do\n"
    "  ( eval \"$text\"; wait ) 8<&- 9>\"$1.$i\" </dev/null >/dev/null 2>\"$1.errors\"\n"
    "  [[ ! -s $1.errors ]] || printf '\\x1c' >>\"$1.$i\"\n"
    "  i=$((i + 1))\n"
    "done\n";

static bool run_bash(const char *dir) {
    char log[300], cases[300];
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(cases, sizeof cases, "%s/cases", dir);
    char empty[300];
    snprintf(empty, sizeof empty, "%s/empty", dir);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/bash", "bash", "-c", bash_side, "bash", log, cases, empty, NULL);
        _exit(127);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static char *whole(const char *dir, const char *name) {
    static char data[1 << 20];
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(data, 1, sizeof data - 1, file) : 0;
    if (file)
        fclose(file);
    data[len] = 0;
    return data;
}

static void compare(char **texts, unsigned n, const char *dir) {
    unsigned differ = 0, commands = 0, refused = 0, unsure = 0;
    autobuf ours = buf_max(1 << 20);
    autobuf one = buf_max(1 << 20);
    autobuf other = buf_max(1 << 20);
    for (unsigned i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "log.%u", i);
        char *log = whole(dir, name);
        const struct script *script;
        struct err err = {0};
        autoarena arena = ARENA_EMPTY;
        buf_clear(&ours);
        int code = words_parse(&arena, texts[i], strlen(texts[i]), &script, &err);
        if (code == 0)
            records(&ours, script);
        for (const uint8_t *p = ours.data; p && p < ours.data + ours.len; p++)
            commands += *p == 0x1e;
        buf_byte(&ours, 0);
        bool syntax = strchr(log, 0x1c);
        const char *want = sorted(log, &one), *got = sorted((char *)ours.data, &other);
        if (syntax) {
            refused++;
        } else if (code < 0 && strstr(err.text, "arithmetic")) {
            unsure++;
        } else if (code < 0 || strcmp(want, got) != 0) {
            differ++;
            printf("# %s\n# --- text\n%s\n# --- bash\n%s# --- here\n%s# ---\n", err.text, texts[i], want, got);
        }
    }
    printf("# %u texts, %u commands, %u differ, %u refused by bash, %u not read here\n", n, commands, differ, refused,
           unsure);
    ok_all("what bash runs is what is found", differ == 0, commands > n, refused + unsure < n / 4);
}

/* Everything below dir, which has no directories but "empty". */
static void clear(const char *dir, unsigned n) {
    static const char *const names[] = {"cases", "log.errors", "empty"};
    char path[300];
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/log.%u", dir, i);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        remove(path);
    }
    if (rmdir(dir))
        printf("# %s is left\n", dir);
}

static void test_beside_bash(unsigned n) {
    char dir[] = "/tmp/words-test-XXXXXX", path[300];
    char **texts = calloc(n, sizeof *texts);
    if (access("/bin/bash", X_OK)) {
        tap_skip("beside bash", "no bash here");
        free(texts);
        return;
    }
    if (!texts || !mkdtemp(dir))
        exit(1);
    snprintf(path, sizeof path, "%s/empty", dir);
    if (mkdir(path, 0700))
        exit(1);
    snprintf(path, sizeof path, "%s/cases", dir);
    FILE *file = fopen(path, "w");
    for (unsigned i = 0; file && i < n; i++) {
        autobuf out = buf_max(1 << 20);
        make_list(&out, 0);
        texts[i] = strdup(buf_cstr(&out));
        fwrite(texts[i], 1, strlen(texts[i]) + 1, file);
    }
    if (!file || fclose(file) || !run_bash(dir))
        ok(false, "bash runs");
    else
        compare(texts, n, dir);
    for (unsigned i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    clear(dir, n);
}

int main(int argc, char **argv) {
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20260101;
    test_readings();
    test_beside_bash(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100);
    return tap_end();
}
