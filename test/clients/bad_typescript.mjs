// The TypeScript client where things go wrong: connections that are cut, a daemon that dies, certificates, slow readers,
// cancellation. usage: node bad_typescript.mjs WORK: the directory that test/front/clients_test.sh made.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { BadCertificate, Client, Exit, Timeout, Unreachable } from '../../clients/typescript/dist/index.js';
import { error, eventually, main, ok } from '../mcp/report.mjs';

const work = process.argv[2], client = new Client();
const ended = (box, pattern) => eventually(20, async () => !(await box.run(['pgrep', '-f', pattern])).stdout);
const handles = () => process.getActiveResourcesInfo().filter((name) => /Pipe|TCP/.test(name)).length;

async function cuts(box) {
  const near = new Client({ url: process.env.CUBBY_CUT }).connect(box.id);
  let caught = await error(near.run('echo x >> ran; head -c 400000 /dev/zero'));
  ok('a proxy cuts the answer to a command', caught instanceof Unreachable && caught.sent, caught);
  ok('and the command ran once', await box.files.read('ran') === 'x\n');
  await box.files.write('big', new Uint8Array(1000000));
  caught = await error(near.files.read('big', { as: 'bytes' }));
  ok('a cut download is an error', caught instanceof Unreachable, caught);
  caught = await error(near.files.write('up', new Uint8Array(1000000)));
  ok('a cut upload is an error', caught instanceof Unreachable, caught);
  ok('and writes nothing', !await box.files.exists('up'));
  caught = await error((async () => { for await (const _ of near.stream('seq 1000000')); })());
  ok('a cut stream is an error', caught instanceof Unreachable, caught);
}

async function leaving(box) {
  for await (const item of box.stream('echo begun; sleep 9101')) if (item.text) break;
  ok('leaving a stream ends its command', await ended(box, 'sleep 9101'));
  const slow = box.stream('yes');
  const first = await slow.next();
  ok('a slow reader disturbs nobody', first.value.text.startsWith('y') && (await box.run('echo quick')).stdout === 'quick\n');
  await slow.return();
  ok('closing a stream ends its command', await ended(box, '^yes'));
}

async function certificates(address) {
  const url = `https://${address}`;
  ok("a certificate of one's own authority", (await new Client({ url, ca: `${work}/cert.pem` }).health()).status === 'ok');
  for (const [name, more] of [['without it', {}], ['with another one', { ca: `${work}/other.pem` }],
    ['of a file that is not there', { ca: `${work}/missing.pem` }]]) {
    const caught = await error(new Client({ url, ...more }).health());
    ok(`a certificate ${name}`, caught instanceof BadCertificate, caught);
  }
}

async function cancelled(box) {
  const control = new AbortController(), early = AbortSignal.abort(new Error('early'));
  ok('cancelled before it begins', (await error(box.run('sleep 9102', { signal: early })))?.message === 'early');
  const runs = Array.from({ length: 20 }, () => error(box.run('sleep 9102', { signal: control.signal })));
  const stream = error((async () => { for await (const _ of box.stream('sleep 9102', { signal: control.signal })); })());
  const watch = error((async () => { for await (const _ of box.files.watch('.', { signal: control.signal })); })());
  const terminal = await box.pty({ signal: control.signal });
  const reading = error((async () => { for await (const _ of terminal); })());
  await eventually(20, async () => (await box.run(['pgrep', '-f', 'sleep 9102'])).stdout.split('\n').length >= 21);
  control.abort(new Error('enough'));
  const done = await Promise.all([...runs, stream, watch, reading]);
  ok('cancelled in every state', done.every((each) => each?.message === 'enough'), done.map(String));
  ok('cancelled commands end in the box', await ended(box, 'sleep 9102'));
  async function* pieces() {
    for (let i = 0; i < 1000; i++) yield new Uint8Array(65536);
  }
  const upload = new AbortController(), sent = error(box.files.write('cut', (async function* () {
    for await (const piece of pieces()) {
      yield piece;
      upload.abort(new Error('stop'));
    }
  })(), { signal: upload.signal }));
  ok('a cancelled upload', (await sent)?.message === 'stop' && !await box.files.exists('cut'), await sent);
  const process = await box.spawn('sleep 9103');
  ok('waiting has a limit', await error(process.wait({ timeoutMs: 100 })) instanceof Timeout);
  await process.kill();
  ok('the client works on', (await box.run('echo on')).stdout === 'on\n');
}

async function many(box) {
  const results = await Promise.all(Array.from({ length: 200 }, (_, i) => box.run(`echo ${i}`)));
  ok('200 commands at once', results.every((result, i) => result.stdout === `${i}\n`));
}

async function large(box) {
  const piece = new Uint8Array(262144), before = process.memoryUsage.rss();
  let most = before, size = 0;
  async function* pieces() {
    for (let i = 0; i < 1200; i++) yield piece;
  }
  await box.files.write('/tmp/large', pieces());
  for await (const part of await box.files.read('/tmp/large', { as: 'stream' })) {
    size += part.length;
    most = Math.max(most, process.memoryUsage.rss());
  }
  const grown = (most - before) >> 20;
  ok('300 MB up and down in flat memory', size === 1200 * 262144 && grown < 96, `${size} ${grown} MB`);
  await box.files.remove('/tmp/large');
}

async function dies(box) {
  const process_ = await box.spawn('i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); sleep 0.01; done');
  let lines = '';
  const follow = (async () => {
    for await (const item of process_.follow()) {
      if (item instanceof Exit) return;
      lines += item.text;
    }
  })();
  const stream = error((async () => { for await (const _ of box.stream('echo x >> died; echo a; sleep 9104')); })());
  await eventually(20, () => box.files.exists('died'));
  process.kill(Number(readFileSync(`${work}/pid`, 'utf8')), 'SIGKILL');
  const caught = await stream;
  ok('a daemon dies in the middle of a stream', caught instanceof Unreachable, caught);
  await new Promise((resolve) => execFile(`${work}/again`, { stdio: 'ignore' }, resolve));
  await follow;
  ok('following a process goes on after a restart', lines === Array.from({ length: 300 }, (_, i) => `${i}\n`).join(''), lines.length);
  ok('and the command of the stream ran once', await box.files.read('died') === 'x\n');
  ok('the same client works on', (await box.run('echo on')).stdout === 'on\n');
}

await main(async () => {
  const box = await client.box();
  await certificates(process.env.CUBBY_TLS);
  await cuts(box);
  await leaving(box);
  await cancelled(box);
  await many(box);
  await large(box);
  await dies(box);
  await box.delete();
  client.close();
  ok('nothing is left open', await eventually(10, () => handles() <= 3), process.getActiveResourcesInfo());
});
