"""A client of our own for the AIO dialect and for the provisioner, in the manner of the clients that are in use: only members
that are given are sent, no token, one connection that is kept, and an answer without a member that its schema demands is a
failure. DeerFlow is the user of both: the seven tools of its agents, and what it does to get and lose a sandbox.

Checks print `ok - NAME` or `not ok - NAME` (program of lib.sh reads them); the exit status tells whether all went well."""
import base64, hashlib, http.client, json, os, re, shlex, socket, sys, threading, time, urllib.parse, uuid

# ---- checks ----

failed = 0
printing = threading.Lock()


def check(name, got, want=True):
    global failed
    with printing:
        if got == want:
            print('ok -', name, flush=True)
        else:
            failed += 1
            print(f'not ok - {name}\ngot {got!r:.900}\nwant {want!r:.300}', flush=True)


def matches(name, got, regex):
    check(name, regex if re.search(regex, got, re.S) else got, regex)


def finish():
    sys.exit(1 if failed else 0)


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def together(jobs):
    """All of them at once; what each returned, or its exception."""
    results = [None] * len(jobs)

    def work(at):
        try:
            results[at] = jobs[at]()
        except Exception as problem:
            results[at] = problem

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# ---- schemas ----

# A line a schema. NAME*: must be there and not be null. Types: s text, i whole number, n number, b true or false, j anything,
# another schema's name; [] a list of it, {} an object whose members are of it.
SCHEMAS = {name: fields.split() for name, fields in (line.split(None, 1) for line in '''
ConsoleRecord ps1*s command*s output:s
ShellCommandResult session_id*s command*s status*BashCommandStatus output:s console:ConsoleRecord[] exit_code:i
ShellViewResult output*s session_id*s console:ConsoleRecord[] status*BashCommandStatus command:s exit_code:i
ShellWaitResult status*BashCommandStatus
ShellWriteResult status*BashCommandStatus
ShellKillResult status*BashCommandStatus exit_code:i returncode:i
ShellCreateSessionResponse session_id*s working_dir*s
ShellSessionInfo working_dir*s created_at*t last_used_at*t age_seconds*i status*s current_command:s
ActiveShellSessionsResult sessions*ShellSessionInfo{}
ShellSessionStats total_sessions*i active_sessions*i idle_sessions*i max_sessions*i session_timeout*i usage_ratio*n
BashExecResult session_id*s command_id*s command*s status*CommandStatus stdout:s stderr:s exit_code:i offset:i stderr_offset:i
BashCommandInfo command_id*s command*s status*CommandStatus exit_code:i
BashOutputResult session_id*s stdout:s stderr:s offset:i stderr_offset:i command:BashCommandInfo
BashSessionInfo session_id*s status*SessionStatus working_dir*s created_at*t last_used_at*t current_command:s command_count:i
FileReadResult content*s file*s
FileWriteResult file*s bytes_written:i
FileReplaceResult file*s replaced_count:i
FileSearchResult file*s matches:s[] line_numbers:i[]
FileFindResult path*s files:s[]
GrepMatch file*s line_number*i line_content*s context_before:s[] context_after:s[]
FileGrepResult path*s pattern*s matches:GrepMatch[] match_count:i files_searched:i files_matched:i truncated:b
GlobFileInfo path*s name*s is_directory:b size:i modified_time:s
FileGlobResult path*s pattern*s files:GlobFileInfo[] total_count:i truncated:b
FileInfo name*s path*s is_directory*b size:i modified_time:s permissions:s extension:s
FileListResult path*s files:FileInfo[] total_count:i directory_count:i file_count:i
FileUploadResult file_path*s file_size*i success*b
FileOperationError path*s operation*s message*s error_type*s retryable:b errno:i errno_name:s exception_type:s
StrReplaceEditorResult output*s error:s path*s prev_exist*b old_content:s new_content:s metadata:j
JupyterOutput output_type*s name:s text:s data:j metadata:j execution_count:i ename:s evalue:s traceback:s[]
JupyterExecuteResponse kernel_name*s session_id:s status*s execution_count:i outputs*JupyterOutput[] code*s msg_id:s
JupyterInfoResponse default_kernel*s available_kernels*s[] active_sessions*i session_timeout_seconds*i max_sessions*i description*s kernel_detection*s
JupyterCreateSessionResponse session_id*s kernel_name*s message*s
NodeJSExecuteResponse language*s status*s execution_count:i outputs:j[] code*s stdout:s stderr:s exit_code*i session_id:s
NodeJSRuntimeInfo node_version*s npm_version*s supported_languages*s[] description*s
CodeExecuteResponse language*s status*s outputs:j[] code*s stdout:s stderr:s exit_code:i traceback:s[] session_id:s
CodeLanguageInfo language*s description*s runtime_version:s default_timeout:i max_timeout:i details:j
CodeInfoResponse languages*CodeLanguageInfo[]
SystemEnv os*s os_version*s arch*s user*s home_dir*s workspace:s timezone*s occupied_ports*s[]
ToolSpec ver:s bin:s alias:s[]
RuntimeEnv python*ToolSpec[] nodejs*ToolSpec[]
AvailableTool name*s description:s
ToolCategory category*s tools*AvailableTool[]
SandboxDetail system*SystemEnv runtime*RuntimeEnv utils*ToolCategory[]
SandboxResponse success:b message:s data:s hint:s home_dir*s workspace:s version*s detail*SandboxDetail
ValidationError loc*j[] msg*s type*s
HTTPValidationError detail*ValidationError[]
Sandbox sandbox_id*s sandbox_url*s status*Phase
Sandboxes sandboxes*Sandbox[] count*i
Deleted ok*b sandbox_id*s
Capabilities lark_cli_init_image*b lark_cli_broker_image*b
'''.strip().splitlines())}
WORDS = {'BashCommandStatus': 'running completed no_change_timeout hard_timeout terminated',
         'CommandStatus': 'pending running completed timed_out killed', 'SessionStatus': 'ready closed',
         'Phase': 'Pending Running Succeeded Failed Unknown NotFound'}
PLAIN = {'s': str, 'i': int, 'n': (int, float), 'b': bool, 'j': object}


def misfit(kind, value, at=''):
    """What keeps a value from being of that kind; None: nothing does."""
    if kind.endswith('[]'):
        if not isinstance(value, list):
            return f'{at} is no list'
        return next((m for k, v in enumerate(value) if (m := misfit(kind[:-2], v, f'{at}[{k}]'))), None)
    if kind.endswith('{}'):
        if not isinstance(value, dict):
            return f'{at} is no object'
        return next((m for k, v in value.items() if (m := misfit(kind[:-2], v, f'{at}.{k}'))), None)
    if kind == 't':
        return None if isinstance(value, str) and re.match(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d', value) else f'{at} is no time: {value!r}'
    if kind in WORDS:
        return None if value in WORDS[kind].split() else f'{at} is {value!r}'
    if kind in PLAIN:
        fits = isinstance(value, PLAIN[kind]) and not (kind in 'in' and isinstance(value, bool))
        return None if fits else f'{at} is {value!r:.60}, not {kind}'
    if not isinstance(value, dict):
        return f'{at} is {value!r:.60}, not a {kind}'
    for field in SCHEMAS[kind]:
        name, needed, type_ = re.fullmatch(r'(\w+)([*:])(.+)', field).groups()
        if value.get(name) is None:
            if needed == '*':
                return f'{at}.{name} of {kind} is missing'
        elif problem := misfit(type_, value[name], f'{at}.{name}'):
            return problem
    return None


# What `data` of a route is; `j`: anything, or nothing.
ROUTES = {'shell/exec': 'ShellCommandResult', 'shell/view': 'ShellViewResult', 'shell/wait': 'ShellWaitResult',
          'shell/write': 'ShellWriteResult', 'shell/kill': 'ShellKillResult', 'shell/sessions/create': 'ShellCreateSessionResponse',
          'shell/sessions': 'ActiveShellSessionsResult', 'shell/sessions/stats': 'ShellSessionStats', 'shell/terminal-url': 's',
          'bash/exec': 'BashExecResult', 'bash/output': 'BashOutputResult', 'bash/sessions': 'BashSessionInfo[]',
          'bash/sessions/create': 'BashSessionInfo', 'file/read': 'FileReadResult', 'file/write': 'FileWriteResult',
          'file/replace': 'FileReplaceResult', 'file/search': 'FileSearchResult', 'file/find': 'FileFindResult',
          'file/grep': 'FileGrepResult', 'file/glob': 'FileGlobResult', 'file/list': 'FileListResult',
          'file/upload': 'FileUploadResult', 'file/str_replace_editor': 'StrReplaceEditorResult',
          'jupyter/execute': 'JupyterExecuteResponse', 'jupyter/info': 'JupyterInfoResponse',
          'jupyter/sessions/create': 'JupyterCreateSessionResponse', 'nodejs/execute': 'NodeJSExecuteResponse',
          'nodejs/info': 'NodeJSRuntimeInfo', 'code/execute': 'CodeExecuteResponse', 'code/info': 'CodeInfoResponse'}


# ---- transport ----

class Failure(Exception):
    """An answer that is no success, as a client would tell it."""

    def __init__(self, status, body):
        super().__init__(f'status_code: {status}, body: {body!r:.400}')
        self.status, self.body = status, body

    @property
    def message(self):
        if not isinstance(self.body, dict):
            return str(self.body)
        return self.body.get('message') or self.body.get('detail') or (self.body.get('error') or {}).get('message')


class Broken(Exception):
    """An answer that no client could read: it does not fit its schema."""


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__('localhost', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Http:
    """One connection a thread, kept. base: http://HOST:PORT/PATH, or with a socket the PATH of one."""

    def __init__(self, base, headers=None, timeout=90, socket_path=None):
        parts = urllib.parse.urlsplit(base)
        self.host, self.prefix, self.timeout = parts.netloc, parts.path.rstrip('/'), timeout
        self.headers, self.socket_path, self.local = headers or {}, socket_path, threading.local()

    def connection(self, timeout):
        found = getattr(self.local, 'connection', None)
        if not found:
            found = Unix(self.socket_path, timeout) if self.socket_path else http.client.HTTPConnection(self.host, timeout=timeout)
            self.local.connection = found
        found.timeout = timeout
        if found.sock:
            found.sock.settimeout(timeout)
        return found

    def drop(self):
        if found := getattr(self.local, 'connection', None):
            found.close()
            self.local.connection = None

    def send(self, method, path, data=None, headers=None, timeout=None):
        """(status, headers, bytes)"""
        for again in (True, False):
            connection = self.connection(timeout or self.timeout)
            kept = connection.sock is not None
            try:
                connection.request(method, self.prefix + path, data, {**self.headers, **(headers or {})})
                answer = connection.getresponse()
                body = answer.read()
                if answer.will_close:
                    self.drop()
                return answer.status, answer.headers, body
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.drop()
                if not (again and kept):
                    raise
            except Exception:
                self.drop()
                raise

    def json(self, method, path, body=None, timeout=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        status, _, text = self.send(method, path, data, {**({'content-type': 'application/json'} if body is not None else {}),
                                                         **(headers or {})}, timeout)
        try:
            value = json.loads(text) if text else None
        except ValueError:
            value = text.decode('utf-8', 'replace')
        return status, value


class Data(dict):
    """An object of an answer; members that it may leave out are None."""

    def __getattr__(self, name):
        return self.get(name)


def data_of(value):
    if isinstance(value, dict):
        return Data({k: data_of(v) for k, v in value.items()})
    return [data_of(v) for v in value] if isinstance(value, list) else value


# ---- the AIO dialect ----

class Aio:
    def __init__(self, base, headers=None, socket_path=None, timeout=90):
        self.http = Http(base, {'X-Fern-Language': 'Python', **(headers or {})}, timeout, socket_path)

    def call(self, method, route, body=None, timeout=None, kind=None):
        status, value = self.http.json(method, '/v1/' + route, body, timeout)
        if not 200 <= status < 300:
            if status == 422 and (problem := misfit('HTTPValidationError', value)):
                raise Broken(f'{route}: 422 {problem}: {value!r:.300}')
            raise Failure(status, value)
        kind = kind or ROUTES.get(route.split('?')[0], 'j')
        if not isinstance(value, dict) or value.get('success') is not True or 'data' not in value:
            raise Broken(f'{route}: no envelope of a success: {value!r:.300}')
        if (kind != 'j' or value['data'] is not None) and (problem := misfit(kind, value['data'], 'data')):
            raise Broken(f'{route}: {problem}: {value!r:.300}')
        return data_of(value['data'])

    def post(self, route, patience=None, **body):
        return self.call('POST', route, body, patience)

    def get(self, route, **query):
        return self.call('GET', route + ('?' + urllib.parse.urlencode(query) if query else ''))

    def delete(self, route):
        return self.call('DELETE', route, kind='j')

    def context(self):
        status, value = self.http.json('GET', '/v1/sandbox', timeout=5)
        if status != 200:
            raise Failure(status, value)
        if problem := misfit('SandboxResponse', value):
            raise Broken(f'/v1/sandbox: {problem}')
        return data_of(value)

    def download(self, path, **query):
        status, headers, body = self.http.send('GET', '/v1/file/download?' + urllib.parse.urlencode({'path': path, **query}))
        if status != 200:
            try:
                body = json.loads(body)
            except ValueError:
                pass
            raise Failure(status, body)
        return body

    def upload(self, content, name='file', path=None):
        edge = uuid.uuid4().hex
        body = b''
        if path is not None:
            body += f'--{edge}\r\nContent-Disposition: form-data; name="path"\r\n\r\n{path}\r\n'.encode()
        body += (f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                 'Content-Type: application/octet-stream\r\n\r\n').encode() + content + f'\r\n--{edge}--\r\n'.encode()
        status, _, text = self.http.send('POST', '/v1/file/upload', body, {'content-type': f'multipart/form-data; boundary={edge}'})
        value = json.loads(text)
        if status != 200:
            raise Failure(status, value)
        if problem := misfit('FileUploadResult', value.get('data')):
            raise Broken(f'file/upload: {problem}')
        return data_of(value['data'])


def refusal(call, *arguments, **named):
    """The status and the message of a call that must not succeed."""
    try:
        return 200, call(*arguments, **named)
    except Failure as failure:
        return failure.status, failure.message


# ---- the provisioner ----

class Provisioner:
    def __init__(self, base, key=None, socket_path=None):
        self.http = Http(base, {'X-API-Key': key} if key else {}, 30, socket_path)

    def ask(self, method, path, kind, body=None):
        status, value = self.http.json(method, path, body)
        if not 200 <= status < 300:
            raise Failure(status, value)
        if problem := misfit(kind, value):
            raise Broken(f'{method} {path}: {problem}: {value!r:.300}')
        return data_of(value)

    def create(self, sandbox_id, thread_id=None, user_id='default', **more):
        return self.ask('POST', '/api/sandboxes', 'Sandbox', {
            'sandbox_id': sandbox_id, 'thread_id': thread_id, 'user_id': user_id, 'include_legacy_skills': False,
            'provision_lark_cli_runtime': False, 'provision_lark_cli_broker': False, **more})

    def find(self, sandbox_id):
        try:
            return self.ask('GET', '/api/sandboxes/' + sandbox_id, 'Sandbox')
        except Failure as failure:
            if failure.status == 404:
                return None
            raise

    def alive(self, sandbox_id):
        found = self.find(sandbox_id)
        return bool(found) and found.status == 'Running'

    def destroy(self, sandbox_id):
        return self.ask('DELETE', '/api/sandboxes/' + sandbox_id, 'Deleted')

    def all(self):
        return self.ask('GET', '/api/sandboxes', 'Sandboxes')

    def capabilities(self):
        return self.ask('GET', '/api/capabilities', 'Capabilities')


# ---- DeerFlow ----

IGNORED = {'.git', 'node_modules', '__pycache__', '.venv', 'dist', 'build'}
LIST_END = '==find ended with '
TOKEN = 'CALL_TOKEN'


class Deer:
    """What an agent's tools do with one sandbox; texts as the agent gets them."""

    def __init__(self, base, socket_path=None):
        self.aio, self.session, self.lock = Aio(base, socket_path=socket_path), None, threading.Lock()

    def exec(self, command, seconds=600, session=None):
        body = {'command': command, 'no_change_timeout': max(600, int(seconds) + 5), 'hard_timeout': seconds}
        if session:
            body['id'] = session
        return self.aio.post('shell/exec', patience=seconds + 5, **body)

    @staticmethod
    def told(data, seconds):
        text = data.output or ''
        if data.status == 'hard_timeout':
            return f'{text}\n' * bool(text) + f'Command timed out after {seconds:g} seconds and was terminated.\nExit Code: 124'
        if data.status != 'completed':
            return f'{text}\nError: status {data.status}'
        if data.exit_code:
            return f'{text}\nExit Code: {data.exit_code}' if text else f'Command exited with code {data.exit_code}'
        return text or '(no output)'

    def bash(self, command, env=None, seconds=600):
        if env:
            return self.bash_env(command, env, seconds)
        try:
            with self.lock:
                return self.told(self.exec('cd /mnt/user-data/workspace; ' + command, seconds, self.session), seconds)
        except Failure as failure:
            return f'Error: {failure}'

    def bash_env(self, command, env, seconds=600):
        session = str(uuid.uuid4())
        try:
            self.aio.post('bash/sessions/create', patience=5, session_id=session)
            data = self.aio.post('bash/exec', patience=seconds + 5, command='exec < /dev/null\n' + command, session_id=session, env=env,
                                 hard_timeout=seconds)
        except Failure as failure:
            return f'Error: {failure}'
        finally:
            self.aio.call('POST', f'bash/sessions/{session}/close', timeout=5)
        text = data.stdout or ''
        if data.stderr:
            text += f'\nStd Error:\n{data.stderr}' if text else data.stderr
        if data.status == 'timed_out':
            text += ('\n' if text else '') + f'Command timed out after {seconds:g} seconds and was terminated.\nExit Code: 124'
        elif data.exit_code:
            text += ('\n' if text else '') + f'Exit Code: {data.exit_code}'
        return text or '(no output)'

    def ls(self, path, depth=2):
        """By a script, as its newest version does: its last word ends the shell."""
        script = (f'set +e; s=/tmp/ls.$$; {{ find -H {shlex.quote(path)} -maxdepth {depth} \\( -type d -o -type f \\) 2> /dev/null; '
                  f'echo $? > $s; }} | head -n 500; read -r r < $s; rm $s; printf "\\n{LIST_END}%s\\n" $r; exit $r')
        with self.lock:
            data = self.exec(script, 60, self.session)
        if data.status != 'completed':
            return f'Error: Unexpected error listing directory: status {data.status}'
        lines = data.output.split('\n')
        if lines[-1] == '':
            lines.pop()
        if not lines[-1].startswith(LIST_END):
            return 'Error: Unexpected error listing directory: marker missing'
        status = int(lines.pop()[len(LIST_END):])
        names = [line for line in lines if line]
        if status not in (0, 141):
            return f'Error: Directory not found: {path}' if not names else 'Error: incomplete'
        return '\n'.join(names) or '(empty)'

    def glob(self, pattern, path, dirs=False, most=200):
        try:
            if dirs:
                files = [f.path for f in self.aio.post('file/list', path=path, recursive=True, show_hidden=False).files
                         if re.search(pattern, f.path)]
            else:
                files = self.aio.post('file/find', path=path, glob=pattern).files
        except Failure as failure:
            return f'Error: {failure}'
        files = [f for f in files if not IGNORED & set(f.split('/'))]
        if not files:
            return f'No files matched under {path}'
        cut = len(files) > most
        lines = [f'Found {min(len(files), most)} paths under {path}' + (f' (showing first {most})' if cut else '')]
        lines += [f'{k}. {name}' for k, name in enumerate(files[:most], 1)]
        return '\n'.join(lines + ['Results truncated. Narrow the path or pattern to see fewer matches.'] * cut)

    def grep(self, pattern, path, literal=False, case_sensitive=False, most=100):
        try:
            data = self.aio.post('file/grep', path=path, pattern=pattern, case_insensitive=not case_sensitive, fixed_strings=literal,
                                 max_results=max(4 * most, most + 50), max_file_size='1M', recursive=True)
        except Failure as failure:
            return f'Error: {failure}'
        found = [m for m in data.matches if not IGNORED & set(m.file.split('/'))]
        if not found:
            return f'No matches found under {path}'
        cut = len(found) > most or bool(data.truncated)
        lines = [f'Found {min(len(found), most)} matches under {path}' + (f' (showing first {most})' if cut else '')]
        lines += [f'{m.file}:{m.line_number}: {m.line_content.rstrip()}' for m in found[:most]]
        return '\n'.join(lines + ['Results truncated. Narrow the path or add a glob filter.'] * cut)

    def read_file(self, path, start=None, end=None):
        body = {'file': path}
        if start is not None:
            body['start_line'] = start - 1
        if end is not None:
            body['end_line'] = end
        try:
            return self.aio.post('file/read', **body).content or '(empty)'
        except Failure as failure:
            return f'Error: {failure}'

    def write_file(self, path, content, append=False):
        try:
            self.aio.post('file/write', file=path, content=content, **({'append': True} if append else {}))
            return 'OK'
        except Failure as failure:
            return f'Error: Failed to write file {path!r}: {failure}'

    def update_file(self, path, content):
        return self.aio.post('file/write', file=path, content=base64.b64encode(content).decode(), encoding='base64')

    def str_replace(self, path, old, new, every=False):
        content = self.read_file(path)
        if content.startswith('Error:'):
            return content
        if old not in content:
            return f'Error: String to replace not found in file: {path}'
        return self.write_file(path, content.replace(old, new) if every else content.replace(old, new, 1))

    # subagents: a session each

    def scope(self):
        session = str(uuid.uuid4())
        self.aio.post('shell/sessions/create', patience=5, id=session)
        return session

    def scoped(self, session, command, seconds=600):
        try:
            return self.told(self.exec(command, seconds, session), seconds)
        except Failure as failure:
            return f'Error: {failure}'

    def scope_end(self, session):
        return refusal(self.aio.call, 'DELETE', 'shell/sessions/' + session, timeout=5)[0]

    def abort(self, session, token):
        """As a cancelled call is ended: the session's process, then whatever carries the token."""
        refusal(self.aio.post, 'shell/kill', timeout=20, id=session)
        sweeper = self.scope()
        self.exec(f'for e in /proc/[0-9]*/environ; do tr "\\0" "\\n" 2> /dev/null < $e | grep -qxF {TOKEN}={token} || continue; '
                  'p=${e#/proc/}; kill -9 ${p%/environ} 2> /dev/null; done; true', 20, sweeper)
        self.scope_end(sweeper)


class Gateway:
    """What DeerFlow's provider does for its threads: ids, discovery, readiness, a warm pool, the end of what is idle, orphans."""

    def __init__(self, base, key=None, socket_path=None):
        self.provisioner, self.socket_path = Provisioner(base, key, socket_path), socket_path
        self.active, self.warm = {}, {}

    @staticmethod
    def sandbox_id(user, thread):
        return hashlib.sha256(f'{user}:{thread}'.encode()).hexdigest()[:16]

    def acquire(self, thread, user='default', **more):
        box = self.sandbox_id(user, thread)
        url = self.active.get(box) or self.warm.pop(box, None)
        if url and not self.provisioner.alive(box):
            url = None
        if not url:
            found = self.provisioner.find(box)
            url = found.sandbox_url if found else self.provisioner.create(box, thread, user, **more).sandbox_url
            self.ready(url)
        self.active[box] = url
        return Deer(url, self.socket_path)

    def ready(self, url):
        """The poll of the provider; how long it took, in seconds."""
        begin = time.monotonic()
        while time.monotonic() - begin < 60:
            try:
                Aio(url, socket_path=self.socket_path).context()
                return time.monotonic() - begin
            except (Failure, OSError):
                time.sleep(0.05)
        raise Broken('the sandbox failed to become ready')

    def release(self, thread, user='default'):
        box = self.sandbox_id(user, thread)
        self.warm[box] = self.active.pop(box)

    def reconcile(self):
        """Adopts what it does not know."""
        for sandbox in self.provisioner.all().sandboxes:
            if sandbox.sandbox_id not in self.active:
                self.warm.setdefault(sandbox.sandbox_id, sandbox.sandbox_url)

    def end_idle(self):
        for box in list(self.warm):
            self.provisioner.destroy(box)
            del self.warm[box]
