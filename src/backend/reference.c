/* Names of images. Invariant: two spellings of one image have one full form, so that an allow list means images and not
 * spellings. */
#include "backend/reference.h"

#include <string.h>

enum { TAG_BYTES = 128, DIGEST_HEX = 64 };

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool lower_digit(char c) {
    return c && strchr(LOWER DIGITS, c);
}

/* Lower-case letters and digits, with one of . _ __ or any number of - between them. */
static bool path_component(const char *text, size_t len) {
    if (!len || !lower_digit(text[0]) || !lower_digit(text[len - 1]))
        return false;
    for (size_t i = 1; i < len; i++) {
        if (lower_digit(text[i]))
            continue;
        size_t run = 1;
        while (text[i + run] == text[i])
            run++;
        size_t most = text[i] == '.' ? 1 : text[i] == '_' ? 2 : text[i] == '-' ? len : 0;
        if (run > most || !lower_digit(text[i + run]))
            return false;
        i += run;
    }
    return true;
}

static bool path_whole(const char *path) {
    for (;; path++) {
        size_t len = strcspn(path, "/");
        if (!path_component(path, len))
            return false;
        path += len;
        if (!*path)
            return true;
    }
}

static bool host_whole(const char *text) {
    size_t len = strcspn(text, ":");
    for (size_t i = 0; i < len; i++) {
        bool inner = i > 0 && i + 1 < len && text[i - 1] != '.' && text[i + 1] != '.';
        if (!strchr(LETTERS DIGITS, text[i]) && !(inner && (text[i] == '-' || text[i] == '.')))
            return false;
    }
    if (!text[len])
        return len > 0;
    size_t port = strspn(text + len + 1, DIGITS);
    return len > 0 && port > 0 && port <= 5 && !text[len + 1 + port];
}

static bool tag_whole(const char *tag) {
    size_t len = strlen(tag);
    return len > 0 && len <= TAG_BYTES && tag[0] != '.' && tag[0] != '-' && strspn(tag, LETTERS DIGITS "_.-") == len;
}

static bool digest_whole(const char *digest) {
    return strncmp(digest, "sha256:", 7) == 0 && strlen(digest + 7) == DIGEST_HEX &&
           strspn(digest + 7, DIGITS "abcdef") == DIGEST_HEX;
}

/* Whether what stands before the first '/' is a registry and no part of a path. */
static bool names_registry(const char *text, size_t len) {
    return memchr(text, '.', len) || memchr(text, ':', len) || (len == 9 && memcmp(text, "localhost", 9) == 0);
}

static bool is_hub(const char *registry) {
    return strcmp(registry, REFERENCE_HUB) == 0 || strcmp(registry, "index.docker.io") == 0;
}

/* What would be an id of an image wherever a name can be one. */
static bool names_id(const char *text) {
    return strncmp(text, "sha256:", 7) == 0 ||
           (strlen(text) == DIGEST_HEX && strspn(text, DIGITS "abcdef") == DIGEST_HEX);
}

static void split(char *text, struct arena *arena, struct reference *reference) {
    char *at = strchr(text, '@'), *slash, *colon;
    if (at)
        *at = 0, reference->digest = at + 1;
    slash = strrchr(text, '/');
    colon = strchr(slash ? slash : text, ':');
    if (colon)
        *colon = 0, reference->tag = colon + 1;
    slash = strchr(text, '/');
    if (slash && names_registry(text, (size_t)(slash - text))) {
        *slash = 0;
        reference->registry = text;
        text = slash + 1;
    }
    reference->path = text;
    if (!reference->registry || is_hub(reference->registry)) {
        reference->registry = REFERENCE_HUB;
        if (!strchr(text, '/'))
            reference->path = arena_printf(arena, "library/%s", text);
    }
}

bool reference_parse(const char *text, struct arena *arena, struct reference *ret_reference) {
    struct reference reference = {0};
    if (strlen(text) > REFERENCE_BYTES || names_id(text))
        return false;
    split(arena_strdup(arena, text), arena, &reference);
    if (!host_whole(reference.registry) || !path_whole(reference.path) ||
        (reference.tag && !tag_whole(reference.tag)) || (reference.digest && !digest_whole(reference.digest)))
        return false;
    if (reference.digest)
        reference.tag = NULL; /* as engines do: the digest says it all */
    else if (!reference.tag)
        reference.tag = "latest";
    reference.name = arena_printf(arena, "%s/%s", reference.registry, reference.path);
    reference.full = reference.digest ? arena_printf(arena, "%s@%s", reference.name, reference.digest)
                                      : arena_printf(arena, "%s:%s", reference.name, reference.tag);
    *ret_reference = reference;
    return true;
}

/* ---- allow lists ---- */

bool reference_pattern(const char *text) {
    size_t len = strlen(text);
    return len > 0 && len <= REFERENCE_BYTES && text[0] != '-' && strspn(text, LETTERS DIGITS "._-/:@*") == len;
}

/* `*` is any run of characters without '/', `**` any run. ends[i]: what was read of the pattern can be the first i bytes. */
static bool fits(const char *pattern, const char *text) {
    bool ends[2 * REFERENCE_BYTES] = {true};
    size_t len = strlen(text);
    if (len >= sizeof ends / sizeof *ends)
        return false;
    for (; *pattern; pattern++) {
        bool any = pattern[0] == '*' && pattern[1] == '*';
        bool star = pattern[0] == '*';
        if (star)
            for (size_t i = 0; i < len; i++)
                ends[i + 1] |= ends[i] && (any || text[i] != '/');
        else
            for (size_t i = len + 1; i-- > 0;)
                ends[i] = i > 0 && ends[i - 1] && text[i - 1] == *pattern;
        pattern += any;
    }
    return ends[len];
}

/* The full form of a pattern; one that begins with `*` is whole as it is. */
static const char *pattern_full(const char *pattern, struct arena *arena) {
    const char *slash = strchr(pattern, '/');
    size_t first = slash ? (size_t)(slash - pattern) : 0;
    if (pattern[0] == '*')
        return pattern[1] ? pattern : "**";
    if (!slash)
        return arena_printf(arena, REFERENCE_HUB "/library/%s", pattern);
    if (!names_registry(pattern, first))
        return arena_printf(arena, REFERENCE_HUB "/%s", pattern);
    bool hub = is_hub(arena_copy(arena, pattern, first));
    bool library = hub && !strchr(slash + 1, '/') && slash[1] != '*';
    return hub ? arena_printf(arena, REFERENCE_HUB "/%s%s", library ? "library/" : "", slash + 1) : pattern;
}

bool reference_fits(const char *pattern, const struct reference *reference, struct arena *arena) {
    const char *slash = strrchr(pattern, '/');
    bool every = !strchr(slash ? slash : pattern, ':') && !strchr(pattern, '@');
    return fits(pattern_full(pattern, arena), every ? reference->name : reference->full);
}
