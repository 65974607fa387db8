# One Python session: started in the box by interpreter.c, it runs one cell after another. charts.py and notebook.py
# come before this in the text that Python is given.
#
# Standard input, a line each: "part ID TEXT" and "run ID TEXT" (a request, base64 of JSON, whole with the last),
# "look ID TEXT" (settings, answered at once), "next ID BYTES" (so many bytes of our lines have been read), "stop ID"
# (nobody waits for that cell any more), "quit" (if nothing runs). Standard output: "begin ID NUMBER", then the
# answer, JSON in pieces "part ID TEXT" ... "done ID TEXT". At most WINDOW bytes are on their way: our output is kept
# in a ring. A live cell sends each output when it comes, in pieces that end with "item ID TEXT", and has none in its
# answer. A stopped cell is answered with "done", too: then the session is free again.
#
# What cells print, by sys.stdout as by any process they start, goes into pipes of ours. A pipe has what was written
# into it when the writer goes on: so the order is kept, and nothing a cell prints can be taken for an answer.
import ast, base64, builtins, codecs, io, json, linecache, os, queue, re, select, signal, sys, threading, time
import traceback, types

PRINTED = 1 << 20   # characters of a cell that are kept
ANSWER = 8 << 20    # an answer
PIECE = 128 << 10   # of an answer
VALUES = 60000      # of JSON in one output: forms with more than that are left out
WINDOW = 384 << 10  # bytes that nobody has acknowledged: those of two cells fit the ring
PATIENCE = 120      # seconds until some were: a client may be slow
FAREWELL = 10       # the same at the end of a cell: its reader may have died with the daemon
LINGER = 0.1        # seconds that the beginning of a line waits for the rest of it
DATA, CHART = "application/vnd.cubby.data+json", "application/vnd.cubby.chart+json"
COROUTINE = 0x80    # inspect.CO_COROUTINE; inspect takes long to load
RICH = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_latex_", "text/latex"),
        ("_repr_svg_", "image/svg+xml"), ("_repr_json_", "application/json"), ("_repr_pdf_", "application/pdf"),
        ("_repr_javascript_", "application/javascript"), ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))

wire_in, wire_out = os.dup(0), os.dup(1)
main_pid, main_thread = os.getpid(), threading.main_thread().ident
printing = threading.RLock()    # of `cell` and the pipes
saying = threading.Lock()       # of wire_out
state = threading.Lock()        # of the names below
running = why = None            # the cell that runs; why it is being stopped
exposed = False                 # its code runs: an interrupt may be raised, once
used, idle, count = time.time(), 1800.0, 0
cells = queue.Queue()
pending, stopped = set(), set() # that wait for their turn; those of them that nobody waits for
flow = threading.Condition()    # of the next two
reader, unread = None, 0        # which cell somebody reads, and how many bytes of it are on their way


# ---- what is said ----

def say(*words):
    data = b" ".join(words) + b"\n"
    with saying:
        while data:
            data = data[os.write(wire_out, data):]


def encoded(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


# In pieces, when there is room for them. False: nobody reads.
def send(word, name, text):
    global reader, unread
    for at in range(0, len(text), PIECE):
        line = b" ".join((word if at + PIECE >= len(text) else b"part", name.encode(), text[at:at + PIECE]))
        with flow:
            while reader == name and unread and unread + len(line) > WINDOW:
                if not flow.wait(PATIENCE):
                    reader = None
            if reader != name:
                return False
            unread += len(line)
        say(line)
    return True


def weight(value, depth=0):
    if depth > 24:
        return VALUES + 1
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return 1 + sum(weight(part, depth + 1) for part in parts)


def fit(value, outputs):
    for output in outputs:
        if output.get("data") and weight(output["data"]) > VALUES:
            output["data"] = {kind: text for kind, text in output["data"].items() if isinstance(text, str)}
    text = encoded(value)
    if len(text) <= ANSWER:
        return text
    for output in outputs:
        if output.get("data"):
            text = str(output["data"].get("text/plain", ""))[:1000]
            output["data"] = {"text/plain": text + " [too large to be shown]"}
    return encoded(value)


def answer(name, value):
    global reader
    if not send(b"done", name, fit(value, value["outputs"])):
        say(b"done", name.encode(), b"{}")
    with flow:
        while reader == name and unread:
            if not flow.wait(FAREWELL):
                break
        reader = None


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

    def add(self, output):
        self.outputs.append(output)

    def flush(self):
        pass

    def finish(self):
        for output in self.outputs:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        if self.lost:
            text = "[%d more characters were printed]\n" % self.lost
            self.outputs.append({"output_type": "stream", "name": "stderr", "text": text})
        return self.outputs


# Of a cell whose caller gets each output when it comes. What is printed goes line by line: print() writes the text and
# the end of the line one after the other, and they are one.
class Live(Cell):
    def __init__(self, name, before):
        super().__init__()
        self.name, self.held, self.stream, self.timer, self.since = name, [], None, None, 0
        for output in before:
            self.add(output)

    def text(self, name, text):
        if self.stream != name:
            self.flush()
        self.since = self.since if self.held else time.monotonic()
        self.stream = name
        self.held.append(text)
        self.kept += len(text)
        if text.endswith("\n") or self.kept > PRINTED:
            self.flush()
        elif not self.timer:
            self.wait(LINGER)

    def wait(self, seconds):
        self.timer = threading.Timer(seconds, self.late)
        self.timer.daemon = True
        self.timer.start()

    def late(self):
        with printing:
            self.timer = None
            left = self.since + LINGER - time.monotonic()
            if self.held and left > 0:
                self.wait(left)
            else:
                self.flush()

    def flush(self):
        text, self.held, self.kept = "".join(self.held), [], 0
        for at in range(0, len(text), PRINTED):
            output = {"output_type": "stream", "name": self.stream, "text": text[at:at + PRINTED]}
            send(b"item", self.name, encoded(output))

    def add(self, output):
        self.flush()
        send(b"item", self.name, fit(output, [output]))

    def finish(self):
        self.flush()
        return []


# An interrupt waits until the end of it: lines of ours are whole.
class Shield:
    depth, late = 0, False

    def __enter__(self):
        if threading.get_ident() == main_thread:
            Shield.depth += 1

    def __exit__(self, *_):
        if threading.get_ident() == main_thread:
            Shield.depth -= 1
            if Shield.late and not Shield.depth:
                Shield.late = False
                interrupted()


shield = Shield()


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
        with shield, printing:
            drain()
            cell.text(self.name, str(text))
        return len(text)

    def flush(self):
        if os.getpid() == main_pid:
            with shield, printing:
                drain()
                cell.flush()

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


# Columns of a table: numbers, texts and ISO 8601. None: it has too much in it, or it is none.
def table(frame):
    if frame.size > CHART_VALUES or len(frame.columns) > 1000:
        return None
    columns = {}
    for at, name in enumerate(frame.columns):
        values = frame.iloc[:, at].tolist()
        columns[str(name)] = [value if value is None or isinstance(value, (bool, int)) else chart_value(value)
                              for value in values]
    return columns


def picture(figure):
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    data = {"image/png": base64.b64encode(image.getvalue()).decode()}
    drawn = chart(figure) if isinstance(cell, Live) else None
    if drawn:
        data[CHART] = drawn
    return data


# What modules of the box know of a value, without importing any of them.
def special(value):
    figure, pandas = sys.modules.get("matplotlib.figure"), sys.modules.get("pandas")
    if hasattr(figure, "Figure") and isinstance(value, figure.Figure):
        return picture(value)
    if isinstance(cell, Live) and hasattr(pandas, "DataFrame") and isinstance(value, pandas.DataFrame):
        columns = table(value)
        return {DATA: columns} if columns is not None else {}
    several = getattr(value, "_repr_mimebundle_", None)
    shown = several(include=None, exclude=None) if callable(several) else None
    shown = shown[0] if isinstance(shown, tuple) else shown
    return {str(kind): text for kind, text in shown.items()} if isinstance(shown, dict) else {}


def wired(shown):
    shown = base64.b64encode(shown).decode() if isinstance(shown, bytes) else shown
    json.dumps(shown, allow_nan=False)
    return shown


def bundle(value):
    data = {"text/plain": repr(value)}
    if isinstance(value, type):
        return data
    try:
        data.update({kind: wired(shown) for kind, shown in special(value).items()})
    except Exception:
        pass
    for method, kind in RICH:
        try:
            shown = getattr(value, method)()
            shown = shown[0] if isinstance(shown, tuple) else shown
            if shown is not None:
                data[kind] = wired(shown)
        except Exception:
            pass
    return data


def show(kind, data):
    with shield, printing:
        drain()
        number = {"execution_count": count} if kind == "execute_result" else {}
        cell.add({"output_type": kind, "data": data, "metadata": {}, **number})


def display(*values, raw=False, **_):
    for value in values:
        own = getattr(value, "_ipython_display_", None)
        if callable(own) and not isinstance(value, type):
            own()
        else:
            forms = raw and isinstance(value, dict)
            show("display_data", {str(kind): wired(form) for kind, form in value.items()} if forms else bundle(value))


def figures(*_, **__):
    plot = sys.modules.get("matplotlib.pyplot")
    for number in plot.get_fignums() if hasattr(plot, "get_fignums") else ():
        figure = plot.figure(number)
        show("display_data", {"text/plain": repr(figure), **picture(figure)})
        plot.close(figure)


# ---- running ----

def perform(code, space):
    if code.co_flags & COROUTINE:
        import asyncio
        if not hasattr(perform, "loop"):
            perform.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(perform.loop)
        return perform.loop.run_until_complete(eval(code, space))
    return eval(code, space)


def run_lines(code, name):
    tree = parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    perform(compile(tree, name, "exec", flags), space.__dict__)
    return perform(compile(last, name, "eval", flags), space.__dict__) if last else None


def run_code(code, name):
    value = run_lines(code, name)
    if value is not None:
        space.__dict__["_"] = value
        own = getattr(value, "_ipython_display_", None)
        if callable(own) and not isinstance(value, type):
            own()
        else:
            show("execute_result", bundle(value))
    figures()


def told(error, name):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    whole = traceback.TracebackException(type(error), error, trace)
    ours = [frame.f_globals is globals() for frame, _ in traceback.walk_tb(trace)]
    whole.stack[:] = [frame for frame, own in zip(whole.stack, ours) if not own]
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error),
            "traceback": "".join(whole.format()).rstrip("\n").split("\n")}


def interrupt(name, reason):
    global why
    with state:
        if running == name:
            why = reason
            signal.pthread_kill(main_thread, signal.SIGINT)
            return True
    return False


def interrupted(*_):
    global exposed
    if why and exposed and Shield.depth:
        Shield.late = True
    elif why and exposed:
        exposed = False
        raise KeyboardInterrupt


# Variables of one cell alone; afterwards they are what they were.
def set_variables(values):
    before = {name: os.environ.get(name) for name in values}
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before


def begin_cell(name, request):
    global cell, reader, unread
    with flow:
        reader, unread = name, 0
    say(b"begin", name.encode(), b"%d" % count)
    if request.get("live"):
        with printing:
            drain()
            cell = Live(name, cell.finish())


# What was drawn until an error is shown, too.
def leftover_figures(reason):
    try:
        if not reason:
            figures()
    except Exception:
        pass


def run_cell(name, request):
    global running, why, exposed, used, count, cell
    count += 1
    file = "<cell %d>" % count
    code, limit = request["code"], request.get("timeout")
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    timer = threading.Timer(limit or 1, interrupt, (name, "timeout"))
    timer.daemon = True
    error, before = None, {}
    begin_cell(name, request)
    try:
        exposed = True
        if why:
            interrupted()
        if limit:
            timer.start()
        before = set_variables(request.get("env") or {})
        if request.get("cwd"):
            os.chdir(request["cwd"])
        run_code(code, file)
        exposed = False
    except BaseException as caught:
        exposed = False
        error = caught
    if os.getpid() != main_pid:
        os._exit(1 if error else 0)
    with state:
        running, reason, why, used = None, why, None, time.time()
    timer.cancel()
    set_variables(before)
    with printing:
        drain()
        if error and reason == "timeout" and isinstance(error, KeyboardInterrupt):
            text = "the code ran longer than %g seconds and was interrupted" % limit
            error = TimeoutError(text).with_traceback(error.__traceback__)
        outputs = cell.finish()
        if error:
            cell.add(told(error, file))
            leftover_figures(reason)
        cell = Cell()
    status = "timeout" if reason == "timeout" else "error" if error else "ok"
    return {"status": status, "execution_count": count, "outputs": outputs}


# ---- what is asked ----

def look(name, request):
    global idle
    with state:
        idle = request.get("idle") or idle
        busy = running is not None
        if request.get("cwd") and not busy:
            os.chdir(request["cwd"])
        facts = {"cwd": os.getcwd(), "used": used, "idle": idle, "busy": busy, "count": count}
        say(b"done", name.encode(), encoded(facts))


def read(name, bytes):
    global unread
    with flow:
        if reader == name:
            unread = max(0, unread - bytes)
            flow.notify_all()


def stop(name):
    global reader
    with state:
        waits = name in pending
        if waits:
            stopped.add(name)
    if waits or not interrupt(name, "stop"):
        say(b"done", name.encode(), b"{}")
    with flow:
        if reader == name:
            reader = None
            flow.notify_all()


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
            pending.add(name)
            cells.put((name, request))
    elif word == "next":
        read(name, int(text or WINDOW))
    elif word == "stop":
        stop(name)
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
builtins.display, builtins.get_ipython = display, get_ipython
builtins.__shell__, builtins.__lines__, builtins.__magic__, builtins.__cell__ = shell, shell_lines, magic, cell_magic
sys.meta_path.insert(0, Hooks())
sys.meta_path.append(NoIPython())
for work in (collect, listen):
    threading.Thread(target=work, daemon=True).start()
while True:
    wanted, order = cells.get()
    with state:
        pending.discard(wanted)
        skipped = wanted in stopped
        stopped.discard(wanted)
        if not skipped:
            running = wanted
    if not skipped:
        answer(wanted, run_cell(wanted, order))
