// Tokens: who may do what. A secret is shown once.
import { useState } from 'preact/hooks';
import type { Token } from '../../../clients/typescript/dist/wire.js';
import { dateTime, duration, t } from '../i18n';
import { useLoad } from '../load';
import { w } from '../more';
import { api } from '../session';
import { Table } from '../table';
import { Button, Command, confirm, Dialog, Empty, Failure, Field, Head, MenuButton, say, sayError, Show } from '../ui';

const DAYS: Record<string, number> = { '1': 1, '7': 7, '30': 30, '365': 365, '': 0 };
function Make({ onMade, onClose }: { onMade: (token: string) => void; onClose: () => void }) {
  const [scope, setScope] = useState('user'), [user, setUser] = useState(''), [label, setLabel] = useState(''), [days, setDays] = useState('30'), [failed, setFailed] = useState<unknown>(null);
  const make = async () => {
    try {
      onMade((await api('token_create', [], { body: { scope, ...(user ? { user } : {}), ...(label ? { label } : {}), ...(DAYS[days] ? { expires_in_ms: DAYS[days]! * 86_400_000 } : {}) } })).token as string);
    } catch (error) {
      setFailed(error);
    }
  };
  return (
    <Dialog title={w('token.new')} onClose={onClose}><form onSubmit={(event) => { event.preventDefault(); void make(); }}>
      <Field label={w('token.label')} hint={w('token.label.hint')}><input data-first value={label} onInput={(event) => setLabel(event.currentTarget.value)} /></Field>
      <Field label={w('token.scope')}><select value={scope} onChange={(event) => setScope(event.currentTarget.value)}>{['user', 'read', 'admin'].map((each) => <option key={each}>{each}</option>)}</select></Field>
      <Field label={t('col.user')} hint={w('token.user.hint')}><input value={user} onInput={(event) => setUser(event.currentTarget.value)} /></Field>
      <Field label={w('token.ends')}><select value={days} onChange={(event) => setDays(event.currentTarget.value)}>{Object.keys(DAYS).map((each) => <option key={each} value={each}>{each ? w('token.days', { n: Number(each) }) : t('never')}</option>)}</select></Field>
      {failed ? <Failure error={failed} /> : null}
      <footer><Button label={t('cancel')} run={onClose} /><button type="submit" class="button main">{w('token.make')}</button></footer>
    </form></Dialog>
  );
}

export default function Tokens() {
  const list = useLoad(async () => (await api('token_list')).tokens as Token[], []), [making, setMaking] = useState(false), [secret, setSecret] = useState<string | null>(null);
  const revoke = async (row: Token) => {
    if (!await confirm({ title: w('token.revoke.title', { name: row.label ?? row.id }), text: w('token.revoke.text'), danger: true, action: w('token.revoke') })) return;
    try { await api('token_revoke', [row.id]); say(w('token.revoked')); } catch (error) { sayError(error); }
    list.reload();
  };
  const ago = (at: string | null) => at ? <time title={dateTime(at)}>{t('ago', { age: duration(Date.now() - Date.parse(at)) })}</time> : '–';
  return (
    <div class="page">
      <Head title={t('tokens.title')} actions={<Button label={w('token.new')} icon="plus" kind="main" run={() => setMaking(true)} />} />
      <Show of={list}>{(rows) => rows.length ? <Table label={t('tokens.title')} rows={rows} keyOf={(row) => row.id} columns={[
        { id: 'label', label: w('token.label'), cell: (row) => <strong><bdi>{row.label ?? (row.configured ? w('token.configured') : '–')}</bdi></strong> }, { id: 'id', label: 'Id', width: '130px', from: 700, cell: (row) => <code>{row.id}</code> },
        { id: 'scope', label: w('token.scope'), width: '90px', cell: (row) => row.scope }, { id: 'user', label: t('col.user'), from: 600, cell: (row) => row.user ?? w('token.anyone') },
        { id: 'used', label: t('col.used'), width: '110px', from: 700, cell: (row) => ago(row.last_used_at) }, { id: 'ends', label: w('token.ends'), width: '190px', from: 800, cell: (row) => row.revoked_at ? w('token.isrevoked') : row.expires_at ? dateTime(row.expires_at) : t('never') },
        { id: 'menu', label: '', width: '48px', cell: (row) => !row.configured && !row.revoked_at && <MenuButton label={t('box.menu.of', { name: row.label ?? row.id })} items={() => [{ label: w('token.revoke'), icon: 'trash', danger: true, run: () => revoke(row) }]} /> }]} />
        : <Empty icon="tokens" title={w('token.none')} text={w('token.none.text')} action={{ label: w('token.new'), icon: 'plus', run: () => setMaking(true) }} command="cubby token create --scope user --user ann" />}</Show>
      {making && <Make onClose={() => setMaking(false)} onMade={(made) => { setMaking(false); setSecret(made); list.reload(); }} />}
      {secret && <Dialog title={w('token.secret')} wide onClose={() => setSecret(null)}><p class="dialog-text">{w('token.secret.text')}</p><Command text={secret} /></Dialog>}
    </div>
  );
}
