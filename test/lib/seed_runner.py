#!/usr/bin/env python3
"""A runner that shares no line with cubby's: written from PROTOCOL.md, "The text form", with Python's own library alone.

usage: seed_runner.py --server ws[s]://HOST:PORT[/PATH] --token T --user U --workspace DIR [--form flat|nested] [--ca FILE]
                      [--transfer [--multipart]] [--http-addr HOST:PORT] [--lossy] [--lack TYPE,...] [--habit HABIT]

It joins once, says "registered" or "refused CODE MESSAGE" on standard output, and serves until the connection ends, which it
says with the close code and reason. --lack: requests it does not know. --habit: a way to misbehave, for tests:
  silent (answers nothing), unasked (answers calls it was not given), garbage (text that is no JSON), flood (unasked pushes
  without an end), half (a message that never ends), bare (frames without a mask), large (an answer of 64 MB), vanish (hangs
  up in the middle of an exec), double (answers each call twice)."""
import argparse, base64, email, email.policy, errno, hashlib, http.server, json, os, pty, shutil, signal, socket, ssl, stat, struct, subprocess, sys
import tempfile, termios, fcntl, threading, time, urllib.parse, urllib.request

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
        self.running, self.streams, self.lock = {}, {}, threading.Lock()
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
        if self.options.transfer:
            body['can'] = 'transfer'
        if self.options.http_addr:
            body['http_addr'] = self.options.http_addr
        text = {'type': 'register', 'user_id': self.options.user, 'body': body} if self.nested else {'type': 'register', **body}
        self.ws.send(json.dumps(text))
        answer = json.loads(self.ws.recv())
        body = answer.get('body', answer)
        if answer['type'] != 'register_ok':
            print('refused', body.get('code'), body.get('message'), flush=True)
            return False
        print('registered', flush=True)
        return True

    def serve(self):
        while True:
            request = json.loads(self.ws.recv())
            kind, id = request['type'], request.get('id')
            body = request.get('body') or {} if self.nested else request
            if kind == 'cancel':
                self.cancel(body)
            elif kind in ('stdio_write', 'pty_stdin', 'pty_resize'):  # in the order in which they come, and unanswered
                self.feed(kind, body)
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
            result, answer = handler(body, id) if kind == 'exec' else handler(body)
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
        return path

    def transfer(self, body, method, data=None):
        """Large content, at the server's address, with the token."""
        at = urllib.parse.urlsplit(self.options.server)
        request = urllib.request.Request(f'http{"s" if at.scheme == "wss" else ""}://{at.netloc}{body["transfer"]}', method=method, data=data,
                                         headers={'Authorization': f'Bearer {self.options.token}'})
        if data and self.options.multipart:
            request.add_header('Content-Type', 'multipart/form-data; boundary=edge')
            request.data = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + data.read() + b'\r\n--edge--\r\n'
        elif data:
            request.add_header('Content-Type', 'application/octet-stream')
            request.add_header('Content-Length', os.fstat(data.fileno()).st_size)
        context = ssl.create_default_context(cafile=self.options.ca) if at.scheme == 'wss' else None
        return urllib.request.urlopen(request, timeout=60, context=context)

    def do_read_file(self, body):
        with open(self.path(body), 'rb') as file:
            if 'transfer' in body:
                self.transfer(body, 'POST', file).read()
                return 'file_content', {'size': os.fstat(file.fileno()).st_size}
            return 'file_content', {'data': base64.b64encode(file.read()).decode()}

    def do_write_file(self, body):
        path = self.path(body)
        beside = path + '.new'
        with open(beside, 'wb') as file:
            if 'transfer' in body:
                with self.transfer(body, 'GET') as answer:
                    shutil.copyfileobj(answer, file)
            else:
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

    def do_exec(self, body, id):
        args = ['/bin/sh', '-c', body['command']] if body.get('shell') else body.get('args')
        if not args:
            raise Refusal('EINVAL', 'without shell, args is the whole argument vector')
        files = [tempfile.TemporaryFile(), tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # no child can hold up a pipe's end
        files[0].write((body.get('stdin') or '').encode())
        files[0].seek(0)
        child = subprocess.Popen(args, cwd=body.get('dir') or self.workspace, env=self.environment(body), stdin=files[0], stdout=files[1],
                                 stderr=files[2], start_new_session=True)
        with self.lock:
            self.running[id] = child
        timed_out = False
        try:
            child.wait(body.get('timeout') or 60)
        except subprocess.TimeoutExpired:
            timed_out = True
        with self.lock:
            del self.running[id]
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = child.wait()
        out, err = (self.content(file) for file in files[1:])
        answer = {'exit_code': -1 if timed_out else code, 'timed_out': timed_out}
        if body.get('encoding') == 'base64' and not self.options.lossy:
            return 'exec_result', {**answer, 'encoding': 'base64', 'stdout': base64.b64encode(out).decode(), 'stderr': base64.b64encode(err).decode()}
        return 'exec_result', {**answer, 'stdout': out.decode(errors='replace'), 'stderr': err.decode(errors='replace')}

    def content(self, file):
        file.seek(0)
        return file.read(2 << 20)

    def cancel(self, body):
        with self.lock:
            child = self.running.get(body.get('request'))
            if child:
                os.killpg(child.pid, signal.SIGKILL)

    # ---- streams ----

    def do_stdio_start(self, body):
        args = [body['command']] + (body.get('args') or [])
        child = subprocess.Popen(args, cwd=body.get('dir') or self.workspace, env=self.environment(body), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self.stream('stdio', body['stream_id'], child, child.stdin.fileno(), child.stdout.fileno())
        return 'ok', {'stream_id': body['stream_id']}

    def do_pty_create(self, body):
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', body.get('rows') or 24, body.get('cols') or 80, 0, 0))
        child = subprocess.Popen([body.get('command') or '/bin/sh'] + (body.get('args') or []), env=self.environment(body), stdin=slave, stdout=slave,
                                 stderr=slave, cwd=body.get('dir') or self.workspace, start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.stream('pty', body['stream_id'], child, master, master)
        return 'ok', {'stream_id': body['stream_id']}

    def stream(self, kind, id, child, to, back):
        with self.lock:
            if id in self.streams:
                child.kill()
                raise Refusal('EEXIST', f'stream {id} is open')
            self.streams[id] = {'child': child, 'to': to}
        threading.Thread(target=self.pump, args=(kind, id, child, back), daemon=True).start()

    def pump(self, kind, id, child, back):
        while True:
            try:
                data = os.read(back, 1 << 15)
            except OSError:
                break
            if not data:
                break
            self.say(kind + '_data', {'stream_id': id, 'data': base64.b64encode(data).decode()})
        code = child.wait()
        with self.lock:
            self.streams.pop(id, None)
        self.say(kind + '_exit', {'stream_id': id, 'exit_code': code})

    def feed(self, kind, body):
        with self.lock:
            stream = self.streams.get(body['stream_id'])
        if not stream:
            return
        try:
            if kind == 'pty_resize':
                fcntl.ioctl(stream['to'], termios.TIOCSWINSZ, struct.pack('HHHH', body['rows'], body['cols'], 0, 0))
                return
            data = base64.b64decode(body['data'])
            while data:
                data = data[os.write(stream['to'], data):]
        except OSError:
            pass

    def close(self, body):
        with self.lock:
            stream = self.streams.get(body['stream_id'])
        if not stream:
            raise Refusal('ENOENT', f'no stream {body["stream_id"]}')
        child = stream['child']
        if child.stdin:
            child.stdin.close()
        else:
            os.killpg(child.pid, signal.SIGHUP)
        for seconds, number in ((5, signal.SIGTERM), (3, signal.SIGKILL)):
            try:
                child.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, number)
        return 'ok', {}

    do_stdio_close = do_pty_close = close

    # ---- bad habits ----

    def misbehave(self):
        ws, habit = self.ws, self.options.habit
        if habit == 'unasked':
            for number in range(10):
                self.say('exec_result', {'stdout': 'x', 'stderr': '', 'exit_code': 0, 'timed_out': False}, f'req_{number:016x}')
                self.say('file_content', {'data': ''}, f'req_{number:016x}')
                self.say('pty_data', {'stream_id': 'nobody', 'data': 'eA=='})
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


class Files(http.server.BaseHTTPRequestHandler):
    """What --http-addr announces: contents of files, for whoever has the token."""

    def target(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if self.headers['X-Auth-Token'] != self.runner.options.token:
            return self.send_error(403)
        return query.get('path', [''])[0]

    def do_GET(self):
        path = self.target()
        if path is not None and not os.path.isfile(path):
            self.send_error(404)
        elif path is not None:
            with open(path, 'rb') as file:
                self.send_response(200)
                self.send_header('Content-Length', str(os.fstat(file.fileno()).st_size))
                self.end_headers()
                shutil.copyfileobj(file, self.wfile)

    def do_POST(self):
        if self.target() is None:
            return
        if self.headers.get('Transfer-Encoding') == 'chunked':
            data = b''
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers['Content-Length']))
        whole = b'Content-Type: ' + self.headers['Content-Type'].encode() + b'\r\n\r\n' + data
        parts = {part.get_param('name', header='Content-Disposition'): part.get_payload(decode=True)
                 for part in email.message_from_bytes(whole, policy=email.policy.HTTP).get_payload()}
        with open(parts['path'].decode(), 'wb') as file:
            file.write(parts['file'])
        os.chmod(parts['path'].decode(), int(parts['perm']) & 0o777)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells start what is in the background without it
    parser = argparse.ArgumentParser()
    for name in ('server', 'token', 'user', 'workspace'):
        parser.add_argument('--' + name, required=True)
    parser.add_argument('--form', choices=['flat', 'nested'], default='nested')
    parser.add_argument('--ca')
    parser.add_argument('--lack', default='')
    parser.add_argument('--habit', default='')
    parser.add_argument('--transfer', action='store_true', help='large files over HTTP, started here')
    parser.add_argument('--multipart', action='store_true', help='and sent as a form')
    parser.add_argument('--http-addr', help='announced as the address that serves large files')
    parser.add_argument('--lossy', action='store_true', help='output as text, whatever it is')
    parser.add_argument('--token-in-message', action='store_true', help='no Authorization header')
    runner = Runner(parser.parse_args())
    if runner.options.http_addr:
        host, port = runner.options.http_addr.rsplit(':', 1)
        Files.runner = runner
        server = http.server.ThreadingHTTPServer((host, int(port)), Files)
        threading.Thread(target=server.serve_forever, daemon=True).start()
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
