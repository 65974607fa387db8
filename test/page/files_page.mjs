// Files: tree, editor that never overwrites what others wrote, previews that run nothing, uploads; changes and snapshots.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { api, axe, BASE, exec, finish, is, launch, makeBox, most, ok, open, shot, test } from './lib.mjs';

const browser = await launch();
/** Waits until a condition in node holds. */
const until = async (condition) => {
  for (const end = Date.now() + 15_000; Date.now() < end; await new Promise((done) => setTimeout(done, 40))) if (await condition()) return;
  throw new Error(`still not: ${condition}`);
};
const box = await makeBox({ thread: 'files', user: 'page' });
const at = (path) => `/ui/boxes/${box}/files${path}`;
const put = (path, text) => fetch(`${BASE}/v1/boxes/${box}/files?path=${encodeURIComponent(path)}&parents=true`, { method: 'PUT', body: text });
const get = async (path) => (await fetch(`${BASE}/v1/boxes/${box}/files?path=${encodeURIComponent(path)}`)).text();
const HOSTILE = '<img src=x onerror="globalThis.hacked=1">\u202e x.txt';
await put('src/main.py', 'def main():\n    print("hello")\n');
await put('README.md', '# Title\n\n**bold** <script>parent.hacked=1</script><img src=x onerror="parent.hacked=1">\n');
await put('page.html', '<h1>Hello</h1><script>parent.hacked=1</script>');
await put('evil.svg', '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="parent.hacked=1"><script>parent.hacked=1</script><rect width="40" height="40" fill="teal"/></svg>');
await put('data.csv', 'name,n\n"a, b",1\nc,2\n');
await put('bytes.bin', new Uint8Array([0, 1, 2, 255, 254]));
await put(HOSTILE.replace(/\//g, ''), 'text');
await exec(box, 'printf x > "$(printf "bad\\377name")"');
const node = (page, name) => page.getByRole('treeitem').filter({ has: page.getByText(name, { exact: true }) });
const editor = (page) => page.locator('.cm-content');
const type = async (page, text) => { await editor(page).click(); await page.keyboard.press('Control+End'); await page.keyboard.type(text); };

await test('tree and editor', async () => {
  const page = await open(browser, at(''));
  await node(page, 'src').click();
  await node(page, 'main.py').click();
  await editor(page).getByText('print').waitFor();
  ok(page.url().endsWith('/files/workspace/src/main.py'), 'the address names the file');
  await type(page, '# more\n');
  await page.getByText('not saved').waitFor();
  await page.keyboard.press('Control+s');
  await page.getByText('main.py saved').waitFor();
  ok((await get('src/main.py')).endsWith('# more\n'), 'Ctrl-S saves it');
  await shot(page, 'files');
  await put('made-elsewhere.txt', 'x');
  await node(page, 'made-elsewhere.txt').waitFor();
  ok(true, 'a file that a program makes shows by itself');
  ok(await node(page, '(name is not UTF-8)').count() === 1, 'a name that is not UTF-8 is shown as such');
  ok(await page.getByText('<img src=x').count() > 0, 'markup in a name is text');
  await page.getByRole('tree').focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowLeft');
  await until(async () => await node(page, 'main.py').count() === 0);
  await page.keyboard.press('ArrowRight');
  await node(page, 'main.py').waitFor();
  ok(true, 'arrows close and open folders');
  is(await axe(page), [], 'axe: files');
  is([page.complaints, await page.violations()], [[], []], 'no complaint, no violation');
  await page.context().close();
});

await test('two editors on one file', async () => {
  const page = await open(browser, at('/workspace/src/main.py'));
  await editor(page).getByText('print').waitFor();
  await put('src/main.py', 'theirs = 1\n');
  await type(page, 'mine = 2\n');
  await page.keyboard.press('Control+s');
  await page.getByRole('heading', { name: 'The file has changed' }).waitFor();
  is(await get('src/main.py'), 'theirs = 1\n', 'nothing was overwritten');
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.locator('.cm-mergeView').waitFor();
  await shot(page, 'conflict');
  is(await axe(page), [], 'axe: a conflict');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await page.getByText('main.py saved').waitFor();
  ok((await get('src/main.py')).endsWith('mine = 2\n'), 'mine on demand');
  await put('src/main.py', 'again = 3\n');
  await type(page, 'x');
  await page.keyboard.press('Control+s');
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await editor(page).getByText('again').waitFor();
  ok(await page.getByText('not saved').count() === 0, 'theirs on demand');
  await exec(box, 'rm src/main.py');
  await type(page, 'y');
  await page.keyboard.press('Control+s');
  await page.getByText('was deleted since you opened it').waitFor();
  ok(true, 'a file that is gone is said, the text stays');
  await page.context().close();
});

await test('previews run nothing', async () => {
  const page = await open(browser, at('/workspace/README.md'));
  await page.getByRole('button', { name: 'Preview' }).click();
  const frame = page.frameLocator('.preview-frame');
  await frame.getByRole('heading', { name: 'Title' }).waitFor();
  await shot(page, 'preview-markdown');
  await page.goto(BASE + at('/workspace/page.html'));
  await page.getByRole('button', { name: 'Preview' }).click();
  await frame.getByRole('heading', { name: 'Hello' }).waitFor();
  await page.goto(BASE + at('/workspace/evil.svg'));
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByText('40 × 40').waitFor();
  await page.goto(BASE + at('/workspace/data.csv'));
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('cell', { name: 'a, b' }).waitFor();
  await page.goto(BASE + at('/workspace/bytes.bin'));
  await page.getByText('00 01 02 ff fe').waitFor();
  is(await page.evaluate(() => globalThis.hacked), undefined, 'no script of a box ran in our page');
  await page.context().close();
});

await test('upload of a folder, and of a file', async () => {
  const dir = `${mkdtempSync(`${process.env.WORK ?? '/tmp'}/up-`)}/tree`;
  for (let i = 0; i < 40; i++) {
    mkdirSync(`${dir}/d${i}`, { recursive: true });
    for (let j = 0; j < 50; j++) writeFileSync(`${dir}/d${i}/${j === 0 ? 'n'.repeat(120) : `f${j}`}.txt`, `${i} ${j}`);
  }
  const page = await open(browser, at(''));
  await node(page, 'README.md').waitFor();
  let requests = 0;
  page.on('request', (request) => { if (request.method() === 'PUT') requests++; });
  const began = Date.now();
  await page.locator('input[data-upload=folder]').setInputFiles(dir);
  await page.getByText('2,000 files uploaded').waitFor({ timeout: 60_000 });
  most(Date.now() - began, 30_000, 'ms for a folder of 2,000 files');
  is(requests, 1, 'in one request');
  is((await exec(box, 'find tree -type f | wc -l; cat tree/d39/f49.txt; cat tree/d7/nnn*')).stdout, '2000\n39 497 0', 'all of them');
  await page.locator('input[data-upload=files]').setInputFiles({ name: 'one.txt', mimeType: 'text/plain', buffer: Buffer.from('one') });
  await page.getByText('1 file uploaded').waitFor();
  is(await get('one.txt'), 'one', 'one file');
  await page.getByRole('button', { name: 'Search in files' }).click();
  await page.getByRole('searchbox', { name: 'Search' }).fill('39 49');
  await page.keyboard.press('Enter');
  await page.getByText('tree/d39/f49.txt:1').click();
  await editor(page).getByText('39 49').waitFor();
  ok(page.url().includes('line=1'), 'a hit opens at its line');
  await exec(box, 'rm -rf tree');
  await page.context().close();
});

await test('snapshots: take, break, compare, restore, roll back', async () => {
  await put('plan.txt', 'one\ntwo\nthree\n');
  const page = await open(browser, `/ui/boxes/${box}/snapshots`);
  await page.getByRole('heading', { name: 'No snapshots yet' }).waitFor();
  await page.getByRole('main').getByRole('button', { name: 'Take a snapshot' }).click();
  await page.locator('.card').waitFor();
  const name = await page.locator('.card strong').first().innerText();
  await put('plan.txt', 'one\n2\nthree\n');
  await put('new.txt', 'n');
  await page.getByRole('button', { name: 'Compare with now' }).first().click();
  await page.locator('.change-list').getByText('/workspace/plan.txt').click();
  await page.locator('.cm-mergeView').waitFor();
  is((await page.locator('.change-list li').allInnerTexts()).map((each) => each.split('\n')[0] + each.split('\n')[1]).sort(), ['+/workspace/new.txt', '~/workspace/plan.txt'], 'what changed since the snapshot');
  await until(async () => await page.locator('.cm-changedText').count() > 0);
  await shot(page, 'changes');
  is(await axe(page), [], 'axe: changes');
  await page.getByRole('button', { name: 'Restore this file' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Restore this file' }).click();
  await page.getByText('plan.txt restored').waitFor();
  is(await get('plan.txt'), 'one\ntwo\nthree\n', 'one file is as it was');
  await page.getByRole('link', { name: 'Snapshots' }).click();
  await page.getByRole('button', { name: 'Roll back' }).first().click();
  ok(await page.getByRole('checkbox', { name: 'Take a snapshot first' }).isChecked(), 'a snapshot first, unless one says no');
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await page.getByText(`Rolled back to ${name}`).waitFor();
  is((await exec(box, 'ls new.txt')).exit_code, 2, 'rolled back');
  is((await api('GET', `/v1/boxes/${box}/snapshots`)).json.snapshots.length, 2, 'with a snapshot of before');
  await shot(page, 'snapshots');
  is(await axe(page), [], 'axe: snapshots');
  is((await api('GET', '/v1/boxes?user=page')).json.boxes.length, 1, 'comparing leaves no boxes');
  is([page.complaints, await page.violations()], [[], []], 'no complaint, no violation');
  await page.context().close();
});

await test('in the dark', async () => {
  await put('src/main.py', 'def main():\n    print("hello")\n');
  const page = await open(browser, at('/workspace/src/main.py'), { colorScheme: 'dark' });
  await editor(page).getByText('print').waitFor();
  await node(page, 'main.py').waitFor();
  is(await axe(page), [], 'axe: files, dark');
  await shot(page, 'files-dark');
  await page.context().close();
});
await api('DELETE', `/v1/boxes/${box}`);
await browser.close();
finish();
