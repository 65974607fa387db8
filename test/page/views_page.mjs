// Processes and sessions with live output, ports with previews, the timeline, and the views of the whole daemon.
import { api, axe, BASE, exec, finish, is, launch, makeBox, ok, open, shot, test, until } from './lib.mjs';

const browser = await launch();
const box = await makeBox({ thread: 'views', user: 'page' });
const calm = async (page, name) => {
  is(await axe(page), [], `axe: ${name}`);
  is([page.complaints, await page.violations()], [[], []], `${name}: no complaint, no violation`);
};

await test('processes and sessions', async () => {
  const page = await open(browser, `/ui/boxes/${box}/processes`);
  await page.getByLabel('Command to start').fill('printf "\\033[31mred\\033[0m\\n"; read line; echo "got <b>$line</b>"; while :; do date +%s; sleep 0.2; done');
  await page.getByRole('button', { name: 'Run', exact: true }).first().click();
  const output = page.locator('.output');
  await output.getByText('red').waitFor();
  ok(await output.locator('.ansi-red').count() === 1, 'colors of programs');
  await page.getByLabel('Input for the process').fill('hello');
  await page.keyboard.press('Enter');
  await output.getByText('got <b>hello</b>').waitFor();
  const lines = async () => (await output.innerText()).split('\n').length, before = await lines();
  await until(async () => await lines() > before + 2);
  ok(true, 'output as it comes, input as it is typed, markup as text');
  await calm(page, 'processes');
  await shot(page, 'processes');
  await page.getByRole('button', { name: 'End', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'SIGTERM' }).click();
  await page.locator('.file-head').getByText(/ended by|exit 143/).waitFor();
  ok(true, 'ended');
  await page.getByRole('button', { name: 'New session' }).click();
  const line = page.getByLabel('Command in this session');
  for (const [command, shown] of [['cd /tmp; x=5', '$ cd /tmp'], ['pwd; echo $x', '/tmp\n5'], ['false', 'exit 1']]) {
    await line.fill(command);
    await page.keyboard.press('Enter');
    await until(async () => (await output.innerText()).includes(shown));
  }
  ok(true, 'a session keeps its directory and variables');
  await page.context().close();
});

await test('ports', async () => {
  await exec(box, 'printf "<h1>from the box</h1><script>document.title=1</script>" > index.html');
  await api('POST', `/v1/boxes/${box}/processes`, { command: 'python3 -m http.server 8124' });
  const page = await open(browser, `/ui/boxes/${box}/ports`);
  await until(async () => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    return await page.locator('.change-list').getByText('8124').count() > 0;
  });
  await page.locator('.change-list').getByText('8124').click();
  const frame = page.frameLocator('iframe');
  await frame.getByRole('heading', { name: 'from the box' }).waitFor();
  ok((await page.locator('iframe').getAttribute('src')).startsWith(`http://8124-${box}.localhost:`), 'a preview has an origin of its own');
  await shot(page, 'ports');
  is(await axe(page, ['iframe']), [], 'axe: ports');
  await page.context().close();
});

await test('the timeline of a box', async () => {
  await exec(box, 'echo step-one');
  await exec(box, 'exit 7 # step-two <b>');
  const page = await open(browser, `/ui/boxes/${box}/timeline`);
  await page.getByText('exit 7 # step-two <b>').waitFor();
  await page.getByRole('button', { name: 'Failures' }).click();
  await until(async () => await page.getByText('echo step-one').count() === 0);
  ok(page.url().includes('outcome=failed'), 'failures alone, in the address');
  await page.getByText('exit 7 # step-two <b>').click();
  await page.locator('.step-more').getByText('request_id').waitFor();
  await page.getByRole('button', { name: 'All', exact: true }).click();
  await exec(box, 'echo later-step');
  await page.getByText('echo later-step').waitFor();
  ok(true, 'what happens now is shown by itself');
  await page.getByText(/verified, .* rows/).waitFor();
  await calm(page, 'timeline');
  await shot(page, 'timeline');
  await page.context().close();
});

await test('views of the daemon', async () => {
  const page = await open(browser, '/ui/audit');
  await page.getByText('echo later-step').waitFor();
  await calm(page, 'audit');
  await shot(page, 'audit');
  for (const [path, seen] of [['events', 'created'], ['registry', 'Nothing is shared yet'], ['machines', 'No machines have joined'], ['mcp', 'No MCP servers'], ['tokens', 'No tokens'], ['system', 'Backends']]) {
    await page.goto(`${BASE}/ui/${path}`);
    await page.getByText(seen, { exact: true }).first().waitFor();
    await calm(page, path);
    await shot(page, path);
  }
  await page.goto(`${BASE}/ui/boxes/${box}/skills`);
  await page.getByText('No skills', { exact: true }).waitFor();
  await calm(page, 'skills');
  await page.goto(`${BASE}/ui/tokens`);
  await page.getByRole('button', { name: 'New token' }).first().click();
  await page.getByLabel('Label').fill('<i>ci</i>');
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByRole('heading', { name: 'Copy the token now' }).waitFor();
  ok(/^cubby_/.test(await page.locator('dialog code').innerText()), 'a new token is shown once');
  await page.keyboard.press('Escape');
  await page.getByText('<i>ci</i>').waitFor();
  await page.getByRole('button', { name: 'Actions of <i>ci</i>' }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('Token revoked').waitFor();
  await page.goto(`${BASE}/ui/mcp`);
  await page.getByRole('button', { name: 'Add a server' }).first().click();
  await page.getByLabel('Name').fill('echo');
  await page.getByLabel('Command').fill('cat -u');
  await page.getByRole('dialog').getByRole('button', { name: 'Add a server' }).click();
  await page.locator('.card').getByText('cat -u').waitFor();
  ok(true, 'an MCP server is added');
  await page.context().close();
});

await test('in the dark, in Chinese, narrow; a box that does not run', async () => {
  const page = await open(browser, `/ui/boxes/${box}/timeline`, { colorScheme: 'dark', locale: 'zh-CN' });
  await page.getByText('失败').first().waitFor();
  for (const path of [`boxes/${box}/timeline`, `boxes/${box}/processes`, `boxes/${box}/snapshots`, 'system', 'events', 'tokens']) {
    await page.goto(`${BASE}/ui/${path}`);
    await page.locator('h1').first().waitFor();
    await until(async () => await page.locator('.step, .lists, .empty, .card, td').count() > 0);
    is(await axe(page), [], `axe: ${path.replace(box, 'ID')}, dark, Chinese`);
  }
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of ['files', 'changes', 'processes', 'snapshots', 'timeline', 'ports']) {
    await page.goto(`${BASE}/ui/boxes/${box}/${path}`);
    await page.locator('.box-view > *').first().waitFor();
    ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path}: 320 px, no scrolling sideways`);
  }
  await shot(page, 'ports-narrow');
  await api('POST', `/v1/boxes/${box}/pause`);
  const paused = await open(browser, `/ui/boxes/${box}/files`);
  await paused.getByRole('button', { name: 'Resume' }).first().waitFor();
  is((await api('GET', `/v1/boxes/${box}`)).json.state, 'paused', 'looking wakes nothing');
  await paused.locator('.empty').getByRole('button', { name: 'Resume' }).click();
  await paused.getByRole('tree').waitFor();
  ok(true, 'a button does');
  await paused.context().close();
  await page.context().close();
});
await api('DELETE', `/v1/boxes/${box}`);
await browser.close();
finish();
