// Requests and WebSockets by Node's own modules: unix sockets, certificates of one's own, connections that are kept.
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { BadCertificate, CubbyError, errorOf, Invalid, Protocol, Unreachable } from './errors.js';
import { aborted, Frames, frame, Queue, Silence } from './transport.js';
const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;
export class NodeTransport {
    options;
    prefix = '';
    module;
    where;
    constructor(url, ca) {
        this.where = url;
        if (url.startsWith('unix:')) {
            this.module = http;
            this.options = { socketPath: url.slice(5), agent: new http.Agent({ keepAlive: true }), headers: { host: 'localhost' } };
            return;
        }
        const { protocol, hostname, port, pathname } = new URL(url);
        if (protocol !== 'http:' && protocol !== 'https:')
            throw new Invalid(`'${url}' is not the URL of a daemon: write http://HOST:PORT, https://HOST or unix:/PATH`);
        this.module = protocol === 'https:' ? https : http;
        this.prefix = pathname.replace(/\/+$/, '');
        const agent = new this.module.Agent({ keepAlive: true, ...(ca ? { ca: this.authorities(ca) } : {}) });
        this.options = { hostname: hostname.replace(/^\[|\]$/g, ''), port, agent };
    }
    authorities(file) {
        try {
            return readFileSync(file);
        }
        catch (error) {
            throw new BadCertificate(`cannot read the certificates in '${file}': ${error.message}`, false);
        }
    }
    failure(error, sent) {
        const code = error.code ?? '';
        if (/CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code))
            return new BadCertificate(`the certificate of ${this.where} is not trusted: ${error.message}`, false);
        const never = ['ECONNREFUSED', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'EACCES'].includes(code);
        return new Unreachable(never ? `cannot connect to ${this.where}: ${error.message}`
            : `the connection to ${this.where} ended: ${error.message}`, sent && !never);
    }
    open(request) {
        const headers = { ...this.options.headers, ...request.headers };
        return this.module.request({ ...this.options, method: request.method, path: this.prefix + request.path, headers });
    }
    request(request) {
        const { signal, body } = request;
        return new Promise((resolve, reject) => {
            if (signal?.aborted)
                return reject(aborted(signal));
            const outgoing = this.open(request);
            const silence = new Silence(request.silenceMs, () => outgoing.destroy());
            const onAbort = () => outgoing.destroy();
            const done = () => { silence.stop(); signal?.removeEventListener('abort', onAbort); };
            const why = (error) => signal?.aborted ? aborted(signal) : silence.late ? silence.error()
                : error instanceof CubbyError ? error : this.failure(error, true);
            signal?.addEventListener('abort', onAbort, { once: true });
            let answered = false;
            outgoing.on('response', (answer) => {
                answered = true;
                silence.seen();
                resolve({ status: answer.statusCode ?? 0, header: (name) => headerOf(answer, name),
                    cancel: () => { done(); answer.destroy(); outgoing.destroy(); }, body: this.read(answer, silence, why, done) });
            });
            outgoing.on('error', (error) => { done(); reject(why(error)); });
            outgoing.on('close', () => { if (!answered) {
                done();
                reject(why(new Error('no answer')));
            } });
            if (body === undefined || body instanceof Uint8Array)
                outgoing.end(body);
            else
                this.send(outgoing, body, silence).catch((error) => { outgoing.destroy(error); reject(error); });
        });
    }
    async send(outgoing, body, silence) {
        const pieces = body instanceof Blob ? body.stream() : body;
        for await (const piece of pieces) {
            if (outgoing.destroyed)
                return; // its own event says why
            silence.seen();
            if (!outgoing.write(piece))
                await new Promise((resolve) => {
                    const go = () => { outgoing.off('drain', go).off('close', go); resolve(); };
                    outgoing.on('drain', go).on('close', go);
                });
        }
        outgoing.end();
    }
    async *read(answer, silence, why, done) {
        try {
            for await (const piece of answer) {
                silence.hold(); // the caller may be slow
                yield piece;
                silence.seen();
            }
            if (!answer.complete)
                throw new Error('it ended in the middle of an answer');
        }
        catch (error) {
            throw why(error);
        }
        finally {
            done();
            if (!answer.complete)
                answer.destroy();
        }
    }
    channel(path, headers, signal) {
        const key = randomBytes(16).toString('base64');
        const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
        return new Promise((resolve, reject) => {
            if (signal?.aborted)
                return reject(aborted(signal));
            const outgoing = this.open({ method: 'GET', path, headers: { ...headers, Connection: 'Upgrade', Upgrade: 'websocket',
                    'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key } });
            const onAbort = () => { outgoing.destroy(); reject(aborted(signal)); };
            signal?.addEventListener('abort', onAbort, { once: true });
            outgoing.on('error', (error) => reject(this.failure(error, true)));
            outgoing.on('response', (answer) => {
                const parts = [];
                answer.on('data', (part) => parts.push(part));
                answer.on('end', () => reject(refusal(answer, Buffer.concat(parts).toString())));
            });
            outgoing.on('upgrade', (answer, socket, head) => {
                signal?.removeEventListener('abort', onAbort);
                if (answer.headers['sec-websocket-accept'] === accept)
                    return resolve(new NodeChannel(socket, head, signal));
                socket.destroy();
                reject(new Protocol('the daemon, or a proxy before it, does not speak WebSocket'));
            });
            outgoing.end();
        });
    }
    close() {
        this.options.agent.destroy();
    }
}
function headerOf(answer, name) {
    const value = answer.headers[name.toLowerCase()];
    return Array.isArray(value) ? value.join(', ') : value ?? null;
}
function refusal(answer, text) {
    try {
        return errorOf(answer.statusCode ?? 0, JSON.parse(text).error, (name) => headerOf(answer, name), false);
    }
    catch {
        return new Protocol(`status ${answer.statusCode}, and not from a cubby daemon`);
    }
}
class NodeChannel {
    socket;
    frames = new Frames();
    queue = new Queue();
    constructor(socket, head, signal) {
        this.socket = socket;
        const onAbort = () => { this.queue.end(aborted(signal)); socket.destroy(); };
        signal?.addEventListener('abort', onAbort, { once: true });
        socket.on('data', (data) => this.take(data));
        socket.on('error', () => this.queue.end());
        socket.on('close', () => { signal?.removeEventListener('abort', onAbort); this.queue.end(); });
        this.queue.drained = () => socket.resume();
        this.take(head);
    }
    take(data) {
        try {
            for (const [kind, payload] of this.frames.feed(data)) {
                if (kind === TEXT)
                    this.queue.put(new TextDecoder().decode(payload));
                else if (kind === BINARY)
                    this.queue.put(payload);
                else if (kind === PING)
                    this.socket.write(frame(PONG, payload));
                else if (kind === CLOSE)
                    this.close();
            }
        }
        catch (error) {
            this.queue.end(error);
            this.close();
        }
        if (this.queue.length > 64)
            this.socket.pause(); // a slow reader slows its terminal down
    }
    send(data) {
        this.socket.write(typeof data === 'string' ? frame(TEXT, new TextEncoder().encode(data)) : frame(BINARY, data));
    }
    close() {
        this.queue.end();
        this.socket.destroy();
    }
    [Symbol.asyncIterator]() {
        return this.queue[Symbol.asyncIterator]();
    }
}
