#!/usr/bin/env python3
"""cubby's Python client against a real daemon. usage: client_python.py sync|async
CUBBY_URL and CUBBY_TOKEN name the daemon. cases.json says what to do and what must come of it; each word there is a
function here. Both halves of the client run it: the steps are async, and `Sync` answers at once."""
import asyncio, binascii, json, os, sys, threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../clients/python"))
import cubby  # noqa: E402
import cubby.aio  # noqa: E402

SYNC = sys.argv[1] == "sync"
API = cubby if SYNC else cubby.aio
failed = 0


def report(name, good, why=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'not ok'} - {name}" + ("" if good else f" # {why}"[:600].replace("\n", " ")), flush=True)


async def got(value):
    """What the asynchronous client promises and the other one has."""
    return await value if hasattr(value, "__await__") else value


async def items(source):
    if SYNC:
        for item in source:
            yield item
    else:
        async for item in source:
            yield item


async def enter(manager):
    return manager.__enter__() if SYNC else await manager.__aenter__()


async def leave(manager):
    return manager.__exit__(None, None, None) if SYNC else await manager.__aexit__(None, None, None)


class Steps:
    def __init__(self, client, box):
        self.client, self.box, self.files = client, box, box.files

    async def run(self, command, options={}):
        if isinstance(command, dict):
            command = command["repeat"] * command["times"]
        result = await got(self.box.run(command, **options))
        return {**result, "ok": result.ok, "lossy": result.lossy, "truncated": result.truncated}

    async def callbacks(self, command):
        seen = {"stdout": "", "stderr": ""}

        def keep(name):
            return lambda text: seen.__setitem__(name, seen[name] + text)
        result = await got(self.box.run(command, on_stdout=keep("stdout"), on_stderr=keep("stderr")))
        return {**seen, "exit_code": result.exit_code} if seen["stdout"] == result.stdout else None

    async def stream(self, command, options={}):
        out, last, total = {"stdout": b"", "stderr": b""}, [], 0
        async for item in items(self.box.stream(command, **options)):
            if isinstance(item, cubby.Output):
                total += len(item.data)
                out[item.stream] += item.data[:1000]
            else:
                last.append(type(item).__name__)
                exit_code = item.result.exit_code
        return {"stdout": out["stdout"].decode(), "stderr": out["stderr"].decode(), "items": last, "bytes": total,
                "exit_code": exit_code}

    async def spawn(self, command, options):
        process = await got(self.box.spawn(command, **options))
        result = await got(process.wait(30))
        return {**result, "poll": await got(process.poll())}

    async def session(self, commands):
        session = self.box.session("work")
        for command in commands:
            result = await got(session.run(command))
        await got(session.close())
        return dict(result)

    async def read(self, path):
        return await got(self.files.read(path))

    async def write(self, path, text):
        await got(self.files.write(path, text))
        return {"text": await got(self.files.read(path)), "size": (await got(self.files.stat(path))).size}

    async def write_stale(self, path):
        await got(self.files.write(path, "x", if_match='"1-1-1"'))

    async def write_many(self, files, below):
        await got(self.files.write_many(files))
        return {"paths": sorted(entry.path for entry in await got(self.files.list(below, depth=5)))}

    async def glob(self, pattern):
        return {"paths": sorted(await got(self.files.glob(pattern)))}

    async def grep(self, pattern, path):
        found = await got(self.files.grep(pattern, path))
        return {"found": [f"{m.path}:{m.line}:{m.text}" for m in found.matches]}

    async def edit(self, path, old, new):
        done = await got(self.files.edit(path, old, new))
        return {"replacements": done.replacements, "text": await got(self.files.read(path))}

    async def move(self, source, target):
        await got(self.files.move(source, target))
        return {"exists": [await got(self.files.exists(source)), await got(self.files.exists(target))]}

    async def odd_name(self, digits):
        name = "odd/" + os.fsdecode(binascii.unhexlify(digits))
        await got(self.files.write(name, "odd"))
        found = (await got(self.files.list("odd")))[0].path
        text = await got(self.files.read(found))
        await got(self.files.move(found, found + "2"))
        await got(self.files.remove(found + "2"))
        return {"text": text, "gone": not await got(self.files.list("odd"))}

    async def remove(self, path):
        await got(self.files.remove(path))

    async def snapshot(self):
        await got(self.files.write("s.txt", "before"))
        await got(self.box.snapshots.create("first"))
        await got(self.files.write("s.txt", "after"))
        changed = any(change.path == "/workspace/s.txt" for change in await got(self.box.diff()))
        await got(self.box.rollback("first"))
        return {"names": [each.name for each in await got(self.box.snapshots.list())], "changed": changed,
                "text": await got(self.files.read("s.txt"))}

    async def fork(self):
        other = await got(self.box.fork())
        text = await got(other.files.read("s.txt"))
        await got(other.delete())
        return {"text": text}

    async def tool(self, name, arguments):
        return dict(await got(self.box.tool(name, **arguments)))

    async def pty(self, text):
        terminal = self.box.pty(100, 30)
        await enter(terminal)
        await got(terminal.write(text))
        seen = b""
        while data := await got(terminal.read(30)):
            seen += data
        await leave(terminal)
        return {"saw": "30 100" if b"30 100" in seen else seen.decode(), "exit_code": terminal.exit.exit_code}

    async def watch(self, path, name):
        watch = self.files.watch(path)
        await got(watch.ready())
        await got(self.files.write(f"{path}/{name}", "x"))
        async for event in items(watch):
            if event.path.endswith(name):
                return {"path": event.path}

    async def port(self, port):
        program = f"echo served > index.html; exec python3 -m http.server {port}"
        server = await got(self.box.spawn(program, cwd="/tmp"))
        answer = {"status": 0}
        for _ in range(200):
            answer = await got(self.box.port(port).request("GET", "/index.html"))
            if answer.status == 200:
                break
            await asyncio.sleep(0.05)
        await self.forwarded(port)
        await got(server.kill())
        return {"status": answer.status, "body": answer.body.decode().strip()}

    async def forwarded(self, port):
        import socket
        manager = self.box.port(port).forward()
        with socket.create_connection(await enter(manager), 10) as peer:
            peer.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
            text = b""
            while data := peer.recv(4096):
                text += data
        await leave(manager)
        report("a forwarded port", text.startswith(b"HTTP/1.0 200") and text.endswith(b"served\n"), text)

    async def port_closed(self, port):
        return {"status": (await got(self.box.port(port).request("GET"))).status}

    async def pause(self):
        return {"states": [(await got(self.box.pause())).state, (await got(self.box.resume())).state]}

    async def missing_box(self):
        await got(self.client.connect("0123456789abcdef").run("true"))

    async def bad_box(self, fields):
        await got(API.Box.create(client=self.client, **fields))

    async def boxes(self):
        return {"count": len(await got(self.client.boxes(label="case")))}

    async def events(self):
        stream = self.client.events(box=self.box.id, after="0")
        async for event in items(stream):
            return {"type": event.type}

    async def audit(self):
        await got(self.box.run("echo audited"))
        last = None
        async for row in items(self.client.audit(box=self.box.id, verb="exec")):
            last = row
        return {"verb": last.verb, "detail": last.detail}

    async def token(self):
        token = await got(self.client.tokens.create(user="eve", scope="user"))
        other = API.Client(self.client.place.url, token.token)
        await got(other.boxes())
        await got(self.client.tokens.revoke(token.id))
        await got(other.boxes())

    async def wrong_token(self):
        await got(API.Client(self.client.place.url, "cubby_" + "0" * 32).boxes())

    async def e2b(self):
        box = await got(API.Sandbox.create(client=self.client, envs={"A": "1"}, metadata={"from": "e2b"}))
        result = await got(box.commands.run("echo $A"))
        handle = await got(box.commands.run("exit $B", background=True, envs={"B": "2"}))
        await got(box.files.make_dir("d"))
        await got(box.files.write_files({"d/a": "hi"}))
        await got(box.files.rename("d/a", "d/b"))
        size = (await got(box.files.get_info("d/b"))).size
        same = (await got(box.get_info())).id == box.sandbox_id == API.Sandbox.connect(box.sandbox_id, self.client).id
        ended = await got(handle.wait(30))
        await got(box.kill())
        return {"stdout": result.stdout, "exit_code": ended.exit_code, "same": same, "size": size,
                "gone": not await got(box.is_running())}

    async def skills(self):
        return {"prompt": await got(self.box.skills.prompt())}

    async def ends(self):
        box = API.Box(client=self.client)
        await enter(box)
        id = box.id
        await leave(box)
        kept = API.Box(client=self.client, thread="ends")
        await enter(kept)
        await leave(kept)
        state = (await got(kept.info())).state
        await got(kept.delete())
        return {"deleted": id not in [each.id for each in await got(self.client.boxes())], "released": state}


async def case(steps, case):
    word, *arguments = case["do"]
    try:
        value, error = await getattr(steps, word)(*arguments), None
    except cubby.CubbyError as caught:
        value, error = None, caught
    if "error" in case:
        good = error is not None and case["error"] in [kind.__name__ for kind in type(error).__mro__] and str(error)
        report(case["name"], good, f"{error!r} {value!r}")
        return
    wrong = {key: (value or {}).get(key) for key, want in case["want"].items() if value is None or value.get(key) != want}
    report(case["name"], not wrong, f"want {case['want']}, got {wrong} {error!r}")


async def main():
    client = API.Client()
    box = await got(API.Box.create(client=client, labels={"case": "x"}))
    steps = Steps(client, box)
    for each in json.load(open(f"{HERE}/cases.json")):
        await asyncio.wait_for(case(steps, each), 60)
    report("cubby's errors are those that people catch", issubclass(cubby.FileNotFound, FileNotFoundError)
           and issubclass(cubby.Denied, PermissionError) and issubclass(cubby.Timeout, TimeoutError)
           and issubclass(cubby.Unreachable, ConnectionError) and issubclass(cubby.Exists, FileExistsError))
    await got(box.delete())
    await got(client.close() if SYNC else client.aclose())


threading.excepthook = lambda what: report("threads end in order", False, repr(what.exc_value))
asyncio.run(main())
sys.exit(failed > 0)
