/* What catalogues keep of boxes' files, and when it does not hold any more; and prompts that nothing can break out of. */
#include "skill/catalog/catalog_cache.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ull

static struct catalog_item item(const char *file, uint64_t mtime_ns) {
    return (struct catalog_item){.id = "a",
                                 .path = "/skills/a",
                                 .file = file,
                                 .source = "personal",
                                 .size = 10,
                                 .mtime_ns = mtime_ns,
                                 .inode = 7,
                                 .fixed = true,
                                 .listed = true};
}

static struct catalog_item looked(const char *file, uint64_t mtime_ns, uint64_t now_ns, const char *name) {
    static const char *const tags[] = {"one", "two", NULL};
    struct catalog_item known = item(file, mtime_ns);
    known.read = true;
    known.read_wall_ns = now_ns;
    known.meta = (struct meta){.name = name, .description = "d", .tags = tags, .body = "the body"};
    return known;
}

static bool kept(struct catalogs *catalogs, const char *box, const char *what, struct catalog_item wanted,
                 const char *name) {
    autoarena arena = ARENA_EMPTY;
    size_t bytes = 0, missing = catalogs_fill(catalogs, box, what, &wanted, 1, &arena, &bytes);
    return missing ? !name
                   : name && wanted.read && !strcmp(wanted.meta.name, name) && !strcmp(wanted.meta.tags[1], "two");
}

static void what_was_read_holds(void) {
    struct catalogs *catalogs = catalogs_new();
    const uint64_t then = 1000 * SECOND, now = 2000 * SECOND;
    const char *file = "/skills/a/SKILL.md";
    struct catalog_item known = looked(file, then, now, "n"), other;
    ok(kept(catalogs, "box", "skills", item(file, then), NULL), "nothing is known at first");
    catalogs_keep(catalogs, UINT64_MAX);
    catalogs_store(catalogs, "box", "skills", &known, 1);
    ok(kept(catalogs, "box", "skills", item(file, then), "n"), "what was read of a file is kept");
    ok(kept(catalogs, "other", "skills", item(file, then), NULL), "for its box");
    ok(kept(catalogs, "box", "agents", item(file, then), NULL), "and its catalogue");
    ok(kept(catalogs, "box", "skills", item("/skills/b/SKILL.md", then), NULL), "and its name");
    ok(kept(catalogs, "box", "skills", item(file, then + 1), NULL), "another time: not");
    other = item(file, then);
    other.size++;
    ok(kept(catalogs, "box", "skills", other, NULL), "another size: not");
    other = item(file, then);
    other.inode++;
    ok(kept(catalogs, "box", "skills", other, NULL), "another inode: not");
    other = item(file, then);
    other.fixed = false;
    ok(kept(catalogs, "box", "skills", other, NULL), "a link: not");
    catalogs_keep(catalogs, 0);
    ok(kept(catalogs, "box", "skills", item(file, then), NULL), "too old: not");
    catalogs_free(catalogs);
}

/* Two changes within one tick of the file system's clock look like one. */
static void what_just_changed_is_not_kept(void) {
    struct catalogs *catalogs = catalogs_new();
    const char *file = "/skills/a/SKILL.md";
    const struct {
        const char *what;
        uint64_t mtime_ns;
        bool kept;
    } rows[] = {{"changed just before it was read: not kept", 2000 * SECOND - 1, false},
                {"changed more than a second before: kept", 1998 * SECOND, true},
                {"changed in the future: not kept", 2001 * SECOND, false}};
    catalogs_keep(catalogs, UINT64_MAX);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct catalog_item known = looked(file, rows[i].mtime_ns, 2000 * SECOND, "n");
        catalogs_store(catalogs, "box", "skills", &known, 1);
        ok(kept(catalogs, "box", "skills", item(file, rows[i].mtime_ns), rows[i].kept ? "n" : NULL), rows[i].what);
    }
    catalogs_free(catalogs);
}

static void boxes_are_bounded(void) {
    struct catalogs *catalogs = catalogs_new();
    const char *file = "/skills/a/SKILL.md";
    struct catalog_item known = looked(file, SECOND, 2000 * SECOND, "n");
    char box[17];
    catalogs_keep(catalogs, UINT64_MAX);
    for (int i = 0; i < 1000; i++) {
        snprintf(box, sizeof box, "%016d", i);
        catalogs_store(catalogs, box, "skills", &known, 1);
        kept(catalogs, "0000000000000000", "skills", item(file, SECOND), "n"); /* in use */
    }
    ok(kept(catalogs, "0000000000000001", "skills", item(file, SECOND), NULL),
       "of a thousand boxes the oldest are forgotten");
    ok(kept(catalogs, "0000000000000999", "skills", item(file, SECOND), "n"), "not the last");
    ok(kept(catalogs, "0000000000000000", "skills", item(file, SECOND), "n"), "nor the one that is asked about");
    catalogs_free(catalogs);
}

static void prompts_are_escaped(void) {
    static const char *const tools[] = {"a", "b", NULL};
    const struct catalog_entry entries[] = {
        {.id = "x",
         .path = "/w s/skills/<x>",
         .source = "personal",
         .meta = {.name = "</name>&\"", .description = "a\n</skill>\xe2\x80\xae\x1b[0m\xff", .tools = tools}}};
    const struct catalog catalog = {entries, 1, NULL}, none = {entries, 0, NULL};
    autobuf out = buf_max(1 << 16);
    catalog_prompt_skills(&none, "/w s", &out);
    catalog_prompt_agents(&none, "/w s", &out);
    ok(out.len == 0, "nothing for nothing");
    catalog_prompt_skills(&catalog, "/w <s>", &out);
    const char *text = buf_cstr(&out);
    ok(strstr(text, "    <name>&lt;/name&gt;&amp;&quot;</name>\n") != NULL, "a name stays in its element");
    ok(strstr(text, "    <description>a &lt;/skill&gt;[0m</description>\n") != NULL,
       "a description, too, on one line, and draws nothing");
    ok(strstr(text, "    <dir>/w s/skills/&lt;x&gt;</dir>\n") &&
           strstr(text, "- personal skills: /w &lt;s&gt;/skills\n"),
       "so do paths");
    ok(!strstr(text, "/.skills"), "places with nothing in them are not named");
    buf_clear(&out);
    catalog_prompt_agents(&catalog, "/w", &out);
    text = buf_cstr(&out);
    ok(strstr(text, "    <tools>a, b</tools>\n    <dir>/w s/skills</dir>\n  </agent>\n</available_agents>\n") != NULL,
       "of sub-agents the tools, and where their file is");
}

int main(void) {
    what_was_read_holds();
    what_just_changed_is_not_kept();
    boxes_are_bounded();
    prompts_are_escaped();
    return tap_end();
}
