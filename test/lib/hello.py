#!/usr/bin/env python3
"""A client that sends a ClientHello of its own making.   hello.py HOST PORT [sni=NAME,...] [pad=BYTES] [split=bytes|records] [twice]
[empty] [ech] [cut] [raw=TEXT] [wait=SECONDS]: prints what came back: "server", "alert N", "closed", "reset", "silent"."""
import socket
import struct
import sys
import time


def extension(kind, data):
    return struct.pack(">HH", kind, len(data)) + data


def hello(options):
    names = [n.encode().decode("unicode_escape").encode("latin1") for n in options.get("sni", "").split(",") if n]
    listed = b"".join(b"\0" + struct.pack(">H", len(n)) + n for n in names)
    server_name = extension(0, struct.pack(">H", len(listed)) + listed) if names or "empty" in options else b""
    extensions = server_name * (2 if "twice" in options else 1)
    extensions += extension(10, b"\0\4\0\x17\0\x1d") + extension(13, b"\0\6\4\3\x08\x04\4\1") + extension(43, b"\4\3\4\3\3")
    extensions += extension(11, b"\1\0")
    key = bytes.fromhex("04" + "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
    extensions += extension(51, struct.pack(">H", len(key) + 4) + b"\0\x17" + struct.pack(">H", len(key)) + key)
    if "ech" in options:
        extensions += extension(0xfe0d, b"\0\0\1\0\1\7" + b"\0\x20" + bytes(32) + b"\0\x10" + bytes(16))
    if "pad" in options:
        extensions += extension(21, bytes(int(options["pad"])))
    body = b"\3\3" + bytes(range(32)) + b"\0" + b"\0\6\x13\1\xc0\x2b\xc0\x2f" + b"\1\0" + struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + struct.pack(">I", len(body))[1:] + body
    size = max(1, len(message) // 4) if options.get("split") == "records" else 16384
    parts = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(p)) + p for p in parts)


def main():
    options = dict((word + "=").split("=")[:2] for word in sys.argv[3:])
    try:
        client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = options["raw"].encode().decode("unicode_escape").encode("latin1") if "raw" in options else hello(options)
        if "cut" in options:
            data = data[:-10]
        if options.get("split") == "bytes":
            for i in range(len(data)):
                client.send(data[i:i + 1])
        else:
            client.sendall(data)
        client.settimeout(float(options.get("wait") or 5))
        answer = client.recv(100)
    except socket.timeout:
        print("silent")
        return
    except ConnectionError:
        print("reset")
        return
    if not answer:
        print("closed")
    elif answer[0] == 21:
        print("alert", answer[6])
    elif answer[0] == 22:
        print("server")
    else:
        print("other", answer[:20])


main()
