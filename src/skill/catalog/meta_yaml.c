/* The reader of front matter. Called by meta only. libyaml gets each key with its value separately, so that one that
 * YAML refuses does not spoil the others; that one is read as plain lines. Invariant: it never fails; anything else is
 * read as plain text or skipped. libyaml takes quadratic time for some texts, so it is called at most YAML_TRIES times,
 * with at most YAML_BYTES and YAML_DEPTH. */
#include <yaml.h>

#include "base/base.h"
#include "skill/catalog/meta_yaml.h"

enum { YAML_TRIES = 200, YAML_BYTES = 8 << 10, YAML_DEPTH = 16 }; /* BYTES: of one key and its value */

struct yaml_line {
    const char *text; /* without leading blanks */
    size_t len, indent;
};

struct yaml {
    struct arena *arena;
    struct yaml_line *lines;
    size_t count, tries;
    const char *parent;
    void (*each)(void *user, const char *parent, const char *key, const struct yaml_value *value);
    void *user;
};

/* ---- lines ---- */

static bool yaml_blank(char c) {
    return c == ' ' || c == '\t';
}

static size_t yaml_trimmed(const char *text, size_t len) {
    while (len && yaml_blank(text[len - 1]))
        len--;
    return len;
}

size_t yaml_key(const char *line, size_t len, size_t *ret_value) {
    size_t key = 0;
    while (key < len && (line[key] == '-' || line[key] == '_' || (line[key] >= '0' && line[key] <= '9') ||
                         ((line[key] | 0x20) >= 'a' && (line[key] | 0x20) <= 'z')))
        key++;
    size_t at = key;
    while (at < len && yaml_blank(line[at]))
        at++;
    if (!key || line[0] == '-')
        return 0;
    if (at < len && line[at] == ':')
        at++;
    else if (len - at >= 3 && memcmp(line + at, "：", 3) == 0)
        at += 3;
    else
        return 0;
    while (at < len && yaml_blank(line[at]))
        at++;
    *ret_value = at;
    return key;
}

static bool yaml_skipped(const struct yaml_line *line) {
    return !line->len || line->text[0] == '#';
}

/* Returns the length of a plain text before its comment. */
static size_t yaml_plain(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (text[i] == '#' && (!i || yaml_blank(text[i - 1])))
            return yaml_trimmed(text, i);
    return yaml_trimmed(text, len);
}

static bool yaml_dash(const struct yaml_line *line) {
    return line->len && line->text[0] == '-' && (line->len == 1 || yaml_blank(line->text[1]));
}

/* ---- values ---- */

static void yaml_one(struct yaml *yaml, const char *key, const char *text) {
    struct yaml_value value = {.text = strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ? "" : text};
    yaml->each(yaml->user, yaml->parent, key, &value);
}

struct yaml_items {
    const char **items;
    size_t count, cap;
};

static void yaml_item(struct yaml_items *items, const char *text) {
    vec_reserve(items->items, items->count, items->cap, 2);
    items->items[items->count] = text;
    items->count += *text != 0;
    items->items[items->count] = NULL;
}

static void yaml_listed(struct yaml *yaml, const char *key, struct yaml_items *items) {
    autobuf out = buf_max(YAML_BYTES);
    yaml_item(items, "");
    for (size_t i = 0; i < items->count; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", items->items[i]);
    struct yaml_value value = {.text = arena_copy(yaml->arena, out.data, out.len), .items = items->items};
    yaml->each(yaml->user, yaml->parent, key, &value);
    free(items->items);
}

/* ---- YAML ---- */

static const char *yaml_scalar(struct yaml *yaml, const yaml_node_t *node) {
    if (!node || node->type != YAML_SCALAR_NODE || strcmp((const char *)node->tag, YAML_STR_TAG) != 0)
        return NULL;
    return arena_copy(yaml->arena, node->data.scalar.value, node->data.scalar.length);
}

/* Reads a text, a list of texts or, at the top, keys with such values. Returns false for anything else. */
static bool yaml_node(struct yaml *yaml, yaml_document_t *document, int index, const char *key) {
    const yaml_node_t *node = yaml_document_get_node(document, index);
    const char *text = yaml_scalar(yaml, node);
    struct yaml_items items = {0};
    if (text) {
        yaml_one(yaml, key, text);
    } else if (node && node->type == YAML_SEQUENCE_NODE) {
        for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
             item++)
            if (!(text = yaml_scalar(yaml, yaml_document_get_node(document, *item))))
                return free(items.items), false;
            else
                yaml_item(&items, text);
        yaml_listed(yaml, key, &items);
    } else if (node && node->type == YAML_MAPPING_NODE && !*yaml->parent) {
        yaml->parent = key;
        for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
            if ((text = yaml_scalar(yaml, yaml_document_get_node(document, pair->key))))
                yaml_node(yaml, document, pair->value, text);
        yaml->parent = "";
    } else
        return false;
    return true;
}

/* Parses the lines [at, end) as a key with a value that begins with `value`. */
static bool yaml_strict(struct yaml *yaml, const char *key, const char *value, size_t len, size_t at, size_t end) {
    autobuf text = buf_max(YAML_BYTES);
    yaml_parser_t parser;
    yaml_document_t document;
    buf_printf(&text, "%*s%s: %.*s\n", (int)yaml->lines[at].indent, "", key, (int)len, value);
    for (size_t i = at + 1; i < end; i++)
        buf_printf(&text, "%*s%.*s\n", (int)yaml->lines[i].indent, "", (int)yaml->lines[i].len, yaml->lines[i].text);
    size_t depth = 0; /* of brackets: libyaml scans all open ones for each new one */
    for (size_t i = 0; i < text.len && depth <= YAML_DEPTH; i++) {
        depth += text.data[i] == '[' || text.data[i] == '{';
        depth -= depth && (text.data[i] == ']' || text.data[i] == '}');
    }
    if (text.failed || depth > YAML_DEPTH || yaml->tries++ >= YAML_TRIES || !yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, text.data, text.len);
    bool good = yaml_parser_load(&parser, &document);
    if (good) {
        const yaml_node_t *root = yaml_document_get_root_node(&document);
        good = root && root->type == YAML_MAPPING_NODE &&
               yaml_node(yaml, &document, root->data.mapping.pairs.start->value, key);
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return good;
}

/* ---- other text ---- */

static void yaml_keys(struct yaml *yaml, size_t at, size_t end);

/* Joins plain lines by blanks, an empty line being a line break, and removes quotes around the whole. */
static const char *yaml_lines(struct yaml *yaml, const char *text, size_t len, size_t at, size_t end) {
    autobuf out = buf_max(8 * YAML_BYTES);
    size_t parent = yaml->lines[at].indent, empty = 0, last;
    buf_put(&out, text, yaml_plain(text, len));
    for (at++; at < end && (!yaml->lines[at].len || yaml->lines[at].indent > parent); at++) {
        size_t kept = yaml_plain(yaml->lines[at].text, yaml->lines[at].len);
        empty += !yaml->lines[at].len;
        if (!kept)
            continue;
        for (size_t i = 0; out.len && i < (empty ? empty : 1); i++)
            buf_byte(&out, empty ? '\n' : ' ');
        buf_put(&out, yaml->lines[at].text, kept);
        empty = 0;
    }
    text = arena_copy(yaml->arena, out.data, out.len);
    last = strlen(text);
    if (last >= 2 && (text[0] == '"' || text[0] == '\'') && strchr(text + 1, text[0]) == text + last - 1)
        return arena_copy(yaml->arena, text + 1, last - 2);
    return text;
}

static void yaml_lenient(struct yaml *yaml, const char *key, const char *text, size_t len, size_t at, size_t end) {
    struct yaml_items items = {0};
    size_t below = at + 1, value;
    bool block = len && len <= 3 && (text[0] == '|' || text[0] == '>'), empty = !yaml_plain(text, len);
    while (below < end && yaml_skipped(&yaml->lines[below]))
        below++;
    const struct yaml_line *line = below < end && empty ? &yaml->lines[below] : NULL;
    if (line && yaml_dash(line)) {
        for (; below < end; below++) {
            line = &yaml->lines[below];
            size_t skip = yaml_dash(line) ? 1 : line->len;
            while (skip < line->len && yaml_blank(line->text[skip]))
                skip++;
            yaml_item(&items,
                      arena_copy(yaml->arena, line->text + skip, yaml_plain(line->text + skip, line->len - skip)));
        }
        yaml_listed(yaml, key, &items);
    } else if (line && line->indent > yaml->lines[at].indent && !*yaml->parent &&
               yaml_key(line->text, line->len, &value)) {
        yaml->parent = key;
        yaml_keys(yaml, below, end);
        yaml->parent = "";
    } else
        yaml_one(yaml, key, yaml_lines(yaml, text, block ? 0 : len, at, end));
}

/* ---- keys ---- */

/* Reads the keys at the indentation of the first line, until a line is indented less. */
static void yaml_keys(struct yaml *yaml, size_t at, size_t end) {
    size_t indent = yaml->lines[at].indent, key, value = 0, next, ignored;
    for (; at < end && (yaml_skipped(&yaml->lines[at]) || yaml->lines[at].indent >= indent); at = next) {
        const struct yaml_line *line = &yaml->lines[at];
        key = line->indent == indent ? yaml_key(line->text, line->len, &value) : 0;
        for (next = at + 1; key && next < end; next++) {
            const struct yaml_line *below = &yaml->lines[next];
            if (!yaml_skipped(below) &&
                (below->indent < indent || (below->indent == indent && yaml_key(below->text, below->len, &ignored))))
                break;
        }
        if (!key)
            continue;
        const char *name = arena_copy(yaml->arena, line->text, key);
        if (!yaml_strict(yaml, name, line->text + value, line->len - value, at, next))
            yaml_lenient(yaml, name, line->text + value, line->len - value, at, next);
    }
}

void yaml_each(struct arena *arena, const char *text, size_t len,
               void (*each)(void *user, const char *parent, const char *key, const struct yaml_value *value),
               void *user) {
    struct yaml yaml = {.arena = arena, .parent = "", .each = each, .user = user};
    size_t first = 0, cap = 0;
    for (const char *end = text + len; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((stop ? stop : end) - text), indent = 0;
        while (indent < line && yaml_blank(text[indent]))
            indent++;
        arena_add(arena, yaml.lines, yaml.count, cap) =
            (struct yaml_line){text + indent, yaml_trimmed(text + indent, line - indent), indent};
        text += line + (stop != NULL);
    }
    while (first < yaml.count && yaml_skipped(&yaml.lines[first]))
        first++;
    if (first < yaml.count)
        yaml_keys(&yaml, first, yaml.count);
}
