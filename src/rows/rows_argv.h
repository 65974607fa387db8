/* Rows as the options of a command line: read into a struct, printed as a usage text and as a list of a manual page.
 * Called by cli/option.c and daemon/conf_args.c. Invariant: after "--", and after the words that the caller allows,
 * nothing is an option. */
#ifndef CUBBY_ROWS_ARGV_H
#define CUBBY_ROWS_ARGV_H

#include <stdio.h>

#include "rows/rows.h"

struct row_texts {      /* an option that may be given many times */
    const char **items; /* NULL-terminated once there is one */
    size_t count;
};
void rows_texts_add(struct arena *arena, struct row_texts *list, const char *value);

#define OPTION(label, short, kind, holder, part, shown, meaning)                                                       \
    {                                                                                                                  \
        .name = (label), .letter = (short), .type = ROW_##kind, .offset = offsetof(holder, part),                      \
        .min = ROW_##kind == ROW_INT, .max = INT64_MAX, .value = (shown), .text = (meaning)                            \
    }

/* The end of a table that is continued by another one, which has a heading in usage texts. */
#define OPTIONS_MORE(table, heading)                                                                                   \
    { .name = NULL, .fields = (table), .text = (heading) }

/* An option whose value is one of some words: "jail|none". */
#define OPTION_OF(label, short, kind, holder, part, words, meaning)                                                    \
    {                                                                                                                  \
        .name = (label), .letter = (short), .type = ROW_##kind, .offset = offsetof(holder, part), .choices = (words),  \
        .value = (words), .text = (meaning)                                                                            \
    }

struct rows_line {
    int argc;
    char **argv;    /* only the words are left in it, and a NULL */
    unsigned words; /* options end at the word after so many; UINT_MAX: anywhere */
    int plain;      /* set: how many words stood before "--" */
    bool help;      /* set: --help or -h was given, and reading ended there */
    /* Takes a value instead of the struct; may be NULL. value is NULL for BOOL without one. */
    int (*set)(void *values, const struct row *row, const char *value, struct err *err);
};
/* Takes the options out of the line: BOOL has no value, TEXT fills a const char *, INT and REAL a number above 0,
 * TEXTS a struct row_texts. In names '-' and '_' are the same. rows may be NULL. Returns how many words are left.
 * INVALID: the sentence names the option. */
int rows_argv(const struct row *rows, struct rows_line *line, struct arena *arena, void *values, struct err *err);
const struct row *rows_argv_find(const struct row *rows, const char *word); /* "--name" or "-n"; NULL: unknown */
const struct row *rows_argv_next(const struct row *row);                    /* of all its tables; NULL at the end */
void rows_usage(const struct row *rows, FILE *out);                         /* a line for each, or more */
void rows_manual(const struct row *rows, FILE *out);                        /* the items of an mdoc list; one table */

#endif
