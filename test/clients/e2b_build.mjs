// Template builds with npm's e2b, as applications use them. usage: node e2b_build.mjs [PACKAGE]
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { error, is, main, ok } from '../mcp/report.mjs';

const { Sandbox, Template, waitForFile } = await import(process.argv[2] ?? 'e2b');
const label = `b${process.pid}`;
const context = mkdtempSync(join(tmpdir(), 'cubby-build-'));
const started = [];

async function build(template, name, options = {}) {
  const logs = [];
  const info = await Template.build(template, `${label}-${name}`,
    { onBuildLogs: (entry) => logs.push(entry.message), ...options });
  return { ...info, logs, cached: logs.filter((line) => line.startsWith('CACHED')).length };
}
async function sandbox(name) {
  const made = await Sandbox.create(name, { timeoutMs: 60_000 });
  started.push(made);
  return made;
}
const out = async (made, command, options) => (await made.commands.run(command, options)).stdout.trimEnd();

async function steps() {
  const template = () => Template().fromBaseImage()
    .setEnvs({ RUN: label, COLOUR: 'red', TWICE: '$COLOUR-$COLOUR' })
    .setWorkdir('/app')
    .runCmd('echo "$COLOUR $(whoami) $(pwd)" > made')
    .runCmd('whoami > /opt/by-root', { user: 'root' })
    .runCmd(['echo one >> made', 'echo two >&2']);
  const first = await build(template(), 'steps');
  ok('what a build prints is in its logs', first.logs.includes('two'), first.logs);
  is('nothing is known at first', first.cached, 0);
  const made = await sandbox(first.name);
  is('files of its steps, each as its user in its directory', await out(made, 'cat /app/made /opt/by-root'),
    'red user /app\none\nroot');
  is('variables are those of every command', await out(made, 'echo $TWICE'), 'red-red');
  is('commands start in its directory', await out(made, 'pwd'), '/app');
  is('files that say which one it is', await out(made, 'cd /run/e2b; cat .E2B_SANDBOX .E2B_SANDBOX_ID .E2B_TEMPLATE_ID'),
    `true${made.sandboxId}${first.templateId}`);
  is('its template', (await made.getInfo()).templateId, first.templateId);
  ok('it exists', await Template.exists(first.name));

  const again = await build(template(), 'steps');
  is('an unchanged build runs nothing', again.cached, 4);
  is('and is a build of the same template', [again.templateId === first.templateId, again.buildId !== first.buildId],
    [true, true]);
  const longer = await build(template().runCmd('cat /app/made > /app/copy'), 'longer');
  is('a further step runs alone', longer.cached, 4);
  is('on the files of the others', await out(await sandbox(longer.name), 'tail -1 /app/copy'), 'one');
  is('without the cache all run', (await build(template(), 'steps', { skipCache: true })).cached, 0);
}

async function copies() {
  mkdirSync(join(context, 'tree/deep'), { recursive: true });
  writeFileSync(join(context, 'tree/a.txt'), 'a');
  writeFileSync(join(context, 'tree/deep/b.md'), 'b');
  writeFileSync(join(context, 'one.sh'), 'echo ran');
  symlinkSync('a.txt', join(context, 'tree/link'));
  const template = () => Template({ fileContextPath: context }).fromTemplate('base').setEnvs({ RUN: label })
    .copy('one.sh', '/srv/bin/', { mode: 0o755, user: 'root' })
    .copy('one.sh', 'renamed.sh')
    .copy('tree', '/srv/tree')
    .copy('tree/*.txt', '/srv/texts/');
  const first = await build(template(), 'copies');
  const made = await sandbox(first.name);
  is('into a directory, with owner and mode', await out(made, 'stat -c "%U %a" /srv/bin/one.sh; /srv/bin/one.sh'),
    'root 755\nran');
  is('under another name, below the working directory', await out(made, 'stat -c "%U %n" ~/renamed.sh'),
    'user /home/user/renamed.sh');
  is('a directory', await out(made, 'cd /srv/tree && find . | sort | xargs; readlink link'),
    '. ./a.txt ./deep ./deep/b.md ./link\na.txt');
  is('a pattern', await out(made, 'ls /srv/texts'), 'a.txt');
  is('no archive stays in the box', await out(made, 'ls -A /tmp | grep -c cubby-copy || true'), '0');
  is('unchanged files are not uploaded again', (await build(template(), 'copies')).cached, 4);
  writeFileSync(join(context, 'tree/a.txt'), 'changed');
  const changed = await build(template(), 'copies');
  is('changed ones are', changed.cached, 2);
  is('and the template has them', await out(await sandbox(changed.name), 'cat /srv/texts/a.txt'), 'changed');
}

async function failures() {
  const message = async (template, name) => (await error(build(template, name)))?.message;
  is('a command that fails', await message(Template().fromBaseImage().runCmd('exit 3'), 'exit'),
    "failed to run command 'exit 3': command failed: exit status 3");
  is('a name that is not one', /failed to set the user 'a b': a name has/.test(
    await message(Template().fromBaseImage().setUser('a b'), 'name')), true);
  is('a user that is not there', await message(Template().fromBaseImage().runCmd('true', { user: 'root123' }), 'user'),
    "failed to run command 'true': command failed: unauthenticated: invalid username: 'root123'");
  ok('an image that is not there', /e2b_images/.test(await message(Template().fromImage('no/such:1'), 'image')));
  ok('a template that is not there', /not found/.test(await message(Template().fromTemplate('no-such'), 'none')));
  is('nothing comes of a build that fails', await Template.exists(`${label}-exit`), false);
  const failing = await Template.buildInBackground(Template().fromBaseImage().runCmd('true').runCmd('false'),
    `${label}-second`);
  for (;;) {
    const status = await Template.getBuildStatus(failing);
    if (status.status === 'error') {
      is('which step it was', status.reason.step, '2');
      break;
    }
  }
}

async function users() {
  const { name } = await build(Template().fromBaseImage().setUser('root').runCmd('whoami > /opt/who'), 'users');
  const made = await sandbox(name);
  is('the user of a template is that of its commands', await out(made, 'cat /opt/who; whoami'), 'root\nroot');
  is('unless they name one', await out(made, 'whoami', { user: 'user' }), 'user');
  const other = await build(Template().fromBaseImage().setUser('worker').setWorkdir('/work')
    .runCmd('whoami > who').runCmd('whoami', { user: 'user' }).runCmd('whoami > /opt/who', { user: 'root' }), 'worker');
  const works = await sandbox(other.name);
  is('a user that the template makes has its own steps', await out(works, 'cat who /opt/who; stat -c %U /work who'),
    'worker\nroot\nworker\nworker');
  is('and the commands of its sandboxes', await out(works, 'whoami; echo $HOME $USER; pwd; grep CapEff /proc/self/status'),
    'worker\n/home/worker worker\n/work\nCapEff:\t0000000000000000');
  is('unless they name another', [await out(works, 'whoami', { user: 'user' }), await out(works, 'whoami', { user: 'root' })],
    ['user', 'root']);
  is('what it may not, it may not', await out(works, 'touch /root/x /home/user/x 2>&1 | grep -c denied'), '2');
  is('it has sudo', await out(works, 'sudo id -u'), '0');
  let pty = '';
  const terminal = await works.pty.create({ cols: 80, rows: 24, onData: (data) => { pty += new TextDecoder().decode(data); } });
  await works.pty.sendInput(terminal.pid, new TextEncoder().encode('stat -c "is %U" $(tty); exit\n'));
  await terminal.wait();
  is('and terminals of its own', /^is (.*)\r$/m.exec(pty)?.[1] ?? pty, 'worker');
  await works.files.write('own.txt', 'own');
  is('files that it writes are its own, at home', await out(works, 'stat -c %U ~/own.txt'), 'worker');
  is('as a name of a call', [await works.files.read('own.txt', { user: 'worker' }),
    (await works.files.getInfo('/home/worker/own.txt')).owner], ['own', 'worker']);
  is('a user whom the sandbox does not have', /invalid username: 'nobody2'/.test(
    (await error(works.commands.run('true', { user: 'nobody2' })))?.message ?? ''), true);
  const again = await build(Template().fromBaseImage().setUser('worker').setWorkdir('/work').runCmd('whoami > who'), 'w2');
  is('its making is a step that is kept', again.cached, 3);
  if (!made.fork) return;
  const [fork] = await made.fork({ count: 1, timeoutMs: 60_000 });
  started.push(fork.sandbox ?? fork);
  is('a fork has its own id in its files', await out(fork.sandbox ?? fork, 'cat /run/e2b/.E2B_SANDBOX_ID'),
    (fork.sandbox ?? fork).sandboxId);
}

async function starts() {
  const template = Template().fromBaseImage().setWorkdir('/srv/www')
    .setStartCmd('echo $$ > /tmp/pid; echo up > /tmp/started; exec sleep 1000', waitForFile('/tmp/started'));
  const { name } = await build(template, 'starts');
  const made = await sandbox(name);
  is('the start command runs in each sandbox', await out(made, 'cat /tmp/started; kill -0 $(cat /tmp/pid) && echo runs'),
    'up\nruns');
  is('in its directory', await out(made, 'readlink /proc/$(cat /tmp/pid)/cwd'), '/srv/www');
}

async function tags() {
  const template = Template().fromBaseImage().runCmd('echo tagged > ~/f');
  const { name, templateId, buildId, tags: given } = await build(template, 'tags:v1', { tags: ['latest'] });
  is('the tags that were asked for', given, ['v1', 'latest']);
  is('each is a way to name it', await out(await sandbox(`${label}-tags:latest`), 'cat f'), 'tagged');
  is('without one it has no name', await Template.exists(`${label}-tags`), false);
  if (!Template.getTags) return;
  await Template.assignTags(name, ['default']);
  const all = await Template.getTags(templateId);
  is('a build has its tags', all.map((tag) => tag.tag).sort(), ['default', 'latest', 'v1']);
  is('and they name it', [...new Set(all.map((tag) => tag.buildId))], [buildId]);
  await Template.removeTags(`${label}-tags`, ['v1']);
  is('one less', await Template.exists(name), false);
  const sized = await build(template, 'sized', { cpuCount: 1, memoryMB: 256 });
  const info = await (await sandbox(sized.name)).getInfo();
  is('the size of its sandboxes', [info.cpuCount, info.memoryMB], [1, 256]);
}

await main(async () => {
  try {
    await steps();
    await copies();
    await failures();
    await users();
    await starts();
    await tags();
  } finally {
    for (const made of started) await made.kill();
    rmSync(context, { recursive: true });
  }
});
