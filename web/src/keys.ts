// Keys: single letters work unless a field, an editor or a terminal has the focus, and can be turned off (settings).
import { useEffect, useRef } from 'preact/hooks';
import { setting } from './settings';

export type Keys = Record<string, (event: KeyboardEvent) => void>;
const layers: { keys: Keys }[] = [];

const typing = (at: EventTarget | null) => at instanceof HTMLElement &&
  (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && !/^(checkbox|radio|button)$/.test((at as HTMLInputElement).type)
    || at.closest('.cm-editor, .term') !== null);

let prefix = '', prefixAt = 0;
addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const mod = event.ctrlKey || event.metaKey;
  let name = event.key;
  if (mod) name = `mod+${event.key.toLowerCase()}`;
  const single = !mod && !event.altKey;
  if (single && (typing(event.target) || (setting('keys') === 'off' && name.length === 1))) return;
  if (single && document.querySelector('dialog[open]')) return; // its own keys, Escape among them
  if (event.altKey) return;
  if (mod && event.shiftKey) return;
  const chord = prefix && Date.now() - prefixAt < 1500 ? `${prefix} ${name}` : name;
  prefix = '';
  for (let i = layers.length - 1; i >= 0; i--) {
    const run = layers[i]!.keys[chord];
    if (!run) continue;
    event.preventDefault();
    run(event);
    return;
  }
  if (name === 'g' && single) {
    prefix = 'g';
    prefixAt = Date.now();
  }
});

/** Keys of a view while it is shown; later ones win. Names: "n", "g b", "mod+k", "Escape", "ArrowDown". */
export function useKeys(keys: Keys): void {
  const layer = useRef({ keys }).current;
  layer.keys = keys;
  useEffect(() => {
    layers.push(layer);
    return () => { layers.splice(layers.indexOf(layer), 1); };
  }, []);
}
