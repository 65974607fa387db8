/* Lines of a kept result that match a pattern, in constant memory and bounded time. */
#ifndef CUBBY_TOOL_RECALL_SEARCH_H
#define CUBBY_TOOL_RECALL_SEARCH_H

#include "base/buf.h"
#include "tool/offload/offload_index.h"

struct recall_search {
    const struct offload_index *index;
    int fd;
    const char *user; /* whose quota of searches it uses */
    int watch;        /* the search ends with GONE when this descriptor hangs up; -1: none */
    const char *pattern;
    size_t pattern_len;
    bool literal, ignore_case;
    unsigned context;
    uint64_t max_results, max_chars; /* limits; max_chars without line numbers */
    uint64_t first_line, last_line;
};

struct recall_found {
    uint64_t matches;   /* lines */
    uint64_t last_line; /* last line searched */
    uint64_t next_line; /* where to continue; 0: everything was searched */
    uint64_t gave_up;   /* lines for which the pattern was too expensive */
    bool timed_out;
};

#define RECALL_SEARCH_BYTES (256u << 10) /* more than 16,000 characters with their line numbers take */

/* Writes "12: text" for a match, "11- text" for context, "--" between parts. INVALID: a bad pattern. LIMIT: the user's
 * other searches did not end in time. */
int recall_search(const struct recall_search *search, struct buf *out, struct recall_found *ret_found, struct err *err);

#endif
