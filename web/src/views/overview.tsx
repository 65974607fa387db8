// One box: what it uses over time, its properties, what happened to it last. Nothing here wakes it.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { useBox } from '../box';
import { onUsage } from '../boxes';
import { onEvent, type BoxEvent } from '../events';
import { clock, dateTime, duration, number, size, t, type Key } from '../i18n';
import { useLoad } from '../load';
import { setQuery, place } from '../router';
import { api, may } from '../session';
import { dark } from '../settings';
import { Button, Command, copy, Failure } from '../ui';

interface Sample { at: string; memory_bytes: number | null; cpu_ms: number | null; pids: number | null; disk_bytes: number | null; [more: string]: unknown }
type Series = { x: number[]; y: (number | null)[] };
const RANGES: Record<string, number> = { '15m': 900, '1h': 3600, '6h': 21_600 };

const plain = (name: string) => (samples: Sample[]): Series => ({ x: samples.map((each) => Date.parse(each.at) / 1000), y: samples.map((each) => (each[name] as number | null | undefined) ?? null) });
/** A counter as a rate per second; null where it began again. */
const rate = (name: string, factor: number) => (samples: Sample[]): Series => {
  const { x, y } = plain(name)(samples);
  return { x, y: y.map((now, i) => {
    const before = y[i - 1];
    if (!i || now === null || before === null || before === undefined || now < before) return null;
    return factor * (now - before) / Math.max(0.1, x[i]! - x[i - 1]!);
  }) };
};
/** Verbs that only look: not steps. */
const LOOKS = /(_get|_list|_stat|_usage|_output|_watch|_ports|_bindings)$/;
const percent = (value: number) => `${number(value, value < 10 ? 1 : 0)} %`;
const plots: { id: string; label: Key; series: (samples: Sample[]) => Series; show: (value: number) => string; limit?: (box: any) => number }[] = [
  { id: 'cpu', label: 'col.cpu', series: rate('cpu_ms', 0.1), show: percent, limit: (box) => box.limits.cpus * 100 },
  { id: 'memory', label: 'col.memory', series: plain('memory_bytes'), show: size, limit: (box) => box.limits.memory_mb * 2 ** 20 },
  { id: 'pids', label: 'col.pids', series: plain('pids'), show: (value) => number(value), limit: (box) => box.limits.pids },
  { id: 'disk', label: 'col.disk', series: plain('disk_bytes'), show: size, limit: (box) => box.limits.disk_mb * 2 ** 20 },
  { id: 'rx', label: 'plot.rx', series: rate('net_rx_bytes', 1), show: (value) => `${size(value)}/s` },
  { id: 'tx', label: 'plot.tx', series: rate('net_tx_bytes', 1), show: (value) => `${size(value)}/s` },
  { id: 'read', label: 'plot.read', series: rate('read_bytes', 1), show: (value) => `${size(value)}/s` },
  { id: 'write', label: 'plot.write', series: rate('write_bytes', 1), show: (value) => `${size(value)}/s` },
];

function Plot({ label, data, show, limit, from, marks }: { label: string; data: Series; show: (value: number) => string; limit: number; from: number; marks: { at: number; text: string }[] }) {
  const ref = useRef<HTMLDivElement>(null), theme = dark.value;
  const known = data.y.filter((value): value is number => value !== null), last = known.at(-1), most = Math.max(0, ...known);
  const text = last === undefined ? t('plot.none') : t('plot.text', { label, last: show(last), most: show(most), at: clock(1000 * data.x[data.y.indexOf(most)]!) });
  useEffect(() => {
    const element = ref.current!;
    const probe = document.createElement('span');
    element.append(probe);
    const real = (name: string) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    const line = real('--accent'), grid = real('--line'), dim = real('--dim'), bad = real('--bad');
    probe.remove();
    const near = limit > 0 && most > limit / 4;
    const plot = new uPlot({
      width: element.clientWidth, height: 96, cursor: { y: false, points: { size: 6 } }, legend: { show: false }, padding: [8, 6, 0, 0],
      scales: { x: { time: true, range: () => [from, Date.now() / 1000] }, y: { range: (_, __, top) => [0, near ? limit * 1.05 : Math.max(top * 1.15, 1e-9) || 1] } },
      axes: [{ stroke: dim, grid: { show: false }, ticks: { show: false }, size: 22, font: '11px system-ui', values: (_, at) => at.map((each) => new Date(each * 1000).toTimeString().slice(0, 5)), space: 70 },
        { stroke: dim, grid: { stroke: grid, width: 1 }, ticks: { show: false }, size: 62, font: '11px system-ui', splits: (_, __, low, top) => [low, (low + top) / 2, top], values: (_, at) => at.map((each) => each ? show(each) : '0') }],
      series: [{}, { stroke: line, width: 1.5, fill: `color-mix(in srgb, ${line} 14%, transparent)`, points: { show: known.length < 3 }, spanGaps: false }],
      hooks: { draw: [(self) => {
        const { ctx, bbox } = self;
        const rule = (horizontal: boolean, at: number, colour: string) => {
          ctx.save();
          ctx.strokeStyle = colour;
          ctx.setLineDash([4, 3]);
          ctx.beginPath();
          if (horizontal) { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); } else { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
          ctx.stroke();
          ctx.restore();
        };
        if (near) rule(true, self.valToPos(limit, 'y', true), bad);
        for (const mark of marks) if (mark.at >= from) rule(false, self.valToPos(mark.at, 'x', true), dim);
      }] },
    }, [data.x, data.y] as uPlot.AlignedData, element);
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 96 }));
    watch.observe(element);
    return () => { watch.disconnect(); plot.destroy(); };
  }, [data, theme, limit, from]);
  return <figure class="plot"><figcaption><span>{label}</span><b>{last === undefined ? '–' : show(last)}{limit > 0 && <small class="dim"> / {show(limit)}</small>}</b></figcaption>
    <div ref={ref} role="img" aria-label={text} title={marks.map((mark) => mark.text).join('\n') || undefined} /></figure>;
}

const value = (name: string, item: unknown) => {
  if (item === null || item === undefined || item === '') return <span class="dim">–</span>;
  if (/_at$|^since$/.test(name)) return <time title={String(item)}>{dateTime(String(item))} <span class="dim">({t('ago', { age: duration(Date.now() - Date.parse(String(item))) })})</span></time>;
  if (/_ms$/.test(name)) return item === 0 ? t('never') : duration(Number(item));
  if (/_bytes$/.test(name)) return size(Number(item));
  if (typeof item === 'object') return <code>{JSON.stringify(item)}</code>;
  return String(item);
};

export default function Overview() {
  const box = useBox(), range = place.value.query.get('range') ?? '15m', seconds = RANGES[range] ?? 900;
  const usage = useLoad(async () => (await api('box_usage', [box.id])).samples as Sample[], [box.id], 60_000);
  const [newer, setNewer] = useState<Sample[]>([]);
  useEffect(() => onUsage((at, rows) => {
    const row = rows.get(box.id);
    if (row) setNewer((now) => [...now.slice(-1800), { at, cpu_ms: row[0], memory_bytes: row[1], pids: row[2], disk_bytes: null }]);
  }), [box.id]);
  const [events, setEvents] = useState<BoxEvent[]>([]), [raw, setRaw] = useState(false);
  const snapshots = useLoad(async () => (await api('snapshot_list', [box.id])).snapshots as { name: string; created_at: string }[], [box.id]);
  useEffect(() => onEvent((event) => { if (event.box === box.id) setEvents((now) => [event, ...now].slice(0, 20)); }), [box.id]);
  const audit = useLoad(async () => (await api('audit', [], { query: { box: box.id, tail: 1, limit: 200 } })).events.filter((each: { verb: string }) => !LOOKS.test(each.verb)) as Record<string, any>[], [box.id, events.length]);
  const from = Date.now() / 1000 - seconds;
  const known = usage.data ?? [], end = known.at(-1)?.at ?? '';
  const samples = [...known, ...newer.filter((each) => each.at > end)].filter((each) => Date.parse(each.at) / 1000 >= from);
  const marks = [...(snapshots.data ?? []).map((each) => ({ at: Date.parse(each.created_at) / 1000, text: t('plot.snapshot', { name: each.name }) })),
    ...events.filter((each) => ['died', 'evicted'].includes(each.type)).map((each) => ({ at: Date.parse(each.time) / 1000, text: each.type }))];
  const flat = Object.entries(box).filter(([name]) => !['limits', 'usage', 'labels', 'remote', 'container', 'cpu', 'id', 'thread', 'died'].includes(name));
  return (
    <div class="overview">
      {box.died && <div class="failure" role="alert"><div><strong>{t('state.died')}</strong><p>{box.died}</p></div></div>}
      <div class="tools">
        <div class="group" role="group" aria-label={t('plot.range')}>{Object.keys(RANGES).map((each) => <button type="button" key={each} aria-pressed={each === range} onClick={() => setQuery({ range: each === '15m' ? null : each })}>{t(`range.${each}` as Key)}</button>)}</div>
        {box.usage.memory_bytes === null && <span class="dim">{t('plot.off')}</span>}
      </div>
      {usage.error ? <Failure error={usage.error} retry={usage.reload} /> : null}
      <div class="plots">{plots.map((plot) => {
        const data = plot.series(samples);
        if (!data.y.some(Boolean) && !['cpu', 'memory', 'pids'].includes(plot.id)) return null;
        return <Plot key={plot.id} label={t(plot.label)} data={data} show={plot.show} limit={plot.limit?.(box) ?? 0} from={from} marks={marks} />;
      })}</div>
      <div class="columns">
        <section><h2>{t('overview.last')}</h2>
          {audit.data && audit.data.length ? <ol class="steps">{audit.data.slice(-8).reverse().map((each, i) => (
            <li key={i} class={(each['outcome'] && each['outcome'] !== 'ok') || each['exit_code'] ? 'bad' : ''}><time title={String(each['at'])}>{clock(each['at'] as string)}</time><span>{String(each['verb'])}</span>
              <code>{String(each['detail'] ?? '').split('\n')[0]}</code></li>))}</ol> : <p class="dim">{t('overview.nothing')}</p>}
          {may('write') && <><h2>{t('overview.command')}</h2><Command text={`cubby shell ${box.id}`} /><Command text={`cubby exec ${box.id} -- id`} /></>}
        </section>
        <section><h2>{t('overview.properties')}</h2>
          <dl class="properties">
            {flat.map(([name, item]) => <div key={name}><dt>{name}</dt><dd>{value(name, item)}</dd></div>)}
            {Object.entries(box.limits).map(([name, item]) => <div key={name}><dt>limits.{name}</dt><dd>{item === 0 ? t('new.any') : value(name, item)}</dd></div>)}
            {Object.entries(box.labels).map(([name, item]) => <div key={name}><dt>labels.{name}</dt><dd>{String(item)}</dd></div>)}
          </dl>
          <Button label={raw ? t('overview.json.hide') : t('overview.json')} run={() => setRaw(!raw)} kind="quiet" />
          {raw && <div class="raw"><Button label={t('copy')} icon="copy" run={() => copy(JSON.stringify(box, null, 2))} /><pre tabIndex={0}>{JSON.stringify({ ...box, cpu: undefined }, null, 2)}</pre></div>}
        </section>
      </div>
    </div>
  );
}
