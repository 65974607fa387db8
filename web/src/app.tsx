// The frame of the page: side bar, bars for bad news, the view of the address, and what lies over it.
import { useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { BoxFrame } from './box';
import { duration, languages, t, useLanguage, language, type Language } from './i18n';
import { Icon } from './icons';
import { useKeys } from './keys';
import { go, match, place } from './router';
import { routes, thread, type Route, type ViewProps } from './routes';
import { can, hasToken, info, logout, may, offlineSince, reconnect, state, who } from './session';
import { applyTheme, dark, setSetting, setting } from './settings';
import { Button, Failure, helpOpen, lazy, MenuButton, MenuHost, NoteHost, paletteOpen, QuestionHost, Skeleton, type Action } from './ui';

const Palette = lazy(async () => (await import('./palette')).Palette), Help = lazy(async () => (await import('./palette')).Help);
const LoginSheet = lazy(async () => (await import('./login')).LoginSheet);

export const visible = (route: Route) => (!route.needs || can(route.needs)) && (!route.admin || may('admin'));

function themeActions(): Action[] {
  const set = (theme: string) => () => { setSetting('theme', theme); applyTheme(); };
  const speak = (to: Language) => () => { setSetting('language', to); return useLanguage(to); };
  const keys = setting('keys') !== 'off';
  return [
    { label: t('theme.light'), icon: 'sun', run: set('light') }, { label: t('theme.dark'), icon: 'moon', run: set('dark') },
    { label: t('theme.auto'), icon: 'system', run: set('auto') },
    ...(Object.keys(languages) as Language[]).filter((each) => each !== language.value).map((each) => ({ label: languages[each], icon: 'ports' as const, run: speak(each) })),
    { label: keys ? t('keys.off') : t('keys.on'), icon: 'info', run: () => setSetting('keys', keys ? 'off' : 'on') },
    { label: t('help.title'), icon: 'info', hint: '?', run: () => { helpOpen.value = true; } },
    ...(hasToken() ? [{ label: t('logout'), icon: 'logout' as const, run: logout }] : []),
  ];
}

function Side() {
  const path = place.value.path, me = who.value;
  return (
    <nav class="side" aria-label={t('nav')}>
      <a class="brand" href="/ui/boxes"><svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><rect width="32" height="32" rx="7" fill="var(--accent-solid)" />
        <path d="M8 9h16v14H8zM8 16h16M16 9v7" fill="none" stroke="#fff" stroke-width="2.6" stroke-linejoin="round" /></svg><span>cubby</span></a>
      <button type="button" class="find" onClick={() => { paletteOpen.value = true; }}><Icon name="search" /><span>{t('palette.find')}</span><kbd>Ctrl K</kbd></button>
      <ul>
        {routes.filter((route) => route.at === 'side' && visible(route)).map((route) => (
          <li key={route.pattern}><a href={route.pattern} aria-current={path === route.pattern || (path.startsWith(`${route.pattern}/`)) ? 'page' : undefined}>
            <Icon name={route.icon} /><span>{t(route.title)}</span></a></li>
        ))}
      </ul>
      <div class="side-foot">
        <span class="me" title={me.open ? t('who.open') : undefined}><Icon name="user" /><span>{me.open ? t('who.everybody') : me.label || me.user || me.scope}</span>
          {!me.open && <small>{me.scope}</small>}</span>
        <MenuButton label={t('settings')} icon={dark.value ? 'moon' : 'sun'} items={themeActions} />
      </div>
    </nav>
  );
}

function Bars() {
  const now = useSignal(Date.now()), since = offlineSince.value;
  useEffect(() => {
    if (since === null) return;
    const timer = setInterval(() => { now.value = Date.now(); }, 1000);
    return () => clearInterval(timer);
  }, [since]);
  if (since === null) return null;
  return (
    <div class="bar" role="status"><Icon name="warn" /><span>{t('offline', { age: duration(now.value - since) })}</span>
      <Button label={t('offline.now')} run={reconnect} kind="quiet" /></div>
  );
}

const loaded = new Map<string, ComponentType<ViewProps>>();
function View({ route, params }: { route: Route; params: Record<string, string> }) {
  const ready = useSignal(0), failed = useSignal<unknown>(null), key = route.pattern;
  useEffect(() => {
    failed.value = null;
    if (!route.lazy || loaded.has(key)) return;
    (route.view as () => Promise<{ default: ComponentType<ViewProps> }>)().then(
      (module) => { loaded.set(key, module.default); ready.value++; }, (error) => { failed.value = error; });
  }, [key]);
  ready.value;
  const Shown = route.lazy ? loaded.get(key) : route.view as ComponentType<ViewProps>;
  if (failed.value) return <Failure error={failed.value} retry={() => location.reload()} />;
  return Shown ? <Shown params={params} /> : <Skeleton />;
}

function Outlet() {
  const path = place.value.path;
  for (const route of [...routes, thread]) {
    const params = match(route.pattern, path) ?? (route.pattern.endsWith('/*') ? match(route.pattern.slice(0, -2), path) : null);
    if (!params || !visible(route)) continue;
    const view = <View key={route.pattern} route={route} params={params} />;
    return route.at === 'box' ? <BoxFrame key={params['id']} id={params['id']!} route={route}>{view}</BoxFrame>
      : <Titled title={t(route.title)}>{view}</Titled>;
  }
  return <div class="page"><h1>{t('nowhere')}</h1><p><a href="/ui/boxes">{t('fleet.title')}</a></p></div>;
}

export function Titled({ title, children }: { title: string; children: preact.ComponentChildren }) {
  useEffect(() => { document.title = `${title} · cubby`; }, [title]);
  return <>{children}</>;
}

const letters = Object.fromEntries(routes.filter((route) => route.at === 'side' && route.key)
  .map((route) => [`g ${route.key}`, () => go(route.pattern)]));

export function App() {
  useKeys({ '?': () => { helpOpen.value = true; }, 'mod+k': () => { paletteOpen.value = true; }, ...letters });
  const path = place.value.path;
  useEffect(() => { if (path === '/ui' || path === '/') go('/ui/boxes', 'replace'); }, [path]);
  const known = state.value;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>{t('skip')}</a>
      <div class="frame">
        <Side />
        <div class="content">
          <Bars />
          <main id="main" tabIndex={-1}>{known === 'unknown' && !info.value && offlineSince.value === null ? null : <Outlet />}</main>
        </div>
      </div>
      {(known === 'login' || known === 'revoked') && <LoginSheet revoked={known === 'revoked'} />}
      {paletteOpen.value && <Palette />}{helpOpen.value && <Help />}<QuestionHost /><MenuHost /><NoteHost />
    </>
  );
}
