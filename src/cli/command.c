/* The table of commands: the help, the manual, completion and dispatch all come from it. */
#include <limits.h>

#include "cli/cli.h"

#define ANYWHERE UINT_MAX

const struct cli_command command_table[] = {
    {"create", "[OPTION…]", "make a box and print its ID",
     "With --thread, an existing box of this user and thread is used again; options that it was not made with\n"
     "are an error.",
     command_create, create_options, ANYWHERE, .group = "Boxes",
     .examples = "cubby create --thread work --memory 1024\n"
                 "cubby create --allow pypi.org --idle-timeout 3600"},
    {"ps", "[OPTION…]", "list boxes",
     "FILTER is state=, user=, thread=, label=K=V, backend=, machine=, template= or agent=; several must all fit.",
     command_ps, ps_options, ANYWHERE, .alias = "list",
     .examples = "cubby ps --filter state=ready --sort memory\n"
                 "cubby ps -w\n"
                 "cubby rm $(cubby ps -q --filter label=team=x)"},
    {"inspect", "[--query FIELD] [--json] ID…", "show everything about boxes",
     "Properties, usage, processes, sessions and snapshots on one page. FIELD is the path of one member, such as\n"
     "usage.memory_bytes. Looking does not start a box.",
     command_inspect, inspect_options, ANYWHERE, .alias = "describe",
     .examples = "cubby inspect @work\n"
                 "cubby inspect 3f2a --query usage.memory_bytes"},
    {"top", "[-n N] [--interval S] [--sort COLUMN] [--json] [ID]",
     "show what boxes, or the processes of one, use right now",
     "On a terminal the table is live: q ends it, and c, m, p, a and i sort by processor, memory, processes, age and ID.\n"
     "Otherwise it is printed once.",
     command_top, top_options, ANYWHERE, .alias = "stats|metrics",
     .examples = "cubby top\n"
                 "cubby top @work\n"
                 "cubby top -n 1 --json"},
    {"start", "ID…", "start boxes whose processes have ended, on their files",
     "The processes of a box end when it is idle, and can stop unexpectedly; its files are kept either way. Most\n"
     "uses start it by themselves.",
     command_rest, NULL, ANYWHERE, .examples = "cubby start @work"},
    {"release", "ID…", "mark boxes as unused for now",
     "A released box is warm: it keeps its processes and files, is stopped before others when space is needed, and is\n"
     "ready again when it is used.",
     command_rest, NULL, ANYWHERE, .examples = "cubby release @work"},
    {"pause", "ID…", "stop the processes of boxes, keeping their memory",
     "Until they are resumed or the boxes deleted; other calls to them are refused until then, or wake them\n"
     "(wake_paused).",
     command_rest, NULL, ANYWHERE, .alias = "stop|suspend", .examples = "cubby pause 3f2a 77b0"},
    {"resume", "ID…", "resume paused boxes", "A box that stopped unexpectedly is started again, as by `cubby start`.",
     command_rest, NULL, ANYWHERE, .alias = "unpause", .examples = "cubby resume @work"},
    {"rm", "ID… | ID:PATH… | --all [--user U]", "remove boxes with their files, or files of boxes",
     "On a terminal it asks before it removes more than one box; -y answers yes. A directory needs -r.", command_rm,
     rm_options, ANYWHERE, .alias = "delete|remove",
     .examples = "cubby rm @work\n"
                 "cubby rm -r @work:build\n"
                 "cubby rm --all --user ann -y"},
    {"watch", "[--json] ID[:PATH]", "follow files, background commands and events of one box",
     "One line for each change below PATH (default: the workspace), each command that starts or ends, and each event.",
     command_watch, json_options, ANYWHERE, .alias = "follow", .examples = "cubby watch @work:src"},
    {"network",
     "show ID | set ID FILE|JSON|none|open | allow|deny|rm ID ENTRY… | test ID HOST[:PORT] | log|learn ID | answer ID "
     "QUESTION allow|deny | ca",
     "show and change what a box may reach, also while it runs",
     "An ENTRY is NAME[:PORT], *.NAME, NETWORK:PORT or an object. A change has been applied when the command\n"
     "returns: nothing that it forbids is open then. test exits 1 for what would be refused; log shows what the box\n"
     "reached and tried, learn the smallest policy for that; answer is for policies of mode ask. ca prints the\n"
     "certificate of the authority that boxes with an inspected host trust.",
     command_network, network_options, ANYWHERE, .alias = "net",
     .examples = "cubby network allow @work pypi.org:443\n"
                 "cubby network log @work"},
    {"port", "[--listen [HOST:]PORT | --browser] ID PORT",
     "print the address of a server in a box, or forward a local port to it",
     "Prints the address of the server that listens on PORT in the box, below the daemon's own. With --listen a\n"
     "port of this machine is forwarded to it until interrupted, whatever protocol it speaks; for a browser that\n"
     "is the better way: there the page has an origin of its own. So it has with --browser, which prints a URL with\n"
     "a host name of the box's own.",
     command_port, port_options, ANYWHERE,
     .examples = "cubby port @work 8000\n"
                 "cubby port --listen 8000 @work 8000"},
    {"run", "[OPTION…] [--] COMMAND [ARG…]", "run one command in a new box and remove the box; needs no daemon",
     "Makes a box, runs COMMAND in it, removes the box. Standard input is passed on when it is not a terminal; on\n"
     "a terminal the command gets a terminal. The exit status is the command's, 128+N when signal N ended it, 127\n"
     "when it was not found, 126 when it cannot be executed, 124 on timeout, 125 when cubby itself failed. A box\n"
     "with a network policy (--allow, --network) or secrets is made by the daemon, which has both.",
     command_run, run_options, 0, .group = "Commands in boxes",
     .examples = "cubby run -- python3 -c \"print(1)\"\n"
                 "cubby run --mount .:/workspace --net open -- make test",
     .passes_status = true},
    {"exec", "[OPTION…] ID [--] COMMAND [ARG…] | ID -c STRING", "run a command in a box of the daemon",
     "The words are the command's arguments as they are; -c gives one string to the box's shell instead.", command_exec,
     exec_options, 1,
     .examples = "cubby exec @work -- ls -l\n"
                 "cubby exec -it @work bash\n"
                 "cubby exec -d @work -c \"make test\"",
     .passes_status = true},
    {"shell", "[OPTION…] [ID] [-- COMMAND [ARG…]]", "open a terminal in a box, or in a new one when no ID is given",
     "Without an ID a box is made and removed afterwards; the options of a box apply to that one. A command needs\n"
     "-- before it.",
     command_shell, shell_options, ANYWHERE, .alias = "attach|ssh",
     .examples = "cubby shell @work\n"
                 "cubby shell --template debian -- python3",
     .passes_status = true},
    {"session", "list [--json] ID | stop ID NAME… | rm ID NAME…",
     "manage shells of a box that persist between commands",
     "`cubby exec --session NAME` makes one and runs commands in it: directory, variables and background jobs are\n"
     "kept for the next. stop ends the running command, rm the shell and everything it started.",
     command_rest, json_options, ANYWHERE, .alias = "sessions",
     .examples = "cubby exec -s build @work -c \"cd src\"\n"
                 "cubby session list @work"},
    {"logs", "[OPTION…] ID [PID|SESSION]", "print the output of background commands of a box",
     "Without PID those of all that `cubby exec -d` has started, each line with its pid; SESSION is a name from\n"
     "`cubby session list`. The daemon keeps the last output of a command (output_bytes).",
     command_logs, logs_options, ANYWHERE, .alias = "log",
     .examples = "cubby logs -f @work\n"
                 "cubby logs --tail 20 @work 17"},
    {"wait", "[--json] ID PID…", "wait until background commands of a box end",
     "The exit status is that of the last one.", command_wait, json_options, ANYWHERE,
     .examples = "cubby wait @work 17", .passes_status = true},
    {"kill", "[-s SIGNAL] ID PID…", "send a signal to background commands of a box",
     "To the whole process group. `cubby pause ID` stops all of a box.", command_kill, kill_options, ANYWHERE,
     .examples = "cubby kill -s INT @work 17"},
    {"stdin", "[--eof] ID PID|SESSION", "send standard input to a background command of a box", NULL, command_stdin,
     stdin_options, ANYWHERE, .examples = "echo yes | cubby stdin --eof @work 17"},
    {"cp", "[-q] SRC DST", "copy a file or directory; one side is ID:PATH",
     "If DST is a directory, SRC is copied into it. Directories are sent as a tar stream.", command_cp, cp_options,
     ANYWHERE, .group = "Files",
     .examples = "cubby cp report.pdf @work:\n"
                 "cubby cp @work:out/ .\n"
                 "tar c src | cubby cp - @work:src.tar"},
    {"sync", "[OPTION…] DIR ID[:PATH]", "copy what changed in a local directory to a box",
     "Compares sizes and times and sends only what differs; PATH is the workspace by default. With --watch it\n"
     "continues to send changes until interrupted. Files that exist only in the box stay unless --delete is given.",
     command_sync, sync_options, ANYWHERE,
     .examples = "cubby sync . @work\n"
                 "cubby sync --watch --delete src @work:src"},
    {"ls", "[-l] [--json] ID[:PATH]", "list a directory of a box", NULL, command_ls, ls_options, ANYWHERE,
     .examples = "cubby ls -l @work:src"},
    {"cat", "ID:PATH…", "print files of a box", NULL, command_cat, NULL, ANYWHERE,
     .examples = "cubby cat @work:notes.md"},
    {"edit", "ID:PATH", "edit a file of a box in your editor",
     "With $VISUAL or $EDITOR. The file is written only if it has not been changed in the meantime; otherwise your\n"
     "version is kept on this machine, and its name printed.",
     command_edit, NULL, ANYWHERE, .examples = "cubby edit @work:notes.md"},
    {"mkdir", "[-p] ID:PATH…", "make directories in a box", NULL, command_paths, mkdir_options, ANYWHERE,
     .examples = "cubby mkdir -p @work:a/b"},
    {"mv", "[-f] ID:PATH ID:PATH", "rename or move a file or directory within a box", NULL, command_paths, mv_options,
     ANYWHERE, .examples = "cubby mv @work:a @work:b"},
    {"stat", "[--json] ID:PATH…", "show type, mode, owner, size and time of files of a box", NULL, command_paths,
     json_options, ANYWHERE, .examples = "cubby stat @work:notes.md"},
    {"find", "[OPTION…] ID[:PATH] [PATTERN]", "list paths of a box that match a pattern",
     "In PATTERN, * is any part of a name and ** any number of directories; the default is **. `.gitignore` is not\n"
     "respected.",
     command_search_find, find_options, ANYWHERE, .alias = "glob", .examples = "cubby find @work \"**/*.py\""},
    {"grep", "[OPTION…] PATTERN ID[:PATH]", "search the files of a box for lines that match",
     "PATTERN is a regular expression. The exit status is 1 when no line matches.", command_search_grep, grep_options,
     ANYWHERE, .examples = "cubby grep -i todo @work:src"},
    {"snapshot", "create [--json] ID [NAME] | list [--json] ID | rm ID NAME…", "keep the files of a box under a name",
     "If nothing runs in the box this is a rename, whatever its size; otherwise its processes are paused while a copy\n"
     "is made. Without NAME, a name is made from the time, and printed.",
     command_rest, json_options, ANYWHERE, .group = "History", .alias = "commit|checkpoint",
     .examples = "cubby snapshot create @work before\n"
                 "cubby snapshot list @work"},
    {"rollback", "[--json] ID NAME", "restore the files of a snapshot",
     "Ends the box's processes and discards its changes since the snapshot.", command_rest, json_options, ANYWHERE,
     .examples = "cubby rollback @work before"},
    {"fork", "[--snapshot NAME] [--user U] [--thread T] [--json] ID", "make a box with the files of another",
     "Uses the files of a snapshot, or the current ones. Prints the ID of the new box.", command_rest, fork_options,
     ANYWHERE, .alias = "clone", .examples = "cubby fork --snapshot before @work"},
    {"diff", "[--limit N] [--json] ID", "show what a box changed against its template",
     "For a removed directory only its own name is shown.", command_rest, diff_options, ANYWHERE,
     .examples = "cubby diff @work"},
    {"export", "[--json] ID", "turn a container box into one image of one layer",
     "The box continues from that image; its processes are ended. Prints the image's name, or that nothing has\n"
     "changed.",
     command_export, json_options, ANYWHERE, .examples = "cubby export @work"},
    {"events", "[OPTION…]", "follow what happens to boxes",
     "One line for each event: created, ready, warm, paused, resumed, evicted, died, exported, deleted, adopted. A\n"
     "user's token sees that user's boxes.",
     command_events, events_options, ANYWHERE, .examples = "cubby events --type died,evicted"},
    {"audit", "[OPTION…] | --verify", "show who did what to which box, when, and how it ended",
     "The newest rows of the daemon's audit log, also of boxes that are gone; --since shows all from a time on,\n"
     "--follow continues with new ones. A user's token sees that user's rows. With --verify the exit status is 1\n"
     "when a row was changed.",
     command_audit, audit_options, ANYWHERE,
     .examples = "cubby audit --box @work --since 1h\n"
                 "cubby audit -f --outcome error"},
    {"mcp", "[--workspace DIR] [OPTION…]",
     "serve the agent tools to an MCP host, in a box around a directory; needs no daemon",
     "Speaks the Model Context Protocol on standard input and output: an MCP host starts it. DIR, the current\n"
     "directory by default, is /workspace in a box that is made at the first call of a tool and ends with standard\n"
     "input; its tools reach nothing else of this machine. Without --net open the box has no network.",
     command_mcp, mcp_options, ANYWHERE, .group = "Agents",
     .examples = "cubby mcp --workspace ~/project\n"
                 "claude mcp add cubby -- cubby mcp",
     .passes_status = true},
    {"mcp-server", "add [OPTION…] NAME [--] COMMAND [ARG…] | list | rm NAME…", "manage MCP servers that run in boxes",
     "The daemon starts COMMAND (an MCP server over standard input and output) in the box of the user who lists or\n"
     "calls its tools. They are offered as NAME__TOOL, next to the agent tools. A server that dies is restarted,\n"
     "and it ends with the box.",
     command_mcp_server, mcp_server_options, 2, .examples = "cubby mcp-server add notes -- npx notes-server"},
    {"tool", "[--thread T | --box ID] [--json] [NAME [KEY=VALUE… | JSON]]",
     "call an agent tool as an agent would, or list the tools",
     "Prints the text that an agent would see; the exit status is 1 when it is an error. VALUE is a text, or JSON\n"
     "where the tool takes something else; @FILE and @- stand for what is in a file or on standard input.",
     command_tool, tool_options, ANYWHERE, .alias = "tools",
     .examples = "cubby tool bash command=\"ls -l\" --thread work"},
    {"bang", "[--thread T] [--user USER] [--output FILE] [--json] [!]TEXT…",
     "run a chat's bang command in its box: !ls -la, !cd DIR, !get FILE, !!",
     "Runs what a person typed in a chat, as POST /v1/threads/THREAD/bang does, and prints the answer for the chat.\n"
     "Long output is written to a file in the box; --output saves that file, or the one of !get, here. The exit\n"
     "status is that of the command.",
     command_bang, bang_options, ANYWHERE, .passes_status = true,
     .examples = "cubby bang --thread chat-7 '!ls -la'\n"
                 "cubby bang --thread chat-7 -o report.pdf '!get report.pdf'"},
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
     command_skill, skill_options, ANYWHERE, .alias = "skills", .examples = "cubby skill list --box @work"},
    {"join", "--server URL --token-file FILE [--workspace DIR] [OPTION…]",
     "offer a directory of this machine as a box of a server elsewhere",
     "Connects out to the server (through proxies of the environment), and again whenever the connection is lost.\n"
     "Agents of the token's user then work in DIR, the current directory by default, at its own path, in boxes on\n"
     "this machine; they reach nothing else of it unless --isolation none is given. Ctrl-C ends it and its boxes.",
     command_join, join_options, ANYWHERE, .group = "Machines",
     .examples = "cubby join --server https://cubby.example --token-file ~/.cubby-token", .passes_status = true},
    {"machine", "list [--json] | rm [--user U] NAME…", "manage machines that joined",
     "A machine joins with `cubby join`. rm forgets one, with what it has open.", command_machine, machine_options,
     ANYWHERE, .alias = "machines", .examples = "cubby machine list"},
    {"workers", "[--json]", "list the workers that have boxes of backend fleet",
     "A worker is a machine with `cubby join --worker`: it has boxes of all users of the daemon.", command_workers,
     json_options, ANYWHERE, .alias = "worker", .examples = "cubby workers"},
    {"drain", "[--off] WORKER…", "give a worker no new boxes, and move those that it has",
     "Boxes in which nothing runs move to other workers; those in use stay until they are idle. With --off it gets\n"
     "new ones again.",
     command_drain, drain_options, ANYWHERE, .examples = "cubby drain worker1"},
    {"move", "[--stop] ID [WORKER]", "move a box to another worker",
     "With its files and snapshots, to the named worker or the emptiest one, whose name is printed. Nothing may run in\n"
     "the box; --stop ends it. The next use starts the box there.",
     command_move, move_options, ANYWHERE, .examples = "cubby move 1f0c worker2"},
    {"up", "[--open] [--state DIR] [-- OPTION…]", "start a daemon on this machine unless one answers, and log in",
     "Checks this machine, starts cubbyd (as a system or user service where systemd runs, otherwise in the background),\n"
     "waits until it answers, makes a token if it requires one, and prints what to do next. OPTIONs are for cubbyd.",
     command_up, up_options, ANYWHERE, .group = "Daemon",
     .examples = "cubby up\n"
                 "cubby up --open"},
    {"down", "[--boxes] [-y]", "stop the daemon that `cubby up` has started",
     "Boxes keep running and are found again at the next start; with --boxes they are removed first.", command_down,
     down_options, ANYWHERE, .examples = "cubby down"},
    {"open", "[--print] [ID[/VIEW]]", "open the page of the daemon, or of one box, in a browser", NULL, command_open,
     open_options, ANYWHERE, .alias = "browse|dashboard",
     .examples = "cubby open\n"
                 "cubby open @work/files"},
    {"login", "[OPTION…] [URL]", "keep the address and token of a daemon for later commands",
     "Asks for the token without showing it; on a pipe the token is one line of standard input. It is checked, and\n"
     "kept in ~/.config/cubby/config, which only you can read.",
     command_login, login_options, ANYWHERE, .alias = "auth",
     .examples = "cubby login https://cubby.example\n"
                 "cubby login --name home http://127.0.0.1:7070 < token"},
    {"logout", "[NAME]", "forget a kept daemon and its token", NULL, command_logout, NULL, ANYWHERE,
     .examples = "cubby logout home"},
    {"context", "list [--json] | use NAME | show | rm NAME", "choose between kept daemons",
     "`cubby -C NAME COMMAND` uses one for a single command. CUBBY_URL and CUBBY_TOKEN are used before contexts.",
     command_context, json_options, ANYWHERE, .alias = "contexts",
     .examples = "cubby context list\n"
                 "cubby context use home"},
    {"info", "[--json]", "show the daemon, its backends and its boxes in numbers", NULL, command_info, json_options,
     ANYWHERE, .alias = "status", .examples = "cubby info"},
    {"api", "[OPTION…] [METHOD] PATH", "make a request to the API of the daemon",
     "METHOD is GET, or POST when there is data. Address, token and certificates are those of all commands. The exit\n"
     "status is 1 when the answer is an error, which is printed too.",
     command_api, api_options, ANYWHERE,
     .examples = "cubby api /v1/boxes --query boxes.0.id\n"
                 "cubby api POST /v1/boxes -d \"{}\""},
    {"template", "import NAME FILE|DIR | list [--json] | rm NAME…",
     "manage the root file systems that boxes are made from",
     "import makes one of a directory or a tar file (plain, or compressed by gzip, xz or zstd) on this machine.\n"
     "Asks the daemon; --state works on the files of a daemon on this machine instead.",
     command_template, template_options, ANYWHERE, .alias = "templates|image|images",
     .examples = "cubby template import debian rootfs.tar.xz"},
    {"token", "create [OPTION…] | list | revoke TOKEN-ID", "manage the tokens that the daemon accepts",
     "create prints the secret of a new token, once: on one line, or as JSON with its ID. --scope: admin may do\n"
     "everything, user all with boxes of --user, read look at them; --runner makes one for `cubby join`. revoke\n"
     "ends one at once, with what it has open. --state works on the daemon's files, as its user or root: for the\n"
     "first token of a daemon that demands tokens.",
     command_token, token_options, ANYWHERE, .alias = "tokens", .examples = "cubby token create --user ann"},
    {"secret", "create|set|rotate NAME [OPTION…] | list [BOX] | rm NAME | bind|unbind BOX NAME[=VARIABLE]",
     "manage secrets that boxes use and never have",
     "A box finds a placeholder in a variable; requests to the hosts that the secret is for carry the value instead.\n"
     "The value comes by standard input. create refuses a name that is taken; set replaces the whole definition;\n"
     "rotate changes the value alone, and boxes keep their placeholders.",
     command_secret, secret_options, ANYWHERE, .alias = "secrets",
     .examples = "cubby secret create github --host api.github.com < token"},
    {"tls", "[--domain NAME] [--days N] DIR", "make a local authority and a certificate for hosts of sandboxes",
     "For tests and laptops: writes ca.pem, ca.key, cert.pem and key.pem into DIR, and prints the lines for cubby.yaml\n"
     "and for clients. The certificate is for NAME, all hosts below it and this machine. An authority that is in\n"
     "DIR already signs again. Needs the program openssl.",
     command_tls, tls_options, ANYWHERE, .examples = "cubby tls ~/certs"},
    {"doctor", "[--json]", "check what this machine lacks for boxes, and how to fix it",
     "The exit status is 1 when something is missing without which no jail can be made.", command_doctor, json_options,
     ANYWHERE, .examples = "cubby doctor"},
    {"completion", "bash | zsh | fish | words [WORD…]", "print a completion script for a shell",
     "For bash: source <(cubby completion bash). words prints what may follow the WORDs, the last of which may be\n"
     "a part; the scripts ask it.",
     command_completion, NULL, 1,
     .examples = "source <(cubby completion bash)\n"
                 "cubby completion fish > ~/.config/fish/completions/cubby.fish"},
    {"version", "[--json]", "print the version of cubby and of the daemon", NULL, command_version, json_options,
     ANYWHERE, .examples = "cubby version"},
    {"help", "[COMMAND]", "print this list, or the help of one command", NULL, command_help_command, help_options,
     ANYWHERE, .examples = "cubby help exec"},
    {.name = NULL},
};
