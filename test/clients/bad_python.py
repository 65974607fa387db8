#!/usr/bin/env python3
"""The Python client where things go wrong: connections that are cut, a daemon that dies, certificates, slow readers,
cancellation. usage: bad_python.py WORK: the directory that test/front/clients_test.sh made, with the daemon's socket,
its pid, the script `again` that starts it again, and certificates. CUBBY_CUT: a proxy that cuts each connection."""
import asyncio, gc, os, resource, signal, subprocess, sys, threading, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import cubby  # noqa: E402
import cubby.aio  # noqa: E402

WORK = sys.argv[1]
failed = 0


def report(name, good, why=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'not ok'} - {name}" + ("" if good else f" # {why}"[:600].replace("\n", " ")), flush=True)


def caught(call, *arguments, **more):
    try:
        return call(*arguments, **more)
    except cubby.CubbyError as error:
        return error


def eventually(check, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def ended(box, pattern):
    return eventually(lambda: not box.run(["pgrep", "-f", pattern]).stdout)


def cuts(box):
    client = cubby.Client(os.environ["CUBBY_CUT"])
    near = client.connect(box.id)
    error = caught(near.run, "echo x >> ran; head -c 400000 /dev/zero")
    report("a proxy cuts the answer to a command", isinstance(error, cubby.Unreachable) and error.sent, repr(error))
    time.sleep(0.2)
    report("and the command ran once", box.files.read("ran") == "x\n", box.files.read("ran"))
    box.files.write("big", b"z" * 1000000)
    error = caught(near.files.download, "big", f"{WORK}/down")
    report("a cut download is an error", isinstance(error, cubby.Unreachable), repr(error))
    report("and leaves nothing", not [name for name in os.listdir(WORK) if name.startswith("down")], os.listdir(WORK))
    error = caught(near.files.write, "up", b"y" * 1000000)
    report("a cut upload is an error", isinstance(error, cubby.Unreachable), repr(error))
    report("and writes nothing", not box.files.exists("up"))
    error = caught(lambda: [0 for _ in near.stream("seq 1000000")])
    report("a cut stream is an error", isinstance(error, cubby.Unreachable), repr(error))


def leaving(box):
    before = descriptors()
    for item in box.stream("echo begun; sleep 9001"):
        break
    del item
    report("leaving a stream ends its command", ended(box, "sleep 9001"))
    stream = box.stream("yes")
    first = next(stream)
    report("a slow reader disturbs nobody", first.text.startswith("y") and box.run("echo quick").stdout == "quick\n")
    stream.close()
    report("closing a stream ends its command", ended(box, "^yes"))
    report("no connection is left open", eventually(lambda: descriptors() <= before + 1), f"{before} {descriptors()}")


def hostile_archive():
    """An archive of a box that was taken over: nothing leaves the directory it is unpacked into."""
    import io, tarfile
    from cubby._wire import extract
    raw, target = io.BytesIO(), f"{WORK}/unpacked"
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind, link in (("good.txt", tarfile.REGTYPE, ""), ("../out.txt", tarfile.REGTYPE, ""),
                                 ("/abs.txt", tarfile.REGTYPE, ""), ("away", tarfile.SYMTYPE, ".."), ("away/x", tarfile.REGTYPE, ""),
                                 ("passwd", tarfile.SYMTYPE, "/etc/passwd"), ("near", tarfile.SYMTYPE, "good.txt"),
                                 ("hard", tarfile.LNKTYPE, "../pid"), ("pipe", tarfile.FIFOTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(b"text"))
    os.makedirs(target)
    before = sorted(os.listdir(WORK))
    raw.seek(0)
    left_out = extract(raw, target)
    report("an archive cannot leave its directory", sorted(os.listdir(WORK)) == before and "passwd" in left_out
           and "../out.txt" in left_out and "hard" in left_out and sorted(os.listdir(target)) == ["away", "good.txt", "near"]
           and os.listdir(f"{target}/away") == ["x"] and not os.path.exists("/abs.txt"),
           f"{left_out} {os.listdir(target)}")


def mcp():
    """What Box.mcp() says is enough for an MCP client."""
    import json, urllib.request
    with cubby.Client(os.environ["CUBBY_CUT"]).box(thread="mcp") as box:
        where = box.mcp()
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
        request = urllib.request.Request(where["url"], json.dumps(message).encode(), {
            **where["headers"], "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
        text = urllib.request.urlopen(request, timeout=20).read().decode()
        report("an MCP client finds the box", "serverInfo" in text and where["headers"]["Cubby-Thread"] == "mcp", text)
        box.delete()


def certificates(address):
    url = f"https://{address}"
    report("a certificate of one's own authority", caught(cubby.Client(url, ca=f"{WORK}/cert.pem").health)["status"] == "ok")
    for name, more in (("without it", {}), ("with another one", {"ca": f"{WORK}/other.pem"})):
        begun = time.monotonic()
        error = caught(cubby.Client(url, **more).health)
        good = isinstance(error, cubby.BadCertificate) and isinstance(error, ConnectionError)
        report(f"a certificate {name}", good and time.monotonic() - begun < 5, repr(error))
    error = caught(cubby.Client(url, ca=f"{WORK}/missing.pem").health)
    report("a file of certificates that is not there", isinstance(error, cubby.BadCertificate), repr(error))
    error = caught(cubby.Client(f"http://{address}").health)
    report("HTTP to a port for HTTPS", isinstance(error, (cubby.Unreachable, cubby.CubbyError)), repr(error))


def parallel(box):
    results, threads = {}, []
    for i in range(200):
        threads.append(threading.Thread(target=lambda i=i: results.__setitem__(i, caught(box.run, f"echo {i}"))))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    wrong = {i: r for i, r in results.items() if getattr(r, "stdout", None) != f"{i}\n"}
    report("200 commands at once, in threads", len(results) == 200 and not wrong, list(wrong.items())[:3])


def large(box):
    def pieces():
        for _ in range(1200):
            yield piece
    piece, before = os.urandom(262144), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    box.files.write("/tmp/large", pieces())
    size = sum(len(each) for each in box.files.open("/tmp/large"))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    report("300 MB up and down in flat memory", size == 1200 * 262144 and grown < 64, f"{size} {grown} MB")
    box.files.remove("/tmp/large")


async def cancelled(box_id):
    async with cubby.aio.Client() as client:
        box = client.connect(box_id)
        tasks = [asyncio.create_task(box.run("sleep 9002")) for _ in range(20)]
        tasks[0].cancel()  # before it begins
        while len((await box.run(["pgrep", "-f", "sleep 9002"])).stdout.split()) < 19:
            pass
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        report("cancelled commands", all(isinstance(each, asyncio.CancelledError) for each in done), done[:2])
        process = await box.spawn("sleep 9003")
        try:
            await process.wait(0.1)
            report("waiting has a limit", False)
        except TimeoutError:
            report("waiting has a limit", True)
        await process.kill()
        report("the client works on", (await box.run("echo on")).stdout == "on\n")
        results = await asyncio.gather(*[box.run(f"echo {i}") for i in range(200)])
        report("200 commands at once, in asyncio", [r.stdout for r in results] == [f"{i}\n" for i in range(200)])


def dies(box):
    process = box.spawn("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); sleep 0.01; done")
    follow, lines, begun = process.follow(), b"", time.monotonic()
    stream = box.stream("echo x >> died; sleep 9004")
    opener = threading.Thread(target=lambda: caught(next, stream, None))
    opener.start()
    eventually(lambda: box.files.exists("died"))
    os.kill(int(open(f"{WORK}/pid").read()), signal.SIGKILL)
    opener.join(20)
    error = caught(next, stream, None)
    report("a daemon dies in the middle of a stream", not opener.is_alive(), repr(error))
    gone = eventually(lambda: not getattr(caught(cubby.Client(retries=0).health), "sent", True))
    report("no daemon", gone)
    thread = threading.Thread(target=subprocess.run, args=([f"{WORK}/again"],))
    thread.start()
    for item in follow:
        if isinstance(item, cubby.Exit):
            break
        lines += item.data
    thread.join()
    want = b"".join(b"%d\n" % i for i in range(300))
    report("following a process goes on after a restart", lines == want, f"{len(lines)} of {len(want)}")
    report("and the command of the stream ran once", box.files.read("died") == "x\n")
    report("the same client works on", box.run("echo on").stdout == "on\n")


def main():
    client = cubby.Client()
    box = client.box()
    hostile_archive()
    mcp()
    certificates(os.environ["CUBBY_TLS"])
    cuts(box)
    leaving(box)
    asyncio.run(cancelled(box.id))
    report("cancelled commands end in the box", ended(box, "sleep 900[23]"))
    parallel(box)
    large(box)
    dies(box)
    box.delete()


main()
sys.exit(failed > 0)
