/* HTML as Markdown: one pass over the text, no tree. Called by aio/markdown.c. Invariant: everything that is kept (markers,
 * lists, quotes) has a fixed depth, and what is not closed in the text is closed by its end. Scripts and styles are left out;
 * nothing is fetched, nothing is run. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/headtail.h"
#include "base/text.h"
#include "front/aio/markdown.h"

enum { DEPTH = 32, NAME_BYTES = 16, LINK_BYTES = 2048 };

struct marker { /* what stands around words: **, *, `, [ ... ](link) */
    const char *name, *open, *close;
    bool link, written;
};

struct html {
    const char *at, *end;
    struct buf *out;
    unsigned breaks; /* line ends owed before the next word: 0, 1, 2 */
    bool space;      /* a space is owed */
    bool begun;      /* there is something in out */
    bool fresh;      /* at the beginning of a line */
    unsigned quotes, lists;
    int counters[DEPTH]; /* of lists; -1: bullets */
    struct marker markers[DEPTH];
    unsigned marker_count;
    char link[LINK_BYTES]; /* of the innermost open <a> */
    bool pre, cell, item;  /* item: its bullet has just been written */
    bool first;            /* the next item is the list's first */
    unsigned column, columns, row;
    uint32_t last; /* character written last */
};

struct tag {
    char name[NAME_BYTES];
    bool closes;
    const char *href, *src, *alt;
    size_t href_len, src_len, alt_len;
};

/* ---- words out ---- */

static void line_begin(struct html *html) {
    html->fresh = false;
    for (unsigned i = 0; i < html->quotes; i++)
        buf_puts(html->out, "> ");
    for (unsigned i = html->item ? 1 : 0; i < html->lists; i++)
        buf_puts(html->out, "  ");
}

/* What is owed before the next thing on the page. */
static void settle(struct html *html) {
    if (html->breaks && html->begun) {
        for (; html->breaks; html->breaks--) {
            buf_byte(html->out, '\n');
            if (html->breaks > 1)
                for (unsigned i = 0; i < html->quotes; i++)
                    buf_byte(html->out, '>');
        }
        html->fresh = true;
        html->space = false;
    }
    html->breaks = 0;
    html->begun = true;
    if (html->fresh)
        line_begin(html);
    else if (html->space)
        buf_byte(html->out, ' ');
    html->space = false;
}

static void markers_open(struct html *html) {
    for (unsigned i = 0; i < html->marker_count; i++) {
        if (!html->markers[i].written)
            buf_puts(html->out, html->markers[i].open);
        html->markers[i].written = true;
    }
}

static void marker_close(struct html *html, struct marker *marker) {
    if (!marker->written)
        return;
    buf_puts(html->out, marker->close);
    if (marker->link)
        buf_printf(html->out, "%s)", html->link);
    marker->written = false;
}

/* Markers do not reach over a paragraph's end: they are closed, and opened again behind it. */
static void broken(struct html *html, unsigned breaks) {
    if (html->cell) {
        html->space = true;
        return;
    }
    for (unsigned i = html->marker_count; i > 0; i--)
        marker_close(html, &html->markers[i - 1]);
    html->breaks = html->breaks > breaks ? html->breaks : breaks;
    html->item = false;
}

static bool is_word(uint32_t character) {
    return character > 127 || (character >= '0' && character <= '9') ||
           ((character | 32) >= 'a' && (character | 32) <= 'z');
}

/* A sign that Markdown would take for its own; '_' inside of a word it would not. */
static bool is_sign(const struct html *html, uint32_t character) {
    bool code = html->marker_count && html->markers[html->marker_count - 1].open[0] == '`';
    if (html->pre || code)
        return false;
    if (character == '_')
        return !is_word(html->last);
    return character == '|' ? html->cell : character && character < 128 && strchr("\\*`[]<", (int)character);
}

static void character(struct html *html, uint32_t point) {
    if (!html->pre && point < 128 && strchr(" \t\r\n\f", (int)point) && point) {
        html->space = true;
        html->last = ' ';
        return;
    }
    if (html->pre && point == '\n') {
        buf_byte(html->out, '\n');
        html->fresh = true;
        return;
    }
    settle(html);
    if (!html->pre)
        markers_open(html);
    if (is_sign(html, point))
        buf_byte(html->out, '\\');
    text_point(html->out, point);
    html->last = point;
    html->item = false;
}

static void words(struct html *html, const char *text) {
    settle(html);
    buf_puts(html->out, text);
}

/* ---- entities ---- */

static const struct {
    const char *name;
    uint32_t point;
} entities[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},    {"apos", '\''},    {"nbsp", ' '},
    {"ndash", 0x2013}, {"mdash", 0x2014}, {"hellip", 0x2026}, {"copy", 0xa9},   {"reg", 0xae},     {"lsquo", 0x2018},
    {"rsquo", 0x2019}, {"ldquo", 0x201c}, {"rdquo", 0x201d},  {"laquo", 0xab},  {"raquo", 0xbb},   {"euro", 0x20ac},
    {"middot", 0xb7},  {"times", 0xd7},   {"deg", 0xb0},      {"bull", 0x2022}, {"trade", 0x2122},
};

static uint32_t number(const char *text, size_t len) {
    unsigned base = len && (*text | 32) == 'x' ? 16 : 10;
    uint32_t value = 0;
    for (size_t i = base == 16; i < len; i++) {
        char letter = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] | 32) : text[i];
        uint32_t digit = letter >= '0' && letter <= '9'   ? (uint32_t)(letter - '0')
                         : letter >= 'a' && letter <= 'f' ? (uint32_t)(letter - 'a' + 10)
                                                          : base;
        if (digit >= base || value > 0x110000)
            return 0xfffd;
        value = value * base + digit;
    }
    return value;
}

/* "&amp;" at text: the character, and how many bytes it took; 0: it is none. */
static size_t entity(const char *text, const char *end, uint32_t *ret_point) {
    size_t room = (size_t)(end - text) < 12 ? (size_t)(end - text) : 12;
    const char *semicolon = memchr(text, ';', room);
    size_t len = semicolon ? (size_t)(semicolon - text) - 1 : 0;
    if (!len)
        return 0;
    if (text[1] == '#' && len > 1) {
        *ret_point = number(text + 2, len - 1);
        return len + 2;
    }
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (strlen(entities[i].name) == len && !memcmp(entities[i].name, text + 1, len)) {
            *ret_point = entities[i].point;
            return len + 2;
        }
    return 0;
}

/* One character at text, which ends before end: bytes taken. */
static size_t next(const char *text, const char *end, uint32_t *ret_point) {
    size_t used = *text == '&' ? entity(text, end, ret_point) : 0;
    if (!used)
        used = text_character(text, (size_t)(end - text), ret_point);
    if (!used) {
        *ret_point = 0xfffd;
        used = 1;
    }
    return used;
}

/* ---- tags ---- */

static void attribute(struct tag *tag, const char *name, size_t name_len, const char *value, size_t len) {
    const struct {
        const char *name, **value;
        size_t *len;
    } known[] = {
        {"href", &tag->href, &tag->href_len}, {"src", &tag->src, &tag->src_len}, {"alt", &tag->alt, &tag->alt_len}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == name_len && !strncasecmp(known[i].name, name, name_len)) {
            *known[i].value = value;
            *known[i].len = len;
        }
}

static const char *past(const char *at, const char *end, const char *set) {
    while (at < end && *at && strchr(set, *at))
        at++;
    return at;
}

static const char *until(const char *at, const char *end, const char *set) {
    while (at < end && (!*at || !strchr(set, *at)))
        at++;
    return at;
}

/* html->at stands behind '<' or "</"; false: the text ends inside. */
static bool tag_read(struct html *html, struct tag *tag) {
    const char *end = html->end, *at = until(html->at, end, " \t\r\n/>");
    size_t len = (size_t)(at - html->at) < NAME_BYTES - 1 ? (size_t)(at - html->at) : NAME_BYTES - 1;
    for (size_t i = 0; i < len; i++)
        tag->name[i] = (char)(html->at[i] >= 'A' && html->at[i] <= 'Z' ? html->at[i] | 32 : html->at[i]);
    while ((at = past(at, end, " \t\r\n/")) < end && *at != '>') {
        const char *name = at;
        at = until(at, end, " \t\r\n/>=");
        size_t name_len = (size_t)(at - name);
        const char *equal = past(at, end, " \t\r\n");
        if (equal >= end || *equal != '=') {
            at = name_len ? at : at + 1;
            continue;
        }
        at = past(equal + 1, end, " \t\r\n");
        char quote = at < end ? *at : 0;
        const char set[] = {quote, 0}, *value = at;
        if (quote == '"' || quote == '\'') {
            value = at + 1;
            at = until(value, end, set);
            attribute(tag, name, name_len, value, (size_t)(at - value));
            at += at < end;
        } else {
            at = until(at, end, " \t\r\n>");
            attribute(tag, name, name_len, value, (size_t)(at - value));
        }
    }
    html->at = at < end ? at + 1 : end;
    return at < end;
}

static void marker_push(struct html *html, const char *name, const char *open, const char *close, bool link) {
    if (html->marker_count < DEPTH)
        html->markers[html->marker_count++] = (struct marker){name, open, close, link, false};
}

static void marker_pop(struct html *html, const char *name) {
    unsigned i = html->marker_count;
    while (i > 0 && strcmp(html->markers[i - 1].name, name))
        i--;
    if (!i)
        return;
    for (unsigned k = html->marker_count; k >= i; k--)
        marker_close(html, &html->markers[k - 1]);
    memmove(&html->markers[i - 1], &html->markers[i], (html->marker_count - i) * sizeof *html->markers);
    html->marker_count--;
}

/* An address as it can stand between brackets; one that is too long is cut off, between two characters. */
static void address(char *to, size_t size, const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len && n + 4 < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte <= ' ' || byte == '(' || byte == ')' || byte == '<' || byte == '>')
            n += (size_t)snprintf(to + n, size - n, "%%%02X", byte);
        else if (byte == '&' && len - i >= 5 && !memcmp(text + i, "&amp;", 5))
            to[n++] = '&', i += 4;
        else
            to[n++] = (char)byte;
    }
    to[n - headtail_partial((const uint8_t *)to, n)] = 0;
}

static void image(struct html *html, const struct tag *tag) {
    char link[LINK_BYTES];
    uint32_t point;
    if (!tag->src || (tag->src_len > 5 && !strncasecmp(tag->src, "data:", 5)))
        return;
    address(link, sizeof link, tag->src, tag->src_len);
    settle(html);
    markers_open(html);
    buf_puts(html->out, "![");
    for (size_t i = 0; tag->alt && i < tag->alt_len;) {
        i += next(tag->alt + i, tag->alt + tag->alt_len, &point);
        character(html, point);
    }
    html->space = false;
    buf_printf(html->out, "](%s)", link);
}

static void list(struct html *html, const struct tag *tag) {
    if (tag->closes && html->lists)
        html->lists--;
    broken(html, html->lists ? 1 : 2);
    if (!tag->closes && html->lists < DEPTH)
        html->counters[html->lists++] = tag->name[0] == 'o' ? 0 : -1;
    html->first = !tag->closes;
}

static void item(struct html *html, const struct tag *tag) {
    char bullet[24] = "- ";
    broken(html, 1);
    if (!html->first && html->breaks)
        html->breaks = 1; /* whatever paragraphs the item before had */
    html->first = false;
    if (tag->closes)
        return;
    int *counter = html->lists ? &html->counters[html->lists - 1] : NULL;
    if (counter && *counter >= 0)
        snprintf(bullet, sizeof bullet, "%d. ", ++*counter);
    html->item = true;
    words(html, bullet);
    html->item = true;
}

static void preformatted(struct html *html, const struct tag *tag) {
    if (html->cell || html->pre == !tag->closes)
        return;
    if (!tag->closes) {
        broken(html, 2);
        words(html, "```\n");
    } else {
        if (!html->fresh)
            buf_byte(html->out, '\n');
        html->fresh = true;
        line_begin(html);
        buf_puts(html->out, "```");
    }
    html->fresh = !tag->closes;
    html->pre = !tag->closes;
    if (tag->closes)
        broken(html, 2);
}

static void row_end(struct html *html) {
    if (html->cell)
        buf_puts(html->out, " |");
    html->cell = false;
    if (!html->column)
        return;
    if (!html->row)
        html->columns = html->column;
    if (html->row++ == 0) {
        buf_puts(html->out, "\n|");
        for (unsigned i = 0; i < html->columns; i++)
            buf_puts(html->out, " --- |");
    }
    html->column = 0;
    broken(html, 1);
}

static void table(struct html *html, const struct tag *tag) {
    row_end(html);
    broken(html, 2);
    html->row = 0;
    (void)tag;
}

static void row(struct html *html, const struct tag *tag) {
    row_end(html);
    if (!tag->closes)
        broken(html, 1);
}

static void cell(struct html *html, const struct tag *tag) {
    if (html->cell) {
        for (unsigned i = html->marker_count; i > 0; i--)
            marker_close(html, &html->markers[i - 1]);
        buf_puts(html->out, " |");
    }
    html->cell = false;
    if (tag->closes || html->pre)
        return;
    if (!html->column)
        words(html, "|");
    html->column++;
    html->cell = html->space = true;
}

static void heading(struct html *html, const struct tag *tag) {
    static const char signs[] = "###### ";
    broken(html, 2);
    if (!tag->closes && !html->cell)
        words(html, signs + 6 - (tag->name[1] - '0'));
}

static void paragraph(struct html *html, const struct tag *tag) {
    (void)tag;
    if (!html->item)
        broken(html, 2);
}

static void line(struct html *html, const struct tag *tag) {
    (void)tag;
    broken(html, 1);
}

static void rule(struct html *html, const struct tag *tag) {
    (void)tag;
    broken(html, 2);
    if (!html->cell)
        words(html, "---");
    broken(html, 2);
}

static void quote(struct html *html, const struct tag *tag) {
    broken(html, 2);
    if (tag->closes && html->quotes)
        html->quotes--;
    else if (!tag->closes && html->quotes < DEPTH)
        html->quotes++;
}

static void bold(struct html *html, const struct tag *tag) {
    if (tag->closes)
        marker_pop(html, "bold");
    else
        marker_push(html, "bold", "**", "**", false);
}

static void italic(struct html *html, const struct tag *tag) {
    if (tag->closes)
        marker_pop(html, "italic");
    else
        marker_push(html, "italic", "*", "*", false);
}

static void code(struct html *html, const struct tag *tag) {
    if (html->pre)
        return;
    if (tag->closes)
        marker_pop(html, "code");
    else
        marker_push(html, "code", "`", "`", false);
}

static void anchor(struct html *html, const struct tag *tag) {
    marker_pop(html, "link"); /* links do not nest */
    if (tag->closes || !tag->href || html->pre)
        return;
    address(html->link, sizeof html->link, tag->href, tag->href_len);
    marker_push(html, "link", "[", "](", true);
}

/* All that is between a tag and its end is left out. */
static void skip(struct html *html, const struct tag *tag) {
    size_t len = strlen(tag->name);
    if (tag->closes)
        return;
    for (const char *at = html->at; (at = memchr(at, '<', (size_t)(html->end - at))); at++)
        if ((size_t)(html->end - at) > len + 1 && at[1] == '/' && !strncasecmp(at + 2, tag->name, len)) {
            html->at = at;
            return;
        }
    html->at = html->end;
}

static const struct {
    const char *name;
    void (*run)(struct html *html, const struct tag *tag);
} tags[] = {
    {"p", paragraph},       {"div", paragraph},    {"section", paragraph}, {"article", paragraph},
    {"header", paragraph},  {"footer", paragraph}, {"main", paragraph},    {"aside", paragraph},
    {"nav", paragraph},     {"figure", paragraph}, {"form", paragraph},    {"fieldset", paragraph},
    {"address", paragraph}, {"dl", paragraph},     {"dt", line},           {"dd", line},
    {"br", line},           {"figcaption", line},  {"option", line},       {"h1", heading},
    {"h2", heading},        {"h3", heading},       {"h4", heading},        {"h5", heading},
    {"h6", heading},        {"ul", list},          {"ol", list},           {"li", item},
    {"pre", preformatted},  {"blockquote", quote}, {"hr", rule},           {"b", bold},
    {"strong", bold},       {"i", italic},         {"em", italic},         {"code", code},
    {"a", anchor},          {"img", image},        {"table", table},       {"tr", row},
    {"td", cell},           {"th", cell},          {"script", skip},       {"style", skip},
    {"title", skip},        {"template", skip},    {"noscript", skip},     {"svg", skip},
    {"textarea", skip},
};

/* ---- the text ---- */

/* html->at stands on '<' of something that is no text; else false, and it is. */
static bool markup(struct html *html) {
    size_t left = (size_t)(html->end - html->at);
    char first = left > 1 ? html->at[1] : 0, second = left > 2 ? html->at[2] : 0;
    if (left >= 4 && !memcmp(html->at, "<!--", 4)) {
        const char *over = memmem(html->at + 4, left - 4, "-->", 3);
        html->at = over ? over + 3 : html->end;
        return true;
    }
    if (first == '!' || first == '?') {
        const char *over = memchr(html->at, '>', left);
        html->at = over ? over + 1 : html->end;
        return true;
    }
    struct tag tag = {.closes = first == '/'};
    char letter = (char)((tag.closes ? second : first) | 32);
    if (letter < 'a' || letter > 'z')
        return false;
    html->at += tag.closes ? 2 : 1;
    if (!tag_read(html, &tag))
        return true;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!strcmp(tags[i].name, tag.name)) {
            tags[i].run(html, &tag);
            break;
        }
    return true;
}

void markdown_html(const char *data, size_t len, struct buf *out) {
    struct html html = {.at = data, .end = data + len, .out = out, .fresh = true};
    uint32_t point;
    while (html.at < html.end && !out->failed) {
        if (*html.at == '<' && markup(&html))
            continue;
        html.at += next(html.at, html.end, &point);
        character(&html, point);
    }
    const struct tag end = {.closes = true};
    preformatted(&html, &end);
    row_end(&html);
    broken(&html, 1);
    if (html.begun)
        buf_byte(out, '\n');
}
