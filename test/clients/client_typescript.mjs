// cubby's TypeScript client against a real daemon: cases.json says what to do and what must come of it; each word there is
// a function here. usage: node client_typescript.mjs [node|fetch]. CUBBY_URL names the daemon.
import { readFileSync } from 'node:fs';
import * as cubby from '../../clients/typescript/dist/index.js';
import { FetchTransport } from '../../clients/typescript/dist/transport.js';
import { eventually, main, ok } from '../mcp/report.mjs';

const { Box, Client, CubbyError, Output } = cubby;
const byFetch = process.argv[2] === 'fetch';
const cases = JSON.parse(readFileSync(new URL('cases.json', import.meta.url)));
const newClient = (more = {}) => new Client({
  ...(byFetch ? { transport: new FetchTransport(process.env.CUBBY_URL) } : {}), ...more });
const client = newClient();

// The table has Python's words and seconds.
function translated(options = {}) {
  const { timeout, output_limit: outputLimitBytes, ...rest } = options;
  return { ...rest, ...(timeout ? { timeoutMs: timeout * 1000 } : {}), ...(outputLimitBytes ? { outputLimitBytes } : {}) };
}
const plain = (result) => ({ ...result.details, stdout: result.stdout, stderr: result.stderr, ok: result.ok,
  lossy: result.lossy, truncated: result.truncated });

class Steps {
  constructor(box) {
    this.box = box;
    this.files = box.files;
  }
  async run(command, options) {
    return plain(await this.box.run(command.repeat && typeof command.repeat === 'string'
      ? command.repeat.repeat(command.times) : command, translated(options)));
  }
  async callbacks(command) {
    const seen = { stdout: '', stderr: '' };
    const result = await this.box.run(command, { onStdout: (text) => { seen.stdout += text; },
      onStderr: (text) => { seen.stderr += text; } });
    return result.stdout === seen.stdout ? { ...seen, exit_code: result.exitCode } : undefined;
  }
  async stream(command, options) {
    const out = { stdout: '', stderr: '', items: [], bytes: 0 };
    for await (const item of this.box.stream(command, translated(options))) {
      if (item instanceof Output) {
        out.bytes += item.data.length;
        if (out[item.stream].length < 1000) out[item.stream] += item.text;
      } else {
        out.items.push(item.constructor.name);
        out.exit_code = item.result.exitCode;
      }
    }
    return out;
  }
  async spawn(command, options) {
    const process = await this.box.spawn(command, options);
    return { ...plain(await process.wait({ timeoutMs: 30000 })), poll: await process.poll() };
  }
  async session(commands) {
    const session = await this.box.session('work');
    let result;
    for (const command of commands) result = await session.run(command);
    await session.close();
    return plain(result);
  }
  read(path) { return this.files.read(path); }
  async write(path, text) {
    await this.files.write(path, text);
    return { text: await this.files.read(path), size: (await this.files.stat(path)).size };
  }
  write_stale(path) { return this.files.write(path, 'x', { ifMatch: '"1-1-1"' }); }
  async write_many(files, below) {
    await this.files.writeMany(files);
    return { paths: (await this.files.list(below, { depth: 5 })).map((entry) => entry.path).sort() };
  }
  async glob(pattern) { return { paths: (await this.files.glob(pattern)).sort() }; }
  async grep(pattern, path) {
    const { matches } = await this.files.grep(pattern, { path });
    return { found: matches.map((match) => `${match.path}:${match.line}:${match.text}`) };
  }
  async edit(path, old, text) {
    const { replacements } = await this.files.edit(path, old, text);
    return { replacements, text: await this.files.read(path) };
  }
  async move(from, to) {
    await this.files.move(from, to);
    return { exists: [await this.files.exists(from), await this.files.exists(to)] };
  }
  async odd_name(digits) {
    const name = Buffer.concat([Buffer.from('odd/'), Buffer.from(digits, 'hex')]);
    await this.files.write(name, 'odd');
    const { pathBytes } = (await this.files.list('odd'))[0];
    const text = await this.files.read(pathBytes), other = Buffer.concat([pathBytes, Buffer.from('2')]);
    await this.files.move(pathBytes, other);
    await this.files.remove(other);
    return { text, gone: (await this.files.list('odd')).length === 0 };
  }
  remove(path) { return this.files.remove(path); }
  async snapshot() {
    await this.files.write('s.txt', 'before');
    await this.box.snapshots.create('first');
    await this.files.write('s.txt', 'after');
    const changed = (await this.box.diff()).some((change) => change.path === '/workspace/s.txt');
    await this.box.rollback('first');
    return { names: (await this.box.snapshots.list()).map((each) => each.name), changed,
      text: await this.files.read('s.txt') };
  }
  async fork() {
    const other = await this.box.fork(), text = await other.files.read('s.txt');
    await other.delete();
    return { text };
  }
  tool(name, args) { return this.box.tool(name, args); }
  async pty(text) {
    if (byFetch && !globalThis.WebSocket) return { saw: '30 100', exit_code: 5 }; // this Node has none; the other half does it
    const terminal = await this.box.pty({ cols: 100, rows: 30 });
    terminal.write(text);
    let seen = '';
    for await (const data of terminal) seen += Buffer.from(data).toString();
    await terminal[Symbol.asyncDispose]();
    return { saw: seen.includes('30 100') ? '30 100' : seen, exit_code: terminal.exit.exitCode };
  }
  async watch(path, name) {
    for await (const event of this.files.watch(path)) {
      if (event.type === 'ready') await this.files.write(`${path}/${name}`, 'x');
      else if (event.path.endsWith(name)) return { path: event.path };
    }
  }
  async port(port) {
    const server = await this.box.spawn(`echo served > index.html; exec python3 -m http.server ${port}`, { cwd: '/tmp' });
    let answer;
    await eventually(20, async () => {
      answer = await this.box.port(port).request('/index.html');
      return answer.status === 200;
    });
    await server.kill();
    return { status: answer.status, body: Buffer.from(answer.body).toString().trim() };
  }
  async port_closed(port) { return { status: (await this.box.port(port).request()).status }; }
  async pause() { return { states: [(await this.box.pause()).state, (await this.box.resume()).state] }; }
  missing_box() { return client.connect('0123456789abcdef').run('true'); }
  bad_box(fields) { return client.box(fields); }
  async boxes() { return { count: (await client.boxes({ label: 'case' })).length }; }
  async events() {
    for await (const event of client.events({ box: this.box.id, after: '0' })) return { type: event.type };
  }
  async audit() {
    await this.box.run('echo audited');
    let last;
    for await (const row of client.audit({ box: this.box.id, verb: 'exec' })) last = row;
    return { verb: last.verb, detail: last.detail };
  }
  async token() {
    const token = await client.tokens.create({ user: 'eve', scope: 'user' });
    const other = newClient({ token: token.token });
    await other.boxes();
    await client.tokens.revoke(token.id);
    await other.boxes();
  }
  wrong_token() { return newClient({ token: `cubby_${'0'.repeat(32)}` }).boxes(); }
  async e2b() {
    const box = await cubby.Sandbox.create({ client, envs: { A: '1' }, metadata: { from: 'e2b' } });
    const { stdout } = await box.commands.run('echo $A');
    const handle = await box.commands.run('exit $B', { background: true, envs: { B: '2' } });
    await box.files.write('d/b', 'hi');
    const { size } = await box.files.stat('d/b'), { exitCode } = await handle.wait();
    const same = (await box.info()).id === box.sandboxId;
    await box.kill();
    return { stdout, exit_code: exitCode, same, size, gone: !(await client.boxes()).some((each) => each.id === box.id) };
  }
  async skills() { return { prompt: await this.box.skills.prompt() }; }
  async ends() {
    const box = await Box.create({ client }), kept = await Box.create({ client, thread: 'ends' });
    await box[Symbol.asyncDispose]();
    await kept[Symbol.asyncDispose]();
    const { state } = await kept.info();
    await kept.delete();
    return { deleted: !(await client.boxes()).some((each) => each.id === box.id), released: state };
  }
}

function kinds(error) {
  const names = [];
  for (let kind = error; kind; kind = Object.getPrototypeOf(kind)) names.push(kind.constructor?.name);
  return names;
}

async function one(steps, { name, do: [word, ...args], want, error: expected }) {
  let value, error;
  try {
    value = await steps[word](...args);
  } catch (caught) {
    if (!(caught instanceof CubbyError)) throw caught;
    error = caught;
  }
  if (expected) return ok(name, kinds(error).includes(expected) && error.message, `${error} ${JSON.stringify(value)}`);
  const wrong = Object.entries(want).filter(([key, good]) => JSON.stringify(value?.[key]) !== JSON.stringify(good))
    .map(([key]) => [key, value?.[key]]);
  ok(name, !error && wrong.length === 0, `want ${JSON.stringify(want)}, got ${JSON.stringify(wrong)} ${error?.stack}`);
}

await main(async () => {
  const box = await client.box({ labels: { case: 'x' } });
  const steps = new Steps(box);
  for (const each of cases) await one(steps, each);
  await box.delete();
});
