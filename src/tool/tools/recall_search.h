/* Lines of a kept result that match a pattern, in constant memory and bounded time. */
#ifndef CUBBY_TOOL_RECALL_SEARCH_H
#define CUBBY_TOOL_RECALL_SEARCH_H

#include "base/buf.h"
#include "tool/offload/offload_index.h"

struct recall_search {
    const struct offload_index *index;
    int fd;
    const char *user; /* the user in whose quota of searches it counts */
    int watch;        /* its hang-up ends the search: GONE; -1: none */
    const char *pattern;
    size_t pattern_len;
    bool literal, ignore_case;
    unsigned context;
    uint64_t max_results, max_chars; /* of the shown text, line numbers not counted */
    uint64_t first_line, last_line;
};

struct recall_found {
    uint64_t matches;   /* lines */
    uint64_t last_line; /* searched */
    uint64_t next_line; /* where to continue; 0: everything was searched */
    uint64_t gave_up;   /* lines that the pattern was too expensive for */
    bool timed_out;
};

#define RECALL_SEARCH_BYTES (256u << 10) /* more than 16,000 characters with their line numbers have */

/* "12: text" for a match, "11- text" for its context, "--" between separate parts. INVALID: the pattern. LIMIT: the
 * user has other searches running, and they did not end in time. */
int recall_search(const struct recall_search *search, struct buf *out, struct recall_found *ret_found, struct err *err);

#endif
