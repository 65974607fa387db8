// One terminal of a box: a pty that outlives connections. The page keeps its pid and the number of bytes seen, and
// attaches again from there: after a lost connection nothing is doubled and nothing is missing.
import { effect, signal } from '@preact/signals';
import { CubbyError, api, epoch, socket, target } from './session';

export type Status = 'opening' | 'open' | 'lost' | 'ended' | 'failed';
const AHEAD = 1 << 20; // bytes given to the screen and not yet drawn
const encoder = new TextEncoder();

export interface Screen {
  write(data: Uint8Array, done: () => void): void;
  cols: number;
  rows: number;
}

export class Terminal {
  pid: number | undefined;
  /** Bytes of output that were given to the screen. */
  offset: number;
  readonly name = signal('');
  readonly status = signal<Status>('opening');
  readonly bell = signal(false);
  /** When the next try comes, in milliseconds; of status lost. */
  readonly retryAt = signal(0);
  /** Why it ended or failed. */
  readonly why = signal<{ code: number | null; signal: string | null } | string | null>(null);
  private socket: WebSocket | undefined;
  private screen: Screen | undefined;
  private tries = 0;
  private timer = 0;
  private behind = 0;
  private paused = false;
  private closed = false;
  /** What the daemon said last before it closed. */
  private refused = '';

  constructor(readonly box: string, readonly options: { pid?: number; cwd?: string; user?: string } = {}) {
    this.pid = options.pid;
    this.offset = 0; // a new screen begins empty: all that is kept is drawn again
  }

  /** Connects to a screen: the one that output goes to from now on. */
  attach(screen: Screen): void {
    this.screen = screen;
    void this.connect();
  }

  private async connect(): Promise<void> {
    if (this.closed || !this.screen) return;
    const { cols, rows } = this.screen;
    const query: Record<string, unknown> = this.pid === undefined
      ? { cols, rows, cwd: this.options.cwd, user: this.options.user }
      : { pid: this.pid, offset: this.offset };
    let opened = false;
    try {
      const found = await socket(target('pty', [this.box], query), this.box);
      if (this.closed) return found.close();
      this.socket = found;
      found.binaryType = 'arraybuffer';
      found.onopen = () => {
        opened = true;
        this.tries = 0;
        this.behind = 0;
        this.paused = false;
        this.status.value = 'open';
        this.resize(this.screen!.cols, this.screen!.rows);
      };
      found.onmessage = ({ data }) => typeof data === 'string' ? this.text(data) : this.bytes(new Uint8Array(data as ArrayBuffer));
      found.onclose = () => { if (this.socket === found) void this.dropped(opened); };
    } catch {
      void this.dropped(false);
    }
  }

  private bytes(data: Uint8Array): void {
    this.offset += data.length;
    this.behind += data.length;
    this.screen!.write(data, () => {
      this.behind -= data.length;
      this.flow();
    });
    this.flow();
  }
  /** A browser cannot stop reading: the daemon is asked to stop sending. */
  private flow(): void {
    const pause = this.paused ? this.behind > AHEAD / 4 : this.behind > AHEAD;
    if (pause === this.paused) return;
    this.paused = pause;
    this.send(JSON.stringify({ pause }));
  }

  private text(data: string): void {
    const message = JSON.parse(data) as Record<string, any>;
    if (message['started']) {
      this.pid = message['started'].pid as number;
      if (typeof message['started'].offset === 'number') this.offset = message['started'].offset;
      changed.value++;
    } else if (message['exit']) {
      this.end(message['exit'].exit_code ?? null, message['exit'].signal ?? null);
    } else if (message['error']) this.refused = String(message['error'].message ?? '');
  }

  /** The connection ended: ask why, since a WebSocket does not say. Looking does not start a box. */
  private async dropped(opened: boolean): Promise<void> {
    this.socket = undefined;
    if (this.closed || this.status.value === 'ended') return;
    this.status.value = 'lost';
    const signal = AbortSignal.timeout(4000);
    try {
      const box = await api('box_get', [this.box], { signal });
      if (this.pid === undefined && !opened && this.tries > 1) return this.fail(this.refused || 'no terminal could be opened');
      if (this.pid !== undefined && !box.running) return this.end(null, null);
      if (this.pid !== undefined && this.tries > 2) {
        const process = await api('process_get', [this.box, this.pid], { signal });
        if (process.state !== 'running') return this.end(process.exit_code ?? null, process.signal ?? null);
      }
    } catch (error) {
      if (error instanceof CubbyError && (error.code === 'NOT_FOUND' || error.code === 'GONE')) return this.fail(error.message);
    }
    const wait = Math.min(15_000, 500 * 2 ** Math.min(this.tries++, 5)) * (0.75 + Math.random() / 2);
    this.retryAt.value = Date.now() + wait;
    this.timer = window.setTimeout(() => void this.connect(), wait);
  }
  private fail(why: string): void {
    this.status.value = 'failed';
    this.why.value = why;
  }
  private end(code: number | null, signal: string | null): void {
    this.status.value = 'ended';
    this.why.value = { code, signal };
    changed.value++;
  }

  retry(): void {
    clearTimeout(this.timer);
    this.status.value = 'opening';
    void this.connect();
  }
  stop(): void {
    clearTimeout(this.timer);
    this.status.value = 'failed';
    this.why.value = null;
  }

  private send(data: string | Uint8Array): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(data as string);
  }
  /** Keys; long pastes go in pieces. */
  type(data: string | Uint8Array): void {
    const bytes = typeof data === 'string' ? encoder.encode(data) : data;
    for (let at = 0; at < bytes.length; at += 32768) this.send(bytes.subarray(at, at + 32768));
  }
  resize(cols: number, rows: number): void {
    this.send(JSON.stringify({ resize: { cols, rows } }));
  }
  /** Leaves it; what runs in it runs on unless it is ended. */
  close(end: boolean): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
    if (end && this.pid !== undefined && this.status.value !== 'ended')
      void api('process_signal', [this.box, this.pid], { body: { signal: 'SIGHUP' } }).catch(() => undefined);
  }
}

// ---- the terminals of a box in this tab ----

/** Changes when a list does: it is kept for the next load of the page. */
export const changed = signal(0);
const lists = new Map<string, ReturnType<typeof signal<Terminal[]>>>();
const STORED = 'cubby.terminals.';

export function terminalsOf(box: string) {
  let list = lists.get(box);
  if (!list) {
    let kept: number[] = [];
    try {
      kept = (JSON.parse(sessionStorage.getItem(STORED + box) ?? '[]') as { pid: number }[]).map((each) => each.pid).filter(Number.isInteger);
    } catch { /* none */ }
    list = signal(kept.map((pid) => new Terminal(box, { pid })));
    lists.set(box, list);
  }
  return list as ReturnType<typeof signal<Terminal[]>> & { value: Terminal[] };
}
// The daemon is back, or a new token was given: now, not at the next try.
effect(() => {
  epoch.value;
  for (const list of lists.values()) for (const each of list.peek() ?? []) if (each.status.peek() === 'lost') each.retry();
});
export function keep(box: string): void {
  const list = terminalsOf(box).value.filter((each) => each.pid !== undefined && each.status.value !== 'ended').map((each) => ({ pid: each.pid }));
  try {
    sessionStorage.setItem(STORED + box, JSON.stringify(list));
  } catch { /* they are not found again after a reload */ }
}
