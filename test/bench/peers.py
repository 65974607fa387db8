#!/usr/bin/env python3
"""The race: the same jobs on cubby and on what else Debian has, in one run. usage: peers.py BUILD WORK DOCS
Prints a table, and writes DOCS/benchmarks.md with it and with plots. Started by bench.sh (`make bench BENCH=peers`),
which starts the daemon (BENCH_PORT) and the engine (DOCKER_HOST, where there is one).

A contender is a class: once() runs `true` in a new sandbox that is gone afterwards; begin(n), enter(n) and end(n)
keep one open. One that cannot do a job here says why, in the table."""
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time

BUILD, WORK, DOCS = sys.argv[1:4]
PORT = int(os.environ["BENCH_PORT"])
ROOT = os.path.join(WORK, "peer-root")
QUIET = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


class Skip(Exception):
    """Why a contender does not run a job."""


def spawn(argv):
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=QUIET, setsid=False)


def call(argv):
    """A program to its end, started as cheaply as a program can be."""
    status = os.waitstatus_to_exitcode(os.waitpid(spawn(argv), 0)[1])
    if status:
        said = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if said.returncode:
            lines = (said.stderr + said.stdout).strip().splitlines() or ["exit status %d" % status]
            raise Skip(lines[0][:160].replace("|", "/"))


class Contender:
    name, package, command, live, many = "", "", "", True, 1000

    def available(self):
        if not shutil.which(self.command):
            raise Skip("not installed (Debian package %s)" % self.package)

    def version(self):
        text = subprocess.run([self.command, "--version"], capture_output=True, text=True).stdout
        return next((word for word in text.replace(",", " ").split() if word[:1].isdigit()), "")


class Cubby(Contender):
    name, command = "cubby", os.path.join(BUILD, "cubby")
    kept = threading.local()

    def __init__(self):
        self.boxes = {}

    def ask(self, method, path, body=None, want=(200, 201, 204)):
        if time.monotonic() - getattr(self.kept, "used", 0) > 5:  # the daemon closes idle connections
            self.kept.line = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        self.kept.line.request(method, path, None if body is None else json.dumps(body))
        answer = self.kept.line.getresponse()
        text = answer.read()
        self.kept.used = time.monotonic()
        if answer.status not in want:
            raise Skip(text.decode()[:120])
        return json.loads(text) if text else None

    def run(self, box):
        if self.ask("POST", "/v1/boxes/%s/exec" % box, {"argv": ["true"]})["exit_code"] != 0:
            raise Skip("the command failed")

    def once(self):
        box = self.ask("POST", "/v1/boxes", {})["id"]
        self.run(box)
        self.ask("DELETE", "/v1/boxes/" + box)

    def begin(self, n):
        self.boxes[n] = self.ask("POST", "/v1/boxes", {})["id"]
        self.run(self.boxes[n])

    def enter(self, n):
        self.run(self.boxes[n])

    def end(self, n):
        self.ask("DELETE", "/v1/boxes/" + self.boxes.pop(n))


class CubbyCommand(Cubby):
    name = "cubby, command line"
    os.environ["CUBBY_URL"] = "http://127.0.0.1:%d" % PORT

    def once(self):
        call([self.command, "run", "--", "true"])

    def enter(self, n):
        call([self.command, "exec", self.boxes[n], "--", "true"])


class Process(Contender):
    """A program whose sandbox lives as long as what it runs."""

    def __init__(self):
        self.running = {}

    def once(self):
        call(self.argv("once") + ["true"])

    def begin(self, n):
        self.running[n] = spawn(self.argv(n) + ["sleep", "3600"])

    def end(self, n):
        pid = self.running.pop(n)
        os.kill(pid, 15)
        os.waitpid(pid, 0)


class Bubblewrap(Process):
    name, package, command, live = "bubblewrap", "bubblewrap", "bwrap", False

    def argv(self, _):
        return ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all",
                "--die-with-parent"]


class Nsjail(Process):
    name, package, command, live = "nsjail", "nsjail", "nsjail", False

    def argv(self, _):
        return ["nsjail", "-Mo", "-q", "--chroot", "/", "--user", "1000", "--group", "1000", "--"]


class Firejail(Process):
    name, package, command, many = "firejail", "firejail", "firejail", 50

    def argv(self, n):
        return ["firejail", "--quiet", "--noprofile", "--net=none", "--private", "--name=peer%s" % n]

    def begin(self, n):
        super().begin(n)
        end = time.monotonic() + 20
        while subprocess.run(["firejail", "--quiet", "--join=peer%s" % n, "true"], capture_output=True).returncode:
            if time.monotonic() > end:
                raise Skip("a sandbox could not be joined")

    def enter(self, n):
        call(["firejail", "--quiet", "--join=peer%s" % n, "true"])


class Nspawn(Process):
    name, package, command, live, many = "systemd-nspawn", "systemd-container", "systemd-nspawn", False, 30

    def argv(self, n):
        return ["systemd-nspawn", "-q", "--register=no", "--keep-unit", "--private-network", "--volatile=overlay",
                "--machine=peer%s" % n, "-D", ROOT]


class Engine(Contender):
    many, options = 20, []

    def create(self, *more):
        return [*self.engine, "run", *self.options, "--network", "none", *more, "cubby-peer"]

    def once(self):
        call(self.create("--rm") + ["true"])

    def begin(self, n):
        call(self.create("-d", "--name", "peer%s" % n) + ["sleep", "3600"])

    def enter(self, n):
        call([*self.engine, "exec", "peer%s" % n, "true"])

    def end(self, n):
        call([*self.engine, "rm", "-f", "-t", "0", "peer%s" % n] if self.command == "podman" else
             [*self.engine, "rm", "-f", "peer%s" % n])

    def imported(self):
        tar = subprocess.Popen(["tar", "-C", ROOT, "-c", "."], stdout=subprocess.PIPE)
        made = subprocess.run([*self.engine, "import", "-", "cubby-peer"], stdin=tar.stdout, capture_output=True)
        if made.returncode:
            raise Skip("it cannot import an image here")


class Docker(Engine):
    package, command, engine = "docker.io", "docker", ["docker"]

    def __init__(self, runtime):
        self.name, self.runtime, self.options = "docker (%s)" % runtime, runtime, ["--runtime", runtime]

    def available(self):
        super().available()
        if not os.environ.get("DOCKER_HOST"):
            raise Skip("no engine runs here")
        if not shutil.which(self.runtime):
            raise Skip("not installed (Debian package %s)" % self.runtime)
        self.imported()


class Podman(Engine):
    name, package, command = "podman", "podman", "podman"
    engine = ["podman", "--root", WORK + "/podman/data", "--runroot", WORK + "/podman/run", "--cgroup-manager",
              "cgroupfs", "--events-backend", "file", "--runtime", "runc"]

    def available(self):
        super().available()
        os.makedirs(WORK + "/podman", exist_ok=True)
        with open(WORK + "/podman/containers.conf", "w", encoding="ascii") as conf:
            conf.write('[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\nlog_driver = "none"\n')
        os.environ["CONTAINERS_CONF"] = WORK + "/podman/containers.conf"
        self.imported()


def memory():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def times(job, seconds, most):
    """The median in milliseconds, and the spread as the quartiles' distance from it."""
    job()
    took, end = [], time.monotonic() + seconds
    while len(took) < most and (len(took) < 3 or time.monotonic() < end):
        start = time.perf_counter()
        job()
        took.append((time.perf_counter() - start) * 1e3)
    low, middle, high = statistics.quantiles(took, n=4) if len(took) > 1 else took * 3
    return middle, (high - low) / 2


def at_once(contender, count, threads):
    """Seconds for count sandboxes, begun and gone, by some clients at a time."""
    left, failed, lock = [count], [], threading.Lock()

    def client():
        while True:
            with lock:
                if not left[0] or failed:
                    return
                left[0] -= 1
            try:
                contender.once()
            except Skip as why:
                failed.append(why)

    start = time.perf_counter()
    clients = [threading.Thread(target=client) for _ in range(threads)]
    [one.start() for one in clients]
    [one.join() for one in clients]
    if failed:
        raise failed[0]
    return time.perf_counter() - start


def open_many(contender, count, seconds):
    """How many could be opened in that time, at what cost each (ms, KB)."""
    before, start, opened = memory(), time.perf_counter(), 0
    try:
        while opened < count and time.perf_counter() - start < seconds:
            contender.begin(opened)
            opened += 1
        took = time.perf_counter() - start
        os.sync()
        return opened, took * 1e3 / opened, (before - memory()) / opened
    finally:
        for n in range(opened):
            contender.end(n)


def entered(contender):
    if not contender.live:
        raise Skip("its sandbox cannot be entered")
    contender.begin("x")
    try:
        return times(lambda: contender.enter("x"), 3, 200)
    finally:
        contender.end("x")


def attempt(job, *args):
    try:
        return job(*args)
    except (Skip, OSError, subprocess.SubprocessError) as why:
        return str(why)


def race(contenders):
    rows = []
    for one in contenders:
        cold = attempt(one.available) or attempt(times, one.once, 5, 100)
        rest = [None] * 3 if isinstance(cold, str) else [
            attempt(entered, one), attempt(at_once, one, 100, 16), attempt(open_many, one, one.many, 20)]
        rows.append((one.name, one.version() if shutil.which(one.command) else "", cold, *rest))
        print(*table_row(rows[-1]), sep=" | ", flush=True)
    return rows


def growth(cubby, steps):
    """What one more box, and a command in it, cost beside so many."""
    points, opened, before = [], 0, memory()
    try:
        for step in steps:
            start, first = time.perf_counter(), opened
            while opened < step:
                cubby.begin(opened)
                opened += 1
            each = (time.perf_counter() - start) * 1e3 / max(1, opened - first)
            points.append((step, each, times(lambda: cubby.enter(0), 2, 200)[0], (before - memory()) / opened))
    except Skip as why:
        print("growth ends at %d boxes: %s" % (opened, why))
    finally:
        for n in range(opened):
            cubby.end(n)
    return points


def figure(value, form):
    return "–" if value is None else value if isinstance(value, str) else form(value)


def number(value):
    return "%.2f" % value if value < 10 else "%.0f" % value


def table_row(row):
    name, version, cold, live, burst, many = row
    return (("%s %s" % (name, version)).strip(), figure(cold, lambda v: "%s ± %s" % (number(v[0]), number(v[1]))),
            figure(live, lambda v: "%s ± %s" % (number(v[0]), number(v[1]))), figure(burst, lambda v: "%.2f" % v),
            figure(many, lambda v: "%d, %s ms each" % (v[0], number(v[1]))),
            figure(many, lambda v: "%.0f" % v[2] if v[0] >= 100 and v[2] > 0 else "–"))


def svg(width, height, body):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
            'font-family="sans-serif" font-size="13"><rect width="100%%" height="100%%" fill="#fff"/>%s</svg>\n'
            % (width, height, width, height, "".join(body)))


def bars(title, values, unit):
    """Horizontal bars on a logarithmic scale, the smallest first."""
    import math
    values = sorted(values, key=lambda pair: pair[1])
    least = min(value for _, value in values) / 2
    scale = 330 / max(1e-9, math.log(max(value for _, value in values) / least))
    body = ['<text x="12" y="22" font-weight="bold">%s</text>' % title]
    for n, (name, value) in enumerate(values):
        y, width = 36 + n * 26, max(2, math.log(value / least) * scale)
        body.append('<text x="160" y="%d" text-anchor="end">%s</text><rect x="168" y="%d" width="%.0f" height="18" '
                    'fill="%s"/><text x="%.0f" y="%d">%s %s</text>' % (
                        y + 14, name, y, width, "#0b7a5b" if name.startswith("cubby") else "#9aa5b1", 174 + width,
                        y + 14, number(value), unit))
    return svg(600, 46 + 26 * len(values), body)


def lines(title, points, series):
    """Lines over the number of boxes, both axes logarithmic."""
    import math
    top = max(value for _, column in series for value in column)
    least = min(value for _, column in series for value in column)
    span = max(1e-9, math.log(top / least))
    x = [60 + 420 * math.log(point) / math.log(points[-1]) for point in points]
    body = ['<text x="12" y="22" font-weight="bold">%s</text>' % title]
    for at, point in zip(x, points):
        body.append('<text x="%.0f" y="238" text-anchor="middle" fill="#555">%d</text>' % (at, point))
    for n, (name, column) in enumerate(series):
        y = [215 - 165 * math.log(value / least) / span for value in column]
        colour = ("#0b7a5b", "#b45309", "#1d4ed8")[n]
        body.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (
            colour, " ".join("%.0f,%.0f" % pair for pair in zip(x, y))))
        body.append('<text x="488" y="%.0f" fill="%s">%s</text><text x="56" y="%.0f" text-anchor="end" fill="%s">%s'
                    '</text>' % (y[-1] + 4, colour, name, y[0] + 4, colour, number(column[0])))
    return svg(680, 250, body)


def write(rows, points):
    head = ("contender", "create, `true`, gone: ms", "`true` in a live one: ms", "100, 16 at a time: s", "opened",
            "KB each")
    machine = "%d processors, Linux %s" % (os.cpu_count(), platform.release())
    text = ["# Benchmarks", "",
            "Written by `make bench BENCH=peers`: the same jobs on cubby and on its peers, one after the other, on one",
            "machine (%s). Times are medians ± half the distance of the quartiles. cubby is" % machine,
            "asked over HTTP on a kept connection, and by its command line; the others have only a command line. Every",
            "sandbox is without a network. \"Opened\" is how many stay open, at most 20 seconds of opening them; memory",
            "is what the machine has less by then, where they were enough to see it.", "",
            "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    text += ["| " + " | ".join(table_row(row)) + " |" for row in rows]
    for name, title, column in (("cold", "Create a sandbox, run one command, remove it", 2),
                                ("live", "Run one command in a live sandbox", 3)):
        values = [(row[0], row[column][0]) for row in rows if isinstance(row[column], tuple)]
        with open("%s/benchmarks-%s.svg" % (DOCS, name), "w", encoding="utf-8") as plot:
            plot.write(bars(title + " (logarithmic)", values, "ms"))
        text += ["", "![%s](benchmarks-%s.svg)" % (title, name)]
    if len(points) > 1:
        text += ["", "## How the cost of one more box grows", "", "| boxes | create and first command: ms | command: ms | KB "
                 "a box |", "|---|---|---|---|"]
        text += ["| %d | %s | %s | %s |" % (n, number(a), number(b), "%.0f" % kb if n >= 100 and kb > 0 else "–")
                 for n, a, b, kb in points]
        with open(DOCS + "/benchmarks-growth.svg", "w", encoding="utf-8") as plot:
            plot.write(lines("Cost with that many open boxes: ms (logarithmic)", [point[0] for point in points], [
                ("create + command", [point[1] for point in points]), ("command", [point[2] for point in points])]))
        text += ["", "![Cost with that many open boxes](benchmarks-growth.svg)"]
    with open(DOCS + "/benchmarks.md", "w", encoding="utf-8") as page:
        page.write("\n".join(text) + "\n")


def main():
    os.makedirs(ROOT, exist_ok=True)
    for name in ("bin", "usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "root"):
        os.makedirs(os.path.join(ROOT, name), exist_ok=True)
    busybox = shutil.which("busybox")
    shutil.copy(busybox, ROOT + "/bin/busybox")
    for name in ("sh", "true", "sleep", "ls", "cat"):
        if not os.path.lexists("%s/bin/%s" % (ROOT, name)):
            os.symlink("busybox", "%s/bin/%s" % (ROOT, name))
    with open(ROOT + "/etc/os-release", "w", encoding="ascii") as release:
        release.write("ID=peer\n")
    cubby = Cubby()
    rows = race([cubby, CubbyCommand(), Bubblewrap(), Nsjail(), Firejail(), Nspawn(), Docker("runc"), Docker("crun"),
                 Docker("runsc"), Podman()])
    floor = times(lambda: call(["true"]), 2, 300)
    rows.append(("posix_spawn alone", "", floor, None, None, None))
    write(rows, growth(cubby, (1, 10, 100, 1000, 3000)))


main()
