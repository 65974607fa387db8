// All *_page.mjs in one process, with one browser.
import { readdirSync } from 'node:fs';
import { finish, test } from './lib.mjs';

for (const file of readdirSync(import.meta.dirname).filter((each) => /_page\.mjs$/.test(each)).sort()) {
  const began = Date.now();
  await test(file, () => import(`./${file}`));
  console.log(`# ${file}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
}
finish(true);
