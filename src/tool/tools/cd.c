/* cd: changes the working directory of the thread for all its later calls. A row of tool_table. Shows the kind of
 * project and the content of the directory, because models ask for these next. */
#include "base/base.h"
#include "tool/memo.h"

enum {
    CD_SHOWN = 30,     /* entries */
    CD_MARKERS = 12,   /* files named as the project's */
    CD_SCANNED = 5000, /* entries read */
};

struct cd_args {
    struct row_text path, description;
};

static const struct row cd_fields[] = {
    {ARG(cd_args, path, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text =
         "The new working directory; absolute, or relative to the current one. Omit it to return to the workspace."},
    TOOL_DESCRIPTION(struct cd_args),
    {.name = NULL},
};

static const struct row cd_answer[] = {
    {ANSWER("cwd", TEXT), .text = "the new working directory"},
    {ANSWER("project", TEXTS), .text = "what kind of project it is"},
    {.name = NULL},
};

/* Files that show what a directory is, separated by blanks; "*.x" is any name with that ending. kind NULL: the file is
 * only mentioned. */
static const struct cd_marker {
    const char *kind, *names;
} cd_markers[] = {
    {"Go", "go.mod go.work"},
    {"Rust", "Cargo.toml"},
    {"Node.js", "package.json"},
    {"TypeScript", "tsconfig.json"},
    {"Deno", "deno.json"},
    {"Bun", "bun.lockb"},
    {"Python", "pyproject.toml setup.py setup.cfg requirements.txt Pipfile"},
    {"Conda", "environment.yml"},
    {"Java", "pom.xml"},
    {"Gradle", "build.gradle build.gradle.kts"},
    {"Scala", "build.sbt"},
    {"Ruby", "Gemfile"},
    {"PHP", "composer.json"},
    {"Elixir", "mix.exs"},
    {"Erlang", "rebar.config"},
    {"Dart", "pubspec.yaml"},
    {"Swift", "Package.swift"},
    {"Xcode", "*.xcodeproj"},
    {".NET", "*.sln *.csproj *.fsproj"},
    {"Haskell", "*.cabal stack.yaml"},
    {"OCaml", "dune-project"},
    {"Zig", "build.zig"},
    {"CMake", "CMakeLists.txt"},
    {"Meson", "meson.build"},
    {"Autotools", "configure.ac"},
    {"Make", "Makefile"},
    {"Just", "justfile"},
    {"Bazel", "WORKSPACE MODULE.bazel"},
    {"Docker", "Dockerfile docker-compose.yml compose.yaml"},
    {"Helm", "Chart.yaml"},
    {"Terraform", "*.tf"},
    {"Nix", "flake.nix"},
    {"Git", ".git"},
    {"Mercurial", ".hg"},
    {NULL, "AGENTS.md CLAUDE.md README.md README"},
};
enum { CD_KINDS = sizeof cd_markers / sizeof *cd_markers };

/* Dot files that are shown; all others are hidden. */
static const char *const cd_dots[] = {".github",
                                      ".gitignore",
                                      ".gitlab-ci.yml",
                                      ".gitmodules",
                                      ".dockerignore",
                                      ".editorconfig",
                                      ".env.example",
                                      ".eslintrc.json",
                                      ".npmrc",
                                      ".nvmrc",
                                      ".prettierrc",
                                      ".python-version",
                                      NULL};

struct cd_entry {
    const char *name;
    enum file_type type;
    uint64_t size;
};

struct cd_scan {
    struct tool_call *call;
    struct cd_entry dirs[CD_SHOWN], files[CD_SHOWN];
    size_t dir_count, file_count; /* all of them */
    const char *markers[CD_MARKERS];
    size_t marker_count;
    bool kinds[CD_KINDS];
};

static bool cd_matches(const char *patterns, const char *name) {
    size_t len = strlen(name), n;
    for (; *patterns; patterns += n + (patterns[n] == ' ')) {
        n = strcspn(patterns, " ");
        bool tail = patterns[0] == '*';
        if (tail ? len > n - 1 && strncmp(name + len - (n - 1), patterns + 1, n - 1) == 0
                 : len == n && strncmp(name, patterns, n) == 0)
            return true;
    }
    return false;
}

static int cd_each(void *user, const struct file_stat *stat) {
    struct cd_scan *scan = user;
    bool found = false;
    for (size_t i = 0; i < CD_KINDS; i++)
        if (cd_matches(cd_markers[i].names, stat->name))
            found = scan->kinds[i] = true;
    if (found) {
        if (scan->marker_count < CD_MARKERS)
            scan->markers[scan->marker_count] = arena_strdup(scan->call->arena, stat->name);
        scan->marker_count++;
    }
    if (stat->name[0] == '.' && !text_list_has(cd_dots, stat->name))
        return 0;
    bool dir = stat->type == FILE_DIR;
    size_t at = dir ? scan->dir_count++ : scan->file_count++;
    if (at < CD_SHOWN)
        (dir ? scan->dirs : scan->files)[at] = (struct cd_entry){
            .name = arena_strdup(scan->call->arena, stat->name), .type = stat->type, .size = stat->size};
    return 0;
}

/* ---- the answer ---- */

/* Names come from the box and may contain anything, so control characters are escaped. */
static void cd_name(struct tool_call *call, const char *name) {
    autobuf shown = buf_max((size_t)8 * LIMIT_NAME_BYTES);
    text_shown(&shown, name, strlen(name));
    tool_put(call, shown.data, shown.len);
}

static void cd_project(struct tool_call *call, const struct cd_scan *scan, const char *const *kinds, size_t count) {
    if (!scan->marker_count)
        return;
    tool_say(call, "\xf0\x9f\x93\x81 Project context:\n");
    for (size_t i = 0; i < count; i++)
        tool_say(call, "%s%s", i ? " / " : "   Type: ", kinds[i]);
    if (count)
        tool_say(call, "\n");
    tool_say(call, "   Files: ");
    for (size_t i = 0; i < scan->marker_count && i < CD_MARKERS; i++) {
        tool_say(call, "%s", i ? ", " : "");
        cd_name(call, scan->markers[i]);
    }
    if (scan->marker_count > CD_MARKERS)
        tool_say(call, " (+%zu more)", scan->marker_count - CD_MARKERS);
    tool_say(call, "\n\n");
}

static void cd_tree(struct tool_call *call, const struct cd_scan *scan, const char *path, bool truncated) {
    const char *name = strrchr(path, '/') + 1;
    size_t shown = 0;
    tool_say(call, "\xf0\x9f\x93\x82 Directory structure of ");
    cd_name(call, *name ? name : "/");
    tool_say(call, ":\n");
    for (size_t i = 0; i < scan->dir_count && shown < CD_SHOWN; i++, shown++) {
        tool_say(call, "   \xf0\x9f\x93\x81 ");
        cd_name(call, scan->dirs[i].name);
        tool_say(call, "/\n");
    }
    for (size_t i = 0; i < scan->file_count && shown < CD_SHOWN; i++, shown++) {
        tool_say(call, scan->files[i].type == FILE_SYMLINK ? "   \xf0\x9f\x94\x97 " : "   \xf0\x9f\x93\x84 ");
        cd_name(call, scan->files[i].name);
        if (scan->files[i].type == FILE_REGULAR) {
            uint64_t size = scan->files[i].size;
            static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
            double value = (double)size / 1024;
            size_t unit = 0;
            while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
                value /= 1024;
                unit++;
            }
            if (size < 1024)
                tool_say(call, " (%u B)", (unsigned)size);
            else
                tool_say(call, " (%.1f %s)", value, units[unit]);
        }
        tool_say(call, "\n");
    }
    size_t rest = scan->dir_count + scan->file_count - shown;
    if (truncated)
        tool_say(call, "   ... and more than %zu others (use ls or glob)\n", rest);
    else if (rest)
        tool_say(call, "   ... and %zu more (use ls or glob)\n", rest);
    else if (!shown)
        tool_say(call, "   (empty)\n");
}

static int cd_run(struct tool_call *call, const void *user, struct err *err) {
    const struct cd_args *args = user;
    const char *path;
    bool truncated;
    int code = tool_path(call, &args->path, &path, err);
    if (code == 0 && args->path.len == 0)
        path = box_workspace(call->box);
    if (code < 0)
        return code;
    struct cd_scan *scan = arena_alloc(call->arena, sizeof *scan);
    scan->call = call;
    const struct list_request look = {.path = path, .depth = 1, .limit = CD_SCANNED};
    code = box_list(call->box, &look, call->watch, cd_each, scan, &truncated, err);
    if (code == -ERR_NOT_FOUND)
        return tool_fail(call, "directory not found: %s", path);
    if (code == -ERR_INVALID)
        return tool_fail(call, "not a directory: %s", path);
    TRY(code ?: memo_cd(call, path, err));
    const char *kinds[CD_KINDS] = {0}; /* each once, in the table's order */
    size_t count = 0;
    for (size_t i = 0; i < CD_KINDS; i++)
        if (scan->kinds[i] && cd_markers[i].kind)
            kinds[count++] = cd_markers[i].kind;
    tool_say(call, "Changed directory to %s\n\n", path);
    cd_project(call, scan, kinds, count);
    cd_tree(call, scan, path, truncated);
    struct json *json = &call->result.json;
    json_open(json, '{');
    json_put_str(json, "cwd", path);
    json_put_open(json, "project", '[');
    for (size_t i = 0; i < count; i++)
        json_str(json, kinds[i]);
    json_close(json, ']');
    json_close(json, '}');
    return 0;
}

const struct tool tool_cd = {
    TOOL(cd, "Change the working directory"), .answer = cd_answer, .flags = TOOL_SAME,
    .description =
        "Change the working directory: commands start there and relative paths are resolved against it, in this "
        "and all later calls. Shows what kind of project the directory is and what it contains."};
