// Skills and sub-agents that users share.
import type { RegistryEntry } from '../../../clients/typescript/dist/wire.js';
import { boxes, nameOf } from '../boxes';
import { dateTime, size, t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { place, setQuery } from '../router';
import { api, may } from '../session';
import { Table } from '../table';
import { confirm, Empty, Head, MenuButton, say, sayError, Show } from '../ui';

export default function Registry() {
  const q = place.value.query.get('q') ?? '';
  const list = useLoad(async () => (await api('registry_search', [], { query: { q: q || undefined, limit: 500 } })).entries as RegistryEntry[], [q]);
  const run = async (what: Promise<unknown>, text: string) => { try { await what; say(text); } catch (error) { sayError(error); } list.reload(); };
  const actions = (row: RegistryEntry) => [
    ...[...boxes.value.values()].filter((box) => box.running && may('write')).slice(0, 12).map((box) => ({ label: w('registry.into', { name: nameOf(box) }), icon: 'plus' as const, run: () => run(api(row.type === 'agent' ? 'agent_install' : 'skill_install', [box.id], { body: { entry: String(row.id) } }), w('skill.installed', { name: row.name })) })),
    ...(may('write') ? [{ label: w('registry.remove'), icon: 'trash' as const, danger: true, run: async () => { if (await confirm({ title: w('registry.remove.title', { name: row.name }), text: w('registry.remove.text'), danger: true, action: w('registry.remove') })) await run(api('registry_unpublish', [row.id]), w('files.removed', { name: row.name })); } }] : []),
  ];
  return (
    <div class="page">
      <Head title={t('registry.title')} />
      <div class="tools"><div class="filter"><Icon name="search" /><input type="search" value={q} aria-label={w('registry.filter')} placeholder={w('registry.filter')} onInput={(event) => setQuery({ q: event.currentTarget.value || null })} /></div></div>
      <Show of={list}>{(rows) => rows.length ? <Table label={t('registry.title')} rows={rows} keyOf={(row) => String(row.id)} columns={[
        { id: 'name', label: w('col.name'), width: '200px', cell: (row) => <strong><bdi>{row.name}</bdi></strong> }, { id: 'type', label: w('col.type'), width: '80px', cell: (row) => row.type },
        { id: 'version', label: w('col.version'), width: '90px', cell: (row) => row.version }, { id: 'description', label: w('col.description'), from: 800, cell: (row) => <span title={row.description}>{row.description}</span> },
        { id: 'author', label: w('col.author'), width: '110px', from: 700, cell: (row) => row.author }, { id: 'sharing', label: w('col.sharing'), width: '90px', from: 900, cell: (row) => row.sharing },
        { id: 'bytes', label: w('col.size'), width: '90px', end: true, from: 900, cell: (row) => size(row.bytes) }, { id: 'updated', label: w('col.updated'), width: '180px', from: 1000, cell: (row) => dateTime(row.updated_at) },
        { id: 'menu', label: '', width: '48px', cell: (row) => <MenuButton label={t('box.menu.of', { name: row.name })} items={() => actions(row)} /> }]} />
        : <Empty icon="skills" title={q ? w('registry.nofit') : w('registry.none')} text={w('registry.none.text')} command="cubby skill publish --box ID NAME" />}</Show>
    </div>
  );
}
