// Code in a sandbox through npm's @e2b/code-interpreter, and raw requests for what the package cannot send. Prints
// "ok - NAME" or "not ok - NAME: why" for each check. Called by test/front/e2b_interpreter_test.sh with E2B_API_URL,
// E2B_SANDBOX_URL and E2B_API_KEY set; its arguments say what the machine has: matplotlib, pandas, PIL, node, root
// (boxes have one).
import { Sandbox, Template } from '@e2b/code-interpreter';

const has = new Set(process.argv.slice(2));
const show = (value) => JSON.stringify(value);
function is(name, got, wanted) {
    console.log(
        show(got) === show(wanted) ? `ok - ${name}` : `not ok - ${name}: got ${show(got)}, wanted ${show(wanted)}`,
    );
}
const like = (name, got, wanted) =>
    console.log(wanted.test(String(got)) ? `ok - ${name}` : `not ok - ${name}: got ${show(got)}`);
async function thrown(run) {
    try {
        await run();
        return 'nothing';
    } catch (error) {
        return `${error.name}: ${error.message}`;
    }
}

const sandbox = await Sandbox.create({ timeoutMs: 300_000, envs: { OF_BOX: 'box' } });
const run = (code, options) => sandbox.runCode(code, options);
const headers = {
    'E2b-Sandbox-Id': sandbox.sandboxId,
    'E2b-Sandbox-Port': '49999',
    'Content-Type': 'application/json',
};
const raw = (method, path, body) =>
    fetch(process.env.E2B_SANDBOX_URL + path, { method, headers, body: body && JSON.stringify(body) });
const raced = (promise, ms) =>
    Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('too late'), ms).unref())]);
const texts = (execution) => execution.results.map((result) => result.text);

async function values() {
    is(
        'the service is there',
        [(await raw('GET', '/health')).status, await (await raw('GET', '/health')).json()],
        [200, 'OK'],
    );
    let execution = await run('x = 1; x');
    is(
        'the last expression is the result',
        [execution.text, execution.executionCount, execution.results[0].isMainResult],
        ['1', 1, true],
    );
    execution = await run('x += 1\nx');
    is('a context keeps its variables', [execution.text, execution.executionCount], ['2', 2]);
    is('a text has no quotes', (await run('"it\'s"')).text, "it's");
    is('an assignment has no result', (await run('y = 1')).results.length, 0);
    is('indented code is Python too', (await run('\n    a = 5\n    if a:\n        print(a)\n')).logs.stdout, ['5\n']);
    is('await at the top', (await run('import asyncio\nawait asyncio.sleep(0, 7)')).text, '7');
    is('what comes after an await is there', (await run('async def f():\n  return 3\nv = await f()\nv')).text, '3');
    is('the directory', (await run('import os; os.getcwd()')).text, '/home/user');
    is('bytes that are not ASCII', (await run('print("日本 é")\n"ü"')).logs.stdout, ['日本 é\n']);
}

async function outputs() {
    const out = [],
        err = [],
        results = [],
        errors = [];
    const execution = await run('import sys\nprint(1)\nprint("a", "b")\nprint("e", file=sys.stderr)\ndisplay(5)\n6', {
        onStdout: (line) => out.push(line.line),
        onStderr: (line) => err.push([line.line, line.error]),
        onResult: (r) => results.push(r.text),
    });
    is('a print is one callback', out, ['1\n', 'a b\n']);
    is('of stderr too', err, [['e\n', true]]);
    is(
        'display and the last value',
        [results, execution.results.map((r) => r.isMainResult)],
        [
            ['5', '6'],
            [false, true],
        ],
    );
    const times = [];
    await run('import time\nprint(1)\ntime.sleep(0.7)\nprint(2)', { onStdout: () => times.push(Date.now()) });
    is('output comes while the code runs', times.length === 2 && times[1] - times[0] > 400, true);
    const failed = await run('print(1)\ndef f():\n  return 1/0\nf()', { onError: (e) => errors.push(e.name) });
    is(
        'an error',
        [failed.error.name, failed.error.value, errors, failed.logs.stdout],
        ['ZeroDivisionError', 'division by zero', ['ZeroDivisionError'], ['1\n']],
    );
    like(
        'its traceback',
        failed.error.traceback,
        /line 3, in f\n {4}return 1\/0[^]*ZeroDivisionError: division by zero$/,
    );
    is('no frames of ours in it', /<string>/.test(failed.error.traceback), false);
    is('code that is not Python', (await run('a b')).error.name, 'SyntaxError');
    const much = await run('for i in range(20000): print("x" * 100)');
    is('much output is whole', much.logs.stdout.join('').length, 20000 * 101);
    const long = await run('print("é" * 3000000)');
    is('a long line too', long.logs.stdout.join('').length, 3000001);
}

async function notebook() {
    is('a line for a shell', (await run('z = "hi"\n!echo {z} $z; echo err >&2')).logs, {
        stdout: ['hi hi\n'],
        stderr: ['err\n'],
    });
    is('its output as a value', (await run('a = !printf "1\\n2\\n"\na')).text, "['1', '2']");
    is('another directory', (await run('%cd /tmp\nimport os\nos.getcwd()')).text, '/tmp');
    await run('%cd /home/user');
    is('a cell for a shell', (await run('%%bash\nfor i in 1 2; do echo $i; done')).logs.stdout.join(''), '1\n2\n');
    is('what asks for plots is taken', (await run('%matplotlib inline\n1')).text, '1');
    is('a line in a text is a text', (await run('t = """\n!ls\n"""\n%pwd\nt')).text, '\\n!ls\\n');
    like('an unknown magic', (await run('%nothing')).error.value, /magic %nothing is not known/);
    const forms = await run(
        'from IPython.display import *\n' +
            'all = HTML("<b>1</b>"), Markdown("# 2"), SVG("<svg/>"), Latex("$3$")\n' +
            'all += JSON({"a": [4]}), Javascript("5")\n' +
            'for v in all: display(v)',
    );
    is(
        'forms of a value',
        forms.results.map((r) => [r.html, r.markdown, r.svg, r.latex, r.json, r.javascript].find(Boolean)),
        ['<b>1</b>', '# 2', '<svg/>', '$3$', { a: [4] }, '5'],
    );
    is(
        'extra is empty for them',
        forms.results.every((r) => !r.extra || !Object.keys(r.extra).length),
        true,
    );
    const extra = await run(
        'class X:\n  def _repr_mimebundle_(self, **_): return {"text/x-own": "o", "image/png": b"\\x89PNG"}\nX()',
    );
    is('other forms are extra', [extra.results[0].extra, extra.results[0].png], [{ 'text/x-own': 'o' }, 'iVBORw==']);
    const large = await run(
        'class L:\n  def _repr_mimebundle_(self, **_):\n' +
            '    return {"application/json": list(range(100000)), "text/html": "h"}\n' +
            'L()',
    );
    is(
        'a form that is too large is left out',
        [large.error, large.results[0].json, large.results[0].html],
        [undefined, undefined, 'h'],
    );
    const odd = await run('display({"application/json": float("nan"), "text/latex": "l"}, raw=True)');
    is('what JSON cannot hold is an error of the code', odd.error.name, 'ValueError');
}

async function variables() {
    const own = 'import os\n[os.environ.get("A"), os.environ.get("OF_BOX")]';
    is('variables of one execution', (await run(own, { envs: { A: 'a', OF_BOX: 'over' } })).text, "['a', 'over']");
    is('and then as before', (await run(own)).text, "[None, 'box']");
    is(
        'also after an error',
        [(await run('1/0', { envs: { A: 'b' } })).error.name, (await run(own)).text],
        ['ZeroDivisionError', "[None, 'box']"],
    );
    const bash = 'echo "[$A] [$OF_BOX]"';
    is(
        'of Bash',
        (await run(bash, { language: 'bash', envs: { A: "it's $x", OF_BOX: 'o' } })).logs.stdout.join(''),
        "[it's $x] [o]\n",
    );
    is('of Bash, then as before', (await run(bash, { language: 'bash' })).logs.stdout.join(''), '[] [box]\n');
    const bad = await raw('POST', '/execute', { code: '1', env_vars: { 'A B': '1' } });
    is('a name that is none', bad.status, 400);
}

async function interrupts() {
    const slow = 'import time\nkept = 1\ntry:\n  time.sleep(100)\nexcept KeyboardInterrupt:\n  seen = True\n  raise';
    like('a client that hangs up', await thrown(() => run(slow, { timeoutMs: 500 })), /^TimeoutError/);
    is('its code was interrupted and its context is usable', (await raced(run('kept, seen'), 5000)).text, '(1, True)');
    await thrown(() => run('while True: print("x" * 1000)', { timeoutMs: 500 }));
    is('also one that prints without end', (await raced(run('kept'), 5000)).text, '1');
    await thrown(() => run('!sleep 100', { timeoutMs: 500 }));
    is('also a program', (await raced(run('kept'), 5000)).text, '1');
    await thrown(() =>
        run('import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(100)', { timeoutMs: 500 }),
    );
    is(
        'one that cannot be interrupted is replaced',
        (await raced(run('"new" if "kept" not in globals() else kept'), 10000)).text,
        'new',
    );
    await thrown(() => run('sleep 100', { language: 'bash', timeoutMs: 500 }));
    is('of Bash', (await raced(run('echo on', { language: 'bash' }), 5000)).logs.stdout.join(''), 'on\n');
    let first;
    await new Promise((begun) => {
        first = run('import time\nprint("begun")\ntime.sleep(1)\norder = [1]', { onStdout: begun });
    });
    const second = run('order.append(2); order');
    is('code of one context runs in turn', [(await first).error, (await second).text], [undefined, '[1, 2]']);
}

async function deaths() {
    const died = await run('print(1, flush=True)\nimport os\nos._exit(3)');
    is('code that ends its context', [died.logs.stdout, died.error.name], [['1\n'], 'ContextRestarting']);
    like('says how', died.error.value, /exit code 3/);
    is('and there is a new one', (await run('1 + 1')).text, '2');
    const context = await sandbox.createCodeContext({ cwd: '/tmp' });
    await run('import os; os._exit(0)', { context });
    is('in the same directory', (await run('import os; os.getcwd()', { context })).text, '/tmp');
    const gone = await run('exit 4', { language: 'bash' });
    is(
        'of Bash',
        [gone.error.name, (await run('pwd', { language: 'bash' })).logs.stdout.join('')],
        ['ContextRestarting', '/home/user\n'],
    );
    await sandbox.removeCodeContext(context);
}

async function contexts() {
    const listed = (await sandbox.listCodeContexts()).map((c) => [c.id, c.language, c.cwd]);
    is('two are there from the start', listed.slice(0, 2), [
        ['python', 'python', '/home/user'],
        ['javascript', 'javascript', '/home/user'],
    ]);
    const one = await sandbox.createCodeContext({ cwd: '/tmp' }),
        other = await sandbox.createCodeContext();
    is('what was asked for', [one.language, one.cwd, other.cwd], ['python', '/tmp', '/home/user']);
    await run('mine = 1', { context: one });
    is('each has its own state', (await run('mine', { context: other })).error.name, 'NameError');
    is('and its directory', (await run('import os; mine, os.getcwd()', { context: one })).text, "(1, '/tmp')");
    await run('import os; os.chdir("/")', { context: one });
    is(
        'oldest first',
        (await sandbox.listCodeContexts()).slice(-2).map((c) => [c.id, c.cwd]),
        [
            [one.id, '/tmp'],
            [other.id, '/home/user'],
        ],
    );
    await sandbox.restartCodeContext(one);
    is(
        'after a restart',
        [
            (await run('mine', { context: one })).error.name,
            (await run('import os; os.getcwd()', { context: one })).text,
        ],
        ['NameError', '/tmp'],
    );
    await sandbox.removeCodeContext(one);
    is(
        'removed',
        (await sandbox.listCodeContexts()).some((c) => c.id === one.id),
        false,
    );
    like(
        'then it is not there',
        await thrown(() => run('1', { context: one })),
        new RegExp(`^NotFoundError: Context ${one.id} not found`),
    );
    like(
        'nor to be restarted',
        await thrown(() => sandbox.restartCodeContext('nothing')),
        /^NotFoundError: Context nothing not found/,
    );
    if (has.has('root')) {
        const whoami = 'import os; os.geteuid(), os.getcwd(), os.system("sudo true")';
        const roots = await sandbox.createCodeContext({ cwd: '/root' });
        is('a directory of root alone: code runs as root', (await run(whoami, { context: roots })).text, "(0, '/root', 0)");
        is('it is listed', (await sandbox.listCodeContexts()).at(-1).cwd, '/root');
        await sandbox.restartCodeContext(roots);
        is('and root still, restarted', (await run(whoami, { context: roots })).text, "(0, '/root', 0)");
        await sandbox.removeCodeContext(roots);
        is('elsewhere it is the user, who has sudo', (await run(whoami)).text, "(1000, '/home/user', 0)");
        for (const [user, wanted] of [['root', "(0, '/home/user', 0)"], ['worker', "(True, '/home/user', 0)"]]) {
            const { name } = await Template.build(Template().fromBaseImage().setUser(user), `code-${user}`);
            const made = await Sandbox.create(name, { timeoutMs: 60_000 });
            const code = user === 'root' ? whoami : whoami.replace('os.geteuid()', 'os.geteuid() not in (0, 1000)');
            is(`a template of ${user}: code runs as ${user}`, (await made.runCode(code)).text, wanted);
            is('with its variables', (await made.runCode('os.environ["USER"]')).text, user);
            const context = await made.createCodeContext({ cwd: '/tmp' });
            is('in new contexts, too', (await made.runCode('import os; os.environ["USER"]', { context })).text, user);
            await made.kill();
        }
    }
    is('a directory that is none', (await raw('POST', '/contexts', { cwd: '/nowhere' })).status, 400);
    is('a language that is none', (await raw('POST', '/contexts', { language: 'cobol' })).status, 400);
    is(
        'a context and a language',
        (await raw('POST', '/execute', { code: '1', context_id: 'python', language: 'python' })).status,
        400,
    );
    is(
        'null is not there',
        (
            await (
                await raw('POST', '/execute', { code: '1', context_id: null, language: null, env_vars: null })
            ).text()
        ).split('\n').length,
        4,
    );
    is('no code', (await raw('POST', '/execute', {})).status, 422);
    await sandbox.removeCodeContext(other);
}

async function shell() {
    const bash = (code) => run(code, { language: 'bash' });
    is('Bash', (await bash('pwd; cd /tmp; X=5; f() { echo f; }')).logs.stdout, ['/home/user\n']);
    is('keeps its state', (await bash('pwd; echo $X; f')).logs.stdout.join(''), '/tmp\n5\nf\n');
    const failed = await bash('ls /nowhere');
    is('a command that fails', [failed.error.name, failed.error.value], ['ExitCode', '2']);
    like('says why', failed.logs.stdout.join('') + failed.logs.stderr.join(''), /No such file/);
}

async function javascript() {
    const js = (code, options) => run(code, { language: 'js', ...options });
    let execution = await js('const a = 6;\nconsole.log("x", { b: 1 });\nconsole.error("e");\na * 7');
    is('JavaScript', [execution.text, execution.logs], ['42', { stdout: ['x { b: 1 }\n'], stderr: ['e\n'] }]);
    is('keeps its names', (await js('a')).text, '6');
    is(
        'import and await',
        (
            await js(
                'import os, { EOL as end } from "os"\nimport * as path from "node:path"\n' +
                    'const v = await Promise.resolve(8)\n' +
                    'console.log(typeof os.cpus, end === "\\n", path.join("a", "b"), v)',
            )
        ).logs.stdout,
        ['function true a/b 8\n'],
    );
    execution = await js(
        'const all = { "text/html": "<i>", "application/json": [1], "text/latex": 1n };\n' +
            '({ [Symbol.for("Jupyter.display")]: () => all })',
    );
    is('forms of its own', [execution.results[0].html, execution.results[0].json], ['<i>', [1]]);
    execution = await js('({ get [Symbol.for("nodejs.util.inspect.custom")]() { throw new Error("no") } })');
    like('a value that cannot be shown', execution.text, /cannot be shown/);
    is('a promise is awaited', (await js('Promise.resolve("p")')).text, 'p');
    execution = await js('null.x');
    is(
        'an error',
        [execution.error.name, execution.error.value],
        ['TypeError', "Cannot read properties of null (reading 'x')"],
    );
    is('variables', (await js('[process.env.A, process.env.OF_BOX]', { envs: { A: 'a' } })).text, "[ 'a', 'box' ]");
    is('and then as before', (await js('process.env.A === undefined')).text, 'true');
    await thrown(() => js('for (;;);', { timeoutMs: 500 }));
    is('a loop is interrupted', (await raced(js('a'), 5000)).text, '6');
    await thrown(() => js('await new Promise(() => {})', { timeoutMs: 500 }));
    is('and what waits', (await raced(js('a'), 5000)).text, '6');
    const much = await js('for (let i = 0; i < 20000; i++) console.log("y".repeat(100))');
    is('much output is whole', much.logs.stdout.join('').length, 20000 * 101);
    execution = await run('const n: number = 1; n', { language: 'ts' });
    if (execution.error) like('types that cannot be removed', execution.error.value, /needs Node.js 22.13/);
    else is('types are removed', execution.text, '1');
}

async function charts() {
    const plot = async (code) => (await run('import matplotlib.pyplot as plt\n' + code + '\nplt.show()')).results[0];
    let result = await plot(
        'plt.plot([1, 2], [3, 4]); plt.plot([1, 2], [5, 6], label="L"); plt.title("T")\n' +
            'plt.xlabel("time (s)"); plt.ylabel("v [m]")',
    );
    is(
        'a figure',
        [result.png.slice(0, 8), result.text, result.isMainResult],
        ['iVBORw0K', '<Figure size 640x480 with 1 Axes>', false],
    );
    const { chart } = result;
    is(
        'a line chart',
        [chart.type, chart.title, chart.x_label, chart.x_unit, chart.y_unit, chart.x_scale],
        ['line', 'T', 'time (s)', 's', 'm', 'linear'],
    );
    is('its points', chart.elements, [
        {
            label: 'Line 0',
            points: [
                [1, 3],
                [2, 4],
            ],
        },
        {
            label: 'L',
            points: [
                [1, 5],
                [2, 6],
            ],
        },
    ]);
    is('its ticks have labels', chart.x_ticks.length === chart.x_tick_labels.length && chart.x_ticks.length > 1, true);
    result = await plot('import datetime as d\nplt.plot([d.date(2023, 9, 1), d.date(2023, 9, 2)], [1, 2])');
    is('dates', [result.chart.x_scale, result.chart.elements[0].points[0]], ['datetime', ['2023-09-01', 1]]);
    result = await plot('plt.plot(["a", "b"], [1, 2])');
    is('categories', [result.chart.x_scale, result.chart.x_tick_labels], ['categorical', ['a', 'b']]);
    result = await plot('plt.yscale("log"); plt.scatter([1, 2], [10, 20], label="S"); plt.axhline(15)');
    is(
        'a scatter chart',
        [result.chart.type, result.chart.y_scale, result.chart.elements],
        [
            'scatter',
            'log',
            [
                {
                    label: 'S',
                    points: [
                        [1, 10],
                        [2, 20],
                    ],
                },
            ],
        ],
    );
    result = await plot('plt.bar(["a", "b"], [3, 4]); plt.xlabel("x")');
    is(
        'a bar chart',
        [result.chart.type, result.chart.x_label, result.chart.elements],
        [
            'bar',
            'x',
            [
                { label: 'a', group: 'Group 0', value: 3 },
                { label: 'b', group: 'Group 0', value: 4 },
            ],
        ],
    );
    result = await plot('plt.barh(["a", "b"], [3, 4]); plt.xlabel("x")');
    is(
        'a horizontal one',
        [result.chart.y_label, result.chart.elements.map((e) => [e.label, e.value])],
        [
            'x',
            [
                ['a', 3],
                ['b', 4],
            ],
        ],
    );
    result = await plot('plt.pie([1, 3], labels=["a", "b"], autopct="%d")');
    is(
        'a pie',
        [result.chart.type, result.chart.elements],
        [
            'pie',
            [
                { label: 'a', angle: 90, radius: 1 },
                { label: 'b', angle: 270, radius: 1 },
            ],
        ],
    );
    result = await plot('plt.boxplot([[1, 2, 3, 4, 5, 50], [2, 3, 4]], labels=["a", "b"], patch_artist=True)');
    is(
        'boxes',
        [result.chart.type, result.chart.elements],
        [
            'box_and_whisker',
            [
                { label: 'a', min: 1, first_quartile: 2.25, median: 3.5, third_quartile: 4.75, max: 5, outliers: [50] },
                { label: 'b', min: 2, first_quartile: 2.5, median: 3, third_quartile: 3.5, max: 4, outliers: [] },
            ],
        ],
    );
    result = await plot('fig, (l, r) = plt.subplots(1, 2); l.plot([1], [2]); r.bar(["a"], [1]); fig.suptitle("S")');
    is(
        'several of them',
        [result.chart.type, result.chart.title, result.chart.elements.map((e) => e.type)],
        ['superchart', 'S', ['line', 'bar']],
    );
    result = await plot('plt.imshow([[1, 2]]); plt.title("I")');
    is('what is not a chart', [result.chart.type, result.chart.title, result.chart.elements], ['unknown', 'I', []]);
    const shown = await run('import matplotlib.pyplot as plt\nfig = plt.figure()\nplt.plot([1])\n7');
    is(
        'a figure that nobody shows',
        [texts(shown), shown.results[1].chart.type],
        [['7', '<Figure size 640x480 with 1 Axes>'], 'line'],
    );
    const broken = await run('plt.figure()\nplt.plot([1, 2])\n1/0');
    is(
        'one that was drawn until an error',
        [broken.error.name, broken.results[0].chart.type],
        ['ZeroDivisionError', 'line'],
    );
    is('nothing is shown twice', (await run('fig.savefig("f.png")\n8')).results.length, 1);
}

async function tables() {
    const { results } = await run(
        'import pandas as pd\nd = pd.to_datetime(["2020-01-02", "2020-01-03"])\n' +
            'pd.DataFrame({"n": [1, 2], "f": [1.5, None], "t": ["a", "b"], "d": d})',
    );
    is('a table', results[0].data, {
        n: [1, 2],
        f: [1.5, null],
        t: ['a', 'b'],
        d: ['2020-01-02T00:00:00', '2020-01-03T00:00:00'],
    });
    like('as HTML too', results[0].html, /<table/);
}

async function images() {
    const made = await run('from PIL import Image\ni = Image.new("RGB", (3, 3))\ni.save("i.png")\ni.show()\ni');
    is(
        'an image that is saved, shown and the value',
        made.results.map((r) => [r.png.slice(0, 8), r.isMainResult]),
        [
            ['iVBORw0K', false],
            ['iVBORw0K', false],
            ['iVBORw0K', true],
        ],
    );
}

async function end() {
    const running = thrown(() => run('import time\ntime.sleep(100)', { timeoutMs: 20_000 }));
    const started = run('1', { language: 'bash' });
    await started;
    await sandbox.kill();
    is(
        'a sandbox that is killed cuts what runs',
        await raced(
            running.then(() => 'cut'),
            10000,
        ),
        'cut',
    );
    is('and is not there then', (await raw('GET', '/health')).status, 502);
    like('which clients take for a time-out', await thrown(() => run('1')), /^TimeoutError/);
}

const parts = [values, outputs, notebook, variables, interrupts, deaths, contexts, shell];
if (has.has('node')) parts.push(javascript);
if (has.has('matplotlib')) parts.push(charts);
if (has.has('pandas')) parts.push(tables);
if (has.has('PIL')) parts.push(images);
for (const part of [...parts, end]) {
    try {
        await part();
    } catch (error) {
        console.log(`not ok - ${part.name}: ${error.stack}`);
    }
}
process.exit(0);
