/* The glob matcher. Called by op_glob and op_grep for every name of a traversal. Invariant: the work of a step is at
 * most (parts x name x part length), without recursion, and no pattern multiplies it; any bytes may be a pattern. */
#include "base/base.h"
#include "runner/ops/globmatch.h"

enum { ALTERNATIVES_MAX = 128 };

struct expand { /* alternatives not split or finished yet */
    char *items[ALTERNATIVES_MAX];
    size_t count, bytes;
};

static const char *globmatch_expand_braces(struct expand *expand, const char *before, const char *pattern, size_t len);
static const char *globmatch_add_alternative(struct glob *glob, char *text);
static bool globmatch_name_match(const char *pattern, size_t pattern_len, const char *name, size_t name_len);

/* Cuts the expanded pattern into parts. */
static const char *globmatch_glob_finish(struct glob *glob, struct expand *expand, const char *why) {
    glob->text = xmalloc(expand->bytes + expand->count + 1);
    char *at = glob->text;
    for (size_t i = 0; i < expand->count; i++) {
        size_t item = strlen(expand->items[i]);
        memcpy(at, expand->items[i], item + 1);
        if (!why)
            why = globmatch_add_alternative(glob, at);
        at += item + 1;
        free(expand->items[i]);
    }
    if (why)
        glob_done(glob);
    return why;
}

const char *glob_compile(struct glob *glob, const char *pattern, size_t len) {
    memset(glob, 0, sizeof *glob);
    if (len == 0)
        return "the pattern is empty";
    if (memchr(pattern, 0, len))
        return "the pattern contains a NUL byte";
    struct expand expand = {0};
    return globmatch_glob_finish(glob, &expand, globmatch_expand_braces(&expand, "", pattern, len));
}

const char *glob_compile_any(struct glob *glob, const char *const *patterns, size_t count, const char **ret_bad) {
    memset(glob, 0, sizeof *glob);
    struct expand expand = {0};
    const char *why = count ? NULL : "the pattern is missing";
    for (size_t i = 0; i < count && !why; i++) {
        *ret_bad = patterns[i];
        const char *slash = strchr(patterns[i], '/');
        why = *patterns[i] ? NULL : "the pattern is empty";
        if (!why)
            why = globmatch_expand_braces(&expand, slash && slash[1] ? "" : "**/", patterns[i], strlen(patterns[i]));
    }
    return globmatch_glob_finish(glob, &expand, why);
}

void glob_done(struct glob *glob) {
    free(glob->text);
    glob->text = NULL;
    glob->count = 0;
}

/* ---- compiling ---- */

/* Returns the byte after a "[...]" that begins at text[at], or `at` if it is not closed (then '[' is literal). */
static size_t globmatch_class_end(const char *text, size_t len, size_t at) {
    size_t i = at + 1;
    if (i < len && (text[i] == '!' || text[i] == '^'))
        i++;
    for (bool first = true; i < len && text[i] != '/'; i++, first = false) {
        if (text[i] == ']' && !first)
            return i + 1;
        if (text[i] == '\\' && i + 1 < len)
            i++;
    }
    return at;
}

/* Finds the first top-level "{a,b}": its start and end (after '}'). false: no such group. */
static bool globmatch_find_brace(const char *text, size_t len, size_t *ret_begin, size_t *ret_end) {
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == '[') {
            size_t end = globmatch_class_end(text, len, i);
            i = end > i ? end - 1 : i;
        } else if (text[i] == '{') {
            size_t depth = 0;
            bool comma = false;
            for (size_t j = i; j < len; j++) {
                if (text[j] == '\\')
                    j++;
                else if (text[j] == '{')
                    depth++;
                else if (text[j] == ',' && depth == 1)
                    comma = true;
                else if (text[j] == '}' && --depth == 0) {
                    *ret_begin = i;
                    *ret_end = j + 1;
                    if (comma)
                        return true;
                    break;
                }
            }
        }
    }
    return false;
}

static const char *globmatch_push(struct expand *expand, const char *head, size_t head_len, const char *middle,
                                  size_t middle_len, const char *tail, size_t tail_len) {
    size_t len = head_len + middle_len + tail_len;
    if (expand->count == ALTERNATIVES_MAX || expand->bytes + len > GLOB_BYTES)
        return "the pattern has too many alternatives";
    char *text = xmalloc(len + 1);
    memcpy(text, head, head_len);
    memcpy(text + head_len, middle, middle_len);
    memcpy(text + head_len + middle_len, tail, tail_len);
    text[len] = 0;
    expand->items[expand->count++] = text;
    expand->bytes += len;
    return NULL;
}

/* Replaces one item by one item for each alternative of its first brace. */
static const char *globmatch_split_brace(struct expand *expand, size_t index, size_t begin, size_t end) {
    char *text = expand->items[index];
    size_t len = strlen(text), from = begin + 1, depth = 0;
    const char *why = NULL;
    expand->items[index] = expand->items[--expand->count];
    expand->bytes -= len;
    for (size_t i = begin; i < end && !why; i++) {
        if (text[i] == '\\') {
            i++;
            continue;
        }
        depth += text[i] == '{';
        if ((text[i] == ',' && depth == 1) || i + 1 == end) {
            why = globmatch_push(expand, text, begin, text + from, i - from, text + end, len - end);
            from = i + 1;
        }
        depth -= text[i] == '}';
    }
    free(text);
    return why;
}

static const char *globmatch_expand_braces(struct expand *expand, const char *before, const char *pattern, size_t len) {
    size_t first = expand->count;
    const char *why = globmatch_push(expand, before, strlen(before), pattern, len, "", 0);
    for (size_t i = first; i < expand->count && !why;) {
        size_t begin, end;
        if (globmatch_find_brace(expand->items[i], strlen(expand->items[i]), &begin, &end))
            why = globmatch_split_brace(expand, i, begin, end);
        else
            i++;
    }
    return why;
}

static bool globmatch_has_special(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (strchr("*?[\\", text[i]))
            return true;
    return false;
}

static enum glob_kind globmatch_part_kind(const char *text, size_t len) {
    if (!globmatch_has_special(text, len))
        return GLOB_LITERAL;
    if (len == 1 && text[0] == '*')
        return GLOB_ANY;
    if (len == 2 && text[0] == '*' && text[1] == '*')
        return GLOB_DEEP;
    if (text[0] == '*' && !globmatch_has_special(text + 1, len - 1))
        return GLOB_SUFFIX;
    return GLOB_GENERAL;
}

static const char *globmatch_add_part(struct glob *glob, const char *text, size_t len) {
    if (len == 2 && memcmp(text, "..", 2) == 0)
        return "the pattern contains '..'";
    enum glob_kind kind = globmatch_part_kind(text, len);
    if (glob->count == GLOB_PARTS)
        return "the pattern has too many parts";
    size_t skip = kind == GLOB_SUFFIX;
    glob->parts[glob->count++] = (struct glob_part){.kind = kind, .text = text + skip, .len = (uint32_t)(len - skip)};
    return NULL;
}

static void globmatch_set_bit(struct glob_state *state, size_t bit) {
    state->bits[bit / 64] |= 1ull << (bit % 64);
}

/* "**" may match nothing: then the part after it is reached as well. */
static void globmatch_reach(const struct glob *glob, struct glob_state *state, size_t part) {
    globmatch_set_bit(state, part);
    while (glob->parts[part].kind == GLOB_DEEP && !glob->parts[part].last)
        globmatch_set_bit(state, ++part);
}

static const char *globmatch_add_alternative(struct glob *glob, char *text) {
    size_t first = glob->count;
    for (char *at = text; *at;) {
        size_t len = strcspn(at, "/");
        bool deep_again = glob->count > first && len == 2 && memcmp(at, "**", 2) == 0 &&
                          glob->parts[glob->count - 1].kind == GLOB_DEEP;
        if (len > 0 && !(len == 1 && *at == '.') && !deep_again) {
            const char *why = globmatch_add_part(glob, at, len);
            if (why)
                return why;
        }
        glob->dirs_only = at[len] == '/' && at[len + 1] == 0;
        at += len + (at[len] == '/');
    }
    if (glob->count == first)
        return "the pattern matches nothing";
    glob->parts[glob->count - 1].last = true;
    globmatch_reach(glob, &glob->start, first);
    return NULL;
}

/* ---- matching ---- */

static bool globmatch_part_match(const struct glob_part *part, const char *name, size_t len) {
    switch (part->kind) {
    case GLOB_LITERAL:
        return part->len == len && memcmp(part->text, name, len) == 0;
    case GLOB_ANY:
    case GLOB_DEEP:
        return true;
    case GLOB_SUFFIX:
        return len >= part->len && memcmp(name + len - part->len, part->text, part->len) == 0;
    case GLOB_GENERAL:
        break;
    }
    return globmatch_name_match(part->text, part->len, name, len);
}

bool glob_step(const struct glob *glob, const struct glob_state *state, const char *name, size_t len,
               struct glob_state *ret_next) {
    bool matched = false;
    if (ret_next)
        memset(ret_next, 0, sizeof *ret_next);
    bool dot = glob->visible && len && name[0] == '.';
    for (size_t word = 0; word * 64 < glob->count; word++) {
        for (uint64_t bits = state->bits[word]; bits; bits &= bits - 1) {
            size_t i = word * 64 + (size_t)__builtin_ctzll(bits);
            const struct glob_part *part = &glob->parts[i];
            /* Whether the part itself begins with a dot. */
            if ((part->last && matched && !ret_next) ||
                (dot && !(part->kind == GLOB_LITERAL || (part->kind == GLOB_GENERAL && part->text[0] == '.'))) ||
                !globmatch_part_match(part, name, len))
                continue;
            matched |= part->last;
            if (ret_next && part->kind == GLOB_DEEP)
                globmatch_reach(glob, ret_next, i);
            else if (ret_next && !part->last)
                globmatch_reach(glob, ret_next, i + 1);
        }
    }
    return matched;
}

bool glob_alive(const struct glob_state *state) {
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof state->bits / sizeof *state->bits; i++)
        any |= state->bits[i];
    return any != 0;
}

bool glob_match(const struct glob *glob, const char *path) {
    struct glob_state state = glob->start, next;
    for (;;) {
        size_t len = strcspn(path, "/");
        bool matched = glob_step(glob, &state, path, len, &next);
        if (path[len] == 0)
            return matched;
        state = next;
        path += len + 1;
    }
}

bool glob_covers(const struct glob *glob, const char *path) {
    struct glob_state state = glob->start, next;
    for (;;) {
        size_t len = strcspn(path, "/");
        if (glob_step(glob, &state, path, len, &next))
            return true;
        if (path[len] == 0)
            return false;
        state = next;
        path += len + 1;
    }
}

/* ---- many names ---- */

static void globmatch_byte_add(uint64_t set[4], char byte) {
    set[(uint8_t)byte / 64] |= 1ull << ((uint8_t)byte % 64);
}

static bool globmatch_byte_in(const uint64_t set[4], char byte) {
    return set[(uint8_t)byte / 64] >> ((uint8_t)byte % 64) & 1;
}

const char *glob_names_compile(struct glob_names *names, const char *pattern, size_t len) {
    memset(names, 0, sizeof *names);
    const char *why = glob_compile(&names->glob, pattern, len);
    for (size_t i = 0; !why && i < names->glob.count; i++) {
        const struct glob_part *part = &names->glob.parts[i];
        bool begins =
            part->len && (part->kind == GLOB_LITERAL || part->kind == GLOB_GENERAL) && !strchr("*?[\\", part->text[0]);
        if (begins)
            globmatch_byte_add(names->first, part->text[0]);
        else if (part->kind == GLOB_SUFFIX && part->len)
            globmatch_byte_add(names->last, part->text[part->len - 1]);
        else
            names->any = true;
    }
    return why;
}

bool glob_names_match(const struct glob_names *names, const char *name, size_t len) {
    bool maybe = names->any ||
                 (len && (globmatch_byte_in(names->first, name[0]) || globmatch_byte_in(names->last, name[len - 1])));
    return maybe && glob_step(&names->glob, &names->glob.start, name, len, NULL);
}

/* Returns the bytes of the UTF-8 character at text, 1 if it is invalid. */
static size_t globmatch_character(const char *text, size_t len) {
    unsigned char c = (unsigned char)*text;
    size_t want = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    if (c >= 0xf8 || want > len)
        return 1;
    for (size_t i = 1; i < want; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 1;
    return want;
}

static uint32_t globmatch_character_value(const char *text, size_t len) {
    uint32_t value = 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | (unsigned char)text[i];
    return value;
}

static bool globmatch_class_match(const char *class, size_t end, uint32_t value) {
    size_t i = 1, step;
    bool negated = class[i] == '!' || class[i] == '^', found = false;
    i += negated;
    for (bool first = true; i < end - 1 || (first && i < end); first = false) {
        i += class[i] == '\\' && i + 1 < end - 1;
        step = globmatch_character(class + i, end - i);
        uint32_t low = globmatch_character_value(class + i, step), high = low;
        i += step;
        if (i + 1 < end - 1 && class[i] == '-') {
            i++;
            i += class[i] == '\\' && i + 1 < end - 1;
            step = globmatch_character(class + i, end - i);
            high = globmatch_character_value(class + i, step);
            i += step;
        }
        found |= value >= low && value <= high;
    }
    return found != negated;
}

/* Matches one item of the pattern (not '*') at name. Returns the bytes of name used, 0 for no match. */
static size_t globmatch_item_match(const char *pattern, size_t len, size_t *ret_item, const char *name,
                                   size_t name_len) {
    *ret_item = 1;
    size_t taken = globmatch_character(name, name_len);
    if (*pattern == '?')
        return taken;
    if (*pattern == '[') {
        size_t end = globmatch_class_end(pattern, len, 0);
        if (end > 0) {
            *ret_item = end;
            return globmatch_class_match(pattern, end, globmatch_character_value(name, taken)) ? taken : 0;
        }
    }
    if (*pattern == '\\' && len > 1) {
        *ret_item = 2;
        return pattern[1] == *name;
    }
    return *pattern == *name;
}

/* Only returns to the last star: going back to an earlier one could not help. */
static bool globmatch_name_match(const char *pattern, size_t pattern_len, const char *name, size_t name_len) {
    size_t p = 0, n = 0, star = SIZE_MAX, star_name = 0;
    while (n < name_len || p < pattern_len) {
        if (p < pattern_len && pattern[p] == '*') {
            star = ++p;
            star_name = n;
            continue;
        }
        size_t item = 0, taken = 0;
        if (p < pattern_len && n < name_len)
            taken = globmatch_item_match(pattern + p, pattern_len - p, &item, name + n, name_len - n);
        if (taken > 0) {
            p += item;
            n += taken;
        } else if (star != SIZE_MAX && star_name < name_len) {
            star_name += globmatch_character(name + star_name, name_len - star_name);
            n = star_name;
            p = star;
        } else {
            return false;
        }
    }
    return true;
}
