import { Unreachable } from './errors.js';
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
export declare const aborted: (signal: AbortSignal) => unknown;
/** A queue between callbacks and a loop. */
export declare class Queue<T> implements AsyncIterable<T> {
    private items;
    private wake;
    private ended;
    private failure;
    /** Called when a loop has taken everything. */
    drained: (() => void) | undefined;
    get length(): number;
    put(item: T): void;
    end(failure?: unknown): void;
    [Symbol.asyncIterator](): AsyncGenerator<T>;
}
/** For browsers, Deno and Bun. */
export declare class FetchTransport implements Transport {
    private readonly base;
    constructor(base: string);
    request(request: Request): Promise<Reply>;
    private read;
    channel(path: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Channel>;
    close(): void;
}
/** A limit for silence: `late` when nothing was seen for so long. One timer looks at the time of the last byte, since a
 * timer for each piece costs more than reading it. */
export declare class Silence {
    private readonly ms;
    private readonly expire;
    late: boolean;
    private last;
    private timer;
    constructor(ms: number, expire: () => void);
    seen(): void;
    /** Nothing is expected: the caller is slow, or all has come. */
    hold(): void;
    stop(): void;
    private look;
    error(): Unreachable;
}
export declare function frame(kind: number, data: Uint8Array): Uint8Array;
/** Messages out of frames. */
export declare class Frames {
    private buffer;
    private parts;
    private kind;
    feed(data: Uint8Array): [number, Uint8Array][];
}
export declare function join(parts: Uint8Array[]): Uint8Array<ArrayBuffer>;
/** The transport for where this runs. */
export declare function transportOf(url: string, ca: string | undefined): Promise<Transport>;
