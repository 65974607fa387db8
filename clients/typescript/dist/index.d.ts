import { CubbyError } from './errors.js';
import type { Reply, Transport } from './transport.js';
import type * as Wire from './wire.js';
export * from './errors.js';
export type { Wire };
/** A path of a box: absolute, or relative to the workspace. Bytes name files whose names are not UTF-8. */
export type Path = string | Uint8Array;
/** What can be sent as a body. */
export type Data = string | Uint8Array | Blob | AsyncIterable<Uint8Array>;
export interface Options {
    signal?: AbortSignal;
}
export interface ClientOptions {
    /** http://HOST:PORT, https://HOST or unix:/PATH; default: CUBBY_URL, else http://127.0.0.1:7070 (in a browser: its origin). */
    url?: string;
    /** Default: CUBBY_TOKEN. */
    token?: string;
    /** A file of certificates; default: CUBBY_CA. */
    ca?: string;
    /** Milliseconds without a byte from the daemon, where the request itself may not take longer; default 60000. */
    timeoutMs?: number;
    /** How often a request is repeated that the daemon cannot have seen, or that only looks; default 3. */
    retries?: number;
    /** Another way to send requests. */
    transport?: Transport;
}
export interface BoxOptions extends Options {
    user?: string;
    thread?: string;
    agent?: string;
    machine?: string;
    backend?: string;
    template?: string;
    shell?: string;
    env?: Record<string, string>;
    mounts?: Wire.Mount[];
    container?: Wire.ContainerRequest;
    /** none, open, or a policy such as { allow: ['pypi.org'] } */
    network?: string | Record<string, unknown>;
    secrets?: string[];
    labels?: Record<string, string>;
    temporary?: boolean;
    idleTimeoutMs?: number;
    limits?: Wire.LimitsRequest;
    /** Limits may also stand beside the other options. */
    memoryMb?: number;
    cpus?: number;
    pids?: number;
    diskMb?: number;
    openFiles?: number;
    outputBytes?: number;
}
export interface CommandOptions extends Options {
    cwd?: string;
    env?: Record<string, string>;
    input?: string | Uint8Array;
    user?: 'agent' | 'root';
    /** Then the command is killed (timedOut). */
    timeoutMs?: number;
}
export interface RunOptions extends CommandOptions {
    /** Bytes that are kept of each stream; more loses its middle. */
    outputLimitBytes?: number;
    /** Throw CommandFailed unless the command succeeds. */
    check?: boolean;
    onStdout?: (text: string) => void;
    onStderr?: (text: string) => void;
}
export declare function fromBase64(text: string): Uint8Array;
export declare function toBase64(data: Uint8Array): string;
/** A piece of what a command printed. */
export declare class Output {
    readonly stream: 'stdout' | 'stderr';
    readonly data: Uint8Array;
    constructor(stream: 'stdout' | 'stderr', data: Uint8Array);
    get text(): string;
}
/** How a command ended, and what it printed. A failing command is a result, not an error. */
export declare class Result {
    /** Text; bytes that are not UTF-8 became U+FFFD, and then `lossy` is true. */
    readonly stdout: string;
    readonly stderr: string;
    readonly stdoutRaw: Uint8Array;
    readonly stderrRaw: Uint8Array;
    readonly lossy: boolean;
    /** null when a signal ended it. */
    readonly exitCode: number | null;
    readonly signal: string | null;
    readonly timedOut: boolean;
    readonly oomKilled: boolean;
    /** The middle of the output is missing. */
    readonly truncated: boolean;
    readonly durationMs: number;
    /** Everything that the daemon answered, under its names. */
    readonly details: Record<string, any>;
    constructor(answer: Record<string, any>, raw?: Record<'stdout' | 'stderr', Uint8Array>);
    get ok(): boolean;
}
/** The last item of a stream of output; `result` has no output. */
export declare class Exit {
    readonly result: Result;
    constructor(result: Result);
}
/** A command with check: true that did not succeed. */
export declare class CommandFailed extends CubbyError {
    readonly result: Result;
    code: string;
    constructor(result: Result);
}
interface Call extends Options {
    query?: Record<string, unknown>;
    body?: Record<string, unknown>;
    raw?: Data;
    headers?: Record<string, string>;
    silenceMs?: number;
}
/** A daemon. */
export declare class Client {
    readonly url: string;
    token: string | undefined;
    readonly timeoutMs: number;
    readonly retries: number;
    readonly tokens: Tokens;
    readonly templates: Templates;
    readonly secrets: Secrets;
    readonly machines: Machines;
    readonly registry: Registry;
    readonly workers: Workers;
    readonly mcpServers: McpServers;
    private readonly ca;
    private opening;
    constructor(options?: ClientOptions);
    /** The transport, which is loaded when it is first needed. */
    transport(): Promise<Transport>;
    /** @internal */
    headers(more?: Record<string, string>): Record<string, string>;
    /** @internal */
    target(operation: string, path: unknown[], query?: Record<string, unknown>): [string, string];
    /** A request of any kind. failing: an answer that is an error is thrown. */
    send(method: string, path: string, call?: Call, failing?: boolean): Promise<Reply>;
    private failure;
    /** An operation of the API by its operationId. */
    call(operation: string, path: unknown[], call?: Call): Promise<Reply>;
    /** The same, and the answer as an object. */
    json(operation: string, path?: unknown[], call?: Call): Promise<any>;
    /** The same, for an answer that is an event stream: [name, id, data]. `resume` changes the query before a new try. */
    events_(operation: string, path: unknown[], call: Call, resume?: boolean): AsyncGenerator<[string, string, any]>;
    /** Ends the connections. Boxes stay. */
    close(): void;
    [Symbol.dispose](): void;
    /** The box of this user and thread, made if there is none; without a thread a new one. */
    box(options?: BoxOptions): Promise<Box>;
    /** The box of this id, which exists. */
    connect(id: string): Box;
    /** What running boxes use, every two seconds: first of all of them, then of those that changed. */
    usages(options?: {
        user?: string;
    } & Options): AsyncGenerator<{
        at: string;
        boxes: [string, number | null, number | null, number | null][];
    }>;
    /** Who has boxes; for admins. */
    users(options?: Options): Promise<Wire.User[]>;
    /** Which agents there are; for admins. */
    agents(options?: Options): Promise<Wire.AgentName[]>;
    /** All boxes that one may see, by their ids; q: with these words; fields: only these members, 'id,state'. */
    boxes(options?: {
        user?: string;
        state?: string;
        label?: string;
        q?: string;
        fields?: string;
        limit?: number;
        after?: string;
    } & Options): Promise<Wire.Box[]>;
    /** What this token, or this place, may do. */
    whoami(options?: Options): Promise<Wire.Whoami>;
    /** A ticket for one request that cannot carry the token, such as a WebSocket of a browser. */
    ticket(options: {
        for: 'pty' | 'files' | 'port' | 'login';
        box?: string;
    } & Options): Promise<Wire.TicketMade>;
    /** Trades a ticket for a token that holds half a day, and uses it from then on. */
    login(ticket: string, options?: Options): Promise<Wire.Login>;
    /** Deletes all boxes of a user; how many there were. */
    deleteBoxes(user: string, options?: Options): Promise<number>;
    health(options?: Options): Promise<Wire.Health>;
    info(options?: Options): Promise<Wire.Info>;
    /** Counters in the text form of Prometheus. */
    metrics(options?: Options): Promise<string>;
    /** The certificate of the authority that boxes with an inspected host trust. */
    networkCa(options?: Options): Promise<Wire.NetworkAuthority>;
    /** The agent tools, with their JSON schemas. */
    tools(options?: Options): Promise<any[]>;
    /** Runs what a person typed in a chat (!ls -la, !cd DIR, !get FILE, !!) in the sender's box of that chat. */
    bang(thread: string, text: string, options?: {
        user?: string;
        timeoutMs?: number;
        maxChars?: number;
    } & Options): Promise<Wire.BangResult>;
    /** What happens to boxes, for ever; after: '0' also has what is still known. A lost connection is taken up again. */
    events(options?: {
        box?: string;
        user?: string;
        type?: string;
        after?: string;
    } & Options): AsyncGenerator<any>;
    /** Who did what, row by row; follow: also what is still to come. */
    audit(options?: {
        box?: string;
        user?: string;
        verb?: string;
        outcome?: string;
        since?: string;
        until?: string;
        after?: number;
        tail?: boolean;
        limit?: number;
        follow?: boolean;
    } & Options): AsyncGenerator<Wire.AuditEvent>;
    /** Whether the audit log is whole and unchanged. */
    auditVerify(options?: Options): Promise<Wire.AuditVerified>;
}
/** Who may use the daemon; for admins. */
export declare class Tokens {
    private readonly client;
    constructor(client: Client);
    create(options?: {
        user?: string;
        scope?: string;
        runner?: string;
        label?: string;
        expiresInMs?: number;
    } & Options): Promise<Wire.NewToken>;
    list(options?: Options): Promise<Wire.Token[]>;
    revoke(id: string, options?: Options): Promise<void>;
}
/** What boxes are made from; for admins. */
export declare class Templates {
    private readonly client;
    constructor(client: Client);
    list(options?: Options): Promise<string[]>;
    /** From a tar archive. */
    create(name: string, archive: Data, options?: Options): Promise<void>;
    delete(name: string, options?: Options): Promise<void>;
}
/** Values that boxes use and never have. */
export declare class Secrets {
    private readonly client;
    constructor(client: Client);
    /** Stores a secret, or changes it: user, value, from, hosts, slots, methods, paths, ports, env, prefix, scrub, wide. */
    set(name: string, secret: Wire.SecretRequest, options?: Options): Promise<Wire.Secret>;
    get(name: string, options?: {
        user?: string;
    } & Options): Promise<Wire.Secret>;
    list(options?: {
        user?: string;
    } & Options): Promise<Wire.Secret[]>;
    delete(name: string, options?: {
        user?: string;
    } & Options): Promise<void>;
}
/** Machines that joined the daemon. */
export declare class Machines {
    private readonly client;
    constructor(client: Client);
    list(options?: {
        user?: string;
    } & Options): Promise<Wire.Machine[]>;
    sendAway(name: string, options?: {
        user?: string;
    } & Options): Promise<void>;
}
/** Workers that a daemon makes boxes on; for admins. */
export declare class Workers {
    private readonly client;
    constructor(client: Client);
    list(options?: Options): Promise<Wire.Worker[]>;
    /** No new box is made on it from now on; those that it has stay. */
    drain(name: string, options?: Options): Promise<Wire.Worker>;
    /** It gets new boxes again. */
    open(name: string, options?: Options): Promise<Wire.Worker>;
}
/** Skills and sub-agents that users share. */
export declare class Registry {
    private readonly client;
    constructor(client: Client);
    search(options?: {
        q?: string;
        type?: string;
        mine?: boolean;
        versions?: boolean;
        limit?: number;
        offset?: number;
    } & Options): Promise<Wire.RegistryEntry[]>;
    get(entry: string | number, options?: {
        author?: string;
        type?: string;
    } & Options): Promise<Wire.RegistryEntry>;
    /** box, name, and perhaps type, version, sharing, description, tags. */
    publish(entry: Wire.PublishRequest, options?: Options): Promise<Wire.RegistryEntry>;
    unpublish(entry: string | number, options?: {
        author?: string;
        type?: string;
    } & Options): Promise<void>;
}
/** MCP servers of a user, which run in their boxes. */
export declare class McpServers {
    private readonly client;
    constructor(client: Client);
    list(options?: {
        user?: string;
    } & Options): Promise<Wire.McpServer[]>;
    get(name: string, options?: {
        user?: string;
    } & Options): Promise<Wire.McpServer>;
    set(name: string, server: {
        command: string;
        args?: string[];
        env?: Record<string, string>;
        cwd?: string;
        machine?: string;
        thread?: string;
        disabled?: boolean;
        timeoutMs?: number;
        startTimeoutMs?: number;
        type?: string;
    }, options?: {
        user?: string;
    } & Options): Promise<Wire.McpServer>;
    delete(name: string, options?: {
        user?: string;
    } & Options): Promise<void>;
}
/** A command in the background. It goes on when nobody looks at it. */
export declare class Process {
    private readonly box;
    readonly pid: number;
    constructor(box: Box, pid: number);
    info(options?: Options): Promise<Wire.Process>;
    /** Its exit code, -1 when a signal ended it, null while it runs. */
    poll(options?: Options): Promise<number | null>;
    /** Its output from an offset on, and what is still to come. A restart of the daemon does not disturb it. */
    follow(options?: {
        offset?: number;
        stderrOffset?: number;
    } & Options): AsyncGenerator<Output | Exit>;
    /** Waits for its end; Timeout when that takes longer, and the process goes on. */
    wait(options?: {
        timeoutMs?: number;
    } & Options): Promise<Result>;
    /** What it printed from an offset on. */
    output(options?: {
        offset?: number;
        stream?: 'stdout' | 'stderr';
        waitMs?: number;
        limit?: number;
    } & Options): Promise<{
        data: Uint8Array;
        nextOffset: number;
        firstOffset: number;
        state: string;
    }>;
    /** Feeds its standard input. */
    write(data: string | Uint8Array, options?: {
        eof?: boolean;
    } & Options): Promise<void>;
    closeStdin(options?: Options): Promise<void>;
    /** Signals its process group: 'TERM', 'SIGTERM' or a number. */
    signal(signal: string | number, options?: Options): Promise<void>;
    kill(options?: Options): Promise<void>;
}
/** A shell that lives from command to command: its directory and variables stay. */
export declare class Session {
    private readonly box;
    readonly name: string;
    private constructor();
    /** @internal */
    static open(box: Box, options: Record<string, unknown>, more: Options): Promise<Session>;
    /** Runs a command when its turn comes. With waitMs or quietMs it may go on after this answer: see details.state. */
    run(command: string, options?: {
        cwd?: string;
        timeoutMs?: number;
        waitMs?: number;
        quietMs?: number;
        background?: boolean;
        outputLimitBytes?: number;
        check?: boolean;
    } & Options): Promise<Result>;
    /** The same, as a loop over its output; leaving the loop early ends the command. */
    stream(command: string, options?: {
        cwd?: string;
        timeoutMs?: number;
    } & Options): AsyncGenerator<Output | Exit>;
    /** Looks at it; with waitMs as soon as it runs nothing. */
    info(options?: {
        waitMs?: number;
    } & Options): Promise<Wire.Session>;
    /** Types to the command that runs. */
    write(data: string | Uint8Array, options?: Options): Promise<void>;
    /** Ends the command that runs; the session stays. */
    stop(options?: Options): Promise<Wire.SessionResult>;
    /** Ends the session with all it started. */
    close(options?: Options): Promise<void>;
}
/** A terminal in a box. A loop reads it; disposing of it ends it; detach() leaves it running. */
export declare class Pty implements AsyncIterable<Uint8Array> {
    private readonly box;
    private readonly channel;
    private readonly own;
    pid: number | undefined;
    /** Bytes of output that were read; with pid, a later terminal goes on from there. */
    offset: number;
    /** How it ended. */
    exit: Result | undefined;
    private constructor();
    /** @internal */
    static open(box: Box, query: Record<string, unknown>, options: Options): Promise<Pty>;
    private reading;
    private pending;
    private read;
    [Symbol.asyncIterator](): AsyncGenerator<Uint8Array>;
    /** Types. */
    write(data: string | Uint8Array): void;
    resize(cols: number, rows: number): void;
    /** Ends the connection; the terminal goes on. */
    detach(): void;
    /** Ends the terminal with what runs in it. */
    kill(options?: Options): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
/** The files of a box. */
export declare class Files {
    private readonly box;
    constructor(box: Box);
    read(path: Path, options?: {
        as?: 'text';
    } & Options): Promise<string>;
    read(path: Path, options: {
        as: 'bytes';
    } & Options): Promise<Uint8Array>;
    read(path: Path, options: {
        as: 'stream';
    } & Options): Promise<AsyncIterable<Uint8Array>>;
    /** Writes a file whole or not at all; missing directories are made. Answers with its ETag. */
    write(path: Path, data: Data, options?: {
        mode?: number | string;
        parents?: boolean;
        append?: boolean;
        ifMatch?: string;
    } & Options): Promise<string | null>;
    /** Writes several files in one request, all or none. */
    writeMany(files: Record<string, string | Uint8Array>, path?: Path, options?: Options): Promise<Wire.UnpackResult>;
    /** Unpacks a tar archive below a directory, whole or not at all. */
    unpack(archive: Data, path?: Path, options?: Options): Promise<Wire.UnpackResult>;
    /** A directory as a tar archive. */
    archive(path?: Path, options?: Options): Promise<AsyncIterable<Uint8Array>>;
    stat(path: Path, options?: Options): Promise<Entry>;
    exists(path: Path, options?: Options): Promise<boolean>;
    /** Entries, in no order; sort 'name': pages of at most 1000 in order, each after the last path of the one before. */
    list(path?: Path, options?: {
        depth?: number;
        limit?: number;
        sort?: 'name';
        after?: string;
    } & Options): Promise<Entry[]>;
    remove(path: Path, options?: {
        recursive?: boolean;
    } & Options): Promise<void>;
    mkdir(path: Path, options?: {
        mode?: string;
        parents?: boolean;
    } & Options): Promise<void>;
    move(from: Path, to: Path, options?: {
        overwrite?: boolean;
    } & Options): Promise<void>;
    /** Paths that match: * ? [] {} and **, which crosses directories. */
    glob(pattern: string, options?: {
        path?: Path;
        includeDirs?: boolean;
        limit?: number;
        timeoutMs?: number;
    } & Options): Promise<string[]>;
    /** Lines that match a Perl-compatible expression. */
    grep(pattern: string, options?: {
        path?: Path;
        glob?: string;
        literal?: boolean;
        ignoreCase?: boolean;
        context?: number;
        limit?: number;
        timeoutMs?: number;
    } & Options): Promise<Wire.GrepResult>;
    /** SHA-256 of a file, in hexadecimal. */
    hash(path: Path, options?: Options): Promise<string>;
    /** Replaces a text in a file: the only place, or all. */
    edit(path: Path, old: string, replacement: string, options?: {
        all?: boolean;
    } & Options): Promise<Wire.EditResult>;
    /** Changes, for ever: type created, modified, removed or moved. The first item has type ready: from there on all are seen. */
    watch(path?: Path, options?: {
        recursive?: boolean;
    } & Options): AsyncGenerator<{
        type: string;
        path?: string;
        to?: string;
    }>;
}
/** A file of a box. Where its name is not UTF-8, nameBytes and pathBytes have it. */
export type Entry = Wire.File & {
    nameBytes?: Uint8Array;
    pathBytes?: Uint8Array;
};
/** Kept states of the files of a box. */
export declare class Snapshots {
    private readonly box;
    constructor(box: Box);
    create(name?: string, options?: Options): Promise<Wire.Snapshot>;
    list(options?: Options): Promise<Wire.Snapshot[]>;
    delete(name: string, options?: Options): Promise<void>;
}
/** What a box may reach. */
export declare class Network {
    private readonly box;
    constructor(box: Box);
    get(options?: Options): Promise<Wire.Network>;
    /** Replaces the policy: none, open, or an object with mode, allow, deny, limits, log, ask_timeout_ms. */
    set(network: string | Record<string, unknown>, options?: {
        existing?: string;
    } & Options): Promise<Wire.Network>;
    /** Adds entries to the policy or removes some. */
    change(change: {
        allow?: unknown;
        deny?: unknown;
    }, options?: {
        existing?: string;
    } & Options): Promise<Wire.Network>;
    /** Takes the network away. */
    remove(options?: {
        existing?: string;
    } & Options): Promise<Wire.Network>;
    /** What would happen to a connection, and why. */
    test(to: string, options?: Options): Promise<Wire.NetworkTest>;
    /** The smallest policy that allows what the box has reached or tried. */
    learned(options?: Options): Promise<unknown>;
    /** Answers a question of a box whose policy has mode ask. */
    answer(answer: {
        question: number;
        verdict: string;
        remember?: boolean;
        forMs?: number;
    }, options?: Options): Promise<void>;
}
/** Secrets that a box may use. */
export declare class BoxSecrets {
    private readonly box;
    constructor(box: Box);
    bind(name: string, options?: {
        env?: string;
    } & Options): Promise<Wire.Binding>;
    unbind(name: string, options?: Options): Promise<void>;
    list(options?: Options): Promise<Wire.Binding[]>;
}
/** Agent tools of a box, and those of its user's MCP servers. */
export declare class Tools {
    private readonly box;
    constructor(box: Box);
    list(options?: Options): Promise<any[]>;
    call(name: string, args?: Record<string, unknown>, options?: {
        thread?: string;
    } & Options): Promise<Wire.ToolResult>;
    /** Kept results that show files which have changed since. */
    stale(options?: Options): Promise<Wire.StaleResults>;
}
/** Skills that a box has to offer. */
export declare class Skills {
    private readonly box;
    constructor(box: Box);
    list(options?: Options): Promise<Wire.Skill[]>;
    /** The same as a block for a system prompt. */
    prompt(options?: Options): Promise<string>;
    /** Skills out of a ZIP. */
    upload(archive: Data, options?: {
        base?: boolean;
    } & Options): Promise<Wire.Uploaded>;
    install(entry: string, options?: {
        replace?: boolean;
    } & Options): Promise<Wire.InstalledEntry>;
    remove(name: string, options?: {
        base?: boolean;
    } & Options): Promise<void>;
    sync(name: string, direction: string, options?: Options): Promise<void>;
    /** Places global skills and sub-agents in the box again. */
    place(options?: Options): Promise<Wire.SyncReport>;
    /** What became of them. */
    placed(options?: Options): Promise<Wire.SyncReport>;
}
/** Sub-agents that a box has to offer. */
export declare class Agents {
    private readonly box;
    constructor(box: Box);
    list(options?: Options): Promise<Wire.Agent[]>;
    prompt(options?: Options): Promise<string>;
    install(entry: string, options?: {
        replace?: boolean;
    } & Options): Promise<Wire.InstalledEntry>;
    remove(name: string, options?: Options): Promise<void>;
}
/** A server in a box. */
export declare class Port {
    private readonly box;
    readonly port: number;
    constructor(box: Box, port: number);
    /** Where the daemon leads to it by HTTP; requests need the same token as all others. */
    get url(): string;
    /** A URL that opens it in a browser, for a minute. */
    ticket(options?: Options): Promise<Wire.Ticket>;
    /** A request to it. Its errors are answers, not exceptions. */
    request(path?: string, options?: {
        method?: string;
        body?: Data;
        headers?: Record<string, string>;
    } & Options): Promise<{
        status: number;
        header(name: string): string | null;
        body: Uint8Array;
    }>;
}
/** A box: a shell and files of its own. */
export declare class Box {
    readonly client: Client;
    readonly id: string;
    readonly files: Files;
    readonly snapshots: Snapshots;
    readonly network: Network;
    readonly secrets: BoxSecrets;
    readonly tools: Tools;
    readonly skills: Skills;
    readonly agents: Agents;
    /** As E2B spells it. */
    readonly commands: {
        run: (command: string | string[], options?: RunOptions & {
            background?: boolean;
            envs?: Record<string, string>;
        }) => Promise<any>;
        list: (options?: Options) => Promise<Wire.Process[]>;
        connect: (pid: number) => Process;
        kill: (pid: number, options?: Options) => Promise<void>;
        sendStdin: (pid: number, data: string, options?: Options) => Promise<void>;
    };
    private thread;
    private own;
    private end;
    constructor(client: Client, id: string);
    /** The box of this user and thread, made if there is none; without a thread it is a new one. `await using` ends what it
     * began: a box with a thread is released, one without is deleted. */
    static create(options?: BoxOptions & {
        client?: Client;
        envs?: Record<string, string>;
        metadata?: Record<string, string>;
    }): Promise<Box>;
    /** The box of this id, which exists. */
    static connect(id: string, client?: Client): Box;
    get sandboxId(): string;
    /** @internal */
    call(operation: string, path?: unknown[], call?: Call): Promise<Reply>;
    /** @internal */
    json(operation: string, path?: unknown[], call?: Call): Promise<any>;
    /** @internal */
    events(operation: string, path: unknown[], call: Call, resume?: boolean): AsyncGenerator<[string, string, any]>;
    /** Runs a command; a loop sees its Output, then one Exit. Leaving the loop early ends the command. stdinOpen: its
     * standard input stays open; onStarted has the pid to feed. */
    stream(command: string | string[], options?: CommandOptions & {
        stdinOpen?: boolean;
        onStarted?: (pid: number) => void;
    }): AsyncGenerator<Output | Exit>;
    /** Runs a command and waits for it. A string is a line for the shell, an array a program and its arguments. */
    run(command: string | string[], options?: RunOptions): Promise<Result>;
    /** Starts a command in the background. */
    spawn(command: string | string[], options?: CommandOptions & {
        outputLimitBytes?: number;
        tag?: string;
    }): Promise<Process>;
    /** Commands in the background, also those that have ended. */
    processes(options?: Options): Promise<Wire.Process[]>;
    process(pid: number): Process;
    /** A shell that lives from command to command: the one of this name, or a new one. */
    session(name?: string, options?: {
        cwd?: string;
        env?: Record<string, string>;
        user?: 'agent' | 'root';
        shell?: string;
        cols?: number;
        rows?: number;
        quietMs?: number;
    } & Options): Promise<Session>;
    sessions(options?: Options): Promise<Wire.Session[]>;
    /** A terminal; with pid one that runs already, from an offset of its output on. */
    pty(options?: {
        cols?: number;
        rows?: number;
        command?: string;
        cwd?: string;
        user?: 'agent' | 'root';
        term?: string;
        env?: Record<string, string>;
        pid?: number;
        offset?: number;
    } & Options): Promise<Pty>;
    /** What differs from the template. */
    diff(options?: {
        limit?: number;
    } & Options): Promise<Wire.Change[]>;
    /** The files become those of a snapshot; what runs is ended first. */
    rollback(snapshot: string, options?: Options): Promise<Wire.Rollback>;
    /** A new box with the same files and settings. */
    fork(options?: {
        snapshot?: string;
        user?: string;
        thread?: string;
    } & Options): Promise<Box>;
    /** A box on a worker moves to another one; what runs in it is ended with stop. */
    relocate(options?: {
        worker?: string;
        stop?: boolean;
    } & Options): Promise<Wire.Relocation>;
    /** A container box becomes one image of one layer. */
    export(options?: Options): Promise<Wire.Export>;
    /** A server in the box. */
    port(port: number): Port;
    /** The host name under which browsers reach a server in the box. */
    getHost(port: number, options?: Options): Promise<string>;
    /** Runs an agent tool in the box. */
    tool(name: string, args?: Record<string, unknown>, options?: Options): Promise<Wire.ToolResult>;
    /** Where an MCP client finds this box. */
    mcp(): {
        url: string;
        headers: Record<string, string>;
    };
    /** Everything about it; looking does not wake it. */
    info(options?: Options): Promise<Wire.Box>;
    /** What it used over time. */
    usage(options?: {
        since?: string;
        until?: string;
    } & Options): Promise<Wire.UsageAt[]>;
    /** It stays, and may be ended when idle. */
    release(options?: Options): Promise<Wire.Box>;
    /** Its processes stop, and keep their memory. */
    pause(options?: Options): Promise<Wire.Box>;
    resume(options?: Options): Promise<Wire.Box>;
    /** Starts a box whose processes ended, on its files. */
    start(options?: Options): Promise<Wire.Box>;
    /** Nothing of it remains. */
    delete(options?: Options): Promise<void>;
    /** As E2B spells it. */
    kill(options?: Options): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
export { Box as Sandbox };
