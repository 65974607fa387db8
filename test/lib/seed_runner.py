#!/usr/bin/env python3
"""A runner that shares no line with cubby's: written from PROTOCOL.md, "The text form", with Python's own library alone.

usage: seed_runner.py --server ws[s]://HOST:PORT[/PATH] --token T --user U --workspace DIR [--form flat|nested] [--ca FILE]
                      [--http-addr HOST:PORT] [--no-workspace] [--lossy] [--lack TYPE,...] [--habit HABIT]

It joins once, says "registered" or "refused CODE MESSAGE" on standard output, and serves until the connection ends, which it
says with the close code and reason. It behaves as runners that are in use do: each stdio_write is written by a thread of its own, in
any order; stdio_start ignores `dir`; when its time is over only the shell of an exec is killed, and the answer waits for whatever
holds its output open. --http-addr: it registers a second time and announces http://HOST:PORT, where it says "connected" on standard
output to whoever comes. --no-workspace: it does not say where that is, and refuses the workspace itself as a path. --lack:
requests it does not know. --habit: a way to misbehave, for tests:
  silent (answers nothing), unasked (answers calls it was not given), garbage (text that is no JSON), flood (unasked pushes
  without an end), half (a message that never ends), bare (frames without a mask), large (an answer of 64 MB), vanish (hangs
  up in the middle of an exec), double (answers each call twice), forge (says what our runner cannot have said),
  fickle (refuses every second read_file)."""
import argparse, base64, errno, hashlib, json, os, random, shutil, signal, socket, ssl, stat, struct, subprocess, sys
import threading, time, urllib.parse

sys.dont_write_bytecode = True
from tls import Tls  # noqa: E402


class Closed(Exception):
    pass


class WebSocket:
    """RFC 6455, the client's side: what a runner needs of it."""

    def __init__(self, url, headers, ca=None):
        at = urllib.parse.urlsplit(url)
        port = at.port or (443 if at.scheme == 'wss' else 80)
        self.socket = socket.create_connection((at.hostname, port), timeout=30)
        if at.scheme == 'wss':
            self.socket = Tls(self.socket, ssl.create_default_context(cafile=ca), name=at.hostname)
        self.socket.settimeout(None)
        self.lock = threading.Lock()
        self.buffer = b''
        key = base64.b64encode(os.urandom(16)).decode()
        head = [f'GET {at.path or "/"} HTTP/1.1', f'Host: {at.hostname}:{port}', 'Upgrade: websocket', 'Connection: Upgrade',
                f'Sec-WebSocket-Key: {key}', 'Sec-WebSocket-Version: 13'] + headers
        self.socket.sendall(('\r\n'.join(head) + '\r\n\r\n').encode())
        while b'\r\n\r\n' not in self.buffer:
            self.more()
        answer, self.buffer = self.buffer.split(b'\r\n\r\n', 1)
        if b' 101 ' not in answer.split(b'\r\n')[0]:
            raise Closed(f'no upgrade: {answer.splitlines()[0].decode()}')
        want = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest())
        if want not in answer:
            raise Closed('no upgrade: a wrong key')

    def more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Closed('the connection ended without a word')
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self, opcode, data, final=True, mask=True):
        head = bytes([(0x80 if final else 0) | opcode])
        size, bit = len(data), 0x80 if mask else 0
        head += bytes([bit | size]) if size < 126 else bytes([bit | 126]) + struct.pack('>H', size) if size < 65536 else \
            bytes([bit | 127]) + struct.pack('>Q', size)
        if mask:
            key = os.urandom(4)
            whole = int.from_bytes(data, 'little') ^ int.from_bytes((key * (size // 4 + 1))[:size], 'little')
            head, data = head + key, whole.to_bytes(size, 'little')
        with self.lock:
            self.socket.sendall(head + data)

    def send(self, text):
        self.frame(1, text.encode())

    def recv(self):
        """The next text message."""
        parts = b''
        while True:
            first, second = self.take(2)
            size = second & 0x7f
            if size == 126:
                size = struct.unpack('>H', self.take(2))[0]
            elif size == 127:
                size = struct.unpack('>Q', self.take(8))[0]
            data, opcode = self.take(size), first & 0xf
            if opcode == 9:
                self.frame(10, data)
            elif opcode == 8:
                code = struct.unpack('>H', data[:2])[0] if len(data) > 1 else 1005
                raise Closed(f'{code} {data[2:].decode(errors="replace")}')
            elif opcode in (0, 1, 2):
                parts += data
                if first & 0x80:
                    return parts.decode()


CODES = {errno.ENOENT: 'ENOENT', errno.EEXIST: 'EEXIST', errno.EPERM: 'EPERM', errno.EACCES: 'EPERM', errno.EISDIR: 'EISDIR',
         errno.ENOTDIR: 'ENOTDIR', errno.EINVAL: 'EINVAL', errno.ENOTEMPTY: 'EEXIST'}


class Refusal(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Runner:
    def __init__(self, options):
        self.options = options
        self.workspace = os.path.realpath(options.workspace)
        self.nested = options.form == 'nested'
        self.streams, self.lock, self.reads = {}, threading.Lock(), 0
        self.lack = set(filter(None, options.lack.split(',')))

    # ---- messages ----

    def message(self, kind, body, id=None):
        head = {'id': id} if id else {}
        if self.nested:
            return json.dumps({**head, 'type': kind, 'body': body})
        return json.dumps({**body, **head, 'type': kind})

    def say(self, kind, body, id=None):
        try:
            self.ws.send(self.message(kind, body, id))
        except OSError:
            pass

    def register(self):
        headers = [] if self.options.token_in_message else [f'Authorization: Bearer {self.options.token}']
        self.ws = WebSocket(self.options.server, headers, self.options.ca)
        body = {'user_id': self.options.user, 'auth_token': self.options.token, 'workspace': self.workspace, 'shell': '/bin/sh'}
        if self.options.no_workspace:
            del body['workspace']
        text = {'type': 'register', 'user_id': self.options.user, 'body': body} if self.nested else {'type': 'register', **body}
        self.ws.send(json.dumps(text))
        answer = json.loads(self.ws.recv())
        body = answer.get('body', answer)
        if answer['type'] != 'register_ok':
            print('refused', body.get('code'), body.get('message'), flush=True)
            return False
        if self.options.http_addr:
            self.say('register', {'user_id': self.options.user, 'auth_token': self.options.token, 'http_addr': 'http://' + self.options.http_addr})
        print('registered', flush=True)
        return True

    def serve(self):
        while True:
            request = json.loads(self.ws.recv())
            kind, id = request['type'], request.get('id')
            body = request.get('body') or {} if self.nested else request
            if kind == 'stdio_write':
                threading.Thread(target=self.feed, args=(body,), daemon=True).start()
            else:
                threading.Thread(target=self.answer, args=(kind, id, body), daemon=True).start()

    def answer(self, kind, id, body):
        habit = self.options.habit
        if habit == 'silent':
            return
        if habit == 'vanish' and kind == 'exec':
            os._exit(3)
        try:
            handler = None if kind in self.lack else getattr(self, 'do_' + kind, None)
            if not handler:
                raise Refusal('ENOTSUP', f'{kind} is not known here')
            result, answer = handler(body)
        except Refusal as refusal:
            result, answer = 'error', {'code': refusal.code, 'message': str(refusal)}
        except OSError as failure:
            result, answer = 'error', {'code': CODES.get(failure.errno, 'EIO'), 'message': str(failure)}
        except (KeyError, ValueError, TypeError) as failure:
            result, answer = 'error', {'code': 'EINVAL', 'message': repr(failure)}
        if habit == 'large' and kind == 'exec':
            answer['stdout'] = 'x' * (64 << 20)
        self.say(result, answer, id)
        if habit == 'double':
            self.say(result, answer, id)

    # ---- files ----

    def path(self, body, key='path'):
        path = os.path.join(self.workspace, body[key])
        above = os.path.realpath(os.path.dirname(path))
        if not any(os.path.commonpath([above, root]) == root for root in (self.workspace, '/tmp')):
            raise Refusal('EPERM', f'path {path!r} escapes workspace {self.workspace!r}')
        if self.options.no_workspace and os.path.realpath(path) == self.workspace:
            raise Refusal('EPERM', 'path cannot be the workspace root itself')
        return path

    def do_read_file(self, body):
        self.reads += 1
        if self.options.habit == 'fickle' and self.reads % 2 == 0:
            raise Refusal('EIO', 'the disk is tired')
        with open(self.path(body), 'rb') as file:
            return 'file_content', {'data': base64.b64encode(file.read()).decode()}

    def do_write_file(self, body):
        path = self.path(body)
        beside = path + '.new'
        with open(beside, 'wb') as file:
            file.write(base64.b64decode(body.get('data') or ''))
        os.chmod(beside, body.get('perm', 0o644) & 0o777)
        os.rename(beside, path)
        return 'ok', {}

    def do_stat(self, body):
        path = self.path(body)
        at = os.stat(path, follow_symlinks=body.get('follow', True))
        bits = at.st_mode & 0o777 | (1 << 31 if stat.S_ISDIR(at.st_mode) else 1 << 27 if stat.S_ISLNK(at.st_mode) else 0)
        return 'file_info', {'name': os.path.basename(path), 'size': at.st_size, 'mode': bits, 'is_dir': stat.S_ISDIR(at.st_mode),
                             'mod_time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at.st_mtime))}

    def do_read_dir(self, body):
        entries = [{'name': e.name, 'is_dir': e.is_dir(follow_symlinks=False), 'size': e.stat(follow_symlinks=False).st_size}
                   for e in os.scandir(self.path(body))]
        return 'dir_entries', {'entries': entries}

    def do_mkdir_all(self, body):
        os.makedirs(self.path(body), body.get('perm', 0o755) & 0o777, exist_ok=True)
        return 'ok', {}

    def do_remove(self, body):
        path = self.path(body)
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        return 'ok', {}

    def do_remove_all(self, body):
        path = self.path(body)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        return 'ok', {}

    # ---- commands ----

    def environment(self, body):
        return {**os.environ, **dict(pair.split('=', 1) for pair in body.get('env') or [])}

    def do_exec(self, body):
        args = ['/bin/sh', '-c', body['command']] if body.get('shell') else body.get('args')
        if not args:
            raise Refusal('EINVAL', 'without shell, args is the whole argument vector')
        if body.get('dir'):
            self.path(body, 'dir')
        child = subprocess.Popen(args, cwd=body.get('dir') or self.workspace, env=self.environment(body), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        timed_out = False
        try:
            out, err = child.communicate((body.get('stdin') or '').encode(), body.get('timeout') or 60)
        except subprocess.TimeoutExpired:
            timed_out = True
            child.kill()
            out, err = child.communicate()
        answer = {'exit_code': -1 if timed_out else child.returncode, 'timed_out': False}
        if body.get('encoding') == 'base64' and not self.options.lossy:
            return 'exec_result', {**answer, 'encoding': 'base64', 'stdout': base64.b64encode(out).decode(), 'stderr': base64.b64encode(err).decode()}
        return 'exec_result', {**answer, 'stdout': out.decode(errors='replace'), 'stderr': err.decode(errors='replace')}

    # ---- streams ----

    def do_stdio_start(self, body):
        args = [body['command']] + (body.get('args') or [])
        child = subprocess.Popen(args, env=self.environment(body), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        with self.lock:
            self.streams[body['stream_id']] = {'child': child, 'lock': threading.Lock()}
        threading.Thread(target=self.pump, args=(body['stream_id'], child), daemon=True).start()
        return 'ok', {'stream_id': body['stream_id']}

    def pump(self, id, child):
        if self.options.habit == 'forge':
            self.say('stdio_data', {'stream_id': id, 'data': base64.b64encode(os.urandom(100)).decode()})
        while data := os.read(child.stdout.fileno(), 1 << 15):
            self.say('stdio_data', {'stream_id': id, 'data': base64.b64encode(data).decode()})
        code = child.wait()
        with self.lock:
            self.streams.pop(id, None)
        self.say('stdio_exit', {'stream_id': id, 'exit_code': code})

    def feed(self, body):
        time.sleep(random.random() * 0.005)
        with self.lock:
            stream = self.streams.get(body['stream_id'])
        if not stream:
            return
        with stream['lock']:  # one write is whole
            try:
                data = base64.b64decode(body['data'])
                while data:
                    data = data[os.write(stream['child'].stdin.fileno(), data):]
            except (OSError, ValueError):
                pass

    def close(self, body):
        with self.lock:
            stream = self.streams.get(body['stream_id'])
        if not stream:
            raise Refusal('ENOENT', f'no stream {body["stream_id"]}')
        child = stream['child']
        with stream['lock']:
            child.stdin.close()
        for seconds, number in ((5, signal.SIGTERM), (3, signal.SIGKILL)):
            try:
                child.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                child.send_signal(number)
        return 'ok', {}

    do_stdio_close = close

    # ---- bad habits ----

    def misbehave(self):
        ws, habit = self.ws, self.options.habit
        if habit == 'unasked':
            for number in range(10):
                self.say('exec_result', {'stdout': 'x', 'stderr': '', 'exit_code': 0, 'timed_out': False}, f'req_{number:016x}')
                self.say('file_content', {'data': ''}, f'req_{number:016x}')
                self.say('stdio_data', {'stream_id': 'nobody', 'data': 'eA=='})
        elif habit == 'garbage':
            for text in ('', '{', 'nonsense', '[]', '"x"', '{"type":7}', '{"id":[],"type":"ok"}', '{"type":"ok","body":3,"id":"x"}'):
                ws.send(text)
        elif habit == 'flood':
            threading.Thread(target=self.flood, daemon=True).start()
        elif habit == 'half':
            ws.frame(1, b'{"id":"', final=False)
        elif habit == 'bare':
            ws.frame(1, b'{}', mask=False)

    def flood(self):
        data = base64.b64encode(bytes(1 << 15)).decode()
        while True:
            self.say('stdio_data', {'stream_id': 'nobody', 'data': data})


def watch(address):
    """Whoever connects to what was announced is told of."""
    host, port = address.rsplit(':', 1)
    with socket.create_server((host, int(port))) as server:
        while True:
            server.accept()
            print('connected', flush=True)


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells start what is in the background without it
    parser = argparse.ArgumentParser()
    for name in ('server', 'token', 'user', 'workspace'):
        parser.add_argument('--' + name, required=True)
    parser.add_argument('--form', choices=['flat', 'nested'], default='nested')
    parser.add_argument('--ca')
    parser.add_argument('--lack', default='')
    parser.add_argument('--habit', default='')
    parser.add_argument('--http-addr', help='announced as an address that serves files')
    parser.add_argument('--no-workspace', action='store_true')
    parser.add_argument('--lossy', action='store_true', help='output as text, whatever it is')
    parser.add_argument('--token-in-message', action='store_true', help='no Authorization header')
    runner = Runner(parser.parse_args())
    if runner.options.http_addr:
        threading.Thread(target=watch, args=(runner.options.http_addr,), daemon=True).start()
    try:
        if not runner.register():
            runner.ws.recv()
        runner.misbehave()
        runner.serve()
    except Closed as closed:
        print('closed', closed, flush=True)
    except OSError as failure:
        print('lost', failure, flush=True)
    os._exit(0)


main()
