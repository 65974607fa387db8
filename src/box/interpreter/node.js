// One Node.js session: started in the box by interpreter.c, it runs one piece of code after another in a REPL's
// context: declarations stay, await works at the top. What is said on standard input and output: head of python.py.
//
// A line of ours begins with a newline: processes that inherit our standard output write into it, and may have left
// half a line.
'use strict';
const fs = require('fs'),
    path = require('path'),
    repl = require('repl'),
    util = require('util'),
    vm = require('vm');
const { Console } = require('console'),
    { PassThrough, Writable } = require('stream'),
    { Worker } = require('worker_threads');

const PRINTED = 1 << 20,
    ANSWER = 8 << 20,
    PIECE = 128 << 10,
    VALUES = 60000,
    WINDOW = 384 << 10,
    PATIENCE_MS = 120000,
    FAREWELL_MS = 10000;
let idle = 1800,
    used = Date.now(),
    count = 0;
let running = null; // {name, finish}
let cell = { outputs: [], kept: 0, lost: 0, live: null }; // live: its name, when each output is sent as it comes
const cells = [],
    parts = new Map();
let reader = null,
    unread = 0; // which cell somebody reads, and how many bytes of it are on their way
let wasRead = () => {};

// ---- what is said ----

function say(word, name, data) {
    let line = Buffer.concat([
        Buffer.from(`\n${word} ${name}${data ? ' ' : ''}`),
        data || Buffer.alloc(0),
        Buffer.from('\n'),
    ]);
    while (line.length) {
        try {
            line = line.subarray(fs.writeSync(1, line));
        } catch (error) {
            if (error.code !== 'EAGAIN') throw error;
        }
    }
}

function text(value) {
    // Halves of characters are written as escapes, and nobody else takes them.
    return Buffer.from(JSON.stringify(value).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '$1\\ufffd'));
}

// Waits for a little and hears what is said meanwhile: code that does not return to the loop has to wait for its
// reader here.
const nap = new Int32Array(new SharedArrayBuffer(4)),
    heardNow = Buffer.alloc(65536);
function hearNow() {
    let len = 0;
    try {
        len = fs.readSync(0, heardNow);
        if (!len) process.reallyExit(0);
    } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(nap, 0, 0, 2);
    }
    if (len) hear(heardNow.toString('latin1', 0, len));
}

// In pieces, when there is room for them. False: nobody reads.
function send(word, name, data) {
    for (let at = 0; at < data.length; at += PIECE) {
        const piece = data.subarray(at, at + PIECE),
            last = at + PIECE >= data.length ? word : 'part';
        const size = last.length + name.length + piece.length + 2,
            until = Date.now() + PATIENCE_MS;
        while (reader === name && unread && unread + size > WINDOW) {
            hearNow();
            if (Date.now() > until) reader = null;
        }
        if (reader !== name) return false;
        unread += size;
        say(last, name, piece);
    }
    return true;
}

async function answer(name, value) {
    if (!send('done', name, text(value))) say('done', name, Buffer.from('{}'));
    const timer = setTimeout(() => {
        reader = null;
        wasRead();
    }, FAREWELL_MS);
    while (reader === name && unread)
        await new Promise((resolve) => {
            wasRead = resolve;
        });
    clearTimeout(timer);
    reader = null;
}

// ---- what is printed ----

function add(output) {
    if (!cell.live) {
        cell.outputs.push(output);
        return;
    }
    let data = text(output);
    if (data.length > ANSWER && output.data)
        data = text({
            ...output,
            data: { 'text/plain': String(output.data['text/plain']).slice(0, 1000) + ' [too large to be shown]' },
        });
    send('item', cell.live, data);
}

function print(name, text) {
    for (let at = 0; cell.live && at < text.length; at += PRINTED)
        add({ output_type: 'stream', name, text: text.slice(at, at + PRINTED) });
    if (cell.live) return;
    const room = PRINTED - cell.kept,
        last = cell.outputs[cell.outputs.length - 1];
    cell.lost += Math.max(0, text.length - room);
    text = text.slice(0, Math.max(0, room));
    cell.kept += text.length;
    if (text && last && last.name === name) last.text += text;
    else if (text) cell.outputs.push({ output_type: 'stream', name, text });
}

function sink(name) {
    return new Writable({
        decodeStrings: false,
        write(chunk, encoding, done) {
            print(name, typeof chunk === 'string' ? chunk : chunk.toString('utf8'));
            done();
        },
    });
}

function printsTo(stream, name) {
    stream.write = (chunk, encoding, done) => {
        print(name, typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
        const after = typeof encoding === 'function' ? encoding : done;
        if (after) process.nextTick(after);
        return true;
    };
}

function told(error) {
    const known = error && typeof error === 'object' && 'message' in error;
    const stack = String((known && error.stack) || (known ? error : util.inspect(error))).split('\n');
    const ours = stack.findIndex(
        (line) => line.includes('[eval]') || line.includes('node:vm') || line.includes('REPLServer'),
    );
    return {
        output_type: 'error',
        ename: known ? String(error.name) : 'Error',
        evalue: known ? String(error.message) : util.inspect(error),
        traceback: ours > 0 ? stack.slice(0, ours) : stack,
    };
}

// ---- running ----

// The one that can interrupt a loop: [0] the number of what runs, 0: nothing; [1] how many milliseconds it has.
const watched = new Int32Array(new SharedArrayBuffer(8));
function watch(number, ms) {
    if (!watch.worker) {
        watch.worker = new Worker(
            `
            const { workerData: watched } = require('worker_threads');
            for (;;) {
                Atomics.wait(watched, 0, 0);
                const number = Atomics.load(watched, 0);
                if (number && Atomics.wait(watched, 0, number, Atomics.load(watched, 1)) === 'timed-out') {
                    process.kill(process.pid, 'SIGINT');
                    Atomics.wait(watched, 0, number, 1000);
                }
            }`,
            { eval: true, workerData: watched, stdout: true, stderr: true },
        );
        watch.worker.unref();
    }
    Atomics.store(watched, 1, ms);
    Atomics.store(watched, 0, number);
    Atomics.notify(watched, 0);
}

const server = repl.start({
    input: new PassThrough(),
    output: sink('stderr'),
    prompt: '',
    terminal: false,
    useGlobal: false,
    breakEvalOnSigint: true,
});
server.context.console = new Console(sink('stdout'), sink('stderr'));
printsTo(process.stdout, 'stdout');
printsTo(process.stderr, 'stderr');

function timedOut(seconds) {
    const error = new Error(
        seconds ? `the code ran longer than ${seconds} seconds and was interrupted` : 'the code was interrupted',
    );
    error.name = seconds ? 'TimeoutError' : 'InterruptError';
    error.stack = `${error.name}: ${error.message}`;
    return error;
}

// Of what waits. Not while code runs: a handler of anybody's makes the interrupt of a loop the end of the process.
function interrupted() {
    if (running) running.finish('timeout', timedOut(running.timeout));
}

// A value in the forms that it has itself, as notebooks of Deno ask for them.
const DISPLAY = Symbol.for('Jupyter.display');
function weight(value, depth = 0) {
    if (depth > 24) return VALUES + 1;
    if (!value || typeof value !== 'object') return 1;
    return Object.values(value).reduce((sum, part) => sum + weight(part, depth + 1), 1);
}

// What JSON cannot hold, or holds too much of, is left out.
function wired(form) {
    try {
        const plain = JSON.parse(JSON.stringify(form));
        return typeof plain === 'string' || weight(plain) < VALUES / 4 ? plain : undefined;
    } catch {
        return undefined;
    }
}

function shown(value) {
    try {
        return util.inspect(value).slice(0, PRINTED);
    } catch (error) {
        return `[it cannot be shown: ${error}]`;
    }
}

function forms(value) {
    const all = { 'text/plain': shown(value) };
    try {
        const own = value && typeof value[DISPLAY] === 'function' ? value[DISPLAY]() : {};
        for (const [kind, form] of Object.entries(own).slice(0, 16)) all[kind] = wired(form);
    } catch (error) {
        print('stderr', told(error).traceback.join('\n') + '\n');
    }
    return all;
}
server.context.display = (value) => add({ output_type: 'display_data', data: forms(value), metadata: {} });

function compiles(code) {
    for (const whole of [code, `(async () => {${code}\n})`]) {
        try {
            new vm.Script(whole);
            return true;
        } catch {}
    }
    return false;
}

// "import a, { b as c } from 'x'" as what code of a session can say. Names are made with var: the same cell may run
// again.
const IMPORT = new RegExp(
    [
        /^([ \t]*)import\s+(?:type\s+)?/,
        /(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)\s*|\{([^}]*)\}\s*)?/,
        /(?:from\s*)?(['"])([^'"\n]+)\5(?:\s+(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?/,
    ]
        .map((part) => part.source)
        .join(''),
    'gm',
);
function withoutImports(code) {
    return code.replace(IMPORT, (line, indent, whole, all, some, quote, name, options) => {
        if (/^\s*import\s+type\s+(?!from\b)/.test(line)) return indent;
        const names = (some || '')
            .split(',')
            .map((item) => item.trim())
            .filter((item) => item && !item.startsWith('type '))
            .map((item) => item.replace(/\s+as\s+/, ': '));
        if (whole) names.unshift(`default: ${whole}`);
        name = name.replace(/^npm:((?:@[^/]+\/)?[^@/]+)(?:@[^/]+)?/, '$1'); // as Deno has them
        const loaded = `await import(${JSON.stringify(name)}${options ? `, { with: ${options} }` : ''})`;
        const target = all || (names.length ? `{ ${names.join(', ')} }` : '');
        return (
            indent +
            (all && whole
                ? `var ${all} = ${loaded}, ${whole} = ${all}.default;`
                : target
                  ? `var ${target} = ${loaded};`
                  : `${loaded};`)
        );
    });
}

// By Node.js itself from 22.13 on, else by the package typescript where the box has it; null: neither.
function typesStripper() {
    const { stripTypeScriptTypes } = require('module');
    if (stripTypeScriptTypes)
        return (code) => {
            const { emitWarning } = process; // it is an experiment, and says so
            process.emitWarning = () => {};
            try {
                return stripTypeScriptTypes(code, { mode: 'transform' });
            } finally {
                process.emitWarning = emitWarning;
            }
        };
    for (const root of [
        path.join(process.cwd(), 'node_modules'),
        path.resolve(process.execPath, '../../lib/node_modules'),
        '/usr/local/lib/node_modules',
        '/usr/lib/node_modules',
        '/usr/share/nodejs',
    ]) {
        try {
            const typescript = require(path.join(root, 'typescript'));
            const options = {
                target: typescript.ScriptTarget.ESNext,
                module: typescript.ModuleKind.ESNext,
                verbatimModuleSyntax: true,
            };
            return (code) => typescript.transpileModule(code, { compilerOptions: options }).outputText;
        } catch {}
    }
    return null;
}

function prepared({ code, typed }) {
    if (compiles(code)) return code;
    const plain = withoutImports(code);
    if (compiles(plain)) return plain;
    const strip = (prepared.strip = prepared.strip || typesStripper());
    if (!strip && typed)
        throw new Error(
            `types cannot be removed by Node.js ${process.version}: ` +
                'this box needs Node.js 22.13 or newer, or the package typescript',
        );
    try {
        return strip ? withoutImports(strip(code)) : plain;
    } catch {
        return plain;
    }
}

// Variables of one cell alone; afterwards they are what they were.
function setVariables(values) {
    const before = {};
    for (const [name, value] of Object.entries(values)) {
        before[name] = name in process.env ? process.env[name] : null;
        if (value === null) delete process.env[name];
        else process.env[name] = value;
    }
    return before;
}

function evaluate(name, request) {
    return new Promise((resolve) => {
        let over = false;
        const finish = (status, error, value) => {
            if (over) return;
            over = true;
            running = null;
            watch(0, 0);
            if (status === 'ok' && value !== undefined)
                add({ output_type: 'execute_result', data: forms(value), metadata: {} });
            if (error !== undefined) add(told(error));
            resolve(status);
        };
        running = { name, finish, timeout: request.timeout };
        if (request.timeout) watch(count, request.timeout * 1000);
        process.off('SIGINT', interrupted);
        server.eval(prepared(request) + '\n', server.context, `cell-${count}`, (error, value) => {
            if (error instanceof repl.Recoverable) error = error.err;
            if (error) thrown(error);
            else if (request.live && util.types.isPromise(value))
                value.then((result) => finish('ok', undefined, result), thrown);
            else finish('ok', undefined, value);
        });
        process.on('SIGINT', interrupted);
    });
}

// What is thrown comes to the REPL's domain where it has one, and not back from eval.
function thrown(error) {
    const stopped = error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
    if (stopped && running) running.finish('timeout', timedOut(running.timeout));
    else if (stopped) return;
    else if (running) running.finish('error', error);
    else print('stderr', told(error).traceback.join('\n') + '\n');
}
if (server._domain) {
    server._domain.removeAllListeners('error');
    server._domain.on('error', thrown);
}
process.on('SIGINT', interrupted);
process.on('uncaughtException', thrown);
process.on('unhandledRejection', thrown);

async function runCell({ name, request }) {
    const earlier = cell.outputs;
    let status = 'error',
        before = {};
    count++;
    reader = name;
    unread = 0;
    say('begin', name, Buffer.from(String(count)));
    if (request.live) {
        cell = { outputs: [], kept: 0, lost: 0, live: name };
        earlier.forEach(add);
    }
    try {
        before = setVariables(request.env || {});
        if (request.cwd) process.chdir(request.cwd);
        status = await evaluate(name, request);
    } catch (error) {
        running = null;
        add(told(error));
    }
    await new Promise(setImmediate); // what it printed on its way out
    setVariables(before);
    if (cell.lost)
        add({ output_type: 'stream', name: 'stderr', text: `[${cell.lost} more characters were printed]\n` });
    const { outputs } = cell;
    cell = { outputs: [], kept: 0, lost: 0, live: null };
    used = Date.now();
    await answer(name, { status, execution_count: count, outputs });
}

let busy = false;
async function work() {
    if (busy) return;
    busy = true;
    while (cells.length) await runCell(cells.shift());
    busy = false;
}

// ---- what is asked ----

function look(name, request) {
    idle = request.idle || idle;
    if (request.cwd && !busy) process.chdir(request.cwd);
    say('done', name, Buffer.from(JSON.stringify({ cwd: process.cwd(), used: used / 1000, idle, busy, count })));
}

function heard(word, name, text) {
    if (word === 'part' || word === 'run' || word === 'look') {
        const whole = (parts.get(name) || '') + text;
        parts.delete(name);
        if (word === 'part') {
            parts.set(name, whole);
            return;
        }
        const request = JSON.parse(Buffer.from(whole, 'base64').toString('utf8'));
        if (word === 'look') {
            look(name, request);
            return;
        }
        cells.push({ name, request });
        work();
    } else if (word === 'next' && reader === name) {
        unread = Math.max(0, unread - (Number(text) || WINDOW));
        wasRead();
    } else if (word === 'stop') {
        const at = cells.findIndex((other) => other.name === name);
        if (at >= 0) cells.splice(at, 1);
        if (reader === name) reader = null;
        if (running && running.name === name) running.finish('stopped');
        else say('done', name, Buffer.from('{}'));
        wasRead();
    } else if (word === 'quit' && !busy) {
        process.reallyExit(0);
    }
}

let rest = '';
function hear(data) {
    const lines = (rest + data).split('\n');
    rest = lines.pop();
    for (const line of lines) {
        const [word, name, text] = line.split(' ');
        try {
            heard(word, name, text || '');
        } catch (error) {
            say('done', name, Buffer.from(JSON.stringify({ status: 'error', outputs: [told(error)] })));
        }
    }
}
process.stdin.setEncoding('latin1');
process.stdin.on('data', hear);
process.stdin.on('end', () => process.reallyExit(0));
idle = Number(process.argv[1]) || idle;
setInterval(() => {
    if (!busy && Date.now() - used > idle * 1000) process.reallyExit(0);
}, 5000);
