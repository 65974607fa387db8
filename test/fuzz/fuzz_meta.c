/* Any bytes as the head of a skill or a sub-agent: it is read, what is read is UTF-8 within bounds, and twice the same. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "skill/catalog/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sound(const char *text, size_t max) {
    assert(!text || (strlen(text) <= max && text_utf8(text, strlen(text))));
}

static void look(const struct meta *meta, size_t size) {
    assert(meta->name && meta->description && meta->body);
    sound(meta->name, 256);
    sound(meta->description, 4096);
    sound(meta->author, 256);
    sound(meta->version, 256);
    sound(meta->license, 256);
    sound(meta->model, 256);
    sound(meta->sharing, 256);
    sound(meta->body, 3 * size);
    for (const char *const *item = meta->tags; item && *item; item++)
        sound(*item, 256);
    for (const char *const *item = meta->tools; item && *item; item++)
        sound(*item, 256);
    assert(!strpbrk(meta->name, "\n\t\r\033"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *why = NULL;
    struct meta meta, again;
    autoarena arena = ARENA_EMPTY;
    meta_skill(&arena, "folder", text, size, &meta);
    look(&meta, size);
    meta_skill(&arena, "folder", text, size, &again);
    assert(!strcmp(meta.name, again.name) && !strcmp(meta.description, again.description));
    meta_heading(&arena, "folder", text, size, &meta);
    look(&meta, size);
    if (meta_agent(&arena, "file.md", text, size, &meta, &why)) {
        look(&meta, size);
        assert(!strpbrk(meta.name, " <>&/.\"'"));
    } else
        assert(why && *why);
    return 0;
}
