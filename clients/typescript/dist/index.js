// cubby for JavaScript and TypeScript: a box for every AI agent, a shell and files of its own.
//
//   await using box = await Box.create({ thread: 'demo' });
//   console.log((await box.run('id')).stdout);
//
// Times are milliseconds. Every method takes `signal`. Objects that the daemon answers keep the daemon's names.
import { BadCertificate, CubbyError, errorOf, FileNotFound, Invalid, NotFound, Protocol, Timeout, Unreachable, Unsupported, } from './errors.js';
import { aborted, join, transportOf } from './transport.js';
import { ROUTES } from './wire.js';
export * from './errors.js';
// Browsers and Nodes that do not know `await using` yet: code that was compiled for it looks for these symbols.
for (const name of ['dispose', 'asyncDispose'])
    if (!(name in Symbol))
        Object.defineProperty(Symbol, name, { value: Symbol.for(`Symbol.${name}`) });
const EXEC_MS = 300_000, SLACK_MS = 30_000, KEPT = 1 << 20;
const PATIENCE_MS = 15_000; // in which a daemon may start again without a stream that can go on noticing
const LIMITS = ['memory_mb', 'cpus', 'pids', 'disk_mb', 'open_files', 'output_bytes'];
const encoder = new TextEncoder();
const JSON_TYPE = { 'Content-Type': 'application/json' }, BYTES_TYPE = { 'Content-Type': 'application/octet-stream' };
// ---- small conversions ----
const bytesOf = (data) => typeof data === 'string' ? encoder.encode(data) : data;
const textOf = (data) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(data);
export function fromBase64(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}
export function toBase64(data) {
    let text = '';
    for (let at = 0; at < data.length; at += 8192)
        text += String.fromCharCode(...data.subarray(at, at + 8192));
    return btoa(text);
}
function quote(value) {
    if (!(value instanceof Uint8Array))
        return encodeURIComponent(String(value));
    return Array.from(value, (b) => '%' + b.toString(16).padStart(2, '0')).join('');
}
/** Options as the API spells them: timeoutMs becomes timeout_ms. Only the outermost names change. */
function snake(options) {
    const out = {};
    for (const [name, value] of Object.entries(options))
        if (name !== 'signal' && value !== undefined)
            out[name.replace(/[A-Z]/g, (c) => '_' + c.toLowerCase())] = value;
    return out;
}
/** Undoes base64 of names that are not UTF-8: `key` becomes readable, `keyBytes` has the bytes. */
function named(answer, ...keys) {
    const fields = answer;
    if (fields['encoding'] !== 'base64')
        return answer;
    for (const key of keys) {
        const value = fields[key];
        if (typeof value === 'string') {
            const raw = fromBase64(value);
            fields[key] = textOf(raw);
            fields[`${key}Bytes`] = raw;
        }
        else if (Array.isArray(value))
            fields[key] = value.map((each) => textOf(fromBase64(each)));
    }
    return answer;
}
/** A body with names and texts; as base64 where one of them is bytes. */
function naming(body, ...keys) {
    if (!keys.some((key) => body[key] instanceof Uint8Array))
        return body;
    const out = { ...body, encoding: 'base64' };
    for (const key of keys)
        if (body[key] !== undefined)
            out[key] = toBase64(bytesOf(body[key]));
    return out;
}
const commandOf = (command) => typeof command === 'string' ? { command } : { argv: command };
const inputOf = (input) => input === undefined || typeof input === 'string' ? { stdin: input } : { stdin_base64: toBase64(input) };
function boxRequest(options) {
    const body = snake(options);
    for (const name of LIMITS) {
        if (!(name in body))
            continue;
        body['limits'] = { ...body['limits'], [name]: body[name] };
        delete body[name];
    }
    return body;
}
const pause = (ms, signal) => new Promise((resolve, reject) => {
    const onAbort = () => { clearTimeout(timer); reject(aborted(signal)); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', onAbort); resolve(); }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
});
// ---- results ----
/** A piece of what a command printed. */
export class Output {
    stream;
    data;
    constructor(stream, data) {
        this.stream = stream;
        this.data = data;
    }
    get text() {
        return textOf(this.data);
    }
}
/** How a command ended, and what it printed. A failing command is a result, not an error. */
export class Result {
    /** Text; bytes that are not UTF-8 became U+FFFD, and then `lossy` is true. */
    stdout;
    stderr;
    stdoutRaw;
    stderrRaw;
    lossy;
    /** null when a signal ended it. */
    exitCode;
    signal;
    timedOut;
    oomKilled;
    /** The middle of the output is missing. */
    truncated;
    durationMs;
    /** Everything that the daemon answered, under its names. */
    details;
    constructor(answer, raw) {
        const coded = answer['encoding'] === 'base64';
        const read = (text) => coded ? fromBase64(text ?? '') : encoder.encode(text ?? '');
        this.stdoutRaw = raw?.stdout ?? read(answer['stdout'] ?? answer['output']);
        this.stderrRaw = raw?.stderr ?? read(answer['stderr']);
        this.stdout = textOf(this.stdoutRaw);
        this.stderr = textOf(this.stderrRaw);
        this.lossy = [[this.stdout, this.stdoutRaw], [this.stderr, this.stderrRaw]].some(([text, bytes]) => text.includes('\ufffd') && toBase64(encoder.encode(text)) !== toBase64(bytes));
        this.exitCode = answer['exit_code'] ?? null;
        this.signal = answer['signal'] ?? null;
        this.timedOut = answer['timed_out'] ?? false;
        this.oomKilled = answer['oom_killed'] ?? false;
        this.truncated = Boolean(answer['stdout_truncated'] || answer['stderr_truncated'] || answer['output_truncated']);
        this.durationMs = answer['duration_ms'] ?? 0;
        this.details = answer;
    }
    get ok() {
        return this.exitCode === 0 && !this.timedOut;
    }
}
/** The last item of a stream of output; `result` has no output. */
export class Exit {
    result;
    constructor(result) {
        this.result = result;
    }
}
/** A command with check: true that did not succeed. */
export class CommandFailed extends CubbyError {
    result;
    code = 'COMMAND';
    constructor(result) {
        const how = result.timedOut ? 'timed out' : result.signal ? `was ended by ${result.signal}`
            : `exited with status ${result.exitCode}`;
        const tail = result.stderr.trim().slice(-400);
        super(`the command ${how}${tail ? `: ${tail}` : ''}`);
        this.result = result;
    }
}
/** The last bytes of both streams, up to a limit. */
class Collected {
    kept = { stdout: [], stderr: [] };
    sizes = { stdout: 0, stderr: 0 };
    add({ stream, data }) {
        this.kept[stream].push(data);
        this.sizes[stream] += data.length;
        while (this.sizes[stream] - this.kept[stream][0].length > KEPT)
            this.sizes[stream] -= this.kept[stream].shift().length;
    }
    result(ended) {
        const raw = { stdout: join(this.kept.stdout).slice(-KEPT), stderr: join(this.kept.stderr).slice(-KEPT) };
        return new Result({ ...ended.details, stdout_truncated: ended.details['stdout_bytes'] > raw.stdout.length,
            stderr_truncated: ended.details['stderr_bytes'] > raw.stderr.length }, raw);
    }
}
/** Events of a reply: [name, id, data]. */
async function* eventsOf(reply) {
    const decoder = new TextDecoder();
    let rest = '', name = '', id = '', data = [];
    for await (const piece of reply.body) {
        const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
        rest = lines.pop();
        if (rest.length > 64 << 20)
            throw new Protocol('an event is too long');
        for (const each of lines) {
            const line = each.endsWith('\r') ? each.slice(0, -1) : each;
            if (!line) {
                if (data.length)
                    yield [name, id, JSON.parse(data.join('\n'))];
                name = '';
                data = [];
                continue;
            }
            const colon = line.indexOf(':'), field = colon < 0 ? line : line.slice(0, colon);
            const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
            if (field === 'data')
                data.push(value);
            else if (field === 'event')
                name = value;
            else if (field === 'id')
                id = value;
        }
    }
}
/** A daemon. */
export class Client {
    url;
    token;
    timeoutMs;
    retries;
    tokens = new Tokens(this);
    templates = new Templates(this);
    secrets = new Secrets(this);
    machines = new Machines(this);
    registry = new Registry(this);
    workers = new Workers(this);
    mcpServers = new McpServers(this);
    ca;
    opening;
    constructor(options = {}) {
        const env = globalThis.process?.env ?? {};
        const origin = typeof location === 'undefined' || location.origin === 'null' ? undefined : location.origin;
        this.url = options.url ?? (env['CUBBY_URL'] || origin || 'http://127.0.0.1:7070');
        this.token = options.token ?? (env['CUBBY_TOKEN'] || undefined);
        this.ca = options.ca ?? (env['CUBBY_CA'] || undefined);
        this.timeoutMs = options.timeoutMs ?? 60_000;
        this.retries = options.retries ?? 3;
        if (options.transport)
            this.opening = Promise.resolve(options.transport);
        if (!/^(https?:\/\/.|unix:.)/.test(this.url))
            throw new Invalid(`'${this.url}' is not the URL of a daemon: write http://HOST:PORT, https://HOST or unix:/PATH`);
    }
    /** The transport, which is loaded when it is first needed. */
    transport() {
        return this.opening ??= transportOf(this.url, this.ca);
    }
    /** @internal */
    headers(more) {
        return { ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}), ...more };
    }
    /** @internal */
    target(operation, path, query) {
        const [method, ...parts] = ROUTES[operation];
        const target = parts.map((part) => typeof part === 'string' ? part : quote(path[part])).join('');
        const asked = Object.entries(query ?? {}).filter(([, value]) => value !== undefined)
            .map(([name, value]) => `${name}=${quote(value)}`);
        return [method, target + (asked.length ? `?${asked.join('&')}` : '')];
    }
    /** A request of any kind. failing: an answer that is an error is thrown. */
    async send(method, path, call = {}, failing = true) {
        const headers = this.headers(call.headers), { raw, signal } = call;
        let body = typeof raw === 'string' ? encoder.encode(raw) : raw;
        if (call.body) {
            body = encoder.encode(JSON.stringify(call.body));
            Object.assign(headers, JSON_TYPE);
        }
        if (body instanceof Uint8Array)
            headers['Content-Length'] = String(body.length);
        else if (body instanceof Blob)
            headers['Content-Length'] = String(body.size);
        else if (!body && method !== 'GET')
            headers['Content-Length'] = '0';
        const transport = await this.transport(), looks = method === 'GET';
        for (let attempt = 0;; attempt++) {
            const last = attempt >= this.retries || (body !== undefined && !(body instanceof Uint8Array));
            try {
                const reply = await transport.request({ method, path, headers, body, signal,
                    silenceMs: call.silenceMs ?? this.timeoutMs });
                if (reply.status < 400 || !failing)
                    return reply;
                const failure = await this.failure(reply, path);
                if (!looks || last || (reply.status !== 429 && reply.status !== 503))
                    throw failure;
            }
            catch (error) {
                const again = error instanceof Unreachable && !(error instanceof BadCertificate) && (looks || !error.sent);
                if (!again || last)
                    throw error;
            }
            await pause(100 * 3 ** attempt, signal);
        }
    }
    async failure(reply, path) {
        const text = textOf(await bytes(reply));
        let error;
        try {
            error = JSON.parse(text).error;
        }
        catch { /* somebody else's answer, such as a proxy's */ }
        error ??= { message: `status ${reply.status} from ${this.url}, not from a cubby daemon` };
        return errorOf(reply.status, error, reply.header, /path=|\/files/.test(path));
    }
    /** An operation of the API by its operationId. */
    call(operation, path, call = {}) {
        const [method, target] = this.target(operation, path, call.query);
        return this.send(method, target, call);
    }
    /** The same, and the answer as an object. */
    async json(operation, path = [], call = {}) {
        const text = textOf(await bytes(await this.call(operation, path, call)));
        try {
            return text ? JSON.parse(text) : undefined;
        }
        catch {
            throw new Protocol("the daemon's answer is not JSON");
        }
    }
    /** The same, for an answer that is an event stream: [name, id, data]. `resume` changes the query before a new try. */
    async *events_(operation, path, call, resume = false) {
        for (let lost;; await pause(200, call.signal)) {
            let ended = false, reply;
            try {
                reply = await this.call(operation, path, { ...call, headers: { ...call.headers, Accept: 'text/event-stream' } });
                for await (const event of eventsOf(reply)) {
                    lost = 0; // there is a connection
                    if (event[0] === 'error')
                        throw errorOf(0, event[2], () => null, false);
                    ended = event[0] === 'exit';
                    yield event;
                }
                if (ended)
                    return;
                throw new Unreachable('the event stream ended early', true);
            }
            catch (error) {
                if (!resume || ended || !(error instanceof Unreachable) || lost === undefined)
                    throw error;
                lost ||= Date.now();
                if (Date.now() - lost > PATIENCE_MS)
                    throw error;
            }
            finally {
                if (!ended)
                    reply?.cancel();
            }
        }
    }
    /** Ends the connections. Boxes stay. */
    close() {
        this.opening?.then((transport) => transport.close(), () => undefined);
        this.opening = undefined;
    }
    [Symbol.dispose]() {
        this.close();
    }
    // ---- boxes ----
    /** The box of this user and thread, made if there is none; without a thread a new one. */
    box(options = {}) {
        return Box.create({ ...options, client: this });
    }
    /** The box of this id, which exists. */
    connect(id) {
        return new Box(this, id);
    }
    /** What running boxes use, every two seconds: first of all of them, then of those that changed. */
    async *usages(options = {}) {
        for await (const [, , data] of this.events_('box_usage_stream', [], { query: snake(options), ...only(options) }))
            yield data;
    }
    /** Who has boxes; for admins. */
    async users(options = {}) {
        return (await this.json('user_list', [], options)).users;
    }
    /** Which agents there are; for admins. */
    async agents(options = {}) {
        return (await this.json('agent_names', [], options)).agents;
    }
    /** All boxes that one may see, by their ids; q: with these words; fields: only these members, 'id,state'. */
    async boxes(options = {}) {
        return (await this.json('box_list', [], { query: snake(options), ...only(options) })).boxes;
    }
    /** What this token, or this place, may do. */
    whoami(options = {}) {
        return this.json('whoami', [], options);
    }
    /** A ticket for one request that cannot carry the token, such as a WebSocket of a browser. */
    ticket(options) {
        return this.json('ticket_for', [], { body: { for: options.for, box: options.box }, ...only(options) });
    }
    /** Trades a ticket for a token that holds half a day, and uses it from then on. */
    async login(ticket, options = {}) {
        const answer = await this.json('login', [], { body: { ticket }, ...options });
        this.token = answer.token;
        return answer;
    }
    /** Deletes all boxes of a user; how many there were. */
    async deleteBoxes(user, options = {}) {
        return (await this.json('box_destroy_all', [], { query: { user }, ...options })).ended;
    }
    // ---- the daemon ----
    health(options = {}) {
        return this.json('health', [], options);
    }
    info(options = {}) {
        return this.json('info', [], options);
    }
    /** Counters in the text form of Prometheus. */
    async metrics(options = {}) {
        return textOf(await bytes(await this.call('metrics', [], options)));
    }
    /** The certificate of the authority that boxes with an inspected host trust. */
    networkCa(options = {}) {
        return this.json('network_ca', [], options);
    }
    /** The agent tools, with their JSON schemas. */
    async tools(options = {}) {
        return (await this.json('tool_list', [], options)).tools;
    }
    /** Runs what a person typed in a chat (!ls -la, !cd DIR, !get FILE, !!) in the sender's box of that chat. */
    bang(thread, text, options = {}) {
        return this.json('bang', [thread], { body: { text, ...snake(options) }, silenceMs: EXEC_MS + SLACK_MS, ...only(options) });
    }
    /** What happens to boxes, for ever; after: '0' also has what is still known. A lost connection is taken up again. */
    async *events(options = {}) {
        const query = snake(options);
        for await (const [type, id, data] of this.events_('events', [], { query, ...only(options) }, true)) {
            if (id)
                query['after'] = id;
            yield { type, ...data };
        }
    }
    /** Who did what, row by row; follow: also what is still to come. */
    async *audit(options = {}) {
        const { follow, ...rest } = options, query = { limit: 1000, ...snake(rest) };
        if (follow)
            query['wait_ms'] = 30_000;
        for (;;) {
            const page = await this.json('audit', [], { query, silenceMs: 90_000, ...only(options) });
            for (const row of page.events)
                yield named(row, 'detail');
            query['after'] = page.next;
            delete query['tail'];
            if (!follow && !page.truncated)
                return;
        }
    }
    /** Whether the audit log is whole and unchanged. */
    auditVerify(options = {}) {
        return this.json('audit_verify', [], options);
    }
}
async function bytes(reply) {
    const parts = [];
    for await (const part of reply.body)
        parts.push(part);
    return join(parts);
}
/** The signal alone, of options that have more. */
const only = (options) => options.signal ? { signal: options.signal } : {};
// ---- parts of a daemon ----
/** Who may use the daemon; for admins. */
export class Tokens {
    client;
    constructor(client) {
        this.client = client;
    }
    create(options = {}) {
        return this.client.json('token_create', [], { body: snake(options), ...only(options) });
    }
    async list(options = {}) {
        return (await this.client.json('token_list', [], options)).tokens;
    }
    async revoke(id, options = {}) {
        await this.client.json('token_revoke', [id], options);
    }
}
/** What boxes are made from; for admins. */
export class Templates {
    client;
    constructor(client) {
        this.client = client;
    }
    async list(options = {}) {
        return (await this.client.json('template_list', [], options)).templates.map((each) => each.name);
    }
    /** From a tar archive. */
    async create(name, archive, options = {}) {
        await this.client.json('template_import', [name], { raw: archive, headers: { 'Content-Type': 'application/x-tar' }, ...options });
    }
    async delete(name, options = {}) {
        await this.client.json('template_remove', [name], options);
    }
}
/** Values that boxes use and never have. */
export class Secrets {
    client;
    constructor(client) {
        this.client = client;
    }
    /** Stores a secret, or changes it: user, value, from, hosts, slots, methods, paths, ports, env, prefix, scrub, wide. */
    set(name, secret, options = {}) {
        return this.client.json('secret_set', [name], { body: { ...secret }, ...options });
    }
    get(name, options = {}) {
        return this.client.json('secret_get', [name], { query: snake(options), ...only(options) });
    }
    async list(options = {}) {
        return (await this.client.json('secret_list', [], { query: snake(options), ...only(options) })).secrets;
    }
    async delete(name, options = {}) {
        await this.client.json('secret_removed', [name], { query: snake(options), ...only(options) });
    }
}
/** Machines that joined the daemon. */
export class Machines {
    client;
    constructor(client) {
        this.client = client;
    }
    async list(options = {}) {
        return (await this.client.json('machine_list', [], { query: snake(options), ...only(options) })).machines;
    }
    async sendAway(name, options = {}) {
        await this.client.json('machine_send_away', [name], { query: snake(options), ...only(options) });
    }
}
/** Workers that a daemon makes boxes on; for admins. */
export class Workers {
    client;
    constructor(client) {
        this.client = client;
    }
    async list(options = {}) {
        return (await this.client.json('worker_list', [], options)).workers;
    }
    /** No new box is made on it from now on; those that it has stay. */
    drain(name, options = {}) {
        return this.client.json('worker_drain', [name], options);
    }
    /** It gets new boxes again. */
    open(name, options = {}) {
        return this.client.json('worker_open', [name], options);
    }
}
/** Skills and sub-agents that users share. */
export class Registry {
    client;
    constructor(client) {
        this.client = client;
    }
    async search(options = {}) {
        return (await this.client.json('registry_search', [], { query: snake(options), ...only(options) })).entries;
    }
    get(entry, options = {}) {
        return this.client.json('registry_get', [entry], { query: snake(options), ...only(options) });
    }
    /** box, name, and perhaps type, version, sharing, description, tags. */
    publish(entry, options = {}) {
        return this.client.json('registry_publish', [], { body: { ...entry }, ...options });
    }
    async unpublish(entry, options = {}) {
        await this.client.json('registry_unpublish', [entry], { query: snake(options), ...only(options) });
    }
}
/** MCP servers of a user, which run in their boxes. */
export class McpServers {
    client;
    constructor(client) {
        this.client = client;
    }
    async list(options = {}) {
        return (await this.client.json('server_list', [], { query: snake(options), ...only(options) })).servers;
    }
    get(name, options = {}) {
        return this.client.json('server_get', [name], { query: snake(options), ...only(options) });
    }
    set(name, server, options = {}) {
        return this.client.json('server_put', [name], { body: snake(server), query: snake(options), ...only(options) });
    }
    async delete(name, options = {}) {
        await this.client.json('server_remove', [name], { query: snake(options), ...only(options) });
    }
}
// ---- commands ----
function itemOf(name, data) {
    if (name === 'stdout' || name === 'stderr')
        return new Output(name, data.encoding === 'base64' ? fromBase64(data.data) : encoder.encode(data.data));
    return name === 'exit' ? new Exit(new Result(data, { stdout: new Uint8Array(0), stderr: new Uint8Array(0) })) : undefined;
}
async function collect(stream, options = {}) {
    const kept = new Collected();
    for await (const item of stream) {
        if (item instanceof Exit)
            return kept.result(item.result);
        kept.add(item);
        (item.stream === 'stdout' ? options.onStdout : options.onStderr)?.(item.text);
    }
    throw new Unreachable('the output ended without a result', true);
}
/** A command in the background. It goes on when nobody looks at it. */
export class Process {
    box;
    pid;
    constructor(box, pid) {
        this.box = box;
        this.pid = pid;
    }
    info(options = {}) {
        return this.box.json('process_get', [this.pid], options);
    }
    /** Its exit code, -1 when a signal ended it, null while it runs. */
    async poll(options = {}) {
        const { state, exit_code } = await this.info(options);
        return state === 'running' ? null : exit_code ?? -1;
    }
    /** Its output from an offset on, and what is still to come. A restart of the daemon does not disturb it. */
    async *follow(options = {}) {
        const query = { offset: 0, stderr_offset: 0, ...snake(options) };
        for await (const [name, , data] of this.box.events('process_output', [this.pid], { query, ...only(options) }, true)) {
            const item = itemOf(name, data);
            if (item instanceof Output)
                query[item.stream === 'stdout' ? 'offset' : 'stderr_offset'] += item.data.length;
            if (item)
                yield item;
        }
    }
    /** Waits for its end; Timeout when that takes longer, and the process goes on. */
    async wait(options = {}) {
        const control = new AbortController(), { signal, timeoutMs } = options;
        const onAbort = () => control.abort(aborted(signal));
        if (signal?.aborted)
            throw aborted(signal);
        signal?.addEventListener('abort', onAbort, { once: true });
        const late = new Timeout(`process ${this.pid} still runs after ${timeoutMs} ms`);
        const timer = timeoutMs === undefined ? undefined : setTimeout(() => control.abort(late), timeoutMs);
        try {
            return await collect(this.follow({ signal: control.signal }));
        }
        finally {
            clearTimeout(timer);
            signal?.removeEventListener('abort', onAbort);
        }
    }
    /** What it printed from an offset on. */
    async output(options = {}) {
        const reply = await this.box.call('process_output', [this.pid], { query: snake(options), ...only(options),
            silenceMs: (options.waitMs ?? 0) + SLACK_MS });
        return { data: await bytes(reply), nextOffset: Number(reply.header('x-next-offset')),
            firstOffset: Number(reply.header('x-first-offset')), state: reply.header('x-process-state') ?? '' };
    }
    /** Feeds its standard input. */
    async write(data, options = {}) {
        await this.box.json('process_stdin', [this.pid], { query: { eof: options.eof }, raw: data, headers: BYTES_TYPE, ...only(options) });
    }
    closeStdin(options = {}) {
        return this.write('', { eof: true, ...options });
    }
    /** Signals its process group: 'TERM', 'SIGTERM' or a number. */
    async signal(signal, options = {}) {
        await this.box.json('process_signal', [this.pid], { body: { signal }, ...options });
    }
    kill(options = {}) {
        return this.signal('KILL', options);
    }
}
/** A shell that lives from command to command: its directory and variables stay. */
export class Session {
    box;
    name;
    constructor(box, name) {
        this.box = box;
        this.name = name;
    }
    /** @internal */
    static async open(box, options, more) {
        return new Session(box, (await box.json('session_open', [], { body: options, ...more })).name);
    }
    /** Runs a command when its turn comes. With waitMs or quietMs it may go on after this answer: see details.state. */
    async run(command, options = {}) {
        const { check, ...rest } = options;
        const result = new Result(await this.box.json('session_exec', [this.name], { body: { command, ...snake(rest) },
            silenceMs: Math.max(options.timeoutMs ?? EXEC_MS, options.waitMs ?? 0) + SLACK_MS, ...only(options) }));
        if (check && !result.ok)
            throw new CommandFailed(result);
        return result;
    }
    /** The same, as a loop over its output; leaving the loop early ends the command. */
    async *stream(command, options = {}) {
        for await (const [name, , data] of this.box.events('session_exec', [this.name], { body: { command, ...snake(options) },
            ...only(options) })) {
            const item = itemOf(name, data);
            if (item)
                yield item;
        }
    }
    /** Looks at it; with waitMs as soon as it runs nothing. */
    info(options = {}) {
        return this.box.json('session_get', [this.name], { query: snake(options), silenceMs: (options.waitMs ?? 0) + SLACK_MS, ...only(options) });
    }
    /** Types to the command that runs. */
    async write(data, options = {}) {
        await this.box.json('session_stdin', [this.name], { raw: data, headers: BYTES_TYPE, ...options });
    }
    /** Ends the command that runs; the session stays. */
    stop(options = {}) {
        return this.box.json('session_stop', [this.name], options);
    }
    /** Ends the session with all it started. */
    async close(options = {}) {
        await this.box.json('session_end', [this.name], options);
    }
}
/** A terminal in a box. A loop reads it; disposing of it ends it; detach() leaves it running. */
export class Pty {
    box;
    channel;
    own;
    pid;
    /** Bytes of output that were read; with pid, a later terminal goes on from there. */
    offset;
    /** How it ended. */
    exit;
    constructor(box, channel, own, offset) {
        this.box = box;
        this.channel = channel;
        this.own = own;
        this.offset = offset;
    }
    /** @internal */
    static async open(box, query, options) {
        const [, target] = box.client.target('pty', [box.id], query);
        const channel = await (await box.client.transport()).channel(target, box.client.headers(), options.signal);
        const pty = new Pty(box, channel, query['pid'] === undefined, Number(query['offset'] ?? 0));
        pty.reading = pty.read();
        pty.pid = query['pid'];
        if (pty.pid === undefined)
            pty.pending = await pty.reading.next(); // stops at the first output, or the end
        return pty;
    }
    reading;
    pending;
    async *read() {
        for await (const message of this.channel) {
            if (typeof message !== 'string') {
                yield message;
                continue;
            }
            const { started, exit, error } = JSON.parse(message);
            if (started) {
                this.pid = started.pid;
                yield new Uint8Array(0);
            }
            else if (error)
                throw errorOf(0, error, () => null, false);
            else if (exit) {
                this.exit = new Result(exit, { stdout: new Uint8Array(0), stderr: new Uint8Array(0) });
                return;
            }
        }
        if (!this.exit)
            throw new Unreachable('the connection to the terminal ended', true);
    }
    async *[Symbol.asyncIterator]() {
        for (;;) {
            const { done, value } = this.pending ?? await this.reading.next();
            this.pending = undefined;
            if (done)
                return;
            this.offset += value.length;
            if (value.length)
                yield value;
        }
    }
    /** Types. */
    write(data) {
        const raw = bytesOf(data);
        for (let at = 0; at < raw.length; at += 32768)
            this.channel.send(raw.subarray(at, at + 32768));
    }
    resize(cols, rows) {
        this.channel.send(JSON.stringify({ resize: { cols, rows } }));
    }
    /** Ends the connection; the terminal goes on. */
    detach() {
        this.channel.close();
    }
    /** Ends the terminal with what runs in it. */
    async kill(options = {}) {
        this.detach();
        if (this.pid === undefined || this.exit)
            return;
        await new Process(this.box, this.pid).kill(options).catch((error) => { if (!(error instanceof NotFound))
            throw error; });
    }
    async [Symbol.asyncDispose]() {
        if (this.own)
            await this.kill();
        else
            this.detach();
    }
}
// ---- files ----
const tarText = (header, at, text) => header.set(encoder.encode(text), at);
/** A tar archive of files in memory: names longer than ustar has room for get a record of their own. */
function tar(files) {
    const parts = [];
    const entry = (name, kind, data) => {
        const header = new Uint8Array(512);
        header.set(name.subarray(0, 100));
        tarText(header, 100, '0000644\0' + '0000000\0'.repeat(2) + data.length.toString(8).padStart(11, '0') + '\0' + '0'.repeat(11) + '\0');
        tarText(header, 148, ' '.repeat(8) + kind);
        tarText(header, 257, 'ustar\x0000');
        const sum = header.reduce((total, byte) => total + byte, 0);
        tarText(header, 148, sum.toString(8).padStart(6, '0') + '\0 ');
        parts.push(header, data, new Uint8Array((512 - data.length % 512) % 512));
    };
    for (const [name, data] of files) {
        const raw = encoder.encode(name);
        if (raw.length > 100)
            entry(encoder.encode('././@LongLink'), 'L', join([raw, new Uint8Array(1)]));
        entry(raw, '0', data);
    }
    return join([...parts, new Uint8Array(1024)]);
}
/** The files of a box. */
export class Files {
    box;
    constructor(box) {
        this.box = box;
    }
    async read(path, options = {}) {
        const reply = await this.box.call('file_get', [], { query: { path }, ...only(options) });
        if (options.as === 'stream')
            return reply.body;
        const data = await bytes(reply);
        return options.as === 'bytes' ? data : textOf(data);
    }
    /** Writes a file whole or not at all; missing directories are made. Answers with its ETag. */
    async write(path, data, options = {}) {
        const { mode, parents = true, append, ifMatch } = options;
        const reply = await this.box.call('file_put', [], { raw: data, ...only(options),
            query: { path, mode: typeof mode === 'number' ? mode.toString(8) : mode, parents, append },
            headers: { ...BYTES_TYPE, ...(ifMatch ? { 'If-Match': ifMatch } : {}) } });
        await bytes(reply);
        return reply.header('etag');
    }
    /** Writes several files in one request, all or none. */
    async writeMany(files, path, options = {}) {
        if (path !== undefined)
            await this.mkdir(path, { parents: true, ...options });
        return this.unpack(tar(Object.entries(files).map(([name, data]) => [name, bytesOf(data)])), path, options);
    }
    /** Unpacks a tar archive below a directory, whole or not at all. */
    async unpack(archive, path, options = {}) {
        const answer = await this.box.json('archive_put', [], { raw: archive, query: { path }, headers: { 'Content-Type': 'application/x-tar' }, ...options });
        for (const skipped of answer.skipped)
            named(skipped, 'name');
        return answer;
    }
    /** A directory as a tar archive. */
    async archive(path, options = {}) {
        return (await this.box.call('archive_get', [], { query: { path }, ...options })).body;
    }
    async stat(path, options = {}) {
        return named(await this.box.json('file_stat', [], { query: { path }, ...options }), 'name', 'path', 'link_target');
    }
    async exists(path, options = {}) {
        return this.stat(path, options).then(() => true, (error) => {
            if (error instanceof FileNotFound)
                return false;
            throw error;
        });
    }
    /** Entries, in no order; sort 'name': pages of at most 1000 in order, each after the last path of the one before. */
    async list(path, options = {}) {
        const { entries } = await this.box.json('file_list', [], { query: { path, ...snake(options) }, ...only(options) });
        return entries.map((entry) => named(entry, 'name', 'path', 'link_target'));
    }
    async remove(path, options = {}) {
        await this.box.json('file_delete', [], { query: { path, ...snake(options) }, ...only(options) });
    }
    async mkdir(path, options = {}) {
        await this.box.json('file_mkdir', [], { body: naming({ path, ...snake(options) }, 'path'), ...only(options) });
    }
    async move(from, to, options = {}) {
        await this.box.json('file_move', [], { body: naming({ from, to, ...snake(options) }, 'from', 'to'), ...only(options) });
    }
    /** Paths that match: * ? [] {} and **, which crosses directories. */
    async glob(pattern, options = {}) {
        return named(await this.box.json('file_glob', [], { body: naming({ pattern, ...snake(options) }, 'pattern', 'path'), ...only(options) }), 'paths').paths;
    }
    /** Lines that match a Perl-compatible expression. */
    async grep(pattern, options = {}) {
        const answer = await this.box.json('file_grep', [], { body: naming({ pattern, ...snake(options) }, 'pattern', 'path', 'glob'), ...only(options) });
        for (const match of answer.matches)
            named(match, 'path', 'text', 'before', 'after');
        return answer;
    }
    /** SHA-256 of a file, in hexadecimal. */
    async hash(path, options = {}) {
        return (await this.box.json('file_hash', [], { query: { path }, ...options })).sha256;
    }
    /** Replaces a text in a file: the only place, or all. */
    edit(path, old, replacement, options = {}) {
        return this.box.json('file_edit', [], { body: naming({ path, old, new: replacement, ...snake(options) }, 'path', 'old', 'new'), ...only(options) });
    }
    /** Changes, for ever: type created, modified, removed or moved. The first item has type ready: from there on all are seen. */
    async *watch(path, options = {}) {
        for await (const [type, , data] of this.box.events('file_watch', [], { query: { path, ...snake(options) }, ...only(options) }))
            yield named({ type, ...data }, 'path', 'to');
    }
}
// ---- parts of a box ----
/** Kept states of the files of a box. */
export class Snapshots {
    box;
    constructor(box) {
        this.box = box;
    }
    create(name, options = {}) {
        return this.box.json('snapshot_create', [], { body: { name }, ...options });
    }
    async list(options = {}) {
        return (await this.box.json('snapshot_list', [], options)).snapshots;
    }
    async delete(name, options = {}) {
        await this.box.json('snapshot_remove', [name], options);
    }
}
/** What a box may reach. */
export class Network {
    box;
    constructor(box) {
        this.box = box;
    }
    get(options = {}) {
        return this.box.json('network_get', [], options);
    }
    /** Replaces the policy: none, open, or an object with mode, allow, deny, limits, log, ask_timeout_ms. */
    set(network, options = {}) {
        return this.box.json('network_set', [], { body: typeof network === 'string' ? { network } : network, query: snake(options), ...only(options) });
    }
    /** Adds entries to the policy or removes some. */
    change(change, options = {}) {
        return this.box.json('network_patch', [], { body: { ...change }, query: snake(options), ...only(options) });
    }
    /** Takes the network away. */
    remove(options = {}) {
        return this.box.json('network_remove', [], { query: snake(options), ...only(options) });
    }
    /** What would happen to a connection, and why. */
    test(to, options = {}) {
        return this.box.json('network_test', [], { query: { to }, ...options });
    }
    /** The smallest policy that allows what the box has reached or tried. */
    async learned(options = {}) {
        return (await this.box.json('network_learned', [], options)).network;
    }
    /** Answers a question of a box whose policy has mode ask. */
    async answer(answer, options = {}) {
        await this.box.json('network_answer', [], { body: snake(answer), ...options });
    }
}
/** Secrets that a box may use. */
export class BoxSecrets {
    box;
    constructor(box) {
        this.box = box;
    }
    bind(name, options = {}) {
        return this.box.json('secret_bind', [name], { body: snake(options), ...only(options) });
    }
    async unbind(name, options = {}) {
        await this.box.json('secret_unbind', [name], options);
    }
    async list(options = {}) {
        return (await this.box.json('secret_bindings', [], options)).secrets;
    }
}
/** Agent tools of a box, and those of its user's MCP servers. */
export class Tools {
    box;
    constructor(box) {
        this.box = box;
    }
    async list(options = {}) {
        return (await this.box.json('box_tools', [], options)).tools;
    }
    call(name, args = {}, options = {}) {
        return this.box.json('tool', [name], { body: args, silenceMs: EXEC_MS + SLACK_MS, ...only(options),
            headers: options.thread ? { 'Cubby-Thread': options.thread } : {} });
    }
    /** Kept results that show files which have changed since. */
    stale(options = {}) {
        return this.box.json('offload_refresh', [], options);
    }
}
/** Skills that a box has to offer. */
export class Skills {
    box;
    constructor(box) {
        this.box = box;
    }
    async list(options = {}) {
        return (await this.box.json('skill_list', [], options)).skills;
    }
    /** The same as a block for a system prompt. */
    async prompt(options = {}) {
        return textOf(await bytes(await this.box.call('skill_list', [], { query: { format: 'prompt' }, ...options })));
    }
    /** Skills out of a ZIP. */
    upload(archive, options = {}) {
        return this.box.json('skill_upload', [], { raw: archive, query: snake(options), headers: { 'Content-Type': 'application/zip' }, ...only(options) });
    }
    install(entry, options = {}) {
        return this.box.json('skill_install', [], { body: { entry, ...snake(options) }, ...only(options) });
    }
    async remove(name, options = {}) {
        await this.box.json('skill_remove', [name], { query: snake(options), ...only(options) });
    }
    async sync(name, direction, options = {}) {
        await this.box.json('skill_sync', [name], { body: { direction }, ...options });
    }
    /** Places global skills and sub-agents in the box again. */
    place(options = {}) {
        return this.box.json('sync', [], options);
    }
    /** What became of them. */
    placed(options = {}) {
        return this.box.json('synced', [], options);
    }
}
/** Sub-agents that a box has to offer. */
export class Agents {
    box;
    constructor(box) {
        this.box = box;
    }
    async list(options = {}) {
        return (await this.box.json('agent_list', [], options)).agents;
    }
    async prompt(options = {}) {
        return textOf(await bytes(await this.box.call('agent_list', [], { query: { format: 'prompt' }, ...options })));
    }
    install(entry, options = {}) {
        return this.box.json('agent_install', [], { body: { entry, ...snake(options) }, ...only(options) });
    }
    async remove(name, options = {}) {
        await this.box.json('agent_remove', [name], options);
    }
}
/** A server in a box. */
export class Port {
    box;
    port;
    constructor(box, port) {
        this.box = box;
        this.port = port;
    }
    /** Where the daemon leads to it by HTTP; requests need the same token as all others. */
    get url() {
        if (this.box.client.url.startsWith('unix:'))
            throw new Unsupported('a daemon on a unix socket has no URL for a port');
        return `${this.box.client.url.replace(/\/+$/, '')}/v1/boxes/${this.box.id}/ports/${this.port}/`;
    }
    /** A URL that opens it in a browser, for a minute. */
    ticket(options = {}) {
        return this.box.json('ticket', [], { body: { port: this.port }, ...options });
    }
    /** A request to it. Its errors are answers, not exceptions. */
    async request(path = '/', options = {}) {
        const reply = await this.box.client.send(options.method ?? 'GET', `/v1/boxes/${this.box.id}/ports/${this.port}/${path.replace(/^\/+/, '')}`, { headers: options.headers ?? {}, ...(options.body === undefined ? {} : { raw: options.body }), ...only(options) }, false);
        return { status: reply.status, header: reply.header, body: await bytes(reply) };
    }
}
/** A box: a shell and files of its own. */
export class Box {
    client;
    id;
    files = new Files(this);
    snapshots = new Snapshots(this);
    network = new Network(this);
    secrets = new BoxSecrets(this);
    tools = new Tools(this);
    skills = new Skills(this);
    agents = new Agents(this);
    /** As E2B spells it. */
    commands = {
        run: (command, options = {}) => {
            const { background, envs, ...rest } = options, more = envs ? { ...rest, env: envs } : rest;
            return background ? this.spawn(command, more) : this.run(command, more);
        },
        list: (options = {}) => this.processes(options),
        connect: (pid) => new Process(this, pid),
        kill: (pid, options = {}) => new Process(this, pid).kill(options),
        sendStdin: (pid, data, options = {}) => new Process(this, pid).write(data, options),
    };
    thread;
    own = false;
    end;
    constructor(client, id) {
        this.client = client;
        this.id = id;
    }
    /** The box of this user and thread, made if there is none; without a thread it is a new one. `await using` ends what it
     * began: a box with a thread is released, one without is deleted. */
    static async create(options = {}) {
        const { client, envs, metadata, signal, ...rest } = options;
        const used = client ?? new Client();
        const made = await used.json('box_acquire', [], { body: boxRequest({ ...rest, ...(envs ? { env: envs } : {}),
                ...(metadata ? { labels: metadata } : {}) }), ...(signal ? { signal } : {}) });
        const box = new Box(used, made.id);
        box.own = !client;
        box.thread = made.thread ?? undefined;
        box.end = rest.thread || rest.agent || rest.machine ? 'release' : 'delete';
        return box;
    }
    /** The box of this id, which exists. */
    static connect(id, client = new Client()) {
        return new Box(client, id);
    }
    get sandboxId() {
        return this.id;
    }
    /** @internal */
    call(operation, path = [], call = {}) {
        return this.client.call(operation, [this.id, ...path], call);
    }
    /** @internal */
    json(operation, path = [], call = {}) {
        return this.client.json(operation, [this.id, ...path], call);
    }
    /** @internal */
    events(operation, path, call, resume = false) {
        return this.client.events_(operation, [this.id, ...path], call, resume);
    }
    // ---- commands ----
    /** Runs a command; a loop sees its Output, then one Exit. Leaving the loop early ends the command. stdinOpen: its
     * standard input stays open; onStarted has the pid to feed. */
    async *stream(command, options = {}) {
        const { input, onStarted, ...rest } = options;
        const body = { ...commandOf(command), ...inputOf(input), ...snake(rest) };
        for await (const [name, , data] of this.events('exec', [], { body, ...only(options) })) {
            if (name === 'started')
                onStarted?.(data.pid);
            const item = itemOf(name, data);
            if (item)
                yield item;
        }
    }
    /** Runs a command and waits for it. A string is a line for the shell, an array a program and its arguments. */
    async run(command, options = {}) {
        const { check, onStdout, onStderr, input, outputLimitBytes, ...rest } = options;
        const result = onStdout || onStderr ? await collect(this.stream(command, input === undefined ? rest : { ...rest, input }), options)
            : new Result(await this.json('exec', [], { silenceMs: (options.timeoutMs ?? EXEC_MS) + SLACK_MS, ...only(options),
                body: { ...commandOf(command), ...inputOf(input), ...snake(rest), output_limit_bytes: outputLimitBytes } }));
        if (check && !result.ok)
            throw new CommandFailed(result);
        return result;
    }
    /** Starts a command in the background. */
    async spawn(command, options = {}) {
        const { input, ...rest } = options;
        const { pid } = await this.json('process_start', [], { body: { ...commandOf(command), ...inputOf(input), ...snake(rest) }, ...only(options) });
        return new Process(this, pid);
    }
    /** Commands in the background, also those that have ended. */
    async processes(options = {}) {
        return (await this.json('process_list', [], options)).processes;
    }
    process(pid) {
        return new Process(this, pid);
    }
    /** A shell that lives from command to command: the one of this name, or a new one. */
    session(name, options = {}) {
        return Session.open(this, { name, ...snake(options) }, only(options));
    }
    async sessions(options = {}) {
        return (await this.json('session_list', [], options)).sessions;
    }
    /** A terminal; with pid one that runs already, from an offset of its output on. */
    pty(options = {}) {
        const query = snake(options);
        if (options.env)
            query['env'] = JSON.stringify(options.env);
        return Pty.open(this, query, only(options));
    }
    // ---- files as a whole ----
    /** What differs from the template. */
    async diff(options = {}) {
        return (await this.json('diff', [], { query: snake(options), ...only(options) })).changes.map((change) => named(change, 'path'));
    }
    /** The files become those of a snapshot; what runs is ended first. */
    rollback(snapshot, options = {}) {
        return this.json('rollback', [], { body: { snapshot }, ...options });
    }
    /** A new box with the same files and settings. */
    async fork(options = {}) {
        return new Box(this.client, (await this.json('fork', [], { body: snake(options), ...only(options) })).id);
    }
    /** A box on a worker moves to another one; what runs in it is ended with stop. */
    relocate(options = {}) {
        return this.json('box_relocate', [], { body: snake(options), silenceMs: 600_000, ...only(options) });
    }
    /** A container box becomes one image of one layer. */
    export(options = {}) {
        return this.json('box_export', [], { silenceMs: 600_000, ...options });
    }
    // ---- reaching it ----
    /** A server in the box. */
    port(port) {
        return new Port(this, port);
    }
    /** The host name under which browsers reach a server in the box. */
    async getHost(port, options = {}) {
        return (await this.port(port).ticket(options)).origin.replace(/^.*\/\//, '');
    }
    /** Runs an agent tool in the box. */
    tool(name, args = {}, options = {}) {
        return this.tools.call(name, args, options);
    }
    /** Where an MCP client finds this box. */
    mcp() {
        if (this.client.url.startsWith('unix:'))
            throw new Unsupported('a daemon on a unix socket has no URL for MCP clients');
        if (!this.thread)
            throw new Unsupported('MCP finds a box by its thread, and this one has none');
        return { url: `${this.client.url.replace(/\/+$/, '')}/mcp`, headers: this.client.headers({ 'Cubby-Thread': this.thread }) };
    }
    // ---- its life ----
    /** Everything about it; looking does not wake it. */
    info(options = {}) {
        return this.json('box_get', [], options);
    }
    /** What it used over time. */
    async usage(options = {}) {
        return (await this.json('box_usage', [], { query: snake(options), ...only(options) })).samples;
    }
    /** It stays, and may be ended when idle. */
    release(options = {}) {
        return this.json('box_release', [], options);
    }
    /** Its processes stop, and keep their memory. */
    pause(options = {}) {
        return this.json('box_pause', [], options);
    }
    resume(options = {}) {
        return this.json('box_resume', [], options);
    }
    /** Starts a box whose processes ended, on its files. */
    start(options = {}) {
        return this.json('box_start', [], options);
    }
    /** Nothing of it remains. */
    async delete(options = {}) {
        await this.json('box_destroy', [], options);
    }
    /** As E2B spells it. */
    kill(options = {}) {
        return this.delete(options);
    }
    async [Symbol.asyncDispose]() {
        try {
            if (this.end)
                await this[this.end]();
        }
        catch (error) {
            if (!(error instanceof NotFound))
                throw error; // somebody deleted it
        }
        finally {
            if (this.own)
                this.client.close();
        }
    }
}
export { Box as Sandbox };
