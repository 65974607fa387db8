# What cells expect of a notebook: lines for a shell, magics, and modules that display something. The second part of the
# text that is given to Python, between charts.py and python.py, whose names it uses.

# ---- modules that show something ----

def showing_plots(module):
    module.show = figures


def showing_figures(module):
    module.Figure.show = lambda self, warn=True: display(self)


# Of matplotlib itself, which writes its files by this class, nothing is shown.
def showing_images(module):
    save = module.Image.save

    def saved(self, fp, *args, **options):
        save(self, fp, *args, **options)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if isinstance(fp, (str, os.PathLike)) and not caller.startswith("matplotlib"):
            display(self)

    module.Image.save, module.Image.show = saved, lambda self, *_, **__: display(self)


def showing_values(module):
    module.display = display


class Hooks:
    modules = {"matplotlib.pyplot": showing_plots, "matplotlib.figure": showing_figures, "PIL.Image": showing_images,
               "IPython.display": showing_values, "IPython.core.display": showing_values}

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec and spec.loader:
                execute, after = spec.loader.exec_module, self.modules[name]
                spec.loader.exec_module = lambda module: (execute(module), after(module))
            if spec:
                return spec
        return None


# IPython.display where the box has no IPython: texts that are shown as what they are.
class Shown:
    def __init__(self, data=None, url=None, filename=None, **_):
        if data is None and filename:
            with open(filename, "rb") as file:
                data = file.read()
        elif data is None and url:
            from urllib.request import urlopen
            data = urlopen(url).read()
        self.data = data


def shown_as(name, method, text=True, change=lambda data: data):
    def value(self):
        data = self.data.decode("utf-8", "replace") if text and isinstance(self.data, bytes) else self.data
        return change(data)
    return type(name, (Shown,), {method: value, "__module__": "IPython.display"})


class Picture(Shown):
    def __init__(self, data=None, url=None, filename=None, **_):
        if isinstance(data, str) and os.path.exists(data):
            data, filename = None, data
        super().__init__(data, url, filename)

    def _repr_png_(self):
        return self.data if self.data[:4] == b"\x89PNG" else None

    def _repr_jpeg_(self):
        return self.data if self.data[:2] == b"\xff\xd8" else None


class NoIPython:
    def find_spec(self, name, path=None, target=None):
        if name not in ("IPython", "IPython.display"):
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, is_package=name == "IPython")

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ == "IPython":
            module.get_ipython, module.__version__ = get_ipython, "0"
            return
        for name in ("HTML", "Markdown", "Latex", "SVG", "JSON", "Javascript"):
            setattr(module, name, shown_as(name, "_repr_%s_" % name.lower()))
        module.Math = shown_as("Math", "_repr_latex_", change=lambda data: "$\\displaystyle %s$" % data.strip("$"))
        module.Image, module.display = type("Image", (Picture,), {}), display
        module.clear_output = lambda *_, **__: None


# ---- lines for a shell, and magics ----

def run_shell(line, **options):
    import subprocess
    program = "/bin/bash" if os.path.exists("/bin/bash") else None
    child = subprocess.Popen(line, shell=True, executable=program, start_new_session=True, **options)
    try:
        return child.communicate()[0] or b"", child.returncode
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise


def known(expression):
    try:
        names = [node.id for node in ast.walk(ast.parse(expression.strip(), mode="eval")) if isinstance(node, ast.Name)]
    except (SyntaxError, ValueError):
        return False
    return bool(names) and all(name in space.__dict__ for name in names)


# {expression} and $name of a line for a shell, where they are of names that cells have made; else it is as it was.
def expanded(line):
    out, at = [], 0
    for place in re.finditer(r"\{([^{}]+)\}|\$([A-Za-z_]\w*)", line):
        expression = place.group(1) or place.group(2)
        plain = line[place.start() - 1:place.start()] != "$" and (place.group(1) or expression not in os.environ)
        if plain and known(expression):
            out += [line[at:place.start()], str(eval(expression, space.__dict__))]
            at = place.end()
    return "".join(out) + line[at:]


def shell(line):
    space.__dict__["_exit_code"] = run_shell(expanded(line))[1]


def shell_lines(line):
    import subprocess
    return run_shell(expanded(line), stdout=subprocess.PIPE)[0].decode("utf-8", "replace").splitlines()


def change_directory(rest):
    os.chdir(os.path.expanduser(rest.strip("\"'") or "~"))
    print(os.getcwd())


def environment(rest):
    name, equals, value = rest.partition("=" if "=" in rest else " ")
    if not rest:
        return dict(os.environ)
    if not equals:
        return os.environ[name]
    os.environ[name.strip()] = expanded(value.strip())
    print("env: %s=%s" % (name.strip(), os.environ[name.strip()]))


def timed(code):
    begin, own = time.perf_counter(), time.process_time()
    value = run_lines(code, "<timed>")
    print("CPU times: total: %.3g s\nWall time: %.3g s" % (time.process_time() - own, time.perf_counter() - begin))
    return value


def captured(rest, body):
    from contextlib import redirect_stderr, redirect_stdout
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        run_lines(body, "<captured>")
    if rest.isidentifier():
        space.__dict__[rest] = types.SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue(),
                                                     show=lambda: print(out.getvalue(), end=""))


def write_cell(rest, body):
    name, mode = (rest[3:], "a") if rest.startswith("-a ") else (rest, "w")
    print(("Appending to " if mode == "a" else "Overwriting " if os.path.exists(name) else "Writing ") + name)
    with open(name, mode) as file:
        file.write(body)


IGNORED = ("matplotlib", "config", "load_ext", "reload_ext", "autoreload", "pylab", "precision", "colors")
MAGICS = {"cd": change_directory, "pwd": lambda rest: os.getcwd(), "env": environment, "set_env": environment,
          "time": timed, "pip": lambda rest: shell(sys.executable + " -m pip " + rest), "sx": shell_lines,
          "system": shell_lines, "ls": lambda rest: shell("ls " + rest),
          **dict.fromkeys(IGNORED, lambda rest: None)}
CELL_MAGICS = {**dict.fromkeys(("bash", "sh", "script"), lambda rest, body: run_shell(body) and None),
               "time": lambda rest, body: timed(body), "capture": captured,
               "writefile": write_cell, "file": write_cell}


def magic(name, rest):
    if name not in MAGICS:
        raise NameError("line magic %%%s is not known here: there are %%%s" % (name, " %".join(MAGICS)))
    return MAGICS[name](rest.strip())


def cell_magic(name, rest, body):
    if name not in CELL_MAGICS:
        raise NameError("cell magic %%%%%s is not known here: there are %%%%%s" % (name, " %%".join(CELL_MAGICS)))
    return CELL_MAGICS[name](rest.strip(), body)


class Notebook:     # what get_ipython() is for
    system, getoutput = staticmethod(shell), staticmethod(shell_lines)
    run_line_magic, run_cell_magic = staticmethod(magic), staticmethod(cell_magic)
    magic = staticmethod(lambda line: magic(*(line + " ").split(" ", 1)))

    @property
    def user_ns(self):
        return space.__dict__


def get_ipython(notebook=Notebook()):
    return notebook


# One line as notebooks have it; None: it is none of those.
def notebook_line(line):
    bare = line.lstrip()
    indent, target = line[:len(line) - len(bare)], ""
    head, equals, tail = bare.partition("=")
    if equals and tail.lstrip()[:1] in ("!", "%") and head.strip().replace(",", "").replace(" ", "").isidentifier():
        target, bare = head + "= ", tail.lstrip()
    if bare[:1] == "!":
        return indent + target + ("__lines__(%r)" if target or bare[:2] == "!!" else "__shell__(%r)") % bare.lstrip("!")
    if bare[:1] == "%" and bare[1:2].isalpha():
        name, _, rest = bare[1:].partition(" ")
        return indent + target + "__magic__(%r, %r)" % (name, rest)
    return None


# Only of what is not Python as it stands: the line that Python stumbles upon, one after the other.
def parse(code, name):
    first = next((line for line in code.split("\n") if line.strip()), "")
    margin = first[:len(first) - len(first.lstrip())]
    lines = [line[len(margin):] if margin and line.startswith(margin) else line for line in code.split("\n")]
    if first.startswith("%%"):
        word, _, rest = first[2:].partition(" ")
        body = "\n".join(lines[lines.index(first) + 1:])
        return ast.parse("__cell__(%r, %r, %r)" % (word, rest, body), name)
    while True:
        try:
            return ast.parse("\n".join(lines), name)
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            other = notebook_line(lines[at]) if 0 <= at < len(lines) else None
            if other is None:
                raise
            lines[at] = other


