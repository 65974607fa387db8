/* skill: lists skills, and shows the instructions and files of one. A row of tool_table. Invariant: a skill is found
 * by its id or name in the catalogue, never by a path from the model; instructions are shown in full, never kept for
 * recall. */
#include <inttypes.h>

#include "base/base.h"
#include "skill/catalog/catalog.h"
#include "tool/tools/search.h"

enum {
    SKILL_LINES = 300,            /* of a file, shown per call */
    SKILL_SHOWN_BYTES = 64 << 10, /* of a file, shown per call */
    SKILL_READ_BYTES = 1 << 20,   /* how far into a file lines are shown */
    SKILL_FILES = 200,
    SKILL_LISTED = 5000,
    SKILL_DEPTH = 16,
    SKILL_BAD = 20,
};

struct skill_args {
    struct row_text name, action, file, description;
    struct row_number start_line;
};

static const struct row skill_fields[] = {
    {ARG(skill_args, name, TEXT), .flags = ROW_AUDITED, .max = 512,
     .text = "Name of the skill, or of its folder; omit it to list all skills."},
    {ARG(skill_args, action, TEXT), .flags = ROW_AUDITED, .choices = "load|list_files|read|list",
     .text = "load: show its instructions (the default). list_files: list the files in its folder. read: show the file "
             "named by file. list: list all skills."},
    {ARG(skill_args, file, TEXT), .flags = ROW_AUDITED, .min = 1, .max = 4095,
     .text = "read: a file in the skill's folder, such as references/api.md."},
    {ARG(skill_args, start_line, INT), .min = 1, .max = UINT32_MAX, .fallback = 1,
     .text = "load and read: the first line to show, from 1."},
    TOOL_DESCRIPTION(struct skill_args),
    {.name = NULL},
};

/* Shows as many lines from start on as fit, and where to continue. */
static int skill_lines(struct tool_call *call, const char *path, const char *text, size_t len, uint64_t start,
                       bool more) {
    uint64_t line = 1, shown = 0, bytes = 0;
    const char *end = text + len;
    bool cut = false;
    for (; text < end && !cut; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop + 1 : end) - text);
        if (line >= start) {
            cut = shown == SKILL_LINES || (shown && bytes + n > SKILL_SHOWN_BYTES);
            if (cut)
                break;
            size_t put = text_fitting(text, n, SKILL_SHOWN_BYTES);
            tool_put(call, text, put);
            if (put < n)
                tool_say(call, "\n[the rest of line %" PRIu64 " is omitted]\n", line);
            shown++;
            bytes += put;
        }
        text += n;
    }
    if (!shown && (start > 1))
        return tool_fail(call, "start_line %" PRIu64 " is past the end: %s has %" PRIu64 " lines", start, path,
                         line - 1);
    if (!shown)
        tool_say(call, "(empty)");
    if (cut)
        tool_say(call, "\n[Truncated at line %" PRIu64 ". To continue: start_line=%" PRIu64 ".]", line - 1, line);
    else if (more)
        tool_say(call, "\n[Truncated; read the rest of %s with read_file or bash.]", path);
    return 0;
}

static int skill_show(struct tool_call *call, const char *path, uint64_t start, struct err *err) {
    const char *bytes;
    size_t len, text_len;
    int code = catalog_read(call->box, path, SKILL_READ_BYTES, call->arena, call->watch, &bytes, &len, err);
    if (code == -ERR_NOT_FOUND)
        return tool_fail(call, "File not found: %s; list_files lists the files", path);
    if (code < 0)
        return code;
    bool wide = len >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0);
    if (!wide && memchr(bytes, 0, len))
        return tool_fail(call, "%s is not text; use it with bash", path);
    const char *text = meta_text(call->arena, bytes, len, &text_len);
    return skill_lines(call, path, text, text_len, start, len == SKILL_READ_BYTES);
}

/* Returns a path below the folder. The box resolves links in it. */
static const char *skill_below(struct tool_call *call, const struct catalog_entry *entry, const char *file) {
    size_t folder = strlen(entry->path);
    if (strncmp(file, entry->path, folder) == 0 && file[folder] == '/')
        file += folder + 1;
    for (const char *at = file; *at; at += strspn(at, "/")) {
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 2 && at[0] == '.' && at[1] == '.'))
            return NULL;
        at += len;
    }
    if (!*file || folder + strlen(file) + 1 > LIMIT_PATH_BYTES)
        return NULL;
    return arena_printf(call->arena, "%s/%s", entry->path, file);
}

struct skill_found {
    struct arena *arena;
    const char *paths[SKILL_LISTED];
    size_t count;
};

static int skill_found(void *user, const struct file_stat *stat) {
    struct skill_found *found = user;
    if (stat->type != FILE_DIR && found->count < SKILL_LISTED)
        found->paths[found->count++] = arena_strdup(found->arena, stat->path);
    return 0;
}

static int skill_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int skill_files(struct tool_call *call, const struct catalog_entry *entry, struct err *err) {
    const struct list_request list = {
        .path = entry->path, .depth = SKILL_DEPTH, .limit = SKILL_LISTED, .ignore = search_ignored};
    struct skill_found *found = arena_alloc(call->arena, sizeof *found);
    bool truncated = false;
    autobuf out = buf_max(SKILL_FILES * 5 * LIMIT_PATH_BYTES);
    found->arena = call->arena;
    int code = box_list(call->box, &list, call->watch, skill_found, found, &truncated, err);
    if (code < 0)
        return search_failed(call, entry->path, code, err);
    if (found->count)
        qsort(found->paths, found->count, sizeof *found->paths, skill_order);
    for (size_t i = 0; i < found->count && i < SKILL_FILES; i++) {
        buf_puts(&out, i ? "\n" : "");
        search_show(&out, found->paths[i]);
    }
    if (!found->count)
        buf_printf(&out, "No files in %s", entry->path);
    if (found->count > SKILL_FILES || truncated)
        buf_printf(&out, "\n(and %zu%s more)", found->count > SKILL_FILES ? found->count - SKILL_FILES : 0,
                   truncated ? " or" : "");
    tool_put(call, out.data, out.len);
    return 0;
}

static int skill_act(struct tool_call *call, const struct skill_args *args, struct err *err) {
    struct catalog catalog;
    const char *action = args->action.data ? args->action.data : args->file.data ? "read" : "load";
    TRY(catalog_skills(call->host->catalogs, call->box, call->arena, call->watch, &catalog, err));
    if (strcmp(action, "list") == 0 || (!args->name.len && !args->action.data)) {
        if (!catalog.count)
            tool_say(call, "No skills are available.");
        size_t shown = 0;
        for (; shown < catalog.count && call->result.text.total < SKILL_SHOWN_BYTES; shown++) {
            const struct catalog_entry *entry = &catalog.entries[shown];
            tool_say(call, "%s%s: %s (%s)", shown ? "\n" : "", entry->meta.name, entry->meta.description, entry->path);
        }
        if (shown < catalog.count)
            tool_say(call, "\nand %zu more", catalog.count - shown);
        for (size_t i = 0; i < SKILL_BAD && catalog.bad[i]; i++)
            tool_say(call, "\nNot usable: %s", catalog.bad[i]);
        return 0;
    }
    if (!args->name.len)
        return tool_fail(call, "action %s needs name, the name of a skill", action);
    const struct catalog_entry *entry = catalog_find(&catalog, args->name.data);
    if (!entry)
        return tool_fail(call, "no skill '%s%s%s", args->name.data,
                         catalog.count ? "'; available: " : "'; no skills are available",
                         catalog_names(&catalog, call->arena));
    if (strcmp(action, "list_files") == 0)
        return skill_files(call, entry, err);
    if (strcmp(action, "read") == 0) {
        if (!args->file.data)
            return tool_fail(call, "action read needs file, the name of a file in %s", entry->path);
        const char *path = skill_below(call, entry, args->file.data);
        return path ? skill_show(call, path, args->start_line.value, err)
                    : tool_fail(call, "'%s' is not a name below %s", args->file.data, entry->path);
    }
    tool_say(call, "Skill: %s\nFolder: %s\n\n", entry->meta.name, entry->path);
    if (entry->file)
        return skill_show(call, entry->file, args->start_line.value, err);
    tool_say(call, "It has no SKILL.md. Its files:\n");
    return skill_files(call, entry, err);
}

static int skill_run(struct tool_call *call, const void *user, struct err *err) {
    call->result.whole = true;
    int code = tool_box(call, err);
    if (code == 0)
        code = box_share(call->box, SHARE_WAIT_MS, err); /* so that the skill does not change before it is read */
    if (code < 0)
        return code;
    code = skill_act(call, user, err);
    box_share_end(call->box);
    return code;
}

const struct tool tool_skill = {
    TOOL(skill, "Use a skill"), .flags = TOOL_READS | TOOL_SAME, .cut = TOOL_WHOLE,
    .description =
        "Load a skill: a folder with instructions and files for one kind of task. Load it before you begin a task "
        "that matches its description, and follow its instructions. Without a name, lists all skills and what each "
        "is for. list_files lists the files of a skill and read shows one of them, at most 300 lines at once. Run "
        "a skill's scripts with bash, by the path that load shows."};
