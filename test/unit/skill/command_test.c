/* The dialect's rules for commands: what runs, what is refused and with which words, and what merely looks bad and passes. */
#include <stdio.h>
#include <string.h>

#include "skill/command.h"
#include "skill/skill.h"
#include "tap.h"

#define CLIMBS "Security Error: Path traversal '..' is strictly forbidden."
#define SYSTEM "Security Error: Forbidden access to system paths in arguments."
#define OUTSIDE "outside the allowed skill directory."

static const struct {
    const char *arg, *want; /* NULL: passes; else what the sentence ends with */
} table[] = {
    {"main.py", NULL},
    {"..", CLIMBS},
    {"../x", CLIMBS},
    {"a/../b", CLIMBS},
    {"a/..", CLIMBS},
    {"--file=../x", CLIMBS},
    {"cat ../x", CLIMBS},
    {"..\\x", CLIMBS},
    {"1..2", NULL},
    {"wait...", NULL},
    {"a..b/c", NULL},
    {"...", NULL},
    {"{1..3}", NULL},
    {"src/bin/x", NULL},
    {"s/a/b/", NULL},
    {"*.py", NULL},
    {"foo.bar", NULL},
    {"print(1.5)", NULL},
    {"print(4 / 2)", NULL},
    {"http://example.com/etc/x", NULL},
    {"https://example.com/", NULL},
    {"file:///etc/passwd", SYSTEM},
    {"/dev/null", NULL},
    {"x 2>/dev/null", NULL},
    {"/etc/passwd", SYSTEM},
    {"/etc", SYSTEM},
    {"/ETC/passwd", SYSTEM},
    {"//etc/passwd", SYSTEM},
    {"/./etc/passwd", SYSTEM},
    {"--file=/etc/passwd", SYSTEM},
    {"PATH=a:/root/x", SYSTEM},
    {"cat '/proc/1/environ'", SYSTEM},
    {"/usr/bin/id", SYSTEM},
    {"/", OUTSIDE},
    {"//", OUTSIDE},
    {"/tmp/x", OUTSIDE},
    {"/webIde/product/x", OUTSIDE},
    {"//webIde/product/x", OUTSIDE},
    {"/skills/w", NULL},
    {"/skills/w/", NULL},
    {"//skills//w/./main.py", NULL},
    {"/skills/wx/main.py", OUTSIDE},
    {"/skills/w2", OUTSIDE},
    {"/skills/w/a /skills/x/b", OUTSIDE},
    {"/workspace/skills/w/a", NULL},
    {"--x=/skills/w/a", NULL},
    {"", NULL},
    {"-la", NULL},
};

static void test_args(void) {
    static const char *const roots[] = {"/skills/w", "/workspace/skills/w", NULL};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *args[] = {"plain", table[i].arg, NULL};
        struct err err = {0};
        char name[200];
        int failed = command_check_args(args, roots, &err);
        size_t want = table[i].want ? strlen(table[i].want) : 0, got = strlen(err.text);
        snprintf(name, sizeof name, "%s: '%s'", table[i].want ? "refused" : "passes", table[i].arg);
        bool right = table[i].want
                         ? failed == -ERR_INVALID && got >= want && !strcmp(err.text + got - want, table[i].want)
                         : failed == 0;
        ok(right, name);
        if (!right)
            printf("# %d %s\n", failed, err.text);
    }
    const char *const none[] = {NULL};
    struct err err = {0};
    ok(command_check_args(none, roots, &err) == 0, "no arguments pass");
}

static void test_names(void) {
    static const char *const allowed[] = {"python3", "pip",  "pip3", "bash", "sh", "ls",    "cat",  "grep", "sed",
                                          "awk",     "echo", "cp",   "mv",   "rm", "mkdir", "find", "curl"};
    static const char *const refused[] = {"id",  "",       "/bin/ls", "LS",  "ls ",   "./ls",
                                          "cmd", "python", "touch",   "tee", "chmod", "xargs"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        struct err err = {0};
        char name[80];
        snprintf(name, sizeof name, "W12: '%s' may run", allowed[i]);
        ok(command_check(allowed[i], skill_defaults.commands, &err) == 0, name);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct err err = {0};
        char name[80], want[120];
        snprintf(name, sizeof name, "'%s' may not", refused[i]);
        snprintf(want, sizeof want, "Security Error: Command '%s' is not allowed.", refused[i]);
        ok(command_check(refused[i], skill_defaults.commands, &err) == -ERR_INVALID && !strcmp(err.text, want), name);
    }
}

static void test_map(void) {
    static const struct {
        const char *arg, *want;
    } table[] = {
        {"/p/skill", "/skills/s"},
        {"/p/skill/a/b", "/skills/s/a/b"},
        {"--file=/p/skill/a,/p/skill", "--file=/skills/s/a,/skills/s"},
        {"/p/skill2/a", "/p/skill2/a"},
        {"x/p/skill/a", "x/p/skill/a"},
        {"//p/skill/a", "//p/skill/a"},
        {"/p/skill/../x", "/skills/s/../x"},
        {"plain", "plain"},
    };
    autoarena arena = ARENA_EMPTY;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        ok(!strcmp(command_map_arg(&arena, table[i].arg, "/p/skill", "/skills/s"), table[i].want), table[i].arg);
    ok(!strcmp(command_map_arg(&arena, "/a /a/b", "/a", "/a/a"), "/a/a /a/a/b"), "what was put in is not mapped again");
}

static void test_split(void) {
    autoarena arena = ARENA_EMPTY;
    size_t words;
    const char **argv = command_split(&arena, "  python3 main.py\t--city \n Beijing ", &words);
    ok_all("a line is cut at white space", words == 4, !strcmp(argv[0], "python3"), !strcmp(argv[3], "Beijing"),
           !argv[4]);
    argv = command_split(&arena, " \t ", &words);
    ok(words == 0 && !argv[0], "nothing but white space is nothing");
    argv = command_split(&arena, "echo $(id); \"a b\"", &words);
    ok_all("there is no shell in it", words == 4, !strcmp(argv[1], "$(id);"), !strcmp(argv[2], "\"a"));
}

int main(void) {
    test_args();
    test_names();
    test_map();
    test_split();
    return tap_end();
}
