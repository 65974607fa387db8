/* Names of images. Invariant: two spellings of one image have one full form, so that an allow list means images and not
 * spellings. */
#include "backend/reference.h"

#include <string.h>

enum { TAG_BYTES = 128, DIGEST_HEX = 64 };

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Components of lower-case letters and digits, with one of . _ __ or any number of - between them. */
static bool reference_path(const char *path) {
    for (size_t len;; path += len + 1) {
        len = strcspn(path, "/");
        for (size_t i = 0; i < len;) {
            size_t run = strspn(path + i, LOWER DIGITS), between = 1;
            if (run == 0)
                return false;
            i += run;
            if (i == len)
                break;
            while (path[i + between] == path[i])
                between++;
            if (between > (path[i] == '.' ? 1u : path[i] == '_' ? 2u : path[i] == '-' ? len : 0u))
                return false;
            i += between;
            if (i == len)
                return false;
        }
        if (len == 0 || !path[len])
            return len > 0;
    }
}

static bool reference_host(const char *text) {
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

/* Whether the part before the first '/' is a registry and not part of a path. */
static bool reference_names_registry(const char *text, size_t len) {
    return memchr(text, '.', len) || memchr(text, ':', len) || (len == 9 && memcmp(text, "localhost", 9) == 0);
}

static bool reference_is_hub(const char *registry) {
    return strcmp(registry, REFERENCE_HUB) == 0 || strcmp(registry, "index.docker.io") == 0;
}

static void reference_split(char *text, struct arena *arena, struct reference *reference) {
    char *at = strchr(text, '@'), *slash, *colon;
    if (at)
        *at = 0, reference->digest = at + 1;
    slash = strrchr(text, '/');
    colon = strchr(slash ? slash : text, ':');
    if (colon)
        *colon = 0, reference->tag = colon + 1;
    slash = strchr(text, '/');
    if (slash && reference_names_registry(text, (size_t)(slash - text))) {
        *slash = 0;
        reference->registry = text;
        text = slash + 1;
    }
    reference->path = text;
    if (!reference->registry || reference_is_hub(reference->registry)) {
        reference->registry = REFERENCE_HUB;
        if (!strchr(text, '/'))
            reference->path = arena_printf(arena, "library/%s", text);
    }
}

bool reference_parse(const char *text, struct arena *arena, struct reference *ret_reference) {
    struct reference reference = {0};
    size_t hex = strspn(text, DIGITS "abcdef");
    if (strlen(text) > REFERENCE_BYTES || strncmp(text, "sha256:", 7) == 0 || (hex == DIGEST_HEX && !text[hex]))
        return false; /* too long, or wherever a name can be an id it would be one */
    reference_split(arena_strdup(arena, text), arena, &reference);
    const char *tag = reference.tag, *digest = reference.digest;
    if (!reference_host(reference.registry) || !reference_path(reference.path))
        return false;
    if (tag &&
        (!*tag || strlen(tag) > TAG_BYTES || tag[0] == '.' || tag[0] == '-' || tag[strspn(tag, LETTERS DIGITS "_.-")]))
        return false;
    if (digest && (strncmp(digest, "sha256:", 7) != 0 || strlen(digest + 7) != DIGEST_HEX ||
                   strspn(digest + 7, DIGITS "abcdef") != DIGEST_HEX))
        return false;
    if (digest)
        reference.tag = NULL; /* as engines do: the digest is enough */
    else if (!tag)
        reference.tag = "latest";
    reference.name = arena_printf(arena, "%s/%s", reference.registry, reference.path);
    reference.full = digest ? arena_printf(arena, "%s@%s", reference.name, digest)
                            : arena_printf(arena, "%s:%s", reference.name, reference.tag);
    *ret_reference = reference;
    return true;
}

/* ---- allow lists ---- */

bool reference_pattern(const char *text) {
    size_t len = strlen(text);
    return len > 0 && len <= REFERENCE_BYTES && text[0] != '-' && strspn(text, LETTERS DIGITS "._-/:@*") == len;
}

/* `*` is any run of characters without '/', `**` any run. ends[i]: what was read of the pattern can be the first i
 * bytes. */
static bool reference_matches(const char *pattern, const char *text) {
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
static const char *reference_pattern_full(const char *pattern, struct arena *arena) {
    const char *slash = strchr(pattern, '/');
    size_t first = slash ? (size_t)(slash - pattern) : 0;
    if (pattern[0] == '*')
        return pattern[1] ? pattern : "**";
    if (!slash)
        return arena_printf(arena, REFERENCE_HUB "/library/%s", pattern);
    if (!reference_names_registry(pattern, first))
        return arena_printf(arena, REFERENCE_HUB "/%s", pattern);
    bool hub = reference_is_hub(arena_copy(arena, pattern, first));
    bool library = hub && !strchr(slash + 1, '/') && slash[1] != '*';
    return hub ? arena_printf(arena, REFERENCE_HUB "/%s%s", library ? "library/" : "", slash + 1) : pattern;
}

bool reference_fits(const char *pattern, const struct reference *reference, struct arena *arena) {
    const char *slash = strrchr(pattern, '/');
    bool every = !strchr(slash ? slash : pattern, ':') && !strchr(pattern, '@');
    return reference_matches(reference_pattern_full(pattern, arena), every ? reference->name : reference->full);
}
