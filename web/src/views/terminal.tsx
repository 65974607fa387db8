// Terminals of a box: tabs that survive a reload and a lost connection. Enter or a click goes in, Ctrl-Shift-L out, so
// that the keyboard is never caught.
import { ClipboardAddon } from '@xterm/addon-clipboard';
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { Unicode11Addon } from '@xterm/addon-unicode11';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal as Xterm, type ITheme } from '@xterm/xterm';
import { useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { act, verbs } from '../actions';
import { useBox } from '../box';
import { nameOf } from '../boxes';
import { t } from '../i18n';
import { Icon } from '../icons';
import { go, href, place } from '../router';
import type { ViewProps } from '../routes';
import { may } from '../session';
import { dark, setSetting, setting } from '../settings';
import { changed, keep, Terminal, terminalsOf } from '../terminals';
import { Button, confirm, copy, Dialog, Empty, MenuButton, say } from '../ui';

const light: ITheme = { background: '#fbfbfa', foreground: '#1f2328', cursor: '#0f766e', cursorAccent: '#ffffff', selectionBackground: '#b6e3dc', black: '#24292f', red: '#b3261e', green: '#1a6b35', yellow: '#7a5200',
  blue: '#0b57b0', magenta: '#8a2fa8', cyan: '#0d6b70', white: '#57606a', brightBlack: '#5b646d', brightRed: '#a40e26', brightGreen: '#116329', brightYellow: '#633c01', brightBlue: '#0842a0', brightMagenta: '#6f2c91',
  brightCyan: '#0a5a5e', brightWhite: '#1f2328' };
const darkTheme: ITheme = { background: '#0f1214', foreground: '#e3e6e8', cursor: '#2dd4bf', cursorAccent: '#0f1214', selectionBackground: '#1f5c55', black: '#5c6670', red: '#ff8a80', green: '#7ee2a8', yellow: '#f2cc60',
  blue: '#8ab4ff', magenta: '#e0a5ff', cyan: '#6fdfe6', white: '#c9d1d9', brightBlack: '#8b949e', brightRed: '#ffa198', brightGreen: '#a0f0c0', brightYellow: '#ffe08a', brightBlue: '#a8c7fa', brightMagenta: '#edc2ff',
  brightCyan: '#9bf0f5', brightWhite: '#ffffff' };
const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", "WenQuanYi Micro Hei Mono", monospace';

interface Live {
  xterm: Xterm;
  fit: FitAddon;
  search: SearchAddon;
  host: HTMLDivElement;
}
const lives = new WeakMap<Terminal, Live>();
const fontSize = () => Math.min(28, Math.max(9, Number(setting('terminal.font')) || 13));

/** A link of a program: its real target is shown first, and only the web's are followed. */
async function openLink(uri: string): Promise<void> {
  if (!/^https?:\/\//i.test(uri)) return say(t('terminal.link.refused', { uri: uri.slice(0, 120) }));
  if (await confirm({ title: t('terminal.link'), text: <code class="wrap">{uri.slice(0, 2000)}</code>, action: t('open') })) window.open(uri, '_blank', 'noopener,noreferrer');
}

function liveOf(terminal: Terminal, moveTab: (step: number) => void): Live {
  const known = lives.get(terminal);
  if (known) return known;
  const xterm = new Xterm({ allowProposedApi: true, scrollback: 10_000, fontFamily: MONO, fontSize: fontSize(), theme: dark.value ? darkTheme : light, minimumContrastRatio: 4.5, cursorBlink: false,
    screenReaderMode: setting('terminal.reader') === 'on', linkHandler: { activate: (_, uri) => void openLink(uri) }, macOptionIsMeta: true });
  const fit = new FitAddon(), search = new SearchAddon(), host = document.createElement('div');
  host.className = 'term-host';
  xterm.loadAddon(fit);
  xterm.loadAddon(search);
  xterm.loadAddon(new WebLinksAddon((_, uri) => void openLink(uri)));
  xterm.loadAddon(new ClipboardAddon(undefined, { readText: () => '', writeText: (_, text) => navigator.clipboard.writeText(text).catch(() => undefined) }));
  xterm.loadAddon(new Unicode11Addon());
  xterm.unicode.activeVersion = '11';
  xterm.onData((data) => terminal.type(data));
  xterm.onBinary((data) => terminal.type(Uint8Array.from(data, (each) => each.charCodeAt(0) & 255)));
  xterm.onResize(({ cols, rows }) => terminal.resize(cols, rows));
  xterm.onBell(() => { terminal.bell.value = true; });
  xterm.onTitleChange((title) => { terminal.name.value = title.replace(/[\p{C}]/gu, '').slice(0, 80); });
  xterm.attachCustomKeyEventHandler((event) => {
    const shifted = event.ctrlKey && event.shiftKey && !event.altKey;
    if (event.type !== 'keydown') return !shifted;
    if (terminal.status.value === 'ended' && event.key === 'Enter') { host.dispatchEvent(new CustomEvent('again', { bubbles: true })); return false; }
    if (!shifted) return true;
    const run: Record<string, () => void> = {
      KeyL: () => host.closest<HTMLElement>('.term')?.focus(), KeyC: () => { if (xterm.hasSelection()) void copy(xterm.getSelection()); },
      KeyV: () => void navigator.clipboard.readText().then((text) => xterm.paste(text), () => say(t('paste.failed'), 'error')),
      KeyF: () => host.dispatchEvent(new CustomEvent('find', { bubbles: true })), ArrowLeft: () => moveTab(-1), ArrowRight: () => moveTab(1) };
    const wanted = run[event.code];
    if (!wanted) return true;
    event.preventDefault();
    event.stopPropagation();
    wanted();
    return false;
  });
  const live = { xterm, fit, search, host };
  lives.set(terminal, live);
  return live;
}

function Pane({ terminal, moveTab, again }: { terminal: Terminal; moveTab: (step: number) => void; again: () => void }) {
  const ref = useRef<HTMLDivElement>(null), box = useBox(), theme = dark.value, live = liveOf(terminal, moveTab);
  const finding = useSignal(false), word = useSignal(''), now = useSignal(Date.now()), size = setting('terminal.font');
  useEffect(() => {
    const frame = ref.current!, first = !live.host.isConnected && !live.xterm.element;
    frame.append(live.host);
    if (first) {
      live.xterm.open(live.host);
      live.xterm.textarea!.tabIndex = -1; // the frame is the stop
    }
    const refit = () => { if (frame.clientWidth > 50 && frame.clientHeight > 30) live.fit.fit(); };
    refit();
    if (first) {
      terminal.attach({ write: (data, done) => live.xterm.write(data, done), get cols() { return live.xterm.cols; }, get rows() { return live.xterm.rows; } });
      live.xterm.focus();
    }
    const watch = new ResizeObserver(refit);
    watch.observe(frame);
    const onFind = () => { finding.value = true; }, onAgain = () => again();
    frame.addEventListener('find', onFind);
    frame.addEventListener('again', onAgain);
    return () => { watch.disconnect(); frame.removeEventListener('find', onFind); frame.removeEventListener('again', onAgain); live.host.remove(); };
  }, [terminal]);
  useEffect(() => { live.xterm.options.theme = theme ? darkTheme : light; }, [theme]);
  useEffect(() => { live.xterm.options.fontSize = fontSize(); live.fit.fit(); }, [size]);
  const status = terminal.status.value, why = terminal.why.value;
  useEffect(() => {
    if (status !== 'lost') return;
    const timer = setInterval(() => { now.value = Date.now(); }, 500);
    return () => clearInterval(timer);
  }, [status]);
  useEffect(() => { if (status !== 'opening') keep(terminal.box); }, [status, changed.value]);
  const ended = typeof why === 'object' && why ? (why.signal ? t('terminal.ended.signal', { signal: why.signal }) : t('terminal.ended', { code: why.code ?? '?' })) : '';
  const left = Math.max(0, Math.ceil((terminal.retryAt.value - now.value) / 1000));
  return (
    <div class={`term ${status}`} tabIndex={0} role="group" aria-label={t('terminal.label', { name: nameOf(box) })}
      onKeyDown={(event) => { if (event.target === event.currentTarget && event.key === 'Enter') { event.preventDefault(); if (status === 'ended') again(); else live.xterm.focus(); } }}
      onClick={() => { terminal.bell.value = false; live.xterm.focus(); }}>
      <div class="term-frame" ref={ref} />
      {finding.value && <form class="term-find" onSubmit={(event) => { event.preventDefault(); live.search.findPrevious(word.value); }} onClick={(event) => event.stopPropagation()}>
        <input type="search" aria-label={t('terminal.search')} placeholder={t('terminal.search')} value={word.value} ref={(element) => element?.focus()}
          onInput={(event) => { word.value = event.currentTarget.value; live.search.findPrevious(word.value, { incremental: true }); }}
          onKeyDown={(event) => { if (event.key === 'Escape') { finding.value = false; live.search.clearDecorations(); live.xterm.focus(); } }} />
        <Button label={t('previous')} icon="up" iconOnly kind="quiet" run={() => live.search.findPrevious(word.value)} />
        <Button label={t('next')} icon="down" iconOnly kind="quiet" run={() => live.search.findNext(word.value)} />
        <Button label={t('close')} icon="close" iconOnly kind="quiet" run={() => { finding.value = false; live.search.clearDecorations(); live.xterm.focus(); }} />
      </form>}
      {status === 'lost' && <div class="bar" role="status" onClick={(event) => event.stopPropagation()}><Icon name="warn" /><span>{t('terminal.lost', { n: left })}</span>
        <Button label={t('terminal.now')} run={() => terminal.retry()} kind="quiet" /><Button label={t('terminal.stop')} run={() => terminal.stop()} kind="quiet" /></div>}
      {status === 'ended' && <div class="bar calm" role="status"><Icon name="info" /><span>{ended}</span><Button label={t('terminal.again')} hint="Enter" run={again} kind="quiet" /></div>}
      {status === 'failed' && <div class="bar" role="alert"><Icon name="warn" /><span>{typeof why === 'string' ? why : t('terminal.stopped')}</span><Button label={t('again')} run={() => terminal.retry()} kind="quiet" /></div>}
    </div>
  );
}

/** Keys that a touch keyboard lacks. */
function Touch({ terminal }: { terminal: Terminal }) {
  const ctrl = useSignal(false), live = lives.get(terminal);
  const press = (text: string) => () => { terminal.type(ctrl.value && text.length === 1 ? String.fromCharCode(text.toUpperCase().charCodeAt(0) & 31) : text); ctrl.value = false; live?.xterm.focus(); };
  const keys: [string, string][] = [['Esc', '\x1b'], ['Tab', '\t'], ['←', '\x1b[D'], ['↓', '\x1b[B'], ['↑', '\x1b[A'], ['→', '\x1b[C'], ['|', '|'], ['-', '-'], ['/', '/'], ['~', '~']];
  return (
    <div class="touch" role="toolbar" aria-label={t('terminal.touch')}>
      <button type="button" aria-pressed={ctrl.value} onClick={() => { ctrl.value = !ctrl.value; }}>Ctrl</button>
      <button type="button" onClick={press('\x03')}>^C</button><button type="button" onClick={press('\x1b')}>Alt</button>
      {keys.map(([label, text]) => <button type="button" key={label} onClick={press(text)}>{label}</button>)}
      <button type="button" onClick={() => { if (live) void copy(live.xterm.getSelection() || screenText(live.xterm)); }}>{t('copy')}</button>
      <button type="button" onClick={() => { void navigator.clipboard.readText().then((text) => live?.xterm.paste(text), () => say(t('paste.failed'), 'error')); }}>{t('paste')}</button>
    </div>
  );
}

function screenText(xterm: Xterm): string {
  const lines: string[] = [], buffer = xterm.buffer.active;
  for (let y = 0; y < buffer.length; y++) lines.push(buffer.getLine(y)!.translateToString(true));
  return lines.join('\n').trimEnd();
}

export default function Terminals({ params }: ViewProps) {
  const box = useBox(), list = terminalsOf(box.id), all = list.value, wanted = Number(params['rest'] ?? '') || undefined;
  const [at, setAt] = useState(0), [split, setSplit] = useState(false), [text, setText] = useState<string | null>(null), frame = useRef<HTMLDivElement>(null);
  changed.value;
  const usable = box.state !== 'paused' && box.state !== 'offline' && box.state !== 'closing', awake = box.running;
  const add = (options: { pid?: number; cwd?: string; user?: string } = {}) => {
    const made = new Terminal(box.id, options);
    list.value = [...list.value, made];
    setAt(list.value.length - 1);
    keep(box.id);
  };
  const cwd = place.value.query.get('cwd') ?? undefined;
  useEffect(() => {
    if (!may('write') || !usable || !awake) return;
    if (wanted !== undefined) {
      const found = list.value.findIndex((each) => each.pid === wanted);
      if (found >= 0) setAt(found);
      else add({ pid: wanted });
    } else if (cwd || !list.value.length) {
      add(cwd ? { cwd } : {});
      if (cwd) go(href('boxes', box.id, 'terminal'), 'replace');
    }
  }, [box.id, wanted, usable, awake]);
  const index = Math.min(at, all.length - 1), current = all[index];
  const moveTab = useRef((_: number) => undefined as void);
  moveTab.current = (step) => setAt((index + step + list.value.length) % list.value.length);
  const move = useRef((step: number) => moveTab.current(step)).current;
  useEffect(() => { if (current) { current.bell.value = false; lives.get(current)?.xterm.focus(); } }, [index, current]);
  const close = async (terminal: Terminal) => {
    const runs = terminal.status.value === 'open' || terminal.status.value === 'lost';
    if (runs && !await confirm({ title: t('terminal.close'), text: t('terminal.close.text'), action: t('terminal.close'), danger: true })) return;
    terminal.close(runs);
    lives.get(terminal)?.xterm.dispose();
    lives.delete(terminal);
    list.value = list.value.filter((each) => each !== terminal);
    keep(box.id);
  };
  const again = (terminal: Terminal) => () => {
    const fresh = new Terminal(box.id, terminal.options.user ? { user: terminal.options.user } : {});
    terminal.close(false);
    lives.get(terminal)?.xterm.dispose();
    list.value = list.value.map((each) => each === terminal ? fresh : each);
  };
  if (!may('write')) return <Empty icon="terminal" title={t('terminal.title')} text={t('terminal.denied')} />;
  if (!usable) return <Empty icon="terminal" title={t('terminal.cannot')} text={t(box.state === 'paused' ? 'terminal.paused' : 'terminal.offline')}
    action={box.state === 'paused' ? { label: t('act.resume'), icon: 'play', run: () => act(verbs.find((verb) => verb.id === 'resume')!, [box]) } : undefined} />;
  if (!awake && !all.some((each) => each.status.value === 'open')) return <Empty icon="terminal" title={t('terminal.asleep')} text={t('terminal.asleep.text')} action={{ label: t('act.start'), icon: 'play', run: () => act(verbs.find((verb) => verb.id === 'start')!, [box]) }} />;
  const font = (step: number) => () => setSetting('terminal.font', String(fontSize() + step));
  const other = split && all.length > 1 ? all[(index + 1) % all.length] : undefined;
  return (
    <div class="terminals" ref={frame}>
      <div class="term-tabs">
        <ul aria-label={t('terminal.tabs')}>
          {all.map((each, i) => (
            <li key={each.pid ?? `new${i}`} class={`term-tab ${i === index ? 'on' : ''}`}>
              <button type="button" aria-current={i === index ? 'true' : undefined} onClick={() => setAt(i)}>
                {each.status.value === 'ended' ? <Icon name="check" size={12} /> : each.bell.value && i !== index ? <Icon name="events" size={12} /> : null}
                <span>{each.name.value || t('terminal.name', { n: i + 1 })}</span></button>
              <button type="button" class="x" aria-label={t('terminal.close.of', { n: i + 1 })} onClick={() => void close(each)}><Icon name="close" size={12} /></button>
            </li>))}
        </ul>
        <Button label={t('terminal.new')} icon="plus" iconOnly kind="quiet" run={() => add()} />
        <span class="grow" />
        <Button label={t('terminal.search')} icon="search" iconOnly kind="quiet" hint="Ctrl Shift F" run={() => current && lives.get(current)?.host.dispatchEvent(new CustomEvent('find', { bubbles: true }))} />
        {all.length > 1 && <Button label={t('terminal.split')} icon="split" iconOnly kind="quiet" aria-pressed={split} run={() => setSplit(!split)} />}
        <Button label={t('terminal.full')} icon="full" iconOnly kind="quiet" run={() => document.fullscreenElement ? document.exitFullscreen() : frame.current?.requestFullscreen()} />
        <MenuButton label={t('terminal.menu')} items={() => [
          { label: t('terminal.root'), icon: 'terminal', run: () => add({ user: 'root' }) },
          { label: t('terminal.text'), icon: 'copy', run: () => { if (current) setText(screenText(lives.get(current)!.xterm)); } },
          { label: t('terminal.link.copy'), icon: 'external', run: () => copy(`${location.origin}${href('boxes', box.id, 'terminal', String(current?.pid ?? ''))}`) },
          { label: t('terminal.bigger'), icon: 'plus', run: font(1) }, { label: t('terminal.smaller'), icon: 'down', run: font(-1) },
          { label: setting('terminal.reader') === 'on' ? t('terminal.reader.off') : t('terminal.reader.on'), icon: 'info', run: () => setSetting('terminal.reader', setting('terminal.reader') === 'on' ? 'off' : 'on') }]} />
      </div>
      <div class={`panes ${other ? 'two' : ''}`}>
        {current && <Pane key={all.indexOf(current)} terminal={current} moveTab={move} again={again(current)} />}
        {other && <Pane key={`o${all.indexOf(other)}`} terminal={other} moveTab={move} again={again(other)} />}
        {!current && <Empty icon="terminal" title={t('terminal.none')} text={t('terminal.none.text')} action={{ label: t('terminal.new'), icon: 'plus', run: () => add() }} />}
      </div>
      {current && <Touch terminal={current} />}
      {text !== null && <Dialog title={t('terminal.text')} onClose={() => setText(null)} wide><pre class="raw" tabIndex={0} data-first>{text}</pre><footer><Button label={t('copy')} icon="copy" kind="main" run={() => copy(text)} /></footer></Dialog>}
    </div>
  );
}
