// Ctrl-K: boxes by name, views and actions; and the list of keys.
import { useEffect, useRef, useState } from 'preact/hooks';
import { act, verbs } from './actions';
import { boxes, nameOf, reloadBoxes } from './boxes';
import { t, type Key } from './i18n';
import { Icon, type IconName } from './icons';
import { go, href, match, place } from './router';
import { routes } from './routes';
import { can, may } from './session';
import { Dialog, helpOpen, paletteOpen } from './ui';

interface Entry {
  label: string;
  more: string;
  icon: IconName;
  run: () => unknown;
}

function entries(): Entry[] {
  const here = match('/ui/boxes/:id/*', place.value.path) ?? match('/ui/boxes/:id', place.value.path), box = here && boxes.value.get(here['id']!);
  const list: Entry[] = [];
  for (const route of routes) {
    if ((route.needs && !can(route.needs)) || (route.admin && !may('admin'))) continue;
    if (route.at === 'side') list.push({ label: t(route.title), more: t('palette.view'), icon: route.icon, run: () => go(route.pattern) });
    if (route.at === 'box' && here) list.push({ label: t(route.title), more: t('palette.box', { name: box ? nameOf(box) : here['id']! }), icon: route.icon,
      run: () => go(route.pattern.replace(':id', here['id']!).replace(/\/\*$/, '')) });
  }
  if (box && may('write')) for (const verb of verbs) if (verb.fits(box))
    list.push({ label: t(verb.label), more: t('palette.box', { name: nameOf(box) }), icon: verb.icon, run: () => act(verb, [box]) });
  if (may('write')) list.push({ label: t('new.title'), more: t('palette.action'), icon: 'plus', run: () => go('/ui/boxes?new=1') });
  for (const each of boxes.value.values()) list.push({ label: nameOf(each), more: `${each.user} · ${each.id}`, icon: 'boxes', run: () => go(href('boxes', each.id)) });
  return list;
}

function ranked(all: Entry[], query: string): Entry[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return all.slice(0, 50);
  const found: [number, Entry][] = [];
  for (const entry of all) {
    const text = `${entry.label} ${entry.more}`.toLowerCase();
    if (words.every((word) => text.includes(word))) found.push([entry.label.toLowerCase().startsWith(words[0]!) ? 0 : 1, entry]);
  }
  return found.sort(([a], [b]) => a - b).slice(0, 50).map(([, entry]) => entry);
}

export function Palette() {
  const [query, setQuery] = useState(''), [at, setAt] = useState(0), list = useRef<HTMLUListElement>(null);
  useEffect(() => { void reloadBoxes(); }, []);
  const found = ranked(entries(), query), close = () => { paletteOpen.value = false; };
  const run = (entry: Entry | undefined) => { close(); void entry?.run(); };
  useEffect(() => { list.current?.children[at]?.scrollIntoView({ block: 'nearest' }); }, [at]);
  return (
    <Dialog title={t('palette.title')} onClose={close}>
      <div class="palette">
        <input data-first role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found.length ? `palette-${at}` : undefined} aria-label={t('palette.title')}
          placeholder={t('palette.hint')} value={query} spellcheck={false} onInput={(event) => { setQuery(event.currentTarget.value); setAt(0); }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') setAt(Math.min(at + 1, found.length - 1));
            else if (event.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
            else if (event.key === 'Enter') run(found[at]);
            else return;
            event.preventDefault();
          }} />
        <ul id="palette-list" role="listbox" aria-label={t('palette.title')} ref={list}>
          {found.map((entry, i) => (
            <li key={`${entry.label}${entry.more}`} id={`palette-${i}`} role="option" aria-selected={i === at} onMouseEnter={() => setAt(i)} onClick={() => run(entry)}>
              <Icon name={entry.icon} /><span>{entry.label}</span><small>{entry.more}</small></li>
          ))}
        </ul>
        {!found.length && <p class="dim">{t('palette.none')}</p>}
      </div>
    </Dialog>
  );
}

const keys: [string, Key][] = [['?', 'help.help'], ['/', 'help.filter'], ['Ctrl K', 'help.palette'], ['g b', 'help.boxes'], ['g o f t c p s l', 'help.tabs'], ['j k ↓ ↑', 'help.move'],
  ['Enter', 'help.open'], ['x', 'help.select'], ['.', 'help.menu'], ['t', 'help.terminal'], ['n', 'help.new'], ['r', 'help.refresh'], ['[ ]', 'help.next'], ['Esc', 'help.close'],
  ['Ctrl Shift C / V', 'help.copy'], ['Ctrl Shift F', 'help.search'], ['Ctrl Shift ← →', 'help.term.tabs'], ['Ctrl Shift L', 'help.leave']];

export function Help() {
  return (
    <Dialog title={t('help.title')} onClose={() => { helpOpen.value = false; }}>
      <dl class="keys">{keys.map(([key, text]) => <div key={key}><dt>{key.split(' ').map((each) => /^[\/]$/.test(each) && key.length > 3 ? ' / ' : <kbd key={each}>{each}</kbd>)}</dt><dd>{t(text)}</dd></div>)}</dl>
    </Dialog>
  );
}
