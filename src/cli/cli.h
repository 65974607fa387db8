/* Shared by the commands of `cubby`: the table of commands, options as tables, tables as text, the daemon's JSON.
 *
 * A command gets its words with the options already removed and returns the process's exit status. Nothing here is
 * loaded or connected before a command needs it: `cubby run` must start like a small static program. */
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
    unsigned words;            /* options end at the word after this many; UINT_MAX: anywhere */
};

struct cli {
    const struct cli_command *command;
    struct arena arena;
    struct http_client *client; /* remote.c; NULL until the daemon is asked */
    int plain_words;            /* how many words stood before "--" */
};

extern const struct cli_command command_table[]; /* main.c; ends with name NULL */
const struct cli_command *command_find(const char *name);
void command_help(const struct cli_command *command, FILE *out);
void command_list(FILE *out);
/* Whether word is the subcommand `name` or a synonym of it: ls and list, rm, remove and revoke. */
bool command_verb(const char *word, const char *name);

/* Takes the options out of argv and returns how many words are left in it. --help prints the help and exits 0;
 * anything wrong is named, with the usage line, and exits 2. `values` must be zeroed or hold the defaults. */
int option_parse(struct cli *cli, int argc, char **argv, void *values);
/* "cubby NAME: message", the usage line, exit 2. */
__attribute__((noreturn, format(printf, 2, 3))) void option_fail(const struct cli *cli, const char *format, ...);
/* "cubby: message" on standard error; returns EXIT_OURS. */
int cli_fail(const struct err *err);
/* Exits that way where code is a failure, which nothing has to be undone for. */
void cli_must(int code, const struct err *err);

/* ---- options of a box, shared by run, create and shell (boxopt.c) ---- */

struct box_options {
    const char *backend, *template_name, *net, *network, *shell;
    uint64_t memory_mb, pids, disk_mb, open_files, output_bytes;
    double cpus;
    struct row_texts mounts, env, secrets, allow;
    const char *agent, *machine; /* of create */
    const char *container_user, *runtime, *platform, *pull;
    bool read_only, image_init;
    const char *idle_timeout; /* of create: seconds */
    bool temporary;           /* of shell */
};
/* Whether only the daemon can make such a box: it has a network policy, which a gate enforces, or secrets. */
bool box_options_daemon(struct cli *cli, const struct box_options *options);
/* Its rows: the end of the table of a command whose values begin with a struct box_options. */
extern const struct row box_rows[];
#define BOX_OPTIONS OPTIONS_MORE(box_rows, "Options of a box:")

/* A network as an option names it, with hosts that --allow adds (may be NULL): a word, or a policy as JSON. NULL: none is
 * given. Exits 2 on a malformed one. */
const char *box_options_network(struct cli *cli, const char *network, const struct row_texts *allow);
struct mount;
/* "SRC:DST[:ro]" rows as mounts, sources made absolute. Exits 2 on a malformed one. */
const struct mount *box_options_mounts(struct cli *cli, const struct row_texts *list);
/* "K" rows completed from this process's environment; NULL-terminated, NULL when none. Exits 2 on a malformed one. */
const char **box_options_env(struct cli *cli, const struct row_texts *list);
/* The same as the member "env" of an open object; nothing where there are none. */
void box_options_env_json(struct cli *cli, const struct row_texts *list, struct json *json);
/* A directory for boxes, resolved: never "/", and the home directory only where home says so. Exits 2 on any other. */
const char *box_options_directory(struct cli *cli, const char *what, const char *given, bool home);
/* The request for a box of this process. Exits 2 on a malformed option. */
struct box_request;
void box_options_request(struct cli *cli, const struct box_options *options, struct box_request *ret_request);
/* Writes the members of a `POST /v1/boxes` body into an open object. */
void box_options_json(struct cli *cli, const struct box_options *options, struct json *json);

/* The words as one line for a shell that means them; NULL where there are none. */
const char *option_line(struct cli *cli, char **words);

/* ---- text for people (table.c) ---- */

struct table {
    struct arena *arena;
    unsigned columns;
    const char **cells; /* the heads are the first row */
    size_t count, cap;
};
void table_cell(struct table *table, const char *text); /* NULL is shown as "-" */
void table_print(const struct table *table, FILE *out);
/* A cell of a line whose columns are known: padded to width; shown: it is safe already. NULL is shown as "-" */
void table_pad(struct buf *line, const char *text, size_t width, bool shown);
size_t table_width(const char *text);                        /* characters, not bytes */
const char *table_size(struct arena *arena, uint64_t bytes); /* "4.0K", "1.2G" */

/* ---- the daemon (remote.c) ---- */

struct json_t;
struct http_client;
/* The client of CUBBY_URL with CUBBY_TOKEN, made at the first call. */
int remote_client(struct cli *cli, struct http_client **ret_client, struct err *err);
const char *remote_url(void);
/* One call whose answer is in out (may be NULL); a status beyond 2xx becomes an error with the daemon's sentence.
 * body may be NULL. */
int remote_call(struct cli *cli, const char *method, const char *path, const struct buf *body, struct buf *out,
                struct err *err);
/* Any call, through that client; the answer's body in out unless the call writes it, and a status beyond 2xx as an
 * error. */
struct http_call;
int remote_send(struct cli *cli, const struct http_call *call, struct buf *out, struct err *err);
/* For http_call.header: a note on standard error where the daemon says that it has started the box again. */
void remote_header(void *user, const char *name, const char *value);
/* The same, parsed; json_decref it. */
int remote_json(struct cli *cli, const char *method, const char *path, const struct buf *body, struct json_t **ret_json,
                struct err *err);
int remote_code(const char *name); /* "NOT_FOUND" as ERR_NOT_FOUND; ERR_INTERNAL when unknown */
/* An answer's status and body as an error. Returns 0 for 2xx. */
int remote_status(int status, const struct buf *body, struct err *err);
/* "/v1/boxes/ID/REST" with the id checked (exits 2 when it is not one) and, when path is not NULL, "?path=..." */
const char *remote_path(struct cli *cli, const char *id, const char *rest, const char *path);
const char *remote_encoded(struct cli *cli, const char *text); /* for a path or a query */
/* "ID:PATH" into its parts, true; false without a box id before a colon. */
bool remote_split(struct cli *cli, const char *word, const char **ret_id, const char **ret_path);
/* One line of JSON on standard output; on a terminal in ASCII, so that nothing in it can disturb it. */
void remote_print(const struct json_t *json);
/* A field that may be base64: bytes into out. False when it is not there or malformed. */
bool remote_bytes(const struct json_t *object, const char *key, struct buf *out);
/* A new box by POST /v1/boxes; its id in ret_id. */
int remote_create(struct cli *cli, const struct box_options *options, const char *user, const char *thread,
                  struct buf *ret_answer, char ret_id[17], struct err *err);
#define REMOTE_IDLE_SECONDS "60" /* of a box made for one command: after its connection has ended without us */
/* A command in that box, with our streams: its exit status. (exec.c) */
int exec_in_box(struct cli *cli, const char *id, char **argv, const char *user, const char *workdir, double timeout_s);
/* A command with a terminal in a box that is made for it: its exit status. (shell.c) */
int shell_in_new_box(struct cli *cli, const struct box_options *box, char **argv, const char *user,
                     const char *workdir);
/* How a command ended ({"exit_code":…,"signal":…,"timed_out":…}) as an exit status, with a note on standard error. */
int remote_exit(const struct json_t *exit);

/* ---- the commands, one file each ---- */

int command_run(struct cli *cli, int argc, char **argv);
int command_mcp(struct cli *cli, int argc, char **argv);
int command_mcp_server(struct cli *cli, int argc, char **argv);
int command_join(struct cli *cli, int argc, char **argv);
int command_exec(struct cli *cli, int argc, char **argv);
bool session_named(const char *name); /* it may be a session's, and part of a path */
int command_create(struct cli *cli, int argc, char **argv);
/* rest/commands.c: ps, pause, resume, start, session, snapshot, rollback, fork, diff */
int command_rest(struct cli *cli, int argc, char **argv);
int command_rm(struct cli *cli, int argc, char **argv);
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
int command_skill(struct cli *cli, int argc, char **argv);
int command_doctor(struct cli *cli, int argc, char **argv);
int command_tls(struct cli *cli, int argc, char **argv);
int command_template(struct cli *cli, int argc, char **argv);
int command_version(struct cli *cli, int argc, char **argv);
int command_completion(struct cli *cli, int argc, char **argv);
int command_help_command(struct cli *cli, int argc, char **argv);

extern const struct row run_options[], mcp_options[], mcp_server_options[], exec_options[], json_options[],
    create_options[], ps_options[], rm_options[], shell_options[], cp_options[], ls_options[], token_options[],
    secret_options[], audit_options[], network_options[], template_options[], events_options[], port_options[],
    tool_options[], fork_options[], diff_options[], skill_options[], join_options[], drain_options[], help_options[],
    tls_options[];

#endif
