// The login sheet: over the page, so that the place is not lost.
import { useState } from 'preact/hooks';
import { t } from './i18n';
import { login, type Keep } from './session';
import { Command, Dialog, Failure, Field } from './ui';

export function LoginSheet({ revoked }: { revoked: boolean }) {
  const [token, setToken] = useState(''), [keep, setKeep] = useState<Keep>('tab'), [error, setError] = useState<unknown>(null), [busy, setBusy] = useState(false);
  const enter = async (event: Event) => {
    event.preventDefault();
    if (!token.trim() || busy) return;
    setBusy(true);
    try {
      await login(token.trim(), keep);
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return (
    <Dialog title={t('login.title')} onClose={() => undefined} fixed>
      <form class="login" onSubmit={enter}>
        <p>{revoked ? t('login.revoked') : t('login.text')}</p>
        <Field label={t('login.token')}><input type="password" data-first name="token" autocomplete="current-password" spellcheck={false} value={token}
          onInput={(event) => setToken(event.currentTarget.value)} /></Field>
        <Field label={t('login.keep')}><select value={keep} onChange={(event) => setKeep(event.currentTarget.value as Keep)}>
          <option value="memory">{t('login.keep.memory')}</option><option value="tab">{t('login.keep.tab')}</option><option value="machine">{t('login.keep.machine')}</option>
        </select></Field>
        {error !== null && <Failure error={error} />}
        <footer><button type="submit" class="button main" aria-disabled={busy || !token ? 'true' : undefined}>{t('login.enter')}</button></footer>
        <p class="dim">{t('login.make')}</p>
        <Command text="cubby token create --scope admin" />
      </form>
    </Dialog>
  );
}
