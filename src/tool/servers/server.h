/* One MCP server that runs in a box: a process that speaks JSON-RPC on its standard input and output, one message per
 * line. Called by servers.c (which starts and stops them) and served.c (which uses them).
 *
 * It runs as a foreground call. The call's credit stops a server that writes too much; the ring of a background process
 * would lose messages. A call also survives a short loss of a machine's connection. It ends with the daemon that
 * started it, so that no daemon finds servers in the middle of a dialogue.
 *
 * It has no thread. A thread that waits for an answer leads: it reads for all waiting threads, as on a wire. The output
 * of an idle server waits within its credit, and its exit is noticed at the next request. */
#ifndef CUBBY_TOOL_SERVER_H
#define CUBBY_TOOL_SERVER_H

#include "box/box.h"
#include "rows/rows.h"

struct json_t;
struct json;

/* How a user configured it. */
struct server_spec {
    const char *name;
    const char *command;
    const char **args, **env; /* NULL-terminated; NULL: none */
    const char *cwd;          /* NULL: the workspace */
    const char *machine;      /* the user's machine on which it runs, or NULL */
    const char *thread;       /* the thread in whose box it runs; NULL: the caller's box */
    uint64_t timeout_ms, start_timeout_ms;
    bool disabled;
    bool configured;  /* from the configuration file */
    const char *text; /* the whole spec as JSON, to compare with a running one */
};

extern const struct row server_fields[]; /* members of a JSON body, for server_spec_take; without the name */

/* Checks the members of a spec; results are in the arena. INVALID names the error. */
int server_spec_take(struct json_t *body, const char *name, struct arena *arena, struct server_spec *ret_spec,
                     struct err *err);
/* Writes all members but the name. Values of the environment only with secrets; else "env_names" has their names. */
void server_spec_json(const struct server_spec *spec, struct json *json, bool secrets);

/* ---- a tool of a server ---- */

struct server_tool {
    const char *name, *title, *description;   /* title may be NULL */
    const char *input, *output, *annotations; /* JSON objects; output and annotations may be NULL */
};
struct server_tools { /* reference-counted, immutable */
    atomic_uint refs;
    struct arena arena;
    struct server_tool *items;
    size_t count, left_out; /* left_out: invalid names or schemas, or too many */
};
void server_tools_unref(struct server_tools *tools); /* NULL is allowed */

/* ---- a running server ---- */

struct server;

/* How a caller waits: it gives up when watch hangs up (-1: never). progress, if not NULL, gets the server's progress,
 * on the caller's thread. */
struct server_wait {
    int watch;
    uint64_t deadline_ms;
    void (*progress)(void *user, const char *text, size_t len);
    void *user;
};

/* Starts the process and sends nothing. drops: as in exec_request. The caller gets a reference. */
int server_start(struct box *box, const struct server_spec *spec, const char *const *drops, struct server **ret_server,
                 struct err *err);
struct server *server_ref(struct server *server);
void server_unref(struct server *server); /* the last one ends the process */
/* Stops it now; all waiting threads get the reason. Callable from any thread. */
void server_end(struct server *server, const char *why);
/* Reads its pending output. Returns false if it has exited; err says why. */
bool server_look(struct server *server, struct err *err);
bool server_box_alive(const struct server *server);
uint64_t server_started_ms(const struct server *server);
bool server_ready(struct server *server);

/* Initializes it and gets its list of tools, if not done yet or if the list has changed. IO: it exited, or was stopped
 * for a bad answer. GONE: the client went away. */
int server_prepare(struct server *server, const struct server_wait *wait, struct err *err);
struct server_tools *server_tools(struct server *server); /* release it with server_tools_unref; NULL: not prepared */
/* The list was sent to a client. server_relisted: whether it has changed since; true only once. */
void server_listed(struct server *server);
bool server_relisted(struct server *server);
/* Calls a tool. *ret_answer is the whole response (result or error), for json_decref. TIMEOUT: the server keeps
 * running. */
int server_call(struct server *server, const char *tool, struct json_t *args, const struct server_wait *wait,
                struct json_t **ret_answer, struct err *err);

#endif
