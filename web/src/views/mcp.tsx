// MCP servers of users: how they are started, what runs of them, why one ended.
import { useState } from 'preact/hooks';
import type { McpServer } from '../../../clients/typescript/dist/wire.js';
import { t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { api, may } from '../session';
import { Button, Command, confirm, Dialog, Empty, Failure, Field, Head, MenuButton, say, sayError, Show } from '../ui';

function Add({ onClose }: { onClose: (changed: boolean) => void }) {
  const [name, setName] = useState(''), [command, setCommand] = useState(''), [failed, setFailed] = useState<unknown>(null);
  const add = async () => {
    const [program, ...args] = command.trim().split(/\s+/);
    try {
      await api('server_put', [name], { body: { command: program, args } });
      say(w('mcp.added', { name }));
      onClose(true);
    } catch (error) {
      setFailed(error);
    }
  };
  return <Dialog title={w('mcp.add')} onClose={() => onClose(false)}><form onSubmit={(event) => { event.preventDefault(); void add(); }}>
    <Field label={w('col.name')}><input data-first value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>
    <Field label={w('mcp.command')} hint={w('mcp.command.hint')}><input class="mono" value={command} placeholder="npx -y @modelcontextprotocol/server-everything" onInput={(event) => setCommand(event.currentTarget.value)} /></Field>
    {failed ? <Failure error={failed} /> : null}<footer><Button label={t('cancel')} run={() => onClose(false)} /><button type="submit" class="button main">{w('mcp.add')}</button></footer></form></Dialog>;
}

export default function Mcp() {
  const list = useLoad(async () => (await api('server_list')).servers as McpServer[], [], 5000), [adding, setAdding] = useState(false), write = may('write');
  const remove = async (row: McpServer) => {
    if (!await confirm({ title: w('mcp.remove', { name: row.name }), text: w('mcp.remove.text'), danger: true, action: t('act.delete') })) return;
    try { await api('server_remove', [row.name], { query: { user: row.user } }); say(w('files.removed', { name: row.name })); } catch (error) { sayError(error); }
    list.reload();
  };
  return (
    <div class="page">
      <Head title={t('mcp.title')} actions={write && <Button label={w('mcp.add')} icon="plus" kind="main" run={() => setAdding(true)} />} />
      <p class="dim">{w('mcp.here')}</p><Command text={`${location.origin}/mcp`} />
      <Show of={list}>{(rows) => rows.length ? <ul class="cards">{rows.map((row) => <li key={`${row.user}/${row.name}`} class="card"><Icon name="mcp" size={20} />
        <div class="card-text"><strong><bdi>{row.name}</bdi></strong><code class="wrap">{[row.command, ...(row.args ?? [])].join(' ')}</code>
          <span class="dim">{row.user}{row.disabled && ` · ${w('mcp.disabled')}`}{row.configured && ` · ${w('token.configured')}`}</span>
          {(row.running as Record<string, unknown>[]).map((each, i) => <span key={i} class={each['error'] || each['why'] ? 'wrong' : 'dim'}>{Object.entries(each).filter(([, value]) => value !== null && value !== '' && typeof value !== 'object').map(([key, value]) => `${key}: ${value}`).join(' · ')}</span>)}</div>
        <div class="card-actions">{write && !row.configured && <MenuButton label={t('box.menu.of', { name: row.name })} items={() => [{ label: t('act.delete'), icon: 'trash', danger: true, run: () => remove(row) }]} />}</div></li>)}</ul>
        : <Empty icon="mcp" title={w('mcp.none')} text={w('mcp.none.text')} action={write ? { label: w('mcp.add'), icon: 'plus', run: () => setAdding(true) } : undefined} />}</Show>
      {adding && <Add onClose={(changed) => { setAdding(false); if (changed) list.reload(); }} />}
    </div>
  );
}
