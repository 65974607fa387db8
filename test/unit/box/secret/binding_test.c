/* Placeholders: as long as the value, with its prefix, random, and none of the rest of it. */
#include "box/secret/binding.h"

#include "base/base.h"
#include "tap.h"

static const char *made(const char *value, const char *prefix, struct arena *arena) {
    autobuf out = buf_max(LIMIT_SECRET_VALUE_BYTES + 64);
    placeholder_make(value, strlen(value), prefix, &out);
    return arena_copy(arena, out.data, out.len);
}

static void test_shape(void) {
    static const struct {
        const char *value, *prefix, *begins;
        size_t len;
    } cases[] = {
        {"ghp_0123456789abcdefghijklmnopqrstuvwxyz", NULL, "ghp_cubbyX", 40},
        {"sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH", NULL, "sk-ant-api03-cubbyX", 45},
        {"sk-proj-AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH", NULL, "sk-proj-cubbyX", 40},
        {"acme-AAAABBBBCCCCDDDDEEEEFFFFGGGG", "acme-", "acme-cubbyX", 33},
        {"AAAABBBBCCCCDDDDEEEEFFFFGGGG", "acme-", "cubbyX", 28},
        {"short-one", NULL, "cubbyX", 40},
        {"ghp_short1", NULL, "ghp_cubbyX", 40},
        {"AAAABBBBCCCCDDDDEEEEFFFF", NULL, "cubbyX", 24},
        {"a-b-c-d-e-f-g-h-i-j-k-l-m-n", NULL, "cubbyX", 40},
    };
    autoarena arena = ARENA_EMPTY;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = made(cases[i].value, cases[i].prefix, &arena);
        const char *other = made(cases[i].value, cases[i].prefix, &arena);
        ok_all(cases[i].value, strlen(text) == cases[i].len,
               strncmp(text, cases[i].begins, strlen(cases[i].begins)) == 0, strcmp(text, other) != 0,
               strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == strlen(text));
    }
    const char *token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
    const char *jwt = made(token, NULL, &arena);
    ok(strlen(jwt) == strlen(token) && strcspn(jwt, ".") == strcspn(token, ".") &&
           strrchr(jwt, '.') - jwt == strrchr(token, '.') - token && strcspn(jwt, "_") == strcspn(token, "_"),
       "dots and underscores stay where they are");
    const char *plain = made("abcd+efg/hij=klm=nop+qrs/tuv=wxyz", NULL, &arena);
    ok(!strpbrk(plain, "+/="), "what would be encoded otherwise does not");
}

static void test_again(void) {
    autoarena arena = ARENA_EMPTY;
    const char *first = made("ghp_0123456789abcdefghij-lmnopqrstuvwxyz", NULL, &arena);
    const char *second = placeholder_again(first, &arena);
    ok_all("another of the same shape", strlen(first) == strlen(second), strncmp(first, second, 10) == 0,
           strcmp(first, second) != 0, second[24] == '-');
    const char *texts[] = {text_make(128, "hub=HUB=%s", first), NULL};
    const char **forked = bindings_again(texts, &arena);
    struct binding binding = {0};
    ok_all("a fork has the secret by name", binding_parse(forked[0], &arena, &binding), !strcmp(binding.secret, "hub"),
           !strcmp(binding.variable, "HUB"), strcmp(binding.placeholder, first) != 0, !forked[1]);
    ok(!binding_parse("hub=HUB", &arena, &binding) && !binding_parse("hub=HUB=plain", &arena, &binding),
       "what is not a binding is none");
    is(binding_variable("github-token", &arena), "GITHUB_TOKEN", "the variable of a name");
    is(binding_variable("2nd.key", &arena), "_2ND_KEY", "which begins with no digit");
}

int main(void) {
    test_shape();
    test_again();
    return tap_end();
}
