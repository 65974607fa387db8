// The one part that differs between runtimes: requests and WebSockets. Node has its own modules, which know unix sockets;
// browsers, Deno and Bun have fetch and WebSocket.
import { BadCertificate, Protocol, Unreachable, Unsupported } from './errors.js';

export type Body = Uint8Array | Blob | AsyncIterable<Uint8Array>;

export interface Request {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: Body | undefined;
  /** Bytes of a body that is not bytes already, where that is known. */
  size?: number | undefined;
  /** Milliseconds without a byte from the daemon. */
  silenceMs: number;
  signal?: AbortSignal | undefined;
}

export interface Reply {
  status: number;
  header(name: string): string | null;
  /** The body; leaving the loop early ends the request. */
  body: AsyncIterable<Uint8Array>;
  /** Ends the request, and so what it began. */
  cancel(): void;
}

/** Messages of a WebSocket: text or bytes. The loop ends when the connection does. */
export interface Channel extends AsyncIterable<string | Uint8Array> {
  send(data: string | Uint8Array): void;
  close(): void;
}

export interface Transport {
  request(request: Request): Promise<Reply>;
  channel(path: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Channel>;
  close(): void;
}

/** Why an operation was given up: the signal's own reason. */
export const aborted = (signal: AbortSignal): unknown =>
  signal.reason ?? new DOMException('This operation was aborted', 'AbortError');

/** A queue between callbacks and a loop. */
export class Queue<T> implements AsyncIterable<T> {
  private items: T[] = [];
  private wake: (() => void) | undefined;
  private ended = false;
  private failure: unknown;
  /** Called when a loop has taken everything. */
  drained: (() => void) | undefined;
  get length(): number {
    return this.items.length;
  }
  put(item: T): void {
    this.items.push(item);
    this.wake?.();
  }
  end(failure?: unknown): void {
    if (this.ended) return;
    this.ended = true;
    this.failure = failure;
    this.wake?.();
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      while (this.items.length) yield this.items.shift() as T;
      this.drained?.();
      if (this.failure) throw this.failure;
      if (this.ended) return;
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
  }
}

// ---- fetch ----

const inBrowser = typeof document !== 'undefined';

function streamOf(source: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() { await iterator.return?.(); },
  });
}

/** For browsers, Deno and Bun. */
export class FetchTransport implements Transport {
  constructor(private readonly base: string) {}

  async request(request: Request): Promise<Reply> {
    const control = new AbortController(), { signal } = request;
    const onAbort = () => control.abort(signal && aborted(signal));
    if (signal?.aborted) throw aborted(signal);
    signal?.addEventListener('abort', onAbort, { once: true });
    const silence = new Silence(request.silenceMs, () => control.abort());
    let body: BodyInit | null = null;
    const options: RequestInit & { duplex?: 'half' } = {
      method: request.method, headers: request.headers, signal: control.signal, redirect: 'manual', cache: 'no-store' };
    if (request.body instanceof Uint8Array || request.body instanceof Blob) body = request.body as BodyInit;
    else if (request.body && inBrowser) body = await new Response(streamOf(request.body)).blob();
    else if (request.body) {
      body = streamOf(request.body);
      options.duplex = 'half';
    }
    const done = () => { silence.stop(); signal?.removeEventListener('abort', onAbort); };
    const why = (error: unknown) => signal?.aborted ? aborted(signal)
      : silence.late ? silence.error() : new Unreachable(`cannot reach ${this.base}: ${(error as Error).message}`, true);
    try {
      const answer = await fetch(this.base + request.path, body === null ? options : { ...options, body });
      silence.seen();
      const cancel = () => { done(); control.abort(); };
      return { status: answer.status, header: (name) => answer.headers.get(name), cancel,
        body: this.read(answer, silence, why, cancel, done) };
    } catch (error) {
      done();
      throw why(error);
    }
  }

  private async *read(answer: Response, silence: Silence, why: (error: unknown) => unknown, cancel: () => void,
    done: () => void): AsyncGenerator<Uint8Array> {
    const reader = answer.body?.getReader();
    let whole = false;
    try {
      for (;;) {
        const { done: end, value } = reader ? await reader.read() : { done: true, value: undefined };
        silence.seen();
        if (end) break;
        silence.hold(); // the caller may be slow
        yield value as Uint8Array;
        silence.seen();
      }
      whole = true;
    } catch (error) {
      throw why(error);
    } finally {
      if (whole) done();
      else cancel();
    }
  }

  async channel(path: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Channel> {
    const url = this.base.replace(/^http/, 'ws') + path;
    if (inBrowser && headers['Authorization'])
      throw new Unsupported('a browser cannot send a token with a WebSocket; use a daemon that needs none, or a proxy');
    // Deno and Bun take headers, browsers do not.
    const socket = inBrowser ? new WebSocket(url)
      : new (WebSocket as unknown as new (url: string, more: object) => WebSocket)(url, { headers });
    socket.binaryType = 'arraybuffer';
    const queue = new Queue<string | Uint8Array>();
    const onAbort = () => { queue.end(aborted(signal!)); socket.close(); };
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.onmessage = ({ data }) => queue.put(typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer));
    await new Promise<void>((resolve, reject) => {
      socket.onopen = () => resolve();
      socket.onerror = () => reject(new Unreachable(`no WebSocket to ${this.base}`, true));
    });
    socket.onerror = null;
    socket.onclose = () => { signal?.removeEventListener('abort', onAbort); queue.end(); };
    return { send: (data) => socket.send(data as string), close: () => socket.close(),
      [Symbol.asyncIterator]: () => queue[Symbol.asyncIterator]() };
  }

  close(): void {}
}

/** A limit for silence: `late` when nothing was seen for so long. One timer looks at the time of the last byte, since a
 * timer for each piece costs more than reading it. */
export class Silence {
  late = false;
  private last = performance.now();
  private timer: ReturnType<typeof setTimeout> | undefined;
  constructor(private readonly ms: number, private readonly expire: () => void) {
    this.seen();
  }
  seen(): void {
    this.last = performance.now();
    this.timer ??= setTimeout(() => this.look(), this.ms);
  }
  /** Nothing is expected: the caller is slow, or all has come. */
  hold(): void {
    this.last = Infinity;
  }
  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.hold();
  }
  private look(): void {
    const left = this.ms - (performance.now() - Math.min(this.last, performance.now()));
    this.timer = undefined;
    if (left > 0 || this.last === Infinity) this.timer = setTimeout(() => this.look(), Math.max(left, 1));
    else {
      this.late = true;
      this.expire();
    }
  }
  error(): Unreachable {
    return new Unreachable(`the daemon sent nothing for ${this.ms / 1000} s`, true);
  }
}

// ---- WebSocket frames, for Node ----

export function frame(kind: number, data: Uint8Array): Uint8Array {
  const size = data.length, at = size < 126 ? 2 : size < 65536 ? 4 : 10;
  const out = new Uint8Array(at + 4 + size), view = new DataView(out.buffer);
  out[0] = 0x80 | kind;
  out[1] = 0x80 | (size < 126 ? size : size < 65536 ? 126 : 127);
  if (at === 4) view.setUint16(2, size);
  if (at === 10) view.setBigUint64(2, BigInt(size));
  const mask = out.subarray(at, at + 4);
  crypto.getRandomValues(mask);
  for (let i = 0; i < size; i++) out[at + 4 + i] = data[i]! ^ mask[i & 3]!;
  return out;
}

const MESSAGE_MAX = 64 << 20;

/** Messages out of frames. */
export class Frames {
  private buffer = new Uint8Array(0);
  private parts: Uint8Array[] = [];
  private kind = 0;
  feed(data: Uint8Array): [number, Uint8Array][] {
    this.buffer = join([this.buffer, data]);
    const found: [number, Uint8Array][] = [];
    for (let b = this.buffer; b.length >= 2; b = this.buffer) {
      const short = b[1]! & 0x7f, at = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (b.length < at) break;
      const view = new DataView(b.buffer, b.byteOffset, b.length);
      const size = at === 2 ? short : at === 4 ? view.getUint16(2) : Number(view.getBigUint64(2));
      if (size > MESSAGE_MAX) throw new Protocol('a message is too long');
      if (b.length < at + size) break;
      const kind = b[0]! & 15, payload = b.slice(at, at + size), final = (b[0]! & 0x80) !== 0;
      this.buffer = b.slice(at + size);
      if (kind >= 8) {
        found.push([kind, payload]);
        continue;
      }
      this.kind = kind || this.kind;
      this.parts.push(payload);
      if (final) found.push([this.kind, join(this.parts.splice(0))]);
    }
    return found;
  }
}

export function join(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** The transport for where this runs. */
export async function transportOf(url: string, ca: string | undefined): Promise<Transport> {
  const runtime = globalThis as { process?: { versions?: { node?: string } }; Deno?: unknown; Bun?: unknown };
  const unix = url.startsWith('unix:');
  if (runtime.process?.versions?.node && (unix || ca || (!runtime.Deno && !runtime.Bun)))
    return new (await import('./node.js')).NodeTransport(url, ca);
  if (unix) throw new Unsupported('a browser cannot reach a unix socket');
  if (ca) throw new BadCertificate('certificates cannot be set here: the browser trusts its own', false);
  return new FetchTransport(url.replace(/\/+$/, ''));
}
