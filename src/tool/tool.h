/* Agent tools: one table for every endpoint (REST, MCP). A tool is a row: its name, what it takes, what a model is
 * told about it, and the function that runs it. One file a tool.
 *
 * A tool answers with text for a model. What the model did wrong or can do something about (no such file, a command that
 * failed, an argument out of range) is such a text too, with is_error set. Only what it cannot (nobody waits any more,
 * there is no box to be had) is an error of the call. */
#ifndef CUBBY_TOOL_TOOL_H
#define CUBBY_TOOL_TOOL_H

#include "base/arena.h"
#include "base/json.h"
#include "box/box.h"
#include "rows/rows.h"
#include "tool/offload/spool.h"

struct catalogs;
struct conceal;
struct servers;
struct tool_store;
struct guard_policy;

/* What the configuration says of tools. Lengths are characters (Unicode code points); 0: no bound but our own. */
struct tool_settings {
    uint64_t bash_chars, ls_chars, read_file_chars; /* 20,000 20,000 50,000: longer texts are cut */
    uint64_t glob_results, grep_results;            /* 200 100: of a call that does not say; at most 1000 and 500 */
    uint64_t write_file_bytes;                      /* of one call that does not append; 0: LIMIT_JSON_BYTES */
    uint64_t bash_timeout_ms;                       /* of a call that does not say */
    bool read_before_write;                         /* an edit of what was not read, or changed since, is refused */
    bool offload;                                   /* longer results are kept for `recall` instead of cut */
    uint64_t offload_chars;                         /* how long; 0: the tool's own bound */
    uint64_t offload_max_mb, offload_days;          /* of all kept results of a user; until one is forgotten */
    const char *const *env_prefixes;                /* variables that no command gets; NULL-terminated, never NULL */
    const struct guard_policy *guard;               /* NULL: commands are not looked at */
};
extern const struct tool_settings tool_defaults;

/* Where tools run: the daemon, or `cubby mcp`. Shared by all calls. */
struct tool_host {
    struct catalogs *catalogs; /* what was read of skills and sub-agents; NULL: nothing is kept */
    struct servers *servers;   /* MCP servers of users; NULL: there are none */
    struct tool_store *store;  /* what outlives a call: directories, what was read, kept results */
    /* The box of (user, thread), made if need be; given back by release. At most once a call, when a tool first needs a
     * box. door: the call's. From any thread. */
    int (*acquire)(void *door, const char *user, const char *thread, struct box **ret_box, struct err *err);
    void (*release)(void *door, struct box *box);
    /* The same box, but none is made or started: *ret_box NULL then. May be NULL: like acquire. */
    int (*find)(void *door, const char *user, const char *thread, struct box **ret_box, struct err *err);
    const struct box *only; /* every call's box, whether it runs or not; NULL: each (user, thread) has its own */
};

struct tool_result {
    struct spool text; /* for the model; never empty when the call is over */
    bool is_error;
    bool whole;            /* neither cut nor kept: a text that is bounded by itself (recall) */
    bool ranged;           /* cut when too long, never kept: a part that was asked for (a range of lines) */
    struct buf structured; /* one JSON object by the tool's `answer` rows, written through `json`; empty: none */
    struct json json;
    struct buf image;       /* a picture instead of text */
    const char *image_type; /* "image/png" */
    struct buf content;     /* of an MCP server's tool: what is no text, as items of JSON with ',' between */
    bool tools_changed;     /* the list of tools is another one now */
};

/* One call, from its arguments to its result. Lives as long as the door's request. */
struct tool_call {
    /* set by the door */
    const struct tool_host *host;
    void *door; /* for host->acquire and release */
    const struct tool_settings *settings;
    const char *user;
    const char *thread; /* NUL-terminated, no NUL inside; "" when the door names a box and no thread */
    const char *parent; /* of a sub-agent: the thread whose box it works in; NULL: its own */
    struct box *box;    /* the door's, when it names one (then it stays the door's); else NULL */
    struct arena *arena;
    int watch;                  /* its hang-up cancels the call; -1: none */
    const char *const *secrets; /* "NAME=VALUE" for this call's command only, NULL-terminated; may be NULL */
    /* The arguments are right and the box is there; nothing was done yet. Once; may be NULL. */
    void (*begins)(struct tool_call *call);
    /* The result or the error is there; once for each tool_run. May be NULL. */
    void (*ends)(struct tool_call *call);
    /* What happens meanwhile, for doors that show it; may be NULL. Called on the call's own thread. */
    void (*progress)(void *progress_user, const char *message, size_t len);
    void *progress_user;
    /* filled while it runs */
    const struct tool *tool;
    const void *args;        /* checked; NULL: they were refused */
    bool begun;              /* begins was called */
    bool acquired;           /* box came from host->acquire */
    struct conceal *conceal; /* the secrets' values, out of what is put; NULL: none */
    struct tool_result result;
    struct exec_result exec; /* of a command, for the audit log */
    bool has_exec;
    const char *verdict;              /* what the guard said, for the audit log; NULL: nothing */
    const char *warning;              /* and for the model, behind the text; NULL: nothing */
    const char *source, *source_etag; /* the file that the result shows (offload_source), and its version; NULL: none */
};

enum tool_cut {
    TOOL_WHOLE,  /* bounded by itself */
    TOOL_MIDDLE, /* the middle goes */
    TOOL_HEAD,   /* the head stays */
};

#define TOOL_READS 0x1u /* changes nothing */
#define TOOL_ENDS 0x2u  /* may destroy something */
#define TOOL_SAME 0x4u  /* twice is as good as once */
#define TOOL_WORLD 0x8u /* reaches beyond the box */
#define TOOL_KEPT 0x10u /* of use only where results are kept */

struct tool {
    const char *name, *title;
    const char *description; /* for a model: what it does, when to use it, what it answers */
    const struct row *fields;
    size_t args_size;
    const struct row *answer; /* of the structured result; NULL: none */
    unsigned flags;
    enum tool_cut cut;
    size_t cut_setting;   /* offsetof(struct tool_settings, ..._chars) */
    const char *cut_hint; /* "Use a more specific path to see fewer results" */
    bool served; /* an MCP server's: it gets its arguments as they are (struct json_t), and answers as it likes */
    /* 0: call->result is the answer. Negative: err; the model gets it as a text, unless nobody waits or there is no box. */
    int (*run)(struct tool_call *call, const void *args, struct err *err);
};

extern const struct tool *const tool_table[]; /* NULL-terminated; the order of lists */
const struct tool *tool_find(const char *name);
/* The same, or one of an MCP server of the user's (in the arena). NULL: there is none, or not with these settings. */
const struct tool *tool_find_for(const struct tool_host *host, const struct tool_settings *settings, const char *user,
                                 const char *name, struct arena *arena);
/* Whether it is there with these settings. */
bool tool_offered(const struct tool *tool, const struct tool_settings *settings);
/* [{"name","title","description","input_schema","output_schema"?,"annotations"}...]; mcp: the keys of MCP (inputSchema ...) */
void tool_list_json(struct json *json, const struct tool_settings *settings, bool mcp);
/* The same with those of the MCP servers that the call's user has; they run in its box, which is made if need be. */
int tool_list_all_json(struct tool_call *call, struct json *json, bool mcp, struct err *err);

/* ---- running one ---- */

void tool_call_init(struct tool_call *call, const struct tool_host *host, const struct tool_settings *settings,
                    struct arena *arena);
int tool_call_names(const struct tool_call *call, struct err *err); /* INVALID: a thread that cannot be one */
void tool_call_done(struct tool_call *call);                        /* gives the box back */
/* The whole walk: arguments checked by the rows, the tool, secrets out, result kept or cut. args: one JSON object. */
int tool_run(struct tool_call *call, const struct tool *tool, const char *args, size_t len, struct err *err);
/* The same with arguments that were read already. */
int tool_run_object(struct tool_call *call, const struct tool *tool, struct json_t *args, struct err *err);

/* ---- for tools ---- */

int tool_box(struct tool_call *call, struct err *err); /* call->box from here on */
/* To look only: the box if there is one, none is made or started (call->box stays NULL then); not the beginning of a tool. */
int tool_box_found(struct tool_call *call, struct err *err);
/* An argument as an absolute path in the box: relative ones from the working directory of the thread; NULL or "": that
 * directory. "//", "/./" and ".." are folded by text. INVALID: too long. */
int tool_path(struct tool_call *call, const struct row_text *path, const char **ret_path, struct err *err);
void tool_say(struct tool_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_put(struct tool_call *call, const void *text, size_t len);
void tool_take(struct tool_call *call,
               struct spool *text); /* all of it; it holds no secrets, and is empty afterwards */
/* Replaces the text by "Error: ..." and sets is_error; 0, to be returned. */
int tool_fail(struct tool_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A row of a tool's arguments, and one of what it answers. */
#define ARG(within, member, kind) .name = #member, .type = ROW_##kind, .offset = offsetof(struct within, member)
#define ANSWER(label, kind) .name = (label), .type = ROW_##kind

/* The last row of every tool's arguments, which have a `struct row_text description`: many agents send it. */
#define TOOL_DESCRIPTION(args)                                                                                         \
    {                                                                                                                  \
        .name = "description", .type = ROW_TEXT, .flags = ROW_AUDITED, .offset = offsetof(args, description),          \
        .max = 1000, .text = "Why, in a few words: for people who look on; not used."                                  \
    }

/* The rows, one a file. */
extern const struct tool tool_bash, tool_bash_background, tool_bash_output, tool_bash_kill, tool_cd, tool_download,
    tool_ls, tool_glob, tool_grep, tool_read_file, tool_write_file, tool_str_replace, tool_edit, tool_recall,
    tool_skill, tool_agent;

#endif
