// TAP lines without numbers, for the shell that runs these programs: `ok - NAME` or `not ok - NAME # WHY`.
let failed = 0;

export function ok(name, condition, why = '') {
  if (!condition) failed++;
  console.log(`${condition ? 'ok' : 'not ok'} - ${name}${condition ? '' : ' # ' + String(why).replace(/\s+/g, ' ').slice(0, 400)}`);
}

export function is(name, got, want) {
  const left = JSON.stringify(got), right = JSON.stringify(want);
  ok(name, left === right, `got ${left}, want ${right}`);
}

// The error a promise ends with; undefined when it does not.
export async function error(promise) {
  try {
    await promise;
    return undefined;
  } catch (caught) {
    return caught;
  }
}

// Waits for what nothing announces; false after `seconds`.
export async function eventually(seconds, check) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await new Promise((done) => setTimeout(done, 50)))
    if (await check()) return true;
  return false;
}

// Runs `body`; a throw is one more failed check.
export async function main(body) {
  try {
    await body();
  } catch (caught) {
    ok('the program comes to its end', false, caught?.stack ?? caught);
  }
  process.exit(failed ? 1 : 0);
}
