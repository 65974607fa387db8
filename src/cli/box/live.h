/* A table that is drawn again and again on a terminal until a key ends it. Called by `cubby ps -w` and `cubby top`. */
#ifndef CUBBY_CLI_LIVE_H
#define CUBBY_CLI_LIVE_H

struct cli;

struct live_table {
    double interval_s;
    void (*draw)(struct cli *cli, void *user, unsigned rows); /* prints at most so many lines to standard output */
    void (*key)(void *user, char key);                        /* any but q; may be NULL */
    void *user;
};
/* Returns the exit status. Standard input and output must be a terminal. */
int live_run(struct cli *cli, const struct live_table *live);

#endif
