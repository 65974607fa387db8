#!/usr/bin/env python3
"""A head with three workers on this machine beside one daemon: rows of the table of bench.sh.
usage: bench_fleet.py fleet PORT OF_THE_DAEMON - CUBBY DIRECTORY. Exit status 3: a bar was missed."""
import http.client, json, os, signal, socket, statistics, subprocess, sys, threading, time

DAEMON, CUBBY, WORK = int(sys.argv[2]), sys.argv[4], sys.argv[5] + "/fleet"
missed, started = 0, []


def row(name, times, unit, what, bar, spread):
    global missed
    ours, peer = map(statistics.median, times)
    met = ours / peer <= bar
    missed += not met
    print(f"| {name:44} | {ours * unit:9.2f} ms | {peer * unit:8.2f} ms {what:26} | {ours / peer:5.2f} | {spread:11} | "
          f"{'<= ' + str(bar):7} | {'yes' if met else 'NO':3} |", flush=True)


def fifths(ours, peer):
    size = max(len(ours) // 5, 1)
    parts = [statistics.median(ours[at:at + size]) / statistics.median(peer[at:at + size])
             for at in range(0, len(ours) - size + 1, size)]
    return f"{min(parts):.2f}-{max(parts):.2f}"


class Server:
    def __init__(self, port):
        self.port, self.connection = port, http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            sys.exit(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text) if text else None

    def create(self):
        id = self.call("POST", "/v1/boxes", {})["id"]
        self.exec(id)
        return id

    def exec(self, id):
        self.call("POST", f"/v1/boxes/{id}/exec", {"command": "true"})

    def delete(self, id):
        self.call("DELETE", f"/v1/boxes/{id}")


def timed(work, *arguments):
    begun = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - begun, result


def run(*words):
    started.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=open(f"{WORK}/log", "a"),
                                    stderr=subprocess.STDOUT))


def fleet():
    """A head on a port of its own, and three workers."""
    os.makedirs(WORK, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(f"{WORK}/config.yaml", "w") as config:
        config.write("max_boxes_per_user: 0\n")
    run(os.path.join(os.path.dirname(CUBBY), "cubbyd"), "--listen", f"127.0.0.1:{port}", "--state", f"{WORK}/head",
        "--config", f"{WORK}/config.yaml", "--log-level", "warn", "--backend", "fleet")
    head = Server(port)
    wait(lambda: socket.create_connection(("127.0.0.1", port)).close() is None)
    for name in "w1", "w2", "w3":
        token = subprocess.run([CUBBY, "token", "create", "--worker", name, "--state", f"{WORK}/head"], check=True,
                               capture_output=True, text=True).stdout.strip()
        run(CUBBY, "join", "--worker", "--server", f"http://127.0.0.1:{port}", "--token", token, "--state",
            f"{WORK}/{name}", "--boxes", "400")
    wait(lambda: sum(worker["online"] for worker in head.call("GET", "/v1/workers")["workers"]) == 3)
    return head


def wait(done):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if done():
                return
        except OSError:
            pass
        threading.Event().wait(0.05)
    sys.exit(f"the fleet does not come up: {open(WORK + '/log').read()[-500:]}")


def burst(port, count=300, clients=16):
    """Seconds for that many boxes, each with its first command."""
    made, rest, lock = [], iter(range(count)), threading.Lock()

    def client():
        server = Server(port)
        while True:
            with lock:
                if next(rest, None) is None:
                    return
            made.append(server.create())
    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    if len(made) != count:
        sys.exit(f"{count - len(made)} of {count} boxes were not made")
    server = Server(port)
    for id in made:
        server.delete(id)
    return took


def rows(head, local):
    boxes = [server.create() for server in (head, local)]
    times = [], []
    for _ in range(400):
        for kept, server, id in zip(times, (head, local), boxes):
            kept.append(timed(server.exec, id)[0])
    row("fleet: exec through the head, p50", times, 1e3, "on one machine", 1.3, fifths(*times))
    times = [], []
    for _ in range(100):
        for kept, server in zip(times, (head, local)):
            took, id = timed(server.create)
            kept.append(took)
            server.delete(id)
    row("fleet: create + first exec, p50", times, 1e3, "on one machine", 1.5, fifths(*times))
    times = [burst(head.port)], [burst(local.port)]
    row("fleet: 300 boxes by 16 clients", times, 1e3, "one daemon", 1.3, "once")
    for server, id in zip((head, local), boxes):
        server.delete(id)


try:
    rows(fleet(), Server(DAEMON))
finally:
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
        process.wait()
sys.exit(3 if missed else 0)
