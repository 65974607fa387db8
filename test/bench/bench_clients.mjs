// The rows of cubby's TypeScript client, beside Node's own http and curl. usage: bench_clients.mjs clients PORT, from
// bench_clients.py. Exit status 3: a bar was missed.
import { execFileSync } from 'node:child_process';
import { createReadStream, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { Client } from '../../clients/typescript/dist/index.js';

const port = Number(process.argv[3]), BYTES = 300e6;
const client = new Client({ url: `http://127.0.0.1:${port}` });
let missed = 0;

function row(name, ours, peer, ratio, spread, bar, met) {
  if (!met) missed++;
  console.log(`| ${name.padEnd(44)} | ${ours.padStart(12)} | ${peer.padEnd(38)} | ${ratio.toFixed(2).padStart(5)} | ` +
    `${spread.padEnd(11)} | ${bar.padEnd(7)} | ${(met ? 'yes' : 'NO').padEnd(3)} |`);
}
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

// Both by turns; the times of each in milliseconds.
async function compared(rounds, ours, peer) {
  const times = [[], []];
  for (let i = 0; i < rounds; i++)
    for (const [at, work] of [ours, peer].entries()) {
      const begun = performance.now();
      await work();
      times[at].push(performance.now() - begun);
    }
  return times;
}
// The lowest and the highest ratio of the fifths of a row.
function fifths([ours, peer], ratio) {
  const size = Math.max(Math.floor(ours.length / 5), 1), parts = [];
  for (let at = 0; at + size <= ours.length; at += size)
    parts.push(ratio(median(ours.slice(at, at + size)), median(peer.slice(at, at + size))));
  return `${Math.min(...parts).toFixed(2)}-${Math.max(...parts).toFixed(2)}`;
}
function slower(name, times, what, bar) {
  const [ours, peer] = times.map(median);
  row(name, `${ours.toFixed(2)} ms`, `${peer.toFixed(2)} ms ${what}`, ours / peer, fifths(times, (a, b) => a / b),
    `<= ${bar}`, ours / peer <= bar);
}
function faster(name, times, amount, unit, what, bar) {
  const [ours, peer] = times.map(median), rate = (ms) => `${(amount * 1000 / ms).toFixed(0)} ${unit}`;
  row(name, rate(ours), `${rate(peer)} ${what}`, peer / ours, fifths(times, (a, b) => b / a), `>= ${bar}`,
    peer / ours >= bar);
}

const agent = new http.Agent({ keepAlive: true });
function raw(id) {
  const body = '{"command":"true"}';
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host: '127.0.0.1', agent, method: 'POST', path: `/v1/boxes/${id}/exec`,
      headers: { 'Content-Type': 'application/json', 'Content-Length': body.length } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part) => { text += part; });
      answer.on('end', () => resolve(JSON.parse(text).exit_code));
    });
    request.on('error', reject);
    request.end(body);
  });
}
const curl = (...args) => execFileSync('curl', ['-sf', '-o', '/dev/null', ...args]);

const box = await client.box();
try {
  slower('TypeScript: exec', await compared(400, () => box.run('true'), () => raw(box.id)), 'node:http, kept', 1.3);
  const many = (work) => Promise.all(Array.from({ length: 200 }, work));
  faster('TypeScript: 200 execs at once', await compared(7, () => many(() => box.run('true')), () => many(() => raw(box.id))),
    200, '/s', 'node:http', 0.7);
  const directory = mkdtempSync(`${process.env.BENCH_DIR ?? '/var/tmp'}/cubby-clients.`), file = `${directory}/large`;
  writeFileSync(file, '');
  truncateSync(file, BYTES);
  const url = `http://127.0.0.1:${port}/v1/boxes/${box.id}/files?path=/tmp/large`, before = process.resourceUsage().maxRSS;
  const up = () => box.files.write('/tmp/large', createReadStream(file, { highWaterMark: 1 << 18 }));
  const down = async () => { for await (const _ of await box.files.read('/tmp/large', { as: 'stream' })); };
  faster('TypeScript: 300 MB up', await compared(5, up, () => curl('-T', file, url)), BYTES / 1e6, 'MB/s', 'curl', 0.7);
  faster('TypeScript: 300 MB down', await compared(5, down, () => curl(url)), BYTES / 1e6, 'MB/s', 'curl', 0.7);
  const grown = (process.resourceUsage().maxRSS - before) / 1024;
  row('TypeScript: memory for 300 MB up and down', `${grown.toFixed(0)} MB`, '64 MB', grown / 64, 'once', '<= 1', grown <= 64);
  rmSync(directory, { recursive: true });
} finally {
  await box.delete();
  client.close();
}
process.exit(missed ? 3 : 0);
