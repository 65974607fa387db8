// What was started in a box through the API: commands with their output, live, and sessions. Reading slows nothing down.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Process, Session } from '../../../clients/typescript/dist/wire.js';
import { Ansi } from '../ansi';
import { Awake } from '../awake';
import { useBox } from '../box';
import { dateTime, duration, size, t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { go, href } from '../router';
import type { ViewProps } from '../routes';
import { api, apiReply, bytesOf, may } from '../session';
import { Button, confirm, copy, Empty, Failure, MenuButton, say, sayError, Show, Switch } from '../ui';

const KEEP = 400_000;
const ended = (one: Process) => one.state !== 'running';
const result = (one: Process) => !ended(one) ? w('process.running') : one.oom_killed ? w('process.oom') : one.timed_out ? w('process.timeout') : one.signal ? w('process.signal', { signal: one.signal }) : w('process.exit', { code: one.exit_code ?? '?' });

function Output({ id, pid, alive }: { id: string; pid: number; alive: boolean }) {
  const [text, setText] = useState(''), [stream, setStream] = useState<'stdout' | 'stderr'>('stdout'), [follow, setFollow] = useState(true), [wrap, setWrap] = useState(true), [find, setFind] = useState(''), [failed, setFailed] = useState<unknown>(null);
  const ref = useRef<HTMLPreElement>(null), live = useRef(alive);
  live.current = alive;
  useEffect(() => {
    const control = new AbortController(), decoder = new TextDecoder();
    setText('');
    setFailed(null);
    void (async () => {
      for (let offset = 0; !control.signal.aborted;)
        try {
          const reply = await apiReply('process_output', [id, pid], { query: { stream, offset, wait_ms: offset && live.current ? 20_000 : 0, limit: 262_144 }, signal: control.signal });
          const bytes = await bytesOf(reply), state = reply.header('x-process-state');
          offset = Number(reply.header('x-next-offset') ?? offset + bytes.length);
          if (bytes.length) setText((now) => (now + decoder.decode(bytes, { stream: true })).slice(-KEEP));
          if (!bytes.length && state && state !== 'running') return;
          if (!bytes.length) await new Promise((later) => setTimeout(later, document.visibilityState === 'visible' ? 300 : 3000));
        } catch (error) {
          if (!control.signal.aborted) setFailed(error);
          return;
        }
    })();
    return () => control.abort();
  }, [id, pid, stream]);
  useEffect(() => { if (follow && ref.current) ref.current.scrollTop = ref.current.scrollHeight; }, [text, follow]);
  const lines = find ? text.split('\n').filter((each) => each.toLowerCase().includes(find.toLowerCase())).join('\n') : text;
  return (
    <>
      <div class="file-head">
        <div class="group" role="group" aria-label={w('process.stream')}>{(['stdout', 'stderr'] as const).map((each) => <button type="button" key={each} aria-pressed={stream === each} onClick={() => setStream(each)}>{each}</button>)}</div>
        <div class="filter"><Icon name="search" /><input type="search" value={find} aria-label={w('process.find')} placeholder={w('process.find')} onInput={(event) => setFind(event.currentTarget.value)} /></div>
        <Switch label={w('process.follow')} on={follow} set={setFollow} /><Switch label={w('process.wrap')} on={wrap} set={setWrap} />
        <Button label={t('copy')} icon="copy" iconOnly kind="quiet" run={() => copy(text)} />
      </div>
      {failed ? <Failure error={failed} /> : null}
      <pre ref={ref} class={`output ${wrap ? 'wrapped' : ''}`} tabIndex={0} aria-label={w('process.output')}>{lines ? <Ansi text={lines} /> : <span class="dim">{w('process.silent')}</span>}</pre>
    </>
  );
}

function OneProcess({ id, process, onChange }: { id: string; process: Process; onChange: () => void }) {
  const [line, setLine] = useState(''), write = may('write');
  const run = async (what: Promise<unknown>) => { try { await what; } catch (error) { sayError(error); } onChange(); };
  const signal = (name: string) => async () => {
    if (name === 'TERM' || name === 'KILL' ? await confirm({ title: w('process.end', { pid: process.pid }), text: <code class="wrap">{process.command}</code>, action: `SIG${name}`, danger: true }) : true) await run(api('process_signal', [id, process.pid], { body: { signal: name } }));
  };
  return (
    <div class="file">
      <div class="file-head"><nav class="path"><span class="dim">{process.pid}</span> <code title={process.command}>{process.command.split('\n')[0]}</code></nav>
        <span class={`state ${ended(process) ? process.exit_code === 0 ? '' : 'died' : 'ready'}`}><span class="shape" aria-hidden="true" />{result(process)}</span>
        {write && !ended(process) && <><Button label={w('process.stop')} icon="close" kind="danger" run={signal('TERM')} /><MenuButton label={w('process.signals')} items={() => ['INT', 'TERM', 'KILL', 'HUP', 'STOP', 'CONT', 'USR1'].map((name) => ({ label: `SIG${name}`, run: signal(name), danger: name === 'KILL' }))} /></>}
      </div>
      <Output id={id} pid={process.pid} alive={!ended(process)} />
      {write && !ended(process) && <form class="stdin" onSubmit={(event) => { event.preventDefault(); void run(api('process_stdin', [id, process.pid], { raw: `${line}\n` })); setLine(''); }}>
        <input class="mono" value={line} aria-label={w('process.stdin')} placeholder={w('process.stdin')} onInput={(event) => setLine(event.currentTarget.value)} /><button type="submit" class="button">{w('process.send')}</button></form>}
    </div>
  );
}

function OneSession({ id, session, onChange }: { id: string; session: Session; onChange: () => void }) {
  const [line, setLine] = useState(''), [log, setLog] = useState<{ command: string; output: string; note: string }[]>([]), [busy, setBusy] = useState(false), write = may('write');
  const exec = async () => {
    const command = line;
    setLine('');
    setBusy(true);
    try {
      const answer = await api('session_exec', [id, session.name], { body: { command, wait_ms: 30_000 }, silenceMs: 120_000 });
      setLog((now) => [...now, { command, output: answer.output as string, note: answer.state === 'completed' ? answer.exit_code ? w('process.exit', { code: answer.exit_code }) : '' : String(answer.state) }]);
    } catch (error) {
      sayError(error);
    }
    setBusy(false);
    onChange();
  };
  const run = async (what: Promise<unknown>) => { try { await what; } catch (error) { sayError(error); } onChange(); };
  return (
    <div class="file">
      <div class="file-head"><nav class="path"><strong>{session.name}</strong> <code>{session.cwd}</code></nav><span class="dim">{session.state}{session.exit_code !== null && ` · ${w('process.exit', { code: session.exit_code })}`}</span>
        {write && <><Button label={w('session.stop')} run={() => run(api('session_stop', [id, session.name]))} /><Button label={w('session.end')} kind="danger" icon="trash" run={() => run(api('session_end', [id, session.name]))} /></>}</div>
      <div class="output wrapped" tabIndex={0}>{log.length ? log.map((each, i) => <div key={i}><code class="prompt">$ {each.command}</code>{each.output && <pre class="bare"><Ansi text={each.output} /></pre>}{each.note && <p class="dim">{each.note}</p>}</div>)
        : <p class="dim">{session.command ? w('session.last', { command: session.command.split('\n')[0]! }) : w('session.nothing')}</p>}</div>
      {write && <form class="stdin" onSubmit={(event) => { event.preventDefault(); if (line && !busy) void exec(); }}><span class="mono dim">$</span><input class="mono" value={line} aria-label={w('session.line')} placeholder={w('session.line')} onInput={(event) => setLine(event.currentTarget.value)} /><button type="submit" class="button" aria-disabled={busy ? 'true' : undefined}>{w('session.run')}</button></form>}
    </div>
  );
}

function Processes({ rest }: { rest: string }) {
  const box = useBox(), id = box.id, write = may('write'), [command, setCommand] = useState('');
  const list = useLoad(async () => {
    const [processes, sessions] = await Promise.all([api('process_list', [id]), api('session_list', [id])]);
    return { processes: (processes.processes as Process[]).sort((a, b) => a.started_at < b.started_at ? 1 : -1), sessions: sessions.sessions as Session[] };
  }, [id], 3000);
  const open = (to: string) => go(href('boxes', id, 'processes', to));
  const start = async () => {
    try {
      const made = await api('process_start', [id], { body: { command } });
      setCommand('');
      list.reload();
      open(String(made.pid));
    } catch (error) {
      sayError(error);
    }
  };
  const session = async () => {
    const taken = new Set(list.data?.sessions.map((each) => each.name));
    let n = 1;
    while (taken.has(`page-${n}`)) n++;
    try {
      await api('session_open', [id], { body: { name: `page-${n}` } });
      list.reload();
      open(`session/page-${n}`);
      say(w('session.made', { name: `page-${n}` }));
    } catch (error) {
      sayError(error);
    }
  };
  const named = rest.startsWith('session/') ? rest.slice(8) : null;
  const one = named === null ? list.data?.processes.find((each) => String(each.pid) === rest) : undefined, its = named === null ? undefined : list.data?.sessions.find((each) => each.name === named);
  return (
    <div class={`files ${one || its ? 'has-file' : ''}`}>
      <section class="files-side" aria-label={t('processes.title')}>
        {write && <form class="run-form" onSubmit={(event) => { event.preventDefault(); if (command.trim()) void start(); }}><input class="mono" value={command} placeholder={w('process.command')} aria-label={w('process.command')} onInput={(event) => setCommand(event.currentTarget.value)} /><button type="submit" class="button main"><Icon name="play" /><span>{w('session.run')}</span></button></form>}
        <Show of={list}>{(data) => <div class="lists">
          <h2>{w('process.commands')} <small>{data.processes.length}</small></h2>
          {data.processes.length ? <ul class="change-list">{data.processes.map((each) => <li key={each.pid}><button type="button" class="two" aria-current={each === one ? 'true' : undefined} onClick={() => open(String(each.pid))}>
            <span class={`state ${ended(each) ? each.exit_code === 0 ? '' : 'died' : 'ready'}`}><span class="shape" title={result(each)} /></span><span class="node-name"><code>{each.command.split('\n')[0]}</code><small title={dateTime(each.started_at)}>{each.pid} · {result(each)} · {t('ago', { age: duration(Date.now() - Date.parse(each.started_at)) })} · {size(each.stdout_bytes + each.stderr_bytes)}</small></span></button></li>)}</ul> : <p class="dim pad">{w('process.none')}</p>}
          <h2>{w('session.title')} <small>{data.sessions.length}</small>{write && <Button label={w('session.new')} icon="plus" iconOnly kind="quiet" run={session} />}</h2>
          {data.sessions.length ? <ul class="change-list">{data.sessions.map((each) => <li key={each.name}><button type="button" class="two" aria-current={each === its ? 'true' : undefined} onClick={() => open(`session/${each.name}`)}>
            <Icon name="terminal" /><span class="node-name"><span><bdi>{each.name}</bdi></span><small>{each.state} · {each.cwd}</small></span></button></li>)}</ul> : <p class="dim pad">{w('session.none')}</p>}
        </div>}</Show>
      </section>
      <section class="files-main" aria-label={w('process.output')}>
        {(one || its) && <a class="files-back button quiet" href={href('boxes', id, 'processes')}><Icon name="left" />{t('processes.title')}</a>}
        {one ? <OneProcess key={one.pid} id={id} process={one} onChange={list.reload} /> : its ? <OneSession key={its.name} id={id} session={its} onChange={list.reload} />
          : <Empty icon="process" title={w('process.pick')} text={w('process.pick.text')} command={`cubby exec -d ${id} -- sleep 60`} />}
      </section>
    </div>
  );
}
export default ({ params }: ViewProps) => <Awake><Processes rest={params['rest'] ?? ''} /></Awake>;
