/* Names of images: what is one, which is which, and which an allow list means. And what a container may be asked to be. */
#include "backend/reference.h"

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "box/policy.h"
#include "tap.h"

static struct arena arena;

#define HEX "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA "sha256:" HEX

static void test_full(void) {
    static const struct {
        const char *text, *full, *registry, *path;
    } rows[] = {
        {"busybox", "docker.io/library/busybox:latest", "docker.io", "library/busybox"},
        {"busybox:1.36", "docker.io/library/busybox:1.36", "docker.io", "library/busybox"},
        {"docker.io/busybox", "docker.io/library/busybox:latest", "docker.io", "library/busybox"},
        {"index.docker.io/library/busybox:1", "docker.io/library/busybox:1", "docker.io", "library/busybox"},
        {"org/app", "docker.io/org/app:latest", "docker.io", "org/app"},
        {"org/app@" SHA, "docker.io/org/app@" SHA, "docker.io", "org/app"},
        {"org/app:3@" SHA, "docker.io/org/app@" SHA, "docker.io", "org/app"},
        {"localhost/a", "localhost/a:latest", "localhost", "a"},
        {"localhost:5000/a:b", "localhost:5000/a:b", "localhost:5000", "a"},
        {"127.0.0.1:5000/a/b/c:D_e.f-9", "127.0.0.1:5000/a/b/c:D_e.f-9", "127.0.0.1:5000", "a/b/c"},
        {"Registry.Example.org/a__b/c--d.e_f", "Registry.Example.org/a__b/c--d.e_f:latest", "Registry.Example.org",
         "a__b/c--d.e_f"},
        {"a:5000", "docker.io/library/a:5000", "docker.io", "library/a"},
        {"cafe", "docker.io/library/cafe:latest", "docker.io", "library/cafe"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reference r = {.full = "?"};
        bool good = reference_parse(rows[i].text, &arena, &r);
        ok_about(good && strcmp(r.full, rows[i].full) == 0 && strcmp(r.registry, rows[i].registry) == 0 &&
                     strcmp(r.path, rows[i].path) == 0,
                 rows[i].text, r.full);
        struct reference again;
        ok_about(good && reference_parse(r.full, &arena, &again) && strcmp(again.full, r.full) == 0,
                 "its full form is one", r.full);
    }
}

static void test_refused(void) {
    char longest[REFERENCE_BYTES + 2], tag[140];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    snprintf(tag, sizeof tag, "a:%0129d", 7);
    const char *const bad[] = {
        "",           "-it",         "--privileged", "-a:b",        "a b",
        " a",         "a\n",         "a\tb",         "a;b",         "a|b",
        "a&b",        "a?b",         "a#b",          "a%41",        "a$b",
        "a\\b",       "a'b",         "\xc3\xbc",     "A",           "a/B",
        "A/b",        "a//b",        "/a",           "a/",          "../a",
        "a/../b",     "./a",         "a/.b",         ".a",          "a.",
        "a..b",       "a___b",       "a-",           "_a",          "a._b",
        "a:",         ":a",          "a:-b",         "a:.b",        "a:b:c",
        "a:b/c",      "a@",          "a@b",          "a@sha256:",   "a@sha256:12",
        "a@" SHA "0", "a@SHA256:ba", "@" SHA,        "a@" SHA ":x", "a@" SHA "@" SHA,
        "a.b:port/c", "a.b:/c",      "a.b:123456/c", ".b/c",        "-a.b/c",
        "a.b-/c",     "a..b/c",      "http://a.b/c", "user@a.b/c",  "[::1]:5000/a",
        SHA,          HEX,           longest,        tag,
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct reference r;
        ok_about(!reference_parse(bad[i], &arena, &r), "no name of an image", bad[i]);
    }
    longest[REFERENCE_BYTES] = 0;
    struct reference r;
    ok_about(reference_parse(longest, &arena, &r), "the longest is one", "a...");
}

static void fits(const char *pattern, const char *name, bool want) {
    struct reference r;
    char about[300];
    snprintf(about, sizeof about, "%s %s", pattern, name);
    ok_about(reference_pattern(pattern) && reference_parse(name, &arena, &r) &&
                 reference_fits(pattern, &r, &arena) == want,
             want ? "is meant" : "is not meant", about);
}

static void test_patterns(void) {
    fits("*", "a", true);
    fits("*", "registry.example.org/a/b/c:d", true);
    fits("**", "registry.example.org/a/b/c:d", true);
    fits("busybox", "busybox", true);
    fits("busybox", "busybox:1", true);
    fits("busybox", "docker.io/library/busybox@" SHA, true);
    fits("busybox", "busybox2", false);
    fits("busybox", "org/busybox", false);
    fits("busybox", "registry.example.org/library/busybox", false);
    fits("docker.io/busybox", "busybox:1", true);
    fits("docker.io/*", "org/app", false);
    fits("docker.io/**", "org/app", true);
    fits("docker.io/**", "docker.io.evil.example/org/app", false);
    fits("busybox:1.*", "busybox:1.36", true);
    fits("busybox:1.*", "busybox:2.1", false);
    fits("busybox:*", "busybox", true);
    fits("busybox:*", "busybox@" SHA, false);
    fits("busybox@" SHA, "busybox:3@" SHA, true);
    fits("busybox@" SHA, "busybox:3", false);
    fits("org/*", "org/app:3", true);
    fits("org/*", "org/app/sub:3", false);
    fits("org/**", "org/app/sub:3", true);
    fits("registry.example.org/team/*", "registry.example.org/team/a:1", true);
    fits("registry.example.org/team/*", "registry.example.org/teams/a:1", false);
    fits("registry.example.org/team/*", "evil.example/registry.example.org/team/a:1", false);
    fits("*.example.org/a", "x.example.org/a", true);
    fits("*.example.org/a", "evil.example/x.example.org/a", false);
    fits("*/a", "org/x/a", false);
    fits("127.0.0.1:5000/**", "127.0.0.1:5000/a/b:c", true);
    fits("127.0.0.1:5000/**", "127.0.0.1:50000/a/b:c", false);
    ok_about(!reference_pattern("") && !reference_pattern("-a") && !reference_pattern("a b") &&
                 !reference_pattern("a?"),
             "no patterns", "-a");
    char stars[REFERENCE_BYTES + 1], long_name[REFERENCE_BYTES + 1];
    for (size_t i = 0; i < REFERENCE_BYTES; i++)
        stars[i] = i % 2 ? 'a' : '*';
    memset(long_name, 'a', REFERENCE_BYTES);
    stars[REFERENCE_BYTES] = long_name[REFERENCE_BYTES] = 0;
    stars[REFERENCE_BYTES - 1] = 'b';
    fits(stars, long_name, false); /* at once, whatever the pattern */
}

/* ---- what a request may ask for ---- */

static struct spec spec;
static struct err err;

static int ask(const struct share *share, const char *image, struct container container) {
    struct box_request request = {.template_name = image, .images = true, .container = container};
    spec = (struct spec){.user = "u"};
    return container_spec(share, &request, &arena, &spec, &err);
}

static void test_container(void) {
    static const char *const runtimes[] = {"runsc", NULL}, *const images[] = {"org/**", NULL};
    const struct share plain = {.image = "debian:12"};
    const struct share strict = {
        .image = "debian:12", .images = images, .pull = "never", .runtime = "crun", .runtimes = runtimes};
    static const struct container bad[] = {
        {.user = ""},
        {.user = "-x"},
        {.user = "a b"},
        {.user = "a:"},
        {.user = ":a"},
        {.user = "a:b:c"},
        {.user = "a/b"},
        {.user = "a\nb"},
        {.user = "$(id)"},
        {.runtime = "-x"},
        {.runtime = "a b"},
        {.runtime = "../x"},
        {.runtime = "a/b"},
        {.platform = "linux"},
        {.platform = "linux/"},
        {.platform = "windows/amd64"},
        {.platform = "linux/a&b"},
        {.platform = "linux/arm/v7/x"},
        {.platform = "linux/-a"},
        {.pull = "sometimes"},
        {.pull = ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok_about(ask(&plain, NULL, bad[i]) == -ERR_INVALID, "no such container", err.text);
    ok_about(ask(&plain, NULL, (struct container){0}) == 0 && strcmp(spec.template_name, "debian:12") == 0 &&
                 strcmp(spec.container.pull, "missing") == 0 && !spec.container.runtime && !spec.container.user,
             "nothing asked", "the configuration's");
    ok_about(ask(&plain, "a",
                 (struct container){.user = "1000:1000",
                                    .platform = "linux/arm/v7",
                                    .pull = "always",
                                    .read_only = true,
                                    .image_init = true}) == 0 &&
                 strcmp(spec.container.user, "1000:1000") == 0 &&
                 strcmp(spec.container.platform, "linux/arm/v7") == 0 && strcmp(spec.container.pull, "always") == 0 &&
                 spec.container.read_only && spec.container.image_init,
             "what was asked", "as it is");
    ok_about(ask(&plain, NULL, (struct container){.runtime = "nvidia"}) == -ERR_DENIED, "a runtime must be allowed",
             err.text);
    ok_about(ask(&strict, NULL, (struct container){.runtime = "nvidia"}) == -ERR_DENIED, "by name", err.text);
    ok_about(ask(&strict, NULL, (struct container){.runtime = "runsc"}) == 0 &&
                 strcmp(spec.container.runtime, "runsc") == 0,
             "this is", "runsc");
    ok_about(ask(&strict, "org/a", (struct container){0}) == 0 && strcmp(spec.container.runtime, "crun") == 0 &&
                 strcmp(spec.container.pull, "never") == 0,
             "else it is the configuration's", "crun");
    ok_about(ask(&strict, NULL, (struct container){.pull = "missing"}) == -ERR_DENIED, "never is a rule", err.text);
    ok_about(ask(&strict, "docker.io/debian:12", (struct container){0}) == 0, "the default may be named", "debian:12");
    ok_about(ask(&strict, "other/a", (struct container){0}) == -ERR_DENIED, "a list holds", err.text);
    ok_about(ask(&(struct share){0}, NULL, (struct container){0}) == -ERR_INVALID,
             "without a default an image is named", err.text);
    static const char *const ours[] = {"cubby-0123abcd/layer:x", "docker.io/cubby-0123abcd/a",
                                       "localhost/cubby-0123abcd/a"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        ok_about(ask(&plain, ours[i], (struct container){0}) == -ERR_DENIED, "what a box became is not named", ours[i]);
    ok_about(ask(&plain, "cubby-0123abcd", (struct container){0}) == 0, "this is no such thing", "cubby-0123abcd");
    ok_about(container_none(&(struct container){.image_init = true}, "jail", &err) == -ERR_INVALID &&
                 container_none(&(struct container){0}, "jail", &err) == 0,
             "a jail is no container", "jail");
}

int main(void) {
    arena_init(&arena);
    test_full();
    test_refused();
    test_patterns();
    test_container();
    arena_done(&arena);
    return tap_end();
}
