#!/usr/bin/env python3
"""What a box does to use up the network (hostile/net_exhaust).   net_exhaust.py ACT HOST PORT COUNT [SECONDS]: prints one number.
connect: p95 in microseconds of COUNT connections with a byte and its echo, one after the other. many: how many of COUNT connections held at
once are echoed. silent: how many of COUNT that say nothing are still open at the end. pace: how many of COUNT a second for SECONDS are echoed.
hellos, heads: milliseconds until the last of COUNT unfinished ones is closed. download: kbit a second over COUNT seconds."""
import select
import socket
import sys
import time

act, host, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
address = socket.gethostbyname(host)


def start():
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex((address, port))
    return one


def all_of(number, first=b""):
    """That many connections, each with its first bytes; those that were refused at once are left out."""
    made = []
    for i in range(number):
        one = start()
        if first:
            waiting = select.poll()
            waiting.register(one, select.POLLOUT)
            waiting.poll(1000)
        try:
            if first:
                one.send(first)
            made.append(one)
        except OSError:
            one.close()
        if i % 500 == 499 and act in ("many", "silent"):
            made = ended(made, 0)[0]
            for _ in range(100):  # a process has 4,096 descriptors; what is refused late is waited for
                if len(made) + len(kept) <= 2500:
                    break
                made = ended(made, 0.2)[0]
    return made


def ended(sockets, seconds):
    """(still open, answered) after so many seconds, or when all have ended."""
    poller, known, answered = select.epoll(), {s.fileno(): s for s in sockets}, 0
    for fd in known:
        poller.register(fd, select.EPOLLIN)
    end = time.monotonic() + seconds
    while known:
        ready = poller.poll(max(0, end - time.monotonic()), 1000)
        for fd, _ in ready:
            poller.unregister(fd)
            one = known[fd]
            try:
                if one.recv(100):
                    answered += 1
                    kept.append(known.pop(fd))
                    continue
            except OSError:
                pass
            known.pop(fd).close()
        if not ready and time.monotonic() >= end:
            break
    return list(known.values()), answered


kept = []
if act == "connect":
    times = []
    for _ in range(count):
        before = time.monotonic()
        one = socket.create_connection((address, port), 5)
        one.sendall(b"x")
        if not one.recv(100):
            raise SystemExit("no echo")
        times.append(time.monotonic() - before)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0, 0, 0, 0, 0)))
        one.close()
    print(int(sorted(times)[len(times) * 95 // 100] * 1e6))
elif act == "many":
    ended(all_of(count, b"x"), 2)
    print(len(kept))
elif act == "silent":
    left, before = all_of(count), count
    while len(left) < before:  # until none ended for a second
        left, before = ended(left, 1)[0], len(left)
    print(len(left))
elif act == "pace":
    begun, made = time.monotonic(), 0
    while made < count * int(sys.argv[5]):
        due = int((time.monotonic() - begun) * count) - made
        ended(all_of(min(due, 50), b"x"), 0.02)
        made += max(0, min(due, 50))
        kept = [one.close() for one in kept] and kept
    print(len(kept))
elif act in ("hellos", "heads"):
    begun = time.monotonic()
    left = all_of(count, b"\x16\x03\x01\x02\x00\x01" if act == "hellos" else b"G")
    while left and time.monotonic() - begun < 30:
        left = ended(left, 1)[0]
        for one in left if act == "heads" else ():
            try:
                one.send(b"E")
            except OSError:
                pass
    print(int((time.monotonic() - begun) * 1000))
else:
    one = socket.create_connection((address, port), 5)
    one.settimeout(5)
    one.sendall(b"GET /bytes/100000000000 HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
    begun, got = time.monotonic(), 0
    while time.monotonic() - begun < count:
        got += len(one.recv(1 << 20))
    print(int(got * 8 / 1000 / (time.monotonic() - begun)))
