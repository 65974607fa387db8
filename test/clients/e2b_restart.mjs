// A command that outlives the daemon. usage: node e2b_restart.mjs begin|end FILE
import { readFileSync, writeFileSync } from 'node:fs';
import { Sandbox } from 'e2b';
import { eventually, is, main, ok } from '../mcp/report.mjs';

const [, , step, file] = process.argv;
await main(async () => {
  if (step === 'begin') {
    const sandbox = await Sandbox.create('base', { timeoutMs: 300000 });
    const handle = await sandbox.commands.run('while read line; do echo "got $line"; done', {
      background: true, stdin: true, timeoutMs: 0 });
    await handle.sendStdin('one\n');
    ok('a command runs', await eventually(10, () => handle.stdout === 'got one\n'));
    writeFileSync(file, JSON.stringify({ id: sandbox.sandboxId, pid: handle.pid }));
    return;
  }
  const { id, pid } = JSON.parse(readFileSync(file));
  const sandbox = await Sandbox.connect(id);
  is('it still runs', (await sandbox.commands.list()).map((one) => one.pid), [pid]);
  await sandbox.commands.sendStdin(pid, 'two\n');
  const handle = await sandbox.commands.connect(pid);
  ok('nothing it printed is lost', await eventually(10, () => handle.stdout === 'got two\n'), handle.stdout);
  await handle.closeStdin();
  is('and it ends', (await handle.wait()).exitCode, 0);
  await sandbox.kill();
});
