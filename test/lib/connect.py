"""Connect over HTTP/1.1 with raw sockets: what the protocol says, and clients that break its rules.

usage: E2B_API_KEY=KEY connect.py URL
Prints TAP lines without numbers.
"""
import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import urllib.parse
import urllib.request

FAILED = 0


def ok(name, condition, why=""):
    global FAILED
    FAILED += not condition
    print(f"ok - {name}" if condition else f"not ok - {name} # {str(why)[:400]}", flush=True)


def equal(name, got, want):
    ok(name, got == want, f"got {got!r}, want {want!r}")


class Daemon:
    def __init__(self, url):
        self.url = url
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port)

    def control(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
            headers={"X-API-KEY": os.environ["E2B_API_KEY"]})
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            data = answer.read()
            return json.loads(data) if data else None


class Reply:
    """One answer, read from the socket as it comes."""

    def __init__(self, sock):
        self.file = sock.makefile("rb")
        self.sock = sock
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        self.left, self.whole = b"", False

    def chunk(self):
        """b"" at the end; None: cut off."""
        try:
            line = self.file.readline()
            if not line:
                return None
            size = int(line, 16)
            data = self.file.read(size)
            if len(data) < size or self.file.read(2) != b"\r\n":
                return None
            return data
        except ConnectionError:
            return None

    def body(self):
        if "content-length" in self.headers:
            return self.file.read(int(self.headers["content-length"]))
        data = b""
        while part := self.chunk():
            data += part
        return data

    def json(self):
        return json.loads(self.body())

    def frame(self):
        """(flags, message); None: cut off."""
        while len(self.left) < 5 or len(self.left) < 5 + struct.unpack(">I", self.left[1:5])[0]:
            part = self.chunk()
            if not part:
                return None
            self.left += part
        flags, size = struct.unpack(">BI", self.left[:5])
        message, self.left = json.loads(self.left[5 : 5 + size]), self.left[5 + size :]
        return flags, message

    def frames(self):
        """All to the end frame, which must be followed by nothing; ends with None where it was cut off."""
        found = []
        while True:
            found.append(self.frame())
            if found[-1] is None:
                return found
            if found[-1][0] & 2:
                self.whole = self.left == b"" and self.chunk() == b""
                return found

    def close(self):
        self.file.close()
        self.sock.close()


class Sandbox:
    def __init__(self, daemon):
        self.daemon = daemon
        made = daemon.control("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})
        self.id, self.token = made["sandboxID"], made["envdAccessToken"]

    def send(self, method, body, media, headers=None, length=None):
        """Sends a request with exactly this body; length: what Content-Length says."""
        head = {
            "Host": "localhost",
            "E2b-Sandbox-Id": self.id,
            "E2b-Sandbox-Port": "49983",
            "X-Access-Token": self.token,
            "Connect-Protocol-Version": "1",
            "Content-Type": media,
            "Content-Length": str(len(body) if length is None else length),
        }
        head.update(headers or {})
        lines = [f"POST /process.Process/{method} HTTP/1.1"] + [f"{k}: {v}" for k, v in head.items() if v is not None]
        sock = socket.create_connection(self.daemon.address, timeout=30)
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return sock

    def unary(self, method, message, headers=None):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        reply = Reply(self.send(method, body, "application/json", headers))
        return reply.status, reply.json()

    def stream(self, method, message, headers=None):
        body = message if isinstance(message, bytes) else envelope(message)
        return Reply(self.send(method, body, "application/connect+json", headers))

    def start(self, command, headers=None, **more):
        process = {"cmd": "/bin/bash", "args": ["-c", command]}
        return self.stream("Start", {"process": process, "stdin": False, **more}, headers)


def envelope(message, flags=0, size=None):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data) if size is None else size) + data


def text(data):
    return base64.b64encode(data).decode()


def error_of(reply):
    """The code in the only frame of a stream."""
    frames = reply.frames()
    if len(frames) != 1 or frames[0] is None or frames[0][0] != 2 or not reply.whole or reply.status != 200:
        return reply.status, frames
    return frames[0][1]["error"]["code"]


def pid_of(reply):
    return reply.frame()[1]["event"]["start"]["pid"]


def rules(box):
    reply = box.start("echo hi; echo no >&2; exit 3")
    equal("a stream: status and type", (reply.status, reply.headers["content-type"]), (200, "application/connect+json"))
    frames = reply.frames()
    equal("start comes first, then output", list(frames[0][1]["event"]), ["start"])
    equal("output", sorted(f[1]["event"]["data"].popitem() for f in frames[1:-2]),
          [("stderr", "bm8K"), ("stdout", "aGkK")])
    equal("the end", frames[-2][1]["event"]["end"],
          {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"})
    equal("one end frame, and nothing after it", (frames[-1], reply.whole), ((2, {}), True))
    equal("no error text for exit 0", box.start("true").frames()[-2][1]["event"]["end"],
          {"exitCode": 0, "exited": True, "status": "exit status 0"})
    equal("a unary answer", box.unary("List", {}), (200, {"processes": []}))
    equal("an empty body is an empty message", box.unary("List", b""), (200, {"processes": []}))
    status, body = box.unary("SendSignal", {"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"})
    equal("a unary error", (status, body), (404, {"code": "not_found", "message": "process with pid 99999 not found"}))
    equal("an error of a stream is its end frame", error_of(box.stream("Connect", {"process": {"pid": 99999}})),
        "not_found")
    equal("a stream without a process", error_of(box.stream("Start", {})), "invalid_argument")
    equal("a selector without a name", box.unary("CloseStdin", {"process": {}})[1]["code"], "invalid_argument")
    equal("a signal that there is not", box.unary("SendSignal", {"process": {"pid": 1}, "signal": 5})[1]["code"],
        "invalid_argument")


def protojson(box):
    cat = box.stream("Start", {"process": {"cmd": "cat", "somethingNew": [1, {"x": None}]}, "tag": "t", "pty": None,
        "stdin": None})
    pid = pid_of(cat)
    for name, message in {
        "an integer as text": {"process": {"pid": str(pid)}, "input": {"stdin": text(b"a")}},
        "an integer as a real": {"process": {"pid": float(pid)}, "input": {"stdin": text(b"b")}},
        "a tag instead, members that nobody knows": {"process": {"tag": "t", "x": 1}, "input": {"stdin": text(b"c")},
            "y": {}},
        "base64 without padding": {"process": {"pid": pid}, "input": {"stdin": text(b"d").rstrip("=")}},
        "base64 for URLs": {"process": {"pid": pid},
            "input": {"stdin": base64.urlsafe_b64encode(b"\xfb\xff").decode()}},
        "nothing": {"process": {"pid": pid}, "input": {"stdin": ""}},
    }.items():
        equal("input: " + name, box.unary("SendInput", message), (200, {}))
    got = b""
    while len(got) < 6:
        got += base64.b64decode(cat.frame()[1]["event"]["data"]["stdout"])
    equal("and all of it came", got, b"abcd\xfb\xff")
    equal("what is not base64", box.unary("SendInput", {"process": {"pid": pid}, "input": {"stdin": "#"}})[1]["code"],
        "invalid_argument")
    equal("keys for a command without a terminal",
          box.unary("SendInput", {"process": {"pid": pid}, "input": {"pty": text(b"x")}})[1]["code"], "internal")
    equal("its input is closed", box.unary("CloseStdin", {"process": {"pid": pid}}), (200, {}))
    equal("and it ends", cat.frames()[0][1]["event"]["end"]["status"], "exit status 0")
    pty = box.stream("Start", {"process": {"cmd": "cat"}, "pty": {"size": {"cols": 80, "rows": 24}}})
    pid = pid_of(pty)
    equal("the input of a terminal cannot be closed", box.unary("CloseStdin", {"process": {"pid": pid}}),
          (500, {"code": "unknown", "message": "cannot close stdin for PTY process"}))
    equal("an enumeration as a number", box.unary("SendSignal", {"process": {"pid": pid}, "signal": 9}), (200, {}))
    equal("a signal's end", pty.frames()[0][1]["event"]["end"],
          {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"})


def times(box):
    reply = box.start("sleep 1000", {"Connect-Timeout-Ms": "300"})
    pid_of(reply)
    equal("the deadline of Start", error_of(reply), "deadline_exceeded")
    equal("ends the command", box.unary("List", {}), (200, {"processes": []}))
    long = box.start("sleep 1000")
    pid = pid_of(long)
    reply = box.stream("Connect", {"process": {"pid": pid}}, {"Connect-Timeout-Ms": "300"})
    pid_of(reply)
    equal("the deadline of Connect", error_of(reply), "deadline_exceeded")
    equal("ends the stream alone", len(box.unary("List", {})[1]["processes"]), 1)
    reply = box.stream("Connect", {"process": {"pid": pid}}, {"Keepalive-Ping-Interval": "1"})
    pid_of(reply)
    equal("a silent stream is kept alive", reply.frame(), (0, {"event": {"keepalive": {}}}))
    reply.close()
    gone = box.start("sleep 1000", {"Connect-Timeout-Ms": "700"})
    pid_of(gone)
    gone.close()
    box.unary("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"})
    equal("the one that was followed ends", long.frames()[0][1]["event"]["end"]["status"], "signal: terminated")
    last = box.stream("Connect", {"process": {"pid": box.unary("List", {})[1]["processes"][0]["pid"]}})
    ok("a deadline counts also when its client has gone", last.frames()[-1] == (2, {}))
    for value in "x", "-1", "12345678901", "1.5", "":
        equal(f"Connect-Timeout-Ms {value!r}", error_of(box.start("true", {"Connect-Timeout-Ms": value})),
            "invalid_argument")
    equal("a keep-alive of nonsense is ignored", box.start("true", {"Keepalive-Ping-Interval": "soon"}).frames()[-1],
        (2, {}))


def hostile(box):
    good = {"process": {"cmd": "true"}}
    size = len(json.dumps(good))
    for name, body, code in [
        ("no envelope at all", b"", "invalid_argument"),
        ("half a head", b"\0\0\0", "invalid_argument"),
        ("a head alone", struct.pack(">BI", 0, 5), "invalid_argument"),
        ("a length that is too long", envelope(good, size=size + 1), "invalid_argument"),
        ("a length that is too short", envelope(good, size=size - 1), "invalid_argument"),
        ("4 GiB", envelope(good, size=0xFFFFFFFF), "resource_exhausted"),
        ("a compressed message", envelope(good, flags=1), "invalid_argument"),
        ("an end frame", envelope({}, flags=2), "invalid_argument"),
        ("unknown flags", envelope(good, flags=0x80), "invalid_argument"),
        ("two messages", envelope(good) + envelope(good), "invalid_argument"),
        ("no JSON", envelope(b"\xff\xfe{"), "invalid_argument"),
        ("an array", envelope(b"[]"), "invalid_argument"),
        ("a member twice", envelope(b'{"tag":"a","tag":"b"}'), "invalid_argument"),
        ("deep nesting", envelope(b'{"process":' * 100 + b"1" + b"}" * 100), "invalid_argument"),
        ("many values", envelope(b'{"x":[' + b"0," * 100000 + b"0]}"), "invalid_argument"),
        ("the wrong types", envelope({"process": "true"}), "invalid_argument"),
        ("a NUL in an argument", envelope({"process": {"cmd": "echo", "args": ["a\0b"]}}), "invalid_argument"),
        ("a variable with '='", envelope({"process": {"cmd": "true", "envs": {"A=B": "c"}}}), "invalid_argument"),
        ("5000 arguments", envelope({"process": {"cmd": "true", "args": ["x"] * 5000}}), "invalid_argument"),
        ("a long tag", envelope({"process": {"cmd": "true"}, "tag": "x" * 129}), "invalid_argument"),
        ("a terminal of 70000 columns",
         envelope({"process": {"cmd": "true"}, "pty": {"size": {"cols": 70000, "rows": 1}}}), "invalid_argument"),
        ("~somebody", envelope({"process": {"cmd": "true", "cwd": "~root"}}), "invalid_argument"),
    ]:
        equal("refused: " + name, error_of(box.stream("Start", body)), code)
    equal("an empty message", error_of(box.stream("Start", envelope(b""))), "invalid_argument")
    equal("a compression", error_of(box.stream("Start", good, {"Connect-Content-Encoding": "gzip"})), "unimplemented")
    equal("identity is none", box.stream("Start", good, {"Connect-Content-Encoding": "identity"}).frames()[-1], (2, {}))
    equal("a compressed unary body", box.unary("List", {}, {"Content-Encoding": "br"})[0], 415)
    equal("another version", error_of(box.stream("Start", good, {"Connect-Protocol-Version": "2"})), "invalid_argument")
    equal("no version", box.stream("Start", good, {"Connect-Protocol-Version": None}).frames()[-1], (2, {}))
    for media in "application/connect+proto", "application/json", "application/grpc+json", "text/plain":
        reply = Reply(box.send("Start", envelope(good), media))
        equal(f"a codec that we do not have: {media}", (reply.status, reply.headers.get("accept-post")),
              (415, "application/connect+json"))
    reply = Reply(box.send("List", b"", "application/proto"))
    equal("the same of a unary call", (reply.status, reply.headers.get("accept-post")), (415, "application/json"))
    equal("no token", Reply(box.send("List", b"{}", "application/json", {"X-Access-Token": None})).status, 401)
    wrong = Reply(box.send("Start", envelope(good), "application/connect+json", {"X-Access-Token": "0" * 64}))
    equal("a wrong token", (wrong.status, wrong.json()["code"]), (401, 401))
    for cut in 3, 5, 12:
        sock = box.send("Start", envelope(good)[:cut], "application/connect+json", length=5 + size)
        sock.close()
    sock = box.send("Start", envelope(good)[:7], "application/connect+json", length=5 + size)
    sock.shutdown(socket.SHUT_WR)
    sock.close()
    equal("half a request starts nothing", box.unary("List", {}), (200, {"processes": []}))


def inputs(box):
    cat = box.stream("Start", {"process": {"cmd": "cat"}})
    pid = pid_of(cat)
    first = {"start": {"process": {"pid": pid}}}
    pieces = [{"data": {"input": {"stdin": text(b"piece %d\n" % i)}}} for i in range(3)]
    body = b"".join(map(envelope, [first, pieces[0], {"keepalive": {}}, pieces[1], pieces[2]]))
    equal("StreamInput", box.stream("StreamInput", body).frames(), [(0, {}), (2, {})])
    got = b""
    while got.count(b"\n") < 3:
        got += base64.b64decode(cat.frame()[1]["event"]["data"]["stdout"])
    equal("all pieces", got, b"piece 0\npiece 1\npiece 2\n")
    equal("without a beginning", error_of(box.stream("StreamInput", envelope(pieces[0]))), "invalid_argument")
    equal("two beginnings", error_of(box.stream("StreamInput", envelope(first) * 2)), "invalid_argument")
    equal("cut off in mid-message", error_of(box.stream("StreamInput", envelope(first) + b"\0\0\0\1\0x")),
        "invalid_argument")
    big = os.urandom(1 << 20) * 12
    box.unary("SendSignal", {"process": {"pid": pid}, "signal": 9})
    cat.close()
    counter = box.stream("Start", {"process": {"cmd": "sha256sum"}})
    pid = pid_of(counter)
    equal("12 MiB of input in one message", box.unary("SendInput", {"process": {"pid": pid},
        "input": {"stdin": text(big)}}), (200, {}))
    box.unary("CloseStdin", {"process": {"pid": pid}})
    got = base64.b64decode(counter.frame()[1]["event"]["data"]["stdout"])
    equal("and each byte of them", got[:64].decode(), hashlib.sha256(big).hexdigest())


def behind(box):
    """A reader that does not read holds up the command, and loses nothing."""
    reply = box.start("for i in $(seq 300000); do echo $i; done; touch /tmp/done")
    pid = pid_of(reply)
    slow = box.stream("Connect", {"process": {"pid": pid}})
    pid_of(slow)
    equal("the command waits for its slowest reader",
        box.start("test -e /tmp/done").frames()[-2][1]["event"]["end"]["exitCode"], 1)
    found = {}

    def read(name, stream):
        out, err = [], []
        for frame in stream.frames()[:-2]:
            data = frame[1]["event"]["data"]
            out.append(base64.b64decode(data.get("stdout", "")))
            err.append(base64.b64decode(data.get("stderr", "")))
        found[name], found[name + ".err"] = b"".join(out), b"".join(err)
    threads = [threading.Thread(target=read, args=pair) for pair in (("first", reply), ("slow", slow))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    want = b"".join(b"%d\n" % i for i in range(1, 300001))
    ok("the first reader has all", found.get("first") == want, len(found.get("first", b"")))
    wide = box.start("""python3 -c 'import fcntl, os, hashlib, sys
fcntl.fcntl(1, 1031, 1 << 20)
data = b"".join(b"%d " % i for i in range(2000000))
sys.stderr.write(hashlib.sha256(data).hexdigest())
sys.stderr.flush()
while data: data = data[os.write(1, data[:1 << 20]):]'""")
    pid = pid_of(wide)
    read("wide", wide)
    want_sum = found["wide.err"].decode()
    equal("what a large pipe still holds at the end is not lost", hashlib.sha256(found["wide"]).hexdigest(), want_sum)
    stalled = box.start("yes")
    pid = pid_of(stalled)
    equal("a kill does not wait for a reader", box.unary("SendSignal", {"process": {"pid": pid}, "signal": 9}), (200, {}))
    equal("nor does a list", box.unary("List", {}), (200, {"processes": []}))
    equal("who gets the end when it reads", stalled.frames()[-2][1]["event"]["end"]["status"], "signal: killed")
    ok("the second has all since it came", found.get("slow") and want.endswith(found["slow"]),
       len(found.get("slow", b"")))


def killed(daemon, box):
    reply = box.start("echo there; sleep 1000")
    reply.frame(), reply.frame()
    daemon.control("DELETE", "/sandboxes/" + box.id)
    equal("the end of a sandbox cuts its streams without a goodbye", reply.frames(), [None])
    reply = Reply(box.send("List", b"{}", "application/json"))
    equal("and then there is none", (reply.status, reply.json()),
          (502, {"sandboxId": box.id, "message": "The sandbox was not found", "code": 502}))


def raw(daemon, method, path, headers):
    """A request as it is; its status."""
    sock = socket.create_connection(daemon.address, timeout=30)
    lines = [f"{method} {path} HTTP/1.1"] + [f"{k}: {v}" for k, v in headers.items()]
    sock.sendall("\r\n".join(lines).encode() + b"\r\nContent-Length: 0\r\n\r\n")
    status = Reply(sock).status
    sock.close()
    return status


def others(daemon, box):
    """What belongs to another sandbox, and names that lead nowhere."""
    other = Sandbox(daemon)
    equal("the token of another sandbox", box.unary("List", {}, {"X-Access-Token": other.token})[0], 401)
    equal("one that is too long", box.unary("List", {}, {"X-Access-Token": box.token + "0"})[0], 401)
    equal("one that is cut", box.unary("List", {}, {"X-Access-Token": box.token[:-1]})[0], 401)
    signed = hashlib.sha256(f"/etc/passwd:read::{other.token}".encode()).digest()
    value = urllib.parse.quote("v1_" + base64.b64encode(signed).decode().rstrip("="), safe="")
    head = {"Host": "localhost", "E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"}
    equal("a signature of another sandbox", raw(daemon, "GET", f"/files?path=/etc/passwd&signature={value}", head), 401)
    equal("a signature that nobody made", raw(daemon, "GET", "/files?path=/etc/passwd&signature=v1_00", head), 401)
    key = {"Host": "localhost", "X-API-KEY": os.environ["E2B_API_KEY"]}
    for name, path in ("a slash in an id", box.id + "%2Fx"), ("dots", "%2e%2e"), ("no id", "-x"), ("a long one", "a" * 300):
        status = raw(daemon, "GET", "/sandboxes/" + path, key)
        ok(f"{name} is refused", status in (400, 404), status)
    for name, lines in (
        ("an id with a slash", {"E2b-Sandbox-Id": box.id + "/x", "E2b-Sandbox-Port": "49983"}),
        ("a port that is none", {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "70000"}),
        ("an id alone", {"E2b-Sandbox-Id": box.id}),
        ("a port alone", {"E2b-Sandbox-Port": "49983"}),
    ):
        equal(f"headers: {name}", raw(daemon, "GET", "/health", {"Host": "localhost", **lines}), 400)
    daemon.control("DELETE", "/sandboxes/" + other.id)


def crowd(daemon, box):
    """Many streams at once, all silent: within bounds, and gone when their clients are."""
    first = box.start("sleep 1000")
    pid = pid_of(first)
    body = envelope({"process": {"pid": pid}})
    headers = {"Keepalive-Ping-Interval": "50"}
    socks = [box.send("Connect", body, "application/connect+json", headers) for _ in range(1000)]
    kinds = {}
    for sock in socks:
        reply = Reply(sock)
        frame = reply.frame() if reply.status == 200 else None
        kind = reply.status if not frame else "open" if not frame[0] & 2 else frame[1]["error"]["code"]
        kinds[kind] = kinds.get(kind, 0) + 1
    ok("as many as there may be are open", kinds.get("open", 0) >= 100, kinds)
    ok("the others are told to wait", set(kinds) <= {"open", "resource_exhausted", 429, 503, "unavailable"}, kinds)
    for sock in socks:
        sock.close()
    for _ in range(600):
        last = box.stream("Connect", {"process": {"pid": pid}})
        frame = last.frame() if last.status == 200 else None
        last.close()
        if frame and not frame[0] & 2:
            break
        threading.Event().wait(0.05)
    ok("when they hang up there is room again", frame and not frame[0] & 2, frame)
    first.close()
    box.unary("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})


def life(daemon):
    """A sandbox that is paused, resumed or killed while somebody uses it."""
    box = Sandbox(daemon)
    reply = box.start("while sleep 0.05; do echo beat; done")
    pid = pid_of(reply)
    reply.frame()
    daemon.control("POST", f"/sandboxes/{box.id}/pause", {})
    answers = []

    def connect():
        made = daemon.control("POST", f"/v2/sandboxes/{box.id}/connect", {})
        answers.append(made["envdAccessToken"])

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal("four clients resume one sandbox at once", answers, [box.token] * 4)
    again = box.stream("Connect", {"process": {"pid": pid}})
    equal("what ran before goes on", again.frame()[1], {"event": {"start": {"pid": pid}}})
    ok("and is heard", again.frame()[1]["event"].get("data"))
    again.close()
    reply.close()

    def use(command):
        try:
            command()
        except (OSError, ValueError, AttributeError, TypeError, IndexError):
            pass  # cut off: that is what is tried

    uses = [
        lambda: box.start("sleep 1000").frames(),
        lambda: box.unary("List", {}),
        lambda: box.unary("SendInput", {"process": {"pid": pid}, "input": {"stdin": text(b"x" * 100000)}}),
        lambda: box.stream("Connect", {"process": {"pid": pid}}).frames(),
        lambda: box.start("cat /dev/zero").frames(),
        lambda: [box.start("true").frames() for _ in range(20)],
    ]
    threads = [threading.Thread(target=use, args=(command,)) for command in uses]
    for thread in threads:
        thread.start()
    daemon.control("DELETE", "/sandboxes/" + box.id)
    for thread in threads:
        thread.join(30)
    ok("killed in the middle of every call, none is left waiting", not any(thread.is_alive() for thread in threads))
    equal("and it is gone", Reply(box.send("List", b"{}", "application/json")).status, 502)


def main():
    daemon = Daemon(sys.argv[1])
    box = Sandbox(daemon)
    for part in rules, protojson, times, hostile, inputs, behind:
        part(box)
    others(daemon, box)
    crowd(daemon, box)
    life(daemon)
    killed(daemon, box)
    sys.exit(FAILED > 0)


if __name__ == "__main__":
    main()
