// The daemon behind the page: requests, who we are, and whether it is there. Every request of the page goes through here.
import { batch, signal } from '@preact/signals';
import { bytesOf, CubbyError, events, send, target as targetOf, textOf, Unauthorized, Unreachable, type Call, type Reply } from './client';

export { bytesOf, CubbyError, textOf, type Call, type Reply };
export interface Who {
  scope: string;
  user: string | null;
  open: boolean;
  id?: string | null;
  label?: string | null;
  expires_at?: string | null;
}

/** unknown: not asked yet; login: a token is needed; revoked: the one we had is not accepted any more. */
export const state = signal<'unknown' | 'login' | 'revoked' | 'in'>('unknown');
export const who = signal<Who>({ scope: 'admin', user: null, open: true });
export const info = signal<Record<string, any> | null>(null);
/** When the daemon was last heard, in milliseconds; null while it answers. */
export const offlineSince = signal<number | null>(null);
/** This tab is looked at: only then it keeps streams open, of which a browser allows a host six. */
export const shown = signal(document.visibilityState === 'visible');
document.addEventListener('visibilitychange', () => { shown.value = document.visibilityState === 'visible'; });
/** Counts logins and returns of the daemon: what was loaded before is loaded again. */
export const epoch = signal(0);

const STORED = 'cubby.token';
const stores = { tab: () => sessionStorage, machine: () => localStorage };
export type Keep = 'memory' | keyof typeof stores;

function storedToken(): string | undefined {
  for (const store of Object.values(stores))
    try {
      const found = store().getItem(STORED);
      if (found) return found;
    } catch { /* no storage */ }
  return undefined;
}

let token = storedToken();

export const hasToken = () => token !== undefined;
export const may = (what: 'write' | 'admin') => what === 'admin' ? who.value.scope === 'admin' : who.value.scope !== 'read';
export const can = (feature: string) => (info.value?.['features'] as string[] | undefined)?.includes(feature) ?? false;

function seen(error: unknown): never {
  if (error instanceof Unreachable) lost();
  if (error instanceof Unauthorized && state.value !== 'login') state.value = hasToken() ? 'revoked' : 'login';
  throw error;
}

/** An operation of the API by its operationId; its answer as an object. */
export async function api(operation: string, path: unknown[] = [], call: Call = {}): Promise<any> {
  const text = await textOf(await apiReply(operation, path, call)).catch(seen);
  return text ? JSON.parse(text) : undefined;
}
/** The same, for answers that are not JSON. */
export const apiReply = (operation: string, path: unknown[] = [], call: Call = {}): Promise<Reply> => {
  const [method, at] = targetOf(operation, path, call.query);
  return send(token, method, at, call).catch(seen);
};
/** Any path, as JSON: for routes that the table of operations does not know. */
export async function ask(method: string, path: string, call: Call = {}): Promise<any> {
  const text = await textOf(await send(token, method, path, call).catch(seen)).catch(seen);
  return text ? JSON.parse(text) : undefined;
}
/** The path and query of an operation, for downloads and WebSockets. */
export const target = (operation: string, path: unknown[], query?: Record<string, unknown>) => targetOf(operation, path, query)[1];
/** An event stream: [name, id, data]. Throws when the connection is lost. */
export async function* apiEvents(operation: string, path: unknown[], call: Call): AsyncGenerator<[string, string, any]> {
  yield* events(await apiReply(operation, path, { ...call, headers: { ...call.headers, Accept: 'text/event-stream' } }));
}

/** A ticket, where requests need a token: for what cannot carry a header. */
export async function ticket(purpose: 'pty' | 'files' | 'port', box: string): Promise<string | undefined> {
  if (!hasToken()) return undefined;
  return (await ask('POST', '/v1/tickets', { body: { for: purpose, box } })).ticket as string;
}

/** A WebSocket of ours, with a ticket where one is needed. */
export async function socket(path: string, box: string): Promise<WebSocket> {
  const pass = await ticket('pty', box);
  const at = location.origin.replace(/^http/, 'ws') + path;
  return pass ? new WebSocket(at, ['cubby.v1', `ticket.${pass}`]) : new WebSocket(at);
}

// ---- login ----

async function identify(): Promise<void> {
  info.value = await api('info');
  try {
    who.value = { open: false, ...await ask('GET', '/v1/whoami') };
  } catch (error) {
    if (!(error instanceof CubbyError) || error.code !== 'NOT_FOUND') throw error;
    who.value = { scope: 'admin', user: null, open: !hasToken() };
  }
  batch(() => { state.value = 'in'; epoch.value++; });
}

export async function login(given: string, keep: Keep): Promise<void> {
  const before = token;
  token = given;
  try {
    await identify();
  } catch (error) {
    token = before;
    throw error;
  }
  forget();
  if (keep !== 'memory')
    try {
      stores[keep]().setItem(STORED, given);
    } catch { /* it is kept in memory only */ }
}

function forget(): void {
  for (const store of Object.values(stores))
    try {
      store().removeItem(STORED);
    } catch { /* there was none */ }
}

export function logout(): void {
  forget();
  token = undefined;
  state.value = 'login';
}

/** `cubby open` leads here with #t=TICKET: it is traded for a token, and gone from the address at once. */
async function redeem(): Promise<void> {
  const found = /^#t=([\w.-]{1,400})$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, '', location.pathname + location.search);
  const traded = await ask('POST', '/v1/login', { body: { ticket: found[1] } });
  if (traded.token) token = traded.token as string;
}

export async function start(): Promise<void> {
  await redeem().catch(() => undefined);
  await identify().catch(() => undefined);
}

// ---- a daemon that is gone ----

let watching = false;
function lost(): void {
  offlineSince.value ??= Date.now();
  if (watching) return;
  watching = true;
  const began = Date.now();
  const look = async () => {
    try {
      if (document.visibilityState === 'visible' && (await fetch('/healthz', { cache: 'no-store' })).ok) {
        watching = false;
        offlineSince.value = null;
        if (state.value === 'unknown') await identify().catch(() => undefined);
        else epoch.value++;
        return;
      }
    } catch { /* still gone */ }
    setTimeout(look, Date.now() - began < 20_000 ? 2000 : 10_000);
  };
  setTimeout(look, 1000);
}
export const reconnect = lost;
