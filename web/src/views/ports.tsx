// Servers in a box: which ports listen, and what they show, in a frame with an origin of its own.
import { useState } from 'preact/hooks';
import { Awake } from '../awake';
import { useBox } from '../box';
import { t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { go, href } from '../router';
import type { ViewProps } from '../routes';
import { api, may } from '../session';
import { Button, copy, Empty, Failure, Show } from '../ui';

/** Listening sockets of /proc/net/tcp: state 0A. */
export function listening(text: string): { port: number; local: boolean }[] {
  const found = new Map<number, boolean>();
  for (const line of text.split('\n')) {
    const match = /^\s*\d+:\s+([0-9A-F]+):([0-9A-F]{4})\s+\S+\s+0A\s/.exec(line);
    if (!match) continue;
    const port = parseInt(match[2]!, 16), local = /^(0100007F|0{24}01000000)$/.test(match[1]!);
    found.set(port, (found.get(port) ?? true) && local);
  }
  return [...found].map(([port, local]) => ({ port, local })).sort((a, b) => a.port - b.port);
}

function Frame({ id, port }: { id: string; port: number }) {
  const [path, setPath] = useState('/'), [asked, setAsked] = useState('/'), [turn, setTurn] = useState(0);
  const ticket = useLoad(() => api('ticket', [id], { body: { port } }) as Promise<{ url: string; origin: string }>, [id, port, turn]);
  const data = ticket.data, url = data ? new URL(data.url) : null;
  if (url && turn >= 0) { const wanted = new URL(asked, data!.origin); url.pathname = wanted.pathname; for (const [name, value] of wanted.searchParams) url.searchParams.set(name, value); }
  return (
    <div class="file">
      <form class="file-head" onSubmit={(event) => { event.preventDefault(); setAsked(path.startsWith('/') ? path : `/${path}`); setTurn(turn + 1); }}>
        <Button label={w('ports.reload')} icon="refresh" iconOnly kind="quiet" run={() => setTurn(turn + 1)} /><span class="dim mono">:{port}</span>
        <input class="mono grow" value={path} aria-label={w('ports.path')} onInput={(event) => setPath(event.currentTarget.value)} />
        {url && <a class="button quiet" href={url.href} target="_blank" rel="noopener noreferrer"><Icon name="external" />{w('ports.tab')}</a>}
        <Button label={w('ports.forward')} icon="copy" kind="quiet" run={() => copy(`cubby port --listen ${port} ${id} ${port}`)} />
      </form>
      {ticket.error ? <Failure error={ticket.error} retry={ticket.reload} /> : null}
      {url && <iframe key={turn} class="preview-frame" src={url.href} title={w('ports.preview', { port })} sandbox="allow-scripts allow-forms allow-same-origin allow-popups allow-downloads" />}
    </div>
  );
}

function Ports({ rest }: { rest: string }) {
  const box = useBox(), id = box.id, port = Number(rest) || 0, [typed, setTyped] = useState('');
  const found = useLoad(async () => listening(String((await api('exec', [id], { body: { argv: ['cat', '/proc/net/tcp', '/proc/net/tcp6'] } })).stdout)), [id]);
  if (!may('write')) return <Empty icon="ports" title={t('error.DENIED')} text={w('ports.denied')} />;
  const open = (to: number) => go(href('boxes', id, 'ports', String(to)));
  return (
    <div class={`files ${port ? 'has-file' : ''}`}>
      <section class="files-side narrow" aria-label={t('ports.title')}>
        <form class="run-form" onSubmit={(event) => { event.preventDefault(); if (Number(typed) > 0 && Number(typed) < 65536) open(Number(typed)); }}><input inputMode="numeric" value={typed} placeholder={w('ports.any')} aria-label={w('ports.any')} onInput={(event) => setTyped(event.currentTarget.value)} /><button type="submit" class="button">{t('open')}</button></form>
        <div class="lists"><h2>{w('ports.listening')} <Button label={t('help.refresh')} icon="refresh" iconOnly kind="quiet" run={found.reload} /></h2>
          <Show of={found}>{(all) => all.length ? <ul class="change-list">{all.map((each) => <li key={each.port}><button type="button" aria-current={each.port === port ? 'true' : undefined} onClick={() => open(each.port)}><Icon name="ports" /><span class="node-name mono">{each.port}</span><small>{each.local ? 'localhost' : w('ports.all')}</small></button></li>)}</ul>
            : <p class="dim pad">{w('ports.none')}</p>}</Show></div>
      </section>
      <section class="files-main" aria-label={w('ports.preview', { port })}>
        {port ? <><a class="files-back button quiet" href={href('boxes', id, 'ports')}><Icon name="left" />{t('ports.title')}</a><Frame key={port} id={id} port={port} /></>
          : <Empty icon="ports" title={w('ports.pick')} text={w('ports.pick.text')} command={`cubby exec -d ${id} -- python3 -m http.server 8000`} />}
      </section>
    </div>
  );
}
export default ({ params }: ViewProps) => <Awake><Ports rest={params['rest'] ?? ''} /></Awake>;
