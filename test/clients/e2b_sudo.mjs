// sudo in sandboxes with npm's e2b: streams, status, directory, variables, signals, terminals, what a machine has.
import { is, main, ok } from '../mcp/report.mjs';
import { Sandbox } from 'e2b';

await main(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, envs: { OF_BOX: 'box' } });
  const run = async (command, options) => {
    const result = await sandbox.commands.run(command, options).catch((error) => error);
    return [result.exitCode, result.stdout, result.stderr];
  };
  is('root', await run('sudo id -un'), [0, 'root\n', '']);
  is('no password is asked for', await run('sudo -n -S true && sudo -v && sudo -k'), [0, '', '']);
  is('streams', await run('echo in | sudo sh -c "cat; echo err >&2"'), [0, 'in\n', 'err\n']);
  is('the exit status', (await run('sudo sh -c "exit 7"'))[0], 7);
  is('a signal that ended it', (await run('sudo sh -c "kill -TERM \\$\\$"; echo $?'))[1], '143\n');
  is('an unknown command', await run('sudo nothing-here'), [127, '', "sudo: no command 'nothing-here'\n"]);
  is('an unknown user', (await run('sudo -u nobody true'))[0], 1);
  is('its own user', await run('sudo -u user id -un'), [0, 'user\n', '']);
  is('the directory', await run('cd /tmp && sudo pwd'), [0, '/tmp\n', '']);
  const env = 'sudo sh -c "echo \\$HOME \\$SUDO_USER [\\$A]"';
  is('variables are those of root', await run(env, { envs: { A: 'a' } }), [0, '/root user []\n', '']);
  is('unless they are kept', await run('sudo -E sh -c "echo \\$A"', { envs: { A: 'a' } }), [0, 'a\n', '']);
  is('or given', await run('sudo A=b sh -c "echo \\$A"'), [0, 'b\n', '']);
  is('files of root', await run('echo 1 | sudo tee /etc/own > /dev/null; stat -c %U /etc/own; echo 2 >> /etc/own'),
    [1, 'root\n', '/bin/bash: line 1: /etc/own: Permission denied\n']);
  is('for root it is nothing', await run('sudo id -un', { user: 'root' }), [0, 'root\n', '']);
  is('a login shell', await run('echo "pwd; id -un" | sudo -i'), [0, '/root\nroot\n', '']);
  is('from other programs', await run(`python3 -c 'import subprocess as s; print(s.check_output(["sudo", "id", "-u"]))'`),
    [0, "b'0\\n'\n", '']);
  const names = await run('sudo sleep 61 & sleep 0.3; kill %1; wait; pgrep -x sleep | wc -l');
  is('it ends with what started it', names, [0, '0\n', '']);
  await sandbox.commands.run('sudo sleep 62', { timeoutMs: 500 }).catch(() => 0);
  is('or with its time', await run('while pgrep -x sleep > /dev/null; do :; done; echo gone'), [0, 'gone\n', '']);
  let shown = '';
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => (shown += new TextDecoder().decode(data)) });
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('sudo sh -c "id -un; stty size"; exit\n'));
  await terminal.wait();
  ok('on a terminal', /root\r\n24 80\r\n/.test(shown), shown);
  for (const program of ['git', 'curl', 'python3', 'node']) {
    const here = await import('node:child_process').then((child) => child.spawnSync('which', [program]).status === 0);
    is(`${program} is there when the machine has it`, (await run(`which ${program}`))[0] === 0, here);
  }
  await packages(run);
  await sandbox.kill();
});

// A package of a repository in the sandbox, installed and removed as on any Debian, without a network.
async function packages(run) {
  if ((await run('which apt-get dpkg-deb'))[0] !== 0) return;
  const repository = `mkdir -p p/DEBIAN p/usr/bin repo && cd p &&
    printf 'Package: of-cubby\nVersion: 1\nArchitecture: all\nDepends: bash\nMaintainer: a <a@b>\nDescription: x\n' \
      > DEBIAN/control && printf '#!/bin/sh\necho installed\n' > usr/bin/of-cubby && chmod 755 usr/bin/of-cubby &&
    dpkg-deb --root-owner-group -b . ../repo/of-cubby.deb > /dev/null && cd ../repo && { dpkg-deb -f of-cubby.deb;
    echo Filename: ./of-cubby.deb; echo Size: $(stat -c %s of-cubby.deb);
    echo SHA256: $(sha256sum of-cubby.deb | cut -c1-64); } > Packages && sudo sh -c 'rm -rf /etc/apt/sources.list*;
    echo "deb [trusted=yes] file:/home/user/repo ./" > /etc/apt/sources.list'`;
  is('a repository of packages', (await run(repository))[0], 0);
  const update = await run('sudo apt-get update 2>&1');
  ok('sudo apt-get update', update[0] === 0, update[1]);
  const install = await run('sudo apt-get install -y of-cubby 2>&1');
  ok('sudo apt-get install', install[0] === 0, install[1]);
  ok('without warnings of a missing list', !/warning|missing/i.test(install[1]), install[1]);
  is('what it brought runs', await run('of-cubby'), [0, 'installed\n', '']);
  is('it knows what the machine has', (await run('dpkg -s bash | grep -c "ok installed"'))[1], '1\n');
  is('sudo apt-get remove', (await run('sudo apt-get remove -y of-cubby; which of-cubby'))[0], 1);
}
