// Data of a view: loaded when it is first shown, when something it depends on changes, and after a login or a return.
import { useEffect, useRef, useState } from 'preact/hooks';
import { epoch } from './session';

export interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  /** true only after 150 ms, so that quick answers do not flicker */
  slow: boolean;
  reload: () => void;
}

/** Old data stays while new data comes. `live`: milliseconds between looks while the tab is visible. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], live = 0): Loaded<T> {
  const [result, setResult] = useState<{ data?: T; error?: unknown; slow: boolean }>({ slow: false });
  const [turn, setTurn] = useState(0);
  const version = epoch.value, loading = useRef(load);
  loading.current = load;
  useEffect(() => setResult({ slow: false }), deps);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const wait = setTimeout(() => setResult((now) => ({ ...now, slow: true })), 150);
    const run = async () => {
      try {
        if (document.visibilityState === 'visible' || !timer) {
          const data = await loading.current(control.signal);
          if (!control.signal.aborted) setResult({ data, slow: false });
        }
      } catch (error) {
        if (!control.signal.aborted) setResult((now) => ({ ...now, error, slow: false }));
      }
      clearTimeout(wait);
      if (live && !control.signal.aborted) timer = window.setTimeout(run, live);
    };
    void run();
    return () => { control.abort(); clearTimeout(timer); clearTimeout(wait); };
  }, [...deps, turn, version]);
  return { data: result.data, error: result.error, slow: result.slow, reload: () => setTurn((n) => n + 1) };
}
