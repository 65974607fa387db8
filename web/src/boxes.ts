// All boxes, live: a list, then events for what changes and a stream of what they use while someone looks.
import { batch, effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Box } from '../../clients/typescript/dist/wire.js';
import { onEvent } from './events';
import { api, apiEvents, can, epoch, shown, state } from './session';

export interface Row extends Box {
  /** Per cent of one processor, from two looks; null: not known yet. */
  cpu: number | null;
}
export const boxes = signal<Map<string, Row>>(new Map());
export const boxesError = signal<unknown>(null);
export const boxesLoaded = signal(false);

const looks = new Map<string, { at: number; ms: number }>();
function measured(box: Box, at: number): Row {
  const before = looks.get(box.id), ms = box.usage.cpu_ms;
  let cpu: number | null = null;
  if (ms === null || !box.running) looks.delete(box.id);
  else {
    if (before && ms >= before.ms && at - before.at > 400) cpu = Math.min(100 * (ms - before.ms) / (at - before.at), 12_800);
    if (!before || at - before.at > 400) looks.set(box.id, { at, ms });
    cpu ??= boxes.peek().get(box.id)?.cpu ?? null;
  }
  return { ...box, cpu };
}

let loading: Promise<void> | undefined;
export function reloadBoxes(): Promise<void> {
  return loading ??= (async () => {
    try {
      const found = (await api('box_list')).boxes as Box[], at = performance.now();
      const next = new Map(found.map((box) => [box.id, measured(box, at)]));
      for (const id of looks.keys()) if (!next.has(id)) looks.delete(id);
      batch(() => { boxes.value = next; boxesError.value = null; boxesLoaded.value = true; });
    } catch (error) {
      boxesError.value = error;
    } finally {
      loading = undefined;
    }
  })();
}

/** One box has changed, or may have. */
export async function refreshBox(id: string): Promise<void> {
  try {
    const box = await api('box_get', [id]) as Box;
    boxes.value = new Map(boxes.value).set(id, measured(box, performance.now()));
  } catch (error) {
    if ((error as { code?: string }).code === 'NOT_FOUND' && boxes.value.has(id)) {
      const next = new Map(boxes.value);
      next.delete(id);
      boxes.value = next;
    }
  }
}

const changed = new Set<string>();
let timer = 0, users = 0;
function later(id: string | null): void {
  if (!users) return;
  if (id) changed.add(id);
  if (timer) return;
  timer = window.setTimeout(async () => {
    const ids = [...changed];
    timer = 0;
    changed.clear();
    if (ids.length > 4 || !ids.length) await reloadBoxes();
    else await Promise.all(ids.map(refreshBox));
  }, 120);
}
onEvent((event) => later(event.type === 'lost' ? null : event.box));

// ---- what they use, from one stream while someone looks ----

/** cpu_ms, memory_bytes, pids */
export type Usage = [number | null, number | null, number | null];
const usageReaders = new Set<(at: string, rows: Map<string, Usage>) => void>();
export function onUsage(read: (at: string, rows: Map<string, Usage>) => void): () => void {
  usageReaders.add(read);
  return () => { usageReaders.delete(read); };
}
/** A first row has all boxes that run, later ones those that changed: what is not named used no processor. */
function use(at: string, rows: Map<string, Usage>): void {
  const next = new Map(boxes.peek()), now = performance.now();
  for (const [id, box] of next) {
    const row = rows.get(id);
    if (!row) {
      if (box.cpu !== 0 && box.running && box.usage.cpu_ms !== null) next.set(id, { ...box, cpu: 0 });
    } else if (row[0] === null && row[1] === null) later(id);
    else next.set(id, measured({ ...box, usage: { ...box.usage, cpu_ms: row[0], memory_bytes: row[1], pids: row[2] } }, now));
  }
  boxes.value = next;
  for (const read of usageReaders) read(at, rows);
}
const watchers = signal(0);
async function watchUsage(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      for await (const [, , data] of apiEvents('box_usage_stream', [], { signal, silenceMs: 600_000 }))
        use(data.at as string, new Map((data.boxes as [string, ...Usage][]).map(([id, ...rest]) => [id, rest])));
    } catch { /* events.ts looks after a daemon that is gone */ }
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5000));
  }
}
let watching: AbortController | undefined;
effect(() => {
  epoch.value;
  const wanted = watchers.value > 0 && shown.value && state.value === 'in' && can('usage_stream');
  watching?.abort();
  watching = undefined;
  if (!wanted) return;
  watching = new AbortController();
  void watchUsage(watching.signal);
});
/** Keeps the usage of boxes live while a view shows it. Returns how often the rest is looked at, in milliseconds. */
export function useUsage(): number {
  useEffect(() => {
    watchers.value++;
    return () => { watchers.value--; };
  }, []);
  return can('usage_stream') ? 60_000 : 5000;
}

/** Keeps the list live while a view shows it. */
export function useBoxes(): Map<string, Row> {
  const version = epoch.value, ready = state.value === 'in' && shown.value, pause = useUsage();
  useEffect(() => {
    if (!ready) return;
    let next = 0, ended = false;
    users++;
    const look = async () => {
      const began = performance.now();
      await reloadBoxes();
      if (!ended) next = window.setTimeout(look, Math.max(pause, 10 * (performance.now() - began)));
    };
    void look();
    return () => { ended = true; users--; clearTimeout(next); };
  }, [version, ready]);
  return boxes.value;
}

export const nameOf = (box: { thread: string | null; agent: string | null; id: string }) => box.thread ?? box.agent ?? box.id;
