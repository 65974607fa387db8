/* Shared by the two halves of the shell's parser: words.c (lists and commands) and words_scan.c (words and quotes). */
#ifndef CUBBY_TOOL_WORDS_SCAN_H
#define CUBBY_TOOL_WORDS_SCAN_H

#include "base/buf.h"
#include "tool/guard/words.h"

/* A here-document whose body comes after the next newline. */
struct scan_body {
    struct redirect *redirect;
    const char *end; /* the line that ends it */
    bool quoted, tabs;
    struct scan_body *next;
};

struct scan {
    struct arena *arena;
    const char *text;
    size_t len, at;
    unsigned depth;
    size_t *work;      /* work left for the whole text */
    const char *error; /* the first error; nothing is read after it */
    struct scan_body *bodies;
    struct command **tail; /* where the next command is linked */
    /* of the command being read */
    const struct command *source;
    const char *function;
    bool endless;
};

/* ---- words_scan.c ---- */

/* Returns the next byte, or -1 at the end or after an error. A backslash before a newline is skipped. */
int scan_peek(struct scan *scan);
/* Takes text if it comes next. */
bool scan_take(struct scan *scan, const char *text);
bool scan_next_is(struct scan *scan, const char *text);
void scan_fail(struct scan *scan, const char *error);
void scan_blanks(struct scan *scan); /* skips blanks and a comment */
bool scan_meta(int c);               /* whether c ends a word: blank, newline, ; & | ( ) < > and the end */
/* Gets the next word if it is plain, without quotes and of at most 9 bytes; else "". */
void scan_plain(struct scan *scan, char ret_word[10]);

enum scan_place {
    SCAN_ARGUMENT,
    SCAN_FIRST,  /* where a command may begin */
    SCAN_TEST,   /* inside [[ ]]: ( ) < > | & are letters */
    SCAN_PATTERN /* of a case */
};
void scan_word(struct scan *scan, enum scan_place place, struct word *ret_word);
/* Reads up to the closing )), including substitutions. Begins after ((. */
void scan_arithmetic(struct scan *scan, struct word *ret_word);
/* Returns whether (( at scan is arithmetic, not a group in a group. */
bool scan_is_arithmetic(struct scan *scan);
/* Reads the word after <<. The body follows the next newline. */
void scan_body_begin(struct scan *scan, struct redirect *redirect, bool tabs);
/* Takes one newline, and the bodies of here-documents after it. */
void scan_newline(struct scan *scan);

/* ---- words.c ---- */

/* Parses commands up to something that cannot belong to a list: ), }, done, the end ... */
void scan_list(struct scan *scan);

#endif
