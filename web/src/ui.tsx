// What views are made of: buttons, menus, dialogs, messages, states. Texts from boxes are text nodes, always.
import { signal } from '@preact/signals';
import type { ComponentChildren, ComponentType } from 'preact';
import { createPortal } from 'preact/compat';
import { useEffect, useRef, useState } from 'preact/hooks';
import { t, type Key } from './i18n';
import { Icon, type IconName } from './icons';
import { CubbyError } from './session';

/** A component that is loaded when it is first drawn. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let Found: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, draw] = useState(0);
    useEffect(() => { if (!Found) void load().then((found) => { Found = found; draw(1); }, sayError); }, []);
    return Found ? <Found {...props} /> : null;
  };
}

/** The two lists over the page that keys open. */
export const paletteOpen = signal(false), helpOpen = signal(false);

// ---- buttons ----

export interface Action {
  label: string;
  icon?: IconName;
  run: () => unknown;
  danger?: boolean;
  /** Why it is not possible now; shown. */
  why?: string | undefined;
  hint?: string;
}

export function Button({ label, icon, run, kind = '', why, iconOnly, hint, ...rest }: {
  label: string; icon?: IconName; run: (event: MouseEvent) => unknown; kind?: '' | 'main' | 'danger' | 'quiet';
  why?: string | undefined; iconOnly?: boolean; hint?: string;
} & Record<string, unknown>) {
  return (
    <button type="button" class={`button ${kind} ${iconOnly ? 'bare' : ''}`} aria-disabled={why ? 'true' : undefined} title={why ?? hint ?? (iconOnly ? label : undefined)}
      aria-label={iconOnly ? label : undefined} onClick={(event) => why ? say(why) : run(event)} {...rest}>
      {icon && <Icon name={icon} />}{!iconOnly && <span>{label}</span>}
    </button>
  );
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(t('copied'));
  } catch {
    say(t('copy.failed'), 'error');
  }
}

/** A command line that can be copied. */
export function Command({ text }: { text: string }) {
  return <div class="command"><code>{text}</code><Button label={t('copy')} icon="copy" iconOnly kind="quiet" run={() => copy(text)} /></div>;
}

// ---- menus ----

const menu = signal<{ at: DOMRect; items: Action[]; back: HTMLElement | null; label: string } | null>(null);

/** Opens a menu at an element. */
export function openMenu(at: Element, items: Action[], label: string): void {
  menu.value = { at: at.getBoundingClientRect(), items, back: document.activeElement as HTMLElement | null, label };
}
export function closeMenu(): void {
  const back = menu.value?.back;
  menu.value = null;
  back?.focus?.();
}

export function MenuButton({ label, icon = 'more', items, children, kind = 'quiet' }: {
  label: string; icon?: IconName; items: () => Action[]; children?: ComponentChildren; kind?: string }) {
  return (
    <button type="button" class={`button ${kind} ${children ? '' : 'bare'}`} aria-haspopup="menu" aria-label={children ? undefined : label} title={label}
      onClick={(event) => { event.stopPropagation(); openMenu(event.currentTarget, items(), label); }}>
      {icon && <Icon name={icon} />}{children}
    </button>
  );
}

export function MenuHost() {
  const open = menu.value, ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = ref.current;
    if (!open || !element) return;
    const { at } = open, width = element.offsetWidth, height = element.offsetHeight;
    element.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
    element.style.top = `${at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4}px`;
    element.querySelector<HTMLElement>('[role=menuitem]')?.focus();
  }, [open]);
  if (!open) return null;
  const move = (event: KeyboardEvent) => {
    const all = [...ref.current!.querySelectorAll<HTMLElement>('[role=menuitem]')], here = all.indexOf(document.activeElement as HTMLElement);
    const step = event.key === 'ArrowDown' || event.key === 'j' ? 1 : event.key === 'ArrowUp' || event.key === 'k' ? -1 : 0;
    if (event.key === 'Escape' || event.key === 'Tab') closeMenu();
    else if (step) all[(here + step + all.length) % all.length]?.focus();
    else if (event.key === 'Home') all[0]?.focus();
    else if (event.key === 'End') all.at(-1)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu-back" onMouseDown={(event) => { if (event.target === event.currentTarget) closeMenu(); }}>
      <div class="menu" role="menu" aria-label={open.label} ref={ref} onKeyDown={move}>
        {open.items.map((item) => (
          <button type="button" role="menuitem" class={item.danger ? 'danger' : ''} aria-disabled={item.why ? 'true' : undefined} title={item.why}
            onClick={() => { closeMenu(); if (item.why) say(item.why); else void item.run(); }}>
            <span class="menu-icon">{item.icon && <Icon name={item.icon} />}</span><span>{item.label}</span>{item.hint && <kbd>{item.hint}</kbd>}
          </button>
        ))}
      </div>
    </div>
  );
}

// ---- dialogs ----

/** A dialog while it is drawn; side: a sheet at the right edge. Focus returns to where it was. */
export function Dialog({ title, onClose, children, side, wide, fixed }: {
  title: string; onClose: () => void; children: ComponentChildren; side?: boolean; wide?: boolean; fixed?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const back = document.activeElement as HTMLElement | null, dialog = ref.current!;
    dialog.showModal();
    dialog.querySelector<HTMLElement>('[data-first]')?.focus();
    return () => { dialog.close(); back?.focus?.(); };
  }, []);
  return createPortal(
    <dialog ref={ref} class={`${side ? 'sheet' : ''} ${wide ? 'wide' : ''}`} aria-label={title} onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === event.currentTarget) onClose(); }}>
      <div class="dialog-body">
        <header><h2>{title}</h2>{!fixed && <Button label={t("close")} icon="close" iconOnly kind="quiet" run={onClose} />}</header>
        {children}
      </div>
    </dialog>, document.body);
}

interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  /** A word that must be typed. */
  typed?: string;
  /** Further fields, drawn below the text. */
  more?: ComponentChildren;
}
const question = signal<(Question & { answer: (yes: boolean) => void }) | null>(null);
/** Asks in a dialog; true: go on. */
export const confirm = (ask: Question) => new Promise<boolean>((answer) => { question.value = { ...ask, answer }; });

export function QuestionHost() {
  const [typed, setTyped] = useState(''), ask = question.value;
  useEffect(() => setTyped(''), [ask]);
  if (!ask) return null;
  const end = (yes: boolean) => { question.value = null; ask.answer(yes); };
  const wrong = ask.typed !== undefined && typed !== ask.typed;
  return (
    <Dialog title={ask.title} onClose={() => end(false)}>
      <form onSubmit={(event) => { event.preventDefault(); if (!wrong) end(true); }}>
        <div class="dialog-text">{ask.text}</div>
        {ask.more}
        {ask.typed !== undefined && (
          <label class="field"><span>{t('confirm.type', { word: ask.typed })}</span>
            <input data-first value={typed} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} /></label>)}
        <footer>
          <Button label={t('cancel')} run={() => end(false)} />
          <button type="submit" class={`button ${ask.danger ? 'danger main' : 'main'}`} aria-disabled={wrong ? 'true' : undefined} data-first={ask.typed === undefined ? true : undefined}>{ask.action}</button>
        </footer>
      </form>
    </Dialog>
  );
}

// ---- messages ----

const notes = signal<{ id: number; text: string; kind: 'status' | 'error' }[]>([]);
let noted = 0;
/** A short message; read out, gone after a while. What was asked for and failed is shown in its place, too. */
export function say(text: string, kind: 'status' | 'error' = 'status'): void {
  const id = ++noted;
  notes.value = [...notes.value.slice(-3), { id, text, kind }];
  setTimeout(() => { notes.value = notes.value.filter((note) => note.id !== id); }, kind === 'error' ? 12_000 : 4000);
}
export const sayError = (error: unknown) => say(sentence(error), 'error');

export function NoteHost() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((note) => (
        <div key={note.id} class={`note ${note.kind}`}><Icon name={note.kind === 'error' ? 'warn' : 'check'} /><span>{note.text}</span>
          <Button label={t('close')} icon="close" iconOnly kind="quiet" run={() => { notes.value = notes.value.filter((each) => each !== note); }} /></div>
      ))}
    </div>
  );
}

// ---- states ----

export const sentence = (error: unknown) => error instanceof Error ? error.message : String(error);
const headlines: Record<string, Key> = { NOT_FOUND: 'error.NOT_FOUND', GONE: 'error.NOT_FOUND', DENIED: 'error.DENIED', UNAUTHORIZED: 'error.UNAUTHORIZED',
  BUSY: 'error.BUSY', LIMIT: 'error.LIMIT', PAUSED: 'error.PAUSED', FULL: 'error.FULL', TIMEOUT: 'error.TIMEOUT', EXISTS: 'error.EXISTS', INVALID: 'error.INVALID' };

/** What failed, in the daemon's own words. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const known = error instanceof CubbyError ? error : undefined;
  return (
    <div class="failure" role="alert">
      <Icon name="warn" />
      <div>
        <strong>{t(headlines[known?.code ?? ''] ?? 'error.other')}</strong>
        <p>{sentence(error)}</p>
        {known?.requestId && <p class="dim">{known.code} · <button type="button" class="link mono" title={t('copy')} onClick={() => copy(known.requestId!)}>{known.requestId}</button></p>}
        {retry && <Button label={t('again')} icon="refresh" run={retry} />}
      </div>
    </div>
  );
}

/** Nothing here yet: what the place is for, and the next step. */
export function Empty({ title, text, action, command, icon = 'boxes' }: {
  title: string; text: string; action?: Action | undefined; command?: string; icon?: IconName }) {
  return (
    <div class="empty">
      <Icon name={icon} size={36} />
      <h2>{title}</h2><p>{text}</p>
      {action && <Button kind="main" label={action.label} icon={action.icon ?? 'plus'} run={action.run} />}
      {command && <Command text={command} />}
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return <div class="skeleton" aria-busy="true" aria-label={t('loading')}>{Array.from({ length: rows }, (_, i) => <div key={i} />)}</div>;
}

/** The three states of something that is loaded; children draw the data. */
export function Show<T>({ of, children, rows = 6 }: { of: { data: T | undefined; error: unknown; slow: boolean; reload: () => void };
  children: (data: T) => ComponentChildren; rows?: number }) {
  if (of.data === undefined) return of.error ? <Failure error={of.error} retry={of.reload} /> : of.slow ? <Skeleton rows={rows} /> : null;
  return <>{Boolean(of.error) && <Failure error={of.error} retry={of.reload} />}{children(of.data)}</>;
}

/** The head of a view: title, what belongs beside it, actions. */
export function Head({ title, children, actions }: { title: ComponentChildren; children?: ComponentChildren; actions?: ComponentChildren }) {
  return <div class="head"><h1>{title}</h1><div class="head-more">{children}</div><div class="head-actions">{actions}</div></div>;
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return <label class="field"><span>{label}</span>{children}{hint && <small>{hint}</small>}</label>;
}

export function Switch({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return <label class="switch"><input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} /><span>{label}</span></label>;
}
