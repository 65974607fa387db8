"""The checks of aio_file_test.sh. Arguments: the daemon's socket, a box, which part."""
import base64, json, os, sys, time
from aio import Aio, Failure, check, finish, matches, misfit, refusal, together

socket_path, box, part = sys.argv[1:4]
aio = Aio('http://localhost/aio/' + box, socket_path=socket_path)
W = '/workspace/'


def write(file, content, **more):
    return aio.post('file/write', file=file, content=content, **more)


def read(file, **more):
    return aio.post('file/read', file=file, **more).content


def sh(command):
    """Its output, by the native API."""
    status, value = Aio('http://localhost/v1/boxes/' + box, socket_path=socket_path).http.json('POST', '/exec', {'command': command})
    return value['stdout'] + value['stderr'] if status == 200 else repr(value)


def failure(route, **body):
    """status, error_type, errno, message of a failure, whose data fits its schema."""
    try:
        return 200, aio.post(route, **body)
    except Failure as problem:
        data = problem.body.get('data') or {}
        if data and (misfit_ := misfit('FileOperationError', data)):
            return misfit_
        return problem.status, data.get('error_type'), data.get('errno'), problem.body.get('message')


def editor(command, path, **more):
    return aio.post('file/str_replace_editor', command=command, path=path, **more)


def texts():
    check('write tells what it wrote', write(W + 'a/b/c.txt', 'one\ntwo\nthree\n'), {'file': W + 'a/b/c.txt', 'bytes_written': 14})
    check('and it is there', sh('cat a/b/c.txt; stat -c %a:%U a/b/c.txt a/b'), 'one\ntwo\nthree\n644:agent\n755:agent\n')
    check('read', aio.post('file/read', file=W + 'a/b/c.txt'), {'content': 'one\ntwo\nthree\n', 'file': W + 'a/b/c.txt'})
    check('a range: from 0, its end excluded', read(W + 'a/b/c.txt', start_line=1, end_line=2), 'two')
    check('only a beginning', read(W + 'a/b/c.txt', start_line=1), 'two\nthree')
    check('only an end', read(W + 'a/b/c.txt', end_line=2), 'one\ntwo')
    check('a range behind the end', read(W + 'a/b/c.txt', start_line=7, end_line=9), '')
    check('an empty range', read(W + 'a/b/c.txt', start_line=2, end_line=1), '')
    write(W + 'crlf', 'a\r\nb\r\nc')
    check('line ends stay as they are', [read(W + 'crlf'), read(W + 'crlf', end_line=2)], ['a\r\nb\r\nc', 'a\r\nb'])
    write(W + 'empty', '')
    check('an empty file', [read(W + 'empty'), read(W + 'empty', start_line=0)], ['', ''])
    odd = 'é 漢字 😀 \u2028 "\\/\b\f\t \x00 \x1f \x7f'
    write(W + 'odd', odd)
    check('any character, both ways', [read(W + 'odd'), sh('od -An -tx1 odd | tr -d " \\n"')], [odd, odd.encode().hex()])
    sent = b'{"file":"%sraw","content":"\\u00e9\\ud83d\\ude00 \xc3\xa9\\/\\n"}' % W.encode()
    status, _, body = aio.http.send('POST', '/v1/file/write', sent, {'content-type': 'application/json'})
    check('escapes', [status, read(W + 'raw')], [200, 'é😀 é/\n'])
    sent = json.dumps({'file': W + 'bytes', 'content': 'a€😀é' * 20}, ensure_ascii=False).encode()
    status, _, body = aio.http.send('POST', '/v1/file/write', (sent[at:at + 1] for at in range(len(sent))), {'content-type': 'application/json'})
    check('characters that come byte by byte are whole', [status, read(W + 'bytes')], [200, 'a€😀é' * 20])
    write(W + 'append', 'x')
    check('append', [write(W + 'append', 'y', append=True).bytes_written, read(W + 'append')], [1, 'xy'])
    write(W + 'append', 'z', append=True, leading_newline=True, trailing_newline=True)
    check('newlines around', read(W + 'append'), 'xy\nz\n')
    write(W + 'new/one', 'a', append=True)
    check('append makes it', read(W + 'new/one'), 'a')
    together([lambda k=k: write(W + 'lines', f'{k}\n', append=True) for k in range(20)])
    check('appends at once: none is lost', sorted(read(W + 'lines').split(), key=int), [str(k) for k in range(20)])
    check('relative paths are of the workspace', [write('rel', 'r').file, read('rel'), sh('cat /workspace/rel')], ['rel', 'r', 'r'])


def contents():
    blob = bytes(range(256)) * 3 + b'\xff\xfe\0'
    check('base64', write(W + 'blob', base64.b64encode(blob).decode(), encoding='base64').bytes_written, len(blob))
    check('download gives the very bytes', aio.download(W + 'blob') == blob)
    write(W + 'latin', ''.join(map(chr, range(256))), encoding='raw')
    check('raw: a character is a byte', aio.download(W + 'latin') == bytes(range(256)))
    check('what raw has no byte for', failure('file/write', file=W + 'latin', content='ā', encoding='raw')[:2], (400, 'decode_error'))
    check('and the file is as it was', aio.download(W + 'latin') == bytes(range(256)))
    check('wrapped base64', [write(W + 'wrap', 'YWJj\nZGVm\r\n', encoding='base64').bytes_written, read(W + 'wrap')], [6, 'abcdef'])
    for bad in ('YWJ', 'YW=j', 'YWJj!', 'YQ==YQ==', '=', 'YWJjé'):
        check(f'no base64: {bad}', failure('file/write', file=W + 'wrap', content=bad, encoding='base64')[0], 400)
    check('none of it was written', read(W + 'wrap'), 'abcdef')
    got = failure('file/read', file=W + 'blob')
    check('no text: decode_error', got[:3], (400, 'decode_error', None))
    matches('with the place', got[3], "^Failed to read file: 'utf-8' codec can't decode byte 0x80 in position 128")
    large = os.urandom(20_000_000)
    check('20 MB of base64 in JSON', write(W + 'large', base64.b64encode(large).decode(), encoding='base64').bytes_written, len(large))
    check('come back', aio.download(W + 'large') == large)
    check('pinned', aio.download(W + 'large', change_policy='abort') == large)
    long = ('0123456789abcdé\n' * 65536) * 2
    write(W + 'long', long)
    check('a long text', read(W + 'long') == long)
    check('its last lines', read(W + 'long', start_line=131070), '0123456789abcdé\n0123456789abcdé')
    sh('head -c 20000000 /dev/zero | tr "\\0" "a" > big; echo >> big; echo last >> big')
    got = failure('file/read', file=W + 'big')
    check('too large for a text', got[:2], (413, 'io_error'))
    check('but not its lines', read(W + 'big', start_line=1), 'last')
    check('more than an upload may have', failure('file/write', file=W + 'huge', content='x' * 60_000_001)[0], 413)
    check('is not there', sh('ls huge 2>&1'), "ls: cannot access 'huge': No such file or directory\n")
    sh('rm large long big')


def bodies():
    def sent(body):
        status, _, text = aio.http.send('POST', '/v1/file/write', body, {'content-type': 'application/json'})
        return status, json.loads(text)
    want = {b'': 422, b'[]': 422, b'{': 422, b'{"file":"/workspace/q"}': 422, b'{"content":"x"}': 422,
            b'{"file":"/workspace/q","content":5}': 422, b'{"file":"/workspace/q","content":null}': 422,
            b'{"file":"/workspace/q","content":"\\ud800"}': 422, b'{"file":"/workspace/q","content":"\\ud800\\n"}': 422,
            b'{"file":"/workspace/q","content":"\\udc00"}': 422, b'{"file":"/workspace/q","content":"\\x"}': 422,
            b'{"file":"/workspace/q","content":"\\u12"}': 422, b'{"file":"/workspace/q","content":"\xff"}': 422,
            b'{"file":"/workspace/q","content":"\xe6\xbc"}': 422, b'{"file":"/workspace/q","content":"a\nb"}': 422,
            b'{"file":"/workspace/q","content":"abc': 422, b'{"file":"/workspace/q","content":"a","content":"b"}': 422,
            b'{"file":"/workspace/q","content":"a","encoding":"rot13"}': 422, b'{"file":"","content":"a"}': 422,
            b'{"file":"/workspace/q","content":"a"}x': 422, b'{"file":"/workspace/\\u0000","content":"a"}': 422}
    for body, status in want.items():
        got = sent(body)
        check(f'body {body[:60]!r}', (got[0], misfit('HTTPValidationError', got[1])), (status, None))
    for half in (b'\xe2', b'\xf0\x9f\x98', b'\xe2A'):
        body = b'{"file":"/workspace/q","content":"' + half + b'"}'
        check(f'half a character, byte by byte: {half!r}', sent(body[at:at + 1] for at in range(len(body)))[0], 422)
    check('and nothing was written', sh('ls q 2>&1; true'), "ls: cannot access 'q': No such file or directory\n")
    check('a name in escapes, in another order', sent(b' {"encoding":null,"\\u0063ontent":"v","append":0,"what":[{"content":"w"}],"file":"/workspace/q"} ')[0], 200)
    check('is the content', read(W + 'q'), 'v')
    check('content first', [sent(b'{"content":"first","file":"/workspace/q","sudo":false}')[0], read(W + 'q')], [200, 'first'])
    check('read: Field required', failure('file/read')[0], 422)
    check('a negative line', failure('file/read', file=W + 'q', start_line=-1)[0], 422)


def edits():
    write(W + 'e', 'a b a b a\n')
    check('replace: every place', aio.post('file/replace', file=W + 'e', old_str='a', new_str='xx').replaced_count, 3)
    check('is done', read(W + 'e'), 'xx b xx b xx\n')
    check('none', aio.post('file/replace', file=W + 'e', old_str='nope', new_str='y').replaced_count, 0)
    check('an empty text', failure('file/replace', file=W + 'e', old_str='', new_str='y')[0], 422)
    check('of no file', failure('file/replace', file=W + 'none', old_str='a', new_str='y')[:3], (404, 'not_found', 2))
    write(W + 's', 'alpha\nbeta 12\n\ngamma 7\n')
    found = aio.post('file/search', file=W + 's', regex=r'[a-z]+ (\d+)')
    check('search: lines, counted from 0', [found.matches, found.line_numbers, found.file], [['beta 12', 'gamma 7'], [1, 3], W + 's'])
    check('nothing found', aio.post('file/search', file=W + 's', regex='zzz').matches, [])
    check('search in no file', failure('file/search', file=W + 'none', regex='x')[:2], (404, 'not_found'))
    check('search in a directory', failure('file/search', file=W + 'a', regex='x')[:3], (400, 'invalid_target', 21))
    check('search in what is no text', failure('file/search', file=W + 'blob', regex='x')[:2], (400, 'decode_error'))
    check('no expression', failure('file/search', file=W + 's', regex='(')[0], 400)


def the_editor():
    made = editor('create', W + 'ed.txt', file_text='1\n2\n3\n2\n')
    check('create', [made.prev_exist, made.old_content, made.new_content, made.path], [False, None, '1\n2\n3\n2\n', W + 'ed.txt'])
    check('create over it', failure('file/str_replace_editor', command='create', path=W + 'ed.txt', file_text='x')[:2], (409, 'already_exists'))
    matches('view', editor('view', W + 'ed.txt').output, r'     1\t1\n     2\t2\n     3\t3\n     4\t2\n$')
    matches('view some', editor('view', W + 'ed.txt', view_range=[2, 3]).output, r'[^\n]*\n     2\t2\n     3\t3\n$')
    matches('view to the end', editor('view', W + 'ed.txt', view_range=[4, -1]).output, r'[^\n]*\n     4\t2\n$')
    check('no range', [failure('file/str_replace_editor', command='view', path=W + 'ed.txt', view_range=r)[0] for r in ([9, 10], [2, 1], [0, 1], [1], ['x', 'y'])], [400] * 5)
    status, text = refusal(editor, 'str_replace', W + 'ed.txt', old_str='2', new_str='two')
    check('several places', (status, text), (400, 'old_str has multiple occurrences; replace_mode is required'))
    check('no place', refusal(editor, 'str_replace', W + 'ed.txt', old_str='9', new_str='x'), (400, 'old_str not found in file'))
    got = editor('str_replace', W + 'ed.txt', old_str='2', new_str='two', replace_mode='LAST')
    check('the last one', [got.old_content, got.new_content, got.prev_exist], ['1\n2\n3\n2\n', '1\n2\n3\ntwo\n', True])
    matches('a snippet', got.output, r'     4\ttwo\n')
    check('the first one', editor('str_replace', W + 'ed.txt', old_str='2', new_str='22', replace_mode='FIRST').new_content, '1\n22\n3\ntwo\n')
    check('all', editor('str_replace', W + 'ed.txt', old_str='2', new_str='0', replace_mode='ALL').new_content, '1\n00\n3\ntwo\n')
    check('nothing instead', editor('str_replace', W + 'ed.txt', old_str='3\n').new_content, '1\n00\ntwo\n')
    check('insert', editor('insert', W + 'ed.txt', insert_line=1, new_str='new').new_content, '1\nnew\n00\ntwo\n')
    check('insert at the top', editor('insert', W + 'ed.txt', insert_line=0, new_str='top\n').new_content, 'top\n1\nnew\n00\ntwo\n')
    check('insert behind the end', failure('file/str_replace_editor', command='insert', path=W + 'ed.txt', insert_line=9, new_str='x')[0], 400)
    check('undo', editor('undo_edit', W + 'ed.txt').new_content, '1\nnew\n00\ntwo\n')
    check('is in the file', read(W + 'ed.txt'), '1\nnew\n00\ntwo\n')
    check('undo of the one before fails: the file is another', failure('file/str_replace_editor', command='undo_edit', path=W + 'ed.txt')[:2], (409, 'already_exists'))
    write(W + 'noend', 'a')
    check('insert where the last line has no end', editor('insert', W + 'noend', insert_line=1, new_str='b').new_content, 'a\nb\n')
    write(W + 'noend', 'changed')
    check('undo never takes away what came later', failure('file/str_replace_editor', command='undo_edit', path=W + 'noend')[0], 409)
    check('it is there', read(W + 'noend'), 'changed')
    check('no history', refusal(editor, 'undo_edit', W + 'noend'), (400, f'No edit history found for {W}noend'))
    editor('create', W + 'gone.txt', file_text='x')
    editor('undo_edit', W + 'gone.txt')
    check('undo of a create', failure('file/read', file=W + 'gone.txt')[0], 404)
    matches('view a directory', editor('view', W + 'a').output, r'/workspace/a/b/\n/workspace/a/b/c.txt\n')
    for command, more in (('create', {}), ('str_replace', {}), ('insert', {}), ('insert', {'insert_line': 0}), ('fly', {})):
        check(f'{command} {more} without its members', failure('file/str_replace_editor', command=command, path=W + 'ed.txt', **more)[0], 422)
    results = together([lambda k=k: editor('str_replace', W + 'many', old_str=f'<{k}>', new_str=f'[{k}]')
                        for k in range(8) if k or write(W + 'many', ''.join(f'<{k}>' for k in range(8)))])
    check('edits at once: none is lost', [sum(isinstance(r, dict) for r in results), read(W + 'many')], [8, ''.join(f'[{k}]' for k in range(8))])


def lists():
    sh('mkdir -p l/sub/deep l/.hid; cd l; printf 12345 > b.py; printf 1 > a.txt; touch .dot .hid/in sub/x.py sub/deep/y.py;'
       ' ln -s sub todir; ln -s b.py tofile; ln -s nowhere lost; touch -d @1000000000 a.txt; chmod 600 b.py')
    got = aio.post('file/list', path=W + 'l')
    check('list: by name', [f.name for f in got.files], ['.dot', '.hid', 'a.txt', 'b.py', 'lost', 'sub', 'todir', 'tofile'])
    check('counts', [got.total_count, got.directory_count, got.file_count, got.path, got.truncated], [8, 3, 5, W + 'l', False])
    by = {f.name: f for f in got.files}
    check('a file', [by['b.py'].size, by['b.py'].extension, by['b.py'].path, by['b.py'].is_directory, by['b.py'].permissions], [5, '.py', W + 'l/b.py', False, None])
    matches('its time', by['a.txt'].modified_time, '^2001-09-09T01:46:40')
    check('links are what they lead to', [by['todir'].is_directory, by['tofile'].size, by['lost'].is_directory], [True, 5, False])
    got = aio.post('file/list', path=W + 'l', recursive=True, show_hidden=False)
    check('recursive, without hidden ones', sorted(f.path[len(W) + 2:] for f in got.files),
          ['a.txt', 'b.py', 'lost', 'sub', 'sub/deep', 'sub/deep/y.py', 'sub/x.py', 'todir', 'tofile'])
    check('depth', sorted(f.name for f in aio.post('file/list', path=W + 'l', recursive=True, max_depth=2, file_types=['py']).files if not f.is_directory), ['b.py', 'x.py'])
    check('by size, downwards', [f.name for f in aio.post('file/list', path=W + 'l', sort_by='size', sort_desc=True, file_types=['.py', '.txt']).files if not f.is_directory], ['b.py', 'a.txt'])
    check('by time', [f.name for f in aio.post('file/list', path=W + 'l', sort_by='modified').files][0], 'a.txt')
    check('by type', [f.is_directory for f in aio.post('file/list', path=W + 'l', sort_by='type').files], [True] * 3 + [False] * 5)
    check('permissions', {f.name: f.permissions for f in aio.post('file/list', path=W + 'l', include_permissions=True).files}['b.py'], 'rw-------')
    check('no sizes', {f.size for f in aio.post('file/list', path=W + 'l', include_size=False).files}, {None})
    check('sort by what', failure('file/list', path=W + 'l', sort_by='smell')[0], 422)
    check('find by name, wherever', sorted(aio.post('file/find', path=W + 'l', glob='*.py').files), [W + 'l/' + p for p in ('b.py', 'sub/deep/y.py', 'sub/x.py')])
    check('find below', aio.post('file/find', path=W + 'l', glob='sub/*.py').files, [W + 'l/sub/x.py'])
    check('find across', sorted(aio.post('file/find', path=W + 'l', glob='**/deep/*').files), [W + 'l/sub/deep/y.py'])
    check('nothing found', aio.post('file/find', path=W + 'l', glob='*.rs'), {'path': W + 'l', 'files': [], 'truncated': False})
    for route, more in (('file/list', {}), ('file/find', {'glob': '*'})):
        check(f'{route} of nothing is no empty list', failure(route, path=W + 'none', **more)[:3], (404, 'not_found', 2))
        check(f'{route} of a file', failure(route, path=W + 'l/b.py', **more)[:3], (400, 'invalid_target', 20))
    sh('mkdir many.d; cd many.d; seq 10050 | xargs touch')
    got = aio.post('file/list', path=W + 'many.d')
    check('a list that is cut says so', [got.total_count, got.truncated], [10000, True])
    check('and so does find', [(f := aio.post('file/find', path=W + 'many.d', glob='*')).truncated, len(f.files)], [True, 10000])
    sh('rm -r many.d')


def transfers():
    got = aio.upload(b'\0\xffupload', 'up.bin', W + 'up/x.bin')
    check('upload', got, {'file_path': W + 'up/x.bin', 'file_size': 8, 'success': True})
    check('is there', aio.download(W + 'up/x.bin') == b'\0\xffupload')
    check('into a directory', aio.upload(b'1', 'named', W + 'up').file_path, W + 'up/named')
    check('into one that is to be made', aio.upload(b'1', 'named', W + 'other/').file_path, W + 'other/named')
    check('without a path', aio.upload(b'1', 'C:\\up\\plain.txt').file_path, W + 'plain.txt')
    check('a name that climbs is a name', aio.upload(b'1', '../../etc/climb').file_path, W + 'climb')
    check('no name', refusal(aio.upload, b'1', '..', W + 'up')[0], 422)
    status, _, _ = aio.http.send('POST', '/v1/file/upload', b'x', {'content-type': 'application/json'})
    check('no form', status, 422)
    check('an upload beyond the limit', refusal(aio.upload, b'x' * 60_000_001, 'n', W + 'too')[0], 413)
    status, headers, body = aio.http.send('GET', f'/v1/file/download?path={W}up/x.bin', headers={'Range': 'bytes=2-3'})
    check('a range of a download', [status, body, headers['content-range']], [206, b'up', 'bytes 2-3/8'])
    status, headers, body = aio.http.send('HEAD', f'/v1/file/download?path={W}up/x.bin')
    check('its head', [status, headers['content-length'], body], [200, '8', b''])
    check('no policy', refusal(aio.download, W + 'up/x.bin', change_policy='maybe')[0], 422)
    check('no path', aio.http.send('GET', '/v1/file/download')[0], 422)
    for policy in ('ignore', 'abort'):
        check(f'download of nothing, {policy}', refusal(aio.download, W + 'none', change_policy=policy)[0], 404)
        check(f'download of a directory, {policy}', refusal(aio.download, W + 'up', change_policy=policy)[0], 400)


def changing():
    """A file that is being written all the time is never taken for a whole one."""
    api = Aio('http://localhost/v1/boxes/' + box, socket_path=socket_path).http
    _, started = api.json('POST', '/processes', {'command': 'printf x > small; while [ -e small ]; do echo x >> small; done'})
    statuses = set()
    end = time.monotonic() + 60
    while 409 not in statuses and time.monotonic() < end:  # the writer may begin late
        statuses.add(refusal(aio.download, W + 'small', change_policy='abort')[0])
    check('abort: a file that changes meanwhile is 409', 409 in statuses)
    check('ignore: it is an answer', refusal(aio.download, W + 'small')[0], 200)
    sh('rm small')


def rights():
    check('cannot be written', failure('file/write', file='/etc/passwd', content='x')[:2], (403, 'permission_denied'))
    check('nor beside', failure('file/write', file='/etc/new', content='x')[:2], (403, 'permission_denied'))
    matches('in these words', failure('file/write', file='/etc/new', content='x')[3], r"^Failed to write file: \[Errno 13\] Permission denied: '/etc/new'$")
    check('sudo writes it', write('/etc/new/deep', 'secret\n', sudo=True), {'file': '/etc/new/deep', 'bytes_written': 7})
    check('as root', sh('stat -c %U:%a /etc/new/deep'), 'root:644\n')
    api = Aio('http://localhost/v1/boxes/' + box, socket_path=socket_path).http
    api.json('POST', '/exec', {'command': 'chmod 600 /etc/new/deep; chmod 700 /etc/new', 'user': 'root'})
    check('of which the agent knows nothing', failure('file/read', file='/etc/new/deep')[:3], (403, 'permission_denied', 13))
    check('sudo reads it', read('/etc/new/deep', sudo=True), 'secret\n')
    check('sudo reads lines', read('/etc/new/deep', sudo=True, start_line=0, end_line=1), 'secret')
    check('sudo appends', [write('/etc/new/deep', 'more\n', sudo=True, append=True).bytes_written, read('/etc/new/deep', sudo=True)], [5, 'secret\nmore\n'])
    check('sudo replaces', [aio.post('file/replace', file='/etc/new/deep', old_str='more', new_str='less', sudo=True).replaced_count, read('/etc/new/deep', sudo=True)], [1, 'secret\nless\n'])
    check('sudo searches', aio.post('file/search', file='/etc/new/deep', regex='le', sudo=True).matches, ['less'])
    check('its mode stays', api.json('POST', '/exec', {'command': 'stat -c %a /etc/new/deep', 'user': 'root'})[1]['stdout'], '600\n')
    check('sudo of nothing', failure('file/read', file='/etc/none', sudo=True)[:3], (404, 'not_found', 2))
    check('sudo of a directory', failure('file/read', file='/etc', sudo=True)[:3], (400, 'invalid_target', 21))
    check('a disk that is full', failure('file/write', file='/dev/full', content='x')[0] in (400, 403), True)
    check('a read-only place', failure('file/write', file='/proc/version', content='x')[0] in (400, 403), True)


def escapes():
    """Nothing outside of the box through any of them, and nothing hangs."""
    sh('mkfifo fifo; ln -s / root; ln -s ../../../../../../etc/hostname upwards; ln -s /proc/self/root magic; ln -s loop loop;'
       ' python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'sock\')"')
    inside = sh('cat /etc/hostname')
    check('a link out leads to the box', [read(W + 'upwards'), read(W + 'root/etc/hostname')], [inside, inside])
    check('so do dots', read('/workspace/../../../../etc/hostname'), inside)
    paths = {'fifo': (400, 'invalid_target'), 'sock': (400, 'invalid_target'), 'loop': (400, 'invalid_path'), 'magic/etc/hostname': None,
             '/dev/zero': (400, 'invalid_target'), '/dev/tty': None, '/proc/self/mem': None, '/proc/1/root/etc/hostname': None,
             '/proc/self/fd/0': None, '/proc/1/environ': None, 'a/b/c.txt/x': (400, 'invalid_target'), 'n' * 300: (400, 'invalid_path')}
    routes = [('file/read', 'file', {}), ('file/read', 'file', {'sudo': True}), ('file/write', 'file', {'content': 'x'}),
              ('file/write', 'file', {'content': 'x', 'append': True}), ('file/write', 'file', {'content': 'x', 'sudo': True}),
              ('file/replace', 'file', {'old_str': 'x', 'new_str': 'y'}), ('file/search', 'file', {'regex': 'x'}),
              ('file/list', 'path', {}), ('file/find', 'path', {'glob': '*'}),
              ('file/str_replace_editor', 'path', {'command': 'view'}), ('file/str_replace_editor', 'path', {'command': 'create', 'file_text': 'x'}),
              ('file/str_replace_editor', 'path', {'command': 'str_replace', 'old_str': 'x', 'new_str': 'y'})]
    for path, want in paths.items():
        bad = []
        for route, member, more in routes:
            begun = time.monotonic()
            got = failure(route, **{member: path}, **more)
            if not 400 <= got[0] < 500 or (want and route == 'file/read' and got[:2] != want) or time.monotonic() - begun > 20:
                bad.append((route, more, got))
        for policy in ('ignore', 'abort'):
            if not 400 <= refusal(aio.download, path, change_policy=policy)[0] < 500:
                bad.append(('download', policy))
        if not 400 <= refusal(aio.upload, b'x', 'n', path)[0] < 500 and path != 'n' * 300:
            bad.append('upload')
        check(f'{path[:40]}: refused by every route', bad, [])
    check('a path of 5000 bytes', failure('file/read', file='/' + 'a' * 5000)[0], 422)
    check('the box is well', sh('echo fine'), 'fine\n')
    sh('rm -f fifo root upwards magic loop sock')


def envelope():
    aio_post = lambda route, **body: aio.http.json('POST', '/v1/' + route, body)
    status, value = aio_post('file/read', file=W + 'none')
    check('a failure has status 200', [status, value['success'], value['data']['error_type'], value['data']['errno_name']], [200, False, 'not_found', 'ENOENT'])
    check('its data is whole', misfit('FileOperationError', value['data']), None)
    status, value = aio_post('file/write', file='/etc/nope', content='x')
    check('of a write as well', [status, value['success'], value['data']['exception_type'], value['data']['operation']], [200, False, 'PermissionError', 'write'])
    check('a success is one', aio_post('file/write', file=W + 'fine', content='x')[1]['success'], True)
    check('downloads keep theirs', refusal(aio.download, W + 'none')[0], 404)
    check('and what does not fit', aio_post('file/read')[0], 422)


if part == 'envelope':
    envelope()
else:
    for work in (texts, contents, bodies, edits, the_editor, lists, transfers, changing, rights, escapes):
        work()
finish()
