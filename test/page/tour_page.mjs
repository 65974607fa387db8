// What a first visitor does, and the two pictures of README.md (build/shots/page-*.png; docs/ has copies).
import { api, axe, exec, finish, is, launch, makeBox, ok, open, shot, test, until } from './lib.mjs';

const browser = await launch(), small = { viewport: { width: 1200, height: 660 } };
const rows = (page) => page.locator('.xterm-rows').first().innerText();
const boxes = [];

await test('states of a list', async () => {
  const page = await open(browser, '/ui/nowhere');
  await page.getByText('There is nothing at this address').waitFor();
  let broken = true;
  await page.route('**/v1/boxes', async (route) => broken ? route.fulfill({ status: 500, headers: { 'X-Request-Id': 'abc-1' }, json: { error: { code: 'INTERNAL', message: 'cannot list boxes: the disk is on fire' } } })
    : new Promise((done) => setTimeout(done, 600)).then(() => route.continue()));
  await page.goto(page.url().replace('nowhere', 'boxes'));
  await page.locator('.failure').getByText('cannot list boxes: the disk is on fire').waitFor();
  is(await axe(page), [], 'a failure has the words of the daemon, and axe finds nothing');
  await shot(page, 'failure');
  broken = false;
  await page.reload();
  await page.locator('.skeleton').waitFor();
  await page.getByRole('heading', { name: 'No boxes yet' }).waitFor();
  ok(true, 'a slow answer shows a skeleton first');
  await page.context().close();
});

await test('the picture of the fleet', async () => {
  for (const [thread, user, labels] of [['refactor-billing', 'ann', { team: 'web' }], ['data-import', 'ann', { team: 'data' }], ['nightly-report', 'bob', {}], ['bug-4711', 'bob', { urgent: '' }],
    ['train-ranker', 'carl', { team: 'ml' }], ['docs-rewrite', 'dora', { team: 'web' }], ['migrate-db', 'emil', { team: 'data' }]]) boxes.push(await makeBox({ thread, user, labels }));
  for (const [i, work] of ['while :; do :; done', 'sleep 99', '', 'x=$(head -c 30M /dev/zero | tr "\\0" x); sleep 99', 'x=$(head -c 60M /dev/zero | tr "\\0" x); while sleep 0.01; do :; done', '', 'sleep 99'].entries())
    await (work ? api('POST', `/v1/boxes/${boxes[i]}/processes`, { command: work }) : exec(boxes[i], 'true'));
  await api('POST', `/v1/boxes/${boxes[2]}/pause`);
  const page = await open(browser, '/ui/boxes?sort=thread', small);
  await until(async () => !(await page.locator('tbody').innerText()).includes('–') && /[1-9]\d* %/.test(await page.locator('tbody').innerText()));
  await shot(page, 'page-fleet');
  is([page.complaints, await page.violations()], [[], []], 'the fleet is drawn without a complaint');
  await page.context().close();
});

await test('the picture of a terminal', async () => {
  await exec(boxes[1], 'mkdir -p src data && printf "import csv\\n\\nwith open(\'data/in.csv\') as file:\\n    rows = list(csv.reader(file))\\nprint(len(rows), \'rows\')\\n" > src/load.py && seq 1 120 > data/in.csv');
  const page = await open(browser, `/ui/boxes/${boxes[1]}/terminal`, { ...small, colorScheme: 'dark' });
  await until(async () => (await rows(page)).includes('$'));
  for (const line of ['ls --color -l src data', 'cat -n src/load.py', 'wc -l data/in.csv', 'printf "\\033[1;32m✓ 14 passed\\033[0m, \\033[33m1 skipped\\033[0m in 0.82 s\\n"']) {
    await page.keyboard.type(`${line}\n`);
    await page.waitForTimeout(150);
  }
  await until(async () => (await rows(page)).includes('0.82 s\n'));
  await shot(page, 'page-terminal');
  is([page.complaints, await page.violations()], [[], []], 'the terminal is drawn without a complaint');
  const bytes = await page.evaluate(() => performance.getEntriesByType('resource').filter((each) => each.name.includes('/ui/a/')).reduce((sum, each) => sum + each.encodedBodySize, 0) / 1024);
  ok(bytes <= 45 + 120, `the terminal with the frame is ${Math.round(bytes)} KB, at most 165`);
  await page.context().close();
});

for (const box of boxes) await api('DELETE', `/v1/boxes/${box}`);
await browser.close();
finish();
