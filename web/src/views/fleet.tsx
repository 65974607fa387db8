// All boxes: live, filtered and sorted by the address, with actions for one and for many.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { act, boxActions, verbs } from '../actions';
import { boxesError, boxesLoaded, nameOf, reloadBoxes, useBoxes, type Row } from '../boxes';
import { duration, number, size, t, dateTime } from '../i18n';
import { Icon } from '../icons';
import { useKeys } from '../keys';
import { go, href, place, setQuery } from '../router';
import { info, may } from '../session';
import { narrow } from '../settings';
import { StateMark, stateOf } from '../state';
import { ROW_PX, sortRows, Table, type Column } from '../table';
import { Button, Empty, Failure, Head, lazy, MenuButton, openMenu, Skeleton } from '../ui';

const NewBox = lazy(async () => (await import('./newbox')).NewBox);

/** Words, and name:value for state, user, label, backend, template, machine. */
export function filterOf(query: string): (box: Row) => boolean {
  const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word): ((box: Row) => boolean) => {
    const [, name, value = ''] = /^(\w+):(.*)$/.exec(word) ?? [];
    switch (name) {
      case 'state': return (box) => stateOf(box).startsWith(value);
      case 'user': return (box) => box.user.toLowerCase().includes(value);
      case 'backend': return (box) => box.backend === value;
      case 'template': return (box) => box.template.toLowerCase().includes(value);
      case 'machine': return (box) => (box.machine ?? '').toLowerCase().includes(value);
      case 'label': return (box) => Object.entries(box.labels).some(([key, text]) => `${key}=${text}`.toLowerCase().includes(value));
      default: return (box) => `${box.thread ?? ''} ${box.agent ?? ''} ${box.user} ${box.id} ${Object.entries(box.labels).map(([key, text]) => `${key}=${text}`).join(' ')}`
        .toLowerCase().includes(word);
    }
  });
  return (box) => tests.every((test) => test(box));
}

function Meter({ value, most, text }: { value: number | null; most: number; text: string }) {
  const part = value === null || !most ? 0 : Math.min(1, value / most);
  return <span class="meter" title={most ? `${text} / ${size(most)}` : text}><span>{text}</span><i aria-hidden="true"><b class={part > 0.9 ? 'high' : ''} style={{ width: `${Math.round(part * 100)}%` }} /></i></span>;
}

const age = (at: string) => duration(Date.now() - Date.parse(at));
function columns(many: { users: boolean; backends: boolean; machines: boolean; templates: boolean; labels: boolean; disks: boolean }): Column<Row>[] {
  const list: (Column<Row> | false)[] = [
    { id: 'thread', label: t('col.thread'), value: nameOf, cell: (box) => <><a class="name" href={href('boxes', box.id)} title={nameOf(box)}>{nameOf(box)}</a>{narrow.value && <small class="sub">{box.user} · {size(box.usage.memory_bytes)} · {age(box.last_used_at)}</small>}</> },
    { id: 'state', label: t('col.state'), value: stateOf, width: '110px', cell: (box) => <StateMark box={box} /> },
    many.users && { id: 'user', label: t('col.user'), value: (box: Row) => box.user, width: '120px', from: 560, cell: (box: Row) => <span title={box.user}>{box.user}</span> },
    many.backends && { id: 'backend', label: t('col.backend'), value: (box: Row) => box.backend, width: '80px', from: 1000, cell: (box: Row) => box.backend },
    many.templates && { id: 'template', label: t('col.template'), value: (box: Row) => box.template, width: '100px', from: 1100, cell: (box: Row) => box.template },
    many.machines && { id: 'machine', label: t('col.machine'), value: (box: Row) => box.machine, width: '120px', from: 1000,
      cell: (box: Row) => box.machine ? <span>{box.machine} {box.remote?.latency_ms != null && <small class="dim">{number(box.remote.latency_ms)} ms</small>}</span> : '' },
    { id: 'cpu', label: t('col.cpu'), value: (box) => box.cpu, end: true, width: '74px', from: 640, cell: (box) => box.cpu === null ? <span class="dim">–</span> : `${number(box.cpu, box.cpu < 10 ? 1 : 0)} %` },
    { id: 'memory', label: t('col.memory'), value: (box) => box.usage.memory_bytes, end: true, width: '112px', from: 480,
      cell: (box) => box.usage.memory_bytes === null ? <span class="dim">–</span> : <Meter value={box.usage.memory_bytes} most={box.limits.memory_mb * 2 ** 20} text={size(box.usage.memory_bytes)} /> },
    many.disks && { id: 'disk', label: t('col.disk'), value: (box: Row) => box.usage.disk_bytes, end: true, width: '90px', from: 900, cell: (box: Row) => box.usage.disk_bytes === null ? <span class="dim">–</span> : size(box.usage.disk_bytes) },
    { id: 'pids', label: t('col.pids'), value: (box) => box.usage.pids, end: true, width: '92px', from: 1080, cell: (box) => box.usage.pids ?? <span class="dim">–</span> },
    { id: 'network', label: t('col.network'), width: '84px', from: 1180, value: (box) => typeof box.network === 'string' ? box.network : 'policy',
      cell: (box) => typeof box.network === 'string' ? <span class={box.network === 'none' ? 'dim' : ''}>{t(box.network === 'open' ? 'net.open' : 'net.none')}</span> : t('net.policy') },
    many.labels && { id: 'labels', label: t('col.labels'), width: '180px', from: 930, cell: (box: Row) => <span class="labels">{Object.entries(box.labels).slice(0, 4).map(([key, value]) =>
      <button type="button" class="label" key={key} onClick={() => setQuery({ q: `label:${key}=${value}` })}>{value ? `${key}=${value}` : key}</button>)}</span> },
    { id: 'age', label: t('col.age'), value: (box) => -Date.parse(box.created_at), end: true, width: '78px', from: 1240, cell: (box) => <time title={dateTime(box.created_at)}>{age(box.created_at)}</time> },
    { id: 'used', label: t('col.used'), value: (box) => -Date.parse(box.last_used_at), end: true, width: '100px', from: 420, cell: (box) => <time title={dateTime(box.last_used_at)}>{age(box.last_used_at)}</time> },
    { id: 'menu', label: '', width: '52px', end: true, cell: (box) => <MenuButton label={t('box.menu.of', { name: nameOf(box) })} items={() => boxActions(box)} /> },
  ];
  return list.filter((column): column is Column<Row> => Boolean(column));
}

export function Fleet() {
  const all = useBoxes(), query = place.value.query, q = query.get('q') ?? '', sort = query.get('sort') ?? 'used';
  const [selected, setSelected] = useState<Set<string>>(new Set()), [at, setAt] = useState(-1), cursor = useRef(-1), filter = useRef<HTMLInputElement>(null);
  useEffect(() => setSelected(new Set()), [q]);
  const extra = ['state', 'user', 'label', 'backend'].map((name) => query.get(name) ? `${name}:${query.get(name)}` : '').join(' ');
  const list = useMemo(() => [...all.values()], [all]);
  const many = useMemo(() => {
    const differ = (value: (box: Row) => string | null) => new Set(list.map(value)).size > 1;
    return { users: differ((box) => box.user), backends: differ((box) => box.backend), machines: list.some((box) => box.machine !== null), templates: differ((box) => box.template),
      labels: list.some((box) => Object.keys(box.labels).length > 0), disks: list.some((box) => box.usage.disk_bytes !== null) };
  }, [list]);
  const shownColumns = columns(many);
  const rows = useMemo(() => sortRows(list.filter(filterOf(`${q} ${extra}`)), shownColumns, sort), [list, q, extra, sort]);
  const counts = useMemo(() => {
    const found = new Map<string, Row>(), number: Record<string, number> = {};
    for (const box of list) {
      found.set(stateOf(box), box);
      number[stateOf(box)] = (number[stateOf(box)] ?? 0) + 1;
    }
    return [...found].map(([state, box]) => ({ state, box, count: number[state]! }));
  }, [list]);
  const current = Math.min(at, rows.length - 1), row = rows[current];
  const point = (index: number) => { cursor.current = Math.max(-1, Math.min(rows.length - 1, index)); setAt(cursor.current); };
  const picked = rows.filter((box) => selected.has(box.id));
  const toggle = (id: string) => setSelected((now) => {
    const next = new Set(now);
    if (!next.delete(id)) next.add(id);
    return next;
  });
  const here = (run: (box: Row) => void) => () => { const box = rows[Math.min(cursor.current, rows.length - 1)]; if (box) run(box); };
  const move = (step: number) => () => point(Math.max(0, cursor.current + step));
  useKeys({ '/': () => filter.current?.focus(), j: move(1), k: move(-1), ArrowDown: move(1), ArrowUp: move(-1), Home: () => point(0), End: () => point(rows.length - 1),
    ...(row ? { Enter: (event) => { if ((event.target as HTMLElement).closest('a, button')) (event.target as HTMLElement).click(); else go(href('boxes', row.id)); }, x: here((box) => toggle(box.id)),
      '.': here((box) => openMenu(document.querySelector('tr.current') ?? document.body, boxActions(box), t('box.menu'))), t: here((box) => go(href('boxes', box.id, 'terminal'))) } : {}),
    n: () => { if (may('write')) setQuery({ new: '1' }, 'push'); }, r: () => { void reloadBoxes(); }, Escape: () => { setSelected(new Set()); point(-1); } });
  const making = query.get('new') === '1' && may('write'), closeNew = () => setQuery({ new: null });
  return (
    <div class="page fleet">
      <Head title={t('fleet.title')} actions={may('write') && <Button kind="main" icon="plus" label={t('new.title')} hint="n" run={() => setQuery({ new: '1' }, 'push')} />}>
        <span class="counts">{counts.map(({ state, box, count }) => (
          <button type="button" key={state} class="count" aria-pressed={q === `state:${state}`} onClick={() => setQuery({ q: q === `state:${state}` ? null : `state:${state}` })}><b>{number(count)}</b><StateMark box={box} /></button>))}</span>
      </Head>
      {list.length > 0 && <div class="tools">
        <label class="filter"><Icon name="search" /><input ref={filter} type="search" aria-label={t('fleet.filter')} placeholder={t('fleet.filter.hint')} value={q} spellcheck={false}
          onInput={(event) => setQuery({ q: event.currentTarget.value })} onKeyDown={(event) => { if (event.key === 'Escape' || event.key === 'Enter') event.currentTarget.blur(); }} /></label>
        <span class="dim" role="status">{rows.length === list.length ? t('fleet.all', { n: list.length }) : t('fleet.some', { n: rows.length, all: number(list.length) })}</span>
      </div>}
      {picked.length > 0 && <div class="selection" role="toolbar" aria-label={t('selection')}>
        <b>{t('selection.n', { n: picked.length })}</b>
        {picked.length < rows.length && <button type="button" class="link" onClick={() => setSelected(new Set(rows.map((box) => box.id)))}>{t('selection.all', { n: rows.length })}</button>}
        {may('write') && verbs.filter((verb) => verb.many && picked.some(verb.fits)).map((verb) => {
          const fit = picked.filter(verb.fits);
          return <Button key={verb.id} label={fit.length === picked.length ? t(verb.label) : `${t(verb.label)} (${fit.length})`} icon={verb.icon} kind={verb.danger ? 'danger' : ''}
            run={async () => { if (await act(verb, fit)) setSelected(new Set()); }} />;
        })}
        <Button label={t('selection.clear')} icon="close" iconOnly kind="quiet" run={() => setSelected(new Set())} />
      </div>}
      {boxesError.value !== null && !boxesLoaded.value ? <Failure error={boxesError.value} retry={reloadBoxes} />
        : !boxesLoaded.value ? (info.value ? <Skeleton rows={8} /> : null)
        : !list.length ? <Empty title={t('fleet.empty')} text={t('fleet.empty.text')} command="cubby create --thread demo"
            action={may('write') ? { label: t('new.title'), icon: 'plus', run: () => setQuery({ new: '1' }, 'push') } : undefined} />
        : !rows.length ? <Empty icon="search" title={t('fleet.none')} text={t('fleet.none.text')} action={{ label: t('fleet.clear'), icon: 'close', run: () => setQuery({ q: null, state: null, user: null, label: null, backend: null }) }} />
        : <Table rows={rows} columns={shownColumns} keyOf={(box) => box.id} sort={sort} onSort={(next) => setQuery({ sort: next })} selected={selected} onSelect={setSelected} current={current} height={narrow.value ? 56 : ROW_PX}
            label={t('fleet.title')} rowProps={(box, index) => ({ onClick: (event: MouseEvent) => {
              if (!(event.target as Element).closest('a, button, input')) point(index); }, onDblClick: () => go(href('boxes', box.id)) })} />}
      {making && <NewBox onClose={closeNew} />}
    </div>
  );
}
