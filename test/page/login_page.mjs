// A daemon that asks for tokens: login, rights, a revoked token, `cubby open`, and what a restart leaves.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { axe, CUBBY, daemon, finish, is, launch, ok, open, shot, test, until } from './lib.mjs';

const browser = await launch(), other = await daemon(), admin = (...rest) => other.api('admin', ...rest);
const id = (await other.api('ann', 'POST', '/v1/boxes', { thread: 'guarded' })).json.id;
const rows = (page) => page.locator('.xterm-rows').first().innerText();
const enter = async (page, token) => {
  await page.getByLabel('Token', { exact: true }).fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
};

await test('login', async () => {
  const page = await open(browser, `/ui/boxes/${id}?range=1h`, { base: other.base });
  await page.getByRole('heading', { name: 'Log in to cubby' }).waitFor();
  is(await axe(page), [], 'axe finds nothing');
  await shot(page, 'login');
  await enter(page, 'wrong');
  await page.locator('dialog .failure').waitFor();
  await enter(page, other.token('admin'));
  await page.getByRole('heading', { name: 'guarded' }).waitFor();
  ok(page.url().endsWith('?range=1h'), 'the place is not lost');
  await page.reload();
  await page.getByRole('heading', { name: 'guarded' }).waitFor();
  ok(!page.url().includes('token') && await page.evaluate(() => document.cookie) === '', 'a reload keeps it; it is in no address and no cookie');
  await page.context().close();
});

await test('a token that may only look', async () => {
  const page = await open(browser, '/ui/boxes', { base: other.base });
  await enter(page, other.token('eye'));
  await page.getByRole('link', { name: 'guarded' }).waitFor();
  is(await page.getByRole('button', { name: 'New box' }).count(), 0, 'no button for what it may not');
  await page.getByRole('link', { name: 'guarded' }).click();
  await page.getByRole('heading', { name: 'guarded' }).waitFor();
  is(await page.getByRole('button', { name: 'Pause' }).count(), 0, 'nor in the box');
  await page.goto(`${page.url()}/terminal`);
  await page.getByText('This token may only look').waitFor();
  await page.context().close();
});

await test('cubby open, then revoked', async () => {
  const made = (await admin('POST', '/v1/tokens', { user: 'ann', label: 'of a test' })).json;
  const { stdout } = await promisify(execFile)(CUBBY, ['open', '--print'], { env: { ...process.env, CUBBY_URL: other.base, CUBBY_TOKEN: made.token } });
  const page = await open(browser, stdout.trim().slice(other.base.length), { base: other.base });
  await page.getByRole('link', { name: 'guarded' }).waitFor();
  ok(!page.url().includes('#t='), '`cubby open` logs in, and its ticket leaves the address at once');
  await page.getByRole('link', { name: 'guarded' }).click();
  await page.getByRole('heading', { name: 'guarded' }).waitFor();
  await admin('DELETE', `/v1/tokens/${made.id}`);
  await page.getByText('The token was revoked or has expired').waitFor({ timeout: 15_000 });
  await enter(page, other.token('ann'));
  await until(async () => await page.locator('dialog[open]').count() === 0);
  ok(await page.getByRole('heading', { name: 'guarded' }).isVisible(), 'a revoked token: the login lies over the page, which stays');
  await page.context().close();
});

await test('a restart of the daemon', async () => {
  const page = await open(browser, `/ui/boxes/${id}/terminal`, { base: other.base });
  await enter(page, other.token('ann'));
  await until(async () => (await rows(page)).includes('$'));
  await page.keyboard.type('echo before-$$\n');
  const pid = /before-(\d+)/.exec(await until(async () => { const text = await rows(page); return /before-\d+/.test(text) && text; }))[1];
  await other.stop('SIGKILL');
  await page.getByText(/The daemon does not answer/).waitFor();
  await shot(page, 'offline');
  await other.start();
  await page.getByText(/The daemon does not answer/).waitFor({ state: 'detached', timeout: 15_000 });
  await until(async () => await page.locator('.term.open').count() === 1, 20_000);
  await page.keyboard.type('echo after-$$\n');
  await until(async () => (await rows(page)).includes(`after-${pid}`), 20_000);
  ok(((await rows(page)).match(/before-\d+/g) ?? []).length === 1, 'the same shell goes on, and nothing is doubled', await rows(page));
  is(page.complaints, [], 'no complaint');
  await page.context().close();
});

await admin('DELETE', `/v1/boxes/${id}`);
await other.stop();
await browser.close();
finish();
