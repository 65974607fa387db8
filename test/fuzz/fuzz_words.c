/* Any bytes as a command: it is read or refused within bounds, what is read is sound, and the guard says the same twice. */
#include <assert.h>
#include <string.h>

#include "tool/guard/guard.h"
#include "tool/guard/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct script *script, unsigned depth) {
    assert(depth < 4 * WORDS_DEPTH);
    for (; script; script = script->next)
        for (const struct command *command = script->commands; command; command = command->next) {
            for (const struct word *word = command->words; word; word = word->next) {
                assert(strlen(word->text) == word->len && word->plain <= word->len);
                look(word->inside, depth + 1);
            }
            for (const struct redirect *redirect = command->redirects; redirect; redirect = redirect->next)
                assert(strlen(redirect->target.text) == redirect->target.len);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const allow[] = {"ls", "cat", "sh", NULL};
    static const struct guard_policy policies[] = {
        {.mode = GUARD_BLOCKS, .absolute_paths = true, .parents = true},
        {.mode = GUARD_AUDIT, .allow = allow},
    };
    struct guard_verdict first, again;
    struct err err = {0};
    const struct script *script;
    autoarena arena = ARENA_EMPTY;
    char *text = arena_copy(&arena, data, size);
    if (words_parse(&arena, text, size, &script, &err) == 0)
        look(script, 0);
    else
        assert(err.text[0]);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        guard_judge(&policies[i], &arena, text, size, "/workspace", &first);
        guard_judge(&policies[i], &arena, text, size, "/workspace", &again);
        assert(first.risk == again.risk && !strcmp(first.reason, again.reason));
        assert((first.risk == GUARD_PASS) == !first.reason[0]);
    }
    return 0;
}
