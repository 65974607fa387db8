/* Shared by the commands of `cubby`: the table of commands, options as tables, tables as text, the daemon's JSON.
 *
 * A command gets its words without the options and returns the process's exit status. Nothing is loaded or connected
 * before a command needs it: `cubby run` must start like a small static program. */
#ifndef CUBBY_CLI_CLI_H
#define CUBBY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "rows/rows_argv.h"

#define EXIT_USAGE 2
#define EXIT_LOGIN 4       /* the daemon requires a token, or does not know ours */
#define EXIT_TIMED_OUT 124 /* as timeout(1) */
#define EXIT_OURS 125      /* cubby itself failed, not the command */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define BOX_MISSING "missing box ID (see `cubby ps`)"

/* ---- options (option.c) ---- */

struct cli;
struct cli_command {
    const char *name;
    const char *usage;   /* the words after "cubby NAME " */
    const char *summary; /* one line of `cubby help` */
    const char *detail;  /* a paragraph of `cubby help NAME`; may be NULL */
    int (*run)(struct cli *cli, int argc, char **argv);
    const struct row *options; /* OPTION; ends with name NULL; may be NULL */
    unsigned words;            /* options end after this many words; UINT_MAX: they may be anywhere */
    const char *group;         /* the heading that begins here in `cubby help`; NULL: that of the row before */
    const char *alias;         /* other names, "stats|metrics"; may be NULL */
    const char *examples;      /* lines of `cubby help NAME` */
    bool passes_status;        /* the exit status is that of a command in a box */
};

struct box_name { /* a box as it was named, and its ID */
    const char *word, *id;
    struct box_name *next;
};
struct cli {
    const struct cli_command *command;
    struct arena arena;
    struct http_client *client; /* remote.c; NULL before the first request */
    struct box_name *names;     /* boxname.c */
    int plain_words;            /* how many words came before "--" */
};

/* What holds for this whole process: options before the command, and whether the command prints JSON. */
struct cli_mode {
    const char *context, *color;
    bool verbose, json;
    const struct cli_command *command;
    const struct cli_command *(*find)(const char *name); /* command_find; NULL outside of the program */
    char request_id[64];                                 /* of the last answer */
};
extern struct cli_mode cli_mode;        /* fail.c */
extern const struct row mode_options[]; /* before the command */

extern const struct cli_command command_table[]; /* command.c; ends with name NULL */
const struct cli_command *command_find(const char *name);
void command_help(const struct cli_command *command, FILE *out);
void command_list(FILE *out);
/* Returns whether word is the subcommand `name` or a synonym: ls and list; rm, remove and revoke. */
bool command_verb(const char *word, const char *name);

/* Removes the options from argv and returns how many words are left. --help prints the help and exits 0. A wrong option
 * is named, with the usage line, and exits 2. `values` must be zeroed or have the defaults. */
int option_parse(struct cli *cli, int argc, char **argv, void *values);
/* Prints "cubby NAME: message" and the usage line, and exits 2. */
__attribute__((noreturn, format(printf, 2, 3))) void option_fail(const struct cli *cli, const char *format, ...);
/* Prints "cubby: message" to standard error, or the API's error object for a command with --json. Returns the exit
 * status: EXIT_OURS, or EXIT_LOGIN where a token is missing. */
int cli_fail(const struct err *err);
bool cli_color(int fd); /* whether to write colours there */
/* Asks on the terminal, where there is one. Returns whether to continue; true without a terminal. */
bool cli_confirm(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Does the same and exits if code is a failure. For failures that need no cleanup. */
void cli_must(int code, const struct err *err);

/* ---- options of a box, shared by run, create and shell (boxopt.c) ---- */

struct box_options {
    const char *backend, *template_name, *net, *network, *shell;
    uint64_t memory_mb, pids, disk_mb, open_files, output_bytes;
    double cpus;
    struct row_texts mounts, env, secrets, allow;
    const char *agent, *machine; /* for create */
    const char *container_user, *runtime, *platform, *pull;
    bool read_only, image_init;
    const char *idle_timeout; /* for create: seconds */
    bool temporary;           /* for shell */
};
/* Whether only the daemon can make such a box: it has a network policy, which a gate enforces, or secrets. */
bool box_options_daemon(struct cli *cli, const struct box_options *options);
/* Its rows: the end of the table of a command whose values begin with a struct box_options. */
extern const struct row box_rows[];
#define BOX_OPTIONS OPTIONS_MORE(box_rows, "Options of a box:")

/* Returns the network that an option names, with hosts that --allow adds (may be NULL): a word, or a policy as JSON.
 * NULL: none is given. Exits 2 if malformed. */
const char *box_options_network(struct cli *cli, const char *network, const struct row_texts *allow);
struct mount;
/* Completes "K" from this process's environment. NULL-terminated, or NULL if there are none. Exits 2 if malformed. */
const char **box_options_env(struct cli *cli, const struct row_texts *list);
/* Writes the same as the member "env" of an open object, if there are any. */
void box_options_env_json(struct cli *cli, const struct row_texts *list, struct json *json);
/* Resolves a directory for boxes: never "/", and the home directory only if `home`. Exits 2 for any other. */
const char *box_options_directory(struct cli *cli, const char *what, const char *given, bool home);
/* Makes the request for a box of this process. Exits 2 on a malformed option. */
struct box_request;
void box_options_request(struct cli *cli, const struct box_options *options, struct box_request *ret_request);
/* Writes the members of a `POST /v1/boxes` body into an open object. */
void box_options_json(struct cli *cli, const struct box_options *options, struct json *json);

/* Joins the words to one line for a shell, quoted. NULL: there are none. */
const char *option_line(struct cli *cli, char **words);

/* ---- text for people (table.c) ---- */

struct table {
    struct arena *arena;
    unsigned columns;
    const char **cells; /* the first row is the heading */
    size_t count, cap;
    unsigned long colored; /* bit N: words of column N that are a state have its colour */
};
void table_cell(struct table *table, const char *text); /* NULL is shown as "-" */
void table_print(const struct table *table, FILE *out);
/* Writes a cell padded to width. shown: it is already safe to show. NULL is shown as "-". */
void table_pad(struct buf *line, const char *text, size_t width, bool shown);
const char *table_color(const char *word); /* the escape sequence of a state, "" if it has none */
#define COLOR_FAILED "\x1b[31m"
#define COLOR_FAINT "\x1b[2m"
#define COLOR_OFF "\x1b[0m"
size_t table_width(const char *text);                        /* characters, not bytes */
const char *table_size(struct arena *arena, uint64_t bytes); /* "4.0K", "1.2G" */

/* ---- the daemon (remote.c) ---- */

struct json_t;
struct http_client;
/* Gets the client for the daemon (context.h), made at the first call. */
int remote_client(struct cli *cli, struct http_client **ret_client, struct err *err);
int remote_connect(struct http_client **ret_client, struct err *err); /* one more, for another thread */
const char *remote_url(void);
/* Makes one call. The answer is in out (may be NULL); a status other than 2xx becomes an error with the daemon's text.
 * body may be NULL. */
int remote_call(struct cli *cli, const char *method, const char *path, const struct buf *body, struct buf *out,
                struct err *err);
/* Makes any call through that client. The answer's body is in out unless the call writes it; a status other than 2xx is
 * an error. */
struct http_call;
int remote_send(struct cli *cli, const struct http_call *call, struct buf *out, struct err *err);
/* For http_call.header: prints a note if the daemon reports that it has started the box again. */
void remote_header(void *user, const char *name, const char *value);
/* The same, parsed; release it with json_decref. */
int remote_json(struct cli *cli, const char *method, const char *path, const struct buf *body, struct json_t **ret_json,
                struct err *err);
int remote_code(const char *name); /* "NOT_FOUND" becomes ERR_NOT_FOUND; unknown: ERR_INTERNAL */
/* Makes an error of an answer's status and body. Returns 0 for 2xx. */
int remote_status(int status, const struct buf *body, struct err *err);
/* Returns the ID of a box that is named by its ID, the first digits of it, @THREAD, @USER/THREAD or - (the last one).
 * Exits 2 if the word is none of these, 125 if it fits no box, or several. (boxname.c) */
const char *remote_box(struct cli *cli, const char *word);
bool remote_named(const char *word);               /* whether it may name a box */
void remote_used(struct cli *cli, const char *id); /* "-" is this one from now on */
/* Makes "/v1/boxes/ID/REST" and, if path is not NULL, "?path=...". The box is named as for remote_box. */
const char *remote_path(struct cli *cli, const char *id, const char *rest, const char *path);
const char *remote_encoded(struct cli *cli, const char *text); /* for a path or a query */
/* Splits "ID:PATH", where ID is any name of a box. Returns false if there is none before a colon. */
bool remote_split(struct cli *cli, const char *word, const char **ret_id, const char **ret_path);
/* Prints one line of JSON; on a terminal in ASCII, so that nothing in it can disturb the terminal. */
void remote_print(const struct json_t *json);
/* Reads a member that may be base64 into out. Returns false if it is missing or malformed. */
bool remote_bytes(const struct json_t *object, const char *key, struct buf *out);
/* Makes a box by POST /v1/boxes; its id is in ret_id. */
int remote_create(struct cli *cli, const struct box_options *options, const char *user, const char *thread,
                  struct buf *ret_answer, char ret_id[17], struct err *err);
#define REMOTE_IDLE_SECONDS "60" /* of a box made for one command: after its connection has ended without us */
/* A command in that box, with our streams: its exit status. (exec.c) */
int exec_in_box(struct cli *cli, const char *id, char **argv, const char *user, const char *workdir, double timeout_s);
/* A command with a terminal in a box that is made for it: its exit status. (shell.c) */
int shell_in_new_box(struct cli *cli, const struct box_options *box, char **argv, const char *user,
                     const char *workdir);
int shell_in_box(struct cli *cli, const char *id, const char *line, const char *user, const char *workdir);
/* How a command ended ({"exit_code":…,"signal":…,"timed_out":…}) as an exit status, with a note on standard error. */
int remote_exit(const struct json_t *exit);

/* ---- the commands, one file each ---- */

int command_run(struct cli *cli, int argc, char **argv);
int command_mcp(struct cli *cli, int argc, char **argv);
int command_mcp_server(struct cli *cli, int argc, char **argv);
int command_join(struct cli *cli, int argc, char **argv);
int command_exec(struct cli *cli, int argc, char **argv);
bool session_named(const char *name); /* whether it may be a session's name in a path */
int command_create(struct cli *cli, int argc, char **argv);
/* rest/commands.c: pause, resume, start, release, session, snapshot, rollback, fork, diff */
int command_rest(struct cli *cli, int argc, char **argv);
int command_rm(struct cli *cli, int argc, char **argv);
int command_move(struct cli *cli, int argc, char **argv);
int command_export(struct cli *cli, int argc, char **argv);
int command_shell(struct cli *cli, int argc, char **argv);
int command_cp(struct cli *cli, int argc, char **argv);
int command_cat(struct cli *cli, int argc, char **argv);
int command_ls(struct cli *cli, int argc, char **argv);
int command_token(struct cli *cli, int argc, char **argv);
int command_secret(struct cli *cli, int argc, char **argv);
int command_workers(struct cli *cli, int argc, char **argv);
int command_drain(struct cli *cli, int argc, char **argv);
int command_audit(struct cli *cli, int argc, char **argv);
int command_network(struct cli *cli, int argc, char **argv);
int command_events(struct cli *cli, int argc, char **argv);
int command_port(struct cli *cli, int argc, char **argv);
int command_tool(struct cli *cli, int argc, char **argv);
int command_bang(struct cli *cli, int argc, char **argv);
int command_skill(struct cli *cli, int argc, char **argv);
bool doctor_lacking(struct cli *cli); /* prints what a jail needs and this machine lacks (doctor.c) */
int command_doctor(struct cli *cli, int argc, char **argv);
int command_tls(struct cli *cli, int argc, char **argv);
int command_template(struct cli *cli, int argc, char **argv);
int command_version(struct cli *cli, int argc, char **argv);
int command_completion(struct cli *cli, int argc, char **argv);
int command_help_command(struct cli *cli, int argc, char **argv);
int command_ps(struct cli *cli, int argc, char **argv);
int command_inspect(struct cli *cli, int argc, char **argv);
int command_top(struct cli *cli, int argc, char **argv);
int command_logs(struct cli *cli, int argc, char **argv);
int command_wait(struct cli *cli, int argc, char **argv);
int command_kill(struct cli *cli, int argc, char **argv);
int command_stdin(struct cli *cli, int argc, char **argv);
int command_edit(struct cli *cli, int argc, char **argv);
int command_paths(struct cli *cli, int argc, char **argv); /* file/paths.c: mkdir, mv, stat */
int command_search_find(struct cli *cli, int argc, char **argv);
int command_search_grep(struct cli *cli, int argc, char **argv);
int command_sync(struct cli *cli, int argc, char **argv);
int command_watch(struct cli *cli, int argc, char **argv);
int command_machine(struct cli *cli, int argc, char **argv);
int command_up(struct cli *cli, int argc, char **argv);
int command_down(struct cli *cli, int argc, char **argv);
int command_open(struct cli *cli, int argc, char **argv);
int command_login(struct cli *cli, int argc, char **argv);
int command_logout(struct cli *cli, int argc, char **argv);
int command_context(struct cli *cli, int argc, char **argv);
int command_api(struct cli *cli, int argc, char **argv);
int command_info(struct cli *cli, int argc, char **argv);

extern const struct row run_options[], mcp_options[], mcp_server_options[], exec_options[], json_options[],
    create_options[], ps_options[], rm_options[], shell_options[], cp_options[], ls_options[], token_options[],
    secret_options[], audit_options[], network_options[], template_options[], events_options[], port_options[],
    tool_options[], bang_options[], fork_options[], diff_options[], skill_options[], join_options[], drain_options[],
    move_options[], help_options[], tls_options[], inspect_options[], top_options[], logs_options[], kill_options[],
    stdin_options[], mkdir_options[], mv_options[], find_options[], grep_options[], sync_options[], machine_options[],
    up_options[], down_options[], open_options[], login_options[], api_options[];

#endif
