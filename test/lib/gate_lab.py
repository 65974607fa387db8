#!/usr/bin/env python3
"""A box for cubby-gate without a daemon: its namespace, its sockets, route and table, and the gate's control channel.

gate_lab.py GATE DIRECTORY: prints {"box": PID}, then obeys one JSON object a line on standard input and answers each with one:
{"put": POLICY or [LEVELS], "keep": false, "inspect": []}, {"count": true}, {"rows": true} (those since the last time), {"kill": true}, {"start": true, "descriptors": N},
{"answer": QUESTION, "allow": true, "for_ms": 0}, {"drop": true}. HELLO comes from DIRECTORY/hello.json.
"""
import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time

NAME, WHY, ADDRESS = 254, 320, 48
IP_TRANSPARENT, NETLINK_SOCK_DIAG = 19, 4
HELLO, BOX, DROP, ANSWER, SEAL, COUNT, READY, ACK, ROWS, WANT_SEAL, COUNTED = 1, 2, 3, 4, 5, 6, 65, 66, 67, 68, 69
libc = ctypes.CDLL(None, use_errno=True)


class Message(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("kind", ctypes.c_uint16), ("keep", ctypes.c_uint8), ("allow", ctypes.c_uint8),
                ("id", ctypes.c_char * 17), ("name", ctypes.c_char * NAME), ("generation", ctypes.c_uint64), ("value", ctypes.c_uint64)]


class Row(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("denied", ctypes.c_uint8), ("observed", ctypes.c_uint8), ("protocol", ctypes.c_uint8),
                ("udp", ctypes.c_uint8), ("port", ctypes.c_uint16), ("id", ctypes.c_char * 17), ("name", ctypes.c_char * NAME),
                ("address", ctypes.c_char * ADDRESS), ("why", ctypes.c_char * WHY), ("method", ctypes.c_char * 16),
                ("status", ctypes.c_uint16), ("cgroup", ctypes.c_uint64), ("question", ctypes.c_uint64), ("bytes_in", ctypes.c_uint64),
                ("bytes_out", ctypes.c_uint64), ("duration_us", ctypes.c_uint64), ("count", ctypes.c_uint64), ("generation", ctypes.c_uint64)]


COUNTS = "boxes active held connections denied cut failed dns dns_denied dns_budget requests bytes_in bytes_out udp dial_us dials".split()

TABLE = """table inet gate {
  set uports { type inet_service; elements = { 123 }; }
  chain pre { type filter hook prerouting priority -150; policy accept;
    ip daddr 127.0.0.0/8 accept
    ip daddr 10.204.0.2 accept
    ip daddr { 0.0.0.0/8, 169.254.0.0/16, 168.63.129.16, 192.0.0.192, 224.0.0.0/4, 240.0.0.0/4, 100.100.100.200 } meta l4proto tcp reject with tcp reset
    tcp flags & (syn | ack) == syn tcp dport { 853 } reject with tcp reset
    tcp flags & (syn | ack) == syn tproxy ip to 127.255.255.254:1 accept
    tcp flags & (syn | ack) == syn reject with tcp reset
    meta l4proto tcp accept
    udp dport 53 tproxy ip to 127.0.0.53:53 accept
    udp dport @uports accept
    reject with icmpx port-unreachable
  }
}"""


def make_sockets(pid):
    """In the namespace of pid; a process of its own enters it and hands them back."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        if libc.setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), 0) != 0:
            os._exit(1)
        made = []
        for kind, address in ((socket.SOCK_STREAM, ("127.255.255.254", 1)), (socket.SOCK_DGRAM, ("127.0.0.53", 53)),
                              (socket.SOCK_STREAM, ("127.0.0.53", 53)), (None, None), (socket.SOCK_DGRAM, ("0.0.0.0", 123))):
            if kind is None:
                made.append(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, NETLINK_SOCK_DIAG))
                continue
            one = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)
            one.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen(1024)
            made.append(one)
        socket.send_fds(theirs, [b"x"], [s.fileno() for s in made])
        os._exit(0)
    fds = socket.recv_fds(ours, 1, 8)[1]
    os.wait()
    return fds


class Lab:
    def __init__(self, program, where):
        self.program, self.where, self.generation, self.rows, self.sent = program, where, 0, [], None
        self.box = subprocess.Popen(["unshare", "-n", "-m", "sleep", "infinity"])
        here = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.box.pid}/ns/net") == here:
            time.sleep(0.01)
        with open(f"{where}/resolv", "w") as file:
            file.write("nameserver 127.0.0.53\noptions timeout:2 attempts:2\n")
        with open(f"{where}/table", "w") as file:
            file.write(TABLE)
        script = f"mount --bind {where}/resolv /etc/resolv.conf; ip link set lo up; ip addr add 10.204.0.2/32 dev lo; " \
                 f"ip route add local 0.0.0.0/0 dev lo src 10.204.0.2; nft -f {where}/table"
        subprocess.run(["nsenter", "-t", str(self.box.pid), "-n", "-m", "sh", "-ec", script], check=True)
        self.sockets = make_sockets(self.box.pid)
        self.start()

    def start(self, descriptors=None):
        def prepare():
            os.dup2(theirs.fileno(), 3)
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gate = subprocess.Popen([self.program], pass_fds=[3] if theirs.fileno() == 3 else [],
                                     preexec_fn=prepare, close_fds=False)
        theirs.close()
        with open(f"{self.where}/hello.json") as file:
            tallies = os.memfd_create("tallies")
            os.ftruncate(tallies, 4096 * 8)
            self.send(HELLO, text=file.read(), fds=[tallies])
            os.close(tallies)
        self.wait(READY)

    def send(self, kind, text=None, fds=(), **members):
        message = Message(version=1, kind=kind, id=b"0123456789abcdef", **members)
        passed = list(fds)
        if text is not None:
            memfd = os.memfd_create("policy")
            os.write(memfd, text.encode())
            passed.insert(0, memfd)
        socket.send_fds(self.control, [bytes(message)], passed)
        if text is not None:
            os.close(passed[0])

    def wait(self, kind, seconds=5):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not select.select([self.control], [], [], end - time.monotonic())[0]:
                break
            data = self.control.recv(65536)
            if not data:
                break
            message = Message.from_buffer_copy(data)
            rest = data[ctypes.sizeof(Message):]
            if message.kind == ROWS:
                self.rows += [Row.from_buffer_copy(rest, i * ctypes.sizeof(Row)) for i in range(message.value)]
            elif message.kind == kind:
                return message, rest
        return None, b""

    def put(self, order):
        levels = order["put"] if isinstance(order["put"], list) else [order["put"]]
        self.sent = {"levels": levels, "inspect": order.get("inspect", [])}
        self.generation += 1
        fresh = order.get("sockets", self.generation == 1)
        self.send(BOX, text=json.dumps(self.sent), fds=self.sockets if fresh else (), generation=self.generation,
                  keep=order.get("keep", False), value=15 if fresh else 0)
        message, _ = self.wait(ACK)
        return {"ack": message.generation if message else None, "cut": message.value if message else None,
                "fine": bool(message and message.allow)}

    def obey(self, order):
        if "put" in order:
            return self.put(order)
        if "kill" in order:
            self.gate.send_signal(signal.SIGKILL)
            self.gate.wait()
            return {}
        if "start" in order:
            self.start(order.get("descriptors"))
            return self.put({"put": self.sent["levels"], "inspect": self.sent["inspect"], "sockets": True})
        if "answer" in order:
            self.send(ANSWER, value=order["answer"], allow=order["allow"], generation=order.get("for_ms", 0))
            return {}
        if "drop" in order:
            self.send(DROP)
            self.generation = 0
            return {}
        self.send(COUNT)
        message, rest = self.wait(COUNTED)
        if "rows" in order:
            rows, self.rows = self.rows, []
            texts = ("name", "address", "why", "method")
            return {"rows": [{f: (getattr(r, f).decode() if f in texts else getattr(r, f)) for f, _ in Row._fields_ if f != "id"} for r in rows]}
        numbers = array.array("Q", rest) if message else []
        return dict(zip(COUNTS, numbers))


def main():
    lab = Lab(sys.argv[1], sys.argv[2])
    print(json.dumps({"box": lab.box.pid, "gate": lab.gate.pid}), flush=True)
    for line in sys.stdin:
        print(json.dumps(lab.obey(json.loads(line))), flush=True)
    lab.gate.kill()
    lab.box.kill()


main()
