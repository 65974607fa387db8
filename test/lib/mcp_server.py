#!/usr/bin/env python3
"""A small MCP server over standard input and output, for the tests; the first argument chooses how it misbehaves.

Tools: echo (text back), add (with an output schema), where (pid, directory, environment), slow (progress until it is cancelled),
grow (adds a tool and says so), picture (an image), die (exits at once).
"""
import base64, json, os, sys, threading, time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
LOCK = threading.Lock()
CANCELLED = set()
EXTRA = []
LOG = os.environ.get("SERVER_LOG")


def note(text):
    if LOG:
        with open(LOG, "a") as log:
            log.write(text + "\n")


def send(message):
    with LOCK:
        message["jsonrpc"] = "2.0"
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def schema(**properties):
    return {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": list(properties)}


def tools():
    rows = [
        {"name": "echo", "description": "Says it again.", "inputSchema": schema(text="string"),
         "annotations": {"readOnlyHint": True, "nonsense": 1}},
        {"name": "add", "title": "Addition", "description": "Adds.", "inputSchema": schema(a="number", b="number"),
         "outputSchema": schema(sum="number")},
        {"name": "where", "description": "Where it runs.", "inputSchema": schema()},
        {"name": "slow", "description": "Takes long.", "inputSchema": schema()},
        {"name": "grow", "description": "One more tool.", "inputSchema": schema()},
        {"name": "picture", "description": "A picture.", "inputSchema": schema()},
        {"name": "die", "description": "Ends.", "inputSchema": schema()},
    ]
    rows += [{"name": name, "description": "grown", "inputSchema": schema()} for name in EXTRA]
    if MODE == "odd":
        rows += [{"name": "a b", "inputSchema": schema()}, {"name": "x" * 200, "inputSchema": schema()},
                 {"name": "no_schema"}, {"name": "echo", "inputSchema": schema()}, 7,
                 {"name": "wide", "inputSchema": {"type": "object", "description": "y" * 70000}}]
    return rows


def text(value, error=False, **more):
    return dict({"content": [{"type": "text", "text": value}], "isError": error}, **more)


def slow(message):
    token = message["params"].get("_meta", {}).get("progressToken")
    note("slow begins")
    for step in range(600):
        if message["id"] in CANCELLED:
            note("slow cancelled")
            return
        if token is not None:
            send({"method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step, "total": 600, "message": "step %d" % step}})
        time.sleep(0.05)
    send({"id": message["id"], "result": text("done")})


def call(message):
    name, args = message["params"]["name"], message["params"].get("arguments", {})
    if name == "echo":
        if args.get("text") == "fail":
            return text("it failed", True)
        return text(args["text"] * args.get("times", 1))
    if name == "add":
        total = args["a"] + args["b"]
        return text(str(total), structuredContent={"sum": total})
    if name == "where":
        return text(json.dumps({"pid": os.getpid(), "cwd": os.getcwd(), "uid": os.getuid(),
                                "env": {key: os.environ.get(key) for key in ("SERVER_KEY", "SECRET_X", "HOME")}}))
    if name == "grow":
        EXTRA.append("grown%d" % len(EXTRA))
        send({"method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "picture":
        return {"content": [{"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"},
                            {"type": "text", "text": "a picture"}, {"type": "strange"}]}
    if name == "die":
        sys.stderr.write("I was told to die\n")
        os._exit(3)
    raise KeyError(name)


def misbehave(message):
    """What hostile servers do instead of an answer to tools/call."""
    number = message["id"]
    if MODE == "endless":
        while True:
            os.write(1, b'{"x":"' + b"y" * 65536)
    if MODE == "huge":
        send({"id": number, "result": text("z" * (9 << 20))})
    if MODE == "wrong":
        for other in (number + 1000, -1, "text", None, 1.5, {"a": 1}, [number]):
            send({"id": other, "result": text("forged")})
        send({"id": number, "result": text("right")})
    if MODE == "junk":
        while True:
            print("this is no message", flush=True)
    if MODE == "broken":
        print('{"jsonrpc":"2.0","id":%d,"result":{' % number, flush=True)
    if MODE == "deep":
        print('{"id":%d,"result":' % number + "[" * 5000 + "]" * 5000 + "}", flush=True)
    if MODE == "flood":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "a" * 50}}) + "\n"
        while True:
            os.write(1, line.encode() * 500)
    if MODE == "pings":
        while True:
            os.write(1, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 500)
    if MODE == "nothing":
        send({"id": number})
    if MODE == "twice":
        send({"id": number, "result": text("first")})
        send({"id": number, "result": text("second")})
    if MODE == "errors":
        os.write(2, b"e" * (4 << 20))
        send({"id": number, "result": text("after the noise")})
    # "mute": no answer at all


def serve(message):
    method = message.get("method")
    if method == "initialize":
        if MODE == "modern":
            return send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        if MODE == "old":
            return send({"id": message["id"], "result": {"protocolVersion": "1999-01-01", "capabilities": {}}})
        if MODE == "greeting":
            print("Welcome to my server!", flush=True)
        return send({"id": message["id"], "result": {"protocolVersion": message["params"]["protocolVersion"],
                                                     "capabilities": {"tools": {"listChanged": True}},
                                                     "serverInfo": {"name": "test", "version": "1"}}})
    if MODE == "modern" and "io.modelcontextprotocol/protocolVersion" not in message["params"].get("_meta", {}):
        return send({"id": message["id"], "error": {"code": -32602, "message": "no version"}})
    if method == "tools/list":
        rows, at = tools(), int(message.get("params", {}).get("cursor", "0"))
        if MODE == "pages":
            return send({"id": message["id"], "result": {"tools": [], "nextCursor": str(at + 1)}})
        result = {"tools": rows[at:at + 5]}
        if at + 5 < len(rows):
            result["nextCursor"] = str(at + 5)
        return send({"id": message["id"], "result": result})
    if method == "notifications/cancelled":
        CANCELLED.add(message["params"]["requestId"])
    if method != "tools/call":
        return None
    if MODE not in ("", "modern", "greeting", "odd"):
        return misbehave(message)
    if message["params"]["name"] == "slow":
        return threading.Thread(target=slow, args=(message,), daemon=True).start()
    try:
        send({"id": message["id"], "result": call(message)})
    except KeyError as error:
        send({"id": message["id"], "error": {"code": -32602, "message": "no tool %s" % error}})
    return None


def main():
    note("started %d" % os.getpid())
    if MODE == "silent":
        time.sleep(3600)
    if MODE == "crash":
        sys.exit("cannot begin: no configuration")
    if MODE == "deaf":
        sys.stdin.close()
    for line in sys.stdin:
        serve(json.loads(line))


main()
