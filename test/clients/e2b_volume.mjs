// Volumes with npm's e2b. usage: node e2b_volume.mjs [PACKAGE]; E2B_VOLUME_API_URL names the daemon.
import { error, is, main, ok } from '../mcp/report.mjs';

const { Sandbox, Volume } = await import(process.argv[2] ?? 'e2b');
const label = `v${process.pid}`;
const name = (promise) => error(promise).then((e) => e?.constructor.name);

async function content(volume) {
  is('a new one is empty', await volume.list('/'), []);
  const made = await volume.makeDir('/a');
  is('a directory', [made.name, made.type, made.path, made.uid, made.gid, made.mode & 0o777],
    ['a', 'directory', '/a', 1000, 1000, 0o755]);
  is('deep without parents', await name(volume.makeDir('/x/y')), 'VolumePathNotFoundError');
  is('and with them', (await volume.makeDir('/x/y', { force: true })).path, '/x/y');
  const file = await volume.writeFile('/a/f.txt', 'text', { mode: 0o600 });
  is('a file', [file.name, file.type, file.size, file.mode & 0o777], ['f.txt', 'file', 4, 0o600]);
  ok('times are dates', Math.abs(file.mtime - Date.now()) < 60_000, file.mtime);
  is('read again', await volume.readFile('/a/f.txt'), 'text');
  is('as bytes', [...await volume.readFile('/a/f.txt', { format: 'bytes' })], [116, 101, 120, 116]);
  await volume.writeFile('/a/empty', '');
  is('an empty one', await volume.readFile('/a/empty'), '');
  const big = new Uint8Array(3 << 20).fill(7);
  await volume.writeFile('/big', new Blob([big]));
  is('a large one', (await volume.readFile('/big', { format: 'bytes' })).length, big.length);
  is('a listing', (await volume.list('/')).map((entry) => entry.path), ['/a', '/big', '/x']);
  is('deeper', (await volume.list('/', { depth: 2 })).map((entry) => entry.path),
    ['/a', '/a/empty', '/a/f.txt', '/big', '/x', '/x/y']);
  is('another mode', (await volume.updateMetadata('/a/f.txt', { mode: 0o640 })).mode & 0o777, 0o640);
  is('it is there', [await volume.exists('/a/f.txt'), await volume.exists('/a/g.txt')], [true, false]);
  is('no such file', await name(volume.readFile('/nothing')), 'VolumePathNotFoundError');
  await volume.remove('/x');
  is('removed with all below', await volume.exists('/x/y'), false);
  is('once', await name(volume.remove('/x')), 'VolumePathNotFoundError');
}

async function mounts(volume) {
  const options = { timeoutMs: 60_000, volumeMounts: { '/data': volume } };
  const one = await Sandbox.create(options);
  const two = await Sandbox.create({ ...options, volumeMounts: { '/mnt/other': volume.name } });
  is('a sandbox has its files', (await one.commands.run('cat /data/a/f.txt')).stdout, 'text');
  await one.commands.run('echo shared > /data/from-one');
  is('others see what it writes', (await two.commands.run('cat /mnt/other/from-one')).stdout, 'shared\n');
  is('and so does the API', await volume.readFile('/from-one'), 'shared\n');
  await one.commands.run('ln -s /etc/passwd /data/out; ln -s ../../../../../etc /data/up; mkfifo /data/fifo');
  is('links of a sandbox lead nowhere', [await name(volume.readFile('/out')), await name(volume.list('/up'))],
    ['VolumePathNotFoundError', 'VolumePathNotFoundError']);
  is('they are told as links', (await volume.getInfo('/out')).type, 'symlink');
  ok('nor is a pipe opened', await error(volume.readFile('/fifo')));
  is('where it is mounted', (await one.getInfo()).volumeMounts ?? 'not told', [{ name: volume.name, path: '/data' }]);
  if (one.fork) {
    const [fork] = await one.fork({ count: 1, timeoutMs: 60_000 });
    const made = fork.sandbox ?? fork;
    is('a fork has it too', (await made.commands.run('cat /data/from-one')).stdout, 'shared\n');
    await made.kill();
  }
  ok('one that is mounted is not deleted', await error(Volume.destroy(volume.volumeId)));
  await one.kill();
  await two.kill();
  const later = await Sandbox.create(options);
  is('it outlives its sandboxes', (await later.commands.run('cat /data/from-one')).stdout, 'shared\n');
  await later.kill();
}

await main(async () => {
  const volume = await Volume.create(`${label}-vol`);
  is('it is listed', (await Volume.list()).filter((entry) => entry.volumeId === volume.volumeId).length, 1);
  ok('twice the same name', await error(Volume.create(`${label}-vol`)));
  is('connect', (await Volume.connect(volume.volumeId)).token, volume.token);
  is('of one that is not there', await name(Volume.connect('0123456789abcdef')), 'VolumeNotFoundError');
  await content(volume);
  await mounts(volume);
  is('destroyed', await Volume.destroy(volume.volumeId), true);
  is('once', await Volume.destroy(volume.volumeId), false);
  ok('nothing of it is mounted then', await error(Sandbox.create({ volumeMounts: { '/data': `${label}-vol` } })));
});
