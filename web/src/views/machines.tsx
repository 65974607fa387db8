// Machines that joined as boxes, and workers that hold boxes.
import type { Machine, Worker } from '../../../clients/typescript/dist/wire.js';
import { duration, number, t } from '../i18n';
import { useLoad } from '../load';
import { w } from '../more';
import { api, may } from '../session';
import { Table } from '../table';
import { Button, Command, confirm, Dialog, Empty, Head, MenuButton, say, sayError, Show } from '../ui';
import { useState } from 'preact/hooks';
import { askName } from './files';

const Online = ({ on, word }: { on: boolean; word: string }) => <span class={`state ${on ? 'ready' : 'offline'}`}><span class="shape" aria-hidden="true" />{word}</span>;
export default function Machines() {
  const [join, setJoin] = useState<string | null>(null), admin = may('admin');
  const list = useLoad(async () => {
    const [machines, workers] = await Promise.all([api('machine_list'), api('worker_list').catch(() => ({ workers: [] }))]);
    return { machines: machines.machines as Machine[], workers: workers.workers as Worker[] };
  }, [], 5000);
  const run = async (what: Promise<unknown>, text: string) => { try { await what; say(text); } catch (error) { sayError(error); } list.reload(); };
  const add = async () => {
    const name = await askName(w('machine.add'), w('col.name'), '', w('token.make'));
    if (!name) return;
    try {
      const made = await api('token_create', [], { body: { runner: name, expires_in_ms: 3_600_000 } });
      setJoin(`(umask 77; echo ${made.token} > cubby-token) && cubby join --server ${location.origin} --token-file cubby-token`);
    } catch (error) {
      sayError(error);
    }
  };
  const away = async (row: Machine) => { if (await confirm({ title: w('machine.away', { name: row.name }), text: w('machine.away.text'), danger: true, action: w('machine.send') })) await run(api('machine_send_away', [row.name]), w('machine.sent', { name: row.name })); };
  return (
    <div class="page">
      <Head title={t('machines.title')} actions={admin && <Button label={w('machine.add')} icon="plus" kind="main" run={add} />} />
      <Show of={list}>{({ machines, workers }) => <>
        {!machines.length && !workers.length && <Empty icon="machines" title={w('machine.none')} text={w('machine.none.text')} action={admin ? { label: w('machine.add'), icon: 'plus', run: add } : undefined} command="cubby join --server URL --token-file FILE" />}
        {machines.length > 0 && <Table label={t('machines.title')} rows={machines} keyOf={(row) => `${row.user}/${row.name}`} columns={[
          { id: 'name', label: w('col.name'), cell: (row) => <strong><bdi>{row.name}</bdi></strong> }, { id: 'state', label: t('col.state'), width: '110px', cell: (row) => <Online on={row.online} word={row.online ? w('machine.online') : t('state.offline')} /> },
          { id: 'user', label: t('col.user'), from: 600, cell: (row) => row.user }, { id: 'latency', label: w('col.latency'), end: true, width: '90px', cell: (row) => row.latency_ms === null ? '–' : `${number(row.latency_ms, 1)} ms` },
          { id: 'platform', label: w('col.platform'), from: 800, cell: (row) => row.platform }, { id: 'version', label: w('col.version'), width: '90px', from: 900, cell: (row) => row.version }, { id: 'isolation', label: w('col.isolation'), width: '110px', from: 900, cell: (row) => row.isolation },
          { id: 'since', label: w('col.since'), width: '110px', from: 700, cell: (row) => t('ago', { age: duration(Date.now() - Date.parse(row.since)) }) },
          { id: 'menu', label: '', width: '48px', cell: (row) => may('write') && <MenuButton label={t('box.menu.of', { name: row.name })} items={() => [{ label: w('machine.send'), icon: 'logout', danger: true, run: () => away(row) }]} /> }]} />}
        {workers.length > 0 && <><h2>{w('worker.title')}</h2><Table label={w('worker.title')} rows={workers} keyOf={(row) => row.name} columns={[
          { id: 'name', label: w('col.name'), cell: (row) => <strong><bdi>{row.name}</bdi></strong> }, { id: 'state', label: t('col.state'), width: '120px', cell: (row) => <Online on={row.online && !row.draining} word={!row.online ? t('state.offline') : row.draining ? w('worker.draining') : w('machine.online')} /> },
          { id: 'boxes', label: t('fleet.title'), end: true, width: '100px', cell: (row) => `${number(row.boxes)}${row.boxes_max ? ` / ${number(row.boxes_max)}` : ''}` }, { id: 'latency', label: w('col.latency'), end: true, width: '90px', cell: (row) => row.latency_ms === null ? '–' : `${number(row.latency_ms, 1)} ms` },
          { id: 'platform', label: w('col.platform'), from: 700, cell: (row) => row.platform }, { id: 'version', label: w('col.version'), width: '90px', from: 800, cell: (row) => row.version },
          { id: 'menu', label: '', width: '48px', cell: (row) => admin && <MenuButton label={t('box.menu.of', { name: row.name })} items={() => [row.draining ? { label: w('worker.open'), icon: 'play', run: () => run(api('worker_open', [row.name]), w('worker.opened', { name: row.name })) } : { label: w('worker.drain'), icon: 'pause', run: () => run(api('worker_drain', [row.name]), w('worker.drained', { name: row.name })) }]} /> }]} /></>}
      </>}</Show>
      {join && <Dialog title={w('machine.add')} wide onClose={() => setJoin(null)}><p class="dialog-text">{w('machine.join')}</p><Command text={join} /><p class="dim">{w('machine.join.note')}</p></Dialog>}
    </div>
  );
}
