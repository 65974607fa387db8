// The life of sandboxes with npm's e2b, as applications use it. usage: node e2b_sandbox.mjs [PACKAGE]
import { error, eventually, is, main, ok } from '../mcp/report.mjs';

const { Sandbox, ...sdk } = await import(process.argv[2] ?? 'e2b');
const name = (promise) => error(promise).then((e) => e?.constructor.name);

async function life() {
  const metadata = { a: 'b c', 'ü&=%': '100% +?' };
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata, envs: { COLOUR: 'red' } });
  ok('an id that fits a host name', /^[a-z0-9]+$/.test(sandbox.sandboxId), sandbox.sandboxId);
  ok('it is running', await sandbox.isRunning());
  is('its variables', (await sandbox.commands.run('echo $COLOUR')).stdout, 'red\n');
  const info = await sandbox.getInfo();
  is('what is told of it', [info.sandboxId, info.templateId, info.name, info.metadata, info.state, info.envdVersion],
    [sandbox.sandboxId, 'base', 'base', metadata, 'running', '0.6.13']);
  ok('times are dates', info.endAt - info.startedAt > 55_000 && info.endAt - info.startedAt <= 60_000, info);

  await sandbox.setTimeout(5_000);
  const sooner = (await sandbox.getInfo()).endAt;
  ok('a time-out may be shortened', sooner < info.endAt, sooner);
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 1_000 });
  is('connect never shortens it', (await sandbox.getInfo()).endAt, sooner);
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 120_000 });
  ok('connect lengthens it', (await again.getInfo()).endAt > sooner);
  is('and leads to the same sandbox', (await again.commands.run('echo $COLOUR')).stdout, 'red\n');

  const metrics = await sandbox.getMetrics();
  ok('what it uses', metrics.length >= 1 && metrics.every((one) => one.memTotal > 0 && one.cpuCount > 0), metrics);
  is('kill', await sandbox.kill(), true);
  is('kill again', await Sandbox.kill(sandbox.sandboxId), false);
  is('it does not run any more', await sandbox.isRunning(), false);
  is('there is nothing to be told of it', await name(Sandbox.getInfo(sandbox.sandboxId)), 'SandboxNotFoundError');
  is('nor to connect to', await name(Sandbox.connect(sandbox.sandboxId)), 'SandboxNotFoundError');
  is('nor to give time', await name(Sandbox.setTimeout(sandbox.sandboxId, 1000)), 'SandboxNotFoundError');
}

async function pause() {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
  const handle = await sandbox.commands.run('while sleep 0.05; do date +%s%N > beat; done', { background: true });
  const started = (await sandbox.getInfo()).startedAt;
  is('pause', await Sandbox.betaPause(sandbox.sandboxId), true);
  is('a paused one is paused', await Sandbox.betaPause(sandbox.sandboxId), false);
  is('it is told so', (await Sandbox.getInfo(sandbox.sandboxId)).state, 'paused');
  is('it does not answer', await sandbox.isRunning(), false);
  const resumed = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 });
  ok('connect resumes it', await resumed.isRunning());
  ok('it counts as started then', (await resumed.getInfo()).startedAt > started);
  ok('its processes go on', (await resumed.commands.list()).some((process) => process.pid === handle.pid));
  await sandbox.kill();

  const missing = '0123456789abcdef';
  is('pause of one that is not there', await name(Sandbox.betaPause(missing)), 'SandboxNotFoundError');
}

async function deadlines() {
  const brief = await Sandbox.create({ timeoutMs: 1_000 });
  const paused = await Sandbox.create({ timeoutMs: 1_000, lifecycle: { onTimeout: 'pause' } });
  await paused.commands.run('echo kept > file');
  ok('at its end it is killed', await eventually(4, async () => !(await brief.isRunning())));
  is('and gone', await Sandbox.kill(brief.sandboxId), false);
  ok('or paused', await eventually(4, async () => (await Sandbox.getInfo(paused.sandboxId)).state === 'paused'));
  const resumed = await Sandbox.connect(paused.sandboxId, { timeoutMs: 60_000 });
  is('with its files', (await resumed.commands.run('cat file')).stdout, 'kept\n');
  await resumed.kill();
}

async function lists() {
  const tag = `list-${process.pid}-${Date.now()}`;
  const made = [];
  for (let i = 0; i < 3; i++) made.push(await Sandbox.create({ timeoutMs: 60_000, metadata: { tag, number: `${i}` } }));
  const ids = made.map((sandbox) => sandbox.sandboxId);
  const all = async (options) => {
    const pages = Sandbox.list(options);
    const found = [];
    while (pages.hasNext) found.push(...(await pages.nextItems()).map((item) => item.sandboxId));
    return found;
  };
  is('all of a tag, the newest first', await all({ query: { metadata: { tag } } }), [...ids].reverse());
  is('by pages of one', await all({ query: { metadata: { tag } }, limit: 1 }), [...ids].reverse());
  is('by two pairs', await all({ query: { metadata: { tag, number: '1' } } }), [ids[1]]);
  is('of none', await all({ query: { metadata: { tag: 'none' } } }), []);
  await Sandbox.betaPause(ids[0]);
  is('those that are paused', await all({ query: { metadata: { tag }, state: ['paused'] } }), [ids[0]]);
  is('those that run', await all({ query: { metadata: { tag }, state: ['running'] } }), [ids[2], ids[1]]);
  for (const sandbox of made) await sandbox.kill();
  is('when they are gone', await all({ query: { metadata: { tag } } }), []);
}

async function snapshots() {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
  if (!sandbox.createSnapshot) return sandbox.kill(); // an older client
  await sandbox.commands.run('echo one > file');
  const snapshot = await sandbox.createSnapshot();
  await sandbox.commands.run('echo two > file');
  const { snapshotId } = snapshot;
  await sandbox.kill();
  const other = await Sandbox.create(snapshotId, { timeoutMs: 60_000 });
  is('a snapshot outlives its sandbox', (await other.commands.run('cat file')).stdout, 'one\n');
  const listed = await Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }).nextItems();
  is('it is listed', listed.map((item) => item.snapshotId), [snapshotId]);
  is('and deleted', await Sandbox.deleteSnapshot(snapshotId), true);
  is('once', await Sandbox.deleteSnapshot(snapshotId), false);
  is('nothing is made from it then', await name(Sandbox.create(snapshotId)), 'SandboxError');
  if (other.fork) {
    const forks = await other.fork({ count: 2, timeoutMs: 60_000 });
    const texts = [];
    for (const fork of forks) texts.push((await (fork.sandbox ?? fork).commands.run('cat file')).stdout);
    is('forks have its files', texts, ['one\n', 'one\n']);
  }
  await other.kill();
}

async function refused() {
  is('a template that is not there', (await error(Sandbox.create('no-such-template')))?.message,
    "404: template 'no-such-template' not found");
  is('a wrong key', await name(Sandbox.create({ apiKey: 'e2b_00ff' })), 'AuthenticationError');
  is('a network that cannot be had is refused', /^400: network/.test((await error(Sandbox.create({
    network: { denyOut: ['a.example'] } })))?.message ?? ''), sdk.SandboxNetworkOpts === undefined);
}

await main(async () => {
  await life();
  await pause();
  await deadlines();
  await lists();
  await snapshots();
  await refused();
});
