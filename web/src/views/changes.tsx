// What changed in a box: since its template or a snapshot, until now or another one; file by file, with a way back.
import { useEffect, useState } from 'preact/hooks';
import type { Change, Snapshot } from '../../../clients/typescript/dist/wire.js';
import { changesBetween, fileAt } from '../at';
import { Awake } from '../awake';
import { useBox } from '../box';
import { size, t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w, type Word } from '../more';
import { place, setQuery } from '../router';
import { api, may } from '../session';
import { setSetting, setting } from '../settings';
import { Button, confirm, Empty, lazy, say, sayError, Show } from '../ui';
import { fileHref } from './files';

const Compare = lazy(async () => (await import('../compare')).default);
const marks: Record<string, [string, Word]> = { added: ['+', 'changes.added'], modified: ['~', 'changes.modified'], removed: ['−', 'changes.removed'] };
const asText = (bytes: Uint8Array | null) => {
  if (!bytes) return '';
  if (bytes.length > 2 << 20 || bytes.subarray(0, 8192).includes(0)) return null;
  return new TextDecoder().decode(bytes);
};

function OneChange({ id, change, from, to, onRestored }: { id: string; change: Change; from: string; to: string; onRestored: () => void }) {
  const unified = setting('diff') === 'unified';
  const both = useLoad(async () => {
    if (change.type !== 'file') return null;
    const before = from === 'template' || change.change === 'added' ? null : await fileAt(id, from, change.path);
    const after = change.change === 'removed' ? null : await fileAt(id, to, change.path);
    return { before, after };
  }, [id, change.path, from, to]);
  const restore = async () => {
    if (!await confirm({ title: w('restore.title'), text: w('restore.text', { path: change.path, from }), action: w('restore'), danger: true })) return;
    try {
      const bytes = await fileAt(id, from, change.path);
      if (bytes) await api('file_put', [id], { query: { path: change.path, parents: true }, raw: bytes });
      else await api('file_delete', [id], { query: { path: change.path, recursive: true } });
      say(w('restore.done', { path: change.path }));
      onRestored();
    } catch (error) {
      sayError(error);
    }
  };
  return (
    <div class="file">
      <div class="file-head">
        <span class={`mark ${change.change}`}>{marks[change.change]?.[0]}</span><nav class="path" aria-label={w('files.path')}><bdi class="mono" title={change.path}>{change.path}</bdi></nav>
        <div class="group" role="group" aria-label={w('changes.view')}><button type="button" aria-pressed={!unified} onClick={() => setSetting('diff', null)}>{w('changes.split')}</button><button type="button" aria-pressed={unified} onClick={() => setSetting('diff', 'unified')}>{w('changes.unified')}</button></div>
        {change.change !== 'removed' && change.type === 'file' && <a class="button quiet" href={fileHref(id, change.path)}><Icon name="file" />{t('open')}</a>}
        {may('write') && from !== 'template' && to === 'now' && change.type !== 'dir' && <Button label={w('restore')} icon="rollback" run={restore} />}
      </div>
      {change.type !== 'file' ? <p class="dim pad">{w('changes.notfile', { type: change.type })}</p> : <Show of={both}>{(data) => {
        const before = asText(data!.before), after = asText(data!.after);
        if (before === null || after === null) return <p class="dim pad">{w('changes.binary', { before: size(data!.before?.length ?? 0), after: size(data!.after?.length ?? 0) })}</p>;
        return <>{from === 'template' && change.change === 'modified' && <div class="bar calm"><Icon name="info" /><span>{w('changes.template')}</span></div>}
          <Compare path={change.path} before={from === 'template' && change.change === 'modified' ? after : before} after={after} unified={unified} /></>;
      }}</Show>}
    </div>
  );
}

function Changes() {
  const box = useBox(), id = box.id, query = place.value.query, from = query.get('from') ?? 'template', to = query.get('to') ?? 'now', picked = query.get('file') ?? '';
  const snapshots = useLoad(async () => (await api('snapshot_list', [id])).snapshots as Snapshot[], [id]);
  const found = useLoad(() => changesBetween(id, from, to), [id, from, to]), [filter, setFilter] = useState('');
  useEffect(() => setFilter(''), [from, to]);
  const names = (snapshots.data ?? []).map((each) => each.name);
  const Pick = ({ label, value, name, first }: { label: string; value: string; name: string; first: [string, string] }) => (
    <label class="inline"><span>{label}</span><select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value === first[0] ? null : event.currentTarget.value, file: null })}>
      <option value={first[0]}>{first[1]}</option>{(may('write') ? names : []).map((each) => <option key={each} value={each}>{each}</option>)}</select></label>);
  const shown = (found.data?.changes ?? []).filter((each) => each.path.toLowerCase().includes(filter.toLowerCase())), change = shown.find((each) => each.path === picked);
  const counts = Object.keys(marks).map((each) => [each, (found.data?.changes ?? []).filter((one) => one.change === each).length] as const);
  return (
    <div class={`files ${change ? 'has-file' : ''}`}>
      <section class="files-side" aria-label={t('changes.title')}>
        <div class="changes-tools">
          <Pick label={w('changes.from')} value={from} name="from" first={['template', w('changes.thetemplate')]} /><Pick label={w('changes.to')} value={to} name="to" first={['now', w('changes.now')]} />
          <div class="counts">{counts.map(([each, n]) => <span key={each} class={`mark ${each}`} title={w(marks[each]![1])}>{marks[each]![0]}{n}</span>)}<span class="grow" /><Button label={t('help.refresh')} icon="refresh" iconOnly kind="quiet" run={found.reload} /></div>
          {(found.data?.changes.length ?? 0) > 12 && <div class="filter"><Icon name="search" /><input type="search" value={filter} aria-label={w('changes.filter')} placeholder={w('changes.filter')} onInput={(event) => setFilter(event.currentTarget.value)} /></div>}
        </div>
        <Show of={found}>{(data) => data.changes.length ? <ul class="change-list">{shown.slice(0, 2000).map((each) => <li key={each.path}><button type="button" aria-current={each.path === picked ? 'true' : undefined} title={each.encoding === 'utf-8' ? each.path : w('files.foreign')} onClick={() => each.encoding === 'utf-8' ? setQuery({ file: each.path }) : say(w('files.foreign'))}>
          <span class={`mark ${each.change}`} aria-label={w(marks[each.change]?.[1] ?? 'changes.modified')}>{marks[each.change]?.[0]}</span><span class="node-name"><bdi>{each.encoding === 'utf-8' ? each.path : w('files.bytes')}</bdi></span><small>{each.type === 'file' ? size(each.size) : each.type}</small></button></li>)}
          {data.truncated && <li class="dim pad">{w('changes.truncated')}</li>}</ul> : <p class="dim files-none">{w('changes.none')}</p>}</Show>
      </section>
      <section class="files-main" aria-label={w('files.content')}>
        {change ? <><Button label={t('changes.title')} icon="left" kind="quiet" class="button quiet files-back" run={() => setQuery({ file: null })} /><OneChange key={`${change.path}${from}${to}`} id={id} change={change} from={from} to={to} onRestored={found.reload} /></>
          : <Empty icon="diff" title={w('changes.pick')} text={w('changes.pick.text')} command={`cubby diff ${id}`} />}
      </section>
    </div>
  );
}
export default () => <Awake><Changes /></Awake>;
