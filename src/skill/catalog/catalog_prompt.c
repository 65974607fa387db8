/* A catalogue as a block for a system prompt. Called by the native API. Invariant: names and descriptions are
 * untrusted; none of their text gets out of its element. */
#include "base/base.h"
#include "skill/catalog/catalog.h"

/* Writes one line, and escapes whatever could be mistaken for the block's own marks. */
static void prompt_text(struct buf *out, const char *text, size_t len) {
    static const struct {
        uint32_t character;
        const char *shown;
    } marks[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\n', " "}, {'\t', " "}};
    enum { MARKS = sizeof marks / sizeof *marks };
    for (size_t i = 0, used; i < len; i += used) {
        uint32_t character = 0;
        size_t mark = 0;
        used = text_character(text + i, len - i, &character);
        used = used ? used : 1;
        while (mark < MARKS && marks[mark].character != character)
            mark++;
        if (mark < MARKS)
            buf_puts(out, marks[mark].shown);
        else if (!text_harmful(character))
            text_point(out, character);
    }
}

static void prompt_element(struct buf *out, const char *name, const char *text, size_t len) {
    buf_printf(out, "    <%s>", name);
    prompt_text(out, text, len);
    buf_printf(out, "</%s>\n", name);
}

static void prompt_line(struct buf *out, const char *what, const char *workspace, const char *below) {
    buf_printf(out, "- %s: ", what);
    prompt_text(out, workspace, strlen(workspace));
    buf_printf(out, "%s\n", below);
}

static bool prompt_has(const struct catalog *catalog, const char *source) {
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->entries[i].source, source) == 0)
            return true;
    return false;
}

/* Writes each entry as an element. The path of a sub-agent is that of its file. */
static void prompt_entries(const struct catalog *catalog, const char *what, bool agents, struct buf *out) {
    buf_printf(out, "\n<available_%ss>\n", what);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct catalog_entry *entry = &catalog->entries[i];
        size_t dir = agents ? (size_t)(strrchr(entry->path, '/') - entry->path) : strlen(entry->path);
        buf_printf(out, "  <%s>\n", what);
        prompt_element(out, "name", entry->meta.name, strlen(entry->meta.name));
        prompt_element(out, "description", entry->meta.description, strlen(entry->meta.description));
        if (agents && entry->meta.tools) {
            buf_puts(out, "    <tools>");
            for (const char *const *tool = entry->meta.tools; *tool; tool++) {
                buf_puts(out, tool == entry->meta.tools ? "" : ", ");
                prompt_text(out, *tool, strlen(*tool));
            }
            buf_puts(out, "</tools>\n");
        }
        prompt_element(out, "dir", entry->path, dir);
        buf_printf(out, "  </%s>\n", what);
    }
    buf_printf(out, "</available_%ss>\n", what);
}

void catalog_prompt_skills(const struct catalog *catalog, const char *workspace, struct buf *out) {
    if (!catalog->count)
        return;
    buf_puts(out, "## Available Skills\n\n"
                  "A skill is a folder with instructions and files for one kind of task. When a task fits a skill's "
                  "description, load it with the tool `skill` before you begin and follow it; the files that "
                  "it mentions are in its folder.\n\n");
    prompt_line(out, "personal skills", workspace, "/skills");
    if (prompt_has(catalog, "agent"))
        prompt_line(out, "skills of this agent", SKILLS_PATH, "");
    if (prompt_has(catalog, "global"))
        prompt_line(out, "skills of all users, read-only", workspace, "/.skills");
    prompt_entries(catalog, "skill", false, out);
}

void catalog_prompt_agents(const struct catalog *catalog, const char *workspace, struct buf *out) {
    if (!catalog->count)
        return;
    buf_puts(out, "## Available Agents (SubAgents)\n\n"
                  "Each is a role for a sub-agent: what it is good at, and what it may use. The tool `agent` gives its "
                  "instructions.\n\n");
    prompt_line(out, "personal agents", workspace, "/agents");
    if (prompt_has(catalog, "global"))
        prompt_line(out, "agents of all users, read-only", workspace, "/.agents");
    prompt_entries(catalog, "agent", true, out);
}
