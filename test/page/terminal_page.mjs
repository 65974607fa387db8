// Terminals: what is typed and shown, tabs, a reload, a lost connection, hostile output, the keyboard, small screens.
import { api, axe, cutter, exec, finish, is, launch, makeBox, most, ok, open, screen, shot, test, until } from './lib.mjs';

const browser = await launch();
const id = await makeBox({ thread: 'terminal-tests' });
await exec(id, 'true');
const at = `/ui/boxes/${id}/terminal`;
const rows = (page) => page.locator('.xterm-rows').first().innerText().then((text) => text.replace(/\u00a0/g, ' '));
const shows = (page, text, ms) => until(async () => (await rows(page)).includes(text), ms);
const run = async (page, line) => { await page.keyboard.type(line); await page.keyboard.press('Enter'); };

await test('typed, drawn, resized, and there after a reload', async () => {
  const page = await open(browser, at, { colorScheme: 'dark' });
  await shows(page, '$');
  await run(page, 'echo mark-$((40+2)); echo 你好 世界; printf "\\033[38;2;255;120;0morange\\033[0m \\033[41m red \\033[0m\\n"');
  await shows(page, '世界');
  await run(page, 'echo pid-$$; stty size');
  const before = /pid-(\d+)/.exec(await until(async () => { const text = await rows(page); return /pid-\d+\s+\d+ \d+/.test(text) && text; }))[1];
  await page.setViewportSize({ width: 1000, height: 600 });
  await run(page, 'sleep 0.3; echo size-$(stty size | tr " " x)');
  const narrow = /size-(\d+)x(\d+)/.exec(await until(async () => { const text = await rows(page); return /size-\d+x\d+/.test(text) && text; }));
  ok(Number(narrow[2]) < 115 && Number(narrow[1]) < 32, 'a smaller window reaches the shell', narrow[0]);
  await page.reload();
  await shows(page, `size-${narrow[1]}`);
  await run(page, 'echo again-$$');
  await shows(page, `again-${before}`);
  const text = await screen(page);
  is((text.match(/^mark-42$/gm) ?? []).length, 1, 'after a reload the same shell is there, and nothing is doubled');
  is([page.complaints, await page.violations()], [[], []], 'no complaint, no violation of the policy');
  is(await axe(page), [], 'axe finds nothing');
  await page.locator('.xterm-screen').click();
  await run(page, 'exit 3');
  await page.getByText('The shell ended with status 3').waitFor();
  await page.keyboard.press('Enter');
  await shows(page, '$');
  await page.context().close();
});

await test('a lost connection: no byte twice, no byte missing', async () => {
  const line = await cutter(), page = await open(browser, at, { base: line.base });
  await shows(page, '$');
  await run(page, 'for i in $(seq 1 4000); do echo line-$i; [ $((i%40)) = 0 ] && sleep 0.02; done; echo the-$((1+1))nd-end');
  await shows(page, 'line-400');
  line.cut();
  await page.getByText(/Connection lost/).first().waitFor();
  await shot(page, 'terminal-lost');
  line.mend();
  await page.getByRole('button', { name: 'Now', exact: true }).click();
  await shows(page, 'the-2nd-end', 20_000);
  const found = [...(await screen(page)).matchAll(/^line-(\d+)$/gm)].map((each) => Number(each[1]));
  is([found.length, found.every((number, i) => number === i + 1)], [4000, true], 'each line once, in order');
  await page.context().close();
  line.close();
});

await test('tabs, search, copy, titles and links of programs', async () => {
  const page = await open(browser, at);
  await shows(page, '$');
  await page.getByRole('button', { name: 'New terminal', exact: true }).click();
  await until(async () => await page.locator('.term-tab').count() === 2);
  await shows(page, '$');
  await run(page, 'echo second-$((1+1))');
  await shows(page, 'second-2');
  await page.keyboard.press('Control+Shift+ArrowLeft');
  await until(async () => !(await rows(page)).includes('second-2'));
  await page.keyboard.press('Control+Shift+ArrowRight');
  await shows(page, 'second-2');
  ok(true, 'two tabs are two shells, changed by keys');
  await page.keyboard.press('Control+Shift+F');
  await page.getByRole('searchbox', { name: 'Search' }).fill('second-2');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Shift+C');
  await until(async () => await page.evaluate(() => navigator.clipboard.readText()) === 'second-2');
  ok(true, 'what is searched for is selected, and copied');
  await run(page, 'printf "\\033]52;c;%s\\a" $(printf from-a-program | base64)');
  await until(async () => await page.evaluate(() => navigator.clipboard.readText()) === 'from-a-program');
  ok(true, 'a program may write the clipboard');
  await run(page, 'stty -echo; printf "\\033]52;c;?\\a"; IFS= read -rs -t 1 -n 40 x; stty echo; echo "read-${#x}"; echo "$x" | grep -c ZnJvbS || echo kept-$((1+1))');
  await shows(page, 'kept-2');
  ok(true, 'but not read it');
  await run(page, `printf '\\033]0;<b onclick=x>%s\\a' $(printf 'x%.0s' $(seq 300))`);
  const name = await until(async () => (await page.locator('.term-tab.on').innerText()).match(/^<b onclick=x>x+/)?.[0]);
  most(name.length, 80, 'a title is text, and cut');
  await run(page, `clear; printf '\\033]8;;javascript:globalThis.hacked=1\\033\\\\press-%s\\033]8;;\\033\\\\\\n' here`);
  await shows(page, 'press-here');
  const press = async (text) => {
    const { x, y, width, height } = await page.locator('.xterm-rows').getByText(text, { exact: true }).boundingBox();
    await page.mouse.move(x + width / 2, y + 200);
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.waitForTimeout(200); // links are looked for below the pointer
    await page.mouse.click(x + width / 2, y + height / 2);
  };
  await press('press-here');
  is(await page.evaluate(() => globalThis.hacked ?? null), null, 'a link with a script is not followed');
  await run(page, `clear; printf '\\033]8;;http://127.0.0.1:1/elsewhere\\033\\\\bank-%s\\033]8;;\\033\\\\\\n' here`);
  await shows(page, 'bank-here');
  await press('bank-here');
  await page.locator('dialog').getByText('http://127.0.0.1:1/elsewhere').waitFor();
  await page.keyboard.press('Escape');
  ok(true, 'where a link really leads is asked first');
  await page.locator('.term-tab.on').getByRole('button', { name: /End terminal/ }).click();
  await page.locator('dialog').getByRole('button', { name: 'End terminal' }).click();
  await until(async () => await page.locator('.term-tab').count() === 1);
  await page.context().close();
});

await test('much output', async () => {
  const page = await open(browser, at), heap = async () => {
    const client = await page.context().newCDPSession(page);
    await client.send('HeapProfiler.collectGarbage');
    return (await client.send('Runtime.getHeapUsage')).usedSize / 2 ** 20;
  };
  await shows(page, '$');
  const before = await heap();
  let began = Date.now();
  await run(page, 'seq 1 200000; echo all-$((1+1))');
  await shows(page, 'all-2', 30_000);
  most(Date.now() - began, 8000, 'ms for 200,000 lines');
  const last = [...(await screen(page)).matchAll(/^(\d+)$/gm)].map((each) => Number(each[1]));
  is([last.at(-1), last.every((number, i) => !i || number === last[i - 1] + 1)], [200_000, true], 'to the last, none missing');
  began = Date.now();
  await run(page, 'clear; head -c 10000000 /dev/zero | tr "\\0" x; clear; echo line-$((1+1))');
  await shows(page, 'line-2', 30_000);
  most(await heap() - before, 60, `MB more after a line of 10 MB, which took ${Date.now() - began} ms`);
  await page.evaluate((text) => navigator.clipboard.writeText(text), 'a line of some length, pasted\n'.repeat(8000));
  await run(page, 'stty -echo; cat > pasted');
  await page.keyboard.press('Control+Shift+V');
  await until(async () => (await exec(id, 'wc -c < /workspace/pasted')).stdout.trim() === '240000', 20_000);
  ok(true, 'a long paste arrives whole');
  await page.keyboard.press('Control+c');
  await page.context().close();
});

await test('the keyboard is not caught', async () => {
  const page = await open(browser, at);
  await shows(page, '$');
  await page.keyboard.press('Control+Shift+L');
  const focused = () => page.evaluate(() => document.activeElement.className || document.activeElement.tagName);
  is((await focused()).startsWith('term '), true, 'Ctrl-Shift-L leads out');
  await page.keyboard.press('Shift+Tab');
  is((await focused()).startsWith('term '), false, 'Tab goes past it');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await run(page, 'echo in-$((1+1))');
  await shows(page, 'in-2');
  await page.keyboard.type('ech');
  await page.keyboard.press('Tab');
  is(await focused(), 'xterm-helper-textarea', 'Enter leads in, and there Tab belongs to the shell');
  await page.context().close();
});

await test('a small screen with touch', async () => {
  const page = await open(browser, at, { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
  await shows(page, '$');
  await page.keyboard.type('sleep 100');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: '^C' }).tap();
  await page.keyboard.type('echo touch-$((1+1))');
  await page.keyboard.press('Enter');
  await shows(page, 'touch-2');
  ok(await page.getByRole('button', { name: 'Paste' }).isVisible(), 'keys that a touch keyboard lacks are there');
  is(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'nothing is wider than the screen');
  is(await axe(page), [], 'axe finds nothing');
  await shot(page, 'terminal-small');
  await page.context().close();
});

await test('states of the box', async () => {
  const page = await open(browser, at);
  await shows(page, '$');
  await api('POST', `/v1/boxes/${id}/pause`);
  await page.getByText('its processes are frozen').waitFor();
  await page.locator('.empty').getByRole('button', { name: 'Resume' }).click();
  await shows(page, '$');
  await api('DELETE', `/v1/boxes/${id}`);
  await page.getByText('This box was deleted').waitFor();
  await page.reload();
  await page.getByText(/It was deleted on/).waitFor();
  ok(true, 'paused, resumed, deleted: said in words');
  await page.context().close();
});

await browser.close();
finish();
