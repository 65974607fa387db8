/* What a machine of the text form does with its own programs: search in contents, hashes, moves, archives. Called through
 * the table of machine_text_wire.c. Not to break: what a script writes is data; nothing of it is ever run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/machine_text_call.h"
#include "base/text.h"
#include "runner/globmatch.h"

enum { GREP_MOST = 3 << 20 };

/* ---- grep ---- */

/* $1 path, $2 pattern, $3 "F" for a literal one, $4 "i", $5 lines of context, then names to leave out. The first line is the
 * number of files. */
static const char grep_script[] =
    "p=$1; e=$2; k=$3; i=${4:+-i}; c=$5; shift 5\n"
    "[ -e \"$p\" ] || { echo \"no file '$p'\" >&2; exit 10; }\n"
    "printf 'x\\n' | grep --null x >/dev/null 2>&1 || { echo 'grep has no --null' >&2; exit 15; }\n"
    "if [ \"$k\" = F ]; then k=-F; elif printf 'x\\n' | grep -qP x 2>/dev/null; then k=-P; else k=-E; fi\n"
    "grep $k -e \"$e\" /dev/null; [ $? -lt 2 ] || exit 12\n"
    "[ ! -d \"$p\" ] || case $p in */) ;; *) p=$p/ ;; esac\n"
    "n=$#; while [ $n -gt 0 ]; do w=$1; shift; set -- \"$@\" -name \"$w\" -o; n=$((n-1)); done\n"
    "find \"$p\" \\( \"$@\" -false \\) -prune -o -type f -print 2>/dev/null | wc -l\n"
    "n=$(($#/3)); while [ $n -gt 0 ]; do w=$2; shift 3; set -- \"$@\" \"--exclude-dir=$w\" \"--exclude=$w\"; n=$((n-1)); "
    "done\n"
    "grep -rHnIs --null $k $i -C $c \"$@\" -e \"$e\" -- \"$p\" | head -c 3145728; exit 0";

struct line {
    const char *path;
    uint64_t number;
    bool match;
    const char *text;
    size_t len;
};

struct grep {
    struct text_call *call;
    const char *root;
    struct glob *glob;
    bool base_name; /* the glob is of names alone */
    struct line *lines;
    size_t count, room;
    uint64_t context, limit, sent, files;
    bool truncated;
};

static void line_add(struct grep *grep, const struct line *line) {
    if (grep->count == grep->room) {
        grep->room = grep->room ? grep->room * 2 : 256;
        grep->lines = realloc(grep->lines, grep->room * sizeof *grep->lines);
        if (!grep->lines)
            abort();
    }
    grep->lines[grep->count++] = *line;
}

/* "PATH\0NUMBER:TEXT\n" for a match, "-" for ":" in lines around it, "--\n" between groups. */
static void grep_parse(struct grep *grep, struct buf *out) {
    const char *text = buf_cstr(out), *end = text ? text + out->len : NULL;
    grep->truncated = out->len >= GREP_MOST;
    const char *first = text ? strchr(text, '\n') : NULL;
    grep->files = first ? strtoull(text, NULL, 10) : 0;
    for (const char *at = first ? first + 1 : NULL; at && at < end;) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        if (end - at >= 3 && memcmp(at, "--\n", 3) == 0) {
            at += 3;
            continue;
        }
        const char *line_end = nul ? memchr(nul + 1, '\n', (size_t)(end - nul - 1)) : NULL;
        if (!line_end)
            break; /* cut off */
        char *after = NULL;
        struct line line = {.path = at, .number = strtoull(nul + 1, &after, 10)};
        if (after == nul + 1 || (*after != ':' && *after != '-'))
            break;
        line.match = *after == ':';
        line.text = after + 1;
        line.len = (size_t)(line_end - line.text);
        line.len = line.len < LIMIT_GREP_LINE_BYTES ? line.len : LIMIT_GREP_LINE_BYTES;
        line_add(grep, &line);
        at = line_end + 1;
    }
}

static int line_compare(const void *a, const void *b) {
    const struct line *x = a, *y = b;
    int order = text_path_compare(x->path, y->path);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* The part of a path below where the search began; what the call gave stands for that. */
static const char *below_of(const struct grep *grep, const char *path) {
    size_t len = strlen(grep->root);
    if (strncmp(path, grep->root, len) != 0)
        return path;
    path += len;
    while (*path == '/')
        path++;
    return path;
}

static bool grep_wanted(const struct grep *grep, const char *path) {
    const char *below = below_of(grep, path), *slash = strrchr(path, '/');
    if (!grep->glob)
        return true;
    if (grep->base_name || !*below)
        return glob_match(grep->glob, slash ? slash + 1 : path);
    return glob_match(grep->glob, below);
}

static void put_context(const struct grep *grep, size_t at, int step, enum field_id id, struct buf *item) {
    autobuf text;
    buf_init(&text, LIMIT_FRAME_PAYLOAD_BYTES / 3);
    const struct line *line = &grep->lines[at];
    size_t first = at, last = at;
    for (uint64_t i = 1; i <= grep->context; i++) {
        size_t next = step < 0 ? at - i : at + i;
        if ((step < 0 && i > at) || next >= grep->count || strcmp(grep->lines[next].path, line->path) != 0 ||
            grep->lines[next].number != (step < 0 ? line->number - i : line->number + i))
            break;
        first = step < 0 ? next : first;
        last = step < 0 ? last : next;
    }
    for (size_t i = first; i <= last; i++) {
        if (i == at)
            continue;
        if (text.len)
            buf_byte(&text, '\n');
        buf_put(&text, grep->lines[i].text, grep->lines[i].len);
    }
    if (first != at || last != at)
        field_bytes(item, id, text.data ? (const void *)text.data : "", text.len);
}

static int grep_tell(struct grep *grep, size_t at, struct err *err) {
    const struct line *line = &grep->lines[at];
    const char *given = grep->call->args.text[FIELD_PATH], *below = below_of(grep, line->path);
    given = given && *given ? given : grep->call->text->workspace;
    autobuf item;
    buf_init(&item, LIMIT_FRAME_PAYLOAD_BYTES);
    bool slash = !*below || given[strlen(given) - 1] == '/';
    field_text(&item, FIELD_PATH, arena_printf(&grep->call->arena, "%s%s%s", given, slash ? "" : "/", below));
    field_number(&item, FIELD_LINE, line->number);
    field_bytes(&item, FIELD_TEXT, line->text, line->len);
    put_context(grep, at, -1, FIELD_BEFORE, &item);
    put_context(grep, at, 1, FIELD_AFTER, &item);
    return text_item(grep->call, &item, err);
}

static int grep_tell_all(struct grep *grep, struct err *err) {
    int r = 0;
    if (grep->count)
        qsort(grep->lines, grep->count, sizeof *grep->lines, line_compare);
    for (size_t i = 0; i < grep->count && r == 0; i++) {
        if (!grep->lines[i].match || !grep_wanted(grep, grep->lines[i].path))
            continue;
        if (grep->sent++ == grep->limit) {
            grep->truncated = true;
            break;
        }
        r = grep_tell(grep, i, err);
    }
    return r;
}

static int grep_prepare(struct grep *grep, struct err *err) {
    const struct fields *args = &grep->call->args;
    const char *pattern = args->text[FIELD_PATTERN], *glob = args->text[FIELD_GLOB];
    grep->context = args->number[FIELD_CONTEXT] < LIMIT_GREP_CONTEXT ? args->number[FIELD_CONTEXT] : LIMIT_GREP_CONTEXT;
    grep->limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_GREP_LIMIT;
    if (!pattern || !*pattern || strlen(pattern) > LIMIT_PATTERN_BYTES || !text_utf8(pattern, strlen(pattern)))
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes, UTF-8", LIMIT_PATTERN_BYTES);
    if (glob && *glob) {
        grep->base_name = !strchr(glob, '/');
        grep->glob = arena_alloc(&grep->call->arena, sizeof *grep->glob);
        const char *why = glob_compile(grep->glob, glob, strlen(glob));
        if (why) {
            grep->glob = NULL;
            return err_set(err, ERR_INVALID, "glob '%s': %s", glob, why);
        }
    }
    return text_path(grep->call, FIELD_PATH, &grep->root, err);
}

int text_op_grep(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    struct grep grep = {.call = call};
    int r = grep_prepare(&grep, err);
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    const char *ignore = args->text[FIELD_IGNORE];
    uint64_t flags = args->number[FIELD_FLAGS], timeout_ms = args->number[FIELD_TIMEOUT_MS];
    const char *words[128 + 6] = {grep.root, args->text[FIELD_PATTERN], flags & CALL_LITERAL ? "F" : "",
                                  flags & CALL_IGNORE_CASE ? "i" : "",
                                  arena_printf(&call->arena, "%" PRIu64, grep.context)};
    if (ignore && *ignore)
        text_ignore_words(call, ignore, words + 5, 128);
    if (r == 0)
        r = text_script(call->text, call, grep_script, words, NULL, timeout_ms ? timeout_ms : DEFAULT_GREP_TIMEOUT_MS,
                        &out, err);
    bool timed_out = r == -ERR_TIMEOUT;
    if (r == 0) {
        grep_parse(&grep, &out);
        r = grep_tell_all(&grep, err);
    }
    field_number(&call->end, FIELD_TRUNCATED, grep.truncated);
    field_number(&call->end, FIELD_TIMED_OUT, timed_out);
    field_number(&call->end, FIELD_FILES, grep.files);
    free(grep.lines);
    if (grep.glob)
        glob_done(grep.glob);
    return timed_out ? 0 : r;
}

/* ---- hash and move ---- */

int text_op_hash(struct text_call *call, struct err *err) {
    static const char script[] =
        "[ -e \"$1\" ] || { echo \"no file '$1'\" >&2; exit 10; }\n"
        "[ -f \"$1\" ] || { echo \"'$1' is not a regular file\" >&2; exit 12; }\n"
        "wc -c < \"$1\" || exit 13\n"
        "if command -v sha256sum >/dev/null 2>&1; then sha256sum < \"$1\"; else shasum -a 256 < \"$1\"; fi";
    const char *path;
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    int r = text_path(call, FIELD_PATH, &path, err);
    const char *const words[] = {path, NULL};
    if (r == 0)
        r = text_script(call->text, call, script, words, NULL, 600000, &out, err);
    if (r < 0)
        return r;
    char *text = buf_cstr(&out), *hex = text ? strchr(text, '\n') : NULL;
    uint8_t digest[32];
    uint64_t size = text ? strtoull(text, NULL, 10) : 0;
    hex = hex ? hex + 1 : NULL;
    bool good = hex && strspn(hex, "0123456789abcdef") == 64;
    for (int i = 0; good && i < 32; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        digest[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    if (!good)
        return err_set(err, ERR_UNSUPPORTED, "machine %s has no sha256sum", call->text->name);
    field_bytes(&call->end, FIELD_SHA256, digest, sizeof digest);
    field_number(&call->end, FIELD_SIZE, size);
    return 0;
}

int text_op_move(struct text_call *call, struct err *err) {
    static const char script[] =
        "[ -e \"$1\" ] || [ -L \"$1\" ] || { echo \"no file '$1'\" >&2; exit 10; }\n"
        "d=$(dirname -- \"$2\"); [ -d \"$d\" ] || { echo \"no directory '$d'\" >&2; exit 10; }\n"
        "if [ -e \"$2\" ] || [ -L \"$2\" ]; then\n"
        "[ \"$3\" = over ] || { echo \"'$2' exists (overwrite replaces it)\" >&2; exit 11; }\n"
        "if [ -L \"$2\" ]; then rm -f -- \"$2\" || exit 13\n"
        "elif [ -d \"$2\" ]; then [ -d \"$1\" ] || { echo \"'$2' is a directory\" >&2; exit 12; }; rmdir -- \"$2\" || exit "
        "11; fi; fi\n"
        "mv -f -- \"$1\" \"$2\" || exit 13";
    const char *from, *to;
    int r = text_path(call, FIELD_PATH, &from, err);
    if (r == 0)
        r = text_path(call, FIELD_TO, &to, err);
    if (r < 0)
        return r;
    const char *const words[] = {from, to, call->args.number[FIELD_FLAGS] & CALL_OVERWRITE ? "over" : "", NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    return text_script(call->text, call, script, words, NULL, 600000, &out, err);
}

/* ---- archives ---- */

/* A name in the workspace for what is moved as a whole: a runner's guard lets files through there. */
static const char *archive_name(struct text_call *call) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        abort();
    return arena_printf(&call->arena, "%s/.cubby-%016" PRIx64 ".tar", call->text->workspace, random);
}

static void archive_remove(struct text_call *call, const char *archive) {
    static const char script[] = "rm -rf -- \"$1\" \"$1.d\"";
    const char *const words[] = {archive, NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    struct err unheard;
    text_script(call->text, NULL, script, words, NULL, TEXT_ASK_MS, &out, &unheard);
}

static int archive_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    return text_data(user, STREAM_STDOUT, data, len, err);
}

int text_op_tar_out(struct text_call *call, struct err *err) {
    static const char script[] =
        "[ -e \"$1\" ] || { echo \"no file '$1'\" >&2; exit 10; }\n"
        "n=${2##*/}; umask 077\n"
        "if [ -d \"$1\" ]; then tar -C \"$1\" -cf \"$2\" --exclude=\"./$n\" . || exit 13\n"
        "else tar -C \"$(dirname -- \"$1\")\" -cf \"$2\" -- \"$(basename -- \"$1\")\" || exit 13; fi\n"
        "wc -c < \"$2\"; tar -tf \"$2\" | wc -l";
    const char *path, *archive = archive_name(call);
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r < 0)
        return r;
    const char *const words[] = {path, archive, NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    r = text_script(call->text, call, script, words, NULL, 600000, &out, err);
    char *text = r == 0 ? buf_cstr(&out) : NULL, *second = NULL;
    uint64_t size = text ? strtoull(text, &second, 10) : 0, files = second ? strtoull(second, NULL, 10) : 0;
    if (r == 0)
        r = text_file_read(call, archive, size, archive_data, call, err);
    archive_remove(call, archive);
    field_number(&call->end, FIELD_FILES, files);
    return r;
}

static ssize_t archive_read(void *user, void *data, size_t size, struct err *err) {
    return text_input(user, data, size, 0, err);
}

int text_op_tar_in(struct text_call *call, struct err *err) {
    static const char script[] =
        "[ -d \"$1\" ] || { echo \"no directory '$1'\" >&2; exit 10; }\n"
        "n=$(tar -tf \"$2\" | wc -l) && tar -tf \"$2\" >/dev/null || exit 12\n"
        "[ $3 = 0 ] || [ $n -le $3 ] || { echo \"the archive makes more than $3 files and directories\" >&2; exit 14; }\n"
        "mkdir -- \"$2.d\" && tar -C \"$2.d\" -xf \"$2\" || exit 12\n"
        "cp -a -- \"$2.d/.\" \"$1/\" || exit 13\n"
        "echo $n $(wc -c < \"$2\")";
    const char *path, *archive = archive_name(call);
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r < 0)
        return r;
    struct text_source source = {.read = archive_read, .user = call, .size = UINT64_MAX};
    const char *const words[] = {path, archive, arena_printf(&call->arena, "%" PRIu64, call->args.number[FIELD_LIMIT]),
                                 NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    r = text_file_write(call, archive, 0600, &source, err);
    if (r == 0)
        r = text_script(call->text, call, script, words, NULL, 600000, &out, err);
    char *text = r == 0 ? buf_cstr(&out) : NULL, *second = NULL;
    field_number(&call->end, FIELD_FILES, text ? strtoull(text, &second, 10) : 0);
    field_number(&call->end, FIELD_SIZE, second ? strtoull(second, NULL, 10) : 0);
    archive_remove(call, archive);
    return r;
}
