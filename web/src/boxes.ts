// All boxes, live: a list, then events for what changes and a look at the usage every few seconds while someone looks.
import { batch, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Box } from '../../clients/typescript/dist/wire.js';
import { onEvent } from './events';
import { api, epoch, state } from './session';

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

/** Keeps the list live while a view shows it. */
export function useBoxes(): Map<string, Row> {
  const version = epoch.value, ready = state.value === 'in';
  useEffect(() => {
    if (!ready) return;
    let next = 0, ended = false;
    users++;
    const look = async () => {
      const began = performance.now();
      if (document.visibilityState === 'visible') await reloadBoxes();
      const every = Math.max(boxes.peek().size > 500 ? 10_000 : 4000, 10 * (performance.now() - began));
      if (!ended) next = window.setTimeout(look, every);
    };
    void look();
    const shown = () => { if (document.visibilityState === 'visible') void reloadBoxes(); };
    document.addEventListener('visibilitychange', shown);
    return () => { ended = true; users--; clearTimeout(next); document.removeEventListener('visibilitychange', shown); };
  }, [version, ready]);
  return boxes.value;
}

export const nameOf = (box: { thread: string | null; agent: string | null; id: string }) => box.thread ?? box.agent ?? box.id;
