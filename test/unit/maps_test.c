/* Virtual paths of the `local` backend: what is mapped, what is masked, and what looks alike but is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "runner/runner.h"

static int count, failures;

static void ok(bool condition, const char *name) {
    printf("%sok %d - %s\n", condition ? "" : "not ", ++count, name);
    failures += !condition;
}

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
        autobuf out;
        buf_init(&out, 65536);
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
    char out[5000];
    int root;
    struct err err = {0};
    ok(runner_path(config, "a/b", true, &root, out, &err) == 0 && strcmp(out, "/a/b") == 0,
       "a relative path lies in the workspace");
    ok(runner_path(config, "/mnt/skills/x", false, &root, out, &err) == 0 && strcmp(out, "/x") == 0,
       "a mapped path is resolved below its mapping");
    ok(runner_path(config, "/mnt/skills/x", true, &root, out, &err) == -ERR_DENIED && strstr(err.text, "read-only"),
       "a write below a read-only mapping is refused and says so");
    ok(runner_path(config, "/mnt/skills-x/y", false, &root, out, &err) == -ERR_DENIED,
       "a path outside every mapping is refused");
    ok(runner_path(config, "/etc/passwd", false, &root, out, &err) == -ERR_DENIED, "so is a host path");
    ok(runner_path(config, "", false, &root, out, &err) == -ERR_INVALID, "so is an empty one");
    char link[600];
    snprintf(link, sizeof link, "%s/w/out", dir);
    ok(symlink("/etc/passwd", link) == 0 && runner_path(config, "/workspace/out", false, &root, out, &err) == 0 &&
           path_open(root, out, 0, 0) < 0,
       "a link out of a mapping leads nowhere");
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
    const char *const missing[] = {"/x=/nonexistent/dir", NULL};
    struct maps *none;
    ok(maps_new(missing, &none, &err) == -ERR_NOT_FOUND, "a mapping whose directory is missing is an error");
    check_commands(&config, dir);
    check_masks(&config, dir);
    check_paths(&config, dir);
    maps_free(config.maps);
    printf("1..%d\n", count);
    char command[700];
    snprintf(command, sizeof command, "%s/w/out", dir);
    unlink(command);
    for (const char *const *name = (const char *const[]){"w", "s", "pub", "", NULL}; *name; name++) {
        snprintf(path, sizeof path, "%s/%s", dir, *name);
        rmdir(path);
    }
    return failures > 0;
}
