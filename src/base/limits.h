/* Every number that bounds something from outside. One place, so that a reader can judge them together and a test can
 * name them. Each name ends with its unit. */
#ifndef CUBBY_BASE_LIMITS_H
#define CUBBY_BASE_LIMITS_H

/* wire */
#define LIMIT_FRAME_PAYLOAD_BYTES 65536u /* one frame's payload */
#define LIMIT_CALL_ARGS_BYTES (1u << 20) /* arguments of one call, over all its CALL frames */
#define LIMIT_CREDIT_BYTES (256u << 10)  /* initial window of a call, each direction */
#define LIMIT_CREDIT_MOST_BYTES                                                                                        \
    (8u << 20) /* the size that window grows to, on a wire to another machine, while it is used */
#define LIMIT_CREDIT_POOL_BYTES (8u << 20) /* by which all of one such wire grow together, each direction */
#define LIMIT_CALLS_PER_WIRE 1024u         /* open at once */
#define LIMIT_CONNECTS 256u                /* streams to servers in one box, CONNECT */
#define LIMIT_WIRES_PER_RUNNER 8u          /* daemons connected to one runner */

/* commands */
#define LIMIT_ARGV_COUNT 4096u
#define LIMIT_ENV_COUNT 1024u
#define LIMIT_SECRETS 64u               /* of one command */
#define LIMIT_SECRETS_BYTES 65536u      /* all of them, with their names */
#define LIMIT_ENV_DROPS 64u             /* prefixes of variables that a command does not get */
#define LIMIT_EXEC_TIMEOUT_MS 86400000u /* a day */
#define DEFAULT_EXEC_TIMEOUT_MS 300000u
#define DEFAULT_OUTPUT_LIMIT_BYTES (1u << 20)
#define LIMIT_OUTPUT_LIMIT_BYTES (64u << 20)
#define LIMIT_OPEN_FILES_LEAST 16u       /* below it no shell starts */
#define LIMIT_OPEN_FILES (1u << 20)      /* the kernel's own default for fs.nr_open */
#define LIMIT_STDIN_BYTES (16u << 20)    /* stdin carried in a JSON body */
#define LIMIT_RING_BYTES (1u << 20)      /* kept output of a background process, a stream */
#define LIMIT_PROCESSES 256u             /* commands of one box the runner keeps, running and ended */
#define LIMIT_PROCESSES_ENDED 64u        /* ended ones kept for a later look; the oldest goes first */
#define LIMIT_PROCESS_TAG_BYTES 128u     /* the name that a client gave a command */
#define LIMIT_PROCESS_ABOUT_BYTES 49152u /* arguments and variables of a command, kept for lists of processes */
#define LIMIT_SESSIONS 64u               /* of one box */
#define LIMIT_SESSION_WAITING 64u        /* calls that wait for their turn in one session */
#define LIMIT_SESSION_NAME_BYTES 128u
#define LIMIT_SESSION_NOTE_BYTES 4096u
#define KILL_GRACE_MS 2000u /* between SIGTERM and SIGKILL on time-out or cancel */

/* files */
#define LIMIT_PATH_BYTES 4095u
#define LIMIT_NAME_BYTES 255u
#define LIMIT_UPLOAD_BYTES (500ull << 20) /* default; configurable */
#define LIMIT_EDIT_BYTES (16u << 20)      /* largest file the edit verb takes */
#define LIMIT_UNPACK_ENTRIES 1000000u     /* files and directories an archive may make; default, configurable */
#define LIMIT_UNPACK_SKIPPED 100u         /* entries left out that are reported by name */
#define DEFAULT_LIST_LIMIT 1000u
#define LIMIT_LIST_LIMIT 1000000u
#define LIMIT_LIST_DEPTH 64u
#define LIMIT_ATTRIBUTES_BYTES 8192u   /* extended attributes of one file, as a call sets or reports them */
#define DEFAULT_WALK_TIMEOUT_MS 30000u /* of list and glob; then the findings so far are the answer */
#define DEFAULT_GLOB_LIMIT 1000u
#define LIMIT_GLOB_LIMIT 1000000u
#define LIMIT_PATTERN_BYTES 4096u
#define DEFAULT_GREP_LIMIT 1000u
#define LIMIT_GREP_LIMIT 100000u
#define LIMIT_GREP_LINE_BYTES 4096u /* a matched line is cut here */
#define LIMIT_GREP_CONTEXT 20u
#define LIMIT_GREP_BLOCK_BYTES (16u << 10)    /* of a match over several lines, cut here */
#define LIMIT_GREP_MULTILINE_BYTES (8u << 20) /* larger files are not searched for such matches */
#define LIMIT_GLOBS 64u                       /* in a list of patterns */
#define DEFAULT_GREP_TIMEOUT_MS 30000u
#define LIMIT_WATCHES 8192u /* inotify watches of one watch call */

/* snapshots */
#define LIMIT_SKILL_LAYERS 32u /* of an agent's public skills, in one box */
#define LIMIT_SKILL_PATHS 8u   /* further places where a box sees /skills */
#define LIMIT_AGENT_BYTES 128u
#define LIMIT_LAYERS 63u     /* kept layers below one box: with its own, bits of a word in runner/enter/stack.h */
#define LIMIT_SNAPSHOTS 256u /* of one box */
#define LIMIT_KEPT_TIMES 4u  /* size of a box's kept layers on the disk, in its disk_mb */
#define LIMIT_DISK_FLOOR_BYTES                                                                                         \
    (16u << 20) /* free on the disk before files are moved away; of a small one a sixteenth */
#define LIMIT_DISK_FLOOR_FILES 64u
#define LIMIT_RESERVE_BYTES (4u << 20)            /* kept on the disk for a daemon that starts when it is full */
#define LIMIT_SNAPSHOT_NAME 64u                   /* bytes */
#define LIMIT_TEMPLATE_UPLOAD_BYTES (16ull << 30) /* an upload of a template, as it is sent */
#define DEFAULT_DIFF_LIMIT 1000u
#define LIMIT_DIFF_LIMIT 1000000u

/* machines that join */
#define LIMIT_MACHINES 4096u                 /* known at once, default */
#define LIMIT_MACHINES_PER_USER 64u          /* the same of one user */
#define LIMIT_CHANNELS 1024u                 /* boxes on one machine, with a wire */
#define LIMIT_WORKER_TEMPLATES_BYTES 4096u   /* names of a worker's templates */
#define LIMIT_CHANNEL_BYTES (256u << 10)     /* window of a channel, each way, when it begins */
#define LIMIT_CHANNEL_MOST_BYTES (8u << 20)  /* the size it grows to while it is used */
#define LIMIT_CHANNEL_POOL_BYTES (16u << 20) /* shared by the growth of all channels of one machine */
#define LIMIT_CHANNEL_EARLY_BYTES 8192u      /* that come before the channel is open here: a runner's HELLO */
#define LIMIT_LINK_HELD_BYTES (16u << 20)    /* records that wait for the other end to have them */
#define LIMIT_LINK_UNSENT_BYTES                                                                                        \
    (256u << 10)                         /* of these, not yet given to the connection: urgent output waits after it */
#define LIMIT_LINK_TALK_BYTES (1u << 20) /* a question or an answer */
#define LIMIT_LINK_WHY_BYTES 600u        /* why a channel is shut */
#define LIMIT_LINK_LATE 256u             /* questions given up that the machine has not answered yet */
#define LIMIT_REGISTER_BYTES 65536u      /* the message a machine registers with */
#define LIMIT_REGISTER_MS 10000u         /* until it came */
#define LIMIT_REGISTER_WAITING 64u       /* connections that have not shown a good token yet, at once */
#define LIMIT_MACHINE_TEXT 256u          /* bytes of each thing a machine says of itself, but for paths */
#define LIMIT_TEXT_MESSAGE_BYTES (8u << 20) /* one of the text form: 4 MB in base64, and its envelope */
#define LIMIT_TEXT_FILE_BYTES (4u << 20)    /* a file inside one */

/* resources that users share: for the machine, and for one user (base/counted.h) */
#define LIMIT_TERMINALS 3072u /* of all boxes; the kernel's own default. Set from kernel.pty.max */
#define LIMIT_TERMINALS_PER_USER 1536u
/* Of a box whose user has few: all its sessions, and some that take the place of idle ones. */
#define DEFAULT_TERMINALS 96u
#define FEWER_TERMINALS 8u  /* ... from half of that user's share on; at last one for each box, and then none */
#define LIMIT_WATCHERS 512u /* that clients come back to; each has a thread */
#define LIMIT_WATCHERS_PER_USER 128u
#define LIMIT_WATCHERS_PER_BOX 32u
#define LIMIT_SPOOL_BYTES (8 * LIMIT_UPLOAD_BYTES) /* of uploads, before their box has them; follows max_upload_bytes */
#define LIMIT_SPOOL_BYTES_PER_USER (2 * LIMIT_UPLOAD_BYTES)
#define LIMIT_SEARCHES 4u /* patterns being searched for in kept results; each has a thread of low priority */
#define LIMIT_SEARCHES_PER_USER 1u
#define LIMIT_UNDO_BYTES (96u << 20) /* undo history of an editor */
#define LIMIT_UNDO_BYTES_PER_USER (32u << 20)
#define LIMIT_FLOWS 262144u /* in the host's table of connections; set from nf_conntrack_max */
#define LIMIT_FLOWS_PER_USER 4096u

/* boxes with a network policy, at the gate: of one box, where its policy says nothing else */
#define LIMIT_GATE_CONNECTIONS 256u
#define LIMIT_GATE_CONNECTIONS_MOST 4096u
#define LIMIT_GATE_PER_SECOND 50u
#define LIMIT_GATE_BURST 200u
#define LIMIT_GATE_HELD 32u       /* connections that wait for the answer to a question */
#define LIMIT_GATE_LOOKUPS 32u    /* names being resolved */
#define LIMIT_GATE_PINS 1024u     /* addresses that were handed out for names */
#define LIMIT_GATE_NEW_NAMES 100u /* below stars at once; then one a second */
#define LIMIT_GATE_ROWS 20u       /* of the audit log a second */
#define LIMIT_GATE_UDP 64u        /* associations */
#define LIMIT_GATE_HELLO_BYTES 16384u
#define LIMIT_GATE_PEEK_MS 10000u /* until a ClientHello or a head is whole */
#define LIMIT_GATE_DIAL_MS 30000u
#define LIMIT_GATE_DIAL_ONE_MS 10000u
#define LIMIT_GATE_DIAL_NEXT_MS 300u
#define LIMIT_GATE_IDLE_MS 3600000u
#define LIMIT_GATE_UDP_IDLE_MS 30000u
#define LIMIT_GATE_ACK_MS 2000u      /* until the gate has taken a policy; else it is killed */
#define LIMIT_GATE_FAR_ACK_MS 15000u /* the same of a machine that joined */
#define LIMIT_GATE_SEALS 20u         /* processes of cubby-seal for one box in LIMIT_GATE_SEALS_MS, one at a time */
#define LIMIT_GATE_SEALS_MS 10000u
#define LIMIT_GATE_ASK_MS 60000u
#define LIMIT_GATE_MEMORY_MB 1024u   /* of the program with its sockets; beyond it is ended, and another one started */
#define LIMIT_REGISTRY_ENTRIES 1000u /* versions that one author may have published */
#define LIMIT_REGISTRY_BYTES (1ull << 30) /* the same, all together */
#define LIMIT_REGISTRY_VERSION 64u        /* bytes of a version's name */
#define LIMIT_REGISTRY_TAGS 512u          /* bytes of all tags */
#define LIMIT_REGISTRY_DESCRIPTION 4096u  /* bytes; a longer one is cut */
#define LIMIT_REGISTRY_ROWS 1000u         /* of one answer */
#define DEFAULT_REGISTRY_ROWS 100u

/* audit log */
#define LIMIT_AUDIT_ROWS 1000u /* of one answer */
#define DEFAULT_AUDIT_ROWS 100u

/* events */
#define LIMIT_EVENTS_HELD 4096u       /* for clients that reconnect; the oldest are removed */
#define LIMIT_EVENTS_BYTES (8u << 20) /* the same, all together */
#define LIMIT_EVENT_STREAMS 512u      /* open at once */
#define LIMIT_EVENT_STREAMS_PER_USER 16u
#define LIMIT_EVENT_BOXES 256u /* that one stream names */
#define LIMIT_QUERY_WORDS 256u /* bytes of a text to look for in a list */

/* MCP */
#define LIMIT_MCP_SESSIONS 4096u            /* of the era that has them; the one unused longest goes */
#define LIMIT_MCP_SESSIONS_PER_USER 256u    /* the same, of one user */
#define MCP_SESSION_IDLE_MS 86400000u       /* unused for so long, a session is forgotten */
#define MCP_PROGRESS_MS 100u                /* between two notices of progress */
#define LIMIT_MCP_MESSAGE_BYTES (64u << 20) /* a message that we send */
#define LIMIT_RESOURCE_BYTES (8u << 20)     /* a file as a resource */
#define LIMIT_RESOURCES 20000u              /* files of a workspace that are listed as resources */
#define LIMIT_RESOURCES_PAGE 200u           /* of one answer */

/* MCP servers in boxes */
#define LIMIT_SERVERS_PER_USER 32u     /* configured */
#define LIMIT_SERVERS_RUNNING 1024u    /* of one daemon */
#define LIMIT_SERVER_NAME_BYTES 32u    /* a model's tool names have 64 in all */
#define LIMIT_SERVER_SPEC_BYTES 65536u /* one as JSON */
#define LIMIT_SERVER_ARGS 256u
#define LIMIT_SERVER_MESSAGE_BYTES (8u << 20) /* a message that it sends */
#define LIMIT_SERVER_UNREAD_BYTES (8u << 20)  /* sent to it and not read: then nothing more is */
#define LIMIT_SERVER_JUNK 100u                /* lines that are no message, until it is ended */
#define LIMIT_SERVER_FLOOD 10000u             /* unrequested messages, at once */
#define LIMIT_SERVER_FLOOD_RATE 500u          /* the same, a second */
#define LIMIT_SERVER_FLOOD_BYTES (64u << 20)  /* and their bytes, at once */
#define LIMIT_SERVER_FLOOD_BYTES_RATE (4u << 20)
#define LIMIT_SERVER_NEWS_BYTES 1024u         /* one word of progress */
#define LIMIT_SERVER_ERRORS_BYTES 1024u       /* of its standard error, for the reason why it ended */
#define LIMIT_SERVER_TOOLS 256u               /* of one server */
#define LIMIT_SERVER_TOOL_PAGES 64u           /* of its list */
#define LIMIT_SERVER_TOOL_BYTES 65536u        /* a schema */
#define LIMIT_SERVER_DESCRIPTION_BYTES 16384u /* of a tool; a longer one is cut */
#define LIMIT_SERVER_LIST_BYTES (16u << 20)   /* of all in one list */
#define LIMIT_TOOL_NAME_BYTES 128u            /* with the server's name in front */
#define DEFAULT_SERVER_TIMEOUT_MS 300000u     /* of a call */
#define LIMIT_SERVER_TIMEOUT_MS 3600000u
#define DEFAULT_SERVER_START_MS 30000u /* until it has listed its tools */
#define LIMIT_SERVER_START_MS 300000u
#define SERVER_BACK_OFF_MS 1000u /* until a dead one is started again; doubles */
#define SERVER_BACK_OFF_MOST_MS 60000u
#define SERVER_STEADY_MS 60000u  /* one that lived so long died by chance */
#define SERVER_PATIENCE_MS 5000u /* a call waits so long for that; else the error says when */

/* configuration */
#define LIMIT_CONF_BYTES (4u << 20) /* of the file; 10,000 tokens have a third of it */

/* requests */
#define LIMIT_MCP_REQUESTS 64u       /* of one `cubby mcp`, under way at once */
#define LIMIT_JSON_BYTES (32u << 20) /* a JSON body; stdin_base64 of 16 MiB fits */
#define LIMIT_JSON_DEPTH 32u
#define LIMIT_JSON_VALUES 65536u /* of one JSON body; a parsed value costs some 100 bytes */
#define LIMIT_HEAD_BYTES 32768u  /* request line and headers */
#define LIMIT_HEADERS 100u
#define LIMIT_URI_BYTES 16384u
#define LIMIT_TERM_BYTES 64u /* the name of a terminal */
#define LIMIT_USER_BYTES 128u
#define LIMIT_THREAD_BYTES 16384u
#define LIMIT_LABELS 64u
#define LIMIT_MOUNTS 64u
#define LIMIT_BOXES 10000u
#define LIMIT_TOKENS 100000u /* in STATE/tokens.db, ended ones of the last month included */
#define LIMIT_TOKEN_LABEL_BYTES 256u
#define LIMIT_TOKEN_DAYS 36500u       /* until one expires */
#define LIMIT_TICKETS 4096u           /* made and not used yet */
#define LIMIT_TICKETS_PER_SENDER 256u /* the same, of one token */
#define LIMIT_RUNNER_BYTES 64u

/* secrets that stay outside of boxes (box/secret) */
#define LIMIT_STORED_SECRETS 1000u            /* of one user */
#define LIMIT_STORED_SECRET_BYTES (64u << 10) /* of one that is only kept */
#define LIMIT_SECRET_VALUE_BYTES 8192u        /* of one that is swapped into a header */
#define LIMIT_SECRET_VALUE_LEAST 8u           /* shorter ones occur in any answer by chance */
#define LIMIT_SECRET_NAME_BYTES 128u
#define LIMIT_SECRET_HOSTS 32u    /* and slots, methods, paths */
#define LIMIT_BINDINGS 64u        /* secrets of one box */
#define LIMIT_SECRET_TTL_S 86400u /* how long what a command printed may count */
#define SECRET_COMMAND_MS 10000u  /* how long such a command may take */

#endif
