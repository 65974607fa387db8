#!/usr/bin/env python3
"""WebSocket frames that no client may send, each over a connection of its own.

usage: frames.py SOCKET PATH [TOKEN [REGISTER]]

SOCKET: the daemon's unix socket. REGISTER: a text message that is sent first and must be answered. For every attack a line
"NAME: closed CODE REASON", what the daemon closed with, or "NAME: hung up"."""
import os, socket, struct, sys

PATH, ROUTE = sys.argv[1:3]
TOKEN = sys.argv[3] if len(sys.argv) > 3 else ''
REGISTER = sys.argv[4] if len(sys.argv) > 4 else ''


def frame(first, data=b'', mask=b'\0\0\0\0', length=None):
    size = len(data) if length is None else length
    head = bytes([first]) + (bytes([0x80 | size]) if size < 126 else b'\xfe' + struct.pack('>H', size) if size < 65536 else
                             b'\xff' + struct.pack('>Q', size))
    return head + mask + data


class Client:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(PATH)
        self.buffer = b''
        lines = [f'GET {ROUTE} HTTP/1.1', 'Host: localhost', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13',
                 'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']
        lines += [f'Authorization: Bearer {TOKEN}'] if TOKEN else []
        self.socket.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode())
        self.head = b''
        while not self.head.endswith(b'\r\n\r\n'):
            self.head += self.take(1)
        if REGISTER:
            self.socket.sendall(frame(0x81, REGISTER.encode()))
            while True:
                opcode, data = self.frame()
                if opcode == 8:
                    raise SystemExit(f'not registered: {data}')
                if opcode == 1:
                    break

    def take(self, count):
        while len(self.buffer) < count:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self):
        first, second = self.take(2)
        size = struct.unpack('>H', self.take(2))[0] if second == 126 else struct.unpack('>Q', self.take(8))[0] if second == 127 else second
        return first & 15, self.take(size)

    def end(self):
        try:
            while True:
                opcode, data = self.frame()
                if opcode == 8:
                    return f'closed {struct.unpack(">H", data[:2])[0] if data else 1005} {data[2:].decode()}'
        except (EOFError, ConnectionError):
            return 'hung up'


def attack(name, data):
    client = Client()
    try:
        for piece in data if isinstance(data, list) else [data]:
            client.socket.sendall(piece)
    except (BrokenPipeError, ConnectionError):
        pass  # it is closed already
    print(f'{name}: {client.end()}', flush=True)


client = Client()
print('extensions:', 'agreed' if b'xtensions' in client.head else 'none')
client.socket.close()
attack('no mask', b'\x81\x02hi')
attack('compressed', frame(0xc1, b'hi'))
attack('unknown', frame(0x83, b'hi'))
attack('unknown control', frame(0x8f, b'hi'))
attack('continuation', frame(0x80, b'hi'))
attack('message in a message', frame(0x01, b'a') + frame(0x81, b'b'))
attack('ping in fragments', frame(0x09, b'a'))
attack('long ping', frame(0x89, b'x' * 126))
attack('long length', b'\x81\xfe\x00\x05\0\0\0\0hello')
attack('not UTF-8', frame(0x81, b'{"type":"\xff"}'))
attack('a claim of exabytes', b'\x82\xff' + b'\x7f' + b'\xff' * 7)
attack('a negative length', b'\x82\xff' + b'\xff' * 8)
attack('100 MB claimed', frame(0x82, b'', length=100 << 20))
attack('100 MB in fragments', [frame(0x02, os.urandom(60000))] + [frame(0x00, bytes(60000))] * 1700)
attack('empty fragments', [frame(0x01)] + [frame(0x00) * 1000] * 20)
attack('pings', [frame(0x89, b'ping') * 1000] * 20)
attack('pongs', [frame(0x8a, b'pong') * 1000] * 20)
attack('close of one byte', frame(0x88, b'\x03'))
attack('close without a code', frame(0x88))
attack('close 1006', frame(0x88, struct.pack('>H', 1006)))
attack('noise', bytes([0x7e]) + os.urandom(3000))

client = Client()  # half a frame, and nobody any more
client.socket.sendall(frame(0x82, b'half', length=1000))
client.socket.close()
