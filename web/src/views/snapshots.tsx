// Snapshots of a box on a line of time: take one, go back to it, make another box of it, compare.
import type { Snapshot } from '../../../clients/typescript/dist/wire.js';
import { useBox } from '../box';
import { dateTime, duration, number, size, t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { go, href } from '../router';
import { api, may } from '../session';
import { refreshBox } from '../boxes';
import { Button, confirm, copy, Empty, MenuButton, say, sayError, Show, type Action } from '../ui';
import { askName } from './files';

export default function Snapshots() {
  const box = useBox(), id = box.id, write = may('write');
  const list = useLoad(async () => (await api('snapshot_list', [id])).snapshots as Snapshot[], [id], 15_000);
  const done = async (what: () => Promise<unknown>, text: string) => {
    try {
      await what();
      say(text);
    } catch (error) {
      sayError(error);
    }
    list.reload();
    void refreshBox(id);
  };
  const take = () => done(() => api('snapshot_create', [id], { body: {} }), t('did.snapshot', { n: 1 }));
  const named = async () => {
    const name = await askName(w('snapshots.take'), w('snapshots.name'), '', w('snapshots.take'));
    if (name) await done(() => api('snapshot_create', [id], { body: { name } }), t('did.snapshot', { n: 1 }));
  };
  const back = async (to: Snapshot) => {
    let first = true;
    if (!await confirm({ title: w('rollback.title', { name: to.name }), text: w('rollback.text'), danger: true, action: w('rollback'),
      more: <label class="switch"><input type="checkbox" defaultChecked onChange={(event) => { first = event.currentTarget.checked; }} /><span>{w('snapshots.first')}</span></label> })) return;
    await done(async () => {
      if (first) await api('snapshot_create', [id], { body: {} });
      await api('rollback', [id], { body: { snapshot: to.name } });
    }, w('rollback.done', { name: to.name }));
  };
  const fork = async (from: Snapshot) => {
    const thread = await askName(w('fork.title', { name: from.name }), t('new.thread'), `${box.thread ?? 'box'}-${from.name}`.slice(0, 60), t('act.fork'));
    try {
      const made = await api('fork', [id], { body: { snapshot: from.name, ...(thread ? { thread } : {}) } });
      say(t('did.fork'));
      go(href('boxes', made.id));
    } catch (error) {
      sayError(error);
    }
  };
  const remove = async (one: Snapshot) => {
    if (await confirm({ title: w('snapshots.remove', { name: one.name }), text: w('snapshots.remove.text'), danger: true, action: t('act.delete') }))
      await done(() => api('snapshot_remove', [id, one.name]), w('files.removed', { name: one.name }));
  };
  const actions = (one: Snapshot): Action[] => [
    { label: w('snapshots.diff'), icon: 'diff', run: () => go(`${href('boxes', id, 'changes')}?from=${encodeURIComponent(one.name)}`) },
    ...(write ? [{ label: w('rollback'), icon: 'rollback' as const, run: () => back(one) }, { label: t('act.fork'), icon: 'fork' as const, run: () => fork(one) }] : []),
    { label: t('copy.cubby'), icon: 'copy', run: () => copy(`cubby rollback ${id} ${one.name}`) },
    ...(write ? [{ label: t('act.delete'), icon: 'trash' as const, danger: true, run: () => remove(one) }] : []),
  ];
  return (
    <div class="overview">
      <Show of={list}>{(all) => {
        if (!all.length) return <Empty icon="snapshot" title={w('snapshots.empty')} text={w('snapshots.empty.text')} action={write ? { label: w('snapshots.take'), icon: 'snapshot', run: take } : undefined} command={`cubby snapshot create ${id}`} />;
        const times = all.map((each) => Date.parse(each.created_at)), first = Math.min(Date.parse(box.created_at), ...times), span = Math.max(1, Date.now() - first);
        return <>
          <div class="tools">{write && <><Button label={w('snapshots.take')} icon="snapshot" kind="main" run={take} /><Button label={w('snapshots.take.named')} run={named} /></>}<span class="dim">{w('snapshots.n', { n: all.length })}</span></div>
          <ol class="timeline-line" aria-label={t('timeline.title')}>
            <li class="tick start" style={{ left: '0%' }}><span>{w('snapshots.created')}</span></li>
            {all.map((each, i) => <li key={each.name} class="tick" style={{ left: `${100 * (times[i]! - first) / span}%` }}>
              <button type="button" title={`${each.name}\n${dateTime(each.created_at)}`} aria-label={each.name} onClick={() => document.getElementById(`snapshot-${each.name}`)?.scrollIntoView({ block: 'center' })} /></li>)}
            <li class="tick now" style={{ left: '100%' }}><span>{w('changes.now')}</span></li>
          </ol>
          <ul class="cards">{[...all].reverse().map((each) => <li key={each.name} id={`snapshot-${each.name}`} class="card">
            <Icon name="snapshot" size={20} />
            <div class="card-text"><strong class="mono"><bdi>{each.name}</bdi></strong>
              <span class="dim"><time title={each.created_at}>{dateTime(each.created_at)}</time> · {t('ago', { age: duration(Date.now() - Date.parse(each.created_at)) })} · {each.method} · {w('snapshots.pause', { ms: number(each.pause_ms, 1) })} · {each.copied_bytes ? w('snapshots.copied', { size: size(each.copied_bytes) }) : w('snapshots.moved')} · {w('snapshots.layers', { n: each.layers })}</span></div>
            <div class="card-actions"><Button label={w('snapshots.diff')} icon="diff" run={() => go(`${href('boxes', id, 'changes')}?from=${encodeURIComponent(each.name)}`)} />
              {write && <Button label={w('rollback')} icon="rollback" run={() => back(each)} />}{write && <Button label={t('act.fork')} icon="fork" run={() => fork(each)} />}<MenuButton label={t('box.menu.of', { name: each.name })} items={() => actions(each)} /></div>
          </li>)}</ul>
        </>;
      }}</Show>
    </div>
  );
}
