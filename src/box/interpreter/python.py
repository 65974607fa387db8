# One Python session: started in the box by interpreter.c, it runs one cell after another.
#
# Standard input, a line each: "part ID TEXT" and "run ID TEXT" (a request, base64 of JSON, whole with the last), "look ID TEXT"
# (answered at once: settings), "next ID" (a part of an answer arrived), "stop ID" (nobody waits for that cell any more), "quit"
# (if nothing runs). Standard output: "begin ID", then the answer, JSON in pieces "part ID TEXT" ... "done ID TEXT", each of which
# waits for its "next": nobody else slows us down, and what is kept of our output is a ring.
#
# What cells print, by sys.stdout as by any process they start, goes into pipes of ours. A pipe has what was written into it when
# the writer goes on: so the order is kept, and nothing a cell prints can be taken for an answer.
import ast, base64, builtins, codecs, io, json, linecache, os, queue, select, signal, sys, threading, time, traceback, types

PRINTED = 1 << 20   # characters of a cell that are kept
ANSWER = 8 << 20    # an answer
PIECE = 128 << 10   # of an answer
PATIENCE = 10       # seconds until a piece was fetched
COROUTINE = 0x80    # inspect.CO_COROUTINE; inspect takes long to load
RICH = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_latex_", "text/latex"), ("_repr_svg_", "image/svg+xml"),
        ("_repr_json_", "application/json"), ("_repr_javascript_", "application/javascript"), ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))

wire_in, wire_out = os.dup(0), os.dup(1)
main_pid, main_thread = os.getpid(), threading.main_thread().ident
printing = threading.RLock()    # of `cell` and the pipes
saying = threading.Lock()       # of wire_out
state = threading.Lock()        # of the names below
running = why = None            # the cell that runs; why it is being stopped
exposed = False                 # its code runs: an interrupt may be raised, once
used, idle, count = time.time(), 1800.0, 0
cells, fetched = queue.Queue(), queue.Queue()
stopped = set()


# ---- what is said ----

def say(*words):
    data = b" ".join(words) + b"\n"
    with saying:
        while data:
            data = data[os.write(wire_out, data):]


def encoded(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def answer(name, value, patient=True):
    text = encoded(value)
    if len(text) > ANSWER:
        for output in value.get("outputs", ()):
            if output.get("data"):
                output["data"] = {"text/plain": str(output["data"].get("text/plain", ""))[:1000] + " [too large to be shown]"}
        text = encoded(value)
    for at in range(0, len(text), PIECE):
        say(b"part" if at + PIECE < len(text) else b"done", name.encode(), text[at:at + PIECE])
        while patient:
            try:
                if fetched.get(timeout=PATIENCE) == name:
                    break
            except queue.Empty:
                return


# ---- what is printed ----

class Cell:
    def __init__(self):
        self.outputs, self.kept, self.lost = [], 0, 0

    def text(self, name, text):
        room = PRINTED - self.kept
        self.lost += max(0, len(text) - room)
        text = text[:room]
        self.kept += len(text)
        last = self.outputs[-1] if self.outputs else {}
        if text and last.get("name") == name:
            last["text"].append(text)
        elif text:
            self.outputs.append({"output_type": "stream", "name": name, "text": [text]})

    def finish(self):
        for output in self.outputs:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        if self.lost:
            self.outputs.append({"output_type": "stream", "name": "stderr", "text": "[%d more characters were printed]\n" % self.lost})
        return self.outputs


class Pipe:
    def __init__(self, name, fd):
        self.name, (self.fd, write_fd) = name, os.pipe()
        os.dup2(write_fd, fd)
        os.close(write_fd)
        os.set_blocking(self.fd, False)
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def drain(self):
        for _ in range(64):
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            cell.text(self.name, self.decode(data))
        return True


class Out(io.TextIOBase):
    encoding, errors = "utf-8", "replace"

    def __init__(self, name, fd):
        self.name, self.fd, self.buffer = name, fd, io.FileIO(fd, "w", closefd=False)

    def write(self, text):
        if os.getpid() != main_pid:  # a fork of a cell's
            return os.write(self.fd, text.encode("utf-8", "replace"))
        with printing:
            drain()
            cell.text(self.name, str(text))
        return len(text)

    def writable(self):
        return True

    def fileno(self):
        return self.fd


def drain():
    for pipe in pipes:
        pipe.drain()


def collect():
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe.fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            with printing:
                for pipe in pipes:
                    if pipe.fd == fd and not pipe.drain():
                        poll.unregister(fd)


def bundle(value):
    data = {"text/plain": repr(value)}
    for method, kind in RICH if not isinstance(value, type) else ():
        try:
            shown = getattr(value, method)()
            if isinstance(shown, tuple):
                shown = shown[0]
            if shown is not None:
                data[kind] = base64.b64encode(shown).decode() if isinstance(shown, bytes) else shown
                json.dumps(data[kind], allow_nan=False)
        except Exception:
            data.pop(kind, None)
    return data


def show(kind, data):
    with printing:
        drain()
        cell.outputs.append({"output_type": kind, "data": data, "metadata": {}, **({"execution_count": count} if kind == "execute_result" else {})})


def display(*values, **_):
    for value in values:
        show("display_data", bundle(value))


def figures():
    plot = sys.modules.get("matplotlib.pyplot")
    for number in plot.get_fignums() if plot else ():
        picture = io.BytesIO()
        plot.figure(number).savefig(picture, format="png", bbox_inches="tight")
        show("display_data", {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": "<Figure %d>" % number})
    if plot:
        plot.close("all")


# ---- running ----

def shell(line):
    import subprocess
    subprocess.call(line, shell=True)


# Lines for a shell, as notebooks have them: only of what is no Python as it stands.
def notebook(code):
    lines = code.split("\n")
    for i, line in enumerate(lines):
        bare = line.lstrip()
        if bare[:1] == "!" or bare[:5] == "%pip ":
            command = bare[1:] if bare[0] == "!" else sys.executable + " -m " + bare[1:]
            lines[i] = line[:len(line) - len(bare)] + "__shell__(%r)" % command
    return "\n".join(lines)


def parse(code, name):
    try:
        return ast.parse(code, name)
    except SyntaxError:
        other = notebook(code)
        if other == code:
            raise
        return ast.parse(other, name)


def perform(code, space):
    if code.co_flags & COROUTINE:
        import asyncio
        if not hasattr(perform, "loop"):
            perform.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(perform.loop)
        return perform.loop.run_until_complete(eval(code, space))
    return eval(code, space)


def run_code(code, name, space):
    tree = parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    perform(compile(tree, name, "exec", flags), space)
    value = perform(compile(last, name, "eval", flags), space) if last else None
    if value is not None:
        space["_"] = value
        show("execute_result", bundle(value))
    figures()


def told(error, name):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    whole = traceback.TracebackException(type(error), error, trace)
    whole.stack[:] = [frame for frame in whole.stack if frame.name != interrupted.__name__]
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error),
            "traceback": "".join(whole.format()).rstrip("\n").split("\n")}


def interrupt(name, reason):
    global why
    with state:
        if running == name:
            why = reason
            signal.pthread_kill(main_thread, signal.SIGINT)


def interrupted(*_):
    global exposed
    if why and exposed:
        exposed = False
        raise KeyboardInterrupt


def run_cell(name, request, space):
    global running, why, exposed, used, count, cell
    count += 1
    file = "<cell %d>" % count
    code = request["code"]
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    timer = threading.Timer(request["timeout"], interrupt, (name, "timeout"))
    timer.daemon = True
    error = None
    try:
        exposed = True
        with state:
            running = name
        timer.start()
        if request.get("cwd"):
            os.chdir(request["cwd"])
        run_code(code, file, space)
        exposed = False
    except BaseException as caught:
        exposed = False
        error = caught
    if os.getpid() != main_pid:
        os._exit(1 if error else 0)
    with state:
        running, reason, why, used = None, why, None, time.time()
    timer.cancel()
    with printing:
        drain()
        if error and reason == "timeout" and isinstance(error, KeyboardInterrupt):
            error = TimeoutError("the code ran longer than %g seconds and was interrupted" % request["timeout"]).with_traceback(error.__traceback__)
        outputs = cell.finish() + ([told(error, file)] if error else [])
        cell = Cell()
    return {"status": "timeout" if reason == "timeout" else "error" if error else "ok", "execution_count": count, "outputs": outputs}


# ---- what is asked ----

def look(name, request):
    global idle
    with state:
        idle = request.get("idle") or idle
        busy = running is not None
        if request.get("cwd") and not busy:
            os.chdir(request["cwd"])
        answer(name, {"cwd": os.getcwd(), "used": used, "idle": idle, "busy": busy, "count": count}, False)


def heard(word, name, text, parts):
    if word in ("part", "run", "look"):
        whole = parts.pop(name, "") + text
        if word == "part":
            parts[name] = whole
            return
        request = json.loads(base64.b64decode(whole))
        if word == "look":
            look(name, request)
        else:
            cells.put((name, request))
    elif word == "next":
        fetched.put(name)
    elif word == "stop":
        stopped.add(name)
        fetched.put(name)
        interrupt(name, "stop")
    elif word == "quit" and running is None and cells.empty():
        os._exit(0)


def listen():
    rest, parts = b"", {}
    while True:
        if not select.select([wire_in], [], [], 5)[0]:
            if running is None and cells.empty() and time.time() - used > idle:
                os._exit(0)
            continue
        data = os.read(wire_in, 65536)
        if not data:
            os._exit(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            word, name, text = (line.decode("ascii", "replace").split(" ", 2) + ["", ""])[:3]
            try:
                heard(word, name, text, parts)
            except Exception as error:
                say(b"done", name.encode(), encoded({"status": "error", "outputs": [told(error, "")]}))


os.environ.setdefault("MPLBACKEND", "Agg")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
idle = float(sys.argv[1]) if len(sys.argv) > 1 else idle
cell = Cell()
pipes = [Pipe("stdout", 1), Pipe("stderr", 2)]
sys.stdout, sys.stderr = Out("stdout", 1), Out("stderr", 2)
signal.signal(signal.SIGINT, interrupted)
space = types.ModuleType("__main__")
sys.modules["__main__"], sys.argv = space, [""]
builtins.display, builtins.__shell__ = display, shell
for work in (collect, listen):
    threading.Thread(target=work, daemon=True).start()
while True:
    wanted, order = cells.get()
    if wanted not in stopped:
        say(b"begin", wanted.encode())
        result = run_cell(wanted, order, space.__dict__)
        if wanted not in stopped:
            answer(wanted, result)
    stopped.discard(wanted)
