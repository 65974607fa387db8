#!/usr/bin/env python3
"""Proxies that stand in the way of machines that join. usage: proxy.py connect|text|plain LISTEN [OPTION...]

connect: an HTTP proxy that knows CONNECT alone. --user NAME:PASSWORD demands it; --log FILE has a line for each request.
text:    a reverse proxy before a daemon (--to HOST:PORT or a unix socket) with TLS (--cert, --key) that passes WebSocket text
         frames only: the first binary frame ends the connection (--drop: is swallowed).
plain:   a reverse proxy that relays bytes (for cuts at a chosen byte: --cut BYTES ends each connection after so many).
Prints "ready" when it listens. Plain sockets, a thread a direction."""
import argparse, base64, socket, ssl, struct, sys, threading

sys.dont_write_bytecode = True
from tls import Tls  # noqa: E402


def relay(source, sink, limit=None):
    try:
        while data := source.recv(1 << 16):
            if limit is not None:
                data = data[:limit[0]]
                limit[0] -= len(data)
            sink.sendall(data)
            if limit is not None and limit[0] <= 0:
                break
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def both(a, b, one=relay, other=relay):
    thread = threading.Thread(target=one, args=(a, b), daemon=True)
    thread.start()
    other(b, a)
    thread.join()
    a.close()
    b.close()


def head(source):
    data = b''
    while b'\r\n\r\n' not in data:
        more = source.recv(4096)
        if not more:
            return data, b''
        data += more
    at = data.index(b'\r\n\r\n') + 4
    return data[:at], data[at:]


def dial(to):
    if to.startswith('/'):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(to)
        return peer
    host, port = to.rsplit(':', 1)
    return socket.create_connection((host, int(port)), timeout=30)


def say(options, text):
    if options.log:
        with open(options.log, 'a') as file:
            file.write(text + '\n')


def connect(client, options):
    request, rest = head(client)
    lines = request.decode(errors='replace').split('\r\n')
    say(options, lines[0])
    want = base64.b64encode(options.user.encode()).decode() if options.user else None
    if want and not any(line.lower() == f'proxy-authorization: basic {want}'.lower() for line in lines):
        client.sendall(b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="test"\r\nContent-Length: 0\r\n\r\n')
        return client.close()
    words = lines[0].split()
    if len(words) != 3 or words[0] != 'CONNECT':
        client.sendall(b'HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n')
        return client.close()
    try:
        peer = dial(words[1])
    except OSError:
        client.sendall(b'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n')
        return client.close()
    client.sendall(b'HTTP/1.1 200 Connection established\r\n\r\n')
    peer.sendall(rest)
    both(client, peer)


class Frames:
    """Passes whole frames but for binary ones."""

    def __init__(self, options, first=b''):
        self.options, self.buffer = options, first

    def take(self, source, count):
        while len(self.buffer) < count:
            data = source.recv(1 << 16)
            if not data:
                raise OSError('end')
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def __call__(self, source, sink):
        binary = False
        try:
            while True:
                start = self.take(source, 2)
                size = start[1] & 0x7f
                if size == 126:
                    start += self.take(source, 2)
                    size = struct.unpack('>H', start[2:])[0]
                elif size == 127:
                    start += self.take(source, 8)
                    size = struct.unpack('>Q', start[2:])[0]
                data = self.take(source, size + (4 if start[1] & 0x80 else 0))
                opcode = start[0] & 0xf
                if opcode in (1, 2):
                    binary = opcode == 2
                if opcode < 8 and binary:
                    say(self.options, 'binary')
                    if not self.options.drop:
                        break
                    continue
                if opcode < 8:
                    say(self.options, 'text')
                sink.sendall(start + data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def text(client, options):
    peer = dial(options.to)
    request, rest = head(client)
    peer.sendall(request)
    answer, first = head(peer)
    client.sendall(answer)
    if b' 101 ' in answer.split(b'\r\n')[0]:
        both(client, peer, Frames(options, rest), Frames(options, first))
    else:
        peer.sendall(rest)
        client.sendall(first)
        both(client, peer)


def plain(client, options):
    limit = [options.cut] if options.cut else None
    both(client, dial(options.to), lambda a, b: relay(a, b, limit), lambda a, b: relay(a, b, limit))


def serve(client, options, context):
    try:
        if context:
            client = Tls(client, context, server_side=True)
        {'connect': connect, 'text': text, 'plain': plain}[options.kind](client, options)
    except OSError:
        client.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('kind', choices=['connect', 'text', 'plain'])
    parser.add_argument('listen')
    for name in ('to', 'user', 'log', 'cert', 'key'):
        parser.add_argument('--' + name)
    parser.add_argument('--drop', action='store_true')
    parser.add_argument('--cut', type=int)
    options = parser.parse_args()
    context = None
    if options.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.cert, options.key)
    host, port = options.listen.rsplit(':', 1)
    server = socket.create_server((host, int(port)))
    print('ready', server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        threading.Thread(target=serve, args=(client, options, context), daemon=True).start()


main()
