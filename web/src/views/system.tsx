// The daemon: version, backends and what each can do here, checks, counters.
import { dateTime, duration, number, t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { api, apiReply, may, textOf } from '../session';
import { Table } from '../table';
import { Head, Show } from '../ui';

interface Check { name: string; ok: boolean; detail: string; fix: string | null }
interface Counter { name: string; labels: string; value: number }
const counters = (text: string): Counter[] => text.split('\n').filter((line) => line && line[0] !== '#').map((line) => /^(\w+)(\{.*\})? (\S+)/.exec(line)).filter((match): match is RegExpExecArray => Boolean(match))
  .map((match) => ({ name: match[1]!, labels: match[2] ?? '', value: Number(match[3]) })).filter((each) => !/_bucket$/.test(each.name));
export default function System() {
  const info = useLoad(() => api('info') as Promise<Record<string, any>>, [], 30_000);
  const metrics = useLoad(async () => may('admin') ? counters(await textOf(await apiReply('metrics'))) : [], [], 10_000);
  const flat = (value: unknown): string => Array.isArray(value) ? value.map(flat).join(', ') : value && typeof value === 'object' ? Object.entries(value).map(([key, each]) => `${key}: ${flat(each)}`).join(' · ') : value === true ? '✓' : value === false ? '✕' : String(value ?? '–');
  return (
    <div class="page">
      <Head title={t('system.title')} />
      <Show of={info}>{(data) => <>
        <dl class="properties wide"><div><dt>{w('col.version')}</dt><dd>cubby {String(data['version'])}</dd></div><div><dt>{w('system.started')}</dt><dd>{dateTime(data['started_at'])} <span class="dim">({t('ago', { age: duration(Date.now() - Date.parse(data['started_at'])) })})</span></dd></div>
          <div><dt>{w('system.backend')}</dt><dd>{String(data['default_backend'])}</dd></div><div><dt>{w('system.features')}</dt><dd>{(data['features'] as string[] ?? []).join(', ')}</dd></div></dl>
        <h2>{w('system.backends')}</h2>
        <ul class="cards">{(data['backends'] as Record<string, unknown>[]).map((each) => <li key={String(each['name'])} class="card top"><Icon name={each['available'] === false ? 'warn' : 'machines'} size={20} />
          <div class="card-text"><strong>{String(each['name'])}</strong><dl class="properties">{Object.entries(each).filter(([key, value]) => key !== 'name' && !(Array.isArray(value) && !value.length)).map(([key, value]) => <div key={key}><dt>{key}</dt><dd>{flat(value)}</dd></div>)}</dl></div></li>)}</ul>
        <h2>{w('system.checks')}</h2>
        <ul class="cards">{(data['checks'] as Check[]).map((each) => <li key={each.name} class="card"><span class={`state ${each.ok ? 'ready' : 'paused'}`}><Icon name={each.ok ? 'check' : 'warn'} size={20} /></span><div class="card-text"><strong>{each.name}</strong><span>{each.detail}</span>{each.fix && <span class="dim">{each.fix}</span>}</div></li>)}</ul>
      </>}</Show>
      {may('admin') && <><h2>{w('system.metrics')}</h2><Show of={metrics}>{(rows) => <div class="metrics"><Table label={w('system.metrics')} rows={rows} keyOf={(row) => row.name + row.labels} columns={[
        { id: 'name', label: w('col.name'), cell: (row) => <code>{row.name.replace(/^cubby_/, '')}</code> }, { id: 'labels', label: t('col.labels'), from: 600, cell: (row) => <code class="dim" title={row.labels}>{row.labels}</code> },
        { id: 'value', label: w('col.value'), width: '160px', end: true, cell: (row) => number(row.value, 3) }]} /></div>}</Show></>}
    </div>
  );
}
