/* pick [-r|-c|-j ...] [--arg NAME VALUE ...] FILTER [FILE]: jq for the filters that tests use, in a thirtieth of its time: they ask
 * thousands of times. Whatever is not plain (an operator or a function that is not here, an error, a number jq might write
 * otherwise, text that is not UTF-8) is left to jq itself, which then gets the same arguments and input. So whatever pick
 * does must print what jq prints. */
#include "pick_json.h"
#include <ctype.h>
#include <fcntl.h>

enum op { ITSELF, CONSTANT, TEXT, QUOTED, COLLECT, EACH, AT, PIPE, COMMA, ELSE, OR, AND, EQUAL, UNEQUAL, ADD, CALL };

struct node {
    enum op op;
    struct node *left, *right;
    struct value *constant;
    const char *name; /* of a function */
    size_t len;
};

static const char *variables[16], *values[16];
static int variable_count;

/* ---- the filter ---- */

static struct node *pipe_read(void);

static struct node *node_new(enum op op, struct node *left, struct node *right) {
    struct node *new = make(1, sizeof *new);
    *new = (struct node){op, left, right, NULL, NULL, 0};
    return new;
}

static struct node *constant(struct value *value) {
    struct node *new = node_new(CONSTANT, NULL, NULL);
    new->constant = value;
    return new;
}

static size_t word_len(void) {
    size_t len = 0;
    while (at + len < end && (at[len] == '_' || (len ? isalnum(at[len]) : isalpha(at[len]))))
        len++;
    return len;
}

/* "a \(b) c": the texts and what is between them, added up. as: TEXT, or QUOTED for a shell */
static struct node *text_read(enum op as) {
    struct node *all = NULL;
    for (bool more = true; more;) {
        more = false;
        struct node *part = constant(string_read(&more));
        all = all ? node_new(ADD, all, part) : part;
        if (more) {
            all = node_new(ADD, all, node_new(as, pipe_read(), NULL));
            must(")");
        }
    }
    return all;
}

static struct node *call_read(void) {
    struct node *call = node_new(CALL, NULL, NULL);
    call->name = at, call->len = word_len();
    if (!call->len)
        unsure();
    at += call->len;
    if (at < end && *at == '(') {
        at++;
        call->left = pipe_read();
        must(")");
    }
    return call;
}

static struct node *variable_read(void) {
    size_t len = word_len();
    for (int i = 0; i < variable_count; i++)
        if (strlen(variables[i]) == len && memcmp(variables[i], at, len) == 0) {
            at += len;
            return constant(value_new(STRING, values[i], strlen(values[i])));
        }
    unsure();
}

static struct node *first_read(void) {
    struct node *new;
    char first = next();
    if (first >= '0' && first <= '9')
        return constant(value_number(number(number_read())));
    if (take("(")) {
        new = pipe_read();
        must(")");
        return new;
    }
    if (take("[")) {
        new = node_new(COLLECT, take("]") ? NULL : pipe_read(), NULL);
        if (new->left)
            must("]");
        return new;
    }
    if (take("\""))
        return text_read(TEXT);
    if (take("@sh \""))
        return text_read(QUOTED);
    if (take("$"))
        return variable_read();
    if (take(".")) {
        at -= at < end && (word_len() || *at == '"'); /* .name: the dot is read again */
        return node_new(ITSELF, NULL, NULL);
    }
    return call_read();
}

static struct node *postfix_read(void) {
    struct node *new = first_read();
    for (;;) {
        if (at < end && *at == '.') {
            at++;
            size_t len = word_len();
            if (len)
                new = node_new(AT, new, constant(value_new(STRING, at, len)));
            else if (at < end && *at == '"')
                at++, new = node_new(AT, new, text_read(TEXT));
            else if (at >= end || *at != '[')
                unsure();
            at += len;
        } else if (at < end && *at == '[') {
            at++;
            if (take("]")) {
                new = node_new(EACH, new, NULL);
                continue;
            }
            new = node_new(AT, new, take("-") ? constant(value_number(-number(number_read()))) : pipe_read());
            must("]");
        } else {
            return new;
        }
    }
}

static bool take_word(const char *word) {
    const char *before = at;
    next();
    if (word_len() == strlen(word) && take(word))
        return true;
    at = before;
    return false;
}

static struct node *sum_read(void) {
    struct node *new = postfix_read();
    while (next() == '+' && at + 1 < end && at[1] != '=')
        at++, new = node_new(ADD, new, postfix_read());
    return new;
}

static struct node *compared_read(void) {
    struct node *new = sum_read();
    if (take("=="))
        return node_new(EQUAL, new, sum_read());
    return take("!=") ? node_new(UNEQUAL, new, sum_read()) : new;
}

static struct node *and_read(void) {
    struct node *new = compared_read();
    while (take_word("and"))
        new = node_new(AND, new, compared_read());
    return new;
}

static struct node *or_read(void) {
    struct node *new = and_read();
    while (take_word("or"))
        new = node_new(OR, new, and_read());
    return new;
}

static struct node *else_read(void) {
    struct node *new = or_read();
    next();
    if (end - at > 2 && at[0] == '/' && at[1] == '/' && at[2] != '=')
        at += 2, new = node_new(ELSE, new, else_read());
    return new;
}

static struct node *comma_read(void) {
    struct node *new = else_read();
    while (take(","))
        new = node_new(COMMA, new, else_read());
    return new;
}

static struct node *pipe_read(void) {
    struct node *new = comma_read();
    next();
    if (end - at > 1 && at[0] == '|' && at[1] != '=')
        at++, new = node_new(PIPE, new, pipe_read());
    return new;
}

/* ---- what a filter does ---- */

static struct value *eval(const struct node *node, struct value *in);

static struct value *truth(bool yes) {
    return value_new(yes ? YES : NO, NULL, 0);
}

static bool is_true(const struct value *value) {
    return value->kind > NO && value->kind != NONE;
}

static struct value *as_text(struct value *value) {
    if (value->kind == STRING)
        return value;
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    value_write(to, value, -1);
    fclose(to);
    return value_new(STRING, text, len);
}

/* For a shell, as jq's @sh does it. */
static struct value *quoted(struct value *value) {
    if (value->kind >= ARRAY)
        unsure();
    if (value->kind != STRING)
        return as_text(value);
    char *text = make(value->len * 4 + 2, 1), *to = text;
    *to++ = '\'';
    for (size_t i = 0; i < value->len; i++)
        to = value->text[i] == '\'' ? stpcpy(to, "'\\''") : (*to = value->text[i], to + 1);
    *to++ = '\'';
    return value_new(STRING, text, (size_t)(to - text));
}

static struct value *concat(const struct value *a, const struct value *b) {
    char *text = make(a->len + b->len, 1);
    memcpy(text, a->text, a->len);
    memcpy(text + a->len, b->text, b->len);
    return value_new(STRING, text, a->len + b->len);
}

static bool equal(const struct value *a, const struct value *b) {
    if (a->kind == OBJECT && b->kind == OBJECT)
        unsure();
    if (a->kind != b->kind || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!equal(a->items[i], b->items[i]))
            return false;
    if (a->kind == NUMBER)
        return number(a) == number(b);
    return a->kind != STRING || same_text(a, b->text, b->len);
}

static struct value *add(struct value *a, struct value *b) {
    if (a->kind == NONE || b->kind == NONE)
        return a->kind == NONE ? b : a;
    if (a->kind != b->kind || a->kind == OBJECT || a->kind <= YES)
        unsure();
    if (a->kind == NUMBER)
        return value_number(number(a) + number(b));
    if (a->kind == STRING)
        return concat(a, b);
    struct value *both = value_new(ARRAY, NULL, 0);
    for (size_t i = 0; i < a->count + b->count; i++)
        append(both, i < a->count ? a->items[i] : b->items[i - a->count]);
    return both;
}

static struct value *member(struct value *of, const struct value *key) {
    if (key->kind == STRING && of->kind == OBJECT) {
        for (size_t i = 0; i < of->count; i++)
            if (same_text(of->keys[i], key->text, key->len))
                return of->items[i];
    } else if (key->kind == NUMBER && of->kind == ARRAY) {
        long long index = number(key);
        index += index < 0 ? (long long)of->count : 0;
        if (index >= 0 && index < (long long)of->count)
            return of->items[index];
    } else if (of->kind != NONE || (key->kind != STRING && key->kind != NUMBER)) {
        unsure();
    }
    return value_new(NONE, NULL, 0);
}

static int order(const void *a, const void *b) {
    const struct value *one = *(struct value *const *)a, *other = *(struct value *const *)b;
    if (one->kind == NUMBER && other->kind == NUMBER) {
        long long first = number(one), second = number(other);
        return (first > second) - (first < second);
    }
    if (one->kind != STRING || other->kind != STRING)
        unsure();
    int sign = memcmp(one->text, other->text, one->len < other->len ? one->len : other->len);
    return sign ? sign : (one->len > other->len) - (one->len < other->len);
}

static struct value *sorted(const struct value *list, bool once) {
    struct value *copy = value_new(ARRAY, NULL, 0), *all = value_new(ARRAY, NULL, 0);
    for (size_t i = 0; i < list->count; i++)
        append(copy, list->items[i]);
    if (copy->count)
        qsort(copy->items, copy->count, sizeof *copy->items, order);
    for (size_t i = 0; i < copy->count; i++)
        if (!once || !i || !equal(copy->items[i - 1], copy->items[i]))
            append(all, copy->items[i]);
    return all;
}

static struct value *length(const struct value *of) {
    long long count = (long long)of->count;
    if (of->kind == STRING)
        for (size_t i = 0; i < of->len; i++)
            count += (of->text[i] & 0xc0) != 0x80;
    else if (of->kind != NONE && of->kind != ARRAY && of->kind != OBJECT)
        unsure();
    return value_number(count);
}

static struct value *joined(const struct value *list, const struct value *between) {
    struct value *all = value_new(STRING, "", 0);
    if (between->kind != STRING)
        unsure();
    for (size_t i = 0; i < list->count; i++) {
        struct value *item = list->items[i];
        if (item->kind >= ARRAY)
            unsure();
        all = i ? concat(all, between) : all;
        all = item->kind == NONE ? all : concat(all, as_text(item));
    }
    return all;
}

static struct value *place(const struct value *list, const struct value *of) {
    for (size_t i = 0; i < list->count; i++)
        if (equal(list->items[i], of))
            return value_number((long long)i);
    return value_new(NONE, NULL, 0);
}

/* Functions without an argument, or with one that is a value. */
static struct value *called(const char *name, struct value *in, struct value *argument) {
    static const char *const kinds[] = {"null", "boolean", "boolean", "number", "string", "array", "object"};
    bool list = in->kind == ARRAY, text = in->kind == STRING && argument && argument->kind == STRING;
    if (strcmp(name, "length/0") == 0)
        return length(in);
    if (strcmp(name, "tostring/0") == 0)
        return as_text(in);
    if (strcmp(name, "not/0") == 0)
        return truth(!is_true(in));
    if (strcmp(name, "type/0") == 0)
        return value_new(STRING, kinds[in->kind], strlen(kinds[in->kind]));
    if (strcmp(name, "join/1") == 0 && list)
        return joined(in, argument);
    if ((strcmp(name, "sort/0") == 0 || strcmp(name, "unique/0") == 0) && list)
        return sorted(in, name[0] == 'u');
    if (strcmp(name, "keys/0") == 0 && in->kind == OBJECT)
        return sorted(&(struct value){.items = in->keys, .count = in->count}, false);
    if (strcmp(name, "last/0") == 0 && list)
        return member(in, value_number(-1));
    if (strcmp(name, "first/0") == 0 && list)
        return member(in, value_number(0));
    if (strcmp(name, "index/1") == 0 && list && argument->kind < ARRAY)
        return place(in, argument);
    if (strcmp(name, "startswith/1") == 0 && text)
        return truth(in->len >= argument->len && memcmp(in->text, argument->text, argument->len) == 0);
    if (strcmp(name, "endswith/1") == 0 && text)
        return truth(in->len >= argument->len &&
                     memcmp(in->text + in->len - argument->len, argument->text, argument->len) == 0);
    if (strcmp(name, "has/1") == 0 && in->kind == OBJECT && argument->kind == STRING)
        for (size_t i = 0; i <= in->count; i++)
            if (i == in->count || same_text(in->keys[i], argument->text, argument->len))
                return truth(i < in->count);
    unsure();
}

/* The only value of a filter; NULL for none. */
static struct value *one(const struct node *node, struct value *in) {
    struct value *all = eval(node, in);
    if (all->count > 1)
        unsure();
    return all->count ? all->items[0] : NULL;
}

static void call(const struct node *node, struct value *in, struct value *out) {
    char name[32];
    if (node->len > sizeof name - 3)
        unsure();
    snprintf(name, sizeof name, "%.*s/%d", (int)node->len, node->name, node->left != NULL);
    if (strcmp(name, "empty/0") == 0)
        return;
    if (strcmp(name, "null/0") == 0 || strcmp(name, "true/0") == 0 || strcmp(name, "false/0") == 0) {
        append(out, value_new(name[0] == 'n' ? NONE : name[0] == 't' ? YES : NO, NULL, 0));
        return;
    }
    if (strcmp(name, "select/1") == 0) {
        struct value *is = one(node->left, in);
        if (is && is_true(is))
            append(out, in);
        return;
    }
    if (strcmp(name, "map/1") == 0) {
        struct value *all = value_new(ARRAY, NULL, 0);
        if (in->kind != ARRAY)
            unsure();
        for (size_t i = 0; i < in->count; i++) {
            struct value *some = eval(node->left, in->items[i]);
            for (size_t k = 0; k < some->count; k++)
                append(all, some->items[k]);
        }
        append(out, all);
        return;
    }
    struct value *argument = node->left ? one(node->left, in) : NULL;
    if (!node->left || argument)
        append(out, called(name, in, argument));
}

static struct value *both(const struct node *node, struct value *a, struct value *b) {
    if (node->op == ADD)
        return add(a, b);
    if (node->op == AT)
        return member(a, b);
    if (node->op == AND || node->op == OR)
        return truth(node->op == AND ? is_true(a) && is_true(b) : is_true(a) || is_true(b));
    return truth(equal(a, b) == (node->op == EQUAL));
}

/* Every value that the filter gives of this one. */
static struct value *eval(const struct node *node, struct value *in) {
    struct value *out = value_new(ARRAY, NULL, 0), *left, *right;
    switch (node->op) {
    case ITSELF:
        append(out, in);
        break;
    case CONSTANT:
        append(out, node->constant);
        break;
    case TEXT:
    case QUOTED:
        if ((left = one(node->left, in)))
            append(out, node->op == TEXT ? as_text(left) : quoted(left));
        break;
    case COLLECT:
        append(out, node->left ? eval(node->left, in) : value_new(ARRAY, NULL, 0));
        break;
    case EACH:
    case PIPE:
        left = eval(node->left, in);
        for (size_t i = 0; i < left->count; i++) {
            right = node->op == PIPE ? eval(node->right, left->items[i]) : left->items[i];
            if (right->kind != ARRAY && right->kind != OBJECT)
                unsure();
            for (size_t k = 0; k < right->count; k++)
                append(out, right->items[k]);
        }
        break;
    case COMMA:
        left = eval(node->left, in), right = eval(node->right, in);
        return add(left, right);
    case ELSE:
        left = eval(node->left, in);
        for (size_t i = 0; i < left->count; i++)
            if (is_true(left->items[i]))
                append(out, left->items[i]);
        return out->count ? out : eval(node->right, in);
    case AT: /* of each on the left */
        left = eval(node->left, in), right = one(node->right, in);
        for (size_t i = 0; right && i < left->count; i++)
            append(out, member(left->items[i], right));
        break;
    case CALL:
        call(node, in, out);
        break;
    default:
        left = one(node->left, in), right = one(node->right, in);
        if (left && right)
            append(out, both(node, left, right));
    }
    return out;
}

static void input_read(const char *path) {
    size_t size = 1 << 16;
    int fd = path ? open(path, O_RDONLY) : 0;
    ssize_t n;
    if (fd < 0)
        unsure();
    data = make(size, 1);
    while ((n = read(fd, data + data_len, size - data_len)) > 0)
        if ((data_len += (size_t)n) == size && !(data = realloc(data, (size *= 2) + 1)))
            _exit(125);
    data[data_len] = 0;
}

int main(int argc, char **argv) {
    bool raw = false, compact = false, bare = false;
    const char *filter = NULL, *path = NULL;
    arguments = argv;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] && strspn(argv[i] + 1, "rcj") == strlen(argv[i] + 1)) {
            bare |= strchr(argv[i], 'j') != NULL;
            raw |= bare || strchr(argv[i], 'r');
            compact |= strchr(argv[i], 'c') != NULL;
        } else if (strcmp(argv[i], "--arg") == 0 && i + 2 < argc && variable_count < 16) {
            variables[variable_count] = argv[++i];
            values[variable_count++] = argv[++i];
        } else if (argv[i][0] == '-' || (filter && path)) {
            unsure();
        } else {
            *(filter ? &path : &filter) = argv[i];
        }
    }
    if (!filter)
        unsure();
    at = filter, end = filter + strlen(filter);
    input_read(path);
    struct node *program = pipe_read();
    if (next() || memchr(data, 0, data_len))
        unsure();
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    for (at = data, end = data + data_len; next();) {
        struct value *all = eval(program, value_read(0));
        for (size_t i = 0; i < all->count; i++) {
            if (raw && all->items[i]->kind == STRING)
                fwrite(all->items[i]->text, 1, all->items[i]->len, to);
            else
                value_write(to, all->items[i], compact ? -1 : 0);
            if (!bare)
                putc('\n', to);
        }
    }
    fclose(to);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(1, text + done, len - done);
        if (n < 0)
            return 2;
        done += (size_t)n;
    }
    return 0;
}
