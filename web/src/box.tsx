// The frame of one box: its name and state, what can be done with it, its tabs. Looking at it wakes nothing.
import { createContext, type ComponentChildren } from 'preact';
import { useContext, useEffect } from 'preact/hooks';
import { act, boxActions, verbs } from './actions';
import { boxes, nameOf, refreshBox, useUsage, type Row } from './boxes';
import { Titled, visible } from './app';
import { onEvent } from './events';
import { dateTime, t } from './i18n';
import { Icon } from './icons';
import { useKeys } from './keys';
import { useLoad } from './load';
import { go, href } from './router';
import { routes, type Route } from './routes';
import { api, may, shown } from './session';
import { StateMark } from './state';
import { Button, Empty, Failure, MenuButton, Skeleton, copy } from './ui';

const Context = createContext<Row | null>(null);
/** The box of the view: a view below BoxFrame always has one. */
export const useBox = (): Row => useContext(Context)!;

const tabs = routes.filter((route) => route.at === 'box');
export const tabHref = (route: Route, id: string) => route.pattern.replace(':id', encodeURIComponent(id)).replace(/\/\*$/, '');

export function BoxFrame({ id, route, children }: { id: string; route: Route; children: ComponentChildren }) {
  const first = useLoad(() => api('box_get', [id]), [id]);
  useEffect(() => { if (first.data) boxes.value = new Map(boxes.value).set(id, { cpu: null, ...first.data }); }, [first.data]);
  const pause = useUsage();
  useEffect(() => {
    const timer = setInterval(() => { if (shown.value) void refreshBox(id); }, pause);
    const off = onEvent((event) => { if (event.box === id) void refreshBox(id); });
    return () => { clearInterval(timer); off(); };
  }, [id, pause]);
  const missing = (first.error as { code?: string } | undefined)?.code === 'NOT_FOUND';
  const deleted = useLoad(async () => missing ? ((await api('audit', [], { query: { box: id, verb: 'box_destroy', tail: 1, limit: 1 } })).events[0] as Record<string, unknown> | undefined) : undefined, [id, missing]);
  const box = boxes.value.get(id), gone = first.data && !box && boxes.value.size >= 0;
  const views = tabs.filter(visible);
  const neighbour = (step: number) => () => {
    const ids = [...boxes.value.keys()], at = ids.indexOf(id);
    if (at >= 0 && ids.length > 1) go(tabHref(route, ids[(at + step + ids.length) % ids.length]!));
  };
  useKeys({ ...Object.fromEntries(views.filter((each) => each.key).map((each) => [`g ${each.key}`, () => go(tabHref(each, id))])),
    t: () => go(href('boxes', id, 'terminal')), r: () => { void refreshBox(id); first.reload(); }, '[': neighbour(-1), ']': neighbour(1) });
  const row: Row | undefined = box ?? (first.data ? { cpu: null, ...first.data } : undefined);
  const name = row ? nameOf(row) : id;
  if (!row) return <div class="page">{first.error ? <>
    {missing
      ? <Empty icon="boxes" title={t('box.gone')} text={deleted.data ? t('box.gone.by', { at: dateTime(deleted.data['at'] as string), who: String(deleted.data['actor'] ?? deleted.data['token'] ?? deleted.data['user'] ?? '?') }) : t('box.gone.text')} action={{ label: t('fleet.title'), icon: 'boxes', run: () => go('/ui/boxes') }} />
      : <Failure error={first.error} retry={first.reload} />}</> : first.slow ? <Skeleton /> : null}</div>;
  return (
    <Titled title={`${name} · ${t(route.title)}`}>
      <div class="box">
        <header class="box-head">
          <a class="crumb" href="/ui/boxes" aria-label={t('fleet.title')} title={t('fleet.title')}><Icon name="left" /></a>
          <h1 title={name}>{name}</h1>
          <StateMark box={row} />
          <span class="dim box-id">{row.user} · <button type="button" class="link mono" title={t('copy.id')} onClick={() => copy(id)}>{id}</button></span>
          <div class="head-actions">
            {may('write') && verbs.filter((verb) => ['pause', 'resume', 'start', 'snapshot'].includes(verb.id) && verb.fits(row)).map((verb) =>
              <Button key={verb.id} label={t(verb.label)} icon={verb.icon} run={() => act(verb, [row])} />)}
            <MenuButton label={t('box.menu')} items={() => boxActions(row)} />
          </div>
        </header>
        <nav class="tabs" aria-label={t('box.tabs')}>
          {views.map((each) => <a key={each.pattern} href={tabHref(each, id)} aria-current={each === route ? 'page' : undefined}><Icon name={each.icon} /><span>{t(each.title)}</span></a>)}
        </nav>
        {gone && <div class="bar" role="status"><Icon name="warn" /><span>{t('box.deleted')}</span><a class="button quiet" href="/ui/boxes">{t('fleet.title')}</a></div>}
        <Context.Provider value={row}><section class="box-view">{children}</section></Context.Provider>
      </div>
    </Titled>
  );
}
