/* What skills and sub-agents say of themselves: a table of files and what is read from them. Names of the rows are what once
 * went wrong somewhere. */
#include "skill/catalog/meta.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "tap.h"

static bool same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *joined(const char *const *items, char out[200]) {
    if (!items)
        return NULL;
    out[0] = 0;
    for (; *items; items++)
        snprintf(out + strlen(out), 200 - strlen(out), "[%s]", *items);
    return out;
}

/* ---- names and descriptions ---- */

#define NONE "No description available."
static const struct {
    const char *what, *text, *name, *description;
} texts[] = {
    {"a name and a description", "---\nname: weather\ndescription: Tells it\n---\nbody\n", "weather", "Tells it"},
    {"keys in any case", "---\nNAME: weather\nDescription: Tells it\n---\n", "weather", "Tells it"},
    {"a mark of UTF-8 hides nothing", "\xef\xbb\xbf---\nname: weather\n---\n", "weather", NONE},
    {"lines ended by CR LF", "---\r\nname: weather\r\ndescription: Tells it\r\n---\r\nbody\r\n", "weather", "Tells it"},
    {"lines ended by CR", "---\rname: weather\rdescription: Tells it\r---\rbody\r", "weather", "Tells it"},
    {"quotes are not part of a text", "---\nname: \"weather\"\ndescription: 'it''s: here'\n---\n", "weather",
     "it's: here"},
    {"escapes in double quotes", "---\nname: \"a\\u5929\\x41\\n\\\"b\"\n---\n", "a天A \"b", NONE},
    {"a quoted text over lines", "---\nname: x\ndescription: \"one\n  two\n\n  three\"\n---\n", "x", "one two\nthree"},
    {"text behind a quoted one", "---\nname: x\ndescription: \"one\" and \"two\"\n---\n", "x", "\"one\" and \"two\""},
    {"a quote that does not end keeps the keys below", "---\ndescription: \"one\nname: x\n---\n", "x", "\"one"},
    {"a block", "---\nname: x\ndescription: |\n  one\n    two\n\n  three\n---\n", "x", "one\ntwo\n\nthree"},
    {"a folded block", "---\nname: x\ndescription: >-\n  one\n  two\n\n  three\nversion: 1\n---\n", "x",
     "one two\nthree"},
    {"a text that goes on", "---\nname: x\ndescription: one\n  two: three\n---\n", "x", "one two: three"},
    {"a text below its key", "---\nname: x\ndescription:\n  one\n  two\n---\n", "x", "one two"},
    {"a colon in a text", "---\nname: x\ndescription: Use when: asked\n---\n", "x", "Use when: asked"},
    {"a comment", "---\n# a\nname: x # b\ndescription: a#b\n---\n", "x", "a#b"},
    {"a full-width colon", "---\nname： 天气\ndescription：查询天气\n---\n", "天气", "查询天气"},
    {"no blank behind the colon", "---\nname:x\ndescription:y\n---\n", "x", "y"},
    {"the body's Name: does not win", "---\nname: x\n---\nName: evil\ndescription: evil\n", "x", NONE},
    {"no fences", "name: x\ndescription: y\n\nText\nname: z\n", "x", "y"},
    {"no fences, below a heading", "# X\n\nName: x\nDescription: y\n", "x", "y"},
    {"a fence that is not closed", "---\nname: x\nmore\n", "folder", NONE},
    {"a heading is no name here", "# Heading\ntext\n", "folder", NONE},
    {"an empty file", "", "folder", NONE},
    {"empty values", "---\nname:\ndescription: ~\n---\n", "folder", NONE},
    {"a list where a text should be", "---\nname: [a, b]\n---\n", "a, b", NONE},
    {"a nested name is not the name", "---\nmetadata:\n  name: evil\ndescription: y\n---\n", "folder", "y"},
    {"all keys indented alike", "---\n  name: x\n  description: y\n---\n", "x", "y"},
    {"blank lines before it", "\n\n---\nname: x\n---\n", "x", NONE},
    {"dots close it", "---\nname: x\n...\nname: y\n", "x", NONE},
    {"bytes that are no UTF-8", "---\nname: a\xff\xfe\x62\n---\n",
     "a\xef\xbf\xbd\xef\xbf\xbd"
     "b",
     NONE},
    {"controls and turns of direction",
     "---\nname: a\x1b[31m\xe2\x80\xae"
     "b\n---\n",
     "a[31mb", NONE},
};

static void texts_are_read(void) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        autoarena arena;
        struct meta meta;
        arena_init(&arena);
        meta_skill(&arena, "folder", texts[i].text, strlen(texts[i].text), &meta);
        bool right = same(meta.name, texts[i].name) && same(meta.description, texts[i].description) &&
                     meta.described == (strcmp(texts[i].description, NONE) != 0);
        if (!right)
            printf("# name '%s' description '%s'\n", meta.name, meta.description);
        ok(right, texts[i].what);
    }
}

static void utf16_is_read(void) {
    static const char plain[] = "---\r\nname: w\r\ndescription: y\r\n---\r\nbody";
    char wide[2][2 + 2 * sizeof plain + 4];
    for (int big = 0; big < 2; big++) {
        size_t len = 2;
        memcpy(wide[big], big ? "\xfe\xff" : "\xff\xfe", 2);
        for (size_t i = 0; i + 1 < sizeof plain; i++) {
            wide[big][len++] = big ? 0 : plain[i];
            wide[big][len++] = big ? plain[i] : 0;
        }
        memcpy(wide[big] + len, big ? "\xd8\x3d\xde\x00" : "\x3d\xd8\x00\xde", 4);
        autoarena arena;
        struct meta meta;
        arena_init(&arena);
        meta_skill(&arena, "folder", wide[big], len + 4, &meta);
        ok_all(big ? "UTF-16, big end first" : "UTF-16, little end first", same(meta.name, "w"),
               same(meta.description, "y"), same(meta.body, "body😀"));
    }
}

/* ---- everything else ---- */

static void other_keys_are_read(void) {
    static const char text[] =
        "---\nname: x\nlicense: MIT\nallowed-tools: Bash(git log, git diff) Read\nmetadata:\n"
        "  author: \"me\"\n  version: 1.10\ntags:\n- a\n- \"b, c\"\nsharing: private\n---\n\n  Body \n\n";
    autoarena arena;
    struct meta meta;
    char list[200];
    arena_init(&arena);
    meta_skill(&arena, "folder", text, strlen(text), &meta);
    ok(same(meta.author, "me") && same(meta.version, "1.10"),
       "author and version below metadata; a version is no number");
    ok_all("license, sharing; model is not said", same(meta.license, "MIT"), same(meta.sharing, "private"),
           !meta.model);
    ok(same(joined(meta.tags, list), "[a][b, c]"), "a list of lines at the key's own depth");
    ok(same(joined(meta.tools, list), "[Bash(git log, git diff)][Read]"), "tools with what they are allowed");
    ok(same(meta.body, "Body"), "the body is trimmed");
}

static const struct {
    const char *what, *text, *tags;
} lists[] = {
    {"a list in brackets", "---\ntags: [a, \"b, c\", 'd''s' , ]\n---\n", "[a][b, c][d's]"},
    {"a list in brackets over lines", "---\ntags: [a,\n  b, # c\n  d]\nname: x\n---\n", "[a][b][d]"},
    {"brackets that do not close are a text", "---\ntags: [a\nname: x\n---\n", "[[a]"},
    {"a text with commas", "---\ntags: a, b c\n---\n", "[a][b c]"},
    {"an indented list with comments", "---\ntags:\n  # x\n  - a # y\n\n  - b\nname: x\n---\n", "[a][b]"},
    {"no list", "---\nname: x\n---\n", NULL},
    {"an empty list", "---\ntags: []\n---\n", ""},
};

static void lists_are_read(void) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        autoarena arena;
        struct meta meta;
        char list[200];
        arena_init(&arena);
        meta_skill(&arena, "folder", lists[i].text, strlen(lists[i].text), &meta);
        if (!same(joined(meta.tags, list), lists[i].tags))
            printf("# %s\n", meta.tags ? list : "(none)");
        ok(same(joined(meta.tags, list), lists[i].tags), lists[i].what);
    }
}

static void headings_are_read(void) {
    static const struct {
        const char *what, *text, *name;
    } rows[] = {
        {"the first heading", "text\n\n## Weather skill ##\n# Other\n", "Weather skill"},
        {"a heading in code is none", "```\n# no\n```\n# Yes\n", "Yes"},
        {"#tag is no heading", "#tag\n####### x\n#\n", "folder"},
        {"front matter before headings", "---\nname: x\n---\n# Heading\n", "x"},
        {"a heading with a mark and CR LF", "\xef\xbb\xbf# 天气\r\n", "天气"},
        {"nothing", "", "folder"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        autoarena arena;
        struct meta meta;
        arena_init(&arena);
        meta_heading(&arena, "folder", rows[i].text, strlen(rows[i].text), &meta);
        ok(same(meta.name, rows[i].name) && !meta.described, rows[i].what);
    }
}

static void agents_are_read(void) {
    static const struct {
        const char *what, *file, *text, *name; /* NULL: refused */
    } rows[] = {
        {"a sub-agent", "a.md", "---\nname: reviewer\n---\nYou review.", "reviewer"},
        {"its file names it", "tester.md", "---\ndescription: x\n---\n", "tester"},
        {"a name of any letters", "a.md", "---\nname: 审查-员_1\n---\n", "审查-员_1"},
        {"a name with a blank", "a.md", "---\nname: a b\n---\n", NULL},
        {"a name with a path", "a.md", "---\nname: ../a\n---\n", NULL},
        {"a name with a sign", "a.md", "---\nname: a😀\n---\n", NULL},
        {"a name with brackets", "a.md", "---\nname: a<b>\n---\n", NULL},
        {"a file name that is none", "a b.md", "---\ndescription: x\n---\n", NULL},
        {"no front matter", "a.md", "name: a\n", NULL},
        {"front matter that does not end", "a.md", "---\nname: a\n", NULL},
        {"a tool that is none", "a.md", "---\nname: a\ntools:\n  - read_file\n  - 'rm -rf'\n---\n", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        autoarena arena;
        struct meta meta = {0};
        const char *why = NULL;
        arena_init(&arena);
        bool is = meta_agent(&arena, rows[i].file, rows[i].text, strlen(rows[i].text), &meta, &why);
        ok(is == (rows[i].name != NULL) && (is ? same(meta.name, rows[i].name) : why && *why && !meta.name),
           rows[i].what);
    }
}

static void capabilities_are_read(void) {
    static const struct {
        const char *what, *text;
        bool memory, send_message, spawn_agent;
    } rows[] = {
        {"capabilities that are not said", "---\nname: a\n---\n", false, false, true},
        {"capabilities",
         "---\nname: a\ncapabilities:\n  memory: true\n  send_message: Yes\n  spawn_agent: 0\nmodel: m\n---\n", true,
         true, false},
        {"capabilities in braces", "---\nname: a\ncapabilities: {memory: 1, spawn_agent: false}\nmodel: m\n---\n", true,
         false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        autoarena arena;
        struct meta meta = {0};
        const char *why;
        arena_init(&arena);
        bool is = meta_agent(&arena, "a.md", rows[i].text, strlen(rows[i].text), &meta, &why);
        ok_all(rows[i].what, is, meta.memory == rows[i].memory, meta.send_message == rows[i].send_message,
               meta.spawn_agent == rows[i].spawn_agent, (!i || same(meta.model, "m")));
    }
}

static void long_texts_are_cut(void) {
    autoarena arena;
    autobuf text;
    struct meta meta;
    arena_init(&arena);
    buf_init(&text, 1 << 20);
    buf_puts(&text, "---\nname: ");
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "天");
    buf_puts(&text, "\ndescription: ");
    for (int i = 0; i < 20000; i++)
        buf_puts(&text, "x ");
    buf_puts(&text, "\n---\n");
    meta_skill(&arena, "folder", (char *)text.data, text.len, &meta);
    size_t name = strlen(meta.name), description = strlen(meta.description);
    ok_all("a long name is cut between characters, and says so", name <= 256, name > 240, text_utf8(meta.name, name),
           same(meta.name + name - 3, "…"));
    ok_all("so is a long description", description <= 4096, description > 4000,
           same(meta.description + description - 3, "…"));
}

int main(void) {
    texts_are_read();
    utf16_is_read();
    other_keys_are_read();
    lists_are_read();
    headings_are_read();
    agents_are_read();
    capabilities_are_read();
    long_texts_are_cut();
    return tap_end();
}
