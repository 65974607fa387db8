// One event stream of the daemon for the whole page. It resumes after the last event that was seen.
import { apiEvents, epoch, reconnect, shown, state, CubbyError } from './session';
import { effect } from '@preact/signals';

export interface BoxEvent {
  id: string;
  type: string;
  time: string;
  box: string | null;
  user: string | null;
  thread: string | null;
  why: string | null;
  [more: string]: unknown;
}
const readers = new Set<(event: BoxEvent) => void>();
let last = '', running: AbortController | undefined;

export function onEvent(read: (event: BoxEvent) => void): () => void {
  readers.add(read);
  return () => { readers.delete(read); };
}

async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted)
    try {
      for await (const [type, id, data] of apiEvents('events', [], { query: last ? { after: last } : {}, signal })) {
        if (id) last = id;
        for (const read of readers) read({ ...data, type: data.type ?? type, id });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CubbyError) || error.status === undefined) {
        reconnect();
        return; // epoch changes when the daemon is back
      }
      if (error.code === 'INVALID') last = '';
      await new Promise((resolve) => setTimeout(resolve, 5000));
    }
}

effect(() => {
  epoch.value;
  running?.abort();
  if (state.value !== 'in' || !shown.value) return;
  running = new AbortController();
  void follow(running.signal);
});
