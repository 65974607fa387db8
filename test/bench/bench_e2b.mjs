#!/usr/bin/env node
// The E2B dialect beside the native API of the same daemon, through npm's e2b and Node's fetch in one run: six rows of
// the table of bench.sh. usage: bench_e2b.mjs e2b PORT. Exit status 3: a bar was missed.
import http from 'node:http';
import { createRequire } from 'node:module';

const port = Number(process.argv[3]), base = `http://127.0.0.1:${port}`;
Object.assign(process.env, { E2B_API_URL: base, E2B_SANDBOX_URL: base, E2B_API_KEY: 'e2b_00' });
const { Sandbox } = createRequire(new URL('../clients/package.json', import.meta.url))('e2b');
let missed = 0;

const now = () => performance.now();
async function timed(work) {
  const begun = now();
  await work();
  return now() - begun;
}
// Both by turns, so that what else happens on the machine happens to both; the median of each.
async function compared(rounds, ours, peer) {
  const times = [[], []];
  for (let i = 0; i < rounds; i++) {
    times[0].push(await timed(ours));
    times[1].push(await timed(peer));
  }
  return times.map((list) => list.sort((a, b) => a - b)[list.length >> 1]);
}
const ms = (value) => `${value.toFixed(value < 100 ? 2 : 0)} ms`;
const mbs = (bytes, value) => `${(bytes / value / 1000).toFixed(0)} MB/s`;
function row(name, ours, peer, ratio, bar, met) {
  if (!met) missed++;
  console.log(`| ${name.padEnd(44)} | ${ours.padStart(12)} | ${peer.padEnd(38)} | ${ratio.toFixed(2).padStart(5)} | ` +
    `${bar.padEnd(7)} | ${(met ? 'yes' : 'NO').padEnd(3)} |`);
}
const slower = (name, [ours, peer], what, bar) =>
  row(name, ms(ours), `${ms(peer)} ${what}`, ours / peer, `<= ${bar}`, ours / peer <= bar);
const faster = (name, bytes, [ours, peer], what, bar) =>
  row(name, mbs(bytes, ours), `${mbs(bytes, peer)} ${what}`, peer / ours, `>= ${bar}`, peer / ours >= bar);

async function native(method, path, body) {
  const response = await fetch(base + path, {
    method, body, headers: typeof body === 'string' ? { 'Content-Type': 'application/json' } : {},
  });
  if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}
const make = async (more) => (await (await native('POST', '/v1/boxes', JSON.stringify(more ?? {}))).json()).id;
const exec = async (id) => (await native('POST', `/v1/boxes/${id}/exec`, '{"command":"true"}')).json();
const end = (id) => native('DELETE', `/v1/boxes/${id}`);
const network = { allowInternetAccess: false }; // as native boxes are

async function creating() {
  const boxes = [], sandboxes = [];
  const times = await compared(15, async () => {
    const sandbox = await Sandbox.create(network);
    sandboxes.push(sandbox);
    await sandbox.commands.run('true');
  }, async () => {
    const id = await make();
    boxes.push(id);
    await exec(id);
  });
  await Promise.all([...sandboxes.map((sandbox) => sandbox.kill()), ...boxes.map(end)]);
  slower('e2b: create and the first command', times, 'native, by fetch', 2);
}

async function commands(sandbox, id) {
  for (let i = 0; i < 20; i++) await Promise.all([sandbox.commands.run('true'), exec(id)]);
  slower('e2b: commands.run in a live sandbox', await compared(200, () => sandbox.commands.run('true'), () => exec(id)),
    'native exec, by fetch', 1.5);
}

async function files(sandbox, id) {
  const data = new Uint8Array(10_000_000).fill(120);
  faster('e2b: files.write and read, 10 MB', 2 * data.length, await compared(10, async () => {
    await sandbox.files.write('big', new Blob([data]));
    if ((await sandbox.files.read('big', { format: 'bytes' })).length !== data.length) throw new Error('short');
  }, async () => {
    await native('PUT', `/v1/boxes/${id}/files?path=/workspace/big`, data);
    const got = await native('GET', `/v1/boxes/${id}/files?path=/workspace/big`);
    if ((await got.arrayBuffer()).byteLength !== data.length) throw new Error('short');
  }), 'native PUT and GET', 0.5);
}

async function many() {
  const by16 = async (each) => {
    let left = 100;
    await Promise.all(Array.from({ length: 16 }, async () => {
      while (left-- > 0) await each();
    }));
  };
  const sandboxes = [], boxes = [];
  const ours = await timed(() => by16(async () => sandboxes.push(await Sandbox.create(network))));
  await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
  const peer = await timed(() => by16(async () => boxes.push(await make())));
  await Promise.all(boxes.map(end));
  slower('e2b: 100 sandboxes by 16 clients', [ours, peer], '100 native boxes', 2);
  return peer;
}

// Directly: a server of this machine that sends the same bytes, read by the same client.
async function preview(sandbox) {
  const size = 64 << 20;
  const server = `import http.server, socket
chunk = b"x" * (1 << 20)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "${size}"); self.end_headers()
        for _ in range(${size >> 20}): self.wfile.write(chunk)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print(server.server_port, flush=True)
server.serve_forever()`;
  const { spawn } = await import('node:child_process');
  const child = spawn('python3', ['-c', server.replace('PORT', '0')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const direct = Number(String(await new Promise((done) => child.stdout.once('data', done))));
  await sandbox.files.write('server.py', server.replace('PORT', '8000'));
  let said;
  const ready = new Promise((done) => (said = done));
  await sandbox.commands.run('exec python3 server.py', { background: true, timeoutMs: 0, onStdout: said });
  await ready;
  const get = (at, headers) => () => new Promise((done, fail) => {
    let got = 0;
    http.get({ host: '127.0.0.1', port: at, headers, agent: false }, (response) => {
      response.on('data', (data) => (got += data.length));
      response.on('end', () => (got === size ? done() : fail(new Error(`${response.statusCode}: ${got} bytes`))));
    }).on('error', fail);
  });
  const host = { Host: `8000-${sandbox.sandboxId}.sbx.localhost` };
  faster('e2b: preview of 64 MB by its host', size, await compared(9, get(port, host), get(direct)), 'direct', 0.7);
  child.kill();
}

async function forking(sandbox, hundred) {
  const begun = now();
  const forks = await sandbox.fork({ count: 100, timeoutMs: 60_000 });
  const ours = now() - begun;
  const failed = forks.filter((fork) => fork instanceof Error);
  if (failed.length) throw failed[0];
  await Promise.all(forks.map((fork) => fork.kill()));
  slower('e2b: fork with count 100', [ours, hundred], '100 native boxes', 3);
}

await creating();
const sandbox = await Sandbox.create({ ...network, timeoutMs: 600_000 }), id = await make();
await commands(sandbox, id);
await files(sandbox, id);
const hundred = await many();
await preview(sandbox);
await forking(sandbox, hundred);
await sandbox.kill();
await end(id);
process.exit(missed ? 3 : 0);
