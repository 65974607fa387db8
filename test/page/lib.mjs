// What the browser tests share: a browser, a daemon, checks in the form of TAP. Programs and addresses come from
// test/front/page_test.sh through the environment.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const run = promisify(execFile);
export const { PAGE_URL: BASE = 'http://127.0.0.1:7171', CUBBY = 'build/cubby', CUBBYD = 'build/cubbyd', SHOTS = 'build/shots', CHROMIUM = '/usr/bin/chromium' } = process.env;
mkdirSync(SHOTS, { recursive: true });

// ---- results ----

let bad = 0;
export function ok(condition, name, why = '') {
  if (!condition) bad++;
  console.log(`${condition ? 'ok' : 'not ok'} - ${name}`);
  if (!condition && why) console.log(String(why).replace(/^/gm, '# '));
  return Boolean(condition);
}
export const is = (got, wanted, name) =>
  ok(JSON.stringify(got) === JSON.stringify(wanted), name, `got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
export const most = (got, limit, name) => ok(got <= limit, `${name} (${Math.round(got * 100) / 100}, at most ${limit})`);
/** A case of its own: what it throws is a failure of it, with a picture. */
export async function test(name, body, page) {
  try {
    await body();
  } catch (error) {
    ok(false, name, error.stack);
    await page?.screenshot({ path: `${SHOTS}/failed-${name.replace(/\W+/g, '-')}.png` }).catch(() => undefined);
  }
}
/** The end of a file; with ALL, of all.mjs alone. */
export function finish(last = !process.env.ALL) {
  if (last) process.exit(bad ? 1 : 0);
}

// ---- the daemon ----

export const cubby = async (...args) => (await run(CUBBY, args, { env: { ...process.env, CUBBY_URL: BASE } })).stdout.trim();
export async function api(method, path, body, headers = {}, base = BASE) {
  const answer = await fetch(base + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await answer.text();
  return { status: answer.status, json: text.startsWith('{') ? JSON.parse(text) : text };
}
export const makeBox = async (request = {}) => (await api('POST', '/v1/boxes', request)).json.id;
export const exec = async (id, command) => (await api('POST', `/v1/boxes/${id}/exec`, { command })).json;
export const freePort = () => new Promise((done) => {
  const server = createServer().listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => done(port)); });
});
/** A daemon that asks for tokens, for what the shared one cannot show: login, rights, restarts. */
export async function daemon() {
  const at = mkdtempSync(`${process.env.WORK ?? '/tmp'}/page-`), port = await freePort(), base = `http://127.0.0.1:${port}`;
  const token = (name) => `${name}-token-0123456789abcdef0123456789`;
  writeFileSync(`${at}/config.yaml`, `auth: required\npool_size: 1\ntokens:\n${[['admin', 'scope: admin'], ['ann', 'user: ann, scope: user'], ['eye', 'user: ann, scope: read']]
    .map(([name, rest]) => `  - {token: ${token(name)}, ${rest}}\n`).join('')}`);
  let child;
  const start = async () => {
    child = spawn(CUBBYD, ['--listen', `127.0.0.1:${port}`, '--state', `${at}/state`, '--config', `${at}/config.yaml`], { stdio: 'ignore' });
    while (!await fetch(`${base}/healthz`).then((answer) => answer.ok, () => false)) await new Promise((done) => setTimeout(done, 50));
  };
  const stop = (signal = 'SIGTERM') => new Promise((done) => { child.once('exit', done); child.kill(signal); });
  const as = (name) => ({ Authorization: `Bearer ${token(name)}` });
  await start();
  return { base, token, as, start, stop, api: (name, method, path, body) => api(method, path, body, as(name), base) };
}
/** A connection to the daemon that can be cut. */
export async function cutter() {
  const to = new URL(BASE).port, open = new Set();
  let cut = false;
  const server = createServer((near) => {
    if (cut) return void near.destroy();
    const far = connect(Number(to), '127.0.0.1');
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a);
      a.on('error', () => b.destroy()).on('close', () => { open.delete(a); b.destroy(); });
      a.pipe(b);
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { base: `http://127.0.0.1:${server.address().port}`, cut: () => { cut = true; for (const each of open) each.destroy(); }, mend: () => { cut = false; },
    close: () => { for (const each of open) each.destroy(); server.close(); } };
}

// ---- the browser ----

let browser;
/** The browser: one for all files of a run. */
export async function launch() {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost, EXCLUDE localhost'] });
  return { newContext: (options) => browser.newContext(options), close: async () => { if (!process.env.ALL) await browser.close(); } };
}

/** A page whose complaints are collected: console errors, violations of the policy, requests to other hosts. */
export async function open(browser, path = '/ui/boxes', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', locale: 'en-US', permissions: ['clipboard-read', 'clipboard-write'], ...options });
  context.setDefaultTimeout(120_000); // tests run next to others
  const page = await context.newPage(), complaints = [], base = options.base ?? BASE;
  page.on('console', (message) => { if (message.type() === 'error' && !/net::ERR_|status of 4\d\d|status of 5\d\d/.test(message.text())) complaints.push(message.text()); });
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('request', (request) => { if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).host !== new URL(base).host && !/\.localhost/.test(new URL(request.url()).host)) complaints.push(`foreign: ${request.url()}`); });
  await page.addInitScript(() => {
    globalThis.__violations = [];
    document.addEventListener('securitypolicyviolation', (event) => globalThis.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
  });
  await page.goto(base + path);
  return Object.assign(page, { complaints, violations: () => page.evaluate(() => globalThis.__violations) });
}
/** All text of the terminal that is shown, with what scrolled away. */
export async function screen(page) {
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Text of the screen' }).click();
  await page.locator('dialog[open] pre').waitFor();
  const text = await page.locator('dialog pre').textContent();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.locator('.term').first().focus();
  await page.keyboard.press('Enter');
  return text;
}
/** Waits until a condition in node holds. */
export async function until(condition, ms = 15_000) {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((done) => setTimeout(done, 40))) {
    const got = await condition();
    if (got) return got;
  }
  throw new Error(`still not: ${condition}`);
}
export const shot = (page, name) => page.screenshot({ path: `${SHOTS}/${name}.png` });

const axeSource = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
/** Findings of axe by WCAG 2.2 AA: id and the elements. */
export async function axe(page, exclude = []) {
  await page.evaluate(axeSource);
  return page.evaluate(async (exclude) => {
    const found = await globalThis.axe.run({ exclude }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] });
    return found.violations.map((each) => `${each.id} (${each.impact}): ${each.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join('; ')}`);
  }, exclude);
}
