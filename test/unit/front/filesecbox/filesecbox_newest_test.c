/* The later family's pure parts: what its logical paths mean, and which lines its execute refuses, and above all which it
 * does not. The rows name the weaknesses (W) of the original that they are about. */
#include "front/filesecbox/filesecbox.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

static void row_ok(bool fine, const char *what, const char *text, const char *got) {
    if (!ok_about(fine, what, text))
        printf("# got: %s\n", got ? got : "(null)");
}

/* ---- lines ---- */

#define NOT(c) "Security Error: Command '" c "' is not allowed."
#define OUTSIDE(p) "Security Error: Path '" p "' is out of operable scope. Must start with 'skills/' or 'files/'."
#define UP "Security Error: Path traversal '..' is strictly forbidden."
#define MADE(c) "Security Error: Modification of 'skill-creator' is strictly forbidden. Command '" c "' blocked."
#define SENT "Security Error: Redirecting output to 'skill-creator' is strictly forbidden."
#define RESERVED                                                                                                       \
    "Security Error: 'SKILL.md' is a system reserved file. You can only create/edit it at the root of a skill (e.g., " \
    "skills/my_skill/SKILL.md)."

static const struct {
    const char *what, *line, *refusal; /* NULL: it may be run */
} lines[] = {
    {"plain", "ls skills", NULL},
    {"empty", "", NOT("")},
    {"spaces", " \t", NOT("")},
    {"unknown", "id", NOT("id")},
    {"unknown with a path", "/bin/ls", NOT("/bin/ls")},
    {"case counts", "LS", NOT("LS")},
    {"W2 second command", "echo hi; id", NOT("id")},
    {"W2 and", "echo hi && id", NOT("id")},
    {"W2 pipe", "echo hi | id", NOT("id")},
    {"W2 background", "echo hi & id", NOT("id")},
    {"W2 substitution", "echo $(id)", NOT("id")},
    {"W2 backquotes", "echo `id`", NOT("id")},
    {"W2 process substitution", "cat <(id)", NOT("id")},
    {"W2 given to a shell", "bash -c 'id'", NOT("id")},
    {"W2 given to xargs", "echo x | xargs id", NOT("id")},
    {"W2 given to find", "find files -exec id {} +", NOT("id")},
    {"W2 next line", "echo hi\nid", NOT("id")},
    {"W2 all allowed", "echo hi; ls | grep x && cat files/a", NULL},
    {"loops and tests", "for f in files/*; do if [ -f \"$f\" ]; then cat \"$f\"; fi; done", NULL},
    {"W3 option with a path", "grep --file=/etc/x y", OUTSIDE("/etc/x")},
    {"W3 short tokens", "cd / && cd etc && cat hostname", OUTSIDE("/")},
    {"system path", "cat /etc/passwd", OUTSIDE("/etc/passwd")},
    {"W3 without its slash", "ls /etc", OUTSIDE("/etc")},
    {"W3 doubled slash", "cat //etc/passwd", OUTSIDE("//etc/passwd")},
    {"own place by its whole path", "cat /workspace/files/a /skills/x/SKILL.md", NULL},
    {"same beginning", "cat /workspace2/x", OUTSIDE("/workspace2/x")},
    {"nothing to throw away into", "ls > /dev/null 2>&1", NULL},
    {"parents", "cat files/../x", UP},
    {"parents in an option", "grep --file=../x y", UP},
    {"W5 dots in words", "echo 1..2 wait...", NULL},
    {"W5 a pattern with a dot", "grep foo.bar files/a", NULL},
    {"W5 a pattern with a star", "find skills -name \"*.py\"", NULL},
    {"W5 sed", "sed s/a/b/ files/a", NULL},
    {"W5 sed with an address", "sed -n '/a/p' files/a", NULL},
    {"W5 a number", "python3 -c \"print(1.5)\"", NULL},
    {"W5 an address", "curl http://localhost/x", NULL},
    {"W13 creator is read", "cat skills/skill-creator/SKILL.md", NULL},
    {"W13 creator is copied from", "cp -r skills/skill-creator files/mine", NULL},
    {"W13 creator's output", "python3 skills/skill-creator/run.py > files/out", NULL},
    {"creator is not removed", "rm -rf skills/skill-creator/x", MADE("rm")},
    {"creator is not moved", "mv skills/skill-creator files/x", MADE("mv")},
    {"creator is not copied into", "cp files/x skills/skill-creator/x", MADE("cp")},
    {"creator by its whole path", "touch /skills/skill-creator/x", MADE("touch")},
    {"W19 creator by a dot", "touch skills/./skill-creator/x", MADE("touch")},
    {"creator in a later command", "ls; touch skills/skill-creator/x", MADE("touch")},
    {"creator is not written to", "echo x > skills/skill-creator/x", SENT},
    {"creator is not written to by a group", "{ echo x; } >> skills/skill-creator/x", SENT},
    {"W19 another with that beginning", "touch skills/skill-creator-mine/x", NULL},
    {"a second SKILL.md", "touch skills/a/b/SKILL.md", RESERVED},
    {"in any case", "echo x > skills/a/b/skill.md", RESERVED},
    {"among files", "cp files/x files/SKILL.md", RESERVED},
    {"the one SKILL.md", "echo x > skills/a/SKILL.md", NULL},
    {"SKILL.md is looked for", "find skills -name SKILL.md", NULL},
    {"unclosed", "echo 'x", "Security Error: Command is not allowed: the command cannot be parsed: unclosed quote."},
};

static void check_lines(void) {
    static const char *const commands[] = {"python", "python3", "bash", "sh",    "ls",    "cat",   "echo",
                                           "grep",   "sed",     "awk",  "tee",   "mkdir", "touch", "cp",
                                           "mv",     "rm",      "find", "chmod", "xargs", "curl",  NULL};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        autoarena arena = ARENA_EMPTY;
        const char *got = fsb2_refusal(&arena, commands, "/workspace", lines[i].line, strlen(lines[i].line));
        row_ok(got == lines[i].refusal || (got && lines[i].refusal && !strcmp(got, lines[i].refusal)), lines[i].what,
               lines[i].refusal ? "refused" : "runs", got);
    }
}

/* ---- paths ---- */

#define SCOPE(p) "Security Error: Access out of scope. Path: " p
#define START(p) "Security Error: Path must start with 'skills/' or 'files/'. Current path: " p
#define HIDDEN "Security Error: Access to hidden system files (starting with '.') is forbidden."

static const struct {
    const char *given, *logical, *skill, *refusal;
} paths[] = {
    {"files", "files", NULL, NULL},
    {"files/a/b.txt", "files/a/b.txt", NULL, NULL},
    {"files//a/./b/", "files/a/b", NULL, NULL},
    {"./files/a", "files/a", NULL, NULL},
    {"files/.env", "files/.env", NULL, NULL},
    {"files/a..b", "files/a..b", NULL, NULL},
    {"skills", "skills", NULL, NULL},
    {"skills/x", "skills/x", "x", NULL},
    {"skills/天气/说明.txt", "skills/天气/说明.txt", "天气", NULL},
    {"skills/./skill-creator/x", "skills/skill-creator/x", "skill-creator", NULL},
    {"skills/skill-creator-mine", "skills/skill-creator-mine", "skill-creator-mine", NULL},
    {NULL, NULL, NULL, "Security Error: Path cannot be null."},
    {"", NULL, NULL, START("")},
    {".", NULL, NULL, START(".")},
    {"/", NULL, NULL, START("/")},
    {"/etc/passwd", NULL, NULL, START("/etc/passwd")},
    {"/files/a", NULL, NULL, START("/files/a")},
    {"SKILLS/a", NULL, NULL, START("SKILLS/a")},
    {"Files/a", NULL, NULL, START("Files/a")},
    {"filesystem/a", NULL, NULL, START("filesystem/a")},
    {".meta/x", NULL, NULL, START(".meta/x")},
    {"files/..", NULL, NULL, SCOPE("files/..")},
    {"files/../.meta/x", NULL, NULL, SCOPE("files/../.meta/x")},
    {"files/../skills/a/b/SKILL.md", NULL, NULL, SCOPE("files/../skills/a/b/SKILL.md")},
    {"../files", NULL, NULL, SCOPE("../files")},
    {"skills/.cubby-1/x", NULL, NULL, HIDDEN},
};

static void check_paths(void) {
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        autoarena arena = ARENA_EMPTY;
        const char *given = paths[i].given;
        struct fsb2_path path = {0};
        struct err err = {0};
        int code = fsb2_logical(&arena, given, given ? strlen(given) : 0, &path, &err);
        bool fine = paths[i].refusal
                        ? code == -ERR_INVALID && !strcmp(err.text, paths[i].refusal)
                        : code == 0 && !strcmp(path.logical, paths[i].logical) && !path.skill == !paths[i].skill &&
                              (!path.skill || !strcmp(path.skill, paths[i].skill));
        row_ok(fine, "path", given, code ? err.text : path.logical);
    }
    autoarena arena = ARENA_EMPTY;
    struct fsb2_path path = {0};
    struct err err = {0};
    row_ok(fsb2_logical(&arena, "files/a\0b", 9, &path, &err) == -ERR_INVALID, "path", "with a NUL", path.logical);
    row_ok(fsb2_logical(&arena, "files/\xff", 7, &path, &err) == -ERR_INVALID, "path", "not UTF-8", path.logical);
}

static void check_routes(void) {
    static const struct {
        const char *path;
        bool ours;
    } routes[] = {{"/v1/ann/app/files", true},   {"/v1/ann/app/delete", true}, {"/v1/ann/app/other", false},
                  {"/v1/ann/app", false},        {"/v1/ann/files", false},     {"/v1/boxes/x/files", false},
                  {"/v1/ann/app/files/", false}, {"/v2/ann/app/files", false}, {"/v1/boxer/x/files", true}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        row_ok(fsb2_claims(routes[i].path) == routes[i].ours, "route", routes[i].path, "the other");
}

int main(void) {
    check_routes();
    check_lines();
    check_paths();
    return tap_end();
}
