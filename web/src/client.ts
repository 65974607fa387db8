// The parts of the TypeScript client that the page needs: its transport, its errors and its table of operations. The
// whole client has more than the first screen may weigh.
import { CubbyError, errorOf, Unauthorized, Unreachable } from '../../clients/typescript/dist/errors.js';
import { FetchTransport, join, type Reply } from '../../clients/typescript/dist/transport.js';
import { ROUTES } from '../../clients/typescript/dist/wire.js';

export { CubbyError, Unauthorized, Unreachable };
export type { Reply };
export interface Call {
  query?: Record<string, unknown>;
  body?: Record<string, unknown>;
  raw?: Uint8Array | Blob | string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Milliseconds without a byte from the daemon; 60 000 unless given. */
  silenceMs?: number;
}

const encoder = new TextEncoder();
const transport = new FetchTransport(location.origin);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function bytesOf(reply: Reply): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  for await (const part of reply.body) parts.push(part);
  return join(parts);
}
export const textOf = async (reply: Reply) => new TextDecoder().decode(await bytesOf(reply));

/** Method and path of an operation, with its query. */
export function target(operation: string, path: unknown[], query: Record<string, unknown> = {}): [string, string] {
  const [method, ...parts] = ROUTES[operation]!;
  const at = parts.map((part) => typeof part === 'string' ? part : encodeURIComponent(String(path[part]))).join('');
  const asked = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return [method, at + (asked.length ? `?${asked.join('&')}` : '')];
}

/** A request; an answer that is an error is thrown. A GET is tried again once when the daemon is busy. */
export async function send(token: string | undefined, method: string, path: string, call: Call = {}): Promise<Reply> {
  const headers: Record<string, string> = { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...call.headers };
  const body = call.body ? encoder.encode(JSON.stringify(call.body)) : typeof call.raw === 'string' ? encoder.encode(call.raw) : call.raw;
  if (call.body) headers['Content-Type'] = 'application/json';
  for (let attempt = 0; ; attempt++) {
    const reply = await transport.request({ method, path, headers, body, signal: call.signal, silenceMs: call.silenceMs ?? 60_000 });
    if (reply.status < 400) return reply;
    const text = await textOf(reply);
    let error: { code?: string; message?: string };
    try {
      error = JSON.parse(text).error ?? { message: text.slice(0, 300) };
    } catch {
      error = { message: `status ${reply.status}, not from a cubby daemon` };
    }
    const failure = errorOf(reply.status, error, reply.header, /path=|\/files/.test(path));
    if (method !== 'GET' || attempt || (reply.status !== 429 && reply.status !== 503)) throw failure;
    await pause(300);
  }
}

/** The events of a reply: [name, id, data]. Throws Unreachable when the stream ends before an exit event. */
export async function* events(reply: Reply): AsyncGenerator<[string, string, any]> {
  const decoder = new TextDecoder();
  let rest = '', name = '', id = '', data: string[] = [], ended = false;
  try {
    for await (const piece of reply.body) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
      rest = lines.pop()!;
      for (const line of lines) {
        if (!line) {
          if (data.length) {
            const value = JSON.parse(data.join('\n'));
            if (name === 'error') throw errorOf(0, value, () => null, false);
            ended = name === 'exit';
            yield [name, id, value];
          }
          name = '';
          data = [];
          continue;
        }
        const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line)!;
        if (field === 'data') data.push(value!);
        else if (field === 'event') name = value!;
        else if (field === 'id') id = value!;
      }
    }
    if (!ended) throw new Unreachable('the event stream ended early', true);
  } finally {
    if (!ended) reply.cancel();
  }
}
