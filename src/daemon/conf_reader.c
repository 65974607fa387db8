/* A configuration file as YAML nodes. Called by conf_file.c and conf_parts.c. Invariant: libyaml's input is bounded
 * first (bytes, nodes, depth, no aliases), and a value that comes from the environment is never part of an error. */
#include "base/base.h"
#include "daemon/conf_table.h"

enum { READER_NODES = 250000, READER_DEPTH = 12, READER_VALUE_BYTES = 256 << 10 };

int conf_at(struct conf_reader *reader, const yaml_node_t *node, struct err *err) {
    return err_wrap(err, "%s line %zu", reader->path, node->start_mark.line + 1);
}

int conf_refuse(struct conf_reader *reader, const yaml_node_t *node, struct err *err, const char *format, ...) {
    char text[sizeof err->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    err_set(err, ERR_INVALID, "%s", text);
    return conf_at(reader, node, err);
}

/* ---- opening ---- */

static size_t reader_line(const char *data, size_t len, size_t offset) {
    size_t line = 1;
    for (size_t i = 0; i < len && i < offset; i++)
        line += data[i] == '\n';
    return line;
}

static int reader_problem(const struct conf_reader *reader, const yaml_parser_t *parser, const char *data, size_t len,
                          struct err *err) {
    size_t line = parser->error == YAML_READER_ERROR ? reader_line(data, len, parser->problem_offset)
                                                     : parser->problem_mark.line + 1;
    return err_set(err, ERR_INVALID, "%s line %zu: not YAML: %s", reader->path, line,
                   parser->problem ? parser->problem : "?");
}

struct reader_scan {
    size_t nodes, depth, documents;
};

/* One event of the file; a reason why it is refused, or NULL. */
static const char *reader_scan_event(struct reader_scan *scan, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "aliases (*name) are not taken; write it out";
    case YAML_DOCUMENT_START_EVENT:
        return ++scan->documents > 1 ? "a second document" : NULL;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        scan->depth--;
        return NULL;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (++scan->depth > READER_DEPTH)
            return "nested too deep";
        break;
    case YAML_SCALAR_EVENT:
        break;
    default:
        return NULL;
    }
    return ++scan->nodes > READER_NODES ? "too many values" : NULL;
}

static int reader_scan(const struct conf_reader *reader, const char *data, size_t len, struct err *err) {
    struct reader_scan scan = {0};
    yaml_parser_t parser;
    int failed = 0;
    xensure(yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, len);
    for (bool more = true; more && !failed;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            failed = reader_problem(reader, &parser, data, len, err);
            break;
        }
        const char *refused = reader_scan_event(&scan, &event);
        if (refused)
            failed = err_set(err, ERR_INVALID, "%s line %zu: %s", reader->path, event.start_mark.line + 1, refused);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return failed;
}

int conf_reader_open(struct conf_reader *reader, const char *data, size_t len, struct err *err) {
    int failed = reader_scan(reader, data, len, err);
    if (failed)
        return failed;
    yaml_parser_t parser;
    xensure(yaml_parser_initialize(&parser));
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, len);
    if (!yaml_parser_load(&parser, &reader->document))
        failed = reader_problem(reader, &parser, data, len, err);
    yaml_parser_delete(&parser);
    return failed;
}

void conf_reader_done(struct conf_reader *reader) {
    yaml_document_delete(&reader->document);
}

/* ---- scalars ---- */

const char *conf_key(const yaml_node_t *node) {
    if (node->type != YAML_SCALAR_NODE || strlen((char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

static bool reader_name_byte(char c, bool first) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* One reference at text, which begins with '$'; *ret_used: bytes of it. */
static int reader_expand_one(const char *text, struct buf *out, size_t *ret_used, struct err *err) {
    char name[256];
    if (text[1] == '$') {
        buf_byte(out, '$');
        *ret_used = 2;
        return 0;
    }
    bool braced = text[1] == '{';
    const char *begin = text + 1 + braced;
    size_t len = 0;
    while (reader_name_byte(begin[len], len == 0))
        len++;
    if (!len || len >= sizeof name || (braced && begin[len] != '}'))
        return err_set(err, ERR_INVALID, "a '$' must be followed by a name, {name} or another '$'");
    memcpy(name, begin, len);
    name[len] = 0;
    const char *value = getenv(name);
    if (!value)
        return err_set(err, ERR_INVALID, "$%s is not set in the environment of cubbyd", name);
    if (*value)
        buf_puts(out, value);
    *ret_used = 1 + braced + len + braced;
    return 0;
}

static int reader_expand(struct arena *arena, const char *text, const char **ret_value, struct err *err) {
    autobuf out;
    int failed = 0;
    buf_init(&out, READER_VALUE_BYTES);
    while (*text && !failed) {
        size_t used = strcspn(text, "$");
        if (used)
            buf_put(&out, text, used);
        text += used;
        used = 0;
        if (*text)
            failed = reader_expand_one(text, &out, &used, err);
        text += used;
    }
    if (!failed && out.failed)
        failed = err_set(err, ERR_INVALID, "the value is longer than %d bytes", READER_VALUE_BYTES);
    if (!failed)
        *ret_value = arena_copy(arena, out.data ? out.data : (uint8_t *)"", out.len);
    return failed;
}

int conf_scalar(struct conf_reader *reader, const yaml_node_t *node, const char *what, const char **ret_value,
                const char **ret_shown, struct err *err) {
    const char *text = conf_key(node), *value = text;
    if (!text)
        return conf_refuse(reader, node, err, "%s must be a single value", what);
    if (strchr(text, '$') && reader_expand(&reader->conf->arena, text, &value, err)) {
        err_wrap(err, "%s", what);
        return conf_at(reader, node, err);
    }
    *ret_value = value;
    if (ret_shown)
        *ret_shown = text;
    return 0;
}

/* ---- mappings and sequences ---- */

static int reader_pair_order(const void *a, const void *b) {
    return strcmp(((const struct conf_pair *)a)->key, ((const struct conf_pair *)b)->key);
}

static int reader_pair_place(const void *a, const void *b) {
    size_t first = ((const struct conf_pair *)a)->key_node->start_mark.index,
           second = ((const struct conf_pair *)b)->key_node->start_mark.index;
    return first < second ? -1 : first > second;
}

int conf_pairs(struct conf_reader *reader, const yaml_node_t *node, const char *what, size_t max,
               struct conf_pair **ret_pairs, size_t *ret_count, struct err *err) {
    if (node->type != YAML_MAPPING_NODE)
        return conf_refuse(reader, node, err, "%s must be a mapping (name: value)", what);
    size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
    struct conf_pair *pairs = arena_alloc(&reader->conf->arena, (count + 1) * sizeof *pairs);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
        pairs[i].key_node = yaml_document_get_node(&reader->document, pair->key);
        pairs[i].value = yaml_document_get_node(&reader->document, pair->value);
        pairs[i].key = conf_key(pairs[i].key_node);
        if (!pairs[i].key)
            return conf_refuse(reader, pairs[i].key_node, err, "a name in %s must be text", what);
    }
    if (count)
        qsort(pairs, count, sizeof *pairs, reader_pair_order);
    for (size_t i = 1; i < count; i++)
        if (strcmp(pairs[i - 1].key, pairs[i].key) == 0) {
            bool later = reader_pair_place(&pairs[i], &pairs[i - 1]) > 0;
            return conf_refuse(reader, pairs[later ? i : i - 1].key_node, err, "%.60s is given twice", pairs[i].key);
        }
    if (max && count > max)
        return conf_refuse(reader, node, err, "%s: more than %zu", what, max);
    if (count)
        qsort(pairs, count, sizeof *pairs, reader_pair_place);
    *ret_pairs = pairs;
    *ret_count = count;
    return 0;
}

int conf_items(struct conf_reader *reader, const yaml_node_t *node, const char *what, size_t max,
               struct conf_pair **ret_items, size_t *ret_count, struct err *err) {
    if (node->type != YAML_SEQUENCE_NODE)
        return conf_refuse(reader, node, err, "%s must be a list", what);
    size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (max && count > max)
        return conf_refuse(reader, node, err, "%s: more than %zu", what, max);
    struct conf_pair *items = arena_alloc(&reader->conf->arena, (count + 1) * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i].key_node = items[i].value =
            yaml_document_get_node(&reader->document, node->data.sequence.items.start[i]);
    *ret_items = items;
    *ret_count = count;
    return 0;
}

int conf_bind(struct conf_reader *reader, const yaml_node_t *node, const char *what, const struct row *rows, void *to,
              struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = conf_pairs(reader, node, what, 0, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++) {
        const struct row *row = rows_find(rows, pairs[i].key, strlen(pairs[i].key));
        const char *value, *shown;
        if (!row)
            return conf_refuse(reader, pairs[i].key_node, err, "unknown key '%.40s' of %s", pairs[i].key, what);
        failed = conf_scalar(reader, pairs[i].value, row->name, &value, &shown, err);
        if (!failed && rows_set(row, value, shown, &reader->conf->arena, (char *)to + row->offset, err))
            failed = conf_at(reader, pairs[i].value, err);
    }
    return failed;
}
