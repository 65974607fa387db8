// Files of a box at another time: a snapshot is given to a new box for a moment, which is read and removed again.
import type { Change } from '../../clients/typescript/dist/wire.js';
import { api, apiReply, bytesOf } from './session';

/** "now", or the name of a snapshot: use gets the id of a box that has these files. */
export async function withFiles<T>(id: string, at: string, use: (id: string) => Promise<T>): Promise<T> {
  if (at === 'now') return use(id);
  const fork = await api('fork', [id], { body: { snapshot: at } });
  try {
    return await use(fork.id as string);
  } finally {
    await api('box_destroy', [fork.id]).catch(() => undefined);
  }
}
/** A file at that time; null: there was none. */
export const fileAt = (id: string, at: string, path: string) => withFiles(id, at, async (from) => {
  try {
    return await bytesOf(await apiReply('file_get', [from], { query: { path } }));
  } catch (error) {
    if ((error as { code?: string }).code === 'NOT_FOUND') return null;
    throw error;
  }
});

const HASHES = 300;
const sameFile = async (a: string, b: string, path: string): Promise<boolean> => {
  const [x, y] = await Promise.all([a, b].map((id) => api('file_hash', [id], { query: { path } }).then((found) => found.sha256 as string, () => null)));
  return x !== null && x === y;
};
/** What differs between two times; "template" is what the box began with. */
export async function changesBetween(id: string, from: string, to: string): Promise<{ changes: Change[]; truncated: boolean }> {
  const diff = (of: string) => api('diff', [of], { query: { limit: 5000 } }) as Promise<{ changes: Change[]; truncated: boolean }>;
  if (from === 'template') return withFiles(id, to, diff);
  if (from === to) return { changes: [], truncated: false };
  return withFiles(id, from, (before) => withFiles(id, to, async (after) => {
    const [a, b] = await Promise.all([diff(before), diff(after)]);
    const was = new Map(a.changes.map((each) => [each.path, each])), is = new Map(b.changes.map((each) => [each.path, each]));
    const out: Change[] = [];
    let hashed = 0;
    for (const [path, now] of is) {
      const then = was.get(path);
      if (!then) out.push(now);
      else if (then.change === 'removed' && now.change !== 'removed') out.push({ ...now, change: 'added' });
      else if (then.change !== 'removed' && now.change === 'removed') out.push(now);
      else if (now.change !== 'removed' && now.type !== 'dir' && (then.size !== now.size || then.type !== now.type || (now.encoding === 'utf-8' && hashed++ < HASHES && !await sameFile(before, after, path)))) out.push({ ...now, change: 'modified' });
    }
    for (const [path, then] of was) if (!is.has(path)) out.push({ ...then, change: then.change === 'added' ? 'removed' : then.change === 'removed' ? 'added' : 'modified' });
    return { changes: out.sort((x, y) => x.path < y.path ? -1 : 1), truncated: a.truncated || b.truncated || hashed > HASHES };
  }));
}
