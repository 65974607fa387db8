// The life of boxes as it happens: what the daemon still knows, then what comes.
import { useEffect, useState } from 'preact/hooks';
import { clock, dateTime, t } from '../i18n';
import { Icon } from '../icons';
import { w } from '../more';
import { href, place, setQuery } from '../router';
import { apiEvents, epoch } from '../session';
import { Table } from '../table';
import { Button, Empty, Failure, Head } from '../ui';

interface Happened { id: string; type: string; time: string; box: string | null; user: string | null; thread: string | null; backend: string | null; machine: string | null; why: string | null }
export default function Events() {
  const [all, setAll] = useState<Happened[]>([]), [still, setStill] = useState(false), [failed, setFailed] = useState<unknown>(null), [held, setHeld] = useState<Happened[]>([]);
  const filter = (place.value.query.get('q') ?? '').toLowerCase(), version = epoch.value;
  useEffect(() => {
    const control = new AbortController();
    setAll([]);
    setFailed(null);
    void (async () => {
      try {
        for await (const [, , data] of apiEvents('events', [], { query: { after: 0 }, signal: control.signal, silenceMs: 120_000 })) setHeld((now) => [data as Happened, ...now].slice(0, 5000));
      } catch (error) {
        if (!control.signal.aborted) setFailed(error);
      }
    })();
    return () => control.abort();
  }, [version]);
  useEffect(() => { if (!still && held.length) { setAll((now) => [...held, ...now].slice(0, 5000)); setHeld([]); } }, [held, still]);
  const rows = all.filter((each) => !filter || Object.values(each).some((value) => String(value ?? '').toLowerCase().includes(filter)));
  return (
    <div class="page">
      <Head title={t('events.title')} actions={<Button label={still ? w('events.resume', { n: held.length }) : w('events.hold')} icon={still ? 'play' : 'pause'} run={() => setStill(!still)} />} />
      <div class="tools"><div class="filter"><Icon name="search" /><input type="search" value={place.value.query.get('q') ?? ''} aria-label={w('events.filter')} placeholder={w('events.filter')} onInput={(event) => setQuery({ q: event.currentTarget.value || null })} /></div></div>
      {failed ? <Failure error={failed} /> : null}
      {rows.length ? <Table label={t('events.title')} rows={rows} keyOf={(row) => row.id + row.type} columns={[
        { id: 'time', label: w('col.time'), width: '110px', cell: (row) => <time title={dateTime(row.time)}>{clock(row.time)}</time> },
        { id: 'type', label: w('col.event'), width: '130px', cell: (row) => <strong>{row.type}</strong> },
        { id: 'thread', label: t('col.thread'), cell: (row) => row.box ? <a href={href('boxes', row.box)}><bdi>{row.thread ?? row.box}</bdi></a> : '' },
        { id: 'user', label: t('col.user'), from: 700, cell: (row) => row.user ?? '' },
        { id: 'backend', label: t('col.backend'), width: '100px', from: 800, cell: (row) => row.backend ?? '' },
        { id: 'why', label: w('col.why'), from: 560, cell: (row) => <span title={row.why ?? undefined}>{row.why ?? row.machine ?? ''}</span> }]} />
        : <Empty icon="events" title={w('events.none')} text={w('events.none.text')} command="cubby events" />}
    </div>
  );
}
