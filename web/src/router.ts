// Addresses: one signal for where we are, real links, and the query as state of views. The table is in routes.ts.
import { signal } from '@preact/signals';

export interface Place {
  path: string;
  query: URLSearchParams;
}
const read = (): Place => ({ path: location.pathname.replace(/\/+$/, '') || '/ui', query: new URLSearchParams(location.search) });
export const place = signal<Place>(read());

/** Asked before a place is left: false stays (an editor with unsaved text). */
export const guards = new Set<() => boolean>();

export function go(href: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push' && [...guards].some((guard) => !guard())) return;
  history[how === 'push' ? 'pushState' : 'replaceState'](null, '', href);
  place.value = read();
}

/** Changes parameters of the address; null removes one. */
export function setQuery(change: Record<string, string | null>, how: 'push' | 'replace' = 'replace'): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change))
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ''), how);
}

addEventListener('popstate', () => { place.value = read(); });
// A plain click on a link of ours changes the place; every other click is the browser's.
document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.('a');
  if (!link || link.target || link.origin !== location.origin || !link.pathname.startsWith('/ui') || link.hasAttribute('download')) return;
  if (link.pathname.startsWith('/ui/a/')) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});

/** Segments of a pattern: ":x" takes one, "*" the rest. null: another place. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split('/'), have = path.split('/'), found: Record<string, string> = {};
  for (let i = 0; i < want.length; i++) {
    const part = want[i]!;
    if (part === '*') {
      found['rest'] = have.slice(i).map(decode).join('/');
      return found;
    }
    if (have[i] === undefined) return null;
    if (part[0] === ':') found[part.slice(1)] = decode(have[i]!);
    else if (part !== have[i]) return null;
  }
  return want.length === have.length ? found : null;
}
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
/** A path below /ui out of segments, each quoted; slashes of the last stay. */
export const href = (...parts: string[]) => '/ui/' + parts.map((part) => encodeURIComponent(part).replace(/%2F/g, '/')).join('/');
