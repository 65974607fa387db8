#!/usr/bin/env python3
"""cubby's own clients beside raw HTTP from the same language, and beside curl: nine rows of the table of bench.sh.
usage: bench_clients.py clients PORT. The rows of TypeScript are in bench_clients.mjs, if there is a node. Exit status 3:
a bar was missed."""
import http.client, json, os, resource, shutil, statistics, subprocess, sys, tempfile, threading, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "../../clients/python")
sys.path.insert(0, CLIENT)
import cubby  # noqa: E402

PORT, BYTES, missed = int(sys.argv[2]), 300_000_000, 0


def row(name, ours, peer, ratio, spread, bar, met):
    global missed
    missed += not met
    print(f"| {name:44} | {ours:>12} | {peer:38} | {ratio:5.2f} | {spread:11} | {bar:7} | {'yes' if met else 'NO':3} |",
          flush=True)


def compared(rounds, ours, peer):
    """Both by turns; the times of each."""
    times = [], []
    for _ in range(rounds):
        for kept, work in zip(times, (ours, peer)):
            begun = time.perf_counter()
            work()
            kept.append(time.perf_counter() - begun)
    return times


def fifths(ours, peer, ratio):
    """The lowest and the highest ratio of the fifths of a row."""
    size = max(len(ours) // 5, 1)
    parts = [ratio(statistics.median(ours[at:at + size]), statistics.median(peer[at:at + size]))
             for at in range(0, len(ours) - size + 1, size)]
    return f"{min(parts):.2f}-{max(parts):.2f}"


def slower(name, times, what, bar, unit=1e3):
    ours, peer = map(statistics.median, times)
    row(name, f"{ours * unit:.2f} ms", f"{peer * unit:.2f} ms {what}", ours / peer, fifths(*times, lambda a, b: a / b),
        f"<= {bar}", ours / peer <= bar)


def faster(name, times, amount, unit, what, bar):
    ours, peer = map(statistics.median, times)
    row(name, f"{amount / ours:.0f} {unit}", f"{amount / peer:.0f} {unit} {what}", peer / ours,
        fifths(*times, lambda a, b: b / a), f">= {bar}", peer / ours >= bar)


def imports():
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPATH": CLIENT, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)

        def took(what):
            text = subprocess.run([sys.executable, "-X", "importtime", "-c", f"import {what}"], env=env, check=True,
                                  capture_output=True, text=True).stderr
            return int(text.strip().splitlines()[-1].split("|")[1]) / 1e3
        took("cubby")
        ours = [took("cubby") for _ in range(9)]
        middle = statistics.median(ours)
        row("import cubby", f"{middle:.1f} ms", "30 ms", middle / 30, f"{min(ours) / 30:.2f}-{max(ours) / 30:.2f}",
            "<= 1", middle <= 30)


class Raw:
    """Raw HTTP: the body of an exec is ready, and the answer is parsed."""

    def __init__(self, id):
        self.path, self.connection = f"/v1/boxes/{id}/exec", http.client.HTTPConnection("127.0.0.1", PORT)

    def exec(self):
        self.connection.request("POST", self.path, '{"command":"true"}', {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["exit_code"]


def at_once(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def execs(box):
    raw = Raw(box.id)
    slower("Python: exec", compared(400, lambda: box.run("true"), raw.exec), "http.client, same connection", 1.3)
    raws, errors = [Raw(box.id) for _ in range(200)], []

    def checked(work):
        def run():
            try:
                work()
            except Exception as error:
                errors.append(error)
        return run
    times = compared(7, lambda: at_once([checked(lambda: box.run("true"))] * 200),
                     lambda: at_once([checked(each.exec) for each in raws]))
    if errors:
        sys.exit(f"200 at once: {errors[0]!r}")
    faster("Python: 200 execs at once, in threads", times, 200, "/s", "http.client", 0.7)


def curl(*arguments):
    subprocess.run(["curl", "-sf", "-o", "/dev/null", *arguments], check=True)


def large(box):
    url = f"http://127.0.0.1:{PORT}/v1/boxes/{box.id}/files?path=/tmp/large"
    with tempfile.NamedTemporaryFile(dir=os.environ.get("BENCH_DIR", "/var/tmp")) as file:
        file.truncate(BYTES)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def up():
            with open(file.name, "rb") as source:
                box.files.write("/tmp/large", source)

        def down():
            for _ in box.files.open("/tmp/large"):
                pass
        faster("Python: 300 MB up", compared(5, up, lambda: curl("-T", file.name, url)), BYTES / 1e6, "MB/s", "curl", 0.7)
        faster("Python: 300 MB down", compared(5, down, lambda: curl(url)), BYTES / 1e6, "MB/s", "curl", 0.7)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    row("Python: memory for 300 MB up and down", f"{grown:.0f} MB", "64 MB", grown / 64, "once", "<= 1", grown <= 64)


def main():
    client = cubby.Client(f"http://127.0.0.1:{PORT}")
    with client.box() as box:
        imports()
        execs(box)
        large(box)
    if node := shutil.which("node"):
        status = subprocess.run([node, f"{HERE}/bench_clients.mjs", *sys.argv[1:]]).returncode
        if status not in (0, 3):
            sys.exit(status)
        return missed or status
    return missed


sys.exit(3 if main() else 0)
