// The state of a box: a word, a shape and a colour.
import { t, type Key } from './i18n';

const words: Record<string, Key> = { starting: 'state.starting', ready: 'state.ready', warm: 'state.warm', paused: 'state.paused',
  exporting: 'state.exporting', closing: 'state.closing', offline: 'state.offline', died: 'state.died', stopped: 'state.stopped' };
export const stateOf = (box: { state: string; died: string | null; running: boolean }) =>
  box.died && !box.running ? 'died' : box.state === 'ready' && !box.running ? 'stopped' : box.state;

export function StateMark({ box }: { box: { state: string; died: string | null; running: boolean } }) {
  const state = stateOf(box);
  return <span class={`state ${state}`} title={box.died ?? undefined}><span class="shape" aria-hidden="true" />{t(words[state] ?? 'state.other')}</span>;
}
