// The reference clients over stdio: what every client can do, then an agent's work on a real repository: look around, find the
// defect its tests show, mend it, run the tests, commit. usage: node stdio.mjs CUBBY DIRECTORY [KIND...]
// DIRECTORY/plain is an empty workspace, DIRECTORY/repository-KIND a git repository whose `make test` fails.
import { mkdirSync } from 'node:fs';
import { connect, kinds } from './clients.mjs';
import { eventually, is, main, ok } from './report.mjs';
import { suite } from './suite.mjs';

const [cubby, directory, ...wanted] = process.argv.slice(2);
const text = (result) => result.content?.find((part) => part.type === 'text')?.text ?? '';

const start = (kind, workspace) => connect(kind, { command: cubby, args: ['mcp', '--workspace', workspace], env: process.env });

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function work(name, to) {
  const bash = async (command) => text(await to.call('bash', { command }));
  const tree = text(await to.call('ls', { path: '/workspace' }));
  ok(`${name}: the repository is there`, tree.includes('/workspace/src/\n') && tree.includes('/workspace/Makefile\n'), tree);
  ok(`${name}: its history too`, (await bash('git log --oneline')).includes('A sum that is wrong'));
  const failing = await to.call('bash', { command: 'make -s test' });
  ok(`${name}: its tests fail`, failing.structuredContent?.exit_code === 2 && text(failing).includes('not ok - 2 + 3'), text(failing));
  const found = text(await to.call('grep', { pattern: 'sum\\(', path: '/workspace/src' }));
  ok(`${name}: the defect is found`, /\/workspace\/src\/sum\.sh:2: /.test(found), found);
  const read = text(await to.call('read_file', { path: '/workspace/src/sum.sh' }));
  ok(`${name}: and read`, read.includes('echo $(($1 - $2))'), read);
  const mended = await to.call('str_replace', { path: '/workspace/src/sum.sh', old_str: '$1 - $2', new_str: '$1 + $2' });
  ok(`${name}: and mended`, !mended.isError, text(mended));
  const added = await to.call('write_file', { path: '/workspace/test/zero.sh', content: '. src/sum.sh\n[ "$(sum 0 0)" = 0 ] && echo "ok - 0 + 0" || { echo "not ok - 0 + 0"; exit 1; }\n' });
  ok(`${name}: a test is added`, !added.isError, text(added));
  const passing = await to.call('bash', { command: 'make -s test' });
  ok(`${name}: now they pass`, passing.structuredContent?.exit_code === 0 && text(passing).includes('ok - 0 + 0'), text(passing));
  const commit = await to.call('bash', { command: 'git add -A && git -c user.name=agent -c user.email=agent@example.org commit -qm "The sum is a sum" && git status --short | wc -l' });
  is(`${name}: and are committed`, [commit.structuredContent?.exit_code, text(commit).trim()], [0, '0']);
  const server = await to.call('bash_background', { command: 'while :; do echo tick; sleep 0.1; done' });
  const pid = server.structuredContent?.pid;
  ok(`${name}: something runs in the background`, await eventually(10, async () => text(await to.call('bash_output', { pid })).includes('tick')), text(server));
}

main(async () => {
  for (const kind of wanted.length ? wanted : Object.keys(kinds)) {
    const name = `${kinds[kind]} over stdio`;
    const plain = `${directory}/plain-${kind}`;
    mkdirSync(plain);
    let to = await start(kind, plain);
    await suite(name, to);
    await to.close();
    to = await start(kind, `${directory}/repository-${kind}`);
    const pid = to.transport.pid;
    await work(name, to);
    const begun = Date.now();
    await to.close();
    ok(`${name}: it ends when the client closes, without being told twice`, Date.now() - begun < 1900, `${Date.now() - begun} ms`);
    ok(`${name}: and is gone`, pid && (await eventually(5, () => !alive(pid))), pid);
  }
});
