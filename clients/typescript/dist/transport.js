// The one part that differs between runtimes: requests and WebSockets. Node has its own modules, which know unix sockets;
// browsers, Deno and Bun have fetch and WebSocket.
import { BadCertificate, Protocol, Unreachable, Unsupported } from './errors.js';
/** Why an operation was given up: the signal's own reason. */
export const aborted = (signal) => signal.reason ?? new DOMException('This operation was aborted', 'AbortError');
/** A queue between callbacks and a loop. */
export class Queue {
    items = [];
    wake;
    ended = false;
    failure;
    /** Called when a loop has taken everything. */
    drained;
    get length() {
        return this.items.length;
    }
    put(item) {
        this.items.push(item);
        this.wake?.();
    }
    end(failure) {
        if (this.ended)
            return;
        this.ended = true;
        this.failure = failure;
        this.wake?.();
    }
    async *[Symbol.asyncIterator]() {
        for (;;) {
            while (this.items.length)
                yield this.items.shift();
            this.drained?.();
            if (this.failure)
                throw this.failure;
            if (this.ended)
                return;
            await new Promise((resolve) => { this.wake = resolve; });
        }
    }
}
// ---- fetch ----
const inBrowser = typeof document !== 'undefined';
function streamOf(source) {
    const iterator = source[Symbol.asyncIterator]();
    return new ReadableStream({
        async pull(controller) {
            const { done, value } = await iterator.next();
            if (done)
                controller.close();
            else
                controller.enqueue(value);
        },
        async cancel() { await iterator.return?.(); },
    });
}
/** For browsers, Deno and Bun. */
export class FetchTransport {
    base;
    constructor(base) {
        this.base = base;
    }
    async request(request) {
        const control = new AbortController(), { signal } = request;
        const onAbort = () => control.abort(signal && aborted(signal));
        if (signal?.aborted)
            throw aborted(signal);
        signal?.addEventListener('abort', onAbort, { once: true });
        const silence = new Silence(request.silenceMs, () => control.abort());
        let body = null;
        const options = {
            method: request.method, headers: request.headers, signal: control.signal, redirect: 'manual', cache: 'no-store'
        };
        if (request.body instanceof Uint8Array || request.body instanceof Blob)
            body = request.body;
        else if (request.body && inBrowser)
            body = await new Response(streamOf(request.body)).blob();
        else if (request.body) {
            body = streamOf(request.body);
            options.duplex = 'half';
        }
        const done = () => { silence.stop(); signal?.removeEventListener('abort', onAbort); };
        const why = (error) => signal?.aborted ? aborted(signal)
            : silence.late ? silence.error() : new Unreachable(`cannot reach ${this.base}: ${error.message}`, true);
        try {
            const answer = await fetch(this.base + request.path, body === null ? options : { ...options, body });
            silence.seen();
            const cancel = () => { done(); control.abort(); };
            return { status: answer.status, header: (name) => answer.headers.get(name), cancel,
                body: this.read(answer, silence, why, cancel, done) };
        }
        catch (error) {
            done();
            throw why(error);
        }
    }
    async *read(answer, silence, why, cancel, done) {
        const reader = answer.body?.getReader();
        let whole = false;
        try {
            for (;;) {
                const { done: end, value } = reader ? await reader.read() : { done: true, value: undefined };
                silence.seen();
                if (end)
                    break;
                silence.hold(); // the caller may be slow
                yield value;
                silence.seen();
            }
            whole = true;
        }
        catch (error) {
            throw why(error);
        }
        finally {
            if (whole)
                done();
            else
                cancel();
        }
    }
    async channel(path, headers, signal) {
        const url = this.base.replace(/^http/, 'ws') + path;
        if (inBrowser && headers['Authorization'])
            throw new Unsupported('a browser cannot send a token with a WebSocket; use a daemon that needs none, or a proxy');
        // Deno and Bun take headers, browsers do not.
        const socket = inBrowser ? new WebSocket(url)
            : new WebSocket(url, { headers });
        socket.binaryType = 'arraybuffer';
        const queue = new Queue();
        const onAbort = () => { queue.end(aborted(signal)); socket.close(); };
        signal?.addEventListener('abort', onAbort, { once: true });
        socket.onmessage = ({ data }) => queue.put(typeof data === 'string' ? data : new Uint8Array(data));
        await new Promise((resolve, reject) => {
            socket.onopen = () => resolve();
            socket.onerror = () => reject(new Unreachable(`no WebSocket to ${this.base}`, true));
        });
        socket.onerror = null;
        socket.onclose = () => { signal?.removeEventListener('abort', onAbort); queue.end(); };
        return { send: (data) => socket.send(data), close: () => socket.close(),
            [Symbol.asyncIterator]: () => queue[Symbol.asyncIterator]() };
    }
    close() { }
}
/** A limit for silence: `late` when nothing was seen for so long. One timer looks at the time of the last byte, since a
 * timer for each piece costs more than reading it. */
export class Silence {
    ms;
    expire;
    late = false;
    last = performance.now();
    timer;
    constructor(ms, expire) {
        this.ms = ms;
        this.expire = expire;
        this.seen();
    }
    seen() {
        this.last = performance.now();
        this.timer ??= setTimeout(() => this.look(), this.ms);
    }
    /** Nothing is expected: the caller is slow, or all has come. */
    hold() {
        this.last = Infinity;
    }
    stop() {
        clearTimeout(this.timer);
        this.timer = undefined;
        this.hold();
    }
    look() {
        const left = this.ms - (performance.now() - Math.min(this.last, performance.now()));
        this.timer = undefined;
        if (left > 0 || this.last === Infinity)
            this.timer = setTimeout(() => this.look(), Math.max(left, 1));
        else {
            this.late = true;
            this.expire();
        }
    }
    error() {
        return new Unreachable(`the daemon sent nothing for ${this.ms / 1000} s`, true);
    }
}
// ---- WebSocket frames, for Node ----
export function frame(kind, data) {
    const size = data.length, at = size < 126 ? 2 : size < 65536 ? 4 : 10;
    const out = new Uint8Array(at + 4 + size), view = new DataView(out.buffer);
    out[0] = 0x80 | kind;
    out[1] = 0x80 | (size < 126 ? size : size < 65536 ? 126 : 127);
    if (at === 4)
        view.setUint16(2, size);
    if (at === 10)
        view.setBigUint64(2, BigInt(size));
    const mask = out.subarray(at, at + 4);
    crypto.getRandomValues(mask);
    for (let i = 0; i < size; i++)
        out[at + 4 + i] = data[i] ^ mask[i & 3];
    return out;
}
const MESSAGE_MAX = 64 << 20;
/** Messages out of frames. */
export class Frames {
    buffer = new Uint8Array(0);
    parts = [];
    kind = 0;
    feed(data) {
        this.buffer = join([this.buffer, data]);
        const found = [];
        for (let b = this.buffer; b.length >= 2; b = this.buffer) {
            const short = b[1] & 0x7f, at = short < 126 ? 2 : short === 126 ? 4 : 10;
            if (b.length < at)
                break;
            const view = new DataView(b.buffer, b.byteOffset, b.length);
            const size = at === 2 ? short : at === 4 ? view.getUint16(2) : Number(view.getBigUint64(2));
            if (size > MESSAGE_MAX)
                throw new Protocol('a message is too long');
            if (b.length < at + size)
                break;
            const kind = b[0] & 15, payload = b.slice(at, at + size), final = (b[0] & 0x80) !== 0;
            this.buffer = b.slice(at + size);
            if (kind >= 8) {
                found.push([kind, payload]);
                continue;
            }
            this.kind = kind || this.kind;
            this.parts.push(payload);
            if (final)
                found.push([this.kind, join(this.parts.splice(0))]);
        }
        return found;
    }
}
export function join(parts) {
    const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        out.set(part, at);
        at += part.length;
    }
    return out;
}
/** The transport for where this runs. */
export async function transportOf(url, ca) {
    const runtime = globalThis;
    const unix = url.startsWith('unix:');
    if (runtime.process?.versions?.node && (unix || ca || (!runtime.Deno && !runtime.Bun)))
        return new (await import('./node.js')).NodeTransport(url, ca);
    if (unix)
        throw new Unsupported('a browser cannot reach a unix socket');
    if (ca)
        throw new BadCertificate('certificates cannot be set here: the browser trusts its own', false);
    return new FetchTransport(url.replace(/\/+$/, ''));
}
