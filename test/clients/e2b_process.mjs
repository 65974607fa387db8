// Commands and terminals with npm's e2b, as applications use them. usage: node e2b_process.mjs [PACKAGE]
import { createHash } from 'node:crypto';
import { error, eventually, is, main, ok } from '../mcp/report.mjs';

const { Sandbox } = await import(process.argv[2] ?? 'e2b');

async function foreground(sandbox) {
  const run = (command, options) => sandbox.commands.run(command, options);
  let result = await run('echo out; echo err >&2');
  is('a command: both streams and its exit code', [result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n',
    0]);
  const failed = await error(run('echo part; exit 42'));
  is('one that fails', [failed?.constructor.name, failed?.exitCode, failed?.stdout, failed?.message],
    ['CommandExitError', 42, 'part\n', 'exit status 42']);
  is('one that is killed', await error(run('kill -9 $$')).then((e) => [e?.exitCode, e?.message]), [-1,
    'signal: killed']);
  is('a program that is not there', await error(run('no-such-program')).then((e) => e?.exitCode), 127);
  result = await run(
    'id -un; pwd; echo $HOME $USER $LOGNAME $E2B_SANDBOX $E2B_SANDBOX_ID; shopt -q login_shell && echo login');
  is('the user, the directory, the environment, a login shell', result.stdout,
    `user\n/home/user\n/home/user user user true ${sandbox.sandboxId}\nlogin\n`);
  result = await run('echo $A $B; pwd', { envs: { A: '1', B: 'two words' }, cwd: '/tmp' });
  is('variables and a directory of the call', result.stdout, '1 two words\n/tmp\n');
  await run('mkdir -p below');
  is('a relative directory lies below the home', (await run('pwd', { cwd: 'below' })).stdout, '/home/user/below\n');
  const lost = await error(run('pwd', { cwd: '/no/such' }));
  is('a directory that is not there', [lost?.constructor.name, /cwd '\/no\/such' does not exist/.test(lost?.message)],
    ['InvalidArgumentError', true]);
  is('root', (await run('id -u; pwd; echo $HOME $USER', { user: 'root' })).stdout, '0\n/root\n/root root\n');
  is('a user that is not there', (await error(run('id', { user: 'nobody' })))?.constructor.name, 'AuthenticationError');
  is('standard input is empty', (await run('cat; echo end')).stdout, 'end\n');
  is('UTF-8 and NUL', (await run("printf 'ä€😀\\0x'")).stdout, 'ä€😀\0x');
  const long = await error(run('echo ' + 'x'.repeat(140000)));
  is('a command line that the kernel does not take', long?.constructor.name, 'InvalidArgumentError');
}

async function callbacks(sandbox) {
  const seen = { out: '', err: '' };
  const handle = await sandbox.commands.run('echo one; read line; echo "$line" >&2', {
    background: true, stdin: true, onStdout: (data) => { seen.out += data; },
      onStderr: (data) => { seen.err += data; } });
  ok('output comes while the command runs', await eventually(10, () => seen.out === 'one\n'), seen.out);
  await sandbox.commands.sendStdin(handle.pid, 'two\n');
  const result = await handle.wait();
  is('input while it runs, and the end', [seen.err, result.exitCode, result.stderr], ['two\n', 0, 'two\n']);
  const cat = await sandbox.commands.run('cat | tr a-z A-Z', { background: true, stdin: true });
  await sandbox.commands.sendStdin(cat.pid, '');
  await sandbox.commands.sendStdin(cat.pid, 'first ');
  await sandbox.commands.sendStdin(cat.pid, 'second');
  await sandbox.commands.closeStdin(cat.pid);
  is('the end of the input', (await cat.wait()).stdout, 'FIRST SECOND');
  is('input for a command that has ended', (await error(sandbox.commands.sendStdin(cat.pid, 'x')))?.constructor.name,
    'NotFoundError');
  const deaf = await sandbox.commands.run('sleep 1000', { background: true });
  ok('input for a command without any', await error(sandbox.commands.sendStdin(deaf.pid, 'x')));
  await deaf.kill();
}

async function background(sandbox) {
  const { commands } = sandbox;
  const handle = await commands.run('echo started; sleep 1000', { background: true, envs: { K: 'v' }, cwd: '/tmp',
    timeoutMs: 0 });
  const row = (await commands.list()).find((one) => one.pid === handle.pid);
  is('it is listed as it was started', row,
    { pid: handle.pid, args: ['-l', '-c', 'echo started; sleep 1000'], envs: { K: 'v' }, cmd: '/bin/bash',
      cwd: '/tmp' });
  is('its pid is that of the inside', (await commands.run(`kill -0 ${handle.pid} && echo there`)).stdout, 'there\n');
  is('kill', [await handle.kill(), (await commands.list()).some((one) => one.pid === handle.pid)], [true, false]);
  ok('and it is gone when kill answers', await error(commands.run(`kill -0 ${handle.pid}`)));
  is('a second kill', await commands.kill(handle.pid), false);
  is('what waited for it', await error(handle.wait()).then((e) => [e?.exitCode, e?.message]), [-1, 'signal: killed']);
  const child = (await commands.run('sleep 1000 & echo $!')).stdout.trim();
  is('what a command leaves in the background lives on', (await commands.run(`kill -0 ${child} && echo there`)).stdout,
    'there\n');
  await commands.run(`kill ${child}`);
  const began = Date.now();
  const late = await error(commands.run('echo before; sleep 1000', { timeoutMs: 700 }));
  is('a time-out', late?.constructor.name, 'TimeoutError');
  ok('in time', Date.now() - began < 5000, Date.now() - began);
  ok('ends the command', await eventually(10, async () => (await commands.list()).length === 0));
  is('connect to what is not there', (await error(commands.connect(999999)))?.constructor.name, 'NotFoundError');
}

async function readers(sandbox) {
  const { commands } = sandbox;
  const first = await commands.run('while read line; do echo "got $line"; done', { background: true, stdin: true,
    timeoutMs: 0 });
  const second = await commands.connect(first.pid);
  is('connect: the same process', second.pid, first.pid);
  await commands.sendStdin(first.pid, 'one\n');
  ok('two readers get the same', await eventually(10,
    () => first.stdout === 'got one\n' && second.stdout === 'got one\n'));
  await first.disconnect();
  await commands.sendStdin(second.pid, 'two\n');
  ok('one that leaves ends nothing', await eventually(10, () => second.stdout === 'got one\ngot two\n'), second.stdout);
  await second.disconnect();
  await commands.run('true'); // a whole turn: the daemon has seen it go
  await commands.sendStdin(second.pid, 'three\n');
  const third = await commands.connect(first.pid);
  ok('what it printed while nobody read is there for the next', await eventually(10,
    () => third.stdout === 'got three\n'),
    third.stdout);
  await third.closeStdin();
  is('and its end', (await third.wait()).exitCode, 0);
}

async function large(sandbox) {
  const { commands } = sandbox;
  const made = await commands.run(
    'for i in $(seq 60000); do echo "$i ä line of some length to be read to its end"; done > big; sha256sum < big');
  const want = made.stdout.slice(0, 64);
  const sum = (text) => createHash('sha256').update(text).digest('hex');
  const got = await commands.run('cat big');
  is('three megabytes, each byte of them', sum(got.stdout), want);
  const slow = await commands.run('cat big >&2', { onStderr: async () => { await new Promise((done) => setTimeout(done,
    5)); } });
  is('also for a slow reader', sum(slow.stderr), want);
  const both = await Promise.all([1, 2, 3, 4].map(() => commands.run('cat big')));
  is('and four at once', both.map((one) => sum(one.stdout)), Array(4).fill(want));
  const cat = await commands.run('sha256sum', { background: true, stdin: true, timeoutMs: 0 });
  await commands.sendStdin(cat.pid, got.stdout);
  await cat.closeStdin();
  is('three megabytes of input', (await cat.wait()).stdout.slice(0, 64), want);
}

async function terminals(sandbox) {
  let text = '';
  const decoder = new TextDecoder();
  const onData = (data) => { text += decoder.decode(data, { stream: true }); };
  const type = (pid, line) => sandbox.pty.sendInput(pid, new TextEncoder().encode(line + '\n'));
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData, envs: { MARK: 'm1' }, cwd: '/tmp', timeoutMs: 0 });
  await type(pty.pid, 'echo size $(stty size) $MARK $TERM $(pwd) $((40+2))');
  ok('a terminal', await eventually(10, () => text.includes('size 24 80 m1 xterm-256color /tmp 42')), text);
  await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 });
  await type(pty.pid, 'echo now $(stty size)');
  ok('resized', await eventually(10, () => text.includes('now 30 100')), text);
  const row = (await sandbox.commands.list()).find((one) => one.pid === pty.pid);
  is('it is listed', [row?.cmd, row?.args], ['/bin/bash', ['-i', '-l']]);
  await pty.disconnect();
  text = '';
  const again = await sandbox.pty.connect(pty.pid, { onData });
  await type(again.pid, 'echo back $((6*7))');
  ok('connected again', await eventually(10, () => text.includes('back 42')), text);
  ok('its input cannot be closed', await error(sandbox.commands.closeStdin(pty.pid)));
  is('kill', await sandbox.pty.kill(pty.pid), true);
  is('and its end', await error(again.wait()).then((e) => e?.exitCode), -1);
  const short = await sandbox.pty.create({ cols: 80, rows: 24, onData });
  await type(short.pid, 'exit 7');
  is('one that exits', await error(short.wait()).then((e) => e?.exitCode), 7);
}

async function end(sandbox) {
  const running = error(sandbox.commands.run('sleep 1000'));
  await eventually(10, async () => (await sandbox.commands.list()).length > 0);
  await sandbox.kill();
  const ended = await running;
  ok('a sandbox that is killed takes its commands along, and says so', /killed/.test(ended?.message), ended?.message);
  is('and has none after that', (await error(sandbox.commands.run('true')))?.constructor.name, 'SandboxNotFoundError');
}

await main(async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 300000 });
  for (const part of [foreground, callbacks, background, readers, large, terminals, end]) await part(sandbox);
});
