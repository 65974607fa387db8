#!/usr/bin/env python3
"""The internet of the network tests, in a namespace of its own (test/lib/world.sh).   world.py DIRECTORY

DIRECTORY/zone.json, read anew for each question: {"NAME": {"a": [...], "aaaa": [...], "ttl": 60, "rcode": 0, "next": {...}}}; "next" replaces
the entry after its first answer; "cname": names between, "name": another owner, "many": so many addresses, "raw": bytes in place of records. A host with a directory DIRECTORY/www/HOST serves the files there.
DIRECTORY/dns.log: "NAME TYPE" a line; DIRECTORY/tcp.log: "ADDRESS PORT" for each connection, "http ADDRESS
METHOD HOST PATH" for each request, "auth HOST VALUE" where it has Authorization. Ports: 53 DNS, 80 HTTP, 443 HTTPS (DIRECTORY/world.pem), 22 and 2222 a banner, 5432 and 8443 an echo
that says its address, 5433 as much PostgreSQL as psql needs for a query, 123 UDP an echo that says its address.
"""
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

where = sys.argv[1]
lock = threading.Lock()


def log(name, line):
    with lock, open(f"{where}/{name}", "a") as file:
        file.write(line + "\n")


# ---- DNS ----

def dns_name(name):
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


def dns_answer(query, zone_lock=threading.Lock()):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin1").lower())
        at += 1 + query[at]
    name, kind = ".".join(labels), struct.unpack(">H", query[at + 1:at + 3])[0]
    question = query[12:at + 5]
    log("dns.log", f"{name} {kind}")
    with zone_lock:
        with open(f"{where}/zone.json") as file:
            zone = json.load(file)
        entry = zone.get(name) or zone.get("*." + name.split(".", 1)[-1])
        if entry and "next" in entry:
            zone[name] = entry["next"]
            with open(f"{where}/zone.json.new", "w") as file:
                json.dump(zone, file)
            os.rename(f"{where}/zone.json.new", f"{where}/zone.json")
    if entry is None:
        return query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question
    if "delay" in entry:
        time.sleep(entry["delay"])
    records = [socket.inet_aton(a) for a in entry.get("a", [])] if kind == 1 else \
              [socket.inet_pton(socket.AF_INET6, a) for a in entry.get("aaaa", [])] if kind == 28 else []
    if kind == 1 and "many" in entry:
        records = [bytes((151, 101, i >> 8, i & 255)) for i in range(entry["many"])]
    names = [dns_name(n) for n in [entry.get("name", name)] + entry.get("cname", [])]
    rows = [(owner, 5, target) for owner, target in zip(names, names[1:])] + [(names[-1], kind, r) for r in records]
    head = query[:2] + struct.pack(">HHHHH", 0x8180 | entry.get("rcode", 0), 1, len(rows), 0, 0)
    data = b"".join(owner + struct.pack(">HHIH", what, 1, entry.get("ttl", 60), len(r)) + r for owner, what, r in rows)
    return head + question + data if "raw" not in entry else head[:6] + b"\0\1" + head[8:] + question + bytes.fromhex(entry["raw"])


def dns_udp():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("93.184.0.53", 53))
    while True:
        data, peer = server.recvfrom(4096)
        threading.Thread(target=lambda d=data, p=peer: server.sendto(dns_answer(d), p), daemon=True).start()


# ---- TCP ----

def serve_http(connection, address, port):
    stream = connection.makefile("rwb")
    while True:
        line = stream.readline()
        if not line.strip():
            return
        method, path, version = line.decode("latin1").split()
        fields = {}
        while (row := stream.readline().strip()):
            key, _, value = row.decode("latin1").partition(":")
            fields[key.lower()] = value.strip()
        host = fields.get("host", "")
        log("tcp.log", f"http {address} {method} {host} {path}")
        if "authorization" in fields:
            log("tcp.log", f"auth {host} {fields['authorization']}")
        if fields.get("upgrade", "").lower() == "websocket":
            stream.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            stream.flush()
            while (data := connection.recv(4096)):
                connection.sendall(b"ws:" + data)
            return
        body = b""
        if "content-length" in fields:
            body = stream.read(int(fields["content-length"]))
        elif fields.get("transfer-encoding", "") == "chunked":
            while (size := int(stream.readline(), 16)):
                body += stream.read(size)
                stream.readline()
            stream.readline()
        static = f"{where}/www/{host}{path.split('?')[0]}" + ("index.html" if path.endswith("/") else "")
        if ".." not in static and os.path.isfile(static) and method in ("GET", "HEAD"):
            with open(static, "rb") as file:
                data = file.read()
            kind = {"html": "text/html", "json": "application/json"}.get(static.rsplit(".", 1)[-1], "application/octet-stream")
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind.encode(), len(data)) +
                         (b"" if method == "HEAD" else data))
        elif os.path.isdir(f"{where}/www/{host}"):
            stream.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        elif path.startswith("/redirect/"):
            stream.write(f"HTTP/1.1 302 Found\r\nLocation: {path[10:]}\r\nContent-Length: 0\r\n\r\n".encode())
        elif path.startswith("/bytes/"):
            left = int(path[7:])
            stream.write(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
            while left:
                stream.write(b"x" * min(left, 65536))
                left -= min(left, 65536)
        elif path.startswith("/chunks"):
            stream.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        else:
            text = json.dumps({"at": address, "port": port, "host": host, "method": method, "path": path, "body": body.decode("latin1"),
                               "fields": fields}).encode()
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) +
                         (b"" if method == "HEAD" else text))
        stream.flush()
        if fields.get("connection", "").lower() == "close" or version == "HTTP/1.0":
            return


def serve_postgres(connection):
    def message(kind, body=b""):
        return kind + struct.pack(">I", len(body) + 4) + body

    def exactly(size):
        data = connection.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise ValueError
        return data

    while exactly(struct.unpack(">I", exactly(4))[0] - 4)[:4] in (b"\4\xd2\x16\x2f", b"\4\xd2\x16\x30"): # TLS, GSSAPI?
        connection.sendall(b"N")
    ready = message(b"Z", b"I")
    connection.sendall(message(b"R", bytes(4)) + message(b"S", b"server_version\x0015.0\0") + ready)
    while exactly(1) == b"Q":
        exactly(struct.unpack(">I", exactly(4))[0] - 4)
        column = b"\0\1answer\0" + struct.pack(">IHIHIH", 0, 0, 25, 65535, 0xffffffff, 0)
        connection.sendall(message(b"T", column) + message(b"D", b"\0\1\0\0\0\5world") + message(b"C", b"SELECT 1\0") + ready)


def serve(connection, port, context):
    address = connection.getsockname()[0].replace("::ffff:", "")
    log("tcp.log", f"{address} {port}")
    try:
        if port == 443:
            connection = context.wrap_socket(connection, server_side=True)
        if port in (80, 443):
            serve_http(connection, address, port)
        elif port in (22, 2222):
            connection.sendall(f"SSH-2.0-world {address}\r\n".encode())
            while (data := connection.recv(4096)):
                connection.sendall(data)
        elif port == 5433:
            serve_postgres(connection)
        else:
            while (data := connection.recv(65536)):
                connection.sendall(f"{address} ".encode() + data)
    except (OSError, ValueError):
        pass
    finally:
        connection.close()


def tcp(port, context):
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port))
    server.listen(1024)
    while True:
        connection = server.accept()[0]
        threading.Thread(target=serve, args=(connection, port, context), daemon=True).start()


def dns_tcp():
    server = socket.create_server(("93.184.0.53", 53))
    while True:
        connection = server.accept()[0]
        size = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))[0]
        answer = dns_answer(connection.recv(size, socket.MSG_WAITALL))
        connection.sendall(struct.pack(">H", len(answer)) + answer)
        connection.close()


def udp(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 123))
    while True:
        data, peer = server.recvfrom(4096)
        log("tcp.log", f"udp {address} 123")
        server.sendto(f"{address} ".encode() + data, peer)


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{where}/world.pem")
    jobs = [(dns_udp, ()), (dns_tcp, ())] + [(tcp, (port, context)) for port in (22, 80, 443, 853, 2222, 5432, 5433, 8443, 8444)]
    jobs += [(udp, (address,)) for address in ("93.184.0.20", "93.184.0.21")]
    for target, arguments in jobs:
        threading.Thread(target=target, args=arguments, daemon=True).start()
    time.sleep(0.3)
    log("tcp.log", "ready")
    threading.Event().wait()


main()
