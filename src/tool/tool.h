/* Agent tools: one table for every endpoint (REST, MCP). A tool is a row: its name, its arguments, its description
 * for a model, and the function that runs it. One file per tool.
 *
 * A tool answers with text for a model. Failures that the model caused or can act on (no such file, a command that
 * failed, an argument out of range) are such a text too, with is_error set. Only failures that it cannot act on (the
 * client went away, no box is available) are errors of the call. */
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
struct tool_call;
struct tool_store;
struct guard_policy;

/* The configuration of tools. Lengths are characters (Unicode code points); 0: only the built-in limit. */
struct tool_settings {
    uint64_t bash_chars, ls_chars, read_file_chars; /* 20,000 20,000 50,000: longer texts are truncated */
    uint64_t glob_results, grep_results;            /* 200 100: default of a call; at most 1000 and 500 */
    uint64_t write_file_bytes;                      /* of one call that does not append; 0: LIMIT_JSON_BYTES */
    uint64_t bash_timeout_ms;                       /* default of a call */
    bool read_before_write;                         /* refuse to edit a file that was not read, or has changed since */
    bool offload;                                   /* longer results are kept for `recall` instead of truncated */
    uint64_t offload_chars;                         /* from this length on; 0: the tool's own limit */
    uint64_t offload_max_mb, offload_days;          /* size of all kept results of a user; their age */
    const char *const *env_prefixes;                /* of variables hidden from commands; NULL-terminated, never NULL */
    const struct guard_policy *guard;               /* NULL: commands are not checked */
};
extern const struct tool_settings tool_defaults;

/* Where tools run: the daemon, or `cubby mcp`. Shared by all calls; its functions are called from any thread. */
struct tool_host {
    struct catalogs *catalogs; /* cache of skills and sub-agents; NULL: none */
    struct servers *servers;   /* MCP servers of users; NULL: none */
    struct tool_store *store;  /* state that outlives a call: directories, files read, kept results */
    /* Returns the box of (user, thread), created if necessary; release gives it back. Called at most once per call,
     * when a tool first needs a box. endpoint: the call's. */
    int (*acquire)(void *endpoint, const char *user, const char *thread, struct box **ret_box, struct err *err);
    void (*release)(void *endpoint, struct box *box);
    /* The same, but never creates or starts a box: then *ret_box is NULL. May be NULL: acquire is used. */
    int (*find)(void *endpoint, const char *user, const char *thread, struct box **ret_box, struct err *err);
    const struct box *only; /* the box of every call, running or not; NULL: each (user, thread) has its own */
    /* For the audit log; both may be NULL. begins: arguments are valid, the box exists, nothing was done yet; called at
     * most once. ends: the result or error is known; called once per tool_run. */
    void (*begins)(struct tool_call *call);
    void (*ends)(struct tool_call *call);
};

struct tool_result {
    struct spool text; /* for the model; never empty after the call */
    bool is_error;
    bool whole;            /* never truncated or kept: the tool bounds its text (recall) */
    bool ranged;           /* truncated when too long, never kept: the model asked for a range */
    struct buf structured; /* one JSON object by the tool's `answer` rows, written through `json`; empty: none */
    struct json json;
    struct buf image;       /* an image instead of text */
    const char *image_type; /* "image/png" */
    struct buf content;     /* other content of an MCP server's tool: JSON items separated by ',' */
    bool tools_changed;     /* the list of tools has changed */
};

/* One call, from its arguments to its result. Lives as long as the endpoint's request. */
struct tool_call {
    /* set by the endpoint */
    const struct tool_host *host;
    void *endpoint; /* passed to the host's functions */
    const struct tool_settings *settings;
    const char *user;
    const char *thread; /* without NUL bytes; "" if the endpoint names a box and no thread */
    const char *parent; /* of a sub-agent: the thread whose box it uses; NULL: its own */
    struct box *box;    /* set if the endpoint names one, and then owned by it; else NULL */
    struct arena *arena;
    int watch;                  /* the call is cancelled when this descriptor hangs up; -1: none */
    const char *const *secrets; /* "NAME=VALUE" for this call's command only, NULL-terminated; may be NULL */
    /* Progress, for endpoints that show it; may be NULL. Called on the call's own thread. */
    void (*progress)(void *progress_user, const char *message, size_t len);
    void *progress_user;
    /* filled while it runs */
    const struct tool *tool;
    const void *args;        /* checked; NULL: they were refused */
    bool begun;              /* host->begins was called, or must not be called */
    bool acquired;           /* box came from host->acquire */
    struct conceal *conceal; /* removes the secrets' values from the text; NULL: none */
    struct tool_result result;
    struct exec_result exec; /* of a command, for the audit log */
    bool has_exec;
    const char *verdict;              /* of the guard, for the audit log; NULL: none */
    const char *warning;              /* of the guard, for the model, after the text; NULL: none */
    const char *source, *source_etag; /* the file that the result shows, and its version; NULL: none */
};

enum tool_cut {
    TOOL_WHOLE,  /* bounded by itself */
    TOOL_MIDDLE, /* the middle is dropped */
    TOOL_HEAD,   /* the head is kept */
};

#define TOOL_READS 0x1u /* changes nothing */
#define TOOL_ENDS 0x2u  /* may destroy something */
#define TOOL_SAME 0x4u  /* idempotent */
#define TOOL_WORLD 0x8u /* reaches beyond the box */
#define TOOL_KEPT 0x10u /* useful only if results are kept */

struct tool {
    const char *name, *title;
    const char *description; /* for a model: its effect, when to use it, what it returns */
    const struct row *fields;
    size_t args_size;
    const struct row *answer; /* of the structured result; NULL: none */
    unsigned flags;
    enum tool_cut cut;
    size_t cut_setting;   /* offsetof(struct tool_settings, ..._chars) */
    const char *cut_hint; /* "Use a more specific path to see fewer results" */
    bool served;          /* an MCP server's: its arguments (struct json_t) and its answer are not checked here */
    /* Returns 0 with the answer in call->result, or a negative code with err. The model gets err as a text, unless the
     * client is gone or there is no box. */
    int (*run)(struct tool_call *call, const void *args, struct err *err);
};

extern const struct tool *const tool_table[]; /* NULL-terminated; the order of lists */
/* Finds a tool of the table, or of the user's MCP servers (in the arena). NULL: unknown, or not offered with these
 * settings. */
const struct tool *tool_find_for(const struct tool_host *host, const struct tool_settings *settings, const char *user,
                                 const char *name, struct arena *arena);
/* [{"name","title","description","input_schema","output_schema"?,"annotations"}...]; mcp: the keys of MCP
 * (inputSchema ...) */
void tool_list_json(struct json *json, const struct tool_settings *settings, bool mcp);
/* The same with the tools of the MCP servers of the call's user; they run in its box, which is created if necessary. */
int tool_list_all_json(struct tool_call *call, struct json *json, bool mcp, struct err *err);

/* ---- running one ---- */

void tool_call_init(struct tool_call *call, const struct tool_host *host, const struct tool_settings *settings,
                    struct arena *arena);
int tool_call_names(const struct tool_call *call, struct err *err); /* INVALID: a thread's name is too long */
void tool_call_done(struct tool_call *call);                        /* releases the box */
/* Checks the arguments against the rows, runs the tool, removes secrets, keeps or truncates the result. args: one JSON
 * object. */
int tool_run(struct tool_call *call, const struct tool *tool, const char *args, size_t len, struct err *err);
/* The same with parsed arguments. */
int tool_run_object(struct tool_call *call, const struct tool *tool, struct json_t *args, struct err *err);

/* The same with checked arguments, for routes that bind them by the tool's rows. */
int tool_run_args(struct tool_call *call, const struct tool *tool, const void *args, struct err *err);

/* ---- for tools ---- */

int tool_box(struct tool_call *call, struct err *err); /* sets call->box and begins the call */
void tool_begin(struct tool_call *call);               /* begins the call of a tool that uses another box */
/* Never creates or starts a box (then call->box stays NULL), and does not begin the call. For tools that only read. */
int tool_box_found(struct tool_call *call, struct err *err);
/* Makes an argument an absolute path in the box. Relative paths start at the working directory of the thread; NULL and
 * "" mean that directory. "//", "/./" and ".." are folded textually. INVALID: too long. */
int tool_path(struct tool_call *call, const struct row_text *path, const char **ret_path, struct err *err);
void tool_say(struct tool_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_put(struct tool_call *call, const void *text, size_t len);
void tool_take(struct tool_call *call, struct spool *text); /* moves the text, which must not contain secrets */
/* Replaces the text with "Error: ..." and sets is_error. Returns 0. */
int tool_fail(struct tool_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first members of a tool's row, by the names that its file gives them. */
#define TOOL(tool, label)                                                                                              \
    .name = #tool, .title = (label), .fields = tool##_fields, .args_size = sizeof(struct tool##_args), .run = tool##_run

/* A row of a tool's arguments, and one of its structured result. */
#define ARG(within, member, kind) .name = #member, .type = ROW_##kind, .offset = offsetof(struct within, member)
#define ANSWER(label, kind) .name = (label), .type = ROW_##kind

/* The last row of every tool's arguments (a `struct row_text description`): many agents send it. */
#define TOOL_DESCRIPTION(args)                                                                                         \
    {                                                                                                                  \
        .name = "description", .type = ROW_TEXT, .flags = ROW_AUDITED, .offset = offsetof(args, description),          \
        .max = 1000, .text = "One-line reason, shown to people; the tool ignores it."                                  \
    }

/* The rows, one per file. */
extern const struct tool tool_bash, tool_bash_background, tool_bash_output, tool_bash_kill, tool_cd, tool_download,
    tool_ls, tool_glob, tool_grep, tool_read_file, tool_write_file, tool_str_replace, tool_edit, tool_recall,
    tool_skill, tool_agent;

#endif
