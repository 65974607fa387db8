/* The AIO dialect's search: grep and glob, and the older, smaller find (names below a directory) and search (lines of
 * one file), all of the file group. Called through aio_search_routes and aio_file_routes. Invariant: results are sent
 * as they are found and never held as a whole, and omissions are reported (truncated). */
#include <ctype.h>

#include "front/aio/file.h"

enum { DEFAULT_MATCHES = 500, MOST_MATCHES = 10000, DEFAULT_FILES = 5000, MOST_FILES = 50000, MOST_FOUND = 10000 };

/* ---- shared ---- */

/* An answer with a list that is written while results are found. */
struct search {
    struct http_request *request;
    struct answer answer;
    const char *operation, *path;
    uint64_t count, files;
    char *last;         /* path of the previous match; matches of one file are adjacent */
    bool before, after; /* context was requested */
    bool metadata;
    struct buf numbers; /* line numbers, which follow the matches */
};

static void search_open(struct search *search, const struct aio_member *members, const char *list) {
    aio_open(&search->answer, search->request, NULL, '{');
    aio_put(&search->answer, members);
    json_put_open(&search->answer.json, list, '[');
}

static int search_close(struct search *search, int failed, const struct aio_member *members, struct err *err) {
    struct json *json = &search->answer.json;
    if (failed < 0 && !search->answer.begun) {
        const char *what = arena_printf(http_arena(search->request), "Failed to %s file%s", search->operation,
                                        strcmp(search->operation, "search") ? "s" : "");
        failed = aio_file_fail(search->request, what, search->operation, search->path, err);
    } else {
        json_close(json, ']');
        aio_put(&search->answer, members);
        failed = aio_close(&search->answer, '}', failed, err);
    }
    free(search->last);
    buf_done(&search->numbers);
    answer_done(&search->answer);
    return failed;
}

/* ---- grep ---- */

#define PATH_AND_PATTERN(args)                                                                                         \
    AIO_MEMBERS(AIO_TEXT("path", (args)->path.data, (args)->path.len),                                                 \
                AIO_TEXT("pattern", (args)->pattern.data, (args)->pattern.len))

static const struct row grep_body[] = {
    AIO_PATH_ROW(path, "The directory to search, or one file."),
    {AIO_IN(pattern, TEXT), .flags = ROW_REQUIRED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "A regular expression, Perl-compatible."},
    {AIO_IN(include, TEXTS), .max = LIMIT_GLOBS, .text = "Globs: only such files."},
    {AIO_IN(exclude, TEXTS), .max = LIMIT_GLOBS, .text = "Globs: not such files, nor what lies in such directories."},
    {AIO_IN(case_insensitive, BOOL), .text = "Upper and lower case are the same."},
    {AIO_IN(fixed_strings, BOOL), .text = "The pattern is a text, no expression."},
    {AIO_IN(context_before, INT), .max = LIMIT_GREP_CONTEXT, .text = "Lines before each match."},
    {AIO_IN(context_after, INT), .max = LIMIT_GREP_CONTEXT, .text = "Lines after each match."},
    {AIO_IN(max_results, INT), .min = 1, .max = MOST_MATCHES, .fallback = DEFAULT_MATCHES,
     .text = "The most matches to answer with."},
    {AIO_IN(max_file_size, TEXT), .max = 32,
     .text = "Larger files are not searched: bytes, or with K, M or G; 1M unless given."},
    {AIO_IN(multiline, BOOL), .text = "A match may go over several lines, and a dot takes a newline."},
    {AIO_IN(offset, INT), .max = INT64_MAX, .text = "That many matches are left out before the first."},
    {AIO_IN(type, TEXT), .max = 32, .text = "A kind of files: py, js, md and so on."},
    {AIO_IN(recursive, BOOL), .text = "Also below the directory; true unless given."},
    {0},
};

/* Kinds of files by their usual names, one "NAME GLOB" per line. */
static const char types[] =
    "bat *.bat\nc *.{c,h}\nclojure *.{clj,cljc,cljs,cljx}\ncmake {*.cmake,CMakeLists.txt}\n"
    "config *.{cfg,conf,config,ini}\ncpp *.{C,cc,cpp,cxx,c++,h,H,hh,hpp,hxx,h++,inl}\ncs *.cs\ncsharp *.cs\n"
    "css *.{css,scss}\ncsv *.csv\ncython *.{pyx,pxi,pxd}\ndart *.dart\ndiff *.{patch,diff}\ndocker *Dockerfile*\n"
    "dockercompose docker-compose{,.*}.yml\nelixir *.{ex,eex,exs,heex,leex,livemd}\nelm *.elm\n"
    "erlang *.{erl,hrl}\nfish *.fish\nfortran *.{f,F,f77,F77,f90,F90,f95,F95,pfo}\nfsharp *.{fs,fsx,fsi}\n"
    "go *.go\ngradle *.{gradle,gradle.kts}\ngraphql *.{graphql,graphqls}\ngroovy *.{groovy,gradle}\n"
    "h *.{h,hh,hpp}\nhaskell *.{hs,lhs,cpphs,c2hs,hsc}\nhtml *.{htm,html,ejs}\n"
    "java *.{java,jsp,jspx,properties}\njinja *.{j2,jinja,jinja2}\njs *.{js,jsx,vue,cjs,mjs}\n"
    "json {*.json,*.sarif,composer.lock}\njsonl *.jsonl\njulia *.jl\nkotlin *.{kt,kts}\nless *.less\nlog *.log\n"
    "lua *.lua\nmake {[Gg][Nn][Uu]makefile,[Mm]akefile,[Mm]akefile.am,[Mm]akefile.in,*.mk,*.mak}\n"
    "markdown *.{markdown,md,mdown,mdwn,mdx,mkd,mkdn}\nmd *.{markdown,md,mdown,mdwn,mdx,mkd,mkdn}\n"
    "nim *.{nim,nimf,nimble,nims}\nnix *.nix\nnotebook *.ipynb\nobjc *.{h,m}\nocaml *.{ml,mli,mll,mly}\n"
    "perl *.{perl,pl,PL,plh,plx,pm,t}\nphp *.{php,php3,php4,php5,php7,php8,pht,phtml}\nprotobuf *.proto\n"
    "ps *.{ps1,psd1,psm1,cdxml,ps1xml}\npy *.{py,pyi}\npython *.{py,pyi}\nr *.{R,r,Rmd,rmd,Rnw,rnw}\nrst *.rst\n"
    "ruby {*.rb,*.gemspec,.irbrc,Gemfile,Rakefile,config.ru}\nrust *.rs\nsass *.{sass,scss}\n"
    "scala *.{scala,sbt}\nsh {*.sh,*.bash,*.zsh,*.ksh,*.csh,*.tcsh,.bashrc,.profile,.bash_profile,.zshrc}\n"
    "sql *.{sql,psql}\nsvelte {*.svelte,*.svelte.ts}\nsvg *.svg\nswift *.swift\n"
    "tex *.{tex,ltx,cls,sty,bib,dtx,ins}\ntf {*.tf,*.tf.json,*.tfvars,*.tfvars.json,.terraformrc,terraform.rc}\n"
    "toml {*.toml,Cargo.lock}\nts *.{ts,tsx,cts,mts}\ntypescript *.{ts,tsx,cts,mts}\ntxt *.txt\n"
    "vim {*.vim,.vimrc,.gvimrc,vimrc,gvimrc}\nvue *.vue\n"
    "xml *.{xml,xml.dist,dtd,xsl,xslt,xsd,xjb,rng,sch,xhtml}\nyaml *.{yaml,yml}\nzig *.zig\n";

/* NULL: no such kind. */
static const char *search_grep_type(struct arena *arena, const char *name) {
    size_t len = strlen(name);
    for (const char *line = types; *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, " ") == len && !memcmp(line, name, len))
            return arena_copy(arena, line + len + 1, strcspn(line + len + 1, "\n"));
    return NULL;
}

/* "1M" */
static bool search_grep_size(const char *text, uint64_t *ret_bytes) {
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

static void search_grep_lines(struct answer *answer, const char *name, bool wanted, const uint8_t *data, size_t len) {
    json_key(&answer->json, name);
    if (!wanted) {
        json_nil(&answer->json);
        return;
    }
    json_open(&answer->json, '[');
    for (size_t at = 0; data && at <= len;) {
        const uint8_t *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;
        answer_long(answer, data + at, n && data[at + n - 1] == '\r' ? n - 1 : n, true);
        at += n + 1;
    }
    json_close(&answer->json, ']');
}

static int search_grep_each(void *user, const struct grep_match *match) {
    struct search *search = user;
    struct answer *answer = &search->answer;
    size_t len = match->len;
    if (len && match->text[len - 1] == '\r')
        len--;
    if (!search->last || strcmp(search->last, match->path) != 0) {
        free(search->last);
        search->last = strdup(match->path);
        search->files++;
    }
    search->count++;
    json_open(&answer->json, '{');
    aio_put(answer, AIO_MEMBERS(AIO_TEXT("file", match->path, strlen(match->path)), AIO_INT("line_number", match->line),
                                AIO_TEXT("line_content", match->text, len)));
    search_grep_lines(answer, "context_before", search->before, match->before, match->before_len);
    search_grep_lines(answer, "context_after", search->after, match->after, match->after_len);
    json_close(&answer->json, '}');
    return answer_spill(answer);
}

static int aio_grep(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {.recursive = true};
    struct grep_result result = {0};
    STEP(detail_body(request, &args, err));
    struct grep_request grep = {.pattern = args.pattern.data,
                                .include = args.include,
                                .exclude = args.exclude,
                                .literal = args.fixed_strings,
                                .ignore_case = args.case_insensitive,
                                .multiline = args.multiline,
                                .flat = !args.recursive,
                                .before = (unsigned)args.context_before.value,
                                .after = (unsigned)args.context_after.value,
                                .limit = args.max_results.value,
                                .offset = args.offset.value,
                                .max_file_bytes = 1 << 20};
    if (args.max_file_size.data && !search_grep_size(args.max_file_size.data, &grep.max_file_bytes))
        return detail_unfit(request, "max_file_size", "Input should be a number of bytes, which may end in K, M or G");
    if (args.type.len && !(grep.glob = search_grep_type(http_arena(request), args.type.data)))
        return detail_unfit(request, "type", "There is no such type of files; use include with globs instead");
    STEP(front_path(request, box, &args.path, false, &grep.path, err));
    struct search search = {
        .request = request, .operation = "grep", .path = args.path.data, .before = grep.before, .after = grep.after};
    search_open(&search, PATH_AND_PATTERN(&args), "matches");
    int failed = box_grep(box, &grep, http_fd(request), search_grep_each, &search, &result, err);
    return search_close(&search, failed,
                        AIO_MEMBERS(AIO_INT("match_count", search.count),
                                    AIO_INT("files_searched", result.files_searched),
                                    AIO_INT("files_matched", search.files),
                                    AIO_BOOL("truncated", result.truncated || result.timed_out || result.gave_up)),
                        err);
}

/* ---- glob ---- */

static const struct row glob_body[] = {
    AIO_PATH_ROW(path, "The directory that the pattern is about."),
    {AIO_IN(pattern, TEXT), .flags = ROW_REQUIRED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "A glob of paths below it; ** crosses directories."},
    {AIO_IN(exclude, TEXTS), .max = LIMIT_GLOBS, .text = "Globs: not such files, nor what lies in such directories."},
    {AIO_IN(include_hidden, BOOL), .text = "Stars take a name's leading dot, too."},
    {AIO_IN(files_only, BOOL), .text = "No directories; true unless given."},
    {AIO_IN(include_metadata, BOOL), .text = "Sizes and times; true unless given."},
    {AIO_IN(max_results, INT), .min = 1, .max = MOST_FILES, .fallback = DEFAULT_FILES,
     .text = "The most paths to answer with, the first by the order."},
    {AIO_IN(sort_by, TEXT), .choices = "path|name|size|modified", .text = "The order; path unless given."},
    {AIO_IN(sort_desc, BOOL), .text = "The other way round."},
    {0},
};

static int search_glob_each(void *user, const struct file_stat *stat) {
    struct search *search = user;
    const bool metadata = search->metadata;
    aio_object(&search->answer,
               AIO_MEMBERS(AIO_TEXT("path", stat->path, strlen(stat->path)),
                           AIO_TEXT("name", stat->name, strlen(stat->name)),
                           AIO_BOOL("is_directory", stat->type == FILE_DIR), AIO_INT_IF(metadata, "size", stat->size),
                           AIO_TIME_IF(metadata, "modified_time", stat->mtime_ns / 1000000)));
    return search->answer.failed;
}

static int aio_glob(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {.files_only = true, .include_metadata = true};
    struct glob_result result = {0};
    STEP(detail_body(request, &args, err));
    struct glob_request glob = {.pattern = args.pattern.data,
                                .exclude = args.exclude,
                                .visible = !args.include_hidden,
                                .dirs = !args.files_only,
                                .limit = args.max_results.value};
    const char *by = args.sort_by.data ? args.sort_by.data : "path";
    enum search_sort sort = !strcmp(by, "path")   ? SORT_PATH
                            : !strcmp(by, "name") ? SORT_NAME
                            : !strcmp(by, "size") ? SORT_SIZE
                                                  : SORT_MODIFIED;
    STEP(front_path(request, box, &args.path, false, &glob.path, err));
    struct search search = {
        .request = request, .operation = "glob", .path = args.path.data, .metadata = args.include_metadata};
    search_open(&search, PATH_AND_PATTERN(&args), "files");
    int failed =
        box_glob_sorted(box, &glob, sort, args.sort_desc, http_fd(request), search_glob_each, &search, &result, err);
    return search_close(&search, failed,
                        AIO_MEMBERS(AIO_INT("total_count", result.matched),
                                    AIO_BOOL("truncated", result.truncated || result.timed_out)),
                        err);
}

/* ---- find ---- */

static const struct row find_fields[] = {
    AIO_PATH_ROW(path, "absolute path of a directory"),
    {AIO_IN(glob, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "of names below it; ** crosses directories"},
    {0},
};

static int search_find_each(void *user, const char *path, size_t len) {
    struct search *search = user;
    json_strn(&search->answer.json, path, len);
    return answer_spill(&search->answer);
}

static int search_find(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct glob_result result = {0};
    STEP(detail_body(request, &args, err));
    bool name = !strchr(args.glob.data, '/'); /* a pattern without a slash matches names at any depth */
    struct glob_request glob = {.pattern =
                                    name ? arena_printf(http_arena(request), "**/%s", args.glob.data) : args.glob.data,
                                .limit = MOST_FOUND};
    struct search search = {.request = request, .operation = "find", .path = args.path.data};
    search_open(&search, AIO_MEMBERS(AIO_STR("path", args.path.data)), "files");
    int failed = front_path(request, box, &args.path, false, &glob.path, err)
                     ?: box_glob(box, &glob, http_fd(request), search_find_each, &search, &result, err);
    return search_close(&search, failed, AIO_MEMBERS(AIO_BOOL("truncated", result.truncated)), err);
}

/* ---- search ---- */

static const struct row search_fields[] = {
    AIO_PATH_ROW(file, "absolute path"),
    {AIO_IN(regex, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "a Perl-compatible expression, looked for in each line"},
    {AIO_IN(sudo, BOOL), .text = "with the rights of the box's root"},
    {0},
};

static int search_each(void *user, const struct grep_match *match) {
    struct search *search = user;
    json_strn(&search->answer.json, match->text, match->len);
    buf_u64(&search->numbers, match->line - 1);
    return answer_spill(&search->answer);
}

static int search_discard(void *, const uint8_t *, size_t) {
    return 0;
}

static int search_lines(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct grep_result result = {0};
    STEP(detail_body(request, &args, err));
    struct search search = {.request = request,
                            .operation = "search",
                            .path = args.file.data,
                            .numbers = buf_max(LIMIT_GREP_LIMIT * sizeof(uint64_t))};
    struct grep_request grep = {.pattern = args.regex.data, .root = args.sudo, .limit = LIMIT_GREP_LIMIT};
    search_open(&search, AIO_MEMBERS(AIO_STR("file", args.file.data)), "matches");
    struct file_stat stat = {0};
    autofd fd = -1;
    int failed = front_path(request, box, &args.file, false, &grep.path, err);
    if (!failed) /* an unreadable file fails as on other routes */
        failed = args.sudo ? box_read_root(box, grep.path, 1, http_fd(request), search_discard, NULL, err)
                           : box_read_open(box, grep.path, &fd, &stat, err);
    if (!failed)
        failed = box_grep(box, &grep, http_fd(request), search_each, &search, &result, err);
    if (!failed && !result.files_searched && !result.timed_out)
        failed = err_text(err, EILSEQ, "the file is not text");
    struct view numbers = view_of(search.numbers.data, search.numbers.len);
    json_close(&search.answer.json, ']');
    json_put_open(&search.answer.json, "line_numbers", '[');
    while (!failed && numbers.len && answer_spill(&search.answer) >= 0)
        json_uint(&search.answer.json, view_u64(&numbers));
    return search_close(&search, failed, AIO_MEMBERS(AIO_BOOL("truncated", result.truncated || result.timed_out)), err);
}

const struct route aio_search_routes[] = {
    AIO_ROUTE("POST", "/file/grep", "aio_file_grep", "Lines of files that match", .run = aio_grep, .body = grep_body),
    AIO_ROUTE("POST", "/file/glob", "aio_file_glob", "Paths that match, with what they are", .run = aio_glob,
              .body = glob_body),
    AIO_ROUTE("POST", "/file/search", "aio_file_search", "Lines of one file that match an expression",
              .run = search_lines, .body = search_fields),
    AIO_ROUTE("POST", "/file/find", "aio_file_find", "Files of a box whose names match a glob", .run = search_find,
              .body = find_fields),
    {0},
};
