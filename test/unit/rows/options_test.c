/* Options: command lines and YAML by rows, and what is printed from the same rows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/rows_argv.h"
#include "rows/rows_yaml.h"
#include "tap.h"

struct values {
    const char *name, *mode;
    uint64_t number;
    bool loud, far;
    struct row_texts words;
};

static const struct row more[] = {
    OPTION("far_away", 0, BOOL, struct values, far, NULL, "of another table"),
    {.name = NULL},
};
static const struct row table[] = {
    OPTION("name", 'n', TEXT, struct values, name, "NAME", "its name"),
    OPTION_OF("mode", 0, TEXT, struct values, mode, "slow|fast|none", "how"),
    OPTION("number", 0, INT, struct values, number, "N", "how many"),
    OPTION("loud", 'l', BOOL, struct values, loud, NULL, "say so"),
    OPTION("word", 'w', TEXTS, struct values, words, "WORD", "one of several"),
    OPTIONS_MORE(more, "More:"),
};

/* ---- command lines ---- */

static struct values values;
static struct err err;

/* A line of words at spaces; what rows_argv returns. */
static int argv_of(const char *text, struct rows_line *line, char **words, struct arena *arena) {
    int count = 0;
    char *copy = arena_strdup(arena, text);
    for (char *word; (word = strsep(&copy, " "));)
        words[count++] = word;
    words[count] = NULL;
    values = (struct values){0};
    err = (struct err){0};
    *line = (struct rows_line){.argc = count, .argv = words, .words = UINT_MAX};
    return rows_argv(table, line, arena, &values, &err);
}

static void test_argv(void) {
    autoarena arena = ARENA_EMPTY;
    struct rows_line line;
    char *words[16];
    int left = argv_of("--name=a x -lw one --far-away --word two y --mode fast -- --name", &line, words, &arena);
    ok_all("options are taken out, words stay", left == 3, !strcmp(words[0], "x"), !strcmp(words[1], "y"),
           !strcmp(words[2], "--name"), !words[3], line.plain == 2);
    ok_all("into the struct, of all tables", !strcmp(values.name, "a"), values.loud, values.far,
           !strcmp(values.mode, "fast"), values.words.count == 2, !strcmp(values.words.items[1], "two"));
    argv_of("x --help --nonsense", &line, words, &arena);
    ok(line.help && !err.code, "--help ends the reading");
    static const char *const bad[][2] = {
        {"--mode loud", "--mode must be slow, fast or none, not 'loud'"},
        {"--number 0", "--number must be a whole number above 0, not '0'"},
        {"--loud=yes", "--loud takes no value"},
        {"--name", "--name needs a value: NAME"},
        {"-n", "-n needs a value: NAME"},
        {"--nam x", "unknown option --nam"},
        {"-lz", "unknown option -z"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(argv_of(bad[i][0], &line, words, &arena) == -ERR_INVALID, bad[i][0]);
        is(err.text, bad[i][1], "is named");
    }
}

static char seen[256];

static int note(void *user, const struct row *row, const char *value, struct err *failure) {
    size_t at = strlen(seen);
    (void)user, (void)failure;
    snprintf(seen + at, sizeof seen - at, "%s=%s;", row->name, value ? value : "(none)");
    return 0;
}

static void test_setter(void) {
    autoarena arena = ARENA_EMPTY;
    char *words[] = {"--loud=false", "--far-away", "--number", "many", NULL};
    struct rows_line line = {.argc = 4, .argv = words, .set = note};
    ok(rows_argv(table, &line, &arena, NULL, &err) == 0, "a caller takes the values itself");
    is(seen, "loud=false;far_away=(none);number=many;", "as they are");
}

/* ---- documents ---- */

static void printed(void (*print)(const struct row *rows, FILE *out), const struct row *rows, const char *expected,
                    const char *name) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    print(rows, out);
    fclose(out);
    is(text, expected, name);
    free(text);
}

static void test_documents(void) {
    static const struct row long_text[] = {
        {.name = "max_boxes", .type = ROW_INT, .initial = "3", .text = "'boxes' at once"},
        {.name = "file", .type = ROW_TEXT, .flags = ROW_FILE, .text = "not on a command line"},
        {.name = "level",
         .type = ROW_TEXT,
         .choices = "a|b",
         .text = "a text that is so long that the line of the usage text ends before it does, so it goes on below"},
        {.name = NULL}};
    printed(rows_usage, table,
            "  -n, --name NAME            its name\n"
            "      --mode slow|fast|none  how\n"
            "      --number N             how many\n"
            "  -l, --loud                 say so\n"
            "  -w, --word WORD            one of several\n"
            "\nMore:\n"
            "      --far-away             of another table\n",
            "a usage text, with a heading for the second table");
    printed(
        rows_usage, long_text,
        "      --max-boxes N  'boxes' at once (default: 3)\n"
        "      --level a|b    a text that is so long that the line of the usage text ends before it does, so it goes "
        "on\n"
        "                     below\n",
        "defaults, names of values and long texts");
    printed(rows_manual, long_text,
            ".It Fl -max-boxes Ar N\n\\&'boxes' at once.\nDefault: 3.\n"
            ".It Fl -level Ar a|b\n"
            "A text that is so long that the line of the usage text ends before it does, so it goes on below.\n",
            "the items of a manual page");
    printed(rows_manual, table + 3, ".It Fl l , -loud\nSay so.\n.It Fl w , -word Ar WORD\nOne of several.\n",
            "with letters, and one table alone");
}

/* ---- YAML ---- */

static struct rows_yaml *yaml(const char *text, struct arena *arena) {
    struct rows_yaml *root = NULL;
    err = (struct err){0};
    return rows_yaml_load("file", text, strlen(text), arena, &root, &err) == 0 ? root : NULL;
}

static void test_yaml(void) {
    autoarena arena = ARENA_EMPTY;
    setenv("ROWS_TEST", "from here", 1);
    const struct rows_yaml *root = yaml("a: 1\nb:\n- x$ROWS_TEST\n- {k: '${ROWS_TEST}$$'}\n", &arena);
    ok(root && root->kind == ROWS_YAML_MAP && root->count == 2, "a mapping");
    const struct rows_yaml *list = &root->items[1];
    ok_all("its members have their lines", !strcmp(list->key, "b"), list->key_line == 2, list->line == 3,
           list->kind == ROWS_YAML_LIST, list->items[1].line == 4, !list->items[1].key);
    is(list->items[0].text, "xfrom here", "a reference is resolved");
    is(list->items[0].shown, "x$ROWS_TEST", "and can be shown as written");
    is(list->items[1].items[0].text, "from here$", "in braces, with a dollar");
    ok(!yaml("", &arena) && !err.code, "nothing is fine");
    static const char *const bad[][2] = {
        {"a: 1\nb: 2\na: 3\n", "file line 3: a is given twice"},
        {"a: &x 1\nb: *x\n", "file line 2: aliases (*name) are not supported; write the value out"},
        {"a: 1\n---\nb: 2\n", "file line 2: a second document"},
        {"[[[[[[[[[[[[[1]]]]]]]]]]]]]", "file line 1: nested too deep"},
        {"? [a]\n: 1\n", "file line 1: a name must be text"},
        {"a:\n  b: $ROWS_TEST_NOT\n", "file line 2: b: $ROWS_TEST_NOT is not set in the environment"},
        {"a: $9\n", "file line 1: a: a '$' must be followed by a name, {name} or another '$'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(!yaml(bad[i][0], &arena) && err.code == ERR_INVALID, bad[i][1]);
        is(err.text, bad[i][1], "is what the error says");
    }
}

static void test_yaml_bind(void) {
    static const struct row rows[] = {OPTION("name", 0, TEXT, struct values, name, NULL, ""),
                                      OPTION("loud", 0, BOOL, struct values, loud, NULL, ""),
                                      OPTION("number", 0, INT, struct values, number, NULL, ""),
                                      {.name = NULL}};
    autoarena arena = ARENA_EMPTY;
    values = (struct values){0};
    const struct rows_yaml *map = yaml("name: x\nloud: true\nnumber: 7\n", &arena);
    ok_all("a mapping into a struct", rows_yaml_bind(map, "a thing", rows, &arena, &values, &err) == 0,
           !strcmp(values.name, "x"), values.loud, values.number == 7);
    map = yaml("name: x\nlod: true\n", &arena);
    ok(rows_yaml_bind(map, "a thing", rows, &arena, &values, &err) < 0, "a key that no row has");
    is(err.text, "file line 2: unknown key 'lod' of a thing", "is named with its line");
    map = yaml("name:\n- x\n", &arena);
    ok(rows_yaml_bind(map, "a thing", rows, &arena, &values, &err) < 0, "a list where a text belongs");
    is(err.text, "file line 2: name must be a single value", "as well");
}

int main(void) {
    test_argv();
    test_setter();
    test_documents();
    test_yaml();
    test_yaml_bind();
    return tap_end();
}
