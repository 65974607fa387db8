/* Reads multipart/form-data. Called by handlers that take uploads. Invariant: bytes that may begin a boundary are held
 * back until that is known, so it does not matter where the network split the body. Only these bytes and the head of
 * one part are in memory. */
#include <ctype.h>

#include "base/base.h"
#include "http/multipart.h"
#include "base/url.h"

enum {
    WINDOW_BYTES = 64 << 10,
    HEAD_BYTES = 8 << 10,   /* of one part */
    AROUND_BYTES = 8 << 10, /* before the first boundary, and after the last */
    PADDING_BYTES = 64,     /* after a boundary */
    BOUNDARY_BYTES = 70,    /* RFC 2046 */
    PARTS = 64,
    VALUE_BYTES = 64 << 10,   /* of one part that is not the file */
    VALUES_BYTES = 256 << 10, /* of all of them */
    READ_BYTES = 64 << 10,
};

enum state { BEFORE, AFTER_BOUNDARY, HEAD, CONTENT, CLOSED };

struct multipart {
    struct multipart_sink sink;
    enum state state;
    char delimiter[4 + BOUNDARY_BYTES + 1]; /* CR LF "--" and the boundary */
    size_t delimiter_len;
    struct buf window;
    size_t around; /* bytes before the first part or after the last */
    unsigned parts;
};

static int multipart_malformed(struct err *err, const char *why) {
    return err_set(err, ERR_INVALID, "the form is malformed: %s", why);
}

/* ---- parameters: ; name=token; name="quoted" ---- */

/* RFC 7230's token characters */
static bool multipart_is_token(char c) {
    return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Reads one parameter. Returns false at the end, or if it is malformed (then *at is not at the end). In a quoted text a
 * backslash is literal unless a quote or a backslash follows, because some clients send their own paths. */
static bool multipart_param_next(const char **at, struct buf *name, struct buf *value) {
    const char *c = *at;
    buf_clear(name);
    buf_clear(value);
    c += strspn(c, " \t");
    bool more = *c == ';';
    c += more ? 1 + strspn(c + 1, " \t") : 0;
    if (*c == 0) { /* allowed after a semicolon */
        *at = c;
        return false;
    }
    if (!more)
        return false;
    for (; multipart_is_token(*c); c++)
        buf_byte(name, (uint8_t)tolower((unsigned char)*c));
    if (*c++ != '=' || !name->len)
        return false;
    bool quoted = *c == '"';
    for (c += quoted; *c && (quoted ? *c != '"' : multipart_is_token(*c)); c++) {
        if (quoted && *c == '\\' && (c[1] == '"' || c[1] == '\\'))
            c++;
        buf_byte(value, (uint8_t)*c);
    }
    if (quoted && *c++ != '"')
        return false;
    *at = c;
    return !name->failed && !value->failed;
}

static bool multipart_boundary_good(const char *text, size_t len) {
    if (len == 0 || len > BOUNDARY_BYTES || text[len - 1] == ' ')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("'()+_,-./:=? ", text[i]))
            return false;
    return true;
}

/* ---- a part's head ---- */

struct multipart_head {
    char *name, *file_name, *file_name_wide, *type; /* file_name_wide: of filename* */
    bool disposition;
};

/* Refuses a second value, since either could count. */
static bool multipart_keep(char **slot, const struct buf *text) {
    if (*slot || memchr(text->data ? text->data : (uint8_t *)"", 0, text->len))
        return false;
    *slot = xstrndup(text->data ? (const char *)text->data : "", text->len);
    return true;
}

/* UTF-8''%e5%a4%a9 (RFC 5987), in place */
static bool multipart_unpercent(char *text) {
    if (strncasecmp(text, "utf-8'", 6) != 0)
        return false;
    const char *in = strchr(text + 6, '\'');
    memmove(text, in ? in + 1 : "", in ? strlen(in) : 1);
    return url_decode(text, false) == (ssize_t)strlen(text); /* not so with an encoded NUL */
}

static int multipart_disposition(struct multipart_head *head, const char *value, struct err *err) {
    autobuf name = buf_max(HEAD_BYTES), text = buf_max(HEAD_BYTES);
    if (head->disposition || strncasecmp(value, "form-data", 9) != 0)
        return multipart_malformed(err, "a part is not form-data, or has two Content-Dispositions");
    head->disposition = true;
    const char *at = value + 9;
    bool good = true;
    while (good && multipart_param_next(&at, &name, &text)) {
        const char *key = buf_cstr(&name);
        if (strcmp(key, "name") == 0)
            good = multipart_keep(&head->name, &text);
        else if (strcmp(key, "filename") == 0)
            good = multipart_keep(&head->file_name, &text);
        else if (strcmp(key, "filename*") == 0)
            good = multipart_keep(&head->file_name_wide, &text) && multipart_unpercent(head->file_name_wide);
    }
    if (!good || *at)
        return multipart_malformed(err, "a Content-Disposition is not understood");
    return 0;
}

static int multipart_head_line(struct multipart_head *head, char *line, struct err *err) {
    static const char *const plain[] = {"7bit", "8bit", "binary"};
    char *colon = strchr(line, ':');
    if (!colon || colon == line)
        return multipart_malformed(err, "a part's header has no name");
    for (char *c = line; c < colon; c++)
        if (!multipart_is_token(*c))
            return multipart_malformed(err, "a part's header has a bad name");
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (size_t len = strlen(value); len && strchr(" \t", value[len - 1]);)
        value[--len] = 0;
    if (strcasecmp(line, "content-disposition") == 0)
        return multipart_disposition(head, value, err);
    if (strcasecmp(line, "content-type") == 0) {
        struct buf text = {.data = (uint8_t *)value, .len = strlen(value)};
        return multipart_keep(&head->type, &text) ? 0 : multipart_malformed(err, "a part has two types");
    }
    if (strcasecmp(line, "content-transfer-encoding") != 0)
        return 0;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcasecmp(value, plain[i]) == 0)
            return 0;
    return multipart_malformed(err, "a part has a Content-Transfer-Encoding; send it without");
}

static bool multipart_clean(const char *text) {
    for (const char *c = text; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return !text || text_utf8(text, strlen(text));
}

/* text: the lines of the head with their line endings; it is changed. */
static int multipart_head_parse(struct multipart *multipart, char *text, size_t len, struct err *err) {
    struct multipart_head head = {0};
    int r = 0;
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < 0x20 && !strchr("\r\n\t", text[i])) || text[i] == 0 || text[i] == 0x7f)
            return multipart_malformed(err, "a part's head contains a control character");
    for (char *line = text, *next; r == 0 && *line; line = next) {
        char *end = strstr(line, "\r\n"); /* every line has one: the head ends with two */
        next = end + 2;
        *end = 0;
        r = strpbrk(line, "\r\n") ? multipart_malformed(err, "a part's head has a bare CR or LF")
                                  : multipart_head_line(&head, line, err);
    }
    struct multipart_part part = {
        .name = head.name, .file_name = head.file_name_wide ? head.file_name_wide : head.file_name, .type = head.type};
    if (r == 0 && !head.name)
        r = multipart_malformed(err, "a part has no name");
    if (r == 0 && (!multipart_clean(part.name) || !multipart_clean(part.file_name) || !multipart_clean(part.type)))
        r = multipart_malformed(err, "a part's name is not UTF-8, or has a control character");
    unsigned most = multipart->sink.parts ? multipart->sink.parts : PARTS;
    if (r == 0 && ++multipart->parts > most)
        r = err_set(err, ERR_TOO_LARGE, "the form has more than %u parts", most);
    if (r == 0)
        r = multipart->sink.part(multipart->sink.user, &part, err);
    free(head.name);
    free(head.file_name);
    free(head.file_name_wide);
    free(head.type);
    return r;
}

/* ---- the stream ---- */

int multipart_new(const char *content_type, const struct multipart_sink *sink, struct multipart **ret_multipart,
                  struct err *err) {
    static const char type[] = "multipart/form-data";
    autobuf name = buf_max(HEAD_BYTES), value = buf_max(HEAD_BYTES);
    char *boundary = NULL;
    if (!content_type || strncasecmp(content_type, type, sizeof type - 1) != 0 ||
        multipart_is_token(content_type[sizeof type - 1]))
        return err_set(err, ERR_INVALID, "the body must be multipart/form-data");
    const char *at = content_type + sizeof type - 1;
    bool good = true;
    while (good && multipart_param_next(&at, &name, &value))
        if (strcmp(buf_cstr(&name), "boundary") == 0)
            good = multipart_keep(&boundary, &value);
    if (!good || *at || !boundary || !multipart_boundary_good(boundary, strlen(boundary))) {
        free(boundary);
        return multipart_malformed(err, "its boundary is missing or not understood");
    }
    struct multipart *multipart = xcalloc(1, sizeof *multipart);
    multipart->sink = *sink;
    multipart->delimiter_len = 4 + strlen(boundary);
    snprintf(multipart->delimiter, sizeof multipart->delimiter, "\r\n--%s", boundary);
    free(boundary);
    buf_init(&multipart->window, WINDOW_BYTES);
    buf_put(&multipart->window, "\r\n", 2); /* the first boundary needs no newline before it */
    *ret_multipart = multipart;
    return 0;
}

void multipart_free(struct multipart *multipart) {
    if (!multipart)
        return;
    buf_done(&multipart->window);
    free(multipart);
}

/* Passes on content, or drops text before the first boundary. */
static int multipart_give(struct multipart *multipart, size_t len, struct err *err) {
    int r = 0;
    if (multipart->state == CONTENT && len)
        r = multipart->sink.data(multipart->sink.user, multipart->window.data, len, err);
    else if ((multipart->around += len) > AROUND_BYTES)
        r = multipart_malformed(err, "there is too much text outside its parts");
    buf_consume(&multipart->window, len);
    return r;
}

/* Reads "--" or a newline after a boundary. */
static int multipart_step_boundary(struct multipart *multipart, struct err *err) {
    struct buf *window = &multipart->window;
    size_t at = 0;
    if (window->len >= 2 && memcmp(window->data, "--", 2) == 0) {
        buf_consume(window, 2);
        multipart->state = CLOSED;
        multipart->around = 0;
        return 1;
    }
    while (at < window->len && (window->data[at] == ' ' || window->data[at] == '\t'))
        at++;
    if (at > PADDING_BYTES)
        return multipart_malformed(err, "its boundary is followed by something else");
    if (window->len < at + 2 && (window->len <= at || window->data[at] == '\r' || (at == 0 && window->data[0] == '-')))
        return 0;
    if (window->len < at + 2 || memcmp(window->data + at, "\r\n", 2) != 0)
        return multipart_malformed(err, "its boundary is followed by something else");
    buf_consume(window, at + 2);
    multipart->state = HEAD;
    return 1;
}

/* Returns 1 if there may be more to do with the bytes so far. */
static int multipart_step(struct multipart *multipart, struct err *err) {
    switch (multipart->state) {
    case BEFORE:
    case CONTENT: {
        /* Up to the next boundary. 1: it was found. */
        struct buf *window = &multipart->window;
        const uint8_t *found = memmem(window->data, window->len, multipart->delimiter, multipart->delimiter_len);
        size_t held = multipart->delimiter_len - 1;
        size_t len = found ? (size_t)(found - window->data) : window->len > held ? window->len - held : 0;
        int r = multipart_give(multipart, len, err);
        if (r < 0 || !found)
            return r;
        buf_consume(window, multipart->delimiter_len);
        multipart->state = AFTER_BOUNDARY;
        return 1;
    }
    case AFTER_BOUNDARY:
        return multipart_step_boundary(multipart, err);
    case HEAD: {
        struct buf *window = &multipart->window;
        const uint8_t *end = memmem(window->data, window->len, "\r\n\r\n", 4);
        size_t len = end ? (size_t)(end - window->data) + 4 : window->len;
        if (window->len >= 2 && memcmp(window->data, "\r\n", 2) == 0)
            return multipart_malformed(err, "a part has no name");
        if (len > HEAD_BYTES)
            return err_set(err, ERR_TOO_LARGE, "a part's head has more than %d bytes", HEAD_BYTES);
        if (!end)
            return 0;
        char *text = xstrndup((const char *)window->data, len - 2);
        int r = strlen(text) == len - 2 ? multipart_head_parse(multipart, text, len - 2, err)
                                        : multipart_malformed(err, "a part's head contains a NUL");
        free(text);
        TRY(r);
        buf_consume(window, len);
        multipart->state = CONTENT;
        return 1;
    }
    case CLOSED:
        break;
    }
    return multipart_give(multipart, multipart->window.len, err);
}

int multipart_feed(struct multipart *multipart, const void *data, size_t len, struct err *err) {
    const uint8_t *at = data;
    while (len) {
        size_t room = WINDOW_BYTES - multipart->window.len, n = len < room ? len : room;
        buf_put(&multipart->window, at, n);
        at += n;
        len -= n;
        int r;
        while ((r = multipart_step(multipart, err)) > 0)
            continue;
        TRY(r);
    }
    return 0;
}

int multipart_end(struct multipart *multipart, struct err *err) {
    return multipart->state == CLOSED ? 0 : multipart_malformed(err, "it ends before its last boundary");
}

/* ---- a whole form ---- */

struct reader {
    struct arena *arena;
    const char *file_part;
    struct scratch *file;
    struct multipart_form form;
    struct multipart_field *fields; /* PARTS of them */
    struct buf value;               /* of the current part, if it is not the file */
    size_t values;                  /* bytes of all values */
    bool in_file;
};

static void multipart_value_end(struct reader *reader) {
    if (reader->in_file || !reader->form.field_count)
        return;
    struct multipart_field *field = &reader->fields[reader->form.field_count - 1];
    field->value =
        arena_copy(reader->arena, reader->value.data ? reader->value.data : (uint8_t *)"", reader->value.len);
    field->len = reader->value.len;
    buf_clear(&reader->value);
}

static int multipart_form_part(void *user, const struct multipart_part *part, struct err *err) {
    struct reader *reader = user;
    struct multipart_form *form = &reader->form;
    multipart_value_end(reader);
    bool twice = form->has_file && strcmp(part->name, reader->file_part) == 0;
    for (size_t i = 0; i < form->field_count; i++)
        twice |= strcmp(reader->fields[i].part.name, part->name) == 0;
    if (twice)
        return multipart_malformed(err, "two parts have the same name");
    struct multipart_part kept = {.name = arena_strdup_or(reader->arena, part->name),
                                  .file_name = arena_strdup_or(reader->arena, part->file_name),
                                  .type = arena_strdup_or(reader->arena, part->type)};
    reader->in_file = strcmp(part->name, reader->file_part) == 0;
    if (reader->in_file) {
        form->has_file = true;
        form->file = kept;
    } else {
        reader->fields[form->field_count++] = (struct multipart_field){.part = kept, .value = ""};
    }
    return 0;
}

static int multipart_form_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct reader *reader = user;
    if (!reader->in_file) {
        reader->values += len;
        buf_put(&reader->value, data, len);
        if (reader->value.failed || reader->values > VALUES_BYTES)
            return err_set(err, ERR_TOO_LARGE, "a part of the form other than '%s' is too large", reader->file_part);
        return 0;
    }
    return scratch_write(reader->file, data, len, err);
}

int multipart_form(struct http_request *request, const char *file_part, struct scratch *file,
                   struct multipart_form *ret_form, struct err *err) {
    struct arena *arena = http_arena(request);
    struct reader reader = {.arena = arena, .file_part = file_part, .file = file};
    struct multipart_sink sink = {.part = multipart_form_part, .data = multipart_form_data, .user = &reader};
    struct multipart *multipart;
    int64_t length = http_body_length(request);
    TRY(multipart_new(http_header(request, "content-type"), &sink, &multipart, err));
    int r = 0;
    reader.fields = arena_alloc(arena, PARTS * sizeof *reader.fields);
    buf_init(&reader.value, VALUE_BYTES);
    /* Checked before a byte is read if the length is known. Parts other than the file have their own limits. */
    uint64_t around = VALUES_BYTES + PARTS * HEAD_BYTES + 2 * AROUND_BYTES;
    if (length > 0 && (uint64_t)length > around)
        r = scratch_fits(file, (uint64_t)length - around, err);
    if (r == 0) {
        uint8_t *data = xmalloc(READ_BYTES);
        ssize_t n;
        while ((n = http_body_read(request, data, READ_BYTES, err)) > 0) {
            r = multipart_feed(multipart, data, (size_t)n, err);
            if (r < 0) {
                n = r;
                break;
            }
        }
        free(data);
        r = n < 0 ? (int)n : multipart_end(multipart, err);
    }
    multipart_free(multipart);
    if (r == 0) {
        multipart_value_end(&reader);
        reader.form.fields = reader.fields;
        *ret_form = reader.form;
    }
    buf_done(&reader.value);
    return r;
}

const char *multipart_field(const struct multipart_form *form, const char *name, size_t *ret_len) {
    for (size_t i = 0; i < form->field_count; i++) {
        if (strcmp(form->fields[i].part.name, name) != 0)
            continue;
        if (ret_len)
            *ret_len = form->fields[i].len;
        return form->fields[i].value;
    }
    return NULL;
}
