// What a view of a box shows while nothing runs in it: looking starts nothing, a button does.
import type { ComponentChildren } from 'preact';
import { act, verbs } from './actions';
import { useBox } from './box';
import { t } from './i18n';
import { w } from './more';
import { may } from './session';
import { Empty } from './ui';

export function Awake({ children }: { children: ComponentChildren }) {
  const box = useBox(), up = box.running && box.state !== 'paused';
  if (up) return <>{children}</>;
  const verb = verbs.find((each) => ['resume', 'start'].includes(each.id) && each.fits(box));
  return <Empty icon="boxes" title={box.state === 'paused' ? t('terminal.paused') : t('terminal.asleep')} text={box.state === 'offline' ? t('terminal.offline') : w('asleep.text')}
    action={verb && may('write') ? { label: t(verb.label), icon: 'play', run: () => act(verb, [box]) } : undefined} />;
}
