/* Virtual paths of the `local` backend: what is mapped, what is masked, and what looks alike but is not. */
#include "base/base.h"
#include "runner/runner.h"
#include "tap.h"

static void command_is(const struct runner_config *config, const char *command, const char *expected,
                       const char *name) {
    char *got = maps_command(config, command);
    ok(strcmp(got, expected) == 0, name);
    if (strcmp(got, expected) != 0)
        printf("# got: %s\n# expected: %s\n", got, expected);
    free(got);
}

/* Feeds text in pieces of every size from 1 on: the result may not depend on where a stream is cut. */
static void masked_is(const struct runner_config *config, const char *text, const char *expected, const char *name) {
    bool same = true;
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct mask *mask = mask_new(config);
        autobuf out = buf_max(65536);
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t left = strlen(text) - at;
            mask_put(mask, (const uint8_t *)text + at, left < piece ? left : piece, &out);
        }
        mask_flush(mask, &out);
        if (strcmp(buf_cstr(&out), expected) != 0 && same) {
            printf("# piece %zu got: %s\n# expected: %s\n", piece, (char *)out.data, expected);
            same = false;
        }
        mask_free(mask);
    }
    ok(same, name);
}

static void check_commands(const struct runner_config *config, const char *dir) {
    char text[1024];
    snprintf(text, sizeof text, "cat %s/w/x", dir);
    command_is(config, "cat /workspace/x", text, "a virtual path in a command is made real");
    snprintf(text, sizeof text, "gcc -I%s/w/i --prefix=%s/w", dir, dir);
    command_is(config, "gcc -I/workspace/i --prefix=/workspace", text, "also behind an option");
    command_is(config, "ls /mnt/skills-x /mnt/skills.d", "ls /mnt/skills-x /mnt/skills.d",
               "a longer name that begins alike is left alone");
    command_is(config, "ls src/workspace/x a/mnt/skills", "ls src/workspace/x a/mnt/skills",
               "a relative path that contains one is left alone");
    snprintf(text, sizeof text, "ls %s/pub %s/s", dir, dir);
    command_is(config, "ls /mnt/skills/public /mnt/skills", text, "the longest mapping wins");
    command_is(config, "echo https://h/workspace", "echo https://h/workspace", "a URL's path is left alone");
}

static void check_masks(const struct runner_config *config, const char *dir) {
    char text[1024];
    snprintf(text, sizeof text, "at %s/w/x.c:3: and %s/w.\n", dir, dir);
    masked_is(config, text, "at /workspace/x.c:3: and /workspace.\n", "real paths in output are masked");
    snprintf(text, sizeof text, "%s/w-backup %s/wx %s/", dir, dir, dir);
    masked_is(config, text, text, "a longer real name is left alone");
    masked_is(config, "plain / text // with slashes/", "plain / text // with slashes/", "other text passes as it is");
}

static void check_paths(const struct runner_config *config, const char *dir) {
    struct place at;
    struct err err = {0};
    ok(runner_path(config, "a/b", PATH_WRITE, &at, &err) == 0 && strcmp(at.path, "/a/b") == 0,
       "a relative path lies in the workspace");
    ok(runner_path(config, "/mnt/skills/x", PATH_READ, &at, &err) == 0 && strcmp(at.path, "/x") == 0,
       "a mapped path is resolved below its mapping");
    ok(runner_path(config, "/mnt/skills/x", PATH_WRITE, &at, &err) == -ERR_DENIED && strstr(err.text, "read-only"),
       "a write below a read-only mapping is refused and says so");
    ok(runner_path(config, "/mnt/skills-x/y", PATH_READ, &at, &err) == -ERR_DENIED,
       "a path outside every mapping is refused");
    ok(runner_path(config, "/etc/passwd", PATH_READ, &at, &err) == -ERR_DENIED, "so is a host path");
    ok(runner_path(config, "", PATH_READ, &at, &err) == -ERR_INVALID, "so is an empty one");
    char link[600];
    snprintf(link, sizeof link, "%s/w/out", dir);
    ok_all("a link out of a mapping leads nowhere", symlink("/etc/passwd", link) == 0,
           runner_path(config, "/workspace/out", PATH_READ, &at, &err) == 0, path_open(at.root, at.path, 0, 0) < 0);
}

static bool leads(const struct runner_config *config, const char *path, unsigned how, const char *want,
                  struct err *err) {
    char real[64], text[2 * LIMIT_PATH_BYTES + 2];
    struct place at;
    if (runner_path(config, path, how, &at, err) < 0)
        return false;
    snprintf(real, sizeof real, "/proc/self/fd/%d", at.root);
    ssize_t len = readlink(real, text, LIMIT_PATH_BYTES);
    snprintf(text + (len > 0 ? len : 0), LIMIT_PATH_BYTES + 1, "%s", at.path);
    return strcmp(text, want) == 0;
}

static void make_link(const char *target, const char *dir, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ok(symlink(target, path) == 0, name);
}

/* Directories at their own paths: a machine without isolation. */
static void check_own(const char *dir) {
    char rows[2][600], path[600], want[600];
    struct err err = {0};
    snprintf(rows[0], sizeof rows[0], "=%s/w=x y:rw", dir);
    snprintf(rows[1], sizeof rows[1], "=%s/s:ro", dir);
    snprintf(path, sizeof path, "%s/w=x y", dir);
    ok(mkdir(path, 0700) == 0, "a directory with a name that no command line could carry");
    struct runner_config config = {.workspace = strdup(path), .root_fd = -1};
    ok(maps_new((const char *const[]){rows[0], rows[1], NULL}, &config.maps, &err) == 0,
       "directories at their own paths");
    snprintf(path, sizeof path, "%s/s", dir);
    make_link(path, config.workspace, "absolute");
    make_link("../s", config.workspace, "relative");
    make_link("/etc", config.workspace, "away");
    make_link("absolute/deep", config.workspace, "chain");
    make_link("loop", config.workspace, "loop");
    snprintf(want, sizeof want, "%s/s/new", dir);
    ok(leads(&config, "absolute/new", PATH_READ, want, &err), "a link leads into another of them");
    ok(leads(&config, "relative/./x/../new", PATH_READ, want, &err), "a relative one as well");
    ok_all("and what is read-only there is read-only that way", !leads(&config, "absolute/new", PATH_WRITE, want, &err),
           err.code == ERR_DENIED, strstr(err.text, "read-only"));
    snprintf(want, sizeof want, "%s/s/deep", dir);
    ok(leads(&config, "chain", PATH_READ, want, &err), "a link to a link");
    snprintf(want, sizeof want, "%s/chain", config.workspace);
    ok(leads(&config, "chain", PATH_WRITE | PATH_ITSELF, want, &err), "the link itself is where it is");
    ok(!leads(&config, "away/new", PATH_WRITE, "", &err) && err.code == ERR_DENIED, "a link away is refused");
    ok(!leads(&config, "../w/x", PATH_READ, "", &err) && err.code == ERR_DENIED, "so is a way out by dots");
    snprintf(want, sizeof want, "%s/loop", config.workspace);
    ok(leads(&config, "loop", PATH_READ, want, &err), "a loop is left to the kernel");
    command_is(&config, config.workspace, config.workspace, "commands are left alone");
    masked_is(&config, config.workspace, config.workspace, "so is output");
    struct place at;
    autofd fd = -1;
    snprintf(want, sizeof want, "no file '%s/x'", config.workspace);
    ok_all("a sentence names the whole path", runner_path(&config, "x", PATH_READ, &at, &err) == 0,
           path_open_file(at.root, at.above, at.path, O_RDONLY, 0, &fd, &err) == -ERR_NOT_FOUND,
           strcmp(err.text, want) == 0);
    char name[256];
    snprintf(want, sizeof want, "no directory '%s/none/' (parents=1 makes it)", config.workspace);
    ok_all("so does one about its directory", runner_path(&config, "none/x", PATH_READ, &at, &err) == 0,
           path_open_parent(at.root, at.above, at.path, &fd, name, &err) == -ERR_NOT_FOUND,
           strcmp(err.text, want) == 0);
    maps_free(config.maps);
    free((char *)config.workspace);
}

int main(void) {
    char dir[] = "/tmp/cubby-maps-XXXXXX", rows[3][600], path[600];
    if (!mkdtemp(dir))
        return 1;
    for (const char *const *name = (const char *const[]){"w", "s", "pub", NULL}; *name; name++) {
        snprintf(path, sizeof path, "%s/%s", dir, *name);
        mkdir(path, 0700);
    }
    snprintf(rows[0], sizeof rows[0], "/workspace=%s/w", dir);
    snprintf(rows[1], sizeof rows[1], "/mnt/skills=%s/s:ro", dir);
    snprintf(rows[2], sizeof rows[2], "/mnt/skills/public=%s/pub", dir);
    struct runner_config config = {.workspace = "/workspace", .root_fd = -1};
    struct err err = {0};
    const char *const list[] = {rows[0], rows[1], rows[2], NULL};
    ok(maps_new(list, &config.maps, &err) == 0, "mappings are taken");
    check_own(dir);
    const char *const missing[] = {"/x=/nonexistent/dir", NULL};
    struct maps *none;
    ok(maps_new(missing, &none, &err) == -ERR_NOT_FOUND, "a mapping whose directory is missing is an error");
    check_commands(&config, dir);
    check_masks(&config, dir);
    check_paths(&config, dir);
    maps_free(config.maps);
    char command[700];
    snprintf(command, sizeof command, "%s/w/out", dir);
    unlink(command);
    for (const char *const *name = (const char *const[]){"w", "s", "pub", "", NULL}; *name; name++) {
        snprintf(path, sizeof path, "%s/%s", dir, *name);
        rmdir(path);
    }
    return tap_end();
}
