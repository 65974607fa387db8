#!/usr/bin/env python3
"""A hand at the door for machines: connects, sends what it is told, and tells what comes.

usage: door.py SOCKET < lines

SOCKET: the daemon's unix socket, or HOST:PORT. Each line is one visit, after the other: {"path", "token"?, "send"?: text, "binary"?: true, "bytes"?: N: a
message of N bytes, "crowd"?: so many silent ones at once, "from"?: the address they come from}. Prints a line for each text message, "record KIND" for each of the link's, and at the end "closed CODE REASON", or
"refused STATUS BODY" when there was no upgrade. Questions of the link are answered: there is nothing."""
import base64, json, os, select, socket, struct, sys


def say(text):
    print(text, flush=True)


class Door:
    def __init__(self, path, source=None):
        if path.startswith('/'):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(60)
            self.socket.connect(path)
        else:
            host, port = path.rsplit(':', 1)
            self.socket = socket.create_connection((host, int(port)), 60, (source, 0) if source else None)
        self.buffer = b''

    def take(self, count):
        while len(self.buffer) < count:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self, opcode, data):
        size = len(data)
        head = bytes([0x80 | opcode]) + (bytes([0x80 | size]) if size < 126 else b'\xfe' + struct.pack('>H', size) if size < 65536 else
                                         b'\xff' + struct.pack('>Q', size))
        self.socket.sendall(head + b'\0\0\0\0' + data)

    def upgrade(self, path, headers):
        lines = [f'GET {path} HTTP/1.1', 'Host: localhost', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13',
                 'Sec-WebSocket-Key: ' + base64.b64encode(os.urandom(16)).decode()] + headers
        self.socket.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode())
        head = b''
        while not head.endswith(b'\r\n\r\n'):
            head += self.take(1)
        status = head.split(b' ')[1].decode()
        if status == '101':
            return True
        self.socket.shutdown(socket.SHUT_WR)
        body = self.buffer
        while data := self.socket.recv(1 << 16):
            body += data
        say(f'refused {status} {body.decode()}')
        return False

    def message(self):
        """Text, or None: it was something else, and is dealt with."""
        first, second = self.take(2)
        size = second & 0x7f
        size = struct.unpack('>H', self.take(2))[0] if size == 126 else struct.unpack('>Q', self.take(8))[0] if size == 127 else size
        data, opcode = self.take(size), first & 0xf
        if opcode == 8:
            self.frame(8, data[:2])
            say(f'closed {struct.unpack(">H", data[:2])[0] if size else 1005} {data[2:].decode()}')
            raise StopIteration
        if opcode == 9:
            self.frame(10, data)
        if opcode == 2:
            say(f'record {data[0]}')
        if opcode == 2 and data[0] == 3:
            self.frame(2, b'\4' + data[1:8] + json.dumps({'error': {'code': 'UNSUPPORTED', 'message': 'there is nothing here'}}).encode())
        return data.decode() if opcode == 1 else None


def visit(path, order):
    door = Door(path, order.get('from'))
    if not door.upgrade(order['path'], [f'Authorization: Bearer {order["token"]}'] if 'token' in order else []):
        return
    try:
        if 'send' in order:
            door.frame(2 if order.get('binary') else 1, order['send'].encode())
        if 'bytes' in order:
            door.frame(1, b'{"type":"register","workspace":"' + b'x' * order['bytes'] + b'"}')
        while True:
            text = door.message()
            if text is not None:
                say(text)
    except StopIteration:
        pass
    except (EOFError, ConnectionError):
        say('closed - without a word')
    except TimeoutError:
        say('closed - nothing came')


def crowd(path, order):
    """They stay; says when all are in, and which of them are sent away, and how."""
    doors = [Door(path, order.get('from')) for _ in range(order['crowd'])]
    if not all([door.upgrade(order['path'], []) for door in doors]):
        return
    say(f'crowd of {len(doors)}')
    while doors:
        for sock in select.select([door.socket for door in doors], [], [])[0]:
            at = next(i for i, door in enumerate(doors) if door.socket is sock)
            try:
                while True:
                    doors[at].message()
            except StopIteration:
                pass
            except (EOFError, ConnectionError):
                say('closed - without a word')
            doors.pop(at)


for line in sys.stdin:
    order = json.loads(line)
    (crowd if 'crowd' in order else visit)(sys.argv[1], order)
