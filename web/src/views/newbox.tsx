// A new box: the fields that matter, the JSON that is sent, and the equal command line.
import { useState } from 'preact/hooks';
import { refreshBox } from '../boxes';
import { t } from '../i18n';
import { go, href } from '../router';
import { api, info, may, who } from '../session';
import { Command, Dialog, Failure, Field, Switch } from '../ui';

const shell = (text: string) => /^[\w./:=@,-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
const initial = { user: '', thread: '', backend: '', template: '', memory_mb: '', cpus: '', pids: '', disk_mb: '', network: '', hosts: '', idle: '', labels: '', mount: '', target: '', writes: false, temporary: false };

/** The request: only what was filled in. */
export function requestOf(form: typeof initial): Record<string, unknown> {
  const body: Record<string, any> = {}, limits: Record<string, number> = {};
  for (const name of ['user', 'thread', 'backend', 'template'] as const) if (form[name].trim()) body[name] = form[name].trim();
  for (const name of ['memory_mb', 'cpus', 'pids', 'disk_mb'] as const) if (form[name].trim()) limits[name] = Number(form[name]);
  if (Object.keys(limits).length) body['limits'] = limits;
  if (form.network === 'open' || form.network === 'none') body['network'] = form.network;
  if (form.network === 'policy') body['network'] = { allow: form.hosts.split(/[\s,]+/).filter(Boolean) };
  if (form.idle.trim()) body['idle_timeout_ms'] = Math.round(Number(form.idle) * 60_000);
  if (form.labels.trim()) body['labels'] = Object.fromEntries(form.labels.split(/[\s,]+/).filter(Boolean).map((each) => {
    const cut = each.indexOf('=');
    return cut < 0 ? [each, ''] : [each.slice(0, cut), each.slice(cut + 1)];
  }));
  if (form.mount.trim()) body['mounts'] = [{ source: form.mount.trim(), target: form.target.trim() || '/mnt', read_only: !form.writes }];
  if (form.temporary) body['temporary'] = true;
  return body;
}

function lineOf(body: Record<string, any>): string {
  const flags: string[] = [];
  const add = (flag: string, value: unknown) => { if (value !== undefined) flags.push(`--${flag} ${shell(String(value))}`); };
  for (const name of ['user', 'thread', 'backend', 'template']) add(name, body[name]);
  add('memory', body['limits']?.memory_mb);
  add('disk', body['limits']?.disk_mb);
  add('cpus', body['limits']?.cpus);
  add('pids', body['limits']?.pids);
  if (typeof body['network'] === 'string') add('network', body['network']);
  for (const host of body['network']?.allow ?? []) add('allow', host);
  return ['cubby create', ...flags].join(' ');
}

export function NewBox({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState(initial), [error, setError] = useState<unknown>(null), [busy, setBusy] = useState(false), [more, setMore] = useState(false);
  const set = (change: Partial<typeof initial>) => setForm((now) => ({ ...now, ...change }));
  const text = (name: keyof typeof initial, extra: object = {}) => <input value={form[name] as string} spellcheck={false} autocomplete="off" name={name}
    onInput={(event) => set({ [name]: event.currentTarget.value })} {...extra} />;
  const amount = (name: keyof typeof initial, placeholder: string, extra: object = {}) => text(name, { type: 'number', min: 0, placeholder, ...extra });
  const body = requestOf(form);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const box = await api('box_acquire', [], { body });
      await refreshBox(box.id);
      go(href('boxes', box.id, 'terminal'), 'replace');
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const backends = ((info.value?.['backends'] ?? []) as { name: string; available: boolean }[]).filter((each) => each.available);
  return (
    <Dialog title={t('new.title')} onClose={onClose} side>
      <form class="form" onSubmit={submit}>
        <Field label={t('new.thread')} hint={t('new.thread.hint')}>{text('thread', { 'data-first': true, placeholder: t('new.thread.place') })}</Field>
        <div class="pair">
          <Field label={t('new.memory')}>{amount('memory_mb', '2048')}</Field>
          <Field label={t('new.cpus')}>{amount('cpus', t('new.any'), { step: '0.1' })}</Field>
        </div>
        <Field label={t('new.network')} hint={t('new.network.hint')}>
          <select value={form.network} onChange={(event) => set({ network: event.currentTarget.value })}>
            <option value="">{t('new.default')}</option><option value="none">{t('net.none')}</option><option value="policy">{t('net.policy')}</option><option value="open">{t('net.open')}</option></select></Field>
        {form.network === 'policy' && <Field label={t('new.hosts')}>{text('hosts', { placeholder: 'pypi.org *.example.org' })}</Field>}
        <button type="button" class="link" aria-expanded={more} onClick={() => setMore(!more)}>{more ? t('new.less') : t('new.more')}</button>
        {more && <>
          <div class="pair">
            {(who.value.user === null || may('admin')) && <Field label={t('new.user')}>{text('user', { placeholder: who.value.user ?? 'default' })}</Field>}
            <Field label={t('new.template')}>{text('template', { placeholder: 'host' })}</Field>
          </div>
          <div class="pair">
            <Field label={t('new.backend')}><select value={form.backend} onChange={(event) => set({ backend: event.currentTarget.value })}>
              <option value="">{t('new.default')}</option>{backends.map((each) => <option key={each.name} value={each.name}>{each.name}</option>)}</select></Field>
            <Field label={t('new.idle')}>{amount('idle', '10')}</Field>
          </div>
          <div class="pair">
            <Field label={t('new.pids')}>{amount('pids', '1024')}</Field>
            <Field label={t('new.disk')}>{amount('disk_mb', t('new.any'))}</Field>
          </div>
          <Field label={t('new.labels')}>{text('labels', { placeholder: 'team=web urgent' })}</Field>
          <div class="pair">
            <Field label={t('new.mount')}>{text('mount', { placeholder: '/srv/data' })}</Field>
            <Field label={t('new.target')}>{text('target', { placeholder: '/mnt' })}</Field>
          </div>
          {form.mount && <Switch label={t('new.writes')} on={form.writes} set={(writes) => set({ writes })} />}
          <Switch label={t('new.temporary')} on={form.temporary} set={(temporary) => set({ temporary })} />
        </>}
        {error !== null && <Failure error={error} />}
        <footer><button type="submit" class="button main" aria-disabled={busy ? 'true' : undefined}>{busy ? t('new.making') : t('new.make')}</button></footer>
        <details><summary>{t('new.same')}</summary>
          <Command text={lineOf(body)} />
          <Command text={`curl ${location.origin}/v1/boxes -d ${shell(JSON.stringify(body))}`} /></details>
      </form>
    </Dialog>
  );
}
