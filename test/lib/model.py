#!/usr/bin/env python3
"""Random work on the boxes of one user, through two daemons on one state directory, beside a model of each box.
usage: model.py BACKEND STATE SECONDS SEED SOCKET SOCKET
Every key (a thread of the user) belongs to one worker, which goes from daemon to daemon; so what must be true of it is known:
its id, how many lines its file has, whether it is paused. Prints what is not as it should be; exit status 1 then."""
import http.client, json, os, random, select, signal, socket, sys, threading, time

backend, state, seconds, seed, sockets = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
WORKERS, KEYS = 4, 3
wrong, counts, lock = [], {}, threading.Lock()


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    connection = Unix(path)
    connection.request(method, target, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, json.loads(data) if data else {}


class Key:
    def __init__(self, worker, number):
        self.thread, self.id, self.lines, self.paused, self.died = f"model {worker}/{number}", None, 0, False, False


def expect(key, step, got, want):
    if got != want:
        with lock:
            wrong.append(f"{key.thread} {step}: got {got}, want {want}")


def acquire(dice, key):
    status, box = ask(dice.choice(sockets), "POST", "/v1/boxes", {"backend": backend, "user": "model", "thread": key.thread})
    expect(key, "acquire", (status, box.get("state")), (200 if key.id else 201, "paused" if key.paused else "ready"))
    if key.id:
        expect(key, "the same box", box.get("id"), key.id)
    key.id, key.died = box.get("id"), False


def append(dice, key):
    status, result = ask(dice.choice(sockets), "POST", f"/v1/boxes/{key.id}/exec", {"command": "echo line >> f; wc -l < f"})
    if key.paused:
        return expect(key, "exec in a paused box", status, 409)
    if key.died:
        return expect(key, "exec in a box that died", status, 410)
    key.lines += 1
    expect(key, "exec", (status, (result.get("stdout") or "").strip()), (200, str(key.lines)))


def release(dice, key):
    status, box = ask(dice.choice(sockets), "POST", f"/v1/boxes/{key.id}/release")
    if not key.paused and not key.died:
        expect(key, "release", (status, box.get("state")), (200, "warm"))


def pause(dice, key):
    if backend != "jail" or key.died:
        return
    status, _ = ask(dice.choice(sockets), "POST", f"/v1/boxes/{key.id}/{'resume' if key.paused else 'pause'}")
    if status == 400 and not key.paused:  # it was released and evicted: nothing to pause
        return
    expect(key, "pause or resume", status, 200)
    key.paused = not key.paused


def kill(dice, key):
    """Its runner dies: calls say so, the next acquire begins anew on the same files."""
    if backend != "jail" or key.paused or key.died:
        return
    try:
        pid = int(open(f"{state}/boxes/{key.id}/jail").read().split()[0])
        if os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid"):
            return
        runner = os.pidfd_open(pid)
    except OSError:
        return
    signal.pidfd_send_signal(runner, signal.SIGKILL)
    select.select([runner], [], [])  # what comes before its end may still reach it
    os.close(runner)
    key.died = True


def delete(dice, key):
    status, _ = ask(dice.choice(sockets), "DELETE", f"/v1/boxes/{key.id}")
    expect(key, "delete", status, 204)
    status, _ = ask(dice.choice(sockets), "GET", f"/v1/boxes/{key.id}")
    expect(key, "after delete", status, 404)
    key.id, key.lines, key.paused, key.died = None, 0, False, False


STEPS = [(acquire, 5), (append, 8), (release, 3), (pause, 3), (kill, 1), (delete, 2)]


def work(number, until):
    dice = random.Random(seed * 100 + number)
    keys = [Key(number, i) for i in range(KEYS)]
    while time.monotonic() < until and len(wrong) < 10:
        key = dice.choice(keys)
        step = dice.choices([s for s, _ in STEPS], [w for _, w in STEPS])[0]
        if not key.id:
            step = acquire
        try:
            step(dice, key)
        except (OSError, ValueError) as error:
            expect(key, step.__name__, repr(error), "an answer")
        with lock:
            counts[step.__name__] = counts.get(step.__name__, 0) + 1
    for key in keys:
        if key.id:
            delete(dice, key)


until = time.monotonic() + seconds
threads = [threading.Thread(target=work, args=(n, until)) for n in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for path in sockets:
    until = time.monotonic() + 10  # one daemon may still be busy with the end of what the other deleted
    while (boxes := ask(path, "GET", "/v1/boxes?user=model")[1]["boxes"]) and time.monotonic() < until:
        pass
    if boxes:
        wrong.append(f"left in a list: {[box['id'] for box in boxes]}")
print(" ".join(f"{name} {counts[name]}" for name in sorted(counts)))
for line in wrong[:20]:
    print(line)
sys.exit(bool(wrong))
