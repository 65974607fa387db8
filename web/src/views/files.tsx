// Files of a box: a tree that is loaded as it is opened and follows what changes, an editor that saves whole or not at
// all, previews, uploads, search. It asks the box only while it runs.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { File as Entry } from '../../../clients/typescript/dist/wire.js';
import { Awake } from '../awake';
import { useBox } from '../box';
import { dateTime, size, t } from '../i18n';
import { Icon } from '../icons';
import { useKeys } from '../keys';
import { useLoad } from '../load';
import { w } from '../more';
import { go, guards, href, place } from '../router';
import type { ViewProps } from '../routes';
import { api, apiEvents, apiReply, bytesOf, CubbyError, may, target, ticket } from '../session';
import { dark, setSetting, setting } from '../settings';
import { chosen, dropped, tar, type Upload } from '../tar';
import { Button, confirm, Dialog, Empty, Failure, lazy, MenuButton, say, sayError, Show, Skeleton } from '../ui';
import type { Editor } from '../editor';
import { Hex, isMedia, kindOf, Preview } from '../preview';

const Compare = lazy(async () => (await import('../compare')).default);
const ROW = 28, EDIT_MOST = 2 << 20, LOOK_MOST = 20 << 20;
const parentOf = (path: string) => path.replace(/\/[^/]*$/, '') || '/';
const joined = (dir: string, name: string) => `${dir === '/' ? '' : dir}/${name}`;
export const fileHref = (id: string, path: string, line?: number) => href('boxes', id, 'files', path.replace(/^\/+/, '')) + (line ? `?line=${line}` : '');

/** A name that is asked for in a dialog; null: none. */
export async function askName(title: string, label: string, value: string, action: string): Promise<string | null> {
  let name = value;
  const yes = await confirm({ title, text: '', action, more: <label class="field"><span>{label}</span><input data-first class="mono" value={value} autocomplete="off" spellcheck={false} onInput={(event) => { name = event.currentTarget.value; }} /></label> });
  return yes && name && name !== value ? name : null;
}

/** A download by a ticket, for what a click of the browser fetches by itself. */
export async function download(operation: 'file_get' | 'archive_get', id: string, path: string): Promise<void> {
  try {
    const link = document.createElement('a');
    link.href = target(operation, [id], { path, ticket: await ticket('files', id) });
    link.download = path.split('/').pop() + (operation === 'archive_get' ? '.tar' : '');
    link.click();
  } catch (error) {
    sayError(error);
  }
}

// ---- the tree ----

interface Row { entry: Entry; depth: number; open: boolean; loading: boolean }
function useTree(id: string, root: string, hidden: boolean) {
  const [dirs, setDirs] = useState<Map<string, Entry[] | 'loading' | Error>>(new Map()), [open, setOpen] = useState<Set<string>>(new Set([root]));
  const load = async (path: string) => {
    try {
      const answer = await api('file_list', [id], { query: { path, limit: 10_000 } });
      const entries = (answer.entries as Entry[]).sort((a, b) => (a.type === 'dir' ? 0 : 1) - (b.type === 'dir' ? 0 : 1) || a.name.localeCompare(b.name));
      setDirs((now) => new Map(now).set(path, entries));
      if (answer.truncated) say(w('files.truncated', { n: entries.length }));
    } catch (error) {
      setDirs((now) => new Map(now).set(path, error as Error));
    }
  };
  const toggle = (path: string, to = !open.has(path)) => {
    setOpen((now) => { const next = new Set(now); if (to) next.add(path); else next.delete(path); return next; });
    if (to) void load(path);
  };
  const reveal = (path: string) => {
    const above: string[] = [];
    for (let at = parentOf(path); at.startsWith(root) && at.length >= root.length; at = parentOf(at)) { above.push(at); if (at === root || at === '/') break; }
    setOpen((now) => new Set([...now, ...above]));
    for (const each of above) if (!dirs.has(each)) void load(each);
  };
  useEffect(() => { setDirs(new Map()); setOpen(new Set([root])); void load(root); }, [id, root]);
  useEffect(() => { // one look at what changed, however much it was
    const control = new AbortController(), stale = new Set<string>();
    let timer = 0;
    const later = (path: string) => {
      stale.add(parentOf(path));
      timer ||= window.setTimeout(() => {
        timer = 0;
        const again = [...stale];
        stale.clear();
        setDirs((now) => { for (const each of again) if (now.has(each)) void load(each); return now; });
      }, 250);
    };
    void (async () => {
      try {
        for await (const [type, , data] of apiEvents('file_watch', [id], { query: { path: root, recursive: root === '/' ? undefined : true }, signal: control.signal, silenceMs: 120_000 }))
          if (type !== 'ready') { later(data.path); if (data.to) later(data.to); }
      } catch { /* the tree stays as it is; opening a folder loads it again */ }
    })();
    return () => { control.abort(); clearTimeout(timer); };
  }, [id, root]);
  const rows = useMemo(() => {
    const all: Row[] = [];
    const add = (path: string, depth: number) => {
      const found = dirs.get(path);
      if (!Array.isArray(found)) return;
      for (const entry of found) {
        if (!hidden && entry.name.startsWith('.')) continue;
        const opened = entry.type === 'dir' && open.has(entry.path);
        all.push({ entry, depth, open: opened, loading: opened && !dirs.has(entry.path) });
        if (opened) add(entry.path, depth + 1);
      }
    };
    add(root, 0);
    return all;
  }, [dirs, open, hidden, root]);
  const failed = dirs.get(root);
  return { rows, toggle, reveal, load, loaded: dirs.has(root), error: failed instanceof Error ? failed : null };
}

function Tree({ rows, current, onOpen, onToggle, onMenu }: { rows: Row[]; current: string; onOpen: (entry: Entry) => void; onToggle: (path: string, to?: boolean) => void; onMenu: (entry: Entry) => import('../ui').Action[] }) {
  const ref = useRef<HTMLDivElement>(null), [view, setView] = useState({ top: 0, height: 800 }), [at, setAt] = useState(0);
  useEffect(() => {
    const element = ref.current!, look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    return () => { watch.disconnect(); element.removeEventListener('scroll', look); };
  }, []);
  const here = rows.findIndex((row) => row.entry.path === current);
  useEffect(() => {
    if (here < 0) return;
    setAt(here);
    const element = ref.current!;
    if (here * ROW < element.scrollTop || here * ROW > element.scrollTop + element.clientHeight - ROW) element.scrollTop = here * ROW - element.clientHeight / 2;
  }, [current, here >= 0]);
  const first = Math.max(0, Math.floor(view.top / ROW) - 6), last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + 6);
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to)), element = ref.current!;
    setAt(next);
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW;
    if ((next + 1) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (next + 1) * ROW - element.clientHeight;
  };
  const keys = (event: KeyboardEvent) => {
    const row = rows[at];
    const todo: Record<string, () => void> = { ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), Home: () => move(0), End: () => move(rows.length - 1),
      ArrowRight: () => row?.entry.type === 'dir' && (row.open ? move(at + 1) : onToggle(row.entry.path, true)),
      ArrowLeft: () => row && (row.open ? onToggle(row.entry.path, false) : move(rows.findIndex((each) => each.entry.path === parentOf(row.entry.path)))),
      Enter: () => row && (row.entry.type === 'dir' ? onToggle(row.entry.path) : onOpen(row.entry)) };
    const run = todo[event.key];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };
  const active = rows[at] ? `node-${at}` : undefined;
  return (
    <div class="tree" ref={ref} role="tree" aria-label={w('files.tree')} tabIndex={0} aria-activedescendant={active} onKeyDown={keys}>
      <div style={{ height: `${first * ROW}px` }} />
      {rows.slice(first, last).map((row, i) => {
        const { entry } = row, dir = entry.type === 'dir', foreign = entry.encoding !== 'utf-8', index = first + i;
        return (
          <div key={entry.path} id={`node-${index}`} role="treeitem" aria-level={row.depth + 1} aria-expanded={dir ? row.open : undefined} aria-selected={entry.path === current}
            class={`node ${index === at ? 'at' : ''}`} style={{ paddingLeft: `${8 + row.depth * 14}px` }} title={foreign ? w('files.foreign') : `${entry.path}\n${entry.mode} ${dir ? '' : size(entry.size)} ${dateTime(entry.mtime)}`}
            onClick={() => { setAt(index); if (foreign) say(w('files.foreign')); else if (dir) onToggle(entry.path); else onOpen(entry); }}>
            <span class="twist">{dir && <Icon name={row.open ? 'down' : 'right'} size={12} />}</span>
            <Icon name={dir ? 'folder' : entry.type === 'symlink' ? 'external' : 'file'} />
            <span class="node-name"><bdi>{foreign ? w('files.bytes') : entry.name}</bdi></span>
            {!foreign && <span class="node-menu" onClick={(event) => event.stopPropagation()}><MenuButton label={w('files.menu', { name: entry.name })} items={() => onMenu(entry)} /></span>}
          </div>);
      })}
      <div style={{ height: `${(rows.length - last) * ROW}px` }} />
    </div>
  );
}

// ---- one file ----

interface Content { bytes: Uint8Array<ArrayBuffer>; text: string; etag: string; size: number; binary: boolean; whole: boolean }
async function read(id: string, path: string, signal?: AbortSignal): Promise<Content> {
  const stat = await api('file_stat', [id], { query: { path }, ...(signal ? { signal } : {}) }) as Entry;
  const whole = stat.size <= LOOK_MOST;
  const reply = await apiReply('file_get', [id], { query: { path }, ...(signal ? { signal } : {}), headers: whole ? {} : { Range: 'bytes=0-4095' } });
  const bytes = await bytesOf(reply);
  let text = '', binary = bytes.subarray(0, 8192).includes(0) || !whole;
  if (!binary)
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      binary = true;
    }
  return { bytes, text, etag: reply.header('etag') ?? '', size: whole ? bytes.length : stat.size, binary, whole };
}

function Conflict({ path, mine, theirs, onMine, onTheirs, onClose }: { path: string; mine: string; theirs: Content | null; onMine: () => void; onTheirs: () => void; onClose: () => void }) {
  const [shown, setShown] = useState(false);
  return (
    <Dialog title={w('conflict.title')} wide onClose={onClose}>
      <p class="dialog-text">{theirs ? w('conflict.text') : w('conflict.gone')}</p>
      {shown && theirs && <div class="conflict-compare"><Compare path={path} before={theirs.text} after={mine} /></div>}
      <footer>
        {theirs && <Button label={w('conflict.compare')} icon="split" run={() => setShown(!shown)} aria-pressed={shown} />}
        {theirs && <Button label={w('conflict.theirs')} icon="refresh" run={onTheirs} />}
        <Button label={w('conflict.mine')} icon="check" kind="main" run={onMine} data-first />
      </footer>
    </Dialog>
  );
}

function OneFile({ id, path, line, onDirty }: { id: string; path: string; line: number; onDirty: (dirty: boolean) => void }) {
  const loaded = useLoad((signal) => read(id, path, signal), [id, path]), host = useRef<HTMLDivElement>(null), editor = useRef<Editor | null>(null);
  const [dirty, setDirty] = useState(false), [view, setView] = useState<'text' | 'look'>(kindOf(path) && isMedia(path) ? 'look' : 'text'), etag = useRef('');
  const [conflict, setConflict] = useState<{ theirs: Content | null } | null>(null), [saving, setSaving] = useState(false), [failed, setFailed] = useState<unknown>(null);
  const data = loaded.data, kind = kindOf(path), isDark = dark.value;
  const editable = data && !data.binary && data.size <= EDIT_MOST, readOnly = !may('write') || !editable;
  const mark = (to: boolean) => { setDirty(to); onDirty(to); };
  const save = async (force = false) => {
    const text = editor.current?.text() ?? '';
    setSaving(true);
    setFailed(null);
    try {
      const reply = await apiReply('file_put', [id], { query: { path }, raw: text, headers: force ? {} : { 'If-Match': etag.current } });
      etag.current = reply.header('etag') ?? '';
      await bytesOf(reply);
      if (editor.current?.text() === text) mark(false);
      setConflict(null);
      say(w('files.saved', { name: path.split('/').pop()! }));
    } catch (error) {
      if (error instanceof CubbyError && (error.code === 'EXISTS' || error.code === 'NOT_FOUND') && !force) setConflict({ theirs: await read(id, path).catch(() => null) });
      else setFailed(error);
    }
    setSaving(false);
  };
  const saveNow = useRef(save);
  saveNow.current = save;
  useEffect(() => {
    if (!data || data.binary || view !== 'text' || !host.current) return;
    etag.current ||= data.etag;
    let ended = false;
    const before = editor.current?.text();
    void import('../editor').then(({ edit }) => {
      if (ended || !host.current) return;
      editor.current = edit(host.current, { path, text: before ?? data.text, isDark, readOnly, label: path, onChange: () => mark(true), onSave: () => { if (!readOnly) void saveNow.current(); } });
      if (line) editor.current.line(line);
    });
    return () => { ended = true; editor.current?.end(); };
  }, [data, view, isDark]);
  useEffect(() => { if (line && editor.current && view === 'text') editor.current.line(line); }, [line]);
  useEffect(() => {
    if (!dirty) return;
    const guard = () => window.confirm(w('files.leave')), stay = (event: BeforeUnloadEvent) => event.preventDefault();
    guards.add(guard);
    addEventListener('beforeunload', stay);
    return () => { guards.delete(guard); removeEventListener('beforeunload', stay); };
  }, [dirty]);
  const take = (theirs: Content) => { etag.current = theirs.etag; editor.current?.replace(theirs.text); mark(false); setConflict(null); };
  return (
    <div class="file">
      <div class="file-head">
        <nav class="path" aria-label={w('files.path')}><bdi class="mono" title={path}>{path}</bdi>{dirty && <span class="unsaved" role="status">{w('files.unsaved')}</span>}</nav>
        {kind && data && !(data.binary && kind !== 'media') && <div class="group" role="group" aria-label={w('files.view')}>
          {!isMedia(path) && <button type="button" aria-pressed={view === 'text'} onClick={() => setView('text')}>{w('files.text')}</button>}
          <button type="button" aria-pressed={view === 'look'} onClick={() => setView('look')}>{w('files.preview')}</button></div>}
        <Button label={w('files.download')} icon="download" iconOnly kind="quiet" run={() => download('file_get', id, path)} />
        {may('write') && editable && view === 'text' && <Button label={w('files.save')} icon="check" kind={dirty ? 'main' : ''} run={() => save()} why={dirty && !saving ? undefined : w('files.nothing')} hint="Ctrl-S" />}
      </div>
      {failed ? <Failure error={failed} retry={() => save()} /> : null}
      {data && !data.binary && data.size > EDIT_MOST && <div class="bar calm"><Icon name="info" /><span>{w('files.large')}</span></div>}
      {loaded.error ? <Failure error={loaded.error} retry={loaded.reload} /> : !data && loaded.slow ? <Skeleton /> : null}
      {data && (view === 'look' ? <div class="preview"><Preview path={path} bytes={data.bytes} text={dirty && editor.current ? editor.current.text() : data.text} /></div>
        : data.binary ? <div class="preview"><Hex bytes={data.bytes} total={data.size} /></div> : <div class="editor" ref={host} />)}
      {conflict && <Conflict path={path} mine={editor.current?.text() ?? ''} theirs={conflict.theirs} onMine={() => save(true)} onTheirs={() => conflict.theirs && take(conflict.theirs)} onClose={() => setConflict(null)} />}
    </div>
  );
}

// ---- search ----

function Search({ id, root, onHit }: { id: string; root: string; onHit: (path: string, line?: number) => void }) {
  const [text, setText] = useState(''), [names, setNames] = useState(false), [asked, setAsked] = useState('');
  const found = useLoad(async (signal) => {
    if (!asked) return [];
    if (names) return ((await api('file_glob', [id], { body: { pattern: `**/*${asked}*`, path: root, limit: 500 }, signal })).paths as (string | { path: string })[]).map((each) => ({ path: typeof each === 'string' ? each : each.path, line: 0, text: '' }));
    return (await api('file_grep', [id], { body: { pattern: asked, path: root, literal: true, ignore_case: true, limit: 500 }, signal })).matches as { path: string; line: number; text: string }[];
  }, [asked, names, root]);
  return (
    <div class="search">
      <form onSubmit={(event) => { event.preventDefault(); setAsked(text); }}>
        <div class="filter"><Icon name="search" /><input type="search" data-search value={text} placeholder={w('search.text')} aria-label={w('search.text')} onInput={(event) => setText(event.currentTarget.value)} /></div>
        <div class="group" role="group" aria-label={w('search.in')}><button type="button" aria-pressed={!names} onClick={() => setNames(false)}>{w('search.lines')}</button><button type="button" aria-pressed={names} onClick={() => setNames(true)}>{w('search.names')}</button></div>
      </form>
      {asked && <Show of={found} rows={4}>{(hits) => hits.length ? <ul class="hits">{hits.map((hit, i) => <li key={i}><button type="button" onClick={() => onHit(hit.path, hit.line || undefined)}><bdi class="mono">{hit.path.startsWith(`${root}/`) ? hit.path.slice(root.length + 1) : hit.path}{hit.line ? `:${hit.line}` : ''}</bdi>{hit.text && <code>{hit.text.trim().slice(0, 200)}</code>}</button></li>)}</ul>
        : <p class="dim">{w('search.none')}</p>}</Show>}
    </div>
  );
}

// ---- all of it ----

function Browser({ rest }: { rest: string }) {
  const box = useBox(), id = box.id, path = rest ? `/${rest}` : '', line = Number(place.value.query.get('line')) || 0;
  const workspace = useLoad(async () => ((await api('file_stat', [id], { query: { path: '.' } })).path as string).replace(/\/\.?$/, '') || '/', [id]);
  const home = workspace.data ?? '/workspace', [whole, setWhole] = useState(Boolean(path) && !path.startsWith('/workspace'));
  const root = whole ? '/' : home, hidden = setting('files.hidden') === 'on';
  const tree = useTree(id, root, hidden), [searching, setSearching] = useState(false), [busy, setBusy] = useState(''), [over, setOver] = useState(false);
  const files = useRef<HTMLInputElement>(null), folder = useRef<HTMLInputElement>(null), into = useRef(root), write = may('write');
  const open = (to: string, at?: number) => go(fileHref(id, to, at));
  useEffect(() => { if (path) tree.reveal(path); }, [path, root]);
  useKeys({ '/': () => { setSearching(true); requestAnimationFrame(() => document.querySelector<HTMLInputElement>('[data-search]')?.focus()); } });
  const done = async (what: Promise<unknown>, dirs: string[], text: string) => {
    try {
      await what;
      say(text);
    } catch (error) {
      sayError(error);
    }
    for (const dir of new Set(dirs)) void tree.load(dir);
  };
  const upload = async (list: Upload[], dir: string) => {
    if (!list.length) return;
    const total = list.reduce((sum, each) => sum + each.file.size, 0), one = list.length === 1 && !list[0]!.path.includes('/') ? list[0]! : null;
    if (one && tree.rows.some((row) => row.entry.path === joined(dir, one.path)) && !await confirm({ title: w('upload.over'), text: w('upload.over.text', { name: one.path }), action: w('upload.replace'), danger: true })) return;
    setBusy(w('upload.busy', { n: list.length, size: size(total) }));
    await done(one ? api('file_put', [id], { query: { path: joined(dir, one.path) }, raw: one.file, silenceMs: 600_000 })
      : api('archive_put', [id], { query: { path: dir }, raw: tar(list), headers: { 'Content-Type': 'application/x-tar' }, silenceMs: 600_000 }), [dir], w('upload.done', { n: list.length }));
    setBusy('');
    tree.toggle(dir, true);
  };
  const pick = (dir: string, which: typeof files) => { into.current = dir; which.current!.value = ''; which.current!.click(); };
  const make = async (dir: string, isDir: boolean) => {
    const name = await askName(isDir ? w('files.newdir') : w('files.new'), w('files.name.in', { dir }), '', w('files.make'));
    if (!name) return;
    const to = joined(dir, name);
    await done(isDir ? api('file_mkdir', [id], { body: { path: to } }) : api('file_put', [id], { query: { path: to }, raw: '', headers: { 'If-None-Match': '*' } }), [dir], w('files.made', { name }));
    tree.toggle(dir, true);
    if (!isDir) open(to);
  };
  const move = async (entry: Entry) => {
    const to = await askName(w('files.move'), w('files.move.to'), entry.path, w('files.move'));
    if (to) await done(api('file_move', [id], { body: { from: entry.path, to } }), [parentOf(entry.path), parentOf(to)], w('files.moved'));
  };
  const remove = async (entry: Entry) => {
    let first = true;
    if (!await confirm({ title: w('files.remove.title', { name: entry.name }), text: entry.type === 'dir' ? w('files.remove.dir') : w('files.remove.file'), danger: true, action: t('act.delete'),
      more: <label class="switch"><input type="checkbox" defaultChecked onChange={(event) => { first = event.currentTarget.checked; }} /><span>{w('snapshots.first')}</span></label> })) return;
    await done((async () => {
      if (first) await api('snapshot_create', [id], { body: {} }).catch((error) => { if ((error as CubbyError).code !== 'UNSUPPORTED') throw error; });
      await api('file_delete', [id], { query: { path: entry.path, recursive: entry.type === 'dir' || undefined } });
    })(), [parentOf(entry.path)], w('files.removed', { name: entry.name }));
  };
  const menuOf = (entry: Entry) => {
    const dir = entry.type === 'dir', place = dir ? entry.path : parentOf(entry.path);
    return [
      ...(dir ? [] : [{ label: t('open'), icon: 'file' as const, run: () => open(entry.path) }]),
      { label: dir ? w('files.download.dir') : w('files.download'), icon: 'download' as const, run: () => download(dir ? 'archive_get' : 'file_get', id, entry.path) },
      ...(write ? [{ label: w('files.new'), icon: 'plus' as const, run: () => make(place, false) }, { label: w('files.newdir'), icon: 'folder' as const, run: () => make(place, true) },
        { label: w('upload.files'), icon: 'upload' as const, run: () => pick(place, files) }, { label: w('upload.folder'), icon: 'upload' as const, run: () => pick(place, folder) },
        { label: w('files.move'), icon: 'right' as const, run: () => move(entry) }, { label: t('act.delete'), icon: 'trash' as const, danger: true, run: () => remove(entry) }] : []),
    ];
  };
  const here = path ? parentOf(path) : root;
  return (
    <div class={`files ${over ? 'over' : ''} ${path ? 'has-file' : ''}`} onDragOver={(event) => { if (write) { event.preventDefault(); setOver(true); } }} onDragLeave={(event) => { if (event.target === event.currentTarget) setOver(false); }}
      onDrop={(event) => { event.preventDefault(); setOver(false); if (write && event.dataTransfer) void dropped(event.dataTransfer).then((list) => upload(list, root), sayError); }}>
      <section class="files-side" aria-label={w('files.title')}>
        <div class="files-tools">
          {write && <><Button label={w('files.new')} icon="plus" iconOnly kind="quiet" run={() => make(here.startsWith(root) ? here : root, false)} />
            <Button label={w('files.newdir')} icon="folder" iconOnly kind="quiet" run={() => make(here.startsWith(root) ? here : root, true)} />
            <MenuButton label={w('upload')} icon="upload" items={() => [{ label: w('upload.files'), icon: 'file', run: () => pick(root, files) }, { label: w('upload.folder'), icon: 'folder', run: () => pick(root, folder) }]} /></>}
          <Button label={w('search')} icon="search" iconOnly kind="quiet" run={() => setSearching(!searching)} aria-pressed={searching} hint="/" />
          <span class="grow" />
          <MenuButton label={w('files.options')} items={() => [{ label: hidden ? w('files.hidden.off') : w('files.hidden.on'), icon: 'file', run: () => setSetting('files.hidden', hidden ? null : 'on') },
            { label: whole ? w('files.home') : w('files.whole'), icon: 'system', run: () => setWhole(!whole) }, { label: w('files.download.dir'), icon: 'download', run: () => download('archive_get', id, home) },
            { label: t('help.refresh'), icon: 'refresh', run: () => tree.load(root) }]} />
        </div>
        <input ref={files} type="file" multiple hidden aria-label={w('upload.files')} data-upload="files" onChange={(event) => upload(chosen(event.currentTarget.files!), into.current || root)} />
        <input ref={folder} type="file" hidden aria-label={w('upload.folder')} data-upload="folder" {...{ webkitdirectory: true }} onChange={(event) => upload(chosen(event.currentTarget.files!), into.current || root)} />
        {busy && <div class="bar calm" role="status"><Icon name="upload" /><span>{busy}</span></div>}
        {searching && <Search id={id} root={root} onHit={open} />}
        {tree.error ? <Failure error={tree.error} retry={() => tree.load(root)} />
          : tree.loaded && !tree.rows.length ? <p class="dim files-none">{w('files.empty')}</p>
          : <Tree rows={tree.rows} current={path} onOpen={(entry) => open(entry.path)} onToggle={tree.toggle} onMenu={menuOf} />}
      </section>
      <section class="files-main" aria-label={w('files.content')}>
        {path ? <><a class="files-back button quiet" href={href('boxes', id, 'files')}><Icon name="left" />{w('files.title')}</a><OneFile key={`${id}${path}`} id={id} path={path} line={line} onDirty={() => undefined} /></>
          : <Empty icon="files" title={w('files.pick')} text={write ? w('files.pick.text') : w('files.pick.look')} action={write ? { label: w('upload.files'), icon: 'upload', run: () => pick(root, files) } : undefined} command={`cubby cp FILE ${id}:`} />}
      </section>
      {over && <div class="drop"><Icon name="upload" size={36} /><span>{w('upload.drop', { dir: root })}</span></div>}
    </div>
  );
}

export default function Files({ params }: ViewProps) {
  return <Awake><Browser rest={params['rest'] ?? ''} /></Awake>;
}
