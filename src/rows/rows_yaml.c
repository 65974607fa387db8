/* YAML values (rows_yaml.h). Invariant: bytes, values and depth are bounded while libyaml is read, and a value that
 * comes from the environment is never part of an error. */
#include "rows/rows_yaml.h"

#include <yaml.h>

#include "base/base.h"

enum { YAML_VALUES = 250000, YAML_DEPTH = 12, YAML_VALUE_BYTES = 256 << 10 };

struct yaml_source {
    yaml_parser_t parser;
    const char *file, *data;
    size_t len, values, depth;
    struct arena *arena;
};

int rows_yaml_at(const struct rows_yaml *value, struct err *err) {
    return err_wrap(err, "%s line %zu", value->file, value->line);
}

int rows_yaml_at_key(const struct rows_yaml *value, struct err *err) {
    return err_wrap(err, "%s line %zu", value->file, value->key_line);
}

/* ---- reading ---- */

static int yaml_next(struct yaml_source *source, yaml_event_t *ret_event, struct err *err) {
    yaml_parser_t *parser = &source->parser;
    if (yaml_parser_parse(parser, ret_event))
        return 0;
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* its mark is not set */
        line = 1;
        for (size_t i = 0; i < source->len && i < parser->problem_offset; i++)
            line += source->data[i] == '\n';
    }
    return err_set(err, ERR_INVALID, "%s line %zu: not YAML: %s", source->file, line,
                   parser->problem ? parser->problem : "?");
}

/* One reference at text, which begins with '$'; *ret_used: bytes of it. */
static int yaml_reference(const char *text, struct buf *out, size_t *ret_used, struct err *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    bool braced = text[1] == '{';
    const char *begin = text + 1 + braced;
    size_t len = *begin >= '0' && *begin <= '9' ? 0 : strspn(begin, letters);
    if (text[1] == '$') {
        buf_byte(out, '$');
        *ret_used = 2;
        return 0;
    }
    if (!len || len > 255 || (braced && begin[len] != '}'))
        return err_set(err, ERR_INVALID, "a '$' must be followed by a name, {name} or another '$'");
    const char *name = text_make(256, "%.*s", (int)len, begin), *value = getenv(name);
    if (!value)
        return err_set(err, ERR_INVALID, "$%s is not set in the environment", name);
    buf_puts(out, value);
    *ret_used = 1 + braced + len + braced;
    return 0;
}

static int yaml_expand(struct arena *arena, const char *text, const char **ret_text, struct err *err) {
    autobuf out = buf_max(YAML_VALUE_BYTES);
    while (*text) {
        size_t used = strcspn(text, "$");
        buf_put(&out, text, used);
        text += used;
        used = 0;
        if (*text)
            TRY(yaml_reference(text, &out, &used, err));
        text += used;
    }
    if (out.failed)
        return err_set(err, ERR_INVALID, "the value is longer than %d bytes", YAML_VALUE_BYTES);
    *ret_text = arena_copy(arena, out.data ? out.data : (uint8_t *)"", out.len);
    return 0;
}

static int yaml_key_order(const void *a, const void *b) {
    const struct rows_yaml *first = *(const struct rows_yaml *const *)a, *second = *(const struct rows_yaml *const *)b;
    int order = strcmp(first->key, second->key);
    return order ? order : first < second ? -1 : 1; /* in the order of the file */
}

static int yaml_keys_differ(const struct rows_yaml *map, struct err *err) {
    const struct rows_yaml **order = xcalloc(map->count + 1, sizeof *order), *twice = NULL;
    for (size_t i = 0; i < map->count; i++)
        order[i] = &map->items[i];
    qsort(order, map->count, sizeof *order, yaml_key_order);
    for (size_t i = 1; i < map->count && !twice; i++)
        twice = strcmp(order[i - 1]->key, order[i]->key) == 0 ? order[i] : NULL;
    free(order);
    if (!twice)
        return 0;
    err_set(err, ERR_INVALID, "%.60s is given twice", twice->key);
    return rows_yaml_at_key(twice, err);
}

static int yaml_items(struct yaml_source *source, const char *what, struct rows_yaml *value, struct err *err);

/* The next value, or the end of what is around it. what: its name in errors; NULL: it is a name itself. */
static int yaml_value(struct yaml_source *source, const char *what, struct rows_yaml *value, bool *ret_end,
                      struct err *err) {
    yaml_event_t event;
    TRY(yaml_next(source, &event, err));
    size_t line = event.start_mark.line + 1;
    bool text = event.type == YAML_SCALAR_EVENT, map = event.type == YAML_MAPPING_START_EVENT;
    *value = (struct rows_yaml){.file = source->file, .line = line, .key_line = line};
    value->kind = text ? ROWS_YAML_TEXT : map ? ROWS_YAML_MAP : ROWS_YAML_LIST;
    if (text && strlen((char *)event.data.scalar.value) == event.data.scalar.length)
        value->text = value->shown = arena_strdup(source->arena, (char *)event.data.scalar.value);
    const char *refused = event.type == YAML_ALIAS_EVENT   ? "aliases (*name) are not supported; write the value out"
                          : ++source->values > YAML_VALUES ? "too many values"
                                                           : NULL;
    *ret_end = !text && !map && event.type != YAML_SEQUENCE_START_EVENT && !refused;
    yaml_event_delete(&event);
    if (refused) {
        err_set(err, ERR_INVALID, "%s", refused);
        return rows_yaml_at(value, err);
    }
    if (!text)
        return *ret_end ? 0 : yaml_items(source, what, value, err);
    if (!what || !value->shown || !strchr(value->shown, '$') ||
        yaml_expand(source->arena, value->shown, &value->text, err) == 0)
        return 0;
    err_wrap(err, "%s", what);
    return rows_yaml_at(value, err);
}

/* The members of a list or a mapping, after its start. */
static int yaml_items(struct yaml_source *source, const char *what, struct rows_yaml *value, struct err *err) {
    bool map = value->kind == ROWS_YAML_MAP;
    size_t cap = 0;
    if (++source->depth > YAML_DEPTH) {
        err_set(err, ERR_INVALID, "nested too deep");
        return rows_yaml_at(value, err);
    }
    for (;;) {
        struct rows_yaml key = {0}, item;
        bool end = false;
        if (map)
            TRY(yaml_value(source, NULL, &key, &end, err));
        if (!end && map && !key.shown) {
            err_set(err, ERR_INVALID, "a name must be text");
            return rows_yaml_at(&key, err);
        }
        if (!end)
            TRY(yaml_value(source, map ? key.shown : what, &item, &end, err));
        if (end)
            break;
        item.key = key.shown;
        item.key_line = map ? key.line : item.line;
        arena_add(source->arena, value->items, value->count, cap) = item;
    }
    source->depth--;
    return map ? yaml_keys_differ(value, err) : 0;
}

/* The stream: at most one document. */
static int yaml_document(struct yaml_source *source, struct rows_yaml **ret_root, struct err *err) {
    struct rows_yaml *root = NULL;
    for (;;) {
        yaml_event_t event;
        TRY(yaml_next(source, &event, err));
        struct rows_yaml here = {.file = source->file, .line = event.start_mark.line + 1};
        yaml_event_type_t type = event.type;
        bool end;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            break;
        if (type != YAML_DOCUMENT_START_EVENT)
            continue;
        if (root) {
            err_set(err, ERR_INVALID, "a second document");
            return rows_yaml_at(&here, err);
        }
        root = arena_alloc(source->arena, sizeof *root);
        TRY(yaml_value(source, "the configuration", root, &end, err));
    }
    *ret_root = root && root->shown && !*root->shown ? NULL : root;
    return 0;
}

int rows_yaml_load(const char *file, const char *data, size_t len, struct arena *arena, struct rows_yaml **ret_root,
                   struct err *err) {
    struct yaml_source source = {.file = file, .data = data, .len = len, .arena = arena};
    xensure(yaml_parser_initialize(&source.parser));
    yaml_parser_set_input_string(&source.parser, (const unsigned char *)data, len);
    int failed = yaml_document(&source, ret_root, err);
    yaml_parser_delete(&source.parser);
    return failed;
}

/* ---- using ---- */

int rows_yaml_is(const struct rows_yaml *value, enum rows_yaml_kind kind, const char *what, size_t max,
                 struct err *err) {
    static const char *const names[] = {
        [ROWS_YAML_TEXT] = "a single value", [ROWS_YAML_LIST] = "a list", [ROWS_YAML_MAP] = "a mapping (name: value)"};
    if (value->kind != kind || (kind == ROWS_YAML_TEXT && !value->text))
        err_set(err, ERR_INVALID, "%s must be %s", what, names[kind]);
    else if (max && value->count > max)
        err_set(err, ERR_INVALID, "%s: more than %zu", what, max);
    else
        return 0;
    return rows_yaml_at(value, err);
}

int rows_yaml_bind(const struct rows_yaml *map, const char *what, const struct row *rows, struct arena *arena, void *to,
                   struct err *err) {
    TRY(rows_yaml_is(map, ROWS_YAML_MAP, what, 0, err));
    for (size_t i = 0; i < map->count; i++) {
        const struct rows_yaml *item = &map->items[i];
        const struct row *row = rows_find(rows, item->key, strlen(item->key));
        if (!row) {
            err_set(err, ERR_INVALID, "unknown key '%.40s' of %s", item->key, what);
            return rows_yaml_at_key(item, err);
        }
        TRY(rows_yaml_is(item, ROWS_YAML_TEXT, row->name, 0, err));
        if (rows_set(row, item->text, item->shown, arena, (char *)to + row->offset, err))
            return rows_yaml_at(item, err);
    }
    return 0;
}
