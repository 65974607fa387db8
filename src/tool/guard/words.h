/* A shell command parsed as bash does it: simple commands with their words and redirections, in the order of the text;
 * commands inside substitutions belong to the word that contains them. Nothing is run or expanded. */
#ifndef CUBBY_TOOL_WORDS_H
#define CUBBY_TOOL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

#define WORDS_BYTES (1u << 20) /* longest text that is read */
#define WORDS_DEPTH 64         /* groups and substitutions inside each other */
#define WORDS_WORK (16u << 20) /* bytes read, repeated ones included */

#define WORD_QUOTED 0x1u  /* a part of it was in quotes */
#define WORD_EXPANDS 0x2u /* the shell expands a part of it: $x, $(x), `x`, $((1)), <(x) */
#define WORD_GLOBS 0x4u   /* * ? [ without quotes */
#define WORD_BRACES 0x8u  /* {a,b} or {1..2} without quotes: may become several words */
#define WORD_TILDE 0x10u  /* begins with ~ without quotes */

struct script;

struct word {
    const char *text; /* without its quotes; expansions are as written: $x, $(x) */
    size_t len;       /* of text, which contains no NUL and is followed by one */
    size_t plain;     /* length of its literal beginning: not quoted, not expanded */
    unsigned flags;
    const struct script *inside; /* the substitutions in it */
    const struct word *next;
};

enum redirect_kind {
    REDIRECT_IN,   /* < */
    REDIRECT_OUT,  /* > >> >| &> &>> <> and >&NAME */
    REDIRECT_DUP,  /* >&2 <&- */
    REDIRECT_BODY, /* << <<-: a here-document; target is its text */
    REDIRECT_TEXT, /* <<< */
};

struct redirect {
    enum redirect_kind kind;
    struct word target;
    const struct redirect *next;
};

enum command_kind {
    COMMAND_SIMPLE,   /* words[0] is the command; no words: only assignments and redirections */
    COMMAND_VALUES,   /* words that are not commands: for, select, case, (( )), redirections of a group */
    COMMAND_TEST,     /* words of [[ ]] */
    COMMAND_FUNCTION, /* words[0] is the name of a defined function; its body follows */
};

struct command {
    enum command_kind kind;
    const struct word *assigns; /* leading NAME=VALUE, and arrays */
    const struct word *words;
    const struct redirect *redirects;
    const struct command *source; /* if it reads from a pipe: the first command of the pipeline; else NULL */
    bool pipes;                   /* its output goes into a pipe */
    bool background;              /* & follows it, or the compound that contains it */
    bool endless;                 /* in a loop that never ends: while true, until false, for ((;;)) */
    const char *function;         /* the function that contains it, or NULL */
    const struct command *next;   /* in the order of the text */
};

struct script {
    const struct command *commands;
    const struct script *next; /* of the same word */
};

/* *ret_script is in the arena and does not point into text. INVALID: err names the fault ("unclosed quote"), which a
 * shell would refuse too, or a limit above that is exceeded. */
int words_parse(struct arena *arena, const char *text, size_t len, const struct script **ret_script, struct err *err);

#endif
