/* The metadata of a skill or a sub-agent. Called by base, catalog, own and registry with the first bytes of untrusted
 * files. Invariant: whatever the input, the resulting texts are bounded UTF-8. */

#include "base/base.h"
#include "skill/catalog/meta.h"
#include "skill/catalog/meta_yaml.h"

enum {
    META_LINE_BYTES = 256, /* a name, or another value of one line */
    META_DESCRIPTION_BYTES = 4096,
    META_ITEMS = 256, /* in a list of tags or tools */
    META_AGENT_BYTES = 128,
    META_FILE_BYTES = 4 << 20, /* the longest text; decoding UTF-16 makes it 1.5 times as long, broken UTF-8 3 times */
};

/* ---- bytes to text ---- */

static void meta_wide(struct buf *out, const uint8_t *data, size_t len, bool big) {
    for (size_t i = 0; i + 1 < len; i += 2) {
        uint32_t unit = (uint32_t)(big ? data[i] << 8 | data[i + 1] : data[i + 1] << 8 | data[i]), low = 0;
        if (unit >= 0xd800 && unit < 0xdc00 && i + 3 < len)
            low = (uint32_t)(big ? data[i + 2] << 8 | data[i + 3] : data[i + 3] << 8 | data[i + 2]);
        if (low >= 0xdc00 && low < 0xe000) {
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        }
        text_point(out, unit);
    }
}

static void meta_repaired(struct buf *out, const uint8_t *data, size_t len) {
    for (size_t i = 0, used; i < len; i += used ? used : 1) {
        uint32_t character = 0;
        used = text_character(data + i, len - i, &character);
        text_point(out, character);
    }
}

const char *meta_text(struct arena *arena, const void *bytes, size_t len, size_t *ret_len) {
    const uint8_t *data = bytes;
    autobuf out = buf_max(3 * (size_t)META_FILE_BYTES);
    if (len > META_FILE_BYTES)
        len = META_FILE_BYTES;
    if (len >= 2 && (data[0] ^ data[1]) == 1 && data[0] >= 0xfe)
        meta_wide(&out, data + 2, len - 2, data[0] == 0xfe);
    else if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        meta_repaired(&out, data + 3, len - 3);
    else
        meta_repaired(&out, data, len);
    size_t kept = 0;
    for (size_t i = 0; i < out.len; i++) {
        bool pair = out.data[i] == '\r' && i + 1 < out.len && out.data[i + 1] == '\n';
        if (!pair)
            out.data[kept++] = out.data[i] == '\r' ? '\n' : out.data[i];
    }
    *ret_len = kept;
    return arena_copy(arena, out.data, kept);
}

/* Trims blanks, joins lines unless `lines`, drops characters that hide or reverse text, and cuts at max. */
static const char *meta_clean(struct arena *arena, const char *text, size_t max, bool lines) {
    autobuf out = buf_max(max);
    size_t len = strlen(text), used;
    bool gap = false, cut = false;
    for (size_t i = 0; i < len && !cut; i += used) {
        uint32_t character = 0;
        used = text_character(text + i, len - i, &character);
        if (!used)
            used = 1, character = 0xfffd;
        bool end = character == '\n' && lines, before = out.len && out.data[out.len - 1] != '\n';
        if (character == ' ' || character == '\t' || (character == '\n' && !end)) {
            gap = true;
            continue;
        }
        if (end ? !out.len : text_harmful(character))
            continue;
        cut = out.len + gap + used > max - strlen("…");
        if (gap && before && !end && !cut)
            buf_byte(&out, ' ');
        if (!cut)
            text_point(&out, character);
        gap = false;
    }
    while (out.len && out.data[out.len - 1] == '\n')
        out.len--;
    buf_puts(&out, cut ? "…" : "");
    return arena_copy(arena, out.data, out.len);
}

static const char *meta_trimmed(struct arena *arena, const char *text, size_t len) {
    while (len && strchr(" \t\n", *text))
        text++, len--;
    while (len && strchr(" \t\n", text[len - 1]))
        len--;
    return arena_copy(arena, text, len);
}

/* ---- front matter ---- */

static size_t meta_line(const char *text, size_t len) {
    const char *stop = memchr(text, '\n', len);
    return stop ? (size_t)(stop - text) + 1 : len;
}

static bool meta_fence(const char *text, size_t len, bool dots) {
    while (len && strchr(" \t\n", text[len - 1]))
        len--;
    return len == 3 && (memcmp(text, "---", 3) == 0 || (dots && memcmp(text, "...", 3) == 0));
}

struct meta_parts {
    const char *head, *body;
    size_t head_len, body_len;
    bool fenced; /* between "---" lines */
};

static bool meta_known(const char *key, size_t len);

/* Without fences, known keys at the top, or below a heading, are the front matter: many a SKILL.md begins like this. */
static void meta_unfenced(const char *text, size_t len, struct meta_parts *parts) {
    size_t head = 0, line, value;
    for (size_t at = 0; at < len; at += line) {
        line = meta_line(text + at, len - at);
        size_t blanks = strspn(text + at, " \t"), key = yaml_key(text + at, line, &value);
        if (key && meta_known(text + at, key))
            head = at + line;
        else if (text[at] != '#' && blanks < line && text[at + blanks] != '\n')
            break;
    }
    *parts = (struct meta_parts){text, text + head, head, len - head, false};
}

static void meta_split(const char *text, size_t len, struct meta_parts *ret_parts) {
    size_t first, at, line;
    while (len && *text == '\n')
        text++, len--;
    at = first = meta_line(text, len);
    if (meta_fence(text, first, false))
        for (; at < len; at += line) {
            line = meta_line(text + at, len - at);
            if (!meta_fence(text + at, line, true))
                continue;
            *ret_parts = (struct meta_parts){text + first, text + at + line, at - first, len - at - line, true};
            return;
        }
    meta_unfenced(text, len, ret_parts);
}

/* ---- keys ---- */

enum meta_kind { META_LINE, META_TEXT, META_LIST, META_TOOLS, META_FLAG };

static const struct meta_key {
    const char *parent, *key;
    enum meta_kind kind;
    size_t offset;
} meta_keys[] = {
    {"", "name", META_LINE, offsetof(struct meta, name)},
    {"", "description", META_TEXT, offsetof(struct meta, description)},
    {"", "author", META_LINE, offsetof(struct meta, author)},
    {"", "version", META_LINE, offsetof(struct meta, version)},
    {"", "license", META_LINE, offsetof(struct meta, license)},
    {"", "model", META_LINE, offsetof(struct meta, model)},
    {"", "sharing", META_LINE, offsetof(struct meta, sharing)},
    {"", "tags", META_LIST, offsetof(struct meta, tags)},
    {"", "keywords", META_LIST, offsetof(struct meta, tags)},
    {"", "tools", META_TOOLS, offsetof(struct meta, tools)},
    {"", "allowed-tools", META_TOOLS, offsetof(struct meta, tools)},
    {"metadata", "author", META_LINE, offsetof(struct meta, author)},
    {"metadata", "version", META_LINE, offsetof(struct meta, version)},
    {"metadata", "license", META_LINE, offsetof(struct meta, license)},
    {"metadata", "tags", META_LIST, offsetof(struct meta, tags)},
    {"metadata", "sharing", META_LINE, offsetof(struct meta, sharing)},
    {"capabilities", "memory", META_FLAG, offsetof(struct meta, memory)},
    {"capabilities", "send_message", META_FLAG, offsetof(struct meta, send_message)},
    {"capabilities", "spawn_agent", META_FLAG, offsetof(struct meta, spawn_agent)},
};

static bool meta_known(const char *key, size_t len) {
    for (size_t i = 0; i < sizeof meta_keys / sizeof *meta_keys; i++)
        if (!*meta_keys[i].parent && strlen(meta_keys[i].key) == len && strncasecmp(meta_keys[i].key, key, len) == 0)
            return true;
    return false;
}

/* Splits a list, or a text at commas; tools also at blanks, except inside "Bash(git status, git log)". */
static const char *const *meta_items(struct arena *arena, const struct yaml_value *value, bool blanks) {
    const char **items = arena_alloc(arena, (META_ITEMS + 1) * sizeof *items), *text = value->text;
    const char *const *from = value->items;
    size_t count = 0;
    while ((from ? *from != NULL : *text) && count < META_ITEMS) {
        unsigned depth = 0;
        size_t len = 0;
        for (; !from && text[len]; len++) {
            depth += text[len] == '(';
            depth -= text[len] == ')' && depth;
            if (!depth && (text[len] == ',' || (blanks && strchr(" \t\n", text[len]))))
                break;
        }
        const char *item = meta_clean(arena, from ? *from++ : arena_copy(arena, text, len), META_LINE_BYTES, false);
        if (*item)
            items[count++] = item;
        text += len + (!from && text[len] != 0);
    }
    return items;
}

struct meta_reading {
    struct arena *arena;
    struct meta *meta;
};

static void meta_take(void *user, const char *parent, const char *key, const struct yaml_value *value) {
    static const char *const truths[] = {"true", "yes", "on", "1"};
    struct meta_reading *reading = user;
    const struct meta_key *row = meta_keys, *end = meta_keys + sizeof meta_keys / sizeof *meta_keys;
    while (row < end && (strcasecmp(row->parent, parent) != 0 || strcasecmp(row->key, key) != 0))
        row++;
    if (row == end)
        return;
    void *field = (char *)reading->meta + row->offset;
    if (row->kind == META_FLAG) {
        *(bool *)field = false;
        for (size_t i = 0; i < sizeof truths / sizeof *truths; i++)
            *(bool *)field |= strcasecmp(value->text, truths[i]) == 0;
    } else if (row->kind == META_LINE || row->kind == META_TEXT) {
        bool lines = row->kind == META_TEXT;
        const char *text =
            meta_clean(reading->arena, value->text, lines ? META_DESCRIPTION_BYTES : META_LINE_BYTES, lines);
        if (*text)
            *(const char **)field = text;
    } else if (value->items || *value->text) {
        *(const char *const **)field = meta_items(reading->arena, value, row->kind == META_TOOLS);
    }
}

/* Parses the text. name and description stay NULL if the text lacks them. */
static void meta_read(struct arena *arena, const char *text, size_t len, struct meta *ret_meta,
                      struct meta_parts *ret_parts) {
    struct meta_reading reading = {arena, ret_meta};
    size_t repaired;
    *ret_meta = (struct meta){.spawn_agent = true};
    text = meta_text(arena, text, len, &repaired);
    meta_split(text, repaired, ret_parts);
    yaml_each(arena, ret_parts->head, ret_parts->head_len, meta_take, &reading);
    ret_meta->body = meta_trimmed(arena, ret_parts->body, ret_parts->body_len);
}

static void meta_defaults(struct arena *arena, const char *folder, struct meta *meta) {
    if (!meta->name)
        meta->name = meta_clean(arena, folder, META_LINE_BYTES, false);
    meta->described = meta->description;
    if (!meta->description)
        meta->description = META_NO_DESCRIPTION;
}

/* ---- the three kinds of files ---- */

void meta_skill(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta) {
    struct meta_parts parts;
    meta_read(arena, text, len, ret_meta, &parts);
    meta_defaults(arena, folder, ret_meta);
}

/* Finds "# Weather" or "# Weather #" outside of code; NULL: no heading. */
static const char *meta_first_heading(struct arena *arena, const char *text, size_t len) {
    bool code = false;
    for (size_t line; len; text += line, len -= line) {
        line = meta_line(text, len);
        size_t marks = strspn(text, "#"), end = line;
        code ^= line >= 3 && (memcmp(text, "```", 3) == 0 || memcmp(text, "~~~", 3) == 0);
        if (code || !marks || marks > 6 || marks >= line || !strchr(" \t", text[marks]))
            continue;
        while (end > marks && strchr(" \t\n#", text[end - 1]))
            end--;
        if (end > marks)
            return meta_clean(arena, arena_copy(arena, text + marks, end - marks), META_LINE_BYTES, false);
    }
    return NULL;
}

void meta_heading(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta) {
    struct meta_parts parts;
    meta_read(arena, text, len, ret_meta, &parts);
    if (!ret_meta->name)
        ret_meta->name = meta_first_heading(arena, ret_meta->body, strlen(ret_meta->body));
    if (ret_meta->name && !*ret_meta->name)
        ret_meta->name = NULL;
    meta_defaults(arena, folder, ret_meta);
}

/* Characters that are not letters of any script: symbols, punctuation, blanks, private and invisible characters. */
static const struct {
    uint32_t first, last;
} meta_signs[] = {
    {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},     {0xbb, 0xbf},       {0xd7, 0xd7},
    {0xf7, 0xf7},     {0x2000, 0x2bff}, {0x2e00, 0x2e7f}, {0x3000, 0x3004},   {0x3008, 0x3020},
    {0x3030, 0x3030}, {0xe000, 0xf8ff}, {0xfe00, 0xfe6f}, {0xfeff, 0xff0f},   {0xff1a, 0xff20},
    {0xff3b, 0xff40}, {0xff5b, 0xff65}, {0xffe0, 0xffff}, {0x1f000, 0x1faff}, {0xe0000, 0x10ffff},
};

static bool meta_letter(uint32_t c) {
    if (c < 0x80)
        return c == '-' || c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    for (size_t i = 0; i < sizeof meta_signs / sizeof *meta_signs; i++)
        if (c >= meta_signs[i].first && c <= meta_signs[i].last)
            return false;
    return !text_harmful(c);
}

bool meta_agent(struct arena *arena, const char *file, const char *text, size_t len, struct meta *ret_meta,
                const char **ret_why) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    struct meta_parts parts = {0};
    struct meta meta = {0};
    size_t stem = strlen(file);
    meta_read(arena, text, len, &meta, &parts);
    if (stem > 3 && strcasecmp(file + stem - 3, ".md") == 0)
        stem -= 3;
    meta_defaults(arena, arena_copy(arena, file, stem), &meta);
    size_t name_len = strlen(meta.name), used;
    bool named = name_len && name_len <= META_AGENT_BYTES;
    for (size_t i = 0; named && i < name_len; i += used) {
        uint32_t character = 0;
        used = text_character(meta.name + i, name_len - i, &character);
        named = used && meta_letter(character);
    }
    const char *const *tool = meta.tools;
    while (tool && *tool && !(*tool)[strspn(*tool, letters)])
        tool++;
    if (!parts.fenced)
        *ret_why = "it has no front matter: put it between two lines \"---\" at the top";
    else if (!named)
        *ret_why = arena_printf(arena, "the name '%s' may only have letters, digits, - and _, at most %d bytes",
                                meta.name, META_AGENT_BYTES);
    else if (tool && *tool)
        *ret_why = arena_printf(arena, "the tool '%s' may only have letters, digits, dots, - and _", *tool);
    else {
        *ret_meta = meta;
        return true;
    }
    return false;
}
