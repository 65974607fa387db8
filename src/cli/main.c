/* `cubby`: the table of commands, and their dispatch. Invariant: nothing heavy happens before a command runs. */
#include <ctype.h>
#include <limits.h>

#include "base/base.h"
#include "cli/cli.h"
#include "http/client/client.h"

#define ANYWHERE UINT_MAX

const struct cli_command command_table[] = {
    {"run", "[OPTION…] [--] COMMAND [ARG…]", "run one command in a new box and remove the box; needs no daemon",
     "Makes a box, runs COMMAND in it, removes the box. Standard input is passed on when it is not a terminal; on\n"
     "a terminal the command gets a terminal. The exit status is the command's, 128+N when signal N ended it, 127\n"
     "when it was not found, 126 when it cannot be executed, 124 on timeout, 125 when cubby itself failed. A box\n"
     "with a network policy (--allow, --network) or secrets is made by the daemon, which has both.",
     command_run, run_options, 0},
    {"mcp", "[--workspace DIR] [OPTION…]",
     "serve the agent tools to an MCP host, in a box around a directory; needs no daemon",
     "Speaks the Model Context Protocol on standard input and output: an MCP host starts it. DIR, the current\n"
     "directory by default, is /workspace in a box that is made at the first call of a tool and ends with standard\n"
     "input; its tools reach nothing else of this machine. Without --net open the box has no network.",
     command_mcp, mcp_options, ANYWHERE},
    {"join", "--server URL --token-file FILE [--workspace DIR] [OPTION…]",
     "offer a directory of this machine as a box of a server elsewhere",
     "Connects out to the server (through proxies of the environment), and again whenever the connection is lost.\n"
     "Agents of the token's user then work in DIR, the current directory by default, at its own path, in boxes on\n"
     "this machine; they reach nothing else of it unless --isolation none is given. Ctrl-C ends it and its boxes.",
     command_join, join_options, ANYWHERE},
    {"mcp-server", "add [OPTION…] NAME [--] COMMAND [ARG…] | list | rm NAME…", "manage MCP servers that run in boxes",
     "The daemon starts COMMAND (an MCP server over standard input and output) in the box of the user who lists or\n"
     "calls its tools. They are offered as NAME__TOOL, next to the agent tools. A server that dies is restarted,\n"
     "and it ends with the box.",
     command_mcp_server, mcp_server_options, 2},
    {"exec", "[OPTION…] ID [--] COMMAND [ARG…] | ID -c STRING", "run a command in a box of the daemon",
     "The words are the command's arguments as they are; -c gives one string to the box's shell instead.", command_exec,
     exec_options, 1},
    {"session", "list [--json] ID | stop ID NAME… | rm ID NAME…",
     "manage shells of a box that persist between commands",
     "`cubby exec --session NAME` makes one and runs commands in it: directory, variables and background jobs are\n"
     "kept for the next. stop ends the running command, rm the shell and everything it started.",
     command_rest, json_options, ANYWHERE},
    {"create", "[OPTION…]", "make a box and print its ID",
     "With --thread, an existing box of this user and thread is used again; options that it was not made with\n"
     "are an error.",
     command_create, create_options, ANYWHERE},
    {"ps", "[-a] [--user U] [--json]", "list boxes", NULL, command_rest, ps_options, ANYWHERE},
    {"rm", "ID… | --all [--user U]", "end boxes and remove their files", NULL, command_rm, rm_options, ANYWHERE},
    {"pause", "ID…", "stop the processes of boxes, keeping their memory",
     "Until they are resumed or the boxes deleted; other calls to them are refused until then, or wake them\n"
     "(wake_paused).",
     command_rest, NULL, ANYWHERE},
    {"resume", "ID…", "resume paused boxes", "A box that stopped unexpectedly is started again, as by `cubby start`.",
     command_rest, NULL, ANYWHERE},
    {"start", "ID…", "start boxes whose processes have ended, on their files",
     "The processes of a box end when it is idle, and can stop unexpectedly; its files are kept either way. Most\n"
     "uses start it by themselves.",
     command_rest, NULL, ANYWHERE},
    {"network",
     "show ID | set ID FILE|JSON|none|open | allow|deny|rm ID ENTRY… | test ID HOST[:PORT] | log|learn ID | answer ID "
     "QUESTION allow|deny | ca",
     "show and change what a box may reach, also while it runs",
     "An ENTRY is NAME[:PORT], *.NAME, NETWORK:PORT or an object. A change has been applied when the command\n"
     "returns: nothing that it forbids is open then. test exits 1 for what would be refused; log shows what the box\n"
     "reached and tried, learn the smallest policy for that; answer is for policies of mode ask. ca prints the\n"
     "certificate of the authority that boxes with an inspected host trust.",
     command_network, network_options, ANYWHERE},
    {"snapshot", "create [--json] ID [NAME] | list [--json] ID | rm ID NAME…", "keep the files of a box under a name",
     "If nothing runs in the box this is a rename, whatever its size; otherwise its processes are paused while a copy\n"
     "is made. Without NAME, a name is made from the time, and printed.",
     command_rest, json_options, ANYWHERE},
    {"rollback", "[--json] ID NAME", "restore the files of a snapshot",
     "Ends the box's processes and discards its changes since the snapshot.", command_rest, json_options, ANYWHERE},
    {"fork", "[--snapshot NAME] [--user U] [--thread T] [--json] ID", "make a box with the files of another",
     "Uses the files of a snapshot, or the current ones. Prints the ID of the new box.", command_rest, fork_options,
     ANYWHERE},
    {"export", "[--json] ID", "turn a container box into one image of one layer",
     "The box continues from that image; its processes are ended. Prints the image's name, or that nothing has\n"
     "changed.",
     command_export, json_options, ANYWHERE},
    {"diff", "[--limit N] [--json] ID", "show what a box changed against its template",
     "For a removed directory only its own name is shown.", command_rest, diff_options, ANYWHERE},
    {"shell", "[OPTION…] [ID] [-- COMMAND [ARG…]]", "open a terminal in a box, or in a new one when no ID is given",
     "Without an ID a box is made and removed afterwards; the options of a box apply to that one. A command needs\n"
     "-- before it.",
     command_shell, shell_options, ANYWHERE},
    {"cp", "[-q] SRC DST", "copy a file or directory; one side is ID:PATH",
     "If DST is a directory, SRC is copied into it. Directories are sent as a tar stream.", command_cp, cp_options,
     ANYWHERE},
    {"cat", "ID:PATH…", "print files of a box", NULL, command_cat, NULL, ANYWHERE},
    {"ls", "[-l] [--json] ID[:PATH]", "list a directory of a box", NULL, command_ls, ls_options, ANYWHERE},
    {"template", "import NAME FILE|DIR | list [--json] | rm NAME…",
     "manage the root file systems that boxes are made from",
     "import makes one of a directory or a tar file (plain, or compressed by gzip, xz or zstd) on this machine.\n"
     "Asks the daemon; --state works on the files of a daemon on this machine instead.",
     command_template, template_options, ANYWHERE},
    {"token", "create [OPTION…] | list | revoke TOKEN-ID", "manage the tokens that the daemon accepts",
     "create prints the secret of a new token, once: on one line, or as JSON with its ID. --scope: admin may do\n"
     "everything, user all with boxes of --user, read look at them; --runner makes one for `cubby join`. revoke\n"
     "ends one at once, with what it has open. --state works on the daemon's files, as its user or root: for the\n"
     "first token of a daemon that demands tokens.",
     command_token, token_options, ANYWHERE},
    {"workers", "[--json]", "list the workers that have boxes of backend fleet",
     "A worker is a machine with `cubby join --worker`: it has boxes of all users of the daemon.", command_workers,
     json_options, ANYWHERE},
    {"drain", "[--off] WORKER…", "give a worker no new boxes",
     "Boxes that it has stay there and can be used. With --off it gets new ones again.", command_drain, drain_options,
     ANYWHERE},
    {"secret", "create|set|rotate NAME [OPTION…] | list [BOX] | rm NAME | bind|unbind BOX NAME[=VARIABLE]",
     "manage secrets that boxes use and never have",
     "A box finds a placeholder in a variable; requests to the hosts that the secret is for carry the value instead.\n"
     "The value comes by standard input. create refuses a name that is taken; set replaces the whole definition;\n"
     "rotate changes the value alone, and boxes keep their placeholders.",
     command_secret, secret_options, ANYWHERE},
    {"audit", "[OPTION…] | --verify", "show who did what to which box, when, and how it ended",
     "The newest rows of the daemon's audit log, also of boxes that are gone; --since shows all from a time on,\n"
     "--follow continues with new ones. A user's token sees that user's rows. With --verify the exit status is 1\n"
     "when a row was changed.",
     command_audit, audit_options, ANYWHERE},
    {"events", "[OPTION…]", "follow what happens to boxes",
     "One line for each event: created, ready, warm, paused, resumed, evicted, died, exported, deleted, adopted. A\n"
     "user's token sees that user's boxes.",
     command_events, events_options, ANYWHERE},
    {"port", "[--listen [HOST:]PORT | --browser] ID PORT",
     "print the address of a server in a box, or forward a local port to it",
     "Prints the address of the server that listens on PORT in the box, below the daemon's own. With --listen a\n"
     "port of this machine is forwarded to it until interrupted, whatever protocol it speaks; for a browser that\n"
     "is the better way: there the page has an origin of its own. So it has with --browser, which prints a URL with\n"
     "a host name of the box's own.",
     command_port, port_options, ANYWHERE},
    {"tool", "[--thread T | --box ID] [--json] [NAME [KEY=VALUE… | JSON]]",
     "call an agent tool as an agent would, or list the tools",
     "Prints the text that an agent would see; the exit status is 1 when it is an error. VALUE is a text, or JSON\n"
     "where the tool takes something else; @FILE and @- stand for what is in a file or on standard input.",
     command_tool, tool_options, ANYWHERE},
    {"skill", "upload|list|edit|rm|sync|publish|unpublish|install|uninstall|search [OPTION…] WORD…",
     "manage skills of users and their agents, and shared ones",
     "In a box, --box ID or that of --user for --agent:\n"
     "  upload DIR|ZIP…          add skills from a ZIP, or a directory as one; --base: for all users of the agent\n"
     "  list                     list the skills that the box has\n"
     "  edit SKILL/PATH [FILE]   replace a file by FILE or standard input; on a terminal in $EDITOR; --old "
     "and --new replace\n"
     "  rm SKILL…                remove skills; those of the agent are hidden, with --base removed\n"
     "  sync SKILL…              --from-base: overwrite the user's copy with the agent's version;\n"
     "                           --to-base: overwrite the agent's version with the user's copy\n"
     "  sync                     place the skills that every box gets again, and print the result\n"
     "Between users:\n"
     "  publish NAME             share a skill of a box; unpublish ENTRY… withdraws it\n"
     "  install ENTRY…           add one to a box; uninstall NAME… removes it there\n"
     "  search [TEXT]            find shared skills\n"
     "An ENTRY is a number, NAME or AUTHOR/NAME, perhaps with @VERSION.",
     command_skill, skill_options, ANYWHERE},
    {"tls", "[--domain NAME] [--days N] DIR", "make a local authority and a certificate for hosts of sandboxes",
     "For tests and laptops: writes ca.pem, ca.key, cert.pem and key.pem into DIR, and prints the lines for cubby.yaml\n"
     "and for clients. The certificate is for NAME, all hosts below it and this machine. An authority that is in\n"
     "DIR already signs again. Needs the program openssl.",
     command_tls, tls_options, ANYWHERE},
    {"doctor", "[--json]", "check what this machine lacks for boxes, and how to fix it",
     "The exit status is 1 when something is missing without which no jail can be made.", command_doctor, json_options,
     ANYWHERE},
    {"completion", "bash | zsh | fish | words [WORD…]", "print a completion script for a shell",
     "For bash: source <(cubby completion bash). words prints what may follow the WORDs, the last of which may be\n"
     "a part; the scripts ask it.",
     command_completion, NULL, 1},
    {"version", "[--json]", "print the version of cubby and of the daemon", NULL, command_version, json_options,
     ANYWHERE},
    {"help", "[COMMAND]", "print this list, or the help of one command", NULL, command_help_command, help_options,
     ANYWHERE},
    {.name = NULL},
};

static int main_dispatch(struct cli *cli, int argc, char **argv);
static int main_unknown(const char *name);

int main(int argc, char **argv) {
    /* If 0, 1 or 2 is closed, the next opened file would get that number, and output would go into it. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_OURS);
    signal(SIGPIPE, SIG_IGN);
    struct cli cli = {0};
    arena_init(&cli.arena);
    int status = main_dispatch(&cli, argc, argv);
    if (cli.client)
        http_client_free(cli.client);
    arena_done(&cli.arena);
    /* Output that could not be written is a failure, even if the command succeeded. */
    if (fflush(stdout) != 0 && status == 0)
        status = EXIT_OURS;
    return status;
}

static int main_dispatch(struct cli *cli, int argc, char **argv) {
    if (argc < 2) {
        command_list(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    cli->command = command_find(name);
    if (!cli->command)
        return main_unknown(name);
    return cli->command->run(cli, argc - 2, argv + 2);
}

const struct cli_command *command_find(const char *name) {
    for (const struct cli_command *command = command_table; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

bool command_verb(const char *word, const char *name) {
    static const char *const synonyms[][3] = {{"ls", "list"}, {"rm", "remove", "revoke"}};
    bool same = strcmp(word, name) == 0;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        bool has[2] = {false};
        for (size_t k = 0; k < 3 && synonyms[i][k]; k++) {
            has[0] = has[0] || strcmp(word, synonyms[i][k]) == 0;
            has[1] = has[1] || strcmp(name, synonyms[i][k]) == 0;
        }
        same = same || (has[0] && has[1]);
    }
    return same;
}

void command_list(FILE *out) {
    fprintf(out, "usage: cubby COMMAND …\n\n");
    for (const struct cli_command *command = command_table; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fprintf(out,
            "\nThe daemon is CUBBY_URL (default %s), its token CUBBY_TOKEN.\n"
            "`cubby help COMMAND` describes one.\n",
            "http://127.0.0.1:7070");
}

/* Prints the rows of all commands for cubby(1); tools/manual puts them there. */
static void main_manual(FILE *out) {
    for (const struct cli_command *command = command_table; command->name; command++) {
        fprintf(out, ".It Nm Cm %s No ", command->name);
        for (const char *at = command->usage; *at; at++)
            fprintf(out, at[0] == '|' && at[1] != ' ' ? "|\\:" : "%c", *at); /* allows a line break */
        fprintf(out, "\n%c%s.\n", toupper(command->summary[0]), command->summary + 1);
        if (!command->options)
            continue;
        const struct row *row = command->options;
        fprintf(out, ".Bl -tag -width Ds -compact\n");
        rows_manual(command->options, out);
        fprintf(out, ".El\n");
        while (row->name)
            row++;
        if (row->fields)
            fprintf(out, "The options of a box, below, apply too.\n");
    }
    fprintf(out, ".It Options of a box\n.Bl -tag -width Ds -compact\n");
    rows_manual(box_rows, out);
    fprintf(out, ".El\n");
}

const struct row help_options[] = {
    {.name = "manual", .type = ROW_BOOL, .text = "print the options of all commands as a part of cubby(1)"},
    {.name = NULL},
};

int command_help_command(struct cli *cli, int argc, char **argv) {
    bool manual = false; /* help_options */
    argc = option_parse(cli, argc, argv, &manual);
    if (argc > 1)
        option_fail(cli, "one command at a time");
    const struct cli_command *command = argc ? command_find(argv[0]) : NULL;
    if (argc && !command)
        return main_unknown(argv[0]);
    if (command)
        command_help(command, stdout);
    else
        (manual ? main_manual : command_list)(stdout);
    return 0;
}

/* Edit distance of two short words, for "did you mean". */
static unsigned main_distance(const char *a, const char *b) {
    unsigned row[32];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > 31 || b_len > 31)
        return UINT_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < gap ? change : gap;
        }
    }
    return row[b_len];
}

static int main_unknown(const char *name) {
    const char *best = NULL;
    unsigned best_distance = 3;
    for (const struct cli_command *command = command_table; command->name; command++) {
        unsigned distance = main_distance(name, command->name);
        if (distance < best_distance && distance < strlen(command->name)) {
            best = command->name;
            best_distance = distance;
        }
    }
    autobuf shown = buf_max(1024);
    text_shown(&shown, name, strnlen(name, 200));
    const char *text = buf_cstr(&shown);
    fprintf(stderr, "cubby: unknown command '%s'", text ? text : "");
    if (best)
        fprintf(stderr, "; did you mean '%s'?\n", best);
    else
        fprintf(stderr, "; `cubby help` lists them\n");
    return EXIT_USAGE;
}

/* The daemon's error texts name requests of its API. This makes commands of them: "POST /v1/boxes/ID/resume" becomes
 * "`cubby resume ID`" if there is such a command. */
static const char *main_commands(struct arena *arena, const char *text) {
    static const char route[] = "POST /v1/boxes/", letters[] = "abcdefghijklmnopqrstuvwxyz";
    const char *at = strstr(text, route), *id = at ? at + strlen(route) : "";
    size_t id_len = strspn(id, "0123456789abcdef");
    size_t verb_len = id_len && id[id_len] == '/' ? strspn(id + id_len + 1, letters) : 0;
    const char *verb = arena_copy(arena, id + (verb_len ? id_len + 1 : 0), verb_len);
    if (!verb_len || !command_find(verb))
        return text;
    return arena_printf(arena, "%.*s`cubby %s %.*s`%s", (int)(at - text), text, verb, (int)id_len, id,
                        id + id_len + 1 + verb_len);
}

void cli_must(int code, const struct err *err) {
    if (code < 0)
        exit(cli_fail(err));
}

int cli_fail(const struct err *err) {
    autobuf shown = buf_max(8192);
    autoarena arena = ARENA_EMPTY;
    const char *said = main_commands(&arena, err->text);
    text_shown(&shown, said, strlen(said));
    const char *text = buf_cstr(&shown);
    fprintf(stderr, "cubby: %s\n", text ? text : "failed");
    return EXIT_OURS;
}
