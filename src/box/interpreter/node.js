// One Node.js session: started in the box by interpreter.c, it runs one piece of code after another in
// a REPL's context: declarations stay, await works at the top. What is said on standard input and output: head of python.py.
//
// A line of ours begins with a newline: processes that inherit our standard output write into it, and may have left half a line.
'use strict';
const fs = require('fs'), repl = require('repl'), util = require('util');
const { Console } = require('console'), { PassThrough, Writable } = require('stream'), { Worker } = require('worker_threads');

const PRINTED = 1 << 20, PIECE = 128 << 10, PATIENCE_MS = 10000;
let idle = 1800, used = Date.now(), count = 0;
let running = null; // {name, finish}
let cell = { outputs: [], kept: 0, lost: 0 };
const cells = [], parts = new Map();
let fetched = null; // called with the name of what was fetched

// ---- what is said ----

function say(word, name, data) {
    let line = Buffer.concat([Buffer.from(`\n${word} ${name}${data ? ' ' : ''}`), data || Buffer.alloc(0), Buffer.from('\n')]);
    while (line.length) {
        try {
            line = line.subarray(fs.writeSync(1, line));
        } catch (error) {
            if (error.code !== 'EAGAIN')
                throw error;
        }
    }
}

function wasFetched(name) {
    return new Promise((resolve) => {
        const timer = setTimeout(() => resolve(false), PATIENCE_MS);
        fetched = (other, stopped) => {
            if (other !== name)
                return;
            clearTimeout(timer);
            resolve(!stopped);
        };
    });
}

async function answer(name, value) {
    // Halves of characters are written as escapes, and nobody else takes them.
    const text = Buffer.from(JSON.stringify(value).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '$1\\ufffd'));
    for (let at = 0; at < text.length; at += PIECE) {
        const waits = wasFetched(name);
        say(at + PIECE < text.length ? 'part' : 'done', name, text.subarray(at, at + PIECE));
        if (!await waits)
            return;
    }
}

// ---- what is printed ----

function print(name, text) {
    const room = PRINTED - cell.kept, last = cell.outputs[cell.outputs.length - 1];
    cell.lost += Math.max(0, text.length - room);
    text = text.slice(0, Math.max(0, room));
    cell.kept += text.length;
    if (text && last && last.name === name)
        last.text += text;
    else if (text)
        cell.outputs.push({ output_type: 'stream', name, text });
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
        if (after)
            process.nextTick(after);
        return true;
    };
}

function told(error) {
    const known = error && typeof error === 'object' && 'message' in error;
    const stack = String(known && error.stack || (known ? error : util.inspect(error))).split('\n');
    const ours = stack.findIndex((line) => line.includes('[eval]') || line.includes('node:vm') || line.includes('REPLServer'));
    return { output_type: 'error', ename: known ? String(error.name) : 'Error', evalue: known ? String(error.message) : util.inspect(error),
             traceback: ours > 0 ? stack.slice(0, ours) : stack };
}

// ---- running ----

// The one that can interrupt a loop: [0] the number of what runs, 0: nothing; [1] how many milliseconds it has.
const watched = new Int32Array(new SharedArrayBuffer(8));
function watch(number, ms) {
    if (!watch.worker) {
        watch.worker = new Worker(`
            const { workerData: watched } = require('worker_threads');
            for (;;) {
                Atomics.wait(watched, 0, 0);
                const number = Atomics.load(watched, 0);
                if (number && Atomics.wait(watched, 0, number, Atomics.load(watched, 1)) === 'timed-out') {
                    process.kill(process.pid, 'SIGINT');
                    Atomics.wait(watched, 0, number, 1000);
                }
            }`, { eval: true, workerData: watched, stdout: true, stderr: true });
        watch.worker.unref();
    }
    Atomics.store(watched, 1, ms);
    Atomics.store(watched, 0, number);
    Atomics.notify(watched, 0);
}

const server = repl.start({ input: new PassThrough(), output: sink('stderr'), prompt: '', terminal: false, useGlobal: false, breakEvalOnSigint: true });
server.context.console = new Console(sink('stdout'), sink('stderr'));
printsTo(process.stdout, 'stdout');
printsTo(process.stderr, 'stderr');

function timedOut(seconds) {
    const error = new Error(`the code ran longer than ${seconds} seconds and was interrupted`);
    error.name = 'TimeoutError';
    error.stack = `${error.name}: ${error.message}`;
    return error;
}

// Of what waits. Not while code runs: a handler of anybody's makes the interrupt of a loop the end of the process.
function interrupted() {
    if (running)
        running.finish('timeout', timedOut(running.timeout));
}

function evaluate(name, request) {
    return new Promise((resolve) => {
        let over = false;
        const finish = (status, error, value) => {
            if (over)
                return;
            over = true;
            running = null;
            watch(0, 0);
            if (status === 'ok' && value !== undefined)
                cell.outputs.push({ output_type: 'execute_result', data: { 'text/plain': util.inspect(value).slice(0, PRINTED) }, metadata: {} });
            if (error !== undefined)
                cell.outputs.push(told(error));
            resolve(status);
        };
        running = { name, finish, timeout: request.timeout };
        watch(count, request.timeout * 1000);
        process.off('SIGINT', interrupted);
        server.eval(request.code + '\n', server.context, `cell-${count}`, (error, value) => {
            if (error instanceof repl.Recoverable)
                error = error.err;
            if (error)
                thrown(error);
            else
                finish('ok', undefined, value);
        });
        process.on('SIGINT', interrupted);
    });
}

// What is thrown comes to the REPL's domain where it has one, and not back from eval.
function thrown(error) {
    if (running && error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED')
        running.finish('timeout', timedOut(running.timeout));
    else if (running)
        running.finish('error', error);
    else
        print('stderr', told(error).traceback.join('\n') + '\n');
}
if (server._domain) {
    server._domain.removeAllListeners('error');
    server._domain.on('error', thrown);
}
process.on('SIGINT', interrupted);
process.on('uncaughtException', thrown);
process.on('unhandledRejection', thrown);

async function runCell({ name, request }) {
    count++;
    say('begin', name);
    let status = 'error';
    try {
        if (request.cwd)
            process.chdir(request.cwd);
        status = await evaluate(name, request);
    } catch (error) {
        running = null;
        cell.outputs.push(told(error));
    }
    await new Promise(setImmediate); // what it printed on its way out
    if (cell.lost)
        cell.outputs.push({ output_type: 'stream', name: 'stderr', text: `[${cell.lost} more characters were printed]\n` });
    const { outputs } = cell;
    cell = { outputs: [], kept: 0, lost: 0 };
    used = Date.now();
    await answer(name, { status, execution_count: count, outputs });
}

let busy = false;
async function work() {
    if (busy)
        return;
    busy = true;
    while (cells.length)
        await runCell(cells.shift());
    busy = false;
}

// ---- what is asked ----

function look(name, request) {
    idle = request.idle || idle;
    if (request.cwd && !busy)
        process.chdir(request.cwd);
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
    } else if (word === 'next' && fetched) {
        fetched(name, false);
    } else if (word === 'stop') {
        const at = cells.findIndex((other) => other.name === name);
        if (at >= 0)
            cells.splice(at, 1);
        if (running && running.name === name)
            running.finish('stopped');
        if (fetched)
            fetched(name, true);
    } else if (word === 'quit' && !busy) {
        process.reallyExit(0);
    }
}

let rest = '';
process.stdin.setEncoding('latin1');
process.stdin.on('data', (data) => {
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
});
process.stdin.on('end', () => process.reallyExit(0));
idle = Number(process.argv[1]) || idle;
setInterval(() => {
    if (!busy && Date.now() - used > idle * 1000)
        process.reallyExit(0);
}, 5000);
