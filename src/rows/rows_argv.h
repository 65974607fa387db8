/* Rows as the options of a command line: read into a struct, printed as a usage text. Called by cli/option.c and
 * daemon/conf_args.c. Invariant: after "--", and after the words that the caller allows, nothing is an option. */
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

struct rows_line {
    int argc;
    char **argv;    /* only the words are left in it, and a NULL */
    unsigned words; /* options end at the word after so many; UINT_MAX: anywhere */
    int plain;      /* set: how many words stood before "--" */
    bool help;      /* set: --help or -h was given, and reading ended there */
};
/* Takes the options out of the line: BOOL has no value, TEXT fills a const char *, INT and REAL a number above 0,
 * TEXTS a struct row_texts. rows may be NULL. Returns how many words are left. INVALID: the sentence names the
 * option. */
int rows_argv(const struct row *rows, struct rows_line *line, struct arena *arena, void *values, struct err *err);
const struct row *rows_argv_find(const struct row *rows, const char *word); /* "--name" or "-n"; NULL: unknown */
void rows_usage(const struct row *rows, FILE *out);                         /* a line for each */

#endif
