// The skills that the agent of a box finds, and what the registry could add.
import type { RegistryEntry, Skill } from '../../../clients/typescript/dist/wire.js';
import { Awake } from '../awake';
import { useBox } from '../box';
import { t } from '../i18n';
import { Icon } from '../icons';
import { useLoad } from '../load';
import { w } from '../more';
import { api, may } from '../session';
import { confirm, Empty, MenuButton, say, sayError, Show } from '../ui';
import { fileHref } from './files';

function BoxSkills() {
  const box = useBox(), id = box.id, write = may('write');
  const skills = useLoad(() => api('skill_list', [id]) as Promise<{ skills: Skill[]; bad: { path: string; why?: string }[] }>, [id]);
  const registry = useLoad(async () => (await api('registry_search', [], { query: { type: 'skill' } })).entries as RegistryEntry[], []);
  const run = async (what: Promise<unknown>, text: string) => { try { await what; say(text); } catch (error) { sayError(error); } skills.reload(); };
  const remove = async (skill: Skill) => {
    if (await confirm({ title: w('skill.remove', { name: skill.name }), text: w('skill.remove.text'), danger: true, action: t('act.delete') })) await run(api('skill_remove', [id, skill.id]), w('files.removed', { name: skill.name }));
  };
  return (
    <div class="overview">
      <div class="tools">{write && <MenuButton label={w('skill.install')} icon="plus" kind="" items={() => (registry.data ?? []).length ? (registry.data ?? []).map((each) => ({ label: `${each.name} ${each.version}`, icon: 'skills' as const, run: () => run(api('skill_install', [id], { body: { entry: String(each.id) } }), w('skill.installed', { name: each.name })) })) : [{ label: w('skill.registry.empty'), run: () => undefined }]}><span>{w('skill.install')}</span></MenuButton>}</div>
      <Show of={skills}>{(data) => data.skills.length ? <ul class="cards">{data.skills.map((skill) => <li key={skill.path} class="card"><Icon name="skills" size={20} />
        <div class="card-text"><strong><bdi>{skill.name}</bdi></strong><span>{skill.description}</span><span class="dim mono">{skill.source}{skill.version && ` · ${skill.version}`}{skill.author && ` · ${skill.author}`} · {skill.path}</span></div>
        <div class="card-actions">{skill.file && <a class="button" href={fileHref(id, skill.file.startsWith('/') ? skill.file : `${skill.path}/${skill.file}`)}><Icon name="file" />SKILL.md</a>}{write && <MenuButton label={t('box.menu.of', { name: skill.name })} items={() => [{ label: t('act.delete'), icon: 'trash', danger: true, run: () => remove(skill) }]} />}</div></li>)}</ul>
        : <Empty icon="skills" title={w('skill.none')} text={w('skill.none.text')} command={`cubby skill list --box ${id}`} />}</Show>
    </div>
  );
}
export default () => <Awake><BoxSkills /></Awake>;
