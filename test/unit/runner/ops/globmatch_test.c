/* Globs: what matches, what is refused, and that no pattern costs more than its length allows. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runner/ops/globmatch.h"
#include "tap.h"

static const struct {
    const char *pattern, *path;
    bool match;
} table[] = {
    {"*.c", "a.c", true},
    {"*.c", "a.h", false},
    {"*.c", "d/a.c", false},
    {"**/*.c", "a.c", true},
    {"**/*.c", "d/e/f/a.c", true},
    {"d/**", "d/x", true},
    {"d/**", "d/x/y", true},
    {"d/**", "d", false},
    {"d/**/x", "d/x", true},
    {"d/**/x", "d/a/b/x", true},
    {"d/**/x", "e/x", false},
    {"**", "a/b/c", true},
    {"**/**/**/x", "x", true},
    {"a/**/b/**/c", "a/b/c", true},
    {"a/**/b/**/c", "a/1/b/2/3/c", true},
    {"a/**/b/**/c", "a/1/2/3/c", false},
    {"a**b", "axxb", true},
    {"a**b", "ax/xb", false},
    {"?", "a", true},
    {"?", "\xc3\xa9", true},
    {"??", "\xc3\xa9", false},
    {"?", "\xff", true},
    {"?", "", false},
    {"[a-c]x", "bx", true},
    {"[a-c]x", "dx", false},
    {"[!a-c]x", "dx", true},
    {"[^a-c]x", "ax", false},
    {"[]]x", "]x", true},
    {"[!]]x", "]x", false},
    {"[a-]", "-", true},
    {"[\\]]", "]", true},
    {"[", "[", true},
    {"[a", "[a", true},
    {"a[b/c]d", "a[b/c]d", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"\\", "\\", true},
    {"*.{c,h}", "a.h", true},
    {"*.{c,h}", "a.o", false},
    {"{a,b/c}/d", "b/c/d", true},
    {"{a,{b,c}}", "c", true},
    {"{a}", "{a}", true},
    {"{a,b", "{a,b", true},
    {"x{,y}", "x", true},
    {"x{,y}", "xy", true},
    {"\\{a,b}", "{a,b}", true},
    {"*", ".hidden", true},
    {"./a", "a", true},
    {"a//b", "a/b", true},
    {"/a", "a", true},
    {"a*b*c", "aXbYc", true},
    {"a*b*c", "aXbY", false},
    {"*a*a*a", "aaa", true},
    {"*a*a*a", "aa", false},
};

static void test_table(void) {
    char name[200];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct glob glob;
        const char *why = glob_compile(&glob, table[i].pattern, strlen(table[i].pattern));
        snprintf(name, sizeof name, "'%s' %s '%s'", table[i].pattern, table[i].match ? "matches" : "does not match",
                 table[i].path);
        ok(!why && glob_match(&glob, table[i].path) == table[i].match, name);
        glob_done(&glob);
    }
}

static const char *refusal(const char *pattern, size_t len) {
    struct glob glob;
    const char *why = glob_compile(&glob, pattern, len);
    glob_done(&glob);
    return why;
}

static void test_refused(void) {
    ok(refusal("", 0) != NULL, "an empty pattern is refused");
    ok(refusal("a\0b", 3) != NULL, "a NUL is refused");
    ok(refusal("../x", 4) != NULL && refusal("a/../b", 6) != NULL, "'..' is refused");
    ok(refusal("/", 1) != NULL && refusal(".", 1) != NULL, "a pattern that names nothing is refused");
    const char many[] = "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}";
    ok(refusal(many, sizeof many - 1) != NULL, "alternatives that multiply are refused");
    char parts[2 * (GLOB_PARTS + 1)];
    for (size_t i = 0; i < sizeof parts; i += 2)
        memcpy(parts + i, "a/", 2);
    ok(refusal(parts, sizeof parts) != NULL, "too many parts are refused");
    ok(refusal(parts, sizeof parts - 2) == NULL, "as many as there is room for are not");
}

/* text `count` times, then `end`. */
static const char *repeat(char *out, size_t size, const char *text, int count_times, const char *end) {
    size_t len = 0;
    for (int i = 0; i < count_times; i++)
        len += (size_t)snprintf(out + len, size - len, "%s", text);
    snprintf(out + len, size - len, "%s", end);
    return out;
}

/* What would take a backtracking matcher for ever. */
static void test_bounded(void) {
    char pattern[2048], path[8192];
    struct glob glob;
    uint64_t begin_ms = clock_ms();
    repeat(pattern, sizeof pattern, "a*", 200, "b");
    repeat(path, sizeof path, "a", 255, "");
    ok(!glob_compile(&glob, pattern, strlen(pattern)) && !glob_match(&glob, path), "200 stars against 255 bytes");
    glob_done(&glob);
    repeat(pattern, sizeof pattern, "**/a/", 100, "b");
    repeat(path, sizeof path, "a/", 1000, "c");
    ok(!glob_compile(&glob, pattern, strlen(pattern)) && !glob_match(&glob, path), "100 '**' against 1000 directories");
    glob_done(&glob);
    ok(clock_ms() - begin_ms < 20000, "both within seconds");
}

static void test_prune(void) {
    struct glob glob;
    struct glob_state next;
    glob_compile(&glob, "src/*/x.c", 9);
    ok(!glob_step(&glob, &glob.start, "doc", 3, &next) && !glob_alive(&next), "a directory that leads nowhere is dead");
    ok(!glob_step(&glob, &glob.start, "src", 3, &next) && glob_alive(&next), "one that leads on is alive");
    glob_done(&glob);
    glob_compile(&glob, "src/", 4);
    ok(glob.dirs_only && glob_match(&glob, "src"), "a slash at the end asks for directories");
    glob_done(&glob);
}

/* The short cut by first and last byte never changes the answer. */
static void test_names(void) {
    static const char pattern[] = "{.git,node_modules,*.log,*~,.up-*.part,b[ao]x,\\*star}";
    static const struct {
        const char *name;
        bool match;
    } names[] = {
        {".git", true},  {".gitignore", false}, {"a.log", true},      {"log", false},      {"x~", true},
        {"~", true},     {"~x", false},         {".up-1.part", true}, {"up-.part", false}, {"node_modules", true},
        {"node", false}, {"bax", true},         {"bix", false},       {"*star", true},     {"star", false}};
    struct glob_names glob;
    bool same = !glob_names_compile(&glob, pattern, strlen(pattern)) && glob.any;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        same = same && glob_names_match(&glob, names[i].name, strlen(names[i].name)) == names[i].match;
    glob_done(&glob.glob);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strchr(table[i].path, '/') || glob_names_compile(&glob, table[i].pattern, strlen(table[i].pattern)))
            continue;
        same = same && glob_names_match(&glob, table[i].path, strlen(table[i].path)) == table[i].match;
        glob_done(&glob.glob);
    }
    ok(same, "names to ignore match as the pattern does");
}

int main(void) {
    test_table();
    test_refused();
    test_bounded();
    test_prune();
    test_names();
    return tap_end();
}
