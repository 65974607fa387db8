// What every reference client must be able to do with the server, over whatever transport. Called by http.mjs and stdio.mjs.
import { error, eventually, is, ok } from './report.mjs';

const text = (result) => result.content?.find((part) => part.type === 'text')?.text ?? '';
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

async function tools(name, to) {
  const { tools } = await to.client.listTools();
  ok(`${name}: tools are listed`, ['bash', 'ls', 'read_file', 'write_file'].every((x) => tools.some((tool) => tool.name === x)));
  ok(`${name}: each says what it takes and does`, tools.every((tool) => tool.inputSchema.type === 'object' && tool.description && tool.annotations));
  return tools;
}

async function calls(name, to) {
  await to.call('write_file', { path: '/workspace/dir/a.txt', content: 'one\ntwo\n' });
  const read = await to.call('read_file', { path: '/workspace/dir/a.txt' });
  is(`${name}: what was written is read`, text(read), 'one\ntwo\n');
  const bash = await to.call('bash', { command: 'echo out; exit 3' });
  is(`${name}: a structured result that its schema allows`, bash.structuredContent?.exit_code, 3);
  const missing = await to.call('read_file', { path: '/workspace/none' });
  ok(`${name}: a failure is a result`, missing.isError && text(missing).startsWith('Error: '), JSON.stringify(missing));
  const wrong = await to.call('read_file', { file: 'x' });
  ok(`${name}: wrong arguments are named`, wrong.isError && text(wrong).includes("'file'"), JSON.stringify(wrong));
  is(`${name}: no such tool`, (await error(to.call('no_tool')))?.code, -32602);
  const unknown = await error(to.request('no/such'));
  // Over HTTP the newer era answers it with 404, whose body client 2.x hands on as text.
  ok(`${name}: no such method`, unknown?.code === -32601 || String(unknown?.message).includes('"code":-32601'), unknown);
  await to.call('bash', { command: `printf %s ${PNG} | base64 -d > /workspace/p.png` });
  const image = (await to.call('read_file', { path: '/workspace/p.png' })).content.find((part) => part.type === 'image');
  is(`${name}: a picture`, [image?.mimeType, image?.data], ['image/png', PNG]);
}

// Every tool with a schema of its result once with success: the clients check the result against it and throw otherwise.
async function structured(name, to, tools) {
  const started = await to.call('bash_background', { command: 'echo 1; exec sleep 1000' });
  const pid = started.structuredContent?.pid;
  const examples = {
    bash: { command: 'true' },
    bash_background: { command: 'true' },
    bash_output: { pid },
    bash_kill: { pid },
    cd: { path: '/workspace' },
    edit: { path: '/workspace/dir/a.txt', mode: 'replace', old_str: 'two', new_str: '2' },
    glob: { pattern: '**/*.txt', path: '/workspace' },
    grep: { pattern: 'one', path: '/workspace' },
    ls: { path: '/workspace' },
    agent: {},
    read_file: { path: '/workspace/dir/a.txt' },
    str_replace: { path: '/workspace/dir/a.txt', old_str: 'one', new_str: '1' },
    write_file: { path: '/workspace/dir/b.txt', content: 'x' },
  };
  for (const tool of tools.filter((tool) => tool.outputSchema)) {
    const example = examples[tool.name];
    if (!example) {
      ok(`${name}: an example call of ${tool.name}`, tool.name === 'recall' || tool.name === 'download', 'add one to suite.mjs');
      continue;
    }
    const failure = await error(
      to.call(tool.name, example).then((result) => {
        if (result.isError) throw new Error(text(result));
        if (typeof result.structuredContent?.text !== 'string') throw new Error('no text in it');
      }),
    );
    ok(`${name}: the structured result of ${tool.name} is what its schema says`, !failure, failure);
  }
}

async function progress(name, to) {
  const seen = [];
  await to.call('bash', { command: 'for i in 1 2 3; do echo step $i; sleep 0.3; done' }, { onprogress: (notice) => seen.push(notice.progress) });
  ok(`${name}: progress counts up`, seen.length >= 2 && seen.every((x, i) => !i || x > seen[i - 1]), JSON.stringify(seen));
}

async function cancel(name, to) {
  const abort = new AbortController();
  const mark = `${100000 + Math.floor(Math.random() * 900000)}.5`;
  const running = async () => text(await to.call('bash', { command: `grep -lzx '${mark[0]}[${mark[1]}]${mark.slice(2)}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l` })).trim();
  const failure = error(
    to.call('bash', { command: `sh -c 'sleep ${mark}; :' & echo begun; sleep ${mark}` }, { signal: abort.signal, onprogress: () => {} }),
  );
  ok(`${name}: a long command runs`, await eventually(10, async () => (await running()) !== '0'));
  abort.abort('enough');
  ok(`${name}: the client gives it up`, await failure);
  ok(`${name}: and nothing of it is left in the box`, await eventually(10, async () => (await running()) === '0'));
}

async function parallel(name, to) {
  const order = [];
  const results = await Promise.all(
    [4, 3, 2, 1].map(async (n) => {
      const result = await to.call('bash', { command: `sleep 0.${n}; echo ${n}` });
      order.push(n);
      return text(result).trim();
    }),
  );
  is(`${name}: parallel calls get their own answers`, results, ['4', '3', '2', '1']);
  is(`${name}: each as soon as it is done`, order, [1, 2, 3, 4]);
}

async function resources(name, to) {
  await to.call('bash', { command: 'mkdir -p /workspace/many && cd /workspace/many && for i in $(seq 1 250); do echo $i > f$i; done; printf "\\377\\000" > /workspace/bin' });
  const found = [];
  // Client 2.x walks the pages itself when no cursor is given; SDK 1.x gives one page.
  for (let cursor, page; ; cursor = page.nextCursor) {
    page = await to.client.listResources(cursor ? { cursor } : undefined);
    found.push(...page.resources.map((resource) => resource.uri));
    if (!page.nextCursor) break;
  }
  is(`${name}: files are listed, page by page, each once`, [new Set(found).size === found.length, found.filter((uri) => uri.includes('/many/')).length], [true, 250]);
  const templates = await to.client.listResourceTemplates();
  is(`${name}: a template says how they are named`, templates.resourceTemplates[0]?.uriTemplate, 'file:///workspace/{+path}');
  const file = (await to.client.readResource({ uri: 'file:///workspace/many/f7' })).contents[0];
  is(`${name}: a text is read`, [file.text, file.mimeType], ['7\n', 'text/plain']);
  const bytes = (await to.client.readResource({ uri: 'file:///workspace/bin' })).contents[0];
  is(`${name}: bytes are read`, bytes.blob, '/wA=');
  is(`${name}: one that is not there`, (await error(to.client.readResource({ uri: 'file:///workspace/none' })))?.code, to.missing);
}

export async function suite(name, to) {
  const listed = await tools(name, to);
  await calls(name, to);
  await structured(name, to, listed);
  await progress(name, to);
  await cancel(name, to);
  await parallel(name, to);
  await resources(name, to);
}
