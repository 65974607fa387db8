/* `cubby`: the table of commands and the way into one. Not to break: nothing heavy happens before a command runs. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "http/client.h"

#define ANYWHERE UINT_MAX

const struct command command_table[] = {
    {"run", "[OPTION…] [--] COMMAND [ARG…]", "one box, one command, gone; needs no daemon",
     "Makes a box, runs COMMAND in it, removes the box. Standard input is passed on when it is not a terminal; on a\n"
     "terminal the command gets a terminal. The exit status is the command's, 128+N when signal N ended it, 127 when\n"
     "it was not found, 126 when it cannot be executed, 124 on time-out, 125 when cubby itself failed.",
     command_run, run_options, 0},
    {"mcp", "[--workspace DIR] [OPTION…]", "agent tools for an MCP host, in a box around a directory; needs no daemon",
     "Speaks the Model Context Protocol on standard input and output: an MCP host starts it. DIR, the current directory by\n"
     "default, is /workspace in a box that is made at the first call of a tool and ends with standard input; its tools\n"
     "reach nothing else of this machine. Without --net open the box has no network.",
     command_mcp, mcp_options, ANYWHERE},
    {"join", "--server URL --token-file FILE [--workspace DIR] [OPTION…]",
     "a directory of this machine becomes a box of a server elsewhere",
     "Connects out to the server (through proxies of the environment), and again whenever the connection is lost. Agents of\n"
     "the token's user then work in DIR, the current directory by default, at its own path, in boxes on this machine; they\n"
     "reach nothing else of it unless --isolation none is said. Ctrl-C ends it and its boxes.",
     command_join, join_options, ANYWHERE},
    {"mcp-server", "add [OPTION…] NAME [--] COMMAND [ARG…] | list | rm NAME…", "MCP servers that run in boxes",
     "The daemon starts COMMAND (an MCP server over standard input and output) in the box of whoever lists or calls its\n"
     "tools, which are offered as NAME__TOOL beside the agent tools; it is started again when it dies, and ends with the box.",
     command_mcp_server, mcp_server_options, 2},
    {"exec", "[OPTION…] ID [--] COMMAND [ARG…] | ID -c STRING", "run a command in a box of the daemon",
     "The words are the command's arguments as they are; -c gives one string to the box's shell instead.", command_exec,
     exec_options, 1},
    {"session", "ls [--json] ID | stop ID NAME… | rm ID NAME…", "shells of a box that live on from command to command",
     "`cubby exec --session NAME` makes one and runs commands in it: directory, variables and background jobs stay for the\n"
     "next. stop ends the command that runs, rm the shell with all it started.",
     command_session, session_options, ANYWHERE},
    {"create", "[OPTION…]", "make a box and print its id",
     "With --thread, the box that this user and thread already have is found again; options it was made without are an error.",
     command_create, create_options, ANYWHERE},
    {"ps", "[-a] [--user U] [--json]", "list boxes", NULL, command_ps, ps_options, ANYWHERE},
    {"rm", "ID… | --all [--user U]", "end boxes and remove their files", NULL, command_rm, rm_options, ANYWHERE},
    {"pause", "ID…", "the processes of boxes stand still, with their memory",
     "Until they are resumed or the boxes deleted; other calls to them are refused meanwhile, or wake them (wake_paused).",
     command_pause, NULL, ANYWHERE},
    {"resume", "ID…", "they go on where they were",
     "A box that stopped unexpectedly is started again, as by `cubby start`.", command_resume, NULL, ANYWHERE},
    {"start", "ID…", "start boxes whose processes have ended, on their files",
     "The processes of a box end when it is idle, and can stop unexpectedly; its files are kept either way. Most uses start\n"
     "it by themselves.",
     command_start, NULL, ANYWHERE},
    {"snapshot", "create [--json] ID [NAME] | list [--json] ID | rm ID NAME…", "keep the files of a box under a name",
     "A box that runs nothing costs a rename, whatever it holds; one that does goes on after a copy was made. Without a\n"
     "NAME one is made from the time, and printed.",
     command_snapshot, snapshot_options, ANYWHERE},
    {"rollback", "[--json] ID NAME", "put the files of a snapshot back",
     "What runs in the box is ended; what it wrote since then is gone.", command_rollback, rollback_options, ANYWHERE},
    {"fork", "[--snapshot NAME] [--user U] [--thread T] [--json] ID", "make a box with the files of another",
     "Those of a snapshot, or as they are now. Prints the new box's id.", command_fork, fork_options, ANYWHERE},
    {"export", "[--json] ID", "make a container box one image of one layer",
     "The box goes on from that image; what runs in it is ended. Prints the image's name, or that nothing has changed.",
     command_export, export_options, ANYWHERE},
    {"diff", "[--limit N] [--json] ID", "what a box changed against its template",
     "Of a removed directory only its own name is shown.", command_diff, diff_options, ANYWHERE},
    {"shell", "[OPTION…] [ID] [-- COMMAND]", "a terminal in a box; with no ID in one made for it",
     "With no ID a box is made and removed afterwards; the options of a box hold for that one.", command_shell,
     shell_options, ANYWHERE},
    {"cp", "[-q] SRC DST", "copy a file or directory; one side is ID:PATH",
     "A DST that is a directory receives SRC inside it. Directories go as a tar stream, files as they are.", command_cp,
     cp_options, ANYWHERE},
    {"cat", "ID:PATH…", "a file's bytes", NULL, command_cat, NULL, ANYWHERE},
    {"ls", "[-l] [--json] ID[:PATH]", "list a directory of a box", NULL, command_ls, ls_options, ANYWHERE},
    {"template", "import NAME FILE|DIR | list [--json] | remove NAME",
     "roots for boxes, from a directory or a tar file", "Templates lie in the daemon's state directory (--state).",
     command_template, template_options, ANYWHERE},
    {"token", "create [OPTION…] | list | revoke ID", "who may ask the daemon",
     "create prints the secret of a new token, once: on one line, or as JSON with its id. --scope: admin may do everything,\n"
     "user all with boxes of --user, read look at them; --runner makes one for `cubby join`. revoke ends one at once, with\n"
     "what it has open. --state works on the daemon's files, as its user or root: for the first token of a daemon that\n"
     "demands tokens.",
     command_token, token_options, ANYWHERE},
    {"audit", "[OPTION…] | --verify", "who did what to which box, when, and how it went",
     "The newest rows of the daemon's audit log, also of boxes that are gone; --since shows all from a time on, --follow\n"
     "goes on. A user's token sees that user's rows. With --verify the exit status is 1 when a row was changed.",
     command_audit, audit_options, ANYWHERE},
    {"events", "[OPTION…]", "what happens to boxes, as it happens",
     "A line an event: created, ready, warm, paused, resumed, evicted, died, exported, deleted, adopted. A user's token sees that\n"
     "user's boxes.",
     command_events, events_options, ANYWHERE},
    {"port", "[--listen [HOST:]PORT] ID PORT", "a server in a box: its address, or a local port that leads to it",
     "Prints the address of the server that listens on PORT in the box, below the daemon's own. With --listen a port of\n"
     "this machine is forwarded to it until interrupted, whatever protocol it speaks; a browser should take that way:\n"
     "there the page has an origin of its own.",
     command_port, port_options, ANYWHERE},
    {"tool", "[--thread T | --box ID] [--json] [NAME [KEY=VALUE… | JSON]]",
     "call an agent tool as an agent would, or list them",
     "Prints the text that an agent would see; the exit status is 1 when it is an error. VALUE is a text, or JSON where the\n"
     "tool takes something else; @FILE and @- stand for what is in a file or on standard input.",
     command_tool, tool_options, ANYWHERE},
    {"skill", "ACTION [OPTION…] WORD…", "skills of users and their agents, and those that users share",
     "In a box, --box ID or that of --user for --agent:\n"
     "  upload DIR|ZIP…          skills out of a ZIP, or a directory as one; --base: for all users of the agent\n"
     "  list                     what the box has to offer\n"
     "  edit SKILL/PATH [FILE]   a file becomes FILE or standard input; on a terminal in $EDITOR; --old and --new replace\n"
     "  rm SKILL…                remove; of the agent's own skills it hides them, with --base they go\n"
     "  sync SKILL…              --from-base: the user's copy becomes the agent's; --to-base: the other way\n"
     "  sync                     place those that every box gets anew, and tell what came of it\n"
     "Between users:\n"
     "  publish NAME             share it from a box; unpublish ENTRY… takes it back\n"
     "  install ENTRY…           into a box; uninstall NAME… removes it there\n"
     "  search [TEXT]            what there is\n"
     "An ENTRY is a number, NAME or AUTHOR/NAME, perhaps with @VERSION.",
     command_skill, skill_options, ANYWHERE},
    {"doctor", "[--json]", "what this machine lacks for boxes, and the fix",
     "The exit status is 1 when something is missing without which no jail can be made.", command_doctor,
     doctor_options, ANYWHERE},
    {"version", "[--json]", "the version of cubby and of the daemon", NULL, command_version, version_options, ANYWHERE},
    {"help", "[COMMAND]", "this list, or all about one command", NULL, command_help_command, NULL, ANYWHERE},
    {.name = NULL},
};

static int main_dispatch(struct cli *cli, int argc, char **argv);
static int main_unknown(const char *name);
static void main_standard_descriptors(void);

int main(int argc, char **argv) {
    main_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    struct cli cli = {0};
    arena_init(&cli.arena);
    int status = main_dispatch(&cli, argc, argv);
    if (cli.client)
        http_client_free(cli.client);
    arena_done(&cli.arena);
    /* A result that never reached its reader is a failure, whatever the command thought. */
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

const struct command *command_find(const char *name) {
    for (const struct command *command = command_table; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

void command_list(FILE *out) {
    fprintf(out, "usage: cubby COMMAND …\n\n");
    for (const struct command *command = command_table; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fprintf(out,
            "\nThe daemon is CUBBY_URL (default %s), its token CUBBY_TOKEN.\n"
            "`cubby help COMMAND` tells all about one.\n",
            "http://127.0.0.1:7070");
}

int command_help_command(struct cli *cli, int argc, char **argv) {
    argc = option_parse(cli, argc, argv, NULL);
    if (argc == 0) {
        command_list(stdout);
        return 0;
    }
    if (argc > 1)
        option_fail(cli, "one command at a time");
    const struct command *command = command_find(argv[0]);
    if (!command)
        return main_unknown(argv[0]);
    command_help(command, stdout);
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
    for (const struct command *command = command_table; command->name; command++) {
        unsigned distance = main_distance(name, command->name);
        if (distance < best_distance && distance < strlen(command->name)) {
            best = command->name;
            best_distance = distance;
        }
    }
    autobuf shown;
    buf_init(&shown, 1024);
    text_shown(&shown, name, strnlen(name, 200));
    const char *text = buf_cstr(&shown);
    fprintf(stderr, "cubby: there is no command '%s'", text ? text : "");
    if (best)
        fprintf(stderr, "; did you mean '%s'?\n", best);
    else
        fprintf(stderr, "; `cubby help` lists them\n");
    return EXIT_USAGE;
}

/* A missing 0, 1 or 2 would be taken by the next file opened, and output would go into it. */
static void main_standard_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_OURS);
}
