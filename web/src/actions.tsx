// What can be done with a box, for menus, the selection bar and the palette: one table.
import { t, type Key } from './i18n';
import type { IconName } from './icons';
import { go, href } from './router';
import { api, may } from './session';
import { confirm, copy, say, sayError, type Action } from './ui';
import { nameOf, refreshBox, reloadBoxes, type Row } from './boxes';

interface Verb {
  id: string;
  label: Key;
  done: Key;
  icon: IconName;
  fits: (box: Row) => boolean;
  run: (box: Row) => Promise<unknown>;
  many: boolean;
  danger?: boolean;
}
const stamp = () => new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
const running = (box: Row) => box.running && box.state !== 'paused';

export const verbs: Verb[] = [
  { id: 'pause', label: 'act.pause', done: 'did.pause', icon: 'pause', many: true, fits: running, run: (box) => api('box_pause', [box.id]) },
  { id: 'resume', label: 'act.resume', done: 'did.resume', icon: 'play', many: true, fits: (box) => box.state === 'paused', run: (box) => api('box_resume', [box.id]) },
  { id: 'start', label: 'act.start', done: 'did.start', icon: 'play', many: true, fits: (box) => !box.running && box.state !== 'offline', run: (box) => api('box_start', [box.id]) },
  { id: 'snapshot', label: 'act.snapshot', done: 'did.snapshot', icon: 'snapshot', many: true, fits: (box) => box.state !== 'offline',
    run: (box) => api('snapshot_create', [box.id], { body: { name: `page-${stamp()}` } }) },
  { id: 'fork', label: 'act.fork', done: 'did.fork', icon: 'fork', many: false, fits: (box) => box.state !== 'offline',
    run: async (box) => { const made = await api('fork', [box.id], { body: {} }); go(href('boxes', made.id)); } },
  { id: 'release', label: 'act.release', done: 'did.release', icon: 'logout', many: true, fits: running, run: (box) => api('box_release', [box.id]) },
  { id: 'delete', label: 'act.delete', done: 'did.delete', icon: 'trash', many: true, danger: true, fits: () => true, run: (box) => api('box_destroy', [box.id]) },
];

/** Runs a verb on boxes, four at a time; true when all of it worked. */
export async function act(verb: Verb, on: Row[]): Promise<boolean> {
  if (verb.id === 'delete' && !await confirm({
    title: t('delete.title', { n: on.length }), danger: true, action: t('act.delete'),
    text: on.length === 1 ? t('delete.one', { name: nameOf(on[0]!) }) : t('delete.many', { n: on.length }),
    ...(on.length > 1 ? { typed: String(on.length) } : {}) })) return false;
  const queue = [...on];
  let good = 0;
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let box = queue.shift(); box; box = queue.shift())
      try {
        await verb.run(box);
        good++;
        if (on.length <= 4) await refreshBox(box.id);
      } catch (error) {
        sayError(error);
      }
  }));
  if (on.length > 4) await reloadBoxes();
  if (good) say(t(verb.done, { n: good }));
  return good === on.length;
}

const shell = (text: string) => /^[\w./:=@-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;

/** The menu of one box. */
export function boxActions(box: Row): Action[] {
  const write = may('write');
  const list: Action[] = [];
  if (write) list.push({ label: t('terminal.open'), icon: 'terminal', hint: 't', run: () => go(href('boxes', box.id, 'terminal')) });
  list.push({ label: t('files.title'), icon: 'files', run: () => go(href('boxes', box.id, 'files')) });
  list.push({ label: t('overview.open'), icon: 'gauge', run: () => go(href('boxes', box.id)) });
  if (write) for (const verb of verbs) if (verb.fits(box))
    list.push({ label: t(verb.label), icon: verb.icon, danger: verb.danger ?? false, run: () => act(verb, [box]) });
  list.splice(-1, 0,
    { label: t('copy.id'), icon: 'copy', run: () => copy(box.id) },
    { label: t('copy.cubby'), icon: 'copy', run: () => copy(`cubby shell ${shell(box.id)}`) },
    { label: t('copy.curl'), icon: 'copy', run: () => copy(`curl ${location.origin}/v1/boxes/${box.id}/exec -d '{"command":"id"}'`) });
  return list;
}
