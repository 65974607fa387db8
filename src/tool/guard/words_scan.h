/* Shared by the two halves of the shell's parser: words.c (lists and commands) and words_scan.c (words and quotes). */
#ifndef CUBBY_TOOL_WORDS_SCAN_H
#define CUBBY_TOOL_WORDS_SCAN_H

#include "base/buf.h"
#include "tool/guard/words.h"

/* A here-document whose body comes after the next newline. */
struct scan_body {
    struct redirect *redirect;
    const char *end; /* its last line */
    bool quoted, tabs;
    struct scan_body *next;
};

struct scan {
    struct arena *arena;
    const char *text;
    size_t len, at;
    unsigned depth;
    size_t *work;      /* left, of the whole text */
    const char *error; /* the first; then nothing is read any more */
    struct scan_body *bodies;
    struct command **tail; /* where the next command is hung */
    /* of the command that is read */
    const struct command *source;
    const char *function;
    bool endless;
};

/* ---- words_scan.c ---- */

/* The next byte, -1 at the end or after an error. A backslash followed by a newline is skipped. */
int scan_peek(struct scan *scan);
/* Takes text if it comes next. */
bool scan_take(struct scan *scan, const char *text);
bool scan_next_is(struct scan *scan, const char *text);
void scan_fail(struct scan *scan, const char *error);
void scan_blanks(struct scan *scan); /* and a comment */
bool scan_meta(int c);               /* ends a word: blank, newline, ; & | ( ) < > and the end */
/* The plain letters that come next, when they are a whole word without quotes of at most 9 bytes; else "". */
void scan_plain(struct scan *scan, char ret_word[10]);

enum scan_place {
    SCAN_ARGUMENT,
    SCAN_FIRST,  /* where a command may begin */
    SCAN_TEST,   /* inside [[ ]]: ( ) < > | & are letters */
    SCAN_PATTERN /* of a case */
};
void scan_word(struct scan *scan, enum scan_place place, struct word *ret_word);
/* Reads to the )) that ends it, with the substitutions inside. Begins after ((. */
void scan_arithmetic(struct scan *scan, struct word *ret_word);
/* Whether (( at scan is arithmetic, not a group in a group. */
bool scan_is_arithmetic(struct scan *scan);
/* The word after <<; its body follows the next newline. */
void scan_body_begin(struct scan *scan, struct redirect *redirect, bool tabs);
/* Takes one newline, and the bodies of here-documents after it. */
void scan_newline(struct scan *scan);

/* ---- words.c ---- */

/* Commands up to what cannot be one of a list: ), }, done, the end ... */
void scan_list(struct scan *scan);

#endif
