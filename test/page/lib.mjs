// What the browser tests share: a browser, a daemon, checks in the form of TAP. Programs and addresses come from
// test/front/page_test.sh through the environment.
import { execFile, spawn } from 'node:child_process';
import { readFileSync, mkdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const run = promisify(execFile);
export const { URL: BASE = 'http://127.0.0.1:7171', CUBBY = 'build/cubby', SHOTS = 'build/shots', CHROMIUM = '/usr/bin/chromium' } = process.env;
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
export function finish() {
  process.exit(bad ? 1 : 0);
}

// ---- the daemon ----

export const cubby = async (...args) => (await run(CUBBY, args, { env: { ...process.env, CUBBY_URL: BASE } })).stdout.trim();
export async function api(method, path, body, headers = {}) {
  const answer = await fetch(BASE + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await answer.text();
  return { status: answer.status, json: text.startsWith('{') ? JSON.parse(text) : text };
}
export const makeBox = async (request = {}) => (await api('POST', '/v1/boxes', request)).json.id;
export const exec = async (id, command) => (await api('POST', `/v1/boxes/${id}/exec`, { command })).json;
export { spawn };

// ---- the browser ----

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost, EXCLUDE localhost'] });

/** A page whose complaints are collected: console errors, violations of the policy, requests to other hosts. */
export async function open(browser, path = '/ui/boxes', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', locale: 'en-US', permissions: ['clipboard-read', 'clipboard-write'], ...options });
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
export const shot = (page, name) => page.screenshot({ path: `${SHOTS}/${name}.png` });

const axeSource = readFileSync(new globalThis.URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
/** Findings of axe by WCAG 2.2 AA: id and the elements. */
export async function axe(page, exclude = []) {
  await page.evaluate(axeSource);
  return page.evaluate(async (exclude) => {
    const found = await globalThis.axe.run({ exclude }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] });
    return found.violations.map((each) => `${each.id} (${each.impact}): ${each.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join('; ')}`);
  }, exclude);
}
