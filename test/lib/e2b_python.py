"""What E2B's Python packages send and demand, where they differ from npm's, with the standard library alone.

usage: E2B_API_KEY=KEY e2b_python.py URL
Prints TAP lines without numbers.
"""
import base64
import datetime
import http.client
import json
import os
import socket
import struct
import sys
import time
import urllib.parse

import connect
from connect import Daemon, Reply, equal, ok

URL = sys.argv[1]
DAEMON = Daemon(URL)
HEADERS = {"X-API-KEY": os.environ["E2B_API_KEY"], "User-Agent": "e2b-python-sdk/2.45.1", "lang": "python",
           "Content-Type": "application/json"}
# Members without which the models of the package fail; none of the others may be null.
SANDBOX = {"sandboxID", "templateID", "clientID", "envdVersion"}
LISTED = SANDBOX | {"startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state"}
METRIC = {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed",
          "diskTotal"}
TEMPLATE_NULLS = {"createdBy", "lastSpawnedAt"}


def api(method, path, body=None):
    connection = http.client.HTTPConnection(*DAEMON.address, timeout=30)
    connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def whole(name, found, wanted):
    missing = wanted - set(found)
    nulls = [key for key, value in found.items() if value is None and key not in ("domain", "allowInternetAccess")]
    ok(name, not missing and not nulls, f"without {missing}, null {nulls}")


def call(method, message, headers=(), envelope=False):
    """An RPC of the sandbox; the older package says that nothing is compressed."""
    data = json.dumps(message).encode()
    if envelope:
        data = struct.pack(">BI", 0, len(data)) + data
    lines = {"Host": "%s:%d" % DAEMON.address, "E2b-Sandbox-Id": ID, "E2b-Sandbox-Port": "49983", "X-Access-Token": TOKEN,
             "Connect-Protocol-Version": "1", "Content-Length": len(data), "User-Agent": "e2b-python-sdk/2.34.0",
             "Content-Type": "application/connect+json" if envelope else "application/json",
             "Connect-Content-Encoding" if envelope else "Content-Encoding": "identity", **dict(headers)}
    sock = socket.create_connection(DAEMON.address, timeout=30)
    sock.sendall(f"POST /{method} HTTP/1.1\r\n".encode() + "".join(f"{k}: {v}\r\n" for k, v in lines.items()).encode()
                 + b"\r\n" + data)
    return Reply(sock)


def bash(command, **more):
    return {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command], "envs": {}}, "stdin": False, **more}


def text(frames, stream):
    return b"".join(base64.b64decode(message["event"]["data"][stream]) for flags, message in frames[:-1]
                    if stream in message.get("event", {}).get("data", {})).decode()


# ---- the control plane: v1, with everything always there ----
status, made = api("POST", "/sandboxes", {"templateID": "base", "timeout": 300, "metadata": {}, "envVars": {},
    "autoPause": False, "secure": True, "allow_internet_access": True})
equal("create", status, 201)
whole("its model", made, SANDBOX | {"envdAccessToken"})
ID, TOKEN = made["sandboxID"], made["envdAccessToken"]
status, info = api("GET", f"/sandboxes/{ID}")
whole("the model of one sandbox", info, LISTED)
ok("without objects that are null", "network" not in info and info["lifecycle"]["onTimeout"] == "kill", info)
zone = datetime.timezone(datetime.timedelta(hours=2))
hour_ago = (datetime.datetime.now(zone) - datetime.timedelta(hours=1)).isoformat()
status, listed = api("GET", "/v2/sandboxes?limit=100&startedAfter=" + urllib.parse.quote(hour_ago))
equal("a list since a time with an offset", (status, listed[0]["sandboxID"]), (200, ID))
whole("the model of a list", listed[0], LISTED)
status, metrics = api("GET", f"/sandboxes/{ID}/metrics")
equal("metrics", status, 200)
for metric in metrics[-1:]:
    whole("the model of a metric", metric, METRIC)
status, templates = api("GET", "/templates")
ok("the model of a template", status == 200 and all(
    set(key for key, value in one.items() if value is None) <= TEMPLATE_NULLS for one in templates), templates)
status, _ = api("POST", f"/sandboxes/{ID}/connect", {"timeout": 300})
equal("connect", status, 200)
status, refused = api("GET", "/sandboxes/0123456789abcdef")
equal("a sandbox that is not there has both members", (status, refused["code"], type(refused["message"])),
      (404, 404, str))

# ---- processes: identity everywhere, deadlines that the server keeps ----
reply = call("process.Process/Start", bash("echo out; echo err >&2; exit 3"), envelope=True)
frames = reply.frames()
equal("a stream that is not compressed", (reply.status, text(frames, "stdout"), text(frames, "stderr")),
      (200, "out\n", "err\n"))
equal("its end", frames[-2][1]["event"]["end"], {"exitCode": 3, "exited": True, "status": "exit status 3",
      "error": "exit status 3"})
begun = time.monotonic()
frames = call("process.Process/Start", bash("sleep 60"), {"Connect-Timeout-Ms": "500"}, envelope=True).frames()
equal("a deadline is the server's to keep", frames[-1][1]["error"]["code"], "deadline_exceeded")
ok("in time", time.monotonic() - begun < 5)
reply = call("process.Process/List", {}, {"Connect-Timeout-Ms": "30000"})
equal("a call with a deadline", (reply.status, reply.json().get("processes", [])), (200, []))
reply = call("process.Process/List", {})
equal("and without", reply.status, 200)
start = call("process.Process/Start", bash("read x; echo got $x", stdin=True, tag="t"), envelope=True)
pid = start.frame()[1]["event"]["start"]["pid"]
equal("input", call("process.Process/SendInput", {"process": {"pid": pid}, "input": {
    "stdin": base64.b64encode(b"hello\n").decode()}}).status, 200)
equal("reaches it", text(start.frames(), "stdout"), "got hello\n")

# ---- files: the synchronous package polls its watchers ----
made = call("filesystem.Filesystem/MakeDir", {"path": "/home/user/watched"})
equal("a directory", made.status, 200)
watcher = call("filesystem.Filesystem/CreateWatcher", {"path": "/home/user/watched", "recursive": False}).json()
connection = http.client.HTTPConnection(*DAEMON.address, timeout=30)
part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="watched/a.txt"\r\n\r\nhi\r\n--b--\r\n'
connection.request("POST", "/files", part, {"Content-Type": "multipart/form-data; boundary=b", "X-Access-Token": TOKEN,
                                            "E2b-Sandbox-Id": ID, "E2b-Sandbox-Port": "49983"})
equal("an upload with a length", json.loads(connection.getresponse().read()),
      [{"path": "/home/user/watched/a.txt", "name": "a.txt", "type": "file"}])
seen, until = [], time.monotonic() + 10
while not seen and time.monotonic() < until:
    answer = call("filesystem.Filesystem/GetWatcherEvents", {"watcherId": watcher["watcherId"]}).json()
    seen = [event["name"] for event in answer.get("events", [])]
ok("is seen by a watcher that is asked", "a.txt" in seen, seen)
equal("which goes when it is told to",
      [call("filesystem.Filesystem/RemoveWatcher", {"watcherId": watcher["watcherId"]}).status,
       call("filesystem.Filesystem/GetWatcherEvents", {"watcherId": watcher["watcherId"]}).status], [200, 404])
entries = call("filesystem.Filesystem/ListDir", {"path": "watched", "depth": 1}).json()["entries"]
equal("a listing", [(entry["name"], entry["type"], entry["size"], entry["owner"]) for entry in entries],
      [("a.txt", "FILE_TYPE_FILE", "2", "user")])

# ---- code: every line of output has its time ----
connection = http.client.HTTPConnection(*DAEMON.address, timeout=60)
connection.request("POST", "/execute", json.dumps({"code": "print(1)\n2", "context_id": None, "language": None,
    "env_vars": None}), {"Content-Type": "application/json", "X-Access-Token": TOKEN, "E2b-Sandbox-Id": ID,
                         "E2b-Sandbox-Port": "49999"})
lines = [json.loads(line) for line in connection.getresponse().read().decode().splitlines()]
ok("code, with times", [line["type"] for line in lines] == ["number_of_executions", "stdout", "result",
    "end_of_execution"] and lines[1]["timestamp"].endswith("Z"), lines)
equal("kill", api("DELETE", f"/sandboxes/{ID}")[0], 204)
equal("once", api("DELETE", f"/sandboxes/{ID}")[0], 404)
sys.exit(connect.FAILED > 0)
