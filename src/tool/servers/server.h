/* One MCP server that runs in a box: a process that speaks JSON-RPC on its standard input and output, a message a line.
 * Called by servers.c (which starts and ends them) and served.c (which asks them).
 *
 * It runs as a foreground call, not in the background: the call's credit stops one that talks too much, where the ring of a
 * background process would lose messages; a short loss of a machine's connection does not reach the call; and it ends with
 * whoever started it, so that no daemon finds servers whose half of the talk it does not know.
 *
 * Nobody has a thread for it. Whoever waits for an answer leads: reads for all who wait, as on a wire. An idle server's
 * output waits within its credit, and that it died is found when it is asked next. */
#ifndef CUBBY_TOOL_SERVER_H
#define CUBBY_TOOL_SERVER_H

#include "box/box.h"
#include "rows/rows.h"

struct json_t;
struct json;

/* What a user configured. */
struct server_spec {
    const char *name;
    const char *command;
    const char **args, **env; /* NULL-terminated; NULL: none */
    const char *cwd;          /* NULL: the workspace */
    const char *machine;      /* runs on this machine of the user's; NULL: not so */
    const char *thread;       /* runs in this thread's box; NULL: in that of whoever asks */
    uint64_t timeout_ms, start_timeout_ms;
    bool disabled;
    bool configured;  /* it stands in the configuration */
    const char *text; /* all of it as JSON: what a running one is compared with */
};

extern const struct row server_fields[]; /* of a JSON body, for server_spec_take; without the name */

/* The checked members of a spec, in the arena. INVALID names what is wrong. */
int server_spec_take(struct json_t *body, const char *name, struct arena *arena, struct server_spec *ret_spec,
                     struct err *err);
/* Lower-case letters, digits, '-' and single '_', at most LIMIT_SERVER_NAME_BYTES, with a letter or a digit in front. */
int server_name_check(const char *name, struct err *err);
/* Completes a spec that was filled in from elsewhere: checks it, sets what is 0, and makes its text. */
int server_spec_finish(struct server_spec *spec, struct arena *arena, struct err *err);
/* Its members but the name; values of the environment only with secrets, else their names as "env_names". */
void server_spec_json(const struct server_spec *spec, struct json *json, bool secrets);

/* ---- a tool of a server ---- */

struct server_tool {
    const char *name, *title, *description;   /* title may be NULL */
    const char *input, *output, *annotations; /* JSON objects; output and annotations may be NULL */
};
struct server_tools { /* counted; never changed */
    atomic_uint refs;
    struct arena arena;
    struct server_tool *items;
    size_t count, left_out; /* left_out: with names or schemas that cannot be offered, or too many */
};
void server_tools_unref(struct server_tools *tools); /* NULL is fine */

/* ---- a running one ---- */

struct server;

/* Whom an answer is for: gone when watch hangs up (-1: never); progress, if not NULL, is told what the server says meanwhile,
 * on the caller's thread. */
struct server_wait {
    int watch;
    uint64_t deadline_ms;
    void (*progress)(void *user, const char *text, size_t len);
    void *user;
};

/* The process is there; nothing was said to it. drops: as in exec_request. The caller gets a reference. */
int server_start(struct box *box, const struct server_spec *spec, const char *const *drops, struct server **ret_server,
                 struct err *err);
struct server *server_ref(struct server *server);
void server_unref(struct server *server); /* the last one ends the process */
/* It ends now; whoever waits for it hears why. From any thread. */
void server_end(struct server *server, const char *why);
/* Takes what it said meanwhile. False: it has ended, and err says why. */
bool server_look(struct server *server, struct err *err);
bool server_box_alive(const struct server *server);
uint64_t server_started_ms(const struct server *server);
bool server_ready(struct server *server);

/* The first words, and its list of tools, if that is not done yet or the list has changed. IO: it ended, or was ended for
 * what it answered; GONE: the watched one. */
int server_prepare(struct server *server, const struct server_wait *wait, struct err *err);
struct server_tools *server_tools(struct server *server); /* NULL: not prepared; for server_tools_unref */
/* Its list was told to somebody; and whether it has changed since: true once. */
void server_listed(struct server *server);
bool server_relisted(struct server *server);
/* A tool; *ret_answer is the whole response (result or error), for json_decref. TIMEOUT: it goes on without us. */
int server_call(struct server *server, const char *tool, struct json_t *args, const struct server_wait *wait,
                struct json_t **ret_answer, struct err *err);

#endif
