// Rows of the audit log as steps: one dense line each, failures marked, the rest folded; filters are in the address.
import { useEffect, useState } from 'preact/hooks';
import type { AuditEvent } from '../../clients/typescript/dist/wire.js';
import { boxes, nameOf } from './boxes';
import { clock, dateTime, duration, number, size, t } from './i18n';
import { Icon } from './icons';
import { w, type Word } from './more';
import { href, place, setQuery } from './router';
import { api, epoch } from './session';
import { Button, copy, Empty, Failure, Skeleton } from './ui';
import { useLoad } from './load';

const words: Record<string, Word> = { exec: 'verb.exec', process_start: 'verb.exec', session_exec: 'verb.exec', file_put: 'verb.file_put', file_edit: 'verb.file_edit', file_get: 'verb.file_get', file_delete: 'verb.file_delete', pty: 'verb.pty',
  box_acquire: 'verb.box_acquire', box_destroy: 'verb.box_destroy', snapshot_create: 'verb.snapshot_create', rollback: 'verb.rollback', fork: 'verb.fork', archive_put: 'verb.archive_put', archive_get: 'verb.archive_get', tool: 'verb.tool', thread_tool: 'verb.tool', file_grep: 'verb.file_grep', file_list: 'verb.file_list', box_pause: 'verb.box_pause', box_resume: 'verb.box_resume' };
export const verbOf = (verb: string) => words[verb] ? w(words[verb]!) : verb;
const bad = (row: AuditEvent) => row.outcome !== 'ok' || (row.exit_code ?? 0) !== 0 || Boolean(row.signal) || row.timed_out === true;
const detail = (row: AuditEvent) => row.encoding === 'utf-8' ? row.detail ?? '' : '';
const LOOKS = new Set(['box_get', 'box_usage', 'process_list', 'session_list', 'process_output', 'file_watch', 'snapshot_list', 'file_stat', 'file_list', 'diff']);
const KEEP = 2000;

/** The newest rows, then what is still to come. */
function useAudit(query: Record<string, unknown>): { rows: AuditEvent[]; error: unknown; loaded: boolean } {
  const [rows, setRows] = useState<AuditEvent[]>([]), [error, setError] = useState<unknown>(null), [loaded, setLoaded] = useState(false), key = JSON.stringify(query), version = epoch.value;
  useEffect(() => {
    const control = new AbortController();
    setRows([]);
    setLoaded(false);
    setError(null);
    void (async () => {
      let after: number | undefined;
      for (;;)
        try {
          const page = await api('audit', [], { query: { ...query, limit: 500, ...(after === undefined ? { tail: 1 } : { after, wait_ms: 25_000 }) }, signal: control.signal, silenceMs: 60_000 });
          after = page.next as number;
          setLoaded(true);
          if (page.events.length) setRows((now) => [...now, ...page.events as AuditEvent[]].slice(-KEEP));
          if (document.visibilityState !== 'visible') await new Promise((later) => document.addEventListener('visibilitychange', later, { once: true }));
        } catch (failed) {
          if (!control.signal.aborted) setError(failed);
          return;
        }
    })();
    return () => control.abort();
  }, [key, version]);
  return { rows, error, loaded };
}

function Step({ row, from, span, open, onOpen, withBox }: { row: AuditEvent; from: number; span: number; open: boolean; onOpen: () => void; withBox: boolean }) {
  const at = Date.parse(row.at), text = detail(row), wrong = bad(row), box = row.box ? boxes.value.get(row.box) : undefined;
  return (
    <li class={`step ${wrong ? 'bad' : ''}`}>
      <button type="button" class="step-line" aria-expanded={open} onClick={onOpen}>
        <time title={dateTime(row.at)}>{clock(row.at)}</time><span class="step-mark" aria-label={wrong ? w('step.failed') : w('step.ok')}>{wrong ? '✕' : '·'}</span>
        <span class="step-verb">{verbOf(row.verb)}</span>
        {withBox && <span class="step-box dim"><bdi>{box ? nameOf(box) : row.box ?? ''}</bdi></span>}
        <code class="step-text">{text.split('\n')[0]}</code>
        <span class="step-result dim">{row.count > 1 && `×${row.count} `}{row.outcome !== 'ok' ? row.outcome : row.exit_code ? w('process.exit', { code: row.exit_code }) : ''}</span>
        <span class="step-time dim">{row.duration_ms >= 1000 ? duration(row.duration_ms) : `${number(row.duration_ms, row.duration_ms < 10 ? 1 : 0)} ms`}</span>
        <span class="step-axis" aria-hidden="true"><i style={{ left: `${100 * (at - from) / span}%`, width: `${Math.max(0.4, Math.min(100, 100 * row.duration_ms / span))}%` }} /></span>
      </button>
      {open && <div class="step-more">
        {text && <pre tabIndex={0}>{text}</pre>}
        <dl class="properties">{(['verb', 'actor', 'user', 'scope', 'token', 'peer', 'status', 'outcome', 'exit_code', 'signal', 'request_id'] as const).filter((name) => row[name] !== null && row[name] !== '').map((name) => <div key={name}><dt>{name}</dt><dd>{String(row[name])}</dd></div>)}
          <div><dt>bytes</dt><dd>{w('step.bytes', { in: size(row.bytes_in), out: size(row.bytes_out) })}</dd></div></dl>
        <div class="tools">{row.box && /^file_/.test(row.verb) && text.startsWith('/') && <a class="button" href={href('boxes', row.box, 'files', text.split('\n')[0]!.replace(/^\/+/, ''))}><Icon name="file" />{w('step.file')}</a>}
          {row.box && <a class="button" href={`${href('boxes', row.box, 'changes')}`}><Icon name="diff" />{t('changes.title')}</a>}
          {row.request_id && <Button label={w('step.request')} icon="copy" run={() => copy(row.request_id!)} />}</div>
      </div>}
    </li>
  );
}

/** Steps of one box, or of all. */
export function Steps({ box }: { box?: string }) {
  const query = place.value.query, only = query.get('outcome') ?? '', verb = query.get('verb') ?? '', text = (query.get('q') ?? '').toLowerCase(), looks = query.get('looks') === '1';
  const { rows, error, loaded } = useAudit({ ...(box ? { box } : {}), ...(verb ? { verb } : {}) });
  const verified = useLoad(() => api('audit_verify').catch(() => null), []);
  const [open, setOpen] = useState<number | null>(null);
  const shown = rows.filter((row) => (only !== 'failed' || bad(row)) && (looks || verb || !LOOKS.has(row.verb)) && (!text || `${row.verb} ${detail(row)} ${row.actor ?? ''} ${row.box ?? ''}`.toLowerCase().includes(text)));
  const verbs = [...new Set(rows.map((row) => row.verb))].sort();
  const from = shown.length ? Date.parse(shown[0]!.at) : 0, span = Math.max(1000, (shown.length ? Date.parse(shown.at(-1)!.at) : 1) - from);
  const save = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(shown.map((row) => `${JSON.stringify(row)}\n`), { type: 'application/jsonl' }));
    link.download = `audit${box ? `-${box}` : ''}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  const newest = [...shown].reverse();
  return (
    <>
      <div class="tools step-tools">
        <div class="group" role="group" aria-label={w('step.which')}><button type="button" aria-pressed={only === 'failed'} onClick={() => setQuery({ outcome: 'failed' })}>{w('step.failures')}</button><button type="button" aria-pressed={only !== 'failed'} onClick={() => setQuery({ outcome: null })}>{w('step.all')}</button></div>
        <select value={verb} aria-label={w('step.verb')} onChange={(event) => setQuery({ verb: event.currentTarget.value || null })}><option value="">{w('step.verbs')}</option>{(verb && !verbs.includes(verb) ? [...verbs, verb] : verbs).map((each) => <option key={each} value={each}>{verbOf(each)}</option>)}</select>
        <div class="filter"><Icon name="search" /><input type="search" value={query.get('q') ?? ''} aria-label={w('step.filter')} placeholder={w('step.filter')} onInput={(event) => setQuery({ q: event.currentTarget.value || null })} /></div>
        <label class="switch"><input type="checkbox" checked={looks} onChange={(event) => setQuery({ looks: event.currentTarget.checked ? '1' : null })} /><span>{w('step.looks')}</span></label>
        <span class="grow" />
        {verified.data && <span class={`state ${verified.data.intact ? 'ready' : 'died'}`} title={verified.data.damage ?? verified.data.hash}><Icon name={verified.data.intact ? 'check' : 'warn'} />{verified.data.intact ? w('step.verified', { n: verified.data.rows }) : w('step.broken')}</span>}
        <Button label={w('step.export')} icon="download" run={save} />
      </div>
      {error ? <Failure error={error} /> : null}
      {!loaded && !error ? <Skeleton /> : shown.length ? <ol class="step-list">{newest.map((row, i) => {
        const gap = i > 0 ? Date.parse(newest[i - 1]!.at) - Date.parse(row.at) : 0;
        return <>{gap > 60_000 && <li key={`gap-${row.id}`} class="step-gap dim">{w('step.gap', { age: duration(gap) })}</li>}<Step key={row.id} row={row} from={from} span={span} withBox={!box} open={open === row.id} onOpen={() => setOpen(open === row.id ? null : row.id)} /></>;
      })}</ol> : loaded && <Empty icon="timeline" title={rows.length ? w('step.none') : w('step.empty')} text={rows.length ? w('step.none.text') : w('step.empty.text')} />}
    </>
  );
}
