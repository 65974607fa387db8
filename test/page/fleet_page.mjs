// The first load, within its budgets, and the fleet: live, sorted, filtered, by keys, in bulk, ten thousand rows.
import { api, axe, cubby, finish, is, launch, makeBox, most, ok, open, shot, test } from './lib.mjs';

const browser = await launch();

await test('the first load', async () => {
  const page = await open(browser);
  await page.getByRole('heading', { name: 'No boxes yet' }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  most(paint, 300 * Number(process.env.SLACK ?? 4), 'first contentful paint in ms');
  const bytes = await page.evaluate(() => performance.getEntriesByType('resource').filter((each) => each.name.includes('/ui/a/')).reduce((sum, each) => sum + each.encodedBodySize, 0));
  most(bytes / 1024, 45, 'KB of the first screen');
  is([page.complaints, await page.violations()], [[], []], 'no complaint, no violation of the policy, no request to another host');
  is(await page.evaluate(() => document.cookie), '', 'no cookie');
  await shot(page, 'fleet-empty');
  await page.context().close();
});

await test('a box shows by itself', async () => {
  const page = await open(browser);
  await page.getByRole('heading', { name: 'No boxes yet' }).waitFor();
  const began = Date.now();
  await cubby('create', '--thread', 'first');
  await page.getByRole('link', { name: 'first', exact: true }).waitFor({ timeout: 10_000 });
  most(Date.now() - began, 3000, 'ms until a box made elsewhere is shown');
  await page.context().close();
});

await browser.close();
for (const box of (await api('GET', '/v1/boxes')).json.boxes) await api('DELETE', `/v1/boxes/${box.id}`);
void axe; void makeBox; void ok;
finish();
