/* The AIO dialect's search: grep and glob of the file group. Called through aio_search_routes. Invariant: results go out as
 * they come, a million of them are never held, and what was left out is said (truncated). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/aio/file.h"

enum { DEFAULT_MATCHES = 500, MOST_MATCHES = 10000, DEFAULT_FILES = 5000, MOST_FILES = 50000 };

/* ---- grep ---- */

struct grep_args {
    struct row_text path, pattern, max_file_size, type;
    const char **include, **exclude;
    bool case_insensitive, fixed_strings, multiline, recursive;
    struct row_number context_before, context_after, max_results, offset;
};

#define AT(member) .offset = offsetof(struct grep_args, member)
static const struct row grep_body[] = {
    {.name = "path",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED | ROW_AUDITED,
     AT(path),
     .min = 1,
     .max = LIMIT_PATH_BYTES,
     .text = "The directory to search, or one file."},
    {.name = "pattern",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED,
     AT(pattern),
     .min = 1,
     .max = LIMIT_PATTERN_BYTES,
     .text = "A regular expression, Perl-compatible."},
    {.name = "include", .type = ROW_TEXTS, AT(include), .max = LIMIT_GLOBS, .text = "Globs: only such files."},
    {.name = "exclude",
     .type = ROW_TEXTS,
     AT(exclude),
     .max = LIMIT_GLOBS,
     .text = "Globs: not such files, nor what lies in such directories."},
    {.name = "case_insensitive", .type = ROW_BOOL, AT(case_insensitive), .text = "Upper and lower case are the same."},
    {.name = "fixed_strings", .type = ROW_BOOL, AT(fixed_strings), .text = "The pattern is a text, no expression."},
    {.name = "context_before",
     .type = ROW_INT,
     AT(context_before),
     .max = LIMIT_GREP_CONTEXT,
     .text = "Lines before each match."},
    {.name = "context_after",
     .type = ROW_INT,
     AT(context_after),
     .max = LIMIT_GREP_CONTEXT,
     .text = "Lines behind each match."},
    {.name = "max_results",
     .type = ROW_INT,
     AT(max_results),
     .min = 1,
     .max = MOST_MATCHES,
     .fallback = DEFAULT_MATCHES,
     .text = "The most matches to answer with."},
    {.name = "max_file_size",
     .type = ROW_TEXT,
     AT(max_file_size),
     .max = 32,
     .text = "Larger files are not searched: bytes, or with K, M or G; 1M unless given."},
    {.name = "multiline",
     .type = ROW_BOOL,
     AT(multiline),
     .text = "A match may go over several lines, and a dot takes a newline."},
    {.name = "offset",
     .type = ROW_INT,
     AT(offset),
     .max = INT64_MAX,
     .text = "That many matches are left out before the first."},
    {.name = "type", .type = ROW_TEXT, AT(type), .max = 32, .text = "A kind of files: py, js, md and so on."},
    {.name = "recursive", .type = ROW_BOOL, AT(recursive), .text = "Also below the directory; true unless given."},
    {0},
};
#undef AT

/* Kinds of files by their usual names. */
static const struct {
    const char *name, *glob;
} types[] = {
    {"bat", "*.bat"},
    {"c", "*.{c,h}"},
    {"clojure", "*.{clj,cljc,cljs,cljx}"},
    {"cmake", "{*.cmake,CMakeLists.txt}"},
    {"config", "*.{cfg,conf,config,ini}"},
    {"cpp", "*.{C,cc,cpp,cxx,c++,h,H,hh,hpp,hxx,h++,inl}"},
    {"cs", "*.cs"},
    {"csharp", "*.cs"},
    {"css", "*.{css,scss}"},
    {"csv", "*.csv"},
    {"cython", "*.{pyx,pxi,pxd}"},
    {"dart", "*.dart"},
    {"diff", "*.{patch,diff}"},
    {"docker", "*Dockerfile*"},
    {"dockercompose", "docker-compose{,.*}.yml"},
    {"elixir", "*.{ex,eex,exs,heex,leex,livemd}"},
    {"elm", "*.elm"},
    {"erlang", "*.{erl,hrl}"},
    {"fish", "*.fish"},
    {"fortran", "*.{f,F,f77,F77,f90,F90,f95,F95,pfo}"},
    {"fsharp", "*.{fs,fsx,fsi}"},
    {"go", "*.go"},
    {"gradle", "*.{gradle,gradle.kts}"},
    {"graphql", "*.{graphql,graphqls}"},
    {"groovy", "*.{groovy,gradle}"},
    {"h", "*.{h,hh,hpp}"},
    {"haskell", "*.{hs,lhs,cpphs,c2hs,hsc}"},
    {"html", "*.{htm,html,ejs}"},
    {"java", "*.{java,jsp,jspx,properties}"},
    {"jinja", "*.{j2,jinja,jinja2}"},
    {"js", "*.{js,jsx,vue,cjs,mjs}"},
    {"json", "{*.json,*.sarif,composer.lock}"},
    {"jsonl", "*.jsonl"},
    {"julia", "*.jl"},
    {"kotlin", "*.{kt,kts}"},
    {"less", "*.less"},
    {"log", "*.log"},
    {"lua", "*.lua"},
    {"make", "{[Gg][Nn][Uu]makefile,[Mm]akefile,[Mm]akefile.am,[Mm]akefile.in,*.mk,*.mak}"},
    {"markdown", "*.{markdown,md,mdown,mdwn,mdx,mkd,mkdn}"},
    {"md", "*.{markdown,md,mdown,mdwn,mdx,mkd,mkdn}"},
    {"nim", "*.{nim,nimf,nimble,nims}"},
    {"nix", "*.nix"},
    {"notebook", "*.ipynb"},
    {"objc", "*.{h,m}"},
    {"ocaml", "*.{ml,mli,mll,mly}"},
    {"perl", "*.{perl,pl,PL,plh,plx,pm,t}"},
    {"php", "*.{php,php3,php4,php5,php7,php8,pht,phtml}"},
    {"protobuf", "*.proto"},
    {"ps", "*.{ps1,psd1,psm1,cdxml,ps1xml}"},
    {"py", "*.{py,pyi}"},
    {"python", "*.{py,pyi}"},
    {"r", "*.{R,r,Rmd,rmd,Rnw,rnw}"},
    {"rst", "*.rst"},
    {"ruby", "{*.rb,*.gemspec,.irbrc,Gemfile,Rakefile,config.ru}"},
    {"rust", "*.rs"},
    {"sass", "*.{sass,scss}"},
    {"scala", "*.{scala,sbt}"},
    {"sh", "{*.sh,*.bash,*.zsh,*.ksh,*.csh,*.tcsh,.bashrc,.profile,.bash_profile,.zshrc}"},
    {"sql", "*.{sql,psql}"},
    {"svelte", "{*.svelte,*.svelte.ts}"},
    {"svg", "*.svg"},
    {"swift", "*.swift"},
    {"tex", "*.{tex,ltx,cls,sty,bib,dtx,ins}"},
    {"tf", "{*.tf,*.tf.json,*.tfvars,*.tfvars.json,.terraformrc,terraform.rc}"},
    {"toml", "{*.toml,Cargo.lock}"},
    {"ts", "*.{ts,tsx,cts,mts}"},
    {"typescript", "*.{ts,tsx,cts,mts}"},
    {"txt", "*.txt"},
    {"vim", "{*.vim,.vimrc,.gvimrc,vimrc,gvimrc}"},
    {"vue", "*.vue"},
    {"xml", "*.{xml,xml.dist,dtd,xsl,xslt,xsd,xjb,rng,sch,xhtml}"},
    {"yaml", "*.{yaml,yml}"},
    {"zig", "*.zig"},
};

static bool grep_type(const char *name, const char **ret_glob) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) {
            *ret_glob = types[i].glob;
            return true;
        }
    return false;
}

/* "1M" */
static bool grep_size(const char *text, uint64_t *ret_bytes) {
    static const char units[] = "KMG";
    size_t digits = strspn(text, "0123456789");
    char number[24] = "";
    uint64_t value;
    unsigned shift = 0;
    if (digits == 0 || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    if (text[digits]) {
        const char *unit = strchr(units, toupper((unsigned char)text[digits]));
        const char *rest = text + digits + 1;
        if (!unit || (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0))
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (!text_u64(number, INT64_MAX >> shift, &value))
        return false;
    *ret_bytes = value << shift;
    return true;
}

struct grep_answer {
    struct answer *answer;
    bool before, after; /* asked for */
    uint64_t count, files;
    char *last; /* path of the match before: those of one file come together */
};

static void grep_lines(struct answer *answer, const char *name, bool wanted, const uint8_t *data, size_t len) {
    json_key(&answer->json, name);
    if (!wanted) {
        json_nil(&answer->json);
        return;
    }
    json_open(&answer->json, '[');
    for (size_t at = 0; data && at <= len;) {
        const uint8_t *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;
        aio_text(answer, data + at, n && data[at + n - 1] == '\r' ? n - 1 : n);
        at += n + 1;
    }
    json_close(&answer->json, ']');
}

static int grep_each(void *user, const struct grep_match *match) {
    struct grep_answer *grep = user;
    struct answer *answer = grep->answer;
    size_t len = match->len;
    if (len && match->text[len - 1] == '\r')
        len--;
    if (!grep->last || strcmp(grep->last, match->path) != 0) {
        free(grep->last);
        grep->last = strdup(match->path);
        grep->files++;
    }
    grep->count++;
    json_open(&answer->json, '{');
    json_key(&answer->json, "file");
    aio_text(answer, (const uint8_t *)match->path, strlen(match->path));
    json_put_uint(&answer->json, "line_number", match->line);
    json_key(&answer->json, "line_content");
    aio_text(answer, match->text, len);
    grep_lines(answer, "context_before", grep->before, match->before, match->before_len);
    grep_lines(answer, "context_after", grep->after, match->after, match->after_len);
    json_close(&answer->json, '}');
    return answer_spill(answer);
}

static int grep_prepare(struct http_request *request, struct box *box, const struct grep_args *args,
                        struct grep_request *ret_grep, struct err *err) {
    struct grep_request grep = {.pattern = args->pattern.data,
                                .include = args->include,
                                .exclude = args->exclude,
                                .literal = args->fixed_strings,
                                .ignore_case = args->case_insensitive,
                                .multiline = args->multiline,
                                .flat = !args->recursive,
                                .before = (unsigned)args->context_before.value,
                                .after = (unsigned)args->context_after.value,
                                .limit = args->max_results.value,
                                .offset = args->offset.value,
                                .max_file_bytes = 1 << 20};
    if (args->max_file_size.data && !grep_size(args->max_file_size.data, &grep.max_file_bytes))
        return aio_unfit(request, "max_file_size", "Input should be a number of bytes, which may end in K, M or G");
    if (args->type.data && *args->type.data && !grep_type(args->type.data, &grep.glob))
        return aio_unfit(request, "type", "There is no such type of files; use include with globs instead");
    grep.path = aio_path(request, box, &args->path, false, err);
    if (!grep.path)
        return -err->code;
    *ret_grep = grep;
    return 0;
}

static void answer_head(struct answer *answer, const struct row_text *path, const struct row_text *pattern,
                        const char *list) {
    json_open(&answer->json, '{');
    json_key(&answer->json, "path");
    aio_text(answer, (const uint8_t *)path->data, path->len);
    json_key(&answer->json, "pattern");
    aio_text(answer, (const uint8_t *)pattern->data, pattern->len);
    json_put_open(&answer->json, list, '[');
}

static int aio_grep(struct http_request *request, struct box *box, struct err *err) {
    struct grep_args args = {.recursive = true};
    struct grep_request grep;
    struct grep_result result = {0};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = grep_prepare(request, box, &args, &grep, err);
    if (failed)
        return failed;
    autoanswer answer;
    struct grep_answer found = {.answer = &answer, .before = grep.before, .after = grep.after};
    aio_open(&answer, request, NULL);
    answer_head(&answer, &args.path, &args.pattern, "matches");
    failed = box_grep(box, &grep, http_fd(request), grep_each, &found, &result, err);
    free(found.last);
    if (failed < 0 && !answer.begun)
        return aio_file_fail(request, "Failed to grep files", "grep", args.path.data, err);
    json_close(&answer.json, ']');
    json_put_uint(&answer.json, "match_count", found.count);
    json_put_uint(&answer.json, "files_searched", result.files_searched);
    json_put_uint(&answer.json, "files_matched", found.files);
    json_put_bool(&answer.json, "truncated", result.truncated || result.timed_out || result.gave_up);
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

/* ---- glob ---- */

struct glob_args {
    struct row_text path, pattern, sort_by;
    const char **exclude;
    bool include_hidden, files_only, include_metadata, sort_desc;
    struct row_number max_results;
};

#define AT(member) .offset = offsetof(struct glob_args, member)
static const struct row glob_body[] = {
    {.name = "path",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED | ROW_AUDITED,
     AT(path),
     .min = 1,
     .max = LIMIT_PATH_BYTES,
     .text = "The directory that the pattern is about."},
    {.name = "pattern",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED,
     AT(pattern),
     .min = 1,
     .max = LIMIT_PATTERN_BYTES,
     .text = "A glob of paths below it; ** crosses directories."},
    {.name = "exclude",
     .type = ROW_TEXTS,
     AT(exclude),
     .max = LIMIT_GLOBS,
     .text = "Globs: not such files, nor what lies in such directories."},
    {.name = "include_hidden", .type = ROW_BOOL, AT(include_hidden), .text = "Stars take a name's leading dot, too."},
    {.name = "files_only", .type = ROW_BOOL, AT(files_only), .text = "No directories; true unless given."},
    {.name = "include_metadata", .type = ROW_BOOL, AT(include_metadata), .text = "Sizes and times; true unless given."},
    {.name = "max_results",
     .type = ROW_INT,
     AT(max_results),
     .min = 1,
     .max = MOST_FILES,
     .fallback = DEFAULT_FILES,
     .text = "The most paths to answer with, the first by the order."},
    {.name = "sort_by",
     .type = ROW_TEXT,
     AT(sort_by),
     .choices = "path|name|size|modified",
     .text = "The order; path unless given."},
    {.name = "sort_desc", .type = ROW_BOOL, AT(sort_desc), .text = "The other way round."},
    {0},
};
#undef AT

struct glob_answer {
    struct answer *answer;
    bool metadata;
};

static int glob_each(void *user, const struct file_stat *stat) {
    const struct glob_answer *glob = user;
    struct answer *answer = glob->answer;
    json_open(&answer->json, '{');
    json_key(&answer->json, "path");
    aio_text(answer, (const uint8_t *)stat->path, strlen(stat->path));
    json_key(&answer->json, "name");
    aio_text(answer, (const uint8_t *)stat->name, strlen(stat->name));
    json_put_bool(&answer->json, "is_directory", stat->type == FILE_DIR);
    json_key(&answer->json, "size");
    if (glob->metadata)
        json_uint(&answer->json, stat->size);
    else
        json_nil(&answer->json);
    json_key(&answer->json, "modified_time");
    if (glob->metadata)
        aio_time(&answer->json, stat->mtime_ns / 1000000);
    else
        json_nil(&answer->json);
    json_close(&answer->json, '}');
    return answer_spill(answer);
}

static enum search_sort glob_sort(const char *word) {
    static const struct {
        const char *word;
        enum search_sort sort;
    } sorts[] = {{"name", SORT_NAME}, {"size", SORT_SIZE}, {"modified", SORT_MODIFIED}};
    for (size_t i = 0; word && i < sizeof sorts / sizeof *sorts; i++)
        if (strcmp(word, sorts[i].word) == 0)
            return sorts[i].sort;
    return SORT_PATH;
}

static int aio_glob(struct http_request *request, struct box *box, struct err *err) {
    struct glob_args args = {.files_only = true, .include_metadata = true};
    struct glob_result result = {0};
    int failed = aio_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = aio_path(request, box, &args.path, false, err);
    if (!path)
        return -err->code;
    const struct glob_request glob = {.pattern = args.pattern.data,
                                      .path = path,
                                      .exclude = args.exclude,
                                      .visible = !args.include_hidden,
                                      .dirs = !args.files_only,
                                      .limit = args.max_results.value};
    autoanswer answer;
    struct glob_answer found = {.answer = &answer, .metadata = args.include_metadata};
    aio_open(&answer, request, NULL);
    answer_head(&answer, &args.path, &args.pattern, "files");
    failed = box_glob_sorted(box, &glob, glob_sort(args.sort_by.data), args.sort_desc, http_fd(request), glob_each,
                             &found, &result, err);
    if (failed < 0 && !answer.begun)
        return aio_file_fail(request, "Failed to glob files", "glob", args.path.data, err);
    json_close(&answer.json, ']');
    json_put_uint(&answer.json, "total_count", result.matched);
    json_put_bool(&answer.json, "truncated", result.truncated || result.timed_out);
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

const struct route aio_search_routes[] = {
    {"POST", "/aio/{id}/v1/file/grep", front_handle, 0, "aio_file_grep", "Lines of files that match",
     AIO_ENDPOINT(.run = aio_grep, .body = grep_body)},
    {"POST", "/aio/{id}/v1/file/glob", front_handle, 0, "aio_file_glob", "Paths that match, with what they are",
     AIO_ENDPOINT(.run = aio_glob, .body = glob_body)},
    {0},
};
