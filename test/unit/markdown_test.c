/* aio_markdown: files as Markdown, and no input that takes long or breaks it. */
#include "front/aio/markdown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

static int checks, failures;

static void check(bool ok, const char *name) {
    printf("%sok %d - %s\n", ok ? "" : "not ", ++checks, name);
    failures += !ok;
}

static void becomes(const char *name, enum markdown_kind kind, const char *text, const char *want) {
    autobuf out = buf_max(1 << 20);
    char *copy = malloc(strlen(text) + 1); /* exactly as long as it says, so that a sanitizer sees a read behind it */
    memcpy(copy, text, strlen(text));
    markdown_write(kind, copy, strlen(text), &out);
    free(copy);
    const char *got = buf_cstr(&out) ? (const char *)out.data : "(too large)";
    check(!strcmp(got, want), name);
    if (strcmp(got, want))
        printf("# got:  %s\n# want: %s\n", got, want);
}

#define HTML(name, text, want) becomes(name, MARKDOWN_HTML, text, want)

static void test_html(void) {
    HTML("paragraphs", "<p>One  \n two</p><p>three</p>", "One two\n\nthree\n");
    HTML("headings", "<h1>A</h1>text<h3>B <b>c</b></h3>", "# A\n\ntext\n\n### B **c**\n");
    HTML("emphasis and spaces", "a<b> b </b>c <i>d</i>.", "a **b** c *d*.\n");
    HTML("emphasis over paragraphs", "<b><p>a</p><p>b</p></b>", "**a**\n\n**b**\n");
    HTML("links", "<a href=\"http://x/?a=1&amp;b=(2)\">to <b>x</b></a>", "[to **x**](http://x/?a=1&b=%282%29)\n");
    HTML("a link without words", "a<a href=x></a>b", "ab\n");
    HTML("pictures", "<img src='a b.png' alt=\"A &lt;b\">", "![A \\<b](a%20b.png)\n");
    HTML("a picture inside the page", "a<img src='data:image/png;base64,xxxx'>b", "ab\n");
    HTML("lists", "<ul><li>a<li>b<ol><li>c</li><li>d</li></ol></ul>e", "- a\n- b\n  1. c\n  2. d\n\ne\n");
    HTML("items with paragraphs", "<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b\n");
    HTML("quotes", "<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc\n");
    HTML("code", "use <code>a_*b</code> and<pre>x &lt; y\n  z*</pre>end",
         "use `a_*b` and\n\n```\nx < y\n  z*\n```\n\nend\n");
    HTML("tables", "<table><tr><th>a</th><th>b|c</th></tr><tr><td>1<br>2</td><td><b>x</b></td></tr></table>z",
         "| a | b\\|c |\n| --- | --- |\n| 1 2 | **x** |\n\nz\n");
    HTML("scripts and comments are left out", "a<script>if (1<2) x('</b>')</script><!-- <b> -->b<style>p{}</style>",
         "ab\n");
    HTML("signs are escaped", "2*3 [x] snake_case _a_ `b` a&lt;b", "2\\*3 \\[x\\] snake_case \\_a_ \\`b\\` a\\<b\n");
    HTML("what is no number", "&#x4`;&#@;", "\xef\xbf\xbd\xef\xbf\xbd\n");
    HTML("entities", "&amp;&#65;&#x42;&euro;&nope;&#xffffffff;&", "&AB\xe2\x82\xac&nope;\xef\xbf\xbd&\n");
    HTML("no markup", "1 < 2 and 3 > 2", "1 \\< 2 and 3 > 2\n");
    HTML("what is not closed", "<p>a <b>b <a href=x>c <pre>d", "a **b [c](x)**\n\n```\nd\n```\n");
    HTML("a tag that never ends", "a<b class=\"", "a\n");
    HTML("a comment that never ends", "a<!-- b", "a\n");
    HTML("nothing", "", "");
    HTML("only markup", "<p></p><div><br></div>", "");
}

static void test_others(void) {
    becomes("csv", MARKDOWN_CSV, "a,b\r\n1,\"x, \"\"y\"\"\nz|\"\n\n2\n",
            "| a | b |\n| --- | --- |\n| 1 | x, \"y\" z\\| |\n| 2 |\n");
    becomes("csv: a wide first row makes no other one wide", MARKDOWN_CSV, ",,,\na\n",
            "|  |  |  |  |\n| --- | --- | --- | --- |\n| a |\n");
    becomes("csv without an end", MARKDOWN_CSV, "a,\"b", "| a | b |\n| --- | --- |\n");
    becomes("tsv", MARKDOWN_TSV, "a\tb\n", "| a | b |\n| --- | --- |\n");
    becomes("json", MARKDOWN_JSON, "{\"a\":1}", "```json\n{\"a\":1}\n```\n");
    becomes("a fence that its text cannot end", MARKDOWN_JSON, "\"````\"", "`````json\n\"````\"\n`````\n");
    becomes("text", MARKDOWN_TEXT, "# a *b*", "# a *b*");
}

static void test_kinds(void) {
    check(markdown_kind("/a/B.HTML", NULL, "x", 1) == MARKDOWN_HTML, "by its name");
    check(markdown_kind(NULL, "text/csv", "x", 1) == MARKDOWN_CSV, "by its media type");
    check(markdown_kind("/a/page", NULL, " <!DOCTYPE html>", 16) == MARKDOWN_HTML, "by its beginning");
    check(markdown_kind("/a/notes", NULL, "hi", 2) == MARKDOWN_TEXT, "text");
    check(markdown_kind("/a/x.txt", NULL, "a\0b", 3) == MARKDOWN_NONE, "a NUL is no text");
    check(markdown_kind("/a/x.html", NULL, "\xff\xfe", 2) == MARKDOWN_NONE, "bytes are no text");
}

/* Pieces of HTML in any order. */
static void test_any(void) {
    static const char *const pieces[] = {"<p>",
                                         "</p>",
                                         "<b>",
                                         "</b>",
                                         "<a href=x>",
                                         "</a>",
                                         "<pre>",
                                         "</pre>",
                                         "<ul>",
                                         "</ul>",
                                         "<li>",
                                         "<ol>",
                                         "</ol>",
                                         "<table>",
                                         "</table>",
                                         "<tr>",
                                         "<td>",
                                         "</td>",
                                         "<th>",
                                         "<blockquote>",
                                         "</blockquote>",
                                         "<h2>",
                                         "</h2>",
                                         "<code>",
                                         "</code>",
                                         "<br>",
                                         "<hr>",
                                         "<img src=y alt=z>",
                                         "<",
                                         ">",
                                         "&",
                                         "&amp;",
                                         "\"",
                                         "'",
                                         "=",
                                         "</",
                                         "<!--",
                                         "-->",
                                         "<script>",
                                         "</script>",
                                         " ",
                                         "\n",
                                         "word",
                                         "*",
                                         "_",
                                         "|",
                                         "\xc3\xa4",
                                         "<i ",
                                         "</i",
                                         "<em>",
                                         "</em>"};
    bool text = true, fits = true;
    srand(1);
    for (int round = 0; round < 3000; round++) {
        autobuf in = buf_max(1 << 16);
        autobuf out = buf_max(1 << 20);
        for (int i = rand() % 60; i > 0; i--)
            buf_puts(&in, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
        char *copy = malloc(in.len + 1);
        if (in.len)
            memcpy(copy, in.data, in.len);
        markdown_html(copy, in.len, &out);
        free(copy);
        text = text && text_utf8(out.data ? (const char *)out.data : "", out.len);
        fits = fits && !out.failed;
    }
    check(text, "whatever the order of tags, what comes out is UTF-8");
    check(fits, "and not much longer than what went in");
}

/* A quarter of a megabyte of what makes careless readers look again and again. */
static void test_long(void) {
    static const char *const worst[] = {"<",
                                        "<!--",
                                        "<!",
                                        "<script>",
                                        "<b ",
                                        "<a href=\"",
                                        "&",
                                        "<b>",
                                        "<ul><li>",
                                        "<blockquote>a",
                                        "<table><tr><td>",
                                        "<pre>`",
                                        "</b>",
                                        "<svg",
                                        "\"",
                                        "<p a="};
    for (size_t i = 0; i < sizeof worst / sizeof *worst; i++) {
        autobuf in = buf_max(2 << 20);
        autobuf out = buf_max(256 << 20);
        while (in.len < 1 << 18)
            buf_puts(&in, worst[i]);
        uint64_t begin_us = clock_us();
        markdown_html((const char *)in.data, in.len, &out);
        char name[80];
        snprintf(name, sizeof name, "256 KiB of %s are done within two seconds", worst[i]);
        check(clock_us() - begin_us < 2000000, name);
    }
}

int main(void) {
    test_html();
    test_others();
    test_kinds();
    test_any();
    test_long();
    printf("1..%d\n", checks);
    return failures ? 1 : 0;
}
