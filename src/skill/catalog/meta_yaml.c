/* The reader of front matter. Called by meta alone. Invariant: whatever is not understood is a plain text or is left out, it
 * never fails; and what is looked for further down and not found (a quote, a bracket) is looked for YAML_AHEAD lines only, so
 * that the time stays in proportion to the text. */
#include "skill/catalog/meta_yaml.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum { YAML_AHEAD = 100, YAML_BYTES = 256 << 10 }; /* the latter: of one value */

struct yaml_line {
    const char *text; /* from its first character that is no blank */
    size_t len, indent;
};

struct yaml {
    struct arena *arena;
    struct yaml_line *lines;
    size_t count, at;
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

static void yaml_split(struct yaml *yaml, const char *text, size_t len) {
    size_t count = 1;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    yaml->lines = arena_alloc(yaml->arena, count * sizeof *yaml->lines);
    for (const char *end = text + len; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((stop ? stop : end) - text), indent = 0;
        while (indent < line && yaml_blank(text[indent]))
            indent++;
        yaml->lines[yaml->count++] =
            (struct yaml_line){text + indent, yaml_trimmed(text + indent, line - indent), indent};
        text += line + (stop != NULL);
    }
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

/* A plain text ends where a comment begins. */
static size_t yaml_plain(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (text[i] == '#' && (!i || yaml_blank(text[i - 1])))
            return yaml_trimmed(text, i);
    return yaml_trimmed(text, len);
}

static const char *yaml_text(struct yaml *yaml, struct buf *out) {
    const char *text = out->len ? arena_copy(yaml->arena, out->data, out->len) : "";
    buf_done(out);
    return text;
}

/* ---- quoted texts ---- */

/* What stands behind a backslash; bytes taken. */
static size_t yaml_escape(struct buf *out, const char *text, size_t len) {
    static const char from[] = "0abtnvfre\"/\\ _", to[] = "\0\a\b\t\n\v\f\r\033\"/\\  ";
    const char *simple = len ? strchr(from, text[0]) : NULL;
    size_t digits = !len ? 0 : text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
    uint32_t point = 0;
    if (simple && *simple) {
        text_point(out, (uint8_t)to[simple - from]);
        return 1;
    }
    if (!digits || len <= digits) {
        buf_byte(out, '\\');
        return 0;
    }
    for (size_t i = 1; i <= digits; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'                     ? (unsigned)(c - '0')
                         : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (unsigned)((c | 0x20) - 'a') + 10
                                                                  : 16;
        if (digit == 16) {
            buf_byte(out, '\\');
            return 0;
        }
        point = point << 4 | digit;
    }
    text_point(out, point);
    return digits + 1;
}

/* One line of a quoted text from *at on; true: it ended there, *at is behind the quote. */
static bool yaml_quoted_line(struct buf *out, char quote, const char *text, size_t len, size_t *at) {
    while (*at < len) {
        char c = text[(*at)++];
        if (c == quote && quote == '\'' && *at < len && text[*at] == quote) {
            buf_byte(out, (uint8_t)quote);
            ++*at;
        } else if (c == quote)
            return true;
        else if (c == '\\' && quote == '"')
            *at += yaml_escape(out, text + *at, len - *at);
        else
            buf_byte(out, (uint8_t)c);
    }
    return false;
}

/* A quoted text that begins at text, in line yaml->at, and may go on below it. NULL: it does not end, or something stands
 * behind it: then it is none. */
static const char *yaml_quoted(struct yaml *yaml, const char *text, size_t len) {
    struct buf out;
    size_t line = yaml->at, at = 1;
    bool ended;
    char quote = text[0];
    buf_init(&out, YAML_BYTES);
    while (!(ended = yaml_quoted_line(&out, quote, text, len, &at)) && ++line < yaml->count &&
           line - yaml->at < YAML_AHEAD) {
        text = yaml->lines[line].text;
        len = yaml->lines[line].len;
        at = 0;
        /* lines are joined by a blank; an empty one is a line's end */
        while (out.len && yaml_blank((char)out.data[out.len - 1]))
            out.len--;
        buf_byte(&out, len ? ' ' : '\n');
        size_t key_value; /* a quote that was never closed does not swallow the keys below it */
        if (yaml->lines[line].indent <= yaml->lines[yaml->at].indent && yaml_key(text, len, &key_value))
            break;
    }
    if (!ended || yaml_plain(text + at, len - at)) {
        buf_done(&out);
        return NULL;
    }
    yaml->at = line;
    return yaml_text(yaml, &out);
}

/* ---- texts over several lines ---- */

/* "|" or ">" with what may stand behind it. */
static bool yaml_block_head(const char *text, size_t len) {
    if (!len || (text[0] != '|' && text[0] != '>'))
        return false;
    for (size_t i = 1, end = yaml_plain(text, len); i < end; i++)
        if (!strchr("+-123456789", text[i]))
            return false;
    return true;
}

static const char *yaml_block(struct yaml *yaml, bool folded) {
    struct buf out;
    size_t parent = yaml->lines[yaml->at].indent, indent = 0, empty = 0;
    bool deep = false; /* the line before was a deeper one: it is not folded */
    buf_init(&out, YAML_BYTES);
    while (yaml->at + 1 < yaml->count) {
        const struct yaml_line *line = &yaml->lines[yaml->at + 1];
        if (line->len && line->indent <= parent)
            break;
        yaml->at++;
        if (!line->len) {
            empty++;
            continue;
        }
        if (!indent)
            indent = line->indent;
        size_t extra = line->indent > indent ? line->indent - indent : 0;
        bool joined = folded && !deep && !extra;
        if (out.len && (!joined || empty))
            for (size_t i = 0; i < (joined ? empty : empty + 1); i++)
                buf_byte(&out, '\n');
        else if (out.len)
            buf_byte(&out, ' ');
        for (size_t i = 0; i < extra; i++)
            buf_byte(&out, ' ');
        buf_put(&out, line->text, line->len);
        empty = 0;
        deep = extra;
    }
    return yaml_text(yaml, &out);
}

static const char *yaml_lines(struct yaml *yaml, const char *text, size_t len) {
    struct buf out;
    size_t parent = yaml->lines[yaml->at].indent, empty = 0;
    buf_init(&out, YAML_BYTES);
    if (len)
        buf_put(&out, text, yaml_plain(text, len));
    for (; yaml->at + 1 < yaml->count; yaml->at++) {
        const struct yaml_line *line = &yaml->lines[yaml->at + 1];
        size_t kept = yaml_plain(line->text, line->len);
        if (line->len && line->indent <= parent)
            break;
        empty += !line->len;
        if (!kept)
            continue;
        if (out.len)
            for (size_t i = 0; i < (empty ? empty : 1); i++)
                buf_byte(&out, empty ? '\n' : ' ');
        buf_put(&out, line->text, kept);
        empty = 0;
    }
    return yaml_text(yaml, &out);
}

/* ---- lists ---- */

struct yaml_items {
    const char **items;
    size_t count, cap;
};

static void yaml_item(struct yaml *yaml, struct yaml_items *items, const char *text) {
    if (!*text)
        return;
    if (items->count + 1 >= items->cap) {
        size_t cap = items->cap ? 2 * items->cap : 8;
        const char **more = arena_alloc(yaml->arena, cap * sizeof *more);
        if (items->count)
            memcpy(more, items->items, items->count * sizeof *more);
        items->items = more;
        items->cap = cap;
    }
    items->items[items->count++] = text;
    items->items[items->count] = NULL;
}

static void yaml_listed(struct yaml *yaml, const char *key, const struct yaml_items *items) {
    static const char *const none[] = {NULL};
    struct buf out;
    buf_init(&out, YAML_BYTES);
    for (size_t i = 0; i < items->count; i++) {
        buf_puts(&out, i ? ", " : "");
        buf_puts(&out, items->items[i]);
    }
    struct yaml_value value = {.items = items->count ? items->items : none};
    value.text = yaml_text(yaml, &out);
    yaml->each(yaml->user, yaml->parent, key, &value);
}

static bool yaml_dash(const struct yaml_line *line) {
    return line->len && line->text[0] == '-' && (line->len == 1 || yaml_blank(line->text[1]));
}

/* "- x" lines below the key; those at the key's own depth count too, as in YAML. */
static void yaml_dashes(struct yaml *yaml, const char *key) {
    struct yaml_items items = {0};
    size_t parent = yaml->lines[yaml->at].indent;
    while (yaml->at + 1 < yaml->count) {
        const struct yaml_line *line = &yaml->lines[yaml->at + 1];
        if (!yaml_skipped(line) && (line->indent < parent || (!yaml_dash(line) && line->indent == parent)))
            break;
        yaml->at++;
        if (!yaml_dash(line))
            continue;
        const char *text = line->text + 1, *quoted = NULL;
        size_t len = line->len - 1;
        while (len && yaml_blank(*text))
            text++, len--;
        if (len && (text[0] == '"' || text[0] == '\''))
            quoted = yaml_quoted(yaml, text, len);
        yaml_item(yaml, &items, quoted ? quoted : arena_copy(yaml->arena, text, yaml_plain(text, len)));
    }
    yaml_listed(yaml, key, &items);
}

/* The text between brackets, lines joined; NULL: they do not close. *ret_next: the line where they do. */
static const char *yaml_flow(struct yaml *yaml, const char *text, size_t len, size_t *ret_next) {
    struct buf out;
    char close = text[0] == '[' ? ']' : '}', quote = 0;
    size_t line = yaml->at, skip = 1;
    buf_init(&out, YAML_BYTES);
    for (;;) {
        for (size_t i = skip; i < len; i++) {
            char c = text[i];
            if (quote)
                quote = c == quote ? 0 : quote;
            else if ((c == '"' || c == '\'') && (!out.len || strchr(" ,:", out.data[out.len - 1])))
                quote = c;
            else if (c == close && !yaml_plain(text + i + 1, len - i - 1)) {
                *ret_next = line;
                return yaml_text(yaml, &out);
            } else if (c == '#' && i && yaml_blank(text[i - 1]))
                break;
            buf_byte(&out, (uint8_t)c);
        }
        size_t value; /* as above: the keys below are not part of it */
        if (++line >= yaml->count || line - yaml->at >= YAML_AHEAD ||
            (yaml->lines[line].indent <= yaml->lines[yaml->at].indent &&
             yaml_key(yaml->lines[line].text, yaml->lines[line].len, &value)))
            break;
        buf_byte(&out, ' ');
        text = yaml->lines[line].text;
        len = yaml->lines[line].len;
        skip = 0;
    }
    buf_done(&out);
    return NULL;
}

/* One item of a flow from *at on, without its quotes; *at goes behind its comma. */
static const char *yaml_flow_item(struct yaml *yaml, const char **at) {
    struct buf out;
    const char *text = *at;
    size_t len = 0;
    while (yaml_blank(*text))
        text++;
    buf_init(&out, YAML_BYTES);
    if (*text == '"' || *text == '\'') {
        size_t used = 1;
        if (yaml_quoted_line(&out, *text, text, strlen(text), &used)) {
            for (text += used; *text && *text != ','; text++)
                ;
            *at = *text ? text + 1 : text;
            return yaml_text(yaml, &out);
        }
        out.len = 0;
    }
    while (text[len] && text[len] != ',')
        len++;
    *at = text[len] ? text + len + 1 : text + len;
    if (yaml_trimmed(text, len))
        buf_put(&out, text, yaml_trimmed(text, len));
    return yaml_text(yaml, &out);
}

/* ---- keys ---- */

static void yaml_one(struct yaml *yaml, const char *key, const char *text) {
    struct yaml_value value = {.text = strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ? "" : text};
    yaml->each(yaml->user, yaml->parent, key, &value);
}

/* "[a, b]" or "{a: b}"; false: neither. */
static bool yaml_flowed(struct yaml *yaml, const char *key, const char *text, size_t len) {
    struct yaml_items items = {0};
    size_t next, value;
    const char *inside = len && (text[0] == '[' || text[0] == '{') ? yaml_flow(yaml, text, len, &next) : NULL;
    if (!inside || (text[0] == '{' && *yaml->parent))
        return false;
    if (text[0] == '[') {
        while (*inside)
            yaml_item(yaml, &items, yaml_flow_item(yaml, &inside));
        yaml_listed(yaml, key, &items);
    } else {
        yaml->parent = key;
        while (*inside) {
            const char *item = yaml_flow_item(yaml, &inside);
            size_t found = yaml_key(item, strlen(item), &value);
            if (found)
                yaml_one(yaml, arena_copy(yaml->arena, item, found), item + value);
        }
        yaml->parent = "";
    }
    yaml->at = next;
    return true;
}

static void yaml_keys(struct yaml *yaml, size_t indent);

/* A key with nothing behind it: what stands below it says what it is. */
static void yaml_below(struct yaml *yaml, const char *key) {
    size_t parent = yaml->lines[yaml->at].indent, next = yaml->at + 1, value;
    while (next < yaml->count && yaml_skipped(&yaml->lines[next]))
        next++;
    const struct yaml_line *line = next < yaml->count ? &yaml->lines[next] : NULL;
    if (line && yaml_dash(line) && line->indent >= parent)
        yaml_dashes(yaml, key);
    else if (line && line->indent > parent && yaml_key(line->text, line->len, &value) && !*yaml->parent) {
        yaml->parent = key;
        yaml->at = next;
        yaml_keys(yaml, line->indent);
        yaml->at--;
        yaml->parent = "";
    } else
        yaml_one(yaml, key, yaml_lines(yaml, "", 0));
}

static void yaml_entry(struct yaml *yaml, const char *key, const char *text, size_t len) {
    const char *quoted = NULL;
    if (len && (text[0] == '"' || text[0] == '\''))
        quoted = yaml_quoted(yaml, text, len);
    if (quoted)
        yaml_one(yaml, key, quoted);
    else if (!yaml_plain(text, len))
        yaml_below(yaml, key);
    else if (yaml_block_head(text, len))
        yaml_one(yaml, key, yaml_block(yaml, text[0] == '>'));
    else if (!yaml_flowed(yaml, key, text, len))
        yaml_one(yaml, key, yaml_lines(yaml, text, len));
}

/* Keys at this depth, until a line stands before it. */
static void yaml_keys(struct yaml *yaml, size_t indent) {
    for (; yaml->at < yaml->count; yaml->at++) {
        const struct yaml_line *line = &yaml->lines[yaml->at];
        size_t value, key;
        if (yaml_skipped(line))
            continue;
        if (line->indent < indent)
            return;
        if (line->indent == indent && (key = yaml_key(line->text, line->len, &value)))
            yaml_entry(yaml, arena_copy(yaml->arena, line->text, key), line->text + value, line->len - value);
    }
}

void yaml_each(struct arena *arena, const char *text, size_t len,
               void (*each)(void *user, const char *parent, const char *key, const struct yaml_value *value),
               void *user) {
    struct yaml yaml = {.arena = arena, .parent = "", .each = each, .user = user};
    size_t first = 0;
    if (!len)
        return;
    yaml_split(&yaml, text, len);
    while (first < yaml.count && yaml_skipped(&yaml.lines[first]))
        first++;
    if (first < yaml.count)
        yaml_keys(&yaml, yaml.lines[first].indent);
}
